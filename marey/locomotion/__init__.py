"""On-line walking, running and jumping from a model of captured gaits."""

from marey.base import MareyWarning
from marey.base._deprecation import deprecated_names
from marey.locomotion._crowd import Crowd
from marey.locomotion._detect import (
    PlantInterval,
    detect_events,
    detect_plants,
    detect_plants_by_threshold,
    plant_windows,
)
from marey.locomotion._engine import Engine
from marey.locomotion._engine_feet import Footprint
from marey.locomotion._engine_plan import GaitParameters
from marey.locomotion._engine_source import FrameSource, RawFrame
from marey.locomotion._fit import fit_locomotion
from marey.locomotion._follow import SketchWalk, follow_sketch, walk_sketch
from marey.locomotion._follow_feet import trim_sliding_contacts
from marey.locomotion._jump_model import JumpModel
from marey.locomotion._jump_runup import RunUpLaw
from marey.locomotion._jump_unit import JumpUnit
from marey.locomotion._machine import JumpStateMachine
from marey.locomotion._machine_request import JumpAnswer
from marey.locomotion._manifest import Manifest, TrialGroup, load_manifest
from marey.locomotion._metrics import distance_matrix, motion_distance
from marey.locomotion._model import EFFECTORS, EVENTS, GaitArrays, LocomotionModel
from marey.locomotion._model_file import load_model
from marey.locomotion._model_person import RecoveredParameters, add_style, fit_style_weights, recover_parameters
from marey.locomotion._obstacle import ObstacleCourse, add_obstacle, get_obstacle_course
from marey.locomotion._obstacle_box import Obstacle, sample_obstacle
from marey.locomotion._obstacle_decide import ObstacleDecision
from marey.locomotion._plant_measures import FootPlant, effector_positions, foot_plants, plant_slide_mm
from marey.locomotion._plant_motion import PlantEdit, enforce_plants, pigeon_toe
from marey.locomotion._profile import PROFILE_METHODS, FrequencyTable, SpeedProfile, plan_profile
from marey.locomotion._report import QualityReport, report_held_out, report_quality
from marey.locomotion._script import Action, JumpAction, Script, Transition
from marey.locomotion._script_play import Performance, perform_script
from marey.locomotion._script_report import PartReport, ScriptPart, ScriptReport
from marey.locomotion._script_toml import SCRIPT_VERSION, load_script, parse_script, save_script, script_to_toml
from marey.locomotion._steer_guide import stop_at

__all__ = [
    "EFFECTORS",
    "EVENTS",
    "PROFILE_METHODS",
    "SCRIPT_VERSION",
    "Action",
    "Crowd",
    "Engine",
    "FootPlant",
    "Footprint",
    "FrameSource",
    "FrequencyTable",
    "GaitArrays",
    "GaitParameters",
    "JumpAction",
    "JumpAnswer",
    "JumpModel",
    "JumpStateMachine",
    "JumpUnit",
    "LocomotionModel",
    "Manifest",
    "MareyWarning",
    "Obstacle",
    "ObstacleCourse",
    "ObstacleDecision",
    "PartReport",
    "Performance",
    "PlantEdit",
    "PlantInterval",
    "QualityReport",
    "RawFrame",
    "RecoveredParameters",
    "RunUpLaw",
    "Script",
    "ScriptPart",
    "ScriptReport",
    "SketchWalk",
    "SpeedProfile",
    "Transition",
    "TrialGroup",
    "add_obstacle",
    "add_style",
    "detect_events",
    "detect_plants",
    "detect_plants_by_threshold",
    "distance_matrix",
    "effector_positions",
    "enforce_plants",
    "fit_locomotion",
    "fit_style_weights",
    "follow_sketch",
    "foot_plants",
    "get_obstacle_course",
    "load_manifest",
    "load_model",
    "load_script",
    "motion_distance",
    "parse_script",
    "perform_script",
    "pigeon_toe",
    "plan_profile",
    "plant_slide_mm",
    "plant_windows",
    "recover_parameters",
    "report_held_out",
    "report_quality",
    "sample_obstacle",
    "save_script",
    "script_to_toml",
    "stop_at",
    "trim_sliding_contacts",
    "walk_sketch",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "Decision": "ObstacleDecision",
        "Machine": "JumpStateMachine",
        "Parameters": "GaitParameters",
        "Recovered": "RecoveredParameters",
        "Source": "FrameSource",
        "Walked": "SketchWalk",
        "follow": "follow_sketch",
        "held_out_report": "report_held_out",
        "obstacle_course": "get_obstacle_course",
        "perform": "perform_script",
        "personify": "fit_style_weights",
        "quality_report": "report_quality",
        "random_obstacle": "sample_obstacle",
        "still_contacts": "trim_sliding_contacts",
        "threshold_plants": "detect_plants_by_threshold",
    },
)
