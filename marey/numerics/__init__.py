"""Splines, smooth steps, quadratic and nonlinear programmes."""

from marey.base import deprecated_names, guard_room
from marey.numerics.dense_qp import solve_qp
from marey.numerics.hull import convex_hull
from marey.numerics.splines import KnotSpline, evaluate_clamped_spline, fill_gaps, smootherstep, smoothstep
from marey.numerics.sqp.programme import NonlinearProgramme, OnIteration, SQPIteration, SQPResult
from marey.numerics.sqp.solver import solve_sqp
from marey.numerics.status import SolveStatus

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
