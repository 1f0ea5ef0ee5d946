"""Joint limits as signed distance fields over the rotations of each joint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, final

import numpy as np

from marey.base import FloatArray, InputError
from marey.kinematics.limits.charts import (
    LOG,
    LONG_BRIDGE_RAD,
    ZYZ,
    FieldTables,
    RotationChart,
    check_fields,
    sample_motion,
    split_inliers,
)
from marey.kinematics.limits.contract import (
    Arrays,
    JointLimits,
    LimitCheck,
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
