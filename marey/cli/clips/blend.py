"""`marey blend`: several clips with the same contacts become one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import Json, RateHz, Unit, check_targets, load_clip, print_json, remark, write_motion, write_strip

if TYPE_CHECKING:
    from marey.blending import BlendResult
    from marey.motion import Motion

MIN_FLIGHT_FRAMES, MIN_STANCE_FRAMES = 5, 4  # shorter phases cannot be judged


def blend(
    clips: Annotated[list[str], typer.Argument(metavar="CLIPS...", help="Two or more motion files of one skeleton.")],
    out: Annotated[str | None, typer.Option("-o", "--out", help="Motion file to write: .bvh, .glb, .gltf, ...")] = None,
    weights: Annotated[str | None, typer.Option(metavar="LIST", help="One for each clip, such as 0.3,0.7.")] = None,
    trim: Annotated[bool, typer.Option(help="Cut the clips to their longest common run of contacts.")] = True,
    time: Annotated[str, typer.Option(help="Duration of a phase: sqrt (keeps gravity) or linear.")] = "sqrt",
    root: Annotated[str, typer.Option(help="auto or com (centre of mass), or root, the naive rule.")] = "auto",
    stance: Annotated[str, typer.Option(help="contact keeps planted feet, foot_root places one of them.")] = "contact",
    rotations: Annotated[str, typer.Option(help="slerp or log.")] = "slerp",
    realign: Annotated[bool, typer.Option(help="Turn the clips to one heading after a flight that turns.")] = True,
    extrapolate: Annotated[bool, typer.Option(help="Allow weights from -0.25 to 1.25.")] = False,
    strip: Annotated[str | None, typer.Option(metavar="PNG", help="Film strip to draw.")] = None,
    count: Annotated[int, typer.Option(min=1, max=200, help="Bodies on the strip.")] = 12,
    json: Json = False,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Blend clips that step alike, phase by phase, and report what physics says about the result.

    Gravity holds in flight and planted feet stay. A phase that the legs cannot reach, and a visible jump of velocity
    between phases, are remarks; the exit code stays 0.
    """
    from marey.blending import blend as blend_motions

    if len(clips) < 2:
        raise typer.BadParameter("give two clips or more.")
    check_targets(out, strip)
    motions = [load_clip(clip, rate_hz=read_rate_hz, unit=unit) for clip in clips]
    if trim:
        motions = _trim_to_common_contacts(motions)
    shares = _parse_weights(weights, len(motions))
    faults = _predict_faults(motions, shares)
    result = blend_motions(
        motions, shares, time=time, root=root, stance=stance, rotations=rotations, realign=realign,
        extrapolate=extrapolate,
    )  # fmt: skip
    for sentence in (*faults, *result.report.problems):
        remark(sentence)
    write_motion(result.motion, out)
    write_strip(result.motion, strip, count)
    if json:
        print_json({"clips": clips, "out": out, "weights": shares, "predicted": faults, **_blend_facts(result)})
    else:
        verdict = "valid" if result.report.is_valid else f"{len(result.report.problems)} faults"
        phases = len(result.report.phases)
        typer.echo(f"{result.motion.num_frames} frames  {result.motion.duration_s:.2f} s  {phases} phases  {verdict}")


def _parse_weights(text: str | None, count: int) -> list[float]:
    if text is None:
        return [1.0 / count] * count
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"'{text}' is no list of weights; write 0.3,0.7.") from None


def _trim_to_common_contacts(motions: Sequence[Motion]) -> list[Motion]:
    """Cut every clip to the longest run of phases that all clips have, the first such run of each."""
    from marey.blending import cut_phases, phase_string

    cuts = [cut_phases(motion, clean=False) for motion in motions]
    contacts = [phase_string(cut).split("|") for cut in cuts]
    first = contacts[0]
    runs = [first[i:j] for i in range(len(first)) for j in range(len(first), i, -1)]
    for run in sorted(runs, key=len, reverse=True):
        starts = [start for start in (_find_run(one, run) for one in contacts) if start is not None]
        if len(starts) == len(motions):
            ends = [cut[start + len(run) - 1] for cut, start in zip(cuts, starts, strict=True)]
            trimmed = [
                motion[cut[start].start : end.start + end.motion.num_frames]
                for motion, cut, start, end in zip(motions, cuts, starts, ends, strict=True)
            ]
            if any(after.num_frames < before.num_frames for after, before in zip(trimmed, motions, strict=True)):
                remark(f"cut the clips to the {len(run)} phases that they share ({'|'.join(run)})")
            return trimmed
    return list(motions)  # nothing in common: the blend refuses them and names both sequences


def _find_run(contacts: Sequence[str], run: Sequence[str]) -> int | None:
    places = range(len(contacts) - len(run) + 1)
    return next((i for i in places if list(contacts[i : i + len(run)]) == list(run)), None)


def _predict_faults(motions: Sequence[Motion], weights: Sequence[float]) -> list[str]:
    """Reasons why phases of the first two clips should not be blended, from the clips alone."""
    from marey.blending import cut_phases, predict_validity

    cuts = [cut_phases(motion) for motion in motions[:2]]
    total = max(abs(sum(weights[:2])), 1e-9)
    return [
        f"phase {number} ({pair[0].kind}): {reason}"
        for number, pair in enumerate(zip(*cuts, strict=False))
        for reason in (predict_validity(*pair, weights[0] / total).reasons if len(pair) == 2 else ())
    ]


def _blend_facts(result: BlendResult) -> dict[str, Any]:
    """The report as plain JSON values, with measures of every phase of the result that is long enough."""
    from dataclasses import asdict

    from marey.blending import check_contact, check_flight, cut_phases

    measured: list[dict[str, Any]] = []
    for phase in cut_phases(result.motion, clean=False):
        is_flight, frames = phase.kind == "flight", phase.motion.num_frames
        facts: dict[str, Any] = {"kind": phase.kind, "start_s": phase.start / result.motion.rate_hz, "frames": frames}
        if is_flight and frames >= MIN_FLIGHT_FRAMES:
            facts |= asdict(check_flight(phase.motion))
        elif phase.feet and frames >= MIN_STANCE_FRAMES:
            facts |= asdict(check_contact(phase.motion))
        measured.append(facts)
    report = result.report
    return {
        "num_frames": result.motion.num_frames,
        "duration_s": result.motion.duration_s,
        "valid": report.is_valid,
        "problems": list(report.problems),
        "phases": [asdict(phase) for phase in report.phases],
        "velocity_jumps": [boundary.velocity_jump.tolist() for boundary in report.boundaries],
        "measured": measured,
    }
