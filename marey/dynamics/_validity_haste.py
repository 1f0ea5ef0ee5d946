"""Does a body on one foot move as gravity tips it? A clip that is played too fast moves harder."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.dynamics._body import GRAVITY
from marey.dynamics._inverse import InverseDynamics
from marey.dynamics._supports import Supports

TIPPING_WINDOW_S: Final = (
    1.2  # [s] standard deviation: a stride or two on both sides; a single stop or start is hasty too
)
MIN_ARM_M: Final = 0.08  # [m] a body that stays nearer over its foot than this, on the whole, tells nothing
MIN_SHARE: Final = 0.2  # of the window on one foot
MIN_COSINE: Final = 0.4  # [-] between what gravity does and what the body does; less is no pendulum
MIN_NORMAL: Final = 0.2  # [body weights] with less force there is no centre of pressure to speak of


def compute_tipping_ratio(dynamics: InverseDynamics, supports: Supports, places: FloatArray) -> FloatArray:
    r"""How many times as hard as gravity tips it a body on one foot moves ``(F,)``; zero where nothing tells.

    With :math:`u` from the middle of the foot to the centre of mass and :math:`w` from the centre of pressure that the
    motion needs to the centre of mass, both level, it is :math:`\sum u\cdot w/\sum u\cdot u` over the frames on one
    foot within a few strides. A walker's pressure rolls forward under the foot, so :math:`w` is shorter: captured
    walks have 0.5 to 0.75, runs 0.8 to 1.1. Accelerations grow with the square of the speed of play, so more than
    that asks the pressure to run backwards under a body that goes forward: the clip is too fast.

    Args:
        dynamics: of the clip.
        supports: of the clip.
        places: centre of pressure ``(F, 3)`` [m].
    """
    total, alone = np.zeros((3, dynamics.num_frames)), _find_single_support(dynamics, supports)
    for limb, used in enumerate(alone):
        corners = supports.points[:, supports.limbs == limb]
        if not (used.any() and corners.shape[1]):
            continue
        arm = (dynamics.com - corners.mean(axis=1))[:, [0, 2]]
        needed = (dynamics.com - places)[:, [0, 2]]
        sums = np.stack([(arm * arm).sum(axis=1), (arm * needed).sum(axis=1), (needed * needed).sum(axis=1)])
        total += np.where(used, sums, 0.0)
    share = np.any(alone, axis=0).astype(np.float64)
    return _pendulum_ratios(*_average_over_window(np.concatenate([total, share[None]]), dynamics.rate_hz))


def _find_single_support(dynamics: InverseDynamics, supports: Supports) -> tuple[BoolArray, BoolArray]:
    """Frames on the left foot only and on the right foot only, with some weight on it."""
    left, right, *hands = (supports.limb_active(limb, slack=False) for limb in range(4))
    weight = dynamics.body.mass_kg * GRAVITY
    free = ~np.any(hands, axis=0) & (dynamics.forces[:, 1] > MIN_NORMAL * weight)
    return left & ~right & free, right & ~left & free


def _average_over_window(rows: FloatArray, rate_hz: float) -> FloatArray:
    """Rows ``(K, F)`` averaged over a Gaussian window that is cut at the ends of the clip."""
    half = min(int(np.ceil(3.0 * TIPPING_WINDOW_S * rate_hz)), rows.shape[1] - 1)
    window = np.exp(-0.5 * (np.arange(-half, half + 1) / (TIPPING_WINDOW_S * rate_hz)) ** 2)
    length = rows.shape[1] + 2 * half
    spectrum = np.fft.rfft(window, length)
    inside = np.fft.irfft(np.fft.rfft(np.ones(rows.shape[1]), length) * spectrum, length)[half : half + rows.shape[1]]
    means = np.fft.irfft(np.fft.rfft(rows, length, axis=1) * spectrum, length, axis=1)
    return np.maximum(means[:, half : half + rows.shape[1]] / np.maximum(inside, 1e-9), 0.0)


def _pendulum_ratios(arms: FloatArray, products: FloatArray, needs: FloatArray, share: FloatArray) -> FloatArray:
    """The ratio where the window has enough frames on one foot, far enough from it, that behave like a pendulum."""
    tells = (share > MIN_SHARE) & (arms > MIN_ARM_M**2 * share)
    tells &= products > MIN_COSINE * np.sqrt(arms * needs)
    return np.where(tells, products / np.where(tells, arms, 1.0), 0.0)
