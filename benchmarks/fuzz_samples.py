"""Small things that right calls are made with: clips, problems, files, views."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import marey


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


def make_phases() -> Any:
    """Phases of a jump."""
    from marey.blending import cut_phases

    return cut_phases(jump())


def make_tree() -> Any:
    """Joint tree of a person at monkey bars."""
    from marey.dynamics import JointTree
    from marey.spacetime import build_character

    del JointTree
    return build_character(marey.spacetime.load_problem("monkey-bars"))


def make_joint_field() -> Any:
    """Field of limits of a shoulder."""
    from marey.kinematics import draw_joint

    return draw_joint(marey.HUMAN, "left_shoulder", CORNERS, np.tile([-0.5, 0.5], (len(CORNERS), 1)), resolution=8)


def make_mesh() -> Any:
    """Mesh of that field."""
    from marey.kinematics import build_solid, iso_surface

    return iso_surface(build_solid(make_joint_field()))


def load_bars() -> Any:
    """The problem of the monkey bars."""
    return marey.spacetime.load_problem("monkey-bars")


def load_sketch() -> Any:
    """A straight sketch."""
    return marey.Sketch.load(marey.samples.sketch_file("straight"))


def save_model() -> Path:
    """File of a pose model."""
    marey.PGA(n_components=3).fit(walk()).save(folder() / "model.safetensors")
    return folder() / "model.safetensors"


def write_text(name: str, text: str) -> Path:
    """A file with a text."""
    (folder() / name).write_text(text, encoding="utf-8")
    return folder() / name


def save_walk(name: str) -> Path:
    """File of the walk."""
    marey.save(walk(), folder() / name)
    return folder() / name


def make_markers() -> Any:
    """Joints of the walk as markers."""
    positions = walk().joint_positions()
    return marey.motion.Markers(marey.HUMAN.names, 60.0, positions, np.ones(positions.shape[:2], dtype=np.bool_))


def make_camera() -> Any:
    """A camera four metres in front."""
    return marey.tracking.Camera(np.array([0.0, 1.0, 4.0]), np.array([0.0, 1.0, 0.0]))


def make_views() -> Any:
    """Wrists as one camera sees them."""
    pixels = np.full((10, 2, 2), 100.0)
    camera, seen = make_camera(), np.ones((10, 2), dtype=np.bool_)
    return [marey.tracking.Observations(camera, 30.0, ("left_wrist", "right_wrist"), pixels, seen)]


def make_keys() -> Any:
    """Two key poses."""
    return marey.motion.KeyFrames(marey.HUMAN, {0.0: walk()[0], 0.5: walk()[30]})


def make_layer() -> Any:
    """A layer of one key."""
    key = marey.motion.LayerKey(0.3, "left_elbow", rotation=np.array([0.8, 0.6, 0.0, 0.0]))
    return marey.motion.Layer((key,))


def make_recipe() -> Any:
    """A recipe of one tool."""
    return marey.pipeline.parse_recipe('version = 1\ntool = "clean"\n[inputs]\ntake = "walk"\n')


def make_reaction() -> Any:
    """A second of a standing load."""
    count = 60
    forces = np.zeros((count, 1, 3))
    forces[:, :, 1] = 700.0
    return marey.io.GroundReaction(
        ("left",), np.arange(count) / 60.0, forces, np.zeros((count, 1, 3)), np.zeros((count, 1, 3))
    )


def make_triangle() -> Any:
    """A mesh of one triangle."""
    return marey.picture.TriangleMesh(np.eye(3), np.array([[0, 1, 2]]), np.ones((3, 3)))


def make_wave(count: int = 100) -> Any:
    """Heights of a wave."""
    return 0.05 + 0.05 * np.sin(np.linspace(0.0, 12.0, count))


CORNERS = [[1.0, 0.5, 0.0], [1.0, 0.0, 0.5], [1.0, -0.5, 0.0], [1.0, 0.0, -0.5]]  # directions of the bone
