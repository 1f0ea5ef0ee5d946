"""BVH files become motions: channels, positions, names, odd layouts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marey.base import FormatError, InputError
from marey.io import load
from marey.io.bvh.reader import read_bvh
from marey.lie import SO3, geodesic_distance

AXIS = {"X": (1.0, 0.0, 0.0), "Y": (0.0, 1.0, 0.0), "Z": (0.0, 0.0, 1.0)}


def bvh(root: str, child: str, rows: str, *, offset: str = "0 100 0", frame_time: str = "0.01") -> str:
    """A two-joint file with the given channel lists and rows."""
    count = len([line for line in rows.splitlines() if line.strip()])
    return (
        f"HIERARCHY\nROOT Hips\n{{\nOFFSET 1 2 3\nCHANNELS {root}\nJOINT Chest\n{{\nOFFSET {offset}\n"
        f"CHANNELS {child}\nEnd Site\n{{\nOFFSET 0 20 0\n}}\n}}\n}}\n"
        f"MOTION\nFrames: {count}\nFrame Time: {frame_time}\n{rows}"
    )


def write(folder: Path, text: str | bytes, name: str = "clip.bvh") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def turn(*steps: tuple[str, float]) -> SO3:
    """Product of elementary rotations, first step leftmost."""
    result = SO3.identity()
    for axis, degrees in steps:
        result = result @ SO3.from_axis_angle(AXIS[axis], np.deg2rad(degrees))
    return result


@pytest.mark.parametrize("order", ["XYZ", "XZY", "YXZ", "YZX", "ZXY", "ZYX"])
def test_rotations_multiply_in_the_order_of_their_channels(tmp_path, order):
    channels = " ".join(f"{axis}rotation" for axis in order)
    text = bvh(f"3 {channels}", f"3 {channels}", "10 20 30 -40 50 170\n")
    motion = read_bvh(write(tmp_path, text))
    expected = turn(*zip(order, (10.0, 20.0, 30.0), strict=True)), turn(*zip(order, (-40.0, 50.0, 170.0), strict=True))
    assert geodesic_distance(motion.rotations[0, 0], expected[0]) < 1e-14
    assert geodesic_distance(motion.rotations[0, 1], expected[1]) < 1e-14


def test_a_joint_may_have_any_subset_of_channels(tmp_path):
    motion = read_bvh(write(tmp_path, bvh("2 Yposition Xrotation", "1 Yrotation", "7 90 45\n")), unit="cm")
    np.testing.assert_allclose(motion.root_positions, [[0.01, 0.07, 0.03]], atol=1e-15)  # x and z from the offset
    assert geodesic_distance(motion.rotations[0, 0], turn(("X", 90.0))) < 1e-15
    assert geodesic_distance(motion.rotations[0, 1], turn(("Y", 45.0))) < 1e-15


def test_rotations_may_come_before_positions(tmp_path):
    root = "6 Yrotation Xrotation Zrotation Zposition Xposition Yposition"
    motion = read_bvh(write(tmp_path, bvh(root, "0", "10 20 30 3 1 2\n")), unit="m")
    np.testing.assert_array_equal(motion.root_positions, [[1.0, 2.0, 3.0]])
    assert geodesic_distance(motion.rotations[0, 0], turn(("Y", 10.0), ("X", 20.0), ("Z", 30.0))) < 1e-15


def test_moving_joint_positions_become_translations(tmp_path):
    root, child = "3 Xposition Yposition Zposition", "3 Xposition Yposition Zposition"
    motion = read_bvh(write(tmp_path, bvh(root, child, "0 0 0 0 100 0\n0 0 0 5 110 0\n")), unit="cm")
    assert motion.translations is not None
    np.testing.assert_allclose(motion.joint_positions()[1, 1], [0.05, 1.10, 0.0], atol=1e-15)


def test_joint_positions_that_repeat_the_offset_are_no_translations(tmp_path):
    root, child = "3 Xposition Yposition Zposition", "6 Xposition Yposition Zposition Zrotation Yrotation Xrotation"
    motion = read_bvh(write(tmp_path, bvh(root, child, "0 0 0 0 100 0 1 2 3\n0 0 1 0 100 0 4 5 6\n")))
    assert motion.translations is None


def test_motion_counts_only_as_the_first_word_of_a_line(tmp_path):
    text = bvh("3 Zrotation Yrotation Xrotation", "0", "1 2 3\n").replace("Chest", "EMOTION_Jaw MOTION")
    assert read_bvh(write(tmp_path, text)).skeleton.names == ("Hips", "EMOTION_Jaw MOTION")


@pytest.mark.parametrize("name", ["Left Up Leg", "mixamorig:Hips", "Kopf/größe", "a.b-c_d", "JOINT", "OFFSET"])
def test_joint_names_are_kept_as_they_are(tmp_path, name):
    text = bvh("1 Zrotation", "0", "1\n").replace("Chest", name)
    assert read_bvh(write(tmp_path, text)).skeleton.names[1] == name


def test_end_sites_become_tips(tmp_path):
    motion = read_bvh(write(tmp_path, bvh("1 Zrotation", "0", "1\n")), unit="cm")
    np.testing.assert_allclose(motion.skeleton.tips, [[0, 0, 0], [0, 0.2, 0]])


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.replace("\n", "\r\n"),
        lambda t: t.replace("\n", "\n\n \t\n"),
        lambda t: t.replace(" ", "\t\t"),
        lambda t: t.replace("HIERARCHY", "Hierarchy").replace("JOINT", "Joint").replace("MOTION", "motion"),
        lambda t: t.replace("End Site", "End Site Chest_end"),
        lambda t: t.replace("Frames: 2", "Frames:2").replace("Frame Time: ", "Frame Time:"),
        lambda t: t.replace("\n{", " {"),
        lambda t: t.replace("30\n1", "30 1"),
        lambda t: t.replace("1 2 3 10 20 30", "1e0 +2.0 3 1.0e+01 20. 300E-1"),
        lambda t: "\ufeff" + t,
        lambda t: t.encode("utf-16"),
        lambda t: t.encode("utf-16-le"),
        lambda t: t.encode("utf-16-be"),
    ],
)
def test_dialects_give_the_same_motion(tmp_path, change):
    text = bvh("6 Xposition Yposition Zposition Zrotation Yrotation Xrotation", "0", "1 2 3 10 20 30\n1 2 4 11 21 31\n")
    plain = read_bvh(write(tmp_path, text))
    odd = read_bvh(write(tmp_path, change(text), "odd.bvh"))
    assert odd.skeleton.names == plain.skeleton.names
    np.testing.assert_array_equal(odd.root_positions, plain.root_positions)
    np.testing.assert_array_equal(odd.rotations.wxyz, plain.rotations.wxyz)
    assert odd.load_report.warnings == ()


def test_channels_are_kept_for_the_writer(tmp_path):
    motion = read_bvh(write(tmp_path, bvh("3 Zrotation Yrotation Xrotation", "0", "370 2 3\n-350 2 4\n")))
    assert motion.source is not None and motion.source.channels is not None
    np.testing.assert_array_equal(motion.source.channels, [[370, 2, 3], [-350, 2, 4]])
    assert not motion.source.channels.flags.writeable


def test_clips_that_share_a_header_share_a_skeleton(tmp_path):
    one = read_bvh(write(tmp_path, bvh("1 Zrotation", "0", "1\n"), "one.bvh"))
    two = read_bvh(write(tmp_path, bvh("1 Zrotation", "0", "2\n3\n"), "two.bvh"))
    assert one.skeleton is two.skeleton
    assert (one.name, two.name) == ("one", "two")


def test_rate_can_be_overridden_even_when_the_header_has_none(tmp_path):
    path = write(tmp_path, bvh("1 Zrotation", "0", "1\n", frame_time="none"))
    assert read_bvh(path, rate_hz=59.94).rate_hz == 59.94
    with pytest.raises(FormatError, match=r"clip\.bvh:18: the frame time is 'none'"):
        read_bvh(path)


def test_unknown_unit_is_refused(tmp_path):
    with pytest.raises(InputError, match="unknown unit 'furlong'"):
        read_bvh(write(tmp_path, bvh("1 Zrotation", "0", "1\n")), unit="furlong")


def test_error_after_a_thousand_frames_names_its_line(tmp_path):
    rows = ["1.0000 2.0000 3.0000"] * 5000
    rows[3210] = "1.0000 2.0000 x"
    path = write(tmp_path, bvh("3 Zrotation Yrotation Xrotation", "0", "\n".join(rows) + "\n"))
    with pytest.raises(FormatError) as caught:
        read_bvh(path)
    assert caught.value.line == 18 + 1 + 3210
    assert str(caught.value).endswith(":3229: 'x' is not a number. Channel values are numbers parted by spaces.")


CHANNELS = "6 Xposition Yposition Zposition Zrotation Yrotation Xrotation"


@pytest.mark.parametrize("form", ["{:.4f}", "{:.2f}", "{:.6f}", "{:.0f}", "{:.12g}", "{!r}", "{:.3e}"])
@pytest.mark.parametrize("frames", [30, 997])
def test_tables_read_by_words_of_eight_bytes_hold_what_is_written(tmp_path, form, frames):
    values = np.random.default_rng(frames).uniform(-180, 180, (frames, 6))
    rows = [[form.format(float(value)) for value in row] for row in values]
    lines = "".join(" ".join(row) + "\n" for row in rows)
    motion = read_bvh(write(tmp_path, bvh(CHANNELS, "0", lines)))
    assert motion.source is not None and motion.source.channels is not None
    exact = np.array([[float(word) for word in row] for row in rows])
    np.testing.assert_allclose(motion.source.channels, exact, rtol=3e-16, atol=0)


@pytest.mark.parametrize("blank", ["\n\n", "\r\n", " \t\n \n"])
def test_long_tables_with_odd_blanks_hold_the_same(tmp_path, blank):
    lines = "".join(f"{i}.5 90.0000 0 1 2 -3.25\n" for i in range(400))
    plain = read_bvh(write(tmp_path, bvh(CHANNELS, "0", lines)))
    odd = read_bvh(write(tmp_path, bvh(CHANNELS, "0", lines).replace("-3.25\n", f"-3.25{blank}")))
    assert odd.load_report.warnings == plain.load_report.warnings == ()
    np.testing.assert_array_equal(odd.source.channels, plain.source.channels)


def test_a_long_table_that_is_not_plain_is_read_the_careful_way(tmp_path):
    lines = "".join(f"{i}.5 90.0000 0 1 2 -3.25\n" for i in range(400))
    plain = read_bvh(write(tmp_path, bvh(CHANNELS, "0", lines)))
    odd = read_bvh(write(tmp_path, bvh(CHANNELS, "0", lines + "the end\n").replace("Frames: 401", "Frames: 400")))
    assert len(odd.load_report.warnings) == 1
    np.testing.assert_array_equal(odd.rotations.wxyz, plain.rotations.wxyz)


def test_frame_count_of_a_billion_allocates_nothing(tmp_path):
    import tracemalloc

    path = write(tmp_path, bvh("1 Zrotation", "0", "1\n2\n").replace("Frames: 2", "Frames: 1000000000"))
    read_bvh(path)
    tracemalloc.start()
    motion = read_bvh(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert motion.num_frames == 2 and peak < 1_000_000


def test_deep_nesting_does_not_recurse(tmp_path):
    def nested(depth: int) -> str:
        body = "{\nOFFSET 0 1 0\nCHANNELS 1 Zrotation\n"
        joints = "".join(f"{'JOINT' if i else 'ROOT'} j{i}\n{body}" for i in range(depth))
        return f"HIERARCHY\n{joints}{'}' * depth}\nMOTION\nFrames: 1\nFrame Time: 0.01\n{'1 ' * depth}\n"

    assert read_bvh(write(tmp_path, nested(5000))).skeleton.num_joints == 5000
    with pytest.raises(FormatError, match="more than 10000 joints"):
        read_bvh(write(tmp_path, nested(100_000)))


def test_a_small_file_cannot_become_a_huge_motion(tmp_path):
    idle = "".join(f"JOINT j{i}\n{{\nOFFSET 0 1 0\n" for i in range(5000)) + "}\n" * 5000
    header = f"HIERARCHY\nROOT r\n{{\nOFFSET 0 0 0\nCHANNELS 1 Zrotation\n{idle}}}\n"
    path = write(tmp_path, f"{header}MOTION\nFrames: 90000\nFrame Time: 0.01\n" + "0\n" * 90000)
    with pytest.raises(FormatError, match="90000 frames of 5001 joints"):
        read_bvh(path)


def test_ten_thousand_joints_of_one_name_are_renamed_quickly(tmp_path):
    joints = "JOINT a\n{\nOFFSET 0 1 0\n}\n" * 9000
    header = f"HIERARCHY\nROOT a\n{{\nOFFSET 0 0 0\nCHANNELS 1 Zrotation\n{joints}}}\n"
    text = f"{header}MOTION\nFrames: 1\nFrame Time: 1\n0\n"
    motion = load(write(tmp_path, text))
    assert motion.skeleton.names[:3] == ("a", "a_2", "a_3")
    assert "and 8996 more" in motion.load_report.warnings[0]
