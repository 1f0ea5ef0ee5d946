"""What is made small in reduced space: accelerations, torques, distance from the behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.spacetime._problem import Objective
from marey.spacetime._reduced_frame import NodeState
from marey.spacetime._reduced_physics import RowContext

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
        local = np.concatenate([state.Gdd[heavy], 2.0 * state.Gd[heavy], G[:, moving]], axis=2)
        Ha = local.swapaxes(1, 2) @ local
        Ha[:, 2 * S :, 2 * S :] = G.swapaxes(1, 2) @ G
        ga = (part[1][:, None, moving] @ local)[:, 0]
        ga[:, 2 * S :] = (part[1][:, None] @ G)[:, 0]
        Ha *= self.accel[:, None, None]
        ga *= self.accel[:, None]
        if frame.torque is not None and frame.torque_blocks is not None:
            T = np.concatenate(frame.torque_blocks, axis=2) * np.sqrt(self.torque)[:, None, None]
            Ha += T.swapaxes(1, 2) @ T
            ga += ((frame.torque * np.sqrt(self.torque)[:, None])[:, None] @ T)[:, 0]
        E = self.spread * G[:, self.rows]
        E[:, :, :d] -= self.spread * scene.space.modes[self.rows]
        Hp = E.swapaxes(1, 2) @ E
        Hp[:, np.arange(d), np.arange(d)] += 1.0
        gp = (off[:, None] @ E)[:, 0]
        gp[:, :d] += part[0][:, :d]
        Ha[:, :S, :S] += self.prior[:, None, None] * Hp
        ga[:, :S] += self.prior[:, None] * gp
        g[heavy], H[heavy] = ga, Ha
        self._add_border(frame, g, H)
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

    def _add_border(self, frame: NodeState, g: FloatArray, H: FloatArray) -> None:
        S, b, r = self.scene.slots, self.borders, self._border(frame)
        rows = b.weights[:, None] * frame.state.G[b.nodes, b.dofs]
        for node in np.unique(b.nodes):
            own = b.nodes == node
            g[node, :S] += r[own] @ rows[own]
            H[node, :S, :S] += rows[own].T @ rows[own]


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
