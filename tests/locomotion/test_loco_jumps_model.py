"""Jumps of the shipped model: lengths, flights, feet, sizes, laws, files."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest

from marey.base import FloatArray, InputError, UnknownNameError
from marey.lie import SO3
from marey.locomotion import load_model
from marey.locomotion.model.jump_model import JumpModel
from marey.locomotion.planning.run_up import THESIS_LAWS, RunUpLaw, fit_run_up
from marey.locomotion.units.jump_unit import JumpUnit
from marey.motion import Motion, centre_of_mass, mirror
from marey.skeleton import HUMAN, contact_points

KINDS = ("walk", "run", "standing")
RATE_HZ = 480.0
STYLES = (None, {"16": 1.0}, {"35": 0.5, "16": 0.5}, {"118": 1.0, "49": 1.0, "133": 1.0})


@lru_cache
def jumps() -> dict[str, JumpModel]:
    return dict(load_model().jumps)


def lengths(kind: str, count: int) -> list[float]:
    """Normalised lengths over all that a kind can do."""
    low, high = (float(x) for x in jumps()[kind].limits)
    return np.linspace(low, high, count).tolist()


def known_lengths(kind: str, count: int) -> list[float]:
    """Normalised lengths up to the longest captured."""
    model = jumps()[kind]
    return np.linspace(float(model.limits[0]), float(model.captured[1]), count).tolist()


def played(unit: JumpUnit, means: FloatArray) -> Motion:
    """A unit as a clip for its own size, by cubic interpolation that is not the model's own."""
    from scipy.interpolate import CubicSpline

    times = np.linspace(0.0, unit.duration_s, len(unit.rows))
    at = np.arange(int(unit.duration_s * RATE_HZ) + 1) / RATE_HZ
    rows = CubicSpline(times, unit.rows)(at)
    body = HUMAN.scaled(unit.leg_length_m / jumps()["run"].leg_length_m)
    turns = SO3(means) @ SO3.exp(rows[:, 3:].reshape(len(rows), -1, 3))
    return Motion(body, RATE_HZ, rows[:, :3] * unit.leg_length_m, turns)


def fall(unit: JumpUnit, means: FloatArray) -> float:
    """Vertical acceleration [m/s²] of the centre of mass, fitted to the flight."""
    motion = played(unit, means)
    phases = motion.times() / unit.duration_s
    start, stop = unit.flight
    flying = (phases > start + 0.1 * (stop - start)) & (phases < stop - 0.1 * (stop - start))
    return 2.0 * float(np.polyfit(motion.times()[flying], centre_of_mass(motion)[flying, 1], 2)[0])


def soles(motion: Motion) -> FloatArray:
    """Heights (F, 4) [m] of the left heel and ball, the right heel and ball."""
    points = contact_points(motion.skeleton)
    names = ("left_heel", "left_toe", "right_heel", "right_toe")
    return points.positions(*motion.joint_frames())[:, [points.index(name) for name in names], 1]


@pytest.mark.parametrize("kind", KINDS)
def test_glardon_a15_a_jump_is_as_long_as_requested(kind: str) -> None:
    model = jumps()[kind]
    for style in STYLES:
        for length in known_lengths(kind, 7):
            assert abs(model.unit(length, style).length_m - length * model.leg_length_m) <= 0.03


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.xfail(strict=True, reason="11.1 cm")) if kind == "run" else kind
        for kind in KINDS
    ],
)
def test_glardon_a15_without_calibration_within_8_cm(kind: str) -> None:
    model = jumps()[kind]
    for length in known_lengths(kind, 7):
        assert abs(model.unit(length, calibrated=False).length_m - length * model.leg_length_m) <= 0.08


@pytest.mark.parametrize("kind", KINDS)
def test_glardon_a15_length_is_monotone(kind: str) -> None:
    for calibrated in (True, False):
        made = [jumps()[kind].unit(length, calibrated=calibrated).length_m for length in known_lengths(kind, 12)]
        assert np.all(np.diff(made) > 0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_length_is_what_forward_kinematics_measures(kind: str) -> None:
    model = jumps()[kind]
    leaving, landing = (("left", "right"),) * 2 if kind == "standing" else (("right",), ("left",))
    for length in known_lengths(kind, 4):
        unit = model.unit(length)
        motion = played(unit, model.means)
        points = contact_points(HUMAN)
        feet = points.positions(*motion.joint_frames())[..., 2]
        off, land = (round(phase * unit.duration_s * RATE_HZ) for phase in unit.flight)
        toes = np.mean([motion.joint_positions()[off - 4, HUMAN.index(f"{side}_foot"), 2] for side in leaving])
        heels = np.mean([feet[land + 4, points.index(f"{side}_heel")] for side in landing])
        assert abs(heels - toes - unit.requested_m) <= 0.04


@pytest.mark.parametrize("kind", KINDS)
def test_glardon_a16_flights_fall_at_g(kind: str) -> None:
    model = jumps()[kind]
    for style in STYLES:
        for length in lengths(kind, 5):
            assert -12.0 <= fall(model.unit(length, style), model.means) <= -7.0


def test_flights_of_the_shipped_jumps_fall_within_two_percent_of_g() -> None:
    for kind in KINDS:
        for length in known_lengths(kind, 5)[1:]:
            assert fall(jumps()[kind].unit(length), jumps()[kind].means) == pytest.approx(-9.81, rel=0.02)


def test_a_child_and_a_giant_fall_at_g_too_and_leg_scaling_keeps_the_time() -> None:
    model = jumps()["run"]
    own = model.unit(1.5)
    for leg_m in (0.5, 1.2):
        unit = model.unit(1.5, leg_length_m=leg_m)
        assert fall(unit, model.means) == pytest.approx(-9.81, rel=0.03)
        assert unit.duration_s == pytest.approx(own.duration_s * np.sqrt(leg_m / model.leg_length_m))
        assert unit.length_m == pytest.approx(own.length_m * leg_m / model.leg_length_m)
        assert model.unit(1.5, leg_length_m=leg_m, scaling="leg").duration_s == pytest.approx(own.duration_s)


@pytest.mark.parametrize("kind", ["walk", "run"])
def test_a_leap_leaves_from_the_right_foot_and_lands_on_the_left(kind: str) -> None:
    model = jumps()[kind]
    for length in known_lengths(kind, 5)[2:]:
        unit = model.unit(length)
        motion = played(unit, model.means)
        heights = soles(motion)
        instants = (unit.flight[0], float(np.mean(unit.flight)), unit.flight[1])
        start, middle, stop = (round(phase * unit.duration_s * RATE_HZ) for phase in instants)
        assert heights[start, 3] < 0.03 < 0.05 < heights[start, :2].min()
        assert heights[middle].min() > 0.05
        assert heights[stop, :2].min() < 0.03 < 0.05 < heights[stop, 2:].min()


@pytest.mark.xfail(strict=True, reason="2.1 mm against 2: captures keep their arms and thorax")
def test_a_standing_jump_is_the_same_on_both_sides() -> None:
    model = jumps()["standing"]
    motion = played(model.unit(1.0), model.means)
    other = mirror(motion)
    assert np.abs(motion.joint_positions() - other.joint_positions()).max() < 2e-3
    flying = round(np.mean(model.unit(1.0).flight) * model.unit(1.0).duration_s * RATE_HZ)
    assert soles(motion)[flying].min() > 0.1


def feet_down(unit: JumpUnit, phase: float) -> np.ndarray:
    """Which heels and toes, right then left ``(4,)``, stand at a phase; both feet do so together when one stands."""
    rhs, rts, rho, rto, lhs, lts, lho, lto = unit.events
    first = [rhs <= phase <= rho, rts <= phase <= rto]
    last = [lhs <= phase <= lho, lts <= phase <= lto]
    if unit.kind == "standing":
        both = [a or b for a, b in zip(first, last, strict=True)]
        return np.array([*both, *both])
    return np.array([*first, *last])


@pytest.mark.parametrize("kind", KINDS)
def test_events_are_in_order_and_say_when_the_feet_are_down(kind: str) -> None:
    for length in lengths(kind, 5):
        unit = jumps()[kind].unit(length)
        assert unit.events[0] == 0.0
        assert np.all(np.diff(unit.events) >= 0.0)
        assert unit.events[3] == pytest.approx(unit.flight[0])
        assert unit.events[4] == pytest.approx(unit.flight[1])
        assert unit.events[7] <= 1.0
        assert not feet_down(unit, float(np.mean(unit.flight))).any()
        stands = feet_down(unit, 0.5 * float(unit.events[1] + unit.events[2]))
        assert stands.tolist() == ([True] * 4 if kind == "standing" else [True, True, False, False])


@pytest.mark.parametrize("kind", KINDS)
def test_planted_toes_stay_put_at_their_height(kind: str) -> None:
    model = jumps()[kind]
    rest = HUMAN.rest_positions()[HUMAN.index("right_foot"), 1]
    for length in known_lengths(kind, 4)[1:]:
        unit = model.unit(length)
        motion = played(unit, model.means)
        phases = motion.times() / unit.duration_s
        for side, (begin, end) in (("right", unit.events[[1, 3]]), ("left", unit.events[[5, 7]])):
            toe = motion.joint_positions()[(phases >= begin) & (phases <= end), HUMAN.index(f"{side}_foot")]
            assert np.ptp(toe[:, [0, 2]], axis=0).max() < 0.012
            assert np.abs(toe[:, 1] - rest).max() < 0.018


@pytest.mark.parametrize("kind", KINDS)
def test_knees_bend_forwards_and_soles_stay_above_ground(kind: str) -> None:
    model = jumps()[kind]
    for length in lengths(kind, 5):
        motion = played(model.unit(length), model.means)
        thigh, shank = (
            np.stack([motion.joint_positions()[:, HUMAN.index(f"{s}_{b}")] for s in ("left", "right")], axis=1)
            - np.stack([motion.joint_positions()[:, HUMAN.index(f"{s}_{a}")] for s in ("left", "right")], axis=1)
            for a, b in (("hip", "knee"), ("knee", "ankle"))
        )
        cosine = (thigh * shank).sum(-1) / np.linalg.norm(thigh, axis=-1) / np.linalg.norm(shank, axis=-1)
        assert np.rad2deg(np.arccos(cosine.max())) > 5.0
        assert soles(motion).min() > -0.03


@pytest.mark.parametrize("kind", KINDS)
def test_the_body_has_no_step_in_velocity_where_the_flight_begins_and_ends(kind: str) -> None:
    model = jumps()[kind]
    for length in known_lengths(kind, 4)[1:]:
        unit = model.unit(length)
        n = len(unit.rows) - 1
        com = centre_of_mass(
            Motion(HUMAN, n / unit.duration_s, unit.rows[:, :3] * model.leg_length_m, _turns(unit, model))
        )
        v = np.diff(com, axis=0) * n / unit.duration_s
        edges = [int(p * n) for p in unit.flight]
        assert max(np.abs(v[k + 1, [0, 2]] - v[k - 1, [0, 2]]).max() for k in edges) < 0.6
        assert abs(v[edges[0] + 1, 1] - v[edges[0] - 1, 1]) < 1.0


def _turns(unit: JumpUnit, model: JumpModel) -> SO3:
    return SO3(model.means) @ SO3.exp(unit.rows[:, 3:].reshape(len(unit.rows), -1, 3))


def test_a_standing_jump_rises_as_high_as_asked() -> None:
    model = jumps()["standing"]
    for length in (0.3, 1.0, 1.5):
        for height_m in (0.10, 0.2, 0.35):
            unit = model.unit(length, height_n=height_m / model.leg_length_m)
            assert unit.rise_m == pytest.approx(height_m, abs=0.03)
            assert unit.length_m == pytest.approx(length * model.leg_length_m, abs=0.03)
            assert -12.0 <= fall(unit, model.means) <= -7.0


def test_a_longer_jump_flies_longer_or_faster() -> None:
    for kind in ("walk", "run"):
        units = [jumps()[kind].unit(length) for length in known_lengths(kind, 6)]
        airtimes = [(unit.flight[1] - unit.flight[0]) * unit.duration_s for unit in units]
        assert all(b > a - 0.02 for a, b in pairwise(airtimes))
        assert all(b.mean_speed_mps > a.mean_speed_mps for a, b in pairwise(units))


def test_lengths_beyond_the_limits_are_the_nearest_known() -> None:
    model = jumps()["run"]
    assert model.unit(9.0).length_m == pytest.approx(model.limits[1] * model.leg_length_m, abs=0.02)
    assert model.unit(-1.0).requested_m == pytest.approx(model.limits[0] * model.leg_length_m)


def test_thesis_ranges_of_lengths_are_covered_or_the_gap_is_known() -> None:
    leg_m = jumps()["run"].leg_length_m
    assert jumps()["walk"].limits[0] * leg_m <= 0.4  # the thesis has 0.3, which is less than a step of a walk
    assert jumps()["walk"].limits[1] * leg_m >= 1.2  # the thesis has 1.7; one captured leap of 0.87 m goes no farther
    assert jumps()["run"].limits[0] * leg_m <= 0.52
    assert jumps()["run"].limits[1] * leg_m >= 2.0


def test_bad_numbers_and_names_are_refused() -> None:
    model = jumps()["run"]
    with pytest.raises(InputError, match="length_n"):
        model.unit(float("nan"))
    with pytest.raises(InputError, match="height_n"):
        model.unit(1.0, height_n=-0.1)
    with pytest.raises(InputError, match="weight"):
        model.unit(1.0, {"16": -1.0})
    with pytest.raises(InputError, match="leg_length_m"):
        model.unit(1.0, leg_length_m=0.0)
    with pytest.raises(UnknownNameError, match="scaling"):
        model.unit(1.0, scaling="metric")


def test_people_that_never_jumped_are_left_out_of_a_mixture() -> None:
    model = jumps()["run"]
    assert model.mix_people({"nobody": 1.0}) == pytest.approx(model.shares)
    mixed = model.mix_people({"nobody": 3.0, "16": 1.0})
    assert mixed[model.people.index("16")] == 1.0
    assert mixed.sum() == 1.0
    assert np.abs(model.unit(1.5, {"16": 1.0}).rows - model.unit(1.5, {"127": 1.0}).rows).max() > 0.05


def test_thesis_run_up_laws_have_the_printed_numbers_and_an_inverse() -> None:
    assert THESIS_LAWS["walk"].speed(1.0) == pytest.approx(0.93)
    assert THESIS_LAWS["run"].speed(1.5) == pytest.approx(1.61)
    for kind in ("walk", "run"):
        law = THESIS_LAWS[kind]
        assert law.length(law.speed(1.2)) == pytest.approx(1.2)
    assert THESIS_LAWS["walk"].speed(0.0) == 0.0


def test_a_run_up_law_is_fitted_to_its_line() -> None:
    lengths_n = np.linspace(0.3, 2.0, 12)
    law = fit_run_up(lengths_n, 1.3 * lengths_n + 0.4)
    assert (law.slope, law.offset, law.correlation) == pytest.approx((1.3, 0.4, 1.0))
    one = fit_run_up(np.array([1.0]), np.array([1.5]), slope=0.97)
    assert (one.slope, one.offset) == pytest.approx((0.97, 0.53))
    with pytest.raises(InputError):
        fit_run_up(np.array([]), np.array([]))


def test_jumps_go_at_the_speed_that_their_run_up_law_says() -> None:
    for kind in ("walk", "run"):
        model = jumps()[kind]
        assert model.run_up.correlation > 0.85
        for length in known_lengths(kind, 6):
            unit = model.unit(length)
            assert abs(unit.mean_speed_mps - unit.run_up_speed_mps) <= 0.2
            assert unit.run_up_speed_mps == pytest.approx(
                model.run_up.speed(unit.length_m / model.leg_length_m) * model.leg_length_m
            )


@pytest.mark.xfail(strict=True, reason="correlation 0.66 against 0.8; the slope is that of the thesis")
def test_captured_run_ups_grow_with_length_as_in_the_thesis() -> None:
    law = jumps()["run"].captured_run_up
    assert 0.8 * THESIS_LAWS["run"].slope < law.slope < 1.3 * THESIS_LAWS["run"].slope
    assert law.correlation > 0.8


def test_glardon_f13_the_frequency_of_the_thesis_times_whole_jumps() -> None:
    for kind in KINDS:
        model = jumps()[kind]
        for length in known_lengths(kind, 4)[1:]:
            own, thesis = model.unit(length), model.unit(length, timing="glardon")
            expected = 1.0 / (model.frequency_law[0] + model.frequency_law[1] * length)
            assert thesis.duration_s == pytest.approx(expected)
            assert thesis.duration_s == pytest.approx(own.duration_s, rel=0.25)
            assert np.array_equal(thesis.rows, own.rows)
    with pytest.raises(UnknownNameError, match="timing"):
        jumps()["run"].unit(1.0, timing="slow")


def test_arrays_give_the_models_back() -> None:
    for kind, model in jumps().items():
        back = JumpModel.from_arrays(model.to_arrays())
        assert back.people == model.people
        assert isinstance(back.run_up, RunUpLaw)
        assert np.array_equal(back.unit(1.0).rows, jumps()[kind].unit(1.0).rows)


def test_arrays_of_no_known_kind_are_refused() -> None:
    arrays = jumps()["run"].to_arrays()
    arrays["names"] = np.frombuffer(b"skip\n16", dtype=np.uint8)
    with pytest.raises(UnknownNameError, match="skip"):
        JumpModel.from_arrays(arrays)


def test_the_models_say_what_they_are() -> None:
    assert repr(jumps()["standing"]).startswith("JumpModel(standing, 0.00 to ")
    assert sum(array.nbytes for model in jumps().values() for array in model.to_arrays().values()) < 400_000
