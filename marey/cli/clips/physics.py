"""`marey physics`: could a body have made this motion?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import Clip, Json, RateHz, Unit, load_clip, print_json, remark

if TYPE_CHECKING:
    from marey.dynamics import ReactionComparison, ValidityReport
    from marey.kinematics import JointLimits
    from marey.motion import Motion


MARKER_SUFFIXES = (".trc", ".c3d")


def physics(
    clip: Clip,
    json: Json = False,
    plot: Annotated[str | None, typer.Option("--plot", "-o", help="Draw forces and margins to this PNG.")] = None,
    grf: Annotated[str | None, typer.Option("--grf", help="Measured ground reaction (.mot, .sto) to compare.")] = None,
    mass_kg: Annotated[float | None, typer.Option(min=1.0, max=1000.0, help="Mass of the body.")] = None,
    friction: Annotated[float, typer.Option(min=0.0, max=10.0, help="Friction of the floor.")] = 0.8,
    tolerance: Annotated[float, typer.Option(min=1e-6, help="Green up to this, in body weights.")] = 0.05,
    floor: Annotated[str, typer.Option(help="flat, plants (steps and pegs), or a height in metres.")] = "flat",
    limits: Annotated[str | None, typer.Option("--limits", help="File of joint limits to check as well.")] = None,
    frames: Annotated[bool, typer.Option("--frames", help="JSON: the numbers of each frame too.")] = False,
    start_s: Annotated[float, typer.Option(help="Time of the first frame on the clock of the plates.")] = 0.0,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Say which stretches of a motion a body could have made, and what is wrong with the others.

    Exit code 0 whatever the verdict: it is on the first line, and in the JSON.
    """
    from marey.dynamics import Body, check_validity

    motion = _load_motion(clip, rate_hz=read_rate_hz, unit=unit)
    body = Body.from_motion(motion, mass_kg=mass_kg)
    bounds = None if limits is None else _load_limits(limits)
    report = check_validity(
        motion, body, friction=friction, tolerance=tolerance, floor=_parse_floor(floor), limits=bounds
    )
    for warning in report.warnings:
        remark(f"{clip}: {warning}")
    measured = None if grf is None else _compare_forces(report, grf, start_s)
    if json:
        facts = report.to_json(frames=frames) | {"file": clip}
        print_json(facts | ({} if measured is None else {"measured": measured.to_json()}))
    else:
        typer.echo(f"{clip}  {report.verdict}")
        for span in report.spans:
            typer.echo(f"{span.start_s:8.3f} {span.stop_s:8.3f} s  {span.status:<6} {span.words}")
        if measured is not None:
            typer.echo(f"{measured.sentence}")
    if plot is not None:
        from marey.dynamics import plot_report

        plot_report(report, plot, measured=measured)
        remark(f"wrote {plot}")


def _load_motion(clip: str, **options: Any) -> Motion:
    """Read a clip; markers are fitted with the canonical human."""
    if Path(clip).suffix.lower() not in MARKER_SUFFIXES:
        return load_clip(clip, **options)
    from marey.io import load_markers
    from marey.kinematics import fit_markers

    fit = fit_markers(load_markers(clip, **options))
    remark(f"{clip}: fitted a body to {len(fit.sites)} markers, {1e3 * fit.rms_m:.1f} mm RMS")
    return fit.motion


def _parse_floor(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _load_limits(file: str) -> JointLimits:
    from marey.kinematics import load_limits

    return load_limits(file)


def _compare_forces(report: ValidityReport, grf: str, start_s: float) -> ReactionComparison:
    from marey.dynamics import compare_reaction
    from marey.io import load_ground_reaction

    return compare_reaction(report, load_ground_reaction(grf), start_s=start_s)
