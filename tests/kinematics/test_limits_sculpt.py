"""Sculpted limits: surfaces out of fields, edited, and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marey.base import FloatArray, FormatError, InputError, MissingFileError
from marey.kinematics import iso_surface, resculpt_joint, shrink_wrap
from marey.kinematics.limits.distance_field import build_field, field_from_function, make_grid
from marey.kinematics.limits.sculpt import LimitMesh, field_from_mesh, icosphere, load_obj
from marey.kinematics.limits.sdf import SdfLimits
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import Skeleton

STICK = Skeleton(("root", "arm"), np.array([-1, 0]), np.array([[0, 0, 0], [0, 1, 0]]))
GRID = make_grid(np.zeros((2, 3)), 16, domain=[[-2.0] * 3, [2.0] * 3])


def two_spheres(points: FloatArray) -> FloatArray:
    a = np.linalg.norm(points - [-0.6, 0.0, 0.0], axis=1) - 0.8
    return np.minimum(a, np.linalg.norm(points - [0.6, 0.2, 0.0], axis=1) - 0.7)


def torus(points: FloatArray) -> FloatArray:
    ring = np.hypot(points[:, 0], points[:, 1]) - 1.1
    return np.hypot(ring, points[:, 2]) - 0.45


def is_closed(mesh: LimitMesh) -> bool:
    pairs = np.sort(mesh.faces[:, [[0, 1], [1, 2], [2, 0]]], axis=-1).reshape(-1, 2)
    return bool(np.all(np.unique(pairs, axis=0, return_counts=True)[1] == 2))


@pytest.mark.parametrize(("shape", "characteristic"), [(two_spheres, 2), (torus, 0)])
def test_iso_surfaces_are_closed_and_on_the_level(shape: object, characteristic: int) -> None:
    mesh = iso_surface(field_from_function(GRID, shape), 0.0)  # type: ignore[arg-type]
    assert is_closed(mesh) and mesh.euler_characteristic() == characteristic
    mesh.check()
    away = np.abs(shape(mesh.vertices))  # type: ignore[operator]
    assert np.quantile(away, 0.95) < 0.15 * GRID.largest_spacing
    assert away.max() < 0.5 * GRID.largest_spacing  # in the crease, which the grid cannot hold


def test_a_surface_that_meets_the_border_is_closed_there() -> None:
    everywhere = field_from_function(GRID, lambda points: points[:, 0] - 0.3)
    mesh = iso_surface(everywhere)
    assert is_closed(mesh) and mesh.euler_characteristic() == 2


def test_the_distance_of_a_mesh_is_that_of_its_sphere() -> None:
    sphere, points = icosphere(4), np.random.default_rng(0).uniform(-2.0, 2.0, (300, 3))
    assert len(icosphere().vertices) == 642
    np.testing.assert_allclose(sphere.distance(points), np.linalg.norm(points, axis=1) - 1.0, rtol=0, atol=0.004)


@pytest.mark.parametrize("seed", range(2))
def test_engell_35_wrapped_surfaces_are_manifolds_that_hold_the_samples(seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = rng.uniform(-2.0, 2.0, (3000, 3))
    samples = samples[two_spheres(samples) < 0.0]
    field = build_field(GRID, samples) if seed else field_from_function(GRID, two_spheres)
    mesh = shrink_wrap(field, samples)
    assert len(mesh.vertices) >= 642
    assert is_closed(mesh) and mesh.euler_characteristic() % 2 == 0
    mesh.check()
    assert np.mean(mesh.distance(samples) <= 1e-9) >= 0.995
    again = field_from_mesh(mesh, GRID)
    assert np.mean(again.is_feasible(samples)) >= 0.995
    points = rng.uniform(-1.9, 1.9, (2000, 3))
    assert np.abs(again.value(points) - mesh.distance(points)).max() <= 0.5 * GRID.largest_spacing


def test_an_edited_surface_becomes_the_new_limit_of_the_joint() -> None:
    t = np.linspace(0.0, 6.0, 120)
    arm = SO3.exp(np.stack([0.6 * np.sin(3.0 * t), 0.4 * np.cos(5.0 * t), 0.3 * np.sin(7.0 * t)], axis=1))
    motion = Motion(STICK, 30.0, np.zeros((120, 3)), SO3.stack([SO3.identity(120), arm], axis=1))
    limits = SdfLimits.from_clips(motion)
    joint = limits.of("arm")
    mesh = shrink_wrap(joint.field, joint.chart.coordinates(arm))
    wider = mesh.moved(lambda v: v.mean(axis=0) + 1.3 * (v - v.mean(axis=0)))
    sculpted = limits.replace_joint("arm", resculpt_joint(joint, wider, resolution=32))
    assert sculpted.violations(motion.rotations).max() < 1e-9
    probe = joint.chart.rotations(mesh.vertices.mean(axis=0) + 1.1 * (mesh.vertices - mesh.vertices.mean(axis=0)))
    frames = SO3.stack([SO3.identity(len(probe)), probe], axis=1)
    assert np.mean(sculpted.violations(frames)[:, 1] == 0.0) > 0.98
    assert np.mean(limits.violations(frames)[:, 1] > 0.0) > 0.5


def test_broken_edits_are_refused_with_their_faces() -> None:
    sphere = icosphere(1)
    with pytest.raises(InputError, match="not closed"):
        LimitMesh(sphere.vertices, sphere.faces[1:]).check()
    vertices = sphere.vertices.copy()
    vertices[0] = -2.0 * vertices[0]  # a corner pulled out through the other side
    with pytest.raises(InputError, match="passes through itself at faces"):
        LimitMesh(vertices, sphere.faces).check()
    with pytest.raises(InputError, match="does not exist"):
        LimitMesh(sphere.vertices[:3], sphere.faces)


def test_surfaces_go_to_obj_files_and_back(tmp_path: Path) -> None:
    sphere, file = icosphere(2), tmp_path / "limit.obj"
    sphere.save_obj(file)
    back = load_obj(file)
    np.testing.assert_allclose(back.vertices, sphere.vertices, atol=1e-8)
    assert np.array_equal(back.faces, sphere.faces)
    file.write_text("v 0 0 0\nv 1 x 0\n")
    with pytest.raises(FormatError, match=r"limit\.obj:2"):
        load_obj(file)
    file.write_text("v 0 0 0\nf 1 1 1 1\n")
    with pytest.raises(FormatError, match="no triangle"):
        load_obj(file)
    with pytest.raises(MissingFileError):
        load_obj(tmp_path / "none.obj")
