"""Logs of simulations as curves over time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from marey.base import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from marey.simulate._monitor import SimulationLog

Axes = Any  # matplotlib.axes.Axes, most of whose methods take untyped options

COLOURS: Final = ("#c8453c", "#d08232", "#3f78b0", "#4f9d69", "#59626c")
LABELS: Final = ("energy [J]", "linear [kg m/s]", "angular [kg m²/s]", "angular along z")


def plot_logs(logs: Mapping[str, SimulationLog], path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw energy, size of both momenta and the angular one along z, one line a log (figs 11.2 and 11.3).

    Args:
        logs: name -> log; names are in the legend.
        path: where to save the figure (.png, .pdf, .svg, .jpg); not saved if None.
    """
    from matplotlib.figure import Figure

    from marey.picture._plots import DPI, save_figure

    if not logs:
        raise InputError("no log to draw", "Give at least one")
    figure: Any = Figure(figsize=(8.0, 7.2), dpi=DPI, layout="constrained")
    axes = list(figure.subplots(len(LABELS), 1, sharex=True))
    for n, (name, log) in enumerate(logs.items()):
        _draw_curve(axes, log, name, COLOURS[n % len(COLOURS)])
    for axis, label in zip(axes, LABELS, strict=True):
        _label_axes(axis, label)
    if any(logs):
        axes[0].legend(fontsize=8, loc="upper left", frameon=False, ncols=len(logs))
    axes[-1].set_xlabel("time [s]", fontsize=9)
    if path is not None:
        save_figure(cast("Figure", figure), path)
    return cast("Figure", figure)


def _draw_curve(axes: list[Axes], log: SimulationLog, name: str, colour: str) -> None:
    sizes = (np.linalg.norm(log.linear, axis=1), np.linalg.norm(log.angular, axis=1))
    for axis, values in zip(axes, (log.energy_j, *sizes, log.angular[:, 2]), strict=True):
        axis.plot(log.times, values, color=colour, linewidth=1.4, label=name or None)


def _label_axes(axis: Axes, label: str) -> None:
    axis.set_ylabel(label, fontsize=9)
    axis.grid(visible=True, color="#e6e8eb", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.ticklabel_format(useOffset=False)
    low, high = axis.get_ylim()
    if high - low < 0.02 * max(abs(low), abs(high)):  # a constant is drawn as one, not as its rounding
        margin = 0.05 * max(abs(low), abs(high))
        axis.set_ylim(low - margin, high + margin)
