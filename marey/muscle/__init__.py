"""Muscles: soft bodies moved by activation splines, and optimal control of them."""

from marey.base.deprecation import deprecated_names
from marey.muscle.body.bones import Bone, Bones
from marey.muscle.body.contact import ContactPlane
from marey.muscle.body.soft_body import SoftBody, StepReport
from marey.muscle.elastic.assembly import BlockMatrix
from marey.muscle.elastic.lattice import Lattice
from marey.muscle.human.activations import MuscleTrack, estimate_activations
from marey.muscle.human.arm_reach import (
    ElbowFlexion,
    HandGoal,
    ReachResult,
    make_arm_motion,
    make_hanging_pose,
    make_soft_arm,
    measure_arm,
    measure_elbow_angles,
    solve_elbow_flexion,
    solve_reach,
)
from marey.muscle.human.muscle_paths import (
    MuscleGeometry,
    MusclePath,
    compute_muscle_geometry,
    find_governed_axes,
    make_human_muscles,
)
from marey.muscle.human.pictures import (
    colour_activations,
    draw_muscle_strip,
    make_arm_film,
    make_hanging_film,
    make_muscle_solids,
    make_reach_film,
)
from marey.muscle.mesh.tet_mesh import MeshReport, TetMesh
from marey.muscle.muscles.embedding import Embedding
from marey.muscle.muscles.forces import Muscles
from marey.muscle.muscles.hill import HillCurves, follow_excitation
from marey.muscle.muscles.programmes import (
    ActivationPlan,
    ActivationProfile,
    ActivationProgramme,
    Constant,
    Cosine,
    Function,
    Impulse,
    Keyframed,
    Wave,
    load_programmes,
    programme_from_table,
)
from marey.muscle.muscles.spline import ActivationSpline, compute_critical_gains, solve_settling_time
from marey.muscle.optimal_control.adjoint import (
    ControlGradient,
    ControlResult,
    compute_adjoint_gradient,
    simulate_controls,
)
from marey.muscle.optimal_control.particles import MassSpringSystem, make_network, make_particle, make_spring_pair
from marey.muscle.optimal_control.problem import ControlledSystem, OptimalControlProblem, StateGoal
from marey.muscle.optimal_control.scene_goals import PositionGoal, SceneControl, solve_scene
from marey.muscle.optimal_control.soft_system import SoftSystem
from marey.muscle.optimal_control.solve import solve_control
from marey.muscle.scene.build import SceneModel
from marey.muscle.scene.film import FILM_FILE_SUFFIXES as FILM_SUFFIXES
from marey.muscle.scene.film import BoneTrack, Film, Paint
from marey.muscle.scene.run import SoftBodyScene, load_scene, scene_names
from marey.muscle.scene.surface import EmbeddedSurface

__all__ = [
    "FILM_SUFFIXES",
    "ActivationPlan",
    "ActivationProfile",
    "ActivationProgramme",
    "ActivationSpline",
    "BlockMatrix",
    "Bone",
    "BoneTrack",
    "Bones",
    "Constant",
    "ContactPlane",
    "ControlGradient",
    "ControlResult",
    "ControlledSystem",
    "Cosine",
    "ElbowFlexion",
    "EmbeddedSurface",
    "Embedding",
    "Film",
    "Function",
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
    "OptimalControlProblem",
    "Paint",
    "PositionGoal",
    "ReachResult",
    "SceneControl",
    "SceneModel",
    "SoftBody",
    "SoftBodyScene",
    "SoftSystem",
    "StateGoal",
    "StepReport",
    "TetMesh",
    "Wave",
    "colour_activations",
    "compute_adjoint_gradient",
    "compute_critical_gains",
    "compute_muscle_geometry",
    "draw_muscle_strip",
    "estimate_activations",
    "find_governed_axes",
    "follow_excitation",
    "load_programmes",
    "load_scene",
    "make_arm_film",
    "make_arm_motion",
    "make_hanging_film",
    "make_hanging_pose",
    "make_human_muscles",
    "make_muscle_solids",
    "make_network",
    "make_particle",
    "make_reach_film",
    "make_soft_arm",
    "make_spring_pair",
    "measure_arm",
    "measure_elbow_angles",
    "programme_from_table",
    "scene_names",
    "simulate_controls",
    "solve_control",
    "solve_elbow_flexion",
    "solve_reach",
    "solve_scene",
    "solve_settling_time",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "Blocks": "BlockMatrix",
        "ControlProblem": "OptimalControlProblem",
        "Goal": "StateGoal",
        "Gradient": "ControlGradient",
        "Ground": "ContactPlane",
        "PlaceGoal": "PositionGoal",
        "Plan": "ActivationPlan",
        "Profile": "ActivationProfile",
        "Programme": "ActivationProgramme",
        "Reach": "ReachResult",
        "Scene": "SoftBodyScene",
        "Skin": "EmbeddedSurface",
        "Stage": "SceneModel",
        "System": "ControlledSystem",
        "activate": "estimate_activations",
        "activation_colours": "colour_activations",
        "adjoint_gradient": "compute_adjoint_gradient",
        "arm_film": "make_arm_film",
        "arm_lengths": "measure_arm",
        "arm_motion": "make_arm_motion",
        "critical_gains": "compute_critical_gains",
        "elbow_angles": "measure_elbow_angles",
        "flex_elbow": "solve_elbow_flexion",
        "governed_axes": "find_governed_axes",
        "hanging_film": "make_hanging_film",
        "hanging_pose": "make_hanging_pose",
        "human_muscles": "make_human_muscles",
        "muscle_geometry": "compute_muscle_geometry",
        "muscle_solids": "make_muscle_solids",
        "muscle_strip": "draw_muscle_strip",
        "network": "make_network",
        "particle": "make_particle",
        "programme_from": "programme_from_table",
        "reach": "solve_reach",
        "reach_film": "make_reach_film",
        "scene": "load_scene",
        "settle_count": "solve_settling_time",
        "soft_arm": "make_soft_arm",
        "spring_pair": "make_spring_pair",
    },
)
