r"""Joint torques along a motion whose root is eliminated, with exact derivatives.

With the root held still and gravity off, inverse dynamics gives :math:`\tau_0(q, \dot q, \ddot q)`. A root that moves
with :math:`\ddot r` in the field :math:`g` adds a uniform field at the centre of mass, and a contact wrench
:math:`(f, n)` at :math:`o` is taken off:

.. math:: \tau = \tau_0 + m J_c^T(\ddot r - g) - J_o^T f - S^T n

In support :math:`\ddot r = -\ddot o`, in flight :math:`\ddot r - g = -\ddot c`. The torques of the root's own turns
vanish. Derivatives of the Jacobians follow from the axes alone: :math:`\partial J_a/\partial q_d = \hat s_d \times J_a`
for an ancestor :math:`d` of :math:`a`.
"""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray
from marey.dynamics import compute_torque_jacobians, compute_torques
from marey.lie import SO3
from marey.spacetime._full_jets import StateJet
from marey.spacetime._full_layout import FullLayout
from marey.spacetime._full_rows import compute_support_wrench
from marey.spacetime._full_state import BodyState, Character


def compute_torque_jet(layout: FullLayout, state: BodyState, at: IntArray, phase: int) -> StateJet:
    """Torques ``(n, D)`` [mg m] of all angles at instants of one phase; those of the root are zero."""
    figure = layout.figure
    scale = 1.0 / layout.weight
    total, axes = _free_torques(figure, state, at, scale), compute_world_axes(figure, state.angles.value[at])
    contacts = layout.timeline.phases[phase].contacts
    share = float(figure.tree.mass) * scale
    if not contacts:
        field = state.com_acceleration.at(at) * -1.0
        return total + _generalised_force(figure, axes, state.com.at(at), field) * share
    place, _, pull = (jet.at(at) for jet in state.points[contacts[0].point])
    force, moment = compute_support_wrench(state, at, contacts[0], layout)
    field = pull * -1.0 - layout.gravity
    total = (
        total
        + _generalised_force(figure, axes, state.com.at(at), field) * share
        - _generalised_force(figure, axes, place, force)
    )
    return total - _generalised_moment(figure, axes, moment, figure.point(contacts[0].point)[0])


def compute_world_axes(figure: Character, angles: FloatArray) -> FloatArray:
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


def _free_torques(figure: Character, state: BodyState, at: IntArray, scale: float) -> StateJet:
    curves = (state.angles.value[at], state.speeds.value[at], state.accelerations[at])
    q, qd, qdd = (figure.coordinates(curve) for curve in curves)
    value = compute_torques(figure.tree, q, qd, qdd, gravity=0.0)[:, figure.angles]
    slopes = compute_torque_jacobians(figure.tree, q, qd, qdd, joints=figure.angles, gravity=0.0)
    return StateJet(value, np.stack(slopes)[..., figure.angles]) * scale


def _ancestor_matrix(figure: Character) -> FloatArray:
    """One where the first angle carries the second, itself included ``(D, D)``."""
    tree = figure.tree
    mask = np.zeros((tree.num_dofs, tree.num_dofs))
    for i in range(tree.num_dofs):
        mask[i, tree.subtree(i)] = 1.0
    return mask[np.ix_(figure.angles, figure.angles)]


def _generalised_force(figure: Character, axes: FloatArray, place: StateJet, push: StateJet) -> StateJet:
    """Generalised force ``J^T v`` of a push ``v`` at a place whose Jacobian is the first partial of its jet."""
    J, carries = place.partials[0], _ancestor_matrix(figure)
    value = np.einsum("nia,ni->na", J, push.value)
    partials = np.einsum("nia,pnid->pnad", J, push.partials, optimize=True)
    bends = np.cross(push.value[:, None], axes) @ J  # (n, d, a): v . (s_d x J_a)
    strict = carries - np.eye(len(carries))
    partials[0] += (bends * carries).transpose(0, 2, 1) + bends * strict
    return StateJet(value, partials)


def _generalised_moment(figure: Character, axes: FloatArray, moment: StateJet, dof: int) -> StateJet:
    """Generalised force of a moment on the link ``dof``: its part along each axis that carries the link."""
    carries = _ancestor_matrix(figure)
    on_path = carries[:, list(figure.angles).index(dof)]
    value = np.einsum("nai,ni->na", axes, moment.value) * on_path
    partials = np.einsum("nai,pnid->pnad", axes, moment.partials, optimize=True) * on_path[:, None]
    strict = carries - np.eye(len(carries))
    turned = np.cross(axes[:, :, None], axes[:, None])  # (n, d, a): s_d x s_a
    bends = np.einsum("ndai,ni->nad", turned, moment.value) * strict.T
    partials[0] += bends * on_path[:, None]
    return StateJet(value, partials)
