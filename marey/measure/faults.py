"""What is wrong with a clip, in sentences with a stretch of time; who is inside a wall, which foot stands in water."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.measure.feet import STAIR_M, FlightArc, FootMeasures
from marey.measure.posture import LimbMeasures
from marey.measure.tracks import SIDES, MeasuredBody, MeterSettings
from marey.motion import find_runs
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


BRIDGE_S = 0.05  # [s] shorter pauses do not part a stretch
STEP_S = 0.3  # [s] shorter pauses between two floating steps do not part them
END_S = 0.15  # [s] of a clip at each end, in which a swing may have no stance on its other side
TOLD_S = 0.1  # [s] what happens to a leg or an arm this near to a backward bend of it, and no longer, is told with it


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, and when."""

    kind: str  # "jump", "float", "slide", "drag", "backwards", "flip", "pop", "gravity", "obstacle"
    part: str  # "root", "left_knee", "left foot", ...
    start_s: float
    stop_s: float
    size: float  # in the unit of the sentence's figure: [m], [m/s], [deg] or [g]
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def find_faults(
    tracks: MeasuredBody,
    feet: FootMeasures,
    limbs: tuple[LimbMeasures, ...],
    turns: tuple[tuple[str, ...], FloatArray],
    arcs: tuple[FlightArc, ...],
    contacts: tuple[ObstacleContact, ...],
    world: World | None,
    settings: MeterSettings,
    ground: MeasuredGround | None = None,
) -> tuple[Fault, ...]:
    """Everything that is beyond the limits of the settings, in order of time."""
    # Limbs that bend backwards, or whose bend plane turns at once
    bends, flips = list[Fault](), list[Fault]()
    for limb in limbs:
        name = limb.name.replace("_", " ")
        for start, stop in find_runs(limb.forward_deg < -settings.most_backwards_deg):
            size = float(-limb.forward_deg[start:stop].min())
            text = f"{name} bends backwards by {size:.0f}°"
            bends.append(_fault(tracks, "backwards", limb.name, start, stop, size, text))
        for frame in np.flatnonzero(limb.plane_turn_deg > settings.flip_deg):
            size = float(limb.plane_turn_deg[frame])
            text = f"bend plane of the {name} turns by {size:.0f}° within a frame"
            flips.append(_fault(tracks, "flip", limb.name, int(frame), int(frame) + 1, size, text))
    faults = [
        *_find_floats(tracks, feet, world, settings, ground),
        *_find_slides(tracks, feet, settings),
        *bends,
        *flips,
    ]
    # Turns of a joint that neither the frame before nor the one after continues
    names, vectors = turns
    for k, joint in enumerate(names if len(vectors) > 1 else ()):
        change = np.degrees(np.linalg.norm(np.diff(vectors[:, k], axis=0), axis=-1))
        least = settings.ankle_pop_deg if joint.endswith("ankle") else settings.pop_deg
        least = max(least, settings.pop_deg_per_s2 / tracks.rate_hz**2)
        for start, stop in find_runs(change > least, 2):
            size = float(change[start:stop].max())
            text = f"{joint.replace('_', ' ')} jerks by {size:.0f}° within a frame"
            faults.append(_fault(tracks, "pop", joint, start + 1, stop + 1, size, text))
    # Flights in which the body falls slower or faster than gravity pulls it
    short = [arc for arc in arcs if arc.stop - arc.start < settings.short_flight_s * tracks.rate_hz]
    slow = [arc for arc in short if arc.is_too_slow(settings)]
    is_slow_run = 2 * len(slow) >= len(short)
    for arc in arcs:
        is_fast = arc.is_too_fast(settings)
        is_slow = arc.is_too_slow(settings) and (is_slow_run or arc not in slow)
        if is_fast or is_slow:
            size = arc.whole if is_fast else arc.best
            text = f"body falls with {size:.2f} of gravity in the air"
            faults.append(_fault(tracks, "gravity", "body", arc.start, arc.stop, size, text))
    for frame, offset in zip(tracks.jumps.frames.tolist(), tracks.jumps.offsets, strict=True):
        size = float(np.linalg.norm(offset))
        text = f"root jumps {100 * size:.0f} cm within a frame"
        faults.append(_fault(tracks, "jump", "root", frame, frame + 1, size, text))
    faults = [fault for fault in faults if not any(_is_told_by(bend, fault) for bend in bends)]
    for contact in contacts:
        for start, stop in _runs(tracks, contact.depths > settings.obstacle_m):
            depth = float(contact.depths[start:stop].max())
            words = "stands in" if contact.thing.startswith("river") else "is inside"
            text = f"{contact.part} {words} {contact.thing}, {100 * depth:.0f} cm deep,"
            faults.append(_fault(tracks, "obstacle", contact.part, start, stop, depth, text))
    return tuple(sorted(faults, key=lambda fault: (fault.start_s, fault.kind, fault.part)))


def _is_told_by(bend: Fault, fault: Fault) -> bool:
    """Whether a flip, a pop or a short slide is but the consequence of a limb that bends backwards."""
    is_same = fault.part == bend.part if fault.kind in ("flip", "pop") else fault.kind in ("slide", "drag")
    is_near = fault.start_s > bend.start_s - TOLD_S and fault.stop_s < bend.stop_s + TOLD_S
    return is_same and is_near and fault.part.split("_")[0].split()[0] == bend.part.split("_")[0]


def _runs(tracks: MeasuredBody, flags: BoolArray) -> list[tuple[int, int]]:
    return find_runs(flags, int(BRIDGE_S * tracks.rate_hz))


def _fault(tracks: MeasuredBody, kind: str, part: str, start: int, stop: int, size: float, text: str) -> Fault:
    """Name frames ``start`` to ``stop`` (not included) by their times."""
    first, last = start / tracks.rate_hz, (stop - 1) / tracks.rate_hz
    when = f"at {first:.2f} s" if stop - start == 1 else f"at {first:.2f}-{last:.2f} s"
    return Fault(kind, part, first, last, size, f"{text} {when}")


def _find_floats(
    tracks: MeasuredBody,
    feet: FootMeasures,
    world: World | None,
    settings: MeterSettings,
    ground: MeasuredGround | None,
) -> Iterator[Fault]:
    """Feet that rest above or below what there is to stand on: the floor at height zero, if nothing else is given."""
    apart = np.zeros((tracks.num_frames, 2))
    whole = [step for step in feet.steps if step.is_whole]
    gaps = measure_rests(tracks, feet, world, ground)
    # Single steps differ more than whole clips do
    is_all = len(gaps) > 0 and abs(float(np.median(gaps))) > settings.most_median_float_m
    # A body that is as high over a single raised sole as over the others stands on a thing that nobody told
    reaches = [float(tracks.pelvis[s.slowest, 1] - tracks.soles[s.slowest, s.side, :, 1].min()) for s in whole]
    is_carried = np.array(reaches) > settings.carried_share * np.median(reaches) if reaches else np.zeros(0, dtype=bool)
    for step, gap, carried in zip(whole, gaps, is_carried, strict=True):
        on_thing = carried and gap > 0.0 and not is_all and world is None and ground is None
        apart[step.start : step.stop, step.side] = 0.0 if on_thing else gap
    most = settings.most_median_float_m if is_all else settings.most_float_m
    for sign, words in ((1.0, "above"), (-1.0, "below")):
        is_apart: BoolArray = sign * apart > most
        for start, stop in find_runs(is_apart[:, 0] | is_apart[:, 1], int(STEP_S * tracks.rate_hz)):
            size = float(np.median(apart[start:stop][is_apart[start:stop]]))
            text = f"soles rest {100 * abs(size):.0f} cm {words} the floor"
            yield _fault(tracks, "float", "feet", start, stop, size, text)


def _find_slides(tracks: MeasuredBody, feet: FootMeasures, settings: MeterSettings) -> Iterator[Fault]:
    """Stances in which no point of a foot comes to rest, and stretches in which a foot scrapes far."""
    for side, name in enumerate(SIDES):
        flags = np.zeros(tracks.num_frames, dtype=bool)
        # A step that the clip cuts has no floor of its own: a low swing at an end of the clip is not told
        is_known = np.zeros(tracks.num_frames, dtype=bool)
        for step in feet.steps:
            is_known[step.start : step.stop] |= step.side == side and step.is_whole
        ends = int(END_S * tracks.rate_hz)
        is_known[:ends] = is_known[max(len(is_known) - ends, 0) :] = False
        for start, stop in _runs(tracks, (feet.scraped[:, side] > 0.0) & is_known):
            # A swing that is low for a moment passes over the floor and does not scrape it
            is_long = stop - start > settings.least_slide_s * tracks.rate_hz
            flags[start:stop] = is_long and feet.scraped[start:stop, side].sum() > settings.most_slide_m
        for start, stop in find_runs(flags):
            way = float(feet.scraped[start:stop, side].sum())
            text = f"{name} foot scrapes {100 * way:.0f} cm over the floor"
            # In a stance it slides; in a swing alone it is dragged along
            kind = "slide" if feet.is_middle[start:stop, side].any() else "drag"
            yield _fault(tracks, kind, f"{name} foot", start, stop, way, text)
        for step in feet.steps:
            middle = step.start + np.flatnonzero(feet.is_middle[step.start : step.stop, side])
            is_brief = len(middle) < settings.brief_s * tracks.rate_hz
            most = settings.most_brief_slip_mps if is_brief else settings.most_slip_mps
            if step.side != side or not step.is_whole or step.speed_mps <= most or flags[middle].any():
                continue
            # A foot that pauses in the air, above the other one, stands nowhere
            lowest = tracks.soles[step.slowest, :, :, 1].min(axis=1)
            if is_brief and lowest[side] > lowest[1 - side] + STAIR_M:
                continue
            text = f"{name} foot slides at {step.speed_mps:.2f} m/s where it should stand"
            start, stop = int(middle[0]), int(middle[-1]) + 1
            yield _fault(tracks, "slide", f"{name} foot", start, stop, step.speed_mps, text)
