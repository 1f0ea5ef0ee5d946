r"""Compiled contact with a ground plane: a penalty along the normal and smoothed friction, each implicit.

With the depth :math:`d = (x - q)\cdot n` a node that is in touch feels

.. math:: N = \max(0,\,-k d - c\,n^T u)\,n,\qquad
          t = -N\,\frac{D\,u_T}{\sqrt{u_T^T D\,u_T + D\,v_s^2}},\quad D = \mathrm{diag}(\mu_{f|b}^2, \mu_s^2)

of [Engell2012]_ §20.5 with the clamp that is missing in print. D lies in the axes along and across the body, so that
friction is :math:`\mu N` along each and an ellipse between; the power it takes is never negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marey.base import FloatArray, InputError, IntArray, frozen, kernel
from marey.muscle.muscles.regions import make_edge_graph

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


STIFFNESS_PER_KG: Final = 2e6  # [1/s^2] of the mean mass of a node: sixteen nodes on one sink by 0.08 mm
SMOOTHING_M_S: Final = 1e-4  # [m/s] below this speed friction is a stiff damper; a tenth of that in print: no creep


@dataclass(frozen=True, slots=True, eq=False)
class ContactPlane:
    """A plane that bodies rest and slide on.

    Friction is one number, or three: forwards, backwards and sideways of the body's own axis, which is given in the
    rest shape and turns with the body.
    """

    point: FloatArray = (0.0, 0.0, 0.0)  # pyright: ignore[reportAssignmentType]  # made an array below
    normal: FloatArray = (0.0, 1.0, 0.0)  # pyright: ignore[reportAssignmentType]  # made a unit array below
    stiffness: float | None = None  # [N/m] of a node; None: from the masses
    damping: float | None = None  # [N s/m] of a node; None: critical
    friction: float | tuple[float, float, float] = 0.8
    axis: FloatArray | tuple[float, float, float] | None = None
    smoothing_m_s: float = SMOOTHING_M_S

    def __post_init__(self) -> None:
        object.__setattr__(self, "point", frozen(self.point, 3, name="point"))
        object.__setattr__(self, "normal", _check_direction(self.normal, "normal"))
        if self.axis is not None:
            object.__setattr__(self, "axis", _check_direction(self.axis, "axis"))
        for name in ("stiffness", "smoothing_m_s"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0.0):
                raise InputError(f"{name} of the ground is {value}", "It must be above zero")
        if self.damping is not None and not (np.isfinite(self.damping) and self.damping >= 0.0):
            raise InputError(f"damping of the ground is {self.damping}", "It cannot be negative")
        _check_friction(self)

    @property
    def frictions(self) -> FloatArray:
        """Forwards, backwards, sideways ``(3,)``."""
        return np.array(np.broadcast_to(np.asarray(self.friction, dtype=np.float64), 3))

    def heights(self, x: FloatArray) -> FloatArray:
        """Heights of points ``(..., 3)`` over the plane [m]."""
        return (frozen(x, name="x") - self.point) @ self.normal

    def compile(self, nodes: ArrayLike, masses: ArrayLike, cells: NDArray[np.integer]) -> ContactPlaneArrays:
        """Arrays for the kernels.

        Args:
            nodes: the body at rest ``(V, 3)`` [m].
            masses: of its nodes ``(V,)`` [kg].
            cells: nodes of each cell ``(C, k)``, or springs ``(S, 2)``: who neighbours whom.
        """
        x, m = frozen(nodes, None, 3, name="nodes"), frozen(masses, None, name="masses")
        k = np.full(len(m), self.stiffness or STIFFNESS_PER_KG * float(m.mean()))
        c = 2.0 * np.sqrt(k * m) if self.damping is None else np.full(len(m), self.damping)
        pairs = np.zeros((0, 2), dtype=np.int64)
        if self.axis is not None and np.ptp(self.frictions) > 0.0:
            pairs = find_axis_pairs(x, cells, np.asarray(self.axis))
        point, normal = np.array(self.point), np.array(self.normal)
        return ContactPlaneArrays(point, normal, k, c, self.frictions, self.smoothing_m_s, pairs)


def find_axis_pairs(nodes: FloatArray, cells: NDArray[np.integer], axis: FloatArray) -> IntArray:
    """A node behind and one before each node along an axis of the rest shape ``(V, 2)``, two edges away where it can.

    From one to the other is the body's axis at that node, however it bends.
    """
    graph = make_edge_graph(nodes, cells)
    rows = np.repeat(np.arange(len(nodes)), np.diff(graph.indptr))
    offset = nodes[graph.indices] - nodes[rows]
    straight = offset @ axis / np.linalg.norm(offset, axis=1)  # cosine with the axis
    behind, before = _best_neighbours(rows, graph.indices, -straight), _best_neighbours(rows, graph.indices, straight)
    return np.stack([behind[behind], before[before]], axis=1)


def _best_neighbours(rows: IntArray, columns: NDArray[np.integer], score: FloatArray) -> IntArray:
    """The neighbour of each node with the largest score above zero; itself where there is none."""
    best = np.arange(int(rows.max()) + 1)
    order = np.argsort(score, kind="stable")
    order = order[score[order] > 0.0]
    best[rows[order]] = columns[order]
    return best


def _check_direction(values: ArrayLike, name: str) -> FloatArray:
    v = frozen(values, 3, name=name)
    size = float(np.linalg.norm(v))
    if size == 0.0:
        raise InputError(f"{name} of the ground is zero", "It needs a direction")
    return frozen(v / size, 3, name=name)


def _check_friction(ground: ContactPlane) -> None:
    values = np.asarray(ground.friction, dtype=np.float64)
    if values.shape not in ((), (3,)) or not np.isfinite(values).all() or (values < 0.0).any():
        fix = "Give one number or (forwards, backwards, sideways), 0 and up"
        raise InputError(f"friction of the ground is {ground.friction}", fix)
    if values.shape == (3,) and np.ptp(values) > 0.0 and ground.axis is None:
        raise InputError("friction differs by direction, but the body has no axis", "Give axis, as in the rest shape")
