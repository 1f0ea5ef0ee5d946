"""Coarse to fine: the same motion on a spline with every span halved, to be solved again from there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from marey.base import FloatArray
from marey.spacetime._full_layout import FullLayout
from marey.spacetime._problem import SpacetimeProblem

ROUND_UP = 1.0 + 1e-12  # a span this much longer gives the same number of them


def halve_spans(problem: SpacetimeProblem, layout: FullLayout) -> SpacetimeProblem:
    """The problem with every span of its layout cut in two, and one level of refinement less."""
    counts = [len(layout.timeline.breaks(i)) - 1 for i in range(len(layout.timeline.phases))]
    phases = tuple(
        replace(phase, span_s=phase.duration_s / (2 * count) * ROUND_UP)
        for phase, count in zip(layout.timeline.phases, counts, strict=True)
    )
    return replace(problem, phases=phases, refine=max(problem.refine - 1, 0))


def refine_layout(layout: FullLayout) -> FullLayout:
    """Unknowns of the same problem with every span halved."""
    return FullLayout.from_problem(halve_spans(layout.problem, layout), layout.figure)


def refine_unknowns(layout: FullLayout, x: FloatArray) -> FloatArray:
    r"""Unscaled unknowns of the same motion in :func:`finer_layout`, by knot insertion: exact.

    .. math:: \sum_k c_k\phi_k(t) = \sum_j (Rc)_j\,\tilde\phi_j(t)\quad\text{for every}\ t

    What flights and impacts carry along stays as it is.
    """
    matrix: Any = layout.timeline.spline.refine()[1]
    points = np.asarray(matrix @ layout.points(x), dtype=np.float64)
    return np.concatenate([points.ravel(), x[layout.num_curve_unknowns :]])
