"""Weights of blends, after the search: no longer on its grid, but where the hand comes nearest to its object."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray
from marey.graph._ara import compose_planar, to_frame
from marey.graph._pairs import blended_deltas, blended_hands
from marey.graph._search_result import PathStep, SearchResult

if TYPE_CHECKING:
    from marey.graph._graph import MotionGraph

WEIGHT_SPAN: Final = 1.0 / 9.0  # [-] a weight stays within one step of the search's grid
NUM_TRIED: Final = 45  # weights looked at; a hand moves by less than a millimetre from one to the next
MAX_SHIFT_M: Final = 0.02  # [m] by which later footsteps may move: corridors are searched with more room than that
MAX_TURN_RAD: Final = 0.02


def refine_weights(graph: MotionGraph, result: SearchResult, targets: dict[int, FloatArray]) -> SearchResult:
    """Move the weights of blended picks so that hands come as near to their targets as the blends can bring them.

    The steps of one blend keep one weight. All that follows is carried along, by 2 cm at most ([Safonova2006]_ F35).

    Args:
        graph: that was searched.
        result: of the search.
        targets: point (3,) [m] for the hand at the end of each of some steps.
    """
    for step, target in sorted(targets.items()):
        run = _blended_run(result.steps, step)
        if run is not None:
            result = _refine_run_weight(graph, result, step, run, target)
    return result


def _blended_run(steps: tuple[PathStep, ...], step: int) -> range | None:
    """Steps around one that are blended with its weight or, where the pair is swapped, with what is left of it."""
    weight = steps[step].weight
    if not steps[step].is_blended:
        return None
    alike = [s.is_blended and abs(min(s.weight, 1.0 - s.weight) - min(weight, 1.0 - weight)) < 1e-9 for s in steps]
    first, last = step, step
    while first > 0 and alike[first - 1]:
        first -= 1
    while last + 1 < len(steps) and alike[last + 1]:
        last += 1
    return range(first, last + 1)


def _refine_run_weight(
    graph: MotionGraph, result: SearchResult, step: int, run: range, target: FloatArray
) -> SearchResult:
    steps = result.steps
    weight = steps[step].weight
    tried = np.clip(weight + WEIGHT_SPAN * np.linspace(-1.0, 1.0, NUM_TRIED), 0.0, 1.0)
    anchors = _anchors(graph, steps, run, weight, tried)
    own = np.array([graph.arrays.target[steps[step].edge]]), np.array([graph.arrays.target[steps[step].other]])
    hands = blended_hands(graph, *own, tried)[0]
    at = anchors[step - run.start + 1]
    places = compose_planar(at, np.stack([hands[:, 0], hands[:, 2], 0.0 * tried], axis=1))
    away = np.linalg.norm(np.stack([places[:, 0], hands[:, 1], places[:, 1]], axis=1) - target, axis=1)
    shift = anchors[-1] - result.places[run.stop]
    turn = np.abs((shift[:, 2] + np.pi) % (2.0 * np.pi) - np.pi)
    far = (np.hypot(shift[:, 0], shift[:, 1]) > MAX_SHIFT_M) | (turn > MAX_TURN_RAD)
    best = int(np.argmin(np.where(far, np.inf, away)))
    return _with_weight(graph, result, run, float(tried[best]) - weight, weight)


def _anchors(
    graph: MotionGraph, steps: tuple[PathStep, ...], run: range, weight: float, tried: FloatArray
) -> FloatArray:
    """Anchors ``(len(run) + 1, T, 3)`` from the start of a run to its end, at each weight tried."""
    found = [np.tile(steps[run.start].place, (len(tried), 1))]
    for number in run:
        step = steps[number]
        weights = step.weight + _weight_sign(step, weight) * (tried - weight)
        delta = blended_deltas(graph, np.array([step.edge]), np.array([step.other]), weights)[0]
        found.append(compose_planar(found[-1], delta))
    return np.stack(found)


def _weight_sign(step: PathStep, weight: float) -> float:
    """Whether a step of the run has the weight itself, or what is left of it."""
    return 1.0 if abs(step.weight - weight) < 1e-9 else -1.0


def _with_weight(graph: MotionGraph, result: SearchResult, run: range, change: float, weight: float) -> SearchResult:
    """The way with other weights in a run, and what follows carried along."""
    steps, places, at = list(result.steps), result.places.copy(), result.places[run.start]
    for number in run:
        step = steps[number]
        steps[number] = replace(step, weight=step.weight + _weight_sign(step, weight) * change, place=at)
        w = np.array([steps[number].weight])
        at = compose_planar(at, blended_deltas(graph, np.array([step.edge]), np.array([step.other]), w)[0, 0])
        places[number + 1] = at
    moved = _carry_positions(result.places[run.stop :], at)
    places[run.stop :] = moved
    for number in range(run.stop, len(steps)):
        steps[number] = replace(steps[number], place=moved[number - run.stop])
    return replace(result, steps=tuple(steps), places=places)


def _carry_positions(places: FloatArray, first: FloatArray) -> FloatArray:
    """Places ``(n, 3)``, all carried with the first one, which is now elsewhere."""
    return compose_planar(first, to_frame(places, places[0]))
