"""From a method's name to its compiled solver, for one pose or a clip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np

from marey.base import InputError, UnknownNameError, compile_at_once, is_interpreted
from marey.kinematics.ik.active_set import project_to_box
from marey.kinematics.ik.baselines.limbwise import solve_ccd, solve_two_bone_tasks
from marey.kinematics.ik.baselines.projected_gradient import (
    CONJUGATE,
    PG_BB,
    PG_UNIT,
    TRANSPOSE_BUSS,
    TRANSPOSE_FIXED,
    GradientStep,
    solve_gradient,
    solve_quasi_newton,
)
from marey.kinematics.ik.coordinates import ModelSpace
from marey.kinematics.ik.dense_step import DLS, DOGLEG, MARQUARDT, MEREDITH_MADDOCK, PSEUDO_INVERSE, SVD_CLAMP
from marey.kinematics.ik.levenberg_marquardt import (
    ALLOWED_RAD,
    MAX_DAMPING,
    DenseStep,
    StopRule,
    propose_step,
    solve_pose,
)
from marey.kinematics.ik.pace import ClipSolution, solve_dense_clip
from marey.kinematics.ik.problem import Guess, IKProblem, SolverInputs, SolverOutcome, build_box
from marey.kinematics.ik.state import (
    COM,
    OUT_OF_ITERATIONS,
    REACHED,
    STATIONARY,
    Goals,
    PoseArrays,
    evaluate_goals,
)
from marey.kinematics.limits.learn import ANATOMY, BOX, FREE, Bounds
from marey.lie import SO3

Method = Callable[[SolverInputs, Guess, str], SolverOutcome]  # the last is the name of the method

GRADIENT_STEPS: Final = {
    "pg-armijo": {"bb": PG_BB, "unit": PG_UNIT},
    "projected-cg": {"polak-ribiere": CONJUGATE},
    "jacobian-transpose": {"fixed": TRANSPOSE_FIXED, "buss": TRANSPOSE_BUSS, "meredith-maddock": MEREDITH_MADDOCK},
}
START_DAMPING: Final = 2e-2  # [-] of the objective; fewest iterations cold, 0.2 to 0.9 rad a joint away, and warm
REGION_ITERATIONS: Final = 40  # inside regions, whose borders move with the pose: it may step about for ever
INTERPRETED_ITERATIONS: Final = 60  # of a solver that is not compiled yet: about half a second
FIXED_STEP: Final = 0.005  # [-] of the Jacobian transpose, in mean bones
MEREDITH_MADDOCK_M: Final = 1e-3  # [m] tolerance of its shortened steps
DLS_DAMPING: Final = 0.3  # [-] in mean bones


def full_pose_space(run: SolverInputs) -> ModelSpace:
    """The space that a solver works in, as arrays."""
    joints = run.problem.skeleton.num_joints
    nothing = np.zeros(0)
    rows = np.zeros((joints, 4)), np.zeros((joints, 3, 0))
    return run.space or ModelSpace(
        False, 0, *rows, nothing, nothing, nothing, nothing, np.inf, 0.0, np.zeros((joints, 3))
    )


def select_bounds(problem: IKProblem) -> Bounds | None:
    """Limits that are not intervals of the layout, which holds boxes, and anatomical limits with regions as advice."""
    bounds = problem.bounds
    is_held = bounds is None or bounds.kind <= BOX or (bounds.kind == ANATOMY and problem.layout.box.boxed.any())
    return None if is_held else bounds


def solve_dual_pose(
    run: SolverInputs, guess: Guess, bounds: Bounds | None, keeps_regions: bool = False, loose_steps: int = 0
) -> SolverOutcome:
    """Solve one pose in the full space, under the boxes of the problem, and their regions, or under other limits."""
    count = min(run.max_iterations, REGION_ITERATIONS) if keeps_regions else run.max_iterations
    goals, dual, seek = (run.targets, run.active), (START_DAMPING, keeps_regions, loose_steps), run.problem.seek_optimum
    head = (run.problem.fields, bounds, goals)
    pose = (guess.root, guess.wxyz, guess.x, run.errors)
    if is_interpreted(solve_pose, *head, pose, (count, seek), dual, run.history) and count > INTERPRETED_ITERATIONS:
        # Python is too slow for many iterations: those that need more are compiled, and begin anew
        root, wxyz = guess.root.copy(), guess.wxyz.copy()
        stop = (INTERPRETED_ITERATIONS, seek)
        found: Any = cast(Any, solve_pose)(*head, (root, wxyz, guess.x, run.errors), stop, dual, run.history)
        if found[0] != OUT_OF_ITERATIONS:
            guess.root[:], guess.wxyz[:] = root, wxyz
            return SolverOutcome(*found[:5])
        compile_at_once()
    ended: Any = cast(Any, solve_pose)(*head, pose, (count, seek), dual, run.history)
    return SolverOutcome(*ended[:5])


def allocate_clip(run: SolverInputs, guess: Guess, frames: int) -> ClipSolution:
    """Room for the answers of F frames."""
    return ClipSolution(
        np.empty((frames, 3)),
        np.empty((frames, *guess.wxyz.shape)),
        np.empty((frames, len(guess.x))),
        np.zeros((frames, *run.errors.shape)),
        np.zeros(frames, dtype=np.int64),
        np.zeros(frames, dtype=np.int64),
        np.zeros(frames, dtype=np.int64),
        np.zeros(frames),
        np.zeros(frames),
        np.zeros(frames),
        np.zeros(frames, dtype=np.bool_),
        run.history,
    )


def solve_clip_dense(
    run: SolverInputs,
    guess: Guess,
    goals: Goals,
    clip: ClipSolution,
    *,
    bounds: Bounds | None = None,
    method: int = MARQUARDT,
    option: float | None = None,
) -> None:
    """Fill a clip by dense steps, Marquardt's by default, in the space of a model or in the full one."""
    p = run.problem
    option = float(run.variant == "marquardt") if option is None else option
    bounds = None if bounds is None or bounds.kind == FREE else bounds
    penalty = 0.0
    if bounds is not None:
        # The first weight [1/rad²]: a joint a radian outside counts like a goal missed by the body's own reach
        weights, rest = p.layout.blocks.weights, p.skeleton.rest_positions()
        reach = float(np.linalg.norm(rest - rest[0], axis=1).max())
        penalty = float(np.trace(weights, axis1=1, axis2=2).max(initial=1e-9)) / 3.0 * max(reach, 1e-3) ** 2
    dense = DenseStep(full_pose_space(run), method, option, penalty, run.metric)
    stop = StopRule(run.max_iterations, p.seek_optimum)
    solve_dense_clip(p.layout, bounds, dense, run.pace, goals, run.pose_arrays(guess), stop, clip)


def solve_projected_lm(run: SolverInputs, guess: Guess, method: str = "projected-lm") -> SolverOutcome:
    """Levenberg-Marquardt with an active set: boxes, projections of other limits, or penalties."""
    bounds = run.problem.bounds
    if run.space is None and run.limits is not None:
        # Levenberg-Marquardt whose every step is projected by limits that only Python knows
        p = run.problem
        guess.wxyz[:] = run.limits.project_rotations(SO3(guess.wxyz[None])).wxyz[0]
        cost, is_reached = evaluate_goals(p.layout, run.goals, run.pose_arrays(guess))
        damping, stop, count, gradient = START_DAMPING * cost, OUT_OF_ITERATIONS, 0, 0.0
        while count < run.max_iterations and (p.seek_optimum or not is_reached):
            count += 1
            # A step without limits, brought into them
            root, wxyz, gradient = propose_step(p.layout, run.goals, run.pose_arrays(guess), damping)
            wxyz = np.array(run.limits.project_rotations(SO3(wxyz[None])).wxyz[0])
            new_cost, new_reached = evaluate_goals(p.layout, run.goals, PoseArrays(root, wxyz, guess.x, run.errors))
            change = max(np.abs(root - guess.root).max(), np.abs(wxyz - guess.wxyz).max())
            # It is taken if it wins anything; if not, the next is shorter
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
        held = float(run.limits.violations(SO3(guess.wxyz[None])).max()) if stop == STATIONARY else 0.0
        stop = REACHED if is_reached and (stop == STATIONARY or not p.seek_optimum) else stop
        return SolverOutcome(stop, count, count + 1, cost, 0.0 if stop == STATIONARY and held <= 1e-6 else gradient)
    if run.space is None:
        return solve_dual_pose(run, guess, select_bounds(run.problem))
    found, violation = _solve_dense(run, guess, MARQUARDT, None, bounds)
    if bounds is None or violation <= ALLOWED_RAD:
        return found
    # No pose of the model is inside the limits: go on in the full space
    more = solve_dual_pose(run, guess, bounds)
    spent, tries = found.iterations + more.iterations, found.evaluations + more.evaluations
    return more._replace(iterations=spent, evaluations=tries, is_left=True)


def _solve_dense(
    run: SolverInputs, guess: Guess, code: int, option: float | None = 0.0, bounds: Bounds | None = None
) -> tuple[SolverOutcome, float]:
    """One frame by dense steps; also how far it is outside the bounds [rad]."""
    clip = allocate_clip(run, guess, 1)
    goals = Goals(run.targets[None], run.active[None])
    solve_clip_dense(run, guess, goals, clip, bounds=bounds, method=code, option=option)
    stop, count, tries = int(clip.stops[0]), int(clip.iterations[0]), int(clip.evaluations[0])
    ended = SolverOutcome(stop, count, tries, float(clip.objectives[0]), float(clip.gradients[0]))
    return ended, float(clip.violations[0])


def solve_first_order(run: SolverInputs, guess: Guess, method: str) -> SolverOutcome:
    """Projected gradient with Armijo back-tracking, conjugate gradients, or the Jacobian transpose."""
    known = GRADIENT_STEPS[method]
    name = (run.variant if method != "projected-cg" else None) or next(iter(known))
    if name not in known:
        raise UnknownNameError("variant", name, "this method", known)
    if name == "meredith-maddock":
        # Shortened steps of the inverse, which is dense
        _refuse_springs(run, name)
        return _solve_dense(run, guess, MEREDITH_MADDOCK, MEREDITH_MADDOCK_M if run.step is None else run.step)[0]
    length = 0.0
    if method == "jacobian-transpose":
        length = FIXED_STEP if run.step is None else run.step
    p = run.problem
    stop = StopRule(run.max_iterations, p.seek_optimum)
    way = GradientStep(full_pose_space(run), known[name], length, p.unit_m)
    return SolverOutcome(*solve_gradient(p.layout, way, run.goals, run.pose_arrays(guess), stop, run.history))


def solve_second_order(run: SolverInputs, guess: Guess, method: str) -> SolverOutcome:
    """Powell's dogleg, the truncated pseudo-inverse, or damped least squares; each pose is clamped."""
    if method == "projected-dogleg":
        return _solve_dense(run, guess, DOGLEG)[0]
    if method == "dls":
        return _solve_dense(run, guess, DLS, DLS_DAMPING * run.problem.unit_m if run.step is None else run.step)[0]
    _refuse_springs(run, method)
    return _solve_dense(run, guess, PSEUDO_INVERSE)[0]


def solve_svd_clamp(run: SolverInputs, guess: Guess, method: str) -> SolverOutcome:
    """Truncated pseudo-inverse that ignores limits, then one projection of its answer (Blender's way)."""
    _refuse_springs(run, method)
    p, box = run.problem, run.problem.layout.box
    loose = run._replace(problem=p.with_layout(p.layout._replace(box=build_box(p.skeleton, None))))
    stop, count, tries, cost, gradient = _solve_dense(loose, guess, SVD_CLAMP)[0][:5]
    if box.boxed.any():
        project_to_box(box, guess.wxyz, np.zeros((p.skeleton.num_joints, 3)))
        cost, is_reached = evaluate_goals(p.layout, run.goals, run.pose_arrays(guess))
        stop, gradient = (stop, gradient) if is_reached else (STATIONARY, np.inf)
    return SolverOutcome(stop, count, tries, cost, gradient)


def solve_coordinate_descent(run: SolverInputs, guess: Guess, method: str) -> SolverOutcome:
    """Cyclic coordinate descent, tips to root."""
    _refuse_springs(run, method)
    if run.space is not None or (run.problem.layout.blocks.kinds == COM).any():
        raise InputError("ccd turns joints one by one", "Give it a skeleton, not a model, and no ComTask")
    p = run.problem
    return SolverOutcome(*solve_ccd(p.layout, run.goals, run.pose_arrays(guess), run.max_iterations, run.history))


def _refuse_springs(run: SolverInputs, method: str) -> None:
    if run.problem.layout.springs.stiffness.any() or (run.space is not None and run.space.stiffness.any()):
        raise InputError(f"'{method}' takes no PoseTask", "Use 'projected-lm', 'dls' or a gradient method")


METHODS: Final[dict[str, tuple[Method, int]]] = {
    "projected-lm": (solve_projected_lm, 1000),
    "pg-armijo": (solve_first_order, 2000),
    "projected-cg": (solve_first_order, 2000),
    "projected-dogleg": (solve_second_order, 200),
    "pseudo-inverse": (solve_second_order, 100),
    "dls": (solve_second_order, 300),
    "svd-clamp": (solve_svd_clamp, 100),
    "jacobian-transpose": (solve_first_order, 5000),
    "ccd": (solve_coordinate_descent, 500),
    "active-set-qn": (solve_quasi_newton, 300),
    "projected-bfgs": (solve_quasi_newton, 300),
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
