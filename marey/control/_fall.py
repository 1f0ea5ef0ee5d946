"""Fall: when a figure has lost its balance for good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from marey.simulate import Contacts, Simulator, State

LOW: Final = 0.6  # [-] of the height that the centre of mass should have: lower is no crouch but a fall
FOOT_PARTS: Final = ("heel", "ball", "toe")


@dataclass(frozen=True, slots=True)
class Fall:
    """When and how a figure fell."""

    time_s: float
    cause: str  # "low": too low to be standing; or the part of the body that hit the ground

    def __str__(self) -> str:
        what = "sank" if self.cause == "low" else f"fell on its {self.cause}"
        return f"{what} at {self.time_s:.2f} s"


def detect_fall(simulator: Simulator, state: State, height_m: float, wanted_m: float) -> Fall | None:
    """Tell whether a figure has fallen: something other than a foot or a hand bears it, or it is far too low.

    Args:
        simulator: after a step.
        state: that the step led to.
        height_m: of the centre of mass above the ground [m].
        wanted_m: height that it should have [m].
    """
    if height_m < LOW * wanted_m:
        return Fall(state.time_s, "low")
    hit = body_part_down(simulator.contacts)
    return None if hit is None else Fall(state.time_s, hit)


def body_part_down(contacts: Contacts | None) -> str | None:
    """Name of a part that bears on the ground and is neither foot nor hand."""
    if contacts is None:
        return None
    for name, impulse in zip(contacts.names, contacts.impulses, strict=True):
        is_foot = any(part in name for part in FOOT_PARTS) and name.split("_")[0] in ("left", "right")
        is_hand = "hand" in name.lower() or "finger" in name.lower()
        if float(impulse @ impulse) > 0.0 and not is_foot and not is_hand:
            return name.rsplit("_", 1)[0]
    return None
