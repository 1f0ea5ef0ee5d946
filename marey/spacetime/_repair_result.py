"""What a repair or an edit gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from marey.base import FloatArray
from marey.dynamics import ValidityReport
from marey.motion import Motion
from marey.numerics import SolveStatus, SQPIteration


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RepairResult:
    """The clip after the change, and what it took."""

    status: SolveStatus
    motion: Motion
    guess: Motion  # the clip before
    violation: float  # largest, of scaled rows
    iterations: int
    seconds: float
    before: ValidityReport
    after: ValidityReport
    change_rad: float  # root mean square over joints and frames of the stretch
    change_m: float  # largest move of the root
    displacement: FloatArray  # (K, D) control points added to the coordinates, of all passes
    worst: tuple[tuple[str, float], ...]
    history: tuple[SQPIteration, ...]
    advice: str

    @property
    def is_solved(self) -> bool:
        """Whether the search converged, or at least left more of the clip green than before."""
        return self.status is SolveStatus.CONVERGED or self.after.valid_fraction > self.before.valid_fraction

    @property
    def sentence(self) -> str:
        """What happened, in one line."""
        green = f"{100 * self.before.valid_fraction:.0f} % green before, {100 * self.after.valid_fraction:.0f} % after"
        moved = f"joints moved {np.rad2deg(self.change_rad):.1f}° (rms), the root at most {100 * self.change_m:.1f} cm"
        return f"{self.motion.name}: {green}; {moved}; {self.iterations} iterations, {self.seconds:.2f} s"

    def to_json(self) -> dict[str, Any]:
        """Plain data, without the motions."""
        return {
            "status": self.status.value,
            "violation": self.violation,
            "iterations": self.iterations,
            "seconds": self.seconds,
            "valid_before": self.before.valid_fraction,
            "valid_after": self.after.valid_fraction,
            "change_rad": self.change_rad,
            "change_m": self.change_m,
            "worst": [{"row": name, "violation": value} for name, value in self.worst],
            "advice": self.advice,
        }

    def __repr__(self) -> str:
        return f"RepairResult({self.status}, {self.sentence})"


def measure_changes(before: Motion, after: Motion, frames: slice) -> tuple[float, float]:
    """Turn of joints against their parents, root mean square [rad], and largest move of the root [m]."""
    turned = (before.rotations[frames].inverse() @ after.rotations[frames]).log()
    moved = np.linalg.norm(after.root_positions - before.root_positions, axis=-1)
    return float(np.sqrt((turned**2).sum(axis=-1).mean())), float(moved.max())
