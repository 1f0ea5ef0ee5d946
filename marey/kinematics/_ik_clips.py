"""One call of a method as plain data, and the compiled loops over its frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.kinematics._ik_layout import NO_SPEED_LIMITS, SpeedLimits
from marey.kinematics._ik_problem import IKProblem
from marey.kinematics._limits import JointLimits
from marey.kinematics._limits_tables import Bounds

if TYPE_CHECKING:
    from marey.kinematics._solvers_space_kernels import ModelSpace

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
    from marey.kinematics._solvers_space_kernels import ModelSpace

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
    from marey.kinematics._ik_follow_kernels import solve_paced_clip

    p = run.problem
    asked = (p.layout, bounds, run.pace, targets, active, guess.root, guess.wxyz, run.max_iterations, p.seek_optimum)
    solve_paced_clip(*asked, START_DAMPING, clip.roots, clip.wxyz, clip.errors, clip.counts)


def solve_clip_limited(
    run: SolverInputs, guess: Guess, bounds: Bounds, targets: FloatArray, active: BoolArray, clip: ClipSolution
) -> int:
    """Fill a clip in the full space under limits of any kind; return the evaluations."""
    from marey.kinematics._ik_limited_kernels import solve_limited_clip

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
    from marey.kinematics._ik_walled_kernels import solve_penalised_clip

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
    from marey.kinematics._solvers_newton_kernels import MARQUARDT, solve_newton_clip

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
