"""Rows of physics and of the body: forces, momentum, reach, limits, clearance, and continuity between phases.

Rows come in groups; each group gives values and blocks by node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.dynamics import compute_points_motion
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

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.lower)

    def name(self, row: int) -> str:
        """What a row says, in words."""
        part = f" ({self.parts[row]})" if self.parts else ""
        return f"{self.label}{part} at {self.times[row]:.2f} s"


def empty_blocks() -> FloatArray:
    """Blocks of a frame without derivatives."""
    return np.zeros((0, 3, 0))


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
WRENCH_PARTS: Final = ("normal force", *["friction"] * 4, *["twist"] * 2)


@dataclass(frozen=True, slots=True, eq=False)
class RowContext:
    """What row builders work with."""

    behaviour: BehaviourSpace
    space: ReducedSpace
    layout: ReducedLayout
    nodes: CollocationNodes
    supports: NodeSupports
    maker: NodeEvaluator
    variables: ReducedVariables
    gravity: float

    @property
    def slots(self) -> int:
        """Local unknowns at a node."""
        return self.nodes.basis.shape[1]

    def used(self, nodes: IntArray) -> BoolArray:
        """Slots in use at nodes ``(B, S)``."""
        return self.nodes.coefficients[nodes, :, 0] >= 0

    def leg_mask(self, nodes: IntArray, leg: int) -> BoolArray:
        """Slots that the angles of a leg may depend on."""
        d = self.space.dimension
        planted = self.nodes.feet[nodes, leg] != FREE
        mask = np.zeros((len(nodes), self.slots), dtype=bool)
        mask[:, d : d + 6] = planted[:, None]
        mask[:, :d] = ~planted[:, None]
        mask[:, d + 6 + leg * LEG_SLOTS : d + 6 + (leg + 1) * LEG_SLOTS] = True
        return mask & self.used(nodes)


def wrench_rows(scene: RowContext) -> RowGroup:
    """Friction, pressure and force limits of planted feet at every node on the ground."""
    supports = scene.supports
    nodes = np.repeat(np.arange(scene.nodes.count), supports.count)
    rows: IntArray = np.concatenate([np.arange(int(k)) for k in supports.count])
    matrix = supports.matrix[nodes, rows]

    def evaluate(frame: NodeState) -> tuple[FloatArray, FloatArray]:
        values = np.einsum("bi,bi->b", matrix, frame.wrench[nodes])
        if frame.wrench_blocks is None:
            return values, empty_blocks()
        blocks = [np.einsum("bi,bis->bs", matrix, block[nodes]) for block in frame.wrench_blocks]
        return values, np.stack(blocks, axis=1)

    parts = tuple(_row_label(int(r)) for r in rows)
    lower, upper = supports.lower[nodes, rows], supports.upper[nodes, rows]
    return RowGroup(
        "ground force", lower, upper, nodes, np.arange(len(nodes)), scene.used(nodes), evaluate,
        scene.nodes.times[nodes], parts,
    )  # fmt: skip


def momentum_rows(scene: RowContext) -> RowGroup:
    """Angular momentum about the centre of mass is the flight's own at every node in the air."""
    flying = scene.maker.poses.flying
    nodes, axes = np.repeat(flying, 3), np.tile(np.arange(3), len(flying))

    def evaluate(frame: NodeState) -> tuple[FloatArray, FloatArray]:
        values = MOMENTUM_SCALE * frame.momentum[nodes, axes]
        if frame.momentum_blocks is None:
            return values, empty_blocks()
        return values, MOMENTUM_SCALE * np.stack([block[nodes, axes] for block in frame.momentum_blocks], axis=1)

    extra = [
        (r, int(scene.variables.flight_of(int(scene.nodes.phases[n]))[6 + a]), -MOMENTUM_SCALE)
        for r, (n, a) in enumerate(zip(nodes, axes, strict=True))
    ]
    zero = np.zeros(len(nodes))
    return RowGroup(
        "angular momentum in flight", zero, zero, nodes, np.arange(len(nodes)), scene.used(nodes), evaluate,
        scene.nodes.times[nodes], globals=extra,
    )  # fmt: skip


def moment_rows(scene: RowContext) -> RowGroup:
    """No moment about the centre of mass in flight, to a small share of the weight: momentum holds between nodes."""
    flying = scene.maker.poses.flying
    nodes, axes = np.repeat(flying, 3), np.tile(np.arange(3), len(flying))

    def evaluate(frame: NodeState) -> tuple[FloatArray, FloatArray]:
        values = frame.wrench[nodes, 3 + axes]
        if frame.wrench_blocks is None:
            return values, empty_blocks()
        return values, np.stack([block[nodes, 3 + axes] for block in frame.wrench_blocks], axis=1)

    end = np.full(len(nodes), FLIGHT_MOMENT)
    return RowGroup(
        "moment in flight", -end, end, nodes, np.arange(len(nodes)), scene.used(nodes), evaluate,
        scene.nodes.times[nodes],
    )  # fmt: skip


def stretch_rows(scene: RowContext) -> RowGroup:
    """A planted leg is a little shorter than its bones."""
    pairs = [(n, leg) for n in range(scene.nodes.count) for leg in (0, 1) if scene.nodes.feet[n, leg] != FREE]
    nodes, legs = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    mask = np.concatenate([scene.leg_mask(nodes[i : i + 1], int(leg)) for i, leg in enumerate(legs)])
    upper = np.full(len(nodes), STRETCH_SCALE * MAX_STRETCH**2)

    def evaluate(frame: NodeState) -> tuple[FloatArray, FloatArray]:
        values = STRETCH_SCALE * frame.state.stretch[nodes, legs]
        if frame.wrench_blocks is None:
            return values, empty_blocks()
        return values, value_blocks(STRETCH_SCALE * frame.state.stretch_gradient[nodes, legs])

    return RowGroup(
        "reach", np.full(len(nodes), -np.inf), upper, nodes, np.arange(len(nodes)), mask, evaluate,
        scene.nodes.times[nodes], tuple(FEET[int(leg)] for leg in legs),
    )  # fmt: skip


def limit_rows(scene: RowContext, *, planted: bool) -> RowGroup:
    """Angles of the legs stay within their limits; of free legs the rows are linear."""
    nodes, dofs, masks = list[int](), list[int](), list[BoolArray]()
    for leg in (0, 1):
        own = np.flatnonzero((scene.nodes.feet[:, leg] != FREE) == planted)
        mask = scene.leg_mask(own, leg)
        for i, n in enumerate(own):
            for dof in scene.space.legs[leg].dofs[: 7 if planted else 8]:
                nodes.append(int(n))
                dofs.append(int(dof))
                masks.append(mask[i])
    index, columns = np.array(nodes, dtype=np.int64), np.array(dofs, dtype=np.int64)

    def evaluate(frame: NodeState) -> tuple[FloatArray, FloatArray]:
        values = frame.state.q[index, columns]
        if frame.wrench_blocks is None:
            return values, empty_blocks()
        return values, value_blocks(frame.state.G[index, columns])

    behaviour = scene.behaviour
    return RowGroup(
        "joint limit", behaviour.lower[columns], behaviour.upper[columns], index, np.arange(len(index)),
        np.array(masks, dtype=bool).reshape(len(index), scene.slots), evaluate, scene.nodes.times[index],
        tuple(scene.space.tree.names[int(dof)] for dof in columns), not planted,
    )  # fmt: skip


def upper_body_limit_rows(scene: RowContext, dofs: tuple[int, ...]) -> RowGroup:
    """Coordinates of the upper body stay within their limits; the poses at the ends of the motion have a say."""
    index, columns = (a.ravel() for a in np.meshgrid(np.arange(scene.nodes.count), np.array(dofs, dtype=np.int64)))
    poses = [scene.behaviour.decode(scene.behaviour.encode(pose.q)) for pose in scene.behaviour.poses.values()]
    lower, upper = scene.behaviour.lower.copy(), scene.behaviour.upper.copy()
    own = scene.behaviour.columns
    lower[own], upper[own] = np.min([lower[own], *poses], axis=0), np.max([upper[own], *poses], axis=0)
    mask = np.zeros((len(index), scene.slots), dtype=bool)
    mask[:, : scene.space.dimension] = True

    def evaluate(frame: NodeState) -> tuple[FloatArray, FloatArray]:
        values = frame.state.q[index, columns]
        if frame.wrench_blocks is None:
            return values, empty_blocks()
        return values, value_blocks(frame.state.G[index, columns])

    return RowGroup(
        "joint limit", lower[columns], upper[columns], index, np.arange(len(index)), mask, evaluate,
        scene.nodes.times[index], tuple(scene.space.tree.names[int(dof)] for dof in columns), is_linear=True,
    )  # fmt: skip


def clearance_rows(scene: RowContext, floor: FloatArray) -> RowGroup:
    """Heel and toes of a free foot stay above ``floor`` (N,) [m], the ground under each node."""
    nodes, dofs, points = list[int](), list[int](), list[FloatArray]()
    for leg in (0, 1):
        geometry = scene.space.legs[leg]
        for n in np.flatnonzero(scene.nodes.feet[:, leg] == FREE):
            if _is_contact_border(scene, int(n)):
                continue
            for dof, point in ((geometry.dofs[6], geometry.heel_local), (geometry.dofs[7], geometry.tip_local)):
                nodes.append(int(n))
                dofs.append(int(dof))
                points.append(point)
    return height_rows(scene, "clearance", nodes, dofs, points, floor[nodes] if nodes else np.zeros(0))


def height_rows(
    scene: RowContext, label: str, nodes: list[int], dofs: list[int], points: list[FloatArray], least: FloatArray
) -> RowGroup:
    """Points of links, one for each row, stay above heights ``least`` (r,) [m] at their nodes."""
    index = np.array(nodes, dtype=np.int64)
    kinds = sorted({(dof, tuple(point)) for dof, point in zip(dofs, points, strict=True)})
    which = np.array([kinds.index((d, tuple(p))) for d, p in zip(dofs, points, strict=True)], dtype=np.int64)
    seen, inverse = np.unique(index, return_inverse=True)

    def evaluate(frame: NodeState) -> tuple[FloatArray, FloatArray]:
        if not len(index):
            return np.zeros(0), empty_blocks()
        state = frame.state
        q, zero = state.q[seen], np.zeros((len(seen), state.q.shape[1]))
        moved = compute_points_motion(
            scene.space.tree, q, zero, zero, [k[0] for k in kinds], np.array([k[1] for k in kinds])
        )
        values = CLEARANCE_SCALE * moved.position[inverse, which, 1]
        if frame.wrench_blocks is None:
            return values, empty_blocks()
        rows = moved.J[inverse, which, 1][:, None, :] @ state.G[index]
        return values, value_blocks(CLEARANCE_SCALE * rows[:, 0])

    lower, extra = CLEARANCE_SCALE * np.asarray(least, dtype=np.float64), list[tuple[int, int, float]]()
    for r, n in enumerate(index):
        phase = int(scene.nodes.phases[n])
        if scene.layout.is_flight(phase):
            fall = scene.nodes.times[n] - scene.layout.edges[phase]
            own = scene.variables.flight_of(phase)
            extra += [(r, int(own[1]), CLEARANCE_SCALE), (r, int(own[4]), CLEARANCE_SCALE * fall)]
            lower[r] += CLEARANCE_SCALE * 0.5 * scene.gravity * fall**2
    return RowGroup(
        label, lower, np.full(len(index), np.inf), index, np.arange(len(index)), scene.used(index), evaluate,
        scene.nodes.times[index], tuple(scene.space.tree.names[dof] for dof in dofs), globals=extra,
    )  # fmt: skip


def leg_joint_rows(scene: RowContext) -> RowGroup:
    """A leg that lands or leaves has the same angles and velocities on both sides of that instant."""
    pieces, masks, times, parts = _leg_joints(scene)
    table = np.array([p[:4] for p in pieces], dtype=np.int64).reshape(-1, 4)
    weight = np.array([p[4] for p in pieces])
    owner, nodes, dofs, order = table.T
    position = {int(dof): i for i, dof in enumerate(scene.space.moving)}
    moving = np.array([position[int(dof)] for dof in dofs], dtype=np.int64)

    def evaluate(frame: NodeState) -> tuple[FloatArray, FloatArray]:
        state = frame.state
        values = weight * np.where(order == 0, state.q[nodes, dofs], state.qd[nodes, dofs])
        if frame.wrench_blocks is None:
            return values, empty_blocks()
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
    nodes, lower, times, extra = _com_joints(scene)
    index = np.array(nodes, dtype=np.int64)
    order, axes = (np.arange(len(index)) // 3) % 2, np.arange(len(index)) % 3
    scales = np.array(COM_SCALES)[order]

    def evaluate(frame: NodeState) -> tuple[FloatArray, FloatArray]:
        if not len(index):
            return np.zeros(0), empty_blocks()
        seen, inverse = np.unique(index, return_inverse=True)
        com = scene.maker.centre(frame, seen)
        values = scales * np.where(order == 0, com.position[inverse, axes], com.velocity[inverse, axes])
        if frame.wrench_blocks is None:
            return values, empty_blocks()
        state, moving = frame.state, scene.space.moving
        J = com.J @ state.G[seen]
        Jd = com.Jd @ state.G[seen] + com.J[:, :, moving] @ state.Gd[seen]
        still = (order == 0)[:, None]
        blocks = np.zeros((len(index), 3, scene.slots))
        blocks[:, 0] = scales[:, None] * np.where(still, J[inverse, axes], Jd[inverse, axes])
        blocks[:, 1] = scales[:, None] * np.where(still, 0.0, J[inverse, axes])
        return values, blocks

    ends = np.array(lower)
    return RowGroup(
        "centre of mass at a flight's end", ends, ends, index, np.arange(len(index)), scene.used(index), evaluate,
        np.array(times), globals=extra,
    )  # fmt: skip


def _leg_joints(
    scene: RowContext,
) -> tuple[list[tuple[int, int, int, int, float]], list[BoolArray], list[float], list[str]]:
    """Pieces of the rows where legs land or leave, their slots, and the rows' times and names."""
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
    return pieces, masks, times, parts


def _com_joints(scene: RowContext) -> tuple[list[int], list[float], list[float], list[tuple[int, int, float]]]:
    """Nodes beside flights, ends and times of their rows, and what the flight's own unknowns add to them."""
    nodes, lower, times, extra = list[int](), list[float](), list[float](), list[tuple[int, int, float]]()
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
                    times.append(time)
                    drop = -scene.gravity * (0.5 * fall**2, fall)[derivative] if axis == 1 else 0.0
                    lower.append(scale * drop)
                    extra.append((r, int(own[3 + axis]), -scale * (fall if derivative == 0 else 1.0)))
                    if derivative == 0:
                        extra.append((r, int(own[axis]), -scale))
    return nodes, lower, times, extra


def _row_label(row: int) -> str:
    """Which of a support's rows it is, in words."""
    return WRENCH_PARTS[row] if row < len(WRENCH_PARTS) else "pressure inside the soles"


def _is_contact_border(scene: RowContext, node: int) -> bool:
    """Whether a node is where a foot leaves or lands: the plant decides there."""
    phase = int(scene.nodes.phases[node])
    edges = scene.layout.edges
    return min(abs(scene.nodes.times[node] - edges[phase]), abs(scene.nodes.times[node] - edges[phase + 1])) < 1e-9
