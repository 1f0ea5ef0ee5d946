"""Steps: feet that stand where they came down, and land where balance needs them.

The schedule says when a clip puts its feet down, rolls over them and lifts them. Recovery steps, which a clip does
not have, are taken where standing alone would not save a figure. Runners' landings are planned ahead, all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, frozen
from marey.control.balance import HORIZONTAL_AXES, CentreOfMassPath, hull_distances
from marey.control.preparation import UP, Soles
from marey.control.reference import Reference
from marey.motion import find_runs
from marey.numerics import convex_hull
from marey.simulate import Ground

if TYPE_CHECKING:
    from marey.control.tracking_laws import TrackingStep


@dataclass(frozen=True, slots=True, eq=False)
class FloorPlanes:
    """Ground of a walking figure: the highest of the planes that are not too steep; height zero without any."""

    grounds: tuple[Ground, ...]

    def height(self, place: FloatArray) -> float:
        """Height [m] of the floor at a place ``(2,)`` (x, z)."""
        return max((_height(g, place) for g in self.grounds), default=0.0)

    def normal(self, place: FloatArray) -> FloatArray:
        """Normal ``(3,)`` of the floor at a place ``(2,)`` (x, z)."""
        if len(self.grounds) < 2:
            return self.grounds[0].normal if self.grounds else UP
        return max(self.grounds, key=lambda g: _height(g, place)).normal

    def rise(self, place: FloatArray) -> FloatArray:
        """How fast the floor rises ``(2,)`` [-] along x and z."""
        n = self.normal(place)
        return -n[[0, 2]] / n[1]

    def gaps(self, points: FloatArray) -> FloatArray:
        """How far ``(...)`` [m] points ``(..., 3)`` are above the floor."""
        if not self.grounds:
            return points[..., 1]
        return np.min([g.gaps(points) for g in self.grounds], axis=0)

    def under(self, point: FloatArray) -> FloatArray:
        """Place ``(3,)`` [m] of the floor below a point."""
        return np.array([point[0], self.height(point[[0, 2]]), point[2]])


def _height(ground: Ground, place: FloatArray) -> float:
    n, p = ground.normal, ground.point
    return float(p[1] - (n[0] * (place[0] - p[0]) + n[2] * (place[1] - p[2])) / n[1])


AIR, HEEL, FLAT, BALL = range(4)  # how a foot stands: not at all, on its heel, on its sole, on its ball
EDGE_CORNERS: Final = {HEEL: slice(0, 2), BALL: slice(2, 4)}


@dataclass(frozen=True, slots=True)
class FootstepSettings:
    """When feet that follow a clip count as standing, landing and lifted, and how a late foot looks for the ground."""

    flat_m: float = 0.03  # [m] a foot of the clip on its heel, whose ball is lower, comes to lie flat
    rise_m: float = 0.0015  # [m] a foot of the clip on its ball, whose heel is higher and rises ...
    grow_m: float = 0.01  # [m] ... as far as this ...
    rise_s: float = 0.1  # [s] ... in this time, does not
    touch_m: float = 0.002  # [m] a foot that is lower touches
    lost_m: float = 0.02  # [m] a foot that is higher has lost the ground
    tilt_m: float = 0.01  # [m] between the heights of heel and ball of a foot that lands flat
    early_s: float = 0.15  # [s] before its time that a foot may land or leave; before that it only scuffs the ground
    scuff_m: float = 0.2  # [m] from its place farther than which it does so, too
    least_swing_s: float = 0.1  # [s] that a foot is in the air before it may land
    sink_m_s: float = 0.4  # [m/s] with which a foot that is late looks for the ground
    aim_below_m: float = 0.005  # [m] that a foot aims below the floor in the end, so as not to be late
    aim_phase: float = 0.9  # [-] of a swing from which it does
    own_aim_below_m: float = 0.012  # [m] likewise in a step of the figure's own, which catches it
    own_aim_phase: float = 0.7  # [-]
    hump_m: float = 0.06  # [m] that a foot is lifted in a step of its own
    aside_lift: float = 0.2  # [-] of the way that it lands elsewhere than in the clip, likewise: a low foot would scuff
    astray_m: float = 0.02  # [m] that a standing figure's feet may stand elsewhere to one another than in the clip
    lean_s: float = 0.3  # [s] in which its weight comes over one of them, for the other to step back, and leaves it
    return_step_s: float = 0.35  # [s] of that step
    calm_m: float = 0.06  # [m] error of the capture point below which it begins


DEFAULT_FOOTSTEPS: Final = FootstepSettings()


@dataclass(frozen=True, slots=True, eq=False)
class FootSchedule:
    """Stances of both feet of a clip, frame by frame."""

    phases: IntArray  # (F, 2) AIR, HEEL, FLAT or BALL
    landings: IntArray  # (F, 2) frame in which a foot that is in the air lands; F where it never does
    lifts: IntArray  # (F, 2) frame in which a foot that is down is lifted; F where it never is

    def __len__(self) -> int:
        return len(self.phases)


def make_schedule(
    corners: FloatArray, down: BoolArray, settings: FootstepSettings = DEFAULT_FOOTSTEPS, *, dt: float = 0.01
) -> FootSchedule:
    """Schedule of a clip.

    Args:
        corners: of the soles, and toes ``(F, 2, 5, 3)`` [m] above a floor at height zero.
        down: feet on the ground ``(F, 2)``.
        settings: which soles lie flat.
        dt: length of a frame [s].
    """
    # Flat where the higher of heel and ball is low, else on the lower: a late roll over the ball brakes a walk
    heels, balls = corners[:, :, :2, 1].max(axis=-1), corners[:, :, 2:4, 1].max(axis=-1)
    rolling = np.where(heels < balls, HEEL, BALL)
    # A heel that is a little high and goes on rising rolls; one that stays so is a foot that was captured askew
    ahead = np.minimum(np.arange(len(heels)) + round(settings.rise_s / dt), len(heels) - 1)
    is_rolling = (heels > settings.flat_m) | ((heels > settings.rise_m) & (heels[ahead] > heels + settings.grow_m))
    is_on_heel = np.asarray(heels < balls, dtype=np.bool_)
    is_flat = (is_on_heel & (balls < settings.flat_m)) | (~is_on_heel & ~is_rolling)
    phases = np.where(is_flat, FLAT, rolling)
    return FootSchedule(np.where(down, phases, AIR), _run_ends(~down), _run_ends(down))


def _run_ends(flags: BoolArray) -> IntArray:
    """Frame after the run that each frame is in ``(F, 2)``; the frame itself where there is none."""
    count = len(flags)
    ends = np.repeat(np.arange(count)[:, None], 2, axis=1)
    for side in range(2):
        for start, stop in find_runs(flags[:, side]):
            ends[start:stop, side] = stop
    return ends


class SwingTarget(NamedTuple):
    """Target of a swinging foot at the current step."""

    offset: FloatArray  # (3,) [m] from where the clip has it
    velocity: FloatArray  # (3,) [m/s] with which that changes


@dataclass(slots=True)
class SteppingFoot:
    """One foot: how it stands, or where it swings."""

    phase: int
    edge: int = HEEL  # that is held: HEEL or BALL
    anchor: FloatArray = field(default_factory=lambda: np.zeros(3))  # [m] where the middle of that edge is held
    offset: FloatArray = field(default_factory=lambda: np.zeros(2))  # [m] from where it stands in the clip (x, z)
    lifted: FloatArray = field(default_factory=lambda: np.zeros(3))  # [m] from the clip when it was lifted
    begun: int = 0  # step in which it was lifted
    due: int = 0  # step of its planned landing, which may have passed
    is_own: bool = False  # whether it takes, or took, a step that the clip does not have
    sunk_m: float = 0.0  # [m] that it has gone down in search of the ground
    is_returning: bool = False  # whether its own step leads back to where the other foot has it

    @property
    def is_down(self) -> bool:
        """Whether it stands."""
        return self.phase != AIR


class Footsteps:
    """Both feet of a figure that follows a clip.

    A foot that lands early stands; a late foot continues downwards until it lands, and the other foot waits.
    Where it came down becomes the place of the clip: what the clip does from there on is moved with the feet, so that
    a drift is never pulled back.
    """

    def __init__(
        self,
        reference: Reference,
        schedule: FootSchedule,
        soles: Soles,
        floor: FloorPlanes,
        settings: FootstepSettings = DEFAULT_FOOTSTEPS,
    ) -> None:
        self.reference, self.schedule, self.soles, self.floor = reference, schedule, soles, floor
        self.settings = settings
        self.feet = (SteppingFoot(AIR), SteppingFoot(AIR))
        self.offset = np.zeros(2)
        self.lean = 0.0  # [-] part of the way on which the weight is from its place to the bearing foot of a return
        self.bearing: int | None = None  # that foot, until the weight has left it again

    def begin(self, points: FloatArray) -> None:
        """Put both feet where they are; ``points (2, 5, 3)`` [m] are corners and toes."""
        phases, landings = self.schedule.phases[0], self.schedule.landings[0]
        left, right = (SteppingFoot(int(p), due=int(due)) for p, due in zip(phases, landings, strict=True))
        self.feet = (left, right)
        self.offset, self.lean, self.bearing = np.zeros(2), 0.0, None
        for foot, places in zip(self.feet, points, strict=True):
            foot.begun = -round(self.settings.least_swing_s / self.reference.dt)
            if foot.is_down:
                low = self.floor.gaps(places)
                self._hold(foot, BALL if foot.phase == BALL or low[2:4].min() < low[:2].min() else HEEL, places)

    def update(self, step: int, points: FloatArray, pivot: FloatArray) -> None:
        """See what the feet have done; ``points (2, 5, 3)`` [m], ``pivot (2,)`` where the clip leans on the ground."""
        gaps = self.floor.gaps(points)
        for side in range(2):
            foot = self.feet[side]
            if foot.is_down:
                # A foot that is down rolls as the clip does, is lifted, or has lost the ground
                places, other = points[side], self.feet[1 - side]
                # A foot that has slipped stands where it is now
                foot.anchor = self.floor.under(places[EDGE_CORNERS[foot.edge]].mean(axis=0))
                frame = self._frame(max(step, foot.due))
                if not foot.is_own and self.schedule.phases[frame, side] in (HEEL, FLAT):
                    clip = self.reference.corners[frame, side, EDGE_CORNERS[foot.edge]].mean(axis=0)
                    foot.offset = (foot.anchor - clip)[HORIZONTAL_AXES]
                # Phase that the clip wants; a step of the figure's own ends when the clip has the foot down again
                wanted = int(self.schedule.phases[self._frame(max(step, foot.due)), side])
                foot.is_own = foot.is_own and wanted == AIR
                # The clip lifts the foot
                may_lift = other.is_down or not self.schedule.phases[self._frame(step)].any()
                if wanted == AIR and not foot.is_own and may_lift:
                    self._lift(step, side, places, int(self.schedule.landings[self._frame(step), side]))
                # The ground is lost: just before the clip lifts the foot, or it looks for the ground
                elif float(gaps[side].min()) > self.settings.lost_m:
                    lift = int(self.schedule.lifts[self._frame(step), side])
                    is_soon = wanted == BALL and (lift - step) * self.reference.dt < self.settings.early_s
                    landing = int(self.schedule.landings[self._frame(lift), side])
                    self._lift(step, side, places, landing if is_soon and other.is_down else step)
                elif wanted == AIR:
                    foot.phase = FLAT if foot.is_own else foot.phase
                # Roll over the ball of the foot
                elif wanted == BALL and float(gaps[side][2:4].max()) < self.settings.tilt_m and foot.edge != BALL:
                    self._hold(foot, BALL, places)
                    foot.phase = BALL
                elif wanted in (FLAT, BALL) and not (wanted == BALL and foot.phase == HEEL):
                    foot.phase = wanted if foot.edge == BALL or wanted == FLAT else FLAT
            elif float(gaps[side].min()) < self.settings.touch_m:
                # Neither at once, nor too early, nor far from its place before its time: that only scuffs the ground
                left_s, swung_s = (foot.due - step) * self.reference.dt, (step - foot.begun) * self.reference.dt
                there = self.reference.soles[self._frame(foot.due), side]
                away = (points[side, :4].mean(axis=0) - there)[HORIZONTAL_AXES]
                is_near = foot.is_own or left_s <= 0.0 or np.linalg.norm(away - self.offset) < self.settings.scuff_m
                if is_near and left_s < self.settings.early_s and swung_s > self.settings.least_swing_s:
                    self._land(step, side, points[side], gaps[side])
        # Offset of the clip: that of the foot that stands, or of both, weighted by where the pivot lies between them
        left, right = self.feet
        if left.is_down and right.is_down:
            a, b = self.reference.soles[self._frame(step)][:, HORIZONTAL_AXES]
            part = float(np.clip((pivot - a) @ (b - a) / max(float((b - a) @ (b - a)), 1e-6), 0.0, 1.0))
            self.offset = (1.0 - part) * left.offset + part * right.offset
        elif left.is_down or right.is_down:
            self.offset = left.offset if left.is_down else right.offset
        # Weight over the foot that bears a return step, smoothly there and back
        if self.bearing is not None:
            away = 1.0 if self.feet[1 - self.bearing].is_returning else -1.0
            self.lean = float(np.clip(self.lean + away * self.reference.dt / self.settings.lean_s, 0.0, 1.0))
            goal = points[self.bearing, :4].mean(axis=0)[HORIZONTAL_AXES] - pivot
            part = self.lean**2 * (3.0 - 2.0 * self.lean)
            self.offset = (1.0 - part) * self.offset + part * goal
            self.bearing = self.bearing if self.lean > 0.0 else None

    def go_on_from(self, other: Footsteps) -> None:
        """Have the feet of another figure that does the same."""
        left, right = other.feet
        self.feet, self.offset = (replace(left), replace(right)), np.array(other.offset)
        self.lean, self.bearing = other.lean, other.bearing

    def _frame(self, step: int) -> int:
        return min(step, len(self.schedule) - 1)

    def _land(self, step: int, side: int, places: FloatArray, gaps: FloatArray) -> None:
        """A foot has come down: it is held by the edge that touches."""
        foot, i = self.feet[side], self._frame(max(step, self.feet[side].due))
        # The lower edge holds the foot; it lies flat where both are about as low
        heel, ball = float(gaps[:2].min()), float(gaps[2:].min())
        foot.phase = FLAT if abs(heel - ball) < self.settings.tilt_m else HEEL if heel < ball else BALL
        self._hold(foot, HEEL if heel <= ball else BALL, places)
        there = self.reference.corners[i, side, EDGE_CORNERS[foot.edge]].mean(axis=0)
        foot.offset = (foot.anchor - there)[HORIZONTAL_AXES]
        foot.sunk_m, foot.is_returning = 0.0, False

    def step_out(self, step: int, side: int, points: FloatArray, seconds: float) -> None:
        """Begin a step that the clip does not have, to land in so many seconds; ``points (2, 5, 3)`` [m]."""
        self._lift(step, side, points[side], step + max(1, round(seconds / self.reference.dt)))
        self.feet[side].is_own = True

    def _hold(self, foot: SteppingFoot, edge: int, places: FloatArray) -> None:
        foot.edge, foot.anchor = edge, self.floor.under(places[EDGE_CORNERS[edge]].mean(axis=0))

    def _lift(self, step: int, side: int, places: FloatArray, due: int) -> None:
        foot, i = self.feet[side], self._frame(step)
        foot.phase, foot.begun, foot.due, foot.is_own = AIR, step, due, False
        foot.lifted = places[:4].mean(axis=0) - self.reference.soles[i, side]
        foot.sunk_m = 0.0

    def swing(self, step: int, side: int, landing: FloatArray) -> SwingTarget:
        """Target of a swinging foot: blends from its lift-off pose to its landing.

        Args:
            step: now.
            side: 0 left, 1 right.
            landing: its landing position ``(2,)`` [m] (x, z), relative to that of the clip.
        """
        foot, dt = self.feet[side], self.reference.dt
        # Quintic step from where the foot was lifted to its landing, level at both ends
        whole = max(foot.due - foot.begun, 1)
        x = float(np.clip((step - foot.begun) / whole, 0.0, 1.0))
        part, rate = x**3 * (10.0 - 15.0 * x + 6.0 * x * x), 30.0 * (x * (1.0 - x)) ** 2 / (whole * dt)
        down = float(self.reference.soles[self._frame(step), side, 1]) if foot.is_own else 0.0
        there = np.array([landing[0], -down, landing[1]])
        offset = (1.0 - part) * foot.lifted + part * there
        velocity = rate * (there - foot.lifted)
        # A step of its own that the clip does not lift goes over a hump, and one that lands elsewhere over a lower one
        hump_m = self.settings.hump_m
        if not foot.is_own or down >= hump_m:
            aside_m = float(np.linalg.norm((there - foot.lifted)[HORIZONTAL_AXES]))
            hump_m = min(self.settings.aside_lift * aside_m, hump_m)
        offset[1] += hump_m * 16.0 * (x * (1.0 - x)) ** 2
        velocity[1] += hump_m * 32.0 * x * (1.0 - x) * (1.0 - 2.0 * x) / (whole * dt)
        # Towards its end the swing aims below the floor: a late foot costs more balance than an early one
        told = self.settings
        below_m, phase = (
            (told.own_aim_below_m, told.own_aim_phase) if foot.is_own else (told.aim_below_m, told.aim_phase)
        )
        last = 1.0 - phase
        y = float(np.clip((x - phase) / last, 0.0, 1.0))
        offset[1] -= below_m * y * y * (3.0 - 2.0 * y)
        velocity[1] -= below_m * 6.0 * y * (1.0 - y) / (last * whole * dt)
        # A foot that is late sinks until it meets the ground
        if step >= foot.due:
            foot.sunk_m += self.settings.sink_m_s * dt
            velocity[1] -= self.settings.sink_m_s
        offset[1] -= foot.sunk_m
        return SwingTarget(offset, velocity)


def begin_return_step(at: TrackingStep) -> None:
    """Bring a foot that has caught a push back beside the other: the weight first, then the foot.

    For a clip that stands on both feet, and a figure that is calm. The foot that is further from its place moves.
    """
    steps, settings = at.steps, at.steps.settings
    if not all(foot.is_down for foot in steps.feet):
        return
    error = float(np.linalg.norm(at.capture_error()))
    if steps.bearing is None:
        left, right = (foot.offset for foot in steps.feet)
        speed = float(np.linalg.norm(at.com_velocity())) / at.sway.frequency
        if float(np.linalg.norm(left - right)) > settings.astray_m and max(error, speed) < settings.calm_m:
            side = int(np.linalg.norm(right) > np.linalg.norm(left))
            steps.feet[side].is_returning, steps.bearing = True, 1 - side
        return
    side = 1 - steps.bearing
    if not steps.feet[side].is_returning:
        return
    # The foot is lifted once the capture point is over the other sole, or so near to it that the landing catches it
    hull = convex_hull(at.points[steps.bearing, :4][:, HORIZONTAL_AXES])
    if steps.lean >= 1.0 and hull_distances(hull, at.capture_point())[1].min() > -settings.astray_m:
        steps.step_out(at.step, side, at.points, settings.return_step_s)


def begin_recovery_step(at: TrackingStep) -> None:
    """Begin a step if the capture point has left the soles, and the clip takes none that could catch it."""
    steps, i, soon = at.steps, at.frame, at.weights.quiet_s / at.dt
    # A figure that has just landed is still caught by the legs that it landed on
    if not any(foot.is_down for foot in steps.feet) or float(at.com_velocity()[1]) < -at.weights.falling_m_s:
        return
    # A foot in the air is still to land
    is_last = not at.is_over and len(at.reference) - at.step < at.weights.last_swing_s / at.dt
    if any(not foot.is_down and (foot.is_own or is_last or foot.due < len(at.reference)) for foot in steps.feet):
        return
    # The clip lifts a foot soon
    ends = steps.schedule.lifts[i]
    if not at.is_over and any(
        end - i <= soon and end < len(at.reference) and foot.is_down and not foot.is_own
        for end, foot in zip(ends, steps.feet, strict=True)
    ):
        return
    # How far the capture point is outside the soles that stand, beyond what the clip intends; an edge has no inside
    down = np.array([foot.is_down for foot in at.steps.feet])
    hull = convex_hull(at.points[down][:, :4].reshape(-1, 3)[:, HORIZONTAL_AXES])
    if len(hull) < 3:
        return
    outside, meant = (
        -float(hull_distances(hull, place)[1].min())
        for place in (at.capture_point(), at.capture_point() - at.capture_error())
    )
    # A clip whose own capture point is outside, or nearly, steps or jumps by itself, and small errors do not count
    least = at.weights.outside_m if meant < -at.weights.astray_m else max(meant, 0.0) + at.weights.astray_m
    if outside <= least:
        return
    # The foot that is free; else that of the side of the fall, or the one that is farther from it
    left, right = at.steps.feet
    if not (left.is_down and right.is_down):
        side = 0 if right.is_down else 1
    else:
        # Direction to the capture point, split into ahead and sideways
        soles = at.points[:, :4].mean(axis=1)[:, HORIZONTAL_AXES]
        ahead = (at.points[:, 2:4] - at.points[:, :2]).mean(axis=(0, 1))[HORIZONTAL_AXES]
        leftwards = np.array([ahead[1], -ahead[0]]) / max(float(np.linalg.norm(ahead)), 1e-9)
        way = at.capture_point() - soles.mean(axis=0)
        sideways = float(way @ leftwards)
        # A fall to the side is caught by the foot of that side, any other by the farther foot
        if abs(sideways) > at.weights.sideways * float(np.linalg.norm(way - sideways * leftwards)):
            side = 0 if sideways > 0.0 else 1
        else:
            side = int(np.argmax(np.linalg.norm(soles - at.capture_point(), axis=1)))
    # No step back is taken: the weight stays where it is needed
    at.steps.lean, at.steps.bearing = 0.0, None
    for foot in at.steps.feet:
        foot.is_returning = False
    at.steps.step_out(at.step, side, at.points, at.weights.recovery_step_s)


ERROR, SPEED, FIRST_FOOT = 0, 1, 2  # state: e [m], de/dt [m/s], u of the left and of the right foot [m]


@dataclass(frozen=True, slots=True)
class LandingSettings:
    """What a landing off its place costs, against a centre of mass off its path."""

    step: float = 0.05  # [s] of squared metres that a foot lands elsewhere; squared errors are integrated over time
    end: float = 0.2  # [s] of the squared error of the capture point at the end of the clip


DEFAULT_LANDINGS: Final = LandingSettings()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LandingPlan:
    """Gains of the landings of a clip, and how errors grow from frame to frame; one for both horizontal axes."""

    growth: FloatArray  # (F, 4, 4) state after each frame
    gains: FloatArray  # (F, 2, 4) [-] u of a foot that lands in a frame per state; zero where none lands
    is_landing: FloatArray  # (F, 2) 1 where a foot lands

    def foresee(self, state: FloatArray, frame: int, due: int, side: int) -> FloatArray:
        """Where ``(2,)`` [m] a foot should land in a later frame, off its place in the clip; ``state (4, 2)``."""
        due = min(due, len(self.gains) - 1)
        for i in range(frame, due):
            state = np.array(self.growth[i] @ state)
            # Feet that land together choose in turn, the right one first, as in the recursion, which goes backwards
            for other in np.flatnonzero(self.is_landing[i + 1])[::-1]:
                if i + 1 == due and other <= side:
                    break
                state[FIRST_FOOT + other] = self.gains[i + 1, other] @ state
        return self.gains[due, side] @ state


def plan_landings(
    reference: Reference, path: CentreOfMassPath, schedule: FootSchedule, settings: LandingSettings = DEFAULT_LANDINGS
) -> LandingPlan:
    r"""Plan of all landings of a clip with flights, made once and looked up at every step.

    A centre of mass that is off the clip's path by e is carried further from it by feet that stand off their places by
    u, :math:`\ddot e = \omega^2_i\,(e - \sum_s w_{is} u_s)`, with the clip's own stiffness at frame i, none in flight.
    Each landing chooses u of one foot, so that the best choices are a linear-quadratic regulator: its gains come from
    one sweep back over the clip.
    """
    count, dt = len(reference), reference.dt
    down = schedule.phases != AIR
    # Share w (F, 2) of the feet: of two that stand, by where the pivot lies between them
    feet = reference.soles[:, :, HORIZONTAL_AXES]
    way = feet[:, 1] - feet[:, 0]
    share = ((path.pivot - feet[:, 0]) * way).sum(axis=1) / np.maximum((way**2).sum(axis=1), 1e-6)
    part = np.asarray(np.where(down.all(axis=1), np.clip(share, 0.0, 1.0), down[:, 1]), dtype=np.float64)
    growth = np.tile(np.eye(4), (count, 1, 1))
    pull = np.where(down.any(axis=1), path.stiffness, 0.0) * dt
    growth[:, SPEED, ERROR] = pull
    growth[:, SPEED, FIRST_FOOT], growth[:, SPEED, FIRST_FOOT + 1] = -pull * (1.0 - part), -pull * part
    growth[:, ERROR] += dt * growth[:, SPEED]
    is_landing = np.zeros((count, 2))
    is_landing[1:] = down[1:] & ~down[:-1]
    # Riccati's recursion, from the end: price z^T P z of a state z, with P the prices
    gains = np.zeros((count, 2, 4))
    capture = np.array([1.0, 1.0 / path.frequency, 0.0, 0.0])
    running = dt * np.diag([1.0, path.frequency**-2, 0.0, 0.0])
    prices = settings.end * np.outer(capture, capture) + running
    for i in range(count - 1, -1, -1):
        if i < count - 1:
            prices = running + growth[i].T @ prices @ growth[i]
        for side in np.flatnonzero(is_landing[i]):
            # u of this foot is chosen: z' = S z + b u, least (z')^T P z' + step u^2
            b = np.zeros(4)
            b[FIRST_FOOT + side] = 1.0
            kept = np.eye(4) - np.outer(b, b)
            whole = float(b @ prices @ b) + settings.step
            gain = b @ prices @ kept / whole
            gains[i, side] = -gain
            prices = kept.T @ prices @ kept - whole * np.outer(gain, gain)
    return LandingPlan(*(frozen(values, name="plan") for values in (growth, gains, is_landing)))
