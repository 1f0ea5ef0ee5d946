"""Soles: where they are on a foot, and how they lie on the ground."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from marey.base import FloatArray, InputError
from marey.simulate import contact_spheres
from marey.skeleton import Skeleton


@lru_cache(maxsize=64)
def sole_frame(skeleton: Skeleton, side: str) -> tuple[int, FloatArray, FloatArray]:
    """Joint of a foot, middle of its sole ``(3,)`` [m] and the sole's frame ``(3, 3)`` (left, up, ahead), in it.

    Raises:
        InputError: the skeleton has no such foot.
    """
    spheres, names = contact_spheres(skeleton)
    corners = [f"{side}_{part}_{way}" for part in ("heel", "ball") for way in ("left", "right")]
    if not set(corners) <= set(names):
        raise InputError(f"'{skeleton.name}' has no {side} foot", "Ask for a foot that it has")
    which = [names.index(corner) for corner in corners]
    heel_left, heel_right, ball_left, ball_right = spheres.offsets[which]
    ahead = ball_left + ball_right - heel_left - heel_right
    ahead = ahead / np.linalg.norm(ahead)
    left = heel_left - heel_right + ball_left - ball_right
    left = left - ahead * (ahead @ left)
    left = left / np.linalg.norm(left)
    frame = np.stack([left, np.cross(ahead, left), ahead], axis=1)
    return int(spheres.joints[which[0]]), spheres.offsets[which].mean(axis=0), frame


def sole_target(frame: FloatArray, normal: FloatArray, heading_rad: float | None) -> FloatArray:
    """Frame ``(3, 3)`` of a sole that lies flat, as far as it may turn as it is, or with a heading from +Z to +X."""
    ahead = frame[:, 2] if heading_rad is None else np.array([np.sin(heading_rad), 0.0, np.cos(heading_rad)])
    flat = ahead - normal * (normal @ ahead)
    length = float(np.linalg.norm(flat))
    if length < 1e-6:  # a foot that stands on its tip: its crown shows the way
        flat, length = np.cross(frame[:, 0], normal), float(np.linalg.norm(np.cross(frame[:, 0], normal)))
    flat = flat / max(length, 1e-9)
    return np.stack([np.cross(normal, flat), normal, flat], axis=1)
