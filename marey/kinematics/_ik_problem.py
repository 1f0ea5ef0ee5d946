"""From tasks to arrays: names are looked up, chains and their common joints listed, once for each set of tasks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray
from marey.kinematics._ik_layout import (
    COM,
    LOOK_AT,
    ORIENTATION,
    POINT,
    Blocks,
    Box,
    Layout,
    Lists,
    Mass,
    Springs,
    Tree,
)
from marey.kinematics._ik_mass import mass_points
from marey.kinematics._limits import JointLimits
from marey.kinematics._limits_box import BoxLimits
from marey.kinematics._limits_tables import Bounds, bounds_of
from marey.kinematics._tasks import (
    ComTask,
    GoalTask,
    LookAtTask,
    OrientationTask,
    PointTask,
    PoseTask,
    Task,
    weight_matrix,
)
from marey.skeleton import NO_PARENT, Pose, Skeleton

Root = Literal["free", "turn", "fixed"]
ROOTS: Final = ("free", "turn", "fixed")
LEVEL: Final = 1e-4  # [-] weight of a level relative to the one above: 1 m missed below costs at most 0.1 mm above
TINY_WEIGHT: Final = 1e-9  # [-] stands for a weight of zero along an axis
ROOT_PLACE, ROOT_TURN = 0.64, 0.3  # [-] mobility of the root, its place in mean bones: limbs move first
SHORT_M: Final = 1e-9  # [m] a bone shorter than this is none
ONLY_M: Final = 0.2  # [m] unit of a body without bones
CACHE_SIZE: Final = 64  # sets of tasks whose arrays are kept


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A set of tasks on a skeleton, ready for the compiled solvers."""

    skeleton: Skeleton
    goals: tuple[int, ...]  # which of the tasks are blocks, in order
    layout: Layout
    flat: tuple[FloatArray | IntArray | BoolArray, ...]  # the fields of the layout one by one
    is_angle: tuple[bool, ...]  # of each block: its error is in rad, not in m
    tolerances: tuple[float, ...]  # of each block [m] or [rad]
    active: BoolArray  # (B,) all of them
    seek_optimum: bool  # springs, or several levels: stop at the optimum, not at the tolerance
    spring_weight: float  # of a pose task, its level counted; 0 without one
    spring_pose: Pose | None
    unit_m: float  # [m] mean bone
    bounds: Bounds | None  # the limits, boxes too; None for a kind that only Python knows
    kept: tuple[object, ...]  # objects whose identity is part of the cache's key

    def with_box(self, box: Box) -> Problem:
        """Return the same tasks under other limits."""
        layout = self.layout._replace(box=box)
        return replace(self, layout=layout, flat=flattened(layout))


_CACHE: OrderedDict[tuple[object, ...], Problem] = OrderedDict()


def compile_problem(
    skeleton: Skeleton,
    tasks: Sequence[Task],
    limits: JointLimits | None,
    is_reduced: bool,
    root: Root,
    frozen_joints: Sequence[str | int],
    tolerances: tuple[float, float],
) -> Problem:
    """Return the arrays of a set of tasks; only their targets may differ between calls that share them."""
    key = (id(skeleton), id(limits), is_reduced, root, tuple(frozen_joints), tolerances, *[task.key for task in tasks])
    found = _CACHE.get(key)
    if found is None:
        found = _CACHE[key] = _compile(skeleton, tasks, limits, is_reduced, root, frozen_joints, tolerances)
        if len(_CACHE) > CACHE_SIZE:
            _CACHE.popitem(last=False)
    return found


def targets_of(problem: Problem, tasks: Sequence[Task]) -> FloatArray:
    """Targets ``(B, 4)`` of single-frame tasks."""
    targets = np.zeros((len(problem.goals), 4))
    for row, i in enumerate(problem.goals):
        value = target_of(tasks[i])
        if value.ndim != 1:
            raise InputError(f"task {i} has targets for {len(value)} frames", "Use track() for whole clips")
        targets[row, : value.size] = value
    return targets


def target_of(task: Task) -> FloatArray:
    """Target of a goal: places ``(..., 3)`` or quaternions ``(..., 4)``."""
    return task.goal


def _compile(
    skeleton: Skeleton,
    tasks: Sequence[Task],
    limits: JointLimits | None,
    is_reduced: bool,
    root: Root,
    frozen_joints: Sequence[str | int],
    tolerances: tuple[float, float],
) -> Problem:
    factors = _level_factors(tasks)
    goals = [i for i, task in enumerate(tasks) if not isinstance(task, PoseTask)]
    blocks = _blocks(skeleton, tasks, goals, factors, tolerances)
    chains = [_chain(skeleton, task) for task in tasks if not isinstance(task, PoseTask)]
    mass = _mass(skeleton, any(isinstance(task, ComTask) for task in tasks))
    springs, weight, pose = _springs(skeleton, tasks, factors, _mobility(skeleton, root, frozen_joints))
    layout = Layout(
        Tree(skeleton.parents.copy(), skeleton.offsets.copy()),
        blocks,
        _lists(chains),
        mass,
        springs,
        boxes(skeleton, limits if isinstance(limits, BoxLimits) and not is_reduced else None),
    )
    _check_moves(skeleton, tasks, goals, chains, layout)
    angles = tuple(isinstance(tasks[i], OrientationTask | LookAtTask) for i in goals)
    several = weight > 0.0 or len({tasks[i].priority for i in goals}) > 1
    return Problem(
        skeleton,
        tuple(goals),
        layout,
        flattened(layout),
        angles,
        tuple(blocks.tolerances.tolist()),
        np.ones(len(goals), dtype=np.bool_),
        several,
        weight,
        pose,
        mean_bone(skeleton),
        bounds_of(limits),
        (skeleton, limits, *tasks),
    )


def mean_bone(skeleton: Skeleton) -> float:
    """Mean length of the bones [m], those without length apart: the unit of steps and dampings, so size is no matter.

    It is 0.20 m for a CMU body, the unit that [Engell2012]_ states.
    """
    lengths = np.linalg.norm(skeleton.offsets[1:], axis=1)
    long = lengths[lengths > SHORT_M]
    return float(long.mean()) if len(long) else ONLY_M


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


def flattened(layout: Layout) -> tuple[FloatArray | IntArray | BoolArray, ...]:
    """All arrays of a layout in order."""
    return (*layout.tree, *layout.blocks, *layout.lists, *layout.mass, *layout.springs, *layout.box)


def _level_factors(tasks: Sequence[Task]) -> list[float]:
    levels = sorted({task.priority for task in tasks})
    return [LEVEL ** levels.index(task.priority) for task in tasks]


def _blocks(
    skeleton: Skeleton,
    tasks: Sequence[Task],
    goals: Sequence[int],
    factors: Sequence[float],
    tolerances: tuple[float, float],
) -> Blocks:
    count = len(goals)
    kinds, joints = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    points, aims, weights = np.zeros((count, 3)), np.zeros((count, 3)), np.zeros((count, 3, 3))
    limits, axes = np.zeros(count), np.ones((count, 3))
    for row, i in enumerate(goals):
        task = tasks[i]
        assert not isinstance(task, PoseTask)
        kinds[row] = _kind(task)
        weights[row] = factors[i] * (weight_matrix(task.weight) + TINY_WEIGHT * np.eye(3))
        axes[row] = np.diag(weights[row]) > 2.0 * factors[i] * TINY_WEIGHT
        limits[row] = tolerances[1 if isinstance(task, OrientationTask | LookAtTask) else 0]
        if not isinstance(task, ComTask):
            joints[row] = joint_index(skeleton, task.joint)
        if isinstance(task, PointTask | LookAtTask):
            points[row] = task.point
        if isinstance(task, LookAtTask):
            aims[row] = task.axis
    return Blocks(kinds, joints, points, aims, axes, weights, _inverses(weights), limits)


def _inverses(matrices: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.inv(matrices), dtype=np.float64)


def _kind(task: GoalTask) -> int:
    kinds = {PointTask: POINT, OrientationTask: ORIENTATION, LookAtTask: LOOK_AT, ComTask: COM}
    return kinds[type(task)]


def _chain(skeleton: Skeleton, task: GoalTask) -> list[int]:
    """Joints that move a task, root first; a joint does not move its own origin."""
    if isinstance(task, ComTask):
        return list(range(skeleton.num_joints))
    joint = joint_index(skeleton, task.joint)
    is_origin = isinstance(task, PointTask) and not np.any(np.asarray(task.point))
    joint = int(skeleton.parents[joint]) if is_origin else joint
    chain: list[int] = []
    while joint != NO_PARENT:
        chain.append(joint)
        joint = int(skeleton.parents[joint])
    return chain[::-1]


def _lists(chains: Sequence[Sequence[int]]) -> Lists:
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
    return Lists(_ints(starts), _ints(joined), _ints(pair_start), _ints(first), _ints(second))


def _ints(values: Sequence[int] | IntArray) -> IntArray:
    return np.array(values, dtype=np.int64)


def _mass(skeleton: Skeleton, is_needed: bool) -> Mass:
    if not is_needed:
        return Mass(np.zeros(0, dtype=np.int64), np.zeros((0, 3)), np.zeros(0))
    joints, points, weights = mass_points(skeleton)
    return Mass(_ints(joints), points, weights)


def _mobility(skeleton: Skeleton, root: Root, frozen_joints: Sequence[str | int]) -> FloatArray:
    mobility = np.ones(skeleton.num_joints + 1)
    mobility[-1] = 0.0 if root in ("turn", "fixed") else ROOT_PLACE * mean_bone(skeleton) ** 2
    mobility[0] = 0.0 if root == "fixed" else ROOT_TURN
    for joint in frozen_joints:
        mobility[joint_index(skeleton, joint)] = 0.0
    return mobility


def _springs(
    skeleton: Skeleton, tasks: Sequence[Task], factors: Sequence[float], mobility: FloatArray
) -> tuple[Springs, float, Pose | None]:
    stiffness, rest = np.zeros(skeleton.num_joints + 1), Pose.rest(skeleton)
    wanted = [(task, factor) for task, factor in zip(tasks, factors, strict=True) if isinstance(task, PoseTask)]
    if not wanted:
        return Springs(mobility, stiffness, rest.rotations.wxyz.copy(), rest.root_position.copy()), 0.0, None
    if len(wanted) > 1:
        raise InputError(f"{len(wanted)} pose tasks", "Give one; its weight can differ between joints by groups of one")
    task, factor = wanted[0]
    pose = rest if task.pose is None else task.pose
    if pose.skeleton.names != skeleton.names:
        raise InputError("the pose task holds a pose of another skeleton", "Retarget it first")
    joints = range(1, skeleton.num_joints) if task.joints is None else [joint_index(skeleton, j) for j in task.joints]
    stiffness[list(joints)] = factor * task.weight
    stiffness[[0, -1]] += factor * task.root_weight
    springs = Springs(mobility, stiffness, pose.rotations.wxyz.copy(), pose.root_position.copy())
    return springs, factor * task.weight, task.pose


def boxes(skeleton: Skeleton, box: BoxLimits | None) -> Box:
    """Limits on rotation vectors as arrays; none without a box."""
    if box is None:
        none = np.full((skeleton.num_joints, 3), np.inf)
        return Box(np.zeros(skeleton.num_joints, dtype=np.bool_), -none, none)
    low, high = np.array(box.low, dtype=np.float64), np.array(box.high, dtype=np.float64)
    boxed = np.asarray((np.isfinite(low) | np.isfinite(high)).any(axis=-1), dtype=np.bool_)
    return Box(boxed, low, high)


def _check_moves(
    skeleton: Skeleton, tasks: Sequence[Task], goals: Sequence[int], chains: Sequence[Sequence[int]], layout: Layout
) -> None:
    """Refuse a goal that nothing can move: no free joint above it, or bones without length between."""
    mobility, rest = layout.springs.mobility, skeleton.rest_positions()
    if mobility[-1] > 0.0:
        return
    for row, i in enumerate(goals):
        task = tasks[i]
        free = [j for j in chains[row] if mobility[j] > 0.0]
        place = rest[layout.blocks.joints[row]] + layout.blocks.points[row]
        has_lever = any(np.linalg.norm(place - rest[j]) > 1e-9 for j in free)
        if not free or (isinstance(task, PointTask) and not has_lever):
            name = (
                "the centre of mass" if isinstance(task, ComTask) else f"'{skeleton.names[layout.blocks.joints[row]]}'"
            )
            raise InputError(
                f"nothing can move task {i}, {name}: its chain has no length or no free joint",
                "Free the root (root='free') or another joint above it, or give the task a point away from the joint",
            )
