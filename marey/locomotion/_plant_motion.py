"""Foot plants of any clip: feet that slide, sink or hover are put where they stand."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import BoolArray, InputError, UnknownNameError
from marey.lie import SO3
from marey.locomotion._plant_arrays import EASE_S, EFFECTOR_POINTS, leg_arrays, plant_options, plant_state
from marey.locomotion._plant_schedule import PlantSchedule, effector_flags, plan_schedule, tidy_flags
from marey.motion import Contacts, Motion, detect_contacts, with_contacts

DETECTIONS: Final = ("contacts", "adaptive", "threshold")
SOLVERS: Final = ("analytic", "priority")


def enforce_plants(
    motion: Motion,
    *,
    plants: BoolArray | None = None,
    ease_s: float | None = None,
    floor_m: float | None = None,
    detection: str = "contacts",
) -> Motion:
    """Keep planted feet where they stand, and feet in the air above the ground.

    Ankles and toes are held during their plants and eased in and out of them ([Glardon2005]_ §III.2.4); legs follow by
    analytic inverse kinematics with the knee in its own plane; bones keep their length. The root comes down by at most
    4 % of the leg where a leg does not reach. The result has the contact track of what is held.

    Args:
        motion: any clip whose skeleton has two legs with feet.
        plants: which of right ankle, right toe, left ankle, left toe are planted ``(F, 4)``; detected if not given.
        ease_s: longest ease-in or ease-out, 0.2 s.
        floor_m: height of the floor; if not given, a plane is fitted to the plants, and steps are kept.
        detection: ``"contacts"`` (the clip's own track, or ``marey.detect_contacts``), ``"adaptive"`` (walks and runs),
            or ``"threshold"`` (the baseline).

    Raises:
        UnknownNameError: a leg lacks a joint, or there is no such detection.
        InputError: ``plants`` has another shape, or a number is no number.
    """
    legs = leg_arrays(motion.skeleton)
    points = np.ascontiguousarray(motion.joint_positions()[:, legs.joints[:, 2:].reshape(4)])
    flags = _flags(motion, plants, detection)
    if plants is None:
        flags = tidy_flags(flags, points, legs, motion.rate_hz)
    schedule, floor = plan_schedule(flags, points, legs, motion.rate_hz, floor_m)
    ease = EASE_S if ease_s is None else float(ease_s)
    if not 0.0 < ease < 10.0:
        raise InputError(f"ease_s is {ease}", "Give a time in seconds, such as 0.2")
    return _enforced(motion, schedule, floor, ease)


def _flags(motion: Motion, plants: BoolArray | None, detection: str) -> BoolArray:
    if detection not in DETECTIONS:
        raise UnknownNameError("detection", detection, "enforce_plants", DETECTIONS)
    if plants is not None:
        flags = np.asarray(plants, dtype=np.bool_)
        if flags.shape != (motion.num_frames, 4):
            raise InputError(f"plants has shape {flags.shape}", f"Give flags ({motion.num_frames}, 4)")
        return np.ascontiguousarray(flags)
    if detection == "contacts":
        contacts = with_contacts(motion).contacts
        assert contacts is not None
        return effector_flags(contacts)
    return effector_flags(detect_contacts(motion, method=detection))


def _enforced(motion: Motion, schedule: PlantSchedule, floor: float, ease_s: float) -> Motion:
    from marey.locomotion._plant_clip_kernels import plant_clip

    legs = leg_arrays(motion.skeleton)
    roots, wxyz = motion.root_positions.copy(), motion.rotations.wxyz.copy()
    flags = plant_clip(
        1.0 / motion.rate_hz,
        schedule.planted,
        schedule.until_s,
        schedule.landing,
        schedule.shifts,
        plant_options(ease_s=ease_s),
        floor,
        legs,
        plant_state(),
        roots,
        wxyz,
    )
    held = (flags[:, None] >> np.arange(4)) & 1 == 1
    contacts = Contacts(EFFECTOR_POINTS, held)
    return replace(motion, root_positions=roots, rotations=SO3(wxyz), contacts=contacts, source=None)
