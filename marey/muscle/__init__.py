"""Muscles: soft bodies moved by activation splines, and optimal control of them."""

from marey.muscle._adjoint import Gradient, adjoint_gradient, simulate_controls
from marey.muscle._assembly import Blocks
from marey.muscle._body import SoftBody, StepReport
from marey.muscle._control import ControlProblem, Goal, System
from marey.muscle._mesh import TetMesh
from marey.muscle._optimise import solve_control
from marey.muscle._optimise_result import ControlResult
from marey.muscle._particles import MassSpringSystem, network, particle, spring_pair

__all__ = [
    "Blocks",
    "ControlProblem",
    "ControlResult",
    "Goal",
    "Gradient",
    "MassSpringSystem",
    "SoftBody",
    "StepReport",
    "System",
    "TetMesh",
    "adjoint_gradient",
    "network",
    "particle",
    "simulate_controls",
    "solve_control",
    "spring_pair",
]
