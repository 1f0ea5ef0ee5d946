"""`marey retarget`: a motion on another skeleton, feet kept where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from marey.cli._common import Clip, RateHz, Unit, load_clip, remark

if TYPE_CHECKING:
    from marey.motion import Motion

Out = Annotated[str, typer.Option("-o", "--out", help="File to write.", show_default=False)]


def retarget(
    clip: Clip,
    out: Out,
    to: Annotated[str, typer.Option(help="human, or a motion file whose skeleton is wanted.")] = "human",
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Move a motion to another skeleton.

    To the canonical human, or to the skeleton of another file; feet stay where they stand.
    """
    from marey.io import save

    moved = retarget_to(load_clip(clip, rate_hz=read_rate_hz, unit=unit), to)
    save(moved, out)
    remark(f"wrote {out} ({moved.skeleton.num_joints} joints, {moved.num_frames} frames)")


def retarget_to(motion: Motion, target: str) -> Motion:
    """Retarget to ``human`` or to the skeleton of a motion file."""
    from marey.cli._common import read_motion
    from marey.kinematics import retarget as move
    from marey.skeleton import HUMAN

    return move(motion, HUMAN if target.lower() == "human" else read_motion(target).skeleton)
