r"""Compiled contact with a ground plane: a penalty along the normal and smoothed friction, each implicit.

With the depth :math:`d = (x - q)\cdot n` a node that is in touch feels

.. math:: N = \max(0,\,-k d - c\,n^T u)\,n,\qquad
          t = -N\,\frac{D\,u_T}{\sqrt{u_T^T D\,u_T + D\,v_s^2}},\quad D = \mathrm{diag}(\mu_{f|b}^2, \mu_s^2)

of [Engell2012]_ §20.5 with the clamp that is missing in print. D lies in the axes along and across the body, so that
friction is :math:`\mu N` along each and an ellipse between; the power it takes is never negative.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray, kernel

RECOVERY_FRACTION = 0.2  # [-] part of a depth that a step takes back: a deep node comes out slowly, without a jump
STABLE_FRACTION = 0.2  # [-] of m/h^2: the stiffest penalty of an explicit step
SLACK_M = 1e-9  # [m] a node this far below the plane after a step is in touch


class ContactPlaneArrays(NamedTuple):
    """A plane under one body, compiled."""

    point: FloatArray  # (3,) [m] on the plane
    normal: FloatArray  # (3,) unit, away from the ground
    stiffness: FloatArray  # (V,) [N/m]
    damping: FloatArray  # (V,) [N s/m]
    friction: FloatArray  # (3,) forwards, backwards, sideways
    smoothing: float  # [m/s]
    pairs: IntArray  # (V, 2) nodes behind and before each node along the body's axis; (0, 2) where friction has no axis


@kernel
def predict_contacts(x: FloatArray, v: FloatArray, h: float, ground: ContactPlaneArrays, active: IntArray) -> int:
    """Guess which nodes touch during a step: those below the plane at its end if nothing stops them."""
    count, n, q = 0, ground.normal, ground.point
    for j in range(x.shape[0]):
        d, u = 0.0, 0.0
        for r in range(3):
            d += n[r] * (x[j, r] - q[r])
            u += n[r] * v[j, r]
        active[j] = 1 if d + h * u < SLACK_M else 0
        count += active[j]
    return count


@kernel
def _body_axis(x: FloatArray, j: int, ground: ContactPlaneArrays) -> tuple[float, float, float]:
    """The body's axis at a node, in the plane; zero where it has none."""
    if ground.pairs.shape[0] == 0:
        return 0.0, 0.0, 0.0
    a, b, n = ground.pairs[j, 0], ground.pairs[j, 1], ground.normal
    ex, ey, ez = x[b, 0] - x[a, 0], x[b, 1] - x[a, 1], x[b, 2] - x[a, 2]
    up = ex * n[0] + ey * n[1] + ez * n[2]
    ex, ey, ez = ex - up * n[0], ey - up * n[1], ez - up * n[2]
    size = sqrt(ex * ex + ey * ey + ez * ez)
    return (ex / size, ey / size, ez / size) if size > 0.0 else (0.0, 0.0, 0.0)


@kernel
def _friction_block(
    x: FloatArray, j: int, u: tuple[float, float, float], load: float, ground: ContactPlaneArrays, out: FloatArray
) -> None:
    """Write the damping of friction at a node ``(3, 3)`` [N s/m]: the force is minus this times the velocity."""
    n, s = ground.normal, ground.smoothing * ground.smoothing
    un = u[0] * n[0] + u[1] * n[1] + u[2] * n[2]
    t = (u[0] - un * n[0], u[1] - un * n[1], u[2] - un * n[2])
    e = _body_axis(x, j, ground)
    forwards = t[0] * e[0] + t[1] * e[1] + t[2] * e[2]
    sideways2 = max(0.0, t[0] * t[0] + t[1] * t[1] + t[2] * t[2] - forwards * forwards)
    blend = 0.5 + 0.5 * forwards / sqrt(forwards * forwards + s)
    mu, side = ground.friction[1] + (ground.friction[0] - ground.friction[1]) * blend, ground.friction[2]
    square = mu * mu * forwards * forwards + side * side * sideways2
    along = load * mu * mu / sqrt(square + mu * mu * s) if mu > 0.0 else 0.0
    across = load * side * side / sqrt(square + side * side * s) if side > 0.0 else 0.0
    for r in range(3):
        for c in range(3):
            flat = (1.0 if r == c else 0.0) - n[r] * n[c]
            out[r, c] = across * flat + (along - across) * e[r] * e[c]


@kernel
def _height(x: FloatArray, j: int, ground: ContactPlaneArrays) -> float:
    """Height of a node over the plane [m]."""
    n, q = ground.normal, ground.point
    return n[0] * (x[j, 0] - q[0]) + n[1] * (x[j, 1] - q[1]) + n[2] * (x[j, 2] - q[2])


@kernel
def _normal_damping(j: int, d: float, h: float, ground: ContactPlaneArrays) -> float:
    """How much a node's normal velocity is resisted [N s/m]; above the plane it may still come down to it."""
    k, c = ground.stiffness[j], ground.damping[j]
    return h * k if d > 0.0 else max(c + h * k, h * k / RECOVERY_FRACTION)


@kernel
def add_implicit_contact(
    x: FloatArray,
    v: FloatArray,
    m: FloatArray,
    h: float,
    ground: ContactPlaneArrays,
    active: IntArray,
    loads: FloatArray,
    guess: FloatArray,
    forces: FloatArray,
    blocks: FloatArray,
) -> None:
    """Add the contact of an implicit step: forces ``(V, 3)`` [N] and blocks ``(V, 3, 3)`` [kg].

    The step solves for the new velocity, so forces leave out what the blocks hold: all that goes with velocity.

    Args:
        x: positions ``(V, 3)`` [m].
        v: velocities ``(V, 3)`` at the start of the step [m/s].
        m: masses ``(V,)`` [kg].
        h: length of the step [s].
        ground: the plane.
        active: ``(V,)`` 1 for the nodes that touch in this step, from :func:`start_contacts`.
        loads: normal forces ``(V,)`` last found [N]; a node with none takes what stops it alone.
        guess: velocities ``(V, 3)`` at which friction is weighed: those of the start, or better those last solved.
        forces: added to.
        blocks: added to; diagonal blocks of the matrix of the step.
    """
    n, drag = ground.normal, np.empty((3, 3))
    for j in range(x.shape[0]):
        if active[j] == 0:
            continue
        d = _height(x, j, ground)
        un = n[0] * v[j, 0] + n[1] * v[j, 1] + n[2] * v[j, 2]
        hard = _normal_damping(j, d, h, ground)
        push = -ground.stiffness[j] * d
        load = loads[j] if loads[j] > 0.0 else max(0.0, (push - hard * un) / (1.0 + h * hard / m[j]))
        _friction_block(x, j, (guess[j, 0], guess[j, 1], guess[j, 2]), load, ground, drag)
        for r in range(3):
            forces[j, r] += push * n[r]
            for c in range(3):
                blocks[j, r, c] += h * (drag[r, c] + hard * n[r] * n[c])


@kernel
def update_contacts(
    x: FloatArray, v: FloatArray, h: float, ground: ContactPlaneArrays, active: IntArray, loads: FloatArray
) -> int:
    """After a solve: write the normal forces ``(V,)``, let go of nodes that are pulled, catch those that went through.

    Args:
        x: positions at the start of the step ``(V, 3)`` [m].
        v: velocities that were solved for ``(V, 3)`` [m/s].
        h: length of the step [s].
        ground: the plane.
        active: which nodes touch; written.
        loads: normal forces [N]; written, never negative.

    Returns:
        How many nodes changed: solve again if there are any.
    """
    changed, n = 0, ground.normal
    for j in range(x.shape[0]):
        d = _height(x, j, ground)
        un = n[0] * v[j, 0] + n[1] * v[j, 1] + n[2] * v[j, 2]
        load = -ground.stiffness[j] * d - _normal_damping(j, d, h, ground) * un if active[j] == 1 else 0.0
        touches = load >= 0.0 if active[j] == 1 else d + h * un < -SLACK_M
        loads[j] = max(0.0, load)
        changed += 1 if touches != (active[j] == 1) else 0
        active[j] = 1 if touches else 0
    return changed


@kernel
def add_explicit_contact(
    x: FloatArray,
    v: FloatArray,
    m: FloatArray,
    h: float,
    ground: ContactPlaneArrays,
    adheres: bool,
    forces: FloatArray,
    loads: FloatArray,
) -> None:
    r"""Add the contact of an explicit step to forces ``(V, 3)`` [N] and write the normal forces ``(V,)``.

    Stiffness and damping are held where a step of h is stable. Friction never reverses a node:
    :math:`\|t\|\,h \le m\,\|u_T\|`. With ``adheres`` the normal force is that of Eq. 96 as printed, without the clamp.
    """
    n, drag = ground.normal, np.empty((3, 3))
    for j in range(x.shape[0]):
        loads[j] = 0.0
        d = _height(x, j, ground)
        if d >= 0.0:
            continue
        un = n[0] * v[j, 0] + n[1] * v[j, 1] + n[2] * v[j, 2]
        k = min(ground.stiffness[j], STABLE_FRACTION * m[j] / (h * h))
        c = min(ground.damping[j], 2.0 * sqrt(STABLE_FRACTION) * m[j] / h)
        load = -k * d - c * un
        if not adheres:
            load = max(0.0, load)
        loads[j] = load
        _friction_block(x, j, (v[j, 0], v[j, 1], v[j, 2]), max(0.0, load), ground, drag)
        tx, ty, tz = 0.0, 0.0, 0.0
        for c2 in range(3):
            tx -= drag[0, c2] * v[j, c2]
            ty -= drag[1, c2] * v[j, c2]
            tz -= drag[2, c2] * v[j, c2]
        slip = sqrt(max(0.0, v[j, 0] ** 2 + v[j, 1] ** 2 + v[j, 2] ** 2 - un * un))
        size = sqrt(tx * tx + ty * ty + tz * tz)
        part = min(1.0, m[j] * slip / (h * size)) if size > 0.0 else 0.0
        forces[j, 0] += load * n[0] + part * tx
        forces[j, 1] += load * n[1] + part * ty
        forces[j, 2] += load * n[2] + part * tz
