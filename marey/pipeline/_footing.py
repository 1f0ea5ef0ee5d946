"""Where the feet of a straight walk go: even steps, but none into water."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.pipeline._measure import distance_into_water, segment_distance
from marey.world import Box, Sketch, Table, Wall, World

STEP_M: Final = 0.67  # [m] of an unhurried walk
STEP_RANGE_M: Final = (0.45, 1.0)  # shortest and longest
CELL_M: Final = 0.02  # [m] between places that are looked at
FOOT_M: Final = 0.14  # [m] from the middle of a foot to its ends, with a margin
SOLE_SAMPLES_M: Final = tuple(
    float(at) for at in np.linspace(-FOOT_M, FOOT_M, 7)
)  # a ditch between two is too narrow to see
FOOT_OFFSET_M: Final = 0.05  # [m] a foot from the line, with a margin
CLEARANCE_M: Final = 0.3  # [m] from the line to anything solid


@dataclass(frozen=True, slots=True, eq=False)
class StraightPath:
    """The straight way from the start to the goal."""

    start: FloatArray  # (2,) [m]
    length_m: float
    heading_rad: float

    @classmethod
    def from_sketch(cls, sketch: Sketch) -> StraightPath:
        """That of a sketch."""
        start = np.array(sketch.start.position)
        away = np.array(sketch.goal.position) - start
        length = float(np.hypot(*away))
        if length < 0.1:
            raise InputError("start and goal are the same place", "The space-time engine needs a way between them")
        return cls(start, length, float(np.arctan2(away[0], away[1])))

    def at(self, along_m: FloatArray | float, aside_m: float = 0.0) -> FloatArray:
        """Places ``(..., 2)`` [m] so far along and to the left."""
        s, c = np.sin(self.heading_rad), np.cos(self.heading_rad)
        along = np.asarray(along_m, dtype=np.float64)
        return self.start + along[..., None] * np.array([s, c]) + aside_m * np.array([c, -s])

    def check_straight(self, sketch: Sketch) -> None:
        """Refuse a path or a place to pass that is not on the line, as far as the corridor allows.

        Raises:
            InputError: one is not.
        """
        allowed = 0.5 * sketch.corridor_m if sketch.path is not None else CLEARANCE_M
        points = [np.array(event.at) for event in sketch.events if event.at is not None]
        points += list(sketch.path.sample(0.1)) if sketch.path is not None else []
        off = max((segment_distance(p, self.start, self.at(self.length_m)) for p in points), default=0.0)
        if off > allowed - 0.08:  # a root sways by so much
            raise InputError(
                f"the way bends {off:.2f} m off the straight line, and the space-time engine walks straight",
                "Straighten it, widen the corridor, or take another engine",
            )

    def check_clear(self, world: World) -> None:
        """Refuse a line that meets something solid.

        Raises:
            InputError: it does.
        """
        places = self.at(np.linspace(0.0, self.length_m, max(2, int(self.length_m / 0.05))))
        near = [(f"wall {i + 1}", _wall_distance(places, wall)) for i, wall in enumerate(world.walls)]
        near += [(f"table {i + 1}", _box_distance(places, table)) for i, table in enumerate(world.tables)]
        near += [(f"box {i + 1}", _box_distance(places, box)) for i, box in enumerate(world.boxes)]
        for name, away in near:
            if away < CLEARANCE_M:
                raise InputError(
                    f"{name} is in the way, and the space-time engine goes straight", "Move it, or take another engine"
                )


def _wall_distance(places: FloatArray, wall: Wall) -> float:
    start, end = np.array(wall.start), np.array(wall.end)
    return min(segment_distance(place, start, end) for place in places) - 0.5 * wall.thickness_m


def _box_distance(places: FloatArray, box: Table | Box) -> float:
    """Least distance [m] of places from a box."""
    turn = np.radians(box.heading_deg)
    away = places - np.array(box.position)
    own = np.stack([away @ [np.cos(turn), -np.sin(turn)], away @ [np.sin(turn), np.cos(turn)]], axis=1)
    outside = np.maximum(np.abs(own) - 0.5 * np.array(box.size), 0.0)
    return float(np.hypot(outside[:, 0], outside[:, 1]).min())


def plan_footsteps(line: StraightPath, world: World) -> FloatArray:
    r"""Places ``(N + 1,)`` [m] along the line of an even number N of steps, from 0 to its length.

    Dynamic programming over places that are dry: the steps :math:`s_i` make :math:`\sum_i (s_i - \bar s)^2` least.

    Raises:
        InputError: no steps that a walk could make keep out of the water.
    """
    cells = np.append(np.arange(0.0, line.length_m - 0.5 * CELL_M, CELL_M), line.length_m)
    dry = np.stack([_find_dry_cells(line, world, cells, 1.0), _find_dry_cells(line, world, cells, -1.0)])
    middle = max(1, round(0.5 * line.length_m / STEP_M))
    tried = [_spread_steps(cells, dry, 2 * n) for n in (middle, middle + 1, middle - 1) if n > 0]
    found = [places for places in tried if places is not None]
    if not found:
        raise InputError(
            f"no steps of {STEP_RANGE_M[0]} to {STEP_RANGE_M[1]} m keep out of the water",
            "Narrow the river, add stones, jump it from stand to stand, or take another engine",
        )
    return min(found, key=lambda places: float(np.square(np.diff(places) - STEP_M).sum()))


def _find_dry_cells(line: StraightPath, world: World, cells: FloatArray, side: float) -> BoolArray:
    """Whether a left (1) or right (-1) foot may stand so far along ``(C,)``: all on land, or all on one stone."""
    points = [line.at(cells + at, side * aside) for at in SOLE_SAMPLES_M for aside in (0.0, FOOT_OFFSET_M)]
    places = np.stack(points, axis=1)
    land = World(rivers=world.rivers)
    firm = np.array([all(distance_into_water(land, place) == 0.0 for place in foot) for foot in places])
    for stone in world.stones:
        firm |= np.linalg.norm(places - np.array(stone.position), axis=-1).max(axis=1) <= stone.radius_m
    return np.asarray(firm, dtype=np.bool_)


def _spread_steps(cells: FloatArray, dry: BoolArray, count: int) -> FloatArray | None:
    """The most even of all ways to make so many steps; left feet have even numbers."""
    apart = cells[None, :] - cells[:, None]
    price = np.where(
        (apart >= STEP_RANGE_M[0]) & (apart <= STEP_RANGE_M[1]), np.square(apart - cells[-1] / count), np.inf
    )
    cost = np.where(np.arange(len(cells)) == 0, 0.0, np.inf)
    before: list[FloatArray] = []
    for step in range(1, count + 1):
        total = cost[:, None] + price
        before.append(total.argmin(axis=0))
        cost = np.where(dry[step % 2], total.min(axis=0), np.inf)
    if not np.isfinite(cost[-1]):
        return None
    at = [len(cells) - 1]
    for row in reversed(before):
        at.append(int(row[at[-1]]))
    return cells[at[::-1]]
