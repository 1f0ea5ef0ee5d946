"""Sparse nonlinear programmes with many constraints: the entrance.

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
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from marey.base import InputError, UnknownNameError, frozen
from marey.numerics.sqp.programme import (
    FIXED_WIDTH,
    NonlinearProgramme,
    OnIteration,
    SolveRecord,
    SQPResult,
    SQPSettings,
)
from marey.numerics.status import OnFailure, SolveStatus, check_on_failure, raise_if_asked

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
    settings = SQPSettings(tolerance, trust, penalty, max_iterations, time_limit_s, on_iteration)
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
            from marey.numerics.sqp.fang import ProjectedSearch

            result = ProjectedSearch(programme, x, settings, projection).run()
        else:
            from marey.numerics.sqp.trust_region import TrustSearch

            result = TrustSearch(programme, x, settings).run()
    raise_if_asked("SQP", result.status, result.advice, result, on_failure)
    return result
