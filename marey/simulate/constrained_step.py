r"""One step under constraints: the velocity that is nearest to the free one, by mass, and keeps all rows.

A row is a linear constraint on the velocity. The step :math:`\arg\min \frac12 v^T M v - f^T v` with rows
:math:`J v = b`, :math:`J v \ge b` has the dual

.. math:: \min_{l \le \lambda \le u} \tfrac12 \lambda^T (J M^{-1} J^T + E)\,\lambda - (b - J M^{-1} f)^T \lambda,
          \qquad v = M^{-1}(f + J^T \lambda)

[Tournier2011]_ §10.3. E is a small compliance, so that the programme has one solution whatever the rows are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import sqrt
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.simulate.bounded_qp import BoundedProgramme, back_substitute, forward_substitute, solve_bounded

BILATERAL: Final = 0
UNILATERAL: Final = 1
HARD: Final = 1e-10  # [-] of a row's own diagonal entry: compliance of rows that must hold
NO_SLOT: Final = -1


NameArray: TypeAlias = NDArray[np.object_]


@dataclass(frozen=True, slots=True, eq=False)
class ConstraintRows:
    r"""Constraints :math:`J v = b` and :math:`J v \ge b` on a velocity, with bounds on their multipliers.

    A bilateral row has a multiplier without bounds, a unilateral one a multiplier that is not negative.
    """

    J: FloatArray  # (m, d)
    b: FloatArray  # (m,)
    lower: FloatArray  # (m,) of the multipliers [N s]
    upper: FloatArray  # (m,)
    directions: FloatArray  # (m, 3) in world, in which a unit impulse of a contact's row pushes; zero for other rows
    owners: IntArray  # (m,) number of the contact in this step, or -1
    slots: IntArray  # (m,) which of all possible rows of the figure it is; NO_SLOT for rows made by the user
    partners: IntArray  # (m,) for a tangential row the normal one that bounds it by friction; -1 for none
    grips: FloatArray  # (m,) coefficient of friction of the contact's ground; zero for other rows
    priorities: IntArray  # (m,) priority when not all rows can hold; lower ones are relaxed first
    names: NameArray  # (m,)

    @property
    def kinds(self) -> IntArray:
        """``BILATERAL`` or ``UNILATERAL`` for each row ``(m,)``."""
        return np.where(np.isneginf(self.lower), BILATERAL, UNILATERAL)

    def __len__(self) -> int:
        return len(self.b)


class RowTable(NamedTuple):
    """The first arrays of ``ConstraintRows``, as the kernels take them."""

    J: FloatArray  # (m, d)
    b: FloatArray  # (m,)
    lower: FloatArray  # (m,)
    upper: FloatArray  # (m,)
    directions: FloatArray  # (m, 3)
    owners: IntArray  # (m,)
    slots: IntArray  # (m,)
    partners: IntArray  # (m,)
    grips: FloatArray  # (m,)


@kernel
def append_rows(table: RowTable, J: FloatArray, b: FloatArray, slots: IntArray) -> RowTable:
    """Table with one-sided rows ``(m, d)`` that belong to no contact after its own."""
    first, d = table.b.shape[0], table.J.shape[1]
    count = first + b.shape[0]
    whole, ends = np.empty((3, count), dtype=np.int64), np.empty((4, count))
    rows, directions = np.empty((count, d)), np.zeros((count, 3))
    out = RowTable(rows, ends[0], ends[1], ends[2], directions, whole[0], whole[1], whole[2], ends[3])
    out.J[:first], out.b[:first], out.lower[:first], out.upper[:first] = table.J, table.b, table.lower, table.upper
    out.directions[:first], out.owners[:first], out.slots[:first] = table.directions, table.owners, table.slots
    out.partners[:first], out.grips[:first] = table.partners, table.grips
    out.J[first:], out.b[first:], out.lower[first:], out.upper[first:] = J, b, 0.0, np.inf
    out.owners[first:], out.slots[first:], out.partners[first:], out.grips[first:] = NO_SLOT, slots, NO_SLOT, 0.0
    return out


class ContactMemory(NamedTuple):
    """What the last step left behind for contacts."""

    anchors: FloatArray  # (P, C, 3) [m]
    anchored: BoolArray  # (P, C)
    pushes: FloatArray  # (P, C) [N s]


def make_rows(
    J: FloatArray,
    b: FloatArray,
    *,
    is_equality: bool,
    name: str,
    priority: int = 1,
    slots: IntArray | None = None,
    names: Sequence[str] | NameArray | None = None,
) -> ConstraintRows:
    """Rows that belong to no contact."""
    count = len(b)
    lower, upper = np.full(count, -np.inf if is_equality else 0.0), np.full(count, np.inf)
    none = np.full(count, NO_SLOT, dtype=np.int64)
    slots = none if slots is None else slots
    titles: NameArray = np.array([name] * count if names is None else names, dtype=object)
    ends = (J, b, lower, upper, np.zeros((count, 3)), none, slots, none, np.zeros(count))
    return ConstraintRows(*ends, np.full(count, priority), titles)


def stack_rows(parts: Sequence[ConstraintRows]) -> ConstraintRows:
    """Rows of several kinds as one set; only the first may have partners."""
    if len(parts) == 1:
        return parts[0]
    columns = [column.name for column in fields(ConstraintRows)]
    return ConstraintRows(*(np.concatenate([getattr(part, column) for part in parts]) for column in columns))


CONFLICT = 1e-6  # [m/s] missed by more than this, rows contradict one another
IMPLAUSIBLE_ENERGY_RATIO = 10.0  # [-] of the speed that a row asks for; the figure never has to move faster
SLOW = 1.0  # [m/s] where nothing is asked for
BOUND_TOL = 1e-6  # [-] change of the bounds of friction at which normal and tangential impulses agree
PARALLEL = 1.0 - 1e-9  # [-] cosine above which two rows are one


@kernel
def solve_constrained_velocity(
    U: FloatArray,
    free_velocity: FloatArray,
    rows: RowTable,
    compliance: FloatArray,
    start: FloatArray,
    tolerance: float,
    max_passes: int,
) -> tuple[FloatArray, FloatArray, FloatArray, int, int, bool, bool]:
    """Velocity ``(d,)``, multipliers ``(m,)``, how far each row is missed ``(m,)``, changes and passes.

    Then whether all rows are kept, and whether that takes an energy out of all proportion to what they ask for.

    Args:
        U: upper factor of the inertia ``(d, d)``.
        free_velocity: velocity without any row ``(d,)``.
        rows: what must hold.
        compliance: of each row ``(m,)``, as a part of its own diagonal entry.
        start: guess of the multipliers ``(m,)``.
        tolerance: [m/s] rows may be missed by this, relative to the largest right-hand side above one.
        max_passes: of normal and tangential impulses in turn.
    """
    # Rows in the metric of M: W = J U^{-1}
    J = rows.J
    m, d = J.shape
    W = J.copy()
    for i in range(m):
        forward_substitute(U, W[i])
    # Dual programme: A = J M^{-1} J^T = W W^T and r = b - J v_free
    A, columns, r = np.zeros((m, m)), np.ascontiguousarray(W.T), rows.b.copy()
    for i in range(m):
        for k in range(d):
            r[i] -= J[i, k] * free_velocity[k]
            f = W[i, k]
            if f != 0.0:
                for j in range(i + 1):  # plain loops are faster than threads for small products
                    A[i, j] += f * columns[k, j]
    for i in range(m):
        for j in range(i):
            A[j, i] = A[i, j]
    size = 1.0
    for i in range(m):
        size = max(size, abs(r[i]))
    # Redundant rows go: those that no velocity changes, and the slacker ones of parallel rows
    kept = np.ones(r.shape[0], dtype=np.bool_)
    for row in range(r.shape[0]):
        kept[row] = A[row, row] > 0.0  # a row that nothing can change is dropped
    # Keep only the tighter one of two one-sided rows that point the same way
    count = A.shape[0]
    for row in range(count):
        if not kept[row] or rows.lower[row] != 0.0 or not np.isinf(rows.upper[row]):
            continue
        for other in range(row + 1, count):
            if not kept[other] or rows.lower[other] != 0.0 or not np.isinf(rows.upper[other]):
                continue
            if A[row, other] > PARALLEL * sqrt(A[row, row] * A[other, other]):
                if r[row] * sqrt(A[other, other]) >= r[other] * sqrt(A[row, row]):
                    kept[other] = False
                else:
                    kept[row] = False
                    break
    # The compliance keeps A positive definite
    soft = np.empty(m)
    for i in range(m):
        soft[i] = compliance[i] * A[i, i]
        A[i, i] += soft[i]
    programme = BoundedProgramme(A, r, rows.lower.copy(), rows.upper.copy())
    x, changes, passes = start.copy(), 0, 0
    while passes < max_passes:
        x, more = solve_bounded(programme, kept, x, soft, tolerance * size, 20 + 4 * m)
        changes += more
        passes += 1
        # Staggered friction: bound tangential multipliers by mu times the normal ones until the bounds settle
        low, high = programme.lower, programme.upper
        moved, greatest = 0.0, 0.0
        for i in range(x.shape[0]):
            if rows.partners[i] >= 0:
                bound = rows.grips[i] * max(0.0, x[rows.partners[i]])
                moved, greatest = max(moved, abs(bound - high[i])), max(greatest, bound)
                low[i], high[i] = -bound, bound
        if moved <= BOUND_TOL * greatest:
            break
    # v = v_free + U^{-1} W^T lambda
    y = np.zeros(d)
    for i in range(x.shape[0]):
        if x[i] != 0.0:
            for k in range(d):
                y[k] += W[i, k] * x[i]
    back_substitute(U, y)
    velocity = free_velocity + y
    # How far the velocity breaks each row; rows with bounded multipliers may be broken
    missed, worst, largest, fastest = np.zeros(m), 0.0, 1.0, SLOW
    for i in range(m):
        gap = rows.b[i]
        for k in range(d):
            gap -= J[i, k] * velocity[k]
        if np.isinf(rows.lower[i]):
            missed[i] = abs(gap)
        elif np.isinf(rows.upper[i]):
            missed[i] = max(0.0, gap)
        worst, largest = max(worst, missed[i]), max(largest, abs(rows.b[i]))
        fastest = max(fastest, abs(rows.b[i]) if np.isneginf(rows.lower[i]) else rows.b[i])
    # Rows that nearly contradict one another, as those of a floor and a lid with a figure between them, may be kept
    # only by an energy out of all proportion to the speeds that they ask for
    before = after = heaviest = 0.0
    for k in range(d):
        slow = fast = 0.0
        for j in range(k, d):
            slow, fast = slow + U[k, j] * free_velocity[j], fast + U[k, j] * velocity[j]
        mass = 0.0
        for i in range(k + 1):
            mass += U[i, k] ** 2
        before, after, heaviest = before + 0.5 * slow * slow, after + 0.5 * fast * fast, max(heaviest, mass)
    is_implausible = after > before + 0.5 * heaviest * (IMPLAUSIBLE_ENERGY_RATIO * fastest) ** 2
    return velocity, x, missed, changes, passes, worst <= CONFLICT * largest, is_implausible


TOLERANCE: Final = 1e-10  # [m/s], [rad/s] rows may be missed by; a decade below what is promised
COMPLIANCES: Final = (1e-6, 1e-4, 1e-2)  # [-] compliance of the highest priority in that case
PRIORITY_STEP: Final = 1e3  # [-] each lower priority is softer by this
MAX_COMPLIANCE: Final = 1e-2  # [-]
REPORTED_VIOLATION: Final = 1e-5  # [m/s] a row that is missed by more is named
MAX_PASSES: Final = 20  # of staggered friction


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StepSolution:
    r"""Velocity of a step and the multipliers of its rows, :math:`v = M^{-1}(f + J^T\lambda)`."""

    velocity: FloatArray  # (d,)
    multipliers: FloatArray  # (m,) [N s]
    missed: FloatArray  # (m,) how far each row is broken
    relaxed: tuple[str, ...]  # names of rows that could not all be kept
    changes: int  # of the active set
    passes: int  # of staggered friction; one for everything else
    is_converged: bool

    def __repr__(self) -> str:
        note = f", relaxed {', '.join(self.relaxed)}" if self.relaxed else ""
        return f"Solution({len(self.multipliers)} rows, {self.changes} changes{note})"


def solve_factored(
    U: FloatArray, free_velocity: FloatArray, rows: ConstraintRows, *, start: FloatArray | None = None
) -> StepSolution:
    r"""Minimise :math:`\frac12 v^T M v - f^T v` under rows :math:`J v = b`, :math:`J v \ge b`.

    [Tournier2011]_ §10.3. Rows that repeat one another change nothing. Rows that contradict one another are relaxed,
    those of the lowest priority most, and named.

    Args:
        U: upper Cholesky factor ``(d, d)`` of the inertia M, with any damping in it.
        free_velocity: ``(d,)`` without rows, :math:`M^{-1}f`.
        rows: what must hold.
        start: guess of the multipliers ``(m,)``.
    """
    count = len(rows)
    contacts = (rows.directions, rows.owners, rows.slots, rows.partners, rows.grips)
    ends = RowTable(rows.J, rows.b, rows.lower, rows.upper, *contacts)

    def solve_with_compliance(compliance: FloatArray, guess: FloatArray) -> tuple[StepSolution, bool, bool]:
        found = solve_constrained_velocity(U, free_velocity, ends, compliance, guess, TOLERANCE, MAX_PASSES)
        velocity, x, missed, changes, passes, is_kept, is_implausible = found
        is_converged = changes <= passes * (20 + 4 * count)
        return StepSolution(velocity, x, missed, (), changes, passes, is_converged), is_kept, is_implausible

    guess = np.zeros(count) if start is None else start
    found, is_kept, is_implausible = solve_with_compliance(np.full(count, HARD), guess)
    for softness in COMPLIANCES:
        if is_kept and not is_implausible:
            break
        # Compliance `(m,)` of rows that cannot all be kept, the highest priority's given
        below = rows.priorities.max() - rows.priorities
        compliance = np.minimum(softness * PRIORITY_STEP**below, MAX_COMPLIANCE)
        softer, _, is_implausible = solve_with_compliance(compliance, np.zeros(count))
        names = tuple(dict.fromkeys(rows.names[int(i)] for i in np.flatnonzero(softer.missed > REPORTED_VIOLATION)))
        found, is_kept = replace(softer, relaxed=names, changes=found.changes + softer.changes), True
    return found
