"""The verb `track`: image points in, motions out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import marey
from marey.io import load
from marey.tracking import Camera, track_points
from marey.tracking.keypoint_files import COCO

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
        ("", "not JSON"),
        ("[]", "no key points"),
        ('{"names": ["head"]}', "no key points"),
        ('{"names": ["head"], "pixels": [[[1, "x"]]], "rate_hz": 15}', "no key points"),
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
        ([], "either KEYPOINTS or --watch"),
        (["points.json", "--size", "12"], "is no size"),
        (["points.json", "--particles", "3"], "--particles is an option"),
        (["--watch", "seated", "--method", "magic"], "no method 'magic'"),
        (["--watch", "seated", "--camera", "1,2"], "is no camera"),
    ],
)
def test_wrong_usage_exits_with_two(run, arguments, words):
    result = run("track", *arguments)
    assert result.code == 2
    assert words in result.err


def test_key_points_alone_become_a_motion_and_what_is_assumed_is_said(run, points, tmp_path):
    walk = marey.samples.walk(1.2)[::6][:8]
    names = [name for name in COCO if "eye" not in name]
    camera = Camera(np.array([0.5, 1.2, 4.0]), np.array([0.0, 1.2, 0.0]), 1000.0, (1000, 800))
    pixels = camera.project(track_points(walk, names)).tolist()
    (tmp_path / "own.json").write_text(json.dumps({"names": names, "pixels": pixels}))
    table, out = tmp_path / "errors.csv", tmp_path / "out.bvh"
    arguments = (tmp_path / "own.json", "--size", "1000x800", "-o", out, "--csv", table, "--json")
    result = run("track", *arguments)
    facts = json.loads(result.out)
    assert result.code == 0
    assert "level one" in result.err and "30 Hz" in result.err
    assert facts["num_lost"] == 0 and facts["distance_px"] < 3.0 and facts["body"] == "estimated"
    assert load(out).num_frames == 8
    assert [row.split(",")[2] for row in table.read_text().splitlines()[1:]] == ["tracked"] * 8


def test_a_missing_file_is_named(run):
    result = run("track", "nothing.json", "--start", "seated")
    assert result.code == 1
    assert "nothing.json" in result.err
