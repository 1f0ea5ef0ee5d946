"""Everything that rows and objective look at, computed once for a point of the search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, IntArray
from marey.dynamics import (
    GRAVITY,
    PointMotion,
    compute_aggregate,
    compute_aggregate_jacobians,
    compute_com_motion,
    compute_torque_jacobians,
    compute_torques,
)
from marey.spacetime._limbs import Leg
from marey.spacetime._reduced_nodes import FREE, ON_TOES
from marey.spacetime._reduced_pose import PoseMap, PoseState, StateBlocks
from marey.spacetime._reduced_support import NodeSupports


@dataclass(frozen=True, slots=True, eq=False)
class NodeState:
    """Poses at the nodes, with what forces they ask for; blocks are derivatives by local unknowns and their rates."""

    state: PoseState
    wrench: FloatArray  # (N, 6) about the world's origin, over the weight [mg], [mg m]; zero in flight
    momentum: FloatArray  # (N, 3) [kg m^2/s] about the centre of mass, in flight
    torque: FloatArray | None  # (N', D - 6) [N m] at the nodes that count in integrals
    wrench_blocks: StateBlocks | None = None  # 3 of (N, 6, S)
    momentum_blocks: StateBlocks | None = None  # 3 of (N, 3, S)
    torque_blocks: StateBlocks | None = None  # 3 of (N', D - 6, S)


class NodeEvaluator:
    """Evaluates frames at fixed nodes."""

    def __init__(self, poses: PoseMap, supports: NodeSupports, *, gravity: float = GRAVITY, has_torque: bool) -> None:
        self.poses, self.supports, self.gravity, self.has_torque = poses, supports, gravity, has_torque
        self.space = poses.space
        self.weight = self.space.tree.mass * gravity
        self.heavy = np.flatnonzero(poses.nodes.weights > 0.0)
        self.shares = supports.shares[self.heavy]
        self.actuated = np.arange(6, self.space.tree.num_dofs)

    def values(self, coefficients: FloatArray) -> NodeState:
        """Poses and forces without derivatives."""
        state = self.poses.evaluate(coefficients, gradients=False)
        qdd = self._free_fall_accelerations(state)
        total = compute_aggregate(self.space.tree, state.q, state.qd, qdd, gravity=self.gravity)
        torque = self._torque(state.take(self.heavy), qdd, total.wrench) if self.has_torque else None
        return NodeState(state, total.wrench / self.weight, total.momentum[:, 3:], torque)

    def derivatives(self, coefficients: FloatArray) -> NodeState:
        """Poses and forces with their derivatives."""
        state = self.poses.evaluate(coefficients)
        qdd = self._free_fall_accelerations(state)
        tree, moving, heavy = self.space.tree, self.space.moving, self.heavy
        total = compute_aggregate_jacobians(tree, state.q, state.qd, qdd, gravity=self.gravity)
        forces = state.chain(moving, (total.df_dq, total.df_dqd, total.df_dqdd))
        spins = _rate_chain(state, moving, total.dp_dq[:, 3:], total.dp_dqd[:, 3:])
        torque, torque_blocks = None, None
        if self.has_torque:
            part = state.take(heavy)
            torque = self._torque(part, qdd, total.wrench)
            raw = compute_torque_jacobians(
                tree, part.q, part.qd, qdd[heavy], joints=self.actuated, gravity=self.gravity
            )
            pushes = (forces[0][heavy], forces[1][heavy], forces[2][heavy])
            torque_blocks = self._with_contact(part, total.wrench[heavy], pushes, part.chain(moving, raw))
        scaled = (forces[0] / self.weight, forces[1] / self.weight, forces[2] / self.weight)
        wrench = total.wrench / self.weight
        return NodeState(state, wrench, total.momentum[:, 3:], torque, scaled, spins, torque_blocks)

    def centre(self, frame: NodeState, nodes: IntArray) -> PointMotion:
        """Motion of the centre of mass at some nodes."""
        state = frame.state
        return compute_com_motion(self.space.tree, state.q[nodes], state.qd[nodes], state.qdd[nodes])

    def _torque(self, part: PoseState, qdd: FloatArray, wrench: FloatArray) -> FloatArray:
        """Torques ``(N', D - 6)`` of the joints at the nodes that count."""
        free = compute_torques(self.space.tree, part.q, part.qd, qdd[self.heavy], gravity=self.gravity)[:, 6:]
        return free - self._contact_torque(part, wrench[self.heavy])

    def _free_fall_accelerations(self, state: PoseState) -> FloatArray:
        """Accelerations with the root of flying bodies in free fall: no force acts on them."""
        qdd = state.qdd.copy()
        qdd[self.poses.flying, self.space.root[1]] -= self.gravity
        return qdd

    def _contact_torque(self, state: PoseState, wrench: FloatArray) -> FloatArray:
        """Torques ``(N, D - 6)`` that the ground causes at the legs that stand on it."""
        out = np.zeros((len(wrench), len(self.actuated)))
        for leg in (0, 1):
            own = np.einsum("nij,nj->ni", self.shares[:, leg], wrench)
            twists = self._loaded_twists(leg, state.twists[:, leg])
            lines = twists[:, :, 3:] @ own[:, :3, None] + twists[:, :, :3] @ own[:, 3:, None]
            out[:, self._leg(leg).dofs - 6] = lines[:, :, 0]
        return out

    def _with_contact(
        self, state: PoseState, wrench: FloatArray, forces: StateBlocks, blocks: StateBlocks
    ) -> StateBlocks:
        """Take the derivatives of the ground's torques off those of a body without ground."""
        for leg in (0, 1):
            shares, dofs = self.shares[:, leg], self._leg(leg).dofs - 6
            twists = self._loaded_twists(leg, state.twists[:, leg])
            turned = np.concatenate([twists[:, :, 3:], twists[:, :, :3]], axis=2) @ shares
            for block, force in zip(blocks, forces, strict=True):
                block[:, dofs] -= turned @ force
            own = np.einsum("nij,nj->ni", shares, wrench)
            swapped = np.concatenate([own[:, 3:], own[:, :3]], axis=1)
            gradient = self._loaded_twists(leg, state.twist_gradient[:, leg])
            blocks[0][:, dofs] -= np.einsum("njks,nk->njs", gradient, swapped)
        return blocks

    def _loaded_twists(self, leg: int, twists: FloatArray) -> FloatArray:
        """Twists of a leg's angles; the toe bears only while the foot stands on its toes."""
        feet = self.poses.nodes.feet[self.heavy, leg]
        out = twists.copy()
        out[feet == FREE] = 0.0
        out[feet != ON_TOES, 7] = 0.0
        return out

    def _leg(self, leg: int) -> Leg:
        return self.space.legs[leg]


def _rate_chain(state: PoseState, moving: IntArray, dq: FloatArray, dqd: FloatArray) -> StateBlocks:
    """As :meth:`PoseState.chain` for what does not depend on accelerations."""
    return dq @ state.G + dqd[..., moving] @ state.Gd, dqd @ state.G, np.zeros_like(dqd @ state.G)
