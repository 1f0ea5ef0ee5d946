"""`marey measure`: figures of a clip beside those of captured people, and its faults."""

from __future__ import annotations

from typing import Annotated

import typer

from marey.cli.common import (
    MARKER_SUFFIXES,
    Outcome,
    expand_inputs,
    load_body_motion,
    load_world,
    make_ground,
    plan_outputs,
    remark,
    run_each,
)
from marey.cli.options import PLOT_SUFFIXES, Clips, Csv, Json, ReadOptions, check_target, flat_options, option


@flat_options
def measure(
    clips: Clips,
    json: Json = False,
    csv: Csv = None,
    against: Annotated[str | None, option("The clip it was made from, beside it.", metavar="CLIP")] = None,
    world: Annotated[str | None, option("Sketch or problem whose walls and boxes count.", metavar="TOML")] = None,
    slope: Annotated[
        float | None, option("Ground of `marey walk --slope` of a script that starts at the origin.", metavar="DEG")
    ] = None,
    stairs: Annotated[
        tuple[float, float, int] | None, option("Ground of `marey walk --stairs`.", metavar="RISE TREAD COUNT")
    ] = None,
    kind: Annotated[
        str | None, option("walk, run, jump or other, if the guess is wrong.", choices=("walk", "run", "jump", "other"))
    ] = None,
    plot: Annotated[
        str | None, option("Draw the figures to this PNG; for several clips, a folder.", "--plot", "-o")
    ] = None,
    require_clean: Annotated[bool, option("Exit with 1 where a fault is named.", "--require-clean")] = False,
    *,
    read: ReadOptions,
) -> None:
    """Measure a clip by geometry alone and name its faults, with their times.

    No contact track and no setting of an engine is read. Beside each figure stand the 1st and 99th percentile of
    captured walks, runs or jumps; lines with a ! are faults. Exit code 0 whatever is found, unless --require-clean.
    Several clips give one line and their faults each. The table has one row for each figure.
    """
    files = expand_inputs(clips, MARKER_SUFFIXES)
    pictures = {} if plot is None else plan_outputs(files, plot, ".png")
    for picture in pictures.values():
        check_target(picture, PLOT_SUFFIXES)
    if slope is not None and stairs is not None:
        raise typer.BadParameter("give --slope or --stairs.")
    from marey.measure import measure_motion
    from marey.world import Sketch

    source = None if against is None else load_body_motion(against)
    surroundings = load_world(world)
    things = surroundings.world if isinstance(surroundings, Sketch) else surroundings

    ground = None if slope is None and stairs is None else make_ground(slope, stairs)

    def judge(clip: str) -> Outcome:
        motion = load_body_motion(clip, read)
        found = measure_motion(motion, against=source, world=things, ground=ground, kind=kind)
        lines = [f"{clip}  {found.sentence.split(', ', 1)[1]}"]
        if len(files) == 1:
            lines.append(f"{'':43}{'value':>11}  {'unit':<8}{'1 %':>10}{'99 %':>11}{'source':>11}" if source is not None
                         else f"{'':43}{'value':>11}  {'unit':<8}{'1 %':>10}{'99 %':>11}")  # fmt: skip
            for figure in found.figures:
                numbers = [figure.low, figure.high] + ([] if source is None else [figure.source])
                beside = "".join(f"{'' if number is None else f'{number:.4g}':>11}" for number in numbers)
                lines.append(
                    f"  {figure.name:<41}{figure.value:>11.4g}  {figure.unit:<7}{beside}  {figure.remark}".rstrip()
                )
        lines += [f"! {fault}" for fault in found.faults]
        if clip in pictures:
            found.plot(pictures[clip])
            remark(f"wrote {pictures[clip]}")
        fault = f"{len(found.faults)} faults, first: {found.faults[0]}" if require_clean and found.faults else None
        return Outcome(found.to_json(), "\n".join(lines), found.table_rows(), fault)

    run_each("measure", files, judge, is_json=json, csv=csv)
