"""Where one clip may go over into another: pairs of poses that are alike.

Distances of all pairs of poses are products of rows; transitions are their lowest valleys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray, kernel, split_blocks
from marey.graph.algorithms import multiply_rows
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
    for number in range(len(database.clips)):
        own = np.flatnonzero(database.clip == number)
        if len(own) > 1:
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
        half = self.level.shape[1] // 2
        right, upright, squares = self.level[columns], self.upright[columns], self.squares[columns]
        crossed = np.concatenate([right[:, half:], -right[:, :half]], axis=1)
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


NEIGHBOURHOOD: Final = 2  # poses: of a valley of the distance only its lowest place, within so many poses, is kept
SCAN_ROWS: Final = 256  # poses that are compared with all of their class at once
BLOCK_POSES: Final = 1024  # after so many poses, transitions within a behaviour come before those between two
WITHIN, ACROSS, REMEMBERED = 0, 1, 2  # kinds of low places
STOPPING: Final = 2  # phases before and after a stand that belong to stopping and starting
STILL_SHARE: Final = 0.1  # [-] of the threshold: nobody sees a cut between standing poses that are so alike
SAMPLE: Final = 400  # walking poses on which the threshold is set

PosePairs = tuple[IntArray, IntArray, FloatArray]
"""Poses, poses that are like them, and their squared distances."""


@dataclass(frozen=True, slots=True, eq=False)
class Transitions:
    """Pose ``target`` may follow pose ``source`` in place of its own successor."""

    source: IntArray  # (E,)
    target: IntArray  # (E,) the successor of the pose that is like ``source``
    distance: FloatArray  # (E,) squared, between ``source`` and the pose before ``target``
    threshold: float  # within one behaviour
    num_like: int = 0  # pairs of poses under the thresholds, of which these are the lowest of each valley

    @property
    def scale(self) -> float:
        """Squared distance at which the chance of a transition has fallen to 1/e: that at which poses are just alike.

        The source leaves it open. The median of the distances, which is near it in captured clips, is no measure of
        likeness where clips are made by an engine: half of all pairs there are all but equal.
        """
        return max(self.threshold, 1e-12)

    @property
    def probability(self) -> FloatArray:
        r"""Chance ``(E,)`` of a transition, :math:`e^{-D/\sigma}` ([Safonova2006]_ F15)."""
        return np.exp(-self.distance / self.scale)


class PoseMetric:
    """Squared distances between poses, by the name of the method."""

    def __init__(self, database: Database, settings: GraphSettings) -> None:
        self._database = database
        self._features = compute_lee_features(database, settings) if settings.metric == "lee2002" else None
        self._clouds = PointClouds.from_database(database) if settings.metric == "kovar2002" else None

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


def find_transitions(database: Database, settings: GraphSettings, metric: PoseMetric | None = None) -> Transitions:
    """All pairs of like poses with equal contacts ([Safonova2006]_ F15).

    The threshold is set so that a walking pose has ``density`` like ones; between behaviours it is ``cross`` times
    that, or more where fewer than ``cross_links`` pairs are found. Of each valley of the distance only the lowest pose
    is kept, and at most ``links`` of one pose: standing poses would else all be joined.

    Raises:
        InputError: no two poses are similar; the message gives the smallest distance.
    """
    metric = PoseMetric(database, settings) if metric is None else metric
    threshold = calibrate_threshold(database, settings, metric)
    behaviour, clip = pose_behaviours(database), database.clip
    count, apart = int(behaviour.max()) + 1, round(settings.min_apart_s * database.rate_hz)
    limits = np.array([1.0, settings.cross, settings.reach]) * threshold
    found, others = list[PosePairs](), list[PosePairs]()
    least, num_like = np.inf, 0
    inner = np.flatnonzero(has_successor(database))
    kinds = database.phases.kind[database.phase[inner]]
    for own in (inner[kinds == kind] for kind, planted in enumerate(database.classes) if planted):
        group = PoseGroup(own, clip[own], behaviour[own])
        for block in split_blocks(len(own), BLOCK_POSES) if len(own) > 1 else ():
            parts: tuple[list[PosePairs], list[PosePairs]] = [], []
            for rows in split_blocks(block.stop - block.start, SCAN_ROWS):
                # Distances of some poses to all of their class; low places of each row, by the limit they are within
                first = block.start + rows.start
                D = metric.between(own[first : block.start + rows.stop], own)
                low, kind, (near, like) = find_low_places(D, first, group, apart, limits)
                least, num_like = min(least, near), num_like + int(like)
                i, j = np.divmod(low, len(own))
                for pairs, is_wanted in zip(parts, (kind == WITHIN, kind == ACROSS), strict=True):
                    kept = np.flatnonzero(is_wanted)
                    kept = kept[_smallest_in_groups(i[kept], D[i[kept], j[kept]], settings.links)]
                    pairs.append((own[first + i[kept]], own[j[kept]], D[i[kept], j[kept]]))
                # Remember the nearest pairs of each two behaviours, whether near enough or not
                far = np.flatnonzero(kind != WITHIN)
                pair = behaviour[own[first + i[far]]] * count + behaviour[own[j[far]]]
                far = far[_smallest_in_groups(pair, D[i[far], j[far]], settings.cross_links)]
                others.append((own[first + i[far]], own[j[far]], D[i[far], j[far]]))
            found += [_concatenate_pairs(pairs) for pairs in parts]
    # Without pairs that have a planted foot in quite other places: it would take a step that no clip shows
    phase, table = database.phase, database.phases
    feet = to_frame(table.feet, table.anchor[:, None])[..., :2]
    pairs = [_concatenate_pairs(found), _concatenate_pairs(others)]
    for n, (a, b, far) in enumerate(pairs):
        apart_m = np.nan_to_num(np.linalg.norm(feet[phase[a]] - feet[phase[b]], axis=-1)).max(axis=-1, initial=0.0)
        kept = np.flatnonzero(apart_m <= settings.max_foot_jump_m)
        pairs[n] = a[kept], b[kept], far[kept]
    (source, alike, near), (more, to, far) = pairs
    if count > 1:
        # Add the pairs that two behaviours lack
        kept = _smallest_in_groups(behaviour[more] * count + behaviour[to], far, settings.cross_links)
        kept = kept[far[kept] >= settings.cross * threshold]
        source, alike, near = _concatenate_pairs([(source, alike, near), (more[kept], to[kept], far[kept])])
    if not len(source):
        what = f"no two poses are nearer than {threshold:.3g}; the nearest are {least:.3g} apart"
        raise InputError(what, "Raise `density` or `cross`, or add clips")
    source, alike, near = _concatenate_pairs(
        [(source, alike, near), _shorten_stands(database, metric, threshold, apart)]
    )
    return Transitions(source, alike + 1, metric.exact(source, alike, near), threshold, num_like)


def _shorten_stands(database: Database, metric: PoseMetric, threshold: float, apart: int) -> PosePairs:
    """Pairs of the first pose of each stand and all like it from ``apart`` poses on: a stand lasts as long as needed.

    Clips begin and end with stands of some length, which is chance; a way that comes to rest in one shows its end only.
    """
    table = database.phases
    pairs = list[PosePairs]()
    for phase in np.flatnonzero(database.has_stand):
        later: IntArray = np.arange(int(table.start[phase]) + apart, int(table.stop[phase]) - 1)
        D = metric.between(table.start[[phase]], later)[0]
        near = np.flatnonzero(STILL_SHARE * threshold > D)
        pairs.append((np.full(len(near), table.start[phase]), later[near], D[near]))
    return _concatenate_pairs(pairs)


class PoseGroup(NamedTuple):
    """Poses of one class, in the order of time."""

    pose: IntArray  # (n,)
    clip: IntArray  # (n,)
    behaviour: IntArray  # (n,)


@kernel
def find_low_places(
    D: FloatArray, first: int, group: PoseGroup, apart: int, limits: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Local minima of rows of squared distances that lie within a limit, in one pass.

    An entry is low if it is the lowest of its row's ``NEIGHBOURHOOD``. Poses of one clip that are less than ``apart``
    poses away do not count: their distances become infinite.

    Args:
        D: from some poses of a class to all of it ``(r, n)``; changed in place.
        first: number in the class of the pose of the first row.
        group: the poses of the class.
        apart: in poses.
        limits: within a behaviour, between behaviours, and of pairs that are remembered.

    Returns:
        Places ``row * n + column``, the kind of each (``WITHIN``, ``ACROSS`` or ``REMEMBERED``), and two numbers: the
        least distance, and how many entries are within the first two limits, low or not.
    """
    rows, count = D.shape
    places, kinds = np.empty(rows * (count // 2 + 2), dtype=np.int64), np.empty(rows * (count // 2 + 2), dtype=np.int64)
    used, least, like = 0, np.inf, 0
    for i in range(rows):
        me = first + i
        row = D[i]
        # Neighbours in the same clip do not count
        for step in (-1, 1):
            j = me if step < 0 else me + 1
            while 0 <= j < count and abs(group.pose[j] - group.pose[me]) < apart:
                if group.clip[j] == group.clip[me]:
                    row[j] = np.inf
                j += step
        for j in range(count):
            value = row[j]
            least = min(least, value)
            is_same = group.behaviour[j] == group.behaviour[me]
            is_like = value < (limits[0] if is_same else limits[1])
            like += is_like
            if not is_like and (is_same or value >= limits[2]):
                continue
            is_low = value < np.inf
            for step in range(1, NEIGHBOURHOOD + 1):
                is_low = (
                    is_low and (j < step or value <= row[j - step]) and (j + step >= count or value < row[j + step])
                )
            if is_low:
                places[used] = i * count + j
                kinds[used] = WITHIN if is_same else ACROSS if is_like else REMEMBERED
                used += 1
    return places[:used], kinds[:used], np.array([least, float(like)])


def pose_behaviours(database: Database) -> IntArray:
    """Number of the behaviour of each pose ``(P,)``; starting and stopping is a behaviour of its own."""
    table = database.phases
    near = database.has_stand
    inner = table.after >= 0
    for _ in range(STOPPING):
        ahead, behind = near.copy(), near.copy()
        ahead[inner] |= near[table.after[inner]]
        behind[table.after[inner]] |= near[inner]
        near = ahead | behind
    labels = np.unique(np.array(database.behaviours), return_inverse=True)[1]
    return np.unique(2 * labels[database.clip] + near[database.phase], return_inverse=True)[1]


def _concatenate_pairs(parts: list[PosePairs]) -> PosePairs:
    if not parts:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
    first, second, third = zip(*parts, strict=True)
    return np.concatenate(first), np.concatenate(second), np.concatenate(third)


def _smallest_in_groups(group: IntArray, value: FloatArray, count: int) -> IntArray:
    """Numbers of the ``count`` smallest values of each group, in their old order."""
    order = np.lexsort((np.arange(len(value)), value, group))
    ranks = np.arange(len(order)) - np.searchsorted(group[order], group[order])
    return np.sort(order[ranks < count])


def has_successor(database: Database) -> BoolArray:
    """Poses whose next pose is in the same phase, so that going on means staying in the phase."""
    return database.phases.stop[database.phase] - 1 > np.arange(database.num_poses)


def calibrate_threshold(database: Database, settings: GraphSettings, metric: PoseMetric) -> float:
    """Threshold at which a walking pose has ``density`` like poses, in the median over a sample."""
    rng = np.random.default_rng(0)
    kinds = database.phases.kind[database.phase]
    single = np.array([len(planted) == 1 for planted in database.classes])
    walks = np.flatnonzero(single[kinds])
    pool = walks if len(walks) else np.arange(database.num_poses)
    chosen = np.sort(rng.choice(pool, min(SAMPLE, len(pool)), replace=False))
    kth: list[float] = []
    for pose in chosen:
        apart = np.abs(np.arange(len(kinds)) - pose) > database.rate_hz
        other = (database.clip != database.clip[pose]) if len(database.clips) > 1 else apart
        same = np.flatnonzero((kinds == kinds[pose]) & other)
        if len(same) > settings.density:
            D = metric.between(np.array([pose]), same)[0]
            kth.append(float(np.partition(D, int(settings.density))[int(settings.density)]))
    if not kth:
        raise InputError("too few poses to set a threshold", "Give more clips, or a smaller `density`")
    return float(np.median(kth))
