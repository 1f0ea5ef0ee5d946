"""Inverse kinematics of one pose: the pose in which the body does what its tasks ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, Result
from marey.kinematics.ik.levenberg_marquardt import ALLOWED_RAD
from marey.kinematics.ik.methods import find_method, solve_projected_lm
from marey.kinematics.ik.problem import (
    ROOTS,
    Guess,
    IKProblem,
    Root,
    SolverInputs,
    SolverOutcome,
    collect_targets,
    compile_problem,
)
from marey.kinematics.ik.starts import (
    PosedBody,
    align_root,
    build_metric,
    build_space,
    generate_restarts,
    guess_from_pose,
    match_body,
)
from marey.kinematics.ik.state import OUT_OF_ITERATIONS
from marey.kinematics.ik.tasks import ComTask, PoseTask, Task
from marey.kinematics.limits.contract import JointLimits
from marey.kinematics.limits.tables import largest_violation
from marey.lie import SO3
from marey.models import PoseModel
from marey.numerics import SolveStatus
from marey.numerics.status import OnFailure, check_on_failure, raise_if_asked
from marey.skeleton import Pose, Skeleton

KKT_TOL = 1e-4  # [-] projected gradient, relative to 1 + objective, of a pose that nothing near it beats

MODEL_LIMITS_CONFLICT = (
    "The model and the limits disagree: no pose of the model near the goals is inside the limits, so this is the "
    "nearest one that is. Fit both on the same clips, or widen the limits."
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IKResult(Result):
    """A pose, how near it came to each goal, and what to do when it did not."""

    status: SolveStatus  # CONVERGED, INFEASIBLE (the nearest pose), STALLED or ITERATION_LIMIT
    pose: Pose
    iterations: int
    position_error_m: float  # [m] the largest of all places and of the centre of mass
    orientation_error_rad: float  # [rad] the largest of all orientations and gazes
    errors: FloatArray  # (T,) [m] or [rad] of each task; 0 for a pose task
    reached: BoolArray  # (T,) within the tolerance; always for a pose task
    objective: float  # sum of e^T W e over the goals, and of the springs
    projected_gradient: float  # largest component, limits accounted for; 0 where the method does not know it
    evaluations: int  # how often a pose was tried
    start_moved_rad: float  # [rad] how far limits moved the start, 0 when it was allowed
    coordinates: FloatArray | None  # (k,) of the model, in a reduced space; before limits, if the two disagree
    history: FloatArray  # (iterations, 4) objective, then what the method records; see ``solve_ik``
    advice: str

    def __repr__(self) -> str:
        count = f"{self.iterations} iteration" + ("" if self.iterations == 1 else "s")
        missed = "" if self.reached.all() else f", {int((~self.reached).sum())} of {len(self.reached)} goals missed"
        return f"IKResult({self.status}, {count}, {1e3 * self.position_error_m:.1f} mm{missed})"


def advise(
    status: SolveStatus, missed: list[str], has_limits: bool, start_moved_rad: float, is_left: bool = False
) -> str:
    """One sentence on what happened and what helps."""
    note = ""
    if start_moved_rad > 0.0:
        note += f" The start was outside the limits by {start_moved_rad:.3g} rad and was moved."
    if is_left:
        note += f" {MODEL_LIMITS_CONFLICT}"
    if status is SolveStatus.CONVERGED:
        return f"All goals are met.{note}"
    names = ", ".join(missed)
    if status is SolveStatus.INFEASIBLE:
        cause = "out of reach or against a limit" if has_limits else "out of reach"
        cure = "move the goals, free the root, or lower their weight"
        return f"Goals {cause}: {names}. This is the nearest pose; {cure}.{note}"
    if status is SolveStatus.STALLED:
        cure = "try another start, or the method 'projected-lm'"
        return f"Goals missed: {names}. No step improves this pose; {cure}.{note}"
    return f"Goals missed: {names}. Raise max_iterations or loosen the tolerances.{note}"


def read_status(is_reached: bool, stop: int, objective: float, gradient: float) -> SolveStatus:
    """Read how a compiled solver ended: 0 reached, 1 stationary, 2 out of iterations."""
    if is_reached and stop < 2:
        return SolveStatus.CONVERGED
    if 0.0 < gradient <= KKT_TOL * (1.0 + objective) and not is_reached:
        return SolveStatus.INFEASIBLE
    return SolveStatus.STALLED if stop == 1 else SolveStatus.ITERATION_LIMIT


METHODS_WITHOUT_STOP: Final = ("pseudo-inverse", "dls", "jacobian-transpose")  # they do not notice that nothing is won
RESTARTS: Final = 6  # starts to try after the first, when none was given
HELD_RAD: Final = 1e-9  # [rad] a pose inside the limits to this needs no repair
NO_HISTORY: Final = np.zeros((0, 4))


def solve_ik(
    model_or_skeleton: PoseModel | Skeleton,
    tasks: Sequence[Task],
    *,
    start: Pose | None = None,
    limits: JointLimits | None = None,
    method: str = "projected-lm",
    max_iterations: int | None = None,
    tolerance_m: float = 1e-3,
    tolerance_rad: float = 1e-3,
    root: Root = "free",
    frozen_joints: Sequence[str | int] = (),
    restarts: int | None = None,
    variant: str | None = None,
    step: float | None = None,
    record: bool = False,
    on_failure: OnFailure = "raise",
) -> IKResult:
    r"""Find the pose that meets the tasks: all goals in one weighted least-squares problem under joint limits.

    .. math:: \min_g \sum_i e_i(g)^T W_i\, e_i(g) \quad\text{s.t. the limits},\qquad g \leftarrow g\exp(\delta)

    [Engell2012]_ eq. 16-19 on the rotation group ([Tournier2011]_ §6.3), so no Euler angle takes part. A skeleton gives
    the full space (the root's place and turn, three numbers for each joint); a pose model the reduced one (root and the
    model's coordinates, §8.2.2). Priorities are stacked weights: a level weighs 1e-4 of the one above, so a metre
    missed below costs the level above a tenth of a millimetre or so.

    Limits hold in every pose that is returned, to 1e-6 rad. The default solver keeps boxes by an active set, and limits
    of any other kind by one that it finds from their projections. In a reduced space violations stand behind ever
    stiffer walls, so the pose stays one of the model; where the model has none inside the limits near the goals, the
    pose is projected on them, solved on in the full space, and ``advice`` says that the two disagree.

    Methods:
        ``"projected-lm"``: Levenberg-Marquardt with an active set, the default; in a reduced space ``variant`` is the
        metric of the damping, ``"canonical"``, ``"marquardt"`` or ``"kinetic"``.
        ``"pg-armijo"``: projected gradient, ``variant`` ``"bb"`` or ``"unit"`` ([Engell2012]_'s own).
        ``"projected-cg"``, ``"projected-dogleg"``.
        ``"pseudo-inverse"``, ``"dls"`` (``step`` is the damping [m]), ``"svd-clamp"``.
        ``"jacobian-transpose"``: ``variant`` ``"fixed"`` (``step`` in mean bones), ``"buss"`` or
        ``"meredith-maddock"``.
        ``"ccd"``; ``"two-bone"``: the analytic limb above each goal.

    Args:
        model_or_skeleton: what is posed.
        tasks: what for; at least one.
        start: where to begin, and what the answer stays near; when ``None`` the rest pose, or the model's mean
            turned and shifted onto the goals.
        limits: of the same skeleton. A start outside them is projected, and ``start_moved_rad`` gives the distance.
        method: one of the above.
        max_iterations: the method's own number by default.
        tolerance_m: a place within this is reached [m].
        tolerance_rad: an orientation or gaze within this is reached [rad].
        root: ``"free"``, ``"turn"`` (its place is fixed) or ``"fixed"``.
        frozen_joints: joints that keep their rotation.
        restarts: other starts to try when goals are missed; 6 without a ``start``, none with one.
        variant: see the methods.
        step: see the methods.
        record: keep the history of the iterations.
        on_failure: ``"raise"`` a :class:`ConvergenceError` that carries the result, or ``"return"`` it.

    Raises:
        InputError: no tasks, targets that are not finite, limits or a start of another skeleton, goals that nothing can
            move.
        UnknownNameError: a joint or method has another name; the nearest is suggested.
        ConvergenceError: a goal is missed; ``error.report`` is the result, with the nearest pose found.
    """
    if on_failure != "raise":
        check_on_failure(on_failure)
    body = match_body(model_or_skeleton, start, limits)
    problem = compile_tasks(body, tasks, limits, root, frozen_joints, tolerance_m, tolerance_rad)
    count = find_method(method)[1] if max_iterations is None else require_int(max_iterations, "max_iterations", 0)
    history = np.zeros((count, 4)) if record else NO_HISTORY
    run = build_solver_inputs(
        body, problem, collect_targets(problem, tasks), limits, count, variant, step, start, history
    )
    # Where to begin, and how far limits move that
    guess = guess_from_pose(body, start)
    if body.model is not None and start is None:
        align_root(run, guess)  # a model knows the pose, not where it stands or faces
    moved = 0.0 if limits is None else largest_pose_violation(problem, guess, limits)
    tries = (RESTARTS if start is None else 0) if restarts is None else require_int(restarts, "restarts", 0)
    # The answer, and whether a missed goal is out of reach
    outcome = solve_with_restarts(run, guess, method, body, limits, restarts=tries)
    if outcome.stop == OUT_OF_ITERATIONS and method in METHODS_WITHOUT_STOP and max_iterations is None:
        outcome = accept_nearest(run, guess, outcome)
    result = _build_result(run, guess, outcome, tasks, limits, moved, body)
    raise_if_asked("solve_ik", result.status, result.advice, result, on_failure)
    return result


def compile_tasks(
    body: PosedBody,
    tasks: Sequence[Task],
    limits: JointLimits | None,
    root: Root,
    frozen_joints: Sequence[str | int],
    tolerance_m: float,
    tolerance_rad: float,
) -> IKProblem:
    """Check what was asked, and look it up or compile it."""
    if not tasks:
        raise InputError("no tasks", "Give at least one, a PointTask say")
    if root not in ROOTS:
        raise InputError(f"root is {root!r}", "Say 'free', 'turn' or 'fixed'")
    for name, value in (("tolerance_m", tolerance_m), ("tolerance_rad", tolerance_rad)):
        if not 0.0 < value < np.inf:
            raise InputError(f"{name} is {value}", "Give a positive number")
    tolerances = (float(tolerance_m), float(tolerance_rad))
    return compile_problem(body.skeleton, tasks, limits, body.model is not None, root, frozen_joints, tolerances)


def build_solver_inputs(
    body: PosedBody,
    problem: IKProblem,
    targets: FloatArray,
    limits: JointLimits | None,
    max_iterations: int,
    variant: str | None,
    step: float | None,
    start: Pose | None,
    history: FloatArray,
) -> SolverInputs:
    """Everything a solver needs but the guess."""
    return SolverInputs(
        problem,
        targets,
        problem.active,
        build_space(body, problem),
        limits if problem.bounds is None else None,
        max_iterations,
        variant,
        step,
        build_metric(body, start, variant),
        history,
        np.zeros((len(problem.goals), 3)),
    )


def require_int(value: object, name: str, lowest: int) -> int:
    """A whole number that is not below ``lowest``.

    Raises:
        InputError: it is none; the message names the option.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
        raise InputError(f"{name} is {value}", f"Give a whole number, {lowest} or more")
    return value


def solve_with_restarts(
    run: SolverInputs, guess: Guess, method: str, body: PosedBody, limits: JointLimits | None, *, restarts: int
) -> SolverOutcome:
    """Solve from the guess, which is overwritten, then from others while goals are missed; keep the best."""
    solver = find_method(method)[0]
    best = _enforce_limits(run, guess, solver(run, guess, method), limits, method)
    if best.stop == 0 or not restarts:
        return best
    # Other starts, while goals are missed; the best answer is kept
    kept = guess.copy()
    errors = run.errors.copy()
    iterations, evaluations = best.iterations, best.evaluations
    for other in generate_restarts(run, body, limits, restarts):
        tried = _enforce_limits(run, other, solver(run, other, method), limits, method)
        iterations, evaluations = iterations + tried.iterations, evaluations + tried.evaluations
        if tried.objective < best.objective or (tried.stop == 0 and best.stop != 0):
            best, kept, errors = tried, other, run.errors.copy()
        if best.stop == 0:
            break
    guess.assign(kept)
    run.errors[:] = errors
    return best._replace(iterations=iterations, evaluations=evaluations)


def accept_nearest(run: SolverInputs, guess: Guess, outcome: SolverOutcome) -> SolverOutcome:
    """Distinguish unreachable goals from those that the method missed: only then return the nearest pose.

    Such a method steps about an unreachable goal for ever; the default goes on from its pose, and decides.
    """
    other = guess.copy()
    default = find_method("projected-lm")[1]
    judge = replace(run, errors=run.errors.copy(), history=NO_HISTORY, max_iterations=default, variant=None)
    more = solve_projected_lm(judge, other)
    if read_status(more.stop == 0, more.stop, more.objective, more.gradient) is not SolveStatus.INFEASIBLE:
        return outcome
    guess.assign(other)
    run.errors[:] = judge.errors
    tries = outcome.evaluations + more.evaluations
    return more._replace(iterations=outcome.iterations + more.iterations, evaluations=tries)


def largest_pose_violation(problem: IKProblem, guess: Guess, limits: JointLimits) -> float:
    """How far the furthest joint is outside the limits [rad]."""
    if problem.bounds is None:
        return float(limits.violations(SO3(guess.wxyz[None])).max())
    return largest_violation(problem.bounds, guess.wxyz)


def _enforce_limits(
    run: SolverInputs, guess: Guess, outcome: SolverOutcome, limits: JointLimits | None, method: str
) -> SolverOutcome:
    """Bring the pose of a method that ignores limits into them: go on with the one that keeps them."""
    if limits is None or (method == "projected-lm" and run.problem.bounds is not None):
        return outcome
    allowed = HELD_RAD if run.space is None else ALLOWED_RAD
    if largest_pose_violation(run.problem, guess, limits) <= allowed:
        return outcome
    if run.problem.bounds is not None:
        more = solve_projected_lm(run, guess)
    else:
        more = solve_projected_lm(replace(run, space=None), guess)._replace(is_left=run.space is not None)
    return more._replace(
        iterations=outcome.iterations + more.iterations, evaluations=outcome.evaluations + more.evaluations
    )


def _build_result(
    run: SolverInputs,
    guess: Guess,
    outcome: SolverOutcome,
    tasks: Sequence[Task],
    limits: JointLimits | None,
    moved: float,
    body: PosedBody,
) -> IKResult:
    problem = run.problem
    # How near each task came; pose tasks are always reached
    errors, reached = [0.0] * len(tasks), [True] * len(tasks)
    worst, missed = [0.0, 0.0], list[str]()
    for i, (x, y, z), is_angle, tolerance in zip(
        problem.goals, run.errors.tolist(), problem.is_angle, problem.tolerances, strict=True
    ):
        errors[i] = size = sqrt(x * x + y * y + z * z)
        reached[i] = size <= tolerance
        worst[is_angle] = max(worst[is_angle], size)
        if not reached[i]:
            task = tasks[i]
            name = "centre of mass"
            if not isinstance(task, ComTask | PoseTask):
                name = f"'{task.joint if isinstance(task.joint, str) else body.skeleton.names[task.joint]}'"
            missed.append(f"task {i} ({name})")
    status = read_status(all(reached), outcome.stop, outcome.objective, outcome.gradient)
    start_moved_rad = moved if moved > HELD_RAD else 0.0
    # The arrays of the guess become those of the pose
    for array in (guess.root, guess.wxyz):
        array.setflags(write=False)  # the pose may keep them as they are
    return IKResult(
        status,
        Pose(body.skeleton, guess.root, SO3(guess.wxyz)),
        outcome.iterations,
        worst[0],
        worst[1],
        np.array(errors),
        np.array(reached),
        outcome.objective,
        outcome.gradient,
        outcome.evaluations,
        start_moved_rad,
        guess.x if body.model is not None else None,
        run.history[: outcome.iterations],
        advise(status, missed, limits is not None, start_moved_rad, outcome.is_left),
    )
