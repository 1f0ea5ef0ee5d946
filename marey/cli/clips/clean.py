"""`marey clean`: remove faults of captured takes, and report every change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from marey.cli.common import (
    MARKER_SUFFIXES,
    Outcome,
    expand_inputs,
    judge_motion,
    load_body_motion,
    plan_motion_files,
    plan_outputs,
    remark,
    run_each,
    write_motion,
)
from marey.cli.options import (
    Clips,
    Count,
    Csv,
    Format,
    Json,
    OutOrFolder,
    ReadOptions,
    RequireValid,
    check_picture_file,
    flat_options,
    option,
)

SHOWN_FINDINGS = 6  # of one step, on the screen; the JSON has all


@flat_options
def clean(
    takes: Clips,
    out: OutOrFolder,
    skip: Annotated[list[str] | None, option("Leave a step out; may be repeated.", metavar="STEP")] = None,
    only: Annotated[list[str] | None, option("Do only this step; may be repeated.", metavar="STEP")] = None,
    repair: Annotated[bool, option("Also repair stretches that break physics; slow.", "--repair")] = False,
    strip: Annotated[
        str | None, option("Draw the take before and after, one above the other, to this PNG; for several, a folder.")
    ] = None,
    count: Count = 6,
    format: Format = "bvh",  # noqa: A002 (the option is called so)
    require_valid: RequireValid = False,
    json: Json = False,
    csv: Csv = None,
    *,
    read: ReadOptions,
) -> None:
    """Clean captured takes.

    Steps, in this order: time-base, gaps, exchanges (of left and right limbs), flips, spikes, jumps (of the root),
    limits (of knees and elbows), tremor, floor, plants; with --repair also physics. Each step says what it found and
    how far it moved the body. The table has one row for each step.
    """
    from marey.pipeline.cleaning import DEFAULT_STEPS, STEPS, clean_motion

    for name in (*(skip or ()), *(only or ())):
        if name not in STEPS:
            raise typer.BadParameter(f"there is no step '{name}'; it is one of {', '.join(STEPS)}.")
    wanted = [name for name in (only or DEFAULT_STEPS) if name not in (skip or ())] + (["repair"] if repair else [])
    files = expand_inputs(takes, MARKER_SUFFIXES)
    targets = plan_motion_files(files, out, format)
    pictures = {} if strip is None else plan_outputs(files, strip, ".png")
    for picture in pictures.values():
        check_picture_file(picture)

    def clean_take(take: str) -> Outcome:
        from marey.measure import measure_motion

        motion = load_body_motion(take, read)
        result = clean_motion(motion, steps=wanted)
        write_motion(result.motion, targets[take])
        if take in pictures:
            from marey.picture import compare_strips, save_image

            # The take above, what became of it below
            save_image(compare_strips([motion, result.motion], count=count), pictures[take])
            remark(f"wrote {pictures[take]}")
        # The meter, not the steps, says what became better and worse
        before, after = measure_motion(motion), measure_motion(result.motion)
        was, now = before.values, after.values
        validity, fault = judge_motion(result.motion, is_required=require_valid)
        # One line for each step with its findings, then what the meter says before and after
        lines = [Path(take).name] if len(files) > 1 else []
        for step in result.steps:
            lines.append(step.sentence)
            lines += [f"    {finding}" for finding in step.findings[:SHOWN_FINDINGS]]
            more = len(step.findings) - SHOWN_FINDINGS
            lines += [f"    and {more} more"] if more > 0 else []
        lines += ["", f"{'measure':<34}{'before':>10}{'after':>10}"]
        lines += [f"{name:<34}{was[name]:>10.3g}{now[name]:>10.3g}" for name in was if name in now]
        lines += [f"before: {fault}" for fault in before.faults] + [f"after: {fault}" for fault in after.faults]
        facts: dict[str, Any] = {"out": targets[take], **result.to_json()}
        facts |= {"before": before.to_json(), "after": after.to_json(), **validity}
        return Outcome(facts, "\n".join(lines), result.table_rows(), fault)

    run_each("clean", files, clean_take, is_json=json, csv=csv)
