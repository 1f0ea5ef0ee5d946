"""Clustering of unlabelled units into gaits and subjects by their scores."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, FloatArray, InputError, IntArray, frozen

MAX_ROUNDS = 100  # k-means over a few hundred units settles in about ten
OUTLIER = 2.2  # [-] times the median distance to the median of a group


def k_means(points: ArrayLike, start: ArrayLike) -> IntArray:
    """Group ``(n,)`` of each point ``(n, d)``, from centres ``(g, d)`` to start with; deterministic."""
    x = frozen(points, None, None, name="points")
    centres = np.array(frozen(start, None, x.shape[1], name="start"))
    groups = np.full(len(x), -1)
    for _ in range(MAX_ROUNDS):
        nearest = np.argmin(((x[:, None] - centres) ** 2).sum(axis=-1), axis=1)
        if np.array_equal(nearest, groups):
            break
        groups = nearest
        for g in range(len(centres)):
            if np.any(groups == g):
                centres[g] = x[groups == g].mean(axis=0)
    return groups.astype(np.int64)


def sort_gaits(scores: ArrayLike, speeds: ArrayLike) -> tuple[str, ...]:
    """Call each unit a walk or a run: two groups of scores ``(n, d)``, the faster of which runs.

    The groups start at the two units that are farthest apart. [Glardon2005]_ §II.2.3.2.1.
    """
    x = frozen(scores, None, None, name="scores")
    s = frozen(speeds, len(x), name="speeds")
    if len(x) < 2:
        raise InputError(f"{len(x)} unit to sort into two gaits", "Give two at least")
    apart = ((x[:, None] - x) ** 2).sum(axis=-1)
    one, two = divmod(int(np.argmax(apart)), len(x))
    groups = k_means(x, x[[one, two]])
    means = [float(s[groups == g].mean()) if np.any(groups == g) else -np.inf for g in (0, 1)]
    run = int(np.argmax(means))
    return tuple("run" if group == run else "walk" for group in groups.tolist())


def sort_subjects(scores: ArrayLike, examples: Mapping[str, int]) -> tuple[str, ...]:
    """Name the subject of each unit from its scores ``(n, d)`` and one unit of each subject (name to row)."""
    x = frozen(scores, None, None, name="scores")
    if not examples or any(not 0 <= row < len(x) for row in examples.values()):
        raise InputError(f"examples {dict(examples)} among {len(x)} units", "Give one row of each subject")
    names = tuple(examples)
    groups = k_means(x, x[list(examples.values())])
    return tuple(names[int(group)] for group in groups)


def find_outliers(scores: ArrayLike) -> BoolArray:
    """Tell which units ``(n,)`` of one group lie far from its median: more than 2.2 times the median distance."""
    x: FloatArray = frozen(scores, None, None, name="scores")
    distances = np.linalg.norm(x - np.median(x, axis=0), axis=1)
    return distances > OUTLIER * np.median(distances)
