"""A motion in reduced space as a sparse nonlinear programme: rows of its keys, its objective, and its state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.spacetime.problem.definition import AXES, Contact, Key, Objective, SpacetimeProblem
from marey.spacetime.problem.supply import build_torque_limits
from marey.spacetime.programme import CostTerms, InstantBasis, MotionProgramme, ResidualTerm, StateJet
from marey.spacetime.reduced.layout import FEET, ReducedLayout
from marey.spacetime.reduced.physics_rows import ReducedRows, RowContext, coordinate_rows, height_rows
from marey.spacetime.reduced.pose import NodeState, ReducedSpace

KNOWN_KINDS: Final = ("pose", "range", "turn", "clearance", "com")
COM_SCALE: Final = 10.0
_ROOT_AXES: Final = {"yaw": 1, "pitch": 0, "roll": 2}


def find_key_instants(problem: SpacetimeProblem, layout: ReducedLayout) -> tuple[tuple[int, float], ...]:
    """Phase and time [s] of every key that asks for an instant."""
    found: list[tuple[int, float]] = []
    for key in problem.keys:
        if key.kind not in KNOWN_KINDS:
            raise InputError(
                f"key '{key.kind}' of phase '{key.phase}'", f"The reduced space knows {', '.join(KNOWN_KINDS)}"
            )
        if key.at is not None:
            if not 0.0 <= key.at <= 1.0:
                raise InputError(f"key '{key.kind}' at {key.at}", "at is a share of its phase, 0 to 1")
            found.append(_phase_instant(layout, problem.phase_index(key.phase), key.at))
    return tuple(found)


def build_key_rows(scene: RowContext, problem: SpacetimeProblem) -> list[ReducedRows]:
    """Rows of all keys."""
    groups: list[ReducedRows] = []
    for key in problem.keys:
        phase = problem.phase_index(key.phase)
        nodes = [int(n) for n in np.flatnonzero(scene.nodes.phases == phase)]
        if key.at is not None:
            nodes = [scene.nodes.at(*_phase_instant(scene.layout, phase, key.at))]
        if key.kind in ("pose", "range", "turn"):
            # Coordinates at given values, or between given ends
            tree = scene.space.tree
            if key.kind == "turn":
                if key.axis not in AXES:
                    raise InputError(f"axis '{key.axis}'", f"It is one of {', '.join(AXES)}")
                axes = np.argmax(np.abs(tree.axes[scene.space.turns]), axis=1)
                wanted = {int(scene.space.turns[int(np.flatnonzero(axes == _ROOT_AXES[key.axis])[0])]): 0.0}
            else:
                wanted = {tree.index(name): float(value) for name, value in key.joints.items()}
            found = [(n, dof) for n in nodes for dof in wanted]
            index, dofs = np.array(found, dtype=np.int64).reshape(-1, 2).T
            goals = np.array([wanted[int(dof)] for dof in dofs])
            lower = goals if key.kind == "pose" else np.full(len(dofs), -np.inf if key.lower is None else key.lower)
            upper = goals if key.kind == "pose" else np.full(len(dofs), np.inf if key.upper is None else key.upper)
            groups.append(coordinate_rows(scene, f"key {key.kind}", index, dofs, (lower, upper)))
        elif key.kind == "com":
            groups.append(_com_rows(scene, key, nodes))
        else:
            # Clearance: the sole of a free foot, or any named point, above a height
            points = [scene.space.tree.point(key.point or "")] if key.point not in FEET else []
            if key.point in FEET:
                leg = scene.space.legs[FEET.index(key.point)]
                points = [(int(leg.dofs[6]), leg.heel_local), (int(leg.dofs[7]), leg.tip_local)]
            rows = [(n, dof, place) for n in nodes for dof, place in points]
            least = np.full(len(rows), 0.0 if key.lower is None else key.lower)
            groups.append(height_rows(scene, "key clearance", rows, least))
    return groups


def _phase_instant(layout: ReducedLayout, phase: int, share: float) -> tuple[int, float]:
    return phase, float(layout.edges[phase] + share * (layout.edges[phase + 1] - layout.edges[phase]))


def _com_rows(scene: RowContext, key: Key, nodes: list[int]) -> ReducedRows:
    """Centre of mass of a flight at a place; components without a value are free."""
    rows, lower, extra = list[int](), list[float](), list[tuple[int, int, float]]()
    for n in nodes:
        phase = int(scene.nodes.phases[n])
        if not scene.layout.is_flight(phase):
            raise InputError(f"key 'com' of phase '{key.phase}'", "In the reduced space it belongs to a flight")
        own = scene.variables.flight_of(phase)
        fall = float(scene.nodes.times[n] - scene.layout.edges[phase])
        for axis, goal in enumerate(key.target[:3]):
            if goal is None:
                continue
            extra += [
                (len(rows), int(own[axis]), COM_SCALE),
                (len(rows), int(own[3 + axis]), COM_SCALE * fall),
            ]
            drop = 0.5 * scene.gravity * fall**2 if axis == 1 else 0.0
            rows.append(n)
            lower.append(COM_SCALE * (goal + drop))
    index, ends = np.array(rows, dtype=np.int64), np.array(lower)
    empty = np.zeros((len(rows), scene.slots), dtype=bool)

    def evaluate(frame: NodeState) -> StateJet:
        return frame.jet(np.zeros((len(index), 1)))

    return scene.group("key com", index, (ends, ends), evaluate, mask=empty, is_linear=True, unknowns=extra)


MAX_SPREAD: Final = 0.95  # of both legs stretched to the sides: no farther can two feet be


def validate_reduced(problem: SpacetimeProblem, layout: ReducedLayout, space: ReducedSpace) -> None:
    """Refuse flights at the ends, feet that jump between plants, and plants that no two legs can reach.

    Raises:
        InputError: with the phase, and the distance where there is one.
    """
    _refuse_ignored_fields(problem)
    build_torque_limits(space.tree, problem)
    for phase in (0, layout.num_phases - 1):
        if layout.is_flight(phase):
            raise InputError(
                f"problem '{problem.name}' {'ends' if phase else 'begins'} in the air ('{problem.phases[phase].name}')",
                "In the reduced space a motion begins and ends on its feet",
            )
    for leg in (0, 1):
        for first, second in zip(layout.legs[leg][:-1], layout.legs[leg][1:], strict=True):
            if first.is_stance and second.is_stance:
                name = problem.phases[second.phases[0]].name
                raise InputError(
                    f"{FEET[leg]} has another plant in phase '{name}' without having left the first one",
                    "Put a phase between them in which it is free, or give both the same plant",
                )
    # Feet planted at once, or one after the other with no flight between: the legs reach both at that instant
    hips = float(np.linalg.norm(space.legs[0].hip_offset - space.legs[1].hip_offset))
    reach = hips + MAX_SPREAD * (space.legs[0].reach + space.legs[1].reach)
    for phase in range(layout.num_phases):
        for later in range(phase, min(phase + 2, layout.num_phases)):
            # Plants of a left and a right foot, one in each of two phases
            (l1, r1), (l2, r2) = layout.contacts[phase], layout.contacts[later]
            for left, right in ((l1, r2), (l2, r1)):
                if left is None or right is None:
                    continue
                apart = float(np.linalg.norm(np.subtract(left.position, right.position)))
                if apart > reach:
                    names = " and ".join(f"'{problem.phases[p].name}'" for p in sorted({phase, later}))
                    raise InputError(
                        f"the feet of phase {names} are planted {apart:.2f} m apart, this body reaches {reach:.2f} m",
                        "Put the plants nearer together, or a flight between them",
                    )


# Fields that mean nothing in the space of a behaviour: its own body, sole, guess and weights count there
IGNORED_FIELDS: Final = ("character", "flight", "impact", "guess", "height_m", "mass_kg", "start_com", "refine")
IGNORED_CONTACT_FIELDS: Final = ("half_extents_m", "twist_m", "max_tilt_deg")
KNOWN_WEIGHTS: Final = ("accel", "torque", "prior")


def _refuse_ignored_fields(problem: SpacetimeProblem) -> None:
    """Refuse settings that this space cannot honour, rather than leave them aside without a word."""
    usual = {item.name: item.default for item in fields(SpacetimeProblem)}
    for name in IGNORED_FIELDS:
        if getattr(problem, name) != usual[name]:
            raise InputError(
                f"{name} = {getattr(problem, name)!r} has no meaning in the reduced space",
                "Leave it out: body and guess are those of the behaviour; or use the full space",
            )
    for item in fields(problem.objective):
        if item.name not in KNOWN_WEIGHTS and getattr(problem.objective, item.name) > 0.0:
            raise InputError(
                f"the reduced space has no weight '{item.name}'", f"It has {', '.join(KNOWN_WEIGHTS)}; leave it out"
            )
    for phase in problem.phases:
        for contact in phase.contacts:
            for item in fields(Contact):
                if item.name in IGNORED_CONTACT_FIELDS and getattr(contact, item.name) != item.default:
                    raise InputError(
                        f"{item.name} of contact '{contact.point}' in phase '{phase.name}' has no meaning in the "
                        "reduced space",
                        "Leave it out: soles are those of the behaviour's body; or use the full space",
                    )


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
