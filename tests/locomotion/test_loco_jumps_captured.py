"""Jumps found in captured trials, and models fitted to them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from oracles.jump_scores import score_left_out_jumps

from marey.base import InputError, MissingFileError
from marey.lie import SO3
from marey.locomotion.fitting.jumps import capture_jumps, find_jump_fault, fit_jumps, fit_kind
from marey.locomotion.fitting.trials import JUMP_GAITS, Manifest, TrialGroup, load_manifest, make_loader
from marey.locomotion.units.captured_jumps import (
    CapturedJump,
    canonical_steps,
    find_leaps,
    find_standing_jumps,
    retarget_to_body,
    sample_captured_jump,
)
from marey.locomotion.units.gait_unit import joint_means, rotations_from_rows
from marey.motion import centre_of_mass
from marey.skeleton import HUMAN, contact_points

pytestmark = pytest.mark.mocap
SMALL = {
    "walk": ("133_04", "35_01"),
    "run": ("49_05", "127_21", "127_27", "38_03", "35_17", "16_35"),
    "standing": ("118_06", "118_15", "118_20", "118_27"),
}


def subjects(names: tuple[str, ...]) -> dict[str, str]:
    return {name: name.partition("_")[0] for name in names}


def small_manifest() -> Manifest:
    kinds = {kind: gait for gait, kind in JUMP_GAITS.items()}
    return Manifest(
        tuple(TrialGroup(s, kinds[k], (n,)) for k, names in SMALL.items() for n, s in subjects(names).items())
    )


@lru_cache
def leaps(folder: Path, name: str) -> tuple[CapturedJump, ...]:
    return tuple(find_leaps(retarget_to_body(make_loader(folder, load_manifest().rates)(name), HUMAN)))


def longest(folder: Path, name: str) -> CapturedJump:
    return max(leaps(folder, name), key=lambda jump: jump.flight_s)


@pytest.mark.parametrize(
    ("name", "length_m", "is_mirrored"),
    [
        ("49_05", 1.70, False),
        ("49_04", 1.79, True),
        ("127_21", 2.2, True),
        ("127_27", 1.8, False),
        ("133_04", 1.0, True),
    ],
)
def test_the_known_leaps_are_found_with_their_lengths(
    mocap: Path, name: str, length_m: float, is_mirrored: bool
) -> None:
    """Lengths measured by other means, from other points of the foot."""
    leap = longest(mocap, name)
    assert leap.is_mirrored is is_mirrored
    assert leap.length_m == pytest.approx(length_m, abs=0.2)
    assert leap.flight_s > 0.3


def test_a_found_leap_goes_ahead_from_the_right_foot_to_the_left(mocap: Path) -> None:
    for name in ("49_04", "49_05"):
        leap = longest(mocap, name)
        motion = leap.motion
        points = contact_points(HUMAN)
        feet = points.positions(*motion.joint_frames())
        off, land = (round(t * motion.rate_hz) for t in leap.knots[1:3])
        assert feet[: off - 2, points.index("right_toe"), 1].min() == pytest.approx(0.0, abs=0.02)
        assert feet[land + 2 : land + 8, points.index("left_toe"), 1].min() < 0.03
        way = centre_of_mass(motion)[land] - centre_of_mass(motion)[off]
        assert abs(way[0]) < 0.02 < 1.0 < way[2]


@pytest.mark.parametrize(
    "name",
    [
        "49_05",
        "127_21",
        "127_27",
    ],
)
def test_captured_flights_fall_at_g_on_the_models_body(mocap: Path, name: str) -> None:
    leap = longest(mocap, name)
    off, land = (round(t * leap.motion.rate_hz) for t in leap.knots[1:3])
    part = slice(off + 3, land - 2)
    fitted = np.polyfit(leap.motion.times()[part], centre_of_mass(leap.motion)[part, 1], 2)
    assert 2.0 * fitted[0] == pytest.approx(leap.fall_mps2, abs=0.7)
    assert -12.0 < leap.fall_mps2 < -8.0


def test_a_flight_read_at_twice_its_rate_is_refused(mocap: Path) -> None:
    wrong = find_leaps(retarget_to_body(make_loader(mocap, {})("75_04"), HUMAN))  # the header says 120 Hz, it was 60
    right = find_leaps(retarget_to_body(make_loader(mocap, load_manifest().rates)("75_04"), HUMAN))
    assert min(jump.fall_mps2 for jump in wrong) < -25.0
    assert any(find_jump_fault(jump, "run") is None and jump.flight_s > 0.25 for jump in right)


def test_standing_jumps_are_found_from_rest_to_rest(mocap: Path) -> None:
    body = retarget_to_body(make_loader(mocap)("118_27"), HUMAN)
    (jump,) = find_standing_jumps(body)
    assert jump.length_m == pytest.approx(1.25, abs=0.1)
    speed = np.linalg.norm(np.diff(jump.motion.root_positions, axis=0), axis=1) * jump.motion.rate_hz
    assert max(speed[0], speed[-1]) < 0.25
    assert np.all(np.diff(jump.knots) > 0.0)
    assert np.all(np.diff(jump.events) >= 0.0)


def test_faults_are_told(mocap: Path) -> None:
    slow = min(leaps(mocap, "38_03"), key=lambda jump: jump.length_m)
    assert find_jump_fault(slow, "walk") in (None, "a run", "too short", "too fast for a walk")
    assert find_jump_fault(longest(mocap, "49_05"), "walk") == "too fast for a walk"
    assert find_jump_fault(longest(mocap, "49_05"), "run") is None


def test_a_small_fit_gives_the_captured_jumps_back(mocap: Path) -> None:
    """The mean joint is within ten degrees of the capture, over the leaps that a model was fitted to."""
    jumps = capture_jumps(make_loader(mocap), "run", subjects(SMALL["run"]))
    means = joint_means(np.concatenate([jump.motion.rotations.wxyz[::6] for jump in jumps]))
    model = fit_kind("run", jumps, means)
    for jump in [jump for jump in jumps if jump.flight_s > 0.3]:
        mix = model.mix_people({jump.subject: 1.0})
        made = rotations_from_rows(model.rows(mix, jump.length_m / model.leg_length_m, jump.flight_s), means)
        own = rotations_from_rows(sample_captured_jump(jump, means, canonical_steps("run")), means)
        assert np.rad2deg((SO3(made).inverse() @ SO3(own)).angle()).mean() < 10.0


def test_a_jump_that_was_left_out_is_foretold(mocap: Path) -> None:
    means = joint_means(longest(mocap, "49_05").motion.rotations.wxyz[::4])
    scores = score_left_out_jumps(mocap, small_manifest(), means=means, kinds=("standing",))
    assert [score.clip for score in scores] == list(SMALL["standing"])
    assert 5.0 < np.mean([score.angle_deg for score in scores]) < 25.0  # four jumps of one person tell little
    assert max(abs(score.length_error_m) for score in scores[1:3]) < 0.1
    assert max(abs(score.duration_error_s) for score in scores) < 1.5


@pytest.mark.slow
def test_fitting_all_kinds_tells_what_it_took(mocap: Path) -> None:
    told: list[str] = []
    jumps = fit_jumps(mocap, small_manifest(), report=told.append)
    assert set(jumps) == {"walk", "run", "standing"}
    assert any("49_05" in line and "taken" in line for line in told)
    for kind, model in jumps.items():
        assert np.isfinite(model.unit(float(model.captured[1])).rows).all()
        assert model.kind == kind


def test_missing_trials_and_trials_without_jumps_are_refused(mocap: Path) -> None:
    with pytest.raises(MissingFileError, match="999_99"):
        make_loader(mocap)("999_99")
    with pytest.raises(InputError, match="no jump of kind 'standing'"):
        capture_jumps(make_loader(mocap), "standing", {"35_01": "35"})
