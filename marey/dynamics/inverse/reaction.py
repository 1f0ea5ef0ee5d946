"""Ground reaction of a captured motion without plates: what stands out of the noise, and what contacts can give."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.dynamics.bodies import GRAVITY, Body
from marey.dynamics.inverse.newton_euler import solve_inverse_dynamics
from marey.dynamics.inverse.support_split import compute_centre_of_pressure, project_on_sole
from marey.dynamics.supports import Supports, any_in_row, widen_flags
from marey.motion import Motion, find_runs

HALF_POWER: Final = 0.1325  # [-] standard deviation [s] of a Gaussian window times the cutoff [Hz] at half its power
STIFF: Final = 1e6  # weight of the force that must vanish, against the displacement that makes it
ROUNDS: Final = 6  # of finding frames that pull


@dataclass(frozen=True, slots=True)
class ReactionSettings:
    """How the low-pass follows the motion; chosen on eight trials: three drop jumps, four walks, a run at 3 m/s."""

    bands_hz: tuple[float, ...] = (3.5, 8.0, 20.0)  # what a quiet stance, a step and a landing need
    noise_hz: float = 32.0  # of what is above the last band nothing is kept: it tells the noise
    doubt: float = 16.0  # times the noise expected in a band below which it says nothing
    power: float = 5.0  # of the cutoff with which noise grows near a flight: white noise of places
    calm_power: float = 0.5  # the same elsewhere, where no impact hides the force of soft tissue, which grows less
    near_s: float = 0.6  # [s] from a flight within which landings and runs are looked for
    around_s: float = 0.06  # [s] over which a band is weighed: an impact lasts as long
    flight_force: float = 0.5  # [body weights] more than this is a contact that nobody saw, such as on a belt
    flight_edge_s: float = 0.02  # [s] at either end of a flight, in which a foot may touch yet
    bearing_width: float = 0.4  # [-] of the sole's, along whose middle the pressure of one foot rolls
    pressure_s: float = 0.03  # [s] over which it is averaged, by its force
    spread_hz: float = 1.2  # above it what flights show to be wrong is not spread over stances


def filter_reaction(
    motion: Motion, body: Body, settings: ReactionSettings | None = None, calm: BoolArray | None = None
) -> FloatArray:
    r"""Wrench about the centre of mass ``(F, 6)`` [N, N m] by inverse dynamics, each frequency where it is believed.

    .. math:: w = w_0 + \sum_b g_b(t)\,(w_{b+1} - w_b),\quad
        g_b = \Big[1 - \kappa\,\frac{h_b}{h_n}\,\frac{E_n(t)}{E_b(t)}\Big]_+,\quad h_b = f_{b+1}^p - f_b^p

    with wrenches :math:`w_b` under Gaussian low-passes of the cutoffs :math:`f_b` and local energies :math:`E_b` of the
    bands between them. Noise of places that is white has a force whose power grows with :math:`f^4`, p = 5, so the
    highest band :math:`n`, of which nothing is kept, tells how much of the others is noise: a landing is kept to 20 Hz,
    a quiet stance and a marker that trembles to 3.5 Hz. In frames ``calm (F,)``, and for moments, p is 0.5: the force
    of soft tissue is as large at low frequencies, and no impact hides it there.
    """
    chosen, rate_hz = settings or ReactionSettings(), motion.rate_hz
    edges = (*chosen.bands_hz, min(chosen.noise_hz, 0.45 * rate_hz))
    dynamics = solve_inverse_dynamics(body, motion, cutoff_hz=edges[-1])
    raw = np.concatenate([dynamics.forces, dynamics.moments], axis=1)
    below = [average_frames(raw, HALF_POWER * rate_hz / f) for f in chosen.bands_hz] + [raw]
    bands = [high - low for low, high in pairwise(below)]
    smooth = np.zeros(motion.num_frames, dtype=np.bool_) if calm is None else calm
    wrench = below[0].copy()
    for part in (slice(0, 3), slice(3, 6)):
        power = np.where(smooth | (part.start > 0), chosen.calm_power, chosen.power)
        heights = [high**power - low**power for low, high in pairwise(edges)]
        energies = [average_frames((band[:, part] ** 2).sum(axis=1), chosen.around_s * rate_hz) for band in bands]
        for band, energy, height in zip(bands[:-1], energies[:-1], heights[:-1], strict=True):
            noise = chosen.doubt * height / heights[-1] * energies[-1]
            wrench[:, part] += np.clip(1.0 - noise / np.maximum(energy, 1e-12), 0.0, 1.0)[:, None] * band[:, part]
    return wrench


def free_flights(load: FloatArray, flying: BoolArray, rate_hz: float, spread_hz: float) -> tuple[FloatArray, BoolArray]:
    r"""Vertical force ``(F,)`` [body weights] that vanishes in flight and never pulls, and where it vanishes ``(F,)``.

    .. math:: \min_e \sum_k e_k^2 + \lambda\sum_k(\Delta^3 e_k)^2
        \quad\text{so that}\quad f_k + \Delta^2 e_k\,f_s^2/g = 0 \text{ in flight, } \ge 0 \text{ elsewhere}

    The least displacement e of the centre of mass: what soft tissue makes of a flight is taken from the stances around
    it, whose impulse a force that is merely cut off would get wrong. λ as in ``smooth_motion``.
    """
    from scipy.linalg import solveh_banded

    count, unit = len(load), GRAVITY / rate_hz**2
    stiffness = (np.sqrt(2.0) - 1.0) / (2.0 * np.sin(np.pi * spread_hz / rate_hz)) ** 6
    free, force = flying.copy(), load
    for _ in range(ROUNDS if count > 3 else 0):
        # Upper bands of I + lambda D3^T D3 + D2^T W D2, and D2^T W times what is wanted of D2 e
        bands, right = np.zeros((4, count)), np.zeros(count)
        bands[3] = 1.0
        held = np.where(free[1:-1], STIFF, 0.0)
        for stencil, weights in (((-1.0, 3.0, -3.0, 1.0), stiffness), ((1.0, -2.0, 1.0), held)):
            last = count - len(stencil) + 1
            for i, left in enumerate(stencil):
                for j in range(i, len(stencil)):
                    bands[3 - (j - i), j : last + j] += weights * left * stencil[j]
        for i, weight in enumerate((1.0, -2.0, 1.0)):
            right[i : count - 2 + i] -= weight * held * load[1:-1] * unit
        shift = np.asarray(solveh_banded(bands, right), dtype=np.float64)
        force = load + np.pad(np.diff(shift, 2) / unit, 1)
        if not ((force < 0.0) & ~free).any():
            break
        free = free | (force < 0.0)
    return np.where(free, 0.0, np.maximum(force, 0.0)), free


def estimate_reaction(
    motion: Motion, body: Body, supports: Supports, settings: ReactionSettings | None = None
) -> FloatArray:
    """Wrench of the ground about the world's origin ``(F, 6)`` [N, N m] that a motion needs.

    The validity report averages forces over 0.04 s so that it judges what lasts; this is the force itself, by
    :func:`filter_reaction`. The ground does not pull, where nothing touches and little is needed it gives nothing
    (:func:`free_flights`), and on one foot the pressure stays on its sole.
    """
    chosen, rate_hz = settings or ReactionSettings(), motion.rate_hz
    weight, edge = body.mass_kg * GRAVITY, round(chosen.flight_edge_s * rate_hz)
    touching = any_in_row(supports.touching)
    # Flights are sought in what the landing's own filter gives
    wrench = filter_reaction(motion, body, chosen)
    light = wrench[:, 1] < chosen.flight_force * weight
    flying = light & ~widen_flags(touching, edge)
    near = widen_flags(light, min(round(chosen.near_s * rate_hz), motion.num_frames))
    if not near.all():
        wrench = filter_reaction(motion, body, chosen, ~near)
    load, free = free_flights(wrench[:, 1] / weight, flying, rate_hz, chosen.spread_hz)
    wrench[:, 1] = weight * load
    wrench[:, 3:] += np.cross(body.centre_of_mass(motion), wrench[:, :3])
    # On one foot the pressure rolls slowly along the middle of its sole
    feet = [supports.limb_active(limb, slack=False) for limb in (0, 1)]
    others = supports.limb_active(2) | supports.limb_active(3) | free
    for limb in (0, 1):
        for start, stop in find_runs(feet[limb] & ~feet[1 - limb] & ~others):
            own = wrench[start:stop]
            places, _ = compute_centre_of_pressure(own, supports.floor_m)
            parts = [average_frames(v, chosen.pressure_s * rate_hz) for v in (places * own[:, 1:2], own[:, 1:2])]
            pairs = supports.points[start:stop, supports.limbs == limb].reshape(stop - start, -1, 2, 3)
            middles = pairs.mean(axis=2, keepdims=True)
            corners = (middles + chosen.bearing_width * (pairs - middles)).reshape(stop - start, -1, 3)
            moved = project_on_sole(parts[0] / np.maximum(parts[1], 1e-9), corners) - places
            own[:, 3:] += np.cross(moved * [1.0, 0.0, 1.0], own[:, :3])
    wrench[free] = 0.0
    return wrench


def average_frames(values: FloatArray, sigma: float) -> FloatArray:
    """Mean of values ``(F, ...)`` over a Gaussian window of this standard deviation [frames]."""
    from scipy.ndimage import gaussian_filter1d

    return np.asarray(gaussian_filter1d(values, sigma, axis=0, mode="nearest"), dtype=np.float64)
