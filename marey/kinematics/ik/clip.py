"""Inverse kinematics of whole clips: each frame starts from the one before, by any method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, FloatArray, InputError, IntArray, Result, frozen_bools
from marey.kinematics.ik.levenberg_marquardt import REGION_TOL_RAD
from marey.kinematics.ik.methods import find_method
from marey.kinematics.ik.pace import ClipSolution
from marey.kinematics.ik.posing.attempts import (
    NO_HISTORY,
    build_solver_inputs,
    compile_tasks,
    measure_blocks,
    name_worst_joint,
    require_int,
    solve_with_restarts,
)
from marey.kinematics.ik.posing.continuation import LIMB_FRACTION, MAX_STEP_RATIO, body_reach, solve_frames
from marey.kinematics.ik.posing.starts import (
    MAX_SIGMA,
    TRUNK,
    TRUNK_WEIGHT,
    Feet,
    default_limits,
    find_middle,
    guess_from_pose,
    match_body,
    name_pins,
    plant_feet,
)
from marey.kinematics.ik.problem import Root
from marey.kinematics.ik.solve import LIMIT_TOL_RAD, MODEL_LIMITS_CONFLICT
from marey.kinematics.ik.state import STATIONARY, Goals, SpeedLimits
from marey.kinematics.ik.tasks import LookAtTask, PoseTask, Task
from marey.kinematics.limits.anatomy.model import AnatomicalLimits
from marey.kinematics.limits.contract import JointLimits
from marey.lie import SO3
from marey.models import PoseModel
from marey.motion import Motion
from marey.numerics import SolveStatus
from marey.numerics.programme import OnFailure, check_on_failure, raise_if_asked
from marey.skeleton import Pose, Skeleton, role_map


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IKTrackResult(Result):
    """A clip that follows its tasks, and how near it came in each frame."""

    status: SolveStatus  # CONVERGED when every goal is reached in every frame
    motion: Motion
    iterations: IntArray  # (F,)
    errors: FloatArray  # (F, T) [m] or [rad]; 0 for a pose task and where a task was skipped
    reached: BoolArray  # (F, T)
    skipped: BoolArray  # (F, T) goals that did not count: a NaN, or not ``valid``
    position_error_m: FloatArray  # (F,) [m] the largest of all places
    coordinates: FloatArray | None  # (F, k) of the model, in a reduced space
    held_back: BoolArray  # (F,) frames whose pose would have jumped: see ``max_turn``
    planted: tuple[str, ...]  # joints that keep position and orientation: see ``feet``
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
    limits: JointLimits | Literal["auto"] | None = "auto",
    method: str = "projected-lm",
    valid: ArrayLike | None = None,
    max_iterations: int | None = None,
    tolerance_m: float = 1e-3,
    tolerance_rad: float = 1e-3,
    root: Root = "auto",
    feet: Feet = "auto",
    frozen_joints: Sequence[str | int] = (),
    variant: str | None = None,
    max_sigma: float | None = MAX_SIGMA,
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

    What goals of a person's hands, feet and head leave open of trunk and collars is as it is in ``start``, unless a
    :class:`PoseTask` says otherwise: frame after frame a trunk would wring more and more.

    Args:
        model_or_skeleton: what is posed.
        task_trajectories: tasks whose targets have one row for each frame, or one that is held.
        rate_hz: frames per second of the clip.
        start: where the first frame begins.
        limits: hold in every frame; as in :func:`solve_ik`.
        method: as in :func:`solve_ik`.
        valid: ``(F, T)`` frames in which each task counts (a marker was seen); all by default. Targets with a NaN
            do not count either.
        max_iterations: of each frame.
        tolerance_m: a place within this is reached [m].
        tolerance_rad: an orientation within this is reached [rad].
        root: as in :func:`solve_ik`.
        feet: as in :func:`solve_ik`; those that stand in the start pose stay planted in all frames.
        frozen_joints: joints that keep their rotation.
        variant: as in :func:`solve_ik`.
        max_sigma: as in :func:`solve_ik`.
        step: as in :func:`solve_ik`.
        max_turn: largest turn of a joint between frames, in units of what the goals ask for; ``None`` for no bound.
        on_failure: ``"return"`` the clip with its errors, or ``"raise"``.

    Raises:
        InputError: targets of different lengths, and all that :func:`solve_ik` refuses.
    """
    check_on_failure(on_failure)
    body = match_body(model_or_skeleton, start, None)
    limits = default_limits(limits, body)
    body = match_body(model_or_skeleton, start, limits)
    is_advice = isinstance(limits, AnatomicalLimits) and limits.is_advice
    tasks = list(task_trajectories)
    if is_advice and start is not None and method == "projected-lm" and body.model is None:
        # Springs of trunk and collars towards the start pose, below the goals; none where the tasks have springs
        roles = role_map(start.skeleton)
        trunk = tuple(roles[role] for role in TRUNK if role in roles)
        if trunk and not any(isinstance(task, PoseTask) for task in tasks):
            tasks.append(PoseTask(start, joints=trunk, weight=TRUNK_WEIGHT))
    _, default = find_method(method)
    pins = plant_feet(body, tasks, start, root, feet, rate_hz)
    problem = compile_tasks(body, tasks, limits, root, frozen_joints, tolerance_m, tolerance_rad, pins)
    # Targets (F, B, 4) of all frames, and when they count
    goals = [task.goal for task in (*tasks, *pins) if not isinstance(task, PoseTask)]
    lengths = {len(goal) for goal in goals if goal.ndim == 2}
    if len(lengths) != 1 or 0 in lengths:
        found = ", ".join(str(n) for n in sorted(lengths)) or "no"
        raise InputError(f"tasks with {found} frames", "Give targets (F, 3) of one length; a single target is held")
    targets = np.zeros((lengths.pop(), len(goals), 4))
    for row, goal in enumerate(goals):
        targets[:, row, : goal.shape[-1]] = goal
    frames, num_tasks, rows = len(targets), len(task_trajectories), list(problem.goals)
    active = ~np.isnan(targets[..., 0])
    targets[~active] = 0.0
    if valid is not None:
        active[:, : len(rows)] &= frozen_bools(valid, frames, num_tasks, name="valid")[:, rows]
    count = default if max_iterations is None else require_int(max_iterations, "max_iterations", 0)
    run = build_solver_inputs(body, problem, targets[0], active[0], limits, count, variant, step, max_sigma, NO_HISTORY)
    # Largest step of a pose per frame, and the middle of its limits
    most = np.inf if max_turn is None else float(max_turn)
    if not most > 0.0:
        raise InputError(f"max_turn is {max_turn}", "Give a positive number, or None for no bound")
    middle = np.zeros((0, 4)) if limits is None else find_middle(limits)
    run = run._replace(pace=SpeedLimits(most, LIMB_FRACTION * body_reach(body.skeleton), middle))
    guess = guess_from_pose(body, start)
    # The first frame is solved as by `solve_ik`, the others from the answer before
    solve_with_restarts(run, guess, method, body, limits, restarts=6 if start is None else 0)
    clip, is_left = solve_frames(run, guess, method, body, limits, Goals(targets, active))
    # What is missing of each task in each frame, measured anew
    motion = Motion(body.skeleton, rate_hz, clip.roots, SO3(clip.wxyz), name="tracked")
    sizes = measure_blocks(problem, targets, active, clip.roots, clip.wxyz).sizes
    is_met = (sizes <= problem.layout.blocks.tolerances * (1.0 + 1e-9)) | ~active
    is_met[:, [len(rows) + i for i, pin in enumerate(pins) if isinstance(pin, LookAtTask)]] = True
    errors, reached = np.zeros((frames, num_tasks)), np.ones((frames, num_tasks), dtype=np.bool_)
    skipped = np.zeros((frames, num_tasks), dtype=np.bool_)
    tasked = slice(0, len(rows))
    errors[:, rows], reached[:, rows], skipped[:, rows] = sizes[:, tasked], is_met[:, tasked], ~active[:, tasked]
    is_place = ~np.array(problem.is_angle, dtype=np.bool_)
    places = sizes[:, is_place].max(axis=1) if is_place.any() else np.zeros(frames)
    violation = np.zeros((frames, 1)) if limits is None else limits.violations(motion.rotations)
    status, advice = _read_clip_status(is_met, clip, is_left, violation, is_advice, body.skeleton)
    coordinates = clip.x if body.model is not None else None
    result = IKTrackResult(
        status,
        motion,
        clip.iterations,
        errors,
        reached,
        skipped,
        places,
        coordinates,
        clip.is_held,
        name_pins(body.skeleton, pins),
        advice,
    )
    raise_if_asked("track", result.status, result.advice, result, on_failure)
    return result


def _read_clip_status(
    is_met: BoolArray,
    clip: ClipSolution,
    is_left: BoolArray,
    violation: FloatArray,
    is_advice: bool,
    skeleton: Skeleton,
) -> tuple[SolveStatus, str]:
    missed, left = np.flatnonzero(~is_met.all(axis=1)), np.flatnonzero(is_left)
    note = f" In {len(left)} frames, first in {left[0]}: {MODEL_LIMITS_CONFLICT}" if len(left) else ""
    if held := int(clip.is_held[missed].sum()):
        note += f" {held} of them were held back so that no joint jumps; max_turn=None lets them."
    outside = np.flatnonzero(violation.max(axis=1) > (REGION_TOL_RAD if is_advice else LIMIT_TOL_RAD))
    worst = int(violation.max(axis=1).argmax())
    named = name_worst_joint(skeleton.names, violation[worst])
    if len(outside) and is_advice:
        note += f" Captured people do not combine joints as in {len(outside)} frames: in frame {worst}, {named}."
    elif len(outside):
        return SolveStatus.STALLED, f"Limits do not hold in {len(outside)} frames: in frame {worst}, {named}.{note}"
    if not len(missed):
        return SolveStatus.CONVERGED, f"All goals are met in all frames.{note}"
    first, total = int(missed[0]), len(missed)
    if (clip.stops[missed] == STATIONARY).all():
        advice = "Each is the nearest pose that could be found; "
        advice += "move the goals, free the root, or loosen the tolerances."
        return SolveStatus.INFEASIBLE, f"Goals are missed in {total} frames, first in frame {first}. {advice}{note}"
    advice = f"Goals are missed in {total} frames, first in {first}. Raise max_iterations.{note}"
    return SolveStatus.ITERATION_LIMIT, advice
