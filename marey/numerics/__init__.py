"""Splines, differences, least squares, quadratic programmes."""

from marey.numerics._bspline import UniformBSpline
from marey.numerics._differences import finite_difference_jacobian
from marey.numerics._status import SolveStatus

__all__ = ["SolveStatus", "UniformBSpline", "finite_difference_jacobian"]
