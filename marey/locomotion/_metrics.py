"""How far synthesised cycles are from captured ones ([Glardon2005]_ §III.1.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.lie import SO3
from marey.locomotion._units import MotionUnit, joint_means, rotations_from_rows, unit_rows
from marey.skeleton import HUMAN

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


def widest_spread(units: Sequence[MotionUnit], width_mps: float = BIN_MPS) -> float:
    """Largest distance [rad²] between two units of a person at equal speed."""
    return max(cell.spread for cell in group_by_speed(units, width_mps))


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
        return [self.error(predict(float(self.speeds[i])), i) for i in left_out]

    def error(self, row: FloatArray, number: int) -> float:
        """Distance [rad²] of a unit from a row ``(p,)``."""
        unit = self.units[number]
        return motion_distance(unit.wxyz, rotations_from_rows(row.reshape(unit.num_frames, -1), self.means))


def leave_unit_out(group: UnitGroup, fit: RowFit) -> list[float]:
    """Distance [rad²] of every unit from a fit that has not seen it."""
    return [error for i in range(len(group.units)) for error in group.errors(fit, [i])]


def leave_speed_out(group: UnitGroup, fit: RowFit, width_mps: float = 1.0 / 3.6) -> tuple[list[float], list[float]]:
    """Distances [rad²] of the units of each bin of speed from a fit without that bin: inner bins, outermost bins."""
    numbers = [int(unit.speed_mps / width_mps) for unit in group.units]
    inner: list[float] = []
    outer: list[float] = []
    for number in sorted(set(numbers)):
        rows = [i for i, n in enumerate(numbers) if n == number]
        if len(rows) > len(numbers) - 2:
            continue
        (outer if number in (min(numbers), max(numbers)) else inner).extend(group.errors(fit, rows))
    return inner, outer
