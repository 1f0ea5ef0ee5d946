"""A body moved by fewer coordinates than it has: its physics stays that of the whole body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.motion import Contacts, Motion

if TYPE_CHECKING:
    from marey.dynamics.tree.joint_tree import JointTree


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SimplifiedTree:
    """Coordinates ``q = S q_s``: joints fused, limbs mirrored or left out ([Fang2003]_ §8.3).

    Momentum and force are evaluated on the whole body, so a motion that is valid here is valid there. Every function
    that takes a tree takes this too, with states and Jacobians in the fewer coordinates.
    """

    tree: JointTree
    S: FloatArray  # (D, d)
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        S = frozen(self.S, self.tree.num_dofs, None, name="S")
        names = tuple(self.names) or tuple(f"q{i}" for i in range(S.shape[1]))
        if len(names) != S.shape[1]:
            raise InputError(f"{len(names)} names for {S.shape[1]} coordinates")
        if np.linalg.matrix_rank(S) < S.shape[1]:
            raise InputError("two simplified coordinates do the same", "The columns of S must be independent")
        object.__setattr__(self, "S", S)
        object.__setattr__(self, "names", names)

    @property
    def num_dofs(self) -> int:
        """How many coordinates are left."""
        return self.S.shape[1]

    @property
    def mass(self) -> float:
        """Mass of the whole [kg]."""
        return self.tree.mass

    def expand(self, q: ArrayLike) -> FloatArray:
        """Coordinates ``(F, D)`` of the whole body, from ``(F, d)``."""
        return frozen(q, None, self.num_dofs, name="q") @ self.S.T

    def reduce(self, jacobian: FloatArray) -> FloatArray:
        """Jacobian ``(..., d)`` in the fewer coordinates, from ``(..., D)``."""
        return jacobian @ self.S

    def to_motion(self, q: ArrayLike, rate_hz: float, contacts: Contacts | None = None) -> Motion:
        """Clip of the whole body's skeleton."""
        return self.tree.to_motion(self.expand(q), rate_hz, contacts)

    def from_motion(self, motion: Motion) -> FloatArray:
        """Coordinates ``(F, d)`` nearest to a clip, by least squares."""
        return self.tree.from_motion(motion) @ np.linalg.pinv(self.S).T

    def __repr__(self) -> str:
        return f"SimplifiedTree({self.num_dofs} of {self.tree.num_dofs} coordinates)"


def reduce_jacobian(tree: JointTree | SimplifiedTree, jacobian: FloatArray) -> FloatArray:
    """Jacobian in the tree's own coordinates."""
    return tree.reduce(jacobian) if isinstance(tree, SimplifiedTree) else jacobian
