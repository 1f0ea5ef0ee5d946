"""Rows: what a step must respect, as linear constraints on its velocity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, overload

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray

BILATERAL: Final = 0
UNILATERAL: Final = 1
HARD: Final = 1e-10  # [-] of a row's own diagonal entry: compliance of rows that must hold
NO_SLOT: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class ConstraintRows:
    r"""Constraints :math:`J v = b` and :math:`J v \ge b` on a velocity, with bounds on their multipliers.

    A bilateral row has a multiplier without bounds, a unilateral one a multiplier that is not negative.
    """

    J: FloatArray  # (m, d)
    b: FloatArray  # (m,)
    lower: FloatArray  # (m,) of the multipliers [N s]
    upper: FloatArray  # (m,)
    directions: FloatArray  # (m, 3) in world, in which a unit impulse of a contact's row pushes; zero for other rows
    owners: IntArray  # (m,) number of the contact in this step, or -1
    slots: IntArray  # (m,) which of all possible rows of the figure it is; NO_SLOT for rows made by the user
    partners: IntArray  # (m,) for a tangential row the normal one that bounds it by friction; -1 for none
    grips: FloatArray  # (m,) coefficient of friction of the contact's ground; zero for other rows
    priorities: IntArray  # (m,) who gives way where not all can hold: lower first
    names: Sequence[str]  # (m,)

    @property
    def kinds(self) -> IntArray:
        """``BILATERAL`` or ``UNILATERAL`` for each row ``(m,)``."""
        return np.where(np.isneginf(self.lower), BILATERAL, UNILATERAL)

    def __len__(self) -> int:
        return len(self.b)


class RowTable(NamedTuple):
    """The first arrays of ``ConstraintRows``, while kernels write them."""

    J: FloatArray  # (m, d)
    b: FloatArray  # (m,)
    lower: FloatArray  # (m,)
    upper: FloatArray  # (m,)
    directions: FloatArray  # (m, 3)
    owners: IntArray  # (m,)
    slots: IntArray  # (m,)
    partners: IntArray  # (m,)
    grips: FloatArray  # (m,)


class ContactMemory(NamedTuple):
    """What the last step left behind for contacts."""

    anchors: FloatArray  # (P, C, 3) [m]
    anchored: BoolArray  # (P, C)
    pushes: FloatArray  # (P, C) [N s]


class RowNames(Sequence[str]):
    """Names of rows, looked up only when somebody asks."""

    def __init__(self, all_names: Sequence[str], slots: IntArray) -> None:
        self._all_names, self._slots = all_names, slots

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self._all_names[int(s)] for s in self._slots[index]]
        return self._all_names[int(self._slots[index])]

    def __len__(self) -> int:
        return len(self._slots)


def make_rows(
    J: FloatArray,
    b: FloatArray,
    *,
    is_equality: bool,
    name: str,
    priority: int = 1,
    slots: IntArray | None = None,
    names: Sequence[str] | None = None,
) -> ConstraintRows:
    """Rows that belong to no contact."""
    count = len(b)
    lower, upper = np.full(count, -np.inf if is_equality else 0.0), np.full(count, np.inf)
    none = np.full(count, NO_SLOT, dtype=np.int64)
    slots, names = none if slots is None else slots, (name,) * count if names is None else names
    ends = (J, b, lower, upper, np.zeros((count, 3)), none, slots, none, np.zeros(count))
    return ConstraintRows(*ends, np.full(count, priority), names)


def stack_rows(parts: Sequence[ConstraintRows]) -> ConstraintRows:
    """Rows of several kinds as one set; only the first may have partners."""
    if len(parts) == 1:
        return parts[0]
    names = [name for part in parts for name in part.names]
    columns = ("J", "b", "lower", "upper", "directions", "owners", "slots", "partners", "grips", "priorities")
    joined = {column: np.concatenate([getattr(p, column) for p in parts]) for column in columns}
    return replace(parts[0], names=names, **joined)
