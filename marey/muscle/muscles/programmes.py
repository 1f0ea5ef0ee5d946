"""Activation programmes: how splines contract over time. [Engell2012]_ §17, §20.3, §21.

A programme gives the contraction of each segment at a time: 1 is passive, below contracts, above extends. With
``unit="activation"`` it gives an activation from 0 to 1 instead, which ``alpha_min`` turns to a contraction.
"""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import ArrayLike

from marey.base import (
    FloatArray,
    FormatError,
    InputError,
    MissingFileError,
    UnknownNameError,
    frozen,
    parse_toml,
    read_toml_text,
)
from marey.muscle.muscles.forces import Muscles

UNITS: Final = ("alpha", "activation")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ActivationProgramme(ABC):
    """Activation of a spline over time."""

    unit: str = "alpha"

    @abstractmethod
    def at(self, time_s: float, along_m: FloatArray) -> FloatArray:
        """Values ``(n,)`` of segments whose middles lie at arc lengths ``along_m`` ``(n,)`` [m]."""


@dataclass(frozen=True, slots=True, eq=False)
class Constant(ActivationProgramme):
    """The same all the time."""

    value: float

    def __post_init__(self) -> None:
        _check_numbers(self)

    def at(self, time_s: float, along_m: FloatArray) -> FloatArray:
        """The value, whenever."""
        return np.full(len(along_m), self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Impulse(ActivationProgramme):
    """One value for a while, else another; again and again with ``every_s``."""

    start_s: float
    width_s: float
    value: float
    every_s: float | None = None
    rest: float | None = None  # None: passive
    ramp_s: float = 0.0  # how long it takes to come and to go, by a half cosine

    def __post_init__(self) -> None:
        _check_numbers(self, positive=("width_s", "every_s"), signed=("start_s",))

    def at(self, time_s: float, along_m: FloatArray) -> FloatArray:
        """The value inside a pulse, the rest outside."""
        passive = 1.0 if self.unit == "alpha" else 0.0
        rest = passive if self.rest is None else self.rest
        t = time_s - self.start_s
        if self.every_s is not None and t >= 0.0:
            t %= self.every_s
        edge = max(self.ramp_s, 1e-12)
        part = min(1.0, max(0.0, t / edge)) * min(1.0, max(0.0, (self.width_s - t) / edge))
        smooth = 0.5 - 0.5 * np.cos(np.pi * part)
        return np.full(len(along_m), rest + (self.value - rest) * smooth)


@dataclass(frozen=True, slots=True, eq=False)
class Cosine(ActivationProgramme):
    r"""A wave in time: :math:`c + A\cos(2\pi f t + \varphi)`."""

    amplitude: float
    rate_hz: float
    phase: float = 0.0  # [rad]
    offset: float = 1.0
    fade_s: float = 0.0  # grows to its full amplitude during this time

    def __post_init__(self) -> None:
        _check_numbers(self, signed=("amplitude", "phase", "offset"))
        _check_trough(self, self.offset - abs(self.amplitude))

    def at(self, time_s: float, along_m: FloatArray) -> FloatArray:
        """The same for all segments."""
        value = _fade_in(self.amplitude, time_s, self.fade_s) * np.cos(2.0 * np.pi * self.rate_hz * time_s + self.phase)
        return np.full(len(along_m), self.offset + value)


@dataclass(frozen=True, slots=True, eq=False)
class Wave(ActivationProgramme):
    r"""A wave that travels along the spline: :math:`c + A\cos(2\pi(f t - s/\lambda) + \varphi)`."""

    amplitude: float
    rate_hz: float
    wavelength_m: float  # negative: it travels from the end to the start
    phase: float = 0.0  # [rad]
    offset: float = 1.0
    fade_s: float = 0.0

    def __post_init__(self) -> None:
        _check_numbers(self, signed=("amplitude", "wavelength_m", "phase", "offset"))
        _check_trough(self, self.offset - abs(self.amplitude))
        if self.wavelength_m == 0.0:
            raise InputError("wavelength_m of a wave is 0", "Give the length of one wave on the spline")

    def at(self, time_s: float, along_m: FloatArray) -> FloatArray:
        """Each segment later than the one before."""
        angle = 2.0 * np.pi * (self.rate_hz * time_s - along_m / self.wavelength_m) + self.phase
        return self.offset + _fade_in(self.amplitude, time_s, self.fade_s) * np.cos(angle)


@dataclass(frozen=True, slots=True, eq=False)
class Keyframed(ActivationProgramme):
    """Values at times, smooth between them: the monotone cubic, so that nothing overshoots."""

    times_s: FloatArray  # (K,) rising
    values: FloatArray  # (K,)
    every_s: float | None = None  # starts over

    def __post_init__(self) -> None:
        times = frozen(self.times_s, None, name="times_s")
        values = frozen(self.values, len(times), name="values")
        object.__setattr__(self, "times_s", times)
        object.__setattr__(self, "values", values)
        if len(times) == 0 or (np.diff(times) <= 0.0).any():
            raise InputError("times of a programme do not rise", "Sort them, each once")
        _check_numbers(self, positive=("every_s",))
        _check_trough(self, float(values.min()))

    def at(self, time_s: float, along_m: FloatArray) -> FloatArray:
        """Held before the first key and after the last."""
        from scipy.interpolate import PchipInterpolator

        t = time_s % self.every_s if self.every_s is not None else time_s
        t = float(np.clip(t, self.times_s[0], self.times_s[-1]))
        if len(self.times_s) == 1:
            return np.full(len(along_m), self.values[0])
        return np.full(len(along_m), float(PchipInterpolator(self.times_s, self.values)(t)))


@dataclass(frozen=True, slots=True, eq=False)
class ActivationProfile(ActivationProgramme):
    """A shape along the spline, straight between its values, that comes smoothly from passive and stays."""

    shares: FloatArray  # (K,) rising from 0 to 1 along the spline
    values: FloatArray  # (K,)
    start_s: float = 0.0
    ramp_s: float = 1.0

    def __post_init__(self) -> None:
        shares = frozen(self.shares, None, name="shares")
        object.__setattr__(self, "shares", shares)
        object.__setattr__(self, "values", frozen(self.values, len(shares), name="values"))
        if len(shares) == 0 or (np.diff(shares) <= 0.0).any() or shares[0] < 0.0 or shares[-1] > 1.0:
            raise InputError("shares of a profile do not rise from 0 to 1", "Sort them, each once")
        _check_numbers(self, signed=("start_s",))
        _check_trough(self, float(self.values.min()))

    def at(self, time_s: float, along_m: FloatArray) -> FloatArray:
        """Each segment on its way to the value of its place."""
        passive = 1.0 if self.unit == "alpha" else 0.0
        part = float(np.clip((time_s - self.start_s) / max(self.ramp_s, 1e-12), 0.0, 1.0))
        share = along_m / max(float(along_m[-1] + along_m[0]), 1e-300)  # middles: the ends lie as far out as the first
        shape = np.interp(share, self.shares, self.values)
        return passive + (shape - passive) * (0.5 - 0.5 * np.cos(np.pi * part))


@dataclass(frozen=True, slots=True, eq=False)
class ActivationPlan:
    """Programmes of the splines of a body by name; other splines stay passive."""

    muscles: Muscles
    programmes: Mapping[str, ActivationProgramme]
    rate_per_s: float | None = None  # fastest change of a contraction

    def __post_init__(self) -> None:
        for name in self.programmes:
            if name not in self.muscles.names:
                raise UnknownNameError("spline", name, "the muscles", self.muscles.names)
        if self.rate_per_s is not None and not self.rate_per_s > 0.0:
            raise InputError(f"rate_per_s is {self.rate_per_s}", "It must be above zero")

    def at(self, time_s: float) -> FloatArray:
        """Contraction of each segment ``(S,)`` at a time, without the limit on its rate."""
        if not np.isfinite(time_s):
            raise InputError(f"the time is {time_s}", "Give seconds")
        alpha, along = np.ones(self.muscles.num_segments), self.muscles.positions_along
        for name, programme in self.programmes.items():
            i = self.muscles.names.index(name)
            mine = self.muscles.owners == i
            values = programme.at(time_s, along[mine])
            lowest = self.muscles.splines[i].alpha_min
            alpha[mine] = values if programme.unit == "alpha" else 1.0 - np.clip(values, 0.0, 1.0) * (1.0 - lowest)
        return alpha

    def following(self, previous: FloatArray, time_s: float, dt: float) -> FloatArray:
        """Contraction after a step of dt [s] from the last ``(S,)``, no faster than ``rate_per_s``."""
        wanted = self.at(time_s)
        if self.rate_per_s is None:
            return wanted
        return previous + np.clip(wanted - previous, -self.rate_per_s * dt, self.rate_per_s * dt)

    def sample(self, times_s: ArrayLike) -> FloatArray:
        """Contractions at rising times ``(F, S)``; limited in rate from the first on, which starts passive."""
        times = frozen(times_s, None, name="times_s")
        out = np.ones((len(times), self.muscles.num_segments))
        last, before = np.ones(self.muscles.num_segments), times[0] if len(times) else 0.0
        for i, t in enumerate(times):
            last = self.following(last, float(t), float(t - before))
            out[i], before = last, t
        return out


def _fade_in(amplitude: float, time_s: float, fade_s: float) -> float:
    return amplitude * min(1.0, max(0.0, time_s / fade_s)) if fade_s > 0.0 else amplitude


def _check_numbers(
    programme: ActivationProgramme, positive: tuple[str, ...] = (), signed: tuple[str, ...] = ()
) -> None:
    """Every number is finite; positive ones are above zero, signed ones are free, others are not negative."""
    kind = type(programme).__name__
    if programme.unit not in UNITS:
        raise UnknownNameError("unit", programme.unit, "programmes", UNITS)
    for field in fields(programme):
        value = getattr(programme, field.name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if not np.isfinite(value) or (field.name in positive and value <= 0.0):
            raise InputError(f"{field.name} of {kind} is {value}", "It must be finite and above zero")
        if field.name not in signed and value < 0.0:
            raise InputError(f"{field.name} of {kind} is {value}", "It cannot be negative")


def _check_trough(programme: ActivationProgramme, lowest: float) -> None:
    if lowest < 0.0:
        raise InputError(f"a {type(programme).__name__} goes down to {lowest:g}", "A contraction is not negative")


PROGRAMME_KINDS: Final[Mapping[str, type[ActivationProgramme]]] = {
    "constant": Constant,
    "impulse": Impulse,
    "cosine": Cosine,
    "wave": Wave,
    "keyframed": Keyframed,
    "profile": ActivationProfile,
}


def programme_from_table(table: Mapping[str, Any]) -> ActivationProgramme:
    """A programme of a table: ``{"kind": "cosine", "amplitude": 0.3, "rate_hz": 1.0}``.

    Raises:
        UnknownNameError: the kind or a key is not known.
        InputError: a value is missing or bad.
    """
    given = dict(table)
    kind = given.pop("kind", None)
    if kind not in PROGRAMME_KINDS:
        raise UnknownNameError("kind", str(kind), "programmes", PROGRAMME_KINDS)
    known = [f.name for f in fields(PROGRAMME_KINDS[kind])]
    for key in given:
        if key not in known:
            raise UnknownNameError("key", key, f"a programme of kind '{kind}'", known)
    for key, value in given.items():
        numbers = cast(list[Any], value) if isinstance(value, list) else [value]
        if key != "unit" and any(isinstance(n, bool) or not isinstance(n, int | float) for n in numbers):
            raise InputError(f"{key} of a programme is {value!r}", "It must be a number")
    try:
        return cast(ActivationProgramme, PROGRAMME_KINDS[kind](**given))
    except TypeError as error:
        raise InputError(f"a programme of kind '{kind}' is not whole: {error}", "Give what it needs") from None


def load_programmes(path: str | Path) -> dict[str, ActivationProgramme]:
    """Programmes by the names of splines, from a TOML file of tables or a CSV file of key frames.

    A CSV file has a row of names, the first being ``time_s``, then a row of values for each time.

    Raises:
        FormatError: the file breaks its form; the message names the line.
    """
    file = Path(path)
    if not file.is_file():
        raise MissingFileError(str(path))
    if file.suffix.lower() == ".csv":
        # A table of keys: the first column is the time, each other one an activation
        with file.open(newline="", encoding="utf-8-sig") as stream:
            rows = [row for row in csv.reader(stream) if row]
        if not rows or rows[0][0].strip() != "time_s" or len(rows[0]) < 2:
            raise FormatError("the first row names no columns", str(file), 1, "Write time_s,NAME,NAME,...")
        names = [name.strip() for name in rows[0][1:]]
        table: list[list[float]] = []
        for line, row in enumerate(rows[1:], start=2):
            if len(row) != len(rows[0]):
                what = f"expected {len(rows[0])} values, found {len(row)}"
                raise FormatError(what, str(file), line, "Check that the row is whole")
            try:
                table.append([float(text) for text in row])
            except ValueError:
                raise FormatError(f"'{','.join(row)}' holds no numbers", str(file), line, "Write numbers") from None
            if not np.isfinite(table[-1]).all():
                raise FormatError("a value is not finite", str(file), line, "Write finite numbers")
        values = np.array(table)
        if len(values) == 0:
            raise FormatError("there are no rows", str(file), 2, "Write a row for each time")
        try:
            return {name: Keyframed(values[:, 0], values[:, i + 1]) for i, name in enumerate(names)}
        except InputError as error:
            raise FormatError(error.what, str(file), 2, error.fix or "Mend the column") from None
    tables, place = parse_toml(read_toml_text(file, "programme"), str(file))
    out: dict[str, ActivationProgramme] = {}
    for name, table in tables.items():
        here = place.at(name)
        if not isinstance(table, dict):
            place.fail(f"'{name}' is no table", f"Write [{name}] and its keys below", name)
        try:
            out[name] = programme_from_table(cast(Mapping[str, Any], table))
        except (InputError, UnknownNameError) as error:
            here.fail(str(error).rstrip("."), "Mend the table")
    return out
