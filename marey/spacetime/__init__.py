"""Trajectory optimisation: the whole motion at once, in the full and in a reduced space of poses."""

from marey.spacetime._check import SolutionCheck, Track, check_solution
from marey.spacetime._edit import edit_kinematic, edit_valid
from marey.spacetime._edit_goals import Pin, PoseKey
from marey.spacetime._examples import EXAMPLES
from marey.spacetime._formulations import Formulation, report_formulations
from marey.spacetime._optimize import optimize
from marey.spacetime._problem import Contact, Key, Objective, Phase, Problem
from marey.spacetime._repair import make_valid
from marey.spacetime._repair_result import RepairResult
from marey.spacetime._result import SpacetimeResult
from marey.spacetime._toml import load_problem, parse_problem, problem_to_toml, save_problem

__all__ = [
    "EXAMPLES",
    "Contact",
    "Formulation",
    "Key",
    "Objective",
    "Phase",
    "Pin",
    "PoseKey",
    "Problem",
    "RepairResult",
    "SolutionCheck",
    "SpacetimeResult",
    "Track",
    "check_solution",
    "edit_kinematic",
    "edit_valid",
    "load_problem",
    "make_valid",
    "optimize",
    "parse_problem",
    "problem_to_toml",
    "report_formulations",
    "save_problem",
]
