"""Compiled Newton-Euler on trees of ball joints under a free root, a whole clip at a time."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray, kernel

Vector = tuple[float, float, float]


@kernel
def _add(a: Vector, b: Vector) -> Vector:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@kernel
def _cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@kernel
def _dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@kernel
def _times(s: float, a: Vector) -> Vector:
    return s * a[0], s * a[1], s * a[2]


@kernel
def _get(a: FloatArray) -> Vector:
    return a[0], a[1], a[2]


@kernel
def _put(a: Vector, out: FloatArray) -> None:
    out[0], out[1], out[2] = a


@kernel
def _matrix(q: FloatArray, out: FloatArray) -> None:
    """Rotation matrix ``(3, 3)`` of a unit quaternion."""
    w, x, y, z = q[0], q[1], q[2], q[3]
    out[0, 0], out[0, 1], out[0, 2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)
    out[1, 0], out[1, 1], out[1, 2] = 2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)
    out[2, 0], out[2, 1], out[2, 2] = 2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)


@kernel
def _turn(m: FloatArray, v: Vector) -> Vector:
    return _dot(_get(m[0]), v), _dot(_get(m[1]), v), _dot(_get(m[2]), v)


@kernel
def _turn_back(m: FloatArray, v: Vector) -> Vector:
    return _dot(_get(m[:, 0]), v), _dot(_get(m[:, 1]), v), _dot(_get(m[:, 2]), v)


@kernel
def _spin(m: FloatArray, inertia: FloatArray, omega: Vector, alpha: Vector) -> tuple[Vector, Vector]:
    r"""Angular momentum :math:`RIR^T\omega` and its rate :math:`RIR^T\alpha + \omega\times RIR^T\omega`, in world."""
    momentum = _turn(m, _turn(inertia, _turn_back(m, omega)))
    rate = _turn(m, _turn(inertia, _turn_back(m, alpha)))
    return momentum, _add(rate, _cross(omega, momentum))


@kernel
def _move_joint(
    parent: int, j: int, offset: FloatArray, q: FloatArray, w: FloatArray, dw: FloatArray, R: FloatArray, s: FloatArray
) -> None:
    r"""World rotation and motion of a joint from its parent's.

    Rows of ``s`` are position, velocity, acceleration, :math:`\omega`, :math:`\alpha`. With the joint's own rate
    :math:`w` in its own frame, :math:`\omega_j = \omega_p + R_j w`,
    :math:`\alpha_j = \alpha_p + R_j \dot w + \omega_p \times R_j w`.
    """
    local = np.empty((3, 3))
    _matrix(q, local)
    for i in range(3):
        for k in range(3):
            R[j, i, k] = R[parent, i, 0] * local[0, k] + R[parent, i, 1] * local[1, k] + R[parent, i, 2] * local[2, k]
    r = _turn(R[parent], _get(offset))
    omega, alpha = _get(s[parent, 3]), _get(s[parent, 4])
    swing = _cross(omega, r)
    _put(_add(_get(s[parent, 0]), r), s[j, 0])
    _put(_add(_get(s[parent, 1]), swing), s[j, 1])
    _put(_add(_get(s[parent, 2]), _add(_cross(alpha, r), _cross(omega, swing))), s[j, 2])
    own = _turn(R[j], _get(w))
    _put(_add(omega, own), s[j, 3])
    _put(_add(_add(alpha, _turn(R[j], _get(dw))), _cross(omega, own)), s[j, 4])


@kernel
def _move_root(root: FloatArray, q: FloatArray, w: FloatArray, dw: FloatArray, R: FloatArray, s: FloatArray) -> None:
    """As :func:`_move_joint` for the root, whose position, velocity and acceleration are given in world."""
    _matrix(q, R[0])
    for i in range(3):
        for k in range(3):
            s[0, i, k] = root[i, k]
    _put(_turn(R[0], _get(w)), s[0, 3])
    _put(_turn(R[0], _get(dw)), s[0, 4])


@kernel
def _load_joint(
    R: FloatArray, s: FloatArray, mass: float, centre: FloatArray, inertia: FloatArray, out: FloatArray
) -> tuple[Vector, Vector]:
    """Add one rigid piece to the sums of a frame; return force (without gravity) and moment about the joint it needs.

    ``out`` sums mass times centre, velocity and acceleration of it (3 each), angular momentum about the world origin
    (3) and kinetic energy.
    """
    omega, alpha = _get(s[3]), _get(s[4])
    r = _turn(R, _get(centre))
    swing = _cross(omega, r)
    p = _add(_get(s[0]), r)
    v = _add(_get(s[1]), swing)
    a = _add(_get(s[2]), _add(_cross(alpha, r), _cross(omega, swing)))
    spin, rate = _spin(R, inertia, omega, alpha)
    linear, force = _times(mass, v), _times(mass, a)
    about = _add(spin, _cross(p, linear))
    for k in range(3):
        out[k] += mass * p[k]
        out[3 + k] += linear[k]
        out[6 + k] += force[k]
        out[9 + k] += about[k]
    out[12] += 0.5 * (_dot(linear, v) + _dot(omega, spin))
    return force, _add(rate, _cross(r, force))


@kernel
def newton_euler(
    parents: IntArray,
    offsets: FloatArray,
    masses: FloatArray,
    centres: FloatArray,
    inertias: FloatArray,
    roots: FloatArray,
    wxyz: FloatArray,
    rates: FloatArray,
    rate_changes: FloatArray,
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
        roots: ``(F, 3, 3)`` position, velocity, acceleration of the root in world.
        wxyz: ``(F, J, 4)`` R_parent_joint.
        rates: ``(F, J, 3)`` [rad/s] of each joint against its parent, in the joint's frame.
        rate_changes: ``(F, J, 3)`` [rad/s²] their time derivatives, in the joint's frame.
        external: ``(F, J, 6)`` or ``(0, J, 6)``: force and moment about the world origin that act on each piece.
        gravity: [m/s²] along -Y.

    Returns:
        Torques ``(F, J, 3)`` in the joints' frames; wrench ``(F, 6)`` of force and moment about the world origin that
        the root needs; sums ``(F, 13)`` of :func:`_load_joint`.
    """
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    torques, wrench, sums = np.zeros((frames, joints, 3)), np.zeros((frames, 6)), np.zeros((frames, 13))
    R, s = np.empty((joints, 3, 3)), np.empty((joints, 5, 3))
    forces, moments = np.empty((joints, 3)), np.empty((joints, 3))
    for f in range(frames):
        _move_root(roots[f], wxyz[f, 0], rates[f, 0], rate_changes[f, 0], R, s)
        for j in range(joints):
            if j > 0:
                _move_joint(parents[j], j, offsets[j], wxyz[f, j], rates[f, j], rate_changes[f, j], R, s)
            force, moment = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
            if masses[j] > 0.0:
                force, moment = _load_joint(R[j], s[j], masses[j], centres[j], inertias[j], sums[f])
                lift = (0.0, gravity * masses[j], 0.0)
                force = _add(force, lift)
                moment = _add(moment, _cross(_turn(R[j], _get(centres[j])), lift))
            if f < external.shape[0]:
                push = _get(external[f, j, :3])
                force = _add(force, _times(-1.0, push))
                twist = _add(_get(external[f, j, 3:]), _cross(push, _get(s[j, 0])))
                moment = _add(moment, _times(-1.0, twist))
            _put(force, forces[j])
            _put(moment, moments[j])
        for j in range(joints - 1, -1, -1):
            force, moment = _get(forces[j]), _get(moments[j])
            _put(_turn_back(R[j], moment), torques[f, j])
            if j > 0:
                p = parents[j]
                lever = _add(_get(s[j, 0]), _times(-1.0, _get(s[p, 0])))
                _put(_add(_get(forces[p]), force), forces[p])
                _put(_add(_get(moments[p]), _add(moment, _cross(lever, force))), moments[p])
        root_force = _get(forces[0])
        _put(root_force, wrench[f, :3])
        _put(_add(_get(moments[0]), _cross(_get(s[0, 0]), root_force)), wrench[f, 3:])
    return torques, wrench, sums
