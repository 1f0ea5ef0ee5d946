"""Which point of which foot stands where and when: the one schedule of plants, and contacts trimmed to what rests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.contacts.body import SIDES, BodyPosture
from marey.motion import Contacts, find_runs

REST_QUANTILE = 0.1  # [-] of the heights in a contact lie below the one at which its point rests


@dataclass(frozen=True, slots=True, eq=False)
class FootPlant:
    """One point of one foot that stays at one place."""

    foot: str  # "left" or "right"
    point: str  # "heel", "ball" (the sole is flat on the ground) or "toe" (its end; flat toes keep the ball too)
    start: int  # first frame
    stop: int  # first frame after it
    place: FloatArray  # (3,) [m] where the point stays
    floor_m: float  # height of the ground under it

    @property
    def sole_point(self) -> str:
        """Name of the point of the sole that stays."""
        return f"{self.foot}_{'toe_end' if self.point == 'toe' else self.point}"


@dataclass(frozen=True, slots=True, eq=False)
class ContactSchedule:
    """The plants of a clip in the order of time."""

    plants: tuple[FootPlant, ...]
    num_frames: int
    rate_hz: float

    def __len__(self) -> int:
        return len(self.plants)

    def __iter__(self) -> Iterator[FootPlant]:
        return iter(self.plants)

    def to_contacts(self, hands: Contacts | None = None) -> Contacts:
        """Track of both heels and toes; what stands flat stands on both. Other points are those of ``hands``."""
        names = [f"{side}_{part}" for side in SIDES for part in ("heel", "toe")]
        flags = np.zeros((self.num_frames, len(names)), dtype=np.bool_)
        for plant in self.plants:
            parts = ("heel", "toe") if plant.point == "ball" else (plant.point,)
            for part in parts:
                flags[plant.start : plant.stop, names.index(f"{plant.foot}_{part}")] = True
        others = [] if hands is None else [name for name in hands.names if name not in names]
        tracks = [] if hands is None else [hands.track(name)[:, None] for name in others]
        return Contacts((*names, *others), np.concatenate([flags, *tracks], axis=1))


def trim_contacts(track: Contacts, body: BodyPosture, heights: FloatArray, touch_m: float, tilt: float) -> Contacts:
    """Contacts of heels and toes from the first to the last frame in which their point rests.

    Detectors give the benefit of the doubt: a heel is called down up to two centimetres before it lands, a toe until it
    has risen by as much. A point rests within ``touch_m`` of the height that is exceeded in nine tenths of its contact;
    of a toe the ball and the end count. Contacts that begin or end with the clip do so still. A heel that is higher
    than the ball by more than ``tilt`` of the foot gives its contact to the toe, and the other way round. ``heights``
    ``(F, S)`` [m] are those of the points of the soles.
    """
    track = _exchange_points(track, body, heights, tilt)
    active = track.active.copy()
    for side in SIDES:
        columns = [track.names.index(name) for name in (f"{side}_heel", f"{side}_toe") if name in track.names]
        for part, names in (("heel", ("heel",)), ("toe", ("ball", "toe_end"))):
            if f"{side}_{part}" not in track.names:
                continue
            column = track.names.index(f"{side}_{part}")
            for start, stop in find_runs(active[:, column], 0):
                at = heights[start:stop, [body.sole.index(f"{side}_{name}") for name in names]]
                high = (at - np.quantile(at, REST_QUANTILE, axis=0)).min(axis=1)
                rests = start + np.flatnonzero(high <= touch_m)
                active[start : int(rests[0]) if start > 0 else start, column] = False
                active[int(rests[-1]) + 1 if stop < len(active) else stop : stop, column] = False
        # A foot that rolls from one point to the other does not leave the ground in between
        for start, stop in find_runs(cast(BoolArray, track.active[:, columns].any(axis=1)), 0):
            down = start + np.flatnonzero(active[start:stop, columns].any(axis=1))
            for first, last in find_runs(cast(BoolArray, ~active[start:stop, columns].any(axis=1)), 0):
                if len(down) and down[0] < start + first and start + last <= down[-1]:
                    span = slice(start + first, start + last)
                    active[span, columns] = track.active[span, columns]
    return Contacts(track.names, active)


def _exchange_points(track: Contacts, body: BodyPosture, heights: FloatArray, most: float) -> Contacts:
    """Contacts in which no heel stands while the ball is far below it, nor the other way round.

    Both are compared with how the foot stands on both: the sole of a skeleton is an estimate.
    """
    active = track.active.copy()
    for side in SIDES:
        if not {f"{side}_heel", f"{side}_toe"} <= set(track.names):
            continue
        heel, toe = (track.names.index(f"{side}_{part}") for part in ("heel", "toe"))
        tilt = heights[:, body.sole.index(f"{side}_heel")] - heights[:, body.sole.index(f"{side}_ball")]
        is_flat = track.active[:, heel] & track.active[:, toe]
        tilt = tilt - (np.median(tilt[is_flat]) if is_flat.any() else 0.0)
        low = most * body.sole_length(side)
        for one, other, is_above in ((heel, toe, tilt > low), (toe, heel, tilt < -low)):
            wrong = track.active[:, one] & is_above
            active[wrong, one], active[wrong, other] = False, True
    return Contacts(track.names, active)
