"""`marey edit`: points and poses of a clip are brought elsewhere, and a body could still make it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from marey.cli.common import Clip, Json, RateHz, Unit, check_targets, load_clip, print_json, remark, write_motion

if TYPE_CHECKING:
    from marey.base import FloatArray
    from marey.motion import Motion
    from marey.spacetime import PointPin, PoseKey, RepairResult, Style

METHODS = ("physical", "kinematic", "pose-space")
AROUND_S = 1.0  # [s] to both sides of a move in pose space, as far as the other methods reach by default


def edit(
    clip: Clip,
    out: Annotated[str | None, typer.Option("-o", "--out", help="Motion file to write: .bvh, .glb, .gltf, ...")] = None,
    pin: Annotated[
        list[str] | None, typer.Option(metavar="POINT@S=X,Y,Z", help="Bring a point to a place [m]; repeatable.")
    ] = None,
    move: Annotated[
        list[str] | None, typer.Option(metavar="POINT@S=DX,DY,DZ", help="Move a point by so much [m]; repeatable.")
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option(metavar="FILE@S", help="Take the first pose of a motion file; repeatable.")
    ] = None,
    still: Annotated[list[str] | None, typer.Option(metavar="JOINT", help="Keep a joint still; repeatable.")] = None,
    method: Annotated[str, typer.Option(help="physical, kinematic (no forces) or pose-space (Tournier).")] = "physical",
    start_s: Annotated[float | None, typer.Option(help="Change from here on [s]; else a second around.")] = None,
    stop_s: Annotated[float | None, typer.Option(help="Change up to here [s].")] = None,
    friction: Annotated[float, typer.Option(min=0.0, max=10.0, help="Friction of the floor.")] = 0.8,
    time_limit_s: Annotated[float | None, typer.Option(min=1e-3, help="Stop after so long; keeps the best.")] = None,
    strip: Annotated[str | None, typer.Option(metavar="PNG", help="Film strip of clip and result.")] = None,
    json: Json = False,
    read_rate_hz: RateHz = None,
    unit: Unit = None,
) -> None:
    """Bring points and poses of a clip to where they should be.

    Points are left_hand, right_toe, ... or joints. The clip changes as little as possible, contacts stay, and their
    forces stay possible. Exits with 1 where a goal is not reached; the nearest motion is written all the same.
    """
    if method not in METHODS:
        raise typer.BadParameter(f"there is no method '{method}'; it is one of {', '.join(METHODS)}.")
    if not (pin or move or key):
        raise typer.BadParameter("give --pin, --move or --key.")
    check_targets(out, strip)
    motion = load_clip(clip, rate_hz=read_rate_hz, unit=unit)
    if method == "pose-space":
        if pin or key or still or not move or len(move) != 1:
            raise typer.BadParameter("pose-space takes one --move and no other goal.")
        edited = _edit_in_pose_space(motion, move[0], start_s, stop_s)
        facts, sentence, failure = {}, f"{clip}  {move[0]} in the pose space of the clip", None
    else:
        pins = [_parse_pin(text, motion, is_relative=False) for text in pin or []]
        pins += [_parse_pin(text, motion, is_relative=True) for text in move or []]
        keys = [_parse_key(text) for text in key or []]
        options = {"start_s": start_s, "stop_s": stop_s, "friction": friction, "time_limit_s": time_limit_s}
        options |= {"physics": method == "physical", "styles": _build_styles(motion, still or [])}
        result, failure = _solve_edit(motion, pins, keys, options)
        edited, facts, sentence = result.motion, result.to_json(), result.sentence
    write_motion(edited, out)
    if strip is not None:
        from marey.picture import compare_strips, save_image

        save_image(compare_strips([motion, edited]), strip)
        remark(f"wrote {strip}")
    if json:
        print_json({"file": clip, "out": out, "method": method, **facts})
    else:
        typer.echo(sentence)
    if failure is not None:
        remark(failure)
        raise typer.Exit(1)


def _solve_edit(
    motion: Motion, pins: Sequence[PointPin], keys: Sequence[PoseKey], options: dict[str, Any]
) -> tuple[RepairResult, str | None]:
    """The edited clip and, where a goal is not reached, the sentence that names it."""
    from marey.base import ConvergenceError
    from marey.spacetime import edit_physically

    try:
        return edit_physically(motion, pins, keys, **options), None
    except ConvergenceError as error:
        return cast("RepairResult", error.report), str(error)


def _edit_in_pose_space(motion: Motion, text: str, start_s: float | None, stop_s: float | None) -> Motion:
    from marey.compression import edit_motion

    joint, time_s, offset = _parse_goal(text)
    begin = time_s - AROUND_S if start_s is None else start_s
    end = time_s + AROUND_S if stop_s is None else stop_s
    start, stop = (round(instant * motion.rate_hz) for instant in (begin, end))
    return edit_motion(motion, joint, offset, start=max(start, 0), stop=min(stop + 1, motion.num_frames))


def _build_styles(motion: Motion, joints: Sequence[str]) -> tuple[Style, ...]:
    """Styles on the coordinates that a clip is edited in."""
    from marey.spacetime import ValidEditor, build_stillness_style

    return (build_stillness_style(ValidEditor(motion).tree, joints),) if joints else ()


def _parse_pin(text: str, motion: Motion, *, is_relative: bool) -> PointPin:
    from marey.spacetime import PointPin

    point, time_s, place = _parse_goal(text)
    if is_relative:
        frame = min(max(round(time_s * motion.rate_hz), 0), motion.num_frames - 1)
        place = _locate_point(motion, point, frame) + place
    return PointPin(point, time_s, place)


def _locate_point(motion: Motion, point: str, frame: int) -> FloatArray:
    """Where a contact point, or a joint, is in a frame ``(3,)`` [m]."""
    from marey.motion import contact_positions
    from marey.skeleton import contact_points

    names = contact_points(motion.skeleton).names
    if point in names:
        return contact_positions(motion[frame : frame + 1])[0, names.index(point)]
    return motion[frame].joint_positions()[motion.skeleton.index(point)]


def _parse_key(text: str) -> PoseKey:
    from marey.spacetime import PoseKey

    file, _, instant = text.rpartition("@")
    try:
        time_s = float(instant)
    except ValueError:
        file, time_s = "", 0.0
    if not file:
        raise typer.BadParameter(f"'{text}' is no key; write FILE@SECONDS, such as pose.bvh@1.5.")
    return PoseKey(time_s, load_clip(file)[0])


def _parse_goal(text: str) -> tuple[str, float, FloatArray]:
    """Read POINT@S=X,Y,Z."""
    import numpy as np

    head, _, numbers = text.rpartition("=")
    point, _, instant = head.rpartition("@")
    try:
        place = [float(part) for part in numbers.split(",")]
        time_s = float(instant)
    except ValueError:
        place, time_s = [], 0.0
    if not point or len(place) != 3:
        raise typer.BadParameter(f"'{text}' is no goal; write POINT@S=X,Y,Z, such as right_hand@2.0=0.3,1.2,0.4.")
    return point, time_s, np.array(place)
