"""glTF: what we write is what we read, and an independent reader sees the same joints."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pygltflib
import pytest

from marey.io import load
from marey.io.gltf.files import read_gltf, write_gltf
from marey.lie import SO3, geodesic_distance
from marey.motion import Contacts, Motion
from marey.skeleton import HUMAN, EulerLimits, Skeleton

VERSIONS = Path(__file__).parent / "versions"
FLOAT32_M = 1e-6  # [m] what single precision may move a joint near the origin


def a_motion(frames: int = 40, seed: int = 0, rate_hz: float = 119.88) -> Motion:
    rng = np.random.default_rng(seed)
    knee = EulerLimits("left_knee", "x", np.array([-0.1]), np.array([np.inf]), SO3.exp([0.1, 0.2, 0.3]))
    skeleton = replace(HUMAN, limits=(knee,), name="böses «Ding»")
    steps = np.cumsum(rng.normal(size=(frames, 22, 3)) * 0.2, axis=0)
    contacts = Contacts(("left_heel", "right_toe"), rng.random((frames, 2)) > 0.5)
    return Motion(skeleton, rate_hz, rng.normal(size=(frames, 3)), SO3.exp(steps), contacts, name="walk")


def world_positions(gltf: pygltflib.GLTF2, frame: int) -> dict[str, np.ndarray]:
    """Joint origins by plain 4x4 products of what another reader finds in the file."""
    blob = gltf.binary_blob()

    def values(index: int) -> np.ndarray:
        accessor = gltf.accessors[index]
        view = gltf.bufferViews[accessor.bufferView]
        width = {"SCALAR": 1, "VEC3": 3, "VEC4": 4, "MAT4": 16}[accessor.type]
        return np.frombuffer(blob, "<f4", accessor.count * width, view.byteOffset).reshape(-1, width).astype(float)

    moved: dict[tuple[int, str], np.ndarray] = {}
    for channel in gltf.animations[0].channels:
        sampler = gltf.animations[0].samplers[channel.sampler]
        moved[channel.target.node, channel.target.path] = values(sampler.output)[frame]
    found: dict[str, np.ndarray] = {}

    def visit(index: int, above: np.ndarray) -> None:
        node = gltf.nodes[index]
        local = np.eye(4)
        x, y, z, w = moved.get((index, "rotation"), np.array([0.0, 0.0, 0.0, 1.0]))
        local[:3, :3] = SO3(np.array([w, x, y, z])).matrix()
        local[:3, 3] = moved.get((index, "translation"), node.translation)
        found[node.name] = (above @ local)[:3, 3]
        for child in node.children or []:
            visit(child, above @ local)

    visit(0, np.eye(4))
    return found


@pytest.mark.parametrize("suffix", [".glb", ".gltf"])
def test_a_motion_comes_back_to_a_micrometre(tmp_path, suffix):
    motion = a_motion()
    write_gltf(motion, tmp_path / f"a{suffix}")
    back = read_gltf(tmp_path / f"a{suffix}")
    assert back.skeleton.names == motion.skeleton.names
    np.testing.assert_array_equal(back.skeleton.parents, motion.skeleton.parents)
    np.testing.assert_allclose(back.skeleton.offsets, motion.skeleton.offsets, atol=FLOAT32_M)
    np.testing.assert_allclose(back.joint_positions(), motion.joint_positions(), atol=FLOAT32_M)
    assert geodesic_distance(back.rotations, motion.rotations).max() < 5e-7


def test_what_gltf_has_no_field_for_comes_back_exactly(tmp_path):
    motion = a_motion()
    write_gltf(motion, tmp_path / "a.glb")
    back = read_gltf(tmp_path / "a.glb")
    assert back.rate_hz == motion.rate_hz
    assert (back.name, back.skeleton.name) == (motion.name, motion.skeleton.name)
    assert back.contacts.names == motion.contacts.names
    np.testing.assert_array_equal(back.contacts.active, motion.contacts.active)
    np.testing.assert_array_equal(back.skeleton.tips, motion.skeleton.tips)
    limit = back.skeleton.limits[0]
    assert (limit.joint, limit.order, limit.high_rad[0]) == ("left_knee", "x", np.inf)
    assert back.load_report.warnings == ()


def test_bones_that_change_length_come_back(tmp_path):
    rng = np.random.default_rng(3)
    moving = HUMAN.offsets + 0.05 * rng.normal(size=(40, 22, 3))
    motion = replace(a_motion(), translations=moving)
    write_gltf(motion, tmp_path / "a.glb")
    back = read_gltf(tmp_path / "a.glb")
    assert back.translations is not None
    np.testing.assert_allclose(back.joint_positions(), motion.joint_positions(), atol=FLOAT32_M)


def test_the_bare_skeleton_and_a_single_frame_come_back(tmp_path):
    motion = a_motion()[5:6]
    write_gltf(motion, tmp_path / "a.glb", body=False)
    back = read_gltf(tmp_path / "a.glb")
    assert back.num_frames == 1
    np.testing.assert_allclose(back.joint_positions(), motion.joint_positions(), atol=FLOAT32_M)


def test_another_rate_resamples_on_the_way_in(tmp_path):
    motion = a_motion(frames=41, rate_hz=100.0)
    write_gltf(motion, tmp_path / "a.glb")
    back = read_gltf(tmp_path / "a.glb", rate_hz=50.0)
    assert back.num_frames == 21
    assert back.contacts is None
    np.testing.assert_allclose(back.joint_positions(), motion.joint_positions()[::2], atol=FLOAT32_M)


def test_a_unit_scales_bones_and_path(tmp_path):
    motion = a_motion()
    write_gltf(motion, tmp_path / "a.glb")
    back = load(tmp_path / "a.glb", unit="cm")
    np.testing.assert_allclose(back.joint_positions(), 0.01 * motion.joint_positions(), atol=1e-8)
    assert any("unit=" in warning for warning in back.load_report.warnings)


def test_another_reader_finds_the_same_joint_positions(tmp_path):
    motion = a_motion()
    write_gltf(motion, tmp_path / "a.glb")
    gltf = pygltflib.GLTF2().load(str(tmp_path / "a.glb"))
    for frame in (0, 17, 39):
        found = world_positions(gltf, frame)
        ours = motion.joint_positions()[frame]
        for joint, name in enumerate(motion.skeleton.names):
            np.testing.assert_allclose(found[name], ours[joint], atol=FLOAT32_M)


def document(path) -> tuple[dict, bytes]:
    content = path.read_bytes()
    length = struct.unpack_from("<I", content, 12)[0]
    return json.loads(content[20 : 20 + length]), content[28 + length :]


def test_the_bind_pose_puts_every_vertex_back_on_its_joint(tmp_path):
    write_gltf(a_motion(frames=2), tmp_path / "a.glb")
    root, data = document(tmp_path / "a.glb")

    def values(index: int, kind: str, width: int) -> np.ndarray:
        accessor = root["accessors"][index]
        start = root["bufferViews"][accessor["bufferView"]]["byteOffset"]
        return np.frombuffer(data, kind, accessor["count"] * width, start).reshape(-1, width)

    attributes = root["meshes"][0]["primitives"][0]["attributes"]
    positions = values(attributes["POSITION"], "<f4", 3).astype(float)
    joints = values(attributes["JOINTS_0"], "<u2", 4)[:, 0]
    inverse = values(root["skins"][0]["inverseBindMatrices"], "<f4", 16).reshape(-1, 4, 4).transpose(0, 2, 1)
    local = np.einsum("vij,vj->vi", inverse[joints][:, :3, :3], positions) + inverse[joints][:, :3, 3]
    np.testing.assert_allclose(local + HUMAN.rest_positions()[joints], positions, atol=FLOAT32_M)
    normals = values(attributes["NORMAL"], "<f4", 3)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1.0, atol=1e-6)
    faces = values(root["meshes"][0]["primitives"][0]["indices"], "<u4", 1)
    assert faces.max() < len(positions)


def test_faces_look_outwards(tmp_path):
    """The volume inside closed surfaces whose faces run counter-clockwise is positive: the divergence theorem."""
    from marey.io.gltf.files import build_skinned_body

    skin = build_skinned_body(HUMAN)
    a, b, c = (skin.positions[skin.faces[:, i]] for i in range(3))
    volume = np.einsum("ti,ti->t", a, np.cross(b, c)).sum() / 6.0
    assert 0.03 < volume < 0.3  # [m³] a person has 0.07; capsules overlap


def test_neighbouring_quaternions_lie_on_one_side(tmp_path):
    flips = SO3(a_motion().rotations.wxyz * np.where(np.arange(40) % 2 == 0, 1.0, -1.0)[:, None, None])
    write_gltf(replace(a_motion(), rotations=flips), tmp_path / "a.glb")
    root, data = document(tmp_path / "a.glb")
    output = root["animations"][0]["samplers"][3]["output"]
    start = root["bufferViews"][root["accessors"][output]["bufferView"]]["byteOffset"]
    keys = np.frombuffer(data, "<f4", 40 * 4, start).reshape(40, 4)
    assert (np.einsum("fc,fc->f", keys[1:], keys[:-1]) > 0.0).all()


def test_the_same_motion_makes_the_same_bytes(tmp_path):
    write_gltf(a_motion(), tmp_path / "a.glb")
    write_gltf(a_motion(), tmp_path / "b.glb")
    assert (tmp_path / "a.glb").read_bytes() == (tmp_path / "b.glb").read_bytes()


def test_a_skeleton_without_lengths_is_written_without_a_body(tmp_path):
    point = Skeleton(("only",), np.array([-1]), np.zeros((1, 3)))
    motion = Motion(point, 30.0, np.ones((3, 3)), SO3.identity(3, 1))
    write_gltf(motion, tmp_path / "a.glb")
    assert "meshes" not in document(tmp_path / "a.glb")[0]
    np.testing.assert_allclose(read_gltf(tmp_path / "a.glb").root_positions, 1.0)


def test_a_file_of_the_first_version_is_still_readable():
    motion, back = a_motion(frames=3), read_gltf(VERSIONS / "gltf-v1.glb")
    np.testing.assert_allclose(back.joint_positions(), motion.joint_positions(), atol=FLOAT32_M)
    np.testing.assert_array_equal(back.contacts.active, motion.contacts.active)
    assert back.skeleton.limits[0].joint == "left_knee"
    assert back.rate_hz == 119.88


@pytest.mark.mocap
def test_a_captured_walk_comes_back_to_a_micrometre(tmp_path, mocap):
    from marey.io import load, save

    motion = load(mocap / "cmu-bvh" / "08_01.bvh")
    save(motion, tmp_path / "walk.glb")
    back = load(tmp_path / "walk.glb")
    np.testing.assert_allclose(back.joint_positions(), motion.joint_positions(), atol=FLOAT32_M)
    assert back.rate_hz == motion.rate_hz
