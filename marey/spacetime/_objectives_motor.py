"""What is made small in the full space: costs that students of human reaching proposed (Fang F18, §3.1)."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.dynamics import compute_point_motion, compute_torques
from marey.spacetime._full_jets import StateJet
from marey.spacetime._full_layout import FullLayout
from marey.spacetime._full_state import BodyState
from marey.spacetime._full_torques import compute_torque_jet
from marey.spacetime._objectives_terms import ResidualTerm, add_gauss_instants, add_span_ends, scale_differences
from marey.spacetime._poses import neutral_pose
from marey.spacetime._timeline import InstantBuilder

JERK_UNIT: Final = 100.0  # [m^2/s^5] a calm second: 10 m/s^3
CHANGE_UNIT: Final = 1.0  # [(mg m)^2/s] the weight at a metre in every joint, built up in a second
VARIANCE_UNIT: Final = 0.01  # [m^2] a standard deviation of ten centimetres
TORQUE_NOISE: Final = 0.01  # [s^0.5] noise of a torque over its size, as a density
TORQUE_TERMS: Final = ("torque", "min_torque_change", "min_variance")  # their values need Jacobians of points
HANDS: Final = ("hands", "left_hand", "right_hand")


def find_hands(layout: FullLayout) -> list[str]:
    """Named points of the character that are hands."""
    return [name for name in HANDS if name in layout.figure.tree.points]


def build_motor_terms(layout: FullLayout, builder: InstantBuilder) -> list[ResidualTerm]:
    """The terms ``min_jerk``, ``min_torque_change`` and ``min_variance``, where they have a weight."""
    wanted, terms = layout.problem.objective, list[ResidualTerm]()
    for p, phase in enumerate(layout.timeline.phases):
        if wanted.min_jerk > 0.0:
            held = {contact.point for contact in phase.contacts}
            free = [hand for hand in find_hands(layout) if hand not in held]
            terms += [_hand_jerk_term(layout, builder, p, hand, wanted.min_jerk) for hand in free]
        if wanted.min_torque_change > 0.0:
            terms.append(_torque_change_term(layout, builder, p, wanted.min_torque_change))
        if wanted.min_variance > 0.0:
            terms.append(_variance_term(layout, builder, p, wanted.min_variance))
    return terms


def _hand_jerk_term(layout: FullLayout, builder: InstantBuilder, phase: int, hand: str, weight: float) -> ResidualTerm:
    r""":math:`\tfrac12\int |\dddot o|^2 dt` of a hand in the world, after Flash and Hogan ([Fang2003]_ §3.1).

    Curves of angles are cubic: the jerk is the difference of accelerations across each span, over its time. The root
    moves with the support, :math:`\ddot o - \ddot o_c`, or falls, :math:`\ddot o - \ddot c + g`.
    """
    contacts = layout.timeline.phases[phase].contacts
    low, high, steps = add_span_ends(layout, builder, phase)

    def acceleration(state: BodyState, at: IntArray) -> StateJet:
        carried = state.points[contacts[0].point][2] if contacts else state.com_acceleration
        return state.points[hand][2].at(at) - carried.at(at)

    def evaluate(state: BodyState) -> tuple[StateJet, StateJet]:
        return acceleration(state, low) * -1.0, acceleration(state, high)

    return ResidualTerm("min_jerk", (low, high), 0.5 * weight / (JERK_UNIT * scale_differences(steps)), evaluate)


def _torque_change_term(layout: FullLayout, builder: InstantBuilder, phase: int, weight: float) -> ResidualTerm:
    r""":math:`\tfrac12\int \dot\tau^2 dt` over the number of joints, after Uno ([Fang2003]_ §3.1): by spans."""
    joints = np.setdiff1d(np.arange(layout.num_angles), layout.figure.root_angles)
    low, high, steps = add_span_ends(layout, builder, phase)

    def evaluate(state: BodyState) -> tuple[StateJet, StateJet]:
        first, second = (compute_torque_jet(layout, state, at, phase).columns(joints) for at in (low, high))
        return first * -1.0, second

    weights = 0.5 * weight / (CHANGE_UNIT * len(joints) * scale_differences(steps))
    return ResidualTerm("min_torque_change", (low, high), weights, evaluate)


def _variance_term(layout: FullLayout, builder: InstantBuilder, phase: int, weight: float) -> ResidualTerm:
    r"""Variance of where the hands end, under noise that grows with the torque, after Harris and Wolpert.

    .. math:: \sigma^2 = k^2 \int \sum_i \Big(\frac{l_i}{I_i}\Big)^2 (T - t)^2\,\tau_i(t)^2\,dt

    An error :math:`k\tau_i` of a torque at the time t turns its joint by :math:`(T - t)/I_i` at the end, and moves a
    hand by its lever :math:`l_i` times that. [Fang2003]_ §3.1 reviews the idea only; ours is its plainest form: joints
    do not disturb each other, levers and inertias are those of the guess's pose, and hands are seen from the trunk.
    """
    gains = compute_noise_gains(layout) * layout.weight
    joints = np.flatnonzero(gains > 0.0)
    at, shares = add_gauss_instants(layout, builder, phase)
    left = layout.timeline.duration_s - layout.timeline.gauss_frames(phase, 2)
    scale = np.diag(gains[joints])
    weights = weight * TORQUE_NOISE**2 / VARIANCE_UNIT * shares * left**2

    def evaluate(state: BodyState) -> tuple[StateJet]:
        return (compute_torque_jet(layout, state, at, phase).columns(joints).apply_matrix(scale),)

    return ResidualTerm("min_variance", (at,), weights, evaluate)


def compute_noise_gains(layout: FullLayout) -> FloatArray:
    """Acceleration of the hands by torques ``(D,)`` [m/s^2 per N m], root mean square; zero for the root."""
    figure, tree = layout.figure, layout.figure.tree
    q = figure.coordinates(neutral_pose(figure, layout.problem.guess)[None])
    unit = np.eye(tree.num_dofs)[figure.angles]
    poses = np.repeat(q, len(unit), axis=0)
    inertias = compute_torques(tree, poses, np.zeros_like(poses), unit, gravity=0.0)[
        np.arange(len(unit)), figure.angles
    ]
    reach = [compute_point_motion(tree, q, q * 0.0, q * 0.0, *figure.point(hand)).J[0] for hand in find_hands(layout)]
    levers = np.sqrt(sum((J[:, figure.angles] ** 2).sum(axis=0) for J in reach) / max(len(reach), 1))
    gains = levers / inertias
    gains[figure.root_angles] = 0.0
    return gains
