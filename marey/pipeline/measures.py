"""Measures of a motion against its sketch: what it asked for and did not get, and what nobody asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from marey.base import FloatArray
from marey.contacts import contact_phases, ensure_contacts
from marey.measure import LEAST_METER_FRAMES, Measurement, measure_motion
from marey.motion import Motion, contact_positions, find_runs, headings
from marey.skeleton import contact_points
from marey.world import Sketch, World, segment_distance, shortest_way

SLACK_M: Final = 0.02  # [m] by which goal, corridor and events are missed without being broken
MAX_HEADING_OFF_DEG: Final = 15.0  # at the goal
MAX_START_OFF_DEG: Final = 30.0  # at the start, where a walker may be turning already
JUMP_SHARE: Final = (
    0.8  # [-] of the rise of a jump, which is that of the centre of mass, by the root; and of a stop's time
)
MAX_SPEED_OFF: Final = 0.15  # [-] of the speed asked for
MAX_WAY_RATIO: Final = 1.15  # [-] of the way asked for: a longer one is told
EVENT_NEAR_M: Final = 0.5  # [m] from the place of a jump, pass or stop, where the sketch does not say
HAND_NEAR_M: Final = 0.05  # [m] from what is picked up, where the sketch does not say
SPEED_S: Final = 0.5  # [s] over which speeds are averaged: a step
CRUISE_PERCENT: Final = 75.0  # percentile of the speeds of a moving root that counts as its speed
STILL_MPS: Final = 0.15  # [m/s] a slower root stands
SLOW_MPS: Final = 0.45  # [m/s] a slower root that does not stand dawdles, unless the sketch asks for that
LEAST_SLOW_S: Final = 1.5  # [s] a shorter time is for setting out, turning and reaching
LEAST_STOP_S: Final = 0.5  # [s] a shorter stand is no stop
END_S: Final = 1.5  # [s] at either end, in which a walk sets out and comes to rest
MAX_SHORT_STEPS: Final = 2  # in a row, to come to a stop; captured walkers who pick things up take one
LEAST_FLIGHT_S: Final = 0.1  # [s]
LEAST_SCRAPED_M: Final = 0.01  # [m] a foot that slides scrapes farther; what scrapes less is in the air


@dataclass(frozen=True, slots=True)
class SketchCheck:
    """What was measured."""

    goal_m: float  # [m] root from the goal in the last frame
    off_path_m: float  # [m] farthest that the root is from the path; 0 without one
    off_corridor_m: float  # [m] farthest that the root is outside the corridor; 0 inside, or without a path
    penetration_mm: float  # [mm] deepest that a sole is under the ground
    wet_plants: int  # contacts of heels and toes that are in a river, on no stone, at any frame
    wet_mm: float = 0.0  # [mm] deepest of them, from the nearest bank or stone
    reaches_m: tuple[float, ...] = ()  # [m] hand from what it picks up or where it puts it down
    start_m: float = 0.0  # [m] root from the start in the first frame
    heading_off_deg: float = 0.0  # at the goal, from the heading asked for; 0 if any will do
    start_off_deg: float = 0.0  # and at the start
    speed_mps: float = 0.0  # of the root on its way, without setting out, turning and coming to rest
    way_m: float = 0.0  # [m] of the root over the ground
    asked_m: float = 0.0  # [m] of the path drawn, or the shortest free way from place to place
    turned_deg: float = 0.0  # sum of all turning of the smoothed heading
    flights: int = 0  # that nobody asked for
    stops_s: float = 0.0  # [s] of standing that nobody asked for
    slow_s: float = 0.0  # [s] of walking so slowly that nobody does unasked
    short_steps: int = 0  # most in a row that lead nowhere, by the meter
    scraped_m: float = 0.0  # [m] way of both feet over their floor, by the meter
    things: tuple[str, ...] = ()  # what of the body is inside what, and feet that slide or scrape, by the meter
    faults: tuple[str, ...] = ()  # what else the meter finds wrong
    broken: tuple[str, ...] = ()  # constraints of the sketch that the motion does not keep

    @property
    def remarks(self) -> tuple[str, ...]:
        """What keeps to the sketch and was not asked for."""
        found: list[str] = []
        if self.asked_m > 0.0 and self.way_m > MAX_WAY_RATIO * self.asked_m:
            found.append(f"walks {self.way_m:.1f} m where {self.asked_m:.1f} m were asked for")
        if self.flights:
            found.append(f"leaves the ground {self.flights} time{'s' if self.flights > 1 else ''} unasked")
        if self.stops_s > 0.0:
            found.append(f"stands for {self.stops_s:.1f} s unasked")
        if self.slow_s > 0.0:
            found.append(f"walks slower than {SLOW_MPS:g} m/s for {self.slow_s:.1f} s")
        if self.short_steps > MAX_SHORT_STEPS:
            found.append(f"takes {self.short_steps} short steps in a row on the spot")
        return (*found, *self.faults)

    def to_json(self) -> dict[str, Any]:
        """Numbers for a report; lengths to a hundredth of a millimetre."""
        facts = {n: round(v, 5) if isinstance(v, float) else v for n, v in asdict(self).items()}
        return facts | {"reaches_m": [round(float(reach), 5) for reach in self.reaches_m]}


def check_motion(motion: Motion, sketch: Sketch, *, reaches_m: Sequence[float] = ()) -> SketchCheck:
    """Measure a motion against its sketch, at every frame; what is in walls, tables and water is the meter's word.

    Args:
        motion: with contacts; they are detected where it has none.
        sketch: goal, corridor, events and world.
        reaches_m: how far hands are from their things, known from elsewhere.
    """
    motion = ensure_contacts(motion)
    assert motion.contacts is not None
    points = contact_positions(motion)[:, [contact_points(motion.skeleton).index(n) for n in motion.contacts.names]]
    active = motion.contacts.active
    ground = motion.root_positions[:, [0, 2]]
    places = points[:, :, [0, 2]]
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
    # What the meter says: way scraped, and faults, those that break a sketch apart
    meter: dict[str, Any] = {}
    if motion.num_frames >= LEAST_METER_FRAMES:
        measured: Measurement = measure_motion(motion, world=sketch.world)
        scraped, things, others = measured.scraped_m, list[str](), list[str]()
        for fault in measured.faults:
            start, stop = (min(round(at * motion.rate_hz), len(scraped) - 1) for at in (fault.start_s, fault.stop_s))
            is_sliding = fault.kind == "slide" and scraped[stop] - scraped[start] > LEAST_SCRAPED_M
            (things if is_sliding or fault.kind in ("obstacle", "scrape") else others).append(str(fault))
        short = int(measured["short_steps_in_a_row"])
        meter = {
            "short_steps": short,
            "scraped_m": float(scraped[-1]),
            "things": tuple(things),
            "faults": tuple(others),
        }
    check = SketchCheck(
        goal_m=float(np.linalg.norm(ground[-1] - np.array(sketch.goal.position))),
        off_path_m=off_path,
        off_corridor_m=max(0.0, off_path - 0.5 * sketch.corridor_m),
        penetration_mm=1000.0 * max(0.0, -float(soles.min(initial=0.0))),
        wet_plants=len(wet),
        wet_mm=1000.0 * max(wet, default=0.0),
        reaches_m=tuple(reaches_m),
        **_measure_course(motion, sketch),
        **meter,
    )
    return replace(check, broken=find_broken(check, motion, sketch))


def _measure_course(motion: Motion, sketch: Sketch) -> dict[str, Any]:
    """Way, speed, heading, flights and stops, beside what was asked for."""
    ground, rate = motion.root_positions[:, [0, 2]], motion.rate_hz
    moves = np.linalg.norm(np.diff(ground, axis=0), axis=1)
    window = np.ones(max(1, round(SPEED_S * rate)))
    speeds = np.convolve(moves, window, "same") * rate / len(window)
    is_moving = speeds > STILL_MPS
    # Asked: the path from end to end, or the shortest free way from place to place
    if sketch.path is not None:
        ends = (sketch.path.points[0], sketch.path.points[-1])
        way = np.linalg.norm(np.array(sketch.start.position) - ends[0]) + sketch.path.length_m
        asked = float(way + np.linalg.norm(np.array(sketch.goal.position) - ends[1]))
    else:
        route = [sketch.start.position]
        for event in sketch.events:
            thing = event.to if event.kind == "place" else event.object and sketch.world.object(event.object).position
            place = event.at or (thing and (thing[0], thing[2]))
            route += [place] if place else []
        route.append(sketch.goal.position)
        asked = sum(shortest_way(sketch.world, a, b) for a, b in pairwise(route))
    # Standing in between, without the times that stops and hands need
    edge = round(END_S * rate)
    stands = [b - a for a, b in find_runs(~is_moving) if a > edge and b < len(moves) - edge]
    waits = sum(e.kind in ("stop", "pick", "place") for e in sketch.events)
    stands = sorted(stand for stand in stands if stand > LEAST_STOP_S * rate)
    # Walking, but slowly
    is_slow = is_moving & (speeds < (SLOW_MPS if sketch.speed_mps is None else min(SLOW_MPS, 0.5 * sketch.speed_mps)))
    slow = [b - a for a, b in find_runs(is_slow) if b - a > LEAST_SLOW_S * rate]
    flights = [p for p in contact_phases(motion) if p.kind == "flight" and len(p) > LEAST_FLIGHT_S * rate]
    jumps = sum(event.kind == "jump" for event in sketch.events) + len(sketch.world.rivers) + len(sketch.world.boxes)
    is_run = len(flights) > 0.5 * max(float(moves.sum()), 1.0)  # a run flies at every step
    yaw = headings(motion)
    off, start_off = (
        0.0 if pose.heading_deg is None else float(np.degrees(angle)) - pose.heading_deg
        for pose, angle in ((sketch.goal, yaw[-1]), (sketch.start, yaw[0]))
    )
    smooth = np.convolve(np.pad(yaw, round(0.5 * rate), mode="edge"), np.ones(2 * round(0.5 * rate) + 1), "valid")
    return {
        "start_m": float(np.linalg.norm(ground[0] - np.array(sketch.start.position))),
        "heading_off_deg": abs((off + 180.0) % 360.0 - 180.0),
        "start_off_deg": abs((start_off + 180.0) % 360.0 - 180.0),
        "speed_mps": float(np.percentile(speeds[is_moving], CRUISE_PERCENT)) if is_moving.any() else 0.0,
        "way_m": float(moves.sum()),
        "asked_m": asked,
        "turned_deg": float(np.degrees(np.abs(np.diff(smooth)).sum() / (2 * round(0.5 * rate) + 1))),
        "flights": 0 if is_run else max(0, len(flights) - jumps),
        "slow_s": sum(slow) / rate,
        "stops_s": sum(stands[: max(0, len(stands) - waits)]) / rate,
    }


def find_broken(check: SketchCheck, motion: Motion, sketch: Sketch) -> tuple[str, ...]:
    """Constraints of a sketch that a motion does not keep, one sentence each."""
    found: list[str] = []
    if check.start_m > sketch.start.tolerance_m + SLACK_M:
        found.append(f"begins {check.start_m:.2f} m from the start")
    if check.goal_m > sketch.goal.tolerance_m + SLACK_M:
        found.append(f"ends {check.goal_m:.2f} m from the goal, {sketch.goal.tolerance_m:.2f} m were allowed")
    if check.heading_off_deg > MAX_HEADING_OFF_DEG:
        found.append(f"ends {check.heading_off_deg:.0f}° off the heading of the goal")
    if check.start_off_deg > MAX_START_OFF_DEG:
        found.append(f"begins {check.start_off_deg:.0f}° off the heading of the start")
    if check.off_corridor_m > SLACK_M:
        found.append(f"leaves the corridor by {100.0 * check.off_corridor_m:.0f} cm")
    if check.wet_mm > 1000.0 * SLACK_M:
        found.append(f"steps into water {check.wet_plants} times, {0.1 * check.wet_mm:.0f} cm from the bank at most")
    wanted = sketch.speed_mps
    if wanted is not None and abs(check.speed_mps - wanted) > MAX_SPEED_OFF * wanted:
        found.append(f"goes at {check.speed_mps:.2f} m/s, {wanted:.2f} m/s were asked for")
    # Hands and what they reach for, in the order of the sketch
    hands = [event for event in sketch.events if event.kind in ("pick", "place")]
    if hands and len(check.reaches_m) < len(hands):
        found.append(f"{len(hands) - len(check.reaches_m)} of {len(hands)} things are not reached")
    for event, away in zip(hands, check.reaches_m, strict=False):
        near = HAND_NEAR_M if event.tolerance_m is None else event.tolerance_m
        if away > near:
            found.append(f"the hand is {100.0 * away:.1f} cm from '{event.object}' ({event.kind})")
    # Places to pass and to stop at, and jumps: in the air near their place, as far and as high as asked
    ground = motion.root_positions[:, [0, 2]]
    flights = [phase for phase in contact_phases(motion) if phase.kind == "flight"]
    speeds = np.linalg.norm(np.gradient(ground, axis=0), axis=1) * motion.rate_hz
    for event in sketch.events:
        if event.at is None or event.kind not in ("pass", "stop", "jump", "custom"):
            continue
        away = np.linalg.norm(ground - np.array(event.at), axis=1)
        near = max(EVENT_NEAR_M, sketch.goal.tolerance_m) if event.tolerance_m is None else event.tolerance_m
        where = f"({event.at[0]:.2f}, {event.at[1]:.2f})"
        if event.kind == "jump":
            near += 0.5 * (event.length_m or 0.0)
            here = [p for p in flights if away[p.start : p.stop].min() <= near + SLACK_M]
            spans = [_cleared_length(motion, p.start, p.stop) for p in here]
            rises = [float(np.ptp(motion.root_positions[max(p.start - 1, 0) : p.stop, 1])) for p in here]
            if here and event.length_m is not None and max(spans) < event.length_m - SLACK_M:
                made, asked = max(spans), event.length_m
                found.append(f"jumps at {where}, {made:.2f} m from toe to heel: {asked:.2f} m were asked for")
            if here and event.height_m is not None and max(rises) < JUMP_SHARE * event.height_m:
                made, asked = max(rises), event.height_m
                found.append(f"jumps at {where}, {made:.2f} m high by the root: {asked:.2f} m were asked for")
            if not here:
                found.append(f"makes no jump at {where}")
        elif float(away.min()) > near + SLACK_M:
            found.append(f"passes {float(away.min()):.2f} m from the {event.name or event.kind} at {where}")
        elif event.kind == "stop":
            stood = float(((speeds < STILL_MPS) & (away <= near + SLACK_M)).sum()) / motion.rate_hz
            if stood < JUMP_SHARE * (event.seconds or 0.0) or stood < 0.1:
                found.append(f"stands for {stood:.1f} s at {where}, {event.seconds or 0.0:.1f} s were asked for")
    return (*found, *check.things)


def _cleared_length(motion: Motion, start: int, stop: int) -> float:
    """Ground [m] along the way of the root between the feet before a flight and those after it, from toe to heel."""
    contacts = ensure_contacts(motion).contacts
    assert contacts is not None
    names, before, after = contact_points(motion.skeleton).names, max(start - 1, 0), min(stop, motion.num_frames - 1)
    ahead = (motion.root_positions[after] - motion.root_positions[before]) * [1.0, 0.0, 1.0]
    along = contact_positions(motion)[[before, after]] @ (ahead / max(float(np.linalg.norm(ahead)), 1e-9))
    # Heels and toes of the feet that touch the ground
    last, first = -np.inf, np.inf
    for foot in ("left", "right"):
        points = [names.index(f"{foot}_{part}") for part in ("heel", "toe")]
        column = [n for n, name in enumerate(contacts.names) if name.startswith(f"{foot}_") and "hand" not in name]
        if contacts.active[before, column].any():
            last = max(last, float(along[0, points].max()))
        if contacts.active[after, column].any():
            first = min(first, float(along[1, points].min()))
    return first - last if np.isfinite(first - last) else 0.0


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
