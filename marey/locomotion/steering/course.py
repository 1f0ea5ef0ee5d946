"""Obstacle courses: obstacles that appear before a character, stand or move, and are jumped over or walked round.

A fan of curved run-ups is searched when the straight one comes to no heel strike in time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError
from marey.locomotion.planning.ground_path import SPACING_M, GroundPath, heading_vector, resample_evenly, straight_path
from marey.locomotion.steering.decision import (
    EDGE_M,
    MEAN_ACCELERATION,
    ObstacleDecision,
    decide_detour_or_stop,
    decide_obstacle,
    find_leap,
)
from marey.locomotion.steering.guide import HaltGoal, LeapGoal, PathGuide
from marey.locomotion.steering.obstacles import BODY_RADIUS_M, Obstacle

if TYPE_CHECKING:
    from marey.locomotion.engine.character import Engine


RUN_UP_TURNS_RAD: Final = tuple(np.radians((6.0, -6.0, 12.0, -12.0, 18.0, -18.0, 24.0, -24.0, 30.0, -30.0)).tolist())
ARC_M: Final = 1.2  # [m] on which the turn is made
BEHIND_M: Final = 1.5  # [m] of straight way behind the landing


def sample_arc(start: FloatArray, heading_rad: float, turn_rad: float, length_m: float) -> FloatArray:
    """Points ``(M, 2)`` [m] of an arc with constant curvature."""
    s = np.linspace(0.0, length_m, int(np.ceil(length_m / SPACING_M)) + 1)
    half = 0.5 * turn_rad * s / length_m
    chord = s * np.sinc(half / np.pi)
    return start + chord[:, None] * np.stack([np.sin(heading_rad + half), np.cos(heading_rad + half)], axis=-1)


AIRBORNE_STATES: Final = ("blend-in", "jump", "blend-out")
REPLAN_DEADLINE_S: Final = 0.7  # [s] before take-off the plan is left alone, unless the obstacle moves
CHANGE_DEADLINE_S: Final = 0.15  # [s] before take-off nothing can be changed any more
MAX_REPLAN_ITERATIONS: Final = 6
STANCE_S: Final = 0.6  # [s] at most, from the heel strike of a take-off to its toe off
MOVED_TOL_M: Final = 0.01
MIN_SPEED_FRACTION: Final = 0.6  # of the speed, round an obstacle
STOP_SHORT_M: Final = 0.1


class ObstacleCourse:
    """The obstacles round one character, and what it does about the next one.

    It is a driver of the engine: obstacles with a velocity move, run-ups are planned anew at every heel strike and
    whenever an obstacle has moved, and what cannot be jumped any more is walked round.
    """

    def __init__(self, engine: Engine, *, mean_acceleration: float = MEAN_ACCELERATION) -> None:
        self._whose = ref(engine)  # the engine holds its course, not the other way round
        self._mean_acceleration = mean_acceleration
        self._obstacles: list[Obstacle] = []
        self._active: int | None = None
        self._planned: Obstacle | None = None
        self._planned_s = 0.0
        self._guide: PathGuide | None = None
        self._left_s = np.inf
        self._speed, self._run = engine.targets.speed, engine.targets.run
        self.decision: ObstacleDecision | None = None
        """Current decision about the next obstacle."""

    @property
    def _engine(self) -> Engine:
        engine = self._whose()
        if engine is None:
            raise InputError("the character of this course is gone", "Keep the engine while its obstacles are used")
        return engine

    @property
    def obstacles(self) -> tuple[Obstacle, ...]:
        """All obstacles, where they are now."""
        return tuple(self._obstacles)

    def add(self, obstacle: Obstacle, *, prefer: str | None = None, side: str | None = None) -> ObstacleDecision:
        """Put an obstacle into the world, and decide what to do about it.

        Args:
            obstacle: the box.
            prefer: "jump" if possible (the default), or "round".
            side: "left" or "right" to go round; by default the shorter way.

        Raises:
            InputError: unknown preference or side.
        """
        if prefer not in (None, "jump", "round") or side not in (None, "left", "right"):
            raise InputError(f"prefer '{prefer}', side '{side}'", "They are 'jump' or 'round', and 'left' or 'right'")
        self._obstacles.append(obstacle)
        if self._active is not None or self._engine.state in AIRBORNE_STATES:
            return ObstacleDecision("wait", obstacle, ("another obstacle comes first",))
        return self._decide(len(self._obstacles) - 1, prefer=prefer, side=side)

    def move(self, index: int, position: ArrayLike) -> None:
        """Put an obstacle somewhere else, ``(x, z)`` [m]."""
        x, z = (float(v) for v in np.asarray(position, dtype=np.float64))
        self._obstacles[index] = replace(self._obstacles[index], position=(x, z))

    def clear(self) -> None:
        """Take all obstacles away; a run-up under way is given up."""
        engine = self._engine
        self._obstacles.clear()
        if self._active is not None and engine.state == "adapt":
            engine.cancel_jump()
        if self._guide is not None or (self.decision is not None and self.decision.choice == "stop"):
            self._resume_course()
        self._active, self._guide, self.decision = None, None, None

    def __call__(self, engine: Engine, dt: float) -> bool:
        """Move obstacles on, and look after the manoeuvre under way."""
        self._left_s -= dt
        if self._active is None:
            # At a heel strike the nearest obstacle ahead that is in the way is decided on.
            seen = [(box.extent_from(engine.position, engine.heading_rad), i) for i, box in enumerate(self._obstacles)]
            ahead = [
                (extent.front, i)
                for extent, i in seen
                if 0.3 < extent.front < 12.0 and extent.right < BODY_RADIUS_M and extent.left > -BODY_RADIUS_M
            ]
            struck = "RHS" in engine.events or "LHS" in engine.events
            if ahead and struck and engine.state not in AIRBORNE_STATES:
                self._decide(min(ahead)[1])
        elif self._guide is None and self.decision is not None and self.decision.choice == "jump":
            self._jumping()
        elif self._has_moved() and engine.state not in AIRBORNE_STATES:
            is_jumping = self.decision is not None and self.decision.choice == "jump"
            self._decide(self._active, prefer=None if is_jumping else "round")
        else:
            try:
                if self._guide is not None and not self._guide(engine, dt):
                    # Back on the line: go on; before something that closes the way: stand until it moves
                    self._guide = None
                    if self.decision is not None and self.decision.choice != "stop":
                        self._resume_course()
                        self._active, self._guide, self._planned = None, None, None
            except InputError as error:  # a curved run-up that did not come to its take-off
                assert self._active is not None
                self._begin(self._active, decide_detour_or_stop(engine, self._obstacles[self._active], [error.what]))
            # Keep the decision true to what a curved run-up came to
            asked = None if self._guide is None else self._guide.take_off
            if asked is not None and self.decision is not None and self.decision.leap is not None:
                leap = replace(self.decision.leap, speed_mps=asked[1])
                self.decision = replace(self.decision, foot=asked[0], leap=leap)
        self._obstacles = [box.after(dt) if box.is_moving else box for box in self._obstacles]
        return True

    def _decide(self, index: int, *, prefer: str | None = None, side: str | None = None) -> ObstacleDecision:
        others = [box for i, box in enumerate(self._obstacles) if i != index]
        obstacle = self._obstacles[index]
        decision = decide_obstacle(
            self._engine,
            obstacle,
            prefer=prefer,
            side=side,
            others=others,
            mean_acceleration=self._mean_acceleration,
        )
        if decision.choice == "jump":
            decision = self._request_decided_leap(decision)
        self._begin(index, decision)
        return decision

    def _request_decided_leap(self, decision: ObstacleDecision) -> ObstacleDecision:
        """Ask the engine for the leap; with the other foot if need be; round the obstacle if no run-up fits."""
        leap, reasons = decision.leap, list(decision.reasons)
        assert leap is not None
        for foot in ("right", "left"):
            try:
                answer = self._engine.jump(leap.length_m, leap.kind, takeoff=decision.takeoff, foot=foot)
            except InputError as error:
                reasons.append(f"{foot} foot: {error.what}")
                continue
            self._left_s = float(answer.starts_in_s)
            return replace(
                decision, reasons=tuple(reasons), foot=foot, leap=replace(leap, speed_mps=float(answer.speed))
            )
        # Run-ups that turn by a constant rate first have ways of other lengths to the obstacle. Of the run-ups
        # that end with a heel strike before the edge, the one with the smallest change of acceleration |2 a t_2| is
        # taken, then the one that turns least ([Glardon2005]_ §IV.1.6 leaves the choice open).
        found: list[tuple[float, float, ObstacleDecision]] = []
        engine, obstacle = self._engine, decision.obstacle
        for turn in RUN_UP_TURNS_RAD:
            heading = engine.heading_rad + turn
            points = sample_arc(engine.position, engine.heading_rad, turn, ARC_M)
            extent = obstacle.track_extent_from(points[-1], heading)
            if extent is None or extent.front < 0.3:
                continue
            leap, why = find_leap(engine, extent, obstacle.height_m, self._mean_acceleration)
            if leap is None or leap.ahead_m < 0.3:
                continue
            straight_m = leap.ahead_m
            leap = replace(leap, ahead_m=ARC_M + straight_m)
            run_up = engine.jumper.find_run_up(leap.length_m, leap.kind, leap.ahead_m)
            if isinstance(run_up, str):
                continue
            end = points[-1] + (straight_m + leap.length_m + BEHIND_M) * heading_vector(heading)
            x, z = (float(v) for v in points[-1] + straight_m * heading_vector(heading))
            way = GroundPath(resample_evenly(np.concatenate([points, end[None]])))
            bend = abs(2.0 * float(run_up.profile.powers[2]) / run_up.profile.duration_s)
            choice = ObstacleDecision("jump", obstacle, tuple(why), leap, (x, z), run_up.foot, way)
            found.append((bend, abs(turn), choice))
        curved = min(found, key=lambda one: one[:2])[2] if found else None
        if curved is not None:
            return replace(curved, reasons=(*reasons, *curved.reasons))
        return decide_detour_or_stop(self._engine, decision.obstacle, reasons)

    def _begin(self, index: int, decision: ObstacleDecision) -> None:
        if decision.choice != "jump":
            self._left_s = np.inf
        if decision.choice == "clear" and self._active is not None:
            self._resume_course()  # it went out of the way
        if self._active is None and decision.choice != "clear":
            self._speed, self._run = self._engine.targets.speed, self._engine.targets.run
        # What was decided replaces the plan in use.
        self.decision, self._planned, self._guide = decision, decision.obstacle, None
        self._planned_s = self._engine.time_s
        self._active = None if decision.choice == "clear" else index
        # A curved run-up, a detour and a stop have a guide; a straight run-up is the engine's own.
        if decision.choice == "jump" and decision.way is not None and decision.leap is not None:
            leap = decision.leap
            goal = LeapGoal(leap.ahead_m, leap.length_m, leap.kind)
            self._guide = PathGuide(decision.way, [goal], speed_mps=self._speed, run=self._run, slowest_mps=self._speed)
            return
        if decision.choice in ("round", "stop") and self._engine.state == "adapt":
            self._engine.cancel_jump()
        if decision.choice == "round" and decision.way is not None:
            slowest = MIN_SPEED_FRACTION * self._speed
            self._guide = PathGuide(decision.way, speed_mps=self._speed, run=self._run, slowest_mps=slowest)
        elif decision.choice == "stop":
            engine = self._engine
            front = decision.obstacle.extent_from(engine.position, engine.heading_rad).front
            left = max(front - BODY_RADIUS_M - STOP_SHORT_M, 0.05)
            self._guide = PathGuide(
                straight_path(engine.position, engine.heading_rad, left + 1.0), [HaltGoal(left)], speed_mps=self._speed
            )
        elif decision.choice == "jump" and decision.obstacle.is_moving:
            self._replan(index)

    def _jumping(self) -> None:
        """Plan the run-up anew at heel strikes and when the obstacle moved; wait for the landing."""
        engine = self._engine
        if engine.state != "adapt":
            if engine.state not in AIRBORNE_STATES:
                self._active, self._guide, self._planned = None, None, None
            return
        struck = "RHS" in engine.events or "LHS" in engine.events
        if (self._has_moved() and self._left_s > CHANGE_DEADLINE_S) or (struck and self._left_s > REPLAN_DEADLINE_S):
            assert self._active is not None
            self._replan(self._active)

    def _replan(self, index: int) -> None:
        """The same leap, to where the obstacle will be; another decision if that fails.

        Where it will be depends on when the jump begins, and that on where it will be: a fixed point, found in a few
        steps since obstacles are slower than runners.
        """
        engine, obstacle = self._engine, self._obstacles[index]
        drift, ahead = float(np.hypot(*obstacle.velocity)), heading_vector(engine.heading_rad)
        for _ in range(MAX_REPLAN_ITERATIONS):
            decision, before, expected = self.decision, self._left_s, obstacle
            assert decision is not None and decision.leap is not None
            if obstacle.is_moving and np.isfinite(before):
                # The obstacle when its front edge is nearest to the take-off toe
                is_coming = float(np.array(obstacle.velocity) @ ahead) < 0.0
                expected = obstacle.after(max(before, 0.0) + (STANCE_S if is_coming else 0.0))
            seen = expected.track_extent_from(engine.position, engine.heading_rad)
            front = (seen or expected.extent_from(engine.position, engine.heading_rad)).front
            leap = decision.leap
            toe_m = front - EDGE_M - leap.clearance.start_m - leap.clearance.tip_m
            x, z = (float(v) for v in engine.position + toe_m * ahead)
            try:
                answer = engine.jump(leap.length_m, leap.kind, takeoff=(x, z), foot=decision.foot)
            except InputError:
                if self._has_moved() or obstacle.is_moving:
                    self._decide(index, prefer="round" if obstacle.is_moving else None)
                return  # else the plan in use stands
            leap = replace(leap, speed_mps=float(answer.speed))
            self.decision = replace(decision, obstacle=obstacle, leap=leap, takeoff=(x, z))
            self._left_s, self._planned, self._planned_s = float(answer.starts_in_s), obstacle, engine.time_s
            if drift * abs(self._left_s - before) < MOVED_TOL_M:
                return

    def _has_moved(self) -> bool:
        """Whether the next obstacle is elsewhere than its velocity would have brought it."""
        if self._active is None or self._planned is None:
            return False
        foreseen = self._planned.after(self._engine.time_s - self._planned_s)
        away = np.subtract(self._obstacles[self._active].position, foreseen.position)
        return bool(np.hypot(*away) > MOVED_TOL_M)

    def _resume_course(self) -> None:
        """Straight on, as fast as before."""
        change = abs(self._speed - self._engine.speed)
        self._engine.set(speed=self._speed, run=self._run, turn_rate=0.0, over_s=max(0.3, 2.0 * change))


_COURSES: WeakKeyDictionary[Engine, ObstacleCourse] = WeakKeyDictionary()


def get_obstacle_course(engine: Engine) -> ObstacleCourse:
    """The obstacles of an engine; the first call makes the course and lets it drive the engine."""
    course = _COURSES.get(engine)
    if course is None:
        course = _COURSES[engine] = ObstacleCourse(engine)
        engine.add_driver(course)
    return course


def add_obstacle(
    engine: Engine, obstacle: Obstacle, *, prefer: str | None = None, side: str | None = None
) -> ObstacleDecision:
    """Put an obstacle before a character; see :meth:`ObstacleCourse.add`."""
    return get_obstacle_course(engine).add(obstacle, prefer=prefer, side=side)
