"""What a search found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.graph._ara import EMPTY
from marey.motion import Motion

OPTIMAL: Final = "OPTIMAL"
BOUNDED: Final = "BOUNDED"


@dataclass(frozen=True, slots=True, eq=False)
class SearchSolution:
    """One solution on the way to the best."""

    epsilon: float  # asked for
    proved: float  # cost is at most this times the best
    cost: float
    expansions: int
    seconds: float
    k: int = 1  # motions that are blended
    places: FloatArray = field(default_factory=lambda: np.zeros((0, 2)), repr=False)  # (n, 2) [m] root along the way


@dataclass(frozen=True, slots=True, eq=False)
class PathStep:
    """One edge of a way, or two that are blended."""

    edge: int
    other: int  # the same as ``edge`` if nothing is blended
    weight: float  # of ``edge``; 1 - weight of ``other``
    place: FloatArray  # (3,) anchor at its start: x, z [m], yaw [rad]
    hold_s: float = 0.0  # [s] for which the pose at its end is held
    stretches: tuple[tuple[int, int], ...] = ()  # poses shown instead of the edge's own, if it had to be replaced

    @property
    def is_blended(self) -> bool:
        """Whether two edges are blended."""
        return self.edge != self.other


@dataclass(frozen=True, eq=False)
class SearchResult:
    """A way through the graph, or why there is none."""

    status: str  # "OPTIMAL", "BOUNDED", or a code: why there is nothing
    steps: tuple[PathStep, ...] = ()
    places: FloatArray = field(default_factory=lambda: np.zeros((0, 3)))  # (len(steps) + 1, 3) anchors
    start: int = EMPTY  # state of the graph
    cost: float = np.inf
    epsilon: float = np.inf  # cost is at most this times the best
    expansions: int = 0
    seconds: float = 0.0
    history: tuple[SearchSolution, ...] = ()
    found_errors: tuple[float, ...] = ()  # [m] at which the search has met each constraint, the goal last
    met: tuple[int, ...] = ()  # step at whose end each constraint was met
    violations: int = 0  # of consistency, counted while expanding
    stopped: str = ""  # what ended the search before its end: "TIMEOUT", "CANCELLED", "MEMORY"
    advice: str = ""
    tolerance_m: float = np.inf  # of hands and pinned roots in the final motion
    rebuild: Callable[[SearchResult], tuple[Motion, tuple[float, ...]]] | None = None

    @property
    def is_solved(self) -> bool:
        """Whether there is a way."""
        return bool(self.steps)

    @property
    def edges(self) -> tuple[int, ...]:
        """Edges of the way; of a blend the one with the greater weight."""
        return tuple(step.edge if step.weight >= 0.5 else step.other for step in self.steps)

    @cached_property
    def motion(self) -> Motion | None:
        """The motion of the way, rebuilt when first asked for; None if there is no way."""
        return None if self._final is None else self._final[0]

    @cached_property
    def errors(self) -> tuple[float, ...]:
        """Distance [m] at which each constraint is met, the goal last.

        As found by the search; where that is more than was asked for, since arm and spine do the rest, of the motion.
        """
        if max(self.found_errors[:-1] or self.found_errors, default=0.0) <= self.tolerance_m or self._final is None:
            return self.found_errors
        return self._final[1]

    @cached_property
    def _final(self) -> tuple[Motion, tuple[float, ...]] | None:
        return self.rebuild(self) if self.is_solved and self.rebuild is not None else None

    def __repr__(self) -> str:
        if not self.is_solved:
            return f"SearchResult({self.status}: {self.advice})"
        return (
            f"SearchResult({self.status}, {len(self.steps)} steps, cost {self.cost:.4g} <= {self.epsilon:.3g} best, "
            f"{self.expansions} expansions, {self.seconds:.2f} s)"
        )
