"""Intervals of rotation vectors, and intervals of the Euler angles that a file names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import atan2, cos, sin
from typing import ClassVar, final

import numpy as np

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints, kernel
from marey.kinematics.limits.contract import (
    ArrayLimits,
    Arrays,
    CheckArrays,
    JointLimits,
    LimitCheck,
    check_order,
    collect_clips,
    compute_mean_rotation,
    freeze_with_infinities,
    run_check,
)
from marey.lie import SO3
from marey.lie.kernels import (
    Vector,
    conjugate,
    dot,
    exp,
    left_jacobian_inverse_times,
    log,
    multiply,
    norm,
    put3,
    quaternion_at,
    rotate,
    scale3,
    subtract3,
    write_rotation,
)
from marey.motion import Motion
from marey.skeleton import EulerLimits, Skeleton

TWO_PI = 2.0 * np.pi
LOCK_COS = 1e-9  # [-] cosine of the middle Euler angle below which the gradient is capped: gimbal lock


@kernel
def clamp(value: float, low: float, high: float) -> float:
    """Nearest number of an interval."""
    return low if value < low else high if value > high else value


@kernel
def nearest_angle(angle: float, low: float, high: float) -> float:
    """Same angle, by whole turns nearest to the middle of an interval; as it is where the interval has no end."""
    if not (np.isfinite(low) and np.isfinite(high)):
        return angle
    return angle - TWO_PI * np.round((angle - 0.5 * (low + high)) / TWO_PI)


@kernel
def _clamp_to_box(v: Vector, low: FloatArray, high: FloatArray) -> tuple[Vector, float]:
    """Nearest vector of a box, and its squared distance."""
    p = (clamp(v[0], low[0], high[0]), clamp(v[1], low[1], high[1]), clamp(v[2], low[2], high[2]))
    d = subtract3(v, p)
    return p, dot(d, d)


@kernel
def check_box(wxyz: FloatArray, low: FloatArray, high: FloatArray) -> CheckArrays:
    r"""Project rotations ``(F, J, 4)`` on boxes of rotation vectors ``(J, 3)``; violation and gradient too.

    A rotation by :math:`\theta` about an axis is also one by :math:`\theta - 2\pi`; the vector nearer to the box
    counts.
    """
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    out, violation, gradient = wxyz.copy(), np.zeros((frames, joints)), np.zeros((frames, joints, 3))
    for f in range(frames):
        for j in range(joints):
            v = log(quaternion_at(wxyz[f], j))
            p, square = _clamp_to_box(v, low[j], high[j])
            if square > 0.0 and norm(v) > 0.0:
                # The same rotation the other way round
                back = 1.0 - TWO_PI / norm(v)
                other = scale3(back, v)
                other_p, other_square = _clamp_to_box(other, low[j], high[j])
                if other_square < square:
                    v, p, square = other, other_p, other_square
            if square == 0.0:
                continue
            g = left_jacobian_inverse_times(v, subtract3(v, p))
            write_rotation(out[f, j], exp(p))
            violation[f, j] = np.sqrt(square)
            put3(gradient[f], j, g)
    return out, violation, gradient


@kernel
def _nearest_in_intervals(v: Vector, low: FloatArray, high: FloatArray) -> tuple[Vector, Vector, float]:
    """Angles by whole turns nearest to their intervals, the nearest angles inside, and the squared distance."""
    v = (
        nearest_angle(v[0], low[0], high[0]),
        nearest_angle(v[1], low[1], high[1]),
        nearest_angle(v[2], low[2], high[2]),
    )
    p, square = _clamp_to_box(v, low, high)
    return v, p, square


@kernel
def _restore_axes(v: Vector, order: IntArray, sign: float) -> Vector:
    """Give a vector whose axes were renamed by ``order`` its own axes back."""
    out = np.empty(3)
    for i in range(3):
        out[order[i]] = sign * v[i]
    return float(out[0]), float(out[1]), float(out[2])


@kernel
def check_euler_box(
    wxyz: FloatArray, frames_wxyz: FloatArray, orders: IntArray, signs: FloatArray, low: FloatArray, high: FloatArray
) -> CheckArrays:
    """Project rotations ``(F, J, 4)`` on boxes of Euler angles; a joint whose bounds are infinite is free.

    Args:
        wxyz: rotations.
        frames_wxyz: ``(J, 4)`` frame in which the angles of a joint are measured.
        orders: ``(J, 3)`` axes in the order in which they act.
        signs: ``(J,)`` one if the order is cyclic, minus one if not.
        low: ``(J, 3)`` [rad] lower bounds in the order of the axes, already multiplied by the sign.
        high: ``(J, 3)`` [rad] upper bounds likewise.
    """
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    out, violation, gradient = wxyz.copy(), np.zeros((frames, joints)), np.zeros((frames, joints, 3))
    for j in range(joints):
        if np.isinf(low[j, 0]) and np.isinf(high[j, 0]):
            continue
        frame, order, sign = quaternion_at(frames_wxyz, j), orders[j], signs[j]
        for f in range(frames):
            q = multiply(conjugate(frame), multiply(quaternion_at(wxyz[f], j), frame))
            # Rename the axes, so that those of `order` become x, y, z; an odd exchange reverses the angles
            axes = np.array([q[1], q[2], q[3]])
            w, x, y, z = q[0], sign * axes[order[0]], sign * axes[order[1]], sign * axes[order[2]]
            # Angles (a, b, c) of R = R_z(c) R_y(b) R_x(a), |b| <= pi/2; sound at gimbal lock
            a = atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
            ca, sa = cos(a), sin(a)
            sc = sa * 2.0 * (x * z + w * y) - ca * 2.0 * (x * y - w * z)
            cc = ca * (1.0 - 2.0 * (x * x + z * z)) - sa * 2.0 * (y * z - w * x)
            c = atan2(sc, cc)
            cb = cos(c) * (1.0 - 2.0 * (y * y + z * z)) + sin(c) * 2.0 * (x * y + w * z)
            b = atan2(2.0 * (w * y - x * z), cb)
            # Of the two triples that make this rotation, the one nearer to the box
            v, p, square = _nearest_in_intervals((a, b, c), low[j], high[j])
            other, other_p, other_square = _nearest_in_intervals((a + np.pi, np.pi - b, c + np.pi), low[j], high[j])
            if other_square < square:
                v, p, square = other, other_p, other_square
            if square == 0.0:
                continue
            # Body gradient of a function of the angles; capped where the lock makes it infinite
            d = subtract3(v, p)
            sa, ca, sb, cb = sin(v[0]), cos(v[0]), sin(v[1]), cos(v[1])
            if abs(cb) < LOCK_COS:
                cb = LOCK_COS if cb >= 0.0 else -LOCK_COS
            third = (d[2] + d[0] * sb) / cb
            g = rotate(frame, _restore_axes((d[0], d[1] * ca + third * sa, -d[1] * sa + third * ca), order, sign))
            # Quaternion of R_z(c) R_y(b) R_x(a) at the nearest angles
            rx = (cos(0.5 * p[0]), sin(0.5 * p[0]), 0.0, 0.0)
            ry = (cos(0.5 * p[1]), 0.0, sin(0.5 * p[1]), 0.0)
            rz = (cos(0.5 * p[2]), 0.0, 0.0, sin(0.5 * p[2]))
            r = multiply(rz, multiply(ry, rx))
            x, y, z = _restore_axes((r[1], r[2], r[3]), order, sign)
            write_rotation(out[f, j], multiply(frame, multiply((r[0], x, y, z), conjugate(frame))))
            violation[f, j] = np.sqrt(square)
            put3(gradient[f], j, g)
    return out, violation, gradient


MARGIN_RAD = float(np.deg2rad(2.0))  # [rad] learnt intervals are widened so much ([Engell2012]_ §13)
FULL_CIRCLE_GAP_RAD = float(np.deg2rad(5.0))  # [rad] angles without a wider gap go all the way round
AXES = "xyz"


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BoxLimits(ArrayLimits):
    r"""A box around the rotation vector of each joint, :math:`l_j \le \log R_j \le u_j`. [Engell2012]_ §3.

    The box is one of rotations: a vector and the one that turns the other way round count as the same. Bounds may be
    infinite; ``low = high`` freezes a coordinate. The violation is the distance of the rotation vector to the box.
    """

    kind: ClassVar[str] = "box"
    kernel = check_box

    low: FloatArray  # (J, 3) [rad]
    high: FloatArray  # (J, 3) [rad]

    def __post_init__(self) -> None:
        shape = (self.skeleton.num_joints, 3)
        low, high = (freeze_with_infinities(getattr(self, n), shape, n) for n in ("low", "high"))
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
        skeleton, clips = collect_clips(motions)
        high = np.full((skeleton.num_joints, 3), np.inf)
        low = -high
        for j in range(1, skeleton.num_joints):
            # Each rotation vector by the way round that is nearer to the mean
            rotations = SO3.concatenate([clip[:, j] for clip in clips])
            vectors, middle = rotations.log(), compute_mean_rotation(rotations).log()
            angle = np.linalg.norm(vectors, axis=1, keepdims=True)
            other = vectors - 2.0 * np.pi * vectors / np.maximum(angle, 1e-9)
            nearer = np.linalg.norm(other - middle, axis=1) < np.linalg.norm(vectors - middle, axis=1)
            vectors = np.where((nearer & (angle[:, 0] > 1e-6))[:, None], other, vectors)
            low[j] = np.quantile(vectors, 0.5 * trim, axis=0) - margin_rad
            high[j] = np.quantile(vectors, 1.0 - 0.5 * trim, axis=0) + margin_rad
            if np.linalg.norm(np.maximum(np.abs(low[j]), np.abs(high[j]))) > 2.0 * np.pi:
                low[j], high[j] = -np.inf, np.inf
        return BoxLimits(skeleton, low, high)

    @classmethod
    def from_skeleton(cls, skeleton: Skeleton) -> EulerBoxLimits:
        """Limits that the skeleton's file gave (ASF), exactly; joints without any are free."""
        return EulerBoxLimits(skeleton, skeleton.limits)

    def tables(self) -> tuple[FloatArray, FloatArray]:
        """What ``check_box`` takes: half a turn instead of no bound, more where the other side has none too."""
        low, high = self.low, self.high
        both = np.isinf(low) & np.isinf(high)
        below, above = (np.where(both, 4.0 * np.pi, np.maximum(np.pi, np.abs(other))) for other in (high, low))
        return np.where(np.isinf(low), -below, low), np.where(np.isinf(high), above, high)

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
        return run_check(check_euler_box, rotations, *self.tables())

    def tables(self) -> tuple[FloatArray, IntArray, FloatArray, FloatArray, FloatArray]:
        """What ``check_euler_box`` takes."""
        joints = self.skeleton.num_joints
        frames, orders = SO3.identity(joints).wxyz.copy(), np.tile(np.arange(3), (joints, 1))
        signs, high = np.ones(joints), np.full((joints, 3), np.inf)
        low = -high
        for limit in self.limits:
            j = self.skeleton.index(limit.joint)
            # An order that is not cyclic is mirrored: angles change their sign
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
