r"""Check of the frame rate of a clip by gravity, balance and the natural period of swinging limbs.

Each cue is a dimensionless number: lengths are in units of the leg, times in units of :math:`\sqrt{\mathrm{leg}/g}`
(dynamic similarity, [Alexander1989]_). At double speed, accelerations are four times as large and durations halve.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.motion.clip import Motion
from marey.motion.mass import mass_weights
from marey.motion.time_series import find_runs, lowpass_values
from marey.skeleton import RoleMap, foot_points, role_map

GRAVITY: Final = 9.81  # [m/s²]
SMOOTHING_HZ: Final = 9.0  # above the bandwidth of whole-body motion, below marker noise
MIN_FRAMES: Final = 30
MAX_FRAMES: Final = 2000  # long clips are tested on their most active interval of this length
JUMP: Final = 0.3  # [leg] a root that moves this far in one frame was lost by the tracker
UPRIGHT: Final = 0.6  # [leg] height of the centre of mass: 1.1 standing, 0.8 seated, 0.4 on all fours
SIDES: Final = ("left_", "right_")
LEVEL: Final = [0, 2]
_LEGS: Final = tuple(side + part for side in SIDES for part in ("hip", "knee", "ankle"))
_ARMS: Final = tuple(side + part for side in SIDES for part in ("shoulder", "elbow", "wrist"))


@dataclass(frozen=True, slots=True, eq=False)
class BodyTracks:
    r"""Smoothed joint trajectories in units of leg length and :math:`\sqrt{leg/g}`, in which gravity is 1."""

    step: float  # time between frames
    position: dict[str, FloatArray]  # (F, 3) by role, and "com"
    velocity: dict[str, FloatArray]
    acceleration: dict[str, FloatArray]
    height: FloatArray  # (2, F) of each foot's lowest joint above the floor
    speed: FloatArray  # (2, F) of each foot's slower joint
    down: BoolArray  # (2, F) standing feet: still, near the floor, under an upright body that does not lean on a hand
    airborne: BoolArray  # (F,) both feet move above the floor and no hand is near it
    leg_m: float

    def frames(self, duration: float) -> int:
        """Number of frames in a duration [unit of time], at least two."""
        return max(2, round(duration / self.step))


def find_body(motion: Motion, roles: RoleMap | None = None) -> BodyTracks | None:
    """Tracks for the cues, or ``None`` if the clip has no legs, is too short, or is not of human size."""
    roles = role_map(motion.skeleton) if roles is None else roles
    if any(role not in roles for role in _LEGS):
        return None
    used = [role for role in (*_LEGS, *_ARMS, "neck", "head") if role in roles]
    joints = motion.joint_positions()
    # Balls of the feet: their joints, or estimated points if the feet have no toes
    if all(side + "foot" in roles for side in SIDES):
        balls = joints[:, [roles[side + "foot"] for side in SIDES]]
    else:
        feet = foot_points(motion.skeleton, roles)
        balls = feet.positions(*motion.joint_frames())[:, [feet.index(side + "ball") for side in SIDES]]
    hip, knee, ankle = (joints[:, roles["left_" + part]] for part in ("hip", "knee", "ankle"))
    leg = float(np.median(np.linalg.norm(hip - knee, axis=1) + np.linalg.norm(knee - ankle, axis=1)))
    if not 0.3 < leg < 1.5:
        return None
    # The longest interval without jumps of the root, cut to its most active MAX_FRAMES
    stretch = np.concatenate([joints[:, [roles[role] for role in used]], balls], axis=1) / leg
    steps = np.linalg.norm(np.diff(stretch[:, 0], axis=0), axis=1)
    edges = np.concatenate([[0], np.flatnonzero(steps > JUMP) + 1, [len(stretch)]])
    longest = int(np.argmax(np.diff(edges)))
    stretch = stretch[edges[longest] : edges[longest + 1]]
    points = stretch
    if len(stretch) > MAX_FRAMES:
        travelled = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(stretch, axis=0)).sum(axis=(1, 2)))])
        start = int(np.argmax(travelled[MAX_FRAMES - 1 :] - travelled[: len(stretch) - MAX_FRAMES + 1]))
        points = stretch[start : start + MAX_FRAMES]
    if len(points) < MIN_FRAMES:
        return None
    points = lowpass_values(points, motion.rate_hz, min(SMOOTHING_HZ, 0.4 * motion.rate_hz))
    step = 1.0 / (motion.rate_hz * float(np.sqrt(leg / GRAVITY)))
    # Append the centre of mass as a further point
    used += [side + "foot" for side in SIDES]
    weights = mass_weights(frozenset(used))
    centre = np.einsum("p,fpi->fi", [weights.get(role, 0.0) for role in used], points)
    points = np.concatenate([points, centre[:, None]], axis=1)
    velocities = np.gradient(points, step, axis=0)
    accelerations = np.gradient(velocities, step, axis=0)
    position, velocity, acceleration = (
        {name: values[:, k] for k, name in enumerate([*used, "com"])} for values in (points, velocities, accelerations)
    )
    # Heights above the floor, which is the fifth percentile of the lower foot
    height = np.stack([np.minimum(position[s + "ankle"][:, 1] - 0.095, position[s + "foot"][:, 1]) for s in SIDES])
    floor = np.percentile(height.min(axis=0), 5)
    speed = np.stack([np.minimum(row_norms(velocity[s + "ankle"]), row_norms(velocity[s + "foot"])) for s in SIDES])
    for values in position.values():
        values[:, 1] -= floor
    height -= floor
    hands = np.full(len(points), np.inf)
    for side in SIDES:
        hands = np.minimum(hands, position[side + "wrist"][:, 1] if side + "wrist" in position else np.inf)
    upright = (position["com"][:, 1] > UPRIGHT) & (hands > 0.25)
    down = (speed < 0.16) & (height < 0.12) & upright
    moving = (speed > 0.21) & (height > 0.024)
    airborne = moving[0] & moving[1] & (hands > 0.42)
    return BodyTracks(step, position, velocity, acceleration, height, speed, down, airborne, leg)


def row_norms(vectors: FloatArray) -> FloatArray:
    """Euclidean norms over the last axis."""
    return np.sqrt((vectors**2).sum(axis=-1))


TOGETHER: Final = 0.35  # [unit of time] about 0.1 s: swings closer than this belong to a hop
MIN_STEPS: Final = 2  # pairs of steps of a gait
GAIT_SHARE: Final = 0.7  # [-] least fraction of steps that follow a step of the other foot
UNSTEADY: Final = 0.2  # [-] largest interquartile range of step times over their median
MIN_STEP: Final = 0.45  # [leg] shortest step; shorter ones are shuffles
SLOW_RATIO: Final = 2.05  # step length times step time above the human range, except for deliberate strides
USUAL_SWING, SLOW_SWING = 1.28, 2.3  # [unit of time] width of a swing: human median, and above the human range
LIVELY: Final = 0.55  # [-] least width of a swing over the step time
NO_FLIGHT: Final = 0.6  # [g] a body that falls more slowly is supported, or the clip is slow
HALF_SPEED: Final = (0.16, 0.36)  # [g] fall of a flight at half speed: a quarter of gravity


def measure_cues(body: BodyTracks) -> dict[str, float]:
    """Return the cues of a clip by name; a cue without an occasion (no flight, no step) is omitted."""
    cues: dict[str, float] = {}
    # Downward acceleration of the centre of mass in flight over g: 1 at the right rate, 4 at double speed
    falls: list[tuple[float, int]] = []
    for start, stop in find_runs(body.airborne, shortest=max(6, body.frames(0.2))):
        edge = max(1, (stop - start) // 6)  # smoothing spreads take-off and landing into the flight
        heights = body.position["com"][start + edge : stop - edge, 1]
        times = body.step * np.arange(len(heights))
        fall = -2.0 * float(np.polyfit(times, heights, 2)[0])
        if fall > NO_FLIGHT:
            falls.append((fall, (stop - start) ** 2))
    if falls:
        cues["free fall"] = float(np.average([g for g, _ in falls], weights=[n for _, n in falls]))
    # Consequences of unilateral contact: sinking, balance, and the inverted pendulum on one foot
    centre, acceleration = body.position["com"], body.acceleration["com"]
    # Horizontal over vertical ground force (F, 2), with the vertical one bounded away from zero
    push = acceleration[:, LEVEL] / np.maximum(1.0 + acceleration[:, 1:2], 0.3)
    standing = body.down.any(axis=0)
    if standing.sum() > body.frames(0.57):
        # Downward acceleration of the centre of mass over g; rarely near 1
        cues["drop on feet"] = max(0.03, -float(np.percentile(acceleration[standing, 1], 2)))
        # Distance of the zero-moment point from the segments between the joints of the standing feet [leg]
        z = centre[:, LEVEL] - centre[:, 1:2] * push
        ankles, toes = ([body.position[side + part][:, LEVEL] for side in SIDES] for part in ("ankle", "foot"))
        single = np.stack([_offset_to_segment(z, ankles[i], toes[i]) for i in (0, 1)])
        nearest: FloatArray = np.min(np.where(body.down, single, np.inf), axis=0)
        pairs = ((ankles[0], ankles[1]), (toes[0], toes[1]), (ankles[0], toes[1]), (toes[0], ankles[1]))
        between: FloatArray = np.min(np.stack([_offset_to_segment(z, a, b) for a, b in pairs]), axis=0)
        distance = np.where(body.down[0] & body.down[1], np.minimum(nearest, between), nearest)
        cues["balance"] = max(1e-3, float(np.percentile(distance[standing], 97)))
    # Horizontal acceleration on one foot over that of the pendulum
    leans: list[FloatArray] = []
    pushes: list[FloatArray] = []
    for side, (own, other) in zip(SIDES, ((0, 1), (1, 0)), strict=True):
        sole = 0.4 * body.position[side + "ankle"] + 0.6 * body.position[side + "foot"]
        for start, stop in find_runs(body.down[own] & (body.speed[other] > 0.21), shortest=body.frames(0.23)):
            part = slice(start, stop)
            leans.append((centre[part] - np.median(sole[part], axis=0))[:, LEVEL] / centre[part, 1:2])
            pushes.append(push[part])
    if sum(len(lean) for lean in leans) > body.frames(0.57):
        cues["pendulum"] = float(np.sqrt((np.concatenate(pushes) ** 2).sum() / (np.concatenate(leans) ** 2).sum()))
    # Median duration of a swing; median time between steps, where simultaneous swings count as one step
    swings = _find_swings(body)
    if swings:
        cues["swing"] = float(np.median([swing.width for swing in swings]))
    apart = np.diff([swing.middle for swing in swings])
    apart = apart[apart > TOGETHER]
    if len(apart) > 1:
        cues["step time"] = float(np.median(apart))
    # Acceleration over velocity of the hands relative to the shoulders while they move
    if all(side + part in body.position for side in SIDES for part in ("wrist", "shoulder")):
        tempos: list[float] = []
        for side in SIDES:
            velocity = body.velocity[side + "wrist"] - body.velocity[side + "shoulder"]
            acceleration = body.acceleration[side + "wrist"] - body.acceleration[side + "shoulder"]
            speed = row_norms(velocity)
            busy = speed > 0.25 * np.percentile(speed, 95)
            if busy.any():
                tempos.append(float(np.sqrt((acceleration[busy] ** 2).sum() / (velocity[busy] ** 2).sum())))
        if len(tempos) == len(SIDES):
            cues["hand tempo"] = float(np.sqrt(np.prod(tempos)))
    return {name: value for name, value in cues.items() if np.isfinite(value)}


class LegSwing(NamedTuple):
    """The speed pulse of one step of one foot."""

    middle: float  # [unit of time]
    width: float  # [unit of time] at half of its height
    side: str
    length: float  # [leg] over the ground


def _find_swings(body: BodyTracks) -> list[LegSwing]:
    """Steps of both feet in order of time."""
    swings: list[LegSwing] = []
    for side in SIDES:
        ankle, speed = body.position[side + "ankle"][:, LEVEL], row_norms(body.velocity[side + "ankle"][:, LEVEL])
        for start, stop in find_runs(speed > 0.17, shortest=2):
            pulse, length = speed[start:stop], float(np.linalg.norm(ankle[stop - 1] - ankle[start]))
            if start > 0 and stop < len(speed) and pulse.max() > 0.35 and length > 0.25:
                fast = np.flatnonzero(pulse > 0.5 * pulse.max())
                swings.append(LegSwing(body.step * float(start + fast.mean()), body.step * len(fast), side, length))
    return sorted(swings)


def slow_gait(body: BodyTracks) -> tuple[float, float] | None:
    r"""Return the slow-motion factor (2, 4 or 8) of a steady walk or run and its step time, else ``None``.

    Step time and step length are coupled: :math:`\hat L\,\hat T` (in legs and :math:`\sqrt{leg/g}`) is 1.0 to 1.9 in
    walks and runs of all speeds, and the walk ratio of a person is constant ([Sekiya1998]_). A leg swings like a
    pendulum, in 0.9 to 1.5; a deliberately slow walker stands longer between swings, a ratio that does not depend on
    the frame rate. Slow motion is reported only if the product and the swing are doubled and the stance is short;
    each of these alone is compatible with an unhurried person.
    """
    swings = _find_swings(body)
    pairs = [(one, two) for one, two in pairwise(swings) if one.side != two.side]
    if len(pairs) < MIN_STEPS or len(pairs) < GAIT_SHARE * (len(swings) - 1):
        return None
    times = np.array([two.middle - one.middle for one, two in pairs])
    lengths = np.array([0.25 * (one.length + two.length) for one, two in pairs])
    step, ratio = float(np.median(times)), float(np.median(times * lengths))
    width = float(np.median([swing.width for swing in swings]))
    is_steady = float(np.ptp(np.percentile(times, [25, 75]))) < UNSTEADY * step and float(np.median(lengths)) > MIN_STEP
    if not is_steady or ratio < SLOW_RATIO or width < SLOW_SWING or width < LIVELY * step:
        return None
    return 2.0 ** float(np.clip(np.rint(np.log2(width / USUAL_SWING)), 1.0, MAX_HALVINGS)), step


def slow_fall(body: BodyTracks) -> float | None:
    """Downward acceleration over g of flights at half speed, about 0.25; ``None`` if there are none.

    A supported body falls slowly too, so only clear flights count: both feet well off the ground, a parabola within
    6 mm per metre of leg, no horizontal force. A single flight at full gravity refutes all others.
    """
    falls: list[float] = []
    for start, stop in find_runs(body.airborne & (body.height > 0.05).all(axis=0), shortest=max(8, body.frames(0.5))):
        edge = max(1, (stop - start) // 6)
        path = body.position["com"][start + edge : stop - edge]
        # The path must be a parabola of some height without horizontal force
        times = body.step * np.arange(len(path))
        fit = np.polyfit(times, path, 2)
        residual = path[:, 1] - np.polyval(fit[:, 1], times)
        sideways = 2.0 * float(np.hypot(fit[0, 0], fit[0, 2]))
        is_ballistic = float(residual.std()) < 0.006 and float(np.ptp(path[:, 1])) > 0.02 and sideways < 0.06
        fall = -2.0 * float(fit[0, 1])
        if fall >= NO_FLIGHT:
            return None
        if is_ballistic and HALF_SPEED[0] < fall < HALF_SPEED[1]:
            falls.append(fall)
    return float(np.median(falls)) if falls else None


def _offset_to_segment(points: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    along = b - a
    t = np.clip(((points - a) * along).sum(axis=1) / np.maximum((along**2).sum(axis=1), 1e-9), 0.0, 1.0)
    return row_norms(points - a - t[:, None] * along)


MAX_HALVINGS: Final = 3  # a factor above eight has another cause
CLEAR: Final = 1.0  # [log odds] smaller values neither confirm nor refute the rate of the file
MAX_SLOW_HZ: Final = 65.0  # captures at more than four times this rate do not occur
MIN_RATE_HZ: Final = 20.0  # lowest rate of a capture; headers below twice this rate are not tested for high speed


@dataclass(frozen=True, slots=True)
class CueWeight:
    """Contribution of one cue: ``slope * log(value / middle)``, with the value clamped to ``low`` and ``high``."""

    slope: float
    middle: float
    low: float
    high: float


# Fitted by benchmarks/fit_time_base.py on 339 captured clips of 40 subjects, 43 of them with a header of twice the true
# rate: a logistic regression on log cues with signs constrained by physics. Cues and thresholds were chosen on the same
# clips, so other data will give somewhat worse results. The prior depends on the source: in the CMU collection one
# header in eight is wrong and AMC files have none; elsewhere wrong rates are rare, noise and hand animation are not.
BIAS: Final = 0.127
FLAG_DOUBTFUL: Final = 0.5  # [log odds] threshold for collections with known wrong rates
FLAG_ABOVE: Final = 3.0  # [log odds] threshold for all other files
FALL_ALONE: Final = 2.2  # [g] free fall that is sufficient evidence: between 1 and the 4 of double speed
MIN_TIME_SCORE: Final = 1.0  # [log odds] required from durations, which noise does not change
MIN_FORCE_SCORE: Final = 0.5  # [log odds] required from accelerations, which noise and drift increase
TIMES_ALONE, FLAG_BY_TIMES = 3.0, 2.0  # [log odds] durations that are sufficient evidence, and the total they require
TIME_CUES: Final = ("swing", "step time")
WEIGHTS: Final[Mapping[str, CueWeight]] = {
    "free fall": CueWeight(7.53, 1.96, 0.877, 4.27),
    "drop on feet": CueWeight(0.42, 0.544, 0.03, 1.92),
    "balance": CueWeight(1.28, 0.53, 0.112, 2.54),
    "pendulum": CueWeight(2.20, 1.87, 0.737, 5.26),
    "swing": CueWeight(-4.95, 0.87, 0.441, 1.43),
    "step time": CueWeight(-1.46, 1.32, 0.59, 2.44),
    "hand tempo": CueWeight(2.28, 3.64, 1.78, 7.38),
}
_SENTENCES: Final[Mapping[str, Callable[[float, float, float], str]]] = {  # of value, leg [m], unit of time [s]
    "free fall": lambda value, _leg, _unit: f"in flight it falls at {value * GRAVITY:.1f} m/s² (gravity: 9.8)",
    "drop on feet": lambda value, _leg, _unit: f"with a foot on the ground it sinks at up to {value:.2g} g",
    "balance": lambda value, leg, _unit: f"its weight acts up to {value * leg:.2f} m beside its feet",
    "pendulum": lambda value, _leg, _unit: f"on one foot it moves {value:.1f} times as hard as gravity tips it",
    "swing": lambda value, _leg, unit: f"a foot swings in {value * unit:.2f} s",
    "step time": lambda value, _leg, unit: f"it makes {60.0 / (value * unit):.0f} steps a minute",
    "hand tempo": lambda value, _leg, unit: f"the hands change direction {value / unit / np.pi:.1f} times a second",
}


@dataclass(frozen=True, slots=True)
class TimeBase:
    """Estimate of the frame rate of a clip from its motion."""

    rate_hz: float  # rate in the file
    suggested_rate_hz: float  # equal to `rate_hz` unless the clip is suspect
    log_odds: float  # that the clip runs at double speed, from all cues; zero if nothing could be tested
    evidence: tuple[str, ...]  # one sentence per cue, in order of weight

    @property
    def is_suspect(self) -> bool:
        """Whether the clip seems to run too fast or too slowly."""
        return self.suggested_rate_hz != self.rate_hz

    @property
    def is_testable(self) -> bool:
        """Whether the motion reveals its rate: it has steps or flights, or its cues are clear."""
        return self.is_suspect or abs(self.log_odds) > CLEAR

    @property
    def warning(self) -> str | None:
        """One sentence with the suggested rate, or ``None``."""
        if not self.is_suspect:
            return None
        reasons = "; ".join(self.evidence[: 3 if self.suggested_rate_hz < self.rate_hz else 1])
        wrong, better = "high" if self.suggested_rate_hz < self.rate_hz else "low", f"{self.suggested_rate_hz:g}"
        return (
            f"the frame rate {self.rate_hz:g} Hz seems too {wrong}: {reasons}. "
            f"It was probably captured at {better} Hz: load it with rate_hz={better}"
        )


def check_time_base(motion: Motion) -> TimeBase:
    r"""Test whether a clip runs at the wrong speed, for example with a header of 120 Hz after a capture at 60 Hz.

    Cues that require no knowledge of the behaviour add up to log odds: the free fall of the centre of mass in flight
    (:math:`9.81\,k^2` if time runs :math:`k` times too fast); the limits of unilateral contact (sinking, balance of the
    zero-moment point, the inverted pendulum on one foot); and the natural periods of limbs (swing of a foot, step rate,
    reversals of the hands). The rate is halved while the odds indicate high speed. Slow movement is natural, so a clip
    that runs too slowly is recognised only by flights at a quarter of gravity, or by a lively gait whose swings last
    twice as long as human ones.

    For collections with known wrong rates (CMU) the odds alone decide. For other files two kinds of evidence must
    agree: step durations, which noise does not shorten, and accelerations, which noise and a drifting root increase;
    or there is a free fall at more than twice gravity, or a step rate outside the human range. Values that not even
    double speed explains are ignored.

    A clip without legs, with fewer than 30 frames, or not of human size is not tested.

    Args:
        motion: any clip.
    """
    body = find_body(motion)
    if body is None:
        return TimeBase(motion.rate_hz, motion.rate_hz, 0.0, ("the clip offers no evidence of its frame rate",))
    cues = measure_cues(body)
    log_odds = score_cues(cues)
    # One sentence for each cue, in order of weight
    unit_s = float(np.sqrt(body.leg_m / GRAVITY))
    ordered = sorted(cues, key=lambda name: -cue_score(WEIGHTS[name], cues[name]))
    evidence = tuple(_SENTENCES[name](cues[name], body.leg_m, unit_s) for name in ordered)
    # Halve the rate repeatedly while the clip seems too fast; cues outside the human range even at double speed may
    # indicate four times the speed
    rate_hz, suggested_hz = motion.rate_hz, motion.rate_hz
    # The collection has frame rates that are known to be wrong, or none at all
    source = motion.source
    is_doubtful = source is not None and (source.layout.get("profile") == "cmu" or source.format == "asf/amc")
    for _ in range(MAX_HALVINGS):
        if rate_hz < 2.0 * MIN_RATE_HZ:
            break
        is_fast = is_too_fast(cues, is_doubtful=is_doubtful)
        rate_hz *= 0.5
        suggested_hz = rate_hz if is_fast else suggested_hz
        # A cue may exceed the human range even at double speed
        exceeds_range = any(
            value > WEIGHTS[name].high if WEIGHTS[name].slope > 0.0 else value < WEIGHTS[name].low
            for name, value in cues.items()
        )
        slower = find_body(replace(motion, rate_hz=rate_hz)) if is_fast or exceeds_range else None
        if slower is None:
            break
        cues = measure_cues(slower)
    if suggested_hz == motion.rate_hz:
        fall, gait = slow_fall(body), slow_gait(body)
        # At a quarter of the true speed the steps are too slow to be detected
        if gait is None and motion.rate_hz < MAX_SLOW_HZ:
            faster = find_body(replace(motion, rate_hz=2.0 * motion.rate_hz))
            found = None if faster is None else slow_gait(faster)
            gait = None if found is None else (2.0 * found[0], 2.0 * found[1])
        if gait is not None:
            suggested_hz *= gait[0]
            step_s = gait[1] * unit_s
            evidence = (f"people take {step_s / gait[0]:.2f} s for steps of this length, not {step_s:.2f}", *evidence)
        elif fall is not None:
            suggested_hz *= 2.0
            evidence = (_SENTENCES["free fall"](fall, 0.0, 0.0), *evidence)
    return TimeBase(motion.rate_hz, suggested_hz, log_odds, evidence)


def is_too_fast(cues: Mapping[str, float], *, is_doubtful: bool) -> bool:
    """Return whether cues indicate double speed; files of reliable sources need two kinds of evidence."""
    log_odds = score_cues(cues)
    if is_doubtful:
        return log_odds > FLAG_DOUBTFUL
    scores = {name: cue_score(WEIGHTS[name], value) for name, value in cues.items()}
    times = sum(score for name, score in scores.items() if name in TIME_CUES)
    forces = sum(score for name, score in scores.items() if name not in (*TIME_CUES, "free fall"))
    agree = times > MIN_TIME_SCORE and forces > MIN_FORCE_SCORE
    if log_odds > FLAG_ABOVE and (agree or cues.get("free fall", 0.0) > FALL_ALONE):
        return True
    return log_odds > FLAG_BY_TIMES and times > TIMES_ALONE


def score_cues(cues: Mapping[str, float], bias: float = BIAS, weights: Mapping[str, CueWeight] = WEIGHTS) -> float:
    """Return the log odds that the clip runs at double speed; an absent cue contributes nothing."""
    return bias + sum(cue_score(weights[name], value) for name, value in cues.items())


def cue_score(weight: CueWeight, value: float) -> float:
    """Return the contribution of one cue to the log odds; it fades to zero at twice the human range."""
    inside = min(max(value, weight.low), weight.high)
    excess = abs(float(np.log(value / inside))) / np.log(2.0)
    return weight.slope * float(np.log(inside / weight.middle)) * max(0.0, 1.0 - float(excess))
