"""Fang's projected-Lagrangian method and its banded solves (Fang A20, A25, A27)."""

import time
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from marey.numerics import KnotSpline, SolveStatus, solve_sqp
from marey.numerics.banded import BandSystem
from marey.numerics.trust_region import _load_thread_pools, single_thread


class Quadratic:
    """The 12-variable, 4-row quadratic on which the printed projection misses the optimum."""

    def __init__(self, seed=0, num_variables=12, num_rows=4):
        rng = np.random.default_rng(seed)
        root = rng.normal(size=(num_variables, num_variables))
        self.H = root @ root.T + 0.1 * np.eye(num_variables)
        self.J = rng.normal(size=(num_rows, num_variables))
        self.end = rng.normal(size=num_rows)
        self.lower, self.upper = np.full(num_variables, -np.inf), np.full(num_variables, np.inf)
        self.row_lower = self.row_upper = self.end
        self.is_linear = np.ones(num_rows, dtype=bool)

    def values(self, x):
        return 0.5 * float(x @ self.H @ x), self.J @ x

    def derivatives(self, x):
        return self.H @ x, sparse.csc_array(self.H), sparse.csc_array(self.J)

    def row_name(self, index):
        return f"row {index}"

    @property
    def optimum(self):
        n, m = self.H.shape[0], self.end.size
        K = np.block([[self.H, self.J.T], [self.J, np.zeros((m, m))]])
        x = np.linalg.solve(K, np.concatenate([np.zeros(n), self.end]))[:n]
        return 0.5 * float(x @ self.H @ x)


def test_a25_h_projection_reaches_the_kkt_point_in_one_step():
    problem = Quadratic()
    result = solve_sqp(problem, np.ones(12), method="fang2003", projection="h", max_iterations=1, on_failure="return")
    assert result.violation < 1e-9
    assert result.objective == pytest.approx(problem.optimum, rel=1e-9)
    assert solve_sqp(problem, np.ones(12), method="fang2003").status is SolveStatus.CONVERGED


def test_a25_euclidean_projection_is_feasible_above_the_optimum_and_says_so():
    problem = Quadratic()
    result = solve_sqp(problem, np.ones(12), method="fang2003", projection="euclidean")
    assert result.violation < 1e-4
    gap = result.objective - problem.optimum
    assert gap > 0.1 * problem.optimum
    reported = float(result.advice.split("about ")[1].split(" above")[0])
    assert reported == pytest.approx(gap, rel=0.02)


def test_a27_conjugate_gradients_take_at_most_one_step_a_row():
    problem = Quadratic(num_variables=40, num_rows=15)
    result = solve_sqp(problem, np.ones(40), method="fang2003", max_iterations=1, on_failure="return")
    assert 0 < result.history[0].num_inner <= 15


def test_fang2003_keeps_inequalities():
    problem = Quadratic(seed=1)
    problem.row_lower = np.concatenate([problem.end[:2], np.full(2, -np.inf)])
    problem.row_upper = np.concatenate([problem.end[:2], [0.3, -0.4]])
    result = solve_sqp(problem, np.ones(12), method="fang2003")
    best = solve_sqp(problem, np.ones(12), tolerance=1e-6)
    assert result.violation < 1e-4
    assert result.objective == pytest.approx(best.objective, rel=1e-3)


def test_a27_memory_stays_of_the_order_of_the_rows_entries():
    n, m = 20_000, 500
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, n, (m, 20)), axis=1)
    J = sparse.csc_array(sparse.coo_array((rng.normal(size=m * 20), (np.repeat(np.arange(m), 20), columns.ravel()))))
    J.resize((m, n))
    H = sparse.csc_array(sparse.diags_array(rng.uniform(0.5, 2.0, n)))
    problem = Quadratic()
    problem.H, problem.J, problem.end = H, J, rng.normal(size=m)
    problem.lower, problem.upper = np.full(n, -np.inf), np.full(n, np.inf)
    problem.row_lower = problem.row_upper = problem.end
    tracemalloc.start()
    result = solve_sqp(problem, np.zeros(n), method="fang2003", on_failure="return")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.violation < 1e-4
    assert peak < 0.02 * 8 * n * n  # J'J alone would be 3.2 GB


@pytest.mark.timing
def test_a20_banded_solve_grows_linearly_with_the_number_of_control_points():
    def seconds(num_spans):
        gram = KnotSpline.phases([0.0, 0.1 * num_spans], 0.1).second_derivative_gram()
        H = sparse.csc_array(sparse.kron(gram, sparse.eye_array(19)))
        system = BandSystem(H, sparse.csc_array((0, H.shape[0])))
        system.set_hessian(H.data)
        right, diagonal = np.ones(H.shape[0]), np.full(H.shape[0], 1e-3)
        times = []
        with single_thread():
            for _ in range(15):
                began = time.perf_counter()
                system.factor(np.zeros(0), diagonal)
                system.solve(right)
                times.append(time.perf_counter() - began)
        return min(times)

    assert min(seconds(240) / seconds(60) for _ in range(3)) <= 5.0


def test_threads_are_given_back():
    before = [read() for read, _ in _load_thread_pools()]
    with single_thread(), single_thread():
        assert all(read() == 1 for read, _ in _load_thread_pools())
    assert [read() for read, _ in _load_thread_pools()] == before
