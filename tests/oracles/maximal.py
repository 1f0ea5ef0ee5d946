r"""Maximal coordinates: every segment is a rigid body of its own, and multipliers hold the joints together.

The multipliers solve :math:`J M^{-1} J^T \lambda = b - J v^*`. [Tournier2011]_ §10.1.2 and §11.1.1, kept as a baseline
and as a check of the full space: it drifts apart, and it costs a dense system of three rows a joint.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import ConvergenceError, FloatArray, InputError, IntArray, frozen, kernel
from marey.dynamics import GRAVITY, Body
from marey.lie import SO3
from marey.simulate.bounded_qp import solve_symmetric
from marey.simulate.forces import ForceArrays, PointForce, pack_forces
from marey.simulate.simulator import check_step
from marey.skeleton import Pose, t_pose


@kernel
def joint_blocks(turns: FloatArray, arms: FloatArray, bodies: IntArray) -> FloatArray:
    r"""Blocks ``(N, 2, 3, 6)`` of the Jacobian of the gaps: :math:`\pm(-R\hat r, I)` of child and parent."""
    out = np.zeros((bodies.shape[0], 2, 3, 6))
    for n in range(bodies.shape[0]):
        for side in range(2):
            sign, b = 1.0 - 2.0 * side, bodies[n, side]
            x, y, z = arms[n, side, 0], arms[n, side, 1], arms[n, side, 2]
            for r in range(3):
                u, v, w = sign * turns[b, r, 0], sign * turns[b, r, 1], sign * turns[b, r, 2]
                out[n, side, r, 0], out[n, side, r, 1], out[n, side, r, 2] = w * y - v * z, u * z - w * x, v * x - u * y
                out[n, side, r, 3 + r] = sign
    return out


@kernel
def project_velocity(
    blocks: FloatArray, bodies: IntArray, inverse: FloatArray, free: FloatArray, target: FloatArray
) -> tuple[FloatArray, bool]:
    """Velocity ``(B, 6)`` nearest to a free one, in the metric of the masses, whose gaps ``(N, 3)`` close at a rate.

    Args:
        blocks: see ``joint_blocks``.
        bodies: child and parent ``(N, 2)`` of each joint.
        inverse: inverse inertia ``(B, 6, 6)`` of each body.
        free: velocity ``(B, 6)`` without joints.
        target: rate ``(N, 3)`` [m/s] of each gap.
    """
    count = bodies.shape[0]
    weighted = np.zeros(blocks.shape)
    rhs = target.copy().reshape(3 * count)
    for n in range(count):
        for side in range(2):
            b = bodies[n, side]
            for r in range(3):
                for i in range(6):
                    rhs[3 * n + r] -= blocks[n, side, r, i] * free[b, i]
                    for m in range(6):
                        weighted[n, side, r, i] += blocks[n, side, r, m] * inverse[b, m, i]
    multipliers, is_definite = solve_symmetric(_multiplier_matrix(blocks, weighted, bodies), rhs)
    out = free.copy()
    for n in range(count):
        for side in range(2):
            for r in range(3):
                for i in range(6):
                    out[bodies[n, side], i] += weighted[n, side, r, i] * multipliers[3 * n + r]
    return out, is_definite


@kernel
def _multiplier_matrix(blocks: FloatArray, weighted: FloatArray, bodies: IntArray) -> FloatArray:
    """Matrix ``(3 N, 3 N)`` of the multipliers; joints that share no body do not see one another."""
    count = bodies.shape[0]
    out = np.zeros((3 * count, 3 * count))
    for n in range(count):
        for m in range(count):
            for side in range(2):
                for other in range(2):
                    if bodies[n, side] != bodies[m, other]:
                        continue
                    for r in range(3):
                        for c in range(3):
                            for i in range(6):
                                out[3 * n + r, 3 * m + c] += weighted[n, side, r, i] * blocks[m, other, c, i]
    return out


STABILISATION: Final = 0.2  # of a gap that is closed in one step


@dataclass(frozen=True, slots=True, eq=False)
class MaximalState:
    """Rigid bodies, one a segment with mass: B of them."""

    centres: FloatArray  # (B, 3) [m] centres of mass in world
    rotations: SO3  # batch (B,) in world
    angular: FloatArray  # (B, 3) [rad/s] each in its own frame
    linear: FloatArray  # (B, 3) [m/s] of the centres in world
    time_s: float = 0.0
    step_s: float = 0.0  # [s] length of the last step


class MaximalSimulator:
    r"""A ragdoll of rigid bodies: :math:`Mv = f + J^T\lambda`, :math:`Jv = -\gamma\,c/dt`.

    Joints are balls. What carries no mass is welded to what it hangs on, in the pose of ``reset``.

    Args:
        body: skeleton with masses; the root must carry some.
        gravity: acceleration ``(3,)`` [m/s²] in world.
        stabilisation: share γ of each joint's gap c that a step closes, 0 to 1.
    """

    def __init__(
        self,
        body: Body,
        *,
        gravity: ArrayLike = (0.0, -GRAVITY, 0.0),
        stabilisation: float = STABILISATION,
    ) -> None:
        if not 0.0 <= stabilisation <= 1.0:
            raise InputError(f"stabilisation is {stabilisation}", "Give a share from 0 to 1")
        if not body.masses[0] > 0.0:
            raise InputError("the root carries no mass", "Give it some, or use Simulator")
        self.body, self.gravity, self.stabilisation = body, frozen(gravity, 3, name="gravity"), float(stabilisation)
        self._heavy = np.flatnonzero(body.masses > 0.0)
        # Number of the rigid body that each joint `(J,)` is part of: its own, or that of what it hangs on
        out, count = np.zeros(body.skeleton.num_joints, dtype=np.int64), 0
        for j, parent in enumerate(body.skeleton.parents):
            if body.masses[j] > 0.0:
                out[j] = count
                count += 1
            else:
                out[j] = out[parent]
        self._carriers = out
        self.reset()

    def reset(
        self, pose: Pose | None = None, *, angular: ArrayLike | None = None, linear: ArrayLike | None = None
    ) -> MaximalState:
        """Put the bodies into a pose, at rest or with velocities of all segments.

        Args:
            pose: by default the T-pose.
            angular: angular velocities ``(J, 3)`` [rad/s] in world.
            linear: velocities ``(J, 3)`` [m/s] of the centres of mass in world.
        """
        pose = t_pose(self.body.skeleton) if pose is None else pose
        if pose.skeleton.names != self.body.skeleton.names:
            raise InputError("the pose has other joints than the body", "Retarget the pose to the body's skeleton")
        # Places `(J, 3)` [m] and rotations of all joints in world, on the body's own skeleton
        skeleton = self.body.skeleton
        places, turns = [pose.root_position], [pose.rotations[0]]
        for j in range(1, skeleton.num_joints):
            p = int(skeleton.parents[j])
            places.append(places[p] + turns[p] @ skeleton.offsets[j])
            turns.append(turns[p] @ pose.rotations[j])
        places = np.stack(places)
        turns = SO3.stack(turns)
        self._welded = pose.rotations.wxyz
        # Joints `(N, 2, 3)` of all bodies but the first, seen from their own centre and from their parent's
        child, parent = self._heavy[1:], self._heavy[self._parents]
        theirs = places[parent] + turns[parent] @ self.body.centres[parent]
        self._arms = np.stack([-self.body.centres[child], turns[parent].inverse() @ (places[child] - theirs)], axis=1)
        count, heavy = self.body.skeleton.num_joints, self._heavy
        omega = np.zeros((count, 3)) if angular is None else frozen(angular, count, 3, name="angular")
        speed = np.zeros((count, 3)) if linear is None else frozen(linear, count, 3, name="linear")
        centres = places[heavy] + turns[heavy] @ self.body.centres[heavy]
        self._state = MaximalState(centres, turns[heavy], turns[heavy].inverse() @ omega[heavy], speed[heavy])
        return self._state

    @property
    def state(self) -> MaximalState:
        """Where the bodies are and how they move."""
        return self._state

    @property
    def gaps(self) -> FloatArray:
        """How far each joint is torn apart ``(N, 3)`` [m] in world."""
        state, children, parents = self._state, self._children, self._parents
        mine = state.centres[children] + state.rotations[children] @ self._arms[:, 0]
        return mine - state.centres[parents] - state.rotations[parents] @ self._arms[:, 1]

    @property
    def pose(self) -> Pose:
        """The pose; joints that are torn apart are drawn as if they were not."""
        skeleton, turns = self.body.skeleton, np.array(self._welded)
        world: list[SO3] = []
        for j in range(skeleton.num_joints):
            n, parent = int(self._carriers[j]), int(skeleton.parents[j])
            is_heavy = self._heavy[n] == j
            above = SO3.identity() if parent < 0 else world[parent]
            world.append(self._state.rotations[n] if is_heavy else above @ SO3(self._welded[j]))
            turns[j] = (above.inverse() @ world[j]).wxyz
        root = self._state.centres[0] - self._state.rotations[0] @ self.body.centres[0]
        return Pose(skeleton, root, SO3(turns))

    def step(self, dt: float, forces: Iterable[PointForce] = ()) -> MaximalState:
        """Move on by ``dt`` [s] under gravity and forces from outside."""
        h, state = check_step(dt), self._state
        inverse = np.zeros((len(self._heavy), 6, 6))
        inverse[:, :3, :3] = np.linalg.inv(self.body.inertias[self._heavy])
        inverse[:, 3:, 3:] = np.eye(3) / self.body.masses[self._heavy, None, None]
        free = np.einsum("bij,bj->bi", inverse, self._free_momentum(h, pack_forces(self.body.skeleton, forces)))
        bodies = np.stack([self._children, self._parents], axis=1)
        blocks = joint_blocks(state.rotations.matrix(), self._arms, bodies)
        moved, is_definite = project_velocity(blocks, bodies, inverse, free, -self.stabilisation * self.gaps / h)
        if not is_definite or not np.isfinite(moved).all():
            raise ConvergenceError(f"the joints cannot be held at {state.time_s:.3f} s", report=state)
        angular, linear = moved[:, :3], moved[:, 3:]
        centres, rotations = state.centres + h * linear, state.rotations @ SO3.exp(h * angular)
        self._state = MaximalState(centres, rotations, angular, linear, state.time_s + h, h)
        return self._state

    def momentum(self) -> FloatArray:
        """Angular momentum about the centre of mass, and linear, ``(6,)`` in world, at the start of the last step."""
        state, masses = self._state, self.body.masses[self._heavy]
        before = state.rotations @ SO3.exp(-state.step_s * state.angular)
        places = state.centres - state.step_s * state.linear
        spins = before @ np.einsum("bij,bj->bi", self.body.inertias[self._heavy], state.angular)
        speeds = masses[:, None] * state.linear
        com = masses @ places / masses.sum()
        return np.concatenate([(spins + np.cross(places - com, speeds)).sum(axis=0), speeds.sum(axis=0)])

    @property
    def _children(self) -> IntArray:
        return np.arange(1, len(self._heavy))

    @property
    def _parents(self) -> IntArray:
        above: IntArray = self.body.skeleton.parents[self._heavy[1:]]
        return self._carriers[above]

    def _free_momentum(self, h: float, pushes: ForceArrays) -> FloatArray:
        """Momentum ``(B, 6)`` at the end of a step without joints: turning bodies keep theirs in world."""
        state, masses = self._state, self.body.masses[self._heavy]
        spins = np.einsum("bij,bj->bi", self.body.inertias[self._heavy], state.angular)
        carried = SO3.exp(-state.step_s * state.angular) @ spins
        out = np.concatenate([carried, masses[:, None] * (state.linear + h * self.gravity)], axis=1)
        for joint, offset, force in zip(*pushes, strict=True):
            n = self._carriers[joint]
            if self._heavy[n] != joint:
                raise InputError(f"'{self.body.skeleton.names[joint]}' carries no mass", "Push a joint that does")
            arm = state.rotations[n] @ (offset - self.body.centres[joint])
            out[n, :3] += h * (state.rotations[n].inverse() @ np.cross(arm, force))
            out[n, 3:] += h * force
        return out
