"""`--clip` and `convert --all-clips`: files that hold several clips."""

from __future__ import annotations

import json

import numpy as np
import pytest
from oracles.rigs import write_character

from marey.cli.clips.convert import name_clip_file
from marey.io import load, load_character, save
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import HUMAN


def two_clips(path) -> None:
    """A scene with the animations Walk/slow and Run, of 5 and 9 frames: two files of ours in one."""
    rng = np.random.default_rng(1)
    scenes = []
    for count, name in ((5, "Walk/slow"), (9, "Run")):
        rotations = SO3.exp(0.1 * rng.normal(size=(count, 22, 3)))
        file = path.with_name(f"one{count}.gltf")
        save(Motion(HUMAN, 30.0, np.tile([0.0, 0.96, 0.0], (count, 1)), rotations, name=name), file)
        scenes.append(json.loads(file.read_text()))
        file.unlink()
    # The second animation's buffer, views and accessors come behind those of the first
    first, second = scenes
    starts = {name: len(first[name]) for name in ("buffers", "bufferViews", "accessors")}
    animation = second["animations"][0]
    for view in second["bufferViews"]:
        view["buffer"] += starts["buffers"]
    for accessor in second["accessors"]:
        accessor["bufferView"] += starts["bufferViews"]
    for sampler in animation["samplers"]:
        sampler["input"] += starts["accessors"]
        sampler["output"] += starts["accessors"]
    for name in starts:
        first[name] += second[name]
    first["animations"].append(animation)
    del first["extras"]
    path.write_text(json.dumps(first))


def test_every_clip_is_written_to_a_file_of_its_own(run, tmp_path):
    two_clips(tmp_path / "pair.gltf")
    result = run("convert", tmp_path / "pair.gltf", tmp_path / "out", "--all-clips", "--json")
    assert result.code == 0
    assert json.loads(result.out)["clips"] == ["Walk/slow", "Run"]
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["Run.bvh", "Walk_slow.bvh"]
    assert load(tmp_path / "out" / "Walk_slow.bvh").num_frames == 5
    assert load(tmp_path / "out" / "Run.bvh").num_frames == 9


def test_without_a_folder_one_is_made_beside_the_file(run, tmp_path):
    two_clips(tmp_path / "pair.gltf")
    assert run("convert", tmp_path / "pair.gltf", "--all-clips", "--format", "glb").code == 0
    assert sorted(file.name for file in (tmp_path / "pair").iterdir()) == ["Run.glb", "Walk_slow.glb"]


def test_clips_of_several_files_carry_the_name_of_theirs(run, tmp_path):
    two_clips(tmp_path / "a.gltf")
    two_clips(tmp_path / "b.gltf")
    assert run("convert", tmp_path / "a.gltf", tmp_path / "b.gltf", tmp_path / "out", "--all-clips").code == 0
    names = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert names == ["a_Run.bvh", "a_Walk_slow.bvh", "b_Run.bvh", "b_Walk_slow.bvh"]


def test_a_clip_is_chosen_by_its_name(run, tmp_path):
    two_clips(tmp_path / "pair.gltf")
    assert run("convert", tmp_path / "pair.gltf", tmp_path / "run.bvh", "--clip", "Run").code == 0
    assert load(tmp_path / "run.bvh").num_frames == 9
    assert json.loads(run("info", tmp_path / "pair.gltf", "--clip", "1", "--json").out)["num_frames"] == 9
    result = run("convert", tmp_path / "pair.gltf", tmp_path / "x.bvh", "--clip", "Rum")
    assert result.code != 0 and "Did you mean 'Run'" in result.err
    result = run("convert", tmp_path / "pair.gltf", tmp_path / "x", "--clip", "Run", "--all-clips")
    assert result.code == 2


def test_a_scene_without_clips_says_so(run, tmp_path):
    still = Motion(HUMAN, 30.0, np.zeros((1, 3)), SO3.exp(np.zeros((1, 22, 3))))
    save(still, tmp_path / "rest.gltf")
    scene = json.loads((tmp_path / "rest.gltf").read_text())
    del scene["animations"]
    (tmp_path / "rest.gltf").write_text(json.dumps(scene))
    result = run("convert", tmp_path / "rest.gltf", tmp_path / "out", "--all-clips")
    assert result.code == 1 and "only a rest pose" in result.err


@pytest.mark.parametrize(
    ("clip", "name"),
    [("Walk", "Walk.bvh"), ("a|b:c", "a_b_c.bvh"), ("../../etc", "_.._etc.bvh"), ("...", "clip.bvh"), ("é ", "é.bvh")],
)
def test_names_of_files_hold_no_odd_signs(clip, name):
    assert name_clip_file("out", None, clip, ".bvh", set()) == f"out/{name}"


def test_names_that_differ_in_case_only_are_numbered():
    taken: set[str] = set()
    names = [name_clip_file("out", None, clip, ".bvh", taken) for clip in ("Walk", "walk", "WALK")]
    assert names == ["out/Walk.bvh", "out/walk (2).bvh", "out/WALK (3).bvh"]


def test_a_character_that_is_the_target_comes_out_with_its_mesh(run, tmp_path):
    """Of `retarget --to`: as `convert --onto`, where the file has a mesh and the format holds one."""
    write_character(tmp_path / "someone.glb")
    mine = load_character(tmp_path / "someone.glb")
    assert run("retarget", "walk", "--to", tmp_path / "someone.glb", "-o", tmp_path / "out.glb").code == 0
    theirs = load_character(tmp_path / "out.glb")
    np.testing.assert_array_equal(theirs.triangles, mine.triangles)
    assert run("retarget", "walk", "--to", tmp_path / "someone.glb", "-o", tmp_path / "bare.glb", "--no-mesh").code == 0
    assert len(load_character(tmp_path / "bare.glb").triangles) != len(mine.triangles)
    assert run("retarget", "walk", "--to", tmp_path / "someone.glb", "-o", tmp_path / "out.bvh").code == 0
