"""On-line walking, running and jumping from a model of captured gaits."""

from marey.base import MareyWarning
from marey.locomotion._crowd import Crowd
from marey.locomotion._detect import PlantInterval, detect_events, detect_plants, plant_windows, threshold_plants
from marey.locomotion._engine import Engine
from marey.locomotion._engine_feet import Footprint
from marey.locomotion._engine_plan import Parameters
from marey.locomotion._engine_source import RawFrame, Source
from marey.locomotion._fit import fit_locomotion
from marey.locomotion._follow import Walked, follow, walk_sketch
from marey.locomotion._follow_feet import still_contacts
from marey.locomotion._jump_model import JumpModel
from marey.locomotion._jump_runup import RunUpLaw
from marey.locomotion._jump_unit import JumpUnit
from marey.locomotion._machine import Machine
from marey.locomotion._machine_request import JumpAnswer
from marey.locomotion._manifest import Manifest, TrialGroup, load_manifest
from marey.locomotion._metrics import distance_matrix, motion_distance
from marey.locomotion._model import EFFECTORS, EVENTS, GaitArrays, LocomotionModel
from marey.locomotion._model_file import load_model
from marey.locomotion._model_person import Recovered, add_style, personify, recover_parameters
from marey.locomotion._obstacle import ObstacleCourse, add_obstacle, obstacle_course
from marey.locomotion._obstacle_box import Obstacle, random_obstacle
from marey.locomotion._obstacle_decide import Decision
from marey.locomotion._plant_measures import FootPlant, effector_positions, foot_plants, plant_slide_mm
from marey.locomotion._plant_motion import PlantEdit, enforce_plants, pigeon_toe
from marey.locomotion._profile import PROFILE_METHODS, FrequencyTable, SpeedProfile, plan_profile
from marey.locomotion._report import QualityReport, held_out_report, quality_report
from marey.locomotion._script import Action, JumpAction, Script, Transition
from marey.locomotion._script_play import Performance, perform
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
    "Decision",
    "Engine",
    "FootPlant",
    "Footprint",
    "FrequencyTable",
    "GaitArrays",
    "JumpAction",
    "JumpAnswer",
    "JumpModel",
    "JumpUnit",
    "LocomotionModel",
    "Machine",
    "Manifest",
    "MareyWarning",
    "Obstacle",
    "ObstacleCourse",
    "Parameters",
    "PartReport",
    "Performance",
    "PlantEdit",
    "PlantInterval",
    "QualityReport",
    "RawFrame",
    "Recovered",
    "RunUpLaw",
    "Script",
    "ScriptPart",
    "ScriptReport",
    "Source",
    "SpeedProfile",
    "Transition",
    "TrialGroup",
    "Walked",
    "add_obstacle",
    "add_style",
    "detect_events",
    "detect_plants",
    "distance_matrix",
    "effector_positions",
    "enforce_plants",
    "fit_locomotion",
    "follow",
    "foot_plants",
    "held_out_report",
    "load_manifest",
    "load_model",
    "load_script",
    "motion_distance",
    "obstacle_course",
    "parse_script",
    "perform",
    "personify",
    "pigeon_toe",
    "plan_profile",
    "plant_slide_mm",
    "plant_windows",
    "quality_report",
    "random_obstacle",
    "recover_parameters",
    "save_script",
    "script_to_toml",
    "still_contacts",
    "stop_at",
    "threshold_plants",
    "walk_sketch",
]
