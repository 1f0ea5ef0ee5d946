"""Clips and what can be measured on them."""

from marey.motion._filter import lowpass
from marey.motion._markers import Markers
from marey.motion._measures import mean_speed, root_speeds
from marey.motion._contacts import detect_contacts, slide_mm, with_contacts
from marey.motion._motion import Contacts, LoadReport, Motion, Source
from marey.motion._resample import resample
from marey.motion._phases import Phase, contact_phases
from marey.motion._points import contact_positions

__all__ = [
    "Contacts",
    "LoadReport",
    "Markers",
    "Motion",
    "Phase",
    "Source",
    "contact_phases",
    "contact_positions",
    "detect_contacts",
    "lowpass",
    "mean_speed",
    "resample",
    "root_speeds",
    "slide_mm",
    "with_contacts",
]

