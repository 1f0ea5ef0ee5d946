"""Compiled search for the speed profile that brings a foot to a place."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, kernel

FOUND = 0
TOO_CLOSE = 1  # no heel strike fits before the place, even at the highest speed
BACKWARDS = 2  # the body would have to walk backwards
TOO_FAST = 3
TOO_HARD = 4  # more acceleration than allowed

GAUSS_NODES, GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(10)
PANELS = 3  # the table of frequencies has corners: three short panels see them better than a long one
STRIKE_OFFSETS = (0, 1, -1, 2, -2, 3, -3)  # heel strikes tried, from the likeliest one on
NUM_CHECKED_SPEEDS = 32  # places at which speed and acceleration are looked at


@kernel
def interpolate_cadence(speeds: FloatArray, hertz: FloatArray, speed: float, run: float) -> float:
    """Cycles per second at ``speed``: linear between the speeds of the table, zero for a speed below zero."""
    last = len(speeds) - 1
    if speed <= speeds[0]:
        return (1.0 - run) * hertz[0, 0] + run * hertz[1, 0] if speed == speeds[0] else 0.0
    if speed >= speeds[last]:
        return (1.0 - run) * hertz[0, last] + run * hertz[1, last]
    i = np.searchsorted(speeds, speed) - 1
    u = (speed - speeds[i]) / (speeds[i + 1] - speeds[i])
    walk = (1.0 - u) * hertz[0, i] + u * hertz[0, i + 1]
    return (1.0 - run) * walk + run * ((1.0 - u) * hertz[1, i] + u * hertz[1, i + 1])


@kernel
def profile_coefficients(is_quartic: bool, ends: FloatArray, distance: float, duration: float, out: FloatArray) -> None:
    """Powers of ``u = t / duration`` in the speed; ``ends`` are both speeds and the first acceleration."""
    first, last, push = ends[0], ends[1], ends[2] * duration
    mean = distance / duration
    out[0], out[3], out[4] = first, 0.0, 0.0
    if not is_quartic:
        out[2] = 3.0 * (first + last - 2.0 * mean)
        out[1] = last - first - out[2]
        return
    r1, r2, r3 = last - first - push, -push, mean - first - 0.5 * push
    out[4] = 30.0 * (r3 - 0.5 * r1 + r2 / 12.0)
    out[3] = r2 - 2.0 * r1 - 2.0 * out[4]
    out[2] = 3.0 * r1 - r2 + out[4]
    out[1] = push


@kernel
def evaluate_speed(powers: FloatArray, u: float) -> float:
    """Speed at the fraction ``u`` of the duration."""
    return powers[0] + u * (powers[1] + u * (powers[2] + u * (powers[3] + u * powers[4])))


@kernel
def integrate_cycles(
    speeds: FloatArray, hertz: FloatArray, powers: FloatArray, runs: FloatArray, duration: float, end: float
) -> float:
    """Integral of the frequency from the start to the fraction ``end`` of the duration, by Gauss's rule."""
    total = 0.0
    for panel in range(PANELS):
        for i in range(len(GAUSS_NODES)):
            u = end * (panel + 0.5 + 0.5 * GAUSS_NODES[i]) / PANELS
            run = runs[0] + (runs[1] - runs[0]) * u
            total += GAUSS_WEIGHTS[i] * interpolate_cadence(speeds, hertz, evaluate_speed(powers, u), run)
    return 0.5 * total * duration * end / PANELS


@kernel
def _excess_cycles(
    speeds: FloatArray,
    hertz: FloatArray,
    runs: FloatArray,
    ends: FloatArray,
    goal: FloatArray,
    is_quartic: bool,
    duration: float,
    powers: FloatArray,
) -> float:
    """Cycles made in ``duration`` beyond those wanted; ``goal`` is the distance and the cycles."""
    profile_coefficients(is_quartic, ends, goal[0], duration, powers)
    return integrate_cycles(speeds, hertz, powers, runs, duration, 1.0) - goal[1]


@kernel
def solve_duration(
    speeds: FloatArray,
    hertz: FloatArray,
    runs: FloatArray,
    ends: FloatArray,
    goal: FloatArray,
    is_quartic: bool,
    bracket: FloatArray,
    powers: FloatArray,
) -> float:
    """Duration that makes exactly the wanted cycles, by false position (Illinois); -1 below, -2 above the bracket."""
    low, high = bracket[0], bracket[1]
    f_low = _excess_cycles(speeds, hertz, runs, ends, goal, is_quartic, low, powers)
    f_high = _excess_cycles(speeds, hertz, runs, ends, goal, is_quartic, high, powers)
    if f_low > 0.0:
        return -1.0
    if f_high < 0.0:
        return -2.0
    side, middle = 0, low
    for _ in range(80):
        middle = (low * f_high - high * f_low) / (f_high - f_low) if f_high != f_low else 0.5 * (low + high)
        f = _excess_cycles(speeds, hertz, runs, ends, goal, is_quartic, middle, powers)
        if abs(f) < 1e-11 or high - low < 1e-12 * high:
            break
        if f > 0.0:
            high, f_high = middle, f
            f_low, side = (0.5 * f_low, 1) if side == 1 else (f_low, 1)
        else:
            low, f_low = middle, f
            f_high, side = (0.5 * f_high, -1) if side == -1 else (f_high, -1)
    return middle


@kernel
def profile_extremes(powers: FloatArray, duration: float) -> tuple[float, float, float]:
    """Lowest and highest speed and the greatest acceleration of a profile."""
    low, high, hardest = np.inf, -np.inf, 0.0
    for i in range(NUM_CHECKED_SPEEDS + 1):
        u = i / NUM_CHECKED_SPEEDS
        s = evaluate_speed(powers, u)
        a = (powers[1] + u * (2.0 * powers[2] + u * (3.0 * powers[3] + u * 4.0 * powers[4]))) / duration
        low, high, hardest = min(low, s), max(high, s), max(hardest, abs(a))
    return low, high, hardest


@kernel
def search_heel_strikes(
    speeds: FloatArray,
    hertz: FloatArray,
    runs: FloatArray,
    ends: FloatArray,
    place: FloatArray,
    is_quartic: bool,
    limits: FloatArray,
    best: FloatArray,
) -> int:
    """Try the heel strikes round the likeliest one and keep the profile that bends least.

    ``place``: distance, phase now, phase of the foot, least cycles ahead, and a duration (0 for none): the profile
    that lasts nearest to it is then kept instead. ``limits``: highest speed, acceleration.
    ``best``: powers (5), duration, final phase, greatest acceleration. Returns one of the codes above.
    """
    s1, s2 = ends[0], ends[1]
    distance, phase, foot, ahead, lasting = place[0], place[1], place[2], place[3], place[4]
    slack = s1 + s2 - np.sqrt(s1 * s2)  # S >= 0 when the quadratic's A <= (sqrt s1 + sqrt s2)^2
    slowest = 3.0 * distance / slack if slack > 1e-9 else distance / 0.05
    bracket = np.array([distance / limits[0], slowest * (2.0 if is_quartic else 1.0)])
    powers, goal = np.empty(5), np.array([distance, 0.0])
    even = lasting if lasting > 0.0 else 2.0 * distance / max(s1 + s2, 0.5)
    even = min(max(even, bracket[0]), bracket[1])
    likely = np.floor(phase - foot + _excess_cycles(speeds, hertz, runs, ends, goal, is_quartic, even, powers) + 0.5)
    code, score, middle = TOO_CLOSE, np.inf, np.inf
    for step in STRIKE_OFFSETS:
        if abs(step) > 1 and score == middle and score < np.inf:
            continue  # neither neighbour bends less than the middle: the next ones bend more
        goal[1] = likely + step + foot - phase
        if goal[1] <= ahead:
            continue
        duration = solve_duration(speeds, hertz, runs, ends, goal, is_quartic, bracket, powers)
        if duration < 0.0:
            code = code if code > BACKWARDS or duration == -1.0 else BACKWARDS
            continue
        fault, hardest = _classify_profile(powers, duration, limits)
        bend = hardest if is_quartic else abs(2.0 * powers[2] / duration)
        bend = abs(duration - lasting) if lasting > 0.0 else bend
        if fault != FOUND:
            code = max(code, fault)
        elif bend < score:
            score = bend
            best[:5], best[5], best[6], best[7] = powers, duration, goal[1] + phase, hardest
        if step == 0:
            middle = score
    return FOUND if score < np.inf else code


@kernel
def _classify_profile(powers: FloatArray, duration: float, limits: FloatArray) -> tuple[int, float]:
    """What is wrong with a profile, and its greatest acceleration."""
    low, high, hardest = profile_extremes(powers, duration)
    if low < -1e-9:
        return BACKWARDS, hardest
    if high > limits[0]:
        return TOO_FAST, hardest
    return (TOO_HARD if hardest > limits[1] else FOUND), hardest
