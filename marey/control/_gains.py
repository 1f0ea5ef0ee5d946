"""Gains of a feature: how fast an error is to be taken back."""

from __future__ import annotations

from dataclasses import dataclass

from marey.base import InputError


@dataclass(frozen=True, slots=True)
class Gains:
    r"""Proportional and derivative gains of a law for velocities.

    .. math:: v^* = \dot h^* - \kappa_p \log(h^{*-1} h) - \kappa_d\,(v - \dot h^*)

    [Tournier2011]_ §14.1. Since it sets a velocity, it is stable for :math:`0\le\kappa_d<1` and
    :math:`0<\kappa_p\,dt<2(1-\kappa_d)`; :math:`\kappa_p = 1/dt` is the step of Gauss and Newton.
    """

    stiffness_per_s: float | None = None  # κp [1/s]; None: 0.2 / dt
    damping: float = 0.1  # κd [-]
    fastest: float = 5.0  # [m/s] or [rad/s] at which an error is taken back at most: far targets are soft too

    def per_s(self, dt: float) -> float:
        """Stiffness [1/s] for steps of ``dt`` [s].

        Raises:
            InputError: the law is unstable with such steps.
        """
        if not self.fastest > 0.0:
            raise InputError(f"fastest is {self.fastest}", "Give a speed above zero; infinity is one")
        stiffness = 0.2 / dt if self.stiffness_per_s is None else self.stiffness_per_s
        if not 0.0 <= self.damping < 1.0 or not 0.0 < stiffness * dt < 2.0 * (1.0 - self.damping):
            raise InputError(
                f"gains of {stiffness:.4g} per s and {self.damping:.4g} are unstable with steps of {dt:.4g} s",
                f"Damping is from 0 to below 1, stiffness above 0 and below {2 * (1 - self.damping) / dt:.4g} per s",
            )
        return stiffness
