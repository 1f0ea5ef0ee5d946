"""Which heels, toes and hands touch the ground, and how much they slide while they do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import FloatArray, UnknownNameError
from marey.motion._contacts_hysteresis import hysteresis_contacts
from marey.motion._contacts_threshold import threshold_contacts
from marey.motion._motion import Contacts, Motion
from marey.motion._points import contact_positions

Detector = Callable[[Motion], Contacts]
METHODS: Final[dict[str, Detector]] = {
    "hysteresis": hysteresis_contacts,
    "adaptive": threshold_contacts,
    "threshold": threshold_contacts,
}


def detect_contacts(motion: Motion, *, method: str = "hysteresis") -> Contacts:
    """Find which contact points touch the ground, frame by frame."""
    if method not in METHODS:
        raise UnknownNameError("contact method", method, "marey.detect_contacts", METHODS)
    return METHODS[method](motion)


def with_contacts(motion: Motion, *, method: str = "hysteresis") -> Motion:
    """Return the motion with a detected contact track; one that is there already is kept."""
    return motion if motion.contacts is not None else replace(motion, contacts=detect_contacts(motion, method=method))


def slide_mm(motion: Motion) -> FloatArray:
    """Horizontal movement of each contact point since the frame before, while in contact ``(F, K)`` [mm].

    Zero where the point is not in contact in both frames. A motion without a contact track gets one.
    """
    active = with_contacts(motion).contacts
    assert active is not None
    positions = contact_positions(motion)
    steps = np.zeros(active.shape)
    moved = np.hypot(*np.moveaxis(np.diff(positions[..., [0, 2]], axis=0), -1, 0))
    steps[1:] = np.where(active.active[1:] & active.active[:-1], 1000.0 * moved, 0.0)
    return steps
