"""Particles joined by springs, moved by forces: the systems on which space-time control is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints, kernel

MIN_LENGTH_M = 1e-9  # [m] a shorter spring has no direction and no force


class ParticleSprings(NamedTuple):
    """Damped springs between particles."""

    pairs: IntArray  # (S, 2)
    rest: FloatArray  # (S,) [m]
    stiffness: FloatArray  # (S,) [N/m]
    damping: FloatArray  # (S,) [N s/m]


@kernel
def compute_spring_forces(springs: ParticleSprings, x: FloatArray, v: FloatArray) -> FloatArray:
    """Forces of springs and their dampers on particles ``(V, D)`` at positions and velocities."""
    forces = np.zeros_like(x)
    dim = x.shape[1]
    for s in range(springs.pairs.shape[0]):
        a, b = springs.pairs[s]
        square, dot = 0.0, 0.0
        for i in range(dim):
            e = x[a, i] - x[b, i]
            square += e * e
            dot += e * (v[a, i] - v[b, i])
        length = np.sqrt(square)
        if length < MIN_LENGTH_M:
            continue
        stretch = length - springs.rest[s]
        pull = -(springs.stiffness[s] * stretch + springs.damping[s] * dot / length) / length
        for i in range(dim):
            f = pull * (x[a, i] - x[b, i])
            forces[a, i] += f
            forces[b, i] -= f
    return forces


@kernel
def compute_spring_tangents(springs: ParticleSprings, x: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Blocks :math:`\partial f_a/\partial x_a` and :math:`\partial f_a/\partial v_a` per spring, ``(S, D, D)``.

    With unit vector h, :math:`H = (I - hh^T)/l` and T the tension, the blocks of [Engell2012]_ §27 are
    :math:`-h(kh^T + c\,\Delta v^T H) - TH` and :math:`-c\,hh^T`. The force on b and the columns of b have the opposite
    sign.
    """
    num, dim = springs.pairs.shape[0], x.shape[1]
    in_x, in_v = np.zeros((num, dim, dim)), np.zeros((num, dim, dim))
    h, across = np.zeros(dim), np.zeros(dim)
    for s in range(num):
        a, b = springs.pairs[s]
        k, c = springs.stiffness[s], springs.damping[s]
        length = 0.0
        for i in range(dim):
            h[i] = x[a, i] - x[b, i]
            length += h[i] * h[i]
        length = np.sqrt(length)
        if length < MIN_LENGTH_M:
            continue
        # The rate of the length, and H times the difference of velocities.
        rate = 0.0
        for i in range(dim):
            h[i] /= length
            rate += h[i] * (v[a, i] - v[b, i])
        for i in range(dim):
            across[i] = (v[a, i] - v[b, i] - rate * h[i]) / length
        tension = k * (length - springs.rest[s]) + c * rate
        for i in range(dim):
            for j in range(dim):
                side = ((1.0 if i == j else 0.0) - h[i] * h[j]) / length
                in_x[s, i, j] = -h[i] * (k * h[j] + c * across[j]) - tension * side
                in_v[s, i, j] = -c * h[i] * h[j]
    return in_x, in_v


@kernel
def multiply_spring_blocks(pairs: IntArray, blocks: FloatArray, d: FloatArray, transposed: bool) -> FloatArray:
    """Blocks of springs, or their transposes, times n changes of particles at once ``(V, D, n)``."""
    out = np.zeros_like(d)
    dim, num = d.shape[1], d.shape[2]
    for s in range(pairs.shape[0]):
        a, b = pairs[s]
        for i in range(dim):
            for j in range(dim):
                entry = blocks[s, j, i] if transposed else blocks[s, i, j]
                for n in range(num):
                    change = entry * (d[a, j, n] - d[b, j, n])
                    out[a, i, n] += change
                    out[b, i, n] -= change
    return out


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
        forces = compute_spring_forces(self._springs(), x, v) + self.masses[:, None] * self.gravity
        forces[self.actuated] += a.reshape(-1, self.gravity.size)
        v_next = v + self.dt * forces / self.masses[:, None]
        return np.concatenate([(x + self.dt * v_next).ravel(), v_next.ravel()])

    def vjp(self, q: FloatArray, a: FloatArray, t: int, q_next: FloatArray, r: FloatArray) -> tuple[FloatArray, ...]:
        """Products of the transposed derivatives of the step by state and by control with ``r``."""
        x, v = self.split(q)
        r_x, r_v = self.split(r)
        s = r_v + self.dt * r_x
        w = self.dt * s / self.masses[:, None]
        by_x, by_v = compute_spring_tangents(self._springs(), x, v)
        # As printed, the change of the new positions with the forces is missing.
        w_x = self.dt * r_v / self.masses[:, None] if self.printed else w
        in_x = multiply_spring_blocks(self.springs, by_x, w_x[:, :, None], True)
        in_v = multiply_spring_blocks(self.springs, by_v, w[:, :, None], True)
        return np.concatenate([r_x.ravel() + in_x.ravel(), s.ravel() + in_v.ravel()]), w[self.actuated].ravel()

    def jvp(
        self, q: FloatArray, a: FloatArray, t: int, q_next: FloatArray, dq: FloatArray, da: FloatArray
    ) -> FloatArray:
        """Change of the next state ``(m, n)`` for n changes of state ``(m, n)`` and of control ``(s, n)``."""
        x, v = self.split(q)
        dim, num = self.gravity.size, dq.shape[1]
        dx, dv = np.ascontiguousarray(dq).reshape(2, -1, dim, num)
        by_x, by_v = compute_spring_tangents(self._springs(), x, v)
        change = multiply_spring_blocks(self.springs, by_x, dx, False)
        change += multiply_spring_blocks(self.springs, by_v, dv, False)
        change[self.actuated] += da.reshape(-1, dim, num)
        dv_next = dv + self.dt * change / self.masses[:, None, None]
        return np.concatenate([dx + self.dt * dv_next, dv_next]).reshape(-1, num)

    def _springs(self) -> ParticleSprings:
        return ParticleSprings(self.springs, self.rest_lengths, self.stiffness, self.damping)


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
