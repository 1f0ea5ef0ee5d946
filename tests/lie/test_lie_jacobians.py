"""Left and right Jacobians of rotations: fifty digits, finite differences, identities."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.jacobians import right_jacobian_inverse

from marey.base import EPS, InputError
from marey.lie import SO3, hat, right_jacobian
from marey.lie.calculus import left_jacobian, left_jacobian_inverse


def rotation_vectors(low: float = 1e-12, high: float = float(np.pi)) -> st.SearchStrategy[np.ndarray]:
    """Log-uniform angles about even directions."""

    def build(log_angle: float, seed: int) -> np.ndarray:
        axis = np.random.default_rng(seed).normal(size=3)
        return np.clip(np.exp(log_angle), low, high) * axis / np.linalg.norm(axis)

    return st.builds(build, st.floats(np.log(low), np.log(high)), st.integers(0, 2**32 - 1))


def exact_jacobian(v: np.ndarray) -> tuple[mp.matrix, mp.matrix]:
    """The left Jacobian and its inverse, with enough digits for the textbook form."""
    x, y, z = (mp.mpf(float(c)) for c in v)
    t = mp.sqrt(x * x + y * y + z * z)
    W = mp.matrix([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    J = mp.eye(3) + (1 - mp.cos(t)) / t**2 * W + (t - mp.sin(t)) / t**3 * W * W
    return J, J**-1


def assert_jacobian(f, jacobian, x):
    h = EPS ** (1 / 3)  # the tolerance below follows from the step, not from taste
    numeric = np.stack([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(x.size)], axis=-1)
    np.testing.assert_allclose(jacobian(x), numeric, rtol=0, atol=100 * h**2 * max(1, np.abs(numeric).max()))


def far(numbers: np.ndarray, exact: mp.matrix) -> float:
    return max(float(abs(mp.mpf(float(numbers[i, j])) - exact[i, j])) for i in range(3) for j in range(3))


@given(v=rotation_vectors())
def test_left_jacobian_and_its_inverse_agree_with_fifty_digits(v):
    with mp.workdps(120):
        J, inverse = exact_jacobian(v)
        assert far(left_jacobian(v), J) <= 4 * EPS
        assert far(left_jacobian_inverse(v), inverse) <= 4 * EPS * max(1.0, float(mp.mnorm(inverse, mp.inf)))


@given(v=rotation_vectors())
def test_right_jacobians_are_the_left_ones_of_the_opposite_vector(v):
    np.testing.assert_array_equal(right_jacobian(v), left_jacobian(-v))
    np.testing.assert_array_equal(right_jacobian_inverse(v), left_jacobian_inverse(-v))


@given(v=rotation_vectors())
def test_jacobian_times_inverse_is_the_identity(v):
    np.testing.assert_allclose(right_jacobian(v) @ right_jacobian_inverse(v), np.eye(3), atol=8 * EPS)


@given(v=rotation_vectors())
def test_adjoint_is_left_jacobian_times_inverse_of_right(v):
    np.testing.assert_allclose(left_jacobian(v) @ right_jacobian_inverse(v), SO3.exp(v).matrix(), atol=8 * EPS)


@given(v=rotation_vectors(high=np.pi - 1e-3))
def test_jacobians_are_the_derivatives_of_exp(v):
    R = SO3.exp(v)
    assert_jacobian(lambda x: (R.inverse() @ SO3.exp(x)).log(), right_jacobian, v)
    assert_jacobian(lambda x: (SO3.exp(x) @ R.inverse()).log(), left_jacobian, v)


@given(v=rotation_vectors(high=np.pi - 1e-3))
def test_inverse_jacobians_are_the_derivatives_of_log(v):
    R = SO3.exp(v)
    zero = np.zeros(3)
    assert_jacobian(lambda x: (R @ SO3.exp(x)).log(), lambda _: right_jacobian_inverse(v), zero)
    assert_jacobian(lambda x: (SO3.exp(x) @ R).log(), lambda _: left_jacobian_inverse(v), zero)


def test_jacobians_at_zero_are_the_identity_and_have_the_shape_of_the_batch():
    for jacobian in (left_jacobian, left_jacobian_inverse, right_jacobian, right_jacobian_inverse):
        np.testing.assert_array_equal(jacobian(np.zeros((2, 5, 3))), np.broadcast_to(np.eye(3), (2, 5, 3, 3)))


def test_jacobian_beyond_half_a_turn_stays_accurate():
    for angle in (3.2, 4.5, 6.0):
        v = angle * np.array([0.6, 0.0, 0.8])
        with mp.workdps(60):
            J, inverse = exact_jacobian(v)
            assert far(left_jacobian(v), J) <= 16 * EPS
            assert far(left_jacobian_inverse(v), inverse) <= 64 * EPS * float(mp.mnorm(inverse, mp.inf))


def test_hat_is_the_cross_product():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 7, 3))
    np.testing.assert_allclose(np.einsum("nij,nj->ni", hat(a), b), np.cross(a, b), atol=4 * EPS)
    with pytest.raises(InputError, match="nan"):
        left_jacobian([0.0, np.nan, 0.0])
