"""The flight of a jump obeys gravity, its stances hold their feet: the root's path is made to fit the poses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.lie import SO3
from marey.locomotion._engine_plan import GRAVITY
from marey.motion import Motion, centre_of_mass
from marey.skeleton import Skeleton, contact_points

VELOCITY_EASE_S: Final = 0.12  # [s] over which a stance takes up the velocity of the flight
SMOOTH_ROWS: Final = 4  # on either side; what a stance is corrected by shall not shake the body
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

    @property
    def duration_s(self) -> float:
        """Time in the air."""
        return self.land_s - self.off_s

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
        slide = _support_slide(heel, toe, roll, is_down)
        slide[:, 1] = low
        rows = np.flatnonzero(is_down)
        slide[rows] = _smooth_triangular(slide[rows])
        slide[: rows[0], 1] = 0.0
        slide[rows[-1] + 1 :] = _fade_correction(slide, int(rows[-1]), is_last=bool(rows[0] > 0))
        out -= slide
    return out


def _fade_correction(slide: FloatArray, last: int, *, is_last: bool) -> FloatArray:
    """What follows row ``last`` of a correction ``(N, 3)``: it runs out, or ends at once where a flight follows."""
    rows = np.arange(1, len(slide) - last)[:, None]
    if not is_last:
        return np.broadcast_to(slide[last] * [1.0, 0.0, 1.0], (len(rows), 3))
    pace = slide[last] - slide[max(last - 1, 0)]
    return slide[last] + pace * FADE_PER_ROW * (1.0 - FADE_PER_ROW**rows) / (1.0 - FADE_PER_ROW)


def _smooth_triangular(values: FloatArray) -> FloatArray:
    """Values ``(n, 3)`` with a triangle of nine rows run over them, the ends going on straight."""
    reach = min(SMOOTH_ROWS, len(values) - 1)
    if reach < 1:
        return values
    first, last = 2.0 * values[0] - values[reach:0:-1], 2.0 * values[-1] - values[-2 : -reach - 2 : -1]
    padded = np.concatenate([first, values, last])
    taps = np.convolve(np.ones(reach + 1), np.ones(reach + 1)) / (reach + 1) ** 2
    return np.stack([np.convolve(column, taps, mode="valid") for column in padded.T], axis=1)


def _support_slide(heel: FloatArray, toe: FloatArray, roll: FloatArray, is_down: BoolArray) -> FloatArray:
    """How far ``(N, 3)`` the support has slid since the stance began; what was rolled over does not count."""
    middle = 0.5 * (roll[1:] + roll[:-1])[:, None]
    steps = (1.0 - middle) * np.diff(heel, axis=0) + middle * np.diff(toe, axis=0)
    steps *= (is_down[1:] & is_down[:-1])[:, None]
    return np.concatenate([np.zeros((1, 3)), np.cumsum(steps, axis=0)])


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
        root: ``(N, 3)`` [m], stances as they shall be.
        air: the flight.
        length_m: what lies after the flight is shifted so that the jump is so long; as it is by default.
    """
    out = root.copy()
    if length_m is not None:
        out[times >= air.land_s, 2] += length_m - measure_jump_length(geometry, times, root, air)
    c_off, v_off = _state_at_flight_edge(times, geometry.com + out, air.off_s, is_before=True)
    c_land, v_land = _state_at_flight_edge(times, geometry.com + out, air.land_s, is_before=False)
    T = air.duration_s
    v = (c_land - c_off) / T + 0.5 * GRAVITY * T * UP
    flying = (times > air.off_s) & (times < air.land_s)
    t = (times[flying] - air.off_s)[:, None]
    out[flying] = c_off + v * t - 0.5 * GRAVITY * t**2 * UP - geometry.com[flying]
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
