"""State: where a simulated figure is and how it moves, the quadratic forces of its motion, and geometric integration.

Rotations have blocks of three in a velocity: the root's and, in the full space, the joints'. [Tournier2011]_ §11.1.3,
(11.12) to (11.14).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, exp, isfinite, sin, sqrt, tan

import numpy as np

from marey.base import FloatArray, InputError, frozen, kernel
from marey.lie import SO3
from marey.lie.kernels import (
    exponential,
    multiply,
    quaternion_at,
    right_jacobian_times,
    rotate_xyz,
    sinc,
    third_stumpff,
    write_rotation,
)
from marey.lie.quaternions import UNIT_TOL
from marey.models.projection import EULER_LINEAR, GEODESIC_PRODUCT, LOG_LINEAR, combination
from marey.simulate.mechanism import FULL_SPACE, Mechanics, Mechanism, forward_kinematics, write_model_rotations
from marey.skeleton import Pose, Skeleton


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class State:
    r"""One instant of a simulation.

    The velocity is :math:`v = (\omega, \dot x, \dot\lambda)`; see ``Mechanism``. The momentum is the one that the
    integrator carries on, :math:`p_{k+1} = M(g_k)\,v_{k+1}`.
    """

    skeleton: Skeleton
    place: FloatArray  # (3,) [m] in world, of the centre of mass or of the pelvis
    rotations: SO3  # batch (J,), the root's in world, the others' in their parents
    coordinates: FloatArray  # (k,) of the pose model; empty in the full space
    velocity: FloatArray  # (d,)
    momentum: FloatArray  # (d,)
    root_position: FloatArray  # (3,) [m] of the pelvis
    time_s: float = 0.0
    step_s: float = 0.0  # [s] length of the step that led here: the momentum is still that of its start
    surplus_j: float = 0.0  # [J] kinetic energy that steps made out of nothing

    def __post_init__(self) -> None:
        for name, width in (("place", 3), ("coordinates", None), ("velocity", None), ("momentum", None)):
            object.__setattr__(self, name, frozen(getattr(self, name), width, name=name))
        object.__setattr__(self, "root_position", frozen(self.root_position, 3, name="root_position"))
        if self.rotations.shape != (self.skeleton.num_joints,):
            raise InputError(f"rotations have batch {self.rotations.shape}, expected ({self.skeleton.num_joints},)")
        if not np.isfinite((self.time_s, self.step_s)).all():
            raise InputError(f"time_s is {self.time_s}, step_s {self.step_s}", "Give finite times")

    @property
    def pose(self) -> Pose:
        """The pose, as every other part of the library takes it."""
        return Pose(self.skeleton, self.root_position, self.rotations)

    @property
    def kinetic_j(self) -> float:
        r"""Kinetic energy [J], :math:`\frac12 v^T p`."""
        return 0.5 * float(self.velocity @ self.momentum)

    def __repr__(self) -> str:
        speed = float(np.linalg.norm(self.velocity[3:6]))
        return f"State({self.time_s:.3f} s, {self.velocity.size} degrees of freedom, {speed:.2f} m/s)"


SLOPE_SERIES_BELOW = 0.5  # [rad²] where the closed forms of the slopes cancel


@kernel
def joint_column_rates(mech: Mechanism, coordinates: FloatArray, rates: FloatArray, turns: FloatArray) -> FloatArray:
    """How the columns of ``joint_columns`` (``turns``) change while the coordinates do: ``(J, 3, k)`` [1/s]."""
    out = np.zeros(mech.basis.shape)
    if mech.kind == FULL_SPACE:
        return out
    xi, rate = np.empty(3), np.empty(3)
    for j in range(1, mech.basis.shape[0]):
        if mech.kind == GEODESIC_PRODUCT:
            # dS/dt e_i = S e_i x sum over m > i of S e_m dlambda_m/dt: what comes after turns the column
            x = y = z = 0.0
            for i in range(rates.shape[0] - 1, -1, -1):
                a, b, c = turns[j, 0, i], turns[j, 1, i], turns[j, 2, i]
                out[j, 0, i], out[j, 1, i], out[j, 2, i] = b * z - c * y, c * x - a * z, a * y - b * x
                x, y, z = x + a * rates[i], y + b * rates[i], z + c * rates[i]
            continue
        xi[0], xi[1], xi[2] = combination(mech.basis, j, coordinates)
        rate[0], rate[1], rate[2] = combination(mech.basis, j, rates)
        if mech.kind == LOG_LINEAR or mech.kind == EULER_LINEAR:
            for r in range(3):
                xi[r] += mech.mean_wxyz[j, 1 + r]
        if mech.kind == EULER_LINEAR:
            # Columns of Euler angles change with the first two angles
            cx, sx, cy, sy = cos(xi[0]), sin(xi[0]), cos(xi[1]), sin(xi[1])
            a_rate, b_rate = rate[0], rate[1]
            for i in range(mech.basis.shape[2]):
                v, w = mech.basis[j, 1, i], mech.basis[j, 2, i]
                out[j, 0, i] = -cy * b_rate * w
                out[j, 1, i] = -sx * a_rate * v + (cx * cy * a_rate - sx * sy * b_rate) * w
                out[j, 2, i] = -cx * a_rate * v - (sx * cy * a_rate + cx * sy * b_rate) * w
        else:
            # dJ_r(xi)/dt v_i for every mode: slopes of c_2 and c_3 along the rate, and products with the rate itself
            x, y, z = xi[0], xi[1], xi[2]
            a, b, c = rate[0], rate[1], rate[2]
            # Coefficients of the right Jacobian and their slopes over the angle: c2, c3, c2'/angle, c3'/angle
            square = x * x + y * y + z * z
            half = sinc(0.5 * sqrt(square))
            c2, c3 = 0.5 * half * half, third_stumpff(square)
            if square > SLOPE_SERIES_BELOW:
                s2, s3 = (sinc(sqrt(square)) - 2.0 * c2) / square, (c2 - 3.0 * c3) / square
            else:
                power, s2, s3, factorial = 1.0, 0.0, 0.0, 2.0
                for n in range(1, 9):
                    factorial *= (2 * n + 1) * (2 * n + 2)  # (2 n + 2)!
                    sign = -1.0 if n % 2 else 1.0
                    s2 += sign * 2 * n * power / factorial
                    s3 += sign * 2 * n * power / (factorial * (2 * n + 3))
                    power *= square
            s2 *= x * a + y * b + z * c
            s3 *= x * a + y * b + z * c
            for i in range(mech.basis.shape[2]):
                u, v, w = mech.basis[j, 0, i], mech.basis[j, 1, i], mech.basis[j, 2, i]
                pu, pv, pw = y * w - z * v, z * u - x * w, x * v - y * u  # xi x v
                qu, qv, qw = b * w - c * v, c * u - a * w, a * v - b * u  # rate x v
                out[j, 0, i] = -s2 * pu - c2 * qu + s3 * (y * pw - z * pv) + c3 * (b * pw - c * pv + y * qw - z * qv)
                out[j, 1, i] = -s2 * pv - c2 * qv + s3 * (z * pu - x * pw) + c3 * (c * pu - a * pw + z * qu - x * qw)
                out[j, 2, i] = -s2 * pw - c2 * qw + s3 * (x * pv - y * pu) + c3 * (a * pv - b * pu + x * qv - y * qu)
    return out


@kernel
def add_cross(out: FloatArray, a: FloatArray, b: FloatArray) -> None:
    """Add ``a x b`` to ``out``."""
    out[0] += a[1] * b[2] - a[2] * b[1]
    out[1] += a[2] * b[0] - a[0] * b[2]
    out[2] += a[0] * b[1] - a[1] * b[0]


@kernel
def to_frame(frame: FloatArray, a: FloatArray, out: FloatArray) -> None:
    """Write a world vector in the axes of a frame."""
    for r in range(3):
        out[r] = frame[0, r] * a[0] + frame[1, r] * a[1] + frame[2, r] * a[2]


@kernel
def to_world(frame: FloatArray, a: FloatArray, out: FloatArray) -> None:
    """Write a vector of a frame in world axes."""
    for r in range(3):
        out[r] = frame[r, 0] * a[0] + frame[r, 1] * a[1] + frame[r, 2] * a[2]


@kernel
def composite_momenta(here: Mechanics, w: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Angular momentum about each joint, and linear, of all that the joint moves: ``(J, 3)`` each, in world."""
    mech, frames, joints, centres = here.mechanism, here.frames, here.joints, here.centres
    count = mech.parents.shape[0]
    moment, force = np.zeros((count, 3)), np.zeros((count, 3))
    arm, local, turned = np.zeros(3), np.zeros(3), np.zeros(3)
    for j in range(count):
        if mech.masses[j] <= 0.0:
            continue
        # Each segment alone: f = m (u + w x arm), n = I w + arm x f, about its joint
        to_frame(frames[j], w[j], local)
        for r in range(3):
            arm[r] = centres[j, r] - joints[j, r]
            force[j, r] = u[j, r]
            turned[r] = 0.0
            for c in range(3):
                turned[r] += mech.inertias[j, r, c] * local[c]
        add_cross(force[j], w[j], arm)
        to_world(frames[j], turned, moment[j])
        for r in range(3):
            force[j, r] *= mech.masses[j]
        add_cross(moment[j], arm, force[j])
    # Leaf to root: add the momentum of each child, shifted to the joint of its parent
    for j in range(count - 1, 0, -1):
        p = mech.parents[j]
        for r in range(3):
            arm[r] = joints[j, r] - joints[p, r]
            force[p, r] += force[j, r]
            moment[p, r] += moment[j, r]
        add_cross(moment[p], arm, force[j])
    return moment, force


@kernel
def compute_quadratic_forces(here: Mechanics, coordinates: FloatArray, velocity: FloatArray) -> FloatArray:
    r"""Return :math:`\partial_g T(g, v)` ``(d,)`` in the body frame, the velocity held: the quadratic forces.

    For a joint with axis a, momentum (n, f) of all it moves about its origin, twist (w, u) of its parent there:
    :math:`a\cdot(n\times w + f\times u)`. A coordinate of a pose model adds
    :math:`n\cdot(\dot S e_i - S e_i\times S\dot\lambda)` (Maurer and Cartan). Equals [Tournier2011]_'s differences.
    """
    mech, frames, joints, turns = here.mechanism, here.frames, here.joints, here.turns
    v = velocity.copy()
    if mech.is_com:
        v[3:6] = 0.0  # an even speed of the whole changes nothing inside
    rates = joint_column_rates(mech, coordinates, v[6:], turns)
    # Twist of each segment: angular velocity w and velocity u of its joint, from the root outwards
    count = mech.parents.shape[0]
    w, u, own, arm = np.zeros((count, 3)), np.zeros((count, 3)), np.zeros(3), np.zeros(3)
    for r in range(3):
        for i in range(v.shape[0]):
            w[0, r] += here.angular[0, r, i] * v[i]
            u[0, r] += here.linear[0, r, i] * v[i]
    # u_j = u_p + w_p x arm; w_j = w_p + R_j S_j qd
    for j in range(1, count):
        above = mech.parents[j]
        for r in range(3):
            own[r] = 0.0
            for i in range(turns.shape[2]):
                own[r] += turns[j, r, i] * v[6 + i]
            arm[r] = joints[j, r] - joints[above, r]
            u[j, r] = u[above, r]
        add_cross(u[j], w[above], arm)
        to_world(frames[j], own, w[j])
        for r in range(3):
            w[j, r] += w[above, r]
    # Momentum (n, f) of all that each joint moves
    moment, force = composite_momenta(here, w, u)
    out, pull, local, n, turn = np.zeros(v.shape[0]), np.zeros(3), np.zeros(3), np.zeros(3), np.zeros(3)
    # The root turns: f x u
    add_cross(pull, force[0], u[0])
    to_frame(frames[0], pull, out)
    for j in range(1, mech.parents.shape[0]):
        p = mech.parents[j]
        # Joint: n x w_p + f x u, in its own frame
        pull[:] = 0.0
        add_cross(pull, moment[j], w[p])
        add_cross(pull, force[j], u[j])
        to_frame(frames[j], pull, local)
        to_frame(frames[j], moment[j], n)
        # A pose model's columns do not commute: n x (S qd) is the Maurer-Cartan term
        if mech.kind != FULL_SPACE:
            for r in range(3):
                pull[r] = w[j, r] - w[p, r]
            to_frame(frames[j], pull, turn)
            add_cross(local, n, turn)
        for r in range(3):
            # Project onto the columns, and add n . dS/dt e_i
            for i in range(turns.shape[2]):
                out[6 + i] += turns[j, r, i] * local[r] + rates[j, r, i] * n[r]
    return out


NAIVE, IDENTITY, CONSTANT = 0, 1, 2
SURPLUS_DECAY_S = 5.0  # [s] decay time of the tolerated energy surplus of an explicit scheme
INVERSE_SERIES_BELOW = 1e-4  # [rad²] where the closed form of the inverse cancels


@kernel
def left_jacobian_inverse_times(
    x: float, y: float, z: float, a: float, b: float, c: float
) -> tuple[float, float, float]:
    r"""Return :math:`J_l^{-1}(\xi)\,v = v - \frac12\,\xi\times v + c\,\xi\times(\xi\times v)`."""
    square = x * x + y * y + z * z
    # c = (1 - (t/2) cot(t/2)) / t^2 with t = |xi|; its series where the closed form cancels
    if square < INVERSE_SERIES_BELOW:
        scale = 1.0 / 12.0 + square / 720.0 + square * square / 30240.0
    else:
        half = 0.5 * sqrt(square)
        scale = (1.0 - half / tan(half)) / square
    # xi x v, and from it xi x (xi x v)
    p, q, r = y * c - z * b, z * a - x * c, x * b - y * a
    return (
        a - 0.5 * p + scale * (y * r - z * q),
        b - 0.5 * q + scale * (z * p - x * r),
        c - 0.5 * r + scale * (x * q - y * p),
    )


@kernel
def momentum_right_hand_side(
    mech: Mechanism, scheme: int, h: float, last: float, v: FloatArray, p: FloatArray, force: FloatArray
) -> FloatArray:
    r"""Right-hand side ``(d,)`` of :math:`M(g_k)\,v_{k+1} = \ldots` from the momentum of the last step and the forces.

    ``NAIVE`` :math:`p + hF` (11.14); ``IDENTITY`` :math:`J_r^{-T}(hv)\,p + hF` (11.12); ``CONSTANT``
    :math:`Ad^T_{\exp hv}\,p + h J_l^T(hv)\,F` (11.13), simplified since the factors commute. The momentum is carried
    over the ``last`` step, whose length [s] may have been another.
    """
    # (11.14): p + h F, which already is right for translations and model coordinates
    out = p + h * force
    if scheme == NAIVE:
        return out
    # Each rotation is a block of three: the root's at 0, those of the joints from 6 on
    for n in range(1 + mech.joints.shape[0]):
        i = 0 if n == 0 else 6 + 3 * (n - 1)
        x, y, z = v[i], v[i + 1], v[i + 2]
        if scheme == CONSTANT:
            # (11.13): R(exp -h v) p + h J_l^T(h v) F; J_l^T is J_r
            e0, e1, e2, e3 = exponential(-last * x, -last * y, -last * z)
            a, b, c = rotate_xyz(e0, e1, e2, e3, p[i], p[i + 1], p[i + 2])
            d, e, f = right_jacobian_times(h * x, h * y, h * z, force[i], force[i + 1], force[i + 2])
            out[i], out[i + 1], out[i + 2] = a + h * d, b + h * e, c + h * f
        else:
            # (11.12): J_r^{-T}(h v) p + h F; J_r^{-T} is J_l^{-1}
            a, b, c = left_jacobian_inverse_times(last * x, last * y, last * z, p[i], p[i + 1], p[i + 2])
            out[i], out[i + 1], out[i + 2] = a + h * force[i], b + h * force[i + 1], c + h * force[i + 2]
    return out


@kernel
def integrate_configuration(
    mech: Mechanism, h: float, v: FloatArray, place: FloatArray, wxyz: FloatArray, coordinates: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Place, local rotations and coordinates after :math:`g_{k+1} = g_k \exp(h v_{k+1})`."""
    turned = wxyz.copy()
    # Root, then ball joints of the full space: R exp(h w)
    for n in range(1 + mech.joints.shape[0]):
        i, j = (0, 0) if n == 0 else (6 + 3 * (n - 1), mech.joints[n - 1])
        step = exponential(h * v[i], h * v[i + 1], h * v[i + 2])
        write_rotation(turned[j], multiply(quaternion_at(turned, j), step))
    # A model's coordinates are a vector space; the full space has none besides its rotations
    shape = coordinates + h * v[6:] if mech.joints.shape[0] == 0 else coordinates.copy()
    return place + h * v[3:6], turned, shape


@kernel
def state_after_step(
    mech: Mechanism,
    h: float,
    v: FloatArray,
    inertia: FloatArray,
    place: FloatArray,
    wxyz: FloatArray,
    coordinates: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, bool]:
    """Place, rotations, coordinates, momentum and pelvis after a step with a velocity; and whether all are finite."""
    to, turned, shape = integrate_configuration(mech, h, v, place, wxyz, coordinates)
    write_model_rotations(mech, shape, turned)
    # Norms that have drifted by more than rounding
    for j in range(turned.shape[0]):
        w, x, y, z = turned[j, 0], turned[j, 1], turned[j, 2], turned[j, 3]
        norm = sqrt(w * w + x * x + y * y + z * z)
        if abs(norm - 1.0) > UNIT_TOL:
            turned[j, 0], turned[j, 1], turned[j, 2], turned[j, 3] = w / norm, x / norm, y / norm, z / norm
    pelvis = forward_kinematics(mech, to, turned)[1][0].copy()
    momentum = inertia @ v
    is_finite = isfinite(momentum.sum()) and isfinite(turned.sum()) and isfinite(pelvis.sum()) and isfinite(v @ v)
    return to, turned, shape, momentum, pelvis, is_finite


@kernel
def energy_surplus(
    surplus: float, h: float, v: FloatArray, p: FloatArray, new: FloatArray, momentum: FloatArray, impulse: FloatArray
) -> tuple[float, float, float, float]:
    r"""Energy [J] from nowhere, so far and in this step, kinetic energy and work of a step to (new, momentum).

    The work is :math:`\frac12 (v_k + v_{k+1})^T f`, with the impulse f of all that is not the figure's own. What came
    from nowhere is forgotten within ``SURPLUS_DECAY_S``, and is lost in proportion where forces take energy away.
    """
    # Kinetic energies v^T p / 2 and the work of the impulse along the mean velocity
    before = after = work = 0.0
    for i in range(v.shape[0]):
        before += 0.5 * v[i] * p[i]
        after += 0.5 * new[i] * momentum[i]
        work += 0.5 * impulse[i] * (v[i] + new[i])
    # The old surplus decays with time, and with the energy that forces take away
    kept = exp(-h / SURPLUS_DECAY_S) * (max(0.0, 1.0 + min(0.0, work / before)) if before > 0.0 else 0.0)
    gain = after - before - work
    return min(after, max(0.0, kept * surplus + gain)), gain, after, work
