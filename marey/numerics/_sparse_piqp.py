"""Elastic quadratic programmes on the sparse interior-point solver piqp."""

from __future__ import annotations

from typing import Any

import numpy as np

from marey.base import FloatArray, MissingExtraError
from marey.numerics._sqp_programme import Programme

NO_BOUND = 1e30


def load_piqp() -> Any:
    """Give the solver's module, or say how to install it."""
    try:
        import piqp
    except ImportError as error:
        raise MissingExtraError("a sparse quadratic programme", "physics") from error
    return piqp


class ElasticQP:
    r"""Minimise :math:`g^Td + \frac12 d^THd + \nu\sum s` with :math:`l - c - s \le Jd \le u - c + s` in a box."""

    def __init__(self) -> None:
        self.solver: Any = None

    def set(self, gradient: FloatArray, hessian: Any, jacobian: Any, damping: float) -> None:
        """Take the derivatives of an iterate."""
        from scipy import sparse

        m, n = jacobian.shape
        self.gradient, self.n, self.m = gradient, n, m
        self.hessian = sparse.csc_matrix(hessian + damping * sparse.eye(n))
        self.jacobian = sparse.csc_matrix(jacobian)
        self.P = sparse.block_diag([self.hessian, sparse.csc_matrix((m, m))], format="csc")
        eye = sparse.eye(m)
        self.G = sparse.bmat([[self.jacobian, eye], [self.jacobian, -eye]], format="csc")

    def model(self, d: FloatArray) -> float:
        """Value of the quadratic model, rows apart."""
        return float(self.gradient @ d + 0.5 * d @ (self.hessian @ d))

    def linear_rows(self, d: FloatArray) -> FloatArray:
        """Change of the linearised rows."""
        return np.asarray(self.jacobian @ d)

    def solve(
        self, rows: FloatArray, programme: Programme, low: FloatArray, high: FloatArray, penalty: float
    ) -> tuple[FloatArray, FloatArray, float]:
        """Step, multipliers of the rows, and sum of the linearised violations left."""
        m, n = self.m, self.n
        solver = load_piqp().SparseSolver()
        solver.settings.eps_abs = 1e-7
        solver.settings.eps_rel = 1e-7
        lower, upper = programme.row_lower - rows, programme.row_upper - rows
        free = np.full(m, NO_BOUND)
        h_l = np.concatenate([np.maximum(lower, -NO_BOUND), -free])
        h_u = np.concatenate([free, np.minimum(upper, NO_BOUND)])
        x_l = np.concatenate([low, np.zeros(m)])
        x_u = np.concatenate([high, free])
        c = np.concatenate([self.gradient, np.full(m, penalty)])
        solver.setup(self.P, c, None, None, self.G, h_l, h_u, x_l, x_u)
        solver.solve()
        d = np.clip(np.nan_to_num(np.asarray(solver.result.x)[:n]), low, high)
        moved = self.linear_rows(d)
        left = np.maximum(np.maximum(lower - moved, moved - upper), 0.0).sum()
        z = np.asarray(solver.result.z_u) - np.asarray(solver.result.z_l)
        return d, np.nan_to_num(z[:m] + z[m:]), float(left)
