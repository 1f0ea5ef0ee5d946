r"""State of a compiled solve: the body, the tasks and the limits as plain arrays, forward kinematics and residuals.

Every solver of this package reads these arrays and calls these kernels.

Every task is one block of three residual rows. How a block moves with the turn :math:`\omega` [rad] of a joint, in
world axes, is :math:`\dot r = (A - C [l]_\times)\,\omega` with a lever :math:`l`: a point has :math:`A = 0, C = I`,
an orientation :math:`A = J_r^{-1}, C = 0`, and so on. One form serves all of them.
"""

from __future__ import annotations

from math import atan2, sqrt
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marey.base import BoolArray, FloatArray, IntArray, inline_kernel, kernel
from marey.lie.kernels import (
    Vector,
    conjugate,
    log,
    logarithm,
    multiply,
    product,
    quaternion_at,
    rotate,
    row3,
    write_right_jacobian_inverse,
)

REACHED, STATIONARY, OUT_OF_ITERATIONS = 0, 1, 2  # how a solver ended
DIVERGED: Final = 1e12  # an objective this large has diverged
POINT: Final = 0  # position of a point of the body
ORIENTATION: Final = 1  # rotation of a joint
LOOK_AT: Final = 2  # axis of a joint through a position
COM: Final = 3  # position of the centre of mass


class JointArrays(NamedTuple):
    """The skeleton, J joints."""

    parents: IntArray  # (J,)
    offsets: FloatArray  # (J, 3) [m]


class TaskBlocks(NamedTuple):
    """Targets and weights of the B task blocks."""

    kinds: IntArray  # (B,) POINT, ORIENTATION, LOOK_AT or COM
    joints: IntArray  # (B,) carrying joint; 0 for COM
    points: FloatArray  # (B, 3) [m] in the carrying joint's frame
    aims: FloatArray  # (B, 3) unit axis in the carrying joint's frame, for LOOK_AT
    axes: FloatArray  # (B, 3) 1, or 0 along a world axis without weight, whose error does not count
    weights: FloatArray  # (B, 3, 3) W of the objective e^T W e
    softness: FloatArray  # (B, 3, 3) W^-1
    tolerances: FloatArray  # (B,) [m] or [rad]


class KinematicChains(NamedTuple):
    """Which joints move each block; N moving joints of all blocks together."""

    chain_start: IntArray  # (B + 1,) block b is moved by chain[chain_start[b]:chain_start[b + 1]]
    chain: IntArray  # (N,) joints, root first
    pair_start: IntArray  # (B (B + 1) / 2 + 1,) of blocks (e, f), f <= e, row by row
    pair_first: IntArray  # rows of the chain list of e ...
    pair_second: IntArray  # ... and of f that are the same joint


class MassPoints(NamedTuple):
    """Points whose weighted sum is the centre of mass; none without a task on it."""

    joints: IntArray  # (P,)
    points: FloatArray  # (P, 3) [m]
    weights: FloatArray  # (P,)


class PosePrior(NamedTuple):
    """The metric of a step, and the pose prior. The last row is the root's place."""

    mobility: FloatArray  # (J + 1,) how readily each joint moves; 0 is frozen
    stiffness: FloatArray  # (J + 1,) springs of the pose prior
    reference: FloatArray  # (J, 4) where they pull the rotations
    reference_root: FloatArray  # (3,) [m] where the last pulls the root


class CoordinateBox(NamedTuple):
    """Intervals of the coordinates of joints: rotation vectors, or two swings and the twist of ``before R after``.

    M regions couple coordinates, ``3 j + c`` of joint j; each bounds the last of its own given the others.
    """

    boxed: BoolArray  # (J,) joints that have them
    low: FloatArray  # (J, 3) [rad]
    high: FloatArray  # (J, 3) [rad]
    is_swing: BoolArray  # (J,) coordinates are swings and twist
    before: FloatArray  # (J, 4) of joints with swings
    after: FloatArray  # (J, 4)
    order: IntArray  # (K,) joints whose coordinates regions couple, in the order in which these are bounded
    starts: IntArray  # (3 K + 1,) first region that bounds each coordinate of them
    regions: FloatArray  # (M, 17) see :func:`gather_regions`
    distances: NDArray[np.float32]  # (V,) [rad] signed distances of all regions
    peaks: NDArray[np.int8]  # (V,) the largest in the cell of each node, in steps


class IKLayout(NamedTuple):
    """All that stays the same while targets move."""

    tree: JointArrays
    blocks: TaskBlocks
    lists: KinematicChains
    mass: MassPoints
    springs: PosePrior
    box: CoordinateBox


class Goals(NamedTuple):
    """What the blocks ask for in one frame, or, with a leading axis of frames, in a clip."""

    targets: FloatArray  # (B, 4) places, padded, or quaternions
    active: BoolArray  # (B,) blocks that count


class PoseArrays(NamedTuple):
    """A pose that a solver starts from and overwrites by its answer."""

    root: FloatArray  # (3,) [m]
    wxyz: FloatArray  # (J, 4)
    x: FloatArray  # (k,) coordinates of the model; empty without one
    errors: FloatArray  # (B, 3) written: what is missing in the end


class IKState(NamedTuple):
    """A pose, and all that is worked out from it."""

    root: FloatArray  # (3,) [m]
    wxyz: FloatArray  # (J, 4)
    vectors: FloatArray  # (J, 3) [rad] coordinates of limited joints
    x: FloatArray  # (k,) coordinates of the model
    positions: FloatArray  # (J, 3) [m]
    world: FloatArray  # (J, 4)
    errors: FloatArray  # (B, 3)
    places: FloatArray  # (B, 3) [m]
    pulls: FloatArray  # (J + 1, 3) half the gradient of the pose prior, in world axes


class LinearRows(NamedTuple):
    """How the blocks move: with the root's place, with the turns of joints, with the coordinates of a model."""

    shifts: FloatArray  # (B, 3, 3)
    turns: FloatArray  # (N, 3, 3)
    frames: FloatArray  # (J, 3, 3) world axes of each joint's coordinates
    model: FloatArray  # (J, 3, k)


class SpeedLimits(NamedTuple):
    """Speed limits of a clip, and the middle of its joint limits."""

    max_turn: float  # [-] turn of a joint over what the goals ask for
    limb_m: float  # [m] a goal that moves this far asks for a turn of 1 rad
    middle: FloatArray  # (J, 4) rotations in the middle of the limits; (0, 4) without limits


NO_SPEED_LIMITS: Final = SpeedLimits(np.inf, 1.0, np.zeros((0, 4)))


@inline_kernel
def new_state(layout: IKLayout, pose: PoseArrays) -> IKState:
    """A state that holds copies of a pose."""
    joints, blocks = pose.wxyz.shape[0], layout.blocks.kinds.shape[0]
    return IKState(
        pose.root.copy(),
        pose.wxyz.copy(),
        np.zeros((joints, 3)),
        pose.x.copy(),
        np.zeros((joints, 3)),
        np.zeros((joints, 4)),
        np.zeros((blocks, 3)),
        np.zeros((blocks, 3)),
        np.zeros((joints + 1, 3)),
    )


@kernel
def new_rows(layout: IKLayout, limited: int, coordinates: int) -> LinearRows:
    """Room for a linearisation, with the axes of ``limited`` joints, all or none, and the coordinates of a model."""
    blocks, joints = layout.blocks.kinds.shape[0], layout.tree.parents.shape[0]
    turns = np.zeros((layout.lists.chain.shape[0], 3, 3))
    model = np.zeros((joints if coordinates > 0 else 0, 3, coordinates))
    return LinearRows(np.zeros((blocks, 3, 3)), turns, np.zeros((limited, 3, 3)), model)


@kernel
def copy_state(source: IKState, target: IKState) -> None:
    """Overwrite one state by another."""
    target.root[:], target.wxyz[:], target.vectors[:], target.x[:] = source.root, source.wxyz, source.vectors, source.x
    target.positions[:], target.world[:], target.errors[:] = source.positions, source.world, source.errors
    target.places[:], target.pulls[:] = source.places, source.pulls


@inline_kernel
def forward_kinematics(
    tree: JointArrays, root: FloatArray, wxyz: FloatArray, positions: FloatArray, world: FloatArray
) -> None:
    """Write world positions ``(J, 3)`` and world quaternions ``(J, 4)`` of one pose."""
    parents, offsets = tree.parents, tree.offsets
    for c in range(3):
        positions[0, c] = root[c]
    for c in range(4):
        world[0, c] = wxyz[0, c]
    for j in range(1, parents.shape[0]):
        p = parents[j]
        w, x, y, z = world[p, 0], world[p, 1], world[p, 2], world[p, 3]
        a, b, c = offsets[j, 0], offsets[j, 1], offsets[j, 2]
        r, s, t = 2.0 * (y * c - z * b), 2.0 * (z * a - x * c), 2.0 * (x * b - y * a)
        positions[j, 0] = positions[p, 0] + a + w * r + (y * t - z * s)
        positions[j, 1] = positions[p, 1] + b + w * s + (z * r - x * t)
        positions[j, 2] = positions[p, 2] + c + w * t + (x * s - y * r)
        a, b, c, d = wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3]
        world[j, 0] = w * a - x * b - y * c - z * d
        world[j, 1] = w * b + x * a + y * d - z * c
        world[j, 2] = w * c - x * d + y * a + z * b
        world[j, 3] = w * d + x * c - y * b + z * a


@kernel
def look_at_residual(aim: Vector, away: Vector) -> Vector:
    """Rotation vector [rad] of the shortest arc from the unit vector ``aim`` to the direction of ``away``."""
    far = sqrt(away[0] ** 2 + away[1] ** 2 + away[2] ** 2)
    if far < 1e-9:
        return 0.0, 0.0, 0.0
    x, y, z = away[0] / far, away[1] / far, away[2] / far
    a, b, c = aim[1] * z - aim[2] * y, aim[2] * x - aim[0] * z, aim[0] * y - aim[1] * x
    sine, cosine = sqrt(a * a + b * b + c * c), aim[0] * x + aim[1] * y + aim[2] * z
    angle = atan2(sine, cosine)
    if sine < 1e-6:
        if cosine > 0.0:
            return a, b, c
        a, b, c = (0.0, -z, y) if abs(x) < 0.6 else (z, 0.0, -x)  # straight behind: any way round
        sine = sqrt(a * a + b * b + c * c)
    return angle / sine * a, angle / sine * b, angle / sine * c


@inline_kernel
def evaluate_residuals(layout: IKLayout, goals: Goals, state: IKState) -> float:
    """Write what is missing and where the points are, both ``(B, 3)``; return the objective, the sum of e^T W e."""
    kinds, joints, points, W = layout.blocks.kinds, layout.blocks.joints, layout.blocks.points, layout.blocks.weights
    positions, world, targets, active = state.positions, state.world, goals.targets, goals.active
    total, axes, places, errors = 0.0, layout.blocks.axes, state.places, state.errors
    for b in range(kinds.shape[0]):
        j, kind = joints[b], kinds[b]
        # Where the block's point is: carried by a joint, or the centre of mass. Arrays are read here, not in a call
        q = (world[j, 0], world[j, 1], world[j, 2], world[j, 3])
        x, y, z = rotate(q, (points[b, 0], points[b, 1], points[b, 2]))
        x, y, z = positions[j, 0] + x, positions[j, 1] + y, positions[j, 2] + z
        if kind == COM:
            # The centre of mass takes the place of a point
            x = y = z = 0.0
            for i in range(layout.mass.joints.shape[0]):
                k, m = layout.mass.joints[i], layout.mass.weights[i]
                u, v, w = rotate(quaternion_at(world, k), row3(layout.mass.points, i))
                x, y, z = x + m * (positions[k, 0] + u), y + m * (positions[k, 1] + v), z + m * (positions[k, 2] + w)
        places[b, 0], places[b, 1], places[b, 2] = x, y, z
        # What is missing: a way [m], or a rotation vector [rad] in world axes
        x, y, z = targets[b, 0] - x, targets[b, 1] - y, targets[b, 2] - z
        if not active[b]:
            x, y, z = 0.0, 0.0, 0.0
        elif kind == ORIENTATION:
            x, y, z = log(multiply(quaternion_at(targets, b), conjugate(q)))
        elif kind == LOOK_AT:
            x, y, z = look_at_residual(rotate(q, row3(layout.blocks.aims, b)), (x, y, z))
        x, y, z = axes[b, 0] * x, axes[b, 1] * y, axes[b, 2] * z
        errors[b, 0], errors[b, 1], errors[b, 2] = x, y, z
        # e^T W e of a symmetric W
        total += W[b, 0, 0] * x * x + W[b, 1, 1] * y * y + W[b, 2, 2] * z * z
        total += 2.0 * (W[b, 0, 1] * x * y + W[b, 0, 2] * x * z + W[b, 1, 2] * y * z)
    return total


@inline_kernel
def has_springs(prior: PosePrior) -> bool:
    """Tell if any joint is drawn to the reference; ``any`` of numba takes as long as the forward kinematics."""
    is_any = False
    for j in range(prior.stiffness.shape[0]):
        is_any |= prior.stiffness[j] != 0.0
    return is_any


@inline_kernel
def linearise(layout: IKLayout, goals: Goals, state: IKState, rows: LinearRows) -> None:
    r"""Write how blocks move: C ``(B, 3, 3)`` with the root, :math:`A - C [l]_\times` ``(N, 3, 3)`` with turns."""
    kinds, chain_start, chain = layout.blocks.kinds, layout.lists.chain_start, layout.lists.chain
    positions, turns = state.positions, rows.turns
    for b in range(kinds.shape[0]):
        kind, start, stop = kinds[b], chain_start[b], chain_start[b + 1]
        for r in range(3):
            for c in range(3):
                rows.shifts[b, r, c] = 1.0 if r == c else 0.0
        if kind == POINT and goals.active[b]:
            # A = 0, C = I: the lever runs from the joint to the point
            x, y, z = state.places[b, 0], state.places[b, 1], state.places[b, 2]
            for i in range(start, stop):
                j = chain[i]
                write_lever_rows(turns, i, (x - positions[j, 0], y - positions[j, 1], z - positions[j, 2]))
        elif kind == COM and goals.active[b]:
            # The same with the lever of all the mass that the joint carries
            # Sum of m_i (p_i - x_j) over the mass points that joint j carries
            mass, joints = layout.mass, positions.shape[0]
            carried, levers = np.zeros(joints), np.zeros((joints, 3))
            for i in range(mass.joints.shape[0]):
                j, m = mass.joints[i], mass.weights[i]
                u, v, w = rotate(quaternion_at(state.world, j), row3(mass.points, i))
                carried[j] += m
                levers[j, 0] += m * (positions[j, 0] + u)
                levers[j, 1] += m * (positions[j, 1] + v)
                levers[j, 2] += m * (positions[j, 2] + w)
            for j in range(joints - 1, 0, -1):
                p = layout.tree.parents[j]
                carried[p] += carried[j]
                for c in range(3):
                    levers[p, c] += levers[j, c]
            for j in range(joints):
                for c in range(3):
                    levers[j, c] -= carried[j] * positions[j, c]
            for i in range(start, stop):
                write_lever_rows(turns, i, row3(levers, chain[i]))
        else:
            write_block_rows(layout, goals, b, state, rows)


@inline_kernel
def write_lever_rows(turns: FloatArray, i: int, lever: Vector) -> None:
    r"""Write :math:`-[l]_\times`."""
    u, v, w = lever
    turns[i, 0, 0], turns[i, 0, 1], turns[i, 0, 2] = 0.0, w, -v
    turns[i, 1, 0], turns[i, 1, 1], turns[i, 1, 2] = -w, 0.0, u
    turns[i, 2, 0], turns[i, 2, 1], turns[i, 2, 2] = v, -u, 0.0


@kernel
def write_block_rows(layout: IKLayout, goals: Goals, b: int, state: IKState, rows: LinearRows) -> None:
    """Write the rows of an orientation, of a gaze, or zeros for a block that does not count."""
    A, C, turns = np.zeros((3, 3)), rows.shifts[b], rows.turns
    place, positions = state.places[b], state.positions
    C[:] = 0.0
    if goals.active[b] and layout.blocks.kinds[b] == ORIENTATION:
        write_right_jacobian_inverse(row3(state.errors, b), A)
    elif goals.active[b] and layout.blocks.kinds[b] == LOOK_AT:
        # A = I - u u^T and C = [u]x / d of a gaze along u to a target at distance d
        target = goals.targets[b]
        x, y, z = target[0] - place[0], target[1] - place[1], target[2] - place[2]
        far = sqrt(x * x + y * y + z * z)
        if not far < 1e-9:
            x, y, z = x / far, y / far, z / far
            A[0, 0], A[0, 1], A[0, 2] = 1.0 - x * x, -x * y, -x * z
            A[1, 0], A[1, 1], A[1, 2] = -x * y, 1.0 - y * y, -y * z
            A[2, 0], A[2, 1], A[2, 2] = -x * z, -y * z, 1.0 - z * z
            C[0, 1], C[0, 2] = -z / far, y / far
            C[1, 0], C[1, 2] = z / far, -x / far
            C[2, 0], C[2, 1] = -y / far, x / far
    for i in range(layout.lists.chain_start[b], layout.lists.chain_start[b + 1]):
        j = layout.lists.chain[i]
        u, v, w = place[0] - positions[j, 0], place[1] - positions[j, 1], place[2] - positions[j, 2]
        for r in range(3):
            turns[i, r, 0] = A[r, 0] - C[r, 1] * w + C[r, 2] * v
            turns[i, r, 1] = A[r, 1] + C[r, 0] * w - C[r, 2] * u
            turns[i, r, 2] = A[r, 2] - C[r, 0] * v + C[r, 1] * u


@inline_kernel
def evaluate_parts(layout: IKLayout, goals: Goals, state: IKState) -> tuple[float, float]:
    """Work out everything from root and rotations; return the objective, and the part of it that is the pose prior."""
    forward_kinematics(layout.tree, state.root, state.wxyz, state.positions, state.world)
    cost, bent = evaluate_residuals(layout, goals, state), 0.0
    if has_springs(layout.springs):
        # The pose prior, sum_j s_j |rho_j|^2 with rho_j = log(r0_j^-1 r_j), and its half gradient (J + 1, 3) in world
        # axes, s_j R_world,j rho_j, since J_r^-T(rho) rho = rho
        root, wxyz, world, pulls = state.root, state.wxyz, state.world, state.pulls
        bent, joints = 0.0, wxyz.shape[0]
        for j in range(joints):
            s = layout.springs.stiffness[j]
            if s == 0.0:
                pulls[j] = 0.0
                continue
            r, q = layout.springs.reference[j], wxyz[j]
            w, x, y, z = product(r[0], -r[1], -r[2], -r[3], q[0], q[1], q[2], q[3])
            x, y, z = logarithm(w, x, y, z)
            bent += s * (x * x + y * y + z * z)
            pulls[j, 0], pulls[j, 1], pulls[j, 2] = rotate(quaternion_at(world, j), (s * x, s * y, s * z))
        for c in range(3):
            away = root[c] - layout.springs.reference_root[c]
            pulls[joints, c] = layout.springs.stiffness[joints] * away
            bent += layout.springs.stiffness[joints] * away * away
    return cost + bent, bent


@kernel
def evaluate_pose(layout: IKLayout, goals: Goals, state: IKState) -> float:
    """Work out everything from root and rotations; return the objective."""
    return evaluate_parts(layout, goals, state)[0]


@inline_kernel
def is_all_reached(tolerances: FloatArray, active: BoolArray, errors: FloatArray) -> bool:
    """Tell whether every active block is within its tolerance."""
    for b in range(errors.shape[0]):
        square = errors[b, 0] ** 2 + errors[b, 1] ** 2 + errors[b, 2] ** 2
        if active[b] and square > tolerances[b] ** 2:
            return False
    return True


@kernel
def evaluate_goals(layout: IKLayout, goals: Goals, pose: PoseArrays) -> tuple[float, bool]:
    """Write what is missing in a pose ``(B, 3)``; return its objective and whether all goals are reached."""
    state = new_state(layout, pose)
    cost = evaluate_pose(layout, goals, state)
    pose.errors[:] = state.errors
    return cost, is_all_reached(layout.blocks.tolerances, goals.active, pose.errors)
