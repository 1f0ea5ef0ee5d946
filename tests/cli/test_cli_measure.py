"""`marey measure`: table, JSON, CSV, faults and exit codes."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np

import marey


def test_a_clip_gives_a_table_and_its_faults(run, tmp_path) -> None:
    clip = marey.samples.load("jump")
    marey.save(replace(clip, root_positions=clip.root_positions + np.array([0.0, 0.2, 0.0])), tmp_path / "float.bvh")
    answer = run("measure", tmp_path / "float.bvh", "--csv", tmp_path / "figures.csv")
    assert answer.code == 0
    assert "scraped_m_per_s" in answer.out
    assert any(line.startswith("! soles rest") and "above the floor at" in line for line in answer.out.splitlines())
    with (tmp_path / "figures.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {"name", "value", "unit", "low", "high", "remark"} <= set(rows[0])
    assert run("measure", tmp_path / "float.bvh", "--require-clean").code == 1


def test_json_holds_figures_and_faults_beside_the_source(run, tmp_path) -> None:
    answer = run("measure", "jump", "--against", "jump", "--kind", "jump", "--json")
    facts = json.loads(answer.out)
    assert answer.code == 0
    assert facts["kind"] == "jump"
    assert facts["figures"]["l2p_m"]["value"] == 0.0
    figure = facts["figures"]["scraped_m_per_s"]
    assert figure["value"] == figure["source"]
    assert figure["low"] <= figure["high"]


def test_several_clips_give_a_line_each(run) -> None:
    answer = run("measure", "walk", "jump")
    lines = [line for line in answer.out.splitlines() if not line.startswith("!")]
    assert [line.split()[0] for line in lines] == ["walk", "jump"]


def test_the_world_of_a_sketch_counts(run, tmp_path) -> None:
    sketch = tmp_path / "box.toml"
    sketch.write_text(
        "[start]\nposition = [0, 0]\n[goal]\nposition = [0, 4]\n"
        "[[box]]\nposition = [0, 1]\nsize = [3, 3]\nheight_m = 1.0\n"
    )
    answer = run("measure", "walk", "--world", sketch)
    assert answer.code == 0
    assert "is inside box 1" in answer.out


def test_a_wrong_kind_is_wrong_usage(run) -> None:
    assert run("measure", "walk", "--kind", "swim").code == 2
