"""Positions, rates and accelerations of a clip: a zero-phase low-pass, then differences of fourth order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np

from marey.base import FloatArray, InputError, frozen, kernel, split_blocks
from marey.lie import SO3
from marey.motion import Motion


@kernel
def quaternion_rates(wxyz: FloatArray, first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Angular velocities and accelerations ``(F, J, 3)``, each in its own turning frame.

    .. math:: \omega = 2\,\mathrm{vec}(\bar q\,\dot q), \qquad \dot\omega = 2\,\mathrm{vec}(\bar q\,\ddot q)

    Args:
        wxyz: ``(F + 4, J, 4)`` of continuous sign, two frames more at either end.
        first: ``(5,)`` stencil of the first derivative, over the time between frames.
        second: ``(5,)`` stencil of the second derivative, over its square.
    """
    frames, joints = wxyz.shape[0] - 4, wxyz.shape[1]
    rates, changes = np.empty((frames, joints, 3)), np.empty((frames, joints, 3))
    for f in range(frames):
        for j in range(joints):
            for stencil, out in ((first, rates), (second, changes)):
                # Derivative of the quaternion over five frames
                dw, dx, dy, dz = 0.0, 0.0, 0.0, 0.0
                for k in range(5):
                    dw += stencil[k] * wxyz[f + k, j, 0]
                    dx += stencil[k] * wxyz[f + k, j, 1]
                    dy += stencil[k] * wxyz[f + k, j, 2]
                    dz += stencil[k] * wxyz[f + k, j, 3]
                w, x, y, z = wxyz[f + 2, j, 0], wxyz[f + 2, j, 1], wxyz[f + 2, j, 2], wxyz[f + 2, j, 3]
                # Vector part of conjugate(q) dq
                out[f, j, 0] = 2.0 * (w * dx - x * dw - y * dz + z * dy)
                out[f, j, 1] = 2.0 * (w * dy - y * dw - z * dx + x * dz)
                out[f, j, 2] = 2.0 * (w * dz - z * dw - x * dy + y * dx)
    return rates, changes


MIN_FRAMES: Final = 3  # an acceleration needs three
# five-point stencils of the first and second derivative, exact for quartics
FIRST: Final = np.array([1.0, -8.0, 0.0, 8.0, -1.0]) / 12.0
SECOND: Final = np.array([-1.0, 16.0, -30.0, 16.0, -1.0]) / 12.0
THIRD: Final = (-1.0, 3.0, -3.0, 1.0)  # third difference
MIN_CUTOFF: Final = 1e-3  # [-] of the frame rate; below it rounding hides the clip
BLOCK_NUMBERS: Final = 1 << 18  # of a clip that are smoothed at a time
REFINEMENTS: Final = 2  # each takes about two digits off the error at the lowest cutoff, more above it


@dataclass(frozen=True, slots=True, eq=False)
class MotionStates:
    """Positions, velocities and accelerations of all joints at every frame."""

    root_positions: FloatArray  # (F, 3) [m] in world
    root_velocities: FloatArray  # (F, 3) [m/s]
    root_accelerations: FloatArray  # (F, 3) [m/s²]
    rotations: SO3  # (F, J) R_parent_joint
    rates: FloatArray  # (F, J, 3) [rad/s] against the parent, in the joint's frame
    rate_changes: FloatArray  # (F, J, 3) [rad/s²] time derivatives of the rates, in the joint's frame

    def __post_init__(self) -> None:
        frames, joints = self.rotations.shape
        for name in ("root_positions", "root_velocities", "root_accelerations"):
            object.__setattr__(self, name, frozen(getattr(self, name), frames, 3, name=name))
        for name in ("rates", "rate_changes"):
            object.__setattr__(self, name, frozen(getattr(self, name), frames, joints, 3, name=name))


def compute_states(motion: Motion, cutoff_hz: float | None = None) -> MotionStates:
    r"""Differentiate a clip, smoothed first if a cutoff is given.

    Velocities and accelerations are five-point differences; past the ends the clip is continued with a constant
    acceleration. Rates of joints come from differences of quaternions of continuous sign,

    .. math:: \omega = 2\,\mathrm{vec}(\bar q\,\dot q), \qquad \dot\omega = 2\,\mathrm{vec}(\bar q\,\ddot q),

    in the joint's frame; for a turn by θ a frame the rate is exact to :math:`(\theta/2)^4/30`.

    Args:
        motion: at least three frames.
        cutoff_hz: see :func:`smooth`; ``None`` differentiates the clip as it is.

    Raises:
        InputError: fewer than three frames, or a cutoff that is not between 0.001 and half of the frame rate.
    """
    if motion.num_frames < MIN_FRAMES:
        raise InputError(
            f"'{motion.name}' has {motion.num_frames} frames", f"An acceleration needs at least {MIN_FRAMES}"
        )
    if cutoff_hz is not None:
        motion = smooth_motion(motion, cutoff_hz)
    velocities, accelerations = compute_differences(motion.root_positions, motion.rate_hz)
    # Angular velocities and accelerations `(F, J, 3)` in the frames that turn
    rotations = motion.rotations
    rate_hz = motion.rate_hz
    rates, changes = quaternion_rates(
        _extrapolate_ends(rotations.continuous().wxyz), FIRST * rate_hz, SECOND * rate_hz**2
    )
    return MotionStates(motion.root_positions, velocities, accelerations, motion.rotations, rates, changes)


def smooth_motion(motion: Motion, cutoff_hz: float) -> Motion:
    r"""Remove what moves faster than ``cutoff_hz``, without delay and without pulling at the ends of the clip.

    The smooth path :math:`x` minimises :math:`\sum (x_k - y_k)^2 + \lambda \sum (\Delta^3 x_k)^2`
    ([Whittaker1923]_). Inside the clip this is a zero-phase filter of gain
    :math:`1 / (1 + \lambda (2 \sin \pi f / f_s)^6)`, and λ is set so that the gain at the cutoff is
    :math:`1/\sqrt2`. Towards its ends the path goes on with a constant acceleration, where a filter that reflects the
    clip makes the acceleration vanish; forces need that. Rotations are filtered as quaternions of continuous sign and
    normalised, as in ``marey.motion.lowpass``.

    Args:
        motion: any clip of at least four frames; a shorter one is returned as it is.
        cutoff_hz: between 0.001 of the frame rate and half of it.

    Raises:
        InputError: a cutoff outside these.
    """
    if not 0.0 < cutoff_hz < 0.5 * motion.rate_hz:
        limit = 0.5 * motion.rate_hz
        raise InputError(f"cutoff_hz is {cutoff_hz:g}", f"It must be between 0 and half the rate, {limit:g}")
    smooth = make_smoother(motion.num_frames, motion.rate_hz, cutoff_hz)
    turned = np.empty(motion.rotations.wxyz.shape)
    # A few joints at a time, so that a long clip is in memory once
    for part in split_blocks(motion.skeleton.num_joints, max(1, BLOCK_NUMBERS // (4 * len(turned)))):
        wxyz = motion.rotations[:, part].continuous().wxyz
        found = smooth(wxyz)
        lost = np.linalg.norm(found, axis=-1, keepdims=True) < 1e-6  # a spin far above the cutoff averages to nothing
        turned[:, part] = SO3(np.where(lost, wxyz, found)).wxyz
    turned.setflags(write=False)
    return replace(motion, root_positions=smooth(motion.root_positions), rotations=SO3(turned), source=None)


def smooth_values(values: FloatArray, rate_hz: float, cutoff_hz: float) -> FloatArray:
    """As :func:`smooth`, for plain arrays ``(F, ...)`` sampled at ``rate_hz``."""
    return make_smoother(len(values), rate_hz, cutoff_hz)(values)


def make_smoother(count: int, rate_hz: float, cutoff_hz: float) -> Callable[[FloatArray], FloatArray]:
    """The filter of :func:`smooth` for arrays of ``count`` rows, factorised once."""
    if count < 4:
        return lambda values: values
    # Weight lambda of the third differences D that halves the power at the cutoff
    if cutoff_hz < MIN_CUTOFF * rate_hz:
        raise InputError(
            f"cutoff_hz is {cutoff_hz:g}, too low for {rate_hz:g} frames a second",
            f"Resample the motion first, or give at least {MIN_CUTOFF * rate_hz:.3g}",
        )
    stiffness = float((np.sqrt(2.0) - 1.0) / (2.0 * np.sin(np.pi * cutoff_hz / rate_hz)) ** 6)
    if not np.isfinite(stiffness):
        raise InputError(f"a cutoff of {cutoff_hz:g} Hz at {rate_hz:g} frames a second", "Check the rate")
    from scipy import linalg

    lapack = cast(Any, linalg)  # scipy has no types
    # Upper bands of I + lambda D^T D
    bands = np.zeros((4, count))
    for i in range(4):
        for j in range(i, 4):
            bands[3 - (j - i), j : count - 3 + j] += stiffness * THIRD[i] * THIRD[j]
    bands[3] += 1.0
    factor = (lapack.cholesky_banded(bands, check_finite=False), False)

    def smooth(values: FloatArray) -> FloatArray:
        columns = values.reshape(count, -1)
        smoothed = np.empty(columns.shape)
        for part in split_blocks(columns.shape[1], max(4, BLOCK_NUMBERS // count)):
            # Fit what the values are off the line between their ends
            own = columns[:, part]
            start, slope = own[:1], (own[-1:] - own[:1]) / (count - 1)
            line = start + np.arange(count)[:, None] * slope  # what a smoother leaves alone is left out of its rounding
            bent = own - line
            found = np.zeros_like(bent)
            for _ in range(1 + REFINEMENTS):
                # Residual y - x - lambda D^T D x, and its correction
                third, total = np.diff(found, 3, axis=0), np.zeros_like(found)
                for k, weight in enumerate(THIRD):
                    total[k : len(found) - 3 + k] += weight * third
                left = bent - found - stiffness * total
                found = found + cast(FloatArray, lapack.cho_solve_banded(factor, left, check_finite=False))
            smoothed[:, part] = line + found
        return smoothed.reshape(values.shape)

    return smooth


def compute_differences(values: FloatArray, rate_hz: float) -> tuple[FloatArray, FloatArray]:
    """First and second time derivatives of ``(F, ...)``, ``F >= 3``, continued with a constant acceleration.

    Raises:
        InputError: a value is not finite.
    """
    if not np.isfinite(values).all():
        raise InputError("values that are not finite", "Fill their gaps first")
    padded, count = _extrapolate_ends(values), len(values)
    first, second = (
        sum((weight * padded[k : k + count] for k, weight in enumerate(stencil)), np.zeros_like(values))
        for stencil in (FIRST, SECOND)
    )
    return first * rate_hz, second * rate_hz**2


def _extrapolate_ends(values: FloatArray) -> FloatArray:
    """Two more rows at either end, on the parabola through the three outermost."""
    first, last = (
        np.stack([a + n * (a - b) + 0.5 * n * (n + 1) * (a - 2.0 * b + c) for n in (2, 1)])
        for a, b, c in (values[:3], values[:-4:-1])
    )
    return np.concatenate([first, values, last[::-1]])
