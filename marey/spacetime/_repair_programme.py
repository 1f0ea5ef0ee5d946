"""A displacement of a clip as a sparse programme: wrenches that contacts can give, feet that stay where they stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.dynamics import JointTree, aggregate, aggregate_jacobians, points_motion
from marey.numerics import KnotSpline
from marey.spacetime._repair_rows import WrenchRows

if TYPE_CHECKING:
    from scipy.sparse import csc_array

ROOT_SCALE_M: Final = 0.05  # a step of one in scaled variables
ANGLE_SCALE: Final = 0.1  # [rad]
PLANT_SCALE_M: Final = 0.05  # [m] a planted point that is off by this violates its row by one
PLANT_BAND_M: Final = 0.002
STILLNESS: Final = 2e-4  # [s⁴] weight of the displacement's accelerations beside its size


@dataclass(frozen=True, slots=True, eq=False)
class PlantRows:
    """Points that stay put: one row a coordinate."""

    instants: IntArray  # (R,) which instant
    points: IntArray  # (R,) which of the tree's points below
    targets: FloatArray  # (R, 3) [m]
    names: tuple[str, ...]  # (R,)


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """Coordinates of the clip at the instants, smooth enough to be differentiated."""

    q: FloatArray  # (N, D)
    qd: FloatArray
    qdd: FloatArray


class RepairProgramme:
    r"""Control points :math:`d` of :math:`q(t) = q_R(t) + \sum_k d_k \phi_k(t)` ([Fang2003]_ §3.5.6, F25).

    The objective is :math:`\int |q - q_R|^2_w + \epsilon\int |\ddot q - \ddot q_R|^2_w`: as near to the clip as can be.
    """

    def __init__(
        self,
        tree: JointTree,
        reference: Reference,
        spline: KnotSpline,
        times: FloatArray,
        wrenches: WrenchRows,
        plants: PlantRows,
        contact_points: tuple[IntArray, FloatArray],
        is_free: BoolArray,
    ) -> None:
        self._tree, self._reference, self._wrenches, self._plants = tree, reference, wrenches, plants
        self._dofs, self._points = contact_points
        self._scales = np.where(tree.kinds == 1, ROOT_SCALE_M, ANGLE_SCALE)
        local = [spline.local(times, order) for order in range(3)]
        self._first = local[0][0]
        self._basis = np.stack([values for _, values in local])  # (3, N, 4)
        self._shape = (spline.num_coefficients, tree.num_dofs)
        bound = np.where(np.repeat(is_free, tree.num_dofs), np.inf, 0.0)
        self.lower, self.upper = -bound, bound
        self._hessian = self._objective(spline)
        self.row_lower = np.concatenate(
            [wrenches.lower, np.full(3 * len(plants.instants), -PLANT_BAND_M / PLANT_SCALE_M)]
        )
        self.row_upper = np.concatenate(
            [wrenches.upper, np.full(3 * len(plants.instants), PLANT_BAND_M / PLANT_SCALE_M)]
        )
        self.is_linear = np.zeros(self.row_lower.size, dtype=np.bool_)
        self._lay_out()

    @property
    def num_variables(self) -> int:
        """Control points times coordinates."""
        return self._shape[0] * self._shape[1]

    def displacement(self, x: FloatArray) -> FloatArray:
        """Control points ``(K, D)`` in metres and radians of scaled variables."""
        return x.reshape(self._shape) * self._scales

    def values(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Objective and rows."""
        q, qd, qdd = self._states(x)
        wrench = aggregate(self._tree, q, qd, qdd).wrench
        positions = points_motion(self._tree, q, qd, qdd, self._dofs, self._points).position
        return 0.5 * float(x @ (self._hessian @ x)), self._rows(wrench, positions)

    def derivatives(self, x: FloatArray) -> tuple[FloatArray, csc_array, csc_array]:
        """Gradient, constant Hessian, Jacobian by the linear-time method."""
        from scipy.sparse import csc_array

        q, qd, qdd = self._states(x)
        found = aggregate_jacobians(self._tree, q, qd, qdd)
        by_state = np.stack([found.df_dq, found.df_dqd, found.df_dqdd])  # (3, N, 6, D)
        near = np.einsum("pna,pnid->niad", self._basis, by_state, optimize=True)  # (N, 6, 4, D)
        near *= self._scales
        rows = self._wrenches
        physics = np.einsum("ri,riad->rad", rows.matrix, near[rows.instants], optimize=True)
        J = points_motion(self._tree, q, qd, qdd, self._dofs, self._points).J  # (N, P, 3, D)
        plants = self._plants
        held = J[plants.instants, plants.points][:, :, None] * self._basis[0, plants.instants][:, None, :, None]
        held = held * (self._scales / PLANT_SCALE_M)
        values = np.concatenate([physics.ravel(), held.ravel()])[self._order]
        jacobian = csc_array((values, self._indices, self._pointers), shape=(self.row_lower.size, self.num_variables))
        return self._hessian @ x, self._hessian, jacobian

    def row_name(self, index: int) -> str:
        """What a row asks for."""
        if index < len(self._wrenches.names):
            return self._wrenches.names[index]
        return self._plants.names[(index - len(self._wrenches.names)) // 3]

    def _states(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        points = self.displacement(x)
        near = points[self._first[:, None] + np.arange(4)]  # (N, 4, D)
        moved = np.einsum("pna,nad->pnd", self._basis, near)
        reference = self._reference
        return reference.q + moved[0], reference.qd + moved[1], reference.qdd + moved[2]

    def _rows(self, wrench: FloatArray, positions: FloatArray) -> FloatArray:
        rows, plants = self._wrenches, self._plants
        physics = np.einsum("ri,ri->r", rows.matrix, wrench[rows.instants])
        held = (positions[plants.instants, plants.points] - plants.targets) / PLANT_SCALE_M
        return np.concatenate([physics, held.ravel()])

    def _objective(self, spline: KnotSpline) -> csc_array:
        from scipy.sparse import csc_array, diags_array, kron

        times, shares = spline.gauss_times(4)
        design = spline.design(times)
        size = design.T @ diags_array(shares) @ design
        total = size + STILLNESS * spline.second_derivative_gram()
        scaled = np.where(self._tree.kinds == 1, 1.0, self._weights())
        return csc_array(kron(total, diags_array(scaled)))

    def _weights(self) -> FloatArray:
        """Share of the body that hangs on each coordinate: heavy parts move last ([Fang2003]_ §2.6.2)."""
        masses = np.array([self._tree.far_mass(i) for i in range(self._tree.num_dofs)])
        return np.maximum(masses / self._tree.mass, 0.05)

    def _lay_out(self) -> None:
        """Find the pattern of the Jacobian once: values are laid out row by row, then put in column order."""
        num_dofs = self._tree.num_dofs
        plants = self._plants
        instants = np.concatenate([self._wrenches.instants, np.repeat(plants.instants, 3)])
        columns = (self._first[instants][:, None] + np.arange(4))[:, :, None] * num_dofs + np.arange(num_dofs)
        rows = np.broadcast_to(np.arange(len(instants))[:, None, None], columns.shape)
        self._order = np.argsort(columns.ravel() * len(instants) + rows.ravel(), kind="stable")
        self._indices = rows.ravel()[self._order].astype(np.int32)
        counts = np.bincount(columns.ravel(), minlength=self.num_variables)
        self._pointers = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
