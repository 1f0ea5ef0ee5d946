"""The jump state machine: six states from walking to jumping and back, with the snapshot it keeps between steps."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from math import inf
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, MareyWarning
from marey.locomotion.model.walker import GaitWalker, RawFrame, WalkerSnapshot
from marey.locomotion.planning.parameters import GaitParameters
from marey.locomotion.planning.run_up import MAX_ACCELERATION
from marey.locomotion.transitions.approach import (
    TAKEOFF_SIDES,
    JumpAnswer,
    JumpApproach,
    JumpRequest,
    RunUp,
    find_run_up,
    get_jump_clip,
    plan_approach,
    plan_leap_for,
)
from marey.locomotion.transitions.clips import (
    FootholdSchedule,
    ModelJumps,
    PoseFrame,
    compute_effectors,
    schedule_footholds,
)
from marey.locomotion.transitions.jump_plan import (
    LeapPlan,
    StandingJumpPlan,
    find_planted_toe,
    plan_standing_jump,
    schedule_leap_footholds,
)

JumpPlan = LeapPlan | StandingJumpPlan
"""A transition as a function of the time since its start."""


@dataclass(frozen=True, slots=True, eq=False)
class JumpState:
    """The state of the machine; replaced, never changed, so that a snapshot is a reference."""

    stage: str = "neutral"  # neutral, adapt, leap or restore
    clock_s: float = 0.0  # since the stage began
    deadline_s: float = inf  # the stage is looked at again then
    latest_s: float = inf  # the stage is given up then
    request: JumpRequest | None = None
    queued: JumpRequest | None = None
    resume: GaitParameters | None = None  # what to go back to
    resume_over_s: float | None = None
    plan: JumpPlan | None = None
    feet: FootholdSchedule | None = None


JumpSnapshot = tuple[JumpState, WalkerSnapshot]
"""A moment of the machine and of its walker."""


SAME_PHASE: Final = 1e-3  # [-] of a cycle before a heel strike: as good as there
MAX_PHASE_LATE: Final = 0.05  # [-] of a cycle after it: not too late
MAX_WAIT_S: Final = 20.0  # [s] beyond what was planned; then the jump is given up
RESTORE_ACCELERATION: Final = 0.5  # [m/s²]
SHORTEST_RESTORE_S: Final = 0.5  # [s]
TICK_S: Final = 0.02  # [s] between two looks at a character that comes to a stand
MIN_STEP_S: Final = 1e-12  # [s]
TIME_TOL_S: Final = 1e-6  # [s] before its end a ramp has arrived


class JumpStateMachine:
    """A source that walks, and jumps when asked to ([Glardon2005]_ §III.3.4).

    Neutral, then adapt (ramp to the jump's own speed and gait, up to a heel strike), blend-in (to the toe off), jump
    (to the landing), blend-out (to the other foot's toe off), restore (ramp back), neutral.

    Steps are split where a state ends, so that the result does not depend on the frame rate. Requests during the
    three middle states are queued, one at most, the last one wins; a request during restore starts anew and keeps
    what is to be restored.
    """

    def __init__(self, walker: GaitWalker, jumps: ModelJumps) -> None:
        self._walker, self.jumps = walker, jumps
        self._now = JumpState()

    # Asking

    def jump(
        self,
        length_m: float,
        kind: str = "walk",
        *,
        height_m: float | None = None,
        priority: str = "jump-parameters",
        takeoff: tuple[float, float] | None = None,
        foot: str = "right",
        max_acceleration: float = MAX_ACCELERATION,
    ) -> JumpAnswer:
        """Ask for a jump.

        Args:
            length_m: from the take-off toe to the landing heel.
            kind: ``"walk"`` or ``"run"``, a leap with that run-up; ``"standing"``, with both feet.
            height_m: of a standing jump, how high the root rises; by default what goes with the length.
            priority: ``"jump-parameters"`` changes the speed to what the jump needs; ``"jump-now"`` changes the jump to
                what the present speed allows.
            takeoff: target ``(x, z)`` [m] of the take-off toe, straight ahead.
            foot: take-off foot, ``"right"`` or ``"left"``.
            max_acceleration: of the run-up [m/s²].

        Raises:
            InputError: a number is not positive and finite, or no run-up fits.
            UnknownNameError: no such kind, priority or foot.
        """
        request = JumpRequest(length_m, kind, height_m, priority, takeoff, foot, max_acceleration)
        if self._now.stage == "leap":
            self._now = replace(self._now, queued=request)
            return JumpAnswer("queued", kind, length_m, foot, self.parameters.speed, 0.0, 0.0)
        approach = plan_approach(self._walker, self.jumps, request)
        self._adapt(approach)
        made, starts_in_s = approach.request, approach.duration_s
        if made.kind != "standing":
            # The heel strikes up to 2 ms later than planned, where the gait changes on the way
            moment = self._walker.snapshot()
            self._walker.advance(starts_in_s)
            wait = self._time_to_strike(made)
            self._walker.restore(moment)
            starts_in_s += wait if wait < MAX_WAIT_S else 0.0
        return JumpAnswer("planned", made.kind, made.length_m, made.foot, approach.speed, starts_in_s, approach.cycles)

    def preview(
        self,
        length_m: float,
        kind: str,
        speed: float,
        *,
        foot: str = "right",
        height_m: float | None = None,
        position: ArrayLike = (0.0, 0.0),
        heading_rad: float = 0.0,
    ) -> tuple[LeapPlan, FootholdSchedule]:
        """Plan a leap from a gait of some speed [m/s] whose heel strikes at a place ``(x, z)`` [m]; changes nothing."""
        request = JumpRequest(length_m, kind, height_m, foot=foot)
        place = np.array(position, dtype=np.float64)
        leap = plan_leap_for(self._walker, self.jumps, request, speed, position=place, heading_rad=heading_rad)
        return leap, schedule_leap_footholds(leap)

    def find_run_up(self, length_m: float, kind: str, ahead_m: float) -> RunUp | str:
        """Run-up to a leap, with either foot, ``ahead_m`` [m] to its take-off toe; or why there is none."""
        requests = [JumpRequest(length_m, kind, foot=foot) for foot in TAKEOFF_SIDES]
        found = find_run_up(self._walker, self.jumps, requests, ahead_m)
        return found[-1] if isinstance(found, list) else found

    def cancel(self) -> bool:
        """Cancel a jump that has not begun or is queued; returns whether there was one."""
        if self._now.stage == "adapt":
            self._restore_parameters()
            return True
        was_queued = self._now.queued is not None
        self._now = replace(self._now, queued=None)
        return was_queued

    def set_target(self, parameters: GaitParameters, over_s: float | None) -> None:
        """Change the parameters that are restored after the jump, and the time to do so."""
        if self._now.stage == "neutral":
            self._walker.go_to(parameters, over_s)
            return
        self._now = replace(self._now, resume=parameters, resume_over_s=over_s)
        if self._now.stage == "restore":
            self._restore_parameters()

    # Reading

    @property
    def takeoff(self) -> tuple[float, float] | None:
        """Where the take-off toe will be, or is ``(x, z)`` [m]; nothing unless a jump was asked for."""
        now = self._now
        if isinstance(now.plan, LeapPlan):
            x, z = find_planted_toe(now.plan, self.jumps.rest_heights_m(self.parameters.leg_length_m))
            return float(x), float(z)
        return None if now.request is None else now.request.takeoff

    @property
    def is_busy(self) -> bool:
        """Whether a jump is under way, from its run-up to the return of the parameters."""
        return self._now.stage != "neutral"

    @property
    def state(self) -> str:
        """One of the six states of [Glardon2005]_ §III.3.4; the walker's own word in place of neutral."""
        now = self._now
        if now.plan is not None:
            return now.plan.state(now.clock_s)
        return self._walker.state if now.stage == "neutral" else now.stage

    @property
    def parameters(self) -> GaitParameters:
        """Parameters of the gait now; locked while jumping."""
        return self._walker.parameters

    @property
    def target(self) -> GaitParameters:
        """Parameters that were requested."""
        return self._walker.target if self._now.resume is None else self._now.resume

    @property
    def request(self) -> JumpRequest | None:
        """The jump that is prepared or under way."""
        return self._now.request

    @property
    def queued(self) -> JumpRequest | None:
        """The jump that comes next."""
        return self._now.queued

    @property
    def plan(self) -> JumpPlan | None:
        """The transition under way."""
        return self._now.plan

    @property
    def phase(self) -> float:
        """Phase of the gait."""
        plan = self._now.plan
        return self._walker.phase if plan is None else plan.gait_phase(self._now.clock_s)

    @property
    def position(self) -> FloatArray:
        """Where the character is on the ground ``(x, z)`` [m]."""
        plan = self._now.plan
        return self._walker.position if plan is None else plan.carriage(self._now.clock_s)

    @property
    def heading_rad(self) -> float:
        """Where it faces."""
        return self._walker.heading_rad

    # Moving

    def advance(self, dt: float) -> tuple[str, ...]:
        """Move on by ``dt`` [s]; returns the foot events that were passed."""
        passed: tuple[str, ...] = ()
        left = dt
        while True:
            step = min(left, max(self._now.deadline_s - self._now.clock_s, 0.0))
            start = self._now.clock_s
            self._now = replace(self._now, clock_s=start + step)
            feet = self._now.feet
            passed += self._walker.advance(step) if feet is None else feet.events(start, start + step)
            left -= step
            if self._now.deadline_s - self._now.clock_s <= MIN_STEP_S:
                # The stage is over: the next one begins.
                if self._now.stage == "adapt":
                    self._try_take_off()
                elif self._now.stage == "leap":
                    self._land()
                else:
                    self._now = JumpState()
            elif left <= MIN_STEP_S:
                return passed

    def frame(self, *, is_low: bool = False) -> RawFrame:
        """Current frame before foot plants; changes nothing. A low one may end with the joints of the toes."""
        now = self._now
        if now.plan is None or now.feet is None:
            return self._walker.frame(is_low=is_low)
        raw = now.plan.frame(now.clock_s)
        feet = compute_effectors(now.plan.skeleton, raw)
        until, landing = now.feet.next_plants(now.clock_s, feet)
        planted, leg = now.feet.planted(now.clock_s), self.parameters.leg_length_m
        return RawFrame(raw.root, raw.rotations, planted, until, landing, leg, np.zeros((4, 3)), np.zeros(2))

    def snapshot(self) -> JumpSnapshot:
        """All that :meth:`restore` needs."""
        return self._now, self._walker.snapshot()

    def restore(self, snapshot: JumpSnapshot) -> None:
        """Come back to the moment of a snapshot."""
        self._now, moment = snapshot
        self._walker.restore(moment)

    # The states

    def _adapt(self, approach: JumpApproach) -> None:
        target = self.target
        approach.start(self._walker)
        self._now = JumpState(
            "adapt",
            deadline_s=approach.duration_s,
            latest_s=approach.duration_s + MAX_WAIT_S,
            request=approach.request,
            resume=target,
            resume_over_s=self._now.resume_over_s,
        )

    def _time_to_strike(self, request: JumpRequest) -> float:
        """Time until the jump may begin, 0 for now [s]."""
        walker, here = self._walker, self._walker.parameters
        if request.kind == "standing":
            return 0.0 if walker.is_settled else TICK_S
        hertz = walker.frequency(here.speed, here.run)
        if hertz <= 0.0:
            return inf
        strike = float(walker.events(here.speed, here.run)[4 * request.side])
        missing = (strike - walker.phase + MAX_PHASE_LATE) % 1.0 - MAX_PHASE_LATE
        if missing <= SAME_PHASE and walker.remaining_s <= TIME_TOL_S:
            return 0.0
        return (missing if missing > SAME_PHASE else missing + 1.0) / hertz

    def _try_take_off(self) -> None:
        """Begin the jump at a heel strike of the take-off foot, or from a stand; wait for it, or give up."""
        now, walker, request = self._now, self._walker, self._now.request
        assert request is not None
        here, wait = walker.parameters, self._time_to_strike(request)
        if wait > 0.0:
            if now.clock_s + wait > now.latest_s:
                warnings.warn("no heel strike in time for the jump; it was given up", MareyWarning, stacklevel=2)
                self._restore_parameters()
            else:
                self._now = replace(now, deadline_s=now.clock_s + wait)
            return
        plan: JumpPlan
        place, heading = walker.position, walker.heading_rad
        if request.kind != "standing":
            plan = plan_leap_for(
                walker, self.jumps, request, here.speed, position=place, heading_rad=heading, phase=walker.phase
            )
            feet = schedule_leap_footholds(plan)
        else:
            stand = PoseFrame(*walker.pose_at(0.0, 0.0, 0.0, np.zeros(2), 0.0))
            clip, body = get_jump_clip(walker, self.jumps, request), self.jumps.skeleton_for(here.leg_length_m)
            plan = plan_standing_jump(body, stand, clip, place, heading)
            # Foot plants of a two-foot jump: both feet leave and land alike
            heel_off, toe_off, strike, toe_strike = clip.events[2:6] * plan.duration_s
            ankle = [(-np.inf, heel_off), (strike, np.inf)]
            toe = [(-np.inf, toe_off), (toe_strike, np.inf)]
            feet = schedule_footholds(body, plan.frame, {0: ankle, 1: toe, 2: ankle, 3: toe})
        self._now = replace(now, stage="leap", clock_s=0.0, deadline_s=plan.duration_s, plan=plan, feet=feet)

    def _land(self) -> None:
        now = self._now
        assert now.plan is not None
        self._walker.place(now.plan.end_phase, now.plan.end_position, now.plan.heading_rad)
        self._now = replace(now, plan=None, feet=None)
        if now.queued is None:
            self._restore_parameters()
            return
        try:
            self._adapt(plan_approach(self._walker, self.jumps, now.queued))
        except InputError as error:
            warnings.warn(f"the next jump was given up: {error}", MareyWarning, stacklevel=2)
            self._restore_parameters()

    def _restore_parameters(self) -> None:
        target, now = self.target, self.parameters
        change = abs(target.speed - now.speed) / RESTORE_ACCELERATION
        over = max(change, SHORTEST_RESTORE_S) if self._now.resume_over_s is None else self._now.resume_over_s
        self._walker.go_to(target, over)
        self._now = JumpState("restore", deadline_s=over, resume=target)
