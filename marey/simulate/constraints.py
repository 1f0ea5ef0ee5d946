r"""Constraints that a user adds: a pinned point, a holonomic function, rows of a velocity, a thrown ball.

A ball adds three velocities to the same programme. Where it touches, :math:`n^T(J_P v - u) \ge -\phi/h` with u the
ball's velocity: the impulse that stops the ball is the one that hits the figure. [Tournier2011]_ §14.1 (the ball of
fig. 14.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, final, runtime_checkable

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.dynamics import GRAVITY, Body
from marey.kinematics import JointLimits
from marey.simulate.bounded_qp import factor_and_solve
from marey.simulate.constrained_step import (
    NO_SLOT,
    ConstraintRows,
    ContactMemory,
    append_rows,
    make_rows,
    solve_factored,
    stack_rows,
)
from marey.simulate.contact import (
    FRICTIONS,
    GAMMA,
    NO_REACH_M,
    SLOTS,
    Friction,
    Ground,
    NearContacts,
    PlaneArrays,
    RowImpulses,
    SegmentMotion,
    StepContacts,
    check_gamma,
    conclude_contacts,
    contact_spheres,
    list_contact_rows,
)
from marey.simulate.joint_limits import LimitRows
from marey.simulate.mechanics import State
from marey.simulate.mechanism import Mechanics, Mechanism, as_kernel_array
from marey.skeleton import Capsules, Skeleton, capsules

if TYPE_CHECKING:
    from marey.simulate.integrator import StepSystem

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


LIMIT_PRIORITY: Final = 1
LIMIT_PASSES: Final = 4  # further solves with rows for limits that the last one violated

Grounds = Ground | Iterable[Ground] | None


@dataclass(frozen=True, slots=True, eq=False)
class SolverState:
    """State passed from one step to the next; immutable, so that a rejected step has no effect."""

    warm: FloatArray  # (S + 1,) last multipliers of all possible rows, then zero for rows without a slot
    contacts: ContactMemory  # where corners stand, and last normal impulses
    logs: FloatArray  # (J, 3) last logarithms of joints in the axes of their ellipsoids
    balls: tuple[Ball, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ConstraintSolution:
    """A step under constraints."""

    velocity: FloatArray  # (d,)
    impulse: FloatArray  # (d,) what all constraints together did, as a body covector
    contacts: StepContacts
    memory: SolverState
    relaxed: tuple[str, ...]  # rows that could not be kept
    balls: tuple[Ball, ...]
    changes: int  # of the active set: the work of the solver
    is_converged: bool


class _StepStart(NamedTuple):
    """The beginning of a step."""

    here: Mechanics
    state: State
    dt: float
    memory: SolverState
    planes: PlaneArrays


class ConstraintSet:
    """Grounds, limits, constraints and balls of one figure."""

    def __init__(
        self,
        body: Body,
        mechanism: Mechanism,
        grounds: tuple[Ground, ...],
        limits: JointLimits | None,
        things: tuple[Constraint | Ball, ...],
    ) -> None:
        for ground in grounds:
            if not isinstance(ground, Ground):  # pyright: ignore[reportUnnecessaryIsInstance]  # users may pass anything
                raise InputError(f"a ground is a {type(ground).__name__}", "Pass marey.simulate.Ground()")
        for thing in things:
            if not isinstance(thing, Ball | Constraint):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InputError(f"a constraint is a {type(thing).__name__}", "Pass Pin, Ball or one of your own")
        self.skeleton, self.grounds, self.limits = body.skeleton, grounds, limits
        self.spheres, self.sphere_names = contact_spheres(body.skeleton)
        # Arrays of the grounds; there may be none
        self._planes = PlaneArrays(
            np.array([g.point for g in grounds], dtype=np.float64).reshape(-1, 3),
            np.array([g.normal for g in grounds], dtype=np.float64).reshape(-1, 3),
            np.array([FRICTIONS.index(g.friction) for g in grounds], dtype=np.int64),
            np.array([g.mu for g in grounds], dtype=np.float64),
            np.array([g.facets for g in grounds], dtype=np.int64),
            np.array([g.gamma for g in grounds], dtype=np.float64),
            np.full(len(grounds), NO_REACH_M),
        )
        self._limit_rows = None if limits is None else LimitRows(limits, body.skeleton)
        self._constraints = tuple(t for t in things if not isinstance(t, Ball))
        self._balls = tuple(t for t in things if isinstance(t, Ball))
        self._solid = capsules(body.skeleton)
        self._size = 6 + mechanism.basis.shape[2]
        # Names of all possible rows: contacts plane by plane, then the limits of the joints
        contacts = [f"contact of {name}" for _ in grounds for name in self.sphere_names for _ in range(SLOTS)]
        owners = () if self._limit_rows is None else self._limit_rows.owners
        limited = [f"limit of {self.skeleton.names[int(j)]}" for j in owners]
        self._first_limit = len(contacts)
        self._slot_names = np.array([*contacts, *limited], dtype=object)
        self._slot_priorities = np.repeat([CONTACT_PRIORITY, LIMIT_PRIORITY], [len(contacts), len(limited)])
        self._sphere_names = np.array(self.sphere_names, dtype=object)

    def initial_state(self) -> SolverState:
        """What is known before the first step."""
        shape = (len(self.grounds), len(self.sphere_names))
        contacts = ContactMemory(np.zeros((*shape, 3)), np.zeros(shape, dtype=np.bool_), np.zeros(shape))
        logs = np.zeros((self.skeleton.num_joints, 3))
        return SolverState(np.zeros(len(self._slot_names) + 1), contacts, logs, self._balls)

    def add_ball(self, memory: SolverState | None, ball: Ball) -> SolverState:
        """Memory with one more ball in flight."""
        memory = self.initial_state() if memory is None else memory
        return replace(memory, balls=(*memory.balls, ball))

    def rows(
        self,
        here: Mechanics,
        state: State,
        dt: float,
        memory: SolverState | None = None,
        *,
        friction: Friction | None = None,
        reach_m: float = NO_REACH_M,
    ) -> ConstraintRows:
        """Rows of a step that is expected to have about the velocity of the last; balls come as a surprise.

        Args:
            here: mechanics of the state.
            state: at the beginning of the step.
            dt: length of the step [s].
            memory: of the last step.
            friction: how to write the rows of contacts, in place of how the grounds say: "coulomb" facets of cones,
                "staggered" a normal and two tangential rows (bounded by their ``partners`` and ``grips``),
                "stick" or "frictionless".
            reach_m: points nearer to a ground than this have friction even if they are expected to move away [m]: what
                a plan lets press, it may let hold, too.
        """
        at = _StepStart(here, state, dt, self.initial_state() if memory is None else memory, self._planes)
        if friction is not None:
            if friction not in FRICTIONS:
                raise UnknownNameError("friction", str(friction), "the ground", FRICTIONS)
            modes = np.full(len(self.grounds), FRICTIONS.index(friction))
            at = at._replace(planes=at.planes._replace(modes=modes))
        at = at._replace(planes=at.planes._replace(reaches=np.full(len(self.grounds), reach_m)))
        return self._assemble_rows(at, state.velocity)[0]

    def solve(self, system: StepSystem, state: State, memory: SolverState | None = None) -> ConstraintSolution:
        r"""Velocity that minimises :math:`\frac12 v^T M v - f^T v` of a step under all rows; see ``rows``.

        Args:
            system: of the step; its M has any damping in it.
            state: at the beginning of the step.
            memory: of the last step.
        """
        memory = self.initial_state() if memory is None else memory
        at = _StepStart(system.mechanics, state, system.dt, memory, self._planes)
        # Velocity without rows, and the rows that are near at that velocity
        factor, free = factor_and_solve(system.damped, system.rhs)
        rows, near, logs = self._assemble_rows(at, free)
        if at.memory.balls:
            # Balls add three velocities each, and rows against the figure and the grounds
            balls = at.memory.balls
            hits = ball_rows(balls, self._solid, self.grounds, at.here, at.state.velocity, at.dt)
            wider = np.concatenate([rows.J, np.zeros((len(rows), 3 * len(balls)))], axis=1)
            d, size = len(free), len(free) + 3 * len(balls)
            of_figure, factor = factor, np.zeros((size, size))
            factor[:d, :d], free = of_figure, np.concatenate([free, np.empty(3 * len(balls))])
            for n, ball in enumerate(balls):
                own = slice(d + 3 * n, d + 3 * n + 3)
                factor[own, own] = np.sqrt(ball.mass_kg) * np.eye(3)
                free[own] = ball.velocity + at.dt * ball.gravity
            rows = stack_rows([replace(rows, J=wider), hits])
        # Warm start from the multipliers of the last step
        found = solve_factored(factor, free, rows, start=memory.warm[rows.slots])
        # The same step with rows for limits that it would break, if there are any
        for _ in range(LIMIT_PASSES if self._limit_rows is not None else 0):
            assert self._limit_rows is not None
            pose, velocity = (at.state.rotations.wxyz, at.here.turns, logs), as_kernel_array(found.velocity)
            J, b, who, _ = self._limit_rows.rows(*pose, velocity, at.dt, only_broken=True)
            if not len(b):
                break
            wider = np.zeros((len(b), len(free)))
            wider[:, : J.shape[1]] = J
            # A second row of the same limit leaves no guess behind
            names = self._slot_names[who + self._first_limit]
            more = make_rows(wider, b, is_equality=False, name="limit", priority=LIMIT_PRIORITY, names=names)
            rows = stack_rows([rows, more])
            start = np.concatenate([found.multipliers, np.zeros(len(b))])
            found = solve_factored(factor, free, rows, start=start)
        # Contacts with their impulses, and what the next step has to know
        which = near.which
        velocity = found.velocity if not at.memory.balls else np.ascontiguousarray(found.velocity[: self._size])
        here, solids = at.here, (self.spheres, self._planes)
        segments = SegmentMotion(here.frames, here.joints, here.angular, here.linear)
        pushes = RowImpulses(rows.directions, rows.owners, found.multipliers)
        impulses, kept = conclude_contacts(segments, *solids, near, pushes, velocity, at.memory.contacts)
        touched = which[:, 1]
        names, joints = tuple(self._sphere_names[touched]), self.spheres.joints[touched]
        normals = self._planes.normals[which[:, 0]]
        contacts = StepContacts(names, joints, near.places, normals, near.gaps, impulses, at.dt)
        multipliers = np.zeros(len(at.memory.warm))
        multipliers[rows.slots] = found.multipliers
        multipliers[NO_SLOT] = 0.0
        # Balls fly on with the velocities that the step gave them
        moved = tuple(
            replace(ball, place=ball.place + at.dt * u, velocity=u)
            for ball, u in zip(at.memory.balls, found.velocity[self._size :].reshape(-1, 3), strict=True)
        )
        impulse, remembered = (found.multipliers @ rows.J)[: self._size], SolverState(multipliers, kept, logs, moved)
        work = (found.changes, found.is_converged)
        return ConstraintSolution(velocity, impulse, contacts, remembered, found.relaxed, moved, *work)

    def _assemble_rows(self, at: _StepStart, expected: FloatArray) -> tuple[ConstraintRows, NearContacts, FloatArray]:
        """All rows of a step that is expected to come to about a velocity, contacts first; contacts; logarithms."""
        expected = as_kernel_array(expected)
        here, logs = at.here, at.memory.logs
        solids, segments = (self.spheres, at.planes), SegmentMotion(here.frames, here.joints, here.angular, here.linear)
        near, table = list_contact_rows(segments, *solids, at.memory.contacts, expected, at.state.velocity, at.dt)
        if self._limit_rows is not None:
            J, b, who, logs = self._limit_rows.rows(at.state.rotations.wxyz, at.here.turns, logs, expected, at.dt)
            table = append_rows(table, J, b, who + self._first_limit) if len(b) else table
        rows = ConstraintRows(*table, self._slot_priorities[table.slots], self._slot_names[table.slots])
        if self._constraints:
            rows = stack_rows([rows, *(one.rows(at.here, self.skeleton, at.dt) for one in self._constraints)])
        return rows, near, logs
