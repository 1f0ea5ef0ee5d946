r"""Compiled geometry of a tapered capsule: where a ray meets it, how it shades and occludes a point.

A tapered capsule is the convex hull of two balls. With the axis :math:`u`, length :math:`L`, radii
:math:`r_a, r_b` and the taper :math:`s = (r_a - r_b)/L`, the sine of the cone's half angle, the cone touches the
balls in the planes :math:`y = s r_a` and :math:`y = L + s r_b`, where :math:`y` is measured along the axis.
"""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, kernel
from marey.picture._packed import END_RADIUS, LENGTH, SINE, SQUARED_COSINE, START_RADIUS, Vector

SHADOW_BIAS_M = 0.003  # [m] half width of a shadow's edge where it touches what casts it


@kernel
def dot(a: Vector, b: Vector) -> float:
    """Scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@kernel
def point_on_ray(a: Vector, t: float, b: Vector) -> Vector:
    """Return ``a + t b``."""
    return a[0] + t * b[0], a[1] + t * b[1], a[2] + t * b[2]


@kernel
def unit(a: Vector) -> Vector:
    """Return the vector with length 1."""
    per_length = 1.0 / np.sqrt(dot(a, a))
    return a[0] * per_length, a[1] * per_length, a[2] * per_length


@kernel
def _offset_from_start(cones: FloatArray, i: int, p: Vector) -> Vector:
    return p[0] - cones[i, 0], p[1] - cones[i, 1], p[2] - cones[i, 2]


@kernel
def _axis(cones: FloatArray, i: int) -> Vector:
    return cones[i, 3], cones[i, 4], cones[i, 5]


@kernel
def _capsule_radius(cones: FloatArray, i: int, h: float) -> float:
    """Radius of the ball that rolls from start to end, when its centre has gone ``h`` along the axis."""
    radius = cones[i, START_RADIUS]
    if cones[i, LENGTH] > 0.0:
        radius += (cones[i, END_RADIUS] - radius) * h / cones[i, LENGTH]
    return radius


@kernel
def hit_cone(cones: FloatArray, i: int, o: Vector, d: Vector) -> float:
    r"""Smallest positive distance at which the ray :math:`o + t d`, :math:`\|d\| = 1`, meets capsule ``i``; else inf.

    On the cone :math:`c^2 |q|^2 - y^2 + 2 r_a s y - r_a^2 = 0` with :math:`q = o + td - a`, :math:`c^2 = 1 - s^2`.
    Both balls lie inside the cone, so a line that misses it misses everything.
    """
    q, u = _offset_from_start(cones, i, o), _axis(cones, i)
    length, ra, rb = cones[i, LENGTH], cones[i, START_RADIUS], cones[i, END_RADIUS]
    s, cc = cones[i, SINE], cones[i, SQUARED_COSINE]
    y, v, qd, qq = dot(q, u), dot(d, u), dot(q, d), dot(q, q)
    a = cc - v * v
    b = cc * qd - y * v + ra * s * v
    c = cc * qq - y * y + 2.0 * ra * s * y - ra * ra
    square = b * b - a * c
    if square < 0.0:
        return np.inf
    root = -(b + np.copysign(np.sqrt(square), b))
    low, high = s * ra, length + s * rb
    best = np.inf
    for t in (root / a, c / root):
        if 0.0 < t < best and low <= y + t * v <= high:
            best = t
    t = _hit_ball(qd, qq - ra * ra)
    if t < best and y + t * v <= low:
        best = t
    t = _hit_ball(qd - length * v, qq - 2.0 * length * y + length * length - rb * rb)
    if t < best and y + t * v >= high:
        best = t
    return best


@kernel
def _hit_ball(b: float, c: float) -> float:
    """Smaller root of ``t² + 2 b t + c`` if it is positive, else inf."""
    square = b * b - c
    if square < 0.0:
        return np.inf
    t = -b - np.sqrt(square)
    return t if t > 0.0 else np.inf


@kernel
def cone_normal(cones: FloatArray, i: int, p: Vector) -> Vector:
    """Outward unit normal of capsule ``i`` at a point of its surface."""
    q, u = _offset_from_start(cones, i, p), _axis(cones, i)
    y = dot(q, u)
    x = np.sqrt(max(dot(q, q) - y * y, 0.0))
    foot = y - x * cones[i, SINE] / np.sqrt(cones[i, SQUARED_COSINE])
    return unit(point_on_ray(q, -min(max(foot, 0.0), cones[i, LENGTH]), u))


@kernel
def shade_by_cone(cones: FloatArray, i: int, p: Vector, lamp: Vector, softness: float) -> float:
    r"""Share of a soft lamp that capsule ``i`` hides from a point, 0 to 1.

    The ray to the lamp passes the axis at distance :math:`g + r`, having gone :math:`t`; the edge of the shadow is
    :math:`w = t\,\mathrm{softness}` to each side, and the share is a smooth step of :math:`g / w`.
    """
    q, u = _offset_from_start(cones, i, p), _axis(cones, i)
    b, e = dot(u, lamp), dot(lamp, q)
    h = min(max((dot(u, q) - b * e) / max(1.0 - b * b, 1e-9), 0.0), cones[i, LENGTH])
    t = h * b - e
    if t <= 0.0:
        return 0.0
    radius, width = _capsule_radius(cones, i, h), softness * t + SHADOW_BIAS_M
    gap = point_on_ray(point_on_ray(q, t, lamp), -h, u)
    square = dot(gap, gap)
    if square >= (radius + width) ** 2:
        return 0.0
    x = min(max(0.5 - 0.5 * (np.sqrt(square) - radius) / width, 0.0), 1.0)
    return x * x * (3.0 - 2.0 * x)


@kernel
def occlude_by_cone(cones: FloatArray, i: int, reach: float, p: Vector, n: Vector) -> float:
    r"""Share of the sky that capsule ``i`` hides from a point with normal ``n``, about :math:`\cos\theta (r/l)^2`.

    This is the form factor of a ball at the nearest point of the axis, at distance :math:`l`; it is lowered so that
    it ends at ``reach`` radii.
    """
    q, u = _offset_from_start(cones, i, p), _axis(cones, i)
    h = min(max(dot(q, u), 0.0), cones[i, LENGTH])
    q = point_on_ray(q, -h, u)
    cosine, square, radius = -dot(q, n), dot(q, q), _capsule_radius(cones, i, h)
    ratio = radius * radius / square - 1.0 / (reach * reach)
    if cosine <= 0.0 or ratio <= 0.0:
        return 0.0
    return min(cosine / np.sqrt(square) * ratio, 1.0)
