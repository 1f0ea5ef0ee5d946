"""The motion graph as arrays, ready to be searched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.graph._compact import Ways, cull_transitions, transition_costs, way_poses
from marey.graph._database import Database, Progress, prepare
from marey.graph._events import PICKED
from marey.graph._links import largest_component
from marey.graph._merge import merge_states
from marey.graph._settings import GraphSettings
from marey.graph._transitions import Metric, Transitions, find_transitions
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import contact_points, joint_frames

NO_EVENT, PICK_LEFT, PICK_RIGHT, FLIGHT = 0, 1, 2, 3
SAMPLES = 5  # places of the root along an edge that are tested against walls and the corridor


class GraphArrays(NamedTuple):
    """N states, E edges sorted by source. Places are in the frame of the anchor foot: x, z [m], yaw [rad]."""

    first: IntArray  # (N + 1,) edges of state s are first[s] to first[s + 1]
    target: IntArray  # (E,)
    cost: FloatArray  # (E,)
    seconds: FloatArray  # (E,)
    arc: FloatArray  # (E,) [m] length of the root's way over the ground
    delta: FloatArray  # (E, 3) anchor of the target in the frame of the source's anchor
    path: FloatArray  # (E, SAMPLES, 2) [m] root along the edge, in the frame of the source's anchor
    way: IntArray  # (E,) number of the way
    event: IntArray  # (N,) what happens when the state is reached
    hand: FloatArray  # (N, 3) [m] hand of a pick: x, height, z in the anchor's frame
    root: FloatArray  # (N, 3) root in the anchor's frame
    feet: FloatArray  # (N, 2, 2) [m] left and right foot in the anchor's frame; NaN where not planted
    kind: IntArray  # (N,) contact class
    flight: FloatArray  # (E, 2) [m] length and rise of the centre of mass; zero for edges that are no flights


@dataclass(frozen=True, slots=True, eq=False)
class MotionGraph:
    """A database, its transitions, and the compact graph made of them."""

    settings: GraphSettings
    database: Database
    transitions: Transitions
    ways: Ways
    arrays: GraphArrays
    members: tuple[IntArray, ...]  # phases of each state

    @property
    def num_states(self) -> int:
        """How many states the compact graph has."""
        return len(self.arrays.event)

    @property
    def num_edges(self) -> int:
        """How many edges it has."""
        return len(self.arrays.target)

    def stretches(self, edge: int) -> list[tuple[int, int]]:
        """Poses ``[start, stop)`` of the database that an edge shows."""
        return way_poses(self.database, self.transitions, self.ways, int(self.arrays.way[edge]))


def build(motions: list[Motion], *, on_progress: Progress | None = None, **settings: object) -> MotionGraph:
    """Build the motion graph of clips; ``settings`` are those of :class:`GraphSettings`."""
    chosen = GraphSettings(**settings)  # type: ignore[arg-type]
    return assemble(prepare(motions, chosen, on_progress=on_progress), chosen)


def assemble(database: Database, settings: GraphSettings) -> MotionGraph:
    """Find transitions, keep the cheapest ways, merge states, and keep what can be left and reached."""
    metric = Metric(database, settings)
    transitions = find_transitions(database, settings, metric)
    ways = cull_transitions(database, transitions, settings)
    group, gap = merge_states(database, settings, metric, transitions.threshold)
    price = float(np.median(transition_costs(database, transitions, settings)))
    typical = max(float(np.median(transitions.distance)), 1e-12)
    after = database.phases.after[ways.through]
    cost = ways.cost + price * (gap[ways.source] + gap[after]) / typical
    kept = _cheapest(group[ways.source], group[after], cost, _bins(database, ways, settings))
    return _component(settings, database, transitions, ways, group, kept, cost)


def _bins(database: Database, ways: Ways, settings: GraphSettings) -> IntArray:
    """Landing direction of flights, in bins; zero for ways on the ground."""
    flights = np.array([not planted for planted in database.classes])[database.phases.kind[ways.source]]
    yaw = _deltas(database, ways)[:, 2]
    return np.where(flights, np.floor(yaw / settings.yaw_bin_rad).astype(np.int64) + 1000, 0)


def _deltas(database: Database, ways: Ways) -> FloatArray:
    """Next anchor in the frame of the anchor of the phase that a way ends with ``(E, 3)``."""
    table = database.phases
    return relative(table.anchor[table.after[ways.through]], table.anchor[ways.through])


def relative(place: FloatArray, frame: FloatArray) -> FloatArray:
    """Places ``(..., 3)`` x, z, yaw seen from frames ``(..., 3)``."""
    dx, dz = place[..., 0] - frame[..., 0], place[..., 1] - frame[..., 1]
    c, s = np.cos(frame[..., 2]), np.sin(frame[..., 2])
    yaw = (place[..., 2] - frame[..., 2] + np.pi) % (2.0 * np.pi) - np.pi
    return np.stack([c * dx - s * dz, s * dx + c * dz, yaw], axis=-1)


def composed(frame: FloatArray, place: FloatArray) -> FloatArray:
    """Places ``(..., 3)`` given in frames ``(..., 3)``, in the world."""
    c, s = np.cos(frame[..., 2]), np.sin(frame[..., 2])
    x = frame[..., 0] + c * place[..., 0] + s * place[..., 1]
    z = frame[..., 1] - s * place[..., 0] + c * place[..., 1]
    return np.stack([x, z, frame[..., 2] + place[..., 2]], axis=-1)


def _cheapest(source: IntArray, target: IntArray, cost: FloatArray, bins: IntArray) -> IntArray:
    """Numbers of the ways that are the cheapest of their source, target and bin."""
    order = np.lexsort((cost, bins, target, source))
    key = np.stack([source, target, bins])[:, order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (key[:, 1:] != key[:, :-1]).any(axis=0)
    return order[fresh]


def _component(
    settings: GraphSettings,
    database: Database,
    transitions: Transitions,
    ways: Ways,
    group: IntArray,
    kept: IntArray,
    cost: FloatArray,
) -> MotionGraph:
    after = database.phases.after[ways.through]
    source, target = group[ways.source[kept]], group[after[kept]]
    count = int(group.max()) + 1
    states = largest_component(source, target, count)
    number = np.full(count, -1, dtype=np.int64)
    number[states] = np.arange(len(states))
    inside = (number[source] >= 0) & (number[target] >= 0)
    if len(states) < 2 or not inside.any():
        raise InputError("the clips do not flow into one another", "Raise `density` or `cross`, or add clips")
    kept = kept[inside]
    kept = kept[np.argsort(number[group[ways.source[kept]]], kind="stable")]
    members = tuple(np.flatnonzero(group == state) for state in states)
    arrays = _arrays(database, transitions, ways, kept, number[group], cost, members)
    return MotionGraph(settings, database, transitions, ways, arrays, members)


def _arrays(
    database: Database,
    transitions: Transitions,
    ways: Ways,
    kept: IntArray,
    state_of: IntArray,
    cost: FloatArray,
    members: tuple[IntArray, ...],
) -> GraphArrays:
    table = database.phases
    source, after = state_of[ways.source[kept]], table.after[ways.through[kept]]
    phases = np.array([own[0] for own in members])
    yaw = SO3(database.wxyz[:, 0]).twist_angle([0.0, 1.0, 0.0])
    roots = np.stack([database.roots[:, 0], database.roots[:, 2], yaw], axis=1)
    paths, arcs, seconds = _paths(database, transitions, ways, kept, roots)
    hands, events = _events(database, phases)
    feet = relative(table.feet[phases], table.anchor[phases][:, None])[..., :2]
    return GraphArrays(
        first=np.searchsorted(source, np.arange(len(members) + 1)),
        target=state_of[after],
        cost=cost[kept],
        seconds=seconds,
        arc=arcs,
        delta=_deltas(database, ways)[kept],
        path=paths,
        way=kept,
        event=events,
        hand=hands,
        root=relative(roots[table.start[phases]], table.anchor[phases]),
        feet=feet,
        kind=table.kind[phases],
        flight=_flights(database, ways, kept),
    )


def _paths(
    database: Database, transitions: Transitions, ways: Ways, kept: IntArray, roots: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Places of the root along each edge ``(E, SAMPLES, 2)``, its arc length [m] and duration [s] ``(E,)``."""
    paths, arcs, seconds = np.empty((len(kept), SAMPLES, 2)), np.empty(len(kept)), np.empty(len(kept))
    anchor, phase = database.phases.anchor, database.phase
    for e, way in enumerate(kept):
        poses = np.concatenate([np.arange(a, b) for a, b in way_poses(database, transitions, ways, int(way))])
        own = relative(roots[poses], anchor[phase[poses]])[:, :2]
        at = np.linspace(0, len(own) - 1, SAMPLES).round().astype(np.int64)
        paths[e] = own[at]
        arcs[e] = np.linalg.norm(np.diff(own, axis=0), axis=1).sum()
        seconds[e] = len(own) / database.rate_hz
    return paths, arcs, seconds


def _events(database: Database, phases: IntArray) -> tuple[FloatArray, IntArray]:
    """Hands ``(N, 3)`` [m] of picks in the anchor's frame, and events ``(N,)``."""
    hands, events = np.zeros((len(phases), 3)), np.zeros(len(phases), dtype=np.int64)
    points = contact_points(database.body.skeleton)
    for n, phase in enumerate(phases):
        planted = database.classes[database.phases.kind[phase]]
        picked = [name for name in planted if name.startswith(PICKED)]
        events[n] = NO_EVENT if planted else FLIGHT
        if picked:
            pose = int(database.phases.start[phase])
            hand = picked[0].removeprefix(PICKED)
            events[n] = PICK_LEFT if hand.startswith("left") else PICK_RIGHT
            body, wxyz = database.body.skeleton, database.wxyz[pose : pose + 1]
            positions, frames = joint_frames(body, database.roots[pose : pose + 1], wxyz)
            at = points.positions(positions, frames)[0, points.index(hand)]
            x, z, _ = relative(np.array([at[0], at[2], 0.0]), database.phases.anchor[phase])
            hands[n] = x, at[1], z
    return hands, events


def _flights(database: Database, ways: Ways, kept: IntArray) -> FloatArray:
    """Length over the ground and rise of the root [m] of ways that are flights ``(E, 2)``."""
    found = np.zeros((len(kept), 2))
    table = database.phases
    for e, way in enumerate(kept):
        phase = ways.source[way]
        if not database.classes[table.kind[phase]]:
            own = database.roots[table.start[phase] : table.stop[phase]]
            found[e] = np.hypot(*(own[-1] - own[0])[[0, 2]]), own[:, 1].max() - own[0, 1]
    return found
