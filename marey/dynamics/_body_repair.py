"""Bones that a conversion lost, put back."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.skeleton import RoleMap, Skeleton, role_map

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
_WRISTS: Final = {"left_wrist": "LeftFingerBase", "right_wrist": "RightFingerBase"}


def restore_bones(skeleton: Skeleton) -> Skeleton:
    """Put back the thorax and wrist bones that the BVH conversion of the CMU database lost.

    Neck and arms of these files sit 11 to 13 cm too low. The thorax is given the length and direction of the bone
    below it, which in the original files it has to within 2.4 % and 4°; the wrist half of the forearm, which is exact.
    Joints, names and frames stay, so a clip's rotations fit as they are. Any other skeleton is returned unchanged.

    Args:
        skeleton: any skeleton.
    """
    lost = find_lost_bones(skeleton)
    if not lost:
        return skeleton
    offsets = skeleton.offsets.copy()
    for joint in lost:
        twin, factor = _LOST_BONES[joint]
        offsets[skeleton.index(joint)] = factor * offsets[skeleton.index(twin)]
    return Skeleton(skeleton.names, skeleton.parents, offsets, skeleton.tips, skeleton.limits, skeleton.name)


def find_lost_bones(skeleton: Skeleton) -> tuple[str, ...]:
    """Joints of a CMU skeleton that sit on their parents although their bone has a length."""
    if role_map(skeleton).profile != "cmu-bvh" or not set(_LOST_BONES).issubset(skeleton.names):
        return ()
    return tuple(joint for joint in _LOST_BONES if not np.any(skeleton.offsets[skeleton.index(joint)]))


def find_body_roles(skeleton: Skeleton) -> RoleMap:
    """Roles for the masses of a restored skeleton: its hands hang on the finger bases, where the wrists are."""
    roles = role_map(skeleton)
    if roles.profile != "cmu-bvh" or not set(_LOST_BONES).issubset(skeleton.names):
        return roles
    wrists = {role: skeleton.index(joint) for role, joint in _WRISTS.items()}
    return RoleMap({**roles.joints, **wrists}, roles.profile, roles.report)
