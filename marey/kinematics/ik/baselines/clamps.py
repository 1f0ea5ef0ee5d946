"""Clamps of a step, modifiers of every method: of its rate, and of the distance of the goals ([Engell2012]_ §4.2)."""

from __future__ import annotations

import numpy as np

from marey.base import InputError
from marey.kinematics.ik.methods import find_method
from marey.kinematics.ik.posing.continuation import interpolate_pose, measure_turns
from marey.kinematics.ik.posing.recheck import measure_blocks
from marey.kinematics.ik.problem import Guess, SolverInputs, SolverOutcome
from marey.kinematics.ik.starts import PosedBody
from marey.kinematics.ik.state import COM, OUT_OF_ITERATIONS, POINT, REACHED, STATIONARY

STILL = 1e-7  # [rad] an iteration that turns no joint by more is the last


def solve_clamped(
    run: SolverInputs, guess: Guess, method: str, body: PosedBody, rate_rad: float | None, goal_m: float | None
) -> SolverOutcome:
    r"""One iteration of a method after another, :math:`\|e_j\| \le D_{max}` and no joint beyond its rate.

    A goal farther than ``goal_m`` [m] from its point is taken at that distance; an iteration that turns a joint by more
    than ``rate_rad`` [rad] is shortened as a whole.

    Raises:
        InputError: a clamp that is not positive.
    """
    for name, clamp in (("rate_clamp_rad", rate_rad), ("goal_clamp_m", goal_m)):
        if clamp is not None and not clamp > 0.0:
            raise InputError(f"{name} is {clamp:g}", "Give a positive number, or None for no clamp")
    solver, kinds = find_method(method)[0], run.problem.layout.blocks.kinds
    tries, outcome = 0, SolverOutcome(OUT_OF_ITERATIONS, 0, 0, 0.0, 0.0)
    for count in range(1, run.max_iterations + 1):
        here = measure_blocks(run.problem, run.targets[None], run.active[None], guess.root[None], guess.wxyz[None])
        if (here.sizes[0] <= run.problem.layout.blocks.tolerances).all():
            return outcome._replace(stop=REACHED, iterations=count - 1, evaluations=tries)
        targets = run.targets.copy()
        for b in np.flatnonzero(((kinds == POINT) | (kinds == COM)) & (here.sizes[0] > (goal_m or np.inf))):
            place, size = here.places[0, b], float(here.sizes[0, b])
            targets[b, :3] = place + (goal_m or 0.0) / size * (targets[b, :3] - place)
        step, there = run._replace(targets=targets, max_iterations=1), guess.copy()
        outcome = solver(step, there, method)
        tries += outcome.evaluations
        turn = float(measure_turns(guess, there).max())
        if rate_rad is not None and turn > rate_rad:
            interpolate_pose(guess, there, rate_rad / turn, body)
        is_still = turn < STILL and float(np.abs(there.root - guess.root).max()) < STILL
        guess.assign(there)
        if is_still:
            return outcome._replace(stop=STATIONARY, iterations=count, evaluations=tries)
    return outcome._replace(stop=OUT_OF_ITERATIONS, iterations=run.max_iterations, evaluations=tries)
