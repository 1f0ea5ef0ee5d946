r"""Activation splines ([Engell2012]_ §20), along which a soft body contracts, and points bound to its cells.

Their Hill law, ``ActivationSpline(law="hill")``, is the force of a muscle over its length and its speed:

.. math:: F = F_0\,\big(a\,f_L(\tilde l)\,f_V(\tilde v) + f_P(\tilde l) + b\,\tilde v\big),\quad
          \tilde l = l / l_{opt},\quad \tilde v = \dot l / (l_{opt}\,v_{max})

Shortening is negative, tension is never. Curves of [DeGroote2016]_ with the constants of OpenSim, and those of MuJoCo.

Splines and the display surface are bound once, :math:`p = \sum_j w_j x_j` with :math:`\sum_j w_j = 1`
([Engell2012]_ §20.2, §20.6), and move with the cells: tetrahedra ``(T, 4)``, cubes ``(C, 8)``, or in a
plane of equal z triangles ``(T, 3)`` and squares ``(C, 4)``.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import asinh, exp
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marey.base import FloatArray, InputError, IntArray, MareyWarning, UnknownNameError, frozen, kernel
from marey.numerics import evaluate_clamped_spline

MUJOCO = 1  # number of this set of curves in HILL_CURVES; the other is that of De Groote

_BUMPS = (
    (0.8150671134243542, 1.055033428970575, 0.162384573599574, 0.063303448465465),
    (0.433004984392647, 0.716775413397760, -0.029947116970696, 0.200356847296188),
    (0.1, 1.0, 0.353553390593274, 0.0),
)
_D1, _D2, _D3, _D4 = -0.3211346127989808, -8.149, -0.374, 0.8825327733249912
_KP, _E0, _LOW = 4.0, 0.6, 0.2  # [-] shape of the passive curve, strain at unit force, length where it starts
_START = exp(_KP * (_LOW - 1.0) / _E0)

_LMIN, _LMAX, _FPMAX, _FVMAX = 0.5, 1.6, 1.3, 1.2
_LEFT, _RIGHT = 0.5 * (_LMIN + 1.0), 0.5 * (1.0 + _LMAX)  # middle points: 0.75, 1.3


@kernel
def groote_length(x: float) -> float:
    """Active force over length, of [DeGroote2016]_: three bumps."""
    value = 0.0
    for b1, b2, b3, b4 in _BUMPS:
        value += b1 * exp(-0.5 * ((x - b2) / (b3 + b4 * x)) ** 2)
    return value


@kernel
def groote_speed(v: float) -> float:
    """Force over speed, of [DeGroote2016]_, held at zero below full shortening speed."""
    return max(0.0, _D1 * asinh(_D2 * v + _D3) + _D4)


@kernel
def groote_passive(x: float) -> float:
    """Passive force over length, of [DeGroote2016]_, held at zero below a fifth of the optimum."""
    return max(0.0, (exp(_KP * (x - 1.0) / _E0) - _START) / (exp(_KP) - _START))


@kernel
def mujoco_length(x: float) -> float:
    """Active force over length, of MuJoCo: a bump of four parabolas."""
    if x <= _LMIN or x >= _LMAX:
        return 0.0
    if x <= _LEFT:
        return 0.5 * ((x - _LMIN) / (_LEFT - _LMIN)) ** 2
    if x <= 1.0:
        return 1.0 - 0.5 * ((1.0 - x) / (1.0 - _LEFT)) ** 2
    if x <= _RIGHT:
        return 1.0 - 0.5 * ((x - 1.0) / (_RIGHT - 1.0)) ** 2
    return 0.5 * ((_LMAX - x) / (_LMAX - _RIGHT)) ** 2


@kernel
def mujoco_speed(v: float) -> float:
    """Force over speed, of MuJoCo: two parabolas."""
    rise = _FVMAX - 1.0
    if v <= -1.0:
        return 0.0
    if v <= 0.0:
        return (v + 1.0) ** 2
    return _FVMAX - (rise - v) ** 2 / rise if v <= rise else _FVMAX


@kernel
def mujoco_passive(x: float) -> float:
    """Passive force over length, of MuJoCo: a cubic, then a line."""
    if x <= 1.0:
        return 0.0
    half = _RIGHT - 1.0
    if x <= _RIGHT:
        return 0.5 * _FPMAX * ((x - 1.0) / half) ** 2
    return _FPMAX * (0.5 + (x - _RIGHT) / half)


@kernel
def compute_hill_force(curves: int, a: float, x: float, v: float, b: float) -> float:
    """Tension of a fibre over its maximal isometric force; never below zero."""
    if curves == MUJOCO:
        return max(0.0, a * mujoco_length(x) * mujoco_speed(v) + mujoco_passive(x) + b * v)
    return max(0.0, a * groote_length(x) * groote_speed(v) + groote_passive(x) + b * v)


@kernel
def compute_hill_slopes(curves: int, a: float, x: float, v: float, b: float) -> tuple[float, float, float]:
    """Tension, and its derivatives by length and by speed from central differences."""
    e, by_length, by_speed = 1e-5, 0.0, 0.0
    for side in (-1.0, 1.0):  # a loop, so that the curves are compiled in once
        for kind in range(2):
            step = side * e
            force = compute_hill_force(curves, a, x + step if kind == 0 else x, v + step if kind == 1 else v, b)
            if kind == 0:
                by_length += 0.5 * force / step
            else:
                by_speed += 0.5 * force / step
    return compute_hill_force(curves, a, x, v, b), by_length, by_speed


Region = str | tuple[str, float] | ArrayLike
CURVES: Final = ("b-spline", "catmull-rom", "polyline")
SAMPLINGS: Final = ("uniform", "arc-length", "curvature")
METRICS: Final = ("geodesic", "euclidean")
LAWS: Final = ("spring", "hill")
HILL_CURVES: Final = ("de-groote", "mujoco")
_NUM_DENSE_SAMPLES: Final = 400  # values of the curve from which lengths are measured
ALPHA_MIN: Final = 0.6  # [-] contraction at full activation: muscle fibres shorten by about 40 %
STIFFNESS_RATIO: Final = 2.0  # [-] active to passive stiffness throughout [Engell2012]_ §21


@dataclass(frozen=True, slots=True, eq=False)
class ActivationSpline:
    r"""A curve :math:`p(s) = \sum_k N_k(s)\,g_k` that contracts by damped springs along it. [Engell2012]_ §20.

    Stiffness is that of one segment between two samples. Without it the spline is ``ratio`` times as stiff as the
    part of the body that it moves. Region is what a point moves: ``"voronoi"``, ``"cell"``, ``("radius", r)`` or
    painted weights of the body's nodes ``(V,)``.
    """

    points: FloatArray  # (K, 3) [m] control points
    stiffness: float | None = None  # [N/m]
    name: str = ""
    samples: int | None = None  # None: about one for each cell
    sampling: Literal["uniform", "arc-length", "curvature"] | str = "uniform"
    curve: str = "b-spline"
    region: Region = "voronoi"
    metric: str = "geodesic"  # how far nodes are: inside the body, or straight
    max_radius: float | None = None  # [m] nodes farther than this stay free
    alpha_min: float = ALPHA_MIN  # far below 0: a soft spring under a force, so that antagonists can be stretched
    ratio: float = STIFFNESS_RATIO
    damping_ratio: float = 1.0  # [-] of critical
    law: str = "spring"
    force_n: float | None = None  # [N] greatest force of the Hill law; None: as the spring at alpha_min
    optimal_length: float = 1.0  # [-] of the rest length, where the Hill law pulls most
    speed_per_s: float = 10.0  # [1/s] highest shortening speed in optimal lengths
    curves: str = "de-groote"

    def __post_init__(self) -> None:
        points = frozen(self.points, None, 3, name="points")
        object.__setattr__(self, "points", points)
        if len(points) < 2 or float(np.linalg.norm(np.ptp(points, axis=0))) == 0.0:
            raise InputError(f"{len(points)} control points in one place", "A spline needs at least two that differ")
        for kind, value, known in (
            ("curve", self.curve, CURVES),
            ("sampling", self.sampling, SAMPLINGS),
            ("metric", self.metric, METRICS),
            ("law", self.law, LAWS),
            ("curves", self.curves, HILL_CURVES),
        ):
            if value not in known:
                raise UnknownNameError(kind, str(value), "activation splines", known)
        positive = ("stiffness", "max_radius", "ratio", "force_n", "optimal_length", "speed_per_s")
        for name in positive:
            number = getattr(self, name)
            if number is not None and not (np.isfinite(number) and number > 0.0):
                raise InputError(f"{name} of spline '{self.name}' is {number}", "It must be above zero")
        if not (np.isfinite(self.alpha_min) and self.alpha_min < 1.0):
            raise InputError(f"alpha_min of spline '{self.name}' is {self.alpha_min}", "It lies below 1")
        if not (np.isfinite(self.damping_ratio) and self.damping_ratio >= 0.0):
            raise InputError(f"damping_ratio of spline '{self.name}' is {self.damping_ratio}", "It cannot be negative")
        if self.samples is not None and self.samples < 2:
            raise InputError(f"{self.samples} samples of spline '{self.name}'", "At least two make a segment")

    def __call__(self, s: ArrayLike) -> FloatArray:
        """Points of the curve ``(..., 3)`` at parameters from 0 to 1."""
        u = np.clip(frozen(s, name="s"), 0.0, 1.0)
        if self.curve == "b-spline":
            return evaluate_clamped_spline(self.points, u)
        points, spans = self.points, len(self.points) - 1
        if self.curve == "polyline":
            knots = np.linspace(0.0, 1.0, len(points))
            return np.stack([np.interp(u, knots, points[:, c]) for c in range(3)], axis=-1)
        # Catmull-Rom: the cubic through all points, with the slope of the neighbours at each.
        ends = np.vstack([2.0 * points[0] - points[1], points, 2.0 * points[-1] - points[-2]])
        k = np.minimum((u * spans).astype(np.int64), spans - 1)
        t = (u * spans - k)[..., None]
        a, b, c, d = ends[k], ends[k + 1], ends[k + 2], ends[k + 3]
        return b + 0.5 * t * (c - a + t * (2.0 * a - 5.0 * b + 4.0 * c - d + t * (3.0 * (b - c) + d - a)))

    @property
    def length(self) -> float:
        """Length of the curve [m]."""
        return float(_arc_lengths(self)[1][-1])

    def sample(self, count: int) -> FloatArray:
        """Points ``(count, 3)`` along the curve: Eq. 75, or equally long pieces, or closer ones where it bends."""
        if count < 2:
            raise InputError(f"{count} samples of a spline", "At least two make a segment")
        fractions = np.linspace(0.0, 1.0, count)
        if self.sampling == "uniform":
            return self(fractions)
        # Parameters at fractions of the arc length, or of arc length and turning angle together.
        s, arc, p = _arc_lengths(self)
        measure = arc / arc[-1]
        if self.sampling == "curvature":
            steps = np.diff(p, axis=0)
            unit = steps / np.maximum(np.linalg.norm(steps, axis=1, keepdims=True), 1e-300)
            turn = np.arccos(np.clip(np.sum(unit[1:] * unit[:-1], axis=1), -1.0, 1.0))
            angle = np.concatenate([[0.0, 0.0], np.cumsum(turn)])
            measure = (measure + angle / np.pi) / (1.0 + angle[-1] / np.pi)
        return self(np.interp(fractions, measure, s))


def _arc_lengths(spline: ActivationSpline) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Dense parameters, the arc length up to each [m], and the points."""
    s = np.linspace(0.0, 1.0, _NUM_DENSE_SAMPLES)
    p = spline(s)
    steps = np.linalg.norm(np.diff(p, axis=0), axis=1)
    return s, np.concatenate([[0.0], np.cumsum(steps)]), p


SparseMatrix: TypeAlias = "csr_array[np.float64]"
if TYPE_CHECKING:
    from scipy.sparse import csr_array

INSIDE_TOL: Final = 1e-10  # [-] a weight this far below zero is on a face
_NEWTON_STEPS: Final = 8  # steps to invert a cube's map: an affine cube takes one
_NUM_CANDIDATES: Final = 24  # cubes and squares that are tried for a point, nearest centres first


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """Points bound to cells of a body."""

    cells: IntArray  # (N,) number of the cell that holds each point
    nodes: IntArray  # (N, k) its nodes
    weights: FloatArray  # (N, k) sum to one
    outside: FloatArray  # (N,) [m] how far outside the body each point lies
    num_nodes: int

    @classmethod
    def from_points(cls, points: ArrayLike, nodes: FloatArray, cells: NDArray[np.integer]) -> Embedding:
        """Bind points ``(N, 3)`` to a body: the first cell that holds each, or the nearest within one cell size.

        Raises:
            InputError: a point is farther outside than the size of a cell; the message names it.
        """
        p = frozen(points, None, 3, name="points")
        nodes, cells = check_nodes_and_cells(nodes, cells)
        if is_simplex(nodes, cells):
            # For each cell the matrix from a point to the weights of all corners but the first, and that corner.
            corners = nodes[cells]
            edges = np.swapaxes(corners[:, 1:] - corners[:, :1], 1, 2)
            inverse = (np.linalg.inv(edges) if cells.shape[1] == 4 else np.linalg.pinv(edges)).astype(np.float64)
            origin = corners[:, 0]
            chosen, weights = np.empty(len(p), dtype=np.int64), np.empty((len(p), cells.shape[1]))
            for row, point in enumerate(p):
                local = np.einsum("trc,tc->tr", inverse, point - origin)
                all_weights = np.concatenate([1.0 - local.sum(axis=1, keepdims=True), local], axis=1)
                inside = np.flatnonzero(all_weights.min(axis=1) >= -INSIDE_TOL)
                if len(inside):
                    chosen[row] = inside[0]
                else:
                    held = np.maximum(all_weights, 0.0)
                    held /= held.sum(axis=1, keepdims=True)
                    gaps = np.linalg.norm(np.einsum("tk,tkc->tc", held, corners) - point, axis=1)
                    chosen[row] = int(np.argmin(gaps))
                weights[row] = all_weights[chosen[row]]
        else:
            from scipy.spatial import KDTree

            corners = nodes[cells]
            # On which side of its cell's centre each corner lies (C, k, d); d is 2 for squares.
            d = 3 if corners.shape[1] == 8 else 2
            offset = (corners - corners.mean(axis=1, keepdims=True))[..., :d]
            signs = np.where(offset >= 0.0, 1.0, -1.0)
            numbers = ((signs > 0.0) @ (1 << np.arange(d))).astype(np.int64)
            bad = np.flatnonzero((np.sort(numbers, axis=1) != np.arange(2**d)).any(axis=1))
            if len(bad):
                raise InputError(
                    f"cell {bad[0]} is no box along the axes", "Give squares and cubes unturned, or tetrahedra"
                )
            near = np.atleast_2d(
                KDTree(corners.mean(axis=1)).query(p, k=min(_NUM_CANDIDATES, len(cells)))[1].reshape(len(p), -1)
            )
            chosen, weights = np.empty(len(p), dtype=np.int64), np.empty((len(p), cells.shape[1]))
            for i, point in enumerate(p):
                tried = np.sort(near[i])
                box, side = corners[tried][..., :d], signs[tried]
                # Local coordinates of the point in the boxes that are tried, from -1 to 1, by Newton's method.
                local: FloatArray = np.zeros((len(tried), d))
                for _ in range(_NEWTON_STEPS):
                    factors: FloatArray = 0.5 * (1.0 + side * local[:, None, :])
                    slopes = np.empty_like(side)
                    for c in range(d):
                        slopes[..., c] = 0.5 * side[..., c] * np.prod(np.delete(factors, c, axis=2), axis=2)
                    residual = point[:d] - np.einsum("bk,bkc->bc", np.prod(factors, axis=2), box)
                    jacobian = np.einsum("bkc,bkd->bcd", box, slopes)
                    step = np.asarray(np.linalg.solve(jacobian, residual[..., None]), dtype=np.float64)[..., 0]
                    local = local + np.clip(step, -4.0, 4.0)
                    if np.abs(step).max() < INSIDE_TOL:
                        break
                beyond = np.maximum(np.abs(local) - 1.0, 0.0).max(axis=1)
                inside = np.flatnonzero(beyond <= INSIDE_TOL)
                best = int(inside[0]) if len(inside) else int(np.argmin(beyond))
                chosen[i] = tried[best]
                weights[i] = np.prod(0.5 * (1.0 + side[best] * local[best]), axis=1)
        corners = nodes[cells[chosen]]
        # Distance from each point to its cell, from above: to the point of the weights without the negative ones.
        held = np.maximum(weights, 0.0)
        held /= held.sum(axis=1, keepdims=True)
        gap = np.linalg.norm(np.einsum("nk,nkc->nc", held, corners) - p, axis=1)
        outside = np.where(weights.min(axis=1) < -INSIDE_TOL, gap, 0.0)
        size = np.linalg.norm(np.ptp(corners, axis=1), axis=1) / np.sqrt(3.0)
        far, near = np.flatnonzero(outside > size), np.flatnonzero(outside > 0.0)
        if len(far):
            i = int(far[0])
            raise InputError(
                f"spline point {i} lies {outside[i]:.4g} m outside the body, more than a cell ({size[i]:.4g} m)",
                "Move the spline into the body",
            )
        if len(near):
            text = f"spline points {near.tolist()} lie up to {outside.max():.3g} m outside the body"
            warnings.warn(f"{text}; the nearest cell carries them", MareyWarning, stacklevel=2)
        return cls(chosen, cells[chosen].astype(np.int64), weights, outside, len(nodes))

    @property
    def starts(self) -> IntArray:
        """Where the entries of each point begin, in one row of all ``(N + 1,)``."""
        return np.arange(0, self.nodes.size + 1, int(self.nodes.shape[1]), dtype=np.int64)

    def __call__(self, x: FloatArray) -> FloatArray:
        """Points ``(N, 3)`` of a deformed body ``(V, 3)``; also velocities of velocities."""
        return np.einsum("nk,nkc->nc", self.weights, x[self.nodes])

    def matrix(self) -> SparseMatrix:
        """The sparse W ``(N, V)``."""
        from scipy import sparse

        shape = len(self.nodes), self.num_nodes
        matrix = sparse.csr_array((self.weights.ravel(), self.nodes.ravel(), self.starts), shape=shape)
        return cast(SparseMatrix, matrix)


def check_nodes_and_cells(nodes: ArrayLike, cells: ArrayLike) -> tuple[FloatArray, NDArray[np.integer]]:
    """Nodes and cells as arrays.

    Raises:
        InputError: a node is not finite, or a cell names one that is not there; the message has its number.
    """
    x, c = frozen(nodes, None, 3, name="nodes"), np.asarray(cells)
    if c.ndim != 2 or c.shape[1] not in (3, 4, 8) or not len(c):
        raise InputError(f"cells have shape {c.shape}", "Give (T, 4), (C, 8) or, in the plane, (T, 3), (C, 4)")
    if not np.issubdtype(c.dtype, np.integer):
        raise InputError(f"cells are of type {c.dtype}", "Give whole numbers of nodes")
    bad = np.flatnonzero(((c < 0) | (c >= len(x))).any(axis=1))
    if len(bad):
        raise InputError(f"cell {bad[0]} names a node that is not there: {c[bad[0]].tolist()}", "Number nodes from 0")
    return x, c


def is_flat(nodes: FloatArray) -> bool:
    """Whether the body lies in a plane z = const."""
    return bool(np.ptp(nodes[:, 2]) == 0.0)


def is_simplex(nodes: FloatArray, cells: NDArray[np.integer]) -> bool:
    """Whether the cells are tetrahedra or triangles; four nodes in the plane are a square."""
    width = cells.shape[1]
    return width == 3 or (width == 4 and not is_flat(nodes))


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
