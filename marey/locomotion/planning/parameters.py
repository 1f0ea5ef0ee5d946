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
PITCH: Final = 6
HASTE: Final = 7
STYLES: Final = 8

SCALINGS: Final = ("froude", "leg")  # how size and speed go together
MAX_MID_STANCE_S: Final = 0.5  # [s] no stance is foreseen farther than this after its strike
SHORTEST_RAMP_S: Final = 0.1  # [s] [Glardon2005]_ §III.2.4.3 changes at once; faster than this is a jerk
BODY: Final = slice(POSTURE, HASTE)  # columns that follow the others, as fast as a body can
FOLLOWING: Final = slice(POSTURE, STYLES)  # and all that follow
HASTE_S: Final = 0.3  # [s] who brakes steps as fast as so long ago; ...
TURN_HASTE_S: Final = 0.22  # [s] ... who turns, as if braking as hard, and as fast as the feet
BODY_RATES: Final = np.array([3.0, 0.8, 0.8])  # [1/s] standing to a brisk walk's posture in 0.4 s; [rad/s] of lean
BRAKING_LEAN: Final = 1.25  # [-] of the lean that balances it: who stops sits back, and steps less far ahead
MAX_LEAN: Final = 0.6  # [rad] inwards, forwards or backwards
ACCELERATION: Final = (1.5, 2.0)  # [m/s²] at most, of who walks and who runs and is given no time
BRAKING: Final = (1.5, 1.5)  # [m/s²] likewise, of who slows down: harder, runners tip over
GAIT_CHANGE: Final = (
    0.45,
    0.3,
)  # [-] of the time of a start and of a stop: when a walk begins to become a run, and back
GAIT_CHANGE_PART: Final = 0.4  # [-] of that time: how long it takes
TURN_ACCELERATION: Final = 1.5  # [rad/s²] the same
GRAVITY: Final = 9.81  # [m/s²]
CENTRE_PART: Final = 1.05  # [-] of the leg: height of the centre of mass
GAIT_RATE: Final = 2.5  # [1/s] of run and style weights: a walk's posture becomes a run's in 0.4 s
RAMP_KNOTS: Final = 17
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
        return np.concatenate(
            [[self.speed, self.run, self.turn_rate, self.leg_length_m, 0.0, 0.0, 0.0, 0.0], self.weights]
        )

    @classmethod
    def from_row(cls, row: FloatArray) -> GaitParameters:
        """Back from the columns of a plan."""
        return cls(float(row[SPEED]), float(row[RUN]), float(row[TURN]), float(row[LEG]), row[STYLES:].copy())


class StepLaw(NamedTuple):
    """Steps of one length, as stairs ask for: the posture of the gait whose steps are so long, at another cadence."""

    step_m: float
    slow: float  # [m/s] speed at which the steps of the steady gait are so long
    speeds: FloatArray  # (G,) [m/s]
    hertz: FloatArray  # (G,) [Hz] cycles of the steady walk at these speeds

    @classmethod
    def fit(cls, step_m: float, speeds: FloatArray, hertz: FloatArray) -> StepLaw:
        """Find the speed [m/s] whose steps are ``step_m`` long."""
        steps = 0.5 * speeds / np.maximum(hertz, 1e-9)
        return cls(step_m, float(np.interp(step_m, steps, speeds)), speeds, hertz)

    def haste(self, speed: FloatArray) -> FloatArray:
        """How much faster [m/s] the steady gait of the wanted cadence is, ``(...)``."""
        return np.where(speed > 0.0, np.interp(0.5 * speed / self.step_m, self.hertz, self.speeds) - speed, 0.0)


class PostureLaw(NamedTuple):
    """Map from speed to posture: ``(normalised speed) ** power``, which linearises slow walks."""

    own_leg: float
    froude: bool
    power: float
    step: StepLaw | None = None

    def of(self, rows: FloatArray, times: FloatArray | None = None) -> FloatArray:
        r"""Posture and leans ``(..., 3)`` of parameters ``(..., P)``; steady ones, or at times ``(..., M)`` [s].

        Who turns leans inwards, and who gains speed leans forwards, so that gravity and the pull of inertia pass
        through the feet: :math:`\tan b = s\omega/g` and :math:`\tan p = \dot s/g`, at most ``MAX_LEAN``. Feet go round
        outside the way of the centre of mass, so that the posture is that of a faster gait.
        """
        speed, leg = rows[..., SPEED], rows[..., LEG]
        bank = np.clip(np.arctan(speed * rows[..., TURN] / GRAVITY), -MAX_LEAN, MAX_LEAN)
        own = speed + foot_lead(bank, rows)
        own = own if self.step is None else np.minimum(own, self.step.slow)
        s_n = own / (np.sqrt(leg * self.own_leg) if self.froude else leg)
        gain = np.zeros_like(speed)
        if times is not None and times.shape[-1] > 1:
            # At a knot the mean of both sides; a plan begins and ends without
            length = np.diff(times, axis=-1)
            slope = np.where(length > 1e-9, np.diff(speed, axis=-1) / np.maximum(length, 1e-9), 0.0)
            gain[..., 1:-1] = 0.5 * (slope[..., 1:] + slope[..., :-1])
            gain = np.where(gain < 0.0, BRAKING_LEAN * gain, gain)
        leans = np.arctan(np.stack([speed * rows[..., TURN], gain], axis=-1) / GRAVITY)
        posture = np.maximum(s_n, 0.0) ** self.power
        return np.concatenate([posture[..., None], np.clip(leans, -MAX_LEAN, MAX_LEAN)], axis=-1)


def foot_lead(bank: FloatArray, rows: FloatArray) -> FloatArray:
    """How much faster [m/s] than the body the feet of parameters ``(..., P)`` go round that lean by ``bank`` [rad]."""
    return CENTRE_PART * rows[..., LEG] * np.abs(rows[..., TURN] * np.sin(bank))


def compute_haste(rows: FloatArray, posture: PostureLaw, *, leans: bool = True) -> FloatArray:
    """How much faster [m/s] parameters ``(..., P)`` step than a steady straight gait: shorter and faster in leans."""
    if posture.step is not None:
        return posture.step.haste(rows[..., SPEED])
    braking, turning = np.maximum(-rows[..., PITCH], 0.0), np.abs(rows[..., BANK])
    haste = GRAVITY * np.maximum(HASTE_S * braking, TURN_HASTE_S * turning)
    return (foot_lead(rows[..., BANK], rows) + haste) * float(leans)


def plan_constant(rows: FloatArray, posture: PostureLaw) -> tuple[FloatArray, FloatArray]:
    """A plan of one moment: ``knots`` ``(n, 1)`` and ``values`` ``(n, 1, P)`` of parameters ``(n, P)``, held."""
    values = rows[:, None].copy()
    values[:, :, BODY] = posture.of(values)
    values[:, :, HASTE] = compute_haste(values, posture)
    return np.zeros((len(rows), 1)), values


def comfortable_times(now: FloatArray, to: FloatArray) -> FloatArray:
    """Times [s] in which parameters ``(..., P)`` change to others as a body does that is given none."""
    change, runs = np.abs(to - now), np.maximum(now[..., RUN], to[..., RUN])
    times = np.full(change.shape, SHORTEST_RAMP_S)
    # The steepest part of a smooth step is 1.5 times its mean.
    slow, fast = (np.where(to[..., SPEED] < now[..., SPEED], *pair) for pair in zip(BRAKING, ACCELERATION, strict=True))
    most = slow + runs * (fast - slow)
    times[..., SPEED] = 1.5 * change[..., SPEED] / most
    times[..., TURN] = 1.5 * change[..., TURN] / TURN_ACCELERATION
    times[..., RUN] = times[..., SPEED]
    return np.maximum(times, SHORTEST_RAMP_S)


def smooth_shares(share: FloatArray, change: FloatArray) -> FloatArray:
    """Smooth steps ``(n, M, P)`` from straight shares; the gait changes late in a start and early in a stop."""
    begin = np.where(change[:, None, RUN] > 0.0, *GAIT_CHANGE)
    share = share.copy()
    share[..., RUN] = np.clip((share[..., RUN] - begin) / GAIT_CHANGE_PART, 0.0, 1.0)
    return share * share * (3.0 - 2.0 * share)


def plan_ramp(
    now: FloatArray, to: FloatArray, ends_s: FloatArray, posture: PostureLaw, *, smooth: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Lines from parameters ``(n, P)`` to others, each in its own time ``(n, P)`` [s], postures in more.

    Lines are straight, or ``smooth`` steps :math:`x^2 (3 - 2x)` without a jerk at their ends.

    Returns:
        Knots ``(n, M)`` [s] and values ``(n, M, P)``.
    """
    ends = _limit_rates(ends_s, to - now)
    kinks = np.concatenate([ends[:, : LEG + 1], ends[:, STYLES:].max(axis=1)[:, None]], axis=1)
    even = kinks.max(axis=1)[:, None] * np.linspace(0.0, 1.0, RAMP_KNOTS)
    times = np.sort(np.concatenate([even, kinks], axis=1), axis=1)
    share = np.minimum(times[:, :, None] / ends[:, None], 1.0)
    share = smooth_shares(share, to - now) if smooth else share
    rows = (1.0 - share) * now[:, None] + share * to[:, None]
    return _append_posture(times, rows, now, posture, hastes=smooth)


def overlay_plan(
    times: FloatArray, rows: FloatArray, to: FloatArray, changed: BoolArray, over_s: float | None, posture: PostureLaw
) -> tuple[FloatArray, FloatArray]:
    """A plan at times ``(M,)`` [s] from now, some columns of which go to ``to`` ``(P,)`` instead, in ``over_s``.

    Without a time they do so smoothly, as fast as a body does.
    """
    now = rows[0]
    asked = comfortable_times(now, to) if over_s is None else np.full(len(to), over_s)
    ends = _limit_rates(asked[None], np.where(changed, to - now, 0.0)[None])[0]
    even = np.outer(np.unique(ends), np.linspace(0.0, 1.0, RAMP_KNOTS)).ravel()
    wanted = np.unique(np.concatenate([times, even]))
    kept = np.r_[True, np.diff(wanted) > MERGED_KNOTS_S] | np.isin(wanted, ends) | (wanted == wanted[-1])
    knots = wanted[kept]
    dense = _interpolate_rows(knots, times, rows)
    share = np.minimum(knots[:, None] / ends, 1.0)
    share = smooth_shares(share[None], (to - now)[None])[0] if over_s is None else share
    dense = np.where(changed, (1.0 - share) * now + share * to, dense)
    return _append_posture(knots[None], dense[None], now[None], posture, hastes=over_s is None)


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
    return _append_posture(knots[None], _interpolate_rows(knots, times, rows)[None], now[None], posture, leans=False)


def _interpolate_rows(knots: FloatArray, times: FloatArray, rows: FloatArray) -> FloatArray:
    """Rows ``(M, P)`` at other times, linear between."""
    out = np.empty((len(knots), rows.shape[1]))
    for c in range(rows.shape[1]):
        out[:, c] = np.interp(knots, times, rows[:, c])
    return out


def _append_posture(
    times: FloatArray,
    rows: FloatArray,
    now: FloatArray,
    posture: PostureLaw,
    *,
    leans: bool = True,
    hastes: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Let posture and leans follow the speed no faster than a body can, and add a tail in which they arrive.

    Footsteps of a plan in straight lines are foreseen by its cadence, so that it ``hastes`` in none, and those of a
    plan through knots by their places, so that nobody ``leans`` into its starts and stops.
    """
    asked, part = posture.of(rows, times if leans else None), np.linspace(0.0, 1.0, TAIL_KNOTS + 1)[1:, None]
    # The body is upright again when the speed is reached.
    room = BODY_RATES[PITCH - POSTURE] * (times[:, -1:] - times)
    asked[..., PITCH - POSTURE] = np.clip(asked[..., PITCH - POSTURE], -room, room)
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
    values = np.concatenate([rows, tail], axis=1)
    values[..., HASTE] = compute_haste(values, posture, leans=hastes)
    return knots, values
