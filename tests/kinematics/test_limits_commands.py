"""Limits sculpted, exported, imported and used by the command alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from marey.cli.app import app
from marey.io import load, save
from marey.kinematics import build_solid, draw_joint, iso_surface, load_limits
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import HUMAN


def gymnast() -> Motion:
    """A clip in which the left shoulder moves about three axes, the knee about one and the ankle about two."""
    t = np.linspace(0.0, 8.0, 240)
    turns = np.zeros((len(t), HUMAN.num_joints, 3))
    turns[:, HUMAN.index("left_shoulder")] = np.stack(
        [0.5 * np.sin(3 * t), 0.8 * np.sin(t), 0.9 * np.cos(2 * t)], axis=1
    )
    turns[:, HUMAN.index("left_knee"), 0] = 0.6 + 0.6 * np.sin(2 * t)
    turns[:, HUMAN.index("left_ankle"), :2] = 0.3 * np.stack([np.sin(t), np.cos(3 * t)], axis=1)
    return Motion(HUMAN, 30.0, np.tile(HUMAN.offsets[0], (len(t), 1)), SO3.exp(turns), name="gymnast")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("limits")
    save(gymnast(), folder / "clip.bvh")
    run(folder, "limits", "fit", "clip.bvh", "-o", "learnt.safetensors", "--kind", "sdf", "--resolution", "12")
    return folder


def run(folder: Path, *words: str, exit_code: int = 0) -> dict[str, object]:
    paths = [
        str(folder / word) if Path(word).suffix in (".bvh", ".safetensors", ".obj", ".csv") else word for word in words
    ]
    result = CliRunner().invoke(app, [*paths, "--json"])
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.parametrize("joint", ["left_shoulder", "left_knee", "left_ankle"])
def test_the_surface_of_every_kind_of_joint_is_read_back(folder: Path, joint: str) -> None:
    """Ball, hinge and two axes: export and import give the same set but for a cell."""
    run(folder, "limits", "export", "learnt.safetensors", joint, "-o", "joint.obj", "--exact")
    run(folder, "limits", "import", "learnt.safetensors", joint, "joint.obj", "-o", "again.safetensors")
    motion = load(folder / "clip.bvh")
    rotations, j = motion.rotations, motion.skeleton.index(joint)
    before, after = (load_limits(folder / name) for name in ("learnt.safetensors", "again.safetensors"))
    assert before.violations(rotations)[:, j].max() < 1e-9
    assert np.mean(after.violations(rotations)[:, j] < 0.05) >= 0.995
    far = rotations @ SO3.exp([0.9, 0.9, 0.0])
    assert after.violations(far)[:, j].max() > 0.2


def test_a_shoulder_and_a_knee_are_sculpted_saved_read_and_used(folder: Path) -> None:
    """A brush lets the knee bend 40 degrees further; a polygon draws the shoulder; IK keeps both."""
    corners = "x,y,z,twist_low_deg,twist_high_deg\n1,1,0,-30,30\n1,0,1,-60,60\n1,-1,0,-30,30\n1,0,-0.5,-10,10\n"
    (folder / "shoulder.csv").write_text(corners)
    learnt = load_limits(folder / "learnt.safetensors")
    knee, shoulder = (learnt.skeleton.index(joint) for joint in ("left_knee", "left_shoulder"))
    bent = SO3.identity(1, HUMAN.num_joints).wxyz.copy()
    bent[0, knee] = SO3.exp([np.deg2rad(95.0), 0.0, 0.0]).wxyz
    assert learnt.violations(SO3(bent))[0, knee] > 0.3
    words = ("limits", "sculpt", "learnt.safetensors", "left_knee", "-o", "knee.safetensors")
    run(folder, *words, "--brush", "80,0,0,60,45")
    assert load_limits(folder / "knee.safetensors").violations(SO3(bent))[0, knee] < 0.02
    words = ("limits", "sculpt", "knee.safetensors", "left_shoulder", "-o", "both.safetensors")
    run(folder, *words, "--polygon", "shoulder.csv")
    both = load_limits(folder / "both.safetensors")
    goal = "left_wrist=0.6,1.5,0.3"
    words = ("ik", "clip.bvh", "--frame", "0", "--task", goal, "--limits", "both.safetensors", "-o", "pose.bvh")
    paths = [str(folder / word) if word.endswith((".bvh", ".safetensors")) else word for word in words]
    # The goal is out of reach of what was drawn: it is said, and the nearest pose inside is written all the same
    said = CliRunner().invoke(app, paths)
    assert said.exit_code in (0, 1) and "STALLED" not in said.output
    pose = load(folder / "pose.bvh").rotations
    assert both.violations(pose)[:, [knee, shoulder]].max() < 1e-4


def test_a_drawn_surface_is_the_same_set_in_another_file(folder: Path) -> None:
    """A drawn set has a chart of its own, which goes with the surface."""
    (folder / "drawn.csv").write_text(
        "x,y,z,twist_low_deg,twist_high_deg\n1,1,0,-30,30\n1,0,1,-60,60\n1,-1,0,-30,30\n1,0,-0.5,-10,10\n"
    )
    joint = "left_shoulder"
    run(folder, "limits", "sculpt", "learnt.safetensors", joint, "-o", "d.safetensors", "--polygon", "drawn.csv")
    run(folder, "limits", "export", "d.safetensors", joint, "-o", "drawn.obj")
    run(folder, "limits", "import", "learnt.safetensors", joint, "drawn.obj", "-o", "e.safetensors")
    turns = SO3.exp(np.random.default_rng(4).normal(0.0, 0.6, (1000, HUMAN.num_joints, 3)))
    drawn, moved = (
        load_limits(folder / name).violations(turns)[:, HUMAN.index(joint)]
        for name in ("d.safetensors", "e.safetensors")
    )
    assert np.abs(drawn - moved).mean() < 0.1 < np.abs(drawn - drawn.mean()).mean()
    assert np.mean((drawn == 0.0) == (moved == 0.0)) > 0.95


def test_a_polygon_has_its_own_twist_at_every_corner() -> None:
    corners = np.array([[1.0, 0.8, 0.0], [1.0, 0.0, 0.8], [1.0, -0.8, 0.0], [1.0, 0.0, -0.8]])
    drawn = draw_joint(HUMAN, "left_shoulder", corners, np.deg2rad([[-5, 5], [-80, 80], [-5, 5], [-5, 5]]))
    twist = SO3.exp([np.deg2rad(50.0), 0.0, 0.0])
    up, forward = (SO3.from_two_vectors([1.0, 0.0, 0.0], corner) @ twist for corner in corners[:2] * [1.0, 0.7, 0.7])
    values = drawn.field.value(drawn.chart.coordinates(SO3.stack([up, forward])))
    assert values[0] > 0.2 and values[1] < 0.0


def test_engell_35_surfaces_of_learnt_joints_are_manifolds_that_hold_the_samples(folder: Path) -> None:
    """Of joints of three, two and one axes; the surface of a field that was read from it lies within half a cell."""
    limits = load_limits(folder / "learnt.safetensors")
    for joint in ("left_shoulder", "left_ankle", "left_knee"):
        field = limits.of(joint)  # type: ignore[attr-defined]
        solid = build_solid(field)
        mesh = iso_surface(solid)
        mesh.check()
        assert mesh.euler_characteristic() % 2 == 0
        samples = field.chart.coordinates(load(folder / "clip.bvh").rotations[:, limits.skeleton.index(joint)])
        assert np.mean(mesh.distance(samples) <= 1e-6) >= 0.995
