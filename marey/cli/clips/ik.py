"""`marey ik`: a pose in which hands, feet and head meet their targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import Json, MotionOut, RateHz, Unit, load_clip, one_of, print_json, usage_of, warn, write_motion

if TYPE_CHECKING:
    from marey.kinematics import PointTask
    from marey.skeleton import Skeleton


def ik(
    task: Annotated[
        list[str],
        typer.Option("--task", help="JOINT=X,Y,Z in metres; may be given many times.", show_default=False),
    ],
    clip: Annotated[
        str | None, typer.Argument(metavar="[CLIP]", help="Motion file to start from; the canonical human without one.")
    ] = None,
    frame: Annotated[int | None, typer.Option(help="Frame to start from; the rest pose without one.")] = None,
    out: MotionOut = None,
    json: Json = False,
    method: Annotated[str, typer.Option(help="Solver: projected-lm, pg-armijo, dls, ccd, ...")] = "projected-lm",
    model: Annotated[str | None, typer.Option(help="Pose model file: solve in its space.")] = None,
    limits: Annotated[str | None, typer.Option(help="Joint limits file to keep.")] = None,
    root: Annotated[str, typer.Option(help="free, turn or fixed.", callback=one_of("free", "turn", "fixed"))] = "free",
    tolerance_m: Annotated[float, typer.Option(min=1e-9, help="A goal within this is reached.")] = 1e-3,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Find a pose that reaches the tasks, and write it as a clip of one frame.

    Joints go by their own name or by that of the canonical human. Exits with 1 when a goal is out of reach; the nearest
    pose is written all the same.
    """
    from typing import cast

    from marey.base import InputError
    from marey.kinematics import load_limits, solve_ik
    from marey.kinematics.ik.problem import Root
    from marey.lie import SO3
    from marey.models import load_model
    from marey.motion import Motion
    from marey.skeleton import HUMAN

    # The body and the pose to start from: of a clip, or the canonical human at rest
    skeleton, start, rate_hz = HUMAN, None, 30.0
    if clip is None and frame is not None:
        raise InputError("--frame without a clip", "Name a motion file")
    if clip is not None:
        motion = load_clip(clip, rate_hz=read_rate_hz, unit=unit)
        if frame is not None and not -motion.num_frames <= frame < motion.num_frames:
            raise InputError(f"frame {frame} of {motion.num_frames}", f"Give a number below {motion.num_frames}")
        skeleton, rate_hz = motion.skeleton, motion.rate_hz
        start = None if frame is None else motion[frame]
    with usage_of("--task"):
        tasks = [parse_task(text, skeleton) for text in task]
    result = solve_ik(
        skeleton if model is None else load_model(model),
        tasks,
        start=start,
        limits=None if limits is None else load_limits(limits),
        method=method,
        root=cast(Root, root),
        tolerance_m=tolerance_m,
        on_failure="return",
    )
    pose = result.pose
    write_motion(
        Motion(pose.skeleton, rate_hz, pose.root_position[None], SO3(pose.rotations.wxyz[None]), name="pose"), out
    )
    # The error of every task, reached or not
    rows: list[dict[str, Any]] = [
        {"task": text, "error_m": error, "reached": is_reached}
        for text, error, is_reached in zip(task, result.errors.tolist(), result.reached.tolist(), strict=True)
    ]
    if json:
        facts: dict[str, Any] = {
            "status": str(result.status),
            "iterations": result.iterations,
            "position_error_m": result.position_error_m,
            "tasks": rows,
            "advice": result.advice,
            "root_position": pose.root_position.tolist(),
        }
        print_json(facts | {"out": out})
    else:
        typer.echo(f"{result.status}  {result.iterations} iterations  {1e3 * result.position_error_m:.2f} mm")
        for row in rows:
            typer.echo(f"  {row['task']}  {1e3 * row['error_m']:.2f} mm  {'reached' if row['reached'] else 'missed'}")
    if not result.reached.all():
        warn(result.advice)
        raise typer.Exit(1)


def parse_task(text: str, skeleton: Skeleton) -> PointTask:
    """Read ``joint=x,y,z``; a joint may go by the name it has in the canonical human.

    Raises:
        InputError: it reads otherwise.
        UnknownNameError: there is no such joint.
    """
    from marey.base import InputError
    from marey.kinematics import PointTask

    name, _, place = text.rpartition("=")
    try:
        x, y, z = (float(part) for part in place.split(","))
    except ValueError:
        raise InputError(f"task '{text}'", "Write JOINT=X,Y,Z, for example right_wrist=0.4,1.3,0.2") from None
    return PointTask(skeleton.index(name), (x, y, z))
