"""Plots of a simulation that runs: energies, momenta, and the support from above with the centre of mass."""

from __future__ import annotations

from typing import Final

import numpy as np
import viser
from viser import uplot

from marey.base import FloatArray
from marey.studio._simulate import SimulationDocument
from marey.studio._simulate_trace import ANGULAR, ENERGY, LINEAR, SupportState

EVERY: Final = 6  # pictures from one plot to the next: five a second are smooth enough to read
COLOURS: Final = ("#2f9e5b", "#5c84be", "#d67e60")
AXES: Final = ("x", "y", "z")
SIDE_M: Final = 0.8  # of the ground that the view from above shows, more under a wide support
SIDE_PX: Final = 150


class SimulationPlots:
    """Owns its widgets; drawn anew only now and then."""

    def __init__(self, gui: viser.GuiApi) -> None:
        self._energy = _plot(gui, "Energy [J]", ("kinetic", "potential", "total"))
        self._linear = _plot(gui, "Momentum [kg m/s]", AXES)
        self._angular = _plot(gui, "Angular momentum [kg m²/s]", AXES)
        self._above = gui.add_html("")
        self._waited = EVERY
        self._shown_s: float = -1.0

    def refresh(self, arena: SimulationDocument) -> None:
        """Follow the simulation; at rest, only what changed is sent."""
        self._waited += 1
        if (self._waited < EVERY and arena.is_running) or arena.time_s == self._shown_s:
            return
        self._waited, self._shown_s = 0, arena.time_s
        table = arena.trace.table()
        for plot, part in ((self._energy, ENERGY), (self._linear, LINEAR), (self._angular, ANGULAR)):
            plot.data = (np.ascontiguousarray(table[:, 0]), *(np.ascontiguousarray(c) for c in table[:, part].T))
        self._above.content = support_svg(arena.standing())


def _plot(gui: viser.GuiApi, title: str, names: tuple[str, ...]) -> viser.GuiUplotHandle:
    curves = (uplot.Series(label=n, stroke=c, width=1.5) for n, c in zip(names, COLOURS, strict=True))
    nothing = tuple(np.zeros(2) for _ in range(4))
    scales, legend = {"x": uplot.Scale(time=False)}, uplot.Legend(show=True, live=False)
    series = (uplot.Series(label="s"), *curves)
    return gui.add_uplot(nothing, series, title=title, scales=scales, legend=legend, aspect=2.0)


def support_svg(stand: SupportState) -> str:
    """The support and the centre of mass on the ground, seen from above, ahead upwards, left on the left."""
    low, high = (f(stand.corners, axis=0) if len(stand.corners) else stand.foot for f in (np.min, np.max))
    middle, side_m = 0.5 * (low + high), max(SIDE_M, 1.2 * float((high - low)[[0, 2]].max()))
    outline = " ".join(f"{x:.1f},{y:.1f}" for x, y in _pixels(stand.corners, middle, side_m))
    (x, y), *_ = _pixels(stand.foot[None], middle, side_m)
    x, y = (min(max(value, 4.0), SIDE_PX - 4.0) for value in (x, y))
    is_inside = stand.margin_m is not None and stand.margin_m > 0.0
    colour = "#2f9e5b" if is_inside else "#cc3b3b"
    words = "in the air" if stand.margin_m is None else f"{100 * stand.margin_m:+.1f} cm from the edge"
    return (
        f'<div data-testid="above" style="padding:0.3em 0.8em;font-size:0.8em">Support from above, {words}'
        f'<svg viewBox="0 0 {SIDE_PX} {SIDE_PX}" width="{SIDE_PX}" height="{SIDE_PX}" role="img" '
        f'aria-label="support polygon and centre of mass" style="display:block;border:1px solid #ccc">'
        f'<polygon points="{outline}" fill="#469670" opacity="0.45" stroke="#2f6b50"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/></svg></div>'
    )


def _pixels(places: FloatArray, middle: FloatArray, side_m: float) -> list[tuple[float, float]]:
    """+X is to the left, +Z ahead."""
    scale = SIDE_PX / side_m
    half = 0.5 * SIDE_PX
    return [(half - scale * (p[0] - middle[0]), half - scale * (p[2] - middle[2])) for p in places.tolist()]
