"""On-line walking, running and jumping from a model of captured gaits."""

from marey.base import deprecated_names, guard_room
from marey.locomotion.engine.character import Engine, Footprint
from marey.locomotion.engine.crowd import Crowd
from marey.locomotion.engine.ground import Slope, Stairs, WalkGround
from marey.locomotion.fitting.fit import fit_locomotion
from marey.locomotion.fitting.person import (
    RecoveredParameters,
    add_style,
    fit_person,
    fit_style_weights,
    recover_parameters,
)
from marey.locomotion.fitting.quality import plot_speed_laws, report_held_out
from marey.locomotion.fitting.sorting import Sorting, capture_episodes, sort_clips
from marey.locomotion.fitting.trials import Manifest, load_manifest
from marey.locomotion.model.jump_model import JumpModel
from marey.locomotion.model.locomotion_model import EFFECTORS, LocomotionModel, load_model
from marey.locomotion.planning.parameters import GaitParameters
from marey.locomotion.planning.run_up import RunUpLaw
from marey.locomotion.plants.clip import plant_slide_mm, trim_sliding_contacts
from marey.locomotion.scripts.files import load_script, save_script, script_to_toml
from marey.locomotion.scripts.script import Action, JumpAction, Performance, Script, Transition, perform_script
from marey.locomotion.scripts.sketch import SketchWalkSettings, walk_sketch
from marey.locomotion.steering.course import add_obstacle, get_obstacle_course
from marey.locomotion.steering.decision import ObstacleDecision
from marey.locomotion.steering.guide import stop_at
from marey.locomotion.steering.obstacles import Obstacle, sample_obstacle
from marey.locomotion.transitions.state_machine import JumpStateMachine

__all__ = [
    "EFFECTORS",
    "Action",
    "Crowd",
    "Engine",
    "Footprint",
    "GaitParameters",
    "JumpAction",
    "JumpModel",
    "JumpStateMachine",
    "LocomotionModel",
    "Manifest",
    "Obstacle",
    "ObstacleDecision",
    "Performance",
    "RecoveredParameters",
    "RunUpLaw",
    "Script",
    "SketchWalkSettings",
    "Slope",
    "Sorting",
    "Stairs",
    "Transition",
    "WalkGround",
    "add_obstacle",
    "add_style",
    "capture_episodes",
    "fit_locomotion",
    "fit_person",
    "fit_style_weights",
    "get_obstacle_course",
    "load_manifest",
    "load_model",
    "load_script",
    "perform_script",
    "plant_slide_mm",
    "plot_speed_laws",
    "recover_parameters",
    "report_held_out",
    "sample_obstacle",
    "save_script",
    "script_to_toml",
    "sort_clips",
    "stop_at",
    "trim_sliding_contacts",
    "walk_sketch",
]

guard_room(__name__)

__getattr__ = deprecated_names(
    __name__,
    {
        "Decision": "ObstacleDecision",
        "Machine": "JumpStateMachine",
        "Parameters": "GaitParameters",
        "Recovered": "RecoveredParameters",
        "held_out_report": "report_held_out",
        "obstacle_course": "get_obstacle_course",
        "perform": "perform_script",
        "personify": "fit_style_weights",
        "random_obstacle": "sample_obstacle",
        "still_contacts": "trim_sliding_contacts",
    },
)
