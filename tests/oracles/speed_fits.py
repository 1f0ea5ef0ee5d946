"""Other fits of a person's cycles by speed, which the hierarchical model is compared with (Glardon A12, A13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.locomotion import LocomotionModel
from marey.locomotion.fitting.quality import RowFit, RowPrediction, Synthesis, UnitGroup
from marey.locomotion.units.gait_unit import MotionUnit, rotations_from_rows
from marey.models import fit_speed_law, principal_components

NUM_COMPONENTS: Final = 2  # of a person in a gait; the measurements we compare with kept as many
PROCESS_LENGTH: Final = 1.0  # [1/s] over which cycles of a Gaussian process resemble one another
PROCESS_NOISE: Final = 0.3  # [-] deviation of one cycle over the deviation with speed
SAME_SPEED: Final = 0.05  # [1/s] a spline through two units nearer than this would be wild


def fit_line_law(table: FloatArray, speeds: FloatArray) -> RowPrediction:
    """Two components, each a line in speed: one person's single-parameter model, [Glardon2005]_ §II.2.3.1."""
    space = principal_components(table, n_components=min(NUM_COMPONENTS, len(table) - 1))
    law = fit_speed_law(space.scores(table), speeds)
    return lambda s: space.rows(law(max(s, law.slowest)))


def fit_thin_plate_splines(table: FloatArray, speeds: FloatArray) -> RowPrediction:
    """Thin-plate splines on top of a line: the verbs and adverbs that [Glardon2005]_ §II.2.3.2.1 compares with."""
    bins = (speeds / SAME_SPEED).astype(np.int64)
    kept = np.unique(bins)
    centres = np.array([speeds[bins == b].mean() for b in kept])
    means = np.stack([table[bins == b].mean(axis=0) for b in kept])
    poly = np.stack([np.ones_like(centres), centres], axis=1)
    plates = np.abs(centres[:, None] - centres) ** 3
    system = np.block([[plates, poly], [poly.T, np.zeros((2, 2))]])
    wanted = np.concatenate([means, np.zeros((2, means.shape[1]))])
    weights = np.asarray(np.linalg.lstsq(system, wanted, rcond=None)[0], dtype=np.float64)
    return lambda s: np.concatenate([np.abs(s - centres) ** 3, [1.0, s]]) @ weights


def fit_gaussian_process(table: FloatArray, speeds: FloatArray) -> RowPrediction:
    """A Gaussian process round a line in speed: what the thesis names for few samples."""
    poly = np.stack([np.ones_like(speeds), speeds], axis=1)
    line = np.linalg.lstsq(poly, table, rcond=None)[0]
    kernel = np.exp(-0.5 * ((speeds[:, None] - speeds) / PROCESS_LENGTH) ** 2)
    weights = np.linalg.solve(kernel + PROCESS_NOISE**2 * np.eye(len(speeds)), table - poly @ line)
    return lambda s: np.array([1.0, s]) @ line + np.exp(-0.5 * ((s - speeds) / PROCESS_LENGTH) ** 2) @ weights


FITS: Final[Mapping[str, RowFit]] = {
    "line": fit_line_law,
    "radial": fit_thin_plate_splines,
    "process": fit_gaussian_process,
}
"""By name, for comparisons; ``make_pooled_fit`` needs to know everybody."""


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


def make_flat_synthesis(
    model: LocomotionModel, units: Mapping[tuple[str, str], tuple[FloatArray, FloatArray]]
) -> Synthesis:
    """The flat variant: a law for every person and gait in the main components, without the levels between.

    Args:
        model: gives the main components and the means.
        units: rows ``(n, p)`` and speeds ``(n,)`` of every person and gait.
    """
    main = model.tree.main
    laws = {key: fit_speed_law(main.scores(rows), speeds) for key, (rows, speeds) in units.items()}

    def synthesis(unit: MotionUnit) -> FloatArray:
        law = laws[unit.subject, unit.gait]
        row = main.rows(law(max(unit.speed_n, law.slowest)))
        return rotations_from_rows(row.reshape(unit.num_frames, -1), model.gaits.means)

    return synthesis
