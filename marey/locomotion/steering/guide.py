"""A guide along a path: cruises, stops with the toes on a line, and asks for jumps.

The guide plans anew at every heel strike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.locomotion.planning.ground_path import (
    FAST_CURVES,
    GroundPath,
    curvature_speed_limit,
    heading_vector,
    straight_path,
)
from marey.locomotion.planning.speed_profile import FrequencyTable, SpeedProfile, plan_profile
from marey.locomotion.steering.path_schedule import (
    CRUISE_ACCELERATION,
    PathSchedule,
    compute_turn_rates,
    plan_cruise,
    schedule_from_profile,
)
from marey.skeleton import Pose, foot_points

if TYPE_CHECKING:
    from marey.locomotion.engine.character import Engine


PLAN_S: Final = 5.0  # [s] how far ahead parameters are planned
MAX_PLAN_AGE_S: Final = 1.0  # [s] without a heel strike, after which the plan is renewed
ACCELERATION_PER_SPEED: Final = 0.4  # [1/s] of the speed: a run gathers speed faster than a walk
MAX_BRAKING_FACTOR: Final = 1.3  # times the duration of an even braking: a longer stop ends in tiny steps
PREFERRED_MPS2: Final = 0.7  # [m/s²] a profile harder than this waits for a better one
LOOK_AHEAD_M: Final = 1.6  # [m] beside what an easy stop takes: from here on profiles are looked for
NEAR_GOAL_M: Final = 1.5  # [m] from a goal any profile is taken
RUN_UP_M: Final = 8.0  # [m] before a jump the run-up is planned
STRAIGHT_APPROACH_RAD: Final = 0.03
SLOW_TURN: Final = 0.3  # [rad/s] a run-up that is handed over may still turn, and dies out straight
TOO_LATE_M: Final = 0.4  # [m] before a take-off that was not planned
STILL_MPS: Final = 1e-6
DEFAULT_WALK_MPS: Final = 1.1  # of a standing character that gets a path


@dataclass(frozen=True, slots=True)
class HaltGoal:
    """Come to a stand at an arc length, and wait."""

    along_m: float
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class LeapGoal:
    """Take off at an arc length, with the toe there."""

    along_m: float
    length_m: float
    kind: str = "walk"
    height_m: float | None = None


PathGoal = HaltGoal | LeapGoal


class PathGuide:
    """Walks an engine along a way; hand it to :meth:`Engine.add_driver`.

    Args:
        way: what is walked.
        goals: what to do on it, in order.
        speed_mps: requested.
        run: 0 walks, 1 runs.
        along_m: where the walker is on the way.
        slowest_mps: curves are not taken slower than this.
        curves: how hard curves may push [m/s²], and the fastest turn [rad/s].
        stops: how far [m] before what an easy stop takes it is planned, and how many times as long as an even braking
            it may last. Larger ones leave more steps to choose from, smaller ones are brisker.
    """

    def __init__(
        self,
        way: GroundPath,
        goals: Sequence[PathGoal] = (),
        *,
        speed_mps: float,
        run: float = 0.0,
        along_m: float = 0.0,
        slowest_mps: float = 0.0,
        curves: tuple[float, float] = FAST_CURVES,
        stops: tuple[float, float] = (LOOK_AHEAD_M, MAX_BRAKING_FACTOR),
    ) -> None:
        self.way, self.goals = way, list(goals)
        self.speed_mps, self.run, self.along_m = speed_mps, run, along_m
        self.is_done = False
        self._slowest, self._curves = slowest_mps, curves
        self._look_m, self._creeping = stops
        self._acceleration = max(CRUISE_ACCELERATION, ACCELERATION_PER_SPEED * speed_mps)
        self.stage = "cruise"
        self.trouble: str | None = None  # why a jump could not be made
        self.take_off: tuple[str, float] | None = None  # foot and speed [m/s] of the jump asked for last
        self._since_s = np.inf
        self._waited_s = 0.0
        self._left_s = np.inf  # of the profile that is followed
        self._feet = ("right", "left")
        self._limits = curvature_speed_limit(way, 100.0)

    def __call__(self, engine: Engine, dt: float) -> bool:
        """Look, and plan if need be; false when all is done."""
        self.is_done = not self._look(engine, dt)
        return not self.is_done

    def _look(self, engine: Engine, dt: float) -> bool:
        self._since_s += dt
        self._left_s -= dt
        if self.stage in ("run-up", "leap"):
            return self._jumping(engine)
        if self.stage == "wait":
            goal = self.goals[0]
            assert isinstance(goal, HaltGoal)
            self._waited_s += dt
            if self._waited_s < goal.seconds:
                return True
            self.goals.pop(0)
            self.stage = "cruise"
            self._since_s = np.inf  # plan anew at the next step, whatever the feet do
            return bool(self.goals)
        # On the way: where it is, whether it stands, and whether a plan is due
        self.along_m = self.way.nearest(engine.position, self.along_m)
        if self.stage == "halt" and engine.speed <= STILL_MPS and self._left_s <= 0.0:
            self.stage, self._waited_s = "wait", 0.0
            return True
        struck = "RHS" in engine.events or "LHS" in engine.events
        if struck or self._since_s > MAX_PLAN_AGE_S:
            self._plan(engine)
        return bool(self.goals) or self.along_m < self.way.length_m

    def _jumping(self, engine: Engine) -> bool:
        """Wait for the take-off, planning it anew at heel strikes; then for the landing."""
        if self.stage == "run-up":
            if engine.state == "adapt":
                if ("RHS" in engine.events or "LHS" in engine.events) and self._left_s > 0.7:
                    self._ask(engine)
                return True
            self.stage = "leap"
        if engine.state in ("blend-in", "jump", "blend-out"):
            return True
        self.goals.pop(0)
        self.stage = "cruise"
        self.along_m = self.way.nearest(engine.position, self.along_m + 1.0, reach_m=6.0)
        self._plan(engine)
        return True

    def _plan(self, engine: Engine) -> None:
        self._since_s = 0.0
        goal = self.goals[0] if self.goals else None
        # A stop or a jump that is near is planned for; until then the way is cruised.
        if isinstance(goal, HaltGoal) and self._plan_halt(engine, goal):
            return
        if isinstance(goal, LeapGoal) and goal.along_m - self.along_m < RUN_UP_M:
            if self._plan_leap(engine, goal):
                return
            if goal.along_m - self.along_m < TOO_LATE_M:
                x, z = self.way.point_at(goal.along_m)
                why = self.trouble or "the way is not straight before it"
                raise InputError(f"the jump at ({x:.2f}, {z:.2f}) cannot be made: {why}", "Give it a longer run-up")
        end = self.way if goal is None or isinstance(goal, LeapGoal) else self.way.until(goal.along_m)
        last = 0.0 if isinstance(goal, HaltGoal) else None
        now = engine.parameters
        run = (now.run, self.run)
        course = plan_cruise(
            end,
            self.along_m,
            now.speed,
            self.speed_mps,
            run,
            last=last,
            slowest=self._slowest,
            acceleration=self._acceleration,
            curves=self._curves,
        )
        self._follow(engine, course)
        if (
            isinstance(goal, HaltGoal)
            and goal.along_m - self.along_m < now.speed**2 / (2.0 * self._acceleration) + 0.05
        ):
            self.stage, self._left_s = "halt", float(course.times_s[-1])  # too late for a heel strike on the spot

    def _plan_halt(self, engine: Engine, goal: HaltGoal) -> bool:
        """Follow a profile that ends on the spot as either heel strikes; false while it is too early."""
        if self.stage == "halt":
            return True  # the profile in use ends exactly: looking again would only disturb
        left, now = goal.along_m - self.along_m, engine.parameters
        braking = 0.7 * self._acceleration
        if left > now.speed**2 / (2.0 * braking) + self._look_m and left > NEAR_GOAL_M:
            return False
        left = max(left, 0.02)
        # From a stand to a stand: a bump, as high as the requested speed
        is_starting = now.speed < 0.5 * self.speed_mps
        lasting = max(1.5 * left / self.speed_mps, 2.0 * float(np.sqrt(left / PREFERRED_MPS2))) if is_starting else None
        phase, run, table = engine.phase % 1.0, (now.run, 0.0), FrequencyTable(*engine.frequency_table())
        # Either heel may strike on the spot; the profile that bends least is taken.
        found = [
            plan_profile(table, now.speed, 0.0, left, phase, run=run, foot=foot, lasting_s=lasting)
            for foot in ("right", "left")
        ]
        good = [profile for profile in found if self._is_profile_acceptable(profile, left)]
        if not good:
            return False
        profile = min(good, key=lambda one: abs(2.0 * float(one.powers[2]) / one.duration_s))
        self.stage, self._left_s = "halt", profile.duration_s
        self._follow(engine, schedule_from_profile(profile, self.along_m))
        return True

    def _is_profile_acceptable(self, profile: SpeedProfile, left_m: float) -> bool:
        if not profile.is_feasible or (
            profile.max_acceleration > max(PREFERRED_MPS2, self._acceleration) and left_m > NEAR_GOAL_M
        ):
            return False
        first = float(profile.speed(0.0))
        if first > 0.5 * self.speed_mps and profile.duration_s > self._creeping * 2.0 * left_m / first:
            return False
        top = float(profile.speed(profile.times).max())
        return top <= max(1.3 * self.speed_mps, first + 0.1)

    def _plan_leap(self, engine: Engine, goal: LeapGoal) -> bool:
        """Ask for the jump once the way is straight up to it."""
        if goal.kind == "standing":
            return self._ask(engine)
        s, heading = np.linspace(self.along_m, goal.along_m, 20), float(self.way.heading_at(goal.along_m))
        off = np.angle(np.exp(1j * (engine.heading_rad - heading)))
        bend = float(np.abs(self.way.heading_at(s) - heading).max())
        if max(bend, abs(float(off))) <= STRAIGHT_APPROACH_RAD and abs(engine.parameters.turn_rate) < SLOW_TURN:
            return self._ask(engine)
        # Follow a profile along a bent way up to the take-off; the engine takes over where it is straight
        run_up = engine.jumper.find_run_up(goal.length_m, goal.kind, goal.along_m - self.along_m)
        if isinstance(run_up, str):
            self.trouble = run_up
            return False
        profile, foot = run_up.profile, run_up.foot
        limit = np.interp(self.along_m + profile.distance(profile.times), self.way.lengths, self._limits)
        if (profile.speed(profile.times) > np.maximum(1.1 * limit, self._slowest)).any():
            self.trouble = "the way bends too much for the speed"
            return False
        self._feet = (foot, "left" if foot == "right" else "right")
        self._follow(engine, schedule_from_profile(profile, self.along_m))
        return True

    def _ask(self, engine: Engine) -> bool:
        goal = self.goals[0]
        assert isinstance(goal, LeapGoal)
        if goal.kind == "standing":
            answer = engine.jump(goal.length_m, "standing", height_m=goal.height_m)
            self.stage, self._left_s = "run-up", float(answer.starts_in_s)
            return True
        x, z = (float(v) for v in self.way.point_at(goal.along_m))
        for foot in self._feet:
            try:
                answer = engine.jump(goal.length_m, goal.kind, takeoff=(x, z), foot=foot, height_m=goal.height_m)
            except InputError as error:
                self.trouble = str(error)
                continue
            self.stage, self._left_s, self.trouble = "run-up", float(answer.starts_in_s), None
            self.take_off = foot, float(answer.speed)
            return True
        return False

    def _follow(self, engine: Engine, course: PathSchedule) -> None:
        rates = compute_turn_rates(self.way, course, engine.position, engine.heading_rad)
        kept = course.times_s <= PLAN_S if self.stage == "cruise" and course.times_s[-1] > 1.5 * PLAN_S else slice(None)
        engine.follow_plan(course.times_s[kept], course.speeds[kept], course.run[kept], rates[kept])


def stop_at(engine: Engine, line: tuple[FloatArray, FloatArray] | Sequence[Sequence[float]]) -> PathGuide:
    """Stop before a line on the ground, the toes on it, at a heel strike ([Glardon2005]_ §IV.1.6).

    Args:
        engine: character that walks straight towards the line.
        line: two points ``(x, z)`` [m] of it.

    Returns:
        The guide that was given to the engine.

    Raises:
        InputError: the line is not ahead.
    """
    way, halt = plan_halt_before(engine, np.asarray(line, dtype=np.float64))
    now = engine.parameters
    guide = PathGuide(way, [halt], speed_mps=now.speed if now.speed > STILL_MPS else DEFAULT_WALK_MPS, run=now.run)
    engine.add_driver(guide)
    return guide


MAX_LINE_DISTANCE_M: Final = 1000.0
MIN_LINE_DISTANCE_M: Final = 0.05


def toe_ends(pose: Pose) -> FloatArray:
    """Ends of both toes ``(2, 3)`` [m] in world, left and right, on the soles."""
    points = foot_points(pose.skeleton)
    placed = points.positions(pose.joint_positions(), pose.joint_rotations())
    return placed[[points.index("left_toe_end"), points.index("right_toe_end")]]


def standing_toes(engine: Engine) -> FloatArray:
    """Ends of the toes ``(2, 2)`` [m] (x, z) round the carriage, when the character stands with its present heading."""
    stand = type(engine)(
        engine.model,
        leg_length_m=engine.leg_length_m,
        style=dict(zip(engine.model.styles, engine.parameters.weights.tolist(), strict=True)),
        heading_rad=engine.heading_rad,
        plants=False,
    )
    return toe_ends(stand.pose)[:, [0, 2]]


def plan_halt_before(engine: Engine, line: FloatArray) -> tuple[GroundPath, HaltGoal]:
    """The straight way ahead, and where on it to stop before a line ``(2, 2)`` [m]."""
    if line.shape != (2, 2) or not np.isfinite(line).all() or np.allclose(line[0], line[1]):
        raise InputError("a line that is not two different points", "Give ((x, z), (x, z)) in metres")
    ahead, along = heading_vector(engine.heading_rad), line[1] - line[0]
    across = np.array([along[1], -along[0]]) / np.linalg.norm(along)
    approach = float(ahead @ across)
    across, approach = (across, approach) if approach > 0.0 else (-across, -approach)
    room = float((line[0] - engine.position) @ across - (standing_toes(engine) @ across).max())
    left = room / approach if approach > 0.1 else np.inf
    if not MIN_LINE_DISTANCE_M <= left <= MAX_LINE_DISTANCE_M:
        raise InputError("the line is not ahead", "Give a line across the direction of travel, a step away or more")
    return straight_path(engine.position, engine.heading_rad, left + 1.0), HaltGoal(left)
