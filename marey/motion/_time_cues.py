r"""What in a clip tells how fast time runs: gravity, balance, and the natural period of swinging limbs.

Each cue is a number without unit that does not depend on the frame rate as long as the rate is right. Lengths are in
units of the leg, times in units of :math:`\sqrt{\mathrm{leg}/g}` (dynamic similarity, [Alexander1989]_). Played at
double speed, accelerations grow four times and durations halve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.motion._filter import lowpass_values
from marey.motion._mass import mass_weights
from marey.motion._motion import Motion
from marey.skeleton import RoleMap, role_map

GRAVITY: Final = 9.81  # [m/s²]
SMOOTHING_HZ: Final = 9.0  # above the bandwidth of whole-body motion, below marker noise
MIN_FRAMES: Final = 30
MAX_FRAMES: Final = 2000  # the busiest stretch of this length is enough, and keeps long clips cheap
JUMP: Final = 0.3  # [leg] a root that moves this far in one frame was not followed
TOGETHER: Final = 0.35  # [unit of time] about 0.1 s: feet whose swings differ by less hop
SIDES: Final = ("left_", "right_")
LEVEL: Final = [0, 2]
_LEGS: Final = tuple(side + part for side in SIDES for part in ("hip", "knee", "ankle", "foot"))
_ARMS: Final = tuple(side + part for side in SIDES for part in ("shoulder", "elbow", "wrist"))


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    r"""Smooth tracks of the joints that matter, in units of leg length and :math:`\sqrt{leg/g}`: gravity is 1."""

    step: float  # time between frames
    position: dict[str, FloatArray]  # (F, 3) by role, and "com"
    velocity: dict[str, FloatArray]
    acceleration: dict[str, FloatArray]
    height: FloatArray  # (2, F) of each foot's lowest joint above the floor
    speed: FloatArray  # (2, F) of each foot's slower joint
    leg_m: float

    def frames(self, duration: float) -> int:
        """How many frames a duration [unit] takes, at least two."""
        return max(2, round(duration / self.step))

    @property
    def down(self) -> BoolArray:
        """Feet that stand ``(2, F)``: nearly still and near the floor."""
        return (self.speed < 0.16) & (self.height < 0.12)

    @property
    def airborne(self) -> BoolArray:
        """Frames ``(F,)`` in which both feet move above the floor and no hand is near it."""
        hands = [self.position[side + "wrist"][:, 1] for side in SIDES if side + "wrist" in self.position]
        free = np.min(hands, axis=0) > 0.42 if hands else True
        return np.asarray((self.speed > 0.21).all(axis=0) & (self.height > 0.024).all(axis=0) & free)


def find_body(motion: Motion, roles: RoleMap | None = None) -> Body | None:
    """Tracks for the cues, or ``None`` if the clip has no legs, is too short, or is not of human size."""
    roles = role_map(motion.skeleton) if roles is None else roles
    if any(role not in roles for role in _LEGS):
        return None
    used = [role for role in (*_LEGS, *_ARMS, "neck", "head") if role in roles]
    points = motion.joint_positions()[:, [roles[role] for role in used]]
    leg = _leg_length(points, used)
    if not 0.3 < leg < 1.5:
        return None
    unit_s = float(np.sqrt(leg / GRAVITY))
    points = _steady_stretch(points / leg)
    cutoff = min(SMOOTHING_HZ, 0.4 * motion.rate_hz)
    if len(points) < MIN_FRAMES:
        return None
    return _track(lowpass_values(points, motion.rate_hz, cutoff), used, 1.0 / (motion.rate_hz * unit_s), leg)


def tempo_cues(body: Body) -> dict[str, float]:
    """The cues that this clip offers, by name; those without an occasion (no flight, no step) are left out."""
    values = {name: cue(body) for name, cue in CUES.items()}
    return {name: value for name, value in values.items() if value is not None and np.isfinite(value)}


def _leg_length(points: FloatArray, used: list[str]) -> float:
    hip, knee, ankle = (points[:, used.index("left_" + part)] for part in ("hip", "knee", "ankle"))
    return float(np.median(np.linalg.norm(hip - knee, axis=1) + np.linalg.norm(knee - ankle, axis=1)))


def _steady_stretch(points: FloatArray) -> FloatArray:
    """The longest stretch without jumps of the root, cut to the busiest ``MAX_FRAMES``."""
    steps = np.linalg.norm(np.diff(points[:, 0], axis=0), axis=1)
    edges = np.concatenate([[0], np.flatnonzero(steps > JUMP) + 1, [len(points)]])
    longest = int(np.argmax(np.diff(edges)))
    points = points[edges[longest] : edges[longest + 1]]
    if len(points) <= MAX_FRAMES:
        return points
    travelled = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(points, axis=0)).sum(axis=(1, 2)))])
    start = int(np.argmax(travelled[MAX_FRAMES - 1 :] - travelled[: len(points) - MAX_FRAMES + 1]))
    return points[start : start + MAX_FRAMES]


def _track(points: FloatArray, used: list[str], step: float, leg_m: float) -> Body:
    weights = mass_weights(frozenset(used))
    names = [*used, "com"]
    centre = np.einsum("p,fpi->fi", [weights.get(role, 0.0) for role in used], points)
    points = np.concatenate([points, centre[:, None]], axis=1)
    velocities = np.gradient(points, step, axis=0)
    accelerations = np.gradient(velocities, step, axis=0)
    position, velocity, acceleration = (
        {name: values[:, k] for k, name in enumerate(names)} for values in (points, velocities, accelerations)
    )
    height = np.stack([np.minimum(position[s + "ankle"][:, 1] - 0.095, position[s + "foot"][:, 1]) for s in SIDES])
    floor = np.percentile(height.min(axis=0), 5)
    speed = np.stack([np.minimum(_norm(velocity[s + "ankle"]), _norm(velocity[s + "foot"])) for s in SIDES])
    for values in position.values():
        values[:, 1] -= floor
    return Body(step, position, velocity, acceleration, height - floor, speed, leg_m)


def _free_fall(body: Body) -> float | None:
    """Downward acceleration of the centre of mass in flight over g: 1 at the right rate, 4 at double speed."""
    fits: list[tuple[float, int]] = []
    for start, stop in spans(body.airborne, max(6, body.frames(0.2))):
        edge = max(1, (stop - start) // 6)  # take-off and landing are smoothed into the flight
        heights = body.position["com"][start + edge : stop - edge, 1]
        times = body.step * np.arange(len(heights))
        fits.append((-2.0 * float(np.polyfit(times, heights, 2)[0]), (stop - start) ** 2))
    falls = [(g, weight) for g, weight in fits if g > 0.6]  # less is no flight: something carries the body
    return float(np.average([g for g, _ in falls], weights=[n for _, n in falls])) if falls else None


def _drop_on_feet(body: Body) -> float | None:
    """How fast the centre of mass sinks while a foot stands, over g: feet push but never pull, so seldom near 1."""
    standing = body.down.any(axis=0)
    if standing.sum() <= body.frames(0.57):
        return None
    return max(0.03, -float(np.percentile(body.acceleration["com"][standing, 1], 2)))


def _balance(body: Body) -> float | None:
    r"""How far the zero-moment point leaves the standing feet [leg], 97th percentile.

    :math:`z = x - h\,\ddot x/(g + \ddot h)` must stay under the soles ([Vukobratovic2004]_), within what the neglected
    angular momentum allows.
    """
    standing = body.down.any(axis=0)
    if standing.sum() <= body.frames(0.57):
        return None
    centre = body.position["com"]
    z = centre[:, LEVEL] - centre[:, 1:2] * _push(body)
    distance = _distance_to_feet(body, z)[standing]
    return max(1e-3, float(np.percentile(distance, 97)))


def _pendulum(body: Body) -> float | None:
    r"""Horizontal acceleration on one foot over that of an inverted pendulum, :math:`\ddot x = g x/h`."""
    lean: list[FloatArray] = []
    push: list[FloatArray] = []
    centre, all_push = body.position["com"], _push(body)
    for side, (own, other) in zip(SIDES, ((0, 1), (1, 0)), strict=True):
        sole = 0.4 * body.position[side + "ankle"] + 0.6 * body.position[side + "foot"]
        for start, stop in spans(body.down[own] & (body.speed[other] > 0.21), body.frames(0.23)):
            part = slice(start, stop)
            lean.append((centre[part] - np.median(sole[part], axis=0))[:, LEVEL] / centre[part, 1:2])
            push.append(all_push[part])
    if sum(len(part) for part in lean) <= body.frames(0.57):
        return None
    return float(np.sqrt((np.concatenate(push) ** 2).sum() / (np.concatenate(lean) ** 2).sum()))


def _swing(body: Body) -> float | None:
    """How long a foot swings (width of its speed pulse at half height), median over steps."""
    widths = [width for _, width in swings(body)]
    return float(np.median(widths)) if widths else None


def _step_time(body: Body) -> float | None:
    """Time from one step to the next, median; feet that swing together make one step."""
    middles = np.sort([middle for middle, _ in swings(body)])
    apart = np.diff(middles)
    apart = apart[apart > TOGETHER]
    return float(np.median(apart)) if len(apart) > 1 else None


def swings(body: Body) -> Iterator[tuple[float, float]]:
    """Middle and width at half height of the speed pulse of each step, of either foot."""
    for side in SIDES:
        ankle, speed = body.position[side + "ankle"][:, LEVEL], _norm(body.velocity[side + "ankle"][:, LEVEL])
        for start, stop in spans(speed > 0.17, 2):
            pulse = speed[start:stop]
            whole = start > 0 and stop < len(speed) and pulse.max() > 0.35
            if whole and np.linalg.norm(ankle[stop - 1] - ankle[start]) > 0.25:
                fast = np.flatnonzero(pulse > 0.5 * pulse.max())
                yield body.step * float(start + fast.mean()), body.step * len(fast)


def _hand_tempo(body: Body) -> float | None:
    """Rate at which the velocity of the hands changes, relative to the shoulders, while they move."""
    if any(side + part not in body.position for side in SIDES for part in ("wrist", "shoulder")):
        return None
    return float(np.sqrt(np.prod([_tempo(body, side + "wrist", side + "shoulder") for side in SIDES])))


def _tempo(body: Body, joint: str, base: str) -> float:
    velocity = body.velocity[joint] - body.velocity[base]
    speed = _norm(velocity)
    busy = speed > 0.25 * np.percentile(speed, 95)
    if not busy.any():
        return np.nan
    acceleration = (body.acceleration[joint] - body.acceleration[base])[busy]
    return float(np.sqrt((acceleration**2).sum() / (velocity[busy] ** 2).sum()))


def _push(body: Body) -> FloatArray:
    """Horizontal over vertical ground force ``(F, 2)``, the vertical one kept away from zero."""
    acceleration = body.acceleration["com"]
    return acceleration[:, LEVEL] / np.maximum(1.0 + acceleration[:, 1:2], 0.3)


def _distance_to_feet(body: Body, points: FloatArray) -> FloatArray:
    """Distance ``(F,)`` of ground points ``(F, 2)`` to the lines between the joints of the standing feet."""
    ankles, toes = ([body.position[side + part][:, LEVEL] for side in SIDES] for part in ("ankle", "foot"))
    single = np.stack([_to_segment(points, ankles[i], toes[i]) for i in (0, 1)])
    nearest: FloatArray = np.min(np.where(body.down, single, np.inf), axis=0)
    pairs = ((ankles[0], ankles[1]), (toes[0], toes[1]), (ankles[0], toes[1]), (toes[0], ankles[1]))
    between: FloatArray = np.min(np.stack([_to_segment(points, a, b) for a, b in pairs]), axis=0)
    both = body.down[0] & body.down[1]
    return np.where(both, np.minimum(nearest, between), nearest)


def _to_segment(points: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    along = b - a
    t = np.clip(((points - a) * along).sum(axis=1) / np.maximum((along**2).sum(axis=1), 1e-9), 0.0, 1.0)
    return _norm(points - a - t[:, None] * along)


def spans(flags: BoolArray, min_frames: int) -> Iterator[tuple[int, int]]:
    """Start and stop of each stretch of true flags at least ``min_frames`` long."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        if stop - start >= min_frames:
            yield int(start), int(stop)


def _norm(vectors: FloatArray) -> FloatArray:
    return np.sqrt((vectors**2).sum(axis=-1))


CUES: Final[dict[str, Callable[[Body], float | None]]] = {
    "free fall": _free_fall,
    "drop on feet": _drop_on_feet,
    "balance": _balance,
    "pendulum": _pendulum,
    "swing": _swing,
    "step time": _step_time,
    "hand tempo": _hand_tempo,
}
