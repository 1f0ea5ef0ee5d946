"""Validity of a motion over time: the coloured bar, forces, margins and what is missing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.picture._plots import DPI, LEFT, MIDDLE, RIGHT, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Axes = Any  # matplotlib.axes.Axes, most of whose methods take untyped options

SPAN_COLOURS: Final = {"green": "#4f9d69", "amber": "#e3a83b", "red": "#c8453c"}
MEASURED: Final = "#1c2126"
LABEL_SHARE: Final = 0.07  # [-] of the clip; shorter stretches have no room for a word
HEIGHTS: Final = (0.55, 1.6, 1.2, 1.2, 1.3)


@dataclass(frozen=True, slots=True, eq=False)
class PhysicsCurves:
    """What a picture of a validity report shows, as plain data."""

    name: str
    title: str  # one sentence above the picture
    times: FloatArray  # (F,) [s]
    spans: tuple[tuple[float, float, str, str], ...]  # start and end [s], colour, word
    forces: FloatArray  # (F, 3) [body weights] that the motion needs: x, up, z
    left: FloatArray  # (F,) [body weights] upwards by the left foot
    right: FloatArray  # (F,)
    violation: FloatArray  # (F,) [body weights]
    tolerance: float
    friction_margin: FloatArray  # (F,) [body weights]
    balance_margin: FloatArray  # (F,) [m]
    flight: BoolArray  # (F,) nothing touches
    measured: FloatArray | None = None  # (F, 3) [body weights] by force plates
    is_measured: BoolArray | None = None  # (F,) where they carry the whole body


def plot_physics(curves: PhysicsCurves, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw the coloured bar of a motion over its forces, margins and what is missing.

    Args:
        curves: what to draw.
        path: where to save the figure (.png, .pdf, .svg, .jpg); not saved if None.
    """
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(9.0, 1.2 + sum(HEIGHTS)), dpi=DPI, layout="constrained")
    axes = list(figure.subplots(5, 1, sharex=True, gridspec_kw={"height_ratios": HEIGHTS}))
    draw_validity_bar(axes[0], curves)
    _draw_vertical(axes[1], curves)
    _draw_horizontal(axes[2], curves)
    _draw_margins(axes[3], curves)
    _draw_violation(axes[4], curves)
    for axis in axes[1:]:
        _decorate_axis(axis, curves)
    axes[-1].set_xlabel("time [s]", fontsize=9)
    axes[-1].set_xlim(float(curves.times[0]), float(curves.times[-1]))
    figure.suptitle(curves.title, fontsize=9, wrap=True)
    if path is not None:
        save_figure(cast("Figure", figure), path)
    return cast("Figure", figure)


def draw_validity_bar(axis: _Axes, curves: PhysicsCurves) -> None:
    """The timeline: one coloured stretch a span, with its cause where there is room."""
    total = max(float(curves.times[-1] - curves.times[0]), 1e-9)
    for start, stop, colour, word in curves.spans:
        axis.axvspan(start, stop, color=SPAN_COLOURS[colour], linewidth=0.0)
        if word and (stop - start) > LABEL_SHARE * total:
            middle = 0.5 * (start + min(stop, float(curves.times[-1])))
            axis.text(middle, 0.5, word, ha="center", va="center", fontsize=7, color="white", clip_on=True)
    axis.set_ylim(0.0, 1.0)
    axis.set_yticks([])
    axis.set_ylabel("valid", fontsize=9)
    axis.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axis.tick_params(bottom=False)


def _draw_vertical(axis: _Axes, curves: PhysicsCurves) -> None:
    axis.axhline(1.0, color="#b6bcc4", linewidth=0.7, linestyle=":")
    axis.plot(curves.times, curves.forces[:, 1], color=MIDDLE, linewidth=2.6, alpha=0.55, label="needed")
    axis.plot(curves.times, curves.left, color=LEFT, linewidth=1.0, label="left foot")
    axis.plot(curves.times, curves.right, color=RIGHT, linewidth=1.0, label="right foot")
    if curves.measured is not None:
        axis.plot(curves.times, _mask_curve(curves, 1), color=MEASURED, linewidth=1.2, linestyle="--", label="measured")
    axis.set_ylabel("up [body weights]", fontsize=8)


def _draw_horizontal(axis: _Axes, curves: PhysicsCurves) -> None:
    for k, colour, name in ((0, "#7a5ea8", "along x"), (2, "#3f9b8f", "along z")):
        axis.plot(curves.times, curves.forces[:, k], color=colour, linewidth=1.2, label=name)
        if curves.measured is not None:
            axis.plot(curves.times, _mask_curve(curves, k), color=colour, linewidth=1.0, linestyle="--")
    axis.set_ylabel("level [bw]", fontsize=8)


def _draw_margins(axis: _Axes, curves: PhysicsCurves) -> None:
    axis.axhline(0.0, color="#9aa2ab", linewidth=0.8)
    axis.plot(curves.times, curves.friction_margin, color="#a2603c", linewidth=1.2, label="friction left [bw]")
    axis.plot(curves.times, 10.0 * curves.balance_margin, color="#2f6f8f", linewidth=1.2, label="balance [dm]")
    axis.set_ylim(-1.5, 1.5)
    axis.set_ylabel("margins", fontsize=8)


def _draw_violation(axis: _Axes, curves: PhysicsCurves) -> None:
    axis.axhspan(0.0, curves.tolerance, color=SPAN_COLOURS["green"], alpha=0.15, linewidth=0.0)
    axis.fill_between(curves.times, 0.0, curves.violation, color=SPAN_COLOURS["red"], alpha=0.45, linewidth=0.0)
    axis.plot(curves.times, curves.violation, color=SPAN_COLOURS["red"], linewidth=1.1, label="counted as missing")
    axis.set_ylim(0.0, max(3.0 * curves.tolerance, 1.05 * float(np.percentile(curves.violation, 99.0))))
    axis.set_ylabel("missing [bw]", fontsize=8)


def _mask_curve(curves: PhysicsCurves, k: int) -> FloatArray:
    assert curves.measured is not None
    shown = np.ones(len(curves.times), dtype=np.bool_) if curves.is_measured is None else curves.is_measured
    return np.where(shown, curves.measured[:, k], np.nan)


def _decorate_axis(axis: _Axes, curves: PhysicsCurves) -> None:
    """Grid, legend and a grey ground where nothing touches."""
    axis.grid(visible=True, color="#e6e8eb", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    low, high = axis.get_ylim()
    axis.fill_between(curves.times, low, high, where=curves.flight, color="#eef1f4", linewidth=0.0, zorder=0)
    axis.set_ylim(low, high)
    axis.legend(fontsize=7, loc="lower right", bbox_to_anchor=(1.0, 0.97), borderaxespad=0.0, frameon=False, ncols=6)
