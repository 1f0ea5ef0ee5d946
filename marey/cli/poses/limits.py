"""`marey limits`: learn joint limits from clips, compare their kinds, look at them and sculpt them."""

from __future__ import annotations

from dataclasses import asdict
from math import degrees, inf, radians
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import load_clip, print_json, print_result, remark, write_rows
from marey.cli.options import (
    PLOT_SUFFIXES,
    Csv,
    Json,
    ReadOptions,
    Up,
    flat_options,
    option,
    usage_of,
)

if TYPE_CHECKING:
    from marey.kinematics import JointField, JointLimits, SdfLimits
    from marey.motion import Motion


app = typer.Typer(help="Learn, compare, show and sculpt joint limits.", no_args_is_help=True, rich_markup_mode=None)

DEFAULT_JOINTS = ("left_shoulder", "left_hip", "left_elbow")  # roles drawn when no joint is named
KINDS = ("sdf", "box", "ellipsoid", "cone", "reach", "field")
FEASIBLE_RAD = 1e-9  # [rad] a violation below is rounding
METRICS = ("so3", "euler", "euler_periodic")
Clips = Annotated[list[str], typer.Argument(metavar="CLIPS...", help="Motion files of one skeleton.")]
LimitsFile = Annotated[str, typer.Argument(metavar="LIMITS", help="File that `marey limits fit` wrote.")]
LimitsOut = Annotated[str, option("File to write (.safetensors).", "-o", "--out", suffixes=(".safetensors",))]
Joint = Annotated[str, typer.Argument(metavar="JOINT", help="Joint or role.")]


@app.command()
@flat_options
def fit(
    clips: Clips,
    out: LimitsOut,
    kind: Annotated[str | None, option(f"{', '.join(KINDS)}.  [default: sdf]", choices=KINDS)] = None,
    resolution: Annotated[int | None, option("sdf: nodes of each axis.  [default: 16]", min=4, max=128)] = None,
    metric: Annotated[str | None, option(f"sdf: {', '.join(METRICS)}.  [default: so3]", choices=METRICS)] = None,
    margin_deg: Annotated[float | None, option("sdf, box, cone, reach: margin.", min=0.0, max=90.0)] = None,
    anatomical: Annotated[bool, option("Shipped limits of a human, not learnt.", "--anatomical")] = False,
    widen: Annotated[bool, option("Anatomical limits that hold the clips too.", "--widen")] = False,
    *,
    read: ReadOptions,
    json: Json = False,
) -> None:
    """Learn limits of every joint from clips, or take anatomical ones for the skeleton of the first."""
    from marey.kinematics import anatomical_limits, fit_limits

    # Options that this kind of limits takes; others are refused
    is_shipped = anatomical or widen
    margin = None if margin_deg is None else radians(margin_deg)
    for name, value, kinds in (
        ("kind", kind, KINDS),
        ("resolution", resolution, ("sdf",)),
        ("metric", metric, ("sdf",)),
        ("margin-deg", margin, ("sdf", "box", "cone", "reach")),
    ):
        if value is not None and (is_shipped or (kind or "sdf") not in kinds):
            owner = "anatomical limits" if is_shipped else f"limits of kind '{kind}'"
            raise typer.BadParameter(f"{owner} do not take it.", param_hint=f"'--{name}'")
    given = {"resolution": resolution, "metric": metric, "margin_rad": margin}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    motions = [load_clip(clip, read) for clip in clips]
    limits: JointLimits
    if is_shipped:
        limits = anatomical_limits(motions[0].skeleton, clips=motions if widen else ())
    else:
        limits = fit_limits(motions, kind or "sdf", **options)
    limits.save(out)
    for note in getattr(limits, "notes", ()):
        remark(note)
    _report_limits(limits, out, json=json)


@app.command()
def show(
    limits: LimitsFile,
    out: Annotated[
        str | None, option("Also draw the sets (.png, .pdf, .svg).", "-o", "--out", suffixes=PLOT_SUFFIXES)
    ] = None,
    joint: Annotated[list[str] | None, option("Joint or role; repeatable.", "--joint", "-j")] = None,
    clip: Annotated[str | None, option("Clip to draw into the sets and to check.")] = None,
    up: Up = None,
    json: Json = False,
) -> None:
    """Say what limits hold; draw the feasible sets in angle space and where the bones can point."""
    from marey.kinematics import load_limits, plot_limits
    from marey.skeleton import role_map

    found = load_limits(limits)
    motion = None if clip is None else load_clip(clip, ReadOptions(up=up))
    facts: dict[str, Any] = {}
    if motion is not None:
        facts = _measure_clip(found, motion)
    _report_limits(found, limits, json=json, **facts)
    if out is not None:
        # The joints asked for, some telling ones, or the first three
        names, roles = found.skeleton.names, role_map(found.skeleton)
        numbers = [found.skeleton.index(name) for name in joint or DEFAULT_JOINTS if joint or name in roles]
        plot_limits(found, [names[j] for j in numbers or range(1, 4)], motion=motion, path=out)
        remark(f"wrote {out}")


@app.command()
def joints(clips: Clips, up: Up = None, json: Json = False, csv: Csv = None) -> None:
    """Estimate of every joint whether it is fixed, a hinge or a ball, its axis and its intervals."""
    from marey.kinematics import estimate_joints

    rows: list[dict[str, Any]] = []
    for estimate in estimate_joints([load_clip(clip, ReadOptions(up=up)) for clip in clips]):
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
    write_rows(rows, csv)


@app.command()
def compare(
    clips: Clips,
    held_out: Annotated[list[str] | None, option("Clip to judge by; repeatable.", metavar="CLIP")] = None,
    kind: Annotated[
        list[str] | None, option(f"Of {', '.join(KINDS)}; repeatable, all by default.", choices=KINDS)
    ] = None,
    joint: Annotated[list[str] | None, option("Joint or role; repeatable.", "--joint", "-j")] = None,
    seed: Annotated[int, option("Of the rotations that measure the volume.", min=0)] = 0,
    up: Up = None,
    json: Json = False,
    csv: Csv = None,
) -> None:
    """Fit every kind of limits to clips and say what each holds, how tight, how fast and how large it is."""
    import numpy as np

    from marey.kinematics import compare_limits

    unseen = [load_clip(clip, ReadOptions(up=up)) for clip in held_out or ()]
    # Engell table 1: every kind fitted to the same clips
    scores = compare_limits(
        [load_clip(clip, ReadOptions(up=up)) for clip in clips],
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
    write_rows(rows, csv)


@app.command(name="export")
def export_surface(
    limits: LimitsFile,
    joint: Joint,
    out: Annotated[str, option("Surface to write (.obj).", "-o", "--out", suffixes=(".obj",))],
    clip: Annotated[str | None, option("Clip that the surface must hold.")] = None,
    exact: Annotated[bool, option("As the field is, not smoothed and with its holes.", "--exact")] = False,
    up: Up = None,
    json: Json = False,
) -> None:
    """Write the surface of a joint's feasible set, to be edited in a modelling program (limits of kind sdf).

    A joint of one or two axes gives a thin solid: its surface is always exact.
    """
    from dataclasses import replace

    from marey.kinematics import build_solid, iso_surface, shrink_wrap

    found, field = _load_joint_field(limits, joint)
    solid = build_solid(field)
    if exact or not field.field.grid.is_axis.all():
        mesh = iso_surface(solid)
    else:
        # The surface holds the rotations of the clip, or without one the feasible nodes of the grid
        samples = solid.grid.nodes()[(solid.values <= solid.epsilon).ravel()]
        if clip is not None:
            samples = field.chart.coordinates(
                load_clip(clip, ReadOptions(up=up)).rotations[:, found.skeleton.index(joint)]
            )
        mesh = shrink_wrap(solid, samples)
    replace(mesh, chart=field.chart).save_obj(out)
    _report_joint(joint, out, json=json, num_vertices=len(mesh.vertices), num_faces=len(mesh.faces))


@app.command(name="import")
def import_surface(
    limits: LimitsFile,
    joint: Joint,
    surface: Annotated[str, typer.Argument(metavar="OBJ", help="Closed surface, as `marey limits export` writes.")],
    out: LimitsOut,
    resolution: Annotated[int | None, option("Nodes of each axis.", min=8, max=128)] = None,
    json: Json = False,
) -> None:
    """Replace the feasible set of a joint by the inside of a surface (limits of kind sdf)."""
    from marey.kinematics import load_obj, resculpt_joint

    found, field = _load_joint_field(limits, joint)
    mesh = load_obj(surface)
    found.replace_joint(joint, resculpt_joint(field, mesh, resolution=resolution)).save(out)
    _report_joint(joint, out, json=json, num_vertices=len(mesh.vertices), num_faces=len(mesh.faces))


@app.command()
def sculpt(
    limits: LimitsFile,
    joint: Joint,
    out: LimitsOut,
    brush: Annotated[
        list[str] | None, option("X,Y,Z,RADIUS,PUSH in degrees: rotation vector, reach, and how far out; repeatable.")
    ] = None,
    polygon: Annotated[
        str | None, option("CSV of corners: x, y, z, twist_low_deg, twist_high_deg; replaces the set.")
    ] = None,
    json: Json = False,
) -> None:
    """Sculpt the feasible set of a joint: draw it as a polygon of bone directions, push its surface with a brush."""
    import csv
    from pathlib import Path

    import numpy as np

    from marey.base import FormatError, InputError, MissingFileError
    from marey.kinematics import brush_joint, draw_joint
    from marey.lie import SO3

    if brush is None and polygon is None:
        raise InputError("nothing to sculpt with", "Give --brush, --polygon or both")
    found, field = _load_joint_field(limits, joint, is_drawn=polygon is not None)
    if polygon is not None:
        # Corners (M, 5) of a polygon: direction of the bone, lowest and highest twist [deg]
        if not Path(polygon).is_file():
            raise MissingFileError(polygon)
        corners: list[list[float]] = []
        with Path(polygon).open(encoding="utf-8", newline="") as lines:
            reader = csv.DictReader(lines)
            if tuple(reader.fieldnames or ()) != POLYGON_COLUMNS:
                raise FormatError("other columns than a polygon has", polygon, 1, f"Write {','.join(POLYGON_COLUMNS)}.")
            for number, row in enumerate(reader, start=2):
                try:
                    corners.append([float(row[name]) for name in POLYGON_COLUMNS])
                except (TypeError, ValueError):
                    what = "a corner without five numbers"
                    raise FormatError(what, polygon, number, "Write five numbers.") from None
        rows = np.array(corners).reshape(-1, len(POLYGON_COLUMNS))
        field = draw_joint(found.skeleton, joint, rows[:, :3], np.deg2rad(rows[:, 3:]))
    for text in brush or ():
        with usage_of("--brush"):
            try:
                x, y, z, reach, push = (radians(float(part)) for part in text.split(","))
            except ValueError:
                raise InputError(f"brush '{text}'", "Write X,Y,Z,RADIUS,PUSH in degrees, 0,0,40,25,10 say") from None
            field = brush_joint(field, SO3.exp([x, y, z]), radius_rad=reach, push_rad=push)
    found.replace_joint(joint, field).save(out)
    _report_joint(joint, out, json=json, num_bytes=field.field.nbytes)


def _load_joint_field(file: str, joint: str, *, is_drawn: bool = False) -> tuple[SdfLimits, JointField]:
    """Limits of kind sdf, and the field of one joint; one that is drawn anew may be free."""
    from marey.base import InputError
    from marey.kinematics import SdfLimits, load_limits

    found = load_limits(file)
    if not isinstance(found, SdfLimits):
        raise InputError(f"'{file}' holds limits of kind {found.kind}", "Learn them with --kind sdf")
    known = found.joints[found.skeleton.index(joint)]
    return found, known if is_drawn and known is not None else found.of(joint)


POLYGON_COLUMNS = ("x", "y", "z", "twist_low_deg", "twist_high_deg")


def _report_joint(joint: str, file: str, *, json: bool, **facts: int) -> None:
    print_result(
        {"joint": joint, "out": file, **facts},
        f"{file}  {joint}  " + "  ".join(f"{value} {name[4:]}" for name, value in facts.items()),
        is_json=json,
    )


NEAR_RAD = 0.1  # [rad] a pose that is this near is called near


def _measure_clip(limits: JointLimits, motion: Motion) -> dict[str, Any]:
    """Shares of whole poses that keep the limits, and joint and time of the largest violation and of each joint's."""
    from marey.base import InputError

    if motion.skeleton.names != limits.skeleton.names:
        what = f"limits of '{limits.skeleton.name}' were given a clip of '{motion.skeleton.name}'"
        raise InputError(what, "Take limits and clip of one skeleton")
    violation, names = limits.violations(motion.rotations), motion.skeleton.names
    worst, rate = violation.max(axis=1), motion.rate_hz
    rows: list[dict[str, Any]] = []
    order: list[int] = violation.max(axis=0).argsort()[::-1].tolist()
    for j in order:
        frame = int(violation[:, j].argmax())
        if violation[frame, j] > FEASIBLE_RAD:
            count = int((violation[:, j] > FEASIBLE_RAD).sum())
            row = {"joint": names[j], "time_s": frame / rate, "violation_rad": float(violation[frame, j])}
            rows.append(row | {"num_frames": count})
    return {
        "feasible": float((worst <= FEASIBLE_RAD).mean()),
        "near": float((worst <= NEAR_RAD).mean()),
        "infeasible_frames": int((worst > FEASIBLE_RAD).sum()),
        "max_violation_rad": float(worst.max()),
        "max_error": rows[0] if rows else None,
        "joints": rows,
    }


def _report_limits(limits: JointLimits, file: str, *, json: bool, **facts: Any) -> None:
    size = sum(array.nbytes for array in limits.to_arrays().values())
    if json:
        shape = {"kind": limits.kind, "skeleton": limits.skeleton.name, "num_joints": limits.skeleton.num_joints}
        print_json({"file": file, **shape, "num_bytes": size, **facts})
        return
    typer.echo(f"{file}  {limits!r}  {size / 1024:.0f} kB")
    for name in ("feasible", "near"):
        if name in facts:
            typer.echo(f"{name:<20} {facts[name]:.1%} of whole poses")
    rows: list[dict[str, Any]] = facts.get("joints", [])
    for row in rows:
        where = f"{row['joint']:<20} {degrees(row['violation_rad']):.1f} degrees outside at {row['time_s']:.2f} s"
        typer.echo(f"{where}, {row['num_frames']} frames")
