"""Objects of the world: plain data in metres, on the ground plane (x, z) unless stated otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError

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
