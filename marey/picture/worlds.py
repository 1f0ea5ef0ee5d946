"""The world of a sketch in a picture: walls, rivers, stones, tables, boxes, bars, objects; and what a clip stands on.

Where no world is given, a clip that climbs tells where its steps are: under each foot that rests above the ground a
block is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.motion import Contacts, Motion, contact_positions, find_runs
from marey.picture.scene import RING_SEGMENTS, GroundMarks, TriangleMesh, linear_from_srgb
from marey.skeleton import assess_anatomy, contact_points
from marey.world import Sketch, World

WATER: Final = linear_from_srgb("#8fb9d6")
STONE: Final = linear_from_srgb("#9a958c")
WOOD: Final = linear_from_srgb("#c8a67c")
BOX: Final = linear_from_srgb("#b9b2a5")
WALL: Final = linear_from_srgb("#a8a29a")
BAR: Final = linear_from_srgb("#7d848c")
OBJECT: Final = linear_from_srgb("#b03a48")
STEP: Final = linear_from_srgb("#c3c5c8")
WAY: Final = linear_from_srgb("#8ab89a")
GOAL: Final = linear_from_srgb("#4e9a6a")

OBJECT_RADIUS_M: Final = 0.05
TABLE_TOP_M: Final = 0.04
TABLE_LEG_M: Final = 0.03  # half the side of a leg
WATER_STROKE_M: Final = 0.04  # radius of the strokes that a river is filled with
WAY_WIDTH_M: Final = 0.03
GOAL_RADIUS_M: Final = 0.16
PASS_RADIUS_M: Final = 0.08
NEAR_M: Final = 0.9  # a thing this near to the root is shown beside a body
SMALL_M: Final = 2.5  # and no longer than this
GRASP_M: Final = 0.4  # a palm that comes this near to an object takes it
# Steps under a clip without a world
STEP_RISE_M: Final = 0.07  # a foot that rests this much above the ground stands on something
STEP_DRIFT_M: Final = 0.1  # way of a sole while it is said to stand, above which it does not
STEP_S: Final = 0.15  # and rests at least so long
STEP_HALF_M: Final = (0.16, 0.17)  # half width and half length of a step
SOLID_STEP_M: Final = 0.7  # higher ones are slabs: a ladder's rungs, a ledge
SLAB_M: Final = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Scenery:
    """What stands and lies around the bodies of a picture."""

    parts: tuple[TriangleMesh, ...] = ()  # things, one by one
    panes: TriangleMesh = field(default_factory=TriangleMesh.none)  # seen through: walls
    marks: GroundMarks = field(default_factory=GroundMarks.none)

    def near(self, place: FloatArray) -> tuple[TriangleMesh, ...]:
        """Small things around a place ``(3,)`` [m], to be shown beside a body that is set apart from the others."""
        found: list[TriangleMesh] = []
        for part in self.parts:
            low, high = part.vertices.min(axis=0)[[0, 2]], part.vertices.max(axis=0)[[0, 2]]
            gap = np.linalg.norm(place[[0, 2]] - np.clip(place[[0, 2]], low, high))
            if float(gap) < NEAR_M and float((high - low).max()) < SMALL_M:
                found.append(part)
        return tuple(found)


def build_scenery(world: World | Sketch) -> Scenery:
    """Everything of a world that stays where it is; of a sketch also its path, its way-points and its goal."""
    sketch, world = (world, world.world) if isinstance(world, Sketch) else (None, world)
    panes = [
        TriangleMesh.column(_strip_outline(wall.start, wall.end, wall.thickness_m), (0.0, wall.height_m), WALL)
        for wall in world.walls
    ]
    solids = list[TriangleMesh]()
    marks = list[GroundMarks]()
    for river in world.rivers:
        # Parallel strokes that fill the strip
        a, b, c, d = _strip_outline(river.start, river.end, river.width_m)
        count = max(2, int(np.ceil(river.width_m / (1.2 * WATER_STROKE_M))))
        shares = (np.arange(count) + 0.5)[:, None] / count
        radii = np.full(count, min(WATER_STROKE_M, 0.5 * river.width_m))
        strokes = a + shares * (d - a), b + shares * (c - b)
        marks.append(GroundMarks(*strokes, radii, radii, np.tile(WATER, (count, 1)), np.ones(count)))
    for stone in world.stones:
        if stone.height_m > 0.0:
            angles = np.arange(2 * RING_SEGMENTS) * np.pi / RING_SEGMENTS
            outline = stone.position + stone.radius_m * np.stack([np.cos(angles), np.sin(angles)], axis=1)
            solids.append(TriangleMesh.column(outline, (0.0, stone.height_m), STONE))
        else:
            marks.append(_disc(stone.position, stone.radius_m, STONE))
    for table in world.tables:
        # A top and four legs
        top = _turned_rectangle(table.position, table.size, table.heading_deg)
        under = max(table.height_m - TABLE_TOP_M, 0.0)
        centre = np.asarray(table.position)
        feet = centre + (top - centre) * (1.0 - 2.0 * TABLE_LEG_M / np.min(table.size))
        side = (2.0 * TABLE_LEG_M, 2.0 * TABLE_LEG_M)
        legs = [
            TriangleMesh.column(_turned_rectangle(foot.tolist(), side, table.heading_deg), (0.0, under), WOOD)
            for foot in feet
        ]
        solids.append(TriangleMesh.join([TriangleMesh.column(top, (under, table.height_m), WOOD), *legs]))
    for box in world.boxes:
        outline = _turned_rectangle(box.position, box.size, box.heading_deg)
        solids.append(TriangleMesh.column(outline, (0.0, box.height_m), BOX))
    solids += [TriangleMesh.capsule(bar.start, bar.end, (bar.radius_m, bar.radius_m), BAR) for bar in world.bars]
    if sketch is not None:
        # The path as a line, way-points as small discs, start and goal as large ones
        if sketch.path is not None:
            points = sketch.path.sample(max(0.1, sketch.path.length_m / 200.0))
            marks.append(GroundMarks.path(points, width_m=WAY_WIDTH_M, colour=WAY))
        marks += [_disc(e.at, PASS_RADIUS_M, WAY) for e in sketch.events if e.at is not None]
        marks.append(_disc(sketch.start.position, 0.6 * GOAL_RADIUS_M, WAY))
        marks.append(_disc(sketch.goal.position, GOAL_RADIUS_M, GOAL, 0.8))
    return Scenery(tuple(solids), TriangleMesh.join(panes), GroundMarks.join(marks))


def place_objects(world: World | Sketch, motion: Motion, frames: IntArray) -> list[TriangleMesh]:
    """Objects at some frames ``(n,)``: at their place, in the hand from the pick on, then where they were put down.

    The hand takes an object in the frame in which its palm is nearest to it, after what came before in the sketch.
    """
    objects = (world.world if isinstance(world, Sketch) else world).objects
    ways = {thing.name: np.tile(np.array(thing.position), (motion.num_frames, 1)) for thing in objects}
    hands = {
        name.removesuffix("_hand"): places
        for name, places in zip(
            contact_points(motion.skeleton).names, np.moveaxis(contact_positions(motion), 1, 0), strict=True
        )
        if name.endswith("_hand")
    }
    now, holding = 0, dict[str, str]()
    for event in world.events if isinstance(world, Sketch) else ():
        if event.kind not in ("pick", "place") or event.object is None or not hands:
            continue
        way = ways[event.object]
        goal = way[now] if event.kind == "pick" else np.array(event.to)
        # The hand that the event names, that holds the object, or that comes nearest to the goal
        near = min(hands, key=lambda side: float(np.linalg.norm(hands[side][now:] - goal, axis=1).min()))
        held = holding.get(event.object, near) if event.kind == "place" else near
        hand = event.hand if event.hand in hands else held
        gaps = np.linalg.norm(hands[hand][now:] - goal, axis=1)
        if float(gaps.min()) > GRASP_M:
            continue
        now += int(np.argmin(gaps))
        way[now:] = hands[hand][now:] if event.kind == "pick" else goal
        holding[event.object] = hand
    radii = (OBJECT_RADIUS_M, OBJECT_RADIUS_M)
    return [
        TriangleMesh.join([TriangleMesh.capsule(way[f], way[f], radii, OBJECT) for way in ways.values()])
        for f in frames.tolist()
    ]


def find_steps(motion: Motion, contacts: Contacts, level_m: float, frames: IntArray | None = None) -> TriangleMesh:
    """Blocks under the feet of a person that rest above the ground: stairs, boxes, rungs.

    Args:
        motion: the clip.
        contacts: which points touch.
        level_m: height of the ground.
        frames: only what is stood on in these frames; all by default.
    """
    names = contact_points(motion.skeleton).names
    places = dict(zip(names, np.moveaxis(contact_positions(motion), 1, 0), strict=True))
    blocks: list[TriangleMesh] = []
    for side in ("left", "right") if assess_anatomy(motion.skeleton).is_human else ():
        known = [n for n in (f"{side}_heel", f"{side}_toe") if n in contacts.names and n in places]
        if len(known) < 2:
            continue
        for first, last in find_runs(np.any([contacts.track(n) for n in known], axis=0)):
            shown = frames is None or bool(((frames >= first) & (frames < last)).any())
            if not shown or (last - first) / motion.rate_hz < STEP_S:
                continue
            # Sole at rest: the lower of heel and toe, usually, while it stands
            heel, toe = (places[n][first:last] for n in known)
            top = float(np.median(np.minimum(heel[:, 1], toe[:, 1])))
            # A track of another tool may call a foot planted that travels: nothing is stood on there
            travels = min(float(np.ptp(track, axis=0).max()) for track in (heel, toe)) > STEP_DRIFT_M
            if top < level_m + STEP_RISE_M or travels:
                continue
            middle, along = np.median(0.5 * (heel + toe), axis=0), np.median(toe - heel, axis=0)
            turn = float(np.rad2deg(np.arctan2(along[0], along[2])))
            size = (2.0 * STEP_HALF_M[0], 2.0 * STEP_HALF_M[1])
            outline = _turned_rectangle((middle[0], middle[2]), size, turn)
            bottom = level_m if top - level_m < SOLID_STEP_M else top - SLAB_M
            blocks.append(TriangleMesh.column(outline, (bottom, top), STEP))
    return TriangleMesh.join(blocks)


def _turned_rectangle(centre: Sequence[float], size: Sequence[float], heading_deg: float) -> FloatArray:
    """Corners ``(4, 2)`` [m] of a rectangle whose own z points to a heading (0 is +Z, positive towards +X)."""
    a = np.deg2rad(heading_deg)
    across, along = np.array([np.cos(a), -np.sin(a)]), np.array([np.sin(a), np.cos(a)])
    halves = [(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)]
    return np.array([np.asarray(centre) + u * size[0] * across + v * size[1] * along for u, v in halves])


def _strip_outline(start: Sequence[float], end: Sequence[float], width: float) -> FloatArray:
    """Corners ``(4, 2)`` [m] of a straight strip on the ground."""
    a, b = np.asarray(start), np.asarray(end)
    length = max(float(np.linalg.norm(b - a)), 1e-9)
    side = 0.5 * width * np.array([-(b - a)[1], (b - a)[0]]) / length
    return np.array([a - side, b - side, b + side, a + side])


def _disc(place: Sequence[float], radius: float, colour: FloatArray, opacity: float = 1.0) -> GroundMarks:
    p = np.asarray(place, dtype=np.float64)[None]
    return GroundMarks(p, p, np.array([radius]), np.array([radius]), colour[None], np.array([opacity]))
