"""Coordinates in which a soft body is solved: positions of nodes that nothing holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from marey.base import ConvergenceError, FloatArray, IntArray
from marey.muscle._control_pattern import FreeNodeMatrix, StepPattern

LinearSolver = Callable[[FloatArray, bool], FloatArray]  # of one column or many, with a matrix or with its transpose


class JointForces:
    """Forces of joints on the coordinates, and minus their derivatives."""

    def __init__(self, size: int) -> None:
        self.values: FloatArray = np.zeros(size)
        self.stiffness: FloatArray = np.zeros(size)  # by the coordinates, of each its own
        self.drag: FloatArray = np.zeros(size)  # by the coordinates before the step


class GeneralisedCoordinates(Protocol):
    """Positions of all points as a smooth function of fewer coordinates."""

    @property
    def size(self) -> int:
        """Number of coordinates."""
        ...

    @property
    def num_angles(self) -> int:
        """Number of coordinates that are joint angles: the last ones; they end the state too."""
        ...

    def coordinates(self, x: FloatArray, angles: FloatArray) -> FloatArray:
        """Coordinates of points ``(V, 3)`` that the chart can reach."""
        ...

    def positions(self, z: FloatArray, x: FloatArray) -> FloatArray:
        """Points ``(V, 3)``; those that nothing moves stay as in ``x``."""
        ...

    def ahead(self, z: FloatArray, x: FloatArray, v: FloatArray, dt: float) -> FloatArray:
        """Coordinates after a step if all goes on from points ``x`` with velocities ``v`` ``(V, 3)``."""
        ...

    def lift(self, z: FloatArray, d: FloatArray) -> FloatArray:
        """Changes of points ``(3V, ...)`` for changes of coordinates ``(size, ...)``."""
        ...

    def drop(self, z: FloatArray, f: FloatArray) -> FloatArray:
        """Forces on coordinates ``(size, ...)`` of forces on points ``(3V, ...)``: the transpose of :meth:`lift`."""
        ...

    def factor(
        self, z: FloatArray, values: FloatArray, forces: FloatArray, joints: JointForces, *, exact: bool
    ) -> LinearSolver:
        """Solver with the blocks of the pattern in coordinates, the joints, and the chart's curvature times forces.

        Without ``exact`` the curvature has no negative eigenvalue.
        """
        ...

    def joints(self, z: FloatArray, before: FloatArray, dt: float) -> JointForces:
        """What limits and dampers of joints do."""
        ...


class NodeCoordinates:
    """Free nodes move, held ones do not."""

    num_angles = 0

    def __init__(self, pattern: StepPattern, is_free: ArrayLike) -> None:
        self.free: IntArray = np.flatnonzero(np.asarray(is_free))
        self.size = 3 * self.free.size
        self._shape = (len(np.asarray(is_free)), 3)
        self._matrix = FreeNodeMatrix(pattern, self.free, self._shape[0])

    def coordinates(self, x: FloatArray, angles: FloatArray) -> FloatArray:
        """Positions of the free nodes."""
        return x[self.free].ravel()

    def positions(self, z: FloatArray, x: FloatArray) -> FloatArray:
        """All nodes ``(V, 3)``."""
        found = x.copy()
        found[self.free] = z.reshape(-1, 3)
        return found

    def ahead(self, z: FloatArray, x: FloatArray, v: FloatArray, dt: float) -> FloatArray:
        """Free nodes go straight on."""
        return (x + dt * v)[self.free].ravel()

    def lift(self, z: FloatArray, d: FloatArray) -> FloatArray:
        """Held nodes do not change."""
        found = np.zeros((*self._shape, *d.shape[1:]))
        found[self.free] = d.reshape(-1, 3, *d.shape[1:])
        return found.reshape(-1, *d.shape[1:])

    def drop(self, z: FloatArray, f: FloatArray) -> FloatArray:
        """Forces on the free nodes."""
        return f.reshape(*self._shape, *f.shape[1:])[self.free].reshape(-1, *f.shape[1:])

    def factor(
        self, z: FloatArray, values: FloatArray, forces: FloatArray, joints: JointForces, *, exact: bool
    ) -> LinearSolver:
        """Solver with the blocks between free nodes."""
        return factorise(self._matrix.best(values))

    def joints(self, z: FloatArray, before: FloatArray, dt: float) -> JointForces:
        """There are none."""
        return JointForces(self.size)


def factorise(matrix: Any) -> LinearSolver:
    """Solver with a matrix, dense or sparse by columns, or with its transpose; for one column or many."""
    from marey.muscle._control_scipy import lu_factor, lu_solve, splu

    if isinstance(matrix, np.ndarray):
        found = lu_factor(matrix, overwrite_a=True, check_finite=False)
        return lambda b, transposed: lu_solve(found, b, trans=int(transposed), check_finite=False)
    try:
        parts = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.01, options={"SymmetricMode": True})
    except RuntimeError as error:
        raise ConvergenceError(f"the matrix of a step of the soft body is singular: {error}") from None
    return lambda b, transposed: parts.solve(b, "T" if transposed else "N")
