"""Contact- and gravity-aware blending of clips, and what physics says about blends."""

from marey.base._deprecation import deprecated_names
from marey.blending._balance import balance_motion
from marey.blending._balance_legs import lower_root_to_reach
from marey.blending._blend import (
    BlendedPhase,
    BlendResult,
    BlendSettings,
    align_phase,
    blend,
    blend_phase,
    blend_plants,
    blend_sources,
)
from marey.blending._checks import (
    ContactCheck,
    FlightCheck,
    blend_pressure,
    check_contact,
    check_flight,
    polygon_margin,
    whole_body_inertia,
)
from marey.blending._phases import MotionPhase, cut_phases, hold_plants, phase_string
from marey.blending._prediction import (
    BlendPrediction,
    measure_flight_tilt,
    measure_flight_turn,
    predict_landing_jump,
    predict_validity,
)
from marey.blending._report import BlendReport, BoundaryCheck, PhaseCheck, velocity_jump
from marey.blending._rules import (
    blend_acceleration,
    blend_duration,
    blend_velocity,
    check_blend_weights,
    gravity_factor,
)
from marey.blending._schemes import BlendedPoses
from marey.blending._sources import BlendSource, Placement, PlantedFootPath

__all__ = [
    "BlendPrediction",
    "BlendReport",
    "BlendResult",
    "BlendSettings",
    "BlendSource",
    "BlendedPhase",
    "BlendedPoses",
    "BoundaryCheck",
    "ContactCheck",
    "FlightCheck",
    "MotionPhase",
    "PhaseCheck",
    "Placement",
    "PlantedFootPath",
    "align_phase",
    "balance_motion",
    "blend",
    "blend_acceleration",
    "blend_duration",
    "blend_phase",
    "blend_plants",
    "blend_pressure",
    "blend_sources",
    "blend_velocity",
    "check_blend_weights",
    "check_contact",
    "check_flight",
    "cut_phases",
    "gravity_factor",
    "hold_plants",
    "lower_root_to_reach",
    "measure_flight_tilt",
    "measure_flight_turn",
    "phase_string",
    "polygon_margin",
    "predict_landing_jump",
    "predict_validity",
    "velocity_jump",
    "whole_body_inertia",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "BlendRule": "BlendSettings",
        "FootPath": "PlantedFootPath",
        "Poses": "BlendedPoses",
        "Source": "BlendSource",
        "ValidityRule": "BlendPrediction",
        "aligned": "align_phase",
        "balanced": "balance_motion",
        "blended_plants": "blend_plants",
        "checked_weights": "check_blend_weights",
        "flight_tilt": "measure_flight_tilt",
        "flight_turn": "measure_flight_turn",
        "landing_jump": "predict_landing_jump",
        "lowered": "lower_root_to_reach",
        "predict_valid": "predict_validity",
        "whole_inertia": "whole_body_inertia",
    },
)
