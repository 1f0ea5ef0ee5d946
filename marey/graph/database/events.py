"""Events inside a stance: a hand that picks something up, a body that stands still, a planted foot that turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.contacts import ContactPhase, ensure_contacts
from marey.motion import Contacts, Motion, contact_positions, find_runs
from marey.skeleton import contact_points, role_map

PICKED_PREFIX: Final = "picked_"
"""A phase that begins with a pick has ``picked_left_hand`` or ``picked_right_hand`` among its contacts."""
STANDING: Final = "standing"
"""A phase that begins with a slow, upright stance on both feet has this among its contacts."""
MIN_SPLIT_FRAMES: Final = 3  # poses on either side of a cut: a phase of fewer cannot be blended
MIN_HOLD_FRAMES: Final = 12  # poses before and after a pick in which the body holds still over what it picks
CROUCH_S: Final = 1.0  # [s] before or after a flight a low hand belongs to the jump
SLOW_MPS: Final = 0.25  # [m/s] speed of the root when a person comes to a stand
SLOW_RADPS: Final = 1.0  # [rad/s] and root mean square of the joints
REST_MPS: Final = 0.08  # [m/s] speed of the root of a standing person
REST_RADPS: Final = 0.4  # [rad/s] and the joints
UPRIGHT: Final = 0.965  # [-] of the clip's usual root height
UPRIGHT_QUANTILE: Final = 0.85  # [-] of its frames in which the root is lower: a clip may be bent most of the time
SIDES: Final = ("left", "right")
PARTS: Final = ("heel", "toe")


def split_events(motion: Motion, phases: Sequence[ContactPhase], pick_height_m: float) -> list[ContactPhase]:
    """Cut stances at picks and where the body stands, so that both are changes of contact like any other.

    The rest of a stance gets a class of its own; blends are aligned at it ([Safonova2006]_ §4.3.2, §5.1). Standing
    poses are one class whichever foot came last: feet left and right, the right one the anchor.
    """
    cut = list(phases)
    for frame, event in find_picks(motion, phases, pick_height_m):
        cut = _split_stance(cut, frame, event)
    calm, pieces = _RestMeasure.from_motion(motion), list[ContactPhase]()
    for n, phase in enumerate(cut):
        pieces += _split_rests(phase, calm, cut[n + 1 : n + 2], is_first=n == 0)
    return pieces


def find_picks(motion: Motion, phases: Sequence[ContactPhase], height_m: float) -> list[tuple[int, str]]:
    """Frames at which the lower wrist is lowest of each time below ``height_m``, and the event of that hand.

    Hands that go down in the crouch before or after a flight pick nothing up. A clip whose contact track names its
    picks, ``picked_left_hand`` or ``picked_right_hand``, is believed: they are in the middle of each time marked.
    """
    contacts = motion.contacts
    told = [] if contacts is None else [name for name in contacts.names if name.startswith(PICKED_PREFIX)]
    if contacts is not None and told:
        return sorted(((a + b) // 2, name) for name in told for a, b in find_runs(contacts.track(name)))
    roles = role_map(motion.skeleton)
    sides = [side for side in ("left", "right") if f"{side}_wrist" in roles]
    if not sides:
        return []
    heights = motion.joint_positions()[:, [roles[f"{side}_wrist"] for side in sides], 1]
    found: list[tuple[int, str]] = []
    reach = CROUCH_S * motion.rate_hz
    flights = [p for p in phases if not p.planted]
    for start, stop in find_runs(heights.min(axis=1) < height_m):
        frame, hand = np.unravel_index(int(np.argmin(heights[start:stop])), (stop - start, len(sides)))
        at = start + int(frame)
        if not any(p.start - reach < at < p.stop + reach for p in flights):
            found.append((at, f"{PICKED_PREFIX}{sides[int(hand)]}_hand"))
    return found


def _split_stance(phases: list[ContactPhase], frame: int, event: str) -> list[ContactPhase]:
    """Cut the stance nearest to a frame that is long enough; the frame moves into it if need be."""
    long = [n for n, p in enumerate(phases) if p.plants and len(p) >= 2 * MIN_SPLIT_FRAMES]
    if not long:
        return phases
    places = [int(np.clip(frame, phases[n].start + MIN_SPLIT_FRAMES, phases[n].stop - MIN_SPLIT_FRAMES)) for n in long]
    best = int(np.argmin([abs(place - frame) for place in places]))
    n, at = long[best], places[best]
    if abs(at - frame) > 2 * MIN_SPLIT_FRAMES:
        return phases
    phase = phases[n]
    rest = replace(
        phase, start=at, planted=(*tuple(name for name in phase.planted if name in ("left", "right")), event)
    )
    return [*phases[:n], replace(phase, stop=at), rest, *phases[n + 1 :]]


def _split_rests(
    phase: ContactPhase, calm: _RestMeasure, following: list[ContactPhase], *, is_first: bool
) -> list[ContactPhase]:
    """Cut a double support where the body comes to rest and where it starts again; holding a pick is not rest."""
    if phase.kind != "double" or len(phase.plants) != 2 or len(phase.planted) != 2 + _has_event(phase):
        return [phase]
    pieces, rest = list[ContactPhase](), phase
    first = phase.start + MIN_HOLD_FRAMES * _has_event(phase)
    last = phase.stop - MIN_HOLD_FRAMES * any(_has_event(after) for after in following)
    # Frames in which the body rests, a range of each slow stretch; from its calmest on if it never quite does
    rests: list[tuple[int, int]] = []
    for a, b in find_runs(calm.slow[first:last]):
        unrest = calm.unrest[first + a : first + b]
        calmest = int(np.argmin(unrest))
        still, moving = max(find_runs(unrest < 1.0), key=lambda run: run[1] - run[0], default=(calmest, b - a))
        rests.append((first + a + still, first + a + moving))
    for begin, end in rests:
        # A rest at the very start of the clip begins with the phase
        is_opening = is_first and begin - phase.start < MIN_SPLIT_FRAMES and not pieces and not _has_event(phase)
        begin = phase.start if is_opening else max(begin, rest.start + MIN_SPLIT_FRAMES)
        if begin >= end or phase.stop - begin < MIN_SPLIT_FRAMES:
            continue
        pieces += [] if is_opening else [replace(rest, stop=begin)]
        plants = tuple(sorted(phase.plants, key=lambda plant: plant.foot))
        rest = replace(phase, start=begin, planted=("left", "right", STANDING), plants=plants)
        if phase.stop - end >= MIN_SPLIT_FRAMES and end - begin >= MIN_SPLIT_FRAMES:
            pieces.append(replace(rest, stop=end))
            # What comes after a stand: the foot that stays is the leading one, as in the double support of a walk
            stays = following[0].planted if following and len(following[0].planted) == 1 else ("right",)
            ordered = tuple(sorted(phase.plants, key=lambda plant: (plant.foot in stays, plant.foot)))
            rest = replace(phase, start=end, planted=tuple(plant.foot for plant in ordered), plants=ordered)
    return [*pieces, rest]


def _has_event(phase: ContactPhase) -> bool:
    return bool(phase.planted) and phase.planted[-1].startswith(PICKED_PREFIX)


@dataclass(frozen=True, slots=True, eq=False)
class _RestMeasure:
    """Stillness of a body, frame by frame ``(F,)``."""

    slow: BoolArray  # upright, both feet flat, and slow
    unrest: FloatArray  # [-] one where root or joints move at the largest speed of a standing person

    @classmethod
    def from_motion(cls, motion: Motion) -> _RestMeasure:
        """Measure a clip; its feet are flat where heel and toe are in contact."""
        if motion.num_frames < 3:
            return cls(np.zeros(motion.num_frames, dtype=bool), np.ones(motion.num_frames))
        roots, wxyz = motion.root_positions, motion.rotations
        speed = np.linalg.norm(np.gradient(roots, 1.0 / motion.rate_hz, axis=0), axis=1)
        turns = (wxyz[:-1].inverse() @ wxyz[1:]).log() * motion.rate_hz
        rate = np.sqrt((turns**2).sum(axis=-1).mean(axis=-1))
        rate = np.concatenate([rate[:1], np.maximum(rate[1:], rate[:-1]), rate[-1:]])
        usual = float(np.quantile(roots[:, 1], UPRIGHT_QUANTILE))
        slow = (speed < SLOW_MPS) & (rate < SLOW_RADPS) & (roots[:, 1] > UPRIGHT * usual)
        # Heel and toe of both feet in contact, as far as the contact track has them
        if motion.contacts is not None:
            for name in (f"{side}_{part}" for side in SIDES for part in PARTS):
                slow &= motion.contacts.track(name) if name in motion.contacts.names else True
        return cls(slow, np.maximum(speed / REST_MPS, rate / REST_RADPS))


def calibration_range(motion: Motion, span: float = 0.85) -> tuple[int, int]:
    """Frames ``[start, stop)`` left when the arms-out poses at the ends of a clip are taken away.

    The arms are held out when the wrists are farther apart than ``span`` of what straight arms allow and are
    not far from the height of the shoulders; the arms' way down from there goes too.
    """
    roles = role_map(motion.skeleton)
    names = [f"{side}_{part}" for side in ("left", "right") for part in ("shoulder", "elbow", "wrist")]
    if any(name not in roles for name in names):
        return 0, motion.num_frames
    ls, le, lw, rs, re, rw = (motion.joint_positions()[:, roles[name]] for name in names)
    # Longest that a bone, or an arm, is in the clip
    ends = ((ls, le), (le, lw), (rs, re), (re, rw), (ls, rs), (ls, lw))
    spans = [np.linalg.norm(a - b, axis=1).max() for a, b in ends]
    reach = sum(float(length) for length in spans[:-1])
    apart = np.linalg.norm(lw - rw, axis=1) / reach
    level = np.abs(0.5 * (lw + rw) - 0.5 * (ls + rs))[:, 1] < 0.25 * float(spans[-1])
    out, down = (apart > span) & level, apart < 0.6 * span
    start, stop = _arms_out_frames(out, down), len(out) - _arms_out_frames(out[::-1], down[::-1])
    return (start, stop) if stop - start > 8 else (0, motion.num_frames)


def _arms_out_frames(out: BoolArray, down: BoolArray) -> int:
    """Frames at the beginning that show the arms held out, and their way down."""
    if not out[:3].any():
        return 0
    last = int(np.argmin(out[2:])) + 2 if not out[2:].all() else len(out)
    low = np.flatnonzero(down[last:])
    return last + int(low[0]) if len(low) else len(out)


LIFT_S: Final = 0.1  # [s] shortest time for which a foot that pivots counts as lifted
END_SHARE: Final = 0.15  # [-] of a stance at either end, in which feet roll, is not looked at
MAX_CUTS: Final = 6  # of one stance
TURN_RAD: Final = 0.6  # a foot that turns farther on the ground has pivoted


def lift_pivots(motion: Motion, worst_m: float) -> Motion:
    """The clip with contacts cleared while a planted foot pivots, if the other foot stands.

    A stance whose ball wanders farther than ``worst_m``, or turns by more than ``TURN_RAD``, becomes two: the foot is
    lifted for the time of its fastest way, if the other one carries the body then; of two feet that pivot together
    the second is lifted when the first stands again.
    """
    motion = ensure_contacts(motion)
    assert motion.contacts is not None
    names, active = motion.contacts.names, motion.contacts.active.copy()
    points = contact_positions(motion)
    known = contact_points(motion.skeleton).names
    if any(f"{side}_{part}" not in group for group in (names, known) for side in SIDES for part in PARTS):
        return motion
    # Tracks of both feet, and where each is down
    feet = [_FootTrack(names, known, points, side, motion.rate_hz) for side in SIDES]
    down = np.stack([active[:, foot.columns].any(axis=1) for foot in feet], axis=1)
    shortest = max(int(np.ceil(LIFT_S * motion.rate_hz)), 2)
    for number, foot in enumerate(feet):
        # Stances of the foot; each pivot is lifted while the other foot carries
        for start, stop in find_runs(down[:, number]):
            for a, b in foot.pivots(start, stop, worst_m, shortest):
                # The first interval of this length, not before this one, in which the other foot stands
                last, other = stop - shortest, down[:, 1 - number]
                moved = next((k for k in range(a, last - (b - a) + 1) if other[k : k + b - a].all()), None)
                if moved is not None:
                    down[moved : moved + b - a, number] = False
                    active[moved : moved + b - a, foot.columns] = False
    return replace(motion, contacts=Contacts(names, active))


class _FootTrack:
    """Track of one foot over the ground: ball, direction and speed, frame by frame."""

    def __init__(
        self, names: tuple[str, ...], known: tuple[str, ...], points: FloatArray, side: str, rate_hz: float
    ) -> None:
        self.columns = [names.index(f"{side}_{part}") for part in PARTS]
        heel, self._ball = (points[:, known.index(f"{side}_{part}")][:, [0, 2]] for part in PARTS)
        along = self._ball - heel
        self._yaw = np.unwrap(np.arctan2(along[:, 0], along[:, 1]))
        rate = np.abs(np.gradient(self._yaw)) * rate_hz
        self._speed = np.linalg.norm(np.gradient(self._ball, axis=0), axis=1) * rate_hz + 0.15 * rate

    def pivots(self, start: int, stop: int, worst_m: float, shortest: int, depth: int = 0) -> list[tuple[int, int]]:
        """Ranges of frames, inside a stance, in which the foot goes from one place to another."""
        margin = max(int(END_SHARE * (stop - start)), shortest)
        inner = slice(start + margin, stop - margin)
        if depth >= MAX_CUTS or inner.stop - inner.start < 3 * shortest:
            return []
        # A foot pivots if its ball wanders or its heading turns
        off = self._ball[inner] - np.median(self._ball[inner], axis=0)
        if not (np.hypot(*off.T).max() > worst_m or np.ptp(self._yaw[inner]) > TURN_RAD):
            return []
        at = inner.start + int(np.argmax(self._speed[inner]))
        half = 0.5 * self._speed[at]
        a, b = at, at + 1
        while a > inner.start and (self._speed[a - 1] > half or at - a < shortest // 2):
            a -= 1
        while b < inner.stop and (self._speed[b] > half or b - at <= shortest // 2):
            b += 1
        before = self.pivots(start, a, worst_m, shortest, depth + 1)
        return [*before, (a, b), *self.pivots(b, stop, worst_m, shortest, depth + 1)]
