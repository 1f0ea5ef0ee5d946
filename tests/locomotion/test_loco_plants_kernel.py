"""The plant kernel itself: easing laws, both solvers, surprises, sizes, unreachable goals."""

from __future__ import annotations

import timeit
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.ease import cubic_step, eased_effector, interrupted_ease
from oracles.plant_step import plant_step

from marey.base import FloatArray, InputError
from marey.lie import SO3
from marey.locomotion.plants.baselines import pose_leg_priority
from marey.locomotion.plants.easing import ease_cubic, ease_vector
from marey.locomotion.plants.leg import heel_rise_angle, pose_leg, write_leg_frames
from marey.locomotion.plants.placement import roll_in_time, write_foot_measures
from marey.locomotion.plants.state import (
    FOOT_RECORD,
    PlantForecast,
    PlantOptions,
    allocate_plant_state,
    make_leg_arrays,
)
from marey.skeleton import HUMAN, joint_positions, t_pose

LEGS = make_leg_arrays(HUMAN)
EFFECTORS = LEGS.joints[:, 2:].reshape(4)
STAND = t_pose(HUMAN)
NO_PLANT_S = 1e3  # no plant is coming
NOWHERE = np.full(4, NO_PLANT_S)
ALL, NONE = np.ones(4, dtype=np.bool_), np.zeros(4, dtype=np.bool_)
DT = 1.0 / 60.0

times = st.floats(0.05, 1.0)
points = st.tuples(*[st.floats(-1.0, 1.0)] * 3).map(np.array)


class Character:
    """A body in a raw pose whose feet are planted frame by frame."""

    def __init__(self, scale: float = 1.0, toe_in_rad: float = 0.0) -> None:
        self.state, self.options = allocate_plant_state(), PlantOptions(scale=scale)
        self.toe_in = np.array([toe_in_rad, -toe_in_rad])
        self.skeleton = HUMAN.scaled(scale)

    def plant(self, dt, planted, until, landing, root, wxyz) -> int:
        """One frame in place."""
        forecast = PlantForecast(planted, until, landing, np.zeros((4, 3)), self.toe_in)
        return plant_step(dt, forecast, self.options, LEGS, self.state, root, wxyz)

    def step(self, root: FloatArray, wxyz: FloatArray, planted=ALL, until=NOWHERE, landing=None, dt=DT):
        """Return flags, root and effectors ``(4, 3)``."""
        root, wxyz = np.array(root, dtype=np.float64), np.array(wxyz, dtype=np.float64)
        landing = np.zeros((4, 3)) if landing is None else landing
        flags = self.plant(dt, planted, until, landing, root, wxyz)
        assert np.isfinite(wxyz).all() and np.isfinite(root).all()
        return flags, root, joint_positions(self.skeleton, root[None], wxyz[None])[0, EFFECTORS]


def bent(degrees: float) -> FloatArray:
    """Local rotations of a stand with bent knees; the root must come down for it."""
    wxyz = STAND.rotations.wxyz.copy()
    half = SO3.exp(np.radians([-degrees, 0.0, 0.0])), SO3.exp(np.radians([2.0 * degrees, 0.0, 0.0]))
    for foot in range(2):
        hip, knee, ankle = LEGS.joints[foot, :3]
        for joint, turn in ((hip, half[0]), (knee, half[1]), (ankle, half[0])):
            wxyz[joint] = (SO3(wxyz[joint]) @ turn).wxyz
    return wxyz


CROUCH = bent(30.0)
CROUCH_RISE = joint_positions(HUMAN, STAND.root_position[None], CROUCH[None])[0, EFFECTORS[0], 1] - LEGS.rest[0]
CROUCH_ROOT = STAND.root_position - np.array([0.0, CROUCH_RISE, 0.0])


# ---- A30: laws of easing


def test_cubic_step_falls_from_one_to_zero_with_level_ends() -> None:
    assert (cubic_step(0.0), cubic_step(0.5), cubic_step(1.0)) == (1.0, 0.5, 0.0)
    assert abs(cubic_step(1e-6) - 1.0) < 1e-11 and cubic_step(1.0 - 1e-6) < 1e-11
    assert (cubic_step(-3.0), cubic_step(4.0)) == (1.0, 0.0)


@given(points, points, points, st.floats(0.05, 0.3), st.floats(0.3, 0.8))
def test_glardon_a30_easing_is_continuous_at_its_four_corners(a, b, goal, ease_s, stance_s) -> None:
    def raw(t: float) -> FloatArray:
        return a + b * np.sin(t)

    span = (1.0, 1.0 + stance_s)
    ends = (raw(span[0]), raw(span[1]))
    for corner in (span[0] - ease_s, span[0], span[1], span[1] + ease_s):
        before, after = (eased_effector(t, raw(t), goal, span, ends, ease_s) for t in (corner - 1e-11, corner + 1e-11))
        np.testing.assert_allclose(before, after, atol=1e-9)
    far = span[0] - ease_s - 0.1
    np.testing.assert_array_equal(eased_effector(far, raw(far), goal, span, ends, ease_s), raw(far))
    np.testing.assert_array_equal(eased_effector(1.1, raw(1.1), goal, span, ends, ease_s), goal)


@given(points, points, points, points, times, times)
def test_glardon_a30_an_interrupted_ease_meets_both_ends_and_the_printed_one_does_not(
    a, b, goal, at, change, wait
) -> None:
    def raw(t: float) -> FloatArray:
        return a + b * t

    arrival = change + max(wait, 0.03)
    then, there = (change, at, raw(change)), (arrival, goal, raw(arrival))
    np.testing.assert_allclose(interrupted_ease(change, raw(change), then, there), at, atol=1e-12)
    np.testing.assert_allclose(interrupted_ease(arrival - 1e-12, raw(arrival), then, there), goal, atol=1e-9)

    def printed(t: float) -> FloatArray:
        g = cubic_step((t - change) / (arrival - change))
        return raw(t) + (1.0 - g) * (raw(change) - at) + g * (goal - raw(arrival))

    if np.abs(at - raw(change) - goal + raw(arrival)).max() > 1e-3:
        assert np.abs(printed(change) - at).max() > 1e-6


@given(st.floats(-1.0, 1.0), st.floats(-1.0, 1.0), st.integers(2, 40))
def test_glardon_a30_easing_step_by_step_is_easing_in_one(x: float, target: float, steps: int) -> None:
    """Planned anew in every step, at rest at first, the kernel stays on the cubic step of the source."""
    value, rate, dt = x, 0.0, 0.2 / steps
    for n in range(steps):
        value, rate = ease_cubic(value, rate, target, 0.2 - n * dt, dt)
        assert value == pytest.approx(target + cubic_step((n + 1) / steps) * (x - target), abs=1e-9)
    assert value == pytest.approx(target, abs=1e-9) and abs(rate) < 1e-6


@given(points, points, points, st.floats(0.05, 0.3), st.floats(0.3, 0.8), st.integers(3, 40))
def test_glardon_a30_the_kernel_eases_in_and_out_as_the_source(a, b, goal, ease_s, stance_s, steps) -> None:
    """The kernel's shift on the raw motion gives the effector of Eq. 2.6: eased in, held, eased out."""

    def raw(t: float) -> FloatArray:
        return a + b * np.sin(t)

    span = (1.0, 1.0 + stance_s)
    ends, dt = (raw(span[0]), raw(span[1])), ease_s / steps
    shift, rate = np.zeros(3), np.zeros(3)
    for start, target in ((span[0] - ease_s, goal - ends[0]), (span[1], np.zeros(3))):
        if start == span[1]:
            shift[:], rate[:] = goal - ends[1], 0.0  # a held effector leaves from where it is held
        for n in range(steps):
            t = start + (n + 1) * dt
            eased = raw(t) + np.array(ease_vector(shift, rate, tuple(target), ease_s - n * dt, dt))
            wanted = eased_effector(t, raw(t), goal, span, ends, ease_s)
            np.testing.assert_allclose(eased, goal if n + 1 == steps and start < span[0] else wanted, atol=1e-9)
    np.testing.assert_allclose(shift, 0.0, atol=1e-9)


@given(points, points, points, points, times, st.floats(0.05, 1.0), st.integers(2, 40))
def test_glardon_a30_the_kernel_goes_on_after_an_interruption_as_the_repaired_equation(
    a, b, goal, at, change, wait, steps
) -> None:
    """From rest the kernel is Eq. 2.7 as repaired, so it meets both ends; with a velocity it keeps that too."""

    def raw(t: float) -> FloatArray:
        return a + b * t

    arrival, dt = change + wait, wait / steps
    then, there = (change, at, raw(change)), (arrival, goal, raw(arrival))
    shift, rate = at - raw(change), np.zeros(3)
    for n in range(steps):
        t = change + (n + 1) * dt
        eased = raw(t) + np.array(ease_vector(shift, rate, tuple(goal - raw(arrival)), wait - n * dt, dt))
        np.testing.assert_allclose(eased, interrupted_ease(min(t, arrival), raw(t), then, there), atol=1e-9)
    np.testing.assert_allclose(raw(arrival) + shift, goal, atol=1e-9)


@given(st.floats(-1.0, 1.0), st.floats(-5.0, 5.0), st.floats(-1.0, 1.0), st.integers(1, 30))
def test_an_interrupted_ease_keeps_its_value_and_its_speed(x: float, v: float, target: float, steps: int) -> None:
    value, rate = ease_cubic(x, v, target, 0.3, 1e-9)
    assert value == pytest.approx(x, abs=1e-7) and rate == pytest.approx(v, abs=1e-4)
    for n in range(steps):
        value, rate = ease_cubic(value, rate, target, 0.3 - 0.3 * n / steps, 0.3 / steps)
    assert value == pytest.approx(target, abs=1e-9)


def test_times_out_of_order_are_refused() -> None:
    zero = np.zeros(3)
    with pytest.raises(InputError, match="in order"):
        eased_effector(0.0, zero, zero, (2.0, 1.0), (zero, zero), 0.2)


# ---- A32: both solvers


def crouched_foot() -> np.record:
    foot = allocate_plant_state().feet.view(np.recarray)[0]
    write_foot_measures(foot, 0, 1.0, LEGS)
    write_leg_frames(foot, 0, tuple(CROUCH_ROOT), CROUCH.copy(), LEGS, 1.0)
    return foot


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_glardon_a32_both_solvers_put_the_ankle_on_ten_thousand_targets(count: int) -> None:
    rng = np.random.default_rng(7)
    foot = crouched_foot()
    hip, ankle = foot.origin[0].copy(), foot.origin[2].copy()
    reach = LEGS.reach[0] - LEGS.rest[0]
    directions = ankle - hip + rng.normal(0.0, 0.25, (count, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    targets = hip + directions * rng.uniform(0.6, 0.98, (count, 1)) * reach
    turns = SO3.exp(rng.normal(0.0, 0.2, (count, 3))).wxyz
    worst = 0.0
    for target, turn in zip(targets, turns, strict=True):
        exact, _ = pose_leg(foot, 0, tuple(target), tuple(turn), LEGS, CROUCH.copy())
        near, miss = pose_leg_priority(foot, 0, tuple(target), tuple(turn), LEGS, CROUCH.copy())
        worst = max(worst, float(np.linalg.norm(np.subtract(exact, near))))
        assert np.linalg.norm(np.subtract(exact, target)) < 1e-9 and miss < 0.0005
    assert worst < 0.0005


@pytest.mark.parametrize("far_m", [1.0, 3.0, 1e6])
def test_glardon_a32_targets_out_of_reach_give_a_finite_pose_and_the_miss(far_m: float) -> None:
    foot = crouched_foot()
    target = tuple(foot.origin[0] + np.array([far_m, 0.0, 0.0]))
    for pose in (pose_leg, pose_leg_priority):
        wxyz = CROUCH.copy()
        reached, miss = pose(foot, 0, target, (1.0, 0.0, 0.0, 0.0), LEGS, wxyz)
        assert np.isfinite(wxyz).all() and np.isfinite(reached).all()
        assert miss > far_m - 1.0 and miss > 0.05


@given(st.floats(0.3, 1.2), st.floats(-0.4, 0.4))
def test_a_heel_rises_just_so_far_that_the_leg_reaches(height: float, along: float) -> None:
    hip, toe, ahead, foot, reach = (0.0, height, along), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.15, 0.8
    angle = heel_rise_angle(hip, toe, ahead, foot, reach)

    def distance(phi: float) -> float:
        ankle = np.array([0.0, foot * np.sin(phi), -foot * np.cos(phi)])
        return float(np.linalg.norm(np.array(hip) - ankle))

    if abs(distance(angle) - reach) > 1e-9:  # never or always within reach
        sampled = [distance(phi) for phi in np.linspace(0.0, 2.0 * np.pi, 200)]
        assert min(sampled) > reach - 1e-3 or max(sampled) < reach + 1e-3


# ---- frames


def test_a_standing_body_that_sways_keeps_its_feet() -> None:
    one = Character()
    _, _, first = one.step(CROUCH_ROOT, CROUCH)
    for n in range(120):
        sway = [0.04 * np.sin(0.1 * n), 0.0, 0.03 * np.cos(0.07 * n) - 0.03]
        flags, _, feet = one.step(CROUCH_ROOT + sway, CROUCH)
        assert flags == 0b1111
        np.testing.assert_allclose(feet, first, atol=1e-9)
    np.testing.assert_allclose(one.state.goals(), first, atol=1e-9)


@settings(max_examples=25)
@given(st.floats(0.5, 1.6))
def test_lengths_follow_the_size_of_the_character(scale: float) -> None:
    one = Character(scale)
    flags, _, feet = one.step(CROUCH_ROOT * scale, CROUCH)
    assert flags == 0b1111
    np.testing.assert_allclose(feet[:, 1], scale * LEGS.rest, atol=1e-9)


def test_a_foot_lands_where_it_was_foreseen() -> None:
    """A foot comes down towards a foreseen place while the raw motion drifts; it arrives and stays."""
    one = Character()
    landing = joint_positions(HUMAN, CROUCH_ROOT[None], CROUCH[None])[0, EFFECTORS]
    landing[0] += [0.05, 0.03, 0.08]
    for n in range(20, 0, -1):
        until = np.array([n * DT, (n + 3) * DT, NO_PLANT_S, NO_PLANT_S])
        one.step(CROUCH_ROOT + np.array([0.0, 0.05, 0.0]), CROUCH, np.array([False, False, True, True]), until, landing)
    ankles = []
    for n in range(20):
        flags, _, feet = one.step(CROUCH_ROOT + np.array([0.004 * n, 0.0, 0.0]), CROUCH)
        ankles.append(feet[0])
        assert flags & 1
    np.testing.assert_allclose(ankles[-1][[0, 2]], landing[0, [0, 2]], atol=1e-9)
    assert np.ptp(np.array(ankles)[:, [0, 2]], axis=0).max() < 1e-9
    assert ankles[-1][1] == pytest.approx(LEGS.rest[0], abs=1e-9)


def test_a_foot_that_lands_flat_holds_its_toe_at_once_and_one_on_its_heel_rolls_down_first() -> None:
    """A flat one takes no time; then the time grows with the height of the toe, up to a limit, in any size."""
    foot = np.zeros(1, dtype=FOOT_RECORD).view(np.recarray)[0]
    for size in (0.6, 1.0):
        write_foot_measures(foot, 0, size, LEGS)
        flat = size * (LEGS.rest[1] - LEGS.rest[0])
        times_s = [roll_in_time(foot, flat + size * rise) for rise in (-0.02, 0.0, 0.01, 0.02, 0.04, 0.10)]
        np.testing.assert_allclose(times_s, [0.0, 0.0, 0.0125, 0.025, 0.05, 0.05], atol=1e-12)


def test_a_plant_that_nobody_announced_is_held_where_the_foot_is_and_settles() -> None:
    one = Character()
    high = CROUCH_ROOT + np.array([0.0, 0.04, 0.0])
    one.step(high, CROUCH, NONE)
    heights = [one.step(high, CROUCH)[2][:, 1] - LEGS.rest for _ in range(10)]
    assert heights[0].max() > 0.02
    np.testing.assert_allclose(heights[-1], 0.0, atol=1e-9)
    assert np.abs(np.diff(heights, axis=0)).max() < 0.025


def test_raw_motion_that_changes_at_once_moves_no_planted_foot() -> None:
    one = Character()
    _, _, first = one.step(CROUCH_ROOT, CROUCH)
    _, _, after = one.step(CROUCH_ROOT + np.array([0.05, 0.0, -0.05]), bent(35.0))
    np.testing.assert_allclose(after, first, atol=1e-9)


def test_a_foot_let_go_is_back_on_its_own_course_and_makes_no_jump() -> None:
    one = Character()
    one.step(CROUCH_ROOT, CROUCH)
    drift = CROUCH_ROOT + np.array([0.08, 0.0, 0.0])
    one.step(CROUCH_ROOT + np.array([0.04, 0.0, 0.0]), CROUCH)
    _, _, held = one.step(drift, CROUCH)
    lifted = drift + np.array([0.0, 0.1, 0.0])
    own = joint_positions(HUMAN, lifted[None], CROUCH[None])[0, EFFECTORS]
    steps, last = [], held - drift
    for n in range(30):
        _, root, feet = one.step(drift + np.array([0.0, min(0.1, 0.01 * (n + 1)), 0.0]), CROUCH, NONE)
        steps.append(np.abs(feet - root - last).max() if n else 0.0)
        last = feet - root
    np.testing.assert_allclose(feet, own, atol=1e-9)
    assert max(steps) < 0.02


def test_a_body_that_walks_away_from_its_feet_lifts_heels_then_lets_go() -> None:
    one = Character()
    seen = []
    for n in range(200):
        flags, root, feet = one.step(CROUCH_ROOT + np.array([0.0, 0.0, 0.01 * n]), CROUCH)
        seen.append(flags & 0b1111)
        assert np.linalg.norm(feet[0] - root) < 1.1
    assert 0b1111 in seen and 0b1010 in seen
    assert seen.index(0b1010) > 20


def test_a_body_that_turns_on_the_spot_lets_its_feet_go_at_sixty_degrees() -> None:
    one = Character()
    held = []
    for n in range(90):
        wxyz = CROUCH.copy()
        wxyz[0] = (SO3.exp(np.array([0.0, 0.02 * n, 0.0])) @ SO3(wxyz[0])).wxyz
        held.append(one.step(CROUCH_ROOT, wxyz)[0] & 0b1111)
    turned = 0.02 * next(n for n, flags in enumerate(held) if flags != 0b1111)
    assert turned <= np.radians(65.0)


def test_the_root_comes_down_for_a_leg_that_is_too_short_but_not_far() -> None:
    """A body on straight legs drifts off its feet: it sinks, by 4 % of its leg at most, then its heels rise."""
    one = Character()
    drops, held = [], []
    for n in range(80):
        raw = STAND.root_position + np.array([0.0, 0.0, 0.004 * n])
        flags, root, feet = one.step(raw, STAND.rotations.wxyz)
        drops.append(raw[1] - root[1])
        held.append(flags)
        if flags & 0b1111 == 0b1111:
            np.testing.assert_allclose(feet[:, 1], LEGS.rest, atol=1e-3)
    assert 0.01 < max(drops) <= 0.04 * LEGS.reach[0] + 1e-9
    assert np.abs(np.diff(drops)).max() < 0.008
    assert 0b1010 in held


def test_toes_bend_on_the_floor_instead_of_piercing_it() -> None:
    one = Character()
    wxyz = CROUCH.copy()
    ankle, toe = LEGS.joints[0, 2:]
    wxyz[ankle] = (SO3(wxyz[ankle]) @ SO3.exp(np.array([0.7, 0.0, 0.0]))).wxyz
    root, turned = CROUCH_ROOT + np.array([0.0, 0.06, 0.0]), wxyz.copy()
    one.plant(DT, NONE, NOWHERE, np.zeros((4, 3)), root, turned)
    p, R = (v[0] for v in joint_frames_of(root, turned))
    raw_p, raw_R = (v[0] for v in joint_frames_of(CROUCH_ROOT + np.array([0.0, 0.06, 0.0]), wxyz))
    assert (raw_p[toe] + SO3(raw_R[toe]) @ LEGS.tip[0])[1] < -0.005
    assert (p[toe] + SO3(R[toe]) @ LEGS.tip[0])[1] > -1e-6


def joint_frames_of(root: FloatArray, wxyz: FloatArray) -> tuple[FloatArray, FloatArray]:
    from marey.skeleton import joint_frames

    positions, frames = joint_frames(HUMAN, np.asarray(root)[None], wxyz[None])
    return positions, frames.wxyz


def planted_frames(count: int) -> Callable[[], None]:
    """A function that plants the feet of a crouching character, so many frames at a call."""
    one = Character()
    root, wxyz = CROUCH_ROOT.copy(), CROUCH.copy()
    forecast = PlantForecast(ALL, NOWHERE, np.zeros((4, 3)), np.zeros((4, 3)), one.toe_in)

    def run() -> None:
        for _ in range(count):
            plant_step(DT, forecast, one.options, LEGS, one.state, root, wxyz)

    run()
    return run


@pytest.mark.timing
def test_a_frame_costs_microseconds() -> None:
    run = planted_frames(100)
    assert min(timeit.repeat(run, number=1, repeat=20)) / 100 < 200e-6


def test_a_frame_costs_no_memory() -> None:
    import tracemalloc

    run = planted_frames(2000)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    run()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 50_000  # one small array a frame would be four times as much
