"""TRC markers and OpenSim tables: blanks are gaps, units and axes are converted, damage is named by its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marey.base import FormatError, MareyError, UnknownNameError
from marey.io import load_markers
from marey.io.laboratory.opensim import load_table, read_trc


def trc(
    rows: list[str], *, names: str = "A\t\t\tB\t\t\tC", count: int = 3, frames: int | None = None, unit="mm"
) -> str:
    head = [
        "PathFileType\t4\t(X/Y/Z)\tx.trc",
        "DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\tOrigDataStartFrame\tOrigNumFrames",
        f"100.00\t100.00\t{len(rows) if frames is None else frames}\t{count}\t{unit}\t100.00\t1\t{len(rows)}",
        f"Frame#\tTime\t{names}\t\t",
        "\t\tX1\tY1\tZ1\tX2\tY2\tZ2\tX3\tY3\tZ3",
    ]
    return "\n".join([*head, "", *rows]) + "\n"


ROWS = [
    "1\t0.00\t1\t0\t2\t10\t900\t20\t100\t1700\t200",
    "2\t0.01\t2\t0\t2\t\t\t\t100\t1700\t200",
    "3\t0.02\t3\t0\t2\t30\t900\t20",
]


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_blank_cells_are_gaps(tmp_path):
    markers = load_markers(write(tmp_path / "a.trc", trc(ROWS)))
    assert markers.names == ("A", "B", "C")
    assert markers.rate_hz == 100.0
    np.testing.assert_array_equal(markers.valid, [[True, True, True], [True, False, True], [True, True, False]])
    np.testing.assert_allclose(markers.positions[2, 1], [0.03, 0.9, 0.02])
    assert (markers.positions[~markers.valid] == 0.0).all()


def test_the_unit_of_the_file_and_the_unit_given(tmp_path):
    path = write(tmp_path / "a.trc", trc(ROWS, unit="m"))
    np.testing.assert_allclose(load_markers(path).positions[0, 0], [1.0, 0.0, 2.0])
    np.testing.assert_allclose(load_markers(path, unit="cm").positions[0, 0], [0.01, 0.0, 0.02])
    assert load_markers(path, rate_hz=50).rate_hz == 50.0


def test_markers_that_stand_along_z_are_turned_up(tmp_path):
    rows = [f"{i}\t0\t0\t5\t0\t0\t5\t900\t0\t6\t1700\t1\t6\t1800" for i in range(1, 4)]
    path = write(tmp_path / "a.trc", trc(rows, names="A\t\t\tB\t\t\tC\t\t\tD", count=4))
    markers = load_markers(path)
    np.testing.assert_allclose(markers.positions[0, 2], [0.0, 1.7, -0.006])
    assert markers.source.up == "+z"


def test_arms_held_out_along_z_do_not_make_z_vertical(tmp_path):
    rows = [f"{i}\t0\t1\t900\t-900\t1\t900\t900\t1\t1500\t5\t1\t10\t5" for i in range(1, 4)]
    markers = load_markers(write(tmp_path / "a.trc", trc(rows, names="A\t\t\tB\t\t\tC\t\t\tD", count=4)))
    assert markers.source.up == "+y"


def test_positions_that_are_exactly_zero_are_gaps(tmp_path):
    rows = [ROWS[0], "2\t0.01\t0.000\t0.000\t0.000\t10\t900\t20\t100\t1700\t200"]
    markers = load_markers(write(tmp_path / "a.trc", trc(rows)))
    assert not markers.valid[1, 0]
    assert any("exactly zero" in note for note in markers.load_report.notes)


def test_counts_that_do_not_agree_are_reported(tmp_path):
    markers = load_markers(write(tmp_path / "a.trc", trc(ROWS, frames=9)))
    assert "9 frames announced, 3 found" in markers.load_report.warnings


def test_markers_show_as_a_motion(tmp_path):
    motion = read_trc(write(tmp_path / "a.trc", trc(ROWS)))
    assert motion.skeleton.names == ("origin", "A", "B", "C")
    np.testing.assert_allclose(motion.joint_positions()[1, 2], [0.02, 0.9, 0.02])  # half way through the gap


@pytest.mark.parametrize("announced", [0, 50])
def test_rows_say_how_many_markers_there_are_where_the_header_lies(tmp_path, announced):
    markers = load_markers(write(tmp_path / "a.trc", trc(ROWS, count=announced)))
    assert markers.names == ("A", "B", "C")
    assert f"{announced} markers announced, 3 found" in markers.load_report.warnings


def test_the_clock_of_the_file_is_kept(tmp_path):
    rows = [f"{i}\t{0.46 + i / 100:.3f}\t1\t0\t2\t10\t900\t20\t100\t1700\t200" for i in range(5)]
    markers = load_markers(write(tmp_path / "a.trc", trc(rows)))
    assert markers.start_s == pytest.approx(0.46)
    assert markers[2:].start_s == pytest.approx(0.48)
    assert markers.rate_hz == 100.0


def test_times_overrule_a_rate_that_they_contradict(tmp_path):
    rows = [f"{i}\t{i / 50:.3f}\t1\t0\t2\t10\t900\t20\t100\t1700\t200" for i in range(5)]
    markers = load_markers(write(tmp_path / "a.trc", trc(rows)))
    assert markers.rate_hz == pytest.approx(50.0)
    assert any("the times were used" in w for w in markers.load_report.warnings)
    without = load_markers(write(tmp_path / "b.trc", trc(rows).replace("DataRate", "Rate", 1)))
    assert without.rate_hz == pytest.approx(50.0)


def test_missing_and_repeated_labels_words_for_nothing_and_other_line_ends(tmp_path):
    rows = ["1\t0.00\t1\t0\t2\tNaN\t-nan(ind)\t1.#QNAN\t100\t1700\t200", "2\t0.01\t2,5\t0,0\t2\t1\t2\t3\t4\t5\t6\t\t\t"]
    text = trc(rows, names="A\t\t\t\t\t\tA", unit="Meters").replace("\n", "\r\n")
    markers = load_markers(write(tmp_path / "a.trc", text))
    assert markers.names == ("A", "marker_2", "A_2")
    np.testing.assert_array_equal(markers.valid, [[True, False, True], [True, True, True]])
    np.testing.assert_allclose(markers.positions[1, 0], [2.5, 0.0, 2.0])


@pytest.mark.real
def test_the_clocks_of_markers_and_plates_agree(real):
    folder = real / "addbiomechanics" / "Hamner2013Running" / "subject03" / "run300"
    assert load_markers(folder / "markers.trc").start_s == pytest.approx(0.46)
    assert load_table(folder / "grf.mot")["time"][0] == pytest.approx(0.4555)


@pytest.mark.mocap
def test_the_captured_walk_loads(mocap):
    markers = load_markers(mocap / "opensim" / "markers_walk.trc")
    assert markers.positions.shape == (238, 41, 3)
    assert markers.valid.all()
    np.testing.assert_allclose(markers.positions[0, 0], [-0.652630, 1.529542, -0.094520], atol=1e-12)
    heels = markers.positions[:, [markers.names.index("R.Heel"), markers.names.index("L.Heel")], 1]
    assert 0.0 < heels.min() < 0.1


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("no header\n\n\n\n\n", 1, "does not start with 'PathFileType'"),
        ("PathFileType\t4\nDataRate\n", 2, "ends within its header"),
        (trc(ROWS).replace("NumMarkers", "Number"), 2, "names no 'NumMarkers'"),
        (trc(ROWS, count=10**9), 3, "1000000000 markers announced"),
        (trc(ROWS).replace("100.00", "fast", 1), 3, "DataRate is 'fast'"),
        (trc(ROWS).replace("100.00", "nan", 1), 3, "DataRate is nan"),
        (trc([*ROWS, "4\t0.03\tx\t0\t2"]), 10, "'x' is not a number"),
        (trc([*ROWS, ROWS[0] + "\t5\t6"]), 10, "expected 9 coordinates, found 11"),
        (trc([*ROWS, "4 0.03 1 2"]), 10, "expected 9 coordinates, found 2"),
        (trc([]), 6, "ends before the first frame"),
    ],
)
def test_damage_is_named_by_its_line(tmp_path, text, line, message):
    with pytest.raises(FormatError, match=message) as caught:
        load_markers(write(tmp_path / "bad.trc", text))
    assert caught.value.line == line


def test_a_file_without_any_sighting_is_no_motion(tmp_path):
    path = write(tmp_path / "bad.trc", trc(["1\t0.00\t\t\t\t\t\t\t\t\t"]))
    assert load_markers(path).num_frames == 1
    with pytest.raises(FormatError, match="no marker was ever seen"):
        read_trc(path)


def test_an_unknown_unit_is_refused(tmp_path):
    with pytest.raises(FormatError, match="unknown unit 'ells'"):
        load_markers(write(tmp_path / "bad.trc", trc(ROWS, unit="ells")))


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_bytes_are_read_or_refused(tmp_path, data):
    content = bytearray(trc(ROWS).encode())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "changed.trc").write_bytes(content)
    said = read_or_refused(tmp_path / "changed.trc")
    assert said == "read" or "changed.trc" in said


def read_or_refused(path: Path) -> str:
    try:
        assert np.isfinite(read_trc(path).joint_positions()).all()
    except MareyError as error:
        return str(error)
    return "read"


TABLE = "forces\nversion=1\nnRows=2\nnColumns=3\ninDegrees=no\nendheader\n\ntime\tfx\tfy\n0\t1.5\t2\n0.01\t3\t4e2\n"


def test_a_table_gives_its_columns_by_name(tmp_path):
    table = load_table(write(tmp_path / "a.mot", TABLE))
    assert table.names == ("time", "fx", "fy")
    np.testing.assert_array_equal(table["fy"], [2.0, 400.0])
    assert table.header["inDegrees"] == "no"
    assert len(table) == 2
    with pytest.raises(UnknownNameError, match="Did you mean 'fx'"):
        table["fxx"]


@pytest.mark.mocap
def test_the_measured_ground_reaction_carries_the_body(mocap):
    table = load_table(mocap / "opensim" / "grf_walk.mot")
    assert table.values.shape == (4778, 19)
    assert table["time"][1] == 0.0005
    push = table["ground_force_r_vy"] + table["ground_force_l_vy"]
    assert 500.0 < push[push > 50.0].mean() < 1000.0  # [N] a person's weight


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("time fx\n0 1\n", 1, "no line 'endheader'"),
        ("a=1\nendheader\n", 2, "no column names"),
        (TABLE + "0.02\t1\n", 11, "expected 3 values, found 2"),
        (TABLE + "0.02\tx\t1\n", 11, "not a number"),
        (TABLE + "0.02\tnan\t1\n", 11, "not finite"),
    ],
)
def test_a_damaged_table_is_named_by_its_line(tmp_path, text, line, message):
    with pytest.raises(FormatError, match=message) as caught:
        load_table(write(tmp_path / "bad.mot", text))
    assert caught.value.line == line
