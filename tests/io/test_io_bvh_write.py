"""Motions become BVH files: the file that was read comes back, and any other motion is written so that it returns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from marey.base import InputError
from marey.io.bvh.reader import read_bvh
from marey.io.bvh.writer import write_bvh
from marey.lie import SO3, geodesic_distance
from marey.motion import Motion
from marey.skeleton import HUMAN, Skeleton

ROOT = "6 Xposition Yposition Zposition Zrotation Xrotation Yrotation"
TURN = "3 Yrotation Zrotation Xrotation"


def bvh(rows: str, *, root: str = ROOT, child: str = TURN, end: str = "", frame_time: str = "0.0083333") -> str:
    count = len(rows.splitlines())
    return (
        f"HIERARCHY\nROOT Hips\n{{\n\tOFFSET 0 0 0\n\tCHANNELS {root}\n\tJOINT Head top\n\t{{\n\t\tOFFSET 0 60.25 0\n"
        f"\t\tCHANNELS {child}\n{end}\t}}\n\tJOINT LeftFoot\n\t{{\n\t\tOFFSET 5 -90 0\n\t\tCHANNELS {child}\n\t}}\n}}\n"
        f"MOTION\nFrames: {count}\nFrame Time: {frame_time}\n{rows}"
    )


def rows(frames: int, columns: int = 12, seed: int = 0) -> str:
    values = np.random.default_rng(seed).normal(0.0, 40.0, (frames, columns)).round(4)
    return "".join(" ".join(f"{v:.4f}".rstrip("0").rstrip(".") for v in row) + "\n" for row in values + 0.0)


def read(folder: Path, text: str, **options) -> Motion:
    path = folder / "in.bvh"
    path.write_text(text)
    return read_bvh(path, **options)


def written(folder: Path, motion: Motion, **options) -> str:
    write_bvh(motion, folder / "out.bvh", **options)
    return (folder / "out.bvh").read_text()


def random_motion(skeleton: Skeleton, frames: int = 30, seed: int = 0) -> Motion:
    rng = np.random.default_rng(seed)
    walk = np.cumsum(rng.normal(0, 0.1, (frames, skeleton.num_joints, 3)), axis=0)
    return Motion(skeleton, 30.0, rng.normal(size=(frames, 3)), SO3.exp(walk))


@pytest.mark.parametrize("end", ["", "\t\tEnd Site\n\t\t{\n\t\t\tOFFSET 0 12.5 0\n\t\t}\n"])
def test_the_file_that_was_read_comes_back_byte_for_byte(tmp_path, end):
    text = bvh(rows(20), end=end)
    assert written(tmp_path, read(tmp_path, text)) == text


def test_two_end_sites_of_one_joint_come_back(tmp_path):
    sites = "".join(f"\t\tEnd Site\n\t\t{{\n\t\t\tOFFSET 0 {y} 0\n\t\t}}\n" for y in (7, 8))
    text = bvh(rows(2), end=sites)
    assert written(tmp_path, read(tmp_path, text)) == text


@pytest.mark.parametrize(
    ("root", "child", "columns"),
    [
        ("6 Zrotation Yrotation Xrotation Xposition Yposition Zposition", TURN, 12),
        ("3 Zrotation Yrotation Xrotation", "2 Zrotation Xrotation", 7),
        ("4 Yposition Zrotation Xrotation Yrotation", "1 Xrotation", 6),
        (ROOT, "6 Xposition Yposition Zposition Zrotation Xrotation Yrotation", 18),
    ],
)
def test_any_channel_layout_comes_back(tmp_path, root, child, columns):
    text = bvh(rows(8, columns), root=root, child=child)
    assert written(tmp_path, read(tmp_path, text)) == text


def test_names_that_were_changed_come_back(tmp_path):
    text = bvh(rows(2)).replace("LeftFoot", "Head top")
    motion = read(tmp_path, text)
    assert motion.skeleton.names == ("Hips", "Head top", "Head top_2")
    assert written(tmp_path, motion) == text


def test_frame_time_is_written_anew_when_the_rate_changes(tmp_path):
    motion = read(tmp_path, bvh(rows(2)))
    assert "Frame Time: .0083333\n" in written(tmp_path, read(tmp_path, bvh(rows(2), frame_time=".0083333")))
    again = read(tmp_path, written(tmp_path, replace(motion, rate_hz=29.97)))
    assert again.rate_hz == pytest.approx(29.97, rel=1e-14)


def test_z_up_files_come_back_z_up(tmp_path):
    text = (
        bvh("0 0 90 1 2 3 4 5 6 7 8 9\n5 70 90 1 2 3 4 5 6 7 8 9\n")
        .replace("0 60.25 0", "0 0 60.25")
        .replace("5 -90 0", "5 0 -90")
    )
    motion = read(tmp_path, text)
    assert motion.source is not None and motion.source.up == "+z"
    np.testing.assert_allclose(motion.root_positions[1], [0.05, 0.9, -0.7], atol=1e-15)
    assert written(tmp_path, motion) == text


def test_another_unit_scales_lengths_and_keeps_angles(tmp_path):
    motion = read(tmp_path, bvh(rows(5)), unit="cm")
    again = read(tmp_path, written(tmp_path, motion, unit="mm"), unit="mm")
    np.testing.assert_allclose(again.root_positions, motion.root_positions, atol=1e-10)
    np.testing.assert_allclose(again.skeleton.offsets, motion.skeleton.offsets, atol=1e-10)
    np.testing.assert_array_equal(again.rotations.wxyz, motion.rotations.wxyz)


def test_only_edited_frames_get_new_angles(tmp_path):
    motion = read(tmp_path, bvh(rows(20)))
    wxyz = motion.rotations.wxyz.copy()
    wxyz[7, 1] = SO3.exp([0.1, 0.2, 0.3]).wxyz
    again = read(tmp_path, written(tmp_path, replace(motion, rotations=SO3(wxyz))))
    assert motion.source is not None and again.source is not None
    same = np.isclose(again.source.channels, motion.source.channels, rtol=0, atol=1e-9)
    assert same[np.arange(20) != 7].all() and same[7, [*range(6), *range(9, 12)]].all()
    assert geodesic_distance(again.rotations, SO3(wxyz)).max() < 1e-8


def test_a_cut_motion_is_written_with_its_own_rows(tmp_path):
    motion = read(tmp_path, bvh(rows(20)))
    again = read(tmp_path, written(tmp_path, motion[5:9]))
    assert again.num_frames == 4
    np.testing.assert_array_equal(again.rotations.wxyz, motion.rotations.wxyz[5:9])


def test_joints_that_need_more_channels_get_them(tmp_path):
    motion = read(tmp_path, bvh(rows(3, 4), root="2 Zrotation Yrotation", child="1 Xrotation"))
    moved = replace(
        motion, root_positions=motion.root_positions + np.eye(3)[1], rotations=random_motion(HUMAN, 3).rotations[:, :3]
    )
    again = read(tmp_path, written(tmp_path, moved), unit=motion.source.unit if motion.source else None)
    np.testing.assert_allclose(again.root_positions, moved.root_positions, atol=1e-8)
    assert geodesic_distance(again.rotations, moved.rotations).max() < 1e-8


def test_a_motion_without_a_file_returns_to_a_nanometre(tmp_path):
    motion = random_motion(HUMAN)
    again = read(tmp_path, written(tmp_path, motion))
    order = [again.skeleton.index(name) for name in HUMAN.names]
    assert again.source is not None and again.source.unit == "cm"
    np.testing.assert_allclose(again.joint_positions()[:, order], motion.joint_positions(), atol=1e-8)
    np.testing.assert_allclose(again.skeleton.tips[order], HUMAN.tips, atol=1e-9)
    assert again.rate_hz == 30.0


def test_fresh_angles_do_not_jump(tmp_path):
    again = read(tmp_path, written(tmp_path, random_motion(HUMAN, 300)))
    assert again.source is not None and again.source.channels is not None
    turns = np.delete(again.source.channels, [0, 1, 2], axis=1)
    assert np.abs(np.diff(turns, axis=0)).max() < 180.0


def test_moving_bones_are_written_as_position_channels(tmp_path):
    motion = random_motion(HUMAN, 4)
    moving = np.repeat(HUMAN.offsets[None], 4, axis=0)
    moving[:, 5] += np.linspace(0, 0.1, 4)[:, None]
    again = read(tmp_path, written(tmp_path, replace(motion, translations=moving)))
    order = [again.skeleton.index(name) for name in HUMAN.names]
    expected = replace(motion, translations=moving).joint_positions()
    np.testing.assert_allclose(again.joint_positions()[:, order], expected, atol=1e-8)


def test_names_that_would_break_the_file_are_made_plain(tmp_path):
    odd = Skeleton(("a{b}", "tab\there"), np.array([-1, 0]), np.array([[0, 0, 0], [0, 1.0, 0]]))
    motion = Motion(odd, 30.0, np.zeros((1, 3)), SO3.identity(1, 2))
    assert read(tmp_path, written(tmp_path, motion)).skeleton.names == ("a b", "tab here")


def test_a_chain_of_thousands_of_joints_is_written_small(tmp_path):
    count = 3000
    chain = Skeleton(tuple(map(str, range(count))), np.arange(count) - 1, np.tile([0.0, 0.01, 0.0], (count, 1)))
    text = written(tmp_path, Motion(chain, 30.0, np.zeros((1, 3)), SO3.identity(1, count)))
    assert len(text) < 1_500_000
    assert read(tmp_path, text).skeleton.num_joints == count


def test_values_too_large_for_the_format_are_refused(tmp_path):
    motion = Motion(HUMAN, 30.0, np.full((1, 3), 1e10), SO3.identity(1, 22))
    with pytest.raises(InputError, match="too large for a text file"):
        write_bvh(motion, tmp_path / "out.bvh")
