"""Records and queries of the library, and the content address of a clip.

The address is a hash of what moves, so that the same motion is found under any name.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np

from marey.base import FloatArray
from marey.motion import Motion
from marey.skeleton import Skeleton

Outcome = Literal["added", "duplicate", "unchanged", "failed", "skipped"]
Span = tuple[float | None, float | None]  # lowest and highest value wanted; None is no limit


@dataclass(frozen=True, slots=True)
class ClipRecord:
    """One row of the catalogue: where a clip came from and what was measured on it."""

    id: str  # address of the motion's content, 32 hexadecimal digits
    name: str
    subject: str | None  # "07" for 07_01.bvh, or as given
    behaviour: str  # guessed from measured features, see `guess_behaviour`
    num_joints: int
    num_frames: int
    rate_hz: float
    duration_s: float
    height_m: float  # sole to crown of the rest skeleton
    mean_speed_mps: float  # horizontal path of the root over time
    heading_change_rad: float  # net turn of the pelvis, positive to the left (towards +X)
    flight_s: float  # longest time without a foot or a hand on the ground
    root_low_m: float  # lowest and highest root above the ground
    root_high_m: float
    format: str  # of the file it was read from
    source: str  # path as it was given
    source_absolute: str
    file_sha256: str  # of the stored clip file
    file_bytes: int
    joints: tuple[str, ...] = ()
    contacts: tuple[str, ...] = ()  # names of the contact points stored with the clip
    warnings: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    take: str = ""  # name of the clip in a file that holds several
    character: str = ""  # skeleton or file it moves
    licence: str = ""  # note found beside the file: its path and a line of it


@dataclass(frozen=True, slots=True)
class Query:
    """Conditions that must all hold; an empty query finds every clip."""

    tags: tuple[str, ...] = ()
    behaviour: str | None = None
    subject: str | None = None
    text: str | None = None  # part of the name, the file and its folder, a tag or a warning; any case
    speed_mps: Span = (None, None)
    duration_s: Span = (None, None)
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class AddOutcome:
    """Result of adding one file, or one take of a file that holds several."""

    path: str
    outcome: Outcome
    clip_id: str | None = None
    message: str = ""  # why it failed or was skipped, or which clip it repeats
    take: str = ""


@dataclass(frozen=True, slots=True)
class AddReport:
    """What became of every file of one call to :meth:`Library.add`, in the order they were given."""

    results: tuple[AddOutcome, ...] = ()
    passed_over: tuple[AddOutcome, ...] = ()  # files of a folder that were not tried

    @property
    def skipped(self) -> tuple[AddOutcome, ...]:
        """Files that hold no motion, each with the reason; they are no failure."""
        return tuple(result for result in self.results if result.outcome == "skipped") + self.passed_over

    @property
    def added(self) -> tuple[AddOutcome, ...]:
        """Files whose motion is new to the library."""
        return tuple(result for result in self.results if result.outcome == "added")

    @property
    def duplicates(self) -> tuple[AddOutcome, ...]:
        """Files whose motion the library already holds."""
        return tuple(result for result in self.results if result.outcome == "duplicate")

    @property
    def unchanged(self) -> tuple[AddOutcome, ...]:
        """Files read by an earlier run and not touched since: they were skipped."""
        return tuple(result for result in self.results if result.outcome == "unchanged")

    @property
    def failed(self) -> tuple[AddOutcome, ...]:
        """Files that could not be read, each with its message."""
        return tuple(result for result in self.results if result.outcome == "failed")

    def __str__(self) -> str:
        read = f"{len(self.added)} added, {len(self.duplicates)} duplicates"
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        return f"{read}, {len(self.unchanged)} unchanged, {len(self.failed)} failed{skipped}"


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What :meth:`Library.verify` found; ``is_sound`` when every clip is there whole."""

    checked: int
    missing: tuple[str, ...] = ()  # rows whose file is gone
    damaged: tuple[str, ...] = ()  # rows whose file does not hold what was written
    strays: tuple[str, ...] = ()  # files without a row
    repairs: tuple[str, ...] = ()  # what was done about it, one sentence each

    @property
    def is_sound(self) -> bool:
        """Nothing was found missing, damaged or astray."""
        return not (self.missing or self.damaged or self.strays)

    def __str__(self) -> str:
        if self.is_sound:
            return f"{self.checked} clips, all whole"
        found = f"{len(self.missing)} missing, {len(self.damaged)} damaged, {len(self.strays)} without a row"
        return f"{self.checked} clips: {found}"


@dataclass(frozen=True, slots=True)
class IngestJob:
    """One file to read, with what the user said about it; sent to a worker as JSON."""

    path: str
    tags: tuple[str, ...] = ()
    subject: str | None = None
    rate_hz: float | None = None
    unit: str | None = None
    licence: str = ""
    take: str = ""  # of a file that holds several; all of them while it is empty
    up: str | None = None

    @property
    def options(self) -> str:
        """Options that change the motion of a file: part of the key of an unchanged file."""
        further = "".join(f" {name}={value}" for name, value in (("take", self.take), ("up", self.up)) if value)
        return f"rate_hz={self.rate_hz} unit={self.unit}{further}"

    @property
    def absolute(self) -> str:
        """The path from the root of the file system."""
        return str(Path(self.path).absolute())


STEPS_PER_UNIT: Final = 65536.0  # 15 µm or 15 µrad: below any capture; a power of two, so that decimals are not ties
SIGNATURE_FRAMES: Final = 8
TREE_HASH_BYTES: Final = 16
KEY_ENTRIES: Final = 13  # few enough that different motions give numbers far apart, enough to be seldom all at rest
SAME_MOTION_TOL: Final = 1e-4
"""[m] and [1] a file written again with six decimals, or in float32, stays well inside; a filtered clip does not"""


def content_address(motion: Motion) -> str:
    """Hash of joint names, tree, offsets, rate, root path and rotations: 32 hexadecimal digits.

    Names of clip and skeleton, source, warnings and contacts do not count, nor does the order in which a format
    lists the joints. Rotations enter by two columns of their matrices, since a quaternion and its negative are the
    same rotation. Values are rounded to ``1 / STEPS_PER_UNIT``, so that the last bits of a float do not count either.
    """
    # Tree and rate, then all that moves, joints in the order of their names
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
    # Frames spread over the clip
    frames = np.unique(np.linspace(0, motion.num_frames - 1, SIGNATURE_FRAMES).round().astype(int))
    columns = motion.rotations[frames].matrix()[..., :2].reshape(len(frames), -1, 6)
    values = np.concatenate([motion.joint_positions()[frames], columns], axis=-1)[:, order]
    return (
        hashlib.blake2b(json.dumps(tree).encode(), digest_size=TREE_HASH_BYTES).digest()
        + np.clip(values, -1e30, 1e30).astype("<f4").tobytes()
    )


def signature_key(signature: bytes) -> tuple[str, float]:
    """Tree of a signature, and one number [1] that differs by at most ``SAME_MOTION_TOL`` where the motion is the same.

    It is the mean of a few entries with changing signs, so that the catalogue finds near signatures by an index.
    """
    return signature[:TREE_HASH_BYTES].hex(), _mean_entries(signature, 0.0)


def signature_check(signature: bytes) -> float:
    """Such a number of other entries: signatures whose keys are near by chance seldom have these near, too."""
    return _mean_entries(signature, 0.5)


def _mean_entries(signature: bytes, shift: float) -> float:
    """Mean of a few entries with changing signs; they begin by ``shift`` of their distance into the signature."""
    values = np.frombuffer(signature[TREE_HASH_BYTES:], "<f4").astype(np.float64)
    if not len(values):
        return 0.0
    places = np.linspace(0, len(values) - 1, KEY_ENTRIES)
    chosen = values[np.minimum(places + shift * places[1], len(values) - 1).astype(int)]
    return float((chosen * (-1.0) ** np.arange(KEY_ENTRIES)).mean())


def is_same_motion(one: bytes, other: bytes) -> bool:
    """Whether two signatures differ by rounding only (``SAME_MOTION_TOL`` in the largest entry)."""
    if len(one) != len(other) or one[:TREE_HASH_BYTES] != other[:TREE_HASH_BYTES]:
        return False
    # The same tree: compare positions and rotations
    here, there = (np.frombuffer(data[TREE_HASH_BYTES:], "<f4").astype(np.float64) for data in (one, other))
    return bool(np.abs(here - there).max(initial=0.0) < SAME_MOTION_TOL)


def _sort_by_name(skeleton: Skeleton) -> tuple[list[int], list[tuple[str, str]]]:
    """Joints in the order of their names, and each name with its parent's."""
    order = sorted(range(skeleton.num_joints), key=lambda j: skeleton.names[j])
    parents = ["" if p < 0 else skeleton.names[p] for p in map(int, skeleton.parents)]
    return order, [(skeleton.names[j], parents[j]) for j in order]


def _quantise(values: FloatArray) -> bytes:
    bound = 2.0**62  # the largest power of two that is safe as a 64-bit whole number
    return np.rint(np.clip(values * STEPS_PER_UNIT, -bound, bound)).astype("<i8").tobytes()
