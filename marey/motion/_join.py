"""Joining clips end to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from marey.base import FloatArray, InputError
from marey.lie import SO3
from marey.motion._motion import Contacts, Motion
from marey.motion._place import headings, place
from marey.skeleton import Skeleton

SAME_OFFSET_M = 1e-6  # [m] skeletons whose joints differ by less are the same; file round trips stay below


def concatenate(motions: Sequence[Motion], *, align: bool = False) -> Motion:
    """Join clips of one skeleton and one rate, end to end.

    Args:
        motions: at least one.
        align: place each clip so that it goes on from the one before: its first root is one step of the last speed
            ahead of the last root, facing the same way. Heights are kept.

    Raises:
        InputError: nothing was given, or a clip has another skeleton or rate; the message says what differs.
    """
    if not motions:
        raise InputError("no motion to join", "Give at least one")
    parts = [motions[0]]
    for number, motion in enumerate(motions[1:], start=1):
        _check_same(motions[0], motion, number)
        parts.append(_place_after(parts[-1], motion) if align else motion)
    moving = [_translations(part) for part in parts] if any(p.translations is not None for p in parts) else None
    return replace(
        parts[0],
        root_positions=np.concatenate([part.root_positions for part in parts]),
        rotations=SO3.concatenate([part.rotations for part in parts]),
        contacts=_join_contacts(parts),
        translations=None if moving is None else np.concatenate(moving),
        source=None if parts[0].source is None else replace(parts[0].source, channels=None, dropped=None),
    )


def _place_after(first: Motion, second: Motion) -> Motion:
    step = first.root_positions[-1] - first.root_positions[max(first.num_frames - 2, 0)]
    x, _, z = first.root_positions[-1] + step
    return place(second, (x, z), float(headings(first)[-1]))


def _join_contacts(parts: list[Motion]) -> Contacts | None:
    names = parts[0].contacts.names if parts[0].contacts else ()
    tracks = [part.contacts.active for part in parts if part.contacts is not None and part.contacts.names == names]
    return Contacts(names, np.concatenate(tracks)) if names and len(tracks) == len(parts) else None


def _translations(motion: Motion) -> FloatArray:
    if motion.translations is not None:
        return motion.translations
    return np.broadcast_to(motion.skeleton.offsets, (motion.num_frames, *motion.skeleton.offsets.shape))


def _check_same(first: Motion, other: Motion, number: int) -> None:
    where = f"clip {number} ('{other.name}')"
    if other.rate_hz != first.rate_hz:
        fix = "Resample it first: marey.motion.resample(motion, rate_hz)"
        raise InputError(f"{where} runs at {other.rate_hz:g} Hz, the first at {first.rate_hz:g} Hz", fix)
    difference = skeleton_difference(first.skeleton, other.skeleton)
    if difference:
        raise InputError(f"{where} has another skeleton than the first: {difference}", "Retarget it first")


def skeleton_difference(a: Skeleton, b: Skeleton) -> str | None:
    """Say the first thing in which two skeletons differ, or ``None``."""
    if a.num_joints != b.num_joints:
        return f"{b.num_joints} joints, not {a.num_joints}"
    for joint, (one, two) in enumerate(zip(a.names, b.names, strict=True)):
        if one != two:
            return f"joint {joint} is called '{two}', not '{one}'"
        if a.parents[joint] != b.parents[joint]:
            return f"'{two}' hangs on '{b.names[b.parents[joint]]}', not on '{a.names[a.parents[joint]]}'"
    apart = np.linalg.norm(a.offsets[1:] - b.offsets[1:], axis=1)
    if apart.size and apart.max() > SAME_OFFSET_M:
        worst = 1 + int(np.argmax(apart))
        return f"the offset of '{a.names[worst]}' differs by {1e3 * apart.max():.3g} mm"
    return None
