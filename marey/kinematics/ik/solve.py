"""Inverse kinematics of one pose: the pose in which the body does what its tasks ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, Result
from marey.kinematics.ik.active_set import project_to_box
from marey.kinematics.ik.joint_types import JointType, TypedBody, solve_typed
from marey.kinematics.ik.levenberg_marquardt import REGION_TOL_RAD
from marey.kinematics.ik.methods import find_method
from marey.kinematics.ik.posing.attempts import (
    FAR_TURN_RAD,
    HELD_RAD,
    NO_HISTORY,
    accept_nearest,
    build_solver_inputs,
    compile_tasks,
    find_nearest,
    is_beyond_reach,
    keep_regions,
    measure_blocks,
    measure_turns,
    measure_violation,
    name_worst_joint,
    read_status,
    require_int,
    solve_inside_regions,
    solve_nearest_posture,
    solve_with_restarts,
)
from marey.kinematics.ik.posing.continuation import BranchEnd, follow_branch, solve_clamped
from marey.kinematics.ik.posing.starts import (
    FAR_REACHES,
    MAX_SIGMA,
    Feet,
    PosedBody,
    align_root,
    default_limits,
    guess_from_pose,
    match_body,
    name_pins,
    plant_feet,
)
from marey.kinematics.ik.problem import (
    Guess,
    Root,
    SolverInputs,
    SolverOutcome,
    collect_targets,
    joint_index,
)
from marey.kinematics.ik.state import OUT_OF_ITERATIONS, REACHED, STATIONARY
from marey.kinematics.ik.tasks import ComTask, GoalTask, LookAtTask, PointTask, PoseTask, Task
from marey.kinematics.limits.anatomy.model import AnatomicalLimits
from marey.kinematics.limits.contract import JointLimits
from marey.lie import SO3
from marey.lie.so3 import wrap_unit
from marey.models import PoseModel
from marey.numerics import SolveStatus
from marey.numerics.programme import OnFailure, check_on_failure, raise_if_asked
from marey.skeleton import Pose, Skeleton

METHODS_WITHOUT_STOP: Final = ("pseudo-inverse", "dls", "jacobian-transpose")  # they do not notice that nothing is won
RESTARTS: Final = 6  # starts to try after the first, when none was given
LIMIT_TOL_RAD: Final = 1e-6  # [rad] a pose inside the limits to this keeps them
MODEL_LIMITS_CONFLICT: Final = (
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
    reached: BoolArray  # (T,) within the tolerance; always for a pose task and for a goal that was skipped
    skipped: BoolArray  # (T,) goals with a NaN, which did not count
    planted: tuple[str, ...]  # joints that kept position and orientation: see ``feet``
    planted_error_m: float  # [m] how far the furthest of them moved
    limit_violation_rad: float  # [rad] of the joint that is furthest outside its limits
    objective: float  # sum of e^T W e over the goals, and of the springs
    projected_gradient: float  # largest component, limits accounted for; 0 where the method does not know it
    evaluations: int  # how often a pose was tried
    start_moved_rad: float  # [rad] how far limits moved the start, 0 when it was allowed
    coordinates: FloatArray | None  # (k,) of the model, in a reduced space; before limits, if the two disagree
    targets: FloatArray  # (B, 4) places and quaternions of goals and planted feet
    history: FloatArray  # (iterations, 4) objective, then what the method records; see ``solve_ik``
    advice: str

    def table_rows(self) -> list[dict[str, int | float | bool]]:
        """A row for each task: its error and whether it was reached or skipped."""
        columns = zip(self.errors.tolist(), self.reached.tolist(), self.skipped.tolist(), strict=True)
        return [{"index": i, "errors": e, "reached": r, "skipped": s} for i, (e, r, s) in enumerate(columns)]

    def __repr__(self) -> str:
        count = f"{self.iterations} iteration" + ("" if self.iterations == 1 else "s")
        missed = "" if self.reached.all() else f", {int((~self.reached).sum())} of {len(self.reached)} goals missed"
        return f"IKResult({self.status}, {count}, {1e3 * self.position_error_m:.1f} mm{missed})"


def advise(
    status: SolveStatus, missed: Sequence[str], notes: Sequence[str], end: BranchEnd | None, has_limits: bool
) -> str:
    """A sentence on what happened and what helps, and the notes."""
    names = ", ".join(missed)
    if status is SolveStatus.CONVERGED:
        first = "All goals are met."
    elif end is not None:
        centimetres = 100.0 * end.way_m
        first = (
            f"Goals missed: {names}. The branch of poses that begins at the start ends here: going on would turn "
            f"'{end.joint}' by {end.turn_rad:.2f} rad for {centimetres:.1f} cm of the goal. Solve without a start, "
            "or with follow=False, to change to another branch."
        )
    elif status is SolveStatus.INFEASIBLE:
        cure = "move the goals, free root or feet, or lower their weight"
        cause = "out of reach or against a limit" if has_limits else "out of reach"
        first = f"Goals {cause}: {names}. This is the nearest pose found; {cure}."
    elif not missed:
        first = "All goals are met, yet the pose cannot be used."
    elif status is SolveStatus.STALLED:
        cure = "try another start, or the method 'projected-lm'"
        first = f"Goals missed: {names}. No step improves this pose; {cure}."
    else:
        first = f"Goals missed: {names}. Raise max_iterations or loosen the tolerances."
    return " ".join((first, *notes))


def solve_ik(
    model_or_skeleton: PoseModel | Skeleton,
    tasks: Sequence[Task],
    *,
    start: Pose | IKResult | None = None,
    limits: JointLimits | Literal["auto"] | None = "auto",
    method: str = "projected-lm",
    max_iterations: int | None = None,
    tolerance_m: float = 1e-3,
    tolerance_rad: float = 1e-3,
    root: Root = "auto",
    feet: Feet = "auto",
    frozen_joints: Sequence[str | int] = (),
    restarts: int | None = None,
    follow: bool = True,
    joints: Mapping[str | int, JointType] | None = None,
    rate_clamp_rad: float | None = None,
    goal_clamp_m: float | None = None,
    variant: str | None = None,
    max_sigma: float | None = MAX_SIGMA,
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

    With a ``start`` and the default limits, a goal that is farther away than 5 cm is met by the pose nearest to the
    start, limbs counted before the trunk and the trunk before the collars.

    With a ``start`` the answer lies on the branch of poses that begins there: no joint turns by more than 0.2 rad for
    each centimetre that a goal is away. Where that branch ends short of the goals, the pose at its end is returned and
    ``advice`` names the joint and its turn.

    Without a ``start`` the first steps go without limits, and the default limits are kept with all couplings from
    there on, where goals can be met so. A goal missed under cones or fields is INFEASIBLE if descents from three other
    starts come no nearer; a pose that does is taken, unless a joint turns too far from the ``start``.

    A pose is CONVERGED only after goals, planted feet and limits have been measured anew on it, by the skeleton's own
    forward kinematics and by the limits themselves.

    Methods:
        ``"projected-lm"``: Levenberg-Marquardt with an active set, the default; in a reduced space ``variant`` is the
        metric of the damping, ``"canonical"``, ``"marquardt"`` or ``"kinetic"``.
        ``"pg-armijo"``: projected gradient, ``variant`` ``"bb"`` or ``"unit"`` ([Engell2012]_'s own).
        ``"projected-cg"``, ``"projected-dogleg"``.
        ``"pseudo-inverse"``, ``"dls"`` (``step`` is the damping [m]), ``"svd-clamp"``.
        ``"jacobian-transpose"``: ``variant`` ``"fixed"`` (``step`` in mean bones), ``"buss"`` or
        ``"meredith-maddock"``.
        ``"ccd"``; ``"two-bone"``: the analytic limb above each goal.
        ``"active-set-qn"``, ``"projected-bfgs"``: quasi-Newton under boxes.

    Args:
        model_or_skeleton: what is posed.
        tasks: what for. A goal with a NaN is skipped, and ``skipped`` marks it; without any goal the answer is the
            start, projected on the limits.
        start: where to begin, and what the answer stays near; when ``None`` the rest pose, or the model's mean
            turned and shifted onto the goals. In a drag, the result before: then the way from its goals to the new
            ones counts, also where they are out of reach.
        limits: of the same skeleton; ``"auto"`` are the anatomical ones if the joints of the skeleton are known,
            ``None`` are none. A start outside them is projected, and ``start_moved_rad`` gives the distance.
        method: one of the above.
        max_iterations: the method's own number by default.
        tolerance_m: a place within this is reached [m].
        tolerance_rad: an orientation or gaze within this is reached [rad].
        root: ``"auto"`` goes as far as planted feet allow, ``"free"`` anywhere (feet are planted only if ``feet``
            says so), ``"turn"`` (its place is fixed), ``"fixed"``.
        feet: ``"auto"`` keeps position and orientation of feet that stand on the floor in the start pose and that no
            goal names, ``"planted"`` of all feet that no goal names, ``"free"`` of none. An animal that stands on four
            or more limbs keeps the places of their ends.
        frozen_joints: joints that keep their rotation.
        restarts: other starts to try when goals are missed; 6 without a ``start``, none with one.
        follow: stay on the branch of the start.
        joints: types of joints, by name or number: :class:`HingeJoint`, :class:`UniversalJoint`,
            :class:`PrismaticJoint`; all others are balls. They are solved by Levenberg-Marquardt on their own
            coordinates; slides are in the offsets of the skeleton of ``result.pose``.
        rate_clamp_rad: largest turn of a joint in an iteration [rad], of any method.
        goal_clamp_m: goals farther away than this are taken at this distance in an iteration [m].
        variant: see the methods.
        max_sigma: in a reduced space no coordinate goes further from the mean than this many standard deviations, and
            all together stay in the ellipsoid of the same probability; ``None`` for no limit.
        step: see the methods.
        record: keep the history of the iterations.
        on_failure: ``"raise"`` a :class:`ConvergenceError` that carries the result, or ``"return"`` it.

    Raises:
        InputError: infinite targets, limits or a start of another skeleton, goals that nothing can move.
        UnknownNameError: a joint or method has another name; the nearest is suggested.
        ConvergenceError: a goal is missed; ``error.report`` is the result, with the nearest pose found.
    """
    if on_failure != "raise":
        check_on_failure(on_failure)
    before, start = (start, start.pose) if isinstance(start, IKResult) else (None, start)
    body = match_body(model_or_skeleton, start, None if isinstance(limits, str) else limits)
    limits = default_limits(limits, body)
    pins = plant_feet(body, tasks, start, root, feet)
    problem = compile_tasks(body, tasks, limits, root, frozen_joints, tolerance_m, tolerance_rad, pins)
    targets, active = collect_targets((*tasks, *pins))
    count = find_method(method)[1] if max_iterations is None else require_int(max_iterations, "max_iterations", 0)
    tries = (RESTARTS if start is None else 0) if restarts is None else require_int(restarts, "restarts", 0)
    history = np.zeros((count, 4)) if record else NO_HISTORY
    run = build_solver_inputs(body, problem, targets, active, limits, count, variant, step, max_sigma, history)
    # Where to begin, and how far limits move that
    guess = guess_from_pose(body, start)
    if body.model is not None and start is None:
        align_root(run, guess)  # a model knows the pose, not where it stands or faces
    advice = limits if isinstance(limits, AnatomicalLimits) and limits.is_advice and body.model is None else None
    if advice is not None and start is None:
        guess.wxyz[:], moved = problem.rest
    elif advice is not None:
        moved = project_to_box(problem.layout.box, guess.wxyz, np.zeros((len(guess.wxyz), 3)))
    else:
        moved = _project_start(guess, limits, body)
    # The answer, and whether a missed goal is out of reach
    end, last_targets, first, violation = None, None, None, None
    if before is not None and before.targets.shape == targets.shape:
        last_targets = before.targets
    if True in active[: len(problem.goals)].tolist() or problem.spring_weight > 0.0:
        run = _shorten_targets(run, guess.root) if pins else run
        is_clamped = rate_clamp_rad is not None or goal_clamp_m is not None
        is_plain = joints is None and not is_clamped
        first = guess.copy() if is_plain and follow and start is not None and problem.spring_weight == 0.0 else None
        is_person = advice is not None and first is not None and method == "projected-lm" and not record
        outcome = solve_nearest_posture(run, guess) if is_person else None
        coupled = advice if is_plain and method == "projected-lm" else None
        if coupled is not None and start is None and not (pins or record):
            outcome, violation = solve_inside_regions(run, guess, coupled)
        if joints is not None:
            run, body, outcome = _solve_joint_types(run, guess, joints, body, limits)
        elif is_clamped:
            outcome = solve_clamped(run, guess, method, body, rate_clamp_rad, goal_clamp_m)
        elif outcome is None:
            outcome = solve_with_restarts(run, guess, method, body, limits, restarts=tries)
        if outcome.stop == OUT_OF_ITERATIONS and method in METHODS_WITHOUT_STOP and max_iterations is None:
            outcome = accept_nearest(run, guess, outcome)
        if violation is None and coupled is not None:
            outcome, violation = keep_regions(run, guess, outcome, coupled)
        if first is not None and method == "projected-lm":
            followed = follow_branch(run, first, guess, body, last_targets)
            if followed is not None:
                (outcome, end), violation = followed, None
        # Whether a stalled descent is out of reach is asked of other starts; not in a drag, which must be quick
        is_stalled = outcome.stop == STATIONARY and end is None and before is None and not tries
        curved = limits if advice is None and body.model is None and problem.bounds is not None else None
        if curved is not None and is_plain and is_stalled and method == "projected-lm":
            status = read_status(False, outcome.stop, outcome.objective, outcome.gradient)
            if status is SolveStatus.STALLED:
                outcome, violation = find_nearest(run, guess, outcome, body, curved, first), None
    else:
        # No goals: the nearest pose that keeps all limits, regions too
        outcome = SolverOutcome(REACHED, 0, 0, 0.0, 0.0)
        if limits is not None and body.model is None:
            guess = guess_from_pose(body, start)
            moved = float(measure_violation(limits, guess.wxyz).max())
            guess.wxyz[:] = limits.project_rotations(SO3(guess.wxyz[None])).wxyz[0]
    result = _build_result(
        run if run.targets is targets else run._replace(targets=targets),
        guess,
        outcome,
        (tasks, pins),
        limits,
        violation,
        moved,
        body,
        end,
    )
    if first is not None and last_targets is None and result.status is not SolveStatus.CONVERGED and end is None:
        # A pose says nothing about the goals before, so the way of goals that stay out of reach is not known
        result = _advise_of_turn(result, measure_turns(first, guess))
    raise_if_asked("solve_ik", result.status, result.advice, result, on_failure)
    return result


def _advise_of_turn(result: IKResult, turns: FloatArray) -> IKResult:
    """Add to the advice that a joint has turned far ``(J,)`` [rad] from the start, if one has."""
    if float(turns.max()) <= FAR_TURN_RAD:
        return result
    joint = result.pose.skeleton.names[int(turns.argmax())]
    cure = "in a drag, hand over the last result in place of its pose, and its branch is followed"
    told = f"'{joint}' turns by {float(turns.max()):.2f} rad from the start: {cure}."
    return replace(result, advice=f"{result.advice} {told}")


def _project_start(guess: Guess, limits: JointLimits | None, body: PosedBody) -> float:
    """Bring a start inside limits of any kind; return how far outside it was [rad]. That of a model stays its own."""
    if limits is None:
        return 0.0
    outside = float(measure_violation(limits, guess.wxyz).max())
    if outside > HELD_RAD and body.model is None:
        guess.wxyz[:] = limits.project_rotations(SO3(guess.wxyz[None])).wxyz[0]
    return outside


def _shorten_targets(run: SolverInputs, root: FloatArray) -> SolverInputs:
    """Bring places far beyond reach nearer, in the same direction: a problem of the body's size."""
    rest = run.problem.skeleton.rest_positions()
    far_m = FAR_REACHES * max(float(np.linalg.norm(rest - rest[0], axis=1).max()), 1e-3)
    away = run.targets[:, :3] - root
    distances = np.linalg.norm(away, axis=1)
    rows = np.flatnonzero(~np.array(run.problem.is_angle, dtype=np.bool_) & (distances > far_m))
    if not len(rows):
        return run
    nearer = run.targets.copy()
    nearer[rows, :3] = root + away[rows] * (far_m / distances[rows, None])
    return run._replace(targets=nearer)


def _solve_joint_types(
    run: SolverInputs,
    guess: Guess,
    joints: Mapping[str | int, JointType],
    body: PosedBody,
    limits: JointLimits | None,
) -> tuple[SolverInputs, PosedBody, SolverOutcome]:
    """Solve on the coordinates of typed joints; slides become offsets of the skeleton."""
    springs = run.problem.layout.springs
    if body.model is not None or springs.stiffness.any():
        raise InputError("joint types with a pose model or a PoseTask", "Give a skeleton, and goals alone")
    typed = TypedBody(body.skeleton, joints, guess.root, guess.wxyz, springs.mobility)
    outcome = solve_typed(run, guess, typed, limits)
    # The same tasks on the skeleton with the offsets that prismatic joints made
    offsets = typed.pose(guess.x).offsets
    skeleton, layout = replace(body.skeleton, offsets=offsets), run.problem.layout
    layout = layout._replace(tree=layout.tree._replace(offsets=offsets.copy()))
    problem = replace(run.problem.with_layout(layout), skeleton=skeleton)
    return run._replace(problem=problem), PosedBody(problem.skeleton, None), outcome


def _build_result(
    run: SolverInputs,
    guess: Guess,
    outcome: SolverOutcome,
    tasks_and_pins: tuple[Sequence[Task], Sequence[GoalTask]],
    limits: JointLimits | None,
    violation: FloatArray | None,
    moved: float,
    body: PosedBody,
    end: BranchEnd | None,
) -> IKResult:
    """Measure goals, pins and limits anew, if their ``violation`` is not known, and say what came out."""
    problem, (tasks, pins) = run.problem, tasks_and_pins
    measured = measure_blocks(problem, run.targets[None], run.active[None], guess.root[None], guess.wxyz[None])
    if violation is None and limits is not None:
        violation = measure_violation(limits, guess.wxyz)
    # The arrays of the guess become those of the pose, which keeps them as they are
    guess.root.setflags(write=False)
    pose = Pose(body.skeleton, guess.root, wrap_unit(guess.wxyz))
    # How near each task came; pose tasks are always reached
    errors, reached, skipped = [0.0] * len(tasks), [True] * len(tasks), [False] * len(tasks)
    missed: list[str] = []
    notes: list[str] = []
    worst = [0.0, 0.0]
    found, goals = measured.sizes[0].tolist(), len(problem.goals)
    for i, size, is_angle, tolerance, is_active in zip(
        problem.goals, found, problem.is_angle, problem.tolerances, run.active.tolist(), strict=False
    ):
        errors[i], skipped[i] = size, not is_active
        reached[i] = size <= tolerance
        worst[is_angle] = max(worst[is_angle], size)
        if not reached[i]:
            missed.append(f"task {i} ({_name_task(tasks[i], body.skeleton)})")
    for pin, size, tolerance in zip(pins, found[goals:], problem.tolerances[goals:], strict=True):
        if size > tolerance and not isinstance(pin, LookAtTask):
            missed.append(f"the planted {_name_task(pin, body.skeleton)}")
    status = read_status(not missed, outcome.stop, outcome.objective, outcome.gradient)
    if status is SolveStatus.STALLED and outcome.is_nearest:
        status = SolveStatus.INFEASIBLE
    if missed and status is not SolveStatus.INFEASIBLE and end is None:
        # A goal that no bones can reach is out of reach, however the solver ended
        anchors = [(joint_index(body.skeleton, pin.joint), pin.goal) for pin in pins if isinstance(pin, PointTask)]
        if problem.layout.springs.mobility[-1] == 0.0:
            anchors.append((0, guess.root))
        if is_beyond_reach(problem, run.targets, run.active, anchors):
            status = SolveStatus.INFEASIBLE
            if outcome.stop == OUT_OF_ITERATIONS:
                notes.append("The iterations ended before the pose was the nearest one.")
    outside = 0.0 if violation is None else max(violation.tolist())
    if violation is not None and outside > LIMIT_TOL_RAD:
        named = name_worst_joint(body.skeleton.names, violation)
        is_advice, wxyz = isinstance(limits, AnatomicalLimits) and limits.is_advice, guess.wxyz.copy()
        if is_advice and project_to_box(problem.layout.box, wxyz, np.zeros((len(wxyz), 3))) <= LIMIT_TOL_RAD:
            # Each coordinate is inside its interval, so it is a region of several that is left
            if outside > REGION_TOL_RAD:
                notes.append(f"Captured people do not combine joints in this way: {named}.")
        else:
            status = SolveStatus.STALLED if status is SolveStatus.CONVERGED else status
            notes.append(f"After all, {named}.")
    if end is not None and missed:
        status = SolveStatus.STALLED
    if moved > HELD_RAD:
        notes.append(f"The start was outside the limits by {moved:.3g} rad and was moved.")
    if any(skipped):
        notes.append(f"Skipped, not known: {', '.join(f'task {i}' for i, flag in enumerate(skipped) if flag)}.")
    if outcome.is_left:
        notes.append(MODEL_LIMITS_CONFLICT)
    return IKResult(
        status,
        pose,
        outcome.iterations,
        worst[0],
        worst[1],
        np.array(errors),
        np.array(reached, dtype=np.bool_),
        np.array(skipped, dtype=np.bool_),
        name_pins(body.skeleton, pins) if pins else (),
        max((size for pin, size in zip(pins, found[goals:], strict=True) if isinstance(pin, PointTask)), default=0.0),
        outside,
        outcome.objective,
        outcome.gradient,
        outcome.evaluations,
        moved if moved > HELD_RAD else 0.0,
        guess.x if body.model is not None else None,
        run.targets,
        run.history[: outcome.iterations],
        advise(status, missed, notes, end, limits is not None),
    )


def _name_task(task: Task, skeleton: Skeleton) -> str:
    if isinstance(task, ComTask | PoseTask):
        return "centre of mass"
    return f"'{task.joint if isinstance(task.joint, str) else skeleton.names[task.joint]}'"
