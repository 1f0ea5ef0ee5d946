r"""Damping: how much inertia a step pretends to have, so that it stays calm. [Tournier2011]_ §11.2."""

from __future__ import annotations

from math import isfinite
from typing import Final, Literal

from marey.base import InputError, UnknownNameError

Damping = Literal["none", "uniform", "kinematic", "energetic"]
DAMPINGS: Final[tuple[Damping, ...]] = ("none", "uniform", "kinematic", "energetic")  # order of the kernels' numbers


def damping_number(damping: str) -> int:
    """Number of a scheme for the kernels.

    Raises:
        UnknownNameError: no such damping.
    """
    if damping not in DAMPINGS:
        raise UnknownNameError("damping", str(damping), "the simulator", DAMPINGS)
    return DAMPINGS.index(damping)


def check_rate(rate: float) -> float:
    """Damping rate, which must be finite and not negative.

    Raises:
        InputError: it is not.
    """
    if not isinstance(rate, int | float) or not isfinite(rate) or rate < 0.0:  # pyright: ignore[reportUnnecessaryIsInstance]  # users may pass anything
        raise InputError(f"the damping rate is {rate!r}", "Give a finite number, zero or more")
    return float(rate)
