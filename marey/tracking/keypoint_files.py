"""Files of other tools: cameras, and detections of key points by COCO, OpenPose and BlazePose (MediaPipe).

Cameras are intrinsics and extrinsics as OpenCV writes them, or a place and what it looks at.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeGuard

import numpy as np

from marey.base import FloatArray, FormatError, InputError, MissingFileError, frozen
from marey.lie import SO3
from marey.tracking.observation import FACE, Camera, Observations

KEYS: Final = (
    *("name", "size", "width", "height", "K", "fx", "fy", "cx", "cy", "focal_px", "distortion", "dist"),
    *("R", "rvec", "t", "position", "target", "up", "unit"),
)
UNITS: Final = {"m": 1.0, "cm": 0.01, "mm": 0.001}
AXES: Final = {"x": 0, "y": 1, "z": 2}
UNDISTORT_STEPS: Final = 20
DEFAULT_FOCAL: Final = 1.0  # [-] of the longer side of the picture: 53 degrees, between a phone and a webcam
DEFAULT_POSITION: Final = (0.0, 1.2, 4.0)  # [m] level, looking along -Z: somebody who faces it faces +Z


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a value of JSON or TOML is an object, with names as keys."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether a value of JSON or TOML is a list."""
    return isinstance(value, list)


@dataclass(frozen=True, slots=True, eq=False)
class CalibratedCamera:
    r"""An ideal pinhole, and how the real picture differs from its: principal point, pixels, distortion.

    With :math:`x = (u - c_x)/f_x` and :math:`y = (v - c_y)/f_y`, undone for radial and tangential distortion
    :math:`(k_1, k_2, p_1, p_2, k_3)`, the ideal picture has :math:`u' = w/2 + f x`, :math:`v' = h/2 + f y`.
    """

    camera: Camera
    focals_px: FloatArray  # (2,)
    centre_px: FloatArray  # (2,)
    distortion: FloatArray  # (5,)

    @classmethod
    def from_camera(cls, camera: Camera) -> CalibratedCamera:
        """A picture that is the ideal one."""
        return cls(camera, np.full(2, camera.focal_px), 0.5 * np.array(camera.size), np.zeros(5))

    def rectify(self, pixels: FloatArray) -> FloatArray:
        """Pixels ``(..., 2)`` of the ideal picture."""
        seen = (pixels - self.centre_px) / self.focals_px
        k1, k2, p1, p2, k3 = self.distortion
        ideal = seen.copy()
        # Fixed-point iteration of OpenCV's undistortPoints
        for _ in range(UNDISTORT_STEPS if self.distortion.any() else 0):
            x, y = ideal[..., 0], ideal[..., 1]
            r2 = np.minimum(x * x + y * y, 4.0)
            radial = 1.0 + r2 * (k1 + r2 * (k2 + r2 * k3))
            side = np.stack(
                [2.0 * p1 * x * y + p2 * (r2 + 2.0 * x * x), p1 * (r2 + 2.0 * y * y) + 2.0 * p2 * x * y], -1
            )
            ideal = (seen - side) / np.where(np.abs(radial) > 0.1, radial, 1.0)[..., None]
        return 0.5 * np.array(self.camera.size) + self.camera.focal_px * ideal


def load_cameras(path: str | Path) -> list[CalibratedCamera]:
    """Read one camera or several from JSON or TOML.

    Each has ``size = [width, height]`` and either ``K`` (or ``fx, fy, cx, cy``) with ``R`` (or ``rvec``) and ``t`` of
    OpenCV, :math:`x_{camera} = R x_{world} + t`, perhaps ``distortion`` of five numbers, or ``position``, ``target``
    and ``focal_px``. ``up`` names the world's upward axis (``"y"``, ``"z"``, ``"-y"``), ``unit`` is m, cm or mm.

    Raises:
        MissingFileError: there is no such file.
        FormatError: it is neither JSON nor TOML.
        InputError: a camera lacks a field or has an unknown one.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingFileError(str(path))
    try:
        text = path.read_text(encoding="utf-8-sig")
        content: Any = tomllib.loads(text) if path.suffix.lower() == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise FormatError(f"no cameras: {error}", str(path), line, "Write JSON or TOML, see docs/tracking.md") from None
    found: Any = content.get("cameras", content.get("camera", content)) if is_object(content) else content
    cameras: list[Any] = found if is_list(found) else [found]
    if is_object(found) and found and all(is_object(one) for one in found.values()):
        cameras = list(found.values())
    return [build_camera(one, str(path)) for one in cameras]


def build_camera(facts: Any, file: str) -> CalibratedCamera:
    """Build a camera from the fields that :func:`load_cameras` lists.

    Raises:
        InputError: a field is missing, unknown, or no number.
    """
    fix = f"A camera has {', '.join(KEYS)}; see docs/tracking.md"
    if not is_object(facts):
        raise InputError(f"'{file}' holds no camera", fix)
    unknown = sorted(key for key in facts if key not in KEYS)
    if unknown:
        raise InputError(f"a camera of '{file}' has the unknown field '{unknown[0]}'", fix)
    try:
        width, height = (int(n) for n in facts.get("size") or (facts["width"], facts["height"]))
        K = np.array(facts["K"], dtype=np.float64).reshape(3, 3) if "K" in facts else np.eye(3)
        focals, centre = np.array([K[0, 0], K[1, 1]]), K[:2, 2].copy()
        if "K" not in facts:
            focals = np.array([float(facts.get("fx", facts.get("focal_px", 0.0)))] * 2)
            focals[1] = float(facts.get("fy", focals[0]))
            centre = np.array([float(facts.get("cx", 0.5 * width)), float(facts.get("cy", 0.5 * height))])
        if not (np.isfinite(focals).all() and (focals > 0.0).all() and np.isfinite(centre).all()):
            raise InputError(f"a camera of '{file}' has no focal length", fix)
        given = np.array(facts.get("distortion", facts.get("dist", [])), dtype=np.float64).ravel()
        if len(given) > 5 or not np.isfinite(given).all():
            raise InputError(f"a camera of '{file}' has {len(given)} numbers of distortion", "Give k1, k2, p1, p2, k3")
        distortion = np.concatenate([given, np.zeros(5 - len(given))])
        # Place and axes in the file's world, then in +Y up
        unit = UNITS[str(facts.get("unit", "m"))]
        if "position" in facts and "target" in facts:
            position, target = (frozen(facts[key], 3, name=key) for key in ("position", "target"))
            forward, up = target - position, None
        else:
            if "rvec" in facts:
                turn = SO3.exp(np.array(facts["rvec"], dtype=np.float64).ravel()).matrix()
            else:
                turn = np.array(facts["R"], dtype=np.float64).reshape(3, 3)
            R = frozen(turn, 3, 3, name="R")
            if np.abs(R @ R.T - np.eye(3)).max() > 1e-3 or np.linalg.det(R) < 0.0:
                raise InputError(f"R of a camera of '{file}' is no rotation", "Give x_camera = R x_world + t")
            position = -R.T @ frozen(np.array(facts["t"], dtype=np.float64).ravel(), 3, name="t")
            forward, up = R[2], -R[1]
        # Rotation that brings the signed axis of the file's world to +Y
        axis = str(facts.get("up", "y"))
        sign, name = (-1.0, axis[1:]) if axis.startswith("-") else (1.0, axis)
        upward = np.zeros(3)
        upward[AXES[name]] = sign
        # About the axis at right angles to both: a quarter turn, or none, or a half
        turn = SO3.exp(0.5 * np.pi * np.cross(upward, (0.0, 1.0, 0.0))).matrix()
        if name == "y":
            turn = np.eye(3) if sign > 0.0 else np.diag([1.0, -1.0, -1.0])
        position = turn @ position * unit
        focal = float(np.sqrt(focals[0] * focals[1]))
        camera = Camera(position, position + turn @ forward, focal, (width, height))
        if up is not None:
            camera = Camera(position, position + turn @ forward, focal, (width, height), turn @ up)
        return CalibratedCamera(camera, focals, centre, distortion)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        what = f"a camera of '{file}' cannot be read: {type(error).__name__} {error}"
        raise InputError(what, fix) from None


def default_camera(size: tuple[int, int]) -> CalibratedCamera:
    """A level camera of usual focal length, where nothing is known of the real one."""
    position = np.array(DEFAULT_POSITION)
    camera = Camera(position, position - (0.0, 0.0, 1.0), DEFAULT_FOCAL * max(size), size)
    return CalibratedCamera.from_camera(camera)


_PARTS: Final = ("shoulder", "elbow", "wrist", "hip", "knee", "ankle")
COCO: Final = (
    *("nose", "left_eye", "right_eye", "left_ear", "right_ear"),
    *(f"{side}_{part}" for part in _PARTS for side in ("left", "right")),
)
_ARMS: Final = tuple(f"{side}_{part}" for side in ("right", "left") for part in ("shoulder", "elbow", "wrist"))
_LEGS: Final = tuple(f"{side}_{part}" for side in ("right", "left") for part in ("hip", "knee", "ankle"))
_EYES: Final = ("right_eye", "left_eye", "right_ear", "left_ear")
OPENPOSE_18: Final = ("nose", "neck", *_ARMS, *_LEGS, *_EYES)
OPENPOSE_25: Final = (
    *("nose", "neck", *_ARMS, "mid_hip", *_LEGS, *_EYES),
    *("left_big_toe", "left_small_toe", "left_heel", "right_big_toe", "right_small_toe", "right_heel"),
)
BLAZEPOSE: Final = (
    *("nose", "left_eye_inner", "left_eye", "left_eye_outer", "right_eye_inner", "right_eye", "right_eye_outer"),
    *("left_ear", "right_ear", "mouth_left", "mouth_right"),
    *(
        f"{side}_{part}"
        for part in ("shoulder", "elbow", "wrist", "pinky", "index", "thumb")
        for side in ("left", "right")
    ),
    *(f"{side}_{part}" for part in ("hip", "knee", "ankle", "heel", "foot_index") for side in ("left", "right")),
)
LAYOUTS: Final = {len(names): names for names in (COCO, OPENPOSE_18, OPENPOSE_25, BLAZEPOSE)}
# Detected points that are other points of the body, by the name that ``body_points`` knows; sides are added
_SAME: Final = {"index": "hand", "foot_index": "foot_tip", "big_toe": "foot_tip", "heel": "heel"}
BODY_POINTS: Final = {
    **{name: name for name in (*COCO, "head", "left_hand", "right_hand")},
    **{f"{side}_{name}": f"{side}_{point}" for name, point in _SAME.items() for side in ("left", "right")},
}
FACE_TRUST: Final = 0.25  # [-] eyes, ears and nose lie a few centimetres from where the table has them
MAX_FRAMES: Final = 1_000_000
NORMALISED_MOST: Final = 2.0  # [-] coordinates below this are parts of the picture, not pixels


@dataclass(frozen=True, slots=True, eq=False)
class DetectedPoints:
    """Points of one person as a detector gave them, before a camera is known."""

    file: str
    names: tuple[str, ...]  # (K,) of the detector
    pixels: FloatArray  # (F, K, 2) [px], or parts of the picture
    confidences: FloatArray  # (F, K); 0 where not seen
    num_people: int = 1  # most people in one frame
    size: tuple[int, int] | None = None  # [px] of the picture, where the file says it
    rate_hz: float | None = None
    camera: CalibratedCamera | None = None

    @property
    def is_normalised(self) -> bool:
        """Whether coordinates are parts of the picture's width and height."""
        seen = self.pixels[self.confidences > 0.0]
        return bool(len(seen)) and bool(np.abs(seen).max() <= NORMALISED_MOST)

    @property
    def unused(self) -> tuple[str, ...]:
        """Points of the detector that a skeleton does not have."""
        return tuple(name for name in self.names if name not in BODY_POINTS)

    def observe(self, camera: CalibratedCamera, rate_hz: float) -> Observations:
        """Return what an ideal pinhole would have seen: points of the body, in pixels without distortion.

        Raises:
            InputError: no point is one of a skeleton.
        """
        used = [k for k, name in enumerate(self.names) if name in BODY_POINTS]
        if not used:
            raise InputError(f"'{self.file}' names no point of a body", f"Known are {', '.join(BODY_POINTS)}")
        names = [BODY_POINTS[self.names[k]] for k in used]
        scale = np.array(camera.camera.size) if self.is_normalised else np.ones(2)
        pixels, trust = camera.rectify(scale * self.pixels[:, used]), self.confidences[:, used].copy()
        trust[:, [name in FACE for name in names]] *= FACE_TRUST
        valid = (trust > 0.0) & np.isfinite(pixels).all(axis=-1)
        pixels = np.where(valid[..., None], pixels, 0.0)
        return Observations(camera.camera, rate_hz, tuple(names), pixels, valid, np.clip(trust, 0.0, 1.0))


def load_keypoints(path: str | Path, *, person: int = 0) -> DetectedPoints:
    """Read the key points of one person.

    Known are COCO annotations and results (JSON), OpenPose (a folder with one JSON file a frame, or one file with a
    list of frames), landmarks of BlazePose as MediaPipe and TensorFlow.js give them (JSON, a list of frames), and what
    ``marey track --save`` writes. Where frames show several people, one is followed by nearness.

    Args:
        path: file or folder.
        person: 0 is the one that the first frame shows best, 1 the next, and so on.

    Raises:
        MissingFileError: there is no such file.
        FormatError: it is not JSON, or holds no key points of a known layout.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(path.glob("*.json"))
        if not files:
            raise InputError(f"'{path}' holds no .json file", "Give the folder that OpenPose's --write_json filled")
        content: Any = [_read_json(file) for file in files]
    elif path.is_file():
        content = _read_json(path)
    else:
        raise MissingFileError(str(path))
    try:
        if is_object(content) and "pixels" in content:
            # What --save writes: names, pixels with null for what is not seen, rate_hz, camera
            names, pixels = tuple(str(name) for name in content["names"]), content["pixels"]
            points = np.array(
                [[(np.nan, np.nan) if p is None else p for p in frame] for frame in pixels], dtype=np.float64
            )
            points = points.reshape(len(pixels), len(names), 2)
            trust = (
                np.ones(points.shape[:2]) if content.get("confidences") is None else np.array(content["confidences"])
            )
            seen = np.asarray(np.isfinite(points).all(axis=-1), dtype=np.bool_)
            camera = build_camera(content["camera"], str(path)) if content.get("camera") else None
            size = None if camera is None else camera.camera.size
            rate_hz = None if content.get("rate_hz") is None else float(content["rate_hz"])
            points = np.where(seen[..., None], points, 0.0)
            return DetectedPoints(str(path), names, points, np.where(seen, trust, 0.0), 1, size, rate_hz, camera)
        facts: dict[str, Any] = content if is_object(content) else {}
        names, frames = _list_people(content)
        # Choose one person of the first frame that has that many, and the nearest to it from then on
        where = str(path)
        if len(frames) > MAX_FRAMES:
            raise ValueError(f"{len(frames)} frames")
        most, chosen = max(len(people) for people in frames), np.zeros((len(frames), len(names), 3))
        if not 0 <= person < most:
            raise InputError(f"person {person} of '{where}'", f"It shows at most {most}; count from 0")
        last: Person | None = None
        for f, people in enumerate(frames):
            ranked = sorted(people, key=lambda points: -points[:, 2].sum() * float(np.ptp(points[:, 1])))
            if last is None and len(ranked) > person:
                last = ranked[person]
                chosen[f] = last
            elif last is not None and ranked:
                shared = [np.minimum(points[:, 2], last[:, 2]) for points in ranked]
                gaps = [
                    float(np.average(np.hypot(*(points - last)[:, :2].T), weights=weight)) if weight.any() else np.inf
                    for points, weight in zip(ranked, shared, strict=True)
                ]
                # Who is further away than the person is tall is somebody else
                seen = last[last[:, 2] > 0.0]
                if min(gaps) <= max(float(np.ptp(seen[:, 0])), float(np.ptp(seen[:, 1])), 1e-9):
                    last = ranked[int(np.argmin(gaps))]
                    chosen[f] = last
        chosen[~np.isfinite(chosen).all(axis=-1)] = 0.0
        size = None
        images: list[dict[str, Any]] = facts.get("images") or [{}]
        for source in (facts, images[0]):
            if source.get("width") and source.get("height"):
                size = (int(source["width"]), int(source["height"]))
        rate = next((float(facts[key]) for key in ("rate_hz", "fps", "frame_rate") if facts.get(key)), None)
        return DetectedPoints(where, names, chosen[..., :2], np.clip(chosen[..., 2], 0.0, 1.0), most, size, rate)
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        if isinstance(error, FormatError | InputError):
            raise
        what = f"no key points of a known layout ({type(error).__name__}: {error})"
        raise FormatError(what, str(path), 1, "Give COCO, OpenPose or BlazePose JSON, see docs/tracking.md") from None


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise FormatError(f"not JSON: {error.msg}", str(file), error.lineno, "Export it again") from None
    except (UnicodeDecodeError, RecursionError):
        raise FormatError("not a JSON text", str(file), 1, "Export it again") from None


Person = FloatArray  # (K, 3) x, y, confidence


def _list_people(content: Any) -> tuple[tuple[str, ...], list[list[Person]]]:
    """People of each frame, and the names of their points."""
    annotations: Any = content.get("annotations") if is_object(content) else content
    if (
        is_list(annotations)
        and annotations
        and all(is_object(one) and "image_id" in one and "keypoints" in one for one in annotations)
    ):
        # COCO: the people of all images in one list
        facts: dict[str, Any] = content if is_object(content) else {}
        flat = [np.array(one["keypoints"], dtype=np.float64).reshape(-1, 3) for one in annotations]
        categories: list[Any] = [c["keypoints"] for c in facts.get("categories", []) if c.get("keypoints")]
        names = tuple(str(name) for name in categories[0]) if categories else LAYOUTS[len(flat[0])]
        # Frames in the order of the images, or of their numbers with gaps where nobody was found
        ids: list[Any] = [one["image_id"] for one in annotations]
        if facts.get("images"):
            images: list[dict[str, Any]] = facts["images"]
            order = [image["id"] for image in sorted(images, key=lambda image: image.get("frame_id", image["id"]))]
        elif all(isinstance(i, int) for i in ids) and max(ids) - min(ids) < 4 * len(set(ids)) + 16:
            order = list(range(min(ids), max(ids) + 1))
        else:
            order = sorted(set(ids), key=lambda i: (len(str(i)), str(i)))
        at = {image: f for f, image in enumerate(order)}
        everyone: list[list[Person]] = [[] for _ in order]
        for image, points in zip(ids, flat, strict=True):
            if len(points) != len(names):
                raise ValueError(f"{len(points)} points where {len(names)} are named")
            # A flag of visibility (0, 1, 2) is half a confidence; a detector's score is one
            if facts.get("annotations") is not None and set(np.unique(points[:, 2]).tolist()) <= {0.0, 1.0, 2.0}:
                points[:, 2] /= 2.0
            everyone[at[image]].append(points)
        return names, everyone
    if is_object(content) and "people" in content:
        frames: Any = [content]
    elif is_object(content):
        found = [
            content[key] for key in ("frames", "results", "poses", "landmarks", "pose_landmarks") if key in content
        ]
        frames = found[0]
    else:
        frames = content
    if is_object(frames):
        frames = [frames[key] for key in sorted(frames, key=lambda key: (len(key), key))]
    people, names = [_list_frame(frame) for frame in frames], list[tuple[str, ...]]()
    for frame in people:
        names += [own for own, _ in frame]
    if not names:
        raise ValueError("no person in any frame")
    if len(set(names)) > 1:
        raise ValueError(f"people of {sorted({len(own) for own in names})} points in one file")
    return names[0], [[points for _, points in frame] for frame in people]


def _list_frame(frame: Any) -> list[tuple[tuple[str, ...], Person]]:
    """People of one frame: OpenPose, MediaPipe, TensorFlow.js."""
    if frame is None:
        return []
    if is_object(frame) and "people" in frame:
        flat = [np.array(one["pose_keypoints_2d"], dtype=np.float64).reshape(-1, 3) for one in frame["people"]]
        return [(LAYOUTS[len(points)], points) for points in flat if len(points)]
    if is_object(frame):
        for key in ("pose_landmarks", "poseLandmarks", "landmarks", "keypoints", "poses", "landmark"):
            if key in frame:
                return _list_frame(frame[key])
        raise KeyError("a frame without people, landmarks or keypoints")
    if not is_list(frame) or not frame:
        return []
    # A list of people, or one person
    first: Any = frame[0]
    is_people = is_object(first) and "x" not in first
    if is_people or (is_list(first) and (is_object(first[0]) or is_list(first[0]))):
        return [person for one in frame for person in _list_frame(one)]
    points = np.zeros((len(frame), 3))
    for k, point in enumerate(frame):
        if is_object(point):
            trust: Any = next(
                (point[key] for key in ("visibility", "score", "confidence") if point.get(key) is not None), 1.0
            )
            points[k] = float(point["x"]), float(point["y"]), float(trust)
        elif is_list(point):
            points[k] = point[0], point[1], point[-1] if len(point) > 2 else 1.0
    names = [str(point.get("name") or "") for point in frame if is_object(point)]
    return [(tuple(names) if len(names) == len(frame) and all(names) else LAYOUTS[len(frame)], points)]
