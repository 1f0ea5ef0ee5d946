"""Clips for a machine that has nothing else."""

from marey.samples._found import load, names
from marey.samples._gaits import jump, run, walk

__all__ = ["jump", "load", "names", "run", "walk"]
