"""The live simulation of one page, free of any browser type: a figure, its controller, external actions, recordings."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import ConvergenceError, FloatArray, InputError, clamp_value, frozen
from marey.control.balance import hull_distances, next_support
from marey.control.live_controllers import (
    BALL_KG,
    BALL_M_S,
    NEAR_M,
    ON_FEET,
    PUSH_N,
    PUSH_S,
    ROOM_SIZE_M,
    SIMULATOR_FIELDS,
    FigureController,
    FigureFactory,
    PullingHand,
    SimulationSettings,
    clamp_position,
    direction,
    make_controller,
    resolve_part,
)
from marey.lie import SO3
from marey.locomotion.live import TIMING_MEMORY, capture_warnings
from marey.motion import Contacts, Motion
from marey.simulate import Ball, PointForce, Push, Recorder, Simulator, contact_spheres, forces_at
from marey.skeleton import Pose, role_map

if TYPE_CHECKING:
    from marey.simulate import Ground

MAX_TAKE_S: Final = 120.0


class SimulationRecording:
    """Steps of one length, made by one simulator after another."""

    def __init__(self, simulator: Simulator, step_s: float) -> None:
        self._step_s = step_s
        self._parts: list[Recorder] = [Recorder(simulator)]
        self._counts = [0]

    @property
    def seconds(self) -> float:
        """How long it is by now."""
        return self._step_s * sum(self._counts)

    def go_on(self, simulator: Simulator) -> None:
        """From now on another simulator makes the steps; it begins where the last one stopped."""
        self._parts.append(Recorder(simulator))
        self._counts.append(0)

    def record(self) -> None:
        """Keep the step that was just made, up to MAX_TAKE_S."""
        if self.seconds < MAX_TAKE_S:
            self._parts[-1].record()
            self._counts[-1] += 1

    def motion(self, name: str) -> Motion:
        """The take as a clip with its contact track.

        Raises:
            InputError: nothing was recorded.
        """
        clips = [part.motion() for part, count in zip(self._parts, self._counts, strict=True) if count]
        if not clips:
            raise InputError("nothing was recorded", "Press 'Record' and let time pass")
        first, later = clips[0], clips[1:]
        roots = np.concatenate([first.root_positions, *(clip.root_positions[1:] for clip in later)])
        wxyz = np.concatenate([first.rotations.wxyz, *(clip.rotations.wxyz[1:] for clip in later)])
        # The first frame of each later track is the last of the one before
        tracks = [clip.contacts for clip in clips if clip.contacts is not None]
        joined = np.concatenate([tracks[0].active, *(track.active[1:] for track in tracks[1:])])
        contacts = Contacts(tracks[0].names, joined)
        return Motion(first.skeleton, first.rate_hz, roots, SO3(wxyz), contacts=contacts, name=name)


EVERY: Final = 4  # steps from one point of the plots to the next
KEPT: Final = 150  # points
COLUMNS: Final = ("time", "kinetic", "potential", "total", "px", "py", "pz", "lx", "ly", "lz")
LEAST_N: Final = 5.0  # [N] shorter arrows are not drawn


class EnergyTrace:
    """A window that moves with time; steps in between are left out."""

    def __init__(self) -> None:
        self._rows: deque[FloatArray] = deque(maxlen=KEPT)
        self._skipped = EVERY

    def note(self, time_s: float, simulator: Simulator, ground_m: float) -> None:
        """Look at the simulator after a step; heights count from the ground."""
        self._skipped += 1
        last = simulator.steps_made[-1]
        if self._skipped < EVERY or last.system is None:
            return
        self._skipped = 0
        here = last.system.mechanics
        momentum = here.momentum_matrix() @ last.state.velocity
        over = here.com - np.array([0.0, ground_m, 0.0])
        potential = -simulator.body.mass_kg * float(simulator.gravity @ over)
        kinetic = last.state.kinetic_j
        energies = (time_s, kinetic, potential, kinetic + potential)
        self._rows.append(np.concatenate([energies, momentum[3:], momentum[:3]]))

    def table(self) -> FloatArray:
        """Rows ``(N, 10)`` of COLUMNS; two of zeros while there is nothing to show."""
        return np.array(self._rows) if len(self._rows) > 1 else np.zeros((2, len(COLUMNS)))

    def clear(self) -> None:
        """Begin anew."""
        self._rows.clear()
        self._skipped = EVERY


@dataclass(frozen=True, slots=True, eq=False)
class SupportState:
    """Support of a figure and its centre of mass over it."""

    com: FloatArray  # (3,) [m]
    foot: FloatArray  # (3,) [m] of the ground straight under the centre of mass
    corners: FloatArray  # (h, 3) [m] of the support, round it; may be empty
    margin_m: float | None  # from the centre of mass to the edge; negative outside, None without a support


def _on_plane(places: FloatArray, normal: FloatArray, pivot: FloatArray) -> FloatArray:
    """Points ``(n, 3)`` of the plane over places (x, z)."""
    x, z = places[:, 0], places[:, 1]
    y = pivot[1] - (normal[0] * (x - pivot[0]) + normal[2] * (z - pivot[2])) / normal[1]
    return np.stack([x, y, z], axis=1)


STEP_S: Final = 0.01  # of the simulator, so that a take has 100 frames a second
BUDGET_S: Final = 0.025  # of computing for one picture; what takes longer is left behind, in slow motion
MAX_OWED_S: Final = 0.1  # a page that slept does not catch up
MAX_BALLS: Final = 4
THROW_M: Final = 1.7  # from where balls come: in sight
PACE_S: Final = 1.0  # over which the pace is averaged
PUSH_VISIBLE_S: Final = 0.3  # that a push is shown
FOLLOW_S: Final = 0.3  # in which the view follows the figure
SHOWN: Final = {"Forces": True, "Support": True, "Centre of mass": True}


class LiveFigure:
    """Edited only by the session's worker."""

    def __init__(self, figures: FigureFactory, frame: int, settings: SimulationSettings | None = None) -> None:
        self.figures, self.body, self.clip = figures, figures.body, figures.clip
        self.frame = int(np.clip(frame, 0, self.clip.num_frames - 1))
        self.settings = SimulationSettings() if settings is None else settings
        self.is_on = True  # on the stage; otherwise the clip is
        self.is_running = True
        self.is_recording = False
        self.take: SimulationRecording | None = None
        self.trace = EnergyTrace()
        self.shown = dict(SHOWN)
        self.remarks: list[str] = []
        self.step_ms, self.pace = 0.0, 1.0
        self.time_s = 0.0
        self._owed_s = 0.0
        self._roles = role_map(self.clip.skeleton)
        self._names = self.clip.skeleton.names
        self.start(is_standing=self.settings.mode == "balance")

    def start(self, *, is_standing: bool = False) -> None:
        """Put the figure into its frame again, at rest, or let it stand as quietly as the clip ever does."""
        self.hand: PullingHand | None = None
        self.pulls: tuple[PointForce, ...] = ()  # from outside, in the last step
        self._pushes: list[Push] = []
        self._last_push: tuple[float, tuple[PointForce, ...]] = (0.0, ())  # until when it is shown
        pose = self.figures.standing(self.settings.feet) if is_standing else self.clip[self.frame]
        self.pivot: FloatArray = pose.root_position * np.array([1.0, 0.0, 1.0])
        # The pose as the simulator has it, moved up or down until it touches the ground; in the air it stays
        simulator = self._make_simulator()
        simulator.reset(pose)
        # Heights [m] of all points that can touch, above the ground
        (joints, offsets, radii), _ = contact_spheres(simulator.body.skeleton)
        mechanics = simulator.mechanics()
        centres = mechanics.joints[joints] + (mechanics.frames[joints] @ offsets[:, :, None])[:, :, 0]
        low = float((self.ground.gaps(centres) - radii).min()) / float(self.ground.normal[1])
        here = simulator.state.pose
        if low <= NEAR_M:
            here = Pose(here.skeleton, here.root_position - np.array([0.0, low, 0.0]), here.rotations)
        self.home = here
        self._take_over(self._make_simulator(), self.home, None)
        self.trace.clear()
        x, _, z = self.home.root_position.tolist()
        self._view = np.array([x, z])

    def ask(self, what: str, value: float) -> None:
        """Move a slider, or tick a box."""
        self._change(self.settings.with_value(what, value))

    def stand_on(self, feet: str) -> None:
        """Choose what a balancing figure stands on; it begins again."""
        self._change(self.settings.with_feet(feet))

    def choose(self, mode: str) -> None:
        """Choose what the figure wants."""
        self._change(self.settings.with_mode(mode))

    def show(self, what: str, on: bool) -> None:
        """Switch a part of the picture on or off."""
        if what not in self.shown:
            raise InputError(f"there is no '{what}' to show", f"There are {', '.join(self.shown)}")
        self.shown[what] = bool(on)

    def grab(self, joint: int, place: ArrayLike) -> None:
        """Take hold of what a joint carries, at a place [m] in world."""
        here = self.simulator.mechanics()
        if not 0 <= joint < len(here.joints):
            raise InputError(f"there is no joint {joint}", f"There are {len(here.joints)}")
        point = clamp_position(place)
        offset = frozen(here.frames[joint].T @ (point - here.joints[joint]), 3, name="offset")
        self.hand = PullingHand(joint, offset, point)

    def pull(self, place: ArrayLike) -> None:
        """Pull what is held to a place [m] in world."""
        if self.hand is not None:
            self.hand = self.hand.to(place)

    def release(self) -> None:
        """Let go."""
        self.hand = None

    def push(self, part: str, heading_deg: float, rise_deg: float, force_n: float, duration_s: float) -> None:
        """Push a part of the body, from now on for a while."""
        name = self._names[resolve_part(part, self._roles)]
        force = clamp_value(force_n, PUSH_N, "the force") * direction(heading_deg, rise_deg)
        self._pushes.append(Push(name, force, self._now_s, clamp_value(duration_s, PUSH_S, "the duration")))

    def throw(self, part: str, heading_deg: float, speed_m_s: float, mass_kg: float) -> None:
        """Throw a ball at a part of the body, so that it flies in a direction and hits."""
        speed, mass = clamp_value(speed_m_s, BALL_M_S, "the speed"), clamp_value(mass_kg, BALL_KG, "the mass")
        ahead, goal = direction(heading_deg, 0.0), self.simulator.mechanics().joints[resolve_part(part, self._roles)]
        flight_s = THROW_M / speed
        drop = 0.5 * flight_s**2 * self.simulator.gravity
        place = goal - THROW_M * ahead
        lift = self.ground.gaps(place) - 0.2
        place = place + max(0.0, -float(lift)) * self.ground.normal
        velocity = (goal - place - drop) / flight_s
        # A simulator with these balls; the oldest are forgotten
        balls = (*self.balls[-(MAX_BALLS - 1) :], Ball(place, velocity, 0.11, mass))
        if len(balls) <= len(self.balls):  # too many: begin again with the others
            state = self.simulator.state
            self._take_over(self._make_simulator(), state.pose, state.velocity)
        for ball in balls[len(self.balls) :]:
            self.simulator.throw(replace(ball, gravity=self.simulator.gravity))

    @property
    def balls(self) -> tuple[Ball, ...]:
        """Balls where they are now, the newest last."""
        memory = self.simulator.memory
        return () if memory is None else memory.balls

    @property
    def simulator(self) -> Simulator:
        """What makes the steps."""
        return self.controller.simulator

    @property
    def ground(self) -> Ground:
        """What the figure stands on."""
        return self.settings.ground(self.pivot)

    @property
    def pose(self) -> Pose:
        """How the figure is now."""
        return self.simulator.state.pose

    def visible_forces(self) -> tuple[PointForce, ...]:
        """Forces of hands and pushes; a push is seen for a while, since most are over before a picture is made."""
        until_s, pushes = self._last_push
        now = [f for f in self.pulls if f not in pushes]
        return (*now, *(pushes if self.time_s < until_s else ()))

    def standing(self) -> SupportState:
        """Support and centre of mass of the figure."""
        # On the plane of the ground through the pivot
        here = self.simulator.mechanics()
        support = next_support(None, self.simulator, here, 1.0)
        com, hull = here.com, np.zeros((0, 2)) if support is None else support.hull
        corners = _on_plane(hull, self.ground.normal, self.pivot)
        foot = _on_plane(com[None, [0, 2]], self.ground.normal, self.pivot)[0]
        # Distance inside the hull; of a line or a point, minus the distance to its middle
        margin = None if not len(hull) else -float(np.linalg.norm(com[[0, 2]] - hull.mean(axis=0)))
        margin = margin if len(hull) < 3 else float(hull_distances(hull, com[[0, 2]])[1].min())
        return SupportState(com, foot, corners, margin)

    def place(self) -> tuple[float, float]:
        """What the view keeps in its middle, (x, z) [m]; it rests while a hand holds the figure."""
        return float(self._view[0]), float(self._view[1])

    def toggle_record(self) -> None:
        """Begin a new take, or end it."""
        self.is_recording = not self.is_recording
        if self.is_recording:
            self.take = SimulationRecording(self.simulator, STEP_S)

    def finished_take(self) -> Motion:
        """End the take and give it as a clip.

        Raises:
            InputError: nothing was recorded.
        """
        if self.take is None:
            raise InputError("nothing was recorded", "Press 'Record' first")
        self.is_recording = False
        return self.take.motion(f"{self.clip.name} simulated")

    def advance(self, seconds: float) -> None:
        """Let real time pass; where the machine is too slow, less of it passes."""
        if not self.is_running:
            return
        self._owed_s = min(self._owed_s + seconds, MAX_OWED_S)
        begin, made = perf_counter(), 0
        while self._owed_s >= STEP_S and perf_counter() - begin < BUDGET_S:
            self._owed_s -= STEP_S
            self._step()
            made += 1
        self._owed_s = min(self._owed_s, STEP_S)
        share = min(1.0, seconds / PACE_S)
        self.pace += share * (made * STEP_S / max(seconds, 1e-6) - self.pace)

    def single_step(self) -> None:
        """Stop, and go on by one step."""
        self.is_running = False
        self._step()

    def _step(self) -> None:
        """One step; where it fails, time stops and the figure goes back to its start."""
        begin = perf_counter()
        try:
            pushes = forces_at(self._pushes, self._now_s, STEP_S)
            if any(float(np.linalg.norm(push.force_n)) > LEAST_N for push in pushes):
                self._last_push = self.time_s + PUSH_VISIBLE_S, pushes
            # The hand's pull, unless it sets a goal
            hand, controller, self.pulls = self.hand, self.controller, pushes
            controller.goal = None if hand is None or not controller.takes_goals else hand.goal(self._names)
            if hand is not None and not controller.takes_goals:
                here, velocity = self.simulator.mechanics(), self.simulator.state.velocity
                pull = hand.pull(here, velocity, STEP_S, self.settings.pull_n_m, self._names)
                self.pulls = (pull, *pushes)
            # Let the controller make its step; limits that make it unstable are given up
            try:
                self.controller.step(STEP_S, self.pulls)
            except ConvergenceError:
                if not self.settings.is_limited:
                    raise
                self.ask("has_limits", False)
                self.remarks = ["Joint limits were given up: with them a step was unstable."]
                self.controller.step(STEP_S, self.pulls)
            if not float(np.abs(self.simulator.state.root_position).max()) < ROOM_SIZE_M:
                raise InputError(
                    "the figure left the room", "It is back at its start; take more damping, or smaller forces"
                )
            self.time_s += STEP_S
            self._pushes = [push for push in self._pushes if push.start_s + push.duration_s > self._now_s]
            self.trace.note(self.time_s, self.simulator, float(self.pivot[1]))
            if self.is_recording and self.take is not None:
                self.take.record()
            if self.hand is None:
                x, _, z = self.simulator.state.root_position.tolist()
                self._view += (np.array([x, z]) - self._view) * (STEP_S / FOLLOW_S)
            if self.controller.is_over:
                self._end()
        except Exception:
            self.is_running = self.is_recording = False
            self.start()
            raise
        spent_ms = 1e3 * (perf_counter() - begin)
        self.step_ms = TIMING_MEMORY * self.step_ms + (1.0 - TIMING_MEMORY) * spent_ms if self.step_ms else spent_ms

    def _end(self) -> None:
        """A clip that was followed to its end begins again; a take ends with it."""
        if self.is_recording:
            self.is_running = self.is_recording = False
            return
        self.hand, self._pushes = None, []
        self.controller.begin_again()

    @property
    def _now_s(self) -> float:
        return self.simulator.state.time_s

    def _change(self, settings: SimulationSettings) -> None:
        """Follow the sliders; what cannot be is refused, and nothing has changed."""
        before, pivot = self.settings, self.pivot
        try:
            if settings.slope_deg != before.slope_deg:
                # Where the ground turns: under the figure, so that it is not thrown up
                self.pivot = self.standing().foot
            self.settings = settings
            if settings.mode in ON_FEET and (settings.mode, settings.feet) != (before.mode, before.feet):
                self.start(is_standing=settings.mode == "balance")
            elif settings.mode != before.mode or any(
                getattr(settings, what) != getattr(before, what) for what in SIMULATOR_FIELDS
            ):
                self._take_over(self._make_simulator(), self.pose, self.simulator.state.velocity)
            else:
                self.controller.hear(settings)
        except Exception:
            self.settings, self.pivot = before, pivot
            raise

    def _make_simulator(self) -> Simulator:
        """A simulator as the sliders say."""
        settings = self.settings
        with capture_warnings(self.remarks):
            return self.figures.simulator(settings, self.ground)

    def _take_over(self, simulator: Simulator, pose: Pose, velocity: FloatArray | None) -> None:
        """Continue with another simulator from a pose; mode rates are kept if their number is the same."""
        balls = self.balls if velocity is not None else ()
        left_s = self._now_s if velocity is not None else 0.0
        moving = None
        if velocity is not None:
            moving = np.zeros(simulator.num_dof)
            count = simulator.num_dof if velocity.size == simulator.num_dof else 6
            moving[:count] = velocity[:count]
        controller = make_controller(simulator, self.settings, self.home, self.clip[self.frame :])
        if moving is not None:
            simulator.reset(pose, velocity=moving)
            controller.go_on_from(self.controller)
        for ball in balls:
            simulator.throw(replace(ball, gravity=simulator.gravity))
        self.controller: FigureController = controller
        # Active pushes go on, on the restarted clock
        self._pushes = [
            Push(
                push.joint,
                push.force_n,
                max(0.0, push.start_s - left_s),
                max(min(push.start_s + push.duration_s - left_s, push.duration_s), 1e-6),
            )
            for push in self._pushes
        ]
        if self.is_recording and self.take is not None:
            self.take.go_on(simulator)
