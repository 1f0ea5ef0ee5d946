"""Contact- and gravity-aware blending of clips, and physical checks of blends."""

from marey.base import deprecated_names, guard_room
from marey.blending.balance import balance_motion, lower_root_to_reach
from marey.blending.phase_blending import (
    BlendedPhase,
    BlendResult,
    BlendSettings,
    align_phase,
    blend,
    blend_phase,
    blend_plants,
    blend_sources,
)
from marey.blending.phases import MotionPhase, align_phases, blend_duration, cut_phases, hold_plants, phase_string
from marey.blending.pose_blending import BlendedPoses
from marey.blending.sources import BlendSource
from marey.blending.validity import (
    BlendPrediction,
    BlendReport,
    BoundaryCheck,
    ContactCheck,
    FlightCheck,
    PhaseCheck,
    check_contact,
    check_flight,
    measure_flight_tilt,
    measure_flight_turn,
    polygon_margin,
    predict_landing_jump,
    predict_validity,
    whole_body_inertia,
)

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
    "align_phase",
    "align_phases",
    "balance_motion",
    "blend",
    "blend_duration",
    "blend_phase",
    "blend_plants",
    "blend_sources",
    "check_contact",
    "check_flight",
    "cut_phases",
    "hold_plants",
    "lower_root_to_reach",
    "measure_flight_tilt",
    "measure_flight_turn",
    "phase_string",
    "polygon_margin",
    "predict_landing_jump",
    "predict_validity",
    "whole_body_inertia",
]

guard_room(__name__)

__getattr__ = deprecated_names(
    __name__,
    {
        "BlendRule": "BlendSettings",
        "Poses": "BlendedPoses",
        "Source": "BlendSource",
        "ValidityRule": "BlendPrediction",
        "aligned": "align_phase",
        "balanced": "balance_motion",
        "blended_plants": "blend_plants",
        "flight_tilt": "measure_flight_tilt",
        "flight_turn": "measure_flight_turn",
        "landing_jump": "predict_landing_jump",
        "lowered": "lower_root_to_reach",
        "predict_valid": "predict_validity",
        "whole_inertia": "whole_body_inertia",
    },
)
