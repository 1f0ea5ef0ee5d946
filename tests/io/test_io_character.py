"""Characters: the mesh in the rest pose of the loaded skeleton, posed as the file's own matrices would."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from oracles.gltf_pose import GltfFile
from oracles.rigs import waving, write_character

import marey
from marey.base import FormatError, InputError, MissingFileError
from marey.io import Character, load_character, pose_vertices
from marey.io.character import strongest_weights
from marey.picture.bodies import find_character
from marey.skeleton import Skeleton

TOL_M = 1e-5  # float32 of the file


@pytest.fixture(params=[True, False], ids=["armature", "plain"])
def rigged(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, np.ndarray]:
    path = tmp_path / "someone.glb"
    return path, write_character(path, armature=request.param, clips=1)


def test_the_skeleton_of_a_character_is_the_one_that_load_reads(rigged: tuple[Path, np.ndarray]) -> None:
    character, motion = load_character(rigged[0]), marey.load(rigged[0])
    assert character.skeleton.names == motion.skeleton.names
    np.testing.assert_array_equal(character.skeleton.offsets, motion.skeleton.offsets)


def test_vertices_rest_where_the_mesh_was_bound(rigged: tuple[Path, np.ndarray]) -> None:
    np.testing.assert_allclose(load_character(rigged[0]).vertices, rigged[1], atol=TOL_M)


def test_posed_vertices_are_those_of_an_independent_evaluator(rigged: tuple[Path, np.ndarray]) -> None:
    character, motion, file = load_character(rigged[0]), marey.load(rigged[0], rate_hz=60.0), GltfFile(rigged[0])
    frames = [0, motion.num_frames // 2, -1]
    posed = pose_vertices(character, motion, frames)
    for got, frame in zip(posed, frames, strict=True):
        expected = file.vertices(np.arange(motion.num_frames)[frame] / motion.rate_hz)
        np.testing.assert_allclose(got, expected, atol=2e-5)


def test_weights_sum_to_one_and_colours_come_from_the_texture(rigged: tuple[Path, np.ndarray]) -> None:
    character = load_character(rigged[0])
    np.testing.assert_allclose(character.weights.sum(axis=1), 1.0, atol=1e-12)
    assert ((character.colours >= 0.0) & (character.colours <= 1.0)).all()
    assert character.colours.std(axis=0).max() < 1e-12


def test_the_four_strongest_weights_are_kept_and_one_joint_counts_once() -> None:
    joints, weights = strongest_weights(
        np.array([[3, 4, 5, 6, 3], [9, 0, 0, 0, 0]]), np.array([[0.2, 0.1, 0.3, 0.05, 0.35], [0.0, 0, 0, 0, 0]])
    )
    found = dict(zip(joints[0].tolist(), weights[0].tolist(), strict=True))
    assert found == pytest.approx({3: 0.55, 5: 0.3, 4: 0.1, 6: 0.05})
    np.testing.assert_allclose(weights[1], [1.0, 0.0, 0.0, 0.0])


def test_a_file_without_skin_is_no_character(tmp_path: Path) -> None:
    marey.save(marey.load("walk"), tmp_path / "bare.glb", body=False)
    with pytest.raises(InputError, match="has no skin"):
        load_character(tmp_path / "bare.glb")
    with pytest.raises(InputError, match="holds no character"):
        load_character(tmp_path / "walk.bvh")
    with pytest.raises(MissingFileError):
        load_character(tmp_path / "nobody.glb")


def test_a_compressed_mesh_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "draco.gltf"
    root = {"asset": {"version": "2.0"}, "extensionsRequired": ["KHR_draco_mesh_compression"], "nodes": [{"mesh": 0}]}
    path.write_text(json.dumps(root))
    with pytest.raises(FormatError, match="compressed by KHR_draco_mesh_compression"):
        load_character(path)


def test_a_motion_on_another_skeleton_is_refused(rigged: tuple[Path, np.ndarray]) -> None:
    character: Character = load_character(rigged[0])
    walk = marey.load("walk")
    names = tuple(f"{name}_other" for name in walk.skeleton.names)
    renamed = marey.Skeleton(names, walk.skeleton.parents, walk.skeleton.offsets)
    stranger = replace(walk, skeleton=renamed, source=None)
    with pytest.raises(InputError, match="Retarget it first"):
        pose_vertices(character, stranger, [0])


@pytest.mark.real
@pytest.mark.parametrize("name", ["human-female", "human-male", "m2m-sample-rig", "mixamo-sample-rig", "human-zombie"])
def test_real_characters_are_posed_as_their_own_matrices_say(real: Path, name: str) -> None:
    path = real / "mesh2motion" / f"{name}.glb"
    character, motion, file = load_character(path), marey.load(path), GltfFile(path)
    clip = file.gltf.animations[0] if file.gltf.animations else None
    start = min(file.values(s.input)[0, 0] for s in clip.samplers) if clip else 0.0
    frames = np.unique(np.linspace(0, motion.num_frames - 1, 4).astype(int))
    for posed, frame in zip(pose_vertices(character, motion, frames), frames, strict=True):
        np.testing.assert_allclose(posed, file.vertices(start + frame / motion.rate_hz), atol=TOL_M)


def test_damaged_characters_end_in_typed_errors(tmp_path: Path) -> None:
    write_character(tmp_path / "someone.glb", clips=1)
    content = (tmp_path / "someone.glb").read_bytes()
    motion = marey.load(tmp_path / "someone.glb")
    rng = np.random.default_rng(0)
    refused = 0
    for number in range(120):
        damaged = bytearray(content)
        if number % 3 == 0:
            damaged = damaged[: int(rng.integers(1, len(content)))]
        else:
            # Bytes of the description, where every number and name stands
            size = int.from_bytes(content[12:16], "little")
            for place in rng.integers(20, 20 + size, 1 + number % 7):
                damaged[place] = rng.integers(32, 127)
        (tmp_path / "damaged.glb").write_bytes(damaged)
        try:
            load_character(tmp_path / "damaged.glb")
            marey.save(motion, tmp_path / "out.glb", onto=tmp_path / "damaged.glb")
        except marey.MareyError:
            refused += 1
    assert refused > 40
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("suffix", [".glb", ".fbx"])
def test_the_mesh_of_a_person_of_absurd_size_is_scaled_with_the_skeleton(tmp_path: Path, suffix: str) -> None:
    if suffix == ".fbx":
        pytest.importorskip("ufbx")
    write_character(tmp_path / "someone.glb")
    someone = load_character(tmp_path / "someone.glb")
    giant = replace(someone, skeleton=someone.skeleton.scaled(100.0), vertices=100.0 * someone.vertices, path="")
    marey.save(waving(giant.skeleton), tmp_path / f"giant{suffix}", onto=giant)
    again = load_character(tmp_path / f"giant{suffix}")
    order = [again.skeleton.names.index(name) for name in someone.skeleton.names]
    places = again.skeleton.rest_positions()[order]
    np.testing.assert_allclose(places, someone.skeleton.rest_positions(), atol=TOL_M)
    assert np.ptp(again.vertices, axis=0) == pytest.approx(np.ptp(someone.vertices, axis=0), rel=1e-4)


def test_joints_in_another_order_are_drawn_on_the_character(tmp_path: Path) -> None:
    write_character(tmp_path / "someone.glb")
    someone = load_character(tmp_path / "someone.glb")
    parents = someone.skeleton.parents
    # Level by level, the last branch first
    depth = [0]
    for parent in parents[1:]:
        depth.append(depth[parent] + 1)
    order = sorted(range(len(parents)), key=lambda joint: (depth[joint], -joint))
    place = {joint: number for number, joint in enumerate(order)}
    shuffled = Skeleton(
        tuple(someone.skeleton.names[joint] for joint in order),
        np.array([place.get(int(parents[joint]), -1) for joint in order]),
        someone.skeleton.offsets[order],
    )
    assert shuffled.names != someone.skeleton.names
    assert find_character(waving(shuffled), someone) is someone
    lost = replace(shuffled, names=("stranger", *shuffled.names[1:]))
    with pytest.raises(InputError, match="not on the skeleton"):
        find_character(waving(lost), someone)
