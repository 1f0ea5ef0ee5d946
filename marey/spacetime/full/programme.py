"""The nonlinear programme of the full space: sparse rows and derivatives with one constant pattern.

The pattern is found once from the jets at the instants; afterwards only the values change.
"""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray
from marey.numerics import solve_qp
from marey.spacetime.full.body_state import AT_JOINT, BodyState, Derivatives, StateJet, compute_body_state
from marey.spacetime.full.keys import CLEARANCE_PER_SPAN, find_point_bounds, key_rows, world_vector
from marey.spacetime.full.layout import FullLayout, InstantBuilder, Instants
from marey.spacetime.full.objectives import (
    RIDGE,
    TORQUE_TERMS,
    QuadraticTerm,
    ResidualTerm,
    add_gauss_instants,
    build_quadratic_terms,
    build_residual_terms,
    find_hands,
)
from marey.spacetime.full.physics_rows import (
    RowFamily,
    contact_rows,
    flight_rows,
    joint_rows,
    obstacle_rows,
    relative_rows,
    shared_rows,
    tilt_rows,
)
from marey.spacetime.full.sampling import Frames, NearPair, SupportFace
from marey.spacetime.full.torques import torque_rows
from marey.spacetime.problem.obstacles import build_capsules, build_obstacles, is_touching
from marey.spacetime.problem.strength import build_torque_limits
from marey.spacetime.problem.support import is_shared
from marey.spacetime.style import Style, evaluate_style

EvaluatedRows = list[tuple[StateJet, FloatArray | None]]


def chain_blocks(jet: StateJet, basis: FloatArray) -> FloatArray:
    r"""Entries ``(n, m, 4, D)``: :math:`Y_q\phi + Y_{\dot q}\dot\phi + Y_{\ddot q}\ddot\phi`, basis ``(3, n, 4)``."""
    return np.einsum("pna,pnmd->nmad", basis, jet.partials, optimize=True)


class JacobianScatter:
    """Jacobian of all rows; entries that are zero by structure are left out, and rows without any."""

    def __init__(self, layout: FullLayout, instants: Instants, families: list[RowFamily]) -> None:
        self._layout = layout
        self._basis = [instants.basis[:, family.instants] for family in families]
        rows, columns, start = list[IntArray](), list[IntArray](), 0
        for family in families:
            numbers = start + np.arange(family.lower.size).reshape(family.lower.shape)
            start += family.lower.size
            near = layout.columns_at(instants.first[family.instants])[:, None]
            shape = (*numbers.shape, *near.shape[2:])
            rows.append(np.broadcast_to(numbers[:, :, None, None], shape).ravel())
            columns.append(np.broadcast_to(near, shape).ravel())
            if family.columns is not None:
                rows.append(np.broadcast_to(numbers[:, :, None], family.columns.shape).ravel())
                columns.append(family.columns.ravel())
        self.rows, self._columns = np.concatenate(rows), np.concatenate(columns)
        self._num_rows = start
        self.is_kept: BoolArray = np.ones(start, dtype=bool)

    def entries(self, jets: EvaluatedRows) -> FloatArray:
        """Values of all entries, in the order they were laid out."""
        found: list[FloatArray] = []
        for (jet, extra), basis in zip(jets, self._basis, strict=True):
            found.append(chain_blocks(jet, basis).ravel())
            if extra is not None:
                found.append(np.ascontiguousarray(extra).ravel())
        return np.concatenate(found)

    def keep(self, used: BoolArray, scales: FloatArray) -> None:
        """Fix the pattern to the entries in use, and scale columns."""
        # Entries that are ever used, rows that have any, and columns in units of their scales
        self._used = np.flatnonzero(used)
        rows, columns = self.rows[self._used], self._columns[self._used]
        self.is_kept = np.bincount(rows, minlength=self._num_rows) > 0
        renumbered = np.cumsum(self.is_kept) - 1
        self._factors = scales[columns]
        count = int(self.is_kept.sum())
        # Entries of one place are added up; the order is that of a compressed column matrix
        keys = columns * count + renumbered[rows]
        unique, self._places = np.unique(keys, return_inverse=True)
        self._indices = (unique % count).astype(np.int32)
        per_column = np.bincount(unique // count, minlength=scales.size)
        self._pointers = np.concatenate([[0], np.cumsum(per_column)]).astype(np.int32)
        self._shape = (count, scales.size)

    def matrix(self, jets: EvaluatedRows) -> Any:
        """Jacobian ``(m, n)`` by scaled unknowns."""
        from scipy.sparse import csc_array

        values = self.entries(jets)[self._used] * self._factors
        data = np.bincount(self._places, weights=values, minlength=self._indices.size)
        return csc_array((data, self._indices, self._pointers), shape=self._shape)


class HessianScatter:
    """Gradient and Hessian of the objective: a constant part, and Gauss-Newton blocks of the residuals."""

    def __init__(
        self,
        layout: FullLayout,
        instants: Instants,
        quadratics: list[QuadraticTerm],
        residuals: list[ResidualTerm],
        scales: FloatArray,
    ) -> None:
        from scipy.sparse import coo_array, csc_array

        self._layout, self._instants, self._scales = layout, instants, scales
        self._quadratics, self._residuals = quadratics, residuals
        size, curves = layout.num_unknowns, layout.num_curve_unknowns
        doubled: Any = sum(2.0 * term.matrix for term in quadratics)
        # Constant part: quadratic terms and a ridge on all unknowns
        total = cast(Any, coo_array(doubled))
        diagonal = np.arange(size)
        rows = [np.asarray(total.row, dtype=np.int64), diagonal]
        columns = [np.asarray(total.col, dtype=np.int64), diagonal]
        ridge = np.full(size, 2.0 * RIDGE)
        self._constant = np.concatenate([np.asarray(total.data), ridge])
        for term in residuals:
            near = layout.columns_at(instants.first[term.parts[0]]).reshape(len(term.weights), -1)
            shape = (*near.shape, near.shape[1])
            rows.append(np.broadcast_to(near[:, :, None], shape).ravel())
            columns.append(np.broadcast_to(near[:, None, :], shape).ravel())
        # Entries of one place are added up, column by column
        all_rows, all_columns = np.concatenate(rows), np.concatenate(columns)
        unique, self._places = np.unique(all_columns * size + all_rows, return_inverse=True)
        self._factors = scales[all_rows] * scales[all_columns]
        pointers = np.concatenate([[0], np.cumsum(np.bincount(unique // size, minlength=size))])
        self._empty: Any = csc_array(
            (np.zeros(unique.size), (unique % size).astype(np.int32), pointers.astype(np.int32))
        )
        self._curves = curves

    def evaluate(self, real: FloatArray, state: BodyState) -> tuple[FloatArray, Any]:
        """Gradient ``(n,)`` and Hessian by scaled unknowns, at unscaled ones."""
        from scipy.sparse import csc_array

        # The constant part
        points = real[: self._curves]
        gradient = np.zeros(self._layout.num_unknowns)
        gradient[: self._curves] = 2.0 * RIDGE * points
        for term in self._quadratics:
            gradient[: self._curves] += 2.0 * np.asarray(term.matrix @ (points - term.centre))
        entries = [self._constant]
        for term in self._residuals:
            # Gauss-Newton: 2 w J^T r and 2 w J^T J, J by the control points that an instant sees
            jets, count = term.evaluate(state), len(term.weights)
            basis = self._instants.basis
            slopes = sum(chain_blocks(jet, basis[:, at]) for jet, at in zip(jets, term.parts, strict=True))
            slopes = np.asarray(slopes).reshape(count, jets[0].value.shape[1], -1)
            residual = np.sum([jet.value for jet in jets], axis=0)
            near = self._layout.columns_at(self._instants.first[term.parts[0]]).reshape(count, -1)
            np.add.at(gradient, near, 2.0 * np.einsum("n,nm,nmc->nc", term.weights, residual, slopes))
            weighted = 2.0 * term.weights[:, None, None] * slopes
            entries.append((weighted.transpose(0, 2, 1) @ slopes).ravel())
        values = np.concatenate(entries) * self._factors
        data = np.bincount(self._places, weights=values, minlength=self._empty.nnz)
        hessian = csc_array((data, self._empty.indices, self._empty.indptr), shape=self._empty.shape)
        return gradient * self._scales, hessian


PROBES: Final = 2  # random states that show which entries are ever used
PROBE_SPREAD: Final = 0.2  # [rad]


class FullProgramme:
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
        styles: tuple[Style, ...] = (),
    ) -> None:
        self.layout = layout
        self._derivatives: Derivatives = derivatives
        builder = InstantBuilder(layout.timeline)
        families: list[RowFamily] = []
        limits = build_torque_limits(layout.figure.tree, layout.problem)
        for p, phase in enumerate(layout.timeline.phases):
            # Frames of the physics: knots, what divides the spans, and what was asked for besides
            times = layout.timeline.even_frames(p, layout.problem.frames_per_span)
            times = np.unique(np.concatenate([times, [time for q, time in extra if q == p]]))
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
                # Contacts beyond the first keep their distance from it
                families += [relative_rows(layout, frames[1:-1], phase.contacts[0], c, 0) for c in phase.contacts[1:]]
        families += joint_rows(layout, builder)
        for key in layout.problem.keys:
            families += key_rows(layout, builder, key)
        # Capsules that came too near to something stay out of it
        capsules, obstacles = build_capsules(layout.figure.tree), build_obstacles(layout.problem)
        points: dict[str, tuple[int, FloatArray]] = {}
        for p, number, shape in near:
            # A foot that stands on the floor beside this phase is on it at their border
            capsule, times = capsules[number], layout.timeline.even_frames(p, CLEARANCE_PER_SPAN)
            sides = [q for q in (p - 1, p + 1) if 0 <= q < len(layout.timeline.phases)]
            lands = {q > p for q in sides if is_touching(layout.problem, q, capsule, obstacles[shape])}
            times = times[int(False in lands) : len(times) - int(True in lands)]
            ends = (f"capsule {number} start", f"capsule {number} end")
            points |= {name: (capsule.link, place) for name, place in zip(ends, capsule.ends, strict=True)}
            start, end = (world_vector(layout, p, times, builder.add(p, times), name) for name in ends)
            families.append(obstacle_rows(layout, p, (start, end), capsule, obstacles[shape]))
        self.families = families
        self._residuals = build_residual_terms(layout, builder)
        self.instants: Instants = builder.build()
        self._scales = layout.scales
        # Every point that some row looks at, once
        names = [c.point for phase in layout.timeline.phases for c in phase.contacts]
        names += [key.point for key in layout.problem.keys if key.point is not None]
        names += find_hands(layout) if layout.problem.objective.min_jerk > 0.0 else []
        points |= {name: layout.figure.point(name) for name in names}
        upright = [c.point for phase in layout.timeline.phases for c in phase.contacts if c.kind == "foot"]
        for name in upright + [key.point for key in layout.problem.keys if key.kind == "bar" and key.point is not None]:
            points[name + AT_JOINT] = layout.figure.point(name + AT_JOINT)
        self._points = tuple((name, dof, place) for name, (dof, place) in points.items())
        self._quadratics = build_quadratic_terms(layout, reference)
        # Joint limits on control points; a body that never touches anything floats in place
        bounds = [np.full(layout.num_unknowns, sign * np.inf) for sign in (-1.0, 1.0)]
        for bound, ends in zip(bounds, find_point_bounds(layout), strict=True):
            bound[: ends.size] = ends.ravel()
            for flight in layout.flights:
                if flight.before is None and flight.after is None:
                    bound[flight.place] = np.asarray(layout.problem.start_com)[layout.figure.axes]
                    bound[flight.speed] = 0.0
        self.lower, self.upper = (bound / self._scales for bound in bounds)
        # Styles are weighed at Gauss points of their own, by the share of the time that each stands for
        self._styles, gauss = styles, InstantBuilder(layout.timeline)
        seconds = [add_gauss_instants(layout, gauss, p)[1] for p in range(len(layout.timeline.phases))]
        self._style_instants = gauss.build()
        self._style_shares = np.concatenate(seconds) / layout.timeline.duration_s
        self._known: dict[bool, tuple[bytes, BodyState]] = {}  # last states, with derivatives and without
        self._has_torques = any(term.name in TORQUE_TERMS for term in self._residuals) or limits.dofs.size > 0
        self._place_rows(guess)
        self._hessian = HessianScatter(layout, self.instants, self._quadratics, self._residuals, self._scales)

    def _place_rows(self, guess: FloatArray) -> None:
        """Find the pattern of the Jacobian, and ends and names of the rows."""
        # Entries that are zero at random states are zero by structure
        probes = np.random.default_rng(0).normal(scale=PROBE_SPREAD, size=(PROBES, guess.size))
        self._scatter = JacobianScatter(self.layout, self.instants, self.families)
        used = np.zeros(self._scatter.rows.size, dtype=bool)
        for probe in probes:
            used |= self._scatter.entries(self._jets(guess + probe)) != 0.0
        self._scatter.keep(used, self._scales)
        kept = self._scatter.is_kept
        # Phase, time and quantity of every row
        phases, names = self.layout.timeline.phases, list[str]()
        for family in self.families:
            for i in family.instants:
                place = f"{phases[self.instants.phases[i]].name} at {self.instants.times[i]:.2f} s"
                names += [f"{place}: {label}" for label in family.labels]
        self._names = [name for name, is_kept in zip(names, kept, strict=True) if is_kept]
        # A row that no unknown changes must hold as it is
        values = self._flat([jet.value for jet, _ in self._jets(guess)])
        lower, upper = (self._flat([getattr(f, end) for f in self.families]) for end in ("lower", "upper"))
        wrong = np.flatnonzero(~kept & ((values < lower - 1e-9) | (values > upper + 1e-9)))
        if wrong.size:
            raise InputError(f"{names[wrong[0]]} cannot be changed by this character", "Leave it out")
        self.row_lower, self.row_upper = lower[kept], upper[kept]
        linear = self._flat([np.full(f.lower.shape, f.is_linear) for f in self.families]) > 0.5
        self.is_linear: BoolArray = linear[kept]

    @staticmethod
    def _flat(blocks: list[FloatArray]) -> FloatArray:
        return np.concatenate([np.asarray(b, dtype=np.float64).ravel() for b in blocks]) if blocks else np.zeros(0)

    def state(self, x: FloatArray, *, derivatives: bool = True) -> BodyState:
        """Jets of the body at the instants of the programme, at unscaled unknowns.

        Derivatives that are known already, or that torques need for their values, are given also where not asked for.
        """
        key, is_full = x.tobytes(), derivatives or self._has_torques
        for kind in (True, is_full):
            if kind in self._known and self._known[kind][0] == key:
                return self._known[kind][1]
        curves, method = self.instants.curves(self.layout.points(x)), self._derivatives if is_full else None
        self._known[is_full] = key, compute_body_state(self.layout.figure, curves, self._points, method)
        return self._known[is_full][1]

    def _jets(self, x: FloatArray, *, derivatives: bool = True) -> EvaluatedRows:
        state = self.state(x, derivatives=derivatives)
        return [family.evaluate(state, x) for family in self.families]

    def values(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Objective and rows ``(m,)`` at scaled unknowns."""
        real = x * self._scales
        rows = self._flat([jet.value for jet, _ in self._jets(real, derivatives=False)])
        return sum(self.terms(real).values()), rows[self._scatter.is_kept]

    def terms(self, real: FloatArray) -> dict[str, float]:
        """Each term of the objective by name, at unscaled unknowns."""
        points = real[: self.layout.num_curve_unknowns]
        found: dict[str, float] = {}
        for term in self._quadratics:
            away = points - term.centre
            found[term.name] = float(away @ (term.matrix @ away))
        for term in self._residuals:
            jets = term.evaluate(self.state(real, derivatives=False))
            total = np.sum([jet.value for jet in jets], axis=0)
            found[term.name] = found.get(term.name, 0.0) + float(term.weights @ (total * total).sum(axis=1))
        found["ridge"] = RIDGE * float(points @ points)
        if self._styles:
            costs = [evaluate_style(style, *self._style_states(real))[0] for style in self._styles]
            found["style"] = sum(float(self._style_shares @ cost) for cost in costs)
        return found

    def derivatives(self, x: FloatArray) -> tuple[FloatArray, Any, Any]:
        """Gradient, Hessian and Jacobian at scaled unknowns."""
        real = x * self._scales
        jets = self._jets(real)
        jacobian = self._scatter.matrix(jets)
        gradient, hessian = self._hessian.evaluate(real, self.state(real))
        # Slopes of the styles by the four control points about each instant; their own Hessian is left out
        layout, near = self.layout, self._style_instants.first[:, None] + np.arange(4)
        pull = np.zeros((layout.num_points, layout.num_angles))
        for style in self._styles:
            for order, slopes in enumerate(evaluate_style(style, *self._style_states(real))[1:]):
                shares = self._style_shares[:, None] * slopes[:, layout.figure.angles]
                np.add.at(pull, near, self._style_instants.basis[order][:, :, None] * shares[:, None])
        if self._styles:
            gradient[: pull.size] += pull.ravel() * self._scales[: pull.size]
        return gradient, hessian, jacobian

    def _style_states(self, real: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Coordinates of the tree, their rates and accelerations at the instants of the styles."""
        q, qd, qdd = self._style_instants.curves(self.layout.points(real))
        figure = self.layout.figure
        return figure.coordinates(q), figure.coordinates(qd), figure.coordinates(qdd)

    def row_name(self, index: int) -> str:
        """Phase, time and quantity of a row."""
        return self._names[index]

    def settle_linear_rows(self, x: FloatArray) -> FloatArray:
        """Unknowns near ``x`` (unscaled) that keep the bounds and all linear rows, each angle for itself.

        The change is the smoothest that does: least squared change, and least squared second difference of it.
        """
        points = np.clip(x / self._scales, self.lower, self.upper) * self._scales
        jacobian: Any = self._scatter.matrix(self._jets(points)).tocsr()[np.flatnonzero(self.is_linear)]
        _, rows = self.values(points / self._scales)
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
