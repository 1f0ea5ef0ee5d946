"""Where a solve starts: the body or pose model that is posed, its coordinates and metric, and restarts.

The kinetic metric of a reduced space lets light limbs move before the whole body does. Restarts are other places to
begin when the first start leads nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from marey.base import FloatArray, InputError
from marey.kinematics.ik.coordinates import ModelSpace
from marey.kinematics.ik.problem import Guess, IKProblem, SolverInputs
from marey.kinematics.ik.state import COM, POINT
from marey.kinematics.jacobian import point_jacobian
from marey.kinematics.limits.contract import JointLimits
from marey.lie import SO3
from marey.models import PoseModel
from marey.motion import Motion
from marey.skeleton import Pose, Skeleton, joint_positions

MIN_ROD_M: Final = 0.05  # [m] bones shorter than this count as so long
RADIUS_M: Final = 0.06  # [m] of the rods that stand for limbs
FLOOR: Final = 1e-4  # [-] of the mean diagonal, added to it: modes that move nothing heavy stay within bounds


def compute_kinetic_metric(skeleton: Skeleton, model: PoseModel, guess: Guess) -> FloatArray:
    r"""Mass matrix ``(6 + k, 6 + k)`` of the body, scaled to trace n: root place, root turn, coordinates.

    .. math:: M = \sum_i m_i J_{v,i}^T J_{v,i} + J_{\omega,i}^T I_i J_{\omega,i}

    One rod for each joint, from it to the mean of its children, its mass in proportion to its length. The step metric
    of [Tournier2011]_ §8.2.3: a hand moves by the arm, not by the whole body.
    """
    pose, size = Pose(skeleton, guess.root, SO3(guess.wxyz)), 6 + len(guess.x)
    local, columns = pose.rotations.matrix(), model.jacobian(guess.x[None])[0]
    # J_omega of each joint, in its own frame
    turns = np.zeros((skeleton.num_joints, 3, size))
    turns[0, :, 3:6] = np.eye(3)
    for j in range(1, skeleton.num_joints):
        turns[j] = local[j].T @ turns[int(skeleton.parents[j])]
        turns[j, :, 6:] += columns[j]
    # Where each joint's rod ends [m] in its frame: the mean of its children, or its tip
    ends = skeleton.tips.copy()
    for j in range(skeleton.num_joints):
        below = skeleton.children(j)
        if len(below):
            ends[j] = skeleton.offsets[below].mean(axis=0)
    metric = np.zeros((size, size))
    for j, rod in enumerate(ends):
        length = max(float(np.linalg.norm(rod)), MIN_ROD_M)
        # J_v of the middle of the rod
        full = point_jacobian(pose, j, 0.5 * rod)
        inner = np.einsum("rjc,jck->rk", full[:, 6:].reshape(3, -1, 3), columns[1:])
        moves = np.concatenate([full[:, :6], inner], axis=1)
        # Inertia of a cylinder for a unit mass
        along = rod / max(float(np.linalg.norm(rod)), 1e-9)
        across = np.eye(3) - np.outer(along, along)
        inertia = across * (length**2 / 12.0 + RADIUS_M**2 / 4.0) + np.outer(along, along) * RADIUS_M**2 / 2.0
        metric += length * (moves.T @ moves + turns[j].T @ inertia @ turns[j])
    metric += FLOOR * np.trace(metric) / size * np.eye(size)
    return metric * (size / np.trace(metric))


MIN_DEVIATION: Final = 1e-6  # [-] of the largest: coordinates that hardly varied are held this much harder at most
NO_METRIC: Final = np.zeros((0, 0))
NO_COORDINATES: Final = np.zeros(0)


@dataclass(frozen=True, slots=True, eq=False)
class PosedBody:
    """A skeleton, and the pose model it is bound to, if any."""

    skeleton: Skeleton
    model: PoseModel | None


def match_body(model_or_skeleton: PoseModel | Skeleton, start: Pose | None, limits: JointLimits | None) -> PosedBody:
    """Check that model, start and limits speak of the same joints; a start may bring a body of another size.

    Raises:
        InputError: they do not, or the first argument is neither a model nor a skeleton.
    """
    model = None
    if isinstance(model_or_skeleton, Skeleton):
        skeleton = model_or_skeleton
    elif isinstance(cast(object, model_or_skeleton), PoseModel):
        model, skeleton = model_or_skeleton, model_or_skeleton.skeleton
    else:
        raise InputError(f"cannot pose a {type(model_or_skeleton).__name__}", "Give a Skeleton or a PoseModel")
    if start is not None and start.skeleton is not skeleton:
        _check_same_joints(skeleton, start.skeleton, "the start is a pose")
        skeleton = start.skeleton if model is not None else skeleton
    if limits is not None and limits.skeleton is not skeleton:
        _check_same_joints(skeleton, limits.skeleton, "the limits are those")
    return PosedBody(skeleton, model)


def _check_same_joints(skeleton: Skeleton, other: Skeleton, what: str) -> None:
    if other.names != skeleton.names or (other.parents != skeleton.parents).any():
        raise InputError(f"{what} of {other!r}, not of {skeleton!r}", "Retarget, or use those of this skeleton")


def build_space(body: PosedBody, problem: IKProblem) -> ModelSpace | None:
    """A pose model as the kernels take it, with springs on its coordinates if a pose task asks for them."""
    if body.model is None:
        return None
    arrays = body.model.arrays()
    deviations = np.asarray(body.model.deviations, dtype=np.float64)
    floor = MIN_DEVIATION * max(float(deviations.max(initial=0.0)), MIN_DEVIATION)
    stiffness = problem.spring_weight / np.maximum(deviations, floor) ** 2
    pose = problem.spring_pose
    reference = np.zeros(len(deviations)) if pose is None else _encode_pose(body.model, pose)
    mean, basis = np.array(arrays.mean_wxyz), np.array(arrays.basis)
    return ModelSpace(True, int(arrays.kind), mean, basis, stiffness, reference)


def guess_from_pose(body: PosedBody, start: Pose | None) -> Guess:
    """Copies of the pose to begin at."""
    if body.model is None:
        if start is None:
            wxyz = np.zeros((body.skeleton.num_joints, 4))
            wxyz[:, 0] = 1.0
            return Guess(np.array(body.skeleton.offsets[0]), wxyz, NO_COORDINATES)
        return Guess(np.array(start.root_position), np.array(start.rotations.wxyz), NO_COORDINATES)
    pose = body.model.mean if start is None else start
    x = np.zeros(body.model.num_components) if start is None else _encode_pose(body.model, start)
    wxyz = np.array(body.model.rotations(x[None]).wxyz[0])
    wxyz[0] = pose.rotations.wxyz[0]
    return Guess(np.array(pose.root_position), wxyz, x)


def _encode_pose(model: PoseModel, pose: Pose) -> FloatArray:
    clip = Motion(pose.skeleton, model.rate_hz, pose.root_position[None], SO3(pose.rotations.wxyz[None]))
    return np.array(model.encode(clip)[0])


def build_metric(body: PosedBody, start: Pose | None, variant: str | None) -> FloatArray:
    """Kinetic energy of a unit step ``(n, n)``, trace n, for ``variant="kinetic"`` in a reduced space; else empty."""
    if body.model is None or variant != "kinetic":
        return NO_METRIC
    return compute_kinetic_metric(body.skeleton, body.model, guess_from_pose(body, start))


SPREAD_RAD: Final = 0.4  # [rad] standard deviation of the joints in a random start
RESTART_SPRING: Final = 0.03  # [-] pull towards no turn: a walk whose legs swing is not turned round
SEED: Final = 20110317  # one sequence for all calls: same input, same answer


def generate_restarts(run: SolverInputs, body: PosedBody, limits: JointLimits | None, count: int) -> Iterator[Guess]:
    """First a pose turned and shifted as a whole towards its goals, then random ones around it.

    It is the rest pose, the mean of a model, or the middle of limits: at a bound, a straight knee say, a descent may
    stay where it is.
    """
    rng, mobility = np.random.default_rng(SEED), run.problem.layout.springs.mobility
    middle = None if limits is None or body.model is not None else limits.middle().wxyz
    for i in range(count):
        # The first is the pose itself, the others are random around it
        guess = guess_from_pose(body, None)
        if middle is not None:
            is_free = mobility[1:-1] > 0.0
            guess.wxyz[1:][is_free] = middle[1:][is_free]
        if i > 0 and len(guess.x):
            guess.x[:] = rng.normal(0.0, 1.0, len(guess.x)) * np.asarray(body.model.deviations if body.model else 1.0)
        elif i > 0:
            turns = rng.normal(0.0, SPREAD_RAD, (len(guess.wxyz), 3)) * (mobility[:-1, None] > 0.0)
            guess.wxyz[:] = (SO3(guess.wxyz) @ SO3.exp(turns)).wxyz
        align_root(run, guess)
        yield guess


def align_root(run: SolverInputs, guess: Guess) -> None:
    """Turn and shift the root so that the points lie nearest to their targets (Kabsch), as far as it may move."""
    layout = run.problem.layout
    rows = np.flatnonzero((layout.blocks.kinds == POINT) & run.active)
    if layout.springs.mobility[-1] == 0.0 or not len(rows) or (layout.blocks.kinds == COM).all():
        return
    skeleton = run.problem.skeleton
    places = joint_positions(skeleton, guess.root[None], guess.wxyz[None])[0][layout.blocks.joints[rows]]
    goals = run.targets[rows, :3]
    middle, aim = places.mean(axis=0), goals.mean(axis=0)
    if layout.springs.mobility[0] > 0.0 and len(rows) >= 3:
        # Kabsch: the rotation nearest to the correlation, with a pull towards no turn
        spread = (goals - aim).T @ (places - middle)
        size = float(np.linalg.norm(goals - aim) * np.linalg.norm(places - middle))
        u, _, vt = np.linalg.svd(spread + RESTART_SPRING * size * np.eye(3))
        flip = np.diag([1.0, 1.0, float(np.sign(np.linalg.det(u @ vt)))])
        R = u @ flip @ vt
        guess.wxyz[0] = (SO3.from_matrix(R) @ SO3(guess.wxyz[0])).wxyz
        guess.root[:] = aim + R @ (guess.root - middle)
    else:
        guess.root[:] += aim - middle
