"""What the Sketch tab tells: solutions as they come, what was made, and why something cannot be."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from marey.studio._sketch import Draft
from marey.studio._sketch_controls import boxed
from marey.studio._sketch_drawn import FOUND

if TYPE_CHECKING:
    from marey.graph import Solution
    from marey.pipeline import SynthesisResult
    from marey.studio._sketch_run import Synthesis

LISTED: Final = 8  # solutions on the page
CELL: Final = 'style="padding:0 0.9em 0 0;text-align:right"'


def state_html(draft: Draft | None) -> str:
    """The state of the tab."""
    if draft is None:
        return boxed("sketch", "<div>Press 'Draw here', or open a sketch.</div>")
    rows = [f"<div>{escape(line)}</div>" for line in way_lines(draft)]
    if draft.synthesis is not None:
        rows.append(synthesis_html(draft.synthesis))
    return boxed("sketch", "".join(rows))


def way_lines(draft: Draft) -> list[str]:
    """What is drawn."""
    drawn = draft.drawn
    way = "the engine finds the way" if drawn.way == FOUND else f"{drawn.way}, {len(drawn.points)} way-points"
    speed = "" if drawn.speed_mps is None else f", {drawn.speed_mps:.2f} m/s"
    lines = [f"{drawn.name}: {way}, corridor {drawn.corridor_m:.2f} m{speed}"]
    if drawn.way == FOUND and len(drawn.points) > 2:
        lines.append("Only its start and goal count.")
    if draft.graph_label:
        lines.append(f"Motion graph: {draft.graph_label}")
    return lines


def synthesis_html(synthesis: Synthesis) -> str:
    """How it goes, or how it went."""
    is_on = synthesis.is_running
    doing = f"Working: {synthesis.words}" if is_on else f"Done in {synthesis.words}"
    if synthesis.is_stopped:
        doing = "Stopping" if is_on else f"Stopped after {synthesis.words}"
    rows = [f"<div><b>{escape(doing)}</b></div>"]
    if synthesis.solutions:
        rows.append(_table(synthesis.solutions))
    rows += [f"<div>{escape(result_line(result))}</div>" for result in synthesis.results]
    if synthesis.error is not None:
        rows.append(f'<div style="color:#b45309">{escape(str(synthesis.error))}</div>')
    return "".join(rows)


def result_line(result: SynthesisResult) -> str:
    """What one engine made, or why it made nothing."""
    search = result.search
    if search is None or not search.is_solved:
        return result.sentence
    k = search.history[-1].k if search.history else 1
    return f"k = {k}: cost {search.cost:.4g}, {search.expansions} expansions, {search.seconds:.2f} s; {result.sentence}"


def _table(solutions: list[Solution]) -> str:
    head = "".join(f"<th {CELL}>{name}</th>" for name in ("k", "eps", "cost", "expansions", "s"))
    rows = [
        (str(s.k), f"{s.proved:.2f}", f"{s.cost:.4g}", str(s.expansions), f"{s.seconds:.2f}")
        for s in solutions[-LISTED:]
    ]
    cells = "".join("<tr>" + "".join(f"<td {CELL}>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<table data-testid="solutions"><tr>{head}</tr>{cells}</table>'
