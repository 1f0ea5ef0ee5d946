"""What is made small in the full space: named terms, each a sum of squares (Fang F18)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from marey.base import FloatArray, IntArray
from marey.dynamics import JointTree
from marey.spacetime._full_jets import Jet
from marey.spacetime._full_layout import Layout
from marey.spacetime._full_rows import support_wrench
from marey.spacetime._full_state import BodyState
from marey.spacetime._full_torques import torque_jet
from marey.spacetime._poses import key_line
from marey.spacetime._timeline import InstantBuilder

ACCEL_UNIT: Final = 100.0  # [rad^2/s^3] a calm second: 10 rad/s^2 in every joint
ENERGY_UNIT: Final = 1.0  # [rad^2/s]
REFERENCE_UNIT: Final = 0.01  # [rad^2 s] a tenth of a radian for a second
TORQUE_UNIT: Final = 0.01  # [(mg m)^2 s] a tenth of the weight at a metre in every joint, for a second
PRIOR_UNIT: Final = 0.25  # [rad^2 s] half a radian for a second
MIN_SHARE: Final = 0.02  # [-] of the body's mass: light joints are not free to flail
ROOT_SHARE: Final = 0.1  # [-] of the body's mass: the turn of the whole body costs little, but is not a free valley
JERK_INSET: Final = 0.05  # [-] of a span: both ends of a difference lie inside one span
RIDGE: Final = 1e-6  # makes the Hessian definite


def effective_masses(tree: JointTree, dof: int | None) -> FloatArray:
    """Mass that each coordinate moves ``(D,)`` [kg]: what is on its far side from the support.

    [Fang2003]_ (2.16): the left knee in left stance moves the body without the left lower leg. In flight (``None``)
    the trunk is the effective root.
    """
    return np.array([tree.far_mass(i, dof) for i in range(tree.num_dofs)])


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """A term ``sum_n w_n |r_n|^2`` whose residuals change with the state: Gauss-Newton.

    A residual may add parts from several instants of one span of the spline.
    """

    name: str
    parts: tuple[IntArray, ...]  # instants (n,) of each part
    weights: FloatArray  # (n,)
    evaluate: Callable[[BodyState], tuple[Jet, ...]]  # (n, m) each


@dataclass(frozen=True, slots=True, eq=False)
class Quadratic:
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


def quadratic_terms(layout: Layout, reference: FloatArray | None = None) -> list[Quadratic]:
    """Terms with a constant Hessian: ``accel``, ``energy``, ``reference``, and a ridge.

    Args:
        layout: the unknowns.
        reference: control points ``(K, D)`` of the motion to stay near.
    """
    wanted, shares = layout.problem.objective, joint_shares(layout)
    zero = np.zeros(layout.num_curve_unknowns)
    terms = [_banded(layout, "accel", 2, wanted.accel / ACCEL_UNIT * shares, zero)]
    if wanted.energy > 0.0:
        terms.append(_banded(layout, "energy", 1, wanted.energy / ENERGY_UNIT * shares, zero))
    if wanted.prior > 0.0:
        weight = np.full_like(shares, wanted.prior / PRIOR_UNIT / layout.num_angles)
        terms.append(_banded(layout, "prior", 0, weight, key_line(layout).ravel()))
    if wanted.reference > 0.0 and reference is not None:
        weight = np.full_like(shares, wanted.reference / REFERENCE_UNIT / layout.num_angles)
        terms.append(_banded(layout, "reference", 0, weight, reference.ravel()))
    return terms


def joint_shares(layout: Layout) -> FloatArray:
    """Weights ``(P, D)`` of the angles in each phase, as shares of the body's mass."""
    figure = layout.figure
    shares = np.empty((len(layout.timeline.phases), layout.num_angles))
    for p, phase in enumerate(layout.timeline.phases):
        dof = figure.point(phase.contacts[0].point)[0] if phase.contacts else None
        shares[p] = effective_masses(figure.tree, dof)[figure.angles] / figure.tree.mass
    shares = np.maximum(shares, MIN_SHARE)
    shares[:, figure.root_angles] = ROOT_SHARE
    return shares


def _banded(layout: Layout, name: str, order: int, weights: FloatArray, centre: FloatArray) -> Quadratic:
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
    return Quadratic(name, sparse.csc_array(total), centre)


def residual_terms(layout: Layout, builder: InstantBuilder) -> list[Residuals]:
    """Terms that need the dynamics: ``torque`` everywhere, ``contact_force`` and ``contact_jerk`` in supports."""
    wanted = layout.problem.objective
    terms: list[Residuals] = []
    for p, phase in enumerate(layout.timeline.phases):
        if wanted.torque > 0.0:
            terms.append(_torque_term(layout, builder, p, wanted.torque))
        if not phase.contacts:
            continue
        if wanted.contact_force > 0.0:
            terms.append(_force_term(layout, builder, p, wanted.contact_force))
        if wanted.contact_jerk > 0.0:
            terms.append(_jerk_term(layout, builder, p, wanted.contact_jerk))
    return terms


def _torque_term(layout: Layout, builder: InstantBuilder, phase: int, weight: float) -> Residuals:
    r""":math:`\int \sum \tau^2 dt` of the joints, (2.15) of [Fang2003]_, over their number."""
    joints = np.setdiff1d(np.arange(layout.num_angles), layout.figure.root_angles)
    at, shares = _gauss(layout, builder, phase)
    weights = weight / (TORQUE_UNIT * len(joints)) * shares
    return Residuals("torque", (at,), weights, lambda s: (torque_jet(layout, s, at, phase).columns(joints),))


def _gauss(layout: Layout, builder: InstantBuilder, phase: int) -> tuple[IntArray, FloatArray]:
    """Two Gauss points in each span of a phase, and their weights [s]."""
    nodes, shares = np.polynomial.legendre.leggauss(2)
    breaks = layout.timeline.breaks(phase)
    middle, half = 0.5 * (breaks[1:] + breaks[:-1]), 0.5 * np.diff(breaks)
    at = _numbers(builder, phase, (middle[:, None] + half[:, None] * nodes).ravel())
    return at, (half[:, None] * shares).ravel()


def _force_term(layout: Layout, builder: InstantBuilder, phase: int, weight: float) -> Residuals:
    r""":math:`\int |f_c|^2 dt` in body weights, (2.18) of [Fang2003]_."""
    contact = layout.timeline.phases[phase].contacts[0]
    at, shares = _gauss(layout, builder, phase)
    return Residuals("contact_force", (at,), weight * shares, lambda s: (support_wrench(s, at, contact, layout)[0],))


def _jerk_term(layout: Layout, builder: InstantBuilder, phase: int, weight: float) -> Residuals:
    r""":math:`\sum_i |f_c(t_{i+1}) - f_c(t_i)|^2 / \Delta t_i` over the spans of a phase, (2.19) of [Fang2003]_.

    The printed form does not divide by the step. No pair straddles a change of contact.
    """
    contact = layout.timeline.phases[phase].contacts[0]
    breaks = layout.timeline.breaks(phase)
    steps = np.diff(breaks)
    low = _numbers(builder, phase, breaks[:-1] + JERK_INSET * steps)
    high = _numbers(builder, phase, breaks[1:] - JERK_INSET * steps)
    weights = weight / ((1.0 - 2.0 * JERK_INSET) * steps)

    def evaluate(state: BodyState) -> tuple[Jet, Jet]:
        first, second = (support_wrench(state, at, contact, layout)[0] for at in (low, high))
        return first * -1.0, second

    return Residuals("contact_jerk", (low, high), weights, evaluate)


def _numbers(builder: InstantBuilder, phase: int, times: FloatArray) -> IntArray:
    return np.array([builder.add(phase, float(t)) for t in times], dtype=np.int64)
