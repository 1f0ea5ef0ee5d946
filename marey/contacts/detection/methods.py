"""Contacts of a motion by method, and the phases between their changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, UnknownNameError
from marey.contacts.detection.baselines import detect_by_adaptive_threshold, detect_by_threshold
from marey.contacts.detection.hysteresis import detect_by_hysteresis
from marey.contacts.detection.points import (
    DEFAULT_SETTINGS,
    SIDES,
    ContactSettings,
    PointTracks,
    find_body_points,
    track_points,
)
from marey.contacts.detection.rules import is_falling, middle_frames
from marey.motion.clip import Contacts, Motion
from marey.motion.time_series import find_runs

METHODS: Final = ("hysteresis", "adaptive", "threshold")


def detect_contacts(
    motion: Motion, *, method: str = "hysteresis", settings: ContactSettings = DEFAULT_SETTINGS
) -> Contacts:
    """Find which heels, toes and hands touch the ground, frame by frame.

    The names are those of ``marey.skeleton.contact_points``. A toe is in contact while the ball of the foot or the end
    of the toes is. Hands count only while they carry the body (a cartwheel, getting up); contacts with things are
    annotated by hand, in ``Motion.contacts``.

    Args:
        motion: any clip, at 30 to 250 Hz; a contact track that it has is not looked at.
        method: ``"hysteresis"`` for all behaviours ([Safonova2006]_ F3, with floors per plant and rules of the body);
            ``"adaptive"`` for walks and runs, never splits a plant ([Glardon2005]_ III.2.3);
            ``"threshold"`` to compare with: one height and one speed.
        settings: thresholds of ``"hysteresis"``.

    Raises:
        UnknownNameError: there is no such method.
        InputError: ``"adaptive"`` found no gait cycle.
    """
    if method not in METHODS:
        raise UnknownNameError("contact method", method, "marey.detect_contacts", METHODS)
    if method == "hysteresis":
        return detect_by_hysteresis(motion, settings)
    return detect_by_adaptive_threshold(motion) if method == "adaptive" else detect_by_threshold(motion)


def ensure_contacts(motion: Motion, *, method: str = "hysteresis") -> Motion:
    """Return the motion with a detected contact track; one that is there already is kept."""
    return motion if motion.contacts is not None else replace(motion, contacts=detect_contacts(motion, method=method))


def slide_mm(motion: Motion) -> FloatArray:
    """How far each planted point has moved over the ground since the frame before ``(F, K)`` [mm].

    Zero where the point is not in contact in both frames. Of a toe, the ball or the end counts, whichever moves less:
    a foot may roll. A motion without a contact track gets one.
    """
    contacts = ensure_contacts(motion).contacts
    assert contacts is not None
    points = find_body_points(motion.skeleton)
    steps = np.diff(motion.map_frames(points.positions)[..., [0, 2]], axis=0)
    moved = 1000.0 * np.hypot(steps[..., 0], steps[..., 1])
    slides = np.zeros(contacts.shape)
    for k, name in enumerate(contacts.names):
        wanted = {name, name.replace("toe", "ball"), name.replace("toe", "toe_end")}
        columns = [i for i, point in enumerate(points.names) if point in wanted]
        if columns:
            held = contacts.active[1:, k] & contacts.active[:-1, k]
            slides[1:, k] = np.where(held, moved[:, columns].min(axis=1), 0.0)
    return slides


MIN_PHASE_S = 2.0 / 30.0  # two frames at 30 Hz ([Safonova2006]_ A3): shorter ones are errors of two boundaries
HANDS = ("left_hand", "right_hand")
SLOW_SHARE = 0.6  # [-] slowest fraction of a stance, which defines the position of the ball of the foot
FLAT_SHARE = 0.5  # [-] fraction of a stance with the lowest heel, which defines the heading of the foot


@dataclass(frozen=True, slots=True, eq=False)
class StancePlant:
    """Where a foot stands during one stance; the same in all phases of the stance."""

    foot: str  # "left" or "right"
    position: FloatArray  # (3,) [m] ball of the foot
    yaw_rad: float  # heel to ball: 0 is +Z, positive towards +X
    spread_m: float  # farthest that the ball is from there, over the ground, in the frames that gave the position


@dataclass(frozen=True, slots=True, eq=False)
class ContactPhase:
    """Frames ``start`` to ``stop`` (not included) with one set of planted feet and hands."""

    start: int
    stop: int
    planted: tuple[str, ...]  # feet "left", "right" (in double support the trailing one first), then hands
    kind: str  # "flight", "left", "right", "double"; without a foot also "hands", "unsupported"
    plants: tuple[StancePlant, ...] = ()  # of the planted feet, in the order of ``planted``
    fall_mps2: float | None = None  # mean vertical acceleration of the centre of mass in the middle of the phase

    def __len__(self) -> int:
        return self.stop - self.start


def feet_down(contacts: Contacts) -> BoolArray:
    """Return whether each foot, left and right, is planted ``(F, 2)``: its heel or its toe is."""
    return _planted_flags(contacts)[:, :2]


def contact_phases(motion: Motion | Contacts, *, rate_hz: float = 30.0) -> tuple[ContactPhase, ...]:
    """Cut a motion where a foot or a hand lands or leaves ([Safonova2006]_ F3).

    Phases shorter than two frames at 30 Hz join their longer neighbour. In double support the leading foot is the one
    that landed last; of feet that landed together, the one that stays longer. A time without feet and hands is a
    "flight" if the centre of mass falls in its middle, else it is "unsupported": the body sits, hangs or lies on
    something that is not in the contact track.

    Args:
        motion: a clip, or a bare contact track: then flights are not checked and plants are not known.
        rate_hz: frame rate of a bare contact track; a motion has its own.
    """
    if isinstance(motion, Contacts):
        return _build_phases(_planted_flags(motion), rate_hz, None)
    contacts = ensure_contacts(motion).contacts
    assert contacts is not None
    return _build_phases(_planted_flags(contacts), motion.rate_hz, track_points(motion))


def _planted_flags(contacts: Contacts) -> BoolArray:
    """Flags ``(F, 4)`` of left foot, right foot, left hand, right hand."""
    down = np.zeros((len(contacts), 4), dtype=bool)
    groups = [*((f"{side}_heel", f"{side}_toe") for side in SIDES), *((hand,) for hand in HANDS)]
    for column, names in enumerate(groups):
        for name in names:
            if name in contacts.names:
                down[:, column] |= contacts.track(name)
    return down


def _build_phases(down: BoolArray, rate_hz: float, tracks: PointTracks | None) -> tuple[ContactPhase, ...]:
    # The shortest phase joins its longer neighbour until all are long enough
    shortest = int(np.ceil(MIN_PHASE_S * rate_hz - 1e-9))
    down = down.copy()
    pieces = _split_at_changes(down)
    while len(pieces) > 1:
        i = min(range(len(pieces)), key=lambda n: pieces[n][1] - pieces[n][0])
        start, stop = pieces[i]
        if stop - start >= shortest:
            break
        before = pieces[i - 1][1] - pieces[i - 1][0] if i else -1
        after = pieces[i + 1][1] - pieces[i + 1][0] if i + 1 < len(pieces) else -1
        down[start:stop] = down[start - 1] if before >= after else down[stop]
        pieces = _split_at_changes(down)
    plants = _measure_plants(down, tracks) if tracks is not None else {}
    phases: list[ContactPhase] = []
    for start, stop in pieces:
        feet = _order_feet(down, start, stop)
        planted = (*feet, *(hand for hand, on in zip(HANDS, down[start, 2:], strict=True) if on))
        standing = tuple(plants[foot, start] for foot in feet if (foot, start) in plants)
        fall = None if tracks is None else float(middle_frames(tracks.falls, start, stop).mean())
        if feet:
            kind = "double" if len(feet) == 2 else feet[0]
        elif planted:
            kind = "hands"
        else:
            kind = "flight" if tracks is None or is_falling(tracks, start, stop) else "unsupported"
        phases.append(ContactPhase(start, stop, planted, kind, standing, fall))
    return tuple(phases)


def _split_at_changes(down: BoolArray) -> list[tuple[int, int]]:
    cuts = np.flatnonzero((down[1:] != down[:-1]).any(axis=1)) + 1
    edges = [0, *(int(c) for c in cuts), len(down)]
    return list(pairwise(edges))


def _order_feet(down: BoolArray, start: int, stop: int) -> tuple[str, ...]:
    """Planted feet, the trailing one first: the one that landed first, or else leaves first."""

    def stance(side: int) -> tuple[int, int]:
        before, after = down[: start + 1, side][::-1], down[stop - 1 :, side]
        landed = int(np.argmin(before)) if not before.all() else start + 1
        leaves = int(np.argmin(after)) if not after.all() else len(after)
        return -landed, leaves

    return tuple(SIDES[side] for side in sorted((s for s in range(2) if down[start, s]), key=stance))


def _measure_plants(down: BoolArray, tracks: PointTracks) -> dict[tuple[str, int], StancePlant]:
    """Plants by foot and first frame of the phase."""
    found: dict[tuple[str, int], StancePlant] = {}
    pieces = [start for start, _ in _split_at_changes(down)]
    for s, side in enumerate(SIDES):
        if not tracks.columns(side):
            continue
        k_heel, k_ball = (tracks.names.index(f"{side}_{part}") for part in ("heel", "ball"))
        for start, stop in find_runs(down[:, s]):
            heel, ball = tracks.positions[start:stop, k_heel], tracks.positions[start:stop, k_ball]
            speed = tracks.speeds[start:stop, k_ball]
            # Median of the ball's position while it is slow, mean direction of the foot while the heel is low
            slow = speed <= np.quantile(speed, SLOW_SHARE)
            flat = heel[:, 1] <= np.quantile(heel[:, 1], FLAT_SHARE)
            position = np.median(ball[slow], axis=0)
            toward = (ball - heel)[flat].mean(axis=0)
            spread = float(np.hypot(*(ball[slow] - position)[:, [0, 2]].T).max())
            position.setflags(write=False)
            plant = StancePlant(side, position, float(np.arctan2(toward[0], toward[2])), spread)
            found.update({(side, piece): plant for piece in pieces if start <= piece < stop})
    return found
