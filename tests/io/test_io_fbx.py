"""FBX files: bones, units, axes, takes; damaged ones end in a sentence."""

from __future__ import annotations

import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from oracles.ascii_fbx import Node, Scene
from oracles.mutants import check_mutants, child_peak_mb

import marey
from marey.base import FormatError, InputError, MissingExtraError, UnknownNameError
from marey.io.fbx.reader import READER, list_fbx_clips, read_fbx, read_fbx_mesh
from marey.io.sandbox import ChildLimits

pytest.importorskip("ufbx", reason="the extra 'fbx' is not installed")


HEAD = b"Kaydara FBX Binary  \0"


def leg(**options) -> Scene:
    """An armature with pre-rotations and scales above the bones, a null between them, two takes and a still one."""
    rng = np.random.default_rng(4)
    nodes = [
        Node("Armature", "", (3.0, 0.0, 5.0), (10.0, 20.0, 30.0), (2.0, 2.0, 2.0), kind="Null"),
        Node("Hips", "Armature", (0.0, 90.0, 0.0), (5.0, 0.0, 0.0), pre=(-90.0, 0.0, 0.0)),
        Node("Spine", "Hips", (0.0, 0.0, 20.0), pre=(0.0, 90.0, 15.0)),
        Node("Holder", "Hips", (10.0, 0.0, 0.0), (0.0, 45.0, 0.0), kind="Null"),
        Node("Leg", "Holder", (0.0, -5.0, -40.0)),
        Node("Foot", "Leg", (0.0, 0.0, -40.0), (80.0, 0.0, 0.0)),
    ]
    times = [i / 30.0 for i in range(20)]

    def waves(size: float, middle=(0.0, 0.0, 0.0)) -> list[list[float]]:
        return (np.array(middle) + size * np.sin(np.arange(20)[:, None] * rng.uniform(0.1, 0.5, 3))).tolist()

    walk = {
        ("Hips", "T"): (times, waves(30.0, (0.0, 90.0, 0.0))),
        **{(name, "R"): (times, waves(40.0)) for name in ("Hips", "Spine", "Leg", "Foot")},
    }
    run = {("Leg", "R"): (times, waves(60.0)), ("Armature", "T"): (times, waves(50.0))}
    still = {("Leg", "R"): (times, [[1.0, 2.0, 3.0]] * 20)}
    return Scene(nodes, {"Still": still, "Walk": walk, "Run": run}, **options)


def save(scene: Scene, path: Path) -> Path:
    path.write_text(scene.text())
    return path


@pytest.mark.parametrize("options", [{}, {"unit_cm": 100.0}, {"up": 2}, {"unit_cm": 2.54, "up": 2}])
@pytest.mark.parametrize("take", ["Walk", "Run"])
def test_joints_are_where_the_matrices_of_the_file_put_them(tmp_path, options, take):
    scene = leg(**options)
    motion = read_fbx(save(scene, tmp_path / "leg.fbx"), clip=take)
    assert motion.skeleton.names == ("Hips", "Spine", "Holder", "Leg", "Foot")
    assert motion.num_frames == 20 and motion.rate_hz == 30.0 and motion.name == take
    places = motion.joint_positions()
    for frame in (0, 7, 19):
        for j, name in enumerate(motion.skeleton.names):
            np.testing.assert_allclose(places[frame, j], scene.position(name, take, frame / 30.0), atol=2e-6)


def test_the_rest_pose_is_the_nodes_own_and_frames_are_aligned_with_the_world(tmp_path):
    scene = leg()
    motion = read_fbx(save(scene, tmp_path / "leg.fbx"))
    rest = motion.skeleton.rest_positions()
    for j, name in enumerate(motion.skeleton.names):
        np.testing.assert_allclose(rest[j], scene.position(name, "", 0.0), atol=2e-6)


def test_the_first_take_that_moves_is_read_and_a_note_names_the_others(tmp_path):
    path = save(leg(), tmp_path / "leg.fbx")
    assert marey.clips(path) == list_fbx_clips(path) == ("Still", "Walk", "Run")
    motion = marey.load(path)
    assert motion.name == "Walk"
    assert any("'Still'" in note and "'Run'" in note for note in motion.load_report.notes)
    assert marey.load(path, clip="Run").name == marey.load(path, clip=2).name == "Run"
    with pytest.raises(UnknownNameError, match="Did you mean 'Walk'"):
        marey.load(path, clip="Wakl")


def test_bones_that_change_their_length_keep_translations(tmp_path):
    scene = leg()
    times = [0.0, 0.5, 1.0]
    scene.takes = {"Stretch": {("Foot", "T"): (times, [[0, 0, -40], [0, 0, -60], [0, 0, -40]])}}
    motion = read_fbx(save(scene, tmp_path / "leg.fbx"))
    assert motion.translations is not None and motion.rate_hz == 30.0 and motion.num_frames == 31
    np.testing.assert_allclose(motion.joint_positions()[15, -1], scene.position("Foot", "Stretch", 0.5), atol=2e-6)


def test_keys_of_another_rate_than_the_file_states_give_theirs(tmp_path):
    scene = leg()
    for curves in scene.takes.values():
        for key, (times, values) in curves.items():
            curves[key] = ([t * 30.0 / 120.0 for t in times], values)
    assert read_fbx(save(scene, tmp_path / "leg.fbx")).rate_hz == 120.0
    assert read_fbx(tmp_path / "leg.fbx", rate_hz=60.0).num_frames == 10


def test_a_take_ends_where_its_range_ends(tmp_path):
    scene = leg(ranges={"Walk": (5 / 30.0, 12 / 30.0)})
    motion = read_fbx(save(scene, tmp_path / "leg.fbx"), clip="Walk")
    assert motion.num_frames == 8
    np.testing.assert_allclose(motion.root_positions[0], scene.position("Hips", "Walk", 5 / 30.0), atol=2e-6)


def test_the_unit_of_the_caller_is_that_of_the_bones(tmp_path):
    path = save(leg(), tmp_path / "leg.fbx")
    in_cm, in_m = read_fbx(path), read_fbx(path, unit="m")
    # The armature above the bones has scale 2, and the file says centimetres: a bone's unit is 2 cm
    np.testing.assert_allclose(in_m.joint_positions(), 50.0 * in_cm.joint_positions(), rtol=1e-9)
    lengths = np.linalg.norm(in_m.skeleton.offsets[[1, 4]], axis=1)
    np.testing.assert_allclose(lengths, [20.0, 40.0], rtol=1e-9)
    assert in_cm.source is not None and in_cm.source.unit == "cm" and in_cm.source.format == "fbx"


def test_of_two_bodies_the_one_that_moves_is_read(tmp_path):
    scene = leg()
    scene.nodes += [Node("Prop", "", (1.0, 1.0, 1.0)), *(Node(f"Prop{i}", "Prop") for i in range(20))]
    motion = read_fbx(save(scene, tmp_path / "two.fbx"))
    assert "Prop" not in motion.skeleton.names
    assert any("2 bodies" in note and "'Prop'" in note for note in motion.load_report.notes)


def test_animated_nodes_without_bones_are_read_as_they_stand(tmp_path):
    scene = leg()
    for node in scene.nodes:
        node.kind = "Null"
    motion = read_fbx(save(scene, tmp_path / "nulls.fbx"))
    assert motion.skeleton.names == ("Hips", "Spine", "Holder", "Leg", "Foot")
    assert any("no bones" in note for note in motion.load_report.notes)


def test_a_file_without_animation_gives_one_frame(tmp_path):
    scene = leg()
    scene.takes = {}
    path = save(scene, tmp_path / "rest.fbx")
    assert marey.clips(path) == () and read_fbx(path).num_frames == 1
    with pytest.raises(UnknownNameError):
        read_fbx(path, clip="Walk")


def test_a_file_without_bones_and_animation_is_refused(tmp_path):
    scene = Scene([Node("Thing", kind="Null")])
    with pytest.raises(FormatError, match="no bones"):
        read_fbx(save(scene, tmp_path / "thing.fbx"))
    with pytest.raises(FormatError, match="no bones"):
        read_fbx_mesh(tmp_path / "thing.fbx")
    with pytest.raises(InputError, match="no mesh"):
        read_fbx_mesh(save(leg(), tmp_path / "leg.fbx"))


def test_without_the_library_the_install_line_is_given(tmp_path, monkeypatch):
    (tmp_path / "ufbx.py").write_text("raise ImportError('not here')")
    path = save(leg(), tmp_path / "leg.fbx")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(MissingExtraError, match=r"pip install 'marey\[fbx\]'"):
        read_fbx(path)


# Damaged files


@pytest.mark.parametrize("count", [10, pytest.param(30, marks=pytest.mark.slow)])
def test_damaged_ascii_files_end_in_a_motion_or_a_sentence(tmp_path, count):
    check_mutants(read_fbx, leg().text().encode(), tmp_path / "mutant.fbx", count)


@pytest.mark.real
@pytest.mark.parametrize("count", [10, pytest.param(30, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["momentum-tests/motion.fbx", "mesh2motion/91_49.fbx"])
def test_damaged_binary_files_end_in_a_motion_or_a_sentence(tmp_path, real, name, count):
    check_mutants(read_fbx, (real / name).read_bytes(), tmp_path / "mutant.fbx", count)


@pytest.mark.parametrize(
    "content", [b"Kaydara FBX Binary  \0", b"Kaydara FBX Binary  \0\x1a\0\xe8\x1c\0\0", b"; FBX\n{" * 9]
)
def test_files_of_little_more_than_a_header_are_refused(tmp_path, content):
    (tmp_path / "head.fbx").write_bytes(content)
    with pytest.raises(FormatError):
        read_fbx(tmp_path / "head.fbx")


def test_a_compressed_array_that_announces_gigabytes_takes_no_memory(tmp_path):
    # A node "a" with one array of 2^30 doubles, deflated zeros, in a file of a megabyte
    data = zlib.compress(bytes(200 << 20), 9)
    payload = (
        b"d" + (1 << 30).to_bytes(4, "little") + (1).to_bytes(4, "little") + len(data).to_bytes(4, "little") + data
    )
    start = 27
    node = (start + 13 + 1 + len(payload)).to_bytes(4, "little") + (1).to_bytes(4, "little")
    node += len(payload).to_bytes(4, "little") + b"\x01a" + payload
    path = tmp_path / "bomb.fbx"
    path.write_bytes(HEAD + b"\x1a\0" + (7400).to_bytes(4, "little") + node + bytes(13))
    with pytest.raises(FormatError):
        read_fbx(path)
    assert child_peak_mb(READER, path, {"job": "describe"}, ChildLimits()) < 200.0


def test_deep_nesting_is_refused(tmp_path):
    (tmp_path / "deep.fbx").write_text("; FBX 7.4.0 project file\n" + "A: {\n" * 200_000)
    with pytest.raises(FormatError):
        read_fbx(tmp_path / "deep.fbx")


def test_too_many_joints_are_refused(tmp_path):
    many = Scene([Node("n0"), *(Node(f"n{i}", "n0") for i in range(1, 12_000))])
    with pytest.raises(FormatError, match="joints"):
        read_fbx(save(many, tmp_path / "many.fbx"))


def test_a_million_joints_are_refused_before_they_are_read(tmp_path):
    models = "".join(f'Model: {i}, "Model::", "LimbNode" {{}}\n' for i in range(1_000_000))
    (tmp_path / "million.fbx").write_text(f"; FBX 7.4.0 project file\nObjects: {{\n{models}}}\n")
    started = time.process_time()
    with pytest.raises(FormatError, match="1000000 nodes"):
        read_fbx(tmp_path / "million.fbx")
    assert time.process_time() - started < 2.0


def test_a_key_at_the_end_of_time_asks_for_no_memory(tmp_path):
    scene = leg()
    scene.takes = {"Long": {("Hips", "T"): ([0.0, 1e6], [[0, 0, 0], [1, 1, 1]])}}
    with pytest.raises(FormatError, match="keys spread over"):
        read_fbx(save(scene, tmp_path / "long.fbx"), rate_hz=1000.0)


@pytest.mark.real
def test_every_real_file_is_read_or_refused_with_the_reason(real):
    for path in sorted(real.rglob("*.[fF][bB][xX]")):
        if path.name.startswith("cube_"):
            with pytest.raises(FormatError, match="no bones"):
                marey.load(path)
            continue
        motion = marey.load(path)
        assert np.isfinite(motion.joint_positions()).all()
        assert len(marey.clips(path)) == (0 if path.name.startswith("character") else 1)


@pytest.mark.real
def test_a_bvh_that_passed_through_blender_has_human_size_in_its_own_unit(real):
    motion = read_fbx(real / "mesh2motion" / "91_49.fbx", unit="cm")
    assert 1.3 < np.ptp(motion.skeleton.rest_positions()[:, 1]) < 2.1


@pytest.mark.real
def test_a_skinned_mesh_comes_on_the_joints_of_the_motion(real):
    path = real / "momentum-tests" / "simple_anim.fbx"
    mesh = read_fbx_mesh(path)
    assert mesh.skeleton.names == read_fbx(path).skeleton.names
    assert mesh.vertices.shape == (7324, 3) and mesh.triangles.shape == (14644, 3)
    np.testing.assert_allclose(mesh.weights.sum(axis=1), 1.0, atol=1e-12)
    assert mesh.joints.max() < mesh.skeleton.num_joints and mesh.triangles.max() < len(mesh.vertices)
    assert 1.6 < np.ptp(mesh.vertices[:, 1]) < 1.9
    # The surface encloses a body's volume, seen from outside: 0.1 m3
    a, b, c = (mesh.vertices[mesh.triangles[:, i]] for i in range(3))
    assert 0.05 < np.einsum("ij,ij->", a, np.cross(b, c)) / 6.0 < 0.15


def test_the_child_needs_no_numpy(tmp_path):
    import subprocess

    code = "import sys; sys.argv = ['x']; import runpy; runpy.run_path(sys.stdin.read()); print('numpy' in sys.modules)"
    child = Path(marey.__file__).parent / "io" / "fbx" / "child.py"
    done = subprocess.run([sys.executable, "-c", code], input=str(child), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
