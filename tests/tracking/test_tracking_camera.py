"""The pinhole: where points appear, and how they move there."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import EPS, InputError
from marey.tracking import Camera

POINTS = np.random.default_rng(0).uniform((-0.8, 0.2, -0.8), (0.8, 1.8, 0.8), (40, 3))


def test_the_target_is_seen_at_the_middle(camera: Camera) -> None:
    np.testing.assert_allclose(camera.project(camera.target), (320.0, 240.0), atol=1e-9)


def test_a_point_beside_and_above_a_level_camera_is_seen_by_similar_triangles() -> None:
    camera = Camera(np.array([0.0, 1.0, 4.0]), np.array([0.0, 1.0, 0.0]), focal_px=500.0)
    # looking along -z, +x is on the right: 0.4 m at 2 m depth is a fifth of the focal length
    np.testing.assert_allclose(camera.project(np.array([0.4, 1.2, 2.0])), (320.0 + 100.0, 240.0 - 50.0), atol=1e-9)


def test_axes_are_a_right_angled_frame_with_depth_forward(camera: Camera) -> None:
    axes = camera.axes()
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(np.cross(axes[0], axes[1]), -axes[2], atol=1e-14)  # right, up, towards the eye


def test_the_jacobian_agrees_with_differences(camera: Camera) -> None:
    h = EPS ** (1 / 3)
    numeric = np.stack(
        [(camera.project(POINTS + h * e) - camera.project(POINTS - h * e)) / (2 * h) for e in np.eye(3)], axis=-1
    )
    jacobian = camera.jacobian(POINTS)
    np.testing.assert_allclose(jacobian, numeric, rtol=0, atol=100 * h**2 * np.abs(numeric).max())


def test_points_on_rays_are_seen_where_asked_and_keep_their_depth(camera: Camera) -> None:
    pixels = np.random.default_rng(1).uniform(0.0, 480.0, (40, 2))
    moved = camera.back_project(pixels, POINTS)
    np.testing.assert_allclose(camera.project(moved), pixels, atol=1e-9)
    np.testing.assert_allclose((moved - POINTS) @ camera.axes()[2], 0.0, atol=1e-12)


def test_a_diagonal_matrix_has_the_axes_of_the_picture_as_eigenvectors(camera: Camera) -> None:
    matrix, axes = camera.diagonal(1.0, 2.0, 3.0), camera.axes()
    np.testing.assert_allclose(matrix @ axes.T, axes.T * (1.0, 2.0, 3.0), atol=1e-14)


def test_points_behind_the_camera_are_not_in_view_and_stay_finite(camera: Camera) -> None:
    behind = camera.position + 2.0 * (camera.position - camera.target)
    assert not camera.is_in_view(behind)
    assert np.isfinite(camera.project(behind)).all()
    assert camera.is_in_view(camera.target)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": (0.5, 1.15, 2.2)}, "its own target"),
        ({"target": (0.5, 0.0, 2.2)}, "straight up or down"),
        ({"focal_px": 0.0}, "focal_px"),
        ({"focal_px": float("nan")}, "focal_px"),
        ({"size": (0, 480)}, "size"),
        ({"position": (np.nan, 0.0, 0.0)}, "camera position"),
    ],
)
def test_an_impossible_camera_is_refused(changes: dict[str, object], message: str) -> None:
    good: dict[str, object] = {"position": (0.5, 1.15, 2.2), "target": (0.0, 0.95, 0.15)}
    with pytest.raises(InputError, match=message):
        Camera(**{**good, **changes})  # type: ignore[arg-type]
