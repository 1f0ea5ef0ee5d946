"""Two bones that reach: legs on their plants, arms on what they hold, each bent the way a body bends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3
from marey.skeleton import NO_PARENT, RoleMap, Skeleton

BENT: Final = 0.25  # [-] of the upper bone: a joint this far off the line of its limb shows where it bends to
SLIGHT: Final = 0.03  # [-] of the upper bone: nearer to the line than this, or bent the wrong way, it is told
STRAIGHT: Final = 1.0 - 1e-7  # [-] no limb is straighter


LimbPath = tuple[FloatArray, FloatArray, FloatArray]
"""Positions of upper, middle and end joint of a limb, each ``(F, 3)`` [m] in world."""


@dataclass(frozen=True, slots=True)
class LimbJoints:
    """Upper, middle and end joint of a limb."""

    upper: int
    middle: int
    end: int

    @classmethod
    def from_roles(cls, roles: RoleMap, parts: tuple[str, str, str], side: str) -> LimbJoints | None:
        """Limb of one side, or None where a joint has no role."""
        joints = [roles.get(f"{side}_{part}") for part in parts]
        a, b, c = joints
        return None if a is None or b is None or c is None else cls(a, b, c)


def find_bend(limb: LimbPath, R_world_upper: SO3, usual: FloatArray) -> FloatArray:
    """Way that the middle joint of a limb bends ``(3,)``, in the frame of the upper bone, from the clip itself.

    Args:
        limb: upper, middle and end joint in time.
        R_world_upper: frames of the upper joint, batch ``(F,)``.
        usual: the direction ``(3,)`` to take where the clip never bends the limb.
    """
    upper, middle, end = limb
    bone, line = middle - upper, end - upper
    line = line / np.maximum(np.linalg.norm(line, axis=-1, keepdims=True), 1e-9)
    away, length = bone - line * _dot(line, bone), np.linalg.norm(bone, axis=-1)
    size = np.linalg.norm(away, axis=-1)
    is_bent = size > BENT * length
    if is_bent.sum() < 3:
        return usual
    local = (R_world_upper[is_bent].inverse() @ away[is_bent]) / size[is_bent, None]
    mean = local.mean(axis=0)
    return mean / np.linalg.norm(mean) if np.linalg.norm(mean) > 0.5 else usual


def reach(limb: LimbPath, goals: FloatArray, pole: FloatArray, stretch: FloatArray) -> tuple[SO3, SO3]:
    r"""World turns of both bones, batches ``(F,)``, that bring the end of a limb to its goals.

    .. math:: \cos\alpha = \frac{l_1^2 + L^2 - l_2^2}{2 l_1 L}

    with :math:`L` the distance to the goal, at most the largest extension. The plane of the limb
    turns with the line from its upper joint to its end. A limb that is nearly straight, or bent the wrong way by as
    little as captures show, bends towards its pole.

    Args:
        limb: upper, middle and end joint in time.
        goals: where the end shall be ``(F, 3)`` [m].
        pole: way that the middle joint bends, in world ``(F, 3)``.
        stretch: largest extension ``(F,)`` as a part of both bones; a limb that is straighter already may stay so.
    """
    upper, middle, end = limb
    k, s, a, g = middle - upper, end - middle, end - upper, goals - upper
    l1, l2 = np.linalg.norm(k, axis=-1), np.linalg.norm(s, axis=-1)
    total = l1 + l2
    now, far = np.linalg.norm(a, axis=-1), np.linalg.norm(g, axis=-1)
    a = a / np.maximum(now, 1e-9)[:, None]
    g = g / np.maximum(far, 1e-9)[:, None]
    length = np.minimum(far, np.minimum(np.maximum(stretch, now / total), STRAIGHT) * total)
    length = np.maximum(length, np.abs(l1 - l2) + 1e-6 * total)
    # The plane: where the middle joint is, drawn to the pole where that is hardly off the line or behind it
    hint = pole - a * _dot(a, pole)
    hint = hint / np.maximum(np.linalg.norm(hint, axis=-1, keepdims=True), 1e-9)
    bend = k - a * _dot(a, k)
    lack = np.maximum(SLIGHT * l1[:, None] - _dot(bend, hint), 0.0)
    bend = bend + lack * hint
    bend = bend / np.maximum(np.linalg.norm(bend, axis=-1, keepdims=True), 1e-12)
    arc = SO3.from_two_vectors(a, g)
    turned = arc @ bend
    cosine = np.clip((l1 * l1 + length * length - l2 * l2) / (2.0 * l1 * length), -1.0, 1.0)[:, None]
    k_new = l1[:, None] * (cosine * g + np.sqrt(1.0 - cosine * cosine) * turned)
    s_new = length[:, None] * g - k_new
    # Bones turn with their plane, so that no twist is added
    return (
        SO3.from_two_vectors(arc @ k, k_new) @ arc,
        SO3.from_two_vectors(arc @ s, s_new) @ arc,
    )


def measure_flexion(length: FloatArray, upper: FloatArray, lower: FloatArray) -> FloatArray:
    """Angle ``(F,)`` [rad] between two bones whose ends are ``length`` apart; zero where they cannot be that far."""
    cosine = (length**2 - upper**2 - lower**2) / np.maximum(2.0 * upper * lower, 1e-12)
    return np.arccos(np.clip(cosine, -1.0, 1.0))


def measure_length(flexion: FloatArray, upper: FloatArray, lower: FloatArray) -> FloatArray:
    """Distance ``(F,)`` [m] of the ends of two bones at an angle; the inverse of :func:`measure_flexion`."""
    return np.sqrt(np.maximum(upper**2 + lower**2 + 2.0 * upper * lower * np.cos(flexion), 0.0))


def turn_limb(
    wxyz: FloatArray, frame: Callable[[int], SO3], skeleton: Skeleton, limb: LimbJoints, turns: tuple[SO3, SO3]
) -> SO3:
    """Write the turned bones into local rotations ``(F, J, 4)``; returns the frame above the end joint.

    ``frame`` gives the world rotations of a joint before they turn.
    """
    first, second = turns
    above, middle, end = (int(skeleton.parents[j]) for j in (limb.upper, limb.middle, limb.end))
    R_above = SO3.identity(len(wxyz)) if above == NO_PARENT else frame(above)
    wxyz[:, limb.upper] = (R_above.inverse() @ first @ frame(limb.upper)).wxyz
    wxyz[:, limb.middle] = ((first @ frame(middle)).inverse() @ second @ frame(limb.middle)).wxyz
    return second @ frame(end)


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.einsum("fi,fi->f", a, b)[:, None]
