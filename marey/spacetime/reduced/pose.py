"""From the local unknowns of a node to the coordinates of the whole body, with all derivatives.

Everything that rows and objective use is evaluated once for each point of the search.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from marey.base import FloatArray, IntArray
from marey.dynamics import (
    GRAVITY,
    JointTree,
    compute_aggregate,
    compute_aggregate_jacobians,
    compute_com_motion,
    compute_torque_jacobians,
    compute_torques,
)
from marey.spacetime.programme import StateJet
from marey.spacetime.reduced.jets import JetFunction
from marey.spacetime.reduced.layout import LEG_SLOTS
from marey.spacetime.reduced.legs import AXES_OUTPUT, NUM_ANGLES, NUM_OUTPUTS, STRETCH_ROUNDING, Leg, record_leg
from marey.spacetime.reduced.nodes import FREE, ON_TOES, CollocationNodes, NodeSupports

StateBlocks = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class ReducedSpace:
    """A body, its legs, and the poses of a behaviour: ``q = mean + modes @ a`` for amplitudes of unit variance."""

    tree: JointTree
    legs: tuple[Leg, Leg]
    root: IntArray  # (3,) coordinates of the root's position along X, Y, Z
    turns: IntArray  # (3,) coordinates of the root's angles, in order
    mean: FloatArray  # (D,)
    modes: FloatArray  # (D, d) zero where the behaviour says nothing
    offsets: FloatArray = field(default_factory=lambda: np.zeros((2, 0)))  # (2, D) added at the start and at the end
    duration_s: float = 1.0  # over which the first offset goes over into the second

    def offset_rates(self, times: FloatArray) -> FloatArray:
        r"""What is added to the poses of the behaviour, with its rates ``(N, 3, D)``.

        .. math:: \delta(t) = (1 - s)\,\delta_0 + s\,\delta_1,\quad s = 10u^3 - 15u^4 + 6u^5,\quad u = t/T
        """
        u = np.clip(times / self.duration_s, 0.0, 1.0)
        share = np.stack(
            [
                u**3 * (10.0 - 15.0 * u + 6.0 * u * u),
                30.0 * u**2 * (1.0 - u) ** 2 / self.duration_s,
                60.0 * u * (1.0 - u) * (1.0 - 2.0 * u) / self.duration_s**2,
            ],
            axis=1,
        )
        out = share[:, :, None] * (self.offsets[1] - self.offsets[0])
        out[:, 0] += self.offsets[0]
        return out

    @property
    def dimension(self) -> int:
        """How many amplitudes there are."""
        return self.modes.shape[1]

    @property
    def leg_dofs(self) -> IntArray:
        """Coordinates ``(16,)`` of both legs."""
        return np.concatenate([leg.dofs for leg in self.legs])

    @property
    def moving(self) -> IntArray:
        """Coordinates ``(19,)`` that depend on the unknowns in a curved way: root position and legs."""
        return np.concatenate([self.root, self.leg_dofs])


@dataclass(frozen=True, slots=True, eq=False)
class PoseState:
    """Poses at nodes. In flight the root is where the centre of mass is at rest in the origin."""

    y: FloatArray  # (N, 3, S) local unknowns, rates, accelerations
    q: FloatArray  # (N, D)
    qd: FloatArray
    qdd: FloatArray
    G: FloatArray  # (N, D, S) dq/dy
    Gd: FloatArray  # (N, 19, S) its rate, of the moving coordinates
    Gdd: FloatArray
    stretch: FloatArray  # (N, 2) square distance hip to ankle over the square of the reach; 0 of a free leg
    stretch_gradient: FloatArray  # (N, 2, S)
    twists: FloatArray  # (N, 2, 8, 6) axis and velocity of the origin of the angles of planted legs
    twist_gradient: FloatArray  # (N, 2, 8, 6, S)

    def take(self, nodes: IntArray) -> PoseState:
        """Return the poses at some of the nodes."""
        return PoseState(*(getattr(self, name)[nodes] for name in PoseState.__slots__))

    def chain(self, moving: IntArray, blocks: StateBlocks) -> StateBlocks:
        r"""Derivatives by the local unknowns of what depends on :math:`q, \dot q, \ddot q`, each ``(N, k, S)``.

        .. math:: W_y = W_q G + W_{\dot q}\dot G + W_{\ddot q}\ddot G,\quad
            W_{\dot y} = W_{\dot q} G + 2 W_{\ddot q}\dot G,\quad W_{\ddot y} = W_{\ddot q} G
        """
        dq, dqd, dqdd = blocks
        first = dq @ self.G + dqd[..., moving] @ self.Gd + dqdd[..., moving] @ self.Gdd
        second = dqd @ self.G + 2.0 * (dqdd[..., moving] @ self.Gd)
        return first, second, dqdd @ self.G


class PoseMap:
    """Evaluates poses at fixed nodes, as often as asked."""

    def __init__(self, space: ReducedSpace, nodes: CollocationNodes, rounding: float = STRETCH_ROUNDING) -> None:
        self.space, self.nodes = space, nodes
        self.functions: tuple[JetFunction, JetFunction] = (
            record_leg(space.legs[0], rounding),
            record_leg(space.legs[1], rounding),
        )
        self.planted = [np.flatnonzero(nodes.feet[:, leg] != FREE) for leg in (0, 1)]
        self.flying = np.flatnonzero(nodes.is_flight)
        # The constant part of dq/dy: without planted legs and flying roots
        d = space.dimension
        G = np.zeros((self.nodes.count, space.tree.num_dofs, self.nodes.basis.shape[1]))
        G[:, :, :d] = space.modes
        G[:, space.turns] = 0.0
        G[:, space.turns, d + np.arange(3)] = 1.0
        G[:, space.root, d + 3 + np.arange(3)] = 1.0
        for leg in (0, 1):
            dofs = space.legs[leg].dofs
            slots = d + 6 + leg * LEG_SLOTS + np.arange(LEG_SLOTS)
            G[:, dofs, slots] = 1.0
            G[self.planted[leg][:, None], dofs] = 0.0
        self._constant = G
        mean = space.mean.copy()
        mean[np.concatenate([space.root, space.turns])] = 0.0
        self._rest = np.zeros((nodes.count, 3, len(mean)))
        if space.offsets.size:
            self._rest += space.offset_rates(nodes.times)
        self._rest[:, 0] += mean

    def evaluate(self, coefficients: FloatArray, *, gradients: bool = True) -> PoseState:
        """Poses for all coefficients ``(K,)``, with their derivatives or with those left at zero."""
        space = self.space
        y = self.nodes.local(coefficients)
        count, slots = self.nodes.count, y.shape[2]
        # Upper body, root on the ground and free legs are linear in the unknowns
        states = y @ self._constant.transpose(0, 2, 1)  # (N, 3, D)
        states += self._rest
        G = self._constant.copy() if gradients else self._constant
        Gd, Gdd = np.zeros((2, count, 19, slots))
        stretch, stretch_gradient = np.zeros((count, 2)), np.zeros((count, 2, slots))
        twists, twist_gradient = np.zeros((count, 2, 8, 6)), np.zeros((count, 2, 8, 6, slots))
        for leg in (0, 1):
            nodes = self.planted[leg]
            # Slots of root position, root angles, swivel and lift
            d = space.dimension
            first = d + 6 + leg * LEG_SLOTS
            columns = np.array([d + 3, d + 4, d + 5, d, d + 1, d + 2, first, first + 1], dtype=np.int64)
            jets = np.zeros((len(nodes), NUM_OUTPUTS, 3, 9 if gradients else 1))
            self.functions[leg](y[nodes][:, :, columns], self.nodes.plants[leg, nodes], None, jets)
            # Planted legs follow from root, swivel and heel lift in closed form
            angles = jets[:, :NUM_ANGLES]
            states[nodes[:, None, None], np.arange(3)[:, None], space.legs[leg].dofs] = angles[..., 0].swapaxes(1, 2)
            stretch[nodes, leg] = jets[:, NUM_ANGLES, 0, 0]
            sticks = jets[:, AXES_OUTPUT:, 0].reshape(len(nodes), 8, 6, jets.shape[-1])
            twists[nodes, leg] = sticks[..., 0]
            if not gradients:
                continue
            # Gradients and their rates, behind the three of the root's position
            rows = 3 + leg * NUM_ANGLES + np.arange(NUM_ANGLES)
            where = (nodes[:, None, None], rows[:, None], columns)
            G[nodes[:, None, None], space.legs[leg].dofs[:, None], columns] = angles[:, :, 0, 1:]
            Gd[where], Gdd[where] = angles[:, :, 1, 1:], angles[:, :, 2, 1:]
            stretch_gradient[nodes[:, None], leg, columns] = jets[:, NUM_ANGLES, 0, 1:]
            twist_gradient[nodes[:, None], leg, :, :, columns] = sticks[..., 1:].transpose(0, 3, 1, 2)
        if len(self.flying):
            # Put the centre of mass of flying bodies at rest in the origin: p = -com(Q)
            nodes, root = self.flying, space.root
            states[nodes[:, None, None], np.arange(3)[:, None], root] = 0.0
            rates = states[nodes, 0], states[nodes, 1], states[nodes, 2]
            com = compute_com_motion(space.tree, *rates, jacobians=gradients)
            for k, value in enumerate((com.position, com.velocity, com.acceleration)):
                states[nodes[:, None], k, root] = -value
            if gradients:
                rest = G[nodes]
                G[nodes[:, None], root] = -(com.J @ rest)
                Gd[nodes[:, None], np.arange(3)] = -(com.Jd @ rest)
                Gdd[nodes[:, None], np.arange(3)] = -(com.Jdd @ rest)
        q, qd, qdd = (np.ascontiguousarray(states[:, k]) for k in range(3))
        return PoseState(y, q, qd, qdd, G, Gd, Gdd, stretch, stretch_gradient, twists, twist_gradient)


@dataclass(frozen=True, slots=True, eq=False)
class NodeState:
    """Poses at the nodes, with what forces they ask for, as jets by the local unknowns."""

    state: PoseState
    wrench: StateJet  # (N, 6) about the world's origin, over the weight [mg], [mg m]; zero in flight
    momentum: StateJet  # (N, 3) [kg m^2/s] about the centre of mass, in flight
    torque: StateJet | None  # (N', D - 6) [N m] at the nodes that count in integrals

    @property
    def has_derivatives(self) -> bool:
        """Whether the jets have columns."""
        return self.wrench.partials.shape[-1] > 0

    def jet(self, value: FloatArray, *blocks: FloatArray) -> StateJet:
        """A jet ``(n, m)`` with derivatives ``(n, m, S)`` by local unknowns, rates and accelerations; the rest is 0."""
        partials = np.zeros((3, *value.shape, self.wrench.partials.shape[-1]))
        for k, block in enumerate(blocks if self.has_derivatives else ()):
            partials[k] = block
        return StateJet(value, partials)

    def coordinates(self, nodes: IntArray, dofs: IntArray) -> StateJet:
        """One coordinate ``(n, 1)`` of each of some nodes."""
        return self.jet(self.state.q[nodes, dofs][:, None], self.state.G[nodes, dofs][:, None])


class NodeEvaluator:
    """Evaluates frames at fixed nodes."""

    def __init__(self, poses: PoseMap, supports: NodeSupports, *, gravity: float = GRAVITY, has_torque: bool) -> None:
        self.poses, self.supports, self.gravity, self.has_torque = poses, supports, gravity, has_torque
        self.space = poses.space
        self.weight = self.space.tree.mass * gravity
        self.heavy = np.flatnonzero(poses.nodes.weights > 0.0)
        self.shares = supports.shares[self.heavy]
        self.actuated = np.arange(6, self.space.tree.num_dofs)

    def evaluate(self, coefficients: FloatArray, *, derivatives: bool = False) -> NodeState:
        """Poses and forces, with their derivatives or without."""
        state = self.poses.evaluate(coefficients, gradients=derivatives)
        tree, moving, heavy = self.space.tree, self.space.moving, self.heavy
        # The root of flying bodies is in free fall: no force acts on them
        qdd = state.qdd.copy()
        qdd[self.poses.flying, self.space.root[1]] -= self.gravity
        if not derivatives:
            values = compute_aggregate(tree, state.q, state.qd, qdd, gravity=self.gravity)
            found = [values.wrench / self.weight, values.momentum[:, 3:]]
            if self.has_torque:
                found.append(self._torque(state.take(heavy), qdd, values.wrench))
            jets = [StateJet(value, np.zeros((3, *value.shape, 0))) for value in found]
            return NodeState(state, jets[0], jets[1], jets[2] if self.has_torque else None)
        total = compute_aggregate_jacobians(tree, state.q, state.qd, qdd, gravity=self.gravity)
        forces = state.chain(moving, (total.df_dq, total.df_dqd, total.df_dqdd))
        # Momentum does not depend on accelerations
        dq, dqd = total.dp_dq[:, 3:], total.dp_dqd[:, 3:]
        spins = (dq @ state.G + dqd[..., moving] @ state.Gd, dqd @ state.G, np.zeros_like(dqd @ state.G))
        torque = None
        if self.has_torque:
            part = state.take(heavy)
            raw = compute_torque_jacobians(
                tree, part.q, part.qd, qdd[heavy], joints=self.actuated, gravity=self.gravity
            )
            torque_blocks = part.chain(moving, raw)
            # Take the derivatives of the ground's torques off those of a body without ground
            for leg in (0, 1):
                shares, dofs = self.shares[:, leg], self.space.legs[leg].dofs - 6
                twists = self._loaded_twists(leg, part.twists[:, leg])
                # By the wrench, which the feet share
                turned = np.concatenate([twists[:, :, 3:], twists[:, :, :3]], axis=2) @ shares
                for block, force in zip(torque_blocks, forces, strict=True):
                    block[:, dofs] -= turned @ force[heavy]
                # By the twists, which move with the leg
                own = np.einsum("nij,nj->ni", shares, total.wrench[heavy])
                swapped = np.concatenate([own[:, 3:], own[:, :3]], axis=1)
                gradient = self._loaded_twists(leg, part.twist_gradient[:, leg])
                torque_blocks[0][:, dofs] -= np.einsum("njks,nk->njs", gradient, swapped)
            torque = StateJet(self._torque(part, qdd, total.wrench), np.stack(torque_blocks))
        wrench = StateJet(total.wrench / self.weight, np.stack(forces) / self.weight)
        return NodeState(state, wrench, StateJet(total.momentum[:, 3:], np.stack(spins)), torque)

    def _torque(self, part: PoseState, qdd: FloatArray, wrench: FloatArray) -> FloatArray:
        """Torques ``(N', D - 6)`` of the joints at the nodes that count."""
        free = compute_torques(self.space.tree, part.q, part.qd, qdd[self.heavy], gravity=self.gravity)[:, 6:]
        # Those that the ground causes at the legs that stand on it are taken off
        ground = np.zeros_like(free)
        for leg in (0, 1):
            own = np.einsum("nij,nj->ni", self.shares[:, leg], wrench[self.heavy])
            twists = self._loaded_twists(leg, part.twists[:, leg])
            lines = twists[:, :, 3:] @ own[:, :3, None] + twists[:, :, :3] @ own[:, 3:, None]
            ground[:, self.space.legs[leg].dofs - 6] = lines[:, :, 0]
        return free - ground

    def _loaded_twists(self, leg: int, twists: FloatArray) -> FloatArray:
        """Twists of a leg's angles; the toe carries load only while the foot stands on its toes."""
        feet = self.poses.nodes.feet[self.heavy, leg]
        out = twists.copy()
        out[feet == FREE] = 0.0
        out[feet != ON_TOES, 7] = 0.0
        return out
