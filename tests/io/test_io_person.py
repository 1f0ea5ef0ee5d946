"""The person in a file: pelvis by anatomy, nodes above it folded, unit, axes and roles of rigs of other tools."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from oracles import foreign_rigs as rigs

from marey import samples
from marey.base import InputError
from marey.io import load, save
from marey.io.bvh.writer import write_bvh
from marey.io.conventions import METRES
from marey.io.person import find_person, restore_scene
from marey.lie import SO3
from marey.motion import Motion, mean_speed, standing_height
from marey.skeleton import Skeleton, require_human, role_map
from marey.skeleton.calibration_pose import shortest_arc

SCENE = {
    "one far root": [(0.008, 0.94, -4.52)],
    "armature and reference": [(0.0, 0.0, 0.0), (1.2, -0.3, 0.4)],
    "three nodes": [(0.0, 0.0, 0.0), (3.0, 0.0, -2.0), (0.0, 0.9, 0.1)],
}
walk = cache(samples.walk)


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def write_plain(motion: Motion, path: Path, unit: str = "cm") -> Path:
    write_bvh(replace(motion, source=None), path, unit=unit)
    return path


@pytest.mark.parametrize("nodes", SCENE)
@pytest.mark.parametrize("moves", [False, True])
def test_folded_nodes_leave_every_joint_where_it_is(nodes, moves):
    rig = rigs.insert_nodes(walk(), SCENE[nodes], rng(), moves=moves)
    person = find_person(rig)
    assert person.skeleton.names == walk().skeleton.names
    assert np.abs(person.joint_positions() - rig.joint_positions()[:, len(SCENE[nodes]) :]).max() < 1e-9
    assert mean_speed(person) == pytest.approx(mean_speed(walk()), rel=1e-6)
    assert any("folded" in note and "node 0" in note for note in person.load_report.notes)


def test_a_person_without_nodes_above_is_returned_as_it_is():
    assert find_person(walk()) is walk()


@pytest.mark.parametrize("nodes", SCENE)
@pytest.mark.parametrize("unit", [unit for unit in METRES if unit != "dm"])
@pytest.mark.parametrize("up", ["+y", "+z"])
def test_a_scene_root_changes_neither_height_nor_speed_in_any_unit(tmp_path, nodes, unit, up):
    rig = rigs.insert_nodes(walk(), SCENE[nodes], rng())
    path = write_plain(rigs.turn_up(rig) if up == "+z" else rig, tmp_path / "rig.bvh", unit)
    clip = load(path)
    assert clip.source is not None and clip.source.unit == unit and clip.source.up == up
    assert clip.skeleton.names[0] == "pelvis"
    assert standing_height(clip.skeleton) == pytest.approx(standing_height(walk().skeleton), rel=1e-3)
    assert mean_speed(clip) == pytest.approx(mean_speed(walk()), rel=1e-3)


def test_names_may_be_numbers(tmp_path):
    names = [f"joint_{j}" for j in range(22)]
    rig = rigs.rename(rigs.insert_nodes(walk(), SCENE["one far root"], rng()), ["x", *names])
    clip = load(write_plain(rig, tmp_path / "rig.bvh"))
    roles = role_map(clip.skeleton)
    truth = {name: f"joint_{j}" for j, name in enumerate(walk().skeleton.names)}
    sure = [r for r in truth if not r.startswith("spine") and r in roles]
    assert len(sure) >= 18 and [clip.skeleton.names[roles[r]] for r in sure] == [truth[r] for r in sure]


def test_bones_that_hang_anywhere_change_nothing(tmp_path):
    rig = rigs.insert_nodes(rigs.add_twigs(walk(), rng()), SCENE["one far root"], rng())
    clip = load(write_plain(rig, tmp_path / "rig.bvh"))
    assert clip.skeleton.names[0] == "pelvis" and clip.skeleton.num_joints == 62
    assert standing_height(clip.skeleton) == pytest.approx(standing_height(walk().skeleton), rel=0.05)
    assert mean_speed(clip) == pytest.approx(mean_speed(walk()), rel=1e-3)


def test_what_hangs_beside_the_body_is_left_out_and_named():
    rig = rigs.insert_nodes(walk(), SCENE["armature and reference"], rng())
    skeleton = rig.skeleton
    count = skeleton.num_joints
    scene = Skeleton(
        (*skeleton.names, "Camera", "IK_hand"),
        np.append(skeleton.parents, [0, 1]),
        np.concatenate([skeleton.offsets, np.ones((2, 3))]),
        np.concatenate([skeleton.tips, np.zeros((2, 3))]),
    )
    moving = np.concatenate([rig.translations, np.ones((rig.num_frames, 2, 3))], axis=1)
    wxyz = np.concatenate([rig.rotations.wxyz, SO3.identity(rig.num_frames, 2).wxyz], axis=1)
    person = find_person(replace(rig, skeleton=scene, rotations=SO3(wxyz), translations=moving))
    assert person.skeleton.num_joints == count - 2
    assert any("'Camera', 'IK_hand'" in note for note in person.load_report.notes)


@pytest.mark.parametrize("nodes", SCENE)
def test_an_unchanged_file_is_written_with_its_own_nodes_and_values(tmp_path, nodes):
    path = write_plain(rigs.insert_nodes(walk(), SCENE[nodes], rng()), tmp_path / "rig.bvh")
    clip = load(path)
    save(clip, tmp_path / "again.bvh")
    assert (tmp_path / "again.bvh").read_bytes() == path.read_bytes()
    save(clip[10:50], tmp_path / "part.bvh")
    part = load(tmp_path / "part.bvh")
    assert restore_scene(part).skeleton.num_joints == clip.skeleton.num_joints + len(SCENE[nodes])
    assert np.abs(part.joint_positions() - clip.joint_positions()[10:50]).max() < 1e-6


def test_an_edited_person_keeps_its_nodes_and_its_place_when_written(tmp_path):
    clip = load(write_plain(rigs.insert_nodes(walk(), SCENE["three nodes"], rng()), tmp_path / "rig.bvh"))
    moved = replace(clip, root_positions=clip.root_positions + np.array([1.0, 0.2, 0.0]), source=clip.edited_source())
    save(moved, tmp_path / "moved.bvh")
    assert "ROOT node 0" in (tmp_path / "moved.bvh").read_text()
    assert np.abs(load(tmp_path / "moved.bvh").joint_positions() - moved.joint_positions()).max() < 1e-6


def test_a_folded_clip_survives_our_own_format(tmp_path):
    path = write_plain(rigs.insert_nodes(walk(), SCENE["three nodes"], rng()), tmp_path / "rig.bvh")
    clip = load(path)
    save(clip, tmp_path / "clip.safetensors")
    save(load(tmp_path / "clip.safetensors"), tmp_path / "again.bvh")
    assert (tmp_path / "again.bvh").read_bytes() == path.read_bytes()


def test_bone_lengths_may_stand_in_the_frames_only(tmp_path):
    rig = rigs.insert_nodes(walk(), SCENE["one far root"], rng())
    flat = replace(rig.skeleton, offsets=np.zeros_like(rig.skeleton.offsets))
    clip = load(write_plain(replace(rig, skeleton=flat), tmp_path / "rig.bvh"))
    assert clip.skeleton.names[0] == "pelvis"
    assert standing_height(clip.skeleton) == pytest.approx(standing_height(walk().skeleton), rel=0.05)
    save(clip, tmp_path / "again.bvh")
    assert (tmp_path / "again.bvh").read_bytes() == (tmp_path / "rig.bvh").read_bytes()


def test_six_numbers_after_offset_are_read(tmp_path):
    path = write_plain(walk(), tmp_path / "walk.bvh")
    lines = path.read_text().splitlines()
    lines = [f"{line} 0.0 90.0 0.0" if line.strip().startswith("OFFSET") else line for line in lines]
    path.write_text("\n".join(lines) + "\n")
    clip = load(path)
    order = [clip.skeleton.names.index(name) for name in walk().skeleton.names]
    assert np.abs(clip.joint_positions()[:, order] - walk().joint_positions()).max() < 1e-6
    assert any("three more numbers" in note for note in clip.load_report.notes)


@pytest.mark.mocap
@pytest.mark.parametrize("name", ["02_01", "09_06", "16_01", "85_12", "118_01"])
@pytest.mark.parametrize("nodes", SCENE)
def test_captured_rigs_with_scene_roots_keep_height_speed_and_roles(mocap, tmp_path, name, nodes):
    capture = load(mocap / "cmu-bvh" / f"{name}.bvh")
    rig = rigs.add_twigs(rigs.scale(capture, 1.0), rng())
    rig = rigs.insert_nodes(rig, SCENE[nodes], rng())
    for unit in ("m", "cm", "mm", "inch"):
        clip = load(write_plain(rig, tmp_path / "rig.bvh", unit))
        assert clip.skeleton.names[0] == "Hips"
        assert standing_height(clip.skeleton) == pytest.approx(standing_height(capture.skeleton), rel=0.05)
        assert mean_speed(clip) == pytest.approx(mean_speed(capture), rel=0.01)
        mine, theirs = role_map(clip.skeleton), role_map(capture.skeleton)
        assert {r: clip.skeleton.names[j] for r, j in mine.joints.items()} == {
            r: capture.skeleton.names[j] for r, j in theirs.joints.items()
        }


def along_axis(motion: Motion, axis: int) -> Motion:
    """The same motion on a skeleton whose rest pose draws every bone along one axis, as LAFAN1 and SOMA do."""
    skeleton = motion.skeleton
    goal = np.eye(3)[axis]
    frames = []
    for j in range(skeleton.num_joints):
        below = np.flatnonzero(skeleton.parents == j)
        bone = skeleton.offsets[below[0]] if len(below) else skeleton.tips[j]
        is_fork = len(below) > 1 or not bone.any()
        frames.append(SO3.identity() if is_fork else shortest_arc(goal, bone))
    return rigs.change_rest(motion, SO3.stack(frames))


@pytest.mark.parametrize("axis", [0, 1])
def test_a_rest_pose_along_one_axis_keeps_height_speed_and_roles(tmp_path, axis):
    garbage = along_axis(walk(), axis)
    assert np.abs(garbage.joint_positions() - walk().joint_positions()).max() < 1e-9
    rig = rigs.insert_nodes(garbage, SCENE["one far root"], rng())
    clip = load(write_plain(rig, tmp_path / "rig.bvh"))
    assert clip.skeleton.names[0] == "pelvis"
    assert standing_height(clip.skeleton) == pytest.approx(standing_height(walk().skeleton), rel=0.05)
    assert mean_speed(clip) == pytest.approx(mean_speed(walk()), rel=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_joint_frames_turned_at_random_keep_height_speed_and_the_verdict(tmp_path, seed):
    own = np.random.default_rng(seed)
    garbage = rigs.change_rest(walk(), SO3.exp(2.0 * own.normal(size=(22, 3))))
    assert np.abs(garbage.joint_positions() - walk().joint_positions()).max() < 1e-9
    clip = load(write_plain(rigs.insert_nodes(garbage, SCENE["one far root"], rng()), tmp_path / "rig.bvh"))
    assert clip.skeleton.names[0] == "pelvis"
    require_human(clip.skeleton, "retargeting")
    assert standing_height(clip.skeleton) == pytest.approx(standing_height(walk().skeleton), rel=0.05)
    assert mean_speed(clip) == pytest.approx(mean_speed(walk()), rel=1e-3)


@pytest.mark.parametrize("angle", [0.4, 0.8, 1.3])
def test_arms_that_rest_lower_change_nothing(tmp_path, angle):
    turns = np.zeros((22, 3))
    for side, sign in (("left", -1.0), ("right", 1.0)):
        for part in ("shoulder", "elbow", "wrist"):
            turns[walk().skeleton.index(f"{side}_{part}")] = (0.0, 0.0, sign * angle)
    rig = rigs.insert_nodes(rigs.change_rest(walk(), SO3.exp(turns).inverse()), SCENE["three nodes"], rng())
    clip = load(write_plain(rig, tmp_path / "rig.bvh"))
    assert standing_height(clip.skeleton) == pytest.approx(standing_height(walk().skeleton), rel=0.01)
    assert mean_speed(clip) == pytest.approx(mean_speed(walk()), rel=1e-3)
    assert [clip.skeleton.names[j] for j in role_map(clip.skeleton).joints.values()] == list(
        role_map(clip.skeleton).joints
    )


@pytest.mark.parametrize("lost", [("wrist",), ("foot",), ("wrist", "foot")])
def test_a_body_without_hands_or_toes_keeps_height_and_speed(tmp_path, lost):
    gone = [j for j, name in enumerate(walk().skeleton.names) if any(word in name for word in lost)]
    rig = rigs.insert_nodes(rigs.drop_joints(walk(), gone), SCENE["one far root"], rng())
    clip = load(write_plain(rig, tmp_path / "rig.bvh"))
    assert clip.skeleton.names[0] == "pelvis"
    assert standing_height(clip.skeleton) == pytest.approx(standing_height(walk().skeleton), rel=0.05)
    assert mean_speed(clip) == pytest.approx(mean_speed(walk()), rel=1e-3)


def test_info_names_the_pelvis_the_folded_nodes_and_the_verdict(run, tmp_path):
    path = write_plain(rigs.insert_nodes(walk(), SCENE["armature and reference"], rng()), tmp_path / "rig.bvh")
    said = run("info", path)
    assert "pelvis pelvis" in said.out and "folded into its path: node 0, node 1" in said.err and "unit cm" in said.err
    facts = json.loads(run("info", path, "--json").out)
    assert facts["is_human"] and facts["anatomy_score"] > 0.5
    assert facts["pelvis"] == "pelvis" and facts["folded"] == ["node 0", "node 1"] and facts["left_out"] == []


def test_info_says_why_a_thing_is_no_human(run, tmp_path):
    stick = Skeleton(("a", "b"), np.array([-1, 0]), np.array([[0.0, 0, 0], [0, 1.0, 0]]))
    path = write_plain(Motion(stick, 30.0, np.zeros((3, 3)), SO3.identity(3, 2)), tmp_path / "stick.bvh")
    said = run("info", path)
    assert "not a human" in said.out and "two pairs of mirrored limbs" in said.err


SCENES = [
    ".glb",
    pytest.param(".fbx", marks=pytest.mark.skipif(find_spec("ufbx") is None, reason="ufbx is not installed")),
    pytest.param(".usda", marks=pytest.mark.skipif(find_spec("pxr") is None, reason="usd-core is not installed")),
]


@pytest.mark.parametrize("suffix", SCENES)
@pytest.mark.parametrize("factor", [1e-3, 1e-2, 0.1, 10.0, 100.0, 1e3, 1.0 / 0.0254])
def test_a_person_of_absurd_size_is_scaled_with_a_warning(tmp_path, suffix, factor):
    save(rigs.scale(walk(), factor), tmp_path / f"walk{suffix}")
    motion = load(tmp_path / f"walk{suffix}")
    assert standing_height(motion.skeleton) == pytest.approx(standing_height(walk().skeleton), rel=1e-3)
    assert mean_speed(motion) == pytest.approx(mean_speed(walk()), rel=1e-3)
    assert any("lengths were multiplied by" in warning for warning in motion.load_report.warnings)


@pytest.mark.parametrize("suffix", SCENES)
def test_the_unit_of_the_file_is_kept_where_the_user_says_so(tmp_path, suffix):
    save(rigs.scale(walk(), 100.0), tmp_path / f"walk{suffix}")
    motion = load(tmp_path / f"walk{suffix}", unit="file")
    assert standing_height(motion.skeleton) == pytest.approx(100.0 * standing_height(walk().skeleton), rel=1e-3)
    # In centimetres by the user's word: nothing is left to be corrected
    if suffix == ".glb":
        told = load(tmp_path / "walk.glb", unit="cm")
        assert standing_height(told.skeleton) == pytest.approx(standing_height(walk().skeleton), rel=1e-3)
        assert not any("multiplied" in warning for warning in told.load_report.warnings)


@pytest.mark.parametrize("factor", [0.35, 0.6, 2.0, 3.1])
def test_children_and_giants_that_no_unit_explains_keep_their_size(tmp_path, factor):
    save(rigs.scale(walk(), factor), tmp_path / "walk.glb")
    motion = load(tmp_path / "walk.glb")
    assert standing_height(motion.skeleton) == pytest.approx(factor * standing_height(walk().skeleton), rel=1e-3)
    assert any("m tall" in warning for warning in motion.load_report.warnings) == (factor != 0.6)


def test_a_file_that_states_no_unit_has_none_to_keep(tmp_path):
    with pytest.raises(InputError, match="unknown unit 'file'"):
        load(write_plain(walk(), tmp_path / "walk.bvh"), unit="file")


@pytest.mark.real
@pytest.mark.parametrize("name", ["91_49", "91_51", "91_53"])
def test_an_armature_that_blender_scaled_by_100_is_a_person(real, name):
    pytest.importorskip("ufbx")
    motion = load(real / "mesh2motion" / f"{name}.fbx")
    assert 1.6 < standing_height(motion.skeleton) < 1.72
    assert 0.05 < mean_speed(motion) < 1.0
