"""A displacement of a clip as a sparse programme: rows on wrenches, points and angles at chosen instants.

A displaced clip keeps wrenches that contacts can give, points that stay, angles within bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.dynamics import PRISMATIC, JointTree, compute_aggregate, compute_aggregate_jacobians, compute_points_motion
from marey.lie import hat
from marey.numerics import KnotSpline, convex_hull
from marey.spacetime.style import Style, evaluate_style

if TYPE_CHECKING:
    from scipy.sparse import csc_array


NUM_SIDES: Final = 8  # of the pyramid inside the friction cone
EDGE_SCALE: Final = 4.0  # rows of the support's edges are in metres of body weight: a few centimetres matter
COPLANAR_M: Final = 0.06  # [m] supports that differ more in height do not share a floor
FLIGHT_BAND: Final = 0.01  # [body weights, and times one metre] what may be missing in the air
MIN_ARM_M: Final = 0.08  # [m] below this offset from its foot a body gives no information


@dataclass(frozen=True, slots=True)
class RepairSettings:
    """What a repaired or edited clip must keep; the defaults were chosen on captured walks."""

    max_force: float = 6.0  # [body weights] along the normal of a support
    margin_m: float = 0.005  # the support is taken smaller by this, for what happens between instants
    max_tipping_ratio: float = 0.9  # [-] captured walks move half to nine tenths as hard as gravity tips them
    wander_m: float = 0.01  # a planted point may roll about its place by this, as captured
    plant_band_m: float = 0.004  # heel and toe of one foot are seldom captured at the same distance
    swing_m: float = 0.02  # height of a heel or toe that has left the floor
    smoothness: float = 2e-4  # [s⁴] weight of the displacement's accelerations beside its size
    max_passes: int = 6  # of a repair; after each, the rows are rebuilt from the wrenches of the report
    max_root_rad: float = 0.12  # of a repair: the person keeps his bearing, whatever the forces
    max_spine_rad: float = 0.09  # all joints of the spine together; so for neck and head
    max_joint_rad: float = 0.6


@dataclass(frozen=True, slots=True, eq=False)
class EditTable:
    """Rows as arrays of equal length; two tables of one kind are added one below the other."""

    def __add__(self, other: Self) -> Self:
        pairs = [(getattr(self, field.name), getattr(other, field.name)) for field in fields(self)]
        return type(self)(*(a + b if isinstance(a, tuple) else np.concatenate([a, b]) for a, b in pairs))


@dataclass(frozen=True, slots=True, eq=False)
class WrenchRows(EditTable):
    r"""Rows :math:`l \le a^T f_0(t) \le u` on wrenches about the world origin."""

    instants: IntArray  # (R,) which instant
    matrix: FloatArray  # (R, 6)
    lower: FloatArray  # (R,)
    upper: FloatArray  # (R,)
    names: tuple[str, ...]  # (R,)


@dataclass(frozen=True, slots=True, eq=False)
class PointRows(EditTable):
    """Points of the body that are somewhere at an instant: three rows each."""

    instants: IntArray  # (R,) which instant
    links: IntArray  # (R,) coordinate whose link carries the point
    points: FloatArray  # (R, 3) [m] in the link's frame
    targets: FloatArray  # (R, 3) [m]
    lower: FloatArray  # (R, 3) [m] how far below its target it may be along each axis
    upper: FloatArray  # (R, 3) [m] how far above
    names: tuple[str, ...]  # (R,)

    @classmethod
    def from_entries(cls, found: list[tuple[int, tuple[int, FloatArray], FloatArray, float, str]]) -> PointRows:
        """From (instant, point of the tree, target, band, name); an infinite band keeps the point above its target."""
        bands = np.array([f[3] for f in found], dtype=np.float64)[:, None] * np.ones(3)
        is_floor = np.isinf(bands) & (np.arange(3) == 1)
        return cls(
            np.array([f[0] for f in found], dtype=np.int64),
            np.array([f[1][0] for f in found], dtype=np.int64),
            np.array([f[1][1] for f in found]).reshape(-1, 3),
            np.array([f[2] for f in found]).reshape(-1, 3),
            np.where(is_floor, 0.0, -bands),
            bands,
            tuple(f[4] for f in found),
        )


@dataclass(frozen=True, slots=True, eq=False)
class AngleRows(EditTable):
    """Coordinates that lie between two ends at an instant; linear."""

    instants: IntArray  # (R,) which instant
    dofs: IntArray  # (R,) which coordinate of the tree
    lower: FloatArray  # (R,) [rad] or [m]
    upper: FloatArray  # (R,)
    names: tuple[str, ...]  # (R,)

    @classmethod
    def from_entries(cls, found: list[tuple[int, int, float, float, str]]) -> AngleRows:
        """From (instant, coordinate, lower, upper, name)."""
        return cls(
            np.array([f[0] for f in found], dtype=np.int64),
            np.array([f[1] for f in found], dtype=np.int64),
            np.array([f[2] for f in found], dtype=np.float64),
            np.array([f[3] for f in found], dtype=np.float64),
            tuple(f[4] for f in found),
        )


def wrench_rows(
    times: FloatArray,
    points: FloatArray,
    active: BoolArray,
    com: FloatArray,
    *,
    friction: float,
    weight_n: float,
    skipped: BoolArray,
    settings: RepairSettings,
) -> WrenchRows:
    """Rows of every instant: nothing in flight, the cone of the floor in support.

    Args:
        times: of the instants ``(N,)`` [s], for names.
        points: corners of what may touch ``(N, P, 3)`` [m].
        active: which do ``(N, P)``.
        com: centre of mass ``(N, 3)`` [m]; moments in flight are taken there.
        friction: coefficient of the floor.
        weight_n: of the body.
        skipped: instants without rows ``(N,)``.
        settings: margin of the support and largest force.

    Instants whose supports lie at different heights get no row, as no single floor carries them; nor do those that
    the caller leaves out with ``skipped``.
    """
    parts: list[tuple[int, FloatArray, FloatArray, FloatArray, list[str]]] = []
    for n, t in enumerate(times):
        if skipped[n]:
            continue
        corners = points[n, active[n]]
        if not len(corners):
            band, names = np.full(6, FLIGHT_BAND), ["force in the air"] * 3 + ["moment in the air"] * 3
            parts.append((n, wrench_shift_matrix(com[n]), -band, band, names))
        elif np.ptp(corners[:, 1]) < COPLANAR_M:
            # Normal force, friction, centre of pressure and twist about the middle of the supports
            middle = corners.mean(axis=0)
            flat = corners[:, [0, 2]] - middle[[0, 2]]
            normal = np.array([[0.0, 1.0, 0.0, 0.0, 0.0, 0.0]])
            # Sides of the pyramid inside the friction cone
            angles = 2.0 * np.pi * np.arange(NUM_SIDES) / NUM_SIDES
            slope = friction * np.cos(np.pi / NUM_SIDES)
            zeros = np.zeros_like(angles)
            sides = np.stack([-np.sin(angles), zeros + slope, -np.cos(angles), zeros, zeros, zeros], axis=1)
            # Edges of the hull, counter-clockwise: the centre of pressure stays inside
            hull = convex_hull(flat)
            along = np.roll(hull, -1, axis=0) - hull
            length = np.maximum(np.linalg.norm(along, axis=1), 1e-9)
            out = np.stack([along[:, 1], -along[:, 0]], axis=1) / length[:, None]
            room = np.maximum((out * hull).sum(axis=1) - settings.margin_m, 0.0)
            none = np.zeros(len(hull))
            edges = EDGE_SCALE * np.stack([none, room, none, out[:, 1], none, -out[:, 0]], axis=1)
            reach = friction * float(np.linalg.norm(flat, axis=1).mean())
            twists = np.array([[0.0, reach, 0.0, 0.0, 1.0, 0.0], [0.0, reach, 0.0, 0.0, -1.0, 0.0]])
            matrix = np.concatenate([normal, sides, edges, twists]) @ wrench_shift_matrix(middle)
            lower, upper = np.zeros(len(matrix)), np.full(len(matrix), np.inf)
            upper[0] = settings.max_force
            labels = ["normal force", *["friction"] * len(sides), *["balance"] * len(edges), *["twist"] * 2]
            parts.append((n, matrix, lower, upper, labels))
        else:
            continue
        parts[-1][4][:] = [f"{name} at {t:.2f} s" for name in parts[-1][4]]
    return WrenchRows(
        np.concatenate([np.full(len(p[1]), p[0]) for p in parts] or [np.zeros(0, dtype=np.int64)]),
        np.concatenate([p[1] for p in parts] or [np.zeros((0, 6))]) / weight_n,
        np.concatenate([p[2] for p in parts] or [np.zeros(0)]),
        np.concatenate([p[3] for p in parts] or [np.zeros(0)]),
        tuple(name for p in parts for name in p[4]),
    )


def pendulum_rows(
    times: FloatArray, instants: IntArray, feet: FloatArray, com: FloatArray, weight_n: float, max_tipping_ratio: float
) -> WrenchRows:
    r"""Rows that let a body on one foot move no harder than a ratio h times as gravity tips it.

    With :math:`u` from the foot to the centre of mass and :math:`p` from the foot to the centre of pressure, both
    level, :math:`u\cdot p \ge (1 - h)\,u\cdot u`, divided by :math:`|u|` and times the normal force: linear in the
    wrench. A clip that is played too fast breaks them.

    Args:
        times: of all instants ``(N,)`` [s], for names.
        instants: those on one foot ``(R,)``.
        feet: middle of that foot ``(R, 3)`` [m].
        com: centre of mass ``(R, 3)`` [m].
        weight_n: of the body.
        max_tipping_ratio: h.
    """
    # Level arm from the foot; a body nearly over it gives no row
    u = (com - feet)[:, [0, 2]]
    length = np.linalg.norm(u, axis=1)
    kept = np.flatnonzero(length > MIN_ARM_M)
    matrix = np.zeros((len(kept), 6))
    for r, k in enumerate(kept):
        along = u[k] / length[k]
        row = np.array([0.0, -(1.0 - max_tipping_ratio) * length[k], 0.0, -along[1], 0.0, along[0]])
        matrix[r] = EDGE_SCALE * row @ wrench_shift_matrix(feet[k])
    return WrenchRows(
        instants[kept],
        matrix / weight_n,
        np.zeros(len(kept)),
        np.full(len(kept), np.inf),
        tuple(f"haste at {times[instants[k]]:.2f} s" for k in kept),
    )


def wrench_shift_matrix(place: FloatArray) -> FloatArray:
    """Matrix ``(6, 6)`` that takes a wrench about the origin to one about a place."""
    matrix = np.eye(6)
    matrix[3:, :3] = -hat(place)
    return matrix


ROOT_SCALE_M: Final = 0.05  # a step of one in scaled variables
ANGLE_SCALE: Final = 0.1  # [rad]
POINT_SCALE_M: Final = 0.05  # [m] a point that is off by this violates its row by one
LEAST_WEIGHT: Final = 0.05  # [-] of the body: light parts count at least this much


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceMotion:
    """Coordinates of the clip at N instants, smooth enough to be differentiated."""

    times: FloatArray  # (N,) [s]
    raw: FloatArray  # (N, D) as they are; points are where these put them
    q: FloatArray  # (N, D)
    qd: FloatArray
    qdd: FloatArray
    offset: FloatArray  # (N, 6) [N, N m] added to the wrench, so that rows see what a report sees


@dataclass(frozen=True, slots=True, eq=False)
class EditRows:
    """All that a displaced clip must keep."""

    wrenches: WrenchRows
    points: PointRows
    angles: AngleRows


class DisplacementProgramme:
    r"""Control points :math:`d` of :math:`q(t) = q_R(t) + S\sum_k d_k \phi_k(t)` ([Fang2003]_ §3.5.6, F25, F31).

    The objective is :math:`\int |q - q_R|^2_w + \epsilon\int |\ddot q - \ddot q_R|^2_w`: as near to the clip as can be,
    and the mean of the styles over the instants.
    """

    def __init__(
        self,
        tree: JointTree,
        S: FloatArray,
        reference: ReferenceMotion,
        spline: KnotSpline,
        rows: EditRows,
        is_free: BoolArray,
        styles: tuple[Style, ...],
        *,
        figure: JointTree,
        smoothness: float,
        ends: tuple[FloatArray, FloatArray] | None = None,
    ) -> None:
        from scipy import sparse

        tools: Any = sparse  # its stubs know few types
        self._figure = figure  # same turns as the tree, bones of the clip: it says where points are
        self._tree, self._S, self._reference, self._rows, self._styles = tree, S, reference, rows, styles
        self._rough = reference.raw - reference.q
        slides = ((S != 0.0) & (tree.kinds == PRISMATIC)[:, None]).any(axis=0)
        self._scales = np.where(slides, ROOT_SCALE_M, ANGLE_SCALE)
        local = [spline.local(reference.times, order) for order in range(3)]
        self._first: IntArray = local[0][0]
        self._basis = np.stack([values for _, values in local])  # (3, N, 4)
        self._shape: tuple[int, int] = (spline.num_coefficients, int(S.shape[1]))
        bound = np.where(np.repeat(is_free, S.shape[1]), np.inf, 0.0)
        self.lower, self.upper = -bound, bound
        if ends is not None:
            # A spline stays between the ends of its control points
            low, high = ((end / self._scales).ravel() for end in ends)
            self.lower, self.upper = np.maximum(-bound, np.minimum(low, 0.0)), np.minimum(bound, np.maximum(high, 0.0))
        # Size and accelerations of the displacement, exact by Gauss points. Weights are roots of the share of the body
        # that hangs on a coordinate: heavy parts move last, light ones not alone
        times, shares = spline.gauss_times(4)
        design: Any = spline.design(times)
        gram: Any = spline.second_derivative_gram()
        total: Any = design.T @ tools.diags_array(shares) @ design + smoothness * gram
        masses = np.array([tree.far_mass(i) for i in range(tree.num_dofs)])
        heavy = np.sqrt(np.maximum(masses / tree.mass, LEAST_WEIGHT))
        weights = np.where(tree.kinds != PRISMATIC, heavy / ANGLE_SCALE**2, 1.0 / ROOT_SCALE_M**2)
        scaled = S * self._scales
        self._hessian: Any = tools.csc_array(tools.kron(total, scaled.T @ (weights[:, None] * scaled)))
        self._angle_scales = np.where(tree.kinds[rows.angles.dofs] == PRISMATIC, ROOT_SCALE_M, ANGLE_SCALE)
        below, above = (end.ravel() / POINT_SCALE_M for end in (rows.points.lower, rows.points.upper))
        self.row_lower = np.concatenate([rows.wrenches.lower, below, rows.angles.lower / self._angle_scales])
        self.row_upper = np.concatenate([rows.wrenches.upper, above, rows.angles.upper / self._angle_scales])
        self.is_linear = np.arange(self.row_lower.size) >= rows.wrenches.lower.size + below.size
        # Find the pattern of the Jacobian once: values are laid out row by row, then put in column order
        points, angles, count = rows.points, rows.angles, self._shape[1]
        carried = np.column_stack([points.links, points.points])
        distinct, self._which = np.unique(carried, axis=0, return_inverse=True)
        self._links, self._places = distinct[:, 0].astype(np.int64), distinct[:, 1:]
        # Wrenches and points see all coordinates of the four control points about their instants
        dense = np.concatenate([rows.wrenches.instants, np.repeat(points.instants, 3)])
        near = np.repeat(self._columns(dense), count, axis=1) + np.tile(np.arange(count, dtype=np.int64), 4)
        # Angles see those that move them
        some, kept = np.nonzero(S[angles.dofs])
        linear = self._columns(angles.instants[some]) + kept[:, None]
        slopes = S[angles.dofs[some], kept] * self._scales[kept] / self._angle_scales[some]
        self._angle_jacobian = (self._basis[0, angles.instants[some]] * slopes[:, None]).ravel()
        numbers = np.concatenate([np.repeat(np.arange(len(dense)), 4 * count), np.repeat(len(dense) + some, 4)])
        columns = np.concatenate([near.ravel(), linear.ravel()])
        self._order = np.lexsort((numbers, columns))
        self._indices = numbers[self._order].astype(np.int32)
        counts = np.bincount(columns, minlength=self.num_variables)
        self._pointers = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    @property
    def num_variables(self) -> int:
        """How many control points, times coordinates."""
        return self._shape[0] * self._shape[1]

    def displacement(self, x: FloatArray) -> FloatArray:
        """Control points ``(K, D)`` in metres and radians, on all coordinates of the tree."""
        return (x.reshape(self._shape) * self._scales) @ self._S.T

    def values(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Objective and rows."""
        q, qd, qdd = self._states(x)
        cost = 0.5 * float(x @ (self._hessian @ x))
        for style in self._styles:
            cost += float(evaluate_style(style, q, qd, qdd)[0].sum()) / len(q)
        # Wrenches about the origin, points against their targets, angles as they are in the clip
        wrenches, points, angles = self._rows.wrenches, self._rows.points, self._rows.angles
        physics = np.zeros(0)
        if wrenches.lower.size:
            wrench = compute_aggregate(self._tree, q, qd, qdd).wrench + self._reference.offset
            physics = np.einsum("ri,ri->r", wrenches.matrix, wrench[wrenches.instants])
        exact = q + self._rough
        positions = self._positions(exact)[0] - points.targets
        return cost, np.concatenate(
            [physics, positions.ravel() / POINT_SCALE_M, exact[angles.instants, angles.dofs] / self._angle_scales]
        )

    def derivatives(self, x: FloatArray) -> tuple[FloatArray, Any, csc_array]:
        """Gradient, constant Hessian, Jacobian by the linear-time method."""
        from scipy.sparse import csc_array

        q, qd, qdd = self._states(x)
        scaled, wrenches, points = self._S * self._scales, self._rows.wrenches, self._rows.points
        parts: list[FloatArray] = []
        if wrenches.lower.size:
            found = compute_aggregate_jacobians(self._tree, q, qd, qdd)
            by_state = np.stack([found.df_dq, found.df_dqd, found.df_dqdd]) @ scaled  # (3, N, 6, d)
            near = np.einsum("pna,pnid->niad", self._basis, by_state, optimize=True)  # (N, 6, 4, d)
            parts.append((wrenches.matrix[:, None] @ near.reshape(len(near), 6, -1)[wrenches.instants]).ravel())
        J = self._positions(q + self._rough)[1] @ (self._S * (self._scales / POINT_SCALE_M))  # (R, 3, d)
        basis = self._basis[0, points.instants]  # (R, 4)
        parts += [(basis[:, None, :, None] * J[:, :, None]).ravel(), self._angle_jacobian]
        values = np.concatenate(parts)[self._order]
        jacobian = csc_array((values, self._indices, self._pointers), shape=(self.row_lower.size, self.num_variables))
        # Styles by values, rates and accelerations of the control points about each instant
        pull = np.zeros(self._shape)
        for style in self._styles:
            for order, slopes in enumerate(evaluate_style(style, q, qd, qdd)[1:]):
                shares = (slopes @ scaled) / len(q)
                np.add.at(pull, self._first[:, None] + np.arange(4), self._basis[order][:, :, None] * shares[:, None])
        return self._hessian @ x + pull.ravel(), self._hessian, jacobian

    def row_name(self, index: int) -> str:
        """What a row asks for."""
        wrenches, points = self._rows.wrenches.names, self._rows.points.names
        if index < len(wrenches):
            return wrenches[index]
        index -= len(wrenches)
        return points[index // 3] if index < 3 * len(points) else self._rows.angles.names[index - 3 * len(points)]

    def _states(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        # Four control points act at an instant
        near = self.displacement(x)[self._first[:, None] + np.arange(4)]  # (N, 4, D)
        moved = np.einsum("pna,nad->pnd", self._basis, near)
        reference = self._reference
        return reference.q + moved[0], reference.qd + moved[1], reference.qdd + moved[2]

    def _positions(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Places ``(R, 3)`` and Jacobians ``(R, 3, D)`` of the points of the rows."""
        rows = self._rows.points
        if not rows.links.size:
            return np.zeros((0, 3)), np.zeros((0, 3, self._tree.num_dofs))
        still = np.zeros_like(q)
        found = compute_points_motion(self._figure, q, still, still, self._links, self._places)
        return found.position[rows.instants, self._which], found.J[rows.instants, self._which]

    def _columns(self, instants: IntArray) -> IntArray:
        """First column of each of the four control points that an instant sees ``(R, 4)``."""
        return (self._first[instants][:, None] + np.arange(4)) * self._shape[1]


def evaluate_spline(spline: KnotSpline, points: FloatArray, times: FloatArray) -> FloatArray:
    """Values ``(T, D)`` of a spline with control points ``(K, D)``."""
    first, basis = spline.local(times)
    return np.einsum("ta,tad->td", basis, points[first[:, None] + np.arange(4)])
