"""Support: what a figure stands on, its middle and its hull."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray
from marey.simulate import Mechanics, Simulator

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


def convex_hull(points: FloatArray) -> FloatArray:
    """Corners ``(h, 2)`` of the hull of points ``(n, 2)``, counterclockwise (Andrew's chain)."""
    ordered = sorted({(round(float(x), 9), round(float(y), 9)) for x, y in points})
    if len(ordered) < 3:
        return np.array(ordered, dtype=np.float64).reshape(-1, 2)
    corners: list[tuple[float, float]] = []
    for way in (ordered, ordered[::-1]):
        chain: list[tuple[float, float]] = []
        for p in way:
            # Drop corners at which the chain does not turn left
            while len(chain) > 1:
                (ax, ay), (bx, by) = chain[-2:]
                if (bx - ax) * (p[1] - ay) - (by - ay) * (p[0] - ax) > 0.0:
                    break
                chain.pop()
            chain.append(p)
        corners += chain[:-1]
    return np.array(corners)


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
