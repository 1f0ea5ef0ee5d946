r"""Activation splines compiled for one body: their forces, and what the implicit step needs.

With the transfer T and the embedding W of points, :math:`F = T f(W x, W v, \alpha)`; [Engell2012]_ §20 and §25.4.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, MareyWarning, UnknownNameError, frozen
from marey.muscle.muscles.setup import HostBody, compile_splines
from marey.muscle.muscles.spline import ActivationSpline, Embedding, check_nodes_and_cells, is_flat, is_simplex
from marey.muscle.muscles.transfer import TRANSFERS, evaluate_segments, gather_velocities, scatter_forces, update_points

if TYPE_CHECKING:
    from marey.muscle.elastic.mesh import TetMesh
    from marey.muscle.elastic.models import Lattice
    from marey.muscle.muscles.transfer import MuscleArrays


EXPLICIT_STEP_FRACTION = 0.828  # [-] of tau: critical damping taken explicitly is stable below it


class Muscles:
    """The splines of one body. [Engell2012]_ §20.

    Args:
        body: its mesh, or nodes ``(V, 3)`` [m] and cells ``(T, 4)``, ``(C, 8)``, in the plane ``(C, 4)``, ``(T, 3)``.
        splines: at least one.
        masses: of the nodes ``(V,)`` [kg]; from the cells and the density without them.
        density_kg_m3: of the body.
        young_pa: of the body, for splines without a stiffness.
        transfer: how forces go to the body: ``conservative``, ``virtual_work``, ``transpose``, ``pinv``, ``gradient``
            or ``pcg``.
        overlap: each spline has regions of its own; else a node belongs to the nearest of all splines.
        force_scale: all stiffness, damping and greatest forces times this; ``pinv`` with 1/n acts about as strongly as
            the others do with 1, where n is :attr:`mean_count`.
    """

    def __init__(
        self,
        body: TetMesh | Lattice | tuple[ArrayLike, ArrayLike],
        splines: Sequence[ActivationSpline],
        *,
        masses: ArrayLike | None = None,
        density_kg_m3: float = 1060.0,
        young_pa: float = 4e4,
        transfer: str = "conservative",
        overlap: bool = True,
        force_scale: float = 1.0,
    ) -> None:
        if transfer not in TRANSFERS:
            raise UnknownNameError("transfer", transfer, "activation splines", TRANSFERS)
        if not splines:
            raise InputError("no activation splines", "Give at least one")
        nodes, cells = check_nodes_and_cells(*(body if isinstance(body, tuple) else (body.nodes, body.cells)))
        self.splines: tuple[ActivationSpline, ...] = tuple(splines)
        names = tuple(s.name or f"spline{i}" for i, s in enumerate(self.splines))
        twice = [n for n in names if names.count(n) > 1]
        if twice:
            raise InputError(f"two splines are called '{twice[0]}'", "Give each a name of its own")
        self.names: tuple[str, ...] = names
        self.transfer = transfer
        self.rest_nodes: FloatArray = nodes
        if masses is None:
            # An equal part of each cell's mass for each of its nodes; squares are as thick as wide
            corners = nodes[cells]
            if is_simplex(nodes, cells):
                edges = corners[:, 1:] - corners[:, :1]
                if cells.shape[1] == 4:
                    sizes = np.abs(np.linalg.det(edges)) / 6.0
                else:  # triangles are one metre thick
                    sizes = 0.5 * np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1)
            else:
                spans = np.ptp(corners, axis=1)
                sizes = spans[:, 0] ** 2 * spans[:, 1] if is_flat(nodes) else np.prod(spans, axis=1)
            parts = np.repeat(density_kg_m3 * sizes / cells.shape[1], cells.shape[1])
            lumped = np.bincount(cells.ravel(), weights=parts, minlength=len(nodes)).astype(np.float64)
        else:
            lumped = frozen(masses, len(nodes), name="masses")
        self.masses: FloatArray = lumped
        if not self.masses.min() > 0.0:
            raise InputError(f"node {int(np.argmin(self.masses))} has no mass", "Drop nodes that no cell names")
        if not (np.isfinite(force_scale) and force_scale > 0.0):
            raise InputError(f"force_scale is {force_scale}", "It must be above zero")
        host = HostBody(nodes, cells, self.masses, density_kg_m3, young_pa, transfer, overlap, force_scale)
        self.arrays: MuscleArrays
        self.embedding: Embedding
        self.arrays, self.embedding, counts = compile_splines(host, self.splines)
        self.segment_counts: IntArray = np.asarray(counts, dtype=np.int64) - 1  # (splines,)
        self.owners: IntArray = np.repeat(np.arange(len(self.splines)), self.segment_counts)  # (S,)

    @property
    def num_splines(self) -> int:
        """How many splines there are."""
        return len(self.splines)

    @property
    def num_segments(self) -> int:
        """How many segments all splines have."""
        return len(self.owners)

    @property
    def positions_along(self) -> FloatArray:
        """Arc length of each segment's middle from the start of its spline, at rest ``(S,)`` [m]."""
        ends = np.cumsum(self.arrays.rest)
        first = np.concatenate([[0], np.cumsum(self.segment_counts)[:-1]])
        starts = ends[first] - self.arrays.rest[first]
        return ends - 0.5 * self.arrays.rest - np.repeat(starts, self.segment_counts)

    @property
    def largest_step(self) -> float:
        r"""Longest stable explicit step [s], :math:`0.828\,\tau` with the least :math:`\tau = \sqrt{\mu/k}`.

        A uniform chain of many segments needs about half of it.
        """
        m = self.region_masses
        a, b = m[self.arrays.segments[:, 0]], m[self.arrays.segments[:, 1]]
        return float(EXPLICIT_STEP_FRACTION * np.sqrt(np.min(a * b / (a + b) / self.arrays.stiffness)))

    @property
    def region_masses(self) -> FloatArray:
        """Mass that each point moves ``(N,)`` [kg]."""
        sums = np.add.reduceat(self.masses[self.arrays.nodes], self.arrays.starts[:-1])
        return np.asarray(sums)

    @property
    def mean_count(self) -> float:
        r"""Mean effective number of nodes of a region, :math:`1/\sum \lambda^2`: how much stronger ``pinv`` pulls."""
        return float(np.mean(1.0 / np.add.reduceat(self.arrays.weights**2, self.arrays.starts[:-1])))

    def check_explicit(self, dt: float) -> bool:
        """Whether an explicit step of dt [s] is stable; warns where it is not."""
        if dt <= self.largest_step:
            return True
        warnings.warn(
            f"an explicit step of {dt:.3g} s is longer than {self.largest_step:.3g} s (0.828 tau), where the stiffest "
            f"spline is stable: take {int(np.ceil(dt / self.largest_step))} sub-steps or an implicit step",
            MareyWarning,
            stacklevel=3,
        )
        return False

    def alphas(self, activations: ArrayLike | Mapping[str, float] | None = None) -> FloatArray:
        r"""Contraction of each segment ``(S,)`` of activations of splines: :math:`\alpha = 1 - a(1 - \alpha_{min})`.

        Args:
            activations: a of each spline from 0 to 1, by number or by name (others are 0), or alpha of each segment
                (0 and more; 1 is passive). Where both counts are one, it is an activation.

        Raises:
            InputError: a value is out of its range, with its number.
        """
        if activations is None:
            return np.ones(self.num_segments)
        if isinstance(activations, Mapping):
            by_number = np.zeros(self.num_splines)
            for name, value in activations.items():
                if name not in self.names:
                    raise UnknownNameError("spline", name, "the muscles", self.names)
                by_number[self.names.index(name)] = value
            activations = by_number
        values = frozen(activations, name="activations").ravel()
        if len(values) == self.num_splines:
            _check_range(values, 1.0, "activation of spline")
            lowest = np.array([s.alpha_min for s in self.splines])
            return (1.0 - values * (1.0 - lowest))[self.owners]
        if len(values) != self.num_segments:
            raise InputError(
                f"{len(values)} activations", f"Give {self.num_splines} of splines or {self.num_segments} of segments"
            )
        _check_range(values, np.inf, "alpha of segment")
        return np.array(values)

    def _check_nodal(self, x: FloatArray | None, name: str = "x") -> FloatArray:
        """Checked positions or velocities of all nodes ``(V, 3)``, writable as in a step; those at rest for None."""
        given = np.array(self.rest_nodes if x is None else x, dtype=np.float64)
        if given.shape != self.rest_nodes.shape or not np.isfinite(given).all():
            frozen(given, len(self.masses), 3, name=name)
        return given

    def points(self, x: FloatArray | None = None) -> FloatArray:
        """Samples of all splines ``(N, 3)`` in the body at x ``(V, 3)`` [m]; at rest without it."""
        return self.embedding(self._check_nodal(x))

    def acting_points(self, x: FloatArray) -> FloatArray:
        """Where the forces of the splines act ``(N, 3)`` [m]: points carried by their regions, for ``conservative``."""
        update_points(self.arrays, self._check_nodal(x))
        return self.arrays.points.copy()

    def spline_forces(self, x: FloatArray, v: FloatArray | None = None, alpha: ArrayLike | None = None) -> FloatArray:
        """Forces on the points of the splines ``(N, 3)`` [N]: Eqs 77 to 79. They add up to nothing."""
        forces = np.empty((len(self.arrays.points), 3))
        speeds = np.zeros((len(self.masses), 3)) if v is None else self._check_nodal(v, "v")
        blocks = np.empty((self.num_segments, 3, 3))
        evaluate_segments(self.arrays, self._check_nodal(x), speeds, self.alphas(alpha), 0.0, forces, blocks)
        return forces

    def forces(self, x: FloatArray, v: FloatArray | None = None, alpha: ArrayLike | None = None) -> FloatArray:
        """Forces on the nodes of the body ``(V, 3)`` [N] at positions x and velocities v ``(V, 3)``."""
        out = np.zeros((len(self.masses), 3))
        scatter_forces(self.arrays, self.spline_forces(x, v, alpha), out)  # its regions are at x already
        return out

    def force_along(self, name: str, shares: ArrayLike, point_forces: FloatArray) -> FloatArray:
        """Force at any place of a spline ``(n, 3)`` [N], straight between its points.

        Args:
            name: of the spline.
            shares: places from 0 to 1 along its points ``(n,)``.
            point_forces: of all points ``(N, 3)``, as from :meth:`spline_forces`.
        """
        if name not in self.names:
            raise UnknownNameError("spline", name, "the muscles", self.names)
        counts = self.segment_counts + 1
        i = self.names.index(name)
        first = int(counts[:i].sum())
        mine, at = point_forces[first : first + int(counts[i])], np.linspace(0.0, 1.0, int(counts[i]))
        s = np.clip(frozen(shares, None, name="shares"), 0.0, 1.0)
        return np.stack([np.interp(s, at, mine[:, c]) for c in range(3)], axis=1)

    def spread(self, point_forces: FloatArray, x: FloatArray | None = None) -> FloatArray:
        """Forces of points ``(N, 3)`` as forces of nodes ``(V, 3)`` [N], by the transfer of these muscles."""
        update_points(self.arrays, self._check_nodal(x))
        out = np.zeros((len(self.masses), 3))
        scatter_forces(
            self.arrays, np.array(frozen(point_forces, len(self.arrays.points), 3, name="point_forces")), out
        )
        return out

    def velocities(self, v: FloatArray, x: FloatArray | None = None) -> FloatArray:
        """Velocities of points ``(N, 3)`` of velocities of nodes: the transpose of :meth:`spread`."""
        update_points(self.arrays, self._check_nodal(x))
        out = np.zeros((len(self.arrays.points), 3))
        gather_velocities(self.arrays, self._check_nodal(v, "v"), out)
        return out


def _check_range(values: FloatArray, top: float, what: str) -> None:
    bad = np.flatnonzero((values < 0.0) | (values > top))
    if len(bad):
        limit = f"from 0 to {top:g}" if np.isfinite(top) else "not negative"
        raise InputError(f"{what} {int(bad[0])} is {values[bad[0]]:g}", f"It must be {limit}")
