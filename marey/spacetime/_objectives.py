"""What is made small in the full space: terms that are quadratic in the control points (Fang F18)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from marey.base import FloatArray
from marey.dynamics import JointTree
from marey.spacetime._full_layout import FullLayout
from marey.spacetime._poses import interpolate_pose_keys

ACCEL_UNIT: Final = 100.0  # [rad^2/s^3] a calm second: 10 rad/s^2 in every joint
ENERGY_UNIT: Final = 1.0  # [rad^2/s]
REFERENCE_UNIT: Final = 0.01  # [rad^2 s] a tenth of a radian for a second
PRIOR_UNIT: Final = 0.25  # [rad^2 s] half a radian for a second
MIN_FRACTION: Final = 0.02  # [-] of the body's mass: light joints are not free to flail
ROOT_FRACTION: Final = 0.1  # [-] of the body's mass: the turn of the whole body costs little, but is not a free valley
RIDGE: Final = 1e-6  # makes the Hessian definite


def compute_effective_masses(tree: JointTree, dof: int | None) -> FloatArray:
    """Mass that each coordinate moves ``(D,)`` [kg]: what is on its far side from the support.

    [Fang2003]_ (2.16): the left knee in left stance moves the body without the left lower leg. In flight (``None``)
    the trunk is the effective root.
    """
    return np.array([tree.far_mass(i, dof) for i in range(tree.num_dofs)])


@dataclass(frozen=True, slots=True, eq=False)
class QuadraticTerm:
    """A term ``(x - x0)^T Q (x - x0)`` in control points, time-major."""

    name: str
    matrix: Any  # (n, n) csc_array
    centre: FloatArray  # (n,)

    def value(self, x: FloatArray) -> float:
        """The term."""
        away = x - self.centre
        return float(away @ (self.matrix @ away))

    def gradient(self, x: FloatArray) -> FloatArray:
        """Its slope."""
        return 2.0 * np.asarray(self.matrix @ (x - self.centre))


def build_quadratic_terms(layout: FullLayout, reference: FloatArray | None = None) -> list[QuadraticTerm]:
    """Terms with a constant Hessian: ``accel``, ``energy``, ``reference``, and a ridge.

    Args:
        layout: the unknowns.
        reference: control points ``(K, D)`` of the motion to stay near.
    """
    wanted, shares = layout.problem.objective, compute_joint_weights(layout)
    zero = np.zeros(layout.num_curve_unknowns)
    terms = [_integrate_squares(layout, "accel", 2, wanted.accel / ACCEL_UNIT * shares, zero)]
    if wanted.energy > 0.0:
        terms.append(_integrate_squares(layout, "energy", 1, wanted.energy / ENERGY_UNIT * shares, zero))
    if wanted.prior > 0.0:
        weight = np.full_like(shares, wanted.prior / PRIOR_UNIT / layout.num_angles)
        terms.append(_integrate_squares(layout, "prior", 0, weight, interpolate_pose_keys(layout).ravel()))
    if wanted.reference > 0.0 and reference is not None:
        weight = np.full_like(shares, wanted.reference / REFERENCE_UNIT / layout.num_angles)
        terms.append(_integrate_squares(layout, "reference", 0, weight, reference.ravel()))
    return terms


def compute_joint_weights(layout: FullLayout) -> FloatArray:
    """Weights ``(P, D)`` of the angles in each phase, as shares of the body's mass."""
    figure = layout.figure
    shares = np.empty((len(layout.timeline.phases), layout.num_angles))
    for p, phase in enumerate(layout.timeline.phases):
        dof = figure.point(phase.contacts[0].point)[0] if phase.contacts else None
        shares[p] = compute_effective_masses(figure.tree, dof)[figure.angles] / figure.tree.mass
    shares = np.maximum(shares, MIN_FRACTION)
    shares[:, figure.root_angles] = ROOT_FRACTION
    return shares


def _integrate_squares(
    layout: FullLayout, name: str, order: int, weights: FloatArray, centre: FloatArray
) -> QuadraticTerm:
    r""":math:`\int \sum_i w_i (q_i^{(order)})^2 dt`, exact by Gauss points, weights ``(P, D)`` by phase."""
    import scipy.sparse

    sparse = cast(Any, scipy.sparse)  # its stubs know few types
    spline, timeline = layout.timeline.spline, layout.timeline
    times, shares = spline.gauss_times(4 - order)
    phases = np.clip(np.searchsorted(timeline.edges, times) - 1, 0, len(weights) - 1)
    design: Any = spline.design(times, order)
    total = sparse.csc_array((layout.num_curve_unknowns, layout.num_curve_unknowns))
    for i in range(layout.num_angles):
        gram = design.T @ sparse.diags_array(shares * weights[phases, i]) @ design
        unit = sparse.csc_array(([1.0], ([i], [i])), shape=(layout.num_angles, layout.num_angles))
        total = total + sparse.csc_array(sparse.kron(gram, unit))
    return QuadraticTerm(name, sparse.csc_array(total), centre)
