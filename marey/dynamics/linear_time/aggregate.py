"""Aggregate momentum and force of a tree, and six ways to differentiate them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, UnknownNameError
from marey.dynamics.bodies import GRAVITY
from marey.dynamics.linear_time.baselines import difference_blocks, direct_jacobians, pinocchio_aggregate_blocks
from marey.dynamics.linear_time.passes import (
    AnyTree,
    expand_states,
    full_tree,
    gravity_vector,
    linear_time_jacobians,
    newton_euler_aggregate,
)
from marey.dynamics.tree.joint_tree import reduce_jacobian

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
