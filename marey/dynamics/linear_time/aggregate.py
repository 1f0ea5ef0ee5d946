"""Aggregate momentum and force of a tree and its joint torques, with six ways to differentiate them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, UnknownNameError, frozen, frozen_ints, kernel
from marey.dynamics.bodies import GRAVITY
from marey.dynamics.joint_tree import reduce_jacobian
from marey.dynamics.linear_time.baselines import (
    difference_blocks,
    direct_jacobians,
    import_pinocchio,
    pinocchio_aggregate_blocks,
    pinocchio_model,
)
from marey.dynamics.linear_time.passes import (
    AnyTree,
    TreeStates,
    allocate_scratch,
    compute_forward_pass,
    expand_states,
    fill_zero,
    full_tree,
    gravity_vector,
    inertia_row,
    leaf_to_base_recursion,
    linear_time_jacobians,
    newton_euler_aggregate,
)
from marey.dynamics.spatial import (
    Spatial,
    TreeArrays,
    add6,
    cross6,
    inertia_times,
    plus6,
    put6,
    row6,
    scale6,
    twist_power,
)
from marey.lie.kernels import add3, cross

JacobianMethod = Literal["linear-time", "direct", "pinocchio", "forward", "central", "richardson"]


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """Aggregate momentum and demanded wrench at each frame.

    Momentum and wrench are (linear, angular) and (force, moment), about the origin of the world and in its axes: the
    order of [Fang2003]_ and of Pinocchio's ``Force``, not the (torque, force) of the rest of the library. The wrench
    is what contacts must supply: gravity is already taken off, so that it is zero in flight.
    """

    momentum: FloatArray  # (F, 6) [kg m/s], [kg m^2/s]
    wrench: FloatArray  # (F, 6) [N], [N m]
    mass: float  # [kg]
    com: FloatArray  # (F, 3) [m]
    com_velocity: FloatArray  # (F, 3) [m/s]
    angular_momentum: FloatArray  # (F, 3) [kg m^2/s] about the centre of mass


@dataclass(frozen=True, slots=True, eq=False)
class AggregateJacobians:
    """Momentum and wrench as in :class:`Aggregate`, and how they change with the coordinates and their rates."""

    momentum: FloatArray  # (F, 6) [kg m/s], [kg m^2/s]
    wrench: FloatArray  # (F, 6) [N], [N m]
    dp_dq: FloatArray  # (F, 6, D)
    dp_dqd: FloatArray  # (F, 6, D)
    df_dq: FloatArray  # (F, 6, D)
    df_dqd: FloatArray  # (F, 6, D)
    df_dqdd: FloatArray  # (F, 6, D) the same as dp_dqd


def compute_aggregate(
    tree: AnyTree, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, *, gravity: float = GRAVITY
) -> Aggregate:
    """Aggregate momentum and force by the Newton-Euler recursion ([Fang2003]_ B.1-B.6).

    Args:
        tree: the body.
        q: coordinates ``(F, D)``.
        qd: their velocities.
        qdd: their accelerations.
        gravity: downward acceleration of free fall [m/s^2]; zero in space.
    """
    states = expand_states(tree, q, qd, qdd)
    (momentum, wrench), com = newton_euler_aggregate(full_tree(tree).arrays, states, gravity_vector(gravity))
    spin = momentum[:, 3:] - np.cross(com, momentum[:, :3])
    return Aggregate(momentum, wrench, tree.mass, com, momentum[:, :3] / tree.mass, spin)


def compute_aggregate_jacobians(
    tree: AnyTree,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    *,
    gravity: float = GRAVITY,
    method: JacobianMethod = "linear-time",
) -> AggregateJacobians:
    """Aggregate momentum and force with their Jacobians.

    Args:
        tree: the body.
        q: coordinates ``(F, D)``.
        qd: their velocities.
        qdd: their accelerations.
        gravity: downward acceleration of free fall [m/s^2].
        method: ``"linear-time"``, Fang's recursion from the leaves to the base, whose cost grows with the number of
            joints; ``"direct"``, Newton-Euler with a tangent for every coordinate, which grows with its square;
            ``"pinocchio"``, its centroidal derivatives; ``"forward"``, ``"central"`` and ``"richardson"`` (order six),
            finite differences of Newton-Euler, the baselines of [Fang2003]_ fig. 7.9.
    """
    if method not in get_args(JacobianMethod):
        raise UnknownNameError("method", method, "aggregate_jacobians", get_args(JacobianMethod))
    states, body, fall = expand_states(tree, q, qd, qdd), full_tree(tree), gravity_vector(gravity)
    # Momentum and force (2, F, 6), and dp/dq, dp/dqd, df/dq, df/dqd (4, F, 6, D)
    if method == "linear-time":
        (p, f), blocks = linear_time_jacobians(body.arrays, states, fall)
    elif method == "direct":
        (p, f), blocks = direct_jacobians(body.arrays, states, fall)
    elif method == "pinocchio":
        (p, f), blocks = pinocchio_aggregate_blocks(body, states, fall)
    else:
        (p, f), blocks = difference_blocks(body, states, fall, method)
    dp_dq, dp_dqd, df_dq, df_dqd = reduce_jacobian(tree, blocks)
    return AggregateJacobians(p, f, dp_dq, dp_dqd, df_dq, df_dqd, dp_dqd)


@kernel
def newton_euler_torques(tree: TreeArrays, states: TreeStates, gravity: FloatArray, external: FloatArray) -> FloatArray:
    """Torques and forces ``(F, D)`` along all coordinates: Newton-Euler, B.1-B.6.

    ``external (F, D, 6)`` are wrenches of the world on the links, at the origin of the world; it may have no frames.
    """
    frames, D = states[0].shape
    at = allocate_scratch(D)
    parents, S, V, A, weights, w = tree.parents, at.S, at.V, at.A, at.weights, at.w
    out = np.empty((frames, D))
    for f in range(frames):
        # Forward pass B.1-B.4
        o = compute_forward_pass(tree, states, f, gravity, at)
        fill_zero(w)
        for i in range(D - 1, -1, -1):
            # f_i = I_i a_i + v_i x I_i v_i, less what the world gives
            m, h, J = inertia_row(weights, i)
            v = row6(V, i)
            add6(w, i, plus6(inertia_times(m, h, J, row6(A, i)), cross6(v, inertia_times(m, h, J, v))))
            if external.shape[0] > 0:
                push = row6(external[f], i)
                add6(w, i, scale6(-1.0, (push[0], add3(push[1], cross(push[0], o)))))
            # tau_i = s_i^T f_i of the whole sub-tree, which is then passed to the parent
            total = row6(w, i)
            out[f, i] = twist_power(row6(S, i), total)
            add6(w, parents[i], total)
    return out


@kernel
def linear_time_torque_jacobians(
    tree: TreeArrays, states: TreeStates, gravity: FloatArray, rows: IntArray, count: int
) -> FloatArray:
    r"""Derivatives ``(3, F, k, D)`` of chosen torques by q, qd and qdd; ``rows (D,)`` is a joint's row, or -1.

    Below a joint, :math:`\partial_{q_j}\tau_i = \langle s_i, \partial_{q_j} f_0\rangle`: the aggregate's own columns.
    """
    frames, D = states[0].shape
    at, parents = allocate_scratch(D), tree.parents
    S = at.S
    columns, levers = np.empty((4, D, 6)), np.empty((3, D, 6))
    out = np.zeros((3, frames, count, D))
    for f in range(frames):
        # Sub-tree sums and columns of the aggregate, B.7-B.16
        compute_forward_pass(tree, states, f, gravity, at)
        leaf_to_base_recursion(parents, states, f, at, columns)
        # Effect of parent links on the torque of a joint: the table of the sub-tree extension with the pairing moved
        # onto the joint's own axis. By q_k it is <A_k, b_i> + <N_k, z_i>, by qd_k <2 N_k, b_i> + <s_k, z_i>, by qdd_k
        # <s_k, b_i>, with N_k = v_k x s_k, A_k = a_k x s_k + v_k x N_k of the parent's v and a, and
        # z_i = I'_i s_i - I*_i (v_i x s_i) - s_i x p_i + v_i x b_i
        axes, V, A, weights, p = at.S, at.V, at.A, at.weights, at.p
        for i in range(parents.shape[0]):
            k = parents[i]
            s, v, vb = row6(axes, i), row6(V, i), row6(V, k)
            m, h, J = inertia_row(weights, i)
            N = cross6(vb, s)
            momentum = plus6(row6(p, i), inertia_times(m, h, J, vb))
            # of df/dqd = e + l + v x b, without e: l + v x b
            z = plus6(row6(columns[3], i), scale6(-1.0, row6(columns[0], i)))
            z = plus6(z, scale6(-1.0, plus6(inertia_times(m, h, J, cross6(v, s)), cross6(s, momentum))))
            put6(levers[0], i, plus6(cross6(row6(A, k), s), cross6(vb, N)))
            put6(levers[1], i, N)
            put6(levers[2], i, z)
        for j in range(D):
            # Walk from joint j to the root: torques of joints above j by j, then the torque of j by those above
            b, z, row = row6(columns[1], j), row6(levers[2], j), rows[j]
            i = j
            while i < D:
                s: Spatial = row6(S, i)
                if rows[i] >= 0:
                    out[0, f, rows[i], j] = twist_power(s, row6(columns[2], j))
                    out[1, f, rows[i], j] = twist_power(s, row6(columns[3], j))
                    out[2, f, rows[i], j] = twist_power(s, b)
                if row >= 0 and i != j:
                    lever = row6(levers[1], i)
                    out[0, f, row, i] = twist_power(row6(levers[0], i), b) + twist_power(lever, z)
                    out[1, f, row, i] = 2.0 * twist_power(lever, b) + twist_power(s, z)
                    out[2, f, row, i] = twist_power(s, b)
                i = parents[i]
    return out


TorqueMethod = Literal["sub-tree", "pinocchio"]


def compute_torques(
    tree: AnyTree,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    *,
    gravity: float = GRAVITY,
    external: ArrayLike | None = None,
) -> FloatArray:
    """Torques [N m] and forces [N] ``(F, D)`` along the coordinates of the whole body, by Newton-Euler.

    Args:
        tree: the body.
        q: coordinates ``(F, D)``.
        qd: their velocities.
        qdd: their accelerations.
        gravity: downward acceleration of free fall [m/s^2].
        external: wrenches ``(F, D, 6)`` of the world on the links, (force, moment) about the origin of the world and
            in its axes. The root's rows of the result are what is still missing, zero when they explain the motion.
    """
    states, body = expand_states(tree, q, qd, qdd), full_tree(tree)
    none = np.zeros((0, body.num_dofs, 6))
    frames = 0 if external is None else len(states[0])
    pushes = frozen(none if external is None else external, frames, body.num_dofs, 6, name="external")
    return newton_euler_torques(body.arrays, states, gravity_vector(gravity), pushes)


def compute_torque_jacobians(
    tree: AnyTree,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    *,
    joints: ArrayLike | None = None,
    gravity: float = GRAVITY,
    method: TorqueMethod = "sub-tree",
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Derivatives of torques by q, qd and qdd, each ``(F, k, D)``; without external wrenches.

    Args:
        tree: the body.
        q: coordinates ``(F, D)``.
        qd: their velocities.
        qdd: their accelerations.
        joints: the ``k`` coordinates of the torques to return, all by default.
        gravity: downward acceleration of free fall [m/s^2].
        method: ``"sub-tree"``, Fang's extension ([Fang2003]_ §8.2): aggregates of sub-trees, whose cost grows with the
            number of torques; or ``"pinocchio"``.
    """
    if method not in get_args(TorqueMethod):
        raise UnknownNameError("method", method, "torque_jacobians", get_args(TorqueMethod))
    states, body = expand_states(tree, q, qd, qdd), full_tree(tree)
    chosen = np.arange(body.num_dofs) if joints is None else frozen_ints(joints, None, name="joints")
    if len(chosen) and not (chosen.min() >= 0 and chosen.max() < body.num_dofs):
        raise InputError("a joint is out of range", f"The tree has coordinates 0 to {body.num_dofs - 1}")
    if method == "pinocchio":
        # Frame by frame; of the last block, the joint inertia, only the upper half is filled
        pin, model = import_pinocchio(), pinocchio_model(body).copy()
        model.gravity.linear = gravity_vector(gravity)
        data: Any = model.createData()
        frames, D = states[0].shape
        out = np.empty((3, frames, len(chosen), D))
        for f in range(frames):
            blocks = pin.computeRNEADerivatives(model, data, states[0][f], states[1][f], states[2][f])
            for n, block in enumerate(blocks):
                full = np.triu(block) + np.triu(block, 1).T if n == 2 else block
                out[n, f] = full[chosen]
        blocks = out
    else:
        # Chosen coordinates may repeat: each is computed once
        once, places = np.unique(chosen, return_inverse=True)
        rows = np.full(body.num_dofs, -1)
        rows[once] = np.arange(len(once))
        blocks = linear_time_torque_jacobians(body.arrays, states, gravity_vector(gravity), rows, len(once))
        blocks = blocks if np.array_equal(once, chosen) else blocks[:, :, places]
    dq, dqd, dqdd = reduce_jacobian(tree, blocks)
    return dq, dqd, dqdd
