"""The on-line engine: one character, driven by speed, gait, style, turning and size."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, FloatArray, InputError, frozen
from marey.contacts import PlantEdit
from marey.lie import SO3
from marey.lie.so3 import wrap_unit
from marey.locomotion.checks import check_name, check_number, check_positive, check_time
from marey.locomotion.engine.ground import FOOT_PART, STAIR_HZ, STAIR_ROOM, GroundFollower, Stairs, WalkGround
from marey.locomotion.engine.idle import Idle
from marey.locomotion.engine.own_body import OwnBody
from marey.locomotion.engine.requests import (
    MAX_COORDINATE,
    ParameterChanges,
    ParameterLimiter,
    check_plan,
    resolve_model,
    split_step,
)
from marey.locomotion.model.locomotion_model import LocomotionModel, Style
from marey.locomotion.model.walker import GaitWalker, RawFrame, make_body_arrays
from marey.locomotion.planning.parameters import SCALINGS, GaitParameters
from marey.locomotion.plants.baselines import hold_frame_priority
from marey.locomotion.plants.hold import GOAL_PART, NOTICE_S, TICK_S, TICKS_AHEAD, hold_frame, hold_tick, pose_feet
from marey.locomotion.plants.state import (
    EFFECTOR_POINTS,
    FEET,
    LEG_SOLVERS,
    PLANT_EASE_S,
    RUN_EASE_S,
    PlantForecast,
    PlantOptions,
    PlantState,
    allocate_plant_state,
    make_leg_arrays,
)
from marey.locomotion.steering.course import add_obstacle
from marey.locomotion.steering.decision import ObstacleDecision
from marey.locomotion.steering.obstacles import Obstacle
from marey.locomotion.transitions.approach import JumpAnswer
from marey.locomotion.transitions.clips import ModelJumps
from marey.locomotion.transitions.state_machine import JumpStateMachine
from marey.motion import Contacts, Motion
from marey.skeleton import Pose, Skeleton


class Footprint(NamedTuple):
    """Position and heading of a landed foot."""

    side: str  # "right" or "left"
    position: FloatArray  # (3,) [m] the ankle, in world
    heading_rad: float  # direction of the foot; 0 is +Z, positive to the left
    time_s: float


MAX_FRAMES: Final = 500_000  # more than two hours at 60 Hz
INTERPOLATIONS: Final = ("cubic", "slerp")
PLANT_FLAGS: Final = (np.arange(64)[:, None] >> np.arange(6) & 1).astype(np.bool_)  # of bits that `hold_frame` returns
MAX_FOOTPRINTS: Final = 256  # footprints that are kept

EngineDriver = Callable[["Engine", float], bool]


class Engine:
    """A character that walks, runs, stands and jumps, frame by frame ([Glardon2005]_ part III).

    Phase and place are integrals of the planned parameters, so that they do not depend on the steps they were
    reached by; feet are held to the ground frame by frame.

    Args:
        model: what it has learnt; the shipped model by default.
        leg_length_m: hip to floor [m]; the model's own by default.
        size: instead of a leg length, a factor on the model's own.
        style: a style of the model, a mixture of several, or ``None`` for the model's own mixture.
        scaling: how size and speed go together: ``"froude"`` (short legs step faster), or ``"leg"`` as in the thesis.
        timing: which cycle frequencies: ``"stance"``, ``"glardon"`` or ``"inman"``.
        plants: hold the feet to the ground.
        position: where it starts, ``(x, z)`` [m].
        heading_rad: where it looks; 0 is +Z, positive to the left.
        ik: how legs reach their plants: ``"analytic"`` or ``"priority"``.
        interpolation: between the frames of a unit: ``"cubic"`` in log space, or ``"slerp"`` as in the thesis.
        speed: at the start [m/s], without a ramp.
        run: at the start, 0 walks and 1 runs.
        turn_rate: at the start [rad/s].
        phase: at the start; 0 is a right heel strike, 0.5 about a left one.
        skeleton: a human body of your own instead of the model's; its legs say how far and fast it steps.
        ground: a :class:`Slope`, :class:`Stairs`, or anything that tells its height; level at y = 0 by default.
        edit: changes where feet stand from the next step on, such as :func:`marey.contacts.pigeon_toe`.
        idle: breathe and sway while standing; scripts and live walks do.
    """

    def __init__(
        self,
        model: LocomotionModel | None = None,
        *,
        leg_length_m: float | None = None,
        size: float | None = None,
        style: Style = None,
        scaling: str = "froude",
        timing: str = "stance",
        plants: bool = True,
        position: ArrayLike = (0.0, 0.0),
        heading_rad: float = 0.0,
        ik: str = "analytic",
        interpolation: str = "cubic",
        speed: float = 0.0,
        run: float = 0.0,
        turn_rate: float = 0.0,
        phase: float = 0.0,
        skeleton: Skeleton | None = None,
        ground: WalkGround | None = None,
        edit: PlantEdit | None = None,
        idle: bool = False,
    ) -> None:
        model = resolve_model(model)
        self._body = None if skeleton is None else OwnBody.from_skeleton(skeleton, model)
        model = model if self._body is None else self._body.model
        names = (
            ("scaling", scaling, SCALINGS),
            ("interpolation", interpolation, INTERPOLATIONS),
            ("ik", ik, LEG_SOLVERS),
        )
        for kind, name, known in names:
            check_name(kind, name, "the locomotion engine", known)
        self.model, self.plants = model, bool(plants)
        gaits = model.with_timing(timing)
        self._controller = ParameterLimiter(model, gaits.limits, scaling)
        if leg_length_m is not None and size is not None:
            raise InputError("both leg_length_m and size are given", "Give one of them")
        own_leg = model.leg_length_m if self._body is None else self._body.leg_length_m
        leg = own_leg if leg_length_m is None else check_positive("leg_length_m", leg_length_m)
        leg = leg if size is None else check_positive("size", size) * own_leg
        changes = ParameterChanges(speed=speed, run=run, turn_rate=turn_rate, leg_length_m=leg, style=style)
        # It begins standing in the model's own size and style, with the requested changes.
        standing = GaitParameters(0.0, 0.0, 0.0, model.leg_length_m, model.weights())
        start = self._controller.parameters(standing, changes)
        build = make_body_arrays(
            model.skeleton, model.leg_length_m, froude=scaling == "froude", cubic=interpolation == "cubic"
        )
        numbers = {"phase": check_number("phase", phase), "heading_rad": check_number("heading_rad", heading_rad)}
        place = frozen(position, 2, name="position")
        # Beyond a number so large, a step would be lost in rounding.
        for name, value in (*numbers.items(), ("position", place)):
            if np.abs(value).max() > MAX_COORDINATE:
                raise InputError(f"{name} is {value}", f"Give numbers of at most {MAX_COORDINATE:g}")
        self._walker = GaitWalker(gaits, build, start, position=place, **numbers)
        self._spine = (int(build.spine[0]), model.skeleton.index("spine3"))
        # What holds the feet to the ground
        self._ik, self._tick = ik, -1
        # States of the plants at the last ticks, the first of them not ahead of now, and the plan they were foreseen by
        self._past: deque[PlantState] = deque(maxlen=TICKS_AHEAD + 1)
        self._foreseen = self._walker.intent
        self._shown_tick = 0
        if (ground is not None or edit is not None or idle) and not plants:
            raise InputError("ground, an edit or idle without foot plants", "Leave out plants=False")
        self._legs = make_leg_arrays(model.skeleton) if self._body is None else self._body.legs
        self._planting = allocate_plant_state()
        # What the feet of the level character are changed by: edits of their places, ground under them, an idle stand
        self.edit = edit
        self._ground: GroundFollower | None = None if ground is None else GroundFollower(ground)
        self._asked_speed: float | None = None  # [m/s] after the stairs that it is on
        self._idle: Idle | None = Idle() if idle else None
        self._contacts: BoolArray = np.zeros(4, dtype=np.bool_)
        self._broken: BoolArray = np.zeros(2, dtype=np.bool_)
        self._prints: deque[Footprint] = deque(maxlen=MAX_FOOTPRINTS)
        self._machine: JumpStateMachine | None = None
        self._drivers: list[EngineDriver] = []
        # What it does: seconds since the start, foot events of the last step, the body at its size now, the last frame
        self.time_s = 0.0
        self.events: tuple[str, ...] = ()
        self._skeleton_leg = self._walker.parameters.leg_length_m
        self.skeleton: Skeleton = self._scale_skeleton(self._skeleton_leg)
        self.pose: Pose
        self._show(0.0)

    @property
    def state(self) -> str:
        """``standing``, ``locomotion``, or a state of a jump under way."""
        return self._source.state

    @property
    def is_settled(self) -> bool:
        """Whether the character stands still, and no foot makes a small step."""
        return self.state == "standing" and self._walker.is_settled

    @property
    def phase(self) -> float:
        """Cycles of the gait, unwrapped: whole numbers are right heel strikes."""
        return float(self._source.phase)

    @property
    def position(self) -> FloatArray:
        """Where the character is, ``(x, z)`` [m]: the reference point that moves at its speed, without sway."""
        return np.asarray(self._source.position, dtype=np.float64)

    @property
    def heading_rad(self) -> float:
        """Direction of travel; 0 is +Z, positive to the left."""
        return float(self._source.heading_rad)

    @property
    def speed(self) -> float:
        """Speed [m/s] now."""
        return self.parameters.speed

    @property
    def parameters(self) -> GaitParameters:
        """Parameters now."""
        return self._walker.parameters

    @property
    def targets(self) -> GaitParameters:
        """Parameters at the end of the ramp or plan under way."""
        return self._source.target

    @property
    def leg_length_m(self) -> float:
        """Size now: hip to floor [m]."""
        return self._walker.parameters.leg_length_m

    @property
    def contacts(self) -> BoolArray:
        """Which effectors ``(4,)`` are planned to be on the ground, in the order of ``EFFECTORS``."""
        return self._contacts.copy()

    @property
    def broken(self) -> BoolArray:
        """Whether a plant of the right or the left foot ``(2,)`` that is planned is not kept.

        The leg does not reach it by 2 mm or more, or the foot was twisted by more than 60 degrees and let go.
        """
        return self._broken.copy()

    @property
    def plant_goals(self) -> FloatArray:
        """Where the effectors ``(4, 3)`` [m] are held, are about to land, or were held last."""
        return self._planting.goals()

    @property
    def footprints(self) -> tuple[Footprint, ...]:
        """Recent footprints, the latest last."""
        return tuple(self._prints)

    @property
    def notes(self) -> tuple[str, ...]:
        """Values that the last :meth:`set` clamped, one sentence each."""
        return self._controller.notes

    def frequency_table(self) -> tuple[FloatArray, FloatArray]:
        """Speeds ``(G,)`` [m/s] and cycles per second ``(2, G)`` [Hz] of walk and run, for this size and style."""
        return self._walker.frequency_table()

    # Steering

    def set(
        self,
        *,
        speed: float | None = None,
        run: float | None = None,
        style: Style = None,
        turn_rate: float | None = None,
        leg_length_m: float | None = None,
        over_s: float | None = None,
    ) -> None:
        """Change parameters; a ramp under way is interrupted.

        Without a time, speed and turn rate change smoothly and as fast as a body does: by at most 1.5 m/s² (a
        runner gains 2 m/s² and loses 1.5) and 1.5 rad/s². With a time [s], at least 0.1 s, all change in straight
        lines, however hard that is.

        What is out of the model's range is held at its end, with a :class:`MareyWarning`.

        Raises:
            InputError: a value is not a finite number, or style weights are negative or all zero.
            UnknownNameError: a style is not in the model.
        """
        over = None if over_s is None else check_time("over_s", over_s)
        changes = ParameterChanges(speed=speed, run=run, style=style, turn_rate=turn_rate, leg_length_m=leg_length_m)
        target = self._source.target
        target = target if self._asked_speed is None else target._replace(speed=self._asked_speed)
        wanted = self._limit_on_stairs(self._controller.parameters(target, changes))
        if self._machine is not None and self._machine.is_busy:
            self._machine.set_target(wanted, over)
        else:
            self._walker.go_to(wanted, over)

    def _limit_on_stairs(self, wanted: GaitParameters) -> GaitParameters:
        """Parameters as they are asked for, or, on stairs, slow enough for a step on every tread."""
        if self._asked_speed is None or self._ground is None or not isinstance(self._ground.ground, Stairs):
            return wanted
        self._asked_speed = wanted.speed
        return wanted._replace(speed=min(wanted.speed, 2.0 * STAIR_HZ * self._ground.ground.tread_m), run=0.0)

    def _meet_stairs(self) -> None:
        """Take one tread with every step while the character is on stairs or comes to them.

        A walker changes its cadence while both feet stand: in a swing the foot would jump ahead on its way.
        """
        stairs = None if self._ground is None else self._ground.ground
        if not isinstance(stairs, Stairs):
            return
        stands = self._contacts[:2].any() and self._contacts[2:].any()
        if not stands and self.parameters.run == 0.0:
            return
        room = STAIR_ROOM[0] + STAIR_ROOM[1] * self.speed**2
        is_near = stairs.is_near(self.position, self.heading_rad, room)
        if is_near and self._asked_speed is None:
            self._asked_speed = self.targets.speed
            self._walker.keep_step(stairs.tread_m)
            self._walker.go_to(self._limit_on_stairs(self.targets))
        elif not is_near and self._asked_speed is not None:
            wanted, self._asked_speed = self.targets._replace(speed=self._asked_speed), None
            self._walker.keep_step(None)
            self._walker.go_to(wanted)

    def follow_plan(
        self,
        times_s: ArrayLike,
        speed: ArrayLike,
        run: ArrayLike | None = None,
        turn_rate: ArrayLike | None = None,
    ) -> None:
        """Take parameters from knots at times ``(P,)`` [s] from now, linear between, the last held.

        A plan replaces a ramp under way; a later :meth:`set` or plan replaces it.

        Raises:
            InputError: times do not increase from zero, or a value is not finite or negative.
        """
        self._walker.follow_plan(*check_plan(self._controller, self.parameters, times_s, speed, run, turn_rate))

    def jump(self, length_m: float, kind: str = "walk", **options: Any) -> JumpAnswer:
        """Jump over a length [m], take-off toe to landing heel; see :meth:`JumpStateMachine.jump` for options.

        Args:
            length_m: out of the model's range it is held at its end, with a warning.
            kind: ``"walk"`` or ``"run"`` (one foot, from that gait), or ``"standing"`` (both feet).
            **options: ``height_m``, ``priority``, ``takeoff``, ``foot``.
        """
        if self._ground is not None:
            raise InputError("a jump on a slope or stairs", "Jumps are planned on level ground: leave out `ground`")
        return self.jumper.jump(length_m, kind, **options)

    @property
    def jumper(self) -> JumpStateMachine:
        """The jump machine round the walker."""
        if self._machine is None:
            self._machine = JumpStateMachine(self._walker, ModelJumps(self.model, self._controller.scaling))
        return self._machine

    @property
    def takeoff(self) -> tuple[float, float] | None:
        """Where the toe of a jump under way takes off, ``(x, z)`` [m]; ``None`` without one."""
        return None if self._machine is None else self._machine.takeoff

    def add_obstacle(self, obstacle: Obstacle, **options: Any) -> ObstacleDecision:
        """Put an obstacle in the way; returns whether it will be jumped over or walked round, and why."""
        return add_obstacle(self, obstacle, **options)

    def cancel_jump(self) -> None:
        """Give up a jump that has not begun."""
        if self._machine is not None:
            self._machine.cancel()

    def add_driver(self, driver: EngineDriver) -> None:
        """Call ``driver(engine, dt)`` before every step, until it returns ``False``."""
        if not callable(driver):
            raise InputError(f"driver is {driver!r}", "Give a function of the engine and a time step")
        self._drivers.append(driver)

    # Time

    def step(self, dt: float) -> Pose:
        """Move on by ``dt`` [s] and return the pose.

        Raises:
            InputError: ``dt`` is negative or not a finite number.
        """
        events: tuple[str, ...] = ()
        for share in split_step(check_time("dt", dt)):
            self._drivers = [driver for driver in self._drivers if driver(self, share)]
            self._meet_stairs()
            events = (*events, *self._source.advance(share))
            self.time_s += share
            self._show(share)
        self.events = events
        return self.pose

    def predict(self, tau: float) -> Pose:
        """Pose that will be reached in ``tau`` [s] with the parameters as they are planned; changes nothing."""
        ahead_s = check_time("tau", tau)
        if ahead_s == 0.0:
            return self.pose
        source, go_back = self._source, self._remember()
        planting, tick, contacts, broken = self._planting.copy(), self._tick, self._contacts, self._broken
        ground = None if self._ground is None else self._ground.copy()
        idle = None if self._idle is None else self._idle.copy()
        past, foreseen, shown = self._past.copy(), self._foreseen, self._shown_tick
        try:
            # From tick to tick of the foot plants, which are the same whatever the frames are
            times = np.arange(np.floor(self.time_s / TICK_S) + 1.0, (self.time_s + ahead_s) / TICK_S) * TICK_S
            now, frame = self.time_s, source.frame()
            for time_s in (*times, self.time_s + ahead_s):
                source.advance(max(time_s - now, 0.0))
                dt, now, frame = time_s - now, float(time_s), source.frame()
                if self.plants:
                    self._plant_feet(now, frame)
                touch = self._contacts if self.plants else frame.planted
                self._adjust(now, dt, frame, self._walker.show_feet(frame.root_position, frame.rotations, touch))
            return self._build_pose(frame)
        finally:
            # The character is left as it was.
            go_back()
            self._planting, self._tick, self._contacts, self._broken = planting, tick, contacts, broken
            self._ground, self._idle = ground, idle
            self._past, self._foreseen, self._shown_tick = past, foreseen, shown

    def run(self, seconds: float, rate_hz: float = 60.0) -> Motion:
        """Let time pass and return the motion, first frame now.

        Raises:
            InputError: the time or the rate is not positive, or the motion would have too many frames.
        """
        rate = check_positive("rate_hz", rate_hz)
        count = round(check_time("seconds", seconds) * rate)
        if not 1 <= count <= MAX_FRAMES:
            raise InputError(f"{seconds} s at {rate_hz} Hz are {count} frames", f"Make 1 to {MAX_FRAMES} of them")
        start, poses, contacts = self.time_s, [self.pose], [self.contacts]
        for i in range(1, count + 1):
            poses.append(self.step(max(start + i / rate - self.time_s, 0.0)))
            contacts.append(self.contacts)
        return build_clip(poses, rate, np.stack(contacts), name="locomotion")

    def _remember(self) -> Callable[[], None]:
        """Remember this moment of what moves the character; returns what comes back to it."""
        machine, walker = self._machine, self._walker
        if machine is not None:
            jump = machine.snapshot()
            return lambda: machine.restore(jump)
        moment = walker.snapshot()
        return lambda: walker.restore(moment)

    @property
    def _source(self) -> GaitWalker | JumpStateMachine:
        return self._walker if self._machine is None else self._machine

    def _show(self, dt: float) -> None:
        """Make the pose of this moment: what the source shows, with its feet on the ground."""
        frame = self._source.frame()
        before = self._contacts
        if self.plants:
            self._plant_feet(self.time_s, frame)
        else:
            self._contacts, self._planting, self._tick = frame.planted.copy(), allocate_plant_state(), -1
        feet = self._walker.show_feet(frame.root_position, frame.rotations, self._contacts)
        feet = self._adjust(self.time_s, dt, frame, feet)
        # Footprints of the feet that were in the air and are not
        down, was_down = self._contacts.tolist(), before.tolist()
        for side in range(2):
            pair = slice(2 * side, 2 * side + 2)
            if any(down[pair]) and not any(was_down[pair]):
                ankle, toe = feet[2 * side], feet[2 * side + 1]
                heading = float(np.arctan2(toe[0] - ankle[0], toe[2] - ankle[2]))
                self._prints.append(Footprint(FEET[side], ankle.copy(), heading, self.time_s))
        # One skeleton for all frames of one size
        if abs(frame.leg_length_m - self._skeleton_leg) > 1e-12:
            self.skeleton, self._skeleton_leg = self._scale_skeleton(frame.leg_length_m), frame.leg_length_m
        self.pose = self._build_pose(frame)

    def _scale_skeleton(self, leg_length_m: float) -> Skeleton:
        """The character's own skeleton with legs of a length [m]."""
        if self._body is None:
            return self.model.skeleton_for(leg_length_m)
        return self._body.skeleton.scaled(leg_length_m / self._body.leg_length_m)

    def _build_pose(self, frame: RawFrame) -> Pose:
        """Pose of the character's own skeleton for a frame of the model's body."""
        is_shown = abs(frame.leg_length_m - self._skeleton_leg) <= 1e-12
        skeleton = self.skeleton if is_shown else self._scale_skeleton(frame.leg_length_m)
        if self._body is None:
            return Pose(skeleton, frame.root_position, wrap_unit(frame.rotations))
        return self._body.pose(skeleton, frame.root_position, frame.rotations, frame.leg_length_m)

    def _adjust(self, time_s: float, dt: float, frame: RawFrame, feet: FloatArray) -> FloatArray:
        """Change a planted frame, in place, for the ground and an idle stand; returns its effectors ``(4, 3)`` [m].

        ``feet`` ``(4, 3)`` [m] are the effectors before.
        """
        is_idle = self._idle is not None and (self._idle.share > 0.0 or self.is_settled)
        if self._ground is None and not is_idle:
            return feet
        root, rotations, shown = frame.root_position, frame.rotations, feet.copy()
        ankles, turns = shown[[0, 2]], [SO3.identity(1)[0]] * 2
        moved = False
        if self._idle is not None:
            moved = self._idle.move(self.is_settled, time_s, dt, frame, self._spine)
        if self._ground is not None:
            scale = frame.leg_length_m / self.model.leg_length_m
            hips = root + (SO3(rotations[0]) @ (scale * self._legs.offsets[self._legs.joints[:, 0]]))
            reach = scale * float((self._legs.reach - self._legs.rest[[0, 2]]).mean())
            steps = tuple(
                (
                    bool(frame.planted[2 * side : 2 * side + 2].any()),
                    float(frame.until_s[2 * side : 2 * side + 2].min()),
                    partial(self._find_foothold, side, float(frame.until_s[2 * side : 2 * side + 2].min())),
                )
                for side in range(2)
            )
            rise, goals, turns = self._ground.follow(time_s, dt, (root, hips, ankles, shown[[1, 3]], reach), steps)
            ankles, moved = np.stack(goals), True
            root[1] += rise
            self._ground.lean(frame, self.heading_rad, dt, (self._spine[0], self.model.skeleton.index("neck")))
        if not moved:
            return shown
        scale = frame.leg_length_m / self.model.leg_length_m
        pose_feet(scale, self._legs, ankles, np.stack([turn.wxyz for turn in turns]), root, rotations)
        if self._ground is not None:
            self._ground.bend_toes(self._legs.joints, frame)
        return self._walker.effectors(root, rotations)

    def _find_foothold(self, side: int, until_s: float) -> FloatArray:
        """Middle ``(2,)`` [m] of a foot where it stands, or where it will after ``until_s`` [s]."""
        foot, heading = self._planting.feet[side], self.heading_rad
        half = 0.5 * FOOT_PART * self.leg_length_m
        if foot["ankle_held"] or foot["toe_held"] or until_s < NOTICE_S - TICKS_AHEAD * TICK_S:
            is_held, on_ball = foot["ankle_held"] or foot["toe_held"], foot["on_ball"]
            at = foot["landing_goal"] if not is_held else foot["toe_goal"] if on_ball else foot["heel_goal"]
            way = -0.5 * half if on_ball else half
            return np.array([at[0] + way * np.sin(heading), at[2] + way * np.cos(heading)])
        # Nobody has looked so far ahead: where a steady gait would set it
        ahead_s = min(until_s, 1.0)
        turn = self.parameters.turn_rate * ahead_s
        to = heading + 0.5 * turn
        carriage = self.position + self.speed * ahead_s * np.array([np.sin(to), np.cos(to)])
        feet = self._walker.stance(side, self.speed, self.parameters.run, carriage, heading + turn)
        place = feet.mean(axis=0)[[0, 2]]
        if self._ground is not None:
            place = self._ground.ground.foothold(float(place[0]), float(place[1]), 2.0 * half, heading + turn)
        return np.asarray(place)

    def _edit_landings(self, frame: RawFrame) -> RawFrame:
        """Move and turn the footholds of a frame, in place, as the edit asks and as the ground has room."""
        if self.edit is None and self._ground is None:
            return frame
        for side, foot in enumerate(FEET):
            a, t = 2 * side, 2 * side + 1
            if frame.planted[a] or frame.planted[t] or min(frame.until_s[a], frame.until_s[t]) > NOTICE_S:
                continue
            # A foot stands the larger part of the way from where it lands to where it would be in mid-stance
            ankle, ball = (frame.landing[row] + GOAL_PART * frame.shift[row] for row in (a, t))
            along = ball - ankle
            heading = float(np.arctan2(along[0], along[2]))
            place, turned = ankle.copy(), heading
            if self.edit is not None:
                place, turned = self.edit(foot, ankle.copy(), heading)
                place, turned = np.asarray(place, dtype=np.float64), float(turned)
                if place.shape != (3,) or not np.isfinite([*place, turned]).all():
                    raise InputError(
                        "an edit of a foot plant gave no point", "Return three finite numbers and an angle"
                    )
            along = SO3.exp(np.array([0.0, turned - heading, 0.0])) @ along
            if self._ground is not None:
                middle, size = place + 0.5 * along, FOOT_PART * frame.leg_length_m
                place = place + self._ground.choose(side, middle, size, turned) - middle
            for row, change in ((a, place - ankle), (t, place + along - ball)):
                frame.shift[row, [0, 2]] += change[[0, 2]] / GOAL_PART
            frame.yaw[side] += turned - heading
        return frame

    def _plant_feet(self, time_s: float, frame: RawFrame) -> None:
        """Hold the feet of a frame to the ground, in place."""
        ease_s = PLANT_EASE_S + self._walker.run * (RUN_EASE_S - PLANT_EASE_S)
        options = PlantOptions(ease_s, 0.0, frame.leg_length_m / self.model.leg_length_m)
        now = int(time_s / TICK_S + 1e-6)
        self._work_out_ticks(now + TICKS_AHEAD, time_s, options)
        self._shown_tick = now
        u = min(max(time_s / TICK_S - now, 0.0), 1.0)
        hold = hold_frame if self._ik == "analytic" else hold_frame_priority
        bits = hold(u, frame.planted, options, self._legs, self._planting, frame.root_position, frame.rotations)
        self._contacts, self._broken = PLANT_FLAGS[bits, :4], PLANT_FLAGS[bits, 4:]

    def _work_out_ticks(self, last: int, time_s: float, options: PlantOptions) -> None:
        """Corrections of the feet up to a tick, as the character is planned to go on; it is left where it is."""
        source, intent = self._source, self._walker.intent
        if intent != self._foreseen and self._tick >= 0:
            # What was foreseen by another plan is worked out anew, but for the next tick, which shows already.
            while len(self._past) > 1 and self._tick > self._shown_tick + 1:
                self._past.pop()
                self._planting, self._tick = self._past[-1].copy(), self._tick - 1
        self._foreseen = intent
        if self._tick >= last:
            return
        go_back = self._remember()
        self._walker.look_ahead()
        # A character that begins has had the corrections of its first moment.
        self._tick = max(self._tick, last - TICKS_AHEAD - 1)
        while self._tick < last:
            self._tick += 1
            source.advance(max(self._tick * TICK_S - time_s, 0.0))
            time_s = max(self._tick * TICK_S, time_s)
            frame = self._edit_landings(source.frame(is_low=True))
            forecast = PlantForecast(*frame[2:5], *frame[6:])
            then = options._replace(scale=frame.leg_length_m / self.model.leg_length_m)
            hold_tick(forecast, then, self._legs, self._planting, frame.root_position, frame.rotations)
            self._past.append(self._planting.copy())
        go_back()


def build_clip(poses: list[Pose], rate_hz: float, contacts: BoolArray, *, name: str) -> Motion:
    """A clip of poses with its contact track ``(F, 4)``; of a body that changes its size, with moving bones."""
    skeleton = poses[0].skeleton
    grew = any(pose.skeleton is not skeleton for pose in poses)
    return Motion(
        skeleton,
        rate_hz,
        np.stack([pose.root_position for pose in poses]),
        SO3(np.stack([pose.rotations.wxyz for pose in poses])),
        Contacts(EFFECTOR_POINTS, contacts),
        np.stack([pose.skeleton.offsets for pose in poses]) if grew else None,
        name=name,
    )
