"""The hierarchical components of units, with a shared speed law as prior.

What all subjects have in common is lent to those of whom too little was captured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.locomotion.model.locomotion_model import GAITS
from marey.locomotion.units.gait_unit import MotionUnit, unit_rows
from marey.models import Components, HierarchicalModel, HierarchicalPCA, MotionUnits, principal_components
from marey.skeleton import HUMAN

NUM_SUFFICIENT_UNITS: Final = 8  # captures of a person and gait that need no more than two lent ones
SLOW_RUN: Final = 0.5  # [-] of the slowest captured run
PERSON_VARIANCE_RATIO: Final = 1.0  # [-] variance between persons over that of one person at one speed


def concatenate_units(parts: Sequence[MotionUnits]) -> MotionUnits:
    """Tables of units one below the other."""
    return MotionUnits(
        np.concatenate([part.table for part in parts]),
        tuple(s for part in parts for s in part.subjects),
        tuple(g for part in parts for g in part.gaits),
        np.concatenate([part.speeds for part in parts]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SharedSpeedLaw:
    """How everybody changes with speed in one gait: shared slope, and the range that was captured."""

    slope: FloatArray  # (p,) [s]
    mean: FloatArray  # (p,) of everybody at `speed`
    speed: float  # [1/s]
    slowest: float  # [1/s]
    fastest: float  # [1/s]

    def at(self, speed: float) -> FloatArray:
        """Row ``(p,)`` at a normalised speed [1/s]."""
        return self.mean + (speed - self.speed) * self.slope


def fit_shared_speed_law(units: MotionUnits, gait: str) -> SharedSpeedLaw:
    r"""Fit one slope to everybody, each person with an offset that is random.

    .. math:: \theta_i - \lambda_k\bar\theta_k = (1 - \lambda_k)\,b + a\,(s_i - \lambda_k\bar s_k) + \epsilon_i, \qquad
              \lambda_k = 1 - (1 + n_k\,\rho)^{-1/2}

    with :math:`\rho` the variance between persons over that within one: the random-effects estimator, which weighs how
    persons change against how they differ. All slopes within persons alone (:math:`\rho\to\infty`) are too flat where
    everybody was captured in a narrow range of speeds.
    """
    people = [s for s in dict.fromkeys(units.subjects) if units.rows_of(s, gait)]
    design: list[FloatArray] = []
    values: list[FloatArray] = []
    for person in people:
        rows = units.rows_of(person, gait)
        speeds, table = units.speeds[rows], units.table[rows]
        part = 1.0 - 1.0 / np.sqrt(1.0 + len(rows) * PERSON_VARIANCE_RATIO)
        design.append(np.stack([np.full(len(rows), 1.0 - part), speeds - part * speeds.mean()], axis=1))
        values.append(table - part * table.mean(axis=0))
    solved = np.linalg.lstsq(np.concatenate(design), np.concatenate(values), rcond=None)[0]
    every = units.speeds[[i for i, g in enumerate(units.gaits) if g == gait]]
    slowest, fastest = np.percentile(every, [2.0, 98.0])
    speed = float(every.mean())
    return SharedSpeedLaw(solved[1], solved[0] + speed * solved[1], speed, float(slowest), float(fastest))


def prior_units(
    units: MotionUnits, lines: dict[str, SharedSpeedLaw], standing: dict[str, FloatArray], posture: FloatArray
) -> list[MotionUnits]:
    """Units that stand in for what was not captured.

    A person with a gait gets two units on the common slope through the person's mean, at the slowest speed that
    anybody showed and as far above the mean (more of them for fewer than eight captures): they weigh as two captures,
    so a wide range of own speeds decides and a narrow one yields. A person without a gait gets the common gait, moved
    by the mean posture of the other gait. Runs slower than anybody showed shrink towards standing in proportion to
    speed: people then keep their cadence.

    Args:
        units: captured units, without standing.
        lines: common line by gait.
        standing: row ``(p,)`` of each person at rest.
        posture: ``(D,)`` 1 for columns whose mean over the cycle belongs to a person's posture, else 0.
    """
    lent: list[MotionUnits] = []
    for person in dict.fromkeys(units.subjects):
        for gait, line in lines.items():
            rows = units.rows_of(person, gait)
            if rows:
                pair, speeds = prior_rows(units.table[rows], units.speeds[rows], line)
                copies = max(1, (NUM_SUFFICIENT_UNITS - len(rows) + 1) // 2)
                table, at = np.tile(pair, (copies, 1)), np.tile(speeds, copies)
            else:
                # The common gait, moved by how the person's posture in the other gait differs from the common one
                other = GAITS[1 - GAITS.index(gait)]
                own = units.rows_of(person, other)
                offset = units.table[own].mean(axis=0) - lines[other].at(float(units.speeds[own].mean()))
                at = np.linspace(line.slowest, line.fastest, 4)
                table = np.stack([line.at(float(s)) for s in at]) + cycle_mean(offset, posture)
            lent.append(MotionUnits(table, (person,) * len(at), (gait,) * len(at), at))
            if gait == "run":
                # A run at a part of the slowest speed: that part of the way from standing to the slowest run
                slope = (table[-1] - table[0]) / (at[-1] - at[0])
                slowest = table[0] + (line.slowest - at[0]) * slope
                slow = standing[person] + SLOW_RUN * (slowest - standing[person])
                lent.append(MotionUnits(slow[None], (person,), (gait,), np.array([SLOW_RUN * line.slowest])))
    return lent


def prior_rows(table: FloatArray, speeds: FloatArray, line: SharedSpeedLaw) -> tuple[FloatArray, FloatArray]:
    """Two rows ``(2, p)`` on the common slope through a person's mean, and their speeds ``(2,)``."""
    centre, speed = table.mean(axis=0), float(speeds.mean())
    reach = max(speed - line.slowest, 0.25 * (line.fastest - line.slowest))
    at = np.array([speed - reach, speed + reach])
    return centre + (at - speed)[:, None] * line.slope, at


def cycle_mean(row: FloatArray, posture: FloatArray) -> FloatArray:
    """Mean over the frames of a unit's row ``(N * D,)``, repeated, in the columns ``posture`` ``(D,)`` alone."""
    frames = row.reshape(-1, len(posture))
    return np.tile(frames.mean(axis=0) * posture, len(frames))


EXPLAINED: Final = (0.98, 0.999)  # of the main level (the thesis: 0.95); of the levels below, which cost little
NOISY_JOINTS: Final = ("neck", "head", "left_wrist", "right_wrist", "left_foot", "right_foot")
NOISY_JOINT_WEIGHT: Final = 0.25  # of joints whose captured angles are mostly noise
LEG_PARTS: Final = ("pelvis", "hip", "knee", "ankle", "foot")


def flatten_units(units: Sequence[MotionUnit], means: FloatArray) -> MotionUnits:
    """Rows of units, flattened."""
    rows = np.stack([unit_rows(unit.root, unit.wxyz, means).ravel() for unit in units])
    subjects, gaits = tuple(unit.subject for unit in units), tuple(unit.gait for unit in units)
    return MotionUnits(rows, subjects, gaits, np.array([unit.speed_n for unit in units]))


def fit_tree(units: MotionUnits, *, explained: float = EXPLAINED[0]) -> HierarchicalModel:
    """Fit main, personal and gait components; columns of noisy joints weigh less in all of them."""
    weights = column_weights()
    scales = np.tile(weights, units.table.shape[1] // len(weights))
    scaled = MotionUnits(units.table * scales, units.subjects, units.gaits, units.speeds)
    count = principal_components(scaled.table, explained=explained).count
    fitted = HierarchicalPCA(explained=EXPLAINED[1], n_main=count).fit(scaled)
    main = fitted.main
    unscaled = Components(main.mean / scales, main.directions, scales, main.variances, main.shares)
    return HierarchicalModel(unscaled, fitted.people)


def column_weights() -> FloatArray:
    """Weight ``(D,)`` of the columns of a unit in the components: noisy joints count less."""
    weights = np.ones(3 + 3 * HUMAN.num_joints)
    for name in NOISY_JOINTS:
        j = HUMAN.index(name)
        weights[3 + 3 * j : 6 + 3 * j] = NOISY_JOINT_WEIGHT
    return weights


def posture_columns() -> FloatArray:
    """One for the columns ``(D,)`` of a person's posture, zero for root and legs."""
    columns = np.zeros(3 + 3 * HUMAN.num_joints)
    for j, name in enumerate(HUMAN.names):
        if not name.endswith(LEG_PARTS):
            columns[3 + 3 * j : 6 + 3 * j] = 1.0
    return columns
