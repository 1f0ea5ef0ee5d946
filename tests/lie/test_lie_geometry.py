"""Geodesics, decompositions and means of rotations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from marey.base import EPS, ConvergenceError, InputError
from marey.lie import SO3, frechet_mean, geodesic_distance


def generators() -> st.SearchStrategy[np.random.Generator]:
    return st.integers(0, 2**32 - 1).map(np.random.default_rng)


def rotations() -> st.SearchStrategy[SO3]:
    return generators().map(SO3.random)


def cluster(rng: np.random.Generator, radius: float, size: int = 12) -> SO3:
    vectors = rng.normal(size=(size, 3))
    vectors *= radius * rng.uniform(size=(size, 1)) / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return SO3.random(rng) @ SO3.exp(vectors)


# Slerp


@given(a=rotations(), b=rotations())
def test_slerp_gives_both_ends_exactly(a, b):
    np.testing.assert_array_equal(a.slerp(b, 0.0).wxyz, a.wxyz)
    end = a.slerp(b, 1.0).wxyz
    assert np.array_equal(end, b.wxyz) or np.array_equal(end, -b.wxyz)


@given(a=rotations(), b=rotations(), t=st.floats(-1.0, 2.0))
def test_slerp_is_the_power_of_the_relative_rotation(a, b, t):
    expected = a @ (a.inverse() @ b).power(t)
    assert geodesic_distance(a.slerp(b, t), expected) < 2e-14


@given(a=rotations(), b=rotations())
def test_slerp_runs_at_constant_speed_along_the_shortest_way(a, b):
    times = np.linspace(0.0, 1.0, 21)
    steps = geodesic_distance(a.slerp(b, times[:-1]), a.slerp(b, times[1:]))
    np.testing.assert_allclose(steps, geodesic_distance(a, b) / 20, atol=1e-14)


@pytest.mark.parametrize("angle", [0.0, 1e-300, 1e-12, 1e-8, 1e-3, 1.0, np.pi - 1e-9])
def test_slerp_is_exact_at_every_angle(angle):
    for t in (0.25, 0.5, 3.0):
        r = SO3.identity().slerp(SO3.exp([0.0, 0.0, angle]), t)
        want = SO3.exp([0.0, 0.0, t * angle])
        assert geodesic_distance(r, want) <= 16 * EPS * max(t * angle, 1e-300)


def test_slerp_ignores_the_sign_of_the_quaternions(rng):
    a, b = SO3.random(rng, 50), SO3.random(rng, 50)
    for first, second in ((SO3(-a.wxyz), b), (a, SO3(-b.wxyz))):
        assert geodesic_distance(first.slerp(second, 0.3), a.slerp(b, 0.3)).max() < 1e-15


def test_slerp_between_rotations_half_a_turn_apart_is_determined():
    half = SO3.identity().slerp(SO3([0.0, 0.0, 1.0, 0.0]), 0.5)
    np.testing.assert_allclose(half.log(), [0.0, np.pi / 2, 0.0], atol=1e-15)
    other = SO3.identity().slerp(SO3([0.0, 0.0, -1.0, 0.0]), 0.5)
    np.testing.assert_array_equal(other.log(), half.log())


def test_slerp_broadcasts_batches_and_times(rng):
    a, b = SO3.random(rng, 4, 1), SO3.random(rng, 3)
    assert a.slerp(b, 0.5).shape == (4, 3)
    assert a.slerp(b, np.linspace(0, 1, 5)[:, None, None]).shape == (5, 4, 3)


# Two vectors, swing and twist


@given(rng=generators())
def test_two_vectors_are_joined_by_the_shortest_arc(rng):
    a, b = rng.normal(size=(2, 3))
    r = SO3.from_two_vectors(a, b)
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    np.testing.assert_allclose(r @ a, b, atol=8 * EPS)
    np.testing.assert_allclose(r.angle(), 2 * np.arctan2(np.linalg.norm(a - b), np.linalg.norm(a + b)), atol=8 * EPS)


@pytest.mark.parametrize("gap", [0.0, 1e-16, 1e-12, 1e-9, 1e-6, 1e-3])
def test_nearly_opposite_vectors_are_still_joined_to_a_few_ulp(gap):
    rng = np.random.default_rng(3)
    for _ in range(50):
        a, across = rng.normal(size=(2, 3))
        a /= np.linalg.norm(a)
        b = -a + gap * across
        b /= np.linalg.norm(b)
        np.testing.assert_allclose(SO3.from_two_vectors(a, b) @ a, b, atol=16 * EPS)


def test_equal_vectors_need_no_rotation_and_zero_ones_are_refused():
    np.testing.assert_array_equal(SO3.from_two_vectors([0, 2, 0], [0, 5, 0]).wxyz, [1, 0, 0, 0])
    with pytest.raises(InputError, match=r"end \(1,\) is zero"):
        SO3.from_two_vectors([1, 0, 0], [[1, 0, 0], [0, 0, 0]])


@given(r=rotations(), rng=generators())
def test_swing_then_twist_is_the_rotation(r, rng):
    axis = rng.normal(size=3)
    swing, twist = r.swing_twist(axis)
    axis /= np.linalg.norm(axis)
    assert geodesic_distance(swing @ twist, r) <= 16 * EPS
    assert np.linalg.norm(np.cross(twist.log(), axis)) <= 16 * EPS  # the twist turns about the axis
    assert abs(swing.wxyz[1:] @ axis) <= 16 * EPS  # the swing turns across it


@given(r=rotations(), rng=generators())
def test_the_twist_is_the_nearest_rotation_about_its_axis(r, rng):
    axis = rng.normal(size=3)
    nearest = geodesic_distance(r.swing_twist(axis)[1], r)
    others = SO3.from_axis_angle(axis, np.linspace(-np.pi, np.pi, 50))
    assert nearest <= geodesic_distance(others, r).min() + 1e-14


def test_twist_angle_runs_over_a_whole_turn_and_ignores_the_quaternion_sign():
    angles = np.linspace(-np.pi, np.pi, 41)[1:]
    r = SO3.from_axis_angle([0, 1, 0], angles)
    np.testing.assert_allclose(r.twist_angle([0, 2, 0]), angles, atol=4 * EPS * np.pi)
    np.testing.assert_allclose(SO3(-r.wxyz).twist_angle([0, 2, 0]), angles, atol=4 * EPS * np.pi)


def test_a_swing_by_half_a_turn_leaves_no_twist():
    swing, twist = SO3.from_axis_angle([1, 0, 0], np.pi).swing_twist([0, 1, 0])
    assert twist.angle() < 1e-15
    assert swing.angle() == pytest.approx(np.pi)


# Means


@settings(max_examples=30)
@given(g=rotations(), h=rotations(), rng=generators())
def test_frechet_mean_moves_with_its_samples(g, h, rng):
    xs = cluster(rng, 1.0)
    assert geodesic_distance(frechet_mean(g @ xs @ h), g @ frechet_mean(xs) @ h) < 1e-11


@settings(max_examples=30)
@given(rng=generators())
def test_frechet_mean_has_no_gradient_left(rng):
    xs = cluster(rng, 1.4)
    gradient = (frechet_mean(xs).inverse() @ xs).log().mean(axis=0)
    assert np.linalg.norm(gradient) < 1e-12


def test_frechet_mean_of_symmetric_samples_is_their_centre(rng):
    centre = SO3.random(rng, 5)
    offsets = rng.uniform(-0.8, 0.8, size=(10, 5, 3))
    xs = centre @ SO3.exp(np.concatenate([offsets, -offsets]))
    assert geodesic_distance(frechet_mean(xs), centre).max() < 1e-12


def test_frechet_mean_ignores_quaternion_signs(rng):
    xs = cluster(rng, 1.0)
    flipped = SO3(xs.wxyz * rng.choice([-1.0, 1.0], size=(12, 1)))
    assert geodesic_distance(frechet_mean(xs), frechet_mean(flipped)) < 1e-14


def test_weights_count_like_copies(rng):
    xs = cluster(rng, 1.0, size=3)
    copies = SO3.concatenate([xs[:1], xs[:1], xs[:1], xs[1:2], xs[2:]])
    assert geodesic_distance(frechet_mean(xs, weights=[3.0, 1.0, 1.0]), frechet_mean(copies)) < 1e-13
    assert geodesic_distance(frechet_mean(xs, weights=[0.0, 1.0, 0.0]), xs[1]) < 1e-13


def test_mean_of_two_rotations_is_halfway(rng):
    a, b = SO3.random(rng, 200), SO3.random(rng, 200)
    assert geodesic_distance(frechet_mean(SO3.stack([a, b])), a.slerp(b, 0.5)).max() < 1e-10


def test_frechet_mean_is_near_the_chordal_mean_of_scipy(rng):
    xs = cluster(rng, 0.05, size=40)
    chordal = Rotation.from_quat(xs.wxyz, scalar_first=True).mean().as_quat(scalar_first=True)
    assert geodesic_distance(frechet_mean(xs), SO3(chordal)) < 1e-3 * 0.05


def test_frechet_mean_of_one_sample_is_the_sample(rng):
    xs = SO3.random(rng, 1, 7)
    assert geodesic_distance(frechet_mean(xs), xs[0]).max() < 1e-15


def test_frechet_mean_reports_samples_that_have_no_mean(rng):
    with pytest.raises(ConvergenceError, match="did not settle in 3 iterations") as caught:
        frechet_mean(SO3.random(rng, 5), max_iterations=3)
    assert np.isfinite(caught.value.report).all()


@pytest.mark.parametrize(
    ("rotations_", "weights", "message"),
    [
        (SO3.identity(0), None, "no rotations"),
        (SO3.identity(), None, "no rotations"),
        (SO3.identity(3), [1.0, -1.0, 1.0], "negative"),
        (SO3.identity(3), [0.0, 0.0, 0.0], "sum to zero"),
        (SO3.identity(3), [1.0, 1.0], "shape"),
    ],
)
def test_bad_means_are_refused(rotations_, weights, message):
    with pytest.raises(InputError, match=message):
        frechet_mean(rotations_, weights=weights)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)
