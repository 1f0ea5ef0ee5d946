"""A motion in reduced space as a sparse nonlinear programme: its objective, and the state at a point of the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.spacetime.problem.definition import Objective
from marey.spacetime.programme import CostTerms, InstantBasis, MotionProgramme, ResidualTerm, StateJet
from marey.spacetime.reduced.physics_rows import ReducedRows, RowContext
from marey.spacetime.reduced.pose import NodeState

ACCEL_FRACTION: Final = 0.1  # of the clips' own square acceleration
TORQUE_SCALE: Final = 2e4  # [N^2 m^2 s] a body of 75 kg: square torque over a jump
PRIOR_WEIGHT: Final = 0.1
BORDER_WEIGHT: Final = 0.3
BODY_KG: Final = 75.0


@dataclass(frozen=True, slots=True, eq=False)
class BorderPrior:
    """Usual angles at nodes where a foot leaves or lands."""

    nodes: IntArray  # (b,)
    dofs: IntArray  # (b,)
    means: FloatArray  # (b,)
    weights: FloatArray  # (b,)


def build_reduced_terms(scene: RowContext, objective: Objective, border: BorderPrior) -> list[ResidualTerm[NodeState]]:
    r"""Half the sum of squares of accelerations, torques and distances.

    .. math:: \sqrt{w_A}\,\ddot q,\quad \sqrt{w_T}\,\tau,\quad \sqrt{w_P}\,\Big(a,\ \frac{q - q_{behaviour}(a)}
        {\sqrt{\lambda_\perp}}\Big),\quad w_k\frac{q_{leg} - \bar q}{\sigma}

    with integrals by Simpson's rule over the spans ([Safonova2006]_ §3.1.4, its prior completed by the distance of legs
    and root from the space; the last term pulls the legs to their usual angles at lift-off and landing).
    """
    space, behaviour, heavy = scene.space, scene.behaviour, scene.maker.heavy
    d, moving = space.dimension, space.moving
    still = np.setdiff1d(np.arange(space.tree.num_dofs), moving)
    known = set(behaviour.columns.tolist())
    rows = np.array([int(dof) for dof in (*space.turns, *space.leg_dofs) if int(dof) in known], dtype=np.int64)
    spread, modes = behaviour.residual_variance**-0.5, space.modes[rows]

    def bend(frame: NodeState) -> tuple[StateJet]:
        # d(qdd)/dy = Gdd, 2 Gd, G; only moving coordinates have rates of G
        state = frame.state
        blocks = (state.Gdd[heavy], 2.0 * state.Gd[heavy], state.G[heavy][:, moving])
        return (frame.jet(state.qdd[heavy][:, moving], *blocks),)

    def carry(frame: NodeState) -> tuple[StateJet]:
        state = frame.state
        return (frame.jet(state.qdd[heavy][:, still], np.zeros(()), np.zeros(()), state.G[heavy][:, still]),)

    def torque(frame: NodeState) -> tuple[StateJet]:
        assert frame.torque is not None
        return (frame.torque,)

    def stray(frame: NodeState) -> tuple[StateJet]:
        # Amplitudes from their mean, legs and root from what the behaviour says
        state = frame.state
        a, G = state.y[heavy, 0, :d], state.G[heavy]
        off = spread * (state.q[heavy][:, rows] - space.mean[rows] - a @ modes.T)
        slopes = np.zeros((len(heavy), d + len(rows), G.shape[2]))
        slopes[:, np.arange(d), np.arange(d)] = 1.0
        slopes[:, d:] = spread * G[:, rows]
        slopes[:, d:, :d] -= spread * modes
        return (frame.jet(np.concatenate([a, off], axis=1), slopes),)

    def leave(frame: NodeState) -> tuple[StateJet]:
        return ((frame.coordinates(border.nodes, border.dofs) - border.means[:, None]) * border.weights[:, None],)

    half, size = 0.5 * scene.nodes.weights[heavy], (space.tree.mass / BODY_KG) ** 2
    accel = half * objective.accel / (ACCEL_FRACTION * behaviour.accel_scale)
    terms = [
        ResidualTerm("accel", (heavy,), accel, bend),
        ResidualTerm("accel", (heavy,), accel, carry, is_linear=True),
    ]
    if objective.torque > 0.0 and scene.maker.has_torque:
        terms.append(ResidualTerm("torque", (heavy,), half * objective.torque / (TORQUE_SCALE * size), torque))
    terms.append(ResidualTerm("prior", (heavy,), half * PRIOR_WEIGHT * objective.prior, stray))
    terms.append(ResidualTerm("border", (border.nodes,), np.full(len(border.nodes), 0.5), leave))
    return terms


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


class ReducedProgramme(MotionProgramme[NodeState]):
    """Rows and terms of a motion in the space of a behaviour."""

    def __init__(
        self, scene: RowContext, groups: Sequence[ReducedRows], terms: Sequence[ResidualTerm[NodeState]]
    ) -> None:
        self.scene = scene
        basis = InstantBasis(scene.nodes.coefficients, scene.nodes.basis)
        super().__init__(scene.variables, basis, groups, CostTerms(residuals=terms))

    def evaluate_state(self, values: FloatArray, *, derivatives: bool) -> NodeState:
        """Poses and forces at the nodes."""
        return self.scene.maker.evaluate(values[: self.scene.layout.num_coefficients], derivatives=derivatives)
