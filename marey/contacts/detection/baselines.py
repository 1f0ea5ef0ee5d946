"""Other contact detectors: one threshold of height and speed, and an adaptive height threshold for walks and runs.

The adaptive threshold finds one plant per joint and gait cycle.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from marey.base import FloatArray, InputError
from marey.contacts.detection.points import LEG_M, SIDES, track_points
from marey.contacts.detection.rules import build_contact_track
from marey.motion.clip import Contacts, Motion
from marey.motion.gait import foot_strikes

HEIGHT_M = 0.045  # [m] above the clip's floor
SPEED_MPS = 0.40  # [m/s]
FLOOR_PERCENTILE = 5.0  # [%] the clip's floor is this low in the heights of each point


def detect_by_threshold(motion: Motion) -> Contacts:
    """Height under one threshold and speed under another, one floor for the whole clip ([Glardon2005]_ III.2.3).

    It splits plants when the capture is noisy and needs other thresholds for other gaits: it is here to compare with.
    """
    tracks = track_points(motion)
    # Hands are measured against the floor of the feet
    soles = [k for side in SIDES for k in tracks.columns(side)]
    floor = np.percentile(tracks.heights, FLOOR_PERCENTILE, axis=0)
    hands = [k for k in range(len(tracks.names)) if k not in soles]
    floor[hands] = floor[soles].min(initial=np.inf)
    low = tracks.heights < floor + HEIGHT_M * tracks.size
    planted = low & (tracks.speeds < SPEED_MPS * np.sqrt(tracks.size))
    feet = np.stack([planted[:, tracks.columns(side)].any(axis=1) for side in SIDES], axis=1)
    return build_contact_track(tracks, planted, feet)


# Enclosed windows as parts of a cycle that starts with the strike of the foot: (walk start, end), (run start, end).
# Means of the right and the left rows of the source, whose windows differ by up to 0.06, so that a mirrored clip has
# mirrored contacts. The toe end, which the source has not, leaves last: its window ends in early swing.
WINDOWS = {
    "heel": ((0.03, 0.51), (0.01, 0.27)),
    "ball": ((0.11, 0.63), (0.03, 0.37)),
    "toe_end": ((0.11, 0.70), (0.03, 0.45)),
}
DELTA = 0.4  # [-] where the threshold lies between the lowest height of the window and that of its ends
RUN_FROUDE = (0.4, 0.6)  # [-] v²/(g leg): people walk below and run above, around 0.5
GRAVITY_MPS2 = 9.81


def detect_by_adaptive_threshold(motion: Motion) -> Contacts:
    r"""Footplants by the adaptive method of [Glardon2005]_ III.2.3, for walking and running.

    .. math:: \epsilon = h_{min} + \delta\,(\tfrac12(h_b + h_e) - h_{min}), \quad \delta = 0.4

    In a window that encloses the plant of a joint, :math:`h_b` and :math:`h_e` are the heights at its ends. The plant
    lasts from the first to the last frame of the window that is not above :math:`\epsilon`: exactly one plant per joint
    and cycle, whatever the noise, and a floor offset cancels. Windows of walks and runs are mixed by the Froude number.
    Half cycles at the ends of the clip are taken to last as long as their neighbours. Hands are never in contact.

    Raises:
        InputError: no foot strikes twice, so there is no gait cycle.
    """
    tracks = track_points(motion)
    strikes = foot_strikes(motion)
    # Median number of frames between strikes of one foot
    lengths = np.concatenate([np.diff(strikes[side]) for side in SIDES])
    if not len(lengths):
        raise InputError("no foot strikes twice, so there is no gait cycle", "Use method='hysteresis'")
    usual = float(np.median(lengths))
    planted = np.zeros(tracks.heights.shape, dtype=bool)
    for side in SIDES:
        # Cycles of this foot, with those that the ends of the clip cut
        edges = [float(s) for s in strikes[side]]
        if edges:
            lead = edges[1] - edges[0] if len(edges) > 1 else usual
            trail = edges[-1] - edges[-2] if len(edges) > 1 else usual
            edges = [edges[0] - lead, *edges, edges[-1] + trail]
        for start, stop in pairwise(edges):
            if stop <= 0 or start >= motion.num_frames:
                continue
            # Fraction of running, from 0 (walk) to 1, by the Froude number of the cycle
            speed = float(tracks.root_speeds[max(0, round(start)) : max(1, round(stop))].mean())
            froude = speed**2 / (GRAVITY_MPS2 * LEG_M * tracks.size)
            run = float(np.clip((froude - RUN_FROUDE[0]) / (RUN_FROUDE[1] - RUN_FROUDE[0]), 0.0, 1.0))
            plants: list[tuple[int, int]] = []
            for part, (walking, running) in WINDOWS.items():
                begin, end = ((1.0 - run) * w + run * r for w, r in zip(walking, running, strict=True))
                heights = tracks.heights[:, tracks.names.index(f"{side}_{part}")]
                first, last = round(start + begin * (stop - start)), round(start + end * (stop - start))
                plants.append(find_plant_in_window(heights, first, last))
            # The toe's plant is that of ball and toe end, and starts before the heel's is over
            heel, ball, tip = plants
            toe = (min(ball[0], tip[0]), max(ball[1], tip[1])) if ball[1] else tip
            toe = (min(toe[0], heel[1]) if heel[1] else toe[0], toe[1])
            planted[slice(*heel), tracks.columns(side, "heel")] = True
            planted[slice(*toe), tracks.columns(side, "toe")] = True
    feet = np.stack([planted[:, tracks.columns(side)].any(axis=1) for side in SIDES], axis=1)
    return build_contact_track(tracks, planted, feet)


def find_plant_in_window(heights: FloatArray, begin: int, end: int, *, delta: float = DELTA) -> tuple[int, int]:
    """Return the frames (the last not included) of the one plant between frames ``begin`` and ``end``."""
    begin, end = max(0, begin), min(len(heights) - 1, end)
    if end <= begin:
        return 0, 0
    window = heights[begin : end + 1]
    lowest = float(window.min())
    below = np.flatnonzero(window <= lowest + delta * (0.5 * (window[0] + window[-1]) - lowest))
    return (begin + int(below[0]), begin + int(below[-1]) + 1) if len(below) else (begin, end + 1)
