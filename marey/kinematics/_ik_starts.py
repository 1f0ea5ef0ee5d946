"""Other places to begin when the first start leads nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from marey.kinematics._ik_clips import Guess, SolverInputs
from marey.kinematics._ik_layout import COM, POINT
from marey.kinematics._ik_space import PosedBody, guess_from_pose
from marey.kinematics._limits import JointLimits
from marey.lie import SO3
from marey.skeleton import joint_positions

SPREAD_RAD: Final = 0.4  # [rad] standard deviation of the joints in a random start
RESTART_SPRING: Final = 0.03  # [-] pull towards no turn: a walk whose legs swing is not turned round
SEED: Final = 20110317  # one sequence for all calls: same input, same answer


def generate_restarts(run: SolverInputs, body: PosedBody, limits: JointLimits | None, count: int) -> Iterator[Guess]:
    """First a pose turned and shifted as a whole towards its goals, then random ones around it.

    It is the rest pose, the mean of a model, or the middle of limits: at a bound, a straight knee say, a descent may
    stay where it is.
    """
    rng = np.random.default_rng(SEED)
    middle = None if limits is None or body.model is not None else limits.middle().wxyz
    for i in range(count):
        guess = guess_from_pose(body, None)
        if middle is not None:
            is_free = run.problem.layout.springs.mobility[1:-1] > 0.0
            guess.wxyz[1:][is_free] = middle[1:][is_free]
        if i > 0 and len(guess.x):
            guess.x[:] = rng.normal(0.0, 1.0, len(guess.x)) * np.asarray(body.model.deviations if body.model else 1.0)
        elif i > 0:
            turns = rng.normal(0.0, SPREAD_RAD, (len(guess.wxyz), 3)) * (
                run.problem.layout.springs.mobility[:-1, None] > 0.0
            )
            guess.wxyz[:] = (SO3(guess.wxyz) @ SO3.exp(turns)).wxyz
        align_root(run, guess)
        yield guess


def align_root(run: SolverInputs, guess: Guess) -> None:
    """Turn and shift the root so that the points lie nearest to their targets (Kabsch), as far as it may move."""
    layout = run.problem.layout
    rows = np.flatnonzero((layout.blocks.kinds == POINT) & run.active)
    if layout.springs.mobility[-1] == 0.0 or not len(rows) or (layout.blocks.kinds == COM).all():
        return
    skeleton = run.problem.skeleton
    places = joint_positions(skeleton, guess.root[None], guess.wxyz[None])[0][layout.blocks.joints[rows]]
    goals = run.targets[rows, :3]
    middle, aim = places.mean(axis=0), goals.mean(axis=0)
    if layout.springs.mobility[0] > 0.0 and len(rows) >= 3:
        spread = (goals - aim).T @ (places - middle)
        size = float(np.linalg.norm(goals - aim) * np.linalg.norm(places - middle))
        u, _, vt = np.linalg.svd(spread + RESTART_SPRING * size * np.eye(3))
        flip = np.diag([1.0, 1.0, float(np.sign(np.linalg.det(u @ vt)))])
        R = u @ flip @ vt
        guess.wxyz[0] = (SO3.from_matrix(R) @ SO3(guess.wxyz[0])).wxyz
        guess.root[:] = aim + R @ (guess.root - middle)
    else:
        guess.root[:] += aim - middle
