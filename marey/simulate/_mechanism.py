"""A body and its coordinates as plain arrays, for the compiled mechanics."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from marey.base import BoolArray, FloatArray, InputError, IntArray, UnknownNameError
from marey.dynamics import Body
from marey.models import PoseModel

Root = Literal["com", "pelvis"]
ROOTS: Final[tuple[Root, ...]] = ("com", "pelvis")
FULL_SPACE: Final = -1  # every joint that moves mass is free to turn: no pose model
ARMATURE: Final = 1e-3  # [kg m²] of joints whose own segment has no mass: else they and their child turn as one


class Mechanism(NamedTuple):
    r"""What the kernels know of a body: its tree, its masses and its coordinates.

    A velocity is :math:`v = (\omega, \dot x, \dot\lambda)`: the root's angular velocity in its own frame [rad/s], the
    velocity in world [m/s] of the point that stands for the place (centre of mass or pelvis), and the rates of the
    coordinates. In the full space the rates are angular velocities of the joints, each in its own frame.
    """

    parents: IntArray  # (J,)
    offsets: FloatArray  # (J, 3) [m]
    masses: FloatArray  # (J,) [kg]
    centres: FloatArray  # (J, 3) [m]
    inertias: FloatArray  # (J, 3, 3) [kg m²]
    inertia_roots: FloatArray  # (J, 3, 3) r with r.T @ r = inertia
    kind: int  # of the pose model, or FULL_SPACE
    mean_wxyz: FloatArray  # (J, 4)
    basis: FloatArray  # (J, 3, k); in the full space the constant columns of the joints that move
    joints: IntArray  # (N,) joints that have coordinates of their own: in the full space only
    armature: FloatArray  # (k,) [kg m²] added to the inertia of each coordinate; it leaves every momentum as it is
    is_com: bool  # the place is that of the centre of mass
    ends: IntArray  # (E,) joints that nothing hangs on: hands, toes, head
    tips: FloatArray  # (E, 3) [m] their far ends, each in its joint's frame


def make_mechanism(body: Body, model: PoseModel | None, root: Root) -> Mechanism:
    """Arrays of a body in the coordinates of a pose model, or in the full space.

    Raises:
        InputError: the model has other joints than the body, or the body has no mass.
        UnknownNameError: no such root.
    """
    if root not in ROOTS:
        raise UnknownNameError("root", str(root), "the simulator", ROOTS)
    if not body.mass_kg > 0.0:
        raise InputError("the body has no mass", "Give mass to its segments; see Body.from_motion")
    skeleton = body.skeleton
    ends = np.setdiff1d(np.arange(skeleton.num_joints), skeleton.parents)
    coordinates = _free_joints(body) if model is None else _model_coordinates(body, model)
    return Mechanism(
        parents=as_kernel_array(skeleton.parents),
        offsets=as_kernel_array(skeleton.offsets),
        masses=as_kernel_array(body.masses),
        centres=as_kernel_array(body.centres),
        inertias=as_kernel_array(body.inertias),
        inertia_roots=as_kernel_array(_square_roots(body.inertias)),
        kind=coordinates.kind,
        mean_wxyz=as_kernel_array(coordinates.mean_wxyz),
        basis=as_kernel_array(coordinates.basis),
        joints=as_kernel_array(coordinates.joints),
        armature=as_kernel_array(coordinates.armature),
        is_com=root == "com",
        ends=as_kernel_array(ends),
        tips=as_kernel_array(skeleton.tips[ends]),
    )


class _Coordinates(NamedTuple):
    kind: int
    mean_wxyz: FloatArray
    basis: FloatArray
    joints: IntArray
    armature: FloatArray


def _free_joints(body: Body) -> _Coordinates:
    joints = np.flatnonzero(_carries_mass(body))
    mean = np.tile([1.0, 0.0, 0.0, 0.0], (body.skeleton.num_joints, 1))
    armature = np.repeat(np.where(body.masses[joints] > 0.0, 0.0, ARMATURE), 3)
    return _Coordinates(FULL_SPACE, mean, _unit_columns(body, joints), joints, armature)


def _model_coordinates(body: Body, model: PoseModel) -> _Coordinates:
    if model.skeleton.names != body.skeleton.names:
        raise InputError(
            f"the model is of '{model.skeleton.name}', the body of '{body.skeleton.name}'; their joints differ",
            "Fit the model on clips of this skeleton, or retarget them",
        )
    arrays = model.arrays()
    none = np.zeros(0, dtype=np.int64)
    return _Coordinates(arrays.kind, arrays.mean_wxyz, arrays.basis, none, np.zeros(model.num_components))


def _carries_mass(body: Body) -> BoolArray:
    """Joints ``(J,)`` below the root that carry mass, themselves or further out."""
    carries = np.array(body.masses)
    parents = body.skeleton.parents
    for j in range(len(carries) - 1, 0, -1):
        carries[parents[j]] += carries[j]
    carries[0] = 0.0
    return carries > 0.0


def _square_roots(inertias: FloatArray) -> FloatArray:
    """Factors ``r`` with ``r.T @ r`` equal to each inertia, which may be zero."""
    values, axes = np.linalg.eigh(inertias)
    return np.sqrt(np.maximum(values, 0.0))[..., None] * np.swapaxes(axes, -1, -2)


def _unit_columns(body: Body, joints: IntArray) -> FloatArray:
    columns = np.zeros((body.skeleton.num_joints, 3, 3 * len(joints)))
    for n, j in enumerate(joints):
        columns[j, :, 3 * n : 3 * n + 3] = np.eye(3)
    return columns


Kind = TypeVar("Kind", np.float64, np.int64)


def as_kernel_array(array: NDArray[Kind]) -> NDArray[Kind]:
    """Contiguous read-only array, so that each kernel is compiled for one kind."""
    view = np.ascontiguousarray(array)[...]
    view.setflags(write=False)
    return view
