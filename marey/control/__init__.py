"""Control: a simulated figure does what it is told, with forces from inside alone."""

from marey.base._deprecation import deprecated_names
from marey.control._balance import track_balance
from marey.control._controller import HIERARCHIES, Controller, ControlReport
from marey.control._controller_pd import Keyframe, PDController
from marey.control._controller_strength import actuator_strength, joint_strength
from marey.control._fall import Fall, detect_fall
from marey.control._features import Feature, control_form
from marey.control._features_gaze import gaze_frame, gaze_rate
from marey.control._features_support import Support, convex_hull, next_support
from marey.control._gains import Gains
from marey.control._polish import solve_refined
from marey.control._problem import ControlProblem
from marey.control._puppet import Puppet, PuppetReport
from marey.control._reference import Reference, make_reference
from marey.control._reference_place import back_and_forth, walk_in_place
from marey.control._reference_stand import make_stand
from marey.control._relaxations import RELAXATIONS, Relaxation
from marey.control._solve import ControlSolution, realised_velocity, solve_control, solve_exactly
from marey.control._tasks import ControlTask, Drive, FootTask, GazeTask, ModesTask, MomentumTask, RowsTask, SupportTask
from marey.control._track import Tracker, TrackingResult, TrackOptions, make_figure, solve_tracking, track_clip
from marey.control._track_laws import TrackWeights

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
