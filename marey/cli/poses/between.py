"""`marey between`: a motion through key poses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from marey.cli.common import load_clip, print_json, remark, warn, write_motion, write_strip
from marey.cli.options import Count, Json, MotionOut, ReadOptions, Strip, flat_options, option

if TYPE_CHECKING:
    from marey.motion import Motion
    from marey.pipeline.in_betweens import InBetweenMethod, KeyPlan


@flat_options
def between(
    keys: Annotated[
        str, typer.Argument(metavar="KEYS", help="Keys in a .toml file, or a clip and times.", show_default=False)
    ],
    out: MotionOut = None,
    every: Annotated[float | None, option("Take a key of the clip at each of these intervals [s].", min=0.01)] = None,
    at: Annotated[str | None, option("Take keys of the clip at these times [s].", metavar="LIST")] = None,
    contacts: Annotated[bool, option("Let the feet stand where they do in the clip.", "--contacts")] = False,
    method: Annotated[
        str,
        option(
            "people: as captured people move; smooth: cubic; straight: slerp.", choices=("people", "smooth", "straight")
        ),
    ] = "people",
    rate_hz: Annotated[float | None, option("Frames per second to write.", min=1.0, max=1000.0)] = None,
    limits: Annotated[bool, option("Keep joints inside anatomical limits.")] = True,
    hold_feet: Annotated[
        bool, option("Hold standing feet over the whole clip; keys may move by centimetres.", "--hold-feet")
    ] = False,
    against: Annotated[
        str | None, option("Compare with this clip; the clip of the keys by default.", metavar="CLIP")
    ] = None,
    strip: Strip = None,
    count: Count = 12,
    json: Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Make a motion through key poses, as captured people move between such poses.

    With a clip to compare with, L2P, L2Q and NPSS stand beside those of slerp. Exits with 1 when a key is missed by
    more than 1 cm (10 cm where feet are held) or a contact is not kept; the motion is written all the same.
    """
    from marey.pipeline.in_betweens import make_in_betweens

    plan, source = _read_plan(keys, every, at, contacts, rate_hz, read)
    if against is not None:
        source = load_clip(against, read)
    result = make_in_betweens(
        plan, method=cast("InBetweenMethod", method), limits=limits, hold=hold_feet, source=source
    )
    for sentence in result.remarks:
        remark(sentence)
    for plant in result.broken:
        warn(f"contact not kept: {plant}")
    write_motion(result.motion, out)
    write_strip(result.motion, strip, count)
    if json:
        print_json({"keys": keys, "out": out, "count": len(plan.keys.times), **result.to_json()})
    else:
        typer.echo(
            f"{len(plan.keys.times)} keys  {result.motion.num_frames} frames  {result.motion.duration_s:.2f} s  "
            f"{result.method}  keys within {1e3 * result.key_miss_m:.1f} mm  "
            f"limits within {result.violation_rad:.2f} rad"
        )
        for name, figures in result.against.items():
            typer.echo(f"{name:<8} " + "  ".join(f"{key} {value:.4f}" for key, value in figures.items()))
    if not result.is_kept:
        if result.key_miss_m > result.tolerance_m:
            warn(f"a key is missed by {1e2 * result.key_miss_m:.1f} cm: contacts or limits contradict it")
        raise typer.Exit(1)


def _read_plan(
    keys: str, every: float | None, at: str | None, contacts: bool, rate_hz: float | None, read: ReadOptions
) -> tuple[KeyPlan, Motion | None]:
    """Keys of a file or of a clip, and the clip between the first and the last of them."""
    from dataclasses import replace

    from marey.contacts import detect_contacts
    from marey.motion import resample
    from marey.pipeline.in_betweens import load_keys, take_keys

    if Path(keys).suffix.lower() == ".toml":
        if every is not None or at is not None or contacts or rate_hz is not None:
            raise typer.BadParameter("--every, --at, --contacts and --rate-hz are for clips; the file says it all.")
        return load_keys(keys), None
    if (every is None) == (at is None):
        raise typer.BadParameter("give the times of the keys: --every SECONDS or --at LIST.")
    clip = load_clip(keys, read)
    if at is not None:
        try:
            times = [float(part) for part in at.split(",")]
        except ValueError:
            raise typer.BadParameter(f"'{at}' is no list of times; write 0,0.5,1.2.") from None
    else:
        times = [i * cast(float, every) for i in range(int(clip.duration_s / cast(float, every) + 1e-9) + 1)]
    plan = take_keys(clip, times, rate_hz=rate_hz)
    first = round(min(times) * clip.rate_hz)
    part = clip[first : first + round(plan.keys.times[-1] * clip.rate_hz) + 1]
    if contacts:
        track = detect_contacts(resample(part, plan.rate_hz))
        plan = replace(plan, contacts=track)
    return plan, part
