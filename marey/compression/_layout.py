"""What belongs together in a body: points that a joint answers for, numbers that foretell one another."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.compression._joints import BALL, FIXED, FREE, WIDTHS
from marey.skeleton import Skeleton

LINKS: Final = 8  # as the compiled predictor has
MIN_LEVER_M: Final = 0.05  # joints of one parent this near to one another move alike (a thumb and a hand)
CHILD_WEIGHT: Final = 0.65  # weight of points behind a joint that cannot make up for all errors; by trial
SAME_POSITION_M: Final = 1e-6


def build_point_table(skeleton: Skeleton, kinds: IntArray) -> tuple[IntArray, FloatArray, IntArray]:
    """Joints ``(M,)`` that each joint answers for, their weights ``(M,)`` and the first of each joint ``(J + 1,)``.

    A joint answers for its children. A child that does not turn freely cannot make up for the errors of its parent in
    every direction, so the parent answers for what lies behind it too.
    """
    points: list[int] = []
    weights: list[float] = []
    starts = [0]
    children = [skeleton.children(j).tolist() for j in range(skeleton.num_joints)]
    for j in range(skeleton.num_joints):
        ahead = [(c, 1.0) for c in reversed(children[j])]
        while ahead:
            child, weight = ahead.pop()
            if np.linalg.norm(skeleton.offsets[child]) > SAME_POSITION_M:
                points.append(child)
                weights.append(weight)
            if kinds[child] not in (BALL, FREE):
                behind = weight * (1.0 if kinds[child] == FIXED else CHILD_WEIGHT)
                ahead.extend((c, behind) for c in reversed(children[child]))
        starts.append(len(points))
    return np.array(points, dtype=np.int64), np.array(weights), np.array(starts, dtype=np.int64)


def build_link_table(skeleton: Skeleton, kinds: IntArray) -> IntArray:
    """Numbers ``(n, LINKS)`` coded earlier in a frame whose surprises foretell each number; -1 fills up.

    They are the earlier numbers of the same joint, those of a sibling at the same place, and those of the joints above.
    """
    widths = np.array(WIDTHS)[kinds]
    starts = 3 + np.concatenate([[0], np.cumsum(widths)])
    table = np.full((starts[-1], LINKS), -1, dtype=np.int64)
    table[1, 0], table[2, :2] = 0, (0, 1)
    for j in range(skeleton.num_joints):
        around = [*_sibling_links(skeleton, widths, starts, j), *_ancestor_links(skeleton, starts, j)]
        for k in range(widths[j]):
            chosen = [*range(starts[j], starts[j] + k), *around][:LINKS]
            table[starts[j] + k, : len(chosen)] = chosen
    return table


def _sibling_links(skeleton: Skeleton, widths: IntArray, starts: IntArray, j: int) -> range:
    for other in range(j - 1, 0, -1):
        gap = np.linalg.norm(skeleton.offsets[other] - skeleton.offsets[j])
        if skeleton.parents[other] == skeleton.parents[j] and widths[other] and gap < MIN_LEVER_M:
            return range(starts[other], starts[other + 1])
    return range(0)


def _ancestor_links(skeleton: Skeleton, starts: IntArray, j: int) -> list[int]:
    if j == 0:
        return [0, 1, 2]
    found: list[int] = []
    above = skeleton.parents[j]
    while above >= 0 and len(found) < 3:
        found.extend(range(starts[above], starts[above + 1]))
        above = skeleton.parents[above]
    return found


def compute_reach(skeleton: Skeleton, shell_m: float) -> FloatArray:
    """Length ``(J,)`` [m] of the longest stretch that a joint can move, at least ``shell_m``."""
    reach = np.full(skeleton.num_joints, shell_m)
    for j in range(skeleton.num_joints - 1, 0, -1):
        parent = skeleton.parents[j]
        reach[parent] = max(reach[parent], float(np.linalg.norm(skeleton.offsets[j])) + reach[j])
    return reach
