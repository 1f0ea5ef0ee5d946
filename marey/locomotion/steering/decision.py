"""The decision to jump over an obstacle or to go round it, with its reasons.

A leap clears the ground where no part of a foot is lower than the obstacle is high.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from marey.locomotion.model.locomotion_model import LocomotionModel
from marey.locomotion.planning.ground_path import GroundPath, heading_vector
from marey.locomotion.planning.run_up import clamp_approach_speed
from marey.locomotion.steering.obstacles import BODY_RADIUS_M, Extent, Obstacle, find_detour
from marey.skeleton import foot_points, joint_frames

if TYPE_CHECKING:
    from marey.locomotion.engine.character import Engine
    from marey.locomotion.transitions.jump_plan import LeapPlan


NUM_FRAMES: Final = 40  # of a leap, 40 a second or more
SOLE_M: Final = 0.02  # [m] a foot lower than this counts as on the ground
SEARCH_MARGIN_M: Final = 0.3  # [m] of ground looked at before the take-off and behind the landing
LEFT_POINTS, RIGHT_POINTS = slice(0, 3), slice(3, 6)  # heel, ball, toe end
HEEL, TOE_END = 0, 2


class LeapClearance(NamedTuple):
    """The stretch of ground that a leap leaves free, along its direction."""

    start_m: float  # after the end of the take-off toe, where it is planted
    length_m: float
    beyond_m: float  # from the end of the stretch to the heel of the landed foot
    tip_m: float  # from the joint of the take-off toe to its end


def measure_clearance(plan: LeapPlan, height_m: float) -> LeapClearance:
    """Find the longest stretch between take-off and landing that the feet pass higher than ``height_m``.

    Args:
        plan: the leap; it may stand anywhere, and face anywhere.
        height_m: of the obstacle.
    """
    times = np.linspace(0.0, plan.duration_s, NUM_FRAMES)
    # Forward places and heights `(T, 6)` [m] of the sole's points, and forward places of the take-off toe joint
    frames = [plan.frame(float(t)) for t in times]
    roots, rotations = np.stack([f.root for f in frames]), np.stack([f.rotations for f in frames])
    points = foot_points(plan.skeleton)
    positions, R_world_joint = joint_frames(plan.skeleton, roots, rotations)
    soles = points.positions(positions, R_world_joint)
    forward = np.array([np.sin(plan.heading_rad), 0.0, np.cos(plan.heading_rad)])
    toe_joint = plan.skeleton.index("right_foot" if plan.side == 0 else "left_foot")
    ahead, up, joint = soles @ forward, soles[..., 1], positions[:, toe_joint] @ forward
    take_off, landing = (RIGHT_POINTS, LEFT_POINTS) if plan.side == 0 else (LEFT_POINTS, RIGHT_POINTS)
    stance = int(np.searchsorted(times, 0.5 * plan.times_s[0]))
    landed = min(int(np.searchsorted(times, 0.5 * (plan.times_s[1] + plan.times_s[2]))), NUM_FRAMES - 1)
    toe, heel = float(ahead[stance, take_off][TOE_END]), float(ahead[landed, landing][HEEL])
    # Places `(K,)` along the way over which a point of a foot is low; fast points leave no holes between frames
    is_low = np.minimum(up[:-1], up[1:]) < max(height_m, SOLE_M)
    before, after, u = ahead[:-1][is_low][:, None], ahead[1:][is_low][:, None], np.linspace(0.0, 1.0, 6)
    low = ((1.0 - u) * before + u * after).ravel()
    low = np.sort(
        np.concatenate([low[(low > toe - SEARCH_MARGIN_M) & (low < heel + SEARCH_MARGIN_M)], [toe, max(heel, toe)]])
    )
    widest = int(np.argmax(np.diff(low)))
    start, stop = float(low[widest]), float(low[widest + 1])
    return LeapClearance(start - toe, stop - start, heel - stop, toe - float(joint[stance]))


MEAN_ACCELERATION: Final = 0.5  # [m/s²] a harder run-up is not tried; [Glardon2005]_ §IV.1.2 prints no value
EDGE_M: Final = 0.015  # [m] between the end of the toe and the obstacle, and behind the heel; feet roll on their tips
MAX_LOW_FEET_M: Final = 0.03  # [m] a leap whose feet stay low for longer after the take-off is not taken
STEP_M: Final = 0.05  # [m] between the lengths of leaps that are tried
LEAP_S: Final = 0.6  # [s] from the last look at a moving obstacle to the landing
MAX_MEETING_TIME_S: Final = 20.0  # [s] an obstacle that is not met by then is taken where it will be then
MAX_CACHED_TABLES: Final = 4
MAX_CACHED_LEAPS: Final = 1000  # leaps whose measures are remembered


@dataclass(frozen=True, slots=True)
class ClearingLeap:
    """A leap that clears an obstacle."""

    kind: str
    length_m: float
    speed_mps: float  # at take-off
    ahead_m: float  # from the walker to the target of the take-off toe
    clearance: LeapClearance


@dataclass(frozen=True, slots=True, eq=False)
class ObstacleDecision:
    """Decision about an obstacle, with its reason."""

    choice: str  # "clear", "jump", "round", "stop" or "wait"
    obstacle: Obstacle
    reasons: tuple[str, ...] = ()  # why what was not chosen was not possible
    leap: ClearingLeap | None = None
    takeoff: tuple[float, float] | None = None  # (x, z) [m] of the joint of the take-off toe
    foot: str = "right"
    way: GroundPath | None = None  # round the obstacle

    def __str__(self) -> str:
        what = self.choice if self.leap is None else f"{self.leap.kind} leap of {self.leap.length_m:.2f} m"
        return f"{what} ({'; '.join(self.reasons)})" if self.reasons else what


class LeapTable:
    """Clearances of leaps by kind, length and height; each is computed once."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], LeapClearance] = {}

    def find_shortest(
        self, engine: Engine, kind: str, length_m: float, height_m: float
    ) -> tuple[float, LeapClearance] | None:
        """The shortest leap of a kind over a given length, and its clearance; None if there is none."""
        low, high = engine.jumper.jumps.limits_m(kind, engine.leg_length_m)
        if self.longest_clearance_m(engine, kind, height_m) < length_m:
            return None
        lengths = np.arange(max(low, min(length_m, high)), high, STEP_M)
        for length in (*lengths.round(2), high):
            found = self.measured(engine, kind, float(np.clip(length, low, high)), height_m)
            if found.length_m >= length_m and found.start_m <= MAX_LOW_FEET_M:
                return float(np.clip(length, low, high)), found
        return None

    def longest_clearance_m(self, engine: Engine, kind: str, height_m: float) -> float:
        """The stretch that the longest leap of a kind clears [m]."""
        high = float(engine.jumper.jumps.limits_m(kind, engine.leg_length_m)[1])
        return self.measured(engine, kind, high, height_m).length_m

    def measured(self, engine: Engine, kind: str, length_m: float, height_m: float) -> LeapClearance:
        """What one leap clears."""
        leg, weights = engine.leg_length_m, engine.parameters.weights
        key = (kind, round(length_m, 3), round(height_m, 3), round(leg, 4), weights.tobytes())
        if key not in self._kept:
            if len(self._kept) >= MAX_CACHED_LEAPS:
                self._kept.clear()
            speed = engine.jumper.jumps.run_up(kind, length_m, leg)[0]
            self._kept[key] = measure_clearance(engine.jumper.preview(length_m, kind, speed)[0], height_m)
        return self._kept[key]


_TABLES: list[tuple[LocomotionModel, LeapTable]] = []  # of the models used last


def get_leap_table(engine: Engine) -> LeapTable:
    """The table that all characters of a model share."""
    for model, table in _TABLES:
        if model is engine.model:
            return table
    _TABLES.insert(0, (engine.model, LeapTable()))
    del _TABLES[MAX_CACHED_TABLES:]
    return _TABLES[0][1]


def decide_obstacle(
    engine: Engine,
    obstacle: Obstacle,
    *,
    prefer: str | None = None,
    side: str | None = None,
    others: Sequence[Obstacle] = (),
    mean_acceleration: float = MEAN_ACCELERATION,
) -> ObstacleDecision:
    """Choose what to do about an obstacle ahead ([Glardon2005]_ §IV.1.2).

    A leap is chosen when its length is known to the model, the feet pass over the obstacle's height, and the run-up
    needs no more than ``mean_acceleration`` on average. Else the way leads round.

    Args:
        engine: character that walks straight towards it.
        obstacle: what is ahead; of an oblique one, the part on the walker's track is taken as a box along the heading.
        prefer: "round" does not look for a leap.
        side: "left" or "right" to go round.
        others: further obstacles that the way round keeps away from.
        mean_acceleration: [m/s²].
    """
    extent = obstacle.extent_from(engine.position, engine.heading_rad)
    if extent.rear < 0.0 or extent.right > BODY_RADIUS_M or extent.left < -BODY_RADIUS_M:
        return ObstacleDecision("clear", obstacle)
    leap, reasons = None, ["a way round was preferred"]
    if prefer != "round":
        along = float(np.array(obstacle.velocity) @ heading_vector(engine.heading_rad))
        extent = obstacle.track_extent_from(engine.position, engine.heading_rad) or extent
        grown = extent._replace(rear=extent.rear + LEAP_S * max(along, 0.0))  # it may run away under the jumper
        leap, reasons = find_leap(engine, grown, obstacle.height_m, mean_acceleration)
    if leap is not None:
        x, z = (float(v) for v in engine.position + leap.ahead_m * heading_vector(engine.heading_rad))
        return ObstacleDecision("jump", obstacle, tuple(reasons), leap, (x, z))
    return decide_detour_or_stop(engine, obstacle, reasons, side=side, others=others)


def decide_detour_or_stop(
    engine: Engine,
    obstacle: Obstacle,
    reasons: Sequence[str],
    *,
    side: str | None = None,
    others: Sequence[Obstacle] = (),
) -> ObstacleDecision:
    """Go round an obstacle, or stop before it when both sides are closed."""
    met = obstacle
    if obstacle.is_moving:
        # Where the obstacle will be when the walker is beside it
        seen = obstacle.extent_from(engine.position, engine.heading_rad)
        closing = engine.parameters.speed - float(np.array(obstacle.velocity) @ heading_vector(engine.heading_rad))
        beside_s = max(0.5 * (seen.front + seen.rear), 0.0) / max(closing, 0.2)
        met = obstacle.after(min(beside_s, MAX_MEETING_TIME_S))
    way = find_detour(met, engine.position, engine.heading_rad, side=side, others=others)
    if way is not None:
        return ObstacleDecision("round", obstacle, tuple(reasons), way=way)
    return ObstacleDecision("stop", obstacle, (*reasons, "no way round is free"))


def find_leap(
    engine: Engine,
    extent: Extent,
    height_m: float,
    mean_acceleration: float = MEAN_ACCELERATION,
    *,
    speed_mps: float | None = None,
) -> tuple[ClearingLeap | None, list[str]]:
    """The leap of the present gait over an extent, or of a run; and why others were not taken.

    ``speed_mps`` is that of the approach, by default the present one.
    """
    speed, reasons = engine.parameters.speed if speed_mps is None else speed_mps, list[str]()
    table, leg, jumps = get_leap_table(engine), engine.leg_length_m, engine.jumper.jumps
    need = extent.length_m + 2.0 * EDGE_M
    for kind in ("run",) if engine.parameters.run >= 0.5 else ("walk", "run"):
        found = table.find_shortest(engine, kind, need, height_m)
        if found is None:
            longest = table.longest_clearance_m(engine, kind, height_m)
            why = "keeps its feet low too long" if longest >= need else f"clears {longest:.2f} m at most"
            reasons.append(f"a {kind} leap {why}")
            continue
        length, cleared = found
        wanted, tolerance = jumps.run_up(kind, length, leg)
        if speed > wanted + tolerance:
            # Too fast for it: a longer leap goes with the speed.
            length = float(jumps.length_for(kind, speed - tolerance, leg))
            if length > jumps.limits_m(kind, leg)[1]:
                reasons.append(f"too fast for a {kind} leap")
                continue
            wanted, cleared = speed - tolerance, table.measured(engine, kind, length, height_m)
            if cleared.length_m < need:
                reasons.append(f"a {kind} leap at this speed clears {cleared.length_m:.2f} m")
                continue
        # The mean acceleration up to the take-off, (s2^2 - s1^2) / (2 d)
        last = clamp_approach_speed(speed, wanted, tolerance)
        ahead = extent.front - EDGE_M - cleared.start_m - cleared.tip_m
        mean = (last - speed) * (last + speed) / (2.0 * ahead) if ahead > 0.0 else np.inf
        if mean <= mean_acceleration:
            return ClearingLeap(kind, length, last, ahead, cleared), reasons
        reasons.append(f"a {kind} leap needs {last:.2f} m/s, which is {mean:.2f} m/s² up to there")
    return None, reasons
