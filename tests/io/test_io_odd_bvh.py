"""BVH files drawn at random from what tools do are read as the right person: every joint where it was drawn."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from oracles.bvh_dialects import DIALECTS
from oracles.odd_bvh import MUST, RESTS, TREES, UNIT_M, OddFile, draw_file
from oracles.tool_exports import EXPORTS, draw_export

from marey import samples
from marey.io import load
from marey.kinematics import retarget
from marey.lie import SO3
from marey.motion import Motion, assess_motion, mean_speed, standing_height
from marey.skeleton import HUMAN, role_map

NEAR_M = 3e-3  # what offsets with six decimals and angles with five leave open, in the longest chains


@cache
def walk() -> Motion:
    """The sample on the canonical human, thirty frames a second, two seconds."""
    moved = retarget(samples.walk(), HUMAN, contacts=False)
    step = round(moved.rate_hz / 30.0)
    return Motion(HUMAN, 30.0, moved.root_positions[::step][:60], SO3(moved.rotations.wxyz[::step][:60]))


def check_file(folder: Path, drawn: OddFile) -> None:
    path = folder / "take.bvh"
    path.write_bytes(drawn.data)
    motion = load(path)
    skeleton = motion.skeleton
    assert assess_motion(motion).is_human, drawn.choices
    assert motion.rate_hz == pytest.approx(drawn.rate_hz, rel=1e-3)
    # Every joint of the body is where it was drawn: unit, axes, nodes above and orders are all right
    known = [(i, skeleton.names.index(name)) for i, name in enumerate(drawn.joints) if name in skeleton.names]
    there, here = drawn.positions[:, [i for i, _ in known]], motion.joint_positions()[:, [j for _, j in known]]
    assert np.abs(here - there).max() < NEAR_M, drawn.choices
    assert 1.25 < standing_height(skeleton) < 2.15, drawn.choices
    pelvis = drawn.positions[:, drawn.joints.index(drawn.roles["pelvis"])] if "pelvis" in drawn.roles else here[:, 0]
    steps = np.linalg.norm(np.diff(pelvis[:, [0, 2]], axis=0), axis=1)
    assert mean_speed(motion) == pytest.approx(steps.mean() * drawn.rate_hz, rel=0.02), drawn.choices
    roles = role_map(skeleton)
    found = {role: skeleton.names[roles[role]] if role in roles else None for role in MUST if role in drawn.roles}
    assert found == {role: drawn.roles[role] for role in found}, drawn.choices


@pytest.mark.parametrize("dialect", DIALECTS)
def test_names_of_any_tool(tmp_path, dialect):
    check_file(tmp_path, draw_file(walk(), np.random.default_rng(1), dialect=dialect, tree="plain", rest="T"))


@pytest.mark.parametrize("tool", EXPORTS)
def test_exports_of_named_tools(tmp_path, tool):
    check_file(tmp_path, draw_export(walk(), tool, np.random.default_rng(1), frames="all", facing="90"))


@pytest.mark.parametrize("prop", ["root before", "root after"])
def test_a_prop_with_a_root_of_its_own_is_not_the_clip(tmp_path, prop):
    check_file(tmp_path, draw_export(walk(), "optitrack", np.random.default_rng(2), prop=prop, frames="all"))


@pytest.mark.parametrize("tree", TREES)
def test_trees_of_joints(tmp_path, tree):
    check_file(tmp_path, draw_file(walk(), np.random.default_rng(2), dialect="nokov", tree=tree))


@pytest.mark.parametrize("rest", RESTS)
@pytest.mark.parametrize("dialect", ["unreal", "japanese studio", "numbers"])
def test_rest_poses_even_those_that_say_nothing(tmp_path, rest, dialect):
    check_file(tmp_path, draw_file(walk(), np.random.default_rng(3), dialect=dialect, tree="plain", rest=rest))


@pytest.mark.parametrize("unit", UNIT_M)
def test_units(tmp_path, unit):
    check_file(tmp_path, draw_file(walk(), np.random.default_rng(4), unit=unit, tree="fingers", rest="A 45"))


@pytest.mark.parametrize("seed", range(60))
def test_everything_at_once(tmp_path, seed):
    check_file(tmp_path, draw_file(walk(), np.random.default_rng([7, seed])))


@pytest.mark.parametrize("height", [0.06, 9.0, 400.0, 8000.0])
def test_a_person_in_no_known_unit_is_scaled_with_a_warning(tmp_path, height):
    big = replace(
        walk(), skeleton=walk().skeleton.scaled(height / 1.75), root_positions=walk().root_positions * height / 1.75
    )
    drawn = draw_file(big, np.random.default_rng(5), unit="m", up="y", tree="plain", rest="T", above="none")
    path = tmp_path / "take.bvh"
    path.write_bytes(drawn.data)
    motion = load(path)
    assert 1.5 < standing_height(motion.skeleton) < 1.95
    assert any("no known unit" in warning for warning in motion.load_report.warnings)


def test_a_file_is_the_same_person_the_second_time(tmp_path):
    """Bones along one axis under LAFAN1's names: the rest pose tells neither the unit nor what is up, the frames do."""
    chosen = {"dialect": "studio namespace", "rest": "bones along x", "unit": "dm"}
    drawn = draw_file(walk(), np.random.default_rng(0), tree="fore foot and heel", **chosen)
    (tmp_path / "take.bvh").write_bytes(drawn.data)
    first, second = (load(tmp_path / "take.bvh") for _ in range(2))
    assert standing_height(first.skeleton) == standing_height(second.skeleton) == pytest.approx(1.6, abs=0.1)
