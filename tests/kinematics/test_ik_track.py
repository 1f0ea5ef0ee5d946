"""Whole clips, and markers to a body."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.raw_ik import track

from marey.base import InputError, UnknownNameError
from marey.io import load_markers
from marey.kinematics import BoxLimits, PointTask, fit_markers
from marey.kinematics.markers import MarkerSite, group_bones, known_sites
from marey.lie import SO3
from marey.motion import Markers, Motion
from marey.numerics import SolveStatus
from marey.skeleton import HUMAN

ENDS = ("left_wrist", "right_wrist", "left_foot", "right_foot", "head")


def tasks_of(motion: Motion) -> list[PointTask]:
    places = motion.joint_positions()
    return [PointTask(name, places[:, HUMAN.index(name)]) for name in ENDS]


def steps_of(motion: Motion) -> np.ndarray:
    """Largest turn [rad] of any joint between frames, (F - 1,)."""
    turns = motion.rotations
    return np.linalg.norm((turns[:-1].inverse() @ turns[1:]).log(), axis=-1).max(axis=1)


def test_a_walk_is_followed_by_its_ends(stiff_walk):
    result = track(HUMAN, tasks_of(stiff_walk), start=stiff_walk[0], rate_hz=stiff_walk.rate_hz)
    assert result.status is SolveStatus.CONVERGED
    assert result.reached.all() and result.position_error_m.max() <= 1e-3
    assert result.motion.rate_hz == stiff_walk.rate_hz


@pytest.mark.parametrize("limits", [None, "box"])
def test_goals_that_move_smoothly_make_no_jump(stiff_walk, limits):
    bound = np.full((HUMAN.num_joints, 3), 1.4)
    box = None if limits is None else BoxLimits(HUMAN, -bound, bound)
    result = track(HUMAN, tasks_of(stiff_walk), limits=box, tolerance_m=1e-5)
    goals = np.linalg.norm(np.diff(stiff_walk.joint_positions()[:, [HUMAN.index(e) for e in ENDS]], axis=0), axis=-1)
    driven = goals.max(axis=1) / 0.25  # [rad] what moves the furthest goal with the shortest limb
    assert (steps_of(result.motion) <= 5.0 * driven + 1e-3).all()
    if box is not None:
        assert box.violations(result.motion.rotations).max() <= 1e-6


def test_a_slow_way_to_a_goal_out_of_reach_and_back_makes_no_jump():
    rest, t = HUMAN.rest_positions(), np.linspace(0.0, 1.0, 200)[:, None]
    out = rest[HUMAN.index("left_wrist")] + np.sin(np.pi * t) * np.array([0.3, 0.2, 0.3])
    feet = [PointTask(name, rest[HUMAN.index(name)]) for name in ("left_foot", "right_foot", "right_wrist")]
    result = track(HUMAN, [PointTask("left_wrist", out), *feet], root="fixed", tolerance_m=1e-4)
    moved = np.linalg.norm(np.diff(out, axis=0), axis=-1) / 0.25
    assert not result.reached.all()
    assert (steps_of(result.motion) <= 5.0 * moved + 0.02).all()


def test_what_was_not_seen_does_not_count(stiff_walk):
    tasks = tasks_of(stiff_walk)
    places = np.array(tasks[0].goal)
    places[50:80] = 99.0
    valid = np.ones((stiff_walk.num_frames, 5), dtype=bool)
    valid[50:80, 0] = False
    result = track(HUMAN, [PointTask("left_wrist", places), *tasks[1:]], start=stiff_walk[0], valid=valid)
    assert result.reached.all() and np.isfinite(result.motion.rotations.wxyz).all()
    assert np.abs(result.motion.joint_positions()).max() < 10.0


def test_every_method_can_follow_a_clip(stiff_walk):
    tasks = [PointTask(task.joint, task.goal[:20]) for task in tasks_of(stiff_walk)]
    for method in ("projected-dogleg", "dls", "ccd"):
        assert track(HUMAN, tasks, start=stiff_walk[0], method=method).position_error_m.max() <= 1e-3


def test_targets_of_different_lengths_are_refused(stiff_walk):
    tasks = tasks_of(stiff_walk)
    with pytest.raises(InputError, match="frames"):
        track(HUMAN, [tasks[0], PointTask("head", np.zeros((3, 3)))])
    with pytest.raises(InputError, match="frames"):
        track(HUMAN, [PointTask("head", (0.0, 1.0, 0.0))])


def synthetic_markers(motion: Motion, noise_m: float = 0.0) -> tuple[Markers, dict[str, MarkerSite]]:
    """Three markers on every joint of a walk on a body of another size, where they truly sit, and rough guesses."""
    rng = np.random.default_rng(3)
    positions, frames = motion.joint_frames()
    names, columns, sites = [], [], {}
    for j, joint in enumerate(HUMAN.names):
        for k in range(3):
            point = rng.normal(0.0, 0.06, 3)
            names.append(f"{joint}_{k}")
            columns.append(
                positions[:, j] + SO3(frames.wxyz[:, j]) @ point + rng.normal(0.0, noise_m, (len(positions), 3))
            )
            x, y, z = (point / 1.1 + rng.normal(0.0, 0.01, 3)).tolist()
            sites[names[-1]] = MarkerSite(joint, (x, y, z))
    places = np.stack(columns, axis=1)
    return Markers(tuple(names), motion.rate_hz, places, np.ones(places.shape[:2], dtype=bool)), sites


def test_a_known_body_is_found_from_its_markers(stiff_walk):
    walk = stiff_walk[::5]
    tall = Motion(HUMAN.scaled(1.1), walk.rate_hz, 1.1 * walk.root_positions, walk.rotations)
    markers, sites = synthetic_markers(tall, noise_m=0.002)
    fit = fit_markers(markers, sites=sites, rounds=4, num_samples=15)
    assert fit.rms_m < 0.006
    thigh, shin = fit.scales["left_knee"], fit.scales["left_ankle"]
    assert thigh == pytest.approx(1.1, abs=0.04) and shin == pytest.approx(1.1, abs=0.04)
    assert fit.scales["left_knee"] == fit.scales["right_knee"]
    away = np.linalg.norm(fit.motion.joint_positions() - tall.joint_positions(), axis=-1)
    assert away.mean() < 0.02


@pytest.mark.mocap
def test_a_captured_walk_gets_a_body(mocap):
    markers = load_markers(mocap / "opensim" / "markers_walk.trc")
    fit = fit_markers(markers[::2], rounds=5)
    assert len(fit.sites) == 41 and not fit.unused
    assert fit.rms_m < 0.008 and max(fit.marker_rms_m.values()) < 0.015
    assert 0.85 < fit.scales["left_knee"] < 1.25
    assert fit.history[-1] < fit.history[0]
    soles = fit.motion.joint_positions()[:, [HUMAN.index("left_foot"), HUMAN.index("right_foot")], 1]
    assert -0.06 < soles.min() < 0.10  # the capture's floor is y = 0


@pytest.mark.mocap
def test_a_capture_with_gaps_is_fitted_where_it_is_seen(mocap):
    markers = load_markers(mocap / "opensim" / "walking5.c3d")[::5]
    fit = fit_markers(markers, rounds=4)
    assert fit.first_frame > 0 and fit.motion.num_frames < markers.num_frames
    assert fit.start_s == pytest.approx(fit.first_frame / markers.rate_hz)
    assert fit.rms_m < 0.012 and np.isfinite(fit.motion.rotations.wxyz).all()


def test_sites_that_do_not_exist_are_refused(stiff_walk):
    markers, _ = synthetic_markers(stiff_walk)
    with pytest.raises(UnknownNameError, match="no marker 'nose'"):
        fit_markers(markers, sites={"nose": "head"})
    with pytest.raises(UnknownNameError, match="no joint 'haed'"):
        fit_markers(markers, sites={"head_0": "haed"})


def test_known_sites_are_mirror_images_and_bones_share_scales_with_theirs():
    places = known_sites()
    for name, (joint, (x, y, z)) in places.items():
        if name.startswith("L.") and joint.startswith("left_"):
            assert places["R." + name[2:]] == ("right_" + joint[5:], (-x, y, z))
    groups = group_bones(HUMAN)
    assert groups[HUMAN.index("left_elbow")] == groups[HUMAN.index("right_elbow")]
    assert groups[HUMAN.index("left_elbow")] != groups[HUMAN.index("left_knee")]
