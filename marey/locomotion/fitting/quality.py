"""Quality of a model against trials it has not seen ([Glardon2005]_ §III.1.5).

Distances between synthesised and captured cycles, the report on gaits that were left out of the fit, and plots of a
fit: scores of captured cycles and the law through them, jump lengths asked for and made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, InputError, save_figure
from marey.lie import SO3
from marey.locomotion.fitting.fit import SharedSpeedLaw, fit_shared_speed_law, flatten_units, prior_rows
from marey.locomotion.fitting.trials import ClipSource, Manifest, Progress, capture_units
from marey.locomotion.model.locomotion_model import GAITS, LocomotionModel
from marey.locomotion.units.gait_unit import MotionUnit, joint_means, rotations_from_rows, unit_rows
from marey.locomotion.units.jump_unit import JUMP_LEG_M
from marey.models import principal_components
from marey.skeleton import HUMAN

POINT, LINE, LENT = "#2d5d8c", "#d08232", "#9fb6cd"  # captured, the law, the law of a gait that was lent
NUM_POINTS: Final = 60  # of a curve
NUM_LENGTHS: Final = 12
DPI: Final = 110

COMPARED_JOINTS: Final = tuple(
    f"{side}_{part}" for part in ("shoulder", "elbow", "hip", "knee", "ankle") for side in ("left", "right")
)
"""The ten joints that the distances of the thesis look at."""

BIN_MPS: Final = 0.5 / 3.6  # [m/s] cycles of one person within half a kilometre an hour count as equally fast

Synthesis = Callable[[MotionUnit], FloatArray]  # rotations (N, J, 4) wxyz that stand in for a unit
RowPrediction = Callable[[float], FloatArray]  # row (p,) at a normalised speed [1/s]
RowFit = Callable[[FloatArray, FloatArray], RowPrediction]  # of rows (n, p) at speeds (n,)


def distance_matrix(a: FloatArray, b: FloatArray) -> FloatArray:
    r"""Squared angles ``(10, N)`` [rad²] between two units ``(N, J, 4)``, joint by joint and frame by frame.

    .. math:: d_{rot} = \|\log(q_1 q_2^{-1})\|^2
    """
    if a.shape != b.shape:
        raise InputError(f"units of shapes {a.shape} and {b.shape}", "Compare units of as many frames and joints")
    joints = [HUMAN.index(name) for name in COMPARED_JOINTS]
    return ((SO3(a[:, joints]) @ SO3(b[:, joints]).inverse()).angle() ** 2).T


def motion_distance(a: FloatArray, b: FloatArray) -> float:
    """Mean of :func:`distance_matrix` over joints and frames [rad²]; the print calls both counts N."""
    return float(distance_matrix(a, b).mean())


def rms_degrees(distances: Iterable[float]) -> float:
    """Root of mean distances [rad²] as degrees."""
    return float(np.rad2deg(np.sqrt(np.mean(list(distances)))))


@dataclass(frozen=True, slots=True)
class SpeedCell:
    """Units of one person in one gait at one speed."""

    subject: str
    gait: str
    speed_mps: float  # middle of the bin
    units: tuple[MotionUnit, ...]

    @property
    def spread(self) -> float:
        """Largest distance [rad²] between two of them; zero for one alone."""
        pairs = [(a, b) for i, a in enumerate(self.units) for b in self.units[:i]]
        return max((motion_distance(a.wxyz, b.wxyz) for a, b in pairs), default=0.0)


def group_by_speed(units: Sequence[MotionUnit], width_mps: float = BIN_MPS) -> list[SpeedCell]:
    """Sort units by person, gait and speed."""
    bins: dict[tuple[str, str, int], list[MotionUnit]] = {}
    for unit in units:
        bins.setdefault((unit.subject, unit.gait, int(unit.speed_mps / width_mps)), []).append(unit)
    return [SpeedCell(s, g, (i + 0.5) * width_mps, tuple(found)) for (s, g, i), found in sorted(bins.items())]


def synthesis_errors(synthesis: Synthesis, units: Sequence[MotionUnit]) -> list[float]:
    """Distance [rad²] of every unit from what stands in for it."""
    return [motion_distance(unit.wxyz, synthesis(unit)) for unit in units]


@dataclass(frozen=True, slots=True, eq=False)
class UnitGroup:
    """Units of one person and gait as rows of numbers, to be left out one by one or speed by speed."""

    units: tuple[MotionUnit, ...]
    means: FloatArray  # (J, 4)
    table: FloatArray  # (n, p)
    speeds: FloatArray  # (n,) [1/s]

    @classmethod
    def from_units(cls, units: Sequence[MotionUnit], means: FloatArray | None = None) -> UnitGroup:
        """Gather units; rows are relative to ``means``, or to the units' own."""
        middle = joint_means(np.concatenate([unit.wxyz for unit in units])) if means is None else means
        rows = np.stack([unit_rows(unit.root, unit.wxyz, middle).ravel() for unit in units])
        return cls(tuple(units), middle, rows, np.array([unit.speed_n for unit in units]))

    def errors(self, fit: RowFit, left_out: Sequence[int]) -> list[float]:
        """Distances [rad²] of some units from a fit of all others."""
        seen = [i for i in range(len(self.units)) if i not in set(left_out)]
        predict = fit(self.table[seen], self.speeds[seen])
        found: list[float] = []
        for i in left_out:
            rows = predict(float(self.speeds[i])).reshape(self.units[i].num_frames, -1)
            found.append(motion_distance(self.units[i].wxyz, rotations_from_rows(rows, self.means)))
        return found


def leave_unit_out(group: UnitGroup, fit: RowFit) -> list[float]:
    """Distance [rad²] of every unit from a fit that has not seen it."""
    return [error for i in range(len(group.units)) for error in group.errors(fit, [i])]


def make_pooled_fit(line: SharedSpeedLaw) -> RowFit:
    """What the shipped model does: a person's own line, with two units on the common slope beside the captured ones."""

    def fit(table: FloatArray, speeds: FloatArray) -> RowPrediction:
        lent, at = prior_rows(table, speeds, line)
        rows, every = np.concatenate([table, lent]), np.concatenate([speeds, at])
        middle = every - every.mean()
        slope = middle @ rows / (middle @ middle)
        centre, speed = rows.mean(axis=0), float(every.mean())
        return lambda s: centre + (s - speed) * slope

    return fit


def make_model_synthesis(model: LocomotionModel) -> Synthesis:
    """The cycle of a trained model, in the unit's own style and gait and at its speed."""

    def synthesis(unit: MotionUnit) -> FloatArray:
        run = float(unit.gait == "run")
        return rotations_from_rows(model.gaits.row(unit.speed_n, run, model.weights(unit.subject)), model.gaits.means)

    return synthesis


MIN_GROUP: Final = 6  # units of a person and gait that are worth leaving out one by one


@dataclass(frozen=True, slots=True)
class CellError:
    """One person in one gait at one speed, in trials that were not in the fit."""

    subject: str
    gait: str
    speed_mps: float
    num_units: int
    rms_deg: float  # of ten joints, over the cycle
    spread_deg: float  # largest between two captured cycles of this cell; zero for one alone


@dataclass(frozen=True, slots=True)
class GroupError:
    """One person in one gait."""

    subject: str
    gait: str
    num_train: int
    num_test: int
    train_rms_deg: float
    test_rms_deg: float | None  # None where nothing was held out
    left_out_rms_deg: float | None  # every unit against a fit of the others; None for few
    left_out_ratio: float | None  # mean of those distances over the widest spread at equal speed


@dataclass(frozen=True, slots=True)
class QualityReport:
    """Errors by person and speed on held-out trials, and how many components how many people need."""

    cells: tuple[CellError, ...]
    groups: tuple[GroupError, ...]
    components: Mapping[int, int]  # number of people to main components for 95 %
    num_train: int
    num_test: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    def text(self) -> str:
        """A table to read."""
        head = f"{'style':8}{'gait':6}{'train':>6}{'test':>6}{'seen':>8}{'unseen':>8}{'left out':>10}{'/ spread':>10}"
        rows = [head]
        for group in self.groups:
            numbers = zip((group.train_rms_deg, group.test_rms_deg, group.left_out_rms_deg), (8, 8, 10), strict=True)
            shown = "".join(f"{'-' if n is None else f'{n:.1f}°':>{width}}" for n, width in numbers)
            ratio = "-" if group.left_out_ratio is None else f"{group.left_out_ratio:.2f}"
            rows.append(f"{group.subject:8}{group.gait:6}{group.num_train:>6}{group.num_test:>6}{shown}{ratio:>10}")
        return "\n".join(rows)


def report_quality(
    model: LocomotionModel, train: Sequence[MotionUnit], test: Sequence[MotionUnit], *, leave_out: bool = True
) -> QualityReport:
    """Compare synthesised cycles with captured ones: in the fit, held out, and left out one by one.

    Args:
        model: fitted on ``train``.
        train: units of the fit.
        test: units of trials that the fit has not seen.
        leave_out: also leave every unit out in turn, which takes some seconds.
    """
    keys = sorted(dict.fromkeys((unit.subject, unit.gait) for unit in train))
    groups = tuple(_measure_group(model, key, train, test, leave_out) for key in keys)
    return QualityReport(measure_held_out_cells(model, test), groups, count_components(train), len(train), len(test))


def report_held_out(
    model: LocomotionModel, source: ClipSource, plan: Manifest, *, report: Progress | None = None
) -> QualityReport:
    """As :func:`report_quality`, from the clips of a manifest."""
    frames = model.gaits.base.shape[2]
    train = capture_units(source, plan, "train", report=report, num_frames=frames)
    test = capture_units(source, plan, "test", report=report, num_frames=frames)
    return report_quality(model, train.units, test.units)


def measure_held_out_cells(model: LocomotionModel, test: Sequence[MotionUnit]) -> tuple[CellError, ...]:
    """Errors by person, gait and speed."""
    synthesis = make_model_synthesis(model)
    found: list[CellError] = []
    for cell in group_by_speed(test):
        rms = rms_degrees(synthesis_errors(synthesis, cell.units))
        spread = rms_degrees([cell.spread])
        found.append(CellError(cell.subject, cell.gait, cell.speed_mps, len(cell.units), rms, spread))
    return tuple(found)


def count_components(units: Sequence[MotionUnit], explained: float = 0.95) -> dict[int, int]:
    """Main components that a share of the variance needs, for one person, two, and so on (F16 of the thesis)."""
    means = joint_means(np.concatenate([unit.wxyz for unit in units]))
    table = flatten_units(units, means)
    people = tuple(dict.fromkeys(table.subjects))
    scores = principal_components(table.table, explained=1.0).scores(table.table)  # the same distances, fewer columns
    counts: dict[int, int] = {}
    for number in range(1, len(people) + 1):
        rows = [i for i, subject in enumerate(table.subjects) if subject in people[:number]]
        counts[number] = principal_components(scores[rows], explained=explained).count
    return counts


def _measure_group(
    model: LocomotionModel,
    key: tuple[str, str],
    train: Sequence[MotionUnit],
    test: Sequence[MotionUnit],
    leave_out: bool,
) -> GroupError:
    synthesis = make_model_synthesis(model)
    seen, unseen = ([unit for unit in units if (unit.subject, unit.gait) == key] for units in (train, test))
    both = [*train, *test]
    left: list[float] = []
    if leave_out and len(seen) + len(unseen) >= MIN_GROUP:
        # Every unit from a fit of the person's others, on the slope of everybody else
        others = [unit for unit in both if unit.gait == key[1] and unit.subject != key[0]]
        line = fit_shared_speed_law(flatten_units(others, model.gaits.means), key[1])
        own = [unit for unit in both if (unit.subject, unit.gait) == key]
        left = leave_unit_out(UnitGroup.from_units(own, model.gaits.means), make_pooled_fit(line))
    # The largest distance between two units of the person at equal speed
    spread = max(cell.spread for cell in group_by_speed([*seen, *unseen])) if left else 0.0
    return GroupError(
        *key,
        len(seen),
        len(unseen),
        rms_degrees(synthesis_errors(synthesis, seen)),
        rms_degrees(synthesis_errors(synthesis, unseen)) if unseen else None,
        rms_degrees(left) if left else None,
        float(np.mean(left) / spread) if left and spread > 0.0 else None,
    )


def plot_speed_laws(
    model: LocomotionModel,
    source: ClipSource,
    plan: Manifest,
    folder: str | os.PathLike[str],
    *,
    report: Progress | None = None,
) -> list[str]:
    """Draw the leaves of a model, as in App. C of [Glardon2005]_, and the lengths of its jumps; the files written.

    Each person has one picture: the first two scores of each gait by speed, captured cycles as points and the law as a
    line. ``jumps.png`` has the measured length of jumps against the requested one, with and without calibration.

    Args:
        model: fitted on the clips of ``plan``.
        source: of the clips.
        plan: the manifest of the fit.
        folder: where to write; it is made.
        report: called after each clip.
    """
    from matplotlib.figure import Figure

    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    units = capture_units(source, plan, "train", report=report, num_frames=model.gaits.base.shape[2]).units
    table = flatten_units(units, model.gaits.means)
    scale = model.leg_length_m  # [m] from a normalised speed to that of the model's own legs
    files: list[str] = []

    def save(figure: Any, name: str) -> None:
        file = target / f"{re.sub(r'[^0-9A-Za-z._-]+', '-', name)}.png"
        figure.tight_layout()
        save_figure(figure, file, dpi=DPI)
        files.append(str(file))

    for k, (name, person) in enumerate(model.tree.people.items()):
        figure = Figure(figsize=(9.0, 5.0))
        grid: Any = figure.subplots(2, len(GAITS), squeeze=False)
        for t, gait in enumerate(GAITS):
            leaf, rows = person.leaves[gait], table.rows_of(name, gait)
            speeds = np.linspace(0.0, float(model.gaits.limits[t]), NUM_POINTS)
            law = leaf.law(speeds)
            found = leaf.space.scores(person.space.scores(model.tree.main.scores(table.table[rows])))
            for c in (0, 1):
                axis: Any = grid[c, t]
                if c < law.shape[1]:
                    axis.plot(scale * speeds, law[:, c], color=LENT if model.lent[k, t] else LINE)
                    axis.plot(scale * table.speeds[rows], found[:, c], "o", color=POINT, markersize=4)
                axis.set_ylabel(f"score {c + 1}")
                axis.set_xlabel("speed [m/s], leg of the model")
            grid[0, t].set_title(f"{name}: {gait}, {'lent' if model.lent[k, t] else f'{len(rows)} cycles'}")
        save(figure, name)
    if model.jumps:
        figure = Figure(figsize=(4.0 * len(model.jumps), 4.0))
        axes: Any = figure.subplots(1, len(model.jumps), squeeze=False)[0]
        for number, (kind, jump) in enumerate(model.jumps.items()):
            chart: Any = axes[number]
            lengths = np.linspace(float(jump.limits[0]), float(jump.limits[1]), NUM_LENGTHS)
            for is_calibrated, colour, label in ((False, LENT, "plain law"), (True, LINE, "calibrated")):
                made = [jump.unit(float(n), calibrated=is_calibrated).length_m for n in lengths]
                chart.plot(JUMP_LEG_M * lengths, made, "o-", color=colour, markersize=3, label=label)
            chart.axvspan(*(JUMP_LEG_M * jump.captured), color="#eeeeee", label="captured")
            chart.plot(JUMP_LEG_M * lengths, JUMP_LEG_M * lengths, ":", color="black", linewidth=1.0)
            chart.set(title=f"{kind} jumps", xlabel="requested [m]", ylabel="obtained [m]")
            chart.legend()
        save(figure, "jumps")
    return files
