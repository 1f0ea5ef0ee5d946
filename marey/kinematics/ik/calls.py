"""One call of a method as plain data, and the compiled loops over its frames, inside limits and bounds of pace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, inline_kernel, kernel
from marey.kinematics.ik.coordinates import ModelSpace
from marey.kinematics.ik.full_space import REACHED, STATIONARY, evaluate_goals, solve_full
from marey.kinematics.ik.full_space_limited import solve_limited, solve_limited_clip
from marey.kinematics.ik.moves import (
    blend_towards,
    clamp_joint_steps,
    largest_joint_step,
    max_joint_step,
    scale_pose_step,
)
from marey.kinematics.ik.problem import IKProblem
from marey.kinematics.ik.reduced import MARQUARDT, solve_newton_clip
from marey.kinematics.ik.reduced_limited import solve_penalised_clip
from marey.kinematics.ik.state import NO_SPEED_LIMITS, IKLayout, SpeedLimits
from marey.kinematics.limits.contract import JointLimits
from marey.kinematics.limits.tables import BOX, FREE, Bounds, project_to_bounds

MAX_REPAIRS = 3  # times that a pose is held back and the joints that are not held take over
REPAIR_ITERATIONS = 12  # of each of them
NUDGE_FRACTIONS = (0.15, 0.5, 1.0)  # [-] of the way to the middle of the limits, when goals are missed
MIN_IMPROVEMENT = 0.5  # [-] of the objective: less than this is worth another branch of answers
MAX_WAIT_FRAMES = 16  # frames without another try, after tries that found nothing


@inline_kernel
def solve_frame(
    layout: IKLayout,
    bounds: Bounds,
    targets: FloatArray,
    active: BoolArray,
    root: FloatArray,
    wxyz: FloatArray,
    errors: FloatArray,
    max_iterations: int,
    seek_optimum: bool,
    start_damping: float,
) -> tuple[int, int, int, float, float]:
    """As ``solve_full``, or ``solve_limited`` under limits that are no boxes."""
    history = np.zeros((0, 4))
    how = (max_iterations, seek_optimum, start_damping, history)
    if bounds.kind > BOX:
        return solve_limited(layout, bounds, targets, active, root, wxyz, errors, *how)
    return solve_full(layout, targets, active, root, wxyz, errors, *how)


@inline_kernel
def solve_from_interior(
    layout: IKLayout,
    bounds: Bounds,
    pace: SpeedLimits,
    targets: FloatArray,
    active: BoolArray,
    last_root: FloatArray,
    last_wxyz: FloatArray,
    root: FloatArray,
    wxyz: FloatArray,
    errors: FloatArray,
    max_iterations: int,
    seek_optimum: bool,
    start_damping: float,
    found: tuple[int, int, int, float, float],
) -> tuple[int, int, int, float, float]:
    """Solve anew from the last pose moved off its bounds: a joint on one, a straight knee say, may be stuck there.

    Keeps the answer that reaches all goals, or one with less than half of the objective, else what was found.
    """
    best, spent = found, found[1]
    for n in range(len(NUDGE_FRACTIONS)):
        other, turns, missing = last_root.copy(), last_wxyz.copy(), np.zeros_like(errors)
        blend_towards(layout.springs.mobility, pace.middle, NUDGE_FRACTIONS[n], turns)
        tried = solve_frame(
            layout, bounds, targets, active, other, turns, missing, max_iterations, seek_optimum, start_damping
        )
        spent += tried[1]
        if tried[0] == REACHED or tried[3] < MIN_IMPROVEMENT * best[3]:
            best = tried
            root[:], wxyz[:], errors[:] = other, turns, missing
        if tried[0] == REACHED:
            break
    return best[0], spent, best[2], best[3], best[4]


@inline_kernel
def limit_frame_step(
    layout: IKLayout,
    bounds: Bounds,
    pace: SpeedLimits,
    most: float,
    targets: FloatArray,
    active: BoolArray,
    last_root: FloatArray,
    last_wxyz: FloatArray,
    root: FloatArray,
    wxyz: FloatArray,
    errors: FloatArray,
    seek_optimum: bool,
    start_damping: float,
) -> tuple[float, bool]:
    """Keep every joint within ``most`` [rad] of the last pose; return the objective and whether all is reached.

    Joints that would turn further are held, and the others take over what they can. What is left to do is done in the
    frames that follow. A pose that is on its way as a whole, all joints by the same part, is taken if it is nearer.
    """
    whole, turns, missing = last_root.copy(), last_wxyz.copy(), np.zeros_like(errors)
    scale_pose_step(last_root, last_wxyz, root, wxyz, most, pace.limb_m, whole, turns)
    clamp_joint_steps(last_root, last_wxyz, root, wxyz, most, pace.limb_m)
    for _ in range(MAX_REPAIRS):
        solve_frame(layout, bounds, targets, active, root, wxyz, errors, REPAIR_ITERATIONS, seek_optimum, start_damping)
        clamp_joint_steps(last_root, last_wxyz, root, wxyz, most, pace.limb_m)
    if bounds.kind != FREE:
        project_to_bounds(bounds, wxyz)
        project_to_bounds(bounds, turns)
    cost, is_reached = evaluate_goals(layout, targets, active, root, wxyz, errors)
    whole_cost, is_whole = evaluate_goals(layout, targets, active, whole, turns, missing)
    if whole_cost < cost and not is_reached:
        root[:], wxyz[:], errors[:] = whole, turns, missing
        return whole_cost, is_whole
    return cost, is_reached


@kernel
def solve_paced_clip(
    layout: IKLayout,
    bounds: Bounds,
    pace: SpeedLimits,
    targets: FloatArray,
    active: BoolArray,
    root: FloatArray,
    wxyz: FloatArray,
    max_iterations: int,
    seek_optimum: bool,
    start_damping: float,
    roots: FloatArray,
    rotations: FloatArray,
    errors: FloatArray,
    counts: FloatArray,
) -> None:
    """Solve frame after frame, each from the answer before, the first from ``root`` and ``wxyz``.

    Writes ``roots`` ``(F, 3)``, ``rotations`` ``(F, J, 4)``, ``errors`` ``(F, B, 3)`` and ``counts`` ``(F, 6)``: how it
    ended, iterations, objective, projected gradient, zero, and 1 where the pose was held back.
    """
    place, turns = root.copy(), wxyz.copy()
    last_place, last_turns, wait, pause = root.copy(), wxyz.copy(), 0, 1
    for f in range(targets.shape[0]):
        last_place[:], last_turns[:] = place, turns
        goals, flags, missing = targets[f], active[f], errors[f]
        found = solve_frame(
            layout, bounds, goals, flags, place, turns, missing, max_iterations, seek_optimum, start_damping
        )
        if found[0] != REACHED and pace.middle.shape[0] > 0:
            wait -= 1
            if wait <= 0:
                first = found[3]
                found = solve_from_interior(
                    layout,
                    bounds,
                    pace,
                    goals,
                    flags,
                    last_place,
                    last_turns,
                    place,
                    turns,
                    missing,
                    max_iterations,
                    seek_optimum,
                    start_damping,
                    found,
                )
                pause = 1 if found[3] < first else min(2 * pause, MAX_WAIT_FRAMES)
                wait = pause
        else:
            wait, pause = 0, 1
        stop, cost = found[0], found[3]
        most = max_joint_step(layout, pace, targets, active, f)
        if largest_joint_step(last_turns, turns, last_place, place, pace.limb_m) > most:
            cost, is_reached = limit_frame_step(
                layout,
                bounds,
                pace,
                most,
                goals,
                flags,
                last_place,
                last_turns,
                place,
                turns,
                missing,
                seek_optimum,
                start_damping,
            )
            stop, counts[f, 5] = REACHED if is_reached else STATIONARY, 1.0
        roots[f], rotations[f] = place, turns
        counts[f, 0], counts[f, 1], counts[f, 2], counts[f, 3] = stop, found[1], cost, found[4]


ALLOWED_RAD: Final = 1e-6  # [rad] a pose of a model is inside the limits to this
START_DAMPING: Final = 2e-2  # [-] of the objective; fewest iterations cold, 0.2 to 0.9 rad a joint away, and warm


@dataclass(slots=True)
class Guess:
    """A pose on its way, overwritten by the solvers."""

    root: FloatArray  # (3,) [m]
    wxyz: FloatArray  # (J, 4)
    x: FloatArray  # (k,) coordinates of the model, if any


class SolverOutcome(NamedTuple):
    """How a solver ended: 0 reached, 1 stationary, 2 out of iterations."""

    stop: int
    iterations: int
    evaluations: int
    objective: float
    gradient: float
    is_left: bool = False  # the pose is not one of the model: the model and the limits disagree


@dataclass(frozen=True, slots=True, eq=False)
class SolverInputs:
    """One call of a method: everything but the guess."""

    problem: IKProblem
    targets: FloatArray  # (B, 4)
    active: BoolArray  # (B,)
    space: ModelSpace | None  # a pose model, or None in the full space
    limits: JointLimits | None  # of a kind that only Python knows
    max_iterations: int
    variant: str | None
    step: float | None
    metric: FloatArray  # (n, n) of the reduced space, or empty
    history: FloatArray  # (H, 4) written
    errors: FloatArray  # (B, 3) written
    pace: SpeedLimits = NO_SPEED_LIMITS  # of a clip


def full_pose_space(run: SolverInputs) -> ModelSpace:
    """The space that a solver works in, as arrays."""
    joints = run.problem.skeleton.num_joints
    nothing = np.zeros(0)
    return run.space or ModelSpace(False, 0, np.zeros((joints, 4)), np.zeros((joints, 3, 0)), nothing, nothing)


@dataclass(slots=True)
class ClipSolution:
    """Answers of F frames, written by the compiled loops."""

    roots: FloatArray  # (F, 3)
    wxyz: FloatArray  # (F, J, 4)
    x: FloatArray  # (F, k)
    errors: FloatArray  # (F, B, 3)
    counts: FloatArray  # (F, 6) how it ended, iterations, objective, projected gradient, flags: model left, held back


def allocate_clip(frames: int, joints: int, coordinates: int, blocks: int) -> ClipSolution:
    """Room for F frames."""
    return ClipSolution(
        np.empty((frames, 3)),
        np.empty((frames, joints, 4)),
        np.empty((frames, coordinates)),
        np.zeros((frames, blocks, 3)),
        np.zeros((frames, 6)),
    )


def allocate_frame(run: SolverInputs, guess: Guess) -> ClipSolution:
    """Room for one frame."""
    return allocate_clip(1, len(guess.wxyz), len(guess.x), len(run.errors))


def solve_clip_full(
    run: SolverInputs, guess: Guess, bounds: Bounds, targets: FloatArray, active: BoolArray, clip: ClipSolution
) -> None:
    """Fill a clip in the full space, at its pace."""
    p = run.problem
    asked = (p.layout, bounds, run.pace, targets, active, guess.root, guess.wxyz, run.max_iterations, p.seek_optimum)
    solve_paced_clip(*asked, START_DAMPING, clip.roots, clip.wxyz, clip.errors, clip.counts)


def solve_clip_limited(
    run: SolverInputs, guess: Guess, bounds: Bounds, targets: FloatArray, active: BoolArray, clip: ClipSolution
) -> int:
    """Fill a clip in the full space under limits of any kind; return the evaluations."""
    p = run.problem
    asked = (p.layout, bounds, targets, active, guess.root, guess.wxyz, run.max_iterations, p.seek_optimum)
    return solve_limited_clip(*asked, START_DAMPING, run.history, clip.roots, clip.wxyz, clip.errors, clip.counts)


def solve_clip_penalised(
    run: SolverInputs,
    guess: Guess,
    space: ModelSpace,
    bounds: Bounds,
    targets: FloatArray,
    active: BoolArray,
    clip: ClipSolution,
) -> int:
    """Fill a clip in the space of a model, limits behind walls; return the evaluations."""
    p = run.problem
    return solve_penalised_clip(
        p.layout,
        space,
        bounds,
        initial_penalty_weight(p),
        targets,
        active,
        guess.root,
        guess.wxyz,
        guess.x,
        run.metric,
        run.max_iterations,
        p.seek_optimum,
        run.variant == "marquardt",
        run.pace,
        run.history,
        clip.roots,
        clip.wxyz,
        clip.x,
        clip.errors,
        clip.counts,
    )


def initial_penalty_weight(problem: IKProblem) -> float:
    """Weight [1/rad²] at which a joint that is a radian outside counts like a goal missed by the body's own reach."""
    weights, rest = problem.layout.blocks.weights, problem.skeleton.rest_positions()
    reach = float(np.linalg.norm(rest - rest[0], axis=1).max())
    return float(np.trace(weights, axis1=1, axis2=2).max(initial=1e-9)) / 3.0 * max(reach, 1e-3) ** 2


def relative_damping_flag(run: SolverInputs) -> float:
    """One where Marquardt's own metric is asked for, else zero."""
    return 1.0 if run.variant == "marquardt" else 0.0


def solve_clip_newton(
    run: SolverInputs,
    guess: Guess,
    how: tuple[int, float] | None,
    targets: FloatArray,
    active: BoolArray,
    clip: ClipSolution,
) -> int:
    """Fill a clip by a method that uses curvature, Marquardt's by default; return the evaluations."""
    p = run.problem
    code, option = how or (MARQUARDT, relative_damping_flag(run))
    return solve_newton_clip(
        p.layout,
        full_pose_space(run),
        targets,
        active,
        guess.root,
        guess.wxyz,
        guess.x,
        run.metric,
        run.max_iterations,
        p.seek_optimum,
        code,
        option,
        run.pace,
        run.history,
        clip.roots,
        clip.wxyz,
        clip.x,
        clip.errors,
        clip.counts,
    )
