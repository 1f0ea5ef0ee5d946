"""Compiled anytime repairing A* over the graph unrolled into the world."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, kernel
from marey.graph.algorithms import pop_heap, push_heap
from marey.graph.arrays import (
    CLOSED,
    DONE,
    EMPTY,
    FULL,
    INCONSISTENT,
    JUMP,
    MAX_BLOCKED,
    OPEN,
    PICK,
    REACH,
    RUNNING,
    STEP,
    SUCCESSOR,
    Anchor,
    Records,
    SearchMemory,
    SearchSpace,
    SlotArray,
)
from marey.graph.search.footsteps import (
    can_stand,
    evaluate_heuristic,
    follow_edge,
    is_allowed,
    is_leapt,
    is_near_pick,
    is_path_free,
    is_picked,
    is_reached,
    make_anchor,
    move_to_pick,
    transform_point,
    wrap_angle,
)

CELL_SIZES_M = np.array([0.15, 0.05, 0.02])  # [m] one cell is one place: on the way, near a pick, near a tight one
DIRECTION_COUNTS = np.array([48, 120, 360])  # number of direction bins
FINE_REACH = 1.0  # [m] from a pick, finer cells are used
TIGHT_TOLERANCE_M = 0.03  # [m] a pick with no more tolerance than this is tight
CONSISTENT = 1e-9  # an estimate may fall by this much more than an edge costs


@kernel
def hash_slot(table: SlotArray, key: int) -> int:
    """Place in the table where a key is looked for first: Fibonacci hashing, the length being a power of two."""
    at = (key ^ (key >> 31)) * 0x9E3779B97F4A7C1
    return (at ^ (at >> 29)) & (len(table) - 1)


@kernel
def find_slot(table: SlotArray, states: Records, key: int) -> int:
    """Place in the table of a key, or of the empty slot where it belongs."""
    mask, at = len(table) - 1, hash_slot(table, key)
    while True:
        number = table[at]
        if number == EMPTY or states[number].key == key:
            return at
        # Linear probing
        at = (at + 1) & mask


@kernel
def hash_state(goal: Records, grid: FloatArray, node: int, met: int, anchor: Anchor) -> int:
    """State of the graph, constraints met, and cell of an anchor in one number; ``goal`` is the constraint ahead."""
    # Cells are finer near a pick whose footsteps do not move, the finest for small tolerances
    dx, dz = anchor.x - goal.x, anchor.z - goal.z
    fine = 0
    if goal.hands != 0 and dx * dx + dz * dz <= FINE_REACH**2 and goal.slack <= 0.0:
        fine = 1 if goal.tolerance > TIGHT_TOLERANCE_M else 2
    # Discretise place and heading, then pack all parts into the bits of one integer
    cell, turns = CELL_SIZES_M[fine], DIRECTION_COUNTS[fine]
    ix, iz = int((anchor.x - grid[0]) / cell) & 4095, int((anchor.z - grid[1]) / cell) & 4095
    turn = int((anchor.yaw + np.pi) / (2.0 * np.pi) * turns)
    return (((((((node << 5) | met) << 9) | turn) << 2 | fine) << 12 | ix) << 12) | iz


@kernel
def claim_state(memory: SearchMemory, slot: int, key: int, node: int, met: int) -> int:
    """The record of a key to which a cheaper way is written; EMPTY when the memory is full.

    A record that was expanded stays as it is and gets a successor: states behind it begin where it ends, and the
    cheaper way ends elsewhere in the same cell.
    """
    known, status = int(memory.table[slot]), 0
    if known != EMPTY:
        status = memory.states[known].status
        if status in (OPEN, INCONSISTENT):
            return known
    number = int(memory.counts[0].states)
    if number >= len(memory.states):
        return EMPTY
    memory.counts[0].states = number + 1
    memory.table[slot] = number
    state = memory.states[number]
    state.slot, state.key, state.node, state.met = slot, key, node, met
    state.status, state.g = status, np.inf
    return number


@kernel
def queue_state(memory: SearchMemory, number: int, last: int, epsilon: float) -> bool:
    """Queue a search state that has just become cheaper; false when the memory is full."""
    state, counts = memory.states[number], memory.counts[0]
    # A state that meets all constraints is a goal; the cheapest one is kept
    if state.met == last:
        state.status = CLOSED
        if counts.goal == EMPTY or state.g < memory.states[counts.goal].g:
            counts.goal = number
    # ARA*: a closed state that became cheaper goes to INCONS, not back to OPEN
    elif state.status == CLOSED:
        state.status = INCONSISTENT
    elif state.status != INCONSISTENT:
        # Insert into OPEN with key g + epsilon h; older entries of the heap become stale
        if counts.heap >= len(memory.heap):
            return False
        state.status = OPEN
        counts.heap = push_heap(memory.heap, memory.keys, counts.heap, number, state.g + epsilon * state.h)
    return True


@kernel
def pop_state(memory: SearchMemory, epsilon: float, bound: float) -> int:
    """Take the most promising open state; EMPTY when none can lead to an end below ``bound``."""
    heap, keys, counts = memory.heap, memory.keys, memory.counts[0]
    while counts.heap > 0:
        s, key = heap[0], keys[0]
        # ARA* stops when no key of OPEN is below the cost of the goal
        if bound <= key:
            return EMPTY
        counts.heap = pop_heap(heap, keys, counts.heap)
        # Skip stale entries: closed since, or inserted again with a smaller key
        state = memory.states[s]
        if state.status == OPEN and key <= state.g + epsilon * state.h + 1e-12:
            state.status = CLOSED
            counts.expansions += 1
            return int(s)
    return EMPTY


@kernel
def update_state(state: Records, parent: int, edge: int, x: float, z: float, yaw: float, g: float, h: float) -> None:
    """Write a cheaper way to a search state."""
    state.parent, state.edge = parent, edge
    state.x, state.z, state.yaw = x, z, yaw
    state.g, state.h = g, h


@kernel
def list_successors(
    space: SearchSpace, grid: FloatArray, s: int, upper: float, is_few: bool, successors: Records
) -> int:
    """Write where the edges of a search state lead, but for the test of walls; returns how many may be of use."""
    # Locals save look-ups in the inner loop
    roads, goals, final = space.graph, space.goals, space.terms.final
    order, target, cost, delta, path, apart = (
        roads.order, roads.target, roads.cost, roads.delta, roads.path, roads.apart
    )  # fmt: skip
    event, hand, root, feet, pick, firm = roads.event, roads.hand, roads.root, roads.feet, roads.pick, space.world.stand
    own, count = space.memory.states[s], 0
    node, met, last, own_g = int(own.node), int(own.met), len(goals), own.g
    here, goal, leads = make_anchor(own.x, own.z, own.yaw), goals[met], len(pick) > 0
    # Edges in order of cost; the few that differ come first
    end = roads.first[node] + roads.few[node] if is_few else roads.first[node + 1]
    for k in range(roads.first[node], end):
        e = int(order[k])
        # Cost so far plus this edge; prune what cannot beat the incumbent
        reached, t = own_g + cost[e], int(target[e])
        if not reached < upper:
            continue
        # Whether the state is one in which a place counts; an edge that serves nothing else goes no further
        is_place = goal.kind == REACH and is_allowed(goal, roads.stands, roads.marks, t)
        if apart[e] and goal.kind == REACH and not is_place:
            continue
        # Anchor after the edge; planted feet must find ground
        after = follow_edge(delta, e, here)
        if not can_stand(feet, firm, grid, t, after):
            continue
        # Place of the root, by which constraints and heuristic are measured
        x, z = transform_point(after, root[t, 0], root[t, 1])
        # Does this edge meet the next constraint?
        if goal.kind == PICK:
            if goal.slack > 0.0:
                hit = is_near_pick(goal, int(event[t]), hand, root, t, after)
                if hit:
                    hit, after = move_to_pick(space, grid, goal, s, e, after)
                    x, z = transform_point(after, root[t, 0], root[t, 1])
            else:
                hit = is_picked(goal, int(event[t]), hand, t, after, x, z)
        elif goal.kind == JUMP or goal.kind == STEP:
            hit = is_leapt(goal, roads.flight, path, e, here, after)
        else:
            hit = is_reached(goal, is_place, x, z, after.yaw + root[t, 2])
        # Prune edges that serve only to meet a constraint and do not, and ways to a single pick that cannot be moved
        if not hit and apart[e]:
            continue
        if not hit and leads and goal.slack > 0.0 and pick[t] != EMPTY:
            there = follow_edge(roads.pick_end, t, after)
            if not is_near_pick(goal, int(event[pick[t]]), hand, root, int(pick[t]), there):
                continue
        # And take-offs into a flight that is not asked for there
        if not hit and leads and roads.leap[t] != EMPTY:
            f = int(roads.leap[t])
            if not is_leapt(goal, roads.flight, path, f, after, follow_edge(delta, f, after)):
                continue
        # The last constraint costs coming to rest as well
        now, one = met + 1 if hit else met, successors[count]
        one.final = final[t] if now == last and len(final) > 0 else 0.0
        one.key = hash_state(goals[min(now, last - 1)], grid, t, now, after)
        one.g, one.x, one.z, one.yaw, one.root_x, one.root_z = reached + one.final, after.x, after.z, after.yaw, x, z
        one.node, one.edge, one.met = t, e, now
        count += 1
    return count


@kernel
def expand_state(
    space: SearchSpace, grid: FloatArray, s: int, upper: float, epsilon: float, is_few: bool, successors: Records
) -> bool:
    """Go along every edge of a search state; false when the memory is full."""
    # Locals save look-ups in the inner loop
    roads, world, terms, memory = space.graph, space.world, space.terms, space.memory
    cost, path, free, distance, table = roads.cost, roads.path, world.free, world.distance, memory.table
    states, counts, last = memory.states, memory.counts[0], len(space.goals)
    own = states[s]
    own_h, here = own.h, make_anchor(own.x, own.z, own.yaw)
    count = list_successors(space, grid, s, upper, is_few, successors)
    # The table, then the states that it names: reads that depend on nothing else wait for memory together
    for k in range(count):
        successors[k].number = table[hash_slot(table, successors[k].key)]
    for k in range(count):
        number, successors[k].known = successors[k].number, np.inf
        if number != EMPTY and states[number].key == successors[k].key:
            successors[k].known = states[number].g
    for k in range(count):
        # A way that is no cheaper is dropped; costs that are known only fall
        one = successors[k]
        t, now, e, reached = int(one.node), int(one.met), int(one.edge), one.g
        if reached >= one.known:
            continue
        slot = find_slot(table, states, one.key)
        number = int(table[slot])
        if number != EMPTY and reached >= states[number].g:
            continue
        # The dearest test last: the root's path must not cross a wall; blocked edges get a second look
        if not is_path_free(path, free, grid, e, here):
            if counts.blocked < MAX_BLOCKED:
                memory.blocked[counts.blocked, 0], memory.blocked[counts.blocked, 1] = s, e
                counts.blocked += 1
            continue
        # Heuristic; count where it is inconsistent, h(s) > c(s, s') + h(s')
        h = 0.0
        if now != last:
            h = evaluate_heuristic(distance, grid, terms, t, now, one.root_x, one.root_z, one.yaw)
        if own_h > cost[e] + one.final + h + CONSISTENT:
            counts.violations += 1
        # f = g + h bounds the cost of every goal behind this state
        if not reached + h < upper:
            continue
        # Write the cheaper way and queue the state
        number = claim_state(memory, slot, one.key, t, now)
        if number == EMPTY:
            return False
        update_state(states[number], s, e, one.x, one.z, one.yaw, reached, h)
        if not queue_state(memory, number, last, epsilon):
            return False
    return True


@kernel
def expand_states(space: SearchSpace, upper: float, epsilon: float, is_few: bool, budget: int) -> int:
    """Expand up to ``budget`` states; returns RUNNING, DONE or FULL.

    Weighted A* with inconsistent states kept for the next, smaller epsilon ([Likhachev2004]_): no state is expanded
    twice for one epsilon. Places are compared in cells and never snapped to them. What cannot end below ``upper`` is
    left out, and so are edges that are apart unless they meet a constraint.
    """
    world, memory = space.world, space.memory
    grid = np.array([world.origin[0], world.origin[1], world.cell])
    successors = np.empty(np.max(np.diff(space.graph.first)), dtype=SUCCESSOR)
    for _ in range(budget):
        # Upper bound: the incumbent, or the cheapest goal of this search
        bound = upper
        if memory.counts[0].goal != EMPTY:
            bound = min(upper, memory.states[memory.counts[0].goal].g)
        s = pop_state(memory, epsilon, bound)
        if s == EMPTY:
            return DONE
        # A state with f at the bound stays closed without being expanded
        state = memory.states[s]
        if state.g + state.h < bound and not expand_state(space, grid, s, bound, epsilon, is_few, successors):
            return FULL
    return RUNNING


@kernel
def add_start(space: SearchSpace, node: int, place: FloatArray, epsilon: float) -> bool:
    """Put a state at an anchor into the open list, if an end can be reached from it."""
    roads, world, memory = space.graph, space.world, space.memory
    grid = np.array([world.origin[0], world.origin[1], world.cell])
    anchor = make_anchor(place[0], place[1], place[2])
    # No end is reachable where the heuristic is infinite
    x, z = transform_point(anchor, roads.root[node, 0], roads.root[node, 1])
    h = evaluate_heuristic(world.distance, grid, space.terms, node, 0, x, z, wrap_angle(anchor.yaw))
    if not np.isfinite(h) or not can_stand(roads.feet, world.stand, grid, node, anchor):
        return False
    # Starts get negative keys, which no cell has
    key = -2 - int(memory.counts[0].states)
    number = claim_state(memory, find_slot(memory.table, memory.states, key), key, node, 0)
    if number == EMPTY:
        return False
    update_state(memory.states[number], EMPTY, EMPTY, anchor.x, anchor.z, anchor.yaw, 0.0, h)
    return queue_state(memory, number, len(space.goals), epsilon)


@kernel
def relax_edge(space: SearchSpace, s: int, e: int, name: int, cost: float, epsilon: float) -> bool:
    """Offer the way along one edge at another cost and under another number; whether it is of use."""
    roads, world, goals, memory = space.graph, space.world, space.goals, space.memory
    grid = np.array([world.origin[0], world.origin[1], world.cell])
    own, t, last = memory.states[s], int(roads.target[e]), len(goals)
    after = follow_edge(roads.delta, e, make_anchor(own.x, own.z, own.yaw))
    x, z = transform_point(after, roads.root[t, 0], roads.root[t, 1])
    # Only picks and places to reach are met by a detour
    now, goal = int(own.met), goals[own.met]
    if (goal.kind == PICK and is_picked(goal, int(roads.event[t]), roads.hand, t, after, x, z)) or (
        goal.kind == REACH
        and is_reached(goal, is_allowed(goal, roads.stands, roads.marks, t), x, z, after.yaw + roads.root[t, 2])
    ):
        now += 1
    h = 0.0
    if now != last:
        h = evaluate_heuristic(world.distance, grid, space.terms, t, now, x, z, after.yaw)
    if not np.isfinite(h):
        return False
    # Offer it to the state of its cell
    key, g = hash_state(goals[min(now, last - 1)], grid, t, now, after), own.g + cost
    slot = find_slot(memory.table, memory.states, key)
    number = int(memory.table[slot])
    if number != EMPTY and memory.states[number].g <= g:
        return False
    number = claim_state(memory, slot, key, t, now)
    if number == EMPTY:
        return False
    update_state(memory.states[number], s, name, after.x, after.z, after.yaw, g, h)
    return queue_state(memory, number, last, epsilon)


@kernel
def reopen_states(memory: SearchMemory, epsilon: float) -> None:
    """Begin a smaller epsilon with all states that were left open or became cheaper after they were closed."""
    heap, keys, counts = memory.heap, memory.keys, memory.counts[0]
    counts.heap = 0
    for number in range(counts.states):
        # OPEN = OPEN + INCONS with keys of the new epsilon; CLOSED becomes empty
        state = memory.states[number]
        if state.status == OPEN or state.status == INCONSISTENT:
            state.status = OPEN
            counts.heap = push_heap(heap, keys, counts.heap, number, state.g + epsilon * state.h)
        else:
            state.status = 0


@kernel
def least_open_cost(states: Records, count: int) -> float:
    """Least ``g + h`` of what is still to be looked at: no way that was not found can be cheaper."""
    least = np.inf
    for number in range(count):
        if states[number].status == OPEN or states[number].status == INCONSISTENT:
            least = min(least, states[number].g + states[number].h)
    return least
