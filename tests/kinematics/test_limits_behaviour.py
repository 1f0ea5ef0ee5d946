"""Facts that joint limits obey: nearest points, convexity, signs and frames, what clips teach, which bodies fit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from oracles.raw_ik import solve_ik, track

from marey.base import FloatArray, InputError
from marey.kinematics import BoxLimits, ConeLimits, JointLimits, PointTask, fit_limits, load_limits
from marey.kinematics.limits.learn import KINDS
from marey.lie import SO3, geodesic_distance
from marey.motion import Motion
from marey.skeleton import EulerLimits, Pose, Skeleton

PARENTS, OFFSETS = np.array([-1, 0, 1]), np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.3, 0.0, 0.0]])
BOUNDS = (
    EulerLimits("arm", "zxy", np.array([-0.4, -0.3, -0.6]), np.array([0.5, 0.3, 0.2]), SO3.exp([0.2, 0.0, 0.4])),
    EulerLimits("hand", "x", np.array([-0.2]), np.array([0.9]), SO3.identity()),
)

ARM = Skeleton(("root", "arm", "hand"), PARENTS, OFFSETS, limits=BOUNDS, name="arm")
STICK = Skeleton(("a", "b"), PARENTS[:2], OFFSETS[:2], name="stick")
WITH_MARGIN = ("box", "cone", "reach", "sdf")


def swinging(phase: float = 0.0) -> Motion:
    """A clip of an arm with three freedoms and a hand with one; the root turns too."""
    t = np.linspace(0.0, 5.0, 150) + phase
    arm = SO3.exp([0.1, 0.3, -0.2]) @ SO3.exp(
        np.stack([0.3 * np.sin(3 * t), 0.7 * np.sin(t), 0.5 * np.cos(2 * t)], axis=1)
    )
    hand = SO3.exp(np.stack([0 * t, 0 * t, 0.5 * np.sin(2 * t)], axis=1))
    root = SO3.exp(np.stack([0 * t, 3.0 * t, 0 * t], axis=1))
    return Motion(ARM, 60.0, np.zeros((len(t), 3)), SO3.stack([root, arm, hand], axis=1), name=f"swing {phase}")


@cache
def learnt(kind: str) -> JointLimits:
    return BoxLimits.from_skeleton(ARM) if kind == "euler" else fit_limits(swinging(), kind)


@pytest.fixture(params=[*KINDS, "euler"])
def limits(request: pytest.FixtureRequest) -> JointLimits:
    return learnt(request.param)


def anywhere(seed: int, count: int = 150) -> SO3:
    return SO3.random(np.random.default_rng(seed), count, ARM.num_joints)


def mild(seed: int, count: int = 400, spread_rad: float = 0.8) -> FloatArray:
    """Rotation vectors well within half a turn, where a box of them is a convex set."""
    return np.random.default_rng(seed).uniform(-spread_rad, spread_rad, (count, ARM.num_joints, 3))


def small_box(seed: int = 0) -> BoxLimits:
    low = np.random.default_rng(seed).uniform(-0.6, 0.1, (ARM.num_joints, 3))
    return BoxLimits(ARM, low, low + 0.5)


# --- every kind --------------------------------------------------------------------------------------------------


def test_a_violation_is_zero_just_where_projecting_changes_nothing(limits: JointLimits) -> None:
    rotations = SO3.concatenate([anywhere(1), swinging().rotations, SO3.exp(mild(2))])
    check = limits.check(rotations)
    step = geodesic_distance(check.projected, rotations)
    assert (step[check.violation == 0.0] == 0.0).all()
    assert (step[check.violation > 1e-6] > 0.0).all()
    assert (check.violation >= 0.0).all() and 0.02 < (check.violation[:, 1:] == 0.0).mean() < 0.98


def test_a_gradient_is_zero_just_where_the_violation_is(limits: JointLimits) -> None:
    check = limits.check(SO3.exp(mild(3)))
    size = np.linalg.norm(check.gradient, axis=-1)
    assert (size[check.violation == 0.0] == 0.0).all()
    assert (size[check.violation > 1e-3] > 0.0).all()


def test_a_small_step_against_the_gradient_lowers_the_violation(limits: JointLimits) -> None:
    rotations = SO3.exp(mild(4))
    check = limits.check(rotations)
    after = limits.violations(rotations @ SO3.exp(-1e-3 * check.gradient))
    outside = check.violation > 0.05
    assert outside.sum() > 50
    assert (after < check.violation)[outside].mean() > 0.99  # the rest sits between two equally near points


def test_the_sign_of_a_quaternion_does_not_matter(limits: JointLimits) -> None:
    rotations = anywhere(5)
    one, other = limits.check(rotations), limits.check(SO3(-rotations.wxyz))
    np.testing.assert_allclose(other.violation, one.violation, atol=1e-12)
    np.testing.assert_allclose(other.gradient, one.gradient, atol=1e-9)
    assert geodesic_distance(one.projected, other.projected).max() < 1e-7


def test_frames_are_judged_one_by_one(limits: JointLimits) -> None:
    rotations, order = anywhere(6), np.random.default_rng(0).permutation(150)
    whole, mixed = limits.check(rotations), limits.check(rotations[order])
    assert np.array_equal(mixed.projected.wxyz, whole.projected.wxyz[order])
    assert np.array_equal(limits.violations(rotations[7:8]), whole.violation[7:8])


def test_joints_are_judged_one_by_one(limits: JointLimits) -> None:
    first, second = anywhere(7), anywhere(8)
    mixed = SO3(np.concatenate([first.wxyz[:, :2], second.wxyz[:, 2:]], axis=1))
    assert np.array_equal(limits.violations(mixed)[:, :2], limits.violations(first)[:, :2])
    assert np.array_equal(limits.violations(mixed)[:, 2:], limits.violations(second)[:, 2:])


def test_the_root_is_free(limits: JointLimits) -> None:
    rotations = anywhere(9)
    check = limits.check(rotations)
    assert (check.violation[:, 0] == 0.0).all()
    assert np.array_equal(check.projected.wxyz[:, 0], rotations.wxyz[:, 0])


def test_an_empty_batch_gives_an_empty_answer(limits: JointLimits) -> None:
    check = limits.check(SO3.identity(0, ARM.num_joints))
    assert check.projected.shape == (0, 3) and check.violation.shape == (0, 3) and check.gradient.shape == (0, 3, 3)


def test_arrays_give_the_limits_back(limits: JointLimits) -> None:
    back = type(limits).from_arrays(ARM, limits.to_arrays())
    rotations = anywhere(10)
    assert np.array_equal(back.project_rotations(rotations).wxyz, limits.project_rotations(rotations).wxyz)


def test_a_solver_gives_the_same_bits_with_limits_from_a_file(limits: JointLimits, tmp_path: Path) -> None:
    limits.save(tmp_path / "limits.safetensors")
    back, task = load_limits(tmp_path / "limits.safetensors"), PointTask("hand", (0.4, 0.9, 0.5))
    options = {"root": "fixed", "on_failure": "return"}
    one, other = (solve_ik(ARM, [task], limits=which, **options) for which in (limits, back))
    assert np.array_equal(one.pose.rotations.wxyz, other.pose.rotations.wxyz)
    assert repr(back) == repr(limits)


def test_limits_hold_for_a_body_of_another_size(limits: JointLimits) -> None:
    large = Pose(ARM.scaled(3.0), np.ones(3), anywhere(12)[0])
    projected = limits.project(large)
    assert projected.skeleton is large.skeleton
    assert np.array_equal(limits.violation(large), limits.violations(anywhere(12))[0])


@pytest.mark.parametrize("ask", ["project", "violation", "gradient", "is_feasible"])
def test_a_pose_of_another_skeleton_is_refused_by_every_question(limits: JointLimits, ask: str) -> None:
    with pytest.raises(InputError, match="Skeleton\\('arm', 3 joints\\) were given a pose of Skeleton\\('stick'"):
        getattr(limits, ask)(Pose.rest(STICK))


@pytest.mark.parametrize("call", [solve_ik, track])
def test_solvers_refuse_limits_of_another_skeleton(limits: JointLimits, call: Callable[..., object]) -> None:
    with pytest.raises(InputError, match="limits are those of Skeleton\\('arm'"):
        call(STICK, [PointTask("b", np.zeros((2, 3)))], limits=limits)


def test_limits_hold_where_the_goal_pulls_the_pose_out_of_them(limits: JointLimits) -> None:
    rotations = swinging().rotations[40] if limits.kind != "euler" else SO3.identity(3)
    start = limits.project(Pose(ARM, np.zeros(3), rotations))
    task = PointTask("hand", start.joint_positions()[2] + [-0.5, 0.1, 0.0], point=(0.2, 0.1, 0.0))
    options = {"start": start, "root": "fixed", "on_failure": "return"}
    assert limits.violation(solve_ik(ARM, [task], **options).pose).max() > 0.1
    assert limits.violation(solve_ik(ARM, [task], limits=limits, **options).pose).max() <= 1e-6


# --- boxes are convex --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_projecting_on_a_box_comes_nearer_to_every_feasible_pose(seed: int) -> None:
    limits, x = small_box(seed), mild(seed)
    inside = np.random.default_rng(seed + 50).uniform(limits.low, limits.high, x.shape)
    projected = limits.project_rotations(SO3.exp(x)).log()
    before, after = (np.linalg.norm(v - inside, axis=-1) for v in (x, projected))
    assert (after <= before + 1e-12).all()
    assert (after < before - 1e-3).mean() > 0.5


@pytest.mark.parametrize("seed", range(4))
def test_projecting_two_poses_on_a_box_never_parts_them(seed: int) -> None:
    limits, x, y = small_box(seed), mild(seed), mild(seed + 20)
    px, py = (limits.project_rotations(SO3.exp(v)).log() for v in (x, y))
    assert (np.linalg.norm(px - py, axis=-1) <= np.linalg.norm(x - y, axis=-1) + 1e-12).all()


def test_the_violation_of_a_box_is_the_distance_to_it_and_no_corner_or_sample_is_nearer() -> None:
    limits, x = small_box(1), mild(1)
    violation = limits.violations(SO3.exp(x))
    np.testing.assert_allclose(violation, np.linalg.norm(x - np.clip(x, limits.low, limits.high), axis=-1), atol=1e-12)
    samples = np.random.default_rng(2).uniform(limits.low, limits.high, (300, *limits.low.shape))
    nearest = np.linalg.norm(x[:, None] - samples[None], axis=-1).min(axis=1)
    assert (violation <= nearest + 1e-12).all()


def test_the_violation_of_a_box_is_convex_along_lines_of_rotation_vectors() -> None:
    limits, x, y = small_box(2), mild(3), mild(4)
    ends = [limits.violations(SO3.exp(v)) for v in (x, y)]
    for t in (0.2, 0.5, 0.9):
        between = limits.violations(SO3.exp((1.0 - t) * x + t * y))
        assert (between <= (1.0 - t) * ends[0] + t * ends[1] + 1e-12).all()


def test_the_straight_line_between_two_corners_of_a_box_is_feasible() -> None:
    limits = small_box(3)
    for t in np.linspace(0.0, 1.0, 11):
        line = (1.0 - t) * limits.low + t * limits.high
        assert limits.violations(SO3.exp(line[None])).max() < 1e-12


# --- cones in closed form ----------------------------------------------------------------------------------------


def test_a_cone_allows_just_the_swings_inside_its_ellipse_and_the_twists_of_its_interval() -> None:
    rng, joints = np.random.default_rng(0), ARM.num_joints
    frames, centres = SO3.random(rng, joints), SO3.random(rng, joints)
    half, twist = np.array([0.6, 0.3]), np.array([-0.5, 0.2])
    limits = ConeLimits(ARM, frames, np.tile(half, (joints, 1)), np.tile(twist, (joints, 1)), centres)
    s, t = rng.uniform(-0.9, 0.9, (500, joints, 2)), rng.uniform(-1.0, 1.0, (500, joints))
    swing = SO3.exp(np.concatenate([np.zeros((500, joints, 1)), s], axis=-1))
    turn = SO3.exp(np.stack([t, 0 * t, 0 * t], axis=-1))
    violation = limits.violations(centres @ frames @ swing @ turn @ frames.inverse())
    inside = (((s / half) ** 2).sum(axis=-1) <= 1.0) & (twist[0] <= t) & (t <= twist[1])
    assert np.array_equal(violation < 1e-9, inside) and 0.02 < inside.mean() < 0.5


@pytest.mark.parametrize("half", [0.2, 0.7, 1.5])
def test_the_violation_of_a_round_cone_is_the_swing_beyond_its_half_angle(half: float) -> None:
    limits = ConeLimits.around_bones(ARM, half)
    angle = np.linspace(0.0, 3.0, 40)
    across = np.cross(OFFSETS[2], [0.3, 1.0, -0.4])  # the bone of the arm leads to the hand
    turns = np.zeros((40, 3, 3))
    turns[:, 1] = angle[:, None] * across / np.linalg.norm(across)
    np.testing.assert_allclose(limits.violations(SO3.exp(turns))[:, 1], np.maximum(angle - half, 0.0), atol=1e-9)


# --- what clips teach --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_limits_of_two_clips_hold_both(kind: str) -> None:
    clips = [swinging(), swinging(1.3)]
    limits = fit_limits(clips, kind)
    for clip in clips:
        assert limits.violations(clip.rotations).max() < 1e-9


@pytest.mark.parametrize("margin", [0.0, 0.05, 0.2])
def test_the_margin_of_a_box_is_added_on_both_sides(margin: float) -> None:
    vectors = swinging().rotations.log()[:, 1:]
    limits = BoxLimits.from_clips(swinging(), margin_rad=margin)
    np.testing.assert_allclose(limits.low[1:], vectors.min(axis=0) - margin, atol=1e-9)
    np.testing.assert_allclose(limits.high[1:], vectors.max(axis=0) + margin, atol=1e-9)


@pytest.mark.parametrize("kind", WITH_MARGIN)
def test_a_margin_widens_what_is_allowed(kind: str) -> None:
    rotations = SO3.exp(mild(5))
    tight, wide = (fit_limits(swinging(), kind, margin_rad=m).violations(rotations)[:, 1] for m in (0.02, 0.15))
    assert (wide <= tight + 1e-9).all()
    assert (wide == 0.0).sum() > (tight == 0.0).sum()


def test_a_box_of_two_clips_is_the_box_around_their_boxes() -> None:
    clips = [swinging(), swinging(1.3)]
    one, two, both = (BoxLimits.from_clips(c) for c in (clips[0], clips[1], clips))
    np.testing.assert_allclose(both.low, np.minimum(one.low, two.low), atol=1e-9)
    np.testing.assert_allclose(both.high, np.maximum(one.high, two.high), atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_limits_from_no_clips_are_refused(kind: str) -> None:
    with pytest.raises(InputError, match="limits from no clips"):
        fit_limits([], kind)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_clip_teaches_the_same_limits(kind: str) -> None:
    again = fit_limits(swinging(), kind).to_arrays()
    assert all(np.array_equal(values, again[name], equal_nan=True) for name, values in learnt(kind).to_arrays().items())
