"""Moved to :mod:`marey.kinematics.posing`."""

from marey.kinematics.posing import (
    DRAG_WEIGHT,
    FOOT_WEIGHT,
    HELD,
    MAX_UNDO,
    METHODS,
    MODE_RANGE,
    NUM_MODES,
    STANDING,
    PoseEditor,
    PoseEditorState,
)

__all__ = [
    "DRAG_WEIGHT",
    "FOOT_WEIGHT",
    "HELD",
    "MAX_UNDO",
    "METHODS",
    "MODE_RANGE",
    "NUM_MODES",
    "STANDING",
    "PoseEditor",
    "PoseEditorState",
]
