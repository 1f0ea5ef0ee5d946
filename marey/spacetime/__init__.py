"""Trajectory optimisation: the whole motion at once, in the full and in a reduced space of poses."""

from marey.spacetime._problem import Contact, Key, Objective, Phase, Problem
from marey.spacetime._toml import load_problem, parse_problem, problem_to_toml, save_problem

__all__ = [
    "Contact",
    "Key",
    "Objective",
    "Phase",
    "Problem",
    "load_problem",
    "parse_problem",
    "problem_to_toml",
    "save_problem",
]
