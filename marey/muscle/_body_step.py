"""Steps of a soft body: one, or smaller ones where one would turn cells inside out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import ConvergenceError, FloatArray, InputError, frozen
from marey.muscle._body_explicit import ExplicitScheme
from marey.muscle._body_implicit import ImplicitScheme, ImplicitSolution
from marey.muscle._body_newton import NewtonScheme

if TYPE_CHECKING:
    from marey.muscle._body import SoftBody

MAX_HALVINGS: Final = 4
MAX_ENERGY_GAIN: Final = 0.03  # [-] of its energy and of the work on it, that a body may gain from nowhere in a step
ENERGY_FLOOR_J: Final = 1e-9  # [J] where growth is rounding


@dataclass(frozen=True, slots=True)
class StepReport:
    """How a step went."""

    iterations: int = 0  # of conjugate gradients, over all sub-steps
    residual: float = 0.0  # [-] of the last solve, over what drives the step
    inverted: int = 0  # cells turned inside out at the end
    substeps: int = 0


class BodyStepper:
    """Moves one body; keeps what steps share."""

    def __init__(self, body: SoftBody) -> None:
        self.body = body
        self.implicit = ImplicitScheme(body)
        self.scheme = _make_scheme(body, self.implicit)
        self.alphas = np.ones(len(self.implicit.system.blocks))
        self.inverted = 0
        self.known: list[tuple[FloatArray, float]] = []

    def advance(self, dt: float, external: ArrayLike | None, activations: ArrayLike | None) -> StepReport:
        """Step by ``dt`` [s] as a whole or in halves."""
        if not (np.isfinite(dt) and dt > 0):
            raise InputError(f"dt is {dt}", "A step takes a positive time [s]")
        body = self.body
        load = body.masses[:, None] * body.gravity
        if external is not None:
            load = load + frozen(external, len(body.masses), 3, name="external")
        if activations is not None:
            self.alphas = self._alphas(activations)
        start, kept = (body.positions, body.velocities), body.bones.snapshot()
        try:
            return self._step_with_halving(dt, load, 0)
        except ConvergenceError:
            body.positions, body.velocities = start
            body.bones.restore(kept)
            raise

    def _alphas(self, activations: ArrayLike) -> FloatArray:
        if self.body.muscles is None:
            raise InputError("activations are given, but the body has no muscles", "Pass muscles= to from_mesh")
        return np.ascontiguousarray(self.body.muscles.alphas(activations))

    def _step_with_halving(self, h: float, load: FloatArray, level: int) -> StepReport:
        body = self.body
        kept = body.bones.snapshot()
        found, inverted, calm = self._attempt_step(h, load, kept)
        if inverted >= 0 and (level == MAX_HALVINGS or calm):
            self.inverted = inverted
            body.positions, body.velocities = found.positions, found.velocities
            return StepReport(found.iterations, found.residual, inverted, found.substeps)
        body.bones.restore(kept)
        if level == MAX_HALVINGS:
            raise ConvergenceError(f"a soft body exploded in a step of {h:.2e} s", body.report)
        first = self._step_with_halving(h / 2, load, level + 1)
        second = self._step_with_halving(h / 2, load, level + 1)
        iterations, count = first.iterations + second.iterations, first.substeps + second.substeps
        return StepReport(found.iterations + iterations, second.residual, second.inverted, count)

    def _attempt_step(
        self, h: float, load: FloatArray, kept: tuple[FloatArray, ...]
    ) -> tuple[ImplicitSolution, int, bool]:
        """A step, how many cells it turned inside out, and whether it is calm; if not, it was solved again.

        After a step that was solved twice, the first solve of the next need not be good.
        """
        body = self.body
        found = self.scheme.solve(body, h, load, self.alphas)
        inverted = self._count_inverted(found)
        calm = inverted >= 0 and self._is_plausible(found, inverted)
        rough, self.implicit.is_rough = self.implicit.is_rough, not calm
        if self.scheme is not self.implicit or inverted < 0 or (calm and not rough):
            return found, inverted, calm
        body.bones.restore(kept)
        again = self.implicit.solve(body, h, load, self.alphas, found)
        again.iterations += found.iterations
        inverted = self._count_inverted(again)
        return again, inverted, inverted >= 0 and self._is_plausible(again, inverted)

    def _count_inverted(self, found: ImplicitSolution) -> int:
        """Cells inside out, or -1 where numbers are none."""
        if not np.isfinite(found.velocities).all():
            return -1
        return self.body.elastic.inverted(found.positions)

    def _is_plausible(self, found: ImplicitSolution, inverted: int) -> bool:
        """Whether no cell was turned inside out and no energy came from nowhere.

        One linear solve cannot follow a fast turn of a stiff body: what it stretches springs back in the next step.
        """
        if inverted > self.inverted:
            return False
        if not np.isfinite(found.work):
            return True
        before = self._energy(self.body.positions, self.body.velocities)
        after = self._energy(found.positions, found.velocities)
        return after - before - found.work <= MAX_ENERGY_GAIN * (before + abs(found.work)) + ENERGY_FLOOR_J

    def _energy(self, x: FloatArray, v: FloatArray) -> float:
        """Kinetic and elastic energy [J]; the elastic part of the last three positions is known."""
        known = next((energy for where, energy in self.known if where is x), None)
        if known is None:
            known = self.body.elastic.energy(x)
            self.known = [(x, known), *self.known[:2]]
        return 0.5 * float(self.body.masses @ np.einsum("ni,ni->n", v, v)) + known


def _make_scheme(body: SoftBody, implicit: ImplicitScheme) -> ImplicitScheme | NewtonScheme | ExplicitScheme:
    if body.settings.integrator == "newton":
        return NewtonScheme(body, implicit)
    return ExplicitScheme(body, implicit) if body.settings.integrator == "explicit" else implicit
