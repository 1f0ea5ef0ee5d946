"""Simulation: a figure in few coordinates, or in all of them, obeys physics."""

from marey.simulate._forces import PointForce
from marey.simulate._mechanics import Mechanics
from marey.simulate._simulator import Simulator
from marey.simulate._state import State

__all__ = ["Mechanics", "PointForce", "Simulator", "State"]
