"""A source made fit to be measured: bones that a conversion lost are put back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from marey.base import MareyError
from marey.motion import Motion
from marey.skeleton import (
    find_lost_bones,
    known_thorax,
    restore_bones,
    thorax_from,
)

MAX_ASF_FILES: Final = 8  # original skeletons looked at beside a BVH file


def restore_source(motion: Motion) -> tuple[Motion, str]:
    """Put back bones that a conversion lost: from the ASF file beside the clip, a known person, or anthropometry."""
    lost = find_lost_bones(motion.skeleton)
    if not lost or motion.translations is not None:
        return motion, ""
    thorax, told = None, "from the bone below it and half the forearm"
    folder = Path(motion.source.path).parent if motion.source is not None and motion.source.path else None
    for file in sorted(folder.glob("*.asf"))[:MAX_ASF_FILES] if folder is not None and folder.is_dir() else ():
        from marey.io import load  # the readers are needed by few clips

        try:
            thorax = thorax_from(load(file).skeleton, motion.skeleton)
        except (MareyError, OSError):
            continue
        if thorax is not None:
            told = f"from {file.name}"
            break
    if thorax is None:
        thorax = known_thorax(motion.skeleton)
        told = told if thorax is None else "from the original skeleton of this person"
    skeleton = restore_bones(motion.skeleton, thorax=thorax)
    return replace(motion, skeleton=skeleton, source=None), f"thorax and wrists put back {told}"
