"""What inverse kinematics answers."""

from __future__ import annotations

from dataclasses import dataclass

from marey.base import BoolArray, FloatArray
from marey.numerics import SolveStatus
from marey.skeleton import Pose

KKT_TOL = 1e-4  # [-] projected gradient, relative to 1 + objective, of a pose that nothing near it beats

MODEL_LIMITS_CONFLICT = (
    "The model and the limits disagree: no pose of the model near the goals is inside the limits, so this is the "
    "nearest one that is. Fit both on the same clips, or widen the limits."
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IKResult:
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
    note = (
        f" The start was outside the limits by {start_moved_rad:.3g} rad and was moved."
        if start_moved_rad > 0.0
        else ""
    )
    note += f" {MODEL_LIMITS_CONFLICT}" if is_left else ""
    if status is SolveStatus.CONVERGED:
        return f"All goals are met.{note}"
    names = ", ".join(missed)
    if status is SolveStatus.INFEASIBLE:
        cause = "out of reach or against a limit" if has_limits else "out of reach"
        cure = "move the goals, free the root, or lower their weight"
        return f"Goals {cause}: {names}. This is the nearest pose; {cure}.{note}"
    if status is SolveStatus.STALLED:
        return (
            f"Goals missed: {names}. No step improves this pose; try another start, or the method 'projected-lm'.{note}"
        )
    return f"Goals missed: {names}. Raise max_iterations or loosen the tolerances.{note}"


def read_status(is_reached: bool, stop: int, objective: float, gradient: float) -> SolveStatus:
    """Read how a compiled solver ended: 0 reached, 1 stationary, 2 out of iterations."""
    if is_reached and stop < 2:
        return SolveStatus.CONVERGED
    if 0.0 < gradient <= KKT_TOL * (1.0 + objective) and not is_reached:
        return SolveStatus.INFEASIBLE
    return SolveStatus.STALLED if stop == 1 else SolveStatus.ITERATION_LIMIT
