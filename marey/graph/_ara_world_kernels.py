"""Compiled tests of one edge in the world: walls, water, constraints, and the cost left.

Arrays are handed over one by one: a tuple of many arrays costs more to hand over than the tests themselves.
``grid`` is x and z of the first corner and the size of a cell [m]; ``c`` and ``s`` are cosine and sine of the anchor.
"""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.graph._ara import (
    BIN_SHIFT,
    GOAL_X,
    GOAL_Y,
    GOAL_Z,
    HANDS,
    HEADING,
    HEADING_TOL,
    LENGTH,
    PIN_TOLERANCE,
    PIN_X,
    PIN_Z,
    RISE,
    STOP,
    TOLERANCE,
)


@kernel
def wrap_angle(angle: float) -> float:
    """The same angle between -pi and pi."""
    return float((angle + np.pi) % (2.0 * np.pi) - np.pi)


@kernel
def is_cell_set(cells: BoolArray, grid: FloatArray, x: float, z: float) -> bool:
    """Whether the cell of a place is set; outside there is none."""
    column = int(np.floor((x - grid[0]) / grid[2]))
    row = int(np.floor((z - grid[1]) / grid[2]))
    if row < 0 or column < 0 or row >= cells.shape[0] or column >= cells.shape[1]:
        return False
    return bool(cells[row, column])


@kernel
def remaining_distance(distance: FloatArray, grid: FloatArray, layer: int, x: float, z: float) -> float:
    """Least way [m] from a place to the end, linear between the centres of four cells; inf where blocked."""
    u, v = (x - grid[0]) / grid[2] - 0.5, (z - grid[1]) / grid[2] - 0.5
    column, row = int(np.floor(u)), int(np.floor(v))
    if row < 0 or column < 0 or row + 1 >= distance.shape[1] or column + 1 >= distance.shape[2]:
        return np.inf
    u, v = u - column, v - row
    near = (1.0 - u) * distance[layer, row, column] + u * distance[layer, row, column + 1]
    far = (1.0 - u) * distance[layer, row + 1, column] + u * distance[layer, row + 1, column + 1]
    return float((1.0 - v) * near + v * far)


@kernel
def evaluate_heuristic(
    distance: FloatArray, grid: FloatArray, rate: FloatArray, base: FloatArray, turned: FloatArray, node: int, met: int,
    x: float, z: float, yaw: float,
) -> float:  # fmt: skip
    r"""Lower bound of the cost to the end, :math:`\max_r (\lambda_r d_m(x) + \varphi_{r,m}(s))`; inf: no way."""
    way = remaining_distance(distance, grid, met, x, z)
    if not np.isfinite(way):
        return np.inf
    best = 0.0
    for r in range(len(rate)):
        best = max(best, rate[r] * way + base[r, met, node])
    turns = turned.shape[2]
    if turns > 0:
        turn = int((yaw + np.pi + BIN_SHIFT) / (2.0 * np.pi) * turns) % turns
        best = max(best, rate[-1] * way + turned[met, node, turn])
    return best


@kernel
def is_path_free(
    path: FloatArray, free: BoolArray, grid: FloatArray, e: int, x: float, z: float, c: float, s: float
) -> bool:
    """Whether the root may go along an edge from an anchor."""
    for k in range(path.shape[1]):
        px, pz = path[e, k, 0], path[e, k, 1]
        if not is_cell_set(free, grid, x + c * px + s * pz, z - s * px + c * pz):
            return False
    return True


@kernel
def can_stand(
    feet: FloatArray, firm: BoolArray, grid: FloatArray, node: int, x: float, z: float, c: float, s: float
) -> bool:
    """Whether every planted foot of a state at an anchor stands on firm ground."""
    for f in range(2):
        fx, fz = feet[node, f, 0], feet[node, f, 1]
        if np.isfinite(fx) and not is_cell_set(firm, grid, x + c * fx + s * fz, z - s * fx + c * fz):
            return False
    return True


@kernel
def is_picked(
    wish: FloatArray, event: IntArray, hand: FloatArray, node: int, x: float, z: float, c: float, s: float, rx: float,
    rz: float,
) -> bool:  # fmt: skip
    """Whether a state at an anchor has the wanted hand at the object, and its root (rx, rz) where it is pinned."""
    what = event[node]
    if not (what == 1 or what == 2) or (int(wish[HANDS]) & what) == 0:
        return False
    hx, hy, hz = hand[node, 0], hand[node, 1], hand[node, 2]
    dx = x + c * hx + s * hz - wish[GOAL_X]
    dz = z - s * hx + c * hz - wish[GOAL_Z]
    dy = hy - wish[GOAL_Y]
    if np.isfinite(wish[PIN_X]) and (rx - wish[PIN_X]) ** 2 + (rz - wish[PIN_Z]) ** 2 > wish[PIN_TOLERANCE] ** 2:
        return False
    return bool(dx * dx + dy * dy + dz * dz <= wish[TOLERANCE] ** 2)


@kernel
def is_jumped(
    wish: FloatArray, flight: FloatArray, path: FloatArray, e: int, x: float, z: float, c: float, s: float
) -> bool:
    """Whether an edge from an anchor is a flight that is long and high enough and passes over the place."""
    if flight[e, 0] <= 0.0 or flight[e, 0] < wish[LENGTH] or flight[e, 1] < wish[RISE]:
        return False
    px, pz = path[e, 0, 0], path[e, 0, 1]
    ax, az = x + c * px + s * pz, z - s * px + c * pz
    px, pz = path[e, -1, 0], path[e, -1, 1]
    ux, uz = x + c * px + s * pz - ax, z - s * px + c * pz - az
    gx, gz = wish[GOAL_X] - ax, wish[GOAL_Z] - az
    t = min(max((gx * ux + gz * uz) / max(ux * ux + uz * uz, 1e-12), 0.0), 1.0)
    return bool(np.hypot(gx - t * ux, gz - t * uz) <= wish[TOLERANCE])


@kernel
def is_crossed(wish: FloatArray, x: float, z: float, nx: float, nz: float) -> bool:
    """Whether a plant and the next are on both sides of a river, and the way between them passes near the place."""
    s, c = np.sin(wish[HEADING]), np.cos(wish[HEADING])
    before = s * (x - wish[GOAL_X]) + c * (z - wish[GOAL_Z])
    after = s * (nx - wish[GOAL_X]) + c * (nz - wish[GOAL_Z])
    if before >= 0.0 or after <= 0.0:
        return False
    t = before / (before - after)
    dx, dz = x + t * (nx - x) - wish[GOAL_X], z + t * (nz - z) - wish[GOAL_Z]
    return bool(dx * dx + dz * dz <= wish[TOLERANCE] ** 2)


@kernel
def is_reached(wish: FloatArray, stands: bool, x: float, z: float, yaw: float) -> bool:
    """Whether a root is where it is wanted, turned and standing as wanted."""
    if wish[STOP] != 0.0 and not stands:
        return False
    dx, dz = x - wish[GOAL_X], z - wish[GOAL_Z]
    if dx * dx + dz * dz > wish[TOLERANCE] ** 2:
        return False
    return not np.isfinite(wish[HEADING]) or abs(wrap_angle(yaw - wish[HEADING])) <= HEADING_TOL
