"""Root motion, and the tables that we write: CSV, TRC, SMPL archives."""

from __future__ import annotations

import csv
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from oracles.rigs import waving, write_character
from typer.testing import CliRunner

import marey
from marey.base import InputError
from marey.cli.app import app
from marey.io import load_markers
from marey.io.export import place_root
from marey.skeleton import HUMAN, Skeleton


def test_a_root_bone_leaves_every_joint_where_it_was() -> None:
    motion = waving()
    moved = place_root(motion, "bone")
    np.testing.assert_allclose(moved.joint_positions()[:, 1:], motion.joint_positions(), atol=1e-12)
    np.testing.assert_allclose(moved.root_positions[:, 1], 0.0)
    # The bone is upright: it turns about the vertical only
    np.testing.assert_allclose(moved.rotations[:, 0].wxyz[:, [1, 3]], 0.0, atol=1e-12)


def test_a_skeleton_that_has_a_root_gets_a_bone_of_another_name() -> None:
    named = replace(HUMAN, names=("root", *HUMAN.names[1:]))
    assert place_root(waving(named), "bone").skeleton.names[0] == "root_motion"


def test_in_place_only_the_path_is_lost() -> None:
    motion = waving()
    still = place_root(motion, "in-place")
    np.testing.assert_array_equal(still.rotations.wxyz, motion.rotations.wxyz)
    shift = motion.joint_positions() - still.joint_positions()
    np.testing.assert_allclose(shift[..., 1], 0.0, atol=1e-12)
    np.testing.assert_allclose(shift, shift[:, :1] + 0.0 * shift, atol=1e-12)


@pytest.mark.parametrize("suffix", [".bvh", ".glb"])
def test_our_readers_find_the_same_places_below_a_root_bone(tmp_path: Path, suffix: str) -> None:
    motion = waving()
    marey.save(motion, tmp_path / f"out{suffix}", root="bone")
    again = marey.load(tmp_path / f"out{suffix}")
    places = again.joint_positions()
    for joint, name in enumerate(HUMAN.names):
        gap = np.abs(places[:, again.skeleton.index(name)] - motion.joint_positions()[:, joint]).max()
        assert gap < 1e-5


def test_csv_holds_positions_rotations_and_contacts_under_their_names(tmp_path: Path) -> None:
    motion = waving()
    marey.save(motion, tmp_path / "out.csv", rotations=True)
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == motion.num_frames
    positions = motion.joint_positions()
    for joint, name in enumerate(HUMAN.names):
        for axis, letter in enumerate("xyz"):
            column = np.array([float(row[f"{name}_{letter}_m"]) for row in rows])
            np.testing.assert_allclose(column, positions[:, joint, axis], atol=1e-6)
    quaternion = np.array([[float(row[f"left_knee_q{part}"]) for part in "wxyz"] for row in rows])
    dots = np.abs((quaternion * motion.rotations.wxyz[:, HUMAN.index("left_knee")]).sum(axis=1))
    np.testing.assert_allclose(dots, 1.0, atol=1e-8)
    assert motion.contacts is not None
    assert [row["contact_left_heel"] == "1" for row in rows] == motion.contacts.track("left_heel").tolist()
    np.testing.assert_allclose([float(row["time_s"]) for row in rows], motion.times(), atol=1e-8)


def test_trc_has_the_header_of_opensim_and_millimetres(tmp_path: Path) -> None:
    motion = waving(rate_hz=100.0)
    marey.save(motion, tmp_path / "out.trc")
    lines = (tmp_path / "out.trc").read_text().splitlines()
    facts = dict(zip(lines[1].split("\t"), lines[2].split("\t"), strict=True))
    assert facts["DataRate"] == "100" and facts["Units"] == "mm" and facts["NumMarkers"] == "22"
    assert lines[3].split("\t")[:3] == ["Frame#", "Time", "pelvis"]
    assert lines[4].split("\t")[2:5] == ["X1", "Y1", "Z1"]
    table = np.array([[float(cell) for cell in line.split("\t")] for line in lines[6:]])
    np.testing.assert_allclose(table[:, 0], np.arange(1, motion.num_frames + 1))
    expected = 1e3 * motion.joint_positions().reshape(motion.num_frames, -1)
    np.testing.assert_allclose(table[:, 2:], expected, atol=1e-4)


def test_our_reader_takes_the_trc_as_markers(tmp_path: Path) -> None:
    motion = waving()
    marey.save(motion, tmp_path / "out.trc")
    markers = load_markers(tmp_path / "out.trc")
    assert markers.names == HUMAN.names
    np.testing.assert_allclose(markers.positions, motion.joint_positions(), atol=1e-6)


def test_smpl_poses_are_those_of_amass_in_z_up_axes(tmp_path: Path) -> None:
    motion = waving()
    marey.save(motion, tmp_path / "out.npz", gender="female", betas=[0.5])
    with np.load(tmp_path / "out.npz", allow_pickle=False) as archive:
        assert archive["poses"].shape == (motion.num_frames, 156)
        assert str(archive["gender"]) == "female"
        assert archive["betas"].tolist() == [0.5] + 15 * [0.0]
        assert float(archive["mocap_framerate"]) == motion.rate_hz
        np.testing.assert_allclose(archive["trans"][:, 2], motion.root_positions[:, 1])
    again = marey.load(tmp_path / "out.npz")
    np.testing.assert_allclose(again.joint_positions(), motion.joint_positions(), atol=1e-9)
    assert again.rate_hz == motion.rate_hz


def test_an_upright_body_in_smpl_turns_from_y_up_to_z_up(tmp_path: Path) -> None:
    motion = waving(amount=0.0, frames=1)
    marey.save(motion, tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as archive:
        np.testing.assert_allclose(archive["poses"][0, :3], [0.5 * np.pi, 0.0, 0.0], atol=1e-12)


def test_smpl_refuses_other_skeletons_and_names_the_fix(tmp_path: Path) -> None:
    other = waving(replace(HUMAN, names=("hips", *HUMAN.names[1:])))
    with pytest.raises(InputError, match="Retarget it first"):
        marey.save(other, tmp_path / "out.npz")
    bent = HUMAN.offsets.copy()
    bent[HUMAN.index("left_elbow")] = [0.0, -0.25, 0.0]
    with pytest.raises(InputError, match="T-pose"):
        marey.save(waving(replace(HUMAN, offsets=bent)), tmp_path / "out.npz")


def test_an_option_that_a_format_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no option 'root'"):
        marey.save(waving(), tmp_path / "out.csv", root="bone")
    with pytest.raises(InputError, match="several motions in one"):
        marey.save([waving(), waving()], tmp_path / "out.bvh")


@pytest.mark.parametrize("suffix", [".csv", ".trc", ".npz", ".glb", ".bvh"])
def test_the_same_motion_gives_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    for name in ("a", "b"):
        marey.save(waving(), tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


@pytest.mark.parametrize("suffix", [".csv", ".trc", ".glb"])
@pytest.mark.timing
def test_a_long_take_of_many_joints_is_written_in_two_seconds(tmp_path: Path, suffix: str) -> None:
    count = 65
    names = tuple(f"joint{j}" for j in range(count))
    chain = Skeleton(names, np.arange(-1, count - 1), np.tile([0.0, 0.02, 0.0], (count, 1)))
    motion = waving(chain, frames=10_000)
    marey.save(motion[:10], tmp_path / f"warm{suffix}")
    start = time.process_time()
    marey.save(motion, tmp_path / f"out{suffix}")
    assert time.process_time() - start < 2.0


def test_convert_puts_a_clip_on_a_character_with_a_root_bone(tmp_path: Path) -> None:
    write_character(tmp_path / "someone.glb")
    arguments = [
        "convert",
        "walk",
        str(tmp_path / "out.glb"),
        "--onto",
        str(tmp_path / "someone.glb"),
        "--root",
        "bone",
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    again, walk = marey.load(tmp_path / "out.glb"), marey.load("walk")
    assert again.num_frames == walk.num_frames
    assert again.skeleton.names == marey.load(tmp_path / "someone.glb").skeleton.names
