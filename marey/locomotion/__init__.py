"""On-line walking, running and jumping from a model of captured gaits."""

from marey.locomotion._controller import MareyWarning, Parameters
from marey.locomotion._engine import Engine
from marey.locomotion._engine_feet import Footprint
from marey.locomotion._engine_source import RawFrame, Source
from marey.locomotion._model import EFFECTORS, EVENTS, GaitArrays, LocomotionModel
from marey.locomotion._model_file import load_model
from marey.locomotion._profile import PROFILE_METHODS, FrequencyTable, SpeedProfile, plan_profile
from marey.locomotion._script import Action, JumpAction, Script, Transition
from marey.locomotion._script_play import Performance, perform
from marey.locomotion._script_report import PartReport, ScriptPart, ScriptReport, slide_steps_mm
from marey.locomotion._script_toml import SCRIPT_VERSION, load_script, parse_script, save_script, script_to_toml

__all__ = [
    "EFFECTORS",
    "EVENTS",
    "PROFILE_METHODS",
    "SCRIPT_VERSION",
    "Action",
    "Engine",
    "Footprint",
    "FrequencyTable",
    "GaitArrays",
    "JumpAction",
    "LocomotionModel",
    "MareyWarning",
    "Parameters",
    "PartReport",
    "Performance",
    "RawFrame",
    "Script",
    "ScriptPart",
    "ScriptReport",
    "Source",
    "SpeedProfile",
    "Transition",
    "load_model",
    "load_script",
    "parse_script",
    "perform",
    "plan_profile",
    "save_script",
    "script_to_toml",
    "slide_steps_mm",
]
