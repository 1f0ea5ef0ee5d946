"""Method: how a simulator makes a step, by name; and the system that one step solves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from marey.base import FloatArray, InputError, UnknownNameError
from marey.simulate._damping import DAMPINGS, Damping, check_rate, damping_number
from marey.simulate._forces import ForceArrays
from marey.simulate._mechanics import Mechanics
from marey.simulate._mechanism import Mechanism
from marey.simulate._state import State

Integrator = Literal["naive", "identity", "constant", "variational"]
INTEGRATORS: Final[tuple[Integrator, ...]] = ("naive", "identity", "constant", "variational")  # kernels' numbers
MAX_IMPLICIT_PASSES: Final = 10
ENERGETIC_NUMBER: Final = DAMPINGS.index("energetic")


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
        damping_number(self.damping)
        object.__setattr__(self, "damping_rate", check_rate(self.damping_rate))


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
        from marey.simulate._solve_factor_kernels import solve_symmetric

        return solve_symmetric(self.damped, self.rhs)


@dataclass(frozen=True, slots=True, eq=False)
class StepLoad:
    """What acts on a figure while it steps."""

    weight: FloatArray  # (3,) [N]
    pushes: ForceArrays
    inner: FloatArray  # (d,) generalised force


def make_step_system(
    mechanism: Mechanism,
    method: IntegratorSettings,
    state: State,
    load: StepLoad,
    dt: float,
    extra_damping: float = 0.0,
) -> StepSystem:
    r"""System of one step of ``dt`` [s]; ``extra_damping`` is an energetic :math:`\alpha\,dt` in place of its own."""
    from marey.simulate._integrators_step_kernels import assemble_step, assemble_variational_step

    damping, rate = damping_number(method.damping), method.damping_rate
    if extra_damping > 0.0:
        damping, rate = ENERGETIC_NUMBER, extra_damping / dt
    is_implicit = method.integrator == "variational"
    here, damped, rhs, outer, is_solvable = assemble_step(
        mechanism,
        INTEGRATORS.index("constant" if is_implicit else method.integrator),
        method.implicit_passes,
        damping,
        rate,
        dt,
        state.step_s,
        *(state.place, state.rotations.wxyz, state.coordinates, state.velocity, state.momentum),
        load.weight,
        *load.pushes,
        load.inner,
    )
    if is_implicit and is_solvable:
        before = (state.step_s, state.coordinates, state.velocity, state.momentum)
        parts = (*here[:3], *here[4:7])
        rhs, is_solvable = assemble_variational_step(mechanism, dt, *before, parts, damped, rhs, outer)
    return StepSystem(Mechanics(mechanism, *here), damped, rhs, outer, dt, is_solvable)
