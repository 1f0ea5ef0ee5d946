"""Compiled steps of the full space under joint limits, by an active set.

Boxes on rotation vectors: a limited joint moves by its rotation vector. Coordinates that a step would carry over a
bound go to it and no further, and the step is solved anew for all else.

Limits of any other kind: a step that leaves a joint's set is brought back by the set's own projection. What the
projection took away is the outward normal there: along it the joint goes as far as the projection says, and the step is
solved anew for all else, so the other joints take over. It is the active set of the boxes, found from the projection
alone.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, inline_kernel, kernel
from marey.kinematics.ik.dual_step import (
    StepBuffers,
    add_prior_shift,
    assemble_dual_matrix,
    compute_compliances,
    multiply_compliance,
    solve_dual,
    subtract_fixed_shift,
)
from marey.kinematics.ik.state import IKLayout, IKState, LinearRows, RotationVectorBox
from marey.kinematics.limits.tables import Bounds, check_bounds
from marey.lie.kernels import (
    Vector,
    conjugate,
    dot,
    exp,
    log,
    multiply,
    quaternion_at,
    rotate,
    row3,
    unrotate,
    write_right_jacobian,
)

MAX_ANGLE_RAD = (
    2.0 * np.pi - 1e-3
)  # [rad] rotation vectors of limited joints stay inside: exp loses rank at a whole turn
MAX_BINDINGS = 4  # times that a step is solved anew with the coordinates held that it would carry over a bound
BLOCKED_RAD = 1e-9  # [rad] less than this taken from a step is rounding


class ActiveLimits(NamedTuple):
    """Which coordinates of the joints may move; L joints, all or none.

    Coordinates are rotation vectors (boxes), or turns along an orthonormal basis in the joint's frame (other limits).
    """

    axes: FloatArray  # (L, 3, 3) columns of that basis
    free: BoolArray  # (L, 3) coordinates whose objective falls inside the limits, at the start of a step
    loose: BoolArray  # (L, 3) coordinates that the step may choose
    held: FloatArray  # (L, 3) [rad] how far the others go
    walls: RotationVectorBox  # ``boxed`` marks limited joints, or joints with an axis that is not loose


@inline_kernel
def new_active_limits(layout: IKLayout, has_boxes: bool, limited: int) -> ActiveLimits:
    """Limits of which none is active: the boxes of the layout, or others that are not known yet."""
    free, loose = np.ones((limited, 3), dtype=np.bool_), np.ones((limited, 3), dtype=np.bool_)
    boxed = layout.box.boxed if has_boxes else np.zeros_like(layout.box.boxed)
    walls = RotationVectorBox(boxed, layout.box.low, layout.box.high)
    return ActiveLimits(np.zeros((limited, 3, 3)), free, loose, np.zeros((limited, 3)), walls)


@kernel
def clamp_to_box(box: RotationVectorBox, j: int, v: Vector) -> Vector:
    """Nearest rotation vector of a joint's box."""
    return (
        min(max(v[0], box.low[j, 0]), box.high[j, 0]),
        min(max(v[1], box.low[j, 1]), box.high[j, 1]),
        min(max(v[2], box.low[j, 2]), box.high[j, 2]),
    )


@kernel
def clamp_vector(box: RotationVectorBox, j: int, old: FloatArray, v: Vector, out: FloatArray) -> float:
    """Write a limited joint's rotation vector: inside its box, and inside the whole turn on the way from the old one.

    Returns the largest change [rad].
    """
    out[j, 0], out[j, 1], out[j, 2] = clamp_to_box(box, j, v)
    # |old + part d| = MAX_ANGLE_RAD is a quadratic equation for the part of the way
    a = b = c = 0.0
    for k in range(3):
        d = out[j, k] - old[j, k]
        a, b, c = a + d * d, b + d * old[j, k], c + old[j, k] * old[j, k]
    if a + 2.0 * b + c > MAX_ANGLE_RAD**2:
        is_inside = c < MAX_ANGLE_RAD**2 and a > 0.0
        part = (-b + sqrt(max(0.0, b * b + a * (MAX_ANGLE_RAD**2 - c)))) / a if is_inside else 0.0
        for k in range(3):
            out[j, k] = old[j, k] + part * (out[j, k] - old[j, k])
    return max(abs(out[j, 0] - old[j, 0]), abs(out[j, 1] - old[j, 1]), abs(out[j, 2] - old[j, 2]))


@kernel
def box_distance_squared(box: RotationVectorBox, j: int, v: Vector) -> float:
    """Squared distance [rad²] of a rotation vector to its joint's box."""
    x = max(0.0, box.low[j, 0] - v[0], v[0] - box.high[j, 0])
    y = max(0.0, box.low[j, 1] - v[1], v[1] - box.high[j, 1])
    z = max(0.0, box.low[j, 2] - v[2], v[2] - box.high[j, 2])
    return x * x + y * y + z * z


@kernel
def nearest_rotation_vector(box: RotationVectorBox, j: int, wxyz: FloatArray) -> Vector:
    """Rotation vector of a limited joint: of the two that turn either way round, the one nearer to the box."""
    v = log(quaternion_at(wxyz, j))
    angle = sqrt(dot(v, v))
    if angle < 1e-3:
        return v
    back = 1.0 - 2.0 * np.pi / angle
    other = (back * v[0], back * v[1], back * v[2])
    return other if box_distance_squared(box, j, other) < box_distance_squared(box, j, v) else v


@kernel
def project_to_box(box: RotationVectorBox, wxyz: FloatArray, vectors: FloatArray) -> float:
    """Write the rotation vectors of limited joints, brought into their boxes; return how far the furthest was [rad]."""
    furthest = 0.0
    for j in range(box.boxed.shape[0]):
        if not box.boxed[j]:
            continue
        v = nearest_rotation_vector(box, j, wxyz)
        vectors[j, 0], vectors[j, 1], vectors[j, 2] = clamp_to_box(box, j, v)
        away = max(abs(vectors[j, 0] - v[0]), abs(vectors[j, 1] - v[1]), abs(vectors[j, 2] - v[2]))
        if away > 0.0:
            wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3] = exp(row3(vectors, j))
        furthest = max(furthest, away)
    return furthest


@kernel
def compute_box_frames(box: RotationVectorBox, world: FloatArray, vectors: FloatArray, frames: FloatArray) -> None:
    r"""Write :math:`R_{world,j} J_r(v_j)` ``(J, 3, 3)`` of limited joints: world axes of their rotation vectors."""
    J = np.empty((3, 3))
    for j in range(frames.shape[0]):
        if box.boxed[j]:
            write_right_jacobian(row3(vectors, j), J)
            for c in range(3):
                x, y, z = rotate(quaternion_at(world, j), (J[0, c], J[1, c], J[2, c]))
                frames[j, 0, c], frames[j, 1, c], frames[j, 2, c] = x, y, z


@kernel
def along_axis(frames: FloatArray, j: int, c: int, torques: FloatArray) -> float:
    """Component of a joint's torque along the world axis of one of its coordinates."""
    return frames[j, 0, c] * torques[j, 0] + frames[j, 1, c] * torques[j, 1] + frames[j, 2, c] * torques[j, 2]


@kernel
def release_coordinates(
    layout: IKLayout, vectors: FloatArray, frames: FloatArray, slopes: FloatArray, free: BoolArray
) -> float:
    """Mark coordinates of limited joints that may move; return the largest component of the projected gradient.

    A coordinate at a bound whose objective falls only beyond it is held. The gradient is that of the whole objective.
    """
    largest, box = 0.0, layout.box
    for j in range(slopes.shape[0]):
        if layout.springs.mobility[j] == 0.0:
            continue
        if j >= frames.shape[0] or not box.boxed[j]:
            for c in range(3):
                largest = max(largest, 2.0 * abs(slopes[j, c]))
            continue
        for c in range(3):
            t, v = along_axis(frames, j, c, slopes), vectors[j, c]
            free[j, c] = not ((t <= 0.0 and v <= box.low[j, c]) or (t >= 0.0 and v >= box.high[j, c]))
            if free[j, c]:
                largest = max(largest, 2.0 * abs(t))
    return largest


@kernel
def bind_coordinates(face: ActiveLimits, vectors: FloatArray, frames: FloatArray, step: StepBuffers) -> bool:
    """Hold the coordinates that a step would carry over a bound: they go to it, no further. Tell if there are any."""
    is_any, box = False, face.walls
    for j in range(frames.shape[0]):
        if not box.boxed[j]:
            continue
        for c in range(3):
            if not face.loose[j, c]:
                continue
            v = vectors[j, c] + step.ease[j] * along_axis(frames, j, c, step.torques)
            if v < box.low[j, c] or v > box.high[j, c]:
                face.loose[j, c], is_any = False, True
                face.held[j, c] = (box.low[j, c] if v < box.low[j, c] else box.high[j, c]) - vectors[j, c]
    return is_any


@inline_kernel
def apply_box_step(face: ActiveLimits, step: StepBuffers, frames: FloatArray, state: IKState, trial: IKState) -> float:
    """Write the pose after a step; limited joints stay in their boxes. Return the largest change [rad] or [m]."""
    joints, largest = state.wxyz.shape[0], 0.0
    for c in range(3):
        trial.root[c] = state.root[c] + step.ease[joints] * step.torques[joints, c]
        largest = max(largest, abs(trial.root[c] - state.root[c]))
    for j in range(joints):
        x, y, z = (
            step.ease[j] * step.torques[j, 0],
            step.ease[j] * step.torques[j, 1],
            step.ease[j] * step.torques[j, 2],
        )
        if j < frames.shape[0] and face.walls.boxed[j]:
            # A limited joint: loose coordinates take the step, the others go as far as they are held
            u, v, w = row3(face.held, j)
            u = frames[j, 0, 0] * x + frames[j, 1, 0] * y + frames[j, 2, 0] * z if face.loose[j, 0] else u
            v = frames[j, 0, 1] * x + frames[j, 1, 1] * y + frames[j, 2, 1] * z if face.loose[j, 1] else v
            w = frames[j, 0, 2] * x + frames[j, 1, 2] * y + frames[j, 2, 2] * z if face.loose[j, 2] else w
            wanted = (state.vectors[j, 0] + u, state.vectors[j, 1] + v, state.vectors[j, 2] + w)
            largest = max(largest, clamp_vector(face.walls, j, state.vectors, wanted, trial.vectors))
            a, b, c, d = exp(row3(trial.vectors, j))
        elif x == 0.0 and y == 0.0 and z == 0.0:
            a, b, c, d = quaternion_at(state.wxyz, j)
        else:
            # g <- g exp(delta), with the turn in the joint's own axes
            x, y, z = unrotate(quaternion_at(state.world, j), (x, y, z))
            largest = max(largest, abs(x), abs(y), abs(z))
            a, b, c, d = turn_joint(state.wxyz, j, (x, y, z))
        trial.wxyz[j, 0], trial.wxyz[j, 1], trial.wxyz[j, 2], trial.wxyz[j, 3] = a, b, c, d
    return largest


@kernel
def turn_joint(wxyz: FloatArray, j: int, turn: Vector) -> tuple[float, float, float, float]:
    """Rotation of joint j after a turn [rad] in its own axes, brought back to norm one by a Newton step."""
    a, b, c, d = multiply(quaternion_at(wxyz, j), exp(turn))
    scale = 1.5 - 0.5 * (a * a + b * b + c * c + d * d)
    return scale * a, scale * b, scale * c, scale * d


@kernel
def release_all_limits(face: ActiveLimits, world: FloatArray, frames: FloatArray) -> None:
    """Take all walls away: each joint has its own axes, and all of them are loose."""
    face.loose[:], face.held[:], face.walls.boxed[:], face.axes[:] = True, 0.0, False, 0.0
    for j in range(face.axes.shape[0]):
        for c in range(3):
            face.axes[j, c, c] = 1.0
        write_world_axes(face, world, j, frames)


@kernel
def write_world_axes(face: ActiveLimits, world: FloatArray, j: int, frames: FloatArray) -> None:
    """Write the world axes of a joint's basis."""
    for c in range(3):
        x, y, z = rotate(quaternion_at(world, j), (face.axes[j, 0, c], face.axes[j, 1, c], face.axes[j, 2, c]))
        frames[j, 0, c], frames[j, 1, c], frames[j, 2, c] = x, y, z


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
    # Gram-Schmidt: the other loose axes are made upright on it and on one another
    for k in range(3):
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
def add_active_limit(face: ActiveLimits, j: int, wanted: FloatArray, got: Vector) -> bool:
    """Add the directions that a projection removed from a joint's step to the active set; return whether it changed."""
    # The part of it along loose axes is the outward normal of a limit that was not active before
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
    # Axes that are not loose go as far as the projection says
    for k in range(3):
        if not face.loose[j, k]:
            t = got[0] * face.axes[j, 0, k] + got[1] * face.axes[j, 1, k] + got[2] * face.axes[j, 2, k]
            face.held[j, k] = t
    return size > BLOCKED_RAD**2


@kernel
def project_step(
    bounds: Bounds, face: ActiveLimits, step: StepBuffers, frames: FloatArray, state: IKState, trial: IKState
) -> bool:
    """Write the rotations after a step, inside the limits; hold the joints that were not. Tell if there are any."""
    joints, is_any = state.wxyz.shape[0], False
    turns = np.zeros((joints, 3))
    for j in range(joints):
        # The turn in the joint's own frame: loose axes take the step, the others go as far as they are held
        for k in range(3):
            t = face.held[j, k]
            if face.loose[j, k]:
                t = step.ease[j] * along_axis(frames, j, k, step.torques)
            for c in range(3):
                turns[j, c] += t * face.axes[j, c, k]
        a, b, c, d = turn_joint(state.wxyz, j, row3(turns, j))
        trial.wxyz[j, 0], trial.wxyz[j, 1], trial.wxyz[j, 2], trial.wxyz[j, 3] = a, b, c, d
    out, violation, _ = check_bounds(bounds, trial.wxyz.reshape((1, joints, 4)))
    for j in range(joints):
        if violation[0, j] > 0.0:
            trial.wxyz[j] = out[0, j]
            got = log(multiply(conjugate(quaternion_at(state.wxyz, j)), quaternion_at(out[0], j)))
            if add_active_limit(face, j, turns[j], got):
                write_world_axes(face, state.world, j, frames)
                is_any = True
    return is_any


@inline_kernel
def solve_active_set_step(
    layout: IKLayout,
    bounds: Bounds | None,
    damping: float,
    state: IKState,
    rows: LinearRows,
    face: ActiveLimits,
    step: StepBuffers,
    trial: IKState,
) -> float:
    """Write the pose after a damped step inside the limits; return the objective that it expects, springs apart.

    Without ``bounds`` the limits are the boxes of the layout, if it has any.
    """
    blocks, expected = state.errors.shape[0], 0.0
    is_limited, has_springs = step.G.shape[0] > 0, bool(layout.springs.stiffness.any())
    if bounds is None:
        face.loose[:], face.held[:] = face.free, 0.0
    else:
        release_all_limits(face, state.world, rows.frames)
    for _ in range(MAX_BINDINGS):
        # (J G J^T + damping W^-1) y = e + J G P / damping - J held
        compute_compliances(layout, face.walls.boxed, damping, rows.frames, face.loose, step)
        multiply_compliance(layout.lists, face.walls.boxed, rows.turns, step)
        assemble_dual_matrix(layout, damping, rows, step)
        for b in range(blocks):
            for c in range(3):
                step.y[3 * b + c] = state.errors[b, c]
        if has_springs:
            add_prior_shift(layout.lists, damping, rows, state.pulls, step)
        if is_limited:
            subtract_fixed_shift(layout.lists, face.walls.boxed, face.held, rows, step.y)
        expected = solve_dual(layout, damping, rows, state.pulls, step)
        # Limits that this step would break become active, and it is solved anew
        if bounds is None:
            is_bound = is_limited and bind_coordinates(face, state.vectors, rows.frames, step)
        else:
            is_bound = project_step(bounds, face, step, rows.frames, state, trial)
        if not is_bound:
            break
    return expected


@kernel
def largest_free_gradient(layout: IKLayout, face: ActiveLimits, step: StepBuffers, frames: FloatArray) -> float:
    """Largest component of the gradient of the whole objective along what is loose."""
    largest, last = 0.0, frames.shape[0]
    for j in range(last + 1):
        if layout.springs.mobility[j] == 0.0:
            continue
        for k in range(3):
            if j == last:
                largest = max(largest, 2.0 * abs(step.slopes[j, k]))
            elif face.loose[j, k]:
                largest = max(largest, 2.0 * abs(along_axis(frames, j, k, step.slopes)))
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
