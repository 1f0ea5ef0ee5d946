"""Quasi-Newton baselines under boxes: the active set of Zhao and Badler, and projected BFGS, which need not descend."""

from __future__ import annotations

import numpy as np

from marey.base import InputError
from marey.kinematics.ik.joint_types import TypedBody
from marey.kinematics.ik.problem import Guess, SolverInputs, SolverOutcome
from marey.kinematics.ik.state import OUT_OF_ITERATIONS, REACHED, STATIONARY

ARMIJO_DECREASE, BACKTRACK_FACTOR, MIN_STEP = 1e-4, 0.5, 1e-8  # [-] of the slope, of the length, floor of the length
FLAT = 1e-9  # [-] a projected gradient below this part of 1 + objective is zero


def solve_quasi_newton(run: SolverInputs, guess: Guess, method: str) -> SolverOutcome:
    r"""Minimise f = e^T W e by BFGS under bounds on rotation vectors; rows of the history end with the fallbacks.

    ``"active-set-qn"``: the direction is that of the free coordinates, and the step ends at the first bound that it
    meets, which becomes active ([Engell2012]_ §3, after Zhao and Badler). ``"projected-bfgs"``: the step
    :math:`P(\theta - \tau H g)`. A projected quasi-Newton direction may lead up ([Engell2012]_ §3); then the
    slope is taken instead, and counted.

    Raises:
        InputError: in the space of a model, or with a pose task.
    """
    p = run.problem
    if run.space is not None or p.layout.springs.stiffness.any():
        raise InputError(f"'{method}' works on a skeleton, without PoseTask", "Use 'projected-lm'")
    body = TypedBody(p.skeleton, {}, guess.root, guess.wxyz, p.layout.springs.mobility, p.layout.box)
    z, low, high = body.start.copy(), body.low, body.high
    e, r, columns = body.linearise(p, run.targets, run.active, z)
    cost, g, inverse = float(r @ r), -2.0 * columns.T @ r, np.eye(len(z))
    e_new, r_new = e, r
    stop, tries, fallbacks, slope, count = OUT_OF_ITERATIONS, 1, 0, 0.0, 0
    for count in range(run.max_iterations + 1):
        if (np.sqrt((e**2).sum(axis=1)) <= p.layout.blocks.tolerances).all():
            stop = REACHED
            break
        free = (low < high) & ~((z <= low) & (g > 0.0)) & ~((z >= high) & (g < 0.0))
        slope = float(np.abs(g[free]).max(initial=1e-300))
        if slope < FLAT * (1.0 + cost) or count == run.max_iterations:
            stop = STATIONARY if slope < FLAT * (1.0 + cost) else stop
            break
        # The direction: of the free coordinates alone, or of all of them and projected
        d = -inverse @ np.where(free, g, 0.0) if method == "active-set-qn" else -inverse @ g
        if method == "active-set-qn":
            d[~free] = 0.0
        trial = np.clip(z + d, low, high)
        is_down = d @ g < 0.0 if method == "active-set-qn" else (trial - z) @ g < 0.0
        if not is_down:
            d, fallbacks, inverse = np.where(free, -g, 0.0), fallbacks + 1, np.eye(len(z))
        if method == "active-set-qn":
            # Length of the step at which the first coordinate meets a bound
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(d > 0.0, (high - z) / d, np.where(d < 0.0, (low - z) / d, np.inf))
            ahead = room[np.isfinite(room) & (room > 0.0)]
            longest = float(ahead.min(initial=np.inf))
        else:
            longest = 1.0
        length, found = min(1.0, longest), False
        while length >= MIN_STEP:
            trial = np.clip(z + length * d, low, high)
            e_new, r_new, columns = body.linearise(p, run.targets, run.active, trial)
            tries += 1
            if float(r_new @ r_new) < cost + ARMIJO_DECREASE * float(g @ (trial - z)):
                found = True
                break
            length *= BACKTRACK_FACTOR
        if not found:
            if (np.eye(len(z)) == inverse).all():
                stop = STATIONARY
                break
            inverse = np.eye(len(z))
            continue
        # BFGS update of the inverse, where the curvature is positive
        g_new = -2.0 * columns.T @ r_new
        s, y = trial - z, g_new - g
        if s @ y > 1e-12 * float(np.linalg.norm(s) * np.linalg.norm(y)):
            inverse = (s @ y) / (y @ y) * np.eye(len(z)) if count == 0 else inverse
            V = np.eye(len(z)) - np.outer(s, y) / (s @ y)
            inverse = V @ inverse @ V.T + np.outer(s, s) / (s @ y)
        z, e, cost, g = trial, e_new, float(r_new @ r_new), g_new
        run.history[count : count + 1] = (cost, slope, length, fallbacks)  # nowhere, when no history is kept
    pose = body.pose(z)
    guess.root[:], guess.wxyz[:], run.errors[:] = pose.root, pose.wxyz, e
    return SolverOutcome(stop, count, tries, cost, slope)
