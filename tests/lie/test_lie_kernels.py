"""Compiled loops give the same bits as numpy, and load only when they pay."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from oracles.jacobians import right_jacobian_inverse

from marey.lie import SO3, kernels, right_jacobian
from marey.lie import quaternions as _quaternions
from marey.lie.calculus import left_jacobian_inverse

SHAPES = [
    ((5, 1, 3), (4, 3)),
    ((5, 1), (5, 4)),
    ((), (3,)),
    ((4,), (6, 4)),
    ((2, 1, 3, 1), (2, 5, 3, 7)),
    ((1,), ()),
    ((1, 1), (3, 1)),
    ((7, 2), (7, 2)),
    ((0,), ()),
    ((3, 0), (1, 1)),
]


def parts(array: np.ndarray) -> np.ndarray:
    return np.moveaxis(array, -1, 0)


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_kernels_and_numpy_give_the_same_bits_for_every_broadcast(left, right):
    import marey.lie.so3  # noqa: F401  from here on small batches use it too

    rng = np.random.default_rng(0)
    p, q, points = SO3.random(rng, *left), SO3.random(rng, *right), rng.normal(size=(*right, 3))
    product = np.stack(_quaternions.renormalise(*_quaternions.product(*parts(p.wxyz), *parts(q.wxyz))), axis=-1)
    rotated = np.stack(_quaternions.rotate_xyz(*parts(p.wxyz), *parts(points)), axis=-1)
    entries = np.stack(_quaternions.matrix_entries(*parts(p.wxyz)), axis=-1)
    np.testing.assert_array_equal((p @ q).wxyz, product)
    np.testing.assert_array_equal(p @ points, rotated)
    np.testing.assert_array_equal(p.matrix(), entries.reshape(*left, 3, 3))


def test_kernels_read_arrays_of_any_layout():
    import marey.lie.so3  # noqa: F401

    rng = np.random.default_rng(1)
    r = SO3.random(rng, 6)
    points = np.asfortranarray(rng.normal(size=(6, 3)))
    np.testing.assert_array_equal(r @ points, r @ np.ascontiguousarray(points))
    strided = rng.normal(size=(6, 6))[:, ::2]
    np.testing.assert_array_equal(r @ strided, r @ strided.copy())
    assert points.flags.writeable  # the caller's array is left as it was


def test_drift_of_a_product_is_polished_to_rounding():
    off = np.array([1.0, 0.0, 0.0, 0.0]) * (1.0 + 1e-9)
    w, x, y, z = _quaternions.renormalise(*off)
    assert abs(np.sqrt(w * w + x * x + y * y + z * z) - 1.0) < 1e-15


def test_small_work_does_not_load_the_compiler():
    code = (
        "import sys, numpy as np; from marey.lie import SO3; r = SO3.random(np.random.default_rng(0), 100, 31); "
        "(r @ r).slerp(r, 0.5).matrix(); r @ np.zeros(3); "
        "assert 'numba' not in sys.modules and 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_large_batches_use_the_compiled_loops():
    assert _quaternions.KERNEL_SIZE < 10_000 * 31
    r = SO3.random(np.random.default_rng(0), _quaternions.KERNEL_SIZE)
    identity = (r @ r.inverse()).wxyz
    assert _quaternions.KERNELS in sys.modules
    np.testing.assert_allclose(identity, np.broadcast_to([1.0, 0.0, 0.0, 0.0], identity.shape), atol=1e-15)


ANGLES = [0.0, 1e-12, 1e-6, 1e-3, 9e-3, 1.1e-2, 0.3, 0.999, 1.001, 2.0, 3.0, np.pi]


@pytest.mark.parametrize("angle", ANGLES)
def test_compiled_jacobian_inverses_are_those_of_the_batches_at_every_angle(angle):
    rng = np.random.default_rng(2)
    axis, u = rng.normal(size=3), rng.normal(size=3)
    v = angle * axis / np.linalg.norm(axis)
    right, left = np.empty((3, 3)), kernels.left_jacobian_inverse_times(tuple(v), tuple(u))
    kernels.write_right_jacobian_inverse(tuple(v), right)
    np.testing.assert_allclose(right, right_jacobian_inverse(v), rtol=0, atol=1e-15)
    np.testing.assert_allclose(left, left_jacobian_inverse(v) @ u, rtol=0, atol=4e-15)
    again = kernels.right_jacobian_inverse_times(tuple(v), tuple(u))
    np.testing.assert_allclose(again, right_jacobian_inverse(v) @ u, rtol=0, atol=4e-15)
    kernels.write_right_jacobian(tuple(v), right)
    np.testing.assert_allclose(right, right_jacobian(v), rtol=0, atol=1e-15)


def test_vector_algebra_is_that_of_numpy():
    rng = np.random.default_rng(3)
    a, b, A = rng.normal(size=3), rng.normal(size=3), rng.normal(size=(3, 3))
    assert kernels.dot(tuple(a), tuple(b)) == pytest.approx(a @ b)
    np.testing.assert_allclose(kernels.cross(tuple(a), tuple(b)), np.cross(a, b))
    np.testing.assert_allclose(kernels.unit(tuple(a)), a / np.linalg.norm(a))
    np.testing.assert_allclose(kernels.solve3(A, tuple(b), 1e-9), np.linalg.solve(A, b))
    assert kernels.solve3(np.zeros((3, 3)), (1.0, 2.0, 3.0), 1e-9) == (1.0, 2.0, 3.0)
    q = SO3.random(rng).wxyz
    np.testing.assert_allclose(kernels.unrotate(tuple(q), kernels.rotate(tuple(q), tuple(a))), a)


@pytest.mark.parametrize("b", [(0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (-1.0, 0.0, 0.0)])
def test_shortest_rotation_carries_one_direction_to_the_other(b):
    q = kernels.shortest_rotation((1.0, 0.0, 0.0), b)
    np.testing.assert_allclose(kernels.rotate(q, (1.0, 0.0, 0.0)), b, atol=1e-15)
