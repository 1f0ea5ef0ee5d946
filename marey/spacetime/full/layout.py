"""Time line and unknowns of the full space, and the body along a motion, seen from its root, with its derivatives.

Everything here is independent of where the root is.

Phases, knots and the instants at which something is asked; then the order of the unknowns: control points of the
angles, and the state that each flight carries. From coarse to fine, the same motion is represented on a spline with
every span halved and solved again from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, IntArray, UnknownNameError
from marey.dynamics import (
    GRAVITY,
    PRISMATIC,
    JointTree,
    compute_aggregate,
    compute_aggregate_jacobians,
    compute_com_motion,
    compute_points_motion,
)
from marey.numerics import KnotSpline
from marey.spacetime.problem.definition import ProblemPhase, SpacetimeProblem
from marey.spacetime.problem.supply import is_shared
from marey.spacetime.programme import StateJet, cross_rows, skew_matrices

Derivatives = Literal["linear-time", "pinocchio", "finite-difference"]
CurveRates = tuple[FloatArray, FloatArray, FloatArray]  # values, first and second time derivatives
NamedPoints = tuple[tuple[str, int, FloatArray], ...]  # name, coordinate whose link carries it, place in the link
PointJets = tuple[StateJet, StateJet, StateJet]

AT_JOINT = "@joint"  # suffix of the joint that carries a point: the knee of a foot, the elbow of a hand
METHODS: Final[dict[str, Literal["linear-time", "pinocchio", "central"]]] = {
    "linear-time": "linear-time",
    "pinocchio": "pinocchio",
    "finite-difference": "central",
}


def motion_jets(rates: CurveRates, jacobians: CurveRates) -> PointJets:
    r"""Jets of a point's position, velocity and acceleration ``(n, m)``, from its Jacobian ``(n, m, D)`` and its rates.

    .. math:: \partial\ddot o = \ddot J\,\partial q + 2\dot J\,\partial\dot q + J\,\partial\ddot q
    """
    (J, Jd, Jdd), nothing = jacobians, np.zeros_like(jacobians[0])
    return (
        StateJet(rates[0], np.stack([J, nothing, nothing])),
        StateJet(rates[1], np.stack([Jd, J, nothing])),
        StateJet(rates[2], np.stack([Jdd, 2.0 * Jd, J])),
    )


@dataclass(frozen=True, slots=True, eq=False)
class FullBodyModel:
    """A body as the full space sees it: its angles are the unknowns, its place follows."""

    tree: JointTree
    angles: IntArray  # (D,) coordinates of the tree that turn
    slides: IntArray  # (2 or 3,) coordinates that carry the root
    axes: IntArray  # (2 or 3,) world axes the root can slide along
    spins: IntArray  # (1 or 3,) world axes it can turn about

    @staticmethod
    def from_tree(tree: JointTree) -> FullBodyModel:
        """Sort the coordinates of a tree."""
        slides = np.flatnonzero(tree.kinds == PRISMATIC)
        angles = np.flatnonzero(tree.kinds != PRISMATIC)
        axes = np.argmax(np.abs(tree.axes[slides]), axis=1)
        spins = np.array([0]) if len(slides) == 2 else np.arange(3)
        return FullBodyModel(tree, angles, slides, np.asarray(axes, dtype=np.int64), spins)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the angles."""
        return tuple(self.tree.names[int(i)] for i in self.angles)

    def angle_index(self, name: str) -> int:
        """Place of an angle by name; ``yaw``, ``pitch`` and ``roll`` are the root's."""
        names = self.names
        if name in names:
            return names.index(name)
        if name in ("yaw", "pitch", "roll"):
            axis = {"pitch": 0, "yaw": 1, "roll": 2}[name]
            for i in self.root_angles:
                if abs(self.tree.axes[self.angles[i]][axis]) > 0.9:
                    return int(i)
            raise UnknownNameError("turn about axis", "xyz"[axis], "the character", names)
        raise UnknownNameError("coordinate", name, "the character", names)

    @property
    def root_angles(self) -> IntArray:
        """Angles that rotate the whole body: up to and including the first link with mass."""
        heavy = int(np.flatnonzero(self.tree.masses > 0.0)[0])
        return np.flatnonzero(self.angles <= heavy)

    def point(self, name: str) -> tuple[int, FloatArray]:
        """Coordinate and place of a named point; ``left_foot@joint`` is the joint whose segment carries it."""
        points = self.tree.points
        if name.endswith(AT_JOINT) and name.removesuffix(AT_JOINT) in points:
            return int(points[name.removesuffix(AT_JOINT)][0]), np.zeros(3)
        if name not in points:
            raise UnknownNameError("point", name, "the character", tuple(points))
        dof, place = points[name]
        return int(dof), np.asarray(place, dtype=np.float64)

    def coordinates(self, angles: FloatArray, root: FloatArray | None = None) -> FloatArray:
        """Coordinates of the tree ``(n, dofs)`` from angles ``(n, D)`` and root positions ``(n, 3)``."""
        q = np.zeros((len(angles), self.tree.num_dofs))
        q[:, self.angles] = angles
        if root is not None:
            q[:, self.slides] = root[:, self.axes]
        return q


@dataclass(frozen=True, slots=True, eq=False)
class BodyState:
    """Jets at all instants, with the root at the origin and without gravity."""

    angles: StateJet  # (n, D)
    speeds: StateJet  # (n, D)
    accelerations: FloatArray  # (n, D)
    com: StateJet  # (n, 3) [m] from the root
    com_velocity: StateJet
    com_acceleration: StateJet
    spin: StateJet  # (n, 3) [kg m^2/s] angular momentum about the centre of mass
    spin_rate: StateJet  # (n, 3) [N m]
    points: dict[str, PointJets]  # position, velocity, acceleration from the root


def compute_body_state(
    figure: FullBodyModel, curves: CurveRates, points: NamedPoints, derivatives: Derivatives | None = "linear-time"
) -> BodyState:
    """Evaluate a character along curves ``(n, D)`` of its angles, with all derivatives by them.

    Args:
        figure: the character.
        curves: angles [rad], speeds and accelerations.
        points: name, coordinate and position of each requested point.
        derivatives: how aggregate momentum and force are differentiated. Without them (None) jets have no columns, nor
            has what is made of them.
    """
    q, qd, qdd = (figure.coordinates(curve) for curve in curves)
    tree = figure.tree
    # Without derivatives the columns of every Jacobian are left out
    keep = figure.angles if derivatives is not None else figure.angles[:0]
    found: dict[str, PointJets] = {}
    if points:
        dofs = np.array([dof for _, dof, _ in points], dtype=np.int64)
        at = compute_points_motion(
            tree, q, qd, qdd, dofs, np.array([place for _, _, place in points]), jacobians=derivatives is not None
        )
        for i, (name, _, _) in enumerate(points):
            jacobians = (at.J[:, i][..., keep], at.Jd[:, i][..., keep], at.Jdd[:, i][..., keep])
            found[name] = motion_jets((at.position[:, i], at.velocity[:, i], at.acceleration[:, i]), jacobians)
    # Angles and speeds are the variables themselves
    count, width = curves[0].shape
    unit = np.broadcast_to(np.eye(width), (count, width, width))[..., : len(keep)]
    angles, speeds, _ = motion_jets(curves, (unit, np.zeros_like(unit), np.zeros_like(unit)))
    if derivatives is None:
        values = compute_aggregate(tree, q, qd, qdd, gravity=0.0)
        com, force = np.asarray(values.com), np.asarray(values.wrench)[:, :3]
        rate = np.asarray(values.wrench)[:, 3:] - cross_rows(com, force)
        momentum = np.asarray(values.angular_momentum)
        rates = (com, np.asarray(values.com_velocity), force / float(tree.mass), momentum, rate)
        place, velocity, pull, spin, spin_rate = (StateJet(v, np.zeros((3, *v.shape, 0))) for v in rates)
        return BodyState(angles, speeds, curves[2], place, velocity, pull, spin, spin_rate, found)
    motion = compute_com_motion(tree, q, qd, qdd)
    com_jets = motion_jets(
        (motion.position, motion.velocity, motion.acceleration),
        (motion.J[..., keep], motion.Jd[..., keep], motion.Jdd[..., keep]),
    )
    whole = compute_aggregate_jacobians(tree, q, qd, qdd, gravity=0.0, method=METHODS[derivatives])
    slopes = (
        (whole.momentum, np.stack([whole.dp_dq, whole.dp_dqd, np.zeros_like(whole.dp_dq)])[..., keep]),
        (whole.wrench, np.stack([whole.df_dq, whole.df_dqd, whole.df_dqdd])[..., keep]),
    )
    # Momentum and force about the origin become those about the centre of mass: n - c x f
    place, shifted = com_jets[0], list[StateJet]()
    for value, by_state in slopes:
        linear, angular = value[:, :3], value[:, 3:] - cross_rows(place.value, value[:, :3])
        by_force, by_place = skew_matrices(place.value) @ by_state[:, :, :3], skew_matrices(linear) @ place.partials
        shifted.append(StateJet(angular, by_state[:, :, 3:] - by_force + by_place))
    spin, spin_rate = shifted
    return BodyState(angles, speeds, curves[2], *com_jets, spin, spin_rate, found)


NUM_ACTIVE: Final = 4  # cubic basis functions that are not zero at an instant
MAX_SPANS: Final = 2000  # of a phase: minutes of motion, and all that memory holds
SNAP_S: Final = 1e-9  # [s] an instant this near to a border is on it


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Phase borders [s] and the spline that bends where contacts change."""

    phases: tuple[ProblemPhase, ...]
    edges: FloatArray  # (P + 1,) [s]
    spline: KnotSpline

    @staticmethod
    def from_problem(problem: SpacetimeProblem) -> Timeline:
        """Lay the phases one after the other; knots are aligned with them, double where contacts change."""
        phases = problem.phases
        edges = np.concatenate([[0.0], np.cumsum([phase.duration_s for phase in phases])])
        spans = [problem.span_s if phase.span_s is None else phase.span_s for phase in phases]
        return Timeline(phases, edges, KnotSpline.phases(edges, spans, names=[phase.name for phase in phases]))

    @property
    def duration_s(self) -> float:
        """Whole length [s]."""
        return float(self.edges[-1])

    def breaks(self, phase: int) -> FloatArray:
        """Borders of the spline's spans inside a phase, both ends included [s]."""
        knots = self.spline.breaks
        low, high = self.edges[phase], self.edges[phase + 1]
        return knots[(knots >= low - 1e-9) & (knots <= high + 1e-9)]

    def gauss_frames(self, phase: int, per_span: int) -> FloatArray:
        """Gauss-Legendre points of every span of a phase [s]."""
        nodes = np.polynomial.legendre.leggauss(per_span)[0]
        breaks = self.breaks(phase)
        middle, half = 0.5 * (breaks[1:] + breaks[:-1]), 0.5 * np.diff(breaks)
        return (middle[:, None] + half[:, None] * nodes).ravel()

    def even_frames(self, phase: int, per_span: int) -> FloatArray:
        """Instants that cut every span of a phase in equal parts, knots and both ends included [s].

        Accelerations of cubic splines have their peaks at knots, so these frames leave less between them than Gauss
        points do: excess pressure 11 mm against 118 mm on a jump.
        """
        breaks = self.breaks(phase)
        shares = np.arange(per_span) / per_span
        return np.append((breaks[:-1, None] + np.diff(breaks)[:, None] * shares).ravel(), breaks[-1])

    def time_of(self, phase: int, share: float) -> float:
        """Instant at a share of a phase [s]."""
        return float(self.edges[phase] + share * (self.edges[phase + 1] - self.edges[phase]))

    def grid(self, per_span: int) -> Instants:
        """Dense instants of the whole motion: every span cut in ``per_span`` parts, both sides of every border."""
        builder = InstantBuilder(self)
        for phase in range(len(self.phases)):
            builder.add(phase, self.even_frames(phase, per_span))
        return builder.build()


@dataclass(frozen=True, slots=True, eq=False)
class Instants:
    """Times with their phase and the basis functions that count there."""

    times: FloatArray  # (T,) [s]
    phases: IntArray  # (T,)
    first: IntArray  # (T,) first of the NUM_ACTIVE basis functions
    basis: FloatArray  # (3, T, NUM_ACTIVE) value, first and second derivative

    def curves(self, points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Positions, velocities and accelerations ``(T, D)`` of curves with control points ``(K, D)``."""
        near = points[self.first[:, None] + np.arange(NUM_ACTIVE)]
        values = np.einsum("dta,tai->dti", self.basis, near)
        return values[0], values[1], values[2]


class InstantBuilder:
    """Collects instants; an instant asked for twice is kept once."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._numbers: dict[tuple[int, float], int] = {}
        self._times: list[float] = []

    def add(self, phase: int, times: ArrayLike) -> IntArray:
        """Numbers ``(n,)`` of instants of a phase; on a border the phase selects the side."""
        edges, found = self._timeline.edges[phase : phase + 2], list[int]()
        for time in np.atleast_1d(times).tolist():
            time = next((float(edge) for edge in edges if abs(time - edge) < SNAP_S), time)
            number = self._numbers.setdefault((phase, round(time, 10)), len(self._numbers))
            if number == len(self._times):
                self._times.append(time)
            found.append(number)
        return np.array(found, dtype=np.int64)

    def build(self) -> Instants:
        """Evaluate the basis at all instants."""
        times = np.array(self._times)
        phases = np.array([phase for phase, _ in self._numbers], dtype=np.int64)
        is_end = times == self._timeline.edges[phases + 1]
        basis, first = np.zeros((3, len(times), NUM_ACTIVE)), np.zeros(len(times), dtype=np.int64)
        for derivative in range(3):
            for chosen in (is_end, ~is_end):
                side = "left" if chosen is is_end else "right"
                local = self._timeline.spline.local(times[chosen], derivative, side)
                first[chosen], basis[derivative, chosen] = local
        return Instants(times, phases, first, basis)


SPIN_PER_KG: Final = 5.0 / 65.0  # [m^2/s] a large change of angular momentum, over the mass
POSITION_SCALE: Final = 0.5  # [m]
SPEED_SCALE: Final = 1.0  # [m/s]
LOAD_MOMENT_SCALE: Final = 0.1  # [mg m]
LOAD_NODES_PER_SPAN: Final = 2  # as the frames of the solver


@dataclass(frozen=True, slots=True, eq=False)
class FlightUnknowns:
    """One or more flight phases in a row: ballistic, with one angular momentum."""

    phases: tuple[int, ...]
    start_s: float
    end_s: float
    before: int | None  # phase of support it leaves, None at the start of the motion
    after: int | None
    place: IntArray  # unknowns of the centre of mass at the start
    speed: IntArray  # unknowns of its velocity there
    spin: IntArray  # unknowns of the angular momentum


@dataclass(frozen=True, slots=True, eq=False)
class ContactLoad:
    """The wrench of a contact beyond the first of its phase, linear between nodes: force [mg], moment [mg m] at it."""

    phase: int
    contact: int  # its number in the phase, 1 or more
    times: FloatArray  # (N,) [s]
    unknowns: IntArray  # (N, 6)

    def weights(self, times: FloatArray) -> tuple[IntArray, FloatArray]:
        """Unknowns ``(n, 2, 6)`` of the nodes about times, and the share ``(n, 2)`` of each node."""
        left = np.clip(np.searchsorted(self.times, times, side="right") - 1, 0, len(self.times) - 2)
        share = np.clip((times - self.times[left]) / (self.times[left + 1] - self.times[left]), 0.0, 1.0)
        return self.unknowns[np.stack([left, left + 1], axis=1)], np.stack([1.0 - share, share], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class FullLayout:
    """Order of the unknowns: control points ``x[k * D + i]``, place, speed and spin of flights, impulses, loads."""

    problem: SpacetimeProblem
    timeline: Timeline
    figure: FullBodyModel
    flights: tuple[FlightUnknowns, ...]
    impulses: tuple[tuple[int, IntArray], ...]  # phase that touches down, and unknowns, of bounded impacts
    loads: tuple[ContactLoad, ...] = ()  # of phases whose contacts share the wrench
    num_angles: int = field(init=False)  # D
    num_points: int = field(init=False)  # K control points of each angle
    num_curve_unknowns: int = field(init=False)  # unknowns that are control points
    scales: FloatArray = field(init=False)  # (n,) unit of each unknown: a change by one is large
    weight: float = field(init=False)  # [N] of the body on earth, whatever its gravity: the unit of forces
    spin_scale: float = field(init=False)  # [kg m^2/s] a large change of angular momentum
    gravity: FloatArray = field(init=False)  # (3,) [m/s^2]

    def __post_init__(self) -> None:
        mass, set_ = float(self.figure.tree.mass), object.__setattr__
        set_(self, "num_angles", len(self.figure.angles))
        set_(self, "num_points", self.timeline.spline.num_coefficients)
        set_(self, "num_curve_unknowns", self.num_points * self.num_angles)
        set_(self, "weight", mass * GRAVITY)
        set_(self, "spin_scale", SPIN_PER_KG * mass)
        set_(self, "gravity", np.array([0.0, -self.problem.gravity, 0.0]))
        others = [(flight.place, flight.speed, flight.spin) for flight in self.flights]
        count = sum(len(part) for parts in others for part in parts) + sum(len(own) for _, own in self.impulses)
        count += sum(load.unknowns.size for load in self.loads)
        scales = np.ones(self.num_curve_unknowns + count)
        for place, speed, spin in others:
            scales[place], scales[speed], scales[spin] = POSITION_SCALE, SPEED_SCALE, self.spin_scale
        for load in self.loads:
            scales[load.unknowns[:, 3:]] = LOAD_MOMENT_SCALE
        set_(self, "scales", scales)

    @staticmethod
    def from_problem(problem: SpacetimeProblem, figure: FullBodyModel) -> FullLayout:
        """Lay out the unknowns of a problem."""
        timeline = Timeline.from_problem(problem)
        column, width = timeline.spline.num_coefficients * len(figure.angles), len(figure.axes)
        # Flight phases in a row are one flight
        groups: list[list[int]] = []
        for i, phase in enumerate(timeline.phases):
            if phase.is_flight and groups and groups[-1][-1] == i - 1:
                groups[-1].append(i)
            elif phase.is_flight:
                groups.append([i])
        flights: list[FlightUnknowns] = []
        for group in groups:
            before = group[0] - 1 if group[0] > 0 else None
            after = group[-1] + 1 if group[-1] + 1 < len(timeline.phases) else None
            start, end = float(timeline.edges[group[0]]), float(timeline.edges[group[-1] + 1])
            place, speed, spin = np.split(column + np.arange(2 * width + len(figure.spins)), [width, 2 * width])
            flights.append(FlightUnknowns(tuple(group), start, end, before, after, place, speed, spin))
            column += 2 * width + len(figure.spins)
        landings = [f.after for f in flights if f.after is not None] if problem.impact == "bounded" else []
        impulses = tuple((phase, column + i * width + np.arange(width)) for i, phase in enumerate(landings))
        column += width * len(landings)
        # A wrench for each contact beyond the first, at the frames of the solver
        loads: list[ContactLoad] = []
        for p, phase in enumerate(timeline.phases):
            times = timeline.even_frames(p, LOAD_NODES_PER_SPAN)
            for contact in range(1, len(phase.contacts)) if is_shared(problem, p) else ():
                unknowns = column + np.arange(6 * len(times)).reshape(-1, 6)
                loads.append(ContactLoad(p, contact, times, unknowns))
                column += unknowns.size
        return FullLayout(problem, timeline, figure, tuple(flights), impulses, tuple(loads))

    @property
    def num_unknowns(self) -> int:
        """All unknowns."""
        return len(self.scales)

    def flight_of(self, phase: int) -> FlightUnknowns | None:
        """The flight a phase belongs to."""
        return next((flight for flight in self.flights if phase in flight.phases), None)

    def points(self, x: FloatArray) -> FloatArray:
        """Control points ``(K, D)`` of unscaled unknowns."""
        return x[: self.num_curve_unknowns].reshape(self.num_points, self.num_angles)


ROUND_UP = 1.0 + 1e-12  # a span this much longer gives the same number of them


def refine_layout(layout: FullLayout) -> FullLayout:
    """Unknowns of the same problem with every span cut in two, and one level of refinement less."""
    counts = [len(layout.timeline.breaks(i)) - 1 for i in range(len(layout.timeline.phases))]
    phases = tuple(
        replace(phase, span_s=phase.duration_s / (2 * count) * ROUND_UP)
        for phase, count in zip(layout.timeline.phases, counts, strict=True)
    )
    problem = replace(layout.problem, phases=phases, refine=max(layout.problem.refine - 1, 0))
    return FullLayout.from_problem(problem, layout.figure)


def refine_unknowns(layout: FullLayout, x: FloatArray) -> FloatArray:
    r"""Unscaled unknowns of the same motion in :func:`refine_layout`, by knot insertion: exact.

    .. math:: \sum_k c_k\phi_k(t) = \sum_j (Rc)_j\,\tilde\phi_j(t)\quad\text{for every}\ t

    What flights and impacts carry along stays as it is, loads are taken between their nodes.
    """
    matrix: Any = layout.timeline.spline.refine()[1]
    points = np.asarray(matrix @ layout.points(x), dtype=np.float64)
    finer, curves = refine_layout(layout), layout.num_curve_unknowns
    count = sum(load.unknowns.size for load in layout.loads)
    out = np.concatenate([points.ravel(), x[curves : len(x) - count], np.zeros(finer.num_unknowns)])
    out = out[: finer.num_unknowns]
    for old, new in zip(layout.loads, finer.loads, strict=True):
        near, shares = old.weights(new.times)
        out[new.unknowns] = (shares[:, :, None] * x[near]).sum(axis=1)
    return out
