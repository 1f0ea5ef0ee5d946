"""Rigid motions: group laws, twists, adjoints and Jacobians."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from marey.base import EPS, InputError
from marey.lie import SE3, SO3, geodesic_distance, hat


def twists(low: float = 1e-12, high: float = float(np.pi) - 1e-6) -> st.SearchStrategy[np.ndarray]:
    """Log-uniform angles, linear parts of up to ten metres."""

    def build(log_angle: float, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        axis = rng.normal(size=3)
        angular = np.clip(np.exp(log_angle), low, high) * axis / np.linalg.norm(axis)
        return np.concatenate([angular, rng.uniform(-10, 10, size=3)])

    return st.builds(build, st.floats(np.log(low), np.log(high)), st.integers(0, 2**32 - 1))


def ad(xi: np.ndarray) -> np.ndarray:
    """The Lie bracket with a twist, as a matrix."""
    out = np.zeros((6, 6))
    out[:3, :3] = out[3:, 3:] = hat(xi[:3])
    out[3:, :3] = hat(xi[3:])
    return out


def exact_left_jacobian(xi: np.ndarray) -> mp.matrix:
    r"""The power series :math:`\sum_k \mathrm{ad}^k / (k+1)!`, which knows nothing of closed forms."""
    A = mp.matrix(ad(xi).tolist())
    total, term = mp.eye(6), mp.eye(6)
    for k in range(1, 60):
        term = term * A / (k + 1)
        total += term
    return total


def far(numbers: np.ndarray, exact: mp.matrix) -> float:
    return max(float(abs(mp.mpf(float(numbers[i, j])) - exact[i, j])) for i in range(6) for j in range(6))


def near(a: SE3, b: SE3, tol: float) -> bool:
    apart = np.abs(a.translation - b.translation).max()
    return bool(geodesic_distance(a.rotation, b.rotation).max() <= tol and apart <= tol)


@given(xi=twists())
def test_exp_and_log_undo_each_other(xi):
    np.testing.assert_allclose(SE3.exp(xi).log(), xi, rtol=0, atol=1e-12)


@given(xi=twists())
def test_exp_is_the_matrix_exponential(xi):
    M = np.zeros((4, 4))
    M[:3, :3], M[:3, 3] = hat(xi[:3]), xi[3:]
    np.testing.assert_allclose(SE3.exp(xi).matrix(), expm(M), atol=1e-13)


@given(a=twists(), b=twists())
def test_products_inverses_and_points_follow_the_matrices(a, b):
    A, B, p = SE3.exp(a), SE3.exp(b), np.array([0.5, -2.0, 1.0])
    np.testing.assert_allclose((A @ B).matrix(), A.matrix() @ B.matrix(), atol=1e-13)
    np.testing.assert_allclose((A @ p), (A.matrix() @ np.append(p, 1.0))[:3], atol=1e-13)
    assert near(A @ A.inverse(), SE3.identity(), 1e-13)
    assert near(SE3.from_matrix(A.matrix()), A, 1e-14)


@given(a=twists(), b=twists())
def test_adjoint_is_a_homomorphism_and_carries_twists(a, b):
    A, B = SE3.exp(a), SE3.exp(b)
    np.testing.assert_allclose((A @ B).adjoint(), A.adjoint() @ B.adjoint(), atol=1e-12)
    np.testing.assert_allclose(A.adjoint(), expm(ad(a)), atol=1e-12)
    small = 0.01 * b
    assert near(A @ SE3.exp(small) @ A.inverse(), SE3.exp(A.adjoint() @ small), 1e-12)


@given(a=twists(), b=twists())
def test_power_does_not_depend_on_the_frame(a, b):
    """A wrench carried by the transposed adjoint gives the same power with the carried twist."""
    T = SE3.exp(a)
    wrench_outer = np.arange(1.0, 7.0)
    wrench_body = T.adjoint().T @ wrench_outer
    power = wrench_outer @ (T.adjoint() @ b)
    assert wrench_body @ b == pytest.approx(power, rel=1e-12, abs=1e-11)


@settings(max_examples=25)
@given(xi=twists(high=float(np.pi)))
def test_left_jacobian_agrees_with_its_power_series_at_fifty_digits(xi):
    with mp.workdps(50):
        exact = exact_left_jacobian(xi)
        size = float(mp.mnorm(exact, mp.inf))
        assert far(SE3.left_jacobian(xi), exact) <= 4 * EPS * size
        inverse = exact**-1
        assert far(SE3.left_jacobian_inverse(xi), inverse) <= 8 * EPS * float(mp.mnorm(inverse, mp.inf)) * size


@given(xi=twists())
def test_adjoint_is_left_jacobian_times_inverse_of_right(xi):
    product = SE3.left_jacobian(xi) @ SE3.right_jacobian_inverse(xi)
    np.testing.assert_allclose(product, SE3.exp(xi).adjoint(), atol=1e-12)


@given(xi=twists())
def test_jacobians_times_their_inverses_are_the_identity(xi):
    np.testing.assert_allclose(SE3.right_jacobian(xi) @ SE3.right_jacobian_inverse(xi), np.eye(6), atol=1e-12)
    np.testing.assert_allclose(SE3.left_jacobian(xi) @ SE3.left_jacobian_inverse(xi), np.eye(6), atol=1e-12)


@given(xi=twists(high=3.0))
def test_jacobians_are_the_derivatives_of_exp(xi):
    h = EPS ** (1 / 3)
    T = SE3.exp(xi)

    def differences(f):
        return np.stack([(f(xi + h * e) - f(xi - h * e)) / (2 * h) for e in np.eye(6)], axis=-1)

    body = differences(lambda x: (T.inverse() @ SE3.exp(x)).log())
    outer = differences(lambda x: (SE3.exp(x) @ T.inverse()).log())
    tolerance = 1000 * h**2 * 10  # third derivatives grow with the ten metres of the linear part
    np.testing.assert_allclose(SE3.right_jacobian(xi), body, atol=tolerance)
    np.testing.assert_allclose(SE3.left_jacobian(xi), outer, atol=tolerance)


@given(a=twists(), b=twists())
def test_interpolation_meets_both_ends_and_moves_with_a_constant_twist(a, b):
    A, B = SE3.exp(a), SE3.exp(b)
    assert near(A.interpolate(B, 0.0), A, 1e-13)
    assert near(A.interpolate(B, 1.0), B, 1e-12)
    path = A.interpolate(B, np.linspace(0.0, 1.0, 5))
    steps = (path[:-1].inverse() @ path[1:]).log()
    np.testing.assert_allclose(steps, np.broadcast_to(steps[0], steps.shape), atol=1e-11)


def test_batches_broadcast_and_are_read_only():
    rng = np.random.default_rng(0)
    T = SE3(SO3.random(rng, 4, 1), rng.normal(size=(3, 3)))
    assert T.shape == (4, 3)
    assert (T[0].shape, T[:, 1].shape, T[..., 0].shape, len(T)) == ((3,), (4,), (4,), 4)
    assert [row.shape for row in T] == [(3,)] * 4
    assert (T @ SE3.identity(3)).shape == (4, 3)
    assert (T @ np.zeros((5, 1, 1, 3))).shape == (5, 4, 3, 3)
    with pytest.raises(ValueError, match="read-only"):
        T.translation[...] = 0.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SE3(SO3.identity(2), np.zeros((3, 3))), "batches"),
        (lambda: SE3(SO3.identity(), [0.0, np.nan, 0.0]), "nan"),
        (lambda: SE3(SO3.identity(), [0.0, 0.0]), "expected"),
        (lambda: SE3.exp(np.zeros(5)), "expected"),
        (lambda: SE3.from_matrix(np.eye(3)), "expected"),
        (lambda: SE3.from_matrix(np.eye(4) + np.eye(4, k=-3)), "transpose"),
    ],
)
def test_what_is_no_rigid_motion_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
