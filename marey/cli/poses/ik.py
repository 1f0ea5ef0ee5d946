"""`marey ik`: inverse kinematics of a pose or a clip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from marey.cli.common import load_clip, print_json, warn, write_motion
from marey.cli.options import Json, MotionOut, ReadOptions, flat_options, option, usage_of

if TYPE_CHECKING:
    from marey.base import FloatArray
    from marey.kinematics import IKResult, IKTrackResult, JointLimits, PointTask, Task
    from marey.motion import Markers
    from marey.skeleton import Pose, Skeleton


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalOptions:
    """Goals of a pose."""

    task: Annotated[
        list[str] | None, option("JOINT=X,Y,Z[:WEIGHT] in metres; - frees an axis.", show_default=False)
    ] = None
    orient: Annotated[
        list[str] | None, option("JOINT=keep, or JOINT=RX,RY,RZ[:WEIGHT]: degrees from its start.", show_default=False)
    ] = None
    look: Annotated[
        list[str] | None, option("JOINT=X,Y,Z[:WEIGHT]: the joint faces this place.", show_default=False)
    ] = None
    com: Annotated[str | None, option("X,Y,Z[:WEIGHT] of the centre of mass; - frees an axis.", show_default=False)] = (
        None
    )
    pin: Annotated[list[str] | None, option("JOINT that keeps position and orientation.", show_default=False)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverOptions:
    """How goals are solved: space, prior, limits, root and feet."""

    method: Annotated[str, option("Solver: projected-lm, pg-armijo, dls, ccd, ...")] = "projected-lm"
    model: Annotated[str | None, option("Pose model file: solve in its space.")] = None
    modes: Annotated[int | None, option("Components of the model to use; all by default.", min=1)] = None
    spring: Annotated[
        float, option("Pull to the model's mean: a standard deviation counts like this many m².", min=0.0)
    ] = 0.0
    metric: Annotated[
        str | None,
        option(
            "Steps in the model's space: canonical, marquardt or kinetic (light limbs move first).",
            choices=("canonical", "marquardt", "kinetic"),
        ),
    ] = None
    max_sigma: Annotated[
        float, option("Largest standard deviation of the model's coordinates; 0 for no limit.", min=0.0)
    ] = 3.0
    limits: Annotated[str, option("auto: anatomical; none; or a file of joint limits.")] = "auto"
    root: Annotated[
        str, option("auto: as planted feet allow; free, turn or fixed.", choices=("auto", "free", "turn", "fixed"))
    ] = "auto"
    feet: Annotated[
        str,
        option(
            "auto: feet on the floor that no goal names stay; free or planted.", choices=("auto", "free", "planted")
        ),
    ] = "auto"
    tolerance_m: Annotated[float, option("A goal within this is reached.", min=1e-9)] = 1e-3


@flat_options
def ik(
    clip: Annotated[
        str | None, typer.Argument(metavar="[CLIP]", help="Motion file to start from; the canonical human without one.")
    ] = None,
    *,
    goals: GoalOptions,
    freeze: Annotated[list[str] | None, option("JOINT that keeps its angles.", show_default=False)] = None,
    points: Annotated[
        str | None,
        option("Points over time, .csv, .trc or .c3d: writes a whole clip.", metavar="TABLE", show_default=False),
    ] = None,
    frame: Annotated[
        int | None, option("Frame to start from; the rest pose without one, frame 0 with --points.")
    ] = None,
    handles: Annotated[bool, option("List the joints to pose this skeleton by.", "--handles")] = False,
    out: MotionOut = None,
    json: Json = False,
    solver: SolverOptions,
    read: ReadOptions,
) -> None:
    """Find a pose that reaches the goals, or with --points a clip that follows them.

    Joints go by their own name or by that of the canonical human; options of goals may be given many times. Feet that
    stand stay where they are. Exits with 1 when a goal is out of reach; the nearest pose is written all the same.
    """
    import numpy as np

    from marey.base import InputError
    from marey.kinematics import PointTask, PoseTask, load_limits, posing_limits, solve_ik, track
    from marey.lie import SO3
    from marey.models import load_model
    from marey.motion import Motion
    from marey.skeleton import HUMAN, Pose

    # The body and the pose to start from: of a clip, or the canonical human at rest
    skeleton, start, rate_hz, motion = HUMAN, None, 30.0, None
    if clip is None and frame is not None:
        raise InputError("--frame without a clip", "Name a motion file")
    if clip is not None:
        motion = load_clip(clip, read)
        frame = 0 if frame is None and points is not None else frame
        if frame is not None and not -motion.num_frames <= frame < motion.num_frames:
            raise InputError(f"frame {frame} of {motion.num_frames}", f"Give a number below {motion.num_frames}")
        skeleton, rate_hz = motion.skeleton, motion.rate_hz
        start = None if frame is None else motion[frame]
    pose = Pose.rest(skeleton) if start is None else start
    if handles:
        _print_handles(pose, json)
        return
    wanted = parse_goals(pose, goals)
    if solver.model is None and (solver.modes is not None or solver.spring > 0.0 or solver.metric is not None):
        raise InputError("--modes, --spring and --metric without a model", "Name a pose model: --model FILE")
    space = skeleton
    if solver.model is not None:
        whole = load_model(solver.model)
        space = whole if solver.modes is None else whole.truncate(solver.modes)
    # The prior stands behind the goals, whose errors are reported
    prior = [PoseTask(weight=solver.spring, priority=0)] if solver.spring > 0.0 else []
    bounds: JointLimits | Literal["auto"] | None = None if solver.limits == "none" else "auto"
    if solver.limits not in ("auto", "none"):
        bounds = load_limits(solver.limits)
    elif bounds is not None and motion is not None:
        # Limits of anatomy allow what the person does in the clip; a creature whose limbs have no roles has none
        try:
            bounds = posing_limits(motion.skeleton, clips=[motion])
        except InputError:
            bounds = None
    options: dict[str, Any] = {
        # A model begins at its own mean, a skeleton at rest
        "start": pose if solver.model is None else start,
        "limits": bounds,
        "method": solver.method,
        "root": solver.root,
        "feet": solver.feet,
        "frozen_joints": [skeleton.index(name) for name in freeze or ()],
        "tolerance_m": solver.tolerance_m,
        "variant": solver.metric,
        "max_sigma": solver.max_sigma or None,
        "on_failure": "return",
    }
    if points is None:
        result = solve_ik(space, [*(task for _, task in wanted), *prior], **options)
        found = result.pose
        write_motion(Motion(found.skeleton, rate_hz, found.root_position[None], SO3(found.rotations.wxyz[None])), out)
        _report_pose(result, [name for name, _ in wanted], out, json)
    else:
        with usage_of("--points"):
            table = read_points(points)
            # A goal for each point, by the name of its joint; a point that was not seen is not known
            seen: list[tuple[str, Task]] = []
            for name in table.names:
                places, valid = table.track(name)
                seen.append((name, PointTask(skeleton.index(name), np.where(valid[:, None], places, np.nan))))
        wanted = [*seen, *wanted]
        result = track(space, [*(task for _, task in wanted), *prior], rate_hz=table.rate_hz, **options)
        write_motion(result.motion, out)
        _report_clip(result, [name for name, _ in wanted], out, json)
    if not result.reached.all() or str(result.status) != "CONVERGED":
        warn(result.advice)
        raise typer.Exit(1)


# Reading goals


def parse_goals(pose: Pose, options: GoalOptions) -> list[tuple[str, Task]]:
    """Goals of the options with their text; orientations and pins are those of the pose to start from."""
    import numpy as np

    from marey.kinematics import ComTask, LookAtTask, OrientationTask, PointTask
    from marey.lie import SO3
    from marey.skeleton import role_map, t_pose

    skeleton, goals = pose.skeleton, list[tuple[str, Any]]()
    with usage_of("--task"):
        goals += [(text, parse_task(text, skeleton)) for text in options.task or ()]
    with usage_of("--orient"):
        for text in options.orient or ():
            # A rotation vector [deg] in world from the start pose
            name, _, turn = text.rpartition("=")
            joint = skeleton.index(name)
            target, weight = pose.joint_rotations()[joint], 1.0
            if turn != "keep":
                form = "JOINT=keep or JOINT=RX,RY,RZ in degrees"
                degrees, weight = parse_place(turn, f"orientation '{text}'", form)
                target = SO3.exp(np.radians(degrees)) @ target
            goals.append((text, OrientationTask(joint, target, weight=weight)))
    with usage_of("--look"):
        for text in options.look or ():
            # The side of the joint that faces ahead in the calibration pose faces the place
            name, _, where = text.rpartition("=")
            place, weight = parse_place(where, f"gaze '{text}'", "JOINT=X,Y,Z, for example head=0,1.6,3")
            joint = skeleton.index(name)
            axis = t_pose(skeleton, role_map(skeleton)).joint_rotations()[joint].inverse() @ (0.0, 0.0, 1.0)
            goals.append((text, LookAtTask(joint, place, axis=axis, weight=weight)))
    with usage_of("--com"):
        if options.com is not None:
            place, weight = parse_place(options.com, f"centre of mass '{options.com}'", "X,Y,Z or X,-,Z")
            goals.append(("com", ComTask(place, weight=weight)))
    with usage_of("--pin"):
        for name in options.pin or ():
            joint = skeleton.index(name)
            goals.append((f"{name} in place", PointTask(joint, pose.joint_positions()[joint], weight=100.0)))
            goals.append((f"{name} turned as it was", OrientationTask(joint, pose.joint_rotations()[joint])))
    return goals


def parse_place(text: str, what: str, form: str) -> tuple[FloatArray, Any]:
    """Place ``(3,)`` and weight of ``X,Y,Z[:WEIGHT]``; an axis written ``-`` has weight 0.

    Raises:
        InputError: it reads otherwise.
    """
    import numpy as np

    from marey.base import InputError

    numbers, _, heavy = text.partition(":")
    parts, weight = numbers.split(","), 1.0
    try:
        weight = float(heavy) if heavy else 1.0
        place = np.array([0.0 if part == "-" else float(part) for part in parts])
    except ValueError:
        place = np.zeros(0)
    if place.shape != (3,) or all(part == "-" for part in parts):
        raise InputError(what, f"Write {form}")
    axes = np.array([float(part != "-") for part in parts])
    return place, weight if axes.all() else weight * axes


def parse_task(text: str, skeleton: Skeleton) -> PointTask:
    """Read ``joint=x,y,z[:weight]``; a joint may go by the name it has in the canonical human.

    Raises:
        InputError: it reads otherwise.
        UnknownNameError: there is no such joint.
    """
    from marey.kinematics import PointTask

    name, _, place = text.rpartition("=")
    target, weight = parse_place(place, f"task '{text}'", "JOINT=X,Y,Z, for example right_wrist=0.4,1.3,0.2")
    return PointTask(skeleton.index(name), target, weight=weight)


def read_points(path: str) -> Markers:
    """Points over time: a marker file, or a table of columns ``time_s``, ``NAME_x_m``, ``NAME_y_m``, ``NAME_z_m``.

    ``marey convert walk walk.csv`` writes such a table. An empty cell is a point that is not known there.

    Raises:
        InputError: a column or number is missing.
    """
    import csv
    from pathlib import Path

    import numpy as np

    from marey.base import InputError
    from marey.io import load_markers
    from marey.motion import Markers

    if Path(path).suffix.lower() != ".csv":
        return load_markers(path)
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            header, *rows = [row for row in csv.reader(file) if row]
        table = np.array([[float(cell) if cell.strip() else np.nan for cell in row] for row in rows])
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read the points of '{path}': {error}", "Give a table of numbers with a header"
        ) from None
    names = [name.removesuffix("_x_m") for name in header if name.endswith("_x_m")]
    columns = [[header.index(f"{name}_{axis}_m") for axis in "xyz" if f"{name}_{axis}_m" in header] for name in names]
    if "time_s" not in header or not names or any(len(three) != 3 for three in columns) or len(table) < 2:
        raise InputError(
            f"'{path}' is no table of points over time",
            "Columns are time_s, then JOINT_x_m, JOINT_y_m, JOINT_z_m of each joint; two rows or more",
        )
    times = table[:, header.index("time_s")]
    gaps = np.diff(times)
    if not (gaps > 0.0).all() or np.ptp(gaps) > 0.02 * gaps.mean():
        raise InputError(f"the times of '{path}' are not evenly spaced", "Resample the table")
    positions = table[:, np.array(columns)]
    valid = np.asarray(np.isfinite(positions).all(axis=-1), dtype=np.bool_)
    return Markers(tuple(names), float(1.0 / gaps.mean()), np.nan_to_num(positions), valid)


# Reports


def _print_handles(pose: Pose, is_json: bool) -> None:
    """Print the joints to pose a skeleton by, and where they are."""
    from marey.skeleton import list_handles

    for handle in list_handles(pose.skeleton):
        place = pose.joint_positions()[handle.joint].tolist()
        if is_json:
            joint = pose.skeleton.names[handle.joint]
            print_json({"handle": handle.name, "kind": handle.kind, "joint": joint, "position_m": place})
        else:
            typer.echo(f"{handle.name:<24} {handle.kind:<7} {','.join(f'{x:.3f}' for x in place)}")


def _report_pose(result: IKResult, names: list[str], out: str | None, is_json: bool) -> None:
    """Print the error of every goal, reached or not."""
    rows: list[dict[str, Any]] = [
        {"task": name, "error_m": error, "reached": is_reached, "skipped": is_skipped}
        for name, error, is_reached, is_skipped in zip(
            names, result.errors.tolist(), result.reached.tolist(), result.skipped.tolist(), strict=False
        )
    ]
    if is_json:
        facts: dict[str, Any] = {
            "status": str(result.status),
            "iterations": result.iterations,
            "position_error_m": result.position_error_m,
            "orientation_error_rad": result.orientation_error_rad,
            "tasks": rows,
            "planted": list(result.planted),
            "planted_error_m": result.planted_error_m,
            "limit_violation_rad": result.limit_violation_rad,
            "advice": result.advice,
            "root_position": result.pose.root_position.tolist(),
            "coordinates": None if result.coordinates is None else result.coordinates.tolist(),
        }
        print_json(facts | {"out": out})
        return
    typer.echo(f"{result.status}  {result.iterations} iterations  {1e3 * result.position_error_m:.2f} mm")
    for row in rows:
        word = "skipped" if row["skipped"] else "reached" if row["reached"] else "missed"
        typer.echo(f"  {row['task']}  {1e3 * row['error_m']:.2f} mm or mrad  {word}")
    if result.planted:
        typer.echo(f"  planted: {', '.join(result.planted)}  {1e3 * result.planted_error_m:.2f} mm")


def _report_clip(result: IKTrackResult, names: list[str], out: str | None, is_json: bool) -> None:
    """Print how many frames miss each goal, and by how much."""
    rows: list[dict[str, Any]] = [
        {
            "task": name,
            "worst_error": float(result.errors[:, i].max()),
            "frames_missed": int((~result.reached[:, i]).sum()),
            "frames_skipped": int(result.skipped[:, i].sum()),
        }
        for i, name in enumerate(names)
    ]
    if is_json:
        facts: dict[str, Any] = {
            "status": str(result.status),
            "frames": result.motion.num_frames,
            "rate_hz": result.motion.rate_hz,
            "tasks": rows,
            "planted": list(result.planted),
            "frames_held_back": int(result.held_back.sum()),
            "advice": result.advice,
        }
        print_json(facts | {"out": out})
        return
    typer.echo(f"{result.status}  {result.motion.num_frames} frames at {result.motion.rate_hz:g} Hz")
    for row in rows:
        counts = f"{row['frames_missed']} frames missed, {row['frames_skipped']} skipped"
        typer.echo(f"  {row['task']}  worst {1e3 * row['worst_error']:.2f} mm or mrad, {counts}")
    if result.planted:
        typer.echo(f"  planted: {', '.join(result.planted)}")
