"""Compiled moves of a pose: steps on the rotation group, boxes on rotation vectors, the largest move between frames."""

from __future__ import annotations

from math import acos, sqrt

import numpy as np

from marey.base import BoolArray, FloatArray, kernel
from marey.kinematics.ik.state import (
    ORIENTATION,
    IKLayout,
    KinematicChains,
    PosePrior,
    RotationVectorBox,
    SpeedLimits,
    rotate_vector,
    rotate_vector_back,
    write_right_jacobian,
)
from marey.lie.kernels import exponential, logarithm, product

MAX_ANGLE_RAD = (
    2.0 * np.pi - 1e-3
)  # [rad] rotation vectors of limited joints stay inside: exp loses rank at a whole turn


@kernel
def compute_box_frames(box: RotationVectorBox, world: FloatArray, vectors: FloatArray, frames: FloatArray) -> None:
    r"""Write :math:`R_{world,j} J_r(v_j)` ``(J, 3, 3)`` of limited joints: world axes of their rotation vectors."""
    J = np.empty((3, 3))
    for j in range(frames.shape[0]):
        if box.boxed[j]:
            write_right_jacobian(vectors[j, 0], vectors[j, 1], vectors[j, 2], J)
            for c in range(3):
                x, y, z = rotate_vector(world, j, J[0, c], J[1, c], J[2, c])
                frames[j, 0, c], frames[j, 1, c], frames[j, 2, c] = x, y, z


@kernel
def release_coordinates(
    springs: PosePrior,
    box: RotationVectorBox,
    vectors: FloatArray,
    frames: FloatArray,
    torques: FloatArray,
    free: BoolArray,
) -> float:
    """Mark coordinates of limited joints that may move; return the largest component of the projected gradient.

    A coordinate at a bound whose objective falls only beyond it is held. The gradient is that of the whole objective.
    """
    largest, limited = 0.0, frames.shape[0]
    for j in range(torques.shape[0]):
        if springs.mobility[j] == 0.0:
            continue
        if j >= limited or not box.boxed[j]:
            for c in range(3):
                largest = max(largest, 2.0 * abs(torques[j, c]))
            continue
        for c in range(3):
            t = frames[j, 0, c] * torques[j, 0] + frames[j, 1, c] * torques[j, 1] + frames[j, 2, c] * torques[j, 2]
            v = vectors[j, c]
            free[j, c] = not ((t <= 0.0 and v <= box.low[j, c]) or (t >= 0.0 and v >= box.high[j, c]))
            if free[j, c]:
                largest = max(largest, 2.0 * abs(t))
    return largest


@kernel
def bind_coordinates(
    box: RotationVectorBox,
    torques: FloatArray,
    ease: FloatArray,
    frames: FloatArray,
    vectors: FloatArray,
    loose: BoolArray,
    held: FloatArray,
) -> bool:
    """Hold the coordinates that a step would carry over a bound: they go to it, and no further. Tell if there are any.

    Clears their flags in ``loose`` ``(J, 3)`` and writes how far they go in ``held`` ``(J, 3)`` [rad].
    """
    is_any = False
    for j in range(frames.shape[0]):
        if not box.boxed[j]:
            continue
        for c in range(3):
            if not loose[j, c]:
                continue
            t = frames[j, 0, c] * torques[j, 0] + frames[j, 1, c] * torques[j, 1] + frames[j, 2, c] * torques[j, 2]
            v = vectors[j, c] + ease[j] * t
            if v < box.low[j, c] or v > box.high[j, c]:
                loose[j, c], is_any = False, True
                held[j, c] = (box.low[j, c] if v < box.low[j, c] else box.high[j, c]) - vectors[j, c]
    return is_any


@kernel
def subtract_fixed_shift(
    lists: KinematicChains, boxed: BoolArray, frames: FloatArray, held: FloatArray, turns: FloatArray, y: FloatArray
) -> None:
    """Take from y ``(3 B,)`` what the held coordinates do to the blocks."""
    for b in range(lists.chain_start.shape[0] - 1):
        for i in range(lists.chain_start[b], lists.chain_start[b + 1]):
            j = lists.chain[i]
            if not boxed[j] or (held[j, 0] == 0.0 and held[j, 1] == 0.0 and held[j, 2] == 0.0):
                continue
            u = frames[j, 0, 0] * held[j, 0] + frames[j, 0, 1] * held[j, 1] + frames[j, 0, 2] * held[j, 2]
            v = frames[j, 1, 0] * held[j, 0] + frames[j, 1, 1] * held[j, 1] + frames[j, 1, 2] * held[j, 2]
            w = frames[j, 2, 0] * held[j, 0] + frames[j, 2, 1] * held[j, 1] + frames[j, 2, 2] * held[j, 2]
            for r in range(3):
                y[3 * b + r] -= turns[i, r, 0] * u + turns[i, r, 1] * v + turns[i, r, 2] * w


@kernel
def clamp_vector(
    box: RotationVectorBox, j: int, old: FloatArray, x: float, y: float, z: float, out: FloatArray
) -> float:
    """Write a limited joint's rotation vector: inside its box, and inside the whole turn on the way from the old one.

    Returns the largest change [rad].
    """
    out[j, 0] = min(max(x, box.low[j, 0]), box.high[j, 0])
    out[j, 1] = min(max(y, box.low[j, 1]), box.high[j, 1])
    out[j, 2] = min(max(z, box.low[j, 2]), box.high[j, 2])
    a = b = c = 0.0
    for k in range(3):
        d = out[j, k] - old[j, k]
        a, b, c = a + d * d, b + d * old[j, k], c + old[j, k] * old[j, k]
    if a + 2.0 * b + c > MAX_ANGLE_RAD**2:
        part = (
            (-b + sqrt(max(0.0, b * b + a * (MAX_ANGLE_RAD**2 - c)))) / a if c < MAX_ANGLE_RAD**2 and a > 0.0 else 0.0
        )
        for k in range(3):
            out[j, k] = old[j, k] + part * (out[j, k] - old[j, k])
    return max(abs(out[j, 0] - old[j, 0]), abs(out[j, 1] - old[j, 1]), abs(out[j, 2] - old[j, 2]))


@kernel
def apply_step(
    box: RotationVectorBox,
    torques: FloatArray,
    ease: FloatArray,
    frames: FloatArray,
    free: BoolArray,
    held: FloatArray,
    root: FloatArray,
    wxyz: FloatArray,
    vectors: FloatArray,
    world: FloatArray,
    new_root: FloatArray,
    new_wxyz: FloatArray,
    new_vectors: FloatArray,
) -> float:
    """Write the pose after a step; limited joints stay in their boxes. Return the largest change [rad] or [m].

    Coordinates that are not free go as far as ``held`` ``(J, 3)`` [rad] says.
    """
    joints, limited, largest = wxyz.shape[0], frames.shape[0], 0.0
    for c in range(3):
        new_root[c] = root[c] + ease[joints] * torques[joints, c]
        largest = max(largest, abs(new_root[c] - root[c]))
    for j in range(joints):
        x, y, z = ease[j] * torques[j, 0], ease[j] * torques[j, 1], ease[j] * torques[j, 2]
        if j < limited and box.boxed[j]:
            u = frames[j, 0, 0] * x + frames[j, 1, 0] * y + frames[j, 2, 0] * z if free[j, 0] else held[j, 0]
            v = frames[j, 0, 1] * x + frames[j, 1, 1] * y + frames[j, 2, 1] * z if free[j, 1] else held[j, 1]
            w = frames[j, 0, 2] * x + frames[j, 1, 2] * y + frames[j, 2, 2] * z if free[j, 2] else held[j, 2]
            u, v, w = vectors[j, 0] + u, vectors[j, 1] + v, vectors[j, 2] + w
            largest = max(largest, clamp_vector(box, j, vectors, u, v, w, new_vectors))
            a, b, c, d = exponential(new_vectors[j, 0], new_vectors[j, 1], new_vectors[j, 2])
        elif x == 0.0 and y == 0.0 and z == 0.0:
            a, b, c, d = wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3]
        else:
            x, y, z = rotate_vector_back(world, j, x, y, z)
            largest = max(largest, abs(x), abs(y), abs(z))
            a, b, c, d = exponential(x, y, z)
            a, b, c, d = product(wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3], a, b, c, d)
            scale = 1.5 - 0.5 * (a * a + b * b + c * c + d * d)
            a, b, c, d = scale * a, scale * b, scale * c, scale * d
        new_wxyz[j, 0], new_wxyz[j, 1], new_wxyz[j, 2], new_wxyz[j, 3] = a, b, c, d
    return largest


@kernel
def box_distance_squared(box: RotationVectorBox, j: int, x: float, y: float, z: float) -> float:
    """Squared distance [rad²] of a rotation vector to its joint's box."""
    u = max(0.0, box.low[j, 0] - x, x - box.high[j, 0])
    v = max(0.0, box.low[j, 1] - y, y - box.high[j, 1])
    w = max(0.0, box.low[j, 2] - z, z - box.high[j, 2])
    return u * u + v * v + w * w


@kernel
def nearest_rotation_vector(box: RotationVectorBox, j: int, wxyz: FloatArray) -> tuple[float, float, float]:
    """Rotation vector of a limited joint: of the two that turn either way round, the one nearer to the box."""
    x, y, z = logarithm(wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3])
    angle = sqrt(x * x + y * y + z * z)
    if angle < 1e-3:
        return x, y, z
    other = 1.0 - 2.0 * np.pi / angle
    if box_distance_squared(box, j, other * x, other * y, other * z) < box_distance_squared(box, j, x, y, z):
        return other * x, other * y, other * z
    return x, y, z


@kernel
def project_to_box(box: RotationVectorBox, wxyz: FloatArray, vectors: FloatArray) -> float:
    """Write the rotation vectors of limited joints, brought into their boxes; return how far the furthest was [rad]."""
    furthest = 0.0
    for j in range(box.boxed.shape[0]):
        if not box.boxed[j]:
            continue
        x, y, z = nearest_rotation_vector(box, j, wxyz)
        vectors[j, 0] = min(max(x, box.low[j, 0]), box.high[j, 0])
        vectors[j, 1] = min(max(y, box.low[j, 1]), box.high[j, 1])
        vectors[j, 2] = min(max(z, box.low[j, 2]), box.high[j, 2])
        away = max(abs(vectors[j, 0] - x), abs(vectors[j, 1] - y), abs(vectors[j, 2] - z))
        if away > 0.0:
            a, b, c, d = exponential(vectors[j, 0], vectors[j, 1], vectors[j, 2])
            wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3] = a, b, c, d
        furthest = max(furthest, away)
    return furthest


MIN_JOINT_STEP_RAD = 0.01  # [rad] goals that do not move: a tolerance of 1 mm turns a limb by about this


@kernel
def max_joint_step(layout: IKLayout, pace: SpeedLimits, targets: FloatArray, active: BoolArray, f: int) -> float:
    """Largest turn [rad] that a joint may make in frame f: as far as the fastest goal moves, over a limb, and a little.

    There is none in the first frame, nor where goals come or go.
    """
    if f == 0:
        return np.inf
    fastest = 0.0
    for b in range(targets.shape[1]):
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
def largest_joint_step(
    old: FloatArray, new: FloatArray, old_root: FloatArray, new_root: FloatArray, limb_m: float
) -> float:
    """Largest turn [rad] of a joint between two poses ``(J, 4)``; a limb's length of the root counts as 1 rad."""
    step = 0.0
    for c in range(3):
        step += (new_root[c] - old_root[c]) ** 2
    largest = sqrt(step) / limb_m
    for j in range(old.shape[0]):
        largest = max(largest, quaternion_angle(old[j], new[j]))
    return largest


@kernel
def interpolate_rotation(old: FloatArray, new: FloatArray, part: float, out: FloatArray) -> None:
    """Write the rotation ``(4,)`` a part of the way from one to the other."""
    w, x, y, z = product(old[0], -old[1], -old[2], -old[3], new[0], new[1], new[2], new[3])
    x, y, z = logarithm(w, x, y, z)
    w, x, y, z = exponential(part * x, part * y, part * z)
    w, x, y, z = product(old[0], old[1], old[2], old[3], w, x, y, z)
    scale = 1.0 / sqrt(w * w + x * x + y * y + z * z)
    out[0], out[1], out[2], out[3] = scale * w, scale * x, scale * y, scale * z


@kernel
def clamp_joint_steps(
    old_root: FloatArray, old: FloatArray, root: FloatArray, wxyz: FloatArray, most: float, limb_m: float
) -> None:
    """Bring joints that turn further than ``most`` [rad] back to it, and the root to ``most`` limbs."""
    step = 0.0
    for c in range(3):
        step += (root[c] - old_root[c]) ** 2
    part = min(1.0, most * limb_m / max(sqrt(step), 1e-300))
    for c in range(3):
        root[c] = old_root[c] + part * (root[c] - old_root[c])
    for j in range(wxyz.shape[0]):
        turn = quaternion_angle(old[j], wxyz[j])
        if turn > most:
            interpolate_rotation(old[j], wxyz[j].copy(), most / turn, wxyz[j])


@kernel
def scale_pose_step(
    old_root: FloatArray,
    old: FloatArray,
    new_root: FloatArray,
    new: FloatArray,
    most: float,
    limb_m: float,
    root: FloatArray,
    wxyz: FloatArray,
) -> float:
    """Write the pose on the way from old to new whose fastest joint turns by ``most`` [rad]; return the part."""
    part = min(1.0, most / max(largest_joint_step(old, new, old_root, new_root, limb_m), 1e-300))
    for c in range(3):
        root[c] = old_root[c] + part * (new_root[c] - old_root[c])
    for j in range(old.shape[0]):
        interpolate_rotation(old[j], new[j], part, wxyz[j])
    return part


@kernel
def blend_towards(mobility: FloatArray, middle: FloatArray, part: float, wxyz: FloatArray) -> None:
    """Turn all joints that may move, but the root, a part of the way to the middle."""
    for j in range(1, wxyz.shape[0]):
        if mobility[j] > 0.0:
            interpolate_rotation(wxyz[j].copy(), middle[j], part, wxyz[j])
