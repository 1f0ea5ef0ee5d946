"""The system of a step by sparse factors: slower than conjugate gradients, to compare with them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from marey.base import FloatArray
from marey.muscle._assembly_scipy import load_linear_solvers, load_sparse
from marey.muscle._solver import FREE, LinearSystem

DIRECT_TOL: Final = 1e-12  # [-] of the residual, where splines are beside the factors
MAX_REFINEMENTS: Final = 100


def solve_direct(system: LinearSystem, right: FloatArray, unknowns: FloatArray) -> tuple[int, float]:
    """Solve for the unknowns (V + R, 3) in place: factors of all but splines, then conjugate gradients with them."""
    from marey.muscle._solver_kernels import apply_system

    linear, reach = load_linear_solvers(), _expansion_matrix(system, unknowns.size)
    factors = linear.splu(
        (reach.T @ _block_matrix(system) @ reach + _own_inertia_matrix(system, unknowns.size)).tocsc()
    )
    if not len(system.blocks):
        unknowns[:] = factors.solve(right.ravel()).reshape(unknowns.shape)
        return 1, 0.0
    out, count = np.empty_like(unknowns), [0]

    def times(u: FloatArray) -> FloatArray:
        count[0] += 1
        apply_system(system, np.ascontiguousarray(u).reshape(unknowns.shape), out)
        return out.ravel() + _idle_unknowns(system, unknowns.size) * u

    shape = (unknowns.size, unknowns.size)
    found, _ = linear.cg(
        linear.LinearOperator(shape, matvec=times, dtype=np.float64), right.ravel(), rtol=DIRECT_TOL,
        maxiter=MAX_REFINEMENTS,
        M=linear.LinearOperator(shape, matvec=factors.solve, dtype=np.float64),
    )  # fmt: skip
    unknowns[:] = found.reshape(unknowns.shape)
    return count[0], DIRECT_TOL


def _block_matrix(system: LinearSystem) -> Any:
    """Blocks and volumes (3V, 3V)."""
    count = len(system.carriers)
    whole = (
        load_sparse().bsr_array((system.values, system.columns, system.starts), shape=(3 * count, 3 * count)).tocsc()
    )
    if len(system.rises):
        wide = 3 * system.columns[:, None].astype(np.int64) + np.arange(3)
        starts = 3 * system.starts.astype(np.int64)
        rises = load_sparse().csr_array((system.rises.ravel(), wide.ravel(), starts), shape=(count, 3 * count))
        whole = whole + rises.T @ load_sparse().diags_array(system.weights) @ rises
    return whole


def _expansion_matrix(system: LinearSystem, size: int) -> Any:
    """What unknowns do to velocities of nodes (3V, unknowns)."""
    count, bones = len(system.carriers), system.bones
    free = (3 * np.flatnonzero(system.carriers == FREE)[:, None] + np.arange(3)).ravel()
    rows, columns, values = [free], [free], [np.ones(len(free))]
    for d, screw in enumerate(bones.screws):
        moved = np.flatnonzero(bones.moves[bones.owners, d])
        rows.append((3 * bones.nodes[moved][:, None] + np.arange(3)).ravel())
        columns.append(np.full(3 * len(moved), 3 * count + d))
        values.append((screw[3:] + np.cross(screw[:3], bones.arms[moved])).ravel())
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return load_sparse().coo_array(entries, shape=(3 * count, size)).tocsc()


def _idle_unknowns(system: LinearSystem, size: int) -> FloatArray:
    """One for unknowns that nothing moves, so that their rows can be solved."""
    count, rates = len(system.carriers), len(system.bones.screws)
    out = np.zeros(size)
    out[: 3 * count] = np.repeat(system.carriers != FREE, 3)
    out[3 * count + rates :] = 1.0
    return out


def _own_inertia_matrix(system: LinearSystem, size: int) -> Any:
    """Inertia of rates, and ones for idle unknowns."""
    whole = load_sparse().diags_array(_idle_unknowns(system, size)).tolil()
    first, rates = 3 * len(system.carriers), len(system.bones.screws)
    if rates:
        whole[first : first + rates, first : first + rates] = system.bones.inertia
    return whole.tocsc()
