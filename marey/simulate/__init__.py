"""Simulation of figures in the coordinates of a pose model or in all joints: integrators, contacts, limits."""

from marey.base import deprecated_names, guard_room
from marey.simulate.constrained_step import ConstraintRows
from marey.simulate.constraints import Ball, Constraint, HolonomicConstraint, Pin, VelocityConstraint
from marey.simulate.contact import FRICTIONS, Ground, StepContacts, contact_spheres
from marey.simulate.forces import PointForce, Push, SimulationLoads, compute_loads, forces_at
from marey.simulate.integrator import StabilitySettings, StepSystem
from marey.simulate.mechanics import State
from marey.simulate.mechanism import Mechanics
from marey.simulate.monitor import Monitor, Recorder, SimulationLog, momentum_scenario
from marey.simulate.simulator import Simulator, to_mjcf

__all__ = [
    "FRICTIONS",
    "Ball",
    "Constraint",
    "ConstraintRows",
    "Ground",
    "HolonomicConstraint",
    "Mechanics",
    "Monitor",
    "Pin",
    "PointForce",
    "Push",
    "Recorder",
    "SimulationLoads",
    "SimulationLog",
    "Simulator",
    "StabilitySettings",
    "State",
    "StepContacts",
    "StepSystem",
    "VelocityConstraint",
    "compute_loads",
    "contact_spheres",
    "forces_at",
    "momentum_scenario",
    "to_mjcf",
]

guard_room(__name__)

__getattr__ = deprecated_names(
    __name__,
    {
        "Contacts": "StepContacts",
        "Rows": "ConstraintRows",
    },
)
