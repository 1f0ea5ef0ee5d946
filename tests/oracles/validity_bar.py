"""Validity bar: how far each instant of a solution is from what its own contacts can give ([Fang2003]_ F26)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.dynamics import GRAVITY, JointTree, compute_aggregate
from marey.spacetime import SpacetimeProblem
from marey.spacetime.problem.definition import ProblemPhase
from marey.spacetime.problem.supply import SolutionTrack, build_support

GREEN_LIMIT: Final = 0.05  # [body weights]
RED_LIMIT: Final = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class ValidityBar:
    """Violation of T samples of a solution."""

    times: FloatArray  # (T,) [s]
    violation: FloatArray  # (T,) [body weights; moments over 1 m]
    is_flight: BoolArray  # (T,) whether nothing touches

    @property
    def green(self) -> float:
        """Share of the samples within 0.05 body weights."""
        return float((self.violation <= GREEN_LIMIT).mean())

    @property
    def red_in_flight(self) -> float:
        """Share of the samples in flight beyond 0.25 body weights; zero without a flight."""
        flying = self.violation[self.is_flight]
        return float((flying > RED_LIMIT).mean()) if len(flying) else 0.0


def compute_validity_bar(
    tree: JointTree, problem: SpacetimeProblem, track: SolutionTrack, *, gravity: float | None = None
) -> ValidityBar:
    """Weigh every sample of a solution against the contacts of its problem.

    Args:
        tree: the character.
        problem: phases and contacts, numbered as in ``track.phases``.
        track: coordinates with exact derivatives on a dense grid.
        gravity: [m/s²]; the problem's by default.
    """
    g = problem.gravity if gravity is None else gravity
    whole = compute_aggregate(tree, track.q, track.qd, track.qdd, gravity=g)
    wrench = whole.wrench / (tree.mass * GRAVITY)
    moments = wrench[:, 3:] - np.cross(whole.com, wrench[:, :3])
    violation = np.linalg.norm(wrench[:, :3], axis=1) + np.linalg.norm(moments, axis=1)
    phases = [phase for phase in problem.phases if phase.duration_s > 0.0 or phase.contacts]
    for p, phase in enumerate(phases):
        chosen = track.phases == p
        if phase.contacts and chosen.any():
            violation[chosen] = _worst_row(phase, wrench[chosen])
    is_flight = np.array([phase.is_flight for phase in phases])[track.phases]
    return ValidityBar(track.times, violation, is_flight)


def _worst_row(phase: ProblemPhase, wrench: FloatArray) -> FloatArray:
    """Worst row of a support ``(n,)``."""
    support = build_support(phase)
    force = wrench[:, :3]
    moment = wrench[:, 3:] - np.cross(support.centre, force)
    rows = np.concatenate([force, moment], axis=1) @ support.matrix.T
    worst = np.maximum(support.lower - rows, rows - support.upper).max(axis=1).clip(0.0)
    if support.friction is None:
        return np.maximum(worst, np.linalg.norm(force, axis=1) - support.max_force)
    normal = force @ support.normal
    sideways = np.linalg.norm(force - normal[:, None] * support.normal, axis=1)
    return np.maximum(worst, sideways - support.friction * normal.clip(0.0))
