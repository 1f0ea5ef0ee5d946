"""Nonlinear least squares for small dense problems: Gauss-Newton and Levenberg-Marquardt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from marey.base import EPS, BoolArray, FloatArray, InputError, UnknownNameError, frozen
from marey.numerics.dense_qp import check_bounds
from marey.numerics.differences import finite_difference_jacobian
from marey.numerics.status import OnFailure, SolveStatus, check_on_failure, raise_if_asked

UNSEEN_SHARE = 1e-9  # [-] of the mean squared column; keeps the system regular where a variable has no effect


def gauss_newton_step(J: FloatArray, residual: FloatArray) -> FloatArray:
    r"""Shortest :math:`\delta` that minimises :math:`\|J\delta + r\|`, by singular values."""
    if J.shape[1] == 0:
        return np.zeros(0)
    return np.asarray(np.linalg.lstsq(J, -residual, rcond=None)[0], dtype=np.float64)


def levenberg_marquardt_step(J: FloatArray, residual: FloatArray, damping: float) -> FloatArray:
    r"""Minimise :math:`\|J\delta + r\|^2 + \lambda\|D\delta\|^2`, with D the column norms of J.

    By an orthogonal factorisation of the stacked system, which does not square the condition number.
    """
    size = J.shape[1]
    if size == 0:
        return np.zeros(0)
    squares = np.einsum("ij,ij->j", J, J)
    floor = UNSEEN_SHARE * squares.mean() or 1.0
    stacked = np.zeros((J.shape[0] + size, size + 1))
    stacked[: J.shape[0], :size] = J
    stacked[: J.shape[0], size] = -residual
    stacked[J.shape[0] :, :size] = np.diag(np.sqrt(damping * np.maximum(squares, floor)))
    upper = cast(FloatArray, np.linalg.qr(stacked, mode="r"))
    return cast(FloatArray, np.linalg.solve(upper[:size, :size], upper[:size, size]))


Method = Literal["gauss-newton", "levenberg-marquardt"]
Function = Callable[[FloatArray], ArrayLike]

SETTLED_COSINE = float(np.sqrt(EPS))  # [-] below, a step could lower the cost by no more than its rounding
SETTLED_STEP = 1e-9  # [-] of the variables; below, the residuals are at the rounding of their own terms
ROUNDING = 4 * EPS  # [-] of the cost; a step that raises it by less may still be a good one
TOO_LARGE = 1e140  # sums of its square are still finite
MAX_TRIALS = 40  # damping grows from its floor to its ceiling in 34


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LeastSquaresResult:
    """Where the iteration ended; every number is finite."""

    status: SolveStatus
    x: FloatArray  # (n,)
    residual: FloatArray  # (m,) at x; TOO_LARGE stands for what is not finite
    optimality: float  # [-] largest cosine between the residual and a free column of the Jacobian
    iterations: int
    evaluations: int  # calls of the residual function, differences apart
    advice: str  # what to do next, one sentence

    @property
    def cost(self) -> float:
        """Half the sum of squares."""
        return 0.5 * float(self.residual @ self.residual)

    @property
    def is_solved(self) -> bool:
        """Whether the tolerance was reached."""
        return self.status is SolveStatus.CONVERGED

    def __repr__(self) -> str:
        return f"LeastSquaresResult({self.status}, {self.iterations} iterations, cost {self.cost:.3g})"


def solve_least_squares(
    residuals: Function,
    start: ArrayLike,
    *,
    jacobian: Function | None = None,
    method: Method = "levenberg-marquardt",
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    max_iterations: int = 100,
    tolerance: float = 1e-10,
    on_failure: OnFailure = "raise",
) -> LeastSquaresResult:
    r"""Minimise :math:`\frac12\|r(x)\|^2`, optionally inside a box.

    Each iteration solves the linearised problem for the variables that no bound holds back, and projects on the box:

    .. math:: (J^T J + \lambda\,\mathrm{diag}(J^T J))\,\delta = -J^T r, \qquad x \leftarrow \Pi(x + \delta)

    "gauss-newton" takes :math:`\lambda = 0`, the shortest solution if there are several, and halves the step until the
    cost falls; "levenberg-marquardt" moves λ, by the schedule of [Tournier2011]_ §6.3 (which prints none; the
    specification's is used: 1e-3 at first, x 0.3 when the cost falls, x 4 when it does not).

    Args:
        residuals: maps ``(n,)`` to ``(m,)``.
        start: first guess ``(n,)``; it is projected on the box.
        jacobian: maps ``(n,)`` to ``(m, n)``; central differences by default.
        method: by name.
        bounds: lower and upper ends of the box, ``(n,)`` or scalars; infinite ones are welcome.
        max_iterations: Jacobians evaluated at most.
        tolerance: cosine between residual and Jacobian columns at which to stop; scale-free.
        on_failure: "raise" a :class:`ConvergenceError`, or "return" the result with its status.
    """
    check_on_failure(on_failure)
    if method not in ("gauss-newton", "levenberg-marquardt"):
        raise UnknownNameError("method", method, "solve_least_squares", ("gauss-newton", "levenberg-marquardt"))
    # First guess projected on the box, and the box
    x = frozen(start, None, name="start")
    low, high = (None, None) if bounds is None else bounds
    lower, upper = check_bounds(low, x.size, -np.inf, "bounds"), check_bounds(high, x.size, np.inf, "bounds")
    if np.any(lower > upper):
        bad = int(np.argmax(lower > upper))
        raise InputError(f"bounds of variable {bad} are {lower[bad]} and {upper[bad]}", "Lower comes first")
    search = _Search(residuals, jacobian, method, *(np.clip(x, lower, upper), lower, upper), tolerance)
    status = search.run(max_iterations)
    result = search.result(status)
    raise_if_asked("least squares", status, result.advice, result, on_failure)
    return result


class _Search:
    """The moving state of one solve."""

    def __init__(
        self,
        function: Function,
        jacobian: Function | None,
        method: Method,
        x: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        tolerance: float,
    ) -> None:
        self.function, self.jacobian, self.method = function, jacobian, method
        self.lower, self.upper, self.tolerance = lower, upper, tolerance
        self.x, self.iterations, self.evaluations, self.damping, self.optimality = x, 0, 0, 1e-3, 0.0
        self.residual = self.evaluate(x)

    def run(self, max_iterations: int) -> SolveStatus:
        if not self.is_finite(self.residual):
            return SolveStatus.NOT_FINITE
        first_norm = np.linalg.norm(self.residual)
        while True:
            if np.linalg.norm(self.residual) <= ROUNDING * first_norm:
                return SolveStatus.CONVERGED
            J = self.differentiate()
            if not self.is_finite(J):
                return SolveStatus.NOT_FINITE
            free = self.free(J)
            # Largest cosine between the residual and a column; zero columns count as perpendicular
            J_cosine = J[:, free]
            residual = self.residual
            norms = np.sqrt(np.einsum("ij,ij->j", J_cosine, J_cosine)) * np.linalg.norm(residual)
            self.optimality = float(
                np.max(np.abs(J_cosine.T @ residual) / np.where(norms > 0.0, norms, 1.0), initial=0.0)
            )
            if self.optimality <= self.tolerance:
                return SolveStatus.CONVERGED
            if self.iterations >= max_iterations:
                return SolveStatus.CONVERGED if self.is_settled(J, free) else SolveStatus.ITERATION_LIMIT
            self.iterations += 1
            if not self.advance(J, free):
                return SolveStatus.CONVERGED if self.is_settled(J, free) else SolveStatus.STALLED

    def advance(self, J: FloatArray, free: BoolArray) -> bool:
        """Take one step that does not increase the cost; return whether there is one."""
        cost = self.residual @ self.residual
        direction = gauss_newton_step(J[:, free], self.residual) if self.method == "gauss-newton" else None
        for trial in range(MAX_TRIALS):
            if direction is None:
                step = levenberg_marquardt_step(J[:, free], self.residual, self.damping)
            else:
                step = direction * 0.5**trial
            moved = self.x.copy()
            moved[free] = np.clip(moved[free] + step, self.lower[free], self.upper[free])
            residual = self.evaluate(moved)
            limit = cost * (1.0 + ROUNDING) if trial == 0 else cost
            is_better = self.is_finite(residual) and residual @ residual < limit
            self.damping = float(np.clip(self.damping * (0.3 if is_better else 4.0), 1e-12, 1e8))
            if is_better:
                has_moved = bool(np.any(moved != self.x))
                self.x, self.residual = moved, residual
                return has_moved
        return False

    def evaluate(self, x: FloatArray) -> FloatArray:
        self.evaluations += 1
        value = np.array(self.function(x.copy()), dtype=np.float64)
        if value.ndim != 1 or value.size == 0:
            raise InputError(f"residuals have shape {value.shape}, expected (m,) with m at least 1")
        return value

    def differentiate(self) -> FloatArray:
        shape = (self.residual.size, self.x.size)
        if self.jacobian is None:
            try:
                return finite_difference_jacobian(self.function, self.x)
            except InputError:
                return np.full(shape, np.nan)  # reported as NOT_FINITE by the caller
        J = np.array(self.jacobian(self.x.copy()), dtype=np.float64)
        if J.shape != shape:
            raise InputError(f"the Jacobian has shape {J.shape}, expected {shape}")
        return J

    def free(self, J: FloatArray) -> BoolArray:
        """Variables that are not pressed against their bound."""
        gradient = J.T @ self.residual
        return ~(((self.x <= self.lower) & (gradient > 0.0)) | ((self.x >= self.upper) & (gradient < 0.0)))

    def is_settled(self, J: FloatArray, free: BoolArray) -> bool:
        step = gauss_newton_step(J[:, free], self.residual)
        is_short = float(np.linalg.norm(step)) <= SETTLED_STEP * max(1.0, float(np.linalg.norm(self.x)))
        return self.optimality <= SETTLED_COSINE or is_short

    @staticmethod
    def is_finite(values: FloatArray) -> bool:
        return bool(np.abs(values).max(initial=0.0) < TOO_LARGE)  # false for NaN too

    def result(self, status: SolveStatus) -> LeastSquaresResult:
        residual = np.clip(np.nan_to_num(self.residual, nan=TOO_LARGE), -TOO_LARGE, TOO_LARGE)
        return LeastSquaresResult(
            status,
            frozen(self.x, name="x"),
            frozen(residual, name="residual"),
            self.optimality,
            self.iterations,
            self.evaluations,
            _ADVICE[status],
        )


_ADVICE = {
    SolveStatus.CONVERGED: "Nothing to do.",
    SolveStatus.ITERATION_LIMIT: "Start nearer to the solution or allow more iterations.",
    SolveStatus.STALLED: "Check the Jacobian against finite_difference_jacobian; the residuals may have a kink here.",
    SolveStatus.NOT_FINITE: "Start where the residuals and their derivatives are finite, or add bounds.",
}
