"""Limits and pose models together: a pose of the model inside the limits, or a sentence that there is none."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.raw_ik import solve_ik, track

from marey import samples
from marey.kinematics import BoxLimits, ConeLimits, EllipsoidLimits, JointLimits, PointTask
from marey.kinematics.limits.contract import LimitCheck
from marey.kinematics.limits.sdf import SdfLimits
from marey.lie import SO3, geodesic_distance
from marey.models import PGA
from marey.numerics import SolveStatus

ENDS = ("left_wrist", "right_wrist", "left_foot", "right_foot", "head")
WALK = samples.walk()
MODEL = PGA(n_components=6).fit(WALK)


def goals(frame: int, shift: float = 0.0) -> list[PointTask]:
    places = WALK.joint_positions()
    return [PointTask(name, places[frame, WALK.skeleton.index(name)] + shift) for name in ENDS]


def knee_box(most_rad: float) -> BoxLimits:
    """The left knee bends by no more than this in any direction."""
    high = np.full((WALK.skeleton.num_joints, 3), np.inf)
    high[WALK.skeleton.index("left_knee")] = most_rad
    return BoxLimits(WALK.skeleton, -high, high)


def bent_frame() -> int:
    knee = WALK.rotations[:, WALK.skeleton.index("left_knee")]
    return int(np.argmax(np.linalg.norm(knee.log(), axis=1)))


def off_model(result) -> float:
    """Angle [rad] between a pose and that of its own coordinates, the root apart."""
    made = MODEL.rotations(result.coordinates[None])[0]
    return float(np.max(geodesic_distance(made[1:], result.pose.rotations[1:])))


def test_a_pose_of_the_model_keeps_limits_that_its_unlimited_answer_breaks():
    frame, free = bent_frame(), None
    free = solve_ik(MODEL, goals(frame), on_failure="return", tolerance_m=0.03)
    bend = np.abs(free.pose.rotations[WALK.skeleton.index("left_knee")].log()).max()
    limits = knee_box(0.8 * float(bend))
    assert limits.violation(free.pose).max() > 0.05
    held = solve_ik(MODEL, goals(frame), limits=limits, on_failure="return", tolerance_m=0.03)
    assert limits.violation(held.pose).max() <= 1e-6
    assert off_model(held) < 1e-7
    assert "disagree" not in held.advice


def test_limits_that_do_not_matter_change_nothing_in_the_model():
    free = solve_ik(MODEL, goals(10), on_failure="return", tolerance_m=0.03)
    held = solve_ik(MODEL, goals(10), limits=knee_box(3.0), on_failure="return", tolerance_m=0.03)
    np.testing.assert_allclose(held.coordinates, free.coordinates, atol=1e-9)


def test_the_answer_inside_the_limits_is_the_best_of_the_model_near_it():
    """No small change of the coordinates or the root that keeps the limits comes nearer to the goals."""
    frame = bent_frame()
    limits, rng = knee_box(0.6), np.random.default_rng(5)
    held = solve_ik(MODEL, goals(frame), limits=limits, on_failure="return", tolerance_m=1e-5, max_sigma=None)
    names = [WALK.skeleton.index(name) for name in ENDS]
    wanted = np.array([task.goal for task in goals(frame)])

    def missed(x, turn, shift):
        pose = MODEL.rotations(x[None]).wxyz.copy()[0]
        pose[0] = (held.pose.rotations[0] @ SO3.exp(turn)).wxyz
        moved = type(held.pose)(WALK.skeleton, held.pose.root_position + shift, SO3(pose))
        return float(((moved.joint_positions()[names] - wanted) ** 2).sum()), limits.violation(moved).max()

    best = missed(held.coordinates, np.zeros(3), np.zeros(3))[0]
    for _ in range(200):
        d = 1e-3 * rng.normal(size=len(held.coordinates) + 6)
        cost, over = missed(held.coordinates + d[6:], d[:3], d[3:6])
        assert cost >= best * (1.0 - 1e-6) or over > 1e-7


def test_a_model_that_has_no_pose_inside_the_limits_is_left_and_says_so():
    """The left elbow of the walk bends by 0.3 rad at least; the limits want it between 2.0 and 2.1."""
    low, high = np.full((WALK.skeleton.num_joints, 3), -np.inf), np.full((WALK.skeleton.num_joints, 3), np.inf)
    j = WALK.skeleton.index("left_elbow")
    low[j], high[j] = (2.0, -0.1, -0.1), (2.1, 0.1, 0.1)
    limits = BoxLimits(WALK.skeleton, low, high)
    result = solve_ik(MODEL, goals(10), limits=limits, on_failure="return", max_iterations=100)
    assert limits.violation(result.pose).max() <= 1e-6
    assert "The model and the limits disagree" in result.advice
    assert np.isfinite(result.pose.rotations.wxyz).all()
    clip = [PointTask(name, WALK.joint_positions()[10:14, WALK.skeleton.index(name)]) for name in ENDS]
    found = track(MODEL, clip, limits=limits, max_iterations=100)
    assert limits.violations(found.motion.rotations).max() <= 1e-6
    assert "In 4 frames, first in 0" in found.advice and "disagree" in found.advice


@pytest.mark.parametrize("kind", [BoxLimits, ConeLimits, EllipsoidLimits, SdfLimits])
@pytest.mark.parametrize("is_reduced", [True, False])
def test_whole_clips_keep_limits_of_every_kind_in_both_spaces(kind, is_reduced):
    limits: JointLimits = kind.from_clips(WALK[:30])
    places = WALK.joint_positions()[::4]
    tasks = [PointTask(name, places[:, WALK.skeleton.index(name)]) for name in ENDS]
    found = track(MODEL if is_reduced else WALK.skeleton, tasks, limits=limits, start=WALK[0], tolerance_m=0.02)
    assert limits.violations(found.motion.rotations).max() <= 1e-6
    assert found.position_error_m.mean() < 0.05


def test_following_a_clip_is_solving_its_frames_one_after_the_other():
    limits = ConeLimits.from_clips(WALK[:40])
    places = WALK.joint_positions()[:12]
    tasks = [PointTask(name, places[:, WALK.skeleton.index(name)]) for name in ENDS]
    found, pose = track(WALK.skeleton, tasks, limits=limits, start=WALK[0]), WALK[0]
    for f in range(12):
        single = [PointTask(t.joint, t.goal[f]) for t in tasks]
        pose = solve_ik(WALK.skeleton, single, start=pose, limits=limits, on_failure="return").pose
        if f == 0:  # the clip's first frame is solved twice, once to find where to begin
            pose = solve_ik(WALK.skeleton, single, start=pose, limits=limits, on_failure="return").pose
        assert geodesic_distance(pose.rotations, found.motion.rotations[f]).max() < 1e-9


class Straight(JointLimits):
    """Limits of a kind that the package does not know: the left knee keeps still."""

    kind = "straight"

    def __init__(self) -> None:
        self.skeleton = WALK.skeleton

    def check(self, rotations: SO3) -> LimitCheck:
        j, wxyz = self.skeleton.index("left_knee"), rotations.wxyz.copy()
        vectors, gradient = rotations[:, j].log(), np.zeros((*rotations.shape, 3))
        wxyz[:, j] = (1.0, 0.0, 0.0, 0.0)
        violation = np.zeros(rotations.shape)
        violation[:, j], gradient[:, j] = np.linalg.norm(vectors, axis=-1), vectors
        return LimitCheck(SO3(wxyz), violation, gradient)

    def to_arrays(self):
        return {}

    @classmethod
    def from_arrays(cls, skeleton, arrays):
        return cls()


@pytest.mark.parametrize("is_reduced", [True, False])
def test_limits_of_ones_own_kind_hold_too(is_reduced):
    limits = Straight()
    result = solve_ik(
        MODEL if is_reduced else WALK.skeleton, goals(bent_frame()), limits=limits, start=WALK[0], on_failure="return"
    )
    assert limits.violation(result.pose).max() <= 1e-6
    assert result.status is not SolveStatus.ITERATION_LIMIT or result.position_error_m < 0.1
