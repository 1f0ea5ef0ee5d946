"""The seam between what moves (walking, jumps, blends of both) and what holds the feet to the ground."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from marey.base import BoolArray, FloatArray

NEVER_S: Final = 1e9  # [s] time to a plant that is not in sight


class RawFrame(NamedTuple):
    """One frame before foot plants, and what the plants need to know of the future; the arrays are the taker's own.

    Feet are in the order of ``EFFECTORS``: right ankle, right toe, left ankle, left toe.
    """

    root_position: FloatArray  # (3,) [m] in world
    rotations: FloatArray  # (J, 4) wxyz, R_parent_joint; the root's is R_world_root
    planted: BoolArray  # (4,) on the ground now
    until_s: FloatArray  # (4,) [s] to the start of the next plant; NEVER_S where none is in sight
    landing: FloatArray  # (4, 3) [m] raw effectors in world at that start; where they are now if none is in sight
    leg_length_m: float  # the body's size now
    shift: FloatArray | None = None  # (4, 3) [m] added to where effectors land, so that they stand well
    yaw: FloatArray | None = None  # (2,) [rad] added to the right and the left foot when they land


class FrameSource(Protocol):
    """Something that moves a body: the walker, or the jump machine round it."""

    @property
    def state(self) -> str:
        """What it does, in a word: ``standing``, ``locomotion``, ..."""
        ...

    def advance(self, dt: float) -> tuple[str, ...]:
        """Move on by ``dt`` [s], at least zero; returns the foot events (names of ``EVENTS``) that were passed."""
        ...

    def frame(self) -> RawFrame:
        """What the body looks like now; changes nothing."""
        ...

    def snapshot(self) -> object:
        """All that :meth:`restore` needs to come back to this moment."""
        ...

    def restore(self, snapshot: object) -> None:
        """Come back to the moment of a snapshot of this source; a snapshot may be restored many times."""
        ...
