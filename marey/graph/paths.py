"""Paths through the graph: what a search answers, and blends of two edges.

A step of a path is one edge or a blend of two: what it costs, how long it takes, where it leads, and which states may
be blended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, Result
from marey.blending import BlendSettings, BlendSource, blend_sources
from marey.graph.arrays import EMPTY, GraphArrays
from marey.graph.database.clips import Database
from marey.graph.database.compact import median_step_cost
from marey.graph.database.events import PICKED_PREFIX
from marey.graph.database.pose_metric import PoseMetric
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import contact_points, joint_frames

if TYPE_CHECKING:
    from marey.graph.motion_graph import MotionGraph


OPTIMAL: Final = "OPTIMAL"
BOUNDED: Final = "BOUNDED"


@dataclass(frozen=True, slots=True, eq=False)
class SearchSolution:
    """One solution on the way to the best."""

    epsilon: float  # asked for
    proved: float  # cost is at most this times the best
    cost: float
    expansions: int
    seconds: float
    k: int = 1  # motions that are blended
    places: FloatArray = field(default_factory=lambda: np.zeros((0, 2)), repr=False)  # (n, 2) [m] root along the path
    result: SearchResult | None = field(default=None, repr=False)  # to rebuild a motion from; None in a history


@dataclass(frozen=True, slots=True, eq=False)
class PathStep:
    """One edge of a way, or two that are blended."""

    edge: int
    other: int  # the same as ``edge`` if nothing is blended
    weight: float  # of ``edge``; 1 - weight of ``other``
    place: FloatArray  # (3,) anchor at its start: x, z [m], yaw [rad]
    hold_s: float = 0.0  # [s] for which the pose at its end is held
    stretches: tuple[tuple[int, int], ...] = ()  # poses shown instead of the edge's own, if it had to be replaced
    warp: tuple[float, ...] = (0.0, 0.0, 0.0)  # x, z [m], yaw [rad] by which the body is carried besides

    @property
    def is_blended(self) -> bool:
        """Whether two edges are blended."""
        return self.edge != self.other

    @property
    def is_warped(self) -> bool:
        """Whether the body turns, or goes farther or less far, over its planted foot than in the clip."""
        return any(self.warp)


@dataclass(frozen=True, eq=False)
class SearchResult(Result):
    """A path through the graph, or the reason why there is none."""

    status: str  # "OPTIMAL", "BOUNDED", or a code: why there is nothing
    steps: tuple[PathStep, ...] = ()
    places: FloatArray = field(default_factory=lambda: np.zeros((0, 3)))  # (len(steps) + 1, 3) anchors
    start: int = EMPTY  # state of the graph
    cost: float = np.inf
    epsilon: float = np.inf  # cost is at most this times the best
    expansions: int = 0
    seconds: float = 0.0
    history: tuple[SearchSolution, ...] = ()
    found_errors: tuple[float, ...] = ()  # [m] at which the search has met each constraint, the goal last
    met: tuple[int, ...] = ()  # step at whose end each constraint was met
    violations: int = 0  # of consistency, counted while expanding
    stopped: str = ""  # what ended the search before its end: "TIMEOUT", "CANCELLED", "MEMORY"
    advice: str = ""
    tolerance_m: float = np.inf  # of hands and pinned roots in the final motion
    rebuild: Callable[[SearchResult], tuple[Motion, tuple[float, ...]]] | None = None

    @property
    def is_solved(self) -> bool:
        """Whether there is a way."""
        return bool(self.steps)

    @property
    def edges(self) -> tuple[int, ...]:
        """Edges of the path; of a blend the one with the greater weight."""
        return tuple(step.edge if step.weight >= 0.5 else step.other for step in self.steps)

    @cached_property
    def motion(self) -> Motion | None:
        """The motion of the path, rebuilt at first access; None without a path."""
        return None if self._final is None else self._final[0]

    @cached_property
    def errors(self) -> tuple[float, ...]:
        """Distance [m] at which each constraint is met, the goal last.

        As found by the search; where that is more than was asked for, since arm and spine do the rest, of the motion.
        """
        if max(self.found_errors[:-1] or self.found_errors, default=0.0) <= self.tolerance_m or self._final is None:
            return self.found_errors
        return self._final[1]

    @cached_property
    def _final(self) -> tuple[Motion, tuple[float, ...]] | None:
        return self.rebuild(self) if self.is_solved and self.rebuild is not None else None

    def __repr__(self) -> str:
        if not self.is_solved:
            return f"SearchResult({self.status}: {self.advice})"
        return (
            f"SearchResult({self.status}, {len(self.steps)} steps, cost {self.cost:.4g} <= {self.epsilon:.3g} best, "
            f"{self.expansions} expansions, {self.seconds:.2f} s)"
        )


MAX_EVENT_EDGES: Final = 3  # edges: states so near to an event have the wider limit
UP: Final = np.array([0.0, 1.0, 0.0])
TWO_PI: Final = 2.0 * np.pi


def _weighted_mean(first: FloatArray, second: FloatArray, weights: FloatArray) -> FloatArray:
    """Means ``(M, W, ...)`` of rows ``(M, ...)``, the first with each of the weights."""
    w = np.asarray(weights, dtype=np.float64).reshape(1, -1, *(1,) * (first.ndim - 1))
    return w * first[:, None] + (1.0 - w) * second[:, None]


def blended_seconds(graph: MotionGraph, first: IntArray, second: IntArray, weights: FloatArray) -> FloatArray:
    r"""Durations ``(M, W)`` [s] of blended edges, :math:`T^2 = w T_1^2 + (1 - w) T_2^2` ([Safonova2006]_ (4.2)).

    Args:
        graph: the graph.
        first: edges ``(M,)`` with weight w.
        second: edges ``(M,)`` with weight 1 - w.
        weights: ``(W,)``.
    """
    T = graph.arrays.seconds
    return np.sqrt(_weighted_mean((T * T)[first], (T * T)[second], weights))


def blended_costs(graph: MotionGraph, first: IntArray, second: IntArray, weights: FloatArray) -> FloatArray:
    r"""Costs ``(M, W)`` of blended edges, quadratic in the weight but for the duration.

    .. math:: c(w) = T(w)\,\big(c_t + w^2 n_1 + 2 w (1-w) \sqrt{n_1 n_2}\,u_1^T u_2 + (1-w)^2 n_2\big)
              + w\,t_1 + (1-w)\,t_2

    :math:`n` is effort per second, :math:`u` the direction of the torques of an edge, :math:`c_t` the price of time and
    :math:`t` that of transitions. Torques are taken as linear in the weight, as accelerations are under the square-root
    rule ([Safonova2006]_ App. B). With w = 0 and w = 1 these are the costs of the edges.
    """
    arrays, time = graph.arrays, graph.settings.effort_per_s
    n1, n2 = (np.maximum(arrays.power[e] - time, 0.0)[:, None] for e in (first, second))
    likeness = (arrays.torque[first] * arrays.torque[second]).sum(axis=1)[:, None]
    w = np.asarray(weights, dtype=np.float64)[None]
    effort = w * w * n1 + 2.0 * w * (1.0 - w) * np.sqrt(n1 * n2) * likeness + (1.0 - w) ** 2 * n2
    seconds = blended_seconds(graph, first, second, weights)
    price = _weighted_mean(arrays.price[first], arrays.price[second], weights)
    return seconds * (time + np.maximum(effort, 0.0)) + price


def blended_deltas(graph: MotionGraph, first: IntArray, second: IntArray, weights: FloatArray) -> FloatArray:
    """Next anchors ``(M, W, 3)`` of blended edges: x, z [m], yaw [rad]; both sources stand on one anchor."""
    a, b = graph.arrays.delta[first], graph.arrays.delta[second].copy()
    b[:, 2] = a[:, 2] + (b[:, 2] - a[:, 2] + np.pi) % TWO_PI - np.pi
    return _weighted_mean(a, b, weights)


def blended_paths(graph: MotionGraph, first: IntArray, second: IntArray, weights: FloatArray) -> FloatArray:
    """Places of the root ``(M, W, SAMPLES, 2)`` [m] along blended edges, in the frame of the anchor."""
    return _weighted_mean(graph.arrays.path[first], graph.arrays.path[second], weights)


def blended_flights(graph: MotionGraph, first: IntArray, second: IntArray, weights: FloatArray) -> FloatArray:
    """Lengths and rises ``(M, W, 2)`` [m] of blended flights; zero where one of the two is none.

    Both are linear in the weight: centres of mass are blended, and squares of durations ([Safonova2006]_ §5.2).
    """
    a, b = graph.arrays.flight[first], graph.arrays.flight[second]
    both = ((a[:, 0] > 0.0) & (b[:, 0] > 0.0))[:, None, None]
    return np.where(both, _weighted_mean(a, b, weights), 0.0)


def blended_hands(graph: MotionGraph, first: IntArray, second: IntArray, weights: FloatArray) -> FloatArray:
    """Hands ``(M, W, 3)`` [m] at blended picks: x, height, z in the frame of the anchor, of the blended pose itself.

    Args:
        graph: the graph.
        first: pick states ``(M,)`` with weight w.
        second: pick states ``(M,)`` of the same class, with weight 1 - w.
        weights: ``(W,)``.
    """
    found = np.zeros((len(first), len(weights), 3))
    kinds = graph.arrays.kind[first]
    for kind in np.unique(kinds):
        own = np.flatnonzero(kinds == kind)
        planted = graph.database.classes[int(kind)]
        hand = next(name.removeprefix(PICKED_PREFIX) for name in planted if name.startswith(PICKED_PREFIX))
        several = np.concatenate([own, own[-1:]])  # a source has two frames at least
        # First poses of both lists of states as sources whose frames are the pairs; all anchors stand at the origin
        starts = graph.database.phases.start
        a, b = (
            anchored_source(graph.database, starts[[graph.members[int(s)][0] for s in states[several]]], planted)
            for states in (first, second)
        )
        yaw = a.yaw - TWO_PI * np.round(a.yaw / TWO_PI)
        sources = replace(a, yaw=yaw), replace(b, yaw=b.yaw - TWO_PI * np.round((b.yaw - yaw) / TWO_PI))
        for number, weight in enumerate(weights):
            # Each frame of the sources is one pick; the first source has weight w
            shares = np.linspace(0.0, 1.0, len(sources[0].roots))
            pair = np.array([float(weight), 1.0 - float(weight)])
            poses = blend_sources(
                sources, pair, shares, planted_feet(planted), rule=BlendSettings(), body=graph.database.body
            )
            points = contact_points(graph.database.body.skeleton)
            positions, frames = joint_frames(graph.database.body.skeleton, poses.roots, poses.wxyz)
            found[own, number] = points.positions(positions, frames)[:, points.index(hand)][:-1]
    return found


def anchored_source(database: Database, poses: IntArray, planted: tuple[str, ...]) -> BlendSource:
    """Poses of the database as a source, each with the anchor of its phase at the origin."""
    anchor = database.phases.anchor[database.phase[poses]]
    R = SO3.exp(-anchor[:, 2:] * UP)
    here = np.stack([anchor[:, 0], 0.0 * anchor[:, 0], anchor[:, 1]], axis=1)
    wxyz = database.wxyz[poses].copy()
    wxyz[:, 0] = (R @ SO3(wxyz[:, 0])).wxyz
    motion = Motion(database.body.skeleton, database.rate_hz, R @ (database.roots[poses] - here), SO3(wxyz))
    return BlendSource.from_motion(motion, database.body, planted_feet(planted))


def planted_feet(planted: tuple[str, ...]) -> tuple[str, ...]:
    """Planted feet of a class, without hands and events."""
    return tuple(name for name in planted if name in ("left", "right"))


@dataclass(frozen=True, slots=True, eq=False)
class BlendPartners:
    """Which states may be blended with which: state s with ``partner[first[s]:first[s + 1]]``, sorted, itself too."""

    first: IntArray  # (N + 1,)
    partner: IntArray  # (M,)
    is_near: BoolArray  # (N,) an event is at most NEAR edges ahead or behind

    def of(self, state: int) -> IntArray:
        """Partners of a state."""
        return self.partner[self.first[state] : self.first[state + 1]]

    def matrix(self) -> BoolArray:
        """Whether two states may be blended ``(N, N)``."""
        count = len(self.first) - 1
        found = np.zeros((count, count), dtype=bool)
        found[np.repeat(np.arange(count), np.diff(self.first)), self.partner] = True
        return found


def state_distances(graph: MotionGraph, metric: PoseMetric | None = None) -> FloatArray:
    """Squared distances ``(N, N)`` of the first poses of states; infinite where contacts differ."""
    kind = graph.arrays.kind
    metric = PoseMetric(graph.database, graph.settings) if metric is None else metric
    poses = graph.database.phases.start[np.array([own[0] for own in graph.members])]
    found = np.full((graph.num_states, graph.num_states), np.inf)
    for one in np.unique(kind):
        own = np.flatnonzero(kind == one)
        D = metric.between(poses[own], poses[own])
        found[np.ix_(own, own)] = np.maximum(0.5 * (D + D.T), 0.0)
    np.fill_diagonal(found, 0.0)
    return found


def gap_cost_per_distance(graph: MotionGraph) -> float:
    """Cost of a gap between two poses, for each unit of their squared distance: that of gaps between merged states."""
    step = median_step_cost(graph.database, graph.settings)
    return graph.settings.transition_weight * step / graph.transitions.scale


def find_partners(graph: MotionGraph, distance: FloatArray | None = None) -> BlendPartners:
    """States of one class whose first poses are alike enough to be blended.

    The limit is ``pair_limit`` thresholds, near an event ``event_pair_limit``; picks of one hand and class are always
    partners, for what they are blended for is that they differ.
    """
    settings, arrays = graph.settings, graph.arrays
    D = state_distances(graph) if distance is None else distance
    near = states_near_events(arrays, MAX_EVENT_EDGES)
    limit = np.where(near[:, None] & near[None], settings.event_pair_limit, settings.pair_limit)
    picks = np.array([any(name.startswith(PICKED_PREFIX) for name in planted) for planted in graph.database.classes])
    good = (limit * graph.transitions.threshold >= D) | (picks[arrays.kind][:, None] & np.isfinite(D))
    np.fill_diagonal(good, val=True)
    state, partner = np.nonzero(good)
    return BlendPartners(np.searchsorted(state, np.arange(graph.num_states + 1)), partner, near)


def states_near_events(arrays: GraphArrays, edges: int) -> BoolArray:
    """States ``(N,)`` from which a pick or a flight is at most ``edges`` edges away, ahead or behind."""
    source = arrays.source
    ahead = behind = (arrays.event > 0) & (arrays.event < 4)
    for _ in range(edges):
        ahead, behind = ahead.copy(), behind.copy()
        ahead[source[ahead[arrays.target]]] = True
        behind[arrays.target[behind[source]]] = True
    return ahead | behind
