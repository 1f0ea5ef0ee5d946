"""Arrays of the foot-plant kernel: legs, what a frame foresees, and the state with one record for each foot.

One set of plain arrays serves any number of characters with the same body.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, NamedTuple, get_args, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marey.base import BoolArray, FloatArray, InputError, IntArray, frozen
from marey.skeleton import RoleMap, Skeleton, foot_points, role_map, t_pose

TWIST_RAD = 1.0471975511965976  # 60 degrees: a foot that was turned away more is let go (§III.2.5.5)

FEET: Final = ("right", "left")
EFFECTOR_POINTS: Final = ("right_heel", "right_toe", "left_heel", "left_toe")
"""What the four effectors, right ankle, right toe, left ankle, left toe, are called in a contact track."""
LEG_SOLVERS: Final = ("analytic", "priority")
PLANT_EASE_S: Final = 0.20  # [s] longest ease-in or ease-out (Appendix B)
RUN_EASE_S: Final = 0.12  # [s] of a runner, whose stances are half as long

HIP, KNEE, ANKLE, TOE = 0, 1, 2, 3  # joints of a leg, in `LegArrays.joints` and in the frames of a `FootState`

Vector2 = Annotated[FloatArray, 2]
Vector3 = Annotated[FloatArray, 3]
Vector4 = Annotated[FloatArray, 4]
Points = Annotated[FloatArray, (4, 3)]
Rotations = Annotated[FloatArray, (4, 4)]
Ticks = Annotated[FloatArray, (6, 3)]
TickAngles = Annotated[FloatArray, 6]


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
    reach: FloatArray  # (2,) [m] leg length H: thigh, shank and height of the ankle


class PlantOptions(NamedTuple):
    """How the feet of one character are planted."""

    ease_s: float = PLANT_EASE_S  # [s] longest ease-in or ease-out
    floor_y: float = 0.0  # [m] height of the floor
    scale: float = 1.0  # [-] size of the character over that of the legs' skeleton


class PlantForecast(NamedTuple):
    """What a frame of raw motion knows of its plants; effectors are right ankle, right toe, left ankle, left toe."""

    planted: BoolArray  # (4,) which effectors are to be held now
    until_s: FloatArray  # (4,) [s] until the next plant of each effector starts; large if none is known
    landing: FloatArray  # (4, 3) [m] raw positions in world that the effectors will have when those plants start
    shift: FloatArray  # (4, 3) [m] added to where each effector would land; y is the ground there, over the floor
    toe_in: FloatArray  # (2,) [rad] yaw added to each landing foot, positive to the left


class FootState:
    """Record of one foot that the kernel keeps from frame to frame; numpy's record has the same fields.

    Frames of the leg are those of the raw motion in this frame.
    """

    is_alive: bool  # a frame has been seen
    ankle_held: bool
    toe_held: bool
    ankle_barred: bool  # let go before the end of its plant
    toe_barred: bool
    sink_s: float  # [s] left until a landed effector is all the way down
    yaw: float  # [rad] of the correction
    tilt: Vector3  # [rad] rotation vector of the correction
    ankle_goal: Vector3  # [m] where it is held, is about to land, or was held last
    toe_goal: Vector3  # [m]
    heading: float  # [rad] of the foot
    ankle_ahead_s: float  # [s] to the next plant, one frame ago
    toe_ahead_s: float
    rise: float  # [m] over its rest height of an effector that comes down
    target: Vector3  # [m] what the leg is posed with in this frame: the ankle ...
    turn: Vector4  # ... and the turn of the foot against the raw one
    needed_drop: float  # [m] how far the hip is too high; held by ticks: the most in this stance ...
    stance_drop: float  # [m] ... and in the last one
    toe_bend: float  # [rad] of toes that would pierce the floor
    shifts: Ticks  # [m] what is added to the raw ankle at the last ticks, the latest last ...
    turns: Ticks  # ... and the rotation vectors [rad] of the foot's turn ...
    bends: TickAngles  # ... and the bends [rad] of its toes
    free_s: float  # [s] since the foot left the ground
    stood_s: float  # [s] since it landed
    arrive_s: float  # [s] before it lands the foot begins to slow down to rest
    steepest: float  # [rad] that the raw foot has been since its heel rose, about
    on_ball: bool  # the foot stands, or will land, on its ball, else on its heel
    has_rolled: bool  # from its heel onto its ball
    has_flown: bool  # it left the ground after the other foot: what it swings in begins with a flight
    heel_goal: Vector3  # [m] where the heel pad is held
    landing_goal: Vector3  # [m] where heel or ball shall land
    struck: Vector3  # [m] where the raw heel or ball is then
    frozen: Vector3  # [m] from the raw ball to where it stood, when the foot left
    frozen_yaw: float  # [rad] of the correction then
    flatness: float  # [-] how far the foot is laid flat: linear in time, 0 to 1
    tip: Vector3  # [m] end of the toes in the frame of the ball
    tip_up: float  # [m] over the ball, of a foot in the air
    tip_least: float  # [m] clearance for which the toes of a foot that leaves bend
    heel_back: float  # [m] heel pad of a flat foot against its ankle, ahead
    ankle_rest: float  # [m] rest height, in the character's size, as all below
    toe_rest: float  # [m]
    size: float  # [-] of the character
    flat: Vector2  # direction of a flat foot: left, ahead
    lateral: Vector3
    heel: Vector3  # [m]
    origin: Points  # [m] of hip, knee, ankle and toe
    above: Rotations  # world rotation of the parent of each
    world: Rotations  # world rotation of each


# Numpy's record with the annotated fields of `FootState`: flags, numbers, and arrays of the annotated shape
_FOOT_FIELDS: Final[list[Any]] = [
    (name, np.bool_ if hint is bool else np.float64, () if hint in (bool, float) else get_args(hint)[-1])
    for name, hint in get_type_hints(FootState, include_extras=True).items()
]
FOOT_RECORD: Final = np.dtype(_FOOT_FIELDS, align=True)


class PlantState(NamedTuple):
    """What the kernel remembers of a character: zeros before the first frame."""

    feet: NDArray[np.void]  # (2,) records of `FootState`, right first
    root_drop: FloatArray  # (2,) [m] how far the root is lowered, and its rate
    drops: FloatArray  # (6,) [m] at the last ticks, the latest last

    def copy(self) -> PlantState:
        """Return an independent copy."""
        return PlantState(self.feet.copy(), self.root_drop.copy(), self.drops.copy())

    def goals(self) -> FloatArray:
        """Where the effectors ``(..., 4, 3)`` [m] are held, or are about to land, or were held last."""
        pairs = np.stack([self.feet["ankle_goal"], self.feet["toe_goal"]], axis=-2)
        return pairs.reshape(*pairs.shape[:-3], 4, 3)


def make_leg_arrays(
    skeleton: Skeleton, roles: RoleMap | None = None, *, rest_heights: ArrayLike | None = None
) -> LegArrays:
    """Read both legs of a skeleton.

    Args:
        skeleton: any body with hips, knees, ankles and feet.
        roles: canonical roles of the joints; estimated by default.
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
    # Heights of ankles and toes over the soles of a body that stands
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
        bones[:, :2].sum(axis=1) + heights[:, 0],
    )


def allocate_plant_state(*batch: int) -> PlantState:
    """State of characters that start, ``batch`` first in its arrays."""
    return PlantState(np.zeros((*batch, 2), dtype=FOOT_RECORD), np.zeros((*batch, 2)), np.zeros((*batch, 6)))
