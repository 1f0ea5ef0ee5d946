"""A displacement of a clip as a sparse programme: rows on wrenches, points and angles at chosen instants.

A displaced clip keeps wrenches that contacts can give, points that stay, angles within bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, Self

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.dynamics import PRISMATIC, JointTree, compute_aggregate, compute_aggregate_jacobians, compute_points_motion
from marey.lie import hat
from marey.numerics import KnotSpline, convex_hull
from marey.spacetime.problem.definition import Style, evaluate_style
from marey.spacetime.programme import (
    CostTerms,
    GradientTerm,
    InstantBasis,
    MotionProgramme,
    QuadraticTerm,
    RowGroup,
    StateJet,
    Unknowns,
)

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


@dataclass(frozen=True, slots=True, eq=False)
class DisplacedState:
    """A displaced clip at its instants: coordinates with rates as they are smooth, wrenches and points of the rows."""

    rates: tuple[FloatArray, FloatArray, FloatArray]  # (N, D) each
    exact: FloatArray  # (N, D) coordinates with what smoothing took off
    wrench: StateJet  # (N, 6) [N, N m] about the origin; none without rows on it
    points: StateJet  # (R, 3) [m]


class DisplacementProgramme(MotionProgramme[DisplacedState]):
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
        self._figure = figure  # same turns as the tree, bones of the clip: it says where points are
        self._tree, self._S, self._reference, self._rows = tree, S, reference, rows
        slides = ((S != 0.0) & (tree.kinds == PRISMATIC)[:, None]).any(axis=0)
        self._shape: tuple[int, int] = (spline.num_coefficients, int(S.shape[1]))
        scales = np.tile(np.where(slides, ROOT_SCALE_M, ANGLE_SCALE), self._shape[0])
        upper = np.where(np.repeat(is_free, S.shape[1]), np.inf, 0.0)
        lower = -upper
        if ends is not None:
            # A spline stays between the ends of its control points
            low, high = (end.ravel() for end in ends)
            lower, upper = np.maximum(lower, np.minimum(low, 0.0)), np.minimum(upper, np.maximum(high, 0.0))
        # Control points that act at an instant, and their basis functions, the same for all columns
        local = [spline.local(reference.times, order) for order in range(3)]
        near = (local[0][0][:, None] + np.arange(4)) * self._shape[1]
        basis = np.stack([values for _, values in local], axis=1)[:, None]  # (N, 1, 3, 4)
        coefficients = near[:, None] + np.arange(self._shape[1])[:, None]
        self._basis = np.ascontiguousarray(np.broadcast_to(basis, (*coefficients.shape[:2], 3, 4)))
        # Distinct points, and the columns that move each
        carried = np.column_stack([rows.points.links, rows.points.points])
        distinct, self._which = np.unique(carried, axis=0, return_inverse=True)
        self._links, self._spots = distinct[:, 0].astype(np.int64), distinct[:, 1:]
        size, order = scales.size, np.arange(scales.size)
        super().__init__(
            Unknowns(np.zeros(size), scales, lower, upper, order),
            InstantBasis(coefficients, self._basis),
            self._groups(),
            CostTerms([self._size_term(spline, smoothness)], gradients=[self._style_term(style) for style in styles]),
        )

    def _groups(self) -> list[RowGroup[DisplacedState]]:
        """Wrenches about the origin, points against their targets, angles as they are in the clip."""
        wrenches, points, angles = self._rows.wrenches, self._rows.points, self._rows.angles
        is_slide = self._tree.kinds[angles.dofs] == PRISMATIC
        scales = np.where(is_slide, ROOT_SCALE_M, ANGLE_SCALE)[:, None]
        moves = self._S != 0.0
        on_link = np.array([moves[self._figure.ancestors(int(link))].any(axis=0) for link in self._links])

        def push(state: DisplacedState, _: FloatArray) -> tuple[StateJet, None]:
            return state.wrench.at(wrenches.instants).component_along(wrenches.matrix), None

        def place(state: DisplacedState, _: FloatArray) -> tuple[StateJet, None]:
            return (state.points - points.targets) * (1.0 / POINT_SCALE_M), None

        def turn(state: DisplacedState, _: FloatArray) -> tuple[StateJet, None]:
            value = state.exact[angles.instants, angles.dofs][:, None]
            partials = np.zeros((3, *value.shape, self._shape[1]))
            partials[0, :, 0] = self._S[angles.dofs]
            return StateJet(value, partials) * (1.0 / scales), None

        return [
            RowGroup(wrenches.instants, wrenches.lower[:, None], wrenches.upper[:, None], wrenches.names, push),
            RowGroup(
                points.instants,
                points.lower / POINT_SCALE_M,
                points.upper / POINT_SCALE_M,
                [name for name in points.names for _ in range(3)],
                place,
                mask=on_link.reshape(-1, self._shape[1])[self._which],
            ),
            RowGroup(
                angles.instants,
                angles.lower[:, None] / scales,
                angles.upper[:, None] / scales,
                angles.names,
                turn,
                mask=moves[angles.dofs],
                is_linear=True,
            ),
        ]

    def _size_term(self, spline: KnotSpline, smoothness: float) -> QuadraticTerm:
        """Size and accelerations of the displacement, exact by Gauss points.

        Weights are roots of the share of the body that hangs on a coordinate: heavy parts move last, light ones not
        alone.
        """
        from scipy import sparse

        tools: Any = sparse  # its stubs know few types
        tree, (times, shares) = self._tree, spline.gauss_times(4)
        design: Any = spline.design(times)
        total: Any = design.T @ tools.diags_array(shares) @ design + smoothness * spline.second_derivative_gram()
        masses = np.array([tree.far_mass(i) for i in range(tree.num_dofs)])
        heavy = np.sqrt(np.maximum(masses / tree.mass, LEAST_WEIGHT))
        weights = np.where(tree.kinds != PRISMATIC, heavy / ANGLE_SCALE**2, 1.0 / ROOT_SCALE_M**2)
        matrix = tools.csc_array(tools.kron(total, 0.5 * self._S.T @ (weights[:, None] * self._S)))
        return QuadraticTerm("size", matrix, np.zeros(self.num_variables))

    def _style_term(self, style: Style) -> GradientTerm[DisplacedState]:
        """A style at all instants."""
        count = len(self._reference.times)

        def evaluate(state: DisplacedState) -> tuple[FloatArray, FloatArray]:
            cost, *slopes = evaluate_style(style, *state.rates)
            return cost, np.stack(slopes) @ self._S

        return GradientTerm("style", np.arange(count), np.full(count, 1.0 / count), evaluate)

    @property
    def num_variables(self) -> int:
        """How many control points, times coordinates."""
        return self._shape[0] * self._shape[1]

    def displacement(self, x: FloatArray) -> FloatArray:
        """Control points ``(K, D)`` in metres and radians, on all coordinates of the tree."""
        return self.unknowns.unpack(x).reshape(self._shape) @ self._S.T

    def evaluate_state(self, values: FloatArray, *, derivatives: bool) -> DisplacedState:
        """The clip with control points added, by the linear-time method."""
        reference, width = self._reference, self._shape[1] if derivatives else 0
        local = np.einsum("nsdk,nsk->dns", self._basis, values[self.basis.coefficients]) @ self._S.T
        q, qd, qdd = reference.q + local[0], reference.qd + local[1], reference.qdd + local[2]
        wrench = StateJet(np.zeros((len(q), 6)), np.zeros((3, len(q), 6, width)))
        if self._rows.wrenches.lower.size and derivatives:
            found = compute_aggregate_jacobians(self._tree, q, qd, qdd)
            by_state = np.stack([found.df_dq, found.df_dqd, found.df_dqdd]) @ self._S
            wrench = StateJet(found.wrench + reference.offset, by_state)
        elif self._rows.wrenches.lower.size:
            wrench = wrench + (compute_aggregate(self._tree, q, qd, qdd).wrench + reference.offset)
        exact, still = q + (reference.raw - reference.q), np.zeros_like(q)
        at = compute_points_motion(self._figure, exact, still, still, self._links, self._spots, jacobians=derivatives)
        rows = self._rows.points.instants, self._which
        partials = np.zeros((3, len(self._which), 3, width))
        if derivatives:
            partials[0] = at.J[rows] @ self._S
        return DisplacedState((q, qd, qdd), exact, wrench, StateJet(at.position[rows], partials))


def evaluate_spline(spline: KnotSpline, points: FloatArray, times: FloatArray) -> FloatArray:
    """Values ``(T, D)`` of a spline with control points ``(K, D)``."""
    first, basis = spline.local(times)
    return np.einsum("ta,tad->td", basis, points[first[:, None] + np.arange(4)])
