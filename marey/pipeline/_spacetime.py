"""The continuous engine on a sketch: a straight walk, or one jump, found as a whole under the laws of motion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import InputError
from marey.pipeline._footing import StraightPath, plan_footsteps
from marey.world import Event, Sketch

if TYPE_CHECKING:
    from marey.motion import Motion
    from marey.spacetime import SpacetimeProblem, SpacetimeResult

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
        InputError: the sketch asks for more than that; the message says for what, and who could do it.
    """
    from marey.motion import transform_motion
    from marey.spacetime import optimize_reduced

    line = StraightPath.from_sketch(sketch)
    _check_supported(sketch, line)
    jumps = [event for event in sketch.events if event.kind == "jump"]
    problem = make_jump_problem(sketch, line, jumps[0]) if jumps else make_walk_problem(sketch, line)
    found = optimize_reduced(problem, time_limit_s=TIME_LIMIT_S if limit_s is None else limit_s, rate_hz=rate_hz)
    there = np.array([line.start[0], 0.0, line.start[1]])
    return transform_motion(found.motion, line.heading_rad, np.zeros(3), there), found


def _check_supported(sketch: Sketch, line: StraightPath) -> None:
    """Say what this engine cannot do."""
    kinds = {event.kind for event in sketch.events}
    for kind in ("pick", "place", "stop"):
        if kind in kinds:
            raise InputError(f"a {kind} event, and the space-time engine walks or jumps", "Take the graph engine")
    if sketch.key_poses:
        raise InputError("key poses, which the space-time engine takes from problems only", "Use marey optimize")
    if sum(event.kind == "jump" for event in sketch.events) > 1:
        raise InputError("several jumps, and the space-time engine solves one at a time", "Take another engine")
    if line.length_m > MAX_WALK_M:
        raise InputError(
            f"{line.length_m:.1f} m, and the space-time engine solves at most {MAX_WALK_M:.0f} m at a time",
            "Shorten the sketch, or take another engine",
        )
    line.check_straight(sketch)
    line.check_clear(sketch.world)


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
    flight = FLIGHT_S if event.height_m is None else 2.0 * float(np.sqrt(2.0 * event.height_m / 9.81))
    basis = "turn.safetensors" if abs(turn) > MAX_JUMP_TURN_DEG else "jump.safetensors"
    return build_jump_problem(line.length_m, turn, flight_s=round(flight, 3), basis=basis, name=sketch.name)


def make_walk_problem(sketch: Sketch, line: StraightPath) -> SpacetimeProblem:
    """The problem of a straight walk."""
    from marey.spacetime import build_walk_problem

    _facing_angle_deg("start", sketch.start.heading_deg, line)
    if abs(_facing_angle_deg("goal", sketch.goal.heading_deg, line)) > MAX_FACING_DEG:
        raise InputError("the goal faces off the way", "The space-time engine ends its walk straight ahead")
    places = plan_footsteps(line, sketch.world)
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
