"""Moved to :mod:`marey.control.live.arena`."""

from marey.control.live.arena import (
    BUDGET_S,
    FOLLOW_S,
    MAX_BALLS,
    MAX_OWED_S,
    PACE_S,
    PUSH_VISIBLE_S,
    SHOWN,
    STEP_S,
    THROW_M,
    SimulationDocument,
)

__all__ = [
    "BUDGET_S",
    "FOLLOW_S",
    "MAX_BALLS",
    "MAX_OWED_S",
    "PACE_S",
    "PUSH_VISIBLE_S",
    "SHOWN",
    "STEP_S",
    "THROW_M",
    "SimulationDocument",
]
