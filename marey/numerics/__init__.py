"""Splines, smooth steps, quadratic and nonlinear programmes."""

from marey.base import deprecated_names, guard_room
from marey.numerics.dense_qp import solve_qp
from marey.numerics.programme import NonlinearProgramme, OnIteration, SolveStatus, SQPIteration, SQPResult
from marey.numerics.splines import KnotSpline, convex_hull, evaluate_clamped_spline, fill_gaps, smootherstep, smoothstep
from marey.numerics.trust_region import solve_sqp

__all__ = [
    "KnotSpline",
    "NonlinearProgramme",
    "OnIteration",
    "SQPIteration",
    "SQPResult",
    "SolveStatus",
    "convex_hull",
    "evaluate_clamped_spline",
    "fill_gaps",
    "smootherstep",
    "smoothstep",
    "solve_qp",
    "solve_sqp",
]

guard_room(__name__)

__getattr__ = deprecated_names(
    __name__,
    {
        "Programme": "NonlinearProgramme",
    },
)
