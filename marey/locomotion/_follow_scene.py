"""What a sketch puts in the way, as boxes: those that can be jumped over, and those that cannot."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, InputError
from marey.locomotion._obstacle_box import Obstacle
from marey.world import River, Sketch, Wall, World

MAX_JUMPED_HEIGHT_M: Final = 0.5  # [m] a taller box is walked round
RIVER_DEPTH_M: Final = 0.0
SUPPORTED_EVENTS: Final = ("pass", "jump", "stop")


class Hurdle(NamedTuple):
    """Something on the ground, with the name it has in messages."""

    name: str
    box: Obstacle
    is_jumpable: bool


def list_hurdles(world: World) -> list[Hurdle]:
    """Rivers, boxes, walls and tables of a world."""
    found = [
        Hurdle(f"river {i + 1}", _strip_obstacle(r, r.width_m, RIVER_DEPTH_M), True) for i, r in enumerate(world.rivers)
    ]
    for i, box in enumerate(world.boxes):
        shape = Obstacle(box.position, (box.size[1], box.size[0]), box.height_m, float(np.radians(box.heading_deg)))
        found.append(Hurdle(f"box {i + 1}", shape, box.height_m <= MAX_JUMPED_HEIGHT_M))
    found += [
        Hurdle(f"wall {i + 1}", _strip_obstacle(w, w.thickness_m, w.height_m), False) for i, w in enumerate(world.walls)
    ]
    for i, table in enumerate(world.tables):
        size = (table.size[1], table.size[0])
        shape = Obstacle(table.position, size, table.height_m, float(np.radians(table.heading_deg)))
        found.append(Hurdle(f"table {i + 1}", shape, False))
    return found


def _strip_obstacle(strip: River | Wall, width: float, height: float) -> Obstacle:
    """A strip from one point to another: its width lies along the heading of the box."""
    start, end = np.array(strip.start), np.array(strip.end)
    along = end - start
    if float(np.hypot(*along)) < 1e-6:
        raise InputError("a river or wall whose ends are the same point", "Give two points that lie apart")
    x, z = (float(v) for v in 0.5 * (start + end))
    heading = float(np.arctan2(along[0], along[1])) - 0.5 * np.pi
    return Obstacle((x, z), (width, float(np.hypot(*along))), height, heading)


def check_sketch(sketch: Sketch) -> None:
    """Refuse what walking cannot do.

    Raises:
        InputError: the sketch asks for hands or for poses of a clip.
    """
    for event in sketch.events:
        if event.kind not in SUPPORTED_EVENTS:
            raise InputError(
                f"a {event.kind} event, and the locomotion engine has no use of its hands",
                "Remove it, or take an engine that plans hands",
            )
    if sketch.key_poses:
        raise InputError("key poses, which the locomotion engine cannot go through", "Remove them")


def sketch_polyline(sketch: Sketch) -> FloatArray | None:
    """Way-points ``(N, 2)`` [m] from the start over the path to the goal; None when there is no path."""
    start, goal = np.array(sketch.start.position), np.array(sketch.goal.position)
    if sketch.path is None:
        return None
    points = sketch.path.points if sketch.path.kind == "polyline" else sketch.path.sample(0.05)
    return join_points(start, points, goal)


def join_points(start: FloatArray, points: FloatArray, goal: FloatArray) -> FloatArray:
    """Points from the start to the goal; those at the ends that repeat are left out."""
    rows = [start, *points, goal]
    kept = [rows[0]]
    for row in rows[1:]:
        if float(np.hypot(*(row - kept[-1]))) > 0.02:
            kept.append(row)
    if len(kept) < 2:
        raise InputError("start and goal are the same place and there is no path", "Move one of them, or draw a path")
    return np.array(kept)
