"""Foot plants of any clip: feet that slide, sink or hover are held where they stand.

Contact flags become forecasts, which tell the kernel for every frame what is planted, what comes next, and where. Heels
stay where they strike while the foot rolls down, and contact tracks are trimmed to what stays in place. The measures
tell where the feet of a clip were planted and how far they slide there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, UnknownNameError
from marey.contacts import detect_contacts, ensure_contacts
from marey.contacts.floor import FloorPlane
from marey.kinematics import Limb, solve_two_bone
from marey.lie import SO3
from marey.locomotion.plants.baselines import plant_step_priority
from marey.locomotion.plants.state import (
    EFFECTOR_POINTS,
    FEET,
    LEG_SOLVERS,
    NO_PLANT_S,
    PLANT_EASE_S,
    LegArrays,
    PlantForecast,
    PlantOptions,
    allocate_plant_state,
    make_leg_arrays,
)
from marey.locomotion.plants.step import plant_clip
from marey.motion import Contacts, Motion, contact_positions, find_runs
from marey.numerics import smoothstep
from marey.skeleton import Pose, contact_points

MAX_BRIDGED_GAP_S: Final = 0.06  # [s] shorter gaps between two contacts of a point are flicker of the detector
MIN_PLANT_S: Final = 0.05  # [s] shorter contacts are not plants
HOLD: Final = 0.016  # [-] of the leg, 15 mm: a point farther from where it stands has not landed, or is leaving
LIFT: Final = 0.010  # [-] of the leg: the same upwards
LEVEL: Final = 0.027  # [-] of the leg: plants nearer than this to the floor are on it; others are on steps
HELD_PART: Final = 0.2  # [-] at each end of a contact the foot still rolls: the middle says where it stands

PlantEdit = Callable[[str, FloatArray, Pose], FloatArray]
"""``edit(effector, goal, pose)``: the effector (``"right_ankle"``, ``"right_foot"``, ...), its goal ``(3,)`` [m] and
the raw pose in which it lands; returns the goal wanted. A toe's goal only turns its foot."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedPlant:
    """One plant of one effector."""

    effector: int
    start: int
    stop: int
    place: FloatArray  # (3,) [m] where it stands in the clip
    ground: float  # [m] height of the ground there


def effector_flags(contacts: Contacts | None) -> BoolArray:
    """Flags ``(F, 4)`` of right ankle, right toe, left ankle, left toe; a missing point is never in contact."""
    assert contacts is not None  # of a clip that has its contacts ensured
    missing = np.zeros(len(contacts), dtype=np.bool_)
    tracks = [contacts.track(name) if name in contacts.names else missing for name in EFFECTOR_POINTS]
    return np.stack(tracks, axis=1)


def standing_position(path: FloatArray) -> FloatArray:
    """Where a contact ``(N, 3)`` stands: the median of its middle part."""
    margin = int(HELD_PART * len(path))
    return np.median(path[margin : len(path) - margin], axis=0)


def plan_schedule(
    flags: BoolArray,
    points: FloatArray,
    legs: LegArrays,
    motion: Motion,
    *,
    floor_m: float | None = None,
    edit: PlantEdit | None = None,
) -> tuple[PlantForecast, float]:
    """Plan the plants of a clip; returns the forecasts of all frames, frames first, and the height of the floor [m].

    Args:
        flags: what is planted ``(F, 4)``.
        points: raw positions of the effectors ``(F, 4, 3)`` [m].
        legs: of the clip's skeleton.
        motion: the clip.
        floor_m: height of the floor; None fits a plane to the plants and keeps steps.
        edit: changes where effectors land.
    """
    found = [(k, start, stop) for k in range(4) for start, stop in find_runs(flags[:, k])]
    places = [standing_position(points[start:stop, k]) for k, start, stop in found]
    soles = [place - np.array([0.0, legs.rest[k], 0.0]) for place, (k, _, _) in zip(places, found, strict=True)]
    floor, grounds = _ground_heights(np.array(soles).reshape(-1, 3), legs, floor_m)
    plants = [PlannedPlant(*run, place, float(y)) for run, place, y in zip(found, places, grounds, strict=True)]
    frames = len(flags)
    forecast = PlantForecast(
        flags, np.full((frames, 4), NO_PLANT_S), points.copy(), np.zeros((frames, 4, 3)), np.zeros((frames, 2))
    )
    for plant in plants:
        # The frames before a plant, from the end of the one before on, are told when and where it starts.
        k, before = plant.effector, max(_previous_plant_end(flags, plant) - 1, 0)
        raw = points[plant.start, k]
        forecast.until_s[before : plant.start, k] = (plant.start - np.arange(before, plant.start)) / motion.rate_hz
        forecast.landing[before : plant.start, k] = raw
        away = plant.place - raw
        forecast.shift[before : plant.stop, k] = (away[0], plant.ground - floor, away[2])
    if edit is None:
        return forecast, floor
    names = [f"{side}_{part}" for side in FEET for part in ("ankle", "foot")]
    for plant in plants:
        # An edit shifts the plant of an ankle, and turns the foot of a toe.
        k, before = plant.effector, _previous_plant_end(forecast.planted, plant)
        goal = np.array([plant.place[0], plant.ground + legs.rest[k], plant.place[2]])
        wanted = np.asarray(edit(names[k], goal, motion[plant.start]), dtype=np.float64)
        if wanted.shape != (3,) or not np.isfinite(wanted).all():
            raise InputError("an edit of a foot plant gave no point", "Return three finite numbers, in metres")
        if k % 2 == 0:
            forecast.shift[before : plant.stop, k] += wanted - goal
        else:
            ankle = points[plant.start, k - 1]
            old, new = goal - ankle, wanted - ankle
            turn = float(np.arctan2(new[0], new[2]) - np.arctan2(old[0], old[2]))
            forecast.toe_in[before : plant.stop, k // 2] = (turn + np.pi) % (2.0 * np.pi) - np.pi
    return forecast, floor


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


def _previous_plant_end(flags: BoolArray, plant: PlannedPlant) -> int:
    """First frame after the plant before."""
    earlier = np.flatnonzero(flags[: plant.start, plant.effector])
    return int(earlier[-1]) + 1 if len(earlier) else 0


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
    points, flags = effector_positions(motion), effector_flags(ensure_contacts(motion).contacts)
    found: list[FootPlant] = []
    for s, side in enumerate(FEET):
        a, t = 2 * s, 2 * s + 1
        for start, stop in find_runs(flags[:, a] | flags[:, t]):
            places: list[FloatArray] = []
            for k in (a, t):
                path, held = points[start:stop, k], flags[start:stop, k]
                places.append(standing_position(path[held] if held.any() else path))
            ankle, toe = places
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
    found = plants if plants is not None else effector_flags(ensure_contacts(motion).contacts)
    flags = np.asarray(found, dtype=np.bool_)
    steps = np.diff(points[..., [0, 2]], axis=0)
    slides = np.zeros(flags.shape)
    slides[1:] = 1000.0 * np.hypot(steps[..., 0], steps[..., 1])
    inner = np.zeros_like(flags)
    inner[1:-1] = flags[:-2] & flags[1:-1] & flags[2:]
    return np.where(inner, slides, 0.0)


DETECTIONS: Final = ("contacts", "adaptive", "threshold")
LONGEST_EASE_S: Final = 2.0  # [s] no swing lasts longer


def enforce_plants(
    motion: Motion,
    *,
    plants: BoolArray | None = None,
    ease_s: float | None = None,
    edit: PlantEdit | None = None,
    ik: str = "analytic",
    floor_m: float | None = None,
    detection: str = "contacts",
) -> Motion:
    """Keep planted feet where they stand, and feet in the air above the ground.

    Ankles and toes are held during their plants and eased in and out of them ([Glardon2005]_ §III.2.4); legs follow by
    inverse kinematics; bones keep their length. Where a leg does not reach, the root comes down by at most 4 % of the
    leg, then the heel rises, then the plant ends. The result has the contact track of what is held.

    Args:
        motion: any clip whose skeleton has two legs with feet.
        plants: which of right ankle, right toe, left ankle, left toe are planted ``(F, 4)``; detected if not given.
        ease_s: longest ease-in or ease-out, 0.2 s.
        edit: changes where effectors land, such as :func:`pigeon_toe`.
        ik: ``"analytic"`` (exact ankle, the knee in its own plane) or ``"priority"`` (damped least squares).
        floor_m: height of the floor; if not given, a plane is fitted to the plants, and steps are kept.
        detection: ``"contacts"`` (the clip's own track, or ``marey.detect_contacts``), ``"adaptive"`` (walks and runs),
            or ``"threshold"`` (the baseline).

    Raises:
        UnknownNameError: a leg lacks a joint, or there is no such detection or solver.
        InputError: ``plants`` has a wrong shape, a number is not finite, or bones change their length.
    """
    if detection not in DETECTIONS:
        raise UnknownNameError("detection", detection, "enforce_plants", DETECTIONS)
    if ik not in LEG_SOLVERS:
        raise UnknownNameError("solver", ik, "enforce_plants", LEG_SOLVERS)
    if ease_s is not None and not 0.0 < ease_s <= LONGEST_EASE_S:
        raise InputError(f"ease_s is {ease_s}", "Give a time in seconds, such as 0.2")
    if motion.translations is not None:
        raise InputError("the bones of this clip change their length", "Retarget it first: marey.retarget(motion)")
    # What is planted: as told, or by the contacts of the clip, without flicker
    legs, frames = make_leg_arrays(motion.skeleton), motion.num_frames
    points = np.ascontiguousarray(motion.joint_positions()[:, legs.joints[:, 2:].reshape(4)])
    if plants is None:
        clip = ensure_contacts(motion) if detection == "contacts" else None
        contacts = detect_contacts(motion, method=detection) if clip is None else clip.contacts
        # Contacts without flicker, and without the ends in which the foot rolls: a heel touches before its ankle
        # stands still, and toes touch after the ball of the foot has left.
        touching, rate_hz = effector_flags(contacts), motion.rate_hz
        flags = np.zeros_like(touching)
        for k in range(4):
            for start, stop in find_runs(touching[:, k], round(MAX_BRIDGED_GAP_S * rate_hz)):
                # The part [first, last) of the contact in which its point is near the place where it stands
                path, leg_m = points[start:stop, k], float(legs.reach[k // 2])
                away = path - standing_position(path)
                near = (np.hypot(away[:, 0], away[:, 2]) < HOLD * leg_m) & (away[:, 1] < LIFT * leg_m)
                core = int(np.argmin(np.linalg.norm(away, axis=1)))
                far = np.flatnonzero(~near)
                first = int(far[far < core].max(initial=-1)) + 1
                last = int(far[far > core].min(initial=len(path)))
                whole = start == 0 or stop == len(flags) or last - first >= MIN_PLANT_S * rate_hz
                flags[start + first : start + last, k] = whole
    else:
        flags = np.ascontiguousarray(np.asarray(plants))
        if flags.shape != (frames, 4) or flags.dtype != np.bool_:
            raise InputError(f"plants is {flags.dtype} of shape {flags.shape}", f"Give true or false, ({frames}, 4)")
    # Where the plants are, as edited
    forecasts, floor_y = plan_schedule(flags, points, legs, motion, floor_m=floor_m, edit=edit)
    # Frame by frame the feet are held, and the contact track tells what is.
    options = PlantOptions(PLANT_EASE_S if ease_s is None else float(ease_s), floor_y)
    roots, wxyz = motion.root_positions.copy(), motion.rotations.wxyz.copy()
    dt, state = 1.0 / motion.rate_hz, allocate_plant_state()
    if ik == "priority":
        every = [PlantForecast(*(array[f] for array in forecasts)) for f in range(frames)]
        found = [plant_step_priority(dt, every[f], options, legs, state, roots[f], wxyz[f]) for f in range(frames)]
        bits = np.array(found, dtype=np.int64)
    else:
        bits = plant_clip(dt, forecasts, options, legs, state, roots, wxyz)
    held = (bits[:, None] >> np.arange(4)) & 1 == 1
    return replace(
        motion, root_positions=roots, rotations=SO3(wxyz), contacts=Contacts(EFFECTOR_POINTS, held), source=None
    )


def pigeon_toe(angle_rad: float) -> PlantEdit:
    """Edit that turns the toes of both feet inwards by an angle; ankles stay ([Glardon2005]_ §III.2.5).

    The toe's goal turns about the vertical through its ankle towards the other foot; a negative angle turns it out.
    """
    if not abs(angle_rad) < np.pi / 2:
        raise InputError(f"angle_rad is {angle_rad}", "Give an angle of less than a quarter turn, in radians")

    def turned(effector: str, goal: FloatArray, pose: Pose) -> FloatArray:
        side, part = effector.split("_")
        if part != "foot":
            return goal
        ankle = pose.joint_positions()[make_leg_arrays(pose.skeleton).joints[FEET.index(side), 2]]
        c, s = np.cos(angle_rad), np.sin(angle_rad if side == "right" else -angle_rad)
        x, z = goal[0] - ankle[0], goal[2] - ankle[2]
        return np.array([ankle[0] + c * x + s * z, goal[1], ankle[2] + c * z - s * x])

    return turned


LANDING_EASE_S: Final = 0.15  # [s] before the strike, over which the ankle leaves its way
MAX_STILL_SLIDE_MM: Final = 1.5  # [mm] a frame: a point that moves more is landing or leaving
MAX_PIVOT_LEG_EXTENSION: Final = 0.9995  # [-] largest leg extension, equal to that of the engine


def pivot_landing_feet(motion: Motion) -> Motion:
    """Feet pivot on the heel when they land; contacts begin and end where their point stays in place.

    The engine holds ankles, as [Glardon2005]_ §III.2.4 does, so that a heel swings back by a centimetre while its foot
    rolls down. A whole clip allows better: the ankle comes in by so much less, and goes ahead over the heel.
    """
    for side in ("left", "right"):
        assert motion.contacts is not None
        limb = Limb.from_name(motion.skeleton, f"{side}_leg")
        heel, toe = (motion.contacts.track(f"{side}_{part}") for part in ("heel", "toe"))
        path = contact_positions(motion)[:, contact_points(motion.skeleton).index(f"{side}_heel")]
        shift, before = np.zeros((motion.num_frames, 3)), 0
        for start, stop in find_runs(heel | toe):
            # A foot that lands on its heel alone, and keeps it down, pivots until heel and toe are down.
            both = start + np.flatnonzero(heel[start:stop] & toe[start:stop])
            lands_on_heel = heel[start] and not toe[start]
            if start > 0 and lands_on_heel and len(both) and heel[start : both[0]].all():
                flat = int(both[0])
                shift[start:flat] = (path[flat] - path[start:flat]) * [1.0, 0.0, 1.0]
                # The shift fades in before the strike by a cubic step.
                first = max(before, start - round(LANDING_EASE_S * motion.rate_hz))
                u = (np.arange(first, start) - first) / max(start - first, 1)
                shift[first:start] = smoothstep(u)[:, None] * shift[start]
            before = stop
        if np.any(shift):
            ankles = motion.joint_positions()[:, limb.end] + shift
            _, frames = motion.joint_frames()
            motion = solve_two_bone(
                motion, limb, ankles, end_rotations=frames[:, limb.end], stretch=MAX_PIVOT_LEG_EXTENSION
            ).motion  # fmt: skip
    return replace(motion, contacts=trim_sliding_contacts(motion))


def trim_sliding_contacts(motion: Motion) -> Contacts:
    """The contact track of a clip without the ends of contacts in which the point still moves, or moves again."""
    assert motion.contacts is not None
    names, active = motion.contacts.names, motion.contacts.active.copy()
    points = contact_positions(motion)[:, [contact_points(motion.skeleton).index(name) for name in names]]
    moved = 1000.0 * np.linalg.norm(np.diff(points, axis=0), axis=-1)
    for k in range(len(names)):
        for start, stop in find_runs(motion.contacts.active[:, k]):
            still = np.flatnonzero(moved[start : stop - 1, k] <= MAX_STILL_SLIDE_MM)
            first, last = (start + still[0], start + still[-1] + 2) if len(still) else (stop, stop)
            active[start:first, k], active[last:stop, k] = False, False
    return Contacts(names, active)
