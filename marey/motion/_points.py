"""Where the contact points are and how fast they move: what every contact detector looks at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3
from marey.motion._filter import lowpass_values
from marey.motion._motion import Motion

SMOOTHING_HZ = 12.0  # [Hz] keeps the jolt of a heel strike (about 0.03 s) and takes 5 mm of marker noise to 0.1 m/s
NYQUIST_SHARE = 0.4  # [-] largest cutoff as a share of the frame rate: a 30 Hz clip is filtered at 12 Hz as well
LEG_M = 0.96  # [m] path from root to ankle of the 1.75 m human, the body for which the thresholds are stated


@dataclass(frozen=True, slots=True, eq=False)
class PointTracks:
    """The contact points of a clip in time, smoothed."""

    names: tuple[str, ...]  # (K,)
    rate_hz: float
    positions: FloatArray  # (F, K, 3) [m] in world
    speeds: FloatArray  # (F, K) [m/s]
    root_speeds: FloatArray  # (F,) [m/s] of the pelvis
    size: float  # leg length over that of the 1.75 m human; lengths and speeds scale with it

    @property
    def heights(self) -> FloatArray:
        """Heights ``(F, K)`` [m]."""
        return self.positions[..., 1]

    def frames(self, seconds: float) -> int:
        """Return how many frames a time lasts, at least one."""
        return max(1, round(seconds * self.rate_hz))


def contact_positions(motion: Motion) -> FloatArray:
    """Contact points ``(F, K, 3)`` [m] in world, in the order of ``marey.skeleton.contact_points``."""
    from marey.skeleton import contact_points

    points = contact_points(motion.skeleton)
    origins, frames = motion.joint_frames()
    return origins[:, points.joints] + SO3(frames.wxyz[:, points.joints]) @ points.offsets


def point_tracks(motion: Motion) -> PointTracks:
    """Contact points with their speeds, low-passed at ``SMOOTHING_HZ``."""
    from marey.skeleton import contact_points

    names = tuple(contact_points(motion.skeleton).names)
    positions = smoothed(contact_positions(motion), motion.rate_hz)
    roots = smoothed(motion.root_positions, motion.rate_hz)
    return PointTracks(
        names,
        motion.rate_hz,
        positions,
        np.linalg.norm(derivative(positions, motion.rate_hz), axis=-1),
        np.linalg.norm(derivative(roots, motion.rate_hz), axis=-1),
        body_size(motion),
    )


def smoothed(values: FloatArray, rate_hz: float) -> FloatArray:
    """Values ``(F, ...)`` low-passed without delay; a clip of fewer than four frames is left as it is."""
    if len(values) < 4:
        return values
    return lowpass_values(values, rate_hz, min(SMOOTHING_HZ, NYQUIST_SHARE * rate_hz))


def derivative(values: FloatArray, rate_hz: float) -> FloatArray:
    """Central differences over time, one-sided at the ends; zero for a single frame."""
    return np.gradient(values, axis=0) * rate_hz if len(values) > 1 else np.zeros_like(values)


def body_size(motion: Motion) -> float:
    """Longest path from the root to a heel over that of the 1.75 m human."""
    from marey.skeleton import contact_points

    points, skeleton = contact_points(motion.skeleton), motion.skeleton
    lengths = [0.0]
    for name, joint in zip(points.names, points.joints, strict=True):
        if name.endswith("heel"):
            lengths.append(_path_length(motion, int(joint)))
    return max(lengths) / LEG_M if max(lengths) > 0.0 and skeleton.num_joints > 1 else 1.0


def _path_length(motion: Motion, joint: int) -> float:
    length = 0.0
    while joint > 0:
        length += float(np.linalg.norm(motion.skeleton.offsets[joint]))
        joint = int(motion.skeleton.parents[joint])
    return length
