"""Trajectory optimisation: the whole motion at once, in the full and in a reduced space of poses."""

from marey.base._deprecation import deprecated_names
from marey.spacetime._behaviour import BehaviourPose, BehaviourSpace, ContactBorder
from marey.spacetime._behaviour_select import ClipSelection, select_clips
from marey.spacetime._check import SolutionCheck, SolutionTrack, check_solution
from marey.spacetime._edit import edit_kinematically, edit_physically
from marey.spacetime._edit_goals import PointPin, PoseKey
from marey.spacetime._edit_live import EditIterate, ValidEditor
from marey.spacetime._examples import EXAMPLES
from marey.spacetime._formulations import Formulation, report_formulations
from marey.spacetime._optimize import optimize
from marey.spacetime._problem import Contact, Key, Objective, ProblemPhase, SpacetimeProblem
from marey.spacetime._reduced import optimize_reduced
from marey.spacetime._reduced_examples import (
    REDUCED_EXAMPLES,
    build_flip_problem,
    build_jump_problem,
    build_run_problem,
    build_walk_problem,
)
from marey.spacetime._repair import make_valid
from marey.spacetime._repair_bar import ValidityBar, compute_validity_bar
from marey.spacetime._repair_result import RepairResult
from marey.spacetime._result import SpacetimeResult
from marey.spacetime._store import MotionStore, StoreAnswer
from marey.spacetime._store_files import StoreEntry
from marey.spacetime._style import Style, build_pose_style, build_stillness_style
from marey.spacetime._style_solve import optimize_styled
from marey.spacetime._toml import load_problem, parse_problem, problem_to_toml, save_problem

__all__ = [
    "EXAMPLES",
    "REDUCED_EXAMPLES",
    "BehaviourPose",
    "BehaviourSpace",
    "ClipSelection",
    "Contact",
    "ContactBorder",
    "EditIterate",
    "Formulation",
    "Key",
    "MotionStore",
    "Objective",
    "PointPin",
    "PoseKey",
    "ProblemPhase",
    "RepairResult",
    "SolutionCheck",
    "SolutionTrack",
    "SpacetimeProblem",
    "SpacetimeResult",
    "StoreAnswer",
    "StoreEntry",
    "Style",
    "ValidEditor",
    "ValidityBar",
    "build_flip_problem",
    "build_jump_problem",
    "build_pose_style",
    "build_run_problem",
    "build_stillness_style",
    "build_walk_problem",
    "check_solution",
    "compute_validity_bar",
    "edit_kinematically",
    "edit_physically",
    "load_problem",
    "make_valid",
    "optimize",
    "optimize_reduced",
    "optimize_styled",
    "parse_problem",
    "problem_to_toml",
    "report_formulations",
    "save_problem",
    "select_clips",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "Border": "ContactBorder",
        "KeyPose": "BehaviourPose",
        "Phase": "ProblemPhase",
        "Pin": "PointPin",
        "Problem": "SpacetimeProblem",
        "Selection": "ClipSelection",
        "Track": "SolutionTrack",
        "calm_style": "build_stillness_style",
        "edit_kinematic": "edit_kinematically",
        "edit_valid": "edit_physically",
        "flip_problem": "build_flip_problem",
        "jump_problem": "build_jump_problem",
        "pose_style": "build_pose_style",
        "run_problem": "build_run_problem",
        "validity_bar": "compute_validity_bar",
        "walk_problem": "build_walk_problem",
    },
)
