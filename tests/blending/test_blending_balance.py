"""Balance: shifts of a pendulum against closed forms, and clips of the engine that tipped before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey.base import InputError
from marey.blending import balance_motion, lower_root_to_reach
from marey.blending.balance import (
    DEFAULT_SETTINGS,
    DIRECTIONS,
    NUM_DIRECTIONS,
    PressureConstraints,
    solve_least_shift,
)
from marey.dynamics import check_validity
from marey.kinematics import Limb
from marey.locomotion import Action, Engine, Script, Transition, perform_script
from marey.motion import Motion, contact_positions

RATE = 60.0
LEVER = 0.1  # [s²] one metre over gravity
FRAMES = 241


def need(places: np.ndarray, low: float, high: float, flying: slice = slice(0, 0)) -> PressureConstraints:
    """Soles that reach from ``low`` to ``high`` along x, and as far in z."""
    x, z = DIRECTIONS.T
    bound = np.where(x > 0.0, x * high, x * low) + np.abs(z) * high
    carried = np.ones(len(places), dtype=bool)
    carried[flying] = False
    return PressureConstraints(places, np.full(len(places), LEVER), np.tile(bound, (len(places), 1)), carried, carried)


def pressure(places: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Where the ground pushes after a shift: the twin of the equations, by differences."""
    bend = np.zeros_like(shift)
    bend[1:-1] = np.diff(shift, n=2, axis=0) * RATE**2
    return places + DEFAULT_SETTINGS.com_follows_root * (shift - LEVER * bend)


def pushed(beside_m: float, start: int = 100, stop: int = 140) -> np.ndarray:
    places = np.zeros((FRAMES, 2))
    places[start:stop, 0] = beside_m
    return places


def test_nothing_moves_where_the_soles_are_under_the_pressure():
    shift = solve_least_shift(need(pushed(0.04), -0.05, 0.05), RATE)
    assert np.abs(shift).max() == 0.0


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_pressure_beside_the_soles_is_brought_onto_them(side):
    places = pushed(side * 0.15)
    shift = solve_least_shift(need(places, -0.05, 0.05), RATE)
    assert np.abs(pressure(places, shift)).max() < 0.06
    assert side * shift[120, 0] < 0.0
    assert np.abs(shift[:, 1]).max() < 1e-9, "a push to the side asks for nothing ahead"


def test_the_shift_begins_before_the_push_and_vanishes_at_the_ends():
    shift = solve_least_shift(need(pushed(0.15), -0.05, 0.05), RATE)[:, 0]
    assert np.abs(shift[85:100]).max() > 0.002
    assert np.abs(shift[[0, -1]]).max() < 1e-4
    assert np.abs(np.diff(shift)[[0, -1]]).max() * RATE < 1e-3


def test_a_lasting_pull_is_met_by_the_lean_of_a_pendulum():
    """Held at rest under a pull, :math:`\\delta` is the pressure's own way to the edge: no acceleration is left."""
    places = np.zeros((1201, 2))
    places[120:-120, 0] = 0.08
    shift = solve_least_shift(need(places, -0.05, 0.05), RATE)[:, 0]
    middle = shift[500:700]
    np.testing.assert_allclose(middle, -0.03 / DEFAULT_SETTINGS.com_follows_root, atol=0.002)


def test_frames_to_keep_stay():
    shift = solve_least_shift(need(pushed(0.1), -0.05, 0.05), RATE, keep=(120,))
    free = solve_least_shift(need(pushed(0.1), -0.05, 0.05), RATE)
    assert abs(shift[120, 0]) < 0.05 * abs(free[120, 0])


def test_what_flies_is_not_pushed():
    places = pushed(0.15, 100, 118)
    shift = solve_least_shift(need(places, -0.05, 0.05, flying=slice(120, 150)), RATE)[:, 0]
    bend = np.diff(shift, n=2) * RATE**2
    assert np.abs(bend[121:147]).max() < 0.05 * np.abs(bend).max()


def test_the_shift_turns_with_the_scene():
    """A quarter turn is a symmetry of the half planes."""
    places = pushed(0.12)
    one = solve_least_shift(need(places, -0.05, 0.05), RATE)
    square = need(places[:, ::-1].copy(), -0.05, 0.05)
    bound = np.roll(need(places, -0.05, 0.05).bounds, -NUM_DIRECTIONS // 4, axis=1)
    other = solve_least_shift(square._replace(bounds=bound), RATE)
    np.testing.assert_allclose(other[:, 1], one[:, 0], atol=1e-4)


@pytest.fixture(scope="module")
def weave() -> Motion:
    """From a stand into a left and a right curve, and to a stand."""
    turns = [part for turn in (0.6, -0.6) for part in (Transition(0.6), Action(0.7, 1.2, turn_rate=turn))]
    ends = Action(0.5, 0.0), Transition(1.1), Transition(1.1), Action(1.2, 0.0)
    return perform_script(Script((ends[0], ends[1], Action(0.6, 1.2), *turns, ends[2], ends[3]), rate_hz=RATE)).motion


@pytest.fixture(scope="module")
def steady(weave) -> Motion:
    return balance_motion(weave)


def test_a_walk_that_tips_in_curves_and_stops_is_made_valid(weave, steady):
    assert check_validity(weave).valid_fraction < 0.9  # 0.88: the engine leans, but only as it comes
    assert check_validity(steady).valid_fraction > 0.98


def test_feet_stay_where_they_were(weave, steady):
    before, after = contact_positions(weave), contact_positions(steady)
    np.testing.assert_allclose(after[:, :4], before[:, :4], atol=5e-4)
    np.testing.assert_array_equal(steady.contacts.active, weave.contacts.active)


def test_the_root_moves_by_centimetres_and_smoothly(weave, steady):
    moved = steady.root_positions - weave.root_positions
    assert 0.01 < np.abs(moved).max() < 0.12
    assert np.abs(np.diff(moved, axis=0)).max() * RATE < 0.4
    assert np.abs(moved[[0, -1]][:, [0, 2]]).max() < 1e-4
    hard, harder = (np.abs(np.diff(m.root_positions, n=2, axis=0)).max() * RATE**2 for m in (weave, steady))
    assert harder < hard + 1.0


def test_only_root_and_legs_move(weave, steady):
    legs = [k for k, n in enumerate(weave.skeleton.names) if any(p in n for p in ("hip", "knee", "ankle", "root"))]
    rest = [k for k in range(weave.skeleton.num_joints) if k not in legs and k > 0]
    np.testing.assert_array_equal(steady.rotations.wxyz[:, rest], weave.rotations.wxyz[:, rest])


def test_a_second_balance_has_little_to_do(steady):
    again = balance_motion(steady)
    assert np.abs(again.root_positions - steady.root_positions)[:, [0, 2]].max() < 0.02


def test_the_same_clip_gives_the_same_bytes(weave, steady):
    np.testing.assert_array_equal(balance_motion(weave).rotations.wxyz, steady.rotations.wxyz)


def test_frames_to_keep_keep_the_root_of_a_clip(weave):
    kept = balance_motion(weave, keep=(200,))
    assert np.abs((kept.root_positions - weave.root_positions)[200, [0, 2]]).max() < 0.003


def test_a_stand_stays_as_it_is():
    stand = Engine().run(2.0)
    np.testing.assert_allclose(balance_motion(stand).root_positions, stand.root_positions, atol=1e-9)


def test_clips_too_short_for_accelerations_are_left_alone(weave):
    assert balance_motion(weave[10:13]).num_frames == 3


def test_a_clip_without_contacts_has_them_found(weave):
    found = balance_motion(replace(weave, contacts=None))
    assert check_validity(found).valid_fraction > 0.9


def test_frames_and_margins_out_of_range_are_told(weave):
    with pytest.raises(InputError, match="frame 9999"):
        balance_motion(weave, keep=(9999,))
    with pytest.raises(InputError, match="margin_m"):
        balance_motion(weave, margin_m=float("nan"))


def test_the_root_comes_down_where_a_leg_would_not_reach(weave):
    legs = [Limb.from_name(weave.skeleton, f"{side}_leg") for side in ("left", "right")]
    ankles = [weave.joint_positions()[:, leg.end].copy() for leg in legs]
    ankles[0][100] += [0.0, -0.03, 0.0]
    down = (weave.root_positions - lower_root_to_reach(weave, ankles).root_positions)[:, 1]
    assert 0.0 < down[100] <= 0.05
    assert np.all(down[:70] < 1e-3)
    assert np.abs(np.diff(down)).max() < 0.006
