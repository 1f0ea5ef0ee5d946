"""The root path and the legs of a jump: a ballistic flight, and stances that hold their feet.

The root path is corrected so that it fits the poses and falls under gravity. Knees never bend backwards, planted feet
stay in place, and the other foot stays above the ground.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.kinematics import Limb, solve_two_bone
from marey.lie import SO3
from marey.locomotion.planning.parameters import GRAVITY
from marey.motion import Motion, centre_of_mass
from marey.numerics import smoothstep
from marey.skeleton import HUMAN, Skeleton, contact_points

VELOCITY_EASE_S: Final = 0.12  # [s] over which a stance takes up the velocity of the flight
SMOOTH_ROWS: Final = 4  # on either side; smooths the correction of a stance
FADE_PER_ROW: Final = 0.75  # [-] of its pace that a correction keeps from row to row after the stance
INSTANT_S: Final = 1e-9  # [s] two times this near are one
SIDES: Final = ("left", "right")
UP: Final = np.array([0.0, 1.0, 0.0])


@dataclass(frozen=True, slots=True)
class Airtime:
    """When a jump is in the air [s], and which feet leave and land."""

    off_s: float
    land_s: float
    leave_s: float  # when the feet that landed leave again
    leaving: tuple[str, ...]
    landing: tuple[str, ...]

    def stances(self, times: FloatArray) -> tuple[tuple[list[int], BoolArray], ...]:
        """Feet (0 left, 1 right) of the stance before and after, and when they are down ``(N,)``."""
        first, last = ([SIDES.index(side) for side in feet] for feet in (self.leaving, self.landing))
        stands = (times >= self.land_s - INSTANT_S) & (times <= self.leave_s + INSTANT_S)
        return (first, times <= self.off_s + INSTANT_S), (last, stands)


@dataclass(frozen=True, slots=True, eq=False)
class JumpGeometry:
    """A jump's poses seen from its root: what the root's path must fit."""

    com: FloatArray  # (N, 3) [m] centre of mass
    heels: FloatArray  # (N, 2, 3) [m] left, right, on the sole
    balls: FloatArray  # (N, 2, 3) [m] the sole under the ball
    toes: FloatArray  # (N, 2, 3) [m] the joints of the toes

    @classmethod
    def from_rotations(cls, skeleton: Skeleton, wxyz: FloatArray) -> JumpGeometry:
        """Measure poses ``(N, J, 4)``."""
        motion = Motion(skeleton, 1.0, np.zeros((len(wxyz), 3)), SO3(wxyz))
        positions, turns = motion.joint_frames()
        points = contact_points(skeleton)
        feet = points.positions(positions, turns)
        heels, balls = (feet[:, [points.index(f"{side}_{part}") for side in SIDES]] for part in ("heel", "toe"))
        return cls(centre_of_mass(motion), heels, balls, positions[:, [skeleton.index(f"{s}_foot") for s in SIDES]])


def interpolate_at(times: FloatArray, values: FloatArray, at: float) -> FloatArray:
    """Values ``(N, ...)`` at one time, linear between rows."""
    k = int(np.clip(np.searchsorted(times, at, side="right") - 1, 0, len(times) - 2))
    part = (at - times[k]) / (times[k + 1] - times[k])
    return values[k] + part * (values[k + 1] - values[k])


def measure_jump_length(geometry: JumpGeometry, times: FloatArray, root: FloatArray, air: Airtime) -> float:
    """Way [m] along +Z from the toe joints in the last row before toe off to the heels in the first row of landing."""
    (leaving, down), (landing, landed) = air.stances(times)
    off, land = np.flatnonzero(down)[-1], np.flatnonzero(landed)[0]
    toes = geometry.toes[off, leaving, 2].mean() + root[off, 2]
    return float(geometry.heels[land, landing, 2].mean() + root[land, 2] - toes)


def ground_root_path(
    geometry: JumpGeometry, times: FloatArray, root: FloatArray, air: Airtime, roll: FloatArray
) -> FloatArray:
    """Root path whose stances neither slide nor sink: the sole's lowest point is on the ground, its support still.

    Args:
        geometry: of the poses.
        times: ``(N,)`` [s].
        root: ``(N, 3)`` [m].
        air: the flight.
        roll: ``(N,)`` how much of the support is on the ball of the foot, 0 heel to 1 ball.
    """
    out = root.copy()
    for feet, is_down in air.stances(times):
        low = np.minimum(geometry.heels[:, feet, 1], geometry.balls[:, feet, 1]).mean(axis=1) + root[:, 1]
        heel, toe = (part[:, feet].mean(axis=1) + root for part in (geometry.heels, geometry.toes))
        # How far `(N, 3)` the support has slid since the stance began; what was rolled over does not count
        middle = 0.5 * (roll[1:] + roll[:-1])[:, None]
        steps = (1.0 - middle) * np.diff(heel, axis=0) + middle * np.diff(toe, axis=0)
        steps *= (is_down[1:] & is_down[:-1])[:, None]
        slide = np.concatenate([np.zeros((1, 3)), np.cumsum(steps, axis=0)])
        slide[:, 1] = low
        rows = np.flatnonzero(is_down)
        # Values (n, 3) with a triangle of nine rows run over them, the ends going on straight
        values = slide[rows]
        reach = min(SMOOTH_ROWS, len(values) - 1)
        if reach < 1:
            slide[rows] = values
        else:
            first, end = 2.0 * values[0] - values[reach:0:-1], 2.0 * values[-1] - values[-2 : -reach - 2 : -1]
            padded = np.concatenate([first, values, end])
            taps = np.convolve(np.ones(reach + 1), np.ones(reach + 1)) / (reach + 1) ** 2
            slide[rows] = np.stack([np.convolve(column, taps, mode="valid") for column in padded.T], axis=1)
        slide[: rows[0], 1] = 0.0
        # After the last stance the correction loses its pace; before the flight it ends at once, but for its place.
        last, after = int(rows[-1]), np.arange(1, len(slide) - int(rows[-1]))[:, None]
        if rows[0] > 0:
            pace = slide[last] - slide[max(last - 1, 0)]
            faded = FADE_PER_ROW * (1.0 - FADE_PER_ROW**after) / (1.0 - FADE_PER_ROW)
            slide[last + 1 :] = slide[last] + pace * faded
        else:
            slide[last + 1 :] = slide[last] * [1.0, 0.0, 1.0]
        out -= slide
    return out


def fit_ballistic_path(
    geometry: JumpGeometry, times: FloatArray, root: FloatArray, air: Airtime, length_m: float | None
) -> FloatArray:
    r"""Root path whose centre of mass flies as thrown, and whose stances take over its velocity.

    .. math:: c(t) = c_0 + v t - \tfrac12 g t^2 e_y, \qquad v = (c_1 - c_0)/T + \tfrac12 g T e_y

    The stances before and after are bent over ``VELOCITY_EASE_S`` by a cubic that is zero at its ends, so that the
    velocity has
    no step and the feet keep their places at toe off and heel strike.

    Args:
        geometry: of the poses.
        times: ``(N,)`` [s].
        root: ``(N, 3)`` [m], with corrected stances.
        air: the flight.
        length_m: what lies after the flight is shifted so that the jump is so long; as it is by default.
    """
    out = root.copy()
    if length_m is not None:
        out[times >= air.land_s, 2] += length_m - measure_jump_length(geometry, times, root, air)
    c_off, v_off = _state_at_flight_edge(times, geometry.com + out, air.off_s, is_before=True)
    c_land, v_land = _state_at_flight_edge(times, geometry.com + out, air.land_s, is_before=False)
    # The throw: v from both ends of the flight, then the parabola for the frames between
    T = air.land_s - air.off_s
    v = (c_land - c_off) / T + 0.5 * GRAVITY * T * UP
    flying = (times > air.off_s) & (times < air.land_s)
    t = (times[flying] - air.off_s)[:, None]
    out[flying] = c_off + v * t - 0.5 * GRAVITY * t**2 * UP - geometry.com[flying]
    # The stances beside it take over its velocity.
    before = _velocity_bump(air.off_s - times, min(VELOCITY_EASE_S, 0.6 * air.off_s))
    after = _velocity_bump(times - air.land_s, min(VELOCITY_EASE_S, 0.6 * (times[-1] - air.land_s)))
    return out - before[:, None] * (v - v_off) + after[:, None] * (v - GRAVITY * T * UP - v_land)


def _state_at_flight_edge(
    times: FloatArray, com: FloatArray, at: float, *, is_before: bool
) -> tuple[FloatArray, FloatArray]:
    """Centre of mass ``(3,)`` [m] and its velocity [m/s] at an edge of the flight, from the stance beside it."""
    rows = np.flatnonzero(times <= at)[-4:] if is_before else np.flatnonzero(times >= at)[:4]
    fit = np.polynomial.polynomial.polyfit(times[rows] - at, com[rows], min(2, len(rows) - 1))
    return fit[0], fit[1] if len(rows) > 1 else np.zeros(3)


def _velocity_bump(distance_s: FloatArray, width_s: float) -> FloatArray:
    """Cubic [s] that is zero at distances 0 and ``width_s``, with slopes 1 and 0; zero elsewhere."""
    u = np.clip(distance_s / max(width_s, 1e-9), 0.0, 1.0)
    return width_s * u * (1.0 - u) ** 2


LEAST_FLEXION_RAD: Final = float(np.deg2rad(8.0))  # a knee nearer to straight would snap when its foot is held
SOFT_FLEXION_RAD: Final = float(np.deg2rad(6.0))  # over which flexion bends over to the least
MAX_LEG_EXTENSION: Final = 0.9975  # [-] largest extension of a leg: a knee bent by 8 degrees
FOOT_EASE_S: Final = 0.15  # [s] in which a foot in the air gets to where it will stand, or away from it
LEG_LIMBS: Final = {side: Limb.from_name(HUMAN, f"{side}_leg") for side in SIDES}
KNEES: Final = [HUMAN.index(f"{side}_knee") for side in SIDES]
TOE_REST_M: Final = float(HUMAN.rest_positions()[HUMAN.index("left_foot"), 1])  # height of the toe joint, standing
LATERAL_AXIS: Final = np.array([1.0, 0.0, 0.0])


@dataclass(frozen=True, slots=True)
class StanceTimes:
    """When the foot of one side strikes, has its toes down, and leaves [s]."""

    side: str
    strike_s: float
    toes_s: float
    off_s: float


def list_stances(kind: str, events: FloatArray) -> tuple[StanceTimes, ...]:
    """Stances of a jump with the instants ``(8,)`` [s] of its events: right then left, or both feet twice."""
    first, last = (events[0], events[1], events[3]), (events[4], events[5], events[7])
    if kind == "standing":
        return tuple(StanceTimes(side, *map(float, part)) for side in SIDES for part in (first, last))
    return StanceTimes("right", *map(float, first)), StanceTimes("left", *map(float, last))


def bend_knees(rows: FloatArray, means: FloatArray) -> FloatArray:
    r"""Rows ``(N, D)`` whose knees are bent by eight degrees at least.

    .. math:: f' = \tfrac12\big(f + m + \sqrt{(f - m)^2 + w^2}\big)

    Sums of captured poses may straighten a knee, or bend it backwards.
    """
    knees = rows[:, 3:].reshape(len(rows), -1, 3)[:, KNEES]
    turns = SO3(means[KNEES]) @ SO3.exp(knees)
    flexion = turns.twist_angle(LATERAL_AXIS)
    more = 0.5 * (LEAST_FLEXION_RAD - flexion + np.hypot(flexion - LEAST_FLEXION_RAD, SOFT_FLEXION_RAD))
    bent = SO3(means[KNEES]).inverse() @ turns @ SO3.exp(more[..., None] * LATERAL_AXIS)
    out = rows.copy()
    out[:, 3:].reshape(len(rows), -1, 3)[:, KNEES] = bent.log()
    return out


def hold_jump_feet(
    wxyz: FloatArray, root: FloatArray, times: FloatArray, stances: tuple[StanceTimes, ...]
) -> FloatArray:
    """Joint rotations ``(N, J, 4)`` whose standing feet do not move, and whose other feet stay above the ground.

    A foot is moved as a whole, by the leg alone, so that its toe joint rests in one place at its standing height; in
    the air before and after it is eased there and back.

    Args:
        wxyz: ``(N, J, 4)``.
        root: ``(N, 3)`` [m].
        times: ``(N,)`` [s].
        stances: of both feet.
    """
    motion = Motion(HUMAN, 1.0, root, SO3(wxyz))
    positions, turns = motion.joint_frames()
    points = contact_points(HUMAN)
    soles = points.positions(positions, turns)
    for side in SIDES:
        toe, ankle = (positions[:, HUMAN.index(f"{side}_{part}")] for part in ("foot", "ankle"))
        shift = np.zeros_like(toe)
        for stance in [stance for stance in stances if stance.side == side]:
            down = (times >= min(stance.toes_s, stance.off_s)) & (times <= stance.off_s)
            if down.any():
                # The toe is brought to its mean place, eased in before the strike and out after it has left.
                place = toe[down].mean(axis=0)
                place[1] = TOE_REST_M
                first, last = np.flatnonzero(down)[[0, -1]]
                held = np.clip(np.arange(len(times)), first, last)
                before, after = (stance.strike_s - times) / FOOT_EASE_S, (times - stance.off_s) / FOOT_EASE_S
                shift = shift + (1.0 - smoothstep(np.maximum(before, after)))[:, None] * (place - toe[held])
        low = soles[:, [points.index(f"{side}_{part}") for part in ("heel", "toe")], 1].min(axis=1) + shift[:, 1]
        # A sole in the air that would be below ground is lifted, smoothly over the neighbouring rows.
        need = np.pad(np.maximum(-low, 0.0), 3, mode="edge")
        wide = np.max([need[k : k + len(low) + 4] for k in range(3)], axis=0)
        lift = np.convolve(wide, np.array([0.1, 0.2, 0.4, 0.2, 0.1]), mode="valid")
        has_toes_down = np.any([(times >= s.toes_s) & (times <= s.off_s) for s in stances if s.side == side], axis=0)
        shift[:, 1] += np.where(has_toes_down, 0.0, lift)
        motion = solve_two_bone(motion, LEG_LIMBS[side], ankle + shift, stretch=MAX_LEG_EXTENSION).motion
    return motion.rotations.wxyz
