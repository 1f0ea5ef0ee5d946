"""Sparse nonlinear programmes with many constraints: the entrance, and the l1 trust-region method.

A solve runs on one thread: on small blocks of linear algebra, a second one costs more than it brings.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.numerics.programme import (
    FIXED_WIDTH,
    NonlinearProgramme,
    OnFailure,
    OnIteration,
    SolveRecord,
    SolveStatus,
    SQPResult,
    SQPSettings,
    TrialPoint,
    check_on_failure,
    raise_if_asked,
)

if TYPE_CHECKING:
    from marey.numerics.elastic_qp import QPStep

MAX_TRUST = 2.0
MIN_TRUST = 1e-6
MAX_PENALTY = 1e6
SAFE_PENALTY = 2.0  # [-] times the largest multiplier
MAX_RELAXED = 10  # times the penalty is lowered, so that it settles
DAMPING = 1e-4  # added to the Hessian's diagonal; the acceleration term has a kernel
QP_SHARE = 0.1  # [-] of the tolerance: gap at which a quadratic programme is solved
GOOD_RATIO = 0.7  # [-] of the predicted fall: the trust region grows, no correction is asked for
POOR_RATIO = 0.25  # [-] below, the trust region shrinks
ACCEPT_RATIO = 1e-3  # [-] below, the step is refused
MAX_CORRECTIONS = 3  # back-substitutions that pull a step back to its rows
RIDGE_SHARE = 0.01  # [-] of the Hessian's mean diagonal
MIN_RIDGE = 1e-6
TINY = 1e-300
STILL_TRUST = 0.01  # below, a small predicted fall says little
STUCK_SHARE = 0.01  # [-] of the violation; a smaller decrease is not progress
STUCK_TRUST = 1e-3  # at which that is the programme's fault
MAX_STUCK = 5  # iterations without progress before a programme is called infeasible


class TrustSearch:
    """The moving state of one solve."""

    def __init__(self, programme: NonlinearProgramme, x: FloatArray, settings: SQPSettings) -> None:
        self.settings, self.record = settings, SolveRecord(programme, settings)
        self.trust, self.penalty = settings.trust, settings.penalty
        self.lower, self.upper = programme.lower, programme.upper
        self.current = self.record.evaluate(x)
        self.record.keep(self.current)
        self.multipliers = np.zeros(self.current.rows.size)
        from marey.numerics.elastic_qp import ElasticQP  # loads SciPy, which a room that only interpolates needs not

        self.qp = ElasticQP(programme)
        self.stiffness, self.num_stuck, self.num_inner, self.num_relaxed = 0.0, 0, 0, 0

    def run(self) -> SQPResult:
        """Iterate until something ends it."""
        status = None if self.current.is_finite and self.differentiate() else SolveStatus.NOT_FINITE
        while status is None:
            status = self.record.exhausted_quota() or self.iterate()
        return self.record.result(status, self.multipliers)

    def differentiate(self) -> bool:
        """Hand the derivatives at the current point to the quadratic programme, if they are finite."""
        found = self.record.derivatives(self.current.x)
        if found is None:
            return False
        self.qp.set(*found)
        # Diagonal scale of the regularisation: the objective may not depend on a variable
        self.ridge = max(RIDGE_SHARE * self.qp.mean_curvature, MIN_RIDGE)
        return True

    def iterate(self) -> SolveStatus | None:
        """One quadratic programme, its correction if needed, and the verdict; a status ends the search."""
        before, self.num_inner = self.current, 0
        step = self.solve_step()
        predicted = -step.model + self.penalty * (float(before.violations.sum()) - step.left)
        trial, actual = self.try_step(step, predicted)
        ratio = actual / max(predicted, TINY)
        is_accepted = bool(ratio > ACCEPT_RATIO) and self.move(trial)

        # The trust region follows the ratio of actual to predicted decrease
        if is_accepted and ratio > GOOD_RATIO:
            self.trust = min(2.0 * self.trust, MAX_TRUST)
        elif not is_accepted or ratio < POOR_RATIO:
            self.trust *= 0.5 if is_accepted else 0.35

        length = float(np.abs(self.current.x - before.x).max(initial=0.0))
        if self.record.report(self.current, length, self.trust, self.penalty, is_accepted, self.num_inner):
            return SolveStatus.STOPPED

        # The search ends on its rows where the objective is still, or where neither the trust region nor the rows move
        tolerance = self.settings.tolerance
        scale = self.settings.objective_tolerance * (1.0 + abs(before.objective))
        is_feasible = self.current.violation < tolerance
        is_still = (is_accepted and abs(actual) < scale) or predicted < 0.1 * scale * min(self.trust / STILL_TRUST, 1.0)
        if is_feasible and is_still:
            return SolveStatus.CONVERGED
        if self.trust < MIN_TRUST or (self.num_stuck >= MAX_STUCK and not is_feasible):
            return SolveStatus.STALLED if is_feasible else SolveStatus.INFEASIBLE
        return None

    def solve_step(self) -> QPStep:
        """Solve the quadratic programme; raise the penalty while that reduces the violation."""
        step = self.solve_qp(self.current.rows)
        now, is_held = float(self.current.violations.sum()), False
        while (
            now > self.settings.tolerance
            and now - step.left < 0.1 * now
            and not (is_held or self.record.exhausted_quota())
        ):
            was = self.penalty
            self.penalty = min(3.0 * was, MAX_PENALTY)
            firmer = self.solve_qp(self.current.rows) if was < MAX_PENALTY else step
            is_held = firmer.left > 0.99 * step.left  # the trust region holds it back, not the penalty
            if is_held:
                self.penalty = was
            else:
                step = firmer
        is_stuck = is_held and now - step.left < STUCK_SHARE * now and self.trust > STUCK_TRUST
        self.num_stuck = self.num_stuck + 1 if is_stuck else 0
        self.multipliers = step.multipliers
        return step

    def solve_qp(self, rows: FloatArray) -> QPStep:
        """Solve the elastic QP of the linearised rows inside the trust region and the bounds."""
        x = self.current.x
        low, high = np.maximum(self.lower - x, -self.trust), np.minimum(self.upper - x, self.trust)
        self.qp.stiffen(self.stiffness, DAMPING + self.stiffness * self.ridge)
        tolerance = QP_SHARE * self.settings.tolerance * (1.0 + abs(self.current.objective))
        step = self.qp.solve(rows, low, high, self.penalty, tolerance)
        self.num_inner += step.num_factors
        return step

    def try_step(self, step: QPStep, predicted: float) -> tuple[TrialPoint, float]:
        """Evaluate the step, bend it back to the rows it left, and keep the best.

        The Hessian knows nothing of how rows bend. What the Lagrangian was above its model, measured in the metric of
        the Hessian and its ridge, is added to that metric for the next step.
        """
        now, merit = self.current, self.current.merit(self.penalty)
        trial = self.record.evaluate(np.clip(now.x + step.d, self.lower, self.upper))
        if not trial.is_finite:
            return trial, -np.inf
        aim = now.rows + self.qp.linear(step.d)
        actual, point = merit - trial.merit(self.penalty), trial

        # Stiffness with which the model would have foretold f + λ'c at the end of the step
        seen = self.qp.curvature(step.d)
        rows = float(step.multipliers @ (trial.rows - now.rows - self.qp.linear(step.d)))
        objective = trial.objective - now.objective - float(self.qp.gradient @ step.d[self.qp.free]) - 0.5 * seen
        metric = seen + self.ridge * float(step.d @ step.d)
        self.stiffness = max(2.0 * (rows + objective), 0.0) / max(metric, TINY)

        # Back-substitutions with the same active rows
        for _ in range(MAX_CORRECTIONS):
            if actual > GOOD_RATIO * predicted:
                break
            point = self.record.evaluate(np.clip(point.x + self.qp.correct(point.rows - aim), self.lower, self.upper))
            gain = merit - point.merit(self.penalty)
            if not gain > actual:
                break
            trial, actual = point, gain
        if actual > POOR_RATIO * predicted:
            return trial, actual

        # Second-order correction: the programme again, with the rows as they are at the trial
        bent = self.solve_qp(trial.rows - self.qp.linear(trial.x - now.x))
        second = self.record.evaluate(np.clip(now.x + bent.d, self.lower, self.upper))
        gain = merit - second.merit(self.penalty)
        return (second, gain) if gain > actual else (trial, actual)

    def move(self, trial: TrialPoint) -> bool:
        """Make a trial the current point unless its derivatives are not finite."""
        before, self.current = self.current, trial
        if not self.differentiate():
            self.current = before
            return False
        self.record.keep(trial)
        # A penalty far above the multipliers is lowered once the rows hold: a stiff one forbids long steps
        enough = max(self.settings.penalty, SAFE_PENALTY * float(np.abs(self.multipliers).max(initial=0.0)))
        if trial.violation < self.settings.tolerance and self.penalty > 2.0 * enough and self.num_relaxed < MAX_RELAXED:
            self.penalty, self.num_relaxed = enough, self.num_relaxed + 1
        return True


_PACKAGES = ("numpy", "scipy")
_PREFIXES = ("scipy_openblas", "openblas")
_SUFFIXES = ("64_", "")

Pool = tuple[Callable[[], int], Callable[[int], object]]  # reads and sets the number of threads

_lock = Lock()
_active_callers: list[list[int]] = []  # thread counts to go back to, one entry for each running block


@contextmanager
def single_thread() -> Generator[None]:
    """Keep OpenBLAS of numpy and scipy on one thread; elsewhere (other libraries) nothing happens.

    Blocks of a hundred unknowns are done in microseconds: waking a second thread takes longer, and on a busy machine
    waiting for it made a solve fifteen times slower.
    """
    pools = _load_thread_pools()
    with _lock:
        _active_callers.append([read() for read, _ in pools])
        for _, write in pools:
            write(1)
    try:
        yield
    finally:
        with _lock:
            counts = _active_callers.pop()
            if not _active_callers:
                for (_, write), count in zip(pools, counts, strict=True):
                    write(count)


@cache
def _load_thread_pools() -> tuple[Pool, ...]:
    """Entries of the OpenBLAS libraries of numpy and scipy, by the names that wheels give them."""
    found: list[Pool] = []
    for package in _PACKAGES:
        spec = find_spec(package)
        folder = Path(spec.origin).parent.parent / f"{package}.libs" if spec and spec.origin else None
        for path in sorted(folder.glob("*openblas*")) if folder and folder.is_dir() else ():
            try:
                library = ctypes.CDLL(str(path))
            except OSError:
                continue
            for prefix, suffix in product(_PREFIXES, _SUFFIXES):
                read = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
                write = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
                if read is not None and write is not None:
                    found.append((read, write))
                    break
    return tuple(found)


Method = Literal["sl1qp", "fang2003"]
Projection = Literal["h", "euclidean"]


def solve_sqp(
    programme: NonlinearProgramme,
    start: ArrayLike,
    *,
    method: Method = "sl1qp",
    projection: Projection = "h",
    max_iterations: int = 200,
    tolerance: float = 1e-4,
    objective_tolerance: float | None = None,
    time_limit_s: float | None = None,
    trust: float = 0.5,
    penalty: float = 10.0,
    on_iteration: OnIteration | None = None,
    on_failure: OnFailure = "raise",
) -> SQPResult:
    r"""Minimise :math:`f(x)` subject to :math:`l \le c(x) \le u` and bounds, by sequential quadratic programmes.

    "sl1qp" is a trust-region method on the exact penalty :math:`f + \nu\sum\mathrm{viol}`, with a second-order
    correction ([Fang2003]_ §2.15 of the specification; the thesis gives no globalisation). "fang2003" is the projected
    Lagrangian method as printed: an unconstrained step of the objective, then the shortest return to the constraints
    by conjugate gradients; ``projection="euclidean"`` measures it as printed, which is feasible but not optimal,
    ``"h"`` in the metric of the Hessian, which is.

    Args:
        programme: objective, rows, derivatives.
        start: first guess ``(n,)``, put inside the bounds.
        method: by name.
        projection: metric of "fang2003".
        max_iterations: quadratic programmes at most, corrections apart.
        tolerance: on scaled rows, and on the relative change of the objective.
        objective_tolerance: on the latter alone, in its place.
        time_limit_s: wall time [s]; the best iterate is kept.
        trust: first radius of the trust region, in scaled variables.
        penalty: first ν.
        on_iteration: sees every iteration; returns True to stop.
        on_failure: "raise" a :class:`ConvergenceError` with the result as its report, or "return" the result.
    """
    check_on_failure(on_failure)
    if method not in ("sl1qp", "fang2003"):
        raise UnknownNameError("method", method, "solve_sqp", ("sl1qp", "fang2003"))
    if projection not in ("h", "euclidean"):
        raise UnknownNameError("projection", projection, "solve_sqp", ("h", "euclidean"))
    if not (trust > 0.0 and penalty > 0.0 and tolerance > 0.0):  # NaN is refused too
        raise InputError(f"trust {trust}, penalty {penalty}, tolerance {tolerance}", "All are positive")
    x = frozen(start, None, name="start")
    lower, upper = programme.lower, programme.upper
    if lower.shape != x.shape or upper.shape != x.shape:
        raise InputError(f"start has {x.size} variables, the bounds {lower.size} and {upper.size}")
    if not np.all(lower <= upper) or not np.all(programme.row_lower <= programme.row_upper):
        raise InputError("a lower end is above its upper end", "Lower comes first")
    x = np.clip(x, lower, upper)
    still = tolerance if objective_tolerance is None else objective_tolerance
    settings = SQPSettings(tolerance, still, trust, penalty, max_iterations, time_limit_s, on_iteration)
    with single_thread():
        if not np.any(upper - lower > FIXED_WIDTH):
            # Nothing is free: the start is the answer, or there is none
            record = SolveRecord(programme, settings)
            trial = record.evaluate(x)
            record.keep(trial)
            status = SolveStatus.INFEASIBLE if trial.is_finite else SolveStatus.NOT_FINITE
            if trial.is_finite and trial.violation < tolerance:
                status = SolveStatus.CONVERGED
            result = record.result(status, np.zeros(trial.rows.size))
        elif method == "fang2003":
            from marey.numerics.fang import ProjectedSearch

            result = ProjectedSearch(programme, x, settings, projection).run()
        else:
            result = TrustSearch(programme, x, settings).run()
    raise_if_asked("SQP", result.status, result.advice, result, on_failure)
    return result
