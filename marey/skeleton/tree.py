"""The tree of joints, one pose of it, and its forward kinematics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import (
    FloatArray,
    InputError,
    IntArray,
    UnknownNameError,
    count_cores,
    frozen,
    frozen_ints,
    kernel,
    split_blocks,
)
from marey.lie import SO3
from marey.lie.quaternions import UNIT_TOL
from marey.lie.so3 import wrap_unit


@kernel
def forward_kinematics(
    parents: IntArray, offsets: FloatArray, root_positions: FloatArray, wxyz: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""World positions ``(F, J, 3)`` and world quaternions ``(F, J, 4)`` of every joint.

    .. math:: R_j = R_{p(j)} L_j, \qquad x_j = x_{p(j)} + R_{p(j)} o_j

    ``offsets`` is ``(1, J, 3)`` for rigid bones or ``(F, J, 3)`` for bones that change length.
    """
    positions, world = np.empty((*wxyz.shape[:2], 3)), np.empty(wxyz.shape)
    fill_world_frames(parents, offsets, root_positions, wxyz, positions, world)
    return positions, world


@kernel
def fill_world_frames(
    parents: IntArray, offsets: FloatArray, root_positions: FloatArray, wxyz: FloatArray, positions: FloatArray,
    world: FloatArray,
) -> bool:  # fmt: skip
    """Write what :func:`forward_kinematics` returns to ``positions`` ``(F, J, 3)`` and ``world`` ``(F, J, 4)``.

    Returns whether every world quaternion is finite and has norm one within ``UNIT_TOL``.
    """
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    step = 0 if offsets.shape[0] == 1 else 1
    is_unit = True
    for f in range(frames):
        positions[f, 0, 0] = root_positions[f, 0]
        positions[f, 0, 1] = root_positions[f, 1]
        positions[f, 0, 2] = root_positions[f, 2]
        for c in range(4):
            world[f, 0, c] = wxyz[f, 0, c]
        for j in range(1, joints):
            p = parents[j]
            w, x, y, z = world[f, p, 0], world[f, p, 1], world[f, p, 2], world[f, p, 3]
            a, b, c_ = offsets[f * step, j, 0], offsets[f * step, j, 1], offsets[f * step, j, 2]
            u = 2.0 * (y * c_ - z * b)
            v = 2.0 * (z * a - x * c_)
            t = 2.0 * (x * b - y * a)
            positions[f, j, 0] = positions[f, p, 0] + a + w * u + (y * t - z * v)
            positions[f, j, 1] = positions[f, p, 1] + b + w * v + (z * u - x * t)
            positions[f, j, 2] = positions[f, p, 2] + c_ + w * t + (x * v - y * u)
            lw, lx, ly, lz = wxyz[f, j, 0], wxyz[f, j, 1], wxyz[f, j, 2], wxyz[f, j, 3]
            world[f, j, 0] = w * lw - x * lx - y * ly - z * lz
            world[f, j, 1] = w * lx + x * lw + y * lz - z * ly
            world[f, j, 2] = w * ly - x * lz + y * lw + z * lx
            world[f, j, 3] = w * lz + x * ly - y * lx + z * lw
        # Norms of the chain, while its frame lies in the cache; a comparison with NaN is false
        for j in range(joints):
            w, x, y, z = world[f, j, 0], world[f, j, 1], world[f, j, 2], world[f, j, 3]
            is_unit &= abs(w * w + x * x + y * y + z * z - 1.0) <= 1.5 * UNIT_TOL
    return is_unit


NO_PARENT = -1
SHARED_JOINTS = 1_000_000  # [-] of all frames, from which on the cores share them: some ten milliseconds of work
MAX_JOINTS = 10_000  # far above any character (a face rig has a few hundred), far below harm


# Roles are known one floor up; `roles` hands over the function that finds the joint of a role.
ROLE_FINDERS: Final[list[Callable[[Skeleton, str], int | None]]] = []


@dataclass(frozen=True, slots=True, eq=False)
class EulerLimits:
    """Range of a joint's Euler angles as a file gives it (ASF ``dof`` and ``limits``).

    The joint's rotation is ``R = axis @ R_order(angles) @ axis.inverse()``, where ``R_order`` multiplies
    elementary rotations so that the first letter of ``order`` acts first.
    """

    joint: str
    order: str  # free axes, in the order they act: "xyz", "xz", "x"
    low_rad: FloatArray  # (len(order),) [rad]
    high_rad: FloatArray  # (len(order),) [rad]
    axis: SO3  # one rotation: the frame in which the angles are measured


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Skeleton:
    """A tree of joints, parents before children, so one forward loop visits it all.

    All joint frames are aligned with the world in the rest pose (every rotation the identity).
    """

    names: tuple[str, ...]  # (J,) unique
    parents: IntArray  # (J,) parents[j] < j; NO_PARENT (-1) for the root, which is joint 0
    offsets: FloatArray  # (J, 3) [m] joint origin in its parent's frame; the root's is where it rests
    tips: FloatArray = field(default_factory=lambda: np.zeros((0, 3)))
    """(J, 3) [m] where the bone of a leaf joint ends, in the joint's frame; zero where nothing is known"""
    limits: tuple[EulerLimits, ...] = ()
    name: str = "skeleton"

    def __post_init__(self) -> None:
        names = tuple(str(n) for n in self.names)
        count = len(names)
        if not 1 <= count <= MAX_JOINTS:
            raise InputError(f"a skeleton of {count} joints", f"It needs between 1 and {MAX_JOINTS}")
        if len(set(names)) < count:
            repeated = next(n for n in names if names.count(n) > 1)
            raise InputError(f"two joints are called '{repeated}'", "Joint names must differ")
        parents = frozen_ints(self.parents, count, name="parents")
        if parents[0] != NO_PARENT or (parents[1:] < 0).any() or (parents >= np.arange(count)).any():
            raise InputError("joint 0 must be the only root, and parents must come before their children")
        tips = self.tips if len(self.tips) else np.zeros((count, 3))
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "parents", parents)
        object.__setattr__(self, "offsets", frozen(self.offsets, count, 3, name="offsets"))
        object.__setattr__(self, "tips", frozen(tips, count, 3, name="tips"))

    @property
    def num_joints(self) -> int:
        """How many joints the tree has, the root included."""
        return len(self.names)

    def index(self, joint: str) -> int:
        """Return the number of a joint, by its name or else by its role in the canonical human (``right_wrist``).

        Raises:
            UnknownNameError: no joint has this name or role; the message suggests the nearest one.
        """
        if joint in self.names:
            return self.names.index(joint)
        for find_role in ROLE_FINDERS:
            number = find_role(self, joint)
            if number is not None:
                return number
        raise UnknownNameError("joint", joint, f"skeleton '{self.name}'", self.names)

    def children(self, joint: int) -> IntArray:
        """Return the numbers of the joints whose parent is ``joint``."""
        return np.flatnonzero(self.parents == joint)

    def subtree(self, joint: int) -> list[int]:
        """Return a joint and all that hang on it, in order."""
        inside = {joint}
        for j in range(joint + 1, self.num_joints):
            if int(self.parents[j]) in inside:
                inside.add(j)
        return sorted(inside)

    def rest_positions(self) -> FloatArray:
        """Joint positions ``(J, 3)`` [m] with every rotation the identity."""
        positions = self.offsets.copy()
        for j in range(1, self.num_joints):
            positions[j] += positions[self.parents[j]]
        return positions

    def scaled(self, factor: float) -> Skeleton:
        """Return the same skeleton, ``factor`` times as large."""
        return Skeleton(self.names, self.parents, self.offsets * factor, self.tips * factor, self.limits, self.name)

    def __repr__(self) -> str:
        return f"Skeleton('{self.name}', {self.num_joints} joints)"


def tree_difference(a: Skeleton, b: Skeleton) -> str | None:
    """Say the first joint in whose name or parent two skeletons differ, or ``None``; lengths do not count."""
    if a.num_joints != b.num_joints:
        missing = [name for name in a.names if name not in b.names] or [n for n in b.names if n not in a.names]
        hint = f"; '{missing[0]}' is in one only" if missing else ""
        return f"{b.num_joints} joints, not {a.num_joints}{hint}"
    for joint, (one, two) in enumerate(zip(a.names, b.names, strict=True)):
        if one != two:
            return f"joint {joint} is called '{two}', not '{one}'"
        if a.parents[joint] != b.parents[joint]:
            return f"'{two}' hangs on '{b.names[b.parents[joint]]}', not on '{a.names[a.parents[joint]]}'"
    return None


@dataclass(slots=True)
class SkeletonDraft:
    """A skeleton while it is being read: edited freely, then checked and frozen by :meth:`build`."""

    name: str = "skeleton"
    names: list[str] = field(default_factory=list[str])
    parents: list[int] = field(default_factory=list[int])
    offsets: list[Sequence[float]] = field(default_factory=list[Sequence[float]])
    tips: dict[int, Sequence[float]] = field(default_factory=dict[int, Sequence[float]])
    limits: list[EulerLimits] = field(default_factory=list[EulerLimits])

    def add(self, name: str, parent: int, offset: Sequence[float]) -> int:
        """Append a joint and return its number."""
        self.names.append(name)
        self.parents.append(parent)
        self.offsets.append(offset)
        return len(self.names) - 1

    def build(self, *, scale: float = 1.0) -> Skeleton:
        """Check and freeze, with lengths multiplied by ``scale`` (file unit to metre)."""
        tips = np.zeros((len(self.names), 3))
        for joint, tip in self.tips.items():
            tips[joint] = tip
        return Skeleton(
            tuple(self.names),
            np.array(self.parents, dtype=np.int64),
            np.array(self.offsets, dtype=np.float64).reshape(-1, 3) * scale,
            tips * scale,
            tuple(self.limits),
            self.name,
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pose:
    """One frame: where the root is and how each joint is turned."""

    skeleton: Skeleton
    root_position: FloatArray  # (3,) [m] in world
    rotations: SO3  # batch (J,), R_parent_joint

    def __post_init__(self) -> None:
        object.__setattr__(self, "root_position", frozen(self.root_position, 3, name="root_position"))
        if self.rotations.shape != (self.skeleton.num_joints,):
            expected = (self.skeleton.num_joints,)
            raise InputError(f"rotations has batch {self.rotations.shape}, expected {expected}")

    @classmethod
    def rest(cls, skeleton: Skeleton) -> Pose:
        """Return the pose in which no joint is turned, the root at its own offset."""
        return cls(skeleton, skeleton.offsets[0], SO3.identity(skeleton.num_joints))

    def joint_positions(self) -> FloatArray:
        """Joint origins ``(J, 3)`` [m] in world."""
        return joint_positions(self.skeleton, self.root_position[None], self.rotations.wxyz[None])[0]

    def joint_rotations(self) -> SO3:
        """Joint frames in world, batch ``(J,)``: R_world_joint."""
        return joint_frames(self.skeleton, self.root_position[None], self.rotations.wxyz[None])[1][0]

    def __repr__(self) -> str:
        x, y, z = self.root_position
        return f"Pose({self.skeleton!r}, root at {x:.2f}, {y:.2f}, {z:.2f} m)"


def joint_positions(
    skeleton: Skeleton, root_positions: ArrayLike, wxyz: ArrayLike, translations: FloatArray | None = None
) -> FloatArray:
    """Joint origins ``(F, J, 3)`` [m] in world, for local rotations ``wxyz`` of shape ``(F, J, 4)``.

    ``translations`` ``(F, J, 3)`` [m] replaces the constant offsets of the joints below the root.
    """
    return _run_kinematics(skeleton, root_positions, wxyz, translations)[0]


def joint_frames(
    skeleton: Skeleton, root_positions: ArrayLike, wxyz: ArrayLike, translations: FloatArray | None = None
) -> tuple[FloatArray, SO3]:
    """Joint origins ``(F, J, 3)`` [m] and world rotations, batch ``(F, J)``: R_world_joint."""
    positions, frames, is_unit = _run_kinematics(skeleton, root_positions, wxyz, translations)
    frames.flags.writeable = False  # so that they are wrapped, not copied
    return positions, wrap_unit(frames) if is_unit else SO3(frames)


def _run_kinematics(
    skeleton: Skeleton, root_positions: ArrayLike, wxyz: ArrayLike, translations: FloatArray | None
) -> tuple[FloatArray, FloatArray, bool]:
    # Contiguous views that cannot be written, as the arrays of skeletons and clips: one compiled kernel serves all
    views: list[FloatArray] = []
    for values in (skeleton.offsets[None] if translations is None else translations, root_positions, wxyz):
        view = np.ascontiguousarray(values, dtype=np.float64).view()
        view.flags.writeable = False
        views.append(view)
    # Compiled code reads past the end of arrays that do not fit the skeleton
    offsets, roots, turns = views
    frames, joints = len(turns), skeleton.num_joints
    is_fit = offsets.shape in ((1, joints, 3), (frames, joints, 3))
    if not (is_fit and roots.shape == (frames, 3) and turns.shape == (frames, joints, 4)):
        shapes = f"root_positions {roots.shape}, wxyz {turns.shape}, offsets {offsets.shape}"
        raise InputError(f"{shapes} do not fit {joints} joints", "Give (F, 3), (F, J, 4) and (F, J, 3)")
    # Large arrays of numpy lie in large pages, those of compiled code do not: the first write to each page costs
    positions, world = np.empty((frames, joints, 3)), np.empty((frames, joints, 4))

    def fill(part: slice) -> bool:
        own = offsets if len(offsets) == 1 else offsets[part]
        return fill_world_frames(skeleton.parents, own, roots[part], turns[part], positions[part], world[part])

    cores = count_cores() if frames * joints > SHARED_JOINTS else 1
    if cores == 1:
        return positions, world, fill(slice(None))
    from concurrent.futures import ThreadPoolExecutor

    # Frames do not depend on one another, and compiled code leaves the interpreter to others
    with ThreadPoolExecutor(cores) as pool:
        is_unit = all(list(pool.map(fill, split_blocks(frames, -(-frames // cores)))))
    return positions, world, is_unit
