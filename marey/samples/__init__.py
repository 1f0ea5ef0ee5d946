"""Shipped models, sketches, scripts and problems, and synthetic clips."""

from marey.base import guard_room
from marey.samples.gaits import jump, run, walk
from marey.samples.graph_clips import DEMO_SETTINGS, demo_clips, demo_graph
from marey.samples.shipped_files import (
    StarterProject,
    jump_problem,
    load,
    names,
    problem_file,
    problem_names,
    script_file,
    script_names,
    sketch_file,
    sketch_names,
    starter_project,
)

__all__ = [
    "DEMO_SETTINGS",
    "StarterProject",
    "demo_clips",
    "demo_graph",
    "jump",
    "jump_problem",
    "load",
    "names",
    "problem_file",
    "problem_names",
    "run",
    "script_file",
    "script_names",
    "sketch_file",
    "sketch_names",
    "starter_project",
    "walk",
]

guard_room(__name__)
