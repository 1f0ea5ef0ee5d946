"""A chart of a search: what the best motion costs, and what it cannot cost less than, as time goes by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from marey.graph import SearchSolution

WIDE, HIGH = 330.0, 105.0  # [px]
LEFT, RIGHT, TOP, BOTTOM = 34.0, 8.0, 8.0, 18.0  # [px] margins
COLOUR: Final = {1: "#2563a8", 2: "#b4530a"}
Point = tuple[float, float]


def cost_chart_svg(runs: dict[int, list[SearchSolution]], until_s: float) -> str:
    """The chart as SVG; nothing where nothing was found.

    The upper line is the cost of the best motion so far; the lower one is cost over eps, below which no motion of
    the graph can be. They meet when the motion is the best that there is.

    Args:
        runs: k that was asked for -> solutions in the order they came. A search with k = 2 begins with k = 1, and its
            bound begins anew when it goes over.
        until_s: end of the time axis [s].
    """
    solutions = [solution for found in runs.values() for solution in found]
    if not solutions:
        return ""
    top = max(s.cost for s in solutions)
    bounds = [s.cost / s.proved for s in solutions if np.isfinite(s.proved)]
    low = min([*bounds, min(s.cost for s in solutions)])
    room = 0.08 * max(top - low, 0.02 * top)
    end_s = max(until_s, max(s.seconds for s in solutions), 1e-3)
    frame = _ChartFrame(end_s, low - room, top + room)
    lines = [_lines(frame, found, k) for k, found in runs.items() if found]
    axes = _axes(frame)
    return (
        f'<svg data-testid="chart" viewBox="0 0 {WIDE:g} {HIGH:g}" style="width:100%;max-width:{WIDE:g}px;'
        f'font-size:9px;font-family:sans-serif" role="img" aria-label="cost and its lower bound over time">'
        f"{axes}{''.join(lines)}</svg>"
    )


class _ChartFrame:
    """From seconds and costs to pixels."""

    def __init__(self, until_s: float, low: float, high: float) -> None:
        self.until_s, self.low, self.high = until_s, low, high

    def x(self, seconds: float) -> float:
        return LEFT + (WIDE - LEFT - RIGHT) * min(max(seconds / self.until_s, 0.0), 1.0)

    def y(self, cost: float) -> float:
        share = (cost - self.low) / (self.high - self.low)
        return HIGH - BOTTOM - (HIGH - TOP - BOTTOM) * min(max(share, 0.0), 1.0)


def _lines(frame: _ChartFrame, found: list[SearchSolution], k: int) -> str:
    """Two staircases and the gap between them."""
    colour = COLOUR.get(k, "#444")
    costs = [(s.seconds, s.cost) for s in found]
    bounds = [(s.seconds, s.cost / s.proved if np.isfinite(s.proved) else frame.low) for s in found]
    upper, lower = _staircase_corners(frame, costs), _staircase_corners(frame, bounds)
    gap = " ".join(f"{x:.1f},{y:.1f}" for x, y in (*upper, *reversed(lower)))
    dots = "".join(
        f'<circle cx="{frame.x(t):.1f}" cy="{frame.y(c):.1f}" r="2.2" fill="{colour}"/>' for t, c in costs[-60:]
    )
    return (
        f'<polygon points="{gap}" fill="{colour}" opacity="0.13"/>'
        f'<polyline points="{_points(upper)}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        f'<polyline points="{_points(lower)}" fill="none" stroke="{colour}" stroke-width="1" stroke-dasharray="3 2"/>'
        f"{dots}"
    )


def _staircase_corners(frame: _ChartFrame, steps: list[Point]) -> list[Point]:
    """Corners of a staircase that holds each value until the next, and the last to the end."""
    corners: list[Point] = []
    for n, (seconds, value) in enumerate(steps):
        end = steps[n + 1][0] if n + 1 < len(steps) else frame.until_s
        corners += [(frame.x(seconds), frame.y(value)), (frame.x(end), frame.y(value))]
    return corners


def _points(corners: list[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)


def _axes(frame: _ChartFrame) -> str:
    left, right, top, bottom = LEFT, WIDE - RIGHT, TOP, HIGH - BOTTOM
    numbers = [(frame.high, top + 7.0), (frame.low, bottom)]
    costs = "".join(f'<text x="{left - 4:g}" y="{y:g}" text-anchor="end">{value:.3g}</text>' for value, y in numbers)
    return (
        f'<g fill="#666"><path d="M{left:g} {top:g}V{bottom:g}H{right:g}" fill="none" stroke="#bbb"/>{costs}'
        f'<text x="{left - 4:g}" y="{0.5 * (top + bottom) + 3:g}" text-anchor="end">cost</text>'
        f'<text x="{left:g}" y="{bottom + 12:g}">0 s</text>'
        f'<text x="{right:g}" y="{bottom + 12:g}" text-anchor="end">{frame.until_s:.1f} s</text></g>'
    )
