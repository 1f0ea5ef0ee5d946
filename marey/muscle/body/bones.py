"""Rigid bones with joints that carry nodes of a soft body and are moved by its forces.

The state of the bones of one body: joint angles, the inertia of their rates, and the positions of carried nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.lie import SO3
from marey.muscle.body.linear_system import BoneArrays, CoarseSpace
from marey.muscle.elastic.mesh import freeze_indices

if TYPE_CHECKING:
    from marey.muscle.body.soft_body import SoftBody
    from marey.skeleton import Skeleton


FREEDOMS: Final = {"fixed": 0, "hinge": 1, "ball": 3, "free": 6}
JointSpec: TypeAlias = "str | tuple[str, ArrayLike] | tuple[str, ArrayLike, tuple[float, float]]"


@dataclass(frozen=True, slots=True, eq=False)
class Bone:
    """One rigid bone and the joint at its origin, as they are at rest, in world axes."""

    name: str
    origin: ArrayLike  # (3,) [m] its joint
    parent: str | None = None  # the bone that carries the joint; None is the world
    kind: str = "hinge"  # hinge, ball, fixed or free
    axis: ArrayLike = (0.0, 0.0, 1.0)  # (3,) of a hinge
    limits: tuple[float, float] | None = None  # [rad] of a hinge; of a ball joint (0, greatest turn)
    mass_kg: float = 0.0  # beside that of the nodes it carries
    centre: ArrayLike | None = None  # (3,) [m] of that mass; half way to the end
    end: ArrayLike | None = None  # (3,) [m] its tip
    nodes: ArrayLike = ()  # numbers of nodes it carries

    def __post_init__(self) -> None:
        if self.kind not in FREEDOMS:
            raise UnknownNameError("kind of joint", self.kind, f"bone {self.name}", FREEDOMS)
        where = f"of bone '{self.name}'"
        origin = frozen(self.origin, 3, name=f"origin {where}")
        end = origin if self.end is None else frozen(self.end, 3, name=f"end {where}")
        axis = frozen(self.axis, 3, name=f"axis {where}")
        centre = (origin + end) / 2 if self.centre is None else self.centre
        length = float(np.linalg.norm(axis))
        if length == 0.0 or not (np.isfinite(self.mass_kg) and self.mass_kg >= 0):
            raise InputError(
                f"axis {axis.tolist()} or mass {self.mass_kg} kg {where}", "No zero axis, no negative mass"
            )
        if self.limits is not None and not self.limits[0] <= self.limits[1]:
            raise InputError(f"limits {self.limits} {where}", "The lower comes first [rad]")
        kept = {
            "origin": origin,
            "end": end,
            "axis": axis / length,
            "centre": frozen(centre, 3, name=f"centre {where}"),
        }
        for field, value in kept.items():
            object.__setattr__(self, field, value)


@dataclass(frozen=True, slots=True, eq=False)
class Bones:
    """Bones, parents first, and how stiff the limits of their joints are."""

    bones: Sequence[Bone]
    limit_stiffness: float = 50.0  # [N m/rad] beyond a limit
    joint_damping: float = 0.0  # [N m s/rad]

    def __post_init__(self) -> None:
        names: list[str] = []
        for bone in self.bones:
            if bone.parent is not None and bone.parent not in names:
                raise UnknownNameError("parent", bone.parent, f"the bones before '{bone.name}'", names)
            if bone.name in names:
                raise InputError(f"two bones are called '{bone.name}'")
            if bone.kind == "free" and bone.parent is not None:
                raise InputError(f"free bone '{bone.name}' has the parent '{bone.parent}'", "Only the world can be one")
            names.append(bone.name)
        if not (self.limit_stiffness >= 0 and self.joint_damping >= 0):
            raise InputError("limit_stiffness or joint_damping is negative")

    @staticmethod
    def from_skeleton(
        skeleton: Skeleton, *, joints: Mapping[str, JointSpec], nodes: Mapping[str, ArrayLike],
        masses: Mapping[str, float] | None = None, origin: ArrayLike = (0.0, 0.0, 0.0), limit_stiffness: float = 50.0,
        joint_damping: float = 0.0,
    ) -> Bones:  # fmt: skip
        """Bones of a skeleton at rest; a joint that is not named is fixed.

        Args:
            skeleton: joints and offsets.
            joints: kind of a joint by its name: ``"ball"``, ``("hinge", axis)`` or ``("hinge", axis, limits)``.
            nodes: numbers of nodes carried by the bone of each joint.
            masses: [kg] of bones beside their nodes.
            origin: (3,) [m] where the root is.
            limit_stiffness: [N m/rad] beyond a limit.
            joint_damping: [N m s/rad].
        """
        for name in (*joints, *nodes, *(masses or {})):
            if name not in skeleton.names:
                raise UnknownNameError("joint", name, "the skeleton", skeleton.names)
        places = skeleton.rest_positions() + frozen(origin, 3, name="origin")
        bones: list[Bone] = []
        for j, name in enumerate(skeleton.names):
            joint = joints.get(name, "fixed")
            kind, axis = (joint, (0.0, 0.0, 1.0)) if isinstance(joint, str) else joint[:2]
            limits = joint[2] if not isinstance(joint, str) and len(joint) == 3 else None
            # A bone ends in the middle of its children.
            children = np.flatnonzero(np.asarray(skeleton.parents) == j)
            end = places[children].mean(axis=0) if len(children) else places[j]
            parent = None if skeleton.parents[j] < 0 else skeleton.names[int(skeleton.parents[j])]
            mass_kg = (masses or {}).get(name, 0.0)
            carried = nodes.get(name, ())
            bones.append(Bone(name, places[j], parent, kind, axis, limits, mass_kg=mass_kg, end=end, nodes=carried))
        return Bones(bones, limit_stiffness, joint_damping)

    def bind(self, body: SoftBody) -> AttachedBones:
        """Hand the attached nodes of a body to the bones."""
        for number, bone in enumerate(self.bones):
            carried = freeze_indices(bone.nodes, None, len(body.masses), name=f"nodes of bone '{bone.name}'")
            if (body.carriers[carried] >= 0).any():
                node = int(carried[body.carriers[carried] >= 0][0])
                raise InputError(f"node {node} is carried by two bones, one is '{bone.name}'", "Give it to one")
            body.carriers[carried] = number
        return AttachedBones(self, body)


ROD_RADIUS: Final = 0.1  # [-] of the length: how thick the rod is whose inertia a bone's own mass has
MIN_INERTIA: Final = 1e-9  # [kg m^2] of a rate that moves nothing, so that its row can be solved


class AttachedBones:
    """Bones of one body, which may be none. World axes; ``rotations`` are from rest, identity at the start."""

    def __init__(self, given: Bones, body: SoftBody) -> None:
        self.given = given
        self.names: tuple[str, ...] = tuple(bone.name for bone in given.bones)
        self.parents = [-1 if b.parent is None else self.names.index(b.parent) for b in given.bones]
        self._gravity = body.gravity
        self._rest = np.array([bone.origin for bone in given.bones]).reshape(-1, 3)
        self._tips = np.array([bone.end for bone in given.bones]).reshape(-1, 3)
        self._centres = np.array([bone.centre for bone in given.bones]).reshape(-1, 3)
        counts = [FREEDOMS[bone.kind] for bone in given.bones]
        self._first = [sum(counts[:k]) for k in range(len(counts) + 1)]
        self._rates = np.zeros(self._first[-1])
        self._turns = np.tile(np.eye(3), (len(counts), 1, 1))  # of joints, in the axes of the parent at rest
        self._hinges = np.zeros(len(counts))
        self.rotations: FloatArray = self._turns.copy()
        self.origins: FloatArray = self._rest.copy()
        nodes = np.flatnonzero(body.carriers >= 0).astype(np.int32)
        self._node_rest = body.mesh.nodes[nodes]
        self._node_masses = body.masses[nodes]
        d, b = len(self._rates), len(counts)
        moves = np.zeros((b, d), dtype=np.int32)
        for bone in range(b):
            moves[bone, self._first[bone] : self._first[bone + 1]] = 1
            if self.parents[bone] >= 0:
                moves[bone] |= moves[self.parents[bone]]
        self.arrays = BoneArrays(
            nodes,
            body.carriers[nodes].copy(),
            arms=self._node_rest.copy(),
            screws=np.zeros((d, 6)),
            moves=moves,
            inertia=np.zeros((d, d)),
            twists=np.zeros((b, 6)),
        )
        self._inertias = np.array([compute_rod_inertia(bone) for bone in given.bones])
        self._momenta = np.zeros((b, 6))  # (angular about the origin, linear), at the end of the last step
        self._torques = np.zeros(d)
        # All that a step changes.
        places = (self.rotations, self.origins, self.arrays.arms)
        self._moving = (self._rates, self._turns, self._hinges, *places, self._momenta)
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
        return tuple(array.copy() for array in self._moving)

    def restore(self, kept: tuple[FloatArray, ...]) -> None:
        """Back to a snapshot."""
        for array, old in zip(self._moving, kept, strict=True):
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
        inertia = self.arrays.inertia
        inertia[:] = 0.0
        self._torques[:] = 0.0
        centres = self._transform_points(self._centres)
        for k, bone in enumerate(self.given.bones):
            moved = np.flatnonzero(self.arrays.moves[k])
            screws = self.arrays.screws[moved]
            wrench = h * bone.mass_kg * np.concatenate([np.cross(centres[k], self._gravity), self._gravity])
            inertia[np.ix_(moved, moved)] += screws @ self._spatial_inertia(k, centres[k]) @ screws.T
            self._torques[moved] += screws @ (wrench + self._momenta[k])
            if bone.limits is None or bone.kind not in ("hinge", "ball"):
                continue
            # A stiff spring beyond the limit of a joint, implicit.
            rows = np.arange(self._first[k], self._first[k + 1])
            if bone.kind == "hinge":
                angle, direction = float(self._hinges[k]), np.ones(1)
            else:
                turn = SO3.from_matrix(self._turns[k]).log()
                angle = float(np.linalg.norm(turn))
                direction = self._parent_rotation(k) @ turn / angle if angle > 0 else np.zeros(3)
            ahead = angle + h * float(direction @ self._rates[rows])
            low, high = bone.limits
            if max(angle, ahead) > high or (bone.kind == "hinge" and min(angle, ahead) < low):
                stop = high if max(angle, ahead) > high else low
                stiffness = self.given.limit_stiffness
                inertia[np.ix_(rows, rows)] += (h * h + h * 0.1) * stiffness * np.outer(direction, direction)
                self._torques[rows] -= h * stiffness * (angle - stop) * direction
        inertia[np.diag_indices(len(self._rates))] += h * self.given.joint_damping + MIN_INERTIA

    def _spatial_inertia(self, k: int, centre: FloatArray) -> FloatArray:
        """Inertia (6, 6) of a bone's own mass about the world's origin, for (angular, linear)."""
        mass, turn = self.given.bones[k].mass_kg, self.rotations[k]
        cross = np.array([[0.0, -centre[2], centre[1]], [centre[2], 0.0, -centre[0]], [-centre[1], centre[0], 0.0]])
        out = np.zeros((6, 6))
        out[:3, :3] = turn @ self._inertias[k] @ turn.T - mass * cross @ cross
        out[:3, 3:], out[3:, :3], out[3:, 3:] = mass * cross, -mass * cross, mass * np.eye(3)
        return out

    def push(self, right: FloatArray) -> None:
        """Add what pushes the rates to the right side (V + R, 3); momenta of carried nodes are in those of bones."""
        right[len(right) - self.num_rows :].ravel()[: len(self._rates)] += self._torques

    def join(self, coarse: CoarseSpace) -> None:
        """Write the matrix of regions and rates from that of regions and bones."""
        # What regions and rates (6 A + D) do to regions and bones (6 A + 6 B).
        bones, rates = self.arrays.moves.shape
        if not rates:
            coarse.inverse[:] = coarse.raw[: len(coarse.inverse), : len(coarse.inverse)]
            return
        first = 6 * coarse.regions
        whole = np.zeros((first + 6 * bones, first + rates))
        whole[:first, :first] = np.eye(first)
        twists = self.arrays.moves[:, None, :] * self.arrays.screws.T  # (B, 6, D)
        whole[first:, first:] = twists.reshape(6 * bones, rates)
        coarse.inverse[:] = whole.T @ coarse.raw @ whole
        coarse.inverse[first:, first:] += self.arrays.inertia

    def carry(self, h: float, unknowns: FloatArray, positions: FloatArray, velocities: FloatArray) -> FloatArray:
        """Turn the joints by their new rates; positions (V, 3) after the step. Velocities of carried nodes follow."""
        arrays = self.arrays
        out = positions + h * velocities
        self._rates[:] = unknowns[len(positions) :].ravel()[: len(self._rates)]
        # Momenta of bones with their nodes, about the world's origin, which a turn does not change.
        twists = (arrays.moves * self._rates) @ arrays.screws
        centres = self._transform_points(self._centres)
        linear = self._node_masses[:, None] * velocities[arrays.nodes]
        self._momenta[:] = 0.0
        np.add.at(self._momenta, arrays.owners, np.hstack([np.cross(arrays.arms, linear), linear]))
        for k in range(len(self.names)):
            self._momenta[k] += self._spatial_inertia(k, centres[k]) @ twists[k]
        # Joints turn by their rates, parents first.
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
        # Carried nodes follow, with the velocities of their new places.
        owners = arrays.owners
        arms = self._node_rest - self._rest[owners]
        arrays.arms[:] = self.origins[owners] + np.einsum("cij,cj->ci", self.rotations[owners], arms)
        out[arrays.nodes] = arrays.arms
        self._update_screws()
        twists = ((arrays.moves * self._rates) @ arrays.screws)[owners]
        velocities[arrays.nodes] = twists[:, 3:] + np.cross(twists[:, :3], arrays.arms)
        return out


def compute_rod_inertia(bone: Bone) -> FloatArray:
    """Inertia (3, 3) about its centre of a rod from origin to end [kg m^2]."""
    along = np.asarray(bone.end) - np.asarray(bone.origin)
    square = float(along @ along)
    return bone.mass_kg * (
        (square * np.eye(3) - np.outer(along, along)) / 12 + 0.5 * ROD_RADIUS**2 * square * np.eye(3)
    )
