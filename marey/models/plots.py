"""Pictures of a model: how much each component explains, and what it does to a body."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from marey.base import InputError
from marey.models.pose_model import PoseModel
from marey.models.selection import ModeCounts, SelectionCurve
from marey.motion import Contacts, Motion

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Drawing = TypeVar("Drawing")

BAR, LINE, FAR = "#9fb6cd", "#2d5d8c", "#d08232"  # shares, their sum, the worst joint
DPI = 150


def plot_explained(model: PoseModel) -> Figure:
    """Share of the variance of each component, and their sum [%]."""
    figure, (axis,) = _axes(1)
    numbers = np.arange(1, model.num_components + 1)
    axis.bar(numbers, 100.0 * model.explained, color=BAR, label="each")
    axis.plot(numbers, 100.0 * np.cumsum(model.explained), color=LINE, marker="o", markersize=3, label="together")
    axis.set_ylim(0.0, 105.0)
    _describe(axis, "components", "explained variance [%]")
    return figure


def plot_selection(curve: SelectionCurve) -> Figure:
    """Explained variance [%] and joint error [cm] against the number of components."""
    figure, (upper, lower) = _axes(2)
    upper.plot(curve.counts, 100.0 * curve.explained, color=LINE, marker="o", markersize=3, label="together")
    _describe(upper, "", "explained variance [%]")
    for values, name, colour in (
        (curve.mean_cm, "mean", LINE),
        (curve.p95_cm, "95 %", BAR),
        (curve.max_cm, "max", FAR),
    ):
        lower.plot(curve.counts, values, color=colour, marker="o", markersize=3, label=name)
    lower.set_yscale("log")
    _describe(lower, "components", "joint error [cm]")
    return figure


def plot_mode_counts(found: ModeCounts) -> Figure:
    """Histogram of the number of components that the clips of a database need: fig. 8.7 of [Tournier2011]_."""
    figure, axes = _axes(len(found.shares))
    bins = np.arange(0.5, max(int(found.counts.max(initial=1)), 1) + 1.0)
    for axis, share, counts in zip(axes, found.shares, found.counts.T, strict=True):
        axis.hist(counts, bins=bins, color=BAR, label=f"{100.0 * share:g} % of the variance")
        axis.axvline(float(np.median(counts)), color=LINE, label=f"median {np.median(counts):g}")
        _describe(axis, "components", "clips")
    return figure


def mode_motion(model: PoseModel, component: int, *, reach: float = 2.0, count: int = 5) -> Motion:
    """A clip that goes along one component, from ``-reach`` to ``+reach`` deviations through the mean.

    Args:
        model: any pose model.
        component: which, from zero.
        reach: in standard deviations of the coordinate.
        count: how many frames, one second apart.
    """
    if not 0 <= component < model.num_components:
        raise InputError(f"component {component} of a model of {model.num_components}", "Count from zero")
    if count < 1:
        raise InputError(f"{count} poses of a component", "Ask for one at least")
    # One coordinate moves, the others stay at the mean
    x = np.zeros((count, model.num_components))
    x[:, component] = np.linspace(-reach, reach, count) * model.deviations[component]
    moved = model.decode(x, rate_hz=1.0)
    share = 100.0 * float(model.explained[component])
    name = f"component {component + 1}: {share:.1f} %, -{reach:g} to +{reach:g} deviations"
    nothing = Contacts((), np.zeros((moved.num_frames, 0), dtype=np.bool_))  # a component touches no ground
    return replace(moved, contacts=nothing, name=name)


def mode_strips(
    model: PoseModel, draw: Callable[[Motion], Drawing], *, components: int = 4, reach: float = 2.0, count: int = 5
) -> list[Drawing]:
    """Draw the first components, one film strip each.

    Args:
        model: any pose model.
        draw: what makes a picture of a clip: ``lambda m: marey.film_strip(m, layout="grid", instants="time")``.
        components: how many, or all there are.
        reach: in standard deviations.
        count: poses on a strip.
    """
    shown = range(min(components, model.num_components))
    return [draw(mode_motion(model, i, reach=reach, count=count)) for i in shown]


def _axes(count: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(7.0, 0.6 + 2.6 * count), dpi=DPI, layout="constrained")
    return figure, list(figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0])


def _describe(axis: Any, xlabel: str, ylabel: str) -> None:
    axis.set_xlabel(xlabel, fontsize=9)
    axis.set_ylabel(ylabel, fontsize=9)
    axis.grid(visible=True, color="#e6e8eb", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=8, frameon=False)
