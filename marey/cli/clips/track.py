"""`marey track`: points seen by one camera become the motion of a seated person."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import Json, check_target, check_targets, load_clip, print_json, remark, write_motion, write_strip

if TYPE_CHECKING:
    import numpy as np

    from marey.kinematics import JointLimits
    from marey.motion import Motion
    from marey.skeleton import Pose
    from marey.tracking import Camera, EffectorFilter, FilterResult, Observations, PoseFilter

METHODS = ("guided", "random-walk", "full-pose")
SEATED = "seated"
CAMERA = "0.5,1.15,2.2:0,0.95,0.15"


def track(
    detections: Annotated[
        str | None, typer.Argument(metavar="DETECTIONS", help="Image points (.json); `--watch` makes them.")
    ] = None,
    out: Annotated[str | None, typer.Option("-o", "--out", help="Motion file to write: .bvh, .glb, .gltf, ...")] = None,
    start: Annotated[
        str | None, typer.Option(metavar="CLIP", help="Motion file that starts in the first pose, or 'seated'.")
    ] = None,
    watch: Annotated[
        str | None, typer.Option(metavar="CLIP", help="Let the camera watch this clip, or 'seated', and track that.")
    ] = None,
    method: Annotated[str, typer.Option(help="guided, random-walk (the thesis's) or full-pose (baseline).")] = "guided",
    particles: Annotated[int | None, typer.Option(min=1, max=100_000, help="How many guesses [25 or 100].")] = None,
    limits: Annotated[str | None, typer.Option(help="File of joint limits, or 'seated'.")] = None,
    camera: Annotated[str, typer.Option(metavar="X,Y,Z:X,Y,Z", help="--watch: from where, at what [m].")] = CAMERA,
    focal_px: Annotated[float, typer.Option(min=1.0, help="--watch: focal length; 640 x 480 pixels.")] = 600.0,
    noise_px: Annotated[float, typer.Option(min=0.0, help="--watch: noise of the points.")] = 2.0,
    hidden: Annotated[float, typer.Option(min=0.0, max=1.0, help="--watch: share of points not seen.")] = 0.0,
    seconds: Annotated[float, typer.Option(min=0.1, max=600.0, help="--watch seated: how long.")] = 45.0,
    seed: Annotated[int, typer.Option(min=0, help="Of all chance.")] = 0,
    save: Annotated[str | None, typer.Option(metavar="JSON", help="Also write the image points.")] = None,
    strip: Annotated[str | None, typer.Option(metavar="PNG", help="Film strip to draw.")] = None,
    count: Annotated[int, typer.Option(min=1, max=200, help="Bodies on the strip.")] = 12,
    json: Json = False,
) -> None:
    """Follow hands, head and arms of a seated person in the picture of one camera.

    DETECTIONS holds camera, rate_hz, names, pixels and perhaps confidences, as `--save` writes them; a point that is
    not seen is null. The hip does not move. Same seed, same bytes.
    """
    import numpy as np

    if method not in METHODS:
        raise typer.BadParameter(f"there is no method '{method}'; it is one of {', '.join(METHODS)}.")
    if (detections is None) == (watch is None):
        raise typer.BadParameter("give either DETECTIONS or --watch CLIP.")
    if detections is not None and start is None:
        raise typer.BadParameter("DETECTIONS need --start CLIP: the first pose.")
    check_targets(out, strip)
    check_target(save, (".json",))
    truth = None if watch is None else _load_truth(watch, seconds, np.random.default_rng(seed))
    if truth is not None:
        rng = np.random.default_rng(seed + 1)
        seen = _watch_clip(truth, _parse_camera(camera, focal_px), noise_px, hidden, rng)
    else:
        seen = _read_detections(str(detections))
    if save is not None:
        _save_detections(seen, save)
    first = _load_start(str(start)) if truth is None else truth[0]
    bounds = _load_limits(SEATED if limits is None and SEATED in (watch, start) else limits)
    result = _make_filter(method, particles, bounds).run(seen, first, np.random.default_rng(seed + 2))
    write_motion(result.motion, out)
    write_strip(result.motion, strip, count)
    facts = _track_facts(result, truth)
    if json:
        print_json({"detections": detections, "watched": watch, "out": out, "method": method, **facts})
    else:
        error = f"  mean error {100.0 * facts['mean_error_m']:.1f} cm" if truth is not None else ""
        typer.echo(f"{facts['num_frames']} frames  {facts['num_lost']} lost{error}")


def _load_truth(watch: str, seconds: float, rng: np.random.Generator) -> Motion:
    from marey.tracking import seated_motion

    if watch != SEATED:
        return load_clip(watch)
    return seated_motion(rng, frames=max(2, round(15.0 * seconds)))  # 15 frames a second, as in the thesis


def _load_start(start: str) -> Pose:
    import numpy as np

    from marey.tracking import seated_motion

    # the seated person starts from the middle posture, whatever is drawn for the rest
    return seated_motion(np.random.default_rng(0), frames=1)[0] if start == SEATED else load_clip(start)[0]


def _watch_clip(
    truth: Motion, camera: Camera, noise_px: float, hidden: float, rng: np.random.Generator
) -> Observations:
    from marey.tracking import Occlusion, observe

    return observe(truth, camera, noise_px=noise_px, occlusion=Occlusion(share=hidden), rng=rng)


def _parse_camera(text: str, focal_px: float) -> Camera:
    import numpy as np

    from marey.tracking import Camera

    try:
        position, target = ([float(part) for part in end.split(",")] for end in text.split(":"))
    except ValueError:
        position, target = [], []
    if len(position) != 3 or len(target) != 3:
        raise typer.BadParameter(f"'{text}' is no camera; write X,Y,Z:X,Y,Z, from where and at what.")
    return Camera(np.array(position), np.array(target), focal_px)


def _load_limits(name: str | None) -> JointLimits | None:
    if name is None:
        return None
    if name == SEATED:
        from marey.tracking import seated_limits

        return seated_limits()
    from marey.kinematics import load_limits

    return load_limits(name)


def _make_filter(method: str, particles: int | None, limits: JointLimits | None) -> EffectorFilter | PoseFilter:
    from marey.tracking import EffectorFilter, PoseFilter

    if method == "full-pose":
        return PoseFilter(particles or 100, limits=limits)
    return EffectorFilter(particles or 25, "guided" if method == "guided" else "random-walk", limits=limits)


def _track_facts(result: FilterResult, truth: Motion | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "num_frames": result.motion.num_frames,
        "num_lost": result.num_lost,
        "num_resamplings": result.num_resamplings,
        "frames_per_second": result.frames_per_second,
        "distance_px": float(result.distances_px.mean()),
    }
    if truth is not None:
        errors = result.tool_errors(truth)
        per_tool = dict(zip(result.tool_names, errors.mean(axis=0).tolist(), strict=True))
        facts |= {"mean_error_m": float(errors.mean()), "errors_m": per_tool}
    return facts


def _read_detections(file: str) -> Observations:
    """Read image points; a point that is null is not seen.

    Raises:
        InputError: the file is no JSON, or something in it is missing or of another shape.
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
    Path(file).write_text(json.dumps(facts) + "\n", encoding="utf-8")
    remark(f"wrote {file} ({len(seen)} frames)")
