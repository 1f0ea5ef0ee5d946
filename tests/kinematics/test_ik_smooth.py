"""Goals that move smoothly: how far the pose may turn from one frame to the next.

What the goals ask for is how far the fastest of them moves, over the shortest limb (0.25 m). A jump is a turn of more
than five times that.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from oracles.raw_ik import solve_ik, track

from marey.base import FloatArray, InputError
from marey.io import load
from marey.kinematics import BoxLimits, IKTrackResult, JointLimits, PointTask, PoseTask, fit_limits
from marey.lie import SO3, geodesic_distance
from marey.models import PGA
from marey.motion import Motion
from marey.samples import jump, run, walk
from marey.skeleton import Pose, Skeleton, role_map

ENDS = ("left_wrist", "right_wrist", "left_foot", "right_foot", "pelvis", "head")
SHORT_LIMB_M = 0.25
STILL_RAD = 0.01  # [rad] the tolerance of 1 mm alone turns a limb by about this
CLIPS = {"walk": walk, "run": run, "jump": jump}
ITERATIONS = {"none": 1000, "box": 1000, "cone": 60, "sdf": 60}  # enough where goals are reached


@cache
def learnt(clip: str, kind: str) -> JointLimits | None:
    """Limits that the clip itself obeys."""
    options = {"margin_rad": 0.05} if kind == "sdf" else {}
    return None if kind == "none" else fit_limits(CLIPS[clip](), kind, **options)


def goals_of(motion: Motion, way: str) -> FloatArray:
    """Places ``(F, 6, 3)`` [m] of the ends, or of ends that leave reach or limits slowly and come back."""
    places = motion.joint_positions()[:, [motion.skeleton.index(name) for name in ENDS]].copy()
    away = np.sin(np.pi * np.linspace(0.0, 1.0, len(motion))) ** 2
    if way == "hand":  # one hand goes further than its arm is long
        places[:, 0] += away[:, None] * [0.5, 0.4, 0.6]
    if way == "out":  # all go away from the pelvis
        places = places[:, 4:5] + (1.0 + 0.4 * away)[:, None, None] * (places - places[:, 4:5])
    if way == "cross":  # the hands change sides, and on
        left, right = places[:, 0].copy(), places[:, 1].copy()
        places[:, 0] += 1.3 * away[:, None] * (right - left)
        places[:, 1] += 1.3 * away[:, None] * (left - right)
    return places


@cache
def followed(clip: str, kind: str, way: str) -> tuple[IKTrackResult, FloatArray]:
    """The tracked clip, and for each frame but the first its turn over what the goals ask for."""
    motion = CLIPS[clip]()
    goals = goals_of(motion, way)
    tasks = [PointTask(name, goals[:, k]) for k, name in enumerate(ENDS)]
    limits = learnt(clip, kind)
    result = track(motion.skeleton, tasks, start=motion[0], limits=limits, max_iterations=ITERATIONS[kind])
    asked = np.linalg.norm(np.diff(goals, axis=0), axis=-1).max(axis=1) / SHORT_LIMB_M
    return result, turns_of(result.motion) / (asked + STILL_RAD)


def turns_of(motion: Motion) -> FloatArray:
    """Largest turn [rad] of a joint between frames, (F - 1,)."""
    return geodesic_distance(motion.rotations[1:], motion.rotations[:-1]).max(axis=1)


ALL = [(clip, kind) for clip in CLIPS for kind in ITERATIONS]


@pytest.mark.parametrize(("clip", "kind"), ALL)
def test_goals_that_are_reached_make_no_jump(clip: str, kind: str):
    result, jumps = followed(clip, kind, "plain")
    reached = result.reached.all(axis=1)
    assert jumps[reached[1:] & reached[:-1]].max() <= 5.0


@pytest.mark.parametrize(("clip", "kind"), [(clip, kind) for clip, kind in ALL if kind != "none"])
def test_limits_hold_in_every_frame_whether_goals_are_reached_or_not(clip: str, kind: str):
    limits = learnt(clip, kind)
    assert limits is not None
    for way in ("plain", "hand"):
        assert limits.violations(followed(clip, kind, way)[0].motion.rotations).max() <= 1e-6


@pytest.mark.parametrize(("clip", "kind"), ALL)
def test_a_clip_inside_its_own_limits_is_followed_by_its_ends(clip: str, kind: str):
    result, _ = followed(clip, kind, "plain")
    assert result.reached.all(axis=1).mean() >= 0.99


WAYS = [(kind, way) for kind in ("none", "box") for way in ("hand", "out", "cross")]
WAYS += [(kind, way) for kind in ("cone", "sdf") for way in ("hand", "cross")]


@pytest.mark.parametrize("clip", list(CLIPS))
@pytest.mark.parametrize(("kind", "way"), WAYS)
def test_goals_that_leave_reach_or_limits_and_come_back_make_no_jump(clip: str, kind: str, way: str):
    assert followed(clip, kind, way)[1].max() <= 5.0


@pytest.mark.parametrize(("clip", "kind", "way"), [("walk", "box", "cross"), ("jump", "none", "out")])
def test_a_clip_that_is_not_held_back_would_jump(clip: str, kind: str, way: str):
    motion = CLIPS[clip]()
    goals = goals_of(motion, way)
    tasks = [PointTask(name, goals[:, k]) for k, name in enumerate(ENDS)]
    free = track(motion.skeleton, tasks, start=motion[0], limits=learnt(clip, kind), max_turn=None)
    asked = np.linalg.norm(np.diff(goals, axis=0), axis=-1).max(axis=1) / SHORT_LIMB_M
    held, _ = followed(clip, kind, way)
    assert (turns_of(free.motion) / (asked + STILL_RAD)).max() > 5.0
    assert not free.held_back.any() and 0 < held.held_back.sum() <= 0.05 * len(motion)
    assert held.errors.mean() <= 1.05 * free.errors.mean()


@pytest.mark.parametrize("max_turn", [0.0, -1.0, float("nan")])
def test_a_bound_on_the_turn_must_be_positive(max_turn: float):
    with pytest.raises(InputError, match="max_turn"):
        track(ROD, [PointTask("c", np.zeros((2, 3)))], max_turn=max_turn)


@pytest.mark.parametrize("method", ["dls", "ccd", "pg-armijo"])
def test_every_method_keeps_to_the_bound(method: str):
    """A goal that passes the root of a chain asks for half a turn; 0.02 m a frame allow a part of it."""
    far = np.linspace(0.4, -0.4, 41)
    goals = np.stack([far, np.full(41, 0.004), np.zeros(41)], axis=1)
    result = track(ROD, [PointTask("c", goals)], start=bent(1.7), root="turn", method=method, max_turn=1.0)
    most = 0.02 / (0.25 * 0.6) + STILL_RAD
    assert turns_of(result.motion).max() <= most + 1e-9
    assert result.held_back.any()


def test_a_model_keeps_to_the_bound_in_its_own_coordinates():
    motion = walk()
    model = PGA(n_components=8).fit(motion)
    goals = goals_of(motion, "plain")
    tasks = [PointTask(name, goals[:, k]) for k, name in enumerate(ENDS)]
    free, held = (track(model, tasks, start=motion[0], max_turn=most) for most in (None, 0.2))
    asked = np.linalg.norm(np.diff(goals, axis=0), axis=-1).max(axis=1) / SHORT_LIMB_M + STILL_RAD
    assert held.coordinates is not None
    assert (turns_of(held.motion) / asked).max() <= 0.25 < (turns_of(free.motion) / asked).max()
    again = model.rotations(held.coordinates)
    np.testing.assert_allclose(geodesic_distance(again[:, 1:], held.motion.rotations[:, 1:]), 0.0, atol=1e-7)


def test_a_pose_that_was_held_back_catches_up():
    """The last goal is held still for long enough: in the end nothing is missing."""
    motion = walk()
    goals = goals_of(motion, "plain")[:40]
    goals = np.concatenate([goals, np.repeat(goals[-1:], 200, axis=0)])
    tasks = [PointTask(name, goals[:, k]) for k, name in enumerate(ENDS)]
    result = track(motion.skeleton, tasks, start=motion[0], max_turn=0.6)
    assert not result.reached[39].all()
    assert result.held_back.any()
    assert result.reached[-1].all() and not result.held_back[-1]


@pytest.mark.parametrize("clip", list(CLIPS))
@pytest.mark.parametrize("kind", ["box", "cone", "sdf"])
def test_goals_out_of_reach_are_missed_by_no_more_than_from_the_pose_that_is_known(clip: str, kind: str):
    """The pose of the clip is allowed, so no frame need miss its hand by more than the hand was moved."""
    motion = CLIPS[clip]()
    result, _ = followed(clip, kind, "hand")
    known = np.linalg.norm(goals_of(motion, "hand") - goals_of(motion, "plain"), axis=-1)
    ours = (result.errors**2).sum(axis=1)
    share = (ours <= (known**2).sum(axis=1) + 6e-6).mean()
    assert share >= 0.9


CAPTURED = ("02_01", "16_09", "35_01", "07_01", "09_06", "75_17", "143_11")


@pytest.mark.mocap
@pytest.mark.parametrize("kind", ["none", "box"])
def test_captured_clips_are_followed_without_a_jump(mocap: Path, kind: str):
    """Every second frame of walks, jumps and a run, all of them. With no bound, 143_11 makes 10 times the turn."""
    files = [path for name in CAPTURED if (path := mocap / "cmu-bvh" / f"{name}.bvh").exists()]
    assert len(files) >= 3
    for path in files:
        motion = load(path)[1:801:2]  # the first frame is a T-pose
        joints = [role_map(motion.skeleton)[name] for name in ENDS]
        goals = motion.joint_positions()[:, joints]
        tasks = [PointTask(joint, goals[:, k]) for k, joint in enumerate(joints)]
        limits = None if kind == "none" else BoxLimits.from_clips(motion)
        result = track(motion.skeleton, tasks, start=motion[0], limits=limits)
        asked = np.linalg.norm(np.diff(goals, axis=0), axis=-1).max(axis=1) / SHORT_LIMB_M
        assert (turns_of(result.motion) / (asked + STILL_RAD)).max() <= 5.0, path.name
        assert result.reached.all(axis=1).mean() >= 0.95, path.name


# --- laws of single chains ---------------------------------------------------------------------------------------

ROD = Skeleton(("a", "b", "c"), np.array([-1, 0, 1]), np.array([[0.0, 0, 0], [0.3, 0, 0], [0.3, 0, 0]]), name="rods")


def bent(angle: float) -> Pose:
    return Pose(ROD, np.zeros(3), SO3.exp([[0.0, 0.0, -0.5 * angle], [0.0, 0.0, angle], [0.0, 0.0, 0.0]]))


@pytest.mark.parametrize("step_m", [1e-3, 3e-3, 1e-2])
@pytest.mark.parametrize("tolerance_m", [1e-3, 1e-5])
def test_a_chain_that_straightens_turns_as_the_law_of_cosines_says(step_m: float, tolerance_m: float):
    """Near full stretch the angle goes with the root of the way: no solver can turn less; ours turns little more."""
    far = np.arange(0.5, 0.599, step_m)
    goals = far[:, None] * np.array([1.0, 0.0, 0.0])
    result = track(ROD, [PointTask("c", goals)], start=bent(1.2), root="turn", tolerance_m=tolerance_m)
    exact = np.arccos(np.clip((far**2 - 0.18) / 0.18, -1.0, 1.0))
    found = np.linalg.norm(result.motion.rotations[:, 1].log(), axis=-1)
    slack = np.sqrt(2.0 * tolerance_m / 0.15)  # what the tolerance leaves open at full stretch
    assert np.abs(found - exact).max() <= slack
    assert (np.abs(np.diff(found)) <= np.abs(np.diff(exact)) + 2.0 * slack).all()


def test_a_goal_that_circles_out_of_reach_is_pointed_at_without_a_jump():
    """The nearest pose is the straight chain towards the goal: it turns exactly as the goal does."""
    angle = np.linspace(0.0, 2.0, 200)
    goals = 0.9 * np.stack([np.cos(angle), np.sin(angle), 0.0 * angle], axis=1)
    result = track(ROD, [PointTask("c", goals)], start=bent(0.1), root="turn")
    tips = result.motion.joint_positions()[:, 2]
    np.testing.assert_allclose(tips[1:], goals[1:] * (0.6 / 0.9), atol=2e-3)
    assert turns_of(result.motion)[1:].max() <= 5.0 * (angle[1] - angle[0])


def test_a_goal_that_circles_past_a_bound_leaves_the_joint_on_it_and_picks_it_up_again():
    angle = 1.5 * np.sin(np.linspace(0.0, np.pi, 240))
    high = np.array([[0.0, 0.0, 0.8], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    limits = BoxLimits(ROD, -high, high)
    goals = 0.6 * np.stack([np.cos(angle), np.sin(angle), 0.0 * angle], axis=1)
    result = track(ROD, [PointTask("c", goals)], root="turn", limits=limits, tolerance_m=1e-4)
    found = result.motion.rotations[:, 0].log()[:, 2]
    np.testing.assert_allclose(found, np.minimum(angle, 0.8), atol=2e-3)
    assert turns_of(result.motion).max() <= np.abs(np.diff(angle)).max() + 2e-3


@pytest.mark.parametrize("clip", list(CLIPS))
def test_a_light_spring_to_the_middle_of_the_limits_keeps_joints_off_them_and_the_way_open(clip: str):
    """Redundancy settled by nearness alone drifts on to the bounds; a hundredth of a spring is enough against it."""
    motion, box = CLIPS[clip](), learnt(clip, "box")
    assert isinstance(box, BoxLimits)
    goals = goals_of(motion, "plain")
    tasks = [PointTask(name, goals[:, k]) for k, name in enumerate(ENDS)]
    result = track(motion.skeleton, [*tasks, PoseTask(middle_of(motion, box), weight=0.1)], start=motion[0], limits=box)
    asked = np.linalg.norm(np.diff(goals, axis=0), axis=-1).max(axis=1) / SHORT_LIMB_M
    assert result.reached.all()
    assert (turns_of(result.motion)[1:] <= 5.0 * (asked[1:] + STILL_RAD)).all()  # the first frame goes to the spring


def middle_of(motion: Motion, box: BoxLimits, frame: int = 0) -> Pose:
    middle = np.concatenate([np.zeros((1, 3)), 0.5 * (box.low[1:] + box.high[1:])])  # the root is free
    return Pose(motion.skeleton, motion.root_positions[frame], SO3.exp(middle))


CROUCH = 55  # the deepest frame of the jump


def crouch() -> tuple[Motion, list[PointTask], BoxLimits]:
    motion = jump()
    goals = goals_of(motion, "plain")[CROUCH]
    return motion, [PointTask(name, goal) for name, goal in zip(ENDS, goals, strict=True)], BoxLimits.from_clips(motion)


def test_a_crouch_is_found_from_the_middle_of_its_limits():
    motion, tasks, box = crouch()
    result = solve_ik(motion.skeleton, tasks, start=middle_of(motion, box, CROUCH), limits=box)
    assert result.reached.all() and result.iterations <= 20


def test_a_crouch_is_found_without_a_start():
    motion, tasks, box = crouch()
    assert solve_ik(motion.skeleton, tasks, limits=box, on_failure="return").reached.all()


@pytest.mark.parametrize("kind", ["box", "cone", "sdf"])
def test_in_the_middle_of_limits_knees_are_bent_as_in_the_middle_of_the_clip(kind: str):
    motion = run()
    limits = fit_limits(motion, kind)
    middle = limits.middle()
    assert limits.violations(middle.reshape(1, -1)).max() <= 1e-6
    for name in ("left_knee", "right_knee"):
        bends = np.linalg.norm(motion.rotations[:, motion.skeleton.index(name)].log(), axis=-1)
        found = float(np.linalg.norm(middle[motion.skeleton.index(name)].log()))
        assert np.interp(found, [bends.min(), bends.max()], [0.0, 1.0]) == pytest.approx(0.5, abs=0.3)


def test_joints_without_limits_have_their_middle_at_rest():
    middle = BoxLimits.free(ROD).middle()
    np.testing.assert_allclose(np.linalg.norm(middle.log(), axis=-1), 0.0, atol=1e-12)


def test_the_middle_of_a_box_is_its_centre():
    low, high = np.array([[-0.1, -0.2, 0.0]] * 3), np.array([[0.3, 0.2, 0.5]] * 3)
    np.testing.assert_allclose(BoxLimits(ROD, low, high).middle().log(), 0.5 * (low + high), atol=0.02)
