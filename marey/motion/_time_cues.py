r"""What in a clip tells how fast time runs: gravity, balance, and the natural period of swinging limbs.

Each cue is a number without unit that does not depend on the frame rate as long as the rate is right. Lengths are in
units of the leg, times in units of :math:`\sqrt{\mathrm{leg}/g}` (dynamic similarity, [Alexander1989]_). Played at
double speed, accelerations grow four times and durations halve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.motion._runs import find_runs
from marey.motion._time_body import LEVEL, SIDES, BodyTracks, row_norms

TOGETHER: Final = 0.35  # [unit of time] about 0.1 s: feet whose swings differ by less hop
NO_FLIGHT: Final = 0.6  # [g] a body that falls more slowly is carried, or played slowly
HALF_SPEED: Final = (0.16, 0.36)  # [g] fall of a flight played at half speed: a quarter of gravity


def measure_cues(body: BodyTracks) -> dict[str, float]:
    """The cues that this clip offers, by name; those without an occasion (no flight, no step) are left out."""
    values = {name: cue(body) for name, cue in CUES.items()}
    return {name: value for name, value in values.items() if value is not None and np.isfinite(value)}


def _free_fall(body: BodyTracks) -> float | None:
    """Downward acceleration of the centre of mass in flight over g: 1 at the right rate, 4 at double speed."""
    fits: list[tuple[float, int]] = []
    for start, stop in find_runs(body.airborne, shortest=max(6, body.frames(0.2))):
        edge = max(1, (stop - start) // 6)  # take-off and landing are smoothed into the flight
        heights = body.position["com"][start + edge : stop - edge, 1]
        times = body.step * np.arange(len(heights))
        fits.append((-2.0 * float(np.polyfit(times, heights, 2)[0]), (stop - start) ** 2))
    falls = [(g, weight) for g, weight in fits if g > NO_FLIGHT]
    return float(np.average([g for g, _ in falls], weights=[n for _, n in falls])) if falls else None


def slow_fall(body: BodyTracks) -> float | None:
    """Fall of the centre of mass over g in flights played at half speed, about 0.25; ``None`` if there are none.

    Something that carries the body slows its fall too, so only clear flights count: both feet well off the ground, a
    parabola to within 6 mm a metre of leg, no horizontal force; and one flight at full gravity refutes the rest.
    """
    falls: list[float] = []
    for start, stop in find_runs(body.airborne & (body.height > 0.05).all(axis=0), shortest=max(8, body.frames(0.5))):
        edge = max(1, (stop - start) // 6)
        path = body.position["com"][start + edge : stop - edge]
        fall, is_ballistic = _fit_flight(path, body.step)
        if fall >= NO_FLIGHT:
            return None
        if is_ballistic and HALF_SPEED[0] < fall < HALF_SPEED[1]:
            falls.append(fall)
    return float(np.median(falls)) if falls else None


def _fit_flight(path: FloatArray, step: float) -> tuple[float, bool]:
    """Downward acceleration of a path ``(N, 3)``, and whether it is a parabola of some height without side force."""
    times = step * np.arange(len(path))
    fit = np.polyfit(times, path, 2)
    residual = path[:, 1] - np.polyval(fit[:, 1], times)
    sideways = 2.0 * float(np.hypot(fit[0, 0], fit[0, 2]))
    is_parabola = float(residual.std()) < 0.006 and float(np.ptp(path[:, 1])) > 0.02
    return -2.0 * float(fit[0, 1]), is_parabola and sideways < 0.06


def _drop_on_feet(body: BodyTracks) -> float | None:
    """How fast the centre of mass sinks while a foot stands, over g: feet push but never pull, so seldom near 1."""
    standing = body.down.any(axis=0)
    if standing.sum() <= body.frames(0.57):
        return None
    return max(0.03, -float(np.percentile(body.acceleration["com"][standing, 1], 2)))


def _balance(body: BodyTracks) -> float | None:
    r"""How far the zero-moment point leaves the standing feet [leg], 97th percentile.

    :math:`z = x - h\,\ddot x/(g + \ddot h)` must stay under the soles ([Vukobratovic2004]_), within what the neglected
    angular momentum allows.
    """
    standing = body.down.any(axis=0)
    if standing.sum() <= body.frames(0.57):
        return None
    centre = body.position["com"]
    z = centre[:, LEVEL] - centre[:, 1:2] * _force_ratios(body)
    distance = _distance_to_feet(body, z)[standing]
    return max(1e-3, float(np.percentile(distance, 97)))


def _pendulum(body: BodyTracks) -> float | None:
    r"""Horizontal acceleration on one foot over that of an inverted pendulum, :math:`\ddot x = g x/h`."""
    lean: list[FloatArray] = []
    push: list[FloatArray] = []
    centre, all_push = body.position["com"], _force_ratios(body)
    for side, (own, other) in zip(SIDES, ((0, 1), (1, 0)), strict=True):
        sole = 0.4 * body.position[side + "ankle"] + 0.6 * body.position[side + "foot"]
        for start, stop in find_runs(body.down[own] & (body.speed[other] > 0.21), shortest=body.frames(0.23)):
            part = slice(start, stop)
            lean.append((centre[part] - np.median(sole[part], axis=0))[:, LEVEL] / centre[part, 1:2])
            push.append(all_push[part])
    if sum(len(part) for part in lean) <= body.frames(0.57):
        return None
    return float(np.sqrt((np.concatenate(push) ** 2).sum() / (np.concatenate(lean) ** 2).sum()))


def _swing(body: BodyTracks) -> float | None:
    """How long a foot swings (width of its speed pulse at half height), median over steps."""
    widths = [width for _, width in find_swings(body)]
    return float(np.median(widths)) if widths else None


def _step_time(body: BodyTracks) -> float | None:
    """Time from one step to the next, median; feet that swing together make one step."""
    middles = np.sort([middle for middle, _ in find_swings(body)])
    apart = np.diff(middles)
    apart = apart[apart > TOGETHER]
    return float(np.median(apart)) if len(apart) > 1 else None


def find_swings(body: BodyTracks) -> Iterator[tuple[float, float]]:
    """Middle and width at half height of the speed pulse of each step, of either foot."""
    for side in SIDES:
        ankle, speed = body.position[side + "ankle"][:, LEVEL], row_norms(body.velocity[side + "ankle"][:, LEVEL])
        for start, stop in find_runs(speed > 0.17, shortest=2):
            pulse = speed[start:stop]
            whole = start > 0 and stop < len(speed) and pulse.max() > 0.35
            if whole and np.linalg.norm(ankle[stop - 1] - ankle[start]) > 0.25:
                fast = np.flatnonzero(pulse > 0.5 * pulse.max())
                yield body.step * float(start + fast.mean()), body.step * len(fast)


def _hand_tempo(body: BodyTracks) -> float | None:
    """Rate at which the velocity of the hands changes, relative to the shoulders, while they move."""
    if any(side + part not in body.position for side in SIDES for part in ("wrist", "shoulder")):
        return None
    return float(np.sqrt(np.prod([_tempo(body, side + "wrist", side + "shoulder") for side in SIDES])))


def _tempo(body: BodyTracks, joint: str, base: str) -> float:
    velocity = body.velocity[joint] - body.velocity[base]
    speed = row_norms(velocity)
    busy = speed > 0.25 * np.percentile(speed, 95)
    if not busy.any():
        return np.nan
    acceleration = (body.acceleration[joint] - body.acceleration[base])[busy]
    return float(np.sqrt((acceleration**2).sum() / (velocity[busy] ** 2).sum()))


def _force_ratios(body: BodyTracks) -> FloatArray:
    """Horizontal over vertical ground force ``(F, 2)``, the vertical one kept away from zero."""
    acceleration = body.acceleration["com"]
    return acceleration[:, LEVEL] / np.maximum(1.0 + acceleration[:, 1:2], 0.3)


def _distance_to_feet(body: BodyTracks, points: FloatArray) -> FloatArray:
    """Distance ``(F,)`` of ground points ``(F, 2)`` to the lines between the joints of the standing feet."""
    ankles, toes = ([body.position[side + part][:, LEVEL] for side in SIDES] for part in ("ankle", "foot"))
    single = np.stack([_offset_to_segment(points, ankles[i], toes[i]) for i in (0, 1)])
    nearest: FloatArray = np.min(np.where(body.down, single, np.inf), axis=0)
    pairs = ((ankles[0], ankles[1]), (toes[0], toes[1]), (ankles[0], toes[1]), (toes[0], ankles[1]))
    between: FloatArray = np.min(np.stack([_offset_to_segment(points, a, b) for a, b in pairs]), axis=0)
    both = body.down[0] & body.down[1]
    return np.where(both, np.minimum(nearest, between), nearest)


def _offset_to_segment(points: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    along = b - a
    t = np.clip(((points - a) * along).sum(axis=1) / np.maximum((along**2).sum(axis=1), 1e-9), 0.0, 1.0)
    return row_norms(points - a - t[:, None] * along)


CUES: Final[dict[str, Callable[[BodyTracks], float | None]]] = {
    "free fall": _free_fall,
    "drop on feet": _drop_on_feet,
    "balance": _balance,
    "pendulum": _pendulum,
    "swing": _swing,
    "step time": _step_time,
    "hand tempo": _hand_tempo,
}
