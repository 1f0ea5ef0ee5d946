"""Arrays of the foot-plant kernel: legs, options, and the columns of its state.

One set of plain arrays serves any number of characters with the same body.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, frozen
from marey.skeleton import RoleMap, Skeleton, foot_points, role_map, t_pose

# columns of a foot's row of the memory
ALIVE, ANKLE_HELD, TOE_HELD, ANKLE_BARRED, TOE_BARRED = 0, 1, 2, 3, 4
LET_GO, TURN_BACK, SETTLE = 5, 6, 7  # [s] left of easing out the shift, the turn, and of settling after a surprise
YAW, TILT, SHIFT_A, GOAL_A, GOAL_T, SHIFT_T = 8, 10, 16, 22, 25, 28  # rates of those eased stand behind them
HEADING, ANKLE_AHEAD, TOE_AHEAD, RAW = 34, 35, 36, 37  # RAW: raw rotation of the ankle one frame ago
RISE, TARGET, TURN = 41, 43, 46  # TARGET, TURN: what the legs are posed with in this frame
LEVEL = 51  # [m] of the ground under this foot, over the floor, and its rate
LOWEST_A, LOWEST_T = 55, 101  # [m] lowest height that the raw path of a held ankle, toe has had
SINK_TIME, WAIT = (
    53,
    54,
)  # [s] left until a landed effector is all the way down, and until a foot has rolled onto its toe
NEED = 50  # [m] how far the hip is too high
FINAL = 102  # [m] shift of the ankle as posed, and its rate
RISEN, TIPTOE = 108, 109  # [m] how far the raw heel of a held ankle has risen; and the raw toe
LEAST = 110  # [m] least distance over the ground that a held toe has had from its raw one
REST_A, REST_T, SIZE = 112, 113, 114  # [m] rest heights of ankle and toe, and the size of the character
FLAT, LATERAL, HEEL, HEEL_DROP = 115, 117, 120, 123  # as in Legs, lengths in the character's size; FLAT: left, ahead
ROOT_DROP = 0  # of the body's row: how far the root is lowered [m], and its rate

SETTLE_S = 0.06  # [s] a plant that nobody announced settles in this time
SINK_S = 0.08  # [s] a foot that lands above its rest height comes down in this time
SINK_M = 0.04  # [m] at most so much
ROLL_IN_S = 0.05  # [s] a toe is held this long after it touched at most: until then the foot rolls down on its heel
ROLL_IN_M = 0.040  # [m] over a flat foot's: a toe that comes down from higher takes all of that time
EASE_PART = 0.4  # [-] of the time to the next plant
SWING_PART = 0.8  # [-] of that time: large corrections fade longer
FADE_MPS, FADE_RADPS = 0.25, 1.5  # usual speeds of a large correction that fades
SHORT_S = 0.06  # [s] shortest ease-out
ANNOUNCED = 1.5  # [-] frames: a plant seen coming one frame ago was announced
FASTEST_MPS, FASTEST_RADPS = 0.25, 2.0  # corrections are let go no faster: more would overshoot by centimetres
ROLL_S = 0.10  # [s] a foot that rolls onto its toe is back on its own course after this time
HALF_LIFE_S = 0.06  # [s] of lowering the root
DROP_MPS = 0.3  # [m/s] fastest lowering of the root
DROP_PART = 0.04  # [-] of the leg: the most that the root is lowered
SEEN_S = 0.15  # [s] a foot that lands this soon starts to lower the root
TWIST_RAD = 1.0471975511965976  # 60 degrees: a foot that was turned away more is let go (§III.2.5.5)
SHOWN_M = 0.001  # [m] what is farther from where it is held is not held
SEEN_M = 0.0005  # [m] an ankle farther from its target has missed it
HEEL_M = 0.025  # [m] a heel whose raw one has risen this much over a planted toe rises
TOE_M = 0.040  # [m] a toe whose raw one has risen this much has left: until then it rolls over its tip
LEAVE_M = 0.015  # [m] the same for a toe that lags behind; and a root is not lowered for a heel that has risen so much
TIPTOE_M = 0.03  # [m] a toe held over the ground goes up with its raw one, wholly from here on: it rolls on its tip
LAG_M = 0.03  # [m] over the ground, more than while it stood
CLOSE_M = 1e-4  # [m] beyond reach: a flat foot raises its heel
UNSEEN_M = 1e9  # [m] lowest height of what is not held
LOST_M = 0.02  # [m] beyond reach: the plant is over
MARGIN_RAD = 0.05  # [rad] over which a heel that must rise takes over from one that rises
FORCED_RAD = 0.35  # [rad] a heel that must rise this much more than it would has stayed behind: its toe is let go
STEEP_RAD = 1.4  # [rad] a foot stands on its toe no steeper than this


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
