"""Joint values that best compensate the errors of parent joints, and the error of a frame.

Tables say what belongs together in a body: points that a joint answers for, numbers that predict one another.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.compression.joint_fit import (
    BALL,
    FIXED,
    FREE,
    WIDTHS,
    JointTables,
    compute_joint_column,
    compute_joint_rotation,
)
from marey.lie.kernels import Vector, cross, multiply, quaternion_at, rotate, unrotate
from marey.skeleton import Skeleton

LINKS: Final = 8  # as the compiled predictor has
MIN_LEVER_M: Final = 0.05  # joints of one parent this near to one another move alike (a thumb and a hand)
CHILD_WEIGHT: Final = 0.65  # weight of points behind a joint that cannot make up for all errors; by trial
SAME_POSITION_M: Final = 1e-6


def build_point_table(skeleton: Skeleton, kinds: IntArray) -> tuple[IntArray, FloatArray, IntArray]:
    """Joints ``(M,)`` that each joint answers for, their weights ``(M,)`` and the first of each joint ``(J + 1,)``.

    A joint answers for its children. A child that does not turn freely cannot make up for the errors of its parent in
    every direction, so the parent answers for what lies behind it too.
    """
    points: list[int] = []
    weights: list[float] = []
    starts = [0]
    children = [skeleton.children(j).tolist() for j in range(skeleton.num_joints)]
    for j in range(skeleton.num_joints):
        ahead = [(c, 1.0) for c in reversed(children[j])]
        while ahead:
            child, weight = ahead.pop()
            if np.linalg.norm(skeleton.offsets[child]) > SAME_POSITION_M:
                points.append(child)
                weights.append(weight)
            if kinds[child] not in (BALL, FREE):
                behind = weight * (1.0 if kinds[child] == FIXED else CHILD_WEIGHT)
                ahead.extend((c, behind) for c in reversed(children[child]))
        starts.append(len(points))
    return np.array(points, dtype=np.int64), np.array(weights), np.array(starts, dtype=np.int64)


def build_link_table(skeleton: Skeleton, kinds: IntArray) -> IntArray:
    """Numbers ``(n, LINKS)`` coded earlier in a frame whose surprises foretell each number; -1 fills up.

    They are the earlier numbers of the same joint, those of a sibling at the same place, and those of the joints above.
    """
    widths = np.array(WIDTHS)[kinds]
    starts = 3 + np.concatenate([[0], np.cumsum(widths)])
    table = np.full((starts[-1], LINKS), -1, dtype=np.int64)
    table[1, 0], table[2, :2] = 0, (0, 1)
    for j in range(skeleton.num_joints):
        around: list[int] = []
        # Numbers of the nearest earlier sibling at the same place
        for other in range(j - 1, 0, -1):
            gap = np.linalg.norm(skeleton.offsets[other] - skeleton.offsets[j])
            if skeleton.parents[other] == skeleton.parents[j] and widths[other] and gap < MIN_LEVER_M:
                around.extend(range(starts[other], starts[other + 1]))
                break
        # Vector numbers, or a joint more, of the joints above
        wanted = len(around) + 3
        above = skeleton.parents[j]
        if j == 0:
            around.extend(range(3))
        while above >= 0 and len(around) < wanted:
            around.extend(range(starts[above], starts[above + 1]))
            above = skeleton.parents[above]
        for k in range(widths[j]):
            chosen = [*range(starts[j], starts[j] + k), *around][:LINKS]
            table[starts[j] + k, : len(chosen)] = chosen
    return table


def compute_reach(skeleton: Skeleton, shell_m: float) -> FloatArray:
    """Length ``(J,)`` [m] of the longest stretch that a joint can move, at least ``shell_m``."""
    reach = np.full(skeleton.num_joints, shell_m)
    for j in range(skeleton.num_joints - 1, 0, -1):
        parent = skeleton.parents[j]
        reach[parent] = max(reach[parent], float(np.linalg.norm(skeleton.offsets[j])) + reach[j])
    return reach


REGULARISATION = 1e-9  # of the trace, added to the normal matrix of a joint
NUM_PASSES = 2  # Gauss-Newton steps from the captured numbers; errors are small
SHELL_WEIGHT = 0.6  # of the three points around a joint, against its children; by trial


class CodecBody(NamedTuple):
    """The tree, and which points each joint answers for."""

    parents: IntArray  # (J,)
    offsets: FloatArray  # (1 or B, J, 3) [m]
    joints: JointTables
    points: IntArray  # (M,) joints whose position a joint answers for
    point_weights: FloatArray  # (M,)
    point_starts: IntArray  # (J + 1,)
    shell_m: float


class CapturedFrames(NamedTuple):
    """Some frames of the captured clip."""

    positions: FloatArray  # (B, J, 3) [m] in world
    frames: FloatArray  # (B, J, 4) R_world_joint
    numbers: FloatArray  # (B, n)


class FrameState(NamedTuple):
    """The frame being built, and room for the normal equations of a joint."""

    positions: FloatArray  # (J, 3)
    frames: FloatArray  # (J, 4)
    columns: FloatArray  # (4, 3)
    normal: FloatArray  # (4, 4)
    slope: FloatArray  # (4,)
    wanted: FloatArray  # (4,)
    room: FloatArray  # (4, 5)


@kernel
def new_frame_state(joints: int) -> FrameState:
    """Room for a skeleton of so many joints."""
    return FrameState(
        np.zeros((joints, 3)), np.zeros((joints, 4)), np.zeros((4, 3)), np.zeros((4, 4)), np.zeros(4), np.zeros(4),
        np.zeros((4, 5)),
    )  # fmt: skip


@kernel
def position_joint(body: CodecBody, pose: FrameState, t: int, j: int) -> None:
    """Put joint ``j`` at its place on its parent."""
    p = body.parents[j]
    o = body.offsets[t if body.offsets.shape[0] > 1 else 0, j]
    x, y, z = rotate(quaternion_at(pose.frames, p), (o[0], o[1], o[2]))
    pose.positions[j, 0] = pose.positions[p, 0] + x
    pose.positions[j, 1] = pose.positions[p, 1] + y
    pose.positions[j, 2] = pose.positions[p, 2] + z


@kernel
def rotate_joint(body: CodecBody, pose: FrameState, j: int, numbers: FloatArray) -> None:
    """Turn joint ``j`` by its numbers."""
    local = compute_joint_rotation(body.joints, j, numbers)
    world = local if j == 0 else multiply(quaternion_at(pose.frames, body.parents[j]), local)
    for c in range(4):
        pose.frames[j, c] = world[c]


@kernel
def _shell_point(body: CodecBody, axis: int) -> Vector:
    r = body.shell_m
    return (r if axis == 0 else 0.0, r if axis == 1 else 0.0, r if axis == 2 else 0.0)


@kernel
def _read_point_target(body: CodecBody, goal: CapturedFrames, t: int, j: int, k: int) -> tuple[Vector, Vector, float]:
    """Point ``k`` of joint ``j``: where it is in the joint's frame, where it was captured, and its weight."""
    world, origin = quaternion_at(goal.frames[t], j), goal.positions[t, j]
    first, last = body.point_starts[j], body.point_starts[j + 1]
    if k < last - first:
        there = goal.positions[t, body.points[first + k]]
        local = unrotate(world, (there[0] - origin[0], there[1] - origin[1], there[2] - origin[2]))
        return local, (there[0], there[1], there[2]), float(body.point_weights[first + k])
    local = _shell_point(body, k - (last - first))
    x, y, z = rotate(world, local)
    return local, (origin[0] + x, origin[1] + y, origin[2] + z), SHELL_WEIGHT


@kernel
def solve_small(matrix: FloatArray, right: FloatArray, first: int, count: int, room: FloatArray) -> None:
    """Solve the block ``first .. count`` of a symmetric system in place of ``right``; ``room`` is ``(4, 5)``."""
    n = count - first
    for a in range(n):
        for b in range(n):
            room[a, b] = matrix[first + a, first + b]
        room[a, 4] = right[first + a]
    # Gaussian elimination, then back substitution
    for a in range(n):
        for b in range(a + 1, n):
            share = room[b, a] / room[a, a]
            for c in range(a, n):
                room[b, c] -= share * room[a, c]
            room[b, 4] -= share * room[a, 4]
    for a in range(n - 1, -1, -1):
        total = room[a, 4]
        for b in range(a + 1, n):
            total -= room[a, b] * right[first + b]
        right[first + a] = total / room[a, a]


@kernel
def solve_joint(body: CodecBody, goal: CapturedFrames, pose: FrameState, t: int, j: int) -> None:
    """Set ``pose.wanted`` to the numbers of joint ``j`` that bring its points nearest to where they were captured."""
    joints = body.joints
    first, count = joints.starts[j], joints.starts[j + 1] - joints.starts[j]
    for i in range(count):
        pose.wanted[i] = goal.numbers[t, first + i]
    for _ in range(NUM_PASSES):
        local = compute_joint_rotation(joints, j, pose.wanted)
        world = local if j == 0 else multiply(quaternion_at(pose.frames, body.parents[j]), local)
        pose.normal[:] = 0.0
        pose.slope[:] = 0.0
        for i in range(count):
            pose.columns[i, 0], pose.columns[i, 1], pose.columns[i, 2] = compute_joint_column(
                joints, j, pose.wanted, local, i
            )
        for k in range(body.point_starts[j + 1] - body.point_starts[j] + 3):
            at, target, weight = _read_point_target(body, goal, t, j, k)
            # The gap of this point in the joint's frame, and how it moves with each number
            origin = pose.positions[j]
            x, y, z = rotate(world, at)
            gap = (target[0] - x - origin[0], target[1] - y - origin[1], target[2] - z - origin[2])
            u, v, w = unrotate(world, gap)
            square = weight * weight
            a, b, c = at
            rows = pose.room
            for i in range(count):
                o = pose.columns[i]
                rows[i, 0], rows[i, 1], rows[i, 2] = o[1] * c - o[2] * b, o[2] * a - o[0] * c, o[0] * b - o[1] * a
                pose.slope[i] += square * (rows[i, 0] * u + rows[i, 1] * v + rows[i, 2] * w)
                for m in range(i + 1):
                    dot = rows[i, 0] * rows[m, 0] + rows[i, 1] * rows[m, 1] + rows[i, 2] * rows[m, 2]
                    pose.normal[i, m] += square * dot
        # One Gauss-Newton step
        trace = 0.0
        for i in range(count):
            trace += pose.normal[i, i]
        for i in range(count):
            pose.normal[i, i] += REGULARISATION * trace + 1e-18
            for k in range(i):
                pose.normal[k, i] = pose.normal[i, k]
        solve_small(pose.normal, pose.slope, 0, count, pose.room)
        for i in range(count):
            pose.wanted[i] += pose.slope[i]


@kernel
def compensate_rounding(pose: FrameState, i: int, error: float, count: int) -> None:
    """Move the numbers after ``i`` of this joint to make up for the rounding error of number ``i``."""
    if i + 1 >= count:
        return
    for k in range(i + 1, count):
        pose.slope[k] = -pose.normal[k, i] * error
    solve_small(pose.normal, pose.slope, i + 1, count, pose.room)
    for k in range(i + 1, count):
        pose.wanted[k] += pose.slope[k]


@kernel
def compute_joint_error(body: CodecBody, goal: CapturedFrames, pose: FrameState, t: int, j: int) -> float:
    """Largest squared displacement [m^2] of the origin of joint ``j`` and of the three points around it."""
    here, there = pose.positions[j], goal.positions[t, j]
    x, y, z = here[0] - there[0], here[1] - there[1], here[2] - there[2]
    worst = x * x + y * y + z * z
    for axis in range(3):
        p = _shell_point(body, axis)
        a, b, c = rotate(quaternion_at(pose.frames, j), p)
        u, v, w = rotate(quaternion_at(goal.frames[t], j), p)
        worst = max(worst, (x + a - u) ** 2 + (y + b - v) ** 2 + (z + c - w) ** 2)
    return worst


@kernel
def compute_joint_levers(body: CodecBody, goal: CapturedFrames) -> FloatArray:
    """How far the points of a joint move per unit of each of its numbers [m], root mean square over frames."""
    joints = body.joints
    total = np.zeros(joints.starts[-1])
    seen = 0
    for t in range(goal.numbers.shape[0]):
        seen += 1
        for j in range(joints.kinds.shape[0]):
            s = goal.numbers[t, joints.starts[j] : joints.starts[j + 1]]
            local = compute_joint_rotation(joints, j, s)
            for i in range(s.shape[0]):
                o = compute_joint_column(joints, j, s, local, i)
                worst, own = 0.0, body.point_starts[j + 1] - body.point_starts[j]
                for k in range(own + 3):
                    at, _, weight = _read_point_target(body, goal, t, j, k)
                    weight = min(weight / SHELL_WEIGHT, 1.0) if k >= own else weight
                    x, y, z = cross(o, at)
                    worst = max(worst, weight * weight * (x * x + y * y + z * z))
                total[joints.starts[j] + i] += worst
    return np.sqrt(total / seen)
