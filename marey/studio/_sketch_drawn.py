"""What is drawn in a sketch: the state that undo brings back, and the sketch that the engines are given."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from marey.base import InputError
from marey.studio._sketch_forms import SketchObject, objects_from_world, world_from_objects
from marey.world import Event, GroundPose, Path, Sketch, World

Point2 = tuple[float, float]

FOUND_BY_ENGINE: Final[str] = "found by the engine"
PATH_KINDS: Final[tuple[str, ...]] = ("polyline", "spline", FOUND_BY_ENGINE)
NEAR_M: Final = 0.05  # way-points that are added are farther apart than that


@dataclass(frozen=True, slots=True, eq=False)
class SketchState:
    """What undo brings back. The first way-point is the start, the last the goal."""

    name: str = "sketch"
    points: tuple[Point2, ...] = ((0.0, 0.0), (0.0, 3.0))
    way: str = PATH_KINDS[0]
    corridor_m: float = 1.0
    speed_mps: float | None = None
    forms: tuple[SketchObject, ...] = ()
    events: tuple[Event, ...] = ()
    start: GroundPose = field(default_factory=lambda: GroundPose((0.0, 0.0)))  # its heading and tolerance
    goal: GroundPose = field(default_factory=lambda: GroundPose((0.0, 0.0)))
    rest: Sketch | None = None  # key poses and bars, which are kept as they came

    def sketch(self) -> Sketch:
        """What the engines are given."""
        if len(self.points) < 2:
            raise InputError("the sketch has no way", "Add way-points: Ctrl and a click on the ground")
        path = None if self.way == FOUND_BY_ENGINE else Path(np.array(self.points), self.way)
        return Sketch(
            start=replace(self.start, position=self.points[0]),
            goal=replace(self.goal, position=self.points[-1]),
            path=path,
            corridor_m=self.corridor_m,
            speed_mps=self.speed_mps,
            events=self.events,
            key_poses=() if self.rest is None else self.rest.key_poses,
            world=world_from_objects(self.forms, World() if self.rest is None else self.rest.world),
            name=self.name,
        )

    @classmethod
    def from_sketch(cls, sketch: Sketch) -> SketchState:
        """A sketch to go on with."""
        ends = (sketch.start.position, sketch.goal.position)
        points = ends if sketch.path is None else tuple((float(x), float(z)) for x, z in sketch.path.points)
        points = points if ground_distance(points[0], ends[0]) < NEAR_M else (ends[0], *points)
        points = points if ground_distance(points[-1], ends[1]) < NEAR_M else (*points, ends[1])
        return cls(
            sketch.name,
            points,
            FOUND_BY_ENGINE if sketch.path is None else sketch.path.kind,
            sketch.corridor_m,
            sketch.speed_mps,
            objects_from_world(sketch.world),
            sketch.events,
            sketch.start,
            sketch.goal,
            sketch,
        )


def ground_distance(a: Point2, b: Point2) -> float:
    """Distance of two places on the ground [m]."""
    return float(np.hypot(a[0] - b[0], a[1] - b[1]))
