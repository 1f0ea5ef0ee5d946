"""The address of a motion: a hash of what moves, so that the same motion is found under any name."""

from __future__ import annotations

import hashlib
import json
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.motion import Motion

STEPS_PER_UNIT: Final = 65536.0  # 15 µm or 15 µrad: below any capture; a power of two, so that decimals are no ties
SIGNATURE_FRAMES: Final = 8
SAME_MOTION_TOL: Final = 1e-4
"""[m] and [1] a file written again with six decimals, or in float32, stays well inside; a filtered clip does not"""


def content_address(motion: Motion) -> str:
    """Hash of joint names, tree, offsets, rate, root path and rotations: 32 hexadecimal digits.

    Names of clip and skeleton, source, warnings and contacts do not count. Rotations enter by two columns of
    their matrices, since a quaternion and its negative are the same rotation. Values are rounded to
    ``1 / STEPS_PER_UNIT``, so that the last bits of a float do not count either.
    """
    skeleton = motion.skeleton
    digest = hashlib.blake2b(b"marey motion 1", digest_size=16)
    digest.update(json.dumps([list(skeleton.names), skeleton.parents.tolist(), round(motion.rate_hz, 2)]).encode())
    for values in (skeleton.offsets[1:], motion.root_positions, motion.rotations.matrix()[..., :2]):
        digest.update(_steps(values))
    if motion.translations is not None:
        digest.update(_steps(motion.translations[:, 1:]))
    return digest.hexdigest()


def _steps(values: FloatArray) -> bytes:
    bound = 2.0**62  # the largest power of two that is safe as a 64-bit whole number
    return np.rint(np.clip(values * STEPS_PER_UNIT, -bound, bound)).astype("<i8").tobytes()


def signature(motion: Motion) -> bytes:
    """Joint positions [m] and two columns of the local rotations at a few frames, as float32 bytes.

    Two files of one motion that differ by rounding have different addresses but near signatures.
    """
    frames = np.unique(np.linspace(0, motion.num_frames - 1, SIGNATURE_FRAMES).round().astype(int))
    columns = motion.rotations[frames].matrix()[..., :2].reshape(len(frames), -1, 6)
    values = np.concatenate([motion.joint_positions()[frames], columns], axis=-1)
    return np.clip(values, -1e30, 1e30).astype("<f4").tobytes()


def is_same_motion(one: bytes, other: bytes) -> bool:
    """Whether two signatures differ by rounding only (``SAME_MOTION_TOL`` in the largest entry)."""
    if len(one) != len(other):
        return False
    difference = np.frombuffer(one, "<f4").astype(np.float64) - np.frombuffer(other, "<f4")
    return bool(np.abs(difference).max(initial=0.0) < SAME_MOTION_TOL)
