"""The problem of one control step: the internal forces that bring the figure nearest to its tasks.

Kinetic products, rows and the programme in units of its own are assembled in compiled loops.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marey.base import BoolArray, FloatArray, InputError, IntArray, frozen, frozen_bools, frozen_ints, kernel

ROOT_SIZE = 6  # velocities of the root, on which nothing inside can push
NO_BOUND = 1e30  # what daqp takes for infinity
EQUALITY = 5  # daqp: active and not to be released


@kernel
def compute_kinetics(
    inertia: FloatArray, impulse: FloatArray, rows: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, bool]:
    r"""Free velocity ``(d,)``, response :math:`M^{-1}(A^T, J^T)` ``(d, k + m)``, its products, and if M is definite.

    Args:
        inertia: M ``(d, d)``.
        impulse: f ``(d,)``.
        rows: J ``(m, d)``.
    """
    d, m = inertia.shape[0], rows.shape[0]
    k = d - ROOT_SIZE
    # Cholesky factor M = L L^T
    L = np.zeros((d, d))
    is_definite = True
    for j in range(d):
        for i in range(j, d):
            total = inertia[i, j]
            for c in range(j):
                total -= L[i, c] * L[j, c]
            if i == j:
                if total <= 0.0:
                    is_definite, total = False, 1e-300
                L[j, j] = sqrt(total)
            else:
                L[i, j] = total / L[j, j]
    # Actuators A, rows J and the impulse f as forces, one a row
    W = np.zeros((k + m + 1, d))  # forces in the metric of M, one a row
    for a in range(k):
        W[a, ROOT_SIZE + a] = 1.0
    for r in range(m):
        W[k + r] = rows[r]
    W[k + m] = impulse
    # Forward substitution: W = (L^-1 (A^T, J^T, f))^T
    for n in range(k + m + 1):
        for i in range(d):
            if W[n, i] != 0.0:
                W[n, i] /= L[i, i]
                for c in range(i + 1, d):
                    W[n, c] -= W[n, i] * L[c, i]
    # Products (A, J) M^-1 (A, J)^T
    gram = np.empty((k + m, k + m))
    for i in range(k + m):
        for j in range(i + 1):
            total = 0.0
            for c in range(d):
                total += W[i, c] * W[j, c]
            gram[i, j] = total
            gram[j, i] = total
    # Back substitution: W = (M^-1 (A^T, J^T, f))^T; its last row is the free velocity
    for n in range(k + m + 1):
        for i in range(d - 1, -1, -1):
            total = W[n, i]
            for c in range(i + 1, d):
                total -= L[c, i] * W[n, c]
            W[n, i] = total / L[i, i]
    return W[k + m].copy(), np.ascontiguousarray(W[: k + m].T), gram, is_definite


class Kinetics(NamedTuple):
    """Velocities that forces lead to; see ``ControlProblem``."""

    free_velocity: FloatArray  # (d,) M^-1 f: without actuation and contacts
    response: FloatArray  # (d, k + m) M^-1 (A^T, J^T): velocity per unit of each actuator and each multiplier
    gram: FloatArray  # (k + m, k + m) kinetic products (A^T, J^T)^T M^-1 (A^T, J^T)


class ProblemRows(NamedTuple):
    """Contacts, fences and bounds of a ``ControlProblem``, as the kernels take them."""

    rows: FloatArray
    ends: FloatArray
    is_equal: BoolArray
    partners: IntArray
    grips: FloatArray
    fences: FloatArray
    fence_ends: FloatArray
    strongest: FloatArray


@kernel
def assemble_rows(
    kinetics: Kinetics, contacts: ProblemRows, may_open: BoolArray, is_open: BoolArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    r"""Rows A ``(r, n)``, their ends, and the bounds of :math:`z = (\mu, \lambda, s)`; see ``ControlProblem``."""
    free_velocity, response, gram = kinetics
    rows, ends, is_equal, partners, grips, fences, fence_ends, strongest = contacts
    k, m, s = strongest.size, ends.size, fence_ends.size
    n, tangents = k + m + s, 0
    # Each row of friction becomes two: mu lambda_n >= |lambda_t|
    for r in range(m):
        if partners[r] >= 0:
            tangents += 1
    A = np.zeros((m - tangents + 2 * tangents + s, n))
    lower, upper = np.zeros(A.shape[0]), np.full(A.shape[0], np.inf)
    low, high = np.zeros(n), np.full(n, np.inf)
    # Bounds: strength of the actuators; contacts push unless they hold; open contacts do nothing
    for a in range(k):
        low[a], high[a] = -strongest[a], strongest[a]
    i = 0
    for r in range(m):
        if is_equal[r] or partners[r] >= 0:
            low[k + r] = -np.inf
        if is_open[r]:
            high[k + r] = 0.0
        if partners[r] >= 0:
            # Friction: grip times the partner less and plus the tangential impulse
            A[i, k + partners[r]], A[i, k + r] = grips[r], -1.0
            A[i + 1, k + partners[r]], A[i + 1, k + r] = grips[r], 1.0
            i += 2
            continue
        # Contact: J v >= b with v = v_free + M^-1 (A^T mu + J^T lambda); equality where it may not open
        lower[i] = ends[r]
        for c in range(rows.shape[1]):
            lower[i] -= rows[r, c] * free_velocity[c]
        for c in range(k + m):
            A[i, c] = gram[k + r, c]
        if not may_open[r]:
            upper[i] = lower[i]
        i += 1
    for f in range(s):
        # Fence: F v + s >= b, broken by s >= 0
        lower[i] = fence_ends[f]
        for c in range(rows.shape[1]):
            lower[i] -= fences[f, c] * free_velocity[c]
            if fences[f, c] != 0.0:
                for e in range(k + m):
                    A[i, e] += fences[f, c] * response[c, e]
        A[i, k + m + f] = 1.0
        i += 1
    return A, lower, upper, low, high


class ControlProgramme(NamedTuple):
    r"""A control step as :math:`\min_z \frac12\|Fz - t\|^2 + g^Tz` in :math:`z = (\mu, \lambda, s)`.

    These are actuation, contacts, broken fences. Weights of contacts are 1e10 times those of the actuation, so that
    :math:`F^TF` would be singular to rounding.
    """

    F: FloatArray  # (e, n), of full column rank
    t: FloatArray  # (e,)
    g: FloatArray  # (n,)
    A: FloatArray  # (r, n)
    lower: FloatArray  # (r,)
    upper: FloatArray  # (r,)
    low: FloatArray  # (n,) bounds of z
    high: FloatArray  # (n,)


RANK_PART = 1e-14  # [-] of a diagonal entry; below it a pivot is rounding


@kernel
def factor_semidefinite(matrix: FloatArray) -> FloatArray:
    """Upper factor U ``(n, n)`` of a symmetric matrix, :math:`U^TU`; rows of directions that it does not feel are 0."""
    n = matrix.shape[0]
    rest, U = matrix.copy(), np.zeros((n, n))
    for k in range(n):
        if rest[k, k] <= RANK_PART * matrix[k, k] or rest[k, k] <= 0.0:
            continue
        pivot = sqrt(rest[k, k])
        for j in range(k, n):
            U[k, j] = rest[k, j] / pivot
        for i in range(k + 1, n):
            f = U[k, i]
            if f != 0.0:
                for j in range(i, n):
                    rest[i, j] -= f * U[k, j]
    return U


class GoalWeights(NamedTuple):
    """Terms of a programme, besides what a relaxation adds."""

    goal_matrix: FloatArray  # (d, d) Q, positive semidefinite
    goal_vector: FloatArray  # (d,) c, in the range of Q
    held: FloatArray  # (h, d) rows of contacts that stay where they are ...
    held_ends: FloatArray  # (h,) ... and their velocities
    held_weight: float  # of their squared errors
    strength: float  # of the kinetic energy of the actuation
    laziness: float  # of its squared work
    softness: FloatArray  # (m + s,) of squared multipliers and broken fences
    rounding: float  # [-] of the diagonal of F'F, of each unknown


@kernel
def assemble_goals(kinetics: Kinetics, goals: GoalWeights, extra: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows F ``(e, n)`` and t ``(e,)`` of a ``ControlProgramme``; ``extra`` is one more Hessian ``(k + m, k + m)``."""
    free_velocity, response, gram = kinetics
    d, km = response.shape
    k, held = d - ROOT_SIZE, goals.held.shape[0]
    n, more = k + goals.softness.size, extra.shape[0]
    U = factor_semidefinite(goals.goal_matrix)
    F, t = np.zeros((d + held + 1 + more + n, n)), np.zeros(d + held + 1 + more + n)
    # Goals: |U v + U^-T c|^2 with v = v_free + response (mu, lambda)
    offset = goals.goal_vector.copy()
    for i in range(d):
        offset[i] = offset[i] / U[i, i] if U[i, i] > 0.0 else 0.0
        for c in range(i + 1, d):
            offset[c] -= U[i, c] * offset[i]
        t[i] = -offset[i]
        for c in range(i, d):
            f = U[i, c]
            if f != 0.0:
                t[i] -= f * free_velocity[c]
                for j in range(km):
                    F[i, j] += f * response[c, j]
    # Contacts that stay
    root = sqrt(2.0 * goals.held_weight)
    for h in range(held):
        i = d + h
        t[i] = root * goals.held_ends[h]
        for c in range(d):
            f = root * goals.held[h, c]
            if f != 0.0:
                t[i] -= f * free_velocity[c]
                for j in range(km):
                    F[i, j] += f * response[c, j]
    # Laziness, and the relaxation
    i = d + held
    for a in range(k):
        F[i, a] = sqrt(2.0 * goals.laziness) * free_velocity[ROOT_SIZE + a]
    i += 1
    if more:
        F[i : i + more, :more] = factor_semidefinite(extra)
    i += more
    # Strength; softness of contacts and fences; and rounding, relative to all of that
    effort = 2.0 * goals.strength * gram[:k, :k]
    for a in range(n):
        felt = effort[a, a] if a < k else goals.softness[a - k]
        for e in range(i):
            felt += F[e, a] * F[e, a]
        if a < k:
            effort[a, a] += goals.rounding * felt
        else:
            F[i + a, a] = sqrt(goals.softness[a - k] + goals.rounding * felt)
    F[i : i + k, :k] = factor_semidefinite(effort)
    return F, t


@kernel
def reduce_programme(
    programme: ControlProgramme,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, NDArray[np.int32]]:
    r"""The same programme in :math:`y = Rz`, as daqp takes it: :math:`\min\frac12\|y\|^2 + f^Ty` under rows.

    R comes from Householder reflections of F, which do not square its condition.

    Returns:
        :math:`R^{-1}`, f, rows of unit length, their upper and lower ends, and their kinds.
    """
    F, t, g, A, lower, upper, low, high = programme
    e, n = F.shape
    work, v, w = np.empty((e, n + 1)), np.zeros(e), np.empty(n + 1)
    work[:, :n], work[:, n] = F, t
    for k in range(n):
        total = 0.0
        for i in range(k, e):
            v[i] = work[i, k]
            total += v[i] * v[i]
        length = sqrt(total)
        if length <= 0.0:
            continue
        alpha = -length if v[k] >= 0.0 else length
        v[k] -= alpha
        scale = 1.0 / (length * abs(v[k]))
        w[k:] = 0.0
        for i in range(k, e):
            f = v[i]
            if f != 0.0:
                for j in range(k + 1, n + 1):
                    w[j] += f * work[i, j]
        for i in range(k, e):
            f = scale * v[i]
            if f != 0.0:
                for j in range(k + 1, n + 1):
                    work[i, j] -= f * w[j]
        work[k, k] = alpha
    # R^-1, row by row from below
    inverse = np.zeros((n, n))
    for i in range(n - 1, -1, -1):
        inverse[i, i] = 1.0
        for c in range(i + 1, n):
            f = work[i, c]
            if f != 0.0:
                for j in range(c, n):
                    inverse[i, j] -= f * inverse[c, j]
        for j in range(i, n):
            inverse[i, j] /= work[i, i]
    # f = R^-T g - Q^T t
    slope = -work[:n, n].copy()
    for i in range(n):
        if g[i] != 0.0:
            for j in range(i, n):
                slope[j] += g[i] * inverse[i, j]
    # Bounds of the unknowns that have any, then rows, each of unit length
    first = 0
    for i in range(n):
        if low[i] > -np.inf or high[i] < np.inf:
            first += 1
    count = first + A.shape[0]
    rows, least, most, sense = np.zeros((count, n)), np.empty(count), np.empty(count), np.zeros(count, dtype=np.int32)
    row = 0
    for i in range(n):
        if low[i] > -np.inf or high[i] < np.inf:
            rows[row], least[row], most[row] = inverse[i], low[i], high[i]
            row += 1
    for i in range(A.shape[0]):
        least[first + i], most[first + i] = lower[i], upper[i]
        for c in range(n):
            f = A[i, c]
            if f != 0.0:
                for j in range(c, n):
                    rows[first + i, j] += f * inverse[c, j]
    for i in range(count):
        total = 0.0
        for j in range(n):
            total += rows[i, j] * rows[i, j]
        length = sqrt(total) if total > 0.0 else 1.0
        for j in range(n):
            rows[i, j] /= length
        least[i], most[i] = max(least[i] / length, -NO_BOUND), min(most[i] / length, NO_BOUND)
        if least[i] == most[i]:
            sense[i] = EQUALITY
    return inverse, slope, rows, most, least, sense


@kernel
def null_space(rows: FloatArray, part: float) -> FloatArray:
    """Orthonormal directions ``(n, f)`` that rows ``(r, n)`` feel less than a part of what they feel most.

    Householder reflections with pivots; plain loops, since so small a matrix does not pay for threads.
    """
    r, n = rows.shape
    A, Q, v = rows.copy(), np.eye(n), np.empty(n)
    first, rank = 0.0, 0
    for k in range(min(r, n)):
        # Pivot: the row with the longest rest
        best, largest = k, -1.0
        for i in range(k, r):
            total = 0.0
            for j in range(k, n):
                total += A[i, j] * A[i, j]
            if total > largest:
                best, largest = i, total
        largest = sqrt(largest)
        first = max(first, largest)
        if largest <= part * first or largest <= 1e-300:
            break
        for j in range(n):
            A[k, j], A[best, j] = A[best, j], A[k, j]
        # Householder vector of the pivot row
        sign = 1.0 if A[k, k] >= 0.0 else -1.0
        length = 0.0
        for j in range(k, n):
            v[j] = A[k, j] + (sign * largest if j == k else 0.0)
            length += v[j] * v[j]
        # Reflect the rows, and gather the reflections in Q
        for i in range(k, r):
            total = 0.0
            for j in range(k, n):
                total += A[i, j] * v[j]
            for j in range(k, n):
                A[i, j] -= 2.0 * total / length * v[j]
        for i in range(n):
            total = 0.0
            for j in range(k, n):
                total += Q[i, j] * v[j]
            for j in range(k, n):
                Q[i, j] -= 2.0 * total / length * v[j]
        rank = k + 1
    return np.ascontiguousarray(Q[:, rank:])


@dataclass(frozen=True, eq=False, repr=False)
class ControlProblem:
    r"""Goals, mechanics and contacts of one step, as matrices.

    .. math:: \min_{\mu}\ \tfrac12 v^T Q v + c^T v,\qquad
              v = \arg\min_{Jv \ge b} \tfrac12 v^T M v - (f + A^T\mu)^T v

    where A picks the coordinates that have actuators: all but the root's six. [Tournier2011]_ §14.2. Impulses, not
    forces, so that bounds on the actuation are forces times the time step. Rows of friction (ours) have a partner that
    presses: :math:`|\lambda_t| \le g\,\lambda_n`; their velocity is free, and the goals may ask it to be zero. Fences
    (ours) are one-sided goals, :math:`F v \ge e` as far as it goes.
    """

    inertia: FloatArray  # (d, d) M, damping included
    impulse: FloatArray  # (d,) f: momentum carried on, and what acts without actuation
    rows: FloatArray  # (m, d) J
    ends: FloatArray  # (m,) b
    is_equal: BoolArray  # (m,) rows that hold exactly; their multipliers may have any sign
    goal_matrix: FloatArray  # (d, d) Q
    goal_vector: FloatArray  # (d,) c
    strongest: FloatArray  # (k,) largest impulse of each actuator
    partners: IntArray = field(
        default_factory=lambda: np.zeros(0, dtype=np.int64)
    )  # (m,) pressing row of friction, or -1
    grips: FloatArray = field(default_factory=lambda: np.zeros(0))  # (m,) coefficients of friction
    fences: FloatArray = field(default_factory=lambda: np.zeros(0))  # (s, d) F
    fence_ends: FloatArray = field(default_factory=lambda: np.zeros(0))  # (s,) e
    fence_weight: float = 1e4  # of the squared velocity by which a fence is broken

    def __post_init__(self) -> None:
        d, m, s = (np.asarray(a).size for a in (self.impulse, self.ends, self.fence_ends))
        if not np.asarray(self.partners).size:
            object.__setattr__(self, "partners", np.full(m, -1))
            object.__setattr__(self, "grips", np.zeros(m))
        if not s:
            object.__setattr__(self, "fences", np.zeros((0, d)))
        shapes = {
            "inertia": (d, d),
            "impulse": (d,),
            "rows": (m, d),
            "ends": (m,),
            "goal_matrix": (d, d),
            "goal_vector": (d,),
            "strongest": (d - ROOT_SIZE,),
            "grips": (m,),
            "fences": (s, d),
            "fence_ends": (s,),
        }
        for name, shape in shapes.items():
            object.__setattr__(self, name, frozen(getattr(self, name), *shape, name=name))
        object.__setattr__(self, "is_equal", frozen_bools(self.is_equal, m, name="is_equal"))
        object.__setattr__(self, "partners", frozen_ints(self.partners, m, name="partners"))
        if d <= ROOT_SIZE or (self.strongest < 0.0).any():
            raise InputError("there is no actuator, or one has a negative bound", "Give at least one mode, bounds >= 0")

    @property
    def num_actuators(self) -> int:
        """How many coordinates have an actuator."""
        return self.impulse.size - ROOT_SIZE

    @cached_property
    def is_friction(self) -> BoolArray:
        """Rows ``(m,)`` whose impulses are bounded by those of others."""
        return self.partners >= 0

    @cached_property
    def kinetics(self) -> Kinetics:
        """Velocities that forces lead to."""
        *found, is_definite = compute_kinetics(self.inertia, self.impulse, self.rows)
        if not is_definite:
            raise InputError("the inertia is not positive definite", "Give mass to every segment that moves")
        return Kinetics(*found)

    def with_goals(self, goal_matrix: FloatArray, goal_vector: FloatArray) -> ControlProblem:
        """The same mechanics and contacts with other goals; nothing is checked or worked out again."""
        other = copy(self)
        object.__setattr__(other, "goal_matrix", goal_matrix)
        object.__setattr__(other, "goal_vector", goal_vector)
        return other

    def goal(self, velocity: FloatArray) -> float:
        """Value of the goals at a velocity."""
        return float(0.5 * velocity @ self.goal_matrix @ velocity + self.goal_vector @ velocity)
