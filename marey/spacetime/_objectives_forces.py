"""What is made small in the full space: terms that need the dynamics (Fang F18)."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.spacetime._full_jets import Jet
from marey.spacetime._full_layout import Layout
from marey.spacetime._full_rows import support_wrench
from marey.spacetime._full_state import BodyState
from marey.spacetime._full_torques import torque_jet
from marey.spacetime._objectives_motor import motor_terms
from marey.spacetime._objectives_terms import Residuals, gauss_instants, span_pairs
from marey.spacetime._timeline import InstantBuilder

TORQUE_UNIT: Final = 0.01  # [(mg m)^2 s] a tenth of the weight at a metre in every joint, for a second


def residual_terms(layout: Layout, builder: InstantBuilder) -> list[Residuals]:
    """Terms that need the dynamics: torques and hands everywhere, contact forces in supports."""
    wanted = layout.problem.objective
    terms: list[Residuals] = motor_terms(layout, builder)
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
    at, shares = gauss_instants(layout, builder, phase)
    weights = weight / (TORQUE_UNIT * len(joints)) * shares
    return Residuals("torque", (at,), weights, lambda s: (torque_jet(layout, s, at, phase).columns(joints),))


def _force_term(layout: Layout, builder: InstantBuilder, phase: int, weight: float) -> Residuals:
    r""":math:`\int |f_c|^2 dt` in body weights, (2.18) of [Fang2003]_."""
    contact = layout.timeline.phases[phase].contacts[0]
    at, shares = gauss_instants(layout, builder, phase)
    return Residuals("contact_force", (at,), weight * shares, lambda s: (support_wrench(s, at, contact, layout)[0],))


def _jerk_term(layout: Layout, builder: InstantBuilder, phase: int, weight: float) -> Residuals:
    r""":math:`\sum_i |f_c(t_{i+1}) - f_c(t_i)|^2 / \Delta t_i` over the spans of a phase, (2.19) of [Fang2003]_.

    The printed form does not divide by the step. No pair straddles a change of contact.
    """
    contact = layout.timeline.phases[phase].contacts[0]
    low, high, steps = span_pairs(layout, builder, phase)

    def evaluate(state: BodyState) -> tuple[Jet, Jet]:
        first, second = (support_wrench(state, at, contact, layout)[0] for at in (low, high))
        return first * -1.0, second

    return Residuals("contact_jerk", (low, high), weight / steps, evaluate)
