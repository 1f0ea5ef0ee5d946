"""One sparse programme for every motion: rows and costs at instants, chained through the bases of splines.

At an instant a motion has S local unknowns (angles, amplitudes, displacements). Each is a cubic spline, of which four
coefficients count there. Rows and residuals come with their derivatives by the local unknowns, their rates and their
accelerations; here they are chained to the coefficients and put where they belong. The pattern of the sparse matrices
is found once, afterwards only values change. Full, reduced and displaced motions differ in what rows say, not here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray, kernel

TABLE_FRACTION: Final = 4  # [-] places of a matrix for each entry, up to which a table of all places is quick
State = TypeVar("State")  # of a motion at all instants of a programme

_NEXT_AXIS, _LAST_AXIS = np.array([1, 2, 0]), np.array([2, 0, 1])


def cross_rows(a: FloatArray, b: FloatArray) -> FloatArray:
    """Vector products of rows ``(n, 3)``, without the checks that make NumPy's slow on few of them."""
    return a[:, _NEXT_AXIS] * b[:, _LAST_AXIS] - a[:, _LAST_AXIS] * b[:, _NEXT_AXIS]


def skew_matrices(vectors: FloatArray) -> FloatArray:
    """Matrices ``(n, 3, 3)`` of the vector product with ``(n, 3)``."""
    matrices = np.zeros((*vectors.shape, 3))
    matrices[..., 0, 1], matrices[..., 0, 2] = -vectors[..., 2], vectors[..., 1]
    matrices[..., 1, 0], matrices[..., 1, 2] = vectors[..., 2], -vectors[..., 0]
    matrices[..., 2, 0], matrices[..., 2, 1] = -vectors[..., 1], vectors[..., 0]
    return matrices


@dataclass(frozen=True, slots=True, eq=False)
class StateJet:
    r"""Values :math:`y(q, \dot q, \ddot q)` at instants, and :math:`\partial y / \partial(q, \dot q, \ddot q)`.

    Here q are the local unknowns of a motion. Without derivatives there are no columns.
    """

    value: FloatArray  # (n, m)
    partials: FloatArray  # (3, n, m, S) by q, qd, qdd

    def __add__(self, other: StateJet | FloatArray) -> StateJet:
        if isinstance(other, StateJet):
            return StateJet(self.value + other.value, self.partials + other.partials)
        return StateJet(self.value + other, self.partials)

    def __sub__(self, other: StateJet | FloatArray) -> StateJet:
        if isinstance(other, StateJet):
            return StateJet(self.value - other.value, self.partials - other.partials)
        return StateJet(self.value - other, self.partials)

    def __mul__(self, factor: float | FloatArray) -> StateJet:
        by = factor[..., None] if isinstance(factor, np.ndarray) else factor
        return StateJet(self.value * factor, self.partials * by)

    def at(self, instants: IntArray) -> StateJet:
        """Only some instants."""
        return StateJet(self.value[instants], self.partials[:, instants])

    def columns(self, components: IntArray) -> StateJet:
        """Only some components."""
        return StateJet(self.value[:, components], self.partials[:, :, components])

    def entries(self, instants: IntArray, components: IntArray) -> StateJet:
        """One component ``(n, 1)`` of each of some instants."""
        return StateJet(self.value[instants, components][:, None], self.partials[:, instants, components][:, :, None])

    def apply_matrix(self, matrix: FloatArray) -> StateJet:
        """Apply a constant matrix ``(r, m)``."""
        return StateJet(self.value @ matrix.T, matrix @ self.partials)

    def component_along(self, directions: FloatArray) -> StateJet:
        """Component along a direction ``(n, m)`` of each instant."""
        value = np.einsum("ni,ni->n", directions, self.value)[:, None]
        return StateJet(value, np.einsum("ni,pnid->pnd", directions, self.partials)[:, :, None])

    def cross(self, other: StateJet) -> StateJet:
        """Vector product of two jets of three components."""
        partials = skew_matrices(self.value) @ other.partials - skew_matrices(other.value) @ self.partials
        return StateJet(cross_rows(self.value, other.value), partials)

    @staticmethod
    def stack(jets: list[StateJet]) -> StateJet:
        """Components of several jets side by side."""
        return StateJet(np.concatenate([j.value for j in jets], 1), np.concatenate([j.partials for j in jets], 2))


@dataclass(slots=True, eq=False)
class Unknowns:
    """All unknowns of a motion; those that are free are scaled and ordered for the solver."""

    values: FloatArray  # (K,) of what is fixed, and of the guess
    scales: FloatArray  # (K,) a change by one of the solver's variable is large
    lower: FloatArray  # (K,)
    upper: FloatArray  # (K,)
    order: IntArray  # (n,) the free ones; time-major orders make a narrow band

    def pack(self, values: FloatArray) -> FloatArray:
        """The solver's vector ``(n,)``."""
        return values[self.order] / self.scales[self.order]

    def unpack(self, x: FloatArray) -> FloatArray:
        """All unknowns ``(K,)``."""
        full = self.values.copy()
        full[self.order] = x * self.scales[self.order]
        return full


@dataclass(frozen=True, slots=True, eq=False)
class InstantBasis:
    """Coefficients that count at N instants, and their basis functions."""

    coefficients: IntArray  # (N, S, 4) numbers among all unknowns; -1 where a slot is empty
    basis: FloatArray  # (N, S, 3, 4) values, first and second derivatives


Factors = FloatArray | None  # (n, m, g) derivatives by unknowns that are no spline


@dataclass(frozen=True, eq=False)
class RowGroup(Generic[State]):
    """Rows of one kind: m at each of some instants. ``evaluate`` takes the state and all unknowns."""

    instants: IntArray  # (n,)
    lower: FloatArray  # (n, m); (r, m) if instants share rows
    upper: FloatArray  # (n, m)
    names: Sequence[str]  # (n m,) what each row says, and when
    evaluate: Callable[[State, FloatArray], tuple[StateJet, Factors]]
    columns: IntArray | None = None  # (n, m, g) unknowns besides the splines
    owner: IntArray | None = None  # (n,) rows to which an instant adds; its own by default
    mask: BoolArray | None = None  # (n, S) local unknowns that an instant may depend on; all by default
    is_linear: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class QuadraticTerm:
    """A cost ``(x - x0)^T Q (x - x0)`` in all unknowns."""

    name: str
    matrix: Any  # (K, K) csc_array
    centre: FloatArray  # (K,)


@dataclass(frozen=True, eq=False)
class ResidualTerm(Generic[State]):
    """A cost ``sum_n w_n |r_n|^2``: Gauss-Newton. A residual may add parts from several instants of one span."""

    name: str
    parts: tuple[IntArray, ...]  # instants (n,) of each part
    weights: FloatArray  # (n,)
    evaluate: Callable[[State], tuple[StateJet, ...]]  # (n, m) each
    is_linear: bool = False  # in the unknowns


@dataclass(frozen=True, eq=False)
class GradientTerm(Generic[State]):
    """A cost ``sum_n w_n c_n`` of which only slopes are known: it adds nothing to the Hessian."""

    name: str
    instants: IntArray  # (n,)
    weights: FloatArray  # (n,)
    evaluate: Callable[[State], tuple[FloatArray, FloatArray]]  # costs (n,), slopes (3, n, S) by q, qd, qdd


@dataclass(frozen=True, eq=False)
class CostTerms(Generic[State]):
    """All terms of an objective."""

    quadratics: Sequence[QuadraticTerm] = ()
    residuals: Sequence[ResidualTerm[State]] = ()
    gradients: Sequence[GradientTerm[State]] = field(default_factory=tuple)
    ridge: FloatArray | None = None  # (K,) added to the diagonal of the Hessian alone, for what costs nothing


class SparsePattern:
    """Where entries go in a compressed column matrix; ``keys`` are ``column * shape[0] + row`` of each."""

    def __init__(self, keys: IntArray, shape: tuple[int, int]) -> None:
        self.shape, size = shape, shape[0] * shape[1]
        if size <= TABLE_FRACTION * keys.size:
            # Many entries for their places: by a table of all places
            table = np.zeros(size, dtype=np.int64)
            table[keys] = 1
            unique = np.flatnonzero(table)
            table[unique] = np.arange(unique.size)
            self.positions: IntArray = table[keys]  # (E,) entries of one place share it
        else:
            unique, self.positions = np.unique(keys, return_inverse=True)
        self.indices = (unique % max(shape[0], 1)).astype(np.int32)
        self.pointers = np.searchsorted(unique, np.arange(shape[1] + 1) * shape[0]).astype(np.int32)

    def collect(self, positions: IntArray, values: FloatArray) -> FloatArray:
        """Data ``(nnz,)`` with values added up at positions."""
        return np.bincount(positions, weights=values, minlength=self.indices.size).astype(np.float64, copy=False)

    def matrix(self, data: FloatArray) -> Any:
        """The ``csc_array`` with values ``(nnz,)``."""
        from scipy.sparse import csc_array

        return csc_array((data, self.indices, self.pointers), shape=self.shape)


@kernel
def scatter_rows(
    entries: IntArray, positions: IntArray, blocks: FloatArray, basis: FloatArray, scales: FloatArray, data: FloatArray
) -> None:
    """Add ``blocks[:, row, slot] . basis[instant, slot, :, k] * scale`` to the sparse values ``data``.

    Args:
        entries: row of ``blocks``, instant, slot and k of each entry ``(E, 4)``.
        positions: where each entry goes in ``data`` ``(E,)``.
        blocks: derivatives of rows by local unknowns, rates and accelerations ``(3, B, S)``.
        basis: ``(N, S, 3, 4)``.
        scales: of the variable of each entry ``(E,)``.
        data: values of the sparse matrix, added to.
    """
    for e in range(len(entries)):
        r, n, s, k = entries[e, 0], entries[e, 1], entries[e, 2], entries[e, 3]
        value = 0.0
        for d in range(3):
            value += blocks[d, r, s] * basis[n, s, d, k]
        data[positions[e]] += scales[e] * value


@kernel
def chain_blocks(
    partials: FloatArray, instants: IntArray, basis: FloatArray, scales: FloatArray, slopes: FloatArray
) -> None:
    r"""Add :math:`Y_q\phi + Y_{\dot q}\dot\phi + Y_{\ddot q}\ddot\phi`, times scales, to ``slopes`` ``(n, m, 4 S)``.

    Args:
        partials: derivatives by local unknowns, rates and accelerations ``(3, n, m, S)``.
        instants: of the programme ``(n,)``.
        basis: ``(N, S, 3, 4)``.
        scales: ``(n, 4 S)``.
        slopes: added to.
    """
    for n in range(slopes.shape[0]):
        at = instants[n]
        for m in range(slopes.shape[1]):
            for s in range(partials.shape[3]):
                y0, y1, y2 = partials[0, n, m, s], partials[1, n, m, s], partials[2, n, m, s]
                for k in range(4):
                    value = y0 * basis[at, s, 0, k] + y1 * basis[at, s, 1, k] + y2 * basis[at, s, 2, k]
                    slopes[n, m, 4 * s + k] += value * scales[n, 4 * s + k]


class _CostWindow:
    """Variables that a cost at each of some instants sees, and where its Hessian goes."""

    def __init__(self, numbers: IntArray, scales: FloatArray, size: int) -> None:
        self.numbers = np.maximum(numbers, 0)  # (n, C)
        self.scales = np.where(numbers >= 0, scales, 0.0)  # none for what is fixed
        # Instants that see the same of the C variables; the others, most of them empty slots, are in no product
        patterns, which = np.unique(numbers >= 0, axis=0, return_inverse=True)
        columns = [np.flatnonzero(pattern) for pattern in patterns]
        self.groups = [(np.flatnonzero(which.ravel() == k)[:, None], own) for k, own in enumerate(columns)]
        seen = [self.numbers[group] for group in self.groups]
        self.keys = np.concatenate([(own[:, :, None] + own[:, None] * size).ravel() for own in seen])
        self.positions = self.keys[:0]

    def multiply(self, slopes: FloatArray, weights: FloatArray) -> FloatArray:
        """Entries of J'WJ in the order of the keys, for slopes ``(n, m, C)`` and weights ``(n,)``."""
        parts = [slopes[at, :, own].transpose(0, 2, 1) for at, own in self.groups]
        sizes = [weights[at[:, 0], None, None] for at, _ in self.groups]
        return np.concatenate([((w * own).swapaxes(1, 2) @ own).ravel() for own, w in zip(parts, sizes, strict=True)])


class MotionProgramme(ABC, Generic[State]):
    """Objective, rows and derivatives for the solver; implements :class:`marey.numerics.NonlinearProgramme`.

    Args:
        unknowns: of the motion.
        basis: which of them count at the instants.
        groups: rows.
        costs: terms of the objective.
        probes: all unknowns ``(K,)`` of states that show which entries are ever used; all in the masks without any.

    Raises:
        InputError: a row that no unknown changes does not hold.
    """

    def __init__(
        self,
        unknowns: Unknowns,
        basis: InstantBasis,
        groups: Sequence[RowGroup[State]],
        costs: CostTerms[State],
        *,
        probes: Sequence[FloatArray] = (),
    ) -> None:
        self.unknowns, self.basis, self.costs = unknowns, basis, costs
        self.groups = [group for group in groups if group.lower.size]
        self.lower, self.upper = unknowns.pack(unknowns.lower), unknowns.pack(unknowns.upper)
        # Numbers of the solver's variables and scales, with one more for empty slots
        number = np.full(len(unknowns.values) + 1, -1, dtype=np.int64)
        number[unknowns.order] = np.arange(len(unknowns.order))
        self._number, self._all_scales = number, np.append(unknowns.scales, 0.0)
        self._places = number[basis.coefficients]
        self._place_rows(probes)
        self._place_costs()

    @abstractmethod
    def evaluate_state(self, values: FloatArray, *, derivatives: bool) -> State:
        """The motion at the instants, for all unknowns ``(K,)``; its jets have columns if derivatives are asked for."""

    def _place_rows(self, probes: Sequence[FloatArray]) -> None:
        """Find the pattern of the Jacobian, and ends, names and kinds of the rows."""
        basis, num_slots = self.basis.basis, self.basis.basis.shape[1]
        states = [(self.evaluate_state(probe, derivatives=True), probe) for probe in probes]
        seen = [[group.evaluate(*state) for group in self.groups] for state in states]
        is_active = (basis != 0.0).any(axis=2) & (self._places >= 0)  # (N, S, 4)
        entries, rows, others = list[IntArray](), list[IntArray](), list[tuple[IntArray, IntArray]]()
        first = start = 0
        self._owners: list[IntArray] = []
        for g, group in enumerate(self.groups):
            n, m = len(group.instants), group.lower.shape[1]
            own: IntArray = np.arange(n) if group.owner is None else group.owner
            owner = np.asarray(start + (own[:, None] * m + np.arange(m)), dtype=np.int64)  # (n, m)
            mask = np.ones((n, num_slots), dtype=bool) if group.mask is None else group.mask
            used = np.broadcast_to(mask[:, None], (n, m, num_slots))
            if seen:
                used = used & np.any([(one[g][0].partials != 0.0).any(axis=0) for one in seen], axis=0)
            i, j, slot, k = np.nonzero(used[..., None] & is_active[group.instants][:, None])
            entries.append(np.stack([first + i * m + j, group.instants[i], slot, k], axis=1))
            rows.append(owner[i, j])
            if group.columns is not None:
                columns = group.columns.ravel()
                numbers = np.broadcast_to(owner[:, :, None], group.columns.shape).ravel()
                is_used = self._number[columns] >= 0
                if seen:
                    is_used &= np.any([np.asarray(one[g][1]).ravel() != 0.0 for one in seen], axis=0)
                others.append((np.where(is_used, columns, -1), numbers))
            self._owners.append(owner)
            first, start = first + n * m, start + group.lower.size
        self._entries = np.concatenate([*entries, np.zeros((0, 4), dtype=np.int64)])
        row = np.concatenate([*rows, np.zeros(0, dtype=np.int64)])
        more, more_rows = (np.concatenate([*(o[k] for o in others), np.zeros(0, dtype=np.int64)]) for k in (0, 1))
        self._is_other = more >= 0
        more, more_rows = more[self._is_other], more_rows[self._is_other]
        # Rows that nothing changes are left out
        all_rows = np.concatenate([row, more_rows])
        self._is_kept: BoolArray = np.bincount(all_rows, minlength=start) > 0
        renumbered = np.cumsum(self._is_kept) - 1
        at = (self._entries[:, 1], self._entries[:, 2], self._entries[:, 3])
        self._entry_scales = self._all_scales[self.basis.coefficients[at]]
        self._other_scales = self._all_scales[more]
        columns = np.concatenate([self._places[at], self._number[more]])
        count = int(self._is_kept.sum())
        self._jacobian = SparsePattern(columns * count + renumbered[all_rows], (count, len(self.lower)))
        self._positions = self._jacobian.positions[: len(row)].copy()
        self._other_positions = self._jacobian.positions[len(row) :]
        ends = [
            np.concatenate([np.zeros(0), *(getattr(g, end).ravel() for g in self.groups)]) for end in ("lower", "upper")
        ]
        self.row_lower, self.row_upper = ends[0][self._is_kept], ends[1][self._is_kept]
        sizes = [group.lower.size for group in self.groups]
        self.is_linear: BoolArray = np.repeat([bool(g.is_linear) for g in self.groups], sizes)[self._is_kept]
        names = [name for group in self.groups for name in group.names]
        self._names = [name for name, is_kept in zip(names, self._is_kept, strict=True) if is_kept]
        if count < start:
            guess = self.unknowns.values
            values = self._row_values(self.evaluate_state(guess, derivatives=False), guess)
            wrong = ~self._is_kept & ((values < ends[0] - 1e-9) | (values > ends[1] + 1e-9))
            if wrong.any():
                raise InputError(f"{names[int(np.argmax(wrong))]} cannot be changed by this character", "Leave it out")

    def _place_costs(self) -> None:
        """Find the pattern of the Hessian and its constant part."""
        from scipy.sparse import csc_array

        size, order, scales = len(self.lower), self.unknowns.order, self.unknowns.scales
        self._windows: dict[bytes, _CostWindow] = {}
        for at in (*(term.parts[0] for term in self.costs.residuals), *(t.instants for t in self.costs.gradients)):
            columns = self.basis.coefficients[at].reshape(len(at), -1)
            window = _CostWindow(self._number[columns], self._all_scales[columns], size)
            self._windows.setdefault(at.tobytes(), window)
        total: Any = sum((2.0 * term.matrix for term in self.costs.quadratics), csc_array((len(scales), len(scales))))
        total = total[order][:, order].tocoo()
        keys = [total.row.astype(np.int64) + total.col.astype(np.int64) * size, np.arange(size) * (size + 1)]
        windows = [self._windows[key] for key in {term.parts[0].tobytes(): None for term in self.costs.residuals}]
        self._hessian = SparsePattern(np.concatenate([*keys, *(window.keys for window in windows)]), (size, size))
        ridge = np.zeros(len(scales)) if self.costs.ridge is None else 2.0 * self.costs.ridge * scales**2
        constant = np.concatenate([total.data * scales[order[total.row]] * scales[order[total.col]], ridge[order]])
        start = constant.size
        self._constant = self._hessian.collect(self._hessian.positions[:start], constant)
        for window in windows:
            window.positions = self._hessian.positions[start : start + window.keys.size]
            start, window.keys = start + window.keys.size, window.keys[:0]
        self._linear: dict[int, FloatArray] = {}  # slopes of linear residuals, whose Hessian is in the constant part

    def _row_values(self, state: State, values: FloatArray) -> FloatArray:
        rows = np.zeros(len(self._is_kept))
        for group, owner in zip(self.groups, self._owners, strict=True):
            np.add.at(rows, owner, group.evaluate(state, values)[0].value)
        return rows

    def values(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Objective and rows ``(m,)`` at the solver's variables."""
        values = self.unknowns.unpack(x)
        state = self.evaluate_state(values, derivatives=False)
        return sum(self.terms(values, state).values()), self._row_values(state, values)[self._is_kept]

    def terms(self, values: FloatArray, state: State | None = None) -> dict[str, float]:
        """Each term of the objective by name, for all unknowns ``(K,)`` and their state if it is known."""
        found: dict[str, float] = {}
        for term in self.costs.quadratics:
            away = values - term.centre
            found[term.name] = float(away @ (term.matrix @ away))
        state = self.evaluate_state(values, derivatives=False) if state is None else state
        for term in self.costs.residuals:
            total = np.sum([jet.value for jet in term.evaluate(state)], axis=0)
            found[term.name] = found.get(term.name, 0.0) + float(term.weights @ (total**2).sum(axis=1))
        for term in self.costs.gradients:
            found[term.name] = found.get(term.name, 0.0) + float(term.weights @ term.evaluate(state)[0])
        return found

    def derivatives(self, x: FloatArray) -> tuple[FloatArray, Any, Any]:
        """Gradient, Gauss-Newton Hessian and Jacobian of the rows at the solver's variables."""
        values = self.unknowns.unpack(x)
        state = self.evaluate_state(values, derivatives=True)
        return *self._differentiate_costs(values, state), self._differentiate_rows(values, state)

    def _differentiate_rows(self, values: FloatArray, state: State) -> Any:
        found = [group.evaluate(state, values) for group in self.groups]
        slots = self.basis.basis.shape[1]
        blocks = np.concatenate([np.zeros((3, 0, slots)), *(jet.partials.reshape(3, -1, slots) for jet, _ in found)], 1)
        more = [np.asarray(factors).ravel() for _, factors in found if factors is not None]
        weights = np.concatenate([np.zeros(0), *more])[self._is_other] * self._other_scales
        data = self._jacobian.collect(self._other_positions, weights)
        scatter_rows(self._entries, self._positions, blocks, self.basis.basis, self._entry_scales, data)
        return self._jacobian.matrix(data)

    def _differentiate_costs(self, values: FloatArray, state: State) -> tuple[FloatArray, Any]:
        gradient, order = np.zeros(len(self.lower)), self.unknowns.order
        for term in self.costs.quadratics:
            slope = 2.0 * np.asarray(term.matrix @ (values - term.centre))
            gradient += slope[order] * self.unknowns.scales[order]
        blocks: dict[bytes, FloatArray] = {}
        for i, term in enumerate(self.costs.residuals):
            # 2 w J^T r and 2 w J^T J, J by the variables that an instant sees
            jets, key = term.evaluate(state), term.parts[0].tobytes()
            window, slopes, is_known = self._windows[key], self._linear.get(i), i in self._linear
            if slopes is None:
                slopes = np.zeros((*jets[0].value.shape, window.numbers.shape[1]))
                for jet, at in zip(jets, term.parts, strict=True):
                    chain_blocks(jet.partials, at, self.basis.basis, window.scales, slopes)
            residual: FloatArray = np.sum([jet.value for jet in jets], axis=0)
            pull = 2.0 * term.weights[:, None] * (residual[:, None] @ slopes)[:, 0]
            gradient += np.bincount(window.numbers.ravel(), weights=pull.ravel(), minlength=gradient.size)
            if is_known:
                continue
            hessian = window.multiply(slopes, 2.0 * term.weights)
            if term.is_linear:
                self._linear[i] = slopes
                self._constant += self._hessian.collect(window.positions, hessian)
            else:
                blocks[key] = blocks[key] + hessian if key in blocks else hessian
        data = self._constant.copy()
        for key, block in blocks.items():
            data += self._hessian.collect(self._windows[key].positions, block)
        for term in self.costs.gradients:
            window = self._windows[term.instants.tobytes()]
            pull = np.zeros((len(term.instants), 1, window.numbers.shape[1]))
            partials = (term.weights[:, None] * term.evaluate(state)[1])[:, :, None]
            chain_blocks(partials, term.instants, self.basis.basis, window.scales, pull)
            gradient += np.bincount(window.numbers.ravel(), weights=pull.ravel(), minlength=gradient.size)
        return gradient, self._hessian.matrix(data)

    def row_name(self, index: int) -> str:
        """What a row says, and when."""
        return self._names[index]
