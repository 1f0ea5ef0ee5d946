"""Charts of rotations in which fields live, and motion sampled densely enough to form one connected curve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import atan2, cos, sin
from typing import NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray, kernel
from marey.kinematics.limits.box import TWO_PI, clamp
from marey.kinematics.limits.contract import CheckArrays, collect_clips, compute_mean_rotation
from marey.kinematics.limits.distance_field import find_nearest_points
from marey.kinematics.limits.distance_grid import GridTables, field_value, project_on_field
from marey.lie import SO3, geodesic_distance
from marey.lie.kernels import (
    Quaternion,
    Vector,
    conjugate,
    exp,
    left_jacobian_inverse_times,
    log,
    multiply,
    put3,
    quaternion_at,
    rotate,
    write_rotation,
)
from marey.motion import Motion
from marey.skeleton import Skeleton

PROJECTION = (2, True, True)  # two steps, divided by the slope, then the way to a feasible node
FREE, LOG, ZYZ = 0, 1, 2  # charts: no limit, rotation vector, Euler angles Z-Y-Z
LOCK_SINE = 1e-8  # [-] sine of the middle Z-Y-Z angle below which the first angle takes the whole turn


@kernel
def zyz_angles(q: Quaternion) -> Vector:
    r"""Angles of :math:`R_Z(\phi) R_Y(\psi) R_Z(\theta)` with :math:`0 \le \psi \le \pi`; no third one at the lock."""
    w, x, y, z = q
    r02, r12, r22 = 2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)
    r20, r21 = 2.0 * (x * z - w * y), 2.0 * (y * z + w * x)
    sine = np.sqrt(r20 * r20 + r21 * r21)
    psi = atan2(sine, r22)
    if sine < LOCK_SINE:
        return atan2(2.0 * (w * z - x * y), 1.0 - 2.0 * (x * x + z * z)), psi, 0.0
    return atan2(r12, r02), psi, atan2(r21, -r20)


@kernel
def quaternion_from_zyz(v: Vector) -> Quaternion:
    """Quaternion of Z-Y-Z angles."""
    first = (cos(0.5 * v[0]), 0.0, 0.0, sin(0.5 * v[0]))
    second = (cos(0.5 * v[1]), 0.0, sin(0.5 * v[1]), 0.0)
    third = (cos(0.5 * v[2]), 0.0, 0.0, sin(0.5 * v[2]))
    return multiply(first, multiply(second, third))


@kernel
def nearest_zyz(v: Vector, grid: GridTables) -> Vector:
    """Z-Y-Z angles by whole turns nearest to the middle of the grid; those of periodic axes stay."""
    shape, origin, spacing, periodic = grid
    out = np.array(v)
    for a in range(3):
        if not periodic[a]:
            middle = origin[a] + 0.5 * (shape[a] - 1) * spacing[a]
            out[a] -= TWO_PI * np.round((out[a] - middle) / TWO_PI)
    return out[0], out[1], out[2]


class FieldTables(NamedTuple):
    """The fields of all joints, one behind the other."""

    charts: IntArray  # (J,) FREE, LOG or ZYZ
    before: FloatArray  # (J, 4) the chart holds the coordinates of ``before R after``
    after: FloatArray  # (J, 4)
    table: FloatArray  # (N, 4) value and gradient at the nodes of all grids
    nearest: IntArray  # (N,) feasible node nearest to each, counted from the start of its grid
    starts: IntArray  # (J,) where the nodes of a joint begin
    shapes: IntArray  # (J, 3)
    origins: FloatArray  # (J, 3) [rad]
    spacings: FloatArray  # (J, 3) [rad]
    periodic: BoolArray  # (J, 3)
    across: FloatArray  # (J, 2, 3) [rad] interval of coordinates without an axis
    epsilons: FloatArray  # (J,) [rad] level up to which points are feasible


@kernel
def _interval_excess(x: float, count: int, low: float, high: float) -> float:
    """How far a coordinate that has no grid axis is outside its interval."""
    return x - clamp(x, low, high) if count == 1 else 0.0


@kernel
def check_fields(wxyz: FloatArray, fields: FieldTables) -> CheckArrays:
    """Project rotations ``(F, J, 4)`` on the feasible sets of one field a joint."""
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    out, violation, gradient = wxyz.copy(), np.zeros((frames, joints)), np.zeros((frames, joints, 3))
    table, nearest = fields.table, fields.nearest
    for j in range(joints):
        chart, start, eps = fields.charts[j], fields.starts[j], fields.epsilons[j]
        if chart == FREE:
            continue
        left, right = quaternion_at(fields.before, j), quaternion_at(fields.after, j)
        grid = (fields.shapes[j], fields.origins[j], fields.spacings[j], fields.periodic[j])
        n, low, high = fields.shapes[j], fields.across[j, 0], fields.across[j, 1]
        for f in range(frames):
            q = multiply(left, multiply(quaternion_at(wxyz[f], j), right))
            # Distance to the set along the axes of the grid, and to the interval along the others
            # Coordinates of the rotation; of the two Z-Y-Z triples, the one where the field is lower
            if chart == LOG:
                x = log(q)
            else:
                v = zyz_angles(q)
                x, second = nearest_zyz(v, grid), nearest_zyz((v[0] + np.pi, -v[1], v[2] + np.pi), grid)
                if field_value(table, start, grid, second)[0] < field_value(table, start, grid, x)[0]:
                    x = second
            value, gx, gy, gz = field_value(table, start, grid, x)
            beyond = max(value - eps, 0.0)
            a = _interval_excess(x[0], n[0], low[0], high[0])
            b = _interval_excess(x[1], n[1], low[1], high[1])
            c = _interval_excess(x[2], n[2], low[2], high[2])
            square = beyond * beyond + a * a + b * b + c * c
            if square == 0.0:
                continue
            g = (beyond * gx + a, beyond * gy + b, beyond * gz + c)
            if chart == LOG:
                g = left_jacobian_inverse_times(x, g)
            else:
                # Body gradient of Z-Y-Z angles, capped at the lock: the body velocity is
                # R_Z(-theta) (-sin(psi) phi', psi', cos(psi) phi' + theta')
                sine, cosine = sin(x[1]), cos(x[1])
                if abs(sine) < LOCK_SINE:
                    sine = LOCK_SINE if sine >= 0.0 else -LOCK_SINE
                across = (g[2] * cosine - g[0]) / sine
                ct, st = cos(x[2]), sin(x[2])
                g = (ct * across + st * g[1], -st * across + ct * g[1], g[2])
            g = rotate(right, g)
            # The nearest point of both
            p = project_on_field(table, nearest, start, grid, x, eps, PROJECTION) if beyond > 0.0 else x
            p = (p[0] - a, p[1] - b, p[2] - c)
            r = exp(p) if chart == LOG else quaternion_from_zyz(p)
            write_rotation(out[f, j], multiply(conjugate(left), multiply(r, conjugate(right))))
            violation[f, j] = np.sqrt(square)
            put3(gradient[f], j, g)
    return out, violation, gradient


@kernel
def chart_coordinates(wxyz: FloatArray, chart: int) -> FloatArray:
    """Rotation vectors or Z-Y-Z angles ``(N, 3)`` of quaternions ``(N, 4)``."""
    out = np.empty((wxyz.shape[0], 3))
    for n in range(wxyz.shape[0]):
        q = quaternion_at(wxyz, n)
        out[n, 0], out[n, 1], out[n, 2] = log(q) if chart == LOG else zyz_angles(q)
    return out


@kernel
def unwrap_angles(angles: FloatArray) -> FloatArray:
    """Z-Y-Z angles ``(N, 3)`` without jumps: each by the equal triple that is nearest to the one before."""
    out = angles.copy()
    for n in range(1, angles.shape[0]):
        best = np.inf
        # Both triples that make this rotation, each angle by whole turns nearest to the one before
        for cover in range(2):
            square = 0.0
            triple = np.empty(3)
            for a in range(3):
                angle = angles[n, a] if cover == 0 else -angles[n, a] if a == 1 else angles[n, a] + np.pi
                triple[a] = angle - TWO_PI * np.round((angle - out[n - 1, a]) / TWO_PI)
                square += (triple[a] - out[n - 1, a]) ** 2
            if square < best:
                best = square
                out[n] = triple
    return out


JUMP_RAD = 1.0  # [rad] a turn of more between two frames is a fault of the capture ([Tournier2011]_ §12.3)
MAX_FAULT_FRAMES = 12  # an interval between two jumps up to this length (0.1 s at 120 Hz) is dropped
LEVELS = 14  # halvings of a frame, 6e-5 of it: a gap that is still too wide is a discontinuity
LONG_BRIDGE_RAD = 0.5  # [rad] a guess from clip to clip that is worth a note


@dataclass(frozen=True, slots=True, eq=False)
class RotationChart:
    """Coordinates of rotations: the vector or the Z-Y-Z angles of ``before @ R @ after``."""

    kind: int  # LOG or ZYZ
    before: SO3  # one rotation
    after: SO3  # one rotation

    def coordinates(self, rotations: SO3) -> FloatArray:
        """Coordinates ``(N, 3)`` [rad] of a batch ``(N,)``; Z-Y-Z angles without jumps from one to the next."""
        points = chart_coordinates((self.before @ rotations @ self.after).wxyz, self.kind)
        return unwrap_angles(points) if self.kind == ZYZ else points

    def rotations(self, points: FloatArray) -> SO3:
        """Batch ``(N,)`` of rotations with coordinates ``(N, 3)``."""
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


def collect_joint_samples(
    motions: Motion | Iterable[Motion],
) -> tuple[Skeleton, Iterator[tuple[int, SO3, SO3]]]:
    """The skeleton of clips and, for each joint but the root, its number, its rotations without jumps, their mean."""
    skeleton, clips = collect_clips(motions)
    inliers = (SO3.concatenate(split_inliers([clip[:, j] for clip in clips])[0]) for j in range(1, skeleton.num_joints))
    return skeleton, ((j, one, compute_mean_rotation(one)) for j, one in enumerate(inliers, start=1))


def sample_motion(pieces: Sequence[SO3], chart: RotationChart, max_gap: float) -> MotionSamples:
    """Sample pieces of motion so that neighbours are at most ``max_gap`` [rad] apart in the chart.

    Every frame is kept; slerp halves what is too far apart ([Engell2012]_ fig. 18, whose printed loop never
    advances). Each further piece is joined to the nearest sample there is; the source joins the last frame to the
    first, which is not valid in general.
    """
    if not pieces:
        raise InputError("no motion to sample", "Give at least one clip with two frames")
    # The first piece, and then each further one with a bridge to it
    rotations, points, open_gaps = _refine_samples(pieces[0], chart, max_gap)
    flags, gaps, longest = np.zeros(len(points), dtype=bool), [_compute_gaps(points)], 0.0
    for piece in pieces[1:]:
        more, coordinates, missed = _refine_samples(piece, chart, max_gap)
        # Joined from the sample that is nearest to one of its own
        distances, indices = find_nearest_points(points, coordinates)
        b = int(np.argmin(distances))
        a = int(indices[b])
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
