"""Motions, markers and key frames; gait cycles, time base, resampling."""

from marey.base import deprecated_names, guard_room
from marey.motion.clip import Contacts, LoadReport, Motion, Source
from marey.motion.editing import concatenate, join_motions, mirror, other_side
from marey.motion.gait import GaitCycle, cadence, foot_strikes, gait_cycles
from marey.motion.layers import KeyFrames, Layer, LayerKey, apply_layers, key_pose, mix_motions
from marey.motion.markers import AnalogTracks, ForcePlate, Markers
from marey.motion.mass import BodySegment, MassTable, TrunkPart, centre_of_mass, mass_table, mass_weights
from marey.motion.placement import (
    RelativeConfiguration,
    align_to_ground,
    assess_motion,
    contact_positions,
    decode_relative_root,
    encode_relative_root,
    find_central_joint,
    from_absolute,
    ground_height,
    headings,
    mean_speed,
    order_joints,
    pelvis_positions,
    place,
    reroot,
    root_speeds,
    standing_height,
    to_absolute,
    transform_motion,
)
from marey.motion.time_base import TimeBase, check_time_base
from marey.motion.time_series import find_runs, lowpass, resample

__all__ = [
    "AnalogTracks",
    "BodySegment",
    "Contacts",
    "ForcePlate",
    "GaitCycle",
    "KeyFrames",
    "Layer",
    "LayerKey",
    "LoadReport",
    "Markers",
    "MassTable",
    "Motion",
    "RelativeConfiguration",
    "Source",
    "TimeBase",
    "TrunkPart",
    "align_to_ground",
    "apply_layers",
    "assess_motion",
    "cadence",
    "centre_of_mass",
    "check_time_base",
    "concatenate",
    "contact_positions",
    "decode_relative_root",
    "encode_relative_root",
    "find_central_joint",
    "find_runs",
    "foot_strikes",
    "from_absolute",
    "gait_cycles",
    "ground_height",
    "headings",
    "join_motions",
    "key_pose",
    "lowpass",
    "mass_table",
    "mass_weights",
    "mean_speed",
    "mirror",
    "mix_motions",
    "order_joints",
    "other_side",
    "pelvis_positions",
    "place",
    "reroot",
    "resample",
    "root_speeds",
    "standing_height",
    "to_absolute",
    "transform_motion",
]

guard_room(__name__)

__getattr__ = deprecated_names(
    __name__,
    {
        "runs": "find_runs",
        "transformed": "transform_motion",
    },
)
