"""Where to stand so that the toes are on a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.locomotion._steer import GroundPath, heading_vector, straight_path
from marey.locomotion._steer_guide import HaltGoal
from marey.skeleton import Pose, foot_points

if TYPE_CHECKING:
    from marey.locomotion._engine import Engine

MAX_LINE_DISTANCE_M: Final = 1000.0
MIN_LINE_DISTANCE_M: Final = 0.05


def toe_ends(pose: Pose) -> FloatArray:
    """Ends of both toes ``(2, 3)`` [m] in world, left and right, on the soles."""
    points = foot_points(pose.skeleton)
    placed = points.positions(pose.joint_positions(), pose.joint_rotations())
    return placed[[points.index("left_toe_end"), points.index("right_toe_end")]]


def standing_toes(engine: Engine) -> FloatArray:
    """Ends of the toes ``(2, 2)`` [m] (x, z) round the carriage, when the character stands with its present heading."""
    stand = type(engine)(
        engine.model,
        leg_length_m=engine.leg_length_m,
        style=dict(_current_style(engine)),
        heading_rad=engine.heading_rad,
        plants=False,
    )
    return toe_ends(stand.pose)[:, [0, 2]]


def _current_style(engine: Engine) -> list[tuple[str, float]]:
    return [(name, float(w)) for name, w in zip(engine.model.styles, engine.parameters.weights, strict=True)]


def plan_halt_before(engine: Engine, line: FloatArray) -> tuple[GroundPath, HaltGoal]:
    """The straight way ahead, and where on it to stop before a line ``(2, 2)`` [m]."""
    if line.shape != (2, 2) or not np.isfinite(line).all() or np.allclose(line[0], line[1]):
        raise InputError("a line that is not two different points", "Give ((x, z), (x, z)) in metres")
    ahead, along = heading_vector(engine.heading_rad), line[1] - line[0]
    across = np.array([along[1], -along[0]]) / np.linalg.norm(along)
    approach = float(ahead @ across)
    across, approach = (across, approach) if approach > 0.0 else (-across, -approach)
    room = float((line[0] - engine.position) @ across - (standing_toes(engine) @ across).max())
    left = room / approach if approach > 0.1 else np.inf
    if not MIN_LINE_DISTANCE_M <= left <= MAX_LINE_DISTANCE_M:
        raise InputError("the line is not ahead", "Give a line across the direction of travel, a step away or more")
    return straight_path(engine.position, engine.heading_rad, left + 1.0), HaltGoal(left)
