"""`marey track`: key points of one camera or several become the motion of a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import load_clip, print_json, remark, warn, write_motion, write_strip
from marey.cli.options import (
    Count,
    Csv,
    Json,
    MotionOut,
    ReadOptions,
    Strip,
    Up,
    flat_options,
    option,
)

if TYPE_CHECKING:
    from marey.kinematics import JointLimits
    from marey.motion import Motion
    from marey.skeleton import Pose, Skeleton
    from marey.tracking import CalibratedCamera, FilterResult, Observations, PersonTrack

METHODS = ("pose-model", "guided", "random-walk", "full-pose", "full-pose-guided")
SEATED = "seated"
CAMERA = "0.5,1.15,2.2:0,0.95,0.15"
WHOLE_BODY_TOOLS = ("left_hand", "right_hand", "head", "left_ankle", "right_ankle")
START_S = 0.5  # [s] of a clip in which the first pose of a particle filter is searched


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """The cameras, and what those that watch a clip see of it."""

    camera: Annotated[
        list[str] | None,
        option(
            "Cameras (.json, .toml), or from where and at what [m]; one for each KEYPOINTS.", metavar="FILE|X,Y,Z:X,Y,Z"
        ),
    ] = None
    focal_px: Annotated[
        float | None, option("Focal length where no file says it; --watch: 600, of 640 x 480.", min=1.0)
    ] = None
    size: Annotated[str | None, option("Picture in pixels, where no file says it.", metavar="WxH")] = None
    noise_px: Annotated[float, option("Noise of the points; --watch adds it.", min=0.0)] = 2.0
    hidden: Annotated[float, option("--watch: share of points not seen.", min=0.0, max=1.0)] = 0.0
    seconds: Annotated[float, option("--watch seated: how long.", min=0.1, max=600.0)] = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonOptions:
    """Who is tracked."""

    person: Annotated[int, option("Of several in the picture; 0 is seen best at first.", min=0)] = 0
    rate_hz: Annotated[float | None, option("Pictures a second, where no file says it; 30.", min=0.1, max=10_000.0)] = (
        None
    )
    stature_m: Annotated[float | None, option("Height of the person.", min=0.3, max=3.0)] = None
    body: Annotated[str | None, option("Motion file of a body with these segments.", metavar="CLIP")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodOptions:
    """How the person is found in the points."""

    method: Annotated[
        str | None,
        option(
            "pose-model (default: all frames at once), or particles: guided (default of a seated person), "
            "random-walk (the thesis's), full-pose (its baseline), full-pose-guided.",
            choices=METHODS,
        ),
    ] = None
    model: Annotated[str | None, option("pose-model: file of `marey fit`, instead of the shipped one.")] = None
    spring: Annotated[float, option("pose-model: weight of the prior.", min=0.0)] = 1.0
    max_sigma: Annotated[float, option("pose-model: largest standard deviation of a coordinate.", min=0.1)] = 5.0
    particles: Annotated[int | None, option("How many guesses; 25, or 100 of full poses.", min=1, max=100_000)] = None
    limits: Annotated[str | None, option("File of joint limits, 'seated', or 'none'; anatomical by default.")] = None
    seed: Annotated[int, option("Of all chance.", min=0)] = 0


@flat_options
def track(
    keypoints: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEYPOINTS]...", help="COCO, OpenPose or BlazePose key points (.json or folder), one per camera."
        ),
    ] = None,
    out: MotionOut = None,
    start: Annotated[
        str | None, option("Motion file that starts in the first pose, or 'seated'.", metavar="CLIP")
    ] = None,
    watch: Annotated[
        str | None, option("Let the cameras watch this clip, or 'seated', and track that.", metavar="CLIP")
    ] = None,
    *,
    how: MethodOptions,
    view: ViewOptions,
    who: PersonOptions,
    save: Annotated[
        str | None, option("Also write the image points of the first camera.", metavar="JSON", suffixes=(".json",))
    ] = None,
    csv: Csv = None,
    strip: Strip = None,
    count: Count = 12,
    up: Up = None,
    json: Json = False,
) -> None:
    """Follow a person in the key points of one camera or several.

    The root is free, points may be missing, and nothing of the first pose need be known. Detections far from everything
    else lose their weight; points that are not seen follow from the others, the pose prior and the motion before and
    after. Frames that cannot be explained are LOST and said. Without --camera a level one of usual focal length is
    assumed. `--csv` writes state and error of each frame. Same seed, same bytes.
    """
    if (not keypoints) == (watch is None):
        raise typer.BadParameter("give either KEYPOINTS or --watch CLIP.")
    is_seated = SEATED in (watch, start)
    method = how.method or ("guided" if is_seated else "pose-model")
    if how.model is not None and method != "pose-model":
        raise typer.BadParameter("--model is that of --method pose-model.")
    if how.particles is not None and method == "pose-model":
        raise typer.BadParameter("--particles is an option of particle filters, see --method.")
    # What the cameras see, and the truth where it is known
    truth: Motion | None = None
    if watch is not None:
        truth, views = _watch_clip(watch, view, how.model is not None or not is_seated, how.seed, up)
        is_assumed, notes = False, list[str]()
    else:
        views, is_assumed, notes = _load_views(keypoints or [], view, who)
    for note in notes:
        remark(note)
    if save is not None:
        _save_detections(views[0], save)
    first, body = _find_start(truth, start, who, up)
    if method == "pose-model":
        from marey.kinematics import load_limits
        from marey.models import load_model
        from marey.tracking import PersonTracker

        bounds = None if how.limits in (None, "none") else load_limits(str(how.limits))
        tracker = PersonTracker(
            None if how.model is None else load_model(how.model),
            bounds,
            has_limits=how.limits != "none" and how.model is None,
            body=body,
            stature_m=who.stature_m,
            floor_m=None if is_assumed else 0.0,
            noise_px=max(1.5 * view.noise_px, 1.0),
            spring=how.spring,
            max_sigma=how.max_sigma,
        )
        found: PersonTrack | FilterResult = tracker.run(views, first)
    else:
        if first is None:
            from marey.tracking import PersonTracker, cut_views

            frames = max(2, round(START_S * views[0].rate_hz))
            searcher = PersonTracker(body=body, stature_m=who.stature_m, floor_m=None if is_assumed else 0.0)
            first = searcher.run(cut_views(views, frames)).motion[0]
        found = _run_particles(views, first, method, how, is_seated=is_seated)
    write_motion(found.motion, out)
    write_strip(found.motion, strip, count)
    facts = _gather_facts(found, truth)
    if csv is not None:
        from marey.base import write_atomically

        rows = zip(facts["states"], found.frame_errors_px.tolist(), strict=True)
        lines = [f"{f},{f / found.motion.rate_hz:.6f},{state},{px:.3f}" for f, (state, px) in enumerate(rows)]
        write_atomically(Path(csv), "frame,time_s,state,error_px\n" + "\n".join(lines) + "\n")
    if facts["lost"]:
        spans = ", ".join(f"{a}-{b}" for a, b in facts["lost"])
        warn(f"LOST in {facts['num_lost']} of {facts['num_frames']} frames: {spans}")
    if json:
        print_json({"keypoints": keypoints, "watched": watch, "out": out, "method": method, "notes": notes, **facts})
    else:
        error = f"  mean error {100.0 * facts['mean_error_m']:.1f} cm" if truth is not None else ""
        seen = f"{facts['num_occluded']} without a point  {facts['distance_px']:.1f} px off"
        typer.echo(f"{facts['num_frames']} frames  {facts['num_lost']} lost  {seen}{error}")
    if facts["num_lost"] == facts["num_frames"]:
        raise typer.Exit(1)


def _read_cameras(texts: Sequence[str], focal_px: float, size: tuple[int, int]) -> list[CalibratedCamera]:
    """Read cameras from files, or from X,Y,Z:X,Y,Z, both ends of the line of sight."""
    import numpy as np

    from marey.tracking import CalibratedCamera, Camera, load_cameras

    found: list[CalibratedCamera] = []
    for text in texts:
        if Path(text).suffix.lower() in (".json", ".toml"):
            found += load_cameras(text)
            continue
        try:
            position, target = ([float(part) for part in end.split(",")] for end in text.split(":"))
        except ValueError:
            position, target = [], []
        if len(position) != 3 or len(target) != 3:
            raise typer.BadParameter(f"'{text}' is no camera; give a file, or X,Y,Z:X,Y,Z: from where and at what.")
        found.append(CalibratedCamera.from_camera(Camera(np.array(position), np.array(target), focal_px, size)))
    return found


def _parse_size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdigit() and 0 < int(part) < 100_000 for part in parts):
        raise typer.BadParameter(f"'{text}' is no size; write WIDTHxHEIGHT, such as 1920x1080.")
    return int(parts[0]), int(parts[1])


def _watch_clip(
    watch: str, view: ViewOptions, is_whole: bool, seed: int, up: str | None
) -> tuple[Motion, list[Observations]]:
    """Let the cameras see a clip; 15 frames a second of a seated person, as in the thesis."""
    import numpy as np

    from marey.tracking import BODY_KEYPOINTS, KEYPOINTS, Occlusion, observe, seated_motion

    size = _parse_size(view.size) or (640, 480)
    cameras = _read_cameras(view.camera or [CAMERA], view.focal_px or 600.0, size)
    frames, rng = max(2, round(15.0 * view.seconds)), np.random.default_rng(seed)
    truth = seated_motion(rng, frames=frames) if watch == SEATED else load_clip(watch, ReadOptions(up=up))
    occlusion, noise = Occlusion(share=view.hidden), np.random.default_rng(seed + 1)
    names = BODY_KEYPOINTS if is_whole else KEYPOINTS
    views = [
        observe(truth, one.camera, names, noise_px=view.noise_px, occlusion=occlusion, rng=noise) for one in cameras
    ]
    return truth, views


def _load_views(
    files: Sequence[str], view: ViewOptions, who: PersonOptions
) -> tuple[list[Observations], bool, list[str]]:
    """Read key points and cameras; say what was assumed of them."""
    import numpy as np

    from marey.base import InputError
    from marey.tracking import CalibratedCamera, Camera, default_camera, load_keypoints

    size = _parse_size(view.size)
    found, notes = [load_keypoints(file, person=who.person) for file in files], list[str]()
    size = size or found[0].size
    cameras = _read_cameras(view.camera or [], view.focal_px or 600.0, size or (640, 480)) if view.camera else None
    own = [one.camera for one in found]
    is_assumed = False
    if cameras is None and all(camera is not None for camera in own):
        cameras = [camera for camera in own if camera is not None]
    if cameras is None:
        if len(found) > 1:
            raise InputError(f"{len(found)} files of key points and no camera", "Give --camera FILE with all of them")
        if size is None:
            if found[0].is_normalised:
                raise InputError(f"'{files[0]}' gives parts of the picture", "Give --size WIDTHxHEIGHT or --camera")
            seen = found[0].pixels[found[0].confidences > 0.0]
            size = (max(64, int(np.ceil(seen[:, 0].max()))), max(64, int(np.ceil(seen[:, 1].max()))))
            notes.append(f"no size of the picture is known: {size[0]}x{size[1]}, where the points end, is assumed")
        lens = default_camera(size)
        if view.focal_px is not None:
            camera = lens.camera
            lens = CalibratedCamera.from_camera(Camera(camera.position, camera.target, view.focal_px, size))
        cameras, is_assumed = [lens], True
        notes.append(f"no camera is given: a level one with a focal length of {lens.camera.focal_px:g} px is assumed")
    if len(cameras) != len(found):
        raise InputError(f"{len(found)} files of key points and {len(cameras)} cameras", "Give one for each, in order")
    rates = {one.rate_hz for one in found if one.rate_hz is not None}
    rate_hz = who.rate_hz or (rates.pop() if len(rates) == 1 else None)
    if rate_hz is None:
        notes.append("no frame rate is known: 30 Hz is assumed")
    for one in found:
        if one.num_people > 1:
            notes.append(f"{one.file}: up to {one.num_people} people; number {who.person} is followed")
        if one.unused:
            notes.append(f"{one.file}: not used: {', '.join(one.unused)}")
    lengths = {len(one.pixels) for one in found}
    if len(lengths) > 1:
        notes.append(f"cameras saw {sorted(lengths)} frames: the first {min(lengths)} are tracked")
    views = [one.observe(lens, rate_hz or 30.0) for one, lens in zip(found, cameras, strict=True)]
    if len(lengths) > 1:
        from marey.tracking import cut_views

        views = cut_views(views, min(lengths))
    return views, is_assumed, notes


def _find_start(
    truth: Motion | None, start: str | None, who: PersonOptions, up: str | None
) -> tuple[Pose | None, Skeleton | None]:
    """First pose and body, where they are given."""
    import numpy as np

    from marey.tracking import fit_body, measure_clip_segments, seated_motion

    if start == SEATED:
        # The middle posture, whatever is drawn for the rest
        return seated_motion(np.random.default_rng(0), frames=1)[0], None
    if start is not None:
        return load_clip(start, ReadOptions(up=up))[0], None
    if who.body is not None:
        return None, fit_body(measure_clip_segments(load_clip(who.body, ReadOptions(up=up))))
    return (None if truth is None else truth[0]), None


def _run_particles(
    views: Sequence[Observations],
    first: Pose,
    method: str,
    how: MethodOptions,
    *,
    is_seated: bool,
) -> FilterResult:
    """Particles in the space of hands, head and feet, or of whole poses; the root of a seated person is fixed."""
    import numpy as np

    from marey.kinematics import load_limits, posing_limits
    from marey.tracking import TOOLS, EffectorFilter, PoseFilter, seated_limits

    bounds: JointLimits | None = None
    if how.limits == SEATED or (how.limits is None and is_seated):
        bounds = seated_limits()
    elif how.limits is None:
        bounds = posing_limits(first.skeleton)
    elif how.limits != "none":
        bounds = load_limits(how.limits)
    root = "fixed" if is_seated else "free"
    particle_filter: EffectorFilter | PoseFilter
    if method.startswith("full-pose"):
        way = "guided" if method.endswith("guided") else "random-walk"
        particle_filter = PoseFilter(how.particles or 100, limits=bounds, root=root, proposal=way)
    else:
        way = "guided" if method == "guided" else "random-walk"
        tools = TOOLS if is_seated else WHOLE_BODY_TOOLS
        particle_filter = EffectorFilter(how.particles or 25, way, tools=tools, limits=bounds, root=root)
    return particle_filter.run(views, first, np.random.default_rng(how.seed + 2))


def _gather_facts(found: PersonTrack | FilterResult, truth: Motion | None) -> dict[str, Any]:
    """States, errors on the picture, and the distance from the truth where it is known."""
    import numpy as np

    from marey.skeleton import role_map
    from marey.tracking import PersonTrack, track_points

    states = [state if isinstance(state, str) else state.value for state in found.states]
    is_lost = np.array([False, *(state == "lost" for state in states), False])
    turns = np.flatnonzero(np.diff(is_lost.astype(np.int8)))
    facts: dict[str, Any] = {
        "num_frames": found.motion.num_frames,
        "num_lost": int(is_lost.sum()),
        "num_occluded": states.count("occluded"),
        "lost": [[int(a), int(b) - 1] for a, b in turns.reshape(-1, 2)],
        "distance_px": float(found.frame_errors_px.mean()),
        "worst_frame_px": float(found.frame_errors_px.max()),
        "states": states,
    }
    if isinstance(found, PersonTrack):
        weights = found.track.weights
        facts |= {"num_doubted": int(((weights > 0.0) & (weights < 0.25)).sum()), "body": found.body_source}
    else:
        facts |= {"num_resamplings": found.num_resamplings, "frames_per_second": found.frames_per_second}
    if truth is not None and isinstance(found, PersonTrack):
        here, there = role_map(found.motion.skeleton), role_map(truth.skeleton)
        roles = [role for role in here.joints if role in there]
        away = track_points(found.motion, roles) - track_points(truth, roles)
        facts["mean_error_m"] = float(np.linalg.norm(away, axis=-1).mean())
    elif truth is not None and not isinstance(found, PersonTrack):
        errors = found.tool_errors(truth)
        facts["mean_error_m"] = float(errors.mean())
        facts["errors_m"] = dict(zip(found.tool_names, errors.mean(axis=0).tolist(), strict=True))
    return facts


def _save_detections(seen: Observations, file: str) -> None:
    import json

    from marey.base import write_atomically

    lens = seen.camera
    pixels = [
        [point if is_seen else None for point, is_seen in zip(points, flags, strict=True)]
        for points, flags in zip(seen.pixels.round(3).tolist(), seen.valid.tolist(), strict=True)
    ]
    facts = {
        "rate_hz": seen.rate_hz,
        "camera": {
            "position": lens.position.tolist(),
            "target": lens.target.tolist(),
            "focal_px": lens.focal_px,
            "size": list(lens.size),
        },
        "names": list(seen.names),
        "pixels": pixels,
    }
    write_atomically(Path(file), json.dumps(facts) + "\n")
    remark(f"wrote {file} ({len(seen)} frames)")
