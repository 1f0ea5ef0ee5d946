"""A term of the objective that needs the dynamics, and the instants it looks at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.spacetime._full_jets import StateJet
from marey.spacetime._full_layout import FullLayout
from marey.spacetime._full_state import BodyState
from marey.spacetime._timeline import InstantBuilder

INSET: Final = 0.05  # [-] of a span: both ends of a difference lie inside one span


@dataclass(frozen=True, slots=True, eq=False)
class ResidualTerm:
    """A term ``sum_n w_n |r_n|^2`` whose residuals change with the state: Gauss-Newton.

    A residual may add parts from several instants of one span of the spline.
    """

    name: str
    parts: tuple[IntArray, ...]  # instants (n,) of each part
    weights: FloatArray  # (n,)
    evaluate: Callable[[BodyState], tuple[StateJet, ...]]  # (n, m) each


def add_gauss_instants(layout: FullLayout, builder: InstantBuilder, phase: int) -> tuple[IntArray, FloatArray]:
    """Two Gauss points in each span of a phase, and their weights [s]."""
    at = add_instants(builder, phase, layout.timeline.gauss_frames(phase, 2))
    return at, np.repeat(0.5 * np.diff(layout.timeline.breaks(phase)), 2)


def add_span_ends(layout: FullLayout, builder: InstantBuilder, phase: int) -> tuple[IntArray, IntArray, FloatArray]:
    """First and last instant of each span of a phase, a little inside it, and the time between them [s]."""
    breaks = layout.timeline.breaks(phase)
    steps = np.diff(breaks)
    low = add_instants(builder, phase, breaks[:-1] + INSET * steps)
    high = add_instants(builder, phase, breaks[1:] - INSET * steps)
    return low, high, (1.0 - 2.0 * INSET) * steps


def scale_differences(steps: FloatArray) -> FloatArray:
    """What to divide squared differences over ``steps`` [s] by, so that they stand for their whole spans."""
    return steps * (1.0 - 2.0 * INSET)


def add_instants(builder: InstantBuilder, phase: int, times: FloatArray) -> IntArray:
    """Numbers of instants of a phase."""
    return np.array([builder.add(phase, float(t)) for t in times], dtype=np.int64)
