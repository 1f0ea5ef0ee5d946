"""Clips for a behaviour are chosen by their contacts and by where they go (F6)."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import InputError
from marey.io import load
from marey.spacetime import build_jump_problem, build_run_problem, build_walk_problem, select_clips
from marey.spacetime.problem.builders import _flight_rise, encode_phase_pattern


def test_phases_of_a_problem_are_letters():
    assert encode_phase_pattern(build_jump_problem()) == "B-B"
    assert encode_phase_pattern(build_walk_problem((0.7, 0.7))) == "LBRBL"
    assert encode_phase_pattern(build_run_problem((1.2, 1.2))) == "L-R-L"


def test_the_rise_of_a_flight_is_that_of_free_fall():
    assert _flight_rise(0.4) == pytest.approx(9.81 * 0.2**2 / 2.0)


@pytest.fixture(scope="module")
def clips(mocap):
    names = ("83_46", "83_51", "83_54", "118_10", "35_01", "35_02", "35_17", "35_18")
    return names, [load(mocap / "cmu-bvh" / f"{name}.bvh") for name in names]


@pytest.mark.mocap
def test_jumps_are_found_for_a_jump_and_the_turned_one_for_a_turn(clips):
    names, motions = clips
    chosen = select_clips(motions, build_jump_problem(0.0, 180.0), count=3)
    assert set(np.array(names)[list(chosen.indices)]) <= {"83_46", "83_51", "83_54", "118_10"}
    assert names[chosen.indices[0]] == "83_54"
    assert names[select_clips(motions, build_jump_problem(0.3, 90.0)).indices[0]] == "83_51"


@pytest.mark.mocap
def test_walks_are_found_for_a_walk_and_runs_for_a_run(clips):
    names, motions = clips
    assert set(np.array(names)[list(select_clips(motions, build_walk_problem((0.7, 0.7))).indices)]) == {
        "35_01",
        "35_02",
    }
    runs = select_clips(motions, build_run_problem((1.2, 1.2)))
    assert set(np.array(names)[list(runs.indices)]) == {"35_17", "35_18"}
    assert "narrow" in runs.report[0]


@pytest.mark.mocap
def test_contacts_that_no_clip_shows_are_refused(clips):
    with pytest.raises(InputError, match="no example"):
        select_clips(clips[1][4:6], build_run_problem((1.2, 1.2)))
