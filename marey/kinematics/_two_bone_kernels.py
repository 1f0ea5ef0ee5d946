"""Compiled analytic solution of a limb of two bones."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, kernel


@kernel
def _unit(v: FloatArray) -> FloatArray:
    return v / np.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])


@kernel
def _cross(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


@kernel
def _dot(a: FloatArray, b: FloatArray) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@kernel
def _norm(a: FloatArray) -> float:
    return np.sqrt(_dot(a, a))


@kernel
def _perpendicular(v: FloatArray) -> FloatArray:
    """Any unit vector at right angles to the unit vector ``v``."""
    helper = np.array([1.0, 0.0, 0.0]) if abs(v[0]) < 0.6 else np.array([0.0, 1.0, 0.0])
    return _unit(helper - v * _dot(v, helper))


@kernel
def _rotate_by_arc(a: FloatArray, b: FloatArray, v: FloatArray) -> FloatArray:
    """Turn ``v`` by the smallest rotation from unit vector ``a`` to unit vector ``b``."""
    c = _dot(a, b)
    if c < -0.999999999:
        axis = _perpendicular(a)
        return 2.0 * _dot(axis, v) * axis - v
    w = _cross(a, b)
    return c * v + _cross(w, v) + w * (_dot(w, v) / (1.0 + c))


@kernel
def _bone_frame(first: FloatArray, axis: FloatArray) -> FloatArray:
    """Rotation matrix whose first column is ``first`` and whose third is nearest to ``axis``."""
    third = _unit(axis - first * _dot(first, axis))
    second = _cross(third, first)
    m = np.empty((3, 3))
    for i in range(3):
        m[i, 0], m[i, 1], m[i, 2] = first[i], second[i], third[i]
    return m


@kernel
def _saturate(length: float, soft: float, limit: float) -> float:
    """``length`` up to ``soft``, then bending over smoothly (C1) so that it never passes ``limit``."""
    if length <= soft:
        return length
    return soft + (limit - soft) * (1.0 - np.exp(-(length - soft) / (limit - soft)))


@kernel
def solve_limbs(
    upper: FloatArray, middle: FloatArray, end: FloatArray, target: FloatArray, pole: FloatArray, stretch: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""World rotations that carry the end of each limb to its target.

    .. math:: \cos\alpha = \frac{l_1^2 + L^2 - l_2^2}{2 l_1 L}

    with :math:`L` the saturated distance. The bend plane is turned with the arc from the old end to the target.

    Args:
        upper: hips or shoulders ``(F, 3)`` [m].
        middle: knees or elbows ``(F, 3)`` [m].
        end: ankles or wrists ``(F, 3)`` [m].
        target: where the ends shall be ``(F, 3)`` [m].
        pole: where the middle joint bends to when the limb is straight ``(F, 3)``.
        stretch: ``(F, 2)`` extension where saturation starts, and the largest one, as parts of the limb.

    Returns:
        Turns ``(F, 3, 3)`` of the upper bone and of the lower bone, and the ends reached ``(F, 3)``.
    """
    frames = upper.shape[0]
    first, second = np.empty((frames, 3, 3)), np.empty((frames, 3, 3))
    reached = np.empty((frames, 3))
    for f in range(frames):
        k, s, a = middle[f] - upper[f], end[f] - middle[f], end[f] - upper[f]
        l1, l2, whole = _norm(k), _norm(s), _norm(a)
        g = target[f] - upper[f]
        far = _norm(g)
        a = _unit(a) if whole > 1e-9 * (l1 + l2) else _unit(k)
        g = g / far if far > 1e-9 * (l1 + l2) else a
        total = l1 + l2
        length = _saturate(far, stretch[f, 0] * total, stretch[f, 1] * total)
        length = max(length, abs(l1 - l2) + 1e-6 * total)
        bend = k - a * _dot(a, k)
        size = _norm(bend)
        hint = pole[f] - a * _dot(a, pole[f])
        if _norm(hint) < 1e-6:
            hint = _perpendicular(a)
        weak = max(0.0, 1.0 - size / (0.08 * l1))  # a nearly straight limb has no plane of its own
        bend = _unit(bend + _unit(hint) * (0.02 * l1 * weak * weak + 1e-12 * l1))
        turned = _unit(_rotate_by_arc(a, g, bend))
        cosine = min(1.0, max(-1.0, (l1 * l1 + length * length - l2 * l2) / (2.0 * l1 * length)))
        sine = np.sqrt(1.0 - cosine * cosine)
        k_new = l1 * (cosine * g + sine * turned)
        s_new = length * g - k_new
        axis, axis_new = _cross(a, bend), _cross(g, turned)
        first[f] = _bone_frame(_unit(k_new), axis_new) @ _bone_frame(_unit(k), axis).T
        second[f] = _bone_frame(_unit(s_new), axis_new) @ _bone_frame(_unit(s), axis).T
        reached[f] = upper[f] + length * g
    return first, second, reached
