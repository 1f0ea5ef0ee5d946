"""The walker: plays the gait model along a plan; its frames are not yet held to the ground.

A ``RawFrame`` is what the walker, and the jump state machine round it, hand to what holds the feet to the ground.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marey.base import BoolArray, FloatArray
from marey.locomotion.model.clockwork import (
    FOOT,
    HEADING,
    LEADS,
    NEVER_S,
    NOW,
    PHASE,
    SINCE,
    STOOD,
    ParameterPlan,
    WalkerState,
    X,
    advance_walker,
    cycle_rate,
    write_placement,
    write_walker_frame,
)
from marey.locomotion.model.locomotion_model import EVENTS, GaitArrays
from marey.locomotion.model.synthesis import (
    NUM_PLACING,
    BodyArrays,
    evaluate_foot_events,
    write_effectors,
    write_pose,
)
from marey.locomotion.planning.parameters import (
    FOLLOWING,
    HASTE,
    LEG,
    MAX_MID_STANCE_S,
    POSTURE,
    RUN,
    SPEED,
    STYLES,
    TURN,
    GaitParameters,
    PostureLaw,
    StepLaw,
    comfortable_times,
    overlay_plan,
    plan_constant,
    plan_ramp,
    plan_through_knots,
)
from marey.skeleton import Skeleton


class RawFrame(NamedTuple):
    """One frame before foot plants, and what the plants need to know of the future; the arrays are the taker's own.

    Feet are in the order of ``EFFECTORS``: right ankle, right toe, left ankle, left toe.
    """

    root_position: FloatArray  # (3,) [m] in world
    rotations: FloatArray  # (J, 4) wxyz, R_parent_joint; the root's is R_world_root
    planted: BoolArray  # (4,) on the ground now
    until_s: FloatArray  # (4,) [s] to the start of the next plant; NEVER_S where none is in sight
    landing: FloatArray  # (4, 3) [m] raw effectors in world at that start; where they are now if none is in sight
    leg_length_m: float  # the body's size now
    shift: FloatArray  # (4, 3) [m] added to where effectors land, so that they stand well
    yaw: FloatArray  # (2,) [rad] added to the right and the left foot when they land


INITIAL_SETTLING: Final = np.array(
    [-1.0, -10.0, 3.0, 0.0, 1.0, 0.0, NEVER_S]
)  # none steps or did for long, both stand well
_STARTS: Final = (0, 1, 4, 5)  # events at which each effector comes down
_ENDS: Final = (2, 3, 6, 7)


WalkerSnapshot = tuple[ParameterPlan, NDArray[np.uint8]]
"""A walker at one time: its plan and the bytes of its arrays."""


class GaitWalker:
    """One character that walks, runs and stands as its parameters say.

    Its state is a function of time since the last change of plan, whatever the steps between were.
    """

    def __init__(
        self,
        gaits: GaitArrays,
        build: BodyArrays,
        start: GaitParameters,
        *,
        phase: float = 0.0,
        position: ArrayLike = (0.0, 0.0),
        heading_rad: float = 0.0,
    ) -> None:
        self._gaits, self._build, self._num_plans = gaits, build, 0
        self._posture, self._num_low = PostureLaw(build.own_leg, build.froude, gaits.power), int(build.legs.max()) + 1
        # All arrays lie in one piece of memory, so that a moment is remembered by one copy
        self._memory, self._arrays = join_memory(allocate_walkers(STYLES + len(start.weights)))
        self._replan(*plan_constant(start.row()[None], self._posture))
        self.place(phase, position, heading_rad)

    @property
    def state(self) -> str:
        """``standing`` or ``locomotion``."""
        return "standing" if self._arrays.settling[STOOD] > 0.0 else "locomotion"

    @property
    def is_settled(self) -> bool:
        """Whether the walker stands still, and no foot makes a small step."""
        return bool(self._arrays.settling[STOOD] > 0.0 and self._arrays.settling[FOOT] < 0.0)

    @property
    def phase(self) -> float:
        """Cycles since the start, unwrapped: whole numbers are right heel strikes."""
        return float(self._arrays.state[PHASE])

    @property
    def position(self) -> FloatArray:
        """Where the carriage is, ``(x, z)`` [m]."""
        return self._arrays.state[X:HEADING].copy()

    @property
    def heading_rad(self) -> float:
        """Direction of travel; 0 is +Z, positive to the left."""
        return float(self._arrays.state[HEADING])

    @property
    def parameters(self) -> GaitParameters:
        """Parameters now."""
        return GaitParameters.from_row(self._arrays.here)

    @property
    def run(self) -> float:
        """Share of running now."""
        return float(self._arrays.here[RUN])

    @property
    def intent(self) -> tuple[int, float]:
        """Number that another plan changes, and the side of the small step under way, or -1."""
        return self._num_plans, float(self._arrays.settling[FOOT])

    @property
    def target(self) -> GaitParameters:
        """Parameters at the end of the plan."""
        return GaitParameters.from_row(self._plan.values[-1])

    @property
    def remaining_s(self) -> float:
        """Time [s] to the end of the plan."""
        return max(float(self._plan.knots[-1] - self._arrays.clock[NOW]), 0.0)

    def go_to(self, parameters: GaitParameters, over_s: float | None = None) -> None:
        """Change parameters in straight lines over a time [s], at least 0.1 s; without one smoothly, as a body does.

        Those that are asked for what the plan brings anyway go on as planned.
        """
        to, times, rows = parameters.row(), *self._remaining_plan()
        changed = to != rows[-1]
        changed[FOLLOWING], changed[STYLES:] = False, changed[STYLES:].any()
        if len(times) == 1:
            ends = comfortable_times(rows, to[None]) if over_s is None else np.full((1, len(to)), over_s)
            self._replan(*plan_ramp(rows, to[None], ends, self._posture, smooth=over_s is None))
        else:
            self._replan(*overlay_plan(times, rows, to, changed, over_s, self._posture))

    def follow_plan(
        self,
        times_s: ArrayLike,
        speed: ArrayLike,
        run: ArrayLike | None = None,
        turn_rate: ArrayLike | None = None,
    ) -> None:
        """Take speed [m/s], run and turn rate [rad/s] from knots ``(P,)`` at times [s] from now, and hold the last.

        The value at time zero, if it is not the first knot, is the present one.
        """
        times = np.asarray(times_s, dtype=np.float64)
        rows = np.repeat(self._arrays.here[None], len(times), axis=0)
        for column, asked in ((SPEED, speed), (RUN, run), (TURN, turn_rate)):
            if asked is not None:
                rows[:, column] = asked
        if times[0] > 0.0:
            times, rows = np.r_[0.0, times], np.concatenate([self._arrays.here[None], rows])
        self._replan(*plan_through_knots(times, rows, self._arrays.here, self._posture))

    def keep_step(self, step_m: float | None) -> None:
        """Make steps of one length [m] from the next change of parameters on, at any speed; None: as the gait is."""
        speeds, hertz = self.frequency_table()
        self._posture = self._posture._replace(step=None if step_m is None else StepLaw.fit(step_m, speeds, hertz[0]))

    def place(self, phase: float, position: ArrayLike, heading_rad: float) -> None:
        """Put the walker at a phase and a place at once; the plan goes on."""
        arrays, at = self._arrays, np.asarray(position, dtype=np.float64)
        # Cut from the plan what is past, so that the state at its start may be changed
        times, rows = self._remaining_plan()
        self._replan(times[None], rows[None])
        arrays.clock[PHASE:] = phase, at[0], at[1], heading_rad
        arrays.settling[:] = INITIAL_SETTLING
        advance_walker(self._gaits, self._build, self._plan, arrays, 0.0)
        self.frame()
        arrays.feet[:] = arrays.ease

    def advance(self, dt: float) -> tuple[str, ...]:
        """Move on by ``dt`` [s]; returns the foot events that were passed."""
        before = self._arrays.held.tolist()
        advance_walker(self._gaits, self._build, self._plan, self._arrays, dt)
        after = self._arrays.held.tolist()
        if after == before:
            return ()
        return tuple(EVENTS[_STARTS[e] if after[e] else _ENDS[e]] for e in range(4) if after[e] != before[e])

    def frame(self, *, is_low: bool = False) -> RawFrame:
        """Current frame and next landings; does not change the state. A low one ends with the joints of the toes."""
        joints = self._num_low if is_low else len(self._build.offsets)
        root, rotations, landing = np.empty(3), np.empty((joints, 4)), np.empty((4, 3))
        arrays = self._arrays
        write_walker_frame(self._gaits, self._build, arrays, root, rotations, landing)
        leg, bent = float(arrays.here[LEG]), (arrays.shift.copy(), arrays.yaw.copy())
        return RawFrame(root, rotations, arrays.held.copy(), arrays.until.copy(), landing, leg, *bent)

    def pose_at(
        self, phase: float, speed: float, run: float, position: ArrayLike, heading_rad: float
    ) -> tuple[FloatArray, FloatArray]:
        """Root and local rotations of a steady gait at a phase and a place; styles and size are those of now."""
        here, place = self._arrays.here.copy(), np.empty(NUM_PLACING)
        here[SPEED], here[RUN], here[FOLLOWING] = speed, run, 0.0
        step = self._posture.step
        here[POSTURE] = self.normal_speed(speed if step is None else min(speed, step.slow)) ** self._gaits.power
        state = np.array([0.0, 0.0, 0.0, phase, *np.asarray(position, dtype=np.float64), heading_rad])
        write_placement(self._gaits, self._build, state, here, place)
        root, rotations = np.empty(3), np.empty((len(self._build.offsets), 4))
        write_pose(self._gaits, self._build, here[STYLES:], place, root, rotations)
        return root, rotations

    def stance(self, side: int, speed: float, run: float, position: ArrayLike, heading_rad: float) -> FloatArray:
        """Where ankle and toe ``(2, 3)`` [m] of a foot are held whose heel strikes with the carriage here.

        It is where they are, unplanted, in the middle of the flat stance of a gait that goes straight on. The plants
        lay the foot level from the ankle on. ``side`` 0 is right, 1 left.
        """
        step = self._posture.step
        hertz = self.frequency(speed, run) if step is None else 0.5 * speed / step.step_m
        events = self.events(speed if step is None else min(speed, step.slow), run)[4 * side : 4 * side + 4]
        middle = max(0.5 * float(events[1] + events[2]) - float(events[0]), 0.0)
        ahead = speed * min(middle / hertz, MAX_MID_STANCE_S) if hertz > 0.0 else 0.0
        place = np.asarray(position, dtype=np.float64) + ahead * np.array([np.sin(heading_rad), np.cos(heading_rad)])
        pose = self.pose_at(float(events[0]) + middle, speed, run, place, heading_rad)
        return self.effectors(*pose)[2 * side : 2 * side + 2]

    def show_feet(self, root: FloatArray, rotations: FloatArray, touch: BoolArray) -> FloatArray:
        """Tell the walker the pose that is shown, after foot plants; returns its effectors ``(4, 3)`` [m].

        ``touch`` ``(4,)`` are the effectors that the plants hold.
        """
        self._arrays.feet[:] = self.effectors(root, rotations)
        self._arrays.touch[:] = touch
        return self._arrays.feet

    def effectors(self, root: FloatArray, rotations: FloatArray) -> FloatArray:
        """Ankles and toes ``(4, 3)`` [m] of a pose of this body."""
        out = np.empty((4, 3))
        write_effectors(self._build, float(self._arrays.here[LEG]), root, rotations, out)
        return out

    def normal_speed(self, speed: float) -> float:
        """Normalised speed [1/s] of a body of this size."""
        leg = float(self._arrays.here[LEG])
        return speed / float(np.sqrt(leg * self._build.own_leg)) if self._build.froude else speed / leg

    def frequency(self, speed: float, run: float) -> float:
        """Cycles per second [Hz] of a steady gait; styles and size are those of now."""
        here = self._arrays.here.copy()
        here[SPEED], here[RUN], here[HASTE] = speed, run, 0.0
        return cycle_rate(self._gaits, self._build, here)

    def frequency_table(self) -> tuple[FloatArray, FloatArray]:
        """Speeds ``(G,)`` [m/s] and cycles per second ``(2, G)`` [Hz] of walk and run, between which all is linear."""
        speeds = self._gaits.speeds / self.normal_speed(1.0)
        return speeds, np.array([[self.frequency(float(speed), run) for speed in speeds] for run in (0.0, 1.0)])

    def events(self, speed: float, run: float) -> FloatArray:
        """Unwrapped phases ``(8,)`` of the foot events of a steady gait."""
        out = np.empty(8)
        evaluate_foot_events(self._gaits, self.normal_speed(speed), float(run), self._arrays.here[STYLES:], out)
        return out

    def look_ahead(self) -> None:
        """Begin no small steps until :meth:`restore`: frames to come are foreseen without them."""
        self._arrays.settling[LEADS] = 1.0

    def snapshot(self) -> WalkerSnapshot:
        """Remember this moment."""
        return self._plan, self._memory.copy()

    def restore(self, snapshot: WalkerSnapshot) -> None:
        """Come back to a moment; a snapshot may be restored many times."""
        self._plan, self._memory[:] = snapshot

    def _replan(self, knots: FloatArray, values: FloatArray) -> None:
        arrays = self._arrays
        arrays.settling[SINCE] -= arrays.clock[NOW]
        arrays.clock[:PHASE] = 0.0
        arrays.clock[PHASE:] = arrays.state[PHASE:]
        self._plan = ParameterPlan(np.ascontiguousarray(knots[0]), np.ascontiguousarray(values[0]))
        self._num_plans += 1

    def _remaining_plan(self) -> tuple[FloatArray, FloatArray]:
        """Knots [s from now] and parameters of what is left of the plan, beginning now."""
        t, plan = float(self._arrays.clock[NOW]), self._plan
        later = plan.knots > t
        now = self._arrays.here if t > 0.0 else plan.values[0]
        return np.r_[0.0, plan.knots[later] - t], np.concatenate([now[None], plan.values[later]])


def allocate_walkers(num_parameters: int, *batch: int) -> WalkerState:
    """Memory of walkers that have not begun, characters first."""
    shapes: dict[str, tuple[int, ...]] = {"clock": (7,), "state": (7,), "here": (num_parameters,), "settling": (7,)}
    shapes |= {"until": (4,), "places": (7, NUM_PLACING), "shift": (4, 3), "yaw": (2,), "ease": (4, 3), "feet": (4, 3)}
    arrays = {name: np.zeros((*batch, *shape)) for name, shape in shapes.items()}
    arrays["settling"] += INITIAL_SETTLING
    held, touch = np.zeros((*batch, 4), dtype=np.bool_), np.ones((*batch, 4), dtype=np.bool_)
    return WalkerState(held=held, touch=touch, **arrays)


def join_memory(state: WalkerState) -> tuple[NDArray[np.uint8], WalkerState]:
    """Copy arrays into one piece of memory, each at a multiple of eight bytes; returns it and the arrays in it."""
    firsts = np.cumsum([0, *(-(-array.nbytes // 8) * 8 for array in state)])
    memory, parts = np.zeros(firsts[-1], dtype=np.uint8), list[NDArray[Any]]()
    for first, array in zip(firsts, state, strict=False):
        parts.append(memory[first : first + array.nbytes].view(array.dtype).reshape(array.shape))
        parts[-1][:] = array
    return memory, WalkerState(*parts)


@lru_cache(maxsize=16)
def make_body_arrays(skeleton: Skeleton, leg_length_m: float, *, froude: bool, cubic: bool) -> BodyArrays:
    """What all characters of a model share, as arrays."""
    parts = ("hip", "knee", "ankle", "foot")
    legs = np.array([[skeleton.index(f"{side}_{part}") for part in parts] for side in ("right", "left")])
    offsets = np.ascontiguousarray(skeleton.offsets, dtype=np.float64)
    spine = np.array([skeleton.index(name) for name in ("spine1", "spine2", "spine3", "neck")])
    low = int(legs[:, 2].max()) + 1
    return BodyArrays(offsets, legs.astype(np.int64), low, float(leg_length_m), spine, froude, cubic)
