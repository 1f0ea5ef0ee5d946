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
from marey.locomotion.plants.schedule import clean_contact_flags, effector_flags, plan_schedule
from marey.locomotion.plants.state import (
    EFFECTOR_POINTS,
    FEET,
    LEG_SOLVERS,
    PLANT_EASE_S,
    PlantOptions,
    allocate_plant_state,
    make_leg_arrays,
)
from marey.locomotion.plants.step import plant_clip
from marey.motion import Contacts, Motion, contact_positions, detect_contacts, ensure_contacts, find_runs
from marey.numerics import smoothstep
from marey.skeleton import Pose, contact_points

DETECTIONS: Final = ("contacts", "adaptive", "threshold")
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
    if detection not in DETECTIONS:
        raise UnknownNameError("detection", detection, "enforce_plants", DETECTIONS)
    if ik not in LEG_SOLVERS:
        raise UnknownNameError("solver", ik, "enforce_plants", LEG_SOLVERS)
    if ease_s is not None and not 0.0 < ease_s <= LONGEST_EASE_S:
        raise InputError(f"ease_s is {ease_s}", "Give a time in seconds, such as 0.2")
    if motion.translations is not None:
        raise InputError("the bones of this clip change their length", "Retarget it first: marey.retarget(motion)")
    legs, frames = make_leg_arrays(motion.skeleton), motion.num_frames
    points = np.ascontiguousarray(motion.joint_positions()[:, legs.joints[:, 2:].reshape(4)])
    if plants is None:
        clip = ensure_contacts(motion) if detection == "contacts" else None
        contacts = detect_contacts(motion, method=detection) if clip is None else clip.contacts
        flags = clean_contact_flags(effector_flags(contacts), points, legs, motion.rate_hz)
    else:
        flags = np.ascontiguousarray(np.asarray(plants))
        if flags.shape != (frames, 4) or flags.dtype != np.bool_:
            raise InputError(f"plants is {flags.dtype} of shape {flags.shape}", f"Give true or false, ({frames}, 4)")
    names = [f"{side}_{part}" for side in FEET for part in ("ankle", "foot")]
    goal_edit = None if edit is None else lambda effector, frame, goal: edit(names[effector], goal, motion[frame])
    forecasts, floor_y = plan_schedule(flags, points, legs, motion.rate_hz, floor_m=floor_m, edit=goal_edit)
    options = PlantOptions(PLANT_EASE_S if ease_s is None else float(ease_s), floor_y)
    roots, wxyz = motion.root_positions.copy(), motion.rotations.wxyz.copy()
    plant = plant_clip_priority if ik == "priority" else plant_clip
    bits = plant(1.0 / motion.rate_hz, forecasts, options, legs, allocate_plant_state(), roots, wxyz)
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
    return shift


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
