"""What a transition plays: a gait at constant speed, a jump; and how their frames are put in the world."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import cos, sin
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from marey.base import FloatArray, IntArray
from marey.locomotion._engine_walker import make_body_arrays
from marey.locomotion._model import EFFECTORS
from marey.skeleton import Skeleton

if TYPE_CHECKING:
    from marey.locomotion._pose_kernels import BodyArrays

RIGHT: Final = 0
LEFT: Final = 1
_NO_MIRROR: Final[IntArray] = np.zeros(0, dtype=np.int64)


class PoseFrame(NamedTuple):
    """Where the root is and how every joint is turned."""

    root: FloatArray  # (3,) [m]
    rotations: FloatArray  # (J, 4) wxyz, the root's first


class GaitClip(Protocol):
    """Walking or running with frozen parameters."""

    @property
    def speed(self) -> float:
        """Forward speed [m/s]."""
        ...

    @property
    def frequency_hz(self) -> float:
        """Cycles per second."""
        ...

    @property
    def events(self) -> FloatArray:
        """Unwrapped phases ``(8,)`` of the foot events, in the order of EVENTS."""
        ...

    def frame(self, phase: float) -> PoseFrame:
        """Pose at any phase, relative to the carriage."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class JumpClip:
    """A jump of one length for one body: frames between phase 0 and 1, both included, with real translation.

    A mirrored clip takes off with the left foot. Its events keep their order: take-off foot first.
    """

    rows: FloatArray  # (N, D) root position over leg length, then the log of every joint
    means: FloatArray  # (J, 4) wxyz
    leg_length_m: float
    duration_s: float
    events: FloatArray  # (8,) phases: strike, toe strike, heel off, toe off of the take-off foot, then of the other
    opposite: IntArray | None = None  # (J,) joint of the other side, for a mirrored clip

    def frame(self, phase: float) -> PoseFrame:
        """Pose at a phase in the jump's own frame, by Catmull-Rom in log space; the ends hold."""
        from marey.locomotion._transition_kernels import write_jump_frame

        root, rotations = np.empty(3), np.empty(self.means.shape)
        mirrored = self.opposite is not None
        order = self.opposite if self.opposite is not None else _NO_MIRROR
        write_jump_frame(self.rows, self.means, order, mirrored, self.leg_length_m, float(phase), root, rotations)
        return PoseFrame(root, rotations)


def place_frame(frame: PoseFrame, position: FloatArray, heading_rad: float) -> PoseFrame:
    """Carry a frame from its own ground frame to the point ``(x, z)`` of the world, turned by the heading."""
    from marey.locomotion._transition_kernels import transform_to_world

    root, rotations = frame.root.copy(), frame.rotations.copy()
    transform_to_world(root, rotations, position, float(heading_rad))
    return PoseFrame(root, rotations)


def blend_frames(a: PoseFrame, b: PoseFrame, weight: float) -> PoseFrame:
    """Part ``weight`` of the way from one frame to another: roots along a line, joints along the shorter arc."""
    from marey.locomotion._transition_kernels import blend_poses_in_place

    root, rotations = a.root.copy(), a.rotations.copy()
    blend_poses_in_place(root, rotations, b.root, b.rotations, float(weight))
    return PoseFrame(root, rotations)


def compute_effectors(skeleton: Skeleton, frame: PoseFrame) -> FloatArray:
    """World positions ``(4, 3)`` [m] of the ankles and toes, in the order of EFFECTORS."""
    from marey.locomotion._pose_kernels import write_effectors

    out = np.empty((len(EFFECTORS), 3))
    write_effectors(_cached_body_arrays(skeleton), 1.0, frame.root, frame.rotations, out)
    return out


@lru_cache(maxsize=16)
def _cached_body_arrays(skeleton: Skeleton) -> BodyArrays:
    return make_body_arrays(skeleton, 1.0, froude=True, cubic=True)


def solve_ground_shift(held: FloatArray, moved: FloatArray, heading_rad: float) -> FloatArray:
    """Point ``(x, z)`` at which a unit's frame must stand so that its point ``moved`` (3,) falls on ``held`` (3,)."""
    c, s = cos(heading_rad), sin(heading_rad)
    return np.array([held[0] - c * moved[0] - s * moved[2], held[2] + s * moved[0] - c * moved[2]])
