"""A soft arm that reaches: from positions of the hand, or a captured elbow, to activations ([Engell2012]_ F42).

The arm hangs from its shoulder, a ball joint: two rigid bones in flesh, ten muscles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, ConvergenceError, FloatArray, InputError, IntArray, frozen
from marey.kinematics import JointLimits, PointTask, posing_limits, solve_ik
from marey.lie import SO3
from marey.motion import Motion
from marey.muscle.body.bones import Bone, Bones
from marey.muscle.body.soft_body import SoftBody
from marey.muscle.elastic.mesh import TetMesh
from marey.muscle.muscles.forces import Muscles
from marey.muscle.muscles.spline import ActivationSpline
from marey.muscle.optimal_control.adjoint import ControlResult
from marey.muscle.optimal_control.problem import OptimalControlProblem, StateGoal
from marey.muscle.optimal_control.soft_system import SoftSystem
from marey.muscle.optimal_control.solve import ActivationSettings, solve_control
from marey.numerics import SolveStatus
from marey.skeleton import HUMAN, Pose, Skeleton

FLEXION_AXIS: Final = (-1.0, 0.0, 0.0)  # hinge axis that lifts a hanging arm to the front


@dataclass(frozen=True, slots=True)
class SoftArmSettings:
    """Flesh, bones and muscles of a soft arm."""

    thickness_m: float = 0.076  # of the flesh
    young_pa: float = 6e4  # of the flesh: firm, so that it follows bones that turn fast
    force_n: float = 700.0  # of a fully active muscle, at any length
    stiffness_n_m: float = 150.0  # of a muscle that is stretched: an antagonist lets a raised arm go
    muscle_damping: float = 0.5  # [-] of critical
    joint_damping: float = 0.8  # [N m s/rad]
    bone_masses_kg: tuple[float, float] = (0.3, 0.6)  # of upper arm and forearm with hand, beside their flesh


ARM_BODY: Final = SoftArmSettings()
# Muscles of the left arm that hangs along -Y, shoulder at the origin: origin and insertion. A place is carried by the
# trunk, the upper arm or the forearm; along an arm bone y counts from the joint above, in parts of the bone's length.
ARM_MUSCLES: Final = {
    "deltoid": (("trunk", (0.0, 0.08, 0.09)), ("upper", (0.0, -0.4, 0.032))),
    "latissimus": (("trunk", (-0.11, -0.12, -0.09)), ("upper", (-0.03, -0.4, 0.0))),
    "biceps": (("upper", (0.0, -0.2, 0.034)), ("fore", (0.0, -0.2, 0.034))),
    "triceps": (("upper", (0.0, -0.2, -0.034)), ("fore", (0.0, 0.1, -0.034))),
    "middle_deltoid": (("trunk", (0.01, 0.1, 0.0)), ("upper", (0.032, -0.4, 0.0))),
    "posterior_deltoid": (("trunk", (0.0, 0.08, -0.09)), ("upper", (0.0, -0.4, -0.032))),
    "supraspinatus": (("trunk", (-0.02, 0.1, 0.0)), ("upper", (0.036, 0.0, 0.0))),
    "pectoralis": (("trunk", (-0.11, -0.03, 0.09)), ("upper", (0.02, -0.4, 0.032))),
    "infraspinatus": (("trunk", (-0.09, 0.0, -0.09)), ("upper", (0.036, 0.0, 0.0))),
    "subscapularis": (("trunk", (-0.09, 0.0, 0.06)), ("upper", (0.03, 0.0, 0.034))),
}
# Blocks of the trunk that muscles begin at: lowest corner and size [m]. They do not move.
TRUNK_BLOCKS: Final = (((-0.13, -0.14, -0.1), (0.08, 0.26, 0.2)), ((-0.05, 0.06, -0.1), (0.08, 0.06, 0.2)))
FORE_OVERLAP: Final = 0.1  # [-] of the forearm's length that its flesh reaches above the elbow: the olecranon
RIGID_SHARES: Final = {"upper": (0.0, -0.2, -0.4), "fore": (FORE_OVERLAP, 0.0, -0.2)}  # where tendons meet the bone
MIRROR: Final = np.array([-1.0, 1.0, 1.0])  # from the left to the right arm


def measure_arm(skeleton: Skeleton = HUMAN, side: str = "left") -> tuple[float, float]:
    """Lengths [m] of upper arm and forearm."""
    elbow, wrist = (skeleton.index(f"{side}_{joint}") for joint in ("elbow", "wrist"))
    return float(np.linalg.norm(skeleton.offsets[elbow])), float(np.linalg.norm(skeleton.offsets[wrist]))


def make_soft_arm(
    upper_m: float | None = None,
    fore_m: float | None = None,
    *,
    shoulder: str = "ball",
    counts: tuple[int, int, int] = (2, 10, 2),
    settings: SoftArmSettings = ARM_BODY,
) -> SoftBody:
    """A soft left arm along -Y, shoulder at the origin: a ball joint and an elbow that bends forwards (+Z).

    Bones "upper" and "fore" carry flesh of their own, so that joints turn as far as their limits; muscles span them
    from tendon to tendon, from blocks of a trunk that stands still.

    Args:
        upper_m: shoulder to elbow [m], as in ``marey.HUMAN`` by default.
        fore_m: elbow to wrist [m].
        shoulder: "ball", or "fixed" for an arm that bends at the elbow only.
        counts: cells across, along and deep.
        settings: flesh, bones and muscles.
    """
    usual = measure_arm()
    upper, fore = usual[0] if upper_m is None else upper_m, usual[1] if fore_m is None else fore_m
    if not (0.1 <= upper <= 1.0 and 0.1 <= fore <= 1.0):
        raise InputError(f"an arm of {upper:g} m and {fore:g} m", "Give lengths between 0.1 and 1 m")
    thick, half = settings.thickness_m, max(2, counts[1] // 2)
    lengths, tops = {"upper": upper, "fore": fore}, {"upper": 0.0, "fore": -upper}
    # Flesh in layers: those that tendons meet, and even ones between them and the end
    blocks: list[TetMesh] = []
    owners: list[str] = []
    for name, length in lengths.items():
        low = RIGID_SHARES[name][-1]
        even = np.linspace(low, -1.0, max(2, half - 1))[1:]
        levels = tops[name] + length * np.array([*RIGID_SHARES[name], *even])
        block = TetMesh.box((thick, len(levels) - 1.0, thick), (counts[0], len(levels) - 1, counts[2]))
        nodes = block.nodes - [0.5 * thick, 0.0, 0.5 * thick]
        nodes[:, 1] = np.interp(nodes[:, 1], np.arange(len(levels)), levels[::-1])
        blocks.append(TetMesh(nodes, block.cells))
        owners += [name] * len(nodes)
    for corner, size in TRUNK_BLOCKS:
        blocks.append(TetMesh.box(size, (1, 2, 1), origin=corner))
        owners += ["trunk"] * len(blocks[-1].nodes)
    firsts = np.concatenate([[0], np.cumsum([len(block.nodes) for block in blocks])])
    mesh = TetMesh(
        np.concatenate([block.nodes for block in blocks]),
        np.concatenate([block.cells + first for block, first in zip(blocks, firsts[:-1], strict=True)]).astype(
            np.int32
        ),
    )
    # A muscle is one soft spring under a force: alpha falls so far below 1 that its tension is the force
    splines: list[ActivationSpline] = []
    for name, ends in ARM_MUSCLES.items():
        places = [
            np.array(place)
            if owner == "trunk"
            else np.array([place[0], tops[owner] + place[1] * lengths[owner], place[2]])
            for owner, place in ends
        ]
        span = float(np.linalg.norm(places[1] - places[0]))
        least = 1.0 - settings.force_n / (settings.stiffness_n_m * span)
        splines.append(
            ActivationSpline(
                np.array(places),
                settings.stiffness_n_m,
                name,
                2,
                curve="polyline",
                alpha_min=least,
                damping_ratio=settings.muscle_damping,
            )
        )
    muscles = Muscles(mesh, splines, young_pa=settings.young_pa, transfer="virtual_work")
    # Bones carry the nodes on their axis and the layers at which tendons meet them
    belongs, (x, y, z) = np.array(owners), mesh.nodes.T
    core = np.maximum(np.abs(x), np.abs(z)) < 0.01
    carried: dict[str, IntArray] = {}
    for name, length in lengths.items():
        levels = tops[name] + length * np.array(RIGID_SHARES[name])
        rigid = np.min(np.abs(y[:, None] - levels), axis=1) < 1e-9
        carried[name] = np.flatnonzero((belongs == name) & (core | rigid))
    elbow, wrist = (0.0, -upper, 0.0), (0.0, -upper - fore, 0.0)
    masses, axis = settings.bone_masses_kg, FLEXION_AXIS
    upper_arm = Bone("upper", (0, 0, 0), None, shoulder, axis, None, masses[0], end=elbow, nodes=carried["upper"])
    forearm = Bone("fore", elbow, "upper", "hinge", axis, (-0.05, 2.75), masses[1], end=wrist, nodes=carried["fore"])
    return SoftBody.from_mesh(
        mesh,
        young_pa=settings.young_pa,
        muscles=muscles,
        bones=Bones([upper_arm, forearm], joint_damping=settings.joint_damping),
        damping=(0.5, 0.02),
        pinned=np.flatnonzero(belongs == "trunk"),
    )


PoseStage = Callable[[Sequence["HandGoal"]], Sequence[Pose]]
ControlStage = Callable[[OptimalControlProblem], ControlResult]

DT_S: Final = 1 / 30
ARM_SETTINGS: Final = ActivationSettings()
ELBOW_WEIGHT: Final = 0.02  # [-] of the elbow's place against the hand's
CORRECTIONS: Final = 16  # iterations at most after the way was followed
CORRECTION_DAMPING: Final = 1e-4  # [-] of the first: from a way that was followed a full step leads too far
WEAKER: Final = (1.0, 0.97, 0.9, 0.8, 0.5)  # [-] of the activations that corrections begin with, tried in turn
CORRECTION_TOL_M: Final = 0.003  # [m] of each goal at which corrections end
FOLLOW_S: Final = 0.1  # [s] in which an error of the way falls to a third
FOLLOW_EFFORT: Final = 2e-3  # [m] error that a full activation is worth
REACH_TOL_M: Final = 0.02  # [m] a goal counts as reached
MAX_DURATION_S: Final = 8.0
SIDES: Final = ("left", "right")


@dataclass(frozen=True, slots=True, eq=False)
class HandGoal:
    """Target of the wrist at a time."""

    time_s: float
    place: ArrayLike  # (3,) [m] in world

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", frozen(self.place, 3, name="place of the hand"))
        if not (np.isfinite(self.time_s) and 0.0 < self.time_s <= MAX_DURATION_S):
            raise InputError(f"a goal at {self.time_s} s", f"Give times above 0, up to {MAX_DURATION_S:g} s")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ArmControl:
    """Activations of a soft arm, and what it did."""

    control: ControlResult
    system: SoftSystem

    @property
    def activations(self) -> FloatArray:
        """``(N, M)`` between 0 and 1, in the order of :attr:`muscles`."""
        return self.control.controls

    @property
    def muscles(self) -> tuple[str, ...]:
        """Names of the muscles."""
        return () if self.system.body.muscles is None else self.system.body.muscles.names


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReachResult(ArmControl):
    """An arm on its way from goal to goal: key poses, activations, and what the soft arm did."""

    goals: tuple[HandGoal, ...]
    poses: tuple[Pose, ...]  # one for each goal, inside the limits
    violations_rad: FloatArray  # (G,) of the limits by the key poses
    key_misses_m: FloatArray  # (G,) distance of the key poses from their goals: what the limits and lengths forbid
    side: str
    shoulder: FloatArray  # (3,) [m] where the arm hangs in world

    @property
    def times(self) -> FloatArray:
        """Time of each state [s]."""
        return np.arange(len(self.control.states), dtype=np.float64) * self.system.dt

    @property
    def to_world(self) -> FloatArray:
        """Factors (3,) of the coordinates of the left arm that was solved."""
        return MIRROR if self.side == "right" else np.ones(3)

    @property
    def is_reachable(self) -> BoolArray:
        """Whether the limits allow each goal ``(G,)``."""
        return self.key_misses_m <= REACH_TOL_M

    @property
    def status(self) -> str:
        """REACHED, UNREACHABLE (limits or lengths forbid a goal) or MISSED, by the way of the hand in the film."""
        if (self.misses_m <= REACH_TOL_M).all():
            return "REACHED"
        return "UNREACHABLE" if not self.is_reachable.all() else "MISSED"

    @property
    def hand(self) -> FloatArray:
        """Way of the wrist ``(N + 1, 3)`` [m] in world."""
        return self.shoulder + self.to_world * self.control.states[:, self.system.end_components("fore")]

    @property
    def misses_m(self) -> FloatArray:
        """Distance ``(G,)`` [m] of the wrist from each goal at its time."""
        steps = [_goal_step(goal, self.system.dt) for goal in self.goals]
        apart = self.hand[steps] - np.array([goal.place for goal in self.goals])
        return np.sqrt((apart**2).sum(axis=1))

    @property
    def positions(self) -> FloatArray:
        """Nodes of the soft arm ``(N + 1, V, 3)`` [m] in world."""
        return self.shoulder + self.to_world * self.system.split(self.control.states)[0]

    def motion(self, skeleton: Skeleton = HUMAN) -> Motion:
        """The figure with this arm, the other one hanging."""
        return make_arm_motion(self.system.angles(self.control.states), 1.0 / self.system.dt, self.side, skeleton)

    def __repr__(self) -> str:
        worst = f"worst miss {100 * self.misses_m.max():.1f} cm"
        return f"Reach({self.status}, {len(self.goals)} goals, {worst}, {self.control!r})"


def solve_reach(
    goals: Sequence[HandGoal | tuple[float, ArrayLike]],
    *,
    side: str = "left",
    skeleton: Skeleton = HUMAN,
    limits: JointLimits | None = None,
    poses: PoseStage | None = None,
    arm: SoftBody | None = None,
    solve: ControlStage | None = None,
    dt: float = DT_S,
    settings: ActivationSettings = ARM_SETTINGS,
) -> ReachResult:
    """Bring the hand to some places at some times with muscles: key poses, then activations, then the soft arm.

    Each stage can be replaced. A goal that the limits forbid is replaced by the nearest place that they allow, and
    flagged; ``misses_m`` and ``status`` are measured on the arm that is drawn, from the goal itself. The right arm is
    solved as the mirror image of the left.

    Args:
        goals: times [s] and places [m] in world of a figure that stands at the origin and looks along +Z.
        side: "left" or "right".
        skeleton: a figure with the joints of ``marey.HUMAN``.
        limits: of its joints, ``marey.kinematics.posing_limits`` by default; or learnt: ``fit_limits(clips)``.
        poses: from goals to key poses; inverse kinematics under the limits by default.
        arm: :func:`make_soft_arm` of the figure by default; bones "upper" and "fore".
        solve: from the problem to activations; Gauss-Newton by default.
        dt: step [s].
        settings: how activations are weighed against goals.
    """
    if side not in SIDES:
        raise InputError(f"side is '{side}'", "Give left or right")
    wanted = tuple(goal if isinstance(goal, HandGoal) else HandGoal(*goal) for goal in goals)
    if not wanted:
        raise InputError("no goals", "Give at least one time and place")
    wanted = tuple(sorted(wanted, key=lambda goal: goal.time_s))
    bounds = posing_limits(skeleton) if limits is None else limits
    found = tuple(poses(wanted) if poses is not None else solve_key_poses(wanted, skeleton, side, bounds))
    if len(found) != len(wanted):
        raise InputError(f"{len(found)} key poses for {len(wanted)} goals", "Give one for each")
    violations = np.array([0.0 if limits is None else float(limits.violation(pose).max()) for pose in found])
    system = SoftSystem(make_soft_arm(*measure_arm(skeleton, side)) if arm is None else arm, dt=dt)
    shoulder = make_hanging_pose(skeleton).joint_positions()[skeleton.names.index(f"{side}_shoulder")]
    elbow_wrist = [skeleton.names.index(f"{side}_{joint}") for joint in ("elbow", "wrist")]
    mirror = MIRROR if side == "right" else np.ones(3)
    keys = [mirror * (pose.joint_positions()[elbow_wrist] - shoulder) for pose in found]
    aims = [mirror * (np.asarray(goal.place) - shoulder) for goal in wanted]
    apart = np.array([float(np.linalg.norm(key[1] - aim)) for key, aim in zip(keys, aims, strict=True)])
    steps = [_goal_step(goal, dt) for goal in wanted]
    places = {bone: system.end_components(bone) for bone in ("fore", "upper")}
    targets = list[StateGoal]()
    for step, (elbow, wrist) in zip(steps, keys, strict=True):
        targets.append(StateGoal(step, wrist, components=places["fore"]))
        targets.append(StateGoal(step, elbow, ELBOW_WEIGHT, components=places["upper"]))
    if solve is not None:
        control = _solve_activations(system, targets, max(steps), solve, settings)
        return ReachResult(control, system, wanted, found, violations, apart, side, shoulder)
    # The way of elbow and wrist between key poses, step by step
    way = np.empty((max(steps) + 1, 2, 3))
    before, begin = make_hanging_pose(skeleton), 0
    for pose, step in zip(found, steps, strict=True):
        turn = (before.rotations.inverse() @ pose.rotations).log()
        for k in range(begin, step + 1):
            u = (k - begin) / max(step - begin, 1)
            between = before.rotations @ SO3.exp(u * u * (3.0 - 2.0 * u) * turn)
            joints = Pose(skeleton, before.root_position, between).joint_positions()[elbow_wrist]
            way[k] = mirror * (joints - shoulder)
        before, begin = pose, step
    # Activations (N, M) that keep elbow and wrist on a way, step after step (computed muscle control)
    from scipy.optimize import lsq_linear

    rows = np.concatenate([places["upper"], places["fore"]])
    q, a = system.state(), np.zeros(system.num_controls)
    controls = np.empty((len(way) - 1, len(a)))
    kept = float(np.exp(-system.dt / FOLLOW_S))
    effort = FOLLOW_EFFORT * np.eye(len(a))
    for t in range(len(controls)):
        aim = way[t + 1].ravel() + kept * (q[rows] - way[t].ravel())
        after, a = _step_settled(system, q, (a, 0.5 * a, np.zeros_like(a)), t)
        J = system.jvp(q, a, t, after, np.zeros((len(q), len(a))), np.eye(len(a)))[rows]
        asked = np.concatenate([aim - after[rows] + J @ a, np.zeros(len(a))])
        best = np.clip(lsq_linear(np.vstack([J, effort]), asked, bounds=(0.0, 1.0)).x, 0.0, 1.0)
        q, a = _step_settled(system, q, (best, 0.5 * (best + a), a), t)
        controls[t] = a
    # Last correction, on the arm that is drawn: the goals alone, by the adjoint
    problem = settings.make_problem(system, max(steps), targets, max(steps))
    enough = 0.5 * problem.goal_weight * CORRECTION_TOL_M**2 * len(wanted)
    # A way that was followed step by step may not settle in one run: the same with less activation does
    control: ControlResult | None = None
    for weaker in WEAKER:
        if control is None or control.status is SolveStatus.NOT_FINITE:
            control = solve_control(
                problem,
                start=weaker * controls,
                tolerance=settings.tolerance,
                max_iterations=CORRECTIONS,
                damping=CORRECTION_DAMPING,
                on_iteration=lambda _, cost: cost > enough,
            )
    assert control is not None
    return ReachResult(control, system, wanted, found, violations, apart, side, shoulder)


def _step_settled(
    system: SoftSystem, q: FloatArray, tries: Sequence[FloatArray], t: int
) -> tuple[FloatArray, FloatArray]:
    """State after the first of some activations with which the soft body settles, and these activations."""
    for a in tries[:-1]:
        try:
            return system.step(q, a, t), a
        except ConvergenceError:
            continue
    return system.step(q, tries[-1], t), tries[-1]


def solve_key_poses(goals: Sequence[HandGoal], skeleton: Skeleton, side: str, limits: JointLimits | None) -> list[Pose]:
    """Inverse kinematics of one arm under limits, each pose begun at the last."""
    still = [name for name in skeleton.names if name not in (f"{side}_shoulder", f"{side}_elbow")]
    start, found = make_hanging_pose(skeleton, bent_rad=0.3), list[Pose]()
    for goal in goals:
        task = PointTask(f"{side}_wrist", goal.place)
        result = solve_ik(
            skeleton,
            [task],
            start=start,
            limits=limits,
            root="fixed",
            feet="free",
            frozen_joints=still,
            follow=False,
            on_failure="return",
        )
        start = result.pose
        found.append(start)
    return found


def make_hanging_pose(skeleton: Skeleton = HUMAN, *, bent_rad: float = 0.0) -> Pose:
    """The figure at the origin with both arms down, elbows a little bent if asked for."""
    return make_arm_motion(np.array([[0.0, bent_rad]]), 1.0, "both", skeleton)[0]


def make_arm_motion(angles: FloatArray, rate_hz: float, side: str = "left", skeleton: Skeleton = HUMAN) -> Motion:
    """A standing figure whose arm has these angles [rad].

    ``(F, 4)``: of the shoulder about x, y and z in turn, as the left arm has them, and of the elbow; ``(F, 2)``: of a
    shoulder that swings forwards and of the elbow; ``(F, 1)``: of the elbow.
    """
    bent = angles[:, -1]
    turned = SO3.exp(np.zeros((len(angles), 3)))
    if angles.shape[1] == 2:
        turned = SO3.exp(angles[:, :1] * np.array(FLEXION_AXIS))
    elif angles.shape[1] == 4:
        for axis in range(3):
            turned = turned @ SO3.exp(angles[:, axis : axis + 1] * np.eye(3)[axis])
    turns = np.zeros((len(angles), skeleton.num_joints, 3))
    rotations = SO3.exp(turns).wxyz.copy()
    for name, sign in (("left", -1.0), ("right", 1.0)):
        moves = 1.0 if side in (name, "both") else 0.0
        down = SO3.exp(np.array([0.0, 0.0, sign * np.pi / 2]))
        # The mirror image of a rotation turns the other way about y and z
        raised = SO3.exp(moves * turned.log() * (np.ones(3) if name == "left" else -MIRROR))
        rotations[:, skeleton.index(f"{name}_shoulder")] = (raised @ down).wxyz
        elbow = SO3.exp(moves * bent[:, None] * np.array([0.0, sign, 0.0]))
        rotations[:, skeleton.index(f"{name}_elbow")] = elbow.wxyz
    root = np.tile(skeleton.offsets[0], (len(angles), 1))
    return Motion(skeleton, rate_hz, root, SO3(rotations))


def _solve_activations(
    system: SoftSystem, goals: Sequence[StateGoal], steps: int, solve: ControlStage | None, settings: ActivationSettings
) -> ControlResult:
    """Activations that meet the goals, by Gauss-Newton unless another solver is given."""
    knots = max(4, round(settings.knots_per_s * system.dt * steps))
    problem = settings.make_problem(system, steps, goals, knots)
    if solve is not None:
        return solve(problem)
    return solve_control(problem, tolerance=settings.tolerance, max_iterations=settings.max_iterations)


def _goal_step(goal: HandGoal, dt: float) -> int:
    return max(1, round(goal.time_s / dt))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ElbowFlexion(ArmControl):
    """Activations that bend a soft arm as an elbow was seen to bend."""

    wanted_rad: FloatArray  # (N + 1,)

    @property
    def angles_rad(self) -> FloatArray:
        """What the soft arm did ``(N + 1,)`` [rad]."""
        return self.system.angles(self.control.states)[:, -1]

    @property
    def error_rad(self) -> float:
        """Root mean square of the difference [rad], after the first fifth of a second: the arm starts straight."""
        after = round(0.2 / self.system.dt)
        return float(np.sqrt(np.mean((self.angles_rad - self.wanted_rad)[after:] ** 2)))

    def __repr__(self) -> str:
        return f"ElbowFlexion({len(self.wanted_rad)} steps, {np.rad2deg(self.error_rad):.1f} deg rms, {self.control!r})"


def solve_elbow_flexion(
    motion: Motion,
    *,
    side: str = "left",
    arm: SoftBody | None = None,
    solve: ControlStage | None = None,
    dt: float = DT_S,
    settings: ActivationSettings = ARM_SETTINGS,
) -> ElbowFlexion:
    """Activations that reproduce the elbow of a clip on a soft arm whose upper bone is held.

    The angle between upper arm and forearm is followed; the arm starts at rest, straight and hanging.

    Args:
        motion: any clip up to 8 s whose arm joints have known roles.
        side: "left" or "right".
        arm: ``make_soft_arm(shoulder="fixed")`` by default.
        solve: from the problem to activations.
        dt: step [s].
        settings: how activations are weighed against goals.
    """
    if side not in SIDES:
        raise InputError(f"side is '{side}'", "Give left or right")
    if not 0.2 <= motion.duration_s <= MAX_DURATION_S:
        raise InputError(
            f"a clip of {motion.duration_s:.2f} s", f"Give 0.2 to {MAX_DURATION_S:g} s, for example motion[a:b]"
        )
    body = make_soft_arm(shoulder="fixed") if arm is None else arm
    system = SoftSystem(body, dt=dt)
    count = int(motion.duration_s / dt)
    times = np.arange(motion.num_frames) / motion.rate_hz
    wanted = np.interp(dt * np.arange(count + 1), times, measure_elbow_angles(motion, side))
    fade = np.clip(dt * np.arange(count + 1) / 0.2, 0.0, 1.0)
    wanted = wanted * fade * fade * (3.0 - 2.0 * fade)
    rest = system.state()[system.end_components("fore")]
    joint = system.state()[system.end_components("upper")]
    steps = range(2, count + 1, 2)
    turns = [SO3.exp(wanted[i] * np.array(FLEXION_AXIS)) for i in steps]
    goals = [
        StateGoal(i, joint + np.asarray(turn @ (rest - joint)), components=system.end_components("fore"))
        for i, turn in zip(steps, turns, strict=True)
    ]
    return ElbowFlexion(_solve_activations(system, goals, count, solve, settings), system, wanted)


def measure_elbow_angles(motion: Motion, side: str = "left") -> FloatArray:
    """Angle ``(F,)`` [rad] between upper arm and forearm, zero when straight."""
    from marey.skeleton import role_map

    joints = role_map(motion.skeleton).joints
    needed = [f"{side}_{name}" for name in ("shoulder", "elbow", "wrist")]
    missing = [name for name in needed if name not in joints]
    if missing:
        raise InputError(f"the clip has no {missing[0]}", "Give one with arms, or retarget it first")
    shoulder, elbow, wrist = (motion.joint_positions()[:, joints[name]] for name in needed)
    upper, fore = elbow - shoulder, wrist - elbow
    lengths = np.linalg.norm(upper, axis=1) * np.linalg.norm(fore, axis=1)
    if not lengths.min() > 0.0:
        raise InputError("an upper arm or a forearm has no length", "Check the skeleton of the clip")
    cosine = np.einsum("fi,fi->f", upper, fore) / lengths
    return np.arccos(np.clip(cosine, -1.0, 1.0))
