"""State: where a simulated figure is and how it moves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, InputError, frozen
from marey.lie import SO3
from marey.skeleton import Pose, Skeleton


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class State:
    r"""One instant of a simulation.

    The velocity is :math:`v = (\omega, \dot x, \dot\lambda)`; see ``Mechanism``. The momentum is the one that the
    integrator carries on, :math:`p_{k+1} = M(g_k)\,v_{k+1}`.
    """

    skeleton: Skeleton
    place: FloatArray  # (3,) [m] in world, of the centre of mass or of the pelvis
    rotations: SO3  # batch (J,), the root's in world, the others' in their parents
    coordinates: FloatArray  # (k,) of the pose model; empty in the full space
    velocity: FloatArray  # (d,)
    momentum: FloatArray  # (d,)
    root_position: FloatArray  # (3,) [m] of the pelvis
    time_s: float = 0.0
    step_s: float = 0.0  # [s] length of the step that led here: the momentum is still that of its start
    surplus_j: float = 0.0  # [J] kinetic energy that steps made out of nothing

    def __post_init__(self) -> None:
        for name, width in (("place", 3), ("coordinates", None), ("velocity", None), ("momentum", None)):
            object.__setattr__(self, name, frozen(getattr(self, name), width, name=name))
        object.__setattr__(self, "root_position", frozen(self.root_position, 3, name="root_position"))
        if self.rotations.shape != (self.skeleton.num_joints,):
            raise InputError(f"rotations have batch {self.rotations.shape}, expected ({self.skeleton.num_joints},)")
        if not np.isfinite((self.time_s, self.step_s)).all():
            raise InputError(f"time_s is {self.time_s}, step_s {self.step_s}", "Give finite times")

    @property
    def pose(self) -> Pose:
        """The pose, as every other part of the library takes it."""
        return Pose(self.skeleton, self.root_position, self.rotations)

    @property
    def kinetic_j(self) -> float:
        r"""Kinetic energy [J], :math:`\frac12 v^T p`."""
        return 0.5 * float(self.velocity @ self.momentum)

    def __repr__(self) -> str:
        speed = float(np.linalg.norm(self.velocity[3:6]))
        return f"State({self.time_s:.3f} s, {self.velocity.size} degrees of freedom, {speed:.2f} m/s)"


def make_next_state(
    before: State,
    dt: float,
    velocity: FloatArray,
    moved: tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray],
) -> State:
    """State after a step, from finite arrays of our own: nothing is copied or checked again.

    Args:
        before: state at its start.
        dt: length of the step [s].
        velocity: velocity ``(d,)`` that it moved with.
        moved: place, local rotations, coordinates, momentum and place of the pelvis, as the kernels give them.
    """
    place, wxyz, coordinates, momentum, pelvis = moved
    for array in (velocity, *moved):
        array.setflags(write=False)
    state = object.__new__(State)
    values = (before.skeleton, place, SO3(wxyz), coordinates, velocity, momentum, pelvis, before.time_s + dt, dt, 0.0)
    for name, value in zip(State.__slots__, values, strict=True):
        object.__setattr__(state, name, value)
    return state
