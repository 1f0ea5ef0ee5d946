"""Clips and what can be measured on them."""

from marey.motion._filter import lowpass
from marey.motion._markers import Markers
from marey.motion._measures import mean_speed, root_speeds
from marey.motion._motion import Contacts, LoadReport, Motion, Source
from marey.motion._resample import resample

__all__ = [
    "Contacts",
    "LoadReport",
    "Markers",
    "Motion",
    "Source",
    "lowpass",
    "mean_speed",
    "resample",
    "root_speeds",
]
