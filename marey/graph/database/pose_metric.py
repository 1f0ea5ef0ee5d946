"""How far two poses are apart: rows of features, or clouds of points under the best alignment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray, split_blocks
from marey.graph.algorithms import multiply_row_pairs, multiply_rows, project_principal
from marey.graph.arrays import to_frame
from marey.graph.database.clips import Database
from marey.graph.database.settings import GraphSettings
from marey.lie import SO3
from marey.skeleton import joint_positions, role_map

LEE_ROLES: Final = (
    "left_hip", "right_hip", "left_knee", "right_knee", "spine1", "spine2", "spine3",
    "left_shoulder", "right_shoulder", "left_elbow", "right_elbow",
)  # fmt: skip
"""Joints that count; wrists, ankles, toes and neck do not ([Lee2002]_)."""
SECOND_FOOT_WEIGHT: Final = 0.6  # [-] weight of the other planted foot
WINDOW: Final = 5  # poses of a point cloud
BLOCK_ROWS: Final = 128  # rows of a table of distances that are worked on at once
COORDINATES: Final = 16  # directions in which poses are compared first
UP: Final = np.array([0.0, 1.0, 0.0])


def compute_lee_features(database: Database, settings: GraphSettings) -> FloatArray:
    r"""Rows ``(P, m)`` whose squared distance is that of [Lee2002]_, with planted feet added.

    .. math:: D_{ij} = \|p_{i0} - p_{j0}\|^2 + \sum_k \|\log(q_{jk}^{-1} q_{ik})\|^2 + \nu\,\|v_i - v_j\|^2
              + \sum_{f} \big(w_x^2\,\|x_{if} - x_{jf}\|^2 + w_\psi^2\,(\psi_{if} - \psi_{jf})^2\big)

    Rotation vectors about each joint's mean stand for the geodesic distance, which they give exactly for small
    differences. Planted feet in the root's frame are ours: without them a search picks transitions at which the
    feet match and the root jumps.
    """
    roles = role_map(database.body.skeleton)
    joints = [roles[name] for name in LEE_ROLES if name in roles]
    rotations = SO3(database.wxyz[:, joints])
    mean = _mean_rotation(rotations)
    angles = (mean.inverse() @ rotations).log()
    # Central differences [1/s] within each clip
    rates = np.zeros_like(angles)
    ends = np.searchsorted(database.clip, np.arange(len(database.clips) + 1))
    for own in map(slice, ends[:-1].tolist(), ends[1:].tolist()):
        if own.stop - own.start > 1:
            rates[own] = np.gradient(angles[own], axis=0) * database.rate_hz
    yaw = SO3(database.wxyz[:, 0]).twist_angle(UP)
    tilt = (SO3.exp(-yaw[:, None] * UP) @ SO3(database.wxyz[:, 0])).log()
    parts = [
        database.roots[:, 1:2],
        tilt,
        angles.reshape(len(angles), -1),
        np.sqrt(settings.velocity_weight) * rates.reshape(len(rates), -1),
    ]
    if settings.foot_weight > 0.0:
        # Anchor foot and the other planted foot in the frame of the root, weighted (P, 6); zero where not planted
        table, phase = database.phases, database.phase
        feet = table.feet[phase]
        # The anchor is the foot that stands at the anchor's place: 0 left, 1 right, -1 none
        off = np.abs(table.feet[:, :, :2] - table.anchor[:, None, :2]).sum(axis=-1)
        off = np.where(np.isfinite(off), off, np.inf)
        nearest = np.argmin(off, axis=1)
        anchored = np.where(np.isfinite(off.min(axis=1)), nearest, -1)[phase]
        columns: list[FloatArray] = []
        for rank, weight in ((0, 1.0), (1, SECOND_FOOT_WEIGHT)):
            side = np.where(anchored < 0, 0, anchored if rank == 0 else 1 - anchored)
            foot = np.take_along_axis(feet, side[:, None, None], axis=1)[:, 0]
            local = to_frame(foot, np.stack([database.roots[:, 0], database.roots[:, 2], yaw], axis=1))
            local *= weight * np.array([settings.foot_weight, settings.foot_weight, settings.foot_yaw_weight])
            columns.append(np.where(np.isfinite(local) & (anchored >= 0)[:, None], local, 0.0))
        parts.append(np.concatenate(columns, axis=1))
    return np.concatenate(parts, axis=1)


def _mean_rotation(rotations: SO3) -> SO3:
    mean = rotations[0]
    for _ in range(20):
        step = (mean.inverse() @ rotations).log().mean(axis=0)
        mean = mean @ SO3.exp(step)
        if np.abs(step).max() < 1e-9:
            break
    return mean


def squared_distances(first: FloatArray, second: FloatArray) -> FloatArray:
    """Squared Euclidean distances ``(n, m)`` between rows."""
    found = multiply_rows(first, second)
    found *= -2.0
    found += (first**2).sum(axis=1)[:, None]
    found += (second**2).sum(axis=1)
    return np.maximum(found, 0.0, out=found)


@dataclass(frozen=True, slots=True, eq=False)
class PointClouds:
    r"""Windows of joint positions about each pose, ready for distances under the best planar alignment ([Kovar2002]_).

    For clouds of points :math:`p_k, q_k` with weights of sum one, taken about their means on the ground,

    .. math:: D = \sum_k w_k(\|p_k\|^2 + \|q_k\|^2) - 2\sum_k w_k\,p_{ky} q_{ky} - 2\sqrt{A^2 + B^2},

    :math:`A = \sum_k w_k (p_{kx} q_{kx} + p_{kz} q_{kz})`, :math:`B = \sum_k w_k (p_{kz} q_{kx} - p_{kx} q_{kz})`:
    three products of rows for all pairs. The printed formula of the source finds the angle pair by pair.
    """

    level: FloatArray  # (P, 2K) weighted x then z, about their means
    upright: FloatArray  # (P, K) weighted heights
    squares: FloatArray  # (P,) sum of squares

    @classmethod
    def from_database(cls, database: Database, window: int = WINDOW) -> PointClouds:
        """Clouds of ``window`` poses before, at and after each pose, held at the ends of its clip."""
        points = joint_positions(database.body.skeleton, database.roots, database.wxyz)
        reach = np.arange(window) - window // 2
        first = np.searchsorted(database.clip, database.clip, side="left")
        last = np.searchsorted(database.clip, database.clip, side="right") - 1
        at = np.clip(np.arange(len(points))[:, None] + reach, first[:, None], last[:, None])
        return cls.from_points(points[at].reshape(len(points), -1, 3))

    @classmethod
    def from_points(cls, clouds: FloatArray) -> PointClouds:
        """Clouds of points ``(P, K, 3)`` [m], all of equal weight."""
        count = clouds.shape[1]
        x, y, z = np.moveaxis(clouds, -1, 0) / np.sqrt(count)
        x, z = x - x.mean(axis=1, keepdims=True), z - z.mean(axis=1, keepdims=True)
        squares = (x * x + y * y + z * z).sum(axis=1)
        return cls(np.concatenate([x, z], axis=1), np.ascontiguousarray(y), squares)

    def distances(self, rows: slice, columns: slice) -> FloatArray:
        """Squared distances ``(n, m)`` [m²] between two ranges of poses, mean over the points."""
        right, upright, squares = self.level[columns], self.upright[columns], self.squares[columns]
        crossed = cross_level(right)
        left, heights, sums = self.level[rows], self.upright[rows], self.squares[rows]
        found = np.empty((len(left), len(right)))
        for part in split_blocks(len(left), BLOCK_ROWS):  # small enough to stay near the processor
            a, b = found[part], multiply_rows(left[part], crossed)
            a[:] = multiply_rows(left[part], right)
            np.multiply(a, a, out=a)
            np.multiply(b, b, out=b)
            np.add(a, b, out=a)
            np.sqrt(a, out=a)
            np.add(a, multiply_rows(heights[part], upright), out=a)
            np.multiply(a, -2.0, out=a)
            np.add(a, squares, out=a)
            np.add(a, sums[part][:, None], out=a)
            np.maximum(a, 0.0, out=a)
        return found


def cross_level(level: FloatArray) -> FloatArray:
    """Columns z, -x of rows x, z ``(P, 2K)``: their products with others are those of B."""
    half = level.shape[1] // 2
    return np.concatenate([level[:, half:], -level[:, :half]], axis=1)


class PoseMetric:
    """Squared distances between poses, by the name of the method."""

    def __init__(self, database: Database, settings: GraphSettings) -> None:
        self._database = database
        self._features = compute_lee_features(database, settings) if settings.metric == "lee2002" else None
        self._clouds = PointClouds.from_database(database) if settings.metric == "kovar2002" else None
        self._squares = np.zeros(0) if self._features is None else (self._features**2).sum(axis=1)
        self._crossed = np.zeros((0, 0)) if self._clouds is None else cross_level(self._clouds.level)

    def between(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Squared distances ``(n, m)``."""
        if self._features is not None:
            return squared_distances(self._features[rows], self._features[columns])
        assert self._clouds is not None
        clouds = self._clouds
        part = PointClouds(
            np.concatenate([clouds.level[rows], clouds.level[columns]]),
            np.concatenate([clouds.upright[rows], clouds.upright[columns]]),
            np.concatenate([clouds.squares[rows], clouds.squares[columns]]),
        )
        return part.distances(slice(0, len(rows)), slice(len(rows), None))

    def of_pairs(self, first: IntArray, second: IntArray) -> FloatArray:
        """Squared distances ``(n,)`` of pairs of poses: to the last bit those of :meth:`between`."""
        if self._features is not None:
            found = -2.0 * multiply_row_pairs(self._features, self._features, first, second)
            found += self._squares[first]
            found += self._squares[second]
            return np.maximum(found, 0.0, out=found)
        assert self._clouds is not None
        clouds = self._clouds
        along = multiply_row_pairs(clouds.level, clouds.level, first, second)
        across = multiply_row_pairs(clouds.level, self._crossed, first, second)
        found = np.sqrt(along * along + across * across) + multiply_row_pairs(
            clouds.upright, clouds.upright, first, second
        )
        return np.maximum(-2.0 * found + clouds.squares[second] + clouds.squares[first], 0.0)

    @cached_property
    def coordinates(self) -> FloatArray:
        """Projections ``(P, COORDINATES)`` of what is compared: their squared distance is at most that of the poses.

        Of clouds these are heights and distances from the middle: no turn brings two points nearer than those differ.
        """
        rows = self._features
        if rows is None:
            assert self._clouds is not None
            x, z = np.split(self._clouds.level, 2, axis=1)
            rows = np.concatenate([np.hypot(x, z), self._clouds.upright], axis=1)
        return project_principal(rows - rows.mean(axis=0), COORDINATES)

    def exact(self, first: IntArray, second: IntArray, D: FloatArray) -> FloatArray:
        """Distances ``(n,)`` of pairs with true angles in place of differences of rotation vectors."""
        if self._features is None:
            return D
        # What to add to squared distances of features so that angles between joints are true
        roles = role_map(self._database.body.skeleton)
        rotations = SO3(self._database.wxyz[:, [roles[name] for name in LEE_ROLES if name in roles]])
        angles = (_mean_rotation(rotations).inverse() @ rotations).log()
        added = np.empty(len(first))
        for part in split_blocks(len(first), 20_000):
            a, b = first[part], second[part]
            true = (rotations[b].inverse() @ rotations[a]).log()
            added[part] = (true**2).sum(axis=(1, 2)) - ((angles[a] - angles[b]) ** 2).sum(axis=(1, 2))
        return np.maximum(D + added, 0.0)
