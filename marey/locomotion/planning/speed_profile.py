"""Speed profiles that bring a foot to a place at the right moment of the step, with the compiled search for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen, kernel
from marey.locomotion.checks import check_name, check_number, check_positive
from marey.locomotion.planning.baselines import search_linear_frequency_profile

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


class ProfileProblem(NamedTuple):
    """A change of speed whose duration is searched."""

    speeds: FloatArray  # (G,) [m/s] of the table of cadences
    hertz: FloatArray  # (2, G) [Hz] of walks and runs
    runs: FloatArray  # (2,) share of running at both ends
    ends: FloatArray  # (3,) both speeds [m/s] and the first acceleration [m/s²]
    is_quartic: bool


class StrikePlace(NamedTuple):
    """Where a heel shall strike, and what the profile up to there may ask."""

    distance: float  # [m]
    phase: float  # now
    foot: float  # phase of the foot
    ahead: float  # [cycle] least number of cycles up to the strike
    lasting: float  # [s] requested duration: the profile nearest to it is kept; 0 keeps the one that bends least
    fastest: float  # [m/s]
    hardest: float  # [m/s²]


@kernel
def _excess_cycles(problem: ProfileProblem, distance: float, cycles: float, duration: float, out: FloatArray) -> float:
    """Cycles made over a distance in ``duration`` beyond those wanted; ``out`` are the powers of the profile."""
    profile_coefficients(problem.is_quartic, problem.ends, distance, duration, out)
    return integrate_cycles(problem.speeds, problem.hertz, out, problem.runs, duration, 1.0) - cycles


@kernel
def solve_duration(
    problem: ProfileProblem, distance: float, cycles: float, shortest: float, longest: float, powers: FloatArray
) -> float:
    """Duration that makes exactly the wanted cycles, by false position (Illinois); -1 below, -2 above the bracket."""
    low, high = shortest, longest
    f_low = _excess_cycles(problem, distance, cycles, low, powers)
    f_high = _excess_cycles(problem, distance, cycles, high, powers)
    if f_low > 0.0:
        return -1.0
    if f_high < 0.0:
        return -2.0
    side, middle = 0, low
    for _ in range(80):
        middle = (low * f_high - high * f_low) / (f_high - f_low) if f_high != f_low else 0.5 * (low + high)
        f = _excess_cycles(problem, distance, cycles, middle, powers)
        if abs(f) < 1e-11 or high - low < 1e-12 * high:
            break
        # An end that stays twice has its value halved, so that it moves too (Illinois).
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
def search_heel_strikes(problem: ProfileProblem, place: StrikePlace, best: FloatArray) -> int:
    """Try the heel strikes round the likeliest one and keep the profile that bends least.

    ``best``: powers (5), duration, final phase, greatest acceleration. Returns one of the codes above.
    """
    s1, s2, distance, lasting = problem.ends[0], problem.ends[1], place.distance, place.lasting
    # Shortest and longest duration: at the highest speed, and as slow as the profile stays above zero. The quadratic
    # does while its A <= (sqrt s1 + sqrt s2)^2.
    slack = s1 + s2 - np.sqrt(s1 * s2)
    slowest = 3.0 * distance / slack if slack > 1e-9 else distance / 0.05
    shortest, longest = distance / place.fastest, slowest * (2.0 if problem.is_quartic else 1.0)
    # The likeliest strike is that of an even change of speed, or of the requested duration.
    powers = np.empty(5)
    even = lasting if lasting > 0.0 else 2.0 * distance / max(s1 + s2, 0.5)
    even = min(max(even, shortest), longest)
    likely = np.floor(place.phase - place.foot + _excess_cycles(problem, distance, 0.0, even, powers) + 0.5)
    code, score, middle = TOO_CLOSE, np.inf, np.inf
    for step in STRIKE_OFFSETS:
        if abs(step) > 1 and score == middle and score < np.inf:
            continue  # neither neighbour bends less than the middle: the next ones bend more
        cycles = likely + step + place.foot - place.phase
        if cycles <= place.ahead:
            continue
        duration = solve_duration(problem, distance, cycles, shortest, longest, powers)
        if duration < 0.0:
            code = code if code > BACKWARDS or duration == -1.0 else BACKWARDS
            continue
        # What is wrong with the profile, if anything
        low, high, hardest = profile_extremes(powers, duration)
        fault = FOUND
        if low < -1e-9:
            fault = BACKWARDS
        elif high > place.fastest:
            fault = TOO_FAST
        elif hardest > place.hardest:
            fault = TOO_HARD
        bend = hardest if problem.is_quartic else abs(2.0 * powers[2] / duration)
        bend = abs(duration - lasting) if lasting > 0.0 else bend
        if fault != FOUND:
            code = max(code, fault)
        elif bend < score:
            score = bend
            best[:5], best[5], best[6], best[7] = powers, duration, cycles + place.phase, hardest
        if step == 0:
            middle = score
    return FOUND if score < np.inf else code


PROFILE_METHODS: Final = ("exact", "quadratic-linF", "quartic")
RULES: Final = ("absolute", "signed")
FEET: Final = {"right": 0.0, "left": 0.5}  # phase of the heel strike
MAX_ACCELERATION_MPS2: Final = 1.0  # [m/s²] what a profile may ask, [Glardon2005]_ leaves it open
MIN_PHASE_TO_STRIKE: Final = 0.05  # [cycle] a heel strike nearer than this is not planned for
STATUS: Final = (
    "ok",
    "too close: no heel strike fits before the place",
    "the body would have to walk backwards",
    "faster than the body can go",
    "harder than the acceleration allowed",
)


@dataclass(frozen=True, slots=True, eq=False)
class FrequencyTable:
    """Cycles per second by speed, linear in between; walks and runs mix linearly."""

    speeds_mps: FloatArray  # (G,) rising from zero
    hertz: FloatArray  # (2, G) walks, runs

    def __post_init__(self) -> None:
        speeds = frozen(self.speeds_mps, None, name="speeds")
        if len(speeds) < 2 or speeds[0] != 0.0 or (np.diff(speeds) <= 0.0).any():
            raise InputError("the speeds of a frequency table do not rise from zero", "Sort them, the first is 0")
        object.__setattr__(self, "speeds_mps", speeds)
        object.__setattr__(self, "hertz", frozen(self.hertz, 2, len(speeds), name="hertz"))

    def at(self, speed_mps: float, run: float = 0.0) -> float:
        """Cycles per second at one speed."""
        mixed: FloatArray = (1.0 - run) * self.hertz[0] + run * self.hertz[1]
        return float(np.interp(speed_mps, self.speeds_mps, mixed))


@dataclass(frozen=True, slots=True, eq=False)
class SpeedProfile:
    r"""Speed over time, :math:`S(t) = \sum_k c_k (t/T)^k`, and the phase that it brings about."""

    powers: FloatArray  # (5,) [m/s] coefficients of t / duration
    duration_s: float
    phase: float  # at the start
    final_phase: float  # at the end, not wrapped
    run: tuple[float, float]  # walk (0) or run (1) at both ends, linear in between
    max_acceleration: float  # [m/s²]
    status: str  # "ok", or why there is no profile

    @property
    def is_feasible(self) -> bool:
        """Whether there is such a profile."""
        return self.status == "ok"

    @property
    def num_cycles(self) -> float:
        """Gait cycles from the start to the end."""
        return self.final_phase - self.phase

    @property
    def times(self) -> FloatArray:
        """Times ``(P,)`` [s], at most 1/60 s apart, at which a straight line between speeds is good to 0.1 mm/s."""
        return np.linspace(0.0, self.duration_s, max(2, int(np.ceil(60.0 * self.duration_s)) + 1))

    def speed(self, time_s: ArrayLike) -> FloatArray:
        """Speed [m/s] at times ``(...)``; held outside."""
        u = np.clip(np.asarray(time_s, dtype=np.float64) / self.duration_s, 0.0, 1.0)
        return np.power(np.asarray(u)[..., None], np.arange(5)) @ self.powers

    def distance(self, time_s: ArrayLike) -> FloatArray:
        """Way [m] since the start, at times ``(...)`` within the profile."""
        u = np.clip(np.asarray(time_s, dtype=np.float64) / self.duration_s, 0.0, 1.0)
        mean = np.power(np.asarray(u)[..., None], np.arange(5)) @ (self.powers / np.arange(1.0, 6.0))
        return self.duration_s * u * mean

    def run_at(self, time_s: ArrayLike) -> FloatArray:
        """Walk (0) to run (1) at times ``(...)``."""
        u = np.clip(np.asarray(time_s, dtype=np.float64) / self.duration_s, 0.0, 1.0)
        return self.run[0] + (self.run[1] - self.run[0]) * u


def plan_profile(
    table: FrequencyTable,
    s1: float,
    s2: float,
    distance_m: float,
    phase: float,
    *,
    run: tuple[float, float] = (0.0, 0.0),
    foot: str | float = "right",
    method: str = "exact",
    rule: str = "absolute",
    acceleration: float = 0.0,
    acceleration_cap: float = MAX_ACCELERATION_MPS2,
    fastest_mps: float | None = None,
    lasting_s: float | None = None,
) -> SpeedProfile:
    r"""Speed from ``s1`` to ``s2`` over ``distance_m`` that ends at a heel strike of the foot.

    .. math:: S(t) = a t^2 + b t + s_1,\quad \int_0^T S = d,\quad
        \varphi_1 + \int_0^T F(S(t), w(t))\,dt = q + \varphi_{foot},\ q \text{ whole}

    [Glardon2005]_ §IV.1.3.2. ``exact`` solves the phase integral for each ``q`` near the even profile and keeps the
    one with the smallest change of acceleration :math:`|2aT|`. ``quadratic-linF`` is the thesis's closed form with
    the mean of both frequencies (its printed :math:`\tfrac12 b t` is :math:`\tfrac12 b t^2`); its ``rule`` compares
    absolute changes as the text says, or ``signed`` ones as its second example does. ``quartic`` starts with
    ``acceleration`` and ends with none.

    Args:
        table: cadence of the character, as ``FrequencyTable(*engine.frequency_table())``.
        s1: speed [m/s] now.
        s2: speed [m/s] there.
        distance_m: way of the root.
        phase: now, 0 is the right heel strike.
        run: walk (0) or run (1) now and there.
        foot: which heel strikes at the end, or its phase.
        method: one of ``PROFILE_METHODS``.
        rule: of ``quadratic-linF``: "absolute" or "signed".
        acceleration: now [m/s²], for the quartic.
        acceleration_cap: most that the profile may ask [m/s²].
        fastest_mps: speed that is never passed; by default the last of the table.
        lasting_s: take the heel strike whose profile lasts nearest to this, instead of the one that bends least.

    Returns:
        A profile; its ``status`` gives the reason where there is none.

    Raises:
        InputError: a speed is below zero, or a number is not finite.
        UnknownNameError: no such method or rule.
    """
    numbers = {"s1": s1, "s2": s2, "distance_m": distance_m, "phase": phase, "acceleration": acceleration}
    limits = {"acceleration_cap": acceleration_cap, "fastest_mps": fastest_mps, "lasting_s": lasting_s}
    for name, value in numbers.items():
        check_number(name, value)
    if min(numbers["s1"], numbers["s2"]) < 0.0:
        raise InputError("a speed below zero", "Speeds begin at 0 m/s")
    for name, value in limits.items():
        if value is not None:
            check_positive(name, value)
    shares = frozen(run, 2, name="run")
    if shares.min() < 0.0 or shares.max() > 1.0:
        raise InputError(f"run is {run}", "Give two shares of running, from 0 (walk) to 1 (run)")
    check_name("method", method, "speed profiles", PROFILE_METHODS)
    check_name("rule", rule, "speed profiles", RULES)
    # The phase at which the foot strikes
    if isinstance(foot, str):
        if foot not in FEET:
            raise InputError(f"foot '{foot}'", "It is 'right', 'left' or a phase from 0 to 1")
        strike = FEET[foot]
    else:
        strike = check_number("foot", foot)
        if not 0.0 <= strike < 1.0:
            raise InputError(f"the phase of the foot is {foot}", "It lies from 0 to 1")
    if method == "quadratic-linF":
        # The thesis's closed form, with the mean of both frequencies
        powers, duration, final, code = search_linear_frequency_profile(
            (s1, s2),
            (table.at(s1, run[0]), table.at(s2, run[1])),
            distance_m,
            phase - strike,
            is_signed=rule == "signed",
        )
        if code != 0:
            return SpeedProfile(np.zeros(5), 1.0, phase, phase, run, 0.0, STATUS[code])
        hardest = max(abs(powers[1]), abs(powers[1] + 2.0 * powers[2])) / duration
        return SpeedProfile(powers, duration, phase, final + strike, run, float(hardest), "ok")
    # The exact phase integral, for each heel strike near the even profile
    fastest = float(table.speeds_mps[-1]) if fastest_mps is None else fastest_mps
    problem = ProfileProblem(
        table.speeds_mps,
        table.hertz,
        np.array(run, dtype=np.float64),
        np.array([s1, s2, acceleration], dtype=np.float64),
        method == "quartic",
    )
    place = StrikePlace(
        float(distance_m),
        float(phase),
        strike,
        MIN_PHASE_TO_STRIKE,
        float(lasting_s or 0.0),
        float(fastest),
        float(acceleration_cap),
    )
    best, code = np.zeros(8), TOO_CLOSE
    if distance_m > 1e-6:
        code = search_heel_strikes(problem, place, best)
    if code != 0:
        return SpeedProfile(np.zeros(5), 1.0, phase, phase, run, 0.0, STATUS[code])
    return SpeedProfile(best[:5], float(best[5]), phase, float(best[6]), run, float(best[7]), "ok")
