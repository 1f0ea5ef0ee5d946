"""Bones of one body as they move: turns of joints, what rates weigh, where nodes are carried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3
from marey.muscle._bones import FREEDOMS, Bone, Bones, find_carried_nodes
from marey.muscle._solver import BoneArrays, CoarseSpace, empty_bone_arrays

if TYPE_CHECKING:
    from marey.muscle._body import SoftBody

ROD_RADIUS: Final = 0.1  # [-] of the length: how thick the rod is whose inertia a bone's own mass has
MIN_INERTIA: Final = 1e-9  # [kg m^2] of a rate that moves nothing, so that its row can be solved


class NoBones:
    """A body without bones."""

    num_rows = 0
    names: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.arrays: BoneArrays = empty_bone_arrays()

    def start(self, velocities: FloatArray) -> FloatArray:
        """Unknowns (V, 3) that a solve starts from."""
        return velocities.copy()

    def weigh(self, h: float) -> None:
        """Nothing to weigh."""

    def join(self, coarse: CoarseSpace) -> None:
        """The matrix of regions is whole."""
        coarse.inverse[:] = coarse.raw

    def push(self, rhs: FloatArray, right: FloatArray) -> None:
        """Nothing pushes."""

    def carry(self, h: float, unknowns: FloatArray, positions: FloatArray, velocities: FloatArray) -> FloatArray:
        """Positions (V, 3) after a step."""
        return positions + h * velocities

    def snapshot(self) -> tuple[FloatArray, ...]:
        """Nothing to keep."""
        return ()

    def restore(self, kept: tuple[FloatArray, ...]) -> None:
        """Nothing to bring back."""


class AttachedBones:
    """Bones of one body. World axes; ``rotations`` are from rest, identity at the start."""

    def __init__(self, given: Bones, body: SoftBody) -> None:
        self.given = given
        self.names: tuple[str, ...] = tuple(bone.name for bone in given.bones)
        self.parents = [-1 if b.parent is None else self.names.index(b.parent) for b in given.bones]
        self._gravity = body.gravity
        self._rest = np.array([bone.origin for bone in given.bones])
        self._tips = np.array([bone.end for bone in given.bones])
        self._centres = np.array([bone.centre for bone in given.bones])
        counts = [FREEDOMS[bone.kind] for bone in given.bones]
        self._first = [sum(counts[:k]) for k in range(len(counts) + 1)]
        self._rates = np.zeros(self._first[-1])
        self._turns = np.tile(np.eye(3), (len(counts), 1, 1))  # of joints, in the axes of the parent at rest
        self._hinges = np.zeros(len(counts))
        self.rotations: FloatArray = self._turns.copy()
        self.origins: FloatArray = self._rest.copy()
        nodes = find_carried_nodes(body.carriers)
        self._node_rest = body.mesh.nodes[nodes]
        self._node_masses = body.masses[nodes]
        d, b = len(self._rates), len(counts)
        moves = np.zeros((b, d), dtype=np.int32)
        for bone in range(b):
            moves[bone, self._first[bone] : self._first[bone + 1]] = 1
            if self.parents[bone] >= 0:
                moves[bone] |= moves[self.parents[bone]]
        self.arrays = BoneArrays(
            nodes, body.carriers[nodes].copy(), self._node_rest.copy(), np.zeros((d, 6)), moves, np.zeros((d, d)),
            np.zeros((b, 6)),
        )  # fmt: skip
        self._inertias = np.array([compute_rod_inertia(bone) for bone in given.bones])
        self._momenta = np.zeros((b, 6))  # (angular about the origin, linear), at the end of the last step
        self._torques = np.zeros(d)
        self._update_screws()

    @property
    def num_rows(self) -> int:
        """Rows of three that the rates take among the unknowns."""
        return -(-len(self._rates) // 3)

    @property
    def angles(self) -> dict[str, float]:
        """Angle of each hinge [rad], zero at rest."""
        hinges = (k for k, bone in enumerate(self.given.bones) if bone.kind == "hinge")
        return {self.names[k]: float(self._hinges[k]) for k in hinges}

    @property
    def ends(self) -> FloatArray:
        """Tips of the bones (B, 3) [m]."""
        return self._transform_points(self._tips)

    def _transform_points(self, rest: FloatArray) -> FloatArray:
        return self.origins + np.einsum("bij,bj->bi", self.rotations, rest - self._rest)

    def snapshot(self) -> tuple[FloatArray, ...]:
        """All that moves, to come back to."""
        moving = (self._rates, self._turns, self._hinges, self.rotations, self.origins, self.arrays.arms, self._momenta)
        return tuple(array.copy() for array in moving)

    def restore(self, kept: tuple[FloatArray, ...]) -> None:
        """Back to a snapshot."""
        moving = (self._rates, self._turns, self._hinges, self.rotations, self.origins, self.arrays.arms, self._momenta)
        for array, old in zip(moving, kept, strict=True):
            array[:] = old
        self._update_screws()

    def start(self, velocities: FloatArray) -> FloatArray:
        """Unknowns (V + R, 3) that a solve starts from."""
        out = np.zeros((len(velocities) + self.num_rows, 3))
        out[: len(velocities)] = velocities
        out[self.arrays.nodes] = 0.0
        out[len(velocities) :].ravel()[: len(self._rates)] = self._rates
        return out

    def _parent_rotation(self, k: int) -> FloatArray:
        """Rotation (3, 3) of the parent of bone k, or of the world."""
        return self.rotations[self.parents[k]] if self.parents[k] >= 0 else np.eye(3)

    def _update_screws(self) -> None:
        """World twist of each rate."""
        for k, bone in enumerate(self.given.bones):
            first = self._first[k]
            parent = self._parent_rotation(k)
            axes: FloatArray = (parent @ np.asarray(bone.axis))[None] if bone.kind == "hinge" else np.eye(3)
            if bone.kind == "fixed":
                continue
            self.arrays.screws[first : first + len(axes)] = np.hstack([axes, np.cross(self.origins[k], axes)])
            if bone.kind == "free":
                self.arrays.screws[first + 3 : first + 6] = np.hstack([np.zeros((3, 3)), np.eye(3)])

    def weigh(self, h: float) -> None:
        """What the rates weigh beside their nodes, and what pushes them: own masses, limits, damping."""
        arrays = self.arrays
        arrays.inertia[:] = 0.0
        self._torques[:] = 0.0
        centres = self._transform_points(self._centres)
        for k, bone in enumerate(self.given.bones):
            moved = np.flatnonzero(arrays.moves[k])
            screws = arrays.screws[moved]
            wrench = h * bone.mass_kg * np.concatenate([np.cross(centres[k], self._gravity), self._gravity])
            arrays.inertia[np.ix_(moved, moved)] += screws @ self._spatial_inertia(k, centres[k]) @ screws.T
            self._torques[moved] += screws @ (wrench + self._momenta[k])
            self._add_limit_spring(k, bone, h)
        damped = h * self.given.joint_damping + MIN_INERTIA
        arrays.inertia[np.diag_indices(len(self._rates))] += damped

    def _spatial_inertia(self, k: int, centre: FloatArray) -> FloatArray:
        """Inertia (6, 6) of a bone's own mass about the world's origin, for (angular, linear)."""
        mass, turn = self.given.bones[k].mass_kg, self.rotations[k]
        cross = _cross_matrix(centre)
        out = np.zeros((6, 6))
        out[:3, :3] = turn @ self._inertias[k] @ turn.T - mass * cross @ cross
        out[:3, 3:], out[3:, :3], out[3:, 3:] = mass * cross, -mass * cross, mass * np.eye(3)
        return out

    def _add_limit_spring(self, k: int, bone: Bone, h: float) -> None:
        """A stiff spring beyond the limit of a joint, implicit."""
        if bone.limits is None or bone.kind not in ("hinge", "ball"):
            return
        rows = np.arange(self._first[k], self._first[k + 1])
        if bone.kind == "hinge":
            angle, direction = float(self._hinges[k]), np.ones(1)
        else:
            turn = SO3.from_matrix(self._turns[k]).log()
            angle = float(np.linalg.norm(turn))
            parent = self._parent_rotation(k)
            direction = parent @ turn / angle if angle > 0 else np.zeros(3)
        ahead = angle + h * float(direction @ self._rates[rows])
        low, high = bone.limits
        beyond = max(angle, ahead) > high or (bone.kind == "hinge" and min(angle, ahead) < low)
        if beyond:
            stop = high if max(angle, ahead) > high else low
            stiffness = self.given.limit_stiffness
            outer = np.outer(direction, direction)
            self.arrays.inertia[np.ix_(rows, rows)] += (h * h + h * 0.1) * stiffness * outer
            self._torques[rows] -= h * stiffness * (angle - stop) * direction

    def push(self, rhs: FloatArray, right: FloatArray) -> None:
        """Add what pushes the rates to the right side; momenta of carried nodes are in those of their bones."""
        count = len(rhs)
        right[count:].ravel()[: len(self._rates)] += self._torques

    def join(self, coarse: CoarseSpace) -> None:
        """Write the matrix of regions and rates from that of regions and bones."""
        whole = self._coarse_expansion(coarse.regions)
        coarse.inverse[:] = whole.T @ coarse.raw @ whole
        rates = slice(6 * coarse.regions, None)
        coarse.inverse[rates, rates] += self.arrays.inertia

    def _coarse_expansion(self, regions: int) -> FloatArray:
        """What regions and rates (6 A + D) do to regions and bones (6 A + 6 B)."""
        bones, rates = self.arrays.moves.shape
        out = np.zeros((6 * (regions + bones), 6 * regions + rates))
        out[: 6 * regions, : 6 * regions] = np.eye(6 * regions)
        twists = self.arrays.moves[:, None, :] * self.arrays.screws.T  # (B, 6, D)
        out[6 * regions :, 6 * regions :] = twists.reshape(6 * bones, rates)
        return out

    def carry(self, h: float, unknowns: FloatArray, positions: FloatArray, velocities: FloatArray) -> FloatArray:
        """Turn the joints by their new rates; positions (V, 3) after the step. Velocities of carried nodes follow."""
        arrays = self.arrays
        out = positions + h * velocities
        self._rates[:] = unknowns[len(positions) :].ravel()[: len(self._rates)]
        twists = (arrays.moves * self._rates) @ arrays.screws
        self._store_momenta(twists, velocities)
        self._integrate_joints(h)
        owners = arrays.owners
        arms = self._node_rest - self._rest[owners]
        arrays.arms[:] = self.origins[owners] + np.einsum("cij,cj->ci", self.rotations[owners], arms)
        out[arrays.nodes] = arrays.arms
        self._update_screws()
        twists = ((arrays.moves * self._rates) @ arrays.screws)[owners]
        velocities[arrays.nodes] = twists[:, 3:] + np.cross(twists[:, :3], arrays.arms)
        return out

    def _store_momenta(self, twists: FloatArray, velocities: FloatArray) -> None:
        """Momenta of bones with their nodes, about the world's origin, which a turn does not change."""
        arrays, centres = self.arrays, self._transform_points(self._centres)
        linear = self._node_masses[:, None] * velocities[arrays.nodes]
        both = np.hstack([np.cross(arrays.arms, linear), linear])
        self._momenta[:] = 0.0
        np.add.at(self._momenta, arrays.owners, both)
        for k in range(len(self.names)):
            self._momenta[k] += self._spatial_inertia(k, centres[k]) @ twists[k]

    def _integrate_joints(self, h: float) -> None:
        for k, bone in enumerate(self.given.bones):
            rates = self._rates[self._first[k] : self._first[k + 1]]
            above, parent = self.parents[k], self._parent_rotation(k)
            if bone.kind == "hinge":
                self._hinges[k] += h * rates[0]
                self._turns[k] = SO3.exp(self._hinges[k] * np.asarray(bone.axis)).matrix()
            elif bone.kind in ("ball", "free"):
                self._turns[k] = SO3.exp(h * (parent.T @ rates[:3])).matrix() @ self._turns[k]
            self.rotations[k] = parent @ self._turns[k]
            if above >= 0:
                self.origins[k] = self.origins[above] + parent @ (self._rest[k] - self._rest[above])
            elif bone.kind == "free":
                self.origins[k] += h * rates[3:]


def compute_rod_inertia(bone: Bone) -> FloatArray:
    """Inertia (3, 3) about its centre of a rod from origin to end [kg m^2]."""
    along = np.asarray(bone.end) - np.asarray(bone.origin)
    square = float(along @ along)
    return bone.mass_kg * (
        (square * np.eye(3) - np.outer(along, along)) / 12 + 0.5 * ROD_RADIUS**2 * square * np.eye(3)
    )


def _cross_matrix(a: FloatArray) -> FloatArray:
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])
