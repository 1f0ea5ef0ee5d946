"""From a sketch to a way with goals on it: stops, leaps, and shifts past what lies beside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.locomotion._follow_route import find_route, shift_path_past
from marey.locomotion._follow_scene import Hurdle, join_points, list_hurdles, sketch_polyline
from marey.locomotion._obstacle_box import BODY_RADIUS_M
from marey.locomotion._obstacle_decide import find_leap
from marey.locomotion._steer import GroundPath, heading_vector, resample_evenly
from marey.locomotion._steer_corner import arrive_with_heading, join_from_heading, round_corners
from marey.locomotion._steer_guide import HaltGoal, LeapGoal, PathGoal
from marey.world import Event, Sketch

if TYPE_CHECKING:
    from marey.locomotion._engine import Engine

SWAY_M: Final = 0.08  # [m] the root sways from its line when walking
STOP_S: Final = 1.0  # [s] of a stop event that does not say
REST_S: Final = 0.5  # [s] standing at the goal
STRAIGHT_BEFORE_M: Final = 1.2  # [m] of run-up that must be straight
STRAIGHT_RAD: Final = 0.12
PASS_RADIUS_M: Final = 0.5  # [m] how near a pass event is passed, at least
MAX_RUN_UP_MPS2: Final = 1.0  # [m/s²] a sketch asks for its jumps: any run-up that the planner allows is tried
STANDING_M: Final = 0.3  # [m] length of a jump for height


@dataclass(frozen=True, slots=True, eq=False)
class SketchPlan:
    """What is walked, and what is done on it."""

    way: GroundPath
    goals: tuple[PathGoal, ...]
    line: FloatArray  # (N, 2) [m] the sketched line, close points: the middle of the corridor


def plan_sketch(engine: Engine, sketch: Sketch, *, speed_mps: float, sway_m: float = SWAY_M) -> SketchPlan:
    """Make a sketch walkable for a character that stands at its start.

    Raises:
        InputError: something cannot be walked; the message says what, where and what would help.
    """
    hurdles = list_hurdles(sketch.world)
    corners = sketch_polyline(sketch)
    if corners is None:
        corners = _route_sketch(sketch, [h for h in hurdles if not h.is_jumpable])
    slack = 0.5 * sketch.corridor_m - sway_m
    if slack < 0.05:
        raise InputError(
            f"the corridor is {sketch.corridor_m:.2f} m wide, and a walker sways", f"Give it {2 * sway_m + 0.1:.2f} m"
        )
    line = GroundPath(resample_evenly(corners))
    way = GroundPath(round_corners(corners, slack) if _is_polyline(sketch) else resample_evenly(corners))
    leaps = _plan_jump_events(engine, sketch, way, speed_mps)
    for hurdle in sorted(hurdles, key=lambda h: way.nearest(h.box.position)):
        way, leap = _pass_hurdle(engine, way, hurdle, slack, speed_mps)
        if leap is not None:
            leaps = [one for one in leaps if abs(one[0] - leap.along_m) > leap.length_m + 0.5] + [(leap.along_m, leap)]
    way = _apply_end_headings(way, sketch, slack)
    goals = _order_goals(sketch, way, [leap for _, leap in leaps])
    _check_passes(sketch, way)
    return SketchPlan(way, tuple(goals), line.points)


def _is_polyline(sketch: Sketch) -> bool:
    return sketch.path is None or sketch.path.kind == "polyline"


def _route_sketch(sketch: Sketch, solid: Sequence[Hurdle]) -> FloatArray:
    start, goal = np.array(sketch.start.position), np.array(sketch.goal.position)
    marks = [np.array(e.at) for e in sketch.events if e.at is not None]
    boxes, stations = [h.box for h in solid], [start, *marks, goal]
    legs = [find_route(a, b, boxes, radius_m=BODY_RADIUS_M) for a, b in pairwise(stations)]
    return join_points(start, np.concatenate(legs), goal)


def _apply_end_headings(way: GroundPath, sketch: Sketch, slack: float) -> GroundPath:
    """Begin and end in the directions of the stands."""
    points = way.points
    if sketch.start.heading_deg is not None:
        points = join_from_heading(points, float(np.radians(sketch.start.heading_deg)), slack)
    if sketch.goal.heading_deg is not None:
        points = arrive_with_heading(points, float(np.radians(sketch.goal.heading_deg)), slack)
    return GroundPath(points)


def _pass_hurdle(
    engine: Engine, way: GroundPath, hurdle: Hurdle, slack: float, speed_mps: float
) -> tuple[GroundPath, LeapGoal | None]:
    """Leave a hurdle beside the way, jump over it, or shift the way past it."""
    near = hurdle.box.distance(way.points)
    is_river = hurdle.box.height_m == 0.0
    if near.min() >= (0.2 if is_river else BODY_RADIUS_M):
        return way, None
    why = f"{hurdle.name} cannot be jumped over"
    if hurdle.is_jumpable:
        leap = _plan_leap_over(engine, way, hurdle, speed_mps)
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


def _plan_leap_over(engine: Engine, way: GroundPath, hurdle: Hurdle, speed_mps: float) -> LeapGoal | str:
    """The leap over a hurdle on the way, or why there is none."""
    inside = np.flatnonzero(hurdle.box.distance(way.points) < 1e-3)
    if len(inside) == 0:
        return "it lies beside the way"
    entry = float(way.lengths[inside[0]])
    heading = float(way.heading_at(entry))
    if _total_bend(way, entry - STRAIGHT_BEFORE_M, entry + 2.0) > STRAIGHT_RAD:
        return "the way bends there"
    extent = hurdle.box.track_extent_from(way.point_at(entry) - 3.0 * heading_vector(heading), heading)
    assert extent is not None
    leap, reasons = find_leap(engine, extent, hurdle.box.height_m, MAX_RUN_UP_MPS2, speed_mps=speed_mps)
    if leap is None:
        return "; ".join(reasons)
    return LeapGoal(entry - 3.0 + leap.ahead_m, leap.length_m, leap.kind)


def _total_bend(way: GroundPath, first: float, last: float) -> float:
    s = np.linspace(max(first, 0.0), min(last, way.length_m), 40)
    headings = way.heading_at(s)
    return float(headings.max() - headings.min())


def _plan_jump_events(
    engine: Engine, sketch: Sketch, way: GroundPath, speed_mps: float
) -> list[tuple[float, LeapGoal]]:
    found: list[tuple[float, LeapGoal]] = []
    for event in sketch.events:
        if event.kind == "jump" and event.at is not None:
            along = way.nearest(event.at)
            found.append((along, _plan_jump_event(engine, event, along, speed_mps)))
    return found


def _plan_jump_event(engine: Engine, event: Event, along: float, speed_mps: float) -> LeapGoal:
    """A jump where the sketch wants one: for height from a stand, else a leap that goes with the speed."""
    if event.height_m is not None:
        return LeapGoal(along, event.length_m or STANDING_M, "standing", height_m=event.height_m)
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


def _order_goals(sketch: Sketch, way: GroundPath, leaps: Sequence[LeapGoal]) -> list[PathGoal]:
    """Leaps and stops in the order of the way, and the stand at its end."""
    goals: list[PathGoal] = [HaltGoal(way.length_m, REST_S)]
    goals += [_stop_goal(event, way) for event in sketch.events if event.kind == "stop"]
    for leap in leaps:
        if leap.kind == "standing":
            goals.append(HaltGoal(leap.along_m - 1e-3, 0.2))
        elif _total_bend(way, leap.along_m - STRAIGHT_BEFORE_M, leap.along_m + leap.length_m + 0.5) > STRAIGHT_RAD:
            x, z = way.point_at(leap.along_m)
            raise InputError(
                f"the way bends at the jump at ({x:.2f}, {z:.2f})", "Straighten it there over three metres"
            )
        goals.append(leap)
    return sorted(goals, key=lambda goal: goal.along_m)


def _stop_goal(event: Event, way: GroundPath) -> HaltGoal:
    assert event.at is not None
    return HaltGoal(way.nearest(event.at), STOP_S if event.seconds is None else event.seconds)


def _check_passes(sketch: Sketch, way: GroundPath) -> None:
    most = max(PASS_RADIUS_M, 0.5 * sketch.corridor_m)
    for event in sketch.events:
        if event.at is None:
            continue
        gap = float(np.linalg.norm(way.points - np.array(event.at), axis=1).min())
        if gap > most:
            raise InputError(
                f"the {event.kind} event at ({event.at[0]:.2f}, {event.at[1]:.2f}) is {gap:.2f} m from the path",
                "Lead the path there, or move the event",
            )
