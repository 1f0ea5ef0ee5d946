"""Simulator: a figure that obeys physics, one step at a time."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import ConvergenceError, FloatArray, InputError, IntArray, MareyWarning, frozen
from marey.dynamics import GRAVITY, Body
from marey.lie import SO3
from marey.lie.so3 import wrap_unit
from marey.models import PoseModel
from marey.motion import Motion
from marey.simulate.constraints import ConstraintSet
from marey.simulate.contact import Ground, contact_spheres
from marey.simulate.forces import PointForce, pack_forces
from marey.simulate.integrator import (
    DEFAULT_STABILITY,
    Damping,
    Integrator,
    IntegratorSettings,
    StabilitySettings,
    StepLoad,
    StepRecord,
    StepSystem,
    check_energy,
    make_step_system,
    step_with_halving,
)
from marey.simulate.mechanics import State, state_after_step
from marey.simulate.mechanism import Mechanics, Root, make_mechanics, make_mechanism
from marey.skeleton import Pose, t_pose

if TYPE_CHECKING:
    from marey.kinematics import JointLimits
    from marey.simulate.constraints import Ball, Constraint, ConstraintSolution, Grounds, SolverState
    from marey.simulate.contact import StepContacts

INERTIA_RATIO: Final = 1e-10  # of the largest; smaller inertias count as zero
INERTIA_FLOOR: Final = 1e-8  # of the largest, given to every coordinate of a figure that lacks inertia


class Simulator:
    """A figure in few coordinates, or in all of them, that falls, flies and is pushed.

    Args:
        body: skeleton with masses.
        model: pose model whose coordinates move; by default every joint that moves mass turns freely.
        integrator: "constant" (the source's choice), "identity" or "naive", all explicit, or "variational", the
            implicit reference, which constraints project; [Tournier2011]_ §11.1.
        damping: "none", "energetic" (the source's choice), "kinematic" or "uniform"; [Tournier2011]_ §11.2.
        damping_rate: α of the damping: [1/s] for "energetic", [kg/s] for "kinematic", [kg m²/s] for "uniform".
        implicit_passes: how often an explicit step takes its own forces anew, with the velocity that they lead to.
        root: "com" for the centre of mass as the place (momentum is then kept exactly) or "pelvis", as in the source.
        gravity: acceleration ``(3,)`` [m/s²] in world.
        ground: what the figure stands on, or several of them.
        limits: joint limits of any kind.
        constraints: pins, rows of one's own, balls in flight.
        stability: when a step counts as unstable, and what is tried then.
    """

    def __init__(
        self,
        body: Body,
        model: PoseModel | None = None,
        *,
        integrator: Integrator = "constant",
        damping: Damping = "none",
        damping_rate: float = 1.0,
        implicit_passes: int = 0,
        root: Root = "com",
        gravity: ArrayLike = (0.0, -GRAVITY, 0.0),
        ground: Grounds = None,
        limits: JointLimits | None = None,
        constraints: Iterable[Constraint | Ball] = (),
        stability: StabilitySettings = DEFAULT_STABILITY,
    ) -> None:
        self.body, self.model, self.stability = body, model, stability
        self.method = IntegratorSettings(integrator, implicit_passes, damping, damping_rate)
        self.gravity = frozen(gravity, 3, name="gravity")
        self.mechanism = make_mechanism(body, model, root)
        self.constrainer = self._make_constraints(ground, limits, tuple(constraints))
        self.reset()

    @property
    def num_dof(self) -> int:
        """How many velocities there are."""
        return 6 + self.mechanism.basis.shape[2]

    @property
    def state(self) -> State:
        """Where the figure is and how it moves."""
        return self._done[-1].state

    @property
    def outcome(self) -> ConstraintSolution | None:
        """What the constraints did in the last step, if there are any."""
        return self._done[-1].outcome

    @property
    def contacts(self) -> StepContacts | None:
        """Points that touch, with their impulses, in the last step; None without constraints."""
        return None if self.outcome is None else self.outcome.contacts

    @property
    def memory(self) -> SolverState | None:
        """What the constraints remember for the next step."""
        return self._done[-1].memory

    @property
    def steps_made(self) -> tuple[StepRecord, ...]:
        """The steps that made up the last call of ``step``: more than one where one was unstable."""
        return tuple(self._done)

    def reset(self, pose: Pose | None = None, *, velocity: ArrayLike | None = None) -> State:
        """Put the figure into a pose (of a model: the nearest one that it has), at rest or with a velocity ``(d,)``."""
        if pose is None and self.model is not None:
            pose = Pose(self.body.skeleton, self.model.mean.root_position, self.model.mean.rotations)
        elif pose is None:
            pose = t_pose(self.body.skeleton)
        if pose.skeleton.names != self.body.skeleton.names:
            raise InputError("the pose has other joints than the body", "Retarget the pose to the body's skeleton")
        coordinates, wxyz = np.zeros(0), np.array(pose.rotations.wxyz)
        if self.model is not None:
            from marey.motion import Motion

            one = Motion(self.model.skeleton, 60.0, pose.root_position[None], pose.rotations.reshape(1, -1))
            coordinates = self.model.encode(one)[0]
            wxyz[1:] = self.model.rotations(coordinates).wxyz[1:]
        v = np.zeros(self.num_dof) if velocity is None else frozen(velocity, self.num_dof, name="velocity")
        root_position = pose.root_position
        rotations = SO3(wxyz)
        here = make_mechanics(self.mechanism, root_position, rotations.wxyz, frozen(coordinates, name="coordinates"))
        place = root_position + (root_position - here.joints[0])  # of the centre of mass, when that is the place
        # The inertia of a figure whose coordinates move nothing is lifted, from now on
        inertia, values = here.inertia, np.linalg.eigvalsh(here.inertia)
        if not values[0] > INERTIA_RATIO * values[-1]:
            floor = INERTIA_FLOOR * float(values[-1])
            warnings.warn(
                f"some coordinates move no mass (inertia {values[0]:.1g} of {values[-1]:.1g} kg m²): "
                f"each is given {floor:.1g} kg m². Use fewer coordinates, or give mass to the segments that they move",
                MareyWarning,
                stacklevel=4,
            )
            self.mechanism = self.mechanism._replace(armature=frozen(self.mechanism.armature + floor, name="armature"))
            inertia = inertia + np.diag(np.concatenate([np.zeros(6), np.full(self.num_dof - 6, floor)]))
        momentum = inertia @ v
        self._done = [StepRecord(State(self.body.skeleton, place, rotations, coordinates, v, momentum, root_position))]
        return self.state

    def mechanics(self) -> Mechanics:
        """Jacobians, inertia and centre of mass of the present configuration."""
        state = self.state
        return make_mechanics(self.mechanism, state.place, state.rotations.wxyz, state.coordinates)

    def step(
        self, dt: float, forces: Iterable[PointForce] = (), *, generalised_force: ArrayLike | None = None
    ) -> State:
        """Move on by ``dt`` [s] under gravity, forces from outside and a generalised force ``(d,)`` from inside.

        An unstable step is cut into smaller ones, then damped.

        Raises:
            ConvergenceError: it stays unstable; the last good state is the ``report``, and the simulator stays there.
        """
        dt, load = check_step(dt), self._load(forces, generalised_force)

        def attempt(before: StepRecord, h: float, extra: float) -> StepRecord | None:
            try:
                system = make_step_system(self.mechanism, self.method, before.state, load, h, extra)
            except np.linalg.LinAlgError:  # of Newton's steps
                return None
            if not system.is_solvable:
                return None
            # The free velocity, or the one that the constraints leave
            outcome = memory = None
            if self.constrainer is None:
                velocity, is_definite = system.free_velocity()
                if not is_definite:
                    return None
                impulse = h * system.outer
            else:
                outcome = self.constrainer.solve(system, before.state, before.memory)
                velocity, memory, impulse = outcome.velocity, outcome.memory, h * system.outer + outcome.impulse
            after = self._integrate(before.state, system, velocity)
            after = None if after is None else check_energy(before.state, after, impulse, self.stability)
            return None if after is None else StepRecord(after, system, outcome, memory, extra)

        self._done = step_with_halving(attempt, self._done[-1], dt, self.stability)
        return self.state

    def system(self, dt: float, forces: Iterable[PointForce] = ()) -> StepSystem:
        """What ``step`` would solve for its velocity, before constraints: for controllers."""
        load = self._load(forces, None)
        return make_step_system(self.mechanism, self.method, self.state, load, check_step(dt))

    def advance(self, system: StepSystem, velocity: ArrayLike, outcome: ConstraintSolution | None = None) -> State:
        """Move on over a step with a velocity ``(d,)`` found elsewhere, and keep what the constraints did in it.

        Raises:
            ConvergenceError: the figure would be nowhere.
        """
        v = np.array(frozen(velocity, self.num_dof, name="velocity"))
        state = self._integrate(self.state, system, v)
        if state is None:
            raise ConvergenceError("the velocity leads to no finite state", report=self.state)
        memory = self._done[-1].memory if outcome is None else outcome.memory
        self._done = [StepRecord(state, system, outcome, memory)]
        return state

    def throw(self, ball: Ball) -> None:
        """Let one more ball fly, from now on."""
        last = self._done[-1]
        if self.constrainer is None:
            self.constrainer = self._make_constraints(None, None, (ball,))
        else:
            self._done[-1] = replace(last, memory=self.constrainer.add_ball(last.memory, ball))

    def _integrate(self, before: State, system: StepSystem, velocity: FloatArray) -> State | None:
        configuration = (before.place, before.rotations.wxyz, before.coordinates)
        moved = state_after_step(self.mechanism, system.dt, velocity, system.mechanics.inertia, *configuration)
        if moved[5]:
            # State after a step, from finite arrays of our own: nothing is copied or checked again
            after = moved[:5]
            place, wxyz, coordinates, momentum, pelvis = after
            for array in (velocity, *after):
                array.setflags(write=False)
            state = object.__new__(State)
            values = (
                before.skeleton,
                place,
                wrap_unit(wxyz),
                coordinates,
                velocity,
                momentum,
                pelvis,
                before.time_s + system.dt,
                system.dt,
                0.0,
            )
            for name, value in zip(State.__slots__, values, strict=True):
                object.__setattr__(state, name, value)
            return state
        return None

    def _load(self, forces: Iterable[PointForce], generalised_force: ArrayLike | None) -> StepLoad:
        inner = np.zeros(self.num_dof)
        if generalised_force is not None:
            inner += frozen(generalised_force, self.num_dof, name="generalised_force")
        return StepLoad(self.body.mass_kg * self.gravity, pack_forces(self.body.skeleton, forces), inner)

    def _make_constraints(
        self, ground: Grounds, limits: JointLimits | None, constraints: tuple[Constraint | Ball, ...]
    ) -> ConstraintSet | None:
        grounds = () if ground is None else (ground,) if isinstance(ground, Ground) else tuple(ground)
        if not grounds and limits is None and not constraints:
            return None
        return ConstraintSet(self.body, self.mechanism, grounds, limits, constraints)


def check_step(dt: float) -> float:
    """Length of a step [s], which must be finite and above zero."""
    if not isinstance(dt, int | float | np.floating) or not isfinite(dt) or dt <= 0.0:  # pyright: ignore[reportUnnecessaryIsInstance]  # users may pass anything
        raise InputError(f"dt is {dt!r}", "Give the length of a step in seconds, finite and above zero")
    return float(dt)


DUST_KG, DUST_KGM2 = 1e-9, 1e-12  # MuJoCo requires mass on every moving body; joints between two segments have none
STRAIGHT = (1.0, 0.0, 0.0, 0.0)
CORNER_M = 1e-6  # [m] radius of the ball that stands for a corner of a sole: MuJoCo has no points


def to_mjcf(
    body: Body,
    *,
    ground: Ground | None = None,
    gravity: ArrayLike = (0.0, -GRAVITY, 0.0),
    step_s: float = 1e-3,
    pose: Pose | None = None,
    motion: Motion | None = None,
) -> str:
    """A body as MuJoCo's XML: a free root, a ball joint wherever the full space of ``Simulator`` has one.

    Velocities go as they are: MuJoCo's angular ones are in the joints' own frames, too. The root's velocity is that of
    the pelvis, and it comes before its angular velocity.

    Args:
        body: skeleton with masses.
        ground: plane that the touching points of ``contact_spheres`` cannot enter; nothing touches without one.
        gravity: acceleration ``(3,)`` [m/s²].
        step_s: length of MuJoCo's steps [s].
        pose: as which joints that move no mass (toes, fingers) stay; as in the rest pose by default.
        motion: frames of the body that become key frames, ``frame_0`` and on: ``mj_resetDataKeyframe`` poses it.
    """
    if not isfinite(step_s) or step_s <= 0.0:
        raise InputError(f"step_s is {step_s}", "Give the length of a step in seconds, finite and above zero")
    mechanism = make_mechanism(body, None, "pelvis")
    armature = {int(j): float(mechanism.armature[3 * n]) for n, j in enumerate(mechanism.joints)}
    # The ground, and the balls that touch it by the joint that carries them; they do not touch one another
    floor, balls = "", dict[int, str]()
    if ground is not None:
        grip = {"frictionless": 0.0, "stick": 10.0}.get(ground.friction, float(ground.mu))
        touch = f'condim="3" friction="{grip!r} 0 0"/>'
        plane = f'pos="{_numbers(ground.point)}" zaxis="{_numbers(ground.normal)}"'
        floor = f'<geom name="ground" type="plane" size="0 0 1" {plane} contype="1" conaffinity="0" {touch}'
        spheres, names = contact_spheres(body.skeleton)
        for name, joint, offset, radius in zip(names, *spheres, strict=True):
            size = f'size="{max(float(radius), CORNER_M)!r}" pos="{_numbers(offset)}"'
            geom = f'<geom name="{name}" type="sphere" {size} contype="0" conaffinity="1" {touch}'
            balls[int(joint)] = balls.get(int(joint), "") + geom

    def element(j: int) -> str:
        inside = "".join(element(int(c)) for c in np.flatnonzero(body.skeleton.parents == j))
        name = body.skeleton.names[j]
        joint = f'<freejoint name="{name}"/>' if j == 0 else ""
        if j in armature:
            joint = f'<joint name="{name}" type="ball" armature="{armature[j]!r}"/>'
        mass, centre, J = float(body.masses[j]), body.centres[j], body.inertias[j]
        full = (J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2])
        if mass <= 0.0:
            mass, centre, full = DUST_KG, np.zeros(3), (*[DUST_KGM2] * 3, 0.0, 0.0, 0.0)
        inertial = f'<inertial pos="{_numbers(centre)}" mass="{mass!r}" fullinertia="{_numbers(full)}"/>'
        place = body.skeleton.offsets[j] if j else np.zeros(3)
        turn = STRAIGHT if joint or pose is None else pose.rotations.wxyz[j]
        parts = f"{joint}{inertial}{balls.get(j, '')}{inside}"
        return f'<body name="{name}" pos="{_numbers(place)}" quat="{_numbers(turn)}">{parts}</body>'

    keys = list[str]()
    if motion is not None:
        # Place and turn of the free root, then the turn of each ball joint, in the order of the bodies
        order = [int(joint) for joint in _list_depth_first(body.skeleton.parents) if int(joint) in armature]
        for f in range(motion.num_frames):
            turns = motion.rotations.wxyz[f]
            numbers = np.concatenate([motion.root_positions[f], turns[0], turns[order].ravel()])
            keys.append(f'<key name="frame_{f}" time="{f / motion.rate_hz!r}" qpos="{_numbers(numbers)}"/>')
    frames = f"<keyframe>{''.join(keys)}</keyframe>" if keys else ""
    return (
        f'<mujoco><compiler angle="radian" autolimits="false" balanceinertia="false"/>'
        f'<option gravity="{_numbers(gravity)}" timestep="{step_s!r}" cone="elliptic"/>'
        f"<worldbody>{floor}{element(0)}</worldbody>{frames}</mujoco>"
    )


def _list_depth_first(parents: IntArray, joint: int = 0) -> list[int]:
    """Joints in the order in which the elements of the bodies open."""
    below = [j for child in np.flatnonzero(parents == joint) for j in _list_depth_first(parents, int(child))]
    return [joint, *below]


def _numbers(values: ArrayLike) -> str:
    return " ".join(repr(float(v)) for v in np.ravel(np.asarray(values, dtype=np.float64)))
