"""What is made small in the full space: terms that need the dynamics (Fang F18)."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.spacetime._full_jets import StateJet
from marey.spacetime._full_layout import FullLayout
from marey.spacetime._full_rows import compute_support_wrench
from marey.spacetime._full_state import BodyState
from marey.spacetime._full_torques import compute_torque_jet
from marey.spacetime._objectives_motor import build_motor_terms
from marey.spacetime._objectives_terms import ResidualTerm, add_gauss_instants, add_span_ends
from marey.spacetime._timeline import InstantBuilder

TORQUE_UNIT: Final = 0.01  # [(mg m)^2 s] a tenth of the weight at a metre in every joint, for a second


def build_residual_terms(layout: FullLayout, builder: InstantBuilder) -> list[ResidualTerm]:
    """Terms that need the dynamics: torques and hands everywhere, contact forces in supports."""
    wanted = layout.problem.objective
    terms: list[ResidualTerm] = build_motor_terms(layout, builder)
    for p, phase in enumerate(layout.timeline.phases):
        if wanted.torque > 0.0:
            terms.append(_torque_term(layout, builder, p, wanted.torque))
        if not phase.contacts:
            continue
        if wanted.contact_force > 0.0:
            terms.append(_force_term(layout, builder, p, wanted.contact_force))
        if wanted.contact_jerk > 0.0:
            terms.append(_force_change_term(layout, builder, p, wanted.contact_jerk))
    return terms


def _torque_term(layout: FullLayout, builder: InstantBuilder, phase: int, weight: float) -> ResidualTerm:
    r""":math:`\int \sum \tau^2 dt` of the joints, (2.15) of [Fang2003]_, over their number."""
    joints = np.setdiff1d(np.arange(layout.num_angles), layout.figure.root_angles)
    at, shares = add_gauss_instants(layout, builder, phase)
    weights = weight / (TORQUE_UNIT * len(joints)) * shares
    return ResidualTerm("torque", (at,), weights, lambda s: (compute_torque_jet(layout, s, at, phase).columns(joints),))


def _force_term(layout: FullLayout, builder: InstantBuilder, phase: int, weight: float) -> ResidualTerm:
    r""":math:`\int |f_c|^2 dt` in body weights, (2.18) of [Fang2003]_."""
    contact = layout.timeline.phases[phase].contacts[0]
    at, shares = add_gauss_instants(layout, builder, phase)
    return ResidualTerm(
        "contact_force", (at,), weight * shares, lambda s: (compute_support_wrench(s, at, contact, layout)[0],)
    )


def _force_change_term(layout: FullLayout, builder: InstantBuilder, phase: int, weight: float) -> ResidualTerm:
    r""":math:`\sum_i |f_c(t_{i+1}) - f_c(t_i)|^2 / \Delta t_i` over the spans of a phase, (2.19) of [Fang2003]_.

    The printed form does not divide by the step. No pair straddles a change of contact.
    """
    contact = layout.timeline.phases[phase].contacts[0]
    low, high, steps = add_span_ends(layout, builder, phase)

    def evaluate(state: BodyState) -> tuple[StateJet, StateJet]:
        first, second = (compute_support_wrench(state, at, contact, layout)[0] for at in (low, high))
        return first * -1.0, second

    return ResidualTerm("contact_jerk", (low, high), weight / steps, evaluate)
