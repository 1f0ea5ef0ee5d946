"""Simulation: a figure in few coordinates, or in all of them, obeys physics."""

from marey.simulate._ball import Ball
from marey.simulate._constraints_kinds import Constraint, HolonomicConstraint, Pin, VelocityConstraint
from marey.simulate._contacts import Contacts, contact_spheres
from marey.simulate._forces import PointForce
from marey.simulate._ground import FRICTIONS, Ground
from marey.simulate._mechanics import Mechanics
from marey.simulate._rows import Rows
from marey.simulate._simulator import Simulator
from marey.simulate._solve import Solution, solve_step
from marey.simulate._state import State

__all__ = [
    "FRICTIONS",
    "Ball",
    "Constraint",
    "Contacts",
    "Ground",
    "HolonomicConstraint",
    "Mechanics",
    "Pin",
    "PointForce",
    "Rows",
    "Simulator",
    "Solution",
    "State",
    "VelocityConstraint",
    "contact_spheres",
    "solve_step",
]
