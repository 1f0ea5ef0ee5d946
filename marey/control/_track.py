"""Tracking: a simulated figure does what a clip shows, by forces from inside alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np

from marey.base import BoolArray, ConvergenceError, FloatArray, InputError
from marey.control._controller import Controller
from marey.control._fall import Fall, detect_fall
from marey.control._reference import SIDES, Reference, make_reference, prepared_clip, sampled_clip, soles_of
from marey.control._reference_com import bearable_sway
from marey.control._reference_stand import balance_moves
from marey.control._steps import Steps
from marey.control._steps_floor import Floor
from marey.control._steps_schedule import FLAT, make_schedule
from marey.control._tasks import ControlTask, Drive, RowsTask
from marey.control._track_feet import foot_rows
from marey.control._track_laws import (
    Instant,
    TrackWeights,
    com_rows,
    momentum_rows,
    pose_rows,
    root_rows,
)
from marey.dynamics import Body
from marey.models import PGA, PoseModel
from marey.motion import Motion
from marey.simulate import Ground, PointForce, Push, Recorder, Simulator, State, forces_at

DT_S: Final = 0.01  # [s] hundred steps a second, as in the source
MODES: Final = 24  # of a clip's own space: fewer leave too little to balance with
DAMPING_RATE: Final = 1.0  # [1/s] of the energetic damping
LEAST_DEVIATION: Final = 1e-3  # [-] of the first mode's: a weaker one is rounding
LYING_M: Final = 0.003  # [m] a sole whose corners are all lower is laid flat by the controller
AFTER_FALL_S: Final = 1.0  # [s] that a fall is watched


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TrackResult:
    """A clip as physics allows it."""

    motion: Motion  # what the figure did, with its contacts; it starts where the clip starts
    reference: Reference  # what it was asked to do
    error_m: FloatArray  # (F,) [m] of all joints, root mean square, from the clip
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
        tasks: more tasks for the controller, on top of the clip.
        controller: by default one of its own for the simulator.
    """

    def __init__(
        self,
        simulator: Simulator,
        motion: Motion,
        *,
        dt: float = DT_S,
        weights: TrackWeights | None = None,
        tasks: Iterable[ControlTask | Drive] = (),
        controller: Controller | None = None,
    ) -> None:
        self.simulator, self.weights, self.tasks = simulator, weights or TrackWeights(), tuple(tasks)
        self.reference = make_reference(motion, simulator, dt)
        self.controller = Controller(simulator) if controller is None else controller
        r = self.reference
        self._sway = bearable_sway(r, simulator.body.mass_kg)
        self._soles = soles_of(simulator.body.skeleton)
        self.steps = Steps(r, make_schedule(r.corners, r.down), self._soles, Floor.of(simulator))
        self._moving = np.flatnonzero(np.abs(simulator.mechanics().turns).max(axis=(1, 2)) > 0.0)
        self.reset()

    def reset(self) -> None:
        """Begin again."""
        self.frame = 0
        self.fall: Fall | None = None
        velocity = np.array(self.reference.velocities[0])
        velocity[3:6] += self._sway.velocity[0] - self._first_com_velocity()
        self.simulator.reset(self.reference.motion[0], velocity=velocity)
        self.controller.reset()
        self.steps.begin(self._points())

    def _first_com_velocity(self) -> FloatArray:
        return (self.reference.com[1] - self.reference.com[0]) / self.reference.dt

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
        """How far the joints are from the clip [m], root mean square."""
        wanted = self.reference.motion[min(self.frame, len(self.reference) - 1)].joint_positions()
        away = self.simulator.state.pose.joint_positions() - wanted
        return float(np.sqrt((away**2).sum(axis=1).mean()))

    def step(self, forces: Iterable[PointForce] = ()) -> State:
        """Move the figure on by a step of the clip; ``forces`` come from outside. One that has fallen goes limp."""
        if self.fall is not None:
            self.frame += 1
            return self.simulator.step(self.reference.dt, forces)
        pivot = self._sway.pivot[min(self.frame, len(self.reference) - 1)]
        self.steps.update(self.frame, self._points(), pivot)
        at = self._instant()
        self.controller.stance = self._stance(at)
        state = self.controller.step(at.dt, forces, tasks=[*self._goals(at), *self.tasks])
        wanted = float(at.wanted_com()[1])
        away = float(np.linalg.norm(at.capture_error()))
        self.fall = detect_fall(self.simulator, state, float(at.here.com[1]), wanted, away)
        self.frame += 1
        return state

    def _points(self) -> FloatArray:
        here = self.simulator.mechanics()
        return self._soles.places(here.joints, here.frames)

    def _stance(self, at: Instant) -> tuple[str, ...]:
        """Feet that lie on the ground with all corners, or nearly."""
        low = self.steps.floor.gaps(at.points)[:, :4].max(axis=1) < LYING_M
        feet = zip(SIDES, self.steps.feet, low, strict=True)
        return tuple(side for side, foot, lies in feet if foot.phase == FLAT and lies)

    def _goals(self, at: Instant) -> list[RowsTask]:
        """What the clip asks for in this step, as far as it counts."""
        w, laws = self.weights, list[RowsTask]()
        if w.com > 0.0:
            laws.append(com_rows(at))
        if w.momentum > 0.0:
            laws.append(momentum_rows(at))
        if w.root > 0.0:
            laws.append(root_rows(at))
        if w.pose > 0.0:
            laws.append(pose_rows(at, self._moving))
        return laws + [foot_rows(at, side) for side in range(2) if w.swing > 0.0 and w.stance > 0.0]

    def _instant(self) -> Instant:
        here, velocity = self.simulator.mechanics(), self.simulator.state.velocity
        points = self._soles.places(here.joints, here.frames)
        clip = (self.reference, self._sway, self.frame, self.steps)
        return Instant(self.simulator, here, velocity, *clip, points, self.weights)


def track(
    motion: Motion,
    *,
    model: PoseModel | int | None = MODES,
    body: Body | None = None,
    pushes: Iterable[Push] = (),
    dt: float = DT_S,
    seconds: float | None = None,
    weights: TrackWeights | None = None,
    ground: Ground | None = None,
    simulator: Simulator | None = None,
) -> Motion:
    """What a clip becomes when a figure with mass and muscles does it, and is pushed; see :func:`track_result`."""
    return track_result(
        motion,
        model=model,
        body=body,
        pushes=pushes,
        dt=dt,
        seconds=seconds,
        weights=weights,
        ground=ground,
        simulator=simulator,
    ).motion


def track_result(
    motion: Motion,
    *,
    model: PoseModel | int | None = MODES,
    body: Body | None = None,
    pushes: Iterable[Push] = (),
    dt: float = DT_S,
    seconds: float | None = None,
    weights: TrackWeights | None = None,
    ground: Ground | None = None,
    simulator: Simulator | None = None,
    tasks: Iterable[ControlTask | Drive] = (),
    on_step: Callable[[Simulator], None] | None = None,
) -> TrackResult:
    """Let a simulated figure follow a clip with forces from inside alone, and tell how near it came.

    Each step asks for the clip's accelerations: of the centre of mass, whose path is first made fit for the soles, of
    the angular momentum, the feet and all joints; errors are taken back as fast as the ground allows. Feet in the air
    land where balance wants them. A figure that falls does so as a body would; the run ends a second later.

    Args:
        motion: any clip of a figure with two feet: captured, walked by ``marey.locomotion`` or from a graph.
        model: coordinates that move: a fitted pose model, a number of modes that are fitted to the clip, or None for
            all joints.
        body: masses; by default those of the clip's skeleton.
        pushes: forces from outside.
        dt: length of a step [s].
        seconds: how long; by default as long as the clip. After its end the last pose is held.
        weights: how much each part counts.
        ground: by default level, with the friction of shoes.
        simulator: one of your own, in place of ``model``, ``body`` and ``ground``.
        tasks: more tasks for the controller.
        on_step: called after each step.

    Raises:
        InputError: the clip is too short, or a push, a time or the skeleton makes no sense.
    """
    if simulator is None:
        simulator = figure_of(motion, model, body=body, ground=ground, dt=dt)
    tracker = Tracker(simulator, motion, dt=dt, weights=weights, tasks=tasks)
    count = len(tracker.reference) - 1 if seconds is None else ceil(_positive(seconds) / dt - 1e-9)
    return run_tracker(tracker, count, tuple(pushes), on_step)


def run_tracker(
    tracker: Tracker, count: int, pushes: Sequence[Push] = (), on_step: Callable[[Simulator], None] | None = None
) -> TrackResult:
    """Make steps until they are done or a figure has lain for a while."""
    recorder, dt = Recorder(tracker.simulator), tracker.reference.dt
    errors, planned = [tracker.error_m], list[bool]()
    for n in range(count):
        try:
            tracker.step(forces_at(pushes, n * dt, dt))
        except ConvergenceError:  # the simulator stays at its last good state
            tracker.fall = tracker.fall or Fall(n * dt, "unstable")
            break
        recorder.record()
        errors.append(tracker.error_m)
        report = tracker.controller.report
        planned.append(report is not None and report.is_planned and tracker.fall is None)
        if on_step is not None:
            on_step(tracker.simulator)
        if tracker.fall is not None and (n + 1) * dt > tracker.fall.time_s + AFTER_FALL_S:
            break
    motion = recorder.motion(f"{tracker.reference.motion.name} tracked")
    return TrackResult(
        motion, tracker.reference, np.array(errors), tracker.fall, recorder.forces, np.array(planned, dtype=np.bool_)
    )


def figure_of(
    motion: Motion,
    model: PoseModel | int | None = MODES,
    *,
    body: Body | None = None,
    ground: Ground | None = None,
    dt: float = DT_S,
) -> Simulator:
    """A figure that can do what a clip shows, on a ground."""
    body = Body.from_motion(motion) if body is None else body
    if isinstance(model, int):
        if model < 1:
            raise InputError(f"{model} modes", "Give one at least, or None for all joints")
        clips = [prepared_clip(motion, 1.0 / dt), sampled_clip(balance_moves(motion), 1.0 / dt)]
        fitted = PGA(n_components=model, weights="lever").fit(clips)
        model = fitted.truncated(int((fitted.deviations > LEAST_DEVIATION * fitted.deviations[0]).sum()))
    ground = Ground() if ground is None else ground
    return Simulator(body, model, damping="energetic", damping_rate=DAMPING_RATE, ground=ground)


def _positive(seconds: float) -> float:
    if not (np.isfinite(seconds) and seconds > 0.0):
        raise InputError(f"seconds is {seconds}", "Give a positive number")
    return seconds
