"""The ground's closed forms against plain averages over many samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.picture import GroundMarks, GroundPattern, PinholeCamera, RenderScene
from marey.picture.capsules import encode_srgb, pack_scene
from marey.picture.scene import linear_from_srgb
from marey.picture.surfaces import (
    PackedGround,
    draw_marks,
    ground_pattern,
    ground_pixel_size,
    ground_visibility,
    pixel_ray,
)

SIZE = (200, 120)
places = st.floats(-3.0, 3.0)
widths = st.floats(0.002, 1.7)


def floor_of(**options) -> PackedGround:
    options = {"colour": np.full(3, 0.8), "line_colour": np.full(3, 0.2)} | options
    return pack_scene(
        RenderScene(PinholeCamera([0, 1, 4], [0, 1, 0]), ground=GroundPattern(**options)), SIZE
    ).view.floor


def middles(x, width, count=400):
    return x + width * ((np.arange(count) + 0.5) / count - 0.5)


@given(x=places, z=places, wx=widths, wz=widths)
def test_the_checker_is_averaged_over_a_pixel(x, z, wx, wz):
    floor = floor_of(checker=0.5, line_width_m=0.0, square_m=0.5)
    xs, zs = np.meshgrid(middles(x, wx), middles(z, wz))
    # the pattern: squares of alternating sign, centred on the multiples of the side
    sign = np.where(np.mod(xs / 0.5, 2.0) < 1.0, 1.0, -1.0) * np.where(np.mod(zs / 0.5, 2.0) < 1.0, 1.0, -1.0)
    brute = 0.8 * (1.0 - 0.5 * (0.5 - 0.5 * sign.mean()))
    assert ground_pattern(floor, x, z, wx, wz)[0] == pytest.approx(brute, abs=0.01)


@given(x=places, z=places, wx=st.floats(0.002, 0.8), wz=st.floats(0.002, 0.8))
def test_lines_cover_their_share_of_a_pixel(x, z, wx, wz):
    floor = floor_of(checker=0.0, line_width_m=0.06, square_m=0.5)  # a line every metre
    on_x = np.abs(middles(x, wx) - np.round(middles(x, wx))) < 0.03
    on_z = np.abs(middles(z, wz) - np.round(middles(z, wz))) < 0.03
    covered = 1.0 - (1.0 - on_x.mean()) * (1.0 - on_z.mean())
    assert ground_pattern(floor, x, z, wx, wz)[0] == pytest.approx(0.8 + covered * (0.2 - 0.8), abs=0.01)


@given(u=st.floats(0.0, 200.0), v=st.floats(70.0, 120.0), height=st.floats(0.5, 5.0), turn=st.floats(-3.0, 3.0))
def test_a_pixel_on_the_ground_is_as_large_as_the_step_to_its_neighbours(u, v, height, turn):
    camera = PinholeCamera([4 * np.sin(turn), height, 4 * np.cos(turn)], [0, 0.2, 0])
    eye = pack_scene(RenderScene(camera), SIZE).view.eye

    def hit(a, b):
        d = np.array(pixel_ray(eye, a, b))
        return camera.position - camera.position[1] / d[1] * d

    d = pixel_ray(eye, u, v)
    t = -camera.position[1] / d[1]
    if not 0.0 < t < 100.0:
        assert d[1] > -0.06  # a ray that does not come down soon
        return
    h = 1e-4
    steps = np.abs(hit(u + h, v) - hit(u - h, v)) + np.abs(hit(u, v + h) - hit(u, v - h))
    np.testing.assert_allclose(ground_pixel_size(eye, t, d), np.maximum(steps[[0, 2]] / (2 * h), 1e-6), rtol=1e-4)


def test_rays_go_through_the_pixels_that_the_camera_projects_to():
    camera = PinholeCamera([2, 1.5, 4], [0, 0.8, 0], fov_rad=0.7)
    eye = pack_scene(RenderScene(camera), SIZE).view.eye
    rng = np.random.default_rng(3)
    for p in rng.normal(size=(40, 3)):
        u, v, depth = camera.project(p, SIZE)
        np.testing.assert_allclose(camera.position + depth * np.array(pixel_ray(eye, u, v)), p, atol=1e-9)


def test_the_ground_is_whole_at_the_focus_and_gone_beyond_the_fade():
    floor = floor_of(focus=[[-1.0, 0.0], [1.0, 0.0]], fade_m=(1.0, 3.0))
    assert ground_visibility(floor, 0.5, 0.0) == 1.0 and ground_visibility(floor, 1.9, 0.0) == 1.0
    assert ground_visibility(floor, 0.0, 2.0) == pytest.approx(0.5)  # half way
    assert ground_visibility(floor, 4.1, 0.0) == 0.0


def test_later_marks_lie_on_earlier_ones():
    red, blue = np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 0.0, 1.0]])
    both = GroundMarks.join(
        [GroundMarks([[0, 0]], [[1, 0]], np.ones(1), np.ones(1), c, np.ones(1)) for c in (red, blue)]
    )
    table = pack_scene(RenderScene(PinholeCamera([0, 1, 4], [0, 1, 0]), marks=both), SIZE).marks
    colour = draw_marks((1.0, 1.0, 1.0), table, np.array([0, 1]), 0, 2, 0.5, 0.0, 0.01)
    assert colour == (0.0, 0.0, 1.0)


def test_a_tapered_mark_is_wide_where_its_radius_is_large():
    mark = GroundMarks([[0, 0]], [[1, 0]], np.array([0.1]), np.array([0.4]), np.zeros((1, 3)), np.ones(1))
    table = pack_scene(RenderScene(PinholeCamera([0, 1, 4], [0, 1, 0]), marks=mark), SIZE).marks

    def covered(x, z):
        return 1.0 - draw_marks((1.0, 1.0, 1.0), table, np.array([0]), 0, 1, x, z, 0.001)[0]

    assert covered(0.0, 0.09) == 1.0 and covered(0.0, 0.11) == 0.0
    assert covered(1.0, 0.39) == 1.0 and covered(1.0, 0.41) == 0.0
    assert covered(0.5, 0.24) == 1.0 and covered(0.5, 0.26) == 0.0


def test_display_values_are_the_inverse_of_linear_ones():
    values = np.arange(256) / 255.0
    np.testing.assert_array_equal(encode_srgb(linear_from_srgb(values)), np.arange(256))
    np.testing.assert_array_equal(encode_srgb(np.array([-1.0, 2.0])), [0, 255])
