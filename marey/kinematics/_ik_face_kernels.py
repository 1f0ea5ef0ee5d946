"""Compiled steps inside limits of any kind: the faces that joints are pressed on, found from projections alone.

A step that leaves a joint's set is brought back by the set's own projection. What the projection took away is the
outward normal there: along it the joint goes as far as the projection says, and the step is solved anew for all else,
so the other joints take over. It is the active set of the boxes, found from the projection alone.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, kernel
from marey.kinematics._ik_dual_kernels import (
    add_prior_shift,
    assemble_dual_matrix,
    compute_compliances,
    multiply_compliance,
    solve_dual_step,
)
from marey.kinematics._ik_kernels import MAX_BINDINGS
from marey.kinematics._ik_layout import IKLayout, RotationVectorBox
from marey.kinematics._ik_move_kernels import subtract_fixed_shift
from marey.kinematics._ik_state_kernels import rotate_vector
from marey.kinematics._limits_all_kernels import check_bounds
from marey.kinematics._limits_tables import Bounds
from marey.kinematics._solvers_space_kernels import IKState, LinearRows
from marey.lie._rotation_kernels import exponential, logarithm, product

BLOCKED_RAD = 1e-9  # [rad] less than this taken from a step is rounding


class ActiveLimits(NamedTuple):
    """Where the joints may go: an orthonormal basis of each, in its own frame, and which of its axes are loose."""

    axes: FloatArray  # (J, 3, 3) columns
    loose: BoolArray  # (J, 3)
    held: FloatArray  # (J, 3) [rad] how far along the others
    walls: RotationVectorBox  # ``boxed`` marks joints with an axis that is not loose


class StepBuffers(NamedTuple):
    """Scratch of one step."""

    torques: FloatArray  # (J + 1, 3)
    slopes: FloatArray  # (J + 1, 3) half the negative gradient, world axes
    ease: FloatArray  # (J + 1,)
    eased: FloatArray  # (N, 3, 3)
    G: FloatArray  # (J, 3, 3)
    S: FloatArray  # (3 B, 3 B)
    y: FloatArray  # (3 B,)


@kernel
def new_active_limits(joints: int) -> ActiveLimits:
    """A face on which every joint is free."""
    ends = np.zeros((0, 3))
    walls = RotationVectorBox(np.zeros(joints, dtype=np.bool_), ends, ends)
    return ActiveLimits(np.zeros((joints, 3, 3)), np.ones((joints, 3), dtype=np.bool_), np.zeros((joints, 3)), walls)


@kernel
def new_step_buffers(layout: IKLayout) -> StepBuffers:
    """Room for a step."""
    joints, blocks = layout.tree.parents.shape[0], layout.blocks.kinds.shape[0]
    return StepBuffers(
        np.zeros((joints + 1, 3)),
        np.zeros((joints + 1, 3)),
        np.zeros(joints + 1),
        np.zeros((layout.lists.chain.shape[0], 3, 3)),
        np.zeros((joints, 3, 3)),
        np.zeros((3 * blocks, 3 * blocks)),
        np.zeros(3 * blocks),
    )


@kernel
def release_all_limits(face: ActiveLimits) -> None:
    """Take all walls away."""
    face.loose[:], face.held[:], face.walls.boxed[:], face.axes[:] = True, 0.0, False, 0.0
    for j in range(face.axes.shape[0]):
        for c in range(3):
            face.axes[j, c, c] = 1.0


@kernel
def write_world_axes(face: ActiveLimits, world: FloatArray, j: int, frames: FloatArray) -> None:
    """Write the world axes of a joint's basis."""
    for c in range(3):
        x, y, z = rotate_vector(world, j, face.axes[j, 0, c], face.axes[j, 1, c], face.axes[j, 2, c])
        frames[j, 0, c], frames[j, 1, c], frames[j, 2, c] = x, y, z


@kernel
def compute_joint_rotation(face: ActiveLimits, step: StepBuffers, frames: FloatArray, j: int, out: FloatArray) -> None:
    """Write a joint's turn ``(3,)`` [rad] in its own frame."""
    out[:] = 0.0
    for k in range(3):
        t = face.held[j, k]
        if face.loose[j, k]:
            t = frames[j, 0, k] * step.torques[j, 0] + frames[j, 1, k] * step.torques[j, 1]
            t = step.ease[j] * (t + frames[j, 2, k] * step.torques[j, 2])
        for c in range(3):
            out[c] += t * face.axes[j, c, k]


@kernel
def rotate_free_axes(face: ActiveLimits, j: int, normal: FloatArray) -> int:
    """Turn a joint's loose axes so that one of them is the unit vector ``normal`` of their span; return which."""
    best, most = -1, 0.0
    for k in range(3):
        if face.loose[j, k]:
            t = abs(face.axes[j, 0, k] * normal[0] + face.axes[j, 1, k] * normal[1] + face.axes[j, 2, k] * normal[2])
            if t > most:
                best, most = k, t
    for c in range(3):
        face.axes[j, c, best] = normal[c]
    for k in range(3):  # the others of the span, made upright on it and on one another
        if face.loose[j, k] and k != best:
            for m in range(3):
                if m < k or m == best or not face.loose[j, m]:
                    if m == k:
                        continue
                    t = 0.0
                    for c in range(3):
                        t += face.axes[j, c, k] * face.axes[j, c, m]
                    for c in range(3):
                        face.axes[j, c, k] -= t * face.axes[j, c, m]
            size = sqrt(face.axes[j, 0, k] ** 2 + face.axes[j, 1, k] ** 2 + face.axes[j, 2, k] ** 2)
            for c in range(3):
                face.axes[j, c, k] /= size
    return best


@kernel
def add_active_limit(face: ActiveLimits, j: int, wanted: FloatArray, got: FloatArray) -> bool:
    """Hold what a projection took from a joint's turn; tell whether that is news."""
    normal, size = np.zeros(3), 0.0
    for k in range(3):
        t = 0.0
        for c in range(3):
            t += face.axes[j, c, k] * (wanted[c] - got[c])
        if face.loose[j, k]:
            size += t * t
            for c in range(3):
                normal[c] += t * face.axes[j, c, k]
    if size > BLOCKED_RAD**2:
        best = rotate_free_axes(face, j, normal / sqrt(size))
        face.loose[j, best], face.walls.boxed[j] = False, True
    for k in range(3):
        if not face.loose[j, k]:
            t = got[0] * face.axes[j, 0, k] + got[1] * face.axes[j, 1, k] + got[2] * face.axes[j, 2, k]
            face.held[j, k] = t
    return size > BLOCKED_RAD**2


@kernel
def project_step(
    bounds: Bounds, face: ActiveLimits, step: StepBuffers, frames: FloatArray, state: IKState, trial: IKState
) -> bool:
    """Write the rotations after a step, inside the limits; wall in the joints that were not. Tell if there are any."""
    joints, is_any = state.wxyz.shape[0], False
    turns, got = np.zeros((joints, 3)), np.zeros(3)
    for j in range(joints):
        compute_joint_rotation(face, step, frames, j, turns[j])
        q = state.wxyz[j]
        a, b, c, d = exponential(turns[j, 0], turns[j, 1], turns[j, 2])
        a, b, c, d = product(q[0], q[1], q[2], q[3], a, b, c, d)
        scale = 1.5 - 0.5 * (a * a + b * b + c * c + d * d)
        trial.wxyz[j, 0], trial.wxyz[j, 1] = scale * a, scale * b
        trial.wxyz[j, 2], trial.wxyz[j, 3] = scale * c, scale * d
    out, violation, _ = check_bounds(bounds, trial.wxyz.reshape((1, joints, 4)))
    for j in range(joints):
        if violation[0, j] > 0.0:
            q, r = state.wxyz[j], out[0, j]
            trial.wxyz[j] = r
            a, b, c, d = product(q[0], -q[1], -q[2], -q[3], r[0], r[1], r[2], r[3])
            got[0], got[1], got[2] = logarithm(a, b, c, d)
            if add_active_limit(face, j, turns[j], got):
                write_world_axes(face, state.world, j, frames)
                is_any = True
    return is_any


@kernel
def solve_limited_step(
    layout: IKLayout,
    bounds: Bounds,
    damping: float,
    state: IKState,
    rows: LinearRows,
    face: ActiveLimits,
    step: StepBuffers,
    trial: IKState,
) -> float:
    """Write the pose after a damped step inside the limits; return the objective that it expects, springs apart."""
    blocks, lists, prior, joints = layout.blocks, layout.lists, layout.springs, state.wxyz.shape[0]
    release_all_limits(face)
    for j in range(joints):
        write_world_axes(face, state.world, j, rows.frames)
    expected = 0.0
    for _ in range(MAX_BINDINGS):
        compute_compliances(prior, face.walls, damping, rows.frames, face.loose, step.ease, step.G)
        multiply_compliance(lists, face.walls.boxed, rows.turns, step.ease, step.G, step.eased)
        assemble_dual_matrix(blocks, lists, damping, step.ease, True, rows.shifts, rows.turns, step.eased, step.S)
        for b in range(state.errors.shape[0]):
            for c in range(3):
                step.y[3 * b + c] = state.errors[b, c]
        add_prior_shift(lists, damping, float(step.ease[joints]), rows.shifts, step.eased, state.pulls, step.y)
        subtract_fixed_shift(lists, face.walls.boxed, rows.frames, face.held, rows.turns, step.y)
        expected = solve_dual_step(
            blocks, lists, damping, rows.shifts, rows.turns, state.pulls, step.S, step.y, step.torques
        )
        if not project_step(bounds, face, step, rows.frames, state, trial):
            break
    for c in range(3):
        trial.root[c] = state.root[c] + step.ease[joints] * step.torques[joints, c]
    return expected


@kernel
def largest_free_gradient(layout: IKLayout, face: ActiveLimits, step: StepBuffers, frames: FloatArray) -> float:
    """Largest component of the gradient of the whole objective along what is loose."""
    largest, last = 0.0, frames.shape[0]
    for j in range(last + 1):
        if layout.springs.mobility[j] == 0.0:
            continue
        for k in range(3):
            t = step.slopes[j, k]
            if j < last:
                t = frames[j, 0, k] * step.slopes[j, 0] + frames[j, 1, k] * step.slopes[j, 1]
                t += frames[j, 2, k] * step.slopes[j, 2]
            if j == last or face.loose[j, k]:
                largest = max(largest, 2.0 * abs(t))
    return largest


@kernel
def largest_pose_change(state: IKState, trial: IKState) -> float:
    """Largest change of a pose [m] or [rad]."""
    largest = 0.0
    for c in range(3):
        largest = max(largest, abs(trial.root[c] - state.root[c]))
    for j in range(state.wxyz.shape[0]):
        for c in range(4):
            largest = max(largest, 2.0 * abs(trial.wxyz[j, c] - state.wxyz[j, c]))
    return largest
