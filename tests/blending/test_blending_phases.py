"""Blends of captured and synthetic phases: gravity, planted feet, turns, reach, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey import samples
from marey.base import InputError, UnknownNameError
from marey.blending import (
    BlendSettings,
    BlendSource,
    MotionPhase,
    align_phase,
    align_phases,
    blend,
    blend_duration,
    blend_phase,
    blend_sources,
    check_contact,
    check_flight,
    cut_phases,
    hold_plants,
    measure_flight_turn,
    phase_string,
    predict_validity,
)
from marey.contacts import contact_phases
from marey.dynamics import Body, compute_momentum
from marey.io import load
from marey.lie import SO3
from marey.motion import Motion, contact_positions, find_runs, transform_motion
from marey.skeleton import HUMAN, contact_points

UP = np.array([0.0, 1.0, 0.0])


def thrown(
    seconds: float, frames: int, *, speed=(0.5, 2.0, 1.0), spin=(0.0, 0.0, 0.0), at=(0.0, 1.0, 0.0)
) -> MotionPhase:
    """A stiff body in free fall that spins at a constant rate about its centre of mass."""
    body = Body.from_skeleton(HUMAN)
    t = np.linspace(0.0, seconds, frames)
    wxyz = np.tile(SO3.identity(1, HUMAN.num_joints).wxyz, (frames, 1, 1))
    wxyz[:, 0] = SO3.exp(t[:, None] * np.array(spin)).wxyz
    still = Motion(HUMAN, (frames - 1) / seconds, np.zeros((frames, 3)), SO3(wxyz))
    path = np.array(at) + t[:, None] * speed - 0.5 * 9.81 * t[:, None] ** 2 * UP
    return MotionPhase(replace(still, root_positions=path - body.centre_of_mass(still)), "flight", ())


@pytest.mark.parametrize("rho", [1.0, 1.5, 2.0, 4.0])
@pytest.mark.parametrize("w", [0.25, 0.5, 0.9])
def test_safonova_a26_blended_flights_fall_at_gravity(rho, w):
    pair = [thrown(0.3, 31), thrown(0.3 * rho, 31, speed=(0.2, 2.0 * rho, 0.3))]
    for time, factor in (("sqrt", 1.0), ("linear", (w + (1 - w) * rho**2) / (w + (1 - w) * rho) ** 2)):
        result = blend_phase(pair, [w, 1.0 - w], rule=BlendSettings(time=time))
        assert check_flight(result.motion).gravity == pytest.approx(-9.81 * factor, abs=1e-6)


def test_safonova_a35_spins_about_one_axis_keep_their_momentum():
    pair = [thrown(0.4, 41, spin=(0.0, 2.0, 0.0)), thrown(0.6, 41, spin=(0.0, 3.0, 0.0))]
    motion = blend_phase(pair, [0.4, 0.6]).motion
    about_vertical = compute_momentum(Body.from_motion(motion), motion, cutoff_hz=None)[2:-2, 4]
    assert np.ptp(about_vertical) < 1e-9 * about_vertical.mean()
    assert check_flight(motion).is_natural


def test_safonova_a35_spins_about_crossed_axes_are_flagged():
    pair = [thrown(0.6, 61, spin=(6.0, 0.0, 0.0)), thrown(0.6, 61, spin=(0.0, 0.0, 6.0))]
    check = check_flight(blend_phase(pair, [0.5, 0.5]).motion)
    assert check.spin_drift > 1.0
    assert not check.is_natural
    assert not predict_validity(*pair).is_valid


def test_safonova_a36_three_at_once_are_two_and_one():
    trio = [
        thrown(0.3, 31, spin=(0.1, 0.5, 0.0)),
        thrown(0.5, 31, spin=(0.0, -0.4, 0.2)),
        thrown(0.4, 31, spin=(0.2, 0.1, 0.3)),
    ]
    rule = BlendSettings(rotations="log")
    w = np.array([0.2, 0.3, 0.5])
    direct = blend_phase(trio, w, rule=rule)
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        own = w[order]
        pair = blend_phase([trio[i] for i in order[:2]], own[:2] / own[:2].sum(), rule=rule, align=False)
        half = MotionPhase(pair.motion, "flight", ())
        both = blend_phase([half, trio[order[2]]], [own[:2].sum(), own[2]], rule=rule, align=False)
        assert both.duration_s == pytest.approx(direct.duration_s, abs=1e-12)
        np.testing.assert_allclose(both.motion.root_positions, direct.motion.root_positions, atol=1e-9)
        np.testing.assert_allclose(both.motion.joint_positions(), direct.motion.joint_positions(), atol=1e-9)


def test_safonova_a36_three_by_arcs_are_nearly_two_and_one():
    trio = [thrown(0.3, 31, spin=(0.1, 0.5, 0.0)), thrown(0.5, 31, spin=(0.0, -0.4, 0.2)), thrown(0.4, 31)]
    direct = blend_phase(trio, [0.2, 0.3, 0.5])
    pair = blend_phase(trio[:2], [0.4, 0.6], align=False)
    both = blend_phase([MotionPhase(pair.motion, "flight", ()), trio[2]], [0.5, 0.5], align=False)
    np.testing.assert_allclose(both.motion.joint_positions(), direct.motion.joint_positions(), atol=2e-3)


def stances(count: int = 4) -> list[MotionPhase]:
    clips = [samples.walk(speed) for speed in (0.9, 1.2, 1.5, 1.8)[:count]]
    return [next(p for p in cut_phases(clip)[2:] if p.planted == ("left",)) for clip in clips]


def test_a_weight_of_one_gives_the_source_back():
    first, second = stances(2)
    for rule in (BlendSettings(), BlendSettings(stance="foot_root"), BlendSettings(root="root")):
        result = blend_phase([first, second], [1.0, 0.0], rule=rule, num_frames=first.motion.num_frames)
        assert result.duration_s == pytest.approx(first.duration_s)
        np.testing.assert_allclose(result.motion.joint_positions(), first.motion.joint_positions(), atol=2e-4)


def test_safonova_a28_planted_feet_of_a_blend_stay():
    rng = np.random.default_rng(7)
    found = stances()
    for _ in range(12):
        first, second = rng.choice(4, 2, replace=False)
        result = blend_phase([found[first], found[second]], rng.dirichlet([1.0, 1.0]))
        assert check_contact(result.motion).slide_mm < 2.0
        assert result.check.is_reachable


def test_safonova_a29_the_root_is_found_in_few_steps():
    rng = np.random.default_rng(8)
    found = stances()
    body = Body.from_motion(found[0].motion)
    for _ in range(10):
        first, second = (found[i] for i in rng.choice(4, 2, replace=False))
        pair = [BlendSource.from_motion(p.motion, body, p.feet) for p in (first, align_phase(second, first))]
        poses = blend_sources(
            pair, rng.dirichlet([1, 1]), np.linspace(0, 1, 25), first.feet, rule=BlendSettings(), body=body
        )
        motion = Motion(first.motion.skeleton, 30.0, poses.roots, SO3(poses.wxyz))
        assert poses.com_off_m.max() < 1e-8
        assert poses.steps <= 10
        assert np.isfinite(motion.joint_positions()).all()


def test_safonova_a29_a_centre_out_of_reach_is_flagged():
    first, second = stances(2)
    body = Body.from_motion(first.motion)
    low, high = (BlendSource.from_motion(p.motion, body, p.feet) for p in (first, align_phase(second, first)))
    high = replace(high, centres=high.centres + 0.5 * UP)
    shares = np.linspace(0.0, 1.0, 9)
    poses = blend_sources([low, high], np.array([0.3, 0.7]), shares, first.feet, rule=BlendSettings(), body=body)
    assert poses.com_off_m.min() > 0.05
    assert np.isfinite(poses.roots).all()
    assert np.isfinite(poses.wxyz).all()


def test_bones_keep_their_length_in_a_blend():
    first, second = stances(2)
    motion = blend_phase([first, second], [0.5, 0.5]).motion
    p = motion.joint_positions()
    lengths = np.linalg.norm(p[:, 1:] - p[:, motion.skeleton.parents[1:]], axis=-1)
    np.testing.assert_allclose(
        lengths, np.linalg.norm(motion.skeleton.offsets[1:], axis=-1)[None] + 0 * lengths, atol=1e-9
    )


def test_a_blend_does_not_depend_on_where_the_sources_stand():
    first, second = stances(2)
    turned = transform_motion(second.motion, 0.8, np.zeros(3), np.array([3.0, 0.0, -2.0]))
    elsewhere = next(p for p in (replace(second, motion=turned, plants=tuple(_moved(q) for q in second.plants)),))
    here, there = (blend_phase([first, p], [0.5, 0.5]).motion for p in (second, elsewhere))
    np.testing.assert_allclose(here.joint_positions(), there.joint_positions(), atol=1e-9)


def _moved(plant):
    return replace(plant, position=SO3.exp(0.8 * UP) @ plant.position + [3.0, 0.0, -2.0], yaw_rad=plant.yaw_rad + 0.8)


def test_whole_walks_are_blended_phase_by_phase():
    slow, fast = (samples.walk(speed, seconds=3.0) for speed in (1.0, 1.5))
    cuts = [cut_phases(clip) for clip in (slow, fast)]
    count = min(map(len, cuts)) - 1
    clips = [clip[: phases[count].start] for clip, phases in zip((slow, fast), cuts, strict=True)]
    result = blend(clips, [0.5, 0.5])
    assert phase_string(cut_phases(result.motion)).startswith(phase_string(cut_phases(clips[0]))[:5])
    wanted = sum(
        blend_duration([a.duration_s, b.duration_s], [0.5, 0.5])
        for a, b in zip(cut_phases(clips[0]), cut_phases(clips[1]), strict=True)
    )
    assert result.motion.duration_s == pytest.approx(wanted, abs=1.0 / result.motion.rate_hz)
    step = np.linalg.norm(np.diff(result.motion.root_positions, axis=0), axis=1) * result.motion.rate_hz
    assert 0.9 < np.median(step) < 1.7
    assert step.max() < 3.0


def test_clips_with_other_contacts_are_refused_with_both_sequences():
    with pytest.raises(InputError, match=r"sequences of contacts differ: .*\|"):
        blend([samples.walk(), samples.run()], [0.5, 0.5])


def test_phases_with_other_feet_are_refused():
    walk = cut_phases(samples.walk())
    left = next(p for p in walk if p.planted == ("left",))
    right = next(p for p in walk if p.planted == ("right",))
    with pytest.raises(InputError, match="same feet"):
        blend_phase([left, right], [0.5, 0.5])
    assert not predict_validity(left, right).is_valid


def test_short_phases_and_unknown_rules_are_refused():
    with pytest.raises(InputError, match="at least 3"):
        MotionPhase(samples.walk()[:2], "left", ("left",))
    with pytest.raises(UnknownNameError):
        BlendSettings(root="pelvis")
    with pytest.raises(UnknownNameError):
        BlendSettings(stance="toe")
    with pytest.raises(InputError, match="no foot is planted"):
        check_contact(thrown(0.3, 11).motion)
    with pytest.raises(InputError, match="at least five"):
        check_flight(thrown(0.3, 4).motion)


def test_walks_are_predicted_to_blend():
    first, second = stances(2)
    assert predict_validity(first, second).is_valid


def test_turns_that_differ_are_predicted_by_their_landing():
    straight, turning = thrown(0.5, 51, speed=(0.0, 2.4, 3.0)), thrown(0.5, 51, speed=(0.0, 2.4, 3.0), spin=(0, 6.0, 0))
    assert measure_flight_turn(turning) == pytest.approx(3.0, abs=1e-9)
    assert not predict_validity(straight, turning).is_valid
    steep = [replace_speed(p) for p in ((0, 0, 0), (0, 6.0, 0))]
    assert predict_validity(*steep).is_valid


def replace_speed(spin):
    return thrown(0.5, 51, speed=(0.0, 2.4, 0.1), spin=spin)


@pytest.mark.mocap
def test_held_plants_stay_where_they_are(mocap):
    clip = load(mocap / "cmu-bvh" / "07_01.bvh")
    held = hold_plants(clip)
    points, names = contact_positions(held), contact_points(held.skeleton).names
    for phase in contact_phases(clip):
        for plant in phase.plants:
            ball = points[phase.start + 1 : phase.stop - 1, names.index(f"{plant.foot}_toe")]
            assert np.hypot(*(ball - plant.position)[:, [0, 2]].T).max() < 0.02


PAIRS = [("83_48", "83_50"), ("83_48", "83_46"), ("83_46", "83_51"), ("83_46", "83_61")]


@pytest.mark.mocap
def test_safonova_a27_captured_flights_keep_the_gravity_of_their_sources(mocap):
    worse = 0
    names = {path.stem for path in (mocap / "cmu-bvh").glob("83_*.bvh")}
    pairs = [pair for pair in PAIRS if names.issuperset(pair)] or [("83_46", "83_51")]
    for pair in pairs:
        flights = [_flight(load(mocap / "cmu-bvh" / f"{name}.bvh")) for name in pair]
        body = Body.from_motion(flights[0].motion)
        T = np.array([p.duration_s for p in flights])
        beta = 0.5 * T**2 / (0.5 * (T**2).sum())
        own = float(beta @ [check_flight(p.motion, body).gravity for p in flights])
        good = check_flight(blend_phase(flights, [0.5, 0.5], body=body).motion, body)
        naive = check_flight(
            blend_phase(flights, [0.5, 0.5], rule=BlendSettings("linear", "root"), body=body).motion, body
        )
        assert abs(good.gravity - own) < 0.15
        assert good.line_deviation_m < 0.004
        worse += abs(naive.gravity - own) > abs(good.gravity - own) and naive.line_deviation_m > good.line_deviation_m
    assert worse >= 0.75 * len(pairs)


def _flight(clip):
    phases = contact_phases(clip)
    start, stop = max(((p.start, p.stop) for p in phases if p.kind == "flight"), key=lambda p: p[1] - p[0])
    return MotionPhase(clip[start + 2 : stop - 2], "flight", ())


@pytest.mark.mocap
def test_safonova_a28_naive_blends_of_seats_slide(mocap):
    """Two people who sit down on a high and a low seat: feet stay in a contact blend and not in a root blend."""
    clips = [cut_phases(load(mocap / "cmu-bvh" / f"{name}.bvh", rate_hz=60.0)) for name in ("75_18", "75_20")]
    longest = [max((p for p in clip if p.kind == "double"), key=lambda p: p.duration_s) for clip in clips]
    if longest[0].planted != longest[1].planted:
        longest[1] = replace(longest[1], planted=longest[0].planted, plants=longest[1].plants[::-1])
    slides = {
        name: check_contact(blend_phase(longest, [0.5, 0.5], rule=rule).motion).slide_mm
        for name, rule in (("contact", BlendSettings()), ("root", BlendSettings(root="root")))
    }
    assert slides["contact"] < 2.0
    assert slides["root"] > 3.0 * slides["contact"]


@pytest.mark.mocap
def test_safonova_a34_a_blend_of_a_leap_and_a_full_turn_lands_between(mocap):
    """Three parts of a straight jump, one of a full turn: the blend lands a quarter turn on, and is refused."""
    flights = {}
    for name in ("83_43", "83_61"):
        clip = load(mocap / "cmu-bvh" / f"{name}.bvh")
        clip = transform_motion(clip, 0.0, np.zeros(3), np.zeros(3))
        phases = contact_phases(clip)
        k = max((i for i, p in enumerate(phases) if p.kind == "flight"), key=lambda i: len(phases[i]))
        flights[name] = MotionPhase(clip[phases[k].start : phases[k].stop + 1], "flight", ())
    turn = {name: measure_flight_turn(phase) for name, phase in flights.items()}
    pair = [flights["83_43"], flights["83_61"]]
    result = blend_phase(pair, [0.75, 0.25])
    blended = measure_flight_turn(MotionPhase(result.motion, "flight", ()))
    assert np.rad2deg(blended) == pytest.approx(np.rad2deg(0.75 * turn["83_43"] + 0.25 * turn["83_61"]), abs=1.0)
    rule = predict_validity(*pair, weight=0.75)
    assert not rule.is_valid
    assert "turns differ" in rule.reasons[0]


def test_a_walk_and_a_run_are_aligned_at_their_stances_and_make_a_jog():
    walk, run = samples.walk(1.5, seconds=3.0, rate_hz=60.0), samples.run(3.0, seconds=2.0, rate_hz=60.0)
    with pytest.raises(InputError, match="align=True"):
        blend([walk, run], [0.5, 0.5])
    first, second = align_phases([walk, run])
    assert [phase.planted for phase in first] == [phase.planted for phase in second]
    assert sum(phase.kind == "mixed" for phase in first) >= 2
    # Ends are matched, mixed phases follow single supports, and nothing in between is lost
    assert "mixed" not in (first[0].kind, first[-1].kind)
    for clip in (first, second):
        ends = [phase.start + phase.motion.num_frames - 1 for phase in clip[:-1]]
        assert ends == [phase.start for phase in clip[1:]]
    speeds, jogs = [], [blend([walk, run], [1.0 - w, w], align=True) for w in (0.2, 0.8)]
    for jog in jogs:
        ground = jog.motion.root_positions[:, [0, 2]]
        speeds.append(float(np.linalg.norm(ground[-1] - ground[0])) / jog.motion.duration_s)
        # Feet that stand in the result stand still: 2 mm, the bar of feet that are held
        points, track = contact_positions(jog.motion), jog.motion.contacts
        assert track is not None
        for number, name in enumerate(track.names):
            for start, stop in find_runs(track.active[:, number] if name.endswith("toe") else np.zeros(1, dtype=bool)):
                places = points[start:stop, contact_points(jog.motion.skeleton).index(name)][:, [0, 2]]
                assert np.linalg.norm(places - places[0], axis=1).max() < 0.002
    assert 1.5 < speeds[0] < speeds[1] < 3.0


def test_clips_without_a_common_stance_are_refused_and_a_clip_is_aligned_with_itself():
    walk = samples.walk(1.2, seconds=3.0, rate_hz=60.0)
    first, second = align_phases([walk, walk])
    assert phase_string(first) == phase_string(second) == phase_string(cut_phases(walk))
    falling = thrown(0.5, 31).motion
    with pytest.raises(InputError, match="no contacts in common"):
        align_phases([walk, falling])
