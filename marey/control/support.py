"""Support: what a figure stands on, its middle and its hull, and the frames of its soles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.numerics import convex_hull
from marey.simulate import Mechanics, Simulator, contact_spheres
from marey.skeleton import Skeleton

if TYPE_CHECKING:
    from marey.control.tasks import Centre


SUPPORT_TOUCH_M: Final = 5e-3  # [m] points nearer to the ground than this support the figure
FADE_S: Final = 0.2  # [s] in which a support that is lost is forgotten
SOLE_ARM_M: Final = 0.1  # [m] half length of a sole: its rotation counts as much as a shift by this arm


@dataclass(frozen=True, slots=True, eq=False)
class Support:
    """Support of a figure."""

    points: FloatArray  # (n, 3) [m] that touch
    hull: FloatArray  # (h, 2) [m] corners (x, z), counterclockwise in (x, z)
    first_height_m: float  # of the centre of mass above the support, when it was first seen
    lost_s: float  # [s] since the last contact

    def middle(self, centre: Centre) -> FloatArray:
        """Place ``(3,)`` [m] above which the centre of mass is safest."""
        mean = self.points.mean(axis=0)
        if centre == "mean" or len(self.hull) < 3:
            return mean
        x, z = hull_centroid(self.hull)
        return np.array([x, mean[1], z])

    def hold(self, hold_s: float) -> float:
        """Remaining weight, from 1 to 0."""
        return float(np.clip(1.0 - (self.lost_s - hold_s) / FADE_S, 0.0, 1.0))


def next_support(last: Support | None, simulator: Simulator, here: Mechanics, dt: float) -> Support | None:
    """Support of a configuration; the last one, fading, where nothing touches."""
    found, constrainer = [np.zeros((0, 3))], simulator.constrainer
    if constrainer is not None:
        joints, offsets, radii = constrainer.spheres
        centres = here.joints[joints] + (here.frames[joints] @ offsets[:, :, None])[:, :, 0]
        for ground in constrainer.grounds:
            touches = ground.gaps(centres) - radii < SUPPORT_TOUCH_M
            found.append((centres - radii[:, None] * ground.normal)[touches])
    points = np.concatenate(found)
    if not len(points):
        return None if last is None else Support(last.points, last.hull, last.first_height_m, last.lost_s + dt)
    first = float(here.com[1] - points[:, 1].mean()) if last is None else last.first_height_m
    return Support(points, convex_hull(points[:, [0, 2]]), first, 0.0)


def hull_centroid(hull: FloatArray) -> FloatArray:
    """Centre of area ``(2,)`` of a hull; of a line or a point, the mean."""
    # Centroid of a polygon from the signed areas of its triangles; of a line, the mean
    after = np.roll(hull, -1, axis=0)
    areas = hull[:, 0] * after[:, 1] - hull[:, 1] * after[:, 0]
    whole = float(areas.sum())
    if abs(whole) < 1e-9:
        return hull.mean(axis=0)
    return ((hull + after) * areas[:, None]).sum(axis=0) / (3.0 * whole)


def hull_distances(hull: FloatArray, place: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Inward normals ``(h, 2)`` of a hull's edges and how far inside them a place ``(2,)`` is, ``(h,)`` [m]."""
    edges = np.roll(hull, -1, axis=0) - hull
    normals = np.stack([-edges[:, 1], edges[:, 0]], axis=1) / np.linalg.norm(edges, axis=1, keepdims=True)
    return normals, np.einsum("hi,hi->h", normals, place - hull)


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
