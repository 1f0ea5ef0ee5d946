"""Hierarchy: a task acts only where those of higher rank leave it free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.control._features import Feature, control_form
from marey.control._problem import ControlProblem
from marey.control._relaxations import Relaxation
from marey.control._solve import ControlProgramme, ControlSolution, assemble_programme, no_actuation, unpack_solution
from marey.numerics import SolveStatus

RANK: Final = 1e-6  # [-] of the strongest direction; a task that feels less of a direction leaves it free
FEASIBLE: Final = 1e-9  # [-] by which rows give way, so that the last level's solution stays one


def solve_strictly(
    problem: ControlProblem,
    relaxation: Relaxation,
    levels: Sequence[Sequence[Feature]],
    is_open: BoolArray,
    *,
    rank: float = RANK,
) -> ControlSolution:
    r"""Best plan for the first level, among those the best for the second, and so on.

    Each level is a quadratic programme in the null space of those before: :math:`z = z_{l-1} + N_{l-1}\,y`. The goals
    of ``problem`` itself count at every level: that soles stay, that contacts which press do.

    Args:
        problem: mechanics and contacts.
        relaxation: what else counts at every level.
        levels: features, first things first.
        is_open: rows ``(m,)`` that carry no force.
        rank: part of a level's strongest direction; what it feels less than this, it leaves free.
    """
    may_open, z, basis = ~problem.is_equal, None, None
    last = len(levels) - 1
    for number, features in enumerate(levels or [()]):
        quadratic, linear = control_form(features, problem.impulse.size)
        posed = problem.with_goals(problem.goal_matrix + quadratic, problem.goal_vector + linear)
        programme = assemble_programme(posed, relaxation, may_open, is_open)
        if z is None or basis is None:
            z, status = programme.solve()
            if status is not SolveStatus.CONVERGED:
                return no_actuation(problem, status)
            basis = np.diag(1.0 / np.sqrt(np.diag(programme.H)))
        else:
            y, found = _restrict_programme(programme, z, basis).solve()
            z = z + basis @ y if found is SolveStatus.CONVERGED else z
        basis = _free_directions(problem, features, basis, rank) if number < last else basis
        if not basis.shape[1]:
            break
    assert z is not None
    return unpack_solution(problem, z, SolveStatus.CONVERGED)


def _restrict_programme(programme: ControlProgramme, z: FloatArray, basis: FloatArray) -> ControlProgramme:
    """The same programme in the coordinates of a subspace through a point that keeps all rows."""
    bounded = np.isfinite(programme.low) | np.isfinite(programme.high)
    rows = np.concatenate([programme.A, np.eye(z.size)[bounded]])
    here = rows @ z
    lower = np.concatenate([programme.lower, programme.low[bounded]])
    upper = np.concatenate([programme.upper, programme.high[bounded]])
    give = FEASIBLE * (1.0 + np.abs(here))
    n = basis.shape[1]
    least: FloatArray = np.minimum(lower - here, -give)
    most: FloatArray = np.maximum(upper - here, give)
    return ControlProgramme(
        basis.T @ programme.H @ basis,
        basis.T @ (programme.H @ z + programme.g),
        rows @ basis,
        *(least, most, np.full(n, -np.inf), np.full(n, np.inf)),
    )


def _free_directions(
    problem: ControlProblem, features: Sequence[Feature], basis: FloatArray, rank_part: float
) -> FloatArray:
    """Directions ``(n, r)`` of a subspace that features do not feel."""
    from marey.control._solve_kernels import null_space

    if not features:
        return basis
    size = problem.num_actuators + problem.ends.size
    felt = np.concatenate([np.sqrt(f.weight) * f.matrix for f in features]) @ problem.response @ basis[:size]
    return basis @ null_space(felt, rank_part)
