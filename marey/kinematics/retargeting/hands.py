"""Hands where they hold: on the ground, on a prop, on the body itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.contacts.body import SIDES, mean_leg_length
from marey.contacts.easing import limit_slope, pin_corrections
from marey.contacts.limbs import LimbJoints, find_bend, measure_flexion, measure_length, reach, turn_limb
from marey.contacts.plants import HoldSettings
from marey.kinematics.retargeting.target import RetargetTarget
from marey.motion import Motion, find_runs
from marey.numerics import smoothstep
from marey.skeleton import RoleMap, contact_points, joint_frames

HANDS: Final = ("left_hand", "right_hand")
ARM: Final = ("shoulder", "elbow", "wrist")
EASE_S: Final = 0.10  # [s] how gradually a hand takes hold
ARM_STRETCH: Final = 0.998  # [-] largest extension of an arm that holds: an elbow of 7 degrees
NEAR_FLOOR: Final = 0.12  # [-] of the leg: a palm in contact and nearer than this to the floor is on it
DRAG: Final = 0.17  # [-] of the leg: a palm this far from where it mostly is slides: as a foot, 0.15 m
_TOUCHED: Final = ("pelvis", "left_hip", "right_hip", "left_knee", "right_knee", "head", "spine3")
TOUCH: Final = (0.24, 0.36)  # [-] of the leg: wrists nearer than the first to a part touch it, from the second on not


def hold_hands(
    motion: Motion,
    roles: RoleMap,
    body: RetargetTarget,
    wxyz: FloatArray,
    roots: FloatArray,
    source: FloatArray,
    *,
    pin: Sequence[str],
    hands: str,
    use_contacts: bool,
    settings: HoldSettings,
) -> FloatArray:
    """Local rotations ``(F, J, 4)`` of the target with its hands held.

    Args:
        motion: the source.
        roles: of its joints.
        body: the target.
        wxyz: local rotations ``(F, J, 4)``, feet planted already.
        roots: positions of its root ``(F, 3)`` [m].
        source: joints of the source on a body of the target's size ``(F, J, 3)`` [m].
        pin: hands that stay where the source has them.
        hands: ``"directions"``, ``"positions"`` or ``"touch"``.
        use_contacts: hold hands where the contact track says so.
        settings: how far an elbow steps.
    """
    from scipy.ndimage import median_filter

    positions, world = joint_frames(body.skeleton, roots, wxyz)
    wxyz = wxyz.copy()
    for side in SIDES:
        arm, wrist = LimbJoints.from_roles(body.roles, ARM, side), roles.get(f"{side}_wrist")
        if arm is None or wrist is None:
            continue
        shift = np.zeros((len(wxyz), 3))
        if hands == "positions" or f"{side}_hand" in pin:
            shift = source[:, wrist] - positions[:, arm.end]
        else:
            if hands == "touch":
                # Keep the wrist as near to a part of the body as the source's was
                other = f"{SIDES[1 - SIDES.index(side)]}_wrist"
                parts = [part for part in (*_TOUCHED, other) if part in roles and part in body.roles]
                theirs, own = source[:, roles[f"{side}_wrist"]], positions[:, body.roles[f"{side}_wrist"]]
                apart = np.stack([theirs - source[:, roles[part]] for part in parts])
                distances = np.linalg.norm(apart, axis=-1)
                nearest, frames = np.argmin(distances, axis=0), np.arange(len(own))
                leg = mean_leg_length(body.skeleton, body.roles)
                share = 1.0 - smoothstep((distances[nearest, frames] / leg - TOUCH[0]) / (TOUCH[1] - TOUCH[0]))
                # A smooth choice among parts: each by how near it is
                weight = np.exp(-distances / (0.05 * leg))
                weight = weight / weight.sum(axis=0)
                base = np.stack([positions[:, body.roles[part]] for part in parts])
                goal = np.einsum("pf,pfi->fi", weight, base + apart)
                shift = shift + share[:, None] * (goal - own)
            if use_contacts and motion.contacts is not None and f"{side}_hand" in motion.contacts.names:
                down = np.array(motion.contacts.track(f"{side}_hand"))
                # Keep the palm still while it is in contact
                points = contact_points(body.skeleton, body.roles)
                if f"{side}_hand" not in points.names or not down.any():
                    held = np.zeros((len(down), 3))
                else:
                    k = points.index(f"{side}_hand")
                    palm = positions[:, points.joints[k]] + world[:, int(points.joints[k])] @ points.offsets[k]
                    near = NEAR_FLOOR * mean_leg_length(body.skeleton, body.roles)
                    away, width = np.zeros_like(palm), 1 + 2 * round(0.5 * EASE_S * motion.rate_hz)
                    for start, stop in find_runs(down, 0):
                        place = np.median(palm[start:stop], axis=0)
                        place[1] = 0.0 if abs(place[1]) < near else place[1]
                        # A capture turns a hand over for a frame or two: the arm does not follow
                        away[start:stop] = median_filter(place - palm[start:stop], (width, 1), mode="nearest")
                    # A hand that is dragged is held where it mostly is, unless it only passes there
                    is_near = np.linalg.norm(away, axis=-1) < DRAG * mean_leg_length(body.skeleton, body.roles)
                    stays = find_runs(down & is_near, shortest=round(EASE_S * motion.rate_hz))
                    down = np.zeros_like(down)
                    for start, stop in stays:
                        down[start:stop] = True
                    held = pin_corrections(away, down, motion.rate_hz, EASE_S)
                shift = shift + held
        if not shift.any():
            continue
        path = (positions[:, arm.upper], positions[:, arm.middle], positions[:, arm.end])
        bent = find_bend(path, world[:, arm.upper], np.zeros(3))
        # No elbow steps farther than the source's does at most: a hand that is out of reach or strikes gives way
        p, away = path[0], path[2] + shift - path[0]
        bones = [np.linalg.norm(b - a, axis=-1) for a, b in pairwise(path)]
        natural = measure_flexion(np.linalg.norm(path[2] - p, axis=-1), *bones)
        far = np.minimum(np.linalg.norm(away, axis=-1), ARM_STRETCH * (bones[0] + bones[1]))
        most = settings.step_share * np.abs(np.diff(natural)).max(initial=0.0) + settings.step_rad
        length = measure_length(limit_slope(measure_flexion(far, *bones), most), *bones)
        goals = p + away * (length / np.maximum(np.linalg.norm(away, axis=-1), 1e-9))[:, None]
        turns = reach(path, goals, world[:, arm.upper] @ bent, np.full(len(goals), ARM_STRETCH))
        R_hand = world[:, arm.end]
        R_above = turn_limb(wxyz, lambda joint: world[:, joint], body.skeleton, arm, turns)
        # The hand turns with the forearm, but for one that is planted or holds: that stays as it was in the world
        is_moved = np.linalg.norm(shift, axis=-1) > 0.0
        wxyz[is_moved, arm.end] = (R_above.inverse() @ R_hand).wxyz[is_moved]
    return wxyz
