"""Paths of the centre of mass whose centre of pressure stays inside the soles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray
from marey.control.support import hull_distances
from marey.dynamics import GRAVITY
from marey.numerics import convex_hull

if TYPE_CHECKING:
    from marey.control.reference.clip import Reference

MARGIN_M: Final = 0.02  # [m] pressure is planned no nearer than this to the edge of the soles
LEAST_HEIGHT_M: Final = 0.2  # [m] of a centre of mass that is still balanced
LEAST_GRAVITY: Final = 1.0  # [m/s²]
LEAST_PULL: Final = 0.2  # [-] of gravity: in flight nothing is carried
HEIGHT_HZ: Final = 5.0  # [Hz] faster changes of height are those of feet that are put on the floor
FLIGHT_WEIGHT: Final = 1.0  # [s⁴] of squared accelerations other than gravity in flight
LEAST_FLIGHT_WEIGHT: Final = 1e-3  # [-] of the captured height in flight
END_WEIGHT: Final = 1e4  # [-] of the first and the last height
SMOOTH_S: Final = 0.05  # [s] over which the change of a clip's angular momentum is smoothed
PRESSURE_ROUNDS: Final = 6  # of moving the pressure so that the path stays near the clip's
PRESSURE_STEP: Final = 1.0  # [-] of the distance between the paths
HORIZONTAL_AXES: Final = [0, 2]  # the axes of the ground


@dataclass(frozen=True, slots=True, eq=False)
class CentreOfMassPath:
    r"""Path of the centre of mass as an inverted pendulum: :math:`\ddot c = \omega^2 (c - p)`.

    The pivot p is where the ground pushes, less a shift by what changes the angular momentum.
    """

    com: FloatArray  # (F, 3) [m]
    velocity: FloatArray  # (F, 3) [m/s]
    pivot: FloatArray  # (F, 2) [m] p, (x, z)
    shift: FloatArray  # (F, 2) [m] from the pivot to where the ground pushes
    stiffness: FloatArray  # (F,) [1/s²] omega²: (g + vertical acceleration) / height
    frequency: float  # [1/s] of the whole clip, for the capture point

    def capture(self, i: int) -> FloatArray:
        r"""Capture point ``(2,)`` [m] of a frame, :math:`c + \dot c/\omega`: where a stop would need support."""
        return (self.com[i] + self.velocity[i] / self.frequency)[HORIZONTAL_AXES]


def solve_com_path(reference: Reference, mass_kg: float, gravity: float = GRAVITY) -> CentreOfMassPath:
    r"""Nearest path of the centre of mass whose pressure stays within the soles.

    The pivot of the clip, :math:`p = c - \ddot c/\omega^2`, is moved so that the pressure is in the hull of the soles
    that bear; then :math:`c - \ddot c/\omega^2 = p` is solved for the path between ends that stay as they are. Without
    feet on the ground the path of the clip is kept.

    Args:
        reference: the clip.
        mass_kg: of the body.
        gravity: [m/s²], with a lower bound that still keeps a figure on the ground.
    """
    from scipy.linalg import solve_banded, solveh_banded  # pyright: ignore[reportUnknownVariableType]  # scipy is untyped here

    gravity = max(gravity, LEAST_GRAVITY)
    com, dt, bearing = reference.com, reference.dt, reference.bearing
    is_flight = np.asarray(~bearing.any(axis=(1, 2)), dtype=np.bool_)
    # Smooth heights that fall freely in flight: min sum_i w_i (y_i - y'_i)^2 + omega_s^-4 sum_stance a_i^2
    # + Lambda sum_flight (a_i + g)^2. The ends stay as they are. Captured heights jump where feet are put on the floor,
    # and captured flights are blurred.
    heights, count = com[:, 1], len(com)
    if count < 5:
        height = np.array(heights)
    else:
        weights = np.where(is_flight, LEAST_FLIGHT_WEIGHT, 1.0)
        weights[[0, -1]] = END_WEIGHT
        # Weights of the accelerations of inner frames, and what they should be
        stiff = np.where(is_flight[1:-1], FLIGHT_WEIGHT, (2.0 * np.pi * HEIGHT_HZ) ** -4) / dt**4
        wanted = np.where(is_flight[1:-1], -gravity * dt**2, 0.0)
        # Normal equations of second differences (1, -2, 1): five bands, upper form
        bands, known = np.zeros((3, count)), weights * heights
        bands[2] = weights
        for n, a in enumerate((1.0, -2.0, 1.0)):
            known[n : count - 2 + n] += a * stiff * wanted
            for m, b in enumerate((1.0, -2.0, 1.0)):
                if m >= n:
                    bands[2 - (m - n), m : count - 2 + m] += a * b * stiff
        height = np.asarray(solveh_banded(bands, known), dtype=np.float64)
    # omega^2 = (g + y'') / y and the pivot p = c - c'' / omega^2 of the clip
    lift = _second_differences(height, dt)
    stiffness = np.maximum(gravity + lift, LEAST_PULL * gravity) / np.maximum(height, LEAST_HEIGHT_M)
    level = com[:, HORIZONTAL_AXES]
    pivot = level - _second_differences(level, dt) / stiffness[:, None]
    # Pressure lies beside the pivot by (L_z', -L_x') / F_y, with smoothed rates of the angular momentum
    push_n = mass_kg * stiffness * height
    rates = np.asarray(np.gradient(reference.momenta, dt, axis=0), dtype=np.float64)
    calm = np.stack([smooth_values(column, max(1, round(SMOOTH_S / dt))) for column in rates.T], axis=1)
    shift = np.asarray(np.stack([calm[:, 2], -calm[:, 0]], axis=1) / push_n[:, None], dtype=np.float64)
    # c - c'' / omega^2 = p as a tridiagonal system, its ends fixed to the clip; in flight c'' = 0
    inner, k = np.arange(1, len(pivot) - 1), 1.0 / (stiffness * dt**2)[1:-1]
    carried = np.where(is_flight[inner], 0.0, 1.0)
    bands = np.zeros((3, len(pivot)))
    bands[0, 2:], bands[1, 1:-1], bands[2, :-2] = -k, carried + 2.0 * k, -k
    bands[1, [0, -1]] = 1.0
    path = np.array(com)
    hulls = {i: convex_hull(reference.corners[i][bearing[i]][:, HORIZONTAL_AXES]) for i in np.flatnonzero(~is_flight)}
    carrying = pivot
    for _ in range(PRESSURE_ROUNDS):
        # Pressure in the hull of the bearing soles; then, as far as these allow, the path back to that of the clip
        for i, hull in hulls.items():
            pivot[i] = project_into_hull(hull, pivot[i] + shift[i], MARGIN_M) - shift[i]
        known = np.where(is_flight[:, None], 0.0, pivot)
        known[[0, -1]] = level[[0, -1]]
        path[:, HORIZONTAL_AXES] = np.asarray(solve_banded((1, 1), bands, known), dtype=np.float64)
        carrying, pivot = pivot, pivot + PRESSURE_STEP * (level - path[:, HORIZONTAL_AXES])
    pivot = carrying
    path[:, 1] = height
    pivot[is_flight] = path[is_flight][:, HORIZONTAL_AXES]
    shift[is_flight] = 0.0
    frequency = float(np.sqrt(gravity / max(float(np.mean(com[:, 1])), LEAST_HEIGHT_M)))
    steps: FloatArray = np.diff(path, axis=0) / dt
    return CentreOfMassPath(path, np.concatenate([steps, steps[-1:]]), pivot, shift, stiffness, frequency)


def smooth_values(values: FloatArray, width: int) -> FloatArray:
    """Values ``(F,)``, each the mean of its neighbours up to a width, weighted by Hann's window; ends are repeated."""
    window = np.hanning(2 * width + 3)[1:-1]
    padded = np.pad(values, width, mode="edge")
    return np.asarray(np.convolve(padded, window / window.sum(), mode="valid"), dtype=np.float64)


def _second_differences(values: FloatArray, dt: float) -> FloatArray:
    """Second differences; at the ends those of the neighbours."""
    second: FloatArray = np.diff(values, n=2, axis=0) / dt**2
    return np.concatenate([second[:1], second, second[-1:]])


def project_into_hull(hull: FloatArray, place: FloatArray, margin_m: float = 0.0) -> FloatArray:
    """Place ``(2,)`` or the nearest to it that is a margin inside a hull ``(h, 2)``; of a narrow hull, its middle."""
    # A point or an edge has no inside
    if len(hull) < 3:
        if len(hull) < 2:
            return place if not len(hull) else hull[0]
        way = hull[1] - hull[0]
        along = float(np.clip((place - hull[0]) @ way / max(float(way @ way), 1e-12), 0.0, 1.0))
        return hull[0] + along * way
    # The margin shrinks with the hull
    inside = hull_distances(hull, place)[1]
    widest = float(hull_distances(hull, hull.mean(axis=0))[1].min())
    margin = min(margin_m, 0.9 * widest)
    if (inside >= margin).all():
        return place
    # Nearest place on the edges of the shrunk hull
    middle = hull.mean(axis=0)
    shrink = 1.0 - margin / max(widest, 1e-9)
    smaller = middle + shrink * (hull - middle)
    ends = np.roll(smaller, -1, axis=0) - smaller
    along = np.einsum("hi,hi->h", place - smaller, ends) / np.maximum(np.einsum("hi,hi->h", ends, ends), 1e-12)
    candidates = smaller + np.clip(along, 0.0, 1.0)[:, None] * ends
    if (hull_distances(smaller, place)[1] >= 0.0).all():
        return place
    return candidates[np.argmin(np.linalg.norm(candidates - place, axis=1))]
