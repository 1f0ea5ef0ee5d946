"""Muscles: soft bodies moved by activation splines, and optimal control of them."""

from marey.muscle._adjoint import Gradient, adjoint_gradient, simulate_controls
from marey.muscle._assembly import Blocks
from marey.muscle._body import SoftBody
from marey.muscle._body_step import StepReport
from marey.muscle._bones import Bone, Bones
from marey.muscle._contact import Ground
from marey.muscle._control import ControlProblem, Goal, System
from marey.muscle._control_scene import PlaceGoal, SceneControl, solve_scene
from marey.muscle._control_soft import SoftSystem
from marey.muscle._embedding import Embedding
from marey.muscle._film import BoneTrack, Film, Paint
from marey.muscle._film_files import FILM_FILE_SUFFIXES as FILM_SUFFIXES
from marey.muscle._film_reach import arm_film, hanging_film, reach_film
from marey.muscle._film_skin import Skin
from marey.muscle._hill import HillCurves, follow_excitation
from marey.muscle._human import MuscleTrack, activate
from marey.muscle._human_muscles import MuscleGeometry, MusclePath, governed_axes, human_muscles, muscle_geometry
from marey.muscle._human_picture import activation_colours, muscle_solids, muscle_strip
from marey.muscle._mesh import TetMesh
from marey.muscle._mesh_repair import MeshReport
from marey.muscle._muscles import Muscles
from marey.muscle._optimise import solve_control
from marey.muscle._optimise_result import ControlResult
from marey.muscle._particles import MassSpringSystem, network, particle, spring_pair
from marey.muscle._pipeline import (
    ElbowFlexion,
    HandGoal,
    Reach,
    arm_motion,
    elbow_angles,
    flex_elbow,
    hanging_pose,
    reach,
)
from marey.muscle._pipeline_arm import arm_lengths, soft_arm
from marey.muscle._programmes import Constant, Cosine, Function, Impulse, Keyframed, Plan, Profile, Programme, Wave
from marey.muscle._programmes_files import load_programmes, programme_from
from marey.muscle._scene import Scene, scene, scene_names
from marey.muscle._scene_build import Stage
from marey.muscle._spline import ActivationSpline
from marey.muscle._spline_tuning import critical_gains, settle_count
from marey.muscle._springs import Lattice

__all__ = [
    "FILM_SUFFIXES",
    "ActivationSpline",
    "Blocks",
    "Bone",
    "BoneTrack",
    "Bones",
    "Constant",
    "ControlProblem",
    "ControlResult",
    "Cosine",
    "ElbowFlexion",
    "Embedding",
    "Film",
    "Function",
    "Goal",
    "Gradient",
    "Ground",
    "HandGoal",
    "HillCurves",
    "Impulse",
    "Keyframed",
    "Lattice",
    "MassSpringSystem",
    "MeshReport",
    "MuscleGeometry",
    "MusclePath",
    "MuscleTrack",
    "Muscles",
    "Paint",
    "PlaceGoal",
    "Plan",
    "Profile",
    "Programme",
    "Reach",
    "Scene",
    "SceneControl",
    "Skin",
    "SoftBody",
    "SoftSystem",
    "Stage",
    "StepReport",
    "System",
    "TetMesh",
    "Wave",
    "activate",
    "activation_colours",
    "adjoint_gradient",
    "arm_film",
    "arm_lengths",
    "arm_motion",
    "critical_gains",
    "elbow_angles",
    "flex_elbow",
    "follow_excitation",
    "governed_axes",
    "hanging_film",
    "hanging_pose",
    "human_muscles",
    "load_programmes",
    "muscle_geometry",
    "muscle_solids",
    "muscle_strip",
    "network",
    "particle",
    "programme_from",
    "reach",
    "reach_film",
    "scene",
    "scene_names",
    "settle_count",
    "simulate_controls",
    "soft_arm",
    "solve_control",
    "solve_scene",
    "spring_pair",
]
