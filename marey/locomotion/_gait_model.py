"""The hierarchical model of gaits, multiplied out into the arrays that the engine runs on."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.locomotion._model import EVENTS, GAITS, GaitArrays
from marey.models import HierarchicalModel

NUM_SPEEDS: Final = 36
SPEED_POWER: Final = 1.6  # of the grid of speeds: denser near standing, where frequency rises as a root
NUM_SCORES: Final = 2  # a line in speed, and what is left of standing


def speed_grid(fastest: float) -> FloatArray:
    """Normalised speeds ``(G,)`` [1/s] of the tables, from zero."""
    return fastest * np.linspace(0.0, 1.0, NUM_SPEEDS) ** SPEED_POWER


def expand_gait_arrays(
    tree: HierarchicalModel,
    standing: FloatArray,
    means: FloatArray,
    limits: FloatArray,
    *,
    num_frames: int,
    heights: FloatArray | None = None,
) -> GaitArrays:
    r"""Multiply a tree out.

    A law that is a line above the slowest speed and a root below needs two directions, however many components a leaf
    has: with the line :math:`\theta(s) = b + a s` and the standing unit :math:`\theta_0`,

    .. math:: \theta = b + A_0\,a + A_1\,(\theta_0 - b), \qquad
              A = (s, 0)\ (s \ge s_w), \quad A = (s_w x, 1 - x),\ x = (s/s_w)^m\ (s < s_w)

    Args:
        tree: the fitted model; every person has both gaits.
        standing: ``(K, D)`` row of each person at rest; the components hold it but for their truncation, it is exact.
        means: ``(J, 4)`` wxyz.
        limits: ``(2,)`` [1/s] fastest walk and run.
        num_frames: of a unit.
        heights: ``(K, 2, N)`` over leg length: correction of the root's height in runs, level and per speed, by which
            flights fall freely.
    """
    people = tuple(tree.people)
    columns = standing.shape[1]
    shape = (len(people), len(GAITS))
    base = np.zeros((*shape, num_frames, columns))
    lift = np.zeros((*shape, NUM_SCORES, num_frames, columns))
    slowest = np.zeros(shape)
    power = 0.0
    collapsed = tree.collapse()
    for k, person in enumerate(people):
        for t, gait in enumerate(GAITS):
            law = tree.people[person].leaves[gait].law
            lifting = collapsed.lifts[person, gait]
            line = collapsed.bases[person, gait] + law.offset @ lifting
            base[k, t] = line.reshape(num_frames, columns)
            lift[k, t, 0] = (law.slope @ lifting).reshape(num_frames, columns)
            if heights is not None and gait == "run":
                base[k, t, :, 1] += heights[k, 0]
                lift[k, t, 0, :, 1] += heights[k, 1]
            lift[k, t, 1] = standing[k] - base[k, t]
            slowest[k, t], power = law.slowest, law.power
    rest = np.broadcast_to([0.0, 1.0], (*shape, NUM_SCORES)).copy()
    slope = np.broadcast_to([1.0, 0.0], (*shape, NUM_SCORES)).copy()
    speeds = speed_grid(float(limits.max()))
    return GaitArrays(
        base, lift, rest, slope, np.zeros((*shape, NUM_SCORES)), slowest, power,
        np.ones(shape, dtype=np.bool_), speeds, np.zeros((*shape, len(speeds))),
        np.zeros((*shape, len(speeds), len(EVENTS))), means, limits,
    )  # fmt: skip
