"""What the library guesses a clip to show."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest

from marey import samples
from marey.io import load
from marey.library.ingest import guess_behaviour, guess_subject, mean_leg_length, measure_features
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import HUMAN, Skeleton

BEHAVIOURS = ("walk", "run", "jump", "turn", "stand", "pick-up", "acrobatic", "other")


def standing(seconds: float = 3.0, rate_hz: float = 30.0) -> Motion:
    frames = round(seconds * rate_hz)
    return Motion(HUMAN, rate_hz, np.tile(HUMAN.offsets[0], (frames, 1)), SO3.identity(frames, HUMAN.num_joints))


@pytest.mark.parametrize("name", ["walk", "run", "jump"])
def test_a_synthetic_clip_is_what_it_is_called(name):
    assert guess_behaviour(measure_features(samples.load(name))) == name


def test_a_body_at_rest_stands():
    assert guess_behaviour(measure_features(standing())) == "stand"


def test_a_body_that_spins_in_place_turns():
    still = standing()
    yaw = np.linspace(0.0, np.pi, still.num_frames)
    turns = still.rotations.wxyz.copy()
    turns[:, 0] = SO3.exp(np.stack([0 * yaw, yaw, 0 * yaw], axis=-1)).wxyz
    features = measure_features(replace(still, rotations=SO3(turns)))
    assert features.heading_change_rad == pytest.approx(np.pi, abs=1e-6)
    assert guess_behaviour(features) == "turn"


def test_a_body_upside_down_is_an_acrobat():
    still = standing()
    turns = still.rotations.wxyz.copy()
    turns[30:50, 0] = (0.0, 1.0, 0.0, 0.0)  # half a turn about x
    assert guess_behaviour(measure_features(replace(still, rotations=SO3(turns)))) == "acrobatic"


def test_turning_left_is_positive_and_counts_full_turns():
    still = standing()
    yaw = np.linspace(0.0, 5.0 * np.pi, still.num_frames)
    turns = still.rotations.wxyz.copy()
    turns[:, 0] = SO3.exp(np.stack([0 * yaw, yaw, 0 * yaw], axis=-1)).wxyz
    assert measure_features(replace(still, rotations=SO3(turns))).heading_change_rad == pytest.approx(5.0 * np.pi)


def test_a_skeleton_without_legs_still_has_features():
    names, parents = ("root", "a", "b"), np.array([-1, 0, 1])
    skeleton = Skeleton(names, parents, np.array([[0.0, 1.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.2, 0.0]]))
    motion = Motion(skeleton, 30.0, np.tile([0.0, 1.0, 0.0], (20, 1)), SO3.identity(20, 3))
    assert mean_leg_length(skeleton) > 0.0
    assert guess_behaviour(measure_features(motion)) in BEHAVIOURS


def test_a_single_frame_has_features():
    assert guess_behaviour(measure_features(standing()[5:6])) in BEHAVIOURS


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        ("07_01", "7"),
        ("7_02", "7"),
        ("141_25", "141"),
        ("07_05-walk", "7"),
        ("subject12_trial", None),
        ("subject12_3", "12"),
        ("walk", None),
        ("walk_01", None),
        ("2024", None),
    ],
)
def test_the_subject_is_read_from_trial_names(name, subject):
    assert guess_subject(name) == subject


KINDS = {
    "1": {"walk"},
    "2": {"run"},
    "3": {"jump"},
    "4": {"jump", "run", "acrobatic"},  # transitions
    "5": {"turn"},
    "6": {"acrobatic"},
}


@pytest.mark.mocap
def test_nine_of_ten_captured_clips_are_recognised(mocap):
    """Every second trial of the index, everyday clips left out: they have no kind of their own."""
    with (mocap / "index.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["category"][0] in KINDS][::2]
    guesses = [guess_behaviour(measure_features(load(mocap / "cmu-bvh" / row["file"]))) for row in rows]
    hits = [guess in KINDS[row["category"][0]] for guess, row in zip(guesses, rows, strict=True)]
    assert np.mean(hits) >= 0.9
