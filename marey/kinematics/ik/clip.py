"""Inverse kinematics of whole clips: each frame starts from the one before, by any method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, FloatArray, InputError, IntArray, Result, frozen_bools
from marey.kinematics.ik.levenberg_marquardt import ALLOWED_RAD, DualStep, StopRule
from marey.kinematics.ik.methods import (
    START_DAMPING,
    allocate_clip,
    find_method,
    full_pose_space,
    select_bounds,
    solve_clip_dense,
    solve_dual_pose,
)
from marey.kinematics.ik.pace import ClipSolution, limit_pose_step, solve_full_clip
from marey.kinematics.ik.problem import Guess, Root, SolverInputs
from marey.kinematics.ik.solve import (
    MODEL_LIMITS_CONFLICT,
    NO_HISTORY,
    build_solver_inputs,
    compile_tasks,
    require_int,
    solve_with_restarts,
)
from marey.kinematics.ik.starts import PosedBody, guess_from_pose, match_body
from marey.kinematics.ik.state import REACHED, STATIONARY, Goals, PoseArrays, SpeedLimits, evaluate_goals
from marey.kinematics.ik.tasks import Task
from marey.kinematics.limits.contract import JointLimits
from marey.lie import SO3
from marey.models import PoseModel
from marey.motion import Motion
from marey.numerics import SolveStatus
from marey.numerics.status import OnFailure, check_on_failure, raise_if_asked
from marey.skeleton import Pose, Skeleton

MAX_STEP_RATIO: Final = 4.5  # [-] of what the goals ask for; 5 would be a jump, and projections on limits add a little
LIMB_FRACTION: Final = 0.25  # [-] of the reach: a goal that moves so far asks for a turn of 1 rad


def build_speed_limits(body: PosedBody, limits: JointLimits | None, max_turn: float | None) -> SpeedLimits:
    """Largest step of a pose per frame, and the middle of its limits.

    Raises:
        InputError: ``max_turn`` is not above 0.
    """
    most = np.inf if max_turn is None else float(max_turn)
    if not most > 0.0:
        raise InputError(f"max_turn is {max_turn}", "Give a positive number, or None for no bound")
    rest = body.skeleton.rest_positions()
    reach = float(np.linalg.norm(rest - rest[0], axis=1).max())
    middle = np.zeros((0, 4)) if limits is None else np.array(limits.middle().wxyz)
    return SpeedLimits(most, LIMB_FRACTION * max(reach, 1e-3), middle)


def solve_frames(
    run: SolverInputs, guess: Guess, method: str, body: PosedBody, limits: JointLimits | None, goals: Goals
) -> tuple[ClipSolution, BoolArray]:
    """Solve all frames, each from the answer before; the guess is the first answer.

    Returns also the frames whose pose is not one of the model, since the model and the limits disagree ``(F,)``.
    """
    frames, p = len(goals.targets), run.problem
    clip = allocate_clip(run, guess, frames)
    is_left = np.zeros(frames, dtype=np.bool_)
    if method == "projected-lm" and p.bounds is not None and run.space is None:
        # One compiled loop in the full space
        bounds, pose = select_bounds(p.bounds), run.pose_arrays(guess)
        stop, dual = StopRule(run.max_iterations, p.seek_optimum), DualStep(START_DAMPING)
        solve_full_clip(p.layout, bounds, dual, run.pace, goals, pose, stop, clip)
        return clip, is_left
    if method == "projected-lm" and p.bounds is not None:
        solve_clip_dense(run, guess, goals, clip, bounds=p.bounds)
        is_left[:] = clip.violations > ALLOWED_RAD
        for f in np.flatnonzero(is_left):
            # The model has no pose inside the limits: go on in the full space
            pose = Guess(clip.roots[f], clip.wxyz[f], clip.x[f])
            single = replace(run, targets=goals.targets[f], active=goals.active[f], errors=clip.errors[f])
            more = solve_dual_pose(single, pose, p.bounds)
            clip.iterations[f] += more.iterations
            clip.stops[f], clip.objectives[f], clip.gradients[f] = more.stop, more.objective, more.gradient
        return clip, is_left
    for f in range(frames):
        frame = replace(run, targets=goals.targets[f], active=goals.active[f], errors=clip.errors[f])
        last = PoseArrays(guess.root.copy(), guess.wxyz.copy(), guess.x.copy(), np.zeros_like(frame.errors))
        outcome = solve_with_restarts(frame, guess, method, body, limits, restarts=0)
        clip.stops[f], clip.iterations[f], is_left[f] = outcome.stop, outcome.iterations, outcome.is_left
        # A pose that went too far is brought back on its way, and into its limits
        pose, space = frame.pose_arrays(guess), full_pose_space(run)
        clip.is_held[f], _, is_reached = limit_pose_step(p.layout, space, run.pace, goals, f, last, pose)
        if clip.is_held[f]:
            clip.stops[f] = REACHED if is_reached else STATIONARY
            if limits is not None:
                guess.wxyz[:] = limits.project_rotations(SO3(guess.wxyz[None])).wxyz[0]
            evaluate_goals(p.layout, frame.goals, pose)
        clip.roots[f], clip.wxyz[f], clip.x[f] = guess.root, guess.wxyz, guess.x
    return clip, is_left


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IKTrackResult(Result):
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
    # Targets (F, B, 4) of all frames, and when they count
    goals = [task_trajectories[i].goal for i in problem.goals]
    lengths = {len(goal) for goal in goals if goal.ndim == 2}
    if len(lengths) != 1 or 0 in lengths:
        found = ", ".join(str(n) for n in sorted(lengths)) or "no"
        raise InputError(f"tasks with {found} frames", "Give targets (F, 3) of one length; a single target is held")
    targets = np.zeros((lengths.pop(), len(goals), 4))
    for row, goal in enumerate(goals):
        targets[:, row, : goal.shape[-1]] = goal
    active = np.ones(targets.shape[:2], dtype=np.bool_)
    if valid is not None:
        given = frozen_bools(valid, len(targets), len(task_trajectories), name="valid")
        active = np.ascontiguousarray(given[:, list(problem.goals)])
    count = default if max_iterations is None else require_int(max_iterations, "max_iterations", 0)
    run = build_solver_inputs(body, problem, targets[0], limits, count, variant, step, start, NO_HISTORY)
    run = replace(run, active=active[0], pace=build_speed_limits(body, limits, max_turn))
    guess = guess_from_pose(body, start)
    # The first frame is solved as by `solve_ik`, the others from the answer before
    solve_with_restarts(run, guess, method, body, limits, restarts=6 if start is None else 0)
    clip, is_left = solve_frames(run, guess, method, body, limits, Goals(targets, active))
    # What is missing of each task in each frame
    frames, num_tasks = len(targets), len(task_trajectories)
    sizes = np.sqrt((clip.errors**2).sum(axis=-1))
    errors, reached = np.zeros((frames, num_tasks)), np.ones((frames, num_tasks), dtype=np.bool_)
    rows = list(problem.goals)
    errors[:, rows], reached[:, rows] = sizes, (sizes <= problem.layout.blocks.tolerances) | ~active
    is_place = ~np.array(problem.is_angle, dtype=np.bool_)
    places = sizes[:, is_place].max(axis=1) if is_place.any() else np.zeros(frames)
    motion = Motion(body.skeleton, rate_hz, clip.roots, SO3(clip.wxyz), name="tracked")
    status, advice = _read_clip_status(reached, clip, is_left)
    coordinates = clip.x if body.model is not None else None
    result = IKTrackResult(status, motion, clip.iterations, errors, reached, places, coordinates, clip.is_held, advice)
    raise_if_asked("track", result.status, result.advice, result, on_failure)
    return result


def _read_clip_status(reached: BoolArray, clip: ClipSolution, is_left: BoolArray) -> tuple[SolveStatus, str]:
    missed, left = np.flatnonzero(~reached.all(axis=1)), np.flatnonzero(is_left)
    note = f" In {len(left)} frames, first in {left[0]}: {MODEL_LIMITS_CONFLICT}" if len(left) else ""
    if held := int(clip.is_held[missed].sum()):
        note += f" {held} of them were held back so that no joint jumps; max_turn=None lets them."
    if not len(missed):
        return SolveStatus.CONVERGED, f"All goals are met in all frames.{note}"
    first, total = int(missed[0]), len(missed)
    if (clip.stops[missed] == STATIONARY).all():
        advice = "Each is the nearest pose that could be found; "
        advice += "move the goals, free the root, or loosen the tolerances."
        return SolveStatus.INFEASIBLE, f"Goals are missed in {total} frames, first in frame {first}. {advice}{note}"
    advice = f"Goals are missed in {total} frames, first in {first}. Raise max_iterations.{note}"
    return SolveStatus.ITERATION_LIMIT, advice
