"""Fang's projected-Lagrangian method: a free step of the objective, then the shortest way back to the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from marey.base import BoolArray, FloatArray
from marey.numerics._sparse_band import BandSystem
from marey.numerics._sparse_elastic import Columns
from marey.numerics._sqp_programme import FIXED_WIDTH, Programme, SQPResult, SQPSettings
from marey.numerics._sqp_record import ADVICE, Record, Trial
from marey.numerics._status import SolveStatus

DAMPING = 1e-10  # [-] of the Hessian's largest diagonal entry; where it has a kernel it is not more than that
MAX_CG_STEPS = 200  # as in LANCELOT, which the thesis used
CG_TOL = 1e-12  # [-] of the first residual
MAX_ROUNDS = 8  # times rows are added to the active ones within an iteration
MAX_HALVINGS = 3  # of a step that makes things worse, before the Hessian is damped
FIRST_DAMPING, MAX_DAMPING = 1e-6, 1e4  # [-] of the Hessian's largest diagonal entry
MEMORY = 5  # merits looked back at
GAP_SHARE = 1e-3  # [-] of the objective: a larger gap to the optimum is reported

_sparse: Any = sparse  # scipy has no stubs


class ProjectedSearch:
    r"""Iterates :math:`x \leftarrow x + \Delta\hat x + \Delta\tilde x`, [Fang2003]_ (6.11)-(6.15).

    :math:`H\Delta\hat x = -\nabla f`, and :math:`\Delta\tilde x` is the least correction with
    :math:`J(\Delta\hat x + \Delta\tilde x) + C = 0` on the active rows, by conjugate gradients from zero. Measured in
    the Euclidean norm, as printed, the limit is feasible but not optimal; in the norm of H it is (erratum E7). The
    thesis has no active-set rule and no safeguard: rows that the step would violate are active, and a step that raises
    the exact penalty above its last values is halved, then the Hessian is damped.
    """

    def __init__(self, programme: Programme, x: FloatArray, settings: SQPSettings, projection: str) -> None:
        self.programme, self.settings, self.record = programme, settings, Record(programme, settings)
        self.is_euclidean = projection == "euclidean"
        self.current = self.record.evaluate(x)
        self.record.keep(self.current)
        self.free = np.flatnonzero(programme.upper - programme.lower > FIXED_WIDTH)
        self.multipliers = np.zeros(self.current.rows.size)
        self.merits: list[float] = []
        self.num_cg, self.damping = 0, DAMPING
        self.columns: Columns | None = None

    def run(self) -> SQPResult:
        """Iterate until something ends it."""
        status = None if self.current.is_finite and self.differentiate() else SolveStatus.NOT_FINITE
        while status is None:
            status = self.record.spent() or self.iterate()
        return self.record.result(status, self.multipliers, self.advice(status))

    def differentiate(self) -> bool:
        """Factor the Hessian at the current point and take its rows, if all are finite."""
        found = self.record.derivatives(self.current.x)
        if found is None:
            return False
        gradient, hessian, jacobian = found
        if self.columns is None or not self.columns.fits(hessian, jacobian):
            self.columns = Columns(hessian, jacobian, self.free)
            self.system = BandSystem(self.columns.H, _no_rows(self.free.size))
        self.H, self.J = self.columns.take(hessian, jacobian)
        self.gradient = gradient[self.free]
        self.system.set_hessian(self.H.data)
        self.largest = float(self.H.diagonal().max(initial=1.0))
        self.factor(max(0.1 * self.damping, DAMPING))
        return True

    def factor(self, damping: float) -> None:
        """Factor the Hessian with a share of its largest entry on the diagonal."""
        self.damping = damping
        self.system.factor(np.zeros(0), np.full(self.free.size, damping * self.largest))

    def iterate(self) -> SolveStatus | None:
        """One step, its verdict; a status ends the search."""
        before, self.num_cg = self.current, 0
        is_moved = self.move(self.step(self.is_euclidean))
        while not is_moved and self.damping < MAX_DAMPING and not self.record.spent():
            self.factor(max(100.0 * self.damping, FIRST_DAMPING))
            is_moved = self.move(self.step(self.is_euclidean))
        length = float(np.abs(self.current.x - before.x).max(initial=0.0))
        if self.record.report(self.current, length, length, self.settings.penalty, is_moved, self.num_cg):
            return SolveStatus.STOPPED
        tolerance = self.settings.tolerance
        if not is_moved or length < tolerance:
            return SolveStatus.CONVERGED if self.current.violation < tolerance else SolveStatus.STALLED
        return None

    def step(self, is_euclidean: bool) -> FloatArray:
        """Free step plus its correction ``(n,)``, over the free variables."""
        free_step = self.system.solve(-self.gradient)
        rows = self.current.rows
        low, high = self.programme.row_lower - rows, self.programme.row_upper - rows
        active = low == high
        step = free_step
        for _ in range(MAX_ROUNDS):
            moved = self.J @ step
            added = ~active & ((moved < low) | (moved > high))
            if step is not free_step and not added.any():
                break
            active = active | added
            ends = np.clip(moved, low, high)[active]
            step = free_step + self.correction(active, ends - (self.J @ free_step)[active], is_euclidean)
        return step

    def correction(self, active: BoolArray, wanted: FloatArray, is_euclidean: bool) -> FloatArray:
        """Least step whose active rows change as wanted, by conjugate gradients on ``J J'`` that is never formed."""
        rows = np.flatnonzero(active)
        J: Any = self.J[rows]
        size = self.free.size
        x, residual, direction, before = np.zeros(size), wanted.copy(), np.zeros(size), 0.0
        stop = CG_TOL * float(np.linalg.norm(wanted))
        for _ in range(min(MAX_CG_STEPS, rows.size)):
            slope = J.T @ residual
            turned = slope if is_euclidean else self.system.solve(slope)
            now = float(slope @ turned)
            if now <= 0.0 or float(np.linalg.norm(residual)) <= stop:
                break
            direction = turned + (now / before if before else 0.0) * direction
            image = J @ direction
            share = now / float(image @ image)
            x, residual, before = x + share * direction, residual - share * image, now
            self.num_cg += 1
        return x

    def move(self, step: FloatArray) -> bool:
        """Go along the step, halved while the penalty is above its last values; tell whether anything moved."""
        penalty, start = self.settings.penalty, self.current
        self.merits = [*self.merits[1 - MEMORY :], start.merit(penalty)]
        for halving in range(MAX_HALVINGS):
            trial = self.record.evaluate(self.inside(0.5**halving * step))
            if trial.merit(penalty) <= max(self.merits) + self.settings.tolerance:
                return self.take(start, trial)
        return False

    def take(self, start: Trial, trial: Trial) -> bool:
        """Make a trial the current point unless its derivatives are not finite."""
        self.current = trial
        if not self.differentiate():
            self.current = start
            return False
        self.record.keep(trial)
        return bool(np.any(trial.x != start.x))

    def inside(self, step: FloatArray) -> FloatArray:
        """Current point plus a step, inside the bounds."""
        x = self.current.x.copy()
        x[self.free] += step
        return np.clip(x, self.programme.lower, self.programme.upper)

    def advice(self, status: SolveStatus) -> str:
        """Say how far above the optimum a Euclidean projection ended."""
        if not self.is_euclidean or status is not SolveStatus.CONVERGED:
            return ADVICE[status]
        step = self.step(is_euclidean=False)
        gap = -float(self.gradient @ step + 0.5 * step @ (self.H @ step))
        if gap <= GAP_SHARE * (1.0 + abs(self.current.objective)):
            return ADVICE[status]
        return f"Feasible, but about {gap:.3g} above the optimum; projection='h' reaches it."


def _no_rows(num_variables: int) -> Any:
    return _sparse.csc_array((0, num_variables))
