"""Joint limits of every kind hold in a simulation, from both sides of them."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import FloatArray, InputError
from marey.dynamics import Body
from marey.kinematics import BoxLimits, EllipsoidLimits, JointLimits, fit_limits, posing_limits
from marey.kinematics.limits.ellipsoids import ellipsoid_levels
from marey.lie import SO3
from marey.models import PoseModel
from marey.motion import Motion
from marey.simulate import Ground, PointForce, Simulator
from marey.simulate.joint_limits import LimitRows
from marey.skeleton import HUMAN, Pose, Skeleton

H = 0.01
PULLED = ("LeftHand", "RightHand", "LeftFoot", "RightFoot", "Head")


def sway() -> Motion:
    """A clip in which every joint of the canonical human turns about all its axes."""
    rng, t = np.random.default_rng(8), np.linspace(0.0, 6.0, 160)
    turns = np.zeros((len(t), HUMAN.num_joints, 3))
    for j in range(1, HUMAN.num_joints):
        for i in range(3):
            a, b, c = rng.uniform(0.3, 1.0, 3)
            turns[:, j, i] = 0.6 * a * np.sin(3.0 * b * t + 6.0 * c)
    return Motion(HUMAN, 40.0, np.zeros((len(t), 3)), SO3.exp(turns), name="sway")


def shaken(simulator: Simulator, joints: tuple[str, ...], steps: int, size_n: float, seed: int = 0) -> list[SO3]:
    """Local rotations while random forces pull at joints, each for a fifth of a second."""
    rng, forces = np.random.default_rng(seed), list[PointForce]()
    seen: list[SO3] = []
    for n in range(steps):
        if n % 20 == 0:
            forces = [PointForce(j, size_n * rng.normal(size=3)) for j in joints]
        seen.append(simulator.step(H, forces).rotations)
    return seen


def levels(limits: EllipsoidLimits, seen: list[SO3]) -> FloatArray:
    wxyz = np.array([r.wxyz for r in seen])
    return ellipsoid_levels(wxyz, *(np.array(t) for t in limits.tables()))[..., 0]


@pytest.mark.mocap
def test_tournier_59_a_shaken_figure_stays_in_its_ellipsoids_and_leaves_them_without_limits(
    d1_body: Body, c1_model: PoseModel, d1_walk: Motion
) -> None:
    limits = EllipsoidLimits.from_clips(d1_walk)
    worst: dict[bool, float] = {}
    for is_on in (True, False):
        simulator = Simulator(
            d1_body,
            c1_model,
            damping="energetic",
            damping_rate=1.0,
            gravity=(0, 0, 0),
            limits=limits if is_on else None,
        )
        simulator.reset(d1_walk[100])
        found = levels(limits, shaken(simulator, PULLED, 1000, 30.0))
        worst[is_on] = float(found[:, _moved_by(simulator)].max())
    assert worst[True] <= 1.05
    assert worst[False] > 1.5


def _moved_by(simulator: Simulator) -> list[int]:
    """Joints that some coordinate moves; a model leaves the others as they are."""
    turns = simulator.mechanics().turns
    return [j for j in range(1, len(turns)) if np.abs(turns[j]).max() > 1e-6]


@pytest.mark.parametrize("kind", ["box", "cone", "ellipsoid", "sdf", "field"])
def test_every_kind_of_limit_holds_a_limp_figure(kind: str) -> None:
    clip = sway()
    limits = fit_limits(clip, kind)
    worst: dict[bool, float] = {}
    for is_on in (True, False):
        simulator = Simulator(
            Body.from_skeleton(HUMAN, mass_kg=70.0),
            damping="energetic",
            damping_rate=10.0,
            gravity=(0, 0, 0),
            limits=limits if is_on else None,
        )
        start = limits.project(Pose(HUMAN, [0, 1, 0], clip[60].rotations))
        simulator.reset(start)
        seen = shaken(simulator, ("left_wrist", "right_wrist", "head", "left_foot", "right_foot"), 60, 40.0)
        stacked = SO3(np.array([r.wxyz for r in seen]))
        worst[is_on] = float(limits.violations(stacked)[:, 1:].max())
    assert worst[True] < 0.06
    assert worst[False] > 4.0 * worst[True]


def test_a_kind_of_the_users_own_is_asked_through_the_contract() -> None:
    box = BoxLimits.from_clips(sway())

    class Own(JointLimits):
        kind = "own"

        def __init__(self) -> None:
            self.skeleton = HUMAN
            self.check = box.check  # pyright: ignore[reportIncompatibleMethodOverride]

        def check(self, rotations: SO3):  # pyright: ignore[reportIncompatibleMethodOverride]  # replaced at once
            raise AssertionError

        def to_arrays(self):
            return box.to_arrays()

        @classmethod
        def from_arrays(cls, skeleton, arrays):
            raise AssertionError

    def run(limits: JointLimits) -> FloatArray:
        simulator = Simulator(
            Body.from_skeleton(HUMAN, mass_kg=70.0), damping="energetic", damping_rate=10.0, limits=limits
        )
        return np.array([r.wxyz for r in shaken(simulator, ("left_wrist",), 20, 80.0)])

    np.testing.assert_allclose(run(Own()), run(box), atol=1e-12)


@pytest.mark.mocap
def test_the_row_of_an_ellipsoid_is_the_rate_of_its_level(d1_body: Body, c1_model: PoseModel, d1_walk: Motion) -> None:
    """Along any velocity the level changes as the row says, to first order."""
    limits = EllipsoidLimits.from_clips(d1_walk)
    simulator = Simulator(d1_body, c1_model, gravity=(0, 0, 0))
    rng = np.random.default_rng(5)
    coordinates = 2.0 * c1_model.encode(d1_walk)[50]
    pose = Pose(d1_walk.skeleton, d1_walk[50].root_position, c1_model.rotations(coordinates))
    simulator.reset(pose)
    here, state = simulator.mechanics(), simulator.state
    asked = LimitRows(limits, d1_body.skeleton)
    v = np.concatenate([np.zeros(6), rng.normal(size=15)])
    J, b, who, _ = asked.rows(state.rotations.wxyz, here.turns, np.zeros((len(here.joints), 3)), v, H)
    assert len(who) > 3
    step = 1e-6
    ends = [
        levels(limits, [c1_model.rotations(state.coordinates + sign * step * v[6:])])[0, who] for sign in (1.0, -1.0)
    ]
    slope = (ends[0] - ends[1]) / (2.0 * step)
    np.testing.assert_allclose(J @ v, -slope, rtol=1e-5, atol=1e-6 * np.abs(slope).max())
    level = levels(limits, [state.rotations])[0, who]
    inside = level <= 1.0
    np.testing.assert_allclose(b[inside], -(1.0 - level[inside]) / H, rtol=1e-9)
    assert (b[~inside] > 0.0).all()


@pytest.mark.mocap
def test_a_violation_at_the_start_heals_without_a_jolt(d1_body: Body, c1_model: PoseModel, d1_walk: Motion) -> None:
    limits = EllipsoidLimits.from_clips(d1_walk)
    simulator = Simulator(d1_body, c1_model, damping="energetic", damping_rate=2.0, gravity=(0, 0, 0), limits=limits)
    coordinates = 1.6 * c1_model.encode(d1_walk)[50]
    simulator.reset(Pose(d1_walk.skeleton, [0, 1, 0], c1_model.rotations(coordinates)))
    moved = _moved_by(simulator)
    first = levels(limits, [simulator.state.rotations])[0, moved].max()
    fastest = 0.0
    for _ in range(150):
        state = simulator.step(H)
        fastest = max(fastest, 0.5 * float(state.velocity @ simulator.mechanics().inertia @ state.velocity))
    assert first > 1.5
    assert levels(limits, [simulator.state.rotations])[0, moved].max() < 1.05
    assert fastest < 50.0


@pytest.mark.mocap
def test_replaying_the_training_clip_makes_no_row_push(d1_body: Body, c1_model: PoseModel, d1_walk: Motion) -> None:
    limits = EllipsoidLimits.from_clips(c1_model.decode(c1_model.encode(d1_walk)))
    asked, simulator = LimitRows(limits, d1_body.skeleton), Simulator(d1_body, c1_model)
    coordinates = c1_model.encode(d1_walk)
    for n in range(0, 340, 20):
        simulator.reset(d1_walk[n])
        v = np.concatenate([np.zeros(6), (coordinates[n + 1] - coordinates[n]) * d1_walk.rate_hz])
        here = simulator.mechanics()
        J, b, _, _ = asked.rows(
            simulator.state.rotations.wxyz, here.turns, np.zeros((len(here.joints), 3)), v, 1.0 / d1_walk.rate_hz
        )
        assert (J @ v - b).min(initial=0.0) > -0.05 * np.abs(J @ v).max(initial=1.0)


@pytest.mark.mocap
def test_limits_and_ground_work_together(d1_body: Body, c1_model: PoseModel, d1_walk: Motion) -> None:
    limits = EllipsoidLimits.from_clips(d1_walk)
    simulator = Simulator(
        d1_body, c1_model, damping="energetic", damping_rate=2.0, ground=Ground(point=(0, -0.2, 0)), limits=limits
    )
    simulator.reset(d1_walk[0])
    seen = [simulator.step(H).rotations for _ in range(250)]
    assert levels(limits, seen)[:, _moved_by(simulator)].max() < 1.1
    assert simulator.contacts is not None
    assert simulator.contacts.gaps.min() > -3e-3


def test_limits_of_another_figure_are_refused() -> None:
    body, stick = Body.from_skeleton(HUMAN), Skeleton(("a", "b"), [-1, 0], [[0, 0, 0], [0, 1, 0]])
    with pytest.raises(InputError, match="joints differ"):
        Simulator(body, limits=BoxLimits.free(stick))
    with pytest.raises(InputError, match="limits is a str"):
        Simulator(body, limits="box")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("seed", range(3))
def test_anatomical_limits_add_no_energy_to_a_limp_figure(seed: int) -> None:
    rng, limits = np.random.default_rng(seed), posing_limits(HUMAN)
    body, gravity = Body.from_skeleton(HUMAN, mass_kg=70.0), 9.81
    simulator = Simulator(body, damping="energetic", damping_rate=1.0, ground=Ground(), limits=limits)
    start = limits.project(Pose(HUMAN, [0, 1.6, 0], SO3.exp(0.5 * rng.normal(size=(HUMAN.num_joints, 3)))))
    simulator.reset(start, velocity=np.concatenate([np.zeros(6), rng.normal(size=simulator.num_dof - 6)]))
    energies, worst = list[float](), 0.0
    for _ in range(30):
        here, v = simulator.mechanics(), simulator.state.velocity
        energies.append(float(0.5 * v @ here.inertia @ v + body.mass_kg * gravity * here.com[1]))
        worst = max(worst, float(limits.violation(simulator.step(H).pose).max()))
    assert energies[-1] < energies[0]
    # Kinetic and potential energy together: what a step of the integrator may add
    assert max(np.diff(energies)) < 0.01 * energies[0]
    assert worst < 0.2
