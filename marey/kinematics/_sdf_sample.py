"""Charts of rotations, and motion sampled in them so densely that a grid sees one connected curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.lie import SO3, geodesic_distance

JUMP_RAD = 1.0  # [rad] a turn of more between two frames is a fault of the capture ([Tournier2011]_ §12.3)
MAX_FAULT_FRAMES = 12  # a piece between two jumps that is no longer than this (0.1 s at 120 Hz) is dropped
LEVELS = 14  # halvings of a frame, 6e-5 of it: a gap that is still too wide is a discontinuity
LONG_BRIDGE_RAD = 0.5  # [rad] a guess from clip to clip that is worth a note


@dataclass(frozen=True, slots=True, eq=False)
class RotationChart:
    """Coordinates of rotations: the vector or the Z-Y-Z angles of ``before @ R @ after``."""

    kind: int  # LOG or ZYZ of ``_sdf_kernels``
    before: SO3  # one rotation
    after: SO3  # one rotation

    def coordinates(self, rotations: SO3) -> FloatArray:
        """Coordinates ``(N, 3)`` [rad] of a batch ``(N,)``; Z-Y-Z angles without jumps from one to the next."""
        from marey.kinematics._sdf_chart_kernels import ZYZ, chart_coordinates, unwrap_angles

        points = chart_coordinates((self.before @ rotations @ self.after).wxyz, self.kind)
        return unwrap_angles(points) if self.kind == ZYZ else points

    def rotations(self, points: FloatArray) -> SO3:
        """Batch ``(N,)`` of rotations with coordinates ``(N, 3)``."""
        from marey.kinematics._sdf_chart_kernels import LOG

        z, y = np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0])
        if self.kind == LOG:
            turned = SO3.exp(points)
        else:
            first, second, third = (SO3.exp(points[:, i, None] * a) for i, a in ((0, z), (1, y), (2, z)))
            turned = first @ second @ third
        return self.before.inverse() @ turned @ self.after.inverse()


@dataclass(frozen=True, slots=True, eq=False)
class MotionSamples:
    """Samples of a joint's motion in a chart."""

    points: FloatArray  # (N, 3) [rad]
    is_bridge: BoolArray  # (N,) samples that no clip holds: guesses that join one clip to the next
    gaps: FloatArray  # (G,) [rad] between neighbours in time, bridges included
    num_discontinuities: int  # gaps that could not be closed
    longest_bridge_rad: float


def split_inliers(clips: Sequence[SO3]) -> tuple[list[SO3], int]:
    """Split clips of one joint, batches ``(F,)``, at jumps and drop the short pieces between two; and count the jumps.

    [Tournier2011]_ §12.3.1 drops the frame after a jump. Jumps come in pairs, so we drop what lies between them.
    """
    kept: list[SO3] = []
    jumps = 0
    for clip in clips:
        cuts = np.flatnonzero(geodesic_distance(clip[:-1], clip[1:]) >= JUMP_RAD) + 1
        bounds = [0, *cuts.tolist(), len(clip)]
        pieces = [clip[a:b] for a, b in pairwise(bounds)]
        jumps += len(cuts)
        longest = max(len(piece) for piece in pieces)
        kept += [p for p in pieces if len(p) > MAX_FAULT_FRAMES or len(p) == longest]
    return kept, jumps


def sample_motion(pieces: Sequence[SO3], chart: RotationChart, max_gap: float) -> MotionSamples:
    """Sample pieces of motion so that neighbours are at most ``max_gap`` [rad] apart in the chart.

    Every frame is kept; slerp halves what is too far apart ([Engell2012]_ fig. 18, whose printed loop never
    advances). Each further piece is joined to the nearest sample there is; the source joins the last frame to the
    first, which is not valid in general.
    """
    if not pieces:
        raise InputError("no motion to sample", "Give at least one clip with two frames")
    rotations, points, open_gaps = _refine_samples(pieces[0], chart, max_gap)
    flags, gaps, longest = np.zeros(len(points), dtype=bool), [_compute_gaps(points)], 0.0
    for piece in pieces[1:]:
        more, coordinates, missed = _refine_samples(piece, chart, max_gap)
        a, b = _closest_pair(points, coordinates)
        link, way, unclosed = _refine_samples(SO3.stack([rotations[a], more[b]]), chart, max_gap)
        longest = max(longest, float(geodesic_distance(rotations[a], more[b])))
        gaps += [_compute_gaps(coordinates), _compute_gaps(way)]
        points = np.concatenate([points, coordinates, way])
        rotations = SO3.concatenate([rotations, more, link])
        flags = np.concatenate([flags, np.zeros(len(coordinates), dtype=bool), np.ones(len(way), dtype=bool)])
        open_gaps += missed + unclosed
    return MotionSamples(points, flags, np.concatenate(gaps), open_gaps, longest)


def _refine_samples(rotations: SO3, chart: RotationChart, max_gap: float) -> tuple[SO3, FloatArray, int]:
    """Rotations with slerped ones between, their coordinates, and how many gaps stayed too wide."""
    points = chart.coordinates(rotations)
    for _ in range(LEVELS):
        wide = np.flatnonzero(_compute_gaps(points) > max_gap)
        if not len(wide):
            return rotations, points, 0
        between = rotations[wide].slerp(rotations[wide + 1], 0.5)
        rotations = SO3(np.insert(rotations.wxyz, wide + 1, between.wxyz, axis=0))
        points = chart.coordinates(rotations)
    return rotations, points, int(np.count_nonzero(_compute_gaps(points) > max_gap))


def _compute_gaps(points: FloatArray) -> FloatArray:
    return np.linalg.norm(np.diff(points, axis=0), axis=1)


def _closest_pair(points: FloatArray, others: FloatArray) -> tuple[int, int]:
    """Numbers of the two nearest samples of two sets."""
    from marey.kinematics._sdf_field import find_nearest_points

    distances, indices = find_nearest_points(points, others)
    best = int(np.argmin(distances))
    return int(indices[best]), best
