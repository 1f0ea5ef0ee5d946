"""Rotations: exponential, logarithm, products, the double cover, and what is refused."""

from __future__ import annotations

import pickle

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from marey.base import EPS, InputError
from marey.lie import SO3, geodesic_distance, hat


def log_uniform(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(np.log(low), np.log(high)).map(lambda x: float(np.clip(np.exp(x), low, high)))


def directions() -> st.SearchStrategy[np.ndarray]:
    normal = st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).normal(size=3))
    return st.one_of(normal, st.sampled_from(list(np.eye(3)))).map(lambda v: v / np.linalg.norm(v))


def rotations() -> st.SearchStrategy[SO3]:
    return st.integers(0, 2**32 - 1).map(lambda seed: SO3.random(np.random.default_rng(seed)))


@given(theta=log_uniform(1e-12, np.pi), axis=directions())
def test_exp_agrees_with_fifty_digits(theta, axis):
    v = theta * axis
    with mp.workdps(50):
        exact_v = [mp.mpf(float(c)) for c in v]
        angle = mp.sqrt(sum(c * c for c in exact_v))
        exact = [mp.cos(angle / 2), *(mp.sin(angle / 2) / angle * c for c in exact_v)]
    q = SO3.exp(v).wxyz
    for have, want in zip(q[1:], exact[1:], strict=True):
        assert abs(mp.mpf(float(have)) - want) <= 4 * EPS * abs(want)
    assert abs(mp.mpf(float(q[0])) - exact[0]) <= 4 * EPS


@given(theta=log_uniform(1e-12, np.pi * (1.0 - 1e-15)), axis=directions())
def test_log_undoes_exp_to_a_few_ulp(theta, axis):
    v = theta * axis
    assert np.linalg.norm(SO3.exp(v).log() - v) <= 8 * EPS * theta


@given(r=rotations())
def test_exp_undoes_log(r):
    assert geodesic_distance(SO3.exp(r.log()), r) <= 8 * EPS


@given(r=rotations())
def test_q_and_minus_q_are_the_same_rotation_bit_by_bit(r):
    other = SO3(-r.wxyz)
    np.testing.assert_array_equal(other.log(), r.log())
    np.testing.assert_array_equal(other.matrix(), r.matrix())
    np.testing.assert_array_equal(other.canonical().wxyz, r.canonical().wxyz)
    assert float(geodesic_distance(r, other)) == 0.0


@pytest.mark.parametrize("axis", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, -0.6, 0.8), (-0.6, 0, 0.8), (0, 0, -1)])
def test_log_of_a_half_turn_has_its_first_component_positive(axis):
    for sign in (1.0, -1.0):
        v = SO3(np.array([0.0, *axis]) * sign).log()
        assert np.linalg.norm(v) == pytest.approx(np.pi, rel=4 * EPS)
        assert v[np.flatnonzero(v)[0]] > 0.0


def test_log_of_no_rotation_and_of_the_smallest_ones_is_exact():
    assert np.all(SO3.identity(3).log() == 0.0)
    for tiny in (1e-300, 1e-160, 1e-20):
        np.testing.assert_allclose(SO3.exp([0.0, tiny, 0.0]).log(), [0.0, tiny, 0.0], rtol=4 * EPS, atol=0)


@given(theta=log_uniform(1e-12, np.pi), axis=directions(), base=rotations())
def test_geodesic_distance_keeps_its_digits_at_every_angle(theta, axis, base):
    """The oracle takes the two stored quaternions as they are, so only our arithmetic is judged."""
    other = base @ SO3.exp(theta * axis)
    with mp.workdps(60):
        p = [mp.mpf(float(c)) for c in base.wxyz]
        q = [mp.mpf(float(c)) for c in other.wxyz]
        scalar = sum(a * b for a, b in zip(p, q, strict=True))
        square = sum(c * c for c in p) * sum(c * c for c in q) - scalar**2
        exact = 2 * mp.atan2(mp.sqrt(square), abs(scalar))
        assert abs(mp.mpf(float(geodesic_distance(base, other))) - exact) <= 8 * EPS * exact


@given(a=rotations(), b=rotations(), g=rotations())
def test_geodesic_distance_is_symmetric_and_invariant_on_both_sides(a, b, g):
    d = geodesic_distance(a, b)
    assert abs(geodesic_distance(b, a) - d) <= 8 * EPS
    assert abs(geodesic_distance(g @ a, g @ b) - d) <= 32 * EPS
    assert abs(geodesic_distance(a @ g, b @ g) - d) <= 32 * EPS
    assert 0.0 <= d <= np.pi


@given(a=rotations(), b=rotations())
def test_product_inverse_and_action_agree_with_scipy(a, b):
    def oracle(r: SO3) -> Rotation:
        return Rotation.from_quat(r.wxyz, scalar_first=True)

    p = np.array([0.3, -1.2, 2.0])
    np.testing.assert_allclose((a @ b).matrix(), (oracle(a) * oracle(b)).as_matrix(), atol=1e-15)
    np.testing.assert_allclose(a.inverse().matrix(), oracle(a).as_matrix().T, atol=1e-15)
    np.testing.assert_allclose(a @ p, oracle(a).apply(p), atol=4e-15)
    np.testing.assert_allclose(a.log(), oracle(a).as_rotvec(), atol=4e-15)


@given(r=rotations())
def test_matrix_round_trip_is_exact_to_rounding(r):
    assert geodesic_distance(SO3.from_matrix(r.matrix()), r) <= 16 * EPS


def test_matrices_near_a_half_turn_keep_their_axis():
    for axis in np.eye(3):
        for angle in (np.pi, np.pi - 1e-9, np.pi - 1e-5):
            r = SO3.from_axis_angle(axis, angle)
            assert geodesic_distance(SO3.from_matrix(r.matrix()), r) < 1e-15


def test_exp_is_the_matrix_exponential(rng):
    from scipy.linalg import expm

    for v in rng.normal(size=(20, 3)):
        np.testing.assert_allclose(SO3.exp(v).matrix(), expm(hat(v)), atol=1e-14)


@given(r=rotations(), s=st.floats(-2, 2), t=st.floats(-2, 2))
def test_powers_add_up(r, s, t):
    total = (r.power(s) @ r.power(t)).wxyz
    assert geodesic_distance(SO3(total), r.power(s + t)) < 1e-14


def test_products_stay_unit_over_a_million_turns():
    step = SO3.exp([0.1, 0.2, -0.3])
    r = SO3.identity()
    for _ in range(20):
        r = r @ r @ step
    assert abs(np.linalg.norm(r.wxyz) - 1.0) <= 8 * EPS


def test_normalising_twice_changes_nothing(rng):
    once = SO3(rng.normal(size=(1000, 4)) * 10.0 ** rng.uniform(-5, 5, size=(1000, 1)))
    assert SO3(once.wxyz).wxyz is once.wxyz
    np.testing.assert_array_equal(SO3(np.array(once.wxyz)).wxyz, once.wxyz)


def test_one_long_quaternion_leaves_its_neighbours_alone(rng):
    unit = SO3.random(rng, 5).wxyz
    mixed = np.concatenate([unit, [[3.0, 0.0, 0.0, 4.0]]])
    np.testing.assert_array_equal(SO3(mixed).wxyz[:5], unit)
    np.testing.assert_allclose(SO3(mixed).wxyz[5], [0.6, 0.0, 0.0, 0.8], rtol=EPS)


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e200, 1e300])
def test_quaternions_of_extreme_length_are_normalised(size):
    np.testing.assert_allclose(SO3(np.array([3.0, 0.0, 0.0, 4.0]) * size).wxyz, [0.6, 0, 0, 0.8], rtol=4 * EPS)


def test_random_rotations_are_spread_evenly():
    """The angle of even rotations has mean π/2 + 2/π and the turned axes have no favourite direction."""
    r = SO3.random(np.random.default_rng(1), 40_000)
    assert r.angle().mean() == pytest.approx(np.pi / 2 + 2 / np.pi, abs=0.01)
    assert np.abs((r @ np.array([1.0, 0.0, 0.0])).mean(axis=0)).max() < 0.015


def test_random_rotations_follow_their_generator():
    one, two = (SO3.random(np.random.default_rng(7), 3, 2) for _ in range(2))
    assert one.shape == (3, 2)
    np.testing.assert_array_equal(one.wxyz, two.wxyz)


def test_a_batch_is_read_only_and_not_shared_with_its_caller():
    given_ = np.array([[1.0, 0.0, 0.0, 0.0]])
    r = SO3(given_)
    given_[0] = [0.0, 1.0, 0.0, 0.0]
    assert r.angle()[0] == 0.0
    for batch in (r, r @ r, r.inverse(), r[0], SO3.identity(2), SO3.exp(np.zeros((2, 3))), r.reshape(1, 1)):
        with pytest.raises(ValueError, match="read-only"):
            batch.wxyz[...] = 0.0


def test_indexing_touches_the_batch_alone(rng):
    r = SO3.random(rng, 5, 6)
    mask = np.array([True, False, True, False, True])
    assert (r[1].shape, r[1, 2].shape, r[:, 0].shape, r[mask].shape, r[mask, 0].shape) == ((6,), (), (5,), (3, 6), (3,))
    assert (r[..., 0].shape, r[None].shape, r[:, None].shape) == ((5,), (1, 5, 6), (5, 1, 6))
    np.testing.assert_array_equal(r[1, 2].wxyz, r.wxyz[1, 2])
    with pytest.raises(IndexError):
        r[0, 0, 0]


def test_stack_concatenate_reshape_and_iteration_keep_the_rotations(rng):
    r = SO3.random(rng, 4, 3)
    np.testing.assert_array_equal(SO3.stack(list(r)).wxyz, r.wxyz)
    np.testing.assert_array_equal(SO3.stack(list(r), axis=-1).wxyz, np.swapaxes(r.wxyz, 0, 1))
    np.testing.assert_array_equal(SO3.concatenate([r[:2], r[2:]]).wxyz, r.wxyz)
    np.testing.assert_array_equal(r.reshape(12).wxyz, r.wxyz.reshape(12, 4))
    assert len(r) == 4
    with pytest.raises(TypeError):
        len(r[0, 0])


def test_rotations_survive_pickling(rng):
    r = SO3.random(rng, 3)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(r)).wxyz, r.wxyz)


def test_continuous_quaternions_do_not_jump(rng):
    smooth = SO3.exp(np.linspace(0.0, 9.0, 200)[:, None] * np.array([0.0, 0.6, 0.8]))
    scrambled = SO3(smooth.wxyz * rng.choice([-1.0, 1.0], size=(200, 1)))
    fixed = scrambled.continuous()
    assert np.linalg.norm(np.diff(fixed.wxyz, axis=0), axis=-1).max() < 0.03
    assert geodesic_distance(fixed, smooth).max() < 1e-7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SO3([0.0, 0.0, 0.0, 0.0]), "is zero"),
        (lambda: SO3([1.0, np.nan, 0.0, 0.0]), r"nan at index \(1,\)"),
        (lambda: SO3([1.0, 0.0, 0.0]), "expected"),
        (lambda: SO3.exp([0.0, np.inf, 0.0]), "rotation vectors holds inf"),
        (lambda: SO3.exp([0.0, 1e200, 0.0]), "too long"),
        (lambda: SO3.exp([0.0, 1.0]), "expected"),
        (lambda: SO3.from_axis_angle([0, 0, 0], 1.0), "no direction"),
        (lambda: SO3.from_matrix(np.zeros((3, 3))), "no rotation"),
        (lambda: SO3.from_matrix(np.diag([1.0, 1.0, -1.0])), "determinant -1"),
        (lambda: SO3.from_matrix(np.eye(3) + 0.1), "no rotation"),
        (lambda: SO3.from_matrix(np.eye(4)), "expected"),
        (lambda: SO3.from_matrix(np.full((2, 3, 3), np.nan)), "nan"),
        (lambda: SO3.identity() @ [1.0, 2.0], "expected"),
        (lambda: SO3.identity().slerp(SO3.identity(), np.nan), "nan"),
    ],
)
def test_what_is_no_rotation_is_refused_by_name(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_matrices_slightly_off_are_repaired_with_a_warning(rng):
    r = SO3.random(rng, 10)
    with pytest.warns(UserWarning, match="repaired"):
        repaired = SO3.from_matrix(r.matrix() + 1e-5 * rng.normal(size=(10, 3, 3)))
    assert geodesic_distance(repaired, r).max() < 1e-4
    single = SO3.from_matrix(r.matrix().astype(np.float32))  # silent: single precision explains it
    assert geodesic_distance(single, r).max() < 1e-6


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)
