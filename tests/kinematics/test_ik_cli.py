"""The verb `marey ik`."""

from __future__ import annotations

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from marey.base import InputError, UnknownNameError
from marey.cli.poses.ik import ik, parse_task
from marey.io import load, save
from marey.skeleton import HUMAN

app = typer.Typer()
app.command()(ik)


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_the_canonical_human_stays_where_it_stands_while_its_hand_reaches_across():
    result = run("--task", "right_wrist=0.4,1.3,0.2", "--json")
    moved = np.array(json.loads(result.stdout)["root_position"]) - HUMAN.offsets[0]
    assert result.exit_code == 0 and np.linalg.norm(moved) < 0.15


def test_a_task_on_the_canonical_human_is_solved_and_written(tmp_path):
    out = tmp_path / "pose.safetensors"
    result = run("--task", "right_wrist=-0.4,1.3,0.2", "--task", "left_foot=0.1,0.05,0.3", "-o", str(out))
    assert result.exit_code == 0 and "CONVERGED" in result.stdout
    places = load(out).joint_positions()[0]
    np.testing.assert_allclose(places[HUMAN.index("right_wrist")], [-0.4, 1.3, 0.2], atol=1.1e-3)


def test_json_has_the_error_of_each_task():
    facts = json.loads(run("--task", "right_wrist=-0.4,1.3,0.2", "--json").stdout)
    assert facts["status"] == "CONVERGED" and facts["tasks"][0]["reached"]
    assert facts["tasks"][0]["error_m"] <= 1e-3


def test_a_goal_out_of_reach_exits_with_one_and_advice():
    result = run("--task", "right_wrist=-4,1.3,0.2", "--root", "fixed")
    assert result.exit_code == 1
    assert "INFEASIBLE" in result.stdout and "out of reach" in result.stderr


def test_a_frame_of_a_clip_is_the_start(tmp_path, stiff_walk):
    path = tmp_path / "walk.safetensors"
    save(stiff_walk, path)
    place = stiff_walk[12].joint_positions()[HUMAN.index("left_wrist")]
    text = "left_wrist=" + ",".join(f"{x:.6f}" for x in place)
    facts = json.loads(run(str(path), "--frame", "12", "--task", text, "--json").stdout)
    assert facts["iterations"] == 0


def test_tasks_that_cannot_be_read_are_refused():
    with pytest.raises(InputError, match="JOINT=X,Y,Z"):
        parse_task("right_wrist=1,2", HUMAN)
    with pytest.raises(UnknownNameError, match="right_wrist"):
        parse_task("right_wrst=1,2,3", HUMAN)
    assert isinstance(run("--frame", "3", "--task", "head=0,1,0").exception, InputError)
