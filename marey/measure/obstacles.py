"""Body and world: what of a body is inside walls, tables and boxes, and which foot stands in water."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.measure.feet import FootMeasures
from marey.measure.settings import MeterSettings
from marey.measure.tracks import SIDES, MeasuredBody
from marey.world import World, box_distance, segment_distance

_BONES: Final = (("hip", "knee"), ("knee", "ankle"), ("shoulder", "elbow"), ("elbow", "wrist"))
_TRUNK: Final = ("pelvis", "spine1", "spine2", "spine3", "neck", "head")


class MeasuredGround(Protocol):
    """Ground that is not level, such as a slope or stairs."""

    def plane(self, x: float, z: float) -> tuple[float, float, float]:
        """Return height [m] and rise along x and z [-] of the ground at a place."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ObstacleContact:
    """How deep one part of the body is inside one thing of the world."""

    part: str  # "left hand", "trunk", ...
    thing: str  # "table 1", "wall 2", "river 1"
    depths: FloatArray  # (F,) [m] zero outside


def support_heights(
    world: World | None, x: FloatArray, z: FloatArray, ground: MeasuredGround | None = None
) -> FloatArray:
    """Height [m] of what a foot may stand on at places: the ground, at zero if not given, stones, boxes and tables."""
    heights = np.zeros(np.broadcast(x, z).shape)
    if ground is not None:
        heights = np.vectorize(lambda *place: ground.plane(*place)[0], otypes=[np.float64])(x, z)
    if world is None:
        return heights
    for stone in world.stones:
        inside = np.hypot(x - stone.position[0], z - stone.position[1]) <= stone.radius_m
        heights = np.where(inside, np.maximum(heights, stone.height_m), heights)
    for box in (*world.boxes, *world.tables):
        inside = box_distance(box.position, box.size, box.heading_deg, x, z) <= 0.0
        heights = np.where(inside, np.maximum(heights, box.height_m), heights)
    return heights


def measure_rests(
    tracks: MeasuredBody, feet: FootMeasures, world: World | None, ground: MeasuredGround | None = None
) -> FloatArray:
    """Height ``(S,)`` [m] of each resting sole over what there is to stand on; steps that the clip cuts are left out.

    It is that of its lowest point, of its highest where all are below. A foot that is held in the air while the other
    one stands rests no higher than the other.
    """
    gaps: list[float] = []
    for step in feet.steps:
        if not step.is_whole:
            continue
        soles = tracks.soles[step.slowest]
        above = soles[..., 1] - support_heights(world, soles[..., 0], soles[..., 2], ground)
        own = np.array(step.rests) - soles[step.side, :, 1] + above[step.side]
        if own.max() < 0.0:
            gaps.append(float(own.max()))
        elif own.min() > 0.0:
            gaps.append(float(np.clip(above[1 - step.side].min(), 0.0, own.min())))
        else:
            gaps.append(float(own.min()))
    return np.array(gaps)


def find_obstacle_contacts(
    tracks: MeasuredBody, feet: FootMeasures, world: World, settings: MeterSettings
) -> tuple[ObstacleContact, ...]:
    """Depths of hands, arms, legs, feet and trunk inside walls, boxes and tables, and of standing feet in rivers.

    A body is its joints, the middles of its long bones, palms and soles. Depth is the way out, through the nearest side
    or the top. A foot is in a river where a sole point that is near its own floor lies inside its banks, unless it
    stands on a stone.
    """
    # Points (F, P, 3) [m] of each named part of the body
    parts: dict[str, FloatArray] = {}
    for number, side in enumerate(SIDES):
        for limb, bones in (("leg", _BONES[:2]), ("arm", _BONES[2:])):
            along = [
                (1.0 - t) * tracks.at(f"{side}_{top}") + t * tracks.at(f"{side}_{end}")
                for top, end in bones
                if tracks.has(f"{side}_{top}", f"{side}_{end}")
                for t in (0.25, 0.5, 0.75, 1.0)
            ]
            if along:
                parts[f"{side} {limb}"] = np.stack(along, axis=1)
        if f"{side}_hand" in tracks.palms:
            parts[f"{side} hand"] = tracks.palms[f"{side}_hand"][:, None]
        parts[f"{side} foot"] = tracks.soles[:, number]
    parts["trunk"] = np.stack([tracks.at(role) for role in _TRUNK if role in tracks.roles], axis=1)
    found: list[ObstacleContact] = []
    solids = [("wall", one.height_m, (one.start, one.end, one.thickness_m)) for one in world.walls]
    solids += [("box", one.height_m, (one.position, one.size, one.heading_deg)) for one in world.boxes]
    solids += [("table", one.height_m, (one.position, one.size, one.heading_deg)) for one in world.tables]
    counts: dict[str, int] = {}
    for kind, height, shape in solids:
        counts[kind] = counts.get(kind, 0) + 1
        for part, points in parts.items():
            x, y, z = points[..., 0], points[..., 1], points[..., 2]
            if kind == "wall":
                beside = 0.5 * shape[2] - segment_distance(shape[0], shape[1], x, z)  # type: ignore[arg-type, operator]
            else:
                beside = -box_distance(shape[0], shape[1], shape[2], x, z)  # type: ignore[arg-type]
            depths = np.maximum(np.minimum(beside, height - y), 0.0).max(axis=1)
            if (depths > settings.obstacle_m).any():
                found.append(ObstacleContact(part, f"{kind} {counts[kind]}", depths))
    # Feet that stand in a river, beside its stones
    for number, river in enumerate(world.rivers, 1):
        for k, side in enumerate(SIDES):
            x, z = tracks.soles[:, k, :, 0], tracks.soles[:, k, :, 2]
            inside = 0.5 * river.width_m - segment_distance(river.start, river.end, x, z)
            dry: BoolArray = np.zeros(x.shape, dtype=bool)
            for stone in world.stones:
                dry |= np.hypot(x - stone.position[0], z - stone.position[1]) <= stone.radius_m
            stands = (feet.heights[:, k] < settings.near_m) & ~dry
            depths = np.where(stands, np.maximum(inside, 0.0), 0.0).max(axis=1)
            if (depths > settings.obstacle_m).any():
                found.append(ObstacleContact(f"{side} foot", f"river {number}", depths))
    return tuple(found)
