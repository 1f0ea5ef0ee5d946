"""Foot plants from heights: one per effector and cycle, where they are, whatever the noise."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey import samples
from marey.base import BoolArray, FloatArray, InputError
from marey.contacts import PlantInterval, detect_events, detect_plants, detect_plants_by_threshold, plant_windows
from marey.io import load
from marey.locomotion.plants.clip import effector_flags, effector_positions
from marey.motion import Motion

FRAMES = 25


def cycle(values: FloatArray, start: float, stop: float, frames: int = FRAMES) -> FloatArray:
    """Values ``(F, ...)`` between two frames, at ``frames`` even places, the end excluded."""
    at = start + (stop - start) * np.arange(frames) / frames
    below = np.floor(at).astype(int)
    part = (at - below).reshape(-1, *[1] * (values.ndim - 1))
    return (1.0 - part) * values[below] + part * values[below + 1]


def begins(flags: BoolArray) -> FloatArray:
    return np.flatnonzero(flags[1:] & ~flags[:-1]) + 1


def labelled_gaits() -> Iterator[tuple[Motion, float]]:
    for speed in (0.8, 1.0, 1.3, 1.6, 1.9):
        yield samples.walk(speed, seconds=6.0), 0.0
    for speed in (2.5, 3.0, 3.5):
        yield samples.run(speed, seconds=5.0), 1.0


def labels(flags: BoolArray, start: int, stop: int) -> FloatArray:
    """True starts and ends ``(4, 2)`` as phases of a cycle, from a known contact track; NaN where it is cut."""
    found = np.full((4, 2), np.nan)
    for k in range(4):
        on = [f for f in begins(flags[:, k]) if start - 1 <= f < stop]
        off = [f for f in begins(~flags[:, k]) if on and f > on[0]]
        found[k] = (on[0] if on else np.nan, off[0] if off else np.nan)
    return (found - start) / (stop - start)


def labelled_cycles() -> Iterator[tuple[FloatArray, FloatArray, float, float]]:
    """Heights, true phases, share of running and length of a frame [cycles] of whole cycles."""
    for motion, run in labelled_gaits():
        assert motion.contacts is not None
        flags, points = effector_flags(motion.contacts), effector_positions(motion)
        strikes = begins(flags[:, 0])
        for start, stop in pairwise(strikes):
            truth = labels(flags, int(start), int(stop))
            yield cycle(points, start, stop)[..., 1], truth, run, 1.0 / (stop - start)


def test_glardon_a25_plants_start_and_end_where_they_are_known_to() -> None:
    """Cycles whose contacts are known by construction: labels to a frame, detection to one of 25."""
    near, count, cycles = 0, 0, 0
    for heights, truth, run, frame in labelled_cycles():
        found = np.array(detect_plants(heights, run=run)) / FRAMES
        known = np.isfinite(truth)
        near += int((np.abs(found - truth)[known] <= 1.0 / FRAMES + frame).sum())
        count, cycles = count + int(known.sum()), cycles + 1
    assert cycles >= 30
    assert near >= 0.95 * count


def test_glardon_a25_noise_splits_the_baseline_and_not_the_adaptive_plants() -> None:
    rng = np.random.default_rng(1)
    splits = 0
    for motion, run in labelled_gaits():
        assert motion.contacts is not None
        points = effector_positions(motion)
        noisy = points + rng.normal(0.0, 0.005, points.shape)
        strikes = begins(effector_flags(motion.contacts)[:, 0])
        for start, stop in pairwise(strikes):
            clean = detect_plants(cycle(points, start, stop)[..., 1], run=run)
            found = detect_plants(cycle(noisy, start, stop)[..., 1], run=run)
            assert all(plant.start < plant.stop for plant in found)
            assert np.median(np.abs(np.array(found) - np.array(clean))) <= 2.0
            baseline = detect_plants_by_threshold(noisy[start:stop], motion.rate_hz)
            splits += int(sum(len(begins(baseline[:, k])) > 1 for k in range(4)))
    assert splits > 20


def seen_strikes(clip: str, foot: str) -> list[float]:
    """Times [s] at which a foot lands, labelled by eye."""
    table = Path(__file__).parent / "labels" / "contacts.csv"
    with table.open() as rows:
        return [
            float(r["down_s"]) for r in csv.DictReader(rows) if (r["clip"], r["foot"]) == (clip, foot) and r["down_s"]
        ]


@pytest.mark.mocap
@pytest.mark.parametrize(("clip", "run"), [("07_12", 0), ("39_01", 0), ("35_29", 0), ("16_17", 0), ("127_08", 1)])
def test_glardon_a25_heel_strikes_of_captures_are_where_the_eye_sees_them(mocap: Path, clip: str, run: float) -> None:
    motion = load(mocap / "cmu-bvh" / f"{clip}.bvh")
    points, strikes = effector_positions(motion), seen_strikes(clip, "right")
    for start, stop in pairwise(strikes):
        heights = cycle(points, start * motion.rate_hz, stop * motion.rate_hz)[..., 1]
        found = detect_plants(heights, run=run)
        left = next(t for t in seen_strikes(clip, "left") if start < t < stop)
        assert abs(found[0].start) <= 1.01
        assert abs(found[2].start - FRAMES * (left - start) / (stop - start)) <= 1.0
    assert len(strikes) >= 2


@given(st.floats(-3.0, 3.0))
def test_an_offset_of_the_floor_cancels(offset: float) -> None:
    phases = np.arange(FRAMES) / FRAMES
    heights = np.stack([0.08 + 0.1 * np.maximum(0.0, -np.sin(2.0 * np.pi * (phases - s))) for s in (0, 0, 0.5, 0.5)], 1)
    plain, raised = np.array(detect_plants(heights)), np.array(detect_plants(heights + offset))
    np.testing.assert_allclose(raised, plain, atol=1e-6)


def test_crossings_lie_between_frames() -> None:
    """A V-shaped height crosses its threshold where two straight lines do."""
    frames = np.arange(100.0)
    heights = np.stack([np.abs(frames - 20.25)] * 4, axis=1)
    right_ankle = detect_plants(heights, windows=[[0.10, 0.30]] * 4, margin_m=0.0)[0]
    lowest = 0.25
    threshold = lowest + 0.4 * (0.5 * (10.25 + 9.75) - lowest)
    assert right_ankle == pytest.approx((20.25 - threshold, 20.25 + threshold), abs=1e-9)
    assert 5.0 < right_ankle.start < 20.0 < right_ankle.stop


def test_a_level_window_is_a_plant_as_a_whole() -> None:
    assert detect_plants(np.zeros((50, 4)))[0] == PlantInterval(2.0, 24.0)


def test_windows_of_walks_and_runs_are_mixed() -> None:
    np.testing.assert_allclose(plant_windows(0.5), 0.5 * (plant_windows(0.0) + plant_windows(1.0)))


def test_events_are_in_the_order_of_a_step() -> None:
    for heights, _, run, _ in labelled_cycles():
        events = detect_events(heights, run=run)
        for foot in (events[:4], events[4:]):
            strike, toe, lift, off = foot
            assert strike <= toe <= off and strike <= lift <= off


def test_bad_input_is_refused_in_words() -> None:
    with pytest.raises(InputError, match="at least four"):
        detect_plants(np.zeros((3, 4)))
    with pytest.raises(InputError, match="run is 2"):
        plant_windows(2.0)
    with pytest.raises(InputError, match="run is nan"):
        plant_windows(float("nan"))
    with pytest.raises(InputError):
        detect_plants(np.full((25, 4), np.nan))
    level = np.zeros((25, 4))
    for wrong in (
        {"delta": float("nan")},
        {"margin_m": "wide"},
        {"windows": [[0.5, 0.1]] * 4},
        {"windows": [[0, 1e9]] * 4},
    ):
        with pytest.raises(InputError):
            detect_plants(level, **wrong)
    with pytest.raises(InputError):
        detect_events(3.0)
    points = np.zeros((25, 4, 3))
    for wrong in ({"rate_hz": 0.0}, {"rate_hz": "fast"}, {"average": 0}, {"average": 2.5}, {"height_m": None}):
        with pytest.raises(InputError):
            detect_plants_by_threshold(points, **({"rate_hz": 30.0} | wrong))
    with pytest.raises(InputError, match="at least two"):
        detect_plants_by_threshold(points[:1], 30.0)
