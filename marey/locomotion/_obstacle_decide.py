"""Jump over it, or go round it: the decision, with its reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray
from marey.locomotion._obstacle_box import BODY_RADIUS_M, Extent, Obstacle
from marey.locomotion._obstacle_clear import Clearance, clearance
from marey.locomotion._runup import approach_speed
from marey.locomotion._steer import Way, direction
from marey.locomotion._steer_round import way_round

if TYPE_CHECKING:
    from marey.locomotion._engine import Engine

MEAN_ACCELERATION: Final = 0.5  # [m/s²] a harder run-up is not tried; [Glardon2005]_ §IV.1.2 prints no value
EDGE_M: Final = 0.01  # [m] between the end of the toe and the obstacle, and behind the heel
NUM_LENGTHS: Final = 9  # leaps of each kind that are measured
STEP_M: Final = 0.03  # [m] a leap that proves too short is lengthened by this
CHOICES: Final = ("clear", "jump", "round", "stop", "wait")


@dataclass(frozen=True, slots=True)
class LeapOver:
    """A leap that clears an obstacle."""

    kind: str
    length_m: float
    speed_mps: float  # at take-off
    ahead_m: float  # from the walker to where the joint of the take-off toe shall be
    clearance: Clearance


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What will be done about an obstacle, and why."""

    choice: str  # one of CHOICES
    obstacle: Obstacle
    reasons: tuple[str, ...] = ()  # why what was not chosen was not possible
    leap: LeapOver | None = None
    takeoff: tuple[float, float] | None = None  # (x, z) [m] of the joint of the take-off toe
    foot: str = "right"
    way: Way | None = None  # round the obstacle

    def __str__(self) -> str:
        what = self.choice if self.leap is None else f"{self.leap.kind} leap of {self.leap.length_m:.2f} m"
        return f"{what} ({'; '.join(self.reasons)})" if self.reasons else what


class LeapTable:
    """What the leaps of a character clear, by kind and height; measured when first asked for."""

    def __init__(self) -> None:
        self._tables: dict[tuple[object, ...], tuple[FloatArray, list[Clearance]]] = {}

    def shortest(self, engine: Engine, kind: str, length_m: float, height_m: float) -> tuple[float, Clearance] | None:
        """The shortest leap of a kind over so much ground, and what it clears; None if there is none."""
        lengths, cleared = self._table(engine, kind, height_m)
        spans = [one.length_m for one in cleared]
        enough = next((i for i, span in enumerate(spans) if span >= length_m and min(spans[i:]) >= length_m), None)
        if enough is None:
            return None
        low = float(lengths[max(enough - 1, 0)])
        for length in np.arange(low, float(lengths[enough]), STEP_M):
            found = self.measured(engine, kind, float(length), height_m)
            if found.length_m >= length_m:
                return float(length), found
        return float(lengths[enough]), cleared[enough]

    def longest(self, engine: Engine, kind: str, height_m: float) -> float:
        """The longest stretch that a leap of a kind clears [m]."""
        return max(one.length_m for one in self._table(engine, kind, height_m)[1])

    def measured(self, engine: Engine, kind: str, length_m: float, height_m: float) -> Clearance:
        """What one leap clears."""
        speed = engine.jumper.jumps.run_up(kind, length_m, engine.leg_length_m)[0]
        plan, _ = engine.jumper.preview(length_m, kind, speed)
        return clearance(plan, height_m)

    def _table(self, engine: Engine, kind: str, height_m: float) -> tuple[FloatArray, list[Clearance]]:
        leg = engine.leg_length_m
        key = (kind, round(leg, 4), round(height_m, 3), engine.parameters.weights.tobytes())
        if key not in self._tables:
            low, high = engine.jumper.jumps.limits_m(kind, leg)
            lengths = np.linspace(float(low), float(high), NUM_LENGTHS)
            even: list[float] = lengths.tolist()
            self._tables[key] = lengths, [self.measured(engine, kind, n, height_m) for n in even]
        return self._tables[key]


def decide(
    engine: Engine,
    obstacle: Obstacle,
    table: LeapTable | None = None,
    *,
    prefer: str | None = None,
    side: str | None = None,
    others: Sequence[Obstacle] = (),
    mean_acceleration: float = MEAN_ACCELERATION,
) -> Decision:
    """Choose what to do about an obstacle ahead ([Glardon2005]_ §IV.1.2).

    A leap is chosen when its length is known to the model, the feet pass over the obstacle's height, and the run-up
    needs no more than ``mean_acceleration`` on average. Else the way leads round.

    Args:
        engine: who comes towards it, straight.
        obstacle: what is ahead; an oblique one is taken as its box along the heading.
        table: what leaps clear, kept from call to call.
        prefer: "round" does not look for a leap.
        side: "left" or "right" to go round.
        others: further obstacles that the way round keeps away from.
        mean_acceleration: [m/s²].
    """
    extent = obstacle.seen_from(engine.position, engine.heading_rad)
    if extent.rear < 0.0 or extent.right > BODY_RADIUS_M or extent.left < -BODY_RADIUS_M:
        return Decision("clear", obstacle)
    leap, reasons = None, ["a way round was preferred"]
    if prefer != "round":
        leap, reasons = find_leap(engine, extent, obstacle.height_m, table or LeapTable(), mean_acceleration)
    if leap is not None:
        x, z = (float(v) for v in engine.position + leap.ahead_m * direction(engine.heading_rad))
        return Decision("jump", obstacle, tuple(reasons), leap, (x, z))
    return round_or_stop(engine, obstacle, reasons, side=side, others=others)


def round_or_stop(
    engine: Engine,
    obstacle: Obstacle,
    reasons: Sequence[str],
    *,
    side: str | None = None,
    others: Sequence[Obstacle] = (),
) -> Decision:
    """Go round an obstacle, or stop before it when both sides are closed."""
    way = way_round(obstacle, engine.position, engine.heading_rad, side=side, others=others)
    if way is not None:
        return Decision("round", obstacle, tuple(reasons), way=way)
    return Decision("stop", obstacle, (*reasons, "no way round is free"))


def find_leap(
    engine: Engine,
    extent: Extent,
    height_m: float,
    table: LeapTable,
    mean_acceleration: float = MEAN_ACCELERATION,
    *,
    speed_mps: float | None = None,
) -> tuple[LeapOver | None, list[str]]:
    """The leap of the present gait over an extent, or of a run; and why others were not taken.

    ``speed_mps`` is that of the approach, by default the present one.
    """
    speed, reasons = engine.parameters.speed if speed_mps is None else speed_mps, list[str]()
    for kind in ("run",) if engine.parameters.run >= 0.5 else ("walk", "run"):
        leap = _leap_of(engine, extent, height_m, table, kind, (speed, mean_acceleration))
        if isinstance(leap, LeapOver):
            return leap, reasons
        reasons.append(leap)
    return None, reasons


def _leap_of(
    engine: Engine, extent: Extent, height_m: float, table: LeapTable, kind: str, pace: tuple[float, float]
) -> LeapOver | str:
    need, leg, jumps = extent.length_m + 2.0 * EDGE_M, engine.leg_length_m, engine.jumper.jumps
    found = table.shortest(engine, kind, need, height_m)
    if found is None:
        return f"a {kind} leap clears {table.longest(engine, kind, height_m):.2f} m at most"
    length, cleared = found
    wanted, tolerance = jumps.run_up(kind, length, leg)
    speed, most = pace
    if speed > wanted + tolerance:  # too fast for it: a longer leap goes with the speed
        length = float(jumps.length_for(kind, speed - tolerance, leg))
        if length > jumps.limits_m(kind, leg)[1]:
            return f"too fast for a {kind} leap"
        wanted, cleared = speed - tolerance, table.measured(engine, kind, length, height_m)
        if cleared.length_m < need:
            return f"a {kind} leap at this speed clears {cleared.length_m:.2f} m"
    last = approach_speed(speed, wanted, tolerance)
    ahead = extent.front - EDGE_M - cleared.start_m - cleared.tip_m
    mean = (last - speed) * (last + speed) / (2.0 * ahead) if ahead > 0.0 else np.inf
    if mean > most:
        return f"a {kind} leap needs {last:.2f} m/s, which is {mean:.2f} m/s² up to there"
    return LeapOver(kind, length, last, ahead, cleared)
