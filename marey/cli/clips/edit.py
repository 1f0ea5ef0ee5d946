"""`marey edit`: move points and poses of a clip, within the laws of physics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from marey.cli.common import load_clip, print_result, remark, warn, write_motion
from marey.cli.options import Clip, Json, MotionOut, ReadOptions, Strip, flat_options, option

if TYPE_CHECKING:
    from marey.base import FloatArray
    from marey.motion import Motion
    from marey.spacetime import PointPin, RepairResult

METHODS = ("physical", "kinematic", "pose-space")
AROUND_S = 1.0  # [s] to both sides of a move in pose space, as far as the other methods reach by default


@flat_options
def edit(
    clip: Clip,
    out: MotionOut = None,
    pin: Annotated[
        list[str] | None, option("Bring a point to a place [m]; repeatable.", metavar="POINT@S=X,Y,Z")
    ] = None,
    move: Annotated[
        list[str] | None, option("Move a point by so much [m]; repeatable.", metavar="POINT@S=DX,DY,DZ")
    ] = None,
    key: Annotated[
        list[str] | None, option("Take the first pose of a motion file; repeatable.", metavar="FILE@S")
    ] = None,
    still: Annotated[list[str] | None, option("Keep a joint still; repeatable.", metavar="JOINT")] = None,
    method: Annotated[
        str, option("physical, kinematic (no forces) or pose-space (Tournier).", choices=METHODS)
    ] = "physical",
    start_s: Annotated[float | None, option("Change from here on [s]; else a second around.")] = None,
    stop_s: Annotated[float | None, option("Change up to here [s].")] = None,
    friction: Annotated[float, option("Friction of the floor.", min=0.0, max=10.0)] = 0.8,
    time_limit_s: Annotated[float | None, option("Stop after so long; keeps the best.", min=1e-3)] = None,
    strip: Strip = None,
    json: Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Bring points and poses of a clip to where they should be.

    Points are left_hand, right_toe, ... or joints. The clip changes as little as possible, contacts stay, and their
    forces stay possible. Exits with 1 where a goal is not reached; the nearest motion is written all the same.
    """
    if not (pin or move or key):
        raise typer.BadParameter("give --pin, --move or --key.")
    if method == "pose-space" and (key or still):
        raise typer.BadParameter("pose-space takes --pin and --move, and no other goal.")
    motion = load_clip(clip, read)
    facts: dict[str, Any] = {}
    failure: str | None = None
    if method == "pose-space":
        edited, facts, sentence = _edit_in_pose_space(motion, pin or [], move or [], start_s, stop_s)
        sentence = f"{clip}  {sentence}"
    else:
        from marey.base import ConvergenceError
        from marey.spacetime import PoseKey, ValidEditor, build_stillness_style, edit_physically

        # Points at places, points moved by so much, whole poses
        pins = [_parse_pin(text, motion, is_relative=False) for text in pin or []]
        pins += [_parse_pin(text, motion, is_relative=True) for text in move or []]
        keys: list[PoseKey] = []
        for text in key or []:
            file, _, instant = text.rpartition("@")
            try:
                time_s = float(instant)
            except ValueError:
                file, time_s = "", 0.0
            if not file:
                raise typer.BadParameter(f"'{text}' is not a key; write FILE@SECONDS, such as pose.bvh@1.5.")
            keys.append(PoseKey(time_s, load_clip(file)[0]))
        # Styles are costs on the coordinates that the editor moves the clip in
        styles = (build_stillness_style(ValidEditor(motion).tree, still),) if still else ()
        options: dict[str, Any] = {"start_s": start_s, "stop_s": stop_s, "friction": friction}
        options |= {"time_limit_s": time_limit_s, "physics": method == "physical", "styles": styles}
        try:
            result = edit_physically(motion, pins, keys, **options)
        except ConvergenceError as error:
            # A goal is not reached: the error holds the nearest motion
            result, failure = cast("RepairResult", error.report), str(error)
        edited, facts, sentence = result.motion, result.to_json(), result.sentence
    write_motion(edited, out)
    if strip is not None:
        from marey.picture import compare_strips, save_image

        save_image(compare_strips([motion, edited]), strip)
        remark(f"wrote {strip}")
    print_result({"file": clip, "out": out, "method": method, **facts}, sentence, is_json=json)
    if failure is not None:
        warn(failure)
        raise typer.Exit(1)


def _edit_in_pose_space(
    motion: Motion, pins: list[str], moves: list[str], start_s: float | None, stop_s: float | None
) -> tuple[Motion, dict[str, Any], str]:
    """Tournier: move the clip in the space of its own poses; goals of one joint at several times are a trajectory."""
    import numpy as np

    from marey.compression import EditGoal, edit_motion

    asked: dict[tuple[str, bool], list[tuple[float, FloatArray]]] = {}
    for texts, is_offset in ((pins, False), (moves, True)):
        for text in texts:
            joint, time_s, place = _parse_goal(text)
            asked.setdefault((joint, is_offset), []).append((time_s, place))
    goals = list[EditGoal]()
    for (joint, is_offset), points in asked.items():
        points.sort(key=lambda point: point[0])
        times = np.array([time_s for time_s, _ in points])
        goals.append(EditGoal(joint, times, np.array([place for _, place in points]), is_offset))
    times = np.concatenate([goal.times_s for goal in goals])
    start = round((times.min() - AROUND_S if start_s is None else start_s) * motion.rate_hz)
    stop = round((times.max() + AROUND_S if stop_s is None else stop_s) * motion.rate_hz)
    edited = edit_motion(motion, goals, start=max(start, 0), stop=min(stop + 1, motion.num_frames))
    # How far each goal is missed, by forward kinematics of the result
    missed = list[float]()
    for goal in goals:
        frames = np.clip(np.round(goal.times_s * motion.rate_hz).astype(int), 0, motion.num_frames - 1)
        joint = motion.skeleton.index(str(goal.joint))
        wanted = goal.values_m + (motion.joint_positions()[frames, joint] if goal.is_offset else 0.0)
        missed += np.linalg.norm(edited.joint_positions()[frames, joint] - wanted, axis=-1).tolist()
    facts = {"num_goals": len(missed), "missed_m": missed}
    return (
        edited,
        facts,
        f"{len(missed)} goals in the pose space of the clip, missed by at most {1e3 * max(missed):.0f} mm",
    )


def _parse_pin(text: str, motion: Motion, *, is_relative: bool) -> PointPin:
    from marey.motion import contact_positions
    from marey.skeleton import contact_points
    from marey.spacetime import PointPin

    point, time_s, place = _parse_goal(text)
    if is_relative:
        # Where the contact point, or the joint, is in the clip at that time
        frame = min(max(round(time_s * motion.rate_hz), 0), motion.num_frames - 1)
        names = contact_points(motion.skeleton).names
        if point in names:
            place = contact_positions(motion[frame : frame + 1])[0, names.index(point)] + place
        else:
            place = motion[frame].joint_positions()[motion.skeleton.index(point)] + place
    return PointPin(point, time_s, place)


def _parse_goal(text: str) -> tuple[str, float, FloatArray]:
    """Read POINT@S=X,Y,Z."""
    import numpy as np

    # POINT@S before the sign, three numbers behind it
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
