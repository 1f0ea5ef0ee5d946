"""Adaptive foot plants against labels that were set by eye (Glardon A25)."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from marey.contacts import detect_plants
from marey.io import load
from marey.locomotion.plants.clip import effector_positions

FRAMES = 25
CLIPS = {"07_12": 0.0, "39_01": 0.0, "35_29": 0.0, "16_17": 0.0, "127_08": 1.0}
TABLE = Path(__file__).parents[1] / "contacts" / "labels" / "contacts.csv"


def read_labels(clip: str, foot: str, column: str) -> list[float]:
    with TABLE.open() as rows:
        return [float(r[column]) for r in csv.DictReader(rows) if (r["clip"], r["foot"]) == (clip, foot) and r[column]]


def measure_errors(mocap: Path) -> tuple[np.ndarray, int]:
    """Errors [frames of 25] of landings and toe offs of both feet, and the number of labelled cycles."""
    errors: list[float] = []
    cycles = 0
    for clip, run in CLIPS.items():
        motion = load(mocap / "cmu-bvh" / f"{clip}.bvh")
        points = effector_positions(motion)[..., 1]
        for start, stop in pairwise(read_labels(clip, "right", "down_s")):
            at = (start + (stop - start) * np.arange(FRAMES) / FRAMES) * motion.rate_hz
            heights = np.stack([np.interp(at, np.arange(len(points)), column) for column in points.T], axis=1)
            found, cycles = detect_plants(heights, run=run), cycles + 1
            for foot, ankle, toe in (("right", 0, 1), ("left", 2, 3)):
                for column, told in (("down_s", found[ankle].start), ("up_s", found[toe].stop)):
                    seen = [(t - start) / (stop - start) * FRAMES for t in read_labels(clip, foot, column)]
                    inside = [t for t in seen if 0.0 <= t <= FRAMES]
                    errors += [min(abs(told + k * FRAMES - t) for k in (-1, 0, 1)) for t in inside[:1]]
    return np.array(errors), cycles


@pytest.mark.mocap
@pytest.mark.xfail(strict=True, reason="7 labelled cycles (asked: 30), 61 % within a frame of 25 (asked: 95 %)")
def test_glardon_a25_plants_of_captures_start_and_end_where_the_eye_sees_it(mocap):
    errors, cycles = measure_errors(mocap)
    assert cycles >= 30
    assert np.mean(errors <= 1.0) >= 0.95
