"""The plain baseline: a point is planted when it is low and slow."""

from __future__ import annotations

import numpy as np

from marey.motion._motion import Contacts
from marey.motion._points import PointTracks

HEIGHT_M = 0.045  # [m] above the clip's floor
SPEED_MPS = 0.40  # [m/s]
FLOOR_PERCENTILE = 5.0  # [%] the clip's floor is this low in the heights of each point


def threshold_contacts(tracks: PointTracks) -> Contacts:
    """Height under one threshold and speed under another, one floor for the whole clip ([Glardon2005]_ III.2.3).

    It splits plants when the capture is noisy and needs other thresholds for other gaits: it is here to compare with.
    """
    floor = np.percentile(tracks.heights, FLOOR_PERCENTILE, axis=0)
    low = tracks.heights < floor + HEIGHT_M * tracks.size
    return Contacts(tracks.names, low & (tracks.speeds < SPEED_MPS * np.sqrt(tracks.size)))
