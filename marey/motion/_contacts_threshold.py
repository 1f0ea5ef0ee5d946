"""The plain baseline: a point is planted when it is low and slow."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray
from marey.motion._contacts_hands import build_contact_track
from marey.motion._contacts_rules import any_column
from marey.motion._motion import Contacts, Motion
from marey.motion._points import SIDES, PointTracks, track_points

HEIGHT_M = 0.045  # [m] above the clip's floor
SPEED_MPS = 0.40  # [m/s]
FLOOR_PERCENTILE = 5.0  # [%] the clip's floor is this low in the heights of each point


def detect_by_threshold(motion: Motion) -> Contacts:
    """Height under one threshold and speed under another, one floor for the whole clip ([Glardon2005]_ III.2.3).

    It splits plants when the capture is noisy and needs other thresholds for other gaits: it is here to compare with.
    """
    tracks = track_points(motion)
    planted = detect_low_and_slow(tracks)
    feet = np.stack([any_column(planted[:, tracks.columns(side)]) for side in SIDES], axis=1)
    return build_contact_track(tracks, planted, feet)


def detect_low_and_slow(tracks: PointTracks) -> BoolArray:
    """Return whether each point ``(F, K)`` is under both thresholds; hands against the floor of the feet."""
    feet = [k for side in SIDES for k in tracks.columns(side)]
    floor = np.percentile(tracks.heights, FLOOR_PERCENTILE, axis=0)
    hands = [k for k in range(len(tracks.names)) if k not in feet]
    floor[hands] = floor[feet].min(initial=np.inf)
    low = tracks.heights < floor + HEIGHT_M * tracks.size
    return low & (tracks.speeds < SPEED_MPS * np.sqrt(tracks.size))
