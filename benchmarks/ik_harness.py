"""What the study of inverse kinematics measures: a solver follows the goals of a clip, frame after frame.

The protocol is that of [Engell2012]_ §6: positions of hands, feet, pelvis and head are the goals, each solve starts
from the answer before, every method gets as many iterations as fit into the same slot of time. Objectives are in the
source's unit of 0.2 m, squared.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from marey.base import FloatArray
from marey.kinematics import JointLimits, PointTask, solve_ik
from marey.lie import SO3, geodesic_distance
from marey.motion import Motion
from marey.skeleton import Pose, Skeleton, role_map

RAW = {"root": "free", "feet": "free", "follow": False}  # the solvers alone, without what posing assumes of a person
UNIT_M = 0.20  # [m] the source's unit of length
TOLERANCE_M = 0.05 * UNIT_M  # [m] the source's tolerance, 1 cm
SHORT_LIMB_M = 0.25  # [m] a goal that moves by x turns some joint by about x over the shortest limb
STILL_RAD = 0.01  # [rad] added to what the goals ask for: turns below this are no jump, however still the goals
ROLES = ("left_wrist", "right_wrist", "left_foot", "right_foot", "pelvis", "head")


@dataclass(frozen=True)
class Solver:
    """A method by name, with its variant and step if it has any."""

    method: str
    variant: str | None = None
    step: float | None = None

    @property
    def name(self) -> str:
        """The method, and what makes it special."""
        return " ".join(str(part) for part in (self.method, self.variant, self.step) if part is not None)

    @property
    def options(self) -> dict[str, Any]:
        """What ``solve_ik`` takes."""
        return {"method": self.method, "variant": self.variant, "step": self.step}


SOLVERS = (
    Solver("projected-lm"),
    Solver("projected-dogleg"),
    Solver("pg-armijo", "bb"),
    Solver("pg-armijo", "unit"),
    Solver("projected-cg"),
    Solver("dls"),
    Solver("pseudo-inverse"),
    Solver("svd-clamp"),
    Solver("jacobian-transpose", "fixed"),
    Solver("jacobian-transpose", "buss"),
    Solver("jacobian-transpose", "meredith-maddock"),
    Solver("ccd"),
    Solver("two-bone"),
)


@dataclass(frozen=True, eq=False)
class Course:
    """Goals to follow, and the poses they were taken from."""

    skeleton: Skeleton
    joints: tuple[int, ...]  # (K,) whose places are goals
    goals: FloatArray  # (N, K, 3) [m]
    roots: FloatArray  # (N, 3) [m] of the reference
    rotations: SO3  # batch (N, J) of the reference
    interval_s: float
    limits: JointLimits | None
    is_carried: bool = False  # the root follows the reference before each solve

    def pose(self, k: int) -> Pose:
        """The reference in a frame."""
        return Pose(self.skeleton, self.roots[k], self.rotations[k])

    def tasks(self, k: int) -> list[PointTask]:
        """The goals of a frame."""
        return [PointTask(joint, goal) for joint, goal in zip(self.joints, self.goals[k], strict=True)]

    def for_solver(self, solver: Solver) -> Course:
        """The same course; for a method that moves limbs alone, without pelvis and head and with the root carried."""
        if solver.method != "two-bone" or self.is_carried:
            return self
        return replace(self, joints=self.joints[:4], goals=self.goals[:, :4], is_carried=True)

    def start(self, before: Pose, k: int) -> Pose:
        """Where frame ``k`` begins: at the answer before, its root perhaps carried along."""
        if not self.is_carried:
            return before
        turns = np.concatenate([self.rotations.wxyz[k, :1], before.rotations.wxyz[1:]])
        return Pose(self.skeleton, self.roots[k], SO3(turns))

    def stretched(self, factor: float) -> Course:
        """Goals moved away from the pelvis, out of reach above about 1.05."""
        middle = self.goals[:, -2:-1]
        return replace(self, goals=middle + factor * (self.goals - middle))

    def shaken(self, deviation_m: float, rng: np.random.Generator) -> Course:
        """Goals with noise."""
        return replace(self, goals=self.goals + rng.normal(0.0, deviation_m, self.goals.shape))


def course(motion: Motion, interval_s: float, count: int, limits: JointLimits | None) -> Course:
    """Sample a clip at an interval, forth and back, so that any clip gives any number of frames."""
    ahead = np.round(np.arange(count) * interval_s * motion.rate_hz).astype(int) % max(1, 2 * (len(motion) - 1))
    rows = np.where(ahead < len(motion), ahead, 2 * (len(motion) - 1) - ahead)
    roles = role_map(motion.skeleton)
    joints = tuple(roles[name] for name in ROLES)
    places, roots = motion.joint_positions()[rows], motion.root_positions[rows]
    return Course(motion.skeleton, joints, places[:, list(joints)], roots, motion.rotations[rows], interval_s, limits)


@dataclass(frozen=True, eq=False)
class Log:
    """What happened in each frame but the first; ``shake`` begins with the fourth."""

    objective: FloatArray  # [unit²] sum of squared goal errors
    start_objective: FloatArray  # [unit²] the same before the solve
    goal_error_m: FloatArray  # [m] of the worst goal
    iterations: FloatArray
    evaluations: FloatArray
    seconds: FloatArray
    violation_rad: FloatArray
    turn_rad: FloatArray  # [rad] largest turn of a joint since the frame before
    jump: FloatArray  # [-] that turn over the one that the goals ask for
    shake: FloatArray  # [-] third differences of the joints' places over those of the reference
    stray_m: FloatArray  # [m] mean distance of joints without goals to the reference

    @property
    def diverged(self) -> FloatArray:
        """Frames that end worse than they began, or in nothing finite."""
        worse = self.objective > self.start_objective * (1.0 + 1e-9) + (TOLERANCE_M / UNIT_M) ** 2
        return (worse | ~np.isfinite(self.objective)).astype(float)

    @staticmethod
    def joined(logs: Sequence[Log]) -> Log:
        """Frames of several clips as one."""
        return Log(*(np.concatenate([getattr(log, name) for log in logs]) for name in Log.__dataclass_fields__))


def follow(way: Course, solver: Solver, max_iterations: int | None, *, tolerance_m: float = 1e-3) -> Log:
    """Solve frame after frame, each from the answer before; the first, from the reference, is not counted."""
    way = way.for_solver(solver)
    limits, rows = way.limits, []
    options: dict[str, Any] = {
        "limits": limits,
        "tolerance_m": tolerance_m,
        "on_failure": "return",
        **RAW,
        **solver.options,
    }
    before = solve_ik(way.skeleton, way.tasks(0), start=way.pose(0), **options).pose
    poses = [before]
    for k in range(1, len(way.goals)):
        start, tasks = way.start(before, k), way.tasks(k)
        began = time.perf_counter()
        found = solve_ik(way.skeleton, tasks, start=start, max_iterations=max_iterations, **options)
        spent, before = time.perf_counter() - began, found.pose
        poses.append(before)
        broken = 0.0 if limits is None else float(limits.violation(before).max())
        f, start_f = _objective(before, way, k), _objective(start, way, k)
        rows.append((f, start_f, found.position_error_m, found.iterations, found.evaluations, spent, broken))
    return Log(*np.array(rows, dtype=float).T, *_smoothness(way, poses))


def _objective(pose: Pose, way: Course, k: int) -> float:
    return float(((pose.joint_positions()[list(way.joints)] - way.goals[k]) ** 2).sum()) / UNIT_M**2


def _smoothness(way: Course, poses: Sequence[Pose]) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Largest turns, jumps, shake and stray of frames 1 to N - 1."""
    turns = SO3.stack([pose.rotations for pose in poses], axis=0)
    places = np.stack([pose.joint_positions() for pose in poses])
    wanted = np.stack([way.pose(k).joint_positions() for k in range(len(poses))])
    turn = geodesic_distance(turns[1:], turns[:-1]).max(axis=1)
    driven = np.linalg.norm(np.diff(way.goals, axis=0), axis=-1).max(axis=1) / SHORT_LIMB_M
    others = [j for j in range(way.skeleton.num_joints) if j not in way.joints]
    stray = np.linalg.norm(places - wanted, axis=-1)[1:, others].mean(axis=1)
    return turn, turn / (driven + STILL_RAD), _shake(places, wanted), stray


def _shake(places: FloatArray, wanted: FloatArray) -> FloatArray:
    """Root mean square of third differences ``(N - 3,)`` over that of the whole reference."""
    ours, theirs = (np.sqrt((np.diff(p, n=3, axis=0) ** 2).sum(axis=-1).mean(axis=1)) for p in (places, wanted))
    usual = float(np.sqrt((theirs**2).mean())) if len(theirs) else 0.0
    return ours / max(usual, 1e-9)


def iterations_in_slot(ways: Sequence[Course], solver: Solver, slot_s: float, frames: int = 8) -> int:
    """Iterations that fit into the slot, at the median time of one among solves that are never content.

    The source lets the median solve fit; this lets nearly every one.
    """
    short = [replace(way, goals=way.goals[: frames + 1]) for way in ways]
    for way in short:
        follow(way, solver, 2)  # compiles
    logs = Log.joined([follow(way, solver, 64, tolerance_m=1e-9) for way in short])
    each = float(np.median(logs.seconds / np.maximum(logs.iterations, 1)))
    return max(1, int(slot_s / each))


@dataclass(frozen=True)
class BoxStats:
    """A box plot as numbers: whiskers reach the last value within 1.5 quartile distances of the box."""

    low: float
    q1: float
    median: float
    q3: float
    high: float
    outliers: tuple[float, ...]


def box_stats(values: FloatArray) -> BoxStats:
    """Median, quartiles, whiskers and outliers."""
    q1, median, q3 = (float(q) for q in np.quantile(values, (0.25, 0.5, 0.75)))
    reach = 1.5 * (q3 - q1)
    inside = values[(values >= q1 - reach) & (values <= q3 + reach)]
    outliers = np.sort(values[(values < q1 - reach) | (values > q3 + reach)])
    return BoxStats(float(inside.min()), q1, median, q3, float(inside.max()), tuple(outliers.tolist()))
