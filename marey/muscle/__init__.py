"""Muscles: soft bodies moved by activation splines, and optimal control of them."""

from marey.muscle._assembly import Blocks
from marey.muscle._body import SoftBody, StepReport
from marey.muscle._mesh import TetMesh

__all__ = [
    "Blocks",
    "SoftBody",
    "StepReport",
    "TetMesh",
]
