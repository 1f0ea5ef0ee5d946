"""A sketch on a graph, ready to be searched; and the ways that are found."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

import numpy as np

from marey.base import FloatArray, IntArray
from marey.graph._ara import EDGE, MET, NODE, PICK, YAW, Memory, Terms, World2D
from marey.graph._graph import composed, relative
from marey.graph._ground import CELL_M, Ground
from marey.graph._heuristics import SHARP, Layers, bounds, lay_out, with_turns
from marey.graph._search_fallback import Detour
from marey.graph._search_result import Step
from marey.graph._search_roads import Ready
from marey.graph._sketch import Failure, Wish, as_goals, check_ground, check_parameters, check_route, compile_sketch
from marey.world import Sketch

TURNED_RAD: Final = 1.0  # [rad] between start and goal, from which on a bound that knows of turns pays


class Cancel(Protocol):
    """Something that can be set to stop a search, as ``threading.Event``."""

    def is_set(self) -> bool:
        """Whether to stop."""
        ...


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, and who may stop it."""

    begin: float
    budget_s: float
    cancel: Cancel | None = None

    @property
    def seconds(self) -> float:
        """Since the search began."""
        return time.perf_counter() - self.begin

    def part(self, share: float) -> Clock:
        """A clock that stops after a share of the time that is left."""
        return Clock(self.begin, self.seconds + share * (self.budget_s - self.seconds), self.cancel)

    @property
    def stopped(self) -> str:
        """Why to stop, if so."""
        if self.cancel is not None and self.cancel.is_set():
            return "CANCELLED"
        return "TIMEOUT" if self.seconds >= self.budget_s else ""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A sketch on a graph."""

    made: Ready
    sketch: Sketch
    wishes: tuple[Wish, ...]
    world: World2D
    terms: Terms
    rows: FloatArray  # (L, 10) the goals
    ground: Ground
    heuristic: str

    @classmethod
    def of(
        cls,
        made: Ready,
        sketch: Sketch,
        heuristic: str,
        pick_tolerance_m: float | None = None,
        until: int | None = None,
        slack_m: float = 0.0,
        arm_m: float = 0.0,
    ) -> Problem | Failure:
        """Compile a sketch, or tell why it is impossible; only the first ``until`` constraints, if given."""
        roads, ground = made.roads, Ground.of(sketch)
        wishes = compile_sketch(sketch, pick_tolerance_m=pick_tolerance_m, slack_m=slack_m, arm_m=arm_m)[:until]
        goals = as_goals(wishes)
        failure = check_ground(sketch, ground, wishes) or check_parameters(roads, goals, wishes)
        if failure is not None:
            return failure
        layers = lay_out(roads, goals, ground)
        failure = check_route(ground, sketch, layers)
        return cls._with(made, sketch, wishes, ground, heuristic, layers) if failure is None else failure

    @classmethod
    def _with(
        cls,
        made: Ready,
        sketch: Sketch,
        wishes: tuple[Wish, ...],
        ground: Ground,
        heuristic: str,
        layers: Layers | None = None,
        final: FloatArray | None = None,
    ) -> Problem:
        goals = as_goals(wishes)
        layers = lay_out(made.roads, goals, ground) if layers is None else layers
        distance, terms = bounds(heuristic, made.roads, made.rates, goals, ground, layers, final)
        world = World2D(ground.origin, CELL_M, np.ascontiguousarray(distance), ground.free, ground.stand)
        return cls(made, sketch, wishes, world, terms, goals.rows(), ground, heuristic)

    def sharper(self) -> Problem:
        """The same with a bound that knows of turns, where it is to end turned away from how it began."""
        heading, wanted = self.sketch.start.heading_deg, self.wishes[-1].heading_rad
        if self.heuristic not in SHARP or heading is None or np.isnan(wanted):
            return self
        if np.cos(wanted - np.deg2rad(heading)) > np.cos(TURNED_RAD):
            return self
        goals = as_goals(self.wishes)
        layers = lay_out(self.made.roads, goals, self.ground)
        return replace(self, terms=with_turns(self.made.roads, self.made.rates, goals, layers, self.terms))

    def by_hand(self, hands: Mapping[str, int]) -> Problem:
        """The same with things taken and put down by given hands, if any is put down again."""
        wishes = tuple(with_hand(w, hands.get(thing_of(w), w.hands)) for w in self.wishes)
        if len({thing_of(w) for w in wishes if w.kind == PICK}) == sum(w.kind == PICK for w in wishes):
            return self  # everything is touched once: either hand will do
        return Problem._with(self.made, self.sketch, wishes, self.ground, self.heuristic)

    def stage(self, layer: int, hands: int | None = None) -> Problem:
        """One constraint alone: its bound is sharper than that of all together. It ends where one can go on."""
        is_last = layer + 1 == len(self.wishes) or self.heuristic not in SHARP
        final = None if is_last else np.where(np.isfinite(self.terms.base[0, layer + 1]), 0.0, np.inf)
        wish = self.wishes[layer]
        wishes = (wish if hands is None else with_hand(wish, hands),)
        return Problem._with(self.made, self.sketch, wishes, self.ground, self.heuristic, final=final)

    def starts(self) -> list[tuple[int, FloatArray]]:
        """States in which one may begin, and their anchors with the root at the start of the sketch."""
        x, z = self.sketch.start.position
        heading = self.sketch.start.heading_deg
        yaw = self._towards() if heading is None else float(np.deg2rad(heading))
        frame = np.array([x, z, yaw])
        nodes = np.flatnonzero(self.made.roads.stands)
        return [(int(n), composed(frame, relative(np.zeros(3), self.made.roads.root[n]))) for n in nodes]

    def _towards(self) -> float:
        path, start = self.sketch.path, self.sketch.start.position
        if path is not None:
            return float(path.heading_at(path.nearest(start)[0]))
        place = self.wishes[0].place
        return float(np.arctan2(place[0] - start[0], place[2] - start[1]))


def thing_of(wish: Wish) -> str:
    """What a pick or a put-down is about; nothing for others."""
    return wish.name.partition(" ")[2] if wish.kind == PICK else ""


def with_hand(wish: Wish, hands: int) -> Wish:
    """A pick by one of some hands, unless others were asked for."""
    return replace(wish, hands=wish.hands & hands or wish.hands)


class Way(NamedTuple):
    """A way from a start to the end."""

    made: Ready  # on which it was found
    nodes: IntArray  # (n + 1,)
    places: FloatArray  # (n + 1, 3) anchors
    met: IntArray  # (n + 1,) constraints met
    edges: IntArray  # (n,)
    cost: float

    @classmethod
    def of(cls, made: Ready, memory: Memory, wishes: Sequence[Wish]) -> Way:
        """The cheapest way that a search has found, with the footsteps moved that its picks need."""
        chain = memory.chain()
        rows = memory.whole[chain]
        places = memory.real[chain][:, : YAW + 1]
        way = cls(made, rows[:, NODE], places, rows[:, MET], rows[1:, EDGE], memory.goal_cost)
        return way._moved(wishes)

    def _moved(self, wishes: Sequence[Wish]) -> Way:
        """The same with the steps before picks moved, as the search has seen that they can be."""
        from marey.graph._move_kernels import moved_steps

        places, first = self.places.copy(), 0
        for wish, step in zip(wishes, self.met_at, strict=True):
            last = step + 1
            if wish.slack_m > 0.0 and self.edges[step] < len(self.made.roads.delta):
                end = composed(places[step], self.made.roads.delta[self.edges[step]])
                target = places[last].copy()
                places[first : last + 1] = moved_steps(np.vstack([places[first:last], end]), target)
            first = last
        return self._replace(places=places)

    def without(self, final: FloatArray) -> Way:
        """The same without the cost that was put on its end, if any was."""
        return self if not len(final) else self._replace(cost=self.cost - float(final[self.nodes[-1]]))

    def then(self, other: Way) -> Way:
        """This way and one that begins where it ends."""
        return Way(
            self.made,
            np.concatenate([self.nodes, other.nodes[1:]]),
            np.concatenate([self.places, other.places[1:]]),
            np.concatenate([self.met, self.met[-1] + other.met[1:]]),
            np.concatenate([self.edges, other.edges]),
            self.cost + other.cost,
        )

    @property
    def met_at(self) -> tuple[int, ...]:
        """Steps at whose ends constraints were met."""
        return tuple(n for n, (a, b) in enumerate(pairwise(self.met.tolist())) if b > a)

    def steps(self, wishes: tuple[Wish, ...], detours: Sequence[tuple[int, Detour]] = ()) -> tuple[Step, ...]:
        """Edges, what they are blends of, and where they begin; numbers beyond the last edge are those of detours."""
        blends, count = self.made.blends, len(self.made.roads.target)
        hold = np.zeros(len(self.edges))
        for wish, step in zip(wishes, self.met_at, strict=True):
            hold[step] = wish.hold_s
        steps: list[Step] = []
        for n in range(len(self.edges)):
            edge, stretches = int(self.edges[n]), ()
            if edge >= count:
                edge, detour = detours[edge - count]
                stretches = detour.stretches
            a, c = (edge, edge) if blends is None else (int(blends.a[edge]), int(blends.c[edge]))
            weight = 1.0 if blends is None else float(blends.weight[edge])
            steps.append(Step(a, c, weight, self.places[n].copy(), float(hold[n]), stretches))
        return tuple(steps)

    def errors(self, wishes: tuple[Wish, ...]) -> tuple[float, ...]:
        """Distance [m] at which each constraint was met: of the hand and a pinned root for picks, else of the root."""
        roads = self.made.roads
        found: list[float] = []
        for wish, step in zip(wishes, self.met_at, strict=True):
            node, place = self.nodes[step + 1], self.places[step + 1]
            hand = roads.hand[node] if wish.kind == PICK else np.array([roads.root[node, 0], 0.0, roads.root[node, 1]])
            at = composed(place, np.array([hand[0], hand[2], 0.0]))
            rise = hand[1] - wish.place[1] if wish.kind == PICK else 0.0
            away = float(np.linalg.norm([at[0] - wish.place[0], rise, at[1] - wish.place[2]]))
            off = np.linalg.norm(composed(place, roads.root[node])[:2] - wish.pin)
            found.append(away if np.isnan(off) else max(away, float(off)))
        return tuple(found)
