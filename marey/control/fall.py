"""Detection of falls: when a figure has lost its balance beyond recovery."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import acos, radians
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.simulate import Simulator, State
from marey.simulate.monitor import joints_below
from marey.skeleton import Skeleton, role_map

_SENTENCES: Final = {
    "low": "sank",
    "lean": "doubled over",
    "balance": "lost its balance",
    "unstable": "came apart",
}
LIMB_ENDS: Final = ("left_ankle", "right_ankle", "left_wrist", "right_wrist")


@dataclass(frozen=True, slots=True)
class FallSettings:
    """When a figure that follows a clip counts as fallen."""

    low_height: float = 0.75  # [-] of the height of the clip's centre of mass; lower is a fall, not a bent knee
    capture_m: float = 0.6  # [m] error of the capture point that one step cannot reach: nothing catches it any more
    lean_rad: float = radians(50.0)  # [rad] between the trunk and that of the clip; more is doubled over
    resting_m: float = 0.2  # [m] parts that the clip has lower than this may touch the ground
    watched_s: float = 1.0  # [s] that a run goes on after a fall


DEFAULT_FALLS: Final = FallSettings()


@dataclass(frozen=True, slots=True)
class Fall:
    """When and how a figure fell."""

    time_s: float
    cause: str  # "low", "lean", "balance" (beyond recovery), "unstable"; or the part that hit the ground

    def __str__(self) -> str:
        what = _SENTENCES.get(self.cause, f"fell on its {self.cause}")
        return f"{what} at {self.time_s:.2f} s"


def detect_fall(
    simulator: Simulator,
    state: State,
    height_m: float,
    wanted_m: float,
    capture_error_m: float = 0.0,
    *,
    lean_rad: float = 0.0,
    may_rest: Callable[[int], bool] | None = None,
    settings: FallSettings = DEFAULT_FALLS,
) -> Fall | None:
    """Tell whether a figure falls: it is bent over, too low, on something other than a foot, or nothing can save it.

    Args:
        simulator: after a step.
        state: that the step led to.
        height_m: of the centre of mass above the ground [m].
        wanted_m: height that it should have [m].
        capture_error_m: how far its capture point is from where it should be [m].
        lean_rad: how far its trunk leans from where it should be [rad].
        may_rest: whether the segment of a joint may lie on the ground, as in a clip of a kneeling person.
        settings: thresholds.
    """
    # Lean, height, contact of other parts than limbs, balance: the first that fails
    if lean_rad > settings.lean_rad:
        return Fall(state.time_s, "lean")
    if height_m < settings.low_height * wanted_m:
        return Fall(state.time_s, "low")
    hit = find_grounded_part(simulator, may_rest)
    if hit is not None:
        return Fall(state.time_s, hit)
    return Fall(state.time_s, "balance") if capture_error_m > settings.capture_m else None


def trunk_direction(skeleton: Skeleton, joints: FloatArray) -> FloatArray:
    """Direction ``(3,)`` from the hips to the neck, for joints ``(J, 3)`` [m]."""
    # Both hips, and the neck or the highest part of the trunk that there is
    roles = role_map(skeleton)
    left, right = roles.get("left_hip") or 0, roles.get("right_hip") or 0
    top = next((roles[role] for role in ("neck", "spine3", "head", "spine2") if role in roles), 0)
    way = joints[top] - 0.5 * (joints[left] + joints[right])
    return way / max(float(np.linalg.norm(way)), 1e-9)


def trunk_angle(skeleton: Skeleton, joints: FloatArray, wanted: FloatArray) -> float:
    """Angle [rad] between the trunks of two poses, joints ``(J, 3)`` [m] each."""
    return acos(float(np.clip(trunk_direction(skeleton, joints) @ trunk_direction(skeleton, wanted), -1.0, 1.0)))


def find_grounded_part(simulator: Simulator, may_rest: Callable[[int], bool] | None = None) -> str | None:
    """Name of a segment in contact with the ground other than feet, hands and permitted ones."""
    contacts = simulator.contacts
    if contacts is None:
        return None
    limbs = _limb_ends(simulator.body.skeleton)
    for joint, impulse in zip(contacts.joints, contacts.impulses, strict=True):
        j = int(joint)
        if float(impulse @ impulse) > 0.0 and j not in limbs and not (may_rest is not None and may_rest(j)):
            return simulator.body.skeleton.names[j]
    return None


@lru_cache(maxsize=64)
def _limb_ends(skeleton: Skeleton) -> frozenset[int]:
    """Ankles, wrists, and all that hangs on them."""
    roles = role_map(skeleton)
    return joints_below(skeleton, [roles[role] for role in LIMB_ENDS if role in roles])
