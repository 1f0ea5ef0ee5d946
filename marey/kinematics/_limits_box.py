"""Intervals of rotation vectors, and intervals of the Euler angles that a file names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints
from marey.kinematics._limits import (
    Arrays,
    JointLimits,
    LimitCheck,
    collect_clips,
    compute_mean_rotation,
    contiguous_wxyz,
)
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import EulerLimits, Skeleton

MARGIN_RAD = float(np.deg2rad(2.0))  # [rad] learnt intervals are widened so much ([Engell2012]_ §13)
FULL_CIRCLE_GAP_RAD = float(np.deg2rad(5.0))  # [rad] angles without a wider gap go all the way round
AXES = "xyz"


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BoxLimits(JointLimits):
    r"""A box around the rotation vector of each joint, :math:`l_j \le \log R_j \le u_j`. [Engell2012]_ §3.

    The box is one of rotations: a vector and the one that turns the other way round count as the same. Bounds may be
    infinite; ``low = high`` freezes a coordinate. The violation is the distance of the rotation vector to the box.
    """

    kind: ClassVar[str] = "box"

    skeleton: Skeleton
    low: FloatArray  # (J, 3) [rad]
    high: FloatArray  # (J, 3) [rad]

    def __post_init__(self) -> None:
        low, high = (_freeze_bounds(self.skeleton, getattr(self, n), n) for n in ("low", "high"))
        check_order(self.skeleton, low, high)
        corner = np.maximum(*(np.where(np.isinf(b), 0.0, np.abs(b)) for b in (low, high)))
        if np.any(far := np.linalg.norm(corner, axis=1) > 2.0 * np.pi):
            joint = self.skeleton.names[int(np.argmax(far))]
            raise InputError(f"the box of '{joint}' reaches beyond a whole turn", "Keep it within 2 pi of no turn")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @classmethod
    def free(cls, skeleton: Skeleton) -> BoxLimits:
        """Limits that allow everything."""
        bounds = np.full((skeleton.num_joints, 3), np.inf)
        return cls(skeleton, -bounds, bounds)

    @classmethod
    def from_clips(
        cls, motions: Motion | Iterable[Motion], *, margin_rad: float = MARGIN_RAD, trim: float = 0.0
    ) -> BoxLimits:
        """Boxes around what the joints do in clips; the root is free.

        Args:
            motions: clips of one skeleton.
            margin_rad: added on both sides.
            trim: share of frames, half at each end, that may lie outside: against glitches, 0.005 say.
        """
        return fit_box(motions, margin_rad=margin_rad, trim=trim)

    @classmethod
    def from_skeleton(cls, skeleton: Skeleton) -> EulerBoxLimits:
        """Limits that the skeleton's file gave (ASF), exactly; joints without any are free."""
        return EulerBoxLimits(skeleton, skeleton.limits)

    def check(self, rotations: SO3) -> LimitCheck:
        """Clamp the rotation vectors."""
        from marey.kinematics._limits_kernels import check_box

        out, violation, gradient = check_box(contiguous_wxyz(rotations), *self.tables())
        return LimitCheck(SO3(out), violation, gradient)

    def tables(self) -> tuple[FloatArray, FloatArray]:
        """What ``check_box`` takes."""
        return replace_infinite_bounds(self.low, self.high)

    def to_arrays(self) -> Arrays:
        """The two bounds."""
        return {"low": self.low, "high": self.high}

    @classmethod
    def from_arrays(cls, skeleton: Skeleton, arrays: Arrays) -> BoxLimits:
        """Undo :meth:`to_arrays`."""
        return cls(skeleton, arrays["low"], arrays["high"])

    def __repr__(self) -> str:
        bounded = int(np.isfinite(self.low).any(axis=1).sum())
        return f"BoxLimits({self.skeleton!r}, {bounded} joints bounded)"


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EulerBoxLimits(JointLimits):
    """Intervals of Euler angles, as an ASF file gives them; axes that are not free stay at zero.

    Of the two triples that make one rotation, the one nearer to the box counts. The violation is measured in the
    angles, so it is not the angle of a rotation except for a single free axis.
    """

    kind: ClassVar[str] = "euler"

    skeleton: Skeleton
    limits: tuple[EulerLimits, ...]

    def __post_init__(self) -> None:
        for limit in self.limits:
            self.skeleton.index(limit.joint)
            if not limit.order or len(set(limit.order)) < len(limit.order) or not set(limit.order) <= set(AXES):
                raise InputError(f"axes '{limit.order}' of joint '{limit.joint}'", "Name x, y and z at most once each")
            if np.any(limit.low_rad > limit.high_rad):
                raise InputError(f"a lower limit of joint '{limit.joint}' is above the upper one", "Exchange them")

    def check(self, rotations: SO3) -> LimitCheck:
        """Clamp the angles."""
        from marey.kinematics._limits_kernels import check_euler_box

        out, violation, gradient = check_euler_box(contiguous_wxyz(rotations), *self.tables())
        return LimitCheck(SO3(out), violation, gradient)

    def tables(self) -> tuple[FloatArray, IntArray, FloatArray, FloatArray, FloatArray]:
        """What ``check_euler_box`` takes."""
        joints = self.skeleton.num_joints
        frames, orders = SO3.identity(joints).wxyz.copy(), np.tile(np.arange(3), (joints, 1))
        signs, high = np.ones(joints), np.full((joints, 3), np.inf)
        low = -high
        for limit in self.limits:
            j = self.skeleton.index(limit.joint)
            order = [AXES.index(letter) for letter in limit.order]
            order += [i for i in range(3) if i not in order]  # fixed axes act last, by nothing
            sign = 1.0 if (order[1] - order[0]) % 3 == 1 else -1.0
            bounds = np.zeros((2, 3))
            bounds[:, : len(limit.order)] = limit.low_rad, limit.high_rad
            low[j], high[j] = np.sort(sign * bounds, axis=0)
            frames[j], orders[j], signs[j] = limit.axis.wxyz, order, sign
        return frames, orders, signs, low, high

    def to_arrays(self) -> Arrays:
        """Joints, axes (3 for none) and bounds of each limit."""
        count = len(self.limits)
        axes, bounds = np.full((count, 3), 3), np.zeros((count, 2, 3))
        for i, limit in enumerate(self.limits):
            free = len(limit.order)
            axes[i, :free] = [AXES.index(letter) for letter in limit.order]
            bounds[i, :, :free] = limit.low_rad, limit.high_rad
        frames = [limit.axis.wxyz for limit in self.limits]
        return {
            "joints": np.array([self.skeleton.index(limit.joint) for limit in self.limits], dtype=np.int64),
            "axes": axes,
            "bounds": bounds,
            "frames": np.array(frames).reshape(count, 4),
        }

    @classmethod
    def from_arrays(cls, skeleton: Skeleton, arrays: Arrays) -> EulerBoxLimits:
        """Undo :meth:`to_arrays`."""
        rows = zip(arrays["joints"], frozen_ints(arrays["axes"], name="axes"), arrays["bounds"], strict=True)
        limits: list[EulerLimits] = []
        for i, (joint, axes, bounds) in enumerate(rows):
            order = "".join(AXES[a] for a in axes if a < 3)
            low, high = (frozen(b[: len(order)], name="bounds") for b in bounds)
            limits.append(EulerLimits(skeleton.names[int(joint)], order, low, high, SO3(arrays["frames"][i])))
        return cls(skeleton, tuple(limits))

    def __repr__(self) -> str:
        return f"EulerBoxLimits({self.skeleton!r}, {len(self.limits)} joints bounded)"


def replace_infinite_bounds(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bounds that the kernels can take: half a turn instead of no bound, more where the other side has none too."""
    both = np.isinf(low) & np.isinf(high)
    below, above = (np.where(both, 4.0 * np.pi, np.maximum(np.pi, np.abs(other))) for other in (high, low))
    return np.where(np.isinf(low), -below, low), np.where(np.isinf(high), above, high)


def check_order(skeleton: Skeleton, low: FloatArray, high: FloatArray) -> None:
    """Refuse lower bounds above upper ones."""
    if np.any(wrong := low > high):
        joint = int(np.argwhere(wrong)[0][0])
        name, row = skeleton.names[joint], f"{low[joint]} > {high[joint]}"
        raise InputError(f"a lower limit of joint '{name}' is above the upper one ({row})", "Exchange them")


def _freeze_bounds(skeleton: Skeleton, values: FloatArray, name: str) -> FloatArray:
    """Read-only bounds ``(J, 3)``; infinite ones are welcome, NaN is not."""
    bounds = np.array(values, dtype=np.float64)
    finite = frozen(np.where(np.isinf(bounds), 0.0, bounds), skeleton.num_joints, 3, name=name)
    result = np.where(np.isinf(bounds), bounds, finite)
    result.setflags(write=False)
    return result


def fit_box(motions: Motion | Iterable[Motion], *, margin_rad: float = MARGIN_RAD, trim: float = 0.0) -> BoxLimits:
    """See :meth:`BoxLimits.from_clips`."""
    skeleton, clips = collect_clips(motions)
    high = np.full((skeleton.num_joints, 3), np.inf)
    low = -high
    for j in range(1, skeleton.num_joints):
        vectors = _nearest_vectors(SO3.concatenate([clip[:, j] for clip in clips]))
        low[j] = np.quantile(vectors, 0.5 * trim, axis=0) - margin_rad
        high[j] = np.quantile(vectors, 1.0 - 0.5 * trim, axis=0) + margin_rad
        if np.linalg.norm(np.maximum(np.abs(low[j]), np.abs(high[j]))) > 2.0 * np.pi:
            low[j], high[j] = -np.inf, np.inf
    return BoxLimits(skeleton, low, high)


def _nearest_vectors(rotations: SO3) -> FloatArray:
    """Rotation vectors ``(N, 3)``, each by the way round that is nearer to that of the mean."""
    vectors, middle = rotations.log(), compute_mean_rotation(rotations).log()
    angle = np.linalg.norm(vectors, axis=1, keepdims=True)
    other = vectors - 2.0 * np.pi * vectors / np.maximum(angle, 1e-9)
    nearer = np.linalg.norm(other - middle, axis=1) < np.linalg.norm(vectors - middle, axis=1)
    return np.where((nearer & (angle[:, 0] > 1e-6))[:, None], other, vectors)


def circular_interval(angles: FloatArray, *, trim: float = 0.0, margin_rad: float = 0.0) -> tuple[float, float]:
    """Interval ``(low, high)`` [rad] around angles, ``0 <= low < 2 pi``: the complement of their largest gap.

    Angles all around, without a gap of 5 degrees, give minus and plus infinity.
    """
    turn = 2.0 * np.pi
    ordered = np.sort(np.mod(angles, turn))
    gaps = np.append(np.diff(ordered), ordered[0] + turn - ordered[-1])
    widest = int(np.argmax(gaps))
    if gaps[widest] < FULL_CIRCLE_GAP_RAD:
        return -np.inf, np.inf
    start = ordered[(widest + 1) % len(ordered)]
    along = np.mod(ordered - start, turn)
    low, high = np.quantile(along, [0.5 * trim, 1.0 - 0.5 * trim])
    first = float(np.mod(start + low - margin_rad, turn))
    return first, first + float(high - low) + 2.0 * margin_rad
