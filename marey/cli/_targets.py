"""Files that verbs write: looked at before time is spent on what goes into them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from marey.cli._common import remark

if TYPE_CHECKING:
    from marey.motion import Motion


def check_target(target: str | None, suffixes: tuple[str, ...]) -> None:
    """Refuse a file that could not be written."""
    if target is None:
        return
    if not Path(target).resolve().parent.is_dir():
        raise typer.BadParameter(f"there is no folder '{Path(target).parent}' to write {target} to.")
    if Path(target).suffix.lower() not in suffixes:
        raise typer.BadParameter(f"cannot write '{target}': use one of {', '.join(suffixes)}.")


def check_targets(out: str | None, strip: str | None) -> None:
    """Refuse a motion file or a film strip that could not be written."""
    from marey.io import WRITABLE_SUFFIXES
    from marey.picture import PICTURE_SUFFIXES

    check_target(out, WRITABLE_SUFFIXES)
    check_target(strip, PICTURE_SUFFIXES)


def write_motion(motion: Motion, out: str | None) -> None:
    """Write a motion file, if one is asked for, and say so."""
    if out is None:
        return
    from marey.io import save

    save(motion, out)
    remark(f"wrote {out} ({motion.num_frames} frames at {motion.rate_hz:g} Hz)")


def write_strip(motion: Motion, strip: str | None, count: int, *, layout: str = "auto") -> None:
    """Draw a film strip of so many bodies, if one is asked for, and say so."""
    if strip is None:
        return
    from marey.picture import film_strip, save_image

    save_image(film_strip(motion, count=count, layout=layout), strip)
    remark(f"wrote {strip}")
