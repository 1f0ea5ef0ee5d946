"""Compiled Newton-Euler on trees of ball joints under a free root, a whole clip at a time.

Arrays have rows for all joints of all frames, frame by frame. Scratch rows of a joint hold its position, velocity,
acceleration, angular velocity and angular acceleration in world.
"""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.dynamics._spatial_kernels import Vector, add3, cross, dot, put3, rotate, rotate_back, row3, scale3, subtract3

POSITION, VELOCITY, ACCELERATION, OMEGA, ALPHA, ROWS = 0, 1, 2, 3, 4, 5
SUMS = 13  # mass times position, velocity, acceleration; angular momentum about the world origin; kinetic energy


@kernel
def _add_row(out: FloatArray, i: int, a: Vector) -> None:
    out[i, 0] += a[0]
    out[i, 1] += a[1]
    out[i, 2] += a[2]


@kernel
def _rotation_columns(wxyz: FloatArray, n: int) -> tuple[Vector, Vector, Vector]:
    """Columns of the rotation matrix of a unit quaternion."""
    w, x, y, z = wxyz[n, 0], wxyz[n, 1], wxyz[n, 2], wxyz[n, 3]
    return (
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)),
        (2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x)),
        (2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)),
    )


@kernel
def _put_rotation_columns(R: FloatArray, j: int, a: Vector, b: Vector, c: Vector) -> None:
    for i in range(3):
        R[j, i, 0] = a[i]
        R[j, i, 1] = b[i]
        R[j, i, 2] = c[i]


@kernel
def _point_motion(s: FloatArray, p: int, r: Vector) -> tuple[Vector, Vector, Vector]:
    """Position, velocity and acceleration of a point at ``r`` (world axes) from the origin of joint ``p``."""
    omega = row3(s, ROWS * p + OMEGA)
    swing = cross(omega, r)
    inwards = add3(cross(row3(s, ROWS * p + ALPHA), r), cross(omega, swing))
    return (
        add3(row3(s, ROWS * p + POSITION), r),
        add3(row3(s, ROWS * p + VELOCITY), swing),
        add3(row3(s, ROWS * p + ACCELERATION), inwards),
    )


@kernel
def _put_root_motion(
    roots: FloatArray,
    f: int,
    wxyz: FloatArray,
    rates: FloatArray,
    changes: FloatArray,
    n: int,
    R: FloatArray,
    s: FloatArray,
) -> None:
    """Rotation and motion of the root, whose path is given in world."""
    a, b, c = _rotation_columns(wxyz, n)
    _put_rotation_columns(R, 0, a, b, c)
    for k in range(3):
        put3(s, k, row3(roots, 3 * f + k))
    put3(s, OMEGA, rotate(R, 0, row3(rates, n)))
    put3(s, ALPHA, rotate(R, 0, row3(changes, n)))


@kernel
def _put_joint_motion(
    p: int,
    j: int,
    offset: Vector,
    wxyz: FloatArray,
    rates: FloatArray,
    changes: FloatArray,
    n: int,
    R: FloatArray,
    s: FloatArray,
) -> None:
    r"""World rotation and motion of a joint from its parent's.

    With the joint's own rate :math:`w` in its own frame, :math:`\omega_j = \omega_p + R_j w`,
    :math:`\alpha_j = \alpha_p + R_j \dot w + \omega_p \times R_j w`.
    """
    a, b, c = _rotation_columns(wxyz, n)
    _put_rotation_columns(R, j, rotate(R, p, a), rotate(R, p, b), rotate(R, p, c))
    position, velocity, acceleration = _point_motion(s, p, rotate(R, p, offset))
    omega = row3(s, ROWS * p + OMEGA)
    own = rotate(R, j, row3(rates, n))
    change = rotate(R, j, row3(changes, n))
    put3(s, ROWS * j + POSITION, position)
    put3(s, ROWS * j + VELOCITY, velocity)
    put3(s, ROWS * j + ACCELERATION, acceleration)
    put3(s, ROWS * j + OMEGA, add3(omega, own))
    put3(s, ROWS * j + ALPHA, add3(add3(row3(s, ROWS * p + ALPHA), change), cross(omega, own)))


@kernel
def _inertia_times(R: FloatArray, j: int, inertias: FloatArray, v: Vector) -> Vector:
    r"""Inertia in world times a vector, :math:`R I R^T v`."""
    return rotate(R, j, rotate(inertias, j, rotate_back(R, j, v)))


@kernel
def _add_joint_load(
    R: FloatArray,
    s: FloatArray,
    j: int,
    mass: float,
    centre: Vector,
    inertias: FloatArray,
    gravity: float,
    f: int,
    sums: FloatArray,
) -> tuple[Vector, Vector]:
    """Add one piece to the sums of its frame; return the force and the moment about the joint that it needs."""
    omega = row3(s, ROWS * j + OMEGA)
    r = rotate(R, j, centre)
    position, velocity, acceleration = _point_motion(s, j, r)
    spin = _inertia_times(R, j, inertias, omega)
    rate = add3(_inertia_times(R, j, inertias, row3(s, ROWS * j + ALPHA)), cross(omega, spin))
    linear = scale3(mass, velocity)
    about = add3(spin, cross(position, linear))
    for k in range(3):
        sums[f, k] += mass * position[k]
        sums[f, 3 + k] += linear[k]
        sums[f, 6 + k] += mass * acceleration[k]
        sums[f, 9 + k] += about[k]
    sums[f, 12] += 0.5 * (dot(linear, velocity) + dot(omega, spin))
    force = scale3(mass, (acceleration[0], acceleration[1] + gravity, acceleration[2]))
    return force, add3(rate, cross(r, force))


@kernel
def _accumulate_to_root(
    parents: IntArray,
    R: FloatArray,
    s: FloatArray,
    forces: FloatArray,
    moments: FloatArray,
    torques: FloatArray,
    n: int,
) -> None:
    """Pass forces and moments from the leaves to the root; torques are the moments in the joints' frames."""
    for j in range(len(parents) - 1, -1, -1):
        force, moment = row3(forces, j), row3(moments, j)
        put3(torques, n + j, rotate_back(R, j, moment))
        if j > 0:
            p = parents[j]
            lever = subtract3(row3(s, ROWS * j + POSITION), row3(s, ROWS * p + POSITION))
            _add_row(forces, p, force)
            _add_row(moments, p, add3(moment, cross(lever, force)))


@kernel
def newton_euler_clip(
    parents: IntArray,
    offsets: FloatArray,
    masses: FloatArray,
    centres: FloatArray,
    inertias: FloatArray,
    roots: FloatArray,
    wxyz: FloatArray,
    rates: FloatArray,
    changes: FloatArray,
    external: FloatArray,
    gravity: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Inverse dynamics of F frames: forces and torques that the given motion needs.

    Args:
        parents: ``(J,)``.
        offsets: ``(J, 3)`` [m].
        masses: ``(J,)`` [kg] of the pieces.
        centres: ``(J, 3)`` [m] in the joints' frames.
        inertias: ``(J, 3, 3)`` [kg m²] about the centres.
        roots: ``(F 3, 3)`` position, velocity, acceleration of the root in world.
        wxyz: ``(F J, 4)`` R_parent_joint.
        rates: ``(F J, 3)`` [rad/s] of each joint against its parent, in the joint's frame.
        changes: ``(F J, 3)`` [rad/s²] their time derivatives, in the joint's frame.
        external: ``(F J, 6)`` force and moment about the world origin that act on each piece; or no rows.
        gravity: [m/s²] along -Y.

    Returns:
        Torques ``(F J, 3)`` in the joints' frames; force and moment about the world origin that the root needs
        ``(F 2, 3)``; ``SUMS`` of each frame.
    """
    joints = len(parents)
    frames = len(wxyz) // joints
    torques, wrench, sums = np.empty((frames * joints, 3)), np.empty((2 * frames, 3)), np.zeros((frames, SUMS))
    R, s = np.empty((joints, 3, 3)), np.empty((ROWS * joints, 3))
    forces, moments = np.empty((joints, 3)), np.empty((joints, 3))
    for f in range(frames):
        first = f * joints
        for j in range(joints):
            n = first + j
            if j == 0:
                _put_root_motion(roots, f, wxyz, rates, changes, n, R, s)
            else:
                _put_joint_motion(parents[j], j, row3(offsets, j), wxyz, rates, changes, n, R, s)
            force, moment = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
            if masses[j] > 0.0:
                force, moment = _add_joint_load(R, s, j, masses[j], row3(centres, j), inertias, gravity, f, sums)
            if len(external):
                push = (external[n, 0], external[n, 1], external[n, 2])
                twist = (external[n, 3], external[n, 4], external[n, 5])
                force = subtract3(force, push)
                moment = subtract3(moment, add3(twist, cross(push, row3(s, ROWS * j + POSITION))))
            put3(forces, j, force)
            put3(moments, j, moment)
        _accumulate_to_root(parents, R, s, forces, moments, torques, first)
        put3(wrench, 2 * f, row3(forces, 0))
        put3(wrench, 2 * f + 1, add3(row3(moments, 0), cross(row3(s, POSITION), row3(forces, 0))))
    return torques, wrench, sums
