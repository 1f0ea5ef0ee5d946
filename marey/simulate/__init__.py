"""Simulation: a figure in few coordinates, or in all of them, obeys physics."""

from marey.base._deprecation import deprecated_names
from marey.simulate._ball import Ball
from marey.simulate._constraints_kinds import Constraint, HolonomicConstraint, Pin, VelocityConstraint
from marey.simulate._contacts import StepContacts, contact_spheres
from marey.simulate._damping import DAMPINGS
from marey.simulate._forces import PointForce
from marey.simulate._ground import FRICTIONS, Ground
from marey.simulate._integrators import INTEGRATORS, StepSystem
from marey.simulate._maximal import MaximalSimulator, MaximalState
from marey.simulate._mechanics import Mechanics
from marey.simulate._mjcf import to_mjcf
from marey.simulate._monitor import Monitor, SimulationLog, conserved_momentum
from marey.simulate._monitor_plot import plot_logs
from marey.simulate._monitor_scenario import momentum_scenario
from marey.simulate._push import Push, forces_at
from marey.simulate._record import Recorder
from marey.simulate._rows import ConstraintRows
from marey.simulate._simulator import Simulator
from marey.simulate._solve import StepSolution, solve_step
from marey.simulate._state import State

__all__ = [
    "DAMPINGS",
    "FRICTIONS",
    "INTEGRATORS",
    "Ball",
    "Constraint",
    "ConstraintRows",
    "Ground",
    "HolonomicConstraint",
    "MaximalSimulator",
    "MaximalState",
    "Mechanics",
    "Monitor",
    "Pin",
    "PointForce",
    "Push",
    "Recorder",
    "SimulationLog",
    "Simulator",
    "State",
    "StepContacts",
    "StepSolution",
    "StepSystem",
    "VelocityConstraint",
    "conserved_momentum",
    "contact_spheres",
    "forces_at",
    "momentum_scenario",
    "plot_logs",
    "solve_step",
    "to_mjcf",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "Contacts": "StepContacts",
        "Rows": "ConstraintRows",
        "Solution": "StepSolution",
    },
)
