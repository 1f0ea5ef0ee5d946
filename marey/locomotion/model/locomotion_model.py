"""The locomotion model: gaits and jumps as plain arrays, ready for compiled code, and their file.

The hierarchical model of gaits is expanded into the arrays that the engine runs on; jumps are synthesised by length and
height. On disk a model is one ``.safetensors`` file of plain numbers that cannot run code.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marey.base import BoolArray, FloatArray, InputError, MareyError, TensorFormat, frozen
from marey.locomotion.checks import check_name, check_number, check_positive, check_weights
from marey.locomotion.planning.run_up import RunUpLaw, get_thesis_law
from marey.locomotion.units.jump_flight import measure_jump_length
from marey.locomotion.units.jump_unit import JUMP_LEG_M, FlightEdges, JumpDraft, JumpUnit, flight_edge_rows
from marey.models import Components, HierarchicalModel, Leaf, Person, SpeedLaw
from marey.skeleton import HUMAN, Skeleton

if TYPE_CHECKING:
    import os


EVENTS: Final = ("RHS", "RTS", "RHO", "RTO", "LHS", "LTS", "LHO", "LTO")
"""Right and left: heel (ankle) strike, toe strike, heel off, toe off; in the columns of every event table."""

EFFECTORS: Final = ("right_ankle", "right_foot", "left_ankle", "left_foot")
"""The four points that foot plants hold, by the joints of the canonical human."""

GAITS: Final = ("walk", "run")
TIMINGS: Final = ("stance", "glardon", "inman")
SCALINGS: Final = ("froude", "leg")

Style = str | Mapping[str, float] | None


class GaitArrays(NamedTuple):
    r"""All styles and both gaits, multiplied out ([Glardon2005]_ §II.2.3.2).

    .. math:: \theta = \sum_{k\tau} w_k w_\tau \big(B_{k\tau} + A^{\tau k}(s_n)\,D_{k\tau}\big)

    ``K`` styles, 2 gaits (0 walks, 1 runs), ``C`` components, ``N`` frames, ``D = 3 + 3 J`` columns, ``G`` speeds.
    The law: ``A = standing + (slope * slowest + offset - standing) * (s / slowest) ** power`` below ``slowest``,
    ``A = slope * s + offset`` above. Tables are linear between speeds and hold their ends.
    """

    base: FloatArray  # (K, 2, N, D)
    lift: FloatArray  # (K, 2, C, N, D)
    standing: FloatArray  # (K, 2, C)
    slope: FloatArray  # (K, 2, C) [s]
    offset: FloatArray  # (K, 2, C)
    slowest: FloatArray  # (K, 2) [1/s] normalised speed
    power: float
    has_gait: BoolArray  # (K, 2) who has one gait alone shows that gait
    speeds: FloatArray  # (G,) [1/s] normalised speeds of the tables below, the first is zero
    frequency: FloatArray  # (K, 2, G) [Hz] cycles per second, at the model's own leg length
    events: FloatArray  # (K, 2, G, 8) unwrapped phases, in the order of EVENTS
    means: FloatArray  # (J, 4) wxyz, q_j = mean_j * exp(v_j)
    limits: FloatArray  # (2,) [1/s] fastest normalised walk and run

    def shares(self, run: float, weights: ArrayLike) -> FloatArray:
        """Weight ``(K, 2)`` of every leaf: style times gait; who has one gait alone shows that gait."""
        part = min(max(float(run), 0.0), 1.0)
        shares = np.array([1.0 - part, part]) * self.has_gait
        alone = self.has_gait.sum(axis=1) == 1
        shares[alone] = self.has_gait[alone]
        return np.asarray(weights, dtype=np.float64)[:, None] * shares

    def scores(self, speed_n: float) -> FloatArray:
        """Scores ``(K, 2, C)`` of every leaf at a normalised speed [1/s]; below zero counts as zero."""
        s = max(float(speed_n), 0.0)
        joint = self.slope * self.slowest[..., None] + self.offset
        curve = self.standing + (joint - self.standing) * (s / self.slowest[..., None]) ** self.power
        return np.where(s < self.slowest[..., None], curve, self.slope * s + self.offset)

    def row(self, speed_n: float, run: float, weights: ArrayLike) -> FloatArray:
        """Rows ``(N, D)`` of the unit at a normalised speed [1/s], share of running and weights ``(K,)`` of styles."""
        shares = self.shares(run, weights)
        scores = self.scores(speed_n)
        total = np.zeros_like(self.base[0, 0])
        for k, t in np.argwhere(shares > 0.0):
            total += shares[k, t] * (self.base[k, t] + np.tensordot(scores[k, t], self.lift[k, t], axes=1))
        return total

    def frequency_at(self, speed_n: float, run: float, weights: ArrayLike) -> float:
        """Cycles per second [Hz] on the model's own legs."""
        return float(np.sum(self.shares(run, weights) * _interpolate_table(self.frequency, self.speeds, speed_n)))

    def events_at(self, speed_n: float, run: float, weights: ArrayLike) -> FloatArray:
        """Phases ``(8,)`` of the foot events, unwrapped, in the order of ``EVENTS``."""
        return np.einsum(
            "kt,kte->e", self.shares(run, weights), _interpolate_table(self.events, self.speeds, speed_n, axis=2)
        )


def _interpolate_table(table: FloatArray, speeds: FloatArray, speed: float, axis: int = -1) -> FloatArray:
    """A table at one speed, linear between its own and level beyond them."""
    s = min(max(float(speed), float(speeds[0])), float(speeds[-1]))
    i = min(int(np.searchsorted(speeds, s, side="right")) - 1, len(speeds) - 2)
    part = (s - speeds[i]) / (speeds[i + 1] - speeds[i])
    return (1.0 - part) * np.take(table, i, axis=axis) + part * np.take(table, i + 1, axis=axis)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LocomotionModel:
    """A trained model of gaits: everything that :class:`marey.locomotion.Engine` needs."""

    skeleton: Skeleton
    leg_length_m: float  # hip joint to floor of `skeleton`, standing
    styles: tuple[str, ...]  # (K,)
    default_style: Mapping[str, float]  # what `style=None` means
    gaits: GaitArrays
    tree: HierarchicalModel  # what `gaits` was multiplied out from
    rest_heights: FloatArray  # (4,) of EFFECTORS above the floor, over leg length
    frequencies: Mapping[str, FloatArray]  # (K, 2, G) [Hz] by timing
    lent: BoolArray  # (K, 2) this person never showed this gait: it is the common one in the person's posture
    heights: FloatArray  # (K, 2, N) over leg length: what the root's height in runs was corrected by
    jumps: Mapping[str, Any] = field(default_factory=dict[str, Any])
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])  # clips, settings and figures of the fit

    def skeleton_for(self, leg_length_m: float) -> Skeleton:
        """Return the model's body with legs of another length [m], all bones scaled alike."""
        return self.skeleton.scaled(check_positive("leg_length_m", leg_length_m) / self.leg_length_m)

    @property
    def labels(self) -> tuple[str, ...]:
        """Readable names ``(K,)`` of the styles, as good as the others wherever a style is asked for."""
        known = self.info.get("labels", {})
        return tuple(str(known.get(name, name)) for name in self.styles)

    def weights(self, style: Style = None) -> FloatArray:
        """Weights ``(K,)`` of the styles, summing to one.

        Args:
            style: ``None`` for the model's own mixture, a name or label, or a weight for each of some.

        Raises:
            UnknownNameError: a name is not a style of this model.
            InputError: a weight is negative or not finite, or all are zero.
        """
        given = self.default_style if style is None else {style: 1.0} if isinstance(style, str) else style
        weights = np.zeros(len(self.styles))
        codes = dict(zip(self.labels, self.styles, strict=True))
        for label, weight in check_weights("style", given).items():
            name = check_name("style", codes.get(label, label), "this model", self.styles)
            weights[self.styles.index(name)] += weight
        if weights.sum() <= 0.0:
            raise InputError("all style weights are zero", "Give one style a positive weight")
        return weights / weights.sum()

    @property
    def default_weights(self) -> FloatArray:
        """Weights ``(K,)`` of the model's own mixture of styles."""
        return self.weights(None)

    def with_timing(self, timing: str) -> GaitArrays:
        """Return the arrays with the cycle frequencies of a timing: ``"stance"``, ``"glardon"`` or ``"inman"``."""
        check_name("timing", timing, "this model", self.frequencies)
        return self.gaits._replace(frequency=self.frequencies[timing])

    def normalised_speed(self, speed_mps: float, leg_length_m: float, scaling: str = "froude") -> float:
        r"""Speed at which the tables are looked up [1/s].

        .. math:: s_n = s / \sqrt{H H_0} \text{ ("froude")}, \qquad s_n = s / H \text{ ("leg", [Glardon2005]_ §III.1.2)}
        """
        return check_number("speed_mps", speed_mps) * self.scales(leg_length_m, scaling)[0]

    def scales(self, leg_length_m: float, scaling: str = "froude") -> tuple[float, float]:
        """Factors from speed [m/s] to normalised speed [1/s], and from the table's frequency to the character's."""
        leg = check_positive("leg_length_m", leg_length_m)
        if check_name("scaling", scaling, "the locomotion engine", SCALINGS) == "leg":
            return 1.0 / leg, 1.0
        ratio = float(np.sqrt(self.leg_length_m / leg))
        return ratio / self.leg_length_m, ratio

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a ``.safetensors`` file; the same model makes the same bytes."""
        write_model(self, path)

    def __repr__(self) -> str:
        return (
            f"LocomotionModel({len(self.styles)} styles, {self.gaits.base.shape[2]} frames, jumps {list(self.jumps)})"
        )


NUM_SPEEDS: Final = 36
SPEED_POWER: Final = 1.6  # of the grid of speeds: denser near standing, where frequency rises as a root
NUM_SCORES: Final = 2  # a line in speed, and what is left of standing


def speed_grid(fastest: float) -> FloatArray:
    """Normalised speeds ``(G,)`` [1/s] of the tables, from zero."""
    return fastest * np.linspace(0.0, 1.0, NUM_SPEEDS) ** SPEED_POWER


def expand_gait_arrays(
    tree: HierarchicalModel,
    standing: FloatArray,
    means: FloatArray,
    limits: FloatArray,
    *,
    num_frames: int,
    heights: FloatArray | None = None,
) -> GaitArrays:
    r"""Multiply a tree out.

    A law that is a line above the slowest speed and a root below needs two directions, however many components a leaf
    has: with the line :math:`\theta(s) = b + a s` and the standing unit :math:`\theta_0`,

    .. math:: \theta = b + A_0\,a + A_1\,(\theta_0 - b), \qquad
              A = (s, 0)\ (s \ge s_w), \quad A = (s_w x, 1 - x),\ x = (s/s_w)^m\ (s < s_w)

    Args:
        tree: the fitted model; every person has both gaits.
        standing: ``(K, D)`` row of each person at rest; the components hold it but for their truncation, it is exact.
        means: ``(J, 4)`` wxyz.
        limits: ``(2,)`` [1/s] fastest walk and run.
        num_frames: of a unit.
        heights: ``(K, 2, N)`` over leg length: correction of the root's height in runs, level and per speed, by which
            flights fall freely.
    """
    people = tuple(tree.people)
    columns = standing.shape[1]
    shape = (len(people), len(GAITS))
    base = np.zeros((*shape, num_frames, columns))
    lift = np.zeros((*shape, NUM_SCORES, num_frames, columns))
    slowest = np.zeros(shape)
    power = 0.0
    collapsed = tree.collapse()
    for k, person in enumerate(people):
        for t, gait in enumerate(GAITS):
            law = tree.people[person].leaves[gait].law
            lifting = collapsed.lifts[person, gait]
            line = collapsed.bases[person, gait] + law.offset @ lifting
            base[k, t] = line.reshape(num_frames, columns)
            lift[k, t, 0] = (law.slope @ lifting).reshape(num_frames, columns)
            if heights is not None and gait == "run":
                base[k, t, :, 1] += heights[k, 0]
                lift[k, t, 0, :, 1] += heights[k, 1]
            lift[k, t, 1] = standing[k] - base[k, t]
            slowest[k, t], power = law.slowest, law.power
    rest = np.broadcast_to([0.0, 1.0], (*shape, NUM_SCORES)).copy()
    slope = np.broadcast_to([1.0, 0.0], (*shape, NUM_SCORES)).copy()
    speeds = speed_grid(float(limits.max()))
    return GaitArrays(
        base, lift, rest, slope, np.zeros((*shape, NUM_SCORES)), slowest, power,
        np.ones(shape, dtype=np.bool_), speeds, np.zeros((*shape, len(speeds))),
        np.zeros((*shape, len(speeds), len(EVENTS))), means, limits,
    )  # fmt: skip


NUM_ROWS: Final = {"walk": 61, "run": 61, "standing": 121}  # about one every 1/60 s
JUMP_TIMINGS: Final = ("ballistic", "glardon")
FREQUENCIES_HZ: Final = (0.3, 3.0)  # of jumps timed as in the thesis
RUN_UP_LAWS: Final = ("model", "captured", "glardon")
SECANT_STEPS: Final = 4
MAX_LENGTH_CORRECTION: Final = (
    0.2  # [-] how far l_n may stray from what is asked so that the poses are of the right length
)
LENGTH_TOL_M: Final = 2e-3  # [m] poses this near the length are good enough; the flight makes up the rest
_SINGLE_FIELDS: Final = ("mean", "lift")
_DOUBLE_FIELDS: Final = (
    *("shares", "offsets", "slopes", "centre", "pose_limits", "pieces", "piece_limits", "marks", "mark_limits"),
    *("flight_law", "flight_speed", "flight_limits", "frequency_law", "captured", "limits", "means"),
)


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
    def skeleton(self) -> Skeleton:
        """The body on which jumps are measured; others are scaled."""
        return HUMAN

    @property
    def leg_length_m(self) -> float:
        """Leg length [m] of that body."""
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
        wanted = self._checked(length_n, height_n, scaling)
        check_name("timing", timing, "a jump model", JUMP_TIMINGS)
        mix = self.mix_people(weights)
        flight_s = self._solve_flight_time(mix, wanted)
        for _ in range(0 if height_n is None else 3):
            flight_s = self._clamp_flight(self.edges(mix, wanted, flight_s).airtime_for((height_n or 0.0) * JUMP_LEG_M))
        asked = self._calibrate_length(mix, wanted, flight_s) if calibrated else wanted
        unit = self._build_jump_unit(self.plain(mix, asked, flight_s), wanted * JUMP_LEG_M, calibrated=calibrated)
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

    def run_up_law(self, name: str = "model") -> RunUpLaw:
        """The law of run-up speeds by name: of the jumps the ``"model"`` makes, ``"captured"``, or ``"glardon"``."""
        check_name("run-up law", name, "a jump model", RUN_UP_LAWS)
        if name == "glardon":
            return get_thesis_law(self.kind)
        return self.run_up if name == "model" else self.captured_run_up

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
        width, rows = 3 + 3 * len(self.means), flight_edge_rows(self.kind)
        lift = self.lift.reshape(len(self.lift), -1, width)[:, rows].reshape(len(self.lift), -1)
        flat = self.mean.reshape(-1, width)[rows].ravel() + scores @ lift
        return FlightEdges.from_rows(self.kind, flat.reshape(2, width), self.means)

    def _known(self, length_n: float, flight_s: float) -> FloatArray:
        """Length and airtime ``(2,)`` within what was captured."""
        return np.clip(np.array([length_n, flight_s]), *self.pose_limits)

    def plain(self, mix: FloatArray, length_n: float, flight_s: float) -> JumpDraft:
        """A jump by the plain laws of poses, durations and events."""
        at = np.array([1.0, *self._known(length_n, flight_s)])
        spans = np.clip(np.exp(at @ self.pieces), *self.piece_limits)
        spans = np.insert(spans, len(spans) // 2, flight_s)
        marks = np.clip(at @ self.marks, *self.mark_limits)
        return JumpDraft.from_rows(self.kind, self.rows(mix, length_n, flight_s), spans, marks, self.means)

    def _checked(self, length_n: float, height_n: float | None, scaling: str) -> float:
        """The length within the limits."""
        if height_n is not None:
            check_positive("height_n", height_n)
        check_name("scaling", scaling, "a jump model", SCALINGS)
        return float(np.clip(check_number("length_n", length_n), *self.limits))

    def _clamp_flight(self, flight_s: float) -> float:
        return float(np.clip(flight_s, *self.flight_limits))

    def _solve_flight_time(self, mix: FloatArray, length_n: float) -> float:
        """Time in the air [s]: of a standing jump by its law, of a leap so that it flies as fast as it is run up to."""
        flight_s = self._clamp_flight(float(self.flight_law @ [1.0, length_n]))
        speed = float(self.flight_speed @ [1.0, length_n]) * JUMP_LEG_M
        for _ in range(0 if self.kind == "standing" else 4):
            way = length_n * JUMP_LEG_M - self.edges(mix, length_n, flight_s).spread_m
            flight_s = 0.4 * flight_s + 0.6 * self._clamp_flight(way / speed)
        return flight_s

    def _calibrate_length(self, mix: FloatArray, length_n: float, flight_s: float) -> float:
        """Length to ask for so that the poses are as long as wanted, as near as the law allows: a secant search."""
        asked, slope = length_n, JUMP_LEG_M
        made = self.edges(mix, asked, flight_s).length_m
        for _ in range(SECANT_STEPS):
            short_m = length_n * JUMP_LEG_M - made
            step = (
                float(
                    np.clip(asked + short_m / slope, length_n - MAX_LENGTH_CORRECTION, length_n + MAX_LENGTH_CORRECTION)
                )
                - asked
            )
            if abs(short_m) < LENGTH_TOL_M or abs(step) < 1e-4:
                break
            before, asked = made, asked + step
            made = self.edges(mix, asked, flight_s).length_m
            slope = float(np.clip((made - before) / step, 0.3 * JUMP_LEG_M, 3.0 * JUMP_LEG_M))
        return asked

    def _build_jump_unit(self, sketch: JumpDraft, wanted_m: float, *, calibrated: bool) -> JumpUnit:
        sketch = sketch.match_stance_speeds()
        rows, times, geometry = sketch.fit_root_path(NUM_ROWS[self.kind], wanted_m if calibrated else None)
        air, end, root = sketch.air, float(times[-1]), rows[:, :3] * JUMP_LEG_M
        height = (geometry.com + root)[:, 1]
        flying = (times >= air.off_s) & (times <= air.land_s)
        length_m = measure_jump_length(geometry, times, root, air)
        return JumpUnit(
            kind=self.kind,
            rows=frozen(rows, None, None, name="rows"),
            duration_s=end,
            events=frozen(sketch.events() / end, 8, name="events"),
            length_m=length_m,
            requested_m=wanted_m,
            rise_m=float(height[flying].max() - np.interp(air.off_s, times, height)),
            flight=(air.off_s / end, air.land_s / end),
            run_up_speed_mps=self.run_up.speed(length_m / JUMP_LEG_M) * JUMP_LEG_M,
            leg_length_m=JUMP_LEG_M,
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays that hold all of the model, poses in single precision; names are UTF-8 bytes."""
        large = {name: getattr(self, name).astype(np.float32) for name in _SINGLE_FIELDS}
        small = {name: np.array(getattr(self, name)) for name in _DOUBLE_FIELDS}
        laws = np.array([self.run_up.to_numbers(), self.captured_run_up.to_numbers()])
        text = "\n".join((self.kind, *self.people)).encode()
        return {**large, **small, "laws": laws, "names": np.frombuffer(text, dtype=np.uint8).copy()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> JumpModel:
        """The model that :meth:`to_arrays` gave."""
        kind, *people = bytes(arrays["names"]).decode().split("\n")
        check_name("kind of jump", kind, "a jump model", NUM_ROWS)
        held = {name: frozen(np.asarray(arrays[name]), name=name) for name in (*_SINGLE_FIELDS, *_DOUBLE_FIELDS)}
        own, captured = (RunUpLaw.from_numbers(law) for law in arrays["laws"])
        return cls(kind=kind, people=tuple(people), run_up=own, captured_run_up=captured, **held)

    def __repr__(self) -> str:
        low, high = self.limits * JUMP_LEG_M
        return f"JumpModel({self.kind}, {low:.2f} to {high:.2f} m, people {', '.join(self.people)})"


SHIPPED_MODEL: Final = Path(__file__).parents[1] / "data" / "locomotion.safetensors"
FORMAT: Final = TensorFormat(
    "marey-locomotion", "locomotion model", 1, "Give a file that `marey fit locomotion` wrote, or write it again."
)
JUMP_PREFIX: Final = "jump/"
TIMING_PREFIX: Final = "frequency/"

AnyPath = str | os.PathLike[str]
Tensors = dict[str, NDArray[Any]]


def load_model(path: AnyPath | None = None) -> LocomotionModel:
    """Read a locomotion model; the one that ships with marey by default.

    Raises:
        MissingFileError: there is no such file.
        FormatError: the file is damaged, holds something else, or was written by a newer marey.
    """
    file = SHIPPED_MODEL if path is None else Path(path)
    tensors, facts = FORMAT.read(file)
    try:
        return _read_locomotion_model(tensors, facts)
    except (MareyError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise FORMAT.damaged(file, error) from error


def write_model(model: LocomotionModel, path: AnyPath) -> None:
    """Write a model that :func:`load_model` gives back; the same model makes the same bytes."""
    tensors = _tree_tensors(model.tree)
    tensors |= {
        "standing": to_single(standing_rows(model)),
        "means": model.gaits.means,
        "limits": model.gaits.limits,
        "events": to_single(model.gaits.events),
        "heights": to_single(model.heights),
        "lent": model.lent.astype(np.uint8),
        "rest_heights": model.rest_heights,
        "scale": np.array([model.leg_length_m / HUMAN_LEG_M]),
    }
    tensors |= {f"{TIMING_PREFIX}{name}": to_single(table) for name, table in model.frequencies.items()}
    for kind, jump in model.jumps.items():
        tensors |= {f"{JUMP_PREFIX}{kind}/{name}": array for name, array in jump.to_arrays().items()}
    facts = {
        "styles": list(model.styles),
        "default_style": dict(model.default_style),
        "num_frames": int(model.gaits.base.shape[2]),
        "jumps": list(model.jumps),
        "info": dict(model.info),
    }
    FORMAT.write(Path(path), tensors, facts)


def standing_rows(model: LocomotionModel) -> FloatArray:
    """Rows ``(K, D)`` of the standing poses."""
    gaits = model.gaits
    return (gaits.base[:, 0] + gaits.lift[:, 0, 1]).mean(axis=1)


def to_single(array: FloatArray) -> NDArray[np.float32]:
    """Single precision: 1e-7 of a radian, a hundred times below what anybody measured."""
    return np.asarray(array, dtype=np.float32)


def round_tree(tree: HierarchicalModel) -> HierarchicalModel:
    """Return a tree as it will be read back from a file, so that tables are measured on what is shipped."""
    return _read_tree(_tree_tensors(tree), list(tree.people))


def human_leg_length() -> float:
    """Leg length [m] of the canonical human, hip joint to floor."""
    positions = HUMAN.rest_positions()
    hip, knee, ankle = (positions[HUMAN.index(f"right_{part}")] for part in ("hip", "knee", "ankle"))
    return float(np.linalg.norm(hip - knee) + np.linalg.norm(knee - ankle) + ankle[1])


HUMAN_LEG_M: Final = human_leg_length()


def _tree_tensors(tree: HierarchicalModel) -> Tensors:
    tensors: Tensors = {"main/mean": to_single(tree.main.mean), "main/lifting": to_single(tree.main.lifting)}
    tensors |= {"main/scales": to_single(tree.main.scales), "main/variances": tree.main.variances}
    tensors["main/shares"] = tree.main.shares
    for name, person in tree.people.items():
        tensors |= _component_tensors(f"person/{name}", person.space)
        for gait, leaf in person.leaves.items():
            key = f"person/{name}/{gait}"
            tensors |= _component_tensors(key, leaf.space)
            tensors[f"{key}/law"] = np.stack([leaf.law.standing, leaf.law.slope, leaf.law.offset])
            tensors[f"{key}/slowest"] = np.array([leaf.law.slowest, leaf.law.power])
    return tensors


def _component_tensors(key: str, space: Components) -> Tensors:
    return {
        f"{key}/mean": space.mean,
        f"{key}/directions": space.directions,
        f"{key}/variances": space.variances,
        f"{key}/shares": space.shares,
    }


def _read_tree(tensors: Mapping[str, NDArray[Any]], people: list[str]) -> HierarchicalModel:
    scales = _to_double(tensors["main/scales"])
    lifting = _to_double(tensors["main/lifting"])
    main = Components(
        _to_double(tensors["main/mean"]),
        lifting.T * scales[:, None],
        scales,
        _to_double(tensors["main/variances"]),
        _to_double(tensors["main/shares"]),
    )
    return HierarchicalModel(main, {name: _read_person(tensors, f"person/{name}") for name in people})


def _read_person(tensors: Mapping[str, NDArray[Any]], key: str) -> Person:
    leaves = {gait: _read_leaf(tensors, f"{key}/{gait}") for gait in GAITS if f"{key}/{gait}/law" in tensors}
    return Person(_read_components(tensors, key), leaves)


def _read_leaf(tensors: Mapping[str, NDArray[Any]], key: str) -> Leaf:
    standing, slope, offset = _to_double(tensors[f"{key}/law"])
    slowest, power = _to_double(tensors[f"{key}/slowest"]).tolist()
    return Leaf(_read_components(tensors, key), SpeedLaw(standing, slope, offset, slowest, power))


def _read_components(tensors: Mapping[str, NDArray[Any]], key: str) -> Components:
    mean, directions, variances, shares = (
        _to_double(tensors[f"{key}/{part}"]) for part in ("mean", "directions", "variances", "shares")
    )
    return Components(mean, directions, np.ones(len(mean)), variances, shares)


def _to_double(array: NDArray[Any]) -> FloatArray:
    out = np.asarray(array, dtype=np.float64)
    if not np.isfinite(out).all():
        raise InputError("a tensor holds a number that is not finite")
    out.setflags(write=False)
    return out


def _read_locomotion_model(tensors: Tensors, facts: Mapping[str, Any]) -> LocomotionModel:
    styles = tuple(str(name) for name in facts["styles"])
    scale = float(tensors["scale"][0])
    skeleton, leg_m = HUMAN if scale == 1.0 else HUMAN.scaled(scale), HUMAN_LEG_M * scale
    tree = _read_tree(tensors, list(styles))
    named = ("standing", "means", "limits", "heights", "events", "rest_heights")
    standing, means, limits, heights, events, rest = (_to_double(tensors[name]) for name in named)
    gaits = expand_gait_arrays(tree, standing, means, limits, num_frames=int(facts["num_frames"]), heights=heights)
    found = {name: _to_double(tensors[f"{TIMING_PREFIX}{name}"]) for name in TIMINGS}
    gaits = gaits._replace(events=events, frequency=found["stance"])
    return LocomotionModel(
        skeleton,
        leg_m,
        styles,
        {str(name): float(weight) for name, weight in facts["default_style"].items()},
        gaits,
        tree,
        rest,
        found,
        np.asarray(tensors["lent"], dtype=np.bool_),
        heights,
        _read_jumps(tensors, facts),
        cast(Mapping[str, Any], facts["info"]),
    )


def _read_jumps(tensors: Tensors, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Jump models by kind; none in a file without them."""
    found: dict[str, Any] = {}
    for kind in facts["jumps"]:
        start = f"{JUMP_PREFIX}{kind}/"
        arrays = {name.removeprefix(start): array for name, array in tensors.items() if name.startswith(start)}
        found[str(kind)] = JumpModel.from_arrays(arrays)
    return found
