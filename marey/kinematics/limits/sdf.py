"""Joint limits as signed distance fields over the rotations of each joint, and the implicit baseline beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import exp, log
from typing import Any, ClassVar, Literal, final

import numpy as np

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints, kernel
from marey.kinematics.limits.charts import (
    LOG,
    LONG_BRIDGE_RAD,
    ZYZ,
    FieldTables,
    RotationChart,
    check_fields,
    collect_joint_samples,
    sample_motion,
    split_inliers,
)
from marey.kinematics.limits.contract import (
    ArrayLimits,
    Arrays,
    CheckArrays,
    JointLimits,
    LimitCheck,
    check_joint_batch,
    collect_clips,
    compute_mean_rotation,
    decode_sentences,
    encode_sentences,
    run_check,
)
from marey.kinematics.limits.distance_field import (
    DistanceField,
    FieldGrid,
    Mode,
    build_field,
    complete_field,
    make_grid,
)
from marey.lie import SO3
from marey.lie.kernels import Vector, conjugate, multiply, quaternion_at, write_rotation
from marey.motion import Motion
from marey.skeleton import Skeleton

Metric = Literal["so3", "euler", "euler_periodic"]

AXIS_STD_RAD = 0.02  # [rad] a coordinate that varies less is fixed ([Engell2012]_ §13: 1e-4 in quaternions)
SLACK_RAD = float(np.deg2rad(0.5))  # [rad] on each side of a fixed coordinate
MAX_SPREAD_RAD = np.pi - 0.2  # [rad] rotation vectors beyond may flip to the other side; such a joint is left free


@final
@dataclass(frozen=True, slots=True, eq=False)
class JointField:
    """The feasible set of one joint: a chart, a field over one to three of its coordinates, a box for the others."""

    chart: RotationChart
    field: DistanceField
    across: FloatArray  # (2, 3) [rad] lowest and highest value of coordinates that have no axis in the grid
    num_samples: int = 0


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SdfLimits(JointLimits):
    """Feasible sets learnt from motion or sculpted, stored as distance fields. [Engell2012]_ §14.

    A test is one lookup and a projection a few, whatever the set looks like. The violation is the field minus its
    level, joined with the distance to the box of the coordinates that have no axis.
    """

    kind: ClassVar[str] = "sdf"

    skeleton: Skeleton
    joints: tuple[JointField | None, ...]  # (J,) None is a free joint
    metric: Metric = "so3"
    notes: tuple[str, ...] = ()  # what the fit noticed, a sentence each
    _tables: FieldTables = field(init=False)

    def __post_init__(self) -> None:
        if len(self.joints) != self.skeleton.num_joints:
            raise InputError(
                f"{len(self.joints)} fields for {self.skeleton.num_joints} joints", "Give one or None each"
            )
        # All fields one behind the other; free joints have none
        count = len(self.joints)
        charts, starts = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        shapes = np.ones((count, 3), int)
        before, after = SO3.identity(count).wxyz.copy(), SO3.identity(count).wxyz.copy()
        origins, spacings, periodic = np.zeros((count, 3)), np.ones((count, 3)), np.zeros((count, 3), dtype=bool)
        across, epsilons = np.zeros((count, 2, 3)), np.zeros(count)
        table, nearest = [np.zeros((0, 4))], [np.zeros(0, dtype=np.int64)]
        for j, joint in enumerate(self.joints):
            if joint is None:
                continue
            made, chart = joint.field, joint.chart
            charts[j], before[j], after[j] = chart.kind, chart.before.wxyz, chart.after.wxyz
            starts[j] = sum(len(rows) for rows in table)
            shapes[j], origins[j], spacings[j], periodic[j] = made.grid.tables()
            across[j], epsilons[j] = joint.across, made.epsilon
            table.append(made.table)
            nearest.append(made.nearest.ravel())
        places = (starts, shapes, origins, spacings, periodic, across, epsilons)
        tables = FieldTables(charts, before, after, np.concatenate(table), np.concatenate(nearest), *places)
        object.__setattr__(self, "_tables", tables)

    @classmethod
    def from_clips(
        cls,
        motions: Motion | Iterable[Motion],
        *,
        resolution: int | tuple[int, int, int] = 16,
        metric: Metric = "so3",
        margin_rad: float = 0.0,
        mode: Mode = "filled",
        epsilon_rad: float | None = None,
    ) -> SdfLimits:
        """Learn the sets from clips of one skeleton; the root is free.

        Args:
            motions: what is feasible.
            resolution: nodes of each axis of the grids.
            metric: ``"so3"`` measures rotation vectors about the mean, along the axes in which they vary most;
                ``"euler"`` Z-Y-Z angles as the source, kept from their singularity; ``"euler_periodic"`` lets the
                first and the last of them go round.
            margin_rad: distance around the motion that is feasible; at least half the diagonal of a cell.
            mode: see :func:`build_field`.
            epsilon_rad: level up to which points are feasible.
        """
        skeleton, clips = collect_clips(motions)
        # The root stays free
        joints: list[JointField | None] = [None]
        notes: list[str] = []
        for j in range(1, skeleton.num_joints):
            # Feasible set of one joint from clips, batches (F,), and remarks; no set if they are spread all around
            pieces, jumps = split_inliers([clip[:, j] for clip in clips])
            said = [f"{jumps} jumps of more than 1 rad were cut out"] if jumps else []
            every = SO3.concatenate(pieces)
            if len(every) < 2:
                raise InputError(f"limits from {len(every)} frames", "Give at least two")
            # Rotation vectors about the mean, along the axes in which they vary most
            centre = compute_mean_rotation(every)
            logs = (centre.inverse() @ every).log()
            centred = logs - logs.mean(axis=0)
            if len(logs) < 4:
                axes = np.linalg.svd(centred, full_matrices=True)[2]
            else:
                axes = np.linalg.eigh(centred.T @ centred)[1].T[::-1].copy()
            axes[2] *= np.sign(np.linalg.det(axes))
            vectors, frame = logs @ axes.T, SO3.from_matrix(axes.T)
            if np.linalg.norm(vectors, axis=1).max() > MAX_SPREAD_RAD:
                learnt, remarks = None, [*said, "left free, as its rotations go all the way round"]
            else:
                # The chart: joints with fewer than three freedoms use rotation vectors
                freedoms = int(np.count_nonzero(vectors.std(axis=0) > AXIS_STD_RAD))
                if metric == "so3" or freedoms < 3:
                    chart = RotationChart(LOG, frame.inverse() @ centre.inverse(), frame)
                else:
                    chart = RotationChart(ZYZ, SO3.exp([0.0, 0.5 * np.pi, 0.0]) @ centre.inverse(), SO3.identity())
                # The grid over those coordinates that vary
                nodes = np.where(np.arange(3) < freedoms, np.broadcast_to(np.asarray(resolution), 3), 1)
                is_periodic = metric == "euler_periodic" and freedoms == 3
                shape = (int(nodes[0]), int(nodes[1]), int(nodes[2]))
                points = chart.coordinates(every)
                grid = make_grid(points, shape, margin=margin_rad, periodic=(is_periodic, False, is_periodic))
                sampled = sample_motion(pieces, chart, 0.5 * grid.largest_spacing if freedoms else np.inf)
                if sampled.num_discontinuities:
                    said.append(f"{sampled.num_discontinuities} gaps could not be closed")
                if sampled.longest_bridge_rad > LONG_BRIDGE_RAD:
                    said.append(f"clips were joined over {sampled.longest_bridge_rad:.2f} rad")
                made = build_field(grid, sampled.points, margin=margin_rad, mode=mode, epsilon=epsilon_rad)
                slack = max(margin_rad, SLACK_RAD)
                across = np.stack([sampled.points.min(axis=0) - slack, sampled.points.max(axis=0) + slack])
                learnt, remarks = JointField(chart, made, across, len(sampled.points)), said
            joints.append(learnt)
            notes += [f"{skeleton.names[j]}: {remark}" for remark in remarks]
        return cls(skeleton, tuple(joints), metric, tuple(notes))

    def check(self, rotations: SO3) -> LimitCheck:
        """Look up the fields; step along their gradients."""
        return run_check(check_fields, rotations, self._tables)

    def tables(self) -> FieldTables:
        """What ``check_fields`` takes."""
        return self._tables

    def of(self, joint: str) -> JointField:
        """Feasible set of a joint by name.

        Raises:
            InputError: the joint is free.
        """
        found = self.joints[self.skeleton.index(joint)]
        if found is None:
            raise InputError(f"joint '{joint}' is free", "Take one that has limits")
        return found

    def replace_joint(self, joint: str, new: JointField | None) -> SdfLimits:
        """Return the same limits with another set for one joint: after sculpting, say."""
        j = self.skeleton.index(joint)
        return SdfLimits(self.skeleton, (*self.joints[:j], new, *self.joints[j + 1 :]), self.metric, self.notes)

    @property
    def nbytes(self) -> int:
        """Bytes of all fields, without the gradients and nearest nodes made from them."""
        return sum(joint.field.nbytes for joint in self.joints if joint is not None)

    def to_arrays(self) -> Arrays:
        """Charts, grids and values; gradients and nearest nodes are made again on reading."""
        arrays: Arrays = self._tables._asdict()
        del arrays["nearest"]
        arrays["values"] = np.ascontiguousarray(arrays.pop("table")[:, 0])
        present = [joint for joint in self.joints if joint is not None]
        return arrays | {
            "closed": np.array([joint.field.is_closed for joint in present], dtype=bool),
            "counts": np.array([joint.num_samples for joint in present], dtype=np.int64),
            "metric": np.frombuffer(self.metric.encode(), dtype=np.uint8),
            "notes": encode_sentences(self.notes),
        }

    @classmethod
    def from_arrays(cls, skeleton: Skeleton, arrays: Arrays) -> SdfLimits:
        """Undo :meth:`to_arrays`."""
        joints: list[JointField | None] = []
        present = 0
        for j, kind in enumerate(arrays["charts"]):
            if kind == 0:
                joints.append(None)
                continue
            grid = FieldGrid(*(arrays[name][j] for name in ("shapes", "origins", "spacings", "periodic")))
            first = int(arrays["starts"][j])
            values = arrays["values"][first : first + int(np.prod(grid.shape))].reshape(grid.shape)
            chart = RotationChart(int(kind), SO3(arrays["before"][j]), SO3(arrays["after"][j]))
            epsilon, is_closed = float(arrays["epsilons"][j]), bool(arrays["closed"][present])
            made = complete_field(grid, np.asarray(values, dtype=np.float64), epsilon, is_closed=is_closed)
            joints.append(JointField(chart, made, arrays["across"][j], int(arrays["counts"][present])))
            present += 1
        metric: Any = arrays["metric"].tobytes().decode()
        return cls(skeleton, tuple(joints), metric, decode_sentences(arrays["notes"]))

    def __repr__(self) -> str:
        bounded = sum(joint is not None for joint in self.joints)
        return f"SdfLimits({self.skeleton!r}, {bounded} joints bounded, {self.metric}, {self.nbytes / 1024:.0f} kB)"


BISECTIONS = 40  # of the way to the nearest sample: below a double's rounding of an angle

INSIDE_MARGIN = 1e-12  # [-] kept above the level, against rounding; samples lie 1e-9 above it


@kernel
def log_density(samples: FloatArray, first: int, last: int, p: Vector, width: float) -> tuple[float, Vector, int]:
    """Logarithm of the sum of bumps at a point, its gradient, and the nearest sample."""
    # The nearest sample gives the largest term, which is taken out of the sum
    nearest, least = first, np.inf
    for n in range(first, last):
        d = (samples[n, 0] - p[0]) ** 2 + (samples[n, 1] - p[1]) ** 2 + (samples[n, 2] - p[2]) ** 2
        if d < least:
            nearest, least = n, d
    scale = 0.5 / (width * width)
    total = gx = gy = gz = 0.0
    for n in range(first, last):
        a, b, c = samples[n, 0] - p[0], samples[n, 1] - p[1], samples[n, 2] - p[2]
        weight = exp(scale * (least - (a * a + b * b + c * c)))
        total += weight
        gx, gy, gz = gx + weight * a, gy + weight * b, gz + weight * c
    gain = 2.0 * scale / total
    return log(total) - scale * least, (gain * gx, gain * gy, gain * gz), nearest


@kernel
def check_quaternion_field(
    wxyz: FloatArray, centres: FloatArray, samples: FloatArray, starts: IntArray, widths: FloatArray, levels: FloatArray
) -> CheckArrays:
    """Project rotations ``(F, J, 4)`` on sets where a sum of bumps is above a level; see ``QuaternionFieldLimits``."""
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    out, violation, gradient = wxyz.copy(), np.zeros((frames, joints)), np.zeros((frames, joints, 3))
    for j in range(joints):
        first, last, width, level = starts[j], starts[j + 1], widths[j], levels[j]
        if first == last:
            continue
        centre = quaternion_at(centres, j)
        for f in range(frames):
            # The vector part relative to the centre, of the quaternion with a positive scalar
            q = multiply(conjugate(centre), quaternion_at(wxyz[f], j))
            sign = -1.0 if q[0] < 0.0 else 1.0
            w, p = sign * q[0], (sign * q[1], sign * q[2], sign * q[3])
            value, slope, nearest = log_density(samples, first, last, p, width)
            if value >= level:
                continue
            # Violation and body gradient
            violation[f, j] = 2.0 * width * np.sqrt(2.0 * (level - value))
            k = -2.0 * width * width  # of half the squared violation, 4 width^2 (level - value), by half an angle
            g = (k * slope[0], k * slope[1], k * slope[2])
            gradient[f, j, 0] = w * g[0] + g[1] * p[2] - g[2] * p[1]
            gradient[f, j, 1] = w * g[1] + g[2] * p[0] - g[0] * p[2]
            gradient[f, j, 2] = w * g[2] + g[0] * p[1] - g[1] * p[0]
            # Bisect the way to the nearest sample
            goal = (samples[nearest, 0], samples[nearest, 1], samples[nearest, 2])
            low, high = 0.0, 1.0
            for _ in range(BISECTIONS):
                t = 0.5 * (low + high)
                at = (p[0] + t * (goal[0] - p[0]), p[1] + t * (goal[1] - p[1]), p[2] + t * (goal[2] - p[2]))
                if log_density(samples, first, last, at, width)[0] >= level + INSIDE_MARGIN:
                    high = t
                else:
                    low = t
            v = (p[0] + high * (goal[0] - p[0]), p[1] + high * (goal[1] - p[1]), p[2] + high * (goal[2] - p[2]))
            real = np.sqrt(max(0.0, 1.0 - v[0] * v[0] - v[1] * v[1] - v[2] * v[2]))
            write_rotation(out[f, j], multiply(centre, (real, v[0], v[1], v[2])))
    return out, violation, gradient


MAX_SAMPLES = 200  # centres of bumps a joint; more cost time and say little new
MIN_WIDTH = 0.02  # [-] half-width of a bump in quaternion units, about 2.3 degrees


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class QuaternionFieldLimits(ArrayLimits):
    r"""Set where a sum of kernels around sampled quaternions exceeds a level ("quaternion boundary field").

    .. math:: \log\sum_i \exp\Big(-\frac{\|u - u_i\|^2}{2 w^2}\Big) \ge l

    ``u`` is the vector part of the quaternion relative to a centre. [Engell2012]_ §13, after Herda. The sum
    runs over all samples, and the projection bisects the way to the nearest, so both are slow; voids stay voids. The
    violation is :math:`2w\sqrt{2(l - \log\sum)}`, the angle to the level for a single bump.
    """

    kind: ClassVar[str] = "field"
    kernel = check_quaternion_field

    centres: SO3  # batch (J,)
    samples: FloatArray  # (N, 3) vector parts, joint after joint
    starts: IntArray  # (J + 1,) where each joint's samples begin; none is a free joint
    widths: FloatArray  # (J,)
    levels: FloatArray  # (J,)

    def __post_init__(self) -> None:
        joints = self.skeleton.num_joints
        check_joint_batch(joints, centres=self.centres)
        object.__setattr__(self, "samples", frozen(self.samples, None, 3, name="samples"))
        object.__setattr__(self, "starts", frozen_ints(self.starts, joints + 1, name="starts"))
        object.__setattr__(self, "widths", frozen(self.widths, joints, name="widths"))
        object.__setattr__(self, "levels", frozen(self.levels, joints, name="levels"))
        if np.any(np.diff(self.starts) < 0) or self.starts[-1] > len(self.samples) or np.any(self.widths <= 0.0):
            raise InputError("the samples of a quaternion field are out of order, or a width is not positive")

    @classmethod
    def from_clips(cls, motions: Motion | Iterable[Motion], *, max_samples: int = MAX_SAMPLES) -> QuaternionFieldLimits:
        """Learn from clips of one skeleton; the root is free."""
        skeleton, samples = collect_joint_samples(motions)
        joints = skeleton.num_joints
        centres, kept = SO3.identity(joints).wxyz.copy(), list[FloatArray]([np.zeros((0, 3))])
        widths, levels, starts = np.ones(joints), np.zeros(joints), np.zeros(joints + 1, dtype=np.int64)
        for j, rotations, centre in samples:
            local = (centre.inverse() @ rotations).canonical().wxyz[:, 1:]
            # At most `max_samples` of the points, each as far as can be from those before
            chosen = [0]
            away = np.linalg.norm(local - local[0], axis=1)
            while len(chosen) < min(max_samples, len(local)) and away.max() > 0.25 * MIN_WIDTH:
                chosen.append(int(np.argmax(away)))
                away = np.minimum(away, np.linalg.norm(local - local[chosen[-1]], axis=1))
            few = np.ascontiguousarray(local[chosen])
            widths[j], centres[j] = max(float(away.max()), MIN_WIDTH), centre.wxyz
            # The level is the lowest density of the motion itself
            rows = [log_density(few, 0, len(few), (p[0], p[1], p[2]), widths[j])[0] for p in local.tolist()]
            levels[j] = min(rows) - 1e-9
            kept.append(few)
            starts[j + 1] = starts[j] + len(few)
        return cls(skeleton, SO3(centres), np.concatenate(kept), starts, widths, levels)

    def tables(self) -> tuple[FloatArray, FloatArray, IntArray, FloatArray, FloatArray]:
        """What ``check_quaternion_field`` takes."""
        return self.centres.wxyz, self.samples, self.starts, self.widths, self.levels

    def __repr__(self) -> str:
        return f"QuaternionFieldLimits({self.skeleton!r}, {len(self.samples)} samples)"
