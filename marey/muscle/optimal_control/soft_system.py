r"""Soft bodies under space-time control: backward Euler solved to rounding, so that its derivative is exact.

The points, segments, ground and controls of the body are checked. The ground is smooth. With the height
:math:`d = (x - q)\cdot n` and the sliding velocity :math:`u_T`,

.. math:: N = \begin{cases}-kd & d \le -\epsilon\\ k(\epsilon - d)^2/4\epsilon & |d| < \epsilon\\ 0 & \text{else}
          \end{cases},\qquad t = -\mu N\,\frac{u_T}{\sqrt{\|u_T\|^2 + v_s^2}},

the rounded forms of [Engell2012]_ §20.5, Eqs 95-99, so that a gradient exists ([Engell2012]_ §25.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, UnknownNameError, frozen, frozen_ints, kernel
from marey.muscle.body.bones import compute_rod_inertia
from marey.muscle.body.linear_system import FREE
from marey.muscle.elastic.models import SpringElasticity
from marey.muscle.elastic.segments import (
    NodeSelection,
    add_segment_forces,
    differentiate_segments,
    join_segments,
    make_edge_dampers,
    make_spline_segments,
    multiply_segment_blocks,
    sum_segment_columns,
)
from marey.muscle.optimal_control.backward_euler import NewtonStep, StepDerivative, StepSlopes
from marey.muscle.optimal_control.coordinates import GeneralisedCoordinates, StepPattern

if TYPE_CHECKING:
    from marey.muscle.body.soft_body import SoftBody
    from marey.muscle.elastic.models import TetrahedralElasticity
    from marey.muscle.elastic.segments import WeightedSegments


class SmoothContactPlane(NamedTuple):
    """A plane under one body."""

    point: FloatArray  # (3,) [m]
    normal: FloatArray  # (3,) unit, away from the ground
    stiffness: FloatArray  # (V,) [N/m]
    friction: float
    rounding: float  # [m] of the push
    smoothing: float  # [m/s] of friction


@kernel
def _normal_force(d: float, k: float, rounding: float) -> tuple[float, float]:
    """Push of the ground at a height [N], and its slope [N/m]."""
    if d <= -rounding:
        return -k * d, -k
    return k * (rounding - d) ** 2 / (4.0 * rounding), -k * (rounding - d) / (2.0 * rounding)


@kernel
def add_ground_forces(ground: SmoothContactPlane, x: FloatArray, v: FloatArray, out: FloatArray) -> None:
    """Add what the ground does to nodes ``(V, 3)`` [N]."""
    n = ground.normal
    for j in range(len(ground.stiffness)):
        d, un = 0.0, 0.0
        for i in range(3):
            d += n[i] * (x[j, i] - ground.point[i])
            un += n[i] * v[j, i]
        if d >= ground.rounding:
            continue
        # t = -mu N u_T / sqrt(|u_T|^2 + v_s^2)
        push, _ = _normal_force(d, ground.stiffness[j], ground.rounding)
        square = ground.smoothing**2
        for i in range(3):
            square += (v[j, i] - un * n[i]) ** 2
        rub = ground.friction * push / np.sqrt(square)
        for i in range(3):
            out[j, i] += push * n[i] - rub * (v[j, i] - un * n[i])


@kernel
def differentiate_ground_forces(
    ground: SmoothContactPlane, x: FloatArray, v: FloatArray, exact: bool
) -> tuple[FloatArray, FloatArray]:
    """Derivatives of each node's force by its position and velocity ``(V, 3, 3)``.

    Without ``exact`` they are symmetric and hold back only.
    """
    num, n = len(ground.stiffness), ground.normal
    by_x, by_v, u = np.zeros((num, 3, 3)), np.zeros((num, 3, 3)), np.empty(3)
    for j in range(num):
        d, un = 0.0, 0.0
        for i in range(3):
            d += n[i] * (x[j, i] - ground.point[i])
            un += n[i] * v[j, i]
        if d >= ground.rounding:
            continue
        # Sliding velocity u_T, and its size rounded by v_s.
        push, slope = _normal_force(d, ground.stiffness[j], ground.rounding)
        square = ground.smoothing**2
        for i in range(3):
            u[i] = v[j, i] - un * n[i]
            square += u[i] * u[i]
        speed = np.sqrt(square)
        # Derivatives of t by u_T and of N n + t by the height.
        turn = 1.0 if exact else 0.0
        for a in range(3):
            for b in range(3):
                across = (1.0 if a == b else 0.0) - n[a] * n[b] - turn * u[a] * u[b] / square
                by_v[j, a, b] = -ground.friction * push / speed * across
                by_x[j, a, b] = slope * (n[a] - turn * ground.friction * u[a] / speed) * n[b]
    return by_x, by_v


CONTROLS: Final = ("activation", "alpha", "segments", "nodes")


def make_body_points(body: SoftBody) -> tuple[FloatArray, FloatArray, IntArray]:
    """Places at rest (V + E, 3) [m], masses [kg] and carriers (V + E,): nodes, mass points of bones, ends of bones."""
    points, weights, owners = list[FloatArray](), list[float](), list[int]()
    for k, bone in enumerate(body.bones.given.bones):
        if bone.mass_kg > 0.0:
            # Six equal masses with the centre and inertia of the bone, on its main axes.
            inertia = compute_rod_inertia(bone)
            spread, axes = np.linalg.eigh(0.5 * np.trace(inertia) * np.eye(3) - inertia)
            arms = np.sqrt(np.maximum(3.0 * spread / bone.mass_kg, 0.0))
            centre = np.asarray(bone.centre, dtype=np.float64)
            points += [centre + sign * arms[i] * axes[:, i] for i in range(3) for sign in (1.0, -1.0)]
            weights += [bone.mass_kg / 6] * 6
            owners += [k] * 6
    # The ends of the bones weigh nothing.
    ends = [np.asarray(bone.end, dtype=np.float64) for bone in body.bones.given.bones]
    rest = np.vstack([body.mesh.nodes, np.array([*points, *ends]).reshape(-1, 3)])
    masses = np.concatenate([body.masses, np.array([*weights, *np.zeros(len(ends))])])
    carriers = [body.carriers, np.array(owners, dtype=np.int64), np.arange(len(ends))]
    return rest, masses, np.concatenate(carriers).astype(np.int64)


ControlKind = Literal["activation", "alpha", "segments", "nodes"]
ROUNDING_M = 2e-4  # [m]
SMOOTHING_M_S = 0.02  # [m/s] twenty times that of a simulation, so that sliding and sticking both have slopes


class SoftSystem:
    r"""A soft body whose controls are activations of its splines, or forces on its nodes.

    .. math:: M\frac{v^+ - v}{\Delta t} = f(x^+) + W^Ts(Wx^+, Wv^+, \alpha) + f_{ext}, \qquad x^+ = x + \Delta t\,v^+

    [Engell2012]_ §25.4, with an implicit step: Newton's method to rounding, so that the transposed solve with the same
    matrix gives the exact derivative. Every force is the slope of an energy, or a damper. The state is positions, then
    velocities of all nodes; with rigid bones, points that stand for their masses and their ends follow the nodes, and
    joint angles end the state: ``q = (x, v, angles)``.

    Args:
        body: its nodes, material, pins, gravity and muscles are used; it is not moved.
        dt: step [s].
        control: "activation" of splines from 0 to 1, "alpha" of splines, alpha of "segments", or forces on "nodes".
        actuated: nodes that forces act on, for ``control="nodes"``; all free ones by default.
        spread: which nodes a point of a spline moves: of its "cell" or of its "region".
        damping_s: time of dampers along the edges [s]; that of the body by default.
        fades: part ``(S,)`` of its spline's activation that each segment takes; all of it by default.
        rounding_m: height over which the push of the ground begins [m].
        smoothing_m_s: sliding speed at which friction is nearly whole [m/s].
    """

    def __init__(
        self,
        body: SoftBody,
        *,
        dt: float = 1 / 60,
        control: ControlKind | None = None,
        actuated: ArrayLike | None = None,
        spread: NodeSelection | None = None,
        damping_s: float | None = None,
        fades: ArrayLike | None = None,
        rounding_m: float = ROUNDING_M,
        smoothing_m_s: float = SMOOTHING_M_S,
    ) -> None:
        if not (np.isfinite(dt) and dt > 0.0):
            raise InputError(f"dt is {dt}", "Give a time step above zero, in seconds")
        self.body, self.dt = body, float(dt)
        muscles = body.muscles
        chosen = control or ("nodes" if muscles is None else "activation")
        if chosen not in CONTROLS:
            raise UnknownNameError("control", chosen, "soft systems", CONTROLS)
        if muscles is None and chosen != "nodes":
            raise InputError(f"control is '{chosen}', but the body has no muscles", "Give it some, or use 'nodes'")
        self.control: str = chosen
        self.actuated: IntArray = np.zeros(0, np.int64)
        if self.control == "nodes":
            free = np.flatnonzero(body.carriers == FREE)
            self.actuated = frozen_ints(free if actuated is None else actuated, None, name="actuated")
            strange = self.actuated[~np.isin(self.actuated, free)]
            if strange.size:
                fix = "Name free nodes only"
                raise InputError(f"actuated names node {strange[0]}, which is held or not there", fix)
        # (V + E, 3) nodes, then mass points and ends of bones, and their masses (V + E,)
        self.rest, self.point_masses, carriers = make_body_points(body)
        self.masses: FloatArray = np.repeat(self.point_masses, 3)
        # Segments of splines, then dampers along the edges of cells if there is a time for them.
        time_s = body.settings.damping[1] if damping_s is None else damping_s
        parts = [] if body.muscles is None else [make_spline_segments(body.muscles, spread)]
        elastic = body.elastic
        if time_s > 0.0 and isinstance(elastic, SpringElasticity):
            springs = elastic.springs
            parts.append(springs._replace(stiffness=0.0 * springs.stiffness, damping=time_s * springs.stiffness))
        elif time_s > 0.0:
            arrays = cast("TetrahedralElasticity", elastic).arrays
            strengths = 3.0 * time_s * arrays.mu * arrays.volumes  # Young's modulus is about three times mu
            parts.append(make_edge_dampers(body.mesh.nodes, np.asarray(body.cells, dtype=np.int64), strengths))
        self.segments: WeightedSegments = join_segments(parts)
        self.pattern = StepPattern(body.elastic, self.segments, len(self.rest))
        self.chart = GeneralisedCoordinates(self.pattern, carriers, self.rest, body.bones)
        if body.surface_contact is not None:
            raise InputError("the body touches itself", "Control knows one plane: leave contact out")
        # The ground of the body, with rounded corners
        if rounding_m <= 0.0 or smoothing_m_s <= 0.0:
            raise InputError("rounding_m or smoothing_m_s is not above zero")
        self.ground: SmoothContactPlane | None = None
        if body.ground is not None:
            arrays = body.ground
            if np.ptp(arrays.friction) > 0.0:
                raise InputError(
                    "friction differs by direction", "Control knows friction that is the same in all directions"
                )
            if len(arrays.boxes):
                raise InputError("the ground has boxes", "Control knows one plane")
            friction = float(arrays.friction[0])
            self.ground = SmoothContactPlane(
                arrays.point, arrays.normal, arrays.stiffness, friction, rounding_m, smoothing_m_s
            )
        # Contraction of segments (S,) without controls, and the matrix (S, s) that controls add by
        muscles = body.muscles
        num_segments = len(self.segments.rest)
        base, count = np.ones(num_segments), 0 if muscles is None else muscles.num_segments
        if muscles is None or self.control == "nodes":
            self._base, self._owners = base, np.zeros((num_segments, 0))
        else:
            owners = np.eye(muscles.num_splines)[muscles.owners] if self.control != "segments" else np.eye(count)
            if self.control == "activation":
                shares = np.ones(count) if fades is None else frozen(fades, count, name="fades")
                owners = -shares[:, None] * owners * np.array([1.0 - spline.alpha_min for spline in muscles.splines])
            else:
                base[:count] = 0.0
            self._base, self._owners = (base, np.vstack([owners, np.zeros((num_segments - count, owners.shape[1]))]))

    @property
    def num_nodes(self) -> int:
        """Number of nodes V."""
        return len(self.body.masses)

    @property
    def num_points(self) -> int:
        """Number of nodes and of mass points of bones."""
        return len(self.rest)

    @property
    def num_states(self) -> int:
        """Length of a state."""
        return 6 * self.num_points + self.chart.num_angles

    @property
    def num_controls(self) -> int:
        """Length of the controls of one step."""
        return 3 * self.actuated.size if self.control == "nodes" else self._owners.shape[1]

    def state(self, positions: ArrayLike | None = None, velocities: ArrayLike | None = None) -> FloatArray:
        """State from positions and velocities of nodes ``(V, 3)``; the body at rest by default."""
        given, v = self.rest.copy(), np.zeros_like(self.rest)
        if self.chart.num_angles and not (positions is None and velocities is None):
            raise InputError("a body with bones starts at rest", "Take a state of another run instead")
        if positions is not None:
            given[: self.num_nodes] = frozen(positions, self.num_nodes, 3, name="positions")
        if velocities is not None:
            v[: self.num_nodes] = frozen(velocities, self.num_nodes, 3, name="velocities")
        return np.concatenate([given.ravel(), v.ravel(), np.zeros(self.chart.num_angles)])

    def split(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Positions and velocities of the nodes ``(..., V, 3)`` of states."""
        x, v = self._points(q)
        return x[..., : self.num_nodes, :], v[..., : self.num_nodes, :]

    def angles(self, q: FloatArray) -> FloatArray:
        """Joint angles ``(..., H)`` [rad] of states, bone by bone; a ball joint has three."""
        return q[..., 6 * self.num_points :]

    def _points(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        n, shape = 3 * self.num_points, (*q.shape[:-1], self.num_points, 3)
        return q[..., :n].reshape(shape), q[..., n : 2 * n].reshape(shape)

    def components(self, nodes: ArrayLike) -> IntArray:
        """Numbers of the position components ``(3 k,)`` of nodes in a state, for a goal."""
        return (3 * np.atleast_1d(np.asarray(nodes, dtype=np.int64))[:, None] + np.arange(3)).ravel()

    def end_components(self, bone: str) -> IntArray:
        """Numbers of the position components ``(3,)`` of the end of a bone in a state, for a goal."""
        names = self.body.bones.names
        if bone not in names:
            raise UnknownNameError("bone", bone, "the body", names)
        return self.components(self.num_points - len(names) + names.index(bone))

    def alphas(self, a: FloatArray) -> FloatArray:
        """Contraction of each segment of the controls of a step; dampers along edges come last."""
        return self._base if self.control == "nodes" else self._base + self._owners @ a

    def forces(self, x: FloatArray, v: FloatArray, a: FloatArray) -> FloatArray:
        """All forces on the points ``(3 (V + E),)`` [N] but inertia."""
        found = self.point_masses[:, None] * (self.body.gravity - self.body.settings.damping[0] * v)
        found[: self.num_nodes] += self.body.forces(x[: self.num_nodes])
        add_segment_forces(self.segments, x, v, self.alphas(a), found)
        if self.ground is not None:
            add_ground_forces(self.ground, x, v, found)
        if self.control == "nodes":
            found[self.actuated] += a.reshape(-1, 3)
        return found.ravel()

    def matrix(self, x: FloatArray, v: FloatArray, a: FloatArray, *, exact: bool) -> FloatArray:
        """Blocks of inertia, stiffness and drag; without ``exact`` they have no negative eigenvalue."""
        return self._differentiate(x, v, a, exact)[0]

    def _differentiate(
        self, x: FloatArray, v: FloatArray, a: FloatArray, exact: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray | None]:
        """Blocks of the step, of segments by their rates and their alpha, of the ground by velocities of nodes."""
        by_x, by_v, by_alpha = differentiate_segments(self.segments, x, v, self.alphas(a), exact)
        inertia = self.point_masses * (1.0 / self.dt**2 + self.body.settings.damping[0] / self.dt)
        nodes, sliding = inertia[:, None, None] * np.eye(3), None
        if self.ground is not None:
            pressing, sliding = differentiate_ground_forces(self.ground, x, v, exact)
            nodes[: self.num_nodes] -= pressing + sliding / self.dt
        blocks = self.pattern.assemble(x[: self.num_nodes], by_x + by_v / self.dt, nodes, exact=exact)
        return blocks, by_v, by_alpha, sliding

    def slopes(self, x: FloatArray, v: FloatArray, a: FloatArray) -> StepSlopes:
        """Derivatives of the equations of a step at its end."""
        blocks, by_v, by_alpha, sliding = self._differentiate(x, v, a, True)
        rate = self.body.settings.damping[0] * self.masses[:, None]

        def drag(u: FloatArray, transposed: bool) -> FloatArray:
            each = np.ascontiguousarray(u).reshape(self.num_points, 3, -1)
            found = multiply_segment_blocks(self.segments, by_v, each, transposed)
            if sliding is not None:
                turned = sliding.transpose(0, 2, 1) if transposed else sliding
                found[: self.num_nodes] += turned @ each[: self.num_nodes]
            return rate * u - found.reshape(u.shape)

        # Derivative of the forces by the controls (3 (V + E), s).
        if self.control == "nodes":
            by_control = np.zeros((3 * self.num_points, self.num_controls))
            by_control[self.components(self.actuated), np.arange(self.num_controls)] = 1.0
        else:
            columns = sum_segment_columns(self.segments, by_alpha, self._owners, self.num_points)
            by_control = columns.reshape(3 * self.num_points, -1)
        return StepSlopes(blocks, drag, by_control)

    def step(self, q: FloatArray, a: FloatArray, t: int) -> FloatArray:
        """State after one step.

        Raises:
            ConvergenceError: Newton's method did not settle: the step is too long for what happens in it.
        """
        job = NewtonStep(self, *self._points(q), self.angles(q), a)
        z = job.solve(t)
        x, v = job.ends(z)
        return np.concatenate([x.ravel(), v.ravel(), z[z.size - self.chart.num_angles :]])

    def vjp(
        self, q: FloatArray, a: FloatArray, t: int, q_next: FloatArray, r: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Products of the transposed derivatives of the step by state and by control with ``r``: one solve."""
        return self._derivative(q, a, q_next).transposed_products(r)

    def jvp(
        self, q: FloatArray, a: FloatArray, t: int, q_next: FloatArray, dq: FloatArray, da: FloatArray
    ) -> FloatArray:
        """Changes of the next state ``(m, n)`` for n changes of state ``(m, n)`` and of control ``(s, n)``."""
        return self._derivative(q, a, q_next).products(dq, da)

    def _derivative(self, q: FloatArray, a: FloatArray, q_next: FloatArray) -> StepDerivative:
        z = self.chart.coordinates(self._points(q_next)[0], self.angles(q_next))
        return StepDerivative(NewtonStep(self, *self._points(q), self.angles(q), a), z)
