"""`marey limits`: learn joint limits from clips, compare their kinds, look at them and sculpt them."""

from __future__ import annotations

from dataclasses import asdict
from math import degrees, inf, radians
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import PLOT_SUFFIXES, Csv, Json, RateHz, Unit, load_clip, one_of, print_json, remark, writable

if TYPE_CHECKING:
    from marey.kinematics import JointField, JointLimits, SdfLimits


app = typer.Typer(help="Learn, compare, show and sculpt joint limits.", no_args_is_help=True, rich_markup_mode=None)

DEFAULT_JOINTS = ("left_shoulder", "left_hip", "left_elbow")  # roles drawn when no joint is named
KINDS = ("sdf", "box", "ellipsoid", "cone", "reach", "field")
METRICS = ("so3", "euler", "euler_periodic")
Clips = Annotated[list[str], typer.Argument(metavar="CLIPS...", help="Motion files of one skeleton.")]
LimitsFile = Annotated[str, typer.Argument(metavar="LIMITS", help="File that `marey limits fit` wrote.")]
LimitsOut = Annotated[
    str, typer.Option("-o", "--out", help="File to write (.safetensors).", callback=writable(".safetensors"))
]
Joint = Annotated[str, typer.Argument(metavar="JOINT", help="Joint or role.")]


@app.command()
def fit(
    clips: Clips,
    out: LimitsOut,
    kind: Annotated[str, typer.Option(help=f"{', '.join(KINDS)}.", callback=one_of(*KINDS))] = "sdf",
    resolution: Annotated[int, typer.Option(min=4, max=128, help="sdf: nodes of each axis.")] = 16,
    metric: Annotated[str, typer.Option(help=f"sdf: {', '.join(METRICS)}.", callback=one_of(*METRICS))] = "so3",
    margin_deg: Annotated[float | None, typer.Option(min=0.0, max=90.0, help="sdf, box, cone, reach: margin.")] = None,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
    json: Json = False,
) -> None:
    """Learn limits of every joint from clips."""
    from marey.kinematics import fit_limits

    # Options that this kind of limits takes
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
    limits: LimitsFile,
    out: Annotated[
        str | None,
        typer.Option("-o", "--out", help="Also draw the sets (.png, .pdf, .svg).", callback=writable(*PLOT_SUFFIXES)),
    ] = None,
    joint: Annotated[list[str] | None, typer.Option("--joint", "-j", help="Joint or role; repeatable.")] = None,
    clip: Annotated[str | None, typer.Option(help="Clip to draw into the sets and to check.")] = None,
    json: Json = False,
) -> None:
    """Say what limits hold; draw the feasible sets in angle space and where the bones can point."""
    from marey.kinematics import load_limits, plot_limits
    from marey.skeleton import role_map

    found = load_limits(limits)
    motion = None if clip is None else load_clip(clip)
    facts: dict[str, Any] = {}
    if motion is not None:
        # Share of the frames that keep all limits
        violation = found.violations(motion.rotations)
        facts = {"max_violation_rad": float(violation.max()), "feasible": float((violation <= 1e-9).all(axis=1).mean())}
    _report_limits(found, limits, json=json, **facts)
    if out is not None:
        # The joints asked for, some telling ones, or the first three
        names, roles = found.skeleton.names, role_map(found.skeleton)
        numbers = [found.skeleton.index(name) for name in joint or DEFAULT_JOINTS if joint or name in roles]
        plot_limits(found, [names[j] for j in numbers or range(1, 4)], motion=motion, path=out)
        remark(f"wrote {out}")


@app.command()
def joints(clips: Clips, json: Json = False, csv: Csv = None) -> None:
    """Estimate of every joint whether it is fixed, a hinge or a ball, its axis and its intervals."""
    from marey.kinematics import estimate_joints

    rows: list[dict[str, Any]] = []
    for estimate in estimate_joints([load_clip(clip) for clip in clips]):
        # An interval without end is null
        low, high = ([None if abs(v) == inf else v for v in b.tolist()] for b in (estimate.low_rad, estimate.high_rad))
        row = {"joint": estimate.joint, "kind": estimate.kind, "axis": estimate.axis.tolist()}
        row |= {"low_rad": low, "high_rad": high, "note": estimate.note}
        rows.append(row)
        if json:
            print_json(row)
        else:
            # A hinge has one interval, a ball has three
            count = {"fixed": 0, "hinge": 1, "ball": 3}[estimate.kind]
            ends = zip(estimate.low_rad[:count], estimate.high_rad[:count], strict=True)
            spans = [f"{degrees(a):.0f} to {degrees(b):.0f}" for a, b in ends]
            unit = " degrees" if spans else ""
            typer.echo(f"{estimate.joint:<20} {estimate.kind:<6} {'  '.join(spans)}{unit}".rstrip())
    if csv is not None:
        from marey.base import write_table

        write_table(rows, csv)
        remark(f"wrote {csv} ({len(rows)} rows)")


@app.command()
def compare(
    clips: Clips,
    held_out: Annotated[
        list[str] | None, typer.Option("--held-out", metavar="CLIP", help="Clip to judge by; repeatable.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help=f"Of {', '.join(KINDS)}; repeatable, all by default.", callback=one_of(*KINDS)),
    ] = None,
    joint: Annotated[list[str] | None, typer.Option("--joint", "-j", help="Joint or role; repeatable.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the rotations that measure the volume.")] = 0,
    json: Json = False,
    csv: Csv = None,
) -> None:
    """Fit every kind of limits to clips and say what each holds, how tight, how fast and how large it is."""
    import numpy as np

    from marey.kinematics import compare_limits

    unseen = [load_clip(clip) for clip in held_out or ()]
    # Engell table 1: every kind fitted to the same clips
    scores = compare_limits(
        [load_clip(clip) for clip in clips],
        held_out=unseen or None,
        kinds=kind or ("box", "cone", "reach", "ellipsoid", "field", "sdf"),
        joints=joint,
        rng=np.random.default_rng(seed),
    )
    rows = [asdict(score.model) | {k: v for k, v in asdict(score).items() if k != "model"} for score in scores]
    for row in rows:
        if json:
            print_json(row)
        else:
            new = "" if row["held_out"] is None else f"  held out {row['held_out']:.1%}"
            typer.echo(
                f"{row['kind']:<10} training {row['training']:.1%}{new}  volume {row['volume']:.1%}  "
                f"{row['project_ns']:.0f} ns  {row['num_bytes'] / 1024:.0f} kB  {row['capability']}"
            )
    if csv is not None:
        from marey.base import write_table

        write_table(rows, csv)
        remark(f"wrote {csv} ({len(rows)} rows)")


@app.command()
def surface(
    limits: LimitsFile,
    joint: Joint,
    out: Annotated[str, typer.Option("-o", "--out", help="Surface to write (.obj).", callback=writable(".obj"))],
    clip: Annotated[str | None, typer.Option(help="Clip that the surface must hold.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="As the field is, not smoothed and with its holes.")] = False,
    json: Json = False,
) -> None:
    """Write the surface of a joint's feasible set, to be edited in a modelling program (limits of kind sdf)."""
    from marey.kinematics import iso_surface, shrink_wrap

    found, field = _load_joint_field(limits, joint)
    if exact:
        mesh = iso_surface(field.field)
    else:
        # The surface holds the rotations of the clip, or without one the feasible nodes of the grid
        samples = field.field.grid.nodes()[(field.field.values <= field.field.epsilon).ravel()]
        if clip is not None:
            samples = field.chart.coordinates(load_clip(clip).rotations[:, found.skeleton.index(joint)])
        mesh = shrink_wrap(field.field, samples)
    mesh.save_obj(out)
    _report_surface(joint, out, len(mesh.vertices), len(mesh.faces), is_json=json)


@app.command()
def sculpt(
    limits: LimitsFile,
    joint: Joint,
    surface: Annotated[str, typer.Argument(metavar="OBJ", help="Closed surface, as `marey limits surface` writes.")],
    out: LimitsOut,
    resolution: Annotated[int | None, typer.Option(min=8, max=128, help="Nodes of each axis.")] = None,
    json: Json = False,
) -> None:
    """Replace the feasible set of a joint by the inside of a surface (limits of kind sdf)."""
    from marey.kinematics import load_obj, resculpt_joint

    found, field = _load_joint_field(limits, joint)
    mesh = load_obj(surface)
    found.replace_joint(joint, resculpt_joint(field, mesh, resolution=resolution)).save(out)
    _report_surface(joint, out, len(mesh.vertices), len(mesh.faces), is_json=json)


def _load_joint_field(file: str, joint: str) -> tuple[SdfLimits, JointField]:
    """Limits of kind sdf, and the field of one joint."""
    from marey.base import InputError
    from marey.kinematics import SdfLimits, load_limits

    found = load_limits(file)
    if not isinstance(found, SdfLimits):
        raise InputError(f"'{file}' holds limits of kind {found.kind}", "Learn them with --kind sdf")
    return found, found.of(joint)


def _report_surface(joint: str, file: str, vertices: int, faces: int, *, is_json: bool) -> None:
    if is_json:
        print_json({"joint": joint, "out": file, "num_vertices": vertices, "num_faces": faces})
    else:
        typer.echo(f"{file}  {joint}  {vertices} vertices  {faces} faces")


def _report_limits(limits: JointLimits, file: str, *, json: bool, **facts: float) -> None:
    size = sum(array.nbytes for array in limits.to_arrays().values())
    if json:
        shape = {"kind": limits.kind, "skeleton": limits.skeleton.name, "num_joints": limits.skeleton.num_joints}
        print_json({"file": file, **shape, "num_bytes": size, **facts})
        return
    typer.echo(f"{file}  {limits!r}  {size / 1024:.0f} kB")
    for name, value in facts.items():
        typer.echo(f"{name:<20} {value:.6g}")
