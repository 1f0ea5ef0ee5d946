"""The quadratic programme of an SQP iteration against piqp, on banded spline programmes like those of a leap.

A programme has curves of 19 angles over stances and flights: force rows inside a cone in stance, momentum rows in
flight that look back at the take-off, aims at phase borders. Ours is the interior point on the banded normal matrix
with slacks eliminated row by row; the peer gets the same elastic programme with a slack variable for each row side,
through its sparse LDL', which was the fastest of its five factorisations here. Both stop at a gap of 1e-6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import Row, compare
from scipy import sparse

from marey.numerics import KnotSpline
from marey.numerics.elastic_qp import ElasticQP, QPStep
from marey.numerics.trust_region import single_thread

ANGLES = 19
PHASES = (("stance", 0.5), ("flight", 0.4), ("stance", 0.5), ("flight", 0.4), ("stance", 0.5))
FRICTION = 0.6
PENALTY, TRUST, GAP = 10.0, 0.5, 1e-6
SAME_VALUE = 1e-4  # [-] of the penalty function at the solution
BAR = 1.5
REPEATS = 15


class Leap:
    """Random rows with the pattern of a leap; linearised at a random state, only its first programme is raced."""

    def __init__(self, frames_per_span: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        edges = np.concatenate([[0.0], np.cumsum([duration for _, duration in PHASES])])
        spline = KnotSpline.phases(edges, 0.1)
        times, _ = spline.gauss_times(frames_per_span)
        phases = np.searchsorted(edges, times) - 1
        is_flight = np.array([PHASES[p][0] == "flight" for p in phases])
        forces = self._block(rng, spline, times[~is_flight], (0, 1, 2), 6)
        momenta = self._block(rng, spline, times[is_flight], (0, 1), 3)
        take_offs = self._block(rng, spline, edges[phases[is_flight]], (0, 1), 3)
        aims = self._block(rng, spline, edges[1:-1], (0,), 3)
        cone = _cone()
        self.J = sparse.csc_array(
            sparse.vstack(
                [sparse.kron(sparse.eye_array(int(np.sum(~is_flight))), cone) @ forces, momenta - take_offs, aims]
            )
        )
        gram = spline.second_derivative_gram()
        self.H = sparse.csc_array(sparse.kron(gram, sparse.diags_array(rng.uniform(0.2, 1.0, ANGLES))) * 1e-2)
        self.gradient = self.H @ rng.normal(scale=0.3, size=self.H.shape[0])
        self._ends(rng, int(np.sum(~is_flight)), cone.shape[0], momenta.shape[0] + aims.shape[0])

    @staticmethod
    def _block(rng: Any, spline: KnotSpline, times: Any, orders: tuple[int, ...], num_rows: int) -> Any:
        """Rows ``(T * num_rows, K * D)`` that look at values and derivatives at times."""
        rows = 0.0
        for order in orders:
            slopes = rng.normal(size=(len(times), num_rows, ANGLES)) * 0.1 ** (order + 1)
            design = spline.design(times, order)
            parts = [sparse.kron(design[[i]], slopes[i]) for i in range(len(times))]
            rows = rows + sparse.vstack(parts)
        return sparse.csr_array(rows)

    def _ends(self, rng: Any, num_frames: int, num_cone: int, num_equal: int) -> None:
        lower, upper = np.full(num_cone, -np.inf), rng.uniform(-0.1, 0.8, (num_frames, num_cone))
        lower[0], upper[:, 0] = -0.98, 3.0
        equal = rng.uniform(-0.3, 0.3, num_equal)
        self.row_lower = np.concatenate([np.tile(lower, num_frames), equal])
        self.row_upper = np.concatenate([upper.ravel(), equal])
        self.lower, self.upper = np.full(self.H.shape[0], -3.0), np.full(self.H.shape[0], 3.0)

    def value(self, d: Any) -> float:
        """Penalty function of the quadratic programme."""
        rows = self.J @ d
        violation = np.maximum(np.maximum(self.row_lower - rows, rows - self.row_upper), 0.0)
        return float(self.gradient @ d + 0.5 * d @ (self.H @ d) + PENALTY * violation.sum())


def _cone() -> Any:
    rows = [[1.0, 0, 0, 0, 0, 0]]
    for sign in (1.0, -1.0):
        rows += [[-FRICTION, sign, 0, 0, 0, 0], [-FRICTION, 0, sign, 0, 0, 0]]
        rows += [[-0.12, 0, 0, sign, 0, 0], [-0.08, 0, 0, 0, sign, 0], [-0.05, 0, 0, 0, 0, sign]]
    return sparse.csr_array(np.array(rows))


def ours(programme: Any, qp: ElasticQP) -> QPStep:
    """One programme with values brought in anew, as in an iteration."""
    qp.set(programme.gradient, programme.H, programme.J)
    box = np.full(programme.lower.size, TRUST)
    return qp.solve(np.zeros(programme.row_lower.size), -box, box, PENALTY, GAP)


class Peer:
    """The same programme on piqp, its pattern set up once."""

    def __init__(self, leap: Leap) -> None:
        import piqp

        n, far = leap.H.shape[0], 1e30
        is_equal = leap.row_lower == leap.row_upper
        J = sparse.csr_array(leap.J)
        above, below = np.isfinite(leap.row_upper) & ~is_equal, np.isfinite(leap.row_lower) & ~is_equal
        equal, up, low = (int(mask.sum()) for mask in (is_equal, above, below))
        slacks = 2 * equal + up + low
        one = sparse.eye_array
        A = sparse.hstack([J[is_equal], one(equal), -one(equal), sparse.csr_array((equal, up + low))])
        sides = sparse.vstack([J[above], -J[below]])
        G = sparse.hstack([sides, sparse.csr_array((up + low, 2 * equal)), -one(up + low)])
        self.arguments = (
            sparse.csc_matrix(sparse.block_diag([leap.H, sparse.csc_matrix((slacks, slacks))])),
            np.concatenate([leap.gradient, np.full(slacks, PENALTY)]),
            sparse.csc_matrix(A),
            leap.row_upper[is_equal],
            sparse.csc_matrix(G),
            np.full(up + low, -far),
            np.concatenate([leap.row_upper[above], -leap.row_lower[below]]),
            np.concatenate([np.full(n, -TRUST), np.zeros(slacks)]),
            np.concatenate([np.full(n, TRUST), np.full(slacks, far)]),
        )
        self.size = n
        self.solver = piqp.SparseSolver()
        self.solver.settings.eps_abs = self.solver.settings.eps_duality_gap_abs = GAP
        self.solver.settings.eps_rel = self.solver.settings.eps_duality_gap_rel = GAP
        self.solver.setup(*self.arguments)

    def __call__(self) -> Any:
        """New values, then the solution ``(n,)``."""
        names = ("P", "c", "A", "b", "G", "h_l", "h_u", "x_l", "x_u")
        self.solver.update(**dict(zip(names, self.arguments, strict=True)))
        self.solver.solve()
        return np.asarray(self.solver.result.x)[: self.size]


def rows() -> list[Row]:
    """Check that both find the same value, then race."""
    found: list[Row] = []
    for frames in (2, 4):
        leap = Leap(frames)
        qp, peer = ElasticQP(leap), Peer(leap)  # pyright: ignore[reportArgumentType] only the ends are asked for
        one, other = leap.value(ours(leap, qp).d), leap.value(peer())
        if abs(one - other) > SAME_VALUE * (1.0 + abs(other)):
            raise SystemExit(f"marey ({one}) and piqp ({other}) disagree: the race would be void")
        name = f"QP, {leap.lower.size} unknowns, {leap.row_lower.size} rows"
        with single_thread():
            found.append(compare(name, lambda q=qp, p=leap: ours(p, q), "piqp", peer, repeats=REPEATS, bar=BAR))
    return found


if __name__ == "__main__":
    for row in rows():
        print(row)
