"""Contact tracks and the colours of the validity check as bars over the timeline."""

from __future__ import annotations

from html import escape

from marey.base import BoolArray
from marey.dynamics import ValiditySpan
from marey.motion import find_runs

ROW_PX = 9
# The slider's track is inset by its label on the left and its number box on the right; measured on viser 1.1.1.
INSET_LEFT_PX, INSET_RIGHT_PX = 116, 63
COLOURS = {"left": "#d67e60", "right": "#5c84be"}
VALID = {"green": "#2f9e5b", "amber": "#d99a1c", "red": "#cc3b3b"}


def contact_bars(names: tuple[str, ...], active: BoolArray, spans: tuple[ValiditySpan, ...] = ()) -> str:
    """An SVG with one row a contact point that is ever active; a bar where it touches.

    The stretches of a validity check, if there are any, are the first row.
    """
    frames = max(len(active) - 1, 1)
    rows = [k for k in range(len(names)) if active[:, k].any()]
    first = 1 if spans else 0
    parts = [_span(span) for span in spans]
    parts += [_row(names[k], active[:, k], r) for r, k in enumerate(rows, start=first)]
    height = ROW_PX * max(len(rows) + first, 1)
    box = f"margin:6px {INSET_RIGHT_PX}px 0 {INSET_LEFT_PX}px"
    return (
        f'<div data-testid="bars" style="{box}"><svg viewBox="0 0 {frames} {height}" width="100%" height="{height}" '
        f'preserveAspectRatio="none">{"".join(parts)}</svg></div>'
    )


def _span(span: ValiditySpan) -> str:
    size = f'x="{span.start}" y="0" width="{len(span)}" height="{ROW_PX - 2}"'
    return f'<rect {size} fill="{VALID[span.status]}"><title>{escape(span.words)}</title></rect>'


def _row(name: str, active: BoolArray, row: int) -> str:
    colour = COLOURS.get(name.split("_")[0], "#888888")
    opacity = 0.9 if name.endswith("heel") else 0.55
    bars = [
        f'<rect x="{a}" y="{row * ROW_PX}" width="{b - a}" height="{ROW_PX - 2}" fill="{colour}" opacity="{opacity}"/>'
        for a, b in find_runs(active)
    ]
    return f"<g><title>{escape(name)}</title>{''.join(bars)}</g>"
