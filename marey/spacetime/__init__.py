"""Trajectory optimisation in the full and in a reduced space; repair and editing under validity."""

from marey.base import deprecated_names, guard_room
from marey.spacetime.dispatch import build_character, optimize, optimize_styled
from marey.spacetime.editing import EditIterate, ValidEditor, edit_kinematically, edit_physically
from marey.spacetime.goals import PointPin, PoseKey
from marey.spacetime.motion_store import MotionStore, StoreAnswer, StoreEntry
from marey.spacetime.problem.builders import (
    ClipSelection,
    build_flip_problem,
    build_jump_problem,
    build_run_problem,
    build_surroundings,
    build_walk_problem,
    select_clips,
)
from marey.spacetime.problem.definition import (
    Contact,
    Key,
    Objective,
    ProblemPhase,
    SpacetimeProblem,
    Style,
    build_pose_style,
    build_stillness_style,
)
from marey.spacetime.problem.solution import SpacetimeResult
from marey.spacetime.problem_files import load_problem, parse_problem, problem_to_toml, save_problem
from marey.spacetime.reduced.behaviour import BehaviourPose, BehaviourSpace
from marey.spacetime.reduced.solve import optimize_reduced
from marey.spacetime.repair.programme import RepairSettings
from marey.spacetime.repair.solve import RepairResult, make_valid

__all__ = [
    "BehaviourPose",
    "BehaviourSpace",
    "ClipSelection",
    "Contact",
    "EditIterate",
    "Key",
    "MotionStore",
    "Objective",
    "PointPin",
    "PoseKey",
    "ProblemPhase",
    "RepairResult",
    "RepairSettings",
    "SpacetimeProblem",
    "SpacetimeResult",
    "StoreAnswer",
    "StoreEntry",
    "Style",
    "ValidEditor",
    "build_character",
    "build_flip_problem",
    "build_jump_problem",
    "build_pose_style",
    "build_run_problem",
    "build_stillness_style",
    "build_surroundings",
    "build_walk_problem",
    "edit_kinematically",
    "edit_physically",
    "load_problem",
    "make_valid",
    "optimize",
    "optimize_reduced",
    "optimize_styled",
    "parse_problem",
    "problem_to_toml",
    "save_problem",
    "select_clips",
]

guard_room(__name__)

__getattr__ = deprecated_names(
    __name__,
    {
        "KeyPose": "BehaviourPose",
        "Pin": "PointPin",
        "Phase": "ProblemPhase",
        "Problem": "SpacetimeProblem",
        "Selection": "ClipSelection",
        "calm_style": "build_stillness_style",
        "edit_kinematic": "edit_kinematically",
        "edit_valid": "edit_physically",
        "flip_problem": "build_flip_problem",
        "jump_problem": "build_jump_problem",
        "pose_style": "build_pose_style",
        "run_problem": "build_run_problem",
        "walk_problem": "build_walk_problem",
    },
)
