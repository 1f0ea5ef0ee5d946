"""One call of a method as plain data, and the calls of the compiled loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.kinematics.ik.coordinates import ModelSpace
from marey.kinematics.ik.dense_step import MARQUARDT
from marey.kinematics.ik.levenberg_marquardt import DenseStep, StopRule, solve_pose
from marey.kinematics.ik.pace import ClipSolution, solve_dense_clip
from marey.kinematics.ik.problem import IKProblem
from marey.kinematics.ik.state import NO_SPEED_LIMITS, Goals, PoseArrays, SpeedLimits
from marey.kinematics.limits.contract import JointLimits
from marey.kinematics.limits.tables import BOX, FREE, Bounds

START_DAMPING: Final = 2e-2  # [-] of the objective; fewest iterations cold, 0.2 to 0.9 rad a joint away, and warm


@dataclass(slots=True)
class Guess:
    """A pose on its way, overwritten by the solvers."""

    root: FloatArray  # (3,) [m]
    wxyz: FloatArray  # (J, 4)
    x: FloatArray  # (k,) coordinates of the model, if any

    def copy(self) -> Guess:
        """Return another guess of the same pose."""
        return Guess(self.root.copy(), self.wxyz.copy(), self.x.copy())

    def assign(self, other: Guess) -> None:
        """Overwrite the pose by another."""
        self.root[:], self.wxyz[:], self.x[:] = other.root, other.wxyz, other.x


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

    @property
    def goals(self) -> Goals:
        """Targets and flags of the blocks."""
        return Goals(self.targets, self.active)

    def pose_arrays(self, guess: Guess) -> PoseArrays:
        """Return a guess and its errors as the kernels take them."""
        return PoseArrays(guess.root, guess.wxyz, guess.x, self.errors)


def full_pose_space(run: SolverInputs) -> ModelSpace:
    """The space that a solver works in, as arrays."""
    joints = run.problem.skeleton.num_joints
    nothing = np.zeros(0)
    return run.space or ModelSpace(False, 0, np.zeros((joints, 4)), np.zeros((joints, 3, 0)), nothing, nothing)


def select_bounds(bounds: Bounds | None) -> Bounds | None:
    """Limits that are no boxes: those are part of the layout in the full space."""
    return None if bounds is None or bounds.kind <= BOX else bounds


def solve_dual_pose(run: SolverInputs, guess: Guess, bounds: Bounds | None) -> SolverOutcome:
    """Solve one pose in the full space, under the boxes of the problem or under other limits."""
    pose, stop = (guess.root, guess.wxyz, guess.x, run.errors), (run.max_iterations, run.problem.seek_optimum)
    ended = solve_pose(run.problem.fields, bounds, (run.targets, run.active), pose, stop, START_DAMPING, run.history)
    return SolverOutcome(*ended[:5])


def allocate_clip(frames: int, joints: int, coordinates: int, blocks: int) -> ClipSolution:
    """Room for F frames."""
    return ClipSolution(
        np.empty((frames, 3)),
        np.empty((frames, joints, 4)),
        np.empty((frames, coordinates)),
        np.zeros((frames, blocks, 3)),
        np.zeros(frames, dtype=np.int64),
        np.zeros(frames, dtype=np.int64),
        np.zeros(frames, dtype=np.int64),
        np.zeros(frames),
        np.zeros(frames),
        np.zeros(frames),
        np.zeros(frames, dtype=np.bool_),
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
    solve_dense_clip(p.layout, bounds, dense, run.pace, goals, run.pose_arrays(guess), stop, clip, run.history)
