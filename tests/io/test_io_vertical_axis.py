"""Which way is up: anatomy, ground and gravity tell it of any body, and ``up=`` where they cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from oracles.creatures import CREATURES, make_walk, turn_file

from marey import samples
from marey.base import InputError
from marey.io import clips, load, load_markers, save
from marey.io.vertical_axis import AXES, detect_up, parse_up, to_file, to_world, turn_motion
from marey.lie import SO3
from marey.motion import Markers, Motion
from marey.skeleton import HUMAN

WALKS = {name: make_walk(rows) for name, rows in CREATURES.items()}


def write(folder: Path, motion: Motion, up: str, unit: str = "cm") -> Path:
    """Write a clip as a BVH whose vertical axis is another; the file does not say which."""
    save(replace(turn_file(motion, up), source=None), folder / "creature.bvh", unit=unit)
    return folder / "creature.bvh"


def positions_by_name(motion: Motion, names: tuple[str, ...]) -> np.ndarray:
    """Joints in the order of ``names``: a BVH lists them depth first."""
    return motion.joint_positions()[:, [motion.skeleton.index(name) for name in names]]


@pytest.mark.parametrize("creature", WALKS)
@pytest.mark.parametrize("up", ["+y", "+z"])
def test_an_animal_is_read_upright(tmp_path, creature, up):
    truth = WALKS[creature]
    motion = load(write(tmp_path, truth, up), unit="cm")
    assert motion.source is not None and motion.source.up == up
    np.testing.assert_allclose(positions_by_name(motion, truth.skeleton.names), truth.joint_positions(), atol=1e-6)


@pytest.mark.parametrize("creature", ["dog", "bird"])
@pytest.mark.parametrize("up", ["-y", "-z", "+x", "-x"])
def test_legs_show_rare_axes_too(creature, up):
    clip = turn_file(WALKS[creature], up)
    assert detect_up(clip.skeleton, clip.root_positions, clip.rotations.wxyz) == up


def lying(frames: int = 40) -> Motion:
    """A person on the back on the ground, head towards +Z, who moves arms and legs a little."""
    turns = 0.2 * np.sin(0.2 * np.arange(frames)[:, None, None] + np.arange(22)[:, None] + np.zeros(3))
    turns[:, 0] = [np.pi / 2, 0.0, 0.0]
    clip = Motion(HUMAN, 30.0, np.tile([0.0, 0.0, 0.9], (frames, 1)), SO3.exp(turns))
    low = clip.joint_positions()[..., 1].min()
    return replace(clip, root_positions=clip.root_positions + np.array([0.0, 0.02 - low, 0.0]))


@pytest.mark.parametrize("up", AXES)
def test_a_person_who_lies_on_the_ground_is_left_there(up):
    clip = turn_file(lying(), up)
    found = detect_up(clip.skeleton, clip.root_positions, clip.rotations.wxyz)
    assert found == up if up in ("+y", "+z") else found in AXES


def test_a_flight_shows_where_down_is():
    # A dog that holds its legs straight out to the front falls along -Y: only the parabola tells
    times = np.arange(40) / 30.0
    clip = WALKS["dog"][:40]
    roots = clip.root_positions.copy()
    roots[:, 1] += 3.0 + 5.0 * times - 0.5 * 9.81 * times**2
    still = SO3.identity(40, clip.skeleton.num_joints)
    fallen = Motion(clip.skeleton, 30.0, roots, still)
    for up in ("+y", "+z"):
        turned = turn_file(fallen, up)
        assert detect_up(turned.skeleton, turned.root_positions, turned.rotations.wxyz) == up


def test_the_unit_of_an_animal_is_unknown_and_says_so(tmp_path):
    spider = load(write(tmp_path, WALKS["spider"], "+y"))
    assert spider.source is not None and spider.source.unit == "cm"
    assert np.ptp(spider.skeleton.rest_positions()[:, 0]) < 0.5
    assert any("does not tell the unit" in text and "--unit" in text for text in spider.load_report.warnings)
    assert not any("unit" in text for text in load(tmp_path / "creature.bvh", unit="cm").load_report.warnings)


@pytest.mark.parametrize("up", AXES)
def test_any_axis_is_turned_to_y_and_back_exactly(up):
    points = np.random.default_rng(1).normal(size=(5, 3))
    np.testing.assert_array_equal(to_file(to_world(points, up), up), points)
    assert np.linalg.det(to_world(np.eye(3), up)) == pytest.approx(1.0)
    axis = to_file(np.array([0.0, 1.0, 0.0]), up)
    assert axis["xyz".index(up[1])] == (1.0 if up[0] == "+" else -1.0)


def test_up_overrides_the_guess_and_the_file_comes_back_as_it_was(tmp_path):
    path = write(tmp_path, WALKS["dog"], "+y")
    motion = load(path, unit="cm", up="-Z")
    found = positions_by_name(motion, WALKS["dog"].skeleton.names)
    np.testing.assert_allclose(found, to_world(WALKS["dog"].joint_positions(), "-z"), atol=1e-6)
    save(motion, tmp_path / "again.bvh")
    assert (tmp_path / "again.bvh").read_text() == path.read_text()
    assert any("as asked for" in note for note in motion.load_report.notes)
    with pytest.raises(InputError, match="vertical axis 'w'"):
        load(path, up="w")


def test_up_turns_files_that_state_their_axis(tmp_path):
    save(WALKS["dog"], tmp_path / "dog.glb")
    save(WALKS["dog"], tmp_path / "dog.safetensors")
    for name in ("dog.glb", "dog.safetensors"):
        turned = load(tmp_path / name, up="z").joint_positions()
        np.testing.assert_allclose(turned, to_world(load(tmp_path / name).joint_positions(), "+z"), atol=1e-6)


def test_a_format_that_rests_upright_turns_in_space_only():
    clip = replace(lying(), source=None)
    turned = turn_motion(clip, "z")
    np.testing.assert_array_equal(turned.skeleton.offsets, clip.skeleton.offsets)
    np.testing.assert_allclose(turned.joint_positions(), to_world(clip.joint_positions(), "+z"), atol=1e-12)


def test_markers_take_the_vertical_axis_too(tmp_path):
    points = np.random.default_rng(2).uniform(0.1, 1.0, size=(4, 6, 3))
    rows = [f"{f + 1}\t{f / 100:g}\t" + "\t".join(f"{v:.6f}" for v in frame.ravel()) for f, frame in enumerate(points)]
    names = "\t\t\t".join(f"M{k}" for k in range(6))
    head = [
        "PathFileType\t4\t(X/Y/Z)\tm.trc",
        "DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits",
        "100\t100\t4\t6\tm",
    ]
    text = "\n".join([*head, f"Frame#\tTime\t{names}", "", *rows, ""])
    (tmp_path / "m.trc").write_text(text)
    found = load_markers(tmp_path / "m.trc", up="x")
    assert isinstance(found, Markers)
    np.testing.assert_allclose(found.positions, to_world(points, "+x"), atol=1e-6)


def test_names_of_axes_are_forgiving():
    assert [parse_up(word) for word in ("y", "Z", "+x", "-Y")] == ["+y", "+z", "+x", "-y"]


# Rods, and a snake that lies straight or strikes in one plane: nothing in them tells Z from Y
UNTOLD = {"BoxAnimated", "RecursiveSkeletons", "RiggedSimple", "snake-animations:Hit", "snake-animations:Rest Pose"}


@pytest.mark.real
@pytest.mark.parametrize(("clips_each", "least"), [(2, 20), pytest.param(99, 100, marks=pytest.mark.slow)])
def test_animals_of_other_tools_are_read_upright_in_both_axes(real, clips_each, least):
    missed, count = set[str](), 0
    for path in sorted([*(real / "mesh2motion").glob("*.glb"), *(real / "khronos-gltf").glob("*.glb")]):
        try:
            names = (clips(path) or (None,))[:clips_each]
            motions = [(name, load(path, clip=name)) for name in names]
        except ValueError:  # files made to fail, or without a skeleton
            continue
        for name, motion in motions:
            for up in ("+y", "+z"):
                turned = turn_file(motion, up)
                moving = None if motion.translations is None else to_file(motion.translations, up)
                found = detect_up(turned.skeleton, turned.root_positions, turned.rotations.wxyz, moving)
                missed |= set() if found == up else {path.stem + (f":{name}" if len(names) > 1 else "")}
                count += 1
    assert count >= least
    assert missed <= UNTOLD


def test_a_scene_that_says_y_and_stands_along_z_is_turned_with_a_warning(tmp_path):
    walk = samples.walk()
    save(replace(turn_file(walk, "+z"), contacts=None, source=None), tmp_path / "switch.glb", body=False)
    found = load(tmp_path / "switch.glb")
    np.testing.assert_allclose(found.joint_positions(), walk.joint_positions(), atol=1e-5)
    assert any("stands along Z" in warning for warning in found.load_report.warnings)
    # The user knows better
    kept = load(tmp_path / "switch.glb", up="y")
    assert np.ptp(kept.joint_positions()[0], axis=0).argmax() == 2


def test_a_scene_of_a_person_who_lies_is_left_alone(tmp_path):
    walk = samples.walk()
    tilt = SO3.exp([0.5 * np.pi, 0.0, 0.0])
    wxyz = walk.rotations.wxyz.copy()
    wxyz[:, 0] = (tilt @ walk.rotations[:, 0]).wxyz
    lying = replace(walk, rotations=SO3(wxyz), root_positions=tilt @ walk.root_positions, contacts=None, source=None)
    save(lying, tmp_path / "lies.glb", body=False)
    np.testing.assert_allclose(load(tmp_path / "lies.glb").joint_positions(), lying.joint_positions(), atol=1e-5)


@pytest.mark.parametrize(("trial", "start", "frames"), [("01_10", 1634, 72), ("75_20", 269, 12)])
def test_a_moment_of_an_acrobat_is_up_as_his_rest_pose_is(mocap, trial, start, frames):
    clip = load(mocap / "cmu-bvh" / f"{trial}.bvh")
    moment = slice(start, start + frames)
    assert detect_up(clip.skeleton, clip.root_positions[moment], clip.rotations.wxyz[moment]) == "+y"
