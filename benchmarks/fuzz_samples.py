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


def save_graph() -> Path:
    """File of a small motion graph."""
    marey.graph.save_graph(marey.samples.demo_graph(), folder() / "saved-graph.safetensors")
    return folder() / "saved-graph.safetensors"


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


def make_blend_sources() -> Any:
    """Two phases of a jump in one frame."""
    from marey.blending import BlendSource, align_phase

    first, second = make_phases()[0], make_phases()[0]
    body = marey.Body.from_skeleton(first.motion.skeleton)
    return [BlendSource.from_motion(p.motion, body, p.feet) for p in (first, align_phase(second, first))]


def make_control_problem() -> Any:
    """Torques of four joints that push one mass each, without contacts."""
    from marey.control.problem import ControlProblem

    count, none = 10, np.zeros(0)
    goals = 2.0 * np.eye(count), -np.ones(count)
    return ControlProblem(
        np.eye(count), np.ones(count), np.zeros((0, count)), none, none > 0.0, *goals, np.full(count - 6, 6.0)
    )


def make_spring_problem() -> Any:
    """Two masses on a spring, one of which is to be somewhere after four steps."""
    from marey.muscle import OptimalControlProblem, StateGoal, make_network

    system = make_network([1.0, 1.0], [[0, 1]], [1.0])
    start = np.zeros(system.num_states)
    start[3] = 1.0
    return OptimalControlProblem(system, start, 4, [StateGoal(4, start + 0.01)], effort=0.01)


def make_soft_arm() -> Any:
    """A soft arm of few cells."""
    return marey.muscle.make_soft_arm(counts=(2, 6, 2))


class Bowl:
    """A nonlinear programme: least squares of two variables under one linear row."""

    lower, upper = np.full(2, -5.0), np.full(2, 5.0)
    row_lower, row_upper, is_linear = np.ones(1), np.ones(1), np.ones(1, dtype=bool)

    def values(self, x: Any) -> Any:
        """Objective and row."""
        return float(x @ x), np.array([x.sum()])

    def derivatives(self, x: Any) -> Any:
        """Gradient, Hessian and Jacobian."""
        from scipy.sparse import csc_array

        return 2.0 * x, csc_array(2.0 * np.eye(2)), csc_array(np.ones((1, 2)))

    def row_name(self, index: int) -> str:
        """The row in words."""
        return f"sum {index}"


def write_ground_table() -> Path:
    """A table of the force under one foot."""
    columns = ["time", *(f"ground_force_{part}{axis}" for part in ("v", "p") for axis in "xyz")]
    columns += [f"ground_torque_{axis}" for axis in "xyz"]
    rows = [[0.01 * n, 0.0, 700.0, *(0.0,) * 7] for n in range(20)]
    lines = ["grf.mot", f"nRows={len(rows)}", f"nColumns={len(columns)}", "inDegrees=no", "endheader"]
    lines += ["\t".join(columns), *("\t".join(map(str, row)) for row in rows)]
    return write_text("grf.mot", "\n".join(lines) + "\n")


def save_walks() -> Path:
    """A folder with a walk and a stand of one person."""
    home = folder() / "people"
    if not home.is_dir():
        home.mkdir()
        for name, speed in (("walk", 1.2), ("stand", 0.0)):
            moved = marey.locomotion.Engine(style="35", speed=speed, plants=False).run(4.0)
            marey.save(moved, home / f"{name}.bvh")
    return home
