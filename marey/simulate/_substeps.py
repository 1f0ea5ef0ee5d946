"""Smaller steps where a step is unstable, then more damping, then an error: never a number that is none.

[Tournier2011]_ §11.2: explicit own forces grow beyond all bounds where speed times step is large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Final, TypeAlias

from marey.base import ConvergenceError, FloatArray
from marey.simulate._integrators import StepSystem
from marey.simulate._state import State

if TYPE_CHECKING:
    from marey.simulate._constraints import ConstraintSolution, SolverState

MAX_HALVINGS: Final = 4  # times that a step is halved
MAX_GAIN: Final = 0.1  # of the energy may come from nowhere in one step
MAX_SURPLUS: Final = 0.5  # of the energy may come from nowhere in all; the rest was there, or is the work of forces
ENERGY_FLOOR_J: Final = 1e-9  # [J] where growth is rounding
EXTRA_DAMPINGS: Final = (0.1, 1.0, 10.0, 1e2, 1e4)  # [-] alpha dt; the last leaves hardly more than a rigid body


@dataclass(frozen=True, slots=True, eq=False)
class StepRecord:
    """One step that was made."""

    state: State
    system: StepSystem | None = None  # None before the first step
    outcome: ConstraintSolution | None = None  # of the constraints, if there are any
    memory: SolverState | None = None  # what the constraints tell the next step
    extra_damping: float = 0.0


TryStep: TypeAlias = Callable[[StepRecord, float, float], StepRecord | None]
"""From the last step, the length of the next [s] and its extra damping: the step, or None where it is unstable."""


def step_with_halving(attempt: TryStep, start: StepRecord, dt: float, level: int = 0) -> list[StepRecord]:
    """Steps that cover ``dt`` [s]: one, or smaller ones.

    Raises:
        ConvergenceError: no small step and no damping was stable; the last good state is its ``report``.
    """
    done = attempt(start, dt, 0.0)
    if done is not None:
        return [done]
    if level == MAX_HALVINGS:
        return [step_with_damping(attempt, start, dt)]
    first = step_with_halving(attempt, start, dt / 2, level + 1)
    return first + step_with_halving(attempt, first[-1], dt / 2, level + 1)


def check_energy(before: State, after: State, impulse: FloatArray) -> State | None:
    """The state after a step with its ledger of energy, or None where too much energy came from nowhere.

    Growth is held against the work of the impulse ``(d,)`` of all forces that are not the figure's own. The ledger runs
    over many steps: an explicit scheme may run away by a fifth a step as well as tenfold in one.
    """
    from marey.simulate._integrators_kernels import energy_surplus

    carried = (before.velocity, before.momentum, after.velocity, after.momentum)
    surplus, gain, kinetic, work = energy_surplus(before.surplus_j, after.step_s, *carried, impulse)
    scale = kinetic + abs(work)
    if not isfinite(scale) or gain > MAX_GAIN * scale + ENERGY_FLOOR_J:
        return None
    if surplus > max(before.surplus_j, MAX_SURPLUS * scale + ENERGY_FLOOR_J):
        return None
    object.__setattr__(after, "surplus_j", surplus)
    return after


def step_with_damping(attempt: TryStep, start: StepRecord, dt: float) -> StepRecord:
    for extra in EXTRA_DAMPINGS:
        done = attempt(start, dt, extra)
        if done is not None:
            return done
    raise ConvergenceError(
        f"the simulation is unstable at {start.state.time_s:.3f} s, even with steps of {dt:.2g} s. "
        "Take shorter steps, more damping or smaller forces",
        report=start.state,
    )
