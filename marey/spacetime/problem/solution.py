"""Solutions and their dense check: whether a motion holds between the instants at which it was solved.

The check is independent of the solver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from marey.base import FloatArray, IntArray, Result
from marey.dynamics import GRAVITY, JointTree, compute_aggregate, compute_point_motion
from marey.motion import Motion
from marey.numerics import SolveStatus, SQPIteration
from marey.spacetime.problem.definition import SpacetimeProblem
from marey.spacetime.problem.support import MOMENT_LABELS, build_support

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


@dataclass(frozen=True, slots=True)
class GroundExcess:
    """What the contacts of a motion were found to exceed."""

    cone: float  # [mg] beyond friction, or beyond the strength of a grip
    cop: float  # [m] pressure point outside the support
    moment: float  # [mg m]
    least: float  # [mg] lowest normal force
    drift: float  # [m] of contact points from their plants


def check_solution(tree: JointTree, problem: SpacetimeProblem, track: SolutionTrack) -> SolutionCheck:
    """Measure a motion against its problem.

    Args:
        tree: the character.
        problem: phases, contacts and keys; phases are numbered as in ``track.phases``.
        track: coordinates with exact derivatives, about four times denser than the frames of the solver.
    """

    def measure_ground(wrench: FloatArray) -> GroundExcess:
        cone = cop = moments = drift = 0.0
        least = np.inf
        for p, phase in enumerate(problem.phases):
            chosen = track.phases == p
            if not phase.contacts or not chosen.any():
                continue
            # Contact points away from their plants
            states = (track.q[chosen], track.qd[chosen], track.qdd[chosen])
            for contact in phase.contacts:
                at = compute_point_motion(tree, *states, *tree.points[contact.point]).position
                drift = max(drift, _largest_row(at - np.asarray(contact.position)))
            # Rows of the support under the wrench about its centre
            support, force = build_support(phase), wrench[chosen, :3]
            moment = wrench[chosen, 3:] - np.cross(support.centre, force)
            rows = np.concatenate([force, moment], axis=1) @ support.matrix.T
            below, above = support.lower - rows, rows - support.upper
            if support.friction is None:
                cone = max(cone, _largest(np.linalg.norm(force, axis=1) - support.max_force))
                moments = max(moments, _largest(np.maximum(below, above)))
                continue
            normal = force @ support.normal
            sideways = np.linalg.norm(force - normal[:, None] * support.normal, axis=1)
            cone = max(cone, _largest(sideways - support.friction * normal.clip(0.0)))
            # Distance of the pressure point beyond an edge, where the foot is loaded
            edges, loaded = below[:, 1 : 1 + len(support.hull)], normal > MIN_LOAD
            cop = max(cop, _largest(edges[loaded] / normal[loaded, None]))
            limited = np.array([label in MOMENT_LABELS for label in support.labels])
            moments, least = max(moments, _largest(below[:, limited])), min(least, float(normal.min()))
        return GroundExcess(cone, cop, moments, least, drift)

    over = max(_largest(tree.lower - track.q), _largest(track.q - tree.upper))
    weight = tree.mass * GRAVITY
    return measure_solution(
        tree, problem, track, measure_ground, weight=weight, root=np.arange(3), spin_floor=SPIN_FLOOR, over_rad=over
    )


def measure_solution(
    tree: JointTree,
    problem: SpacetimeProblem,
    track: SolutionTrack,
    measure_ground: Callable[[FloatArray], GroundExcess],
    *,
    weight: float,
    root: IntArray,
    spin_floor: float,
    over_rad: float,
) -> SolutionCheck:
    """Measure a motion on a dense grid.

    Args:
        tree: the character.
        problem: phases, contacts and keys.
        track: the motion.
        measure_ground: what contacts exceed under wrenches ``(T, 6)`` about the world's origin, over the weight.
        weight: of the body [N].
        root: coordinates of the root's position.
        spin_floor: [kg m^2/s] momentum below which drift is measured against this.
        over_rad: how far coordinates are beyond their limits.
    """
    whole = compute_aggregate(tree, track.q, track.qd, track.qdd, gravity=problem.gravity)
    wrench, com = whole.wrench / weight, np.asarray(whole.com)
    spin, velocity = np.asarray(whole.angular_momentum), np.asarray(whole.com_velocity)
    phases = problem.phases
    flying = np.array([phase.is_flight for phase in phases])[track.phases]
    # In flight nothing pushes, and nothing turns the body about its centre of mass
    about_com = wrench[:, 3:] - np.cross(com, wrench[:, :3])
    force, moment = _largest_row(wrench[flying, :3]), _largest_row(about_com[flying])
    # Spread of the angular momentum in each flight
    drift = drift_si = 0.0
    for p, phase in enumerate(phases):
        inside = spin[track.phases == p]
        if phase.is_flight and len(inside):
            mean = inside.mean(axis=0)
            away = float(np.linalg.norm(inside - mean, axis=1).max())
            drift_si = max(drift_si, away)
            drift = max(drift, away / max(float(np.linalg.norm(mean)), spin_floor))
    # Lowest height above what clearance keys ask for; with "@joint" the point is the joint that carries it
    clearance, names = np.inf, [phase.name for phase in phases]
    for key in problem.keys:
        if key.kind == "clearance" and key.point is not None and key.at is None:
            chosen = track.phases == names.index(key.phase)
            bare, _, joint = key.point.partition("@")
            dof, place = tree.points[bare]
            place = np.zeros(3) if joint else place
            motion = compute_point_motion(tree, track.q[chosen], track.qd[chosen], track.qdd[chosen], dof, place)
            clearance = min(clearance, float(motion.position[:, 1].min()) - (key.lower or 0.0))
    ground = measure_ground(wrench)
    borders = np.flatnonzero((np.diff(track.phases) != 0) & (np.diff(track.times) < 1e-9))
    q = track.q[:, root]
    return SolutionCheck(
        samples=len(track.times),
        wrench_residual=max(force, moment, ground.cone, ground.moment, -ground.least, 0.0),
        flight_force=force,
        flight_moment=moment,
        angular_momentum_drift=drift,
        angular_momentum_drift_si=drift_si,
        plant_drift_m=ground.drift,
        cone_excess=ground.cone,
        cop_excess_m=ground.cop,
        moment_excess=ground.moment,
        min_normal_force=ground.least,
        max_force=_largest_row(wrench[:, :3]),
        root_jump_m=_largest_row(q[borders + 1] - q[borders]),
        com_velocity_jump=_largest_row(velocity[borders + 1] - velocity[borders]),
        clearance_m=clearance,
        limit_excess_rad=over_rad,
    )


def frame_instants(edges: FloatArray, rate_hz: float) -> tuple[FloatArray, IntArray]:
    """Times ``(T,)`` [s] at a frame rate, the last at or before the end, and the phase of each; edges ``(P + 1,)``."""
    count = int(np.floor(edges[-1] * rate_hz + 1e-6)) + 1
    times = np.minimum(np.arange(count) / rate_hz, edges[-1])
    return times, np.clip(np.searchsorted(edges, times + 1e-9, side="right") - 1, 0, len(edges) - 2)


def _largest(values: FloatArray) -> float:
    return float(values.max(initial=0.0))


def _largest_row(rows: FloatArray) -> float:
    return float(np.linalg.norm(rows, axis=1).max(initial=0.0))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SpacetimeResult(Result):
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
