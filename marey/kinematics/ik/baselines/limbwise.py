"""Methods that move joints limb by limb: the analytic limb, and compiled cyclic coordinate descent on ball joints."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, kernel
from marey.kinematics.ik.active_set import clamp_coordinates, pose_joint, project_to_box, read_coordinates
from marey.kinematics.ik.problem import Guess, SolverInputs, SolverOutcome
from marey.kinematics.ik.state import (
    LOOK_AT,
    ORIENTATION,
    OUT_OF_ITERATIONS,
    POINT,
    REACHED,
    STATIONARY,
    Goals,
    IKLayout,
    IKState,
    PoseArrays,
    evaluate_goals,
    evaluate_residuals,
    forward_kinematics,
    is_all_reached,
    new_state,
)
from marey.kinematics.two_bone import Limb, solve_two_bone
from marey.lie import SO3
from marey.lie.kernels import (
    Vector,
    conjugate,
    multiply,
    norm,
    put3,
    quaternion_at,
    rotate,
    row3,
    subtract3,
    write_rotation,
)
from marey.motion import Motion
from marey.skeleton import NO_PARENT, Pose, Skeleton

MIN_BONE_M = 1e-6  # [m] a joint nearer to its child is passed over


def solve_two_bone_tasks(run: SolverInputs, guess: Guess, method: str) -> SolverOutcome:
    """Move each goal by the two bones above it, in closed form ([Glardon2005]_ §2.17); all else stays.

    A point away from its joint, or an orientation of the same joint, turns the end too. A root that is free is shifted
    by nothing: limbs only.
    """
    p, blocks = run.problem, run.problem.layout.blocks
    if run.space is not None or not np.isin(blocks.kinds, (POINT, ORIENTATION)).all():
        raise InputError(f"{method} moves limbs", "Give it a skeleton and tasks on places and orientations only")
    turns = {int(blocks.joints[b]): SO3(run.targets[b]) for b in np.flatnonzero(blocks.kinds == ORIENTATION)}
    motion = Motion(p.skeleton, 1.0, guess.root[None], SO3(guess.wxyz[None]))
    # Limb by limb; a point away from its joint is reached by the joint's origin
    for b in np.flatnonzero(blocks.kinds == POINT):
        joint = int(blocks.joints[b])
        end = turns.get(joint)
        held = motion.joint_frames()[1][:, joint] if end is None else SO3(end.wxyz[None])
        goal = run.targets[b, :3] - (held @ blocks.points[b])[0]
        motion = solve_two_bone(motion, find_limb_above(motion[0], joint), goal, end_rotations=held).motion
    guess.wxyz[:] = motion.rotations.wxyz[0]
    if run.limits is not None:
        guess.wxyz[:] = run.limits.project_rotations(SO3(guess.wxyz[None])).wxyz[0]
    cost, is_reached = evaluate_goals(p.layout, run.goals, run.pose_arrays(guess))
    return SolverOutcome(REACHED if is_reached else STATIONARY, 1, 1, cost, 0.0)


def find_limb_above(pose: Pose, end: int) -> Limb:
    """The two nearest bones above a joint, and the way they bend now (or backwards for a straight limb).

    Raises:
        InputError: there are no two bones above it.
    """
    skeleton, positions = pose.skeleton, pose.joint_positions()
    middle = _find_bone_above(skeleton, positions, end)
    upper = NO_PARENT if middle == NO_PARENT else _find_bone_above(skeleton, positions, middle)
    if upper == NO_PARENT:
        raise InputError(f"'{skeleton.names[end]}' has no two bones above it", "Use another method for this goal")
    along, bend = positions[end] - positions[upper], positions[middle] - positions[upper]
    pole = bend - along * (along @ bend) / max(along @ along, 1e-12)
    is_leg = along[1] < -0.7 * np.linalg.norm(along)
    fallback = np.array([0.0, 0.0, 1.0 if is_leg else -1.0])
    ahead = pole / np.linalg.norm(pole) if np.linalg.norm(pole) > 1e-3 else fallback
    return Limb(upper, middle, end, pose.joint_rotations()[upper].inverse() @ ahead)


def _find_bone_above(skeleton: Skeleton, positions: FloatArray, joint: int) -> int:
    above = int(skeleton.parents[joint])
    while above != NO_PARENT and np.linalg.norm(positions[joint] - positions[above]) < MIN_BONE_M:
        above = int(skeleton.parents[above])
    return above


REGULARISATION = (
    1e-6  # [-] pull towards no turn, relative to the data: settles the twist that a single target leaves open
)


@kernel
def add_outer(B: FloatArray, weight: float, a: Vector, b: Vector) -> None:
    """Add ``weight a b^T``."""
    for r in range(3):
        for c in range(3):
            B[r, c] += weight * a[r] * b[c]


@kernel
def gather_goals(layout: IKLayout, goals: Goals, moved_by: BoolArray, j: int, state: IKState, B: FloatArray) -> float:
    """Write what the blocks that joint j moves ask of its turn; return the sum of the data's weights."""
    B[:] = 0.0
    total, W, world, origin = 0.0, layout.blocks.weights, state.world, row3(state.positions, j)
    for b in range(goals.targets.shape[0]):
        if not (goals.active[b] and moved_by[b, j]):
            continue
        k, weight = layout.blocks.joints[b], (W[b, 0, 0] + W[b, 1, 1] + W[b, 2, 2]) / 3.0
        if layout.blocks.kinds[b] == ORIENTATION:
            # The three axes of the joint shall be those of the target
            for c in range(3):
                axis = (1.0 if c == 0 else 0.0, 1.0 if c == 1 else 0.0, 1.0 if c == 2 else 0.0)
                wanted, found = rotate(quaternion_at(goals.targets, b), axis), rotate(quaternion_at(world, k), axis)
                add_outer(B, weight, wanted, found)
            total += 3.0 * weight
            continue
        # The lever shall point where the target is
        away, lever = subtract3(row3(goals.targets, b), origin), subtract3(row3(state.places, b), origin)
        if layout.blocks.kinds[b] == LOOK_AT:
            lever = rotate(quaternion_at(world, k), row3(layout.blocks.aims, b))
            away = subtract3(row3(goals.targets, b), row3(state.places, b))
            weight /= max(1e-9, norm(away))
        add_outer(B, weight, away, lever)
        total += weight * norm(away)
        total += weight * norm(lever)
    return total


@kernel
def shift_root(layout: IKLayout, active: BoolArray, errors: FloatArray, root: FloatArray) -> None:
    """Move the root by the weighted mean of what the points miss."""
    total, shift = 0.0, np.zeros(3)
    for b in range(errors.shape[0]):
        if active[b] and layout.blocks.kinds[b] != ORIENTATION and layout.blocks.kinds[b] != LOOK_AT:
            weight = (
                layout.blocks.weights[b, 0, 0] + layout.blocks.weights[b, 1, 1] + layout.blocks.weights[b, 2, 2]
            ) / 3.0
            total += weight
            for c in range(3):
                shift[c] += weight * errors[b, c]
    if total > 0.0:
        for c in range(3):
            root[c] += shift[c] / total


@kernel
def evaluate_turn(layout: IKLayout, goals: Goals, state: IKState) -> float:
    """Work out the pose after a turn and return the objective of its goals."""
    forward_kinematics(layout.tree, state.root, state.wxyz, state.positions, state.world)
    return evaluate_residuals(layout, goals, state)


@kernel
def solve_ccd(
    layout: IKLayout, goals: Goals, pose: PoseArrays, max_iterations: int, history: FloatArray
) -> tuple[int, int, int, float, float]:
    """Sweep from the tips to the root; each joint takes the turn that is best for all the goals it moves.

    For one goal this is the closed form of [Engell2012]_ §6 item 6 on a ball joint; for many it is Wahba's problem, so
    the objective falls with every turn. A turn that a limit spoils is taken back. Returns how it ended, iterations,
    evaluations, objective, and zero for the gradient, which it does not know.
    """
    joints, blocks, tolerances = pose.wxyz.shape[0], pose.errors.shape[0], layout.blocks.tolerances
    state, B = new_state(layout, pose), np.zeros((3, 3))
    moved_by, old, old_v = np.zeros((blocks, joints), dtype=np.bool_), np.empty(4), np.empty(3)
    # Which joints move which blocks
    for b in range(blocks):
        for i in range(layout.lists.chain_start[b], layout.lists.chain_start[b + 1]):
            moved_by[b, layout.lists.chain[i]] = True
    project_to_box(layout.box, state.wxyz, state.vectors)
    cost = evaluate_turn(layout, goals, state)
    status, iteration, evaluations = OUT_OF_ITERATIONS, 0, 1
    while iteration < max_iterations and not is_all_reached(tolerances, goals.active, state.errors):
        iteration += 1
        before = cost
        for j in range(joints - 1, -1, -1):
            if layout.springs.mobility[j] == 0.0:
                continue
            total = gather_goals(layout, goals, moved_by, j, state, B)
            if total == 0.0:
                continue
            for c in range(3):
                B[c, c] += REGULARISATION * total
            old[:], old_v[:] = state.wxyz[j], state.vectors[j]
            # The rotation Q that maximises tr(Q^T B): the largest eigenvector of Davenport's matrix
            K, trace = np.empty((4, 4)), B[0, 0] + B[1, 1] + B[2, 2]
            K[0, 0] = trace
            K[0, 1] = K[1, 0] = B[2, 1] - B[1, 2]
            K[0, 2] = K[2, 0] = B[0, 2] - B[2, 0]
            K[0, 3] = K[3, 0] = B[1, 0] - B[0, 1]
            for r in range(3):
                for c in range(3):
                    K[1 + r, 1 + c] = B[r, c] + B[c, r] - (trace if r == c else 0.0)
            # The joint turned by Q, a world rotation, staying in its box
            turn = np.linalg.eigh(K)[1][:, 3].copy()
            p, q = layout.tree.parents[j], (turn[0], turn[1], turn[2], turn[3])
            if p >= 0:
                above = quaternion_at(state.world, p)
                q = multiply(multiply(conjugate(above), q), above)
            write_rotation(state.wxyz[j], multiply(q, quaternion_at(state.wxyz, j)))
            if layout.box.boxed[j]:
                v = clamp_coordinates(
                    layout.box.is_swing[j], row3(state.vectors, j), read_coordinates(layout.box, j, state.wxyz)
                )
                put3(state.vectors, j, v)
                write_rotation(state.wxyz[j], pose_joint(layout.box, j, v))
            # Taken back where a limit spoils it
            new_cost = evaluate_turn(layout, goals, state)
            evaluations += 1
            if new_cost > cost:
                state.wxyz[j], state.vectors[j] = old, old_v
                new_cost = evaluate_turn(layout, goals, state)
            cost = new_cost
        # The root's place follows what all points miss
        if layout.springs.mobility[joints] > 0.0:
            shift_root(layout, goals.active, state.errors, state.root)
            cost = evaluate_turn(layout, goals, state)
        if iteration <= history.shape[0]:
            history[iteration - 1, 0] = cost
        if before - cost < 1e-12 * before:
            status = STATIONARY
            break
    if is_all_reached(tolerances, goals.active, state.errors):
        status = REACHED
    pose.root[:], pose.wxyz[:], pose.errors[:] = state.root, state.wxyz, state.errors
    return status, iteration, evaluations, cost, 0.0
