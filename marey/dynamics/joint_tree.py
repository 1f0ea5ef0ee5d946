"""Trees of joints with masses, as the linear-time recursions need them, and the same tree with coordinates held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Final, cast

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, UnknownNameError, frozen, frozen_ints
from marey.dynamics.bodies import Body, check_inertias
from marey.dynamics.spatial import (
    PRISMATIC,
    REVOLUTE,
    SAME_BONES_M,
    WORLD,
    Point,
    TreeArrays,
    TreeSkeleton,
    continuous_euler_angles,
)
from marey.dynamics.tree_plans import plan_body_tree, plan_chain, plan_fang7, plan_fang22
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import Skeleton, restore_bones

AXIS_TOL: Final = 1e-6  # [-] an axis this near to unit length is taken as one


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SimplifiedTree:
    """Coordinates ``q = S q_s``: joints fused, limbs mirrored or left out ([Fang2003]_ §8.3).

    Momentum and force are evaluated on the whole body, so a motion that is valid here is valid there. Every function
    that takes a tree takes this too, with states and Jacobians in the fewer coordinates.
    """

    tree: JointTree
    S: FloatArray  # (D, d)
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        S = frozen(self.S, self.tree.num_dofs, None, name="S")
        names = tuple(self.names) or tuple(f"q{i}" for i in range(S.shape[1]))
        if len(names) != S.shape[1]:
            raise InputError(f"{len(names)} names for {S.shape[1]} coordinates")
        if np.linalg.matrix_rank(S) < S.shape[1]:
            raise InputError("two simplified coordinates do the same", "The columns of S must be independent")
        object.__setattr__(self, "S", S)
        object.__setattr__(self, "names", names)

    @property
    def num_dofs(self) -> int:
        """How many coordinates are left."""
        return self.S.shape[1]

    @property
    def mass(self) -> float:
        """Mass of the whole [kg]."""
        return self.tree.mass

    def expand(self, q: ArrayLike) -> FloatArray:
        """Coordinates ``(F, D)`` of the whole body, from ``(F, d)``."""
        return frozen(q, None, self.num_dofs, name="q") @ self.S.T

    def to_motion(self, q: ArrayLike, rate_hz: float, contacts: Contacts | None = None) -> Motion:
        """Clip of the whole body's skeleton."""
        return self.tree.to_motion(self.expand(q), rate_hz, contacts)

    def from_motion(self, motion: Motion) -> FloatArray:
        """Coordinates ``(F, d)`` nearest to a clip, by least squares."""
        return self.tree.from_motion(motion) @ np.linalg.pinv(self.S).T

    def __repr__(self) -> str:
        return f"SimplifiedTree({self.num_dofs} of {self.tree.num_dofs} coordinates)"


def reduce_jacobian(tree: JointTree | SimplifiedTree, jacobian: FloatArray) -> FloatArray:
    """Jacobian ``(..., d)`` in the tree's own coordinates, from ``(..., D)``."""
    return jacobian @ tree.S if isinstance(tree, SimplifiedTree) else jacobian


@dataclass(frozen=True, eq=False, repr=False)
class JointTree:
    """Rigid links joined by revolute and prismatic joints, parents before children ([Fang2003]_ §2.1-2.2).

    A joint with several degrees of freedom is a sequence of them with massless links between. Frame ``i`` sits at the
    joint; from the parent's frame it is moved by the offset, turned by the constant orientation, then turned about
    or slid along its axis.
    """

    names: tuple[str, ...]  # (D,) unique
    parents: IntArray  # (D,) parents[i] < i; -1 is the world
    kinds: IntArray  # (D,) REVOLUTE or PRISMATIC
    axes: FloatArray  # (D, 3) unit, in frame i
    offsets: FloatArray  # (D, 3) [m] joint origin in the parent's frame
    masses: FloatArray  # (D,) [kg]
    centres: FloatArray  # (D, 3) [m] centre of mass in frame i
    inertias: FloatArray  # (D, 3, 3) [kg m^2] about the centre, axes of frame i
    orientations: FloatArray = field(default_factory=lambda: np.zeros((0, 4)))  # (D, 4) wxyz; identity by default
    lower: FloatArray = field(default_factory=lambda: np.zeros(0))  # (D,) [rad] or [m]; unbounded by default
    upper: FloatArray = field(default_factory=lambda: np.zeros(0))
    groups: tuple[str, ...] = ()  # (D,) anatomical joint; the names by default
    points: Mapping[str, Point] = field(default_factory=dict[str, Point])
    figure: TreeSkeleton | None = None
    report: tuple[str, ...] = ()  # what the builder decided, in sentences

    def __post_init__(self) -> None:
        count = len(self.names)
        if count == 0:
            raise InputError("a tree without joints", "It needs at least one")
        if len(set(self.names)) < count:
            repeated = next(n for n in self.names if self.names.count(n) > 1)
            raise InputError(f"two coordinates are called '{repeated}'", "Names must differ")
        kinds = frozen_ints(self.kinds, count, name="kinds")
        if not np.isin(kinds, (REVOLUTE, PRISMATIC)).all():
            raise InputError("kinds must be REVOLUTE (0) or PRISMATIC (1)")
        parents = frozen_ints(self.parents, count, name="parents")
        for i, parent in enumerate(parents):
            if not -1 <= parent < i:
                what = f"the parent of '{self.names[i]}' (joint {i}) is {parent}"
                raise InputError(what, "Parents come before their children; the world is -1")
        axes = frozen(self.axes, count, 3, name="axes")
        lengths = np.linalg.norm(axes, axis=1)
        for name, length in zip(self.names, lengths, strict=True):
            if abs(length - 1.0) > AXIS_TOL:
                raise InputError(f"the axis of '{name}' has length {length:.6g}", "Give a unit vector")
        masses, inertias = check_inertias(self.names, self.masses, self.inertias)
        turns = self.orientations if len(self.orientations) else SO3.identity(count).wxyz
        groups = tuple(self.groups) or tuple(self.names)
        if len(groups) != count:
            raise InputError(f"{len(groups)} groups for {count} coordinates", "Give one for each, or none")
        points = {n: (int(d), frozen(p, 3, name=n)) for n, (d, p) in self.points.items()}
        checked = dict[str, Any](
            names=tuple(self.names),
            parents=parents,
            kinds=kinds,
            axes=frozen(axes / lengths[:, None], name="axes"),
            offsets=frozen(self.offsets, count, 3, name="offsets"),
            masses=masses,
            centres=frozen(self.centres, count, 3, name="centres"),
            inertias=inertias,
            orientations=SO3(frozen(turns, count, 4, name="orientations")).wxyz,
            lower=_check_bounds(self.lower, count, -np.inf),
            upper=_check_bounds(self.upper, count, np.inf),
            groups=groups,
            points=MappingProxyType(points),
        )
        for name, value in checked.items():
            object.__setattr__(self, name, value)  # the one place we may

    # Making

    @classmethod
    def fang22(cls, height_m: float = 1.65, mass_kg: float = 65.0) -> JointTree:
        """Fang's character: root 6, hips and shoulders 3, knees and elbows 1 degree of freedom ([Fang2003]_ §7)."""
        return cls(**plan_fang22(height_m, mass_kg))

    @classmethod
    def fang7(cls, height_m: float = 1.65, mass_kg: float = 65.0) -> JointTree:
        """Fang's planar character: the same seen from the side, left and right limbs merged into one link each."""
        return cls(**plan_fang7(height_m, mass_kg))

    @classmethod
    def chain(cls, num_links: int, *, length_m: float = 0.3, mass_kg: float = 1.0) -> JointTree:
        """Serial chain of equal rods that hangs from the world; axes take turns, so that it moves in space."""
        return cls(**plan_chain(num_links, length_m, mass_kg))

    @classmethod
    def from_body(
        cls, body: Body, *, motion: Motion | None = None, root_order: str = "yxz", fingers: bool = True
    ) -> JointTree:
        """Tree of one-turn joints that moves a body's skeleton.

        The root slides along X, Y, Z and turns in ``root_order`` (yaw first, so that spins about the vertical stay
        regular; ``"yzx"`` keeps somersaults regular). Hips turn Z-Y-X, shoulders X-Z-Y, both counted from a limb that
        hangs straight down: a T-pose arm would reach its lock in every forward swing. A joint that the capture turns
        about one axis is a hinge, others have three turns, so a clip goes to coordinates and back without loss.

        Args:
            body: skeleton, masses, centres and inertias of its pieces.
            motion: a clip that shows which joints are hinges or stiff, and which orders of turns stay away from gimbal
                lock. Without it, CMU's BVH hinges are known, ASF files name theirs, and all other joints turn freely.
            root_order: order of the root's turns, outermost first; ``"auto"`` takes the usual one unless the motion
                comes near its gimbal lock.
            fingers: keep the finger and thumb joints of CMU's skeletons, which carry no mass of their own.
        """
        return cls(**plan_body_tree(body, motion=motion, root_order=root_order, fingers=fingers))

    def simplify(self, S: ArrayLike, names: tuple[str, ...] = ()) -> SimplifiedTree:
        """The same body moved by fewer coordinates, ``q = S q_s`` ([Fang2003]_ §8.3)."""
        return SimplifiedTree(self, frozen(S, self.num_dofs, None, name="S"), names)

    # Reading

    @property
    def num_dofs(self) -> int:
        """How many coordinates the tree has."""
        return len(self.names)

    @property
    def mass(self) -> float:
        """Mass of the whole [kg]."""
        return float(self.masses.sum())

    @property
    def skeleton(self) -> Skeleton:
        """The skeleton that the tree moves.

        Raises:
            InputError: the tree was built from bare arrays and has none.
        """
        return self._require_skeleton().skeleton

    def index(self, name: str) -> int:
        """Return the number of a coordinate."""
        if name not in self.names:
            raise UnknownNameError("coordinate", name, "this tree", self.names)
        return self.names.index(name)

    def point(self, name: str) -> Point:
        """Return the link and the place of a named point."""
        if name not in self.points:
            raise UnknownNameError("point", name, "this tree", self.points)
        return self.points[name]

    def ancestors(self, dof: int) -> list[int]:
        """A coordinate and those that carry it, up to the root."""
        found: list[int] = []
        while dof >= 0:
            found.append(dof)
            dof = int(self.parents[dof])
        return found

    def subtree(self, dof: int) -> IntArray:
        """Numbers of a joint and of all joints beyond it."""
        if not 0 <= dof < self.num_dofs:
            raise InputError(f"coordinate {dof}", f"This tree has 0 to {self.num_dofs - 1}")
        inside = np.zeros(self.num_dofs, dtype=bool)
        inside[dof] = True
        for i in range(dof + 1, self.num_dofs):
            inside[i] = inside[i] or (self.parents[i] >= 0 and inside[self.parents[i]])
        return np.flatnonzero(inside)

    def far_mass(self, dof: int, support: int | None = None) -> float:
        """Mass [kg] that joint ``dof`` moves when the body stands on link ``support``.

        What lies beyond the joint as seen from the support: the sub-tree of the joint, or the rest of the body when
        the support is inside that sub-tree ("effective root", [Fang2003]_ 2.16).
        """
        beyond = self.subtree(dof)
        inner = float(self.masses[beyond].sum())
        return self.mass - inner if support is not None and support in beyond else inner

    @cached_property
    def arrays(self) -> TreeArrays:
        """What the compiled loops take; the world is link ``D``."""
        parents = np.where(self.parents == WORLD, self.num_dofs, self.parents)
        revolute = np.flatnonzero(self.kinds == REVOLUTE)
        # Second moments about the origins of the links, (A.16), repaired
        m, c = self.masses[:, None], self.centres
        squares, outer = np.einsum("ic,ic->i", c, c), np.einsum("ia,ib->iab", c, c)
        J = self.inertias + m[:, None] * (squares[:, None, None] * np.eye(3) - outer)
        return TreeArrays(
            parents,
            self.kinds.copy(),  # writable like the rest, so that no loop is compiled twice
            SO3(self.orientations).matrix().copy(),
            np.hstack([self.axes, self.offsets]),
            np.hstack([m, m * c, J[:, (0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)]]),
            int(revolute[0]) if len(revolute) else 0,
        )

    # Converting

    def to_motion(self, q: ArrayLike, rate_hz: float, contacts: Contacts | None = None) -> Motion:
        """Clip of the tree's skeleton that coordinates ``q (F, D)`` describe."""
        figure, q = self._require_skeleton(), frozen(q, None, self.num_dofs, name="q")
        # R_parent_joint is the product of orientation and turn of each coordinate, first, second and third ones at once
        turns = SO3(self.orientations) @ SO3.from_axis_angle(self.axes, q)
        chains = [self._select_kind(dofs, REVOLUTE) for dofs in figure.joint_dofs]
        total = SO3.identity(len(q), len(chains)).wxyz.copy()
        for k in range(max(map(len, chains))):
            joints = [j for j, chain in enumerate(chains) if len(chain) > k]
            total[:, joints] = (SO3(total[:, joints]) @ turns[:, [chains[j][k] for j in joints]]).wxyz
        roots = np.zeros((len(q), 3))
        for i in self._select_kind(figure.joint_dofs[0], PRISMATIC):
            roots += self.offsets[i] + q[:, i, None] * self.axes[i]
        return Motion(figure.skeleton, rate_hz, roots, SO3(total), contacts=contacts)

    def from_motion(self, motion: Motion) -> FloatArray:
        """Coordinates ``(F, D)`` of a clip of the tree's skeleton, unwrapped in time.

        Raises:
            InputError: the clip is of another skeleton; retarget it first.
        """
        figure = self._require_skeleton()
        # Refuse a clip of other bones; bones that a body got back may be missing in the clip
        ours, theirs = figure.skeleton, motion.skeleton
        is_same = ours is theirs
        for skeleton in (theirs, restore_bones(theirs)):
            if not is_same and ours.names == skeleton.names:
                is_same = np.abs(ours.offsets[1:] - skeleton.offsets[1:]).max(initial=0.0) < SAME_BONES_M
        if not is_same:
            raise InputError(f"the clip is of skeleton {theirs!r}, the tree moves {ours!r}", "Retarget the clip first")
        q = np.zeros((motion.num_frames, self.num_dofs))
        for j, dofs in enumerate(figure.joint_dofs):
            turns = self._select_kind(dofs, REVOLUTE)
            if turns:
                # Angles (F, n) [rad] of a joint of one or three turns, from its rotations, batch (F,)
                rotations = motion.rotations[:, j]
                if len(turns) == 1:
                    k = turns[0]
                    wxyz = (SO3(self.orientations[k]).inverse() @ rotations).wxyz
                    q[:, turns] = np.unwrap(2.0 * np.arctan2(wxyz[:, 1:] @ self.axes[k], wxyz[:, 0]), axis=0)[:, None]
                else:
                    if len(turns) != 3:
                        raise InputError(f"a joint of {len(turns)} turns", "It has one or three")
                    frame = self.axes[list(turns)].T
                    q[:, turns] = continuous_euler_angles(SO3(self.orientations[turns[0]]).inverse() @ rotations, frame)
        for i in self._select_kind(figure.joint_dofs[0], PRISMATIC):
            q[:, i] = (motion.root_positions - self.offsets[i]) @ self.axes[i]
        return q

    def _select_kind(self, dofs: Sequence[int], kind: int) -> list[int]:
        return [i for i in dofs if self.kinds[i] == kind]

    def _require_skeleton(self) -> TreeSkeleton:
        if self.figure is None:
            raise InputError("this tree has no skeleton", "Build it with fang22, fang7, chain or from_body")
        return self.figure

    def __reduce__(self) -> tuple[Any, ...]:
        kept = {f.name: getattr(self, f.name) for f in fields(self)} | {"points": dict(self.points)}
        return partial(JointTree, **kept), ()

    def __repr__(self) -> str:
        return f"JointTree({self.num_dofs} coordinates, {self.mass:.4g} kg)"


def _check_bounds(values: FloatArray, count: int, default: float) -> FloatArray:
    array = np.full(count, default) if len(values) == 0 else np.array(values, dtype=np.float64)
    if array.shape != (count,) or np.isnan(array).any():
        raise InputError(f"bounds of shape {array.shape}", f"Give ({count},) numbers, none of them NaN")
    array.setflags(write=False)
    return cast(FloatArray, array)
