"""Plant schedules from contact flags, and measures of planted feet.

The schedule tells the kernel for every frame what is planted, what comes next, and where. The measures tell where the
feet of a clip were planted and how far they slide there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.kinematics.foot_plants import FloorPlane
from marey.locomotion.plants.state import EFFECTOR_POINTS, FEET, NO_PLANT_S, LegArrays, make_leg_arrays
from marey.motion import Contacts, Motion, ensure_contacts, find_runs

MAX_BRIDGED_GAP_S: Final = 0.06  # [s] shorter gaps between two contacts of a point are flicker of the detector
MIN_PLANT_S: Final = 0.05  # [s] shorter contacts are not plants
HOLD: Final = 0.016  # [-] of the leg, 15 mm: a point farther from where it stands has not landed, or is leaving
LIFT: Final = 0.010  # [-] of the leg: the same upwards
LEVEL: Final = 0.027  # [-] of the leg: plants nearer than this to the floor are on it; others are on steps
HELD_PART: Final = 0.2  # [-] at each end of a contact the foot still rolls: the middle says where it stands

GoalEdit = Callable[[int, int, FloatArray], FloatArray]
"""Effector, frame in which it lands and goal ``(3,)`` [m]; returns the goal wanted."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedPlant:
    """One plant of one effector."""

    effector: int
    start: int
    stop: int
    place: FloatArray  # (3,) [m] where it stands in the clip
    ground: float  # [m] height of the ground there


@dataclass(frozen=True, slots=True, eq=False)
class PlantSchedule:
    """Arrays of ``plant_step``, frames first."""

    planted: BoolArray  # (F, 4)
    until_s: FloatArray  # (F, 4)
    landing: FloatArray  # (F, 4, 3) [m]
    shifts: FloatArray  # (F, 4, 3) [m]
    toe_in: FloatArray  # (F, 2) [rad]
    floor_y: float  # [m]


def effector_flags(contacts: Contacts) -> BoolArray:
    """Flags ``(F, 4)`` of right ankle, right toe, left ankle, left toe; a missing point is never in contact."""
    missing = np.zeros(len(contacts), dtype=np.bool_)
    tracks = [contacts.track(name) if name in contacts.names else missing for name in EFFECTOR_POINTS]
    return np.stack(tracks, axis=1)


def clean_contact_flags(flags: BoolArray, points: FloatArray, legs: LegArrays, rate_hz: float) -> BoolArray:
    """Contacts ``(F, 4)`` in which the effector stands: without flicker, and without the ends in which the foot rolls.

    A heel touches before its ankle stands still, and toes touch after the ball of the foot has left.
    """
    tidy = np.zeros_like(flags)
    for k in range(4):
        for start, stop in find_runs(flags[:, k], round(MAX_BRIDGED_GAP_S * rate_hz)):
            first, last = _find_standing_interval(points[start:stop, k], float(legs.reach[k // 2]))
            whole = start == 0 or stop == len(flags) or last - first >= MIN_PLANT_S * rate_hz
            tidy[start + first : start + last, k] = whole
    return tidy


def _find_standing_interval(path: FloatArray, leg_m: float) -> tuple[int, int]:
    """Part ``[first, last)`` of a contact in which its point is near the place where it stands."""
    away = path - standing_position(path)
    near = (np.hypot(away[:, 0], away[:, 2]) < HOLD * leg_m) & (away[:, 1] < LIFT * leg_m)
    core = int(np.argmin(np.linalg.norm(away, axis=1)))
    far = np.flatnonzero(~near)
    return int(far[far < core].max(initial=-1)) + 1, int(far[far > core].min(initial=len(path)))


def standing_position(path: FloatArray) -> FloatArray:
    """Where a contact ``(N, 3)`` stands: the median of its middle part."""
    margin = int(HELD_PART * len(path))
    return np.median(path[margin : len(path) - margin], axis=0)


def plan_schedule(
    flags: BoolArray,
    points: FloatArray,
    legs: LegArrays,
    rate_hz: float,
    *,
    floor_m: float | None = None,
    edit: GoalEdit | None = None,
) -> PlantSchedule:
    """Plan the plants of a clip.

    Args:
        flags: what is planted ``(F, 4)``.
        points: raw positions of the effectors ``(F, 4, 3)`` [m].
        legs: of the clip's skeleton.
        rate_hz: frames per second.
        floor_m: height of the floor; None fits a plane to the plants and keeps steps.
        edit: changes goals.
    """
    plants, floor = _plan_plants(flags, points, legs, floor_m)
    frames = len(flags)
    schedule = PlantSchedule(
        flags, np.full((frames, 4), NO_PLANT_S), points.copy(), np.zeros((frames, 4, 3)), np.zeros((frames, 2)), floor
    )
    for plant in plants:
        _announce_plant(schedule, plant, points[plant.start, plant.effector], rate_hz)
    for plant in plants if edit is not None else ():
        assert edit is not None
        _apply_edit(schedule, plant, points, legs, edit)
    return schedule


def _plan_plants(
    flags: BoolArray, points: FloatArray, legs: LegArrays, floor_m: float | None
) -> tuple[list[PlannedPlant], float]:
    """Plants by effector and time, and the height of the floor."""
    found = [(k, start, stop) for k in range(4) for start, stop in find_runs(flags[:, k])]
    places = [standing_position(points[start:stop, k]) for k, start, stop in found]
    soles = [place - np.array([0.0, legs.rest[k], 0.0]) for place, (k, _, _) in zip(places, found, strict=True)]
    floor, grounds = _ground_heights(np.array(soles).reshape(-1, 3), legs, floor_m)
    plants = [PlannedPlant(*run, place, float(y)) for run, place, y in zip(found, places, grounds, strict=True)]
    return plants, floor


def _ground_heights(soles: FloatArray, legs: LegArrays, floor_m: float | None) -> tuple[float, FloatArray]:
    """Height of the floor, and of the ground under each plant [m]."""
    if floor_m is not None:
        if not np.isfinite(floor_m):
            raise InputError(f"floor_m is {floor_m}", "Give a height in metres")
        return float(floor_m), np.full(len(soles), float(floor_m))
    if len(soles) == 0:
        return 0.0, np.zeros(0)
    ground = FloorPlane.fit(soles).under(soles)
    on_floor = np.abs(soles[:, 1] - ground) < LEVEL * float(legs.reach.min())
    if on_floor.any():
        ground = FloorPlane.fit(soles[on_floor]).under(soles)
    return float(np.median(ground)), np.where(on_floor, ground, soles[:, 1])


def _previous_plant_end(schedule: PlantSchedule, plant: PlannedPlant) -> int:
    """First frame after the plant before."""
    earlier = np.flatnonzero(schedule.planted[: plant.start, plant.effector])
    return int(earlier[-1]) + 1 if len(earlier) else 0


def _announce_plant(schedule: PlantSchedule, plant: PlannedPlant, raw: FloatArray, rate_hz: float) -> None:
    """Tell the frames before and in a plant of it."""
    k, before = plant.effector, max(_previous_plant_end(schedule, plant) - 1, 0)
    waiting = slice(before, plant.start)
    schedule.until_s[waiting, k] = (plant.start - np.arange(before, plant.start)) / rate_hz
    schedule.landing[waiting, k] = raw
    away = plant.place - raw
    schedule.shifts[before : plant.stop, k] = (away[0], plant.ground - schedule.floor_y, away[2])


def _apply_edit(
    schedule: PlantSchedule, plant: PlannedPlant, points: FloatArray, legs: LegArrays, edit: GoalEdit
) -> None:
    """Shift an ankle's plant, or turn the foot of a toe's, as an edit asks."""
    k, before = plant.effector, _previous_plant_end(schedule, plant)
    goal = np.array([plant.place[0], plant.ground + legs.rest[k], plant.place[2]])
    wanted = np.asarray(edit(k, plant.start, goal), dtype=np.float64)
    if wanted.shape != (3,) or not np.isfinite(wanted).all():
        raise InputError("an edit of a foot plant gave no point", "Return three finite numbers, in metres")
    if k % 2 == 0:
        schedule.shifts[before : plant.stop, k] += wanted - goal
        return
    ankle = points[plant.start, k - 1]
    old, new = goal - ankle, wanted - ankle
    turn = float(np.arctan2(new[0], new[2]) - np.arctan2(old[0], old[2]))
    schedule.toe_in[before : plant.stop, k // 2] = (turn + np.pi) % (2.0 * np.pi) - np.pi


@dataclass(frozen=True, slots=True, eq=False)
class FootPlant:
    """One stance of one foot."""

    side: str  # "right" or "left"
    start: int  # first frame of the contact
    stop: int  # first frame after it
    ankle: FloatArray  # (3,) [m] where the ankle stands
    toe: FloatArray  # (3,) [m] where the ball of the foot stands
    heading_rad: float  # ankle to ball: 0 is +Z, positive to the left


def effector_positions(motion: Motion) -> FloatArray:
    """Right ankle, right toe, left ankle, left toe ``(F, 4, 3)`` [m] of a clip."""
    return np.ascontiguousarray(motion.joint_positions()[:, make_leg_arrays(motion.skeleton).joints[:, 2:].reshape(4)])


def foot_plants(motion: Motion) -> tuple[FootPlant, ...]:
    """Footprints of a clip in the order of time: each stance of each foot, by the contact track or by detection."""
    points, flags = effector_positions(motion), _contact_flags(motion)
    found: list[FootPlant] = []
    for s, side in enumerate(FEET):
        a, t = 2 * s, 2 * s + 1
        for start, stop in find_runs(flags[:, a] | flags[:, t]):
            ankle = _held_position(points[start:stop, a], flags[start:stop, a])
            toe = _held_position(points[start:stop, t], flags[start:stop, t])
            heading = float(np.arctan2(toe[0] - ankle[0], toe[2] - ankle[2]))
            found.append(FootPlant(side, start, stop, ankle, toe, heading))
    return tuple(sorted(found, key=lambda plant: plant.start))


def plant_slide_mm(motion: Motion, plants: BoolArray | None = None) -> FloatArray:
    """How far each planted effector has moved over the ground since the frame before ``(F, 4)`` [mm].

    Right ankle, right toe, left ankle, left toe. Zero where the effector is not planted, and in the first and the last
    frame of a plant, in which it may land and leave ([Glardon2005]_, acceptance A26-A27).

    Args:
        motion: any clip.
        plants: flags ``(F, 4)``; those of the contact track if not given, which is detected if there is none.
    """
    points = effector_positions(motion)
    flags = _contact_flags(motion) if plants is None else np.asarray(plants, dtype=np.bool_)
    steps = np.diff(points[..., [0, 2]], axis=0)
    slides = np.zeros(flags.shape)
    slides[1:] = 1000.0 * np.hypot(steps[..., 0], steps[..., 1])
    inner = np.zeros_like(flags)
    inner[1:-1] = flags[:-2] & flags[1:-1] & flags[2:]
    return np.where(inner, slides, 0.0)


def _contact_flags(motion: Motion) -> BoolArray:
    contacts = ensure_contacts(motion).contacts
    assert contacts is not None
    return effector_flags(contacts)


def _held_position(path: FloatArray, held: BoolArray) -> FloatArray:
    return standing_position(path[held] if held.any() else path)
