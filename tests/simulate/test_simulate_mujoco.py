"""MuJoCo as the judge: an equal body, the same fall, and our contacts and forces beside its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles.stiff_walk import make_stiff_walk

from marey.base import InputError
from marey.control import Tracker
from marey.dynamics import GRAVITY, Body
from marey.kinematics import fit_limits
from marey.lie import SO3
from marey.models import PGA, PoseModel
from marey.motion import Motion
from marey.simulate import Ground, PointForce, Push, Simulator, State, contact_spheres, forces_at, to_mjcf
from marey.skeleton import Pose

mujoco = pytest.importorskip("mujoco", reason="MuJoCo is not installed; it comes with marey[dev]")

Array = NDArray[np.float64]
THEIR_STEP_S = 1e-3
OUR_STEP_S = 2e-3
WINDOW_S = 0.1
REPAIR = 50.0  # [1/s] of what a joint that follows ours lags behind
PASSES = 6  # of the search for its torque
HARD = (2.5 * THEIR_STEP_S, 1.0)  # solref: as hard as MuJoCo's contacts can be at its step
RIGID = (0.99, 0.999, 1e-4, 0.5, 2.0)  # solimp


@dataclass(frozen=True)
class Twin:
    """A body in MuJoCo whose velocities are those of our full space with the pelvis as its place."""

    body: Body
    model: Any
    data: Any
    joints: Array  # (N,) that turn, in our order
    columns: Array  # (d,) where our velocities are among MuJoCo's

    @classmethod
    def of(cls, body: Body, ground: Ground | None = None, *, gravity: float = GRAVITY, rk4: bool = False) -> Twin:
        model = mujoco.MjModel.from_xml_string(
            to_mjcf(body, ground=ground, gravity=(0.0, -gravity, 0.0), step_s=THEIR_STEP_S)
        )
        if rk4:
            model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
        model.geom_solref[:], model.geom_solimp[:] = HARD, RIGID
        joints = Simulator(body, root="pelvis").mechanism.joints
        dofs = [model.joint(body.skeleton.names[j]).dofadr[0] + i for j in joints for i in range(3)]
        return cls(body, model, mujoco.MjData(model), joints, np.array([3, 4, 5, 0, 1, 2, *dofs]))

    def bend(self, turns: Array) -> None:
        """Turn what moves no mass, such as toes, to local rotations ``(J, 4)``."""
        for j in set(range(1, len(turns))) - {int(j) for j in self.joints}:
            self.model.body(self.body.skeleton.names[j]).quat[:] = turns[j]

    def put(self, pose: Pose, velocity: Array) -> None:
        """Set pose and velocity ``(d,)`` in our order."""
        self.bend(pose.rotations.wxyz)
        self.data.qpos[:3], self.data.qpos[3:7] = pose.root_position, pose.rotations.wxyz[0]
        for j, at in self.joint_places():
            self.data.qpos[at : at + 4] = pose.rotations.wxyz[j]
        self.data.qvel[self.columns] = velocity
        mujoco.mj_forward(self.model, self.data)

    def joint_places(self) -> list[tuple[int, int]]:
        """Joints that turn, and where their quaternions begin."""
        return [(int(j), self.model.joint(self.body.skeleton.names[j]).qposadr[0]) for j in self.joints]

    def wxyz(self) -> Array:
        """Local rotations ``(J, 4)``; joints that cannot turn are as in the rest pose."""
        turns = np.tile([1.0, 0.0, 0.0, 0.0], (self.body.skeleton.num_joints, 1))
        turns[0] = self.data.qpos[3:7]
        for j, at in self.joint_places():
            turns[j] = self.data.qpos[at : at + 4]
        return turns

    def com(self) -> Array:
        return self.data.subtree_com[0].copy()

    def inertia(self) -> Array:
        M = np.zeros((self.model.nv, self.model.nv))
        for column, unit in zip(M, np.eye(self.model.nv), strict=True):  # mj_fullM changed between versions
            mujoco.mj_mulM(self.model, self.data, column, unit)
        return M[np.ix_(self.columns, self.columns)]

    def joint_inertia(self) -> Array:
        """Inertia of the joints while the root gives way."""
        M = self.inertia()
        return M[6:, 6:] - M[6:, :6] @ np.linalg.solve(M[:6, :6], M[:6, 6:])

    def drive(self, torque: Array, pushes: tuple[PointForce, ...], wanted: Array) -> Array:
        """Find and apply the joint torques that accelerate the joints as wanted, contacts and all, from a guess."""
        inertia = self.joint_inertia()
        for _ in range(PASSES):
            self.push(pushes)
            self.data.qfrc_applied[self.columns[6:]] += torque
            mujoco.mj_forward(self.model, self.data)
            torque = torque + inertia @ (wanted - self.data.qacc[self.columns[6:]])
        self.push(pushes)
        self.data.qfrc_applied[self.columns[6:]] += torque
        return torque

    def push(self, forces: tuple[PointForce, ...]) -> None:
        """Forces on points, as generalised ones, for the next step."""
        self.data.qfrc_applied[:] = 0.0
        for force in forces:
            body = self.data.body(force.joint)
            place = body.xpos + body.xmat.reshape(3, 3) @ force.offset_m
            mujoco.mj_applyFT(self.model, self.data, force.force_n, np.zeros(3), place, body.id, self.data.qfrc_applied)

    def ground_force(self) -> Array:
        """Sum ``(3,)`` [N] of what the ground does to the body."""
        total, one = np.zeros(3), np.zeros(6)
        for c in range(self.data.ncon):
            mujoco.mj_contactForce(self.model, self.data, c, one)
            total += self.data.contact[c].frame.reshape(3, 3).T @ one[:3]
        return total


@pytest.fixture(scope="module")
def walk() -> Motion:
    return make_stiff_walk()


@pytest.fixture(scope="module")
def body(walk: Motion) -> Body:
    return Body.from_motion(walk)


def random_state(body: Body, walk: Motion, seed: int) -> tuple[Simulator, Array]:
    rng = np.random.default_rng(seed)
    simulator = Simulator(body, root="pelvis")
    pose = walk[int(rng.integers(len(walk)))]
    turns = pose.rotations @ SO3.exp(0.3 * rng.normal(size=(body.skeleton.num_joints, 3)))
    velocity = rng.normal(size=simulator.num_dof)
    simulator.reset(Pose(body.skeleton, pose.root_position, turns), velocity=velocity)
    return simulator, velocity


@pytest.mark.parametrize("seed", range(4))
def test_the_body_is_the_same_in_mujoco(body: Body, walk: Motion, seed: int) -> None:
    simulator, velocity = random_state(body, walk, seed)
    twin, here = Twin.of(body), simulator.mechanics()
    twin.put(simulator.state.pose, velocity)
    mujoco.mj_subtreeVel(twin.model, twin.data)
    momentum = here.momentum_matrix() @ velocity
    assert float(twin.model.body_mass.sum()) == pytest.approx(body.mass_kg, rel=1e-9)
    np.testing.assert_allclose(twin.com(), here.com, atol=1e-9)
    np.testing.assert_allclose(twin.inertia(), here.inertia, atol=1e-7)
    np.testing.assert_allclose(twin.data.subtree_angmom[0], momentum[:3], atol=1e-6)
    np.testing.assert_allclose(body.mass_kg * twin.data.subtree_linvel[0], momentum[3:], atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_accelerations_under_a_push_are_those_of_mujoco(body: Body, walk: Motion, seed: int) -> None:
    simulator, velocity = random_state(body, walk, seed)
    twin, push = Twin.of(body), PointForce("right_wrist", (30.0, -20.0, 50.0), (0.0, -0.05, 0.02))
    twin.put(simulator.state.pose, velocity)
    twin.push((push,))
    mujoco.mj_forward(twin.model, twin.data)
    theirs, h = twin.data.qacc[twin.columns], 1e-6
    first = simulator.step(h, (push,)).velocity  # the momentum of a start is half a step late
    ours = (simulator.step(h, (push,)).velocity - first) / h
    assert np.abs(ours - theirs).max() < 1e-3 * np.abs(theirs).max()


def test_a_limp_figure_that_is_thrown_and_pushed_flies_as_in_mujoco(body: Body, walk: Motion) -> None:
    """Ours is of first order in its step, MuJoCo's Runge-Kutta of fourth: half the step, half the difference."""
    pose, push, seconds = walk[30], Push("pelvis", (0.0, 100.0, -300.0), 0.05, 0.1), 0.2
    simulator, twin = Simulator(body), Twin.of(body, rk4=True)
    velocity = np.zeros(simulator.num_dof)
    velocity[:6] = (0.3, 0.8, 0.4, 0.5, 2.0, 1.0)
    simulator.reset(pose)
    twin.put(pose, np.concatenate([velocity[:3], simulator.mechanics().linear[0] @ velocity, velocity[6:]]))
    for n in range(round(seconds / THEIR_STEP_S)):
        twin.push(forces_at((push,), n * THEIR_STEP_S, THEIR_STEP_S))
        mujoco.mj_step(twin.model, twin.data)
    mujoco.mj_forward(twin.model, twin.data)
    theirs = np.array([twin.data.body(name).xpos for name in body.skeleton.names])
    coms, joints = [], []
    for dt in (1e-3, 5e-4, 2.5e-4):
        simulator.reset(pose, velocity=velocity)
        for n in range(round(seconds / dt)):
            end = simulator.step(dt, forces_at((push,), n * dt, dt))
        coms.append(np.linalg.norm(simulator.mechanics().com - twin.com()))
        joints.append(np.abs(end.pose.joint_positions() - theirs).max())
    np.testing.assert_allclose(np.array(coms[1:]) / coms[:-1], 0.5, atol=0.02)
    assert coms[2] < 3e-4
    assert joints[2] < 0.6 * joints[1] < 0.36 * joints[0]
    assert joints[2] < 5e-4


# Figures on the ground


@dataclass(frozen=True)
class Step:
    """One step of ours, as MuJoCo needs it."""

    before: Pose
    after: Pose
    velocity: Array  # (d,) during the step, in the full space with the pelvis as its place
    com: Array  # (3,) after it
    pushes: tuple[PointForce, ...]
    joints: Array  # (C,) that carry the contacts
    places: Array  # (C, 3)
    forces: Array  # (C, 3) [N]


def noted(simulator: Simulator, full: Array, before: Pose, pushes: tuple[PointForce, ...]) -> Step:
    """The step that was just made; ``full`` are the joints of the full space."""
    assert simulator.contacts is not None
    done, contacts = simulator.steps_made[-1], simulator.contacts
    assert done.system is not None
    here, v = done.system.mechanics, simulator.state.velocity
    turns = (here.turns @ v[6:])[full].ravel()
    velocity = np.concatenate([v[:3], here.linear[0] @ v, turns])
    found = (contacts.joints, contacts.places, contacts.forces)
    return Step(before, simulator.state.pose, velocity, simulator.mechanics().com, pushes, *found)


def performed(
    simulator: Simulator, seconds: float, pushes: tuple[Push, ...] = (), step: Callable[..., State] | None = None
) -> list[Step]:
    """Steps of a simulation of ours, by the simulator itself or by a controller."""
    full = Simulator(simulator.body).mechanism.joints
    steps: list[Step] = []
    for n in range(round(seconds / OUR_STEP_S)):
        before, forces = simulator.state.pose, forces_at(pushes, n * OUR_STEP_S, OUR_STEP_S)
        (step or simulator.step)(OUR_STEP_S, forces)
        assert len(simulator.steps_made) == 1
        steps.append(noted(simulator, full, before, forces))
    return steps


def torques(twin: Twin, steps: list[Step]) -> Array:
    """Generalised forces ``(N, d)`` that MuJoCo finds for our steps, under our contact forces; a root needs none."""
    found = []
    for last, step in zip([steps[0], *steps], steps, strict=False):
        twin.put(step.before, 0.5 * (last.velocity + step.velocity))
        twin.data.qacc[twin.columns] = (step.velocity - last.velocity) / OUR_STEP_S
        mujoco.mj_inverse(twin.model, twin.data)
        needed = twin.data.qfrc_inverse.copy()
        twin.push(step.pushes)
        for j, place, force in zip(step.joints, step.places, step.forces, strict=True):
            number = twin.data.body(twin.body.skeleton.names[j]).id
            mujoco.mj_applyFT(twin.model, twin.data, force, np.zeros(3), place, number, twin.data.qfrc_applied)
        found.append((needed - twin.data.qfrc_applied)[twin.columns])
    return np.array(found)


def replayed(twin: Twin, steps: list[Step], start: Array) -> tuple[Array, Array]:
    """MuJoCo's centres of mass ``(N, 3)`` and ground forces ``(N, 3)``: joints turn as ours, the root is free.

    What the root does is decided by MuJoCo's own contacts alone.
    """
    twin.put(steps[0].before, start)
    passes, coms, ground = round(OUR_STEP_S / THEIR_STEP_S), [], []
    torque = np.zeros(len(twin.columns) - 6)
    for step in steps:
        turn = (step.before.rotations.inverse() @ step.after.rotations).log()
        total = np.zeros(3)
        for n in range(passes):
            wanted = step.before.rotations @ SO3.exp(n / passes * turn)
            twin.bend(wanted.wxyz)
            error = (SO3(twin.wxyz()).inverse() @ wanted).log()[twin.joints].ravel()
            lag = (step.velocity - twin.data.qvel[twin.columns])[6:]
            torque = twin.drive(torque, step.pushes, (REPAIR * error + lag) / THEIR_STEP_S)
            mujoco.mj_step(twin.model, twin.data)
            total += twin.ground_force() / passes
        mujoco.mj_forward(twin.model, twin.data)
        coms.append(twin.com())
        ground.append(total)
    return np.array(coms), np.array(ground)


def compared(simulator: Simulator, steps: list[Step]) -> tuple[Array, Array, Array]:
    """Per window: largest distance of the two centres of mass [m], our and MuJoCo's mean ground force ``(W, 3)`` [N].

    Each window starts in our state: a figure on its feet is an inverted pendulum, whatever simulates it.
    """
    assert simulator.constrainer is not None
    twin, length = Twin.of(simulator.body, simulator.constrainer.grounds[0]), round(WINDOW_S / OUR_STEP_S)
    gaps, ours, theirs = [], [], []
    for first in range(0, len(steps) - length + 1, length):
        window = steps[first : first + length]
        coms, ground = replayed(twin, window, steps[max(0, first - 1)].velocity)
        gaps.append(np.linalg.norm(coms - [step.com for step in window], axis=1).max())
        ours.append(np.mean([step.forces.sum(axis=0) for step in window], axis=0))
        theirs.append(ground.mean(axis=0))
    return np.array(gaps), np.array(ours), np.array(theirs)


@pytest.fixture(scope="module")
def model(walk: Motion) -> PoseModel:
    return PGA(n_components=15, weights="lever").fit([walk])


def placed(body: Body, model: PoseModel, walk: Motion, height_m: float) -> Simulator:
    """A figure in few modes, its lowest point at a height above the ground."""
    limits = fit_limits([walk], "box", margin_rad=0.2)
    simulator = Simulator(body, model, damping="energetic", damping_rate=5.0, ground=Ground(), limits=limits)
    pose = simulator.reset(walk[0]).pose
    spheres, _ = contact_spheres(body.skeleton)
    here = simulator.mechanics()
    lowest = min(here.point(int(j), offset)[1] - radius for j, offset, radius in zip(*spheres, strict=True))
    up = np.array([0.0, height_m - lowest, 0.0])
    simulator.reset(Pose(pose.skeleton, pose.root_position + up, pose.rotations))
    return simulator


def assert_judged(simulator: Simulator, steps: list[Step], com_m: float) -> None:
    """MuJoCo needs no force on the root for our motion, and its own contacts carry the figure as ours do."""
    weight = simulator.body.weight_n
    root = torques(Twin.of(simulator.body), steps)[1:, :6]
    assert np.abs(root[:, 3:]).mean() < 0.005 * weight
    assert np.abs(root[:, :3]).mean() < 0.002 * weight  # [N m] at a metre
    gaps, ours, theirs = compared(simulator, steps)
    assert np.median(gaps) < com_m
    assert gaps.max() < 15e-3
    assert np.median(np.abs(ours - theirs)[:, 1]) < 0.1 * weight
    assert np.abs(ours.mean(axis=0) - theirs.mean(axis=0)).max() < 0.1 * weight


def test_a_dropped_figure_is_carried_as_in_mujoco(body: Body, model: PoseModel, walk: Motion) -> None:
    simulator = placed(body, model, walk, 0.05)
    steps = performed(simulator, 0.6)
    assert_judged(simulator, steps, com_m=10e-3)  # their contacts are softer than our impacts


def test_a_pushed_figure_is_carried_as_in_mujoco(body: Body, model: PoseModel, walk: Motion) -> None:
    simulator = placed(body, model, walk, 0.0)
    steps = performed(simulator, 0.6, (Push("spine3", (0.0, 0.0, 150.0), 0.1, 0.2),))
    assert_judged(simulator, steps, com_m=8e-3)


def test_a_figure_that_tracks_a_walk_by_its_own_forces_is_carried_as_in_mujoco(
    body: Body, model: PoseModel, walk: Motion
) -> None:
    simulator = Simulator(body, model, damping="energetic", damping_rate=1.0, ground=Ground())
    tracker = Tracker(simulator, walk, dt=OUR_STEP_S)
    steps = performed(simulator, 0.4, step=lambda _, forces: tracker.step(forces))
    assert_judged(simulator, steps, com_m=4e-3)


def test_mujoco_notices_forces_that_are_not_ours(body: Body, model: PoseModel, walk: Motion) -> None:
    simulator = placed(body, model, walk, 0.0)
    steps = [replace(step, forces=0.9 * step.forces) for step in performed(simulator, 0.4)]
    root = torques(Twin.of(body), steps)[1:, 3:6]
    assert np.abs(root[:, 1]).mean() > 0.02 * body.weight_n


def test_a_model_for_mujoco_takes_sensible_steps_only(body: Body) -> None:
    with pytest.raises(InputError, match="step_s"):
        to_mjcf(body, step_s=0.0)
