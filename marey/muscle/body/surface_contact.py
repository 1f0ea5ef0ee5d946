r"""Contact of soft bodies with each other, with themselves and with the flesh of rigid bones: nodes against triangles.

A node i over a triangle with barycentric weights :math:`\beta` feels along the normal n of the triangle

.. math:: N = \max(0,\,-k g - c\,n^T u),\qquad u = v_i - \textstyle\sum_t \beta_t v_t

with the gap g, and friction :math:`-\mu N u_T/\sqrt{|u_T|^2 + v_s^2}`; the triangle feels the opposite, so that the
momentum of all bodies is kept. Both are implicit: pairs are blocks of the matrix of a step. A node does not touch what
is within two edges of it. Edges against edges are not seen, and a body thinner than half an edge is passed through.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.muscle.body.contact import RECOVERY_FRACTION, SLACK_M, SMOOTHING_M_S, STIFFNESS_PER_KG, StepStart
from marey.muscle.body.linear_system import NO_PAIRS, ContactPairs
from marey.muscle.elastic.mesh import IndexArray, TetMesh
from marey.muscle.elastic.models import Lattice
from marey.muscle.muscles.setup import make_edge_graph

CANDIDATES: Final = 8  # triangles with the nearest middles that are looked at for each node
DEEPEST_EDGES: Final = 0.5  # [mean edges] below a triangle that a node still counts as under it
OVERHANG_EDGES: Final = 0.35  # [mean edges] beside a triangle that a node still counts as over it


@dataclass(frozen=True, slots=True)
class BodyContact:
    """How parts of a body touch each other and themselves."""

    friction: float = 0.4
    stiffness: float | None = None  # [N/m] of a node; None: from the masses
    is_itself: bool = True  # whether one part can touch itself too

    def __post_init__(self) -> None:
        if not (np.isfinite(self.friction) and self.friction >= 0.0):
            raise InputError(f"friction of a contact is {self.friction}", "Give 0 and up")
        if self.stiffness is not None and not (np.isfinite(self.stiffness) and self.stiffness > 0.0):
            raise InputError(f"stiffness of a contact is {self.stiffness}", "It must be above zero")


class SurfaceContact:
    """Pairs of nodes and triangles of one body that may touch in a step."""

    def __init__(self, solid: TetMesh | Lattice, masses: FloatArray, parts: IndexArray, rule: BodyContact) -> None:
        from scipy.sparse import csr_array, eye_array

        self.rule, self.faces, self.parts = rule, np.asarray(solid.surface, dtype=np.int64), parts
        self.nodes = np.unique(self.faces)
        edges = make_edge_graph(solid.nodes, solid.cells)
        ring = csr_array(edges + eye_array(len(solid.nodes)))
        self.near = csr_array((ring @ ring) > 0.0)  # (V, V) nodes of the same neighbourhood
        corners = solid.nodes[self.faces]
        self.edge_m = float(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).mean())
        self.stiffness = rule.stiffness or STIFFNESS_PER_KG * float(masses.mean())
        self.pairs: ContactPairs = NO_PAIRS
        self.node_loads = np.zeros(len(masses))  # [N] on each node, last found: friction of the next step
        self._clear()

    def _clear(self) -> None:
        self.members, self.shares = np.zeros((0, 4), dtype=np.int64), np.zeros((0, 4))
        self.normals, self.gaps, self.loads = np.zeros((0, 3)), np.zeros(0), np.zeros(0)
        self.active: BoolArray = np.zeros(0, dtype=np.bool_)

    def predict(self, start: StepStart) -> None:
        """Find the nearest triangle of each node near one, and guess which touch during a step."""
        from scipy.spatial import cKDTree

        x, v, edge = start.positions, start.velocities, self.edge_m
        corners = x[self.faces]
        reach = 1.5 * edge + 2.0 * start.step_s * float(np.sqrt((v**2).sum(axis=1).max()))
        count = min(CANDIDATES, len(self.faces))
        tree = cKDTree(corners.mean(axis=1))
        far, which = tree.query(x[self.nodes], k=count, distance_upper_bound=reach)
        row, column = np.nonzero(np.isfinite(np.reshape(far, (len(self.nodes), count))))
        node, face = self.nodes[row], np.reshape(which, (len(self.nodes), count))[row, column]
        # A part touches others; itself only beyond the neighbours of the node
        other = self.parts[node] != self.parts[self.faces[face, 0]]
        if self.rule.is_itself:
            corner = self.faces[face]
            other |= ~np.asarray(self.near[np.repeat(node, 3), corner.ravel()]).reshape(-1, 3).any(axis=1)
        node, face = node[other], face[other]
        if not len(node):
            self._clear()
            return
        # Barycentric weights of the nearest point: the projection, drawn into the triangle
        a, b, c = (corners[face, k] for k in range(3))
        normal = np.cross(b - a, c - a)
        double = np.linalg.norm(normal, axis=1)
        normal /= np.maximum(double, 1e-15)[:, None]
        inverse = 1.0 / np.maximum(double, 1e-15)
        wb = np.einsum("pi,pi->p", np.cross(x[node] - a, c - a), normal) * inverse
        wc = np.einsum("pi,pi->p", np.cross(b - a, x[node] - a), normal) * inverse
        beta = np.maximum(np.stack([1.0 - wb - wc, wb, wc], axis=1), 0.0)
        beta /= beta.sum(axis=1, keepdims=True)
        from_point = x[node] - np.einsum("pk,pki->pi", beta, corners[face])
        gaps = np.einsum("pi,pi->p", from_point, normal)
        beside = np.linalg.norm(from_point - gaps[:, None] * normal, axis=1)
        fits = (gaps > -DEEPEST_EDGES * edge) & (gaps < reach) & (beside < OVERHANG_EDGES * edge)
        # The nearest triangle of each node
        order = np.flatnonzero(fits)[np.argsort(np.abs(gaps[fits]) + beside[fits], kind="stable")]
        order = order[np.unique(node[order], return_index=True)[1]]
        self.members = np.concatenate([node[order, None], self.faces[face[order]]], axis=1)
        self.shares = np.concatenate([np.ones((len(order), 1)), -beta[order]], axis=1)
        self.normals, self.gaps, self.loads = normal[order], gaps[order], self.node_loads[node[order]]
        self.active = self.gaps + start.step_s * self._closing(v) < SLACK_M

    def _relative(self, v: FloatArray) -> FloatArray:
        """Velocity of each node over its triangle ``(P, 3)``."""
        return np.einsum("pk,pki->pi", self.shares, v[self.members])

    def _closing(self, v: FloatArray) -> FloatArray:
        return np.einsum("pi,pi->p", self._relative(v), self.normals)

    def _damping(self, h: float) -> FloatArray:
        """How much a normal velocity is resisted [N s/m]: a deep node comes out slowly."""
        k = self.stiffness
        return np.where(self.gaps > 0.0, h * k, h * k / RECOVERY_FRACTION)

    def add(self, start: StepStart, guess: FloatArray, forces: FloatArray) -> None:
        """Add the forces that do not go with velocity ``(V, 3)`` [N]; write those that do as pairs.

        Args:
            start: the body at the start of the step.
            guess: velocities at which friction is weighed.
            forces: added to.
        """
        on, h = self.active, start.step_s
        n, shares, members = self.normals[on], self.shares[on], self.members[on]
        push = -self.stiffness * self.gaps[on]
        np.add.at(forces, members, shares[:, :, None] * (push[:, None] * n)[:, None, :])
        # Normal damping and friction by the load last found, or by what stops the node alone
        u = self._relative(guess)[on]
        hard, un = self._damping(h)[on], np.einsum("pi,pi->p", u, n)
        mass = start.masses[members[:, 0]]
        alone = np.maximum((push - hard * un) / (1.0 + h * hard / mass), 0.0)
        load = np.where(self.loads[on] > 0.0, self.loads[on], alone)
        slip = np.sqrt(np.maximum((u**2).sum(axis=1) - un**2, 0.0) + SMOOTHING_M_S**2)
        flat = np.eye(3) - n[:, :, None] * n[:, None, :]
        blocks = hard[:, None, None] * n[:, :, None] * n[:, None, :]
        blocks += (self.rule.friction * load / slip)[:, None, None] * flat
        self.pairs = ContactPairs(members.astype(np.int32), np.ascontiguousarray(shares), h * blocks)

    def update(self, start: StepStart, solved: FloatArray) -> int:
        """After a solve: let go of pairs that are pulled, catch those that went through; how many changed."""
        closing = self._closing(solved)
        load = np.where(self.active, -self.stiffness * self.gaps - self._damping(start.step_s) * closing, 0.0)
        touches = np.where(self.active, load >= 0.0, self.gaps + start.step_s * closing < -SLACK_M)
        changed = int(np.count_nonzero(touches != self.active))
        self.loads, self.active = np.maximum(load, 0.0), touches
        self.node_loads[:] = 0.0
        self.node_loads[self.members[:, 0]] = self.loads
        return changed
