"""A motion shows itself in a notebook: a small film strip and its facts."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from io import BytesIO
from typing import Final

from marey.motion import Motion, mean_speed
from marey.picture.strips import film_strip

COUNT: Final = 6  # bodies on the strip
WIDTH_PX: Final = 840
MAX_FRAMES: Final = 2000  # of a longer clip every second frame or fewer are looked at
MAX_WARNINGS: Final = 3


def motion_html(motion: Motion) -> str:
    """Return a strip as a picture and a table of facts, as HTML; a clip that cannot be drawn has its facts only."""
    rows = [
        ("joints", f"{motion.skeleton.num_joints}"),
        ("frames", f"{motion.num_frames} at {motion.rate_hz:g} Hz"),
        ("duration", f"{motion.duration_s:.2f} s"),
        ("mean speed", f"{mean_speed(motion):.2f} m/s"),
    ]
    if motion.contacts is not None:
        rows.append(("contacts", ", ".join(motion.contacts.names)))
    if motion.source is not None:
        rows.append(("file", f"{motion.source.path} ({motion.source.format}, {motion.source.unit})"))
    warnings = motion.load_report.warnings
    rows += [("warning", text) for text in warnings[:MAX_WARNINGS]]
    if len(warnings) > MAX_WARNINGS:
        rows.append(("warning", f"and {len(warnings) - MAX_WARNINGS} more in load_report.warnings"))
    cells = "".join(f"<tr><th style='text-align:left'>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in rows)
    return f"<div><b>{escape(motion.name)}</b>{_strip_tag(motion)}<table>{cells}</table></div>"


def _strip_tag(motion: Motion) -> str:
    """The strip as an image that is part of the page."""
    from PIL import Image as Pillow

    few = motion[:: max(1, motion.num_frames // MAX_FRAMES)]
    try:
        image = film_strip(few, count=COUNT, width=WIDTH_PX, caption=False)
    except Exception as error:  # a notebook shows what there is
        return f"<p>no picture: {escape(str(error))}</p>"
    file = BytesIO()
    Pillow.fromarray(image).save(file, format="PNG")
    return f"<br><img alt='film strip' src='data:image/png;base64,{b64encode(file.getvalue()).decode()}'>"
