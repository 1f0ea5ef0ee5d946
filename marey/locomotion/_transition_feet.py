"""When and where the feet are down during a planned transition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.locomotion._engine_source import NEVER_S
from marey.locomotion._model import EFFECTORS, EVENTS
from marey.locomotion._transition_clip import PoseFrame, compute_effectors
from marey.skeleton import Skeleton

Span = tuple[float, float]
"""Start and stop of a plant [s]; minus infinity for a foot that is down already, plus for one that stays."""
Spans = Mapping[int, Sequence[Span]]
"""Plants of every effector, in time order."""


@dataclass(frozen=True, slots=True, eq=False)
class FootholdSchedule:
    """Foot plants of a plan, ready to be asked at any time since its start."""

    starts_s: FloatArray  # (4, P) plus infinity where there are fewer than P plants
    stops_s: FloatArray  # (4, P)
    places: FloatArray  # (4, P, 3) [m] raw effectors at the starts

    def planted(self, time_s: float) -> BoolArray:
        """Which effectors are down ``(4,)``."""
        return np.any((self.starts_s <= time_s) & (time_s < self.stops_s), axis=1, keepdims=True)[:, 0]

    def events(self, after_s: float, until_s: float) -> tuple[str, ...]:
        """Names of the foot events after one time and not after another, in order."""
        passed: list[tuple[float, str]] = []
        for e, (start, stop) in enumerate(((0, 2), (1, 3), (4, 6), (5, 7))):
            for times, name in ((self.starts_s[e], EVENTS[start]), (self.stops_s[e], EVENTS[stop])):
                passed += [(float(t), name) for t in times if after_s < t <= until_s]
        return tuple(name for _, name in sorted(passed))

    def next_plants(self, time_s: float, now: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Time to the start of the next plant ``(4,)`` [s] and its raw place ``(4, 3)``, ``now`` where none comes."""
        waits = np.where(self.starts_s > time_s, self.starts_s - time_s, np.inf)
        first = waits.argmin(axis=1)
        rows = np.arange(len(EFFECTORS))
        until = waits[rows, first]
        is_coming = np.isfinite(until)
        return np.where(is_coming, until, NEVER_S), np.where(is_coming[:, None], self.places[rows, first], now)


def schedule_footholds(skeleton: Skeleton, frame: Callable[[float], PoseFrame], spans: Spans) -> FootholdSchedule:
    """Table the plants of a plan whose raw pose at any time is ``frame``."""
    most = max(len(spans[e]) for e in range(len(EFFECTORS)))
    starts, stops = np.full((len(EFFECTORS), most), np.inf), np.full((len(EFFECTORS), most), np.inf)
    places = np.zeros((len(EFFECTORS), most, 3))
    for e in range(len(EFFECTORS)):
        for i, (start, stop) in enumerate(spans[e]):
            starts[e, i], stops[e, i] = start, stop
            if np.isfinite(start):
                places[e, i] = compute_effectors(skeleton, frame(start))[e]
    return FootholdSchedule(starts, stops, places)
