"""What a displaced clip must keep: wrenches that contacts can give, points that stay, angles within bounds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Self

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray

NUM_SIDES: Final = 8  # of the pyramid inside the friction cone
MAX_FORCE: Final = 6.0  # [body weights] along the normal
EDGE_SCALE: Final = 4.0  # rows of the support's edges are in metres of body weight: a few centimetres matter
COPLANAR_M: Final = 0.06  # [m] supports that differ more in height are no single floor
FLIGHT_BAND: Final = 0.01  # [body weights, and times one metre] what may be missing in the air
MARGIN_M: Final = 0.005  # [m] the support is taken smaller by this, for what happens between instants
MAX_TIPPING_RATIO: Final = 0.9  # [-] captured walks move half to nine tenths as hard as gravity tips them
MIN_ARM_M: Final = 0.08  # [m] a body nearer over its foot tells nothing


@dataclass(frozen=True, slots=True, eq=False)
class RowTable:
    """Rows as arrays of equal length; two tables of one kind are added one below the other."""

    def __add__(self, other: Self) -> Self:
        pairs = [(getattr(self, field.name), getattr(other, field.name)) for field in fields(self)]
        return type(self)(*(a + b if isinstance(a, tuple) else np.concatenate([a, b]) for a, b in pairs))


@dataclass(frozen=True, slots=True, eq=False)
class WrenchRows(RowTable):
    r"""Rows :math:`l \le a^T f_0(t) \le u` on wrenches about the world origin."""

    instants: IntArray  # (R,) which instant
    matrix: FloatArray  # (R, 6)
    lower: FloatArray  # (R,)
    upper: FloatArray  # (R,)
    names: tuple[str, ...]  # (R,)


@dataclass(frozen=True, slots=True, eq=False)
class PointRows(RowTable):
    """Points of the body that are somewhere at an instant: three rows each."""

    instants: IntArray  # (R,) which instant
    links: IntArray  # (R,) coordinate whose link carries the point
    points: FloatArray  # (R, 3) [m] in the link's frame
    targets: FloatArray  # (R, 3) [m]
    lower: FloatArray  # (R, 3) [m] how far below its target it may be along each axis
    upper: FloatArray  # (R, 3) [m] how far above
    names: tuple[str, ...]  # (R,)

    @classmethod
    def from_entries(cls, found: list[tuple[int, tuple[int, FloatArray], FloatArray, float, str]]) -> PointRows:
        """From (instant, point of the tree, target, band, name); an infinite band keeps the point above its target."""
        bands = np.array([f[3] for f in found], dtype=np.float64)[:, None] * np.ones(3)
        is_floor = np.isinf(bands) & (np.arange(3) == 1)
        return cls(
            np.array([f[0] for f in found], dtype=np.int64),
            np.array([f[1][0] for f in found], dtype=np.int64),
            np.array([f[1][1] for f in found]).reshape(-1, 3),
            np.array([f[2] for f in found]).reshape(-1, 3),
            np.where(is_floor, 0.0, -bands),
            bands,
            tuple(f[4] for f in found),
        )


@dataclass(frozen=True, slots=True, eq=False)
class AngleRows(RowTable):
    """Coordinates that lie between two ends at an instant; linear."""

    instants: IntArray  # (R,) which instant
    dofs: IntArray  # (R,) which coordinate of the tree
    lower: FloatArray  # (R,) [rad] or [m]
    upper: FloatArray  # (R,)
    names: tuple[str, ...]  # (R,)

    @classmethod
    def from_entries(cls, found: list[tuple[int, int, float, float, str]]) -> AngleRows:
        """From (instant, coordinate, lower, upper, name)."""
        return cls(
            np.array([f[0] for f in found], dtype=np.int64),
            np.array([f[1] for f in found], dtype=np.int64),
            np.array([f[2] for f in found], dtype=np.float64),
            np.array([f[3] for f in found], dtype=np.float64),
            tuple(f[4] for f in found),
        )


def wrench_rows(
    times: FloatArray,
    points: FloatArray,
    active: BoolArray,
    com: FloatArray,
    *,
    friction: float,
    weight_n: float,
    skipped: BoolArray,
) -> WrenchRows:
    """Rows of every instant: nothing in flight, the cone of the floor in support.

    Args:
        times: of the instants ``(N,)`` [s], for names.
        points: corners of what may touch ``(N, P, 3)`` [m].
        active: which do ``(N, P)``.
        com: centre of mass ``(N, 3)`` [m]; moments in flight are taken there.
        friction: coefficient of the floor.
        weight_n: of the body.
        skipped: instants without rows ``(N,)``.

    Instants whose supports lie at different heights get no row, as no single floor carries them; nor do those that
    the caller leaves out with ``skipped``.
    """
    parts: list[tuple[int, FloatArray, FloatArray, FloatArray, list[str]]] = []
    for n, t in enumerate(times):
        if skipped[n]:
            continue
        corners = points[n, active[n]]
        if not len(corners):
            band, names = np.full(6, FLIGHT_BAND), ["force in the air"] * 3 + ["moment in the air"] * 3
            parts.append((n, wrench_shift_matrix(com[n]), -band, band, names))
        elif np.ptp(corners[:, 1]) < COPLANAR_M:
            parts.append((n, *_support_cone_rows(corners, friction)))
        else:
            continue
        parts[-1][4][:] = [f"{name} at {t:.2f} s" for name in parts[-1][4]]
    return WrenchRows(
        np.concatenate([np.full(len(p[1]), p[0]) for p in parts] or [np.zeros(0, dtype=np.int64)]),
        np.concatenate([p[1] for p in parts] or [np.zeros((0, 6))]) / weight_n,
        np.concatenate([p[2] for p in parts] or [np.zeros(0)]),
        np.concatenate([p[3] for p in parts] or [np.zeros(0)]),
        tuple(name for p in parts for name in p[4]),
    )


def pendulum_rows(
    times: FloatArray, instants: IntArray, feet: FloatArray, com: FloatArray, weight_n: float
) -> WrenchRows:
    r"""Rows that let a body on one foot move no harder than ``MAX_TIPPING_RATIO`` times as gravity tips it.

    With :math:`u` from the foot to the centre of mass and :math:`p` from the foot to the centre of pressure, both
    level, :math:`u\cdot p \ge (1 - h)\,u\cdot u`, divided by :math:`|u|` and times the normal force: linear in the
    wrench. A clip that is played too fast breaks them.

    Args:
        times: of all instants ``(N,)`` [s], for names.
        instants: those on one foot ``(R,)``.
        feet: middle of that foot ``(R, 3)`` [m].
        com: centre of mass ``(R, 3)`` [m].
        weight_n: of the body.
    """
    u = (com - feet)[:, [0, 2]]
    length = np.linalg.norm(u, axis=1)
    kept = np.flatnonzero(length > MIN_ARM_M)
    matrix = np.zeros((len(kept), 6))
    for r, k in enumerate(kept):
        along = u[k] / length[k]
        row = np.array([0.0, -(1.0 - MAX_TIPPING_RATIO) * length[k], 0.0, -along[1], 0.0, along[0]])
        matrix[r] = EDGE_SCALE * row @ wrench_shift_matrix(feet[k])
    return WrenchRows(
        instants[kept],
        matrix / weight_n,
        np.zeros(len(kept)),
        np.full(len(kept), np.inf),
        tuple(f"haste at {times[instants[k]]:.2f} s" for k in kept),
    )


def wrench_shift_matrix(place: FloatArray) -> FloatArray:
    """Matrix ``(6, 6)`` that takes a wrench about the origin to one about a place."""
    x, y, z = place
    matrix = np.eye(6)
    matrix[3:, :3] = -np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return matrix


def _support_cone_rows(corners: FloatArray, friction: float) -> tuple[FloatArray, FloatArray, FloatArray, list[str]]:
    r"""Normal force, friction, centre of pressure and twist about the middle of the supports.

    With :math:`p_x f_y = n_z` and :math:`p_z f_y = -n_x` about the middle, :math:`a\cdot p \le b` becomes
    :math:`b f_y - a_x n_z + a_z n_x \ge 0`, free of a division.
    """
    middle = corners.mean(axis=0)
    flat = corners[:, [0, 2]] - middle[[0, 2]]
    normal = np.array([[0.0, 1.0, 0.0, 0.0, 0.0, 0.0]])
    # Sides of the pyramid inside the friction cone
    angles = 2.0 * np.pi * np.arange(NUM_SIDES) / NUM_SIDES
    slope = friction * np.cos(np.pi / NUM_SIDES)
    zeros = np.zeros_like(angles)
    sides = np.stack([-np.sin(angles), zeros + slope, -np.cos(angles), zeros, zeros, zeros], axis=1)
    # Edges of the hull, counter-clockwise: the centre of pressure stays inside
    hull = convex_hull(flat)
    along = np.roll(hull, -1, axis=0) - hull
    length = np.maximum(np.linalg.norm(along, axis=1), 1e-9)
    out = np.stack([along[:, 1], -along[:, 0]], axis=1) / length[:, None]
    room = np.maximum((out * hull).sum(axis=1) - MARGIN_M, 0.0)
    none = np.zeros(len(hull))
    edges = EDGE_SCALE * np.stack([none, room, none, out[:, 1], none, -out[:, 0]], axis=1)
    reach = friction * float(np.linalg.norm(flat, axis=1).mean())
    twists = np.array([[0.0, reach, 0.0, 0.0, 1.0, 0.0], [0.0, reach, 0.0, 0.0, -1.0, 0.0]])
    matrix = np.concatenate([normal, sides, edges, twists]) @ wrench_shift_matrix(middle)
    lower, upper = np.zeros(len(matrix)), np.full(len(matrix), np.inf)
    upper[0] = MAX_FORCE
    names = ["normal force", *["friction"] * len(sides), *["balance"] * len(edges), *["twist"] * 2]
    return matrix, lower, upper, names


def convex_hull(points: FloatArray) -> FloatArray:
    """Corners of the hull of points in the plane ``(P, 2)``, counter-clockwise; the chain of Andrew."""
    if len(points) < 2:
        return points
    order = points[np.lexsort((points[:, 1], points[:, 0]))]
    hull: list[FloatArray] = []
    for line in (order, order[::-1]):
        chain: list[FloatArray] = []
        for c in line:
            # A corner that does not turn to the left is inside
            while len(chain) > 1:
                a, b = chain[-2:]
                if (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) > 1e-12:
                    break
                chain.pop()
            chain.append(c)
        hull += chain[:-1]
    return np.array(hull)
