"""`marey walk --crowd`: many people, one file each."""

from __future__ import annotations

import json

import numpy as np

from marey.io import load

PNG = b"\x89PNG\r\n\x1a\n"
SHORT = ("--crowd", "3", "--seconds", "0.5")


def test_each_person_of_a_crowd_has_a_file(run, tmp_path):
    result = run("walk", *SHORT, "-o", tmp_path / "crowd.bvh", "--json")
    facts = json.loads(result.out)
    assert result.code == 0
    assert facts["people"] == 3
    assert [load(file).num_frames for file in facts["files"]] == [30, 30, 30]
    assert sorted(path.name for path in tmp_path.glob("*.bvh")) == ["crowd-1.bvh", "crowd-2.bvh", "crowd-3.bvh"]


def test_people_differ_in_size_and_speed(run, tmp_path):
    facts = json.loads(run("walk", *SHORT, "-o", tmp_path / "crowd.safetensors", "--json").out)
    bodies = [load(file).skeleton for file in facts["files"]]
    assert len({round(float(np.abs(body.offsets).sum()), 6) for body in bodies}) == 3
    assert len({round(speed, 6) for speed in facts["mean_mps"]}) == 3


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(run, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert run("walk", *SHORT, "--seed", seed, "-o", tmp_path / f"{name}.bvh").code == 0
    first, second, third = ((tmp_path / f"{name}-1.bvh").read_bytes() for name in "abc")
    assert first == second != third


def test_a_crowd_is_drawn_and_reported(run, tmp_path):
    strip, report = tmp_path / "crowd.png", tmp_path / "crowd.json"
    result = run("walk", *SHORT, "--strip", strip, "--report", report)
    assert result.code == 0
    assert "3 people" in result.out
    assert strip.read_bytes().startswith(PNG)
    assert json.loads(report.read_text())["people"] == 3


def test_a_crowd_has_no_script(run):
    for arguments in (("walk", "walk", "--crowd", "2"), ("walk",)):
        result = run(*arguments)
        assert result.code == 2
        assert "--crowd N" in result.err
