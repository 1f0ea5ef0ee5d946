"""Solutions and their dense check: whether a motion holds between the instants at which it was solved.

The check is independent of the solver.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.dynamics import JointTree, compute_aggregate, compute_point_motion
from marey.motion import Motion
from marey.numerics import SolveStatus, SQPIteration
from marey.spacetime.problem.definition import ProblemPhase, SpacetimeProblem
from marey.spacetime.problem.support import MOMENT_LABELS, PhaseSupport, build_support

STANDARD_GRAVITY = 9.81  # [m/s^2]
MIN_LOAD = 0.2  # [mg] normal force above which the pressure point counts
SPIN_FLOOR = 5.0  # [kg m^2/s] momentum below which drift is measured against this


@dataclass(frozen=True, slots=True)
class SolutionCheck:
    """Largest departures from physics and from the problem on a dense grid; mg is the body's weight on earth."""

    samples: int
    wrench_residual: float  # [mg] force that no contact can give: flight, cone, pressure (moments over 1 m), pull
    flight_force: float  # [mg] in flight
    flight_moment: float  # [mg m] about the centre of mass in flight
    angular_momentum_drift: float  # [-] of its size in the flight, or of 5 kg m^2/s if that is more
    angular_momentum_drift_si: float  # [kg m^2/s]
    plant_drift_m: float  # [m] contact points away from their plants
    cone_excess: float  # [mg] beyond friction, or beyond the strength of a grip
    cop_excess_m: float  # [m] pressure point outside the support, where the load is above 0.2 mg
    moment_excess: float  # [mg m] pressure, twist or grip moment beyond what the support allows
    min_normal_force: float  # [mg] lowest force of a foot; negative pulls
    max_force: float  # [mg]
    root_jump_m: float  # [m] across phase borders
    com_velocity_jump: float  # [m/s]
    clearance_m: float  # [m] lowest height above what clearance keys ask; inf without any
    limit_excess_rad: float  # [rad] beyond the character's limits

    @property
    def has_physics(self) -> bool:
        """Wrench within 5 % of the weight, momentum to 2 %, friction held to 5 %."""
        return self.wrench_residual < 0.05 and self.angular_momentum_drift < 0.02 and self.cone_excess < 0.05

    @property
    def is_valid(self) -> bool:
        """Physics holds, and plants to 1e-6 m."""
        return self.has_physics and self.plant_drift_m < 1e-6

    def to_dict(self) -> dict[str, float | int | None]:
        """Plain numbers by name; None for what does not exist, such as the clearance without any key."""
        return {name: value if np.isfinite(value) else None for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True, eq=False)
class SolutionTrack:
    """A motion on a dense grid; instants on a border appear once for each side."""

    times: FloatArray  # (T,) [s]
    phases: IntArray  # (T,)
    q: FloatArray  # (T, dofs)
    qd: FloatArray
    qdd: FloatArray


def check_solution(tree: JointTree, problem: SpacetimeProblem, track: SolutionTrack) -> SolutionCheck:
    """Measure a motion against its problem.

    Args:
        tree: the character.
        problem: phases, contacts and keys; phases are numbered as in ``track.phases``.
        track: coordinates with exact derivatives, about four times denser than the frames of the solver.
    """
    whole = compute_aggregate(tree, track.q, track.qd, track.qdd, gravity=problem.gravity)
    weight = tree.mass * STANDARD_GRAVITY
    wrench = whole.wrench / weight
    spin, com = np.asarray(whole.angular_momentum), np.asarray(whole.com)
    phases = [phase for phase in problem.phases if phase.duration_s > 0.0 or phase.contacts]
    parts = [_SupportExcess() for _ in phases]
    for p, phase in enumerate(phases):
        chosen = track.phases == p
        if phase.contacts and chosen.any():
            parts[p] = _check_support(phase, wrench[chosen], compute_plant_drift(tree, phase, track, chosen))
    flying = np.array([phase.is_flight for phase in phases])[track.phases]
    about_com = wrench[:, 3:] - np.cross(com, wrench[:, :3])
    force = _max_abs(np.linalg.norm(wrench[flying, :3], axis=1))
    moment = _max_abs(np.linalg.norm(about_com[flying], axis=1))
    drift, drift_si = _spin_drift(spin, track.phases, phases)
    jumps = _velocity_jumps(track, np.asarray(whole.com_velocity))
    cone, press = max(p.cone for p in parts), max(p.moment for p in parts)
    least = min(p.least for p in parts)
    return SolutionCheck(
        samples=len(track.times),
        wrench_residual=max(force, moment, cone, press, -least, 0.0),
        flight_force=force,
        flight_moment=moment,
        angular_momentum_drift=drift,
        angular_momentum_drift_si=drift_si,
        plant_drift_m=max(p.drift for p in parts),
        cone_excess=cone,
        cop_excess_m=max(p.cop for p in parts),
        moment_excess=press,
        min_normal_force=least,
        max_force=_max_abs(np.linalg.norm(wrench[:, :3], axis=1)),
        root_jump_m=jumps[0],
        com_velocity_jump=jumps[1],
        clearance_m=compute_clearance(tree, problem, track, phases),
        limit_excess_rad=_limit_excess(tree, track.q),
    )


@dataclass(frozen=True, slots=True)
class _SupportExcess:
    """What one support phase was found to exceed."""

    cone: float = 0.0
    cop: float = 0.0
    moment: float = 0.0
    least: float = np.inf
    drift: float = 0.0


def _max_abs(values: FloatArray) -> float:
    return float(values.max()) if values.size else 0.0


def _check_support(phase: ProblemPhase, wrench: FloatArray, drift: float) -> _SupportExcess:
    support = build_support(phase)
    force = wrench[:, :3]
    moment = wrench[:, 3:] - np.cross(support.centre, force)
    rows = np.concatenate([force, moment], axis=1) @ support.matrix.T
    below, above = support.lower - rows, rows - support.upper
    if support.friction is None:
        strength = np.linalg.norm(force, axis=1) - support.max_force
        return _SupportExcess(
            _max_abs(strength.clip(0.0)), 0.0, _max_abs(np.maximum(below, above).clip(0.0)), np.inf, drift
        )
    normal = force @ support.normal
    sideways = np.linalg.norm(force - normal[:, None] * support.normal, axis=1)
    cone = (sideways - support.friction * normal.clip(0.0)).clip(0.0)
    is_moment = np.array([label in MOMENT_LABELS for label in support.labels])
    moments = below[:, is_moment].clip(0.0)
    return _SupportExcess(
        _max_abs(cone), _cop_excess(support, normal, below), _max_abs(moments), float(normal.min()), drift
    )


def _cop_excess(support: PhaseSupport, normal: FloatArray, below: FloatArray) -> float:
    """Distance of the pressure point beyond an edge, where the foot is loaded [m]."""
    edges = below[:, 1 : 1 + len(support.hull)]
    loaded = normal > MIN_LOAD
    return _max_abs((edges[loaded] / normal[loaded, None]).clip(0.0))


def compute_plant_drift(tree: JointTree, phase: ProblemPhase, track: SolutionTrack, chosen: BoolArray) -> float:
    """Largest distance of the contact points of a phase from their plants [m]."""
    worst = 0.0
    for contact in phase.contacts:
        dof, place = tree.points[contact.point]
        at = compute_point_motion(tree, track.q[chosen], track.qd[chosen], track.qdd[chosen], dof, place).position
        worst = max(worst, _max_abs(np.linalg.norm(at - np.asarray(contact.position), axis=1)))
    return worst


def _spin_drift(spin: FloatArray, numbers: IntArray, phases: list[ProblemPhase]) -> tuple[float, float]:
    """Spread of the angular momentum about the centre of mass in each flight, relative and absolute."""
    relative = absolute = 0.0
    for p, phase in enumerate(phases):
        inside = spin[numbers == p]
        if not phase.is_flight or not len(inside):
            continue
        mean = inside.mean(axis=0)
        away = float(np.linalg.norm(inside - mean, axis=1).max())
        absolute = max(absolute, away)
        relative = max(relative, away / max(float(np.linalg.norm(mean)), SPIN_FLOOR))
    return relative, absolute


def _velocity_jumps(track: SolutionTrack, com_velocity: FloatArray) -> tuple[float, float]:
    borders = np.flatnonzero((np.diff(track.phases) != 0) & (np.diff(track.times) < 1e-9))
    slides = slice(0, 3)
    place = np.linalg.norm(track.q[borders + 1, slides] - track.q[borders, slides], axis=1)
    return _max_abs(place), _max_abs(np.linalg.norm(com_velocity[borders + 1] - com_velocity[borders], axis=1))


def _limit_excess(tree: JointTree, q: FloatArray) -> float:
    return max(_max_abs((tree.lower - q).clip(0.0)), _max_abs((q - tree.upper).clip(0.0)))


def _find_point(tree: JointTree, name: str) -> tuple[int, FloatArray]:
    """Link and place of a named point; with ``@joint``, of the joint that carries it."""
    bare, _, joint = name.partition("@")
    dof, place = tree.points[bare]
    return dof, np.zeros(3) if joint else place


def compute_clearance(
    tree: JointTree, problem: SpacetimeProblem, track: SolutionTrack, phases: list[ProblemPhase]
) -> float:
    """Lowest height above what the clearance keys ask for [m]; infinite without any."""
    lowest = np.inf
    names = [phase.name for phase in phases]
    for key in problem.keys:
        if key.kind != "clearance" or key.point is None or key.at is not None:
            continue
        chosen = track.phases == names.index(key.phase)
        dof, place = _find_point(tree, key.point)
        height = compute_point_motion(tree, track.q[chosen], track.qd[chosen], track.qdd[chosen], dof, place).position[
            :, 1
        ]
        lowest = min(lowest, float(height.min()) - (key.lower or 0.0))
    return lowest


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SpacetimeResult:
    """A motion, how it was found, and how well it holds between the frames it was solved at."""

    status: SolveStatus
    motion: Motion
    guess: Motion  # where the search started
    violation: float  # largest, of scaled rows
    iterations: int
    seconds: float  # wall time of the whole, reading and checking apart
    objective: float
    terms: dict[str, float]  # the objective by name
    worst: tuple[tuple[str, float], ...]  # most violated rows in words, worst first
    check: SolutionCheck
    history: tuple[SQPIteration, ...]
    advice: str
    problem: SpacetimeProblem | None = None  # as solved, free durations settled
    counts: dict[str, int] = field(default_factory=dict[str, int])  # unknowns, rows, frames, entries of the Jacobian
    levels: tuple[int, ...] = ()  # iterations of each level of refinement, coarsest first

    @property
    def is_solved(self) -> bool:
        """Whether the tolerance was reached."""
        return self.status is SolveStatus.CONVERGED

    @property
    def sentence(self) -> str:
        """What happened, in one line."""
        checked = self.check
        if not self.is_solved:
            rows = "; ".join(f"{name} ({value:.2g})" for name, value in self.worst[:3])
            ended = f"{self.status.value} after {self.iterations} iterations"
            return f"{self.motion.name}: {ended}. Worst: {rows or 'none'}. {self.advice}"
        drift = f"momentum drift {100.0 * checked.angular_momentum_drift:.1f} %"
        return (
            f"{self.motion.name}: {self.iterations} iterations, {self.seconds:.2f} s, violation {self.violation:.1e}; "
            f"between frames: wrench residual {100.0 * checked.wrench_residual:.1f} % of body weight, {drift}"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data, without the motions."""
        return {
            "status": self.status.value,
            "violation": self.violation,
            "iterations": self.iterations,
            "seconds": self.seconds,
            "objective": self.objective,
            "terms": self.terms,
            "worst": [{"row": name, "violation": value} for name, value in self.worst],
            "check": self.check.to_dict(),
            "advice": self.advice,
            "counts": self.counts,
            "levels": list(self.levels),
        }

    def __repr__(self) -> str:
        numbers = f"{self.iterations} iterations, {self.seconds:.2f} s, violation {self.violation:.1e}"
        return f"SpacetimeResult({self.status}, {numbers}, wrench residual {self.check.wrench_residual:.3f} mg)"
