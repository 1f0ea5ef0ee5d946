"""Problems solved with styles, and by simplified characters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from marey.base import ConvergenceError, FloatArray
from marey.numerics import NonlinearProgramme, SQPIteration, SQPResult, solve_sqp
from marey.spacetime._full import FullSolution, build_full_result
from marey.spacetime._full_layout import FullLayout
from marey.spacetime._full_programme import FullProgramme
from marey.spacetime._full_refine import MAX_REFINEMENTS, find_weak_instants
from marey.spacetime._full_sample import set_flight_unknowns
from marey.spacetime._full_state import Character
from marey.spacetime._guess import build_flat_guess
from marey.spacetime._optimize import build_character
from marey.spacetime._problem import SpacetimeProblem
from marey.spacetime._refusals import validate_full, validate_numbers
from marey.spacetime._repair import check_search_options
from marey.spacetime._result import SpacetimeResult
from marey.spacetime._style import Style
from marey.spacetime._style_full import SimplifiedProgramme, StyledProgramme

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
    start = set_flight_unknowns(layout, programme.settled(start))
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
    """How the solver sees a programme of the full space."""

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
