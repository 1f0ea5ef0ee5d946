"""A sketch as the search sees it: constraints in order, jumps over rivers put in, and what is impossible at sight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.graph.arrays import (
    JUMP,
    PICK,
    PICK_LEFT,
    PICK_RIGHT,
    PICKS,
    REACH,
    STEP,
    SearchGraph,
    SketchConstraint,
)
from marey.graph.database.settings import AS_CAPTURED, SearchSettings
from marey.graph.search.ground import GroundGrid
from marey.graph.search.heuristics import find_meeting_edges
from marey.world import Box, Event, River, Sketch, box_distance, segment_distance

if TYPE_CHECKING:
    from marey.graph.construction.event_tables import EventTable

PICK_TOL_M: Final = 0.05
HAND_MASKS: Final = {None: PICK_LEFT | PICK_RIGHT, "left": PICK_LEFT, "right": PICK_RIGHT}
TURN_WAY_M: Final = 2.0  # [m] of a path within which its turning is summed: about three steps
TURN_STEP_M: Final = 0.1  # [m] from place to place where a path is looked at
MAX_GOALS: Final = 31  # constraints that fit into the key of a search state


@dataclass(frozen=True, slots=True)
class SearchFailure:
    """Reason why there is no path, and advice."""

    code: str
    advice: str


def compile_sketch(
    sketch: Sketch, *, pick_tolerance_m: float | None = None, settings: SearchSettings = AS_CAPTURED
) -> tuple[SketchConstraint, ...]:
    """Constraints of a sketch in order; the last is the goal ([Safonova2006]_ F13).

    A river that the path crosses gets a step from bank to bank, unless stones lie in it or the sketch has a jump there:
    whether it is a step or a jump is left to the search.
    """
    tolerance = PICK_TOL_M if pick_tolerance_m is None else pick_tolerance_m
    constraints = [_make_constraint(sketch, event, tolerance, settings) for event in sketch.events]
    goal = sketch.goal
    heading = np.nan if goal.heading_deg is None else float(np.deg2rad(goal.heading_deg))
    place = (goal.position[0], 0.0, goal.position[1])
    constraints.append(SketchConstraint(REACH, place, goal.tolerance_m, heading, is_stop=True))
    # Put steps over rivers between the constraints where the path meets them; jumps into rivers cross them
    found: list[SketchConstraint] = []
    at = np.array(sketch.start.position)
    for constraint in constraints:
        # The path drawn from one constraint to the next; straight if none is drawn
        leg = np.array([at, (constraint.place[0], constraint.place[2])])
        if sketch.path is not None:
            a, b = sketch.path.nearest(leg[0])[0], sketch.path.nearest(leg[1])[0]
            leg = sketch.path.point_at(np.linspace(a, b, max(2, int(np.ceil(abs(b - a) / 0.05)) + 1)))
        crossed = [(s, river, place) for river in sketch.world.rivers for s, place in _find_crossings(leg, river)]
        for _, river, place in sorted(crossed, key=lambda c: c[0]):
            if _must_cross(sketch, river, place, [*found, constraint], settings):
                there = (float(place[0]), 0.0, float(place[1]))
                near, span = (
                    settings.jump_tolerance_m + 0.5 * sketch.corridor_m,
                    river.width_m + 2.0 * settings.foot_radius_m,
                )
                found.append(
                    SketchConstraint(STEP, there, near, _crossing_direction(river, leg), length_m=span, name="river")
                )
        # A jump at a river crosses it
        for river in sketch.world.rivers if constraint.kind == JUMP else ():
            away = segment_distance(
                river.start, river.end, np.array(constraint.place[0]), np.array(constraint.place[2])
            )
            if away < 0.5 * river.width_m + settings.foot_radius_m:
                constraint = replace(constraint, heading_rad=_crossing_direction(river, leg))
                break
        found.append(constraint)
        at = leg[-1]
    return tuple(found)


def leap_low_boxes(sketch: Sketch, settings: SearchSettings) -> Sketch:
    """The sketch with low boxes on its path as strips of ground on which no foot lands, each with a jump over it.

    A strip is wider than its box by one and a half times its height on either side: feet rise and come down steeply.
    """
    if sketch.path is None:
        return sketch
    rows = [(sketch.path.nearest(event.at)[0], event) for event in sketch.events if event.at is not None]
    rivers, boxes, line = list(sketch.world.rivers), list[Box](), sketch.path.sample(0.05)
    for box in sketch.world.boxes:
        away = box_distance(box.position, box.size, box.heading_deg, *line.T)
        if box.height_m > settings.leap_height_m or away.min() > 0.0 or len(rows) < len(sketch.events):
            boxes.append(box)
            continue
        # Along the longer side
        a, longer = np.deg2rad(box.heading_deg), int(box.size[1] > box.size[0])
        along = np.array([(np.cos(a), -np.sin(a)), (np.sin(a), np.cos(a))])[longer] * 0.5 * box.size[longer]
        (x0, z0), (x1, z1) = (np.array(box.position) - along).tolist(), (np.array(box.position) + along).tolist()
        rivers.append(River((x0, z0), (x1, z1), box.size[1 - longer] + 3.0 * box.height_m))
        s, place = sketch.path.nearest(box.position)[0], line[int(np.argmin(away))]
        rows.append((s, Event("jump", at=(float(place[0]), float(place[1])), length_m=rivers[-1].width_m)))
    if len(boxes) == len(sketch.world.boxes):
        return sketch
    events = tuple(event for _, event in sorted(rows, key=lambda row: row[0]))
    return replace(sketch, events=events, world=replace(sketch.world, rivers=tuple(rivers), boxes=tuple(boxes)))


def _make_constraint(
    sketch: Sketch, event: Event, pick_tolerance_m: float, settings: SearchSettings
) -> SketchConstraint:
    if event.kind in ("pick", "place"):
        at = sketch.world.object(event.object or "").position if event.kind == "pick" else event.to
        assert at is not None
        pin = (np.nan, np.nan) if event.at is None else event.at
        name, hands = f"{event.kind} '{event.object}'", HAND_MASKS[event.hand]
        pick_tolerance_m = pick_tolerance_m if event.tolerance_m is None else event.tolerance_m
        near = max(pick_tolerance_m, settings.arm_m)
        slack = settings.slack_m
        return SketchConstraint(
            PICK, at, near, hands=hands, pin_tolerance_m=pick_tolerance_m, slack_m=slack, pin=pin, name=name
        )
    assert event.at is not None
    place = (event.at[0], 0.0, event.at[1])
    if event.kind == "custom":
        near = sketch.goal.tolerance_m if event.tolerance_m is None else event.tolerance_m
        row = [other for other in sketch.events if other.kind == "custom"].index(event)
        return SketchConstraint(REACH, place, near, mark=row, name=event.name or "")
    if event.kind == "jump":
        length, rise = event.length_m or 0.0, event.height_m or 0.0
        near = settings.jump_tolerance_m if event.tolerance_m is None else event.tolerance_m
        return SketchConstraint(JUMP, place, near, length_m=length, rise_m=rise, name="jump")
    stop = event.kind == "stop"
    hold = event.seconds or 0.0
    near = sketch.goal.tolerance_m if event.tolerance_m is None else event.tolerance_m
    return SketchConstraint(REACH, place, near, is_stop=stop, hold_s=hold, name=event.kind)


def mark_custom_states(sketch: Sketch, tables: Mapping[str, EventTable], count: int) -> BoolArray | SearchFailure:
    """States ``(M, N)`` at which the custom events of a sketch begin, with the numbers asked for."""
    events = [(n, event) for n, event in enumerate(sketch.events) if event.kind == "custom"]
    marks = np.zeros((len(events), count), dtype=bool)
    for (number, event), row in zip(events, marks, strict=True):
        table = tables.get(event.name or "")
        if table is None:
            known = ", ".join(sorted(tables))
            return SearchFailure(
                f"NO_BEHAVIOUR_PATH({number})",
                f"The graph has no events '{event.name}', only {known}: register_event before it is built",
            )
        off = np.zeros(table.numbers.shape) if event.numbers is None else np.abs(table.numbers - event.numbers)
        row[table.states[(off <= 0.5 * table.cell_m).all(axis=1)]] = True
        if not row.any():
            nearest = table.numbers[np.argmin(off.sum(axis=1))] if len(off) else None
            has = "no clip does it" if nearest is None else f"the nearest is {nearest[0]:.2f}, {nearest[1]:.2f}"
            return SearchFailure(
                f"PARAM_OUT_OF_RANGE({number})",
                f"{event.name} is asked for with {' and '.join(table.axes)} {event.numbers}; {has}: add clips",
            )
    return marks


def _crossing_direction(river: River, leg: FloatArray) -> float:
    """Direction [rad] across a river, to the side to which the path leads."""
    u, ahead = np.array(river.end) - np.array(river.start), leg[-1] - leg[0]
    normal = np.array([u[1], -u[0]])
    normal = normal if normal @ ahead >= 0.0 else -normal
    return float(np.arctan2(normal[0], normal[1]))


def _find_crossings(leg: FloatArray, river: River) -> list[tuple[float, FloatArray]]:
    """Arc lengths and places at which a path changes from one side of the middle of a river to the other."""
    p, q = np.array(river.start), np.array(river.end)
    # Side of each sample; one that is on the line has a side too, so that no crossing is lost to rounding or met twice
    side = (leg - p) @ np.array([q[1] - p[1], p[0] - q[0]])
    change = np.flatnonzero((side[:-1] >= 0.0) != (side[1:] >= 0.0))
    share = side[change] / (side[change] - side[change + 1])
    d = np.diff(leg, axis=0)
    places = leg[change] + share[:, None] * d[change]
    within = (places - p) @ (q - p) / ((q - p) @ (q - p))
    lengths = np.linalg.norm(d, axis=1)
    along = np.concatenate([[0.0], np.cumsum(lengths)])[change] + share * lengths[change]
    return [(float(s), place) for s, place, u in zip(along, places, within, strict=True) if 0.0 <= u <= 1.0]


def _must_cross(
    sketch: Sketch, river: River, place: FloatArray, others: list[SketchConstraint], settings: SearchSettings
) -> bool:
    """Whether a path has to cross a river in one step: no stones, no jump of its own, no detour."""
    reach = 0.5 * river.width_m + settings.foot_radius_m
    for stone in sketch.world.stones:
        x, z = np.array(stone.position)
        if segment_distance(river.start, river.end, x, z) < reach:
            return False
    own = any(w.kind == JUMP and np.hypot(w.place[0] - place[0], w.place[2] - place[1]) < reach for w in others)
    # An end of the river may be so near that the search walks round it
    nearest = min(np.linalg.norm(place - np.array(end)) for end in (river.start, river.end))
    can_go_round = sketch.path is None and bool(nearest < 1.0)
    return not own and not can_go_round


def check_ground(sketch: Sketch, ground: GroundGrid, constraints: tuple[SketchConstraint, ...]) -> SearchFailure | None:
    """Whether start and goal are free."""
    if len(constraints) > MAX_GOALS:
        return SearchFailure(
            "TOO_MANY_CONSTRAINTS", f"Ask for at most {MAX_GOALS - 1} events, or cut the sketch in two"
        )
    if not ground.free[ground.cell(sketch.start.position)]:
        return SearchFailure(
            "START_IN_COLLISION", "Move the start off walls and into the corridor, or widen the corridor"
        )
    place = constraints[-1].place
    if constraints[-1].kind != REACH:  # the root need not be where a hand is
        return None
    # Some free cell within the tolerance of the goal
    near = ground.disk((place[0], place[2]), max(constraints[-1].tolerance_m - 0.05, 0.0))
    near[ground.cell((place[0], place[2]))] = True
    if not (ground.free & near).any():
        return SearchFailure(
            "GOAL_IN_COLLISION", "Move the goal off walls and into the corridor, or widen the corridor"
        )
    return None


def check_parameters(
    roads: SearchGraph, constraints: tuple[SketchConstraint, ...], settings: SearchSettings = AS_CAPTURED
) -> SearchFailure | None:
    """Whether the graph has, for every constraint, an event that could meet it."""
    for layer, constraint in enumerate(constraints):
        if constraint.kind == REACH or find_meeting_edges(roads, constraint).any():
            continue
        loose = replace(constraint, tolerance_m=constraint.tolerance_m + 1e9, length_m=0.0, rise_m=0.0)
        never = constraint.kind == STEP and not (roads.flight[:, 0] > 0.0).any()
        if never or not find_meeting_edges(roads, loose).any():
            return SearchFailure(
                f"NO_BEHAVIOUR_PATH({layer})", f"No clip does this ({constraint.name}): add clips that do"
            )
        # What the clips can do, nearest to what is asked
        if constraint.kind == PICK:
            heights = roads.hand[np.isin(roads.event, PICKS), 1]
            nearest = float(heights[np.argmin(np.abs(heights - constraint.place[1]))])
            advice = (
                f"{constraint.name} is at a height of {constraint.place[1]:.2f} m; "
                f"the clips reach {nearest:.2f} m at the nearest: "
                "move it there, raise tolerance_m of the event, or add clips"
            )
        else:
            flights = roads.flight[roads.flight[:, 0] > 0.0]
            if constraint.kind == STEP:
                longest = (
                    float(np.linalg.norm(roads.delta[:, :2], axis=1).max(initial=0.0)) - 2.0 * settings.foot_radius_m
                )
                advice = (
                    f"the clips jump over {longest:.2f} m of water at most: add clips, narrow the river, or add stones"
                )
            else:
                advice = (
                    f"{constraint.name} asks for {constraint.length_m:.2f} m and a rise of {constraint.rise_m:.2f} m; "
                    f"the clips jump {flights[:, 0].max():.2f} m and rise {flights[:, 1].max():.2f} m at most: "
                    "add clips, or request less"
                )
        return SearchFailure(f"PARAM_OUT_OF_RANGE({layer})", advice)
    return None


def find_missing_turn(roads: SearchGraph, sketch: Sketch, place: Sequence[float]) -> str:
    """Turn of the path drawn, before a place (x, z), that no steps of a graph can follow; empty if there is none."""
    step = (np.isfinite(roads.feet[roads.source][:, :, 0]).sum(axis=1) == 1) & (roads.flight[:, 0] <= 0.0)
    if sketch.path is None or not step.any():
        return ""
    num_steps = TURN_WAY_M / max(float(np.median(np.linalg.norm(roads.delta[step, :2], axis=1))), 1e-9)
    end = sketch.path.nearest(place)[0] + TURN_STEP_M
    heading = np.unwrap(sketch.path.heading_at(np.arange(0.0, end, TURN_STEP_M)))
    lag = min(round(TURN_WAY_M / TURN_STEP_M), len(heading) - 1)
    # Yaw is positive towards +X, which is the left of one who faces +Z
    for side, sign in (("left", 1.0), ("right", -1.0)):
        asked = float(np.degrees(sign * (heading[lag:] - heading[: len(heading) - lag])).max(initial=0.0))
        most = float(np.degrees(sign * roads.delta[step, 2]).max(initial=0.0))
        if asked > most * num_steps:
            return (
                f"the path turns {side} by {asked:.0f}° within {TURN_WAY_M:g} m, and no step of this graph turns "
                f"{side} by more than {most:.0f}°: add clips that turn, or draw a gentler path"
            )
    return ""
