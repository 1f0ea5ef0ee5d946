"""The meter: published measures and plain geometry, independent of every engine's own flags."""

from marey.base import guard_room
from marey.measure.faults import Fault, MeasuredGround
from marey.measure.measurement import (
    KINDS,
    LEAST_METER_FRAMES,
    MeasuredFigure,
    Measurement,
    measure_motion,
    read_typical,
)
from marey.measure.published import compare_frames, compute_l2, compute_npss
from marey.measure.tracks import MeterSettings

__all__ = [
    "KINDS",
    "LEAST_METER_FRAMES",
    "Fault",
    "MeasuredFigure",
    "MeasuredGround",
    "Measurement",
    "MeterSettings",
    "compare_frames",
    "compute_l2",
    "compute_npss",
    "measure_motion",
    "read_typical",
]

guard_room(__name__)
