"""A given motion as the start of a search in reduced space."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray
from marey.motion import Motion
from marey.spacetime._reduced_guess import throw
from marey.spacetime._reduced_layout import Curves
from marey.spacetime._reduced_solve import Built


def warm_vector(built: Built, motion: Motion) -> FloatArray:
    """The solver's vector of a motion of the behaviour's skeleton, stretched to the problem's length.

    Amplitudes are the motion's projections, root and free legs follow it; planted legs follow from the root.
    """
    scene = built.scene
    space, layout, variables = scene.space, scene.layout, scene.variables
    q = space.tree.from_motion(motion)
    times = np.linspace(layout.edges[0], layout.edges[-1], len(q))
    amplitudes = scene.behaviour.encode(q)
    _set(built, layout.amplitudes, times, amplitudes)
    _set(built, layout.angles, times, q[:, space.turns])
    for _, curves in layout.roots:
        _set(built, curves, times, q[:, space.root])
    for leg in (0, 1):
        dofs = space.legs[leg].dofs
        off = q[:, dofs] - space.mean[dofs] - amplitudes @ space.modes[dofs].T
        for interval in layout.legs[leg]:
            if not interval.is_stance:
                _set(built, interval.curves, times, off)
    throw(scene)
    return variables.pack(variables.values)


def _set(built: Built, curves: Curves, times: FloatArray, samples: FloatArray) -> None:
    """Nearest curves to samples within their time; what is fixed stays."""
    variables, spline = built.scene.variables, curves.spline
    inside = (times >= spline.knots[0] - 1e-9) & (times <= spline.knots[-1] + 1e-9)
    index = variables.indices(curves)
    if inside.sum() < 4:
        return
    fitted = spline.fit(np.clip(times[inside], spline.knots[0], spline.knots[-1]), samples[inside], smoothing=1e-6)
    free = variables.is_free[index]
    variables.values[index[free]] = np.clip(fitted, variables.lower[index], variables.upper[index])[free]
