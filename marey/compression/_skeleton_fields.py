"""What is the same in every frame: skeleton, rate, name, contacts."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, cast

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, MareyError
from marey.compression._fields import FieldReader, FieldWriter, format_error
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import MAX_JOINTS, EulerLimits, Skeleton

MAX_FRAMES: Final = 1 << 24  # a day and a half at 120 Hz
MAX_CONTACT_POINTS: Final = 1024
INSIDE, OUTSIDE = 0, 1
UNITS: Final = (1.0, 0.01, 0.001, 0.0254, 0.0254 / 0.45)  # [m] units in which offsets may be short decimals
DECIMALS: Final = tuple(range(1, 8))
DIGEST_BYTES: Final = 8


def skeleton_digest(skeleton: Skeleton) -> bytes:
    """Fingerprint of the joints, the tree and the lengths (to a micrometre)."""
    lengths = np.rint(skeleton.offsets * 1e6).astype("<i8").tobytes()
    text = "\n".join(skeleton.names).encode() + skeleton.parents.astype("<i8").tobytes() + lengths
    return hashlib.sha256(text).digest()[:DIGEST_BYTES]


def write_skeleton(out: FieldWriter, skeleton: Skeleton, *, is_inside: bool) -> None:
    """The whole skeleton, or its fingerprint alone."""
    out.whole(INSIDE if is_inside else OUTSIDE)
    if not is_inside:
        out.raw(skeleton_digest(skeleton))
        return
    out.text(_join_names((skeleton.name, *skeleton.names)))
    out.ints(skeleton.parents)
    _write_lengths(out, skeleton.offsets)
    _write_lengths(out, skeleton.tips)
    out.text(json.dumps([_limit_to_json(limit) for limit in skeleton.limits]) if skeleton.limits else "")


def read_skeleton(fields: FieldReader, given: Skeleton | None) -> Skeleton:
    """Read or check the skeleton.

    Raises:
        InputError: the file holds a fingerprint only, and the skeleton is missing or another one.
    """
    if fields.whole(OUTSIDE) == OUTSIDE:
        digest = fields.raw()
        if given is None:
            raise InputError("the skeleton of this motion is not in the file", "Give it: decompress(data, skeleton=)")
        if digest != skeleton_digest(given):
            raise InputError(f"{given!r} is not the skeleton of this motion", "Give the one it was compressed with")
        return given
    skeleton = _read_inside(fields)
    if given is not None and skeleton_digest(given) != skeleton_digest(skeleton):
        raise InputError(f"{given!r} is not the skeleton of this motion", "Leave skeleton out: the file holds it")
    return skeleton


def _read_inside(fields: FieldReader) -> Skeleton:
    name, *names = _split_names(fields.text())
    if not 1 <= len(names) <= MAX_JOINTS:
        raise format_error(f"a skeleton of {len(names)} joints")
    parents = fields.ints(len(names))
    offsets, tips = _read_lengths(fields, len(names)), _read_lengths(fields, len(names))
    text = fields.text()
    try:
        limits = tuple(_limit_from_json(item) for item in json.loads(text)) if text else ()
        return Skeleton(tuple(names), parents, offsets, tips, limits, name)
    except (MareyError, ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise format_error(f"the skeleton is wrong: {' '.join(str(error).split())[:120]}") from None


def _join_names(names: tuple[str, ...]) -> str:
    """One name a line; JSON if a name has lines itself."""
    return "\n".join(names) if not any("\n" in name for name in names) else "\n\n" + json.dumps(names)


def _split_names(text: str) -> list[str]:
    if not text.startswith("\n\n"):
        return text.split("\n")
    try:
        return [str(name) for name in json.loads(text)]
    except (ValueError, TypeError, RecursionError):
        raise format_error("a list of names is wrong") from None


def _write_lengths(out: FieldWriter, lengths: FloatArray) -> None:
    """Short decimals of some unit where they are, since text files hold such; else all the bits."""
    for unit_number, unit in enumerate(UNITS):
        for decimals in DECIMALS:
            scale = 10.0**decimals
            counts = np.rint(lengths / unit * scale)
            if np.abs(counts).max(initial=0.0) < 2**31 and np.array_equal(counts / scale * unit, lengths):
                out.whole(1 + unit_number * len(DECIMALS) + decimals - DECIMALS[0])
                out.ints(counts.astype(np.int64))
                return
    out.whole(0)
    out.doubles(lengths)


def _read_lengths(fields: FieldReader, joints: int) -> FloatArray:
    how = fields.whole(len(UNITS) * len(DECIMALS))
    if how == 0:
        return fields.doubles(3 * joints).reshape(-1, 3)
    unit_number, decimal_number = divmod(how - 1, len(DECIMALS))
    counts = fields.ints(3 * joints).astype(np.float64).reshape(-1, 3)
    return counts / 10.0 ** DECIMALS[decimal_number] * UNITS[unit_number]


def _limit_to_json(limit: EulerLimits) -> list[Any]:
    low, high = np.asarray(limit.low_rad).tolist(), np.asarray(limit.high_rad).tolist()
    return [limit.joint, limit.order, low, high, limit.axis.wxyz.tolist()]


def _limit_from_json(item: Any) -> EulerLimits:
    joint, order, low, high, axis = cast(list[Any], item)
    return EulerLimits(str(joint), str(order), np.array(low, float), np.array(high, float), SO3(np.array(axis, float)))


def write_clip(out: FieldWriter, motion: Motion) -> None:
    """Number of frames, rate, name and contacts."""
    out.whole(motion.num_frames)
    out.real(motion.rate_hz)
    out.text(motion.name)
    contacts = motion.contacts
    out.whole(0 if contacts is None else 1 + len(contacts.names))
    if contacts is not None:
        out.text(_join_names(contacts.names))
        changes = np.diff(contacts.active, axis=0, prepend=False)
        out.packed(np.packbits(changes.T).tobytes())


def read_clip(fields: FieldReader) -> tuple[int, float, str, Contacts | None]:
    """Undo :func:`write_clip`."""
    frames, rate_hz, name = fields.whole(MAX_FRAMES), fields.real(), fields.text()
    if frames == 0 or not (np.isfinite(rate_hz) and rate_hz > 0.0):
        raise format_error(f"{frames} frames at {rate_hz} Hz")
    points = fields.whole(MAX_CONTACT_POINTS + 1) - 1
    if points < 0:
        return frames, rate_hz, name, None
    names = _split_names(fields.text()) if points else []
    bits = np.frombuffer(fields.packed(), dtype=np.uint8)
    if len(names) != points or len(bits) != (frames * points + 7) // 8:
        raise format_error("the contact track has a wrong length")
    changes = np.unpackbits(bits, count=frames * points).reshape(points, frames).T
    active: BoolArray = (np.cumsum(changes, axis=0, dtype=np.int64) & 1).astype(bool)
    return frames, rate_hz, name, Contacts(tuple(names), active)
