"""First guess of a tracked clip: poses and headings tried in key frames, and the smoothest way through the best."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.lie import SO3
from marey.tracking.prior_problem import PriorProblem, PriorState

KEY_S: Final = 0.25  # [s] between key frames: few motions change their way within it
MIN_POINTS: Final = 4  # a frame with fewer says too little
NUM_HEADINGS: Final = 12
POSE_SIGMA: Final = 1.2  # [-] poses tried: the mean, and this far along each of the first modes
NUM_MODES: Final = 2
TILTS: Final = np.array(
    [(0.0, 0.0, 0.0), (1.5, 0.0, 0.0), (-1.5, 0.0, 0.0), (3.0, 0.0, 0.0), (0.0, 0.0, 1.5), (0.0, 0.0, -1.5)]
)
GOOD_COST: Final = 3.0  # [-] a point, the prior counted in: what poses cost that explain a frame
FIRST_STEPS, LAST_STEPS, NUM_KEPT = 6, 15, 8
SAME_M: Final = 0.05  # [m] poses whose points are nearer on average are one
SPEEDS: Final = (3.0, 3.0, 4.0)  # [m/s], [rad/s], [1/s] of root, its turn, and a coordinate in standard deviations


def is_searchable(problem: PriorProblem) -> bool:
    """Whether any frame shows enough points."""
    return bool(((problem.trust > 0.0).sum(axis=1) >= MIN_POINTS).any())


def search_starts(problem: PriorProblem) -> PriorState:
    """Guess all frames of a clip from what is seen alone.

    In each key frame, poses in several headings are solved on their own. One of the best of each is chosen so that
    their costs and the way between them are least (dynamic programming); frames between are interpolated.

    Raises:
        InputError: no frame shows enough points.
    """
    counts = (problem.trust > 0.0).sum(axis=1)
    if not is_searchable(problem):
        raise InputError(f"no frame shows {MIN_POINTS} points", "Give detections of more points, or a start")
    stride, frames = max(1, round(KEY_S * problem.rate_hz)), list[int]()
    for first in range(0, problem.num_frames, stride):
        best = first + int(np.argmax(counts[first : first + stride]))
        if counts[best] >= MIN_POINTS:
            frames.append(best)
    kept = [solve_key_frame(problem, frame) for frame in frames]
    # Viterbi over what was kept
    totals, backs = kept[0][1], list[np.ndarray]()
    for (f, g), (before, _), (after, costs) in zip(pairwise(frames), kept[:-1], kept[1:], strict=True):
        ways = totals[:, None] + measure_ways(problem, before, after, (g - f) / problem.rate_hz)
        backs.append(np.argmin(ways, axis=0))
        totals = ways.min(axis=0) + costs
    chosen = [int(np.argmin(totals))]
    for back in reversed(backs):
        chosen.append(int(back[chosen[-1]]))
    keys = PriorState.join([state[i : i + 1] for (state, _), i in zip(kept, reversed(chosen), strict=True)])
    # Frames between are interpolated, those outside are as the nearest
    places = np.interp(np.arange(problem.num_frames), frames, np.arange(len(frames)))
    low = np.minimum(places.astype(np.int64), max(len(frames) - 2, 0))
    high, share = np.minimum(low + 1, len(frames) - 1), (places - low)[:, None]
    turns = (keys.turns[low].inverse() @ keys.turns[high]).log()
    return PriorState(
        (1.0 - share) * keys.roots[low] + share * keys.roots[high],
        keys.turns[low] @ SO3.exp(share * turns),
        (1.0 - share) * keys.x[low] + share * keys.x[high],
    )


def measure_ways(problem: PriorProblem, before: PriorState, after: PriorState, seconds: float) -> FloatArray:
    """Cost ``(A, B)`` of going from each of A poses to each of B, as a random walk."""
    root, turn, mode = (seconds * speed for speed in SPEEDS)
    away = np.square((after.roots[None] - before.roots[:, None]) / root).sum(axis=-1)
    pairs = np.repeat(np.arange(len(before.x)), len(after.x)), np.tile(np.arange(len(after.x)), len(before.x))
    turns = (before.turns[pairs[0]].inverse() @ after.turns[pairs[1]]).log().reshape(*away.shape, 3)
    steps = (after.x[None] - before.x[:, None]) / (mode * problem.deviations)
    return away + np.square(turns / turn).sum(axis=-1) + np.square(steps).sum(axis=-1)


def solve_key_frame(problem: PriorProblem, frame: int) -> tuple[PriorState, FloatArray]:
    """Solve one frame from many starts; return the best answers and their costs."""
    # Poses times headings; lying, bent over and upside down too if nobody upright explains what is seen
    modes = min(NUM_MODES, len(problem.deviations))
    poses = np.zeros((1 + 2 * modes, len(problem.deviations)))
    for m in range(modes):
        poses[1 + 2 * m, m], poses[2 + 2 * m, m] = np.array([POSE_SIGMA, -POSE_SIGMA]) * problem.deviations[m]
    headings = SO3.exp(2.0 * np.pi / NUM_HEADINGS * np.arange(NUM_HEADINGS)[:, None] * np.array([0.0, 1.0, 0.0]))
    found = list[tuple[PriorState, FloatArray]]()
    for tilts in (TILTS[:1], TILTS[1:]):
        turns = SO3.concatenate([headings @ SO3.exp(tilt) for tilt in tilts for _ in poses])
        x = np.tile(np.repeat(poses, NUM_HEADINGS, axis=0), (len(tilts), 1))
        state = PriorState(np.zeros((len(x), 3)), turns, x)
        state = PriorState(place_roots(problem, state, frame), turns, x)
        # All a few steps, the best to their end
        state, costs = solve_rows(problem.choose_frames(np.full(len(x), frame)), state, FIRST_STEPS)
        best = choose_distinct(problem, state, costs, 2 * NUM_KEPT)
        found.append(solve_rows(problem.choose_frames(np.full(len(best), frame)), state[best], LAST_STEPS))
        if found[-1][1].min() < GOOD_COST * np.count_nonzero(problem.trust[frame]):
            break
    state, costs = PriorState.join([one for one, _ in found]), np.concatenate([costs for _, costs in found])
    kept = choose_distinct(problem, state, costs, NUM_KEPT)
    return state[kept], costs[kept]


def choose_distinct(problem: PriorProblem, state: PriorState, costs: FloatArray, count: int) -> IntArray:
    """Choose the cheapest poses of which no two have their points within ``SAME_M`` of each other."""
    points, kept = problem.place_points(state), list[int]()
    for i in np.argsort(costs).tolist():
        gaps = np.linalg.norm(points[kept] - points[i], axis=-1).mean(axis=-1)
        if len(kept) < count and (gaps > SAME_M).all():
            kept.append(i)
    return np.array(kept)


def place_roots(problem: PriorProblem, state: PriorState, frame: int) -> FloatArray:
    r"""Places ``(C, 3)`` [m] of the root that bring the points of each pose nearest to what is seen.

    A point :math:`p_k + t` is seen at :math:`(u, v)` if :math:`f\,r\cdot(p_k + t - c) = u\,d\cdot(p_k + t - c)`, which
    is linear in t; likewise for v with the upward axis.
    """
    seen, points = problem.seen_points, problem.place_points(state)
    rows, sides = list[FloatArray](), list[FloatArray]()
    for k in np.flatnonzero(problem.trust[frame] > 0.0).tolist():
        c, target = int(seen.cameras[k]), seen.targets[frame, k]
        if c < 0:
            rows.extend(np.eye(3))
            sides.extend((target - points[:, k]).T)
            continue
        right, up, forward = seen.axes[c]
        u, v = (target[:2] - seen.centres_px[c]) / seen.focals_px[c]
        for row in (right - u * forward, up + v * forward):
            rows.append(row)
            sides.append((seen.positions[c] - points[:, k]) @ row)
    return np.asarray(np.linalg.lstsq(np.array(rows), np.array(sides), rcond=None)[0].T, dtype=np.float64)


def solve_rows(problem: PriorProblem, state: PriorState, max_steps: int) -> tuple[PriorState, FloatArray]:
    """Levenberg-Marquardt on poses that have nothing to do with each other, each with its own damping."""
    damping = np.full(len(state.x), 1e-2)
    blocks, g, costs = problem.linearise(state)
    diagonal = np.arange(int(blocks.shape[1]))
    for _ in range(max_steps):
        damped = blocks.copy()
        damped[:, diagonal, diagonal] *= 1.0 + damping[:, None]
        delta = np.asarray(np.linalg.solve(damped, g[..., None])[..., 0], dtype=np.float64)
        tried = state.step(problem, delta)
        new_blocks, new_g, new_costs = problem.linearise(tried)
        better = new_costs < costs
        mask = better[:, None]
        state = PriorState(
            np.where(mask, tried.roots, state.roots),
            SO3(np.where(mask, tried.turns.wxyz, state.turns.wxyz)),
            np.where(mask, tried.x, state.x),
        )
        blocks, g = np.where(mask[..., None], new_blocks, blocks), np.where(mask, new_g, g)
        costs, damping = np.where(better, new_costs, costs), np.where(better, 0.3 * damping, 8.0 * damping)
    return state, costs
