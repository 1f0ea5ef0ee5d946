"""A body over its feet: its joints by role, its soles, its posture in time, and how long its legs are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.contacts.limbs import LimbJoints
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import ContactPoints, RoleMap, Skeleton, foot_points, restored_roles, t_pose

SIDES: Final = ("left", "right")
UP: Final = np.array([0.0, 1.0, 0.0])
_LEG: Final = ("hip", "knee", "ankle")
MIN_LEG_M: Final = 1e-6  # [m] shorter legs have no length
LEG_DIFFERENCE: Final = 0.5  # [-] one leg under this part of the other: a joint is named wrongly


@dataclass(frozen=True, slots=True, eq=False)
class BodyPosture:
    """A body in the posture of a clip."""

    skeleton: Skeleton
    roles: RoleMap
    sole: ContactPoints  # heel, ball and toe end of each foot
    wxyz: FloatArray  # (F, J, 4) local rotations
    roots: FloatArray  # (F, 3) [m]
    positions: FloatArray  # (F, J, 3) [m] of the joints
    world: SO3  # batch (F, J)

    @classmethod
    def from_motion(cls, motion: Motion) -> BodyPosture:
        """Take the posture of a clip."""
        roles = restored_roles(motion.skeleton)
        sole, frames = foot_points(motion.skeleton, roles), motion.joint_frames()
        return cls(motion.skeleton, roles, sole, motion.rotations.wxyz, motion.root_positions, *frames)

    def raise_by(self, rise: FloatArray) -> BodyPosture:
        """Return the body higher by ``(F,)`` [m]."""
        return self.move_by(rise[:, None] * UP)

    def move_by(self, shift: FloatArray) -> BodyPosture:
        """Return the body moved by ``(F, 3)`` [m]."""
        return replace(self, roots=self.roots + shift, positions=self.positions + shift[:, None])

    def sole_length(self, side: str) -> float:
        """Return the length of a foot from heel to ball [m]."""
        pose = t_pose(self.skeleton, self.roles)
        at = self.sole.positions(pose.joint_positions(), pose.joint_rotations())
        return float(np.linalg.norm(at[self.sole.index(f"{side}_ball")] - at[self.sole.index(f"{side}_heel")]))

    def leg(self, side: str) -> LimbJoints:
        """Return the joints of a leg."""
        leg = LimbJoints.from_roles(self.roles, _LEG, side)
        assert leg is not None  # a body without legs was refused
        return leg

    def leg_lengths(self, side: str) -> tuple[FloatArray, FloatArray]:
        """Return hip to ankle ``(F,)`` [m], and both bones together."""
        leg = self.leg(side)
        far, *bones = (
            np.linalg.norm(self.positions[:, b] - self.positions[:, a], axis=-1)
            for a, b in ((leg.upper, leg.end), (leg.upper, leg.middle), (leg.middle, leg.end))
        )
        return far, bones[0] + bones[1]


def require_legs(skeleton: Skeleton, roles: RoleMap) -> None:
    """Refuse a skeleton whose legs are not known or have no length."""
    missing = [f"{side}_{part}" for side in SIDES for part in _LEG if f"{side}_{part}" not in roles]
    if missing:
        fix = "Hand in a RoleMap that names them: retarget(..., roles=RoleMap.from_names(...))"
        raise InputError(f"skeleton '{skeleton.name}' has no known {', '.join(missing)}", fix)
    lengths = [sum(segment_lengths(skeleton, roles, side)) for side in SIDES]
    if min(lengths) < max(MIN_LEG_M, LEG_DIFFERENCE * max(lengths)):
        told = " and ".join(f"{length:.3g}" for length in lengths)
        raise InputError(f"the legs of skeleton '{skeleton.name}' are {told} m long", "Check the unit of the file")


def segment_lengths(skeleton: Skeleton, roles: RoleMap, side: str) -> tuple[float, float]:
    """Lengths of thigh and shank [m]."""
    p = t_pose(skeleton, roles).joint_positions()
    hip, knee, ankle = (p[roles[f"{side}_{part}"]] for part in _LEG)
    return float(np.linalg.norm(knee - hip)), float(np.linalg.norm(ankle - knee))


def mean_leg_length(skeleton: Skeleton, roles: RoleMap) -> float:
    """Mean length of thigh and shank together [m]."""
    return 0.5 * sum(sum(segment_lengths(skeleton, roles, side)) for side in SIDES)
