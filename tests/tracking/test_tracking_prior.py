"""Tracking with a pose model as prior (Tournier 2011, F35): hidden points, wrong detections, no points at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.stiff_walk import make_stiff_walk

from marey.base import InputError
from marey.kinematics import PointTask, track
from marey.lie import SO3
from marey.models import PGA
from marey.motion import Markers
from marey.skeleton import HUMAN, Pose
from marey.tracking import BODY_KEYPOINTS, Camera, PriorTracker, observe
from marey.tracking.prior_problem import PriorProblem, PriorState

ENDS = ("left_wrist", "right_wrist", "left_ankle", "right_ankle", "head")
WALK = make_stiff_walk(1.2)[::2]
CAMERA = Camera(np.array([3.5, 1.2, 1.5]), np.array([0.0, 0.9, 1.2]), 500.0)


@pytest.fixture(scope="module")
def tracker() -> PriorTracker:
    """A model of walks at other speeds than the one that is tracked."""
    return PriorTracker(PGA(n_components=6).fit([make_stiff_walk(speed)[::2] for speed in (0.9, 1.5)]))


def seen_ends(hidden: slice, point: int = 2) -> Markers:
    places = WALK.joint_positions()[:, [WALK.skeleton.index(name) for name in ENDS]]
    valid = np.ones((WALK.num_frames, len(ENDS)), dtype=np.bool_)
    valid[hidden, point] = False
    return Markers(ENDS, WALK.rate_hz, places, valid)


def test_a_hidden_foot_follows_the_others_and_does_not_jump_when_it_reappears(tracker):
    hidden = slice(30, 30 + round(WALK.rate_hz))
    seen = seen_ends(hidden)
    tasks = [PointTask(name, seen.positions[:, i]) for i, name in enumerate(ENDS)]
    plain = track(tracker.model, tasks, rate_hz=WALK.rate_hz, start=WALK[0], valid=seen.valid, max_turn=None)
    foot, truth = WALK.skeleton.index("left_ankle"), WALK.joint_positions()
    around, away, steps = slice(hidden.start - 2, hidden.stop + 2), [], []
    for places in (tracker.run(seen, WALK[0]).motion.joint_positions(), plain.motion.joint_positions(), truth):
        away.append(np.linalg.norm(places[hidden, foot] - truth[hidden, foot], axis=-1).mean())
        steps.append(np.linalg.norm(np.diff(places[around, foot], axis=0), axis=-1).max())
    assert away[0] < 0.07
    assert steps[0] < 1.2 * steps[2] < steps[1]


def test_coordinates_stay_within_their_limits(tracker):
    found = replace(tracker, max_sigma=1.0).run(seen_ends(slice(0, 0)), WALK[0])
    assert np.abs(found.coordinates / tracker.model.deviations).max() <= 1.0 + 1e-12


def test_a_frame_without_any_point_is_predicted(tracker):
    seen = seen_ends(slice(0, 0))
    valid = np.array(seen.valid)
    valid[40:45] = False
    found = tracker.run(Markers(ENDS, WALK.rate_hz, seen.positions, valid), WALK[0])
    assert np.flatnonzero(found.is_predicted).tolist() == [40, 41, 42, 43, 44]
    away = np.linalg.norm(found.motion.joint_positions() - WALK.joint_positions(), axis=-1)
    assert away[40:45].mean() < away.mean() + 0.02


def test_wrong_detections_in_an_image_lose_their_weight(tracker):
    rng = np.random.default_rng(4)
    seen = observe(WALK, CAMERA, BODY_KEYPOINTS, noise_px=1.0, rng=rng)
    pixels, wrong = np.array(seen.pixels), rng.random(seen.valid.shape) < 0.05
    wrong[0] = False
    pixels[wrong] += rng.choice([-1.0, 1.0], size=(int(wrong.sum()), 2)) * 120.0
    clean = tracker.run(seen, WALK[0])
    found = tracker.run(replace(seen, pixels=pixels), WALK[0])
    wrong &= seen.valid
    assert found.weights[wrong].max() < 0.2 < np.median(found.weights[seen.valid & ~wrong])
    moved = np.linalg.norm(found.motion.joint_positions() - clean.motion.joint_positions(), axis=-1)
    assert moved.mean() < 0.02
    plain = replace(tracker, huber=1e9).run(replace(seen, pixels=pixels), WALK[0])
    dragged = np.linalg.norm(plain.motion.joint_positions() - clean.motion.joint_positions(), axis=-1)
    assert dragged.mean() > 2.0 * moved.mean()


@pytest.mark.parametrize("kind", ["space", "image"])
def test_normal_equations_are_the_gradient_of_the_cost(tracker, kind):
    seen = seen_ends(slice(3, 5))
    if kind == "image":
        seen = observe(WALK, CAMERA, BODY_KEYPOINTS, noise_px=8.0, rng=np.random.default_rng(1))
    problem, rng = (
        PriorProblem.compile(tracker, seen, WALK.skeleton).choose_frames(slice(0, 4)),
        np.random.default_rng(2),
    )
    x = rng.normal(size=(4, 6)) * tracker.model.deviations
    state = PriorState(WALK.root_positions[:4] + 0.02, WALK.rotations[:4, 0] @ SO3.exp([0.1, 0.0, 0.1]), x)
    _, g, _ = problem.linearise(state)
    for frame, column in ((0, 1), (1, 4), (2, 7), (3, 11)):
        delta, h = np.zeros((4, 12)), 1e-6
        delta[frame, column] = h
        costs = [problem.linearise(state.step(problem, s * delta))[2].sum() for s in (1.0, -1.0)]
        assert -2.0 * g[frame, column] == pytest.approx((costs[0] - costs[1]) / (2.0 * h), rel=1e-4, abs=1e-3)


def test_another_body_is_refused(tracker):
    other = Pose.rest(replace(HUMAN, names=tuple(f"x{name}" for name in HUMAN.names)))
    with pytest.raises(InputError, match="other joints"):
        tracker.run(seen_ends(slice(0, 0)), other)
