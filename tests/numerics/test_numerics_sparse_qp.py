"""Banded normal matrices and the elastic quadratic programme, against dense algebra, daqp and piqp."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from marey.numerics import solve_qp
from marey.numerics.banded import BandSystem, band_order, group_rows
from marey.numerics.elastic_qp import ElasticQP, ElasticRows, InteriorPoint


def banded(rng, num_variables=40, num_rows=30, width=8, num_globals=0):
    """Rows that touch a few neighbours and all globals, and a tridiagonal Hessian."""
    n = num_variables + num_globals
    J = np.zeros((num_rows, n))
    for i in range(num_rows):
        first = rng.integers(0, num_variables - width + 1)
        J[i, first : first + width] = rng.normal(size=width)
    J[:, num_variables:] = rng.normal(size=(num_rows, num_globals))
    D = np.eye(n) - np.eye(n, k=1)
    return sparse.csc_array(D.T @ D), sparse.csc_array(J)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), num_globals=st.integers(0, 4), is_shuffled=st.booleans())
def test_band_system_solves_as_dense_algebra_does(seed, num_globals, is_shuffled):
    rng = np.random.default_rng(seed)
    H, J = banded(rng, num_globals=num_globals)
    if is_shuffled:
        order = rng.permutation(H.shape[0])
        H, J = sparse.csc_array(H[order][:, order]), sparse.csc_array(J[:, order])
    weights = np.where(rng.uniform(size=J.shape[0]) < 0.2, 0.0, 10.0 ** rng.uniform(-3, 3, J.shape[0]))
    diagonal, right = rng.uniform(0.1, 1.0, H.shape[0]), rng.normal(size=H.shape[0])
    system = BandSystem(H, J)
    system.set_hessian(H.data)
    system.set_jacobian(J.data)
    system.factor(weights, diagonal)
    dense = H.toarray() + J.toarray().T @ (weights[:, None] * J.toarray()) + np.diag(diagonal)
    np.testing.assert_allclose(dense @ system.solve(right), right, atol=1e-9)


def test_global_variables_do_not_widen_the_band():
    H, J = banded(np.random.default_rng(0), num_variables=200, num_rows=150, num_globals=3)
    assert BandSystem(H, J).width <= 13


def test_variables_of_one_phase_are_set_amid_it():
    rng = np.random.default_rng(0)
    _, J = banded(rng, num_variables=200, num_rows=150)
    extra = np.zeros((150, 1))
    extra[[i for i in range(150) if 80 <= J.toarray()[i].nonzero()[0][0] <= 100]] = 1.0
    J = sparse.csc_array(sparse.hstack([J, extra]))
    order, num_border = band_order(sparse.eye_array(201, format="csc"), J)
    assert sorted(order) == list(range(201))
    assert num_border == 1 or 80 <= list(order).index(200) <= 112


def test_order_undoes_a_shuffle():
    rng = np.random.default_rng(1)
    H, J = banded(rng, num_variables=120, num_rows=100)
    order = rng.permutation(120)
    shuffled = BandSystem(sparse.csc_array(H[order][:, order]), sparse.csc_array(J[:, order]))
    assert shuffled.width - 1 <= 2 * (BandSystem(H, J).width - 1)


def test_groups_hold_every_row_once_and_all_its_columns():
    rng = np.random.default_rng(2)
    first = rng.integers(0, 50, 80)
    last = first + rng.integers(-1, 12, 80)
    groups, rows = group_rows(first, last)
    assert sorted(rows) == sorted(np.flatnonzero(last >= first))
    for start, count, column, length, _ in groups:
        members = rows[start : start + count]
        assert first[members].min() >= column
        assert last[members].max() < column + length


def test_indefinite_rounding_is_lifted():
    H = sparse.csc_array(np.array([[1.0, 1.0], [1.0, 1.0 - 1e-13]]))
    system = BandSystem(H, sparse.csc_array((0, 2)))
    system.set_hessian(H.data)
    system.factor(np.zeros(0), np.zeros(2))
    assert np.isfinite(system.solve(np.ones(2))).all()


class Rows:
    """Ends of a programme, all that the quadratic programme needs of it."""

    def __init__(self, rng, H, J):
        n, m = H.shape[0], J.shape[0]
        self.lower, self.upper = np.full(n, -10.0), np.full(n, 10.0)
        self.row_lower = np.where(rng.uniform(size=m) < 0.5, -np.inf, rng.uniform(-2.0, -0.5, m))
        is_open = np.isfinite(self.row_lower) & (rng.uniform(size=m) < 0.6)
        self.row_upper = np.where(is_open, np.inf, rng.uniform(-0.4, 1.0, m))
        equal = rng.uniform(size=m) < 0.2
        self.row_upper[equal] = self.row_lower[equal] = rng.uniform(-1.0, 1.0, equal.sum())


def random_qp(seed, penalty):
    rng = np.random.default_rng(seed)
    H, J = banded(rng, num_variables=25, num_rows=15)
    programme, gradient = Rows(rng, H, J), rng.normal(size=25)
    qp = ElasticQP(programme)
    qp.set(gradient, H, J)
    qp.stiffen(0.0, 1e-3)
    box = rng.uniform(0.1, 0.6, 25)
    step = qp.solve(np.zeros(15), -box, box, penalty, 1e-9)
    return programme, gradient, H.toarray() + 1e-3 * np.eye(25), J.toarray(), box, step


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("penalty", [0.3, 30.0])
def test_elastic_programme_agrees_with_the_active_set_of_daqp(seed, penalty):
    programme, g, H, J, box, step = random_qp(seed, penalty)
    n, m = 25, 15
    wide = np.zeros((n + 2 * m, n + 2 * m))
    wide[:n, :n] = H
    A = np.hstack([J, np.eye(m), -np.eye(m)])
    inf = np.full(m, np.inf)
    exact = solve_qp(
        wide + 1e-6 * np.eye(n + 2 * m),  # strictly convex for daqp; changes the value by less than 1e-5
        np.concatenate([g, np.full(2 * m, penalty)]),
        A,
        programme.row_lower,
        programme.row_upper,
        bounds=(np.concatenate([-box, np.zeros(2 * m)]), np.concatenate([box, inf, inf])),
    )
    assert step.model + penalty * step.left == pytest.approx(exact.objective, abs=1e-5)
    assert np.abs(step.multipliers).max() <= penalty * (1 + 1e-9)


def test_elastic_programme_agrees_with_piqp():
    piqp = pytest.importorskip("piqp")
    programme, g, H, J, box, step = random_qp(3, 5.0)
    m, far = 15, 1e30
    solver = piqp.SparseSolver()
    G = sparse.csc_matrix(np.hstack([J, np.eye(m), -np.eye(m)]))
    solver.setup(
        sparse.csc_matrix(sparse.block_diag([H, np.zeros((2 * m, 2 * m))])),
        np.concatenate([g, np.full(2 * m, 5.0)]),
        None,
        None,
        G,
        np.maximum(programme.row_lower, -far),
        np.minimum(programme.row_upper, far),
        np.concatenate([-box, np.zeros(2 * m)]),
        np.concatenate([box, np.full(2 * m, far)]),
    )
    solver.solve()
    assert step.model + 5.0 * step.left == pytest.approx(solver.result.info.primal_obj, abs=1e-5)


def test_interior_point_takes_few_factorisations():
    assert max(random_qp(seed, 10.0)[-1].num_factors for seed in range(10)) <= 25


def test_correction_takes_back_a_shift_of_equalities():
    rng = np.random.default_rng(5)
    H, J = banded(rng, num_variables=25, num_rows=6)
    programme = Rows(rng, H, J)
    programme.row_lower = programme.row_upper = rng.uniform(-0.1, 0.1, 6)
    qp = ElasticQP(programme)
    qp.set(rng.normal(size=25), H, J)
    qp.stiffen(0.0, 1e-3)
    qp.solve(np.zeros(6), np.full(25, -5.0), np.full(25, 5.0), 100.0, 1e-8)
    shift = 1e-3 * rng.normal(size=6)
    np.testing.assert_allclose(J @ qp.correct(shift), -shift, atol=1e-6)


@pytest.mark.parametrize("width", [0.0, 1e-17, 1e-9])
def test_boxes_that_rounding_closes_divide_by_nothing(width):
    H, J = banded(np.random.default_rng(0))
    n = H.shape[0]
    system = BandSystem(H, J)
    system.set_hessian(H.data)
    system.set_jacobian(J.data)
    low, high = np.full(n, -1.0), np.ones(n)
    low[::3] = high[::3] = 0.7
    high[::3] += width
    rows = np.arange(J.shape[0])
    sides = ElasticRows(rows, np.ones(rows.size), np.full(rows.size, -1e3), np.zeros(rows.size), 10.0)
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        point, _ = InteriorPoint(system, H, J).solve(np.ones(n), sides, low, high, 1e-9, 200)
    assert np.isfinite(point.d).all()
    assert point.d[::3] == pytest.approx(0.7, abs=1e-6)
    assert min(getattr(point, name).min() for name in ("s", "t", "w", "v", "zl", "zu")) > 0.0
