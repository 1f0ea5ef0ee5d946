"""A captured person, hip held as in the protocol, seen by one camera."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from marey.io import load
from marey.kinematics import BoxLimits, retarget
from marey.lie import SO3
from marey.motion import Motion, headings, resample
from marey.skeleton import HUMAN
from marey.tracking import Camera, EffectorFilter, PersonTracker, PoseFilter, observe
from marey.tracking.keypoint_files import COCO
from marey.tracking.observation import TOOLS, track_points

CLIP, OTHERS = "13_33.bvh", ("79_08.bvh", "79_20.bvh", "79_22.bvh")  # limits come from other people


def held(path: Path) -> Motion:
    """The canonical human doing what a clip does above the hip, at 30 Hz."""
    motion = resample(retarget(load(path), HUMAN), 30.0)
    wxyz = motion.rotations.wxyz.copy()
    wxyz[:, 0] = wxyz[0, 0]
    roots = np.tile(motion.root_positions[0], (motion.num_frames, 1))
    return replace(motion, root_positions=roots, rotations=SO3(wxyz), contacts=None, source=None)


def before(motion: Motion) -> Camera:
    """A camera 2.6 m before the person, a little to the side."""
    heading = float(headings(motion)[0])
    ahead = np.array([np.sin(heading), 0.0, np.cos(heading)])
    chest = motion.root_positions[0] + (0.0, 0.3, 0.0)
    return Camera(chest + 2.6 * ahead + 0.4 * np.cross((0.0, 1.0, 0.0), ahead), chest)


@pytest.mark.mocap
@pytest.mark.xfail(strict=True, reason="0.100 m against 0.08, on arms that are as the capture has them")
def test_a_captured_person_is_tracked_with_limits_of_others(mocap: Path) -> None:
    truth = held(mocap / "cmu-bvh" / CLIP)[:120]
    limits = BoxLimits.from_clips([held(mocap / "cmu-bvh" / name) for name in OTHERS], margin_rad=0.3)
    seen = observe(truth, before(truth), noise_px=2.0, rng=np.random.default_rng(0))
    track = EffectorFilter(limits=limits).run(seen, truth[0], np.random.default_rng(0))
    errors = track.tool_errors(truth)
    full = PoseFilter(limits=limits).run(seen, truth[0], np.random.default_rng(0))
    still = np.linalg.norm(track_points(truth, TOOLS) - track_points(truth, TOOLS)[0], axis=-1)
    assert track.num_lost == 0
    assert errors.mean() < 0.08  # the clip leaves the learnt limits by up to 0.7 rad, so 5 cm is not asked for
    assert errors.mean() < 0.75 * full.tool_errors(truth).mean()
    assert errors.mean() < 0.5 * still.mean()


@pytest.mark.mocap
@pytest.mark.parametrize(("clip", "rate_hz"), [("37_01.bvh", 120.0), ("132_33.bvh", 120.0)])
def test_people_outside_the_model_are_within_12_cm_by_one_camera_and_5_by_two(mocap: Path, clip, rate_hz) -> None:
    truth = resample(retarget(load(mocap / "cmu-bvh" / clip, rate_hz=rate_hz)[1:361], HUMAN), 30.0)[:45]
    middle = truth.root_positions.mean(axis=0)
    eyes = [Camera(middle + np.array(away), middle, 900.0, (1280, 960)) for away in ((1.5, 0.4, 4.8), (4.6, 0.3, -0.6))]
    rng = np.random.default_rng(0)
    views = [observe(truth, eye, COCO, noise_px=2.0, rng=rng) for eye in eyes]
    for seen, most_m in ((views[:1], 0.12), (views, 0.05)):
        found = PersonTracker(body=HUMAN).run(seen)
        away = np.linalg.norm(found.motion.joint_positions() - truth.joint_positions(), axis=-1)
        assert set(found.states) == {"tracked"}
        assert away.mean() < most_m
