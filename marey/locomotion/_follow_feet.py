"""Heels that stay where they strike while the foot rolls down, and a contact track that says only what stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.kinematics import Limb, solve_two_bone
from marey.motion import Contacts, Motion, contact_positions, find_runs
from marey.numerics import smoothstep
from marey.skeleton import contact_points

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
