"""Ground that is not level: slopes and stairs, and how a character that was planned on the level goes over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.lie import SO3
from marey.locomotion.checks import check_number, check_positive
from marey.locomotion.model.synthesis import LEVEL_PART
from marey.locomotion.model.walker import RawFrame
from marey.locomotion.plants.hold import LONG_S

MAX_SLOPE_RAD: Final = np.radians(25.0)  # [rad] steeper, people use their hands
MAX_RISE_M: Final = 0.25  # [m] of a stair
FOOT_PART: Final = 0.31  # [-] of the leg: heel to end of the toes, what must be on a tread
OVER_M: Final = 0.05  # [m] of a foot that is over the edge of its stair
KEEP_M: Final = 0.5  # [m] a foothold that was chosen as a foot left is kept if it is this near to where it lands
CHOOSE_S: Final = 0.05  # [s] after it has left
EARLY, LATE = 0.45, 0.35  # [-] of a swing: a foot is up so long before it lands, and begins to sink so late
STEEP_M: Final = 0.10  # [m] from such a rise on
CLEAR_PART: Final = 0.03  # [-] of the leg: by which a swing is higher than an edge
BACK_PART: Final = 0.13  # [-] of the leg: how far it stays back before an edge that goes up, or is ahead of one down
REACH_PART: Final = 0.13  # [-] of the leg: how near an edge counts
NEAR: Final = tuple(np.linspace(-1.0, 1.0, 25).tolist())  # [-] of that: where the ground is looked at
ANKLE_PART: Final = 0.10  # [-] of the leg: height of an ankle over its sole
LOWER_PART: Final = 0.5  # [-] of the way from over the mean of both feet's ground to over the lower one
BALL_PART: Final = 0.06  # [-] of the leg: how much lower the ball of a flat foot is
BLUR_M: Final = 0.04  # [m] difference of both feet's ground over which the pelvis goes from their mean to the lower one
STRETCH: Final = 0.985  # [-] extension of a leg in contact beyond which the pelvis is lowered ...
STRAIGHT: Final = 0.998  # [-] ... unless it is as long on the level: 7 degrees of the knee are left
MAX_DROP: Final = 0.12  # [-] of the leg: the most that it is
WIDTH_PART: Final = 0.35  # [-] of its length: width of a foot
LANDS_S: Final = 0.1  # [s] before it lands, a foot asks for it already
HEEL_RAD: Final = 0.6  # [rad] by which the heel of a trailing foot rises at most, so that its leg reaches ...
TRAIL_PART: Final = (0.05, 0.2)  # [-] of the leg: the hip is so far ahead of the ankle as it begins to, and may fully
LEAST_HEEL_RAD: Final = 1e-6  # [rad] less is none
HEEL_S: Final = 0.08  # [s] in which a foot that has left turns back
FORGET_S: Final = 2.0  # [s] in which a leg forgets how far the pelvis was too high
STAIR_HZ: Final = 0.85  # [Hz] cycles on stairs, at most: people climb two stairs in 1.2 s
STAIR_ROOM: Final = (0.6, 0.45)  # [m], [s²/m] of the squared speed: how far before them a walk is made ready
DROP_S: Final = 0.12  # [s] in which the pelvis follows
LEAN_PART: Final = (0.15, 0.3)  # [-] of the angle of ground that falls, and rises: 6 degrees on stairs of 20 (83_27)
LEAN_S: Final = 0.35  # [s] in which it does
LEAN_REACH: Final = (0.15, 0.3, 0.45, 0.6)  # [-] of the leg, ahead and behind: over it the angle is a mean


class WalkGround(Protocol):
    """What a character walks on."""

    def plane(self, x: float, z: float) -> tuple[float, float, float]:
        """Return height [m] and rise along x and z [-] of the ground at a place."""
        ...

    def foothold(self, x: float, z: float, length_m: float, heading_rad: float) -> tuple[float, float]:
        """Return where a foot of a length [m] and a heading whose middle would be at ``(x, z)`` finds room."""
        ...


@dataclass(frozen=True, slots=True)
class Slope:
    """A plane that rises (or falls) from a line on: ``angle_rad`` over ``length_m``, level before and after."""

    angle_rad: float
    start_m: float = 0.0  # [m] where it begins, along its heading from the origin
    length_m: float = 1e6  # [m] over the ground
    heading_rad: float = 0.0  # of the way up; 0 is +Z, positive to the left

    def __post_init__(self) -> None:
        if not abs(check_number("angle_rad", self.angle_rad)) <= MAX_SLOPE_RAD:
            raise InputError(f"a slope of {np.degrees(self.angle_rad):.3g} degrees", "Give at most 25 degrees")
        check_positive("length_m", self.length_m)
        check_number("start_m", self.start_m)
        check_number("heading_rad", self.heading_rad)

    def plane(self, x: float, z: float) -> tuple[float, float, float]:
        """Return height [m] and rise along x and z [-] of the ground at a place."""
        ahead = np.sin(self.heading_rad), np.cos(self.heading_rad)
        along, rise = ahead[0] * x + ahead[1] * z - self.start_m, float(np.tan(self.angle_rad))
        inside = 1.0 if 0.0 <= along <= self.length_m else 0.0
        height = rise * min(max(along, 0.0), self.length_m)
        return float(height), float(inside * rise * ahead[0]), float(inside * rise * ahead[1])

    def foothold(self, x: float, z: float, length_m: float, heading_rad: float) -> tuple[float, float]:
        """Return where a foot of a length [m] whose middle would be at ``(x, z)`` finds room: not on a bend."""
        length_m = _project_foot(length_m, heading_rad - self.heading_rad)
        ahead = np.array([np.sin(self.heading_rad), np.cos(self.heading_rad)])
        for bend_m in (self.start_m, self.start_m + self.length_m):
            past = float(ahead @ (x, z)) - bend_m
            if abs(past) < 0.5 * length_m:
                x, z = (x, z) + (np.copysign(0.5 * length_m, past) - past) * ahead
        return float(x), float(z)


@dataclass(frozen=True, slots=True)
class Stairs:
    """Steps that go up (or down, with a negative rise) from a line on."""

    rise_m: float
    tread_m: float
    count: int
    start_m: float = 0.0  # [m] the first edge, along their heading from the origin
    heading_rad: float = 0.0  # of the way over them; 0 is +Z, positive to the left

    def __post_init__(self) -> None:
        if not abs(check_number("rise_m", self.rise_m)) <= MAX_RISE_M:
            raise InputError(f"stairs of {self.rise_m:g} m", f"Give at most {MAX_RISE_M:g} m")
        check_positive("tread_m", self.tread_m)
        check_number("start_m", self.start_m)
        check_number("heading_rad", self.heading_rad)
        if self.count < 1:
            raise InputError(f"{self.count} stairs", "Give at least one")

    def _number(self, along: float) -> int:
        """How many edges lie behind a place [m]."""
        return int(np.clip(np.floor((along - self.start_m) / self.tread_m) + 1, 0, self.count))

    def is_near(self, position: FloatArray, heading_rad: float, ahead_m: float) -> bool:
        """Whether a character is over the treads, or will be within ``ahead_m`` [m]."""
        along = float(np.sin(self.heading_rad) * position[0] + np.cos(self.heading_rad) * position[1]) - self.start_m
        room = ahead_m * float(np.cos(heading_rad - self.heading_rad))
        return max(along, along + room) > 0.0 and min(along, along + room) < (self.count - 1) * self.tread_m

    def plane(self, x: float, z: float) -> tuple[float, float, float]:
        """Return height [m] and rise along x and z [-] of the ground at a place."""
        along = np.sin(self.heading_rad) * x + np.cos(self.heading_rad) * z
        return self.rise_m * self._number(float(along)), 0.0, 0.0

    def foothold(self, x: float, z: float, length_m: float, heading_rad: float) -> tuple[float, float]:
        """Return where a foot of a length [m] whose middle would be at ``(x, z)`` finds room: on one tread."""
        length_m = _project_foot(length_m, heading_rad - self.heading_rad)
        ahead = np.array([np.sin(self.heading_rad), np.cos(self.heading_rad)])
        along = float(ahead @ (x, z))
        n = self._number(along)
        low = -np.inf if n == 0 else self.start_m + (n - 1) * self.tread_m
        high = np.inf if n == self.count else self.start_m + n * self.tread_m
        # The heel may be over the edge on the way up, the toes on the way down: the next edge is ahead, or behind
        over = OVER_M * np.sign(self.rise_m)
        low, high = low - over, high - over
        room = min(0.5 * length_m, 0.5 * (high - low))
        shift = min(max(along, low + room), high - room) - along
        return float(x + shift * ahead[0]), float(z + shift * ahead[1])


@dataclass(slots=True, eq=False)
class Foothold:
    """The ground under one foot: a point, its height, and the turn from level to it."""

    point: FloatArray  # (3,) [m] on the level
    height_m: float
    slope: FloatArray  # (2,) [-] rise along x and z
    R_slope: SO3

    @classmethod
    def find(cls, ground: WalkGround, x: float, z: float) -> Foothold:
        """Find the plane at a place."""
        height, *slope = ground.plane(x, z)
        normal = np.array([-slope[0], 1.0, -slope[1]])
        R_slope = SO3.from_two_vectors(np.array([0.0, 1.0, 0.0]), normal / np.linalg.norm(normal))
        return cls(np.array([x, 0.0, z]), height, np.array(slope), R_slope)

    def place(self, p: FloatArray) -> FloatArray:
        """Return a point ``(3,)`` [m] of the level on the ground."""
        return self.point + np.array([0.0, self.height_m, 0.0]) + self.R_slope @ (p - self.point)

    def under(self, p: FloatArray) -> float:
        """Height [m] of the plane under a point."""
        return float(self.height_m + self.slope @ (p - self.point)[[0, 2]])


@dataclass(slots=True, eq=False)
class GroundFollower:
    """Where each foot stands on the ground, where it goes, and how far the pelvis is lowered for them.

    A foot that stands is where it is on the level, by one motion of the plane that it stands on: what is planted there
    is planted here. In a swing it goes over from the plane of the last foothold to that of the next one.
    """

    ground: WalkGround
    stood: list[Foothold | None] = field(default_factory=lambda: [None, None])  # right, left
    ahead: list[Foothold | None] = field(default_factory=lambda: [None, None])
    left_s: list[float] = field(default_factory=lambda: [0.0, 0.0])  # when each left the ground
    needed_m: list[float] = field(default_factory=lambda: [0.0, 0.0])  # how far the hip was too high in the last steps
    heel_rad: list[float] = field(default_factory=lambda: [0.0, 0.0])  # by which each heel is up ...
    axes: list[FloatArray] = field(default_factory=lambda: [np.zeros(3), np.zeros(3)])  # ... about these, of this frame
    drop_m: float = 0.0
    lean_rad: float = 0.0

    def lean(self, frame: RawFrame, heading_rad: float, dt: float, joints: tuple[int, int]) -> None:
        """Lean the trunk of a frame towards the ground that rises or falls, in place; the head stays upright in part.

        People pitch the trunk forwards before they step onto a ramp ([Prentice2004]_), and back as they step down
        ([Aminiaghdam2017]_).
        ``joints`` are the lowest of the spine and the neck.
        """
        way, root = np.array([np.sin(heading_rad), np.cos(heading_rad)]), frame.root_position[[0, 2]]
        offs = frame.leg_length_m * np.array(LEAN_REACH)
        ahead, behind = ([self.ground.plane(*(root + off * way))[0] for off in sign * offs] for sign in (1.0, -1.0))
        angle = float(np.arctan(np.mean(np.subtract(ahead, behind) / (2.0 * offs))))
        wanted = LEAN_PART[int(angle > 0.0)] * angle
        self.lean_rad = wanted + (self.lean_rad - wanted) * float(np.exp(-dt / LEAN_S))
        for joint, turn in zip(joints, (self.lean_rad, -LEVEL_PART * self.lean_rad), strict=True):
            frame.rotations[joint] = (SO3.exp(np.array([turn, 0.0, 0.0])) @ SO3(frame.rotations[joint])).wxyz

    def choose(self, side: int, middle: FloatArray, length_m: float, heading_rad: float) -> FloatArray:
        """Return the middle ``(3,)`` [m] of a foothold for a foot that would land there: on the stair chosen before."""
        foot, chosen = (length_m, heading_rad), self.ahead[side]
        place = self.ground.foothold(float(middle[0]), float(middle[2]), *foot)
        is_near = chosen is not None and np.hypot(*(chosen.point - middle)[[0, 2]]) < KEEP_M and not chosen.slope.any()
        if chosen is not None and is_near and abs(self.ground.plane(*place)[0] - chosen.height_m) > 0.5 * BLUR_M:
            place = self.ground.foothold(float(chosen.point[0]), float(chosen.point[2]), *foot)
        return np.array([place[0], middle[1], place[1]])

    def copy(self) -> GroundFollower:
        """Return an independent copy."""
        stood, ahead, left_s, needed_m = self.stood.copy(), self.ahead.copy(), self.left_s.copy(), self.needed_m.copy()
        heels = self.heel_rad.copy(), self.axes.copy()
        return GroundFollower(self.ground, stood, ahead, left_s, needed_m, *heels, self.drop_m, self.lean_rad)

    def bend_toes(self, legs: IntArray, frame: RawFrame) -> None:
        """Keep the toes of feet whose heels were raised where they were, in place.

        ``legs`` ``(2, 4)`` are hips, knees, ankles and balls, right first.
        """
        for leg, heel_rad, axis in zip(legs.tolist(), self.heel_rad, self.axes, strict=True):
            if heel_rad > LEAST_HEEL_RAD:
                root, hip, knee, ankle, ball = SO3(frame.rotations[[0, *leg]])
                R_world_foot, tilt = root @ hip @ knee @ ankle, SO3.exp(heel_rad * axis)
                frame.rotations[leg[3]] = (R_world_foot.inverse() @ tilt.inverse() @ R_world_foot @ ball).wxyz

    def follow(
        self,
        time_s: float,
        dt: float,
        body: tuple[FloatArray, FloatArray, FloatArray, FloatArray, float],
        steps: tuple[tuple[bool, float, Callable[[], FloatArray]], ...],
    ) -> tuple[float, list[FloatArray], list[SO3]]:
        """Return the rise of the root [m], and where ankles shall be ``(3,)`` [m] and by what feet are turned.

        Args:
            time_s: of this frame.
            dt: [s] since the last one.
            body: root ``(3,)``, hips, ankles and balls of the feet ``(2, 3)`` [m] on the level, thigh with shank [m].
            steps: of the right and the left foot: whether it stands, the time until it does [s], and what says
                where it stands or will, ``(2,)`` [m].
        """
        root, hips, ankles, toes, leg_m = body
        levels, goals, turns, is_down = list[float](), list[FloatArray](), list[SO3](), list[bool]()
        is_first = self.stood[0] is None
        for side, (down, until_s, where) in enumerate(steps):
            if self.stood[side] is None:
                # A foot that is in the air as the character begins left the ground long ago: it may be about to land.
                self.stood[side] = self.ahead[side] = Foothold.find(self.ground, *where())
                self.left_s[side] = time_s - LONG_S
            if down:
                self.stood[side], self.left_s[side] = self.ahead[side], time_s
            else:
                # A stair that was chosen as the foot left is kept: landings are moved to it
                found, chosen = Foothold.find(self.ground, *where()), self.ahead[side]
                is_level = chosen is not None and not (chosen.slope.any() or found.slope.any())
                is_late = is_level and time_s - self.left_s[side] > CHOOSE_S
                if chosen is None or not is_late or abs(found.height_m - chosen.height_m) < 0.5 * BLUR_M:
                    self.ahead[side] = found
            before, after = self.stood[side], self.ahead[side]
            assert before is not None and after is not None
            u = 0.0 if down else (time_s - self.left_s[side]) / max(time_s - self.left_s[side] + until_s, 1e-6)
            # Up first and then ahead, or ahead and then down
            rise = float(np.clip((after.under(after.point) - before.under(after.point)) / STEEP_M, -1.0, 1.0))
            begin = LATE * max(-rise, 0.0)
            share = _ease((u - begin) / (1.0 - begin - EARLY * max(rise, 0.0)))
            goal = (1.0 - share) * before.place(ankles[side]) + share * after.place(ankles[side])
            turns.append(SO3.exp(share * (after.R_slope @ before.R_slope.inverse()).log()) @ before.R_slope)
            if not down and not (after.slope.any() and np.array_equal(before.slope, after.slope)):
                goal = goal + self._clear_edges(u, rise, goal, turns[-1] @ (toes[side] - ankles[side]), leg_m)
            goals.append(goal)
            levels.append(before.under(root) + _ease(u) * (after.under(root) - before.under(root)))
            is_down.append(down or until_s < LANDS_S)
        # The pelvis over the mean of both, or, where they differ, over the lower one
        apart = levels[0] - levels[1]
        level = 0.5 * (levels[0] + levels[1] - LOWER_PART * (np.sqrt(apart * apart + BLUR_M**2) - BLUR_M))
        # Trailing legs that do not reach raise their heels; what is missing then lowers the pelvis, as far as it did in
        # the last steps
        for side in range(2):
            self.needed_m[side] *= float(np.exp(-dt / FORGET_S))
            hip = hips[side] + np.array([0.0, level, 0.0])
            # A leg may be as straight as it is on the level
            long = max(STRETCH * leg_m, min(float(np.linalg.norm(ankles[side] - hips[side])), STRAIGHT * leg_m))
            self.heel_rad[side] *= float(np.exp(-dt / HEEL_S))
            foot = turns[side] @ (toes[side] - ankles[side])
            if steps[side][0]:
                self.heel_rad[side] = _raise_heel(hip - goals[side], foot, long, leg_m)
            self.axes[side] = _across(foot)
            tilt = SO3.exp(self.heel_rad[side] * self.axes[side])
            goals[side], turns[side] = goals[side] + foot - tilt @ foot, tilt @ turns[side]
            if is_down[side]:
                flat = float(np.sum((goals[side] - hip)[[0, 2]] ** 2))
                high = np.sqrt(max(long**2 - flat, 0.0))
                self.needed_m[side] = max(self.needed_m[side], float(hip[1] - goals[side][1] - high))
        wanted = min(max(self.needed_m), MAX_DROP * leg_m)
        self.drop_m += (wanted - self.drop_m) * (1.0 if is_first else 1.0 - float(np.exp(-dt / DROP_S)))
        return float(level - self.drop_m), goals, turns

    def _clear_edges(self, u: float, rise: float, ankle: FloatArray, foot: FloatArray, leg_m: float) -> FloatArray:
        """Return by what a foot ``u`` [-] into its swing is moved ``(3,)`` [m], so that it goes round edges of stairs.

        It goes back before it goes up, and ahead before it goes down; heel and toes keep a clearance over the ground
        that they are near to.
        """
        ahead = np.array([foot[0], 0.0, foot[2]])
        ahead = ahead / max(float(np.linalg.norm(ahead)), 1e-9)
        away = _ease(u / 0.3) * _ease((0.75 - u) / 0.45)
        back = -BACK_PART * leg_m * rise * away * ahead
        # Heights of the ground round the sole, those farther off counting less
        grown, lift = _ease(u / 0.25) * _ease((1.0 - u) / 0.25), 0.0
        for part in (-0.35, 0.35, 1.45):
            at = ankle + back + part * foot * np.array([1.0, 0.0, 1.0])
            # Toes go on from the ball in the direction of the foot, which is less low in a flat one
            tip = max(part - 1.0, 0.0) * (foot[1] + BALL_PART * leg_m)
            sole = float(ankle[1] + min(part, 1.0) * foot[1] - ANKLE_PART * leg_m * (1.0 - min(max(part, 0.0), 1.0)))
            sole += min(float(tip), 0.0)
            # Along the foot and across it: whoever turned on a tread has edges beside the foot
            for way in (ahead, np.array([ahead[2], 0.0, -ahead[0]])):
                for off in NEAR:
                    near = at + off * REACH_PART * leg_m * way
                    height = self.ground.plane(float(near[0]), float(near[2]))[0] + CLEAR_PART * leg_m
                    lift = max(lift, (height - sole) * _ease(1.3 * (1.0 - abs(off))))
        return back + np.array([0.0, grown * lift, 0.0])


def _across(foot: FloatArray) -> FloatArray:
    """Unit level axis ``(3,)`` about which a foot from ankle to ball ``(3,)`` raises its heel."""
    axis = np.array([foot[2], 0.0, -foot[0]])
    return axis / max(float(np.linalg.norm(axis)), 1e-9)


def _raise_heel(hip: FloatArray, foot: FloatArray, long: float, leg_m: float) -> float:
    """Least turn [rad] about the ball after which the ankle is within ``long`` [m] of the hip.

    ``hip`` and ``foot``, the ball, are ``(3,)`` [m] from the ankle. Only a foot behind its hip turns.
    """
    ahead = np.array([foot[0], 0.0, foot[2]]) / max(float(np.hypot(foot[0], foot[2])), 1e-9)
    near, far = (part * leg_m for part in TRAIL_PART)
    most = HEEL_RAD * _ease((float(hip @ ahead) - near) / (far - near))
    if most <= 0.0 or hip @ hip <= long * long:
        return 0.0
    axis, low, high = _across(foot), 0.0, most
    for _ in range(12):
        turn = 0.5 * (low + high)
        away = hip - foot + SO3.exp(turn * axis) @ foot
        low, high = (low, turn) if away @ away <= long * long else (turn, high)
    return high


def _project_foot(length_m: float, angle_rad: float) -> float:
    """Extent [m] of a foot along a direction at an angle to it."""
    return length_m * float(abs(np.cos(angle_rad)) + WIDTH_PART * abs(np.sin(angle_rad)))


def _ease(x: float) -> float:
    """Quintic step from 0 to 1."""
    x = min(1.0, max(0.0, x))
    return x * x * x * (10.0 + x * (6.0 * x - 15.0))
