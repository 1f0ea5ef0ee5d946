"""Control of simulated figures by internal forces: balance, tracking, puppets, relaxations."""

from marey.base import deprecated_names, guard_room
from marey.control.balance import FallSettings, Support, next_support
from marey.control.in_place import back_and_forth, make_stand, walk_in_place
from marey.control.internal_forces import (
    Controller,
    Keyframe,
    PDController,
)
from marey.control.reference import Reference, make_reference
from marey.control.solvers import Relaxation, solve_control
from marey.control.stepping import FootstepSettings
from marey.control.task_controller import Puppet
from marey.control.tasks import (
    Drive,
    FootTask,
    Gains,
    GazeTask,
    ModesTask,
    MomentumTask,
    RowsTask,
    SupportTask,
)
from marey.control.tracking import (
    Tracker,
    TrackingResult,
    solve_tracking,
    track_balance,
    track_clip,
)
from marey.control.tracking_laws import TrackWeights

__all__ = [
    "Controller",
    "Drive",
    "FallSettings",
    "FootTask",
    "FootstepSettings",
    "Gains",
    "GazeTask",
    "Keyframe",
    "ModesTask",
    "MomentumTask",
    "PDController",
    "Puppet",
    "Reference",
    "Relaxation",
    "RowsTask",
    "Support",
    "SupportTask",
    "TrackWeights",
    "Tracker",
    "TrackingResult",
    "back_and_forth",
    "make_reference",
    "make_stand",
    "next_support",
    "solve_control",
    "solve_tracking",
    "track_balance",
    "track_clip",
    "walk_in_place",
]

guard_room(__name__)

__getattr__ = deprecated_names(
    __name__,
    {
        "TrackResult": "TrackingResult",
        "balance": "track_balance",
        "stand": "make_stand",
        "track": "track_clip",
        "track_result": "solve_tracking",
    },
)
