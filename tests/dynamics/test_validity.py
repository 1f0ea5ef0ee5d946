"""Validity of motions that are known: standing, falling, leaping, hanging, and what is wrong with their copies."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from marey import samples
from marey.base import InputError, MareyError, UnknownNameError
from marey.dynamics import CAUSES, GRAVITY, Body, check_validity, find_supports
from marey.dynamics.validation.check import average_gaussian, compute_momentum_drift, find_flights
from marey.dynamics.validation.report import find_spans, merge_gaps
from marey.kinematics import fit_limits
from marey.lie import SO3
from marey.motion import Contacts, Motion, contact_positions
from marey.skeleton import HUMAN, Skeleton, leg_length, role_map, t_pose

RATE = 120.0
FEET = ("left_heel", "left_toe", "right_heel", "right_toe")


def standing(num_frames: int = 90, rate_hz: float = RATE) -> Motion:
    pose = t_pose(HUMAN)
    roots = np.repeat(pose.root_position[None], num_frames, axis=0)
    still = Motion(HUMAN, rate_hz, roots, SO3(np.repeat(pose.rotations.wxyz[None], num_frames, axis=0)))
    return moved(still, [0.0, -contact_positions(still)[0, :4, 1].mean(), 0.0])


def moved(motion: Motion, by) -> Motion:
    return replace(motion, root_positions=motion.root_positions + by)


def turned(motion: Motion, angle_rad: float, axis) -> Motion:
    """The whole body turned about the point of the floor below its root."""
    turn = SO3.exp(angle_rad * np.asarray(axis, dtype=float))
    wxyz = motion.rotations.wxyz.copy()
    wxyz[:, 0] = (turn @ SO3(wxyz[:, 0])).wxyz
    below = motion.root_positions * [1.0, 0.0, 1.0]
    return replace(motion, rotations=SO3(wxyz), root_positions=below + turn @ (motion.root_positions - below))


def touching(motion: Motion, flags=True, names=FEET) -> Motion:
    active = np.broadcast_to(np.asarray(flags, dtype=bool).reshape(-1, 1), (motion.num_frames, len(names)))
    return replace(motion, contacts=Contacts(names, active))


def leap(gravity: float = GRAVITY, flight_s: float = 0.5) -> tuple[Motion, np.ndarray]:
    """A stiff body that is pushed up, flies and is caught; its feet are said to touch before and after."""
    stance_s = 0.6
    times = np.arange(round((2 * stance_s + flight_s) * RATE) + 1) / RATE
    push = 0.5 * GRAVITY * flight_s / (0.5 * stance_s)  # mean acceleration that gives the speed of lift-off
    rise = np.where(times < stance_s, push * (1.0 - np.cos(2.0 * np.pi * times / stance_s)) * 0.5, 0.0)
    away = times - (stance_s + flight_s)
    catch = np.where(away > 0.0, push * (1.0 - np.cos(2.0 * np.pi * away / stance_s)) * 0.5, 0.0)
    flying = (times >= stance_s) & (away <= 0.0)
    height = np.cumsum(np.cumsum(rise + catch - np.where(flying, gravity, 0.0))) / RATE**2
    body = standing(len(times))
    return touching(moved(body, np.outer(height, [0.0, 1.0, 0.0])), ~flying), flying


def test_a_body_that_stands_still_is_valid_and_carries_its_weight():
    report = check_validity(standing())
    body = report.dynamics.body
    assert report.valid_fraction == 1.0
    assert report.colour == "green"
    assert report.is_valid
    np.testing.assert_allclose(report.wrench[:, :3], [[0.0, body.weight_n, 0.0]] * 90, atol=1e-6 * body.weight_n)
    np.testing.assert_allclose(report.available, report.wrench, atol=1e-6 * body.weight_n)
    np.testing.assert_allclose(report.friction_margin, 0.8, atol=1e-9)
    assert (report.balance_margin > 0.03).all()
    assert report.spans[0].words == "valid"


def test_the_centre_of_pressure_of_a_standing_body_is_below_its_centre_of_mass():
    report = check_validity(standing())
    np.testing.assert_allclose(report.centre_of_pressure[:, [0, 2]], report.dynamics.com[:, [0, 2]], atol=1e-6)


def test_a_leaning_body_tips_over():
    report = check_validity(touching(turned(standing(), 0.35, (1.0, 0.0, 0.0))), floor="plants")
    assert report.red_fraction == 1.0
    assert set(report.cause_counts) == {"tipping"}
    assert (report.balance_margin < 0.0).all()


def test_a_lifted_body_hovers_and_the_report_says_how_high():
    report = check_validity(moved(standing(), [0.0, 0.3, 0.0]))
    assert report.red_fraction == 1.0
    assert set(report.cause_counts) == {"hover", "float"}
    assert "+0.30 m" in " ".join(report.warnings)
    np.testing.assert_allclose(report.lack, 1.0, atol=1e-9)


def test_a_floor_can_be_given():
    high = moved(standing(), [0.0, 0.3, 0.0])
    assert check_validity(high, floor=0.3).valid_fraction == 1.0
    assert check_validity(high, floor="plants").valid_fraction == 1.0


def test_a_sunken_body_is_below_the_floor():
    report = check_validity(moved(standing(), [0.0, -0.3, 0.0]))
    assert report.red_fraction == 1.0
    assert "penetration" in report.cause_counts
    np.testing.assert_allclose(report.penetration_mm, 300.0, atol=10.0)


def test_a_planted_foot_that_moves_slides():
    gliding = moved(standing(), np.outer(np.arange(90) / RATE, [0.0, 0.0, 1.0]))
    report = check_validity(touching(gliding))
    assert "slide" in report.cause_counts
    np.testing.assert_allclose(report.slide_mm, 100.0, rtol=1e-6)
    assert report.valid_fraction < 0.2


def test_a_body_pushed_sideways_harder_than_friction_slips():
    times = np.arange(90) / RATE
    pushed = touching(moved(standing(), np.outer(0.5 * 0.3 * GRAVITY * times**2, [0.0, 0.0, 1.0])))
    ice = check_validity(pushed, friction=0.1, cutoff_hz=None)
    assert "slip" in ice.cause_counts
    np.testing.assert_allclose(ice.friction_margin[5:-5], 0.1 - 0.3, atol=1e-6)


def test_free_fall_is_valid_and_a_slower_fall_hovers():
    fall = -0.5 * GRAVITY * (np.arange(60) / RATE) ** 2
    free = touching(moved(standing(60), np.outer(fall + 3.0, [0.0, 1.0, 0.0])), flags=False)
    assert check_validity(free, cutoff_hz=None).valid_fraction == 1.0
    assert check_validity(free).valid_fraction == 1.0
    slow = touching(moved(standing(60), np.outer(0.5 * fall + 3.0, [0.0, 1.0, 0.0])), flags=False)
    assert set(check_validity(slow, cutoff_hz=None).cause_counts) == {"hover"}
    fast = touching(moved(standing(60), np.outer(1.5 * fall + 3.0, [0.0, 1.0, 0.0])), flags=False)
    assert set(check_validity(fast, cutoff_hz=None).cause_counts) == {"pull"}


def test_a_body_that_spins_faster_and_faster_in_the_air_breaks_its_momentum():
    times = np.arange(60) / RATE
    fall = moved(standing(60), np.outer(3.0 - 0.5 * GRAVITY * times**2, [0.0, 1.0, 0.0]))
    wxyz = fall.rotations.wxyz.copy()
    wxyz[:, 0] = (SO3.exp(np.outer(40.0 * times**2, [0.0, 1.0, 0.0])) @ SO3(wxyz[:, 0])).wxyz
    report = check_validity(touching(replace(fall, rotations=SO3(wxyz)), flags=False), cutoff_hz=None)
    assert "momentum" in report.cause_counts
    assert report.red_fraction > 0.8
    assert report.momentum_drift.max() > 10.0


def test_gravity_is_an_option():
    still = touching(moved(standing(30), [0.0, 5.0, 0.0]), flags=False)
    assert check_validity(still, gravity=0.0, cutoff_hz=None).valid_fraction == 1.0
    assert check_validity(still, cutoff_hz=None).red_fraction == 1.0


def test_fang_a48_a_valid_leap_is_green():
    motion, _ = leap()
    assert check_validity(motion, floor="plants", cutoff_hz=None).valid_fraction >= 0.98
    assert check_validity(motion, floor="plants").valid_fraction >= 0.9


def test_fang_a48_a_leap_under_half_gravity_is_red_in_flight():
    motion, flying = leap(gravity=0.5 * GRAVITY)
    for options in ({"cutoff_hz": None}, {}):
        report = check_validity(motion, floor="plants", **options)
        assert (report.levels[flying] == 2).mean() >= 0.8
    assert "hover" in report.cause_counts


def test_fang_a48_a_leap_of_which_the_flight_is_stretched_is_red_in_flight():
    motion, flying = leap(gravity=1.3 * GRAVITY)
    report = check_validity(motion, floor="plants", cutoff_hz=None)
    assert (report.levels[flying] == 2).mean() >= 0.8
    assert "pull" in report.cause_counts


def test_hands_that_are_said_to_touch_high_up_hold_the_body():
    hands = ("left_hand", "right_hand")
    report = check_validity(touching(moved(standing(), [0.0, 3.0, 0.0]), names=hands), cutoff_hz=None)
    assert report.supports.grips.any()
    assert report.valid_fraction == 1.0
    share = report.split.forces[:, 2:, 1].sum(axis=1) / report.dynamics.body.weight_n
    np.testing.assert_allclose(share, 1.0, atol=0.05)


def test_one_foot_of_two_carries_all_when_the_other_is_up():
    report = check_validity(touching(standing(), names=("left_foot",)), floor="plants")
    assert set(report.cause_counts) == {"tipping"}
    np.testing.assert_allclose(report.split.share, 1.0)


def test_the_split_adds_up_to_what_is_available():
    report = check_validity(standing())
    np.testing.assert_allclose(report.split.total(), report.available, atol=1e-6)
    np.testing.assert_allclose(report.split.forces[:, :2, 1].sum(axis=1), report.wrench[:, 1], rtol=1e-9)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda m: moved(m, [0.0, 0.15, 0.0]),
        lambda m: turned(m, np.deg2rad(20.0), (0.0, 0.0, 1.0)),
        lambda m: turned(m, np.deg2rad(20.0), (1.0, 0.0, 0.0)),
    ],
    ids=["lifted", "tilted sideways", "tilted forwards"],
)
def test_a_standing_body_lifted_or_tilted_is_red(spoil):
    assert check_validity(standing()).colour == "green"
    assert check_validity(spoil(standing())).colour == "red"


def test_limits_are_checked_when_given():
    clips = [standing()]
    limits = fit_limits(clips, "box", margin_rad=0.05)
    assert check_validity(clips[0], limits=limits).valid_fraction == 1.0
    wxyz = clips[0].rotations.wxyz.copy()
    wxyz[:, HUMAN.index("neck")] = SO3.exp([1.2, 0.0, 0.0]).wxyz
    bent = check_validity(replace(clips[0], rotations=SO3(wxyz)), limits=limits)
    assert "limits" in bent.cause_counts
    assert bent.limit_rad.max() == pytest.approx(1.15, abs=0.15)
    assert bent.to_json()["max_limit_rad"] == bent.limit_rad.max()
    assert len(bent.to_json()["frames"]["limit_rad"]) == bent.num_frames


def test_limits_of_another_skeleton_are_refused():
    clip = standing()
    other = Skeleton(tuple(f"j{k}" for k in range(22)), HUMAN.parents, HUMAN.offsets)
    limits = fit_limits([Motion(other, RATE, clip.root_positions, clip.rotations)], "box", margin_rad=0.05)
    with pytest.raises(InputError, match="the limits are those of"):
        check_validity(clip, limits=limits)


def test_a_body_in_place_of_the_motion_is_refused():
    clip = standing()
    for arguments in ((Body.from_motion(clip), clip), (Body.from_motion(clip),), (clip, clip), ("walk.bvh",)):
        with pytest.raises(InputError, match="Give a Motion"):
            check_validity(*arguments)


def test_a_body_of_another_size_than_the_clip_is_told():
    clip = standing()
    assert not any("legs" in note for note in check_validity(clip, Body.from_motion(clip)).warnings)
    giant = check_validity(clip, Body.from_skeleton(HUMAN.scaled(1.5)))
    assert any("the legs of the body are" in note for note in giant.warnings)


def test_the_report_is_plain_json_and_finite():
    report = check_validity(samples.run())
    text = json.dumps(report.to_json(), allow_nan=False)
    facts = json.loads(text)
    assert facts["num_frames"] == 180
    assert len(facts["frames"]["violation"]) == 180
    assert 0.0 <= facts["valid_fraction"] <= 1.0
    assert set(facts["causes"]) <= set(CAUSES)
    assert "frames" not in report.to_json(frames=False)
    assert report.verdict.startswith(report.colour)
    assert "ValidityReport" in repr(report)


def test_spans_cover_the_clip_and_name_causes():
    report = check_validity(samples.jump())
    edges = [0, *(span.stop for span in report.spans)]
    assert [span.start for span in report.spans] == edges[:-1]
    assert edges[-1] == report.num_frames
    for span in report.spans:
        assert (span.status == "green") == (not span.causes)
        assert len(span) > 0
        assert span.words


def test_a_single_frame_between_two_red_ones_is_closed():
    levels = np.array([0, 0, 2, 0, 2, 2, 0, 0, 1, 2], dtype=np.int8)
    np.testing.assert_array_equal(merge_gaps(levels), [0, 0, 2, 2, 2, 2, 0, 0, 1, 2])
    spans = find_spans(levels, np.zeros((10, len(CAUSES)), dtype=bool), np.ones(10), np.ones(10), 10.0)
    assert [s.status for s in spans] == ["green", "red", "green", "amber", "red"]
    assert [s.stop_s for s in spans] == pytest.approx([0.2, 0.6, 0.8, 0.9, 1.0])


def test_causes_are_named_where_a_frame_is_not_green_and_only_there():
    report = check_validity(samples.run())
    for level, causes in zip(report.levels, report.causes, strict=True):
        assert (level > 0) == bool(causes)
    assert len(report.status) == report.num_frames


@given(values=st.lists(st.floats(-5.0, 5.0), min_size=2, max_size=60))
def test_averages_stay_between_the_extremes_and_keep_constants(values):
    array = np.array(values)
    mean = average_gaussian(array, 100.0, 0.05)
    assert mean.min() >= array.min() - 1e-12
    assert mean.max() <= array.max() + 1e-12
    np.testing.assert_allclose(average_gaussian(np.full((9, 2), 3.0), 100.0, 0.05), 3.0)


def test_flights_are_gaps_that_last():
    active = np.ones((100, 1), dtype=bool)
    active[20:60] = False
    active[80:82] = False
    assert find_flights(active, 120.0) == [(20, 60)]
    report = check_validity(standing())
    np.testing.assert_array_equal(compute_momentum_drift(report.dynamics, report.supports), 0.0)


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), frames=st.integers(3, 40), rate=st.sampled_from([5.0, 30.0, 120.0]))
def test_no_motion_gives_a_number_that_is_not_finite(seed, frames, rate):
    rng = default_rng(seed)
    wild = Motion(
        HUMAN,
        rate,
        rng.normal(scale=2.0, size=(frames, 3)),
        SO3.exp(rng.normal(scale=1.5, size=(frames, HUMAN.num_joints, 3))),
    )
    report = check_validity(wild)
    json.dumps(report.to_json(), allow_nan=False)
    for values in (report.missing, report.split.places, report.split.moments, report.limit_rad):
        assert np.isfinite(values).all()


def test_a_body_without_feet_is_taken_as_flying_and_says_so():
    chain = Skeleton(("root", "tip"), np.array([-1, 0]), np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    still = Motion(chain, 60.0, np.zeros((20, 3)), SO3.identity(20, 2))
    report = check_validity(
        still, Body(chain, np.array([1.0, 1.0]), np.zeros((2, 3)), np.tile(np.eye(3), (2, 1, 1)), 1.0)
    )
    assert report.red_fraction == 1.0
    assert any("no feet" in warning for warning in report.warnings)


@pytest.mark.parametrize(
    "options",
    [
        {"tolerance": 0.0},
        {"tolerance": float("nan")},
        {"friction": -1.0},
        {"friction": float("inf")},
        {"floor": float("nan")},
        {"slack_s": -1.0},
        {"window_s": 5.0},
        {"gravity": float("nan")},
        {"cutoff_hz": -3.0},
    ],
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(InputError):
        check_validity(standing(), **options)


def test_unknown_names_are_refused():
    with pytest.raises(UnknownNameError, match="flat"):
        check_validity(standing(), floor="ceiling")
    with pytest.raises(UnknownNameError, match="left_heel"):
        check_validity(standing(10), contacts=Contacts(("left_hel",), np.ones((10, 1), dtype=bool)))


def test_too_short_or_unfitting_input_is_refused():
    with pytest.raises(InputError, match="2 frames"):
        check_validity(standing(2))
    with pytest.raises(InputError, match="contacts"):
        check_validity(standing(10), contacts=Contacts(FEET, np.ones((9, 4), dtype=bool)))
    other = Skeleton(("root", "tip"), np.array([-1, 0]), np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    with pytest.raises(MareyError):
        check_validity(standing(), Body.from_skeleton(other))
    with pytest.raises(InputError):
        Motion(HUMAN, RATE, np.full((3, 3), np.nan), SO3.identity(3, HUMAN.num_joints))


def test_supports_have_the_corners_of_a_sole_as_long_as_the_body_suggests():
    supports = find_supports(standing())
    heel, toe = supports.points[0, :2], supports.points[0, 4:6]
    stature = leg_length(HUMAN, role_map(HUMAN)) / 0.491  # [Winter2009]_ fig. 4.1
    assert np.linalg.norm(heel[0] - heel[1]) == pytest.approx(0.055 * stature)
    assert np.linalg.norm(toe.mean(axis=0) - heel.mean(axis=0)) >= 0.151 * stature
    assert heel.mean(axis=0)[2] < toe.mean(axis=0)[2]
    assert supports.touching.all()
    np.testing.assert_allclose(supports.points[..., 1], supports.floor_m)
