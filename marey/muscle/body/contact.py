r"""Compiled contact with a ground plane and boxes on it: a penalty along the normal and smoothed friction, implicit.

With the depth :math:`d = (x - q)\cdot n` a node that is in touch feels

.. math:: N = \max(0,\,-k d - c\,n^T u)\,n,\qquad
          t = -N\,\frac{D\,u_T}{\sqrt{u_T^T D\,u_T + D\,v_s^2}},\quad D = \mathrm{diag}(\mu_{f|b}^2, \mu_s^2)

of [Engell2012]_ §20.5 with the clamp that is missing in print. D lies in the axes along and across the body, so that
friction is :math:`\mu N` along each and an ellipse between; the power it takes is never negative. Among boxes a node
feels the plane of the nearest surface, found at the start of each step.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marey.base import FloatArray, InputError, IntArray, frozen, kernel
from marey.lie import SO3
from marey.muscle.muscles.setup import make_edge_graph

RECOVERY_FRACTION = 0.2  # [-] part of a depth that a step takes back: a deep node comes out slowly, without a jump
STABLE_FRACTION = 0.2  # [-] of m/h^2: the stiffest penalty of an explicit step
SLACK_M = 1e-9  # [m] a node this far below the plane after a step is in touch


class ContactPlaneArrays(NamedTuple):
    """A plane under one body and boxes on it, compiled."""

    point: FloatArray  # (3,) [m] on the plane
    normal: FloatArray  # (3,) unit, away from the ground
    points: FloatArray  # (V, 3) [m] on the plane that each node feels in this step
    normals: FloatArray  # (V, 3) of it
    boxes: FloatArray  # (K, 5, 3) centre, half sizes, and the three axes in world
    stiffness: FloatArray  # (V,) [N/m]
    damping: FloatArray  # (V,) [N s/m]
    friction: FloatArray  # (3,) forwards, backwards, sideways
    smoothing: float  # [m/s]
    pairs: IntArray  # (V, 2) nodes behind and before each node along the body's axis; (0, 2) for isotropic friction


class StepStart(NamedTuple):
    """A body at the start of a step."""

    positions: FloatArray  # (V, 3) [m]
    velocities: FloatArray  # (V, 3) [m/s]
    masses: FloatArray  # (V,) [kg]
    step_s: float


class ContactState(NamedTuple):
    """Which nodes touch the plane, and how hard."""

    active: IntArray  # (V,) 1 for nodes that touch in this step
    loads: FloatArray  # (V,) [N] normal forces last found, never negative in an implicit step


@kernel
def _normal_motion(x: FloatArray, v: FloatArray, j: int, ground: ContactPlaneArrays) -> tuple[float, float]:
    """Height of a node over the plane [m], and its velocity along the normal [m/s]."""
    n, q = ground.normals[j], ground.points[j]
    height = n[0] * (x[j, 0] - q[0]) + n[1] * (x[j, 1] - q[1]) + n[2] * (x[j, 2] - q[2])
    return height, n[0] * v[j, 0] + n[1] * v[j, 1] + n[2] * v[j, 2]


@kernel
def _friction_block(
    x: FloatArray, j: int, u: FloatArray, load: float, ground: ContactPlaneArrays, out: FloatArray
) -> None:
    """Write the damping of friction at a node ``(3, 3)`` [N s/m]: the force is minus this times the velocity u."""
    n, s = ground.normals[j], ground.smoothing * ground.smoothing
    # The body's axis at the node, in the plane; zero where friction has none.
    e0, e1, e2 = 0.0, 0.0, 0.0
    if ground.pairs.shape[0] > 0:
        a, b = ground.pairs[j, 0], ground.pairs[j, 1]
        e0, e1, e2 = x[b, 0] - x[a, 0], x[b, 1] - x[a, 1], x[b, 2] - x[a, 2]
        up = e0 * n[0] + e1 * n[1] + e2 * n[2]
        e0, e1, e2 = e0 - up * n[0], e1 - up * n[1], e2 - up * n[2]
        size = sqrt(e0 * e0 + e1 * e1 + e2 * e2)
        e0, e1, e2 = (e0 / size, e1 / size, e2 / size) if size > 0.0 else (0.0, 0.0, 0.0)
    # The sliding velocity along the axis, and its square across.
    un = u[0] * n[0] + u[1] * n[1] + u[2] * n[2]
    t0, t1, t2 = u[0] - un * n[0], u[1] - un * n[1], u[2] - un * n[2]
    forwards = t0 * e0 + t1 * e1 + t2 * e2
    sideways2 = max(0.0, t0 * t0 + t1 * t1 + t2 * t2 - forwards * forwards)
    # Coefficients along and across, and the roots of u_T^T D u_T + D v_s^2.
    blend = 0.5 + 0.5 * forwards / sqrt(forwards * forwards + s)
    mu, side = ground.friction[1] + (ground.friction[0] - ground.friction[1]) * blend, ground.friction[2]
    square = mu * mu * forwards * forwards + side * side * sideways2
    along = load * mu * mu / sqrt(square + mu * mu * s) if mu > 0.0 else 0.0
    across = load * side * side / sqrt(square + side * side * s) if side > 0.0 else 0.0
    e = (e0, e1, e2)
    for r in range(3):
        for c in range(3):
            flat = (1.0 if r == c else 0.0) - n[r] * n[c]
            out[r, c] = across * flat + (along - across) * e[r] * e[c]


@kernel
def _normal_damping(j: int, d: float, h: float, ground: ContactPlaneArrays) -> float:
    """How much a node's normal velocity is resisted [N s/m]; above the plane it may still come down to it."""
    k, c = ground.stiffness[j], ground.damping[j]
    return h * k if d > 0.0 else max(c + h * k, h * k / RECOVERY_FRACTION)


@kernel
def locate_planes(x: FloatArray, ground: ContactPlaneArrays) -> None:
    """Write the plane of the nearest surface of ground and boxes for each node."""
    inside, p, q, out = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    for j in range(x.shape[0] if ground.boxes.shape[0] > 0 else 0):
        least = 0.0
        for i in range(3):
            ground.points[j, i], ground.normals[j, i] = ground.point[i], ground.normal[i]
            least += ground.normal[i] * (x[j, i] - ground.point[i])
        for box in ground.boxes:
            # The node in the axes of the box, and the nearest point of the box
            away = 0.0
            for a in range(3):
                p[a] = 0.0
                for i in range(3):
                    p[a] += box[2 + a, i] * (x[j, i] - box[0, i])
                q[a] = min(max(p[a], -box[1, a]), box[1, a])
                inside[a] = abs(p[a]) - box[1, a]
                away += (p[a] - q[a]) ** 2
            distance = sqrt(away)
            face = 0
            for a in range(1, 3):
                face = a if inside[a] > inside[face] else face
            # Outside: away from the nearest point; inside: through the nearest face
            for a in range(3):
                out[a] = (p[a] - q[a]) / distance if distance > SLACK_M else 0.0
            if distance <= SLACK_M:
                distance = inside[face]
                out[face] = 1.0 if p[face] > 0.0 else -1.0
                q[face] = out[face] * box[1, face]
            if distance < least:
                least = distance
                for i in range(3):
                    ground.points[j, i], ground.normals[j, i] = box[0, i], 0.0
                    for a in range(3):
                        ground.points[j, i] += q[a] * box[2 + a, i]
                        ground.normals[j, i] += out[a] * box[2 + a, i]


@kernel
def predict_contacts(start: StepStart, ground: ContactPlaneArrays, active: IntArray) -> None:
    """Guess which nodes touch during a step: those below the plane at its end if nothing stops them."""
    locate_planes(start.positions, ground)
    for j in range(active.shape[0]):
        d, u = _normal_motion(start.positions, start.velocities, j, ground)
        active[j] = 1 if d + start.step_s * u < SLACK_M else 0


@kernel
def add_implicit_contact(
    start: StepStart,
    ground: ContactPlaneArrays,
    state: ContactState,
    guess: FloatArray,
    forces: FloatArray,
    blocks: FloatArray,
) -> None:
    """Add the contact of an implicit step: forces ``(V, 3)`` [N] and blocks ``(V, 3, 3)`` [kg].

    The step solves for the new velocity, so forces leave out what the blocks hold: all that goes with velocity.

    Args:
        start: the body at the start of the step.
        ground: the plane.
        state: nodes that touch, from :func:`predict_contacts`; a node without a load takes what stops it alone.
        guess: velocities ``(V, 3)`` at which friction is weighed: those of the start, or better those last solved.
        forces: added to.
        blocks: added to; diagonal blocks of the matrix of the step.
    """
    h, drag = start.step_s, np.empty((3, 3))
    for j in range(state.active.shape[0]):
        if state.active[j] == 0:
            continue
        n = ground.normals[j]
        # The penalty -k d - c n^T u along the normal; all that goes with velocity is in the blocks.
        d, un = _normal_motion(start.positions, start.velocities, j, ground)
        hard = _normal_damping(j, d, h, ground)
        push = -ground.stiffness[j] * d
        stopping = max(0.0, (push - hard * un) / (1.0 + h * hard / start.masses[j]))
        # Friction goes with the load that was found last, or with what stops the node alone.
        load = state.loads[j] if state.loads[j] > 0.0 else stopping
        _friction_block(start.positions, j, guess[j], load, ground, drag)
        for r in range(3):
            forces[j, r] += push * n[r]
            for c in range(3):
                blocks[j, r, c] += h * (drag[r, c] + hard * n[r] * n[c])


@kernel
def update_contacts(start: StepStart, solved: FloatArray, ground: ContactPlaneArrays, state: ContactState) -> int:
    """After a solve: write the normal forces, let go of nodes that are pulled, catch those that went through.

    Args:
        start: the body at the start of the step.
        solved: velocities that were solved for ``(V, 3)`` [m/s].
        ground: the plane.
        state: written.

    Returns:
        How many nodes changed: solve again if there are any.
    """
    changed, h = 0, start.step_s
    for j in range(state.active.shape[0]):
        d, un = _normal_motion(start.positions, solved, j, ground)
        was = state.active[j] == 1
        load = -ground.stiffness[j] * d - _normal_damping(j, d, h, ground) * un if was else 0.0
        # A node that is pulled is let go, one that went through the plane is caught.
        touches = load >= 0.0 if was else d + h * un < -SLACK_M
        state.loads[j] = max(0.0, load)
        changed += 1 if touches != was else 0
        state.active[j] = 1 if touches else 0
    return changed


@kernel
def add_explicit_contact(
    start: StepStart, ground: ContactPlaneArrays, adheres: bool, forces: FloatArray, loads: FloatArray
) -> None:
    r"""Add the contact of an explicit step to forces ``(V, 3)`` [N] and write the normal forces ``(V,)``.

    Stiffness and damping are held where a step of h is stable. Friction never reverses a node:
    :math:`\|t\|\,h \le m\,\|u_T\|`. With ``adheres`` the normal force is that of Eq. 96 as printed, without the clamp.
    """
    h, drag = start.step_s, np.empty((3, 3))
    locate_planes(start.positions, ground)
    for j in range(loads.shape[0]):
        n, loads[j] = ground.normals[j], 0.0
        v, mass = start.velocities[j], start.masses[j]
        d, un = _normal_motion(start.positions, start.velocities, j, ground)
        if d >= 0.0:
            continue
        # (96): the normal force, clamped unless it adheres
        k = min(ground.stiffness[j], STABLE_FRACTION * mass / (h * h))
        c = min(ground.damping[j], 2.0 * sqrt(STABLE_FRACTION) * mass / h)
        load = -k * d - c * un
        if not adheres:
            load = max(0.0, load)
        loads[j] = load
        # Friction, at most as much as stops the node.
        _friction_block(start.positions, j, v, max(0.0, load), ground, drag)
        t0, t1, t2 = 0.0, 0.0, 0.0
        for i in range(3):
            t0 -= drag[0, i] * v[i]
            t1 -= drag[1, i] * v[i]
            t2 -= drag[2, i] * v[i]
        slip = sqrt(max(0.0, v[0] ** 2 + v[1] ** 2 + v[2] ** 2 - un * un))
        size = sqrt(t0 * t0 + t1 * t1 + t2 * t2)
        part = min(1.0, mass * slip / (h * size)) if size > 0.0 else 0.0
        forces[j, 0] += load * n[0] + part * t0
        forces[j, 1] += load * n[1] + part * t1
        forces[j, 2] += load * n[2] + part * t2


STIFFNESS_PER_KG: Final = 2e6  # [1/s^2] of the mean mass of a node: sixteen nodes on one sink by 0.08 mm
SMOOTHING_M_S: Final = 1e-4  # [m/s] below this speed friction is a stiff damper; a tenth of that in print: no creep


@dataclass(frozen=True, slots=True)
class ContactBox:
    """A box on the ground: a step, or a slope if it is tilted."""

    centre: tuple[float, float, float]  # [m]
    size: tuple[float, float, float]  # [m]
    tilt_deg: float = 0.0  # about its own x: the far end (+z) goes down
    turn_deg: float = 0.0  # about the vertical, afterwards

    def __post_init__(self) -> None:
        if not (np.isfinite([*self.centre, *self.size, self.tilt_deg, self.turn_deg]).all() and min(self.size) > 0.0):
            raise InputError(f"a box {self}", "Give finite numbers, and sizes above zero")

    @property
    def axes(self) -> FloatArray:
        """Its three axes in world, one a row."""
        turns = SO3.exp(np.deg2rad([0.0, self.turn_deg, 0.0])) @ SO3.exp(np.deg2rad([self.tilt_deg, 0.0, 0.0]))
        return np.ascontiguousarray(turns.matrix().T)


@dataclass(frozen=True, slots=True, eq=False)
class ContactPlane:
    """A plane that bodies rest and slide on, and boxes on it.

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
    boxes: tuple[ContactBox, ...] = ()

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
        values = np.asarray(self.friction, dtype=np.float64)
        if values.shape not in ((), (3,)) or not np.isfinite(values).all() or (values < 0.0).any():
            fix = "Give one number or (forwards, backwards, sideways), 0 and up"
            raise InputError(f"friction of the ground is {self.friction}", fix)
        if values.shape == (3,) and np.ptp(values) > 0.0 and self.axis is None:
            fix = "Give axis, as in the rest shape"
            raise InputError("friction differs by direction, but the body has no axis", fix)

    @property
    def frictions(self) -> FloatArray:
        """Forwards, backwards, sideways ``(3,)``."""
        return np.array(np.broadcast_to(np.asarray(self.friction, dtype=np.float64), 3))

    def compile(self, nodes: ArrayLike, masses: ArrayLike, cells: NDArray[np.integer]) -> ContactPlaneArrays:
        """Arrays for the kernels.

        Args:
            nodes: the body at rest ``(V, 3)`` [m].
            masses: of its nodes ``(V,)`` [kg].
            cells: nodes of each cell ``(C, k)``, or springs ``(S, 2)``: the neighbours of each node.
        """
        x, m = frozen(nodes, None, 3, name="nodes"), frozen(masses, None, name="masses")
        k = np.full(len(m), self.stiffness or STIFFNESS_PER_KG * float(m.mean()))
        c = 2.0 * np.sqrt(k * m) if self.damping is None else np.full(len(m), self.damping)
        pairs = np.zeros((0, 2), dtype=np.int64)
        if self.axis is not None and np.ptp(self.frictions) > 0.0:
            pairs = find_axis_pairs(x, cells, np.asarray(self.axis))
        point, normal = np.array(self.point), np.array(self.normal)
        boxes = np.empty((len(self.boxes), 5, 3))
        for row, box in zip(boxes, self.boxes, strict=True):
            row[0], row[1], row[2:] = box.centre, 0.5 * np.array(box.size), box.axes
        points, normals = np.tile(point, (len(x), 1)), np.tile(normal, (len(x), 1))
        return ContactPlaneArrays(
            point, normal, points, normals, boxes, k, c, self.frictions, self.smoothing_m_s, pairs
        )


def find_axis_pairs(nodes: FloatArray, cells: NDArray[np.integer], axis: FloatArray) -> IntArray:
    """A node behind and one before each node along an axis of the rest shape ``(V, 2)``, two edges away where it can.

    From one to the other is the body's axis at that node, however it bends.
    """
    graph = make_edge_graph(nodes, cells)
    rows = np.repeat(np.arange(len(nodes)), np.diff(graph.indptr))
    offset = nodes[graph.indices] - nodes[rows]
    straight = offset @ axis / np.linalg.norm(offset, axis=1)  # cosine with the axis
    found: list[IntArray] = []
    for score in (-straight, straight):
        # The neighbour of each node with the largest score above zero; itself where there is none.
        best = np.arange(int(rows.max()) + 1)
        order = np.argsort(score, kind="stable")
        order = order[score[order] > 0.0]
        best[rows[order]] = graph.indices[order]
        found.append(best[best])
    return np.stack(found, axis=1)


def _check_direction(values: ArrayLike, name: str) -> FloatArray:
    v = frozen(values, 3, name=name)
    size = float(np.linalg.norm(v))
    if size == 0.0:
        raise InputError(f"{name} of the ground is zero", "It needs a direction")
    return frozen(v / size, 3, name=name)
