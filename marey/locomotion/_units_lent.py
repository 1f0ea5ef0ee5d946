"""What everybody has in common, lent to those of whom too little was captured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray
from marey.locomotion._model import GAITS

MIN_UNITS = 3  # of one gait of one person; fewer count as none for the common line


@dataclass(frozen=True, slots=True, eq=False)
class UnitTable:
    """Rows of units with who did what how fast; the input of the hierarchical model."""

    table: FloatArray  # (n, p)
    subjects: tuple[str, ...]
    gaits: tuple[str, ...]
    speeds: FloatArray  # (n,) [1/s]

    def rows_of(self, subject: str, gait: str) -> list[int]:
        """Rows of one gait of one subject."""
        return [i for i, (s, g) in enumerate(zip(self.subjects, self.gaits, strict=True)) if (s, g) == (subject, gait)]

    def joined(self, others: Sequence[UnitTable]) -> UnitTable:
        """Tables one below the other."""
        parts = [self, *others]
        return UnitTable(
            np.concatenate([part.table for part in parts]),
            tuple(s for part in parts for s in part.subjects),
            tuple(g for part in parts for g in part.gaits),
            np.concatenate([part.speeds for part in parts]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class CommonLine:
    """How everybody changes with speed in one gait: shared slope, and the range that was captured."""

    slope: FloatArray  # (p,) [s]
    mean: FloatArray  # (p,) mean of the persons at `speed`
    speed: float  # [1/s]
    slowest: float  # [1/s]
    fastest: float  # [1/s]

    def at(self, speed: float) -> FloatArray:
        """Row ``(p,)`` at a normalised speed [1/s]."""
        return self.mean + (speed - self.speed) * self.slope


def common_line(units: UnitTable, gait: str) -> CommonLine:
    r"""Fit one slope to all persons, each with an offset of their own.

    .. math:: a = \frac{\sum_k \sum_{i \in k} (s_i - \bar s_k)(\theta_i - \bar\theta_k)}
                       {\sum_k \sum_{i \in k} (s_i - \bar s_k)^2}
    """
    people = [s for s in dict.fromkeys(units.subjects) if units.rows_of(s, gait)]
    top, bottom = np.zeros(units.table.shape[1]), 0.0
    centres: list[tuple[FloatArray, float]] = []
    for person in people:
        rows = units.rows_of(person, gait)
        speeds, table = units.speeds[rows], units.table[rows]
        top += (speeds - speeds.mean()) @ (table - table.mean(axis=0))
        bottom += float(np.square(speeds - speeds.mean()).sum())
        centres.append((table.mean(axis=0), float(speeds.mean())))
    slope = top / bottom if bottom > 0.0 else top
    speed = float(np.mean([s for _, s in centres]))
    mean = np.mean([row + (speed - s) * slope for row, s in centres], axis=0)
    every = units.speeds[[i for i, g in enumerate(units.gaits) if g == gait]]
    slowest, fastest = np.percentile(every, [2.0, 98.0])
    return CommonLine(slope, mean, speed, float(slowest), float(fastest))


def lent_units(units: UnitTable, lines: dict[str, CommonLine], posture: FloatArray) -> list[UnitTable]:
    """Units that stand in for what was not captured.

    A person with a gait gets two units on the common slope through the person's mean, at the slowest speed that
    anybody showed and as far above the mean: they weigh as two captures, so a wide range of own speeds decides and a
    narrow one yields. A person without a gait gets the common gait, moved by ``posture @`` the offset of the other.

    Args:
        units: captured units, without standing.
        lines: common line by gait.
        posture: ``(p,)`` 1 for columns whose mean over the cycle belongs to a person's posture, else 0.
    """
    lent: list[UnitTable] = []
    for person in dict.fromkeys(units.subjects):
        for gait in GAITS:
            if gait not in lines:
                continue
            rows = units.rows_of(person, gait)
            line = lines[gait]
            if rows:
                lent.append(_prior(units.table[rows], units.speeds[rows], line, person, gait))
            else:
                lent.append(_borrowed(units, lines, posture, person, gait))
    return lent


def _prior(table: FloatArray, speeds: FloatArray, line: CommonLine, person: str, gait: str) -> UnitTable:
    centre, speed = table.mean(axis=0), float(speeds.mean())
    reach = max(speed - line.slowest, 0.25 * (line.fastest - line.slowest))
    at = np.array([speed - reach, speed + reach])
    return UnitTable(centre + (at - speed)[:, None] * line.slope, (person,) * 2, (gait,) * 2, at)


def _borrowed(units: UnitTable, lines: dict[str, CommonLine], posture: FloatArray, person: str, gait: str) -> UnitTable:
    other = GAITS[1 - GAITS.index(gait)]
    rows = units.rows_of(person, other)
    offset = units.table[rows].mean(axis=0) - lines[other].at(float(units.speeds[rows].mean()))
    mean_offset = cycle_mean(offset, posture)
    line = lines[gait]
    at = np.linspace(line.slowest, line.fastest, 4)
    table = np.stack([line.at(float(s)) for s in at]) + mean_offset
    return UnitTable(table, (person,) * 4, (gait,) * 4, at)


def cycle_mean(row: FloatArray, posture: FloatArray) -> FloatArray:
    """Mean over the frames of a unit's row ``(N * D,)``, repeated, in the columns ``posture`` ``(D,)`` alone."""
    frames = row.reshape(-1, len(posture))
    return np.tile(frames.mean(axis=0) * posture, len(frames))
