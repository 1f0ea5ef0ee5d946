"""A motion in reduced space as a sparse nonlinear programme: objective, sparsity pattern and assembly.

The objective weighs accelerations, torques and the distance from the behaviour. The pattern of the sparse matrices is
found once for a programme; compiled functions scatter the blocks of the nodes into it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.spacetime.problem.definition import Objective
from marey.spacetime.reduced.physics_rows import RowContext, RowGroup
from marey.spacetime.reduced.pose import NodeState

if TYPE_CHECKING:
    from scipy.sparse import csc_array


ACCEL_FRACTION: Final = 0.1  # of the clips' own square acceleration
TORQUE_SCALE: Final = 2e4  # [N^2 m^2 s] a body of 75 kg: square torque over a jump
PRIOR_WEIGHT: Final = 0.1
BORDER_WEIGHT: Final = 0.3
BODY_KG: Final = 75.0


@dataclass(frozen=True, slots=True)
class ObjectiveTerms:
    """Values of the parts of the objective."""

    accel: float
    torque: float
    prior: float
    border: float

    @property
    def total(self) -> float:
        """Their sum."""
        return self.accel + self.torque + self.prior + self.border


@dataclass(frozen=True, slots=True, eq=False)
class BorderPrior:
    """Usual angles at nodes where a foot leaves or lands."""

    nodes: IntArray  # (b,)
    dofs: IntArray  # (b,)
    means: FloatArray  # (b,)
    weights: FloatArray  # (b,)


class ReducedObjective:
    r"""Half the sum of squares of accelerations, torques and distances.

    .. math:: \sqrt{w_A}\,\ddot q,\quad \sqrt{w_T}\,\tau,\quad \sqrt{w_P}\,\Big(a,\ \frac{q - q_{behaviour}(a)}
        {\sqrt{\lambda_\perp}}\Big),\quad w_k\frac{q_{leg} - \bar q}{\sigma}

    with integrals by Simpson's rule over the spans ([Safonova2006]_ §3.1.4, its prior completed by the distance of legs
    and root from the space; the last term pulls the legs to their usual angles at lift-off and landing).
    """

    def __init__(self, scene: RowContext, objective: Objective, borders: BorderPrior) -> None:
        self.scene, self.borders = scene, borders
        space, behaviour = scene.space, scene.behaviour
        self.heavy = scene.maker.heavy
        w = scene.nodes.weights[self.heavy]
        size = (space.tree.mass / BODY_KG) ** 2
        self.accel = w * objective.accel / (ACCEL_FRACTION * behaviour.accel_scale)
        self.torque = w * objective.torque / (TORQUE_SCALE * size)
        self.prior = w * PRIOR_WEIGHT * objective.prior
        known = set(behaviour.columns.tolist())
        rows = [int(dof) for dof in (*space.turns, *space.leg_dofs) if int(dof) in known]
        self.rows = np.array(rows, dtype=np.int64)
        self.spread = behaviour.residual_variance**-0.5

    def terms(self, frame: NodeState) -> ObjectiveTerms:
        """Value of each part."""
        part, off = self._part(frame)
        torque = 0.0 if frame.torque is None else 0.5 * float(self.torque @ (frame.torque**2).sum(axis=1))
        a = part[0][:, : self.scene.space.dimension]
        border = self._border(frame)
        return ObjectiveTerms(
            0.5 * float(self.accel @ (part[1] ** 2).sum(axis=1)),
            torque,
            0.5 * float(self.prior @ ((a**2).sum(axis=1) + (off**2).sum(axis=1))),
            0.5 * float(border @ border),
        )

    def blocks(self, frame: NodeState) -> tuple[FloatArray, FloatArray]:
        """Local gradients ``(N, 3, S)`` and Gauss-Newton Hessians ``(N, 3 S, 3 S)``."""
        scene, heavy = self.scene, self.heavy
        S, N, d = scene.slots, scene.nodes.count, scene.space.dimension
        g, H = np.zeros((N, 3 * S)), np.zeros((N, 3 * S, 3 * S))
        state = frame.state
        moving = scene.space.moving
        G, (part, off) = state.G[heavy], self._part(frame)
        # Accelerations: d(qdd)/dy = Gdd, 2 Gd, G; only moving coordinates have rates of G
        local = np.concatenate([state.Gdd[heavy], 2.0 * state.Gd[heavy], G[:, moving]], axis=2)
        Ha = local.swapaxes(1, 2) @ local
        Ha[:, 2 * S :, 2 * S :] = G.swapaxes(1, 2) @ G
        ga = (part[1][:, None, moving] @ local)[:, 0]
        ga[:, 2 * S :] = (part[1][:, None] @ G)[:, 0]
        Ha *= self.accel[:, None, None]
        ga *= self.accel[:, None]
        if frame.torque is not None and frame.torque_blocks is not None:
            # Torques
            T = np.concatenate(frame.torque_blocks, axis=2) * np.sqrt(self.torque)[:, None, None]
            Ha += T.swapaxes(1, 2) @ T
            ga += ((frame.torque * np.sqrt(self.torque)[:, None])[:, None] @ T)[:, 0]
        # Distance of legs and root from the behaviour, and of the amplitudes from its mean
        E = self.spread * G[:, self.rows]
        E[:, :, :d] -= self.spread * scene.space.modes[self.rows]
        Hp = E.swapaxes(1, 2) @ E
        Hp[:, np.arange(d), np.arange(d)] += 1.0
        gp = (off[:, None] @ E)[:, 0]
        gp[:, :d] += part[0][:, :d]
        Ha[:, :S, :S] += self.prior[:, None, None] * Hp
        ga[:, :S] += self.prior[:, None] * gp
        g[heavy], H[heavy] = ga, Ha
        # Usual angles at lift-off and landing
        b, r = self.borders, self._border(frame)
        rows = b.weights[:, None] * frame.state.G[b.nodes, b.dofs]
        for node in np.unique(b.nodes):
            own = b.nodes == node
            g[node, :S] += r[own] @ rows[own]
            H[node, :S, :S] += rows[own].T @ rows[own]
        return g.reshape(N, 3, S), H

    def _part(self, frame: NodeState) -> tuple[tuple[FloatArray, FloatArray], FloatArray]:
        """Local unknowns and accelerations at the heavy nodes, and the scaled distance of legs and root."""
        space = self.scene.space
        y, qdd = frame.state.y[self.heavy, 0], frame.state.qdd[self.heavy]
        said = space.mean[self.rows] + y[:, : space.dimension] @ space.modes[self.rows].T
        return (y, qdd), self.spread * (frame.state.q[self.heavy][:, self.rows] - said)

    def _border(self, frame: NodeState) -> FloatArray:
        b = self.borders
        return b.weights * (frame.state.q[b.nodes, b.dofs] - b.means)


def build_border_prior(scene: RowContext, weight: float = BORDER_WEIGHT) -> BorderPrior:
    """Usual angles of a leg where it leaves or lands, if the behaviour knows them."""
    nodes, dofs, means, weights = list[int](), list[int](), list[float](), list[float]()
    for leg, side in ((0, "left"), (1, "right")):
        intervals = scene.layout.legs[leg]
        for first, second in pairwise(intervals):
            border = scene.behaviour.borders.get(f"{side}_{'lift' if first.is_stance else 'land'}")
            if border is None:
                continue
            phase = first.phases[1] - 1 if first.is_stance else second.phases[0]
            node = scene.nodes.at(phase, float(scene.layout.edges[second.phases[0]]))
            for dof in scene.space.legs[leg].dofs[:7]:
                nodes.append(node)
                dofs.append(int(dof))
                means.append(float(border.mean[dof]))
                weights.append(weight / float(border.deviation[dof]))
    return BorderPrior(
        np.array(nodes, dtype=np.int64), np.array(dofs, dtype=np.int64), np.array(means), np.array(weights)
    )


@kernel
def scatter_rows(
    entries: IntArray, positions: IntArray, blocks: FloatArray, basis: FloatArray, scales: FloatArray, data: FloatArray
) -> None:
    """Add ``blocks[row, :, slot] . basis[node, slot, :, k] * scale`` to the sparse values ``data``.

    Args:
        entries: row of ``blocks``, node, slot and k of each entry ``(E, 4)``.
        positions: where each entry goes in ``data`` ``(E,)``.
        blocks: derivatives of rows by local unknowns, rates and accelerations ``(B, 3, S)``.
        basis: ``(N, S, 3, 4)``.
        scales: of the variable of each entry ``(E,)``.
        data: values of the sparse matrix, added to.
    """
    for e in range(len(entries)):
        r, n, s, k = entries[e, 0], entries[e, 1], entries[e, 2], entries[e, 3]
        value = 0.0
        for d in range(3):
            value += blocks[r, d, s] * basis[n, s, d, k]
        data[positions[e]] += scales[e] * value


@kernel
def scatter_objective(
    local_g: FloatArray,
    local_H: FloatArray,
    basis: FloatArray,
    places: IntArray,
    scales: FloatArray,
    g: FloatArray,
    H: FloatArray,
) -> None:
    """Add local gradients and Hessians to the dense ``g (n,)`` and ``H (n, n)``.

    Args:
        local_g: by local unknowns, rates and accelerations ``(N, 3, S)``.
        local_H: ``(N, 3 S, 3 S)``, ordered (derivative, slot).
        basis: ``(N, S, 3, 4)``.
        places: numbers of variables ``(N, S, 4)``, -1 for what is fixed or empty.
        scales: of the variables ``(N, S, 4)``.
        g: gradient, added to.
        H: Hessian, added to.
    """
    count, slots = places.shape[0], places.shape[1]
    half = np.empty((4, 3))
    for n in range(count):
        for s in range(slots):
            if places[n, s, 0] < 0 and places[n, s, 1] < 0 and places[n, s, 2] < 0 and places[n, s, 3] < 0:
                continue
            # Gradient: basis^T local, for the four variables of slot s
            for k in range(4):
                i = places[n, s, k]
                if i >= 0:
                    value = 0.0
                    for d in range(3):
                        value += local_g[n, d, s] * basis[n, s, d, k]
                    g[i] += value * scales[n, s, k]
            for t in range(slots):
                # Hessian, left half of the product: basis^T local
                for k in range(4):
                    for e in range(3):
                        value = 0.0
                        for d in range(3):
                            value += basis[n, s, d, k] * local_H[n, d * slots + s, e * slots + t]
                        half[k, e] = value * scales[n, s, k]
                # Right half: times the basis of slot t
                for k in range(4):
                    i = places[n, s, k]
                    if i < 0:
                        continue
                    for m in range(4):
                        j = places[n, t, m]
                        if j >= 0:
                            value = 0.0
                            for e in range(3):
                                value += half[k, e] * basis[n, t, e, m]
                            H[i, j] += value * scales[n, t, m]


class ReducedProgramme:
    """Objective, rows and derivatives for the solver; implements :class:`marey.numerics.NonlinearProgramme`."""

    def __init__(self, scene: RowContext, groups: list[RowGroup], objective: ReducedObjective) -> None:
        self.scene, self.objective, self.variables = scene, objective, scene.variables
        self.groups = [group for group in groups if len(group.lower)]
        self.lower, self.upper = (self.variables.pack(ends) for ends in (self.variables.lower, self.variables.upper))
        counts = np.array([len(group.lower) for group in self.groups], dtype=np.int64)
        self.starts: IntArray = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        self.row_lower = np.concatenate([group.lower for group in self.groups])
        self.row_upper = np.concatenate([group.upper for group in self.groups])
        self.is_linear: BoolArray = np.repeat(np.array([group.is_linear for group in self.groups]), counts)
        coefficients = scene.nodes.coefficients
        self._places: IntArray = np.append(self.variables.number, -1)[coefficients]
        self._scales: FloatArray = np.append(self.variables.scales, 0.0)[coefficients]
        self._place_rows()
        # Entries of the Hessian: variables that meet at a node
        count = len(self.lower)
        meet = np.zeros((count, count), dtype=bool)
        for own in self._places:
            used = np.unique(own)
            used = used[used >= 0]
            meet[used[:, None], used] = True
        meet[np.arange(count), np.arange(count)] = True
        self._hessian_columns, self._hessian_rows = np.nonzero(meet.T)
        self._hessian_pointers = np.searchsorted(self._hessian_columns, np.arange(count + 1))

    def _place_rows(self) -> None:
        """Find the pattern of the Jacobian, where each piece of each row goes, and what is constant in it."""
        variables, num_rows = self.variables, len(self.row_lower)
        # Constant entries of all groups: rows times global unknowns
        constant = [
            (int(start) + row, column, factor)
            for group, start in zip(self.groups, self.starts[:-1], strict=True)
            for row, column, factor in group.globals
        ]
        self._global_rows = np.array([row for row, _, _ in constant], dtype=np.int64)
        self._global_columns = np.array([column for _, column, _ in constant], dtype=np.int64)
        self._global_factors = np.array([factor for _, _, factor in constant], dtype=np.float64)
        # Entries (piece, node, slot, k) of all groups, and the row of each
        pieces, rows, first = list[IntArray](), list[IntArray](), 0
        for group, start in zip(self.groups, self.starts[:-1], strict=True):
            piece, slot = np.nonzero(group.mask)
            quad = np.repeat(np.stack([first + piece, group.nodes[piece], slot], axis=1), 4, axis=0)
            pieces.append(np.column_stack([quad, np.tile(np.arange(4), len(piece))]))
            rows.append(np.repeat(start + group.owner[piece], 4))
            first += len(group.nodes)
        entries, owner = np.concatenate(pieces), np.concatenate(rows)
        # What is fixed has no column
        columns = self._places[entries[:, 1], entries[:, 2], entries[:, 3]]
        free = columns >= 0
        entries, owner, columns = entries[free], owner[free], columns[free]
        number = variables.number[self._global_columns]
        keep = number >= 0
        # Entries of one place share a value; the order is that of a compressed column matrix
        keys = np.concatenate([columns, number[keep]]) * num_rows + np.concatenate([owner, self._global_rows[keep]])
        unique, where = np.unique(keys, return_inverse=True)
        self._row_indices = unique % num_rows
        self._row_pointers = np.searchsorted(unique, np.arange(len(variables.order) + 1) * num_rows)
        self._row_constant = np.zeros(len(unique))
        scaled = (self._global_factors * variables.scales[self._global_columns])[keep]
        np.add.at(self._row_constant, where[len(entries) :], scaled)
        self._entries, self._positions = np.ascontiguousarray(entries), where[: len(entries)].copy()
        self._entry_scales = self._scales[entries[:, 1], entries[:, 2], entries[:, 3]]

    def frame(self, x: FloatArray, *, derivatives: bool = False) -> NodeState:
        """Poses and forces at a point of the search."""
        full = self.variables.unpack(x)[: self.scene.layout.num_coefficients]
        return self.scene.maker.evaluate(full, derivatives=derivatives)

    def terms(self, x: FloatArray) -> ObjectiveTerms:
        """Parts of the objective."""
        return self.objective.terms(self.frame(x))

    def values(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Objective and rows ``(m,)``."""
        frame = self.frame(x)
        rows = np.zeros(len(self.row_lower))
        np.add.at(rows, self._global_rows, self._global_factors * self.variables.unpack(x)[self._global_columns])
        for group, start in zip(self.groups, self.starts[:-1], strict=True):
            np.add.at(rows, start + group.owner, group.evaluate(frame)[0])
        return self.objective.terms(frame).total, rows

    def derivatives(self, x: FloatArray) -> tuple[FloatArray, csc_array, csc_array]:
        """Gradient, Gauss-Newton Hessian and Jacobian of the rows."""
        from scipy.sparse import csc_array

        frame = self.frame(x, derivatives=True)
        n, basis = len(self.lower), self.scene.nodes.basis
        # Rows: blocks by local unknowns, scattered through the basis functions
        blocks = np.concatenate([group.evaluate(frame)[1] for group in self.groups])
        data = self._row_constant.copy()
        scatter_rows(self._entries, self._positions, blocks, basis, self._entry_scales, data)
        jacobian = csc_array((data, self._row_indices, self._row_pointers), shape=(len(self.row_lower), n))
        # Objective likewise, through a dense matrix of which the pattern is read
        local_g, local_H = self.objective.blocks(frame)
        g, H = np.zeros(n), np.zeros((n, n))
        scatter_objective(local_g, local_H, basis, self._places, self._scales, g, H)
        values = H[self._hessian_rows, self._hessian_columns]
        return g, csc_array((values, self._hessian_rows, self._hessian_pointers), shape=(n, n)), jacobian

    def row_name(self, index: int) -> str:
        """What a row says, in words."""
        number = int(np.searchsorted(self.starts, index, side="right")) - 1
        group, row = self.groups[number], index - int(self.starts[number])
        part = f" ({group.parts[row]})" if group.parts else ""
        return f"{group.label}{part} at {group.times[row]:.2f} s"
