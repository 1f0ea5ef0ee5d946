"""Progress of a search: a chart of costs and bounds, solutions as they appear, and the reason of a failure."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.studio.document.sketch.editor import SketchEditor
from marey.studio.document.sketch.forms import FOUND_BY_ENGINE
from marey.world import Event

if TYPE_CHECKING:
    from marey.graph import SearchSolution
    from marey.pipeline import SynthesisResult
    from marey.studio.document.sketch.synthesis import SynthesisJob


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
            bound restarts when it changes.
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


LISTED: Final = 3  # solutions on the page
CELL: Final = 'style="padding:0 0.7em 0 0;text-align:right;font-variant-numeric:tabular-nums"'
NAME: Final = 'style="padding:0 0.9em 0 0;opacity:0.75;white-space:nowrap"'
WARN: Final = 'style="color:#b45309"'


def box_html(name: str, text: str) -> str:
    """A block of small text that tests can find."""
    return f'<div data-testid="{name}" style="padding:0.2em 0.8em;font-size:0.8em;line-height:1.45">{text}</div>'


def state_html(draft: SketchEditor | None) -> str:
    """What is drawn."""
    if draft is None:
        return box_html("sketch", "<div>Press 'Draw here', or open an example.</div>")
    return box_html("sketch", "".join(f"<div>{escape(line)}</div>" for line in way_lines(draft)))


def way_lines(draft: SketchEditor) -> list[str]:
    """What is drawn, line by line."""
    drawn = draft.drawn
    way = "the engine finds the way" if drawn.way == FOUND_BY_ENGINE else f"{drawn.way}, {len(drawn.points)} way-points"
    things = f", {len(drawn.forms)} thing{'s' * (len(drawn.forms) > 1)}" if drawn.forms else ""
    lines = [f"{drawn.name}: {way}{things}"]
    if drawn.way == FOUND_BY_ENGINE and len(drawn.points) > 2:
        lines.append("Only its start and goal count.")
    if draft.graph_label:
        lines.append(f"Motion graph: {draft.graph_label}")
    return lines


def describe_event(event: Event) -> str:
    """An event for people."""
    if event.kind == "pick":
        return f"pick {event.object} up"
    if event.kind == "place" and event.to is not None:
        x, y, z = event.to
        return f"put {event.object} down at ({x:.2f}, {y:.2f}, {z:.2f})"
    x, z = event.at or (0.0, 0.0)
    size = "" if event.length_m is None else f" {event.length_m:g} m"
    stay = "" if event.seconds is None else f" for {event.seconds:g} s"
    return f"{event.kind}{size}{stay} at ({x:.2f}, {z:.2f})"


def progress_html(synthesis: SynthesisJob | None) -> str:
    """How it goes, or how it went."""
    if synthesis is None:
        return box_html("progress", "<div>Nothing was made yet.</div>")
    rows = [f"<div><b>{escape(headline(synthesis))}</b></div>", _bar(synthesis)]
    if synthesis.solutions:
        budget_s = synthesis.order.budget_s if synthesis.is_running else 0.0
        rows += [cost_chart_svg(synthesis.runs, budget_s), _table(synthesis.solutions)]
    if list_results(synthesis):
        rows.append(_facts(list_results(synthesis)))
    rows += [f"<div {WARN}>{escape(r.sentence)}</div>" for r in synthesis.results if not r.is_solved]
    if synthesis.error is not None:
        rows.append(f"<div {WARN}>{escape(str(synthesis.error))}</div>")
    return box_html("progress", "".join(rows))


def headline(synthesis: SynthesisJob) -> str:
    """One line: what is being done, for how long, or how it ended."""
    if not synthesis.is_running:
        return f"{'Stopped after' if synthesis.is_stopped else 'Done in'} {synthesis.words}"
    if synthesis.is_stopped:
        return "Stopping"
    if synthesis.looking_s is None:
        return f"Working: {synthesis.words} ({synthesis.elapsed_s:.0f} s)"
    looked = min(synthesis.elapsed_s - synthesis.looking_s, synthesis.order.budget_s)
    return f"Working: {synthesis.words}, {looked:.1f} of {synthesis.order.budget_s:g} s"


def _bar(synthesis: SynthesisJob) -> str:
    """Elapsed fraction of the search time."""
    if not synthesis.is_running or synthesis.looking_s is None:
        return ""
    share = min((synthesis.elapsed_s - synthesis.looking_s) / synthesis.order.budget_s, 1.0)
    return (
        '<div style="height:4px;background:#e3e6ea;margin:2px 0 4px">'
        f'<div style="height:4px;width:{100.0 * share:.0f}%;background:#5c84be"></div></div>'
    )


def _table(solutions: list[SearchSolution]) -> str:
    """The newest solutions, each better than the one before."""
    head = "".join(f"<th {CELL}>{name}</th>" for name in ("k", "s", "cost", "eps", "expansions"))
    cells = "".join(
        "<tr>" + "".join(f"<td {CELL}>{cell}</td>" for cell in _row(solution)) + "</tr>"
        for solution in solutions[-LISTED:]
    )
    return f'<table data-testid="solutions"><tr>{head}</tr>{cells}</table>'


def _row(s: SearchSolution) -> tuple[str, ...]:
    k = f'<span style="color:{COLOUR.get(s.k, "#444")}">{s.k}</span>'
    return k, f"{s.seconds:.2f}", f"{s.cost:.4g}", _format_epsilon(s.proved), f"{s.expansions}"


def _format_epsilon(proved: float) -> str:
    return f"{proved:.2f}" if np.isfinite(proved) else "?"


def list_results(synthesis: SynthesisJob) -> list[tuple[SynthesisResult, int]]:
    """What was made, each with how many motions could be blended for it."""
    pairs = zip(synthesis.results, synthesis.order.blends, strict=False)
    return [(result, k) for result, k in pairs if result.is_solved]


def _facts(results: list[tuple[SynthesisResult, int]]) -> str:
    """What was made, side by side."""
    columns = [result_facts(result, k) for result, k in results]
    rows = "".join(
        f"<tr><td {NAME}>{escape(name)}</td>"
        + "".join(f"<td {CELL}>{escape(column.get(name, ''))}</td>" for column in columns)
        + "</tr>"
        for name in dict.fromkeys(name for column in columns for name in column)
    )
    return f'<table data-testid="facts-made" style="margin-top:0.4em">{rows}</table>'


def result_facts(result: SynthesisResult, k: int) -> dict[str, str]:
    """What was made, for people: name of a fact -> its value."""
    facts = {"made by": result.engine if result.search is None else f"{result.engine}, k = {k}"}
    if result.search is not None:
        facts["cost"] = f"{result.search.cost:.4g}"
        facts["times the best, at most"] = (
            f"{result.search.epsilon:.2f} ×" if np.isfinite(result.search.epsilon) else "?"
        )
    if result.motion is not None:
        facts["lasts"] = f"{result.motion.duration_s:.1f} s"
    if result.errors is not None:
        facts["from the goal"] = f"{100.0 * result.errors.goal_m:.0f} cm"
        if result.errors.off_corridor_m > 0.005:
            facts["outside the corridor"] = f"{100.0 * result.errors.off_corridor_m:.0f} cm"
        facts["feet slide"] = f"{result.errors.slide_mm:.1f} mm a frame"
        if result.errors.reaches_m:
            facts["hand misses"] = f"{1000.0 * max(result.errors.reaches_m):.1f} mm"
    if result.validity is not None:
        facts["physically valid"] = f"{result.validity.valid_fraction:.0%}"
    return facts
