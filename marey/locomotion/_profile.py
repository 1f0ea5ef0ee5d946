"""Speed profiles that bring a foot to a place at the right moment of the step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.locomotion._checks import check_name, check_number, check_positive
from marey.locomotion._profile_linear import search_linear_frequency_profile
from marey.locomotion._runup import Frequency

PROFILE_METHODS: Final = ("exact", "quadratic-linF", "quartic")
RULES: Final = ("absolute", "signed")
FEET: Final = {"right": 0.0, "left": 0.5}  # phase of the heel strike
MAX_ACCELERATION_MPS2: Final = 1.0  # [m/s²] what a profile may ask, [Glardon2005]_ leaves it open
MIN_PHASE_TO_STRIKE: Final = 0.05  # [cycle] a heel strike nearer than this is not planned for
TABLE_POINTS: Final = 200
STATUS: Final = (
    "ok",
    "too close: no heel strike fits before the place",
    "the body would have to walk backwards",
    "faster than the body can go",
    "harder than the acceleration allowed",
)


@runtime_checkable
class CadenceSource(Protocol):
    """Whoever knows the cadence of a character: an engine, or a table."""

    def frequency_table(self) -> tuple[FloatArray, FloatArray]:
        """Speeds ``(G,)`` [m/s], and cycles per second ``(2, G)`` of walks and runs."""
        ...


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

    @classmethod
    def from_source(cls, source: CadenceSource | Frequency, *, fastest_mps: float = 8.0) -> FrequencyTable:
        """Table of an engine, of a table, or of a function ``F(speed, run)`` [Hz]."""
        if isinstance(source, FrequencyTable):
            return source
        if isinstance(source, CadenceSource):
            return cls(*source.frequency_table())
        if not callable(source):
            raise InputError(f"source is {source!r}", "Give an engine, a FrequencyTable or a function of speed and run")
        speeds = fastest_mps * np.linspace(0.0, 1.0, TABLE_POINTS) ** 2  # dense where cadence bends most
        even = cast(list[float], speeds.tolist())
        rows: list[list[float]] = [[source(speed, run) for speed in even] for run in (0.0, 1.0)]
        return cls(speeds, np.array(rows))

    def frequency_table(self) -> tuple[FloatArray, FloatArray]:
        """Both arrays, as an engine gives them."""
        return self.speeds_mps, self.hertz

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
    table: FrequencyTable

    @property
    def is_feasible(self) -> bool:
        """Whether there is such a profile."""
        return self.status == "ok"

    @property
    def num_cycles(self) -> float:
        """Gait cycles from the start to the end."""
        return self.final_phase - self.phase

    @property
    def heel_strikes(self) -> int:
        """How often the phase passes a whole number before or at the end."""
        return int(np.floor(self.final_phase + 1e-9) - np.floor(self.phase))

    @property
    def times(self) -> FloatArray:
        """Times ``(P,)`` [s], at most 1/60 s apart, at which a straight line between speeds is good to 0.1 mm/s."""
        return np.linspace(0.0, self.duration_s, max(2, int(np.ceil(60.0 * self.duration_s)) + 1))

    def speed(self, time_s: ArrayLike) -> FloatArray:
        """Speed [m/s] at times ``(...)``; held outside."""
        u = np.clip(np.asarray(time_s, dtype=np.float64) / self.duration_s, 0.0, 1.0)
        return _evaluate_polynomial(self.powers, u)

    def distance(self, time_s: ArrayLike) -> FloatArray:
        """Way [m] since the start, at times ``(...)`` within the profile."""
        u = np.clip(np.asarray(time_s, dtype=np.float64) / self.duration_s, 0.0, 1.0)
        return self.duration_s * u * _evaluate_polynomial(self.powers / np.arange(1.0, 6.0), u)

    def run_at(self, time_s: ArrayLike) -> FloatArray:
        """Walk (0) to run (1) at times ``(...)``."""
        u = np.clip(np.asarray(time_s, dtype=np.float64) / self.duration_s, 0.0, 1.0)
        return self.run[0] + (self.run[1] - self.run[0]) * u

    def phase_at(self, time_s: float) -> float:
        """Phase at a time, not wrapped: the integral of the frequency."""
        from marey.locomotion._profile_kernels import integrate_cycles

        u = min(max(time_s / self.duration_s, 0.0), 1.0)
        made = integrate_cycles(*self.table.frequency_table(), self.powers, np.array(self.run), self.duration_s, u)
        return self.phase + float(made)


def _evaluate_polynomial(powers: FloatArray, u: FloatArray) -> FloatArray:
    return np.power(np.asarray(u)[..., None], np.arange(5)) @ powers


def plan_profile(
    source: CadenceSource | Frequency,
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
        source: engine, frequency table or function ``F(speed, run)`` [Hz].
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
        A profile; its ``status`` says why when there is none.

    Raises:
        InputError: a speed is below zero, or a number is not finite.
        UnknownNameError: no such method or rule.
    """
    numbers = {"s1": s1, "s2": s2, "distance_m": distance_m, "phase": phase, "acceleration": acceleration}
    limits = {"acceleration_cap": acceleration_cap, "fastest_mps": fastest_mps, "lasting_s": lasting_s}
    _check_profile_request(numbers, limits, run, method, rule)
    table, strike = FrequencyTable.from_source(source), _foot_phase(foot)
    if method == "quadratic-linF":
        powers, duration, final, code = search_linear_frequency_profile(
            (s1, s2),
            (table.at(s1, run[0]), table.at(s2, run[1])),
            distance_m,
            phase - strike,
            is_signed=rule == "signed",
        )
        return _build_linear_profile(powers, duration, final + strike, code, phase=phase, run=run, table=table)
    fastest = float(table.speeds_mps[-1]) if fastest_mps is None else fastest_mps
    ends, place = (
        np.array([s1, s2, acceleration]),
        np.array([distance_m, phase, strike, MIN_PHASE_TO_STRIKE, lasting_s or 0.0]),
    )
    return _search_profile(
        table, ends, place, run, np.array([fastest, acceleration_cap]), is_quartic=method == "quartic"
    )


def _search_profile(
    table: FrequencyTable,
    ends: FloatArray,
    place: FloatArray,
    run: tuple[float, float],
    limits: FloatArray,
    *,
    is_quartic: bool,
) -> SpeedProfile:
    from marey.locomotion._profile_kernels import TOO_CLOSE, search_heel_strikes

    best, phase, code = np.zeros(8), float(place[1]), TOO_CLOSE
    if place[0] > 1e-6:
        code = search_heel_strikes(*table.frequency_table(), np.array(run), ends, place, is_quartic, limits, best)
    if code != 0:
        return SpeedProfile(np.zeros(5), 1.0, phase, phase, run, 0.0, STATUS[code], table)
    return SpeedProfile(best[:5], float(best[5]), phase, float(best[6]), run, float(best[7]), "ok", table)


def _build_linear_profile(
    powers: FloatArray,
    duration: float,
    final: float,
    code: int,
    *,
    phase: float,
    run: tuple[float, float],
    table: FrequencyTable,
) -> SpeedProfile:
    if code != 0:
        return SpeedProfile(np.zeros(5), 1.0, phase, phase, run, 0.0, STATUS[code], table)
    hardest = max(abs(powers[1]), abs(powers[1] + 2.0 * powers[2])) / duration
    return SpeedProfile(powers, duration, phase, final, run, float(hardest), "ok", table)


def _foot_phase(foot: str | float) -> float:
    if isinstance(foot, str):
        if foot not in FEET:
            raise InputError(f"foot '{foot}'", "It is 'right', 'left' or a phase from 0 to 1")
        return FEET[foot]
    if not 0.0 <= check_number("foot", foot) < 1.0:
        raise InputError(f"the phase of the foot is {foot}", "It lies from 0 to 1")
    return float(foot)


def _check_profile_request(
    numbers: Mapping[str, float], limits: Mapping[str, float | None], run: tuple[float, float], method: str, rule: str
) -> None:
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
