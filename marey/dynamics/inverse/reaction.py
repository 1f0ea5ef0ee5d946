"""Ground reaction of a captured motion without plates: what stands out of the noise, and nothing in flight."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.dynamics.bodies import GRAVITY, Body
from marey.dynamics.inverse.newton_euler import solve_inverse_dynamics
from marey.dynamics.supports import Supports, any_in_row
from marey.motion import Motion

HALF_POWER: Final = 0.1325  # [-] standard deviation [s] of a Gaussian window times the cutoff [Hz] at half its power


@dataclass(frozen=True, slots=True)
class ReactionSettings:
    """How the low-pass follows the motion; chosen on eight trials: three drop jumps, four walks, a run at 3 m/s."""

    bands_hz: tuple[float, ...] = (3.5, 8.0, 20.0)  # what a quiet stance, a step and a landing need
    noise_hz: float = 32.0  # of what is above the last band nothing is kept: it tells the noise
    doubt: float = 16.0  # times the noise expected in a band below which it says nothing
    around_s: float = 0.06  # [s] over which a band is weighed: an impact lasts as long
    flight_force: float = 0.5  # [body weights] more than this is a contact that nobody saw, such as on a belt


def filter_reaction(motion: Motion, body: Body, settings: ReactionSettings | None = None) -> FloatArray:
    r"""Wrench about the world's origin ``(F, 6)`` [N, N m] by inverse dynamics, each frequency where it is believed.

    .. math:: w = w_0 + \sum_b g_b(t)\,(w_{b+1} - w_b),\quad
        g_b = \Big[1 - \kappa\,\frac{h_b}{h_n}\,\frac{E_n(t)}{E_b(t)}\Big]_+,\quad h_b = f_{b+1}^5 - f_b^5

    with wrenches :math:`w_b` under Gaussian low-passes of the cutoffs :math:`f_b` and local energies :math:`E_b` of the
    bands between them. Noise of places that is white has a force whose power grows with :math:`f^4`, so the highest
    band :math:`n`, of which nothing is kept, tells how much of the others is noise: a landing is kept to 20 Hz, a quiet
    stance and a marker that trembles to 3.5 Hz.
    """
    from scipy.ndimage import gaussian_filter1d

    chosen = settings or ReactionSettings()
    edges = (*chosen.bands_hz, min(chosen.noise_hz, 0.45 * motion.rate_hz))
    raw = solve_inverse_dynamics(body, motion, cutoff_hz=edges[-1]).wrench

    def average(values: FloatArray, sigma_s: float) -> FloatArray:
        return np.asarray(gaussian_filter1d(values, sigma_s * motion.rate_hz, axis=0, mode="nearest"), dtype=np.float64)

    below = [average(raw, HALF_POWER / f) for f in chosen.bands_hz] + [raw]
    bands = [high - low for low, high in pairwise(below)]
    heights = [max(high**5 - low**5, 1.0) for low, high in pairwise(edges)]
    energies = [average((band[:, :3] ** 2).sum(axis=1), chosen.around_s) for band in bands]
    wrench = below[0].copy()
    for band, energy, height in zip(bands[:-1], energies[:-1], heights[:-1], strict=True):
        noise = chosen.doubt * height / heights[-1] * energies[-1]
        wrench += np.clip(1.0 - noise / np.maximum(energy, 1e-12), 0.0, 1.0)[:, None] * band
    return wrench


def estimate_reaction(
    motion: Motion, body: Body, supports: Supports, settings: ReactionSettings | None = None
) -> FloatArray:
    """Wrench of the ground about the world's origin ``(F, 6)`` [N, N m] that a motion needs.

    The validity report averages forces over 0.04 s so that it judges what lasts; this is the force itself, by
    :func:`filter_reaction`. The ground does not pull, and where nothing touches and little is needed it gives nothing:
    a filter spreads what a landing needs over the flight before it.
    """
    chosen = settings or ReactionSettings()
    wrench = filter_reaction(motion, body, chosen)
    load = wrench[:, 1] / (body.mass_kg * GRAVITY)
    wrench[(~any_in_row(supports.touching) & (load < chosen.flight_force)) | (load < 0.0)] = 0.0
    return wrench
