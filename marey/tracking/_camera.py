"""The pinhole through which a body is watched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, frozen

UP: Final = (0.0, 1.0, 0.0)  # +Y, as everywhere in marey
MIN_VIEW_DISTANCE_M: Final = 1e-9  # [m] below this, position and target are one point
MIN_UP_SINE: Final = 1e-6  # [-] a view this near to the vertical has no up on the picture
MIN_DEPTH_M: Final = 0.05  # [m] points nearer than this to the lens plane, or behind it, count as this near


@dataclass(frozen=True, slots=True, eq=False)
class Camera:
    r"""A pinhole at ``position`` that looks at ``target``, +Y up on the picture, rows going down.

    .. math:: u = \tfrac w2 + f\,\frac{r\cdot(p-c)}{d}, \quad v = \tfrac h2 - f\,\frac{u\cdot(p-c)}{d}, \quad
              d = \text{forward}\cdot(p-c)

    The camera of the thesis is not described ([Engell2012]_ §9); a pinhole without distortion is our choice.
    """

    position: FloatArray  # (3,) [m] in world
    target: FloatArray  # (3,) [m] in world, seen at the middle of the picture
    focal_px: float = 600.0  # [px] focal length; 600 on a picture 480 high sees 44 degrees from top to bottom
    size: tuple[int, int] = (640, 480)  # [px] (width, height)

    def __post_init__(self) -> None:
        object.__setattr__(self, "position", frozen(self.position, 3, name="camera position"))
        object.__setattr__(self, "target", frozen(self.target, 3, name="camera target"))
        forward = self.target - self.position
        length = float(np.linalg.norm(forward))
        if length < MIN_VIEW_DISTANCE_M:
            raise InputError("the camera stands at its own target", "Move one of them")
        if np.hypot(forward[0], forward[2]) < MIN_UP_SINE * length:
            raise InputError("the camera looks straight up or down", "Tilt it, so that the picture has an up")
        if not (np.isfinite(self.focal_px) and self.focal_px > 0.0):
            raise InputError(f"the camera's focal_px is {self.focal_px}", "It must be positive")
        if min(self.size) < 1:
            raise InputError(f"the camera's size is {self.size}", "Give a positive (width, height) in pixels")

    def axes(self) -> FloatArray:
        """Rows ``(3, 3)``: right, up and forward (depth) of the picture, unit vectors in world."""
        forward = (self.target - self.position) / np.linalg.norm(self.target - self.position)
        right = np.cross(forward, UP)
        right /= np.linalg.norm(right)
        return np.stack([right, np.cross(right, forward), forward])

    def project(self, points: FloatArray) -> FloatArray:
        """Pixels ``(..., 2)`` of world points ``(..., 3)``; never infinite, see ``MIN_DEPTH_M``."""
        right, up, depth = np.moveaxis(self._to_camera(points), -1, 0)
        scale = self.focal_px / depth
        return np.stack([0.5 * self.size[0] + scale * right, 0.5 * self.size[1] - scale * up], axis=-1)

    def jacobian(self, points: FloatArray) -> FloatArray:
        """How the pixels move with the points: ``(..., 2, 3)`` [px/m], in world axes."""
        right, up, depth = np.moveaxis(self._to_camera(points), -1, 0)
        r, u, f = self.axes()
        scale = (self.focal_px / depth)[..., None]
        across = r - (right / depth)[..., None] * f
        down = (up / depth)[..., None] * f - u
        return np.stack([scale * across, scale * down], axis=-2)

    def back_project(self, pixels: FloatArray, points: FloatArray) -> FloatArray:
        """Points ``(..., 3)`` [m] that are seen at ``pixels`` ``(..., 2)``, as deep as other points ``(..., 3)``."""
        depth = self._to_camera(points)[..., 2]
        right = (pixels[..., 0] - 0.5 * self.size[0]) / self.focal_px
        up = (0.5 * self.size[1] - pixels[..., 1]) / self.focal_px
        seen = np.stack(np.broadcast_arrays(depth * right, depth * up, depth), axis=-1)
        return self.position + seen @ self.axes()

    def diagonal(self, across: float, up: float, depth: float) -> FloatArray:
        """Matrix ``(3, 3)`` in world axes that is diagonal in those of the picture."""
        axes = self.axes()
        return (axes.T * np.array([across, up, depth])) @ axes

    def is_in_view(self, points: FloatArray) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Whether points ``(..., 3)`` are before the lens and inside the picture."""
        pixels = self.project(points)
        inside = np.all((pixels >= 0.0) & (pixels <= np.asarray(self.size)), axis=-1)
        return inside & ((points - self.position) @ self.axes()[2] > MIN_DEPTH_M)

    def _to_camera(self, points: FloatArray) -> FloatArray:
        seen = (np.asarray(points, dtype=np.float64) - self.position) @ self.axes().T
        seen[..., 2] = np.maximum(seen[..., 2], MIN_DEPTH_M)
        return seen
