"""One battery for every kind of joint limit: projection, violation, gradient, bad input, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marey.base import EPS, InputError
from marey.kinematics import (
    AnatomicalLimits,
    BoxLimits,
    ConeLimits,
    EllipsoidLimits,
    JointLimits,
    anatomical_limits,
    load_limits,
)
from marey.kinematics.limits.cones import ReachConeLimits
from marey.kinematics.limits.sdf import QuaternionFieldLimits, SdfLimits
from marey.lie import SO3, geodesic_distance
from marey.motion import Motion
from marey.skeleton import HUMAN, EulerLimits, Pose, Skeleton

STAR = np.array([[0.2, 1.0, 0.1], [0.1, 0.4, 0.2], [0.0, 0.3, 1.0], [-0.1, -0.1, 0.5], [0.1, -0.8, 0.3], [0.5, 0, -1]])


def random_frames(rng: np.random.Generator, count: int, spread_rad: float = 2.5) -> SO3:
    return SO3.exp(spread_rad * rng.uniform(-1.0, 1.0, (count, HUMAN.num_joints, 3)))


def make_box() -> BoxLimits:
    rng = np.random.default_rng(3)
    low = rng.uniform(-1.5, 0.2, (HUMAN.num_joints, 3))
    high = low + rng.uniform(0.0, 1.5, low.shape)
    low[1, 0], high[2], low[2], high[3] = -np.inf, np.inf, -np.inf, low[3]
    low[4], high[4] = (2.5, -0.3, -0.3), (4.0, 0.3, 0.3)  # reaches over half a turn
    return BoxLimits(HUMAN, low, high)


def make_euler() -> JointLimits:
    rng = np.random.default_rng(4)
    orders = ["xyz", "xzy", "zxy", "yx", "z", "zyx", "yzx", "yxz"]
    limits = [
        EulerLimits(HUMAN.names[1 + j], order, low, low + rng.uniform(0.1, 1.5, low.shape), SO3.random(rng))
        for j, order in enumerate(orders)
        for low in [rng.uniform(-1.2, 0.0, len(order))]
    ]
    return BoxLimits.from_skeleton(
        Skeleton(HUMAN.names, HUMAN.parents, HUMAN.offsets, HUMAN.tips, tuple(limits), HUMAN.name)
    )


def make_cones() -> ConeLimits:
    rng = np.random.default_rng(5)
    swing, twist = rng.uniform(0.1, 1.2, (HUMAN.num_joints, 2)), np.array([-0.7, 0.3])
    swing[1], swing[2, 0], swing[3], swing[4] = 0.6, 0.0, np.inf, (np.inf, 0.4)
    return ConeLimits.around_bones(HUMAN, swing, twist, centres=SO3.exp(rng.normal(0.0, 0.4, (HUMAN.num_joints, 3))))


def make_reach() -> ReachConeLimits:
    polygons = dict.fromkeys(("left_shoulder", "right_hip", "head"), STAR)
    return ReachConeLimits.around_bones(
        HUMAN, polygons, twists={"head": (-0.4, 0.6), "right_hip": (0.1, 0.1)}, inner={"head": (0.15, 0.2, 0.4)}
    )


def wander() -> Motion:
    """A clip in which every joint wanders; some have fewer freedoms than three."""
    rng, t = np.random.default_rng(8), np.linspace(0.0, 6.0, 240)
    turns = np.zeros((len(t), HUMAN.num_joints, 3))
    for j in range(1, HUMAN.num_joints):
        for i in range(3 if j % 4 else j % 3):
            a, b, c = rng.uniform(0.3, 1.0, 3)
            turns[:, j, i] = 0.9 * a * np.sin(2.0 * b * t + 6.0 * c) + 0.2 * np.sin(5.0 * c * t)
    rest = SO3.exp(rng.normal(0.0, 0.5, (HUMAN.num_joints, 3)))
    return Motion(HUMAN, 40.0, np.zeros((len(t), 3)), rest @ SO3.exp(turns), name="wander")


def make_ellipsoids() -> EllipsoidLimits:
    return EllipsoidLimits.from_clips(wander())


def make_sdf() -> SdfLimits:
    return SdfLimits.from_clips(wander(), resolution=12)


def make_sdf_euler() -> SdfLimits:
    return SdfLimits.from_clips(wander(), resolution=(10, 12, 9), metric="euler")


def make_sdf_periodic() -> SdfLimits:
    return SdfLimits.from_clips(wander(), resolution=(24, 12, 24), metric="euler_periodic")


def make_field() -> QuaternionFieldLimits:
    return QuaternionFieldLimits.from_clips(wander(), max_samples=40)


def make_anatomical() -> AnatomicalLimits:
    return anatomical_limits(HUMAN)


MAKERS = [
    make_box,
    make_euler,
    make_cones,
    make_reach,
    make_ellipsoids,
    make_sdf,
    make_sdf_euler,
    make_sdf_periodic,
    make_field,
    make_anatomical,
]


@pytest.fixture(scope="module", params=MAKERS, ids=lambda make: make.__name__[5:])
def limits(request: pytest.FixtureRequest) -> JointLimits:
    return request.param()


@pytest.mark.parametrize("frames", [60, pytest.param(400, marks=pytest.mark.slow)])
def test_projected_rotations_are_feasible_from_anywhere(limits: JointLimits, frames: int) -> None:
    rotations = random_frames(np.random.default_rng(0), frames)
    assert limits.violations(rotations).max() > 0.5
    assert limits.violations(limits.project_rotations(rotations)).max() < 1e-9


@pytest.mark.parametrize("frames", [60, pytest.param(400, marks=pytest.mark.slow)])
def test_projecting_twice_changes_nothing(limits: JointLimits, frames: int) -> None:
    once = limits.project_rotations(random_frames(np.random.default_rng(1), frames))
    twice = limits.project_rotations(once)
    assert geodesic_distance(once, twice).max() < 1e-8


def test_feasible_rotations_come_back_as_they_were(limits: JointLimits) -> None:
    inside = limits.project_rotations(random_frames(np.random.default_rng(2), 200))
    check = limits.check(inside)
    free = check.violation == 0.0
    assert free.mean() > 0.1
    assert np.array_equal(check.projected.wxyz[free], inside.wxyz[free])


def test_gradient_equals_finite_differences(limits: JointLimits) -> None:
    r"""Central differences of half the squared violation along :math:`R \exp(h e_i)`."""
    if isinstance(limits, AnatomicalLimits):
        pytest.skip("couplings turn two joints: see test_limits_anatomical")
    rotations, h = random_frames(np.random.default_rng(6), 60, 1.2), EPS ** (1 / 3)
    numeric = np.stack(
        [
            (half_square(limits, rotations @ SO3.exp(h * e)) - half_square(limits, rotations @ SO3.exp(-h * e)))
            / (2 * h)
            for e in np.eye(3)
        ],
        axis=-1,
    )
    error = np.abs(limits.check(rotations).gradient - numeric).max(axis=-1)
    assert np.quantile(error, 0.995) < 1e-7  # the rest sits where two ways to the set are equally long


def half_square(limits: JointLimits, rotations: SO3) -> np.ndarray:
    return 0.5 * limits.violations(rotations) ** 2


def test_the_pose_forms_agree_with_the_batch_forms(limits: JointLimits) -> None:
    rotations = random_frames(np.random.default_rng(7), 1)
    pose = Pose(limits.skeleton, np.array([1.0, 2.0, 3.0]), rotations[0])
    check = limits.check(rotations)
    assert np.array_equal(limits.violation(pose), check.violation[0])
    assert np.array_equal(limits.gradient(pose), check.gradient[0])
    projected = limits.project(pose)
    assert np.array_equal(projected.rotations.wxyz, check.projected.wxyz[0])
    assert np.array_equal(projected.root_position, pose.root_position)
    assert limits.is_feasible(projected) and not limits.is_feasible(pose)


def test_another_skeleton_is_refused_by_name(limits: JointLimits) -> None:
    other = Skeleton(("a", "b"), np.array([-1, 0]), np.zeros((2, 3)), name="stick")
    with pytest.raises(InputError, match="stick"):
        limits.project(Pose.rest(other))
    with pytest.raises(InputError, match="expected \\(any, 22\\)"):
        limits.project_rotations(SO3.identity(5, 2))


def test_files_give_the_limits_back(limits: JointLimits, tmp_path: Path) -> None:
    file = tmp_path / "limits.safetensors"
    limits.save(file)
    back = load_limits(file)
    rotations = random_frames(np.random.default_rng(9), 50)
    once, again = limits.check(rotations), back.check(rotations)
    assert type(back) is type(limits) and back.skeleton.names == limits.skeleton.names
    assert np.array_equal(once.projected.wxyz, again.projected.wxyz)
    assert np.array_equal(once.violation, again.violation) and np.array_equal(once.gradient, again.gradient)
    back.save(tmp_path / "again.safetensors")
    assert file.read_bytes() == (tmp_path / "again.safetensors").read_bytes()
