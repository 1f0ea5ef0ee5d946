"""The validity report: green, amber and red intervals of a clip, with causes as text and as curves."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import BoolArray, FloatArray, Result
from marey.dynamics.bodies import GRAVITY
from marey.dynamics.inverse.newton_euler import InverseDynamics
from marey.dynamics.inverse.support_split import SupportSplit
from marey.dynamics.supports import LIMBS, Supports, any_in_row
from marey.motion import find_runs
from marey.numerics import convex_hull

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from marey.dynamics.validation.measured import ReactionComparison


COLOURS: Final = ("green", "amber", "red")
CAUSES: Final = (
    "slip", "tipping", "pull", "hover", "momentum", "slide", "penetration", "limits", "haste",
    "gravity", "jump", "skate", "float", "flip", "backwards",
)  # fmt: skip
WORDS: Final = {
    "slip": "the feet would slip: the motion needs more tangential force or twist than friction allows",
    "tipping": "the body would tip over: the ground would have to push beside the feet",
    "pull": "the ground would have to pull: the body comes down faster than it falls",
    "hover": "something must carry the body, and nothing that touches can",
    "momentum": "the body turns in the air against its angular momentum",
    "slide": "a planted foot slides",
    "penetration": "a foot is below the floor",
    "limits": "a joint is outside its limits",
    "haste": "on one foot the body moves harder than gravity tips it: the clip seems to play too fast",
    "gravity": "in the air the body falls slower or faster than gravity pulls it: the clip has another speed",
    "jump": "the whole body jumps within a frame",
    "skate": "a foot slides where it should stand",
    "float": "the feet rest above or below the floor",
    "flip": "a joint or the plane of a limb flips within a frame",
    "backwards": "a knee or elbow bends backwards",
}
MEASURES: Final = ("violation", "lack", "friction_margin", "balance_margin", "momentum_drift", "slide_mm")
CURVES: Final = (*MEASURES, "penetration_mm", "limit_rad", "haste", "wrench", "available", "centre_of_pressure")
KINEMATIC: Final = ("slide", "penetration", "limits", "haste", "jump", "skate", "float", "flip", "backwards")
GEOMETRIC: Final = ("gravity", "jump", "skate", "float", "flip", "backwards")  # what the meter sees
VALID_CLIP: Final = 0.8  # of the frames are green in a clip that is called valid
RED_CLIP: Final = 0.7  # fewer green frames make a clip without flights red
RED_RUN: Final = 0.2  # ... and one with flights: capture at 6 to 12 Hz blurs the forces of a runner's stance
RED_STRETCH_S: Final = 0.6  # [s] a clip is no better than a red stretch of this length
BRIDGE_S: Final = 0.1  # [s] shorter pauses do not part a red stretch
FLYING_FORCE: Final = 0.5  # [body weights] on average: more than this carries a body
LEAST_FLIGHT_S: Final = 0.03  # [s] a jogger flies as briefly as this
DRAWN_FLIGHT_S: Final = 0.06  # [s] shorter stretches without contact are gaps of the detection
FALL_POINTS: Final = 40  # of a drawn free fall
MERGE_FRAMES: Final = 2  # shorter gaps between two stretches of a colour are closed ([Fang2003]_ F26)

Status = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class ValiditySpan:
    """Frames ``start`` to ``stop`` (not included) of one colour."""

    start: int
    stop: int
    start_s: float
    stop_s: float
    status: str  # one of COLOURS
    causes: tuple[str, ...]  # the commonest first; none when green
    violation: float  # [body weights] the largest within
    words: str  # one sentence

    def __len__(self) -> int:
        return self.stop - self.start

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {name: getattr(self, name) for name in self.__slots__} | {"causes": list(self.causes)}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ValidityReport(Result):
    """Validity of a motion on its contacts, frame by frame; all numbers are finite.

    Wrenches are force [N], then moment about the world origin [N m], in world axes.
    """

    name: str
    times: FloatArray  # (F,) [s]
    levels: Status  # (F,) 0 green, 1 amber, 2 red
    violation: FloatArray  # (F,) [body weights] what counts of what is missing (see ``validity``); green to tolerance
    lack: FloatArray  # (F,) [body weights] size of what is missing at that frame, moments over 1 m
    missing: FloatArray  # (F, 6) [N, N m] wrench that no contact gives at that frame
    cause_flags: BoolArray  # (F, C) by CAUSES; all false in green frames
    available: FloatArray  # (F, 6) nearest wrench that the contacts can give
    friction_margin: FloatArray  # (F,) [body weights] friction left; negative slips
    balance_margin: FloatArray  # (F,) [m] centre of pressure to the edge of the supports; negative is beside them
    momentum_drift: FloatArray  # (F,) [kg m²/s] in flight, off its mean; zero elsewhere
    slide_mm: FloatArray  # (F,) [mm in 0.1 s] of planted feet, lasting
    penetration_mm: FloatArray  # (F,) [mm] of heels and balls below the floor, lasting
    limit_rad: FloatArray  # (F,) [rad] of the joint farthest outside its limits; zero without limits
    haste: FloatArray  # (F,) [-] times as hard as gravity tips it that a body on one foot moves; zero if nothing tells
    centre_of_pressure: FloatArray  # (F, 3) [m] on the floor; under the centre of mass where nothing pushes
    split: SupportSplit  # what each foot and hand gives
    dynamics: InverseDynamics
    supports: Supports
    tolerance: float  # [body weights] of green
    warnings: tuple[str, ...] = ()
    spans: tuple[ValiditySpan, ...] = field(default=())

    @property
    def status(self) -> tuple[str, ...]:
        """Colour of each frame ``(F,)``."""
        return tuple(COLOURS[int(level)] for level in self.levels)

    @property
    def causes(self) -> tuple[tuple[str, ...], ...]:
        """Names of what is wrong in each frame ``(F,)``."""
        return tuple(tuple(CAUSES[int(k)] for k in np.flatnonzero(row)) for row in self.cause_flags)

    @property
    def wrench(self) -> FloatArray:
        """Demanded wrench ``(F, 6)``."""
        return self.dynamics.wrench

    @property
    def num_frames(self) -> int:
        """How many frames there are."""
        return len(self.levels)

    @property
    def valid_fraction(self) -> float:
        """Part of the frames that are green."""
        return float((self.levels == 0).mean())

    @property
    def red_fraction(self) -> float:
        """Part of the frames that are red."""
        return float((self.levels == 2).mean())

    @property
    def colour(self) -> str:
        """Green, amber or red: the clip as a whole, judged by its worst stretch.

        Red is a clip with a red frame that the meter objects to (a fall that is not free, a jump, a skating or floating
        foot, a flip, a limb bent backwards), with a red stretch of ``RED_STRETCH_S``, or with too few green frames.
        Amber is a clip with fewer than ``VALID_CLIP`` of its frames green, or with a short red stretch.
        """
        valid, red = self.valid_fraction, self.levels == 2
        seen = self.cause_flags[:, [CAUSES.index(name) for name in GEOMETRIC]].any(axis=1)
        rate_hz = self.dynamics.rate_hz
        stretches = find_runs(red, int(BRIDGE_S * rate_hz))
        longest_s = max((stop - start for start, stop in stretches), default=0) / rate_hz
        least = RED_RUN if self.has_flights else RED_CLIP
        if (red & seen).any() or longest_s >= RED_STRETCH_S or valid < least:
            return "red"
        return "green" if valid >= VALID_CLIP else "amber"

    @property
    def has_flights(self) -> bool:
        """Whether the body flies: nothing touches for at least ``LEAST_FLIGHT_S``, and it needs little force there."""
        carried = self.dynamics.forces[:, 1] / (self.dynamics.body.mass_kg * GRAVITY)
        flights = find_runs(~any_in_row(self.supports.touching))
        long = [(a, b) for a, b in flights if b - a >= LEAST_FLIGHT_S * self.dynamics.rate_hz]
        return any(carried[start:stop].mean() < FLYING_FORCE for start, stop in long)

    @property
    def worst_span(self) -> ValiditySpan | None:
        """The worst stretch: the longest of the worst colour; nothing in a clip that is green throughout."""
        marked = [span for span in self.spans if span.causes]
        return max(marked, key=lambda span: (COLOURS.index(span.status), len(span)), default=None)

    @property
    def is_valid(self) -> bool:
        """Whether the clip as a whole is green."""
        return self.colour == "green"

    @property
    def cause_counts(self) -> dict[str, int]:
        """Frames with each cause, the commonest first; causes that do not occur are left out."""
        counts = {name: int(count) for name, count in zip(CAUSES, self.cause_flags.sum(axis=0), strict=True)}
        return dict(sorted(((n, c) for n, c in counts.items() if c), key=lambda pair: -pair[1]))

    @property
    def verdict(self) -> str:
        """One sentence."""
        share = f"{100.0 * self.valid_fraction:.0f} % of {self.num_frames} frames are green"
        if not self.cause_counts:
            return f"{self.colour}: {share}; no violations"
        worst = int(np.argmax(np.where(self.levels > 0, self.lack, 0.0)))
        cause = next(iter(self.cause_counts))
        text = (
            f"{self.colour}: {share}; elsewhere mostly {WORDS[cause]}; "
            f"at worst {self.lack[worst]:.2f} body weights are missing, at {self.times[worst]:.2f} s"
        )
        # What decides is said too, where the commonest cause is another one
        seen = [name for name in GEOMETRIC if name in self.cause_counts and name != cause]
        firsts = [float(self.times[int(np.argmax(self.cause_flags[:, CAUSES.index(name)]))]) for name in seen]
        return "; ".join([text, *(f"at {at:.2f} s {WORDS[name]}" for at, name in zip(firsts, seen, strict=True))])

    def to_json(self, *, frames: bool = True) -> dict[str, Any]:
        """Plain values; ``frames`` adds the numbers of each frame."""
        kept = ("name", "num_frames", "tolerance", "colour", "valid_fraction", "red_fraction", "verdict")
        facts: dict[str, Any] = {name: getattr(self, name) for name in kept} | {
            "rate_hz": self.dynamics.rate_hz,
            "mass_kg": self.dynamics.body.mass_kg,
            "height_m": self.dynamics.body.height_m,
            "floor_m": self.supports.floor_m,
            "causes": self.cause_counts,
            "max_violation": float(self.violation.max()),
            "max_lack": float(self.lack.max()),
            "min_friction_margin": float(self.friction_margin.min()),
            "min_balance_margin_m": float(self.balance_margin.min()),
            "max_momentum_drift": float(self.momentum_drift.max()),
            "max_slide_mm": float(self.slide_mm.max()),
            "max_haste": float(self.haste.max()),
            "max_penetration_mm": float(self.penetration_mm.max()),
            "max_limit_rad": float(self.limit_rad.max()),
            "warnings": list(self.warnings),
            "worst": None if self.worst_span is None else self.worst_span.to_json(),
            "spans": [span.to_json() for span in self.spans],
        }
        if not frames:
            return facts
        arrays = {name: getattr(self, name) for name in CURVES} | {"limb_forces": self.split.forces}
        values: dict[str, Any] = {"times": self.times.tolist(), "status": list(self.status), "limbs": list(LIMBS)}
        return facts | {"frames": values | {name: np.round(array, 5).tolist() for name, array in arrays.items()}}

    def table_rows(self) -> list[dict[str, Any]]:
        """One row for each frame: its time, colour, causes, margins and what is missing."""
        frames = self.to_json()["frames"]
        columns = {name: values for name, values in frames.items() if name != "limbs" and np.ndim(values) == 1}
        causes = [" ".join(names) for names in self.causes]
        names = ("time_s", "causes", *list(columns)[1:])
        return [
            dict(zip(names, row, strict=True))
            for row in zip(columns["times"], causes, *list(columns.values())[1:], strict=True)
        ]

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the report, see :func:`plot_report`."""
        return plot_report(self, path)

    def __repr__(self) -> str:
        return f"ValidityReport('{self.name}', {self.verdict})"


def find_spans(
    levels: Status, cause_flags: BoolArray, violation: FloatArray, lack: FloatArray, rate_hz: float
) -> tuple[ValiditySpan, ...]:
    """Stretches of one colour; gaps of fewer than ``MERGE_FRAMES`` frames take the colour around them."""
    merged = merge_gaps(levels)
    edges = [0, *(np.flatnonzero(np.diff(merged)) + 1).tolist(), len(merged)]
    spans: list[ValiditySpan] = []
    for start, stop in pairwise(edges):
        level, words = int(merged[start]), "valid"
        # Causes, the commonest first
        counts = cause_flags[start:stop].sum(axis=0)
        order = [int(k) for k in np.argsort(-counts, kind="stable") if counts[k] > 0] if level > 0 else []
        causes = tuple(CAUSES[k] for k in order)
        if level > 0:
            words = WORDS[causes[0]] if causes else "too little force"
            if not causes or causes[0] not in KINEMATIC:
                words += f" (up to {float(lack[start:stop].max()):.2f} body weights missing)"
        times, worst = (start / rate_hz, stop / rate_hz), float(violation[start:stop].max())
        spans.append(ValiditySpan(start, stop, *times, COLOURS[level], causes, worst, words))
    return tuple(spans)


def merge_gaps(levels: Status) -> Status:
    """Levels ``(F,)`` in which a stretch shorter than ``MERGE_FRAMES`` between two worse ones becomes as the milder."""
    merged = levels.copy()
    edges = [0, *(np.flatnonzero(np.diff(levels)) + 1).tolist(), len(levels)]
    for a, b in pairwise(edges[1:-1]):
        around = min(int(merged[a - 1]), int(levels[b]))
        if b - a < MERGE_FRAMES and around > levels[a]:
            merged[a:b] = around
    return merged


def plot_report(
    report: ValidityReport, path: str | os.PathLike[str] | None = None, *, measured: ReactionComparison | None = None
) -> Figure:
    """Draw a report: the coloured bar, forces, margins and what is missing; see ``marey.picture.plot_physics``."""
    # What to draw of a report, with the forces of force plates if there are any
    from marey.picture import PhysicsCurves, plot_physics

    weight = report.dynamics.body.mass_kg * GRAVITY
    title = f"{report.name} · {report.verdict}"
    return plot_physics(
        PhysicsCurves(
            name=report.name,
            title=title if measured is None else f"{title}\n{measured.sentence}",
            times=report.times,
            spans=tuple((s.start_s, s.stop_s, s.status, s.causes[0] if s.causes else "") for s in report.spans),
            forces=report.wrench[:, :3] / weight,
            left=report.split.forces[:, 0, 1] / weight,
            right=report.split.forces[:, 1, 1] / weight,
            violation=report.violation,
            tolerance=report.tolerance,
            friction_margin=report.friction_margin,
            balance_margin=report.balance_margin,
            flight=~any_in_row(report.supports.touching),
            measured=None if measured is None else measured.measured / weight,
            is_measured=None if measured is None else measured.used,
        ),
        path,
    )


def make_overlay(report: ValidityReport) -> dict[str, FloatArray]:
    """Arrays that a viewport draws over a body, and a timeline plots under it.

    Forces at each limb ``(L, F, 6)`` (place [m], force [N]), centre of mass ``(F, 3)`` [m], hull of what touches
    ``(F, P, 2)`` [m], whose last corner is repeated; first and last frame of flights ``(K, 2)`` and the free falls
    between these ``(K, 40, 3)`` [m]; ground force [body weights], energies (kinetic, potential, total) [J], momenta
    ``(F, 3)``.
    """
    found, supports = report.dynamics, report.supports
    limbs = np.concatenate([report.split.places, report.split.forces], axis=-1)
    energies = (found.kinetic_energy, found.potential_energy, found.kinetic_energy + found.potential_energy)
    air = find_runs(np.asarray(~supports.touching.any(axis=1)))
    flights = [(a - 1, b) for a, b in air if a > 0 and b < report.num_frames and b - a > DRAWN_FLIGHT_S * found.rate_hz]
    share = np.linspace(0.0, 1.0, FALL_POINTS)[:, None]
    falls = [
        found.com[a] + share * (found.com[b] - found.com[a])
        + share * (1.0 - share) * [0.0, 0.5 * GRAVITY * ((b - a) / found.rate_hz) ** 2, 0.0]
        for a, b in flights
    ]  # fmt: skip
    points = supports.points[:, :, [0, 2]]
    last = np.arange(points.shape[1], dtype=np.int64)
    # Where nothing touches, the hull is a point
    hulls = [
        convex_hull(row[down] if down.any() else row[:1]) for row, down in zip(points, supports.touching, strict=True)
    ]
    return {
        "com": found.com, "forces": np.ascontiguousarray(np.swapaxes(limbs, 0, 1)),
        "support": np.array([hull[np.minimum(last, len(hull) - 1)] for hull in hulls]),
        "flights": np.array(flights, dtype=np.float64).reshape(-1, 2),
        "falls": np.array(falls).reshape(-1, FALL_POINTS, 3),
        "ground_force": found.forces / found.body.weight_n, "energy": np.stack(energies, axis=1),
        "momentum": found.linear_momentum, "angular_momentum": found.angular_momentum,
    }  # fmt: skip
