"""The compressed file: header with checksum, fields, quantiser steps, and what is the same in every frame.

Fields are written and read with every length checked. Steps of the quantiser are quarters of an octave, the same
float on every machine. Skeleton, rate, name and contacts are the same in every frame.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from math import ldexp
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import BoolArray, FloatArray, FormatError, InputError, IntArray, MareyError
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import MAX_JOINTS, EulerLimits, Skeleton

MAX_VALUES: Final = 1 << 25  # numbers of a clip: more than half an hour of a human at 120 Hz
VALUES_PER_BYTE: Final = 1 << 14
MAX_INFLATED: Final = 1 << 26  # [byte] a packed field may not grow beyond this

NAME_DICTIONARY: Final = (
    b"hipchestneckheadlefttrightfootfoottoehandfingerthumblowerbackupperthoraxclaviclehumerusradiuswristfemurtibiatoes"
    b"pelvisleft_hipright_hipspine1left_kneeright_kneespine2left_ankleright_anklespine3left_footright_footneckleft_collar"
    b"right_collarheadleft_shoulderright_shoulderleft_elbowright_elbowleft_wristright_wrist"
    b"rootlhipjointlfemurltibialfootltoesrhipjointrfemurrtibiarfootrtoeslowerbackupperbackthoraxlowerneckupperneckhead"
    b"lclaviclelhumeruslradiuslwristlhandlfingerslthumbrclaviclerhumerusrradiusrwristrhandrfingersrthumb"
    b"mixamorig:HipsLeftUpLegLeftLegLeftFootLeftToeRightUpLegRightLegRightFootRightToeSpineSpine1Spine2NeckHead"
    b"LeftShoulderLeftArmLeftForeArmLeftHandRightShoulderRightArmRightForeArmRightHandLeftToeBaseRightToeBase"
    b"Hips\nLHipJoint\nLeftUpLeg\nLeftLeg\nLeftFoot\nLeftToeBase\nRHipJoint\nRightUpLeg\nRightLeg\nRightFoot\n"
    b"RightToeBase\nLowerBack\nSpine\nSpine1\nNeck\nNeck1\nHead\nLeftShoulder\nLeftArm\nLeftForeArm\nLeftHand\n"
    b"LeftFingerBase\nLeftHandIndex1\nLThumb\nRightShoulder\nRightArm\nRightForeArm\nRightHand\nRightFingerBase\n"
    b"RightHandIndex1\nRThumb"
)
"""names that files often hold, so that they cost little; part of the format, never to be changed in version 1"""


def check_table_size(frames: int, count: int, num_bytes: int) -> None:
    """Refuse a table that is too large, or larger than so few bytes can hold (a number costs 1/1900 bit at least).

    Raises:
        FormatError: it is.
    """
    if frames * count > min(MAX_VALUES, VALUES_PER_BYTE * (num_bytes + 16)):
        raise format_error(f"{frames} frames of {count} numbers cannot be in {num_bytes} bytes")


def check_writable(frames: int, count: int) -> None:
    """Refuse to write what no reader would take.

    Raises:
        InputError: the clip is too long.
    """
    if frames * count > MAX_VALUES:
        raise InputError(f"{frames} frames of {count} numbers", f"Cut the clip: {MAX_VALUES // count} frames at most")


def format_error(what: str) -> FormatError:
    """An error about compressed data."""
    return FormatError(what, "compressed motion", 0, "Copy the file again, or compress the motion again.")


class FieldWriter:
    """Fields one after another."""

    def __init__(self) -> None:
        self.data = bytearray()

    def whole(self, value: int) -> None:
        """A whole number from zero up, seven bits a byte."""
        while value > 127:
            self.data.append(128 | (value & 127))
            value >>= 7
        self.data.append(value)

    def real(self, value: float) -> None:
        """A float64."""
        self.data += struct.pack("<d", value)

    def raw(self, data: bytes) -> None:
        """Bytes with their length."""
        self.whole(len(data))
        self.data += data

    def deflate_bytes(self, data: bytes) -> None:
        """Bytes, deflated."""
        squeeze = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY, NAME_DICTIONARY)
        self.whole(len(data))
        self.raw(squeeze.compress(data) + squeeze.flush())

    def text(self, text: str) -> None:
        """UTF-8, deflated."""
        self.deflate_bytes(text.encode("utf-8", "surrogatepass"))

    def ints(self, values: IntArray) -> None:
        """Signed integers in the fewest bytes of the largest, grouped by significance."""
        flat = np.asarray(values, dtype=np.int64).reshape(-1)
        # Zigzag puts small magnitudes of both signs first: 0, -1, 1, -2, ...
        zigzag = ((flat << 1) ^ (flat >> 63)).astype("<u8")
        width = 1
        while zigzag.size and width < 8 and int(zigzag.max()) >> (8 * width):
            width += 1
        self.whole(len(flat))
        self.whole(width)
        planes = zigzag.view(np.uint8).reshape(-1, 8)[:, :width].T if len(flat) else np.zeros((1, 0), dtype=np.uint8)
        self.deflate_bytes(np.ascontiguousarray(planes).tobytes())

    def flags(self, values: BoolArray) -> None:
        """Truth values ``(F, K)``: a bit says that one changes."""
        self.deflate_bytes(np.packbits(np.diff(values, axis=0, prepend=False).T).tobytes())

    def doubles(self, values: NDArray[Any]) -> None:
        """Float64s, bytes of one weight together."""
        rows = np.ascontiguousarray(values, dtype="<f8").reshape(-1).view(np.uint8).reshape(-1, 8)
        self.deflate_bytes(np.ascontiguousarray(rows.T).tobytes())


class FieldReader:
    """Reads what :class:`FieldWriter` wrote; anything else is a ``FormatError``."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = memoryview(data), 0

    def whole(self, limit: int = 1 << 62) -> int:
        """A whole number up to ``limit``."""
        value = shift = 0
        while True:
            if self.place >= len(self.data) or shift > 63:
                raise format_error("a number is cut off")
            byte = self.data[self.place]
            self.place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if value > limit:
            raise format_error(f"a count of {value}, the limit is {limit}")
        return value

    def real(self) -> float:
        """A float64."""
        return float(struct.unpack("<d", self._read_bytes(8))[0])

    def raw(self) -> bytes:
        """Bytes with their length."""
        return self._read_bytes(self.whole())

    def inflate_bytes(self) -> bytes:
        """Deflated bytes."""
        length = self.whole(MAX_INFLATED)
        inflate = zlib.decompressobj(-15, NAME_DICTIONARY)
        try:
            data = inflate.decompress(self.raw(), length + 1)
        except zlib.error as error:
            raise format_error(f"a packed field does not unpack ({error})") from None
        if len(data) != length:
            raise format_error("a packed field has another length than announced")
        return data

    def text(self) -> str:
        """Deflated UTF-8."""
        try:
            return self.inflate_bytes().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise format_error("a text is not UTF-8") from None

    def ints(self, count: int | None = None) -> IntArray:
        """Whole numbers; ``count`` of them if given."""
        length, width = self.whole(MAX_INFLATED), self.whole(8)
        data = self.inflate_bytes()
        if width < 1 or len(data) != length * width or (count is not None and length != count):
            raise format_error(f"a list of {length} numbers where {count} belong")
        rows = np.zeros((length, 8), dtype=np.uint8)
        rows[:, :width] = np.frombuffer(data, dtype=np.uint8).reshape(width, length).T
        zigzag = rows.view("<u8").reshape(-1)
        return (zigzag >> np.uint64(1)).astype(np.int64) ^ -(zigzag & np.uint64(1)).astype(np.int64)

    def flags(self, frames: int, count: int) -> BoolArray:
        """Truth values ``(frames, count)``."""
        bits = np.frombuffer(self.inflate_bytes(), dtype=np.uint8)
        if len(bits) != (frames * count + 7) // 8:
            raise format_error("a track of contacts has a wrong length")
        changes = np.unpackbits(bits, count=frames * count).reshape(count, frames).T
        return (np.cumsum(changes, axis=0, dtype=np.int64) & 1).astype(bool)

    def doubles(self, count: int) -> NDArray[np.float64]:
        """So many float64s, all finite."""
        data = self.inflate_bytes()
        if len(data) != 8 * count:
            raise format_error(f"{len(data)} bytes where {count} numbers belong")
        planes = np.frombuffer(data, dtype=np.uint8).reshape(8, count)
        values = np.ascontiguousarray(planes.T).view("<f8").reshape(-1).astype(np.float64)
        if not np.isfinite(values).all():
            raise format_error("a number is not finite")
        return values

    def singles(self, count: int) -> NDArray[np.float64]:
        """So many float32s, not packed, all finite."""
        values = np.frombuffer(self._read_bytes(4 * count), dtype="<f4").astype(np.float64)
        if not np.isfinite(values).all():
            raise format_error("a number is not finite")
        return values

    def end(self) -> None:
        """Make sure that nothing is left over."""
        if self.place != len(self.data):
            raise format_error(f"{len(self.data) - self.place} bytes too many")

    def _read_bytes(self, length: int) -> bytes:
        if length > len(self.data) - self.place:
            raise format_error("a field is cut off")
        self.place += length
        return bytes(self.data[self.place - length : self.place])


QUARTERS = (1.0, 1.189207115002721, 1.4142135623730951, 1.681792830507429)
MAX_STEP_CODE = 4 * 64  # quarters of an octave either way


def encode_steps(steps: FloatArray) -> IntArray:
    """Quarters of an octave, rounded."""
    return np.rint(4.0 * np.log2(steps)).astype(np.int64)


def decode_steps(codes: IntArray) -> FloatArray:
    """Steps from their codes."""
    if np.abs(codes).max(initial=0) > MAX_STEP_CODE:
        raise format_error("a step of the quantiser is out of range")
    return np.array([ldexp(QUARTERS[int(code) % 4], int(code) // 4) for code in codes])


MAGIC: Final = b"MARY"
FORMAT_VERSION: Final = 1
PREDICTIVE_CODE, WAVELET_CODE, TOURNIER_CODE = 0, 1, 2
METHODS: Final = ("default", "waves", "tournier2011")
HEADER: Final = struct.Struct("<4sBBHQI")  # magic, version, method, nothing yet, length of the rest, its CRC-32


def pack_file(method: int, body: bytes) -> bytes:
    """Return a whole file."""
    head = HEADER.pack(MAGIC, FORMAT_VERSION, method, 0, len(body), 0)
    return HEADER.pack(MAGIC, FORMAT_VERSION, method, 0, len(body), zlib.crc32(body, zlib.crc32(head))) + body


def unpack_file(data: bytes) -> tuple[int, bytes]:
    """Method and body of a file; the checksum is verified before anything else is read.

    Raises:
        FormatError: no compressed motion, another version, cut off, or damaged.
    """
    if not isinstance(cast(object, data), bytes | bytearray | memoryview):
        raise InputError(f"compressed data of type {type(data).__name__}", "Give the bytes of a compressed motion")
    data = bytes(data)
    if len(data) < HEADER.size or data[:4] != MAGIC:
        raise format_error("not a compressed motion: it does not begin with 'MARY'" if data else "no data at all")
    _, version, method, spare, length, crc = HEADER.unpack_from(data)
    if version != FORMAT_VERSION:
        fix = "Upgrade marey: pip install --upgrade marey"
        raise FormatError(f"format version {version}; this marey reads {FORMAT_VERSION}", "compressed motion", 0, fix)
    if length != len(data) - HEADER.size:
        raise format_error(f"{len(data) - HEADER.size} bytes after the header, which announces {length}")
    head = HEADER.pack(MAGIC, version, method, spare, length, 0)
    body = data[HEADER.size :]
    if zlib.crc32(body, zlib.crc32(head)) != crc:
        raise format_error("the checksum does not fit: some byte has changed")
    if method >= len(METHODS):
        raise format_error(f"method number {method} is unknown")
    return method, body


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
    limits = [
        [limit.joint, limit.order, *(np.asarray(v).tolist() for v in (limit.low_rad, limit.high_rad, limit.axis.wxyz))]
        for limit in skeleton.limits
    ]
    out.text(json.dumps(limits) if limits else "")


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
    # The whole skeleton is in the file
    name, *names = _split_names(fields.text())
    if not 1 <= len(names) <= MAX_JOINTS:
        raise format_error(f"a skeleton of {len(names)} joints")
    parents = fields.ints(len(names))
    offsets, tips = _read_lengths(fields, len(names)), _read_lengths(fields, len(names))
    text = fields.text()
    try:
        limits = [
            EulerLimits(str(joint), str(order), np.array(low, float), np.array(high, float), SO3(np.array(axis, float)))
            for joint, order, low, high, axis in cast(list[Any], json.loads(text) if text else [])
        ]
        skeleton = Skeleton(tuple(names), parents, offsets, tips, tuple(limits), name)
    except (MareyError, ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise format_error(f"the skeleton is wrong: {' '.join(str(error).split())[:120]}") from None
    if given is not None and skeleton_digest(given) != skeleton_digest(skeleton):
        raise InputError(f"{given!r} is not the skeleton of this motion", "Leave skeleton out: the file holds it")
    return skeleton


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


def write_clip(out: FieldWriter, motion: Motion) -> None:
    """Number of frames, rate, name and contacts."""
    out.whole(motion.num_frames)
    out.real(motion.rate_hz)
    out.text(motion.name)
    contacts = motion.contacts
    out.whole(0 if contacts is None else 1 + len(contacts.names))
    if contacts is not None:
        out.text(_join_names(contacts.names))
        out.flags(contacts.active)


def read_clip(fields: FieldReader) -> tuple[int, float, str, Contacts | None]:
    """Undo :func:`write_clip`."""
    frames, rate_hz, name = fields.whole(MAX_FRAMES), fields.real(), fields.text()
    if frames == 0 or not (np.isfinite(rate_hz) and rate_hz > 0.0):
        raise format_error(f"{frames} frames at {rate_hz} Hz")
    points = fields.whole(MAX_CONTACT_POINTS + 1) - 1
    if points < 0:
        return frames, rate_hz, name, None
    names = _split_names(fields.text()) if points else []
    if len(names) != points:
        raise format_error(f"{len(names)} names of {points} contacts")
    return frames, rate_hz, name, Contacts(tuple(names), fields.flags(frames, points))
