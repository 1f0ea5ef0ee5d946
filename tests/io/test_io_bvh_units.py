"""What a file leaves unsaid: unit, vertical axis, exact rate, added poses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.base import InputError
from marey.io import load, save
from marey.io.bvh.writer import write_bvh
from marey.io.conventions import (
    METRES,
    guess_body_unit,
    rate_from_frame_time,
    unit_in_metres,
)
from marey.io.vertical_axis import detect_up, rotate_wxyz, to_file, to_world
from marey.lie import SO3, geodesic_distance
from marey.motion import Motion
from marey.skeleton import HUMAN, human


@pytest.mark.parametrize("unit", METRES)
@pytest.mark.parametrize("stature", [1.55, 1.75, 1.95])
def test_the_unit_of_a_grown_person_is_found(unit, stature):
    body = human(stature).scaled(1.0 / METRES[unit])
    guess = guess_body_unit(body)
    assert guess.name == unit and guess.warning is None


@pytest.mark.parametrize("unit", ["m", "cm", "mm"])
@pytest.mark.parametrize("stature", [0.95, 1.05])
def test_a_child_is_not_taken_for_a_giant_in_inches(unit, stature):
    body = human(stature).scaled(1.0 / METRES[unit])
    assert guess_body_unit(body).name == unit


def test_a_size_that_fits_no_unit_is_warned_of():
    assert "Give unit=" in (guess_body_unit(human(1e-6)).warning or "")
    assert "Give unit=" in (guess_body_unit(human(0.0)).warning or "")


@pytest.mark.parametrize("power", [-4, 1, 2])
def test_a_scene_scaled_by_tens_is_taken_in_a_power_of_ten(power):
    guess = guess_body_unit(human(1.82).scaled(10.0**-power))
    assert guess.metres == pytest.approx(10.0**power) and "Give unit=" in (guess.warning or "")


def test_unit_names_are_forgiving():
    assert unit_in_metres("IN") == unit_in_metres("inches") == 0.0254
    with pytest.raises(InputError, match="Units are m, cm, mm, inch, cmu"):
        unit_in_metres("ell")


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        (".0083333", 120.0), ("0.008333", 120.0), ("0.00833333333333333", 120.0), ("8.3333e-3", 120.0),
        ("0.033333", 30.0), ("0.0333333", 30.0), ("0.033", 30.0), ("0.04", 25.0), ("0.041667", 24.0),
        ("0.016667", 60.0),
        ("0.01666", 60.0), ("0.0333667", 30000 / 1001), ("0.0166833", 60000 / 1001), ("0.01", 100.0), ("0.004", 250.0),
        ("0.0123", 1 / 0.0123), ("0.03", 1 / 0.03), ("1", 1.0), ("2", 0.5), ("0.010256", 1 / 0.010256),
    ],
)  # fmt: skip
def test_printed_frame_times_give_the_rate_that_was_meant(text, rate):
    assert rate_from_frame_time(text)[0] == pytest.approx(rate, rel=1e-14)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("33.3333", 30.0), ("8.333", 120.0), ("40", 25.0), ("30", 30.0), ("120", 120.0), ("15", 1000 / 15)],
)
def test_frame_times_in_milliseconds_and_in_frames_a_second_are_told_and_noted(text, rate):
    found, note = rate_from_frame_time(text)
    assert found == pytest.approx(rate, rel=1e-14)
    assert note is not None and ("milliseconds" in note) != (float(text) == rate)


def test_a_restored_rate_is_noted_and_an_exact_one_is_not():
    assert rate_from_frame_time(".0083333")[1] == "frame time .0083333 read as 120 Hz (exactly it is 120.000480)"
    assert rate_from_frame_time("0.04")[1] is None


@given(st.floats(0.5, 1000.0))
def test_a_frame_time_in_full_keeps_any_rate(rate):
    assert rate_from_frame_time(repr(1.0 / rate))[0] == pytest.approx(rate, rel=1e-12)


def stroll(up: str, *, frames: int = 60, heading: int = 1) -> Motion:
    """The canonical human gliding along, in file axes with the given vertical."""
    forward = np.zeros((frames, 3))
    forward[:, 2] = heading * np.linspace(0, 3, frames)
    forward[:, 1] = 0.96
    sway = SO3.exp(0.3 * np.sin(np.arange(frames * 22 * 3).reshape(frames, 22, 3)))
    body = replace(HUMAN, offsets=to_file(HUMAN.offsets, up), tips=to_file(HUMAN.tips, up))
    return Motion(body, 30.0, to_file(forward, up), SO3(rotate_wxyz(sway.wxyz, up, back=True)))


@pytest.mark.parametrize("up", ["+y", "+z"])
@pytest.mark.parametrize("heading", [1, -1])
def test_the_vertical_axis_is_found(up, heading):
    clip = stroll(up, heading=heading)
    assert detect_up(clip.skeleton, clip.root_positions, clip.rotations.wxyz) == up


def test_without_telling_names_the_legs_show_the_vertical_axis():
    clip = stroll("+z")
    body = type(HUMAN)(tuple(map(str, range(22))), HUMAN.parents, clip.skeleton.offsets, clip.skeleton.tips)
    assert detect_up(body, clip.root_positions, clip.rotations.wxyz) == "+z"


def test_a_person_who_crawls_along_z_is_not_upright():
    frames = 60
    lying = SO3.exp(np.array([np.pi / 2, 0.0, 0.0]))  # head towards +Z
    wxyz = SO3.identity(frames, 22).wxyz.copy()
    wxyz[:, 0] = lying.wxyz
    roots = np.zeros((frames, 3))
    roots[:, 1], roots[:, 2] = 0.3, np.linspace(0, 3, frames)
    assert detect_up(HUMAN, roots, wxyz) == "+y"


def test_a_file_upright_only_by_its_root_rotation_is_z_up():
    clip = stroll("+z")
    stand = SO3.from_axis_angle([1.0, 0.0, 0.0], np.pi / 2)
    wxyz = SO3.identity(60, 22).wxyz.copy()
    wxyz[:, 0] = stand.wxyz
    assert detect_up(HUMAN, clip.root_positions, wxyz) == "+z"


def test_turning_up_conjugates_rotations():
    q = SO3.exp([[0.3, -0.2, 0.9]])
    turned = SO3(rotate_wxyz(q.wxyz, "+z"))
    points = np.array([[1.0, 2.0, 3.0]])
    np.testing.assert_allclose(turned @ to_world(points, "+z"), to_world(q @ points, "+z"), atol=1e-15)
    np.testing.assert_array_equal(rotate_wxyz(turned.wxyz, "+z", back=True), q.wxyz)
    with pytest.raises(InputError, match="vertical axis"):
        to_world(points, "w")


def test_a_z_up_file_becomes_the_same_motion_as_its_y_up_twin(tmp_path):
    for up in ("+y", "+z"):
        write_bvh(stroll(up), tmp_path / f"{up}.bvh")
    y, z = load(tmp_path / "+y.bvh"), load(tmp_path / "+z.bvh")
    assert any("Z is up" in note for note in z.load_report.notes)
    np.testing.assert_allclose(z.joint_positions(), y.joint_positions(), atol=1e-8)
    assert geodesic_distance(z.rotations, y.rotations).max() < 1e-7


CMU_JOINTS = ("Hips", "LHipJoint", "LeftUpLeg", "LeftLeg", "LowerBack", "Spine1", "Neck", "Neck1", "LeftShoulder",
              "LeftFingerBase", "RightShoulder", "RHipJoint")  # fmt: skip


def cmu_clip(folder: Path, rows: list[list[float]], scale: float = 1.0) -> Path:
    """A file with the names and the size of the CMU conversion; ``rows`` hold root position and one angle."""
    lengths = {"LeftUpLeg": 3, "LeftLeg": 8, "LowerBack": 2, "Spine1": 4, "Neck1": 3, "LeftFingerBase": 5}
    joints = "".join(
        f"JOINT {name}\n{{\nOFFSET 0 {scale * lengths.get(name, 0):g} 0\nCHANNELS 1 Zrotation\n"
        for name in CMU_JOINTS[1:]
    )
    text = f"HIERARCHY\nROOT Hips\n{{\nOFFSET 0 0 0\nCHANNELS 4 Xposition Yposition Zposition Zrotation\n{joints}"
    text += "}\n" * len(CMU_JOINTS) + f"MOTION\nFrames: {len(rows)}\nFrame Time: .0083333\n"
    for row in rows:
        text += " ".join(f"{value:.4f}" for value in [*row, *[0.5 * (row[3] % 1 > 0)] * (len(CMU_JOINTS) - 1)]) + "\n"
    path = folder / "cmu.bvh"
    path.write_text(text)
    return path


MOVING = [[1.0, 17.0, 3.0, 5.5], [1.1, 17.0, 3.1, 6.5], [1.2, 17.0, 3.2, 7.5]]


def test_the_added_pose_of_cmu_files_is_left_out_and_returns_when_written(tmp_path):
    path = cmu_clip(tmp_path, [[1.0, 17.0, 3.0, 0.0], *MOVING])
    motion = load(path)
    assert motion.num_frames == 3 and motion.source is not None and motion.source.dropped is not None
    assert any("T-pose" in note for note in motion.load_report.notes)
    np.testing.assert_allclose(motion.root_positions[0], np.array([1.0, 17.0, 3.0]) * 0.0254 / 0.45)
    save(motion, tmp_path / "again.bvh")
    again = load(tmp_path / "again.bvh")
    assert again.source is not None and again.source.dropped is not None
    np.testing.assert_array_equal(again.source.dropped, motion.source.dropped)


def test_empty_frames_at_the_start_of_cmu_files_are_cut_and_reported(tmp_path):
    zeros = [[0.0, 0.0, 0.0, 0.0]] * 3
    motion = load(cmu_clip(tmp_path, [*zeros, *MOVING]))
    assert motion.num_frames == 3
    assert motion.load_report.warnings[0].startswith("only zeros at the start, for 2 frames")


def test_a_clip_without_the_added_pose_keeps_all_frames(tmp_path):
    assert load(cmu_clip(tmp_path, MOVING)).num_frames == 3


@pytest.mark.parametrize(("first", "frames"), [(0.0, 30), (29.5, 31)])
def test_a_rest_pose_before_the_motion_of_any_tool_is_left_out_and_returns_when_written(tmp_path, first, frames):
    rows = [f"0 90 0 {angle} 0 0 {2 * angle} 0 0" for angle in (first, *(60.0 + 0.37 * k for k in range(30)))]
    joint = "OFFSET 0 {} 0 CHANNELS {} Zrotation Xrotation Yrotation"
    root, child = joint.format(0, "6 Xposition Yposition Zposition"), joint.format(40, 3)
    (tmp_path / "take.bvh").write_text(
        f"HIERARCHY ROOT a {{ {root} JOINT b {{ {child} End Site {{ OFFSET 0 40 0 }} }} }}\n"
        f"MOTION\nFrames: 31\nFrame Time: 0.04\n" + "\n".join(rows)
    )
    motion = load(tmp_path / "take.bvh")
    assert motion.num_frames == frames
    save(motion, tmp_path / "again.bvh")
    assert "Frames: 31" in (tmp_path / "again.bvh").read_text()


def test_cmu_names_in_another_size_are_no_cmu_file(tmp_path):
    motion = load(cmu_clip(tmp_path, [[1.0, 17.0, 3.0, 0.0], *MOVING], scale=5.6444))
    assert motion.num_frames == 4 and motion.source is not None and motion.source.unit == "cm"


def test_the_lost_thorax_is_noted(tmp_path):
    assert any("thorax" in note for note in load(cmu_clip(tmp_path, MOVING)).load_report.notes)


def test_flips_are_reported_with_their_joints(tmp_path):
    rows = [[1.0, 17.0, 3.0 + 0.1 * i, 5.5 + (90.0 if i == 4 else 0.0)] for i in range(9)]
    assert load(cmu_clip(tmp_path, rows)).load_report.warnings[0] == (
        "joints turn by more than 40 degrees between two frames: Hips x2"
    )
