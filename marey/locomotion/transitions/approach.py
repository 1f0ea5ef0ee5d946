"""The approach to a jump: the checked request, and the speed, gait and heel strike from which it can take off."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, InputError, MareyWarning, frozen
from marey.locomotion.checks import check_name, check_positive
from marey.locomotion.model.walker import GaitWalker
from marey.locomotion.planning.ground_path import heading_vector
from marey.locomotion.planning.run_up import MAX_ACCELERATION, clamp_approach_speed, gait_change_speed, plan_run_up
from marey.locomotion.planning.speed_profile import FrequencyTable, SpeedProfile, plan_profile
from marey.locomotion.transitions.clips import (
    LEFT,
    RIGHT,
    ConstantGait,
    JumpClip,
    ModelJumps,
    blend_frames,
    place_frame,
)
from marey.locomotion.transitions.jump_plan import LeapPlan, find_planted_toe, plan_leap

REQUEST_KINDS: Final = ("walk", "run", "standing")
REQUEST_PRIORITIES: Final = ("jump-parameters", "jump-now")
TAKEOFF_SIDES: Final = {"right": RIGHT, "left": LEFT}


@dataclass(frozen=True, slots=True)
class JumpRequest:
    """A jump that is wanted; see :meth:`Machine.jump`."""

    length_m: float
    kind: str = "walk"
    height_m: float | None = None
    priority: str = "jump-parameters"
    takeoff: tuple[float, float] | None = None
    foot: str = "right"
    max_acceleration: float = MAX_ACCELERATION  # [m/s²]

    def __post_init__(self) -> None:
        for kind, name, known in (
            ("jump", self.kind, REQUEST_KINDS),
            ("priority", self.priority, REQUEST_PRIORITIES),
            ("foot", self.foot, tuple(TAKEOFF_SIDES)),
        ):
            check_name(kind, name, "the engine", known)
        check_positive("length_m", self.length_m)
        check_positive("max_acceleration", self.max_acceleration)
        if self.height_m is not None:
            check_positive("height_m", self.height_m)
        if self.takeoff is not None:
            frozen(self.takeoff, 2, name="takeoff")

    @property
    def side(self) -> int:
        """Take-off foot, 0 right or 1 left."""
        return TAKEOFF_SIDES[self.foot]


@dataclass(frozen=True, slots=True)
class JumpAnswer:
    """Answer of the state machine to a request."""

    status: str  # "planned" or "queued"
    kind: str
    length_m: float
    foot: str
    speed: float  # [m/s] of the approach
    starts_in_s: float  # [s] until the blend into the jump; 0 for a queued one
    cycles: float  # of the run-up


STANDING_MPS: Final = 0.05  # [m/s] slower than this is standing
MIN_TURN_CHANGE_S: Final = 0.4  # [s] of a change of turn rate
MIN_CHANGE_S: Final = 0.1  # [s] of any other change
STOPPING_MPS2: Final = 0.8  # [m/s²] before a standing jump
SAME_VALUE: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class JumpApproach:
    """Plan until the take-off."""

    request: JumpRequest  # what will be jumped: clamped, or replaced by what fits
    speed: float  # [m/s] at the take-off
    run: float
    duration_s: float
    cycles: float
    knots: tuple[FloatArray, FloatArray, FloatArray] | None = None  # times [s], speeds [m/s] and shares of running

    def start(self, walker: GaitWalker) -> None:
        """Let the walker change its parameters accordingly, and hold its style and size."""
        turn = walker.parameters.turn_rate
        if self.request.takeoff is None and _is_steady(walker, self.speed, self.run):
            return
        walker.go_to(walker.parameters._replace(speed=self.speed, run=self.run, turn_rate=0.0), self.duration_s)
        if self.knots is not None and self.duration_s > 0.0:
            times = np.unique([*self.knots[0], min(MIN_TURN_CHANGE_S, self.duration_s)])
            speeds, runs = (np.interp(times, self.knots[0], values) for values in self.knots[1:])
            walker.follow_plan(times, speeds, runs, np.interp(times, [0.0, MIN_TURN_CHANGE_S], [turn, 0.0]))


def plan_approach(walker: GaitWalker, jumps: ModelJumps, request: JumpRequest) -> JumpApproach:
    """Choose the run-up of a jump ([Glardon2005]_ §III.3.2).

    Raises:
        InputError: there is no run-up within the limits; the message says what to change.
    """
    request = fit_request_to_gait(walker, jumps, request)
    # One frame is played, so that what is made or loaded at first use is there before the take-off.
    frame = get_jump_clip(walker, jumps, request).frame(0.0)
    blend_frames(place_frame(frame, np.zeros(2), 0.0), frame, 0.5)
    if request.kind == "standing":
        speed = walker.parameters.speed
        return JumpApproach(request, 0.0, 0.0, abs(speed) / STOPPING_MPS2 if abs(speed) > SAME_VALUE else 0.0, 0.0)
    if request.takeoff is None:
        now = walker.parameters
        run = float(request.kind == "run")
        wanted, tolerance = jumps.run_up(request.kind, request.length_m, now.leg_length_m)
        speed = clamp_approach_speed(now.speed, wanted, tolerance)
        # A turn dies out first; whoever already does what is wanted needs no time to change.
        strike = float(walker.events(speed, run)[4 * request.side]) % 1.0
        least = (
            MIN_TURN_CHANGE_S
            if abs(now.turn_rate) > SAME_VALUE
            else 0.0
            if _is_steady(walker, speed, run)
            else MIN_CHANGE_S
        )
        run_up = plan_run_up(
            walker.phase,
            (now.speed, now.run),
            (speed, run),
            walker.frequency,
            target_phase=strike,
            max_acceleration=request.max_acceleration,
            at_least_s=least,
            change_at=gait_change_speed(now.leg_length_m),
        )
        if not run_up.is_feasible:
            raise InputError(
                f"the run-up to {speed:.1f} m/s would take {run_up.duration_s:.0f} s",
                "Set a speed nearer to it first, or allow a larger max_acceleration",
            )
        return JumpApproach(request, speed, run, run_up.duration_s, run_up.cycles, run_up.knots())
    # A speed profile whose last heel strike puts the take-off toe on its place, once the turn has died out
    heading = walker.heading_rad + 0.5 * MIN_TURN_CHANGE_S * walker.parameters.turn_rate
    ahead = float((np.array(request.takeoff) - walker.position) @ heading_vector(heading))
    found = find_run_up(walker, jumps, (request,), ahead)
    if isinstance(found, list):
        raise InputError(
            f"no run-up ends at ({request.takeoff[0]:.2f}, {request.takeoff[1]:.2f}), {ahead:.2f} m ahead: {found[0]}",
            "Take off farther away, or slow down",
        )
    profile = found.profile
    knots = profile.times, profile.speed(profile.times), profile.run_at(profile.times)
    return JumpApproach(request, found.speed, profile.run[1], profile.duration_s, profile.num_cycles, knots)


def fit_request_to_gait(walker: GaitWalker, jumps: ModelJumps, request: JumpRequest) -> JumpRequest:
    """Clamp the length to what the model knows, and under ``jump-now`` change the jump to what fits the gait."""
    now = walker.parameters
    if request.priority == "jump-now":
        # The jump becomes what the present gait and speed allow.
        kind = "standing" if now.speed < STANDING_MPS else "run" if now.run > 0.5 else "walk"
        if kind == "standing":
            request = replace(request, kind=kind)
        else:
            wanted, tolerance = jumps.run_up(kind, request.length_m, now.leg_length_m)
            if kind != request.kind or abs(now.speed - wanted) > tolerance:
                request = replace(request, kind=kind, length_m=jumps.length_for(kind, now.speed, now.leg_length_m))
    shortest, longest = jumps.limits_m(request.kind, now.leg_length_m)
    length = min(max(request.length_m, shortest), longest)
    if length != request.length_m and request.priority != "jump-now":
        text = f"a {request.kind} jump of {request.length_m:.2f} m is outside {shortest:.2f} to {longest:.2f} m"
        warnings.warn(f"{text}; jumping {length:.2f} m", MareyWarning, stacklevel=4)
    return replace(request, length_m=length)


def _is_steady(walker: GaitWalker, speed: float, run: float) -> bool:
    """Whether the walker already does what is wanted, straight on, and will go on so."""
    now = walker.parameters
    changes = (now.speed - speed, now.run - run, now.turn_rate, walker.remaining_s)
    return all(abs(change) < SAME_VALUE for change in changes)


class RunUp(NamedTuple):
    """A run-up whose last heel strike puts the take-off toe on its place."""

    profile: SpeedProfile
    speed: float  # [m/s] at the take-off
    foot: str


def find_run_up(
    walker: GaitWalker, jumps: ModelJumps, requests: Sequence[JumpRequest], ahead_m: float
) -> RunUp | list[str]:
    """Run-up with ``ahead_m`` to the take-off toe, or the reasons why there is none.

    Speeds that the jump allows are tried from the nearest to the present one on, and with each of them the requests,
    which differ in their foot alone.
    """
    now, kind, reasons = walker.parameters, requests[0].kind, list[str]()
    leg, run, table = now.leg_length_m, float(kind == "run"), FrequencyTable(*walker.frequency_table())
    wanted, tolerance = jumps.run_up(kind, requests[0].length_m, leg)
    for speed in (clamp_approach_speed(now.speed, wanted, tolerance), wanted, wanted - tolerance, wanted + tolerance):
        for request in requests if speed > STANDING_MPS else ():
            # The planted take-off toe will be ahead of the carriage at the heel strike.
            plan = plan_leap_for(walker, jumps, request, speed, position=np.zeros(2), heading_rad=0.0)
            way = ahead_m - float(find_planted_toe(plan, jumps.rest_heights_m(leg))[1])
            strike = float(plan.gait.events[4 * request.side]) % 1.0
            profile = plan_profile(table, now.speed, speed, way, walker.phase % 1.0, run=(now.run, run), foot=strike)
            if profile.is_feasible:
                return RunUp(profile, speed, request.foot)
            reasons.append(profile.status)
    return reasons or ["too slow"]


def plan_leap_for(
    walker: GaitWalker,
    jumps: ModelJumps,
    request: JumpRequest,
    speed: float,
    *,
    position: FloatArray,
    heading_rad: float,
    phase: float | None = None,
) -> LeapPlan:
    """Plan the leap from a gait of a given speed [m/s] at a place ``(x, z)`` [m]."""
    run = float(request.kind == "run")
    gait = ConstantGait(walker, speed, run, walker.frequency(speed, run), np.array(walker.events(speed, run)))
    body = jumps.skeleton_for(walker.parameters.leg_length_m)
    clip = get_jump_clip(walker, jumps, request)
    return plan_leap(body, gait, clip, position, heading_rad, side=request.side, phase=phase)


def get_jump_clip(walker: GaitWalker, jumps: ModelJumps, request: JumpRequest) -> JumpClip:
    """The jump that was asked for, in the walker's style and size."""
    leg, weights = walker.parameters.leg_length_m, walker.parameters.weights
    return jumps.clip(request.kind, request.length_m, leg, weights, height_m=request.height_m, side=request.side)
