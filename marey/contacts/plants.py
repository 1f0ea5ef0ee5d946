"""Where a foot stands: the point it turns about, frame by frame, and the place where that point stays.

A foot in contact turns about its heel (as it lands), stands on heel and ball, and turns about its toes: they lie flat
as the heel rises, so that the ball stays too, and stand on their end as the ball rises. Each time one point stays,
and where one takes over from the other both are at rest, so the places of one stance follow from one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.contacts.body import SIDES
from marey.motion import Contacts, find_runs

FREE, HEEL, FLAT, TOES = range(4)  # what a foot stands on
POINTS: Final = {HEEL: "heel", FLAT: "ball", TOES: "toe"}  # the point that stays


@dataclass(frozen=True, slots=True)
class HoldSettings:
    """How feet are planted; lengths are for legs of 0.86 m (a person of 1.75 m) and scale with the body."""

    rise_m: float = 0.003  # a ball that rises less than this is still down: the noise of a capture
    drift_m: float = 0.15  # a foot that slid farther during one contact has stepped: half the length of a foot
    roll_drift_m: float = 0.15  # the same on its heel or its toes
    yaw_m: float = 0.30  # [m/rad] what a turn of the foot counts: 29 degrees are as far as it may drift
    level_m: float = 0.07  # plants nearer than this to the floor are on it: captures are uneven, steps are higher
    uneven_m: float = 0.006  # ... and keep this much of their own height over a fitted floor, below it half as much
    pit_m: float = 0.20  # plants below the floor by less than this have sunk into it
    hold_m: float = 0.07  # a foot that lands or leaves is at its place when it is this near, and slides there before
    land_mps: float = 0.0  # ... and one that is slower does not land or leave: it is held where it is
    trim_share: float = 0.2  # [-] of a contact at either end: it slides no longer
    drag: bool = False  # a foot in contact that is not at its place yet stays on the ground; else it is lifted there
    step_s: float = 0.10  # time that a foot in contact gets to go from one place to the next
    flicker_s: float = 0.05  # a heel or toe cannot leave and be back in less
    ease_s: float = 0.07  # corrections fade within about three times this: most of a swing
    toe_hz: float = 6.0  # toes bend once a step; what is faster in captures is noise
    pelvis_s: float = 0.06  # smoothness of the pelvis' own correction
    firm_s: float = 0.06  # a contact carries the pelvis fully this long after it began, and before it ends
    drop_s: float = 0.05  # smoothness with which it is lowered where a leg is too short
    tilt: float = 0.12  # [-] of the foot: a heel that is so much higher than the ball does not stand, 7 degrees
    touch_m: float = 0.006  # a point in contact is down while it is this near to where it rests: noise of a capture
    rest_s: float = 0.10  # of a contact at either end: there a foot comes to its lowest
    rest_m: float = 0.01  # at its ends a foot is at most this much higher
    soft_landing: bool = True  # a foot that lands has come to rest over its place; else its level speed may jump
    strike_s: float = 0.025  # in which a foot in the air comes down to the ground: a heel strikes at 0.5 m/s
    slow_mps: float = 0.10  # a point of a sole that moves slower may touch the ground,
    fast_mps: float = 0.20  # one that is faster clears it
    overreach: bool = False  # whether a foot in the air may come lower than it was, so that its knee turns smoothly
    broken_m: float = 0.005  # a planted point farther than this from its place is a broken plant
    stretch: float = 0.996  # [-] largest extension of a leg: a knee of 10 degrees, unless the source's was straighter
    own_stretch: float = 0.99999  # [-] ... and unless the person's legs are straighter in this clip, up to this
    step_share: float = 1.3  # [-] of the largest turn of a knee or elbow from frame to frame in the source,
    step_rad: float = 0.035  # [rad] and this much more: 2 degrees, at most that a joint turns from frame to frame
    break_share: float = 1.12  # [-] of that turn: what a knee would turn faster in contact breaks its plant
    toes_rad: float = 1.0  # toes bend no further than this from where they were: 57 degrees
    toes_share: float = 0.45  # [-] of the largest turn of toes from frame to frame in the source,
    toes_step_rad: float = 0.05  # and this much more is added to it at most
    clearance_m: float = 0.012  # least height of a sole in the middle of a swing: most captures clear the floor by more


LEG_M: Final = 0.86  # [m] thigh and shank of the body for which the settings are stated
DEFAULT_HOLD: Final = HoldSettings()
# What the source calls a contact is one on the target as well, whatever a knee or toes do for it; a foot is on the
# floor up to the height at which the detector calls one lifted
RETARGET_HOLD: Final = HoldSettings(
    level_m=0.08,
    uneven_m=0.0,
    drift_m=0.25,  # the length of a foot: less is a foot that turned or was dragged, and holds all the same
    land_mps=0.5,
    trim_share=0.1,
    drag=True,
    soft_landing=False,
    rest_m=0.0,
    own_stretch=0.998,
    roll_drift_m=1e3,
    break_share=1e3,
    toes_rad=1e3,
    toes_step_rad=1e3,
    slow_mps=0.15,
    fast_mps=0.5,
    overreach=True,
)


def find_foot_modes(track: Contacts, flicker: int) -> dict[str, IntArray]:
    """What each foot stands on ``(F,)``; see :func:`find_modes`. A point that the track does not have is never down."""
    never = np.zeros(len(track), dtype=np.bool_)
    tracks = {name: track.track(name) for name in track.names}
    return {
        side: find_modes(tracks.get(f"{side}_heel", never), tracks.get(f"{side}_toe", never), flicker) for side in SIDES
    }


def find_modes(heel_down: BoolArray, toe_down: BoolArray, flicker: int) -> IntArray:
    """What a foot stands on ``(F,)``, from its contact flags.

    Inside a contact, a heel or toe that is up for fewer than ``flicker`` frames is flicker of a detector: the foot
    stays flat.
    """
    modes = np.where(heel_down & toe_down, FLAT, np.where(heel_down, HEEL, np.where(toe_down, TOES, FREE)))
    for start, stop in find_runs(modes != FREE, 0):
        changes = [int(c) for c in np.flatnonzero(np.diff(modes[start:stop])) + start + 1]
        # At either end of a contact on the toes a heel is not down for a moment
        if changes and changes[0] - start < flicker and modes[start] == HEEL and modes[changes[0]] == TOES:
            modes[start : changes.pop(0)] = TOES
        if changes and stop - changes[-1] < flicker and modes[stop - 1] == HEEL and modes[changes[-1] - 1] == TOES:
            modes[changes.pop() : stop] = TOES
        for a, b in pairwise(changes):
            if modes[a] != FLAT and b - a < flicker:
                modes[a:b] = FLAT
    return modes


@dataclass(frozen=True, slots=True, eq=False)
class FootPoints:
    """The points of one foot relative to its ankle, frame by frame, before it is planted."""

    heel: FloatArray  # (F, 3) [m] in world axes
    hinge: FloatArray  # (F, 3) joint of the toes
    ball: FloatArray  # (F, 3)
    toe: FloatArray  # (F, 3)

    def stands_on(self, mode: int) -> FloatArray:
        """Return the point ``(F, 3)`` [m] that stays in a mode; flat toes keep their ball too."""
        return self.heel if mode == HEEL else self.toe if mode == TOES else self.ball

    def at(self, modes: IntArray) -> FloatArray:
        """Return the point ``(F, 3)`` [m] that stays, frame by frame; the ball where the foot is free."""
        stacked = np.stack([self.stands_on(mode) for mode in (FREE, HEEL, FLAT, TOES)])
        return stacked[modes, np.arange(len(modes))]


@dataclass(frozen=True, slots=True)
class PlantRun:
    """Frames ``start`` to ``stop`` (not included) of one mode at one place."""

    start: int
    stop: int
    mode: int


def split_runs(modes: IntArray, tracks: FloatArray, drifts: tuple[float, float]) -> list[list[PlantRun]]:
    """Runs of one mode, those of one plant together; a run that drifts too far is cut.

    Args:
        modes: ``(F,)``.
        tracks: position and turn ``(4, F, 3)`` [m] of what stays, for each mode.
        drifts: how far a plant may drift [m] on the flat foot, and on heel or toes.
    """
    plants: list[list[PlantRun]] = []
    for start, stop in find_runs(modes != FREE, 0):
        changes = np.flatnonzero(np.diff(modes[start:stop])) + start + 1
        edges = [start, *(int(c) for c in changes), stop]
        plant: list[PlantRun] = []
        middle = None
        for a, b in pairwise(edges):
            mode = int(modes[a])
            drift = drifts[0] if mode == FLAT else drifts[1]
            first = a
            while first < b:
                # As many frames as stay near the middle of what is there already; heel and toes have their own
                seen = tracks[mode, first:b]
                known = middle if mode == FLAT else None
                reach = np.linalg.norm(seen - (np.median(seen, axis=0) if known is None else known), axis=-1)
                far = np.flatnonzero(reach > drift)
                last = b if not len(far) else first + int(far[0])
                if known is not None and last == first:
                    # The foot has stepped: another plant begins
                    plants.append(plant)
                    plant, middle = [], None
                    continue
                if known is None and len(far):
                    # Cut a long slide where it has gone as far as a plant may
                    reach = np.linalg.norm(seen - seen[0], axis=-1)
                    beyond = np.flatnonzero(reach > 1.6 * drift)
                    last = b if not len(beyond) else first + max(int(beyond[0]), 1)
                if mode != FLAT and first > a:
                    plants.append(plant)
                    plant, middle = [], None
                if plant and plant[-1].mode == mode:
                    plant[-1] = PlantRun(plant[-1].start, last, mode)
                else:
                    plant.append(PlantRun(first, last, mode))
                if mode == FLAT and middle is None:
                    middle = np.median(tracks[mode, first:last], axis=0)
                first = last
        plants.append(plant)
    return [plant for plant in plants if plant]


def place_runs(plant: list[PlantRun], points: FootPoints, ankle: FloatArray, height_m: float) -> list[FloatArray]:
    """Places ``(3,)`` [m] of the points that the runs of one plant stand on, so that each takes over at rest.

    Args:
        plant: runs of one plant, one after the other.
        points: of the foot, already turned as it will be.
        ankle: natural path ``(F, 3)`` [m].
        height_m: of the ground under this plant.
    """
    at = [points.stands_on(run.mode) for run in plant]
    sizes = [(run.stop - run.start) * (4 if run.mode == FLAT else 1) for run in plant]
    anchor = int(np.argmax(sizes))
    places: list[FloatArray] = [np.zeros(3) for _ in plant]
    span = slice(plant[anchor].start, plant[anchor].stop)
    places[anchor] = np.median(ankle[span] + at[anchor][span], axis=0)
    for order in (range(anchor + 1, len(plant)), range(anchor - 1, -1, -1)):
        for i in order:
            before = i - order.step
            near, here = plant[before], plant[i]
            # The frame of the flat foot, all of whose points are at rest, or the last one of the run placed already
            t = near.stop - 1 if order.step > 0 else near.start
            if here.mode == FLAT:
                t = here.start if order.step > 0 else here.stop - 1
            places[i] = places[before] + at[i][t] - at[before][t]
    # All of them move together to where corrections are least, those at both ends of the contact included
    wrong = np.concatenate(
        [
            ankle[run.start : run.stop] + p[run.start : run.stop] - place
            for run, p, place in zip(plant, at, places, strict=True)
        ]
    )
    shift = 0.5 * (wrong.mean(axis=0) + 0.5 * (wrong.min(axis=0) + wrong.max(axis=0)))
    places = [place + shift for place in places]
    for place in places:
        place[1] = height_m
    return places
