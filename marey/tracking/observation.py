"""Points of a body by name, the camera that sees them and its detections, and the body of a tracked person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, UnknownNameError, frozen, frozen_bools
from marey.lie import SO3
from marey.models import PoseModel, load_model
from marey.motion import Motion
from marey.skeleton import HUMAN, ContactPoints, Skeleton, contact_points, joint_frames, role_map, t_pose

TOOLS: Final = ("left_hand", "right_hand", "head")  # the three end effectors of [Engell2012]_ §9.1
KEYPOINTS: Final = (
    *TOOLS,
    *(f"{side}_{part}" for part in ("wrist", "elbow", "shoulder") for side in ("left", "right")),
)
BODY_KEYPOINTS: Final = (
    *KEYPOINTS,
    *(f"{side}_{part}" for part in ("hip", "knee", "ankle") for side in ("left", "right")),
)  # what a detector of whole bodies gives
TIP: Final = "_tip"
# Where the face's points are from the head's joint, in lengths of the head's tip: left, up, forward (an adult of 1.75 m
# has the nose 4 cm above the joint and 11 cm before it)
FACE: Final = {
    "nose": (0.0, 0.23, 0.60),
    "left_eye": (0.17, 0.42, 0.44),
    "right_eye": (-0.17, 0.42, 0.44),
    "left_ear": (0.39, 0.29, 0.03),
    "right_ear": (-0.39, 0.29, 0.03),
}


def body_points(skeleton: Skeleton, names: Sequence[str]) -> ContactPoints:
    """Find points by name: a joint, a role of the canonical human, a palm (``"left_hand"``) or a tip (``"head_tip"``).

    A joint or role stands for its origin. ``"nose"``, eyes and ears are on the head (``FACE``).

    Raises:
        UnknownNameError: the skeleton has no such point.
        InputError: no name, or one name twice.
    """
    if not names or len(set(names)) < len(names):
        raise InputError(f"points are {tuple(names)}", "Name at least one point, each of them once")
    roles, touches = role_map(skeleton), contact_points(skeleton)
    joints, offsets = list[int](), list[FloatArray]()
    for name in names:
        # A joint, a role, a point of contact, or the tip of a joint
        offset, tip = np.zeros(3), name.removesuffix(TIP)
        if name in skeleton.names:
            joint = skeleton.index(name)
        elif name in roles:
            joint = roles[name]
        elif name in touches.names:
            k = touches.index(name)
            joint, offset = int(touches.joints[k]), touches.offsets[k]
        elif tip != name and tip in skeleton.names and skeleton.tips[skeleton.index(tip)].any():
            joint = skeleton.index(tip)
            offset = skeleton.tips[joint]
        elif name in FACE and "head" in roles:
            # In the calibration pose the head looks along +Z; its tip, or a tenth of the height, is the unit
            joint, pose = roles["head"], t_pose(skeleton, roles)
            positions, R_world_joint = joint_frames(skeleton, pose.root_position[None], pose.rotations.wxyz[None])
            size = float(np.linalg.norm(skeleton.tips[joint])) or 0.1 * float(np.ptp(positions[0, :, 1]))
            offset = R_world_joint[0, joint].inverse() @ (size * np.asarray(FACE[name]))
        else:
            raise UnknownNameError("point", name, f"skeleton '{skeleton.name}'", (*touches.names, *skeleton.names))
        joints.append(joint)
        offsets.append(offset)
    return ContactPoints(tuple(names), np.array(joints), np.array(offsets))


def track_points(motion: Motion, names: Sequence[str]) -> FloatArray:
    """Points of a clip by name, ``(F, K, 3)`` [m] in world."""
    positions, R_world_joint = motion.joint_frames()
    return body_points(motion.skeleton, names).positions(positions, R_world_joint)


def average_rotations(wxyz: FloatArray, weights: FloatArray) -> FloatArray:
    r"""Weighted mean ``(J, 4)`` of rotations ``(N, J, 4)``, one step from the heaviest.

    .. math:: \mu = q_* \exp\Big(\sum_i w_i \log(q_*^{-1} q_i)\Big)
    """
    heaviest = SO3(wxyz[int(np.argmax(weights))])
    steps = (heaviest.inverse() @ SO3(wxyz)).log()
    return (heaviest @ SO3.exp(np.einsum("n,njc->jc", weights, steps))).wxyz


def average_roots(roots: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted mean ``(3,)`` of places ``(N, 3)``; of equal places it is that place to the last bit."""
    heaviest = roots[int(np.argmax(weights))]
    return heaviest + weights @ (roots - heaviest)


UP: Final = (0.0, 1.0, 0.0)  # +Y, as everywhere in marey
MIN_VIEW_DISTANCE_M: Final = 1e-9  # [m] below this, position and target are one point
MIN_UP_SINE: Final = 1e-6  # [-] the image of a nearly vertical view has no up direction
MIN_DEPTH_M: Final = 0.05  # [m] points nearer than this to the lens plane, or behind it, count as this near


@dataclass(frozen=True, slots=True, eq=False)
class Camera:
    r"""A pinhole at ``position`` that looks at ``target``, ``up`` upright on the picture, rows going down.

    .. math:: u = \tfrac w2 + f\,\frac{r\cdot(p-c)}{d}, \quad v = \tfrac h2 - f\,\frac{u\cdot(p-c)}{d}, \quad
              d = \text{forward}\cdot(p-c)

    The camera of the thesis is not described ([Engell2012]_ §9); a pinhole without distortion is our choice.
    """

    position: FloatArray  # (3,) [m] in world
    target: FloatArray  # (3,) [m] in world, seen at the middle of the picture
    focal_px: float = 600.0  # [px] focal length; 600 on a picture 480 high sees 44 degrees from top to bottom
    size: tuple[int, int] = (640, 480)  # [px] (width, height)
    up: FloatArray = field(default_factory=lambda: np.array(UP))  # (3,) upright on the picture; another one rolls it

    def __post_init__(self) -> None:
        object.__setattr__(self, "position", frozen(self.position, 3, name="camera position"))
        object.__setattr__(self, "target", frozen(self.target, 3, name="camera target"))
        object.__setattr__(self, "up", frozen(self.up, 3, name="camera up"))
        forward = self.target - self.position
        length = float(np.linalg.norm(forward))
        if length < MIN_VIEW_DISTANCE_M:
            raise InputError("the camera stands at its own target", "Move one of them")
        if not np.linalg.norm(np.cross(forward, self.up)) > MIN_UP_SINE * length * np.linalg.norm(self.up):
            raise InputError("the camera looks straight up or down", "Tilt it, or give another `up` of the picture")
        if not (np.isfinite(self.focal_px) and self.focal_px > 0.0):
            raise InputError(f"the camera's focal_px is {self.focal_px}", "It must be positive")
        if min(self.size) < 1:
            raise InputError(f"the camera's size is {self.size}", "Give a positive (width, height) in pixels")

    def axes(self) -> FloatArray:
        """Rows ``(3, 3)``: right, up and forward (depth) of the picture, unit vectors in world."""
        forward = (self.target - self.position) / np.linalg.norm(self.target - self.position)
        right = np.cross(forward, self.up)
        right /= np.linalg.norm(right)
        return np.stack([right, np.cross(right, forward), forward])

    def project(self, points: FloatArray) -> FloatArray:
        """Pixels ``(..., 2)`` of world points ``(..., 3)``; never infinite, see ``MIN_DEPTH_M``."""
        right, up, depth = np.moveaxis(self._to_camera(points), -1, 0)
        scale = self.focal_px / depth
        return np.stack([0.5 * self.size[0] + scale * right, 0.5 * self.size[1] - scale * up], axis=-1)

    def jacobian(self, points: FloatArray) -> FloatArray:
        """How the pixels move with the points: ``(..., 2, 3)`` [px/m], in world axes."""
        right, up, depth = np.moveaxis(self._to_camera(points), -1, 0)
        r, u, f = self.axes()
        scale = (self.focal_px / depth)[..., None]
        across = r - (right / depth)[..., None] * f
        down = (up / depth)[..., None] * f - u
        return np.stack([scale * across, scale * down], axis=-2)

    def back_project(self, pixels: FloatArray, points: FloatArray) -> FloatArray:
        """Points ``(..., 3)`` [m] that are seen at ``pixels`` ``(..., 2)``, as deep as other points ``(..., 3)``."""
        depth = self._to_camera(points)[..., 2]
        right = (pixels[..., 0] - 0.5 * self.size[0]) / self.focal_px
        up = (0.5 * self.size[1] - pixels[..., 1]) / self.focal_px
        seen = np.stack(np.broadcast_arrays(depth * right, depth * up, depth), axis=-1)
        return self.position + seen @ self.axes()

    def diagonal(self, across: float, up: float, depth: float) -> FloatArray:
        """Matrix ``(3, 3)`` in world axes that is diagonal in those of the picture."""
        axes = self.axes()
        return (axes.T * np.array([across, up, depth])) @ axes

    def is_in_view(self, points: FloatArray) -> BoolArray:
        """Whether points ``(..., 3)`` are before the lens and inside the picture."""
        pixels = self.project(points)
        inside = np.all((pixels >= 0.0) & (pixels <= np.asarray(self.size)), axis=-1)
        return inside & ((points - self.position) @ self.axes()[2] > MIN_DEPTH_M)

    def _to_camera(self, points: FloatArray) -> FloatArray:
        seen = (np.asarray(points, dtype=np.float64) - self.position) @ self.axes().T
        seen[..., 2] = np.maximum(seen[..., 2], MIN_DEPTH_M)
        return seen


@dataclass(frozen=True, slots=True)
class Occlusion:
    """Occlusion rates, independent for each point."""

    share: float = 0.0  # [-] of all detections, dropped one by one
    bursts_per_s: float = 0.0  # [1/s] how often a point disappears for a while
    burst_s: float = 0.4  # [s] mean length of such a gap

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1.0:
            raise InputError(f"occlusion share is {self.share}", "It must lie between 0 and 1")
        if not (self.bursts_per_s >= 0.0 and self.burst_s > 0.0):
            raise InputError(f"bursts of {self.burst_s} s, {self.bursts_per_s} a second", "Both must be positive")

    def sample_hidden(self, rng: np.random.Generator, frames: int, points: int, rate_hz: float) -> BoolArray:
        """Draw which detections are missing, ``(frames, points)``; gaps are geometric in length."""
        hidden = rng.random((frames, points)) < self.share
        begin = min(1.0, self.bursts_per_s / rate_hz)
        end = min(1.0, 1.0 / (self.burst_s * rate_hz))
        gap = np.zeros(points, dtype=np.bool_)
        # A gap goes on with one probability and begins with another
        for f in range(frames):
            gap = np.where(gap, rng.random(points) >= end, rng.random(points) < begin)
            hidden[f] |= gap
        return hidden


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Observations:
    """Image points of a clip; a point that is not seen is a mask, never a zero."""

    camera: Camera
    rate_hz: float
    names: tuple[str, ...]  # (K,) points of the body, see :func:`body_points`
    pixels: FloatArray  # (F, K, 2) [px], columns right and rows down
    valid: BoolArray  # (F, K)
    confidences: FloatArray | None = None  # (F, K) of the detector, between 0 and 1; all 1 if not given

    def __post_init__(self) -> None:
        names = tuple(self.names)
        pixels = frozen(self.pixels, None, len(names), 2, name="pixels")
        shape = pixels.shape[:2]
        given = np.ones(shape) if self.confidences is None else self.confidences
        confidences = frozen(given, *shape, name="confidences")
        if not len(pixels):
            raise InputError("observations without frames", "They need at least one")
        if np.any((confidences < 0.0) | (confidences > 1.0)):
            raise InputError("a confidence is not between 0 and 1", "Scale the detector's scores")
        if not (np.isfinite(self.rate_hz) and self.rate_hz > 0.0):
            raise InputError(f"rate_hz is {self.rate_hz}", "It must be a positive number of frames per second")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "pixels", pixels)
        object.__setattr__(self, "valid", frozen_bools(self.valid, *shape, name="valid"))
        object.__setattr__(self, "confidences", confidences)

    @property
    def trust(self) -> FloatArray:
        """Weight of each detection, ``(F, K)``: its confidence, or zero where nothing is seen."""
        return np.where(self.valid, 1.0 if self.confidences is None else self.confidences, 0.0)

    def __len__(self) -> int:
        return len(self.pixels)

    def __repr__(self) -> str:
        return f"Observations({len(self.names)} points, {len(self)} frames, {self.valid.mean():.0%} seen)"


def check_views(views: Sequence[Observations]) -> None:
    """Refuse cameras that did not see the same frames."""
    if len({(len(view), view.rate_hz) for view in views}) != 1:
        what = [f"{len(view)} frames at {view.rate_hz:g} Hz" for view in views]
        raise InputError(f"the cameras saw {', '.join(what) or 'nothing'}", "Give the same frames of each")


def cut_views(views: Sequence[Observations], frames: int) -> list[Observations]:
    """Return the first frames of what each camera saw."""
    return [
        replace(view, pixels=view.pixels[:frames], valid=view.valid[:frames], confidences=view.trust[:frames])
        for view in views
    ]


def observe(
    motion: Motion,
    camera: Camera,
    joints: Sequence[str] = KEYPOINTS,
    *,
    noise_px: float = 2.0,
    occlusion: Occlusion | None = None,
    outliers: float = 0.0,
    rng: np.random.Generator,
) -> Observations:
    """Watch a clip: project points of the body, add noise, hide some and misplace some.

    The video of [Engell2012]_ §9.1 is not available, and its image likelihood is left to other papers. Detections of
    named points replace it, as a keypoint detector would give them; the rest of the protocol is kept.

    Args:
        motion: what really happens.
        camera: from where.
        joints: points of the body by name, see :func:`body_points`; hands, head and the joints of the arms by default.
        noise_px: standard deviation of each pixel coordinate [px].
        occlusion: how often points are hidden; points outside the picture always are.
        outliers: share of detections that are somewhere else in the picture.
        rng: source of all chance.
    """
    if not (np.isfinite(noise_px) and noise_px >= 0.0 and 0.0 <= outliers <= 1.0):
        raise InputError(f"noise_px is {noise_px}, outliers {outliers}", "Give a noise >= 0 and a share in 0..1")
    # Projected and displaced; strays are anywhere in the picture
    points = track_points(motion, joints)
    frames, count = points.shape[:2]
    pixels = camera.project(points) + noise_px * rng.normal(size=(frames, count, 2))
    strays = rng.random((frames, count)) < outliers
    pixels = np.where(strays[..., None], rng.random((frames, count, 2)) * camera.size, pixels)
    # What is hidden or out of view is not detected
    hidden = (occlusion or Occlusion()).sample_hidden(rng, frames, count, motion.rate_hz)
    return Observations(camera, motion.rate_hz, tuple(joints), pixels, camera.is_in_view(points) & ~hidden)


# Segments that two points of each side span, and those that both sides span together
LIMBS: Final = {
    "thigh": ("hip", "knee"),
    "shank": ("knee", "ankle"),
    "upper_arm": ("shoulder", "elbow"),
    "forearm": ("elbow", "wrist"),
}
COCO_JOINTS: Final = tuple(
    f"{side}_{part}" for part in ("shoulder", "elbow", "wrist", "hip", "knee", "ankle") for side in ("left", "right")
)
WIDTHS: Final = {"hips": "hip", "shoulders": "shoulder"}
TRUNK: Final = "trunk"  # middle of the hips to middle of the shoulders
SEGMENTS: Final = (*LIMBS, *WIDTHS, TRUNK)
# The segment that stretches each joint's offset; others are stretched as the whole body
STRETCHED: Final = {
    "knee": "thigh",
    "ankle": "shank",
    "elbow": "upper_arm",
    "wrist": "forearm",
    "hip": "hips",
    **dict.fromkeys(("spine1", "spine2", "spine3", "neck", "collar", "shoulder"), TRUNK),
}
MIN_SEGMENT_FRAMES: Final = 3  # a segment seen in fewer frames is not measured
MAX_STRETCH: Final = 1.35  # [-] a segment further from HUMAN than this is a wrong triangulation
MIN_RAY_SINE: Final = 0.05  # [-] rays of two cameras that are more parallel than this do not fix a depth


@cache
def load_people_poses() -> PoseModel:
    """Load the shipped pose model: principal geodesics of captured people, see ``benchmarks/fit_people_poses.py``."""
    return load_model(Path(__file__).with_name("data") / "people.safetensors")


def measure_segments(names: Sequence[str], points: FloatArray, valid: BoolArray) -> dict[str, float]:
    """Median length [m] of each segment between named points ``(F, K, 3)`` that are valid ``(F, K)``."""
    at = {name: k for k, name in enumerate(names)}
    spans: dict[str, list[FloatArray]] = {}

    def add(segment: str, a: tuple[str, ...], b: tuple[str, ...]) -> None:
        if all(name in at for name in a + b):
            seen = valid[:, [at[name] for name in a + b]].all(axis=1)
            ends = [points[seen][:, [at[name] for name in end]].mean(axis=1) for end in (a, b)]
            spans.setdefault(segment, []).append(np.linalg.norm(ends[1] - ends[0], axis=-1))

    for segment, (upper, lower) in LIMBS.items():
        for side in ("left", "right"):
            add(segment, (f"{side}_{upper}",), (f"{side}_{lower}",))
    for segment, part in WIDTHS.items():
        add(segment, (f"left_{part}",), (f"right_{part}",))
    add(TRUNK, ("left_hip", "right_hip"), ("left_shoulder", "right_shoulder"))
    lengths = {segment: np.concatenate(found) for segment, found in spans.items()}
    return {s: float(np.median(found)) for s, found in lengths.items() if len(found) >= MIN_SEGMENT_FRAMES}


def measure_clip_segments(motion: Motion) -> dict[str, float]:
    """Median length [m] of each segment of a clip whose joints have roles."""
    names = [name for name in COCO_JOINTS if name in role_map(motion.skeleton)]
    points = track_points(motion, names)
    repeats = -(-MIN_SEGMENT_FRAMES // len(points))
    points = np.tile(points, (repeats, 1, 1))
    return measure_segments(names, points, np.ones(points.shape[:2], dtype=np.bool_))


def fit_body(lengths_m: Mapping[str, float]) -> Skeleton:
    """Return the canonical human whose segments have these lengths [m]; what is not given follows the others."""
    rest = HUMAN.rest_positions()[None]
    usual = measure_segments(HUMAN.names, np.repeat(rest, MIN_SEGMENT_FRAMES, axis=0), np.ones((3, 22), dtype=np.bool_))
    for name in lengths_m:
        if name not in usual:
            raise UnknownNameError("segment", name, "the body", usual)
    ratios = {name: float(np.clip(lengths_m[name] / usual[name], 1.0 / MAX_STRETCH, MAX_STRETCH)) for name in lengths_m}
    return stretch_body(HUMAN, float(np.median(list(ratios.values()))) if ratios else 1.0, ratios)


def stretch_body(body: Skeleton, whole: float, ratios: Mapping[str, float], *, sole_m: float = 0.0) -> Skeleton:
    """Stretch segments of the canonical human by their own ratios, the rest as the whole, and thicken the soles [m]."""
    offsets = np.array(body.offsets)
    for j, name in enumerate(body.names):
        part = name.removeprefix("left_").removeprefix("right_")
        offsets[j] *= ratios.get(STRETCHED.get(part, ""), whole)
        # Collars and shoulders are as wide as measured, whatever the trunk is
        if part in ("collar", "shoulder"):
            offsets[j, 0] = body.offsets[j, 0] * ratios.get("shoulders", whole)
        # The sole lies under the ball of the foot
        if part == "foot":
            offsets[j, 1] -= sole_m
    return replace(body, offsets=offsets, tips=whole * np.array(body.tips))


def triangulate(views: Sequence[Observations]) -> tuple[tuple[str, ...], FloatArray, BoolArray]:
    """Points ``(F, K, 3)`` [m] that two cameras or more see, their names, and which of them are fixed ``(F, K)``.

    Each ray passes at :math:`(I - d d^T)(p - c) = 0`; the point is the least-squares answer, rays weighed by trust.
    """
    names = tuple(dict.fromkeys(name for view in views for name in view.names))
    A, b = np.zeros((len(views[0]), len(names), 3, 3)), np.zeros((len(views[0]), len(names), 3))
    for view in views:
        camera, which = view.camera, [names.index(name) for name in view.names]
        ahead = np.broadcast_to(camera.position + camera.axes()[2], (*view.pixels.shape[:2], 3))
        rays = camera.back_project(view.pixels, ahead) - camera.position
        rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
        across = view.trust[..., None, None] * (np.eye(3) - rays[..., :, None] * rays[..., None, :])
        A[:, which] += across
        b[:, which] += across @ camera.position
    # Of two rays with an angle a between them, the least eigenvalue is 1 - cos a
    least = np.asarray(np.linalg.eigvalsh(A)[..., 0], dtype=np.float64)
    fixed: BoolArray = least > 1.0 - np.sqrt(1.0 - MIN_RAY_SINE**2)
    A[~fixed] = np.eye(3)
    return names, np.asarray(np.linalg.solve(A, b[..., None])[..., 0], dtype=np.float64), fixed
