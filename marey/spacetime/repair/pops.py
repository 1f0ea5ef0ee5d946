"""Pops of a capture, before forces are asked for: a root that jumps in one frame, a joint that flips for a few.

No force explains a step of 30 cm in a hundredth of a second; a displacement that tried to would bend the whole body.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3
from marey.motion import Motion, find_runs

NEIGHBOURS_S: Final = 0.1  # [s] to both sides, whose median a step is compared with


@dataclass(frozen=True, slots=True)
class PopSettings:
    """What is a pop and not a motion."""

    jump_speed: float = 4.0  # [m/s] of the root beyond the median about it; captured leaps stay below 1.5
    flip_speed: float = 40.0  # [rad/s] of a joint beyond the median about it; captured swings stay below 25
    longest_s: float = 0.06  # [s] of a flip, or of a root that jumps and comes back


def mend_pops(motion: Motion, settings: PopSettings | None = None) -> Motion:
    """The clip without one-frame jumps of its root and without short flips of its joints; itself if it has none.

    A root that comes back is taken between its neighbours; what stays where it jumped to is moved back. A joint that
    flips and comes back is turned evenly across the flip; one that the clip begins or ends with is held as beside it.
    """
    settings, rate_hz = settings or PopSettings(), motion.rate_hz
    longest = max(1, round(settings.longest_s * rate_hz))
    positions, wxyz = motion.root_positions.copy(), motion.rotations.wxyz.copy()
    steps = np.diff(positions, axis=0)
    beyond = steps - _running_median(steps, rate_hz)
    jumps = np.flatnonzero(np.linalg.norm(beyond, axis=1) * rate_hz > settings.jump_speed)
    # A jump and the jump back are one excursion; a lone one is a step of all that follows
    k = 0
    while k < len(jumps):
        first = int(jumps[k])
        back = int(jumps[k + 1]) if k + 1 < len(jumps) else -1
        if 0 < back - first <= longest and np.linalg.norm(beyond[first] + beyond[back]) < np.linalg.norm(beyond[first]):
            ends = positions[[first, back + 1]]
            share = np.linspace(0.0, 1.0, back - first + 2)[1:-1, None]
            positions[first + 1 : back + 1] = ends[0] + share * (ends[1] - ends[0])
            k += 2
        else:
            positions[first + 1 :] -= beyond[first]
            k += 1
    # Joints: the angle of each frame to the next, against the median about it
    turns = np.linalg.norm((motion.rotations[:-1].inverse() @ motion.rotations[1:]).log(), axis=-1)
    fast = (turns - _running_median(turns, rate_hz)) * rate_hz > settings.flip_speed
    for joint in np.flatnonzero(fast.any(axis=0)):
        # Steps from frame a to frame b are too fast: a flip and its way back, or one at an end of the clip
        for a, b in find_runs(fast[:, joint], longest):
            if b <= longest and (a == 0 or b - a == 1):
                wxyz[:b, joint] = wxyz[b, joint]
            elif a >= len(fast) - longest and (b == len(fast) or b - a == 1):
                wxyz[a + 1 :, joint] = wxyz[a, joint]
            elif 2 <= b - a <= longest + 1:
                low, high = SO3(wxyz[a, joint]), SO3(wxyz[b, joint])
                between = (low.inverse() @ high).log()
                share = np.linspace(0.0, 1.0, b - a + 1)[1:-1, None]
                wxyz[a + 1 : b, joint] = (low @ SO3.exp(share * between)).wxyz
    if not len(jumps) and not fast.any():
        return motion
    return replace(motion, root_positions=positions, rotations=SO3(wxyz), source=None)


def _running_median(values: FloatArray, rate_hz: float) -> FloatArray:
    """Median of steps ``(F, ...)`` over ``NEIGHBOURS_S`` to both sides; mirrored at the ends: a step counts once."""
    half = max(2, round(NEIGHBOURS_S * rate_hz))
    edges = ((half, half), *((0, 0),) * (values.ndim - 1))
    padded = np.pad(values, edges, mode="reflect" if len(values) > 1 else "edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1, axis=0)
    return np.asarray(np.median(windows, axis=-1), dtype=np.float64)
