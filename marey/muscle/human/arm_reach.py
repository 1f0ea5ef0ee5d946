"""A soft arm that reaches: from positions of the hand, or a captured elbow, to activations ([Engell2012]_ F42).

The arm hangs from its shoulder: two rigid bones in flesh, a flexor and an extensor at each joint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.kinematics import JointLimits, PointTask, solve_ik
from marey.lie import SO3
from marey.motion import Motion
from marey.muscle.body.bones import Bone, Bones
from marey.muscle.body.soft_body import SoftBody
from marey.muscle.mesh.tet_mesh import TetMesh
from marey.muscle.muscles.forces import Muscles
from marey.muscle.muscles.spline import ActivationSpline
from marey.muscle.optimal_control.adjoint import ControlResult
from marey.muscle.optimal_control.problem import OptimalControlProblem, StateGoal
from marey.muscle.optimal_control.soft_system import SoftSystem
from marey.muscle.optimal_control.solve import ActivationSettings, solve_control
from marey.skeleton import HUMAN, Pose, Skeleton

FLEXION_AXIS: Final = (-1.0, 0.0, 0.0)  # hinge axis that lifts a hanging arm to the front


@dataclass(frozen=True, slots=True)
class SoftArmSettings:
    """Flesh, bones and muscles of a soft arm."""

    thickness_m: float = 0.08  # of the flesh
    muscle_depth_m: float = 0.034  # of a muscle in front of or behind the bone
    torso_m: float = 0.10  # of flesh above the shoulder, which does not move
    joint_clearance_m: float = 0.04  # of flesh near a joint that no bone carries
    young_pa: float = 1.5e4  # of the flesh
    stiffness_n_m: float = 1.6e4  # of each muscle
    alpha_min: float = 0.4  # [-] contraction of a fully active muscle
    bone_masses_kg: tuple[float, float] = (0.3, 0.6)  # of upper arm and forearm with hand, beside their flesh


ARM_BODY: Final = SoftArmSettings()
ARM_MUSCLES: Final = ("deltoid", "latissimus", "biceps", "triceps")


def measure_arm(skeleton: Skeleton = HUMAN, side: str = "left") -> tuple[float, float]:
    """Lengths [m] of upper arm and forearm."""
    elbow, wrist = (skeleton.index(f"{side}_{joint}") for joint in ("elbow", "wrist"))
    return float(np.linalg.norm(skeleton.offsets[elbow])), float(np.linalg.norm(skeleton.offsets[wrist]))


def make_soft_arm(
    upper_m: float | None = None,
    fore_m: float | None = None,
    *,
    shoulder: str = "hinge",
    counts: tuple[int, int, int] = (2, 11, 2),
    settings: SoftArmSettings = ARM_BODY,
) -> SoftBody:
    """A soft arm along -Y, shoulder at the origin, that bends forwards (+Z); bones "upper" and "fore".

    Args:
        upper_m: shoulder to elbow [m], as in ``marey.HUMAN`` by default.
        fore_m: elbow to wrist [m].
        shoulder: "hinge", or "fixed" for an arm that bends at the elbow only.
        counts: cells across, along and deep.
        settings: flesh, bones and muscles.
    """
    usual = measure_arm()
    upper, fore = usual[0] if upper_m is None else upper_m, usual[1] if fore_m is None else fore_m
    if not (0.1 <= upper <= 1.0 and 0.1 <= fore <= 1.0):
        raise InputError(f"an arm of {upper:g} m and {fore:g} m", "Give lengths between 0.1 and 1 m")
    thick, torso, clearance = settings.thickness_m, settings.torso_m, settings.joint_clearance_m
    block = TetMesh.box((thick, torso + upper + fore, thick), counts)
    mesh = TetMesh(block.nodes - [thick / 2, upper + fore, thick / 2], block.cells)
    # One muscle in front of and one behind each joint.
    spans = ((0.9 * torso, -0.6 * upper), (-0.3 * upper, -upper - 0.17))
    rows = [(high, low, side * settings.muscle_depth_m) for high, low in spans for side in (1.0, -1.0)]
    muscles = Muscles(
        mesh,
        [
            ActivationSpline(
                np.linspace((0.0, high, z), (0.0, low, z), 4),
                settings.stiffness_n_m,
                name,
                alpha_min=settings.alpha_min,
            )
            for name, (high, low, z) in zip(ARM_MUSCLES, rows, strict=True)
        ],
        young_pa=settings.young_pa,
        transfer="virtual_work",
    )
    # Bones carry the nodes on the axis of the arm, but near the joints.
    x, y, z = mesh.nodes.T
    core = np.maximum(np.abs(x), np.abs(z)) < 0.01
    near = np.flatnonzero(core & (y < -clearance) & (y > -upper + clearance))
    far = np.flatnonzero(core & (y < -upper - clearance))
    elbow, wrist = (0.0, -upper, 0.0), (0.0, -upper - fore, 0.0)
    masses, axis = settings.bone_masses_kg, FLEXION_AXIS
    upper_arm = Bone("upper", (0, 0, 0), None, shoulder, axis, (-1.0, 2.6), masses[0], end=elbow, nodes=near)
    forearm = Bone("fore", elbow, "upper", "hinge", axis, (-0.05, 2.4), masses[1], end=wrist, nodes=far)
    return SoftBody.from_mesh(
        mesh,
        young_pa=settings.young_pa,
        muscles=muscles,
        bones=Bones([upper_arm, forearm], joint_damping=0.3),
        damping=(0.5, 0.02),
        pinned=np.flatnonzero(mesh.nodes[:, 1] > 0.3 * torso),
    )


PoseStage = Callable[[Sequence["HandGoal"]], Sequence[Pose]]
ControlStage = Callable[[OptimalControlProblem], ControlResult]

DT_S: Final = 1 / 30
ARM_SETTINGS: Final = ActivationSettings()
ELBOW_WEIGHT: Final = 0.05  # [-] of the elbow's place against the hand's
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
class ReachResult:
    """An arm on its way from goal to goal: key poses, activations, and what the soft arm did."""

    goals: tuple[HandGoal, ...]
    poses: tuple[Pose, ...]  # one for each goal, inside the limits
    violations_rad: FloatArray  # (G,) of the limits by the key poses
    control: ControlResult
    system: SoftSystem
    side: str
    shoulder: FloatArray  # (3,) [m] where the arm hangs in world

    @property
    def times(self) -> FloatArray:
        """Time of each state [s]."""
        return np.arange(len(self.control.states), dtype=np.float64) * self.system.dt

    @property
    def activations(self) -> FloatArray:
        """``(N, 4)`` of deltoid, latissimus, biceps and triceps, between 0 and 1."""
        return self.control.controls

    @property
    def hand(self) -> FloatArray:
        """Way of the wrist ``(N + 1, 3)`` [m] in world."""
        return self.shoulder + self.control.states[:, self.system.end_components("fore")]

    @property
    def misses_m(self) -> FloatArray:
        """Distance ``(G,)`` [m] of the wrist from each goal at its time."""
        steps = [_goal_step(goal, self.system.dt) for goal in self.goals]
        apart = self.hand[steps] - np.array([goal.place for goal in self.goals])
        return np.sqrt((apart**2).sum(axis=1))

    @property
    def positions(self) -> FloatArray:
        """Nodes of the soft arm ``(N + 1, V, 3)`` [m] in world."""
        return self.shoulder + self.system.split(self.control.states)[0]

    def motion(self, skeleton: Skeleton = HUMAN) -> Motion:
        """The figure with this arm, the other one hanging."""
        return make_arm_motion(self.system.angles(self.control.states), 1.0 / self.system.dt, self.side, skeleton)

    def __repr__(self) -> str:
        return f"Reach({len(self.goals)} goals, worst miss {100 * self.misses_m.max():.1f} cm, {self.control!r})"


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

    The arm bends in the plane that points forwards through its shoulder. Each stage can be replaced. A goal that the
    limits forbid is replaced by the nearest place that they allow; ``misses_m`` is measured from the goal itself.

    Args:
        goals: times [s] and places [m] in world of a figure that stands at the origin and looks along +Z.
        side: "left" or "right".
        skeleton: a figure with the joints of ``marey.HUMAN``.
        limits: of its joints, for example learnt: ``marey.kinematics.fit_limits(clips)``.
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
    found = tuple(poses(wanted) if poses is not None else solve_key_poses(wanted, skeleton, side, limits))
    if len(found) != len(wanted):
        raise InputError(f"{len(found)} key poses for {len(wanted)} goals", "Give one for each")
    violations = np.array([0.0 if limits is None else float(limits.violation(pose).max()) for pose in found])
    system = SoftSystem(make_soft_arm(*measure_arm(skeleton, side)) if arm is None else arm, dt=dt)
    shoulder = make_hanging_pose(skeleton).joint_positions()[skeleton.names.index(f"{side}_shoulder")]
    elbow_wrist = [skeleton.names.index(f"{side}_{joint}") for joint in ("elbow", "wrist")]
    keys = [pose.joint_positions()[elbow_wrist] - shoulder for pose in found]
    steps = [_goal_step(goal, dt) for goal in wanted]
    targets = list[StateGoal]()
    for step, (elbow, wrist) in zip(steps, keys, strict=True):
        targets.append(StateGoal(step, wrist, components=system.end_components("fore")))
        targets.append(StateGoal(step, elbow, ELBOW_WEIGHT, components=system.end_components("upper")))
    control = _solve_activations(system, targets, max(steps), solve, settings)
    return ReachResult(wanted, found, violations, control, system, side, shoulder)


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
    """A standing figure whose arm has the angles ``(F, 2)`` of shoulder and elbow [rad], or ``(F, 1)`` of the elbow."""
    bent = angles[:, -1]
    lifted = angles[:, 0] if angles.shape[1] == 2 else np.zeros(len(angles))
    turns = np.zeros((len(angles), skeleton.num_joints, 3))
    rotations = SO3.exp(turns).wxyz.copy()
    for name, sign in (("left", -1.0), ("right", 1.0)):
        moves = 1.0 if side in (name, "both") else 0.0
        down = SO3.exp(np.array([0.0, 0.0, sign * np.pi / 2]))
        raised = SO3.exp(moves * lifted[:, None] * np.array(FLEXION_AXIS))
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
class ElbowFlexion:
    """Activations that bend a soft arm as an elbow was seen to bend."""

    wanted_rad: FloatArray  # (N + 1,)
    control: ControlResult
    system: SoftSystem

    @property
    def angles_rad(self) -> FloatArray:
        """What the soft arm did ``(N + 1,)`` [rad]."""
        return self.system.angles(self.control.states)[:, -1]

    @property
    def error_rad(self) -> float:
        """Root mean square of the difference [rad], after the first fifth of a second: the arm starts straight."""
        after = round(0.2 / self.system.dt)
        return float(np.sqrt(np.mean((self.angles_rad - self.wanted_rad)[after:] ** 2)))

    @property
    def activations(self) -> FloatArray:
        """``(N, 4)``, see :class:`ReachResult`."""
        return self.control.controls

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
    return ElbowFlexion(wanted, _solve_activations(system, goals, count, solve, settings), system)


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
    cosine = np.einsum("fi,fi->f", upper, fore) / (np.linalg.norm(upper, axis=1) * np.linalg.norm(fore, axis=1))
    return np.arccos(np.clip(cosine, -1.0, 1.0))
