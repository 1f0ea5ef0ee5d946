"""How well a motion keeps to its sketch, measured on its frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.motion import Motion, contact_positions, with_contacts
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
    wet_plants: int  # plants in a river, on no stone
    reaches_m: tuple[float, ...] = ()  # [m] hand from what it picks up or where it puts it down

    def to_json(self) -> dict[str, Any]:
        """Numbers for a report."""
        return {name: _rounded(value) for name, value in asdict(self).items()}


def _rounded(value: Any) -> Any:
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
    motion = with_contacts(motion)
    assert motion.contacts is not None
    points = contact_positions(motion)[:, [contact_points(motion.skeleton).index(n) for n in motion.contacts.names]]
    active = motion.contacts.active
    ground = motion.root_positions[:, [0, 2]]
    steps = np.linalg.norm(np.diff(points[:, :, [0, 2]], axis=0), axis=-1)
    off_path = farthest_off(sketch, ground)
    soles = points[:, [not name.endswith("hand") for name in motion.contacts.names], 1]
    return SketchCheck(
        goal_m=float(np.linalg.norm(ground[-1] - np.array(sketch.goal.position))),
        off_path_m=off_path,
        off_corridor_m=max(0.0, off_path - 0.5 * sketch.corridor_m),
        slide_mm=1000.0 * float(steps[active[1:] & active[:-1]].max(initial=0.0)),
        penetration_mm=1000.0 * max(0.0, -float(soles.min(initial=0.0))),
        wet_plants=_wet_plants(sketch.world, points, active),
        reaches_m=tuple(reaches_m),
    )


def farthest_off(sketch: Sketch, ground: FloatArray) -> float:
    """Farthest [m] that places ``(F, 2)`` are from the way drawn: from the start to the path, along it, to the goal."""
    if sketch.path is None:
        return 0.0
    ends = np.array(sketch.start.position), *sketch.path.points[[0, -1]], np.array(sketch.goal.position)
    away = [
        min(sketch.path.nearest(p)[1], _segment_distance(p, ends[0], ends[1]), _segment_distance(p, ends[2], ends[3]))
        for p in ground
    ]
    return max(away)


def _wet_plants(world: World, points: FloatArray, active: BoolArray) -> int:
    """Contacts that begin in water; each counts once."""
    if not world.rivers:
        return 0
    begins = active & ~np.concatenate([np.zeros_like(active[:1]), active[:-1]])
    return sum(_is_wet(world, place) for place in points[begins][:, [0, 2]])


def _is_wet(world: World, place: FloatArray) -> bool:
    if any(np.hypot(*(place - np.array(stone.position))) <= stone.radius_m for stone in world.stones):
        return False
    return any(
        _segment_distance(place, np.array(r.start), np.array(r.end)) < 0.5 * r.width_m - 1e-9 for r in world.rivers
    )


def _segment_distance(place: FloatArray, start: FloatArray, end: FloatArray) -> float:
    along = end - start
    t = float(np.clip((place - start) @ along / max(float(along @ along), 1e-12), 0.0, 1.0))
    return float(np.hypot(*(place - start - t * along)))
