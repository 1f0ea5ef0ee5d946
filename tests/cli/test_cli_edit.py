"""The verb `edit`: points and poses of a clip are brought elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from marey import samples
from marey.io import load, save
from marey.motion import contact_positions
from marey.skeleton import contact_points

TIME_S = 1.0
BY_M = (0.0, 0.2, 0.1)


@pytest.fixture(scope="module")
def clip(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("clips") / "walk.safetensors"
    save(samples.walk(seconds=2.0, rate_hz=30.0), path)
    return path


def hand(path: Path) -> np.ndarray:
    motion = load(path)
    at = contact_points(motion.skeleton).names.index("right_hand")
    return contact_positions(motion)[round(TIME_S * motion.rate_hz), at]


def goal(place) -> str:
    return f"right_hand@{TIME_S}=" + ",".join(f"{value:.6f}" for value in place)


@pytest.mark.parametrize("method", ["physical", "kinematic"])
def test_a_hand_goes_where_it_is_moved_to(run, clip, tmp_path, method):
    out = tmp_path / "out.safetensors"
    result = run("edit", clip, "--move", goal(BY_M), "--method", method, "-o", out, "--json")
    facts = json.loads(result.out)
    assert result.code == 0
    assert facts["method"] == method
    assert facts["status"] == "converged"
    np.testing.assert_allclose(hand(out), hand(clip) + BY_M, atol=6e-3)


def test_a_pin_names_the_place_itself(run, clip, tmp_path):
    place = hand(clip) + BY_M
    assert run("edit", clip, "--pin", goal(place), "-o", tmp_path / "out.safetensors").code == 0
    np.testing.assert_allclose(hand(tmp_path / "out.safetensors"), place, atol=6e-3)


def test_the_pose_space_of_the_clip_leaves_the_other_frames_alone(run, clip, tmp_path):
    out = tmp_path / "out.safetensors"
    move = f"right_wrist@{TIME_S}=0,0.05,0"
    span = ("--start-s", "0.5", "--stop-s", "1.5")
    result = run("edit", clip, "--move", move, "--method", "pose-space", *span, "-o", out)
    assert result.code == 0
    before, after = load(clip).joint_positions(), load(out).joint_positions()
    np.testing.assert_array_equal(before[:15], after[:15])
    wrist = load(clip).skeleton.index("right_wrist")
    assert 0.01 < (after - before)[30, wrist, 1] < 0.05  # the space of one straight walk gives way a little only


def test_a_place_out_of_reach_ends_with_one_and_the_nearest_motion(run, clip, tmp_path):
    out = tmp_path / "out.safetensors"
    result = run("edit", clip, "--pin", f"right_hand@{TIME_S}=0,9,0", "--time-limit-s", "2", "-o", out)
    assert result.code == 1
    assert "does not reach: right_hand" in result.err
    assert load(out).num_frames == load(clip).num_frames


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "give --pin, --move or --key"),
        (["--pin", "right_hand=1,2,3"], 2, "write POINT@S=X,Y,Z"),
        (["--pin", "right_hand@1=1,2"], 2, "write POINT@S=X,Y,Z"),
        (["--key", "pose.bvh"], 2, "write FILE@SECONDS"),
        (["--move", "right_hand@1=0,0,0", "--method", "magic"], 2, "no method 'magic'"),
        (
            ["--method", "pose-space", "--move", "left_wrist@0.5=0,0.1,0", "--still", "left_knee"],
            2,
            "takes --pin and --move",
        ),
        (["--pin", "right_hand@9=0,1,0"], 1, "9"),
        (["--move", "right_hnd@1=0,0,0"], 1, "right_hnd"),
    ],
)
def test_wrong_goals_are_one_line(run, clip, arguments, code, words):
    result = run("edit", clip, *arguments)
    assert result.code == code
    assert words in result.err
    assert len(result.err.splitlines()) == 1
