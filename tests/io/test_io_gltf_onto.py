"""A motion on a user's character: joints where ours are, everything else as it was."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from oracles.gltf_pose import GltfFile
from oracles.rigs import waving, write_character

import marey
from marey.base import InputError
from marey.io import load_character, pose_vertices
from marey.motion import Motion

BAR_M = 1e-5
ROOT = Path(__file__).parents[2]
MODULES = [Path(os.environ.get("MAREY_NODE_MODULES", "")), ROOT / ".venvs" / "npm" / "node_modules"]
HUMANS = ["human-female", "human-male", "m2m-sample-rig", "mixamo-sample-rig", "human-zombie"]


def gap_m(path: Path, motion: Motion, animation: int = 0) -> float:
    """Largest distance between an independent evaluator's nodes and our joints."""
    file, ours = GltfFile(path), motion.joint_positions()
    node = {n.name: i for i, n in enumerate(file.gltf.nodes)}
    gaps = []
    for frame in np.unique(np.linspace(0, motion.num_frames - 1, 20).astype(int)):
        worlds = file.worlds(frame / motion.rate_hz, animation)
        gaps += [np.abs(worlds[node[n], :3, 3] - ours[frame, j]).max() for j, n in enumerate(motion.skeleton.names)]
    return float(max(gaps))


def assert_mesh_is_the_same(before: Path, after: Path) -> None:
    old, new = GltfFile(before), GltfFile(after)
    assert [m.name for m in old.gltf.meshes] == [m.name for m in new.gltf.meshes]
    for a, b in zip(old.gltf.meshes, new.gltf.meshes, strict=True):
        for p, q in zip(a.primitives, b.primitives, strict=True):
            for name, number in vars(p.attributes).items():
                if number is not None:
                    assert old.raw(number) == new.raw(getattr(q.attributes, name)), name
            if p.indices is not None:
                assert old.raw(p.indices) == new.raw(q.indices)
    for a, b in zip(old.gltf.skins, new.gltf.skins, strict=True):
        assert a.joints == b.joints
        assert old.raw(a.inverseBindMatrices) == new.raw(b.inverseBindMatrices)
    for name in ("materials", "textures", "samplers", "cameras", "asset"):
        assert getattr(old.gltf, name) == getattr(new.gltf, name)
    names = [n.name for n in old.gltf.nodes]
    assert [n.name for n in new.gltf.nodes][: len(names)] == names
    for a, b in zip(old.gltf.images, new.gltf.images, strict=True):
        views = [(f, f.gltf.bufferViews[i.bufferView]) for f, i in ((old, a), (new, b))]
        blobs = [f.gltf.binary_blob()[v.byteOffset or 0 :][: v.byteLength] for f, v in views]
        assert blobs[0] == blobs[1]


@pytest.mark.parametrize("armature", [True, False], ids=["armature", "plain"])
@pytest.mark.parametrize("root", ["hips", "bone"])
def test_joints_of_the_written_character_are_ours(tmp_path: Path, armature: bool, root: str) -> None:
    write_character(tmp_path / "someone.glb", armature=armature, clips=2)
    motion = waving(marey.load(tmp_path / "someone.glb").skeleton, 40, 30.0)
    marey.save(motion, tmp_path / "out.glb", onto=tmp_path / "someone.glb", root=root)
    assert gap_m(tmp_path / "out.glb", motion) < BAR_M
    assert_mesh_is_the_same(tmp_path / "someone.glb", tmp_path / "out.glb")


@pytest.mark.parametrize("root", ["hips", "bone"])
def test_the_mesh_moves_as_our_skinning_says(tmp_path: Path, root: str) -> None:
    write_character(tmp_path / "someone.glb")
    character = load_character(tmp_path / "someone.glb")
    motion = waving(character.skeleton, 40, 30.0)
    marey.save(motion, tmp_path / "out.glb", onto=character, root=root)
    file = GltfFile(tmp_path / "out.glb")
    for frame in (0, 17, 39):
        expected = pose_vertices(character, motion, [frame])[0]
        np.testing.assert_allclose(file.vertices(frame / 30.0), expected, atol=2e-5)


def test_our_reader_gives_the_motion_back_with_its_contacts(tmp_path: Path) -> None:
    write_character(tmp_path / "someone.glb")
    motion = waving(marey.load(tmp_path / "someone.glb").skeleton, 40, 30.0)
    marey.save(motion, tmp_path / "out.glb", onto=tmp_path / "someone.glb")
    again = marey.load(tmp_path / "out.glb")
    assert again.rate_hz == motion.rate_hz
    assert again.contacts is not None and motion.contacts is not None
    np.testing.assert_array_equal(again.contacts.active, motion.contacts.active)
    np.testing.assert_allclose(again.joint_positions(), motion.joint_positions(), atol=BAR_M)
    assert (again.rotations.inverse() @ motion.rotations).angle().max() < 1e-6


def test_a_root_bone_walks_on_the_ground_below_the_pelvis(tmp_path: Path) -> None:
    write_character(tmp_path / "someone.glb")
    motion = waving(marey.load(tmp_path / "someone.glb").skeleton, 40, 30.0)
    marey.save(motion, tmp_path / "out.glb", onto=tmp_path / "someone.glb", root="bone")
    file = GltfFile(tmp_path / "out.glb")
    node = [n.name for n in file.gltf.nodes].index("root")
    for frame in (0, 20, 39):
        place = file.worlds(frame / 30.0)[node, :3, 3]
        np.testing.assert_allclose(place, motion.root_positions[frame] * [1, 0, 1], atol=BAR_M)


def test_in_place_the_pelvis_keeps_its_height_and_loses_its_path(tmp_path: Path) -> None:
    write_character(tmp_path / "someone.glb")
    motion = waving(marey.load(tmp_path / "someone.glb").skeleton, 40, 30.0)
    marey.save(motion, tmp_path / "out.glb", onto=tmp_path / "someone.glb", root="in-place")
    file = GltfFile(tmp_path / "out.glb")
    node = [n.name for n in file.gltf.nodes].index("pelvis")
    places = np.array([file.worlds(frame / 30.0)[node, :3, 3] for frame in range(40)])
    assert np.ptp(places[:, [0, 2]], axis=0).max() < BAR_M
    np.testing.assert_allclose(places[:, 1], motion.root_positions[:, 1], atol=BAR_M)


def test_clips_are_replaced_or_kept_behind_the_new_ones(tmp_path: Path) -> None:
    write_character(tmp_path / "someone.glb", clips=3)
    skeleton = marey.load(tmp_path / "someone.glb").skeleton
    clips = [
        waving(skeleton, 40, 30.0, name="one"),
        waving(skeleton, 25, 30.0, name="two"),
        waving(skeleton, 12, 30.0, name="two"),
    ]
    marey.save(clips, tmp_path / "new.glb", onto=tmp_path / "someone.glb")
    marey.save(clips[0], tmp_path / "kept.glb", onto=tmp_path / "someone.glb", keep_clips=True)
    assert [a.name for a in GltfFile(tmp_path / "new.glb").gltf.animations] == ["one", "two", "two_2"]
    assert [a.name for a in GltfFile(tmp_path / "kept.glb").gltf.animations] == ["one", "clip0", "clip1", "clip2"]
    assert gap_m(tmp_path / "new.glb", clips[1], animation=1) < BAR_M
    assert_mesh_is_the_same(tmp_path / "someone.glb", tmp_path / "kept.glb")
    old, kept = GltfFile(tmp_path / "someone.glb"), GltfFile(tmp_path / "kept.glb")
    np.testing.assert_allclose(old.worlds(0.3, 1), kept.worlds(0.3, 2), atol=1e-7)


def test_the_same_motion_gives_the_same_bytes(tmp_path: Path) -> None:
    write_character(tmp_path / "someone.glb", clips=1)
    motion = waving(marey.load(tmp_path / "someone.glb").skeleton, 40, 30.0)
    for name in ("a.glb", "b.glb"):
        marey.save(motion, tmp_path / name, onto=tmp_path / "someone.glb")
    assert (tmp_path / "a.glb").read_bytes() == (tmp_path / "b.glb").read_bytes()


def test_gltf_text_in_and_out_takes_its_files_along(tmp_path: Path) -> None:
    write_character(tmp_path / "someone.glb")
    content = (tmp_path / "someone.glb").read_bytes()
    size = int.from_bytes(content[12:16], "little")
    root = json.loads(content[20 : 20 + size])
    (tmp_path / "data.bin").write_bytes(content[28 + size :])
    root["buffers"][0]["uri"] = "data.bin"
    view = root["bufferViews"][root["images"][0].pop("bufferView")]
    (tmp_path / "dot.png").write_bytes(content[28 + size + view["byteOffset"] :][: view["byteLength"]])
    root["images"][0] = {"uri": "dot.png"}
    (tmp_path / "someone.gltf").write_text(json.dumps(root))
    motion = waving(marey.load(tmp_path / "someone.gltf").skeleton, 40, 30.0)
    (tmp_path / "elsewhere").mkdir()
    marey.save(motion, tmp_path / "elsewhere" / "out.gltf", onto=tmp_path / "someone.gltf")
    written = json.loads((tmp_path / "elsewhere" / "out.gltf").read_text())
    assert written["images"][0]["mimeType"] == "image/png"
    again = marey.load(tmp_path / "elsewhere" / "out.gltf")
    np.testing.assert_allclose(again.joint_positions(), motion.joint_positions(), atol=BAR_M)


def test_uneven_scales_leave_joints_where_they_are(tmp_path: Path) -> None:
    write_character(tmp_path / "someone.glb", armature=False)
    content = (tmp_path / "someone.glb").read_bytes()
    size = int.from_bytes(content[12:16], "little")
    root = json.loads(content[20 : 20 + size])
    root["nodes"][3]["scale"] = [1.2, 0.9, 1.0]
    text = json.dumps(root).encode()
    text += b" " * (-len(text) % 4)
    rest = content[20 + size :]
    total = (20 + len(text) + len(rest)).to_bytes(4, "little")
    (tmp_path / "odd.glb").write_bytes(content[:8] + total + len(text).to_bytes(4, "little") + b"JSON" + text + rest)
    motion = waving(marey.load(tmp_path / "odd.glb").skeleton, 40, 30.0)
    marey.save(motion, tmp_path / "out.glb", onto=tmp_path / "odd.glb")
    assert gap_m(tmp_path / "out.glb", motion) < BAR_M


def test_a_motion_on_another_skeleton_or_a_wrong_word_is_refused(tmp_path: Path) -> None:
    write_character(tmp_path / "someone.glb")
    motion = waving(marey.load(tmp_path / "someone.glb").skeleton, 40, 30.0)
    with pytest.raises(InputError, match="one of hips, bone, in-place"):
        marey.save(motion, tmp_path / "out.glb", onto=tmp_path / "someone.glb", root="pelvis")
    assert not (tmp_path / "out.glb").exists()


def find_issues(*paths: Path) -> list[Counter[tuple[str, int]]]:
    """What the Khronos validator says of each file: codes and severities."""
    modules = next((m for m in MODULES if (m / "gltf-validator").is_dir()), None)
    if modules is None or shutil.which("node") is None:
        pytest.skip("the Khronos validator is not installed; 'make interop' installs it, MAREY_NODE_MODULES names it")
    script = ROOT / "benchmarks" / "interop" / "validate.js"
    said = subprocess.run(
        ["node", str(script), str(modules), *map(str, paths)], capture_output=True, check=True, text=True
    )
    found = json.loads(said.stdout)["files"]
    return [Counter((m["code"], m["severity"]) for m in found[p.name]["messages"]) for p in paths]


def test_the_khronos_validator_is_silent(tmp_path: Path) -> None:
    outs = []
    write_character(tmp_path / "someone.glb", clips=1)
    motion = waving(marey.load(tmp_path / "someone.glb").skeleton, 40, 30.0)
    for root in ("hips", "bone", "in-place"):
        outs.append(tmp_path / f"{root}.glb")
        marey.save(motion, outs[-1], onto=tmp_path / "someone.glb", root=root)
    before, *after = find_issues(tmp_path / "someone.glb", *outs)
    assert not before
    assert after == [Counter()] * 3


@pytest.mark.real
@pytest.mark.parametrize("name", HUMANS)
def test_real_characters_come_out_with_their_mesh_and_no_new_issue(real: Path, tmp_path: Path, name: str) -> None:
    path = real / "mesh2motion" / f"{name}.glb"
    motion = waving(marey.load(path).skeleton, 40, 30.0)
    marey.save(motion, tmp_path / "out.glb", onto=path)
    assert gap_m(tmp_path / "out.glb", motion) < BAR_M
    assert_mesh_is_the_same(path, tmp_path / "out.glb")
    before, after = find_issues(path, tmp_path / "out.glb")
    assert not after - before
