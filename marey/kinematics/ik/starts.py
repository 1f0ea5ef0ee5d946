"""Where a solve starts: the body or pose model that is posed, its coordinates and metric, and restarts.

A pose model brings its prior: springs and limits of its coordinates in standard deviations, and the kinetic metric,
which lets light limbs move before the whole body does. Restarts are other places to begin when the first start leads
nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, cast

import numpy as np

from marey.base import FloatArray, InputError
from marey.kinematics.ik.coordinates import ModelSpace
from marey.kinematics.ik.problem import Guess, IKProblem, SolverInputs
from marey.kinematics.ik.state import COM, POINT
from marey.kinematics.limits.contract import JointLimits
from marey.lie import SO3
from marey.models import PoseModel
from marey.models.kinetic import list_rods
from marey.motion import Motion
from marey.skeleton import Pose, Skeleton, joint_positions

ELLIPSOID_STIFFNESS: Final = 30.0  # [m²] a standard deviation beyond the ellipsoid counts like a goal missed by 5 m
MIN_DEVIATION: Final = 1e-6  # [-] of the largest: coordinates that hardly varied are held this much harder at most
MAX_SIGMA: Final = 3.0  # [-] standard deviations of a model's coordinates: 99.7 % of a Gaussian
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


def build_space(body: PosedBody, problem: IKProblem, max_sigma: float | None) -> ModelSpace | None:
    r"""A pose model as the kernels take it: springs on its coordinates if a pose task asks for them, and their limits.

    No coordinate is beyond ``max_sigma`` standard deviations, and all together stay in the ellipsoid that holds the
    same share of a Gaussian as that interval does for one coordinate:
    :math:`\|\Lambda^{-1} x\|^2 \le \chi^2_k(2\Phi(s) - 1)`.

    Raises:
        InputError: ``max_sigma`` is not above 0.
    """
    if max_sigma is not None and not max_sigma > 0.0:
        raise InputError(f"max_sigma is {max_sigma}", "Give a positive number, or None for no limit")
    if body.model is None:
        return None
    arrays = body.model.arrays()
    deviations = np.asarray(body.model.deviations, dtype=np.float64)
    floor = MIN_DEVIATION * max(float(deviations.max(initial=0.0)), MIN_DEVIATION)
    deviations = np.maximum(deviations, floor)
    pose = problem.spring_pose
    reference = np.zeros(len(deviations)) if pose is None else _encode_pose(body.model, pose)
    most = np.inf if max_sigma is None else max_sigma
    # Between the weights of the first and the last level: stiff for both, and not a narrow valley for either
    weights = np.trace(problem.layout.blocks.weights, axis1=1, axis2=2) / 3.0
    weight = float(np.sqrt(weights.max(initial=0.0) * weights.min(initial=np.inf))) if len(weights) else 1.0
    return ModelSpace(
        True,
        int(arrays.kind),
        np.array(arrays.mean_wxyz),
        np.array(arrays.basis),
        problem.spring_weight / deviations**2,
        reference,
        most * deviations,
        deviations,
        _ellipsoid_radius(len(deviations), most),
        ELLIPSOID_STIFFNESS * weight,
        list_rods(body.skeleton),
    )


@lru_cache(maxsize=256)
def _ellipsoid_radius(count: int, max_sigma: float) -> float:
    """Radius [-] of the ball of ``count`` normal variables with the probability of ``max_sigma`` of one of them."""
    if count == 0 or not max_sigma < np.inf:
        return np.inf
    from math import erfc, sqrt

    from scipy.special import chdtri

    return sqrt(float(chdtri(count, erfc(max_sigma / sqrt(2.0)))))  # pyright: ignore[reportUnknownArgumentType]


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


SPREAD_RAD: Final = 0.4  # [rad] standard deviation of the joints in a random start
RESTART_SPRING: Final = 0.03  # [-] pull towards no turn: a walk whose legs swing is not turned round
SEED: Final = 20110317  # one sequence for all calls: same input, same answer


def generate_restarts(run: SolverInputs, body: PosedBody, limits: JointLimits | None, count: int) -> Iterator[Guess]:
    """First a pose turned and shifted as a whole towards its goals, then random ones around it.

    It is the rest pose, the mean of a model, or the middle of limits: at a bound, a straight knee say, a descent may
    stay where it is.
    """
    rng, mobility = np.random.default_rng(SEED), run.problem.layout.springs.mobility
    middle = None if limits is None or body.model is not None else find_middle(limits)
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


@lru_cache(maxsize=64)
def find_middle(limits: JointLimits) -> FloatArray:
    """Rotations ``(J, 4)`` well inside limits, kept from call to call."""
    return np.array(limits.middle().wxyz)


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
