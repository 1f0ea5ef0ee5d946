"""Samples of each source of a blend, at equal fractions of its phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.dynamics import Body
from marey.kinematics import Limb
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import Skeleton, contact_points

UP: Final = np.array([0.0, 1.0, 0.0])


Placement = tuple[float, FloatArray, FloatArray]
"""Turn [rad] about the vertical through the second point (3,), which is carried to the third."""


@dataclass(frozen=True, slots=True, eq=False)
class PlantedFootPath:
    """A planted foot of one source."""

    ball: FloatArray  # (N, 3) [m]
    R_world_ankle: SO3  # batch (N,)
    knee: FloatArray  # (N, 3) unit vectors across the line hip to ankle, towards the knee


@dataclass(frozen=True, slots=True, eq=False)
class BlendSource:
    """One phase of one clip, frame by frame or at shares of its duration."""

    roots: FloatArray  # (N, 3) [m]
    yaw: FloatArray  # (N,) [rad] of the root, continuous: a full turn ends at 2 pi
    tilt: SO3  # batch (N,): R_root = R_yaw @ tilt
    joints: SO3  # batch (N, J - 1), local rotations of all joints but the root
    centres: FloatArray  # (N, 3) [m] centre of mass
    feet: dict[str, PlantedFootPath]

    @classmethod
    def from_motion(cls, motion: Motion, body: Body, feet: Sequence[str]) -> BlendSource:
        """All frames of a phase on the skeleton of ``body``, with the paths of its planted feet."""
        yaw = np.unwrap(motion.rotations[:, 0].twist_angle(UP))
        tilt = SO3.exp(-yaw[:, None] * UP) @ motion.rotations[:, 0]
        positions, frames = motion.joint_frames()
        centres = np.einsum("j,njk->nk", body.masses / body.mass_kg, positions + frames @ body.centres)
        paths: dict[str, PlantedFootPath] = {}
        for foot in feet:
            limb = get_leg(motion.skeleton, foot)
            hip, knee, ankle = (positions[:, joint] for joint in (limb.upper, limb.middle, limb.end))
            front = frames[:, limb.upper] @ limb.pole_upper
            front = project_across(front, normalise(ankle - hip))
            bend = find_knee_direction(hip, knee, ankle, normalise(front))
            ball = ball_position(motion.skeleton, foot, positions, frames)
            paths[foot] = PlantedFootPath(ball, frames[:, limb.end], bend)
        return cls(motion.root_positions, yaw, tilt, motion.rotations[:, 1:], centres, paths)

    def at(self, shares: FloatArray) -> BlendSource:
        """Poses at ``shares`` (N,), 0 the first frame, 1 the last.

        Positions follow a cubic through the frames: a straight line between two frames of a flight is an acceleration
        of zero, and kinks at the frames. Rotations follow the arc between two frames.
        """
        # Frame before each share, and the part of the step after it
        place = np.clip(shares, 0.0, 1.0) * (len(self.roots) - 1)
        low = np.minimum(np.floor(place).astype(np.int64), len(self.roots) - 2)
        part = place - low
        paths = {
            foot: PlantedFootPath(
                interpolate_catmull_rom(path.ball, low, part),
                path.R_world_ankle[low].slerp(path.R_world_ankle[low + 1], part),
                normalise(interpolate_catmull_rom(path.knee, low, part)),
            )
            for foot, path in self.feet.items()
        }
        return BlendSource(
            interpolate_catmull_rom(self.roots, low, part),
            interpolate_catmull_rom(self.yaw[:, None], low, part)[:, 0],
            self.tilt[low].slerp(self.tilt[low + 1], part),
            self.joints[low].slerp(self.joints[low + 1], part[:, None]),
            interpolate_catmull_rom(self.centres, low, part),
            paths,
        )


def project_across(v: FloatArray, along: FloatArray) -> FloatArray:
    """The part of vectors ``(N, 3)`` across unit vectors ``(N, 3)``."""
    return v - along * (v * along).sum(axis=-1, keepdims=True)


def find_knee_direction(hip: FloatArray, knee: FloatArray, ankle: FloatArray, front: FloatArray) -> FloatArray:
    """Unit vectors ``(N, 3)`` across the line from hip to ankle, in which the knee bends.

    A leg straighter than 1 cm has no plane: ``front (N, 3)``, a unit vector across that line, tells.
    """
    bend = project_across(knee - hip, normalise(ankle - hip))
    size = np.linalg.norm(bend, axis=-1, keepdims=True)
    sure = np.clip(size / 0.01, 0.0, 1.0)
    return normalise(sure * bend / np.maximum(size, 1e-12) + (1.0 - sure) * front)


@lru_cache(maxsize=64)
def get_leg(skeleton: Skeleton, foot: str) -> Limb:
    """The leg of a foot; finding it takes longer than blending with it."""
    return Limb.from_name(skeleton, f"{foot}_leg")


def ball_position(skeleton: Skeleton, foot: str, positions: FloatArray, R_world_joint: SO3) -> FloatArray:
    """The point of the sole ``(N, 3)`` [m] under the ball of a foot, on which it stands and rolls."""
    points = contact_points(skeleton)
    number = points.index(f"{foot}_toe")
    joint = int(points.joints[number])
    return positions[:, joint] + R_world_joint[:, joint] @ points.offsets[number]


def interpolate_catmull_rom(values: FloatArray, low: IntArray, part: FloatArray) -> FloatArray:
    """Catmull-Rom curve through values ``(F, k)`` at ``low + part``, exact for parabolas inside and at the ends."""
    last = len(values) - 1
    # One frame beyond each end, on the parabola through the last three
    beyond: list[FloatArray] = []
    for end, step in ((0, 1), (last, -1)):
        a, b = values[end], values[end + step]
        c = values[end + 2 * step] if len(values) > 2 else 2.0 * b - a
        beyond.append(3.0 * a - 3.0 * b + c)
    p1, p2 = values[low], values[low + 1]
    p0 = np.where((low == 0)[:, None], beyond[0], values[np.maximum(low - 1, 0)])
    p3 = np.where((low == last - 1)[:, None], beyond[1], values[np.minimum(low + 2, last)])
    t = part[:, None]
    return p1 + 0.5 * t * (p2 - p0 + t * (2.0 * p0 - 5.0 * p1 + 4.0 * p2 - p3 + t * (3.0 * (p1 - p2) + p3 - p0)))


def normalise(v: FloatArray) -> FloatArray:
    """Vectors ``(..., 3)`` of length one; zero stays zero."""
    return v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-12)


def mean_rotations(rotations: Sequence[SO3], weights: FloatArray, method: str = "slerp") -> SO3:
    r"""Weighted mean of rotations of equal batches.

    "slerp" is the arc between two, and for more the point :math:`\mu` with
    :math:`\sum_i w_i \log(\mu^{-1} q_i) = 0`; "log" is :math:`\exp\sum_i w_i \log q_i`, linear, so that blends of
    blends are blends, and good only near the rest pose.
    """
    if method == "log":
        return SO3.exp(np.tensordot(weights, np.stack([q.log() for q in rotations]), axes=1))
    if len(rotations) == 2:
        return rotations[0].slerp(rotations[1], float(weights[1]))
    # Body-frame iteration from the heaviest source
    mean = rotations[int(np.argmax(weights))]
    for _ in range(50):
        step = np.tensordot(weights, np.stack([(mean.inverse() @ q).log() for q in rotations]), axes=1)
        mean = mean @ SO3.exp(step)
        if np.abs(step).max() < 1e-12:
            break
    return mean
