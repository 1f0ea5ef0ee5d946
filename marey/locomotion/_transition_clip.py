"""What a transition plays: a gait at constant speed, a jump; and how their frames are put in the world."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, sin
from typing import Final, NamedTuple, Protocol

import numpy as np

from marey.base import FloatArray, IntArray
from marey.lie import SO3
from marey.locomotion._model import EFFECTORS
from marey.skeleton import Skeleton, joint_positions

RIGHT: Final = 0
LEFT: Final = 1
FLIP: Final = np.array([1.0, 1.0, -1.0, -1.0])  # of a quaternion, mirrored in the plane x = 0


class BodyFrame(NamedTuple):
    """Where the root is and how every joint is turned."""

    root: FloatArray  # (3,) [m]
    rotations: FloatArray  # (J, 4) wxyz, the root's first


class Gait(Protocol):
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

    def frame(self, phase: float) -> BodyFrame:
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

    def frame(self, phase: float) -> BodyFrame:
        """Pose at a phase, by Catmull-Rom in log space; the ends hold."""
        row = cubic_row(self.rows, phase)
        rotations = (SO3(self.means) @ SO3.exp(row[3:].reshape(-1, 3))).wxyz
        root = self.leg_length_m * row[:3]
        if self.opposite is None:
            return BodyFrame(root, rotations)
        return BodyFrame(root * [-1.0, 1.0, 1.0], rotations[self.opposite] * FLIP)


def cubic_row(rows: FloatArray, phase: float) -> FloatArray:
    """Catmull-Rom between the rows ``(N, D)`` of a clip that runs once, phase 0 to 1."""
    place = min(max(phase, 0.0), 1.0) * (len(rows) - 1)
    i = min(int(place), len(rows) - 2)
    u = place - i
    before = rows[i - 1] if i > 0 else 3.0 * rows[0] - 3.0 * rows[1] + rows[2]
    after = rows[i + 2] if i + 2 < len(rows) else 3.0 * rows[-1] - 3.0 * rows[-2] + rows[-3]
    start, stop = rows[i], rows[i + 1]
    slope, end_slope = 0.5 * (stop - before), 0.5 * (after - start)
    rise = stop - start
    return start + u * (slope + u * ((3.0 * rise - 2.0 * slope - end_slope) + u * (slope + end_slope - 2.0 * rise)))


def placed(frame: BodyFrame, position: FloatArray, heading_rad: float) -> BodyFrame:
    """Carry a frame from its own ground frame to the point ``(x, z)`` of the world, turned by the heading."""
    c, s = cos(heading_rad), sin(heading_rad)
    x, y, z = frame.root
    root = np.array([position[0] + c * x + s * z, y, position[1] - s * x + c * z])
    rotations = frame.rotations.copy()
    w, h = cos(0.5 * heading_rad), sin(0.5 * heading_rad)
    a, b, d, e = frame.rotations[0]
    rotations[0] = (w * a - h * d, w * b + h * e, w * d + h * a, w * e - h * b)
    return BodyFrame(root, rotations)


def forward(heading_rad: float) -> FloatArray:
    """Direction ``(x, z)`` of a heading."""
    return np.array([sin(heading_rad), cos(heading_rad)])


def effectors(skeleton: Skeleton, frame: BodyFrame) -> FloatArray:
    """World positions ``(4, 3)`` [m] of the ankles and toes, in the order of EFFECTORS."""
    joints = [skeleton.names.index(name) for name in EFFECTORS]
    return joint_positions(skeleton, frame.root[None], frame.rotations[None])[0][joints]


def ground_shift(held: FloatArray, moved: FloatArray, heading_rad: float) -> FloatArray:
    """Point ``(x, z)`` at which a unit's frame must stand so that its point ``moved`` (3,) falls on ``held`` (3,)."""
    c, s = cos(heading_rad), sin(heading_rad)
    return np.array([held[0] - c * moved[0] - s * moved[2], held[2] + s * moved[0] - c * moved[2]])
