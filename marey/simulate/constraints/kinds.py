r"""Constraints that a user adds: a pinned point, a holonomic function, rows of a velocity, a thrown ball.

A ball adds three velocities to the same programme. Where it touches, :math:`n^T(J_P v - u) \ge -\phi/h` with u the
ball's velocity: the impulse that stops the ball is the one that hits the figure. [Tournier2011]_ §14.1 (the ball of
fig. 14.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, final, runtime_checkable

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.dynamics import GRAVITY
from marey.simulate.constraints.ground import GAMMA, Ground, check_gamma
from marey.simulate.mechanism import Mechanics
from marey.simulate.solver.constrained_step import ConstraintRows, make_rows
from marey.skeleton import Capsules, Skeleton

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
        return make_rows(self.matrix, self.values, is_equality=self.is_equality, name=self.name, priority=self.priority)


NEAR_M: Final = 0.05  # [m]
SLOW_M_S: Final = 0.2  # [m/s] slower than this, nothing bounces
RECOVERY_M_S: Final = 0.5
CONTACT_PRIORITY: Final = 2


@final
@dataclass(frozen=True, slots=True, eq=False)
class Ball:
    """A ball in flight; it does not spin."""

    place: FloatArray  # (3,) [m] in world
    velocity: FloatArray  # (3,) [m/s]
    radius_m: float = 0.11
    mass_kg: float = 0.6  # a basketball
    bounce: float = 0.5  # [-] part of the speed of approach that comes back
    gravity: FloatArray = (0.0, -GRAVITY, 0.0)  # pyright: ignore[reportAssignmentType]  # (3,) [m/s²]

    def __post_init__(self) -> None:
        for name in ("place", "velocity", "gravity"):
            object.__setattr__(self, name, frozen(getattr(self, name), 3, name=name))
        for name in ("radius_m", "mass_kg"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) > 0.0):
                raise InputError(f"{name} of a ball is {getattr(self, name)}", "Give a number above zero")
        if not 0.0 <= self.bounce <= 1.0:
            raise InputError(f"bounce of a ball is {self.bounce}", "Take a part from 0 to 1")


def ball_rows(
    balls: Sequence[Ball], solid: Capsules, grounds: Sequence[Ground], here: Mechanics, velocity: FloatArray, dt: float
) -> ConstraintRows:
    """Rows ``(m, d + 3 B)`` of balls against the figure and against the grounds."""
    d, found = len(velocity), list[tuple[FloatArray, float, str]]()
    # Capsules of the figure in world
    frames, origins = here.frames[solid.joints], here.joints[solid.joints]
    starts = origins + np.einsum("sij,sj->si", frames, solid.starts)
    along = origins + np.einsum("sij,sj->si", frames, solid.ends) - starts
    squares = np.maximum(np.einsum("si,si->s", along, along), 1e-12)
    for n, ball in enumerate(balls):
        # The nearest capsule: its gap, the normal from the ball to it, and the row of its velocity along the normal
        part = np.clip(np.einsum("si,si->s", ball.place - starts, along) / squares, 0.0, 1.0)
        away = starts + part[:, None] * along - ball.place
        lengths = np.linalg.norm(away, axis=1)
        radii = solid.start_radii + part * (solid.end_radii - solid.start_radii)
        gaps = lengths - radii - ball.radius_m
        s = int(np.argmin(gaps))
        normal = away[s] / lengths[s] if lengths[s] > 1e-9 else np.array([0.0, 1.0, 0.0])
        j = int(solid.joints[s])
        offset = here.frames[j].T @ (ball.place + away[s] - radii[s] * normal - here.joints[j])
        touches = [("figure", float(gaps[s]), normal, normal @ here.point_jacobian(j, offset))]
        # Grounds stand still
        touches += [("ground", float(g.gaps(ball.place)) - ball.radius_m, -g.normal, np.zeros(d)) for g in grounds]
        for other, gap, normal, other_row in touches:
            approach = float(ball.velocity @ normal) - float(other_row @ velocity)
            if gap > NEAR_M + 2.0 * dt * max(0.0, approach):
                continue
            row = np.zeros(d + 3 * len(balls))
            row[:d] = other_row
            row[d + 3 * n : d + 3 * n + 3] = -normal
            # Least speed at which the two part: a bounce, else as for any contact
            speed = -gap / dt if gap >= 0.0 else min(-GAMMA * gap / dt, RECOVERY_M_S)
            if gap <= dt * approach and approach > SLOW_M_S:
                speed = ball.bounce * approach
            found.append((row, speed, f"ball {n} on the {other}"))
    J = np.array([row for row, _, _ in found]).reshape(len(found), d + 3 * len(balls))
    b, names = np.array([bound for _, bound, _ in found]), [name for _, _, name in found]
    return make_rows(J, b, is_equality=False, name="ball", priority=CONTACT_PRIORITY, names=names)
