"""Tasks on a skeleton as arrays for the compiled solvers, kept from call to call; one call of a method as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marey.base import BoolArray, FloatArray, InputError, IntArray
from marey.kinematics.ik.active_set import project_to_box
from marey.kinematics.ik.coordinates import ModelSpace
from marey.kinematics.ik.state import (
    COM,
    LOOK_AT,
    NO_SPEED_LIMITS,
    ORIENTATION,
    POINT,
    CoordinateBox,
    Goals,
    IKLayout,
    JointArrays,
    KinematicChains,
    MassPoints,
    PoseArrays,
    PosePrior,
    SpeedLimits,
    TaskBlocks,
)
from marey.kinematics.ik.tasks import (
    NO_TARGET,
    ComTask,
    GoalTask,
    LookAtTask,
    OrientationTask,
    PointTask,
    PoseTask,
    Task,
    weight_matrix,
)
from marey.kinematics.limits.anatomy.model import AnatomicalLimits
from marey.kinematics.limits.box import BoxLimits
from marey.kinematics.limits.contract import JointLimits
from marey.kinematics.limits.learn import Bounds, compile_bounds
from marey.motion import mass_weights
from marey.skeleton import NO_PARENT, Pose, Skeleton, role_map

TIP_JOINTS: Final = {"crown": "head", "left_fingertip": "left_wrist", "right_fingertip": "right_wrist"}


Root = Literal["auto", "free", "turn", "fixed"]
ROOTS: Final = ("auto", "free", "turn", "fixed")
PRIORITY_FACTOR: Final = 1e-4  # [-] weight of a level relative to the one above: 1 m below costs at most 0.1 mm above
PIN_WEIGHT: Final = 1e6  # [-] of a pinned foot over a goal: a goal missed by a metre moves the foot by a micrometre
PIN_TOLERANCES: Final = (1e-5, 1e-4)  # [m], [rad] so that a foot moves by less than 1 mm in a drag of 30 steps
LEVEL_WEIGHT: Final = 1e-3  # [-] of a sole that lies level while a goal moves its foot: it gives way to all goals
LEVEL_TOLERANCES: Final = (1e-3, 0.02)  # [m], [rad]
TINY_WEIGHT: Final = 1e-9  # [-] stands for a weight of zero along an axis
ROOT_POSITION_MOBILITY, ROOT_ROTATION_MOBILITY = 0.64, 0.3  # [-] the place in mean bones: limbs move first
MIN_BONE_LENGTH_M: Final = 1e-9  # [m] shorter bones are ignored
SINGLE_JOINT_UNIT_M: Final = 0.2  # [m] unit of a body without bones
BLOCK_KINDS: Final = {PointTask: POINT, OrientationTask: ORIENTATION, LookAtTask: LOOK_AT, ComTask: COM}


@dataclass(frozen=True, slots=True, eq=False)
class IKProblem:
    """A set of tasks on a skeleton, ready for the compiled solvers."""

    skeleton: Skeleton
    goals: tuple[int, ...]  # which of the tasks are blocks, in order; those of pins follow
    layout: IKLayout
    fields: tuple[tuple[Any, ...], ...]  # the parts of the layout as plain tuples, which are quick to hand to a kernel
    is_angle: tuple[bool, ...]  # of each block: its error is in rad, not in m
    tolerances: tuple[float, ...]  # of each block [m] or [rad]
    seek_optimum: bool  # springs, or several levels: stop at the optimum, not at the tolerance
    spring_weight: float  # of a pose task, its level counted; 0 without one
    spring_pose: Pose | None
    unit_m: float  # [m] mean bone
    bounds: Bounds | None  # the limits, boxes too; None for a kind that only Python knows
    rest: tuple[FloatArray, float]  # (J, 4) no rotations, brought into the box, and how far that is [rad]
    kept: tuple[object, ...]  # objects whose identity is part of the cache's key

    def with_pin_weight(self, factor: float) -> IKProblem:
        """Return the same tasks with pins that weigh this many goals instead of ``PIN_WEIGHT``."""
        blocks = self.layout.blocks
        weights, softness = blocks.weights.copy(), blocks.softness.copy()
        is_pin = (np.arange(len(weights)) >= len(self.goals)) & (blocks.kinds != LOOK_AT)
        weights[is_pin] *= factor / PIN_WEIGHT
        softness[is_pin] *= PIN_WEIGHT / factor
        return self.with_layout(self.layout._replace(blocks=blocks._replace(weights=weights, softness=softness)))

    def with_layout(self, layout: IKLayout) -> IKProblem:
        """Return the same tasks with other arrays."""
        return replace(self, layout=layout, fields=split_layout(layout))


@dataclass(slots=True)
class Guess:
    """A pose on its way, overwritten by the solvers."""

    root: FloatArray  # (3,) [m]
    wxyz: FloatArray  # (J, 4)
    x: FloatArray  # (k,) coordinates of the model, if any

    def copy(self) -> Guess:
        """Return another guess of the same pose."""
        return Guess(self.root.copy(), self.wxyz.copy(), self.x.copy())

    def assign(self, other: Guess) -> None:
        """Overwrite the pose by another."""
        self.root[:], self.wxyz[:], self.x[:] = other.root, other.wxyz, other.x


class SolverOutcome(NamedTuple):
    """How a solver ended: 0 reached, 1 stationary, 2 out of iterations."""

    stop: int
    iterations: int
    evaluations: int
    objective: float
    gradient: float
    is_left: bool = False  # the pose is not one of the model: the model and the limits disagree
    is_nearest: bool = False  # descents from other starts end no nearer to the goals


class SolverInputs(NamedTuple):
    """One call of a method: everything but the guess."""

    problem: IKProblem
    targets: FloatArray  # (B, 4)
    active: BoolArray  # (B,)
    space: ModelSpace | None  # a pose model, or None in the full space
    limits: JointLimits | None  # of a kind that only Python knows
    max_iterations: int
    variant: str | None
    step: float | None
    metric: FloatArray  # (n, n) of the reduced space, or empty
    history: FloatArray  # (H, 4) written
    errors: FloatArray  # (B, 3) written
    pace: SpeedLimits = NO_SPEED_LIMITS  # of a clip

    @property
    def goals(self) -> Goals:
        """Targets and flags of the blocks."""
        return Goals(self.targets, self.active)

    def pose_arrays(self, guess: Guess) -> PoseArrays:
        """Return a guess and its errors as the kernels take them."""
        return PoseArrays(guess.root, guess.wxyz, guess.x, self.errors)


def compile_problem(
    skeleton: Skeleton,
    tasks: Sequence[Task],
    limits: JointLimits | None,
    is_reduced: bool,
    root: Root,
    frozen_joints: Sequence[str | int],
    tolerances: tuple[float, float],
    pins: Sequence[Task] = (),
    ease: FloatArray | None = None,
) -> IKProblem:
    """Return the arrays of a set of tasks; only their targets may differ between calls that share them.

    ``pins`` are tasks that come before all others: their blocks follow those of the tasks. ``ease`` ``(J,)`` says how
    readily the joints move; all alike without it.
    """
    levels = sorted({task.priority for task in tasks})
    factors = [PRIORITY_FACTOR ** levels.index(task.priority) for task in tasks]
    goals = tuple(i for i, task in enumerate(tasks) if not isinstance(task, PoseTask))
    goal_tasks: list[GoalTask] = [task for task in (*tasks, *pins) if not isinstance(task, PoseTask)]
    factors_and_tolerances = [(factors[i], tolerances) for i in goals] + [
        (LEVEL_WEIGHT, LEVEL_TOLERANCES) if isinstance(pin, LookAtTask) else (PIN_WEIGHT, PIN_TOLERANCES)
        for pin in pins
    ]
    # A block for each goal: where it acts, what it weighs, when it is reached
    count = len(goal_tasks)
    kinds, joints = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    points, aims, weights = np.zeros((count, 3)), np.zeros((count, 3)), np.zeros((count, 3, 3))
    reached_below, axes = np.zeros(count), np.ones((count, 3))
    for row, (task, (factor, tolerances)) in enumerate(zip(goal_tasks, factors_and_tolerances, strict=True)):
        kinds[row] = BLOCK_KINDS[type(task)]
        weights[row] = factor * (weight_matrix(task.weight) + TINY_WEIGHT * np.eye(3))
        axes[row] = np.diag(weights[row]) > 2.0 * factor * TINY_WEIGHT
        reached_below[row] = tolerances[1 if isinstance(task, OrientationTask | LookAtTask) else 0]
        if not isinstance(task, ComTask):
            joints[row] = joint_index(skeleton, task.joint)
        if isinstance(task, PointTask | LookAtTask):
            points[row] = task.point
        if isinstance(task, LookAtTask):
            aims[row] = task.axis
    softness = np.asarray(np.linalg.inv(weights), dtype=np.float64)
    blocks = TaskBlocks(kinds, joints, points, aims, axes, weights, softness, reached_below)
    chains = [moving_chain(skeleton, task) for task in goal_tasks]
    # How easily the joints and, last, the root's place move
    mobility = np.ones(skeleton.num_joints + 1)
    if ease is not None:
        mobility[:-1] = ease
    mobility[-1] = 0.0 if root in ("turn", "fixed") else ROOT_POSITION_MOBILITY * mean_bone_length(skeleton) ** 2
    mobility[0] = 0.0 if root == "fixed" else ROOT_ROTATION_MOBILITY
    for joint in frozen_joints:
        mobility[joint_index(skeleton, joint)] = 0.0
    springs, weight, pose = _build_prior(skeleton, tasks, factors, mobility)
    # All chains one behind the other, and for each pair of blocks the rows of the joints they have in common
    starts = np.cumsum([0, *[len(chain) for chain in chains]])
    pair_start, first, second = [0], list[int](), list[int]()
    for e, long in enumerate(chains):
        for f, other in enumerate(chains[: e + 1]):
            rows = {joint: int(starts[f]) + k for k, joint in enumerate(other)}
            common = [(int(starts[e]) + k, rows[joint]) for k, joint in enumerate(long) if joint in rows]
            first += [a for a, _ in common]
            second += [b for _, b in common]
            pair_start.append(len(first))
    joined = [joint for chain in chains for joint in chain]
    layout = IKLayout(
        JointArrays(skeleton.parents.copy(), skeleton.offsets.copy()),
        blocks,
        KinematicChains(_as_ints(starts), _as_ints(joined), _as_ints(pair_start), _as_ints(first), _as_ints(second)),
        _list_mass_points(skeleton, any(isinstance(task, ComTask) for task in tasks)),
        springs,
        build_box(skeleton, None if is_reduced else limits),
    )
    _check_movable(skeleton, goal_tasks[: len(goals)], chains, layout)
    # The rest pose brought into the box, and how far the furthest joint was outside [rad]
    wxyz = np.tile((1.0, 0.0, 0.0, 0.0), (len(layout.box.boxed), 1))
    return IKProblem(
        skeleton,
        goals,
        layout,
        split_layout(layout),
        tuple(isinstance(task, OrientationTask | LookAtTask) for task in goal_tasks),
        tuple(blocks.tolerances.tolist()),
        weight > 0.0 or len({tasks[i].priority for i in goals}) > 1,
        weight,
        pose,
        mean_bone_length(skeleton),
        compile_bounds(limits),
        (wxyz, project_to_box(layout.box, wxyz, np.zeros((len(wxyz), 3))) if layout.box.boxed.any() else 0.0),
        (skeleton, limits, *tasks, *pins),
    )


def collect_targets(tasks: Sequence[Task]) -> tuple[FloatArray, BoolArray]:
    """Targets ``(B, 4)`` of single-frame tasks, and which of them are known ``(B,)``: those without a NaN."""
    goals = [task.goal for task in tasks if task.goal is not NO_TARGET]
    rows: list[list[float]] = []
    for row, goal in enumerate(goals):
        if goal.ndim != 1:
            raise InputError(f"goal {row} has targets for {len(goal)} frames", "Use track() for whole clips")
        values = goal.tolist()
        rows.append(values if len(values) == 4 else [*values, 0.0])
    is_known = [row[0] == row[0] for row in rows]
    if False in is_known:
        rows = [row if flag else [0.0] * 4 for row, flag in zip(rows, is_known, strict=True)]
    return np.array(rows).reshape(-1, 4), np.array(is_known, dtype=np.bool_)


def mean_bone_length(skeleton: Skeleton) -> float:
    """Mean length of the bones [m], without zero ones: the unit of steps and dampings, which makes them size-free.

    It is 0.20 m for a CMU body, the unit that [Engell2012]_ states.
    """
    lengths = np.linalg.norm(skeleton.offsets[1:], axis=1)
    long = lengths[lengths > MIN_BONE_LENGTH_M]
    return float(long.mean()) if len(long) else SINGLE_JOINT_UNIT_M


def joint_index(skeleton: Skeleton, joint: str | int) -> int:
    """Number of a joint given by name or number.

    Raises:
        UnknownNameError: no joint has this name; the nearest is suggested.
        InputError: the number is out of range.
    """
    if isinstance(joint, str):
        return skeleton.index(joint)
    if not 0 <= joint < skeleton.num_joints:
        raise InputError(f"joint {joint} of a skeleton of {skeleton.num_joints}", "Count from 0, the root")
    return int(joint)


def split_layout(layout: IKLayout) -> tuple[tuple[Any, ...], ...]:
    """Parts of a layout as plain tuples."""
    return tuple(tuple(part) for part in layout)


def moving_chain(skeleton: Skeleton, task: GoalTask) -> list[int]:
    """Joints that move a task, root first; a joint does not move its own origin."""
    if isinstance(task, ComTask):
        return list(range(skeleton.num_joints))
    joint = joint_index(skeleton, task.joint)
    is_origin = isinstance(task, PointTask) and not np.any(np.asarray(task.point))
    return list_ancestors(skeleton, int(skeleton.parents[joint]) if is_origin else joint)


def list_ancestors(skeleton: Skeleton, joint: int) -> list[int]:
    """A joint and all above it, root first."""
    chain: list[int] = []
    while joint != NO_PARENT:
        chain.append(joint)
        joint = int(skeleton.parents[joint])
    return chain[::-1]


def _as_ints(values: Sequence[int] | IntArray) -> IntArray:
    return np.array(values, dtype=np.int64)


def _list_mass_points(skeleton: Skeleton, is_needed: bool) -> MassPoints:
    """Points of joints whose weighted sum is the centre of mass, as in ``centre_of_mass``; none if not needed."""
    if not is_needed:
        return MassPoints(np.zeros(0, dtype=np.int64), np.zeros((0, 3)), np.zeros(0))
    roles = role_map(skeleton)
    known = {name: (joint, np.zeros(3)) for name, joint in roles.joints.items()}
    for name, role in TIP_JOINTS.items():
        joint = roles.get(role)
        if joint is not None and (np.linalg.norm(skeleton.tips[joint]) > 1e-6 or name == "crown"):
            known[name] = (joint, skeleton.tips[joint])
    weights = mass_weights(frozenset(known))
    if not weights:
        # A body that is not known: every joint weighs the same
        count = skeleton.num_joints
        return MassPoints(np.arange(count, dtype=np.int64), np.zeros((count, 3)), np.full(count, 1.0 / count))
    points = np.array([known[name][1] for name in weights]).reshape(-1, 3)
    return MassPoints(_as_ints([known[name][0] for name in weights]), points, np.array(list(weights.values())))


def _build_prior(
    skeleton: Skeleton, tasks: Sequence[Task], factors: Sequence[float], mobility: FloatArray
) -> tuple[PosePrior, float, Pose | None]:
    stiffness, rest = np.zeros(skeleton.num_joints + 1), Pose.rest(skeleton)
    # At most one pose task; its level scales it
    wanted = [(task, factor) for task, factor in zip(tasks, factors, strict=True) if isinstance(task, PoseTask)]
    if not wanted:
        return PosePrior(mobility, stiffness, rest.rotations.wxyz.copy(), rest.root_position.copy()), 0.0, None
    if len(wanted) > 1:
        raise InputError(f"{len(wanted)} pose tasks", "Give one; its weight can differ between joints by groups of one")
    task, factor = wanted[0]
    pose = rest if task.pose is None else task.pose
    if pose.skeleton.names != skeleton.names:
        raise InputError("the pose task holds a pose of another skeleton", "Retarget it first")
    joints = range(1, skeleton.num_joints) if task.joints is None else [joint_index(skeleton, j) for j in task.joints]
    stiffness[list(joints)] = factor * task.weight
    stiffness[[0, -1]] += factor * task.root_weight
    springs = PosePrior(mobility, stiffness, pose.rotations.wxyz.copy(), pose.root_position.copy())
    return springs, factor * task.weight, task.pose


def build_box(skeleton: Skeleton, limits: JointLimits | None) -> CoordinateBox:
    """Intervals of rotation vectors, or of anatomical coordinates whose regions are advice; none for other limits."""
    count = skeleton.num_joints
    high, is_swing = np.full((count, 3), np.inf), np.zeros(count, dtype=np.bool_)
    low, before = -high, np.tile((1.0, 0.0, 0.0, 0.0), (count, 1))
    after = before.copy()
    order, starts, regions = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64), np.zeros((0, 17))
    distances: NDArray[np.float32] = np.zeros(0, dtype=np.float32)
    peaks: NDArray[np.int8] = np.zeros(0, dtype=np.int8)
    if isinstance(limits, BoxLimits):
        low, high = np.array(limits.low, dtype=np.float64), np.array(limits.high, dtype=np.float64)
    elif isinstance(limits, AnatomicalLimits) and limits.is_advice:
        tables = limits.tables()
        low[tables.joints], high[tables.joints] = tables.low.reshape(-1, 3), tables.high.reshape(-1, 3)
        before[tables.joints], after[tables.joints], is_swing[tables.joints] = tables.before, tables.after, True
        order, starts, regions = tables.joints.copy(), tables.starts.copy(), tables.rows.copy()
        # Coordinate c of joint j, the k-th with limits, has number 3 k + c there, and 3 j + c here
        regions[:, 10:13] = 3 * order[tables.axes // 3] + tables.axes % 3
        distances, peaks = tables.distances, tables.peaks
    boxed = np.asarray((np.isfinite(low) | np.isfinite(high)).any(axis=-1), dtype=np.bool_)
    for table in (regions, distances, peaks):
        # As in the tables of limits: the kernels that read them are compiled once
        table.setflags(write=False)
    return CoordinateBox(boxed, low, high, is_swing, before, after, order, starts, regions, distances, peaks)


def _check_movable(
    skeleton: Skeleton, tasks: Sequence[GoalTask], chains: Sequence[Sequence[int]], layout: IKLayout
) -> None:
    """Refuse a goal that nothing can move: no free joint above it, or bones without length between."""
    mobility, rest = layout.springs.mobility, skeleton.rest_positions()
    if mobility[-1] > 0.0:
        return
    for row, task in enumerate(tasks):
        free = [j for j in chains[row] if mobility[j] > 0.0]
        place = rest[layout.blocks.joints[row]] + layout.blocks.points[row]
        has_lever = any(np.linalg.norm(place - rest[j]) > 1e-9 for j in free)
        if not free or (isinstance(task, PointTask) and not has_lever):
            joint = skeleton.names[int(layout.blocks.joints[row])]
            name = "the centre of mass" if isinstance(task, ComTask) else f"'{joint}'"
            raise InputError(
                f"nothing can move goal {row}, {name}: its chain has no length or no free joint",
                "Free the root (root='free') or another joint above it, or give the task a point away from the joint",
            )
