"""Phases of a motion: the stretches of time in which the same feet are planted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import BoolArray
from marey.motion._contacts import with_contacts
from marey.motion._motion import Contacts, Motion

SIDES = ("left", "right")


@dataclass(frozen=True, slots=True)
class Phase:
    """Frames ``start`` to ``stop`` (not included) with one set of planted feet."""

    start: int
    stop: int
    planted: tuple[str, ...]  # () in flight; in double support the trailing foot first
    kind: str  # "flight", "left", "right", "double"

    def __len__(self) -> int:
        return self.stop - self.start


def feet_down(contacts: Contacts) -> BoolArray:
    """Return whether each foot, left and right, is planted ``(F, 2)``: its heel or its toe is."""
    down = np.zeros((len(contacts), 2), dtype=bool)
    for side, name in enumerate(SIDES):
        for point in ("heel", "toe"):
            if f"{name}_{point}" in contacts.names:
                down[:, side] |= contacts.track(f"{name}_{point}")
    return down


def contact_phases(motion: Motion | Contacts) -> tuple[Phase, ...]:
    """Cut a motion where a foot lands or leaves."""
    contacts = motion if isinstance(motion, Contacts) else with_contacts(motion).contacts
    assert contacts is not None
    down = feet_down(contacts)
    cuts = np.flatnonzero((down[1:] != down[:-1]).any(axis=1)) + 1
    edges = [0, *(int(c) for c in cuts), len(down)]
    phases: list[Phase] = []
    for start, stop in zip(edges[:-1], edges[1:], strict=True):
        planted = tuple(name for name, on in zip(SIDES, down[start], strict=True) if on)
        kind = "double" if len(planted) == 2 else (planted[0] if planted else "flight")
        phases.append(Phase(start, stop, planted, kind))
    return tuple(phases)
