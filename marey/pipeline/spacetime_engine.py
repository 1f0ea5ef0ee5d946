"""The continuous engine on a sketch: a straight walk, or one jump, found as a whole under the laws of motion.

The feet of a straight walk go in even steps, but none into water.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.pipeline.measures import distance_into_water
from marey.world import Event, Sketch, World, box_distance, segment_distance

if TYPE_CHECKING:
    from marey.motion import Motion
    from marey.spacetime import SpacetimeProblem, SpacetimeResult


STEP_M: Final = 0.67  # [m] of an unhurried walk
STEP_RANGE_M: Final = (0.45, 1.0)  # shortest and longest
CELL_M: Final = 0.02  # [m] between places that are looked at
FOOT_M: Final = 0.14  # [m] from the middle of a foot to its ends, with a margin
SOLE_SAMPLES: Final = 7  # along a foot; a ditch between two is too narrow to see
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
            raise InputError("start and goal are the same place", "The space-time engine needs a path between them")
        return cls(start, length, float(np.arctan2(away[0], away[1])))

    def at(self, along_m: FloatArray | float, aside_m: float = 0.0) -> FloatArray:
        """Places ``(..., 2)`` [m] so far along and to the left."""
        s, c = np.sin(self.heading_rad), np.cos(self.heading_rad)
        along = np.asarray(along_m, dtype=np.float64)
        return self.start + along[..., None] * np.array([s, c]) + aside_m * np.array([c, -s])


def plan_footsteps(line: StraightPath, world: World) -> FloatArray:
    r"""Places ``(N + 1,)`` [m] along the line of an even number N of steps, from 0 to its length.

    Dynamic programming over places that are dry: the steps :math:`s_i` make :math:`\sum_i (s_i - \bar s)^2` least.

    Raises:
        InputError: no steps that a walk could make keep out of the water.
    """
    cells = np.append(np.arange(0.0, line.length_m - 0.5 * CELL_M, CELL_M), line.length_m)
    # Whether a left or right foot may stand so far along ``(2, C)``: all on land, or all on one stone
    dry = np.zeros((2, len(cells)), dtype=bool)
    for foot, side in enumerate((1.0, -1.0)):
        soles = np.linspace(-FOOT_M, FOOT_M, SOLE_SAMPLES)
        feet = np.stack([line.at(cells + at, side * aside) for at in soles for aside in (0.0, FOOT_OFFSET_M)], axis=1)
        dry[foot] = (distance_into_water(World(rivers=world.rivers), feet) == 0.0).all(axis=1)
        for stone in world.stones:
            dry[foot] |= np.linalg.norm(feet - np.array(stone.position), axis=-1).max(axis=1) <= stone.radius_m
    # An even number of steps near that of an unhurried walk; of those that can be made, the most usual
    middle = max(1, round(0.5 * line.length_m / STEP_M))
    tried = [_spread_steps(cells, dry, 2 * n) for n in (middle, middle + 1, middle - 1) if n > 0]
    found = [places for places in tried if places is not None]
    if not found:
        raise InputError(
            f"no steps of {STEP_RANGE_M[0]} to {STEP_RANGE_M[1]} m keep out of the water",
            "Narrow the river, add stones, jump it from stand to stand, or take another engine",
        )
    return min(found, key=lambda places: float(np.square(np.diff(places) - STEP_M).sum()))


def _spread_steps(cells: FloatArray, dry: BoolArray, count: int) -> FloatArray | None:
    """The most even of all ways to make so many steps; left feet have even numbers."""
    # Price of a step between any two cells
    apart = cells[None, :] - cells[:, None]
    price = np.where(
        (apart >= STEP_RANGE_M[0]) & (apart <= STEP_RANGE_M[1]), np.square(apart - cells[-1] / count), np.inf
    )
    # Least cost to stand in each cell after each step, and the cell before it
    cost = np.where(np.arange(len(cells)) == 0, 0.0, np.inf)
    before: list[FloatArray] = []
    for step in range(1, count + 1):
        total = cost[:, None] + price
        before.append(total.argmin(axis=0))
        cost = np.where(dry[step % 2], total.min(axis=0), np.inf)
    if not np.isfinite(cost[-1]):
        return None
    # Trace the steps back from the end
    at = [len(cells) - 1]
    for row in reversed(before):
        at.append(int(row[at[-1]]))
    return cells[at[::-1]]


STEP_S: Final = 0.54  # [s] of a step at the usual speed, 0.40 of it on one foot
SINGLE_SUPPORT_FRACTION: Final = 0.74  # [-] part of a step on one foot
SPEEDS_MPS: Final = (0.9, 1.6)  # that the shipped walk was fitted to
MAX_WALK_M: Final = 10.0  # [m] the time to solve grows with the way; this takes about ten seconds
JUMP_RANGE_M: Final = (0.3, 2.0)
RISE_RANGE_M: Final = (0.1, 0.45)  # [m] of the centre of mass
FLIGHT_S: Final = 0.44
MAX_JUMP_TURN_DEG: Final = 30.0  # jumps that turn more are made of hops that turn
MAX_FACING_DEG: Final = 20.0  # a walk begins and ends along its way, within this
TIME_LIMIT_S: Final = 120.0  # [s] to solve


def solve_sketch(sketch: Sketch, *, rate_hz: float, limit_s: float | None = None) -> tuple[Motion, SpacetimeResult]:
    """The motion of a short sketch by optimisation in the space of a behaviour ([Safonova2006]_ ch. 3).

    A sketch without a jump is walked, straight, from the middle of one stance to the middle of another: walking already
    at its start, and still at its goal. Steps are as even as rivers and stones let them be. A sketch with one jump is a
    jump with both feet from standing at the start to standing at the goal.

    Raises:
        InputError: the sketch contains other requests; the message names them and a suitable engine.
    """
    from marey.motion import transform_motion
    from marey.spacetime import optimize_reduced

    line = StraightPath.from_sketch(sketch)
    check_sketch(sketch, line)
    jumps = [event for event in sketch.events if event.kind == "jump"]
    problem = make_jump_problem(sketch, line, jumps[0]) if jumps else make_walk_problem(sketch, line)
    found = optimize_reduced(problem, time_limit_s=TIME_LIMIT_S if limit_s is None else limit_s, rate_hz=rate_hz)
    # Problems begin at the origin and go along +Z
    there = np.array([line.start[0], 0.0, line.start[1]])
    return transform_motion(found.motion, line.heading_rad, np.zeros(3), there), found


def check_sketch(sketch: Sketch, line: StraightPath) -> None:
    """Say what this engine cannot do.

    Raises:
        InputError: the sketch asks for something else than a straight walk or one jump over free ground.
    """
    for kind in ("pick", "place", "stop"):
        if any(event.kind == kind for event in sketch.events):
            raise InputError(f"a {kind} event, and the space-time engine walks or jumps", "Take the graph engine")
    if sum(event.kind == "jump" for event in sketch.events) > 1:
        raise InputError("several jumps, and the space-time engine solves one at a time", "Take another engine")
    if line.length_m > MAX_WALK_M:
        raise InputError(
            f"{line.length_m:.1f} m, and the space-time engine solves at most {MAX_WALK_M:.0f} m at a time",
            "Shorten the sketch, or take another engine",
        )
    # The path and places to pass are on the line, as far as the corridor allows; a root sways by 8 cm
    allowed = (0.5 * sketch.corridor_m if sketch.path is not None else CLEARANCE_M) - 0.08
    asked = [event.at for event in sketch.events if event.at is not None]
    drawn: list[list[float]] = [] if sketch.path is None else sketch.path.sample(0.1).tolist()
    x, z = np.array([*asked, *drawn], dtype=np.float64).reshape(-1, 2).T
    off = float(segment_distance(line.start, line.at(line.length_m), x, z).max(initial=0.0))
    if off > allowed:
        raise InputError(
            f"the path deviates {off:.2f} m from a straight line, but the space-time engine walks straight",
            "Straighten it, widen the corridor, or take another engine",
        )
    # Nothing solid stands near the line
    x, z = line.at(np.linspace(0.0, line.length_m, max(2, int(line.length_m / 0.05)))).T
    near = [
        (f"wall {i + 1}", segment_distance(wall.start, wall.end, x, z) - 0.5 * wall.thickness_m)
        for i, wall in enumerate(sketch.world.walls)
    ]
    for kind, boxes in (("table", sketch.world.tables), ("box", sketch.world.boxes)):
        for i, box in enumerate(boxes):
            near.append((f"{kind} {i + 1}", box_distance(box.position, box.size, box.heading_deg, x, z)))
    for name, away in near:
        if away.min() < CLEARANCE_M:
            what = f"{name} is in the way, and the space-time engine goes straight"
            raise InputError(what, "Move it, or take another engine")


def _facing_angle_deg(what: str, given_deg: float | None, line: StraightPath) -> float:
    """Angle [deg] of a stand against the way, to the left; 0 where any will do."""
    if given_deg is None:
        return 0.0
    off = (given_deg - np.degrees(line.heading_rad) + 180.0) % 360.0 - 180.0
    if what == "start" and abs(off) > MAX_FACING_DEG:
        raise InputError(f"the {what} faces {off:.0f}° off the way", "The space-time engine sets out straight ahead")
    return float(off)


def make_jump_problem(sketch: Sketch, line: StraightPath, event: Event) -> SpacetimeProblem:
    """The problem of a jump from the start to the goal."""
    from marey.spacetime import build_jump_problem

    off = line.length_m - (line.length_m if event.length_m is None else event.length_m)
    if abs(off) > sketch.goal.tolerance_m:
        raise InputError(
            f"a jump of {event.length_m:.2f} m between a start and a goal {line.length_m:.2f} m apart: the space-time "
            "engine jumps from stand to stand",
            "Put them where the jump begins and ends, or take another engine",
        )
    low, high = JUMP_RANGE_M
    if not low <= line.length_m <= high:
        raise InputError(f"a jump of {line.length_m:.2f} m", f"The space-time engine jumps {low:.1f} to {high:.1f} m")
    if event.height_m is not None and not RISE_RANGE_M[0] <= event.height_m <= RISE_RANGE_M[1]:
        raise InputError(
            f"a rise of {event.height_m:.2f} m", f"Ask for {RISE_RANGE_M[0]:.1f} to {RISE_RANGE_M[1]:.2f} m"
        )
    _facing_angle_deg("start", sketch.start.heading_deg, line)
    turn = _facing_angle_deg("goal", sketch.goal.heading_deg, line)
    # The time in the air of a centre of mass that rises by h and falls as far, T = 2 sqrt(2 h / g)
    flight = FLIGHT_S if event.height_m is None else 2.0 * float(np.sqrt(2.0 * event.height_m / 9.81))
    basis = "turn.safetensors" if abs(turn) > MAX_JUMP_TURN_DEG else "jump.safetensors"
    return build_jump_problem(line.length_m, turn, flight_s=round(flight, 3), basis=basis, name=sketch.name)


def make_walk_problem(sketch: Sketch, line: StraightPath) -> SpacetimeProblem:
    """The problem of a straight walk."""
    from marey.spacetime import build_walk_problem

    _facing_angle_deg("start", sketch.start.heading_deg, line)
    if abs(_facing_angle_deg("goal", sketch.goal.heading_deg, line)) > MAX_FACING_DEG:
        raise InputError("the goal faces away from the path", "The space-time engine ends its walk straight ahead")
    places = plan_footsteps(line, sketch.world)
    # The time of a step follows from the speed asked for
    steps = np.diff(places)
    step_s = STEP_S
    if sketch.speed_mps is not None:
        low, high = SPEEDS_MPS
        if not low <= sketch.speed_mps <= high:
            raise InputError(
                f"a walk at {sketch.speed_mps:.2f} m/s", f"The space-time engine walks {low} to {high} m/s"
            )
        step_s = float(steps.mean()) / sketch.speed_mps
    return build_walk_problem(
        [float(step) for step in steps],
        single_s=SINGLE_SUPPORT_FRACTION * step_s,
        double_s=(1.0 - SINGLE_SUPPORT_FRACTION) * step_s,
        name=sketch.name,
    )
