"""Rows of physics and of the body: forces, momentum, reach, limits, clearance, and continuity between phases.

Rows come in groups; each group gives values and blocks by node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.dynamics import compute_com_motion, compute_points_motion
from marey.spacetime.problem.strength import TorqueLimits
from marey.spacetime.reduced.behaviour import BehaviourSpace
from marey.spacetime.reduced.layout import FEET, LEG_SLOTS, ReducedLayout, ReducedVariables
from marey.spacetime.reduced.nodes import FREE, CollocationNodes, NodeSupports
from marey.spacetime.reduced.pose import NodeEvaluator, NodeState, ReducedSpace

EvaluateGroup = Callable[[NodeState], tuple[FloatArray, FloatArray]]


@dataclass(slots=True, eq=False)
class RowGroup:
    """Rows of one kind. A row is the sum of its pieces, each at a node, and of constants times global unknowns."""

    label: str
    lower: FloatArray  # (r,)
    upper: FloatArray  # (r,)
    nodes: IntArray  # (B,) node of each piece
    owner: IntArray  # (B,) row of each piece
    mask: BoolArray  # (B, S) slots that a piece may depend on
    evaluate: EvaluateGroup  # values (B,) and blocks (B, 3, S); blocks are empty for a frame without derivatives
    times: FloatArray  # (r,) [s] for the report
    parts: tuple[str, ...] = ()  # (r,) what each row is, for the report
    is_linear: bool = False
    globals: list[tuple[int, int, float]] = field(default_factory=list[tuple[int, int, float]])


NO_BLOCKS: Final = np.zeros((0, 3, 0))  # of a frame without derivatives


def value_blocks(blocks: FloatArray) -> FloatArray:
    """Blocks ``(B, 3, S)`` of what depends on the unknowns and not on their rates, from ``(B, S)``."""
    out = np.zeros((len(blocks), 3, blocks.shape[1]))
    out[:, 0] = blocks
    return out


MAX_STRETCH: Final = 0.992  # of the leg's length
STRETCH_SCALE: Final = 2.5  # half of five per unit of length ratio: the row is its square
MOMENTUM_SCALE: Final = 0.2
FLIGHT_MOMENT: Final = 0.02  # [mg m] about each axis, at nodes in flight
CLEARANCE_SCALE: Final = 3.0
JOINT_SCALES: Final = (3.0, 0.3)  # leg angles, leg velocities where phases meet
COM_SCALES: Final = (10.0, 3.0)  # centre of mass, its velocity where phases meet
TORQUE_ROOM: Final = 0.97  # of a limit at nodes: what holds there with room holds between them
WRENCH_PARTS: Final = ("normal force", *["friction"] * 4, *["twist"] * 2)


@dataclass(frozen=True, slots=True, eq=False)
class RowContext:
    """Context of the row builders."""

    behaviour: BehaviourSpace
    space: ReducedSpace
    layout: ReducedLayout
    nodes: CollocationNodes
    supports: NodeSupports
    maker: NodeEvaluator
    variables: ReducedVariables
    gravity: float

    @property
    def limits(self) -> tuple[FloatArray, FloatArray]:
        """Lowest and highest coordinates ``(D,)``: those of the behaviour, moved by what is added to its poses."""
        offsets = self.space.offsets if self.space.offsets.size else np.zeros((1, len(self.behaviour.lower)))
        low, high = np.minimum(offsets.min(axis=0), 0.0), np.maximum(offsets.max(axis=0), 0.0)
        return self.behaviour.lower + low, self.behaviour.upper + high

    @property
    def slots(self) -> int:
        """Local unknowns at a node."""
        return self.nodes.basis.shape[1]

    def group(
        self,
        label: str,
        nodes: IntArray,
        ends: tuple[FloatArray, FloatArray],
        evaluate: EvaluateGroup,
        *,
        mask: BoolArray | None = None,
        parts: tuple[str, ...] = (),
        is_linear: bool = False,
        unknowns: Sequence[tuple[int, int, float]] = (),
    ) -> RowGroup:
        """Rows of one piece each, at ``nodes (r,)`` and between two ends.

        Args:
            label: what the rows say.
            nodes: of each row.
            ends: lower and upper end of each row.
            evaluate: values and blocks at a frame.
            mask: slots ``(r, S)`` that a row may depend on; all in use by default.
            parts: what each row is, for the report.
            is_linear: whether the rows are.
            unknowns: row, global unknown and factor of constant entries.
        """
        mask = self.nodes.coefficients[nodes, :, 0] >= 0 if mask is None else mask
        owner, times = np.arange(len(nodes)), self.nodes.times[nodes]
        return RowGroup(
            label, *ends, nodes, owner, mask, evaluate, times, parts, is_linear=is_linear, globals=list(unknowns)
        )

    def leg_mask(self, nodes: IntArray, leg: int) -> BoolArray:
        """Slots that the angles of a leg may depend on."""
        d = self.space.dimension
        planted = self.nodes.feet[nodes, leg] != FREE
        mask = np.zeros((len(nodes), self.slots), dtype=bool)
        mask[:, d : d + 6] = planted[:, None]
        mask[:, :d] = ~planted[:, None]
        mask[:, d + 6 + leg * LEG_SLOTS : d + 6 + (leg + 1) * LEG_SLOTS] = True
        return mask & (self.nodes.coefficients[nodes, :, 0] >= 0)


def wrench_rows(scene: RowContext) -> RowGroup:
    """Friction, pressure and force limits of planted feet at every node on the ground."""
    supports = scene.supports
    nodes = np.repeat(np.arange(scene.nodes.count), supports.count)
    rows: IntArray = np.concatenate([np.arange(int(k)) for k in supports.count])
    matrix = supports.matrix[nodes, rows]

    def evaluate(frame: NodeState) -> tuple[FloatArray, FloatArray]:
        values = np.einsum("bi,bi->b", matrix, frame.wrench[nodes])
        if frame.wrench_blocks is None:
            return values, NO_BLOCKS
        blocks = [np.einsum("bi,bis->bs", matrix, block[nodes]) for block in frame.wrench_blocks]
        return values, np.stack(blocks, axis=1)

    words = (*WRENCH_PARTS, *["pressure inside the soles"] * int(supports.count.max(initial=0)))
    parts = tuple(words[int(r)] for r in rows)
    ends = supports.lower[nodes, rows], supports.upper[nodes, rows]
    return scene.group("ground force", nodes, ends, evaluate, parts=parts)


def flight_rows(scene: RowContext, is_physical: BoolArray) -> list[RowGroup]:
    """Rows of the nodes in the air at which physics counts ``(N,)``, about the centre of mass.

    The angular momentum is the flight's own; no moment acts, to a small share of the weight, so that momentum holds
    between nodes.
    """
    flying = scene.maker.poses.flying
    flying = flying[is_physical[flying]]
    nodes, axes = np.repeat(flying, 3), np.tile(np.arange(3), len(flying))

    def momentum(frame: NodeState) -> tuple[FloatArray, FloatArray]:
        values = MOMENTUM_SCALE * frame.momentum[nodes, axes]
        if frame.momentum_blocks is None:
            return values, NO_BLOCKS
        return values, MOMENTUM_SCALE * np.stack([block[nodes, axes] for block in frame.momentum_blocks], axis=1)

    def moment(frame: NodeState) -> tuple[FloatArray, FloatArray]:
        values = frame.wrench[nodes, 3 + axes]
        if frame.wrench_blocks is None:
            return values, NO_BLOCKS
        return values, np.stack([block[nodes, 3 + axes] for block in frame.wrench_blocks], axis=1)

    own = [
        (r, int(scene.variables.flight_of(int(scene.nodes.phases[n]))[6 + a]), -MOMENTUM_SCALE)
        for r, (n, a) in enumerate(zip(nodes, axes, strict=True))
    ]
    zero, end = np.zeros(len(nodes)), np.full(len(nodes), FLIGHT_MOMENT)
    return [
        scene.group("angular momentum in flight", nodes, (zero, zero), momentum, unknowns=own),
        scene.group("moment in flight", nodes, (-end, end), moment),
    ]


def torque_rows(scene: RowContext, limits: TorqueLimits) -> RowGroup:
    """Torques within their limits at the nodes that count; two planted feet share the load as the supports say."""
    unit = 0.5 * (limits.upper - limits.lower)
    which, own = (a.ravel() for a in np.meshgrid(np.arange(len(scene.maker.heavy)), np.arange(len(unit))))
    dofs = np.searchsorted(scene.maker.actuated, limits.dofs)[own]

    def evaluate(frame: NodeState) -> tuple[FloatArray, FloatArray]:
        assert frame.torque is not None
        values = frame.torque[which, dofs] / unit[own]
        if frame.torque_blocks is None:
            return values, NO_BLOCKS
        return values, np.stack([block[which, dofs] / unit[own, None] for block in frame.torque_blocks], axis=1)

    ends = TORQUE_ROOM * (limits.lower / unit)[own], TORQUE_ROOM * (limits.upper / unit)[own]
    parts = tuple(scene.space.tree.names[int(dof)] for dof in limits.dofs[own])
    return scene.group("torque", scene.maker.heavy[which], ends, evaluate, parts=parts)


def stretch_rows(scene: RowContext) -> RowGroup:
    """A planted leg is a little shorter than its bones."""
    pairs = [(n, leg) for n in range(scene.nodes.count) for leg in (0, 1) if scene.nodes.feet[n, leg] != FREE]
    nodes, legs = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    mask = np.concatenate([scene.leg_mask(nodes[i : i + 1], int(leg)) for i, leg in enumerate(legs)])
    ends = np.full(len(nodes), -np.inf), np.full(len(nodes), STRETCH_SCALE * MAX_STRETCH**2)

    def evaluate(frame: NodeState) -> tuple[FloatArray, FloatArray]:
        values = STRETCH_SCALE * frame.state.stretch[nodes, legs]
        if frame.wrench_blocks is None:
            return values, NO_BLOCKS
        return values, value_blocks(STRETCH_SCALE * frame.state.stretch_gradient[nodes, legs])

    return scene.group("reach", nodes, ends, evaluate, mask=mask, parts=tuple(FEET[int(leg)] for leg in legs))


def coordinate_rows(
    scene: RowContext,
    label: str,
    nodes: IntArray,
    dofs: IntArray,
    ends: tuple[FloatArray, FloatArray],
    *,
    mask: BoolArray | None = None,
    is_linear: bool = False,
) -> RowGroup:
    """Coordinates ``dofs (r,)`` at ``nodes (r,)`` between two ends."""

    def evaluate(frame: NodeState) -> tuple[FloatArray, FloatArray]:
        values = frame.state.q[nodes, dofs]
        if frame.wrench_blocks is None:
            return values, NO_BLOCKS
        return values, value_blocks(frame.state.G[nodes, dofs])

    parts = tuple(scene.space.tree.names[int(dof)] for dof in dofs)
    return scene.group(label, nodes, ends, evaluate, mask=mask, parts=parts, is_linear=is_linear)


def limit_rows(scene: RowContext, *, planted: bool) -> RowGroup:
    """Angles of the legs stay within their limits; of free legs the rows are linear."""
    rows, masks = list[tuple[int, int]](), list[BoolArray]()
    for leg in (0, 1):
        own = np.flatnonzero((scene.nodes.feet[:, leg] != FREE) == planted)
        for n, mask in zip(own, scene.leg_mask(own, leg), strict=True):
            dofs = scene.space.legs[leg].dofs[: 7 if planted else 8]
            rows += [(int(n), int(dof)) for dof in dofs]
            masks += [mask] * len(dofs)
    nodes, columns = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    lower, upper = scene.limits
    ends = lower[columns], upper[columns]
    all_masks = np.array(masks, dtype=bool).reshape(len(nodes), scene.slots)
    return coordinate_rows(scene, "joint limit", nodes, columns, ends, mask=all_masks, is_linear=not planted)


def upper_body_limit_rows(scene: RowContext, dofs: tuple[int, ...]) -> RowGroup:
    """Coordinates of the upper body stay within their limits; the poses at the ends of the motion have a say."""
    nodes, columns = (a.ravel() for a in np.meshgrid(np.arange(scene.nodes.count), np.array(dofs, dtype=np.int64)))
    poses = [scene.behaviour.decode(scene.behaviour.encode(pose.q)) for pose in scene.behaviour.poses.values()]
    lower, upper = scene.limits
    own = scene.behaviour.columns
    lower[own], upper[own] = np.min([lower[own], *poses], axis=0), np.max([upper[own], *poses], axis=0)
    mask = np.zeros((len(nodes), scene.slots), dtype=bool)
    mask[:, : scene.space.dimension] = True
    ends = lower[columns], upper[columns]
    return coordinate_rows(scene, "joint limit", nodes, columns, ends, mask=mask, is_linear=True)


def clearance_rows(scene: RowContext, floor: FloatArray) -> RowGroup:
    """Heel and toes of a free foot stay above ``floor`` (N,) [m], the ground under each node."""
    nodes, edges = scene.nodes, scene.layout.edges
    rows: list[tuple[int, int, FloatArray]] = []
    for leg in (0, 1):
        geometry = scene.space.legs[leg]
        for n in np.flatnonzero(nodes.feet[:, leg] == FREE):
            # Where a foot leaves or lands its plant decides
            phase, time = int(nodes.phases[n]), nodes.times[n]
            if min(abs(time - edges[phase]), abs(time - edges[phase + 1])) >= 1e-9:
                rows.append((int(n), int(geometry.dofs[6]), geometry.heel_local))
                rows.append((int(n), int(geometry.dofs[7]), geometry.tip_local))
    return height_rows(scene, "clearance", rows, floor[[n for n, _, _ in rows]] if rows else np.zeros(0))


def height_rows(
    scene: RowContext,
    label: str,
    rows: list[tuple[int, int, FloatArray]],
    least: FloatArray,
    normals: FloatArray | None = None,
) -> RowGroup:
    """Points stay above heights ``least`` (r,) [m], or beyond planes with ``normals`` (r, 3).

    ``rows`` are the node of each, the coordinate whose link carries its point, and the place of the point in the link.
    """
    index = np.array([n for n, _, _ in rows], dtype=np.int64)
    up = np.tile([0.0, 1.0, 0.0], (len(rows), 1)) if normals is None else normals
    kinds = sorted({(dof, tuple(point)) for _, dof, point in rows})
    which = np.array([kinds.index((dof, tuple(point))) for _, dof, point in rows], dtype=np.int64)
    seen, inverse = np.unique(index, return_inverse=True)

    def evaluate(frame: NodeState) -> tuple[FloatArray, FloatArray]:
        if not len(index):
            return np.zeros(0), NO_BLOCKS
        state = frame.state
        q, zero = state.q[seen], np.zeros((len(seen), state.q.shape[1]))
        moved = compute_points_motion(
            scene.space.tree, q, zero, zero, [k[0] for k in kinds], np.array([k[1] for k in kinds])
        )
        values = CLEARANCE_SCALE * np.einsum("ri,ri->r", up, moved.position[inverse, which])
        if frame.wrench_blocks is None:
            return values, NO_BLOCKS
        slopes = np.einsum("ri,rid->rd", up, moved.J[inverse, which])[:, None, :] @ state.G[index]
        return values, value_blocks(CLEARANCE_SCALE * slopes[:, 0])

    # In flight the centre of mass is on the parabola of its unknowns
    lower, own = CLEARANCE_SCALE * np.asarray(least, dtype=np.float64), list[tuple[int, int, float]]()
    for r, n in enumerate(index):
        phase = int(scene.nodes.phases[n])
        if scene.layout.is_flight(phase):
            fall = scene.nodes.times[n] - scene.layout.edges[phase]
            flight = scene.variables.flight_of(phase)
            for axis in np.flatnonzero(np.abs(up[r]) > 1e-9).tolist():
                factor = CLEARANCE_SCALE * float(up[r, axis])
                own += [(r, int(flight[axis]), factor), (r, int(flight[3 + axis]), factor * fall)]
            lower[r] += CLEARANCE_SCALE * float(up[r, 1]) * 0.5 * scene.gravity * fall**2
    parts = tuple(scene.space.tree.names[dof] for _, dof, _ in rows)
    ends = lower, np.full(len(index), np.inf)
    return scene.group(label, index, ends, evaluate, parts=parts, unknowns=own)


def leg_joint_rows(scene: RowContext) -> RowGroup:
    """A leg that lands or leaves has the same angles and velocities on both sides of that instant."""
    # Pieces of the rows where legs land or leave, their slots, and the rows' times and names
    pieces: list[tuple[int, int, int, int, float]] = []  # row, node, dof, derivative, sign
    masks: list[BoolArray] = []
    times: list[float] = []
    parts: list[str] = []
    for leg in (0, 1):
        for first, second in zip(scene.layout.legs[leg][:-1], scene.layout.legs[leg][1:], strict=True):
            time = float(scene.layout.edges[second.phases[0]])
            sides = (
                (scene.nodes.at(first.phases[1] - 1, time), 1.0),
                (scene.nodes.at(second.phases[0], time), -1.0),
            )
            for derivative in (0, 1):
                for dof in scene.space.legs[leg].dofs:
                    for node, sign in sides:
                        pieces.append((len(times), node, int(dof), derivative, sign * JOINT_SCALES[derivative]))
                        masks.append(scene.leg_mask(np.array([node]), leg)[0])
                    times.append(time)
                    parts.append(f"{scene.space.tree.names[dof]}{' velocity' if derivative else ''}")
    table = np.array([p[:4] for p in pieces], dtype=np.int64).reshape(-1, 4)
    weight = np.array([p[4] for p in pieces])
    owner, nodes, dofs, order = table.T
    position = {int(dof): i for i, dof in enumerate(scene.space.moving)}
    moving = np.array([position[int(dof)] for dof in dofs], dtype=np.int64)

    def evaluate(frame: NodeState) -> tuple[FloatArray, FloatArray]:
        state = frame.state
        values = weight * np.where(order == 0, state.q[nodes, dofs], state.qd[nodes, dofs])
        if frame.wrench_blocks is None:
            return values, NO_BLOCKS
        blocks = np.zeros((len(nodes), 3, scene.slots))
        G, Gd, still = state.G[nodes, dofs], state.Gd[nodes, moving], (order == 0)[:, None]
        blocks[:, 0] = weight[:, None] * np.where(still, G, Gd)
        blocks[:, 1] = weight[:, None] * np.where(still, 0.0, G)
        return values, blocks

    zero = np.zeros(len(times))
    mask = np.array(masks, dtype=bool).reshape(len(nodes), scene.slots)
    return RowGroup("leg at a contact change", zero, zero, nodes, owner, mask, evaluate, np.array(times), tuple(parts))


def com_joint_rows(scene: RowContext) -> RowGroup:
    """The centre of mass leaves the ground and comes back on the parabola of the flight between."""
    # Nodes beside flights, ends of their rows, and what the flight's own unknowns add to them
    nodes, lower, extra = list[int](), list[float](), list[tuple[int, int, float]]()
    layout = scene.layout
    for phase in scene.variables.flights:
        own = scene.variables.flight_of(phase)
        for beside, edge in ((phase - 1, phase), (phase + 1, phase + 1)):
            if not 0 <= beside < layout.num_phases:
                continue
            time = float(layout.edges[edge])
            fall = time - float(layout.edges[phase])
            for derivative in (0, 1):
                for axis in range(3):
                    r, scale = len(nodes), COM_SCALES[derivative]
                    nodes.append(scene.nodes.at(beside, time))
                    drop = -scene.gravity * (0.5 * fall**2, fall)[derivative] if axis == 1 else 0.0
                    lower.append(scale * drop)
                    extra.append((r, int(own[3 + axis]), -scale * (fall if derivative == 0 else 1.0)))
                    if derivative == 0:
                        extra.append((r, int(own[axis]), -scale))
    index = np.array(nodes, dtype=np.int64)
    order, axes = (np.arange(len(index)) // 3) % 2, np.arange(len(index)) % 3
    scales = np.array(COM_SCALES)[order]

    def evaluate(frame: NodeState) -> tuple[FloatArray, FloatArray]:
        if not len(index):
            return np.zeros(0), NO_BLOCKS
        seen, inverse = np.unique(index, return_inverse=True)
        state = frame.state
        com = compute_com_motion(scene.space.tree, state.q[seen], state.qd[seen], state.qdd[seen])
        values = scales * np.where(order == 0, com.position[inverse, axes], com.velocity[inverse, axes])
        if frame.wrench_blocks is None:
            return values, NO_BLOCKS
        moving = scene.space.moving
        J = com.J @ state.G[seen]
        Jd = com.Jd @ state.G[seen] + com.J[:, :, moving] @ state.Gd[seen]
        still = (order == 0)[:, None]
        blocks = np.zeros((len(index), 3, scene.slots))
        blocks[:, 0] = scales[:, None] * np.where(still, J[inverse, axes], Jd[inverse, axes])
        blocks[:, 1] = scales[:, None] * np.where(still, 0.0, J[inverse, axes])
        return values, blocks

    ends = np.array(lower)
    return scene.group("centre of mass at a flight's end", index, (ends, ends), evaluate, unknowns=extra)
