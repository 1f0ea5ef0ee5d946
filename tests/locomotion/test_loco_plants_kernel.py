"""The plant kernels themselves: easing laws, both solvers, surprises, sizes, unreachable goals."""

from __future__ import annotations

import timeit
from collections import deque
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.ease import cubic_step, eased_effector, interrupted_ease

from marey.base import FloatArray, InputError
from marey.lie import SO3
from marey.locomotion.plants.baselines import pose_leg_priority
from marey.locomotion.plants.hold import TICKS_AHEAD, TOUCH_M, hold_frame, hold_tick, quintic_step
from marey.locomotion.plants.leg import heel_rise_angle, pose_leg, write_foot_measures, write_leg_frames
from marey.locomotion.plants.state import (
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
    """A body in a raw pose whose feet are held tick by tick; what shows is three ticks older, as in the engine."""

    def __init__(self, scale: float = 1.0, toe_in_rad: float = 0.0) -> None:
        self.state, self.options = allocate_plant_state(), PlantOptions(scale=scale)
        self.toe_in = np.array([toe_in_rad, -toe_in_rad])
        self.skeleton = HUMAN.scaled(scale)
        self.frames: deque[tuple[FloatArray, FloatArray, FloatArray]] = deque(maxlen=TICKS_AHEAD + 1)

    def tick(self, root: FloatArray, wxyz: FloatArray, planted=ALL, until=NOWHERE, landing=None) -> None:
        """Work out one tick."""
        landing = np.zeros((4, 3)) if landing is None else landing
        forecast = PlantForecast(planted, until, landing, np.zeros((4, 3)), self.toe_in)
        raw = np.array(root, dtype=np.float64), np.array(wxyz, dtype=np.float64)
        self.frames.extend([(*raw, planted)] * (1 if self.frames else TICKS_AHEAD + 1))
        hold_tick(forecast, self.options, LEGS, self.state, raw[0].copy(), raw[1].copy())

    def show(self, u: float = 0.0, frame: int = 0) -> tuple[int, FloatArray, FloatArray]:
        """Return flags, root and effectors ``(4, 3)`` of the raw frame ``TICKS_AHEAD`` ticks ago, or of a later one."""
        root, wxyz, planted = self.frames[frame]
        root, wxyz = root.copy(), wxyz.copy()
        flags = hold_frame(u, planted, self.options, LEGS, self.state, root, wxyz)
        assert np.isfinite(wxyz).all() and np.isfinite(root).all()
        return flags, root, joint_positions(self.skeleton, root[None], wxyz[None])[0, EFFECTORS]

    def step(self, root: FloatArray, wxyz: FloatArray, planted=ALL, until=NOWHERE, landing=None):
        """Tick, then show."""
        self.tick(root, wxyz, planted, until, landing)
        return self.show()


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
HOVER_M = 0.5 * TOUCH_M  # a soft floor carries a flat foot this high
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


@given(st.floats(-2.0, 3.0))
def test_glardon_a30_the_step_of_the_engine_is_level_at_both_ends(x: float) -> None:
    """The product eases by the quintic, which has no acceleration at its ends; the cubic of the source does."""
    held = min(1.0, max(0.0, x))
    assert quintic_step(x) == pytest.approx(held**3 * (10.0 - 15.0 * held + 6.0 * held**2), abs=1e-12)
    for end in (0.0, 1.0):
        around = [quintic_step(end + h) for h in (-1e-4, 0.0, 1e-4)]
        assert np.abs(np.diff(around)).max() < 2e-11 and around[1] == end


@pytest.mark.parametrize("interrupted_at", [6, 13, 20, 27, 34])
def test_glardon_a30_corrections_are_continuous_at_corners_and_at_any_interruption(interrupted_at: int) -> None:
    """Frames on both sides of every tick agree to 1e-9: before, at and after a plant, and where the motion changes.

    The foot is in the air, lands, stands and leaves; at the interruption its body turns another way and its landing
    moves by six centimetres.
    """
    one = Character()
    for n in range(60):
        far = max(0, n - interrupted_at)
        root = CROUCH_ROOT + np.array([0.003 * far, 0.05 * max(0.0, 1.0 - n / 20.0), 0.004 * n - 0.006 * far])
        landing = joint_positions(HUMAN, CROUCH_ROOT[None], CROUCH[None])[0, EFFECTORS]
        landing[:2] += [0.02 + (0.06 if far else 0.0), 0.0, 0.05]
        down = 20 <= n < 40
        until = np.array([(20 - n) * DT] * 2 + [NO_PLANT_S] * 2) if n < 20 else NOWHERE
        if n:
            # The raw frame of one moment, at the end of one tick and at the begin of the next
            before = one.show(1.0 - 1e-12, 1)[2]
        one.tick(root, CROUCH, np.array([down, down, True, True]), until, landing)
        if n:
            after = one.show(0.0)[2]
            np.testing.assert_allclose(before, after, atol=1e-9)


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
    """Within the tenths of a millimetre that a spline of its corrections leaves at 1 Hz (A27: 0.2 a frame)."""
    one = Character()
    _, _, first = one.step(CROUCH_ROOT, CROUCH)
    last = first
    for n in range(120):
        sway = [0.04 * (1.0 - np.cos(0.1 * n)), 0.0, 0.03 * (np.cos(0.07 * n) - 1.0)]
        flags, _, feet = one.step(CROUCH_ROOT + sway, CROUCH)
        assert flags == 0b1111
        np.testing.assert_allclose(feet, first, atol=5e-4)
        assert np.linalg.norm(feet - last, axis=1).max() < 2e-4
        last = feet


def test_a_body_that_drifts_steadily_keeps_its_feet_exactly() -> None:
    one = Character()
    for _ in range(10):
        one.step(CROUCH_ROOT, CROUCH)
    _, _, first = one.show()
    for n in range(8):
        one.step(CROUCH_ROOT + np.array([0.004 * n, 0.0, 0.003 * n]), CROUCH)
    places = [one.step(CROUCH_ROOT + np.array([0.004 * n, 0.0, 0.003 * n]), CROUCH)[2] for n in range(8, 20)]
    np.testing.assert_allclose(places, np.broadcast_to(first, (12, 4, 3)), atol=1e-9)


@settings(max_examples=25)
@given(st.floats(0.5, 1.6))
def test_lengths_follow_the_size_of_the_character(scale: float) -> None:
    one = Character(scale)
    flags, _, feet = one.step(CROUCH_ROOT * scale, CROUCH)
    assert flags == 0b1111
    np.testing.assert_allclose(feet[:, 1], scale * (LEGS.rest + HOVER_M), atol=1e-9)


def test_a_foot_lands_where_it_was_foreseen() -> None:
    """A foot comes down towards a foreseen place while the raw motion drifts; it arrives and stays."""
    one = Character()
    landing = joint_positions(HUMAN, CROUCH_ROOT[None], CROUCH[None])[0, EFFECTORS]
    landing[:2] += [0.05, 0.0, 0.08]
    for n in range(20, 0, -1):
        until = np.array([n * DT, (n + 3) * DT, NO_PLANT_S, NO_PLANT_S])
        one.step(CROUCH_ROOT + np.array([0.0, 0.05, 0.0]), CROUCH, np.array([False, False, True, True]), until, landing)
    ankles = []
    for n in range(30):
        flags, _, feet = one.step(CROUCH_ROOT + np.array([0.004 * n, 0.0, 0.0]), CROUCH)
        ankles.append(feet[0])
        assert flags & 2 or n < TICKS_AHEAD
    # It is at rest within 0.07 s of its landing, and three ticks of those show later
    np.testing.assert_allclose(ankles[-1][[0, 2]], landing[0, [0, 2]], atol=2e-3)
    assert np.ptp(np.array(ankles[12:])[:, [0, 2]], axis=0).max() < 1e-9
    assert ankles[-1][1] == pytest.approx(LEGS.rest[0] + HOVER_M, abs=1e-9)


def test_a_plant_that_nobody_announced_is_held_where_the_foot_is_and_settles() -> None:
    one = Character()
    high = CROUCH_ROOT + np.array([0.0, 0.04, 0.0])
    one.step(high, CROUCH, NONE)
    heights = [one.step(high, CROUCH)[2][:, 1] - LEGS.rest for _ in range(20)]
    assert heights[0].max() > 0.02
    np.testing.assert_allclose(heights[-1], HOVER_M, atol=1e-9)
    assert np.abs(np.diff(heights, axis=0)).max() < 0.025


def test_a_foot_let_go_is_back_on_its_own_course_and_makes_no_jump() -> None:
    one = Character()
    one.step(CROUCH_ROOT, CROUCH)
    drift = CROUCH_ROOT + np.array([0.08, 0.0, 0.0])
    for n in range(1, 21):
        one.step(CROUCH_ROOT + np.array([0.004 * n, 0.0, 0.0]), CROUCH)
    _, root, held = one.show()
    lifted = drift + np.array([0.0, 0.1, 0.0])
    own = joint_positions(HUMAN, lifted[None], CROUCH[None])[0, EFFECTORS]
    steps, last = [], held - root
    for n in range(40):
        until = np.full(4, max(0.6 - n * DT, 0.3))
        _, root, feet = one.step(drift + np.array([0.0, min(0.1, 0.01 * (n + 1)), 0.0]), CROUCH, NONE, until)
        steps.append(np.abs(feet - root - last).max())
        last = feet - root
    np.testing.assert_allclose(feet, own, atol=1e-9)
    assert max(steps) < 0.02


def test_a_body_that_walks_away_from_its_feet_lifts_heels_and_is_told_as_broken() -> None:
    one = Character()
    seen, heels = [], []
    for n in range(120):
        flags, root, feet = one.step(CROUCH_ROOT + np.array([0.0, 0.0, 0.01 * n]), CROUCH)
        seen.append(flags)
        heels.append(feet[0, 1] - LEGS.rest[0])
        assert np.linalg.norm(feet[0] - root) < 1.1
    assert seen[5] == 0b1111 and seen[-1] & 0b110000 == 0b110000
    # Until it is broken its toes stay planned, and it is so for longer than its legs were bent
    assert next(n for n, flags in enumerate(seen) if flags & 0b110000) > 20


def test_a_body_that_turns_on_the_spot_lets_its_feet_go_at_sixty_degrees() -> None:
    one = Character()
    broken = []
    for n in range(90):
        wxyz = CROUCH.copy()
        wxyz[0] = (SO3.exp(np.array([0.0, 0.02 * n, 0.0])) @ SO3(wxyz[0])).wxyz
        broken.append(bool(one.step(CROUCH_ROOT, wxyz)[0] & 0b110000))
    turned = 0.02 * broken.index(True)
    assert np.radians(30.0) < turned <= np.radians(65.0)


def test_the_root_comes_down_for_a_leg_that_is_too_short_but_not_far() -> None:
    """A body on straight legs drifts off its feet: it sinks, by 4 % of its leg at most."""
    one = Character()
    drops = []
    for n in range(80):
        one.tick(STAND.root_position + np.array([0.0, 0.0, 0.004 * n]), STAND.rotations.wxyz)
        raw = one.frames[0][0]
        drops.append(raw[1] - one.show()[1][1])
    assert 0.01 < max(drops) <= 0.04 * LEGS.reach[0] + 1e-9
    assert np.abs(np.diff(drops)).max() < 0.008


def test_toes_bend_on_the_floor_instead_of_piercing_it() -> None:
    one = Character()
    wxyz = CROUCH.copy()
    ankle, toe = LEGS.joints[0, 2:]
    wxyz[ankle] = (SO3(wxyz[ankle]) @ SO3.exp(np.array([0.7, 0.0, 0.0]))).wxyz
    root = CROUCH_ROOT + np.array([0.0, 0.06, 0.0])
    one.tick(root, wxyz, NONE)
    held_root, turned, planted = (np.copy(part) for part in one.frames[0])
    hold_frame(0.0, planted, one.options, LEGS, one.state, held_root, turned)
    p, R = (v[0] for v in joint_frames_of(held_root, turned))
    raw_p, raw_R = (v[0] for v in joint_frames_of(root, wxyz))
    assert (raw_p[toe] + SO3(raw_R[toe]) @ LEGS.tip[0])[1] < -0.005
    assert (p[toe] + SO3(R[toe]) @ LEGS.tip[0])[1] > -1e-6


def joint_frames_of(root: FloatArray, wxyz: FloatArray) -> tuple[FloatArray, FloatArray]:
    from marey.skeleton import joint_frames

    positions, frames = joint_frames(HUMAN, np.asarray(root)[None], wxyz[None])
    return positions, frames.wxyz


def planted_frames(count: int) -> Callable[[], None]:
    """A function that plants the feet of a crouching character, so many frames and ticks at a call."""
    one = Character()
    root, wxyz = CROUCH_ROOT.copy(), CROUCH.copy()
    forecast = PlantForecast(ALL, NOWHERE, np.zeros((4, 3)), np.zeros((4, 3)), one.toe_in)

    def run() -> None:
        for _ in range(count):
            hold_tick(forecast, one.options, LEGS, one.state, root, wxyz)
            hold_frame(0.0, ALL, one.options, LEGS, one.state, root, wxyz)

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
