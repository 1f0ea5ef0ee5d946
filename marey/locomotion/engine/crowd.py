"""Many characters at once: the clockwork and the foot plants of the engine over arrays, one row for each character."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, FloatArray, InputError, frozen, kernel
from marey.lie import SO3
from marey.locomotion.checks import check_name, check_number, check_time
from marey.locomotion.engine.requests import LEG_RANGE_M, MAX_COORDINATE, MAX_TURN_RATE, resolve_model, split_step
from marey.locomotion.model.clockwork import (
    HEADING,
    LEADS,
    NOW,
    PHASE,
    SINCE,
    ParameterPlan,
    WalkerState,
    X,
    advance_walker,
    write_walker_frame,
)
from marey.locomotion.model.locomotion_model import GaitArrays, LocomotionModel, Style
from marey.locomotion.model.synthesis import LEG_AT, BodyArrays, write_effectors
from marey.locomotion.model.walker import allocate_walkers, make_body_arrays
from marey.locomotion.planning.parameters import (
    LEG,
    RAMP_TOTAL,
    RUN,
    SCALINGS,
    SPEED,
    STYLES,
    TURN,
    PostureLaw,
    comfortable_times,
    plan_constant,
    plan_ramp,
)
from marey.locomotion.plants.hold import TICK_S, TICKS_AHEAD, hold_frame, hold_tick
from marey.locomotion.plants.state import (
    PLANT_EASE_S,
    RUN_EASE_S,
    LegArrays,
    PlantForecast,
    PlantOptions,
    PlantState,
    allocate_plant_state,
    make_leg_arrays,
)
from marey.skeleton import Pose


class CrowdModel(NamedTuple):
    """What all characters share."""

    gaits: GaitArrays
    build: BodyArrays
    legs: LegArrays


@kernel
def walker_at(walkers: WalkerState, i: int) -> WalkerState:
    """State of one walker, as views."""
    return WalkerState(
        walkers.clock[i],
        walkers.state[i],
        walkers.here[i],
        walkers.held[i],
        walkers.settling[i],
        walkers.until[i],
        walkers.places[i],
        walkers.shift[i],
        walkers.yaw[i],
        walkers.ease[i],
        walkers.feet[i],
        walkers.touch[i],
    )


@kernel
def move_crowd(
    model: CrowdModel,
    plans: ParameterPlan,
    walkers: WalkerState,
    dt: float,
    roots: FloatArray,
    rotations: FloatArray,
    landings: FloatArray,
) -> None:
    """Move all walkers on by ``dt`` [s] and pose them; every array has the characters first."""
    for i in range(roots.shape[0]):
        plan, walker = ParameterPlan(plans.knots[i], plans.values[i]), walker_at(walkers, i)
        advance_walker(model.gaits, model.build, plan, walker, dt)
        write_walker_frame(model.gaits, model.build, walker, roots[i], rotations[i], landings[i])


@kernel
def plant_crowd(
    model: CrowdModel,
    plans: ParameterPlan,
    walkers: WalkerState,
    states: PlantState,
    ticks: tuple[float, float],
    done: FloatArray,
    roots: FloatArray,
    rotations: FloatArray,
) -> None:
    """Plant all feet, and pass their positions to the walkers.

    ``ticks`` are the time now and the tick up to which the plants are worked out; ``done`` ``(n,)`` are those that are.
    """
    gaits, build = model.gaits, model.build
    now, last = ticks
    # Ahead of now, joints up to those of the toes are posed alone
    root, pose, landing = np.empty(3), np.empty((build.legs.max() + 1, 4)), np.empty((4, 3))
    for i in range(roots.shape[0]):
        walker, plan = walker_at(walkers, i), ParameterPlan(plans.knots[i], plans.values[i])
        leg = walker.places[0, LEG_AT]
        ease_s = PLANT_EASE_S + walker.here[RUN] * (RUN_EASE_S - PLANT_EASE_S)
        options = PlantOptions(ease_s, 0.0, leg / build.own_leg)
        state = PlantState(states.feet[i], states.root_drop[i], states.drops[i])
        if done[i] < last:
            # The corrections of the feet to come, by a copy of the walker that goes ahead
            lead = WalkerState(
                walker.clock.copy(),
                walker.state.copy(),
                walker.here.copy(),
                walker.held.copy(),
                walker.settling.copy(),
                walker.until.copy(),
                walker.places.copy(),
                walker.shift.copy(),
                walker.yaw.copy(),
                walker.ease.copy(),
                walker.feet.copy(),
                walker.touch.copy(),
            )
            lead.settling[LEADS] = 1.0
            at, tick = now, max(done[i], last - TICKS_AHEAD - 1)
            while tick < last:
                tick += 1.0
                advance_walker(gaits, build, plan, lead, max(tick - at, 0.0) * TICK_S)
                at = max(tick, at)
                write_walker_frame(gaits, build, lead, root, pose, landing)
                forecast = PlantForecast(lead.held, lead.until, landing, lead.shift, lead.yaw)
                then = PlantOptions(ease_s, 0.0, lead.places[0, LEG_AT] / build.own_leg)
                hold_tick(forecast, then, model.legs, state, root, pose)
        done[i] = last
        u = min(max(now - (last - TICKS_AHEAD), 0.0), 1.0)
        bits = hold_frame(u, walker.held, options, model.legs, state, roots[i], rotations[i])
        write_effectors(build, leg, roots[i], rotations[i], walker.feet)
        for e in range(4):
            walker.touch[e] = np.bool_((bits >> e) & 1)


MAX_CHARACTERS: Final = 100_000


class Crowd:
    """Characters of one model that walk, run and stand, each with its own size, style and parameters.

    The same kernels as :class:`Engine`, without jumps. All arrays have the characters first.

    Args:
        model: the shipped model by default.
        leg_lengths_m: hip to floor ``(n,)`` [m].
        styles: one style for all, or one for each.
        positions: where they start ``(n, 2)`` [m].
        headings_rad: where they look ``(n,)``; 0 is +Z, positive to the left.
        speeds: at the start ``(n,)`` or one for all [m/s].
        runs: at the start, 0 walks and 1 runs.
        phases: at the start.
        plants: hold the feet to the ground.
        scaling: as in :class:`Engine`.
        timing: as in :class:`Engine`.
    """

    def __init__(
        self,
        model: LocomotionModel | None,
        leg_lengths_m: ArrayLike,
        *,
        styles: Style | Sequence[Style] = None,
        positions: ArrayLike | None = None,
        headings_rad: ArrayLike = 0.0,
        speeds: ArrayLike = 0.0,
        runs: ArrayLike = 0.0,
        phases: ArrayLike = 0.0,
        plants: bool = False,
        scaling: str = "froude",
        timing: str = "stance",
    ) -> None:
        self.model = model = resolve_model(model)
        legs = np.atleast_1d(frozen(leg_lengths_m, name="leg_lengths_m"))
        if legs.ndim != 1 or not 1 <= len(legs) <= MAX_CHARACTERS or (legs <= 0.0).any():
            raise InputError("leg_lengths_m is not a list of positive metres", "Give one for each character")
        self.plants, self._count = bool(plants), len(legs)
        self._gaits = model.with_timing(timing)
        froude = check_name("scaling", scaling, "the locomotion engine", SCALINGS) == "froude"
        self._build = make_body_arrays(model.skeleton, model.leg_length_m, froude=froude, cubic=True)
        self._posture = PostureLaw(model.leg_length_m, froude, self._gaits.power)
        # Parameters of all characters, held within what the model knows
        rows = np.zeros((self._count, STYLES + len(model.styles)))
        rows[:, LEG], rows[:, RUN] = (
            np.clip(legs, *LEG_RANGE_M),
            np.clip(self._broadcast_values("runs", runs), 0.0, 1.0),
        )
        rows[:, STYLES:] = self._weights(styles)
        rows[:, SPEED] = self._clamp_speeds(self._broadcast_values("speeds", speeds), rows)
        # Arrays of walkers, plans and plants, characters first
        count, joints = self._count, self.model.skeleton.num_joints
        self._walkers = allocate_walkers(rows.shape[1], count)
        _, values = plan_constant(rows, self._posture)
        self._plans = ParameterPlan(np.zeros((count, RAMP_TOTAL)), np.repeat(values, RAMP_TOTAL, axis=1))
        self._ends = np.zeros_like(rows)  # [s] in the time of each plan
        # Where they start
        clock = self._walkers.clock
        clock[:, PHASE], clock[:, HEADING] = (
            self._broadcast_values("phases", phases),
            self._broadcast_values("headings_rad", headings_rad),
        )
        if positions is not None:
            clock[:, X:HEADING] = frozen(positions, count, 2, name="positions")
        if np.abs(clock).max() > MAX_COORDINATE:
            raise InputError("a phase, place or heading is far out", f"Give numbers of at most {MAX_COORDINATE:g}")
        # Roots `(n, 3)` [m] and local rotations `(n, J, 4)` wxyz now; overwritten by the next step
        self.root_positions, self.rotations = np.zeros((count, 3)), np.zeros((count, joints, 4))
        self._landings = np.zeros((count, 4, 3))
        self._shared = CrowdModel(self._gaits, self._build, make_leg_arrays(self.model.skeleton))
        self._states, self._time_s, self._done = allocate_plant_state(count), 0.0, np.full(count, -1.0)
        self._past: deque[tuple[float, PlantState]] = deque(maxlen=TICKS_AHEAD + 1)
        self.step(0.0)

    # What they do

    @property
    def positions(self) -> FloatArray:
        """Places ``(n, 2)`` [m], without the swaying of a walk."""
        return self._walkers.state[:, X:HEADING].copy()

    @property
    def headings_rad(self) -> FloatArray:
        """Directions of travel ``(n,)``; 0 is +Z, positive to the left."""
        return self._walkers.state[:, HEADING].copy()

    @property
    def phases(self) -> FloatArray:
        """Cycles ``(n,)``, unwrapped."""
        return self._walkers.state[:, PHASE].copy()

    @property
    def speeds(self) -> FloatArray:
        """Speeds ``(n,)`` [m/s] now."""
        return self._walkers.here[:, SPEED].copy()

    @property
    def contacts(self) -> BoolArray:
        """Effectors ``(n, 4)`` on the ground, in the order of ``EFFECTORS``."""
        return (self._walkers.touch if self.plants else self._walkers.held).copy()

    def __len__(self) -> int:
        return self._count

    def poses(self, index: int) -> Pose:
        """Pose of one character.

        Raises:
            InputError: there is no character with this index.
        """
        at = check_number("index", index)
        if not (-self._count <= at < self._count and at == int(at)):
            raise InputError(f"character {index} of {self._count}", f"Give a number from 0 to {self._count - 1}")
        skeleton = self.model.skeleton_for(float(self._walkers.here[int(at), LEG]))
        return Pose(skeleton, self.root_positions[int(at)].copy(), SO3(self.rotations[int(at)].copy()))

    # Steering

    def set(
        self,
        *,
        speed: ArrayLike | None = None,
        run: ArrayLike | None = None,
        styles: Style | Sequence[Style] = None,
        turn_rate: ArrayLike | None = None,
        leg_length_m: ArrayLike | None = None,
        over_s: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> None:
        """Change parameters in straight lines over a time [s], or as a body does; what is out of range is held.

        Args:
            speed: one for all, or one for each of those that change [m/s].
            run: 0 walks, 1 runs.
            styles: one for all, or one for each.
            turn_rate: positive to the left [rad/s].
            leg_length_m: hip to floor [m].
            over_s: time of the change; without one, as :meth:`Engine.set` does.
            where: numbers or flags of the characters that change; all by default.

        Raises:
            InputError: a value is not finite, or arrays do not have as many entries as characters change.
        """
        given = np.arange(self._count) if where is None else np.asarray(where)
        if given.dtype == np.bool_ and given.shape == (self._count,):
            chosen = np.flatnonzero(given)
        elif given.ndim == 1 and np.issubdtype(given.dtype, np.integer):
            chosen = np.unique(given.astype(np.int64))
        else:
            chosen = np.array([-1])
        if len(chosen) and not 0 <= chosen[0] <= chosen[-1] < self._count:
            raise InputError(f"where does not choose among {self._count} characters", "Give their numbers or flags")
        # What is not asked for goes on as planned.
        now, to = self._walkers.here[chosen], self._plans.values[chosen, -1]
        ends = np.maximum(self._ends[chosen] - self._walkers.clock[chosen, :1], 0.0)
        over = None if over_s is None else self._broadcast_values("over_s", over_s, len(chosen))
        changed = np.zeros(to.shape[1], dtype=np.bool_)
        bounds = ((LEG, leg_length_m, *LEG_RANGE_M), (RUN, run, 0.0, 1.0))
        for column, asked, low, high in (*bounds, (TURN, turn_rate, -MAX_TURN_RATE, MAX_TURN_RATE)):
            if asked is not None:
                to[:, column] = np.clip(self._broadcast_values(_COLUMN_NAMES[column], asked, len(chosen)), low, high)
                changed[column] = True
        if speed is not None:
            to[:, SPEED], changed[SPEED] = self._broadcast_values("speed", speed, len(chosen)), True
        to[:, SPEED] = self._clamp_speeds(to[:, SPEED], to)
        if styles is not None:
            to[:, STYLES:], changed[STYLES:] = self._weights(styles, len(chosen)), True
        # What does not change has no kink of its own.
        changed = changed | (now == to)
        ends = np.where(changed, comfortable_times(now, to) if over is None else over[:, None], ends)
        # Corrections of the feet that the old plans foresaw are worked out anew, but for the next tick.
        shown = int(self._time_s / TICK_S + 1e-6) + 1
        for tick, state in self._past:
            if tick == shown:
                self._done[chosen] = tick
                for mine, its in zip(self._states, state, strict=True):
                    mine[chosen] = its[chosen]
        # The new plans begin now.
        knots, values = plan_ramp(now, to, ends, self._posture, smooth=over is None)
        walkers = self._walkers
        walkers.settling[chosen, SINCE] -= walkers.clock[chosen, NOW]
        walkers.clock[chosen, :PHASE] = 0.0
        walkers.clock[chosen, PHASE:] = walkers.state[chosen, PHASE:]
        self._plans.knots[chosen], self._plans.values[chosen], self._ends[chosen] = knots, values, ends

    def step(self, dt: float) -> None:
        """Move all on by ``dt`` [s].

        Raises:
            InputError: ``dt`` is negative or not a finite number.
        """
        roots, rotations, landings = self.root_positions, self.rotations, self._landings
        for step in split_step(check_time("dt", dt)):
            move_crowd(self._shared, self._plans, self._walkers, step, roots, rotations, landings)
            self._time_s += step
            if self.plants:
                now = self._time_s / TICK_S
                ticks = (now, float(int(now + 1e-6) + TICKS_AHEAD))
                plant_crowd(self._shared, self._plans, self._walkers, self._states, ticks, self._done, roots, rotations)
                if not self._past or self._past[-1][0] < ticks[1]:
                    self._past.append((ticks[1], self._states.copy()))
            else:
                self._walkers.feet[:], self._walkers.touch[:] = self._walkers.ease, True

    def _broadcast_values(self, name: str, values: ArrayLike, count: int | None = None) -> FloatArray:
        count = self._count if count is None else count
        given = frozen(values, name=name)
        if given.shape not in ((), (count,)):
            raise InputError(f"{name} has shape {given.shape}", f"Give one number, or {count}")
        return np.broadcast_to(given, (count,)).copy()

    def _clamp_speeds(self, speeds: FloatArray, rows: FloatArray) -> FloatArray:
        """Speeds [m/s] no faster than the model's gaits hold, nor below zero."""
        leg = rows[:, LEG]
        scale = np.sqrt(leg * self._build.own_leg) if self._build.froude else leg
        limits = (1.0 - rows[:, RUN]) * self._gaits.limits[0] + rows[:, RUN] * self._gaits.limits[1]
        return np.clip(speeds, 0.0, limits * scale)

    def _weights(self, styles: Style | Sequence[Style], count: int | None = None) -> FloatArray:
        count = self._count if count is None else count
        if styles is None or isinstance(styles, str) or hasattr(styles, "items"):
            return np.broadcast_to(self.model.weights(cast(Style, styles)), (count, len(self.model.styles)))
        each = tuple(cast("Sequence[Style]", styles)) if isinstance(styles, list | tuple) else ()
        if len(each) != count:
            raise InputError(f"{styles!r} are no styles of {count} characters", "Give one for all, or a list for each")
        return np.stack([self.model.weights(style) for style in each])


_COLUMN_NAMES: Final = {RUN: "run", TURN: "turn_rate", LEG: "leg_length_m"}
