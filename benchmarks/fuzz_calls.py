"""Hostile calls: every public function with one argument that it cannot use.

A call must end in a result without NaN, or in a :class:`marey.MareyError`, within ``PATIENCE_S`` of processor time and
``MEMORY_BYTES`` of memory. Right arguments come from annotations and from ``VALUES``; functions that cannot be called
with those are counted apart, as "no right call". Each function is tried in a forked process of its own.
"""

from __future__ import annotations

import inspect
import json
import os
import random
import resource
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import marey
from marey.base import MareyError

PATIENCE_S, MEMORY_BYTES = 20, 3 << 30
FUNCTION_S = 10.0  # [s] that one function is tried, in an order that the seed gives
CUT = "cut by its time"  # of functions of which some calls were not made
ROOMS = sorted(marey._ROOMS - {"base", "studio"})
SKIPPED = {
    "io.to_glb": "its dictionary is not checked: a tool of writers",
    "graph.register_event": "changes the registry of the process",
    "locomotion.fit_locomotion": "minutes for one call",
    "locomotion.report_held_out": "minutes for one call",
    "locomotion.plot_speed_laws": "minutes for one call",
    "pipeline.run_archive": "minutes for one call",
    "pipeline.run_batch": "starts processes: see the kills",
    "samples.demo_graph": "writes the user's cache",
    "samples.demo_graph_file": "writes the user's cache",
}
NAN_ALLOWED = {
    "world.box_distance", "world.segment_distance",
    "graph.load_graph", "graph.build_graph",  # places of feet that are not planted, as its type says
}  # fmt: skip


@cache
def folder() -> Path:
    """A folder for files that calls write."""
    return Path(tempfile.mkdtemp(prefix="fuzz-calls-"))


@cache
def walk() -> Any:
    """A short walk with contacts."""
    from marey.contacts import ensure_contacts

    return ensure_contacts(marey.samples.load("walk"))[:60]


@cache
def jump() -> Any:
    """A jump with contacts."""
    from marey.contacts import ensure_contacts

    return ensure_contacts(marey.samples.load("jump"))


def _phases() -> Any:
    from marey.blending import cut_phases

    return cut_phases(jump())


def _tree() -> Any:
    from marey.dynamics import JointTree
    from marey.spacetime import build_character

    del JointTree
    return build_character(marey.spacetime.load_problem("monkey-bars"))


def _joint_field() -> Any:
    from marey.kinematics import draw_joint

    return draw_joint(marey.HUMAN, "left_shoulder", CORNERS, np.tile([-0.5, 0.5], (len(CORNERS), 1)), resolution=8)


def _mesh() -> Any:
    from marey.kinematics import build_solid, iso_surface

    return iso_surface(build_solid(_joint_field()))


def _problem() -> Any:
    return marey.spacetime.load_problem("monkey-bars")


def _sketch() -> Any:
    return marey.Sketch.load(marey.samples.sketch_file("straight"))


def _model_file() -> Path:
    marey.PGA(n_components=3).fit(walk()).save(folder() / "model.safetensors")
    return folder() / "model.safetensors"


def _file(name: str, text: str) -> Path:
    (folder() / name).write_text(text, encoding="utf-8")
    return folder() / name


def _saved(name: str) -> Path:
    marey.save(walk(), folder() / name)
    return folder() / name


def _markers() -> Any:
    positions = walk().joint_positions()
    return marey.motion.Markers(marey.HUMAN.names, 60.0, positions, np.ones(positions.shape[:2], dtype=np.bool_))


def _views() -> Any:
    pixels = np.full((10, 2, 2), 100.0)
    camera, seen = make_value("Camera"), np.ones((10, 2), dtype=np.bool_)
    return [marey.tracking.Observations(camera, 30.0, ("left_wrist", "right_wrist"), pixels, seen)]


def _keys() -> Any:
    return marey.motion.KeyFrames(marey.HUMAN, {0.0: walk()[0], 0.5: walk()[30]})


def _layer() -> Any:
    key = marey.motion.LayerKey(0.3, "left_elbow", rotation=np.array([0.8, 0.6, 0.0, 0.0]))
    return marey.motion.Layer((key,))


def _recipe() -> Any:
    return marey.pipeline.parse_recipe('version = 1\ntool = "clean"\n[inputs]\ntake = "walk"\n')


def _reaction() -> Any:
    count = 60
    forces = np.zeros((count, 1, 3))
    forces[:, :, 1] = 700.0
    return marey.io.GroundReaction(
        ("left",), np.arange(count) / 60.0, forces, np.zeros((count, 1, 3)), np.zeros((count, 1, 3))
    )


def _triangle() -> Any:
    return marey.picture.TriangleMesh(np.eye(3), np.array([[0, 1, 2]]), np.ones((3, 3)))


def _wave(count: int = 100) -> Any:
    return 0.05 + 0.05 * np.sin(np.linspace(0.0, 12.0, count))


CORNERS = [[1.0, 0.5, 0.0], [1.0, 0.0, 0.5], [1.0, -0.5, 0.0], [1.0, 0.0, -0.5]]  # directions of the bone
# Right arguments: by function and parameter, by parameter, by annotation
VALUES: dict[str, Callable[[], Any]] = {
    "Motion": walk,
    "Motion | Pose": walk,
    "Motion | Contacts": walk,
    "Motion | MotionUnit": walk,
    "Motion | Iterable[Motion]": walk,
    "Motion | Sequence[Motion]": walk,
    "Motion | tuple[Motion, ...] | list[Motion]": walk,
    "Sequence[Motion]": lambda: [walk(), walk()],
    "Clips": lambda: [walk(), walk()],
    "ClipSource": lambda: [walk(), walk()],
    "Contacts": lambda: walk().contacts,
    "Body": lambda: marey.Body.from_skeleton(marey.HUMAN),
    "Skeleton": lambda: marey.HUMAN,
    "PoseModel | Skeleton": lambda: marey.HUMAN,
    "Sketch": _sketch,
    "SpacetimeProblem": _problem,
    "MotionPhase": lambda: _phases()[0],
    "Sequence[MotionPhase]": lambda: [_phases()[0], _phases()[0]],
    "tuple[MotionPhase, ...]": _phases,
    "tuple[MotionPhase, MotionPhase]": lambda: (_phases()[0], _phases()[0]),
    "SO3": lambda: marey.SO3.exp(0.1 * np.eye(3)),
    "SE3": lambda: marey.motion.to_absolute(walk()),
    "Pose": lambda: walk()[0],
    "JointField": _joint_field,
    "LimitMesh": _mesh,
    "DistanceField": lambda: marey.kinematics.build_solid(_joint_field()),
    "FieldGrid": lambda: marey.kinematics.build_solid(_joint_field()).grid,
    "JointLimits": lambda: marey.kinematics.fit_limits(walk(), "box"),
    "PoseModel": lambda: marey.PGA(n_components=3).fit(walk()),
    "ModeCounts": lambda: marey.models.count_modes([walk()]),
    "SelectionCurve": lambda: marey.models.selection_curve([walk()], counts=[1, 2]),
    "ClipFeatures": lambda: marey.models.clip_features(walk()),
    "Sequence[ClipFeatures]": lambda: [marey.models.clip_features(walk())] * 3,
    "RelativeRoot": lambda: marey.motion.encode_relative_root(walk()),
    "ValidityReport": lambda: marey.dynamics.check_validity(walk()),
    "Supports": lambda: marey.dynamics.find_supports(walk()),
    "TournierCode": lambda: marey.compression.encode_tournier(walk()),
    "AnyTree": _tree,
    "JointTree": _tree,
    "MotionGraph": marey.samples.demo_graph,
    "SearchResult": lambda: marey.graph.search_graph(marey.samples.demo_graph(), _sketch(), budget_s=20.0),
    "LocomotionModel": marey.locomotion.load_model,
    "Engine": lambda: marey.locomotion.Engine(),
    "Obstacle": lambda: marey.locomotion.sample_obstacle(np.random.default_rng(1), np.zeros(2), 0.0),
    "Script": lambda: marey.locomotion.load_script(marey.samples.script_file("stroll")),
    "Manifest": marey.locomotion.load_manifest,
    "MuscleTrack": lambda: marey.muscle.estimate_activations(walk()),
    "SoftBodyScene": lambda: marey.muscle.load_scene("fork"),
    "Capsules": lambda: marey.skeleton.capsules(marey.HUMAN),
    "RoleMap": lambda: marey.skeleton.role_map(marey.HUMAN),
    "Palette": lambda: inspect.signature(marey.picture.compare_strips).parameters["palettes"].default[0],
    "RenderScene": lambda: marey.picture.motion_scene(walk(), 0),
    "np.random.Generator": lambda: np.random.default_rng(1),
    "Camera": lambda: marey.tracking.Camera(np.array([0.0, 1.0, 4.0]), np.array([0.0, 1.0, 0.0])),
    "ArrayLike": lambda: np.array([0.5, 0.5]),
    "FloatArray": lambda: np.linspace(0.0, 1.0, 30),
    "IntArray": lambda: np.arange(3),
    "BoolArray": lambda: np.arange(10) % 3 == 0,
    "Sequence[float]": lambda: [0.5, 0.5, 0.5],
    "Sequence[float] | FloatArray": lambda: [0.5, 0.5],
    "FloatArray | float": lambda: np.linspace(0.0, 1.0, 5),
    "Sequence[int] | IntArray": lambda: [0, 1],
    "int | Sequence[int] | ArrayLike": lambda: [0, 10],
    "tuple[int, int]": lambda: (64, 48),
    "str | ArrayLike": lambda: "#ff8800",
    "float": lambda: 1.0,
    "int": lambda: 3,
    "str | int": lambda: "left_wrist",
    "int | str": lambda: "left_wrist",
    "Limb | str": lambda: "left_arm",
    "frozenset[str]": lambda: frozenset({"pelvis", "neck"}),
    "Mapping[str, float]": lambda: {"39": 1.0},
    "Sequence[str]": lambda: ["left_knee"],
    "rate_hz": lambda: 30.0,
    "cutoff_hz": lambda: 6.0,
    "heights": lambda: np.stack([_wave()] * 4, axis=1),
    "q": lambda: np.zeros(_tree().num_dofs),
    "qd": lambda: np.zeros(_tree().num_dofs),
    "qdd": lambda: np.zeros(_tree().num_dofs),
    "dof": lambda: 3,
    "dofs": lambda: [3],
    "point": lambda: np.zeros(3),
    "points": lambda: np.zeros((1, 3)),
    "joint": lambda: "left_shoulder",
    "tasks": lambda: [marey.PointTask("left_wrist", (0.3, 1.2, 0.2))],
    "task_trajectories": lambda: [marey.PointTask("left_wrist", np.tile((0.3, 1.2, 0.2), (5, 1)))],
    "path": lambda: folder() / "file.bvh",
    "text": lambda: "name = 'x'",
    "data": lambda: marey.compress(walk()),
    "wrenches": lambda: np.tile((0.0, 1.0, 0.0, 0.0, 700.0, 0.0), (4, 1)),
    "X": lambda: np.zeros((3, 3)),
    "Z": lambda: np.zeros((3, 3)),
    "start": lambda: 1,
    "stop": lambda: 20,
    "count": lambda: 3,
    "frame": lambda: 0,
    "v": lambda: np.zeros(3),
    "what": lambda: "retargeting",
    "name": lambda: "walk",
    "up": lambda: "y",
    "image": lambda: np.zeros((8, 8, 3), dtype=np.uint8),
    "draw": lambda: lambda *_: np.zeros((8, 8, 3), dtype=np.uint8),
    "compression.edit_motion.joint": lambda: "left_wrist",
    "compression.edit_motion.offset_world": lambda: np.array([0.0, 0.1, 0.0]),
    "contacts.detect_plants_by_threshold.positions": lambda: np.zeros((20, 2, 3)),
    "kinematics.brush_joint.rotation": lambda: marey.SO3.exp(np.array([0.1, 0.1, 0.0])),
    "kinematics.brush_joint.radius_rad": lambda: 0.3,
    "kinematics.brush_joint.push_rad": lambda: 0.1,
    "kinematics.draw_joint.corners": lambda: CORNERS,
    "kinematics.draw_joint.twists_rad": lambda: np.tile([-0.5, 0.5], (len(CORNERS), 1)),
    "kinematics.fit_people.poses": lambda: marey.kinematics.measure_poses(walk()),
    "kinematics.fit_people.people": lambda: np.zeros(60, dtype=np.int64),
    "kinematics.shrink_wrap.samples": lambda: 0.1 * np.random.default_rng(1).normal(size=(50, 3)),
    "kinematics.solve_two_bone.targets": lambda: walk().joint_positions()[:, 5],
    "locomotion.fit_person.name": lambda: "someone",
    "locomotion.add_style.name": lambda: "someone",
    "locomotion.stop_at.line": lambda: [[2.0, 5.0], [-2.0, 5.0]],
    "models.principal_components.table": lambda: np.random.default_rng(1).normal(size=(20, 4)),
    "models.joint_shares.direction": lambda: np.ones(9),
    "models.mode_motion.component": lambda: 0,
    "models.find_outliers.scores": lambda: np.random.default_rng(1).normal(size=(20, 2)),
    "models.fit_speed_law.scores": lambda: np.random.default_rng(1).normal(size=(20, 2)),
    "models.fit_speed_law.speeds": lambda: np.linspace(0.5, 2.0, 20),
    "models.sort_gaits.scores": lambda: np.random.default_rng(1).normal(size=(20, 2)),
    "models.sort_gaits.speeds": lambda: np.linspace(0.5, 4.0, 20),
    "models.sort_subjects.scores": lambda: np.random.default_rng(1).normal(size=(20, 2)),
    "models.sort_subjects.examples": lambda: {"a": 0, "b": 5},
    "motion.fill_gaps.known": lambda: np.arange(30) % 3 == 0,
    "numerics.fill_gaps.known": lambda: np.arange(30) % 3 == 0,
    "numerics.convex_hull.points": lambda: np.random.default_rng(1).normal(size=(20, 2)),
    "numerics.evaluate_clamped_spline.points": lambda: np.zeros((6, 3)),
    "numerics.solve_qp.H": lambda: np.eye(2),
    "numerics.solve_qp.g": lambda: np.ones(2),
    "measure.compute_l2.reference": lambda: np.zeros((10, 5, 3)),
    "measure.compute_l2.values": lambda: np.ones((10, 5, 3)),
    "measure.compute_npss.reference": lambda: np.random.default_rng(1).normal(size=(2, 10, 5)),
    "measure.compute_npss.values": lambda: np.random.default_rng(2).normal(size=(2, 10, 5)),
    "motion.transform_motion.here": lambda: np.zeros(3),
    "motion.transform_motion.there": lambda: np.ones(3),
    "motion.concatenate.motions": lambda: [walk(), walk()],
    "muscle.make_network.masses": lambda: [1.0, 1.0],
    "muscle.make_network.springs": lambda: [[0, 1]],
    "muscle.make_network.rest_lengths": lambda: [1.0],
    "muscle.colour_activations.activations": lambda: np.linspace(0.0, 1.0, 5),
    "muscle.load_scene.name": lambda: "fork",
    "muscle.solve_scene.goals": lambda: [(0.2, (0.0, 0.5, 0.0), (0.1, 0.5, 0.0))],
    "muscle.solve_reach.goals": lambda: [(0.3, (0.3, 1.2, 0.2))],
    "picture.fit_height.points": lambda: np.random.default_rng(1).normal(size=(5, 3)),
    "picture.fit_height.radii": lambda: np.full(5, 0.1),
    "picture.fit_height.direction": lambda: np.array([0.0, 0.0, 1.0]),
    "picture.fit_height.width": lambda: 200,
    "picture.fit_height.wide_rad": lambda: 0.5,
    "picture.fit_height.limits": lambda: (50, 200),
    "picture.frame_balls.points": lambda: np.random.default_rng(1).normal(size=(5, 3)),
    "picture.frame_balls.radii": lambda: np.full(5, 0.1),
    "picture.frame_balls.direction": lambda: np.array([0.0, 0.0, 1.0]),
    "picture.frame_balls.fov_rad": lambda: 0.5,
    "picture.make_light.direction": lambda: np.array([0.0, 1.0, 0.0]),
    "picture.film_strip.width": lambda: 200,
    "picture.compare_strips.width": lambda: 200,
    "picture.save_film.path": lambda: folder() / "film.gif",
    "picture.save_film.motion": lambda: walk()[:5],
    "picture.save_pictures.path": lambda: folder() / "film.gif",
    "picture.save_image.path": lambda: folder() / "image.png",
    "picture.save_page.path": lambda: folder() / "page.html",
    "picture.write_labels.labels": list,
    "samples.problem_file.name": lambda: "monkey-bars",
    "samples.script_file.name": lambda: "stroll",
    "samples.sketch_file.name": lambda: "straight",
    "simulate.forces_at.pushes": list,
    "spacetime.build_run_problem.steps_m": lambda: [0.8, 0.8],
    "spacetime.build_walk_problem.steps_m": lambda: [0.6, 0.6],
    "spacetime.build_pose_style.targets": dict,
    "spacetime.build_stillness_style.joints": list,
    "spacetime.save_problem.path": lambda: folder() / "problem.toml",
    "spacetime.load_problem.path": lambda: marey.samples.problem_file("monkey-bars"),
    "locomotion.save_script.path": lambda: folder() / "script.toml",
    "locomotion.load_script.path": lambda: marey.samples.script_file("stroll"),
    "world.save_sketch.path": lambda: folder() / "sketch.toml",
    "world.load_sketch.path": lambda: marey.samples.sketch_file("straight"),
    "graph.save_graph.path": lambda: folder() / "graph.safetensors",
    "graph.load_graph.path": lambda: marey.samples.demo_graph_file(),
    "io.write_clip.path": lambda: folder() / "clip.safetensors",
    "library.expand_paths.paths": lambda: [folder()],
    "library.survey_paths.paths": lambda: [folder()],
    "library.is_library.folder": folder,
    "blending.lower_root_to_reach.ankles": lambda: [walk().joint_positions()[:, 3]] * 2,
    "blending.polygon_margin.point": lambda: np.zeros(2),
    "blending.polygon_margin.corners": lambda: np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
    "blending.predict_landing_jump.turns": lambda: np.zeros(2),
    "blending.predict_landing_jump.weights": lambda: np.array([0.5, 0.5]),
    "blending.blend_plants.weights": lambda: np.array([0.5, 0.5]),
    "dynamics.compute_differences.values": lambda: np.zeros((20, 3)),
    "dynamics.smooth_values.values": lambda: np.zeros((40, 3)),
    "dynamics.smooth_values.rate_hz": lambda: 60.0,
    "control.back_and_forth.duration_s": lambda: 1.0,
    "control.walk_in_place.motion": lambda: marey.samples.load("walk"),
    "dynamics.compute_aggregate.q": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_aggregate.qd": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_aggregate.qdd": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_aggregate_jacobians.q": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_aggregate_jacobians.qd": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_aggregate_jacobians.qdd": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_torques.q": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_torques.qd": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_torques.qdd": lambda: np.zeros((3, _tree().num_dofs)),
    "locomotion.capture_episodes.kind": lambda: "start",
    "models.load_model.path": _model_file,
    "picture.describe_clip.spans": dict,
    "simulate.compute_loads.external": lambda: np.zeros((60, 22, 6)),
    "spacetime.parse_problem.text": lambda: marey.samples.problem_file("monkey-bars").read_text(),
    "world.segment_distance.start": lambda: [0.0, 0.0],
    "world.segment_distance.end": lambda: [1.0, 1.0],
    "Mapping[str, Spans]": dict,
    "Markers": _markers,
    "KeyFrames": _keys,
    "Layer": _layer,
    "Sequence[Layer]": lambda: [_layer()],
    "KeyPlan": lambda: marey.pipeline.KeyPlan(_keys(), 30.0),
    "Recipe": _recipe,
    "World | Sketch": _sketch,
    "Callable[[FloatArray], Any]": lambda: lambda values: len(values),
    "Sequence[Observations]": _views,
    "GroundReaction": _reaction,
    "TriangleMesh": _triangle,
    "Simulator": lambda: marey.simulate.Simulator(make_value("Body")),
    "list[float]": lambda: [0.1, 0.5],
    "str | int | EditGoal | Sequence[EditGoal]": lambda: marey.compression.EditGoal(
        "left_wrist", np.array([0.2]), np.array([[0.0, 0.1, 0.0]]), is_offset=True
    ),
    "control.make_reference.motion": lambda: marey.samples.load("walk"),
    "control.make_reference.dt": lambda: 1.0 / 60.0,
    "io.load_markers.path": lambda: _saved("saved.trc"),
    "graph.build_graph.motions": lambda: [marey.samples.load("walk"), marey.samples.load("run")],
    "dynamics.compute_point_motion.q": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_point_motion.qd": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_point_motion.qdd": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_points_motion.q": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_points_motion.qd": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_points_motion.qdd": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_com_motion.q": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_com_motion.qd": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_com_motion.qdd": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_torque_jacobians.q": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_torque_jacobians.qd": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_torque_jacobians.qdd": lambda: np.zeros((3, _tree().num_dofs)),
    "dynamics.compute_point_positions.q": lambda: np.zeros((3, _tree().num_dofs)),
    "io.clips.path": lambda: _saved("saved.bvh"),
    "io.load.path": lambda: _saved("saved.bvh"),
    "io.read_clip.path": lambda: _saved("saved.safetensors"),
    "kinematics.load_limits.path": lambda: (
        make_value("JointLimits").save(folder() / "box.safetensors"),
        folder() / "box.safetensors",
    )[1],
    "kinematics.load_obj.path": lambda: (_mesh().save_obj(folder() / "mesh.obj"), folder() / "mesh.obj")[1],
    "locomotion.sample_obstacle.position": lambda: np.zeros(2),
    "motion.mass_weights.points": lambda: frozenset(walk().contacts.names),
    "motion.mix_motions.weights": lambda: np.linspace(0.0, 1.0, 60),
    "muscle.embed_surface.points": lambda: 0.2 * np.ones((3, 3)),
    "muscle.embed_surface.faces": lambda: np.array([[0, 1, 2]]),
    "muscle.embed_surface.nodes": lambda: np.vstack([np.zeros(3), np.eye(3)]),
    "muscle.embed_surface.cells": lambda: np.array([[0, 1, 2, 3]]),
    "muscle.make_mesh_scene.path": lambda: _file("cube.obj", CUBE),
    "pipeline.load_recipe.path": lambda: _file("recipe.toml", 'version = 1\ntool = "clean"\n[inputs]\ntake = "walk"\n'),
    "pipeline.save_recipe.path": lambda: folder() / "saved-recipe.toml",
    "pipeline.parse_recipe.text": lambda: 'version = 1\ntool = "clean"\n[inputs]\ntake = "walk"\n',
    "pipeline.run_recipe.tools": lambda: import_module("marey.pipeline").TOOLS,
    "skeleton.joint_frames.root_positions": lambda: np.zeros((2, 3)),
    "skeleton.joint_frames.wxyz": lambda: np.tile((1.0, 0.0, 0.0, 0.0), (2, 22, 1)),
    "skeleton.joint_positions.root_positions": lambda: np.zeros((2, 3)),
    "skeleton.joint_positions.wxyz": lambda: np.tile((1.0, 0.0, 0.0, 0.0), (2, 22, 1)),
    "simulate.compute_loads.wrenches": lambda: np.zeros((60, 22, 6)),
    "spacetime.optimize_reduced.problem": lambda: marey.spacetime.load_problem("jump-0.4"),
    "tracking.fit_body.lengths_m": lambda: {"thigh": 0.4},
    "tracking.cut_views.frames": lambda: 5,
    "tracking.load_cameras.path": lambda: _file("cameras.json", '{"cameras": []}'),
    "world.parse_sketch.text": lambda: marey.samples.sketch_file("straight").read_text(),
}
CUBE = """v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 0 0 1\nv 1 0 1\nv 1 1 1\nv 0 1 1
f 1 3 2\nf 1 4 3\nf 5 6 7\nf 5 7 8\nf 1 2 6\nf 1 6 5\nf 3 4 8\nf 3 8 7\nf 1 5 8\nf 1 8 4\nf 2 3 7\nf 2 7 6
"""
# Options that keep a call short
SHORT: dict[str, dict[str, Any]] = {
    "control.track_balance": {"seconds": 0.2},
    "control.solve_tracking": {"steps": 5},
    "control.track_clip": {"steps": 5},
    "graph.search_graph": {"budget_s": 1.0},
    "pipeline.synthesize_sketch": {"budget_s": 1.0, "engine": "locomotion"},
    "spacetime.optimize": {"time_limit_s": 1.0, "on_failure": "return"},
    "spacetime.optimize_reduced": {"time_limit_s": 1.0},
    "spacetime.optimize_styled": {"time_limit_s": 1.0, "on_failure": "return"},
    "spacetime.make_valid": {"time_limit_s": 1.0, "on_failure": "return"},
    "spacetime.edit_physically": {"time_limit_s": 1.0, "on_failure": "return"},
    "simulate.momentum_scenario": {"steps": 3},
    "tracking.seated_motion": {"frames": 20},
    "picture.film_strip": {"width": 200},
    "picture.compare_strips": {"width": 200},
    "picture.save_film": {"size": (64, 48)},
    "picture.render_motion": {"size": (64, 48)},
}


@cache
def make_value(key: str) -> Any:
    """A right argument, made once: calls run in forked processes, so none changes it for another."""
    return VALUES[key]()


CLASSES = frozenset(
    name for name in VALUES if name[:1].isupper() and "Array" not in name and "." not in name and len(name) > 1
)
NUMBERS = (
    float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 1e308, 1e-308, 1e9, 2**63, -(2**63), 1.5, "x", None, [],
    [1.0, 2.0], {}, object(), 1j, b"x", "nan", np.zeros(3), np.float64("nan"), np.array(2.0),
)  # fmt: skip
TEXTS = ("", "no-such", 3, None, float("nan"), "x" * 10_000, "\0", [], {}, b"x", object(), ("a", "b"))
PATHS = (
    "", "no-such", 3, None, "/no/such/folder/file.bvh", "x" * 5000 + ".bvh", "\0.bvh", [], float("nan"), b"x", object(),
    ".", "x.zzz",
)  # fmt: skip


def arrays() -> tuple[Any, ...]:
    """Arrays that hardly any function can use."""
    return (
        [], [[]], None, 3, "x", "1", object(), {}, np.nan, np.zeros(0), np.full(3, np.nan), np.full((20, 3), np.nan),
        np.full((2, 2), np.inf), np.zeros((3, 3, 3, 3)), np.zeros((1, 1)), np.array(["a", "b"]),
        [[1.0], [1.0, 2.0]], np.full(3, 1e308), -np.ones(3), np.zeros((0, 3)), np.array([None, None]),
        [float("nan")] * 2, np.zeros(3, dtype=complex),
    )  # fmt: skip


@cache
def odd_motions() -> tuple[Any, ...]:
    """Motions and skeletons that are valid and odd."""
    from marey.lie import SO3
    from marey.motion import Motion
    from marey.skeleton import Skeleton

    pair = Skeleton(("a", "b"), np.array([-1, 0]), np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    flat = replace(marey.HUMAN, offsets=np.zeros_like(marey.HUMAN.offsets))
    still = Motion(pair, 30.0, np.zeros((5, 3)), SO3.identity(5, 2))
    return (
        walk()[:1], walk()[:2], still, Motion(flat, 30.0, np.zeros((9, 3)), SO3.identity(9, flat.num_joints)),
        replace(walk(), rate_hz=1e9), replace(walk(), root_positions=walk().root_positions + 1e9),
        replace(walk(), rate_hz=1e-3),
    )  # fmt: skip


@cache
def of_another_skeleton(kind: str) -> tuple[Any, ...]:
    """Right values of a type for a person with a tail, who has more joints than the other arguments are about."""
    from marey.lie import SO3
    from marey.motion import Contacts, KeyFrames, Motion
    from marey.skeleton import Pose, Skeleton

    human, count = marey.HUMAN, 30
    names = (*human.names, *(f"tail{n}" for n in range(count - human.num_joints)))
    parents = [*human.parents, 0, *range(human.num_joints, count - 1)]
    offsets = np.vstack([human.offsets, np.tile((0.0, 0.0, -0.05), (count - human.num_joints, 1))])
    tailed = Skeleton(names, np.array(parents), offsets)
    turns = np.zeros((len(walk()), count, 3))
    turns[:, : human.num_joints] = walk().rotations.log()
    motion = Motion(tailed, 60.0, walk().root_positions, SO3.exp(turns))
    many = Contacts(tuple(f"point{n}" for n in range(9)), np.zeros((7, 9), dtype=np.bool_))
    values: dict[str, Callable[[], tuple[Any, ...]]] = {
        "Motion": lambda: (motion,),
        "Sequence[Motion]": lambda: ([walk(), motion], [motion, walk()]),
        "Clips": lambda: ([walk(), motion],),
        "Skeleton": lambda: (tailed,),
        "Body": lambda: (marey.Body.from_skeleton(tailed),),
        "Pose": lambda: (motion[0], Pose.rest(tailed)),
        "PoseModel": lambda: (marey.PGA(n_components=3).fit(motion),),
        "JointLimits": lambda: (
            marey.kinematics.fit_limits(motion, "box"),
            marey.kinematics.fit_limits(motion, "cone"),
        ),
        "Contacts": lambda: (many,),
        "KeyFrames": lambda: (KeyFrames(tailed, {0.0: motion[0], 0.5: motion[9]}),),
        "SO3": lambda: (motion.rotations, SO3.identity(2, 2), SO3.identity(0)),
        "Supports": lambda: (marey.dynamics.find_supports(motion[:9]),),
        "ValidityReport": lambda: (marey.dynamics.check_validity(motion[:20]),),
        "RoleMap": lambda: (marey.skeleton.role_map(tailed),),
    }
    return values[kind]() if kind in values else ()


def hostile_values(annotation: str) -> tuple[Any, ...]:
    """Values for a parameter, by its annotation."""
    whole: list[Any] = list(of_another_skeleton(annotation.removesuffix(" | None")))
    if "float" in annotation or "int" in annotation:
        whole += NUMBERS
    if "Path" in annotation:
        whole += PATHS
    elif "str" in annotation or "Literal" in annotation or annotation in ("Method", "Derivatives", "OnFailure", "Root"):
        whole += TEXTS
    if "Array" in annotation or "Sequence[float]" in annotation:
        whole += arrays()
    if annotation in ("Motion", "Motion | Contacts", "Motion | Pose"):
        whole += odd_motions()
    if annotation == "Skeleton":
        whole += [motion.skeleton for motion in odd_motions()[2:4]]
    return tuple(whole) or (None, 3, "x", float("nan"), [], object())


@dataclass(frozen=True, slots=True)
class PublicFunction:
    """A function of a room with the arguments of a right call."""

    name: str  # room.function
    call: Callable[..., Any]

    def parameters(self) -> list[inspect.Parameter]:
        """All but those that collect others."""
        return [p for p in inspect.signature(self.call).parameters.values() if not p.kind.name.startswith("VAR")]

    def right_values(self) -> dict[str, Any]:
        """Arguments of a right call; KeyError where one is not known."""
        found: dict[str, Any] = {}
        for parameter in self.parameters():
            if parameter.default is parameter.empty:
                kind = str(parameter.annotation)
                own = f"{self.name}.{parameter.name}"
                # Names say more than numbers and arrays do, classes say more than names
                keys = (own, kind, parameter.name) if kind in CLASSES else (own, parameter.name, kind)
                found[parameter.name] = make_value(next((key for key in keys if key in VALUES), keys[-1]))
        return found | SHORT.get(self.name, {})


def public_functions() -> list[PublicFunction]:
    """Every function of every room."""
    return [
        PublicFunction(f"{room}.{name}", value)
        for room in ROOMS
        for name in import_module(f"marey.{room}").__all__
        if inspect.isfunction(value := getattr(import_module(f"marey.{room}"), name))
        and f"{room}.{name}" not in SKIPPED
    ]


def find_nan(value: Any, depth: int = 5) -> bool:
    """Whether NaN is somewhere in a result."""
    if isinstance(value, float):
        return value != value
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fc" and bool(np.isnan(value).any())
    if depth == 0:
        return False
    if is_dataclass(value) and not isinstance(value, type):
        return any(find_nan(getattr(value, field.name, None), depth - 1) for field in fields(value))
    if isinstance(value, dict):
        return any(find_nan(item, depth - 1) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(find_nan(item, depth - 1) for item in value[:200])
    return False


def try_call(function: PublicFunction, values: dict[str, Any]) -> tuple[str, str]:
    """Verdict of one call, and what was said."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function.call(**values)
            if inspect.isgenerator(result):
                result = list(result)
    except MareyError as error:
        said = str(error)
        return ("long message", f"{len(said)} characters") if len(said) > 1000 else ("refused", said[:200])
    except MemoryError as error:
        return "memory", str(error)[:200]
    except Exception as error:
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        where = "" if at is None else f"{Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}"
        return "untyped", f"{type(error).__name__}: {str(error)[:120]} ({where})"
    return ("nan", "") if function.name not in NAN_ALLOWED and find_nan(result) else ("returned", "")


def plan_cases(function: PublicFunction) -> Iterator[tuple[str, int, Any]]:
    """Parameter, number and hostile value of every case."""
    for parameter in function.parameters():
        for number, value in enumerate(hostile_values(str(parameter.annotation))):
            yield parameter.name, number, value


def try_function(
    function: PublicFunction, rng: random.Random, share: float, deadline: float
) -> Iterator[dict[str, Any]]:
    """Outcomes of the hostile calls of a function; each is made in a child that may die."""
    try:
        right = function.right_values()
    except Exception as error:
        yield {"name": function.name, "verdict": "no right call", "said": f"{type(error).__name__}: {error}"[:200]}
        return
    # The right call comes first: where it takes too long, the others are not tried
    cases: list[Any] = [("", 0, None)]
    cases += rng.sample(hostile := [case for case in plan_cases(function) if rng.random() < share], len(hostile))
    at = 0
    while at < len(cases) and time.monotonic() < deadline:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(max(1, round(deadline - time.monotonic())))
            _run_cases(function, right, cases[at:], write)
        os.close(write)
        done = 0
        with os.fdopen(read) as answers:
            for line in answers:
                done += 1
                yield json.loads(line)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
            left = len(cases) - at - done
            yield {"name": f"{function.name} ({left} of {len(cases) - 1} calls)", "verdict": CUT, "said": ""}
            return
        if at + done < len(cases) and os.WIFSIGNALED(status):
            name, number, _ = cases[at + done]
            is_slow = os.WTERMSIG(status) == signal.SIGPROF
            verdict = f"over {PATIENCE_S} s" if is_slow else f"signal {os.WTERMSIG(status)}"
            if not name:
                yield {"name": function.name, "verdict": "no right call", "said": verdict}
                return
            yield {"name": function.name, "parameter": name, "case": number, "verdict": verdict, "said": ""}
            done += 1
        at += max(done, 1)


def _run_cases(function: PublicFunction, right: dict[str, Any], cases: list[Any], write: int) -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES, size + MEMORY_BYTES))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.chdir(folder())
    with os.fdopen(write, "w") as answers:
        for name, number, value in cases:
            signal.setitimer(signal.ITIMER_PROF, PATIENCE_S)
            verdict, said = try_call(function, right | ({name: value} if name else {}))
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            verdict = verdict if name or verdict in ("returned", "nan") else "no right call"
            print(
                json.dumps(
                    {"name": function.name, "parameter": name, "case": number, "verdict": verdict, "said": said}
                ),
                file=answers,
                flush=True,
            )
    os._exit(0)


def run(
    seed: int, seconds: float, share: float = 1.0, only: str = "", function_s: float = FUNCTION_S
) -> Iterator[dict[str, Any]]:
    """Outcomes of hostile calls, function by function in an order that the seed gives, until the time is up."""
    rng, deadline = random.Random(seed), time.monotonic() + seconds
    functions = [function for function in public_functions() if only in function.name]
    rng.shuffle(functions)
    for function in functions:
        if time.monotonic() > deadline:
            yield {"name": function.name, "verdict": CUT, "said": ""}
            continue
        yield from try_function(function, rng, share, min(deadline, time.monotonic() + function_s))
