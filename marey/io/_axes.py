"""Which way is up in a file, and how to turn it to +Y."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.skeleton import Skeleton, joint_positions

SAMPLED_FRAMES: Final = 16  # enough to see how a body stands
HEAD_WORDS: Final = ("head", "neck")
FOOT_WORDS: Final = ("foot", "toe", "ankle")
CLEAR: Final = 0.7  # [-] cosine above which a body axis is called upright
STRICT: Final = 0.85  # [-] the same, when the rest pose speaks against it
STEADY: Final = 0.05  # [-] spread of the floor height over the body's height
TRAVEL: Final = 0.5  # [-] way along the ground over the body's height


def to_world(vectors: FloatArray, up: str) -> FloatArray:
    """Turn vectors ``(..., 3)`` from a file whose vertical axis is ``up`` to +Y up: ``(x, y, z) -> (x, z, -y)``."""
    if _check_axis(up) == "+y":
        return vectors
    return np.stack([vectors[..., 0], vectors[..., 2], -vectors[..., 1]], axis=-1)


def to_file(vectors: FloatArray, up: str) -> FloatArray:
    """Undo :func:`to_world`."""
    if _check_axis(up) == "+y":
        return vectors
    return np.stack([vectors[..., 0], -vectors[..., 2], vectors[..., 1]], axis=-1)


def rotate_wxyz(wxyz: FloatArray, up: str, *, back: bool = False) -> FloatArray:
    """Conjugate rotations, ``R q R^-1``: the vector part turns like a vector."""
    if _check_axis(up) == "+y":
        return wxyz
    turn = to_file if back else to_world
    return np.concatenate([wxyz[..., :1], turn(wxyz[..., 1:], up)], axis=-1)


def detect_up(skeleton: Skeleton, roots: FloatArray, wxyz: FloatArray, translations: FloatArray | None = None) -> str:
    """``"+z"`` when the body stands along Z, else ``"+y"``; everything in the file's own axes.

    The rest pose and the motion are both asked. When they disagree, Z needs a body that travels along Y
    over a floor that is steady along Z: a person who crawls along Z has none.
    """
    index = np.unique(np.linspace(0, len(roots) - 1, SAMPLED_FRAMES).astype(np.int64))
    moving = None if translations is None else translations[index]
    posed = joint_positions(skeleton, roots[index], wxyz[index], moving)
    rest = _body_axis(skeleton, skeleton.rest_positions()[None])
    motion = _body_axis(skeleton, posed)
    if motion[2] < CLEAR:
        return "+y"
    if rest[1] < CLEAR:
        return "+z"
    return "+z" if motion[2] > STRICT and _walks_along_y(posed) else "+y"


def _body_axis(skeleton: Skeleton, positions: FloatArray) -> FloatArray:
    """Mean unit vector (3,) from the feet to the head; from the lowest to the highest joint without such names."""
    names = [name.lower() for name in skeleton.names]
    heads = [j for j, name in enumerate(names) if any(word in name for word in HEAD_WORDS)]
    feet = [j for j, name in enumerate(names) if any(word in name for word in FOOT_WORDS)]
    if heads and feet:
        body = positions[:, heads].mean(axis=1) - positions[:, feet].mean(axis=1)
    else:
        body = positions[:, 0] - positions.min(axis=1)  # how far the root is above the lowest joint, each way
        body[:, 0] = 0.0  # arms reach as far as legs
    lengths = np.linalg.norm(body, axis=-1, keepdims=True)
    return (body / np.maximum(lengths, 1e-12)).mean(axis=0)


def _walks_along_y(positions: FloatArray) -> bool:
    height = float(np.ptp(positions, axis=(0, 1))[2])
    floor = positions[..., 2].min(axis=1)
    return bool(np.std(floor) < STEADY * height and np.ptp(positions[:, 0, 1]) > TRAVEL * height)


def _check_axis(up: str) -> str:
    if up not in ("+y", "+z"):
        raise InputError(f"unknown vertical axis '{up}'", "It is +y or +z")
    return up
