"""Jumps of one kind, synthesised by length and height."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, frozen
from marey.locomotion.checks import check_name, check_number, check_positive, check_weights
from marey.locomotion.planning.parameters import GRAVITY, SCALINGS
from marey.locomotion.planning.run_up import RunUpLaw
from marey.locomotion.units.captured_jumps import canonical_steps
from marey.locomotion.units.gait_unit import rotations_from_rows
from marey.locomotion.units.jump_flight import Airtime, JumpGeometry, bend_knees, measure_jump_length
from marey.locomotion.units.jump_unit import FLIGHT_FEET, JUMP_LEG_M, JumpDraft, JumpUnit
from marey.skeleton import HUMAN

NUM_ROWS: Final = {"walk": 61, "run": 61, "standing": 121}  # about one every 1/60 s
JUMP_TIMINGS: Final = ("ballistic", "glardon")
FREQUENCIES_HZ: Final = (0.3, 3.0)  # of jumps timed as in the thesis
SECANT_STEPS: Final = 4
# [-] how far l_n may stray from what is asked so that the poses are of the right length
MAX_LENGTH_CORRECTION: Final = 0.2
LENGTH_TOL_M: Final = 2e-3  # [m] poses this near the length are good enough; the flight makes up the rest
_SINGLE_FIELDS: Final = ("mean", "lift")
_DOUBLE_FIELDS: Final = (
    *("shares", "offsets", "slopes", "centre", "pose_limits", "pieces", "piece_limits", "marks", "mark_limits"),
    *("flight_law", "flight_speed", "flight_limits", "frequency_law", "captured", "limits", "means"),
)


class FlightEdges(NamedTuple):
    """A jump at toe off and at heel strike alone: how long it is, and how far it flies."""

    length_m: float  # toe joints that leave to heels that land, along +Z
    flown: FloatArray  # (3,) [m] way of the centre of mass in flight


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JumpModel:
    r"""Jumps of one kind by normalised length :math:`l_n` and time in the air :math:`T`.

    .. math:: \theta = \theta_0 + \Big[\sum_k w_k \alpha_0^k + (l_n - \bar l)\,a_l + (T - \bar T)\,a_T\Big] E^T

    [Glardon2005]_ §II.2.3.3 has one line in :math:`l_n` for each person. Public captures hold few leaps, so slopes are
    shared and offsets personal, and time in the air is a second parameter: of a standing jump it follows a line in
    :math:`l_n`, of a leap it is what makes the flight as fast as the run-up, unless a height is asked for. Rows lie
    evenly between shared instants (toe off, heel strike, ...), so that like is mixed with like; how long the pieces
    last is modelled apart.
    """

    kind: str
    people: tuple[str, ...]  # (K,)
    shares: FloatArray  # (K,) weights of the default mixture, summing to one
    mean: FloatArray  # (p,) p = N D
    lift: FloatArray  # (C, p)
    offsets: FloatArray  # (K, C)
    slopes: FloatArray  # (2, C) by l_n and by T [s]
    centre: FloatArray  # (2,) l_n and T [s] at which the offsets hold
    pose_limits: FloatArray  # (2, 2) least and greatest l_n and T [s] for poses
    pieces: FloatArray  # (3, S - 1) log durations [s] of the pieces but the flight: constant, by l_n, by T
    piece_limits: FloatArray  # (2, S - 1) [s] shortest and longest captured
    marks: FloatArray  # (3, 5) RTS, RHO as parts of the take-off stance, LTS, LHO, LTO of what comes after landing
    mark_limits: FloatArray  # (2, 5) earliest and latest captured
    flight_law: FloatArray  # (2,) [s] constant, by l_n
    flight_speed: FloatArray  # (2,) [1/s] constant, by l_n: of the centre of mass over leg length
    flight_limits: FloatArray  # (2,) [s]
    frequency_law: FloatArray  # (2,) [Hz] constant, by l_n: how the thesis times whole jumps
    captured: FloatArray  # (2,) l_n
    limits: FloatArray  # (2,) l_n
    run_up: RunUpLaw  # of the jumps that the model makes
    captured_run_up: RunUpLaw  # of the jumps it was fitted on
    means: FloatArray  # (J, 4) wxyz

    @property
    def leg_length_m(self) -> float:
        """Leg length [m] of the body on which jumps are measured; others are scaled."""
        return JUMP_LEG_M

    def unit(
        self,
        length_n: float,
        weights: Mapping[str, float] | None = None,
        *,
        height_n: float | None = None,
        leg_length_m: float | None = None,
        scaling: str = "froude",
        timing: str = "ballistic",
        calibrated: bool = True,
    ) -> JumpUnit:
        """One jump.

        Args:
            length_n: length over leg length; beyond ``limits`` the nearest that is known.
            weights: of people; names that this kind does not know are left out, the default mixture if none is left.
            height_n: rise of the centre of mass over leg length; what goes with the length if not given.
            leg_length_m: of the character [m]; the model's own by default.
            scaling: ``"froude"`` lasts as the root of the leg length, so that it falls at g; ``"leg"`` lasts as the
                model's, as in the thesis.
            timing: ``"ballistic"`` takes the time that gravity and the run-up give, ``"glardon"`` plays the same poses
                at the frequency that the thesis fits to whole jumps: flights then fall too fast or too slowly.
            calibrated: make the measured length the requested one; without, the plain law of the thesis.
        """
        if height_n is not None:
            check_positive("height_n", height_n)
        check_name("scaling", scaling, "a jump model", SCALINGS)
        wanted = float(np.clip(check_number("length_n", length_n), *self.limits))
        check_name("timing", timing, "a jump model", JUMP_TIMINGS)
        mix = self.mix_people(weights)
        # Time in the air: of a standing jump by its law, of a leap so that it flies as fast as it is run up to
        flight_s = float(np.clip(float(self.flight_law @ [1.0, wanted]), *self.flight_limits))
        speed = float(self.flight_speed @ [1.0, wanted]) * JUMP_LEG_M
        for _ in range(0 if self.kind == "standing" else 4):
            # What is not flown lies between toe-off and root, and between root and heel strike.
            edges = self.edges(mix, wanted, flight_s)
            way = wanted * JUMP_LEG_M - (edges.length_m - float(edges.flown[2]))
            flight_s = 0.4 * flight_s + 0.6 * float(np.clip(way / speed, *self.flight_limits))
        rise_m = 0.0 if height_n is None else height_n * JUMP_LEG_M
        for _ in range(0 if height_n is None else 3):
            # The centre of mass rises so high, between the heights of both stances.
            drop_m = max(-float(self.edges(mix, wanted, flight_s).flown[1]), -0.9 * rise_m)
            airtime_s = float(np.sqrt(2.0 * rise_m / GRAVITY) + np.sqrt(2.0 * (rise_m + drop_m) / GRAVITY))
            flight_s = float(np.clip(airtime_s, *self.flight_limits))
        if calibrated:
            # Length to ask for so that the poses are as long as wanted, as near as the law allows: a secant search
            asked, slope = wanted, JUMP_LEG_M
            made = self.edges(mix, asked, flight_s).length_m
            for _ in range(SECANT_STEPS):
                short_m = wanted * JUMP_LEG_M - made
                step = (
                    float(
                        np.clip(asked + short_m / slope, wanted - MAX_LENGTH_CORRECTION, wanted + MAX_LENGTH_CORRECTION)
                    )
                    - asked
                )
                if abs(short_m) < LENGTH_TOL_M or abs(step) < 1e-4:
                    break
                before, asked = made, asked + step
                made = self.edges(mix, asked, flight_s).length_m
                # The secant's slope, within what a pose can plausibly do
                slope = float(np.clip((made - before) / step, 0.3 * JUMP_LEG_M, 3.0 * JUMP_LEG_M))
        else:
            asked = wanted
        # The draft becomes a unit once its root path fits the poses and falls under gravity.
        draft, wanted_m = self.plain(mix, asked, flight_s).match_stance_speeds(), wanted * JUMP_LEG_M
        rows, times, geometry = draft.fit_root_path(NUM_ROWS[self.kind], wanted_m if calibrated else None)
        air, end, root = draft.air, float(times[-1]), rows[:, :3] * JUMP_LEG_M
        height = (geometry.com + root)[:, 1]
        flying = (times >= air.off_s) & (times <= air.land_s)
        length_m = measure_jump_length(geometry, times, root, air)
        unit = JumpUnit(
            kind=self.kind,
            rows=frozen(rows, None, None, name="rows"),
            duration_s=end,
            events=frozen(draft.events() / end, 8, name="events"),
            length_m=length_m,
            requested_m=wanted_m,
            rise_m=float(height[flying].max() - np.interp(air.off_s, times, height)),
            flight=(air.off_s / end, air.land_s / end),
            run_up_speed_mps=self.run_up.speed(length_m / JUMP_LEG_M) * JUMP_LEG_M,
            leg_length_m=JUMP_LEG_M,
        )
        if timing == "glardon":
            unit = replace(unit, duration_s=1.0 / float(np.clip(self.frequency_law @ [1.0, wanted], *FREQUENCIES_HZ)))
        leg_m = JUMP_LEG_M if leg_length_m is None else check_positive("leg_length_m", leg_length_m)
        return unit.scaled(leg_m, keeps_time=scaling == "leg")

    def mix_people(self, weights: Mapping[str, float] | None) -> FloatArray:
        """Weights ``(K,)`` of the people of this kind, summing to one."""
        wanted = {} if weights is None else check_weights("weights", weights)
        given = np.array([wanted.get(name, 0.0) for name in self.people])
        total = float(given.sum())
        return given / total if total > 0.0 else self.shares

    def rows(self, mix: FloatArray, length_n: float, flight_s: float) -> FloatArray:
        """Rows ``(N, D)`` of the plain law at the canonical instants, for weights ``(K,)``.

        Beyond what was captured poses stay as they are: lines go on for ever, knees do not. A longer jump is then flown
        faster and longer.
        """
        scores = mix @ self.offsets + (self._known(length_n, flight_s) - self.centre) @ self.slopes
        return (self.mean + scores @ self.lift).reshape(-1, 3 + 3 * len(self.means))

    def edges(self, mix: FloatArray, length_n: float, flight_s: float) -> FlightEdges:
        """Toe off and heel strike of the plain law."""
        scores = mix @ self.offsets + (self._known(length_n, flight_s) - self.centre) @ self.slopes
        # Canonical rows of toe off and heel strike
        steps = canonical_steps(self.kind)
        middle = len(steps) // 2
        width, rows = 3 + 3 * len(self.means), [sum(steps[:middle]), sum(steps[: middle + 1])]
        lift = self.lift.reshape(len(self.lift), -1, width)[:, rows].reshape(len(self.lift), -1)
        flat = self.mean.reshape(-1, width)[rows].ravel() + scores @ lift
        edge_rows = flat.reshape(2, width)
        turns = rotations_from_rows(bend_knees(edge_rows, self.means), self.means)
        geometry, root = JumpGeometry.from_rotations(HUMAN, turns), edge_rows[:, :3] * JUMP_LEG_M
        air = Airtime(0.0, 1.0, 1.0, *FLIGHT_FEET[self.kind])
        com = geometry.com + root
        return FlightEdges(measure_jump_length(geometry, np.array([0.0, 1.0]), root, air), com[1] - com[0])

    def _known(self, length_n: float, flight_s: float) -> FloatArray:
        """Length and airtime ``(2,)`` within what was captured."""
        return np.clip(np.array([length_n, flight_s]), *self.pose_limits)

    def plain(self, mix: FloatArray, length_n: float, flight_s: float) -> JumpDraft:
        """A jump by the plain laws of poses, durations and events."""
        at = np.array([1.0, *self._known(length_n, flight_s)])
        spans = np.clip(np.exp(at @ self.pieces), *self.piece_limits)
        spans = np.insert(spans, len(spans) // 2, flight_s)
        marks = np.clip(at @ self.marks, *self.mark_limits)
        rows = bend_knees(self.rows(mix, length_n, flight_s), self.means)
        geometry = JumpGeometry.from_rotations(HUMAN, rotations_from_rows(rows, self.means))
        return JumpDraft(self.kind, rows, spans, marks, self.means, geometry)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays that hold all of the model, poses in single precision; names are UTF-8 bytes."""
        large = {name: getattr(self, name).astype(np.float32) for name in _SINGLE_FIELDS}
        small = {name: np.array(getattr(self, name)) for name in _DOUBLE_FIELDS}
        laws = np.array([astuple(self.run_up), astuple(self.captured_run_up)])
        text = "\n".join((self.kind, *self.people)).encode()
        return {**large, **small, "laws": laws, "names": np.frombuffer(text, dtype=np.uint8).copy()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> JumpModel:
        """The model that :meth:`to_arrays` gave."""
        kind, *people = bytes(arrays["names"]).decode().split("\n")
        check_name("kind of jump", kind, "a jump model", NUM_ROWS)
        held = {name: frozen(np.asarray(arrays[name]), name=name) for name in (*_SINGLE_FIELDS, *_DOUBLE_FIELDS)}
        own, captured = (RunUpLaw(*frozen(law, 4, name="run-up law").tolist()) for law in arrays["laws"])
        return cls(kind=kind, people=tuple(people), run_up=own, captured_run_up=captured, **held)

    def __repr__(self) -> str:
        low, high = self.limits * JUMP_LEG_M
        return f"JumpModel({self.kind}, {low:.2f} to {high:.2f} m, people {', '.join(self.people)})"
