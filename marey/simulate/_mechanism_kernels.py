r"""Compiled mechanics of a figure in few coordinates: where it is, its Jacobians, inertia, momenta and own forces.

With :math:`L = T - V` in left-trivialised velocities, every term that an integrator needs comes from the columns that
carry a velocity to the twists of the segments. [Tournier2011]_ §11.1.2; the own forces by [Featherstone2008]_'s
composite momenta in place of the central differences of the source.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from marey.base import FloatArray, kernel
from marey.lie._rotation_kernels import product, sine_over, third_stumpff
from marey.models._arrays import LINEAR_TANGENT, LOG_LINEAR
from marey.models._model_kernels import combination, model_jacobian, model_rotations
from marey.simulate._mechanism import FULL_SPACE, Mechanism

SERIES_BELOW = 0.5  # [rad²] where the closed forms of the slopes cancel
DIFFERENCE_RAD = 1e-5  # [rad] of the directional difference, for models without a closed form


@kernel
def cross_into(out: FloatArray, a: FloatArray, b: FloatArray) -> None:
    """Add ``a x b`` to ``out``."""
    out[0] += a[1] * b[2] - a[2] * b[1]
    out[1] += a[2] * b[0] - a[0] * b[2]
    out[2] += a[0] * b[1] - a[1] * b[0]


@kernel
def matrix_of(q: FloatArray, out: FloatArray) -> None:
    """Rotation matrix of a unit quaternion."""
    w, x, y, z = q[0], q[1], q[2], q[3]
    out[0, 0], out[0, 1], out[0, 2] = 1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)
    out[1, 0], out[1, 1], out[1, 2] = 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)
    out[2, 0], out[2, 1], out[2, 2] = 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)


@kernel
def shaped(mech: Mechanism, coordinates: FloatArray, wxyz: FloatArray) -> None:
    """Write the local rotations of the coordinates of a pose model; root and full space stay as they are."""
    if mech.kind == FULL_SPACE:
        return
    root = wxyz[0].copy()
    model_rotations(mech.kind, mech.mean_wxyz, mech.basis, coordinates, wxyz)
    wxyz[0] = root


@kernel
def placed(
    mech: Mechanism, place: FloatArray, wxyz: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """World frames ``(J, 3, 3)``, joints ``(J, 3)``, centres of segments ``(J, 3)`` and centre of mass ``(3,)`` [m]."""
    count = mech.parents.shape[0]
    frames, joints, centres, com = np.empty((count, 3, 3)), np.zeros((count, 3)), np.zeros((count, 3)), np.zeros(3)
    world = np.empty((count, 4))
    total = 0.0
    for j in range(count):
        p = mech.parents[j]
        if p < 0:
            world[j] = wxyz[j]
        else:
            a, b = world[p], wxyz[j]
            w, x, y, z = product(a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3])
            world[j, 0], world[j, 1], world[j, 2], world[j, 3] = w, x, y, z
            for r in range(3):
                step = 0.0
                for c in range(3):
                    step += frames[p, r, c] * mech.offsets[j, c]
                joints[j, r] = joints[p, r] + step
        matrix_of(world[j], frames[j])
        mass = mech.masses[j]
        total += mass
        for r in range(3):
            step = 0.0
            for c in range(3):
                step += frames[j, r, c] * mech.centres[j, c]
            centres[j, r] = joints[j, r] + step
            com[r] += mass * centres[j, r]
    com /= total
    shift = place - com if mech.is_com else place.copy()
    joints += shift
    centres += shift
    com += shift
    return frames, joints, centres, com


@kernel
def joint_columns(mech: Mechanism, coordinates: FloatArray) -> FloatArray:
    """How each joint turns with each coordinate, in its own frame: ``(J, 3, k)``."""
    if mech.kind == FULL_SPACE:
        return mech.basis.copy()
    columns = np.empty(mech.basis.shape)
    model_jacobian(mech.kind, mech.mean_wxyz, mech.basis, coordinates, columns)
    columns[0] = 0.0
    return columns


@kernel
def twist_columns(
    mech: Mechanism, frames: FloatArray, joints: FloatArray, centres: FloatArray, turns: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Jacobians in world axes: angular ``(J, 3, d)``, of the joints' origins ``(J, 3, d)``, of the mass centre ``(3, d)``."""
    count, size = mech.parents.shape[0], 6 + turns.shape[2]
    angular, linear, com = np.zeros((count, 3, size)), np.zeros((count, 3, size)), np.zeros((3, size))
    for j in range(count):
        p = mech.parents[j]
        if p < 0:
            angular[j, :, :3] = frames[j]
            for r in range(3):
                linear[j, r, 3 + r] = 1.0
        else:
            x, y, z = joints[j, 0] - joints[p, 0], joints[j, 1] - joints[p, 1], joints[j, 2] - joints[p, 2]
            for i in range(size):
                a, b, c = angular[p, 0, i], angular[p, 1, i], angular[p, 2, i]
                angular[j, 0, i], angular[j, 1, i], angular[j, 2, i] = a, b, c
                linear[j, 0, i] = linear[p, 0, i] + b * z - c * y
                linear[j, 1, i] = linear[p, 1, i] + c * x - a * z
                linear[j, 2, i] = linear[p, 2, i] + a * y - b * x
            for i in range(size - 6):
                u, v, w = turns[j, 0, i], turns[j, 1, i], turns[j, 2, i]
                if u != 0.0 or v != 0.0 or w != 0.0:
                    for r in range(3):
                        angular[j, r, 6 + i] += frames[j, r, 0] * u + frames[j, r, 1] * v + frames[j, r, 2] * w
    total = mech.masses.sum()
    for j in range(count):
        if mech.masses[j] > 0.0:
            share = mech.masses[j] / total
            x, y, z = centres[j, 0] - joints[j, 0], centres[j, 1] - joints[j, 1], centres[j, 2] - joints[j, 2]
            for i in range(size):
                a, b, c = angular[j, 0, i], angular[j, 1, i], angular[j, 2, i]
                com[0, i] += share * (linear[j, 0, i] + b * z - c * y)
                com[1, i] += share * (linear[j, 1, i] + c * x - a * z)
                com[2, i] += share * (linear[j, 2, i] + a * y - b * x)
    if mech.is_com:
        for i in range(size):
            if i < 3 or i > 5:
                for r in range(3):
                    for j in range(count):
                        linear[j, r, i] -= com[r, i]
                    com[r, i] = 0.0
    return angular, linear, com


@kernel
def weighted_columns(
    mech: Mechanism,
    frames: FloatArray,
    joints: FloatArray,
    centres: FloatArray,
    angular: FloatArray,
    linear: FloatArray,
) -> FloatArray:
    """Square roots of masses times twists, stacked ``(6 S, d)`` over the segments with mass: its square is the inertia."""
    heavy = np.flatnonzero(mech.masses > 0.0)
    size = angular.shape[2]
    rows = np.empty((6 * heavy.shape[0], size))
    for n in range(heavy.shape[0]):
        j = heavy[n]
        root = sqrt(mech.masses[j])
        x, y, z = centres[j, 0] - joints[j, 0], centres[j, 1] - joints[j, 1], centres[j, 2] - joints[j, 2]
        lower = mech.inertia_roots[j] @ np.ascontiguousarray(frames[j].T)
        for i in range(size):
            a, b, c = angular[j, 0, i], angular[j, 1, i], angular[j, 2, i]
            rows[6 * n, i] = root * (linear[j, 0, i] + b * z - c * y)
            rows[6 * n + 1, i] = root * (linear[j, 1, i] + c * x - a * z)
            rows[6 * n + 2, i] = root * (linear[j, 2, i] + a * y - b * x)
            for r in range(3):
                rows[6 * n + 3 + r, i] = lower[r, 0] * a + lower[r, 1] * b + lower[r, 2] * c
    return rows


@kernel
def mechanics_at(
    mech: Mechanism, place: FloatArray, wxyz: FloatArray, coordinates: FloatArray
) -> tuple[FloatArray, ...]:
    """Frames, joints, centres, centre of mass, turns of joints, angular, linear, com columns, and inertia ``(d, d)``."""
    frames, joints, centres, com = placed(mech, place, wxyz)
    turns = joint_columns(mech, coordinates)
    angular, linear, com_columns = twist_columns(mech, frames, joints, centres, turns)
    rows = weighted_columns(mech, frames, joints, centres, angular, linear)
    inertia = rows.T @ rows
    for i in range(mech.armature.shape[0]):
        inertia[6 + i, 6 + i] += mech.armature[i]
    return frames, joints, centres, com, turns, angular, linear, com_columns, inertia


@kernel
def momentum_matrix(
    mech: Mechanism,
    frames: FloatArray,
    joints: FloatArray,
    centres: FloatArray,
    com: FloatArray,
    angular: FloatArray,
    linear: FloatArray,
) -> FloatArray:
    r"""Matrix ``(6, d)`` from a velocity to the angular momentum about the mass centre and the linear one, in world.

    [Tournier2011]_ §15.2: :math:`a = \sum_i R_i I_i \omega_i + m_i (c_i - c)\times\dot c_i`.
    """
    size = angular.shape[2]
    out = np.zeros((6, size))
    for j in range(mech.parents.shape[0]):
        mass = mech.masses[j]
        if mass <= 0.0:
            continue
        inertia = frames[j] @ mech.inertias[j] @ np.ascontiguousarray(frames[j].T)
        x, y, z = centres[j, 0] - joints[j, 0], centres[j, 1] - joints[j, 1], centres[j, 2] - joints[j, 2]
        px, py, pz = centres[j, 0] - com[0], centres[j, 1] - com[1], centres[j, 2] - com[2]
        for i in range(size):
            a, b, c = angular[j, 0, i], angular[j, 1, i], angular[j, 2, i]
            u = mass * (linear[j, 0, i] + b * z - c * y)
            v = mass * (linear[j, 1, i] + c * x - a * z)
            w = mass * (linear[j, 2, i] + a * y - b * x)
            out[0, i] += inertia[0, 0] * a + inertia[0, 1] * b + inertia[0, 2] * c + py * w - pz * v
            out[1, i] += inertia[1, 0] * a + inertia[1, 1] * b + inertia[1, 2] * c + pz * u - px * w
            out[2, i] += inertia[2, 0] * a + inertia[2, 1] * b + inertia[2, 2] * c + px * v - py * u
            out[3, i] += u
            out[4, i] += v
            out[5, i] += w
    return out


@kernel
def _slopes(square: float) -> tuple[float, float, float, float]:
    r"""Coefficients of :math:`J_r` and their slopes over :math:`\theta`: :math:`c_2, c_3, c_2'/\theta, c_3'/\theta`."""
    half = sine_over(0.5 * sqrt(square))
    c2, c3 = 0.5 * half * half, third_stumpff(square)
    if square > SERIES_BELOW:
        return c2, c3, (sine_over(sqrt(square)) - 2.0 * c2) / square, (c2 - 3.0 * c3) / square
    power, s2, s3, factorial = 1.0, 0.0, 0.0, 2.0
    for n in range(1, 9):
        factorial *= (2 * n + 1) * (2 * n + 2)  # (2 n + 2)!
        sign = -1.0 if n % 2 else 1.0
        s2 += sign * 2 * n * power / factorial
        s3 += sign * 2 * n * power / (factorial * (2 * n + 3))
        power *= square
    return c2, c3, s2, s3


@kernel
def _tangent_rate(xi: FloatArray, rate: FloatArray, basis: FloatArray, j: int, out: FloatArray) -> None:
    r"""Write :math:`\dot J_r(\xi)\, v_i` for every mode, while :math:`\xi` changes at a rate."""
    x, y, z = xi[0], xi[1], xi[2]
    a, b, c = rate[0], rate[1], rate[2]
    c2, c3, s2, s3 = _slopes(x * x + y * y + z * z)
    s2 *= x * a + y * b + z * c
    s3 *= x * a + y * b + z * c
    for i in range(basis.shape[2]):
        u, v, w = basis[j, 0, i], basis[j, 1, i], basis[j, 2, i]
        pu, pv, pw = y * w - z * v, z * u - x * w, x * v - y * u  # xi x v
        qu, qv, qw = b * w - c * v, c * u - a * w, a * v - b * u  # rate x v
        out[j, 0, i] = -s2 * pu - c2 * qu + s3 * (y * pw - z * pv) + c3 * (b * pw - c * pv + y * qw - z * qv)
        out[j, 1, i] = -s2 * pv - c2 * qv + s3 * (z * pu - x * pw) + c3 * (c * pu - a * pw + z * qu - x * qw)
        out[j, 2, i] = -s2 * pw - c2 * qw + s3 * (x * pv - y * pu) + c3 * (a * pv - b * pu + x * qv - y * qu)


@kernel
def joint_column_rates(mech: Mechanism, coordinates: FloatArray, rates: FloatArray) -> FloatArray:
    """How the columns of ``joint_columns`` change while the coordinates do: ``(J, 3, k)`` [1/s]."""
    out = np.zeros(mech.basis.shape)
    if mech.kind == FULL_SPACE:
        return out
    if mech.kind == LINEAR_TANGENT or mech.kind == LOG_LINEAR:
        xi, rate = np.empty(3), np.empty(3)
        for j in range(1, mech.basis.shape[0]):
            xi[0], xi[1], xi[2] = combination(mech.basis, j, coordinates)
            if mech.kind == LOG_LINEAR:
                xi += mech.mean_wxyz[j, 1:]
            rate[0], rate[1], rate[2] = combination(mech.basis, j, rates)
            _tangent_rate(xi, rate, mech.basis, j, out)
        return out
    speed = sqrt((rates * rates).sum())
    if speed == 0.0:
        return out
    step = DIFFERENCE_RAD / speed
    ahead = joint_columns(mech, coordinates + step * rates)
    return (ahead - joint_columns(mech, coordinates - step * rates)) / (2.0 * step)


@kernel
def own_forces(
    mech: Mechanism,
    frames: FloatArray,
    joints: FloatArray,
    centres: FloatArray,
    turns: FloatArray,
    angular: FloatArray,
    linear: FloatArray,
    turn_rates: FloatArray,
    velocity: FloatArray,
) -> FloatArray:
    r"""Write :math:`\partial_g T(g, v)` ``(d,)`` in the body frame, the velocity held: the quadratic forces.

    For a joint with axis a, momentum (n, f) of all it moves about its origin, twist (w, u) of its parent there:
    :math:`a\cdot(n\times w + f\times u)`. A coordinate of a pose model adds
    :math:`n\cdot(\dot S e_i - S e_i\times S\dot\lambda)` (Maurer and Cartan). Equals [Tournier2011]_'s differences.
    """
    count, size = mech.parents.shape[0], velocity.shape[0]
    v = velocity.copy()
    if mech.is_com:
        v[3:6] = 0.0  # an even speed of the whole changes nothing inside
    w, u = np.zeros((count, 3)), np.zeros((count, 3))
    force, moment = np.zeros((count, 3)), np.zeros((count, 3))
    for j in range(count):
        for r in range(3):
            for i in range(size):
                w[j, r] += angular[j, r, i] * v[i]
                u[j, r] += linear[j, r, i] * v[i]
        if mech.masses[j] > 0.0:
            arm = centres[j] - joints[j]
            speed = u[j].copy()
            cross_into(speed, w[j], arm)
            force[j] = mech.masses[j] * speed
            moment[j] = frames[j] @ (mech.inertias[j] @ (np.ascontiguousarray(frames[j].T) @ w[j]))
            cross_into(moment[j], arm, force[j])
    for j in range(count - 1, 0, -1):
        p = mech.parents[j]
        force[p] += force[j]
        moment[p] += moment[j]
        cross_into(moment[p], joints[j] - joints[p], force[j])
    out = np.zeros(size)
    pull = np.zeros(3)
    still = np.zeros(3)
    for j in range(count):
        p = mech.parents[j]
        pull[:] = 0.0
        cross_into(pull, moment[j], w[p] if p >= 0 else still)
        cross_into(pull, force[j], u[j])
        back = np.ascontiguousarray(frames[j].T)
        local = back @ pull
        if p < 0:
            out[:3] = local
            continue
        n = back @ moment[j]
        if mech.kind != FULL_SPACE:
            turn = back @ (w[j] - w[p])
            cross_into(local, n, turn)
        for i in range(size - 6):
            for r in range(3):
                out[6 + i] += turns[j, r, i] * local[r] + turn_rates[j, r, i] * n[r]
    return out
