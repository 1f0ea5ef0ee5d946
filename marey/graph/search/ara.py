"""Compiled anytime repairing A* over the graph unrolled into the world."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.graph.algorithms import pop_heap, push_heap
from marey.graph.arrays import (
    BLOCKED,
    CLOSED,
    DONE,
    EDGE,
    EMPTY,
    EXPANSIONS,
    FULL,
    GOAL,
    GOAL_X,
    GOAL_Z,
    HANDS,
    HEADING,
    HEAP,
    INCONSISTENT,
    JUMP,
    KEY,
    KIND,
    MAX_BLOCKED,
    MET,
    NODE,
    OPEN,
    PARENT,
    PICK,
    REACH,
    RUNNING,
    SLACK,
    SLOT,
    STATES,
    STATUS,
    STEP,
    TOLERANCE,
    VIOLATIONS,
    YAW,
    G,
    GridArrays,
    H,
    HeuristicTerms,
    SearchGraph,
    SearchMemory,
    X,
    Z,
)
from marey.graph.search.footsteps import (
    can_stand,
    evaluate_heuristic,
    is_crossed,
    is_jumped,
    is_path_free,
    is_pick_unreachable,
    is_picked,
    is_reached,
    move_to_pick,
    wrap_angle,
)

CELL_SIZES_M = np.array(
    [0.1, 0.05, 0.02]
)  # [m] places in one cell are the same place: on the way, near a pick, a tight one
DIRECTION_COUNTS = np.array([60, 120, 360])  # number of direction bins
FINE_REACH = 1.0  # [m] from a pick, finer cells are used
TIGHT_TOLERANCE_M = 0.03  # [m] a pick with no more tolerance than this is tight
CONSISTENT = 1e-9  # an estimate may fall by this much more than an edge costs


@kernel
def find_slot(table: IntArray, whole: IntArray, key: int) -> int:
    """Place in the table of a key, or of the empty slot where it belongs."""
    # Fibonacci hashing into a table whose length is a power of two
    mask = len(table) - 1
    at = (key ^ (key >> 31)) * 0x9E3779B97F4A7C1
    at = (at ^ (at >> 29)) & mask
    while True:
        number = table[at]
        if number == EMPTY or whole[number, KEY] == key:
            return at
        # Linear probing
        at = (at + 1) & mask


@kernel
def cell_level(wish: FloatArray, x: float, z: float) -> int:
    """Resolution at a position: finer cells near a pick, the finest for small tolerances."""
    dx, dz = x - wish[GOAL_X], z - wish[GOAL_Z]
    if wish[HANDS] == 0.0 or dx * dx + dz * dz > FINE_REACH**2:
        return 0
    if wish[SLACK] > 0.0:
        return 0
    return 1 if wish[TOLERANCE] > TIGHT_TOLERANCE_M else 2


@kernel
def hash_state(grid: FloatArray, fine: int, node: int, met: int, x: float, z: float, yaw: float) -> int:
    """State of the graph, constraints met, and cell of an anchor in one number."""
    # Discretise place and heading, then pack all parts into the bits of one integer
    cell, turns = CELL_SIZES_M[fine], DIRECTION_COUNTS[fine]
    ix, iz = int((x - grid[0]) / cell) & 4095, int((z - grid[1]) / cell) & 4095
    turn = int((yaw + np.pi) / (2.0 * np.pi) * turns)
    return (((((((node << 5) | met) << 9) | turn) << 2 | fine) << 12 | ix) << 12) | iz


@kernel
def add_state(
    table: IntArray, whole: IntArray, real: FloatArray, counts: IntArray, slot: int, key: int, node: int, met: int
) -> int:
    """A new search state; EMPTY when the memory is full."""
    number = int(counts[STATES])
    if number >= len(whole):
        return EMPTY
    counts[STATES] = number + 1
    table[slot] = number
    whole[number, SLOT], whole[number, KEY], whole[number, NODE], whole[number, MET] = slot, key, node, met
    whole[number, STATUS], real[number, G] = 0, np.inf
    return number


@kernel
def queue_state(
    whole: IntArray, real: FloatArray, heap: IntArray, keys: FloatArray, counts: IntArray, number: int, last: int,
    epsilon: float,
) -> bool:  # fmt: skip
    """Queue a search state that has just become cheaper; false when the memory is full."""
    status = whole[number, STATUS]
    # A state that meets all constraints is a goal; the cheapest one is kept
    if whole[number, MET] == last:
        whole[number, STATUS] = CLOSED
        if counts[GOAL] == EMPTY or real[number, G] < real[counts[GOAL], G]:
            counts[GOAL] = number
    # ARA*: a closed state that became cheaper goes to INCONS, not back to OPEN
    elif status == CLOSED:
        whole[number, STATUS] = INCONSISTENT
    elif status != INCONSISTENT:
        # Insert into OPEN with key g + epsilon h; older entries of the heap become stale
        if counts[HEAP] >= len(heap):
            return False
        whole[number, STATUS] = OPEN
        counts[HEAP] = push_heap(heap, keys, counts[HEAP], number, real[number, G] + epsilon * real[number, H])
    return True


@kernel
def pop_state(
    whole: IntArray, real: FloatArray, heap: IntArray, keys: FloatArray, counts: IntArray, epsilon: float, bound: float
) -> int:
    """Take the most promising open state; EMPTY when none can lead to an end below ``bound``."""
    while counts[HEAP] > 0:
        s, key = heap[0], keys[0]
        # ARA* stops when no key of OPEN is below the cost of the goal
        if bound <= key:
            return EMPTY
        counts[HEAP] = pop_heap(heap, keys, counts[HEAP])
        # Skip stale entries: closed since, or inserted again with a smaller key
        if whole[s, STATUS] == OPEN and key <= real[s, G] + epsilon * real[s, H] + 1e-12:
            whole[s, STATUS] = CLOSED
            counts[EXPANSIONS] += 1
            return int(s)
    return EMPTY


@kernel
def record_blocked_edge(blocked: IntArray, counts: IntArray, s: int, e: int) -> None:
    """Remember an edge whose way met a wall."""
    if counts[BLOCKED] < MAX_BLOCKED:
        blocked[counts[BLOCKED], 0], blocked[counts[BLOCKED], 1] = s, e
        counts[BLOCKED] += 1


@kernel
def update_state(
    whole: IntArray, real: FloatArray, number: int, parent: int, edge: int, place: FloatArray, g: float, h: float
) -> None:
    """Write a cheaper way to a search state."""
    whole[number, PARENT], whole[number, EDGE] = parent, edge
    real[number, X], real[number, Z], real[number, YAW] = place[0], place[1], place[2]
    real[number, G], real[number, H] = g, h


@kernel
def expand_state(
    roads: SearchGraph, world: GridArrays, grid: FloatArray, wishes: FloatArray, terms: HeuristicTerms,
    memory: SearchMemory, s: int,
    upper: float, epsilon: float, is_few: bool, apart: BoolArray,
) -> bool:  # fmt: skip
    """Go along every edge of a search state; false when the memory is full."""
    # Locals save look-ups in the inner loop
    order, target, cost, delta, path = roads.order, roads.target, roads.cost, roads.delta, roads.path
    flight, event, hand, root, feet = roads.flight, roads.event, roads.hand, roads.root, roads.feet
    table, whole, real, counts = memory.table, memory.whole, memory.real, memory.counts
    free, firm, distance, rate, base = world.free, world.stand, world.distance, terms.rate, terms.base
    turned, final = terms.turned, terms.final
    node, met, last = int(whole[s, NODE]), int(whole[s, MET]), len(wishes)
    x, z, yaw, own_h = real[s, X], real[s, Z], real[s, YAW], real[s, H]
    cos, sin, wish, after = np.cos(yaw), np.sin(yaw), wishes[met], np.empty(3)
    # Edges in order of cost; the few that differ come first
    end = roads.first[node] + roads.few[node] if is_few else roads.first[node + 1]
    for k in range(roads.first[node], end):
        e = int(order[k])
        # Cost so far plus this edge; prune what cannot beat the incumbent
        reached, t = real[s, G] + cost[e], int(target[e])
        if not reached < upper:
            continue
        # Anchor after the edge: the edge's planar displacement in the frame of this state
        next_x, next_z = x + cos * delta[e, 0] + sin * delta[e, 1], z - sin * delta[e, 0] + cos * delta[e, 1]
        next_yaw = wrap_angle(yaw + delta[e, 2])
        next_cos, next_sin = np.cos(next_yaw), np.sin(next_yaw)
        # Planted feet must find ground
        if not can_stand(feet, firm, grid, t, next_x, next_z, next_cos, next_sin):
            continue
        # Place of the root, by which constraints and heuristic are measured
        root_x, root_z = (
            next_x + next_cos * root[t, 0] + next_sin * root[t, 1],
            next_z - next_sin * root[t, 0] + next_cos * root[t, 1],
        )
        # Does this edge meet the next constraint?
        if wish[KIND] == PICK:
            if wish[SLACK] > 0.0:
                after[0], after[1], after[2] = next_x, next_z, next_yaw
                hit = move_to_pick(roads, world, grid, wish, memory, s, e, after)
                next_x, next_z, next_yaw = after[0], after[1], after[2]
                next_cos, next_sin = np.cos(next_yaw), np.sin(next_yaw)
                root_x, root_z = (
                    next_x + next_cos * root[t, 0] + next_sin * root[t, 1],
                    next_z - next_sin * root[t, 0] + next_cos * root[t, 1],
                )
            else:
                hit = is_picked(wish, event, hand, t, next_x, next_z, next_cos, next_sin, root_x, root_z)
        elif wish[KIND] == JUMP:
            hit = is_jumped(wish, flight, path, e, x, z, cos, sin)
            hit = hit and (np.isnan(wish[HEADING]) or is_crossed(wish, x, z, next_x, next_z))
        elif wish[KIND] == STEP:
            hit = is_crossed(wish, x, z, next_x, next_z)
        else:
            hit = is_reached(wish, roads.stands[t], root_x, root_z, next_yaw + root[t, 2])
        # Prune edges that serve only to meet a constraint and do not, and ways past a pick
        if (apart[e] and not hit) or (
            wish[SLACK] > 0.0 and not hit and is_pick_unreachable(roads, wish, t, next_x, next_z, next_yaw)
        ):
            continue
        # The last constraint costs coming to rest as well
        now = met + 1 if hit else met
        final_cost = final[t] if now == last and len(final) > 0 else 0.0
        reached += final_cost
        # Look up the state in the table; a way that is no cheaper is dropped
        fine = cell_level(wishes[min(now, last - 1)], next_x, next_z)
        key = hash_state(grid, fine, t, now, next_x, next_z, next_yaw)
        slot = find_slot(table, whole, key)
        number = int(table[slot])
        if number != EMPTY and reached >= real[number, G]:
            continue
        # The dearest test last: the root's path must not cross a wall
        if not is_path_free(path, free, grid, e, x, z, cos, sin):
            record_blocked_edge(memory.blocked, counts, s, e)
            continue
        # Heuristic; count where it is inconsistent, h(s) > c(s, s') + h(s')
        h = (
            0.0
            if now == last
            else evaluate_heuristic(distance, grid, rate, base, turned, t, now, root_x, root_z, next_yaw)
        )
        if own_h > cost[e] + final_cost + h + CONSISTENT:
            counts[VIOLATIONS] += 1
        # f = g + h bounds the cost of every goal behind this state
        if not reached + h < upper:
            continue
        # Write the cheaper way and queue the state
        if number == EMPTY:
            number = add_state(table, whole, real, counts, slot, key, t, now)
        if number == EMPTY:
            return False
        after[0], after[1], after[2] = next_x, next_z, next_yaw
        update_state(whole, real, number, s, e, after, reached, h)
        if not queue_state(whole, real, memory.heap, memory.keys, counts, number, last, epsilon):
            return False
    return True


@kernel
def expand_states(
    roads: SearchGraph, world: GridArrays, wishes: FloatArray, terms: HeuristicTerms, memory: SearchMemory,
    upper: float, epsilon: float,
    is_few: bool, apart: BoolArray, budget: int,
) -> int:  # fmt: skip
    """Expand up to ``budget`` states; returns RUNNING, DONE or FULL.

    Weighted A* with inconsistent states kept for the next, smaller epsilon ([Likhachev2004]_): no state is expanded
    twice for one epsilon. Places are compared in cells and never snapped to them. What cannot end below ``upper`` is
    left out, and so is what is ``apart`` unless it meets a constraint.
    """
    real, counts = memory.real, memory.counts
    grid = np.array([world.origin[0], world.origin[1], world.cell])
    for _ in range(budget):
        # Upper bound: the incumbent, or the cheapest goal of this search
        bound = upper
        if counts[GOAL] != EMPTY:
            bound = min(upper, real[counts[GOAL], G])
        s = pop_state(memory.whole, real, memory.heap, memory.keys, counts, epsilon, bound)
        if s == EMPTY:
            return DONE
        # A state with f at the bound stays closed without being expanded
        if real[s, G] + real[s, H] < bound and not expand_state(
            roads, world, grid, wishes, terms, memory, s, bound, epsilon, is_few, apart
        ):
            return FULL
    return RUNNING


@kernel
def add_start(
    roads: SearchGraph, world: GridArrays, terms: HeuristicTerms, memory: SearchMemory, node: int, met: int,
    place: FloatArray, epsilon: float,
    last: int,
) -> bool:  # fmt: skip
    """Put a state at an anchor into the open list, if an end can be reached from it."""
    grid = np.array([world.origin[0], world.origin[1], world.cell])
    c, si = np.cos(place[2]), np.sin(place[2])
    rx, rz = roads.root[node, 0], roads.root[node, 1]
    x, z = place[0] + c * rx + si * rz, place[1] - si * rx + c * rz
    # Heuristic at the root of the start; no end is reachable where it is infinite
    h = evaluate_heuristic(
        world.distance, grid, terms.rate, terms.base, terms.turned, node, met, x, z, wrap_angle(place[2])
    )
    if not np.isfinite(h) or not can_stand(roads.feet, world.stand, grid, node, place[0], place[1], c, si):
        return False
    # Starts get negative keys, which no cell has
    return relax_state(memory, -2 - int(memory.counts[STATES]), node, met, EMPTY, EMPTY, place, 0.0, h, epsilon, last)


@kernel
def relax_state(
    memory: SearchMemory, key: int, node: int, met: int, parent: int, edge: int, place: FloatArray, g: float, h: float,
    epsilon: float, last: int,
) -> bool:  # fmt: skip
    """Offer a way to a search state by its key; false when it is not cheaper or the memory is full."""
    table, whole, real, counts = memory.table, memory.whole, memory.real, memory.counts
    slot = find_slot(table, whole, key)
    number = int(table[slot])
    if number == EMPTY:
        number = add_state(table, whole, real, counts, slot, key, node, met)
    if number == EMPTY or real[number, G] <= g:
        return False
    update_state(whole, real, number, parent, edge, place, g, h)
    return queue_state(whole, real, memory.heap, memory.keys, counts, number, last, epsilon)


@kernel
def relax_edge(
    roads: SearchGraph, world: GridArrays, wishes: FloatArray, terms: HeuristicTerms, memory: SearchMemory, s: int,
    e: int, name: int,
    cost: float, epsilon: float,
) -> bool:  # fmt: skip
    """Offer the way along one edge at another cost and under another number; whether it is of use."""
    grid = np.array([world.origin[0], world.origin[1], world.cell])
    x, z, yaw = memory.real[s, X], memory.real[s, Z], memory.real[s, YAW]
    cos, sin, met, t, last = np.cos(yaw), np.sin(yaw), int(memory.whole[s, MET]), int(roads.target[e]), len(wishes)
    # Anchor and root after the edge, as in `expand_state`
    next_x = x + cos * roads.delta[e, 0] + sin * roads.delta[e, 1]
    next_z = z - sin * roads.delta[e, 0] + cos * roads.delta[e, 1]
    next_yaw = wrap_angle(yaw + roads.delta[e, 2])
    next_cos, next_sin = np.cos(next_yaw), np.sin(next_yaw)
    root_x, root_z = (
        next_x + next_cos * roads.root[t, 0] + next_sin * roads.root[t, 1],
        next_z - next_sin * roads.root[t, 0] + next_cos * roads.root[t, 1],
    )
    # Only picks and places to reach are met by a detour
    wish = wishes[met]
    hit = wish[KIND] == PICK and is_picked(
        wish, roads.event, roads.hand, t, next_x, next_z, next_cos, next_sin, root_x, root_z
    )
    hit = hit or (
        wish[KIND] == REACH and is_reached(wish, roads.stands[t], root_x, root_z, next_yaw + roads.root[t, 2])
    )
    now = met + 1 if hit else met
    h = (
        0.0
        if now == last
        else evaluate_heuristic(
            world.distance, grid, terms.rate, terms.base, terms.turned, t, now, root_x, root_z, next_yaw
        )
    )
    if not np.isfinite(h):
        return False
    key = hash_state(grid, cell_level(wishes[min(now, last - 1)], next_x, next_z), t, now, next_x, next_z, next_yaw)
    place = np.array([next_x, next_z, next_yaw])
    return relax_state(memory, key, t, now, s, name, place, memory.real[s, G] + cost, h, epsilon, last)


@kernel
def reopen_states(memory: SearchMemory, epsilon: float) -> None:
    """Begin a smaller epsilon with all states that were left open or became cheaper after they were closed."""
    whole, real, heap, keys, counts = memory.whole, memory.real, memory.heap, memory.keys, memory.counts
    counts[HEAP] = 0
    for number in range(counts[STATES]):
        # OPEN = OPEN + INCONS with keys of the new epsilon; CLOSED becomes empty
        if whole[number, STATUS] == OPEN or whole[number, STATUS] == INCONSISTENT:
            whole[number, STATUS] = OPEN
            key = real[number, G] + epsilon * real[number, H]
            counts[HEAP] = push_heap(heap, keys, counts[HEAP], number, key)
        else:
            whole[number, STATUS] = 0


@kernel
def least_open_cost(whole: IntArray, real: FloatArray, count: int) -> float:
    """Least ``g + h`` of what is still to be looked at: no way that was not found can be cheaper."""
    least = np.inf
    for number in range(count):
        if whole[number, STATUS] == OPEN or whole[number, STATUS] == INCONSISTENT:
            least = min(least, real[number, G] + real[number, H])
    return least
