"""The contract of joint limits: which local rotations a body can make, and the nearest one to those it cannot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marey.base import ConvergenceError, FloatArray, InputError, TensorFormat, frozen
from marey.lie import SO3, frechet_mean
from marey.motion import Motion
from marey.skeleton import Pose, Skeleton

FEASIBLE_TOL = 1e-9  # [rad] six decades above the rounding of an angle, far below what an eye or a solver sees
SAMPLE_RADIUS_RAD = 0.9  # [rad] spread of the turns that find the middle
NUM_MIDDLE_SAMPLES, MIDDLE_STEPS, MIDDLE_SEED = 64, 4, 20110317

SKELETON_ARRAYS: Final = ("parents", "offsets", "tips")
LIMITS_FILE: Final = TensorFormat(
    "marey-limits",
    "file of joint limits",
    1,
    "Give a file that `marey limits fit` or JointLimits.save wrote.",
    version_key="limits_version",
)

Arrays = dict[str, NDArray[Any]]
CheckArrays = tuple[FloatArray, FloatArray, FloatArray]  # projected quaternions, violations, gradients


@dataclass(frozen=True, slots=True, eq=False)
class LimitCheck:
    """Violations of a batch of poses."""

    projected: SO3  # batch (F, J), the nearest rotations that are allowed
    violation: FloatArray  # (F, J) [rad] distance to the allowed set, measured in the coordinates of the limit
    gradient: FloatArray  # (F, J, 3) [rad] of half the squared violation, in the body tangent of each rotation


class JointLimits(ABC):
    """Feasible sets of local rotations, one for each joint of a skeleton.

    One method, :meth:`check`, knows the sets. Everything else follows from it, so that any kind of limit can be put
    into any solver: the pluggable projection operator of [Engell2012]_ §3.
    """

    kind: ClassVar[str]  # name in files and on the command line
    skeleton: Skeleton

    @abstractmethod
    def check(self, rotations: SO3) -> LimitCheck:
        """Project a batch ``(F, J)`` of local rotations; give the violation and its gradient too."""

    @abstractmethod
    def to_arrays(self) -> Arrays:
        """All that makes the limits, as named arrays; :meth:`from_arrays` undoes it."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, skeleton: Skeleton, arrays: Arrays) -> Self:
        """Limits from the arrays that :meth:`to_arrays` gave."""

    def project_rotations(self, rotations: SO3) -> SO3:
        """Nearest allowed rotations of a batch ``(F, J)``; rotations that are allowed come back as they were."""
        return self.check(self._check_rotations(rotations)).projected

    def violations(self, rotations: SO3) -> FloatArray:
        """Violation ``(F, J)`` [rad] of a batch ``(F, J)``."""
        return self.check(self._check_rotations(rotations)).violation

    def project(self, pose: Pose) -> Pose:
        """Nearest pose that the limits allow; the root stays where it is."""
        return Pose(pose.skeleton, pose.root_position, self._check_pose(pose).projected[0])

    def middle(self) -> SO3:
        """Rotations ``(J,)`` well inside the limits: around them, as much is projected back from all sides."""
        # Turns with their opposites, so that joints without limits stay as they are
        half = np.random.default_rng(MIDDLE_SEED).normal(0.0, SAMPLE_RADIUS_RAD, (NUM_MIDDLE_SAMPLES // 2, 3))
        turns = SO3.exp(np.repeat(np.concatenate([half, -half])[:, None], self.skeleton.num_joints, axis=1))
        here = self.project_rotations(SO3.identity(1, self.skeleton.num_joints))
        for _ in range(MIDDLE_STEPS):
            found = self.project_rotations(here @ turns)
            here = self.project_rotations(here @ SO3.exp((here.inverse() @ found).log().mean(axis=0)))
        return here[0]

    def violation(self, pose: Pose) -> FloatArray:
        """How far each joint is outside its limit, ``(J,)`` [rad]; zero inside."""
        return self._check_pose(pose).violation[0]

    def gradient(self, pose: Pose) -> FloatArray:
        r"""Gradient ``(J, 3)`` [rad] of :math:`\frac12\sum_j d_j^2` in the body tangent of each local rotation."""
        return self._check_pose(pose).gradient[0]

    def is_feasible(self, pose: Pose, tolerance_rad: float = FEASIBLE_TOL) -> bool:
        """Whether no joint is outside its limit by more than the tolerance."""
        return bool(self.violation(pose).max() <= tolerance_rad)

    def save(self, path: str | Path) -> None:
        """Write to a ``.safetensors`` file, with the skeleton and a version; :func:`load_limits` reads it."""
        skeleton = self.skeleton
        arrays = {f"skeleton.{name}": getattr(skeleton, name) for name in SKELETON_ARRAYS}
        arrays |= {f"limits.{name}": array for name, array in self.to_arrays().items()}
        facts = {"kind": self.kind, "skeleton": skeleton.name, "joints": list(skeleton.names)}
        LIMITS_FILE.write(path, arrays, facts)

    def _check_pose(self, pose: Pose) -> LimitCheck:
        if pose.skeleton.names != self.skeleton.names:
            raise InputError(
                f"limits of {self.skeleton!r} were given a pose of {pose.skeleton!r}", "Retarget the pose first"
            )
        return self.check(pose.rotations.reshape(1, -1))

    def _check_rotations(self, rotations: SO3) -> SO3:
        joints = self.skeleton.num_joints
        if len(rotations.shape) != 2 or rotations.shape[1] != joints:
            raise InputError(f"rotations has batch {rotations.shape}, expected (any, {joints})")
        return rotations


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ArrayLimits(JointLimits):
    """Limits that one compiled check reads as arrays; a file holds the fields of the class, under their names."""

    kernel: ClassVar[Callable[..., CheckArrays]]
    skeleton: Skeleton

    @abstractmethod
    def tables(self) -> tuple[NDArray[Any], ...]:
        """What the compiled check takes after the rotations."""

    def check(self, rotations: SO3) -> LimitCheck:
        """Project a batch ``(F, J)`` by the compiled check."""
        return run_check(type(self).kernel, rotations, *self.tables())

    def to_arrays(self) -> Arrays:
        """The fields: rotations as quaternions, sentences as bytes."""
        arrays: Arrays = {}
        for one in fields(self)[1:]:
            value: Any = getattr(self, one.name)
            if isinstance(value, SO3):
                value = value.wxyz
            arrays[one.name] = encode_sentences(value) if one.name == "notes" else value
        return arrays

    @classmethod
    def from_arrays(cls, skeleton: Skeleton, arrays: Arrays) -> Self:
        """Undo :meth:`to_arrays`."""
        values: list[Any] = [skeleton]
        for one in fields(cls)[1:]:
            array = arrays[one.name]
            value = SO3(array) if one.type == "SO3" else array
            values.append(decode_sentences(array) if one.name == "notes" else value)
        return cls(*values)


def encode_sentences(sentences: tuple[str, ...]) -> NDArray[Any]:
    """Sentences as the bytes of their lines."""
    return np.frombuffer("\n".join(sentences).encode(), dtype=np.uint8)


def decode_sentences(lines: NDArray[Any]) -> tuple[str, ...]:
    """Undo :func:`encode_sentences`."""
    text = lines.tobytes().decode()
    return tuple(text.split("\n")) if text else ()


def contiguous_wxyz(rotations: SO3) -> FloatArray:
    """Quaternions as the kernels take them: contiguous and read-only, so that each is compiled once."""
    wxyz = np.ascontiguousarray(rotations.wxyz)
    wxyz.setflags(write=False)
    return wxyz


def run_check(kernel: Callable[..., CheckArrays], rotations: SO3, *tables: Any) -> LimitCheck:
    """Check a batch ``(F, J)`` by a kernel."""
    out, violation, gradient = kernel(contiguous_wxyz(rotations), *tables)
    return LimitCheck(SO3(out), violation, gradient)


def collect_clips(motions: Motion | Iterable[Motion]) -> tuple[Skeleton, list[SO3]]:
    """Skeleton and rotations, batches ``(F, J)``, of one clip or several.

    Raises:
        InputError: there is none, or they do not have the same joints.
    """
    clips = [motions] if isinstance(motions, Motion) else list(motions)
    if not clips:
        raise InputError("limits from no clips", "Give at least one")
    skeleton = clips[0].skeleton
    for clip in clips[1:]:
        if clip.skeleton.names != skeleton.names:
            raise InputError(f"clips '{clips[0].name}' and '{clip.name}' have different joints", "Retarget them first")
    return skeleton, [clip.rotations for clip in clips]


def compute_mean_rotation(rotations: SO3) -> SO3:
    """Mean of rotations; the chordal one where the intrinsic one does not exist."""
    try:
        return frechet_mean(rotations)
    except ConvergenceError:
        moments = rotations.wxyz.T @ rotations.wxyz
        return SO3(np.linalg.eigh(moments)[1][:, -1])


def check_joint_batch(joints: int, **batches: SO3) -> None:
    """Refuse rotations that are not one a joint."""
    for name, rotations in batches.items():
        if rotations.shape != (joints,):
            raise InputError(f"{name} has batch {rotations.shape}, expected ({joints},)")


def check_order(skeleton: Skeleton, low: FloatArray, high: FloatArray) -> None:
    """Refuse lower bounds above upper ones."""
    if np.any(wrong := low > high):
        joint = int(np.argwhere(wrong)[0][0])
        name, row = skeleton.names[joint], f"{low[joint]} > {high[joint]}"
        raise InputError(f"a lower limit of joint '{name}' is above the upper one ({row})", "Exchange them")


def freeze_with_infinities(values: ArrayLike, shape: tuple[int, ...], name: str) -> FloatArray:
    """Read-only copy of numbers that may be infinite but not NaN."""
    array = np.array(values, dtype=np.float64)
    frozen(np.where(np.isinf(array), 0.0, array), *shape, name=name)
    array.setflags(write=False)
    return array
