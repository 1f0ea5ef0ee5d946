"""Inverse kinematics of the decoders: coordinates of a pose model that reach end effectors, and feet that stay planted.

Levenberg-Marquardt on plain arrays, frame after frame: [Tournier2011]_ §8.2.2, as its codec and its editing use it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray, kernel
from marey.kinematics import solve_two_bone
from marey.lie import SO3
from marey.lie.kernels import multiply, quaternion_at, rotate, row3
from marey.models import GeodesicModel
from marey.models.projection import model_jacobian, model_rotations
from marey.motion import Motion
from marey.skeleton import Skeleton, role_map

FIRST_DAMPING = 1e-3
DAMPING_SHRINK, DAMPING_GROWTH = 0.3, 4.0
MIN_DAMPING, MAX_DAMPING = 1e-12, 1e8  # of the damping
MAX_ITERATIONS, MAX_FIRST_ITERATIONS = 20, 100  # of a frame that starts from the one before, and of the first
COST_TOL = 1e-8  # relative; smaller ends the search
STEP_TOL = 1e-10


class _ReducedModel(NamedTuple):
    """A pose model on its skeleton, as plain arrays."""

    kind: int
    mean: FloatArray  # (J, 4)
    basis: FloatArray  # (J, 3, k)
    parents: IntArray  # (J,)
    offsets: FloatArray  # (J, 3) [m]


class _ReducedPose(NamedTuple):
    """A pose in the frame of the root, and room for its derivatives."""

    local: FloatArray  # (J, 4)
    world: FloatArray  # (J, 4)
    places: FloatArray  # (J, 3) [m]
    columns: FloatArray  # (J, 3, k) how each local rotation turns with each coordinate
    moves: FloatArray  # (3, k) how an end effector moves with each coordinate


class _Goal(NamedTuple):
    """What a frame asks for: end effectors at targets, coordinates near those of rest."""

    ends: IntArray  # (E,)
    targets: FloatArray  # (E, 3) [m]
    rest: FloatArray  # (k,)
    spring: float


@kernel
def _forward_kinematics(model: _ReducedModel, x: FloatArray, pose: _ReducedPose) -> None:
    """Joint rotations and places in the frame of the root."""
    model_rotations(model.kind, model.mean, model.basis, x, pose.local)
    world, places = pose.world, pose.places
    world[0, 0], world[0, 1], world[0, 2], world[0, 3] = 1.0, 0.0, 0.0, 0.0
    places[0] = 0.0
    for j in range(1, model.parents.shape[0]):
        p = model.parents[j]
        R_root_parent = quaternion_at(world, p)
        u, v, w = rotate(R_root_parent, row3(model.offsets, j))
        q = multiply(R_root_parent, quaternion_at(pose.local, j))
        world[j, 0], world[j, 1], world[j, 2], world[j, 3] = q
        places[j, 0], places[j, 1], places[j, 2] = places[p, 0] + u, places[p, 1] + v, places[p, 2] + w


@kernel
def _evaluate_cost(goal: _Goal, x: FloatArray, pose: _ReducedPose) -> float:
    total = 0.0
    for e in range(goal.ends.shape[0]):
        for c in range(3):
            gap = pose.places[goal.ends[e], c] - goal.targets[e, c]
            total += gap * gap
    for i in range(x.shape[0]):
        total += goal.spring * (x[i] - goal.rest[i]) * (x[i] - goal.rest[i])
    return total


@kernel
def _assemble_normal_equations(
    model: _ReducedModel, goal: _Goal, x: FloatArray, pose: _ReducedPose, normal: FloatArray, slope: FloatArray
) -> None:
    """Gauss-Newton matrix and descent direction of the cost at ``x``, whose pose is there."""
    k, places, moves = x.shape[0], pose.places, pose.moves
    model_jacobian(model.kind, model.mean, model.basis, x, pose.columns)
    # The spring
    normal[:] = 0.0
    for i in range(k):
        slope[i] = goal.spring * (goal.rest[i] - x[i])
        normal[i, i] = goal.spring
    for e in range(goal.ends.shape[0]):
        # An end effector moves with every joint above it: angular velocity times lever
        end = int(goal.ends[e])
        moves[:] = 0.0
        j = int(model.parents[end])
        while j > 0:
            a, b, c = places[end, 0] - places[j, 0], places[end, 1] - places[j, 1], places[end, 2] - places[j, 2]
            for i in range(k):
                column = (pose.columns[j, 0, i], pose.columns[j, 1, i], pose.columns[j, 2, i])
                u, v, w = rotate(quaternion_at(pose.world, j), column)
                moves[0, i] += v * c - w * b
                moves[1, i] += w * a - u * c
                moves[2, i] += u * b - v * a
            j = int(model.parents[j])
        for axis in range(3):
            gap = goal.targets[e, axis] - places[end, axis]
            for i in range(k):
                slope[i] += moves[axis, i] * gap
                for m in range(i + 1):
                    normal[i, m] += moves[axis, i] * moves[axis, m]


@kernel
def solve_reduced_clip(
    model: _ReducedModel, ends: IntArray, targets: FloatArray, spring: float, rest: FloatArray, is_warm: bool
) -> FloatArray:
    """Coordinates ``(F, k)`` that reach targets ``(F, E, 3)`` and stay near ``rest`` ``(F, k)``.

    The first frame starts from its rest; the others too, or from the frame before if ``is_warm``.
    """
    frames, k = targets.shape[0], model.basis.shape[2]
    out = np.zeros((frames, k))
    if k == 0:
        return out
    joints = model.parents.shape[0]
    pose = _ReducedPose(
        np.empty((joints, 4)), np.empty((joints, 4)), np.empty((joints, 3)), np.empty((joints, 3, k)), np.empty((3, k))
    )
    normal, slope = np.empty((k, k)), np.empty(k)
    x = rest[0].copy()
    for f in range(frames):
        if not is_warm:
            x = rest[f].copy()
        goal = _Goal(ends, targets[f], rest[f], spring)
        damping = FIRST_DAMPING
        _forward_kinematics(model, x, pose)
        cost = _evaluate_cost(goal, x, pose)
        for _ in range(MAX_ITERATIONS if f > 0 and is_warm else MAX_FIRST_ITERATIONS):
            _assemble_normal_equations(model, goal, x, pose, normal, slope)
            # The whole symmetric matrix, its diagonal scaled by the damping
            k = slope.shape[0]
            matrix = np.empty((k, k))
            trace = 0.0
            for i in range(k):
                trace += normal[i, i]
            # The whole symmetric matrix, its diagonal scaled by the damping
            for i in range(k):
                for m in range(i):
                    matrix[i, m] = normal[i, m]
                    matrix[m, i] = normal[i, m]
                matrix[i, i] = normal[i, i] + damping * max(normal[i, i], 1e-9 * trace / k)
            step = np.linalg.solve(matrix, slope)
            tried = x + step
            _forward_kinematics(model, tried, pose)
            new = _evaluate_cost(goal, tried, pose)
            if new < cost:
                # Keep the step and trust the model more
                is_done = cost - new <= COST_TOL * cost or np.abs(step).max() < STEP_TOL
                x, cost, damping = tried, new, max(damping * DAMPING_SHRINK, MIN_DAMPING)
                if is_done:
                    break
            else:
                # Back to where it was, with more damping
                damping *= DAMPING_GROWTH
                _forward_kinematics(model, x, pose)
                if damping > MAX_DAMPING or np.abs(step).max() < STEP_TOL:
                    break
        out[f] = x
    return out


def solve_coordinates(
    model: GeodesicModel, ends: tuple[int, ...], targets: FloatArray, spring: float, rest: FloatArray | None = None
) -> FloatArray:
    r"""Coordinates ``(F, k)`` whose end effectors are nearest to targets ``(F, E, 3)`` [m] in the frame of the root.

    .. math:: \min_x \sum_e \|p_e(x) - t_e\|^2 + w\,\|x - x_{rest}\|^2

    Levenberg-Marquardt from the frame before, or from ``rest`` ``(F, k)`` where it is given; [Tournier2011]_ §8.2.2
    with the root fixed.
    """
    near = np.zeros((len(targets), model.num_components)) if rest is None else np.array(rest, dtype=np.float64)
    joints = np.array(ends, dtype=np.int64)
    return solve_reduced_clip(_to_reduced(model), joints, np.ascontiguousarray(targets), spring, near, rest is None)


def _to_reduced(model: GeodesicModel) -> _ReducedModel:
    arrays, skeleton = model.arrays(), model.skeleton
    mean, basis = np.array(arrays.mean_wxyz), np.array(arrays.basis)
    return _ReducedModel(arrays.kind, mean, basis, np.array(skeleton.parents), np.array(skeleton.offsets))


CONTACT_HEIGHT_M, CONTACT_SPEED_MPS = 0.05, 0.3  # a foot this low and slow stands
LEGS: Final = (("left_leg", "left_ankle", "left_foot"), ("right_leg", "right_ankle", "right_foot"))
STANCE_WEIGHT: Final = 60.0  # weight of staying against following the track, while a point stands


def has_lockable_feet(skeleton: Skeleton) -> bool:
    """Whether the skeleton has legs with knees, ankles and toes."""
    roles = role_map(skeleton)
    needed = {name for leg in LEGS for name in leg[1:]} | {"left_hip", "right_hip", "left_knee", "right_knee"}
    return all(name in roles for name in needed)


def detect_standing_points(motion: Motion) -> BoolArray:
    """When left ankle, left toe, right ankle and right toe stand ``(F, 4)``: low and slow.

    Raises:
        InputError: the skeleton has no such legs.
    """
    if not has_lockable_feet(motion.skeleton):
        raise InputError(f"{motion.skeleton!r} lacks two legs with ankles and toes", "Leave lock_feet out")
    roles = role_map(motion.skeleton)
    tracks = motion.joint_positions()[:, [roles[name] for leg in LEGS for name in leg[1:]]]
    height = tracks[..., 1] - tracks[..., 1].min(axis=0)
    steps = np.linalg.norm(np.diff(tracks, axis=0, prepend=tracks[:1]), axis=-1) * motion.rate_hz
    return (height < CONTACT_HEIGHT_M) & (steps < CONTACT_SPEED_MPS)


def lock_feet(motion: Motion, stands: BoolArray) -> Motion:
    """Move ankles and toes so that they hardly move while they stand; the knees follow.

    Each track is replaced by the nearest one whose steps are small between frames in which the point stands.
    """
    roles = role_map(motion.skeleton)
    for number, (leg, ankle, toe) in enumerate(LEGS):
        positions, frames = motion.joint_frames()
        end, tip = roles[ankle], roles[toe]
        ends = _smooth_stance(positions[:, end], stands[:, 2 * number])
        tips = _smooth_stance(positions[:, tip], stands[:, 2 * number + 1])
        # The foot turns with its toe
        turn = SO3.from_two_vectors(positions[:, tip] - positions[:, end], tips - ends)
        motion = solve_two_bone(motion, leg, ends, end_rotations=turn @ frames[:, end]).motion
    return motion


def _smooth_stance(track: FloatArray, stands: BoolArray) -> FloatArray:
    r"""Minimise :math:`\sum_t |y_t - x_t|^2 + w \sum_{t\ stands} |y_t - y_{t-1}|^2`: a tridiagonal system."""
    from scipy.linalg import solveh_banded  # pyright: ignore[reportUnknownVariableType] (scipy has no types)

    if len(track) < 2:
        return track
    # Diagonal and the band above it
    pulls = STANCE_WEIGHT * stands[1:].astype(np.float64)
    bands = np.ones((2, len(track)))
    bands[1, 1:] += pulls
    bands[1, :-1] += pulls
    bands[0, 0], bands[0, 1:] = 0.0, -pulls
    return np.asarray(solveh_banded(bands, track), dtype=np.float64)
