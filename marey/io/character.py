r"""Characters: a skeleton with the mesh that hangs on it, and linear blend skinning.

.. math:: v(f) = \sum_k w_k \big(x_k(f) + R_k(f)\,(v_{rest} - x_{k,rest})\big)

with the world position :math:`x_k` and rotation :math:`R_k` of each joint; all joint frames are aligned with the world
in the rest pose, so no bind matrix is left ([Khronos2021]_ §3.7.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from marey.base import FloatArray, InputError, IntArray, MissingFileError, frozen, frozen_ints
from marey.io.binary import AnyPath
from marey.motion import Motion
from marey.skeleton import Skeleton, joint_frames, tree_difference

CHARACTER_READERS: Final = {
    ".glb": ("marey.io.gltf.rig", "read_gltf_character"),
    ".gltf": ("marey.io.gltf.rig", "read_gltf_character"),
    ".vrm": ("marey.io.gltf.rig", "read_gltf_character"),
    ".fbx": ("marey.io.fbx.reader", "read_fbx_character"),
}
WEIGHTS_TOL: Final = 1e-6  # [-] weights of a vertex sum to one, to float32 rounding
SAME_PLACE: Final = 1e-5  # [-] of the body's size: joints found twice at one place, float32 apart
MAX_BLOCK: Final = 1 << 22  # [vertex] vertices posed at a time, so that memory stays small


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Character:
    """A skinned mesh and its skeleton."""

    skeleton: Skeleton  # as load() reads the same file
    vertices: FloatArray  # (V, 3) [m] in world, in the rest pose of the skeleton
    triangles: IntArray  # (T, 3) vertex numbers, counter-clockwise seen from outside
    joints: IntArray  # (V, 4) joints that move each vertex
    weights: FloatArray  # (V, 4) rows sum to one
    colours: FloatArray  # (V, 3) linear RGB in [0, 1]
    name: str = "character"
    path: str = ""

    def __post_init__(self) -> None:
        vertices = frozen(self.vertices, None, 3, name="vertices")
        count = len(vertices)
        triangles = frozen_ints(self.triangles, None, 3, name="triangles")
        joints = frozen_ints(self.joints, count, 4, name="joints")
        weights = frozen(self.weights, count, 4, name="weights")
        for what, numbers, end in (("triangles", triangles, count), ("joints", joints, self.skeleton.num_joints)):
            if numbers.size and (numbers.min() < 0 or numbers.max() >= end):
                raise InputError(f"{what} of a character refer to number {numbers.max()} of {end}")
        if count and (np.abs(weights.sum(axis=1) - 1.0).max() > WEIGHTS_TOL or weights.min() < 0.0):
            raise InputError("the skin weights of a vertex must be positive and sum to one")
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "triangles", triangles)
        object.__setattr__(self, "joints", joints)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "colours", frozen(self.colours, count, 3, name="colours"))

    def __repr__(self) -> str:
        joints, vertices = self.skeleton.num_joints, len(self.vertices)
        return f"Character('{self.name}', {joints} joints, {vertices} vertices, {len(self.triangles)} triangles)"


def join_parts(parts: Sequence[Character], path: AnyPath) -> Character:
    """Return the parts of one mesh as one character, on the skeleton of the first."""
    starts = np.cumsum([0, *(len(part.vertices) for part in parts)])
    return Character(
        parts[0].skeleton,
        np.concatenate([part.vertices for part in parts]),
        np.concatenate([part.triangles + start for part, start in zip(parts, starts[:-1], strict=True)]),
        np.concatenate([part.joints for part in parts]),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.colours for part in parts]),
        Path(path).stem,
        str(path),
    )


def load_character(path: AnyPath) -> Character:
    """Read a rigged character: its skeleton as :func:`marey.load` gives it, its mesh and its skin weights.

    All skinned meshes of the body are joined to one, and rigid meshes that hang on a joint with them. Morph targets
    rest at zero.

    Raises:
        MissingFileError: there is no such file.
        InputError: the format holds no characters, or the file has no skin.
        FormatError: the file is damaged, or its mesh is compressed.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in CHARACTER_READERS:
        known = ", ".join(CHARACTER_READERS)
        raise InputError(f"a '{suffix or path}' file holds no character", f"Characters are read from {known}.")
    if not Path(path).is_file():
        raise MissingFileError(str(path))
    module, name = CHARACTER_READERS[suffix]
    return cast(Character, getattr(import_module(module), name)(path))


def pose_vertices(character: Character, motion: Motion, frames: Sequence[int] | IntArray) -> FloatArray:
    """Vertices ``(n, V, 3)`` [m] in world at some frames of a motion, by linear blend skinning.

    Args:
        character: the mesh.
        motion: a motion on the character's skeleton: the same joints, in any order.
        frames: numbers of frames; negative ones count from the end.

    Raises:
        InputError: the motion is on another skeleton, or a frame does not exist.
    """
    names = motion.skeleton.names
    if set(names) != set(character.skeleton.names):
        difference = tree_difference(character.skeleton, motion.skeleton)
        raise InputError(f"the motion is not on the skeleton of '{character.name}': {difference}", "Retarget it first")
    index = np.asarray(frames, dtype=np.int64).reshape(-1)
    if index.size and (index.min() < -motion.num_frames or index.max() >= motion.num_frames):
        raise InputError(f"frames {index.min()} to {index.max()} of a motion of {motion.num_frames} frames")
    moving = None if motion.translations is None else motion.translations[index]
    wxyz = motion.rotations.wxyz[index]
    positions, R_world_joint = joint_frames(motion.skeleton, motion.root_positions[index], wxyz, moving)
    if names != character.skeleton.names:
        order = [names.index(name) for name in character.skeleton.names]
        positions, R_world_joint = positions[:, order], R_world_joint[:, order]
    # Rest world to posed world of each joint, as rows (3, 4)
    turn = R_world_joint.matrix()
    shift = positions - np.einsum("fjab,jb->fja", turn, character.skeleton.rest_positions())
    maps = np.concatenate([turn, shift[..., None]], axis=-1)
    weights = weight_matrix(character)
    posed = np.empty((len(index), len(character.vertices), 3))
    block = max(1, MAX_BLOCK // max(len(character.vertices), 1))
    for first in range(0, len(index), block):
        some = maps[first : first + block]
        # One product blends the maps of all joints for all vertices and frames
        columns = some.transpose(1, 0, 2, 3).reshape(character.skeleton.num_joints, -1)
        blended = np.asarray(weights @ columns).reshape(-1, len(some), 3, 4)
        moved = np.einsum("vfab,vb->fva", blended[..., :3], character.vertices)
        posed[first : first + block] = moved + blended[..., 3].transpose(1, 0, 2)
    return posed


def weight_matrix(character: Character) -> Any:
    """Skin weights as a sparse matrix ``(V, J)``."""
    from scipy.sparse import csr_array

    rows = np.repeat(np.arange(len(character.vertices)), 4)
    entries = (character.weights.reshape(-1), (rows, character.joints.reshape(-1)))
    return csr_array(entries, shape=(len(character.vertices), character.skeleton.num_joints))


def strongest_weights(joints: IntArray, weights: FloatArray) -> tuple[IntArray, FloatArray]:
    """Keep the four largest of the weights ``(V, n)`` of each vertex and make them sum to one.

    A vertex without weights hangs on the first joint it names.
    """
    weights = np.where(weights > 0.0, weights, 0.0)
    # Entries that name one joint twice are added, so that they do not take two places
    for k in range(1, joints.shape[1]):
        for earlier in range(k):
            same = (joints[:, k] == joints[:, earlier]) & (weights[:, earlier] > 0.0)
            weights[:, earlier] += np.where(same, weights[:, k], 0.0)
            weights[:, k] = np.where(same, 0.0, weights[:, k])
    if joints.shape[1] > 4:
        best = np.argsort(-weights, axis=1, kind="stable")[:, :4]
        joints = np.take_along_axis(joints, best, axis=1)
        weights = np.take_along_axis(weights, best, axis=1)
    elif joints.shape[1] < 4:
        spare = ((0, 0), (0, 4 - joints.shape[1]))
        joints, weights = np.pad(joints, spare), np.pad(weights, spare)
    total = weights.sum(axis=1, keepdims=True)
    weights = np.where(total > 0.0, weights / np.where(total > 0.0, total, 1.0), [[1.0, 0.0, 0.0, 0.0]])
    return np.where(weights > 0.0, joints, joints[:, :1]), weights


def fit_similarity(places: FloatArray, ours: FloatArray, unit_m: float) -> tuple[float, FloatArray, FloatArray]:
    """Scale, rotation and shift that carry ``places`` to ``ours``, both ``(n, 3)``: the identity where it serves.

    Least squares by singular values ([Umeyama1991]_).
    """
    size = max(float(np.abs(ours).max(initial=0.0)), 1e-9)
    shift = (ours - unit_m * places).mean(axis=0)
    if np.abs(unit_m * places + shift - ours).max() <= SAME_PLACE * size:
        still = np.abs(shift).max() <= SAME_PLACE * size
        return unit_m, np.eye(3), np.zeros(3) if still else shift
    a, b = places - places.mean(axis=0), ours - ours.mean(axis=0)
    u, _, vt = np.linalg.svd(b.T @ a)
    mirror = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt)) or 1.0])
    turn = u @ mirror @ vt
    square = float((a * a).sum())
    scale = float((b * (a @ turn.T)).sum() / square) if square > 0.0 else unit_m
    return scale, turn, ours.mean(axis=0) - scale * turn @ places.mean(axis=0)
