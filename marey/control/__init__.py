"""Control: a simulated figure does what it is told, with forces from inside alone."""

from marey.control._controller import HIERARCHIES, Controller, ControlReport
from marey.control._controller_pd import Keyframe, PDController
from marey.control._controller_strength import actuator_strength, joint_strength
from marey.control._features import Feature, control_form
from marey.control._features_gaze import gaze_frame, gaze_rate
from marey.control._features_support import Support
from marey.control._gains import Gains
from marey.control._polish import solve_polished
from marey.control._problem import ControlProblem
from marey.control._puppet import Puppet, PuppetReport
from marey.control._relaxations import RELAXATIONS, Relaxation
from marey.control._solve import ControlSolution, realised_velocity, solve_control, solve_exactly
from marey.control._tasks import ControlTask, Drive, FootTask, GazeTask, ModesTask, MomentumTask, RowsTask, SupportTask

__all__ = [
    "HIERARCHIES",
    "RELAXATIONS",
    "ControlProblem",
    "ControlReport",
    "ControlSolution",
    "ControlTask",
    "Controller",
    "Drive",
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
    "Relaxation",
    "RowsTask",
    "Support",
    "SupportTask",
    "actuator_strength",
    "control_form",
    "gaze_frame",
    "gaze_rate",
    "joint_strength",
    "realised_velocity",
    "solve_control",
    "solve_exactly",
    "solve_polished",
]
