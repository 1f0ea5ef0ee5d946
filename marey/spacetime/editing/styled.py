"""Problems solved with styles, and by simplified characters ([Fang2003]_ F30, F31)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import numpy as np

from marey.base import ConvergenceError, FloatArray, InputError
from marey.numerics import NonlinearProgramme, SQPIteration, SQPResult, solve_sqp
from marey.spacetime.dispatch import build_character
from marey.spacetime.full.body_state import Character
from marey.spacetime.full.layout import FullLayout
from marey.spacetime.full.programme import FullProgramme
from marey.spacetime.full.sampling import MAX_REFINEMENTS, build_flat_guess, find_weak_instants, set_flight_unknowns
from marey.spacetime.full.solve import FullSolution, build_full_result
from marey.spacetime.full.validation import validate_full, validate_numbers
from marey.spacetime.problem.definition import SpacetimeProblem
from marey.spacetime.problem.solution import SpacetimeResult
from marey.spacetime.repair.solve import check_search_options
from marey.spacetime.style import Style, check_coordinate_map, evaluate_style

INSTANTS_PER_SPAN: Final = 2  # Gauss points at which styles are weighed


class StyledProgramme:
    """A programme of the full space whose objective has the mean of styles over time added.

    Styles see the coordinates of the tree with the root at the origin: its place follows from contacts, so what they
    say of it does not count. Rows stay as they are.
    """

    def __init__(self, inner: FullProgramme, styles: tuple[Style, ...]) -> None:
        self._inner, self._styles, self._layout = inner, styles, inner.layout
        self.lower, self.upper = inner.lower, inner.upper
        self.row_lower, self.row_upper, self.is_linear = inner.row_lower, inner.row_upper, inner.is_linear
        spline = inner.layout.timeline.spline
        times, shares = spline.gauss_times(INSTANTS_PER_SPAN)
        self._shares = shares / shares.sum()
        local = [spline.local(times, order) for order in range(3)]
        self._near = local[0][0][:, None] + np.arange(4)  # (N, 4)
        self._basis = np.stack([values for _, values in local])  # (3, N, 4)

    def values(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Objective and rows."""
        cost, rows = self._inner.values(x)
        states = self._states(x)
        return cost + sum(float(self._shares @ evaluate_style(s, *states)[0]) for s in self._styles), rows

    def derivatives(self, x: FloatArray) -> tuple[FloatArray, Any, Any]:
        """Gradient, Hessian without the styles' own, Jacobian."""
        gradient, hessian, jacobian = self._inner.derivatives(x)
        layout, states = self._layout, self._states(x)
        # Slopes of the styles by the four control points about each instant
        pull = np.zeros((layout.num_points, layout.num_angles))
        for style in self._styles:
            for order, slopes in enumerate(evaluate_style(style, *states)[1:]):
                shares = self._shares[:, None] * slopes[:, layout.figure.angles]
                np.add.at(pull, self._near, self._basis[order][:, :, None] * shares[:, None])
        total = gradient.copy()
        total[: pull.size] += pull.ravel() * layout.scales[: pull.size]
        return total, hessian, jacobian

    def row_name(self, index: int) -> str:
        """What a row asks for."""
        return self._inner.row_name(index)

    def _states(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        points = self._layout.points(x * self._layout.scales)[self._near]  # (N, 4, D)
        q, qd, qdd = (self._layout.figure.coordinates(np.einsum("na,nad->nd", basis, points)) for basis in self._basis)
        return q, qd, qdd


class SimplifiedProgramme:
    r"""A programme of the full space in fewer curves, :math:`q = S q_s`: chain rule on both sides.

    Forces are those of the whole body, so what holds here holds for it.
    """

    def __init__(self, inner: NonlinearProgramme, layout: FullLayout, S: FloatArray) -> None:
        from scipy import sparse

        tools: Any = sparse  # scipy has no stubs
        # The part of S that moves angles; columns that only slide the root are left out
        matrix = check_coordinate_map(S, layout.figure.tree.num_dofs)
        angles = matrix[layout.figure.angles]
        crowded = np.flatnonzero((angles != 0.0).sum(axis=1) > 1)
        if crowded.size:
            raise InputError(
                f"'{layout.figure.names[crowded[0]]}' follows two simplified coordinates", "Let it follow one"
            )
        kept = angles[:, (angles != 0.0).any(axis=0)]
        if not kept.shape[1]:
            raise InputError("S moves no angle", "Give it at least one column that does")
        # Unknowns of flights and impacts stay as they are
        rest = layout.num_unknowns - layout.num_curve_unknowns
        blocks = [tools.kron(tools.eye_array(layout.num_points), tools.csr_array(kept)), tools.eye_array(rest)]
        self._inner = inner
        self._T: Any = tools.csr_array(tools.block_diag(blocks[: 2 if rest else 1]))
        # Each whole unknown keeps its ends, and follows one simplified one only
        entries = self._T.tocoo()
        self.lower, self.upper = np.full(self._T.shape[1], -np.inf), np.full(self._T.shape[1], np.inf)
        ends = np.stack([inner.lower[entries.row] / entries.data, inner.upper[entries.row] / entries.data])
        ends = np.sort(ends, axis=0)
        np.maximum.at(self.lower, entries.col, ends[0])
        np.minimum.at(self.upper, entries.col, ends[1])
        if np.any(self.lower > self.upper):
            raise InputError("coordinates that move as one have limits that exclude one another", "Fuse others")
        self.row_lower, self.row_upper, self.is_linear = inner.row_lower, inner.row_upper, inner.is_linear

    def expand(self, y: FloatArray) -> FloatArray:
        """Unknowns of the whole body."""
        return np.asarray(self._T @ y)

    def reduce(self, x: FloatArray) -> FloatArray:
        """Nearest unknowns of the simplified body."""
        weights = np.asarray(self._T.multiply(self._T).sum(axis=0)).ravel()
        return np.asarray(self._T.T @ x) / weights

    def values(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Objective and rows."""
        return self._inner.values(self.expand(x))

    def derivatives(self, x: FloatArray) -> tuple[FloatArray, Any, Any]:
        """Gradient, Hessian, Jacobian."""
        gradient, hessian, jacobian = self._inner.derivatives(self.expand(x))
        T = self._T
        return np.asarray(T.T @ gradient), (T.T @ hessian @ T).tocsc(), (jacobian @ T).tocsc()

    def row_name(self, index: int) -> str:
        """What a row asks for."""
        return self._inner.row_name(index)


OnIteration = Callable[[SQPIteration], bool | None]


def optimize_styled(
    problem: SpacetimeProblem,
    *,
    styles: Sequence[Style] = (),
    S: FloatArray | None = None,
    time_limit_s: float | None = None,
    on_iteration: OnIteration | None = None,
    on_failure: Literal["raise", "return"] = "raise",
) -> SpacetimeResult:
    r"""Solve a problem in the full space with styles on its objective, or by a simplified character.

    Validity does not change: the same rows hold at the same frames ([Fang2003]_ F30). With :math:`q = S q_s` joints are
    fused, limbs mirrored or left at zero while force and momentum stay those of the whole body, so the result is
    valid for it (F31).

    Args:
        problem: what is wanted; durations are fixed.
        styles: costs of the state of a frame, see ``Style``.
        S: ``(D, d)`` on the coordinates of the character; each follows one of the simplified ones at most.
        time_limit_s: wall time [s]; the best so far is kept.
        on_iteration: sees every iteration; returns True to stop.
        on_failure: "raise" or "return" a result that is not solved.

    Raises:
        InputError: a style that gives arrays of another shape, or a map that fits no character.
        ConvergenceError: not solved; its ``report`` is the result.
    """
    began = time.perf_counter()
    check_search_options(problem.max_iterations, time_limit_s, on_failure)
    validate_numbers(problem)
    layout = FullLayout.from_problem(problem, Character.from_tree(build_character(problem)))
    validate_full(layout)
    start = build_flat_guess(layout)
    programme = FullProgramme(layout, start)
    start = set_flight_unknowns(layout, programme.settle_linear_rows(start))
    view = _ProgrammeView(layout, tuple(styles), S, on_iteration)
    solution = FullSolution(layout, programme, start, view.search(programme, start, time_limit_s), ())
    for _ in range(MAX_REFINEMENTS):
        weak = tuple(f for f in find_weak_instants(layout, solution.x) if f not in solution.extra)
        left = None if time_limit_s is None else time_limit_s - (time.perf_counter() - began)
        if not solution.answer.is_solved or not weak or (left is not None and left <= 0.0):
            break
        extra = (*solution.extra, *weak)
        finer = FullProgramme(layout, solution.x, extra=extra)
        last = view.search(finer, solution.x, left)
        if not last.is_solved:
            break
        count = solution.answer.iterations + last.iterations
        solution = FullSolution(layout, finer, start, replace(last, iterations=count), extra)
    result = build_full_result(solution, began)
    if on_failure == "raise" and not result.is_solved:
        raise ConvergenceError(result.sentence, report=result)
    return result


class _ProgrammeView:
    """Adapter of a full-space programme for the solver."""

    def __init__(
        self, layout: FullLayout, styles: tuple[Style, ...], S: FloatArray | None, on_iteration: OnIteration | None
    ) -> None:
        self._layout, self._styles, self._S, self._on_iteration = layout, styles, S, on_iteration

    def search(self, programme: FullProgramme, start: FloatArray, time_limit_s: float | None) -> SQPResult:
        """Solve from unscaled unknowns of the whole body; the answer is in its scaled ones."""
        seen: NonlinearProgramme = StyledProgramme(programme, self._styles) if self._styles else programme
        x = start / self._layout.scales
        simple = None if self._S is None else SimplifiedProgramme(seen, self._layout, self._S)
        answer = solve_sqp(
            seen if simple is None else simple,
            x if simple is None else simple.reduce(x),
            max_iterations=self._layout.problem.max_iterations,
            time_limit_s=time_limit_s,
            on_iteration=self._on_iteration,
            on_failure="return",
        )
        return answer if simple is None else replace(answer, x=np.asarray(simple.expand(answer.x)))
