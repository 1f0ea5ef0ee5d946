"""Compiled anytime repairing A* over the graph unrolled into the world."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel

EMPTY = -1
OPEN, CLOSED, INCONSISTENT = 1, 2, 3


class World2D(NamedTuple):
    """The ground in cells: how far every place is from where one has to go, and where feet may not stand."""

    origin: FloatArray  # (2,) [m] corner of the first cell, x and z
    cell: float  # [m]
    distance: FloatArray  # (L, H, W) [m] lower bound of the way to the end with l constraints met; inf where blocked
    free: BoolArray  # (H, W) where the root may be
    stand: BoolArray  # (H, W) where a foot may stand


class Goals(NamedTuple):
    """L constraints in order; the last is the goal."""

    kind: IntArray  # (L,) REACH_ROOT, PICK, JUMP
    place: FloatArray  # (L, 3) [m] x, height, z
    heading: FloatArray  # (L,) [rad]; NaN: any
    tolerance: FloatArray  # (L,) [m]
    hands: IntArray  # (L,) bits: 1 left, 2 right
    length: FloatArray  # (L,) [m] shortest flight of a jump


REACH_ROOT, PICK, JUMP = 0, 1, 2
HEADING_TOL = 0.26  # [rad] 15 degrees


class Memory(NamedTuple):
    """Everything that a search keeps, so that it can be stopped and taken up again."""

    table: IntArray  # (T,) hash table: number of the search state, EMPTY
    key: IntArray  # (C,)
    node: IntArray  # (C,) state of the graph
    met: IntArray  # (C,) constraints met
    place: FloatArray  # (C, 3) anchor: x, z, yaw
    g: FloatArray  # (C,)
    h: FloatArray  # (C,)
    parent: IntArray  # (C,)
    edge: IntArray  # (C,) by which it was reached
    status: IntArray  # (C,)
    heap: IntArray  # (B,)
    keys: FloatArray  # (B,)
    later: IntArray  # (C,) states found anew after they were closed
    counts: IntArray  # (6,) states, heap, later, expansions, goal state (EMPTY if none), violations


STATES, HEAP, LATER, EXPANSIONS, GOAL, VIOLATIONS = 0, 1, 2, 3, 4, 5
RUNNING, DONE, FULL = 0, 1, 2


@kernel
def push(heap: IntArray, keys: FloatArray, size: int, node: int, key: float) -> int:
    """Put a number into a heap of four children; returns its new size."""
    at = size
    while at > 0:
        parent = (at - 1) >> 2
        if keys[parent] <= key:
            break
        heap[at], keys[at] = heap[parent], keys[parent]
        at = parent
    heap[at], keys[at] = node, key
    return size + 1


@kernel
def pop(heap: IntArray, keys: FloatArray, size: int) -> int:
    """Take the first away (read it before); returns the new size."""
    size -= 1
    node, key = heap[size], keys[size]
    at = 0
    while True:
        child = 4 * at + 1
        if child >= size:
            break
        least = child
        for other in range(child + 1, min(child + 4, size)):
            if keys[other] < keys[least]:
                least = other
        if keys[least] >= key:
            break
        heap[at], keys[at] = heap[least], keys[least]
        at = least
    heap[at], keys[at] = node, key
    return size


@kernel
def cell_of(world: World2D, x: float, z: float) -> tuple[int, int]:
    """Row and column of the cell of a place, -1 outside."""
    column = int(np.floor((x - world.origin[0]) / world.cell))
    row = int(np.floor((z - world.origin[1]) / world.cell))
    if row < 0 or column < 0 or row >= world.free.shape[0] or column >= world.free.shape[1]:
        return -1, -1
    return row, column


@kernel
def way_left(world: World2D, layer: int, x: float, z: float) -> float:
    """Lower bound of the way [m] from the cell of a place to the end; inf where blocked."""
    row, column = cell_of(world, x, z)
    if row < 0 or not world.free[row, column]:
        return np.inf
    return world.distance[layer, row, column]


@kernel
def estimate(
    world: World2D, tables: FloatArray, rest: FloatArray, rate: float, node: int, met: int, x: float, z: float
) -> float:
    r"""Lower bound of the cost to the end: :math:`\max(c_{min} d, H_{mg} + rest)` ([Safonova2006]_ (4.3), layered).

    Args:
        world: distances.
        tables: cost of reaching the event of each constraint ``(L, N)``, inf if it cannot be reached.
        rest: least cost from where each constraint is met to the end ``(L,)``.
        rate: least cost per metre.
        node: state of the graph.
        met: constraints met.
        x: of the root [m].
        z: of the root [m].
    """
    bound = rate * way_left(world, met, x, z)
    return max(bound, tables[met, node] + rest[met])


@kernel
def _find(memory: Memory, key: int) -> int:
    """Place in the table of a key, or of the empty slot where it belongs."""
    mask = len(memory.table) - 1
    at = (key ^ (key >> 31)) * 0x9E3779B97F4A7C1
    at = (at ^ (at >> 29)) & mask
    while True:
        number = memory.table[at]
        if number == EMPTY or memory.key[number] == key:
            return at
        at = (at + 1) & mask


@kernel
def _is_met(
    goals: Goals, layer: int, node: int, x: float, z: float, yaw: float, graph_root: FloatArray, hand: FloatArray,
    event: IntArray, flight: FloatArray, edge: int, before: FloatArray, after: FloatArray,
) -> bool:  # fmt: skip
    """Whether reaching a state, or going along an edge, meets a constraint."""
    kind, tolerance = goals.kind[layer], goals.tolerance[layer]
    c, s = np.cos(yaw), np.sin(yaw)
    if kind == PICK:
        wanted = (event[node] == 1 and (goals.hands[layer] & 1) != 0) or (
            event[node] == 2 and (goals.hands[layer] & 2) != 0
        )
        if not wanted:
            return False
        hx = x + c * hand[node, 0] + s * hand[node, 2]
        hz = z - s * hand[node, 0] + c * hand[node, 2]
        dx, dy, dz = hx - goals.place[layer, 0], hand[node, 1] - goals.place[layer, 1], hz - goals.place[layer, 2]
        return dx * dx + dy * dy + dz * dz <= tolerance * tolerance
    if kind == JUMP:
        if flight[edge, 0] <= 0.0 or flight[edge, 0] < goals.length[layer]:
            return False
        ax, az, bx, bz = before[0], before[1], after[0], after[1]
        ux, uz = bx - ax, bz - az
        t = ((goals.place[layer, 0] - ax) * ux + (goals.place[layer, 2] - az) * uz) / max(ux * ux + uz * uz, 1e-12)
        t = min(max(t, 0.0), 1.0)
        return np.hypot(ax + t * ux - goals.place[layer, 0], az + t * uz - goals.place[layer, 2]) <= tolerance
    rx = x + c * graph_root[node, 0] + s * graph_root[node, 1]
    rz = z - s * graph_root[node, 0] + c * graph_root[node, 1]
    if np.hypot(rx - goals.place[layer, 0], rz - goals.place[layer, 2]) > tolerance:
        return False
    if np.isfinite(goals.heading[layer]):
        turn = yaw + graph_root[node, 2] - goals.heading[layer]
        turn = (turn + np.pi) % (2.0 * np.pi) - np.pi
        return abs(turn) <= HEADING_TOL
    return True


@kernel
def search(
    first: IntArray,
    target: IntArray,
    cost: FloatArray,
    delta: FloatArray,
    path: FloatArray,
    event: IntArray,
    hand: FloatArray,
    graph_root: FloatArray,
    feet: FloatArray,
    flight: FloatArray,
    world: World2D,
    goals: Goals,
    tables: FloatArray,
    rest: FloatArray,
    rate: float,
    place_cell: float,
    yaw_cells: int,
    epsilon: float,
    budget: int,
    memory: Memory,
) -> int:
    """Expand up to ``budget`` states; returns RUNNING, DONE or FULL.

    Weighted A* with inconsistent states kept for the next, smaller epsilon ([Likhachev2004]_): no state is expanded
    twice for one epsilon. Places are compared in cells and never snapped to them.
    """
    counts = memory.counts
    last = len(goals.kind)
    here, there = np.empty(2), np.empty(2)
    for _ in range(budget):
        size = counts[HEAP]
        while size > 0 and memory.status[memory.heap[0]] != OPEN:
            size = pop(memory.heap, memory.keys, size)
        counts[HEAP] = size
        if size == 0:
            return DONE
        goal = counts[GOAL]
        if goal != EMPTY and memory.g[goal] <= memory.keys[0]:
            return DONE
        s, key = memory.heap[0], memory.keys[0]
        counts[HEAP] = pop(memory.heap, memory.keys, size)
        if key > memory.g[s] + epsilon * memory.h[s] + 1e-12:
            continue
        memory.status[s] = CLOSED
        counts[EXPANSIONS] += 1
        node, met = int(memory.node[s]), int(memory.met[s])
        x, z, yaw = memory.place[s, 0], memory.place[s, 1], memory.place[s, 2]
        c, si = np.cos(yaw), np.sin(yaw)
        if met == last:
            continue
        for e in range(first[node], first[node + 1]):
            blocked = False
            px, pz = x, z
            for k in range(1, path.shape[1]):
                px = x + c * path[e, k, 0] + si * path[e, k, 1]
                pz = z - si * path[e, k, 0] + c * path[e, k, 1]
                row, column = cell_of(world, px, pz)
                if row < 0 or not world.free[row, column]:
                    blocked = True
                    break
            if blocked:
                continue
            nx = x + c * delta[e, 0] + si * delta[e, 1]
            nz = z - si * delta[e, 0] + c * delta[e, 1]
            nyaw = yaw + delta[e, 2]
            nyaw = (nyaw + np.pi) % (2.0 * np.pi) - np.pi
            t = target[e]
            cn, sn = np.cos(nyaw), np.sin(nyaw)
            for f in range(2):
                if np.isfinite(feet[t, f, 0]):
                    fx = nx + cn * feet[t, f, 0] + sn * feet[t, f, 1]
                    fz = nz - sn * feet[t, f, 0] + cn * feet[t, f, 1]
                    row, column = cell_of(world, fx, fz)
                    if row < 0 or not world.stand[row, column]:
                        blocked = True
            if blocked:
                continue
            here[0] = x + c * path[e, 0, 0] + si * path[e, 0, 1]
            here[1] = z - si * path[e, 0, 0] + c * path[e, 0, 1]
            there[0], there[1] = px, pz
            now = met
            if _is_met(goals, met, t, nx, nz, nyaw, graph_root, hand, event, flight, e, here, there):
                now = met + 1
            rx = nx + cn * graph_root[t, 0] + sn * graph_root[t, 1]
            rz = nz - sn * graph_root[t, 0] + cn * graph_root[t, 1]
            ix = int(np.floor(nx / place_cell)) + 32768
            iz = int(np.floor(nz / place_cell)) + 32768
            iyaw = int(np.floor((nyaw + np.pi) / (2.0 * np.pi) * yaw_cells))
            code = (((((t << 4) | now) << 9 | iyaw) << 16 | ix) << 16) | iz
            slot = _find(memory, code)
            number = memory.table[slot]
            reached = memory.g[s] + cost[e]
            if number == EMPTY:
                h = 0.0 if now == last else estimate(world, tables, rest, rate, t, now, rx, rz)
                if not np.isfinite(h):
                    continue
                number = counts[STATES]
                if number >= len(memory.g) - 1 or 2 * number >= len(memory.table):
                    return FULL
                counts[STATES] += 1
                memory.table[slot] = number
                memory.key[number], memory.node[number], memory.met[number] = code, t, now
                memory.g[number], memory.h[number], memory.status[number] = np.inf, h, 0
            if reached < memory.g[number]:
                memory.g[number] = reached
                memory.place[number, 0], memory.place[number, 1], memory.place[number, 2] = nx, nz, nyaw
                memory.parent[number], memory.edge[number] = s, e
                if memory.h[s] > cost[e] + memory.h[number] + 1e-9 and now < last:
                    counts[VIOLATIONS] += 1
                if now == last:
                    if counts[GOAL] == EMPTY or reached < memory.g[counts[GOAL]]:
                        counts[GOAL] = number
                    memory.status[number] = CLOSED
                elif memory.status[number] == CLOSED:
                    memory.status[number] = INCONSISTENT
                    memory.later[counts[LATER]] = number
                    counts[LATER] += 1
                elif memory.status[number] != INCONSISTENT:
                    memory.status[number] = OPEN
                    if counts[HEAP] >= len(memory.heap) - 1:
                        return FULL
                    counts[HEAP] = push(
                        memory.heap, memory.keys, counts[HEAP], number, reached + epsilon * memory.h[number]
                    )
    return RUNNING


@kernel
def reopen(memory: Memory, epsilon: float) -> float:
    """Begin a smaller epsilon: all states that were left open or found anew; returns the least ``g + h`` of them."""
    counts = memory.counts
    least = np.inf
    size = 0
    for number in range(counts[STATES]):
        if memory.status[number] == OPEN or memory.status[number] == INCONSISTENT:
            memory.status[number] = OPEN
            least = min(least, memory.g[number] + memory.h[number])
            size = push(memory.heap, memory.keys, size, number, memory.g[number] + epsilon * memory.h[number])
        elif memory.met[number] >= 0:
            memory.status[number] = 0
    counts[HEAP], counts[LATER] = size, 0
    return least
