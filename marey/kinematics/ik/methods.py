"""From a method's name to its compiled solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import InputError, UnknownNameError
from marey.kinematics.ik.baselines.analytic_limb import solve_two_bone_tasks
from marey.kinematics.ik.baselines.cyclic_descent import solve_ccd
from marey.kinematics.ik.baselines.projected_gradient import (
    CONJUGATE,
    PG_BB,
    PG_UNIT,
    TRANSPOSE_BUSS,
    TRANSPOSE_FIXED,
    GradientStep,
    solve_gradient,
)
from marey.kinematics.ik.calls import (
    START_DAMPING,
    Guess,
    SolverInputs,
    SolverOutcome,
    allocate_clip,
    full_pose_space,
    select_bounds,
    solve_clip_dense,
    solve_dual_pose,
)
from marey.kinematics.ik.dense_step import DLS, DOGLEG, MARQUARDT, MEREDITH_MADDOCK, PSEUDO_INVERSE, SVD_CLAMP
from marey.kinematics.ik.levenberg_marquardt import ALLOWED_RAD, MAX_DAMPING, StopRule, propose_step
from marey.kinematics.ik.state import (
    COM,
    OUT_OF_ITERATIONS,
    REACHED,
    STATIONARY,
    Goals,
    PoseArrays,
    RotationVectorBox,
    evaluate_goals,
)
from marey.kinematics.limits.box import BoxLimits
from marey.kinematics.limits.tables import Bounds
from marey.lie import SO3

Method = Callable[[SolverInputs, Guess], SolverOutcome]


def solve_projected_lm(run: SolverInputs, guess: Guess) -> SolverOutcome:
    """Levenberg-Marquardt with an active set: boxes, projections of other limits, or penalties."""
    bounds = run.problem.bounds
    if run.space is not None:
        found, violation = _solve_dense(run, guess, MARQUARDT, None, bounds)
        if bounds is None or violation <= ALLOWED_RAD:
            return found
        # No pose of the model is inside the limits: go on in the full space
        more = solve_dual_pose(run, guess, bounds)
        spent, tries = found.iterations + more.iterations, found.evaluations + more.evaluations
        return more._replace(iterations=spent, evaluations=tries, is_left=True)
    if run.limits is not None:
        # Levenberg-Marquardt whose every step is projected by limits that only Python knows
        limits = run.limits
        p = run.problem
        guess.wxyz[:] = limits.project_rotations(SO3(guess.wxyz[None])).wxyz[0]
        cost, is_reached = evaluate_goals(p.layout, run.goals, run.pose_arrays(guess))
        damping, stop, count, gradient = START_DAMPING * cost, OUT_OF_ITERATIONS, 0, 0.0
        while count < run.max_iterations and (p.seek_optimum or not is_reached):
            count += 1
            root, wxyz, gradient = propose_step(p.layout, run.goals, run.pose_arrays(guess), damping)
            wxyz = np.array(limits.project_rotations(SO3(wxyz[None])).wxyz[0])
            new_cost, new_reached = evaluate_goals(p.layout, run.goals, PoseArrays(root, wxyz, guess.x, run.errors))
            change = max(np.abs(root - guess.root).max(), np.abs(wxyz - guess.wxyz).max())
            if new_cost < cost:
                is_still = cost - new_cost < 1e-9 * cost and change < 1e-6
                guess.root[:], guess.wxyz[:], cost, is_reached = root, wxyz, new_cost, new_reached
                damping *= 0.3
                run.history[count - 1 : count, 0] = cost  # nowhere, when no history is kept
            else:
                is_still = change < 1e-10
                damping *= 8.0
            if is_still or damping > MAX_DAMPING:
                stop = STATIONARY
                break
        cost, is_reached = evaluate_goals(p.layout, run.goals, run.pose_arrays(guess))
        held = float(limits.violations(SO3(guess.wxyz[None])).max()) if stop == STATIONARY else 0.0
        stop = REACHED if is_reached and (stop == STATIONARY or not p.seek_optimum) else stop
        return SolverOutcome(stop, count, count + 1, cost, 0.0 if stop == STATIONARY and held <= 1e-6 else gradient)
    return solve_dual_pose(run, guess, select_bounds(bounds))


def _solve_dense(
    run: SolverInputs, guess: Guess, method: int, option: float | None = 0.0, bounds: Bounds | None = None
) -> tuple[SolverOutcome, float]:
    """One frame by dense steps; also how far it is outside the bounds [rad]."""
    clip = allocate_clip(1, len(guess.wxyz), len(guess.x), len(run.errors))
    goals = Goals(run.targets[None], run.active[None])
    solve_clip_dense(run, guess, goals, clip, bounds=bounds, method=method, option=option)
    stop, count, tries = int(clip.stops[0]), int(clip.iterations[0]), int(clip.evaluations[0])
    ended = SolverOutcome(stop, count, tries, float(clip.objectives[0]), float(clip.gradients[0]))
    return ended, float(clip.violations[0])


def _solve_gradient(run: SolverInputs, guess: Guess, code: int, option: float) -> SolverOutcome:
    p = run.problem
    stop, way = StopRule(run.max_iterations, p.seek_optimum), GradientStep(full_pose_space(run), code, option, p.unit_m)
    return SolverOutcome(*solve_gradient(p.layout, way, run.goals, run.pose_arrays(guess), stop, run.history))


def solve_projected_gradient(run: SolverInputs, guess: Guess) -> SolverOutcome:
    """Projected gradient with Armijo back-tracking, from a Barzilai-Borwein ("bb") or a unit step ("unit")."""
    return _solve_gradient(run, guess, _check_variant(run, {"bb": PG_BB, "unit": PG_UNIT}), 0.0)


def solve_conjugate_gradient(run: SolverInputs, guess: Guess) -> SolverOutcome:
    """Projected conjugate gradients, Polak-Ribiere with restarts."""
    return _solve_gradient(run, guess, CONJUGATE, 0.0)


def solve_dogleg(run: SolverInputs, guess: Guess) -> SolverOutcome:
    """Powell's dogleg in a trust region, steps projected."""
    return _solve_dense(run, guess, DOGLEG)[0]


def solve_pseudo_inverse(run: SolverInputs, guess: Guess) -> SolverOutcome:
    """Gauss-Newton with the truncated pseudo-inverse; each pose is clamped."""
    _check_without_limits(run, "pseudo-inverse")
    return _solve_dense(run, guess, PSEUDO_INVERSE)[0]


def solve_damped_least_squares(run: SolverInputs, guess: Guess) -> SolverOutcome:
    """Damped least squares with a constant damping; each pose is clamped."""
    return _solve_dense(run, guess, DLS, 0.3 * run.problem.unit_m if run.step is None else run.step)[0]


def solve_svd_clamp(run: SolverInputs, guess: Guess) -> SolverOutcome:
    """Truncated pseudo-inverse that ignores limits, then one projection of its answer (Blender's way)."""
    _check_without_limits(run, "svd-clamp")
    p = run.problem
    box = p.layout.box
    loose = replace(
        run,
        problem=p.with_box(
            RotationVectorBox(np.zeros_like(box.boxed), np.full_like(box.low, -np.inf), np.full_like(box.high, np.inf))
        ),
    )
    stop, count, tries, cost, gradient, _ = _solve_dense(loose, guess, SVD_CLAMP)[0]
    if box.boxed.any():
        limits = BoxLimits(p.skeleton, box.low, box.high)
        guess.wxyz[:] = limits.project_rotations(SO3(guess.wxyz[None])).wxyz[0]
        cost, is_reached = evaluate_goals(p.layout, run.goals, run.pose_arrays(guess))
        stop, gradient = (stop, gradient) if is_reached else (STATIONARY, np.inf)
    return SolverOutcome(stop, count, tries, cost, gradient)


def solve_jacobian_transpose(run: SolverInputs, guess: Guess) -> SolverOutcome:
    """Jacobian transpose: "fixed" steps, those of "buss", or the shortened inverse steps of "meredith-maddock"."""
    choice = _check_variant(run, {"fixed": 0, "buss": 1, "meredith-maddock": 2})
    if choice == 2:
        _check_without_limits(run, "meredith-maddock")
        return _solve_dense(run, guess, MEREDITH_MADDOCK, 1e-3 if run.step is None else run.step)[0]
    step = 0.005 if run.step is None else run.step
    return _solve_gradient(run, guess, TRANSPOSE_BUSS if choice else TRANSPOSE_FIXED, step)


def solve_coordinate_descent(run: SolverInputs, guess: Guess) -> SolverOutcome:
    """Cyclic coordinate descent, tips to root."""
    _check_without_limits(run, "ccd")
    if run.space is not None or (run.problem.layout.blocks.kinds == COM).any():
        raise InputError("ccd turns joints one by one", "Give it a skeleton, not a model, and no ComTask")
    p = run.problem
    return SolverOutcome(*solve_ccd(p.layout, run.goals, run.pose_arrays(guess), run.max_iterations, run.history))


METHODS: Final[dict[str, tuple[Method, int]]] = {
    "projected-lm": (solve_projected_lm, 1000),
    "pg-armijo": (solve_projected_gradient, 2000),
    "projected-cg": (solve_conjugate_gradient, 2000),
    "projected-dogleg": (solve_dogleg, 200),
    "pseudo-inverse": (solve_pseudo_inverse, 100),
    "dls": (solve_damped_least_squares, 300),
    "svd-clamp": (solve_svd_clamp, 100),
    "jacobian-transpose": (solve_jacobian_transpose, 5000),
    "ccd": (solve_coordinate_descent, 500),
}


def find_method(name: str) -> tuple[Method, int]:
    """The solver of that name, and how many iterations it is given by default.

    Raises:
        UnknownNameError: there is no such method.
    """
    if name in METHODS:
        return METHODS[name]
    if name == "two-bone":
        return solve_two_bone_tasks, 1
    raise UnknownNameError("method", name, "inverse kinematics", (*METHODS, "two-bone"))


def _check_variant(run: SolverInputs, known: dict[str, int]) -> int:
    name = run.variant or next(iter(known))
    if name not in known:
        raise UnknownNameError("variant", name, "this method", known)
    return known[name]


def _check_without_limits(run: SolverInputs, method: str) -> None:
    if run.problem.layout.springs.stiffness.any() or (run.space is not None and run.space.stiffness.any()):
        raise InputError(f"'{method}' takes no PoseTask", "Use 'projected-lm', 'dls' or a gradient method")
