"""A given motion as the start of a search in reduced space."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray
from marey.dynamics import compute_points_motion
from marey.motion import Motion
from marey.spacetime._reduced_guess import set_flight_globals
from marey.spacetime._reduced_layout import Curves, LegInterval
from marey.spacetime._reduced_solve import ReducedProblem


def vector_from_motion(built: ReducedProblem, motion: Motion) -> FloatArray:
    """The solver's vector of a motion of the behaviour's skeleton, stretched to the problem's length.

    Amplitudes are the motion's projections, root and free legs follow it; planted legs follow from the root.
    """
    scene = built.scene
    space, layout, variables = scene.space, scene.layout, scene.variables
    q = space.tree.from_motion(motion)
    times = float(layout.edges[-1]) * np.arange(len(q)) / max(len(q) - 1, 1)
    amplitudes = scene.behaviour.encode(q)
    _fit_curves(built, layout.amplitudes, times, amplitudes)
    _fit_curves(built, layout.angles, times, q[:, space.turns])
    for _, curves in layout.roots:
        _fit_curves(built, curves, times, q[:, space.root])
    for leg in (0, 1):
        dofs = space.legs[leg].dofs
        off = q[:, dofs] - space.mean[dofs] - amplitudes @ space.modes[dofs].T
        for interval in layout.legs[leg]:
            _fit_curves(
                built,
                interval.curves,
                times,
                _solve_leg_variables(built, leg, interval, q) if interval.is_stance else off,
            )
    set_flight_globals(scene)
    return variables.pack(variables.values)


def _solve_leg_variables(built: ReducedProblem, leg: int, interval: LegInterval, q: FloatArray) -> FloatArray:
    """Swivel of the knee and lift of the heel ``(F, 2)`` [rad] of a leg, as if its foot stood on the plant."""
    space, contact = built.scene.space, interval.contact
    assert contact is not None
    geometry = space.legs[leg]
    zero = np.zeros_like(q)
    links = [geometry.dofs[k] for k in (2, 3, 6, 7)]
    hip, knee, ankle, ball = compute_points_motion(
        space.tree, q, zero, zero, links, np.zeros((4, 3))
    ).position.swapaxes(0, 1)
    turn = np.deg2rad(contact.heading_deg)
    heading = np.array([np.sin(turn), 0.0, np.cos(turn)])
    n = (ankle - hip) / np.linalg.norm(ankle - hip, axis=1, keepdims=True)
    u = heading - (n @ heading)[:, None] * n
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    side = knee - hip
    swivel = np.arctan2(np.einsum("fi,fi->f", side, np.cross(n, u)), np.einsum("fi,fi->f", side, u))
    back = ankle - ball
    pitch = np.arctan2(back[:, 1], -(back @ heading))
    flat = np.arctan2(-geometry.ball[1], geometry.ball[2])
    return np.stack([swivel, pitch - flat], axis=1)


def _fit_curves(built: ReducedProblem, curves: Curves, times: FloatArray, samples: FloatArray) -> None:
    """Nearest curves to samples within their time; what is fixed stays."""
    variables, spline = built.scene.variables, curves.spline
    inside = (times >= spline.knots[0] - 1e-9) & (times <= spline.knots[-1] + 1e-9)
    index = variables.indices(curves)
    if inside.sum() < 4:
        return
    fitted = spline.fit(np.clip(times[inside], spline.knots[0], spline.knots[-1]), samples[inside], smoothing=1e-6)
    free = variables.is_free[index]
    variables.values[index[free]] = np.clip(fitted, variables.lower[index], variables.upper[index])[free]
