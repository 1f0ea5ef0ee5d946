"""Selection of clips for a behaviour by the contacts and direction of a problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, Result
from marey.contacts import contact_phases
from marey.motion import Motion, headings
from marey.spacetime.problem.definition import SpacetimeProblem

PHASE_LETTERS: Final = {"double": "B", "left": "L", "right": "R", "flight": "-", "hands": "h", "unsupported": "?"}
MIN_CLIPS: Final = 3
FEATURE_SCALES: Final = np.array(
    [0.5, 0.5, 0.8, 0.1]
)  # [m] ahead, [m] to the left, [rad] turn, [m] height: one unit of unlike
POOL_FACTOR: Final = 2  # candidates for a spread selection, as a multiple of the requested number
RISE_S: Final = 0.5  # a flight that lasts T rises g T^2 / 8


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClipSelection(Result):
    """Chosen clips, nearest first."""

    indices: tuple[int, ...]
    distances: tuple[float, ...]  # of each chosen clip from the problem, in units of unlikeness
    pattern: str  # phases of the problem: B both feet, L, R, - flight
    report: tuple[str, ...]


def select_clips(motions: Sequence[Motion], problem: SpacetimeProblem, *, count: int = 8) -> ClipSelection:
    """Choose clips for a problem by contacts and overall direction ([Safonova2006]_ §3.3, made precise).

    A clip qualifies if its phases contain those of the problem in a row; if none does, one double support may be
    missing or too many. Of those nearest in displacement, turn and height of flight, a spread is taken: each
    next one is the farthest from those already chosen.

    Args:
        motions: candidates.
        problem: what is wanted.
        count: how many at most; at least three are given if there are.

    Raises:
        InputError: no clip shows these contacts.
    """
    wanted = encode_phase_pattern(problem)
    # Displacement, turn and height of flight of the problem itself
    grounded = [phase for phase in problem.phases if phase.contacts]
    if not grounded:
        raise InputError(f"problem '{problem.name}' never touches the ground", "Give a phase with contacts")
    places = [np.mean([c.position for c in phase.contacts], axis=0) for phase in (grounded[0], grounded[-1])]
    turns = [np.deg2rad(np.mean([c.heading_deg for c in phase.contacts])) for phase in (grounded[0], grounded[-1])]
    c, s = np.cos(turns[0]), np.sin(turns[0])
    x, _, z = places[1] - places[0]
    longest = max((phase.duration_s for phase in problem.phases if phase.is_flight), default=0.0)
    goal = np.array([s * x + c * z, c * x - s * z, turns[1] - turns[0], _flight_rise(longest)])
    found = [(i, _clip_features(motion, wanted)) for i, motion in enumerate(motions)]
    report: list[str] = []
    if not any(f is not None for _, f in found):
        doubles = [k for k, letter in enumerate(wanted) if letter == "B" and len(wanted) > 1]
        shorter = [wanted[:k] + wanted[k + 1 :] for k in doubles]
        found = [
            (i, next((f for p in shorter if (f := _clip_features(m, p)) is not None), None))
            for i, m in enumerate(motions)
        ]
        report.append(f"no clip has the phases {wanted}; one double support was left out")
    known = [(i, f) for i, f in found if f is not None]
    if not known:
        raise InputError(f"no example of this contact sequence ({wanted})", "Add clips that step like this")
    known.sort(key=lambda item: _feature_distance(item[1], goal))
    # The nearest, then always the one farthest from those chosen
    chosen, rest = [known[0]], known[1 : POOL_FACTOR * max(count, MIN_CLIPS)]
    while rest and len(chosen) < max(count, MIN_CLIPS):
        gaps = [min(_feature_distance(f, g) for _, g in chosen) for _, f in rest]
        chosen.append(rest.pop(int(np.argmax(gaps))))
    if len(chosen) < MIN_CLIPS:
        report.append(f"only {len(chosen)} clips: the space may be too narrow")
    return ClipSelection(
        tuple(i for i, _ in chosen), tuple(_feature_distance(f, goal) for _, f in chosen), wanted, tuple(report)
    )


def encode_phase_pattern(problem: SpacetimeProblem) -> str:
    """Phases as letters: B both feet, L left, R right, - flight; equal neighbours once."""
    letters: list[str] = []
    for phase in problem.phases:
        sides = [contact.point.split("_")[0] for contact in phase.contacts]
        one = PHASE_LETTERS.get(sides[0], "?") if sides else "-"
        letters.append("B" if {"left", "right"} <= set(sides) else one)
    return "".join(a for a, b in zip(letters, ["", *letters[:-1]], strict=True) if a != b)


def _clip_features(motion: Motion, wanted: str) -> FloatArray | None:
    """Displacement ahead and to the left [m], turn [rad] and height of flight [m] where the phases fit; or None."""
    phases = contact_phases(motion)
    at = "".join(PHASE_LETTERS.get(phase.kind, "?") for phase in phases).find(wanted)
    if at < 0:
        return None
    part = phases[at : at + len(wanted)]
    first, last = ((phase.start + phase.stop) // 2 for phase in (part[0], part[-1]))
    yaw = headings(motion)
    c, s = np.cos(yaw[first]), np.sin(yaw[first])
    x, _, z = motion.root_positions[last] - motion.root_positions[first]
    longest = max((len(phase) / motion.rate_hz for phase in part if phase.kind == "flight"), default=0.0)
    return np.array([s * x + c * z, c * x - s * z, yaw[last] - yaw[first], _flight_rise(longest)])


def _flight_rise(flight_s: float) -> float:
    return 9.81 * (RISE_S * flight_s) ** 2 / 2.0


def _feature_distance(features: FloatArray, goal: FloatArray) -> float:
    return float(np.linalg.norm((features - goal) / FEATURE_SCALES))
