"""The flight of a jump obeys gravity, its stances hold their feet: the root's path is made to fit the poses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.lie import SO3
from marey.motion import Motion, centre_of_mass
from marey.skeleton import Skeleton, contact_points

GRAVITY: Final = 9.81  # [m/s²]
EASE_S: Final = 0.12  # [s] over which a stance takes up the velocity of the flight
SIDES: Final = ("left", "right")


@dataclass(frozen=True, slots=True)
class Airtime:
    """When a jump is in the air, and which feet leave and land."""

    off_s: float
    land_s: float
    leaving: tuple[str, ...]
    landing: tuple[str, ...]

    @property
    def duration_s(self) -> float:
        """Time in the air."""
        return self.land_s - self.off_s


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """A jump's poses seen from its root: what the root's path must fit."""

    com: FloatArray  # (N, 3) [m] centre of mass
    heels: FloatArray  # (N, 2, 3) [m] left, right, on the sole
    balls: FloatArray  # (N, 2, 3) [m] the sole under the ball
    toes: FloatArray  # (N, 2, 3) [m] the joints of the toes

    @classmethod
    def of(cls, skeleton: Skeleton, wxyz: FloatArray) -> Geometry:
        """Measure poses ``(N, J, 4)``."""
        motion = Motion(skeleton, 1.0, np.zeros((len(wxyz), 3)), SO3(wxyz))
        positions, turns = motion.joint_frames()
        points = contact_points(skeleton)
        feet = points.positions(positions, turns)
        heels, balls = (feet[:, [points.index(f"{side}_{part}") for side in SIDES]] for part in ("heel", "toe"))
        return cls(centre_of_mass(motion), heels, balls, positions[:, [skeleton.index(f"{s}_foot") for s in SIDES]])

    def between(self, times: FloatArray, at: float) -> Geometry:
        """The same at one time, linear between frames; arrays of one frame."""
        return Geometry(*(_at(times, part, at)[None] for part in (self.com, self.heels, self.balls, self.toes)))


def _at(times: FloatArray, values: FloatArray, at: float) -> FloatArray:
    k = int(np.clip(np.searchsorted(times, at, side="right") - 1, 0, len(times) - 2))
    part = (at - times[k]) / (times[k + 1] - times[k])
    return values[k] + part * (values[k + 1] - values[k])


def measured_length(geometry: Geometry, times: FloatArray, root: FloatArray, air: Airtime) -> float:
    """Way [m] along +Z from the toe joints that leave, at toe off, to the heels that land, at heel strike."""
    off, land = geometry.between(times, air.off_s), geometry.between(times, air.land_s)
    toes = np.mean([off.toes[0, SIDES.index(side), 2] for side in air.leaving])
    heels = np.mean([land.heels[0, SIDES.index(side), 2] for side in air.landing])
    return float(heels + _at(times, root, air.land_s)[2] - toes - _at(times, root, air.off_s)[2])


def grounded(geometry: Geometry, times: FloatArray, root: FloatArray, air: Airtime, roll: FloatArray) -> FloatArray:
    """Root path whose stances neither slide nor sink: the sole's lowest point is on the ground, its support still.

    Args:
        geometry: of the poses.
        times: ``(N,)`` [s].
        root: ``(N, 3)`` [m].
        air: the flight.
        roll: ``(N,)`` how much of the support is on the ball of the foot, 0 heel to 1 ball.
    """
    out = root.copy()
    for feet, is_down in ((air.leaving, times <= air.off_s), (air.landing, times >= air.land_s)):
        which = [SIDES.index(side) for side in feet]
        low = np.minimum(geometry.heels[:, which, 1], geometry.balls[:, which, 1]).mean(axis=1) + root[:, 1]
        out[:, 1] -= np.where(is_down, low, 0.0)
        support = (1.0 - roll[:, None]) * geometry.heels[:, which].mean(axis=1) + roll[:, None] * geometry.toes[
            :, which
        ].mean(axis=1)
        out[:, [0, 2]] -= _slide(support + root, geometry, which, root, roll, is_down)[:, [0, 2]]
    return out


def _slide(
    support: FloatArray, geometry: Geometry, which: list[int], root: FloatArray, roll: FloatArray, is_down: BoolArray
) -> FloatArray:
    """How far ``(N, 3)`` the support has slid since the stance began; what was rolled over does not count."""
    del support
    heel, toe = (part[:, which].mean(axis=1) + root for part in (geometry.heels, geometry.toes))
    mid = 0.5 * (roll[1:] + roll[:-1])[:, None]
    steps = (1.0 - mid) * np.diff(heel, axis=0) + mid * np.diff(toe, axis=0)
    steps *= (is_down[1:] & is_down[:-1])[:, None]
    return np.concatenate([np.zeros((1, 3)), np.cumsum(steps, axis=0)])


def ballistic(
    geometry: Geometry, times: FloatArray, root: FloatArray, air: Airtime, length_m: float | None
) -> FloatArray:
    r"""Root path whose centre of mass flies as thrown, and whose stances take over its velocity.

    .. math:: c(t) = c_0 + v t - \tfrac12 g t^2 e_y, \qquad v = (c_1 - c_0)/T + \tfrac12 g T e_y

    The stances before and after are bent over ``EASE_S`` by a cubic that is zero at its ends, so that the velocity has
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
        out[times >= air.land_s, 2] += length_m - measured_length(geometry, times, root, air)
    first, last = (
        _edge(times, geometry, out, air.off_s, before=True),
        _edge(times, geometry, out, air.land_s, before=False),
    )
    T = air.duration_s
    v = (last[0] - first[0]) / T + 0.5 * GRAVITY * T * np.array([0.0, 1.0, 0.0])
    flying = (times > air.off_s) & (times < air.land_s)
    t = (times[flying] - air.off_s)[:, None]
    out[flying] = first[0] + v * t - 0.5 * GRAVITY * t**2 * np.array([0.0, 1.0, 0.0]) - geometry.com[flying]
    end = v - GRAVITY * T * np.array([0.0, 1.0, 0.0])
    before = _bump(air.off_s - times, min(EASE_S, 0.6 * air.off_s))
    after = _bump(times - air.land_s, min(EASE_S, 0.6 * (times[-1] - air.land_s)))
    return out - before[:, None] * (v - first[1]) + after[:, None] * (end - last[1])


def _edge(
    times: FloatArray, geometry: Geometry, root: FloatArray, at: float, *, before: bool
) -> tuple[FloatArray, FloatArray]:
    """Centre of mass ``(3,)`` [m] and its velocity [m/s] at an edge of the flight, from the stance beside it."""
    com = geometry.com + root
    rows = np.flatnonzero(times <= at)[-4:] if before else np.flatnonzero(times >= at)[:4]
    fit = np.polynomial.polynomial.polyfit(times[rows] - at, com[rows], 2 if len(rows) > 3 else 1)
    return fit[0], fit[1]


def _bump(distance_s: FloatArray, width_s: float) -> FloatArray:
    """Cubic that is zero at distances 0 and ``width_s``, with slopes 1 and 0; zero elsewhere [s]."""
    u = np.clip(distance_s / max(width_s, 1e-9), 0.0, 1.0)
    return width_s * u * (1.0 - u) ** 2
