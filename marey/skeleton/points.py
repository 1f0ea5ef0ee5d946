"""Where a body touches the world: heels, toes and hands of any skeleton."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray, UnknownNameError, frozen, frozen_ints
from marey.lie import SO3
from marey.skeleton.calibration_pose import FORWARD, t_pose
from marey.skeleton.naming import SIDES
from marey.skeleton.roles import RoleMap, role_map
from marey.skeleton.tree import Skeleton

# heights and lengths of a foot as parts of the leg, hip to ankle (0.491 of stature, [Winter2009]_ fig. 4.1)
ANKLE_HEIGHT: Final = 0.039 / 0.491
BALL_HEIGHT: Final = 0.010 / 0.491
BALL_REACH: Final = 0.078 / 0.491  # ankle to ball, along the ground
TOE_LENGTH: Final = 0.040 / 0.491  # ball to the end of the toes
HEEL_PART: Final = 0.18  # of the way ankle to ball, backwards: middle of the heel pad, on which a rounded heel rolls
PALM_PART: Final = 0.5  # of the way wrist to finger tip
HAND_LENGTH: Final = 0.105 / 0.491
FINGER_REACH: Final = 1.6  # of the usual hand: joints farther from the wrist are a prop in it
TOE_REACH: Final = 2.5  # of the usual toes: joints farther from the ball are targets and helpers


@dataclass(frozen=True, slots=True, eq=False)
class ContactPoints:
    """K named points, each fixed to a joint."""

    names: tuple[str, ...]  # (K,)
    joints: IntArray  # (K,) the joint that carries the point
    offsets: FloatArray  # (K, 3) [m] in that joint's frame

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))
        count = len(self.names)
        object.__setattr__(self, "joints", frozen_ints(self.joints, count, name="joints"))
        object.__setattr__(self, "offsets", frozen(self.offsets, count, 3, name="offsets"))

    def index(self, name: str) -> int:
        """Return the number of a point."""
        if name not in self.names:
            raise UnknownNameError("contact point", name, "this skeleton", self.names)
        return self.names.index(name)

    def positions(self, joint_positions: FloatArray, R_world_joint: SO3) -> FloatArray:
        """Return the points ``(..., K, 3)`` [m] in world, from joint frames with batch ``(..., J)``."""
        return joint_positions[..., self.joints, :] + R_world_joint[..., self.joints] @ self.offsets

    def __len__(self) -> int:
        return len(self.names)


@lru_cache(maxsize=256)
def contact_points(skeleton: Skeleton, roles: RoleMap | None = None) -> ContactPoints:
    """Return heels, toes and hands; points whose joint is missing are left out.

    A heel lies on the sole behind the ankle. A toe is the point of the sole under the ball of the foot, about which
    the foot rolls: it stays put while the toes bend, and does not tremble with their (often noisy) angle. A hand is
    the middle of the palm.
    """
    if roles is None:
        return contact_points(skeleton, role_map(skeleton))
    feet = foot_points(skeleton, roles)
    names: list[str] = []
    joints: list[int] = []
    offsets: list[FloatArray] = []
    for side in SIDES:
        for part, name in (("heel", "heel"), ("ball", "toe")):
            if f"{side}_{part}" in feet.names:
                k = feet.index(f"{side}_{part}")
                names.append(f"{side}_{name}")
                joints.append(int(feet.joints[k]))
                offsets.append(feet.offsets[k])
    for side in SIDES:
        wrist = roles.get(f"{side}_wrist")
        if wrist is not None:
            names.append(f"{side}_hand")
            joints.append(wrist)
            offsets.append(PALM_PART * hand_vector(skeleton, roles, side))
    return ContactPoints(tuple(names), np.array(joints, dtype=np.int64), np.array(offsets).reshape(-1, 3))


@lru_cache(maxsize=256)
def foot_points(skeleton: Skeleton, roles: RoleMap | None = None) -> ContactPoints:
    """Return heel, ball and toe end of each foot, on the sole: ``left_heel, left_ball, left_toe_end, right_heel, ...``.

    They are found in the calibration pose, where the sole is level.
    """
    if roles is None:
        return foot_points(skeleton, role_map(skeleton))
    pose = t_pose(skeleton, roles)
    positions, frames = pose.joint_positions(), pose.joint_rotations()
    names: list[str] = []
    joints: list[int] = []
    offsets: list[FloatArray] = []
    for side in SIDES:
        ankle, ball = roles.get(f"{side}_ankle"), roles.get(f"{side}_foot")
        if ankle is None:
            continue
        leg = leg_length(skeleton, roles, side)
        p_ankle = positions[ankle]
        if ball is None:
            p_ball = p_ankle + BALL_REACH * leg * FORWARD
        else:
            # The middle of the toes' joints: a rig may have five toes, of which one plays the ball of the foot
            reach = positions[ball] - positions[ankle]
            toes = [
                positions[j]
                for j in skeleton.children(int(skeleton.parents[ball])).tolist()
                if float((positions[j] - positions[ankle]) @ reach) > 0.5 * float(reach @ reach)
            ]
            p_ball = np.mean(toes, axis=0) if len(toes) > 1 else positions[ball]
        # Direction from ankle to ball over the ground
        reach = p_ball - p_ankle
        level = np.array([reach[0], 0.0, reach[2]])
        length = float(np.linalg.norm(level))
        ahead = level / length if length > 1e-9 else FORWARD
        if ball is None:
            sole = p_ankle[1] - ANKLE_HEIGHT * leg
            p_toe = p_ball + TOE_LENGTH * leg * FORWARD
        else:
            sole = p_ball[1] - BALL_HEIGHT * leg
            tip = frames[ball] @ farthest_point(skeleton, ball, TOE_REACH * TOE_LENGTH * leg)
            p_toe = p_ball + (TOE_LENGTH * leg * ahead if np.linalg.norm(tip) < 0.3 * TOE_LENGTH * leg else tip)
        p_heel = p_ankle - HEEL_PART * np.hypot(reach[0], reach[2]) * ahead
        carrier = ankle if ball is None else ball
        for name, joint, p in (("heel", ankle, p_heel), ("ball", carrier, p_ball), ("toe_end", carrier, p_toe)):
            p_sole = np.array([p[0], sole, p[2]])
            names.append(f"{side}_{name}")
            joints.append(joint)
            offsets.append(frames[joint].inverse() @ (p_sole - positions[joint]))
    return ContactPoints(tuple(names), np.array(joints, dtype=np.int64), np.array(offsets).reshape(-1, 3))


def hand_vector(skeleton: Skeleton, roles: RoleMap, side: str) -> FloatArray:
    """Wrist to finger tips ``(3,)`` [m] in the wrist's frame; without fingers, the forearm continued."""
    wrist, elbow = roles[f"{side}_wrist"], roles.get(f"{side}_elbow")
    leg = leg_length(skeleton, roles, side)
    tip = farthest_point(skeleton, wrist, FINGER_REACH * HAND_LENGTH * leg)
    if np.linalg.norm(tip) > 0.02 * leg:
        return tip
    p = skeleton.rest_positions()
    along = p[wrist] - p[elbow if elbow is not None else max(int(skeleton.parents[wrist]), 0)]
    length = float(np.linalg.norm(along))
    return HAND_LENGTH * leg * along / length if length > 1e-9 else np.zeros(3)


def farthest_point(skeleton: Skeleton, joint: int, limit_m: float) -> FloatArray:
    """Farthest joint or tip below ``joint`` ``(3,)`` [m] within a limit, in its frame at rest; zero without any."""
    below = np.full((skeleton.num_joints, 3), np.nan)
    below[joint] = 0.0
    points = [skeleton.tips[joint]]
    for j in range(joint + 1, skeleton.num_joints):
        below[j] = below[skeleton.parents[j]] + skeleton.offsets[j]
        if not np.isnan(below[j, 0]):
            points += [below[j], below[j] + skeleton.tips[j]]
    near = [np.zeros(3), *(point for point in points if float(np.linalg.norm(point)) <= limit_m)]
    return max(near, key=lambda point: float(np.linalg.norm(point)))


def leg_length(skeleton: Skeleton, roles: RoleMap, side: str = "left") -> float:
    """Length of thigh and shank [m]; for a body without legs, what its height suggests."""
    p = skeleton.rest_positions()
    chain = [roles.get(f"{side}_{part}") for part in ("hip", "knee", "ankle")]
    bones = [np.linalg.norm(p[b] - p[a]) for a, b in pairwise(chain) if a is not None and b is not None]
    if len(bones) == 2 and min(bones) > 1e-6:
        return float(sum(bones))
    size = float(np.ptp(p, axis=0).max())
    return 0.5 * size if size > 0.0 else 1.0
