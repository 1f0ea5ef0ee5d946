"""How fast people approach a jump of a given length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError, frozen


@dataclass(frozen=True, slots=True)
class RunUpLaw:
    r"""Mean speed of the root from strike to the landing foot's toe off: :math:`s_n = a\,l_n + b`, within a tolerance.

    Lengths and speeds are over leg length; a jump whose run-up lies outside the tolerance is not commonly feasible.
    """

    slope: float  # [1/s]
    offset: float  # [1/s]
    tolerance: float  # [1/s]
    correlation: float = 1.0  # of speed and length in the jumps that gave the law

    def speed(self, length_n: float) -> float:
        """Normalised speed [1/s] of the approach to a normalised length; never negative."""
        return max(self.slope * length_n + self.offset, 0.0)

    def length(self, speed_n: float) -> float:
        """Normalised length of the jump that fits a normalised speed [1/s]."""
        return (speed_n - self.offset) / self.slope

    def fits(self, speed_n: float, length_n: float) -> bool:
        """Whether a speed is within the tolerance of what a length wants."""
        return abs(speed_n - self.speed(length_n)) <= self.tolerance + 1e-12

    def to_numbers(self) -> tuple[float, float, float, float]:
        """Slope, offset, tolerance and correlation."""
        return self.slope, self.offset, self.tolerance, self.correlation

    @classmethod
    def from_numbers(cls, numbers: FloatArray) -> RunUpLaw:
        """The law that :meth:`to_numbers` gave."""
        return cls(*(float(number) for number in frozen(numbers, 4, name="run-up law")))


THESIS_LAWS: Final[Mapping[str, RunUpLaw]] = {
    "walk": RunUpLaw(0.97, -0.04, 0.10, 0.97),
    "run": RunUpLaw(1.16, -0.13, 0.15, 0.94),
}
"""The laws of [Glardon2005]_ §III.3.2.1, from 105 walking and 103 running jumps, in leg lengths and seconds."""


def get_thesis_law(kind: str) -> RunUpLaw:
    """Return the law that the thesis prints for a kind of leap."""
    if kind not in THESIS_LAWS:
        raise UnknownNameError("kind of run-up", kind, "the thesis", tuple(THESIS_LAWS))
    return THESIS_LAWS[kind]


def fit_run_up(lengths_n: FloatArray, speeds_n: FloatArray, slope: float | None = None) -> RunUpLaw:
    """Least squares of speed on length; with a given slope the offset alone. The tolerance is the residuals' deviation.

    Args:
        lengths_n: ``(n,)`` lengths over leg length.
        speeds_n: ``(n,)`` [1/s] speeds over leg length.
        slope: [1/s], where the lengths are too few or too alike to give one.
    """
    if len(lengths_n) == 0:
        raise InputError("a run-up law of no jumps", "Give at least one")
    if slope is None:
        slope, offset = (float(x) for x in np.polyfit(lengths_n, speeds_n, 1))
    else:
        offset = float(np.mean(speeds_n - slope * lengths_n))
    spread = float(np.std(speeds_n - slope * lengths_n - offset))
    varied = np.std(lengths_n) > 0.0 and np.std(speeds_n) > 0.0
    correlation = float(np.corrcoef(lengths_n, speeds_n)[0, 1]) if varied else 1.0
    return RunUpLaw(slope, offset, max(spread, 0.1), correlation)
