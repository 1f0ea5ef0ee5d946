"""Trajectory optimisation: the whole motion at once, in the full and in a reduced space of poses."""

from marey.spacetime._behaviour import BehaviourSpace, Border, KeyPose
from marey.spacetime._behaviour_select import Selection, select_clips
from marey.spacetime._check import SolutionCheck, Track, check_solution
from marey.spacetime._edit import edit_kinematic, edit_valid
from marey.spacetime._edit_goals import Pin, PoseKey
from marey.spacetime._edit_live import EditIterate, ValidEditor
from marey.spacetime._examples import EXAMPLES
from marey.spacetime._formulations import Formulation, report_formulations
from marey.spacetime._optimize import optimize
from marey.spacetime._problem import Contact, Key, Objective, Phase, Problem
from marey.spacetime._reduced import optimize_reduced
from marey.spacetime._reduced_examples import (
    REDUCED_EXAMPLES,
    flip_problem,
    jump_problem,
    run_problem,
    walk_problem,
)
from marey.spacetime._repair import make_valid
from marey.spacetime._repair_bar import ValidityBar, validity_bar
from marey.spacetime._repair_result import RepairResult
from marey.spacetime._result import SpacetimeResult
from marey.spacetime._store import MotionStore, StoreAnswer
from marey.spacetime._store_files import StoreEntry
from marey.spacetime._style import Style, calm_style, pose_style
from marey.spacetime._style_solve import optimize_styled
from marey.spacetime._toml import load_problem, parse_problem, problem_to_toml, save_problem

__all__ = [
    "EXAMPLES",
    "REDUCED_EXAMPLES",
    "BehaviourSpace",
    "Border",
    "Contact",
    "EditIterate",
    "Formulation",
    "Key",
    "KeyPose",
    "MotionStore",
    "Objective",
    "Phase",
    "Pin",
    "PoseKey",
    "Problem",
    "RepairResult",
    "Selection",
    "SolutionCheck",
    "SpacetimeResult",
    "StoreAnswer",
    "StoreEntry",
    "Style",
    "Track",
    "ValidEditor",
    "ValidityBar",
    "calm_style",
    "check_solution",
    "edit_kinematic",
    "edit_valid",
    "flip_problem",
    "jump_problem",
    "load_problem",
    "make_valid",
    "optimize",
    "optimize_reduced",
    "optimize_styled",
    "parse_problem",
    "pose_style",
    "problem_to_toml",
    "report_formulations",
    "run_problem",
    "save_problem",
    "select_clips",
    "validity_bar",
    "walk_problem",
]
