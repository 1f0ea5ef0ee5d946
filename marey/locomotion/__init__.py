"""On-line walking, running and jumping from a model of captured gaits."""

from marey.locomotion._model import EFFECTORS, EVENTS, GaitArrays
from marey.locomotion._profile import PROFILE_METHODS, FrequencyTable, SpeedProfile, plan_profile

__all__ = [
    "EFFECTORS",
    "EVENTS",
    "PROFILE_METHODS",
    "FrequencyTable",
    "GaitArrays",
    "SpeedProfile",
    "plan_profile",
]
