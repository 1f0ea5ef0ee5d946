"""`marey blend`: one clip from several with the same contacts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from marey.cli.common import load_clip, print_json, remark, warn, write_motion, write_strip
from marey.cli.options import Count, Json, MotionOut, ReadOptions, Strip, flat_options, option

if TYPE_CHECKING:
    from marey.motion import Motion

ROOTS = ("auto", "com", "root")
MIN_FLIGHT_FRAMES, MIN_STANCE_FRAMES = 5, 4  # shorter phases cannot be judged


@flat_options
def blend(
    clips: Annotated[list[str], typer.Argument(metavar="CLIPS...", help="Two or more motion files of one skeleton.")],
    out: MotionOut = None,
    weights: Annotated[str | None, option("One for each clip, such as 0.3,0.7.", metavar="LIST")] = None,
    trim: Annotated[bool, option("Cut the clips to their longest common run of contacts.")] = True,
    time: Annotated[
        str, option("Duration of a phase: sqrt (keeps gravity) or linear.", choices=("sqrt", "linear"))
    ] = "sqrt",
    root: Annotated[str, option("auto or com (centre of mass), or root, the naive rule.", choices=ROOTS)] = "auto",
    stance: Annotated[
        str, option("contact keeps planted feet, foot_root places one of them.", choices=("contact", "foot_root"))
    ] = "contact",
    rotations: Annotated[str, option("slerp or log.", choices=("slerp", "log"))] = "slerp",
    realign: Annotated[bool, option("Turn the clips to one heading after a flight that turns.")] = True,
    extrapolate: Annotated[bool, option("Allow weights from -0.25 to 1.25.")] = False,
    require_valid: Annotated[bool, option("Exit with 1 where the blend has a fault.", "--require-valid")] = False,
    strip: Strip = None,
    count: Count = 12,
    json: Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Blend clips with the same contacts, phase by phase, and report the physical validity of the result.

    Gravity holds in flight and planted feet stay. A phase that the legs cannot reach, and a visible jump of velocity
    between phases, are warnings; the exit code stays 0 unless --require-valid.
    """
    from marey.blending import blend as blend_motions
    from marey.blending import cut_phases, predict_validity

    if len(clips) < 2:
        raise typer.BadParameter("give two clips or more.")
    # Equal weights unless a list is given
    try:
        shares = [1.0 / len(clips)] * len(clips) if weights is None else [float(part) for part in weights.split(",")]
    except ValueError:
        raise typer.BadParameter(f"'{weights}' is no list of weights; write 0.3,0.7.") from None
    motions = [load_clip(clip, read) for clip in clips]
    if trim:
        motions = _trim_to_common_contacts(motions)
    # Reasons not to blend phases of the first two clips, from the clips alone
    cuts = [cut_phases(motion) for motion in motions[:2]]
    share = shares[0] / max(abs(sum(shares[:2])), 1e-9)
    faults = [
        f"phase {number} ({first.kind}): {reason}"
        for number, (first, second) in enumerate(zip(cuts[0], cuts[1], strict=False))
        for reason in predict_validity(first, second, share).reasons
    ]
    result = blend_motions(
        motions, shares, time=time, root=root, stance=stance, rotations=rotations, realign=realign,
        extrapolate=extrapolate,
    )  # fmt: skip
    for sentence in (*faults, *result.report.problems):
        warn(sentence)
    write_motion(result.motion, out)
    write_strip(result.motion, strip, count)
    if json:
        # The report as plain JSON values, with measures of every phase of the result that is long enough
        from dataclasses import asdict

        from marey.blending import check_contact, check_flight, cut_phases

        measured: list[dict[str, Any]] = []
        # Flights must fall freely, planted feet must not slide
        for phase in cut_phases(result.motion, clean=False):
            is_flight, frames = phase.kind == "flight", phase.motion.num_frames
            facts: dict[str, Any] = {
                "kind": phase.kind,
                "start_s": phase.start / result.motion.rate_hz,
                "frames": frames,
            }
            if is_flight and frames >= MIN_FLIGHT_FRAMES:
                facts |= asdict(check_flight(phase.motion))
            elif phase.feet and frames >= MIN_STANCE_FRAMES:
                facts |= asdict(check_contact(phase.motion))
            measured.append(facts)
        report = result.report
        print_json(
            {
                "clips": clips,
                "out": out,
                "weights": shares,
                "predicted": faults,
                "num_frames": result.motion.num_frames,
                "duration_s": result.motion.duration_s,
                "valid": report.is_valid,
                "problems": list(report.problems),
                "phases": [asdict(phase) for phase in report.phases],
                "velocity_jumps": [boundary.velocity_jump.tolist() for boundary in report.boundaries],
                "measured": measured,
            }
        )
    else:
        verdict = "valid" if result.report.is_valid else f"{len(result.report.problems)} faults"
        phases = len(result.report.phases)
        typer.echo(f"{result.motion.num_frames} frames  {result.motion.duration_s:.2f} s  {phases} phases  {verdict}")
    if require_valid and not result.report.is_valid:
        raise typer.Exit(1)


def _trim_to_common_contacts(motions: Sequence[Motion]) -> list[Motion]:
    """Cut every clip to the longest run of phases that all clips have, the first such run of each."""
    from marey.blending import cut_phases, phase_string

    # Phases of each clip as a string of contacts, such as L|LR|R
    cuts = [cut_phases(motion, clean=False) for motion in motions]
    contacts = [phase_string(cut).split("|") for cut in cuts]
    first = contacts[0]
    # Every run of phases of the first clip, the longest first
    runs = [first[i:j] for i in range(len(first)) for j in range(len(first), i, -1)]
    for run in sorted(runs, key=len, reverse=True):
        # Where the run begins in each clip, or None
        starts = [
            next((i for i in range(len(one) - len(run) + 1) if one[i : i + len(run)] == run), None) for one in contacts
        ]
        if None in starts:
            continue
        trimmed: list[Motion] = []
        for motion, cut, start in zip(motions, cuts, cast(list[int], starts), strict=True):
            last = cut[start + len(run) - 1]
            trimmed.append(motion[cut[start].start : last.start + last.motion.num_frames])
        if any(after.num_frames < before.num_frames for after, before in zip(trimmed, motions, strict=True)):
            remark(f"cut the clips to the {len(run)} phases that they share ({'|'.join(run)})")
        return trimmed
    return list(motions)  # nothing in common: the blend refuses them and names both sequences
