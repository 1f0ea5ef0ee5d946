"""Diagnosis of infeasible quadratic programmes by linear programmes; loads scipy, so it is imported when needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import optimize

from marey.base import FloatArray, IntArray
from marey.numerics.status import SolveStatus

if TYPE_CHECKING:
    from marey.numerics.dense_qp import QuadraticProgramme


VIOLATION_TOL = 1e-7  # [-] what the linear-programme solver leaves
DESCENT_TOL = 1e-9  # [-] slope of the objective along a direction of length one
_optimize: Any = optimize  # scipy has no stubs
MAX_NAMED = 4  # constraints named in a sentence of advice


def diagnose(programme: QuadraticProgramme, status: SolveStatus) -> tuple[SolveStatus, FloatArray, str]:
    """Status, the point that breaks the constraints least, and a sentence of advice that names what is wrong."""
    x, violation, blamed = _least_violation(programme)
    if violation > VIOLATION_TOL * max(1.0, float(np.abs(x).max(initial=0.0))):
        n = programme.g.size
        names = [f"bound of x[{k}]" if k < n else f"row {k - n} of A" for k in blamed[:MAX_NAMED]]
        more = f" and {blamed.size - MAX_NAMED} more" if blamed.size > MAX_NAMED else ""
        return (
            SolveStatus.INFEASIBLE,
            x,
            f"No x satisfies {', '.join(names)}{more}; at best they are missed by {violation:.3g}.",
        )
    eigenvalue = float(np.linalg.eigvalsh(programme.H).min(initial=0.0))
    if eigenvalue < -DESCENT_TOL * max(1.0, float(np.abs(programme.H).max(initial=0.0))):
        return (
            SolveStatus.NOT_CONVEX,
            x,
            f"H has the eigenvalue {eigenvalue:.3g}; add a multiple of the identity.",
        )
    # Whether some d has H d = 0, g'd < 0 and leaves every constraint satisfied however far one goes
    left, right, _ = _split_into_one_sided(programme)
    n, g = programme.g.size, programme.g
    ray: Any = _optimize.linprog(g, left, np.zeros(right.size), programme.H, np.zeros(n), bounds=(-1.0, 1.0))
    if ray.x is not None and float(g @ ray.x) < -DESCENT_TOL * max(1.0, float(np.abs(g).max(initial=0.0))):
        return SolveStatus.UNBOUNDED, x, "The objective falls forever along a ray; bound x or regularise H."
    if status in (SolveStatus.INFEASIBLE, SolveStatus.UNBOUNDED, SolveStatus.NOT_CONVEX):
        status = SolveStatus.STALLED  # the flag was wrong: both linear programmes disagree with it
    return status, x, "Scale rows and variables to similar sizes, or allow more iterations."


def _split_into_one_sided(programme: QuadraticProgramme) -> tuple[FloatArray, FloatArray, IntArray]:
    """All finite ends as ``left @ x <= right``, and which constraint (bounds first) each comes from."""
    rows = np.vstack([np.eye(programme.g.size), programme.A])
    above, below = np.flatnonzero(np.isfinite(programme.upper)), np.flatnonzero(np.isfinite(programme.lower))
    left = np.vstack([rows[above], -rows[below]])
    right = np.concatenate([programme.upper[above], -programme.lower[below]])
    return left, right, np.concatenate([above, below])


def _least_violation(programme: QuadraticProgramme) -> tuple[FloatArray, float, IntArray]:
    """Minimise t such that every end is broken by at most t; the ends that hold t up are to blame."""
    left, right, owners = _split_into_one_sided(programme)
    n = programme.g.size
    widened = np.hstack([left, -np.ones((right.size, 1))])
    cost, free = np.append(np.zeros(n), 1.0), [(None, None)] * n
    solution: Any = _optimize.linprog(cost, widened, right, bounds=[*free, (0.0, None)])
    if solution.x is None:
        return np.zeros(n), 0.0, np.zeros(0, dtype=np.int64)
    blamed = np.unique(owners[np.abs(solution.ineqlin.marginals) > VIOLATION_TOL])
    return np.asarray(solution.x[:n], dtype=np.float64), float(solution.x[n]), blamed
