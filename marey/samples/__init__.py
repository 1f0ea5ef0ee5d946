"""Clips and problems for a machine that has nothing else."""

from marey.samples._clips import demo_clips, demo_picks
from marey.samples._demo_graph import DEMO_SETTINGS, demo_graph, demo_graph_file
from marey.samples._found import load, names
from marey.samples._gaits import jump, run, walk
from marey.samples._picks import pick_up
from marey.samples._problems import jump_problem, problem_file, problem_names
from marey.samples._scripts import script_file, script_names
from marey.samples._sketches import sketch_file, sketch_names

__all__ = [
    "DEMO_SETTINGS",
    "demo_clips",
    "demo_graph",
    "demo_graph_file",
    "demo_picks",
    "jump",
    "jump_problem",
    "load",
    "names",
    "pick_up",
    "problem_file",
    "problem_names",
    "run",
    "script_file",
    "script_names",
    "sketch_file",
    "sketch_names",
    "walk",
]
