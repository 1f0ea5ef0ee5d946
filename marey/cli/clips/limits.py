"""`marey limits`: learn joint limits from clips and look at them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import Json, Unit, load_clip, print_json, remark

if TYPE_CHECKING:
    from marey.kinematics import JointLimits


app = typer.Typer(help="Learn and show joint limits.", no_args_is_help=True, rich_markup_mode=None)

DEFAULT_JOINTS = ("left_shoulder", "left_hip", "left_elbow")  # roles drawn when no joint is named


@app.command()
def fit(
    clips: Annotated[list[str], typer.Argument(metavar="CLIPS...", help="Motion files of one skeleton.")],
    out: Annotated[str, typer.Option("-o", "--out", help="File to write (.safetensors).")],
    kind: Annotated[str, typer.Option(help="sdf, box, ellipsoid, cone, reach or field.")] = "sdf",
    resolution: Annotated[int, typer.Option(min=4, max=128, help="sdf: nodes of each axis.")] = 16,
    metric: Annotated[str, typer.Option(help="sdf: so3, euler or euler_periodic.")] = "so3",
    margin_deg: Annotated[float | None, typer.Option(min=0.0, max=90.0, help="sdf, box, cone, reach: margin.")] = None,
    read_rate_hz: Annotated[float | None, typer.Option(help="Frame rate of the files, if they are wrong.")] = None,
    unit: Unit = None,
    json: Json = False,
) -> None:
    """Learn limits of every joint from clips."""
    # Options of the class that learns this kind
    from math import radians

    from marey.base import UnknownNameError
    from marey.kinematics import fit_limits

    if metric not in ("so3", "euler", "euler_periodic"):
        raise UnknownNameError("metric", metric, "marey limits fit", ("so3", "euler", "euler_periodic"))
    options: dict[str, Any] = {"resolution": resolution, "metric": metric} if kind == "sdf" else {}
    if margin_deg is not None and kind in ("sdf", "box", "cone", "reach"):
        options["margin_rad"] = radians(margin_deg)
    limits = fit_limits([load_clip(clip, rate_hz=read_rate_hz, unit=unit) for clip in clips], kind, **options)
    limits.save(out)
    for note in getattr(limits, "notes", ()):
        remark(note)
    _report_limits(limits, out, json=json)


@app.command()
def show(
    limits: Annotated[str, typer.Argument(metavar="LIMITS", help="File that `marey limits fit` wrote.")],
    out: Annotated[str | None, typer.Option("-o", "--out", help="Also draw the sets (.png, .pdf, .svg).")] = None,
    joint: Annotated[list[str] | None, typer.Option("--joint", "-j", help="Joint or role; repeatable.")] = None,
    clip: Annotated[str | None, typer.Option(help="Clip to draw into the sets and to check.")] = None,
    json: Json = False,
) -> None:
    """Say what limits hold; draw the feasible sets in angle space and where the bones can point."""
    from marey.kinematics import load_limits, plot_limits

    found = load_limits(limits)
    motion = None if clip is None else load_clip(clip)
    facts: dict[str, Any] = {}
    if motion is not None:
        violation = found.violations(motion.rotations)
        facts = {"max_violation_rad": float(violation.max()), "feasible": float((violation <= 1e-9).all(axis=1).mean())}
    _report_limits(found, limits, json=json, **facts)
    if out is not None:
        plot_limits(found, _resolve_joints(found, joint), motion=motion, path=out)
        remark(f"wrote {out}")


def _resolve_joints(limits: JointLimits, names: list[str] | None) -> list[str]:
    """Joints named by themselves or by their role; some telling ones by default."""
    from marey.skeleton import role_map

    roles = role_map(limits.skeleton)
    if names is None:
        found = [limits.skeleton.names[roles[role]] for role in DEFAULT_JOINTS if role in roles]
        return found or list(limits.skeleton.names[1:4])
    own = limits.skeleton.names
    return [own[roles[n]] if n not in own and n in roles else own[limits.skeleton.index(n)] for n in names]


def _report_limits(limits: JointLimits, file: str, *, json: bool, **facts: float) -> None:
    size = sum(array.nbytes for array in limits.to_arrays().values())
    if json:
        shape = {"kind": limits.kind, "skeleton": limits.skeleton.name, "num_joints": limits.skeleton.num_joints}
        print_json({"file": file, **shape, "num_bytes": size, **facts})
        return
    typer.echo(f"{file}  {limits!r}  {size / 1024:.0f} kB")
    for name, value in facts.items():
        typer.echo(f"{name:<20} {value:.6g}")
