"""Control: a simulated figure does what it is told, with forces from inside alone."""

from marey.control._problem import ControlProblem
from marey.control._relaxations import RELAXATIONS, Relaxation
from marey.control._solve import ControlSolution, realised_velocity, solve_control, solve_exactly

__all__ = [
    "RELAXATIONS",
    "ControlProblem",
    "ControlSolution",
    "Relaxation",
    "realised_velocity",
    "solve_control",
    "solve_exactly",
]
