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
from marey.tracking import Camera, EffectorFilter, PoseFilter, observe
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
