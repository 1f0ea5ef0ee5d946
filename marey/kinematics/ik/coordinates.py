r"""Compiled coordinates of a solve: every joint of the body, or the few of a pose model.

Full space: the root's place, then three for each joint, in its own axes, :math:`g \leftarrow g \exp(\delta)`;
limited joints are moved by their rotation vectors. Reduced space: the root's place, its turn, the model's coordinates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, kernel
from marey.kinematics.ik.moves import clamp_vector, compute_box_frames, project_to_box
from marey.kinematics.ik.state import (
    IKLayout,
    evaluate_prior,
    evaluate_residuals,
    forward_kinematics,
    linearise,
    rotate_vector,
)
from marey.lie.kernels import exponential, product
from marey.models.evaluation import model_jacobian, model_rotations


class ModelSpace(NamedTuple):
    """A pose model as arrays; in the full space it has no coordinates."""

    is_reduced: bool
    kind: int
    mean_wxyz: FloatArray  # (J, 4)
    basis: FloatArray  # (J, 3, k)
    stiffness: FloatArray  # (k,) springs on the coordinates
    reference: FloatArray  # (k,) where they pull


class IKState(NamedTuple):
    """A pose, and all that is worked out from it."""

    root: FloatArray  # (3,) [m]
    wxyz: FloatArray  # (J, 4)
    vectors: FloatArray  # (J, 3) [rad] rotation vectors of limited joints
    x: FloatArray  # (k,) coordinates of the model
    positions: FloatArray  # (J, 3) [m]
    world: FloatArray  # (J, 4)
    errors: FloatArray  # (B, 3)
    places: FloatArray  # (B, 3) [m]
    pulls: FloatArray  # (J + 1, 3)


class LinearRows(NamedTuple):
    """Scratch of the linearisation."""

    shifts: FloatArray  # (B, 3, 3)
    turns: FloatArray  # (N, 3, 3)
    frames: FloatArray  # (J, 3, 3)
    model: FloatArray  # (J, 3, k)


@kernel
def new_state(layout: IKLayout, root: FloatArray, wxyz: FloatArray, x: FloatArray) -> IKState:
    """A state that holds copies of a pose."""
    joints, blocks = wxyz.shape[0], layout.blocks.kinds.shape[0]
    return IKState(
        root.copy(),
        wxyz.copy(),
        np.zeros((joints, 3)),
        x.copy(),
        np.zeros((joints, 3)),
        np.zeros((joints, 4)),
        np.zeros((blocks, 3)),
        np.zeros((blocks, 3)),
        np.zeros((joints + 1, 3)),
    )


@kernel
def new_rows(layout: IKLayout, space: ModelSpace) -> LinearRows:
    """Room for a linearisation."""
    joints, blocks = layout.tree.parents.shape[0], layout.blocks.kinds.shape[0]
    return LinearRows(
        np.zeros((blocks, 3, 3)),
        np.zeros((layout.lists.chain.shape[0], 3, 3)),
        np.zeros((joints, 3, 3)),
        np.zeros((joints, 3, space.basis.shape[2])),
    )


@kernel
def num_coordinates(layout: IKLayout, space: ModelSpace) -> int:
    """How many numbers a step has."""
    return 6 + space.basis.shape[2] if space.is_reduced else 3 + 3 * layout.tree.parents.shape[0]


@kernel
def evaluate_state(
    layout: IKLayout, space: ModelSpace, targets: FloatArray, active: BoolArray, state: IKState
) -> float:
    """Work out everything from the pose (root, wxyz, or x in the reduced space) and return the objective."""
    if space.is_reduced:
        a, b, c, d = state.wxyz[0, 0], state.wxyz[0, 1], state.wxyz[0, 2], state.wxyz[0, 3]
        model_rotations(space.kind, space.mean_wxyz, space.basis, state.x, state.wxyz)
        state.wxyz[0, 0], state.wxyz[0, 1], state.wxyz[0, 2], state.wxyz[0, 3] = a, b, c, d
    forward_kinematics(layout.tree, state.root, state.wxyz, state.positions, state.world)
    cost = evaluate_residuals(layout, targets, active, state.positions, state.world, state.errors, state.places)
    if layout.springs.stiffness.any():
        cost += evaluate_prior(layout.springs, state.root, state.wxyz, state.world, state.pulls)
    for i in range(space.stiffness.shape[0]):
        away = state.x[i] - space.reference[i]
        cost += space.stiffness[i] * away * away
    return cost


@kernel
def project_and_evaluate(
    layout: IKLayout, space: ModelSpace, targets: FloatArray, active: BoolArray, state: IKState
) -> float:
    """Bring limited joints into their boxes, then evaluate."""
    if not space.is_reduced:
        project_to_box(layout.box, state.wxyz, state.vectors)
    return evaluate_state(layout, space, targets, active, state)


@kernel
def copy_state(source: IKState, target: IKState) -> None:
    """Overwrite one state by another."""
    target.root[:], target.wxyz[:], target.vectors[:], target.x[:] = source.root, source.wxyz, source.vectors, source.x
    target.positions[:], target.world[:], target.errors[:] = source.positions, source.world, source.errors
    target.places[:], target.pulls[:] = source.places, source.pulls


@kernel
def write_joint_axes(layout: IKLayout, space: ModelSpace, state: IKState, rows: LinearRows) -> None:
    """Write the world axes of each joint's coordinates: its own axes, or those of its rotation vector when limited."""
    for j in range(state.wxyz.shape[0]):
        for c in range(3):
            x, y, z = rotate_vector(
                state.world, j, 1.0 if c == 0 else 0.0, 1.0 if c == 1 else 0.0, 1.0 if c == 2 else 0.0
            )
            rows.frames[j, 0, c], rows.frames[j, 1, c], rows.frames[j, 2, c] = x, y, z
    if not space.is_reduced:
        compute_box_frames(layout.box, state.world, state.vectors, rows.frames)


@kernel
def write_jacobian(
    layout: IKLayout,
    space: ModelSpace,
    targets: FloatArray,
    active: BoolArray,
    state: IKState,
    rows: LinearRows,
    J: FloatArray,
) -> None:
    """Write the Jacobian ``(3 B, n)`` of the blocks; columns of frozen joints are zero."""
    linearise(
        layout, targets, active, state.positions, state.world, state.errors, state.places, rows.shifts, rows.turns
    )
    write_joint_axes(layout, space, state, rows)
    if space.is_reduced:
        model_jacobian(space.kind, space.mean_wxyz, space.basis, state.x, rows.model)
    J[:] = 0.0
    mobility, lists, last = layout.springs.mobility, layout.lists, state.wxyz.shape[0]
    for b in range(state.errors.shape[0]):
        for r in range(3):
            for c in range(3):
                J[3 * b + r, c] = rows.shifts[b, r, c] if mobility[last] > 0.0 else 0.0
        for i in range(lists.chain_start[b], lists.chain_start[b + 1]):
            j = lists.chain[i]
            if mobility[j] > 0.0:
                add_columns(space, b, i, j, rows, J)


@kernel
def add_columns(space: ModelSpace, b: int, i: int, j: int, rows: LinearRows, J: FloatArray) -> None:
    """Add what the turn of joint j, row i of the chains, does to block b."""
    for r in range(3):
        x = y = z = 0.0
        for c in range(3):
            x += rows.turns[i, r, c] * rows.frames[j, c, 0]
            y += rows.turns[i, r, c] * rows.frames[j, c, 1]
            z += rows.turns[i, r, c] * rows.frames[j, c, 2]
        if not space.is_reduced or j == 0:
            first = 3 + 3 * j
            J[3 * b + r, first], J[3 * b + r, first + 1], J[3 * b + r, first + 2] = x, y, z
            continue
        for k in range(space.basis.shape[2]):
            J[3 * b + r, 6 + k] += x * rows.model[j, 0, k] + y * rows.model[j, 1, k] + z * rows.model[j, 2, k]


@kernel
def whiten_rows(weights: FloatArray, errors: FloatArray, J: FloatArray, e: FloatArray) -> None:
    """Turn blocks into rows of weight one: with W = U^T U, write U e ``(3 B,)`` and replace J by U J."""
    U = np.zeros((3, 3))
    for b in range(errors.shape[0]):
        U[:] = weights[b]
        for k in range(3):
            U[k, k] = np.sqrt(max(U[k, k], 0.0))
            for c in range(k + 1, 3):
                U[k, c] = U[k, c] / U[k, k] if U[k, k] > 0.0 else 0.0
            for i in range(k + 1, 3):
                for c in range(i, 3):
                    U[i, c] -= U[k, i] * U[k, c]
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
    layout: IKLayout,
    space: ModelSpace,
    targets: FloatArray,
    active: BoolArray,
    state: IKState,
    rows: LinearRows,
    J: FloatArray,
    e: FloatArray,
    g: FloatArray,
    s: FloatArray,
    free: BoolArray,
) -> float:
    """Write residuals, Jacobian, gradient, springs and what may move, weights taken in; return the largest slope."""
    write_jacobian(layout, space, targets, active, state, rows, J)
    whiten_rows(layout.blocks.weights, state.errors, J, e)
    compute_gradient(layout, space, state, rows, J, e, g, s)
    return mark_free_coordinates(layout, space, state, g, free)


@kernel
def compute_gradient(
    layout: IKLayout,
    space: ModelSpace,
    state: IKState,
    rows: LinearRows,
    J: FloatArray,
    e: FloatArray,
    g: FloatArray,
    s: FloatArray,
) -> None:
    """Write the gradient g ``(n,)`` of the objective, and the springs s ``(n,)`` on each coordinate."""
    last = state.wxyz.shape[0]
    for n in range(g.shape[0]):
        total = 0.0
        for r in range(e.shape[0]):
            total += J[r, n] * e[r]
        g[n], s[n] = -2.0 * total, 0.0
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
def mark_free_coordinates(layout: IKLayout, space: ModelSpace, state: IKState, g: FloatArray, free: BoolArray) -> float:
    """Mark coordinates that may move (not frozen, not pressed on a bound); return the largest free slope."""
    largest, last = 0.0, state.wxyz.shape[0]
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
        if free[n]:
            largest = max(largest, abs(g[n]))
    return largest


@kernel
def retract(
    layout: IKLayout, space: ModelSpace, old: IKState, step: FloatArray, new: IKState, taken: FloatArray
) -> float:
    """Write the pose after a step ``(n,)``, and the step that limits left of it; return its largest component."""
    largest = 0.0
    for c in range(3):
        new.root[c] = old.root[c] + step[c]
    taken[:] = step
    for j in range(1 if space.is_reduced else old.wxyz.shape[0]):
        x, y, z = step[3 + 3 * j], step[4 + 3 * j], step[5 + 3 * j]
        if not space.is_reduced and layout.box.boxed[j]:
            x, y, z = old.vectors[j, 0] + x, old.vectors[j, 1] + y, old.vectors[j, 2] + z
            clamp_vector(layout.box, j, old.vectors, x, y, z, new.vectors)
            for c in range(3):
                taken[3 + 3 * j + c] = new.vectors[j, c] - old.vectors[j, c]
            a, b, c_, d = exponential(new.vectors[j, 0], new.vectors[j, 1], new.vectors[j, 2])
        else:
            a, b, c_, d = exponential(x, y, z)
            q = old.wxyz[j]
            a, b, c_, d = product(q[0], q[1], q[2], q[3], a, b, c_, d)
            scale = 1.5 - 0.5 * (a * a + b * b + c_ * c_ + d * d)
            a, b, c_, d = scale * a, scale * b, scale * c_, scale * d
        new.wxyz[j, 0], new.wxyz[j, 1], new.wxyz[j, 2], new.wxyz[j, 3] = a, b, c_, d
    for i in range(old.x.shape[0]):
        new.x[i] = old.x[i] + step[6 + i]
    for n in range(taken.shape[0]):
        largest = max(largest, abs(taken[n]))
    return largest
