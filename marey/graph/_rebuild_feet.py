"""Planted feet of a rebuilt motion: each stands in one place from its landing to its leaving."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.blending import lower_root_to_reach
from marey.graph._rebuild_joins import PoseTrack
from marey.graph._rebuild_track import SIDES
from marey.kinematics import Limb, solve_two_bone
from marey.lie import SO3
from marey.motion import Contacts, Motion, contact_positions, find_runs
from marey.numerics import fill_gaps
from marey.skeleton import contact_points

MAX_LEG_EXTENSION: Final = 0.998  # [-] of a leg that holds its plant
MIN_LEG_EXTENSION: Final = 0.2  # [-] part of a stance in which its foot is as low as it gets
HOVER_M: Final = 0.02  # [m] a planted foot no higher than this above that is put on the ground
SHUFFLE_M: Final = 0.08  # [m] a foot that two stretches have farther apart than this takes a step
HALF_STEP_S: Final = 0.2  # [s] half of the time that this takes
SETTLED_S: Final = 0.05  # [s] after the landing of the other foot it may begin
LIFT_M: Final = 0.05  # [m] how high such a foot is lifted
LOW_SWING_M: Final = 0.02  # [m] one that never is as high as this in a swing takes a step that no clip has
LEVEL: Final = 0.7  # [-] part of the foot's length seen from above: below, its heading is not measured
STILL_MPS: Final = 0.11  # [m/s] a point of a planted foot that is faster does not touch
STILL_M: Final = 0.0019  # [m] nor does one that moves farther from one frame to the next
LOW_M: Final = 0.01  # [m] and one that is higher
UP: Final = np.array([0.0, 1.0, 0.0])


def plant_positions(track: PoseTrack) -> FloatArray:
    """One place for each stance of each foot ``(F, 2, 3)``: the mean of where it is while poses are placed by it.

    NaN while in the air. A stance in which a foot never is the anchor stands where it stood first. Where stretches meet
    that have a foot in quite other places, and the other foot carries the body, it takes a small step.
    """
    held = np.full_like(track.plants, np.nan)
    for foot in range(2):
        for start, stop in find_runs(~np.isnan(track.plants[:, foot, 0])):
            for own in _split_stances(track, foot, np.arange(start, stop)):
                placed = own[track.is_anchor[own, foot]]
                places = track.plants[placed if len(placed) else own[:1], foot]
                places = np.concatenate([places[:, :2], np.unwrap(places[:, 2:], axis=0)], axis=1)
                held[own, foot] = places.mean(axis=0)
    return held


def _split_stances(track: PoseTrack, foot: int, own: IntArray) -> list[IntArray]:
    """Knots of a stance, cut where its foot is suddenly elsewhere, with time for a step between the parts."""
    places = track.plants[own, foot, :2]
    jumps = 1 + np.flatnonzero(np.linalg.norm(np.diff(places, axis=0), axis=1) > SHUFFLE_M)
    for jump in jumps:
        t, at = track.times[own], float(track.times[own[jump]])
        carried = next((r for r in _stance_times(track, 1 - foot) if r[0] <= at <= r[1]), (at, at))
        begin = max(at - HALF_STEP_S, carried[0] + SETTLED_S)
        end = begin + 2.0 * HALF_STEP_S
        before, after = own[t <= begin], own[t >= end]
        if len(before) > 1 and len(after) > 1 and end <= carried[1]:
            return [before, *_split_stances(track, foot, after)]
    return [own]


def _stance_times(track: PoseTrack, foot: int) -> list[tuple[float, float]]:
    """Times [s] from which to which a foot stands."""
    found = find_runs(~np.isnan(track.plants[:, foot, 0]))
    return [(float(track.times[a]), float(track.times[b - 1])) for a, b in found]


def hold_feet(motion: Motion, places: FloatArray) -> Motion:
    """Hold planted feet at ``places`` (F, 2, 3) and on the ground; all other feet above it.

    What a foot is carried by goes from that of one stance to that of the next during the swing, by a cubic step. Legs
    follow; the root comes down by some centimetres where a leg would not reach. The result has the contact track of
    what is shown in place.
    """
    targets = [_foot_targets(motion, side, places[:, n]) for n, side in enumerate(SIDES)]
    held = lower_root_to_reach(motion, [ankles for ankles, _ in targets])
    for side, (ankles, turns) in zip(SIDES, targets, strict=True):
        limb = Limb.from_name(motion.skeleton, f"{side}_leg")
        _, frames = held.joint_frames()
        held = solve_two_bone(
            held, limb, ankles, end_rotations=turns @ frames[:, limb.end], stretch=MAX_LEG_EXTENSION
        ).motion
    return replace(held, contacts=foot_contacts(held, places))


def _foot_targets(motion: Motion, side: str, places: FloatArray) -> tuple[FloatArray, SO3]:
    """Where the ankle goes ``(F, 3)`` and the turn of the foot about the vertical."""
    heel, ball = _sole_points(motion, side)
    ankle = motion.joint_positions()[:, Limb.from_name(motion.skeleton, f"{side}_leg").end]
    planted = ~np.isnan(places[:, 0])
    along = (ball - heel) * [1.0, 0.0, 1.0]
    length = np.linalg.norm(along, axis=1)
    level = planted & (length > LEVEL * np.linalg.norm(ball - heel, axis=1).max())
    off = (places[:, 2] - np.arctan2(along[:, 0], along[:, 2]) + np.pi) % (2.0 * np.pi) - np.pi
    yaw = fill_gaps(np.where(level, off, 0.0)[:, None], level)
    turn = SO3.exp(yaw * UP)
    low = ball[:, 1] + np.minimum(0.0, (heel - ball)[:, 1])
    shift = np.stack([places[:, 0] - ball[:, 0], 0.0 * low, places[:, 1] - ball[:, 2]], axis=1)
    shift = fill_gaps(np.where(planted[:, None], shift, 0.0), planted)
    down = fill_gaps(-low[:, None], _flat_frames(low, planted))[:, 0]
    shift[:, 1] = np.maximum(down, -low) + _swing_lift(low, planted, HALF_STEP_S * motion.rate_hz)
    return turn @ (ankle - ball) + ball + shift, turn


def _swing_lift(low: FloatArray, planted: BoolArray, shortest: float) -> FloatArray:
    """How much [m] feet are lifted in swings in which they stay on the ground: small steps that no clip has taken."""
    lift = np.zeros_like(low)
    for start, stop in find_runs(~planted):
        if start > 0 and stop < len(low) and stop - start > shortest and low[start:stop].max() < LOW_SWING_M:
            u = np.arange(1, stop - start + 1) / (stop - start + 1)
            lift[start:stop] = LIFT_M * 16.0 * (u * (1.0 - u)) ** 2
    return lift


def _flat_frames(low: FloatArray, planted: BoolArray) -> BoolArray:
    """Frames of each stance in which the foot is about as low as it gets; in the others it lands or leaves."""
    flat = np.zeros_like(planted)
    for start, stop in find_runs(planted):
        flat[start:stop] = low[start:stop] < np.quantile(low[start:stop], MIN_LEG_EXTENSION) + HOVER_M
    return flat


def _sole_points(motion: Motion, side: str) -> tuple[FloatArray, FloatArray]:
    names, points = contact_points(motion.skeleton).names, contact_positions(motion)
    return points[:, names.index(f"{side}_heel")], points[:, names.index(f"{side}_toe")]


def foot_contacts(motion: Motion, places: FloatArray) -> Contacts:
    """Heels and toes of planted feet that are on the ground and stay in place."""
    names, points = contact_points(motion.skeleton).names, contact_positions(motion)
    steps = np.linalg.norm(np.diff(points, axis=0), axis=-1)
    steps = np.maximum(np.pad(steps, ((1, 0), (0, 0))), np.pad(steps, ((0, 1), (0, 0))))
    touching = (steps < min(STILL_M, STILL_MPS / motion.rate_hz)) & (points[:, :, 1] < LOW_M)
    active = np.zeros((motion.num_frames, len(names)), dtype=bool)
    for n, side in enumerate(SIDES):
        for part in ("heel", "toe"):
            number = names.index(f"{side}_{part}")
            active[:, number] = touching[:, number] & ~np.isnan(places[:, n, 0])
    return Contacts(names, active)
