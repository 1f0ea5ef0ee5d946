"""Tracking: a simulated figure does what a clip shows, or keeps its balance, by forces from inside alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import ceil
from typing import Final, Literal, TypedDict, Unpack

import numpy as np

from marey.base import BoolArray, ConvergenceError, FloatArray, InputError, Result
from marey.control.balance import (
    DEFAULT_FALLS,
    Fall,
    FallSettings,
    detect_fall,
    find_bounces,
    find_leaps,
    solve_com_path,
    trunk_angle,
)
from marey.control.in_place import make_balance_clip, make_stand
from marey.control.internal_forces import Controller
from marey.control.preparation import SIDES, find_soles, prepare_clip, resample_clip
from marey.control.reference import Reference, make_reference
from marey.control.stepping import (
    AIR,
    BALL,
    DEFAULT_FOOTSTEPS,
    FLAT,
    HEEL,
    FloorPlanes,
    Footsteps,
    FootstepSettings,
    begin_recovery_step,
    begin_return_step,
    make_schedule,
    plan_landings,
)
from marey.control.tasks import ControlTask, Drive
from marey.control.tracking_laws import (
    PUSH_FACTORS,
    RUN_FACTORS,
    SOFT_FACTORS,
    TrackingStep,
    TrackWeights,
    com_rows,
    foot_rows,
    reach_rows,
    turn_rows,
)
from marey.dynamics import Body
from marey.kinematics import JointLimits, PointTask, posing_limits
from marey.models import PGA, PoseModel
from marey.motion import Motion, find_runs
from marey.simulate import Ground, PointForce, Push, Recorder, Simulator, State, forces_at
from marey.simulate.contact import NO_REACH_M
from marey.simulate.monitor import joints_below
from marey.skeleton import Pose, Skeleton, role_map

DT_S: Final = 0.01  # [s] hundred steps a second, as in the source
NUM_MODES: Final = 24  # of a clip's own space: fewer leave too little to balance with
DAMPING_RATE: Final = 1.0  # [1/s] of the energetic damping
LEAST_DEVIATION: Final = 1e-3  # [-] of the first mode's: a weaker one is rounding
ALARM_M: Final = (0.05, 0.12)  # [m] errors of the capture point between which a figure gives up its posture
LEAST_BEND_RAD: Final = -0.02  # [rad] of knees, which people's limits let bend backwards by ten degrees
LATEST_S: Final = 0.15  # [s] after the clip that a jump lands
PACES: Final = (0.5, 2.0)  # [-] of a clip in flight, at least and at most
STILL_S: Final = 0.5  # [s] in which a clip that stands lifts no foot
CALM_S: Final = 0.4  # [s] in which it takes it up again
LEANING_ALARM: Final = 0.8  # [-] of a figure that brings a foot back
PUSH_OFF_S: Final = 0.3  # [s] before a jump in which the feet that push off stay in contact
REACH_M: Final = 0.003  # [m] a runner's foot rolls so fast that its ball leaves the ground by a millimetre in each step
LARGEST_SPEED: Final = 200.0  # [m/s], [rad/s] of any coordinate: a figure that is faster has come apart
LYING_M: Final = 0.003  # [m] a sole whose corners are all lower is laid flat by the controller


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TrackingResult(Result):
    """A clip as physics allows it."""

    motion: Motion  # what the figure did, with its contacts; it starts where the clip starts
    reference: Reference  # what it was asked to do
    error_m: FloatArray  # (F,) [m] of all joints, root mean square, from the clip as it was given
    fall: Fall | None  # when it fell, if it did
    ground_n: FloatArray  # (F - 1, 3) [N] of the ground in each step
    planned: BoolArray  # (F - 1,) steps for which a plan was found

    @property
    def mean_error_m(self) -> float:
        """Mean of the error [m] up to a fall."""
        count = len(self.error_m) if self.fall is None else max(1, round(self.fall.time_s / self.reference.dt))
        return float(self.error_m[:count].mean())

    def __repr__(self) -> str:
        end = "upright" if self.fall is None else str(self.fall)
        return f"TrackResult({self.motion.duration_s:.2f} s, {100.0 * self.mean_error_m:.1f} cm from the clip, {end})"


class Tracker:
    """A figure that follows a clip, one step at a time; after its end it holds the last pose.

    Args:
        simulator: the figure; it is put into the first pose of the clip.
        motion: any clip of the same skeleton.
        dt: length of a step [s].
        weights: how much each part of the clip counts.
        footsteps: when feet count as standing, landing and lifted.
        falls: when the figure counts as fallen.
        tasks: more tasks for the controller, on top of the clip.
        controller: by default one of its own for the simulator.
        reference: the clip as made ready for another simulator with the same model, in place of ``dt``.

    Raises:
        InputError: the clip is too short, has other joints, or the reference is of another model.
    """

    def __init__(
        self,
        simulator: Simulator,
        motion: Motion,
        *,
        dt: float = DT_S,
        weights: TrackWeights | None = None,
        footsteps: FootstepSettings = DEFAULT_FOOTSTEPS,
        falls: FallSettings = DEFAULT_FALLS,
        tasks: Iterable[ControlTask | Drive] = (),
        controller: Controller | None = None,
        reference: Reference | None = None,
    ) -> None:
        self.simulator, self.weights, self.tasks = simulator, weights or TrackWeights(), tuple(tasks)
        self.falls = falls
        if reference is None:
            reference = make_reference(motion, simulator, dt)
        names, size = reference.motion.skeleton.names, reference.velocities.shape[1]
        if names != simulator.body.skeleton.names or size != simulator.num_dof:
            raise InputError("the reference is of another body or model", "Make one for this simulator: leave it out")
        self.reference = reference
        self.controller = Controller(simulator) if controller is None else controller
        r = self.reference
        self._sway = solve_com_path(r, simulator.body.mass_kg, float(np.linalg.norm(simulator.gravity)))
        self._soles = find_soles(simulator.body.skeleton)
        # The floor: grounds that are not walls
        grounds = () if simulator.constrainer is None else simulator.constrainer.grounds
        floor = FloorPlanes(tuple(ground for ground in grounds if float(ground.normal[1]) > 0.5))
        self.steps = Footsteps(r, make_schedule(r.corners, r.down, footsteps, dt=r.dt), self._soles, floor, footsteps)
        # Where the clip runs all landings are planned ahead, and its parts count otherwise
        self._bounces = find_bounces(self._sway.is_flight, r.dt)
        self._landings = plan_landings(r, self._sway, self.steps.schedule) if self._bounces.any() else None
        self._run_weights, self._push_weights = (
            replace(self.weights, **{name: getattr(self.weights, name) * factor for name, factor in factors.items()})
            for factors in (RUN_FACTORS, PUSH_FACTORS)
        )
        # Frame in which each jump lands, known until a foot is down; else -1
        self._leap_ends, self._push_s, standing = np.full(len(r), -1), np.zeros(len(r)), 0
        leaps = find_leaps(self._sway.is_flight, r.dt)
        for start, stop in find_runs(self._sway.is_flight):
            is_leap = (start, stop) in leaps and stop < len(r)
            if is_leap:
                self._leap_ends[start : stop + round(LATEST_S / r.dt)] = stop
            # Time until a run or a jump leaves the ground, while it pushes off: no walk before it does
            if is_leap or self._bounces[start]:
                left_s = (start - np.arange(standing, start)) * r.dt
                is_push = self._bounces[standing:start] | (left_s <= PUSH_OFF_S)
                self._push_s[standing:start] = np.where(is_push, left_s, 0.0)
            standing = stop
        self._moving = np.flatnonzero(np.abs(simulator.mechanics().turns).max(axis=(1, 2)) > 0.0)
        roles = role_map(simulator.body.skeleton)
        legs = joints_below(simulator.body.skeleton, [roles[f"{side}_hip"] for side in SIDES])
        self._is_leg = np.isin(self._moving, list(legs))
        self.reset()

    def reset(self) -> None:
        """Begin again."""
        self.frame = 0
        self._alarm = self._late = 0.0
        self.fall: Fall | None = None
        velocity = np.array(self.reference.velocities[0])
        velocity[3:6] += self._sway.velocity[0] - (self.reference.com[1] - self.reference.com[0]) / self.reference.dt
        first = self.reference.motion[0]
        rise = np.array([0.0, self.steps.floor.height(self.reference.com[0, [0, 2]]), 0.0])
        self.simulator.reset(replace(first, root_position=first.root_position + rise), velocity=velocity)
        self.controller.reset()
        self._before = here = self.simulator.mechanics()
        self.steps.begin(self._soles.places(here.joints, here.frames))

    def go_on_from(self, other: Tracker) -> None:
        """Be where another tracker of the same clip is, whose simulator was in the same state."""
        self.frame, self.fall, self._alarm, self._before = other.frame, other.fall, other._alarm, other._before
        self._late = other._late
        self.steps.go_on_from(other.steps)

    @property
    def time_s(self) -> float:
        """Time of the clip [s]."""
        return self.frame * self.reference.dt

    @property
    def is_over(self) -> bool:
        """Whether the clip has come to its end."""
        return self.frame >= len(self.reference) - 1

    @property
    def error_m(self) -> float:
        """How far the joints are from the clip as it was given [m], root mean square."""
        wanted = self.reference.source[min(self.frame, len(self.reference.source) - 1)].joint_positions()
        away = self.simulator.state.pose.joint_positions() - wanted
        return float(np.sqrt((away**2).sum(axis=1).mean()))

    def step(self, forces: Iterable[PointForce] = ()) -> State:
        """Move the figure on by a step of the clip; ``forces`` come from outside. One that has fallen goes limp."""
        if self.fall is not None:
            self.frame += 1
            return self.simulator.step(self.reference.dt, forces)
        pivot = self._sway.pivot[min(self.frame, len(self.reference) - 1)]
        here, velocity = self.simulator.mechanics(), self.simulator.state.velocity
        points = self._soles.places(here.joints, here.frames)
        self.steps.update(self.frame, points, pivot)
        clip = (self.reference, self._sway, self.frame, self.steps)
        runs = self.frame < len(self.reference) and bool(self._bounces[self.frame])
        push_s = float(self._push_s[self.frame]) if self.frame < len(self.reference) else 0.0
        weights = self._push_weights if push_s > 0.0 else self.weights
        law = (self._run_weights, self._landings, push_s) if runs else (weights, None, push_s)
        self.controller.reach_m = REACH_M if runs or push_s > 0.0 else NO_REACH_M
        at = TrackingStep(self.simulator, here, self._before, velocity, *clip, points, *law)
        self._before = here
        leap_s = self._leap_time(at)
        if leap_s is not None:
            # A jump lands when the figure does, which falls freely
            left_s = (int(self._leap_ends[at.frame]) - at.frame) * at.dt
            pace = float(np.clip(left_s / max(leap_s, at.dt), *PACES)) if left_s > 0.0 else 1.0
            at = replace(at, pace=pace, leap_s=leap_s)
        # A figure that stands and is about to lose its balance gives up its posture, and takes it up again slowly
        schedule, i = self.steps.schedule, at.frame
        stays = bool(schedule.phases[i].all()) and int(schedule.lifts[i].min()) - i > STILL_S / self.reference.dt
        danger = float(np.linalg.norm(at.capture_error())) if stays and not at.is_over else 0.0
        alarm = float(np.clip((danger - ALARM_M[0]) / (ALARM_M[1] - ALARM_M[0]), 0.0, 1.0))
        self._alarm = max(alarm, self._alarm - self.reference.dt / CALM_S)
        if self.steps.bearing is not None and self.steps.lean > 0.0:
            # Legs that keep the angles of the clip would hold the weight between the feet
            self._alarm = max(self._alarm, LEANING_ALARM)
        if self._alarm > 0.0:
            # In danger, from 0, none, to 1, balance counts more and posture less, in equal ratios
            softer = {name: getattr(at.weights, name) * factor**self._alarm for name, factor in SOFT_FACTORS.items()}
            at = replace(at, weights=replace(at.weights, **softer))
        if self.weights.step > 0.0:
            begin_recovery_step(at)
            if stays or at.is_over:
                begin_return_step(at)
        # Feet that lie on the ground with all corners, or nearly, are laid flat
        low = self.steps.floor.gaps(points)[:, :4].max(axis=1) < LYING_M
        feet = zip(SIDES, self.steps.feet, low, strict=True)
        self.controller.stance = tuple(side for side, foot, lies in feet if foot.phase == FLAT and lies)
        parts = {AIR: (), HEEL: ("heel",), FLAT: ("heel", "ball"), BALL: ("ball", "toe")}
        self.controller.bearing = tuple(
            f"{side}_{part}" for side, foot in zip(SIDES, self.steps.feet, strict=True) for part in parts[foot.phase]
        )
        # Weighted tasks of the clip, and those of the user
        w, laws = at.weights, turn_rows(at, self._moving, self._is_leg)
        balance = com_rows(at)
        carried = balance.goal / (1.0, np.sqrt(w.height), 1.0)
        laws = [balance, *laws] if w.com > 0.0 else laws
        laws += [foot_rows(at, side) for side in range(2) if w.swing > 0.0 and w.stance > 0.0]
        asked = [reach_rows(at, task, carried) if isinstance(task, PointTask) else task for task in self.tasks]
        state = self.controller.step(at.dt, forces, tasks=[*laws, *asked])
        # Fall, against the clip at this frame
        wanted, com = self.reference.motion[at.frame].joint_positions(), at.here.com
        self.fall = detect_fall(
            self.simulator,
            state,
            float(com[1]) - self.steps.floor.height(com[[0, 2]]),
            float(self._sway.com[at.frame, 1]),
            0.0 if at.is_over else float(np.linalg.norm(at.capture_error())),
            lean_rad=trunk_angle(self.simulator.body.skeleton, at.here.joints, wanted),
            may_rest=lambda joint: float(wanted[joint, 1]) < self.falls.resting_m,
            settings=self.falls,
        )
        # Whole frames of the clip, what remains is kept
        self._late += at.pace - 1.0
        extra = int(np.trunc(self._late))
        self._late -= extra
        self.frame += 1 + extra
        return state

    def _leap_time(self, at: TrackingStep) -> float | None:
        """Time [s] until a figure in a jump is as low as the clip where it lands; None if it does not jump."""
        lands = int(self._leap_ends[at.frame])
        if at.is_over or lands < 0 or any(foot.is_down for foot in self.steps.feet):
            return None
        g = max(float(np.linalg.norm(self.simulator.gravity)), 1.0)
        fall_m, speed = float(at.here.com[1] - self._sway.com[lands, 1]), float(at.com_velocity()[1])
        return max(0.0, (speed + np.sqrt(max(speed * speed + 2.0 * g * fall_m, 0.0))) / g)


class TrackOptions(TypedDict, total=False):
    """Options of :func:`track_clip` and :func:`solve_tracking`."""

    model: PoseModel | int | None
    body: Body | None
    pushes: Iterable[Push]
    dt: float
    seconds: float | None
    weights: TrackWeights | None
    footsteps: FootstepSettings
    falls: FallSettings
    ground: Ground | None
    limits: JointLimits | Literal["anatomical"] | None
    simulator: Simulator | None
    controller: Controller | None
    tasks: Iterable[ControlTask | Drive]
    on_step: Callable[[Simulator], None] | None


def track_clip(motion: Motion, **options: Unpack[TrackOptions]) -> Motion:
    """Motion of a simulated figure that follows a clip; see :func:`solve_tracking`."""
    return solve_tracking(motion, **options).motion


def solve_tracking(motion: Motion, **options: Unpack[TrackOptions]) -> TrackingResult:
    """Make a simulated figure follow a clip by internal forces, and report the error.

    Each step asks for the clip's accelerations: of the centre of mass, whose path is first made fit for the soles, of
    the angular momentum, the feet and all joints; errors are taken back as fast as the ground allows. Feet in the air
    land where balance requires. A fall is simulated; the run ends ``falls.watched_s`` later.

    Args:
        motion: any clip of a figure with two feet: captured, walked by ``marey.locomotion`` or from a graph.
        model: coordinates that move: a fitted pose model, a number of modes that are fitted to the clip, or None for
            all joints.
        body: masses; by default those of the clip's skeleton.
        pushes: forces from outside.
        dt: length of a step [s].
        seconds: how long; by default as long as the clip. After its end the last pose is held.
        weights: how much each part counts.
        footsteps: when feet count as standing, landing and lifted.
        falls: when the figure counts as fallen, and how long the run goes on then.
        ground: by default level, with the friction of shoes.
        limits: of the joints, as rows of plan and physics; by default those of people, widened by the clip. None: none.
        simulator: one of your own, in place of ``model``, ``body``, ``ground`` and ``limits``.
        controller: one of your own for that simulator: relaxation, strength, laziness, hierarchy.
        tasks: more tasks for the controller.
        on_step: called after each step.

    Raises:
        InputError: the clip is too short, or a push, a time or the skeleton makes no sense.
    """
    dt, seconds, simulator = options.get("dt", DT_S), options.get("seconds"), resolve_simulator(motion, options)
    falls = options.get("falls", DEFAULT_FALLS)
    tracker = Tracker(
        simulator,
        motion,
        dt=dt,
        weights=options.get("weights"),
        footsteps=options.get("footsteps", DEFAULT_FOOTSTEPS),
        falls=falls,
        tasks=options.get("tasks", ()),
        controller=options.get("controller"),
    )
    if seconds is not None and not (np.isfinite(seconds) and seconds > 0.0):
        raise InputError(f"seconds is {seconds}", "Give a positive number")
    count = len(tracker.reference) - 1 if seconds is None else ceil(seconds / dt - 1e-9)
    # Step until the time is over, or until a figure has lain for a while
    pushes = tuple(options.get("pushes", ()))
    on_step = options.get("on_step")
    recorder, step_s = Recorder(tracker.simulator), tracker.reference.dt
    errors, planned = [tracker.error_m], list[bool]()
    for n in range(count):
        try:
            tracker.step(forces_at(pushes, n * step_s, step_s))
        except ConvergenceError:  # the simulator stays at its last good state
            tracker.fall = tracker.fall or Fall(n * step_s, "unstable")
            break
        if float(np.abs(tracker.simulator.state.velocity).max()) > LARGEST_SPEED:
            tracker.fall = tracker.fall or Fall(n * step_s, "unstable")
            break
        recorder.record()
        errors.append(tracker.error_m)
        report = tracker.controller.report
        planned.append(report is not None and report.is_planned and tracker.fall is None)
        if on_step is not None:
            on_step(tracker.simulator)
        if tracker.fall is not None and (n + 1) * step_s > tracker.fall.time_s + falls.watched_s:
            break
    tracked = recorder.motion(f"{tracker.reference.motion.name} tracked")
    reached = (np.array(errors), tracker.fall, recorder.forces, np.array(planned, dtype=np.bool_))
    return TrackingResult(tracked, tracker.reference, *reached)


def resolve_simulator(motion: Motion, options: TrackOptions) -> Simulator:
    """The simulator that was given, or one of what the options say."""
    given, model, dt = options.get("simulator"), options.get("model", NUM_MODES), options.get("dt", DT_S)
    if given is not None:
        return given
    body, ground, limits = options.get("body"), options.get("ground"), options.get("limits", "anatomical")
    return make_figure(motion, model, body=body, ground=ground, limits=limits, dt=dt)


def make_figure(
    motion: Motion,
    model: PoseModel | int | None = NUM_MODES,
    *,
    body: Body | None = None,
    ground: Ground | None = None,
    limits: JointLimits | Literal["anatomical"] | None = None,
    dt: float = DT_S,
) -> Simulator:
    """A figure that can do what a clip shows, on a ground; see :func:`track_result`."""
    body = Body.from_motion(motion) if body is None else body
    if isinstance(model, int):
        if model < 1:
            raise InputError(f"{model} modes", "Give one at least, or None for all joints")
        clips = [prepare_clip(motion, 1.0 / dt), resample_clip(make_balance_clip(motion), 1.0 / dt)]
        fitted = PGA(n_components=model, weights="lever").fit(clips)
        model = fitted.truncate(int((fitted.deviations > LEAST_DEVIATION * fitted.deviations[0]).sum()))
    ground = Ground() if ground is None else ground
    if limits == "anatomical":
        limits = tracking_limits(body.skeleton, motion, dt)
    return Simulator(body, model, damping="energetic", damping_rate=DAMPING_RATE, ground=ground, limits=limits)


def tracking_limits(skeleton: Skeleton, motion: Motion, dt: float = DT_S) -> JointLimits:
    """Joint limits of people, widened by a clip as a figure can stand on it; knees do not bend backwards."""
    return posing_limits(skeleton, clips=[prepare_clip(motion, 1.0 / dt)]).hold_knees(LEAST_BEND_RAD)


STAND_S: Final = 60.0  # [s]


def track_balance(
    source: Motion | Pose, *, feet: str = "both", momentum: bool = True, **options: Unpack[TrackOptions]
) -> TrackingResult:
    """Let a figure stand by forces from inside alone, and push it.

    The features of [Tournier2011]_ §15.2: the centre of mass over the feet, at its height, angular momentum towards
    zero, feet where they stand; the support is the hull of the soles, and the capture point is what is held inside.
    Where a push drives it out, a step catches the figure.

    Args:
        source: a pose, or a clip with one on both feet.
        feet: "both", or the foot to stand on: the other is lifted after 1.5 s.
        momentum: hold the angular momentum; without it arms and trunk go where they like.
        options: those of :func:`track_result`; a number of modes is of the clip and of stands. By default it stands
            for a minute.
    """
    seconds = options.get("seconds")
    seconds = STAND_S if seconds is None else seconds
    clip = make_stand(source, seconds, feet=feet)
    simulator = resolve_simulator(source if isinstance(source, Motion) else clip, options)
    weights = options.get("weights") or TrackWeights()
    if not momentum:
        weights = replace(weights, momentum=0.0)
    chosen: TrackOptions = {**options, "seconds": seconds, "simulator": simulator, "weights": weights}
    return solve_tracking(clip, **chosen)
