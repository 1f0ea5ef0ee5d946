"""Graph and search as plain arrays: edges, states, ground, constraints, and the memory of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray

EMPTY: Final = -1
NO_EVENT, PICK_LEFT, PICK_RIGHT, FLIGHT, STAND = 0, 1, 2, 3, 4
PICKS: Final = (PICK_LEFT, PICK_RIGHT)
NUM_TORQUES = 16
NUM_PATH_SAMPLES = 9  # places of the root along an edge that are tested against walls and the corridor
OPEN, CLOSED, INCONSISTENT = 1, 2, 3  # status of a search state; 0 is neither
REACH, PICK, JUMP, STEP = 0, 1, 2, 3  # kinds of constraints
RUNNING, DONE, FULL = 0, 1, 2  # what a run of the search returns
HEADING_TOL: Final = 0.26  # [rad] 15 degrees
BIN_SHIFT: Final = 0.0123  # [rad] of the bins of directions: no usual direction is between two of them
MAX_BLOCKED: Final = 4096  # edges that the ground blocked, kept for a second look
MAX_STEP_SHIFT_M: Final = 0.03  # [m] by which a footstep moves so that a pick meets its target
MAX_STEP_ROTATION_RAD: Final = 0.052  # [rad] and turns
MAX_ANCHOR_ROTATION_RAD: Final = 0.2  # [rad] by which all of them turn together
NO_PICKS: Final = np.zeros(0, dtype=np.int64)
NO_MARKS: Final = np.zeros((0, 0), dtype=np.bool_)
NO_ENDS: Final = np.zeros((0, 3))
NO_TABLE: Final = np.zeros((0, 0, 0))
NO_TABLES: Final = np.zeros((0, 0, 0, 0))
NO_FINAL: Final = np.zeros(0)
NO_REST: Final = np.zeros((0, 0))


class GraphArrays(NamedTuple):
    """N states, E edges sorted by source. Places are in the frame of the anchor foot: x, z [m], yaw [rad]."""

    first: IntArray  # (N + 1,) edges of state s are first[s] to first[s + 1]
    target: IntArray  # (E,)
    cost: FloatArray  # (E,)
    seconds: FloatArray  # (E,)
    arc: FloatArray  # (E,) [m] length of the root's way over the ground
    delta: FloatArray  # (E, 3) anchor of the target in the frame of the source's anchor
    path: FloatArray  # (E, SAMPLES, 2) [m] root along the edge in the source's anchor frame, to where the target's is
    way: IntArray  # (E,) number of the way
    event: IntArray  # (N,) what happens when the state is reached
    hand: FloatArray  # (N, 3) [m] hand of a pick: x, height, z in the anchor's frame
    root: FloatArray  # (N, 3) root in the anchor's frame
    feet: FloatArray  # (N, 2, 2) [m] middles of left and right sole in the anchor's frame; NaN where not planted
    kind: IntArray  # (N,) contact class
    flight: FloatArray  # (E, 2) [m] ground between the feet, rise of the root; zero for edges that are not flights
    is_standing: BoolArray  # (N,) the state begins a slow, upright stance on both feet: one may start and end there
    price: FloatArray  # (E,) share of the cost that is transitions and gaps between merged states
    power: FloatArray  # (E,) [1/s] the rest per second: cost = seconds * power + price
    torque: FloatArray  # (E, TORQUES) directions of length one whose dot products are those of the torques of two edges

    @property
    def source(self) -> IntArray:
        """State that each edge leaves ``(E,)``."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))


class SearchGraph(NamedTuple):
    """N states and E edges as the search walks them; places are in the frame of the anchor foot."""

    first: IntArray  # (N + 1,) edges of state s are order[first[s]] to order[first[s + 1] - 1]
    order: IntArray  # (E,) those that differ from one another and are cheap come first
    few: IntArray  # (N,) how many come first
    target: IntArray  # (E,)
    cost: FloatArray  # (E,)
    delta: FloatArray  # (E, 3) anchor of the target in that of the source
    path: FloatArray  # (E, K, 2) [m] root along the edge
    flight: FloatArray  # (E, 2) [m] length and rise; zero on the ground
    event: IntArray  # (N,)
    hand: FloatArray  # (N, 3) [m]
    root: FloatArray  # (N, 3)
    feet: FloatArray  # (N, 2, 2) [m]
    stands: BoolArray  # (N,) where one may begin, stop and end
    apart: BoolArray  # (E,) edges that are taken only to meet a constraint
    pick: IntArray = NO_PICKS  # (N,) to which all that a state can do leads; EMPTY: to none; (0,): not known
    pick_end: FloatArray = NO_ENDS  # (N, 3) and where the anchor is there
    leap: IntArray = NO_PICKS  # (N,) flight that is all that a state can do; EMPTY: it can do more; (0,): not known
    marks: BoolArray = NO_MARKS  # (M, N) where custom events of the sketch begin

    @property
    def source(self) -> IntArray:
        """State that each edge leaves ``(E,)``."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))


class GridArrays(NamedTuple):
    """The ground in cells: how far every place is from where one has to go, and where feet may not stand."""

    origin: FloatArray  # (2,) [m] corner of the first cell, x and z
    cell: float  # [m]
    distance: FloatArray  # (L, H, W) [m] least way to the end with l constraints met, at centres of cells
    free: BoolArray  # (H, W) where the root may be
    stand: BoolArray  # (H, W) where a foot may stand


@dataclass(frozen=True, slots=True)
class SketchConstraint:
    """One constraint of a sketch; the last of a sketch is its goal."""

    kind: int  # REACH, PICK, JUMP, STEP
    place: tuple[float, float, float]  # [m] x, height, z
    tolerance_m: float
    heading_rad: float = np.nan  # any; of a jump or step: in which a river is crossed
    hands: int = 0  # bits: 1 left, 2 right
    length_m: float = 0.0  # shortest flight of a jump, least way from plant to plant of a step
    rise_m: float = 0.0  # least rise of a jump
    is_stop: bool = False  # whether it is met standing only,
    mark: int = EMPTY  # or, instead, in states of this row of marks only
    hold_s: float = 0.0
    pin_tolerance_m: float = np.nan  # of the root at its pin; NaN: that of the hand
    slack_m: float = 0.0  # by which footsteps may move hand and root towards their targets
    pin: tuple[float, float] = (np.nan, np.nan)  # [m] x, z of the root while something is picked up; NaN: anywhere
    name: str = "goal"

    @property
    def root_tolerance_m(self) -> float:
        """Of a pinned root [m]."""
        return self.tolerance_m if np.isnan(self.pin_tolerance_m) else self.pin_tolerance_m


CONSTRAINT_FIELDS: Final = (
    "kind", "x", "y", "z", "heading", "tolerance", "hands", "length", "rise", "stop", "pin_x", "pin_z", "slack",
    "pin_tolerance", "mark",
)  # fmt: skip
CONSTRAINT_RECORD: Final = np.dtype(
    [(name, np.int64 if name in ("kind", "hands", "stop", "mark") else np.float64) for name in CONSTRAINT_FIELDS],
    align=True,
)
"""A constraint as compiled code reads it, with the units of :class:`SketchConstraint`."""
Records = Any
"""A numpy record array; numpy's types do not tell its fields."""


def pack_constraints(constraints: Sequence[SketchConstraint]) -> Records:
    """Constraints as records ``(L,)``."""
    rows = [
        (w.kind, *w.place, w.heading_rad, w.tolerance_m, w.hands, w.length_m, w.rise_m, w.is_stop, *w.pin, w.slack_m,
         w.root_tolerance_m, w.mark)
        for w in constraints
    ]  # fmt: skip
    return np.array(rows, dtype=CONSTRAINT_RECORD).view(np.recarray)


class HeuristicTerms(NamedTuple):
    r"""An estimate of the cost left, :math:`\max_r (\lambda_r d_m(x) + \varphi_{r,m}(s, a_m(x)))`.

    Of m constraints met, d is the way left through all others and a that to the next. One term may know directions.
    """

    rate: FloatArray  # (R,) cost per metre
    base: FloatArray  # (R, L, K, N) cost, by the way to the next constraint in steps; K is 1: whatever it is
    leg: FloatArray = NO_TABLE  # (L, H, W) [m] least way to the next constraint; not read if K is 1
    step: float = 1.0  # [m] of the way to the next constraint
    rest: FloatArray = NO_REST  # (L, N) least cost left once a constraint is met; (0, 0): not known
    final: FloatArray = NO_FINAL  # (N,) cost that is still to come where the search ends; (0,): nothing
    turned: FloatArray = NO_TABLE  # (L, N, B) cost by direction of the anchor, at the last rate; B is 0: not known
    facing: FloatArray = NO_TABLES  # (L, K, N, B) cost by row of the way left along a line, and direction; L is 0: none
    line: FloatArray = NO_REST  # (L, 3) the row of a place is a x + b z + c


SEARCH_STATE: Final = np.dtype(
    [("key", np.int64)]
    + [(name, np.float64) for name in ("g", "h", "x", "z", "yaw")]
    + [(name, np.int32) for name in ("node", "parent", "edge", "slot")]
    + [(name, np.int16) for name in ("met", "status")],
    align=True,
)
"""A search state: key, cost so far and estimate of the cost left; anchor x, z [m] and yaw [rad]; state of the graph,
the search state and edge that lead to it, place in the table, constraints met, and status. Millions of them are read
at random, so they are kept small."""
SUCCESSOR: Final = np.dtype(
    [("key", np.int64)]
    + [(name, np.float64) for name in ("g", "x", "z", "yaw", "root_x", "root_z", "final", "known")]
    + [(name, np.int32) for name in ("node", "edge", "met", "number")],
    align=True,
)
"""Where an edge leads: key, cost so far, anchor, place of the root [m], cost of ending there, least cost known of its
key; state of the graph, edge, constraints met, and the search state that the table holds in its place."""
SEARCH_COUNTS: Final = np.dtype(
    [(name, np.int64) for name in ("states", "heap", "expansions", "goal", "violations", "blocked")], align=True
)
"""How many search states, entries of the heap, expansions, violations of consistency and blocked edges there are; and
the number of the cheapest search state that meets all constraints, EMPTY if none does."""


SlotArray = np.ndarray[tuple[int], np.dtype[np.int32]]
"""Numbers of search states in 4 bytes each: a table of them is read at random."""


class SearchMemory(NamedTuple):
    """Everything that a search keeps, so that it can be stopped and taken up again."""

    table: SlotArray  # (T,) hash table: number of the search state, EMPTY
    states: Records  # (C,) of SEARCH_STATE
    heap: IntArray  # (B,)
    keys: FloatArray  # (B,)
    blocked: IntArray  # (MAX_BLOCKED, 2) search state and edge that met a wall
    counts: Records  # (1,) of SEARCH_COUNTS

    @property
    def num_states(self) -> int:
        """How many search states there are."""
        return int(self.counts[0].states)

    @property
    def goal(self) -> int:
        """Number of the cheapest state that meets all constraints, EMPTY if none does."""
        return int(self.counts[0].goal)

    @property
    def goal_cost(self) -> float:
        """Cost of the best path found so far; inf without one."""
        return float(self.states[self.goal].g) if self.goal != EMPTY else np.inf

    def chain(self) -> list[int]:
        """Search states from a start to the goal that was found."""
        chain = [self.goal]
        while self.states[chain[-1]].parent != EMPTY:
            chain.append(int(self.states[chain[-1]].parent))
        return chain[::-1]


def allocate_memory(capacity: int) -> SearchMemory:
    """Room for so many search states; pages are touched only as they are used."""
    memory = SearchMemory(
        table=np.full(1 << int(np.ceil(np.log2(2 * capacity))), EMPTY, dtype=np.int32),
        states=np.empty(capacity, dtype=SEARCH_STATE).view(np.recarray),
        heap=np.empty(4 * capacity, dtype=np.int64),
        keys=np.empty(4 * capacity),
        blocked=np.empty((MAX_BLOCKED, 2), dtype=np.int64),
        counts=np.zeros(1, dtype=SEARCH_COUNTS).view(np.recarray),
    )
    memory.counts.goal[:] = EMPTY
    return memory


def clear_memory(memory: SearchMemory) -> None:
    """Forget a search; costs as much as the search was large."""
    memory.table[memory.states.slot[: memory.num_states]] = EMPTY
    memory.counts[:] = 0
    memory.counts.goal[:] = EMPTY


class SearchSpace(NamedTuple):
    """Everything that the compiled search reads and writes."""

    graph: SearchGraph
    world: GridArrays
    goals: Records  # (L,) of CONSTRAINT_RECORD
    terms: HeuristicTerms
    memory: SearchMemory


class Anchor(NamedTuple):
    """An anchor in the world, as compiled code hands it over."""

    x: float  # [m]
    z: float  # [m]
    yaw: float  # [rad]
    cos: float
    sin: float


def wrap_angles(angles: FloatArray) -> FloatArray:
    """The same angles [rad] between -pi and pi."""
    return (angles + np.pi) % (2.0 * np.pi) - np.pi


def to_frame(place: FloatArray, frame: FloatArray) -> FloatArray:
    """Places ``(..., 3)`` x, z, yaw seen from frames ``(..., 3)``."""
    dx, dz = place[..., 0] - frame[..., 0], place[..., 1] - frame[..., 1]
    c, s = np.cos(frame[..., 2]), np.sin(frame[..., 2])
    yaw = wrap_angles(place[..., 2] - frame[..., 2])
    return np.stack([c * dx - s * dz, s * dx + c * dz, yaw], axis=-1)


def compose_planar(frame: FloatArray, place: FloatArray) -> FloatArray:
    """Places ``(..., 3)`` given in frames ``(..., 3)``, in the world."""
    c, s = np.cos(frame[..., 2]), np.sin(frame[..., 2])
    x = frame[..., 0] + c * place[..., 0] + s * place[..., 1]
    z = frame[..., 1] - s * place[..., 0] + c * place[..., 1]
    return np.stack([x, z, frame[..., 2] + place[..., 2]], axis=-1)
