"""A soft body: nodes with mass, an elastic material between them, what holds it and what moves it.

A step is divided into smaller ones where it would invert cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from marey.base import ConvergenceError, FloatArray, InputError, UnknownNameError, frozen
from marey.muscle.body.bones import AttachedBones, Bones
from marey.muscle.body.linear_system import FREE, HELD
from marey.muscle.body.surface_contact import BodyContact, SurfaceContact
from marey.muscle.body.time_step import ExplicitScheme, ImplicitScheme, ImplicitSolution
from marey.muscle.elastic.mesh import (
    SLIVER_VOLUME,
    IndexArray,
    TetMesh,
    find_connected_parts,
    format_indices,
    freeze_indices,
    sum_by_index,
)
from marey.muscle.elastic.models import (
    Lattice,
    SpringElasticity,
    TetrahedralElasticity,
    make_spring_elasticity,
    make_tetrahedral_elasticity,
)
from marey.muscle.elastic.segments import to_sparse_tangent

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from marey.muscle.body.contact import ContactPlane
    from marey.muscle.muscles.forces import Muscles


ENERGY_FLOOR_J: Final = 1e-9  # [J] where growth is rounding


@dataclass(frozen=True, slots=True)
class StepReport:
    """Report of a step."""

    iterations: int = 0  # of conjugate gradients, over all sub-steps
    residual: float = 0.0  # [-] of the last solve, over what drives the step
    inverted: int = 0  # cells turned inside out at the end
    substeps: int = 0


class BodyStepper:
    """Integrates one body; holds the state that steps share."""

    def __init__(self, body: SoftBody) -> None:
        self.body = body
        self.implicit = ImplicitScheme(body)
        explicit = body.settings.integrator == "explicit"
        self.scheme = ExplicitScheme(body, self.implicit) if explicit else self.implicit
        self.alphas = np.ones(len(self.implicit.system.blocks))
        self.inverted = 0
        self.known: list[tuple[FloatArray, float]] = []

    def advance(self, dt: float, external: ArrayLike | None, activations: ArrayLike | None) -> StepReport:
        """Step by ``dt`` [s] as a whole or in halves."""
        if not (np.isfinite(dt) and dt > 0):
            raise InputError(f"dt is {dt}", "A step takes a positive time [s]")
        body = self.body
        load = body.masses[:, None] * body.gravity
        if external is not None:
            load = load + frozen(external, len(body.masses), 3, name="external")
        if activations is not None:
            if body.muscles is None:
                raise InputError("activations are given, but the body has no muscles", "Pass muscles= to from_mesh")
            self.alphas = np.ascontiguousarray(body.muscles.alphas(activations))
        start, kept = (body.positions, body.velocities), body.bones.snapshot()
        try:
            return self._step_with_halving(dt, load, 0)
        except ConvergenceError:
            body.positions, body.velocities = start
            body.bones.restore(kept)
            raise

    def _step_with_halving(self, h: float, load: FloatArray, level: int) -> StepReport:
        """One step, solved again where it is not plausible; two of half the length where that does not help."""
        body = self.body
        kept = body.bones.snapshot()
        found = self.scheme.solve(body, h, load, self.alphas)
        inverted, plausible = self._judge(found)
        # After a step that was solved twice, the first solve of the next need not be good.
        rough, self.implicit.is_rough = self.implicit.is_rough, not plausible
        if self.scheme is self.implicit and inverted >= 0 and (rough or not plausible):
            body.bones.restore(kept)
            again = self.implicit.solve(body, h, load, self.alphas, found)
            again.iterations += found.iterations
            found, (inverted, plausible) = again, self._judge(again)
        if inverted >= 0 and (level == body.settings.max_halvings or plausible):
            self.inverted = inverted
            body.positions, body.velocities = found.positions, found.velocities
            return StepReport(found.iterations, found.residual, inverted, found.substeps)
        body.bones.restore(kept)
        if level == body.settings.max_halvings:
            raise ConvergenceError(f"a soft body exploded in a step of {h:.2e} s", body.report)
        first = self._step_with_halving(h / 2, load, level + 1)
        second = self._step_with_halving(h / 2, load, level + 1)
        iterations, count = first.iterations + second.iterations, first.substeps + second.substeps
        return StepReport(found.iterations + iterations, second.residual, second.inverted, count)

    def _judge(self, found: ImplicitSolution) -> tuple[int, bool]:
        """Number of inverted cells, -1 where it is not finite; whether no cell and no energy came from nowhere.

        One linear solve cannot follow a fast turn of a stiff body: what it stretches springs back in the next step.
        """
        if not np.isfinite(found.velocities).all():
            return -1, False
        inverted = self.body.elastic.count_inverted(found.positions)
        if inverted > self.inverted or not np.isfinite(found.work):
            return inverted, inverted <= self.inverted
        before = self._energy(self.body.positions, self.body.velocities)
        gain = self._energy(found.positions, found.velocities) - before - found.work
        return inverted, gain <= self.body.settings.max_energy_gain * (before + abs(found.work)) + ENERGY_FLOOR_J

    def _energy(self, x: FloatArray, v: FloatArray) -> float:
        """Kinetic and elastic energy [J]; the elastic part of the last three positions is known."""
        known = next((energy for where, energy in self.known if where is x), None)
        if known is None:
            known = self.body.elastic.energy(x)
            self.known = [(x, known), *self.known[:2]]
        return 0.5 * float(self.body.masses @ np.einsum("ni,ni->n", v, v)) + known


GRAVITY: Final = (0.0, -9.82, 0.0)  # [m/s^2] as in [Engell2012]_
INTEGRATORS: Final = ("implicit", "explicit")

ElasticModel: TypeAlias = TetrahedralElasticity | SpringElasticity
MeshSource: TypeAlias = "TetMesh | Lattice | str | PathLike[str] | tuple[ArrayLike, ArrayLike]"


@dataclass(frozen=True, slots=True)
class BodySettings:
    """Settings of the time step of a body."""

    integrator: str = "implicit"
    tolerance: float = 1e-3  # [-] residual of a solve over what drives the step
    damping: tuple[float, float] = (0.0, 0.0)  # Rayleigh: of masses [1/s], of stiffness [s]
    max_halvings: int = 4  # of a step that inverts cells or gains energy
    max_energy_gain: float = (
        0.03  # [-] of its energy and of the work on it, that a body may gain from nowhere in a step
    )
    rough_factor: float = 10.0  # [-] on the tolerance of a first solve that a second one will better
    max_contact_passes: int = 3  # solves of one step until no node is pulled by the ground

    def __post_init__(self) -> None:
        counts = (self.max_halvings >= 0, self.max_contact_passes >= 1, self.max_energy_gain > 0.0)
        if not (all(counts) and self.rough_factor >= 1.0):
            raise InputError(
                f"settings of a soft body are {self}", "Give positive numbers, a rough_factor of one or more"
            )
        if self.integrator not in INTEGRATORS:
            raise UnknownNameError("integrator", self.integrator, "soft bodies", INTEGRATORS)
        if len(self.damping) != 2 or not all(np.isfinite(c) and c >= 0 for c in self.damping):
            raise InputError(f"damping is {self.damping}", "Give two numbers of at least zero: 1/s and s")


class SoftBody:
    """Nodes, masses and a material; :meth:`step` moves them ([Engell2012]_ §20)."""

    def __init__(
        self, solid: TetMesh | Lattice, elastic: ElasticModel, masses: FloatArray, settings: BodySettings, *,
        pinned: ArrayLike = (), gravity: ArrayLike = GRAVITY, ground: ContactPlane | None = None,
        muscles: Muscles | None = None, bones: Bones | None = None, contact: BodyContact | None = None,
    ) -> None:  # fmt: skip
        self.mesh = solid
        self.elastic = elastic
        self.masses = masses
        self.settings = settings
        self.gravity = frozen(gravity, 3, name="gravity")
        self.carriers: IndexArray = np.full(len(masses), FREE, dtype=np.int32)
        self.carriers[freeze_indices(pinned, None, len(masses), name="pinned")] = HELD
        starts, columns, _ = elastic.blocks
        rows = np.repeat(np.arange(len(masses)), np.diff(starts))
        self.parts: IndexArray = find_connected_parts(len(masses), rows, columns)[1].astype(np.int32)
        self.muscles = muscles
        self._bones = Bones(()) if bones is None else bones
        self.ground = None if ground is None else ground.compile(solid.nodes, masses, solid.cells)
        if contact is not None and settings.integrator == "explicit":
            raise InputError("the integrator 'explicit' knows no contact of bodies", "Use integrator='implicit'")
        self.surface_contact = None if contact is None else SurfaceContact(solid, masses, self.parts, contact)
        self.reset()

    @staticmethod
    def from_mesh(
        mesh: MeshSource, *, material: str = "neo-hookean", young_pa: float = 4e4, poisson: float | None = None,
        density_kg_m3: float = 1060.0, stiffness_scale: ArrayLike | None = None,
        damping: tuple[float, float] = (0.0, 0.0), pinned: ArrayLike = (), gravity: ArrayLike = GRAVITY,
        ground: ContactPlane | None = None, muscles: Muscles | None = None, bones: Bones | None = None,
        contact: BodyContact | None = None, integrator: str = "implicit", tolerance: float = 1e-3,
        settings: BodySettings | None = None,
    ) -> SoftBody:  # fmt: skip
        """A body at rest.

        Args:
            mesh: tetrahedra, a lattice, a mesh file, or (nodes (V, 3), cells (T, 4)).
            material: ``"neo-hookean"`` keeps its volume, ``"corotational"`` is the thesis's; a lattice is always
                ``"mass-spring"``.
            young_pa: Young's modulus [Pa].
            poisson: Poisson's ratio; 0.49 for neo-Hookean, 0.45 for co-rotational bodies, without meaning for springs.
            density_kg_m3: density.
            stiffness_scale: (T,) factors on the stiffness of cells, 250 for bones say.
            damping: Rayleigh damping (a [1/s], b [s]): C = a M + b K.
            pinned: numbers of nodes that stay where they are.
            gravity: (3,) [m/s^2].
            ground: a plane it may lie on, with boxes.
            muscles: activation splines inside it.
            bones: rigid bones that carry some of its nodes.
            contact: how its parts touch each other and themselves; they pass through each other by default.
            integrator: ``"implicit"`` one linear solve a step, ``"explicit"`` semi-implicit Euler in small steps.
            tolerance: residual of a linear solve over what drives the step.
            settings: all of the time step, in place of ``damping``, ``integrator`` and ``tolerance``.
        """
        if isinstance(mesh, tuple):
            solid = TetMesh(np.asarray(mesh[0], dtype=float), np.asarray(mesh[1]))
        else:
            solid = mesh if isinstance(mesh, TetMesh | Lattice) else TetMesh.from_file(mesh)
        if not (np.isfinite(density_kg_m3) and density_kg_m3 > 0):
            raise InputError(f"density_kg_m3 is {density_kg_m3}", "It must be positive")
        if isinstance(solid, Lattice):
            elastic: ElasticModel = make_spring_elasticity(solid, young_pa, stiffness_scale)
        else:
            # Only a mesh without flat or inverted cells and lone nodes can be simulated
            if not len(solid.cells):
                raise InputError("the mesh has no cell")
            size = float(np.linalg.norm(np.ptp(solid.nodes, axis=0)))
            bad = np.flatnonzero(solid.volumes <= SLIVER_VOLUME * size**3)
            if len(bad):
                raise InputError(
                    f"{len(bad)} cells are inside out or flat: {format_indices(bad)}", "mesh, report = mesh.repair()"
                )
            lone = np.setdiff1d(np.arange(len(solid.nodes)), solid.cells)
            if len(lone):
                raise InputError(
                    f"{len(lone)} nodes belong to no cell: {format_indices(lone)}", "mesh, report = mesh.repair()"
                )
            elastic = make_tetrahedral_elasticity(solid, material, young_pa, poisson, stiffness_scale)
        corners = solid.cells.shape[1]
        volumes = sum_by_index(solid.cells, np.repeat(solid.volumes / corners, corners), len(solid.nodes))
        return SoftBody(
            solid,
            elastic,
            density_kg_m3 * volumes,
            BodySettings(integrator, tolerance, damping) if settings is None else settings,
            pinned=pinned,
            gravity=gravity,
            ground=ground,
            muscles=muscles,
            bones=bones,
            contact=contact,
        )

    @property
    def cells(self) -> IndexArray:
        """Node numbers of the cells, (T, 4) tetrahedra or (C, 8 | 4) of a lattice."""
        return self.mesh.cells

    def reset(self) -> None:
        """Back to rest."""
        self.positions: FloatArray = self.mesh.nodes.copy()
        self.velocities: FloatArray = np.zeros_like(self.positions)
        self.report: StepReport = StepReport()
        self.carriers[self.carriers >= 0] = FREE
        self.bones: AttachedBones = self._bones.bind(self)
        self._stepper = BodyStepper(self)

    def step(
        self, dt: float = 1 / 60, external: ArrayLike | None = None, activations: ArrayLike | None = None
    ) -> StepReport:
        """Move by ``dt`` [s].

        Args:
            dt: length of the step [s].
            external: forces (V, 3) [N] beside gravity, ground and muscles.
            activations: of the splines (one number in 0..1 each) or of their segments; as before if left out.

        Raises:
            ConvergenceError: the step exploded however small it was made; the body stays as it was.
        """
        self.report = self._stepper.advance(dt, external, activations)
        return self.report

    def energy(self) -> float:
        """Kinetic, elastic and gravity energy [J]."""
        kinetic = 0.5 * float(self.masses @ np.sum(self.velocities**2, axis=1))
        return kinetic + self.elastic.energy(self.positions) - float(self.masses @ (self.positions @ self.gravity))

    def momentum(self) -> tuple[FloatArray, FloatArray]:
        """Linear [kg m/s] and angular [kg m^2/s] momentum about the origin, (3,) each."""
        impulse = self.masses[:, None] * self.velocities
        return impulse.sum(axis=0), np.cross(self.positions, impulse).sum(axis=0)

    def forces(self, x: FloatArray | None = None) -> FloatArray:
        """Elastic forces (V, 3) [N] at positions x, or at the present ones."""
        return self.elastic.forces(self._check_positions(x))

    def tangent(self, x: FloatArray | None = None, *, exact: bool = True) -> csr_array[np.float64]:
        r"""Stiffness :math:`-\partial f/\partial x` (3V, 3V) [N/m] of :meth:`forces`.

        Unless ``exact``, no cell has a negative eigenvalue: what an implicit step uses.
        """
        self.elastic.assemble(self._check_positions(x), exact=exact)
        return to_sparse_tangent(self.elastic.blocks, self.elastic.rises, self.elastic.rise_stiffness)

    def _check_positions(self, x: FloatArray | None) -> FloatArray:
        """Positions as kernels take them; read-only ones are copied, for a kernel is compiled for each kind."""
        if x is None:
            return self.positions
        here = np.ascontiguousarray(x, dtype=np.float64)
        if here.shape != self.positions.shape:
            raise InputError(f"x has shape {here.shape}, expected {self.positions.shape}")
        return here if here.flags.writeable else here.copy()
