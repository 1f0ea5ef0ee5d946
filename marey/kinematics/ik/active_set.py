"""Compiled steps of the full space under joint limits, by an active set.

Boxes: a limited joint moves by its coordinates, a rotation vector or two swings and a twist. Coordinates that a step
would carry over a bound go to it and no further, and the step is solved anew for all else.

Limits of any other kind: a step that leaves a joint's set is brought back by the set's own projection. What the
projection took away is the outward normal there: along it the joint goes as far as the projection says, and the step is
solved anew for all else, so the other joints take over. It is the active set of the boxes, found from the projection
alone.
"""

from __future__ import annotations

from math import cos, sin, sqrt
from typing import NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, inline_kernel, kernel, patient_kernel
from marey.kinematics.ik.dual_step import StepBuffers, assemble_dual_matrix, solve_dual
from marey.kinematics.ik.state import CoordinateBox, IKLayout, IKState, LinearRows, has_springs
from marey.kinematics.limits.anatomy.check import TIE_RAD, bound_coordinate, is_any_beyond, swing_and_twist
from marey.kinematics.limits.learn import Bounds, check_bounds
from marey.lie.kernels import (
    Quaternion,
    Vector,
    conjugate,
    dot,
    exp,
    exponential,
    log,
    multiply,
    product,
    quaternion_at,
    rotate,
    row3,
    unrotate,
    write_right_jacobian_inverse,
)

MAX_ANGLE_RAD = 2.0 * np.pi - 1e-3  # [rad] rotation vectors stay inside: exp loses rank at a whole turn
MAX_SWING_RAD = np.pi - 1e-3  # [rad] swings stay inside: beyond half a turn they are read as swings the other way
MAX_BINDINGS = 3  # times that a step is solved anew with the coordinates held that it would carry over a bound
NEAR_RAD = 0.1  # [rad] a coordinate deeper in a region is as free as its interval
BLOCKED_RAD = 1e-9  # [rad] less than this taken from a step is rounding


class ActiveLimits(NamedTuple):
    """Which coordinates of the joints may move; L joints, all or none.

    The dual system knows joints by orthonormal world axes, along some of which the way of a step is given. Boxes find
    these from coordinates that stop at a bound, other limits from what a projection takes away.
    """

    is_bound: BoolArray  # (J,) joints with an axis that is not loose
    is_moving: BoolArray  # (J,) boxes: limited joints that goals or springs move; a step leaves the others as they are
    loose: BoolArray  # (L, 3) axes along which the step may choose
    held: FloatArray  # (L, 3) [rad] how far it goes along the others
    axes: FloatArray  # (L, 3, 3) limits that are no boxes: the axes in the joint's frame
    rates: FloatArray  # (L, 3, 3) boxes: how the coordinates change with a turn in world
    free: BoolArray  # (L, 3) boxes: coordinates whose objective falls inside the limits, at the start of a step
    is_open: BoolArray  # (L, 3) boxes: of these, the coordinates that have not met a bound in this step
    travel: FloatArray  # (L, 3) [rad] boxes: step of the coordinates
    is_narrow: BoolArray  # (L, 3) boxes: coordinates that follow the border of a region
    low: FloatArray  # (L, 3) [rad] boxes: intervals, which regions may narrow
    high: FloatArray  # (L, 3) [rad]


@inline_kernel
def new_active_limits(layout: IKLayout, limited: int) -> ActiveLimits:
    """Limits of which none is active."""
    joints, boxed, chain = layout.box.boxed.shape[0], layout.box.boxed, layout.lists.chain
    is_moving = np.zeros(joints, dtype=np.bool_)
    if has_springs(layout.springs):
        is_moving[:] = boxed
    for i in range(chain.shape[0]):
        is_moving[chain[i]] = boxed[chain[i]]
    return ActiveLimits(
        np.zeros(joints, dtype=np.bool_),
        is_moving,
        np.ones((limited, 3), dtype=np.bool_),
        np.zeros((limited, 3)),
        np.zeros((limited, 3, 3)),
        np.zeros((limited, 3, 3)),
        np.ones((limited, 3), dtype=np.bool_),
        np.ones((limited, 3), dtype=np.bool_),
        np.zeros((limited, 3)),
        np.zeros((limited, 3), dtype=np.bool_),
        layout.box.low[:limited].copy(),
        layout.box.high[:limited].copy(),
    )


@kernel
def clamp_coordinates(is_swing: bool, old: Vector, v: Vector) -> Vector:
    """Coordinates, already inside their box, brought back on the way from the old ones to where they are unique."""
    most, third = (MAX_SWING_RAD, 0.0) if is_swing else (MAX_ANGLE_RAD, 1.0)
    if v[0] * v[0] + v[1] * v[1] + third * v[2] * v[2] <= most**2:
        return v
    # |old + part d| = most is a quadratic equation for the part of the way
    d = (v[0] - old[0], v[1] - old[1], v[2] - old[2])
    a = d[0] * d[0] + d[1] * d[1] + third * d[2] * d[2]
    b = d[0] * old[0] + d[1] * old[1] + third * d[2] * old[2]
    c = old[0] * old[0] + old[1] * old[1] + third * old[2] * old[2]
    part = (-b + sqrt(max(0.0, b * b + a * (most**2 - c)))) / a if c < most**2 and a > 0.0 else 0.0
    return old[0] + part * d[0], old[1] + part * d[1], old[2] + part * d[2]


@kernel
def box_distance_squared(box: CoordinateBox, j: int, v: Vector) -> float:
    """Squared distance [rad²] of a rotation vector to its joint's box."""
    x = max(0.0, box.low[j, 0] - v[0], v[0] - box.high[j, 0])
    y = max(0.0, box.low[j, 1] - v[1], v[1] - box.high[j, 1])
    z = max(0.0, box.low[j, 2] - v[2], v[2] - box.high[j, 2])
    return x * x + y * y + z * z


@kernel
def nearest_rotation_vector(box: CoordinateBox, j: int, wxyz: FloatArray) -> Vector:
    """Rotation vector of a limited joint: of the two that turn either way round, the one nearer to the box."""
    v = log(quaternion_at(wxyz, j))
    angle = sqrt(dot(v, v))
    if angle < 1e-3:
        return v
    back = 1.0 - 2.0 * np.pi / angle
    other = (back * v[0], back * v[1], back * v[2])
    return other if box_distance_squared(box, j, other) < box_distance_squared(box, j, v) else v


@kernel
def read_coordinates(box: CoordinateBox, j: int, wxyz: FloatArray) -> Vector:
    """Coordinates [rad] of a limited joint, brought into its box."""
    if box.is_swing[j]:
        q = multiply(quaternion_at(wxyz, j), quaternion_at(box.after, j))
        v = swing_and_twist(multiply(quaternion_at(box.before, j), q))
    else:
        v = nearest_rotation_vector(box, j, wxyz)
    return (
        min(max(v[0], box.low[j, 0]), box.high[j, 0]),
        min(max(v[1], box.low[j, 1]), box.high[j, 1]),
        min(max(v[2], box.low[j, 2]), box.high[j, 2]),
    )


@kernel
def pose_swing(before: Quaternion, after: Quaternion, v: Vector) -> Quaternion:
    """Rotation of a joint from two swings and a twist: exp(0, x, y) exp(z, 0, 0) in its own axes."""
    a, b, c, d = exponential(0.0, v[0], v[1])
    q = product(a, b, c, d, cos(0.5 * v[2]), sin(0.5 * v[2]), 0.0, 0.0)
    return multiply(conjugate(before), multiply(q, conjugate(after)))


@kernel
def pose_joint(box: CoordinateBox, j: int, v: Vector) -> Quaternion:
    """Rotation of a limited joint from its coordinates."""
    return pose_swing(quaternion_at(box.before, j), quaternion_at(box.after, j), v) if box.is_swing[j] else exp(v)


@patient_kernel
def project_to_box(box: CoordinateBox, wxyz: FloatArray, vectors: FloatArray) -> float:
    """Write the coordinates of limited joints, brought into their boxes; return how far the furthest was [rad]."""
    furthest = 0.0
    boxed, low, high, is_swing, before, after = box[:6]
    for j in range(boxed.shape[0]):
        if not boxed[j]:
            continue
        # Arrays are read here, not in a call: handing them over takes longer than the arithmetic
        p = (before[j, 0], before[j, 1], before[j, 2], before[j, 3])
        q = (after[j, 0], after[j, 1], after[j, 2], after[j, 3])
        if is_swing[j]:
            r = (wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3])
            v = swing_and_twist(multiply(p, multiply(r, q)))
        else:
            v = nearest_rotation_vector(box, j, wxyz)
        x, y, z = (
            min(max(v[0], low[j, 0]), high[j, 0]),
            min(max(v[1], low[j, 1]), high[j, 1]),
            min(max(v[2], low[j, 2]), high[j, 2]),
        )
        away = max(abs(x - v[0]), abs(y - v[1]), abs(z - v[2]))
        if away > 0.0:
            wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3] = (
                pose_swing(p, q, (x, y, z)) if is_swing[j] else exp((x, y, z))
            )
        vectors[j, 0], vectors[j, 1], vectors[j, 2] = x, y, z
        furthest = max(furthest, away)
    return furthest


@inline_kernel
def narrow_to_regions(box: CoordinateBox, face: ActiveLimits, state: IKState) -> bool:
    """Bring a pose into its regions, and narrow the intervals of ``face`` to what they leave; tell if it was outside.

    A coordinate that left a region follows its border while it is near. ``box`` holds the intervals without regions.
    """
    x, order, starts, rows = state.vectors.reshape(-1), box.order, box.starts, box.regions
    v, peaks = box.distances, box.peaks
    least, most, low, high, wxyz, vectors = box.low, box.high, face.low, face.high, state.wxyz, state.vectors
    before, after, is_narrow, is_any = box.before, box.after, face.is_narrow, False
    for k in range(order.shape[0]):
        j, is_moved = order[k], False
        for c in range(3):
            span = starts[3 * k + c], starts[3 * k + c + 1]
            if span[0] == span[1]:
                continue
            if not is_any_beyond(span, rows, v, peaks, x, -NEAR_RAD if is_narrow[j, c] else TIE_RAD):
                # No border is near
                is_narrow[j, c], low[j, c], high[j, c] = False, least[j, c], most[j, c]
                continue
            is_narrow[j, c] = True
            a, b, _ = bound_coordinate((least[j, c], most[j, c]), span, rows, v, peaks, x, NEAR_RAD)
            at = min(max(vectors[j, c], a), b)
            is_moved |= at != vectors[j, c]
            low[j, c], high[j, c], vectors[j, c] = a, b, at
        if is_moved:
            q = pose_swing(quaternion_at(before, j), quaternion_at(after, j), row3(vectors, j))
            wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3] = q
            is_any = True
    return is_any


@kernel
def swing_rates(D: Quaternion, h: float, R_world: Quaternion) -> tuple[Vector, Vector, Vector]:
    r"""How two swings and the twist of ``D`` change with a turn in world: their gradients.

    With :math:`D = (n, 0, u, v) \exp(t)`, half the angle h of the swing and the turn :math:`\omega` in the axes before
    the twist, the swings are :math:`s = k (u, v)` with :math:`k = 2 h / \sin h`, and

    .. math:: \dot t = \omega_x + (u \omega_z - v \omega_y) / n, \quad
        \dot u = \tfrac12 (n \omega_y + v (v \omega_y - u \omega_z) / n), \quad
        \dot k = (1/n - h / \sin h) (u \dot u + v \dot v) \, 2 / \sin^2 h.
    """
    w, x, y, z = D
    n = max(sqrt(w * w + x * x), 1e-12)
    c, s = w / n, x / n
    u, v = c * y - s * z, c * z + s * y
    size = sqrt(u * u + v * v)
    half_k, curve = (h / size, n * (1.0 / n - h / size) / (size * size)) if size > 1e-3 else (1.0, 1.0 / 3.0)
    a = half_k * (n + v * v / n) + curve * u * u
    b = curve * u * v - half_k * u * v / n
    d = half_k * (n + u * u / n) + curve * v * v
    # World axes before the twist
    e, f, g, i = product(R_world[0], R_world[1], R_world[2], R_world[3], c, -s, 0.0, 0.0)
    lx, ly, lz = 1.0 - 2.0 * (g * g + i * i), 2.0 * (f * g + e * i), 2.0 * (f * i - e * g)
    mx, my, mz = 2.0 * (f * g - e * i), 1.0 - 2.0 * (f * f + i * i), 2.0 * (g * i + e * f)
    nx, ny, nz = 2.0 * (f * i + e * g), 2.0 * (g * i - e * f), 1.0 - 2.0 * (f * f + g * g)
    p, q = -v / n, u / n
    return (
        (a * mx + b * nx, a * my + b * ny, a * mz + b * nz),
        (b * mx + d * nx, b * my + d * ny, b * mz + d * nz),
        (lx + p * mx + q * nx, ly + p * my + q * ny, lz + p * mz + q * nz),
    )


@kernel
def along_axis(frames: FloatArray, j: int, c: int, torques: FloatArray) -> float:
    """Component of a joint's torque along the world axis of one of its coordinates."""
    return frames[j, 0, c] * torques[j, 0] + frames[j, 1, c] * torques[j, 1] + frames[j, 2, c] * torques[j, 2]


@inline_kernel
def release_coordinates(layout: IKLayout, state: IKState, slopes: FloatArray, face: ActiveLimits) -> float:
    """Write the rates of limited coordinates, and which of them may move; return the largest projected gradient.

    A coordinate at a bound whose objective falls only beyond it is held. The gradient is that of the whole objective.
    """
    is_moving, is_swing, before, after = face.is_moving, layout.box.is_swing, layout.box.before, layout.box.after
    mobility, vectors, world, wxyz = layout.springs.mobility, state.vectors, state.world, state.wxyz
    rates, free, low, high, largest, J = face.rates, face.free, face.low, face.high, 0.0, np.empty((3, 3))
    for j in range(slopes.shape[0]):
        if mobility[j] == 0.0:
            continue
        is_at_bound = False
        if j < rates.shape[0] and is_moving[j]:
            R, v = (world[j, 0], world[j, 1], world[j, 2], world[j, 3]), (vectors[j, 0], vectors[j, 1], vectors[j, 2])
            if is_swing[j]:
                p = (before[j, 0], before[j, 1], before[j, 2], before[j, 3])
                q = (after[j, 0], after[j, 1], after[j, 2], after[j, 3])
                r = (wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3])
                a, b, c = swing_rates(
                    multiply(p, multiply(r, q)), 0.5 * sqrt(v[0] * v[0] + v[1] * v[1]), multiply(R, q)
                )
            else:
                write_right_jacobian_inverse(v, J)
                a = rotate(R, (J[0, 0], J[0, 1], J[0, 2]))
                b = rotate(R, (J[1, 0], J[1, 1], J[1, 2]))
                c = rotate(R, (J[2, 0], J[2, 1], J[2, 2]))
            rates[j, 0, 0], rates[j, 0, 1], rates[j, 0, 2] = a
            rates[j, 1, 0], rates[j, 1, 1], rates[j, 1, 2] = b
            rates[j, 2, 0], rates[j, 2, 1], rates[j, 2, 2] = c
            for k in range(3):
                free[j, k] = True
                is_at_bound |= vectors[j, k] <= low[j, k] or vectors[j, k] >= high[j, k]
        if not is_at_bound:
            largest = max(largest, 2.0 * abs(slopes[j, 0]), 2.0 * abs(slopes[j, 1]), 2.0 * abs(slopes[j, 2]))
            continue
        for k in range(3):
            # The turn for this coordinate alone is upright on the rates of the other two
            m, n = (k + 1) % 3, (k + 2) % 3
            x = rates[j, m, 1] * rates[j, n, 2] - rates[j, m, 2] * rates[j, n, 1]
            y = rates[j, m, 2] * rates[j, n, 0] - rates[j, m, 0] * rates[j, n, 2]
            z = rates[j, m, 0] * rates[j, n, 1] - rates[j, m, 1] * rates[j, n, 0]
            volume = x * rates[j, k, 0] + y * rates[j, k, 1] + z * rates[j, k, 2]
            t, at = (x * slopes[j, 0] + y * slopes[j, 1] + z * slopes[j, 2]) / volume, vectors[j, k]
            free[j, k] = not ((t <= 0.0 and at <= low[j, k]) or (t >= 0.0 and at >= high[j, k]))
            if free[j, k]:
                largest = max(largest, 2.0 * abs(t))
    return largest


@inline_kernel
def write_held_axes(face: ActiveLimits, frames: FloatArray) -> None:
    r"""Turn coordinates that are not open into orthonormal world axes, and how far the step goes along each.

    A coordinate that goes :math:`h_c` holds the turn to :math:`r_c \cdot \omega = h_c`, with a row r of ``rates``.
    """
    is_bound, is_open, travel, rates = face.is_bound, face.is_open, face.travel, face.rates
    loose, held, is_moving = face.loose, face.held, face.is_moving
    for j in range(is_moving.shape[0]):
        if not is_moving[j]:
            continue
        count = 0
        for c in range(3):
            loose[j, c], held[j, c] = True, 0.0
        for c in range(3):
            if is_open[j, c]:
                continue
            x, y, z, way = rates[j, c, 0], rates[j, c, 1], rates[j, c, 2], travel[j, c]
            # Gram-Schmidt: what the axes before do not hold yet
            for k in range(count):
                t = x * frames[j, 0, k] + y * frames[j, 1, k] + z * frames[j, 2, k]
                x, y, z = x - t * frames[j, 0, k], y - t * frames[j, 1, k], z - t * frames[j, 2, k]
                way -= t * held[j, k]
            scale = 1.0 / sqrt(x * x + y * y + z * z)
            frames[j, 0, count], frames[j, 1, count], frames[j, 2, count] = scale * x, scale * y, scale * z
            loose[j, count], held[j, count] = False, scale * way
            count += 1
        is_bound[j] = count > 0


@inline_kernel
def bind_coordinates(face: ActiveLimits, vectors: FloatArray, frames: FloatArray, step: StepBuffers) -> bool:
    """Write the step of the coordinates, and stop those at a bound that would go over it. Tell if there are any."""
    is_any, low, high = False, face.low, face.high
    is_bound, is_open, travel, rates, held = face.is_bound, face.is_open, face.travel, face.rates, face.held
    torques, ease, G, is_moving = step.torques, step.ease, step.G, face.is_moving
    for j in range(frames.shape[0]):
        if not is_moving[j]:
            continue
        u, v, w = torques[j, 0], torques[j, 1], torques[j, 2]
        x, y, z = ease[j] * u, ease[j] * v, ease[j] * w
        if is_bound[j]:
            a, b, c = held[j, 0], held[j, 1], held[j, 2]
            x = G[j, 0, 0] * u + G[j, 0, 1] * v + G[j, 0, 2] * w
            y = G[j, 1, 0] * u + G[j, 1, 1] * v + G[j, 1, 2] * w
            z = G[j, 2, 0] * u + G[j, 2, 1] * v + G[j, 2, 2] * w
            x += frames[j, 0, 0] * a + frames[j, 0, 1] * b + frames[j, 0, 2] * c
            y += frames[j, 1, 0] * a + frames[j, 1, 1] * b + frames[j, 1, 2] * c
            z += frames[j, 2, 0] * a + frames[j, 2, 1] * b + frames[j, 2, 2] * c
        for k in range(3):
            if not is_open[j, k]:
                continue
            way = rates[j, k, 0] * x + rates[j, k, 1] * y + rates[j, k, 2] * z
            t = vectors[j, k] + way
            if t < low[j, k] or t > high[j, k]:
                is_open[j, k], is_any = False, True
                way = (low[j, k] if t < low[j, k] else high[j, k]) - vectors[j, k]
            travel[j, k] = way
    return is_any


@inline_kernel
def apply_box_step(box: CoordinateBox, face: ActiveLimits, step: StepBuffers, state: IKState, trial: IKState) -> float:
    """Write the pose after a step; limited joints stay in their boxes. Return the largest change [rad] or [m]."""
    joints, largest, is_limited = state.wxyz.shape[0], 0.0, step.G.shape[0] > 0
    is_swing, before, after, is_moving = box.is_swing, box.before, box.after, face.is_moving
    travel, low, high, ease, torques = face.travel, face.low, face.high, step.ease, step.torques
    wxyz, world, vectors, out, new = state.wxyz, state.world, state.vectors, trial.wxyz, trial.vectors
    for c in range(3):
        trial.root[c] = state.root[c] + ease[joints] * torques[joints, c]
        largest = max(largest, abs(trial.root[c] - state.root[c]))
    for j in range(joints):
        r = (wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3])
        x, y, z = ease[j] * torques[j, 0], ease[j] * torques[j, 1], ease[j] * torques[j, 2]
        if is_limited and is_moving[j]:
            # Coordinates, inside their box and where they are unique
            old = (vectors[j, 0], vectors[j, 1], vectors[j, 2])
            v = (
                min(max(old[0] + travel[j, 0], low[j, 0]), high[j, 0]),
                min(max(old[1] + travel[j, 1], low[j, 1]), high[j, 1]),
                min(max(old[2] + travel[j, 2], low[j, 2]), high[j, 2]),
            )
            v = clamp_coordinates(is_swing[j], old, v)
            new[j, 0], new[j, 1], new[j, 2] = v
            change = max(abs(v[0] - old[0]), abs(v[1] - old[1]), abs(v[2] - old[2]))
            largest = max(largest, change)
            if is_swing[j] and change > 0.0:
                p = (before[j, 0], before[j, 1], before[j, 2], before[j, 3])
                q = (after[j, 0], after[j, 1], after[j, 2], after[j, 3])
                r = pose_swing(p, q, v)
            elif change > 0.0:
                r = exp(v)
            out[j, 0], out[j, 1], out[j, 2], out[j, 3] = r
            continue
        for c in range(3):
            new[j, c] = vectors[j, c]
        if x != 0.0 or y != 0.0 or z != 0.0:
            # g <- g exp(delta), with the turn in the joint's own axes
            turn = unrotate((world[j, 0], world[j, 1], world[j, 2], world[j, 3]), (x, y, z))
            largest = max(largest, abs(turn[0]), abs(turn[1]), abs(turn[2]))
            r = turn_rotation(r, turn)
        out[j, 0], out[j, 1], out[j, 2], out[j, 3] = r
    return largest


@kernel
def turn_rotation(q: Quaternion, turn: Vector) -> Quaternion:
    """Rotation after a turn [rad] in its own axes, brought back to norm one by a Newton step."""
    a, b, c, d = multiply(q, exp(turn))
    scale = 1.5 - 0.5 * (a * a + b * b + c * c + d * d)
    return scale * a, scale * b, scale * c, scale * d


@kernel
def write_world_axes(face: ActiveLimits, world: FloatArray, j: int, frames: FloatArray) -> None:
    """Write the world axes of a joint's basis."""
    for c in range(3):
        x, y, z = rotate(quaternion_at(world, j), (face.axes[j, 0, c], face.axes[j, 1, c], face.axes[j, 2, c]))
        frames[j, 0, c], frames[j, 1, c], frames[j, 2, c] = x, y, z


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
        a, b, c, d = turn_rotation(quaternion_at(state.wxyz, j), row3(turns, j))
        trial.wxyz[j, 0], trial.wxyz[j, 1], trial.wxyz[j, 2], trial.wxyz[j, 3] = a, b, c, d
    out, violation, _ = check_bounds(bounds, trial.wxyz.reshape((1, joints, 4)))
    for j in range(joints):
        if violation[0, j] > 0.0:
            trial.wxyz[j] = out[0, j]
            got = log(multiply(conjugate(quaternion_at(state.wxyz, j)), quaternion_at(out[0], j)))
            # Directions that the projection removed from the joint's step become active. Their part along loose axes
            # is the outward normal of a limit that was not active before
            normal, size = np.zeros(3), 0.0
            for k in range(3):
                t = 0.0
                for c in range(3):
                    t += face.axes[j, c, k] * (turns[j, c] - got[c])
                if face.loose[j, k]:
                    size += t * t
                    for c in range(3):
                        normal[c] += t * face.axes[j, c, k]
            if size > BLOCKED_RAD**2:
                # Turn the loose axes so that one of them is the normal
                normal = normal / sqrt(size)
                best, most = -1, 0.0
                for k in range(3):
                    if face.loose[j, k]:
                        t = abs(
                            face.axes[j, 0, k] * normal[0]
                            + face.axes[j, 1, k] * normal[1]
                            + face.axes[j, 2, k] * normal[2]
                        )
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
                        length = sqrt(face.axes[j, 0, k] ** 2 + face.axes[j, 1, k] ** 2 + face.axes[j, 2, k] ** 2)
                        for c in range(3):
                            face.axes[j, c, k] /= length
                face.loose[j, best], face.is_bound[j] = False, True
            # Axes that are not loose go as far as the projection says
            for k in range(3):
                if not face.loose[j, k]:
                    t = got[0] * face.axes[j, 0, k] + got[1] * face.axes[j, 1, k] + got[2] * face.axes[j, 2, k]
                    face.held[j, k] = t
            if size > BLOCKED_RAD**2:
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
    is_limited, is_drawn = step.G.shape[0] > 0, has_springs(layout.springs)
    starts, chain, frames, turns = layout.lists.chain_start, layout.lists.chain, rows.frames, rows.turns
    ease, G, eased = step.ease, step.G, step.eased
    if bounds is None:
        for j in range(face.free.shape[0]):
            for c in range(3):
                face.is_open[j, c], face.travel[j, c] = face.free[j, c], 0.0
    else:
        # No limit is active yet: each joint has its own axes, and all of them are loose
        face.loose[:], face.held[:], face.is_bound[:], face.axes[:] = True, 0.0, False, 0.0
        for j in range(face.axes.shape[0]):
            for c in range(3):
                face.axes[j, c, c] = 1.0
            write_world_axes(face, state.world, j, rows.frames)
    for _ in range(MAX_BINDINGS):
        # (J G J^T + damping W^-1) y = e + J G P / damping - J held
        if bounds is None and is_limited:
            write_held_axes(face, rows.frames)
        # Compliances g_j = damping / (damping / m_j + s_j), and g_j (I - sum_k a_k a_k^T) of bound joints over the
        # axes a_k that are not loose
        for j in range(ease.shape[0]):
            m = layout.springs.mobility[j]
            ease[j] = damping * m / (damping + m * layout.springs.stiffness[j])
        for j in range(G.shape[0]):
            if face.is_bound[j]:
                for r in range(3):
                    for c in range(3):
                        total = 1.0 if r == c else 0.0
                        for k in range(3):
                            if not face.loose[j, k]:
                                total -= frames[j, r, k] * frames[j, c, k]
                        G[j, r, c] = ease[j] * total
        # L G: how far each block goes for a unit torque on each joint that moves it
        for i in range(chain.shape[0]):
            j = chain[i]
            if G.shape[0] > 0 and face.is_bound[j]:
                for r in range(3):
                    x, y, z = turns[i, r, 0], turns[i, r, 1], turns[i, r, 2]
                    for c in range(3):
                        eased[i, r, c] = x * G[j, 0, c] + y * G[j, 1, c] + z * G[j, 2, c]
            else:
                for r in range(3):
                    for c in range(3):
                        eased[i, r, c] = ease[j] * turns[i, r, c]
        assemble_dual_matrix(layout, face.is_bound, damping, rows, step)
        for b in range(blocks):
            for c in range(3):
                step.y[3 * b + c] = state.errors[b, c]
        if is_drawn:
            # J G P / damping: where the springs alone would take the blocks, undone
            last, pulls = state.pulls.shape[0] - 1, state.pulls
            for b in range(blocks):
                for r in range(3):
                    total = 0.0
                    for c in range(3):
                        total += ease[last] * rows.shifts[b, r, c] * pulls[last, c]
                    for i in range(starts[b], starts[b + 1]):
                        x, y, z = row3(pulls, chain[i])
                        total += eased[i, r, 0] * x + eased[i, r, 1] * y + eased[i, r, 2] * z
                    step.y[3 * b + r] += total / damping
        if is_limited:
            # What the held coordinates do to the blocks
            for b in range(blocks):
                for i in range(starts[b], starts[b + 1]):
                    j = chain[i]
                    x, y, z = row3(face.held, j)
                    if not face.is_bound[j] or (x == 0.0 and y == 0.0 and z == 0.0):
                        continue
                    u = frames[j, 0, 0] * x + frames[j, 0, 1] * y + frames[j, 0, 2] * z
                    v = frames[j, 1, 0] * x + frames[j, 1, 1] * y + frames[j, 1, 2] * z
                    w = frames[j, 2, 0] * x + frames[j, 2, 1] * y + frames[j, 2, 2] * z
                    for r in range(3):
                        step.y[3 * b + r] -= turns[i, r, 0] * u + turns[i, r, 1] * v + turns[i, r, 2] * w
        expected = solve_dual(layout, damping, rows, state.pulls, step)
        # Limits that this step would break become active, and it is solved anew
        if bounds is None:
            is_bound = is_limited and bind_coordinates(face, state.vectors, rows.frames, step)
        else:
            is_bound = project_step(bounds, face, step, rows.frames, state, trial)
        if not is_bound:
            break
    return expected
