"""Limits as an implicit function of the quaternion: the model that distance fields are compared with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, log
from typing import ClassVar, final

import numpy as np

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints, kernel
from marey.kinematics.limits.charts import collect_joint_samples
from marey.kinematics.limits.contract import ArrayLimits, CheckArrays, check_joint_batch
from marey.lie import SO3
from marey.lie.kernels import Vector, conjugate, multiply, quaternion_at, write_rotation
from marey.motion import Motion

BISECTIONS = 40  # of the way to the nearest sample: below a double's rounding of an angle

INSIDE_MARGIN = 1e-12  # [-] kept above the level, against rounding; samples lie 1e-9 above it


@kernel
def log_density(samples: FloatArray, first: int, last: int, p: Vector, width: float) -> tuple[float, Vector, int]:
    """Logarithm of the sum of bumps at a point, its gradient, and the nearest sample."""
    # The nearest sample gives the largest term, which is taken out of the sum
    nearest, least = first, np.inf
    for n in range(first, last):
        d = (samples[n, 0] - p[0]) ** 2 + (samples[n, 1] - p[1]) ** 2 + (samples[n, 2] - p[2]) ** 2
        if d < least:
            nearest, least = n, d
    scale = 0.5 / (width * width)
    total = gx = gy = gz = 0.0
    for n in range(first, last):
        a, b, c = samples[n, 0] - p[0], samples[n, 1] - p[1], samples[n, 2] - p[2]
        weight = exp(scale * (least - (a * a + b * b + c * c)))
        total += weight
        gx, gy, gz = gx + weight * a, gy + weight * b, gz + weight * c
    gain = 2.0 * scale / total
    return log(total) - scale * least, (gain * gx, gain * gy, gain * gz), nearest


@kernel
def check_quaternion_field(
    wxyz: FloatArray, centres: FloatArray, samples: FloatArray, starts: IntArray, widths: FloatArray, levels: FloatArray
) -> CheckArrays:
    """Project rotations ``(F, J, 4)`` on sets where a sum of bumps is above a level; see ``QuaternionFieldLimits``."""
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    out, violation, gradient = wxyz.copy(), np.zeros((frames, joints)), np.zeros((frames, joints, 3))
    for j in range(joints):
        first, last, width, level = starts[j], starts[j + 1], widths[j], levels[j]
        if first == last:
            continue
        centre = quaternion_at(centres, j)
        for f in range(frames):
            # The vector part relative to the centre, of the quaternion with a positive scalar
            q = multiply(conjugate(centre), quaternion_at(wxyz[f], j))
            sign = -1.0 if q[0] < 0.0 else 1.0
            w, p = sign * q[0], (sign * q[1], sign * q[2], sign * q[3])
            value, slope, nearest = log_density(samples, first, last, p, width)
            if value >= level:
                continue
            # Violation and body gradient
            violation[f, j] = 2.0 * width * np.sqrt(2.0 * (level - value))
            k = -2.0 * width * width  # of half the squared violation, 4 width^2 (level - value), by half an angle
            g = (k * slope[0], k * slope[1], k * slope[2])
            gradient[f, j, 0] = w * g[0] + g[1] * p[2] - g[2] * p[1]
            gradient[f, j, 1] = w * g[1] + g[2] * p[0] - g[0] * p[2]
            gradient[f, j, 2] = w * g[2] + g[0] * p[1] - g[1] * p[0]
            # Bisect the way to the nearest sample
            goal = (samples[nearest, 0], samples[nearest, 1], samples[nearest, 2])
            low, high = 0.0, 1.0
            for _ in range(BISECTIONS):
                t = 0.5 * (low + high)
                at = (p[0] + t * (goal[0] - p[0]), p[1] + t * (goal[1] - p[1]), p[2] + t * (goal[2] - p[2]))
                if log_density(samples, first, last, at, width)[0] >= level + INSIDE_MARGIN:
                    high = t
                else:
                    low = t
            v = (p[0] + high * (goal[0] - p[0]), p[1] + high * (goal[1] - p[1]), p[2] + high * (goal[2] - p[2]))
            real = np.sqrt(max(0.0, 1.0 - v[0] * v[0] - v[1] * v[1] - v[2] * v[2]))
            write_rotation(out[f, j], multiply(centre, (real, v[0], v[1], v[2])))
    return out, violation, gradient


MAX_SAMPLES = 200  # centres of bumps a joint; more cost time and say little new
MIN_WIDTH = 0.02  # [-] half-width of a bump in quaternion units, about 2.3 degrees


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class QuaternionFieldLimits(ArrayLimits):
    r"""Set where a sum of kernels around sampled quaternions exceeds a level ("quaternion boundary field").

    .. math:: \log\sum_i \exp\Big(-\frac{\|u - u_i\|^2}{2 w^2}\Big) \ge l

    ``u`` is the vector part of the quaternion relative to a centre. [Engell2012]_ §13, after Herda. The sum
    runs over all samples, and the projection bisects the way to the nearest, so both are slow; voids stay voids. The
    violation is :math:`2w\sqrt{2(l - \log\sum)}`, the angle to the level for a single bump.
    """

    kind: ClassVar[str] = "field"
    kernel = check_quaternion_field

    centres: SO3  # batch (J,)
    samples: FloatArray  # (N, 3) vector parts, joint after joint
    starts: IntArray  # (J + 1,) where each joint's samples begin; none is a free joint
    widths: FloatArray  # (J,)
    levels: FloatArray  # (J,)

    def __post_init__(self) -> None:
        joints = self.skeleton.num_joints
        check_joint_batch(joints, centres=self.centres)
        object.__setattr__(self, "samples", frozen(self.samples, None, 3, name="samples"))
        object.__setattr__(self, "starts", frozen_ints(self.starts, joints + 1, name="starts"))
        object.__setattr__(self, "widths", frozen(self.widths, joints, name="widths"))
        object.__setattr__(self, "levels", frozen(self.levels, joints, name="levels"))
        if np.any(np.diff(self.starts) < 0) or self.starts[-1] > len(self.samples) or np.any(self.widths <= 0.0):
            raise InputError("the samples of a quaternion field are out of order, or a width is not positive")

    @classmethod
    def from_clips(cls, motions: Motion | Iterable[Motion], *, max_samples: int = MAX_SAMPLES) -> QuaternionFieldLimits:
        """Learn from clips of one skeleton; the root is free."""
        skeleton, samples = collect_joint_samples(motions)
        joints = skeleton.num_joints
        centres, kept = SO3.identity(joints).wxyz.copy(), list[FloatArray]([np.zeros((0, 3))])
        widths, levels, starts = np.ones(joints), np.zeros(joints), np.zeros(joints + 1, dtype=np.int64)
        for j, rotations, centre in samples:
            local = (centre.inverse() @ rotations).canonical().wxyz[:, 1:]
            # At most `max_samples` of the points, each as far as can be from those before
            chosen = [0]
            away = np.linalg.norm(local - local[0], axis=1)
            while len(chosen) < min(max_samples, len(local)) and away.max() > 0.25 * MIN_WIDTH:
                chosen.append(int(np.argmax(away)))
                away = np.minimum(away, np.linalg.norm(local - local[chosen[-1]], axis=1))
            few = np.ascontiguousarray(local[chosen])
            widths[j], centres[j] = max(float(away.max()), MIN_WIDTH), centre.wxyz
            # The level is the lowest density of the motion itself
            rows = [log_density(few, 0, len(few), (p[0], p[1], p[2]), widths[j])[0] for p in local.tolist()]
            levels[j] = min(rows) - 1e-9
            kept.append(few)
            starts[j + 1] = starts[j] + len(few)
        return cls(skeleton, SO3(centres), np.concatenate(kept), starts, widths, levels)

    def tables(self) -> tuple[FloatArray, FloatArray, IntArray, FloatArray, FloatArray]:
        """What ``check_quaternion_field`` takes."""
        return self.centres.wxyz, self.samples, self.starts, self.widths, self.levels

    def __repr__(self) -> str:
        return f"QuaternionFieldLimits({self.skeleton!r}, {len(self.samples)} samples)"
