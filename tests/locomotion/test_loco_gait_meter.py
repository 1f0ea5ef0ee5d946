"""Gaits of the engine by the meter, which reads no flag of the engine; bars of the specification of feet and gait."""

from __future__ import annotations

import numpy as np
import pytest

from marey.locomotion import Engine, load_model
from marey.measure import Measurement, measure_motion

RATE_HZ = 120.0
MOST_SCRAPED = 2.1  # [m/10 m] most of captured walks of these speeds
# [m/10 m] at a speed [m/s]: the median of the captures of the manifest within 0.3 m/s in a walk and 0.6 m/s in a run
# (benchmarks/gait_table.py); below 0.5 m/s there is one, 91_57
MEDIANS = {0.3: 0.56, 0.5: 2.11, 0.8: 0.76, 1.0: 0.71, 1.4: 0.82, 1.8: 0.83, 2.2: 1.33}
RUN_MEDIANS = {2.5: 0.28, 3.0: 0.29, 3.5: 0.30, 4.0: 0.30, 4.5: 0.39}
TURN_MEDIAN = 0.78  # of straight captured walks of 1.2 m/s: the manifest has no steady turns
LEAST_MM = 10.0
KNEE = "knee_acceleration_120hz_p99_deg_per_s2"


def measured(
    style: str | None, speed: float, run: float, turn_rate: float = 0.0, *, plants: bool = True
) -> Measurement:
    engine = Engine(load_model(), style=style, speed=speed, run=run, turn_rate=turn_rate, plants=plants)
    engine.run(1.0, RATE_HZ)
    return measure_motion(engine.run(6.0, RATE_HZ), kind="run" if run else "walk")


@pytest.mark.parametrize("style", [None, "35"])
@pytest.mark.parametrize("speed", [0.5, 0.8, 1.0, 1.4, 1.8, 2.2])
def test_walks_scrape_no_more_than_captures_and_clear_the_floor(speed: float, style: str | None) -> None:
    found = measured(style, speed, 0.0)
    assert found["scraped_m_per_10m"] <= 1.2 * MOST_SCRAPED
    assert found["swing_clearance_median_mm"] >= LEAST_MM
    assert found["swing_dragging_share"] == 0.0
    assert found["inverted_knee_frames"] == 0.0


@pytest.mark.parametrize("speed", MEDIANS)
def test_walks_scrape_no_more_than_the_usual_capture(speed: float) -> None:
    found = measured(None, speed, 0.0)
    assert found["scraped_m_per_10m"] <= 1.2 * MEDIANS[speed]
    assert found["swing_clearance_median_mm"] >= LEAST_MM


@pytest.mark.parametrize("speed", RUN_MEDIANS)
def test_runs_scrape_no_more_than_the_usual_capture_and_clear_the_floor(speed: float) -> None:
    found = measured(None, speed, 1.0)
    assert found["scraped_m_per_10m"] <= 1.2 * RUN_MEDIANS[speed]
    assert found["swing_clearance_median_mm"] >= LEAST_MM
    assert found["inverted_knee_frames"] == 0.0


@pytest.mark.parametrize(("speed", "run"), [(1.4, 0.0), (1.8, 0.0), (3.0, 1.0), (3.5, 1.0), (4.0, 1.0)])
def test_plants_add_no_tick_to_the_knees(speed: float, run: float) -> None:
    assert measured(None, speed, run)[KNEE] <= 1.5 * measured(None, speed, run, plants=False)[KNEE]


@pytest.mark.parametrize(("speed", "run"), [(0.3, 0.0), (0.5, 0.0), (1.0, 0.0), (2.2, 0.0), (2.5, 1.0)])
def test_plants_add_no_tick_to_the_knees_at_any_speed(speed: float, run: float) -> None:
    assert measured(None, speed, run)[KNEE] <= 1.5 * measured(None, speed, run, plants=False)[KNEE]


@pytest.mark.parametrize("turn_rate", [1.0, 2.0])
def test_turns_scrape_no_more_than_the_usual_straight_capture(turn_rate: float) -> None:
    assert measured(None, 1.2, 0.0, turn_rate)["scraped_m_per_10m"] <= 1.2 * TURN_MEDIAN


@pytest.mark.parametrize(("speed", "run"), [(0.5, 0.0), (1.4, 0.0), (3.0, 1.0)])
def test_the_root_goes_at_the_speed_asked(speed: float, run: float) -> None:
    engine = Engine(load_model(), speed=speed, run=run)
    motion = engine.run(30.0, 60.0)
    way = np.hypot(*(motion.root_positions[-1] - motion.root_positions[0])[[0, 2]])
    assert way == pytest.approx(30.0 * speed, rel=0.005)


def test_a_plant_out_of_reach_is_reported_and_not_taken_back() -> None:
    engine = Engine(load_model())
    engine.run(0.5)
    assert engine.contacts.all() and not engine.broken.any()
    engine._walker.place(0.25, (0.0, 0.6), 0.0)  # the body is pulled away from its feet
    engine.run(0.1)
    assert engine.contacts[1] or engine.contacts[3]
    assert engine.broken.all()
