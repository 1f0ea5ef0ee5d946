"""`marey ik`: a pose in which hands, feet and head meet their targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import Json, RateHz, Unit, load_clip, print_json, remark

if TYPE_CHECKING:
    from marey.kinematics import PointTask
    from marey.skeleton import Pose, Skeleton


Tasks = Annotated[
    list[str],
    typer.Option("--task", help="JOINT=X,Y,Z in metres; may be given many times.", show_default=False),
]


def ik(
    task: Tasks,
    clip: Annotated[
        str | None, typer.Argument(metavar="[CLIP]", help="Motion file to start from; the canonical human without one.")
    ] = None,
    frame: Annotated[int | None, typer.Option(help="Frame to start from; the rest pose without one.")] = None,
    out: Annotated[
        str | None, typer.Option("-o", "--out", help="File to write the pose to, as a one-frame clip.")
    ] = None,
    json: Json = False,
    method: Annotated[str, typer.Option(help="Solver: projected-lm, pg-armijo, dls, ccd, ...")] = "projected-lm",
    model: Annotated[str | None, typer.Option(help="Pose model file: solve in its space.")] = None,
    limits: Annotated[str | None, typer.Option(help="Joint limits file to keep.")] = None,
    root: Annotated[str, typer.Option(help="free, turn or fixed.")] = "free",
    tolerance_m: Annotated[float, typer.Option(help="A goal within this is reached.")] = 1e-3,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Find a pose that reaches the tasks.

    Joints go by their own name or by that of the canonical human. Exits with 1 when a goal is out of reach; the nearest
    pose is written all the same.
    """
    body, start, rate_hz = load_start(clip, frame, rate_hz=read_rate_hz, unit=unit)
    tasks = [parse_task(text, body) for text in task]
    # Solve, with the model and limits of files if any
    from typing import cast

    from marey.kinematics import load_limits, solve_ik
    from marey.kinematics.ik.problem import Root
    from marey.models import load_model

    result = solve_ik(
        body if model is None else load_model(model),
        tasks,
        start=start,
        limits=None if limits is None else load_limits(limits),
        method=method,
        root=cast(Root, root),
        tolerance_m=tolerance_m,
        on_failure="return",
    )
    if out is not None:
        # Write a pose as a clip of one frame
        pose = result.pose
        from marey.io import save
        from marey.lie import SO3
        from marey.motion import Motion

        save(Motion(pose.skeleton, rate_hz, pose.root_position[None], SO3(pose.rotations.wxyz[None]), name="pose"), out)
        remark(f"wrote {out}")
    # A result as plain JSON values
    rows = zip(task, result.errors.tolist(), result.reached.tolist(), strict=True)
    facts: dict[str, Any] = {
        "status": str(result.status),
        "iterations": result.iterations,
        "position_error_m": result.position_error_m,
        "tasks": [{"task": task, "error_m": error, "reached": reached} for task, error, reached in rows],
        "advice": result.advice,
        "root_position": result.pose.root_position.tolist(),
    }
    if json:
        print_json(facts | {"out": out})
    else:
        typer.echo(f"{facts['status']}  {result.iterations} iterations  {1e3 * result.position_error_m:.2f} mm")
        for row in facts["tasks"]:
            typer.echo(f"  {row['task']}  {1e3 * row['error_m']:.2f} mm  {'reached' if row['reached'] else 'missed'}")
    if not result.reached.all():
        remark(result.advice)
        raise typer.Exit(1)


def load_start(
    clip: str | None, frame: int | None, *, rate_hz: float | None, unit: str | None
) -> tuple[Skeleton, Pose | None, float]:
    """Skeleton, start (``None`` is the rest pose) and rate of a clip, or those of the canonical human."""
    from marey.base import InputError
    from marey.skeleton import HUMAN

    if clip is None:
        if frame is not None:
            raise InputError("--frame without a clip", "Name a motion file")
        return HUMAN, None, 30.0
    motion = load_clip(clip, rate_hz=rate_hz, unit=unit)
    if frame is not None and not -motion.num_frames <= frame < motion.num_frames:
        raise InputError(f"frame {frame} of {motion.num_frames}", f"Give a number below {motion.num_frames}")
    return motion.skeleton, None if frame is None else motion[frame], motion.rate_hz


def parse_task(text: str, skeleton: Skeleton) -> PointTask:
    """Read ``joint=x,y,z``; a joint may go by the name it has in the canonical human.

    Raises:
        InputError: it reads otherwise.
        UnknownNameError: there is no such joint.
    """
    from marey.base import InputError
    from marey.kinematics import PointTask
    from marey.skeleton import role_map

    name, _, place = text.rpartition("=")
    try:
        x, y, z = (float(part) for part in place.split(","))
    except ValueError:
        raise InputError(f"task '{text}'", "Write JOINT=X,Y,Z, for example right_wrist=0.4,1.3,0.2") from None
    roles = role_map(skeleton)
    is_role = name not in skeleton.names and name in roles
    return PointTask(roles[name] if is_role else skeleton.index(name), (x, y, z))
