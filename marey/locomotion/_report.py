"""How good a model is, against trials it has not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from marey.base import FloatArray
from marey.locomotion._fit_capture import ClipSource, Progress, capture_units
from marey.locomotion._fit_tree import flatten_units
from marey.locomotion._manifest import Manifest
from marey.locomotion._metrics import (
    UnitGroup,
    group_by_speed,
    leave_unit_out,
    rms_degrees,
    synthesis_errors,
    widest_spread,
)
from marey.locomotion._metrics_fits import make_model_synthesis, make_pooled_fit
from marey.locomotion._model import LocomotionModel
from marey.locomotion._units import MotionUnit, joint_means
from marey.locomotion._units_lent import fit_shared_speed_law
from marey.models import principal_components

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
        return "\n".join([head, *(_format_group(group) for group in self.groups)])


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
    """As :func:`quality_report`, from the clips of a manifest."""
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


def measure_left_out_errors(units: Sequence[MotionUnit], key: tuple[str, str], means: FloatArray) -> list[float]:
    """Distances [rad²] of the units of a person and gait, each from a fit of the others and of everybody else."""
    own = [unit for unit in units if (unit.subject, unit.gait) == key]
    others = [unit for unit in units if unit.gait == key[1] and unit.subject != key[0]]
    line = fit_shared_speed_law(flatten_units(others, means), key[1])
    return leave_unit_out(UnitGroup.from_units(own, means), make_pooled_fit(line))


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
    left = (
        measure_left_out_errors(both, key, model.gaits.means)
        if leave_out and len(seen) + len(unseen) >= MIN_GROUP
        else []
    )
    spread = widest_spread([*seen, *unseen]) if left else 0.0
    return GroupError(
        *key,
        len(seen),
        len(unseen),
        rms_degrees(synthesis_errors(synthesis, seen)),
        rms_degrees(synthesis_errors(synthesis, unseen)) if unseen else None,
        rms_degrees(left) if left else None,
        float(np.mean(left) / spread) if left and spread > 0.0 else None,
    )


def _format_group(group: GroupError) -> str:
    numbers = (group.train_rms_deg, group.test_rms_deg, group.left_out_rms_deg)
    shown = "".join(f"{'-' if n is None else f'{n:.1f}°':>{w}}" for n, w in zip(numbers, (8, 8, 10), strict=True))
    ratio = "-" if group.left_out_ratio is None else f"{group.left_out_ratio:.2f}"
    return f"{group.subject:8}{group.gait:6}{group.num_train:>6}{group.num_test:>6}{shown}{ratio:>10}"
