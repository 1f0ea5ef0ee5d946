"""Simulator: a figure that obeys physics, one step at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.dynamics import GRAVITY, Body
from marey.lie import SO3
from marey.models import PoseModel
from marey.simulate._forces import PointForce, generalised
from marey.simulate._mechanics import Mechanics, mechanics_of
from marey.simulate._mechanism import Root, make_mechanism
from marey.simulate._state import State
from marey.skeleton import Pose

Integrator = Literal["constant", "identity", "naive"]
INTEGRATORS: Final[tuple[Integrator, ...]] = ("naive", "identity", "constant")  # in the order of the kernels' numbers


class Simulator:
    """A figure in few coordinates, or in all of them, that falls, flies and is pushed.

    Args:
        body: skeleton with masses.
        model: pose model whose coordinates move; by default every joint that moves mass turns freely.
        integrator: "constant" (the source's choice), "identity" or "naive"; [Tournier2011]_ §11.1.3.
        root: "com" for the centre of mass as the place (momentum is then kept exactly) or "pelvis", as in the source.
        gravity: acceleration ``(3,)`` [m/s²] in world.
    """

    def __init__(
        self,
        body: Body,
        model: PoseModel | None = None,
        *,
        integrator: Integrator = "constant",
        root: Root = "com",
        gravity: ArrayLike = (0.0, -GRAVITY, 0.0),
    ) -> None:
        if integrator not in INTEGRATORS:
            raise UnknownNameError("integrator", str(integrator), "the simulator", INTEGRATORS)
        self.body, self.model = body, model
        self.integrator: Integrator = integrator
        self.gravity = frozen(gravity, 3, name="gravity")
        self.mechanism = make_mechanism(body, model, root)
        self.reset()

    @property
    def num_dof(self) -> int:
        """How many velocities there are."""
        return 6 + self.mechanism.basis.shape[2]

    @property
    def state(self) -> State:
        """Where the figure is and how it moves."""
        return self._state

    def reset(self, pose: Pose | None = None, *, velocity: ArrayLike | None = None) -> State:
        """Put the figure into a pose (of a model: the nearest one that it has), at rest or with a velocity ``(d,)``."""
        pose = self._first_pose() if pose is None else pose
        if pose.skeleton.names != self.body.skeleton.names:
            raise InputError("the pose has other joints than the body", "Retarget the pose to the body's skeleton")
        coordinates, wxyz = self._encoded(pose)
        v = np.zeros(self.num_dof) if velocity is None else frozen(velocity, self.num_dof, name="velocity")
        return self._placed(pose.root_position, wxyz, coordinates, v)

    def mechanics(self) -> Mechanics:
        """Jacobians, inertia and centre of mass of the present configuration."""
        state = self._state
        return mechanics_of(self.mechanism, state.place, _plain(state.rotations.wxyz), state.coordinates)

    def step(
        self, dt: float, forces: Iterable[PointForce] = (), *, generalised_force: FloatArray | None = None
    ) -> State:
        """Move on by ``dt`` [s] under gravity, forces from outside and a generalised force ``(d,)`` from inside."""
        from marey.simulate._integrators_kernels import moved, transported
        from marey.simulate._mechanism_kernels import shaped

        state, here = self._state, self.mechanics()
        total = (
            here.own_forces(state.coordinates, state.velocity) + self.body.mass_kg * self.gravity @ here.com_jacobian
        )
        total += generalised(here, self.body.skeleton, forces)
        if generalised_force is not None:
            total += generalised_force
        scheme = INTEGRATORS.index(self.integrator)
        pushed = transported(self.mechanism, scheme, dt, state.velocity, state.momentum, total)
        velocity = np.linalg.solve(here.inertia, pushed)
        wxyz = _plain(state.rotations.wxyz)
        place, wxyz, coordinates = moved(self.mechanism, dt, velocity, state.place, wxyz, state.coordinates)
        shaped(self.mechanism, coordinates, wxyz)
        self._state = State(
            self.body.skeleton,
            place,
            SO3(wxyz),
            coordinates,
            velocity,
            here.inertia @ velocity,
            self._pelvis(place, wxyz),
            state.time_s + dt,
        )
        return self._state

    def _first_pose(self) -> Pose:
        if self.model is not None:
            mean = self.model.mean
            return Pose(self.body.skeleton, mean.root_position, mean.rotations)
        from marey.skeleton import t_pose

        return t_pose(self.body.skeleton)

    def _encoded(self, pose: Pose) -> tuple[FloatArray, FloatArray]:
        if self.model is None:
            return np.zeros(0), np.array(pose.rotations.wxyz)
        from marey.motion import Motion

        one = Motion(self.model.skeleton, 60.0, pose.root_position[None], pose.rotations.reshape(1, -1))
        coordinates = self.model.encode(one)[0]
        wxyz = np.array(self.model.rotations(coordinates).wxyz)
        wxyz[0] = pose.rotations.wxyz[0]
        return coordinates, wxyz

    def _placed(self, root_position: FloatArray, wxyz: FloatArray, coordinates: FloatArray, v: FloatArray) -> State:
        place = np.array(root_position, dtype=np.float64)
        here = mechanics_of(self.mechanism, place, wxyz, coordinates)
        place = place + (root_position - here.joints[0])  # of the centre of mass, when that is the place
        inertia = here.inertia
        rotations, skeleton = SO3(wxyz), self.body.skeleton
        self._state = State(skeleton, place, rotations, coordinates, v, inertia @ v, root_position, 0.0)
        return self._state

    def _pelvis(self, place: FloatArray, wxyz: FloatArray) -> FloatArray:
        from marey.simulate._mechanism_kernels import placed

        return placed(self.mechanism, place, wxyz)[1][0]


def _plain(array: FloatArray) -> FloatArray:
    view = np.ascontiguousarray(array)[...]
    view.setflags(write=False)
    return view
