"""On-line walking, running and jumping from a model of captured gaits."""

from marey.locomotion._controller import MareyWarning, Parameters
from marey.locomotion._crowd import Crowd
from marey.locomotion._detect import PlantInterval, detect_events, detect_plants, plant_windows, threshold_plants
from marey.locomotion._engine import Engine
from marey.locomotion._engine_feet import Footprint
from marey.locomotion._engine_source import RawFrame, Source
from marey.locomotion._follow import Walked, follow, walk_sketch
from marey.locomotion._model import EFFECTORS, EVENTS, GaitArrays, LocomotionModel
from marey.locomotion._model_file import load_model
from marey.locomotion._obstacle import ObstacleCourse, add_obstacle, obstacle_course
from marey.locomotion._obstacle_box import Obstacle, random_obstacle
from marey.locomotion._obstacle_decide import Decision
from marey.locomotion._plant_measures import FootPlant, effector_positions, foot_plants, plant_slide_mm
from marey.locomotion._plant_motion import PlantEdit, enforce_plants, pigeon_toe
from marey.locomotion._profile import PROFILE_METHODS, FrequencyTable, SpeedProfile, plan_profile
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
    "LocomotionModel",
    "MareyWarning",
    "Obstacle",
    "ObstacleCourse",
    "Parameters",
    "PartReport",
    "Performance",
    "PlantEdit",
    "PlantInterval",
    "RawFrame",
    "Script",
    "ScriptPart",
    "ScriptReport",
    "Source",
    "SpeedProfile",
    "Transition",
    "Walked",
    "add_obstacle",
    "detect_events",
    "detect_plants",
    "effector_positions",
    "enforce_plants",
    "follow",
    "foot_plants",
    "load_model",
    "load_script",
    "obstacle_course",
    "parse_script",
    "perform",
    "pigeon_toe",
    "plan_profile",
    "plant_slide_mm",
    "plant_windows",
    "random_obstacle",
    "save_script",
    "script_to_toml",
    "stop_at",
    "threshold_plants",
    "walk_sketch",
]
