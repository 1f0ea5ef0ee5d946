"""The nonlinear programme of the full space: its rows, terms and state; a body with fewer curves ([Fang2003]_ F31)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.numerics import NonlinearProgramme, solve_qp
from marey.spacetime.full.keys import CLEARANCE_PER_SPAN, find_point_bounds, key_rows, world_vector
from marey.spacetime.full.layout import (
    AT_JOINT,
    NUM_ACTIVE,
    BodyState,
    Derivatives,
    FullLayout,
    InstantBuilder,
    Instants,
    compute_body_state,
)
from marey.spacetime.full.objectives import (
    RIDGE,
    TORQUE_TERMS,
    add_gauss_instants,
    build_quadratic_terms,
    build_residual_terms,
    find_hands,
    torque_rows,
)
from marey.spacetime.full.physics_rows import (
    CLOSING_ROOM_M,
    FullRows,
    WorldVector,
    contact_rows,
    flight_rows,
    joint_rows,
    obstacle_rows,
    relative_rows,
    shared_rows,
    tilt_rows,
)
from marey.spacetime.full.sampling import Frames, NearPair, SupportFace
from marey.spacetime.problem.definition import Style, check_coordinate_map, evaluate_style
from marey.spacetime.problem.obstacles import BodyCapsule, build_capsules, build_obstacles, is_touching
from marey.spacetime.problem.supply import build_torque_limits, is_shared
from marey.spacetime.programme import CostTerms, GradientTerm, InstantBasis, MotionProgramme, Unknowns


class SimplifiedProgramme:
    r"""A programme of the full space in fewer curves, :math:`q = S q_s`: chain rule on both sides.

    Forces are those of the whole body, so what holds here holds for it.
    """

    def __init__(self, inner: NonlinearProgramme, layout: FullLayout, S: FloatArray) -> None:
        from scipy import sparse

        tools: Any = sparse  # scipy has no stubs
        # The part of S that moves angles; columns that only slide the root are left out
        matrix = check_coordinate_map(S, layout.figure.tree.num_dofs)
        angles = matrix[layout.figure.angles]
        crowded = np.flatnonzero((angles != 0.0).sum(axis=1) > 1)
        if crowded.size:
            raise InputError(
                f"'{layout.figure.names[crowded[0]]}' follows two simplified coordinates", "Let it follow one"
            )
        kept = angles[:, (angles != 0.0).any(axis=0)]
        if not kept.shape[1]:
            raise InputError("S moves no angle", "Give it at least one column that does")
        # Unknowns of flights and impacts stay as they are
        rest = layout.num_unknowns - layout.num_curve_unknowns
        blocks = [tools.kron(tools.eye_array(layout.num_points), tools.csr_array(kept)), tools.eye_array(rest)]
        self._inner = inner
        self._T: Any = tools.csr_array(tools.block_diag(blocks[: 2 if rest else 1]))
        # Each whole unknown keeps its ends, and follows one simplified one only
        entries = self._T.tocoo()
        self.lower, self.upper = np.full(self._T.shape[1], -np.inf), np.full(self._T.shape[1], np.inf)
        ends = np.stack([inner.lower[entries.row] / entries.data, inner.upper[entries.row] / entries.data])
        ends = np.sort(ends, axis=0)
        np.maximum.at(self.lower, entries.col, ends[0])
        np.minimum.at(self.upper, entries.col, ends[1])
        if np.any(self.lower > self.upper):
            raise InputError("coordinates that move as one have limits that exclude one another", "Fuse others")
        self.row_lower, self.row_upper, self.is_linear = inner.row_lower, inner.row_upper, inner.is_linear

    def expand(self, y: FloatArray) -> FloatArray:
        """Unknowns of the whole body."""
        return np.asarray(self._T @ y)

    def reduce(self, x: FloatArray) -> FloatArray:
        """Nearest unknowns of the simplified body."""
        weights = np.asarray(self._T.multiply(self._T).sum(axis=0)).ravel()
        return np.asarray(self._T.T @ x) / weights

    def values(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Objective and rows."""
        return self._inner.values(self.expand(x))

    def derivatives(self, x: FloatArray) -> tuple[FloatArray, Any, Any]:
        """Gradient, Hessian, Jacobian."""
        gradient, hessian, jacobian = self._inner.derivatives(self.expand(x))
        T = self._T
        return np.asarray(T.T @ gradient), (T.T @ hessian @ T).tocsc(), (jacobian @ T).tocsc()

    def row_name(self, index: int) -> str:
        """What a row asks for."""
        return self._inner.row_name(index)


PROBES: Final = 2  # random states that show which entries are ever used
PROBE_SPREAD: Final = 0.2  # [rad]


class FullProgramme(MotionProgramme[BodyState]):
    """Minimise the objective of a problem subject to physics, contacts and keys, over angles alone.

    Unknowns are those of :class:`FullLayout`, each divided by its scale. Styles add their mean over time to the
    objective; they see the coordinates of the tree with the root at the origin: its place follows from contacts.
    """

    def __init__(
        self,
        layout: FullLayout,
        guess: FloatArray,
        *,
        derivatives: Derivatives = "linear-time",
        reference: FloatArray | None = None,
        extra: Frames = (),
        cuts: tuple[SupportFace, ...] = (),
        near: tuple[NearPair, ...] = (),
        room_m: float = CLOSING_ROOM_M,
        styles: tuple[Style, ...] = (),
    ) -> None:
        self.layout = layout
        self._derivatives: Derivatives = derivatives
        builder = InstantBuilder(layout.timeline)
        families: list[FullRows] = []
        limits = build_torque_limits(layout.figure.tree, layout.problem)
        for p, phase in enumerate(layout.timeline.phases):
            # Frames of the physics: knots, what divides the spans, and what was asked for besides
            even = layout.timeline.even_frames(p, layout.problem.frames_per_span)
            times = np.unique(np.concatenate([even, [time for q, time in extra if q == p]]))
            frames = builder.add(p, times)
            flight = layout.flight_of(p)
            if flight is not None:
                families.append(flight_rows(layout, flight, frames))
            else:
                if is_shared(layout.problem, p):
                    families += shared_rows(layout, p, times, frames)
                else:
                    faces = np.array([face for q, face in cuts if q == p]).reshape(-1, 6)
                    families.append(contact_rows(layout, p, frames, faces))
                families += tilt_rows(layout, p, frames)
            if limits.dofs.size:
                families.append(torque_rows(layout, p, times, frames, limits))
            if flight is None:
                # Contacts beyond the first keep their distance from it, no oftener than their limbs' curves can bend
                inner = builder.add(p, even[1:-1])
                families += [relative_rows(layout, inner, phase.contacts[0], c, 0, room_m) for c in phase.contacts[1:]]
        families += joint_rows(layout, builder)
        for key in layout.problem.keys:
            families += key_rows(layout, builder, key)
        # Capsules that came too near to something stay out of it
        capsules, obstacles = build_capsules(layout.figure.tree), build_obstacles(layout.problem)
        points: dict[str, tuple[int, FloatArray]] = {}
        together: dict[tuple[int, int, bytes], list[tuple[BodyCapsule, WorldVector, WorldVector]]] = {}
        for (p, number, shape), count in Counter(near).items():
            # A foot that stands on the floor beside this phase is on it at their border
            capsule, times = capsules[number], layout.timeline.even_frames(p, CLEARANCE_PER_SPAN * 2 ** (count - 1))
            sides = [q for q in (p - 1, p + 1) if 0 <= q < len(layout.timeline.phases)]
            lands = {q > p for q in sides if is_touching(layout.problem, q, capsule, obstacles[shape])}
            times = times[int(False in lands) : len(times) - int(True in lands)]
            ends = (f"capsule {number} start", f"capsule {number} end")
            points |= {name: (capsule.link, place) for name, place in zip(ends, capsule.ends, strict=True)}
            start, end = (world_vector(layout, p, times, builder.add(p, times), name) for name in ends)
            together.setdefault((p, shape, times.tobytes()), []).append((capsule, start, end))
        for (p, shape, _), own in together.items():
            families.append(obstacle_rows(layout, p, own, obstacles[shape]))
        residuals = build_residual_terms(layout, builder)
        # Styles are weighed at Gauss points, by the share of the time that each stands for
        found = [add_gauss_instants(layout, builder, p) for p in range(len(layout.timeline.phases)) if styles]
        gradients = [self._style_term(style, found) for style in styles]
        self.instants: Instants = builder.build()
        # Every point that some row looks at, once
        names = [c.point for phase in layout.timeline.phases for c in phase.contacts]
        names += [key.point for key in layout.problem.keys if key.point is not None]
        names += find_hands(layout) if layout.problem.objective.min_jerk > 0.0 else []
        points |= {name: layout.figure.point(name) for name in names}
        upright = [c.point for phase in layout.timeline.phases for c in phase.contacts if c.kind == "foot"]
        for name in upright + [key.point for key in layout.problem.keys if key.kind == "bar" and key.point is not None]:
            points[name + AT_JOINT] = layout.figure.point(name + AT_JOINT)
        self._points = tuple((name, dof, place) for name, (dof, place) in points.items())
        # Joint limits on control points; a body that never touches anything floats in place
        bounds = [np.full(layout.num_unknowns, sign * np.inf) for sign in (-1.0, 1.0)]
        for bound, ends in zip(bounds, find_point_bounds(layout), strict=True):
            bound[: ends.size] = ends.ravel()
            for flight in layout.flights:
                if flight.before is None and flight.after is None:
                    bound[flight.place] = np.asarray(layout.problem.start_com)[layout.figure.axes]
                    bound[flight.speed] = 0.0
        self._known: dict[bool, tuple[bytes, BodyState]] = {}  # last states, with derivatives and without
        self._has_torques = any(term.name in TORQUE_TERMS for term in residuals) or limits.dofs.size > 0
        # Phase, time and quantity of every row
        for k, group in enumerate(families):
            whens = [
                f"{layout.timeline.phases[self.instants.phases[i]].name} at {self.instants.times[i]:.2f} s"
                for i in group.instants
            ]
            families[k] = replace(group, names=[f"{when}: {name}" for when in whens for name in group.names])
        basis = self.instants.basis.transpose(1, 0, 2)[:, None]  # (N, 1, 3, 4), the same for all angles
        # Unknowns (N, D, 4) that count where the basis of an instant begins
        active: IntArray = self.instants.first[:, None] + np.arange(NUM_ACTIVE)
        columns = np.ascontiguousarray(active[:, None] * layout.num_angles + np.arange(layout.num_angles)[:, None])
        # Entries that are zero at random states are zero by structure
        noise = np.random.default_rng(0).normal(scale=PROBE_SPREAD, size=(PROBES, guess.size))
        ridge = np.where(np.arange(guess.size) < layout.num_curve_unknowns, 0.0, RIDGE)
        super().__init__(
            Unknowns(guess, layout.scales, bounds[0], bounds[1], np.arange(layout.num_unknowns)),
            InstantBasis(columns, np.ascontiguousarray(np.broadcast_to(basis, (*columns.shape[:2], 3, NUM_ACTIVE)))),
            families,
            CostTerms(build_quadratic_terms(layout, reference), residuals, gradients, ridge),
            probes=[guess + one for one in noise],
        )

    def _style_term(self, style: Style, found: list[tuple[IntArray, FloatArray]]) -> GradientTerm[BodyState]:
        """A style at instants with their weights [s]."""
        at, seconds = np.concatenate([own for own, _ in found]), np.concatenate([own for _, own in found])
        figure = self.layout.figure

        def evaluate(state: BodyState) -> tuple[FloatArray, FloatArray]:
            curves = state.angles.value[at], state.speeds.value[at], state.accelerations[at]
            cost, *slopes = evaluate_style(style, *(figure.coordinates(curve) for curve in curves))
            return cost, np.stack(slopes)[:, :, figure.angles]

        return GradientTerm("style", at, seconds / self.layout.timeline.duration_s, evaluate)

    def evaluate_state(self, values: FloatArray, *, derivatives: bool) -> BodyState:
        """Jets of the body at the instants of the programme, at unscaled unknowns.

        Derivatives that are known already, or that torques need for their values, are given also where not asked for.
        """
        key, is_full = values.tobytes(), derivatives or self._has_torques
        for kind in (True, is_full):
            if kind in self._known and self._known[kind][0] == key:
                return self._known[kind][1]
        curves, method = self.instants.curves(self.layout.points(values)), self._derivatives if is_full else None
        self._known[is_full] = key, compute_body_state(self.layout.figure, curves, self._points, method)
        return self._known[is_full][1]

    def settle_linear_rows(self, x: FloatArray) -> FloatArray:
        """Unknowns near ``x`` (unscaled) that keep the bounds and all linear rows, each angle for itself.

        The change is the smoothest that does: least squared change, and least squared second difference of it.
        """
        scales = self.layout.scales
        points = np.clip(x / scales, self.lower, self.upper) * scales
        jacobian: Any = self.derivatives(points / scales)[2].tocsr()[np.flatnonzero(self.is_linear)]
        _, rows = self.values(points / scales)
        gaps = [(end[self.is_linear] - rows[self.is_linear]) for end in (self.row_lower, self.row_upper)]
        width, count = self.layout.num_angles, self.layout.num_points
        # Least change and least second difference of it, one quadratic programme for each angle
        bend = np.diff(np.eye(count), 2, axis=0)
        H = bend.T @ bend + 1e-3 * np.eye(count)
        for i in range(width):
            own = np.arange(count) * width + i
            A: FloatArray = jacobian[:, own].toarray()
            used = np.abs(A).sum(axis=1) > 0.0
            low, high = self.lower[own] - points[own], self.upper[own] - points[own]
            if used.any():
                step = solve_qp(H, np.zeros(count), A[used], gaps[0][used], gaps[1][used], bounds=(low, high))
                points[own] += step.x if step.is_solved else 0.0
        return points
