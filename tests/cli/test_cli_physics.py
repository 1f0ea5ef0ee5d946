"""`marey physics`: the verdict on stdout, remarks on stderr, JSON, a picture and measured forces."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from marey import samples
from marey.cli import main
from marey.io import save
from marey.kinematics import fit_limits


@pytest.fixture(scope="module")
def clip(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("clips") / "jump.safetensors"
    save(samples.jump(), path)
    return path


@pytest.fixture
def run(capfd):
    """Run the command in this process; give exit code, stdout and stderr."""

    def do(*arguments: object) -> SimpleNamespace:
        capfd.readouterr()
        code = main([str(a) for a in arguments])
        out, err = capfd.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return do


def plates(path: Path, force_n: float) -> Path:
    """A table in which the left foot carries a constant weight."""
    names = ["time", *(f"ground_force_l_{k}{a}" for k in "vp" for a in "xyz")]
    rows = [f"{t}\t0\t{force_n}\t0\t0\t0\t0" for t in np.arange(0.0, 3.0, 0.1)]
    path.write_text("\n".join(["grf", "endheader", "\t".join(names), *rows]))
    return path


def test_the_first_line_is_the_verdict_and_then_the_stretches(run, clip):
    found = run("physics", clip)
    assert found.code == 0
    first, *spans = found.out.splitlines()
    assert first.split()[1].rstrip(":") in ("green", "amber", "red")
    assert "% of 169 frames are green" in first
    assert spans
    assert all(" s  " in line for line in spans)


def test_json_has_spans_and_on_request_frames(run, clip):
    facts = json.loads(run("physics", clip, "--json").out)
    assert facts["file"] == str(clip)
    assert facts["spans"][0]["start"] == 0
    assert "frames" not in facts
    frames = json.loads(run("physics", clip, "--json", "--frames").out)["frames"]
    assert len(frames["violation"]) == facts["num_frames"] == 169


def test_mass_friction_and_floor_are_options(run, clip):
    facts = json.loads(run("physics", clip, "--json", "--mass-kg", 50, "--floor", "-0.5").out)
    assert facts["mass_kg"] == pytest.approx(50.0)
    assert facts["colour"] == "red"
    assert "hover" in facts["causes"]
    ice = json.loads(run("physics", clip, "--json", "--friction", 0.01).out)
    assert ice["min_friction_margin"] < facts["min_friction_margin"]


def test_the_picture_is_written(run, clip, tmp_path):
    found = run("physics", clip, "--plot", tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 20_000
    assert "wrote" in found.err


def test_measured_forces_are_compared(run, clip, tmp_path):
    weight = 60.0 * 9.81
    found = run("physics", clip, "--json", "--mass-kg", 60, "--grf", plates(tmp_path / "g.mot", weight))
    measured = json.loads(found.out)["measured"]
    assert 0.0 < measured["vertical_rms"] < 2.0
    assert measured["implied_mass_kg"] < 70.0
    text = run("physics", clip, "--grf", tmp_path / "g.mot").out
    assert "% of body weight RMS" in text.splitlines()[-1]


def test_wrong_input_is_one_line(run, clip, tmp_path):
    assert run("physics", tmp_path / "none.bvh").code == 1
    wrong = run("physics", clip, "--floor", "ceiling")
    assert wrong.code == 2
    assert len(wrong.err.strip().splitlines()) == 1
    assert run("physics", clip, "--friction", -1).code == 2


def test_joint_limits_are_checked_when_a_file_is_given(run, clip, tmp_path):
    still = samples.jump()[:10]
    fit_limits([still], "box", margin_rad=0.01).save(tmp_path / "narrow.safetensors")
    facts = json.loads(run("physics", clip, "--json", "--limits", tmp_path / "narrow.safetensors").out)
    assert facts["max_limit_rad"] > 0.5
    assert "limits" in facts["causes"]
    assert run("physics", clip, "--limits", tmp_path / "none.safetensors").code == 1
