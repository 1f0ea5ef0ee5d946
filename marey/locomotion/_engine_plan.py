"""Plans: what the parameters of a walker will be, piece by piece linear in time."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray

SPEED: Final = 0  # columns of a plan
RUN: Final = 1
TURN: Final = 2
LEG: Final = 3
POSTURE: Final = 4
STYLES: Final = 5

SHORTEST_RAMP_S: Final = 0.1  # [s] [Glardon2005]_ §III.2.4.3 changes at once; faster than this is a jerk
POSTURE_RATE: Final = 3.0  # [1/s] of (normalised speed)^power: standing to a brisk walk's posture in 0.4 s
GAIT_RATE: Final = 2.5  # [1/s] of run and style weights: a walk's posture becomes a run's in 0.4 s
RAMP_KNOTS: Final = 9
TAIL_KNOTS: Final = 4
KNOT_S: Final = 0.1  # [s] between knots of a plan that is followed


class Parameters(NamedTuple):
    """What steers a walker."""

    speed: float  # [m/s]
    run: float  # 0 walks, 1 runs
    turn_rate: float  # [rad/s], positive to the left
    leg_length_m: float
    weights: FloatArray  # (K,) parts of the styles, their sum is one

    def row(self) -> FloatArray:
        """Columns ``(P,)`` of a plan, posture unset."""
        return np.concatenate([[self.speed, self.run, self.turn_rate, self.leg_length_m, 0.0], self.weights])

    def but(self, **changes: float | FloatArray) -> Parameters:
        """Return the parameters with some of them changed."""
        return self._replace(**changes)

    @classmethod
    def of_row(cls, row: FloatArray) -> Parameters:
        """Back from the columns of a plan."""
        return cls(float(row[SPEED]), float(row[RUN]), float(row[TURN]), float(row[LEG]), row[STYLES:].copy())


class Posture(NamedTuple):
    """How speed becomes posture: ``(normalised speed) ** power``, in which the law of a slow walk is a line."""

    own_leg: float
    froude: bool
    power: float

    def of(self, speed: FloatArray, leg: FloatArray) -> FloatArray:
        """Posture of steady speeds [m/s] on legs [m]."""
        s_n = speed / (np.sqrt(leg * self.own_leg) if self.froude else leg)
        return np.maximum(s_n, 0.0) ** self.power


def steady(rows: FloatArray, posture: Posture) -> tuple[FloatArray, FloatArray]:
    """A plan of one moment: ``knots`` ``(n, 1)`` and ``values`` ``(n, 1, P)`` of parameters ``(n, P)``, held."""
    values = rows[:, None].copy()
    values[:, :, POSTURE] = posture.of(values[:, :, SPEED], values[:, :, LEG])
    return np.zeros((len(rows), 1)), values


def ramp(now: FloatArray, to: FloatArray, over_s: FloatArray, posture: Posture) -> tuple[FloatArray, FloatArray]:
    """Straight lines from parameters ``(n, P)`` to others in ``over_s`` ``(n,)`` [s]; postures may take longer.

    Returns:
        Knots ``(n, M)`` [s] and values ``(n, M, P)``.
    """
    over_s = np.maximum(over_s, SHORTEST_RAMP_S)
    part, gait = np.linspace(0.0, 1.0, RAMP_KNOTS), np.r_[RUN, STYLES : now.shape[1]]
    rows = (1.0 - part[:, None]) * now[:, None] + part[:, None] * to[:, None]
    rows[:, -1] = to
    gait_s = np.maximum(over_s, np.abs(to - now)[:, gait].max(axis=1) / GAIT_RATE)
    knots, values = _with_posture(over_s[:, None] * part, rows, now, posture, gait_s)
    share = np.minimum(knots / gait_s[:, None], 1.0)[:, :, None]
    values[:, :, gait] = (1.0 - share) * now[:, None, gait] + share * to[:, None, gait]
    return knots, values


def followed(times: FloatArray, rows: FloatArray, now: FloatArray, posture: Posture) -> tuple[FloatArray, FloatArray]:
    """A plan through knots ``(M,)`` [s] with parameters ``(M, P)``; knots are added where they are far apart."""
    pairs = zip(times[:-1], times[1:], strict=True)
    fine = [np.linspace(a, b, 1 + max(1, int(np.ceil((b - a) / KNOT_S)))) for a, b in pairs]
    dense_times = np.unique(np.concatenate([times, *fine]))
    dense = np.stack([np.interp(dense_times, times, column) for column in rows.T], axis=1)
    return _with_posture(dense_times[None], dense[None], now[None], posture, dense_times[-1:])


def _with_posture(
    times: FloatArray, rows: FloatArray, now: FloatArray, posture: Posture, end: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Let the posture follow the speed no faster than a body can, and add a tail in which it arrives.

    The tail ends when the posture is there, but not before ``end`` ``(n,)`` [s].
    """
    wished = posture.of(rows[:, :, SPEED], rows[:, :, LEG])
    rows[:, 0, POSTURE] = now[:, POSTURE]
    for i in range(1, rows.shape[1]):
        room = POSTURE_RATE * (times[:, i] - times[:, i - 1])
        rows[:, i, POSTURE] = rows[:, i - 1, POSTURE] + np.clip(wished[:, i] - rows[:, i - 1, POSTURE], -room, room)
    last, length, part = rows[:, -1, POSTURE], times[:, -1], np.linspace(0.0, 1.0, TAIL_KNOTS + 1)[1:]
    missing = np.abs(wished[:, -1] - last) / POSTURE_RATE
    rest = np.maximum(length + missing, end) - length
    tail = np.repeat(rows[:, -1:], TAIL_KNOTS, axis=1)
    tail[:, :, POSTURE] = last[:, None] + (wished[:, -1] - last)[:, None] * part
    tail[:, -1, POSTURE] = wished[:, -1]
    knots = np.concatenate([times, length[:, None] + rest[:, None] * part], axis=1)
    return knots, np.concatenate([rows, tail], axis=1)
