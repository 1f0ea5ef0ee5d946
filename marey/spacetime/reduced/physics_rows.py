"""Rows of physics and of the body: forces, momentum, reach, limits, clearance, and continuity between phases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.dynamics import compute_com_motion, compute_points_motion
from marey.spacetime.problem.supply import TorqueLimits
from marey.spacetime.programme import Factors, RowGroup, StateJet
from marey.spacetime.reduced.behaviour import BehaviourSpace
from marey.spacetime.reduced.layout import FEET, LEG_SLOTS, ReducedLayout, ReducedVariables
from marey.spacetime.reduced.nodes import FREE, CollocationNodes, NodeSupports
from marey.spacetime.reduced.pose import NodeEvaluator, NodeState, ReducedSpace

ReducedRows = RowGroup[NodeState]
EvaluateJet = Callable[[NodeState], StateJet]

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
        evaluate: EvaluateJet,
        *,
        mask: BoolArray | None = None,
        parts: Sequence[str] = (),
        is_linear: bool = False,
        unknowns: Sequence[tuple[int, int, float]] = (),
    ) -> ReducedRows:
        """One row at each of ``nodes (r,)``, between two ends.

        Args:
            label: what the rows say.
            nodes: of each row.
            ends: lower and upper end of each row.
            evaluate: the jet ``(r, 1)`` at a frame.
            mask: slots ``(r, S)`` that a row may depend on; all by default.
            parts: what each row is, for the report.
            is_linear: whether the rows are.
            unknowns: row, global unknown and factor of constant entries.
        """
        # Constant entries of each row side by side; places that are not used point at an unknown with the factor zero
        owner = np.array([row for row, _, _ in unknowns], dtype=np.int64)
        depth = np.array([int((owner[:i] == row).sum()) for i, row in enumerate(owner)], dtype=np.int64)
        columns = np.zeros((len(nodes), 1, int(depth.max(initial=-1)) + 1), dtype=np.int64)
        factors = np.zeros(columns.shape)
        columns[owner, 0, depth] = [column for _, column, _ in unknowns]
        factors[owner, 0, depth] = [factor for _, _, factor in unknowns]

        def rows(frame: NodeState, values: FloatArray) -> tuple[StateJet, Factors]:
            jet = evaluate(frame)
            return (jet + (factors * values[columns]).sum(axis=2), factors) if len(owner) else (jet, None)

        words = [f" ({part})" for part in parts] or [""] * len(nodes)
        names = [f"{label}{word} at {time:.2f} s" for word, time in zip(words, self.nodes.times[nodes], strict=True)]
        low, high = ends[0][:, None], ends[1][:, None]
        return RowGroup(nodes, low, high, names, rows, columns if len(owner) else None, mask=mask, is_linear=is_linear)

    def leg_mask(self, nodes: IntArray, leg: int) -> BoolArray:
        """Slots that the angles of a leg may depend on."""
        d = self.space.dimension
        planted = self.nodes.feet[nodes, leg] != FREE
        mask = np.zeros((len(nodes), self.slots), dtype=bool)
        mask[:, d : d + 6] = planted[:, None]
        mask[:, :d] = ~planted[:, None]
        mask[:, d + 6 + leg * LEG_SLOTS : d + 6 + (leg + 1) * LEG_SLOTS] = True
        return mask


def wrench_rows(scene: RowContext) -> ReducedRows:
    """Friction, pressure and force limits of planted feet at every node on the ground."""
    supports = scene.supports
    nodes = np.repeat(np.arange(scene.nodes.count), supports.count)
    rows: IntArray = np.concatenate([np.arange(int(k)) for k in supports.count])
    matrix = supports.matrix[nodes, rows]
    words = (*WRENCH_PARTS, *["pressure inside the soles"] * int(supports.count.max(initial=0)))
    parts = tuple(words[int(r)] for r in rows)
    ends = supports.lower[nodes, rows], supports.upper[nodes, rows]
    return scene.group(
        "ground force", nodes, ends, lambda frame: frame.wrench.at(nodes).component_along(matrix), parts=parts
    )


def flight_rows(scene: RowContext, is_physical: BoolArray) -> list[ReducedRows]:
    """Rows of the nodes in the air at which physics counts ``(N,)``, about the centre of mass.

    The angular momentum is the flight's own; no moment acts, to a small share of the weight, so that momentum holds
    between nodes.
    """
    flying = scene.maker.poses.flying
    flying = flying[is_physical[flying]]
    nodes, axes = np.repeat(flying, 3), np.tile(np.arange(3), len(flying))
    own = [
        (r, int(scene.variables.flight_of(int(scene.nodes.phases[n]))[6 + a]), -MOMENTUM_SCALE)
        for r, (n, a) in enumerate(zip(nodes, axes, strict=True))
    ]
    zero, end = np.zeros(len(nodes)), np.full(len(nodes), FLIGHT_MOMENT)
    return [
        scene.group(
            "angular momentum in flight",
            nodes,
            (zero, zero),
            lambda frame: frame.momentum.entries(nodes, axes) * MOMENTUM_SCALE,
            unknowns=own,
        ),
        scene.group("moment in flight", nodes, (-end, end), lambda frame: frame.wrench.entries(nodes, 3 + axes)),
    ]


def torque_rows(scene: RowContext, limits: TorqueLimits) -> ReducedRows:
    """Torques within their limits at the nodes that count; two planted feet share the load as the supports say."""
    unit = 0.5 * (limits.upper - limits.lower)
    which, own = (a.ravel() for a in np.meshgrid(np.arange(len(scene.maker.heavy)), np.arange(len(unit))))
    dofs = np.searchsorted(scene.maker.actuated, limits.dofs)[own]

    def evaluate(frame: NodeState) -> StateJet:
        assert frame.torque is not None
        return frame.torque.entries(which, dofs) * (1.0 / unit[own, None])

    ends = TORQUE_ROOM * (limits.lower / unit)[own], TORQUE_ROOM * (limits.upper / unit)[own]
    parts = tuple(scene.space.tree.names[int(dof)] for dof in limits.dofs[own])
    return scene.group("torque", scene.maker.heavy[which], ends, evaluate, parts=parts)


def stretch_rows(scene: RowContext) -> ReducedRows:
    """A planted leg is a little shorter than its bones."""
    nodes, legs = np.nonzero(scene.nodes.feet != FREE)
    mask = np.concatenate([scene.leg_mask(nodes[i : i + 1], int(leg)) for i, leg in enumerate(legs)])
    ends = np.full(len(nodes), -np.inf), np.full(len(nodes), STRETCH_SCALE * MAX_STRETCH**2)

    def evaluate(frame: NodeState) -> StateJet:
        state = frame.state
        jet = frame.jet(state.stretch[nodes, legs][:, None], state.stretch_gradient[nodes, legs][:, None])
        return jet * STRETCH_SCALE

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
) -> ReducedRows:
    """Coordinates ``dofs (r,)`` at ``nodes (r,)`` between two ends."""
    parts = tuple(scene.space.tree.names[int(dof)] for dof in dofs)
    return scene.group(
        label, nodes, ends, lambda f: f.coordinates(nodes, dofs), mask=mask, parts=parts, is_linear=is_linear
    )


def limit_rows(scene: RowContext, *, planted: bool) -> ReducedRows:
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


def upper_body_limit_rows(scene: RowContext, dofs: tuple[int, ...]) -> ReducedRows:
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


@dataclass(frozen=True, slots=True)
class SwingClearance:
    """Least heights [m] of a swinging sole over its stand, at equal shares of the swing from lift-off to landing."""

    heel_m: tuple[float, ...]
    tip_m: tuple[float, ...]

    def at(self, share: float) -> tuple[float, float]:
        """Of heel and tip of the toes, at a share of the swing."""
        shares = np.linspace(0.0, 1.0, len(self.heel_m))
        return float(np.interp(share, shares, self.heel_m)), float(np.interp(share, shares, self.tip_m))


CAPTURED_SWING: Final = SwingClearance(
    heel_m=(0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 0.014, 0.01, 0.009, 0.0),
    tip_m=(0.0, 0.008, 0.03, 0.03, 0.03, 0.03, 0.027, 0.022, 0.03, 0.03, 0.03),
)
"""The 5th percentile of 42 captured swings of seven people who walk, by the meter; no more than 3 cm are asked for."""


def clearance_rows(scene: RowContext, floor: FloatArray, swing: SwingClearance | None = None) -> ReducedRows:
    """Heel and toes of a free foot stay above ``floor`` (N,) [m], the ground under each node, by those of a swing."""
    nodes, layout = scene.nodes, scene.layout
    rows, least = list[tuple[int, int, FloatArray]](), list[float]()
    swings = [interval for leg in (0, 1) for interval in layout.legs[leg] if not interval.is_stance]
    longest = max((layout.edges[i.phases[1]] - layout.edges[i.phases[0]] for i in swings), default=0.0)
    for leg in (0, 1):
        geometry = scene.space.legs[leg]
        for n in np.flatnonzero(nodes.feet[:, leg] == FREE):
            # Where a foot leaves or lands its plant decides
            phase, time = int(nodes.phases[n]), nodes.times[n]
            if min(abs(time - layout.edges[phase]), abs(time - layout.edges[phase + 1])) < 1e-9:
                continue
            rows.append((int(n), int(geometry.dofs[6]), geometry.heel_local))
            rows.append((int(n), int(geometry.dofs[7]), geometry.tip_local))
            # A swing that the motion begins or ends with is a part of one as long as the longest
            first, last = layout.interval_of(leg, phase).phases
            is_whole = first > 0 and last < layout.num_phases
            share = (time - layout.edges[first]) / (layout.edges[last] - layout.edges[first] if is_whole else longest)
            share = 1.0 - (layout.edges[last] - time) / longest if first == 0 else share
            # A foot that is free all the time does not swing
            own = swing if (first, last) != (0, layout.num_phases) else None
            over = (0.0, 0.0) if own is None else own.at(float(share))
            least += [float(floor[n]) + height for height in over]
    return height_rows(scene, "clearance", rows, np.array(least))


def height_rows(
    scene: RowContext,
    label: str,
    rows: list[tuple[int, int, FloatArray]],
    least: FloatArray,
    normals: FloatArray | None = None,
) -> ReducedRows:
    """Points stay above heights ``least`` (r,) [m], or beyond planes with ``normals`` (r, 3).

    ``rows`` are the node of each, the coordinate whose link carries its point, and the place of the point in the link.
    """
    index = np.array([n for n, _, _ in rows], dtype=np.int64)
    up = np.tile([0.0, 1.0, 0.0], (len(rows), 1)) if normals is None else normals
    kinds = sorted({(dof, tuple(point)) for _, dof, point in rows})
    which = np.array([kinds.index((dof, tuple(point))) for _, dof, point in rows], dtype=np.int64)
    seen, inverse = np.unique(index, return_inverse=True)

    def evaluate(frame: NodeState) -> StateJet:
        q, zero, has = frame.state.q[seen], np.zeros((len(seen), scene.space.tree.num_dofs)), frame.has_derivatives
        links, places = [k[0] for k in kinds], np.array([k[1] for k in kinds])
        moved = compute_points_motion(scene.space.tree, q, zero, zero, links, places, jacobians=has)
        heights = np.einsum("ri,ri->r", up, moved.position[inverse, which])[:, None]
        if not has:
            return frame.jet(heights) * CLEARANCE_SCALE
        slopes = np.einsum("ri,rid->rd", up, moved.J[inverse, which])[:, None, :] @ frame.state.G[index]
        return frame.jet(heights, slopes) * CLEARANCE_SCALE

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


def leg_joint_rows(scene: RowContext) -> ReducedRows:
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

    def evaluate(frame: NodeState, _: FloatArray) -> tuple[StateJet, Factors]:
        state, still = frame.state, (order == 0)[:, None]
        values = np.where(still, state.q[nodes, dofs][:, None], state.qd[nodes, dofs][:, None])
        G, Gd = state.G[nodes, dofs], state.Gd[nodes, moving]
        jet = frame.jet(values, np.where(still, G, Gd)[:, None], np.where(still, 0.0, G)[:, None])
        return jet * weight[:, None], None

    zero = np.zeros((len(times), 1))
    mask = np.array(masks, dtype=bool).reshape(len(nodes), scene.slots)
    names = [f"leg at a contact change ({part}) at {t:.2f} s" for part, t in zip(parts, times, strict=True)]
    return RowGroup(nodes, zero, zero, names, evaluate, owner=owner, mask=mask)


def com_joint_rows(scene: RowContext) -> ReducedRows:
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

    def evaluate(frame: NodeState) -> StateJet:
        (seen, inverse), state, still = np.unique(index, return_inverse=True), frame.state, (order == 0)[:, None]
        rates, has = (state.q[seen], state.qd[seen], state.qdd[seen]), frame.has_derivatives
        com = compute_com_motion(scene.space.tree, *rates, jacobians=has)
        values = np.where(still, com.position[inverse, axes][:, None], com.velocity[inverse, axes][:, None])
        if not has:
            return frame.jet(values) * scales[:, None]
        J = (com.J @ state.G[seen])[inverse, axes]
        Jd = (com.Jd @ state.G[seen] + com.J[:, :, scene.space.moving] @ state.Gd[seen])[inverse, axes]
        jet = frame.jet(values, np.where(still, J, Jd)[:, None], np.where(still, 0.0, J)[:, None])
        return jet * scales[:, None]

    ends = np.array(lower)
    return scene.group("centre of mass at a flight's end", index, (ends, ends), evaluate, unknowns=extra)
