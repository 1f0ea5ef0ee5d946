"""Small dense convex quadratic programmes, solved by the dual active-set method of daqp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.numerics.programme import OnFailure, SolveStatus, check_on_failure, raise_if_asked

FEASIBILITY_TOLS = (1e-9, 1e-7)  # [-] on rows of unit norm; the second is for when rounding hides the first
PROXIMAL_WEIGHT = 1e-4  # [-] of H; pulls towards the last point where H is singular (smaller stalled on random ones)
PROXIMAL_TOL = 1e-10  # [-] change at which those iterations end
SYMMETRY_TOL = 1e-9  # [-] of the largest entry of H
NO_BOUND = 1e30  # what daqp takes for infinity
VIOLATION_TOL = 1e-7  # [-] what the linear-programme solver leaves
DESCENT_TOL = 1e-9  # [-] slope of the objective along a direction of length one
MAX_NAMED = 4  # constraints named in a sentence of advice

_EQUALITY = 5  # daqp: active and not to be released
_STATUS = {
    1: SolveStatus.CONVERGED,
    2: SolveStatus.CONVERGED,
    -1: SolveStatus.INFEASIBLE,
    -2: SolveStatus.STALLED,
    -3: SolveStatus.UNBOUNDED,
    -4: SolveStatus.ITERATION_LIMIT,
    -5: SolveStatus.NOT_CONVEX,
    -6: SolveStatus.INFEASIBLE,
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class QPResult:
    r"""Solution of a quadratic programme; every number is finite.

    At a solution :math:`Hx + g + A^T\lambda + \mu = 0`; a multiplier is positive where the upper end holds x back and
    negative where the lower one does.
    """

    status: SolveStatus
    x: FloatArray  # (n,) the solution; if there is none, a point that breaks the constraints least
    multipliers: FloatArray  # (m,) λ of the rows of A
    bound_multipliers: FloatArray  # (n,) μ of the bounds on x
    objective: float  # ½ x'Hx + g'x
    iterations: int
    advice: str  # what to do next, one sentence

    @property
    def is_solved(self) -> bool:
        """Whether ``x`` is the solution."""
        return self.status is SolveStatus.CONVERGED

    def __repr__(self) -> str:
        return f"QPResult({self.status}, {self.iterations} iterations, objective {self.objective:.6g})"


@dataclass(frozen=True, slots=True, eq=False)
class QuadraticProgramme:
    """A checked quadratic programme; missing rows and bounds are empty or infinite."""

    H: FloatArray  # (n, n) symmetric
    g: FloatArray  # (n,)
    A: FloatArray  # (m, n)
    lower: FloatArray  # (n + m,) of x, then of A x
    upper: FloatArray  # (n + m,)


def solve_qp(
    H: ArrayLike,
    g: ArrayLike,
    A: ArrayLike | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    *,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    max_iterations: int = 1000,
    on_failure: OnFailure = "return",
) -> QPResult:
    r"""Minimise :math:`\frac12 x^T H x + g^T x` subject to :math:`l \le A x \le u` and bounds on x.

    Rows with equal ends are equalities. H may be singular as long as the constraints hold the solution back. An
    infeasible or unbounded programme is an answer, not an accident, so by default it is returned with its status.

    Args:
        H: symmetric, positive semidefinite ``(n, n)``.
        g: ``(n,)``.
        A: rows ``(m, n)``.
        lower: ``(m,)`` or a scalar; ``-inf`` for none.
        upper: ``(m,)`` or a scalar; ``inf`` for none.
        bounds: lower and upper ends of x, ``(n,)`` or scalars.
        max_iterations: changes of the active set at most.
        on_failure: "return" the result with its status, or "raise" a :class:`ConvergenceError`.
    """
    check_on_failure(on_failure)
    gradient = frozen(g, None, name="g")
    n = gradient.size
    hessian = frozen(H, n, n, name="H")
    if np.abs(hessian - hessian.T).max(initial=0.0) > SYMMETRY_TOL * np.abs(hessian).max(initial=0.0):
        raise InputError("H is not symmetric", "Pass (H + H.T) / 2")
    rows = np.zeros((0, n)) if A is None else frozen(A, None, n, name="A")
    x_lower, x_upper = (None, None) if bounds is None else bounds
    lowest = [_check_bounds(x_lower, n, -np.inf, "bounds"), _check_bounds(lower, len(rows), -np.inf, "the rows of A")]
    highest = [_check_bounds(x_upper, n, np.inf, "bounds"), _check_bounds(upper, len(rows), np.inf, "the rows of A")]
    programme = QuadraticProgramme(hessian, gradient, rows, np.concatenate(lowest), np.concatenate(highest))
    if np.any(programme.lower > programme.upper):
        result = _diagnose_failure(programme, SolveStatus.INFEASIBLE, 0)
    else:
        result = _solve_programme(programme, max_iterations)
    raise_if_asked("quadratic programme", result.status, result.advice, result, on_failure)
    return result


def _solve_programme(programme: QuadraticProgramme, max_iterations: int) -> QPResult:
    import daqp

    status, iterations = SolveStatus.STALLED, 0
    # Rows of unit norm and an objective of unit size make the tolerances relative
    scale = float(np.abs(programme.H).max(initial=0.0) or np.abs(programme.g).max(initial=0.0) or 1.0)
    row_norms = np.sqrt(np.einsum("ij,ij->i", programme.A, programme.A))
    norms = np.concatenate([np.ones(programme.g.size), np.where(row_norms > 0.0, row_norms, 1.0)])
    for tolerance in FEASIBILITY_TOLS:
        answer: Any = cast(Any, daqp).solve(
            programme.H / scale,
            programme.g / scale,
            programme.A / norms[programme.g.size :, None],
            np.clip(programme.upper / norms, -NO_BOUND, NO_BOUND),
            np.clip(programme.lower / norms, -NO_BOUND, NO_BOUND),
            np.where(programme.lower == programme.upper, _EQUALITY, 0).astype(np.int32),
            primal_tol=tolerance,
            eps_prox=-PROXIMAL_WEIGHT,  # negative: only where H is singular
            eta_prox=PROXIMAL_TOL,
            iter_limit=max_iterations,
        )
        x = np.asarray(answer[0], dtype=np.float64)
        flag, info = int(answer[2]), answer[3]
        multipliers = scale * np.asarray(info["lam"], dtype=np.float64) / norms
        iterations = int(info["iterations"])
        status = _STATUS.get(flag, SolveStatus.STALLED)
        if status is SolveStatus.CONVERGED and np.isfinite(x).all() and np.isfinite(multipliers).all():
            return _build_result(programme, status, x, multipliers, iterations, "Nothing to do.")
        if status is SolveStatus.ITERATION_LIMIT:
            break
    return _diagnose_failure(programme, status, iterations)


def _diagnose_failure(programme: QuadraticProgramme, status: SolveStatus, iterations: int) -> QPResult:
    """Result without a solution: by linear programmes, since the exit flag is not specific.

    Its point breaks the constraints least, its advice names what is wrong.
    """
    from scipy import optimize

    linprog: Any = cast(Any, optimize).linprog
    n, g = programme.g.size, programme.g
    # All finite ends as left @ x <= right, and which constraint (bounds first) each comes from
    rows = np.vstack([np.eye(n), programme.A])
    above, below = np.flatnonzero(np.isfinite(programme.upper)), np.flatnonzero(np.isfinite(programme.lower))
    left = np.vstack([rows[above], -rows[below]])
    right = np.concatenate([programme.upper[above], -programme.lower[below]])
    owners = np.concatenate([above, below])

    # Least t such that every end is broken by at most t; the ends that hold t up are to blame
    x, violation, blamed = np.zeros(n), 0.0, np.zeros(0, dtype=np.int64)
    cost, free = np.append(np.zeros(n), 1.0), [(None, None)] * n
    widened = np.hstack([left, -np.ones((right.size, 1))])
    least: Any = linprog(cost, widened, right, bounds=[*free, (0.0, None)])
    if least.x is not None:
        x, violation = np.asarray(least.x[:n], dtype=np.float64), float(least.x[n])
        blamed = np.unique(owners[np.abs(least.ineqlin.marginals) > VIOLATION_TOL])

    eigenvalue = float(np.linalg.eigvalsh(programme.H).min(initial=0.0))
    if violation > VIOLATION_TOL * max(1.0, float(np.abs(x).max(initial=0.0))):
        names = [f"bound of x[{k}]" if k < n else f"row {k - n} of A" for k in blamed[:MAX_NAMED]]
        more = f" and {blamed.size - MAX_NAMED} more" if blamed.size > MAX_NAMED else ""
        status = SolveStatus.INFEASIBLE
        advice = f"No x satisfies {', '.join(names)}{more}; at best they are missed by {violation:.3g}."
    elif eigenvalue < -DESCENT_TOL * max(1.0, float(np.abs(programme.H).max(initial=0.0))):
        status = SolveStatus.NOT_CONVEX
        advice = f"H has the eigenvalue {eigenvalue:.3g}; add a multiple of the identity."
    else:
        # A ray d with H d = 0 and g'd < 0 that leaves every constraint satisfied however far one goes
        ray: Any = linprog(g, left, np.zeros(right.size), programme.H, np.zeros(n), bounds=(-1.0, 1.0))
        if ray.x is not None and float(g @ ray.x) < -DESCENT_TOL * max(1.0, float(np.abs(g).max(initial=0.0))):
            status, advice = SolveStatus.UNBOUNDED, "The objective falls forever along a ray; bound x or regularise H."
        else:
            if status in (SolveStatus.INFEASIBLE, SolveStatus.UNBOUNDED, SolveStatus.NOT_CONVEX):
                status = SolveStatus.STALLED  # the flag was wrong: both linear programmes disagree with it
            advice = "Scale rows and variables to similar sizes, or allow more iterations."
    return _build_result(programme, status, x, np.zeros(programme.lower.size), iterations, advice)


def _build_result(
    programme: QuadraticProgramme,
    status: SolveStatus,
    x: FloatArray,
    multipliers: FloatArray,
    iterations: int,
    advice: str,
) -> QPResult:
    n = programme.g.size
    objective = float(0.5 * x @ programme.H @ x + programme.g @ x)
    return QPResult(
        status,
        frozen(x, name="x"),
        frozen(multipliers[n:], name="multipliers"),
        frozen(multipliers[:n], name="bound_multipliers"),
        objective,
        iterations,
        advice,
    )


def _check_bounds(values: ArrayLike | None, size: int, default: float, name: str) -> FloatArray:
    """Ends ``(size,)`` from an array, a number for all, or none; infinite ones are welcome, NaN is not."""
    ends = np.asarray(default if values is None else values, dtype=np.float64)
    if ends.ndim > 1 or (ends.ndim == 1 and ends.size != size):
        raise InputError(f"the ends of {name} have shape {ends.shape}, expected ({size},)")
    if np.isnan(ends).any():
        raise InputError(f"the ends of {name} hold NaN", "Write inf or -inf for none")
    return np.broadcast_to(ends, (size,))
