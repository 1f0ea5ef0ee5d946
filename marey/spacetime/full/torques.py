r"""Torques of the full space: their derivatives, and rows that keep them within limits.

With the root held still and gravity off, inverse dynamics gives :math:`\tau_0(q, \dot q, \ddot q)`. A root that moves
with :math:`\ddot r` in the field :math:`g` adds a uniform field at the centre of mass, and a contact wrench
:math:`(f, n)` at :math:`o` is taken off:

.. math:: \tau = \tau_0 + m J_c^T(\ddot r - g) - J_o^T f - S^T n

In support :math:`\ddot r = -\ddot o`, in flight :math:`\ddot r - g = -\ddot c`. The torques of the root's own turns
vanish. Derivatives of the Jacobians follow from the axes alone: :math:`\partial J_a/\partial q_d = \hat s_d \times J_a`
for an ancestor :math:`d` of :math:`a`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.dynamics import compute_torque_jacobians, compute_torques
from marey.lie import SO3, hat
from marey.spacetime.full.body_state import BodyState, FullBodyModel
from marey.spacetime.full.layout import FullLayout
from marey.spacetime.full.physics_rows import FullRows, compute_support_wrench
from marey.spacetime.problem.definition import Contact
from marey.spacetime.problem.strength import TorqueLimits
from marey.spacetime.programme import Factors, StateJet

TORQUE_ROOM: Final = 0.97  # of a limit at frames: what holds there with room holds between them


def compute_torque_jet(
    layout: FullLayout, state: BodyState, at: IntArray, phase: int, loads: FloatArray | None = None
) -> StateJet:
    """Torques ``(n, D)`` [mg m] of all angles at instants of one phase; those of the root are zero.

    ``loads (n, K, 6)`` are the wrenches of the contacts beyond the first [mg, mg m], about each; without them the first
    bears all.
    """
    figure = layout.figure
    tree, scale = figure.tree, 1.0 / layout.weight
    # tau_0: the root held still, gravity off
    curves = (state.angles.value[at], state.speeds.value[at], state.accelerations[at])
    q, qd, qdd = (figure.coordinates(curve) for curve in curves)
    free = compute_torques(tree, q, qd, qdd, gravity=0.0)[:, figure.angles]
    slopes = compute_torque_jacobians(tree, q, qd, qdd, joints=figure.angles, gravity=0.0)
    total = StateJet(free, np.stack(slopes)[..., figure.angles]) * scale
    carries = find_carried(figure)
    axes, share = compute_world_axes(figure, curves[0]), float(tree.mass) * scale
    contacts = layout.timeline.phases[phase].contacts
    if not contacts:
        # In flight the field is that of the falling root
        field = state.com_acceleration.at(at) * -1.0
        return total + _generalised_force(carries, axes, state.com.at(at), field) * share
    _, _, pull = (jet.at(at) for jet in state.points[contacts[0].point])
    field = pull * -1.0 - layout.gravity
    total = total + _generalised_force(carries, axes, state.com.at(at), field) * share
    # Of the whole wrench the first contact has what the others leave
    force, moment = compute_support_wrench(state, at, contacts[0], layout)
    for k, contact in enumerate(contacts[1:] if loads is not None else ()):
        assert loads is not None
        push, turn = loads[:, k, :3], loads[:, k, 3:]
        arm = np.subtract(contact.position, contacts[0].position)
        force, moment = force - push, moment - (turn + np.cross(arm, push))
        constant = np.zeros_like(force.partials)
        wrench = StateJet(push, constant), StateJet(turn, constant)
        total = total - _contact_torque(layout, state, at, contact, wrench)
    return total - _contact_torque(layout, state, at, contacts[0], (force, moment))


def _contact_torque(
    layout: FullLayout, state: BodyState, at: IntArray, contact: Contact, wrench: tuple[StateJet, StateJet]
) -> StateJet:
    """Generalised force ``J^T f + S^T n`` of a wrench at a contact."""
    figure, (force, moment) = layout.figure, wrench
    carries, axes = find_carried(figure), compute_world_axes(figure, state.angles.value[at])
    place = state.points[contact.point][0].at(at)
    # S^T n: the part of the contact moment along each axis that carries its link
    on_path = carries[:, list(figure.angles).index(figure.point(contact.point)[0])]
    value = np.einsum("nai,ni->na", axes, moment.value) * on_path
    partials = np.einsum("nai,pnid->pnad", axes, moment.partials, optimize=True) * on_path[:, None]
    turned = np.cross(axes[:, :, None], axes[:, None])  # (n, d, a): s_d x s_a
    bends = np.einsum("ndai,ni->nad", turned, moment.value) * (carries - np.eye(len(carries))).T
    partials[0] += bends * on_path[:, None]
    return _generalised_force(carries, axes, place, force) + StateJet(value, partials)


def torque_rows(layout: FullLayout, phase: int, times: FloatArray, at: IntArray, limits: TorqueLimits) -> FullRows:
    """Torques of a phase within their limits, at instants; contacts beyond the first bear their own loads."""
    figure = layout.figure
    angles: list[int] = figure.angles.tolist()
    own = np.array([angles.index(int(dof)) for dof in limits.dofs], dtype=np.int64)
    unit = 0.5 * (limits.upper - limits.lower)
    to_row = np.diag(layout.weight / unit)
    contacts = layout.timeline.phases[phase].contacts
    parts = [load.weights(times) for load in layout.loads if load.phase == phase]  # unknowns (n, 2, 6), shares (n, 2)
    shape = (len(at), len(own))
    near = np.concatenate([unknowns.reshape(len(at), 12) for unknowns, _ in parts], axis=1) if parts else None

    def evaluate(state: BodyState, x: FloatArray) -> tuple[StateJet, Factors]:
        if near is None:
            return compute_torque_jet(layout, state, at, phase).columns(own).apply_matrix(to_row), None
        loads = np.stack([(shares[:, :, None] * x[unknowns]).sum(axis=1) for unknowns, shares in parts], axis=1)
        jet = compute_torque_jet(layout, state, at, phase, loads).columns(own).apply_matrix(to_row)
        # By the load of a contact: what it does there is taken off, what the first one does no more is added
        carries, axes = find_carried(figure), compute_world_axes(figure, state.angles.value[at])
        slopes: list[FloatArray] = []
        for contact in contacts:
            J = np.swapaxes(state.points[contact.point][0].at(at).partials[0], 1, 2)
            S = axes * carries[:, angles.index(figure.point(contact.point)[0]), None]
            slopes.append(to_row @ np.concatenate([J, S], axis=2)[:, own])
        found: list[FloatArray] = []
        for contact, slope, (_, shares) in zip(contacts[1:], slopes[1:], parts, strict=True):
            shift = np.eye(6)
            shift[3:, :3] = hat(np.subtract(contact.position, contacts[0].position))
            by_load = slopes[0] @ shift - slope
            found.append((shares[:, None, :, None] * by_load[:, :, None, :]).reshape(*shape, 12))
        return jet, np.concatenate(found, axis=2)

    columns = None if near is None else np.broadcast_to(near[:, None], (*shape, near.shape[1]))
    lower, upper = (np.broadcast_to(TORQUE_ROOM * end / unit, shape) for end in (limits.lower, limits.upper))
    labels = tuple(f"torque of {figure.tree.names[int(dof)]}" for dof in limits.dofs)
    return FullRows(at, lower, upper, labels, evaluate, columns)


def find_carried(figure: FullBodyModel) -> FloatArray:
    """One where the first angle carries the second, itself included ``(D, D)``."""
    mask = np.zeros((figure.tree.num_dofs, figure.tree.num_dofs))
    for i in range(figure.tree.num_dofs):
        mask[i, figure.tree.subtree(i)] = 1.0
    return mask[np.ix_(figure.angles, figure.angles)]


def compute_world_axes(figure: FullBodyModel, angles: FloatArray) -> FloatArray:
    """Unit axes of the angles in the world ``(n, D, 3)``."""
    tree, q = figure.tree, figure.coordinates(angles)
    frames: list[SO3] = []
    axes = np.zeros((len(q), tree.num_dofs, 3))
    for i in range(tree.num_dofs):
        parent = int(tree.parents[i])
        before = SO3.identity(len(q)) if parent < 0 else frames[parent]
        frame = before @ SO3(tree.orientations[i])
        axes[:, i] = frame @ np.broadcast_to(tree.axes[i], (len(q), 3))
        turns = i in figure.angles
        frames.append(frame @ SO3.from_axis_angle(tree.axes[i], q[:, i]) if turns else frame)
    return axes[:, figure.angles]


def _generalised_force(carries: FloatArray, axes: FloatArray, place: StateJet, push: StateJet) -> StateJet:
    """Generalised force ``J^T v`` of a push ``v`` at a place whose Jacobian is the first partial of its jet.

    ``carries (D, D)`` is one where the first angle carries the second.
    """
    J = place.partials[0]
    value = np.einsum("nia,ni->na", J, push.value)
    partials = np.einsum("nia,pnid->pnad", J, push.partials, optimize=True)
    bends = np.cross(push.value[:, None], axes) @ J  # (n, d, a): v . (s_d x J_a)
    strict = carries - np.eye(len(carries))
    partials[0] += (bends * carries).transpose(0, 2, 1) + bends * strict
    return StateJet(value, partials)
