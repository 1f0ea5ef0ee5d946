"""Hands on the ground, and the contact track of feet and hands together."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.motion._contacts_rules import runs
from marey.motion._motion import Contacts, Motion
from marey.motion._points import SIDES, PointTracks

HAND_HEIGHT_M = 0.20  # palm above the feet's ground: wrist thickness, plus the 0.12 m that CMU skeletons lack in the chest
HAND_SHORT_S = 0.10  # a hand that carries weight stays at least this long
BEARING_M = 0.30  # a body whose centre is this far from its feet would topple unless a hand carries it
BEARING_SHARE = 0.3  # [-] of the contact during which a hand must carry


def contact_track(tracks: PointTracks, planted: BoolArray, feet: BoolArray) -> Contacts:
    """Put point flags ``(F, K)`` under foot flags ``(F, 2)``: one track per heel, toe and hand.

    A toe is planted while the ball or the toe end is. Where a rule put a foot down, its slowest point is planted.
    """
    names: list[str] = []
    flags: list[BoolArray] = []
    for s, side in enumerate(SIDES):
        parts = {part: tracks.columns(side, part) for part in ("heel", "toe")}
        down = {part: planted[:, k].any(axis=1) & feet[:, s] for part, k in parts.items() if k}
        bare = feet[:, s] & ~np.any(list(down.values()), axis=0) if down else feet[:, s]
        slow = {part: tracks.speeds[:, parts[part]].min(axis=1) for part in down}
        for part in down:
            slowest = np.all([slow[part] <= other for other in slow.values()], axis=0)
            names.append(f"{side}_{part}")
            flags.append(down[part] | (bare & slowest))
    for side in SIDES:
        for k in tracks.columns(side, "hand"):
            names.append(f"{side}_hand")
            flags.append(planted[:, k])
    return Contacts(tuple(names), np.stack(flags, axis=1) if flags else np.zeros((len(feet), 0), dtype=bool))


def hand_contacts(motion: Motion, tracks: PointTracks, planted: BoolArray, feet: BoolArray) -> BoolArray:
    """Keep of the point flags ``(F, K)`` those hands that are near the ground and carry the body.

    A hand at rest on a box, or taking a thing from the floor, is near and still as well; it does not count, because
    the feet below the centre of mass carry the body. Contacts with things are annotated by hand.
    """
    hands = [k for side in SIDES for k in tracks.columns(side, "hand")]
    kept = planted.copy()
    kept[:, hands] = False
    if not hands or not planted[:, hands].any():
        return kept
    bearing, ground = _is_off_its_feet(motion, tracks, feet), _ground(tracks, feet)
    for k in hands:
        for start, stop in runs(planted[:, k]):
            low = float(np.median(tracks.heights[start:stop, k])) < ground + HAND_HEIGHT_M * tracks.size
            carries = float(bearing[start:stop].mean()) > BEARING_SHARE
            kept[start:stop, k] = low and carries and stop - start >= tracks.frames(HAND_SHORT_S)
    return kept


def _ground(tracks: PointTracks, feet: BoolArray) -> float:
    """Lowest height at which a foot stands [m]; the lowest of all where none does."""
    soles = [tracks.heights[:, tracks.columns(side)].min(axis=1, initial=np.inf) for side in SIDES]
    planted = [float(np.median(soles[s][a:b])) for s in range(2) for a, b in runs(feet[:, s])]
    return min(planted, default=float(tracks.heights.min()))


def _is_off_its_feet(motion: Motion, tracks: PointTracks, feet: BoolArray) -> BoolArray:
    """Return whether the centre of mass ``(F,)`` is far, over the ground, from the line between the planted feet."""
    from marey.motion import centre_of_mass

    centre = centre_of_mass(motion)[:, [0, 2]]
    soles = [tracks.positions[:, tracks.columns(side)][..., [0, 2]].mean(axis=1) for side in SIDES]
    left = np.where(feet[:, :1], soles[0], soles[1])
    right = np.where(feet[:, 1:], soles[1], soles[0])
    distance = _distance_to_segment(centre, left, right)
    return ~feet.any(axis=1) | (distance > BEARING_M * tracks.size)


def _distance_to_segment(points: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    along = b - a
    length = np.maximum(np.einsum("fi,fi->f", along, along), 1e-12)
    t = np.clip(np.einsum("fi,fi->f", points - a, along) / length, 0.0, 1.0)
    return np.linalg.norm(points - a - t[:, None] * along, axis=-1)
