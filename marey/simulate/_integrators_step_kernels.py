"""Compiled step of time, but for its solve: mechanics, forces, damping and the right-hand side in one call."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.simulate._damping_kernels import add_damping
from marey.simulate._integrators_implicit_kernels import solve_variational_step
from marey.simulate._integrators_kernels import IDENTITY, momentum_right_hand_side
from marey.simulate._mechanism import Mechanism
from marey.simulate._mechanism_forces_kernels import compute_quadratic_forces
from marey.simulate._mechanism_kernels import compute_mechanics
from marey.simulate._solve_factor_kernels import cholesky, solve_cholesky


@kernel
def compute_external_forces(
    weight: FloatArray,
    pushed: IntArray,
    offsets: FloatArray,
    pushes: FloatArray,
    frames: FloatArray,
    angular: FloatArray,
    linear: FloatArray,
    com_columns: FloatArray,
) -> FloatArray:
    r"""Body covector ``(d,)`` of the weight ``(3,)`` and of forces on points, :math:`\sum J_P^T F_P`."""
    out = np.zeros(com_columns.shape[1])
    for i in range(out.shape[0]):
        out[i] = weight[0] * com_columns[0, i] + weight[1] * com_columns[1, i] + weight[2] * com_columns[2, i]
    for n in range(pushed.shape[0]):
        j = pushed[n]
        x = y = z = 0.0
        for m in range(3):
            x += frames[j, 0, m] * offsets[n, m]
            y += frames[j, 1, m] * offsets[n, m]
            z += frames[j, 2, m] * offsets[n, m]
        u, v, w = pushes[n, 0], pushes[n, 1], pushes[n, 2]
        for i in range(out.shape[0]):
            out[i] += u * linear[j, 0, i] + v * linear[j, 1, i] + w * linear[j, 2, i]
            out[i] += (y * w - z * v) * angular[j, 0, i]
            out[i] += (z * u - x * w) * angular[j, 1, i]
            out[i] += (x * v - y * u) * angular[j, 2, i]
    return out


@kernel
def assemble_step(
    mech: Mechanism,
    scheme: int,
    passes: int,
    damping: int,
    rate: float,
    h: float,
    last: float,
    place: FloatArray,
    wxyz: FloatArray,
    coordinates: FloatArray,
    velocity: FloatArray,
    momentum: FloatArray,
    weight: FloatArray,
    pushed: IntArray,
    offsets: FloatArray,
    pushes: FloatArray,
    inner: FloatArray,
) -> tuple[tuple[FloatArray, ...], FloatArray, FloatArray, FloatArray, bool]:
    r"""Mechanics, M + D, right-hand side, forces from outside, and whether all went well: one step but for its solve.

    ``passes`` times, the own forces are taken anew with the velocity that they lead to.
    """
    v, p = velocity.copy(), momentum.copy()  # so that what is called is compiled for one kind of array
    here = compute_mechanics(mech, place, wxyz, coordinates)
    frames, joints, centres, _, turns, angular, linear, com_columns, inertia = here
    outer = inner + compute_external_forces(weight, pushed, offsets, pushes, frames, angular, linear, com_columns)
    damped = add_damping(mech, damping, rate * h, inertia, frames, angular, linear)
    rhs, is_definite, upper, new = p, True, damped, v
    for n in range(passes + 1):
        own = compute_quadratic_forces(mech, coordinates, frames, joints, centres, turns, angular, linear, new)
        rhs = momentum_right_hand_side(mech, scheme, h, last, v, p, own + outer)
        if n < passes:
            if n == 0:
                upper, is_definite = cholesky(damped)
            if not is_definite:
                break
            new = solve_cholesky(upper, rhs)
    return here, damped, rhs, outer, is_definite


@kernel
def assemble_variational_step(
    mech: Mechanism,
    h: float,
    last: float,
    coordinates: FloatArray,
    velocity: FloatArray,
    momentum: FloatArray,
    here: tuple[FloatArray, ...],
    damped: FloatArray,
    rhs: FloatArray,
    outer: FloatArray,
) -> tuple[FloatArray, bool]:
    r"""Right-hand side ``(d,)`` whose solution is the velocity of the implicit step; and whether that was found.

    The search starts from the explicit right-hand side ``rhs``. Under constraints, the velocity that is nearest to the
    implicit one in the metric of M + D is taken.
    """
    v, p = velocity.copy(), momentum.copy()
    upper, is_definite = cholesky(damped)
    if not is_definite:
        return rhs, False
    carried = momentum_right_hand_side(mech, IDENTITY, 0.0, last, v, p, outer)
    found, has_converged = solve_variational_step(
        mech, h, solve_cholesky(upper, rhs), damped, carried, outer, coordinates, here
    )
    return damped @ found, has_converged
