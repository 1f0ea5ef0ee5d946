"""Triangles in pictures: what covers what, where shadows fall."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import InputError
from marey.picture import GroundPattern, PinholeCamera, RenderScene, TriangleMesh, render_mesh, save_pictures
from marey.picture.scene import Light

SIZE = (80, 60)
RED, BLUE = np.array([0.8, 0.05, 0.05]), np.array([0.05, 0.05, 0.8])
FRONT = PinholeCamera(np.array([0.0, 0.0, 5.0]), np.zeros(3), np.deg2rad(30.0))


def square(half: float, z: float, colour: np.ndarray) -> TriangleMesh:
    corners = np.array([[-half, -half, z], [half, -half, z], [half, half, z], [-half, half, z]])
    return TriangleMesh(corners, np.array([[0, 1, 2], [0, 2, 3]]), np.tile(colour, (4, 1)))


def test_a_square_covers_the_pixels_that_the_pinhole_says():
    image = render_mesh(RenderScene(FRONT, ground=None), square(0.5, 0.0, RED), SIZE)
    covered = image[..., 1] < 200
    side = 2 * 0.5 * FRONT.pixels_per_tangent(SIZE[1]) / 5.0
    assert covered.sum() == pytest.approx(side**2, rel=0.1)
    assert (image[0, 0] == 255).all()


def test_what_is_nearer_hides_what_is_farther_in_any_order():
    near, far = square(0.3, 0.5, RED), square(0.6, 0.0, BLUE)
    for parts in ([near, far], [far, near]):
        image = render_mesh(RenderScene(FRONT, ground=None), TriangleMesh.join(parts), SIZE)
        middle, side = image[30, 40].astype(int), image[30, 30].astype(int)
        assert middle[0] > middle[2] + 50
        assert side[2] > side[0] + 50


def test_both_sides_of_a_sheet_are_drawn_alike():
    sheet = square(0.5, 0.0, RED)
    turned = TriangleMesh(sheet.vertices, sheet.faces[:, ::-1], sheet.colours)
    pictures = [render_mesh(RenderScene(FRONT, ground=None), mesh, SIZE).astype(int) for mesh in (sheet, turned)]
    assert np.abs(pictures[0] - pictures[1]).max() <= 1


def test_a_ball_shades_the_ground_away_from_the_lamp():
    ball = TriangleMesh.capsule((0.0, 0.5, 0.0), (0.0, 0.5, 0.0001), (0.2, 0.2), RED)
    above = PinholeCamera(np.array([0.0, 6.0, 0.01]), np.zeros(3), np.deg2rad(30.0))
    ground = GroundPattern(checker=0.0, line_width_m=0.0)
    scene = RenderScene(above, ground=ground, light=Light(np.array([1.0, 1.0, 0.0])))
    lit, empty = render_mesh(scene, ball, SIZE).astype(int), render_mesh(scene, TriangleMesh.join([]), SIZE).astype(int)
    pixels = above.project(np.array([[-0.5, 0.0, 0.0], [0.8, 0.0, 0.0]]), SIZE)[:, :2].astype(int)
    (sx, sy), (ox, oy) = pixels
    assert lit[sy, sx].sum() < empty[sy, sx].sum() - 60
    assert abs(lit[oy, ox].sum() - empty[oy, ox].sum()) <= 6


def test_a_capsule_is_closed_and_has_its_volume():
    mesh = TriangleMesh.capsule((0.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.3, 0.3), RED)
    p, f = mesh.vertices, mesh.faces
    volume = np.einsum("fi,fi->", np.cross(p[f[:, 0]], p[f[:, 1]]), p[f[:, 2]]) / 6.0
    assert volume == pytest.approx(np.pi * 0.09 * (1.0 + 4.0 / 3.0 * 0.3), rel=0.05)
    outward = mesh.normals() @ np.array([0.0, 0.0, 1.0])
    assert outward[p[:, 2] > 1.2].min() > 0.5


def test_meshes_that_cannot_be_are_refused():
    with pytest.raises(InputError, match="vertex 7"):
        TriangleMesh(np.zeros((3, 3)), np.array([[0, 1, 7]]), np.zeros((3, 3)))


def test_pictures_of_ones_own_become_a_film(tmp_path):
    from PIL import Image

    def draw(number: int) -> np.ndarray:
        return np.full((20, 30, 3), 40 * number, dtype=np.uint8)

    with Image.open(save_pictures(draw, 4, tmp_path / "film.gif", fps=10.0)) as film:
        assert film.n_frames == 4 and film.size == (30, 20)
