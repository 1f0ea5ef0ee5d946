"""Constraints of a motion in reduced space, in groups; each group gives values and blocks by node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.spacetime._reduced_frame import NodeState

EvaluateGroup = Callable[[NodeState], tuple[FloatArray, FloatArray]]


@dataclass(slots=True, eq=False)
class RowGroup:
    """Rows of one kind. A row is the sum of its pieces, each at a node, and of constants times global unknowns."""

    label: str
    lower: FloatArray  # (r,)
    upper: FloatArray  # (r,)
    nodes: IntArray  # (B,) node of each piece
    owner: IntArray  # (B,) row of each piece
    mask: BoolArray  # (B, S) slots that a piece may depend on
    evaluate: EvaluateGroup  # values (B,) and blocks (B, 3, S); blocks are empty for a frame without derivatives
    times: FloatArray  # (r,) [s] for the report
    parts: tuple[str, ...] = ()  # (r,) what each row is, for the report
    is_linear: bool = False
    globals: list[tuple[int, int, float]] = field(default_factory=list[tuple[int, int, float]])

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.lower)

    def name(self, row: int) -> str:
        """What a row says, in words."""
        part = f" ({self.parts[row]})" if self.parts else ""
        return f"{self.label}{part} at {self.times[row]:.2f} s"


def empty_blocks() -> FloatArray:
    """Blocks of a frame without derivatives."""
    return np.zeros((0, 3, 0))


def value_blocks(blocks: FloatArray) -> FloatArray:
    """Blocks ``(B, 3, S)`` of what depends on the unknowns and not on their rates, from ``(B, S)``."""
    out = np.zeros((len(blocks), 3, blocks.shape[1]))
    out[:, 0] = blocks
    return out
