"""Foot plants of any clip: feet that slide, sink or hover are put where they stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, UnknownNameError
from marey.lie import SO3
from marey.locomotion._plant_arrays import (
    EFFECTOR_POINTS,
    FEET,
    PLANT_EASE_S,
    LegArrays,
    allocate_plant_state,
    make_leg_arrays,
    make_plant_options,
)
from marey.locomotion._plant_schedule import GoalEdit, PlantSchedule, clean_contact_flags, effector_flags, plan_schedule
from marey.motion import Contacts, Motion, detect_contacts, ensure_contacts
from marey.skeleton import Pose

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
    from marey.locomotion._plant_clip_kernels import plant_clip
    from marey.locomotion._plant_priority_kernels import plant_clip_priority

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
