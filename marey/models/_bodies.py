"""Which bodies share a pose model: same joints, any size."""

from __future__ import annotations

import numpy as np

from marey.base import InputError
from marey.skeleton import Skeleton

SAME_REST_RAD = np.deg2rad(45.0)  # bones of one rig on many people rest within some 30 degrees of one another


def check_body(first: Skeleton, other: Skeleton, what: str) -> Skeleton:
    """Return ``other`` if it has the joints of ``first``; sizes may differ, since a model holds rotations alone.

    Raises:
        InputError: joints differ in number, name, parent or resting direction; the message names the first.
    """
    difference = body_difference(first, other)
    if difference:
        raise InputError(f"{what} has another skeleton: {difference}", "Retarget it first: marey.retarget")
    return other


def body_difference(a: Skeleton, b: Skeleton) -> str | None:
    """Say the first thing in which two skeletons differ for a pose model, or ``None``."""
    if a is b:
        return None
    if a.num_joints != b.num_joints:
        missing = [name for name in a.names if name not in b.names] or [n for n in b.names if n not in a.names]
        hint = f"; '{missing[0]}' is in one only" if missing else ""
        return f"{b.num_joints} joints, not {a.num_joints}{hint}"
    for joint, (one, two) in enumerate(zip(a.names, b.names, strict=True)):
        if one != two:
            return f"joint {joint} is called '{two}', not '{one}'"
        if a.parents[joint] != b.parents[joint]:
            return f"'{two}' hangs on '{b.names[b.parents[joint]]}', not on '{a.names[a.parents[joint]]}'"
    return _rest_difference(a, b)


def _rest_difference(a: Skeleton, b: Skeleton) -> str | None:
    """Bones that rest in other directions mean other rotations, even under the same names."""
    u, v = a.offsets[1:], b.offsets[1:]
    along = np.einsum("ji,ji->j", u, v)
    lengths = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
    angles = np.arccos(np.clip(along / np.where(lengths > 1e-6, lengths, 1.0), -1.0, 1.0)) * (lengths > 1e-6)
    if not angles.size or angles.max() <= SAME_REST_RAD:
        return None
    worst = 1 + int(np.argmax(angles))
    degrees = float(np.rad2deg(angles.max()))
    return f"the bone to '{a.names[worst]}' rests {degrees:.0f} degrees away from where it should"
