"""The verb `track`: image points in, motions out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from marey.io import load

SHORT = ("--watch", "seated", "--seconds", "0.4")


@pytest.fixture
def points(run, tmp_path) -> Path:
    path = tmp_path / "points.json"
    assert run("track", *SHORT, "--method", "full-pose", "--particles", "5", "--save", path).code == 0
    return path


def test_a_seated_person_is_tracked_within_centimetres(run, tmp_path):
    out = tmp_path / "out.bvh"
    result = run("track", *SHORT, "-o", out, "--json")
    facts = json.loads(result.out)
    assert result.code == 0
    assert facts["num_frames"] == 6 == load(out).num_frames
    assert facts["num_lost"] == 0
    assert facts["mean_error_m"] < 0.05
    assert set(facts["errors_m"]) == {"left_hand", "right_hand", "head"}


def test_the_same_seed_gives_the_same_bytes(run, tmp_path):
    for name in ("a.bvh", "b.bvh"):
        arguments = ("--method", "full-pose", "--seed", "3", "-o", tmp_path / name)
        assert run("track", *SHORT, *arguments).code == 0
    assert (tmp_path / "a.bvh").read_bytes() == (tmp_path / "b.bvh").read_bytes()


def test_saved_points_are_tracked_from_their_file(run, points, tmp_path):
    out = tmp_path / "again.safetensors"
    result = run("track", points, "--start", "seated", "--method", "full-pose", "-o", out)
    assert result.code == 0
    assert "6 frames" in result.out
    assert load(out).num_frames == 6


def test_a_point_that_is_not_seen_is_null(run, points):
    facts = json.loads(points.read_text())
    facts["pixels"][2] = [None] * len(facts["names"])
    points.write_text(json.dumps(facts))
    result = run("track", points, "--start", "seated", "--method", "full-pose")
    assert result.code == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no detections"),
        ("[]", "holds no detections"),
        ('{"names": ["head"]}', "'pixels'"),
        ('{"names": ["head"], "pixels": [[[1, "x"]]], "rate_hz": 15}', "'camera'"),
    ],
)
def test_broken_points_are_one_line(run, tmp_path, text, words):
    file = tmp_path / "points.json"
    file.write_text(text)
    result = run("track", file, "--start", "seated")
    assert result.code == 1
    assert words in result.err
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "either DETECTIONS or --watch"),
        (["points.json"], "need --start"),
        (["--watch", "seated", "--method", "magic"], "no method 'magic'"),
        (["--watch", "seated", "--camera", "1,2"], "is no camera"),
    ],
)
def test_wrong_usage_exits_with_two(run, arguments, words):
    result = run("track", *arguments)
    assert result.code == 2
    assert words in result.err


def test_a_missing_file_is_named(run):
    result = run("track", "nothing.json", "--start", "seated")
    assert result.code == 1
    assert "nothing.json" in result.err
