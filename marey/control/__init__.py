"""Control: a simulated figure does what it is told, with forces from inside alone."""

from marey.base.deprecation import deprecated_names
from marey.control.controllers.internal_forces import (
    HIERARCHIES,
    Controller,
    ControlReport,
    actuator_strength,
    joint_strength,
)
from marey.control.controllers.pd_baseline import Keyframe, PDController
from marey.control.controllers.strings import Puppet, PuppetReport
from marey.control.fall import Fall, detect_fall
from marey.control.problem import ControlProblem
from marey.control.reference.clip import Reference, make_reference
from marey.control.reference.in_place import back_and_forth, make_stand, walk_in_place
from marey.control.relaxations import RELAXATIONS, Relaxation
from marey.control.solvers import ControlSolution, realised_velocity, solve_control, solve_exactly, solve_refined
from marey.control.support import Support, convex_hull, next_support
from marey.control.task_laws import Feature, control_form
from marey.control.tasks import (
    ControlTask,
    Drive,
    FootTask,
    Gains,
    GazeTask,
    ModesTask,
    MomentumTask,
    RowsTask,
    SupportTask,
    gaze_frame,
    gaze_rate,
)
from marey.control.tracking import (
    Tracker,
    TrackingResult,
    TrackOptions,
    make_figure,
    solve_tracking,
    track_balance,
    track_clip,
)
from marey.control.tracking_laws import TrackWeights

__all__ = [
    "HIERARCHIES",
    "RELAXATIONS",
    "ControlProblem",
    "ControlReport",
    "ControlSolution",
    "ControlTask",
    "Controller",
    "Drive",
    "Fall",
    "Feature",
    "FootTask",
    "Gains",
    "GazeTask",
    "Keyframe",
    "ModesTask",
    "MomentumTask",
    "PDController",
    "Puppet",
    "PuppetReport",
    "Reference",
    "Relaxation",
    "RowsTask",
    "Support",
    "SupportTask",
    "TrackOptions",
    "TrackWeights",
    "Tracker",
    "TrackingResult",
    "actuator_strength",
    "back_and_forth",
    "control_form",
    "convex_hull",
    "detect_fall",
    "gaze_frame",
    "gaze_rate",
    "joint_strength",
    "make_figure",
    "make_reference",
    "make_stand",
    "next_support",
    "realised_velocity",
    "solve_control",
    "solve_exactly",
    "solve_refined",
    "solve_tracking",
    "track_balance",
    "track_clip",
    "walk_in_place",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "TrackResult": "TrackingResult",
        "balance": "track_balance",
        "figure_of": "make_figure",
        "solve_polished": "solve_refined",
        "stand": "make_stand",
        "track": "track_clip",
        "track_result": "solve_tracking",
    },
)
