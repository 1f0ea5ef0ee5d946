"""Hands on the ground, and the contact track of feet and hands together."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray
from marey.motion._contacts_rules import any_column, is_off_feet
from marey.motion._motion import Contacts
from marey.motion._points import SIDES, PointTracks
from marey.motion._runs import find_runs

HAND_HEIGHT_M = 0.30  # [m] palm above the ground of the feet: CMU skeletons lack 0.12 m of chest and lean
HAND_SHORT_S = 0.10  # a hand that carries weight stays at least this long
BEARING_SHARE = 0.3  # [-] of the contact during which a hand must carry


def build_contact_track(tracks: PointTracks, planted: BoolArray, feet: BoolArray) -> Contacts:
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


def filter_hand_contacts(tracks: PointTracks, planted: BoolArray, feet: BoolArray) -> tuple[BoolArray, BoolArray]:
    """Keep of the point flags ``(F, K)`` those hands that are near the ground and carry the body; tell when ``(F,)``.

    A hand at rest on a box, or taking a thing from the floor, is near and still as well; it does not count, because
    the feet below the centre of mass carry the body. Contacts with things are annotated by hand.
    """
    hands = [k for side in SIDES for k in tracks.columns(side, "hand")]
    kept = planted.copy()
    kept[:, hands] = False
    if not hands or not planted[:, hands].any():
        return kept, np.zeros(len(feet), dtype=bool)
    bearing, ground = is_off_feet(tracks, feet), _lowest_support(tracks, feet)
    for k in hands:
        for start, stop in find_runs(planted[:, k]):
            low = float(np.median(tracks.heights[start:stop, k])) < ground + HAND_HEIGHT_M * tracks.size
            carries = float(bearing[start:stop].mean()) > BEARING_SHARE
            kept[start:stop, k] = low and carries and stop - start >= tracks.frames(HAND_SHORT_S)
    return kept, any_column(kept[:, hands])


def _lowest_support(tracks: PointTracks, feet: BoolArray) -> float:
    """Lowest height at which a foot stands [m]; the lowest of all where none does."""
    soles = [tracks.heights[:, tracks.columns(side)].min(axis=1, initial=np.inf) for side in SIDES]
    planted = [float(np.median(soles[s][a:b])) for s in range(2) for a, b in find_runs(feet[:, s])]
    return min(planted, default=float(tracks.heights.min()))
