"""`marey track`: points seen by one camera become the motion of a person, seated or with a pose model as prior."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import load_clip, print_json, remark, write_motion, write_strip
from marey.cli.options import Count, Json, MotionOut, ReadOptions, Strip, Up, flat_options, one_of, writable

if TYPE_CHECKING:
    from marey.kinematics import JointLimits
    from marey.motion import Motion
    from marey.tracking import Observations, PriorTrack

METHODS = ("guided", "random-walk", "full-pose", "pose-model")
SEATED = "seated"
CAMERA = "0.5,1.15,2.2:0,0.95,0.15"


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """What a camera that watches a clip sees of it."""

    camera: Annotated[str, typer.Option(metavar="X,Y,Z:X,Y,Z", help="--watch: from where, at what [m].")] = CAMERA
    focal_px: Annotated[float, typer.Option(min=1.0, help="--watch: focal length; 640 x 480 pixels.")] = 600.0
    noise_px: Annotated[float, typer.Option(min=0.0, help="--watch: noise of the points.")] = 2.0
    hidden: Annotated[float, typer.Option(min=0.0, max=1.0, help="--watch: share of points not seen.")] = 0.0
    seconds: Annotated[float, typer.Option(min=0.1, max=600.0, help="--watch seated: how long.")] = 45.0


@flat_options
def track(
    detections: Annotated[
        str | None, typer.Argument(metavar="DETECTIONS", help="Image points (.json); `--watch` makes them.")
    ] = None,
    out: MotionOut = None,
    start: Annotated[
        str | None, typer.Option(metavar="CLIP", help="Motion file that starts in the first pose, or 'seated'.")
    ] = None,
    watch: Annotated[
        str | None, typer.Option(metavar="CLIP", help="Let the camera watch this clip, or 'seated', and track that.")
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="guided, random-walk (the thesis's), full-pose (baseline), or pose-model.", callback=one_of(*METHODS)
        ),
    ] = "guided",
    model: Annotated[
        str | None, typer.Option(help="pose-model: file of `marey fit`; the whole body moves, what is hidden follows.")
    ] = None,
    spring: Annotated[float, typer.Option(min=0.0, help="pose-model: weight of the prior.")] = 2.0,
    max_sigma: Annotated[
        float, typer.Option(min=0.1, help="pose-model: largest standard deviation of a coordinate.")
    ] = 3.0,
    particles: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="How many guesses; 25, or 100 for full-pose.")
    ] = None,
    limits: Annotated[str | None, typer.Option(help="File of joint limits, or 'seated'.")] = None,
    *,
    view: ViewOptions,
    seed: Annotated[int, typer.Option(min=0, help="Of all chance.")] = 0,
    save: Annotated[
        str | None, typer.Option(metavar="JSON", help="Also write the image points.", callback=writable(".json"))
    ] = None,
    strip: Strip = None,
    count: Count = 12,
    up: Up = None,
    json: Json = False,
) -> None:
    """Follow hands, head and arms of a seated person in the picture of one camera.

    With `--method pose-model --model FILE` the root is free and the prior is a pose model: detections far from
    everything else lose their weight, and points that are not seen follow from the others.
    DETECTIONS holds camera, rate_hz, names, pixels and perhaps confidences, as `--save` writes them; a point that is
    not seen is null. The hip of a seated person does not move. Same seed, same bytes.
    """
    import numpy as np

    from marey.kinematics import load_limits
    from marey.tracking import (
        BODY_KEYPOINTS,
        KEYPOINTS,
        Camera,
        EffectorFilter,
        Occlusion,
        PoseFilter,
        PriorTracker,
        observe,
        seated_limits,
        seated_motion,
    )

    if (detections is None) == (watch is None):
        raise typer.BadParameter("give either DETECTIONS or --watch CLIP.")
    if (method == "pose-model") != (model is not None):
        raise typer.BadParameter("--method pose-model and --model FILE go together.")
    if detections is not None and start is None:
        raise typer.BadParameter("DETECTIONS need --start CLIP: the first pose.")
    # The motion that the camera sees, where it is known, and the points that it sees
    truth: Motion | None = None
    if watch is not None:
        # Both ends of the line of sight are points in world
        try:
            position, target = ([float(part) for part in end.split(",")] for end in view.camera.split(":"))
        except ValueError:
            position, target = [], []
        if len(position) != 3 or len(target) != 3:
            raise typer.BadParameter(f"'{view.camera}' is no camera; write X,Y,Z:X,Y,Z, from where and at what.")
        lens = Camera(np.array(position), np.array(target), view.focal_px)
        # 15 frames a second, as in the thesis
        frames, rng = max(2, round(15.0 * view.seconds)), np.random.default_rng(seed)
        truth = seated_motion(rng, frames=frames) if watch == SEATED else load_clip(watch, ReadOptions(up=up))
        occlusion, noise = Occlusion(share=view.hidden), np.random.default_rng(seed + 1)
        names = KEYPOINTS if model is None else BODY_KEYPOINTS
        seen = observe(truth, lens, names, noise_px=view.noise_px, occlusion=occlusion, rng=noise)
    else:
        seen = _read_detections(str(detections))
    if save is not None:
        _save_detections(seen, save)
    if truth is not None:
        first = truth[0]
    elif start == SEATED:
        # The middle posture, whatever is drawn for the rest
        first = seated_motion(np.random.default_rng(0), frames=1)[0]
    else:
        first = load_clip(str(start), ReadOptions(up=up))[0]
    if model is not None:
        from marey.models import load_model

        if limits is not None or particles is not None:
            raise typer.BadParameter("--limits and --particles are those of particles, not of a pose model.")
        tracker = PriorTracker(load_model(model), noise_px=max(view.noise_px, 1.0), spring=spring, max_sigma=max_sigma)
        _report_prior_track(tracker.run(seen, first), truth, out, strip, count, is_json=json)
        return
    bounds: JointLimits | None = None
    if limits == SEATED or (limits is None and SEATED in (watch, start)):
        bounds = seated_limits()
    elif limits is not None:
        bounds = load_limits(limits)
    # Particles in the space of hands and head, or of whole poses
    particle_filter: EffectorFilter | PoseFilter
    if method == "full-pose":
        particle_filter = PoseFilter(particles or 100, limits=bounds)
    else:
        way = "guided" if method == "guided" else "random-walk"
        particle_filter = EffectorFilter(particles or 25, way, limits=bounds)
    result = particle_filter.run(seen, first, np.random.default_rng(seed + 2))
    write_motion(result.motion, out)
    write_strip(result.motion, strip, count)
    facts: dict[str, Any] = {
        "num_frames": result.motion.num_frames,
        "num_lost": result.num_lost,
        "num_resamplings": result.num_resamplings,
        "frames_per_second": result.frames_per_second,
        "distance_px": float(result.distances_px.mean()),
    }
    if truth is not None:
        # The distance from the truth, where it is known
        errors = result.tool_errors(truth)
        per_tool = dict(zip(result.tool_names, errors.mean(axis=0).tolist(), strict=True))
        facts |= {"mean_error_m": float(errors.mean()), "errors_m": per_tool}
    if json:
        print_json({"detections": detections, "watched": watch, "out": out, "method": method, **facts})
    else:
        error = f"  mean error {100.0 * facts['mean_error_m']:.1f} cm" if truth is not None else ""
        typer.echo(f"{facts['num_frames']} frames  {facts['num_lost']} lost{error}")


def _report_prior_track(
    found: PriorTrack, truth: Motion | None, out: str | None, strip: str | None, count: int, *, is_json: bool
) -> None:
    """Write the clip and print how far it is from what was seen, and from the truth where that is known."""
    import numpy as np

    write_motion(found.motion, out)
    write_strip(found.motion, strip, count)
    seen = found.weights > 0.0
    facts: dict[str, Any] = {
        "num_frames": found.motion.num_frames,
        "num_predicted": int(found.is_predicted.sum()),
        "num_doubted": int((seen & (found.weights < 0.25)).sum()),
        "distance_px": float(found.errors[seen].mean()) if seen.any() else 0.0,
    }
    error = ""
    if truth is not None:
        away = np.linalg.norm(found.motion.joint_positions() - truth.joint_positions(), axis=-1)
        facts["mean_error_m"] = float(away.mean())
        error = f"  mean joint error {100.0 * away.mean():.1f} cm"
    if is_json:
        print_json({"out": out, "method": "pose-model", **facts})
    else:
        doubted = f"{facts['num_predicted']} frames without a point, {facts['num_doubted']} detections doubted"
        typer.echo(f"{facts['num_frames']} frames  {doubted}{error}")


def _read_detections(file: str) -> Observations:
    """Read image points; a point that is null is not seen.

    Raises:
        InputError: the file is not JSON, or a field is missing or has another shape.
    """
    import json

    import numpy as np

    from marey.base import InputError, MareyError, MissingFileError
    from marey.tracking import Camera, Observations

    if not Path(file).is_file():
        raise MissingFileError(file)
    try:
        found = json.loads(Path(file).read_text(encoding="utf-8"))
        names = tuple(str(name) for name in found["names"])
        # A point that is not seen has no place and is not valid
        frames = [[(0.0, 0.0) if point is None else point for point in frame] for frame in found["pixels"]]
        valid = np.array([[point is not None for point in frame] for frame in found["pixels"]])
        lens = found["camera"]
        camera = Camera(
            np.array(lens["position"], dtype=np.float64), np.array(lens["target"], dtype=np.float64),
            float(lens["focal_px"]), (int(lens["size"][0]), int(lens["size"][1])),
        )  # fmt: skip
        confidences = None if found.get("confidences") is None else np.array(found["confidences"], dtype=np.float64)
        return Observations(camera, float(found["rate_hz"]), names, np.array(frames), valid, confidences)
    except MareyError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        what = f"'{file}' holds no detections: {type(error).__name__} {error}"
        raise InputError(what, "It needs camera, rate_hz, names and pixels, as `--save` writes them") from None


def _save_detections(seen: Observations, file: str) -> None:
    import json

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
    from marey.base import write_atomically

    write_atomically(Path(file), json.dumps(facts) + "\n")
    remark(f"wrote {file} ({len(seen)} frames)")
