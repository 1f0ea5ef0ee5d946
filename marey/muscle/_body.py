"""A soft body: nodes with mass, an elastic material between them, and one implicit step."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import ConvergenceError, FloatArray, InputError, frozen
from marey.muscle._assembly import diagonal_places
from marey.muscle._body_elastic import Elastic, elastic_cells
from marey.muscle._mesh import IndexArray, TetMesh, frozen_indices

GRAVITY: Final = (0.0, -9.82, 0.0)  # [m/s^2] as in [Engell2012]_
HELD: Final = -2
FREE: Final = -1
MAX_HALVINGS: Final = 5


@dataclass(frozen=True, slots=True)
class StepReport:
    """How the last step went."""

    iterations: int  # of conjugate gradients, over all sub-steps
    residual: float  # [-] of the last solve
    inverted: int  # cells turned inside out
    substeps: int


class SoftBody:
    """Nodes, masses and a material; :meth:`step` moves them by implicit Euler ([Engell2012]_ §2.19)."""

    def __init__(
        self, mesh: TetMesh, elastic: Elastic, masses: FloatArray, *, pinned: ArrayLike, gravity: ArrayLike,
        damping: tuple[float, float], tolerance: float,
    ) -> None:  # fmt: skip
        self.mesh = mesh
        self.elastic = elastic
        self.masses = masses
        self.gravity = frozen(gravity, 3, name="gravity")
        self.damping = damping
        self.tolerance = tolerance
        self.carriers: IndexArray = np.full(len(masses), FREE, dtype=np.int32)
        self.carriers[frozen_indices(pinned, None, len(masses), name="pinned")] = HELD
        self._diagonal = diagonal_places(elastic.blocks.starts, elastic.blocks.columns)
        self._inverse = np.empty((len(masses), 3, 3))
        self._scratch = np.empty((4, len(masses), 3))
        self.reset()

    @staticmethod
    def from_mesh(
        mesh: TetMesh | str | PathLike[str] | tuple[ArrayLike, ArrayLike], *, material: str = "neo-hookean",
        young_pa: float = 4e4, poisson: float | None = None, density_kg_m3: float = 1060.0,
        stiffness_scale: ArrayLike | None = None, damping: tuple[float, float] = (0.0, 0.0), pinned: ArrayLike = (),
        gravity: ArrayLike = GRAVITY, tolerance: float = 1e-4,
    ) -> SoftBody:  # fmt: skip
        """A body at rest on a mesh, a file of one, or (nodes, cells)."""
        solid = _mesh_of(mesh)
        if not (np.isfinite(density_kg_m3) and density_kg_m3 > 0):
            raise InputError(f"density_kg_m3 is {density_kg_m3}", "It must be positive")
        elastic = elastic_cells(solid, material, young_pa, poisson, stiffness_scale)
        masses = density_kg_m3 * elastic.arrays.node_volumes
        options = {"pinned": pinned, "gravity": gravity, "damping": damping, "tolerance": tolerance}
        return SoftBody(solid, elastic, masses, **options)

    @property
    def cells(self) -> IndexArray:
        """Node numbers of the cells."""
        return self.mesh.cells

    def reset(self) -> None:
        """Back to rest."""
        self.positions: FloatArray = self.mesh.nodes.copy()
        self.velocities: FloatArray = np.zeros_like(self.positions)
        self.report = StepReport(0, 0.0, 0, 0)

    def energy(self) -> float:
        """Kinetic, elastic and gravity energy [J]."""
        kinetic = 0.5 * float(self.masses @ np.sum(self.velocities**2, axis=1))
        return kinetic + self.elastic.energy(self.positions) - float(self.masses @ (self.positions @ self.gravity))

    def momentum(self) -> tuple[FloatArray, FloatArray]:
        """Linear [kg m/s] and angular [kg m^2/s] momentum about the origin, (3,) each."""
        impulse = self.masses[:, None] * self.velocities
        return impulse.sum(axis=0), np.cross(self.positions, impulse).sum(axis=0)

    def forces(self, x: FloatArray | None = None) -> FloatArray:
        """Elastic forces (V, 3) [N] at x, or at the present positions."""
        return self.elastic.forces(self.positions if x is None else np.ascontiguousarray(x))

    def step(self, dt: float = 1 / 60, external: ArrayLike | None = None) -> None:
        """Move by ``dt`` [s] under gravity and ``external`` (V, 3) [N]."""
        load = self.masses[:, None] * self.gravity
        if external is not None:
            load = load + frozen(external, len(self.masses), 3, name="external")
        h = dt
        x, v = self.positions, self.velocities
        velocities, count, residual = self._solve(x, v, h, load)
        if not np.isfinite(velocities).all():
            raise ConvergenceError("the step of the soft body exploded", self.report)
        self.positions = x + h * velocities
        self.velocities = velocities
        self.report = StepReport(count, residual, self.elastic.inverted(self.positions), 1)

    def _solve(self, x: FloatArray, v: FloatArray, h: float, load: FloatArray) -> tuple[FloatArray, int, float]:
        from marey.muscle._solver_kernels import conjugate_gradients, invert_diagonal

        forces = self.elastic.assemble(x, exact=False) + load
        starts, columns, values = self.elastic.blocks
        mass_rate, stiffness_time = self.damping
        factor = h * h + h * stiffness_time
        values *= factor
        for i in range(3):
            values[self._diagonal, i, i] += (1.0 + h * mass_rate) * self.masses
        weights = factor * self.elastic.rise_stiffness
        matrix = (starts, columns, values, self.elastic.rises, weights)
        invert_diagonal(*matrix, self._diagonal, self._inverse)
        rhs = self.masses[:, None] * v + h * forces
        out = v.copy()
        out[self.carriers == HELD] = 0.0
        count, residual = conjugate_gradients(
            *matrix, self._inverse, self.carriers, rhs, out, self._scratch, self.tolerance, 20 * len(v)
        )
        return out, count, residual


def _mesh_of(mesh: TetMesh | str | PathLike[str] | tuple[ArrayLike, ArrayLike]) -> TetMesh:
    if isinstance(mesh, TetMesh):
        return mesh
    if isinstance(mesh, tuple):
        return TetMesh(np.asarray(mesh[0], dtype=float), np.asarray(mesh[1]))
    return TetMesh.from_file(mesh)
