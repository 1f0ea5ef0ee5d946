"""Measures of a motion against its sketch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from marey.base import FloatArray
from marey.contacts import ensure_contacts
from marey.motion import Motion, contact_positions, find_runs
from marey.skeleton import contact_points
from marey.world import Sketch, World, segment_distance


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
        """Numbers for a report; lengths to a hundredth of a millimetre."""
        facts = {name: round(value, 5) for name, value in asdict(self).items() if name != "reaches_m"}
        return facts | {"reaches_m": [round(float(reach), 5) for reach in self.reaches_m]}


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
    places = points[:, :, [0, 2]]
    steps = np.linalg.norm(np.diff(places, axis=0), axis=-1)
    # Farthest that the root is from the path drawn: from the start to the path, along it, to the goal
    off_path = 0.0
    if sketch.path is not None:
        first, last = sketch.path.points[0], sketch.path.points[-1]
        before = segment_distance(sketch.start.position, first, ground[:, 0], ground[:, 1])
        after = segment_distance(last, sketch.goal.position, ground[:, 0], ground[:, 1])
        along = np.array([sketch.path.nearest(place)[1] for place in ground])
        off_path = float(np.minimum(along, np.minimum(before, after)).max())
    # Of each contact that is in water at any of its frames, how far from the bank
    wet: list[float] = []
    if sketch.world.rivers:
        depth = distance_into_water(sketch.world, places)
        stances = [(k, start, stop) for k in range(active.shape[1]) for start, stop in find_runs(active[:, k])]
        deepest = [float(depth[start:stop, k].max()) for k, start, stop in stances]
        wet = [away for away in deepest if away > 1e-9]
    # Soles, not hands, stand on the ground
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


def distance_into_water(world: World, places: FloatArray) -> FloatArray:
    """Distance [m] of positions ``(..., 2)`` in water from the nearest bank or stone; 0 on land and on stones."""
    x, z = places[..., 0], places[..., 1]
    inside = np.zeros(x.shape)
    for river in world.rivers:
        inside = np.maximum(inside, 0.5 * river.width_m - segment_distance(river.start, river.end, x, z))
    # On a stone one is on land
    for stone in world.stones:
        inside = np.minimum(inside, np.hypot(x - stone.position[0], z - stone.position[1]) - stone.radius_m)
    return np.maximum(inside, 0.0)
