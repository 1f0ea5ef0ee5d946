r"""Compiled coordinates of a solve: every joint of the body, or the few of a pose model.

Full space: the root's place, then three for each joint, in its own axes, :math:`g \leftarrow g \exp(\delta)`;
limited joints are moved by their rotation vectors. Reduced space: the root's place, its turn, the model's coordinates.
"""

from __future__ import annotations

from math import cos, sin
from typing import NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, kernel
from marey.kinematics.ik.active_set import clamp_coordinates, pose_joint, project_to_box, turn_rotation
from marey.kinematics.ik.state import (
    Goals,
    IKLayout,
    IKState,
    LinearRows,
    evaluate_pose,
    linearise,
)
from marey.lie.kernels import multiply, quaternion_at, rotate, row3, write_right_jacobian
from marey.models.projection import model_jacobian, model_rotations


class ModelSpace(NamedTuple):
    """A pose model as arrays; in the full space it has no coordinates."""

    is_reduced: bool
    kind: int
    mean_wxyz: FloatArray  # (J, 4)
    basis: FloatArray  # (J, 3, k)
    stiffness: FloatArray  # (k,) springs on the coordinates
    reference: FloatArray  # (k,) where they pull
    bound: FloatArray  # (k,) largest absolute value of each coordinate; infinite without limits
    deviations: FloatArray  # (k,) standard deviation of each coordinate
    radius: float  # [-] largest Mahalanobis length of the coordinates; infinite without limits
    wall: float  # weight of the squared length beyond it
    rods: FloatArray  # (J, 3) [m] end of each joint's rod in its frame, for the kinetic metric


class DenseModel(NamedTuple):
    """A linear model of the objective: rows of weight one, n coordinates. Limits add rows below those of the goals."""

    J: FloatArray  # (m, n)
    e: FloatArray  # (m,) what is missing
    H: FloatArray  # (n, n) scratch of the normal equations
    g: FloatArray  # (n,) gradient of the objective
    s: FloatArray  # (n,) springs
    step: FloatArray  # (n,)
    taken: FloatArray  # (n,) what limits left of the step
    free: BoolArray  # (n,) coordinates that may move
    room: FloatArray  # (2, n) smallest and largest step of each coordinate


@kernel
def new_dense_model(m: int, n: int) -> DenseModel:
    """Room for a linear model of m rows and n coordinates."""
    room = np.full((2, n), np.inf)
    room[0] = -np.inf
    return DenseModel(
        np.zeros((m, n)),
        np.zeros(m),
        np.zeros((n, n)),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.ones(n, dtype=np.bool_),
        room,
    )


@kernel
def num_coordinates(layout: IKLayout, space: ModelSpace) -> int:
    """How many numbers a step has."""
    return 6 + space.basis.shape[2] if space.is_reduced else 3 + 3 * layout.tree.parents.shape[0]


@kernel
def evaluate_state(layout: IKLayout, space: ModelSpace, goals: Goals, state: IKState) -> float:
    """Work out everything from the pose (root, wxyz, or x in the reduced space) and return the objective."""
    if space.is_reduced:
        # The model gives the joints below the root; the root's own rotation stays
        a, b, c, d = quaternion_at(state.wxyz, 0)
        model_rotations(space.kind, space.mean_wxyz, space.basis, state.x, state.wxyz)
        state.wxyz[0, 0], state.wxyz[0, 1], state.wxyz[0, 2], state.wxyz[0, 3] = a, b, c, d
    cost = evaluate_pose(layout, goals, state)
    for i in range(space.stiffness.shape[0]):
        away = state.x[i] - space.reference[i]
        cost += space.stiffness[i] * away * away
    if space.is_reduced and space.radius < np.inf:
        over = max(mahalanobis_length(space, state.x) - space.radius, 0.0)
        cost += space.wall * over * over
    return cost


@kernel
def mahalanobis_length(space: ModelSpace, x: FloatArray) -> float:
    r"""Length :math:`\|\Lambda^{-1} x\|` of coordinates in standard deviations ([Tournier2011]_ §8.2.2)."""
    square = 0.0
    for i in range(x.shape[0]):
        square += (x[i] / space.deviations[i]) ** 2
    return np.sqrt(square)


@kernel
def project_coordinates(space: ModelSpace, x: FloatArray) -> None:
    """Bring coordinates inside their ellipsoid, by a common factor, and each inside its bound."""
    part = 1.0
    if space.radius < np.inf:
        part = min(1.0, space.radius / max(mahalanobis_length(space, x), 1e-300))
    for i in range(x.shape[0]):
        x[i] = min(max(part * x[i], -space.bound[i]), space.bound[i])


@kernel
def project_and_evaluate(layout: IKLayout, space: ModelSpace, goals: Goals, state: IKState) -> float:
    """Bring limited joints into their boxes, or the coordinates of a model into their bounds, then evaluate."""
    if space.is_reduced:
        project_coordinates(space, state.x)
    else:
        project_to_box(layout.box, state.wxyz, state.vectors)
    return evaluate_state(layout, space, goals, state)


@kernel
def write_jacobian(
    layout: IKLayout, space: ModelSpace, goals: Goals, state: IKState, rows: LinearRows, J: FloatArray
) -> None:
    """Write the Jacobian ``(3 B, n)`` of the blocks; columns of frozen joints are zero."""
    linearise(layout, goals, state, rows)
    # World axes of each joint's coordinates: its own axes, or those of its limited coordinates
    for j in range(state.wxyz.shape[0]):
        for c in range(3):
            axis = (1.0 if c == 0 else 0.0, 1.0 if c == 1 else 0.0, 1.0 if c == 2 else 0.0)
            x, y, z = rotate(quaternion_at(state.world, j), axis)
            rows.frames[j, 0, c], rows.frames[j, 1, c], rows.frames[j, 2, c] = x, y, z
    if space.is_reduced:
        model_jacobian(space.kind, space.mean_wxyz, space.basis, state.x, rows.model)
    else:
        # World axes of the coordinates of limited joints: the turn for each of them. Of rotation vectors they are
        # those of R_world_j J_r(v_j); with D = exp(s) exp(t) the turn in the axes of D is exp(t)^-1 J_r(s) s' + t' e_x
        turn = np.empty((3, 3))
        for j in range(rows.frames.shape[0]):
            if not layout.box.boxed[j]:
                continue
            q, (x, y, z) = quaternion_at(state.world, j), row3(state.vectors, j)
            if layout.box.is_swing[j]:
                write_right_jacobian((0.0, x, y), turn)
                cosine, sine = cos(z), sin(z)
                for c in range(2):
                    # Columns of the two swings, turned back by the twist
                    u, v, w = turn[0, 1 + c], turn[1, 1 + c], turn[2, 1 + c]
                    turn[0, c], turn[1, c], turn[2, c] = u, cosine * v + sine * w, cosine * w - sine * v
                turn[0, 2], turn[1, 2], turn[2, 2] = 1.0, 0.0, 0.0
                q = multiply(q, quaternion_at(layout.box.after, j))
            else:
                write_right_jacobian((x, y, z), turn)
            for c in range(3):
                u, v, w = rotate(q, (turn[0, c], turn[1, c], turn[2, c]))
                rows.frames[j, 0, c], rows.frames[j, 1, c], rows.frames[j, 2, c] = u, v, w
    # Each block moves with the root's place and with the joints of its chain
    J[:] = 0.0
    mobility, lists, last = layout.springs.mobility, layout.lists, state.wxyz.shape[0]
    for b in range(state.errors.shape[0]):
        for r in range(3):
            for c in range(3):
                J[3 * b + r, c] = rows.shifts[b, r, c] if mobility[last] > 0.0 else 0.0
        for i in range(lists.chain_start[b], lists.chain_start[b + 1]):
            j = lists.chain[i]
            if mobility[j] > 0.0:
                # What the turn of joint j, row i of the chains, does to block b
                for r in range(3):
                    x = y = z = 0.0
                    for c in range(3):
                        x += rows.turns[i, r, c] * rows.frames[j, c, 0]
                        y += rows.turns[i, r, c] * rows.frames[j, c, 1]
                        z += rows.turns[i, r, c] * rows.frames[j, c, 2]
                    row = J[3 * b + r]
                    if not space.is_reduced or j == 0:
                        row[3 + 3 * j], row[4 + 3 * j], row[5 + 3 * j] = x, y, z
                        continue
                    for k in range(space.basis.shape[2]):
                        row[6 + k] += x * rows.model[j, 0, k] + y * rows.model[j, 1, k] + z * rows.model[j, 2, k]


@kernel
def whiten_rows(weights: FloatArray, errors: FloatArray, J: FloatArray, e: FloatArray) -> None:
    """Turn blocks into rows of weight one: with W = U^T U, write U e ``(3 B,)`` and replace J by U J."""
    U = np.zeros((3, 3))
    for b in range(errors.shape[0]):
        # Cholesky: W = U^T U
        U[:] = weights[b]
        for k in range(3):
            U[k, k] = np.sqrt(max(U[k, k], 0.0))
            for c in range(k + 1, 3):
                U[k, c] = U[k, c] / U[k, k] if U[k, k] > 0.0 else 0.0
            for i in range(k + 1, 3):
                for c in range(i, 3):
                    U[i, c] -= U[k, i] * U[k, c]
        # The rows of the block, from the left times U
        for r in range(3):
            e[3 * b + r] = 0.0
            for c in range(r, 3):
                e[3 * b + r] += U[r, c] * errors[b, c]
            for n in range(J.shape[1]):
                total = 0.0
                for c in range(r, 3):
                    total += U[r, c] * J[3 * b + c, n]
                J[3 * b + r, n] = total


@kernel
def linearise_objective(
    layout: IKLayout, space: ModelSpace, goals: Goals, state: IKState, rows: LinearRows, at: DenseModel
) -> float:
    """Write residuals, Jacobian, gradient, springs and what may move, weights taken in; return the largest slope."""
    J = at.J[: 3 * state.errors.shape[0]]
    write_jacobian(layout, space, goals, state, rows, J)
    whiten_rows(layout.blocks.weights, state.errors, J, at.e)
    compute_gradient(layout, space, state, rows, at)
    if space.is_reduced and space.radius < np.inf and at.J.shape[0] > len(J):
        # The residual of the length beyond the ellipsoid, and what it adds to the gradient
        row = len(J)
        length = mahalanobis_length(space, state.x)
        over = max(length - space.radius, 0.0)
        at.J[row], at.e[row] = 0.0, -np.sqrt(space.wall) * over
        if over > 0.0:
            for i in range(state.x.shape[0]):
                at.J[row, 6 + i] = np.sqrt(space.wall) * state.x[i] / (length * space.deviations[i] ** 2)
                at.g[6 + i] -= 2.0 * at.J[row, 6 + i] * at.e[row]
                # The curvature of the length, across it
                at.s[6 + i] += space.wall * over / (length * space.deviations[i] ** 2)
    # Coordinates that may move are not frozen and not pressed on a bound
    g, free, largest, last = at.g, at.free, 0.0, state.wxyz.shape[0]
    free[:] = True
    for n in range(g.shape[0]):
        j = last if n < 3 else (n - 3) // 3
        if space.is_reduced and n >= 6:
            j = last + 1
        if j <= last and layout.springs.mobility[j] == 0.0:
            free[n] = False
        elif j < last and not space.is_reduced and layout.box.boxed[j]:
            v, c = state.vectors[j, (n - 3) % 3], (n - 3) % 3
            at_low, at_high = v <= layout.box.low[j, c], v >= layout.box.high[j, c]
            free[n] = not ((at_low and g[n] >= 0.0) or (at_high and g[n] <= 0.0))
        elif j > last:
            v, most = state.x[n - 6], space.bound[n - 6]
            at.room[0, n], at.room[1, n] = -most - v, most - v
            free[n] = not ((v <= -most and g[n] >= 0.0) or (v >= most and g[n] <= 0.0))
        if free[n]:
            largest = max(largest, abs(g[n]))
    return largest


@kernel
def compute_gradient(layout: IKLayout, space: ModelSpace, state: IKState, rows: LinearRows, at: DenseModel) -> None:
    """Write the gradient g ``(n,)`` of the objective, and the springs s ``(n,)`` on each coordinate."""
    J, e, g, s, last = at.J, at.e, at.g, at.s, state.wxyz.shape[0]
    # -2 J^T e of the goals
    for n in range(g.shape[0]):
        total = 0.0
        for r in range(3 * state.errors.shape[0]):
            total += J[r, n] * e[r]
        g[n], s[n] = -2.0 * total, 0.0
    # Springs on the root's place, on the joints, on the coordinates of a model
    for c in range(3):
        g[c] += 2.0 * state.pulls[last, c]
        s[c] = layout.springs.stiffness[last]
    for j in range(1 if space.is_reduced else last):
        for c in range(3):
            for k in range(3):
                g[3 + 3 * j + c] += 2.0 * rows.frames[j, k, c] * state.pulls[j, k]
            s[3 + 3 * j + c] = layout.springs.stiffness[j]
    for i in range(space.stiffness.shape[0]):
        g[6 + i] += 2.0 * space.stiffness[i] * (state.x[i] - space.reference[i])
        s[6 + i] = space.stiffness[i]


@kernel
def retract(
    layout: IKLayout, space: ModelSpace, old: IKState, step: FloatArray, new: IKState, taken: FloatArray
) -> float:
    """Write the pose after a step ``(n,)``, and the step that limits left of it; return its largest component."""
    largest = 0.0
    # The root's place by the step; joints by their coordinates where limited, else by a turn in their own axes
    for c in range(3):
        new.root[c] = old.root[c] + step[c]
    taken[:] = step
    for j in range(1 if space.is_reduced else old.wxyz.shape[0]):
        x, y, z = step[3 + 3 * j], step[4 + 3 * j], step[5 + 3 * j]
        if not space.is_reduced and layout.box.boxed[j]:
            low, high, v = row3(layout.box.low, j), row3(layout.box.high, j), row3(old.vectors, j)
            wanted = (
                min(max(v[0] + x, low[0]), high[0]),
                min(max(v[1] + y, low[1]), high[1]),
                min(max(v[2] + z, low[2]), high[2]),
            )
            wanted = clamp_coordinates(layout.box.is_swing[j], v, wanted)
            for c in range(3):
                new.vectors[j, c], taken[3 + 3 * j + c] = wanted[c], wanted[c] - v[c]
            q = pose_joint(layout.box, j, wanted)
        else:
            q = turn_rotation(quaternion_at(old.wxyz, j), (x, y, z))
        new.wxyz[j, 0], new.wxyz[j, 1], new.wxyz[j, 2], new.wxyz[j, 3] = q
    for i in range(old.x.shape[0]):
        new.x[i] = min(max(old.x[i] + step[6 + i], -space.bound[i]), space.bound[i])
        taken[6 + i] = new.x[i] - old.x[i]
    for n in range(taken.shape[0]):
        largest = max(largest, abs(taken[n]))
    return largest
