"""Contact- and gravity-aware blending of clips, and what physics says about blends."""

from marey.blending._balance import balanced
from marey.blending._balance_legs import lowered
from marey.blending._blend import (
    BlendedPhase,
    BlendResult,
    BlendRule,
    aligned,
    blend,
    blend_phase,
    blend_sources,
    blended_plants,
)
from marey.blending._checks import (
    ContactCheck,
    FlightCheck,
    blend_pressure,
    check_contact,
    check_flight,
    polygon_margin,
    whole_inertia,
)
from marey.blending._phases import MotionPhase, cut_phases, hold_plants, phase_string
from marey.blending._prediction import ValidityRule, flight_tilt, flight_turn, landing_jump, predict_valid
from marey.blending._report import BlendReport, BoundaryCheck, PhaseCheck, velocity_jump
from marey.blending._rules import (
    blend_acceleration,
    blend_duration,
    blend_velocity,
    checked_weights,
    gravity_factor,
)
from marey.blending._schemes import Poses
from marey.blending._sources import FootPath, Placement, Source

__all__ = [
    "BlendReport",
    "BlendResult",
    "BlendRule",
    "BlendedPhase",
    "BoundaryCheck",
    "ContactCheck",
    "FlightCheck",
    "FootPath",
    "MotionPhase",
    "PhaseCheck",
    "Placement",
    "Poses",
    "Source",
    "ValidityRule",
    "aligned",
    "balanced",
    "blend",
    "blend_acceleration",
    "blend_duration",
    "blend_phase",
    "blend_pressure",
    "blend_sources",
    "blend_velocity",
    "blended_plants",
    "check_contact",
    "check_flight",
    "checked_weights",
    "cut_phases",
    "flight_tilt",
    "flight_turn",
    "gravity_factor",
    "hold_plants",
    "landing_jump",
    "lowered",
    "phase_string",
    "polygon_margin",
    "predict_valid",
    "velocity_jump",
    "whole_inertia",
]
