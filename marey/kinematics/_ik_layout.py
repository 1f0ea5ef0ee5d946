r"""What a compiled solve reads: the body, the tasks and the limits as plain arrays.

Every task is one block of three residual rows. How a block moves with the turn :math:`\omega` [rad] of a joint, in
world axes, is :math:`\dot r = (A - C [l]_\times)\,\omega` with a lever :math:`l`: a point has :math:`A = 0, C = I`,
an orientation :math:`A = J_r^{-1}, C = 0`, and so on. One form serves all of them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray

POINT: Final = 0  # a point of the body shall be at a place
ORIENTATION: Final = 1  # a joint shall be turned as given
LOOK_AT: Final = 2  # an axis of a joint shall pass through a place
COM: Final = 3  # the centre of mass shall be at a place


class JointArrays(NamedTuple):
    """The skeleton, J joints."""

    parents: IntArray  # (J,)
    offsets: FloatArray  # (J, 3) [m]


class TaskBlocks(NamedTuple):
    """What each of the B blocks asks for."""

    kinds: IntArray  # (B,) POINT, ORIENTATION, LOOK_AT or COM
    joints: IntArray  # (B,) carrying joint; 0 for COM
    points: FloatArray  # (B, 3) [m] in the carrying joint's frame
    aims: FloatArray  # (B, 3) unit axis in the carrying joint's frame, for LOOK_AT
    axes: FloatArray  # (B, 3) 1, or 0 along a world axis that has no weight: what is missing there does not count
    weights: FloatArray  # (B, 3, 3) W of the objective e^T W e
    softness: FloatArray  # (B, 3, 3) W^-1
    tolerances: FloatArray  # (B,) [m] or [rad]


class KinematicChains(NamedTuple):
    """Which joints move each block; N moving joints of all blocks together."""

    chain_start: IntArray  # (B + 1,) block b is moved by chain[chain_start[b]:chain_start[b + 1]]
    chain: IntArray  # (N,) joints, root first
    pair_start: IntArray  # (B (B + 1) / 2 + 1,) of blocks (e, f), f <= e, row by row
    pair_first: IntArray  # rows of the chain list of e ...
    pair_second: IntArray  # ... and of f that are the same joint


class MassPoints(NamedTuple):
    """Points whose weighted sum is the centre of mass; none without a task on it."""

    joints: IntArray  # (P,)
    points: FloatArray  # (P, 3) [m]
    weights: FloatArray  # (P,)


class PosePrior(NamedTuple):
    """The metric of a step, and the pose prior. The last row is the root's place."""

    mobility: FloatArray  # (J + 1,) how readily each joint moves; 0 is frozen
    stiffness: FloatArray  # (J + 1,) springs of the pose prior
    reference: FloatArray  # (J, 4) where they pull the rotations
    reference_root: FloatArray  # (3,) [m] where the last pulls the root


class RotationVectorBox(NamedTuple):
    """Limits on rotation vectors."""

    boxed: BoolArray  # (J,) joints that have them
    low: FloatArray  # (J, 3) [rad]
    high: FloatArray  # (J, 3) [rad]


class IKLayout(NamedTuple):
    """All that stays the same while targets move."""

    tree: JointArrays
    blocks: TaskBlocks
    lists: KinematicChains
    mass: MassPoints
    springs: PosePrior
    box: RotationVectorBox


class SpeedLimits(NamedTuple):
    """How fast a clip may go, and where its limits are widest."""

    max_turn: float  # [-] turn of a joint over what the goals ask for
    limb_m: float  # [m] a goal that moves this far asks for a turn of 1 rad
    middle: FloatArray  # (J, 4) rotations in the middle of the limits; (0, 4) without limits


NO_SPEED_LIMITS: Final = SpeedLimits(np.inf, 1.0, np.zeros((0, 4)))
