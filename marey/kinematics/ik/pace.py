"""How far a pose may go in a frame, and the compiled loops over the frames of a clip."""

from __future__ import annotations

from math import acos, sqrt
from typing import NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.kinematics.ik.active_set import project_to_box
from marey.kinematics.ik.coordinates import ModelSpace, evaluate_state
from marey.kinematics.ik.levenberg_marquardt import (
    ALLOWED_RAD,
    DenseStep,
    DualStep,
    StopRule,
    solve_dense_steps,
    solve_dual_steps,
)
from marey.kinematics.ik.state import (
    ORIENTATION,
    REACHED,
    STATIONARY,
    Goals,
    IKLayout,
    PoseArrays,
    SpeedLimits,
    evaluate_goals,
    is_all_reached,
    new_state,
)
from marey.kinematics.limits.learn import Bounds, check_bounds, project_to_bounds
from marey.lie.kernels import conjugate, exp, log, multiply, quaternion_at, write_rotation
from marey.models.projection import model_jacobian
from marey.models.samples import RodBody, write_kinetic_metric

MIN_JOINT_STEP_RAD = 0.01  # [rad] goals that do not move: a tolerance of 1 mm turns a limb by about this
MAX_REPAIRS = 3  # times that a pose is held back and the joints that are not held take over
REPAIR_ITERATIONS = 12  # of each of them
NUDGE_FRACTIONS = (0.15, 0.5, 1.0)  # [-] of the way to the middle of the limits, when goals are missed
MIN_IMPROVEMENT = 0.5  # [-] of the objective: less than this is worth another branch of answers
MAX_WAIT_FRAMES = 16  # frames without another try, after tries that found nothing
PENALTY_FACTORS = (1.0, 1e3, 1e6, 1e8)  # [-] of the first; goals 10 m away press a joint 1e-7 rad into the last


class ClipSolution(NamedTuple):
    """Answers of F frames, written by the compiled loops."""

    roots: FloatArray  # (F, 3) [m]
    wxyz: FloatArray  # (F, J, 4)
    x: FloatArray  # (F, k) coordinates of the model
    errors: FloatArray  # (F, B, 3)
    stops: IntArray  # (F,) how each frame ended: REACHED, STATIONARY or OUT_OF_ITERATIONS
    iterations: IntArray  # (F,)
    evaluations: IntArray  # (F,)
    objectives: FloatArray  # (F,)
    gradients: FloatArray  # (F,) projected
    violations: FloatArray  # (F,) [rad] of limits by poses of a model
    is_held: BoolArray  # (F,) poses that went too far and were brought back on their way
    history: FloatArray  # (H, 4) iterations of the last frame that dense steps solved


@kernel
def max_joint_step(layout: IKLayout, pace: SpeedLimits, goals: Goals, f: int) -> float:
    """Largest turn [rad] that a joint may make in frame f: as far as the fastest goal moves, over a limb, and a little.

    There is none in the first frame, nor where goals come or go.
    """
    targets, active = goals.targets, goals.active
    if f == 0:
        return np.inf
    fastest = 0.0
    for b in range(targets.shape[1]):
        # Goals that come or go may ask for anything
        if active[f, b] != active[f - 1, b]:
            return np.inf
        if not active[f, b]:
            continue
        old, new = targets[f - 1, b], targets[f, b]
        if layout.blocks.kinds[b] == ORIENTATION:
            fastest = max(fastest, quaternion_angle(old, new))
        else:
            step = sqrt((new[0] - old[0]) ** 2 + (new[1] - old[1]) ** 2 + (new[2] - old[2]) ** 2)
            fastest = max(fastest, step / pace.limb_m)
    return pace.max_turn * (fastest + MIN_JOINT_STEP_RAD)


@kernel
def quaternion_angle(p: FloatArray, q: FloatArray) -> float:
    """Angle [rad] between two unit quaternions."""
    return 2.0 * acos(min(1.0, abs(p[0] * q[0] + p[1] * q[1] + p[2] * q[2] + p[3] * q[3])))


@kernel
def largest_joint_step(last: PoseArrays, pose: PoseArrays, limb_m: float) -> float:
    """Largest turn [rad] of a joint between two poses; a limb's length of the root counts as 1 rad."""
    step = 0.0
    for c in range(3):
        step += (pose.root[c] - last.root[c]) ** 2
    largest = sqrt(step) / limb_m
    for j in range(last.wxyz.shape[0]):
        largest = max(largest, quaternion_angle(last.wxyz[j], pose.wxyz[j]))
    return largest


@kernel
def interpolate_rotation(old: FloatArray, new: FloatArray, j: int, part: float, out: FloatArray) -> None:
    """Write the rotation of joint j a part of the way from one pose ``(J, 4)`` to the other."""
    start = quaternion_at(old, j)
    turn = log(multiply(conjugate(start), quaternion_at(new, j)))
    write_rotation(out[j], multiply(start, exp((part * turn[0], part * turn[1], part * turn[2]))))


@kernel
def clamp_joint_steps(last: PoseArrays, pose: PoseArrays, most: float, limb_m: float) -> None:
    """Bring joints that turn further than ``most`` [rad] back to it, and the root to ``most`` limbs."""
    step = 0.0
    for c in range(3):
        step += (pose.root[c] - last.root[c]) ** 2
    part = min(1.0, most * limb_m / max(sqrt(step), 1e-300))
    for c in range(3):
        pose.root[c] = last.root[c] + part * (pose.root[c] - last.root[c])
    for j in range(pose.wxyz.shape[0]):
        turn = quaternion_angle(last.wxyz[j], pose.wxyz[j])
        if turn > most:
            interpolate_rotation(last.wxyz, pose.wxyz, j, most / turn, pose.wxyz)


@kernel
def solve_full_clip(
    layout: IKLayout,
    bounds: Bounds | None,
    dual: DualStep,
    pace: SpeedLimits,
    goals: Goals,
    pose: PoseArrays,
    stop: StopRule,
    clip: ClipSolution,
) -> None:
    """Solve frame after frame in the full space, each from the answer before; ``pose`` ends as the last.

    A frame that misses goals is tried again from the last pose moved off its bounds: a joint on one, a straight knee
    say, may be stuck there. Then every joint is kept within what ``pace`` allows of the last pose. Joints that would
    turn further are held, and the others take over what they can; what is left to do is done in the frames that follow.
    """
    joints, blocks = pose.wxyz.shape[0], pose.errors.shape[0]
    last = PoseArrays(pose.root.copy(), pose.wxyz.copy(), pose.x.copy(), np.zeros((blocks, 3)))
    other = PoseArrays(pose.root.copy(), pose.wxyz.copy(), pose.x.copy(), np.zeros((blocks, 3)))
    history, vectors, wait, pause = np.zeros((0, 4)), np.zeros((joints, 3)), 0, 1
    chain = layout.lists.chain
    for f in range(goals.targets.shape[0]):
        last.root[:], last.wxyz[:] = pose.root, pose.wxyz
        frame = Goals(goals.targets[f], goals.active[f])
        status, spent, _, cost, gradient, _ = solve_dual_steps(layout, bounds, dual, frame, pose, stop, history)

        # Another branch of answers is taken if it reaches all goals, or has less than half of the objective: springs
        # far from rest are a wrung trunk. Goals that are met stay met
        if status != REACHED and pace.middle.shape[0] > 0:
            wait -= 1
            if wait <= 0:
                first, is_met = cost, evaluate_goals(layout, frame, pose)[1]
                for part in NUDGE_FRACTIONS:
                    other.root[:], other.wxyz[:] = last.root, last.wxyz
                    # Joints that no goal moves stay as they are
                    for n in range(chain.shape[0]):
                        if chain[n] > 0 and layout.springs.mobility[chain[n]] > 0.0:
                            interpolate_rotation(last.wxyz, pace.middle, chain[n], part, other.wxyz)
                    found = solve_dual_steps(layout, bounds, dual, frame, other, stop, history)
                    spent += found[1]
                    is_better = found[3] < MIN_IMPROVEMENT * cost
                    if found[0] == REACHED or (is_better and (not is_met or evaluate_goals(layout, frame, other)[1])):
                        status, cost, gradient = found[0], found[3], found[4]
                        pose.root[:], pose.wxyz[:], pose.errors[:] = other.root, other.wxyz, other.errors
                    if found[0] == REACHED:
                        break
                pause = 1 if cost < first else min(2 * pause, MAX_WAIT_FRAMES)
                wait = pause
        else:
            wait, pause = 0, 1

        # A pose that jumps is held back
        most = max_joint_step(layout, pace, goals, f)
        turn = largest_joint_step(last, pose, pace.limb_m)
        if turn > most:
            # On its way as a whole: all joints by the same part
            part = min(1.0, most / max(turn, 1e-300))
            for c in range(3):
                other.root[c] = last.root[c] + part * (pose.root[c] - last.root[c])
            for j in range(joints):
                interpolate_rotation(last.wxyz, pose.wxyz, j, part, other.wxyz)
            # The fastest joints held, and the others take over
            clamp_joint_steps(last, pose, most, pace.limb_m)
            for _ in range(MAX_REPAIRS):
                repair = StopRule(REPAIR_ITERATIONS, stop.seek_optimum)
                solve_dual_steps(layout, bounds, dual, frame, pose, repair, history)
                clamp_joint_steps(last, pose, most, pace.limb_m)
            # The nearer of the two, inside the limits
            if bounds is not None:
                project_to_bounds(bounds, pose.wxyz)
                project_to_bounds(bounds, other.wxyz)
            else:
                project_to_box(layout.box, pose.wxyz, vectors)
                project_to_box(layout.box, other.wxyz, vectors)
            cost, is_reached = evaluate_goals(layout, frame, pose)
            whole_cost, is_whole = evaluate_goals(layout, frame, other)
            if whole_cost < cost and not is_reached:
                pose.root[:], pose.wxyz[:], pose.errors[:] = other.root, other.wxyz, other.errors
                cost, is_reached = whole_cost, is_whole
            status, clip.is_held[f] = REACHED if is_reached else STATIONARY, True

        clip.roots[f], clip.wxyz[f], clip.errors[f] = pose.root, pose.wxyz, pose.errors
        clip.stops[f], clip.iterations[f], clip.objectives[f], clip.gradients[f] = status, spent, cost, gradient


@kernel
def solve_dense_clip(
    layout: IKLayout,
    bounds: Bounds | None,
    dense: DenseStep,
    pace: SpeedLimits,
    goals: Goals,
    pose: PoseArrays,
    stop: StopRule,
    clip: ClipSolution,
) -> None:
    """Solve frame after frame by dense steps, each from the answer before; ``pose`` ends as the last.

    Under ``bounds`` the weight of violations grows until none is left: a frame has as many stages as it needs. One
    frame is a clip too.
    """
    last = PoseArrays(pose.root.copy(), pose.wxyz.copy(), pose.x.copy(), pose.errors.copy())
    for f in range(goals.targets.shape[0]):
        last.root[:], last.wxyz[:], last.x[:] = pose.root, pose.wxyz, pose.x
        frame, spent, tries = Goals(goals.targets[f], goals.active[f]), 0, 0
        status, cost, gradient, violation = STATIONARY, 0.0, 0.0, 0.0
        if dense.metric.shape[0] > 0:
            # The kinetic metric of the pose: root place, root turn, coordinates
            columns = np.zeros(dense.space.basis.shape)
            model_jacobian(dense.space.kind, dense.space.mean_wxyz, dense.space.basis, pose.x, columns)
            write_kinetic_metric(
                RodBody(layout.tree.parents, layout.tree.offsets, dense.space.rods), pose.wxyz, columns, dense.metric
            )
        # Ever stiffer penalties, until the pose is inside the limits
        for factor in PENALTY_FACTORS:
            way = DenseStep(dense.space, dense.method, dense.option, factor * dense.penalty, dense.metric)
            status, count, evaluations, cost, gradient, violation = solve_dense_steps(
                layout, bounds, way, frame, pose, stop, clip.history[spent:]
            )
            spent, tries = spent + count, tries + evaluations
            if violation <= ALLOWED_RAD:
                break
        # A pose that jumps is brought back on its way
        is_held, held_cost, is_reached = limit_pose_step(layout, dense.space, pace, goals, f, last, pose)
        if is_held:
            status, cost, clip.is_held[f] = REACHED if is_reached else STATIONARY, held_cost, True
            if bounds is not None:
                violation = check_bounds(bounds, pose.wxyz.reshape((1, pose.wxyz.shape[0], 4)))[1].max()
        clip.roots[f], clip.wxyz[f], clip.x[f], clip.errors[f] = pose.root, pose.wxyz, pose.x, pose.errors
        clip.stops[f], clip.iterations[f], clip.evaluations[f] = status, spent, tries
        clip.objectives[f], clip.gradients[f], clip.violations[f] = cost, gradient, violation


@kernel
def limit_pose_step(
    layout: IKLayout, space: ModelSpace, pace: SpeedLimits, goals: Goals, f: int, last: PoseArrays, pose: PoseArrays
) -> tuple[bool, float, bool]:
    """Bring a pose that went too far in frame f back on its way, in the coordinates of the model.

    Tells whether there was anything to do; then the objective, and whether all goals are reached.
    """
    most, turn = max_joint_step(layout, pace, goals, f), largest_joint_step(last, pose, pace.limb_m)
    if not turn > most:
        return False, 0.0, False
    # All of the pose goes the same part of the way
    part = most / turn
    for c in range(3):
        pose.root[c] = last.root[c] + part * (pose.root[c] - last.root[c])
    for i in range(pose.x.shape[0]):
        pose.x[i] = last.x[i] + part * (pose.x[i] - last.x[i])
    for j in range(1 if space.is_reduced else pose.wxyz.shape[0]):
        interpolate_rotation(last.wxyz, pose.wxyz, j, part, pose.wxyz)
    frame, state = Goals(goals.targets[f], goals.active[f]), new_state(layout, pose)
    cost = evaluate_state(layout, space, frame, state)
    pose.wxyz[:], pose.errors[:] = state.wxyz, state.errors
    return True, cost, is_all_reached(layout.blocks.tolerances, frame.active, pose.errors)
