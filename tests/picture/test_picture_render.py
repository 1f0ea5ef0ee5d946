"""Pictures of simple scenes whose right answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import InputError
from marey.picture import CapsuleBatch, GroundMarks, GroundPattern, PinholeCamera, RenderScene, linear_from_srgb, render
from marey.picture.scene import Light

SIZE = (320, 240)
RED = np.array([[0.6, 0.05, 0.05]])


def ball(centre, radius, colour=RED):
    return CapsuleBatch([centre], [centre], np.array([radius]), np.array([radius]), colour)


def reddish(image):
    """Pixels whose red is well above their green: the ball."""
    return image[..., 0].astype(int) > image[..., 1].astype(int) + 30


def plain(**changes):
    """A ground without pattern that fades nowhere."""
    return GroundPattern(**({"checker": 0.0, "line_width_m": 0.0, "fade_m": (50.0, 60.0)} | changes))


def test_a_picture_has_the_asked_size_and_type():
    image = render(RenderScene(PinholeCamera([0, 1, 4], [0, 1, 0])), (123, 45))
    assert image.shape == (45, 123, 3) and image.dtype == np.uint8


def test_without_anything_all_is_background():
    image = render(
        RenderScene(PinholeCamera([0, 1, 4], [0, 1, 0]), ground=None, background=linear_from_srgb("#204060")), (40, 30)
    )
    assert (image == [0x20, 0x40, 0x60]).all()


def test_the_silhouette_of_a_ball_has_the_radius_that_perspective_gives():
    camera, radius, far = PinholeCamera([0, 0, 5], [0, 0, 0], fov_rad=0.5), 0.7, 5.0
    image = render(RenderScene(camera, ball([0, 0, 0], radius), ground=None), SIZE)
    pixels = camera.pixels_per_tangent(SIZE[1]) * radius / np.sqrt(far**2 - radius**2)
    seen = reddish(image)
    assert np.sqrt(seen.sum() / np.pi) == pytest.approx(pixels, abs=0.6)
    rows, columns = np.nonzero(seen)
    assert rows.mean() + 0.5 == pytest.approx(120, abs=0.3) and columns.mean() + 0.5 == pytest.approx(160, abs=0.3)


def test_edges_are_smooth():
    camera = PinholeCamera([0, 0, 5], [0, 0, 0], fov_rad=0.5)
    black = render(RenderScene(camera, ball([0, 0, 0], 0.7, np.zeros((1, 3))), ground=None, light=Light(key=0.0)), SIZE)
    levels = np.unique(black[..., 0])
    assert len(levels) >= 8  # eight samples give seven greys between black and white, and the highlight is off


def test_the_nearer_of_two_balls_is_seen():
    solids = CapsuleBatch.join([ball([0, 0, 0], 0.4), ball([0, 0, 1.0], 0.3, RED[:, ::-1])])
    image = render(RenderScene(PinholeCamera([0, 0, 5], [0, 0, 0]), solids, ground=None), SIZE)
    red, _, blue = image[120, 160].astype(int)
    assert blue > red + 30


def test_the_ground_hides_what_is_below_it():
    camera = PinholeCamera([0, 2, 4], [0, 0, 0])
    assert not reddish(render(RenderScene(camera, ball([0, -1, 0], 0.5), ground=plain()), SIZE)).any()
    assert reddish(render(RenderScene(camera, ball([0, -1, 0], 0.5), ground=None), SIZE)).any()


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_shadows_fall_away_from_the_lamp(side):
    light = Light(np.array([side, 1.0, 0.0]), softness=0.02)
    camera = PinholeCamera([0, 3, 6], [0, 0.5, 0])
    image = render(RenderScene(camera, ball([0, 1.0, 0], 0.3), ground=plain(), light=light), SIZE).astype(int)
    dark = (image.sum(axis=2) < image.max() * 3 - 90) & ~reddish(image)
    u, v, _ = camera.project([-side * 1.0, 0.0, 0.0], SIZE)  # 45°: the shadow lies as far away as the ball is high
    assert dark[int(v), int(u)]
    u, v, _ = camera.project([side * 1.0, 0.0, 0.0], SIZE)
    assert not dark[int(v), int(u)]


def test_one_body_shades_another():
    light, camera = Light(np.array([0.0, 1.0, 0.0]), softness=0.02), PinholeCamera([0, 1, 6], [0, 1, 0])
    low = ball([0, 0.5, 0], 0.4)
    alone = render(RenderScene(camera, low, ground=None, light=light), SIZE)
    shaded = render(
        RenderScene(camera, CapsuleBatch.join([low, ball([0, 2.5, 0], 0.6)]), ground=None, light=light), SIZE
    )
    u, v, _ = camera.project([0.0, 0.75, 0.3], SIZE)
    assert shaded[int(v), int(u), 0] < 0.75 * alone[int(v), int(u), 0]


def test_a_ball_on_the_ground_darkens_it_around_the_point_of_touch():
    light, camera = Light(np.array([0.0, 1.0, 0.0]), shadow=0.0), PinholeCamera([0, 3, 6], [0, 0, 0])
    scene = RenderScene(camera, ball([0, 0.3, 0], 0.3), ground=plain(), light=light)
    image = render(scene, SIZE)
    places = camera.project([[x, 0.0, 0.0] for x in (0.4, 0.7, 2.0)], SIZE).astype(int)
    brightness = image[places[:, 1], places[:, 0]].astype(int).sum(axis=1)
    assert brightness[0] < brightness[1] < brightness[2]


def test_marks_are_drawn_on_the_ground_where_they_lie():
    mark = GroundMarks([[0.5, 0.2]], [[0.5, 0.2]], np.array([0.2]), np.array([0.2]), RED, np.array([1.0]))
    camera = PinholeCamera([0, 4, 4], [0, 0, 0])
    image = render(RenderScene(camera, marks=mark, ground=plain()), SIZE)
    rows, columns = np.nonzero(reddish(image))
    u, v, _ = camera.project([0.5, 0.0, 0.2], SIZE)
    assert columns.mean() + 0.5 == pytest.approx(u, abs=0.5) and rows.mean() + 0.5 == pytest.approx(v, abs=0.7)


def test_a_mark_half_opaque_mixes_half():
    camera, colour = PinholeCamera([0, 4, 0.1], [0, 0, 0]), np.array([[0.0, 0.0, 0.0]])
    mark = GroundMarks([[0, 0]], [[0, 0]], np.array([1.0]), np.array([1.0]), colour, np.array([0.5]))
    image = render(RenderScene(camera, marks=mark, ground=plain(colour=np.full(3, 0.8))), SIZE)
    linear = linear_from_srgb(image[120, 160] / 255.0)
    np.testing.assert_allclose(linear, 0.4, atol=0.005)


def test_lines_and_checker_keep_their_mean_far_away():
    """Averaged in closed form, a pattern too fine to see is its mean, not a moiré."""
    camera = PinholeCamera([0, 60, 0.1], [0, 0, 0], fov_rad=1.0)
    ground = GroundPattern(colour=np.full(3, 0.5), checker=1.0, line_width_m=0.0, square_m=0.05, fade_m=(500.0, 600.0))
    linear = linear_from_srgb(render(RenderScene(camera, ground=ground), SIZE)[..., 0] / 255.0)
    assert abs(linear.mean() - 0.25) < 0.01 and linear.std() < 0.02


def test_the_ground_fades_to_the_background():
    image = render(
        RenderScene(PinholeCamera([0, 5, 30], [0, 0, 0]), ground=GroundPattern(colour=np.zeros(3), fade_m=(1.0, 3.0))),
        SIZE,
    )
    assert (image[0] == 255).all() and (image[-1] == 255).all() and image.min() < 20


def test_same_scene_gives_same_bytes_on_one_thread_and_on_two():
    scene = RenderScene(PinholeCamera([1, 2, 4], [0, 0.5, 0]), ball([0, 0.5, 0], 0.5))
    first, second, threaded = render(scene, SIZE), render(scene, SIZE), render(scene, SIZE, threads=2)
    assert first.tobytes() == second.tobytes() == threaded.tobytes()


def test_a_body_around_the_camera_or_behind_it_does_no_harm():
    camera = PinholeCamera([0, 1, 4], [0, 1, 0])
    inside, behind = ball([0, 1, 4], 0.5), ball([0, 1, 9], 0.5)
    assert render(RenderScene(camera, inside), (64, 48)).shape == (48, 64, 3)
    assert not reddish(render(RenderScene(camera, behind, ground=None), (64, 48))).any()


@pytest.mark.parametrize("size", [(0, 10), (10, -1), (100_000, 100_000)])
def test_impossible_sizes_are_refused(size):
    with pytest.raises(InputError, match="pixels"):
        render(RenderScene(PinholeCamera([0, 1, 4], [0, 1, 0])), size)


def test_a_lamp_below_the_ground_and_a_negative_radius_are_refused():
    with pytest.raises(InputError, match="above"):
        Light(np.array([0.0, -1.0, 0.0]))
    with pytest.raises(InputError, match="negative"):
        ball([0, 0, 0], -0.1)


def test_srgb_follows_the_standard_and_refuses_other_words():
    np.testing.assert_allclose(linear_from_srgb("#808080"), 0.21586, atol=1e-5)  # IEC 61966-2-1: 128/255
    with pytest.raises(InputError, match="#rrggbb"):
        linear_from_srgb("blue")
