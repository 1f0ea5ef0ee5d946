"""Constraints that a user adds: a pinned point, a holonomic function, rows of a velocity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, final, runtime_checkable

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.simulate._ground import GAMMA
from marey.simulate._mechanics import Mechanics
from marey.simulate._rows import ConstraintRows, make_rows
from marey.skeleton import Skeleton

USER_PRIORITY: Final = 1
PULL_M_S: Final = 2.0
AXES: Final = {"x": 0, "y": 1, "z": 2}


@runtime_checkable
class Constraint(Protocol):
    """Something that a step must respect."""

    def rows(self, mechanics: Mechanics, skeleton: Skeleton, dt: float) -> ConstraintRows:
        """Rows of the present configuration for a step of ``dt`` [s]."""
        ...


@final
@dataclass(frozen=True, slots=True, eq=False)
class Pin:
    r"""A point of the figure stays at a place: :math:`J_P v = -\gamma\,(P - P^*)/h`.

    ``axes`` names the world axes along which it is held, "xyz" for all. A point that is far away comes no faster than
    at ``PULL_M_S``.
    """

    joint: str
    place: FloatArray  # (3,) [m] in world
    offset_m: FloatArray = (0.0, 0.0, 0.0)  # pyright: ignore[reportAssignmentType]  # (3,) in the joint's frame
    axes: str = "xyz"
    gamma: float = GAMMA
    priority: int = USER_PRIORITY

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", frozen(self.place, 3, name="place"))
        object.__setattr__(self, "offset_m", frozen(self.offset_m, 3, name="offset_m"))
        if not self.axes or not set(self.axes) <= set(AXES):
            raise InputError(f"axes '{self.axes}' of a pin", "Name some of x, y and z")
        check_gamma(self.gamma)

    def rows(self, mechanics: Mechanics, skeleton: Skeleton, dt: float) -> ConstraintRows:
        """One bilateral row for each axis."""
        if self.joint not in skeleton.names:
            raise UnknownNameError("joint", self.joint, f"'{skeleton.name}'", skeleton.names)
        j, held = skeleton.names.index(self.joint), [AXES[a] for a in self.axes]
        away = mechanics.point(j, self.offset_m) - self.place
        J = mechanics.point_jacobian(j, self.offset_m)
        drift = -self.gamma * away[held] / dt
        drift *= min(1.0, PULL_M_S / max(float(np.linalg.norm(drift)), 1e-12))
        return make_rows(J[held], drift, is_equality=True, name=f"pin of {self.joint}", priority=self.priority)


@final
@dataclass(frozen=True, slots=True, eq=False)
class HolonomicConstraint:
    r"""A function of the configuration stays zero, or not negative: :math:`J_c v = -\gamma\,c/h`.

    ``evaluate`` takes a :class:`Mechanics` and gives the values ``(n,)`` and their Jacobian ``(n, d)``.
    """

    evaluate: Callable[[Mechanics], tuple[FloatArray, FloatArray]]
    is_equality: bool = True
    gamma: float = GAMMA
    name: str = "holonomic constraint"
    priority: int = USER_PRIORITY

    def __post_init__(self) -> None:
        check_gamma(self.gamma)

    def rows(self, mechanics: Mechanics, skeleton: Skeleton, dt: float) -> ConstraintRows:
        """Rows that repair a part of the drift; one-sided ones may use up what is left to zero."""
        values, J = self.evaluate(mechanics)
        c = frozen(values, None, name=self.name)
        matrix = frozen(J, len(c), mechanics.inertia.shape[0], name=f"Jacobian of {self.name}")
        part = np.where(c > 0.0, 1.0, self.gamma) if not self.is_equality else self.gamma
        return make_rows(matrix, -part * c / dt, is_equality=self.is_equality, name=self.name, priority=self.priority)


@final
@dataclass(frozen=True, slots=True, eq=False)
class VelocityConstraint:
    """Rows of a velocity, the same at every step: ``matrix @ v = values``, or not below them."""

    matrix: FloatArray  # (n, d)
    values: FloatArray  # (n,)
    is_equality: bool = True
    name: str = "velocity constraint"
    priority: int = USER_PRIORITY

    def __post_init__(self) -> None:
        values = frozen(self.values, None, name="values")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "matrix", frozen(self.matrix, len(values), None, name="matrix"))

    def rows(self, mechanics: Mechanics, skeleton: Skeleton, dt: float) -> ConstraintRows:
        """The rows as given."""
        size = mechanics.inertia.shape[0]
        if self.matrix.shape[1] != size:
            raise InputError(f"{self.name} has {self.matrix.shape[1]} columns, the figure {size} velocities")
        ends, how = (self.matrix, self.values), self.is_equality
        return make_rows(*ends, is_equality=how, name=self.name, priority=self.priority)


def check_gamma(gamma: float) -> None:
    """Refuse a part of the drift that would not settle."""
    if not 0.0 < gamma <= 1.0:
        raise InputError(f"gamma is {gamma}", "Take a part above 0 and up to 1")
