"""From a contact track to what the kernel wants to know of every frame: what is planted, what comes, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.kinematics._plants import Floor, runs
from marey.locomotion._plant_arrays import EFFECTOR_POINTS, FAR_S, Legs
from marey.motion import Contacts

BRIDGED_S: Final = 0.06  # [s] shorter gaps between two contacts of a point are flicker of the detector
SHORTEST_S: Final = 0.05  # [s] shorter contacts are not plants
HOLD: Final = 0.016  # [-] of the leg, 15 mm: a point farther from where it stands has not landed, or is leaving
LIFT: Final = 0.010  # [-] of the leg: the same upwards
LEVEL: Final = 0.027  # [-] of the leg: plants nearer than this to the floor are on it; others are on steps
HELD_PART: Final = 0.2  # [-] at each end of a contact the foot still rolls: the middle says where it stands


@dataclass(frozen=True, slots=True, eq=False)
class PlantSchedule:
    """Arrays of ``plant_step``, frames first."""

    planted: BoolArray  # (F, 4)
    until_s: FloatArray  # (F, 4)
    landing: FloatArray  # (F, 4, 3) [m]
    shifts: FloatArray  # (F, 4, 3) [m]


def effector_flags(contacts: Contacts) -> BoolArray:
    """Flags ``(F, 4)`` of right ankle, right toe, left ankle, left toe; a missing point is never in contact."""
    missing = np.zeros(len(contacts), dtype=np.bool_)
    tracks = [contacts.track(name) if name in contacts.names else missing for name in EFFECTOR_POINTS]
    return np.stack(tracks, axis=1)


def tidy_flags(flags: BoolArray, points: FloatArray, legs: Legs, rate_hz: float) -> BoolArray:
    """Contacts ``(F, 4)`` in which the effector stands: without flicker, and without the ends in which the foot rolls.

    A heel touches before its ankle stands still, and toes touch after the ball of the foot has left.
    """
    tidy = np.zeros_like(flags)
    for k in range(4):
        for start, stop in runs(flags[:, k], round(BRIDGED_S * rate_hz)):
            first, last = _standing(points[start:stop, k], legs.reach[k // 2])
            whole = start == 0 or stop == len(flags) or last - first >= SHORTEST_S * rate_hz
            tidy[start + first : start + last, k] = whole
    return tidy


def _standing(path: FloatArray, leg_m: float) -> tuple[int, int]:
    """Part ``[first, last)`` of a contact in which its point is near the place where it stands."""
    away = path - _place(path)
    near = (np.hypot(away[:, 0], away[:, 2]) < HOLD * leg_m) & (away[:, 1] < LIFT * leg_m)
    core = int(np.argmin(np.linalg.norm(away, axis=1)))
    far = np.flatnonzero(~near)
    return int(far[far < core].max(initial=-1)) + 1, int(far[far > core].min(initial=len(path)))


def plan_schedule(
    flags: BoolArray, points: FloatArray, legs: Legs, rate_hz: float, floor_m: float | None
) -> tuple[PlantSchedule, float]:
    """Plan the plants of a clip; returns them and the height of the floor.

    Args:
        flags: ``(F, 4)``.
        points: raw positions of the effectors ``(F, 4, 3)`` [m].
        legs: of the clip's skeleton.
        rate_hz: frames per second.
        floor_m: height of the floor; None fits a plane to the plants.
    """
    found = [(k, start, stop) for k in range(4) for start, stop in runs(flags[:, k])]
    places = np.array([_place(points[start:stop, k]) for k, start, stop in found]).reshape(-1, 3)
    soles = places - np.array([[0.0, legs.rest[k], 0.0] for k, _, _ in found]).reshape(-1, 3)
    base, levels = _levels(soles, legs, floor_m)
    frames = len(flags)
    schedule = PlantSchedule(flags, np.full((frames, 4), FAR_S), points.copy(), np.zeros((frames, 4, 3)))
    for (k, start, stop), place, level in zip(found, places, levels, strict=True):
        _announce(schedule, (k, start, stop), points[start, k], place, level, rate_hz)
    return schedule, base


def _announce(
    schedule: PlantSchedule, plant: tuple[int, int, int], raw: FloatArray, place: FloatArray, level: float, rate: float
) -> None:
    """Tell the frames before and in a plant of it; plants come in the order of time."""
    k, start, stop = plant
    before = int(np.flatnonzero(schedule.planted[:start, k])[-1]) if schedule.planted[:start, k].any() else 0
    waiting = slice(before, start)
    schedule.until_s[waiting, k] = (start - np.arange(before, start)) / rate
    schedule.landing[waiting, k] = raw
    schedule.shifts[before:stop, k] = (place[0] - raw[0], level, place[2] - raw[2])


def _place(path: FloatArray) -> FloatArray:
    """Where a contact stands: the median of its middle part."""
    margin = int(HELD_PART * len(path))
    return np.median(path[margin : len(path) - margin], axis=0)


def _levels(soles: FloatArray, legs: Legs, floor_m: float | None) -> tuple[float, FloatArray]:
    """Height of the floor, and of the ground under each plant over it [m]."""
    if floor_m is not None:
        if not np.isfinite(floor_m):
            raise InputError(f"floor_m is {floor_m}", "Give a height in metres")
        return float(floor_m), np.zeros(len(soles))
    if len(soles) == 0:
        return 0.0, np.zeros(0)
    plane = Floor.fit(soles)
    ground = plane.under(soles)
    on_floor = np.abs(soles[:, 1] - ground) < LEVEL * float(legs.reach.min())
    if on_floor.any():
        plane = Floor.fit(soles[on_floor])
        ground = plane.under(soles)
    base = float(np.median(ground))
    return base, np.where(on_floor, ground, soles[:, 1]) - base
