"""Inverse kinematics of whole clips: each frame starts from the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, FloatArray, InputError, IntArray, frozen_bools
from marey.kinematics._ik import NO_HISTORY, build_solver_inputs, compile_tasks, require_int, solve_with_restarts
from marey.kinematics._ik_clips import ClipSolution
from marey.kinematics._ik_problem import IKProblem, Root
from marey.kinematics._ik_result import MODEL_LIMITS_CONFLICT
from marey.kinematics._ik_run import find_method
from marey.kinematics._ik_space import PosedBody, guess_from_pose, match_body
from marey.kinematics._limits import JointLimits
from marey.kinematics._tasks import Task
from marey.kinematics._track_follow import MAX_STEP_RATIO, build_speed_limits, solve_frames
from marey.lie import SO3
from marey.models import PoseModel
from marey.motion import Motion
from marey.numerics import SolveStatus
from marey.numerics._status import OnFailure, check_on_failure, raise_if_asked
from marey.skeleton import Pose, Skeleton


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IKTrackResult:
    """A clip that follows its tasks, and how near it came in each frame."""

    status: SolveStatus  # CONVERGED when every goal is reached in every frame
    motion: Motion
    iterations: IntArray  # (F,)
    errors: FloatArray  # (F, T) [m] or [rad]; 0 for a pose task and where a task was not valid
    reached: BoolArray  # (F, T)
    position_error_m: FloatArray  # (F,) [m] the largest of all places
    coordinates: FloatArray | None  # (F, k) of the model, in a reduced space
    held_back: BoolArray  # (F,) frames whose pose would have jumped: see ``max_turn``
    advice: str

    def __repr__(self) -> str:
        frames, missed = len(self.reached), int((~self.reached.all(axis=1)).sum())
        worst = 1e3 * float(self.position_error_m.max())
        held = f", {held} held back" if (held := int(self.held_back.sum())) else ""
        return f"TrackResult({self.status}, {frames} frames, {missed} with goals missed, worst {worst:.1f} mm{held})"


def track(
    model_or_skeleton: PoseModel | Skeleton,
    task_trajectories: Sequence[Task],
    *,
    rate_hz: float = 120.0,
    start: Pose | None = None,
    limits: JointLimits | None = None,
    method: str = "projected-lm",
    valid: ArrayLike | None = None,
    max_iterations: int | None = None,
    tolerance_m: float = 1e-3,
    tolerance_rad: float = 1e-3,
    root: Root = "free",
    frozen_joints: Sequence[str | int] = (),
    variant: str | None = None,
    step: float | None = None,
    max_turn: float | None = MAX_STEP_RATIO,
    on_failure: OnFailure = "return",
) -> IKTrackResult:
    """Follow tasks through a whole clip; redundancy is settled by staying near the frame before.

    [Engell2012]_ §1.1: coherence of the goals is what makes the answer smooth. The first frame is solved as
    :func:`solve_ik` would, the others from the answer before; the default method runs as one compiled loop. Under
    limits, a frame that misses goals is tried again from the same pose moved off its bounds.

    The nearest pose may jump although the goals do not: a branch of answers ends at a limit, or a limb straightens.
    Then joints are held to ``max_turn`` times the turn that the goals ask for, the way of the fastest goal over a
    quarter of the body's reach (0.25 m of a grown human), and 0.01 rad. What other joints cannot take over is made up
    for in the frames that follow; ``held_back`` marks such frames. The first frame is free, and so are frames in which
    goals come or go.

    Args:
        model_or_skeleton: what is posed.
        task_trajectories: tasks whose targets have one row for each frame, or one that is held.
        rate_hz: frames per second of the clip.
        start: where the first frame begins.
        limits: hold in every frame.
        method: as in :func:`solve_ik`.
        valid: ``(F, T)`` frames in which each task counts (a marker was seen); all by default.
        max_iterations: of each frame.
        tolerance_m: a place within this is reached [m].
        tolerance_rad: an orientation within this is reached [rad].
        root: ``"free"``, ``"turn"`` or ``"fixed"``.
        frozen_joints: joints that keep their rotation.
        variant: as in :func:`solve_ik`.
        step: as in :func:`solve_ik`.
        max_turn: largest turn of a joint between frames, in units of what the goals ask for; ``None`` for no bound.
        on_failure: ``"return"`` the clip with its errors, or ``"raise"``.

    Raises:
        InputError: targets of different lengths, and all that :func:`solve_ik` refuses.
    """
    check_on_failure(on_failure)
    body = match_body(model_or_skeleton, start, limits)
    _, default = find_method(method)
    problem = compile_tasks(body, task_trajectories, limits, root, frozen_joints, tolerance_m, tolerance_rad)
    targets = collect_clip_targets(problem, task_trajectories)
    active = _active_blocks(problem, len(targets), len(task_trajectories), valid)
    count = default if max_iterations is None else require_int(max_iterations, "max_iterations", 0)
    run = build_solver_inputs(body, problem, targets[0], limits, count, variant, step, start, NO_HISTORY)
    run = replace(run, active=active[0], pace=build_speed_limits(body, limits, max_turn))
    guess = guess_from_pose(body, start)
    solve_with_restarts(run, guess, method, body, limits, restarts=6 if start is None else 0)
    clip = solve_frames(run, guess, method, body, limits, targets, active)
    result = _build_result(body, problem, clip, rate_hz, active, len(task_trajectories))
    raise_if_asked("track", result.status, result.advice, result, on_failure)
    return result


def collect_clip_targets(problem: IKProblem, tasks: Sequence[Task]) -> FloatArray:
    """Targets ``(F, B, 4)`` of all frames.

    Raises:
        InputError: the tasks have different numbers of frames, or none has more than one target.
    """
    goals = [tasks[i].goal for i in problem.goals]
    lengths = {len(goal) for goal in goals if goal.ndim == 2}
    if len(lengths) != 1 or 0 in lengths:
        found = ", ".join(str(n) for n in sorted(lengths)) or "no"
        raise InputError(f"tasks with {found} frames", "Give targets (F, 3) of one length; a single target is held")
    targets = np.zeros((lengths.pop(), len(goals), 4))
    for row, goal in enumerate(goals):
        targets[:, row, : goal.shape[-1]] = goal
    return targets


def _active_blocks(problem: IKProblem, frames: int, tasks: int, valid: ArrayLike | None) -> BoolArray:
    if valid is None:
        return np.ones((frames, len(problem.goals)), dtype=np.bool_)
    given = frozen_bools(valid, frames, tasks, name="valid")
    return np.ascontiguousarray(given[:, list(problem.goals)])


def _build_result(
    body: PosedBody, problem: IKProblem, clip: ClipSolution, rate_hz: float, active: BoolArray, num_tasks: int
) -> IKTrackResult:
    frames = len(clip.roots)
    sizes = np.sqrt((clip.errors**2).sum(axis=-1))
    errors, reached = np.zeros((frames, num_tasks)), np.ones((frames, num_tasks), dtype=np.bool_)
    rows = list(problem.goals)
    errors[:, rows], reached[:, rows] = sizes, (sizes <= problem.layout.blocks.tolerances) | ~active
    is_place = ~np.array(problem.is_angle, dtype=np.bool_)
    places = sizes[:, is_place].max(axis=1) if is_place.any() else np.zeros(frames)
    motion = Motion(body.skeleton, rate_hz, clip.roots, SO3(clip.wxyz), name="tracked")
    status, advice = _read_clip_status(reached, clip.counts)
    coordinates = clip.x if body.model is not None else None
    counts = clip.counts[:, 1].astype(np.int64)
    held = np.asarray(clip.counts[:, 5] > 0.0, dtype=np.bool_)
    return IKTrackResult(status, motion, counts, errors, reached, places, coordinates, held, advice)


def _read_clip_status(reached: BoolArray, counts: FloatArray) -> tuple[SolveStatus, str]:
    missed, left = np.flatnonzero(~reached.all(axis=1)), np.flatnonzero(counts[:, 4])
    note = f" In {len(left)} frames, first in {left[0]}: {MODEL_LIMITS_CONFLICT}" if len(left) else ""
    if held := int(counts[missed, 5].sum()):
        note += f" {held} of them were held back so that no joint jumps; max_turn=None lets them."
    if not len(missed):
        return SolveStatus.CONVERGED, f"All goals are met in all frames.{note}"
    first, total = int(missed[0]), len(missed)
    if (counts[missed, 0] == 1).all():
        advice = (
            "Each is the nearest pose that could be found; move the goals, free the root, or loosen the tolerances."
        )
        return SolveStatus.INFEASIBLE, f"Goals are missed in {total} frames, first in frame {first}. {advice}{note}"
    return (
        SolveStatus.ITERATION_LIMIT,
        f"Goals are missed in {total} frames, first in {first}. Raise max_iterations.{note}",
    )
