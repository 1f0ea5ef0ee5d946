"""Tasks of inverse kinematics: positions, orientations, gaze, centre of mass, reference pose."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import Final, cast

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.lie import SO3
from marey.skeleton import Pose

ORIGIN: Final = (0.0, 0.0, 0.0)
_ORIGIN: Final = frozen(ORIGIN, name="origin")
NO_TARGET: Final = frozen((), 0, name="nowhere")
Weight = float | ArrayLike


@dataclass(frozen=True, slots=True, eq=False)
class PointTask:
    """A point of a joint at a position. A position with a NaN is not known: the task does not count there.

    ``weight`` multiplies the squared distance [1/m²]: one number, one for each world axis ``(3,)``, or a symmetric
    positive definite matrix ``(3, 3)`` ([Engell2012]_ eq. 16). Priorities are levels: 0 comes first.
    """

    joint: str | int
    target_world: ArrayLike  # (3,) or, for clips, (F, 3) [m]
    point: ArrayLike = field(default=ORIGIN, kw_only=True)  # (3,) [m] in the joint's frame
    weight: Weight = field(default=1.0, kw_only=True)
    priority: int = field(default=0, kw_only=True)
    key: tuple[object, ...] = field(init=False, repr=False)  # all but the target: tasks of one key share their arrays
    goal: FloatArray = field(init=False, repr=False)  # the target as numbers

    def __post_init__(self) -> None:
        goal = _check_positions(self.target_world, "target_world")
        point, weight = _check_position(self.point, "point"), _check_weight(self.weight)
        key = ("point", self.joint, *_to_key(point, weight), _check_priority(self.priority))
        _set_fields(self, target_world=goal, goal=goal, point=point, weight=weight, key=key)


@dataclass(frozen=True, slots=True, eq=False)
class OrientationTask:
    """A joint with a rotation in world; ``weight`` multiplies the squared angle [1/rad²]."""

    joint: str | int
    target: SO3  # batch () or, for clips, (F,): R_world_joint
    weight: Weight = field(default=1.0, kw_only=True)
    priority: int = field(default=0, kw_only=True)
    key: tuple[object, ...] = field(init=False, repr=False)  # all but the target: tasks of one key share their arrays
    goal: FloatArray = field(init=False, repr=False)  # the target as numbers

    def __post_init__(self) -> None:
        if len(self.target.shape) > 1:
            raise InputError(f"target has batch {self.target.shape}", "Give one rotation, or one for each frame")
        weight = _check_weight(self.weight)
        key = ("orientation", self.joint, *_to_key(weight), _check_priority(self.priority))
        _set_fields(self, goal=self.target.wxyz, weight=weight, key=key)


@dataclass(frozen=True, slots=True, eq=False)
class LookAtTask:
    """The ray from a point of a joint along an axis passes through a position; ``weight`` [1/rad²]."""

    joint: str | int
    target_world: ArrayLike  # (3,) or, for clips, (F, 3) [m]
    axis: ArrayLike = field(default=(0.0, 0.0, 1.0), kw_only=True)  # (3,) in the joint's frame, any length
    point: ArrayLike = field(default=ORIGIN, kw_only=True)  # (3,) [m] in the joint's frame: the eye
    weight: Weight = field(default=1.0, kw_only=True)
    priority: int = field(default=0, kw_only=True)
    key: tuple[object, ...] = field(init=False, repr=False)  # all but the target: tasks of one key share their arrays
    goal: FloatArray = field(init=False, repr=False)  # the target as numbers

    def __post_init__(self) -> None:
        goal = _check_positions(self.target_world, "target_world")
        axis, point, weight = (
            _check_position(self.axis, "axis"),
            _check_position(self.point, "point"),
            _check_weight(self.weight),
        )
        length = float(np.linalg.norm(axis))
        if length < 1e-12:
            raise InputError("axis is zero", "Give the direction of the gaze in the joint's frame")
        key, axis = ("look", self.joint, *_to_key(axis, point, weight), _check_priority(self.priority)), axis / length
        _set_fields(
            self, target_world=goal, goal=goal, axis=frozen(axis, name="axis"), point=point, weight=weight, key=key
        )


@dataclass(frozen=True, slots=True, eq=False)
class ComTask:
    """The centre of mass (segments of [DeLeva1996]_) at a position; a weight of 0 frees an axis."""

    target_world: ArrayLike  # (3,) or, for clips, (F, 3) [m]
    weight: Weight = field(default=1.0, kw_only=True)
    priority: int = field(default=0, kw_only=True)
    key: tuple[object, ...] = field(init=False, repr=False)  # all but the target: tasks of one key share their arrays
    goal: FloatArray = field(init=False, repr=False)  # the target as numbers

    def __post_init__(self) -> None:
        goal = _check_positions(self.target_world, "target_world")
        weight = _check_weight(self.weight)
        key = ("com", *_to_key(weight), _check_priority(self.priority))
        _set_fields(self, target_world=goal, goal=goal, weight=weight, key=key)


@dataclass(frozen=True, slots=True, eq=False)
class PoseTask:
    """Springs towards a pose: of every joint, or of some. It is never "reached"; it settles what the others leave open.

    ``weight`` multiplies squared angles [1/rad²]. In a reduced space the springs act on the model's coordinates, in
    units of their standard deviation (a Gaussian prior). It stands on level 1 by default, below the goals.
    """

    pose: Pose | None = None  # the rest pose, or the model's mean, when None
    joints: tuple[str | int, ...] | None = field(default=None, kw_only=True)  # all but the root when None
    weight: float = field(default=1.0, kw_only=True)
    root_weight: float = field(default=0.0, kw_only=True)  # [1/rad²] and [1/m²], of the root's turn and place
    priority: int = field(default=1, kw_only=True)
    key: tuple[object, ...] = field(init=False, repr=False)  # all but the target: tasks of one key share their arrays
    goal: FloatArray = field(init=False, repr=False)  # the target as numbers

    def __post_init__(self) -> None:
        for name, value in (("weight", self.weight), ("root_weight", self.root_weight)):
            if not (isfinite(value) and value >= 0.0):
                raise InputError(f"{name} is {value}", "Give a number that is not negative")
        spec = (id(self.pose), self.joints, self.weight, self.root_weight)
        _set_fields(self, goal=NO_TARGET, key=("pose", *spec, _check_priority(self.priority)))


Task = PointTask | OrientationTask | LookAtTask | ComTask | PoseTask
GoalTask = PointTask | OrientationTask | LookAtTask | ComTask


def weight_matrix(weight: Weight) -> FloatArray:
    """Return the matrix W ``(3, 3)`` that a task's weight stands for."""
    given = np.asarray(weight, dtype=np.float64)
    return given * np.eye(3) if given.ndim == 0 else np.diag(given) if given.ndim == 1 else given


def _set_fields(task: object, **values: object) -> None:
    """Set fields of a frozen task: what was given, checked."""
    for name, value in values.items():
        object.__setattr__(task, name, value)


def _check_weight(weight: Weight) -> Weight:
    if isinstance(weight, float | int):
        if not (isfinite(weight) and weight > 0.0):
            raise InputError(f"weight is {weight}", "Give a positive number")
        return float(weight)
    given = frozen(weight, name="weight")
    if given.shape not in ((3,), (3, 3)):
        raise InputError(f"weight has shape {given.shape}", "Give a number, one for each axis (3,), or a matrix (3, 3)")
    W = weight_matrix(given)
    if not np.allclose(W, W.T) or np.linalg.eigvalsh(W)[0] < 0.0 or not W.any():
        raise InputError("weight is not a symmetric matrix of positive weights", "Mind the signs and the symmetry")
    return given


def _check_position(place: ArrayLike, name: str) -> FloatArray:
    return _ORIGIN if place is ORIGIN else frozen(place, 3, name=name)


def _check_positions(places: ArrayLike, name: str) -> FloatArray:
    """Positions ``(3,)`` or ``(F, 3)`` [m]; one with a NaN is all NaN, and its task is skipped there."""
    try:
        given = np.asarray(places, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not made of numbers", "Give a place (3,), or one for each frame (F, 3)") from error
    is_unknown = np.isnan(given)
    if is_unknown.any():
        # The finite ones are checked as always; infinity is a mistake, not a gap
        frozen(np.where(is_unknown, 0.0, given), name=name)
        given = np.where(is_unknown.any(axis=-1, keepdims=True), np.nan, given)
        given.setflags(write=False)
    else:
        given = frozen(places, name=name)
    if given.shape != (3,) and (given.ndim != 2 or given.shape[1] != 3):
        raise InputError(f"{name} has shape {given.shape}", "Give a place (3,), or one for each frame (F, 3)")
    return given


def _check_priority(priority: int) -> int:
    if not (isinstance(cast(object, priority), int) and 0 <= priority <= 8):
        raise InputError(f"priority is {priority}", "Levels are whole numbers from 0, the first, to 8")
    return priority


def _to_key(*values: Weight) -> tuple[object, ...]:
    return tuple(v.tobytes() if isinstance(v, np.ndarray) else v for v in values)
