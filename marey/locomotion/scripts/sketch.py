"""Walking a sketch: its path within its corridor, at its speed, with jumps and stops on the way.

What the sketch puts in the way becomes boxes; the plan is a path with goals: stops, leaps, and shifts past what lies
beside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from marey.base import FloatArray, InputError, check_frame_count
from marey.blending import balance_motion
from marey.locomotion.engine.character import Engine, build_clip
from marey.locomotion.model.locomotion_model import LocomotionModel
from marey.locomotion.planning.ground_path import (
    COMFORTABLE_CURVES,
    FAST_CURVES,
    GroundPath,
    arrive_with_heading,
    heading_vector,
    join_from_heading,
    max_distance_to_line,
    resample_evenly,
    round_corners,
)
from marey.locomotion.plants.clip import pivot_landing_feet
from marey.locomotion.steering.decision import find_leap
from marey.locomotion.steering.guide import HaltGoal, LeapGoal, PathGoal, PathGuide
from marey.locomotion.steering.obstacles import BODY_RADIUS_M, Obstacle, find_route, shift_path_past
from marey.motion import Motion
from marey.world import Event, River, Sketch, Wall, World

SUPPORTED_EVENTS: Final = ("pass", "jump", "stop")
MAX_WALKED_FRAMES: Final = 500_000  # over two hours at 60 Hz


@dataclass(frozen=True, slots=True)
class SketchWalkSettings:
    """How a sketch is walked."""

    default_speed_mps: float = 1.3  # [m/s] of a sketch that does not say
    run_speed_fraction: float = 0.9  # [-] of the fastest walk: above this speed the character runs
    sway_m: float = 0.08  # [m] the root sways from its line when walking
    max_corridor_tries: int = 3  # each keeps farther from the walls of the corridor
    still_s: float = 0.1  # [s] on both feet in the end
    max_duration_s: float = 600.0  # [s] a walk that lasts longer has got stuck
    stop_s: float = 1.0  # [s] of a stop event that does not say
    rest_s: float = 0.5  # [s] standing at the goal
    pass_radius_m: float = 0.5  # [m] how near a pass event is passed, at least
    straight_before_m: float = 1.2  # [m] of run-up that must be straight
    straight_rad: float = 0.12  # [rad] a way that bends less is straight
    max_jumped_height_m: float = 0.5  # [m] a taller box is walked round
    max_run_up_mps2: float = 1.0  # [m/s²] a sketch asks for its jumps: any run-up that the planner allows is tried
    standing_jump_m: float = 0.3  # [m] length of a jump for height
    stop_look_ahead_m: float = 0.3  # [m] stops planned farther off end in creeping
    stop_braking_factor: float = 1.1  # [-] times an even braking: longer ones end in creeping


DEFAULT_SETTINGS: Final = SketchWalkSettings()


class Hurdle(NamedTuple):
    """Something on the ground, with the name it has in messages."""

    name: str
    box: Obstacle
    is_jumpable: bool


def list_hurdles(world: World, *, max_jumped_height_m: float = DEFAULT_SETTINGS.max_jumped_height_m) -> list[Hurdle]:
    """Rivers, boxes, walls and tables of a world."""
    found = [Hurdle(f"river {i + 1}", _strip_obstacle(r, r.width_m, 0.0), True) for i, r in enumerate(world.rivers)]
    for i, box in enumerate(world.boxes):
        shape = Obstacle(box.position, (box.size[1], box.size[0]), box.height_m, float(np.radians(box.heading_deg)))
        found.append(Hurdle(f"box {i + 1}", shape, box.height_m <= max_jumped_height_m))
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


@dataclass(frozen=True, slots=True, eq=False)
class SketchPlan:
    """Path and actions of a sketch walk."""

    way: GroundPath
    goals: tuple[PathGoal, ...]
    line: FloatArray  # (N, 2) [m] the sketched line, close points: the middle of the corridor


def plan_sketch(
    engine: Engine, sketch: Sketch, *, speed_mps: float, settings: SketchWalkSettings = DEFAULT_SETTINGS
) -> SketchPlan:
    """Make a sketch walkable for a character that stands at its start.

    Raises:
        InputError: something cannot be walked; the message says what, where and what would help.
    """
    hurdles = list_hurdles(sketch.world, max_jumped_height_m=settings.max_jumped_height_m)
    corners = sketch_polyline(sketch)
    if corners is None:
        # Without a path the way leads past the events, round what cannot be jumped over.
        start, end = np.array(sketch.start.position), np.array(sketch.goal.position)
        marks = [np.array(e.at) for e in sketch.events if e.at is not None]
        boxes, stations = [h.box for h in hurdles if not h.is_jumpable], [start, *marks, end]
        legs = [find_route(a, b, boxes, radius_m=BODY_RADIUS_M) for a, b in pairwise(stations)]
        corners = join_points(start, np.concatenate(legs), end)
    slack = 0.5 * sketch.corridor_m - settings.sway_m
    if slack < 0.05:
        raise InputError(
            f"the corridor is {sketch.corridor_m:.2f} m wide, and a walker sways",
            f"Give it {2 * settings.sway_m + 0.1:.2f} m",
        )
    line = GroundPath(resample_evenly(corners))
    has_corners = sketch.path is None or sketch.path.kind == "polyline"
    way = GroundPath(round_corners(corners, slack) if has_corners else resample_evenly(corners))
    leaps: list[tuple[float, LeapGoal]] = []
    for event in sketch.events:
        if event.kind == "jump" and event.at is not None:
            along = way.nearest(event.at)
            leaps.append((along, _plan_jump_event(engine, event, along, speed_mps, settings)))
    for hurdle in sorted(hurdles, key=lambda h: way.nearest(h.box.position)):
        way, leap = _pass_hurdle(engine, way, hurdle, slack, speed_mps, settings)
        if leap is not None:
            leaps = [one for one in leaps if abs(one[0] - leap.along_m) > leap.length_m + 0.5] + [(leap.along_m, leap)]
    # The way begins and ends in the directions of the stands.
    points = way.points
    if sketch.start.heading_deg is not None:
        points = join_from_heading(points, float(np.radians(sketch.start.heading_deg)), slack)
    if sketch.goal.heading_deg is not None:
        points = arrive_with_heading(points, float(np.radians(sketch.goal.heading_deg)), slack)
    way = GroundPath(points)
    # Leaps and stops in the order of the way, and the stand at its end
    straight_m = settings.straight_before_m
    goals: list[PathGoal] = [HaltGoal(way.length_m, settings.rest_s)]
    goals += [
        HaltGoal(way.nearest(event.at), settings.stop_s if event.seconds is None else event.seconds)
        for event in sketch.events
        if event.kind == "stop" and event.at is not None
    ]
    for _, goal in leaps:
        if goal.kind == "standing":
            goals.append(HaltGoal(goal.along_m - 1e-3, 0.2))
        elif _total_bend(way, goal.along_m - straight_m, goal.along_m + goal.length_m + 0.5) > settings.straight_rad:
            x, z = way.point_at(goal.along_m)
            raise InputError(
                f"the way bends at the jump at ({x:.2f}, {z:.2f})", "Straighten it there over three metres"
            )
        goals.append(goal)
    goals.sort(key=lambda goal: goal.along_m)
    # Every event lies near the way.
    most = max(settings.pass_radius_m, 0.5 * sketch.corridor_m)
    for event in sketch.events:
        if event.at is None:
            continue
        gap = float(np.linalg.norm(way.points - np.array(event.at), axis=1).min())
        if gap > most:
            raise InputError(
                f"the {event.kind} event at ({event.at[0]:.2f}, {event.at[1]:.2f}) is {gap:.2f} m from the path",
                "Lead the path there, or move the event",
            )
    return SketchPlan(way, tuple(goals), line.points)


def _pass_hurdle(
    engine: Engine, way: GroundPath, hurdle: Hurdle, slack: float, speed_mps: float, settings: SketchWalkSettings
) -> tuple[GroundPath, LeapGoal | None]:
    """Leave a hurdle beside the way, jump over it, or shift the way past it."""
    # Feet may pass near a river; a body needs room beside anything else.
    near = hurdle.box.distance(way.points)
    is_river = hurdle.box.height_m == 0.0
    if near.min() >= (0.2 if is_river else BODY_RADIUS_M):
        return way, None
    why = f"{hurdle.name} cannot be jumped over"
    if hurdle.is_jumpable:
        # The leap over an obstacle on the path, or the reason why there is none
        inside = np.flatnonzero(hurdle.box.distance(way.points) < 1e-3)
        if len(inside) == 0:
            leap = "it lies beside the way"
        else:
            entry = float(way.lengths[inside[0]])
            heading = float(way.heading_at(entry))
            if _total_bend(way, entry - settings.straight_before_m, entry + 2.0) > settings.straight_rad:
                leap = "the way bends there"
            else:
                extent = hurdle.box.track_extent_from(way.point_at(entry) - 3.0 * heading_vector(heading), heading)
                assert extent is not None
                jump, reasons = find_leap(
                    engine, extent, hurdle.box.height_m, settings.max_run_up_mps2, speed_mps=speed_mps
                )
                if jump is None:
                    leap = "; ".join(reasons)
                else:
                    leap = LeapGoal(entry - 3.0 + jump.ahead_m, jump.length_m, jump.kind)
        if isinstance(leap, LeapGoal):
            return way, leap
        why = leap
    bent = shift_path_past(way, hurdle.box, slack)
    if bent is None:
        raise InputError(
            f"{hurdle.name} lies across the way: {why}, and the corridor is too narrow to go round",
            "Widen corridor_m, move the path, or make the gap shorter",
        )
    return GroundPath(bent), None


def _total_bend(way: GroundPath, first: float, last: float) -> float:
    s = np.linspace(max(first, 0.0), min(last, way.length_m), 40)
    headings = way.heading_at(s)
    return float(headings.max() - headings.min())


def _plan_jump_event(
    engine: Engine, event: Event, along: float, speed_mps: float, settings: SketchWalkSettings
) -> LeapGoal:
    """A jump where the sketch wants one: for height from a stand, else a leap that goes with the speed."""
    if event.height_m is not None:
        return LeapGoal(along, event.length_m or settings.standing_jump_m, "standing", height_m=event.height_m)
    jumps, leg = engine.jumper.jumps, engine.leg_length_m
    limits = {kind: jumps.limits_m(kind, leg) for kind in ("walk", "run")}
    if event.length_m is None:
        kind = "walk" if speed_mps <= float(jumps.run_up("walk", limits["walk"][1], leg)[0]) else "run"
        return LeapGoal(along, float(np.clip(jumps.length_for(kind, speed_mps, leg), *limits[kind])), kind)
    kind = "walk" if event.length_m <= limits["walk"][1] else "run"
    if not limits[kind][0] <= event.length_m <= limits[kind][1]:
        raise InputError(
            f"a jump of {event.length_m:.2f} m", f"The model leaps {limits['walk'][0]:.2f} to {limits['run'][1]:.2f} m"
        )
    return LeapGoal(along, event.length_m, kind)


@dataclass(frozen=True, slots=True, eq=False)
class SketchWalk:
    """A sketch that was walked."""

    motion: Motion
    plan: SketchPlan
    off_path_m: float  # farthest that the root was from the path
    corridor_m: float

    def to_json(self) -> dict[str, Any]:
        """Facts for a report."""
        leaps = [goal for goal in self.plan.goals if isinstance(goal, LeapGoal)]
        return {
            "seconds": round(self.motion.duration_s, 3),
            "frames": self.motion.num_frames,
            "way_m": round(self.plan.way.length_m, 3),
            "off_path_m": round(self.off_path_m, 4),
            "corridor_m": self.corridor_m,
            "jumps": [{"at_m": round(one.along_m, 3), "length_m": one.length_m, "kind": one.kind} for one in leaps],
        }

    @property
    def sentence(self) -> str:
        """The same, for people."""
        facts = self.to_json()
        jumps = len(facts["jumps"])
        leaps = f", {jumps} jump{'s' if jumps > 1 else ''}" if jumps else ""
        return (
            f"walked {facts['way_m']:.1f} m in {facts['seconds']:.1f} s{leaps}; the root stays within "
            f"{100.0 * self.off_path_m:.0f} cm of the path, the corridor allows {50.0 * self.corridor_m:.0f}"
        )


def walk_sketch(
    sketch: Sketch,
    model: LocomotionModel | None = None,
    *,
    rate_hz: float = 60.0,
    speed_mps: float | None = None,
    run: float | None = None,
    settings: SketchWalkSettings = DEFAULT_SETTINGS,
    **options: Any,
) -> SketchWalk:
    """Walk a sketch from its start to its goal; returns the motion, the plan, and how near the path the root stayed.

    Corners are rounded inside the corridor, curves are taken as fast as a body can, rivers and boxes are jumped over
    where the model knows such jumps and else passed where the corridor lets. The root stays in the corridor in
    every frame.

    Args:
        sketch: start, goal, path, events and world.
        model: of the gaits and jumps; the shipped one by default.
        rate_hz: frames per second.
        speed_mps: in place of the sketch's own.
        run: 0 walks, 1 runs; by default as the speed asks.
        settings: margins, waiting times and limits.
        **options: of :class:`Engine`, such as ``leg_length_m`` or ``style``.

    Raises:
        InputError: the sketch cannot be walked; the message says where, and what would help.
    """
    check_sketch(sketch)
    given = sketch.speed_mps if speed_mps is None else speed_mps
    speed = settings.default_speed_mps if given is None else given
    if not (np.isfinite(speed) and speed > 0.0 and np.isfinite(rate_hz) and rate_hz > 0.0):
        raise InputError(f"a speed of {speed} m/s at {rate_hz} Hz", "Both are positive numbers")
    way_m = float(np.linalg.norm(np.subtract(sketch.goal.position, sketch.start.position)))
    check_frame_count(way_m / speed * rate_hz, f"a speed of {speed:g} m/s at {rate_hz:g} Hz", MAX_WALKED_FRAMES)
    excess, tries = 0.0, settings.max_corridor_tries
    for _ in range(tries):
        heading = 0.0 if sketch.start.heading_deg is None else float(np.radians(sketch.start.heading_deg))
        engine = Engine(model, position=sketch.start.position, heading_rad=heading, **options)
        # Above most of the walking speeds the character runs.
        factor = engine.model.scales(engine.leg_length_m, str(options.get("scaling", "froude")))[0]
        is_fast = speed * factor > settings.run_speed_fraction * float(engine.model.gaits.limits[0])
        share = float(is_fast) if run is None else run
        plan = plan_sketch(engine, sketch, speed_mps=speed, settings=settings)
        # Without a given heading the walk begins along the path.
        heading = float(plan.way.headings[0])
        if abs(heading - engine.heading_rad) >= 1e-6:
            engine = Engine(engine.model, position=plan.way.points[0], heading_rad=heading, **options)
        motion = balance_motion(pivot_landing_feet(_record_walk(engine, plan, speed, share, rate_hz, settings)))
        off = max_distance_to_line(motion.root_positions[:, [0, 2]], plan.line)
        excess = off - 0.5 * sketch.corridor_m
        if excess <= 0.0:
            return SketchWalk(motion, plan, off, sketch.corridor_m)
        # The next try keeps farther from the walls of the corridor.
        settings = replace(settings, sway_m=settings.sway_m + (excess + 0.01))
    raise InputError(
        f"the root leaves the corridor by {100.0 * excess:.0f} cm", f"Widen it from {sketch.corridor_m:.2f} m"
    )


def _record_walk(
    engine: Engine,
    plan: SketchPlan,
    speed: float,
    run: float,
    rate_hz: float,
    settings: SketchWalkSettings = DEFAULT_SETTINGS,
) -> Motion:
    curves = COMFORTABLE_CURVES if run < 0.5 else FAST_CURVES
    stops = settings.stop_look_ahead_m, settings.stop_braking_factor
    guide = PathGuide(plan.way, plan.goals, speed_mps=speed, run=run, curves=curves, stops=stops)
    engine.add_driver(guide)
    poses, contacts = [engine.pose], [engine.contacts]
    longest = min(settings.max_duration_s, 60.0 + 10.0 * plan.way.length_m / speed)
    # Who stands in the end does so on both feet, and for a moment.
    still = 0
    while not guide.is_done or (engine.state == "standing" and still < settings.still_s * rate_hz):
        still = still + 1 if engine.is_settled else 0
        poses.append(engine.step(len(poses) / rate_hz - engine.time_s))
        contacts.append(engine.contacts)
        if engine.time_s > longest:
            x, z = engine.position
            raise InputError(f"no end after {longest:.0f} s, at ({x:.2f}, {z:.2f})", "Simplify the sketch there")
    return build_clip(poses, rate_hz, np.array(contacts), name="follow")
