"""glTF files of other tools: odd rest frames, scales, matrices, samplers; damaged ones end in a sentence."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation, Slerp

from marey.base import FormatError, MareyError
from marey.io.gltf.files import read_gltf, write_gltf
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import HUMAN


class Builder:
    """A glTF document put together by hand; numbers are float32 unless said otherwise."""

    def __init__(self, nodes: list[dict[str, Any]]) -> None:
        self.root: dict[str, Any] = {"asset": {"version": "2.0"}, "nodes": nodes, "accessors": [], "bufferViews": []}
        self.data = b""
        self.keys: dict[tuple[int, str], tuple[np.ndarray, np.ndarray, str]] = {}

    def add(self, values: np.ndarray, kind: str, component: int = 5126, **more: Any) -> int:
        dtype = {5126: "<f4", 5122: "<i2", 5123: "<u2"}[component]
        content = np.ascontiguousarray(values, dtype=dtype).tobytes()
        self.root["bufferViews"].append({"buffer": 0, "byteOffset": len(self.data), "byteLength": len(content)})
        self.data += content + b"\0" * (-len(content) % 4)
        view = len(self.root["bufferViews"]) - 1
        accessor = {"bufferView": view, "componentType": component, "count": len(values), "type": kind} | more
        self.root["accessors"].append(accessor)
        return len(self.root["accessors"]) - 1

    def track(self, node: int, path: str, times, values, mode: str = "LINEAR") -> None:
        values = np.asarray(values, dtype=np.float32).astype(float)
        times = np.asarray(times, dtype=np.float32).astype(float)
        self.keys[node, path] = (times, values, mode)
        animation = self.root.setdefault("animations", [{"channels": [], "samplers": []}])[0]
        kind = "VEC4" if path == "rotation" else "VEC3"
        rows = values.reshape(-1, values.shape[-1])
        sampler = {"input": self.add(times, "SCALAR"), "output": self.add(rows, kind), "interpolation": mode}
        animation["samplers"].append(sampler)
        target = {"node": node, "path": path}
        animation["channels"].append({"sampler": len(animation["samplers"]) - 1, "target": target})

    def glb(self) -> bytes:
        root = self.root | {"buffers": [{"byteLength": len(self.data)}]}
        text = json.dumps(root).encode()
        text += b" " * (-len(text) % 4)
        total = 28 + len(text) + len(self.data)
        head = struct.pack("<4sIIII", b"glTF", 2, total, len(text), 0x4E4F534A)
        return head + text + struct.pack("<II", len(self.data), 0x004E4942) + self.data

    def save(self, path: Path) -> Path:
        path.write_bytes(self.glb())
        return path

    def world(self, node: int, time: float) -> np.ndarray:
        """4x4 world matrix of a node at a time, by scipy."""
        parents = {c: i for i, item in enumerate(self.root["nodes"]) for c in item.get("children", [])}
        above = self.world(parents[node], time) if node in parents else np.eye(4)
        return above @ self.local(node, time)

    def local(self, node: int, time: float) -> np.ndarray:
        item = self.root["nodes"][node]
        if "matrix" in item:
            return np.array(item["matrix"]).reshape(4, 4).T
        parts = {"translation": (0, 0, 0), "rotation": (0, 0, 0, 1), "scale": (1, 1, 1)}
        parts = {path: np.array(item.get(path, still), dtype=float) for path, still in parts.items()}
        for path in parts:
            if (node, path) in self.keys:
                parts[path] = self.sample(node, path, time)
        matrix = np.eye(4)
        matrix[:3, :3] = Rotation.from_quat(parts["rotation"]).as_matrix() * parts["scale"]
        matrix[:3, 3] = parts["translation"]
        return matrix

    def sample(self, node: int, path: str, time: float) -> np.ndarray:
        times, values, _ = self.keys[node, path]
        time = float(np.clip(time, times[0], times[-1]))
        if path == "rotation" and len(times) > 1:
            return Slerp(times, Rotation.from_quat(values))([time]).as_quat()[0]
        return np.array([np.interp(time, times, values[:, c]) for c in range(values.shape[1])])


def quaternion(rng) -> list[float]:
    return [float(x) for x in Rotation.random(random_state=int(rng.integers(1 << 30))).as_quat()]


def odd_rig(rng: np.random.Generator, *, skinned: bool, scale: float = 0.01) -> Builder:
    """Seven bones with random rest frames under a turned and scaled armature, as exporters write them."""
    children = [[1, 2], [3], [4], [5], [], [], []]
    nodes: list[dict[str, Any]] = [
        {"name": f"bone{i}", "rotation": quaternion(rng), "translation": [float(x) for x in rng.normal(size=3) * 40]}
        for i in range(6)
    ]
    for node, below in zip(nodes, children, strict=False):
        if below:
            node["children"] = below
    spin = Rotation.from_euler("x", -90, degrees=True).as_quat()
    nodes.append({"name": "Armature", "rotation": list(spin), "scale": [scale] * 3, "children": [0]})
    builder = Builder(nodes)
    times = np.arange(12) / 30.0
    for node in range(6):
        start = Rotation.from_quat(nodes[node]["rotation"])
        turns = Rotation.from_rotvec(np.cumsum(rng.normal(size=(12, 3)) * 0.3, axis=0))
        builder.track(node, "rotation", times, (start * turns).as_quat())
    builder.track(0, "translation", times, nodes[0]["translation"] + np.cumsum(rng.normal(size=(12, 3)), axis=0))
    if skinned:
        add_skin(builder, list(range(6)))
    return builder


def add_skin(builder: Builder, joints: list[int]) -> None:
    """Bind pose as exporters compute it: the default transforms of the nodes, seen from the mesh node."""
    keys, builder.keys = builder.keys, {}
    matrices = np.stack([np.linalg.inv(builder.world(joint, 0.0)).T for joint in joints])
    builder.keys = keys
    index = builder.add(matrices.reshape(-1, 16), "MAT4")
    builder.root["skins"] = [{"joints": joints, "inverseBindMatrices": index}]
    builder.root["nodes"].append({"name": "mesh", "mesh": 0, "skin": 0})
    builder.root["meshes"] = [{"primitives": []}]


def assert_world_positions(builder: Builder, motion: Motion, atol: float = 2e-6) -> None:
    ours = motion.joint_positions()
    names = [node.get("name") for node in builder.root["nodes"]]
    for frame, time in enumerate(motion.times()):
        for joint, name in enumerate(motion.skeleton.names):
            expected = builder.world(names.index(name), time)[:3, 3]
            np.testing.assert_allclose(ours[frame, joint], expected, atol=atol)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), skinned=st.booleans())
def test_any_rest_frame_keeps_world_positions(tmp_path, seed, skinned):
    builder = odd_rig(np.random.default_rng(seed), skinned=skinned)
    motion = read_gltf(builder.save(tmp_path / "rig.glb"))
    assert motion.skeleton.num_joints == 6
    assert motion.translations is None
    assert motion.rate_hz == 30.0
    assert_world_positions(builder, motion)


def test_at_the_bind_pose_every_rotation_is_the_identity(tmp_path):
    builder = odd_rig(np.random.default_rng(1), skinned=True)
    del builder.root["animations"]
    motion = read_gltf(builder.save(tmp_path / "rig.glb"))
    assert motion.num_frames == 1
    assert motion.rotations.angle().max() < 1e-5
    assert any("no animation" in note for note in motion.load_report.notes)


def test_bones_below_uneven_scales_keep_world_positions(tmp_path):
    builder = odd_rig(np.random.default_rng(2), skinned=False)
    builder.root["nodes"][1]["scale"] = [1.0, 2.0, 0.5]
    motion = read_gltf(builder.save(tmp_path / "rig.glb"))
    assert_world_positions(builder, motion)


def test_an_animated_scale_becomes_moving_translations(tmp_path):
    builder = odd_rig(np.random.default_rng(2), skinned=False)
    builder.track(0, "scale", [0.0, 11 / 30], [[1, 1, 1], [1.5, 1.5, 1.5]])
    motion = read_gltf(builder.save(tmp_path / "rig.glb"))
    assert motion.translations is not None
    assert_world_positions(builder, motion)


def test_an_animated_armature_moves_the_root(tmp_path):
    builder = odd_rig(np.random.default_rng(5), skinned=True)
    builder.track(6, "translation", [0.0, 11 / 30], [[0, 0, 0], [1, 2, 3]])
    motion = read_gltf(builder.save(tmp_path / "rig.glb"))
    assert_world_positions(builder, motion)


def test_matrix_nodes_are_read(tmp_path):
    matrix = np.eye(4)
    matrix[:3, :3] = 2.0 * Rotation.from_euler("xyz", [10, 20, 30], degrees=True).as_matrix()
    matrix[:3, 3] = [1.0, 2.0, 3.0]
    nodes = [
        {"name": "top", "matrix": [float(x) for x in matrix.T.reshape(-1)], "children": [1]},
        {"name": "a", "translation": [0.0, 1.0, 0.0], "children": [2]},
        {"name": "b", "translation": [0.0, 1.0, 0.5], "children": [3]},
        {"name": "b_end", "translation": [0.0, 0.25, 0.0]},
    ]
    builder = Builder(nodes)
    turn = Rotation.from_rotvec([[0, 0, 0.1 * k] for k in range(4)]).as_quat()
    builder.track(1, "rotation", np.arange(4) / 24, turn)
    builder.track(2, "rotation", np.arange(4) / 24, turn)
    motion = read_gltf(builder.save(tmp_path / "m.glb"))
    assert motion.skeleton.names == ("a", "b")
    assert motion.rate_hz == 24.0
    assert_world_positions(builder, motion)
    np.testing.assert_allclose(np.linalg.norm(motion.skeleton.tips[1]), 0.5, atol=1e-6)  # 0.25 at scale 2


def one_bone() -> Builder:
    return Builder([{"name": "a", "children": [1]}, {"name": "b", "translation": [0.0, 1.0, 0.0]}])


def test_step_keys_hold_until_the_next(tmp_path):
    builder = one_bone()
    builder.track(0, "translation", [0.0, 0.1, 0.3], [[0, 0, 0], [1, 0, 0], [2, 0, 0]], "STEP")
    builder.track(1, "rotation", np.arange(31) / 100, np.tile([0, 0, 0, 1], (31, 1)))
    motion = read_gltf(builder.save(tmp_path / "s.glb"))
    assert motion.rate_hz == 100.0
    x = motion.root_positions[:, 0]
    assert (x[:10] == 0.0).all()
    assert (x[10:30] == 1.0).all()
    assert x[30] == 2.0


def test_cubic_keys_follow_the_hermite_polynomial(tmp_path):
    """t³ - t between 0 and 2 is a cubic, so two keys with its slopes give it back exactly."""
    builder = one_bone()
    slopes = np.array([-1.0, 11.0])
    keys = np.zeros((2, 3, 3))
    keys[:, 1, 0] = [0.0, 6.0]
    keys[:, 0, 0] = keys[:, 2, 0] = slopes
    builder.track(0, "translation", [0.0, 2.0], keys, "CUBICSPLINE")
    motion = read_gltf(builder.save(tmp_path / "c.glb"), rate_hz=25.0)
    t = motion.times()
    np.testing.assert_allclose(motion.root_positions[:, 0], t**3 - t, atol=1e-6)


def test_cubic_rotations_pass_through_their_keys(tmp_path):
    builder = one_bone()
    quats = Rotation.from_rotvec([[0, 0, 0], [0.5, 0, 0], [0.5, 0.7, 0]]).as_quat()
    keys = np.zeros((3, 3, 4))
    keys[:, 1] = quats
    builder.track(0, "rotation", [0.0, 0.5, 1.0], keys, "CUBICSPLINE")
    motion = read_gltf(builder.save(tmp_path / "c.glb"), rate_hz=10.0)
    for frame, key in ((0, 0), (5, 1), (10, 2)):
        expected = SO3(quats[key][[3, 0, 1, 2]])
        assert (motion.rotations[frame, 0].inverse() @ expected).angle() < 1e-6


def test_rotations_kept_as_short_integers_are_read(tmp_path):
    builder = one_bone()
    quats = Rotation.from_rotvec([[0.3 * k, 0, 0] for k in range(4)]).as_quat()
    builder.track(0, "rotation", np.arange(4) / 30, quats)
    short = builder.add(np.round(quats * 32767), "VEC4", 5122, normalized=True)
    builder.root["animations"][0]["samplers"][0]["output"] = short
    motion = read_gltf(builder.save(tmp_path / "n.glb"))
    np.testing.assert_allclose(motion.rotations[:, 0].angle(), 0.3 * np.arange(4), atol=1e-4)


def test_interleaved_and_sparse_values_are_read(tmp_path):
    builder = one_bone()
    builder.track(0, "translation", np.arange(3) / 30, np.zeros((3, 3)))
    rows = np.arange(18, dtype=float).reshape(3, 6)
    index = builder.add(rows, "VEC3")
    view = builder.root["accessors"][index]["bufferView"]
    builder.root["bufferViews"][view]["byteStride"] = 24
    builder.root["accessors"][index]["byteOffset"] = 12
    places = builder.add(np.array([1]), "SCALAR", 5123)
    values = builder.add(np.array([[7.0, 8.0, 9.0]]), "VEC3")
    sparse = {
        "count": 1,
        "indices": {"bufferView": builder.root["accessors"][places]["bufferView"], "componentType": 5123},
        "values": {"bufferView": builder.root["accessors"][values]["bufferView"]},
    }
    builder.root["accessors"][index]["sparse"] = sparse
    builder.root["animations"][0]["samplers"][0]["output"] = index
    motion = read_gltf(builder.save(tmp_path / "i.glb"))
    np.testing.assert_array_equal(motion.root_positions, [[3, 4, 5], [7, 8, 9], [15, 16, 17]])


def test_the_first_of_several_animations_is_read_and_the_report_says_so(tmp_path):
    builder = odd_rig(np.random.default_rng(3), skinned=True)
    builder.root["animations"].append({"name": "other", "channels": [], "samplers": []})
    motion = read_gltf(builder.save(tmp_path / "two.glb"))
    assert any("2 clips" in note and "'other'" in note for note in motion.load_report.notes)


def test_a_late_start_is_moved_to_zero(tmp_path):
    builder = one_bone()
    builder.track(0, "translation", 1 / 24 + np.arange(5) / 24, np.arange(15.0).reshape(5, 3))
    motion = read_gltf(builder.save(tmp_path / "late.glb"))
    assert (motion.num_frames, motion.rate_hz) == (5, 24.0)
    np.testing.assert_array_equal(motion.root_positions, np.arange(15.0).reshape(5, 3))


def test_sparse_key_times_are_put_on_a_usual_rate(tmp_path):
    builder = one_bone()
    builder.track(0, "translation", np.array([0, 3, 10, 60]) / 60, np.arange(12.0).reshape(4, 3))
    motion = read_gltf(builder.save(tmp_path / "keys.glb"))
    assert motion.rate_hz == 60.0
    assert motion.num_frames == 61
    np.testing.assert_allclose(motion.root_positions[[0, 3, 10, 60]], np.arange(12.0).reshape(4, 3), atol=1e-6)


def test_two_bodies_without_a_common_node_get_a_root_at_the_origin(tmp_path):
    builder = Builder([{"name": "a", "translation": [1.0, 0, 0]}, {"name": "b", "translation": [0, 2.0, 0]}])
    for node in range(2):
        builder.track(node, "translation", np.arange(3) / 30, np.arange(9.0).reshape(3, 3) + node)
    motion = read_gltf(builder.save(tmp_path / "two.glb"))
    assert motion.skeleton.names == ("root", "a", "b")
    assert_world_positions_of(motion, {"a": np.arange(9.0).reshape(3, 3), "b": np.arange(9.0).reshape(3, 3) + 1})


def assert_world_positions_of(motion: Motion, expected: dict[str, np.ndarray]) -> None:
    for name, positions in expected.items():
        np.testing.assert_allclose(motion.joint_positions()[:, motion.skeleton.index(name)], positions, atol=1e-6)


def test_the_buffer_may_lie_beside_the_file_or_inside_it(tmp_path):
    builder = odd_rig(np.random.default_rng(4), skinned=True)
    (tmp_path / "my data.bin").write_bytes(builder.data)
    inside = "data:application/octet-stream;base64," + base64.b64encode(builder.data).decode()
    for uri in ("my%20data.bin", inside):
        root = builder.root | {"buffers": [{"byteLength": len(builder.data), "uri": uri}]}
        (tmp_path / "a.gltf").write_text(json.dumps(root))
        assert_world_positions(builder, read_gltf(tmp_path / "a.gltf"))


def changed(**changes: Any):
    def change(builder: Builder) -> None:
        builder.root |= changes

    return change


def set_in(*path: Any, value: Any):
    def change(builder: Builder) -> None:
        place: Any = builder.root
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


DAMAGES = [
    (changed(asset=1), "has no 'asset'"),
    (changed(asset={"version": "1.0"}), "glTF version '1.0'"),
    (changed(nodes=[]), "0 nodes"),
    (changed(nodes=7), "'nodes' is not a list"),
    (changed(nodes=[{"children": [0]}]), "the nodes form a ring"),
    (changed(nodes=[{"children": [1]}, {"children": [0]}]), "the nodes form a ring"),
    (changed(nodes=[{"children": [2]}, {"children": [2]}, {}]), "node 2 has two parents"),
    (changed(nodes=[{"children": [9]}]), r"nodes\[9\], but there are 1"),
    (changed(nodes=[{"children": [-1]}, {}]), r"nodes\[-1\]"),
    (changed(extensionsRequired=["EXT_meshopt_compression"]), "compressed by EXT_meshopt_compression"),
    (set_in("accessors", 0, "count", value=10**9), "1000000000 elements needs"),
    (set_in("accessors", 0, "count", value=-1), "has count -1"),
    (set_in("accessors", 0, "componentType", value=5130), "unknown kind"),
    (set_in("accessors", 0, "type", value="VEC9"), "unknown kind"),
    (set_in("accessors", 0, "bufferView", value=999), r"bufferViews\[999\]"),
    (set_in("accessors", 0, "byteOffset", value=-4), "wrong offset"),
    (set_in("accessors", 0, value={"componentType": 5126, "type": "SCALAR", "count": 10**9}), "without any data"),
    (set_in("bufferViews", 0, "byteLength", value=10**12), "its view has"),
    (set_in("bufferViews", 0, "byteStride", value=1), "wrong offset, length or stride"),
    (set_in("bufferViews", 0, "buffer", value=3), r"buffers\[3\]"),
    (set_in("animations", 0, "channels", 0, "sampler", value=77), "sampler 77"),
    (set_in("animations", 0, "channels", 0, "target", "node", value=77), r"nodes\[77\]"),
    (set_in("animations", 0, "samplers", 0, "interpolation", value="MAGIC"), "interpolated by 'MAGIC'"),
    (set_in("animations", 0, "samplers", 0, "output", value=0), "times and values of shape"),
    (set_in("animations", 0, "samplers", 0, value=5), "a field is missing"),
    (set_in("skins", 0, "joints", value=[100]), r"nodes\[100\]"),
    (set_in("nodes", 0, "name", value={"a": 1}), None),
    (set_in("nodes", 2, "rotation", value="north"), None),
    (set_in("nodes", 0, "matrix", value=[1, 2]), None),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_a_damaged_document_ends_in_a_sentence(tmp_path, damage, message):
    builder = odd_rig(np.random.default_rng(0), skinned=True)
    damage(builder)
    path = builder.save(tmp_path / "bad.glb")
    said = read_or_refused(path)
    if message is None:
        assert said == "read" or "bad.glb" in said
    else:
        with pytest.raises(FormatError, match=message):
            read_gltf(path)


def read_or_refused(path: Path) -> str:
    try:
        assert np.isfinite(read_gltf(path).joint_positions()).all()
    except MareyError as error:
        return str(error)
    return "read"


def good() -> bytes:
    return odd_rig(np.random.default_rng(0), skinned=True).glb()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"glTF", "ends after 4 bytes"),
        (good()[:1000], "it is cut off"),
        (b"glTF\x01\0\0\0" + good()[8:], "GLB version 1"),
        (good()[:8] + b"\xff\xff\xff\x7f" + good()[12:], "it is cut off"),
        (good()[:12] + b"\xff\xff\xff\x0f" + good()[16:], "runs past the end"),
        (good()[:16] + b"XXXX" + good()[20:], "no JSON"),
        (b'{"asset": {"version": "2.0"}, "nodes": ' + b"[" * 50_000, "nested too deeply"),
        (b'{"asset": {"version": "2.0"},\n"nodes": [{},]}', ":2: not valid JSON"),
        (b"\xff\xfe\x00 noise", "not UTF-8"),
        (b"[1, 2, 3]", "no glTF file"),
        (b'{"asset": {"version": "2.0"}, "buffers": [{"byteLength": 4, "uri": "../../etc/passwd"}]}', "outside the"),
        (b'{"asset": {"version": "2.0"}, "buffers": [{"byteLength": 4, "uri": "http://a/b"}]}', "outside the"),
        (
            b'{"asset": {"version": "2.0"}, "buffers": [{"byteLength": 4, "uri": "none.bin"}]}',
            "'none.bin' is not",
        ),
        (b'{"asset": {"version": "2.0"}, "buffers": [{"byteLength": 4, "uri": "data:;base64,!!"}]}', "base64"),
        (b'{"asset": {"version": "2.0"}, "buffers": [{"byteLength": 9000000000}]}', "announces 9000000000 bytes"),
        (b'{"asset": {"version": "2.0"}, "nodes": [{}]}', "there is no skeleton"),
    ],
)
def test_a_damaged_shell_ends_in_a_sentence(tmp_path, content, message):
    path = tmp_path / "bad.glb"
    path.write_bytes(content)
    with pytest.raises(MareyError, match=message):
        read_gltf(path)


def test_values_that_are_not_finite_are_refused(tmp_path):
    builder = one_bone()
    builder.track(0, "translation", np.arange(3) / 30, np.full((3, 3), np.nan))
    with pytest.raises(FormatError, match="not finite"):
        read_gltf(builder.save(tmp_path / "nan.glb"))


def test_times_that_do_not_rise_are_refused(tmp_path):
    builder = one_bone()
    builder.track(0, "translation", [0.0, 0.2, 0.1], np.zeros((3, 3)))
    with pytest.raises(FormatError, match="do not rise"):
        read_gltf(builder.save(tmp_path / "back.glb"))


def test_of_two_keys_at_one_time_the_later_counts(tmp_path):
    builder = one_bone()
    builder.track(0, "translation", [0.0, 0.1, 0.1, 0.2], [[0.0] * 3, [1.0] * 3, [2.0] * 3, [3.0] * 3])
    motion = read_gltf(builder.save(tmp_path / "twice.glb"), rate_hz=10.0)
    np.testing.assert_allclose(motion.root_positions[:, 0], [0.0, 2.0, 3.0], atol=1e-6)


def test_meshes_with_skins_of_their_own_bones_make_one_body(tmp_path):
    builder = odd_rig(np.random.default_rng(5), skinned=False)
    add_skin(builder, [0, 1, 2])
    whole = builder.root["skins"]
    add_skin(builder, [3, 5])
    builder.root["skins"] = [*whole, *builder.root["skins"]]
    builder.root["nodes"][-1]["skin"] = 1
    motion = read_gltf(builder.save(tmp_path / "parts.vrm"))
    assert {"bone0", "bone1", "bone2", "bone3", "bone5"} <= set(motion.skeleton.names)
    assert_world_positions(builder, motion)


def test_two_keys_a_year_apart_do_not_fill_the_memory(tmp_path):
    builder = one_bone()
    builder.track(0, "translation", [0.0, 3e7], np.zeros((2, 3)))
    with pytest.raises(FormatError, match="keys spread over"):
        read_gltf(builder.save(tmp_path / "year.glb"))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_bytes_are_read_or_refused(tmp_path, data):
    motion = Motion(HUMAN, 30.0, np.zeros((3, 3)), SO3.identity(3, 22))
    path = tmp_path / "changed.glb"
    if not path.exists():
        write_gltf(motion, tmp_path / "whole.glb", body=False)
    content = bytearray((tmp_path / "whole.glb").read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    said = read_or_refused(path)
    assert said == "read" or "changed.glb" in said
