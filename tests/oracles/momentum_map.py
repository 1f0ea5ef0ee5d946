"""The momentum map of the variational integrator."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray
from marey.simulate import State, StepSystem
from marey.simulate.mechanics import left_jacobian_inverse_times


def conserved_momentum(system: StepSystem, state: State) -> FloatArray:
    r"""Angular momentum ``(3,)`` about the origin that the variational integrator keeps exactly without forces.

    .. math:: \Pi_k = R_k J_l^{-T}(h\omega_{k+1})\,p_{\omega} + x_{k+1}\times p_x

    Discrete Noether theorem for [Tournier2011]_ (11.11), damping apart; the plain :math:`R_k p_\omega` differs by O(h).
    """
    x, y, z = (float(value) for value in -system.dt * state.velocity[:3])
    a, b, c = (float(value) for value in state.momentum[:3])
    turned = system.mechanics.frames[0] @ np.array(left_jacobian_inverse_times(x, y, z, a, b, c))
    return turned + np.cross(state.place, state.momentum[3:6])
