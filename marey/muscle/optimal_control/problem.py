"""Problems of space-time control: what moves, what it has to reach and when, what effort costs; particles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, SupportsFloat, cast

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints
from marey.muscle.elastic.segments import (
    add_segment_forces,
    differentiate_segments,
    make_pair_segments,
    multiply_segment_blocks,
)

if TYPE_CHECKING:
    from marey.muscle.elastic.segments import WeightedSegments

RATE_SMOOTHING = 1e-3  # [control] width of the rounded corner of |.| in the rate term


class ControlledSystem(Protocol):
    """A step function with its derivatives, which the adjoint engine can steer.

    ``vjp`` and ``jvp`` get the next state too: an implicit step is differentiated there.
    """

    @property
    def num_states(self) -> int:
        """Length m of a state."""
        ...

    @property
    def num_controls(self) -> int:
        """Length s of the controls of one step."""
        ...

    @property
    def dt(self) -> float:
        """Duration of a step [s]."""
        ...

    def step(self, q: FloatArray, a: FloatArray, t: int, /) -> FloatArray:
        """State ``(m,)`` after step number ``t`` from state ``q`` with controls ``a``."""
        ...

    def vjp(
        self, q: FloatArray, a: FloatArray, t: int, q_next: FloatArray, r: FloatArray, /
    ) -> tuple[FloatArray, FloatArray]:
        """Transposed derivatives by state and by control, times ``r (m,)``: ``(m,)`` and ``(s,)``."""
        ...

    def jvp(
        self, q: FloatArray, a: FloatArray, t: int, q_next: FloatArray, dq: FloatArray, da: FloatArray, /
    ) -> FloatArray:
        """Change of the next state ``(m, n)`` for n changes of state ``(m, n)`` and control ``(s, n)``."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class StateGoal:
    r"""Goal for part of the state after a number of steps: :math:`\frac w2\|Cq^i - y\|^2`.

    ``C`` picks components of the state (``components``), or is any matrix (``rows``), or is the whole state.
    """

    step: int  # after so many steps, from 1
    target: FloatArray  # (k,)
    weight: Any = 1.0  # (k,) or one for all, in units of the inverse squares of the components
    components: IntArray | None = None  # (k,) numbers of components of the state
    rows: Any = None  # (k, m) matrix, dense or sparse

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", _check_count("step of a goal", self.step))
        target = frozen(frozen(self.target, name="target").ravel(), None, name="target")
        weight = frozen(self.weight, name="weight")
        if weight.shape not in ((), target.shape):
            raise InputError(f"weight has shape {weight.shape}", f"Give one number, or {target.size} of them")
        weight = np.broadcast_to(weight, target.shape)
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "weight", frozen(weight, target.size, name="weight"))
        if self.components is not None and self.rows is not None:
            raise InputError("a goal has components and rows", "Give one of them")
        if self.components is not None:
            object.__setattr__(self, "components", frozen_ints(self.components, target.size, name="components"))
        if (self.weight < 0.0).any():
            raise InputError("a weight of a goal is below zero", "Give weights of zero or more")

    def pick(self, q: FloatArray) -> FloatArray:
        """``C q`` of a state ``(m,)``, or of columns ``(m, n)``."""
        if self.rows is not None:
            return np.asarray(self.rows @ q, dtype=np.float64)
        return q if self.components is None else q[self.components]

    def put(self, y: FloatArray, size: int) -> FloatArray:
        """``C' y``, of length ``size``."""
        if self.rows is not None:
            return np.asarray(self.rows.T @ y, dtype=np.float64)
        if self.components is None:
            return y
        q = np.zeros(size)
        np.add.at(q, self.components, y)
        return q

    def residual(self, q: FloatArray) -> FloatArray:
        """How far the state is off ``(k,)``."""
        return self.pick(q) - self.target

    def check(self, steps: int, num_states: int) -> None:
        """Refuse a goal outside the motion, or of another size than the state."""
        if not 1 <= self.step <= steps:
            raise InputError(f"a goal is at step {self.step}", f"Steps with a goal go from 1 to {steps}")
        size = num_states if self.rows is None else self.rows.shape[1]
        count = size if self.components is None and self.rows is None else self.target.size
        if self.rows is not None:
            count = self.rows.shape[0]
        if size != num_states or count != self.target.size:
            raise InputError(
                f"the goal at step {self.step} compares {count} values with a target of {self.target.size}",
                f"A state has {num_states} components; name components or rows for a part of it",
            )
        picked = self.components
        if picked is not None and picked.size and (picked.min() < 0 or picked.max() >= num_states):
            raise InputError(f"the goal at step {self.step} names a component outside 0..{num_states - 1}")


Goals = Sequence[StateGoal] | tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, ArrayLike]


@dataclass(frozen=True, slots=True, eq=False, init=False)
class OptimalControlProblem:
    r"""Steer a system from a start to goals with little effort.

    .. math:: \phi = \frac e2\|a - a_0\|^2 + \lambda\|u\|_1 + \frac\beta2\sum_{j\ge2}|\alpha^j - \alpha^{j-1}|_\delta
        + \frac s2\sum_{j\ge2}\|\alpha^j - \alpha^{j-1}\|^2 + \frac\mu2\sum_i w_i\|C_iq^i - y_i\|^2

    [Engell2012]_ §25, Eqs 104-106; the first norm of Eq. 106 is not squared, and
    :math:`|x|_\delta = \sqrt{x^2+\delta^2}-\delta` rounds the second one. The unknowns u are the controls of each step,
    or the coefficients of a clamped cubic B-spline over time (``knots``), which keeps within the bounds of its
    coefficients.
    """

    system: ControlledSystem  # what moves
    start: FloatArray  # (m,) first state
    steps: int
    goals: tuple[StateGoal, ...]  # or given as (times [s], whole states, weights per time)
    effort: float  # weight e of the squared controls
    sparse: float  # weight λ of the absolute values of the unknowns
    rate: float  # weight β of the total variation of the controls
    smooth: float  # weight s of the squared differences of the controls
    goal_weight: float  # μ
    bounds: tuple[FloatArray, FloatArray] | None  # lower and upper ends of the controls (s,), or given as one for all
    knots: int | None  # number of coefficients over time; None is one value per step
    rest: FloatArray  # (s,) controls without effort a₀, or given as one for all
    basis: Any = field(init=False, repr=False)  # (steps, K) sparse: controls of unknowns

    def __init__(
        self,
        system: ControlledSystem,
        start: ArrayLike,
        steps: int,
        goals: Goals,
        *,
        effort: float = 1.0,
        sparse: float = 0.0,
        rate: float = 0.0,
        smooth: float = 0.0,
        goal_weight: float = 1.0,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        knots: int | None = None,
        rest: ArrayLike = 0.0,
    ) -> None:
        put = object.__setattr__
        put(self, "system", system)
        put(self, "start", frozen(start, system.num_states, name="start"))
        put(self, "steps", _check_count("steps", steps))
        weights = {"effort": effort, "sparse": sparse, "rate": rate, "smooth": smooth, "goal_weight": goal_weight}
        for name, value in weights.items():
            if check_number(name, value) < 0.0:
                raise InputError(f"{name} is {value}", "Give a weight of zero or more")
            put(self, name, float(value))
        found = cast(tuple[StateGoal, ...], tuple(goals))
        if not all(isinstance(goal, StateGoal) for goal in goals):
            # Times, targets and perhaps weights
            given_goals = cast(Any, goals)
            if len(given_goals) not in (2, 3):
                raise InputError("goals are neither Goal objects nor (times, targets, weights)")
            times = frozen(np.atleast_1d(given_goals[0]), None, name="times of goals")
            targets = frozen(np.atleast_2d(given_goals[1]), times.size, None, name="targets of goals")
            each = np.asarray(given_goals[2] if len(given_goals) == 3 else 1.0, dtype=np.float64)
            rows = zip(np.rint(times / system.dt), targets, np.broadcast_to(each, times.shape), strict=True)
            found = tuple(StateGoal(int(i), y, float(w)) for i, y, w in rows)
        if not found:
            raise InputError("there is no goal", "Give at least one")
        for goal in found:
            goal.check(self.steps, system.num_states)
        put(self, "goals", tuple(sorted(found, key=lambda goal: goal.step)))
        count = system.num_controls
        given = np.asarray(rest, dtype=np.float64)
        if given.shape not in ((), (count,)):
            raise InputError(f"rest has shape {given.shape}", f"Give one number, or one for each of {count} controls")
        put(self, "rest", frozen(np.array(np.broadcast_to(given, (count,))), count, name="rest"))
        ends = None
        if bounds is not None:
            low, high = (np.array(np.broadcast_to(np.asarray(end, dtype=np.float64), (count,))) for end in bounds)
            if np.isnan(low).any() or np.isnan(high).any() or (low > high).any():
                raise InputError(f"bounds are {low} and {high}", "Give lower ends that are not above the upper ends")
            ends = (low, high)
        put(self, "bounds", ends)
        put(self, "knots", None if knots is None else _check_count("knots", knots))
        put(self, "basis", make_time_basis(self.steps, self.knots))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of steps and of controls: the shape of controls."""
        return self.steps, self.system.num_controls

    @property
    def num_unknowns(self) -> int:
        """Number of unknowns."""
        return int(self.basis.shape[1]) * self.system.num_controls

    def controls(self, unknowns: FloatArray) -> FloatArray:
        """Controls ``(N, s)`` of unknowns ``(K s,)``."""
        return np.asarray(self.basis @ unknowns.reshape(-1, self.system.num_controls), dtype=np.float64)

    def unknowns(self, controls: ArrayLike | None) -> FloatArray:
        """Unknowns ``(K s,)`` nearest to controls ``(N, s)``, inside the bounds; the controls at rest by default."""
        values = np.broadcast_to(self.rest, self.shape) if controls is None else freeze_controls(self, controls)
        found = np.array(values)
        if self.knots is not None:
            found = np.asarray(np.linalg.lstsq(self.basis.toarray(), values, rcond=None)[0], dtype=np.float64)
        return (found if self.bounds is None else np.clip(found, *self.bounds)).ravel()


def freeze_controls(problem: OptimalControlProblem, controls: ArrayLike) -> FloatArray:
    """Controls of a problem, checked: ``(N, s)`` finite."""
    return frozen(controls, *problem.shape, name="controls")


def make_time_basis(steps: int, knots: int | None) -> Any:
    """Matrix ``(steps, K)`` from coefficients to steps: the identity, or clamped B-splines, cubic if there are four."""
    from scipy import sparse
    from scipy.interpolate import BSpline

    if knots is None:
        return sparse.csr_array(sparse.eye_array(steps))
    if knots > steps:
        raise InputError(f"knots is {knots}", f"There are only {steps} steps")
    degree = min(3, knots - 1)
    inner = np.linspace(0.0, 1.0, knots - degree + 1)
    padded = np.concatenate([np.zeros(degree), inner, np.ones(degree)])
    return sparse.csr_array(BSpline.design_matrix(np.linspace(0.0, 1.0, steps), padded, degree))


def _check_count(name: str, value: int) -> int:
    number = check_number(name, value)
    if int(number) != number or number < 1:
        raise InputError(f"{name} is {value}", "Give a whole number of at least one")
    return int(number)


def check_number(name: str, value: object) -> float:
    """A finite number, or an error that names the argument."""
    if isinstance(value, bool) or not isinstance(value, SupportsFloat) or isinstance(value, np.ndarray):
        raise InputError(f"{name} is {value!r}", "Give a number")
    number = float(value)
    if not np.isfinite(number):
        raise InputError(f"{name} is {number}", "Give a finite number")
    return number


GRAVITY = 9.82  # [m/s²] of [Engell2012]_ §26
THESIS_STEP_S = 0.02  # [s] with which the examples were calibrated


@dataclass(frozen=True, slots=True, eq=False)
class MassSpringSystem:
    r"""Particles and springs under semi-implicit Euler; the controls are forces on particles.

    .. math:: v^+ = v + \Delta t\,M^{-1}(f(x, v) + f_{ext} + \alpha), \qquad x^+ = x + \Delta t\,v^+

    [Engell2012]_ §25.4, Eqs 134-135. The state is positions, then velocities: ``q = (x, v)`` of length ``2 V D``. The
    derivatives are those of the step itself; ``printed=True`` takes the block of Eq. 139a instead, which lacks the
    change of the new positions with the forces (a term :math:`\Delta t^2 M^{-1}K`), for comparison.
    """

    masses: FloatArray  # (V,) [kg]
    springs: IntArray  # (S, 2) pairs of particles
    rest_lengths: FloatArray  # (S,) [m]
    stiffness: FloatArray  # (S,) [N/m]
    damping: FloatArray  # (S,) [N s/m]
    gravity: FloatArray  # (D,) [m/s²]
    actuated: IntArray  # (A,) particles that a control force moves
    dt: float = THESIS_STEP_S  # [s]
    printed: bool = False  # derivatives as printed in Eq. 139a

    def __post_init__(self) -> None:
        masses = frozen(self.masses, None, name="masses")
        springs = frozen_ints(self.springs, None, 2, name="springs")
        for name in ("rest_lengths", "stiffness", "damping"):
            values = np.broadcast_to(np.asarray(getattr(self, name), dtype=np.float64), (len(springs),))
            object.__setattr__(self, name, frozen(values, len(springs), name=name))
        object.__setattr__(self, "masses", masses)
        object.__setattr__(self, "springs", springs)
        object.__setattr__(self, "gravity", frozen(self.gravity, None, name="gravity"))
        object.__setattr__(self, "actuated", frozen_ints(self.actuated, None, name="actuated"))
        if not self.masses.size or self.masses.min() <= 0.0:
            raise InputError(f"masses are {self.masses}", "Every particle needs a mass above zero")
        if self.dt <= 0.0 or not np.isfinite(self.dt):
            raise InputError(f"dt is {self.dt}", "Give a time step above zero, in seconds")
        for name, numbers in (("springs", self.springs), ("actuated", self.actuated)):
            if numbers.size and (numbers.min() < 0 or numbers.max() >= self.masses.size):
                raise InputError(f"{name} names a particle outside 0..{self.masses.size - 1}")
        if np.unique(self.actuated).size != self.actuated.size:
            raise InputError("actuated names a particle twice")

    @property
    def num_states(self) -> int:
        """Length of a state."""
        return 2 * self.masses.size * self.gravity.size

    @property
    def num_controls(self) -> int:
        """Length of the controls of one step."""
        return self.actuated.size * self.gravity.size

    def state(self, positions: ArrayLike, velocities: ArrayLike | float = 0.0) -> FloatArray:
        """State from positions ``(V, D)`` [m] and velocities ``(V, D)`` [m/s]."""
        shape = (self.masses.size, self.gravity.size)
        x = frozen(positions, *shape, name="positions")
        v = frozen(np.broadcast_to(np.asarray(velocities, dtype=np.float64), shape), *shape, name="velocities")
        return np.concatenate([x.ravel(), v.ravel()])

    def split(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Positions and velocities ``(..., V, D)`` of states ``(..., 2 V D)``."""
        halves = q.reshape(*q.shape[:-1], 2, self.masses.size, self.gravity.size)
        return halves[..., 0, :, :], halves[..., 1, :, :]

    def step(self, q: FloatArray, a: FloatArray, t: int) -> FloatArray:
        """State after one step from ``q`` with control forces ``a`` [N]."""
        x, v = self.split(q)
        in_space = np.zeros((len(x), 3))
        add_segment_forces(self._segments, _pad(x), _pad(v), np.ones(len(self.springs)), in_space)
        forces = in_space[:, : self.gravity.size] + self.masses[:, None] * self.gravity
        forces[self.actuated] += a.reshape(-1, self.gravity.size)
        v_next = v + self.dt * forces / self.masses[:, None]
        return np.concatenate([(x + self.dt * v_next).ravel(), v_next.ravel()])

    def vjp(self, q: FloatArray, a: FloatArray, t: int, q_next: FloatArray, r: FloatArray) -> tuple[FloatArray, ...]:
        """Products of the transposed derivatives of the step by state and by control with ``r``."""
        r_x, r_v = self.split(r)
        s = r_v + self.dt * r_x
        w = self.dt * s / self.masses[:, None]
        # As printed, the change of the new positions with the forces is missing.
        w_x = self.dt * r_v / self.masses[:, None] if self.printed else w
        in_x, in_v = self._multiply_tangents(q, w_x[:, :, None], w[:, :, None], True)
        return np.concatenate([r_x.ravel() + in_x.ravel(), s.ravel() + in_v.ravel()]), w[self.actuated].ravel()

    def jvp(
        self, q: FloatArray, a: FloatArray, t: int, q_next: FloatArray, dq: FloatArray, da: FloatArray
    ) -> FloatArray:
        """Change of the next state ``(m, n)`` for n changes of state ``(m, n)`` and of control ``(s, n)``."""
        dim, num = self.gravity.size, dq.shape[1]
        dx, dv = np.ascontiguousarray(dq).reshape(2, -1, dim, num)
        in_x, in_v = self._multiply_tangents(q, dx, dv, False)
        change = in_x + in_v
        change[self.actuated] += da.reshape(-1, dim, num)
        dv_next = dv + self.dt * change / self.masses[:, None, None]
        return np.concatenate([dx + self.dt * dv_next, dv_next]).reshape(-1, num)

    def _multiply_tangents(
        self, q: FloatArray, dx: FloatArray, dv: FloatArray, transposed: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Changes of forces ``(V, D, n)`` with positions and with velocities, for changes of particles."""
        x, v = self.split(q)
        by_x, by_v, _ = differentiate_segments(self._segments, _pad(x), _pad(v), np.ones(len(self.springs)), True)
        in_x = multiply_segment_blocks(self._segments, by_x, _pad(dx), transposed)
        in_v = multiply_segment_blocks(self._segments, by_v, _pad(dv), transposed)
        return in_x[:, : self.gravity.size], in_v[:, : self.gravity.size]

    @property
    def _segments(self) -> WeightedSegments:
        return make_pair_segments(self.springs, self.rest_lengths, self.stiffness, self.damping)


def _pad(values: FloatArray) -> FloatArray:
    """The same rows ``(V, 3, ...)`` in space: particles of a plane have no third component."""
    found = np.zeros((values.shape[0], 3, *values.shape[2:]))
    found[:, : values.shape[1]] = values
    return found


def make_network(
    masses: ArrayLike,
    springs: ArrayLike,
    rest_lengths: ArrayLike,
    *,
    stiffness: ArrayLike = 20.0,
    damping: ArrayLike = 0.5,
    gravity: ArrayLike = (0.0, 0.0),
    actuated: ArrayLike | None = None,
    dt: float = THESIS_STEP_S,
    printed: bool = False,
) -> MassSpringSystem:
    """Particles and springs in as many dimensions as ``gravity`` has; every particle is actuated by default."""
    weights = frozen(masses, None, name="masses")
    pairs = np.asarray(springs, dtype=np.int64).reshape(-1, 2)
    lengths, k, c = (np.asarray(values, dtype=np.float64) for values in (rest_lengths, stiffness, damping))
    moved = np.arange(weights.size) if actuated is None else np.asarray(actuated, dtype=np.int64)
    return MassSpringSystem(
        weights, pairs, lengths, k, c, np.asarray(gravity, dtype=np.float64), moved, dt=dt, printed=printed
    )


def make_particle(
    mass_kg: float = 1.0, *, gravity: ArrayLike = (0.0, -GRAVITY), dt: float = THESIS_STEP_S
) -> MassSpringSystem:
    """One particle that a force moves ([Engell2012]_ §26, Eqs 141-145)."""
    return make_network([mass_kg], [], [], gravity=gravity, dt=dt)


def make_spring_pair(
    masses_kg: ArrayLike = (1.0, 1.0),
    *,
    stiffness: float = 20.0,
    damping: float = 0.5,
    rest_length_m: float = 1.0,
    gravity: ArrayLike = (0.0, 0.0),
    dt: float = THESIS_STEP_S,
    printed: bool = False,
) -> MassSpringSystem:
    """Two particles and the spring between them ([Engell2012]_ §27), with the constants of its calibration."""
    return make_network(
        masses_kg,
        [(0, 1)],
        rest_length_m,
        stiffness=stiffness,
        damping=damping,
        gravity=gravity,
        dt=dt,
        printed=printed,
    )
