"""Measures of a motion against its sketch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.motion import Motion, contact_positions, ensure_contacts, find_runs
from marey.skeleton import contact_points
from marey.world import Sketch, World


@dataclass(frozen=True, slots=True)
class SketchCheck:
    """What was measured."""

    goal_m: float  # [m] root from the goal in the last frame
    off_path_m: float  # [m] farthest that the root is from the path; 0 without one
    off_corridor_m: float  # [m] farthest that the root is outside the corridor; 0 inside, or without a path
    slide_mm: float  # [mm] farthest that a point in contact moves in one frame
    penetration_mm: float  # [mm] deepest that a sole is under the ground
    wet_plants: int  # contacts of heels and toes that are in a river, on no stone, at any frame
    wet_mm: float = 0.0  # [mm] deepest of them, from the nearest bank or stone
    reaches_m: tuple[float, ...] = ()  # [m] hand from what it picks up or where it puts it down

    def to_json(self) -> dict[str, Any]:
        """Numbers for a report."""
        return {name: _round_value(value) for name, value in asdict(self).items()}


def _round_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [round(float(v), 5) for v in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value if isinstance(value, int) else round(float(value), 5)


def check_motion(motion: Motion, sketch: Sketch, *, reaches_m: Sequence[float] = ()) -> SketchCheck:
    """Measure a motion against its sketch, at every frame.

    Args:
        motion: with contacts; they are detected where it has none.
        sketch: goal, corridor and rivers.
        reaches_m: how far hands are from their things, known from elsewhere.
    """
    motion = ensure_contacts(motion)
    assert motion.contacts is not None
    points = contact_positions(motion)[:, [contact_points(motion.skeleton).index(n) for n in motion.contacts.names]]
    active = motion.contacts.active
    ground = motion.root_positions[:, [0, 2]]
    steps = np.linalg.norm(np.diff(points[:, :, [0, 2]], axis=0), axis=-1)
    off_path = max_path_distance(sketch, ground)
    wet = _measure_wet_plants(sketch.world, points[:, :, [0, 2]], active)
    soles = points[:, [not name.endswith("hand") for name in motion.contacts.names], 1]
    return SketchCheck(
        goal_m=float(np.linalg.norm(ground[-1] - np.array(sketch.goal.position))),
        off_path_m=off_path,
        off_corridor_m=max(0.0, off_path - 0.5 * sketch.corridor_m),
        slide_mm=1000.0 * float(steps[active[1:] & active[:-1]].max(initial=0.0)),
        penetration_mm=1000.0 * max(0.0, -float(soles.min(initial=0.0))),
        wet_plants=len(wet),
        wet_mm=1000.0 * max(wet, default=0.0),
        reaches_m=tuple(reaches_m),
    )


def max_path_distance(sketch: Sketch, ground: FloatArray) -> float:
    """Farthest [m] that places ``(F, 2)`` are from the way drawn: from the start to the path, along it, to the goal."""
    if sketch.path is None:
        return 0.0
    ends = np.array(sketch.start.position), *sketch.path.points[[0, -1]], np.array(sketch.goal.position)
    away = [
        min(sketch.path.nearest(p)[1], segment_distance(p, ends[0], ends[1]), segment_distance(p, ends[2], ends[3]))
        for p in ground
    ]
    return max(away)


def _measure_wet_plants(world: World, places: FloatArray, active: BoolArray) -> list[float]:
    """Of each contact that is in water, how far [m] from the bank."""
    if not world.rivers:
        return []
    depths = [
        max(distance_into_water(world, place) for place in places[start:stop, k])
        for k in range(active.shape[1]) for start, stop in find_runs(active[:, k])
    ]  # fmt: skip
    return [depth for depth in depths if depth > 1e-9]


def distance_into_water(world: World, place: FloatArray) -> float:
    """Distance [m] of a position in water from the nearest bank or stone; 0 on land and on stones."""
    banks = [0.5 * r.width_m - segment_distance(place, np.array(r.start), np.array(r.end)) for r in world.rivers]
    stones = [float(np.hypot(*(place - np.array(stone.position)))) - stone.radius_m for stone in world.stones]
    return max(0.0, min([max([0.0, *banks]), *stones]))


def segment_distance(place: FloatArray, start: FloatArray, end: FloatArray) -> float:
    """Distance [m] of a place from a straight piece."""
    along = end - start
    t = float(np.clip((place - start) @ along / max(float(along @ along), 1e-12), 0.0, 1.0))
    return float(np.hypot(*(place - start - t * along)))
