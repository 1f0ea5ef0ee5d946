"""The vector that the solver sees, and the coefficients and global unknowns that it stands for."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.spacetime._reduced_layout import Curves, ReducedLayout

MAX_AMPLITUDE: Final = 4.0  # [standard deviations] of control points: guards the upper body's limits
FLIGHT_GLOBALS: Final = 9  # centre of mass at lift-off 3, its velocity 3, angular momentum 3
_GLOBAL_SCALES: Final = np.repeat([0.1, 0.5, 5.0], 3)  # [m], [m/s], [kg m^2/s]


class ReducedVariables:
    """Coefficients of all curves, then nine globals for each flight; some are fixed, the others are scaled."""

    def __init__(self, layout: ReducedLayout) -> None:
        self.layout = layout
        self.flights = [p for p in range(layout.num_phases) if layout.is_flight(p)]
        count = layout.num_coefficients + FLIGHT_GLOBALS * len(self.flights)
        self.values = np.zeros(count)  # of the guess, and of what is fixed
        self.scales: FloatArray = np.ones(count)
        self.times: FloatArray = np.zeros(count)
        self.lower: FloatArray = np.full(count, -np.inf)
        self.upper: FloatArray = np.full(count, np.inf)
        self.is_free: BoolArray = np.ones(count, dtype=bool)
        for curves in layout.families:
            index = self.indices(curves)
            self.scales[index] = curves.scale
            self.times[index] = curves.spline.greville[:, None]
        for n, phase in enumerate(self.flights):
            own = self.flight(n)
            self.scales[own] = _GLOBAL_SCALES
            self.times[own] = 0.5 * (layout.edges[phase] + layout.edges[phase + 1])
        amplitudes = self.indices(layout.amplitudes)
        self.lower[amplitudes], self.upper[amplitudes] = -MAX_AMPLITUDE, MAX_AMPLITUDE
        self.order: IntArray = np.zeros(0, dtype=np.int64)
        self.number: IntArray = np.zeros(0, dtype=np.int64)

    def indices(self, curves: Curves) -> IntArray:
        """Numbers ``(K, n)`` of the coefficients of curves."""
        return curves.first + np.arange(curves.size).reshape(curves.spline.num_coefficients, curves.num_curves)

    def flight(self, n: int) -> IntArray:
        """Numbers ``(9,)`` of the globals of the n-th flight."""
        return self.layout.num_coefficients + FLIGHT_GLOBALS * n + np.arange(FLIGHT_GLOBALS)

    def flight_of(self, phase: int) -> IntArray:
        """Numbers of the globals of a phase of flight."""
        return self.flight(self.flights.index(phase))

    def fix(self, index: IntArray, values: FloatArray) -> None:
        """Take coefficients out of the search."""
        self.values[index] = values
        self.is_free[index] = False

    def finish(self) -> None:
        """Number the free ones in the order of time: a narrow band."""
        free = np.flatnonzero(self.is_free)
        self.order = free[np.argsort(self.times[free], kind="stable")]
        self.number = np.full(len(self.values), -1, dtype=np.int64)
        self.number[self.order] = np.arange(len(self.order))

    def pack(self, values: FloatArray) -> FloatArray:
        """The solver's vector."""
        return values[self.order] / self.scales[self.order]

    def unpack(self, x: FloatArray) -> FloatArray:
        """All coefficients and globals."""
        full = self.values.copy()
        full[self.order] = x * self.scales[self.order]
        return full

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of the solver's vector."""
        scale = self.scales[self.order]
        return self.lower[self.order] / scale, self.upper[self.order] / scale
