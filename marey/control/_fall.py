"""Fall: when a figure has lost its balance for good."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from marey.simulate import Simulator, State
from marey.skeleton import Skeleton, role_map

LOW: Final = 0.6  # [-] of the height that the centre of mass should have: lower is no crouch but a fall
FAR_M: Final = 0.6  # [m] beyond the reach of one step, whose capture point cannot be caught any more
_SENTENCES: Final = {"low": "sank", "balance": "lost its balance", "unstable": "came apart"}
ENDS: Final = ("left_ankle", "right_ankle", "left_wrist", "right_wrist")


@dataclass(frozen=True, slots=True)
class Fall:
    """When and how a figure fell."""

    time_s: float
    cause: str  # "low": too low to stand; "balance": beyond recovery; "unstable"; or the part that hit the ground

    def __str__(self) -> str:
        what = _SENTENCES.get(self.cause, f"fell on its {self.cause}")
        return f"{what} at {self.time_s:.2f} s"


def detect_fall(
    simulator: Simulator, state: State, height_m: float, wanted_m: float, capture_error_m: float = 0.0
) -> Fall | None:
    """Tell whether a figure falls: something other than a foot or a hand bears it, or nothing can save it.

    Args:
        simulator: after a step.
        state: that the step led to.
        height_m: of the centre of mass above the ground [m].
        wanted_m: height that it should have [m].
        capture_error_m: how far its capture point is from where it should be [m].
    """
    if capture_error_m > FAR_M:
        return Fall(state.time_s, "balance")
    if height_m < LOW * wanted_m:
        return Fall(state.time_s, "low")
    hit = body_part_down(simulator)
    return None if hit is None else Fall(state.time_s, hit)


def body_part_down(simulator: Simulator) -> str | None:
    """Name of a part that bears on the ground and is neither foot nor hand."""
    contacts = simulator.contacts
    if contacts is None:
        return None
    limbs = _ends_of_limbs(simulator.body.skeleton)
    for joint, impulse in zip(contacts.joints, contacts.impulses, strict=True):
        if float(impulse @ impulse) > 0.0 and int(joint) not in limbs:
            return simulator.body.skeleton.names[int(joint)]
    return None


@lru_cache(maxsize=64)
def _ends_of_limbs(skeleton: Skeleton) -> frozenset[int]:
    """Ankles, wrists, and all that hangs on them."""
    roles = role_map(skeleton)
    ends = {roles[role] for role in ENDS if role in roles}
    for j in range(skeleton.num_joints):
        if int(skeleton.parents[j]) in ends:
            ends.add(j)
    return frozenset(ends)
