"""Solutions and their dense check: whether a motion holds between the instants at which it was solved.

The check is independent of the solver: it knows the motion, its contacts as points that can push, and the
surroundings, and measures on at least a thousand samples.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray, Result
from marey.dynamics import GRAVITY, JointTree, compute_aggregate, compute_point_positions
from marey.motion import Motion
from marey.numerics import SolveStatus, SQPIteration
from marey.spacetime.problem.definition import SpacetimeProblem, measure_pose
from marey.spacetime.problem.obstacles import measure_gaps
from marey.spacetime.problem.supply import (
    SolutionTrack,
    SupplyPoints,
    build_torque_limits,
    find_contact_points,
    measure_supply,
    measure_torque_excess,
)

MIN_SAMPLES: Final = 1000
SPIN_FLOOR: Final = 5.0  # [kg m^2/s] momentum below which drift is measured against this

# Largest departure of a motion that may be called solved, with the words and the unit of the report
LIMITS: Final[dict[str, tuple[float, str, float, str]]] = {
    "wrench_residual": (0.05, "a force that no contact gives", 100.0, "% of body weight"),
    "cone_excess": (0.05, "sideways force beyond friction, or beyond the grip", 100.0, "% of body weight"),
    "angular_momentum_drift": (0.02, "angular momentum drifts in flight by", 100.0, "%"),
    "plant_drift_m": (1e-3, "a plant moves by", 1e3, "mm"),
    "cop_excess_m": (0.01, "pressure outside the sole by", 1e3, "mm"),
    "limit_excess_rad": (np.deg2rad(2.0), "a joint beyond its limits by", 180.0 / np.pi, "°"),
    "penetration_m": (5e-3, "the body enters its surroundings by", 1e3, "mm"),
    "pose_error_rad": (np.deg2rad(1.0), "a key pose is missed by", 180.0 / np.pi, "°"),
    "torque_excess": (0.05, "a torque beyond its limit by", 100.0, "% of it"),
    "root_jump_m": (1e-3, "the root jumps between phases by", 1e3, "mm"),
}


class CheckFault(NamedTuple):
    """One quantity of a check that is beyond its limit."""

    name: str
    value: float
    limit: float
    time_s: float

    @property
    def words(self) -> str:
        """The fault as a phrase."""
        _, words, factor, unit = LIMITS[self.name]
        return f"{words} {factor * self.value:.3g} {unit} at {self.time_s:.2f} s (allowed {factor * self.limit:g})"


@dataclass(frozen=True, slots=True)
class SolutionCheck:
    """Largest departures from physics and from the problem on a dense grid; mg is the body's weight on earth."""

    samples: int
    wrench_residual: float  # [mg] force, and moment over 1 m, that no contact can give
    flight_force: float  # [mg] in flight
    flight_moment: float  # [mg m] about the centre of mass in flight
    angular_momentum_drift: float  # [-] of its size in the flight, or of a floor if that is more
    angular_momentum_drift_si: float  # [kg m^2/s]
    plant_drift_m: float  # [m] contact points away from their plants
    cone_excess: float  # [mg] beyond friction, or beyond the strength of a grip
    cop_excess_m: float  # [m] pressure point outside the support, where the load is above 0.2 mg
    moment_excess: float  # [mg m] the part of the residual that is a moment
    min_normal_force: float  # [mg] lowest force of feet; negative pulls
    max_force: float  # [mg]
    root_jump_m: float  # [m] across phase borders
    com_velocity_jump: float  # [m/s]
    clearance_m: float  # [m] lowest height above what clearance keys ask; inf without any
    limit_excess_rad: float  # [rad] beyond the character's limits
    pose_error_rad: float = 0.0  # [rad] of key poses at an instant
    penetration_m: float = 0.0  # [m] of the body's capsules into floor, boxes and bars
    torque_excess: float = 0.0  # [-] of a torque beyond its limit, over the limit
    times: dict[str, float] = field(default_factory=dict[str, float])  # [s] when each is largest
    entered: str = ""  # which part of the body enters what
    overloaded: str = ""  # coordinate whose torque is farthest beyond its limit

    @property
    def faults(self) -> tuple[CheckFault, ...]:
        """What is beyond its limit, worst first."""
        found = [
            CheckFault(name, float(getattr(self, name)), limit, self.times.get(name, 0.0))
            for name, (limit, *_) in LIMITS.items()
            if getattr(self, name) > limit
        ]
        return tuple(sorted(found, key=lambda fault: -fault.value / fault.limit))

    @property
    def has_physics(self) -> bool:
        """Wrench within 5 % of the weight, momentum to 2 %, friction held to 5 %."""
        return self.wrench_residual < 0.05 and self.angular_momentum_drift < 0.02 and self.cone_excess < 0.05

    @property
    def is_valid(self) -> bool:
        """Nothing is beyond its limit, and plants hold to 1e-6 m."""
        return not self.faults and self.has_physics and self.plant_drift_m < 1e-6

    @property
    def sentence(self) -> str:
        """What is beyond its limit, by how much and when; empty if nothing is."""
        names = {"penetration_m": self.entered, "torque_excess": self.overloaded}
        words = [(fault.words, names.get(fault.name, "")) for fault in self.faults]
        return "; ".join(f"{text} ({name})" if name else text for text, name in words)

    def to_dict(self) -> dict[str, float | int | None]:
        """Plain numbers by name; None for what does not exist, such as the clearance without any key."""
        own = {name: value for name, value in asdict(self).items() if name not in ("times", "entered", "overloaded")}
        return {name: value if np.isfinite(value) else None for name, value in own.items()}


def check_solution(tree: JointTree, problem: SpacetimeProblem, track: SolutionTrack) -> SolutionCheck:
    """Measure a motion whose contacts are those of the problem.

    Args:
        tree: the character.
        problem: phases, contacts and keys; phases are numbered as in ``track.phases``.
        track: coordinates with exact derivatives.
    """
    points = find_contact_points(tree, problem, track)
    lower, upper = tree.lower.copy(), tree.upper.copy()
    for name, (low, high) in problem.limits.items():
        if name in tree.names:
            lower[tree.index(name)], upper[tree.index(name)] = low, high
    beyond = np.maximum(lower - track.q, track.q - upper)
    return measure_solution(tree, problem, track, points, beyond=beyond, root=np.arange(3))


def measure_solution(
    tree: JointTree,
    problem: SpacetimeProblem,
    track: SolutionTrack,
    points: SupplyPoints,
    *,
    beyond: FloatArray,
    root: IntArray,
    spin_floor: float = SPIN_FLOOR,
) -> SolutionCheck:
    """Measure a motion on a dense grid.

    Args:
        tree: the character.
        problem: phases, contacts, keys and surroundings.
        track: the motion.
        points: what can push at every sample.
        beyond: how far coordinates are beyond their limits ``(T, D)`` [rad].
        root: coordinates of the root's position.
        spin_floor: [kg m^2/s] momentum below which drift is measured against this.
    """
    whole = compute_aggregate(tree, track.q, track.qd, track.qdd, gravity=problem.gravity)
    wrench, com = whole.wrench / (tree.mass * GRAVITY), np.asarray(whole.com)
    spin, velocity = np.asarray(whole.angular_momentum), np.asarray(whole.com_velocity)
    phases, count = problem.phases, len(track.times)
    flying = np.array([phase.is_flight for phase in phases])[track.phases]
    # In flight nothing pushes, and nothing turns the body about its centre of mass
    about_com = np.concatenate([wrench[:, :3], wrench[:, 3:] - np.cross(com, wrench[:, :3])], axis=1)
    force, moment = (np.where(flying, np.linalg.norm(about_com[:, s], axis=1), 0.0) for s in (slice(3), slice(3, 6)))
    missing, cone, cop, least = measure_supply(wrench, points, ~flying)
    residual = np.where(flying, np.maximum(force, moment), np.linalg.norm(missing, axis=1))
    # Spread of the angular momentum in each flight
    spread, share = np.zeros(count), np.zeros(count)
    for p in np.flatnonzero([phase.is_flight for phase in phases]):
        own = track.phases == p
        if own.any():
            mean = spin[own].mean(axis=0)
            spread[own] = np.linalg.norm(spin[own] - mean, axis=1)
            share[own] = spread[own] / max(float(np.linalg.norm(mean)), spin_floor)
    # Capsules of the body in floor, boxes and bars
    depth, entered = np.zeros(count), [""] * 0
    for capsule, obstacle, gap in measure_gaps(tree, problem, track.q, track.phases):
        if float(-gap.min(initial=0.0)) > float(depth.max(initial=0.0)):
            entered = [f"{capsule.name} in {obstacle.name}"]
        depth = np.maximum(depth, -gap)
    # Key poses at the sample nearest to their instant
    posed, edges = np.zeros(count), np.concatenate([[0.0], np.cumsum([phase.duration_s for phase in phases])])
    for key in (key for key in problem.keys if key.kind == "pose" and key.at is not None):
        p = problem.phase_index(key.phase)
        away = np.abs(track.times - edges[p] - float(key.at or 0.0) * (edges[p + 1] - edges[p]))
        n = int(np.argmin(np.where(track.phases == p, away, np.inf)))
        posed[n] = max(posed[n], measure_pose(tree, key, track.q[n]))
    # Torques beyond what the problem allows, for the best sharing of loads
    limits = build_torque_limits(tree, problem)
    torques = measure_torque_excess(tree, limits, track, points, wrench=wrench, gravity=problem.gravity)
    overloaded = tree.names[int(limits.dofs[np.argmax(torques.max(axis=0))])] if torques.any() else ""
    # Jumps across borders of phases
    jump, leap = np.zeros(count), np.zeros(count)
    borders = np.flatnonzero((np.diff(track.phases) != 0) & (np.diff(track.times) < 1e-9))
    jump[borders] = np.linalg.norm(np.diff(track.q[:, root], axis=0)[borders], axis=1)
    leap[borders] = np.linalg.norm(np.diff(velocity, axis=0)[borders], axis=1)
    measured = {
        "wrench_residual": residual,
        "flight_force": force,
        "flight_moment": moment,
        "angular_momentum_drift": share,
        "angular_momentum_drift_si": spread,
        "plant_drift_m": points.drift,
        "cone_excess": cone,
        "cop_excess_m": cop,
        "moment_excess": np.linalg.norm(missing[:, 3:], axis=1),
        "max_force": np.linalg.norm(wrench[:, :3], axis=1),
        "root_jump_m": jump,
        "com_velocity_jump": leap,
        "limit_excess_rad": beyond.max(axis=1, initial=0.0),
        "penetration_m": depth,
        "pose_error_rad": posed,
        "torque_excess": torques.max(axis=1, initial=0.0),
    }
    return SolutionCheck(
        samples=count,
        min_normal_force=float(least.min(initial=np.inf)),
        clearance_m=_measure_clearance(tree, problem, track),
        times={name: float(track.times[np.argmax(values)]) for name, values in measured.items()},
        entered="".join(entered),
        overloaded=overloaded,
        **{name: float(values.max(initial=0.0)) for name, values in measured.items()},
    )


def _measure_clearance(tree: JointTree, problem: SpacetimeProblem, track: SolutionTrack) -> float:
    """Lowest height above what clearance keys ask for; with "@joint" the point is the joint that carries it."""
    clearance, names = np.inf, [phase.name for phase in problem.phases]
    for key in problem.keys:
        if key.kind == "clearance" and key.point is not None and key.at is None:
            chosen = track.phases == names.index(key.phase)
            bare, _, joint = key.point.partition("@")
            dof, place = tree.points[bare]
            place = np.zeros(3) if joint else place
            at = compute_point_positions(tree, track.q[chosen], [dof], [place])
            clearance = min(clearance, float(at[..., 1].min()) - (key.lower or 0.0))
    return clearance


def settle_status(status: SolveStatus, check: SolutionCheck, advice: str) -> tuple[SolveStatus, str]:
    """Status and advice after the check: what holds at the frames of the solver only is not solved."""
    if status is not SolveStatus.CONVERGED or not check.faults:
        return status, advice
    return SolveStatus.STALLED, f"Between its frames {check.sentence}. {BETWEEN_FRAMES_ADVICE}"


BETWEEN_FRAMES_ADVICE: Final = "Raise frames_per_span or refine, shorten span_s, or ask for less."


def frame_instants(edges: FloatArray, rate_hz: float) -> tuple[FloatArray, IntArray]:
    """Times ``(T,)`` [s] at a frame rate, the last at or before the end, and the phase of each; edges ``(P + 1,)``."""
    count = int(np.floor(edges[-1] * rate_hz + 1e-6)) + 1
    times = np.minimum(np.arange(count) / rate_hz, edges[-1])
    return times, np.clip(np.searchsorted(edges, times + 1e-9, side="right") - 1, 0, len(edges) - 2)


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
        if not self.is_solved and self.violation <= 1e-4 and checked.faults:
            return f"{self.motion.name}: not solved after {self.iterations} iterations. {self.advice}"
        if not self.is_solved:
            rows = "; ".join(f"{name} ({value:.2g})" for name, value in self.worst[:3])
            ended = f"{self.status.value} after {self.iterations} iterations"
            # Rows that hold each other up are off by little; what the motion lacks says why
            lacks = f" As it is, {checked.sentence}." if checked.faults else ""
            return f"{self.motion.name}: {ended}. Worst: {rows or 'none'}.{lacks} {self.advice}"
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
            "faults": [{**fault._asdict(), "words": fault.words} for fault in self.check.faults],
            "advice": self.advice,
            "counts": self.counts,
            "levels": list(self.levels),
        }

    def __repr__(self) -> str:
        numbers = f"{self.iterations} iterations, {self.seconds:.2f} s, violation {self.violation:.1e}"
        return f"SpacetimeResult({self.status}, {numbers}, wrench residual {self.check.wrench_residual:.3f} mg)"
