"""Compiled steps in the world: tests of one edge against walls, water and constraints, and moves of footsteps.

The footsteps of an approach move by some centimetres, so that its end is exact.

Arrays are handed over one by one: a tuple of many arrays costs more to hand over than the tests themselves.
``grid`` is x and z of the first corner and the size of a cell [m].
"""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.graph.arrays import (
    BIN_SHIFT,
    EMPTY,
    HEADING_TOL,
    JUMP,
    MAX_ANCHOR_ROTATION_RAD,
    MAX_STEP_ROTATION_RAD,
    MAX_STEP_SHIFT_M,
    STEP,
    Anchor,
    HeuristicTerms,
    Records,
    SearchSpace,
)

METRES_PER_RADIAN = MAX_STEP_SHIFT_M / MAX_STEP_ROTATION_RAD  # [m] a turn of a step counts as a move at this distance
ERROR_FRACTION = 0.9  # of its tolerance that a pinned root may be off, so that the hand is nearer
MIN_STEP_M = 0.05  # [m] a shorter approach has no steps


@kernel
def wrap_angle(angle: float) -> float:
    """The same angle between -pi and pi."""
    turned = angle + np.pi
    # Most are there already, and division takes long
    return turned - np.pi if 0.0 <= turned < 2.0 * np.pi else turned % (2.0 * np.pi) - np.pi


@kernel
def make_anchor(x: float, z: float, yaw: float) -> Anchor:
    """An anchor with the cosine and sine of its direction."""
    return Anchor(x, z, yaw, np.cos(yaw), np.sin(yaw))


@kernel
def transform_point(anchor: Anchor, x: float, z: float) -> tuple[float, float]:
    """A point of the frame of an anchor, in the world."""
    return anchor.x + anchor.cos * x + anchor.sin * z, anchor.z - anchor.sin * x + anchor.cos * z


@kernel
def follow_edge(delta: FloatArray, e: int, anchor: Anchor) -> Anchor:
    """Anchor after an edge: its displacement in the frame of the anchor before it."""
    x, z = transform_point(anchor, delta[e, 0], delta[e, 1])
    return make_anchor(x, z, wrap_angle(anchor.yaw + delta[e, 2]))


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
    distance: FloatArray, grid: FloatArray, terms: HeuristicTerms, node: int, met: int, x: float, z: float, yaw: float
) -> float:
    """Lower bound of the cost to the end, the greatest of all terms; inf: no way."""
    way = remaining_distance(distance, grid, met, x, z)
    if not np.isfinite(way):
        return np.inf
    row = 0
    if terms.base.shape[2] > 1:
        leg = remaining_distance(terms.leg, grid, met, x, z)
        row = min(int(min(leg, way) / terms.step), terms.base.shape[2] - 1)
    best, rate = 0.0, terms.rate
    for r in range(len(rate)):
        best = max(best, rate[r] * way + terms.base[r, met, row, node])
    # The term that knows the direction of the anchor, if there is one
    turns = terms.turned.shape[2]
    if turns > 0:
        turn = int((yaw + np.pi + BIN_SHIFT) / (2.0 * np.pi) * turns) % turns
        best = max(best, rate[-1] * way + terms.turned[met, node, turn])
    if len(terms.line) > 0:
        facing, line = terms.facing, terms.line
        turns = facing.shape[3]
        turn = int((yaw + np.pi + BIN_SHIFT) / (2.0 * np.pi) * turns) % turns
        at = int(np.floor(line[met, 0] * x + line[met, 1] * z + line[met, 2]))
        best = max(best, facing[met, min(max(at, 0), facing.shape[1] - 1), node, turn])
    return best


@kernel
def is_path_free(path: FloatArray, free: BoolArray, grid: FloatArray, e: int, anchor: Anchor) -> bool:
    """Whether the root may go along an edge from an anchor."""
    for k in range(path.shape[1]):
        x, z = transform_point(anchor, path[e, k, 0], path[e, k, 1])
        if not is_cell_set(free, grid, x, z):
            return False
    return True


@kernel
def can_stand(feet: FloatArray, firm: BoolArray, grid: FloatArray, node: int, anchor: Anchor) -> bool:
    """Whether every planted foot of a state at an anchor stands on firm ground."""
    for f in range(2):
        x, z = transform_point(anchor, feet[node, f, 0], feet[node, f, 1])
        if np.isfinite(feet[node, f, 0]) and not is_cell_set(firm, grid, x, z):
            return False
    return True


@kernel
def is_jumped(goal: Records, flight: FloatArray, path: FloatArray, e: int, anchor: Anchor) -> bool:
    """Whether an edge from an anchor is a flight that is long and high enough and passes over the place."""
    if flight[e, 0] <= 0.0 or flight[e, 0] < goal.length or flight[e, 1] < goal.rise:
        return False
    # Distance of the place from the straight way of the root
    ax, az = transform_point(anchor, path[e, 0, 0], path[e, 0, 1])
    bx, bz = transform_point(anchor, path[e, -1, 0], path[e, -1, 1])
    ux, uz, gx, gz = bx - ax, bz - az, goal.x - ax, goal.z - az
    t = min(max((gx * ux + gz * uz) / max(ux * ux + uz * uz, 1e-12), 0.0), 1.0)
    return bool(np.hypot(gx - t * ux, gz - t * uz) <= goal.tolerance)


@kernel
def is_crossed(goal: Records, x: float, z: float, nx: float, nz: float) -> bool:
    """Whether a plant and the next are on both sides of a river, and the way between them passes near the place."""
    s, c = np.sin(goal.heading), np.cos(goal.heading)
    before = s * (x - goal.x) + c * (z - goal.z)
    after = s * (nx - goal.x) + c * (nz - goal.z)
    if before >= 0.0 or after <= 0.0:
        return False
    t = before / (before - after)
    dx, dz = x + t * (nx - x) - goal.x, z + t * (nz - z) - goal.z
    return bool(dx * dx + dz * dz <= goal.tolerance**2)


@kernel
def is_leapt(goal: Records, flight: FloatArray, path: FloatArray, e: int, before: Anchor, after: Anchor) -> bool:
    """Whether an edge from one anchor to another is the jump, or the step over water, that is asked for."""
    if goal.kind == JUMP:
        if not is_jumped(goal, flight, path, e, before):
            return False
        return np.isnan(goal.heading) or is_crossed(goal, before.x, before.z, after.x, after.z)
    return goal.kind == STEP and is_crossed(goal, before.x, before.z, after.x, after.z)


@kernel
def is_allowed(goal: Records, stands: BoolArray, marks: BoolArray, node: int) -> bool:
    """Whether a place is met in a state: standing where one is to stop, and where a custom event begins."""
    if goal.mark != EMPTY:
        return bool(marks[goal.mark, node])
    return goal.stop == 0 or bool(stands[node])


@kernel
def is_reached(goal: Records, allowed: bool, x: float, z: float, yaw: float) -> bool:
    """Whether a root is at its place and heading, in a state in which they count."""
    if not allowed:
        return False
    dx, dz = x - goal.x, z - goal.z
    if dx * dx + dz * dz > goal.tolerance**2:
        return False
    return not np.isfinite(goal.heading) or abs(wrap_angle(yaw - goal.heading)) <= HEADING_TOL


@kernel
def is_picked(
    goal: Records, event: int, hand: FloatArray, node: int, anchor: Anchor, root_x: float, root_z: float
) -> bool:
    """Whether a state at an anchor has the given hand at the object, and its root at its pin."""
    if not (event == 1 or event == 2) or (goal.hands & event) == 0:
        return False
    hx, hz = transform_point(anchor, hand[node, 0], hand[node, 2])
    dx, dy, dz = hx - goal.x, hand[node, 1] - goal.y, hz - goal.z
    off = (root_x - goal.pin_x) ** 2 + (root_z - goal.pin_z) ** 2
    if np.isfinite(goal.pin_x) and off > goal.pin_tolerance**2:
        return False
    return bool(dx * dx + dy * dy + dz * dz <= goal.tolerance**2)


@kernel
def is_near_pick(goal: Records, event: int, hand: FloatArray, root: FloatArray, node: int, anchor: Anchor) -> bool:
    """Whether a state at an anchor is so near to a pick that footsteps could make it one."""
    if not (event == 1 or event == 2) or (goal.hands & event) == 0:
        return False
    if abs(hand[node, 1] - goal.y) > goal.tolerance:
        return False
    hx, hz = transform_point(anchor, hand[node, 0], hand[node, 2])
    near = (goal.tolerance + goal.slack) ** 2
    if (hx - goal.x) ** 2 + (hz - goal.z) ** 2 > near:
        return False
    rx, rz = transform_point(anchor, root[node, 0], root[node, 1])
    near = (goal.pin_tolerance + goal.slack) ** 2
    return np.isnan(goal.pin_x) or (rx - goal.pin_x) ** 2 + (rz - goal.pin_z) ** 2 <= near


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
    p, r = 1.0 + (xx - mx * mx) / METRES_PER_RADIAN**2, 1.0 + (zz - mz * mz) / METRES_PER_RADIAN**2
    q = (xz - mx * mz) / METRES_PER_RADIAN**2
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
        shift, turn = np.hypot(changes[i, 0], changes[i, 1]), abs(changes[i, 2])
        most = max(most, shift / MAX_STEP_SHIFT_M, turn / MAX_STEP_ROTATION_RAD)
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
def is_within_tolerance(goal: Records, hand: FloatArray, root: FloatArray, anchor: Anchor) -> bool:
    """Whether the hand is at its object, and the root at its pin, if it has one."""
    hx, hz = transform_point(anchor, hand[0], hand[2])
    if np.sqrt((hx - goal.x) ** 2 + (hand[1] - goal.y) ** 2 + (hz - goal.z) ** 2) > goal.tolerance:
        return False
    rx, rz = transform_point(anchor, root[0], root[1])
    return np.isnan(goal.pin_x) or np.hypot(rx - goal.pin_x, rz - goal.pin_z) <= goal.pin_tolerance


@kernel
def ideal_anchor(goal: Records, hand: FloatArray, root: FloatArray, anchor: Anchor) -> Anchor:
    """Anchor with the hand over its object and the root at its pin; what is left over is shared by both."""
    hx, hz = transform_point(anchor, hand[0], hand[2])
    turn, tx, tz = 0.0, goal.x, goal.z
    if np.isfinite(goal.pin_x):
        rx, rz = transform_point(anchor, root[0], root[1])
        wx, wz = tx - goal.pin_x, tz - goal.pin_z
        own, wanted = np.hypot(hx - rx, hz - rz), max(np.hypot(wx, wz), 1e-9)
        turn = wrap_angle(np.arctan2(wx, wz) - np.arctan2(hx - rx, hz - rz))
        # Of what hand and root are too near or too far from one another, the hand takes what its tolerance allows
        room = np.sqrt(max(goal.tolerance**2 - (hand[1] - goal.y) ** 2, 0.0))
        spare = own - wanted
        shift = min(max(0.5 * abs(spare), abs(spare) - ERROR_FRACTION * goal.pin_tolerance), room) * np.sign(spare)
        tx, tz = tx + shift * wx / wanted, tz + shift * wz / wanted
    ideal = make_anchor(anchor.x, anchor.z, wrap_angle(anchor.yaw + turn))
    at_x, at_z = transform_point(ideal, hand[0], hand[2])
    return make_anchor(ideal.x + tx - at_x, ideal.z + tz - at_z, ideal.yaw)


@kernel
def is_walkable(space: SearchSpace, grid: FloatArray, nodes: IntArray, edges: IntArray, places: FloatArray) -> bool:
    """Whether all steps but the first stand on firm ground, and the root keeps to where it may be."""
    roads, world = space.graph, space.world
    for i in range(1, len(places)):
        if edges[i] >= len(roads.path):
            return False
        before = make_anchor(places[i - 1, 0], places[i - 1, 1], places[i - 1, 2])
        after = make_anchor(places[i, 0], places[i, 1], places[i, 2])
        if not can_stand(roads.feet, world.stand, grid, nodes[i], after):
            return False
        if not is_path_free(roads.path, world.free, grid, edges[i], before):
            return False
    return True


@kernel
def move_to_pick(
    space: SearchSpace, grid: FloatArray, goal: Records, s: int, e: int, anchor: Anchor
) -> tuple[bool, Anchor]:
    """Whether an edge that ends near a pick ends in it, once footsteps since the last constraint have given way.

    Args:
        space: of the search.
        grid: of its cells.
        goal: constraint of the pick.
        s: search state.
        e: edge from it.
        anchor: where the edge ends.

    Returns:
        The answer, and where the edge ends after the move; where it ended before if it is no.
    """
    roads, visited = space.graph, space.memory.states
    t = int(roads.target[e])
    hand, root = roads.hand[t], roads.root[t]
    # Search states since the last constraint was met, and their anchors
    n, at, met = 1, s, visited[s].met
    while visited[at].parent != EMPTY and visited[visited[at].parent].met == met:
        at = visited[at].parent
        n += 1
    nodes, edges = np.empty(n + 1, dtype=np.int64), np.empty(n + 1, dtype=np.int64)
    places = np.empty((n + 1, 3))
    nodes[n], edges[n] = t, e
    places[n, 0], places[n, 1], places[n, 2] = anchor.x, anchor.z, anchor.yaw
    at = s
    for i in range(n - 1, -1, -1):
        state = visited[at]
        nodes[i], edges[i] = state.node, state.edge
        places[i, 0], places[i, 1], places[i, 2] = state.x, state.z, state.yaw
        at = state.parent
    length = 0.0
    for i in range(n):
        length += np.hypot(places[i + 1, 0] - places[i, 0], places[i + 1, 1] - places[i, 1])
    if length > MIN_STEP_M:
        ideal = ideal_anchor(goal, hand, root, anchor)
        # Part of the way to the ideal anchor that steps, slack and turn allow
        ax, az = transform_point(anchor, root[0], root[1])
        bx, bz = transform_point(ideal, root[0], root[1])
        turn = wrap_angle(ideal.yaw - anchor.yaw)
        part = feasible_fraction(solve_step_changes(places, np.array([ideal.x, ideal.z, ideal.yaw])))
        part = min(part, 0.99 * goal.slack / max(np.hypot(bx - ax, bz - az), 1e-9))
        part = min(part, MAX_ANCHOR_ROTATION_RAD / max(abs(turn), 1e-9))
        moved = make_anchor(
            anchor.x + part * (ideal.x - anchor.x),
            anchor.z + part * (ideal.z - anchor.z),
            wrap_angle(anchor.yaw + part * turn),
        )
        # Hand and root within their tolerances, the root moved no farther than it may; steps find ground and free cells
        gx, gz = transform_point(moved, root[0], root[1])
        if (
            is_within_tolerance(goal, hand, root, moved)
            and (ax - gx) ** 2 + (az - gz) ** 2 <= goal.slack**2
            and is_walkable(space, grid, nodes, edges, move_steps(places, np.array([moved.x, moved.z, moved.yaw])))
        ):
            return True, moved
    # Without a move, the pick counts if it is within its tolerances as it is
    return is_within_tolerance(goal, hand, root, anchor), anchor
