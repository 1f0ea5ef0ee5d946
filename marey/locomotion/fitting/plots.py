"""Plots of a fit: scores of captured cycles and the law through them, jump lengths asked for and made."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

import numpy as np

from marey.base import save_figure
from marey.locomotion.fitting.fit import flatten_units
from marey.locomotion.fitting.trials import ClipSource, Manifest, Progress, capture_units
from marey.locomotion.model.locomotion_model import GAITS, LocomotionModel
from marey.locomotion.units.jump_unit import JUMP_LEG_M

POINT, LINE, LENT = "#2d5d8c", "#d08232", "#9fb6cd"  # captured, the law, the law of a gait that was lent
NUM_POINTS: Final = 60  # of a curve
NUM_LENGTHS: Final = 12
DPI: Final = 110


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
