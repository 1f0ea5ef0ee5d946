"""Foot plants of any clip: feet that slide, sink or hover are held where they stand.

Heels stay where they strike while the foot rolls down, and contact tracks are trimmed to what stays in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, UnknownNameError
from marey.kinematics import Limb, solve_two_bone
from marey.lie import SO3
from marey.locomotion.plants.baselines import plant_clip_priority
from marey.locomotion.plants.schedule import GoalEdit, PlantSchedule, clean_contact_flags, effector_flags, plan_schedule
from marey.locomotion.plants.state import (
    EFFECTOR_POINTS,
    FEET,
    PLANT_EASE_S,
    LegArrays,
    allocate_plant_state,
    make_leg_arrays,
    make_plant_options,
)
from marey.locomotion.plants.step import plant_clip
from marey.motion import Contacts, Motion, contact_positions, detect_contacts, ensure_contacts, find_runs
from marey.numerics import smoothstep
from marey.skeleton import Pose, contact_points

DETECTIONS: Final = ("contacts", "adaptive", "threshold")
SOLVERS: Final = ("analytic", "priority")
LONGEST_EASE_S: Final = 2.0  # [s] no swing lasts longer

PlantEdit = Callable[[str, FloatArray, Pose], FloatArray]
"""``edit(effector, goal, pose)``: the effector (``"right_ankle"``, ``"right_foot"``, ...), its goal ``(3,)`` [m] and
the raw pose in which it lands; returns the goal wanted. A toe's goal only turns its foot."""


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
        InputError: ``plants`` has another shape, a number is no number, or bones change their length.
    """
    _check_plant_request(motion, ease_s, ik, detection)
    legs = make_leg_arrays(motion.skeleton)
    points = np.ascontiguousarray(motion.joint_positions()[:, legs.joints[:, 2:].reshape(4)])
    if plants is None:
        flags = clean_contact_flags(_detect_flags(motion, detection), points, legs, motion.rate_hz)
    else:
        flags = _given_flags(plants, motion.num_frames)
    goal_edit = None if edit is None else _make_goal_edit(motion, edit)
    schedule = plan_schedule(flags, points, legs, motion.rate_hz, floor_m=floor_m, edit=goal_edit)
    return _enforce_schedule(motion, schedule, legs, PLANT_EASE_S if ease_s is None else float(ease_s), ik)


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


def _check_plant_request(motion: Motion, ease_s: float | None, ik: str, detection: str) -> None:
    if detection not in DETECTIONS:
        raise UnknownNameError("detection", detection, "enforce_plants", DETECTIONS)
    if ik not in SOLVERS:
        raise UnknownNameError("solver", ik, "enforce_plants", SOLVERS)
    if ease_s is not None and not 0.0 < ease_s <= LONGEST_EASE_S:
        raise InputError(f"ease_s is {ease_s}", "Give a time in seconds, such as 0.2")
    if motion.translations is not None:
        raise InputError("the bones of this clip change their length", "Retarget it first: marey.retarget(motion)")


def _given_flags(plants: BoolArray, frames: int) -> BoolArray:
    flags = np.asarray(plants)
    if flags.shape != (frames, 4) or flags.dtype != np.bool_:
        raise InputError(f"plants is {flags.dtype} of shape {flags.shape}", f"Give true or false, ({frames}, 4)")
    return np.ascontiguousarray(flags)


def _detect_flags(motion: Motion, detection: str) -> BoolArray:
    if detection != "contacts":
        return effector_flags(detect_contacts(motion, method=detection))
    contacts = ensure_contacts(motion).contacts
    assert contacts is not None
    return effector_flags(contacts)


def _make_goal_edit(motion: Motion, edit: PlantEdit) -> GoalEdit:
    names = [f"{side}_{part}" for side in FEET for part in ("ankle", "foot")]

    def changed(effector: int, frame: int, goal: FloatArray) -> FloatArray:
        return edit(names[effector], goal, motion[frame])

    return changed


def _enforce_schedule(motion: Motion, schedule: PlantSchedule, legs: LegArrays, ease_s: float, ik: str) -> Motion:

    plant = plant_clip_priority if ik == "priority" else plant_clip
    roots, wxyz = motion.root_positions.copy(), motion.rotations.wxyz.copy()
    flags = plant(
        1.0 / motion.rate_hz,
        schedule.planted,
        schedule.until_s,
        schedule.landing,
        schedule.shifts,
        schedule.toe_in,
        make_plant_options(ease_s=ease_s),
        schedule.floor_y,
        legs,
        allocate_plant_state(),
        roots,
        wxyz,
    )
    held = (flags[:, None] >> np.arange(4)) & 1 == 1
    return replace(
        motion, root_positions=roots, rotations=SO3(wxyz), contacts=Contacts(EFFECTOR_POINTS, held), source=None
    )


LANDING_EASE_S: Final = 0.15  # [s] before the strike, over which the ankle leaves its way
MAX_STILL_SLIDE_MM: Final = 1.5  # [mm] a frame: a point that moves more is landing or leaving
MAX_PIVOT_LEG_EXTENSION: Final = 0.9995  # [-] of a leg, as straight as the engine leaves it


def pivot_landing_feet(motion: Motion) -> Motion:
    """Feet pivot on the heel when they land; contacts begin and end where their point stays in place.

    The engine holds ankles, as [Glardon2005]_ §III.2.4 does, so that a heel swings back by a centimetre while its foot
    rolls down. A whole clip allows better: the ankle comes in by so much less, and goes ahead over the heel.
    """
    assert motion.contacts is not None
    for side in ("left", "right"):
        limb = Limb.from_name(motion.skeleton, f"{side}_leg")
        shift = _ankle_shifts(motion, side)
        if np.any(shift):
            ankles = motion.joint_positions()[:, limb.end] + shift
            _, frames = motion.joint_frames()
            motion = solve_two_bone(
                motion, limb, ankles, end_rotations=frames[:, limb.end], stretch=MAX_PIVOT_LEG_EXTENSION
            ).motion  # fmt: skip
    return replace(motion, contacts=trim_sliding_contacts(motion))


def _ankle_shifts(motion: Motion, side: str) -> FloatArray:
    """What to add to the ankle ``(F, 3)`` [m]."""
    assert motion.contacts is not None
    heel, toe = (motion.contacts.track(f"{side}_{part}") for part in ("heel", "toe"))
    path = contact_positions(motion)[:, contact_points(motion.skeleton).index(f"{side}_heel")]
    shift = np.zeros((motion.num_frames, 3))
    before = 0
    for start, stop in find_runs(heel | toe):
        landed = _find_flat_frame(heel[start:stop], toe[start:stop]) + start
        if landed > start > 0:
            shift[start:landed] = (path[landed] - path[start:landed]) * [1.0, 0.0, 1.0]
            _ease_shift_in(shift, start, max(before, start - round(LANDING_EASE_S * motion.rate_hz)))
        before = stop
    return shift


def _find_flat_frame(heel: BoolArray, toe: BoolArray) -> int:
    """Frame of a stance at which a foot that landed on its heel is flat; 0 if it landed otherwise."""
    if not heel[0] or toe[0]:
        return 0
    both = np.flatnonzero(heel & toe)
    return int(both[0]) if len(both) and heel[: both[0]].all() else 0


def _ease_shift_in(shift: FloatArray, start: int, first: int) -> None:
    """Fade the shift of a landing foot in over the frames before, by a cubic step."""
    u = (np.arange(first, start) - first) / max(start - first, 1)
    shift[first:start] = smoothstep(u)[:, None] * shift[start]


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
