"""Moved to :mod:`marey.control.live.controllers`."""

from marey.control.live.controllers import (
    GOAL_WEIGHT,
    HAND_PER_S,
    MAX_CLIP_S,
    MAX_PULL_N,
    ROOM_SIZE_M,
    ROOT_WEIGHT,
    STAND_S,
    STRING_WEIGHT,
    FigureController,
    PassiveFigure,
    PullingHand,
    PuppetFigure,
    TrackingFigure,
    clamp_position,
    make_controller,
)

__all__ = [
    "GOAL_WEIGHT",
    "HAND_PER_S",
    "MAX_CLIP_S",
    "MAX_PULL_N",
    "ROOM_SIZE_M",
    "ROOT_WEIGHT",
    "STAND_S",
    "STRING_WEIGHT",
    "FigureController",
    "PassiveFigure",
    "PullingHand",
    "PuppetFigure",
    "TrackingFigure",
    "clamp_position",
    "make_controller",
]
