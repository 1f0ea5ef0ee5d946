"""Compiled laws of the gait model: what to mix, how fast to play it, when feet are down."""

from __future__ import annotations

from math import sqrt

from marey.base import FloatArray, kernel
from marey.locomotion._model import GaitArrays


@kernel
def copy_values(out: FloatArray, values: FloatArray) -> None:
    """Copy values; a plain loop compiles twenty times faster than an assignment of slices."""
    for i in range(out.shape[0]):
        out[i] = values[i]


@kernel
def normalise_speed(speed: float, leg: float, own_leg: float, froude: bool) -> float:
    """Normalised speed [1/s] of a character with a leg of its own length ([Glardon2005]_ §III.1.2)."""
    return speed / sqrt(leg * own_leg) if froude else speed / leg


@kernel
def cadence_scale(leg: float, own_leg: float, froude: bool) -> float:
    """How many times faster than the tables this character steps: short legs are short pendulums."""
    return sqrt(own_leg / leg) if froude else 1.0


@kernel
def find_table_row(speeds: FloatArray, s_n: float) -> tuple[int, float]:
    """Row of the tables below a speed, and how far it is to the next; the ends hold."""
    last = speeds.shape[0] - 1
    if s_n <= speeds[0]:
        return 0, 0.0
    if s_n >= speeds[last]:
        return last - 1, 1.0
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        if speeds[middle] <= s_n:
            low = middle
        else:
            high = middle
    return low, (s_n - speeds[low]) / (speeds[low + 1] - speeds[low])


@kernel
def gait_weight(gaits: GaitArrays, style: int, gait: int, run: float) -> float:
    """Part that a gait has in a style; who has one gait alone shows that gait."""
    if not gaits.has_gait[style, 1 - gait]:
        return 1.0
    if not gaits.has_gait[style, gait]:
        return 0.0
    return run if gait == 1 else 1.0 - run


@kernel
def evaluate_cadence(gaits: GaitArrays, s_n: float, run: float, weights: FloatArray) -> float:
    """Cycles per second [Hz] at the model's own leg length ([Glardon2005]_ Eq. III.1.8)."""
    g, part = find_table_row(gaits.speeds, s_n)
    total = 0.0
    for k in range(weights.shape[0]):
        if weights[k] > 0.0:
            for tau in range(2):
                table = gaits.frequency[k, tau]
                value = table[g] + part * (table[g + 1] - table[g])
                total += weights[k] * gait_weight(gaits, k, tau, run) * value
    return total


@kernel
def evaluate_foot_events(gaits: GaitArrays, s_n: float, run: float, weights: FloatArray, out: FloatArray) -> None:
    """Unwrapped phases ``(8,)`` of the foot events."""
    g, part = find_table_row(gaits.speeds, s_n)
    for e in range(8):
        out[e] = 0.0
    for k in range(weights.shape[0]):
        if weights[k] > 0.0:
            for tau in range(2):
                share = weights[k] * gait_weight(gaits, k, tau, run)
                if share > 0.0:
                    low, high = gaits.events[k, tau, g], gaits.events[k, tau, g + 1]
                    for e in range(8):
                        out[e] += share * (low[e] + part * (high[e] - low[e]))


@kernel
def evaluate_score(gaits: GaitArrays, style: int, gait: int, component: int, s_n: float) -> float:
    r"""Score :math:`A(s_n)` of one component: a power from standing, then a line ([Glardon2005]_ Eq. II.2.12)."""
    slope, offset = gaits.slope[style, gait, component], gaits.offset[style, gait, component]
    slowest = gaits.slowest[style, gait]
    if s_n >= slowest:
        return slope * s_n + offset
    standing = gaits.standing[style, gait, component]
    if s_n <= 0.0:
        return standing
    return standing + (slope * slowest + offset - standing) * (s_n / slowest) ** gaits.power


@kernel
def add_unit_row(
    gaits: GaitArrays, s_n: float, run: float, weights: FloatArray, row: int, share: float, out: FloatArray
) -> None:
    """Add ``share`` times one row of the synthesised unit ([Glardon2005]_ Eq. II.2.20, multiplied out).

    As many columns are added as ``out`` has.
    """
    for k in range(weights.shape[0]):
        if weights[k] > 0.0:
            for tau in range(2):
                part = share * weights[k] * gait_weight(gaits, k, tau, run)
                if part != 0.0:
                    for d in range(out.shape[0]):
                        out[d] += part * gaits.base[k, tau, row, d]
                    for c in range(gaits.lift.shape[2]):
                        score = part * evaluate_score(gaits, k, tau, c, s_n)
                        for d in range(out.shape[0]):
                            out[d] += score * gaits.lift[k, tau, c, row, d]


@kernel
def catmull_rom_weight(r: int, u: float) -> float:
    """Weight of the ``r``-th of four values for a place ``u`` between the second and the third."""
    if r == 0:
        return 0.5 * u * (u * (2.0 - u) - 1.0)
    if r == 1:
        return 0.5 * (u * u * (3.0 * u - 5.0) + 2.0)
    if r == 2:
        return 0.5 * u * (u * (4.0 - 3.0 * u) + 1.0)
    return 0.5 * u * u * (u - 1.0)
