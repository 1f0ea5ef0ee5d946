"""`marey plant`: the verb's facts and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from marey.cli.clips import physics as _plant
from marey.io import load, save
from marey.samples import walk


def app() -> typer.Typer:
    alone = typer.Typer()
    alone.command("plant")(_plant.plant)
    return alone


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    save(walk(1.3, seconds=2.0), tmp_path / "walk.bvh")
    return tmp_path / "walk.bvh"


def test_plant_writes_a_clip_and_tells_what_slid(clip: Path) -> None:
    out = clip.with_name("planted.bvh")
    result = CliRunner().invoke(app(), [str(clip), "-o", str(out), "--json"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout.splitlines()[0])
    assert facts["plants"] >= 3
    assert facts["broken"] == [] and facts["scraped_after_m"] <= facts["scraped_before_m"] + 0.01
    assert load(out).num_frames == load(clip).num_frames


def test_plant_turns_toes_in_and_says_so_in_words(clip: Path) -> None:
    result = CliRunner().invoke(app(), [str(clip), "-o", str(clip.with_name("in.bvh")), "--toe-in-deg", "10"])
    assert result.exit_code == 0, result.output
    assert "foot plants, 0 broken; feet scrape" in result.stdout
