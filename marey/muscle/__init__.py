"""Muscles: soft bodies moved by activation splines, and optimal control of them."""

from marey.base import deprecated_names, guard_room
from marey.muscle.body.contact import ContactBox, ContactPlane
from marey.muscle.body.soft_body import BodySettings, SoftBody
from marey.muscle.body.surface_contact import BodyContact
from marey.muscle.elastic.mesh import SURFACE_SUFFIXES, SurfaceMesh, TetMesh
from marey.muscle.human.activations import MuscleTrack, estimate_activations
from marey.muscle.human.arm_reach import (
    ElbowFlexion,
    HandGoal,
    ReachResult,
    make_hanging_pose,
    make_soft_arm,
    measure_arm,
    measure_elbow_angles,
    solve_elbow_flexion,
    solve_reach,
)
from marey.muscle.human.pictures import (
    colour_activations,
    draw_muscle_strip,
    make_muscle_solids,
    make_reach_film,
)
from marey.muscle.muscles.forces import Muscles
from marey.muscle.muscles.programmes import load_programmes
from marey.muscle.muscles.spline import ActivationSpline, EmbeddedSurface, embed_surface
from marey.muscle.optimal_control.adjoint import ControlResult, compute_adjoint_gradient, simulate_controls
from marey.muscle.optimal_control.problem import (
    MassSpringSystem,
    OptimalControlProblem,
    StateGoal,
    make_network,
    make_particle,
    make_spring_pair,
)
from marey.muscle.optimal_control.soft_system import SoftSystem
from marey.muscle.optimal_control.solve import SceneControl, solve_control, solve_scene
from marey.muscle.scene.film import FILM_FILE_SUFFIXES as FILM_SUFFIXES
from marey.muscle.scene.film import BoneTrack, Film, Paint
from marey.muscle.scene.run import SceneModel, SoftBodyScene, load_scene, make_mesh_scene, scene_names
from marey.muscle.scene.tables import ProgrammePart, SeedPart

__all__ = [
    "FILM_SUFFIXES",
    "SURFACE_SUFFIXES",
    "ActivationSpline",
    "BodyContact",
    "BodySettings",
    "BoneTrack",
    "ContactBox",
    "ContactPlane",
    "ControlResult",
    "ElbowFlexion",
    "EmbeddedSurface",
    "Film",
    "HandGoal",
    "MassSpringSystem",
    "MuscleTrack",
    "Muscles",
    "OptimalControlProblem",
    "Paint",
    "ProgrammePart",
    "ReachResult",
    "SceneControl",
    "SceneModel",
    "SeedPart",
    "SoftBody",
    "SoftBodyScene",
    "SoftSystem",
    "StateGoal",
    "SurfaceMesh",
    "TetMesh",
    "colour_activations",
    "compute_adjoint_gradient",
    "draw_muscle_strip",
    "embed_surface",
    "estimate_activations",
    "load_programmes",
    "load_scene",
    "make_hanging_pose",
    "make_mesh_scene",
    "make_muscle_solids",
    "make_network",
    "make_particle",
    "make_reach_film",
    "make_soft_arm",
    "make_spring_pair",
    "measure_arm",
    "measure_elbow_angles",
    "scene_names",
    "simulate_controls",
    "solve_control",
    "solve_elbow_flexion",
    "solve_reach",
    "solve_scene",
]

guard_room(__name__)

__getattr__ = deprecated_names(
    __name__,
    {
        "ControlProblem": "OptimalControlProblem",
        "Goal": "StateGoal",
        "Reach": "ReachResult",
        "Scene": "SoftBodyScene",
        "Stage": "SceneModel",
        "activate": "estimate_activations",
        "activation_colours": "colour_activations",
        "adjoint_gradient": "compute_adjoint_gradient",
        "arm_lengths": "measure_arm",
        "elbow_angles": "measure_elbow_angles",
        "flex_elbow": "solve_elbow_flexion",
        "hanging_pose": "make_hanging_pose",
        "muscle_solids": "make_muscle_solids",
        "muscle_strip": "draw_muscle_strip",
        "network": "make_network",
        "particle": "make_particle",
        "reach": "solve_reach",
        "reach_film": "make_reach_film",
        "scene": "load_scene",
        "soft_arm": "make_soft_arm",
        "spring_pair": "make_spring_pair",
    },
)
