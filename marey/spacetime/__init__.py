"""Trajectory optimisation: the whole motion at once, in the full and in a reduced space of poses."""

from marey.spacetime._problem import Contact, Key, Objective, Phase, Problem

__all__ = ["Contact", "Key", "Objective", "Phase", "Problem"]
