"""A dog and a spider by the command alone: read upright, listed, limited, posed and key-framed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from oracles.creatures import CREATURES, make_walk, turn_file

from marey.io import load, save
from marey.kinematics import load_limits

FEET = {"dog": ("LeftWrist", "LeftHindPaw", "RightWrist", "RightHindPaw"), "spider": ("Leg1L_4", "Leg2L_4", "Leg3R_4")}
KNEES = {"dog": {"LeftElbow", "LeftStifle", "LeftHock"}, "spider": {"Leg1L_2", "Leg1L_3"}}


@pytest.fixture(params=["dog-y", "dog-z", "spider-z"])
def creature(request, tmp_path) -> tuple[str, Path]:
    """The name of an animal, and its walk as a BVH that does not say which way is up."""
    name, _, up = request.param.partition("-")
    save(replace(turn_file(make_walk(CREATURES[name]), f"+{up}"), source=None), tmp_path / "walk.bvh", unit="cm")
    return name, tmp_path / "walk.bvh"


def test_an_animal_is_read_listed_limited_and_posed(run, tmp_path, creature):
    name, path = creature
    truth = make_walk(CREATURES[name])
    facts = json.loads(run("info", path, "--json").out)
    assert not facts["is_human"] and any("--unit" in warning for warning in facts["warnings"])
    assert "(unit unknown, cm assumed)" in run("info", path).out
    rows = [json.loads(line) for line in run("ik", path, "--frame", 0, "--handles", "--json").out.splitlines()]
    kinds = {row["handle"]: row["kind"] for row in rows}
    assert all(kinds[foot] == "end" for foot in FEET[name])
    assert all(kinds[knee] == "middle" for knee in KNEES[name])
    places = {row["handle"]: np.array(row["position_m"]) for row in rows}
    start = truth[0].joint_positions()
    for handle, place in places.items():
        np.testing.assert_allclose(place, start[truth.skeleton.index(handle)], atol=1e-4)
    # Limits of its own clip, and a pose inside them: one foot is lifted, the others stay
    limits, pose = tmp_path / "limits.safetensors", tmp_path / "pose.bvh"
    assert run("limits", "fit", path, "--kind", "box", "--margin-deg", 30, "-o", limits).code == 0
    goals = {foot: places[foot] + ([0.0, 0.02, 0.01] if foot == FEET[name][0] else 0.0) for foot in FEET[name]}
    tasks = [f"--task={foot}={','.join(f'{x:.6f}' for x in goal)}" for foot, goal in goals.items()]
    done = run("ik", path, "--frame", 0, "--limits", limits, *tasks, "-o", pose)
    assert done.code == 0, done.err
    answer = load(pose, unit="cm", up="y")
    where = answer[0].joint_positions()
    for foot, goal in goals.items():
        np.testing.assert_allclose(where[answer.skeleton.index(foot)], goal, atol=2e-3)
    assert load_limits(limits).violations(answer.rotations).max() < 1e-4


def test_up_is_an_option_of_the_command(run, tmp_path, creature):
    name, path = creature
    assert json.loads(run("info", path, "--up", "-y", "--json").out)["up"] == "-y"
    wrong = run("info", path, "--up", "w")
    assert wrong.code == 2 and "vertical axis 'w'" in wrong.err
    assert run("convert", path, tmp_path / f"{name}.glb", "--up", "x").code == 0
