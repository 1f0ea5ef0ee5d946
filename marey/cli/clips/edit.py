"""`marey blend` and `marey edit`: one clip from several, and a clip edited within the laws of physics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from marey.cli.common import (
    load_clip,
    print_json,
    print_result,
    remark,
    warn,
    write_comparison,
    write_motion,
    write_strip,
)
from marey.cli.options import Clip, Count, Json, MotionOut, ReadOptions, Strip, flat_options, option, parse_numbers

if TYPE_CHECKING:
    from marey.base import FloatArray
    from marey.motion import Motion
    from marey.spacetime import PointPin, RepairResult

ROOTS = ("auto", "com", "root")
MIN_FLIGHT_FRAMES, MIN_STANCE_FRAMES = 5, 4  # shorter phases cannot be judged


@flat_options
def blend(
    clips: Annotated[list[str], typer.Argument(metavar="CLIPS...", help="Two or more motion files of one skeleton.")],
    out: MotionOut = None,
    weights: Annotated[str | None, option("One for each clip, such as 0.3,0.7.", metavar="LIST")] = None,
    trim: Annotated[bool, option("Cut the clips to what corresponds, and allow unlike contacts there.")] = True,
    time: Annotated[
        str, option("Duration of a phase: sqrt (keeps gravity) or linear.", choices=("sqrt", "linear"))
    ] = "sqrt",
    root: Annotated[str, option("auto or com (centre of mass), or root, the naive rule.", choices=ROOTS)] = "auto",
    stance: Annotated[
        str, option("contact keeps planted feet, foot_root places one of them.", choices=("contact", "foot_root"))
    ] = "contact",
    rotations: Annotated[str, option("slerp or log.", choices=("slerp", "log"))] = "slerp",
    realign: Annotated[bool, option("Turn the clips to one heading after a flight that turns.")] = True,
    extrapolate: Annotated[bool, option("Allow weights from -0.25 to 1.25.")] = False,
    require_valid: Annotated[bool, option("Exit with 1 where the blend has a fault.", "--require-valid")] = False,
    strip: Strip = None,
    count: Count = 12,
    json: Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Blend clips phase by phase, and report the physical validity of the result.

    Gravity holds in flight and planted feet stay. A phase that the legs cannot reach, and a visible jump of velocity
    between phases, are warnings; the exit code stays 0 unless --require-valid.
    """
    from marey.blending import align_phases, cut_phases, phase_string, predict_validity
    from marey.blending import blend as blend_motions

    if len(clips) < 2:
        raise typer.BadParameter("give two clips or more.")
    # Equal weights unless a list is given
    shares = [1.0 / len(clips)] * len(clips) if weights is None else parse_numbers(weights, "weights", "0.3,0.7")
    motions = [load_clip(clip, read) for clip in clips]
    # Phases that correspond, and how much of each clip they are
    cuts = align_phases(motions) if trim else [cut_phases(motion) for motion in motions]
    used_s = [sum(phase.duration_s for phase in cut) for cut in cuts]
    if any(used < motion.duration_s - 0.1 for used, motion in zip(used_s, motions, strict=True)):
        parts = ", ".join(f"{used:.2f} of {m.duration_s:.2f} s" for used, m in zip(used_s, motions, strict=True))
        remark(f"cut the clips to what corresponds ({phase_string(cuts[0])}): {parts}")
    mixed = sum(phase.kind == "mixed" for phase in cuts[0])
    if mixed:
        remark(f"in {mixed} phases the clips have unlike contacts; only feet that all have planted are held there")
    # Reasons not to blend phases of the first two clips, from the clips alone
    share = shares[0] / max(abs(sum(shares[:2])), 1e-9)
    faults = [
        f"phase {number} ({first.kind}): {reason}"
        for number, (first, second) in enumerate(zip(cuts[0], cuts[1], strict=False))
        for reason in predict_validity(first, second, share).reasons
    ]
    result = blend_motions(
        motions, shares, time=time, root=root, stance=stance, rotations=rotations, realign=realign,
        extrapolate=extrapolate, align=trim,
    )  # fmt: skip
    for sentence in (*faults, *result.report.problems):
        warn(sentence)
    write_motion(result.motion, out)
    write_strip(result.motion, strip, count)
    if json:
        # The report as plain JSON values, with measures of every phase of the result that is long enough
        from dataclasses import asdict

        from marey.blending import check_contact, check_flight, cut_phases

        measured: list[dict[str, Any]] = []
        # Flights must fall freely, planted feet must not slide
        for phase in cut_phases(result.motion, clean=False):
            is_flight, frames = phase.kind == "flight", phase.motion.num_frames
            facts: dict[str, Any] = {
                "kind": phase.kind,
                "start_s": phase.start / result.motion.rate_hz,
                "frames": frames,
            }
            if is_flight and frames >= MIN_FLIGHT_FRAMES:
                facts |= asdict(check_flight(phase.motion))
            elif phase.feet and frames >= MIN_STANCE_FRAMES:
                facts |= asdict(check_contact(phase.motion))
            measured.append(facts)
        report = result.report
        print_json(
            {
                "clips": clips,
                "out": out,
                "weights": shares,
                "predicted": faults,
                "num_frames": result.motion.num_frames,
                "duration_s": result.motion.duration_s,
                "valid": report.is_valid,
                "problems": list(report.problems),
                "phases": [asdict(phase) for phase in report.phases],
                "velocity_jumps": [boundary.velocity_jump.tolist() for boundary in report.boundaries],
                "measured": measured,
            }
        )
    else:
        verdict = "valid" if result.report.is_valid else f"{len(result.report.problems)} faults"
        phases = len(result.report.phases)
        typer.echo(f"{result.motion.num_frames} frames  {result.motion.duration_s:.2f} s  {phases} phases  {verdict}")
    if require_valid and not result.report.is_valid:
        raise typer.Exit(1)


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
    write_comparison([motion, edited], strip)
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
