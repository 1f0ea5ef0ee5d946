"""The display surface: bound once to the cells of a body and moved with them ([Engell2012]_ §20.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError, frozen

NUM_NEAR_CELLS: Final = 24  # cells asked for each point, nearest centres first

NodeNumbers = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedSurface:
    """N points that hang on the nodes of a body, and the triangles between them."""

    nodes: NodeNumbers  # (N, K) node numbers
    weights: FloatArray  # (N, K) they sum to 1
    faces: NodeNumbers  # (M, 3) counter-clockwise from outside
    offsets: FloatArray  # (N, 3) [m] added to what the nodes give: the thickness of a flat body

    def __post_init__(self) -> None:
        weights = frozen(self.weights, None, None, name="skin weights")
        if self.nodes.shape != weights.shape:
            raise InputError(f"skin weights {weights.shape} for nodes {self.nodes.shape}", "Give one for each node")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "offsets", frozen(self.offsets, len(weights), 3, name="skin offsets"))

    def at(self, positions: FloatArray) -> FloatArray:
        """Points ``(N, 3)`` [m] of the surface where the nodes stand at ``positions`` ``(V, 3)``."""
        return np.einsum("nk,nka->na", self.weights, positions[self.nodes]) + self.offsets


def surface_of_mesh(faces: NodeNumbers) -> EmbeddedSurface:
    """The body's own surface: each point is a node."""
    used, numbers = np.unique(faces, return_inverse=True)
    count = len(used)
    nodes, renumbered = used.astype(np.int32)[:, None], numbers.reshape(-1, 3).astype(np.int32)
    return EmbeddedSurface(nodes, np.ones((count, 1)), renumbered, np.zeros((count, 3)))


def embed_surface(points: FloatArray, faces: NodeNumbers, nodes: FloatArray, cells: NodeNumbers) -> EmbeddedSurface:
    """Bind points ``(N, 3)`` of a surface to the nearest cells, ``(T, 4)`` tetrahedra or ``(T, 8)`` upright cubes.

    A point outside all cells takes weights beyond 0 and 1 of a cell next to it.
    """
    from scipy.spatial import KDTree

    corners = nodes[cells]  # (T, K, 3)
    count = min(NUM_NEAR_CELLS, len(cells))
    near = KDTree(corners.mean(axis=1)).query(points, k=count)[1].reshape(len(points), count)
    tried = corners[near]  # (N, near, K, 3)
    if cells.shape[1] == 4:
        # Barycentric weights (N, near, 4).
        edges = np.swapaxes(tried[:, :, 1:] - tried[:, :, :1], 2, 3)
        right = (points[:, None] - tried[:, :, 0])[..., None]
        rest: FloatArray = np.asarray(np.linalg.solve(edges, right), dtype=np.float64)[..., 0]
        weights = np.concatenate([1.0 - rest.sum(axis=2, keepdims=True), rest], axis=2)
    else:
        # Trilinear weights (N, near, 8) in upright boxes, whatever the order of their corners.
        low, high = tried.min(axis=2), tried.max(axis=2)
        local = (points[:, None] - low) / (high - low)
        signs = np.where(tried > 0.5 * (low + high)[:, :, None], 1.0, -1.0)
        weights = np.prod(0.5 + signs * (local[:, :, None] - 0.5), axis=3, dtype=np.float64)
    best = np.argmax(weights.min(axis=2), axis=1)
    rows = np.arange(len(points))
    return EmbeddedSurface(cells[near[rows, best]], weights[rows, best], faces, np.zeros(points.shape))


def surface_of_plate(cells: NodeNumbers, nodes: FloatArray, thick_m: float) -> EmbeddedSurface:
    """A flat body of squares ``(C, 4)``, drawn as a plate of this thickness."""
    # Corners of squares in the x-y plane, counter-clockwise.
    p = nodes[cells][:, :, :2]
    around = p - p.mean(axis=1, keepdims=True)
    order = np.argsort(np.arctan2(around[..., 1], around[..., 0]), axis=1)
    squares = np.take_along_axis(cells, order, axis=1)
    edges = np.concatenate([squares[:, [i, (i + 1) % 4]] for i in range(4)])
    _, first, counts = np.unique(np.sort(edges, axis=1), axis=0, return_index=True, return_counts=True)
    rim, v = edges[first[counts == 1]], len(nodes)
    front = np.concatenate([squares[:, [0, 1, 2]], squares[:, [0, 2, 3]]])
    a, b = (rim + 2 * v).T  # the rim has corners of its own, so that its edge is sharp
    side = np.concatenate([np.stack([a + v, b + v, b], axis=1), np.stack([a + v, b, a], axis=1)])
    faces = np.concatenate([front, front[:, ::-1] + v, side]).astype(np.int32)
    offsets = np.zeros((4, v, 3))
    offsets[:, :, 2] = 0.5 * thick_m * np.array([1.0, -1.0, 1.0, -1.0])[:, None]
    numbers = np.tile(np.arange(v, dtype=np.int32), 4)[:, None]
    return EmbeddedSurface(numbers, np.ones((4 * v, 1)), faces, offsets.reshape(-1, 3))
