"""Legs, options and memory of the foot-plant kernel: plain arrays, one set for any number of characters of one body."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, frozen
from marey.skeleton import RoleMap, Skeleton, foot_points, role_map, t_pose

FEET: Final = ("right", "left")
EFFECTOR_POINTS: Final = ("right_heel", "right_toe", "left_heel", "left_toe")
"""What the four effectors, right ankle, right toe, left ankle, left toe, are called in a contact track."""
STATE_SHAPE: Final = (3, 124)  # right foot, left foot, body
GOAL_COLUMNS: Final = (22, 25)  # first columns of the ankle's and the toe's goal in a foot's row of the memory
PLANT_EASE_S: Final = 0.20  # [s] longest ease-in or ease-out (Appendix B)
NO_PLANT_S: Final = 1e3  # [s] no plant is coming


class LegArrays(NamedTuple):
    """Both legs of a skeleton, right first."""

    joints: IntArray  # (2, 4) hip, knee, ankle, ball of the foot (the "toe" of the plants)
    parents: IntArray  # (J,)
    offsets: FloatArray  # (J, 3) [m]
    lateral: FloatArray  # (2, 3) direction in the ankle's frame that points to the body's left when it stands
    foot: FloatArray  # (2, 3) [m] ankle to toe of a flat foot: to the left, up, ahead
    heel: FloatArray  # (2, 3) [m] heel pad in the ankle's frame
    tip: FloatArray  # (2, 3) [m] end of the toes, on the sole, in the toe's frame
    pole: FloatArray  # (2, 3) front of the knee in the hip's frame
    rest: FloatArray  # (4,) [m] heights of right ankle, right toe, left ankle, left toe on flat feet
    heel_drop: FloatArray  # (2,) [m] from the ankle down to the heel pad of a flat foot
    reach: FloatArray  # (2,) [m] leg length H: thigh, shank and height of the ankle


class PlantOptions(NamedTuple):
    """How feet are planted; one may serve many characters."""

    shift: FloatArray  # (4, 3) [m] added to where each effector would land; y is the ground there, over the floor
    toe_in: FloatArray  # (2,) [rad] yaw added to each landing foot, positive to the left
    ease_s: float  # [s] longest ease-in or ease-out


def make_leg_arrays(
    skeleton: Skeleton, roles: RoleMap | None = None, *, rest_heights: ArrayLike | None = None
) -> LegArrays:
    """Read both legs of a skeleton.

    Args:
        skeleton: any body with hips, knees, ankles and feet.
        roles: who plays which part; guessed if not given.
        rest_heights: heights ``(4,)`` [m] of right ankle, right toe, left ankle, left toe over the floor when the body
            stands; those of a flat foot if not given.

    Raises:
        UnknownNameError: a leg lacks a joint.
        InputError: a bone of a leg has no length.
    """
    roles = role_map(skeleton) if roles is None else roles
    joints = np.array([[roles[f"{s}_{part}"] for part in ("hip", "knee", "ankle", "foot")] for s in FEET])
    pose = t_pose(skeleton, roles)
    p, R = pose.joint_positions(), pose.joint_rotations()
    bones = np.linalg.norm(np.diff(p[joints], axis=1), axis=-1)
    if bones.min() < 1e-6:
        raise InputError("a bone of a leg has no length", "Foot plants need thigh, shank and foot")
    points = foot_points(skeleton, roles)
    sole = {name: points.offsets[k] for k, name in enumerate(points.names)}
    floor = np.array([(p[ball] + R[ball] @ sole[f"{s}_ball"])[1] for s, ball in zip(FEET, joints[:, 3], strict=True)])
    heights = p[joints[:, 2:], 1] - floor[:, None]
    rest = heights.reshape(4) if rest_heights is None else frozen(rest_heights, 4, name="rest_heights")
    return LegArrays(
        joints.astype(np.int64),
        np.ascontiguousarray(skeleton.parents, dtype=np.int64),
        np.ascontiguousarray(skeleton.offsets, dtype=np.float64),
        np.array([R[a].inverse() @ np.array([1.0, 0.0, 0.0]) for a in joints[:, 2]]),
        p[joints[:, 3]] - p[joints[:, 2]],
        np.array([sole[f"{s}_heel"] for s in FEET]),
        np.array([sole[f"{s}_toe_end"] for s in FEET]),
        np.array([R[h].inverse() @ np.array([0.0, 0.0, 1.0]) for h in joints[:, 0]]),
        np.array(rest, dtype=np.float64),
        heights[:, 0].copy(),
        bones[:, :2].sum(axis=1) + heights[:, 0],
    )


def make_plant_options(*, ease_s: float = PLANT_EASE_S, toe_in_rad: float = 0.0) -> PlantOptions:
    """Options without shifts; ``toe_in_rad`` turns both feet inwards (a pigeon toe, [Glardon2005]_ §III.2.5)."""
    return PlantOptions(np.zeros((4, 3)), np.array([toe_in_rad, -toe_in_rad]), float(ease_s))


def allocate_plant_state(*batch: int) -> FloatArray:
    """Memory ``(*batch, 3, S)`` of the kernel for characters that start: zeros."""
    return np.zeros((*batch, *STATE_SHAPE))


def read_plant_goals(state: FloatArray) -> FloatArray:
    """Where the effectors ``(..., 4, 3)`` [m] are held, or are about to land, or were held last."""
    columns = [slice(c, c + 3) for c in GOAL_COLUMNS]
    return np.stack([state[..., foot, column] for foot in range(2) for column in columns], axis=-2)
