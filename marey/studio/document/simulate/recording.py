"""Moved to :mod:`marey.control.live.recording`."""

from marey.control.live.recording import (
    ANGULAR,
    COLUMNS,
    ENERGY,
    EVERY,
    KEPT,
    LEAST_N,
    LINEAR,
    MAX_TAKE_S,
    EnergyTrace,
    SimulationRecording,
    SupportState,
    measure_support,
)

__all__ = [
    "ANGULAR",
    "COLUMNS",
    "ENERGY",
    "EVERY",
    "KEPT",
    "LEAST_N",
    "LINEAR",
    "MAX_TAKE_S",
    "EnergyTrace",
    "SimulationRecording",
    "SupportState",
    "measure_support",
]
