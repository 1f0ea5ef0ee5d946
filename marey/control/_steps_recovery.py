"""Recovery: steps that a clip does not have, taken where standing alone would not save a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray
from marey.control._features_support import convex_hull, hull_distances
from marey.control._reference_com import HORIZONTAL_AXES, project_into_hull

if TYPE_CHECKING:
    from marey.control._track_laws import TrackingStep

RECOVERY_STEP_S: Final = 0.28  # [s] of a step in need
QUIET_S: Final = 0.3  # [s] in which the clip takes no step itself
LAST_S: Final = 0.6  # [s] before its end a clip may be amid its last swing
OUT_M: Final = 0.0  # [m] that a capture point may be outside the soles before a step is taken
BEYOND_M: Final = 0.04  # [m] that a foot lands beyond the capture point
LONGEST_M: Final = 0.7  # [m] between the feet, at most
SIDEWAYS: Final = 1.0  # [-] a fall that goes more sideways than this ahead is caught by the foot of that side


def begin_recovery_step(at: TrackingStep) -> None:
    """Begin a step if the capture point has left the soles, and the clip takes none that could catch it."""
    if not _is_quiet(at) or _capture_distance(at) <= OUT_M:
        return
    at.steps.step_out(at.step, _stepping_foot(at), at.points, RECOVERY_STEP_S)


def capturing_offset(at: TrackingStep, side: int) -> FloatArray:
    r"""How far from the clip ``(2,)`` [m] a foot must land to catch the figure.

    Until then the ground pushes at the place p of the other sole that is nearest to the capture point, so that this
    will be at :math:`p + (\xi - p)\,e^{\omega T}`.
    """
    foot, stance = at.steps.feet[side], at.points[1 - side, :4][:, HORIZONTAL_AXES]
    point, left_s = at.capture_point(), max(foot.due - at.step, 0) * at.dt
    push = project_into_hull(convex_hull(stance), point, 0.0)
    away = (point - push) * np.exp(at.sway.frequency * left_s)
    away = away * (1.0 + BEYOND_M / max(float(np.linalg.norm(away)), 1e-9))
    way = push + away - stance.mean(axis=0)
    way = way * min(1.0, LONGEST_M / max(float(np.linalg.norm(way)), 1e-9))
    return stance.mean(axis=0) + way - at.reference.soles[at.frame, side][HORIZONTAL_AXES]


def _is_quiet(at: TrackingStep) -> bool:
    """Whether a foot stands, none is on its way down, and the clip lifts none soon."""
    steps, i, soon = at.steps, at.frame, QUIET_S / at.dt
    left, right = steps.feet
    if not (left.is_down or right.is_down):
        return False
    is_last = not at.is_over and len(at.reference) - at.step < LAST_S / at.dt
    if any(not foot.is_down and (foot.is_own or is_last or foot.due < len(at.reference)) for foot in steps.feet):
        return False
    lifts = steps.schedule.lifts[i] - i
    return at.is_over or all(
        n > soon or end >= len(at.reference) or foot.is_own or not foot.is_down
        for n, end, foot in zip(lifts, steps.schedule.lifts[i], steps.feet, strict=True)
    )


def _capture_distance(at: TrackingStep) -> float:
    """How far [m] the capture point is outside the soles that stand; negative inside."""
    down = np.array([foot.is_down for foot in at.steps.feet])
    hull = convex_hull(at.points[down][:, :4].reshape(-1, 3)[:, HORIZONTAL_AXES])
    return -1.0 if len(hull) < 3 else -float(hull_distances(hull, at.capture_point())[1].min())


def _stepping_foot(at: TrackingStep) -> int:
    """The foot that is free; else that of the side of the fall, or the one that is farther from it."""
    left, right = at.steps.feet
    if not (left.is_down and right.is_down):
        return 0 if right.is_down else 1
    soles = at.points[:, :4].mean(axis=1)[:, HORIZONTAL_AXES]
    ahead = (at.points[:, 2:4] - at.points[:, :2]).mean(axis=(0, 1))[HORIZONTAL_AXES]
    leftwards = np.array([ahead[1], -ahead[0]]) / max(float(np.linalg.norm(ahead)), 1e-9)
    way = at.capture_point() - soles.mean(axis=0)
    sideways = float(way @ leftwards)
    if abs(sideways) > SIDEWAYS * float(np.linalg.norm(way - sideways * leftwards)):
        return 0 if sideways > 0.0 else 1
    return int(np.argmax(np.linalg.norm(soles - at.capture_point(), axis=1)))
