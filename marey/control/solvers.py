r"""Solve one control step: a quadratic programme for the actuation, then the physics that follows from it.

The programme is a convex relaxation, by name. All keep :math:`Mv = f + J^T\lambda + A^T\mu`, :math:`Jv \ge b`,
:math:`\lambda \ge 0` and the bounds on :math:`\mu`; they drop complementarity and differ in their penalty
([Tournier2011]_ §14.3; ``gap`` is ours). A plan that leans on contacts which it lifts is refined, contact by contact.
In a strict hierarchy, a task acts only where those of higher rank leave it free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Final, cast

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, UnknownNameError
from marey.control.problem import (
    ControlProblem,
    ControlProgramme,
    GoalWeights,
    ProblemRows,
    assemble_goals,
    assemble_rows,
    null_space,
    reduce_programme,
)
from marey.control.task_laws import Feature, control_form
from marey.numerics import SolveStatus

COMPLIANCE: Final = 1e-5  # [-] of the mean contact response; makes multipliers unique where contacts are redundant
RELAXATIONS: Final = ("none", "sticky", "kinetic", "workfree", "dissipative", "gap")
GAP_BALANCE: Final = 0.6  # [-] strength over gap; convex from 0.5 on, where rounding would decide


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Penalty besides the goals."""

    name: str = "gap"
    weight: float = 0.01  # of the extra objective: rho of "gap", w of "sticky", a factor for the others
    dissipation: float = 0.5  # alpha of "dissipative", between -1 and 1
    balance: float = GAP_BALANCE  # beta / rho of "gap"
    strength: float = 1e-4  # of the kinetic energy of the actuation
    laziness: float = 0.0  # of the squared work of the actuation; often makes a figure fall

    def __post_init__(self) -> None:
        if self.name not in RELAXATIONS:
            raise UnknownNameError("relaxation", str(self.name), "control", RELAXATIONS)
        for name in ("weight", "balance", "strength", "laziness"):
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0.0):
                raise InputError(f"{name} is {value}", "Give a finite number that is not negative")
        if not -1.0 <= self.dissipation <= 1.0:
            raise InputError(f"dissipation is {self.dissipation}", "It is convex only from -1 to 1")


Quadratic = tuple[FloatArray, FloatArray]


def extra_objective(problem: ControlProblem, relaxation: Relaxation) -> Quadratic:
    r"""Hessian ``(n, n)`` and gradient ``(n,)`` in :math:`z = (\mu, \lambda)` of what a relaxation adds to goals.

    - "none" (14.7): nothing; contact forces are not penalised.
    - "sticky" :math:`\|Jv - b\|^2`: contacts and joint limits prefer to stay closed.
    - "kinetic" (14.8) :math:`\frac12\lambda^T J M^{-1} J^T\lambda`: penalises contact forces, so that actuators work.
    - "workfree" (14.9): the source's choice; "dissipative" adds :math:`\alpha\,v^T A^T\mu`: slower, damped motions.
    - "gap" :math:`\lambda^T(Jv-b) + \frac\beta2\mu^TAM^{-1}A^T\mu`: complementarity, convex for
      :math:`\beta\ge\frac12`.
    """
    k, K = problem.num_actuators, problem.kinetics.gram
    away = problem.rows @ problem.kinetics.free_velocity - problem.ends
    if relaxation.name == "none":
        hessian, gradient = np.zeros_like(K), np.zeros(len(K))
    elif relaxation.name == "sticky":
        hessian, gradient = 2.0 * K[k:].T @ K[k:], 2.0 * K[k:].T @ away
    elif relaxation.name == "gap":
        touching = np.concatenate([np.zeros(k), np.ones(K.shape[0] - k)])[:, None]
        hessian = touching * K + (touching * K).T  # rows that hold exactly add nothing to the gap, and convexity
        hessian[:k, :k] = relaxation.balance * K[:k, :k]
        gradient = np.concatenate([np.zeros(k), away])
    else:
        alphas = {"kinetic": -1.0, "workfree": 0.0, "dissipative": relaxation.dissipation}
        hessian, gradient = _work_family(problem, alphas[relaxation.name])
    return relaxation.weight * hessian, relaxation.weight * gradient


def _work_family(problem: ControlProblem, alpha: float) -> Quadratic:
    r"""(14.9) plus :math:`\alpha\,v^T A^T \mu`; convex for :math:`-1 \le \alpha \le 1`; -1 is (14.8).

    .. math:: \tfrac12 v^T M v + \tfrac12\mu^T A M^{-1} A^T\mu - f^T v + f^T M^{-1} A^T\mu
    """
    k, K = problem.num_actuators, problem.kinetics.gram
    H, g = K.copy(), np.zeros(K.shape[0])
    H[:k, :k] *= 2.0 * (1.0 + alpha)
    H[:k, k:] *= 1.0 + alpha
    H[k:, :k] *= 1.0 + alpha
    g[:k] = (1.0 + alpha) * problem.kinetics.free_velocity[-k:]
    return H, g


ROUNDING: Final = 1e-11  # [-] of the squares of each column of F; more holds actuators back
FEASIBILITY: Final = 1e-9  # [-] on rows of unit length
MAX_ITERATIONS: Final = 1000  # changes of the active set at most
_STATUS: Final = {
    1: SolveStatus.CONVERGED,
    -1: SolveStatus.INFEASIBLE,
    -4: SolveStatus.ITERATION_LIMIT,
    -5: SolveStatus.NOT_CONVEX,
    -6: SolveStatus.INFEASIBLE,
}


@dataclass(frozen=True, slots=True, eq=False)
class ControlSolution:
    """Actuation of one step, and what was planned with it."""

    actuation: FloatArray  # (k,) impulses
    planned_velocity: FloatArray  # (d,) predicted by the programme; the simulation may differ
    multipliers: FloatArray  # (m,) planned contact impulses
    gap: float  # [J] planned λ'(Jv - b): zero when contacts push only where they touch
    status: SolveStatus

    @property
    def is_solved(self) -> bool:
        """Whether there is a plan at all."""
        return self.status is SolveStatus.CONVERGED


def minimise(programme: ControlProgramme) -> tuple[FloatArray, SolveStatus]:
    """Solution ``(n,)``."""
    import daqp

    inverse, slope, rows, upper, lower, sense = reduce_programme(programme)
    if not np.isfinite(inverse).all():
        return np.zeros_like(slope), SolveStatus.STALLED
    limits: Any = {"primal_tol": FEASIBILITY, "eps_prox": 0.0, "iter_limit": MAX_ITERATIONS}
    found, _, flag, _ = cast(Any, daqp).solve(np.eye(slope.size), slope, rows, upper, lower, sense, **limits)
    y = np.asarray(found, dtype=np.float64)
    if not np.isfinite(y).all():
        return np.zeros_like(slope), SolveStatus.STALLED
    return inverse @ y, _STATUS.get(int(flag), SolveStatus.STALLED)


def solve_control(problem: ControlProblem, relaxation: Relaxation | None = None) -> ControlSolution:
    """Actuation of least cost under a relaxation; zero actuation with a status where there is none."""
    chosen = Relaxation() if relaxation is None else relaxation
    return solve_programme(problem, chosen, ~problem.is_equal, np.zeros_like(problem.is_equal))


def assemble_programme(
    problem: ControlProblem,
    relaxation: Relaxation,
    may_open: BoolArray,
    is_open: BoolArray,
    closed: BoolArray | None = None,
) -> ControlProgramme:
    """Programme of a control step; rows that may not open hold exactly, rows that are open carry no force.

    Rows ``(m,)`` that are ``closed`` are held where they are by a weight.
    """
    k, m, s = problem.num_actuators, problem.ends.size, problem.fence_ends.size
    mean = float(np.trace(problem.kinetics.gram[k:, k:])) / max(m, 1)
    softness = np.repeat([COMPLIANCE * max(mean, 1e-12), 2.0 * problem.fence_weight], [m, s])
    g, extra = np.zeros(k + m + s), np.zeros((0, 0))
    if relaxation.name != "none":
        extra, g[: k + m] = extra_objective(problem, relaxation)
    held = np.zeros(m, dtype=np.bool_) if closed is None else closed
    still = (problem.rows[held], problem.ends[held], CLOSED_WEIGHT)
    weights = (relaxation.strength, relaxation.laziness, softness, ROUNDING)
    goals = GoalWeights(problem.goal_matrix, problem.goal_vector, *still, *weights)
    contacts = ProblemRows(*(getattr(problem, name) for name in ProblemRows._fields))
    bounds = assemble_rows(problem.kinetics, contacts, may_open, is_open)
    return ControlProgramme(*assemble_goals(problem.kinetics, goals, extra), g, *bounds)


def unpack_solution(problem: ControlProblem, z: FloatArray, status: SolveStatus) -> ControlSolution:
    """What the unknowns of a programme mean."""
    k, m = problem.num_actuators, problem.ends.size
    velocity = problem.kinetics.free_velocity + problem.kinetics.response @ z[: k + m]
    multipliers = z[k : k + m]
    one_sided = ~problem.is_equal & ~problem.is_friction
    gap = float(np.abs(multipliers * (problem.rows @ velocity - problem.ends))[one_sided].sum())
    return ControlSolution(z[:k], velocity, multipliers, gap, status)


def no_actuation(problem: ControlProblem, status: SolveStatus) -> ControlSolution:
    """Zero actuation, since no plan was found."""
    nothing = np.zeros(problem.num_actuators)
    return ControlSolution(nothing, problem.kinetics.free_velocity, np.zeros(problem.ends.size), 0.0, status)


def solve_programme(
    problem: ControlProblem,
    relaxation: Relaxation,
    may_open: BoolArray,
    is_open: BoolArray,
    closed: BoolArray | None = None,
) -> ControlSolution:
    """Actuation of least cost; see ``assemble_programme``."""
    z, status = minimise(assemble_programme(problem, relaxation, may_open, is_open, closed))
    return unpack_solution(problem, z, status) if status is SolveStatus.CONVERGED else no_actuation(problem, status)


CLOSED_WEIGHT: Final = 1e7  # [s²/m²] a contact that presses stays where it is
MAX_REFINEMENTS: Final = 3  # times that the contacts are looked at again
LIFTED: Final = 0.02  # [m/s] a contact that moves away faster may be meant to open
STILL_SPEED: Final = 1e-4  # [m/s] a contact that moves away faster has opened
NO_PUSH_NS: Final = 1e-7  # [N s] a contact that pushes less pushes only by rounding


def refine_contacts(
    problem: ControlProblem, relaxation: Relaxation, expected: BoolArray | None = None
) -> ControlSolution:
    """The best plan in which contacts push only where they stay.

    The search begins at the rows ``(m,)`` that are ``expected`` to push, and goes on at those of the relaxed plan where
    that leads to contradictions: a relaxed plan of a sole may lean on any of its corners.
    """
    one_sided = ~problem.is_equal & ~problem.is_friction
    best, lowest = None, np.inf
    if expected is not None and (expected & one_sided).any():
        best, lowest, is_true = _refine_set(problem, relaxation, expected & one_sided)
        if is_true:
            return best
    first = solve_control(problem, relaxation)
    if not first.is_solved or not one_sided.any():
        return first if best is None or not best.is_solved else best
    # Rows `(m,)` that may be closed: those that press, or only those that stay where they are
    away = problem.rows @ first.planned_velocity - problem.ends
    presses = find_pressing_rows(problem, first)
    stays = presses & (away < LIFTED)
    for closed in [presses] if (stays == presses).all() else [presses, stays]:
        found, cost, _ = _refine_set(problem, relaxation, closed)
        if cost < lowest:
            best, lowest = found, cost
    return first if best is None else best


def _refine_set(
    problem: ControlProblem, relaxation: Relaxation, closed: BoolArray
) -> tuple[ControlSolution, float, bool]:
    """Best plan with a set of rows ``(m,)`` closed or one near it, its goals, and whether nothing contradicts it."""
    one_sided = ~problem.is_equal & ~problem.is_friction
    # Without relaxation: the states of the contacts are fixed
    bare = replace(relaxation, name="none")
    best, lowest, is_true = no_actuation(problem, SolveStatus.STALLED), np.inf, False
    for _ in range(MAX_REFINEMENTS):
        # Best plan with this set closed; stop where it is no better
        found = solve_programme(problem, bare, ~problem.is_equal, one_sided & ~closed, closed)
        cost = problem.goal(found.planned_velocity)
        if not found.is_solved or cost >= lowest:
            break
        best, lowest = found, cost
        # Closed rows without force open where they are pulled; open rows that sink close
        lifts = problem.rows @ found.planned_velocity - problem.ends
        loose = closed & (found.multipliers <= NO_PUSH_NS) & (lifts > STILL_SPEED / 100.0)
        sunk = one_sided & ~closed & (lifts < STILL_SPEED)
        flipped = (closed & ~loose) | sunk
        is_true = bool((flipped == closed).all())
        if is_true:
            break
        closed = flipped
    return best, lowest, is_true


def find_pressing_rows(problem: ControlProblem, found: ControlSolution) -> BoolArray:
    """One-sided rows ``(m,)`` that push more than they move away, both as speeds, or stay where they are."""
    k = problem.num_actuators
    away = problem.rows @ found.planned_velocity - problem.ends
    presses = away < np.maximum(found.multipliers * np.diag(problem.kinetics.gram)[k:], STILL_SPEED)
    return presses & ~problem.is_equal & ~problem.is_friction


RANK: Final = 1e-6  # [-] of the strongest direction; a task that feels less of a direction leaves it free
FEASIBLE: Final = 1e-9  # [-] relaxation of rows, so that the solution of the last level stays feasible


def solve_strictly(
    problem: ControlProblem,
    relaxation: Relaxation,
    levels: Sequence[Sequence[Feature]],
    closed: BoolArray,
    *,
    rank: float = RANK,
) -> ControlSolution:
    r"""Best plan for the first level, among those the best for the second, and so on.

    Each level is a quadratic programme in the null space of those before: :math:`z = z_{l-1} + N_{l-1}\,y`. The goals
    of ``problem`` do not count; that contacts which press stay counts at every level.

    Args:
        problem: mechanics and contacts.
        relaxation: what else counts at every level.
        levels: features, first things first.
        closed: one-sided rows ``(m,)`` that press; the others carry no force.
        rank: part of a level's strongest direction; what it feels less than this, it leaves free.
    """
    may_open, z, basis = ~problem.is_equal, None, None
    is_open = ~closed & ~problem.is_equal & ~problem.is_friction
    last = len(levels) - 1
    for number, features in enumerate(levels or [()]):
        # Programme of this level
        quadratic, linear = control_form(features, problem.impulse.size)
        posed = problem.with_goals(quadratic, linear)
        programme = assemble_programme(posed, relaxation, may_open, is_open, closed)
        # First level: all unknowns, in units of the diagonal
        if z is None or basis is None:
            z, status = minimise(programme)
            if status is not SolveStatus.CONVERGED:
                return no_actuation(problem, status)
            basis = np.diag(1.0 / np.linalg.norm(programme.F, axis=0))
        else:
            # Later levels: z + N y, with rows relaxed by rounding so that y = 0 is feasible
            bounded = np.isfinite(programme.low) | np.isfinite(programme.high)
            rows = np.concatenate([programme.A, np.eye(z.size)[bounded]])
            here = rows @ z
            lower = np.concatenate([programme.lower, programme.low[bounded]])
            upper = np.concatenate([programme.upper, programme.high[bounded]])
            give = FEASIBLE * (1.0 + np.abs(here))
            n = basis.shape[1]
            least: FloatArray = np.minimum(lower - here, -give)
            most: FloatArray = np.maximum(upper - here, give)
            goals = (programme.F @ basis, programme.t - programme.F @ z, basis.T @ programme.g)
            free = (np.full(n, -np.inf), np.full(n, np.inf))
            y, found = minimise(ControlProgramme(*goals, rows @ basis, least, most, *free))
            z = z + basis @ y if found is SolveStatus.CONVERGED else z
        # Null space of this level within that of the levels before
        if features and number < last:
            size = problem.num_actuators + problem.ends.size
            felt = np.concatenate([np.sqrt(f.weight) * f.matrix for f in features])
            felt = felt @ problem.kinetics.response @ basis[:size]
            basis = basis @ null_space(felt, rank)
        if not basis.shape[1]:
            break
    assert z is not None
    return unpack_solution(problem, z, SolveStatus.CONVERGED)
