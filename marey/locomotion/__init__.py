"""On-line walking, running and jumping from a model of captured gaits."""

from marey.base import MareyWarning
from marey.base.deprecation import deprecated_names
from marey.locomotion.engine.character import Engine
from marey.locomotion.engine.crowd import Crowd
from marey.locomotion.engine.feet import Footprint
from marey.locomotion.fitting.fit import fit_locomotion
from marey.locomotion.fitting.person import RecoveredParameters, add_style, fit_style_weights, recover_parameters
from marey.locomotion.fitting.quality import (
    QualityReport,
    distance_matrix,
    motion_distance,
    report_held_out,
    report_quality,
)
from marey.locomotion.fitting.trials import Manifest, TrialGroup, load_manifest
from marey.locomotion.model.locomotion_model import (
    EFFECTORS,
    EVENTS,
    GaitArrays,
    JumpModel,
    LocomotionModel,
    load_model,
)
from marey.locomotion.model.walker import FrameSource, RawFrame
from marey.locomotion.planning.parameters import GaitParameters
from marey.locomotion.planning.run_up import RunUpLaw
from marey.locomotion.planning.speed_profile import PROFILE_METHODS, FrequencyTable, SpeedProfile, plan_profile
from marey.locomotion.plants.clip import PlantEdit, enforce_plants, pigeon_toe, trim_sliding_contacts
from marey.locomotion.plants.detection import (
    PlantInterval,
    detect_events,
    detect_plants,
    detect_plants_by_threshold,
    plant_windows,
)
from marey.locomotion.plants.schedule import FootPlant, effector_positions, foot_plants, plant_slide_mm
from marey.locomotion.scripts.files import SCRIPT_VERSION, load_script, parse_script, save_script, script_to_toml
from marey.locomotion.scripts.script import (
    Action,
    JumpAction,
    PartReport,
    Performance,
    Script,
    ScriptPart,
    ScriptReport,
    Transition,
    perform_script,
)
from marey.locomotion.scripts.sketch import SketchWalk, follow_sketch, walk_sketch
from marey.locomotion.steering.course import ObstacleCourse, add_obstacle, get_obstacle_course
from marey.locomotion.steering.decision import ObstacleDecision
from marey.locomotion.steering.guide import stop_at
from marey.locomotion.steering.obstacles import Obstacle, sample_obstacle
from marey.locomotion.transitions.approach import JumpAnswer
from marey.locomotion.transitions.state_machine import JumpStateMachine
from marey.locomotion.units.jump_unit import JumpUnit

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
