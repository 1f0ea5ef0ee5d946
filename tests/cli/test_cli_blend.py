"""The verb `blend`: clips that step alike become one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from marey import samples
from marey.io import load, save

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> tuple[Path, Path]:
    """A slow walk and a fast one: their contacts are the same, their numbers of steps are not."""
    folder = tmp_path_factory.mktemp("clips")
    paths = folder / "slow.safetensors", folder / "fast.safetensors"
    for path, speed in zip(paths, (1.0, 1.5), strict=True):
        save(samples.walk(speed, seconds=2.0, rate_hz=30.0), path)
    return paths


def mean_speed(path: Path) -> float:
    motion = load(path)
    return float(np.linalg.norm(np.diff(motion.root_positions[:, [0, 2]], axis=0), axis=1).mean() * motion.rate_hz)


def test_a_blend_walks_at_a_speed_between_its_clips(run, clips, tmp_path):
    out = tmp_path / "out.bvh"
    result = run("blend", *clips, "-o", out)
    assert result.code == 0
    assert "valid" in result.out
    assert "cut the clips to what corresponds (" in result.err
    assert 1.1 < mean_speed(out) < 1.4


def test_weights_draw_the_blend_to_one_clip(run, clips, tmp_path):
    speeds = []
    for weights in ("0.9,0.1", "0.1,0.9"):
        assert run("blend", *clips, "--weights", weights, "-o", tmp_path / "out.safetensors").code == 0
        speeds.append(mean_speed(tmp_path / "out.safetensors"))
    assert speeds[0] < 1.15 < 1.35 < speeds[1]


def test_the_json_names_phases_jumps_and_measured_feet(run, clips, tmp_path):
    result = run("blend", *clips, "--json", "--strip", tmp_path / "strip.png", "-o", tmp_path / "out.glb")
    facts = json.loads(result.out)
    assert result.code == 0
    assert facts["valid"] is True
    assert facts["problems"] == [] == facts["predicted"]
    assert facts["duration_s"] == pytest.approx(sum(p["duration_s"] for p in facts["phases"]), abs=0.1)
    assert len(facts["velocity_jumps"]) == len(facts["phases"]) - 1
    slides = [phase["slide_mm"] for phase in facts["measured"] if "slide_mm" in phase]
    assert slides
    assert max(slides) < 2.0
    assert (tmp_path / "strip.png").read_bytes().startswith(PNG)


def test_the_naive_rule_is_a_word_away_and_an_unknown_one_is_refused(run, clips):
    assert run("blend", *clips, "--time", "linear", "--root", "root").code == 0
    result = run("blend", *clips, "--root", "pelvis")
    assert result.code == 2
    assert "pelvis" in result.err


def test_clips_that_do_not_step_alike_are_refused_when_they_may_not_be_cut(run, clips):
    result = run("blend", *clips, "--no-trim")
    assert result.code == 1
    assert "sequences of contacts differ" in result.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--weights", "half"], 2, "is not a list of weights"),
        (["--weights", "0.3"], 1, "1 weights for 2 motions"),
        (["-o", "out.txt"], 2, "cannot write 'out.txt'"),
    ],
)
def test_wrong_usage_is_one_line(run, clips, arguments, code, words):
    result = run("blend", *clips, *arguments)
    assert result.code == code
    assert words in result.err
    assert len(result.err.splitlines()) <= 2  # a remark on what was cut may stand before it


def test_one_clip_is_no_blend(run, clips):
    result = run("blend", clips[0])
    assert result.code == 2
    assert "two clips or more" in result.err
