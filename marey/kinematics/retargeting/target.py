"""Who receives a motion: a skeleton, what its joints are, its soles and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import numpy as np

from marey.base import FloatArray, InputError
from marey.contacts.body import SIDES, require_legs
from marey.kinematics.limits.contract import JointLimits
from marey.skeleton import ContactPoints, RoleMap, Skeleton, foot_points, require_human, restored_roles, t_pose

_FINGERS: Final = {
    "thumb": ("thumb",),
    "index": ("index", "pointer"),
    "middle": ("middle", "mid"),
    "ring": ("ring",),
    "little": ("little", "pinky", "pinkie"),
}


@runtime_checkable
class HasSkeleton(Protocol):
    """Anything that stands on a skeleton: a rigged character, a body, a clip."""

    @property
    def skeleton(self) -> Skeleton:
        """The tree of joints that moves."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RetargetTarget:
    """What retargeting knows of the body that receives a motion; other kinds of targets need to give no more."""

    skeleton: Skeleton
    roles: RoleMap
    sole: ContactPoints  # heel, ball and toe end of each foot, on the sole
    limits: JointLimits | None = None

    @classmethod
    def build(
        cls,
        target: Skeleton | HasSkeleton | RetargetTarget,
        *,
        roles: RoleMap | None = None,
        limits: JointLimits | None = None,
    ) -> RetargetTarget:
        """Describe a skeleton, or whatever has one; what is a description already is returned as it is.

        Raises:
            InputError: the skeleton is no human or has no known legs, or the target has no skeleton.
        """
        if isinstance(target, RetargetTarget):
            return target
        skeleton: object = target if isinstance(target, Skeleton) else getattr(target, "skeleton", None)
        if not isinstance(skeleton, Skeleton):
            raise InputError(f"a {type(target).__name__} is no target", "Give a Skeleton, a character or a motion")
        if roles is None:
            require_human(skeleton, "retargeting")
        roles = restored_roles(skeleton) if roles is None else roles
        require_legs(skeleton, roles)
        return cls(skeleton, roles, foot_points(skeleton, roles), limits)


def finger_joints(skeleton: Skeleton, roles: RoleMap) -> Mapping[str, int]:
    """Joints of fingers, ``left_index1`` the one nearest to the palm; hands without named fingers give none."""
    found: dict[str, int] = {}
    for side in SIDES:
        wrist = roles.get(f"{side}_wrist")
        if wrist is None:
            continue
        counts = dict.fromkeys(_FINGERS, 0)
        for j in skeleton.subtree(wrist)[1:]:
            name = skeleton.names[j].lower()
            finger = next((key for key, words in _FINGERS.items() if any(word in name for word in words)), None)
            if finger is not None and "metacarp" not in name:
                counts[finger] += 1
                found[f"{side}_{finger}{counts[finger]}"] = j
    return found


def foot_heading(skeleton: Skeleton, roles: RoleMap, side: str) -> float:
    """Heading of a foot in the calibration pose [rad]: 0 is +Z, positive towards +X."""
    points, pose = foot_points(skeleton, roles), t_pose(skeleton, roles)
    at = points.positions(pose.joint_positions(), pose.joint_rotations())
    along: FloatArray = at[points.index(f"{side}_ball")] - at[points.index(f"{side}_heel")]
    return float(np.arctan2(along[0], along[2]))
