"""Foot strikes, gait cycles, cadence."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy import signal

from marey import samples
from marey.io import load
from marey.motion import cadence, foot_strikes, gait_cycles, mean_speed, mirror, place, resample
from marey.motion.gait import find_peaks
from marey.skeleton import RoleMap

jump, run, walk = (cache(make) for make in (samples.jump, samples.run, samples.walk))


def test_peaks_are_those_of_an_independent_library():
    rng = np.random.default_rng(5)
    values = np.cumsum(rng.standard_normal(400)) * 0.1
    values += np.sin(np.arange(400) / 7.0)
    ours = find_peaks(values, 0.3, 20)
    theirs = signal.find_peaks(values, prominence=0.3, distance=20)[0]
    assert set(ours) <= set(signal.find_peaks(values, prominence=0.3)[0])
    assert len(set(ours) ^ set(theirs)) <= 4  # they thin close peaks before, we after weighing prominence


@pytest.mark.parametrize("make", [walk, run])
def test_cycles_of_a_sample_have_its_speed_and_step_rate(make):
    clip = make()
    cycles = gait_cycles(clip)
    assert len(cycles) >= 4
    assert {cycle.side for cycle in cycles} == {"left", "right"}
    for cycle in cycles:
        assert cycle.speed_mps == pytest.approx(mean_speed(clip), rel=0.03)
        assert cycle.cadence_spm == pytest.approx(cadence(clip), rel=0.08)
        assert cycle.stride_m == pytest.approx(cycle.speed_mps * cycle.duration_s)
        assert cycle.start < cycle.opposite < cycle.stop
        assert not cycle.is_treadmill


def test_strikes_of_the_two_feet_alternate():
    strikes = foot_strikes(walk())
    order = sorted((int(frame), side) for side in ("left", "right") for frame in strikes[side])
    sides = [side for _, side in order]
    assert len(sides) >= 6 and all(a != b for a, b in pairwise(sides))


def test_a_strike_comes_when_the_foot_lands():
    clip = walk()
    for side in ("left", "right"):
        heel = clip.contacts.track(f"{side}_heel")
        landings = np.flatnonzero(heel[1:] & ~heel[:-1]) + 1
        for strike in foot_strikes(clip)[side]:
            assert np.abs(landings - strike).min() <= 0.1 * clip.rate_hz


def test_the_same_walk_elsewhere_and_otherwise_headed_has_the_same_strikes():
    a, b = foot_strikes(walk()), foot_strikes(place(walk(), (10.0, -4.0), 2.0))
    np.testing.assert_array_equal(a["left"], b["left"])
    np.testing.assert_array_equal(a["right"], b["right"])


def test_the_mirrored_walk_strikes_with_the_other_foot():
    a, b = foot_strikes(walk()), foot_strikes(mirror(walk()))
    assert np.abs(a["left"] - b["right"]).max() <= 1 and np.abs(a["right"] - b["left"]).max() <= 1


def test_speed_does_not_depend_on_the_frame_rate():
    speeds = [np.mean([c.speed_mps for c in gait_cycles(resample(walk(), hz))]) for hz in (30.0, 60.0, 120.0)]
    assert np.ptp(speeds) < 0.02


def test_on_a_treadmill_the_belt_gives_the_speed():
    clip = walk()
    path = clip.root_positions.copy()
    path[:, 2] -= np.linspace(0.0, path[-1, 2] - path[0, 2], len(path))
    cycles = gait_cycles(replace(clip, root_positions=path))
    assert cycles and all(cycle.is_treadmill for cycle in cycles)
    assert np.mean([cycle.speed_mps for cycle in cycles]) == pytest.approx(mean_speed(clip), rel=0.25)


def test_a_jump_and_a_stand_have_no_cycles_and_no_cadence():
    still = walk()[:1]
    assert gait_cycles(jump()) == ()
    assert gait_cycles(still) == () and cadence(still) == 0.0


def test_a_body_without_legs_has_no_strikes():
    strikes = foot_strikes(walk(), RoleMap({}, "given"))
    assert len(strikes["left"]) == len(strikes["right"]) == 0


@pytest.mark.mocap
@pytest.mark.parametrize(
    ("name", "steps_per_min", "speed_mps"),
    [("07_01", 111, 1.37), ("07_05", 77, 0.98), ("09_01", 153, 3.56), ("35_01", None, 1.29), ("69_02", None, 0.87)],
)
def test_captured_gait_has_the_tabulated_step_rate_and_speed(mocap, name, steps_per_min, speed_mps):
    clip = load(mocap / "cmu-bvh" / f"{name}.bvh")
    if steps_per_min is not None:
        assert cadence(clip) == pytest.approx(steps_per_min, rel=0.12)
    assert mean_speed(clip) == pytest.approx(speed_mps, abs=0.02)
    assert np.mean([c.speed_mps for c in gait_cycles(clip)]) == pytest.approx(speed_mps, rel=0.12)
