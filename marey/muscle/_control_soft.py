"""Soft bodies under space-time control: backward Euler solved to rounding, so that its derivative is exact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, UnknownNameError, frozen
from marey.muscle._control_chart import GeneralisedCoordinates
from marey.muscle._control_newton import NewtonStep, StepDerivative, StepSlopes
from marey.muscle._control_parts import (
    BodyPoints,
    check_actuated_nodes,
    check_control,
    make_alpha_map,
    make_body_segments,
    make_smooth_ground,
)
from marey.muscle._control_pattern import StepPattern
from marey.muscle._control_segments import NodeSelection

if TYPE_CHECKING:
    from marey.muscle._body import SoftBody
    from marey.muscle._control_contact_kernels import SmoothContactPlane
    from marey.muscle._control_segments_kernels import WeightedSegments

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
        self.control: str = check_control(control, body.muscles)
        self.actuated: IntArray = (
            check_actuated_nodes(body, actuated) if self.control == "nodes" else np.zeros(0, np.int64)
        )
        points = BodyPoints.from_body(body)
        self.rest: FloatArray = points.rest  # (V + E, 3) nodes, then mass points of bones
        self.point_masses: FloatArray = points.masses  # (V + E,)
        self.masses: FloatArray = np.repeat(points.masses, 3)
        self.segments: WeightedSegments = make_body_segments(
            body, spread, body.damping[1] if damping_s is None else damping_s
        )
        self.pattern = StepPattern(body.elastic, self.segments, len(points.masses))
        self.chart: GeneralisedCoordinates = points.chart(self.pattern)
        self.ground: SmoothContactPlane | None = make_smooth_ground(body, rounding_m, smoothing_m_s)
        self._base, self._owners = make_alpha_map(self.control, body.muscles, len(self.segments.rest), fades)

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
        names: tuple[str, ...] = self.body.bones.names
        if bone not in names:
            raise UnknownNameError("bone", bone, "the body", names)
        return self.components(self.num_points - len(names) + names.index(bone))

    def alphas(self, a: FloatArray) -> FloatArray:
        """Contraction of each segment of the controls of a step; dampers along edges come last."""
        return self._base if self.control == "nodes" else self._base + self._owners @ a

    def forces(self, x: FloatArray, v: FloatArray, a: FloatArray) -> FloatArray:
        """All forces on the points ``(3 (V + E),)`` [N] but inertia."""
        from marey.muscle._control_contact_kernels import add_ground_forces
        from marey.muscle._control_segments_kernels import add_segment_forces

        found = self.point_masses[:, None] * (self.body.gravity - self.body.damping[0] * v)
        found[: self.num_nodes] += self.body.forces(x[: self.num_nodes])
        add_segment_forces(self.segments, x, v, self.alphas(a), found)
        if self.ground is not None:
            add_ground_forces(self.ground, x, v, found)
        if self.control == "nodes":
            found[self.actuated] += a.reshape(-1, 3)
        return found.ravel()

    def matrix(self, x: FloatArray, v: FloatArray, a: FloatArray, *, exact: bool) -> FloatArray:
        """Blocks of inertia, stiffness and drag for :class:`NewtonStep`."""
        from marey.muscle._control_segments_kernels import differentiate_segments

        by_x, by_v, _ = differentiate_segments(self.segments, x, v, self.alphas(a), exact)
        return self._blocks(x, by_x + by_v / self.dt, self._contact(x, v, exact), exact)

    def _contact(self, x: FloatArray, v: FloatArray, exact: bool) -> tuple[FloatArray, FloatArray] | None:
        from marey.muscle._control_contact_kernels import differentiate_ground_forces

        return None if self.ground is None else differentiate_ground_forces(self.ground, x, v, exact)

    def _blocks(
        self, x: FloatArray, segments: FloatArray, contact: tuple[FloatArray, FloatArray] | None, exact: bool
    ) -> FloatArray:
        inertia = self.point_masses * (1.0 / self.dt**2 + self.body.damping[0] / self.dt)
        nodes = inertia[:, None, None] * np.eye(3)
        if contact is not None:
            nodes[: self.num_nodes] -= contact[0] + contact[1] / self.dt
        return self.pattern.assemble(x[: self.num_nodes], segments, nodes, exact=exact)

    def slopes(self, x: FloatArray, v: FloatArray, a: FloatArray) -> StepSlopes:
        """Derivatives of the equations of a step at its end."""
        from marey.muscle._control_segments_kernels import differentiate_segments, multiply_segment_blocks

        by_x, by_v, by_alpha = differentiate_segments(self.segments, x, v, self.alphas(a), True)
        contact = self._contact(x, v, True)
        rate = self.body.damping[0] * self.masses[:, None]

        def drag(u: FloatArray, transposed: bool) -> FloatArray:
            each = np.ascontiguousarray(u).reshape(self.num_points, 3, -1)
            found = multiply_segment_blocks(self.segments, by_v, each, transposed)
            if contact is not None:
                turned = contact[1].transpose(0, 2, 1) if transposed else contact[1]
                found[: self.num_nodes] += turned @ each[: self.num_nodes]
            return rate * u - found.reshape(u.shape)

        blocks = self._blocks(x, by_x + by_v / self.dt, contact, True)
        return StepSlopes(blocks, drag, self._by_control(by_alpha))

    def _by_control(self, by_alpha: FloatArray) -> FloatArray:
        """Derivative of the forces by the controls ``(3 (V + E), s)``."""
        from marey.muscle._control_segments_kernels import sum_segment_columns

        if self.control == "nodes":
            found = np.zeros((3 * self.num_points, self.num_controls))
            found[self.components(self.actuated), np.arange(self.num_controls)] = 1.0
            return found
        columns = sum_segment_columns(self.segments, by_alpha, self._owners, self.num_points)
        return columns.reshape(3 * self.num_points, -1)

    def step(self, q: FloatArray, a: FloatArray, t: int) -> FloatArray:
        """State after one step.

        Raises:
            ConvergenceError: Newton's method did not settle: the step is too long for what happens in it.
        """
        job = self._newton_step(q, a)
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

    def _newton_step(self, q: FloatArray, a: FloatArray) -> NewtonStep:
        return NewtonStep(self, *self._points(q), self.angles(q), a)

    def _derivative(self, q: FloatArray, a: FloatArray, q_next: FloatArray) -> StepDerivative:
        z = self.chart.coordinates(self._points(q_next)[0], self.angles(q_next))
        return StepDerivative(self._newton_step(q, a), z)
