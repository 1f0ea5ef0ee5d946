"""A body over its feet: its joints by role, its soles, its posture in time, and how long its legs are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, split_blocks
from marey.contacts.limbs import LimbJoints, LimbPath
from marey.lie import SO3
from marey.lie.so3 import wrap_unit
from marey.motion import Motion
from marey.skeleton import ContactPoints, RoleMap, Skeleton, foot_points, joint_frames, restored_roles, t_pose

SIDES: Final = ("left", "right")
UP: Final = np.array([0.0, 1.0, 0.0])
_LEG: Final = ("hip", "knee", "ankle")
MIN_LEG_M: Final = 1e-6  # [m] shorter legs have no length
BLOCK_FRAMES: Final = 1024  # whose joint frames are in memory at once
LEG_DIFFERENCE: Final = 0.5  # [-] one leg under this part of the other: a joint is named wrongly


@dataclass(frozen=True, slots=True, eq=False)
class BodyPosture:
    """A body in the posture of a clip."""

    skeleton: Skeleton
    roles: RoleMap
    sole: ContactPoints  # heel, ball and toe end of each foot
    wxyz: FloatArray  # (F, J, 4) local rotations
    roots: FloatArray  # (F, 3) [m]
    joints: tuple[int, ...]  # (K,) those of the legs, of the feet and above them
    positions: FloatArray  # (F, K, 3) [m] of these
    world: SO3  # batch (F, K)

    @classmethod
    def measure(
        cls,
        skeleton: Skeleton,
        roles: RoleMap,
        sole: ContactPoints,
        wxyz: FloatArray,
        roots: FloatArray | None = None,
        *,
        middles: FloatArray | None = None,
    ) -> BodyPosture:
        """Take local rotations ``(F, J, 4)``, and the root ``(F, 3)`` [m] or the middle of the hips."""
        hips = [roles[f"{side}_hip"] for side in SIDES]
        own = {roles[f"{side}_{part}"] for side in SIDES for part in _LEG} | {int(j) for j in sole.joints}
        joints = tuple(sorted(own | {max(int(skeleton.parents[j]), 0) for j in own}))
        positions, world = np.empty((len(wxyz), len(joints), 3)), np.empty((len(wxyz), len(joints), 4))
        base = np.empty((len(wxyz), 3)) if roots is None else roots
        # A block of frames at a time: the other joints of a long clip are large
        for part in split_blocks(len(wxyz), BLOCK_FRAMES):
            start = np.zeros((part.stop - part.start, 3)) if roots is None else roots[part]
            origins, frames = joint_frames(skeleton, start, wxyz[part])
            if roots is None:
                assert middles is not None
                base[part] = middles[part] - origins[:, hips].mean(axis=1)
                origins = origins + base[part, None]
            positions[part], world[part] = origins[:, joints], frames.wxyz[:, joints]
        return cls(skeleton, roles, sole, wxyz, base, joints, positions, wrap_unit(world))

    @classmethod
    def from_motion(cls, motion: Motion) -> BodyPosture:
        """Take the posture of a clip."""
        roles = restored_roles(motion.skeleton)
        sole = foot_points(motion.skeleton, roles)
        return cls.measure(motion.skeleton, roles, sole, motion.rotations.wxyz, motion.root_positions)

    def at(self, joint: int) -> FloatArray:
        """Return the positions ``(F, 3)`` [m] of a joint."""
        return self.positions[:, self.joints.index(joint)]

    def frame(self, joint: int) -> SO3:
        """Return the world rotations of a joint, batch ``(F,)``."""
        return self.world[:, self.joints.index(joint)]

    def raise_by(self, rise: FloatArray) -> BodyPosture:
        """Return the body higher by ``(F,)`` [m]."""
        return self.move_by(rise[:, None] * UP)

    def move_by(self, shift: FloatArray) -> BodyPosture:
        """Return the body moved by ``(F, 3)`` [m]."""
        return replace(self, roots=self.roots + shift, positions=self.positions + shift[:, None])

    def lift(self, rise: FloatArray) -> None:
        """Raise this very body by ``(F,)`` [m]: a copy of a long clip is large."""
        self.roots[...] += rise[:, None] * UP
        self.positions[...] += (rise[:, None] * UP)[:, None]

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

    def leg_path(self, side: str) -> LimbPath:
        """Return hip, knee and ankle in time."""
        leg = self.leg(side)
        return self.at(leg.upper), self.at(leg.middle), self.at(leg.end)

    def leg_lengths(self, side: str) -> tuple[FloatArray, FloatArray]:
        """Return hip to ankle ``(F,)`` [m], and both bones together."""
        hip, knee, ankle = self.leg_path(side)
        far, *bones = (np.linalg.norm(b - a, axis=-1) for a, b in ((hip, ankle), (hip, knee), (knee, ankle)))
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
