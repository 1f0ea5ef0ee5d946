r"""One step of time by a named method: the system that it solves, its damping, and smaller steps where it is unstable.

Mechanics, forces, damping and the right-hand side are assembled in one compiled call. Damping is the diagonal D of
:math:`(M + D)\,v = f`: how much inertia a step adds, so that it stays stable. Explicit own forces grow beyond all
bounds where speed times step is large: smaller steps come first, then more damping, then an error, never a value that
is not finite ([Tournier2011]_ §11.2). Geometric steps are [Tournier2011]_ (11.12), (11.13) and (11.14), the implicit
step is the variational integrator of §11.1.2, (11.11), solved by Newton steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from marey.base import ConvergenceError, FloatArray, InputError, UnknownNameError, kernel
from marey.simulate.bounded_qp import cholesky, solve_cholesky, solve_symmetric
from marey.simulate.forces import ForceArrays
from marey.simulate.mechanics import (
    IDENTITY,
    State,
    compute_quadratic_forces,
    energy_surplus,
    left_jacobian_inverse_times,
    momentum_right_hand_side,
)
from marey.simulate.mechanism import Mechanics, Mechanism, compute_mechanics

if TYPE_CHECKING:
    from marey.simulate.constraints import ConstraintSolution, SolverState

NEWTON_STEPS = 12
NEWTON_TOL = 1e-12  # of the largest momentum: what rounding leaves of a solved step
NEWTON_ACCEPTED = 1e-10  # the tolerance of [Tournier2011]_'s specification
DIFFERENCE_STEP = 1e-4  # [rad/s] of the Jacobian; the own forces are quadratic, so it has no error there


@kernel
def _evaluate_residual(
    here: Mechanics,
    h: float,
    v: FloatArray,
    inertia: FloatArray,
    carried: FloatArray,
    outer: FloatArray,
    coordinates: FloatArray,
) -> FloatArray:
    """Residual ``(d,)`` of (11.11) at the velocity ``v``."""
    force = outer + compute_quadratic_forces(here, coordinates, v)
    # (11.11): J_l^{-T}(h v) M v - J_r^{-T}(h v_k) p_k - h F; `carried` is the second term
    p = inertia @ v
    out = p - carried - h * force
    for n in range(1 + here.mechanism.joints.shape[0]):
        i = 0 if n == 0 else 6 + 3 * (n - 1)
        # J_l^{-T}(x) is J_l^{-1}(-x)
        a, b, c = left_jacobian_inverse_times(-h * v[i], -h * v[i + 1], -h * v[i + 2], p[i], p[i + 1], p[i + 2])
        out[i] += a - p[i]
        out[i + 1] += b - p[i + 1]
        out[i + 2] += c - p[i + 2]
    return out


@kernel
def solve_variational_step(
    here: Mechanics,
    h: float,
    start: FloatArray,
    inertia: FloatArray,
    carried: FloatArray,
    outer: FloatArray,
    coordinates: FloatArray,
) -> tuple[FloatArray, bool]:
    """Velocity ``(d,)`` that solves (11.11), by Newton steps with a Jacobian by differences; and whether it does."""
    v, size = start.copy(), start.shape[0]
    slope = np.empty((size, size))
    residual = _evaluate_residual(here, h, v, inertia, carried, outer, coordinates)
    worst, scale = np.abs(residual).max(), max(1.0, np.abs(carried).max())
    for n in range(NEWTON_STEPS):
        # Solved to rounding, or lost
        if not isfinite(worst) or worst <= NEWTON_TOL * scale:
            break
        # Jacobian by central differences, renewed in every third step
        if n % 3 == 0:
            for i in range(size):
                v[i] += DIFFERENCE_STEP
                ahead = _evaluate_residual(here, h, v, inertia, carried, outer, coordinates)
                v[i] -= 2.0 * DIFFERENCE_STEP
                slope[:, i] = ahead - _evaluate_residual(here, h, v, inertia, carried, outer, coordinates)
                v[i] += DIFFERENCE_STEP
            slope /= 2.0 * DIFFERENCE_STEP
            if not isfinite(slope.sum()):
                return v, False
        # Newton step
        v -= np.linalg.solve(slope, residual)
        residual = _evaluate_residual(here, h, v, inertia, carried, outer, coordinates)
        worst = np.abs(residual).max()
    return v, isfinite(worst) and worst <= NEWTON_ACCEPTED * scale


NONE, UNIFORM, KINEMATIC, ENERGETIC = 0, 1, 2, 3


@kernel
def add_damping(here: Mechanics, damping: int, amount: float) -> FloatArray:
    r"""Inertia ``(d, d)`` with damping, :math:`M + D`; ``amount`` is the rate times the step, :math:`\alpha\,dt`.

    ``UNIFORM`` :math:`D = \alpha\,dt\,I`, which brakes the root too; ``KINEMATIC``
    :math:`D = \alpha\,dt\,\mathrm{diag}(J^T J)` with J of the ends of the figure; ``ENERGETIC``
    :math:`D = \alpha\,dt\,\mathrm{diag}(M)`. The last two leave the six entries of the root, hence every momentum.
    """
    mech, frames, angular, linear, inertia = here.mechanism, here.frames, here.angular, here.linear, here.inertia
    out = inertia.copy()
    size = inertia.shape[0]
    if damping == NONE or amount == 0.0:
        return out
    if damping == UNIFORM:
        for i in range(size):
            out[i, i] += amount
    elif damping == ENERGETIC:
        for i in range(6, size):
            out[i, i] += amount * inertia[i, i]
    else:
        # Diagonal of J^T J: squared speeds of the ends for a unit rate of each coordinate but the root's
        for n in range(mech.ends.shape[0]):
            j = mech.ends[n]
            # Arm from the joint to the tip, in world axes
            p, q, r = mech.tips[n, 0], mech.tips[n, 1], mech.tips[n, 2]
            x = frames[j, 0, 0] * p + frames[j, 0, 1] * q + frames[j, 0, 2] * r
            y = frames[j, 1, 0] * p + frames[j, 1, 1] * q + frames[j, 1, 2] * r
            z = frames[j, 2, 0] * p + frames[j, 2, 1] * q + frames[j, 2, 2] * r
            for i in range(6, out.shape[0]):
                # Column of the tip's Jacobian: linear + angular x arm
                a, b, c = angular[j, 0, i], angular[j, 1, i], angular[j, 2, i]
                u = linear[j, 0, i] + b * z - c * y
                v = linear[j, 1, i] + c * x - a * z
                w = linear[j, 2, i] + a * y - b * x
                out[i, i] += amount * (u * u + v * v + w * w)
    return out


Damping = Literal["none", "uniform", "kinematic", "energetic"]
DAMPINGS: Final[tuple[Damping, ...]] = ("none", "uniform", "kinematic", "energetic")  # order of the kernels' numbers


class StepMethod(NamedTuple):
    """How a step is made, as the kernels take it."""

    scheme: int  # number of the integrator
    passes: int  # times that the own forces are taken anew with the velocity that they lead to
    damping: int  # number of the damping
    rate: float  # of the damping
    h: float  # [s] length of the step


class StartState(NamedTuple):
    """State at the start of a step, as the kernels take it; see ``State``."""

    last: float  # [s] length of the step before
    place: FloatArray  # (3,)
    wxyz: FloatArray  # (J, 4)
    coordinates: FloatArray  # (k,)
    velocity: FloatArray  # (d,)
    momentum: FloatArray  # (d,)


class StepLoad(NamedTuple):
    """What acts on a figure while it steps."""

    weight: FloatArray  # (3,) [N]
    pushes: ForceArrays
    inner: FloatArray  # (d,) generalised force


@kernel
def assemble_step(
    mech: Mechanism, method: StepMethod, start: StartState, load: StepLoad
) -> tuple[tuple[FloatArray, ...], FloatArray, FloatArray, FloatArray, bool]:
    """One step but for its solve: arrays of the mechanics, M + D, right-hand side, forces from outside, and success."""
    v, p = start.velocity.copy(), start.momentum.copy()  # so that what is called is compiled for one kind of array
    here = compute_mechanics(mech, start.place, start.wxyz, start.coordinates)
    frames, angular, linear, columns, weight = here.frames, here.angular, here.linear, here.com_jacobian, load.weight
    # Generalised force of the weight, at the centre of mass: J_com^T F
    generalised = np.zeros(columns.shape[1])
    for i in range(generalised.shape[0]):
        generalised[i] = weight[0] * columns[0, i] + weight[1] * columns[1, i] + weight[2] * columns[2, i]
    # Generalised force of pushes at points, sum of J_P^T F_P; the arm of a point turns with its joint
    for n in range(load.pushes.joints.shape[0]):
        j, offset, push = load.pushes.joints[n], load.pushes.offsets[n], load.pushes.forces[n]
        x = y = z = 0.0
        for m in range(3):
            x += frames[j, 0, m] * offset[m]
            y += frames[j, 1, m] * offset[m]
            z += frames[j, 2, m] * offset[m]
        # J_P^T F_P = J_linear^T F + J_angular^T (arm x F)
        for i in range(generalised.shape[0]):
            generalised[i] += push[0] * linear[j, 0, i] + push[1] * linear[j, 1, i] + push[2] * linear[j, 2, i]
            generalised[i] += (y * push[2] - z * push[1]) * angular[j, 0, i]
            generalised[i] += (z * push[0] - x * push[2]) * angular[j, 1, i]
            generalised[i] += (x * push[1] - y * push[0]) * angular[j, 2, i]
    # M + D, and the right-hand side (11.12)-(11.14) from the own forces at the velocity of the last pass
    outer = load.inner + generalised
    damped = add_damping(here, method.damping, method.rate * method.h)
    rhs, is_definite, upper, new = p, True, damped, v
    for n in range(method.passes + 1):
        own = compute_quadratic_forces(here, start.coordinates, new)
        rhs = momentum_right_hand_side(mech, method.scheme, method.h, start.last, v, p, own + outer)
        # A pass solves for the new velocity, at which the own forces are evaluated next
        if n < method.passes:
            if n == 0:
                upper, is_definite = cholesky(damped)
            if not is_definite:
                break
            new = solve_cholesky(upper, rhs)
    return here[1:], damped, rhs, outer, is_definite


@kernel
def assemble_variational_step(
    here: Mechanics, h: float, start: StartState, damped: FloatArray, rhs: FloatArray, outer: FloatArray
) -> tuple[FloatArray, bool]:
    r"""Right-hand side ``(d,)`` whose solution is the velocity of the implicit step; and whether that was found.

    The search starts from the explicit right-hand side ``rhs``. Under constraints, the velocity that is nearest to the
    implicit one in the metric of M + D is taken.
    """
    upper, is_definite = cholesky(damped)
    if not is_definite:
        return rhs, False
    # J_r^{-T}(h v_k) p_k of (11.11): the scheme IDENTITY without forces
    v, p = start.velocity.copy(), start.momentum.copy()
    carried = momentum_right_hand_side(here.mechanism, IDENTITY, 0.0, start.last, v, p, outer)
    first = solve_cholesky(upper, rhs)
    found, has_converged = solve_variational_step(here, h, first, damped, carried, outer, start.coordinates)
    # The system (M + D) v = f then has the implicit velocity as its solution
    return damped @ found, has_converged


Integrator = Literal["naive", "identity", "constant", "variational"]
INTEGRATORS: Final[tuple[Integrator, ...]] = ("naive", "identity", "constant", "variational")  # kernels' numbers
MAX_IMPLICIT_PASSES: Final = 10


@dataclass(frozen=True, slots=True)
class IntegratorSettings:
    """Integrator and damping of a simulator; see ``Simulator``."""

    integrator: Integrator = "constant"
    implicit_passes: int = 0
    damping: Damping = "none"
    damping_rate: float = 1.0

    def __post_init__(self) -> None:
        if self.integrator not in INTEGRATORS:
            raise UnknownNameError("integrator", str(self.integrator), "the simulator", INTEGRATORS)
        if self.implicit_passes not in range(MAX_IMPLICIT_PASSES + 1):
            raise InputError(
                f"implicit_passes is {self.implicit_passes!r}", f"Give a whole number, 0 to {MAX_IMPLICIT_PASSES}"
            )
        if self.damping not in DAMPINGS:
            raise UnknownNameError("damping", str(self.damping), "the simulator", DAMPINGS)
        rate = self.damping_rate
        if not isinstance(rate, int | float) or not isfinite(rate) or rate < 0.0:  # pyright: ignore[reportUnnecessaryIsInstance]  # users may pass anything
            raise InputError(f"the damping rate is {rate!r}", "Give a finite number, zero or more")
        object.__setattr__(self, "damping_rate", float(rate))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StepSystem:
    r"""What a step solves for its velocity: :math:`\min_v \frac12 v^T (M + D)\,v - f^T v`, subject to constraints."""

    mechanics: Mechanics  # at the start of the step
    damped: FloatArray  # (d, d) M + D
    rhs: FloatArray  # (d,) f: momentum carried on, own and other forces times dt
    outer: FloatArray  # (d,) [N, N m] forces that are not the figure's own: weight, pushes, controls
    dt: float  # [s]
    is_solvable: bool  # False where the implicit step did not converge

    def free_velocity(self) -> tuple[FloatArray, bool]:
        """Velocity ``(d,)`` without constraints, and whether M + D is positive definite."""
        return solve_symmetric(self.damped, self.rhs)


def make_step_system(
    mechanism: Mechanism,
    method: IntegratorSettings,
    state: State,
    load: StepLoad,
    dt: float,
    extra_damping: float = 0.0,
) -> StepSystem:
    r"""System of one step of ``dt`` [s]; ``extra_damping`` is an energetic :math:`\alpha\,dt` in place of its own."""
    damping, rate = DAMPINGS.index(method.damping), method.damping_rate
    if extra_damping > 0.0:
        damping, rate = ENERGETIC, extra_damping / dt
    is_implicit = method.integrator == "variational"
    # The variational step starts from the explicit one of scheme CONSTANT
    scheme = INTEGRATORS.index("constant" if is_implicit else method.integrator)
    configuration = (state.place, state.rotations.wxyz, state.coordinates)
    start = StartState(state.step_s, *configuration, state.velocity, state.momentum)
    steps = StepMethod(scheme, method.implicit_passes, damping, rate, dt)
    arrays, damped, rhs, outer, is_solvable = assemble_step(mechanism, steps, start, load)
    here = Mechanics(mechanism, *arrays)
    # Newton steps of (11.11)
    if is_implicit and is_solvable:
        rhs, is_solvable = assemble_variational_step(here, dt, start, damped, rhs, outer)
    return StepSystem(here, damped, rhs, outer, dt, is_solvable)


ENERGY_FLOOR_J: Final = 1e-9  # [J] where growth is rounding


@dataclass(frozen=True, slots=True)
class StabilitySettings:
    """When a step counts as unstable, and what is tried then: smaller steps, then damping."""

    max_halvings: int = 4  # of a step
    max_gain: float = 0.1  # [-] of the energy that may come from nowhere in one step
    max_surplus: float = 0.5  # [-] of the energy that may come from nowhere in all; the rest is the work of forces
    extra_dampings: tuple[float, ...] = (0.1, 1.0, 10.0, 1e2, 1e4)  # [-] alpha dt; the last leaves nearly a rigid body

    def __post_init__(self) -> None:
        shares = (self.max_gain, self.max_surplus, *self.extra_dampings)
        if self.max_halvings < 0 or not all(isfinite(value) and value > 0.0 for value in shares):
            raise InputError(f"{self}", "Give positive numbers, and no halving or more")


DEFAULT_STABILITY: Final = StabilitySettings()


@dataclass(frozen=True, slots=True, eq=False)
class StepRecord:
    """One step that was made."""

    state: State
    system: StepSystem | None = None  # None before the first step
    outcome: ConstraintSolution | None = None  # of the constraints, if there are any
    memory: SolverState | None = None  # state of the constraints for the next step
    extra_damping: float = 0.0


TryStep: TypeAlias = Callable[[StepRecord, float, float], StepRecord | None]
"""From the last step, the length of the next [s] and its extra damping: the step, or None where it is unstable."""


def step_with_halving(
    attempt: TryStep, start: StepRecord, dt: float, settings: StabilitySettings = DEFAULT_STABILITY, level: int = 0
) -> list[StepRecord]:
    """Steps that cover ``dt`` [s]: one, or smaller ones.

    Raises:
        ConvergenceError: no small step and no damping was stable; the last good state is its ``report``.
    """
    # The whole step, else two halves of it, and damping where halves are too short
    done = attempt(start, dt, 0.0)
    if done is not None:
        return [done]
    if level == settings.max_halvings:
        for extra in settings.extra_dampings:
            done = attempt(start, dt, extra)
            if done is not None:
                return [done]
        raise ConvergenceError(
            f"the simulation is unstable at {start.state.time_s:.3f} s, even with steps of {dt:.2g} s. "
            "Take shorter steps, more damping or smaller forces",
            report=start.state,
        )
    first = step_with_halving(attempt, start, dt / 2, settings, level + 1)
    return first + step_with_halving(attempt, first[-1], dt / 2, settings, level + 1)


def check_energy(before: State, after: State, impulse: FloatArray, settings: StabilitySettings) -> State | None:
    """The state after a step with its ledger of energy, or None where too much energy came from nowhere.

    Growth is held against the work of the impulse ``(d,)`` of all forces that are not the figure's own. The ledger runs
    over many steps: an explicit scheme may run away by a fifth a step as well as tenfold in one.
    """
    carried = (before.velocity, before.momentum, after.velocity, after.momentum)
    surplus, gain, kinetic, work = energy_surplus(before.surplus_j, after.step_s, *carried, impulse)
    scale = kinetic + abs(work)
    # Too much in this step, then too much in all
    if not isfinite(scale) or gain > settings.max_gain * scale + ENERGY_FLOOR_J:
        return None
    if surplus > max(before.surplus_j, settings.max_surplus * scale + ENERGY_FLOOR_J):
        return None
    object.__setattr__(after, "surplus_j", surplus)
    return after
