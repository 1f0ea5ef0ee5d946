"""Fang's projected-Lagrangian method: a free step of the objective, then the shortest way back to the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from marey.base import BoolArray, FloatArray
from marey.numerics.banded import BandSystem
from marey.numerics.elastic_qp import FreeColumns
from marey.numerics.programme import (
    ADVICE,
    FIXED_WIDTH,
    NonlinearProgramme,
    SolveRecord,
    SolveStatus,
    SQPResult,
    SQPSettings,
    TrialPoint,
)

DAMPING = 1e-10  # [-] of the Hessian's largest diagonal entry; where it has a kernel it is not more than that
MAX_DAMPING = 1e-2  # [-] of the same: what conjugate gradients may ask for
LAST_DAMPING = 1e2  # [-] of the same: where nothing else moves
MAX_CG_STEPS = 600  # the thesis speaks of six for each control point of an angle
CG_TOL = 1e-12  # [-] of the first residual
CG_POOR = 1e-2  # [-] of it: what is left above this asks for more damping
MAX_ROUNDS = 8  # times rows are added to the active ones within an iteration
RETURN_SHARE = 0.8  # [-] of the step limit: for the return to the rows, the rest is for the objective
MAX_RETURNS = 2  # further returns from a point that is off its rows, with the same derivatives
MIN_TRUST = 1e-7
GOOD_RATIO, POOR_RATIO, ACCEPT_RATIO = 0.7, 0.25, 1e-4  # [-] of the foretold fall of the penalty
CREEPING = 0.02  # [-] step limit below which a search that is off its rows seeks them alone
MAX_TURNS = 16  # times it may do so, come back, or start afresh
FIRM = 1e-6  # [-] damping above which a short step does not imply convergence
GAP_SHARE = 1e-3  # [-] of the objective: a larger gap to the optimum is reported
TINY = 1e-300

_sparse: Any = sparse  # scipy has no stubs


class ProjectedSearch:
    r"""Iterates :math:`x \leftarrow x + \Delta\hat x + \Delta\tilde x`, [Fang2003]_ (6.11)-(6.15).

    :math:`H\Delta\hat x = -\nabla f`, and :math:`\Delta\tilde x` is the least correction with
    :math:`J(\Delta\hat x + \Delta\tilde x) + C = 0` on the active rows, by conjugate gradients from zero. Measured in
    the Euclidean norm, as printed, the limit is feasible but not optimal; in the norm of H it is (erratum E7). The
    thesis has no active-set rule and no safeguard. Ours: rows and bounds that the step would violate are active; where
    rows bend the step has a limit, most of it for the return; the limit follows the fall of an exact penalty, whose
    weight makes every step a descent; H is damped while conjugate gradients cannot solve for the rows; a search that
    creeps along rows it does not hold returns to them first. So it reaches the rows of the thesis's monkey bars in 16
    iterations and those of its dismount (0.8 s) to 1.1e-3 in 72, where it stalls at 1.6 times the objective of "sl1qp".
    """

    def __init__(self, programme: NonlinearProgramme, x: FloatArray, settings: SQPSettings, projection: str) -> None:
        self.programme, self.settings, self.record = programme, settings, SolveRecord(programme, settings)
        self.is_euclidean = projection == "euclidean"
        self.current = self.record.evaluate(x)
        self.record.keep(self.current)
        self.free = np.flatnonzero(programme.upper - programme.lower > FIXED_WIDTH)
        self.multipliers = np.zeros(self.current.rows.size)
        self.trust = np.inf if bool(np.all(programme.is_linear)) else settings.trust
        self.penalty, self.num_cg, self.damping, self.left = settings.penalty, 0, DAMPING, 0.0
        self.num_turns, self.num_refused = 0, 0
        self.is_returning = False
        self.columns: FreeColumns | None = None
        low, high = programme.lower[self.free], programme.upper[self.free]
        self.bounded = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
        self.unit: Any = _sparse.csr_array(_sparse.eye_array(self.free.size))[self.bounded]

    def run(self) -> SQPResult:
        """Iterate until something ends it."""
        status = None if self.current.is_finite and self.differentiate() else SolveStatus.NOT_FINITE
        while status is None:
            status = self.record.exhausted_quota() or self.iterate()
        return self.record.result(status, self.multipliers, self.advice(status))

    def differentiate(self) -> bool:
        """Factor the Hessian at the current point and take its rows, if all are finite."""
        found = self.record.derivatives(self.current.x)
        if found is None:
            return False
        gradient, hessian, jacobian = found
        if self.columns is None or not self.columns.fits(hessian, jacobian):
            self.columns = FreeColumns(hessian, jacobian, self.free)
            self.system = BandSystem(self.columns.H, _sparse.csc_array((0, self.free.size)))
        self.H, jacobian = self.columns.take(hessian, jacobian)
        self.J: Any = _sparse.csr_array(_sparse.vstack([jacobian, self.unit]))
        self.gradient = gradient[self.free]
        self.system.set_hessian(self.H.data)
        self.largest = float(self.H.diagonal().max(initial=1.0))
        self.factor(self.damping)
        return True

    def factor(self, damping: float) -> None:
        """Factor the Hessian with a share of its largest entry on the diagonal."""
        self.damping = damping
        self.system.factor(np.zeros(0), np.full(self.free.size, damping * self.largest))

    def iterate(self) -> SolveStatus | None:
        """One step, its verdict; a status ends the search."""
        before, self.num_cg = self.current, 0
        is_moved = self.move(*self.step(self.is_euclidean))
        while not is_moved and self.damping < LAST_DAMPING and not self.record.exhausted_quota():
            self.factor(max(100.0 * self.damping, 1e3 * DAMPING))
            self.trust = self.settings.trust
            is_moved = self.move(*self.step(self.is_euclidean))

        # The Hessian is damped while conjugate gradients leave much of the rows, less where they do not
        if self.left > CG_POOR and self.damping < MAX_DAMPING:
            self.factor(max(10.0 * self.damping, 1e3 * DAMPING))
        elif self.left < 0.01 * CG_POOR and self.damping > DAMPING:
            self.factor(max(0.3 * self.damping, DAMPING))

        length = float(np.abs(self.current.x - before.x).max(initial=0.0))
        if self.record.report(self.current, length, self.trust, self.penalty, is_moved, self.num_cg):
            return SolveStatus.STOPPED
        tolerance = self.settings.tolerance
        is_feasible = self.current.violation < tolerance
        is_still = is_moved and length < tolerance and length < 0.5 * self.trust
        self.num_refused = 0 if is_moved else self.num_refused + 1
        is_there = is_still and self.damping < FIRM
        if is_feasible and not self.is_returning and (is_there or self.num_refused > 1):
            return SolveStatus.CONVERGED

        # Leave the objective aside where the search creeps off its rows; start afresh where it is stuck on them
        is_creeping = not (is_feasible or self.is_returning) and self.trust < CREEPING
        is_back = self.is_returning and is_feasible
        if not (is_still or not is_moved or is_creeping or is_back):
            return None
        self.is_returning = not (is_feasible or self.is_returning)
        self.trust = self.settings.trust
        self.factor(DAMPING)
        self.num_turns += 1
        return SolveStatus.STALLED if self.num_turns >= MAX_TURNS else None

    def ends(self, trial: TrialPoint) -> tuple[FloatArray, FloatArray]:
        """How far rows and bounded variables may change down and up, from a point."""
        x, bounded = trial.x[self.free], self.bounded
        programme = self.programme
        low = [programme.row_lower - trial.rows, (programme.lower[self.free] - x)[bounded]]
        high = [programme.row_upper - trial.rows, (programme.upper[self.free] - x)[bounded]]
        return np.concatenate(low), np.concatenate(high)

    def step(self, is_euclidean: bool) -> tuple[FloatArray, BoolArray]:
        """Free step plus its correction ``(n,)``, over the free variables, and the rows that held it."""
        base = np.zeros(self.free.size) if self.is_returning else self.system.solve(-self.gradient)
        return self.return_to_rows(base, is_euclidean)

    def return_to_rows(self, base: FloatArray, is_euclidean: bool) -> tuple[FloatArray, BoolArray]:
        """A step plus the least correction that brings it to its rows; and the rows that hold it.

        Rows that would be violated are added; inequalities that would rather be left are dropped, once each.
        """
        low, high = self.ends(self.current)
        base_change: FloatArray = self.J @ base
        is_equal, moved = low == high, base_change
        active, dropped = is_equal | (moved < low) | (moved > high), np.zeros(low.size, dtype=bool)
        step = base
        for _ in range(MAX_ROUNDS):
            rows = np.flatnonzero(active)
            aims = np.clip(moved, low, high)
            correction, pushes = self.correction(active, (aims - base_change)[rows], is_euclidean)
            step = base + correction
            moved = self.J @ step
            slack = 1e-9 * (1.0 + np.abs(aims))
            # Rows that the step violates join; inequalities that pull the wrong way leave
            added = ~active & ((moved < low - slack) | (moved > high + slack))
            wrong = np.zeros(low.size, dtype=bool)
            wrong[rows] = ((aims == low)[rows] & (pushes < 0.0)) | ((aims == high)[rows] & (pushes > 0.0))
            wrong &= ~is_equal & ~dropped
            if not (added.any() or wrong.any()):
                break
            active, dropped = (active | added) & ~wrong, dropped | wrong
            moved = np.where(active, np.where(added, moved, aims), moved)
        return step, active

    def correction(self, active: BoolArray, wanted: FloatArray, is_euclidean: bool) -> tuple[FloatArray, FloatArray]:
        """Least step that satisfies the linearised active rows, and their multipliers.

        Conjugate gradients on ``J J'``, which is never formed.
        """
        rows = np.flatnonzero(active)
        J: Any = self.J[rows]
        size = self.free.size
        x, residual, direction, before = np.zeros(size), wanted.copy(), np.zeros(size), 0.0
        stop = CG_TOL * float(np.linalg.norm(wanted))
        pushes, pushing = np.zeros(rows.size), np.zeros(rows.size)
        for _ in range(min(MAX_CG_STEPS, rows.size)):
            # (6.15): the gradient of the row residual, in the Euclidean metric or in that of H (erratum E7)
            slope = J.T @ residual
            turned = slope if is_euclidean else self.system.solve(slope)
            now = float(slope @ turned)
            if now <= 0.0 or float(np.linalg.norm(residual)) <= stop:
                break
            kept = now / before if before else 0.0
            direction, pushing = turned + kept * direction, residual + kept * pushing
            image = J @ direction
            share = now / float(image @ image)
            pushes += share * pushing
            x, residual, before = x + share * direction, residual - share * image, now
            self.num_cg += 1
        self.left = float(np.linalg.norm(residual)) / max(float(np.linalg.norm(wanted)), TINY)
        return x, pushes

    def move(self, step: FloatArray, active: BoolArray) -> bool:
        """Line search along the step until the penalty decreases; return whether x changed."""
        start, back = self.current, None
        while self.trust >= MIN_TRUST and not self.record.exhausted_quota():
            if float(np.abs(step).max(initial=0.0)) > self.trust and back is None:
                back, _ = self.return_to_rows(np.zeros(self.free.size), self.is_euclidean)
            limited = step
            if back is not None:
                # Return to the rows and step along them, each shortened to its part of the limit
                along = step - back
                first = min(1.0, RETURN_SHARE * self.trust / max(float(np.abs(back).max(initial=0.0)), TINY)) * back
                rest = self.trust - float(np.abs(first).max(initial=0.0))
                limited = first + min(1.0, rest / max(float(np.abs(along).max(initial=0.0)), TINY)) * along
            trial, ratio = self.try_step(limited, active)
            length = float(np.abs(limited).max(initial=0.0))
            self.current = trial if ratio > ACCEPT_RATIO else start
            is_taken = self.current is trial and self.differentiate()
            if is_taken:
                self.record.keep(trial)
            else:
                self.current = start
            if is_taken and np.any(trial.x != start.x):
                grown = 2.0 if ratio > GOOD_RATIO else 1.0 if ratio > POOR_RATIO else 0.5
                self.trust = max(self.trust, grown * length) if grown >= 1.0 else min(self.trust, grown * length)
                return True
            self.trust = 0.35 * min(self.trust, length)
        return False

    def try_step(self, step: FloatArray, active: BoolArray) -> tuple[TrialPoint, float]:
        """The point after a step, returned to its rows if it is off them, and its share of the fall foretold."""
        start, num_rows = self.current, self.current.rows.size
        change = self.J @ step
        low, high = self.ends(start)
        # Fall of the model and of the linearised violations; the weight makes the step a descent
        outside = np.maximum(np.maximum(low - change, change - high), 0.0)[:num_rows]
        fall = -float(self.gradient @ step + 0.5 * step @ (self.H @ step)) * (not self.is_returning)
        eased = float(start.violations.sum() - outside.sum())
        if eased > 0.0 and fall < -0.5 * self.penalty * eased:
            self.penalty = -3.0 * fall / eased
        foretold = max(fall + self.penalty * eased, TINY)
        trial = self.record.evaluate(self.inside(step))
        gain = self.gain(trial)
        # Further returns with the same derivatives where rows bend
        for _ in range(MAX_RETURNS):
            if not trial.is_finite or gain > GOOD_RATIO * foretold:
                break
            aim = np.concatenate([start.rows + change[:num_rows] - trial.rows, np.zeros(self.bounded.size)])
            off = step + self.correction(active, aim[active], self.is_euclidean)[0]
            second = self.record.evaluate(self.inside(off))
            if not self.gain(second) > gain:
                break
            trial, step, gain = second, off, self.gain(second)
        return trial, gain / foretold

    def gain(self, trial: TrialPoint) -> float:
        """Fall of the penalty to a trial; of its violations alone on the way back to the rows."""
        if not trial.is_finite:
            return -np.inf
        now = self.current
        eased = self.penalty * float(now.violations.sum() - trial.violations.sum())
        return eased if self.is_returning else eased + now.objective - trial.objective

    def inside(self, step: FloatArray) -> FloatArray:
        """Current point plus a step, inside the bounds."""
        x = self.current.x.copy()
        x[self.free] += step
        return np.clip(x, self.programme.lower, self.programme.upper)

    def advice(self, status: SolveStatus) -> str:
        """Say how far above the optimum a Euclidean projection ended."""
        if not self.is_euclidean or status is not SolveStatus.CONVERGED:
            return ADVICE[status]
        step, _ = self.step(is_euclidean=False)
        gap = -float(self.gradient @ step + 0.5 * step @ (self.H @ step))
        if gap <= GAP_SHARE * (1.0 + abs(self.current.objective)):
            return ADVICE[status]
        return f"Feasible, but about {gap:.3g} above the optimum; projection='h' reaches it."
