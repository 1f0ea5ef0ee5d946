"""Jets: values, two rates and all gradients of elementary functions, against fifty digits, laws and differences."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.spacetime.reduced.jets import (
    Tape,
    angle_of_vector,
    cross,
    dot,
    matrix_times_constant,
    matrix_times_matrix,
    normalise,
    rotate_columns,
    solve_euler_angles,
    weight_jets,
)

NO_DATA = np.zeros((1, 0))
FUNCTIONS = {
    "root": (lambda x: x.root(), mp.sqrt),
    "reciprocal": (lambda x: x.reciprocal(), lambda x: 1 / x),
    "sine": (lambda x: x.sine(), mp.sin),
    "cosine": (lambda x: x.cosine(), mp.cos),
    "positive root": (lambda x: x.positive_root(1e-3), lambda x: mp.sqrt((x + mp.sqrt(x * x + mp.mpf(1e-3))) / 2)),
    "square": (lambda x: x * x, lambda x: x * x),
    "linear": (lambda x: 2.0 * x - 3.0, lambda x: 2 * x - 3),
}


def record(build, num_variables, num_data=0):
    tape = Tape(num_variables, num_data)
    return tape.finish(build(tape.variables) if not num_data else build(tape.variables, tape.data))


def moving(*values, seed=0):
    """Variables at rest values, with random rates and accelerations."""
    z = np.random.default_rng(seed).normal(size=(1, 3, len(values)))
    z[0, 0] = values
    return z


def rotation(axis, turn):
    x, y, z = axis
    k = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(turn) * k + (1 - np.cos(turn)) * k @ k


def matrix(columns):
    return [component for column in columns for component in column]


def identity(variable):
    zero = variable * 0.0
    return [[zero + float(i == j) for i in range(3)] for j in range(3)]


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@given(x=st.floats(0.05, 3.0), rate=st.floats(-2.0, 2.0), accel=st.floats(-3.0, 3.0))
def test_time_derivatives_and_gradients_to_fifty_digits(name, x, rate, accel):
    ours, exact = FUNCTIONS[name]
    jets = record(lambda z: [ours(z[0])], 1)(np.array([[[x], [rate], [accel]]]), NO_DATA)[0, 0]
    with mp.workdps(50):
        f0, f1, f2, f3 = (float(mp.diff(exact, mp.mpf(x), n)) if n else float(exact(mp.mpf(x))) for n in range(4))
    values = [f0, f1 * rate, f1 * accel + f2 * rate**2]
    gradients = [f1, f2 * rate, f2 * accel + f3 * rate**2]
    scale = max(1.0, *map(abs, values), *map(abs, gradients))
    assert jets[:, 0] == pytest.approx(values, abs=1e-12 * scale)
    assert jets[:, 1] == pytest.approx(gradients, abs=1e-12 * scale)


@pytest.mark.parametrize("x", [-2.0, -1e-3, 0.0, 1e-3, 2.0])
def test_the_positive_root_is_smooth_through_its_corner(x):
    jets = record(lambda z: [z[0].positive_root(1e-6)], 1)(moving(x), NO_DATA)[0, 0]
    assert np.isfinite(jets).all()
    assert jets[0, 0] == pytest.approx(np.sqrt(max(x, 0.0)), abs=0.03)
    assert jets[0, 1] > 0.0


@given(st.lists(st.floats(-2.0, 2.0), min_size=6, max_size=6))
def test_products_keep_their_laws(values):
    def both(z):
        a, b = z[:3], z[3:]
        cross_ = cross(a, b)
        return [dot(a, cross_), dot(b, cross_), dot(cross_, cross_) + dot(a, b) * dot(a, b) - dot(a, a) * dot(b, b)]

    jets = record(both, 6)(moving(*values), NO_DATA)
    assert np.abs(jets).max() < 1e-9  # orthogonal, and Lagrange's identity, with all derivatives


@given(st.lists(st.floats(0.2, 2.0), min_size=3, max_size=3))
def test_a_unit_vector_has_length_one_in_all_its_derivatives(values):
    jets = record(lambda z: [dot(normalise(z), normalise(z))], 3)(moving(*values), NO_DATA)[0, 0]
    expected = np.zeros((3, 4))
    expected[0, 0] = 1.0
    assert np.abs(jets - expected).max() < 1e-9


@given(turn=st.floats(-3.0, 3.0))
def test_a_turn_about_an_axis_is_rodrigues(turn):
    axis = np.array([2.0, -1.0, 2.0]) / 3.0
    jets = record(lambda z: matrix(rotate_columns(identity(z[0]), axis, z[0])), 1)(moving(turn), NO_DATA)[0]
    np.testing.assert_allclose(jets[:, 0, 0].reshape(3, 3).T, rotation(axis, turn), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("order", ["xyz", "zyx", "yxz", "zxy", "xzy"])
@given(turns=st.tuples(st.floats(-3.0, 3.0), st.floats(-1.4, 1.4), st.floats(-3.0, 3.0)))
def test_euler_angles_come_back_with_their_rates(order, turns):
    axes = np.eye(3)[["xyz".index(letter) for letter in order]]

    def there_and_back(z):
        columns = identity(z[0])
        for axis, turn in zip(axes, z, strict=True):
            columns = rotate_columns(columns, axis, turn)
        return list(solve_euler_angles(axes, columns))

    z = moving(*turns)
    jets = record(there_and_back, 3)(z, NO_DATA)[0]
    assert jets[:, :, 0] == pytest.approx(z[0].T, abs=1e-7)
    assert jets[:, 0, 1:] == pytest.approx(np.eye(3), abs=1e-9)
    assert np.abs(jets[:, 1:, 1:]).max() < 1e-6


def test_vectors_and_matrices_agree_with_numpy():
    rng = np.random.default_rng(1)
    m, v = rng.normal(size=(3, 3)), rng.normal(size=3)

    def build(z):
        columns = [z[3 * j : 3 * j + 3] * 1.0 for j in range(3)]
        return [
            *matrix_times_constant(columns, v),
            *(columns[0] * z[9] + columns[1] * z[10] + columns[2] * z[11]),
            *matrix(matrix_times_matrix(columns, m)),
            *(z[9:12] * z[0] + z[9:12] * 2.0),
            z[9] + z[10] + z[11],
            weight_jets(v, z[9:12]),
            weight_jets(np.zeros(3), z[9:12]),
        ]

    x = rng.normal(size=12)
    out = record(build, 12)(moving(*x), NO_DATA)[0, :, 0, 0]
    a, b = x[:9].reshape(3, 3).T, x[9:]
    expected = [*(a @ v), *(a @ b), *(a @ m).T.ravel(), *((x[0] + 2.0) * b), b.sum(), v @ b, 0.0]
    assert out == pytest.approx(expected, abs=1e-12)


def test_gradients_of_a_long_tape_are_central_differences():
    def build(z):
        a, b, c = z
        return [angle_of_vector((a * b).sine() + c, (a * a + 1.0).root()) * (b * b + c * c + 1.0).reciprocal()]

    function, z, h = record(build, 3), moving(0.3, -0.7, 0.4), 1e-6
    jets = function(z, NO_DATA)[0, 0]
    for i in range(3):
        step = np.zeros_like(z)
        step[0, 0, i] = h
        numeric = (function(z + step, NO_DATA) - function(z - step, NO_DATA))[0, 0, :, 0] / (2 * h)
        assert jets[:, i + 1] == pytest.approx(numeric, abs=1e-8)


def test_rates_are_central_differences_in_time():
    function, z, h = (
        record(lambda z: [angle_of_vector(z[0].sine() * z[1], z[1].cosine() + z[0] * z[0])], 2),
        moving(0.3, 0.9),
        1e-5,
    )

    def at(t):
        p, v, a = z[0]
        return function(np.array([[p + v * t + 0.5 * a * t * t, v + a * t, a]]), NO_DATA)[0, 0]

    assert (at(h)[:2] - at(-h)[:2]) / (2 * h) == pytest.approx(at(0.0)[1:], abs=1e-7)


def test_data_does_not_move():
    function = record(lambda z, data: [z[0] * data[0] + data[1]], 1, num_data=2)
    jets = function(np.array([[[2.0], [3.0], [4.0]]]), np.array([[5.0, 7.0]]))[0, 0]
    assert jets == pytest.approx(np.array([[17.0, 5.0], [15.0, 0.0], [20.0, 0.0]]))


def test_only_the_nodes_asked_for_are_filled_and_gradients_are_optional():
    function = record(lambda z: [z[0] * z[0]], 1)
    z = np.random.default_rng(0).normal(size=(4, 3, 1))
    some = function(z, np.zeros((4, 0)), np.array([2]))
    assert not some[[0, 1, 3]].any()
    short = np.zeros((4, 1, 3, 1))
    assert function(z, np.zeros((4, 0)), None, short) is short
    assert short[2, 0, :, 0] == pytest.approx(some[2, 0, :, 0])
    assert short[:, 0, 0, 0] == pytest.approx(z[:, 0, 0] ** 2)
