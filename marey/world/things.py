"""Objects of the world, and the shortest way round them: metres, on the ground plane (x, z) unless stated otherwise."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError

CLEARANCE_M: Final = 0.25  # [m] at which a body passes the end of a wall or a corner
LOW_BOX_M: Final = 0.3  # [m] a box no higher than this is stepped or leapt over
SAMPLE_M: Final = 0.02  # [m] between places of a line that are tested; walls count as so thick

Point2 = tuple[float, float]  # (x, z) [m] on the ground
Point3 = tuple[float, float, float]  # (x, y, z) [m]


@dataclass(frozen=True, slots=True)
class Wall:
    """A straight wall that cannot be crossed."""

    start: Point2
    end: Point2
    thickness_m: float = 0.1
    height_m: float = 2.0


@dataclass(frozen=True, slots=True)
class River:
    """A straight strip of ground on which no foot may land."""

    start: Point2
    end: Point2
    width_m: float = 0.6


@dataclass(frozen=True, slots=True)
class Stone:
    """A round place for a foot, in a river or above the ground."""

    position: Point2
    radius_m: float = 0.2
    height_m: float = 0.0


@dataclass(frozen=True, slots=True)
class Table:
    """A box that stands on the ground and carries objects."""

    position: Point2
    size: Point2 = (0.8, 0.5)  # along its own x and z
    height_m: float = 0.75
    heading_deg: float = 0.0


@dataclass(frozen=True, slots=True)
class Box:
    """An obstacle: to be stepped over, jumped over or walked round."""

    position: Point2
    size: Point2 = (0.4, 0.4)
    height_m: float = 0.3
    heading_deg: float = 0.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A round bar to hold on to."""

    start: Point3
    end: Point3
    radius_m: float = 0.015


@dataclass(frozen=True, slots=True)
class Thing:
    """A small object that can be picked up and put down."""

    name: str
    position: Point3


@dataclass(frozen=True, slots=True)
class World:
    """Everything that a motion has to respect."""

    walls: tuple[Wall, ...] = ()
    rivers: tuple[River, ...] = ()
    stones: tuple[Stone, ...] = ()
    tables: tuple[Table, ...] = ()
    boxes: tuple[Box, ...] = ()
    bars: tuple[Bar, ...] = ()
    objects: tuple[Thing, ...] = ()

    def __post_init__(self) -> None:
        names = [thing.name for thing in self.objects]
        repeated = next((n for n in names if names.count(n) > 1), None)
        if repeated is not None:
            raise InputError(f"two objects are called '{repeated}'", "Object names must differ")

    def object(self, name: str) -> Thing:
        """Return the object of this name.

        Raises:
            UnknownNameError: there is none; the message suggests the nearest name.
        """
        for thing in self.objects:
            if thing.name == name:
                return thing
        raise UnknownNameError("object", name, "this world", [thing.name for thing in self.objects])


def segment_distance(
    start: Sequence[float] | FloatArray, end: Sequence[float] | FloatArray, X: FloatArray, Z: FloatArray
) -> FloatArray:
    """Distance [m] of places to a segment."""
    # Foot of the perpendicular, held at the ends
    ux, uz = end[0] - start[0], end[1] - start[1]
    square = max(ux * ux + uz * uz, 1e-12)
    t = np.clip(((X - start[0]) * ux + (Z - start[1]) * uz) / square, 0.0, 1.0)
    return np.hypot(X - start[0] - t * ux, Z - start[1] - t * uz)


def box_distance(
    centre: Sequence[float], size: Sequence[float], heading_deg: float, X: FloatArray, Z: FloatArray
) -> FloatArray:
    """Distance [m] of places to a turned rectangle, negative inside."""
    # In the frame of the rectangle, beyond its sides
    a = np.deg2rad(heading_deg)
    dx, dz = X - centre[0], Z - centre[1]
    u, v = np.cos(a) * dx - np.sin(a) * dz, np.sin(a) * dx + np.cos(a) * dz
    ou, ov = np.abs(u) - 0.5 * size[0], np.abs(v) - 0.5 * size[1]
    return np.hypot(np.maximum(ou, 0.0), np.maximum(ov, 0.0)) + np.minimum(np.maximum(ou, ov), 0.0)


def shortest_way(world: World, start: Sequence[float], end: Sequence[float]) -> float:
    """Length [m] of the shortest way from place to place over straight lines, past ends of walls and corners.

    What lies on a table is reached over its edge: tables and boxes that hold the start or the end are left out. Where
    everything is closed, the length of the line between them.
    """
    places = [np.array(start, dtype=np.float64), np.array(end, dtype=np.float64)]
    solids: list[Table | Box] = [*world.tables, *(box for box in world.boxes if box.height_m > LOW_BOX_M)]
    solids = [
        solid
        for solid in solids
        if all(
            box_distance(solid.position, solid.size, solid.heading_deg, *place[:, None])[0] > 0.0 for place in places
        )
    ]
    nodes = list(places)
    for wall in world.walls:
        a, b = np.array(wall.start), np.array(wall.end)
        along = (b - a) / max(float(np.linalg.norm(b - a)), 1e-9)
        nodes += [a - CLEARANCE_M * along, b + CLEARANCE_M * along]
    for solid in solids:
        angle = np.deg2rad(solid.heading_deg)
        u, v = np.array([np.cos(angle), -np.sin(angle)]), np.array([np.sin(angle), np.cos(angle)])
        half = 0.5 * np.array(solid.size) + CLEARANCE_M
        nodes += [np.array(solid.position) + i * half[0] * u + j * half[1] * v for i in (-1, 1) for j in (-1, 1)]
    # Lines that meet nothing, then Dijkstra over them
    lengths = np.full((len(nodes), len(nodes)), np.inf)
    for i, j in combinations(range(len(nodes)), 2):
        if _is_free(world, solids, nodes[i], nodes[j]):
            lengths[i, j] = lengths[j, i] = np.linalg.norm(nodes[j] - nodes[i])
    least, heap = np.full(len(nodes), np.inf), [(0.0, 0)]
    while heap:
        way, node = heapq.heappop(heap)
        if way >= least[node]:
            continue
        least[node] = way
        for other in np.flatnonzero(way + lengths[node] < least):
            heapq.heappush(heap, (float(way + lengths[node, other]), int(other)))
    return float(least[1] if np.isfinite(least[1]) else np.linalg.norm(places[1] - places[0]))


def _is_free(world: World, solids: Sequence[Table | Box], a: FloatArray, b: FloatArray) -> bool:
    count = max(2, int(np.ceil(np.linalg.norm(b - a) / SAMPLE_M)) + 1)
    x, z = np.linspace(a, b, count).T
    if any((segment_distance(wall.start, wall.end, x, z) < SAMPLE_M).any() for wall in world.walls):
        return False
    return not any((box_distance(s.position, s.size, s.heading_deg, x, z) < 0.0).any() for s in solids)
