"""Which body is posed, in which coordinates, and from where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from marey.base import FloatArray, InputError
from marey.kinematics._ik_clips import Guess
from marey.kinematics._ik_problem import IKProblem
from marey.kinematics._limits import JointLimits
from marey.lie import SO3
from marey.models import PoseModel
from marey.motion import Motion
from marey.skeleton import Pose, Skeleton

if TYPE_CHECKING:
    from marey.kinematics._solvers_space_kernels import ModelSpace

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
    from marey.kinematics._solvers_space_kernels import ModelSpace

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
    from marey.kinematics._ik_metric import compute_kinetic_metric

    return compute_kinetic_metric(body.skeleton, body.model, guess_from_pose(body, start))
