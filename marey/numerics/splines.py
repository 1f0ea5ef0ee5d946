"""Cubic splines over knots of any spacing, curves of control points, and convex hulls in a plane.

Both rest on the Cox-de Boor recurrences, evaluated over many times at once. Smooth steps from 0 to 1 fill the gaps of
sampled signals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from marey.base import EPS, BoolArray, FloatArray, InputError, IntArray, UnknownNameError, frozen

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

Side = Literal["left", "right"]

DEGREE = 3
MAX_SPANS = 100_000  # of a phase; more is a slip of the pen that would fill the memory
WHOLE_SPANS_TOL = 1e-9  # [-] of a span; a phase of 0.3 s holds three spans of 0.1 s, not four
EDGE_TOL = 64 * EPS  # [-] of the larger of span and times; a time computed as the end may miss it by rounding


def clip_to_domain(t: FloatArray, start: float, stop: float) -> FloatArray:
    """Times [s] within a curve, those that miss its ends by rounding put on them.

    Raises:
        InputError: a time is outside the curve, or NaN.
    """
    slack = EDGE_TOL * max(stop - start, abs(start), abs(stop))
    bad = ~((t >= start - slack) & (t <= stop + slack))
    if np.any(bad):
        raise InputError(f"time {t[bad][0]:g} is outside the curve", f"It goes from {start:g} to {stop:g}")
    return np.clip(t, start, stop)


def local_basis(knots: FloatArray, degree: int, spans: IntArray, t: FloatArray) -> FloatArray:
    r"""Values ``(m, degree + 1)`` of the basis functions that live on each span (Cox-de Boor).

    .. math:: \phi_{k,p} = \frac{t-\tau_k}{\tau_{k+p}-\tau_k}\phi_{k,p-1}
        + \frac{\tau_{k+p+1}-t}{\tau_{k+p+1}-\tau_{k+1}}\phi_{k+1,p-1}
    """
    left = spans + degree  # knots[left] <= t <= knots[left + 1]
    basis = np.zeros((t.size, degree + 1))
    basis[:, 0] = 1.0
    for p in range(1, degree + 1):
        carried = np.zeros(t.size)
        for r in range(p):
            high, low = knots[left + r + 1], knots[left + r + 1 - p]
            share = basis[:, r] / (high - low)
            basis[:, r] = carried + (high - t) * share
            carried = (t - low) * share
        basis[:, p] = carried
    return basis


def evaluate_clamped_spline(points: FloatArray, u: FloatArray) -> FloatArray:
    """Points ``(*S, n)`` of a B-spline at parameters ``(*S)`` from 0 to 1.

    The knots are equally spaced and repeated at the ends, so that the curve begins at the first control point and ends
    at the last.

    Args:
        points: control points ``(K, n)``; the curve is cubic, or of degree ``K - 1`` with fewer than four.
        u: parameters.
    """
    degree = min(DEGREE, len(points) - 1)
    num_spans = len(points) - degree
    knots = np.clip(np.arange(-degree, num_spans + degree + 1), 0, num_spans) / num_spans
    t = clip_to_domain(u.ravel(), 0.0, 1.0)
    spans = np.clip((t / (1.0 / num_spans)).astype(np.int64), 0, num_spans - 1)
    near = points[spans[:, None] + np.arange(degree + 1)]
    return np.einsum("mk,mkn->mn", local_basis(knots, degree, spans, t), near).reshape(*u.shape, points.shape[1])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class KnotSpline:
    r"""The basis :math:`\phi_1 \dots \phi_K` of cubic curves :math:`q(t) = \sum_k c_k\,\phi_k(t)` over given knots.

    At most four functions are not zero at any time. At a simple knot curves have a continuous second derivative, at a
    double one a continuous first derivative: joint accelerations do jump where a contact begins or ends.
    [Fang2003]_ §2.3.
    """

    knots: FloatArray  # (K + 4,) [s] never falling; the first and the last four are equal

    def __post_init__(self) -> None:
        knots = frozen(self.knots, None, name="knots")
        object.__setattr__(self, "knots", knots)
        if knots.size < 2 * (DEGREE + 1):
            raise InputError(f"{knots.size} knots", f"A cubic spline has at least {2 * (DEGREE + 1)}")
        if np.any(np.diff(knots) < 0.0):
            raise InputError(f"knots fall after {knots[np.argmax(np.diff(knots) < 0.0)]:g} s", "Sort them")
        if knots[DEGREE] != knots[0] or knots[-1 - DEGREE] != knots[-1]:
            raise InputError("the ends are not clamped", f"Repeat the first and last knot {DEGREE + 1} times")
        if np.any(knots[DEGREE + 1 :] <= knots[: -DEGREE - 1]):
            raise InputError("a knot is repeated too often", f"At most {DEGREE} times inside")

    @classmethod
    def phases(
        cls,
        edges: ArrayLike,
        span_s: float | Sequence[float],
        multiplicity: int = 2,
        *,
        names: Sequence[str] | None = None,
    ) -> KnotSpline:
        """Knots on every edge between phases, repeated there, and equal spans inside each phase.

        Args:
            edges: when phases begin and end ``(P + 1,)`` [s], rising.
            span_s: longest knot spacing [s], one for all or one for each phase.
            multiplicity: of the knots at inner edges; 1 keeps accelerations continuous, 2 lets them jump.
            names: of the phases, for the message.

        Raises:
            InputError: edges do not rise, or a phase is shorter than its span; the message names the phase.
        """
        times = frozen(edges, None, name="edges")
        if times.size < 2 or not 1 <= multiplicity <= DEGREE:
            raise InputError(
                f"{times.size} edges of multiplicity {multiplicity}", "Give two edges or more, 1 to 3 fold"
            )
        spans = _expand_per_phase(span_s, times.size - 1, "span_s")
        labels = [str(i) for i in range(spans.size)] if names is None else names
        if len(labels) != spans.size:
            raise InputError(f"{len(labels)} names for {spans.size} phases", "Give one for each")
        inner: list[FloatArray] = []
        for name, span, start, stop in zip(labels, spans.tolist(), times[:-1], times[1:], strict=True):
            duration = stop - start
            if not (np.isfinite(span) and span > 0.0):
                raise InputError(f"phase '{name}' has knots {span:g} s apart", "The spacing is positive")
            if duration < span * (1.0 - WHOLE_SPANS_TOL):
                what = f"phase '{name}' lasts {duration:g} s, less than one span of {span:g} s"
                raise InputError(what, "Shorten its span")
            if duration > MAX_SPANS * span:
                what = f"phase '{name}' lasts {duration:g} s, over {MAX_SPANS} spans of {span:g} s"
                raise InputError(what, "Lengthen its span")
            count = max(1, int(np.ceil(duration / span - WHOLE_SPANS_TOL)))
            inner.append(np.linspace(float(start), float(stop), count + 1)[1:-1])
        repeats = np.full(times.size, multiplicity)
        repeats[[0, -1]] = DEGREE + 1
        return cls(np.sort(np.concatenate([np.repeat(times, repeats), *inner])))

    @property
    def num_coefficients(self) -> int:
        """How many basis functions there are."""
        return self.knots.size - DEGREE - 1

    @property
    def breaks(self) -> FloatArray:
        """Ends of the polynomial pieces ``(S + 1,)`` [s]: the knots without repetition."""
        return np.unique(self.knots)

    @property
    def num_spans(self) -> int:
        """How many polynomial pieces there are."""
        return self.breaks.size - 1

    @property
    def greville(self) -> FloatArray:
        """Time ``(K,)`` [s] at which each coefficient has most of its say; a line has its own values there."""
        return np.lib.stride_tricks.sliding_window_view(self.knots[1:-1], DEGREE).mean(axis=-1)

    def gauss_times(self, num_points: int = 2) -> tuple[FloatArray, FloatArray]:
        """Gauss points of every span, in order, and their weights, both ``(S * num_points,)`` [s]."""
        if num_points < 1:
            raise InputError(f"{num_points} Gauss points", "Give at least one")
        nodes, shares = np.polynomial.legendre.leggauss(num_points)
        middle, half = 0.5 * (self.breaks[1:] + self.breaks[:-1]), 0.5 * np.diff(self.breaks)
        return (middle[:, None] + half[:, None] * nodes).ravel(), (half[:, None] * shares).ravel()

    def design(self, t: ArrayLike, derivative: int = 0, side: Side = "right") -> csr_array:
        """Sparse matrix ``(T, K)`` that takes coefficients to values (or derivatives) at times.

        Args:
            t: times ``(T,)`` [s] within the knots; none is extrapolated.
            derivative: order, 0 to 3.
            side: from which side a time exactly on a knot is seen, where a derivative may jump.
        """
        from scipy.sparse import csr_array

        spans, basis = self.local(t, derivative, side)
        columns = spans[:, None] + np.arange(DEGREE + 1)
        starts = np.arange(len(basis) + 1, dtype=np.int64) * np.int64(DEGREE + 1)
        return csr_array((basis.ravel(), columns.ravel(), starts), (len(basis), self.num_coefficients))

    def local(self, t: ArrayLike, derivative: int = 0, side: Side = "right") -> tuple[IntArray, FloatArray]:
        """First of the four functions that live at each time ``(T,)``, and the four's values ``(T, 4)``."""
        if not 0 <= derivative <= DEGREE:
            raise InputError(f"derivative of order {derivative}", f"It is 0 to {DEGREE}")
        if side not in ("left", "right"):
            raise UnknownNameError("side", side, "KnotSpline", ("left", "right"))
        times = clip_to_domain(frozen(t, None, name="t"), float(self.knots[0]), float(self.knots[-1]))
        left = np.searchsorted(self.knots, times, side=side) - 1
        left = np.clip(left, DEGREE, self.num_coefficients - 1)
        basis = local_basis(self.knots, DEGREE - derivative, left - (DEGREE - derivative), times)
        for degree in range(DEGREE - derivative + 1, DEGREE + 1):
            # φ'(k, p) = p (φ(k, p-1) / (τ[k+p] - τ[k]) - φ(k+1, p-1) / (τ[k+p+1] - τ[k+1])), one degree up each round
            high = left[:, None] + 1 + np.arange(degree)
            shares = degree * basis / (self.knots[high] - self.knots[high - degree])
            basis = np.zeros((left.size, degree + 1))
            basis[:, 1:] += shares
            basis[:, :-1] -= shares
        return left - DEGREE, basis

    def second_derivative_gram(self, weights: ArrayLike = 1.0) -> csc_array:
        r"""Matrix ``(K, K)`` of :math:`\sum_s w_s \int_s \ddot\phi\,\ddot\phi^T dt`, exact by two Gauss points a span.

        Half-bandwidth 3; constant and linear curves are its kernel ([Fang2003]_ §2.13 and its erratum E6).

        Args:
            weights: of the spans ``(S,)``, or one for all.
        """
        from scipy.sparse import csc_array, diags_array

        times, quadrature = self.gauss_times(2)
        spans = _expand_per_phase(weights, self.num_spans, "weights")
        design: Any = self.design(times, 2)
        return csc_array(design.T @ diags_array(quadrature * np.repeat(spans, 2)) @ design)

    def refine(self, factor: int = 2) -> tuple[KnotSpline, csr_array]:
        """Cut every span into ``factor`` equal ones: the finer basis, and the matrix that keeps the curve the same."""
        from scipy.sparse import csr_array

        if factor < 1:
            raise InputError(f"spans cut into {factor}", "The factor is at least one")
        shares = np.arange(1, factor) / factor
        new = (self.breaks[:-1, None] + np.diff(self.breaks)[:, None] * shares).ravel()
        finer = KnotSpline(np.sort(np.concatenate([self.knots, new])))
        j = np.arange(finer.num_coefficients)
        widths = np.diff(finer.knots)[j[:, None] + np.arange(DEGREE + 1)]  # (K', 4) spans under each new function
        widest = j + np.argmax(widths, axis=1)
        middle = 0.5 * (finer.knots[widest] + finer.knots[widest + 1])
        pieces = np.searchsorted(self.knots, middle, side="right") - 1 - DEGREE
        arguments = finer.knots[j[:, None] + np.arange(1, DEGREE + 1)]
        # Coefficients of the finer curve: the polar form f(u1, u2, u3) of each piece at three neighbouring new knots
        left = pieces + DEGREE
        points = np.eye(self.num_coefficients)[pieces[:, None] + np.arange(DEGREE + 1)]  # (K', 4, K)
        for level in range(1, DEGREE + 1):
            for r in range(DEGREE, level - 1, -1):
                low, high = self.knots[left + r - DEGREE], self.knots[left + r + 1 - level]
                share = ((arguments[:, level - 1] - low) / (high - low))[:, None]
                points[:, r] = (1.0 - share) * points[:, r - 1] + share * points[:, r]
        return finer, csr_array(points[:, DEGREE])

    def fit(self, t: ArrayLike, values: ArrayLike, *, smoothing: float = 1e-9) -> FloatArray:
        r"""Coefficients ``(K, ...)`` of the curve nearest to samples ``(T, ...)`` at times ``(T,)`` [s].

        A trace of the acceleration's square, ``smoothing`` times the largest term, settles what no sample sees.

        Raises:
            InputError: a sample is missing or not finite, or a time is outside the knots.
        """
        from scipy.sparse import csc_array
        from scipy.sparse.linalg import splu

        samples = frozen(values, name="values")
        if samples.size == 0 or samples.shape[:1] != np.shape(t):
            raise InputError(
                f"values have shape {samples.shape}, there are {np.size(t)} times", "Give one row for each"
            )
        flat = samples.reshape(samples.shape[0], -1)
        # Normal equations with a share of the Gram matrix of accelerations
        design: Any = self.design(t)
        gram, normal = self.second_derivative_gram(), design.T @ design
        share = smoothing * float(normal.diagonal().max()) / float(gram.diagonal().max())
        factor: Any = splu(csc_array(normal + share * gram))
        fitted = np.asarray(factor.solve(design.T @ flat), dtype=np.float64)
        return fitted.reshape(-1, *samples.shape[1:])

    def __repr__(self) -> str:
        return f"KnotSpline({self.num_spans} spans, {self.num_coefficients} coefficients, {self.knots[-1]:g} s)"


def _expand_per_phase(values: ArrayLike, count: int, name: str) -> FloatArray:
    """One number for each of ``count``, or one for all."""
    given = frozen(values, name=name)
    if given.shape not in ((), (count,)):
        raise InputError(f"{name} has shape {given.shape}, expected ({count},)", "Give one for each, or one for all")
    return np.broadcast_to(given, (count,))


def smoothstep(u: FloatArray | float) -> FloatArray:
    """Return 0 before ``u = 0``, 1 after ``u = 1`` and 3u² − 2u³ between: no slope at either end."""
    u = np.clip(u, 0.0, 1.0)
    return u * u * (3.0 - 2.0 * u)


def smootherstep(u: FloatArray | float) -> FloatArray:
    """Return 0 before ``u = 0``, 1 after ``u = 1`` and 10u³ − 15u⁴ + 6u⁵ between: no slope and no bend at either end.

    It is the way from rest to rest with the least jerk.
    """
    u = np.clip(u, 0.0, 1.0)
    return u**3 * (10.0 - 15.0 * u + 6.0 * u * u)


def fill_gaps(values: FloatArray, known: BoolArray) -> FloatArray:
    """Rows ``(F, k)`` with smooth steps over the gaps between known ones ``(F,)``; the ends hold the nearest known row.

    All are zero when none is known.
    """
    at = np.flatnonzero(known)
    if not len(at):
        return np.zeros_like(values)
    frames = np.arange(len(values))
    after = np.clip(np.searchsorted(at, frames), 0, len(at) - 1)
    low, high = at[np.where(frames < at[after], np.maximum(after - 1, 0), after)], at[after]
    step = smoothstep((frames - low) / np.maximum(high - low, 1))[:, None]
    return (1.0 - step) * values[low] + step * values[high]


STRAIGHT_TOL = 1e-12  # twice the area of three corners, below which the middle one is on a line


def convex_hull(points: FloatArray) -> FloatArray:
    """Corners ``(h, 2)`` of the hull of points ``(n, 2)``, counter-clockwise from the leftmost (Andrew's chain)."""
    points = frozen(points, None, 2, name="points")
    if len(points) < 2:
        return points
    order = points[np.lexsort((points[:, 1], points[:, 0]))].tolist()
    hull: list[list[float]] = []
    for line in (order, order[::-1]):
        chain: list[list[float]] = []
        for c in line:
            # A corner that does not turn to the left is inside
            while len(chain) > 1:
                a, b = chain[-2:]
                if (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) > STRAIGHT_TOL:
                    break
                chain.pop()
            chain.append(c)
        hull += chain[:-1]
    return np.array(hull)
