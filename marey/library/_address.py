"""The address of a motion: a hash of what moves, so that the same motion is found under any name."""

from __future__ import annotations

import hashlib
import json
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.motion import Motion
from marey.skeleton import Skeleton

STEPS_PER_UNIT: Final = 65536.0  # 15 µm or 15 µrad: below any capture; a power of two, so that decimals are no ties
SIGNATURE_FRAMES: Final = 8
TREE_HASH_BYTES: Final = 16
SAME_MOTION_TOL: Final = 1e-4
"""[m] and [1] a file written again with six decimals, or in float32, stays well inside; a filtered clip does not"""


def content_address(motion: Motion) -> str:
    """Hash of joint names, tree, offsets, rate, root path and rotations: 32 hexadecimal digits.

    Names of clip and skeleton, source, warnings and contacts do not count, nor does the order in which a format
    lists the joints. Rotations enter by two columns of their matrices, since a quaternion and its negative are the
    same rotation. Values are rounded to ``1 / STEPS_PER_UNIT``, so that the last bits of a float do not count either.
    """
    order, tree = _sort_by_name(motion.skeleton)
    digest = hashlib.blake2b(b"marey motion 1", digest_size=16)
    digest.update(json.dumps([tree, round(motion.rate_hz, 2)]).encode())
    offsets = motion.skeleton.offsets.copy()
    offsets[0] = 0.0  # where the root rests does not matter: it has a path
    for values in (offsets[order], motion.root_positions, motion.rotations[:, order].matrix()[..., :2]):
        digest.update(_quantise(values))
    if motion.translations is not None:
        digest.update(_quantise(motion.translations[:, [j for j in order if j > 0]]))
    return digest.hexdigest()


def motion_signature(motion: Motion) -> bytes:
    """Joint positions [m] and two columns of the local rotations at a few frames, after a hash of the tree.

    Two files of one motion that differ by rounding have different addresses but near signatures.
    """
    order, tree = _sort_by_name(motion.skeleton)
    frames = np.unique(np.linspace(0, motion.num_frames - 1, SIGNATURE_FRAMES).round().astype(int))
    columns = motion.rotations[frames].matrix()[..., :2].reshape(len(frames), -1, 6)
    values = np.concatenate([motion.joint_positions()[frames], columns], axis=-1)[:, order]
    return _tree_hash(tree) + np.clip(values, -1e30, 1e30).astype("<f4").tobytes()


def is_same_motion(one: bytes, other: bytes) -> bool:
    """Whether two signatures differ by rounding only (``SAME_MOTION_TOL`` in the largest entry)."""
    if len(one) != len(other) or one[:TREE_HASH_BYTES] != other[:TREE_HASH_BYTES]:
        return False
    here, there = (np.frombuffer(data[TREE_HASH_BYTES:], "<f4").astype(np.float64) for data in (one, other))
    return bool(np.abs(here - there).max(initial=0.0) < SAME_MOTION_TOL)


def _sort_by_name(skeleton: Skeleton) -> tuple[list[int], list[tuple[str, str]]]:
    """Joints in the order of their names, and each name with its parent's."""
    order = sorted(range(skeleton.num_joints), key=lambda j: skeleton.names[j])
    parents = ["" if p < 0 else skeleton.names[p] for p in map(int, skeleton.parents)]
    return order, [(skeleton.names[j], parents[j]) for j in order]


def _tree_hash(tree: list[tuple[str, str]]) -> bytes:
    return hashlib.blake2b(json.dumps(tree).encode(), digest_size=TREE_HASH_BYTES).digest()


def _quantise(values: FloatArray) -> bytes:
    bound = 2.0**62  # the largest power of two that is safe as a 64-bit whole number
    return np.rint(np.clip(values * STEPS_PER_UNIT, -bound, bound)).astype("<i8").tobytes()
