"""The body of a tracked person: the canonical human with measured segments, and the shipped model of its poses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, UnknownNameError
from marey.models import PoseModel, load_model
from marey.motion import Motion
from marey.skeleton import HUMAN, Skeleton, role_map
from marey.tracking.observation import Observations, track_points

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
    whole = float(np.median(list(ratios.values()))) if ratios else 1.0
    offsets, tips = np.array(HUMAN.offsets), whole * np.array(HUMAN.tips)
    for j, name in enumerate(HUMAN.names):
        part = name.removeprefix("left_").removeprefix("right_")
        offsets[j] *= ratios.get(STRETCHED.get(part, ""), whole)
        # Collars and shoulders are as wide as measured, whatever the trunk is
        if part in ("collar", "shoulder"):
            offsets[j, 0] = HUMAN.offsets[j, 0] * ratios.get("shoulders", whole)
    return replace(HUMAN, offsets=offsets, tips=tips)


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
