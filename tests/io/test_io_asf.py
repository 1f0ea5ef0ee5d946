"""ASF and AMC pairs: bones, frames of measure, limits, dialects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marey.base import FormatError, MissingFileError
from marey.io import load
from marey.io.acclaim.amc import read_amc
from marey.io.acclaim.asf import read_asf
from marey.lie import SO3, geodesic_distance

BROKEN = Path(__file__).parent / "broken"
ASF = (BROKEN / "amc" / "small.asf").read_text()
AMC = (BROKEN / "amc" / "ok_small.amc").read_text()
CMU_UNIT = 0.0254 / 0.45


def turn(axis: str, degrees: float) -> SO3:
    return SO3.from_axis_angle(np.eye(3)["xyz".index(axis)], np.deg2rad(degrees))


def pair(folder: Path, asf: str = ASF, amc: str = AMC, name: str = "small_01.amc") -> Path:
    (folder / "small.asf").write_text(asf)
    (folder / name).write_text(amc)
    return folder / name


def chain(*bones: tuple[str, str], extra: str = "") -> str:
    """An ASF whose bones hang one from the other; each is (name, lines of its body)."""
    blocks = "".join(f"begin\nname {name}\n{body}\nend\n" for name, body in bones)
    links = "".join(
        f"{above} {name}\n" for above, (name, _) in zip(["root", *(n for n, _ in bones)], bones, strict=False)
    )
    return f":version 1.10\n:units\nlength 0.45\nangle deg\n{extra}:bonedata\n{blocks}:hierarchy\nbegin\n{links}end\n"


def test_a_joint_sits_where_the_bone_of_its_name_starts(tmp_path):
    asf = chain(("thigh", "direction 0 -1 0\nlength 8"), ("shin", "direction 0 0 1\nlength 7"))
    skeleton = read_amc(pair(tmp_path, asf, "1\nroot 0 9 0 0 0 0\n")).skeleton
    assert skeleton.names == ("root", "thigh", "shin")
    np.testing.assert_allclose(skeleton.offsets / CMU_UNIT, [[0, 0, 0], [0, 0, 0], [0, -8, 0]], atol=1e-12)
    np.testing.assert_allclose(skeleton.tips / CMU_UNIT, [[0, 0, 0], [0, 0, 0], [0, 0, 7]], atol=1e-12)


def test_rotations_are_measured_in_the_frame_of_the_bone(tmp_path):
    axis = turn("z", 30.0) @ turn("y", -20.0) @ turn("x", 10.0)  # XYZ: x acts first
    angles = turn("z", 7.0) @ turn("y", 6.0) @ turn("x", 5.0)
    asf = chain(("arm", "direction 1 0 0\nlength 16\naxis 10 -20 30 XYZ\ndof rx ry rz"))
    motion = read_amc(pair(tmp_path, asf, "1\nroot 0 0 0 0 0 0\narm 5 6 7\n"))
    assert geodesic_distance(motion.rotations[0, 1], axis @ angles @ axis.inverse()) < 1e-15


def test_missing_degrees_of_freedom_count_as_zero_and_their_order_is_the_order_of_values(tmp_path):
    asf = chain(("arm", "direction 1 0 0\nlength 16\naxis 0 0 0 XYZ\ndof rz rx"))
    motion = read_amc(pair(tmp_path, asf, "1\nroot 0 0 0 0 0 0\narm 40 50\n"))
    assert geodesic_distance(motion.rotations[0, 1], turn("x", 50.0) @ turn("z", 40.0)) < 1e-15


@pytest.mark.parametrize("order", ["TX TY TZ RX RY RZ", "RZ RY RX TZ TY TX", "TZ RX TY RY TX RZ"])
def test_root_values_follow_the_order_of_the_file(tmp_path, order):
    values = {"TX": 1.0, "TY": 2.0, "TZ": 3.0, "RX": 10.0, "RY": 20.0, "RZ": 30.0}
    asf = ASF.replace("order TX TY TZ RX RY RZ", f"order {order}")
    row = " ".join(str(values[word]) for word in order.split())
    motion = read_amc(pair(tmp_path, asf, f"1\nroot {row}\nspine 0 0 0\nleg 0\n"))
    np.testing.assert_allclose(motion.root_positions[0], np.array([1.0, 2.0, 3.0]) * CMU_UNIT)
    assert geodesic_distance(motion.rotations[0, 0], turn("z", 30.0) @ turn("y", 20.0) @ turn("x", 10.0)) < 1e-15


def test_the_root_axis_is_the_order_in_which_its_angles_act(tmp_path):
    motion = read_amc(pair(tmp_path, ASF.replace("  axis XYZ\n  position", "  axis ZYX\n  position"),
                           "1\nroot 0 0 0 10 20 30\nspine 0 0 0\nleg 0\n"))  # fmt: skip
    assert geodesic_distance(motion.rotations[0, 0], turn("x", 10.0) @ turn("y", 20.0) @ turn("z", 30.0)) < 1e-15


def test_limits_are_kept_in_radians(tmp_path):
    limits = {limit.joint: limit for limit in read_amc(pair(tmp_path)).skeleton.limits}
    assert limits["spine"].order == "xyz" and limits["leg"].order == "x"
    np.testing.assert_allclose(np.rad2deg(limits["spine"].low_rad), [-20, -30, -30])
    np.testing.assert_allclose(np.rad2deg(limits["spine"].high_rad), [45, 30, 30])
    assert geodesic_distance(limits["leg"].axis, turn("z", 20.0)) < 1e-15


def test_open_limits_are_infinite(tmp_path):
    limits = read_amc(pair(tmp_path, ASF.replace("(-10 170)", "(-inf inf)"))).skeleton.limits
    assert limits[1].low_rad[0] == -np.inf and limits[1].high_rad[0] == np.inf


def moved_up(text: str, section: str) -> str:
    """The same file with one section put first."""
    parts = text.split("\n:")
    chosen = next(part for part in parts if part.startswith(section))
    return "\n:".join([parts[0], chosen, *(part for part in parts[1:] if part is not chosen)])


@pytest.mark.parametrize(
    "change",
    [
        lambda t: moved_up(t, "bonedata"),
        lambda t: moved_up(t, "hierarchy"),
        lambda t: t.replace("  length 0.45\n  angle deg", "  angle deg\n  length 0.45"),
        lambda t: t.replace("    dof rx\n    limits (-10 170)\n", "    limits (-10 170)\n    dof rx\n"),
        lambda t: t.replace("limits (-20 45)\n           (-30 30)\n", "limits (-20 45) (-30 30)\n"),
        lambda t: t.replace("limits (-20 45)", "limits (-20, 45)"),
        lambda t: t.replace("\n", " # remark\n").replace("made by hand # remark", "made by hand"),
        lambda t: t.replace("\n", "\r\n"),
        lambda t: t.upper().replace("SPINE", "spine").replace(" LEG", " leg"),
        lambda t: t.replace("    id 1\n", "    id 1\n    bodymass 4.0\n    cofmass 1.2\n"),
        lambda t: t.replace(":documentation\n  made by hand", ":documentation\n  direction begin end 4 (\n  :skin"),
    ],
)  # fmt: skip
def test_dialects_give_the_same_motion(tmp_path, change):
    plain = read_amc(pair(tmp_path))
    (tmp_path / "odd").mkdir()
    odd = read_amc(pair(tmp_path / "odd", change(ASF)))
    np.testing.assert_allclose(odd.joint_positions(), plain.joint_positions(), atol=1e-15)
    assert len(odd.skeleton.limits) == 2 and odd.load_report.warnings == ()


def test_radians_give_the_same_motion_as_degrees(tmp_path):
    plain = read_amc(pair(tmp_path))
    asf = ASF.replace("angle deg", "angle rad").replace("axis 0 0 20 XYZ", f"axis 0 0 {np.pi / 9!r} XYZ")
    rows = {"root": (0, 16, 0, 0, 0, 0), "spine": np.deg2rad([1, 2, 3]), "leg": np.deg2rad([5])}
    amc = ":RADIANS\n1\n" + "".join(f"{k} {' '.join(repr(float(v)) for v in vs)}\n" for k, vs in rows.items())
    (tmp_path / "odd").mkdir()
    odd = read_amc(pair(tmp_path / "odd", asf, amc))
    assert geodesic_distance(odd.rotations[0], plain.rotations[0]).max() < 1e-14


def test_a_bone_without_length_or_direction_is_a_joint_all_the_same(tmp_path):
    asf = chain(("stub", "length 0"), ("arm", "direction 1 0 0\nlength 16\naxis 0 0 0 XYZ\ndof rx"))
    motion = read_amc(pair(tmp_path, asf, "1\nroot 0 0 0 0 0 0\narm 5\n"))
    np.testing.assert_array_equal(motion.skeleton.offsets, np.zeros((3, 3)))


def test_the_rate_is_assumed_noted_and_overridden(tmp_path):
    motion = read_amc(pair(tmp_path))
    assert motion.rate_hz == 120.0 and any("120 Hz assumed" in note for note in motion.load_report.notes)
    assert load(tmp_path / "small_01.amc", rate_hz=60.0).rate_hz == 60.0
    with_rate = pair(tmp_path, ASF, AMC.replace(":DEGREES\n", ":DEGREES\n:SAMPLES-PER-SECOND 30\n"))
    assert read_amc(with_rate).rate_hz == 30.0


def test_the_unit_of_the_file_is_believed_only_if_a_person_results(tmp_path):
    assert read_amc(pair(tmp_path)).source.metres_per_unit == CMU_UNIT
    metric = (
        ASF.replace("length 0.45", "length 1.0").replace("length 12", "length 0.6").replace("length 16", "length 0.9")
    )
    assert read_asf(pair(tmp_path, metric).with_name("small.asf")).source.unit == "m"
    assert read_amc(pair(tmp_path), unit="cm").source.metres_per_unit == 0.01


@pytest.mark.parametrize(
    ("name", "skeletons"),
    [("07_05-walk.amc", ["07.asf", "08.asf"]), ("walk.amc", ["walk.asf", "x.asf"]), ("09_06-run.amc", ["09-run.asf"]),
     ("UP_1.amc", ["up.ASF", "x.asf"])],
)  # fmt: skip
def test_the_skeleton_beside_is_found(tmp_path, name, skeletons):
    for skeleton in skeletons:
        (tmp_path / skeleton).write_text(ASF)
    (tmp_path / name).write_text(AMC)
    motion = read_amc(tmp_path / name)
    assert Path(motion.source.layout["asf"]).name == skeletons[0]


def test_a_named_skeleton_is_used(tmp_path):
    (tmp_path / "a.asf").write_text(ASF)
    (tmp_path / "b.asf").write_text(ASF.replace("length 12", "length 13"))
    (tmp_path / "walk.amc").write_text(AMC)
    with pytest.raises(MissingFileError, match=r"The folder has a\.asf, b\.asf.*asf="):
        read_amc(tmp_path / "walk.amc")
    tall = read_amc(tmp_path / "walk.amc", asf=tmp_path / "b.asf")
    np.testing.assert_allclose(tall.skeleton.tips[1] / CMU_UNIT, [0, 13, 0])


def test_a_skeleton_that_does_not_fit_is_named(tmp_path):
    path = pair(tmp_path, chain(("arm", "direction 1 0 0\nlength 16\naxis 0 0 0 XYZ\ndof rx")))
    with pytest.raises(FormatError, match=r"small_01\.amc:6: bone 'spine' is not in the skeleton"):
        read_amc(path)


def test_empty_frames_at_the_start_are_cut_and_reported(tmp_path):
    empty = "1\nroot 0 0 0 0 0 0\nspine 0 0 0\nleg 0\n"
    motion = read_amc(pair(tmp_path, ASF, AMC.replace("1\nroot", f"{empty}2\nroot", 1)))
    assert motion.num_frames == 2
    assert motion.load_report.warnings == (
        "only zeros at the start, for 1 frame: not captured, left out (source.dropped keeps them)",
    )


def test_a_skeleton_alone_is_one_frame_of_rest():
    motion = load(BROKEN / "amc" / "small.asf")
    assert motion.num_frames == 1
    np.testing.assert_array_equal(motion.joint_positions()[0], motion.skeleton.rest_positions())
