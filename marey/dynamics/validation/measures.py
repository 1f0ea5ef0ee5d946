"""Measures of a frame: missing wrench, centre of pressure, flight, and causes of invalidity.

A body on one foot moves as gravity tips it; a clip that is played too fast moves harder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.dynamics.bodies import GRAVITY
from marey.dynamics.contact_cones import LEVER_M, fit_moving_cones
from marey.dynamics.inverse.newton_euler import InverseDynamics
from marey.dynamics.supports import Supports, any_in_row, widen_flags
from marey.motion import find_runs

TIPPING_WINDOW_S: Final = 1.2  # [s] standard deviation: a stride or two on both sides; a single stop is hasty too
MIN_ARM_M: Final = 0.08  # [m] below this mean offset from its foot a body gives no information
MIN_SHARE: Final = 0.2  # of the window on one foot
MIN_COSINE: Final = 0.4  # [-] between tipping by gravity and acceleration; below it, not a pendulum
MIN_NORMAL: Final = 0.2  # [body weights] force below which the centre of pressure is undefined


def compute_tipping_ratio(dynamics: InverseDynamics, supports: Supports, places: FloatArray) -> FloatArray:
    r"""Horizontal acceleration over the tipping effect of gravity on one foot ``(F,)``; zero where undefined.

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
    # Frames on the left foot only and on the right foot only, with some weight on it
    left, right, *hands = (supports.limb_active(limb, slack=False) for limb in range(4))
    free = ~np.any(hands, axis=0) & (dynamics.forces[:, 1] > MIN_NORMAL * dynamics.body.mass_kg * GRAVITY)
    alone = left & ~right & free, right & ~left & free
    # Sums of u.u, u.w and w.w
    total = np.zeros((3, dynamics.num_frames))
    for limb, used in enumerate(alone):
        corners = supports.points[:, supports.limbs == limb]
        if not (used.any() and corners.shape[1]):
            continue
        arm = (dynamics.com - corners.mean(axis=1))[:, [0, 2]]
        needed = (dynamics.com - places)[:, [0, 2]]
        sums = np.stack([(arm * arm).sum(axis=1), (arm * needed).sum(axis=1), (needed * needed).sum(axis=1)])
        total += np.where(used, sums, 0.0)
    share = np.any(alone, axis=0).astype(np.float64)
    # Rows `(K, F)` averaged over a Gaussian window that is cut at the ends of the clip
    rows = np.concatenate([total, share[None]])
    rate_hz = dynamics.rate_hz
    half = min(int(np.ceil(3.0 * TIPPING_WINDOW_S * rate_hz)), rows.shape[1] - 1)
    window = np.exp(-0.5 * (np.arange(-half, half + 1) / (TIPPING_WINDOW_S * rate_hz)) ** 2)
    length = rows.shape[1] + 2 * half
    spectrum = np.fft.rfft(window, length)
    inside = np.fft.irfft(np.fft.rfft(np.ones(rows.shape[1]), length) * spectrum, length)[half : half + rows.shape[1]]
    means = np.fft.irfft(np.fft.rfft(rows, length, axis=1) * spectrum, length, axis=1)
    means = np.maximum(means[:, half : half + rows.shape[1]] / np.maximum(inside, 1e-9), 0.0)
    # The ratio where the window has enough frames on one foot, far enough from it, that behave like a pendulum
    arms, products, needs, part = means
    tells = (part > MIN_SHARE) & (arms > MIN_ARM_M**2 * part)
    tells &= products > MIN_COSINE * np.sqrt(arms * needs)
    return np.where(tells, products / np.where(tells, arms, 1.0), 0.0)


# Noise of a capture changes sign from frame to frame, a force that is really missing lasts. So what is missing counts
# twice: its mean over a fifth of a second, and at half its size the frame by itself. Numbers chosen on walks of CMU
# subjects 02, 07, 16, 35 and 69 and their copies at 1.5 times the speed, with runs and jumps in view; of three weights
# the one was taken that also suits 31 walks of other subjects, so expect somewhat worse on new ones.
SLIP_MARGIN: Final = 0.025  # [body weights] of friction lacking that is called a slip
LASTING_S: Final = 0.08  # [s] standard deviation of the window of that mean
LASTING_WEIGHT: Final = 2.5
MOMENT_WEIGHT: Final = 0.5
FLIGHT_NEAR_S: Final = 1.0  # [s] within this of a flight a body is said to run
GRIP_MOMENT_M: Final = 0.05  # [m] moment over body weight that a hand holds about each axis
GRIP_ROUNDS: Final = 4  # of sharing between forces of hands and moments of hands
LOW_NORMAL: Final = 0.2  # [body weights] below this the centre of pressure means little
MIN_RUN_FLIGHT_S: Final = 0.03  # [s] a jogger flies as briefly as this
MIN_FLIGHT_S: Final = 0.08  # [s] shorter gaps between contacts are not called a flight


@dataclass(frozen=True, slots=True, eq=False)
class ContactSupply:
    """Wrench supplied by contacts, and the demand of the motion; moments about the centre of mass."""

    needed: FloatArray  # (F, 6) [body weights, moments over LEVER_M]
    given: FloatArray  # (F, 6) nearest that the contacts can give
    corner_forces: FloatArray  # (F, P, 3) [body weights]

    @property
    def missing(self) -> FloatArray:
        """Missing wrench ``(F, 6)``."""
        return self.needed - self.given


def fit_contact_supply(dynamics: InverseDynamics, supports: Supports) -> ContactSupply:
    """Find the nearest wrench that the supports can give, for every frame.

    Hands that hold on take any force, and a moment of up to ``GRIP_MOMENT_M`` body weights about each axis.
    """
    weight = dynamics.body.mass_kg * GRAVITY
    moments = dynamics.moments / LEVER_M
    needed = np.ascontiguousarray(np.concatenate([dynamics.forces, moments], axis=1) / weight)
    arms = np.ascontiguousarray(supports.points - dynamics.com[:, None])
    held = np.zeros_like(needed)
    bound = GRIP_MOMENT_M / LEVER_M * any_in_row(supports.grips)[:, None]
    given, forces = needed, np.zeros_like(arms)
    for _ in range(GRIP_ROUNDS if supports.grips.any() else 1):
        given, forces = fit_moving_cones(needed - held, arms, supports.active, supports.grips, supports.edges, LEVER_M)
        held[:, 3:] = np.clip((needed - given)[:, 3:], -bound, bound)
    return ContactSupply(needed, given + held, forces)


def average_gaussian(values: FloatArray, rate_hz: float, window_s: float) -> FloatArray:
    """Mean of values ``(F, ...)`` over a Gaussian window of this standard deviation, the clip mirrored at its ends."""
    half = min(int(np.ceil(3.0 * window_s * rate_hz)), len(values) - 1)
    if half < 1:
        return values
    window = np.exp(-0.5 * (np.arange(-half, half + 1) / (window_s * rate_hz)) ** 2)
    window /= window.sum()
    columns = values.reshape(len(values), -1)
    longer = np.concatenate([columns[half:0:-1], columns, columns[-2 : -half - 2 : -1]])
    means = [cast(FloatArray, np.convolve(longer[:, k], window, mode="valid")) for k in range(columns.shape[1])]
    return np.stack(means, axis=1).reshape(values.shape)


def compute_momentum_drift(dynamics: InverseDynamics, supports: Supports) -> FloatArray:
    """How far the angular momentum about the centre of mass is off its mean in each flight ``(F,)`` [kg m²/s].

    The timing slack of the contacts is left out; on the ground it is zero.
    """
    drift = np.zeros(dynamics.num_frames)
    for start, stop in find_flights(supports.active, dynamics.rate_hz):
        momentum = dynamics.angular_momentum[start:stop]
        drift[start:stop] = np.linalg.norm(momentum - momentum.mean(axis=0), axis=-1)
    return drift


def find_frames_near_flight(supports: Supports, rate_hz: float) -> BoolArray:
    """Frames ``(F,)`` within ``FLIGHT_NEAR_S`` of a flight."""
    flying = np.zeros(len(supports.touching), dtype=np.bool_)
    for start, stop in find_flights(supports.touching, rate_hz, MIN_RUN_FLIGHT_S):
        flying[start:stop] = True
    return widen_flags(flying, min(round(FLIGHT_NEAR_S * rate_hz), len(flying)))


def find_flights(active: BoolArray, rate_hz: float, least_s: float = MIN_FLIGHT_S) -> list[tuple[int, int]]:
    """Begin and end (exclusive) of every stretch without support ``(F, P)`` that is long enough to be a flight."""
    return [(a, b) for a, b in find_runs(~any_in_row(active)) if (b - a) >= least_s * rate_hz]
