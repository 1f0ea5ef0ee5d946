"""Splines, differences, least squares, quadratic and nonlinear programmes."""

from marey.base.deprecation import deprecated_names
from marey.numerics.dense_qp import QPResult, solve_qp
from marey.numerics.differences import finite_difference_jacobian
from marey.numerics.least_squares import LeastSquaresResult, solve_least_squares
from marey.numerics.smoothing import fill_gaps, smootherstep, smoothstep
from marey.numerics.splines import KnotSpline, evaluate_clamped_spline
from marey.numerics.sqp.programme import NonlinearProgramme, SQPIteration, SQPResult
from marey.numerics.sqp.solver import solve_sqp
from marey.numerics.status import SolveStatus

__all__ = [
    "KnotSpline",
    "LeastSquaresResult",
    "NonlinearProgramme",
    "QPResult",
    "SQPIteration",
    "SQPResult",
    "SolveStatus",
    "evaluate_clamped_spline",
    "fill_gaps",
    "finite_difference_jacobian",
    "smootherstep",
    "smoothstep",
    "solve_least_squares",
    "solve_qp",
    "solve_sqp",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "Programme": "NonlinearProgramme",
    },
)
