"""Foot plants: where each contact stays, and how the foot eases into and out of it ([Glardon2005]_ §2.17)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.motion import find_runs

EASE_S: Final = 0.20  # [s] longest ease-in or ease-out
EASE_FRACTION: Final = 0.4  # [-] of the free time between two contacts
MAX_GAP_S: Final = 0.06  # [s] shorter gaps between two contacts of a point are flicker of the detector
FREE_M: Final = 0.008  # [m] a point in contact may be this far from its natural path before it starts to creep
HOLD_M: Final = 0.012  # [m] farther from its natural path a contact ends
LIFT_M: Final = 0.03  # [m] a ball of the foot that is higher has left the ground and stands on its toes
CREEP_M: Final = 0.0013  # [m] per frame: not visible
CREEP_MPS: Final = 0.16  # [m/s] the same at high frame rates
LEVEL_M: Final = 0.012  # [m] contacts nearer than this to the ground are on it; others are on steps or bars
TILT_REACH_M: Final = 0.1  # [m] contacts spread over less than this say nothing about how the floor tilts


@dataclass(frozen=True, slots=True, eq=False)
class FloorPlane:
    """A nearly level plane: captured floors tilt by up to two degrees against the world's axes."""

    height: float  # [m] at the world's origin
    slope: FloatArray  # (2,) [-] rise along x and along z

    @classmethod
    def fit(cls, points: FloatArray) -> FloorPlane:
        """Fit contacts ``(N, 3)`` [m] by least squares, the slope drawn to zero where they are close together."""
        middle = points.mean(axis=0)
        away = points - middle
        level = away[:, [0, 2]]
        normal = level.T @ level + len(points) * TILT_REACH_M**2 * np.eye(2)
        a, b, c = float(normal[0, 0]), float(normal[0, 1]), float(normal[1, 1])
        slope = np.array([[c, -b], [-b, a]]) @ (level.T @ away[:, 1]) / (a * c - b * b)
        return cls(float(middle[1] - slope @ middle[[0, 2]]), slope)

    def under(self, points: FloatArray) -> FloatArray:
        """Heights ``(...)`` [m] of the floor under points ``(..., 3)``."""
        return self.height + points[..., [0, 2]] @ self.slope


@dataclass(frozen=True, slots=True, eq=False)
class PointPlant:
    """One contact of one point."""

    start: int
    place: FloatArray  # (3,) [m] where the point stays
    path: FloatArray  # (N, 3) [m] where it is, frame by frame: at its place but for the ends of the contact

    @property
    def stop(self) -> int:
        """First frame after the contact."""
        return self.start + len(self.path)


def plan_plants(
    heel: FloatArray, toe: FloatArray, heel_down: BoolArray, toe_down: BoolArray, floor: FloorPlane, rate_hz: float
) -> tuple[list[PointPlant], list[PointPlant]]:
    """Choose where heel and toe stay during each contact.

    A contact on its own stays where the point was most of the time. One that begins while the other point of the
    same foot is down is placed a foot's length from it, so that both can be kept at once. A foot rolls into and out
    of its contacts, so at their ends the point may creep, unseen, towards where it was (:func:`_hold_point`).

    Args:
        heel: natural path of the heel ``(F, 3)`` [m].
        toe: natural path of the toe ``(F, 3)`` [m].
        heel_down: contact flags ``(F,)``.
        toe_down: contact flags ``(F,)``.
        floor: the ground.
        rate_hz: frames per second.
    """
    bridge = round(MAX_GAP_S * rate_hz)
    # Contacts of heel and toe in the order in which they begin
    todo = [(a, b, 0) for a, b in find_runs(heel_down, bridge)] + [(a, b, 1) for a, b in find_runs(toe_down, bridge)]
    paths = (heel, toe)
    plants: tuple[list[PointPlant], list[PointPlant]] = ([], [])
    for start, stop, which in sorted(todo):
        path, other = paths[which], paths[1 - which]
        near = [p for p in plants[1 - which] if p.start < stop and start < p.stop]
        place = np.median(path[start:stop], axis=0)
        place[1] = _level_position(place, floor)
        # Beside the other point of the foot, a foot's length away
        if near:
            a, b = max(start, near[0].start), min(stop, near[0].stop)
            foot = np.median(path[a:b] - other[a:b], axis=0)
            aside = near[0].place + foot
            # A vector of the foot's own length along its heading, rising by `rise`
            rise = _level_position(aside, floor) - near[0].place[1]
            length = float(np.linalg.norm(foot))
            flat = np.sqrt(max(length**2 - rise**2, 0.0))
            along = np.array([foot[0], 0.0, foot[2]])
            size = float(np.linalg.norm(along))
            along = along * (flat / size) if size > 1e-9 else np.array([0.0, 0.0, flat])
            place = near[0].place + (along + np.array([0.0, rise, 0.0]))
        plants[which].append(_hold_point(path[start:stop], start, place, rate_hz))
    return plants


def _hold_point(path: FloatArray, start: int, place: FloatArray, rate_hz: float) -> PointPlant:
    """Hold a point at its place for as long as that takes it less than ``HOLD_M`` from its natural path.

    From the frame in which the point is nearest to its place, forwards and backwards, it stays until the natural path
    is ``FREE_M`` away, then follows no faster than a creep. Small heights are the ground's; a point that
    lifts while the foot rolls over its toes is let go upwards.
    """
    away = np.hypot(path[:, 0] - place[0], path[:, 2] - place[2])
    core = int(np.argmin(away))
    creep = min(CREEP_M, CREEP_MPS / rate_hz)
    held = np.empty_like(path)
    # Heights near the ground are the ground's; from `LIFT_M` on the point is let go upwards
    rise = path[:, 1] - place[1]
    held[:, 1] = place[1] + rise * (1.0 - _cubic_step(rise / LIFT_M))
    held[core:, [0, 2]] = _follow_path(path[core:, [0, 2]], place[[0, 2]], creep)
    held[: core + 1, [0, 2]] = _follow_path(path[core::-1, [0, 2]], place[[0, 2]], creep)[::-1]
    far = np.flatnonzero(np.hypot(*(held - path)[:, [0, 2]].T) > HOLD_M)
    first = int(far[far < core].max(initial=-1)) + 1
    last = int(far[far > core].min(initial=len(path)))
    return PointPlant(start + first, place, held[first:last])


def _follow_path(path: FloatArray, place: FloatArray, creep: float) -> FloatArray:
    at = place.copy()
    followed = np.empty_like(path)
    for f, natural in enumerate(path):
        gap = natural - at
        size = float(np.hypot(gap[0], gap[1]))
        if f > 0 and size > FREE_M:
            at = at + gap * (min(creep, size - FREE_M) / size)
        followed[f] = at
    return followed


def _level_position(place: FloatArray, floor: FloorPlane) -> float:
    ground = float(floor.under(place))
    return ground if abs(place[1] - ground) < LEVEL_M else float(place[1])


def compute_corrections(path: FloatArray, plants: list[PointPlant], rate_hz: float) -> FloatArray:
    """Offset ``(F, 3)`` [m] that keeps a path at its plants, eased in and out by a cubic step."""
    frames = len(path)
    shift = np.zeros((frames, 3))
    # At its plants the point is where it stays; between them corrections fade
    for plant in plants:
        shift[plant.start : plant.stop] = plant.path - path[plant.start : plant.stop]
    edges = [0, *(i for plant in plants for i in (plant.start, plant.stop)), frames]
    for k, (a, b) in enumerate(zip(edges[::2], edges[1::2], strict=True)):
        if b > a:
            before = shift[a - 1] if k > 0 else None
            after = shift[b] if k < len(plants) else None
            # Each correction fades by the cubic step 2x^3 - 3x^2 + 1
            count = b - a
            t = np.arange(1, count + 1)
            reach = max(1.0, min(EASE_S * rate_hz, EASE_FRACTION * (count + 1)))
            if before is None or after is None:
                reach = max(1.0, min(EASE_S * rate_hz, float(count + 1)))
            faded = np.zeros((count, 3))
            if before is not None:
                faded += _cubic_step(t / reach)[:, None] * before
            if after is not None:
                faded += _cubic_step((count + 1 - t) / reach)[:, None] * after
            shift[a:b] = faded
    return shift


def _cubic_step(x: FloatArray) -> FloatArray:
    x = np.clip(x, 0.0, 1.0)
    return (2.0 * x - 3.0) * x * x + 1.0


def contact_depth_weights(plants: list[PointPlant], frames: int) -> FloatArray:
    """Weight ``(F,)`` of a point: the square of how many frames deep it is in a contact; outside, next to nothing.

    Where heel and toe are both down, the weight so passes smoothly from the one that lifts first to the other.
    """
    t = np.arange(frames)
    weight = np.full(frames, 0.01 / (frames + 1.0))
    for plant in plants:
        since = t - plant.start + 1 if plant.start > 0 else np.full(frames, frames)
        until = plant.stop - t if plant.stop < frames else np.full(frames, frames)
        depth = np.minimum(since, until)
        weight = np.maximum(weight, np.where(depth > 0, depth**2, 0.01 / (1.0 + np.maximum(-depth, 0))))
    return weight


def smooth_upper_envelope(needed: FloatArray, rate_hz: float, seconds: float = 0.10) -> FloatArray:
    """Smallest smooth curve we can make that is nowhere below ``needed`` ``(F,)``: sliding maximum, then mean."""
    half = max(1, round(seconds * rate_hz))
    width = 2 * half + 1
    padded = np.concatenate([np.full(2 * half, needed[0]), needed, np.full(2 * half, needed[-1])])
    highest = np.lib.stride_tricks.sliding_window_view(padded, width).max(axis=1)
    window = np.hanning(width + 2)[1:-1]
    return np.lib.stride_tricks.sliding_window_view(highest, width) @ (window / window.sum())
