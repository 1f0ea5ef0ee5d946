"""Plans: what the parameters of a walker will be, piece by piece linear in time."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray

SPEED: Final = 0  # columns of a plan
RUN: Final = 1
TURN: Final = 2
LEG: Final = 3
POSTURE: Final = 4
BANK: Final = 5
STYLES: Final = 6

SCALINGS: Final = ("froude", "leg")  # how size and speed go together
MAX_MID_STANCE_S: Final = 0.5  # [s] no stance is foreseen farther than this after its strike
SHORTEST_RAMP_S: Final = 0.1  # [s] [Glardon2005]_ §III.2.4.3 changes at once; faster than this is a jerk
BODY: Final = slice(POSTURE, STYLES)  # columns that follow the others, as fast as a body can
BODY_RATES: Final = np.array([3.0, 0.8])  # [1/s] standing to a brisk walk's posture in 0.4 s; [rad/s] of lean
MAX_BANK: Final = 0.35  # [rad]
GRAVITY: Final = 9.81  # [m/s²]
GAIT_RATE: Final = 2.5  # [1/s] of run and style weights: a walk's posture becomes a run's in 0.4 s
RAMP_KNOTS: Final = 9
MERGED_KNOTS_S: Final = 0.02  # [s] knots nearer than this are one
TAIL_KNOTS: Final = 4
RAMP_TOTAL: Final = RAMP_KNOTS + 5 + TAIL_KNOTS  # and one at the end of each of five straight lines
KNOT_S: Final = 0.1  # [s] between knots of a plan that is followed


class GaitParameters(NamedTuple):
    """Parameters of a walker."""

    speed: float  # [m/s]
    run: float  # 0 walks, 1 runs
    turn_rate: float  # [rad/s], positive to the left
    leg_length_m: float
    weights: FloatArray  # (K,) parts of the styles, their sum is one

    def row(self) -> FloatArray:
        """Columns ``(P,)`` of a plan, posture and lean unset."""
        return np.concatenate([[self.speed, self.run, self.turn_rate, self.leg_length_m, 0.0, 0.0], self.weights])

    @classmethod
    def from_row(cls, row: FloatArray) -> GaitParameters:
        """Back from the columns of a plan."""
        return cls(float(row[SPEED]), float(row[RUN]), float(row[TURN]), float(row[LEG]), row[STYLES:].copy())


class PostureLaw(NamedTuple):
    """Map from speed to posture: ``(normalised speed) ** power``, which linearises slow walks."""

    own_leg: float
    froude: bool
    power: float

    def of(self, rows: FloatArray) -> FloatArray:
        r"""Steady posture and lean ``(..., 2)`` of parameters ``(..., P)``.

        Who turns leans inwards so that gravity and the pull of the curve pass through the feet:
        :math:`\tan b = s\omega/g`, at most ``MAX_BANK``.
        """
        speed, leg = rows[..., SPEED], rows[..., LEG]
        s_n = speed / (np.sqrt(leg * self.own_leg) if self.froude else leg)
        bank = np.arctan(speed * rows[..., TURN] / GRAVITY)
        return np.stack([np.maximum(s_n, 0.0) ** self.power, np.clip(bank, -MAX_BANK, MAX_BANK)], axis=-1)


def plan_constant(rows: FloatArray, posture: PostureLaw) -> tuple[FloatArray, FloatArray]:
    """A plan of one moment: ``knots`` ``(n, 1)`` and ``values`` ``(n, 1, P)`` of parameters ``(n, P)``, held."""
    values = rows[:, None].copy()
    values[:, :, BODY] = posture.of(values)
    return np.zeros((len(rows), 1)), values


def plan_ramp(
    now: FloatArray, to: FloatArray, ends_s: FloatArray, posture: PostureLaw
) -> tuple[FloatArray, FloatArray]:
    """Straight lines from parameters ``(n, P)`` to others, each in its own time ``(n, P)`` [s], postures in more.

    Returns:
        Knots ``(n, M)`` [s] and values ``(n, M, P)``.
    """
    ends = _limit_rates(ends_s, to - now)
    kinks = np.concatenate([ends[:, : LEG + 1], ends[:, STYLES:].max(axis=1)[:, None]], axis=1)
    even = kinks.max(axis=1)[:, None] * np.linspace(0.0, 1.0, RAMP_KNOTS)
    times = np.sort(np.concatenate([even, kinks], axis=1), axis=1)
    share = np.minimum(times[:, :, None] / ends[:, None], 1.0)
    rows = (1.0 - share) * now[:, None] + share * to[:, None]
    return _append_posture(times, rows, now, posture)


def overlay_plan(
    times: FloatArray, rows: FloatArray, to: FloatArray, changed: BoolArray, over_s: float, posture: PostureLaw
) -> tuple[FloatArray, FloatArray]:
    """A plan at times ``(M,)`` [s] from now, some columns of which go to ``to`` ``(P,)`` instead, in ``over_s``."""
    now = rows[0]
    ends = _limit_rates(np.full((1, len(to)), over_s), np.where(changed, to - now, 0.0)[None])[0]
    even = np.outer(np.unique(ends), np.linspace(0.0, 1.0, RAMP_KNOTS)).ravel()
    wanted = np.unique(np.concatenate([times, even]))
    kept = np.r_[True, np.diff(wanted) > MERGED_KNOTS_S] | np.isin(wanted, ends) | (wanted == wanted[-1])
    knots = wanted[kept]
    dense = _interpolate_rows(knots, times, rows)
    share = np.minimum(knots[:, None] / ends, 1.0)
    dense = np.where(changed, (1.0 - share) * now + share * to, dense)
    return _append_posture(knots[None], dense[None], now[None], posture)


def _limit_rates(ends_s: FloatArray, change: FloatArray) -> FloatArray:
    """Times ``(n, P)`` [s] of a change: no jerks, and gaits and styles no faster than a body changes."""
    ends = np.maximum(ends_s, SHORTEST_RAMP_S)
    gait = np.r_[RUN, STYLES : change.shape[1]]
    ends[:, gait] = np.maximum(ends[:, gait], np.abs(change[:, gait]) / GAIT_RATE)
    ends[:, STYLES:] = ends[:, STYLES:].max(axis=1)[:, None]  # together, so that they always sum to one
    return ends


def plan_through_knots(
    times: FloatArray, rows: FloatArray, now: FloatArray, posture: PostureLaw
) -> tuple[FloatArray, FloatArray]:
    """A plan through knots ``(M,)`` [s] with parameters ``(M, P)``; knots are added where they are far apart."""
    first, last = float(times[0]), float(times[-1])
    even = np.linspace(first, last, 2 + int((last - first) / KNOT_S))
    knots = np.unique(np.concatenate([times, even]))
    return _append_posture(knots[None], _interpolate_rows(knots, times, rows)[None], now[None], posture)


def _interpolate_rows(knots: FloatArray, times: FloatArray, rows: FloatArray) -> FloatArray:
    """Rows ``(M, P)`` at other times, linear between."""
    out = np.empty((len(knots), rows.shape[1]))
    for c in range(rows.shape[1]):
        out[:, c] = np.interp(knots, times, rows[:, c])
    return out


def _append_posture(
    times: FloatArray, rows: FloatArray, now: FloatArray, posture: PostureLaw
) -> tuple[FloatArray, FloatArray]:
    """Let the posture follow the speed no faster than a body can, and add a tail in which it arrives."""
    asked, part = posture.of(rows), np.linspace(0.0, 1.0, TAIL_KNOTS + 1)[1:, None]
    rows[:, 0, BODY] = now[:, BODY]
    for i in range(1, rows.shape[1]):
        room = BODY_RATES * (times[:, i] - times[:, i - 1])[:, None]
        rows[:, i, BODY] = rows[:, i - 1, BODY] + np.clip(asked[:, i] - rows[:, i - 1, BODY], -room, room)
    last, length = rows[:, -1, BODY], times[:, -1, None]
    missing = (np.abs(asked[:, -1] - last) / BODY_RATES).max(axis=1)[:, None]
    tail = np.repeat(rows[:, -1:], TAIL_KNOTS, axis=1)
    tail[:, :, BODY] = last[:, None] + (asked[:, -1] - last)[:, None] * part
    tail[:, -1, BODY] = asked[:, -1]
    knots = np.concatenate([times, length + missing * part[:, 0]], axis=1)
    return knots, np.concatenate([rows, tail], axis=1)
