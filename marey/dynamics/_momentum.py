"""Momenta and energies of a clip."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray
from marey.dynamics._body import GRAVITY, Body
from marey.dynamics._inverse import CUTOFF_HZ, solve_inverse_dynamics
from marey.motion import Motion


def compute_momentum(body: Body, motion: Motion, *, cutoff_hz: float | None = CUTOFF_HZ) -> FloatArray:
    """Linear [kg m/s] and angular momentum about the centre of mass [kg m²/s], ``(F, 6)``, in world.

    Args:
        body: made by ``Body.from_motion(motion)``.
        motion: at least three frames.
        cutoff_hz: as in ``solve_inverse_dynamics``.
    """
    result = solve_inverse_dynamics(body, motion, cutoff_hz=cutoff_hz)
    return np.concatenate([result.linear_momentum, result.angular_momentum], axis=1)


def compute_kinetic_energy(body: Body, motion: Motion, *, cutoff_hz: float | None = CUTOFF_HZ) -> FloatArray:
    """Kinetic energy ``(F,)`` [J] of all pieces, moving and turning; see :func:`momentum`."""
    return solve_inverse_dynamics(body, motion, cutoff_hz=cutoff_hz).kinetic_energy


def compute_potential_energy(body: Body, motion: Motion, *, gravity: float = GRAVITY) -> FloatArray:
    """Potential energy ``(F,)`` [J], zero with the centre of mass at height zero."""
    return body.mass_kg * gravity * body.centre_of_mass(motion)[:, 1]
