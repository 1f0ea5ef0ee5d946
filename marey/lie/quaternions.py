r"""Operations on arrays of unit quaternions ``(..., 4)``, and the scalar functions of an angle that they need.

Large batches run in compiled loops. The scalar functions stay accurate from zero to π and beyond. All of them are
Stumpff functions :math:`c_k(\theta) = \sum_j (-1)^j \theta^{2j} / (2j+k)!`, or quotients of them: :math:`c_1` is the
cardinal sine, :math:`c_2 = (1-\cos\theta)/\theta^2`, :math:`c_3 = (\theta-\sin\theta)/\theta^3`.

The sums and products at the top take components, which are arrays in numpy and scalars in compiled loops
(``batch_kernels``, ``kernels``). Both ways give the same bits, and the choice between them is one of speed alone.
"""

from __future__ import annotations

import sys
from importlib import import_module
from math import factorial, prod
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from marey.base import EPS, FloatArray

UNIT_TOL = 8 * EPS  # [-] a norm this near to one is left alone, so that normalising twice changes nothing

Four = tuple[Any, Any, Any, Any]
Three = tuple[Any, Any, Any]


def renormalise(w: Any, x: Any, y: Any, z: Any) -> Four:
    r"""Bring a product of unit quaternions back to norm one where it has drifted by more than ``UNIT_TOL``.

    One Newton step, :math:`q\,(1 + \frac12(1 - \|q\|^2))`, is exact to rounding for a drift of a few ulp.
    """
    excess = w * w + x * x + y * y + z * z - 1.0
    scale = 1.0 - 0.5 * excess * (np.abs(excess) > 2.0 * UNIT_TOL)
    return scale * w, scale * x, scale * y, scale * z


def product(a: Any, b: Any, c: Any, d: Any, w: Any, x: Any, y: Any, z: Any) -> Four:
    """Hamilton product of ``(a, b, c, d)`` and ``(w, x, y, z)``."""
    return (
        a * w - b * x - c * y - d * z,
        a * x + b * w + c * z - d * y,
        a * y - b * z + c * w + d * x,
        a * z + b * y - c * x + d * w,
    )


def rotate_xyz(w: Any, x: Any, y: Any, z: Any, a: Any, b: Any, c: Any) -> Three:
    r"""Turn the point ``p = (a, b, c)``: :math:`p + w\,t + u \times t` with :math:`t = 2\,u \times p`."""
    r = 2.0 * (y * c - z * b)
    s = 2.0 * (z * a - x * c)
    t = 2.0 * (x * b - y * a)
    return a + w * r + (y * t - z * s), b + w * s + (z * r - x * t), c + w * t + (x * s - y * r)


def matrix_entries(w: Any, x: Any, y: Any, z: Any) -> tuple[Any, Any, Any, Any, Any, Any, Any, Any, Any]:
    """Entries of the rotation matrix, row by row."""
    return (
        1.0 - 2.0 * (y * y + z * z),
        2.0 * (x * y - w * z),
        2.0 * (x * z + w * y),
        2.0 * (x * y + w * z),
        1.0 - 2.0 * (x * x + z * z),
        2.0 * (y * z - w * x),
        2.0 * (x * z - w * y),
        2.0 * (y * z + w * x),
        1.0 - 2.0 * (x * x + y * y),
    )


SERIES_LIMIT = float(np.pi)  # [rad] every rotation vector of a logarithm is inside, so logs never cross the switch
NUM_TERMS = 15  # at π the first term left out is below 1e-20 of the sum


def sinc(theta: ArrayLike) -> FloatArray:
    r"""Return :math:`\sin\theta/\theta`, to an ulp or two at every angle, π included.

    ``np.sinc`` multiplies by π first, which costs all digits near the zero at π.
    """
    angle = np.asarray(theta, dtype=np.float64)
    is_zero = angle == 0.0
    return (np.sin(angle) + is_zero) / (angle + is_zero)


def one_minus_cos_over_square(theta: ArrayLike) -> FloatArray:
    r"""Return :math:`(1-\cos\theta)/\theta^2 = \frac12\,\mathrm{sinc}^2\frac\theta2`, to a few ulp up to π."""
    return 0.5 * sinc(0.5 * np.asarray(theta, dtype=np.float64)) ** 2


def stumpff(order: int, theta: ArrayLike) -> FloatArray:
    r"""Return the Stumpff function :math:`c_k(\theta)`, :math:`k \ge 1`, to a few ulp.

    Orders one and two have forms without a branch. From three on, the alternating series is summed up to π,
    where its terms still fall (no cancellation), and beyond π the recurrence
    :math:`c_{k} = (1/(k-2)! - c_{k-2})/\theta^2` has nothing to cancel either; both agree to a few ulp there.
    """
    if order <= 2:
        return sinc(theta) if order == 1 else one_minus_cos_over_square(theta)
    angle = np.abs(np.asarray(theta, dtype=np.float64))
    inside = np.minimum(angle, SERIES_LIMIT)
    square = inside * inside
    # The series, from its last term (Horner)
    series = np.full_like(square, 1.0 / factorial(2 * NUM_TERMS - 2 + order))
    for j in range(NUM_TERMS - 2, -1, -1):
        series = 1.0 / factorial(2 * j + order) - square * series
    if not np.any(angle > SERIES_LIMIT):
        return series
    # c_k = (1/(k-2)! - c_{k-2}) / theta^2 beyond
    outside = np.maximum(angle, SERIES_LIMIT)
    recurrence = (1.0 / factorial(order - 2) - stumpff(order - 2, outside)) / outside**2
    return np.where(angle > SERIES_LIMIT, recurrence, series)


def half_cotangent_remainder(theta: ArrayLike) -> FloatArray:
    r"""Return :math:`(1 - \frac\theta2\cot\frac\theta2)/\theta^2`, to a few ulp below 2π.

    With :math:`h = \theta/2`, :math:`\sin h - h\cos h = h^3 (c_2(h) - c_3(h))`, which does not cancel, so the value
    is :math:`(c_2(h)-c_3(h)) / (4\,\mathrm{sinc}\,h)`. It is singular at 2π only.
    """
    half = 0.5 * np.asarray(theta, dtype=np.float64)
    return (one_minus_cos_over_square(half) - stumpff(3, half)) / (4.0 * sinc(half))


KERNEL_SIZE = 40_000  # [quaternions] numpy needs some 3 ms for so many; below, loading the compiler does not pay
KERNELS = "marey.lie.batch_kernels"


def multiply(p: FloatArray, q: FloatArray) -> FloatArray:
    """Products ``p q``, unit again; batches broadcast."""
    shape = np.broadcast_shapes(p.shape, q.shape)
    if kernels := _choose_kernels(shape):
        return kernels.multiply(*_align_batches(p, q), prod(shape[:-1])).reshape(shape)
    return _join(renormalise(*product(*_split(p), *_split(q))), shape)


def rotate(q: FloatArray, points: FloatArray) -> FloatArray:
    """Points ``(..., 3)`` turned by ``q``; batches broadcast."""
    shape = np.broadcast_shapes(q.shape[:-1], points.shape[:-1])
    if kernels := _choose_kernels((*shape, 4)):
        return kernels.rotate(*_align_batches(q, points), prod(shape)).reshape(*shape, 3)
    return _join(rotate_xyz(*_split(q), *_split(points)), (*shape, 3))


def matrices(q: FloatArray) -> FloatArray:
    """Rotation matrices ``(..., 3, 3)``; columns are the turned axes."""
    if kernels := _choose_kernels(q.shape):
        return kernels.matrices(_flatten(q)).reshape(*q.shape[:-1], 3, 3)
    return _join(matrix_entries(*_split(q)), (*q.shape[:-1], 9)).reshape(*q.shape[:-1], 3, 3)


def _split(array: FloatArray) -> list[Any]:
    """Components along the last axis; of one quaternion as numbers of Python, whose arithmetic is quicker."""
    return array.tolist() if array.ndim == 1 else [array[..., i] for i in range(array.shape[-1])]


def _join(components: tuple[Any, ...], shape: tuple[int, ...]) -> FloatArray:
    """Components along a new last axis; what ``np.stack`` gives, sooner for small arrays."""
    out = np.empty(shape)
    for i, component in enumerate(components):
        out[..., i] = component
    return out


def norm(vectors: FloatArray) -> FloatArray:
    """Euclidean norm over the last axis."""
    return np.sqrt(np.einsum("...i,...i->...", vectors, vectors))


def dot(a: FloatArray, b: FloatArray) -> FloatArray:
    """Inner product over the last axis; batches broadcast."""
    return np.einsum("...i,...i->...", a, b)


def exp(vectors: FloatArray) -> FloatArray:
    r"""Return :math:`(\cos\frac\theta2, \frac12\,\mathrm{sinc}\frac\theta2\,v)`, :math:`\theta = \|v\|`."""
    half = 0.5 * norm(vectors)
    out = np.empty((*vectors.shape[:-1], 4))
    np.cos(half, out=out[..., 0])
    np.multiply(0.5 * sinc(half)[..., None], vectors, out=out[..., 1:])
    return out


def log(q: FloatArray) -> FloatArray:
    r"""Rotation vector of the nearer of :math:`q` and :math:`-q`; exactly at π, its first component is positive."""
    sine = norm(q[..., 1:])
    is_zero = sine == 0.0
    angle = 2.0 * np.arctan2(sine, np.abs(q[..., 0]))
    factor = np.copysign((angle + 2.0 * is_zero) / (sine + is_zero), leading_component(q))
    return factor[..., None] * q[..., 1:]


def leading_component(q: FloatArray) -> FloatArray:
    """Return the first non-zero component, whose sign distinguishes ``q`` from ``-q``."""
    lead = q[..., 0]
    if not np.any(lead == 0.0):
        return lead
    w, x, y, z = np.moveaxis(q, -1, 0)
    return w + (w == 0.0) * (x + (x == 0.0) * (y + (y == 0.0) * z))


def nearest_sign(p: FloatArray, q: FloatArray) -> FloatArray:
    """Return ``q`` or ``-q``, whichever is nearer to ``p``; when neither is, by the axis of ``p⁻¹q`` as in ``log``."""
    side = np.array(dot(p, q))
    if np.any(side == 0.0):
        p, q = np.broadcast_arrays(p, q)
        # Half a turn apart: the sign by the axis
        tied = side == 0.0
        relative = multiply(conjugate(p[tied]), q[tied])
        relative[..., 0] = 0.0
        side[tied] = leading_component(relative)
    return np.copysign(1.0, side)[..., None] * q


def conjugate(q: FloatArray) -> FloatArray:
    """Return the inverses of unit quaternions."""
    return q * np.array([1.0, -1.0, -1.0, -1.0])


def distance(p: FloatArray, q: FloatArray) -> FloatArray:
    r"""Angle of :math:`p^{-1}q` [rad], to a few ulp even for tiny angles.

    The vector part of :math:`p^{-1} q` is that of :math:`p^{-1}(q - p)`, and the difference of near numbers is exact.
    """
    q = nearest_sign(p, q)
    parts = product(*np.moveaxis(conjugate(p), -1, 0), *np.moveaxis(q - p, -1, 0))
    sine = np.sqrt(parts[1] ** 2 + parts[2] ** 2 + parts[3] ** 2)
    return 2.0 * np.arctan2(sine, np.abs(dot(p, q)))


def slerp(p: FloatArray, q: FloatArray, t: FloatArray) -> FloatArray:
    r"""Shortest great arc from ``p`` (t = 0, exactly) to ``q`` (t = 1, exactly); beyond both ends for other t.

    .. math:: \frac{(1-t)\,\mathrm{sinc}((1-t)\phi)\,p + t\,\mathrm{sinc}(t\phi)\,q}{\mathrm{sinc}\,\phi}

    :math:`\phi \le \pi/2` is the angle between the quaternions, so nothing is divided by a small number.
    """
    q = nearest_sign(p, q)
    phi = 2.0 * np.arctan2(norm(q - p), norm(q + p))
    scale = sinc(phi)
    along, back = t * sinc(t * phi) / scale, (1.0 - t) * sinc((1.0 - t) * phi) / scale
    return back[..., None] * p + along[..., None] * q


def _choose_kernels(shape: tuple[int, ...]) -> ModuleType | None:
    """Compiled loops, if they are loaded already or worth loading for an array of this shape."""
    size = prod(shape)
    if size == 0 or (size < 4 * KERNEL_SIZE and KERNELS not in sys.modules):
        return None
    return import_module(KERNELS)


def _align_batches(a: FloatArray, b: FloatArray) -> tuple[FloatArray, int, FloatArray, int]:
    """Flatten two batches; each comes with how often to hold a row, and starts again at its end: broadcasting."""
    shape = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    return *_repeat_rows(a, shape), *_repeat_rows(b, shape)


def _repeat_rows(array: FloatArray, shape: tuple[int, ...]) -> tuple[FloatArray, int]:
    batch = (1,) * (len(shape) + 1 - array.ndim) + array.shape[:-1]
    own = [axis for axis, length in enumerate(batch) if length > 1]
    first, last = (own[0], own[-1] + 1) if own else (0, 0)
    if batch[first:last] == shape[first:last]:
        return _flatten(array), prod(shape[last:])
    return _flatten(np.broadcast_to(array, (*shape, array.shape[-1]))), 1


def _flatten(array: FloatArray) -> FloatArray:
    """Read-only and contiguous, so that each kernel is compiled for one kind of array."""
    flat = np.ascontiguousarray(array).reshape(-1, array.shape[-1])
    flat.setflags(write=False)
    return flat
