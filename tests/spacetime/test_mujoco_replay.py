"""MuJoCo as the judge: the same body, the same forces, and an optimised flight flown again ([Fang2003]_ A39)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles.trees import random_tree
from scipy.interpolate import CubicSpline

from marey.dynamics import (
    REVOLUTE,
    JointTree,
    compute_aggregate,
    compute_com_motion,
    compute_point_motion,
    compute_torques,
)
from marey.motion import Motion
from marey.spacetime import SpacetimeProblem, optimize
from marey.spacetime.problem.definition import Contact, Objective, ProblemPhase

mujoco = pytest.importorskip("mujoco", reason="MuJoCo is not installed; it comes with marey[dev]")

Array = NDArray[np.float64]
DUST_KG, DUST_KGM2 = 1e-9, 1e-12  # MuJoCo wants mass on every link; ours between two turns of one joint have none
STEP_S = 1e-3
STIFFNESS, DAMPING = 2500.0, 100.0  # [1/s^2], [1/s] of the tracked joints, per unit of inertia
TWO_CM = 0.02


def mjcf(tree: JointTree, gravity: float = 9.81) -> str:
    """The tree as a MuJoCo model: a body with one hinge or slide for every coordinate; nothing collides."""

    def vector(values: Any) -> str:
        return " ".join(repr(float(v)) for v in np.ravel(values))

    def body(i: int) -> str:
        m, J = float(tree.masses[i]), tree.inertias[i]
        full = (J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]) if m > 0.0 else (*[DUST_KGM2] * 3, 0.0, 0.0, 0.0)
        kind = "hinge" if tree.kinds[i] == REVOLUTE else "slide"
        inside = "".join(body(int(k)) for k in np.flatnonzero(tree.parents == i))
        return (
            f'<body name="{tree.names[i]}" pos="{vector(tree.offsets[i])}" quat="{vector(tree.orientations[i])}">'
            f'<inertial pos="{vector(tree.centres[i])}" mass="{m or DUST_KG!r}" fullinertia="{vector(full)}"/>'
            f'<joint name="{tree.names[i]}" type="{kind}" axis="{vector(tree.axes[i])}"/>{inside}</body>'
        )

    trunk = "".join(body(int(k)) for k in np.flatnonzero(tree.parents == -1))
    return (
        f'<mujoco><compiler angle="radian" autolimits="false"/>'
        f'<option gravity="0 {-gravity} 0" timestep="{STEP_S}" integrator="RK4"/>'
        f"<worldbody>{trunk}</worldbody></mujoco>"
    )


@dataclass(frozen=True)
class Twin:
    """A tree and its MuJoCo model; MuJoCo visits bodies depth first, so coordinates are found by name."""

    tree: JointTree
    model: Any
    data: Any
    columns: Array  # (D,) place of each of our coordinates among MuJoCo's

    @classmethod
    def of(cls, tree: JointTree, gravity: float = 9.81) -> Twin:
        model = mujoco.MjModel.from_xml_string(mjcf(tree, gravity))
        columns = np.array([model.joint(name).dofadr[0] for name in tree.names])
        return cls(tree, model, mujoco.MjData(model), columns)

    def put(self, q: Array, qd: Array) -> None:
        self.data.qpos[self.columns], self.data.qvel[self.columns] = q, qd
        mujoco.mj_forward(self.model, self.data)

    def inverse(self, q: Array, qd: Array, qdd: Array) -> Array:
        self.put(q, qd)
        self.data.qacc[self.columns] = qdd
        mujoco.mj_inverse(self.model, self.data)
        return self.data.qfrc_inverse[self.columns].copy()

    def point(self, name: str) -> Array:
        dof, place = self.tree.point(name)
        at = self.data.body(self.tree.names[dof])
        return at.xpos + at.xmat.reshape(3, 3) @ place

    def com(self) -> Array:
        return self.data.subtree_com[0].copy()

    def inertia(self) -> Array:
        """Joint-space inertia ``(D, D)``, column by column."""
        M = np.zeros((self.model.nv, self.model.nv))
        for column, unit in zip(M, np.eye(self.model.nv), strict=True):
            mujoco.mj_mulM(self.model, self.data, column, unit)
        return M[np.ix_(self.columns, self.columns)]

    def track(self, qdd: Array, is_root: NDArray[np.bool_]) -> None:
        """One step in which the joints get the torques that accelerate them by ``qdd``; the root gets none.

        The six rows of the root in M a + b = 0 say how it then moves; MuJoCo works it out again by itself.
        """
        mujoco.mj_forward(self.model, self.data)
        M, bias, qdd = self.inertia(), self.data.qfrc_bias[self.columns], qdd.copy()
        free = -(M[np.ix_(is_root, ~is_root)] @ qdd[~is_root] + bias[is_root])
        qdd[is_root] = np.linalg.solve(M[np.ix_(is_root, is_root)], free)
        forces = M @ qdd + bias
        forces[is_root] = 0.0
        self.data.qfrc_applied[self.columns] = forces
        mujoco.mj_step(self.model, self.data)


TREES = {
    "fang22": JointTree.fang22(),
    "fang7": JointTree.fang7(),
    "chain": JointTree.chain(8),
    "random": random_tree(np.random.default_rng(5), 16),
}


def random_states(tree: JointTree, count: int) -> tuple[Array, Array, Array]:
    q, qd, qdd = np.random.default_rng(3).normal(size=(3, count, tree.num_dofs))
    return q, 2.0 * qd, 10.0 * qdd


@pytest.mark.parametrize("name", TREES)
def test_joint_forces_are_those_of_mujoco(name):
    tree = TREES[name]
    twin, states = Twin.of(tree), random_states(tree, 20)
    theirs = np.array([twin.inverse(*state) for state in zip(*states, strict=True)])
    ours = compute_torques(tree, *states)
    assert np.abs(ours - theirs).max() < 1e-6 * np.abs(theirs).max()


@pytest.mark.parametrize("name", TREES)
def test_mass_centre_and_energy_are_those_of_mujoco(name):
    tree = TREES[name]
    twin, (q, qd, _) = Twin.of(tree), random_states(tree, 10)
    assert float(twin.model.body_mass.sum()) == pytest.approx(tree.mass, rel=1e-8)
    twin.model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    still = np.zeros_like(q)
    centres = compute_com_motion(tree, q, qd, still).position
    kinetic = 0.5 * np.einsum(
        "fi,fi->f", qd, compute_torques(tree, q, still, qd, gravity=0.0)
    )  # M(q) qd, without gravity
    for f in range(len(q)):
        twin.put(q[f], qd[f])
        potential, moving = twin.data.energy
        np.testing.assert_allclose(twin.com(), centres[f], atol=1e-8)
        assert moving == pytest.approx(kinetic[f], rel=1e-7)
        assert potential == pytest.approx(tree.mass * 9.81 * centres[f, 1], abs=1e-5)


def test_momentum_is_that_of_mujoco():
    tree = TREES["fang22"]
    twin, (q, qd, qdd) = Twin.of(tree), random_states(tree, 10)
    ours = compute_aggregate(tree, q, qd, qdd)
    for f in range(len(q)):
        twin.put(q[f], qd[f])
        mujoco.mj_subtreeVel(twin.model, twin.data)
        np.testing.assert_allclose(twin.data.subtree_linvel[0], ours.com_velocity[f], atol=1e-7)
        np.testing.assert_allclose(twin.data.subtree_angmom[0], ours.angular_momentum[f], atol=1e-6)


def test_a_pendulum_let_go_keeps_the_energy_we_compute():
    tree = JointTree.chain(3)
    twin = Twin.of(tree)
    twin.put(np.array([0.8, -0.4, 0.5]), np.zeros(3))
    energies = []
    for _ in range(1000):
        mujoco.mj_step(twin.model, twin.data)
        q, qd = twin.data.qpos[None, twin.columns], twin.data.qvel[None, twin.columns]
        still = np.zeros_like(q)
        kinetic = 0.5 * (qd @ compute_torques(tree, q, still, qd, gravity=0.0).T).item()
        energies.append(kinetic + tree.mass * 9.81 * compute_com_motion(tree, q, qd, still).position[0, 1])
    assert np.ptp(energies) < 1e-5 * tree.mass * 9.81


# Flights

AIR_S = 0.40


def leap() -> SpacetimeProblem:
    """From the left foot to the right one, 0.9 m ahead."""
    phases = (
        ProblemPhase("push", 0.35, (Contact("left_foot", (0.09, 0.0, 0.0), friction=1.0),)),
        ProblemPhase("fly", AIR_S),
        ProblemPhase("land", 0.35, (Contact("right_foot", (-0.09, 0.0, 0.9), friction=1.0),)),
    )
    trunk = {"pitch": (-0.2, 0.5), "roll": (-0.25, 0.25), "yaw": (-0.5, 0.5)}
    return SpacetimeProblem("leap", phases, objective=Objective(accel=1.0, prior=2.0), guess="run", limits=trunk)


@dataclass(frozen=True)
class Flight:
    """Coordinates and their rates every STEP_S from take-off to landing."""

    q: Array  # (T, D)
    qd: Array
    qdd: Array


def flight_of(motion: Motion, tree: JointTree, start_s: float) -> Flight:
    """The frames in the air, with a cubic through each coordinate."""
    first, count = round(start_s * motion.rate_hz), round(AIR_S * motion.rate_hz) + 1
    q = tree.from_motion(motion)[first : first + count]
    curve = CubicSpline(np.arange(count) / motion.rate_hz, q)
    times = np.arange(round(AIR_S / STEP_S) + 1) * STEP_S
    return Flight(curve(times), curve(times, 1), curve(times, 2))


def fly(twin: Twin, flight: Flight) -> tuple[Array, Array]:
    """Start at take-off, track the joints, leave the root to physics: coordinates and centres of mass of all steps."""
    is_root = np.array([name.startswith("root") for name in twin.tree.names])
    twin.put(flight.q[0], flight.qd[0])
    flown, centres = [flight.q[0]], [twin.com()]
    for k in range(len(flight.q) - 1):
        now, rate = twin.data.qpos[twin.columns], twin.data.qvel[twin.columns]
        ahead = 0.5 * (flight.qdd[k] + flight.qdd[k + 1])
        twin.track(ahead + STIFFNESS * (flight.q[k] - now) + DAMPING * (flight.qd[k] - rate), is_root)
        mujoco.mj_forward(twin.model, twin.data)
        flown.append(twin.data.qpos[twin.columns].copy())
        centres.append(twin.com())
    return np.array(flown), np.array(centres)


@pytest.fixture(scope="module")
def twin() -> Twin:
    return Twin.of(TREES["fang22"])


@pytest.fixture(scope="module")
def flight() -> Flight:
    result = optimize(leap())
    return flight_of(result.motion, TREES["fang22"], 0.35)


def test_a39_an_optimised_flight_lands_within_two_centimetres_in_mujoco(twin, flight):
    flown, centres = fly(twin, flight)
    tree, joints = twin.tree, np.array([not name.startswith("root") for name in twin.tree.names])
    assert np.abs(flown - flight.q)[:, joints].max() < 1e-3  # the joints were tracked
    roots = np.linalg.norm((flown - flight.q)[:, :3], axis=1)
    assert roots.max() < TWO_CM
    path = compute_com_motion(tree, flight.q, flight.qd, flight.qdd).position
    assert np.linalg.norm(centres - path, axis=1).max() < 1e-3
    assert np.linalg.norm(twin.point("right_foot") - [-0.09, 0.0, 0.9]) < TWO_CM


def test_the_judge_notices_a_flight_that_is_not_ballistic(twin, flight):
    """The same joints with the turn of the trunk overdone by half: no root that is free can follow."""
    q, qd, qdd = (rates.copy() for rates in (flight.q, flight.qd, flight.qdd))
    turn = twin.tree.index("root_rx")
    for rates in (q, qd, qdd):
        rates[:, turn] *= 1.5
    q[:, turn] -= q[0, turn] - flight.q[0, turn]
    wrong = Flight(q, qd, qdd)
    foot, place = twin.tree.point("right_foot")
    wanted = compute_point_motion(twin.tree, q[-1:], qd[-1:], qdd[-1:], foot, place).position[0]
    fly(twin, wrong)
    assert np.linalg.norm(twin.point("right_foot") - wanted) > TWO_CM


def test_mujoco_agrees_that_no_force_holds_the_flight(twin, flight):
    """Root rows of the inverse dynamics vanish: forces to 1 % of the weight, moments to 1 % of it at one metre."""
    weight = 9.81 * twin.tree.mass
    inner = slice(5, -5, 20)  # a cubic through frames is loose at its ends
    states = zip(flight.q[inner], flight.qd[inner], flight.qdd[inner], strict=True)
    roots = np.array([twin.inverse(*state)[:6] for state in states])
    assert np.abs(roots).max() < 0.01 * weight
