"""Clips and what can be measured on them."""

from marey.base._deprecation import deprecated_names
from marey.motion._contacts import detect_contacts, ensure_contacts, slide_mm
from marey.motion._filter import lowpass
from marey.motion._gait import GaitCycle, cadence, foot_strikes, gait_cycles
from marey.motion._ground import align_to_ground, ground_height, standing_height
from marey.motion._join import concatenate
from marey.motion._keys import KeyFrames
from marey.motion._markers import Markers
from marey.motion._mass import centre_of_mass, mass_weights
from marey.motion._mass_tables import MASS_TABLES, BodySegment, MassTable, TrunkPart, mass_table
from marey.motion._measures import mean_speed, root_speeds
from marey.motion._mirror import mirror, other_side
from marey.motion._motion import Contacts, LoadReport, Motion, Source
from marey.motion._phases import ContactPhase, StancePlant, contact_phases, feet_down
from marey.motion._place import headings, place, transform_motion
from marey.motion._points import contact_positions
from marey.motion._relative import RelativeRoot, decode_relative_root, encode_relative_root
from marey.motion._resample import resample
from marey.motion._runs import find_runs
from marey.motion._time_base import TimeBase, check_time_base

__all__ = [
    "MASS_TABLES",
    "BodySegment",
    "ContactPhase",
    "Contacts",
    "GaitCycle",
    "KeyFrames",
    "LoadReport",
    "Markers",
    "MassTable",
    "Motion",
    "RelativeRoot",
    "Source",
    "StancePlant",
    "TimeBase",
    "TrunkPart",
    "align_to_ground",
    "cadence",
    "centre_of_mass",
    "check_time_base",
    "concatenate",
    "contact_phases",
    "contact_positions",
    "decode_relative_root",
    "detect_contacts",
    "encode_relative_root",
    "ensure_contacts",
    "feet_down",
    "find_runs",
    "foot_strikes",
    "gait_cycles",
    "ground_height",
    "headings",
    "lowpass",
    "mass_table",
    "mass_weights",
    "mean_speed",
    "mirror",
    "other_side",
    "place",
    "resample",
    "root_speeds",
    "slide_mm",
    "standing_height",
    "transform_motion",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "Phase": "ContactPhase",
        "Plant": "StancePlant",
        "runs": "find_runs",
        "transformed": "transform_motion",
        "with_contacts": "ensure_contacts",
    },
)
