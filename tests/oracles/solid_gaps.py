"""Gaps between drawn segments, from the geometry of the capsules in world alone."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray

SAMPLES = 33  # points along each segment; a gap is overestimated by less than 1/32 of a segment's slope


def widest_gap(starts: FloatArray, ends: FloatArray, start_radii: FloatArray, end_radii: FloatArray) -> float:
    """Largest gap [m] that must be bridged to join tapered capsules ``(S, 3)`` to one body; negative if all overlap.

    It is the longest edge of the minimum spanning tree over the distances between surfaces.
    """
    t = np.linspace(0.0, 1.0, SAMPLES)
    points = starts[:, None] + t[:, None] * (ends - starts)[:, None]
    radii = start_radii[:, None] + t * (end_radii - start_radii)[:, None]
    # Distance of the points of each capsule to the axis of each other
    axes = ends - starts
    squares = np.maximum((axes**2).sum(axis=1), 1e-18)
    share = np.clip(np.einsum("itjk,jk->itj", points[:, :, None] - starts, axes) / squares, 0.0, 1.0)
    nearest = starts + share[..., None] * axes
    gaps = np.linalg.norm(points[:, :, None] - nearest, axis=-1) - radii[:, :, None]
    gaps = (gaps - start_radii - share * (end_radii - start_radii)).min(axis=1)
    gaps = np.minimum(gaps, gaps.T)
    # Prim's tree
    joined, reach, widest = np.zeros(len(starts), dtype=bool), gaps[0].copy(), -np.inf
    joined[0] = True
    for _ in range(len(starts) - 1):
        reach[joined] = np.inf
        new = int(np.argmin(reach))
        widest, joined[new] = max(widest, float(reach[new])), True
        reach = np.minimum(reach, gaps[new])
    return widest
