"""The body along a motion, seen from its root, with derivatives by angles, speeds and accelerations.

Everything here is independent of where the root is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from marey.base import FloatArray, IntArray, UnknownNameError
from marey.dynamics import (
    PRISMATIC,
    JointTree,
    compute_aggregate,
    compute_aggregate_jacobians,
    compute_com_motion,
    compute_points_motion,
)
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
