"""A displacement of a clip as a sparse programme: rows on wrenches, points and angles at chosen instants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.dynamics import PRISMATIC, JointTree, compute_aggregate, compute_aggregate_jacobians, compute_points_motion
from marey.numerics import KnotSpline
from marey.spacetime.repair.rows import AngleRows, PointRows, WrenchRows
from marey.spacetime.style import Style, evaluate_style

if TYPE_CHECKING:
    from scipy.sparse import csc_array


ROOT_SCALE_M: Final = 0.05  # a step of one in scaled variables
ANGLE_SCALE: Final = 0.1  # [rad]
POINT_SCALE_M: Final = 0.05  # [m] a point that is off by this violates its row by one
SMOOTHNESS_WEIGHT: Final = 2e-4  # [s⁴] weight of the displacement's accelerations beside its size
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
        styles: tuple[Style, ...] = (),
        *,
        figure: JointTree | None = None,
    ) -> None:
        self._figure = tree if figure is None else figure  # same turns, bones of the clip: it says where points are
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
        self._hessian: Any = self._objective(spline)
        self._angle_scales = np.where(tree.kinds[rows.angles.dofs] == PRISMATIC, ROOT_SCALE_M, ANGLE_SCALE)
        below, above = (end.ravel() / POINT_SCALE_M for end in (rows.points.lower, rows.points.upper))
        self.row_lower = np.concatenate([rows.wrenches.lower, below, rows.angles.lower / self._angle_scales])
        self.row_upper = np.concatenate([rows.wrenches.upper, above, rows.angles.upper / self._angle_scales])
        self.is_linear = np.arange(self.row_lower.size) >= rows.wrenches.lower.size + below.size
        self._lay_out()

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
        parts = [self._wrench_jacobian(q, qd, qdd), self._point_jacobian(q + self._rough), self._angle_jacobian]
        values = np.concatenate(parts)[self._order]
        jacobian = csc_array((values, self._indices, self._pointers), shape=(self.row_lower.size, self.num_variables))
        return self._hessian @ x + self._style_gradient(q, qd, qdd), self._hessian, jacobian

    def row_name(self, index: int) -> str:
        """What a row asks for."""
        wrenches, points = self._rows.wrenches.names, self._rows.points.names
        if index < len(wrenches):
            return wrenches[index]
        index -= len(wrenches)
        return points[index // 3] if index < 3 * len(points) else self._rows.angles.names[index - 3 * len(points)]

    def _states(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
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

    def _wrench_jacobian(self, q: FloatArray, qd: FloatArray, qdd: FloatArray) -> FloatArray:
        rows = self._rows.wrenches
        if not rows.lower.size:
            return np.zeros(0)
        found = compute_aggregate_jacobians(self._tree, q, qd, qdd)
        by_state = np.stack([found.df_dq, found.df_dqd, found.df_dqdd]) @ (self._S * self._scales)  # (3, N, 6, d)
        near = np.einsum("pna,pnid->niad", self._basis, by_state, optimize=True)  # (N, 6, 4, d)
        shape = near.shape[0], 6, -1
        return (rows.matrix[:, None] @ near.reshape(shape)[rows.instants]).ravel()

    def _point_jacobian(self, q: FloatArray) -> FloatArray:
        J = self._positions(q)[1] @ (self._S * (self._scales / POINT_SCALE_M))  # (R, 3, d)
        basis = self._basis[0, self._rows.points.instants]  # (R, 4)
        return (basis[:, None, :, None] * J[:, :, None]).ravel()

    def _style_gradient(self, q: FloatArray, qd: FloatArray, qdd: FloatArray) -> FloatArray:
        gradient = np.zeros(self._shape)
        near = self._first[:, None] + np.arange(4)
        for style in self._styles:
            for order, by_state in enumerate(evaluate_style(style, q, qd, qdd)[1:]):
                shares = (by_state @ (self._S * self._scales)) / len(q)
                np.add.at(gradient, near, self._basis[order][:, :, None] * shares[:, None])
        return gradient.ravel()

    def _objective(self, spline: KnotSpline) -> Any:
        from scipy import sparse

        tools: Any = sparse  # its stubs know few types
        times, shares = spline.gauss_times(4)
        design: Any = spline.design(times)
        gram: Any = spline.second_derivative_gram()
        total: Any = design.T @ tools.diags_array(shares) @ design + SMOOTHNESS_WEIGHT * gram
        # Root of the share of the body that hangs on each coordinate: heavy parts move last, light ones not alone
        masses = np.array([self._tree.far_mass(i) for i in range(self._tree.num_dofs)])
        heavy = np.sqrt(np.maximum(masses / self._tree.mass, LEAST_WEIGHT))
        turns = self._tree.kinds != PRISMATIC
        weights = np.where(turns, heavy / ANGLE_SCALE**2, 1.0 / ROOT_SCALE_M**2)
        scaled = self._S * self._scales
        return tools.csc_array(tools.kron(total, scaled.T @ (weights[:, None] * scaled)))

    def _lay_out(self) -> None:
        """Find the pattern of the Jacobian once: values are laid out row by row, then put in column order."""
        points, angles, count = self._rows.points, self._rows.angles, self._shape[1]
        carried = np.column_stack([points.links, points.points])
        distinct, self._which = np.unique(carried, axis=0, return_inverse=True)
        self._links, self._places = distinct[:, 0].astype(np.int64), distinct[:, 1:]
        # Wrenches and points see all coordinates of the four control points about their instants
        dense = np.concatenate([self._rows.wrenches.instants, np.repeat(points.instants, 3)])
        near = np.repeat(self._columns(dense), count, axis=1) + np.tile(np.arange(count, dtype=np.int64), 4)
        # Angles see those that move them
        some, kept = np.nonzero(self._S[angles.dofs])
        linear = self._columns(angles.instants[some]) + kept[:, None]
        slopes = self._S[angles.dofs[some], kept] * self._scales[kept] / self._angle_scales[some]
        self._angle_jacobian = (self._basis[0, angles.instants[some]] * slopes[:, None]).ravel()
        rows = np.concatenate([np.repeat(np.arange(len(dense)), 4 * count), np.repeat(len(dense) + some, 4)])
        columns = np.concatenate([near.ravel(), linear.ravel()])
        self._order = np.lexsort((rows, columns))
        self._indices = rows[self._order].astype(np.int32)
        counts = np.bincount(columns, minlength=self.num_variables)
        self._pointers = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    def _columns(self, instants: IntArray) -> IntArray:
        """First column of each of the four control points that an instant sees ``(R, 4)``."""
        return (self._first[instants][:, None] + np.arange(4)) * self._shape[1]


def evaluate_spline(spline: KnotSpline, points: FloatArray, times: FloatArray) -> FloatArray:
    """Values ``(T, D)`` of a spline with control points ``(K, D)``."""
    first, basis = spline.local(times)
    return np.einsum("ta,tad->td", basis, points[first[:, None] + np.arange(4)])
