"""A tree while it is being put together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.dynamics._tree_motion import PRISMATIC, REVOLUTE, WORLD, Point, TreeSkeleton
from marey.lie import SO3

AXES: Final = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


class TreeParts(NamedTuple):
    """Fields of a ``JointTree``, in its order, before they are checked."""

    names: tuple[str, ...]
    parents: IntArray
    kinds: IntArray
    axes: FloatArray
    offsets: FloatArray
    masses: FloatArray
    centres: FloatArray
    inertias: FloatArray
    orientations: FloatArray
    lower: FloatArray
    upper: FloatArray
    groups: tuple[str, ...]
    points: dict[str, Point]
    figure: TreeSkeleton | None
    report: tuple[str, ...]


@dataclass(slots=True)
class TreeDraft:
    """A tree while it is being put together: links are appended, then frozen by :meth:`build`."""

    names: list[str] = field(default_factory=list[str])
    parents: list[int] = field(default_factory=list[int])
    kinds: list[int] = field(default_factory=list[int])
    axes: list[FloatArray] = field(default_factory=list[FloatArray])
    offsets: list[FloatArray] = field(default_factory=list[FloatArray])
    orientations: list[FloatArray] = field(default_factory=list[FloatArray])
    masses: list[float] = field(default_factory=list[float])
    centres: list[FloatArray] = field(default_factory=list[FloatArray])
    inertias: list[FloatArray] = field(default_factory=list[FloatArray])
    bounds: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    groups: list[str] = field(default_factory=list[str])

    def add(
        self,
        name: str,
        parent: int,
        axis: Iterable[float],
        *,
        group: str,
        kind: int = REVOLUTE,
        offset: Iterable[float] = (0.0, 0.0, 0.0),
        orientation: Iterable[float] = (1.0, 0.0, 0.0, 0.0),
        bounds: tuple[float, float] = (-np.inf, np.inf),
    ) -> int:
        """Append a massless link and return its number."""
        self.names.append(name)
        self.parents.append(parent)
        self.kinds.append(kind)
        self.axes.append(np.array(tuple(axis)))
        self.offsets.append(np.array(tuple(offset)))
        self.orientations.append(np.array(tuple(orientation)))
        self.masses.append(0.0)
        self.centres.append(np.zeros(3))
        self.inertias.append(np.zeros((3, 3)))
        self.bounds.append(bounds)
        self.groups.append(group)
        return len(self.names) - 1

    def weigh(self, link: int, mass: float, centre: FloatArray, inertia: FloatArray) -> None:
        """Fasten a solid to a link that may carry others already."""
        total = self.masses[link] + mass
        if total <= 0.0:
            return
        joint = (self.masses[link] * self.centres[link] + mass * centre) / total
        moved = _point_mass_inertia(self.masses[link], self.centres[link] - joint) + _point_mass_inertia(
            mass, centre - joint
        )
        self.inertias[link] = self.inertias[link] + inertia + moved
        self.masses[link], self.centres[link] = total, joint

    def build(self, figure: TreeSkeleton | None, points: dict[str, Point], report: tuple[str, ...] = ()) -> TreeParts:
        """Arrays of the tree, in the order of the fields of ``JointTree``."""
        bounds = np.array(self.bounds)
        return TreeParts(
            tuple(self.names),
            np.array(self.parents, dtype=np.int64),
            np.array(self.kinds, dtype=np.int64),
            np.array(self.axes),
            np.array(self.offsets),
            np.array(self.masses),
            np.array(self.centres),
            np.array(self.inertias),
            orientations=np.array(self.orientations),
            lower=bounds[:, 0],
            upper=bounds[:, 1],
            groups=tuple(self.groups),
            points=points,
            figure=figure,
            report=report,
        )


def _point_mass_inertia(mass: float, r: FloatArray) -> FloatArray:
    """Inertia of a point mass at ``r``."""
    return mass * (r @ r * np.eye(3) - np.outer(r, r))


def add_root(draft: TreeDraft, slides: str, turns: str, group: str) -> int:
    """Add the coordinates of a free root, slides before turns, and return the last link."""
    link = WORLD
    for letter in slides:
        link = draft.add(f"root_t{letter}", link, AXES[letter], group=group, kind=PRISMATIC)
    for letter in turns:
        link = draft.add(f"root_r{letter}", link, AXES[letter], group=group)
    return link


def plan_random_tree(rng: np.random.Generator, num_dofs: int, massless: float) -> TreeParts:
    """Tree in which each joint hangs on the one before it or on a near ancestor of that; the last link has mass."""
    if num_dofs < 1:
        raise InputError(f"a tree of {num_dofs} joints", "It needs at least one")
    draft = TreeDraft()
    for i in range(num_dofs):
        axis, parent = rng.normal(size=3), i - 1
        for _ in range(int(rng.integers(0, 4)) if i > 1 else 0):
            parent = max(draft.parents[parent], 0)
        kind = PRISMATIC if rng.random() < 0.3 else REVOLUTE
        offset, turn = 0.4 * rng.normal(size=3), SO3.random(rng).wxyz
        unit = axis / np.linalg.norm(axis)
        draft.add(f"q{i}", parent, unit, group=f"q{i}", kind=kind, offset=offset, orientation=turn)
        if i == num_dofs - 1 or rng.random() >= massless:
            corners = 0.2 * rng.normal(size=(8, 3))  # a solid: eight points, so that its moments are possible
            for corner in corners:
                draft.weigh(i, float(rng.uniform(0.1, 0.5)), corner, np.zeros((3, 3)))
    return draft.build(None, {})
