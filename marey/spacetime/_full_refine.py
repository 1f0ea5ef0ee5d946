"""Between the frames: find where a solution breaks physics, and ask for it there too."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.dynamics import compute_aggregate
from marey.spacetime._full_layout import FullLayout
from marey.spacetime._full_sample import sample_track
from marey.spacetime._support import build_support

ALLOWED_EXCESS: Final = 0.03  # [mg], [mg m] what may be missing between frames
GROSS_EXCESS: Final = 0.25  # [mg] a motion that misses more than this between its frames is none
SAMPLES_PER_SPAN: Final = 8
MAX_REFINEMENTS: Final = 4

Frames = tuple[tuple[int, float], ...]  # phase and time [s]


def find_weak_instants(layout: FullLayout, x: FloatArray) -> Frames:
    """Instants of a dense grid where contacts cannot give what is needed: the worst of each stretch of them.

    Args:
        layout: the unknowns.
        x: a solution, unscaled.
    """
    found: list[tuple[int, float]] = []
    for p, (times, excess) in enumerate(_phase_excesses(layout, x)):
        found += [(p, float(times[i])) for i in _find_peaks(excess)]
    return tuple(found)


def compute_worst_excess(layout: FullLayout, x: FloatArray) -> float:
    """Largest of what is missing on the dense grid [mg]."""
    return max(float(excess.max(initial=0.0)) for _, excess in _phase_excesses(layout, x))


def _phase_excesses(layout: FullLayout, x: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """Times and what is missing there, for each phase."""
    track = sample_track(layout, x, layout.timeline.grid(SAMPLES_PER_SPAN))
    whole = compute_aggregate(layout.figure.tree, track.q, track.qd, track.qdd, gravity=layout.problem.gravity)
    wrench, com = np.asarray(whole.wrench) / layout.weight, np.asarray(whole.com)
    phases = [track.phases == p for p in range(len(layout.timeline.phases))]
    return [(track.times[c], _support_excess(layout, p, wrench[c], com[c])) for p, c in enumerate(phases)]


def _support_excess(layout: FullLayout, phase: int, wrench: FloatArray, com: FloatArray) -> FloatArray:
    """What is missing at samples of a phase ``(n,)`` [mg]."""
    if layout.timeline.phases[phase].is_flight:
        return np.linalg.norm(wrench[:, 3:] - np.cross(com, wrench[:, :3]), axis=1)
    support = build_support(layout.timeline.phases[phase])
    force = wrench[:, :3]
    moment = wrench[:, 3:] - np.cross(support.centre, force)
    rows = np.concatenate([force, moment], axis=1) @ support.matrix.T
    outside = np.maximum(support.lower - rows, rows - support.upper)
    outside[:, [label == "normal force" for label in support.labels]] *= 0.1  # a tenth over the cap is harmless
    return np.maximum(outside.max(axis=1), -support.round_row(force)[0])


def _find_peaks(excess: FloatArray) -> list[int]:
    """Largest sample of every stretch above what is allowed."""
    above = excess > ALLOWED_EXCESS
    starts = np.flatnonzero(above & ~np.concatenate([[False], above[:-1]]))
    ends = np.flatnonzero(above & ~np.concatenate([above[1:], [False]])) + 1
    return [int(a + np.argmax(excess[a:b])) for a, b in zip(starts, ends, strict=True)]
