"""The verb `walk`: scripts in, motions out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from marey import samples
from marey.io import load

PNG = b"\x89PNG\r\n\x1a\n"
SHORT = "rate_hz = 30\n[[action]]\nspeed = 1.2\nseconds = 1.0\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "short.toml"
    file.write_text(SHORT, encoding="utf-8")
    return file


@pytest.mark.parametrize("suffix", ["bvh", "glb"])
def test_walk_writes_the_motion_of_a_script(run, script, tmp_path, suffix):
    result = run("walk", script, "-o", tmp_path / f"out.{suffix}")
    assert result.code == 0
    assert "30 frames at 30 Hz" in result.out
    assert load(tmp_path / f"out.{suffix}").num_frames == 30


def test_walk_prints_json_and_writes_report_and_strip(run, script, tmp_path):
    strip, report = tmp_path / "strip.png", tmp_path / "report.json"
    result = run("walk", script, "--strip", strip, "--report", report, "--json", "-o", tmp_path / "a.bvh")
    assert result.code == 0
    facts = json.loads(result.out)
    assert facts["num_frames"] == 30
    assert facts["parts"][0]["mean_mps"] == pytest.approx(1.2, rel=0.1)
    assert json.loads(report.read_text(encoding="utf-8")) == facts
    assert strip.read_bytes().startswith(PNG)


def test_walk_gives_the_same_bytes_every_time(run, script, tmp_path):
    for name in ("a.bvh", "b.bvh"):
        assert run("walk", script, "-o", tmp_path / name).code == 0
    assert (tmp_path / "a.bvh").read_bytes() == (tmp_path / "b.bvh").read_bytes()


def test_walk_knows_the_shipped_scripts_by_name(run, tmp_path):
    assert run("walk", "--list").out.split() == list(samples.script_names())
    assert json.loads(run("walk", "--list", "--json").out) == list(samples.script_names())
    result = run("walk", "walk", "-o", tmp_path / "walk.bvh", "--json")
    assert result.code == 0
    assert json.loads(result.out)["num_frames"] == 240


def test_an_unknown_name_says_which_there_are(run):
    result = run("walk", "strol")
    assert result.code == 1
    assert "Did you mean 'stroll'?" in result.err


def test_a_broken_script_is_one_line_with_file_and_line(run, tmp_path):
    bad = tmp_path / "bad.toml"
    bad.write_text("[[action]]\nspeed = 1.0\nseconds = -1.0\n", encoding="utf-8")
    result = run("walk", bad, "-o", tmp_path / "out.bvh")
    assert result.code == 1
    assert result.err == f"marey: {bad}:3: 'seconds' is -1.0. It must be positive\n"
    assert not (tmp_path / "out.bvh").exists()


def test_what_was_held_back_is_remarked(run, tmp_path):
    fast = tmp_path / "fast.toml"
    fast.write_text("[[action]]\nspeed = 99.0\nseconds = 0.2\n", encoding="utf-8")
    result = run("walk", fast)
    assert result.code == 0
    assert f"marey: {fast}:1: " in result.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give a SCRIPT"),
        (("walk", "-o", "none/out.bvh"), "there is no folder 'none'"),
        (("walk", "-o", "out.exe"), "cannot write 'out.exe'"),
        (("walk", "--strip", "out.bvh"), "cannot write 'out.bvh'"),
        (("walk", "--report", "out.txt"), "cannot write 'out.txt'"),
    ],
)
def test_wrong_usage_is_told_before_any_work(run, arguments, words):
    result = run("walk", *arguments)
    assert result.code == 2
    assert words in result.err


def test_a_missing_script_or_model_is_one_line(run, script, tmp_path):
    assert "no file or folder" in run("walk", tmp_path / "none.toml").err
    result = run("walk", script, "--model", tmp_path / "none.safetensors")
    assert result.code == 1
    assert "none.safetensors" in result.err
