"""Geometric integrators: how a momentum is carried on, and how a figure moves with a velocity.

Rotations have blocks of three in a velocity: the root's and, in the full space, the joints'. [Tournier2011]_ §11.1.3,
(11.12) to (11.14).
"""

from __future__ import annotations

from math import exp, isfinite, sqrt, tan

from marey.base import FloatArray, kernel
from marey.lie.kernels import (
    exponential,
    multiply,
    quaternion_at,
    right_jacobian_times,
    rotate_xyz,
    write_rotation,
)
from marey.simulate.mechanism import Mechanism, forward_kinematics, write_model_rotations

NAIVE, IDENTITY, CONSTANT = 0, 1, 2
SURPLUS_DECAY_S = 5.0  # [s] decay time of the tolerated energy surplus of an explicit scheme
SERIES_BELOW = 1e-4  # [rad²] where the closed form of the inverse cancels


@kernel
def left_jacobian_inverse_times(
    x: float, y: float, z: float, a: float, b: float, c: float
) -> tuple[float, float, float]:
    r"""Return :math:`J_l^{-1}(\xi)\,v = v - \frac12\,\xi\times v + c\,\xi\times(\xi\times v)`."""
    square = x * x + y * y + z * z
    # c = (1 - (t/2) cot(t/2)) / t^2 with t = |xi|; its series where the closed form cancels
    if square < SERIES_BELOW:
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
