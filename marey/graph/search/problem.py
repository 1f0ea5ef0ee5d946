"""A sketch on a graph, ready to be searched; and the paths that are found.

An edge that meets a wall may be replaced by another path through the same phase, longer but free ([Safonova2006]_
F26).
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.graph.arrays import (
    PICK,
    GridArrays,
    HeuristicTerms,
    SearchMemory,
    SearchSpace,
    SketchConstraint,
    compose_planar,
    pack_constraints,
    to_frame,
)
from marey.graph.database.compact import compute_pose_costs, compute_transition_costs
from marey.graph.database.settings import AS_CAPTURED, SearchSettings
from marey.graph.paths import PathStep
from marey.graph.search.blended_graph import PreparedGraph
from marey.graph.search.directions import add_direction_terms, add_facing_terms
from marey.graph.search.footsteps import move_steps
from marey.graph.search.ground import GRID_CELL_M, GroundGrid
from marey.graph.search.heuristics import (
    DIRECTIONAL_HEURISTICS,
    ConstraintLayers,
    compute_bounds,
    layer_distances,
)
from marey.graph.search.sketch import SearchFailure, check_ground, check_parameters, compile_sketch, mark_custom_states
from marey.lie import SO3
from marey.world import Sketch

if TYPE_CHECKING:
    from marey.graph.construction.event_tables import EventTable
    from marey.graph.motion_graph import MotionGraph


@dataclass(frozen=True, slots=True, eq=False)
class Detour:
    """Another way for an edge."""

    stretches: tuple[tuple[int, int], ...]  # poses shown
    cost: float


class Detours:
    """Looks for ways inside phases in the full graph of poses."""

    def __init__(self, graph: MotionGraph) -> None:
        self._graph, self._is_ready = graph, False

    def find(self, edge: int, place: FloatArray, free: BoolArray, grid: FloatArray) -> Detour | None:
        """The cheapest way along an edge, from an anchor, on which the root stays in free cells; None if there is none.

        Args:
            edge: of the graph.
            place: anchor in the world: x, z, yaw.
            free: cells where the root may be ``(H, W)``.
            grid: x and z of the first corner and size of a cell [m].
        """
        if not self._is_ready:
            # Costs of poses and transitions, and roots in the frames of their anchors: once, when first asked for
            graph = self._graph
            database, transitions = graph.database, graph.transitions
            self._cost = compute_pose_costs(database, graph.settings)
            self._extra = compute_transition_costs(database, transitions, graph.settings)
            self._order = np.argsort(transitions.source, kind="stable")
            self._first = np.searchsorted(transitions.source[self._order], np.arange(database.num_poses + 1))
            yaw = SO3(database.wxyz[:, 0]).twist_angle([0.0, 1.0, 0.0])
            roots = np.stack([database.roots[:, 0], database.roots[:, 2], yaw], axis=1)
            self._roots = to_frame(roots, database.phases.anchor[database.phase])  # (P, 3) in the frame of the anchor
            self._is_ready = True
        # Poses of the same class whose root is in a free cell
        stretches = self._graph.stretches(edge)
        start, stop = stretches[0][0], stretches[-1][1]
        table = self._graph.database.phases
        same = np.flatnonzero(table.kind == table.kind[self._graph.database.phase[start]])
        legal = np.zeros(self._graph.database.num_poses, dtype=bool)
        for phase in same:
            poses = np.arange(int(table.start[phase]), int(table.stop[phase]))
            places = compose_planar(place, self._roots[poses])
            column = np.floor((places[:, 0] - grid[0]) / grid[2]).astype(np.int64)
            row = np.floor((places[:, 1] - grid[1]) / grid[2]).astype(np.int64)
            inside = (row >= 0) & (column >= 0) & (row < free.shape[0]) & (column < free.shape[1])
            legal[poses] = inside & free[np.clip(row, 0, free.shape[0] - 1), np.clip(column, 0, free.shape[1] - 1)]
        # Dijkstra over legal poses: on to the next pose of the clip, or along a transition
        last = stop - 1
        if not (legal[start] and legal[last]):
            return None
        best: dict[int, float] = {start: 0.0}
        came: dict[int, int] = {}
        heap = [(0.0, start)]
        while heap:
            spent, pose = heapq.heappop(heap)
            if pose == last:
                # Trace the way back, and cut it where it leaves a clip
                route = [last]
                while route[-1] != start:
                    route.append(came[route[-1]])
                route.reverse()
                cuts = [0, *(n for n in range(1, len(route)) if route[n] != route[n - 1] + 1), len(route)]
                shown = tuple((route[a], route[b - 1] + 1) for a, b in pairwise(cuts))
                return Detour(shown, spent + float(self._cost[last]))
            if spent > best[pose]:
                continue
            own = float(self._cost[pose])
            ahead = [(pose + 1, own)] if pose + 1 < table.stop[self._graph.database.phase[pose]] else []
            jumps: IntArray = self._order[self._first[pose] : self._first[pose + 1]]
            ahead += [(int(self._graph.transitions.target[j]), own + float(self._extra[j])) for j in jumps]
            for there, cost in ahead:
                total = spent + cost
                if legal[there] and total < best.get(there, np.inf):
                    best[there], came[there] = total, pose
                    heapq.heappush(heap, (total, there))
        return None


MOST_WALL: Final = 4.0  # [-] wall time over processor time: a search ends at last though others use the machine
DIRECTION_CHANGE_RAD: Final = 1.0  # [rad] between start and goal, from which on a bound that knows of turns pays


class CancelToken(Protocol):
    """Something that can be set to stop a search, as ``threading.Event``."""

    def is_set(self) -> bool:
        """Whether to stop."""
        ...


@dataclass(frozen=True, slots=True)
class SearchClock:
    """Time limit and cancellation of a search.

    Counts the processor time of its thread, so that a busy machine finds what a quiet one does, and later; the wall
    ends it after :data:`MOST_WALL` times the limit.
    """

    budget_s: float
    cancel: CancelToken | None = None
    begin: float = field(default_factory=time.thread_time)
    wall_begin: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """Since the search began: of the thread, at least a quarter of the wall's."""
        return max(time.thread_time() - self.begin, (time.perf_counter() - self.wall_begin) / MOST_WALL)

    def part(self, share: float) -> SearchClock:
        """A clock that stops after a share of the time that is left."""
        return replace(self, budget_s=self.seconds + share * (self.budget_s - self.seconds))

    @property
    def stopped(self) -> str:
        """Why to stop, if so."""
        if self.cancel is not None and self.cancel.is_set():
            return "CANCELLED"
        return "TIMEOUT" if self.seconds >= self.budget_s else ""


@dataclass(frozen=True, slots=True, eq=False)
class SearchProblem:
    """A sketch on a graph."""

    made: PreparedGraph
    sketch: Sketch
    constraints: tuple[SketchConstraint, ...]
    world: GridArrays
    terms: HeuristicTerms
    ground: GroundGrid
    heuristic: str

    @classmethod
    def from_sketch(
        cls,
        made: PreparedGraph,
        sketch: Sketch,
        heuristic: str,
        pick_tolerance_m: float | None = None,
        until: int | None = None,
        settings: SearchSettings = AS_CAPTURED,
        tables: Mapping[str, EventTable] = MappingProxyType({}),
        *,
        direct: bool = False,
    ) -> SearchProblem | SearchFailure:
        """Compile a sketch, or return why it is infeasible; with ``until``, only its first constraints.

        ``direct`` leaves out places far from the shortest way, where no path is drawn.
        """
        marks = mark_custom_states(sketch, tables, len(made.roads.event))
        if isinstance(marks, SearchFailure):
            return marks
        made = replace(made, roads=made.roads._replace(marks=marks)) if len(marks) else made
        roads, ground = made.roads, GroundGrid.from_sketch(sketch, settings)
        constraints = compile_sketch(sketch, pick_tolerance_m=pick_tolerance_m, settings=settings)[:until]
        failure = check_ground(sketch, ground, constraints) or check_parameters(roads, constraints, settings)
        if failure is not None:
            return failure
        layers = layer_distances(roads, constraints, ground)
        # The ground must have a path from the start through all constraints
        if not np.isfinite(layers.distance[0][ground.cell(sketch.start.position)]):
            return SearchFailure(
                "NO_2D_ROUTE", "Walls block every path: open them, widen the corridor, or move the targets behind them"
            )
        if direct and sketch.path is None:
            ground = ground.near_shortest(sketch.start.position, layers.leg, settings)
        return cls._with(made, sketch, constraints, ground, heuristic, layers)

    @classmethod
    def _with(
        cls,
        made: PreparedGraph,
        sketch: Sketch,
        constraints: tuple[SketchConstraint, ...],
        ground: GroundGrid,
        heuristic: str,
        layers: ConstraintLayers | None = None,
        final: FloatArray | None = None,
    ) -> SearchProblem:
        layers = layer_distances(made.roads, constraints, ground) if layers is None else layers
        distance, terms = compute_bounds(heuristic, made.roads, made.rates, constraints, ground, layers, final)
        world = GridArrays(ground.origin, GRID_CELL_M, np.ascontiguousarray(distance), ground.free, ground.stand)
        return cls(made, sketch, constraints, world, terms, ground, heuristic)

    def space(self, memory: SearchMemory) -> SearchSpace:
        """The problem as compiled code reads it."""
        return SearchSpace(self.made.roads, self.world, pack_constraints(self.constraints), self.terms, memory)

    def with_direction_bounds(self) -> SearchProblem:
        """The same with a bound that knows of turns, where it is to end turned away from how it began."""
        heading, wanted = self.sketch.start.heading_deg, self.constraints[-1].heading_rad
        if self.heuristic not in DIRECTIONAL_HEURISTICS or heading is None or np.isnan(wanted):
            return self
        if np.cos(wanted - np.deg2rad(heading)) > np.cos(DIRECTION_CHANGE_RAD):
            return self
        roads, rates = self.made.roads, self.made.rates
        layers = layer_distances(roads, self.constraints, self.ground)
        return replace(self, terms=add_direction_terms(roads, rates, self.constraints, layers, self.terms))

    def with_facing_bounds(self) -> SearchProblem:
        """The same with a bound that knows which way one faces, where no path is drawn and there is much to do."""
        is_free = self.sketch.path is None and len(self.constraints) > 1 and self.made.blends is None
        if self.heuristic not in DIRECTIONAL_HEURISTICS or not is_free:
            return self
        layers, start = layer_distances(self.made.roads, self.constraints, self.ground), self.sketch.start.position
        return replace(
            self, terms=add_facing_terms(self.made.roads, self.constraints, layers, self.ground, start, self.terms)
        )

    def with_assigned_hands(self, hands: Mapping[str, int]) -> SearchProblem:
        """The same with things taken and put down by given hands, if any is put down again."""
        constraints = tuple(with_hand(w, hands.get(constraint_object(w), w.hands)) for w in self.constraints)
        if len({constraint_object(w) for w in constraints if w.kind == PICK}) == sum(
            w.kind == PICK for w in constraints
        ):
            return self  # everything is touched once: either hand will do
        return SearchProblem._with(self.made, self.sketch, constraints, self.ground, self.heuristic)

    def stage(self, layer: int, hands: int | None = None) -> SearchProblem:
        """Search for one constraint, whose bound is tighter; it ends in states from which the rest costs little."""
        is_last = layer + 1 == len(self.constraints) or self.heuristic not in DIRECTIONAL_HEURISTICS
        final = None if is_last else self.terms.rest[layer]
        constraint = self.constraints[layer]
        constraints = (constraint if hands is None else with_hand(constraint, hands),)
        if self.terms.base.shape[2] == 1:
            return SearchProblem._with(self.made, self.sketch, constraints, self.ground, self.heuristic, final=final)
        # Costs of this leg, then of the rest, are known already
        own, end = slice(layer, layer + 1), self.terms.final if final is None else final
        terms = self.terms._replace(
            rate=self.terms.rate[:1], base=self.terms.base[:1, own], leg=self.terms.leg[own], final=end
        )
        return replace(self, constraints=constraints, terms=terms, world=self.world._replace(distance=terms.leg))

    def starts(self) -> list[tuple[int, FloatArray]]:
        """States in which one may begin, and their anchors with the root at the start of the sketch."""
        x, z = self.sketch.start.position
        heading = self.sketch.start.heading_deg
        if heading is not None:
            yaw = float(np.deg2rad(heading))
        elif self.sketch.path is not None:
            yaw = float(self.sketch.path.heading_at(self.sketch.path.nearest((x, z))[0]))
        else:
            place = self.constraints[0].place
            yaw = float(np.arctan2(place[0] - x, place[2] - z))
        frame = np.array([x, z, yaw])
        nodes = np.flatnonzero(self.made.roads.stands)
        return [(int(n), compose_planar(frame, to_frame(np.zeros(3), self.made.roads.root[n]))) for n in nodes]


def constraint_object(constraint: SketchConstraint) -> str:
    """Object of a pick or place; empty for other constraints."""
    return constraint.name.partition(" ")[2] if constraint.kind == PICK else ""


def with_hand(constraint: SketchConstraint, hands: int) -> SketchConstraint:
    """A pick by one of some hands, unless others were asked for."""
    return replace(constraint, hands=constraint.hands & hands or constraint.hands)


class SearchPath(NamedTuple):
    """A way from a start to the end."""

    made: PreparedGraph  # on which it was found
    nodes: IntArray  # (n + 1,)
    places: FloatArray  # (n + 1, 3) anchors
    met: IntArray  # (n + 1,) constraints met
    edges: IntArray  # (n,)
    cost: float
    mixed: Mapping[int, tuple[int, float]] = MappingProxyType({})  # steps blended besides: other edge, own weight

    @classmethod
    def from_memory(
        cls,
        made: PreparedGraph,
        memory: SearchMemory,
        constraints: Sequence[SketchConstraint],
        *,
        is_moved: bool = True,
    ) -> SearchPath:
        """The cheapest way that a search has found, with the footsteps moved that its picks need."""
        chain = memory.chain()
        states = memory.states[chain]
        places = np.stack([states.x, states.z, states.yaw], axis=1)
        way = cls(made, states.node, places, states.met, states.edge[1:], memory.goal_cost)
        # The steps before picks moved, as the search has seen that they can be
        first = 0
        for constraint, step in zip(constraints, way.met_at, strict=True):
            last = step + 1
            if is_moved and constraint.slack_m > 0.0 and way.edges[step] < len(made.roads.delta):
                end = compose_planar(places[step], made.roads.delta[way.edges[step]])
                target = places[last].copy()
                places[first : last + 1] = move_steps(np.vstack([places[first:last], end]), target)
            first = last
        return way

    @property
    def met_at(self) -> tuple[int, ...]:
        """Steps at whose ends constraints were met."""
        return tuple(n for n, (a, b) in enumerate(pairwise(self.met.tolist())) if b > a)

    def steps(
        self, constraints: tuple[SketchConstraint, ...], detours: Sequence[tuple[int, Detour]] = ()
    ) -> tuple[PathStep, ...]:
        """Edges, what they are blends of, and where they begin; numbers beyond the last edge are those of detours."""
        blends, count = self.made.blends, len(self.made.roads.target)
        hold = np.zeros(len(self.edges))
        for constraint, step in zip(constraints, self.met_at, strict=True):
            hold[step] = constraint.hold_s
        steps: list[PathStep] = []
        for n in range(len(self.edges)):
            edge, stretches = int(self.edges[n]), ()
            if edge >= count:
                edge, detour = detours[edge - count]
                stretches = detour.stretches
            a, c, weight, warp = edge, edge, 1.0, (0.0, 0.0, 0.0)
            if blends is not None:
                a, c, weight, warp = (each[edge].tolist() for each in blends)
            c, weight = self.mixed.get(n, (c, weight))
            steps.append(PathStep(a, c, weight, self.places[n].copy(), float(hold[n]), stretches, tuple(warp)))
        return tuple(steps)

    def errors(self, constraints: tuple[SketchConstraint, ...]) -> tuple[float, ...]:
        """Distance [m] at which each constraint was met: of the hand and a pinned root for picks, else of the root."""
        roads = self.made.roads
        found: list[float] = []
        for constraint, step in zip(constraints, self.met_at, strict=True):
            node, place = self.nodes[step + 1], self.places[step + 1]
            hand = (
                roads.hand[node]
                if constraint.kind == PICK
                else np.array([roads.root[node, 0], 0.0, roads.root[node, 1]])
            )
            at = compose_planar(place, np.array([hand[0], hand[2], 0.0]))
            rise = hand[1] - constraint.place[1] if constraint.kind == PICK else 0.0
            away = float(np.linalg.norm([at[0] - constraint.place[0], rise, at[1] - constraint.place[2]]))
            off = np.linalg.norm(compose_planar(place, roads.root[node])[:2] - constraint.pin)
            found.append(away if np.isnan(off) else max(away, float(off)))
        return tuple(found)
