"""Measured ground reaction: columns of OpenSim by any of their names, sums, and damaged tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marey.base import FormatError, InputError
from marey.io import GroundReaction, load_ground_reaction

AXES = "xyz"


def table(folder: Path, names: list[str], rows: list[list[float]]) -> Path:
    lines = ["reaction", "version=1", "endheader", "\t".join(names), *("\t".join(map(str, row)) for row in rows)]
    path = folder / "grf.mot"
    path.write_text("\n".join(lines))
    return path


def columns(force: str, torque: str) -> list[str]:
    return [*(f"{force}_v{a}" for a in AXES), *(f"{force}_p{a}" for a in AXES), *(f"{torque}_{a}" for a in AXES)]


@pytest.mark.parametrize(
    ("right", "left", "names"),
    [
        (("ground_force_r", "ground_torque_r"), ("ground_force_l", "ground_torque_l"), ("right", "left")),
        (("r_ground_force", "r_ground_torque"), ("l_ground_force", "l_ground_torque"), ("right", "left")),
        (("ground_force", "ground_torque"), ("1_ground_force", "1_ground_torque"), ("0", "1")),
        (("ground_force_1", "ground_moment_1"), ("ground_force_2", "ground_moment_2"), ("1", "2")),
    ],
)
def test_columns_are_found_by_each_of_their_usual_names(tmp_path, right, left, names):
    head = ["time", *columns(*right), *columns(*left)]
    rows = [[0.0, *range(1, 19)], [0.5, *range(1, 19)]]
    found = load_ground_reaction(table(tmp_path, head, rows))
    assert found.names == names
    np.testing.assert_array_equal(found.forces[0], [[1, 2, 3], [10, 11, 12]])
    np.testing.assert_array_equal(found.places[0], [[4, 5, 6], [13, 14, 15]])
    np.testing.assert_array_equal(found.moments[0], [[7, 8, 9], [16, 17, 18]])


def reaction() -> GroundReaction:
    times = np.array([0.0, 1.0])
    forces = np.array([[[0.0, 100.0, 0.0]], [[0.0, 300.0, 0.0]]])
    return GroundReaction(("right",), times, forces, np.ones((2, 1, 3)), np.zeros((2, 1, 3)))


def test_values_between_rows_are_interpolated_and_zero_past_the_ends():
    found = reaction().at(np.array([-1.0, 0.25, 2.0]))
    np.testing.assert_allclose(found.forces[:, 0, 1], [0.0, 150.0, 0.0])
    np.testing.assert_array_equal(found.is_loaded()[:, 0], [False, True, False])


def test_the_wrench_is_about_the_world_origin():
    force, moment = reaction().wrench()[0, :3], reaction().wrench()[0, 3:]
    np.testing.assert_allclose(force, [0.0, 100.0, 0.0])
    np.testing.assert_allclose(moment, np.cross([1.0, 1.0, 1.0], force))
    assert "right" in repr(reaction())


@pytest.mark.parametrize(
    ("names", "rows", "says"),
    [
        (["t", "ground_force_vx"], [[0.0, 1.0]], "time"),
        (["time", "knee_angle"], [[0.0, 1.0], [1.0, 1.0]], "ground force"),
        (["time", "ground_force_vx", "ground_force_vy"], [[0.0, 1.0, 1.0], [1.0, 1.0, 1.0]], "ground force"),
        (["time", *(f"ground_force_v{a}" for a in AXES)], [[1.0, 0, 0, 0], [0.0, 0, 0, 0]], "rise"),
        (["time", *(f"ground_force_v{a}" for a in AXES)], [[1.0, 0, 0, 0]], "rise"),
    ],
)
def test_tables_without_ground_reaction_are_refused(tmp_path, names, rows, says):
    with pytest.raises(FormatError, match=says):
        load_ground_reaction(table(tmp_path, names, rows))


@pytest.mark.mocap
def test_the_trial_of_opensim_has_two_feet_and_carries_a_body(mocap):
    found = load_ground_reaction(mocap / "opensim" / "grf_walk.mot")
    assert set(found.names) == {"left", "right"}
    assert len(found.times) == 4778
    total = found.wrench()[:, 1]
    assert 900.0 < total.max() < 1200.0
    loaded = found.is_loaded(100.0)
    assert np.abs(found.places[loaded][:, 1]).max() < 0.02


@pytest.mark.parametrize("times", [[], [1.0, 0.0]])
def test_no_rows_or_falling_times_are_refused(times):
    empty = np.zeros((len(times), 1, 3))
    with pytest.raises(InputError, match="rows of ground reaction"):
        GroundReaction(("right",), np.array(times), empty, empty, empty)
