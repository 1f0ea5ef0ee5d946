"""Footsteps of a way, moved by a few centimetres after the search so that a pick is where its object is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray
from marey.graph._ara import compose_planar
from marey.graph._pairs import blended_hands
from marey.graph._search_result import SearchResult
from marey.numerics import smoothstep

if TYPE_CHECKING:
    from marey.graph._graph import MotionGraph

MAX_FOOTSTEP_SHIFT_M: Final = 0.03  # [m] by which footsteps move: corridors are searched with more room than that
MAX_FOOTSTEP_ROTATION_RAD: Final = 0.1  # [rad] and turn
MAX_SHIFT_PER_M: Final = 0.05  # [-] of the way in which they do


@dataclass(frozen=True, slots=True, eq=False)
class PickTarget:
    """Where a hand shall be at the end of a step, and the root, if it is pinned."""

    hand: FloatArray  # (3,) [m]
    root: FloatArray | None = None  # (2,) [m] x, z


def refine_footsteps(
    graph: MotionGraph, result: SearchResult, aims: dict[int, PickTarget], *, most_m: float = MAX_FOOTSTEP_SHIFT_M
) -> SearchResult:
    """Move footsteps so that hands are over their objects, as far as that is no more than ``most_m``.

    What is missing at the pick is spread over the way since the last constraint, and taken back until the next: a few
    millimetres for each step ([Safonova2006]_ F35).
    """
    marks = [0, *(step + 1 for step in result.met)]
    for step, aim in sorted(aims.items()):
        before = max(mark for mark in marks if mark <= step)
        after = min((mark for mark in marks if mark > step + 1), default=len(result.places) - 1)
        result = _move_footsteps(result, _pick_error(graph, result, step, aim), before, step + 1, after, most_m)
    return result


def hand_and_root(graph: MotionGraph, result: SearchResult, step: int) -> tuple[FloatArray, FloatArray]:
    """Hand (3,) and root (2,) [m] at the end of a step, as the search has them."""
    own, arrays = result.steps[step], graph.arrays
    a, c, w = int(arrays.target[own.edge]), int(arrays.target[own.other]), own.weight
    x, y, z = blended_hands(graph, np.array([a]), np.array([c]), np.array([w]))[0, 0]
    root = w * arrays.root[a] + (1.0 - w) * arrays.root[c]
    hand = compose_planar(result.places[step + 1], np.array([x, z, 0.0]))
    return np.array([hand[0], y, hand[1]]), compose_planar(result.places[step + 1], root)[:2]


def _pick_error(
    graph: MotionGraph, result: SearchResult, step: int, aim: PickTarget
) -> tuple[FloatArray, FloatArray, float]:
    """The hand (2,), what carries it to its aim (2,) [m], and the turn [rad] about it that brings the root to its pin.

    What hand and root are too near or too far from one another is shared by both.
    """
    hand, root = hand_and_root(graph, result, step)
    here, there = hand[[0, 2]], aim.hand[[0, 2]]
    if aim.root is None:
        return here, there - here, 0.0
    own, wanted = here - root, there - aim.root
    turn = float(np.arctan2(wanted[0], wanted[1]) - np.arctan2(own[0], own[1]))
    spare = float(np.linalg.norm(own) - np.linalg.norm(wanted))
    shared = 0.5 * spare * wanted / max(float(np.linalg.norm(wanted)), 1e-9)
    return here, there + shared - here, (turn + np.pi) % (2.0 * np.pi) - np.pi


def _move_footsteps(
    result: SearchResult,
    missing: tuple[FloatArray, FloatArray, float],
    before: int,
    pick: int,
    after: int,
    most_m: float,
) -> SearchResult:
    """Carry footsteps between two constraints, most at the pick between them."""
    pivot, shift, turn = missing
    steps = np.linalg.norm(np.diff(result.places[:, :2], axis=0), axis=1)
    share = np.zeros(len(result.places))
    for first, last, rises in ((before, pick, True), (pick, after, False)):
        gone = np.concatenate([[0.0], np.cumsum(steps[first:last])])
        part = smoothstep(gone / max(float(gone[-1]), 1e-9))
        share[first : last + 1] = part if rises else 1.0 - part
    most = min(most_m, MAX_SHIFT_PER_M * float(steps[before:pick].sum()))
    size = float(np.linalg.norm(shift))
    shift = shift * min(1.0, most / max(size, 1e-9))
    turn = float(np.clip(turn, -MAX_FOOTSTEP_ROTATION_RAD, MAX_FOOTSTEP_ROTATION_RAD))
    angle = share * turn
    c, s, away = np.cos(angle), np.sin(angle), result.places[:, :2] - pivot
    turned = np.stack([c * away[:, 0] + s * away[:, 1], -s * away[:, 0] + c * away[:, 1]], axis=1)
    places = np.column_stack([turned + pivot + share[:, None] * shift, result.places[:, 2] + angle])
    moved = tuple(replace(step, place=places[n]) for n, step in enumerate(result.steps))
    return replace(result, steps=moved, places=places)
