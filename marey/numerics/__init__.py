"""Splines, differences, least squares, quadratic and nonlinear programmes."""

from marey.base._deprecation import deprecated_names
from marey.numerics._bspline import UniformBSpline
from marey.numerics._differences import finite_difference_jacobian
from marey.numerics._knots import KnotSpline
from marey.numerics._least_squares import LeastSquaresResult, solve_least_squares
from marey.numerics._qp import QPResult, solve_qp
from marey.numerics._smooth import fill_gaps, smootherstep, smoothstep
from marey.numerics._sqp import solve_sqp
from marey.numerics._sqp_programme import NonlinearProgramme, SQPIteration, SQPResult
from marey.numerics._status import SolveStatus

__all__ = [
    "KnotSpline",
    "LeastSquaresResult",
    "NonlinearProgramme",
    "QPResult",
    "SQPIteration",
    "SQPResult",
    "SolveStatus",
    "UniformBSpline",
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
