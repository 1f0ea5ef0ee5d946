"""Compiled steps in the world: tests of one edge against walls, water and constraints, and moves of footsteps.

The footsteps of an approach move by some centimetres, so that its end is exact.

Arrays are handed over one by one: a tuple of many arrays costs more to hand over than the tests themselves.
``grid`` is x and z of the first corner and the size of a cell [m]; ``c`` and ``s`` are cosine and sine of the anchor.
"""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.graph.arrays import (
    BIN_SHIFT,
    EDGE,
    EMPTY,
    GOAL_X,
    GOAL_Y,
    GOAL_Z,
    HANDS,
    HEADING,
    HEADING_TOL,
    LENGTH,
    MAX_ANCHOR_ROTATION_RAD,
    MAX_STEP_ROTATION_RAD,
    MAX_STEP_SHIFT_M,
    MET,
    NODE,
    PARENT,
    PIN_TOLERANCE,
    PIN_X,
    PIN_Z,
    RISE,
    SLACK,
    STOP,
    TOLERANCE,
    YAW,
    GridArrays,
    SearchGraph,
    SearchMemory,
    X,
    Z,
)


@kernel
def wrap_angle(angle: float) -> float:
    """The same angle between -pi and pi."""
    return float((angle + np.pi) % (2.0 * np.pi) - np.pi)


@kernel
def is_cell_set(cells: BoolArray, grid: FloatArray, x: float, z: float) -> bool:
    """Whether the cell of a position is set; false outside the grid."""
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
    """Whether a state at an anchor has the given hand at the object, and its root (rx, rz) at its pin."""
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
    """Whether a root meets its position, heading and stance targets."""
    if wish[STOP] != 0.0 and not stands:
        return False
    dx, dz = x - wish[GOAL_X], z - wish[GOAL_Z]
    if dx * dx + dz * dz > wish[TOLERANCE] ** 2:
        return False
    return not np.isfinite(wish[HEADING]) or abs(wrap_angle(yaw - wish[HEADING])) <= HEADING_TOL


METRES_PER_RADIAN = (
    MAX_STEP_SHIFT_M / MAX_STEP_ROTATION_RAD
)  # [m] a turn of a step counts as a move by it at this distance
ERROR_FRACTION = 0.9  # of its tolerance that a pinned root may be off, so that the hand is nearer
MIN_STEP_M = 0.05  # [m] a shorter approach has no steps


@kernel
def transform_point(place: FloatArray, x: float, z: float) -> tuple[float, float]:
    """A point of the frame of an anchor, in the world."""
    c, s = np.cos(place[2]), np.sin(place[2])
    return place[0] + c * x + s * z, place[1] - s * x + c * z


@kernel
def solve_step_changes(places: FloatArray, target: FloatArray) -> FloatArray:
    r"""Correction of each step ``(n, 3)`` [m], [rad] that brings the last of ``places`` to ``target``.

    All from step i on moves by :math:`d_i` and turns by :math:`\theta_i` about its foot. To first order that carries
    the last place by :math:`\sum_i d_i + \theta_i a_i` with :math:`a_i` the last place seen from step i, turned by a
    right angle, and turns it by :math:`\sum_i \theta_i`. Of all such changes this is the one with the least
    :math:`\sum_i (|d_i|^2 + L^2 \theta_i^2) / w_i`; :math:`w_i` is how long step i is: what does not step stays.
    """
    n = len(places)
    w, a = np.zeros(n), np.zeros((n, 2))
    # Lengths w_i of the steps, and levers a_i of the last place
    for i in range(1, n):
        w[i] = np.hypot(places[i, 0] - places[i - 1, 0], places[i, 1] - places[i - 1, 1])
        a[i, 0], a[i, 1] = places[n - 1, 1] - places[i, 1], places[i, 0] - places[n - 1, 0]
    w /= max(w.sum(), 1e-9)
    # Weighted mean and second moments of the levers
    mx, mz, xx, xz, zz = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        mx, mz = mx + w[i] * a[i, 0], mz + w[i] * a[i, 1]
        xx, xz, zz = xx + w[i] * a[i, 0] ** 2, xz + w[i] * a[i, 0] * a[i, 1], zz + w[i] * a[i, 1] ** 2
    # 2x2 normal equations of the translation, after the mean lever took up the turn
    turn = wrap_angle(target[2] - places[n - 1, 2])
    p, q, r = (
        1.0 + (xx - mx * mx) / METRES_PER_RADIAN**2,
        (xz - mx * mz) / METRES_PER_RADIAN**2,
        1.0 + (zz - mz * mz) / METRES_PER_RADIAN**2,
    )
    bx, bz = target[0] - places[n - 1, 0] - mx * turn, target[1] - places[n - 1, 1] - mz * turn
    ux, uz = (r * bx - q * bz) / (p * r - q * q), (p * bz - q * bx) / (p * r - q * q)
    # Spread translation and turn over the steps by their weights
    changes = np.zeros((n, 3))
    for i in range(n):
        lever = (a[i, 0] - mx) * ux + (a[i, 1] - mz) * uz
        changes[i, 0], changes[i, 1], changes[i, 2] = w[i] * ux, w[i] * uz, w[i] * (turn + lever / METRES_PER_RADIAN**2)
    return changes


@kernel
def feasible_fraction(changes: FloatArray) -> float:
    """Largest fraction of the changes that stays within what a step may move."""
    most = 1.0
    for i in range(len(changes)):
        most = max(
            most, np.hypot(changes[i, 0], changes[i, 1]) / MAX_STEP_SHIFT_M, abs(changes[i, 2]) / MAX_STEP_ROTATION_RAD
        )
    return 1.0 / most


@kernel
def move_steps(places: FloatArray, target: FloatArray) -> FloatArray:
    """Places ``(n, 3)`` with the first as it is and the last at ``target``; turns are small, so three rounds do."""
    moved = places
    for _ in range(3):
        # Apply the changes step by step; each step is carried and turned by those before it
        changes = solve_step_changes(moved, target)
        carried = moved.copy()
        turn = 0.0
        for i in range(1, len(moved)):
            c, s = np.cos(turn), np.sin(turn)
            dx, dz = moved[i, 0] - moved[i - 1, 0], moved[i, 1] - moved[i - 1, 1]
            carried[i, 0] = carried[i - 1, 0] + c * dx + s * dz + changes[i, 0]
            carried[i, 1] = carried[i - 1, 1] - s * dx + c * dz + changes[i, 1]
            turn += changes[i, 2]
            carried[i, 2] = wrap_angle(moved[i, 2] + turn)
        moved = carried
    moved[-1, 0], moved[-1, 1], moved[-1, 2] = target[0], target[1], target[2]
    return moved


@kernel
def pick_errors(wish: FloatArray, hand: FloatArray, root: FloatArray, place: FloatArray) -> tuple[float, float]:
    """Distance [m] of the hand from its object, and of the root from its pin, if it has one."""
    hx, hz = transform_point(place, hand[0], hand[2])
    away = np.sqrt((hx - wish[GOAL_X]) ** 2 + (hand[1] - wish[GOAL_Y]) ** 2 + (hz - wish[GOAL_Z]) ** 2)
    if np.isnan(wish[PIN_X]):
        return away, 0.0
    rx, rz = transform_point(place, root[0], root[1])
    return away, np.hypot(rx - wish[PIN_X], rz - wish[PIN_Z])


@kernel
def is_near_pick(wish: FloatArray, event: int, hand: FloatArray, root: FloatArray, place: FloatArray) -> bool:
    """Whether a state at an anchor is so near to a pick that footsteps could make it one."""
    if not (event == 1 or event == 2) or (int(wish[HANDS]) & event) == 0:
        return False
    if abs(hand[1] - wish[GOAL_Y]) > wish[TOLERANCE]:
        return False
    hx, hz = transform_point(place, hand[0], hand[2])
    near = (wish[TOLERANCE] + wish[SLACK]) ** 2
    if (hx - wish[GOAL_X]) ** 2 + (hz - wish[GOAL_Z]) ** 2 > near:
        return False
    rx, rz = transform_point(place, root[0], root[1])
    near = (wish[PIN_TOLERANCE] + wish[SLACK]) ** 2
    return np.isnan(wish[PIN_X]) or (rx - wish[PIN_X]) ** 2 + (rz - wish[PIN_Z]) ** 2 <= near


@kernel
def is_pick_unreachable(roads: SearchGraph, wish: FloatArray, node: int, x: float, z: float, yaw: float) -> bool:
    """Whether a state at an anchor leads to a single pick that cannot be moved to its target."""
    if len(roads.pick) == 0 or roads.pick[node] == EMPTY:
        return False
    pick, delta, place = int(roads.pick[node]), roads.pick_end[node], np.array([x, z, yaw])
    ex, ez = transform_point(place, delta[0], delta[1])
    place[0], place[1], place[2] = ex, ez, wrap_angle(yaw + delta[2])
    return not is_near_pick(wish, int(roads.event[pick]), roads.hand[pick], roads.root[pick], place)


@kernel
def is_walkable(
    roads: SearchGraph, free: BoolArray, firm: BoolArray, grid: FloatArray, nodes: IntArray, edges: IntArray,
    places: FloatArray,
) -> bool:  # fmt: skip
    """Whether all steps but the first stand on firm ground, and the root keeps to where it may be."""
    for i in range(1, len(places)):
        if edges[i] >= len(roads.path):
            return False
        c, s = np.cos(places[i, 2]), np.sin(places[i, 2])
        if not can_stand(roads.feet, firm, grid, nodes[i], places[i, 0], places[i, 1], c, s):
            return False
        c, s = np.cos(places[i - 1, 2]), np.sin(places[i - 1, 2])
        if not is_path_free(roads.path, free, grid, edges[i], places[i - 1, 0], places[i - 1, 1], c, s):
            return False
    return True


@kernel
def move_to_pick(
    roads: SearchGraph,
    world: GridArrays,
    grid: FloatArray,
    wish: FloatArray,
    memory: SearchMemory,
    s: int,
    e: int,
    place: FloatArray,
) -> bool:
    """Whether an edge from a search state ends in a pick, once footsteps since the last constraint have given way.

    Args:
        roads: the graph.
        world: of the sketch.
        grid: of its cells.
        wish: constraint of the pick.
        memory: of the search.
        s: search state.
        e: edge from it.
        place: (3,) where the edge ends; where it ends after the move, if true is returned.
    """
    t, whole = int(roads.target[e]), memory.whole
    hand, root = roads.hand[t], roads.root[t]
    if not is_near_pick(wish, int(roads.event[t]), hand, root, place):
        return False
    # Search states since the last constraint was met, and their anchors
    count, at = 1, s
    while whole[at, PARENT] != EMPTY and whole[whole[at, PARENT], MET] == whole[s, MET]:
        at = whole[at, PARENT]
        count += 1
    states, places = np.empty(count, dtype=np.int64), np.empty((count + 1, 3))
    at = s
    for i in range(count - 1, -1, -1):
        states[i] = at
        places[i, 0], places[i, 1], places[i, 2] = memory.real[at, X], memory.real[at, Z], memory.real[at, YAW]
        at = whole[at, PARENT]
    n = len(states)
    places[n, 0], places[n, 1], places[n, 2] = place[0], place[1], place[2]
    length = 0.0
    for i in range(n):
        length += np.hypot(places[i + 1, 0] - places[i, 0], places[i + 1, 1] - places[i, 1])
    if length > MIN_STEP_M:
        # Ideal anchor: the hand over its object and the root at its pin; what is left over is shared by both
        hx, hz = transform_point(place, hand[0], hand[2])
        ideal, turn = place.copy(), 0.0
        tx, tz = wish[GOAL_X], wish[GOAL_Z]
        if np.isfinite(wish[PIN_X]):
            rx, rz = transform_point(place, root[0], root[1])
            wx, wz = tx - wish[PIN_X], tz - wish[PIN_Z]
            own, wanted = np.hypot(hx - rx, hz - rz), max(np.hypot(wx, wz), 1e-9)
            turn = wrap_angle(np.arctan2(wx, wz) - np.arctan2(hx - rx, hz - rz))
            room = np.sqrt(max(wish[TOLERANCE] ** 2 - (hand[1] - wish[GOAL_Y]) ** 2, 0.0))
            spare = own - wanted
            shift = min(max(0.5 * abs(spare), abs(spare) - ERROR_FRACTION * wish[PIN_TOLERANCE]), room) * np.sign(spare)
            tx, tz = tx + shift * wx / wanted, tz + shift * wz / wanted
        ideal[2] = wrap_angle(place[2] + turn)
        at_x, at_z = transform_point(ideal, hand[0], hand[2])
        ideal[0], ideal[1] = ideal[0] + tx - at_x, ideal[1] + tz - at_z
        # Part of the way to it that steps, slack and turn allow
        ax, az = transform_point(place, root[0], root[1])
        bx, bz = transform_point(ideal, root[0], root[1])
        part = feasible_fraction(solve_step_changes(places, ideal))
        part = min(part, 0.99 * wish[SLACK] / max(np.hypot(bx - ax, bz - az), 1e-9))
        part = min(part, MAX_ANCHOR_ROTATION_RAD / max(abs(wrap_angle(ideal[2] - place[2])), 1e-9))
        goal = place + part * (ideal - place)
        goal[2] = wrap_angle(place[2] + part * wrap_angle(ideal[2] - place[2]))
        # Steps that gave way must still find ground and free cells
        if is_pick_accepted(wish, hand, root, place, goal):
            nodes, edges = np.empty(n + 1, dtype=np.int64), np.empty(n + 1, dtype=np.int64)
            for i in range(n):
                nodes[i], edges[i] = whole[states[i], NODE], whole[states[i], EDGE]
            nodes[n], edges[n] = t, e
            if is_walkable(roads, world.free, world.stand, grid, nodes, edges, move_steps(places, goal)):
                place[0], place[1], place[2] = goal[0], goal[1], goal[2]
                return True
    # Without a move, the pick counts if it is within its tolerances as it is
    away, off = pick_errors(wish, hand, root, place)
    return away <= wish[TOLERANCE] and off <= wish[PIN_TOLERANCE]


@kernel
def is_pick_accepted(wish: FloatArray, hand: FloatArray, root: FloatArray, place: FloatArray, goal: FloatArray) -> bool:
    """Whether hand and root are within the tolerance at an anchor, and the root moved no farther than it may."""
    away, off = pick_errors(wish, hand, root, goal)
    if away > wish[TOLERANCE] or off > wish[PIN_TOLERANCE]:
        return False
    ax, az = transform_point(place, root[0], root[1])
    bx, bz = transform_point(goal, root[0], root[1])
    return (ax - bx) ** 2 + (az - bz) ** 2 <= wish[SLACK] ** 2
