"""What the engine makes of feet, as a clip: how far they slide, heels that stay where they strike, trimmed contacts.

Clips in general are held by :func:`marey.contacts.hold_feet`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.contacts import ensure_contacts
from marey.kinematics import Limb, solve_two_bone
from marey.locomotion.plants.state import (
    EFFECTOR_POINTS,
    make_leg_arrays,
)
from marey.motion import Contacts, Motion, contact_positions, find_runs
from marey.numerics import smoothstep
from marey.skeleton import contact_points


def effector_flags(contacts: Contacts | None) -> BoolArray:
    """Flags ``(F, 4)`` of right ankle, right toe, left ankle, left toe; a missing point is never in contact."""
    assert contacts is not None  # of a clip that has its contacts ensured
    missing = np.zeros(len(contacts), dtype=np.bool_)
    tracks = [contacts.track(name) if name in contacts.names else missing for name in EFFECTOR_POINTS]
    return np.stack(tracks, axis=1)


def effector_positions(motion: Motion) -> FloatArray:
    """Right ankle, right toe, left ankle, left toe ``(F, 4, 3)`` [m] of a clip."""
    return np.ascontiguousarray(motion.joint_positions()[:, make_leg_arrays(motion.skeleton).joints[:, 2:].reshape(4)])


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
    if motion.contacts is None:
        raise InputError("the clip has no contact track", "Detect its contacts first: marey.detect_contacts")
    names, active = motion.contacts.names, motion.contacts.active.copy()
    points = contact_positions(motion)[:, [contact_points(motion.skeleton).index(name) for name in names]]
    moved = 1000.0 * np.linalg.norm(np.diff(points, axis=0), axis=-1)
    for k in range(len(names)):
        for start, stop in find_runs(motion.contacts.active[:, k]):
            still = np.flatnonzero(moved[start : stop - 1, k] <= MAX_STILL_SLIDE_MM)
            first, last = (start + still[0], start + still[-1] + 2) if len(still) else (stop, stop)
            active[start:first, k], active[last:stop, k] = False, False
    return Contacts(names, active)
