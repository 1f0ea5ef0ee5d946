"""From a method's name to its compiled solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import InputError, UnknownNameError
from marey.kinematics._ik_clips import (
    ALLOWED_RAD,
    START_DAMPING,
    Clip,
    Guess,
    Outcome,
    Run,
    follow_limited,
    follow_newton,
    follow_walled,
    full_space,
    one_frame,
    relative_damping,
)
from marey.kinematics._ik_layout import COM, Box
from marey.kinematics._limits import JointLimits
from marey.kinematics._limits_box import BoxLimits
from marey.kinematics._limits_tables import BOX, FREE, Bounds
from marey.lie import SO3

if TYPE_CHECKING:
    from marey.kinematics._solvers_space_kernels import Space


Method = Callable[[Run, Guess], Outcome]


def projected_lm(run: Run, guess: Guess) -> Outcome:
    """Levenberg-Marquardt with an active set: on boxes, on what projections tell of other limits, or by walls."""
    if run.space is not None:
        if run.problem.bounds is not None and run.problem.bounds.kind != FREE:
            return _walled(run, guess, run.space, run.problem.bounds)
        from marey.kinematics._solvers_newton_kernels import MARQUARDT

        return _newton(run, guess, MARQUARDT, relative_damping(run))
    if run.limits is not None:
        return _projected(run, guess, run.limits)
    if run.problem.bounds is not None and run.problem.bounds.kind > BOX:
        return _limited(run, guess, run.problem.bounds)
    from marey.kinematics._ik_kernels import solve_flat

    solve: Callable[..., tuple[int, int, int, float, float]] = solve_flat
    p = run.problem
    ended = solve(
        *p.flat,
        run.targets,
        run.active,
        guess.root,
        guess.wxyz,
        run.errors,
        run.max_iterations,
        p.seek_optimum,
        START_DAMPING,
        run.history,
    )
    return Outcome(*ended)


def _limited(run: Run, guess: Guess, bounds: Bounds) -> Outcome:
    clip = one_frame(run, guess)
    tries = follow_limited(run, guess, bounds, run.targets[None], run.active[None], clip)
    return _first(run, clip, tries)


def _walled(run: Run, guess: Guess, space: Space, bounds: Bounds) -> Outcome:
    clip = one_frame(run, guess)
    tries = follow_walled(run, guess, space, bounds, run.targets[None], run.active[None], clip)
    found = _first(run, clip, tries)
    if clip.counts[0, 4] <= ALLOWED_RAD:
        return found
    more = _limited(run, guess, bounds)
    spent, tries = found.iterations + more.iterations, found.evaluations + more.evaluations
    return more._replace(iterations=spent, evaluations=tries, is_left=True)


def _first(run: Run, clip: Clip, tries: int) -> Outcome:
    stop, count, cost, gradient = clip.counts[0, :4].tolist()
    run.errors[:] = clip.errors[0]
    return Outcome(int(stop), int(count), tries, cost, gradient)


def _projected(run: Run, guess: Guess, limits: JointLimits) -> Outcome:
    """Levenberg-Marquardt whose every step is projected by limits that only Python knows."""
    from marey.kinematics._ik_kernels import MAX_DAMPING, OUT_OF_ITERATIONS, REACHED, STATIONARY, propose, rate

    p, errors = run.problem, run.errors
    guess.wxyz[:] = limits.project_rotations(SO3(guess.wxyz[None])).wxyz[0]
    cost, is_reached = rate(p.layout, run.targets, run.active, guess.root, guess.wxyz, errors)
    damping, stop, count, gradient = START_DAMPING * cost, OUT_OF_ITERATIONS, 0, 0.0
    while count < run.max_iterations and (p.seek_optimum or not is_reached):
        count += 1
        root, wxyz, gradient = propose(p.layout, run.targets, run.active, guess.root, guess.wxyz, damping)
        wxyz = np.array(limits.project_rotations(SO3(wxyz[None])).wxyz[0])
        new_cost, new_reached = rate(p.layout, run.targets, run.active, root, wxyz, errors)
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
    cost, is_reached = rate(p.layout, run.targets, run.active, guess.root, guess.wxyz, errors)
    held = float(limits.violations(SO3(guess.wxyz[None])).max()) if stop == STATIONARY else 0.0
    stop = REACHED if is_reached and (stop == STATIONARY or not p.seek_optimum) else stop
    return Outcome(stop, count, count + 1, cost, 0.0 if stop == STATIONARY and held <= 1e-6 else gradient)


def _newton(run: Run, guess: Guess, code: int, option: float) -> Outcome:
    clip = one_frame(run, guess)
    tries = follow_newton(run, guess, (code, option), run.targets[None], run.active[None], clip)
    return _first(run, clip, tries)


def _gradient(run: Run, guess: Guess, code: int, option: float) -> Outcome:
    from marey.kinematics._solvers_gradient_kernels import solve_gradient

    p = run.problem
    return Outcome(
        *solve_gradient(
            p.layout,
            full_space(run),
            run.targets,
            run.active,
            guess.root,
            guess.wxyz,
            guess.x,
            run.errors,
            run.max_iterations,
            p.seek_optimum,
            code,
            option,
            p.unit_m,
            run.history,
        )
    )


def pg_armijo(run: Run, guess: Guess) -> Outcome:
    """Projected gradient with Armijo back-tracking, from a Barzilai-Borwein ("bb") or a unit step ("unit")."""
    from marey.kinematics._solvers_gradient_kernels import PG_BB, PG_UNIT

    return _gradient(run, guess, _variant(run, {"bb": PG_BB, "unit": PG_UNIT}), 0.0)


def projected_cg(run: Run, guess: Guess) -> Outcome:
    """Projected conjugate gradients, Polak-Ribiere with restarts."""
    from marey.kinematics._solvers_gradient_kernels import CONJUGATE

    return _gradient(run, guess, CONJUGATE, 0.0)


def projected_dogleg(run: Run, guess: Guess) -> Outcome:
    """Powell's dogleg in a trust region, steps projected."""
    from marey.kinematics._solvers_newton_kernels import DOGLEG

    return _newton(run, guess, DOGLEG, 0.0)


def pseudo_inverse(run: Run, guess: Guess) -> Outcome:
    """Gauss-Newton with the truncated pseudo-inverse; each pose is clamped."""
    from marey.kinematics._solvers_newton_kernels import PSEUDO_INVERSE

    _check_plain(run, "pseudo-inverse")
    return _newton(run, guess, PSEUDO_INVERSE, 0.0)


def dls(run: Run, guess: Guess) -> Outcome:
    """Damped least squares with a constant damping; each pose is clamped."""
    from marey.kinematics._solvers_newton_kernels import DLS

    return _newton(run, guess, DLS, 0.3 * run.problem.unit_m if run.step is None else run.step)


def svd_clamp(run: Run, guess: Guess) -> Outcome:
    """Truncated pseudo-inverse that ignores limits, then one projection of its answer (Blender's way)."""
    from marey.kinematics._ik_kernels import STATIONARY, rate
    from marey.kinematics._solvers_newton_kernels import SVD_CLAMP

    _check_plain(run, "svd-clamp")
    p = run.problem
    box = p.layout.box
    loose = replace(run, problem=p.with_box(_open(box)))
    stop, count, tries, cost, gradient, _ = _newton(loose, guess, SVD_CLAMP, 0.0)
    if box.boxed.any():
        limits = BoxLimits(p.skeleton, box.low, box.high)
        guess.wxyz[:] = limits.project_rotations(SO3(guess.wxyz[None])).wxyz[0]
        cost, is_reached = rate(p.layout, run.targets, run.active, guess.root, guess.wxyz, run.errors)
        stop, gradient = (stop, gradient) if is_reached else (STATIONARY, np.inf)
    return Outcome(stop, count, tries, cost, gradient)


def jacobian_transpose(run: Run, guess: Guess) -> Outcome:
    """Jacobian transpose: "fixed" steps, those of "buss", or the shortened inverse steps of "meredith-maddock"."""
    from marey.kinematics._solvers_gradient_kernels import TRANSPOSE_BUSS, TRANSPOSE_FIXED
    from marey.kinematics._solvers_newton_kernels import MEREDITH_MADDOCK

    choice = _variant(run, {"fixed": 0, "buss": 1, "meredith-maddock": 2})
    if choice == 2:
        _check_plain(run, "meredith-maddock")
        return _newton(run, guess, MEREDITH_MADDOCK, 1e-3 if run.step is None else run.step)
    step = 0.005 if run.step is None else run.step
    return _gradient(run, guess, TRANSPOSE_BUSS if choice else TRANSPOSE_FIXED, step)


def ccd(run: Run, guess: Guess) -> Outcome:
    """Cyclic coordinate descent, tips to root."""
    from marey.kinematics._solvers_ccd_kernels import solve_ccd

    _check_plain(run, "ccd")
    if run.space is not None or (run.problem.layout.blocks.kinds == COM).any():
        raise InputError("ccd turns joints one by one", "Give it a skeleton, not a model, and no ComTask")
    p = run.problem
    return Outcome(
        *solve_ccd(
            p.layout, run.targets, run.active, guess.root, guess.wxyz, run.errors, run.max_iterations, run.history
        )
    )


METHODS: Final[dict[str, tuple[Method, int]]] = {
    "projected-lm": (projected_lm, 1000),
    "pg-armijo": (pg_armijo, 2000),
    "projected-cg": (projected_cg, 2000),
    "projected-dogleg": (projected_dogleg, 200),
    "pseudo-inverse": (pseudo_inverse, 100),
    "dls": (dls, 300),
    "svd-clamp": (svd_clamp, 100),
    "jacobian-transpose": (jacobian_transpose, 5000),
    "ccd": (ccd, 500),
}


def method_named(name: str) -> tuple[Method, int]:
    """The solver of that name, and how many iterations it is given by default.

    Raises:
        UnknownNameError: there is no such method.
    """
    if name in METHODS:
        return METHODS[name]
    if name == "two-bone":
        from marey.kinematics._solvers_limb import two_bone

        return two_bone, 1
    raise UnknownNameError("method", name, "inverse kinematics", (*METHODS, "two-bone"))


def _variant(run: Run, known: dict[str, int]) -> int:
    name = run.variant or next(iter(known))
    if name not in known:
        raise UnknownNameError("variant", name, "this method", known)
    return known[name]


def _check_plain(run: Run, method: str) -> None:
    if run.problem.layout.springs.stiffness.any() or (run.space is not None and run.space.stiffness.any()):
        raise InputError(f"'{method}' takes no PoseTask", "Use 'projected-lm', 'dls' or a gradient method")


def _open(box: Box) -> Box:
    return Box(np.zeros_like(box.boxed), np.full_like(box.low, -np.inf), np.full_like(box.high, np.inf))
