r"""Objectives of the full space (Fang F18, §3.1): quadratic terms, joint torques, forces, costs of human reaching.

With the root held still and gravity off, inverse dynamics gives :math:`\tau_0(q, \dot q, \ddot q)`. A root that moves
with :math:`\ddot r` in the field :math:`g` adds a uniform field at the centre of mass, and a contact wrench
:math:`(f, n)` at :math:`o` is taken off:

.. math:: \tau = \tau_0 + m J_c^T(\ddot r - g) - J_o^T f - S^T n

In support :math:`\ddot r = -\ddot o`, in flight :math:`\ddot r - g = -\ddot c`. The torques of the root's own turns
vanish. Derivatives of the Jacobians follow from the axes alone: :math:`\partial J_a/\partial q_d = \hat s_d \times J_a`
for an ancestor :math:`d` of :math:`a`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import numpy as np

from marey.base import FloatArray, IntArray
from marey.dynamics import JointTree, compute_point_motion, compute_torque_jacobians, compute_torques
from marey.lie import SO3, hat
from marey.spacetime.full.layout import BodyState, FullBodyModel, FullLayout, InstantBuilder
from marey.spacetime.full.physics_rows import FullRows, compute_support_wrench
from marey.spacetime.full.sampling import interpolate_pose_keys, neutral_pose
from marey.spacetime.problem.definition import Contact
from marey.spacetime.problem.supply import TorqueLimits
from marey.spacetime.programme import Factors, QuadraticTerm, ResidualTerm, StateJet

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


INSET: Final = 0.05  # [-] of a span: both ends of a difference lie inside one span


FullTerm = ResidualTerm[BodyState]
Quantity = Callable[[BodyState, IntArray], StateJet]  # of a state, at instants


def add_gauss_instants(layout: FullLayout, builder: InstantBuilder, phase: int) -> tuple[IntArray, FloatArray]:
    """Two Gauss points in each span of a phase, and their weights [s]."""
    at = builder.add(phase, layout.timeline.gauss_frames(phase, 2))
    return at, np.repeat(0.5 * np.diff(layout.timeline.breaks(phase)), 2)


ACCEL_UNIT: Final = 100.0  # [rad^2/s^3] unit of the objective: one second at 10 rad/s^2 in every joint
ENERGY_UNIT: Final = 1.0  # [rad^2/s]
REFERENCE_UNIT: Final = 0.01  # [rad^2 s] a tenth of a radian for a second
BALANCE_UNIT: Final = 0.01  # [m^2] a tenth of a metre beside the middle of the feet
PRIOR_UNIT: Final = 0.25  # [rad^2 s] half a radian for a second
MIN_FRACTION: Final = 0.02  # [-] of the body's mass: light joints are not free to flail
ROOT_FRACTION: Final = 0.1  # [-] of the body's mass: the turn of the whole body costs little, but is not a free valley
RIDGE: Final = 1e-6  # [-] makes the Hessian definite


def compute_effective_masses(tree: JointTree, dof: int | None) -> FloatArray:
    """Mass that each coordinate moves ``(D,)`` [kg]: what is on its far side from the support.

    [Fang2003]_ (2.16): the left knee in left stance moves the body without the left lower leg. In flight (``None``)
    the trunk is the effective root.
    """
    return np.array([tree.far_mass(i, dof) for i in range(tree.num_dofs)])


def build_quadratic_terms(layout: FullLayout, reference: FloatArray | None = None) -> list[QuadraticTerm]:
    """Terms with a constant Hessian; ``reference`` are control points ``(K, D)`` of the motion to stay near."""
    import scipy.sparse

    wanted, shares = layout.problem.objective, compute_joint_weights(layout)
    zero = np.zeros(layout.num_curve_unknowns)
    terms = [_integrate_squares(layout, "accel", 2, wanted.accel / ACCEL_UNIT * shares, zero)]
    if wanted.energy > 0.0:
        terms.append(_integrate_squares(layout, "energy", 1, wanted.energy / ENERGY_UNIT * shares, zero))
    if wanted.prior > 0.0:
        weight = np.full_like(shares, wanted.prior / PRIOR_UNIT / layout.num_angles)
        pose = interpolate_pose_keys(layout).ravel()
        terms.append(_integrate_squares(layout, "prior", 0, weight, pose))
    if wanted.reference > 0.0 and reference is not None:
        weight = np.full_like(shares, wanted.reference / REFERENCE_UNIT / layout.num_angles)
        terms.append(_integrate_squares(layout, "reference", 0, weight, reference.ravel()))
    # Impulses, loads and durations cost nothing: a ridge there would prefer light bodies
    diagonal = np.where(np.arange(layout.num_unknowns) < layout.num_curve_unknowns, RIDGE, 0.0)
    ridge: Any = cast(Any, scipy.sparse).diags_array(diagonal, format="csc")
    return [*terms, QuadraticTerm("ridge", ridge, np.zeros(layout.num_unknowns))]


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
    # As many Gauss points as make the integral of the squared polynomial exact
    times, shares = spline.gauss_times(4 - order)
    phases = np.clip(np.searchsorted(timeline.edges, times) - 1, 0, len(weights) - 1)
    design: Any = spline.design(times, order)
    # Weights differ from phase to phase: each angle has a Gram matrix of its own
    total = sparse.csc_array((layout.num_curve_unknowns, layout.num_curve_unknowns))
    for i in range(layout.num_angles):
        gram = design.T @ sparse.diags_array(shares * weights[phases, i]) @ design
        unit = sparse.csc_array(([1.0], ([i], [i])), shape=(layout.num_angles, layout.num_angles))
        total = total + sparse.csc_array(sparse.kron(gram, unit))
    total.resize((layout.num_unknowns, layout.num_unknowns))
    return QuadraticTerm(name, total, np.append(centre, np.zeros(layout.num_unknowns - centre.size)))


JERK_UNIT: Final = 100.0  # [m^2/s^5] unit of the objective: one second at 10 m/s^3
CHANGE_UNIT: Final = 1.0  # [(mg m)^2/s] the weight at a metre in every joint, built up in a second
TORQUE_UNIT: Final = 0.01  # [(mg m)^2 s] a tenth of the weight at a metre in every joint, for a second
VARIANCE_UNIT: Final = 0.01  # [m^2] a standard deviation of ten centimetres
TORQUE_NOISE: Final = 0.01  # [s^0.5] noise of a torque over its size, as a density
TORQUE_TERMS: Final = ("torque", "min_torque_change", "min_variance")  # their values need Jacobians of points
HANDS: Final = ("hands", "left_hand", "right_hand")


def find_hands(layout: FullLayout) -> list[str]:
    """Named points of the character that are hands."""
    return [name for name in HANDS if name in layout.figure.tree.points]


def compute_noise_gains(layout: FullLayout) -> FloatArray:
    r"""Acceleration of the hands by torques ``(D,)`` [m/s^2 per N m], root mean square; zero for the root.

    They make the variance of where the hands end, under noise that grows with the torque, after Harris and Wolpert:

    .. math:: \sigma^2 = k^2 \int \sum_i \Big(\frac{l_i}{I_i}\Big)^2 (T - t)^2\,\tau_i(t)^2\,dt

    An error :math:`k\tau_i` of a torque at the time t turns its joint by :math:`(T - t)/I_i` at the end, and moves a
    hand by its lever :math:`l_i` times that. [Fang2003]_ §3.1 reviews the idea only; ours is its plainest form: joints
    do not disturb each other, levers and inertias are those of the guess's pose, and hands are seen from the trunk.
    """
    figure, tree = layout.figure, layout.figure.tree
    q = figure.coordinates(neutral_pose(figure, layout.problem.guess)[None])
    # Inertia about each joint: the torque of a unit acceleration
    unit = np.eye(tree.num_dofs)[figure.angles]
    poses = np.repeat(q, len(unit), axis=0)
    inertias = compute_torques(tree, poses, np.zeros_like(poses), unit, gravity=0.0)[
        np.arange(len(unit)), figure.angles
    ]
    # Levers of the hands: rows of their Jacobians
    reach = [compute_point_motion(tree, q, q * 0.0, q * 0.0, *figure.point(hand)).J[0] for hand in find_hands(layout)]
    levers = np.sqrt(sum((J[:, figure.angles] ** 2).sum(axis=0) for J in reach) / max(len(reach), 1))
    gains = levers / inertias
    gains[figure.root_angles] = 0.0
    return gains


def build_residual_terms(layout: FullLayout, builder: InstantBuilder) -> list[FullTerm]:
    r"""Terms that need the dynamics, if they have a weight: torques and hands everywhere, contact forces in supports.

    Of [Fang2003]_: ``torque`` is :math:`\int \sum \tau^2 dt` over the number of joints, (2.15); ``contact_force`` is
    :math:`\int |f_c|^2 dt` in body weights, (2.18); ``contact_jerk`` is
    :math:`\sum_i |f_c(t_{i+1}) - f_c(t_i)|^2 / \Delta t_i` over the spans of a phase, (2.19), whose printed form does
    not divide by the step. Of its §3.1: ``min_jerk`` is :math:`\tfrac12\int |\dddot o|^2 dt` of a hand, after Flash and
    Hogan; ``min_torque_change`` is :math:`\tfrac12\int \dot\tau^2 dt` over the number of joints, after Uno;
    ``min_variance`` that of :func:`compute_noise_gains`. Curves are cubic, so a rate is a difference across each span.
    Ours: ``balance`` is :math:`|c - \bar p|^2` on the ground plan at an end that stands on feet.
    """
    wanted, terms, phases = layout.problem.objective, list[FullTerm](), layout.timeline.phases
    joints = np.setdiff1d(np.arange(layout.num_angles), layout.figure.root_angles)
    gains = compute_noise_gains(layout) * layout.weight if wanted.min_variance > 0.0 else np.zeros(layout.num_angles)
    noisy, inset = np.flatnonzero(gains > 0.0), 1.0 - 2.0 * INSET

    def acceleration(hand: str, support: str | None, state: BodyState, at: IntArray) -> StateJet:
        # In the world: the root moves with the support, o'' - o_c'', or falls, o'' - c'' + g
        carried = state.com_acceleration if support is None else state.points[support][2]
        return state.points[hand][2].at(at) - carried.at(at)

    def torques(phase: int, state: BodyState, at: IntArray) -> StateJet:
        return compute_torque_jet(layout, state, at, phase).columns(joints)

    def noise(phase: int, state: BodyState, at: IntArray) -> StateJet:
        return compute_torque_jet(layout, state, at, phase).columns(noisy).apply_matrix(np.diag(gains[noisy]))

    def force(contact: Contact, state: BodyState, at: IntArray) -> StateJet:
        return compute_support_wrench(state, at, contact, layout)[0]

    def integrate(name: str, p: int, weight: float, quantity: Quantity, growth: FloatArray | float = 1.0) -> None:
        at, shares = add_gauss_instants(layout, builder, p)
        terms.append(FullTerm(name, (at,), weight * shares * growth, lambda state: (quantity(state, at),)))

    def differ(name: str, p: int, weight: float, unit: float, quantity: Quantity, share: float) -> None:
        # First and last instant of each span of a phase, a little inside it, and the time between them [s]
        breaks = layout.timeline.breaks(p)
        spans = np.diff(breaks)
        low = builder.add(p, breaks[:-1] + INSET * spans)
        high = builder.add(p, breaks[1:] - INSET * spans)
        steps = (1.0 - 2.0 * INSET) * spans
        weights = weight / (unit * (steps * share))
        parts = (low, high)
        terms.append(FullTerm(name, parts, weights, lambda s: (quantity(s, low) * -1.0, quantity(s, high))))

    def lean(foot: str, middle: FloatArray, at: IntArray, state: BodyState) -> tuple[StateJet]:
        return ((state.com.at(at) - state.points[foot][0].at(at) - middle).columns(np.array([0, 2])),)

    # Over the middle of the feet on the ground plan, at the start and at the end
    for p, share in ((0, 0.0), (len(phases) - 1, 1.0)) if wanted.balance > 0.0 else ():
        feet = phases[p].contacts
        if feet and all(contact.point.endswith(("foot", "feet")) for contact in feet):
            at = builder.add(p, layout.timeline.time_of(p, share))
            middle = np.mean([contact.position for contact in feet], axis=0) - np.asarray(feet[0].position)
            evaluate = partial(lean, feet[0].point, middle, at)
            terms.append(FullTerm("balance", (at,), np.array([wanted.balance / BALANCE_UNIT]), evaluate))
    for p, phase in enumerate(phases):
        held = [contact.point for contact in phase.contacts]
        for hand in find_hands(layout) if wanted.min_jerk > 0.0 else ():
            if hand not in held:
                quantity = partial(acceleration, hand, held[0] if held else None)
                differ("min_jerk", p, 0.5 * wanted.min_jerk, JERK_UNIT, quantity, inset)
        if wanted.min_torque_change > 0.0:
            unit = CHANGE_UNIT * len(joints)
            differ("min_torque_change", p, 0.5 * wanted.min_torque_change, unit, partial(torques, p), inset)
        if wanted.min_variance > 0.0:
            left = layout.timeline.duration_s - layout.timeline.gauss_frames(p, 2)
            weight = wanted.min_variance * TORQUE_NOISE**2 / VARIANCE_UNIT
            integrate("min_variance", p, weight, partial(noise, p), left**2)
    for p, phase in enumerate(phases):
        if wanted.torque > 0.0:
            integrate("torque", p, wanted.torque / (TORQUE_UNIT * len(joints)), partial(torques, p))
        if phase.contacts and wanted.contact_force > 0.0:
            integrate("contact_force", p, wanted.contact_force, partial(force, phase.contacts[0]))
        if phase.contacts and wanted.contact_jerk > 0.0:
            differ("contact_jerk", p, wanted.contact_jerk, 1.0, partial(force, phase.contacts[0]), 1.0)
    return terms
