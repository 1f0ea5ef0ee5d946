"""Bones that a conversion lost: the thorax and the wrists of CMU's BVH files."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.skeleton.naming import SIDES
from marey.skeleton.roles import RoleMap, role_map
from marey.skeleton.tree import Skeleton

# joint whose offset was lost: joint whose offset it repeats, and how many times. In the ASF files of nine subjects the
# thorax is the bone below it to within 2.4 % and 4 degrees; the wrist bone is half the forearm in all of them.
_LOST_BONES: Final = {
    "Neck": ("Spine1", 1.0),
    "LeftShoulder": ("Spine1", 1.0),
    "RightShoulder": ("Spine1", 1.0),
    "LeftFingerBase": ("LeftHand", 0.5),
    "RightFingerBase": ("RightHand", 0.5),
    "LThumb": ("LeftHand", 0.5),
    "RThumb": ("RightHand", 0.5),
}
_ON_THORAX: Final = ("Neck", "LeftShoulder", "RightShoulder")
_WRISTS: Final = {"left_wrist": "LeftFingerBase", "right_wrist": "RightFingerBase"}
SAME_POINT: Final = 0.1  # [-] of the thigh: hips closer together than this sit on one point
SAME_BONE_M: Final = 2e-5  # [m] bones that agree to this are of one person; files are rounded to 3e-7 m

# Left thigh, left shank, bone below the thorax, then the thorax itself x, y, z [m], as the subject's own ASF file gives
# them. A person is known again by the bones that the conversion kept, not by the name of a file.
_KNOWN_THORAXES: Final = (
    (0.428623, 0.41132, 0.116571, 8.5e-05, 0.11673, 0.000454),  # subject 2
    (0.390856, 0.417975, 0.124247, 0.003481, 0.124492, -0.009714),  # subject 7
    (0.38342, 0.404357, 0.113566, -4.2e-05, 0.113946, 0.00468),  # subject 8
    (0.425754, 0.435674, 0.11077, -9.6e-05, 0.113206, 0.006246),  # subject 9
    (0.397069, 0.439264, 0.121061, 0.00319, 0.122619, 0.004885),  # subject 16
    (0.418262, 0.447351, 0.114607, 0.000945, 0.115958, 0.006456),  # subject 35
    (0.367917, 0.395056, 0.112676, -0.000762, 0.113984, 0.01057),  # subject 43
)


def find_lost_bones(skeleton: Skeleton) -> tuple[str, ...]:
    """Joints of a CMU skeleton that sit on their parents although their bone has a length."""
    if role_map(skeleton).profile != "cmu-bvh" or not set(_LOST_BONES).issubset(skeleton.names):
        return ()
    return tuple(joint for joint in _LOST_BONES if not np.any(skeleton.offsets[skeleton.index(joint)]))


def restore_bones(skeleton: Skeleton, *, thorax: FloatArray | None = None) -> Skeleton:
    """Put back the thorax and wrist bones that the BVH conversion of the CMU database lost.

    Neck and arms of these files sit 11 to 13 cm too low. The thorax is given the length and direction of the bone
    below it, which in the original files it has to within 2.4 % and 4°; the wrist half of the forearm, which is exact.
    Joints, names and frames stay, so a clip's rotations fit as they are. Any other skeleton is returned unchanged.

    Args:
        skeleton: any skeleton.
        thorax: the bone itself ``(3,)`` [m], where it is known (:func:`known_thorax`).
    """
    return _restore_bones(skeleton, None if thorax is None else tuple(map(float, thorax)))


@lru_cache(maxsize=256)  # what is known of a skeleton is kept for it, so one is made
def _restore_bones(skeleton: Skeleton, thorax: tuple[float, ...] | None) -> Skeleton:
    lost = find_lost_bones(skeleton)
    if not lost:
        return skeleton
    offsets = skeleton.offsets.copy()
    for joint in lost:
        twin, factor = _LOST_BONES[joint]
        is_known = thorax is not None and joint in _ON_THORAX
        offsets[skeleton.index(joint)] = thorax if is_known else factor * offsets[skeleton.index(twin)]
    return replace(skeleton, offsets=offsets)


def restored_roles(skeleton: Skeleton) -> RoleMap:
    """Roles of a skeleton, wrists where hands bend and hips where thighs begin.

    In CMU's BVH files a hand bends at the base of the fingers. In rigs that hang both legs on joints at one point, the
    hips are the next joints towards the knees.
    """
    return _restore_roles(skeleton, role_map(skeleton))


@lru_cache(maxsize=256)  # what is found for a map of roles is kept for it, so each skeleton has one
def _restore_roles(skeleton: Skeleton, roles: RoleMap) -> RoleMap:
    moved: dict[str, int] = {}
    if roles.profile == "cmu-bvh" and set(_LOST_BONES).issubset(skeleton.names):
        moved |= {role: skeleton.index(joint) for role, joint in _WRISTS.items()}
    if all(f"{side}_{part}" in roles for side in SIDES for part in ("hip", "knee")):
        p = skeleton.rest_positions()
        hips = [roles[f"{side}_hip"] for side in SIDES]
        leg = float(np.linalg.norm(p[roles["left_knee"]] - p[hips[0]]))
        while np.linalg.norm(p[hips[0]] - p[hips[1]]) < SAME_POINT * leg:
            # The child of each hip on the way down to its knee; the knee itself where it does not hang below
            below = list[int]()
            for hip, side in zip(hips, SIDES, strict=True):
                joint = knee = roles[f"{side}_knee"]
                while joint > 0 and int(skeleton.parents[joint]) != hip:
                    joint = int(skeleton.parents[joint])
                below.append(joint if joint > 0 else knee)
            if any(joint == roles[f"{side}_knee"] for joint, side in zip(below, SIDES, strict=True)):
                break
            hips = below
            moved |= {f"{side}_hip": hip for side, hip in zip(SIDES, hips, strict=True)}
    return RoleMap({**roles.joints, **moved}, roles.profile, roles.report) if moved else roles


def known_thorax(skeleton: Skeleton) -> FloatArray | None:
    """Return the thorax ``(3,)`` [m] of a CMU subject whose original skeleton is known, found by its other bones."""
    lengths = _bone_lengths(skeleton)
    for row in _KNOWN_THORAXES:
        if np.abs(np.array(row[:3]) - lengths).max() < SAME_BONE_M:
            return np.array(row[3:])
    return None


def thorax_from(original: Skeleton, skeleton: Skeleton) -> FloatArray | None:
    """Return the thorax ``(3,)`` [m] of a skeleton read from ASF, if it is of the same person, else None."""
    roles = role_map(original)
    if roles.profile != "cmu-asf":
        return None
    same = np.abs(_bone_lengths(original) - _bone_lengths(skeleton)).max() < SAME_BONE_M
    return original.offsets[roles["neck"]].copy() if same else None


def _bone_lengths(skeleton: Skeleton) -> FloatArray:
    """Lengths of left thigh, left shank and of the bone below the thorax ``(3,)`` [m]."""
    roles = role_map(skeleton)
    return np.array([float(np.linalg.norm(skeleton.offsets[roles[r]])) for r in ("left_knee", "left_ankle", "spine3")])
