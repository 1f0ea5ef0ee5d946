"""Particles joined by springs, moved by forces: the systems on which space-time control is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
