"""Distance fields, charts, samples and meshes: closed forms that they must agree with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marey.base import FloatArray, InputError
from marey.kinematics import field_from_mesh
from marey.kinematics.limits.charts import LOG, ZYZ, RotationChart, sample_motion, split_inliers
from marey.kinematics.limits.distance_field import (
    FieldGrid,
    build_field,
    compute_unsigned_field,
    field_from_function,
    find_nearest_points,
    make_grid,
)
from marey.kinematics.limits.sculpt import LimitMesh, icosphere, load_obj
from marey.lie import SO3, geodesic_distance


def cube(count: int = 24, half: float = 1.0, periodic: bool = False) -> FieldGrid:
    spacing = 2.0 * np.pi / count if periodic else 2.0 * half / (count - 1)
    return FieldGrid([count] * 3, [0.0 if periodic else -half] * 3, [spacing] * 3, [periodic] * 3)


def ball(points: FloatArray, radius: float = 0.6) -> FloatArray:
    return np.linalg.norm(points, axis=1) - radius


# --- blending ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_plane_is_blended_exactly_and_so_is_its_slope(seed: int):
    rng = np.random.default_rng(seed)
    normal, shift = rng.normal(0.0, 1.0, 3), rng.normal()
    field = field_from_function(cube(7), lambda p: p @ normal + shift)
    points = rng.uniform(-0.99, 0.99, (500, 3))
    values, gradients = field.value_and_gradient(points)
    np.testing.assert_allclose(values, points @ normal + shift, atol=1e-12)
    np.testing.assert_allclose(gradients, np.tile(normal, (500, 1)), atol=1e-11)


def test_nodes_hold_their_values_and_gradients_agree_with_differences_between_them():
    rng, grid = np.random.default_rng(1), cube(9)
    field = field_from_function(grid, lambda p: np.sin(2.0 * p[:, 0]) + p[:, 1] * p[:, 2])
    np.testing.assert_allclose(field.value(grid.nodes()), field.values.ravel(), atol=1e-12)
    points, h = rng.uniform(-0.9, 0.9, (300, 3)), 1e-6
    inside = (np.abs((points - grid.origin) / grid.spacing % 1.0 - 0.5) < 0.49).all(axis=1)  # not across a face
    numeric = np.stack([(field.value(points + h * e) - field.value(points - h * e)) / (2 * h) for e in np.eye(3)], 1)
    np.testing.assert_allclose(field.value_and_gradient(points)[1][inside], numeric[inside], atol=1e-6)


@pytest.mark.parametrize("count", [12, 24, 48])
def test_the_error_of_a_ball_falls_with_the_square_of_the_spacing(count: int):
    points = np.random.default_rng(2).normal(0.0, 1.0, (2000, 3))
    points *= np.random.default_rng(3).uniform(0.3, 0.9, (2000, 1)) / np.linalg.norm(points, axis=1, keepdims=True)
    grid = cube(count)
    error = np.abs(field_from_function(grid, ball).value(points) - ball(points)).max()
    assert error <= 3.0 * grid.spacing[0] ** 2 / (8.0 * 0.3) * 1.01  # second derivative of a radius r is 1/r


def test_a_periodic_field_has_no_seam():
    field = field_from_function(cube(16, periodic=True), lambda p: np.cos(p).sum(axis=1))
    points = np.random.default_rng(4).uniform(0.0, 2.0 * np.pi, (300, 3))
    for turn in (2.0 * np.pi, -2.0 * np.pi):
        np.testing.assert_allclose(field.value(points + np.array([turn, 0.0, -turn])), field.value(points), atol=1e-9)
    seam = np.array([[2.0 * np.pi - 1e-9, 1.0, 1.0], [1e-9, 1.0, 1.0]])
    assert np.ptp(field.value(seam)) < 1e-6


# --- projection --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["plain", "newton"])
def test_points_outside_a_ball_go_to_its_surface_along_the_radius(method: str):
    field = field_from_function(cube(32), ball)
    rng = np.random.default_rng(5)
    points = rng.normal(0.0, 1.0, (1000, 3))
    points *= rng.uniform(0.65, 0.95, (1000, 1)) / np.linalg.norm(points, axis=1, keepdims=True)
    found = field.project(points, method=method)
    assert field.is_feasible(found).all()
    nearest = 0.6 * points / np.linalg.norm(points, axis=1, keepdims=True)
    h = float(field.grid.spacing[0])
    assert np.linalg.norm(found - nearest, axis=1).max() < 0.2 * h


def test_points_inside_stay_to_the_bit_and_projecting_twice_changes_nothing():
    field = field_from_function(cube(24), ball)
    inside = np.random.default_rng(6).uniform(-0.3, 0.3, (200, 3))
    np.testing.assert_array_equal(field.project(inside), inside)
    once = field.project(np.random.default_rng(7).uniform(-1.0, 1.0, (500, 3)))
    np.testing.assert_allclose(field.project(once), once, atol=1e-12)


def test_points_off_the_grid_come_back_too():
    field = field_from_function(cube(24), ball)
    assert field.is_feasible(field.project(np.random.default_rng(8).uniform(-9.0, 9.0, (300, 3)))).all()


# --- building ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [50, 3000])
@pytest.mark.parametrize("periodic", [False, True])
def test_the_unsigned_field_is_the_distance_to_the_nearest_sample(count: int, periodic: bool):
    """Both ways of building it, by brute force and by a tree, against plain numpy."""
    rng, grid = np.random.default_rng(9), cube(8, periodic=periodic)
    samples = rng.uniform(0.1, 6.0, (count, 3)) if periodic else rng.uniform(-0.8, 0.8, (count, 3))
    gap = samples[None] - grid.nodes()[:, None]
    if periodic:
        gap -= 2.0 * np.pi * np.round(gap / (2.0 * np.pi))
    np.testing.assert_allclose(
        compute_unsigned_field(grid, samples).ravel(), np.sqrt((gap**2).sum(axis=2).min(axis=1)), atol=1e-9
    )


def test_what_a_shell_encloses_is_feasible_when_filled_and_not_when_it_is_a_curve():
    shell = 0.6 * icosphere(4).vertices
    grid, middle = make_grid(shell, 20), np.zeros((1, 3))
    filled, curve = build_field(grid, shell), build_field(grid, shell, mode="curve")
    assert filled.is_closed and not curve.is_closed
    assert filled.is_feasible(middle).all() and not curve.is_feasible(middle).any()
    assert filled.value(middle)[0] < -0.5 and filled.feasible_share() > curve.feasible_share()


def test_a_margin_widens_the_set_by_as_much():
    rng = np.random.default_rng(10)
    line = np.stack([np.linspace(-0.5, 0.5, 200), np.zeros(200), np.zeros(200)], axis=1)
    grid = make_grid(line, 32, margin=0.3)
    field = build_field(grid, line, margin=0.3)
    ring = rng.normal(0.0, 1.0, (400, 2))
    ring /= np.linalg.norm(ring, axis=1, keepdims=True)
    along = rng.uniform(-0.4, 0.4, (400, 1))
    assert field.is_feasible(np.concatenate([along, 0.27 * ring], axis=1)).all()
    assert not field.is_feasible(np.concatenate([along, 0.36 * ring], axis=1)).any()


def test_grids_hold_their_samples_and_refuse_what_is_no_grid():
    samples = np.random.default_rng(11).uniform(-0.4, 0.9, (60, 3))
    grid = make_grid(samples, (8, 12, 16), margin=0.1)
    nodes = grid.nodes()
    assert (nodes.min(axis=0) <= samples.min(axis=0) - 0.1).all() and (
        nodes.max(axis=0) >= samples.max(axis=0) + 0.1
    ).all()
    assert len(nodes) == 8 * 12 * 16 and grid.half_diagonal == pytest.approx(0.5 * np.linalg.norm(grid.spacing))
    with pytest.raises(InputError, match="a resolution of"):
        make_grid(samples, 2)
    with pytest.raises(InputError, match="at most a turn"):
        make_grid(samples, 8, domain=[[0.0, 0.0, 0.0], [7.0, 1.0, 1.0]])
    with pytest.raises(InputError, match="from 1 samples"):
        build_field(grid, samples[:1])


def test_the_nearest_of_many_is_the_nearest():
    rng = np.random.default_rng(12)
    points, queries = rng.normal(0.0, 1.0, (200, 3)), rng.normal(0.0, 1.0, (50, 3))
    distances, indices = find_nearest_points(points, queries)
    every = np.linalg.norm(queries[:, None] - points[None], axis=2)
    np.testing.assert_array_equal(indices, every.argmin(axis=1))
    np.testing.assert_allclose(distances, every.min(axis=1), atol=1e-12)


# --- charts and samples ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [LOG, ZYZ])
def test_a_chart_gives_its_rotations_back(kind: int):
    rng = np.random.default_rng(13)
    chart = RotationChart(kind, SO3.random(rng), SO3.random(rng))
    middle = chart.rotations(np.array([[0.1, 1.2, 0.3]]))[0]
    rotations = middle @ SO3.exp(rng.uniform(-0.5, 0.5, (200, 3)))
    points = chart.coordinates(rotations)
    assert geodesic_distance(chart.rotations(points), rotations).max() < 1e-7
    np.testing.assert_allclose(chart.coordinates(chart.rotations(points)), points, atol=1e-7)


def test_samples_are_near_neighbours_keep_every_frame_and_lie_on_the_way():
    rng = np.random.default_rng(14)
    frames = SO3.exp(np.cumsum(rng.normal(0.0, 0.15, (40, 3)), axis=0) * 0.5)
    chart = RotationChart(LOG, SO3.identity(), SO3.identity())
    sampled = sample_motion([frames], chart, 0.02)
    assert sampled.gaps.max() <= 0.02 and sampled.num_discontinuities == 0 and not sampled.is_bridge.any()
    distances, _ = find_nearest_points(sampled.points, chart.coordinates(frames))
    assert distances.max() == 0.0


def test_two_clips_are_joined_where_they_are_nearest():
    chart, t = RotationChart(LOG, SO3.identity(), SO3.identity()), np.linspace(0.0, 0.5, 30)
    first = SO3.exp(np.stack([t, 0 * t, 0 * t], axis=1))
    second = SO3.exp(np.stack([0.5 - t, 0.2 + t, 0 * t], axis=1))  # begins nearest to where the first ends
    sampled = sample_motion([first, second], chart, 0.05)
    bridge = sampled.points[sampled.is_bridge]
    assert sampled.longest_bridge_rad == pytest.approx(geodesic_distance(first[-1], second[0]), abs=0.02)
    assert (bridge[:, 1] >= -1e-9).all() and (bridge[:, 1] <= 0.21).all() and bridge[:, 0].min() > 0.4


@pytest.mark.parametrize("length", [1, 5, 12])
def test_a_short_piece_between_two_jumps_is_dropped(length: int):
    turns = np.zeros((100, 3))
    turns[:, 0] = np.linspace(0.0, 0.5, 100)
    turns[40 : 40 + length, 1] = 2.0
    kept, jumps = split_inliers([SO3.exp(turns)])
    assert jumps == 2 and [len(piece) for piece in kept] == [40, 60 - length]
    assert split_inliers([SO3.exp(turns[:40])])[1] == 0


# --- meshes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [0, 1, 2, 3])
def test_an_icosphere_is_a_closed_sphere(cuts: int):
    sphere = icosphere(cuts)
    sphere.check()
    assert len(sphere.faces) == 20 * 4**cuts and len(sphere.vertices) == 10 * 4**cuts + 2
    assert sphere.euler_characteristic() == 2
    np.testing.assert_allclose(np.linalg.norm(sphere.vertices, axis=1), 1.0, atol=1e-12)
    a, b, c = (sphere.vertices[sphere.faces[:, i]] for i in range(3))
    assert (np.einsum("ni,ni->n", np.cross(b - a, c - a), a + b + c) > 0.0).all()  # faces look outwards
    volume = np.einsum("ni,ni->n", a, np.cross(b, c)).sum() / 6.0
    assert 0.6 * 4.18879 < volume < 4.18879


def test_the_distance_to_a_cube_is_the_closed_form():
    corners = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    box = LimitMesh(corners, np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))]))
    box.check()
    points = np.random.default_rng(15).uniform(-2.0, 2.0, (600, 3))
    over = np.abs(points) - 1.0
    exact = np.linalg.norm(np.maximum(over, 0.0), axis=1) + np.minimum(over.max(axis=1), 0.0)
    np.testing.assert_allclose(box.distance(points), exact, atol=1e-9)


def test_a_field_from_a_mesh_is_its_distance_at_the_nodes():
    sphere, grid = icosphere(2), cube(10, 1.5)
    np.testing.assert_allclose(field_from_mesh(sphere, grid).values.ravel(), sphere.distance(grid.nodes()), atol=1e-12)


def test_a_mesh_survives_its_file_and_broken_ones_are_refused(tmp_path: Path):
    sphere = icosphere(1)
    sphere.save_obj(tmp_path / "sphere.obj")
    back = load_obj(tmp_path / "sphere.obj")
    np.testing.assert_allclose(back.vertices, sphere.vertices, atol=1e-8)
    np.testing.assert_array_equal(back.faces, sphere.faces)
    with pytest.raises(InputError, match="not closed"):
        LimitMesh(sphere.vertices, sphere.faces[1:]).check()
    with pytest.raises(InputError, match="does not exist"):
        LimitMesh(sphere.vertices[:-1], sphere.faces)
    with pytest.raises(InputError, match="passes through itself"):
        sphere.moved(lambda v: np.where(np.arange(len(v))[:, None] == 0, -3.0 * v, v))
