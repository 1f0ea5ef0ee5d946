"""Cells only save work: pictures must not depend on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.picture import CapsuleBatch, GroundMarks, GroundPattern, PinholeCamera, RenderScene, render
from marey.picture import capsules as renderer
from marey.picture.capsules import fill_grid
from marey.picture.surfaces import CellGrid, cell_span, hit_cone, pixel_ray

SIZE = (160, 100)


def crowd(seed: int, count: int = 14) -> RenderScene:
    """Random capsules and marks over a ground, seen from somewhere."""
    rng = np.random.default_rng(seed)
    starts = rng.uniform([-1, 0.1, -1], [1, 1.5, 1], (count, 3))
    ends = starts + rng.normal(0.0, 0.4, (count, 3))
    radii = rng.uniform(0.03, 0.2, (2, count))
    solids = CapsuleBatch(starts, ends, radii[0], radii[1], rng.uniform(0.1, 0.8, (count, 3)))
    spots = rng.uniform(-1.5, 1.5, (2, 6, 2))
    marks = GroundMarks(*spots, np.full(6, 0.05), np.full(6, 0.1), rng.uniform(0, 1, (6, 3)), np.full(6, 0.7))
    return RenderScene(
        PinholeCamera(rng.uniform([-3, 0.5, 3], [3, 3, 5]), [0, 0.6, 0], fov_rad=0.7), solids, marks, GroundPattern()
    )


@pytest.mark.parametrize("seed", range(6))
def test_pictures_are_the_same_with_one_cell_for_everything(seed, monkeypatch):
    scene = crowd(seed)
    fine = render(scene, SIZE)
    monkeypatch.setattr(renderer, "TILE_PX", 1000)
    monkeypatch.setattr(renderer, "CELL_M", 1000.0)
    assert len(np.unique(fine)) > 100
    np.testing.assert_array_equal(render(scene, SIZE), fine)


@pytest.mark.parametrize("seed", range(4))
def test_every_body_a_ray_meets_is_in_its_tile(seed):
    scene = crowd(seed)
    packed = renderer.pack_scene(scene, SIZE)
    rng = np.random.default_rng(seed)
    hits = 0
    for u, v in rng.uniform([0, 0], SIZE, (1500, 2)):
        d = np.array(pixel_ray(packed.view.eye, u, v))
        d /= np.linalg.norm(d)
        met = {
            i
            for i in range(len(packed.cones))
            if np.isfinite(hit_cone(packed.cones, i, packed.view.eye.position, tuple(d)))
        }
        begin, end = cell_span(packed.view.grids.on_screen, packed.starts, np.floor(u), np.floor(v))
        assert met <= set(packed.items[begin:end].tolist())
        hits += len(met)
    assert hits > 100


@given(seed=st.integers(0, 1000))
def test_a_grid_lists_each_rectangle_in_just_the_cells_it_touches(seed):
    rng = np.random.default_rng(seed)
    low = rng.uniform(-1.0, 5.0, (20, 2))
    high = low + rng.uniform(0.0, 2.0, (20, 2))
    starts, items = fill_grid(0.0, 0.0, 2.0, 8, 6, low, high)  # cells of 0.5
    grid = CellGrid(0.0, 0.0, 2.0, 8, 6, 0)
    for row in range(6):
        for column in range(8):
            x, y = 0.5 * column, 0.5 * row
            touching = (low[:, 0] < x + 0.5) & (high[:, 0] >= x) & (low[:, 1] < y + 0.5) & (high[:, 1] >= y)
            begin, end = cell_span(grid, starts, x + 0.25, y + 0.25)
            assert items[begin:end].tolist() == np.flatnonzero(touching).tolist()
    assert cell_span(grid, starts, -0.1, 1.0) == (0, 0) and cell_span(grid, starts, 1.0, 3.01) == (0, 0)


@given(x=st.floats(-2, 2), y=st.floats(-2, 2), z=st.floats(1.0, 6.0), radius=st.floats(0.05, 0.9))
def test_the_bounds_of_a_ball_on_the_picture_touch_its_outline(x, y, z, radius):
    centre = np.array([[x, y, z]])
    low, high = renderer._ball_bounds(centre, np.array([radius]))
    rng = np.random.default_rng(0)
    around = rng.normal(size=(20_000, 3))
    surface = centre + radius * around / np.linalg.norm(around, axis=1, keepdims=True)
    slopes = surface[:, :2] / surface[:, 2:]
    assert (slopes >= low - 1e-9).all() and (slopes <= high + 1e-9).all()
    reach = high - low
    np.testing.assert_allclose(slopes.min(axis=0), low[0], atol=0.02 * reach.max())
    np.testing.assert_allclose(slopes.max(axis=0), high[0], atol=0.02 * reach.max())
