"""Jumps by length and height: a table of poses, its timing and its foot events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.locomotion._jump_flight import GRAVITY, Airtime, Geometry, ballistic, grounded, measured_length
from marey.locomotion._jump_rows import canonical_times, smooth_samples, steps_of
from marey.locomotion._jump_runup import RunUpLaw
from marey.locomotion._segment import performer_leg
from marey.locomotion._units import rows_wxyz
from marey.skeleton import HUMAN, Skeleton

NUM_ROWS: Final = {"walk": 61, "run": 61, "standing": 101}  # about one every 1/60 s
LEG_M: Final = performer_leg(HUMAN)
SHORTEST_FLIGHT_S: Final = 0.08
PACE: Final = (0.75, 1.25)  # [-] how far a stance may be played faster or slower to match the speed of the flight
SCALINGS: Final = ("froude", "leg")
SECANT_STEPS: Final = 6
STRAY: Final = 0.2  # [-] how far l_n may stray from what is asked so that the poses are of the right length


@dataclass(frozen=True, slots=True, eq=False)
class JumpUnit:
    """One jump, ready to play: its phase runs from 0 to 1 once.

    A leap takes off from the right foot and lands on the left, from right heel strike to the next. A standing jump
    leaves and lands with both feet: the first four events are those of the take-off stance of both, the last four of
    the landing stance of both.
    """

    kind: str
    rows: FloatArray  # (N, D) at phases i / (N - 1); root over leg length, really moving along +Z
    duration_s: float
    events: FloatArray  # (8,) phases in the order of EVENTS
    length_m: float  # measured: toe joint at toe off to heel at heel strike
    requested_m: float
    rise_m: float  # of the centre of mass above toe off
    flight: tuple[float, float]  # phases of toe off and heel strike
    run_up_speed_mps: float
    leg_length_m: float

    @property
    def frequency_hz(self) -> float:
        """Phase per second."""
        return 1.0 / self.duration_s

    @property
    def flight_s(self) -> float:
        """Time in the air [s]."""
        return (self.flight[1] - self.flight[0]) * self.duration_s

    @property
    def mean_speed_mps(self) -> float:
        """Mean horizontal speed of the root from the start to toe off of the landing foot."""
        last = self.events[7] * (len(self.rows) - 1)
        way = [np.interp(last, np.arange(len(self.rows)), self.rows[:, k]) - self.rows[0, k] for k in (0, 2)]
        return float(np.hypot(*way)) * self.leg_length_m / (float(self.events[7]) * self.duration_s)


@dataclass(frozen=True, slots=True, eq=False)
class JumpModel:
    r"""Jumps of one kind by normalised length :math:`l_n` and time in the air :math:`T`.

    .. math:: \theta = \theta_0 + \Big[\sum_k w_k \alpha_0^k + (l_n - \bar l)\,a_l + (T - \bar T)\,a_T\Big] E^T

    [Glardon2005]_ §II.2.3.3 has one line in :math:`l_n` for each person. Public captures hold few leaps, so slopes are
    shared and offsets personal, and time in the air is a second parameter, which the flight law
    :math:`T = T_0 + T_1 l_n` gives unless a height is asked for. Rows lie evenly between shared instants (toe off, heel
    strike, ...), so that like is mixed with like; how long the pieces last is modelled apart.
    """

    kind: str
    people: tuple[str, ...]  # (K,)
    shares: FloatArray  # (K,) weights of the default mixture, summing to one
    mean: FloatArray  # (p,) p = N D
    lift: FloatArray  # (C, p)
    offsets: FloatArray  # (K, C)
    slopes: FloatArray  # (2, C) by l_n and by T [s]
    centre: FloatArray  # (2,) l_n and T [s] at which the offsets hold
    pieces: FloatArray  # (3, S) log durations [s] of the pieces but the flight: constant, by l_n, by T
    piece_limits: FloatArray  # (2, S) [s] shortest and longest captured
    marks: FloatArray  # (3, 5) RTS, RHO as parts of the take-off stance, LTS, LHO, LTO of the landing piece
    mark_limits: FloatArray  # (2, 5) earliest and latest captured
    flight_law: FloatArray  # (2,) [s] constant, by l_n
    flight_speed: (
        FloatArray  # (2,) [1/s] constant, by l_n: of the centre of mass over leg length; not of standing jumps
    )
    flight_limits: FloatArray  # (2,) [s]
    captured: FloatArray  # (2,) l_n
    limits: FloatArray  # (2,) l_n
    run_up: RunUpLaw  # of the jumps that the model makes
    captured_run_up: RunUpLaw  # of the jumps it was fitted on
    means: FloatArray  # (J, 4) wxyz

    @property
    def skeleton(self) -> Skeleton:
        """The body on which jumps are measured; others are scaled."""
        return HUMAN

    @property
    def leg_length_m(self) -> float:
        """Leg length [m] of that body."""
        return LEG_M

    def unit(
        self,
        length_n: float,
        weights: Mapping[str, float] | None = None,
        *,
        height_n: float | None = None,
        leg_length_m: float | None = None,
        scaling: str = "froude",
        calibrated: bool = True,
    ) -> JumpUnit:
        """One jump.

        Args:
            length_n: length over leg length; beyond ``limits`` the nearest that is known.
            weights: of people; names that this kind does not know are left out, the default mixture if none is left.
            height_n: rise of the centre of mass over leg length; by the flight law if not given.
            leg_length_m: of the character [m]; the model's own by default.
            scaling: ``"froude"`` lasts as the root of the leg length, so that it falls at g; ``"leg"`` lasts as the
                model's, as in the thesis.
            calibrated: make the measured length the requested one; without, the plain law of the thesis.
        """
        wanted = self._known_length(length_n)
        if scaling not in SCALINGS:
            raise UnknownNameError("scaling", scaling, "a jump model", SCALINGS)
        if height_n is not None and not (np.isfinite(height_n) and height_n > 0.0):
            raise InputError(f"height_n is {height_n}", "Give a positive part of the leg length")
        mix = self.mixture(weights)
        flight_s = self._flight(mix, wanted)
        sketch = self._sketch(mix, wanted, flight_s, calibrated=calibrated)
        if height_n is not None:
            for _ in range(3):
                flight_s = self._airtime_of(sketch, height_n * self.leg_length_m)
                sketch = self._sketch(mix, wanted, flight_s, calibrated=calibrated)
        unit = self._finished(sketch, wanted if calibrated else None)
        own = self.leg_length_m if leg_length_m is None else float(leg_length_m)
        return self._scaled(replace(unit, requested_m=wanted * self.leg_length_m), own, scaling)

    def mixture(self, weights: Mapping[str, float] | None) -> FloatArray:
        """Weights ``(K,)`` of the people of this kind, summing to one."""
        given = np.array([float((weights or {}).get(name, 0.0)) for name in self.people])
        if not np.isfinite(given).all() or (given < 0.0).any():
            raise InputError("a weight is negative or not finite", "Give weights that are not negative")
        total = float(given.sum())
        return given / total if total > 0.0 else self.shares

    def _known_length(self, length_n: float) -> float:
        if not np.isfinite(length_n):
            raise InputError(f"length_n is {length_n}", "Give a number")
        return float(np.clip(length_n, self.limits[0], self.limits[1]))

    def _flight(self, mix: FloatArray, length_n: float) -> float:
        """Time in the air [s]: of a standing jump by its law, of a leap so that it flies as fast as it is run up to."""
        flight_s = float(np.clip(self.flight_law @ [1.0, length_n], *self.flight_limits))
        if self.kind == "standing":
            return flight_s
        speed = float(self.flight_speed @ [1.0, length_n]) * self.leg_length_m
        for _ in range(4):
            way = length_n * self.leg_length_m - self._raw(mix, length_n, flight_s).spread_m()
            flight_s = 0.4 * flight_s + 0.6 * float(np.clip(way / speed, *self.flight_limits))
        return flight_s

    def rows(self, mix: FloatArray, length_n: float, flight_s: float) -> FloatArray:
        """Canonical rows ``(N, D)`` of the plain law."""
        scores = mix @ self.offsets + (np.array([length_n, flight_s]) - self.centre) @ self.slopes
        return (self.mean + scores @ self.lift).reshape(-1, 3 + 3 * len(self.means))

    def _sketch(self, mix: FloatArray, length_n: float, flight_s: float, *, calibrated: bool) -> _Sketch:
        asked = length_n
        sketch = self._raw(mix, asked, flight_s)
        if not calibrated:
            return sketch
        target = length_n * self.leg_length_m
        low, slope = sketch.length_m, self.leg_length_m
        for _ in range(SECANT_STEPS):
            if abs(low - target) < 1e-3:
                break
            step = float(np.clip((target - low) / slope, length_n - STRAY - asked, length_n + STRAY - asked))
            if abs(step) < 1e-4:
                break
            asked += step
            sketch = self._raw(mix, asked, flight_s)
            slope = np.clip((sketch.length_m - low) / step, 0.3 * self.leg_length_m, 3.0 * self.leg_length_m)
            low = sketch.length_m
        return sketch

    def _raw(self, mix: FloatArray, length_n: float, flight_s: float) -> _Sketch:
        rows = self.rows(mix, length_n, flight_s)
        at = np.array([1.0, length_n, flight_s])
        spans = np.clip(np.exp(at @ self.pieces), self.piece_limits[0], self.piece_limits[1])
        middle = len(spans) // 2
        spans = np.insert(spans, middle, flight_s)
        marks = np.clip(at @ self.marks, self.mark_limits[0], self.mark_limits[1])
        return _Sketch.of(self, rows, spans, marks)

    def _airtime_of(self, sketch: _Sketch, rise_m: float) -> float:
        """Time in the air for a rise of the centre of mass, between the heights at which the poses leave and land."""
        drop = max(sketch.drop_m(), -0.9 * rise_m)
        T = np.sqrt(2.0 * rise_m / GRAVITY) + np.sqrt(2.0 * (rise_m + drop) / GRAVITY)
        return float(np.clip(T, SHORTEST_FLIGHT_S, 1.5 * self.flight_limits[1]))

    def _finished(self, sketch: _Sketch, length_n: float | None) -> JumpUnit:
        sketch = sketch.paced()
        count = NUM_ROWS[self.kind]
        times = np.linspace(0.0, sketch.times[-1], count)
        rows = smooth_samples(sketch.times, sketch.rows, times)
        geometry = Geometry.of(self.skeleton, rows_wxyz(rows, self.means))
        air = sketch.air
        root = grounded(geometry, times, rows[:, :3] * self.leg_length_m, air, sketch.roll(times))
        root = ballistic(geometry, times, root, air, None if length_n is None else length_n * self.leg_length_m)
        root -= root[0] * np.array([1.0, 0.0, 1.0])
        rows = np.concatenate([root / self.leg_length_m, rows[:, 3:]], axis=1)
        height = (geometry.com + root)[:, 1]
        flying = (times >= air.off_s) & (times <= air.land_s)
        length = measured_length(geometry, times, root, air)
        return JumpUnit(
            self.kind,
            frozen(rows, None, None, name="rows"),
            float(times[-1]),
            frozen(sketch.events() / times[-1], 8, name="events"),
            length,
            length,
            float(height[flying].max() - np.interp(air.off_s, times, height)),
            (air.off_s / float(times[-1]), air.land_s / float(times[-1])),
            self.run_up.speed(length / self.leg_length_m) * self.leg_length_m,
            self.leg_length_m,
        )

    def _scaled(self, unit: JumpUnit, leg_length_m: float, scaling: str) -> JumpUnit:
        if not (np.isfinite(leg_length_m) and leg_length_m > 0.0):
            raise InputError(f"leg_length_m is {leg_length_m}", "Give a positive length")
        size = leg_length_m / self.leg_length_m
        slow = np.sqrt(size) if scaling == "froude" else 1.0
        return replace(
            unit,
            duration_s=unit.duration_s * slow,
            length_m=unit.length_m * size,
            requested_m=unit.requested_m * size,
            rise_m=unit.rise_m * size,
            run_up_speed_mps=unit.run_up_speed_mps * size / slow,
            leg_length_m=leg_length_m,
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays that hold all of the model, poses in single precision; names are UTF-8 bytes."""
        large = {name: getattr(self, name).astype(np.float32) for name in _LARGE}
        small = {name: np.array(getattr(self, name)) for name in _SMALL}
        laws = np.array([self.run_up.to_numbers(), self.captured_run_up.to_numbers()])
        text = "\n".join((self.kind, *self.people)).encode()
        return {**large, **small, "laws": laws, "names": np.frombuffer(text, dtype=np.uint8).copy()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> JumpModel:
        """The model that :meth:`to_arrays` gave."""
        kind, *people = bytes(arrays["names"]).decode().split("\n")
        if kind not in NUM_ROWS:
            raise UnknownNameError("kind of jump", kind, "a jump model", tuple(NUM_ROWS))
        held = {name: frozen(np.asarray(arrays[name]), name=name) for name in (*_LARGE, *_SMALL)}
        own, captured = (RunUpLaw.from_numbers(law) for law in arrays["laws"])
        return cls(kind=kind, people=tuple(people), run_up=own, captured_run_up=captured, **held)


_LARGE: Final = ("mean", "lift")
_SMALL: Final = (
    *("shares", "offsets", "slopes", "centre", "pieces", "piece_limits", "marks", "mark_limits"),
    *("flight_law", "flight_speed", "flight_limits", "captured", "limits", "means"),
)


@dataclass(frozen=True, slots=True, eq=False)
class _Sketch:
    """A jump at the canonical instants, before its root path is made to fit."""

    model: JumpModel
    rows: FloatArray  # (N, D)
    spans: FloatArray  # (S + 1,) [s] durations of the pieces
    marks: FloatArray  # (5,)
    geometry: Geometry
    length_m: float

    @classmethod
    def of(cls, model: JumpModel, rows: FloatArray, spans: FloatArray, marks: FloatArray) -> _Sketch:
        geometry = Geometry.of(model.skeleton, rows_wxyz(rows, model.means))
        sketch = cls(model, rows, spans, marks, geometry, 0.0)
        length = measured_length(geometry, sketch.times, rows[:, :3] * model.leg_length_m, sketch.air)
        return replace(sketch, length_m=length)

    @property
    def knots(self) -> FloatArray:
        return np.concatenate([[0.0], np.cumsum(self.spans)])

    @property
    def times(self) -> FloatArray:
        return canonical_times(self.knots, steps_of(self.model.kind))

    @property
    def air(self) -> Airtime:
        off = len(self.spans) // 2
        both, knots = self.model.kind == "standing", self.knots
        feet = (("left", "right"), ("left", "right")) if both else (("right",), ("left",))
        return Airtime(float(knots[off]), float(knots[off + 1]), *feet)

    def spread_m(self) -> float:
        """How much of the length [m] is between the feet rather than flown: toe off behind, heel strike ahead."""
        air, times = self.air, self.times
        com = self.geometry.com[:, 2] + self.rows[:, 2] * self.model.leg_length_m
        return self.length_m - float(np.interp(air.land_s, times, com) - np.interp(air.off_s, times, com))

    def drop_m(self) -> float:
        """How much lower [m] the centre of mass is at heel strike than at toe off."""
        air, times = self.air, self.times
        height = self.geometry.com[:, 1] + self.rows[:, 1] * self.model.leg_length_m
        return float(np.interp(air.off_s, times, height) - np.interp(air.land_s, times, height))

    def events(self) -> FloatArray:
        air, end = self.air, float(self.knots[-1])
        landing = end - air.land_s
        rts, rho, lts, lho, lto = self.marks
        events = [0.0, rts * air.off_s, rho * air.off_s, air.off_s]
        events += [air.land_s + part * landing for part in (0.0, lts, lho, lto)]
        return np.maximum.accumulate(np.array(events))

    def roll(self, times: FloatArray) -> FloatArray:
        """How much of the support is on the ball of the foot ``(n,)``: all after heel off, none before toe strike."""
        rhs, rts, rho, rto, lhs, lts, lho, lto = self.events()
        ends = [rhs, rts, rho, 0.5 * (rho + rto), rto, lhs, lts, lho, 0.5 * (lho + lto)]
        return np.interp(times, ends, [0.0, 0.5, 0.5, 1.0, 1.0, 0.0, 0.5, 0.5, 1.0])

    def paced(self) -> _Sketch:
        """Stances played faster or slower, so that the body leaves and lands at about the speed of its flight."""
        if self.model.kind == "standing":
            return self
        times, air = self.times, self.air
        root = grounded(self.geometry, times, self.rows[:, :3] * self.model.leg_length_m, air, self.roll(times))
        com = (self.geometry.com + root)[:, 2]
        speeds = []
        for a, b in ((0.45 * air.off_s, air.off_s), (air.land_s, air.land_s + 0.25 * (times[-1] - air.land_s))):
            speeds.append((np.interp(b, times, com) - np.interp(a, times, com)) / (b - a))
        flight = (np.interp(air.land_s, times, com) - np.interp(air.off_s, times, com)) / air.duration_s
        spans = self.spans.copy()
        for k, speed in ((0, speeds[0]), (2, speeds[1])):
            spans[k] *= np.clip(speed / max(flight, 1e-3), *PACE)
        return replace(self, spans=spans)
