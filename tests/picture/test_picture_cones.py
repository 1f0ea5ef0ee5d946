"""Tapered capsules: rays, normals and shadows, against the distance function they must agree with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.picture import CapsuleBatch
from marey.picture.capsules import pack_solids
from marey.picture.surfaces import cone_normal, hit_cone, occlude_by_cone, shade_by_cone

coordinates = st.floats(-1.0, 1.0)
points = st.tuples(coordinates, coordinates, coordinates)
radii = st.floats(0.02, 0.5)


def cone(start, end, start_radius, end_radius):
    grey = np.full((1, 3), 0.5)
    return pack_solids(CapsuleBatch([start], [end], np.array([start_radius]), np.array([end_radius]), grey))


def distance(p, start, end, ra, rb):
    """Signed distance to the hull of two balls: the least over h of |p - c(h)| - r(h), in closed form."""
    p, a, b = np.asarray(p), np.asarray(start), np.asarray(end)
    length = np.linalg.norm(b - a)
    if length <= abs(ra - rb):
        centre, r = (a, ra) if ra >= rb else (b, rb)
        return float(np.linalg.norm(p - centre) - r)
    u, s = (b - a) / length, (ra - rb) / length
    y = (p - a) @ u
    x = np.sqrt(max((p - a) @ (p - a) - y * y, 0.0))
    h = np.clip(y - x * s / np.sqrt(1 - s * s), 0.0, length)
    return float(np.hypot(x, y - h) - (ra + (rb - ra) * h / length))


def march(o, d, *shape):
    """Sphere tracing: walk along the ray by the distance until it is nothing."""
    t = 0.0
    for _ in range(4000):
        step = distance(np.asarray(o) + t * np.asarray(d), *shape)
        if step < 1e-10:
            return t
        t += step
        if t > 50.0:
            return np.inf
    return np.nan  # it grazes: no verdict


@given(p=points, a=points, b=points, ra=radii, rb=radii)
def test_distance_oracle_is_the_least_over_all_balls_of_the_hull(p, a, b, ra, rb):
    h = np.linspace(0.0, 1.0, 20001)[:, None]
    centres = np.asarray(a) + h * (np.asarray(b) - np.asarray(a))
    brute = np.min(np.linalg.norm(np.asarray(p) - centres, axis=1) - (ra + (rb - ra) * h[:, 0]))
    assert abs(distance(p, a, b, ra, rb) - brute) < 1e-3


@given(a=points, b=points, ra=radii, rb=radii, azimuth=st.floats(0, 6.28), z=st.floats(-1, 1), aim=points)
def test_a_ray_meets_a_capsule_where_sphere_tracing_says(a, b, ra, rb, azimuth, z, aim):
    o = 4.0 * np.array([np.sqrt(1 - z * z) * np.cos(azimuth), np.sqrt(1 - z * z) * np.sin(azimuth), z])
    d = np.asarray(aim) - o
    d /= np.linalg.norm(d)
    expected = march(o, d, a, b, ra, rb)
    found = hit_cone(cone(a, b, ra, rb), 0, tuple(o), tuple(d))
    if np.isnan(expected) or np.isfinite(expected) != np.isfinite(found):
        near = min(distance(o + t * d, a, b, ra, rb) for t in np.linspace(0.0, 8.0, 8001))
        assert abs(near) < 1e-5  # only a ray that just touches may be judged either way
    elif np.isfinite(expected):
        assert found == pytest.approx(expected, abs=1e-5)


def test_a_ray_along_the_axis_meets_the_first_ball():
    assert hit_cone(cone((0, 0, 0), (0, 0, 1), 0.2, 0.1), 0, (0.0, 0.0, -3.0), (0.0, 0.0, 1.0)) == pytest.approx(2.8)


def test_a_ray_away_from_the_capsule_meets_nothing():
    assert hit_cone(cone((0, 0, 0), (0, 0, 1), 0.2, 0.1), 0, (0.0, 0.0, -3.0), (0.0, 0.0, -1.0)) == np.inf


def test_a_ball_that_holds_the_other_is_all_that_is_left():
    table = cone((0, 0, 0), (0, 0.1, 0), 0.05, 0.4)
    assert hit_cone(table, 0, (0.0, 3.0, 0.0), (0.0, -1.0, 0.0)) == pytest.approx(3.0 - 0.5)
    assert hit_cone(table, 0, (3.0, 0.1, 0.0), (-1.0, 0.0, 0.0)) == pytest.approx(3.0 - 0.4)


@given(a=points, b=points, ra=radii, rb=radii, aim=points)
def test_normals_are_gradients_of_the_distance(a, b, ra, rb, aim):
    o = np.array([0.0, 3.0, 4.0])
    d = (np.asarray(aim) - o) / np.linalg.norm(np.asarray(aim) - o)
    table = cone(a, b, ra, rb)
    t = hit_cone(table, 0, tuple(o), tuple(d))
    if not np.isfinite(t):
        assert min(distance(o + s * d, a, b, ra, rb) for s in np.linspace(0, 9, 901)) > -1e-4
        return
    p, h = o + t * d, 1e-5
    gradient = [distance(p + h * e, a, b, ra, rb) - distance(p - h * e, a, b, ra, rb) for e in np.eye(3)]
    np.testing.assert_allclose(cone_normal(table, 0, tuple(p)), np.array(gradient) / (2 * h), atol=2e-3)


def test_shadow_is_full_behind_the_axis_and_none_far_aside():
    table = cone((0, 1, 0), (0, 2, 0), 0.1, 0.1)
    lamp = (0.0, 1.0, 0.0)
    assert shade_by_cone(table, 0, (0.0, 0.0, 0.0), lamp, 0.01) == 1.0
    assert shade_by_cone(table, 0, (0.5, 0.0, 0.0), lamp, 0.01) == 0.0
    assert shade_by_cone(table, 0, (0.0, 3.0, 0.0), lamp, 0.01) == 0.0  # it lies below


def test_shadow_edge_is_half_dark_at_the_silhouette_and_widens_with_distance():
    lamp = (0.0, 1.0, 0.0)
    near, far = cone((0, 1, 0), (0, 1, 0), 0.1, 0.1), cone((0, 5, 0), (0, 5, 0), 0.1, 0.1)
    assert shade_by_cone(near, 0, (0.1, 0.0, 0.0), lamp, 0.05) == pytest.approx(0.5)
    assert 0.0 == shade_by_cone(near, 0, (0.2, 0.0, 0.0), lamp, 0.05) < shade_by_cone(far, 0, (0.2, 0, 0), lamp, 0.05)


def test_a_ball_hides_its_form_factor_of_the_sky():
    table = cone((0, 0.5, 0), (0, 0.5, 0), 0.1, 0.1)
    expected = (0.1 / 0.5) ** 2 - 1 / 10.0**2  # r²/l², less what is cut off at the reach
    assert occlude_by_cone(table, 0, 10.0, (0.0, 0.0, 0.0), (0.0, 1.0, 0.0)) == pytest.approx(expected)
    assert occlude_by_cone(table, 0, 10.0, (0.0, 0.0, 0.0), (0.0, -1.0, 0.0)) == 0.0
    assert occlude_by_cone(table, 0, 4.0, (0.0, 0.0, 0.0), (0.0, 1.0, 0.0)) == 0.0
