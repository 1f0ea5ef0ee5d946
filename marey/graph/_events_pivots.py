"""Feet that turn or creep while they are planted: the stance is cut there."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.motion import Contacts, Motion, contact_positions, ensure_contacts
from marey.skeleton import contact_points

SIDES: Final = ("left", "right")
PARTS: Final = ("heel", "toe")
LIFT_S: Final = 0.1  # [s] shortest time for which a foot that pivots counts as lifted
END_SHARE: Final = 0.15  # [-] of a stance at either end, in which feet roll, is not looked at
MAX_CUTS: Final = 6  # of one stance
TURN_RAD: Final = 0.6  # a foot that turns farther on the ground has pivoted


def lift_pivots(motion: Motion, worst_m: float) -> Motion:
    """The clip with contacts cleared while a planted foot pivots, if the other foot stands.

    A stance whose ball wanders farther than ``worst_m``, or turns by more than ``TURN_RAD``, becomes two: the foot is
    lifted for the time of its fastest way, if the other one carries the body then; of two feet that pivot together
    the second is lifted when the first stands again.
    """
    motion = ensure_contacts(motion)
    assert motion.contacts is not None
    names, active = motion.contacts.names, motion.contacts.active.copy()
    points = contact_positions(motion)
    known = contact_points(motion.skeleton).names
    if any(f"{side}_{part}" not in group for group in (names, known) for side in SIDES for part in PARTS):
        return motion
    feet = [_FootTrack.from_motion(names, known, points, side, motion.rate_hz) for side in SIDES]
    down = np.stack([active[:, foot.columns].any(axis=1) for foot in feet], axis=1)
    shortest = max(int(np.ceil(LIFT_S * motion.rate_hz)), 2)
    for number, foot in enumerate(feet):
        for start, stop in _stance_ranges(down[:, number]):
            for wanted in foot.pivots(start, stop, worst_m, shortest):
                a, b = _supported_range(wanted, stop - shortest, down[:, 1 - number])
                down[a:b, number] = False
                active[a:b, foot.columns] = False
    return replace(motion, contacts=Contacts(names, active))


def _supported_range(wanted: tuple[int, int], last: int, other: BoolArray) -> tuple[int, int]:
    """The first range of frames, as long as that wanted and not before it, in which the other foot stands."""
    length = wanted[1] - wanted[0]
    for start in range(wanted[0], last - length + 1):
        if other[start : start + length].all():
            return start, start + length
    return last, last


class _FootTrack:
    """Track of one foot over the ground."""

    def __init__(self, columns: list[int], ball: FloatArray, yaw: FloatArray, speed: FloatArray) -> None:
        self.columns, self._ball, self._yaw, self._speed = columns, ball, yaw, speed

    @classmethod
    def from_motion(
        cls, names: tuple[str, ...], known: tuple[str, ...], points: FloatArray, side: str, rate_hz: float
    ) -> _FootTrack:
        """Ball, direction and speed of a foot, frame by frame."""
        columns = [names.index(f"{side}_{part}") for part in PARTS]
        heel, toe = (points[:, known.index(f"{side}_{part}")][:, [0, 2]] for part in PARTS)
        along = toe - heel
        yaw = np.unwrap(np.arctan2(along[:, 0], along[:, 1]))
        rate = np.abs(np.gradient(yaw)) * rate_hz
        speed = np.linalg.norm(np.gradient(toe, axis=0), axis=1) * rate_hz + 0.15 * rate
        return cls(columns, toe, yaw, speed)

    def pivots(self, start: int, stop: int, worst_m: float, shortest: int, depth: int = 0) -> list[tuple[int, int]]:
        """Ranges of frames, inside a stance, in which the foot goes from one place to another."""
        margin = max(int(END_SHARE * (stop - start)), shortest)
        inner = slice(start + margin, stop - margin)
        if depth >= MAX_CUTS or inner.stop - inner.start < 3 * shortest or not self._is_wandering(inner, worst_m):
            return []
        at = inner.start + int(np.argmax(self._speed[inner]))
        half = 0.5 * self._speed[at]
        a, b = at, at + 1
        while a > inner.start and (self._speed[a - 1] > half or at - a < shortest // 2):
            a -= 1
        while b < inner.stop and (self._speed[b] > half or b - at <= shortest // 2):
            b += 1
        before = self.pivots(start, a, worst_m, shortest, depth + 1)
        return [*before, (a, b), *self.pivots(b, stop, worst_m, shortest, depth + 1)]

    def _is_wandering(self, frames: slice, worst_m: float) -> bool:
        off = self._ball[frames] - np.median(self._ball[frames], axis=0)
        return bool(np.hypot(*off.T).max() > worst_m or np.ptp(self._yaw[frames]) > TURN_RAD)


def _stance_ranges(down: BoolArray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], down, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
