"""C3D markers: the same numbers as ezc3d, every number format, and noise that ends in a sentence."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marey.base import FormatError, InputError, MareyError
from marey.io import load_analog, load_markers
from marey.io.laboratory.c3d import read_c3d
from marey.io.laboratory.c3d.content import read_with_ezc3d
from marey.io.laboratory.markers import markers_to_motion
from marey.motion import Markers

INTEL, DEC, MIPS = 84, 85, 86


def parameter(group: int, name: str, kind: int, shape: tuple[int, ...], data: bytes, order: str) -> bytes:
    body = struct.pack("bB", kind, len(shape)) + bytes(shape) + data + b"\0"
    return struct.pack("bb", len(name), group) + name.encode() + struct.pack(order + "H", 2 + len(body)) + body


def dec_float(value: float) -> bytes:
    low, high = struct.unpack("<HH", struct.pack("<f", 4.0 * value))
    return struct.pack("<HH", high, low)


def c3d(
    positions: np.ndarray, *, scale: float = -1.0, processor: int = INTEL, seen=None, up="+Z", unit="mm", **more
) -> bytes:
    """A C3D file put together byte by byte, after the format's manual. Positions (F, M, 3) in the file's unit."""
    frames, count = positions.shape[:2]
    order = ">" if processor == MIPS else "<"

    def real(value: float) -> bytes:
        return dec_float(value) if processor == DEC else struct.pack(order + "f", value)

    def word(value: int) -> bytes:
        return struct.pack(order + "H", value & 0xFFFF)

    def text(name: str, values: list[str]) -> bytes:
        width = max(len(v) for v in values)
        data = "".join(v.ljust(width) for v in values).encode()
        return parameter(1, name, -1, (width, len(values)), data, order)

    entries = b"\x05\xffPOINT" + struct.pack(order + "H", 3) + b"\0"
    entries += parameter(1, "USED", 2, (), word(count), order)
    entries += parameter(1, "SCALE", 4, (), real(scale), order)
    entries += parameter(1, "RATE", 4, (), real(100.0), order)
    entries += parameter(1, "DATA_START", 2, (), word(3), order)
    entries += text("LABELS", more.get("labels") or [f"M{i}" for i in range(count)])
    entries += text("UNITS", [unit]) if unit else b""
    entries += text("X_SCREEN", ["+X"]) + text("Y_SCREEN", [up]) if up else b""
    section = (bytes([1, 0x50, 1, processor]) + entries).ljust(512, b"\0")
    header = bytes([2, 0x50]) + word(count) + word(0) + word(1) + word(frames) + word(0)
    header = (header + real(scale) + word(3) + word(0) + real(100.0)).ljust(512, b"\0")
    seen = np.ones((frames, count), dtype=bool) if seen is None else seen
    data = b""
    for f in range(frames):
        for m in range(count):
            residual = 0 if seen[f, m] else -1
            if scale < 0:
                data += b"".join(real(float(x)) for x in positions[f, m]) + real(float(residual))
            else:
                data += b"".join(word(round(float(x) / scale)) for x in positions[f, m]) + word(residual)
    return header + section + data


def some_positions(frames: int = 6, count: int = 5) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.uniform(-300, 300, size=(frames, count, 3)) + np.array([0, 0, 1000]) * np.arange(count)[:, None]


@pytest.mark.parametrize("processor", [INTEL, DEC, MIPS])
@pytest.mark.parametrize("scale", [-1.0, 0.5])
def test_every_number_format_gives_the_same_markers(tmp_path, processor, scale):
    positions = np.round(some_positions() * 2) / 2
    seen = np.ones((6, 5), dtype=bool)
    seen[2:4, 1] = False
    (tmp_path / "a.c3d").write_bytes(c3d(positions, scale=scale, processor=processor, seen=seen))
    markers = load_markers(tmp_path / "a.c3d")
    expected = np.stack([positions[..., 0], positions[..., 2], -positions[..., 1]], axis=-1) / 1000.0
    np.testing.assert_array_equal(markers.valid, seen)
    np.testing.assert_allclose(markers.positions[seen], expected[seen], atol=1e-12)
    assert markers.names == ("M0", "M1", "M2", "M3", "M4")
    assert markers.rate_hz == 100.0
    assert markers.source.unit == "mm"


@pytest.mark.mocap
def test_the_captured_walk_reads_as_ezc3d_reads_it(mocap):
    ezc3d = pytest.importorskip("ezc3d")
    path = mocap / "opensim" / "walking5.c3d"
    markers, peer = load_markers(path), ezc3d.c3d(str(path))
    points = np.transpose(peer["data"]["points"][:3], (2, 1, 0)) / 1000.0
    np.testing.assert_array_equal(markers.valid, np.isfinite(points).all(axis=-1))
    expected = np.stack([points[..., 0], points[..., 2], -points[..., 1]], axis=-1)
    np.testing.assert_allclose(markers.positions[markers.valid], expected[markers.valid], atol=1e-12)
    assert list(markers.names) == peer["parameters"]["POINT"]["LABELS"]["value"]
    assert markers.rate_hz == peer["parameters"]["POINT"]["RATE"]["value"][0]


def test_a_file_written_by_ezc3d_reads_back(tmp_path):
    ezc3d = pytest.importorskip("ezc3d")
    peer = ezc3d.c3d()
    positions = some_positions(frames=7, count=300)  # labels beyond 255 go to LABELS2
    peer["parameters"]["POINT"]["RATE"]["value"] = [50.0]
    peer["parameters"]["POINT"]["UNITS"]["value"] = ["mm"]
    peer["parameters"]["POINT"]["LABELS"]["value"] = [f"point{i}" for i in range(300)]
    peer["data"]["points"] = np.concatenate([positions.transpose(2, 1, 0), np.ones((1, 300, 7))])
    peer["parameters"]["ANALOG"]["RATE"]["value"] = [100.0]
    peer["parameters"]["ANALOG"]["LABELS"]["value"] = ["a", "b"]
    peer["data"]["analogs"] = np.zeros((1, 2, 14))
    peer.write(str(tmp_path / "a.c3d"))
    markers = load_markers(tmp_path / "a.c3d")
    assert markers.names[-1] == "point299"
    assert markers.positions.shape == (7, 300, 3)
    up_found = markers.source.up
    assert any(f"{up_found} was found" in note for note in markers.load_report.notes)
    lengths = np.linalg.norm(markers.positions, axis=-1)
    np.testing.assert_allclose(lengths, np.linalg.norm(positions, axis=-1) / 1000.0, rtol=1e-6)


def test_a_rate_that_is_no_parameter_stands_in_the_header(tmp_path):
    (tmp_path / "a.c3d").write_bytes(without(b"RATE"))
    assert load_markers(tmp_path / "a.c3d").rate_hz == 100.0


def test_a_damaged_parameter_is_passed_over(tmp_path):
    (tmp_path / "a.c3d").write_bytes(patched(535, b"\x09"))
    markers = load_markers(tmp_path / "a.c3d")
    assert markers.num_markers == 5 and any("passed over" in w for w in markers.load_report.warnings)


@pytest.mark.real
@pytest.mark.parametrize("name", ["PiG_Motion3_FF.c3d", "ADemo1_rewrite_c3d_pc_integer.c3d", "Res16bits.c3d"])
def test_plates_of_types_2_3_and_4_agree_with_ezc3d(real, name):
    ezc3d = pytest.importorskip("ezc3d")
    path = real / "btk-c3d" / name
    markers, peer = load_markers(path), ezc3d.c3d(str(path), extract_forceplat_data=True)
    np.testing.assert_allclose(markers.analog.values, peer["data"]["analogs"][0].T, atol=1e-9)
    assert len(markers.plates) == len(peer["data"]["platform"]) > 0
    for ours, theirs in zip(markers.plates, peer["data"]["platform"], strict=True):
        force = np.linalg.norm(theirs["force"], axis=0)
        np.testing.assert_allclose(np.linalg.norm(ours.forces, axis=1), force, atol=1e-9)
        stood = force > 50.0
        centre = theirs["center_of_pressure"].T[stood] / 1000.0
        np.testing.assert_allclose(ours.places[stood, 1], centre[:, 2], atol=1e-9)  # all three have z up
        np.testing.assert_allclose(
            np.linalg.norm(ours.places[stood], axis=1), np.linalg.norm(centre, axis=1), atol=1e-9
        )
        assert not stood.any() or ours.forces[stood, 1].mean() > 0.0  # plates push up


@pytest.mark.real
@pytest.mark.parametrize("name", ["561xxa01_anonym.C3D", "FP2.C3D", "standing.C3D", "golfswing.c3d"])
def test_files_of_odd_writers_are_read(real, name):
    markers = load_markers(real / "btk-c3d" / name)
    assert markers.num_frames > 90 and markers.valid.mean() > 0.8
    seen = markers.positions[markers.valid]
    assert 0.2 < np.ptp(seen, axis=0).max() < 15.0  # [m] a laboratory


@pytest.mark.real
def test_parameters_beyond_their_blocks_and_unsigned_offsets_are_read(real):
    ezc3d = pytest.importorskip("ezc3d")
    path = real / "btk-c3d" / "parameterOverflow.c3d"
    markers, peer = load_markers(path), ezc3d.c3d(str(path))
    assert markers.num_frames == 101 and not markers.valid.any()  # every point of it is at the origin
    np.testing.assert_allclose(markers.analog.values, peer["data"]["analogs"][0].T, atol=1e-9)


def test_a_file_of_analog_channels_alone_is_no_motion_but_is_read(tmp_path):
    ezc3d = pytest.importorskip("ezc3d")
    peer = ezc3d.c3d()
    peer["parameters"]["POINT"]["RATE"]["value"] = [50.0]
    peer["parameters"]["ANALOG"]["RATE"]["value"] = [100.0]
    peer["parameters"]["ANALOG"]["LABELS"]["value"] = ["RTIB", "Fz"]
    peer["parameters"]["ANALOG"]["UNITS"]["value"] = ["mV", "N"]
    peer["data"]["points"] = np.zeros((4, 0, 7))
    peer["data"]["analogs"] = np.arange(28.0).reshape(1, 2, 14)
    path = tmp_path / "emg.c3d"
    peer.write(str(path))
    with pytest.raises(FormatError, match="no points, only 2 analog channels"):
        load_markers(path)
    analog = load_analog(path)
    assert analog.names == ("RTIB", "Fz") and analog.muscles == ("RTIB",) and analog.rate_hz == 100.0
    np.testing.assert_allclose(analog["Fz"], np.arange(14.0, 28.0))


@pytest.mark.real
def test_results_of_a_model_are_no_markers(real):
    markers = load_markers(real / "btk-c3d" / "PiG_Motion3_FF.c3d")
    assert not any(name.endswith(("Angles", "Force", "Moment", "Power")) for name in markers.names)
    assert not {"PELO", "LFEA", "RTIP"} & set(markers.names)  # axes of segments
    assert {"LASI", "RKNE"} <= set(markers.names) and markers.analog.muscles[0] == "EMG1"
    assert markers.start_s == pytest.approx(7.24)


def test_ezc3d_reads_in_a_process_of_its_own_what_we_cannot(tmp_path):
    pytest.importorskip("ezc3d")
    good = tmp_path / "good.c3d"
    good.write_bytes(c3d(some_positions()))
    found = read_with_ezc3d(good)
    assert found is not None and found.positions.shape == (6, 5, 3) and found.rate_hz == 100.0
    np.testing.assert_allclose(found.positions, some_positions(), atol=1e-3)
    (tmp_path / "bad.c3d").write_bytes(c3d(some_positions())[:600] + bytes(3000))
    assert read_with_ezc3d(tmp_path / "bad.c3d") is None


@pytest.mark.parametrize(
    ("up", "expected"), [("+Z", (1.0, 3.0, -2.0)), ("+Y", (1.0, 2.0, 3.0)), ("-Y", (1.0, -2.0, -3.0))]
)
def test_the_screen_axes_say_what_is_up(tmp_path, up, expected):
    (tmp_path / "a.c3d").write_bytes(c3d(np.tile([1.0, 2.0, 3.0], (2, 1, 1)), up=up, unit="m"))
    np.testing.assert_allclose(load_markers(tmp_path / "a.c3d").positions[0, 0], expected)


def test_markers_that_stand_another_way_than_the_file_says_raise_a_doubt(tmp_path):
    standing = np.zeros((4, 6, 3))
    standing[..., 2] = np.linspace(0, 1700, 6)
    (tmp_path / "a.c3d").write_bytes(c3d(standing, up="+Y"))
    assert any("stand along +z" in w for w in load_markers(tmp_path / "a.c3d").load_report.warnings)


def test_unit_and_rate_can_be_given(tmp_path):
    (tmp_path / "a.c3d").write_bytes(c3d(np.tile([1.0, 2.0, 3.0], (2, 1, 1)), up="+Y", unit=""))
    markers = load_markers(tmp_path / "a.c3d")
    np.testing.assert_allclose(markers.positions[0, 0], [0.001, 0.002, 0.003])
    assert any("millimetres are assumed" in w for w in markers.load_report.warnings)
    given = load_markers(tmp_path / "a.c3d", unit="m", rate_hz=60)
    np.testing.assert_allclose(given.positions[0, 0], [1.0, 2.0, 3.0])
    assert given.rate_hz == 60.0
    assert not given.load_report.warnings


def test_a_file_that_is_cut_off_gives_its_whole_frames_and_says_so(tmp_path):
    content = c3d(some_positions(frames=6, count=5))
    (tmp_path / "a.c3d").write_bytes(content[:-100])
    markers = load_markers(tmp_path / "a.c3d")
    assert markers.num_frames == 4
    assert any("2 announced frames are missing" in w for w in markers.load_report.warnings)


def test_markers_show_as_a_star_of_joints(tmp_path):
    positions = some_positions()
    seen = np.ones((6, 5), dtype=bool)
    seen[2:4, 1] = False
    seen[:, 4] = False
    (tmp_path / "a.c3d").write_bytes(c3d(positions, seen=seen, labels=["A", "A", "origin", "", "lost"]))
    motion, markers = read_c3d(tmp_path / "a.c3d"), load_markers(tmp_path / "a.c3d")
    assert motion.skeleton.names == ("origin", "A", "A_2", "origin_2", "marker_4")
    shown = motion.joint_positions()[:, 1:]
    valid = markers.valid[:, :4]
    np.testing.assert_allclose(shown[valid], markers.positions[:, :4][valid], atol=1e-12)
    np.testing.assert_allclose(shown[2, 1], (2 * shown[1, 1] + shown[4, 1]) / 3, atol=1e-12)  # a straight line
    assert any("8.3 % of the marker positions" in w for w in motion.load_report.warnings)
    assert any("never seen and are left out: lost" in w for w in motion.load_report.warnings)


def test_a_marker_star_is_written_and_read_as_gltf(tmp_path):
    from marey.io.gltf.files import read_gltf, write_gltf

    (tmp_path / "a.c3d").write_bytes(c3d(some_positions()))
    motion = read_c3d(tmp_path / "a.c3d")
    write_gltf(motion, tmp_path / "a.glb")
    np.testing.assert_allclose(read_gltf(tmp_path / "a.glb").joint_positions(), motion.joint_positions(), atol=1e-6)


def test_markers_that_were_never_seen_are_no_motion():
    markers = Markers(("a",), 30.0, np.zeros((2, 1, 3)), np.zeros((2, 1), dtype=bool))
    with pytest.raises(InputError, match="no marker was ever seen"):
        markers_to_motion(markers)


def test_other_suffixes_hold_no_markers(tmp_path):
    with pytest.raises(InputError, match=r"no markers in '\.bvh' files"):
        load_markers(tmp_path / "a.bvh")


def patched(at: int, value: bytes) -> bytes:
    content = bytearray(c3d(some_positions()))
    content[at : at + len(value)] = value
    return bytes(content)


def without(name: bytes) -> bytes:
    return c3d(some_positions()).replace(name, b"X" * len(name), 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\x02\x50", "at least 1024 bytes"),
        (bytes(2000), "this is not a C3D file"),
        (np.random.default_rng(0).bytes(3000), "this is not a C3D file"),
        (patched(0, b"\xff"), "this is not a C3D file"),
        (patched(1, b"\x51"), "this is not a C3D file"),
        (patched(515, b"\x07"), "processor 7"),
        (patched(516, b"\x7f"), "runs out of their section|is missing|no points"),
        (c3d(np.zeros((1, 0, 3)), labels=["x"]), "holds no points"),
        (c3d(some_positions())[:1030], "announced, the file holds 0"),
        (without(b"DATA_START")[:16] + b"\xff\xff" + without(b"DATA_START")[18:], "no such place"),
        (without(b"SCALE")[:12] + bytes(4) + without(b"SCALE")[16:], "no such place"),
        (c3d(some_positions(), unit="parsec"), "unknown unit 'parsec'"),
    ],
)
def test_damaged_files_end_in_a_sentence(tmp_path, content, message):
    (tmp_path / "bad.c3d").write_bytes(content)
    with pytest.raises(FormatError, match=message):
        load_markers(tmp_path / "bad.c3d")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_bytes_are_read_or_refused(tmp_path, data):
    content = bytearray(c3d(some_positions(frames=2)))
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, 750))] = data.draw(st.integers(0, 255))
    (tmp_path / "changed.c3d").write_bytes(content)
    said = read_or_refused(tmp_path / "changed.c3d")
    assert said == "read" or "changed.c3d" in said


def read_or_refused(path: Path) -> str:
    try:
        assert np.isfinite(read_c3d(path).joint_positions()).all()
    except MareyError as error:
        return str(error)
    return "read"


def test_a_file_without_a_rate_is_read_at_the_rate_that_is_given():
    path = Path(__file__).parent / "broken" / "c3d_no_rate.c3d"
    with pytest.raises(FormatError, match="POINT:RATE is missing"):
        load_markers(path)
    assert load_markers(path, rate_hz=120).rate_hz == 120.0
