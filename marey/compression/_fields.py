"""Fields of a compressed file, written and read with every length checked."""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FormatError, InputError, IntArray

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

    def packed(self, data: bytes) -> None:
        """Bytes, deflated."""
        squeeze = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY, NAME_DICTIONARY)
        self.whole(len(data))
        self.raw(squeeze.compress(data) + squeeze.flush())

    def text(self, text: str) -> None:
        """UTF-8, deflated."""
        self.packed(text.encode("utf-8", "surrogatepass"))

    def ints(self, values: IntArray) -> None:
        """Whole numbers of any sign in as few bytes each as the largest needs, bytes of one weight together."""
        flat = np.asarray(values, dtype=np.int64).reshape(-1)
        zigzag = ((flat << 1) ^ (flat >> 63)).astype("<u8")
        width = 1
        while zigzag.size and width < 8 and int(zigzag.max()) >> (8 * width):
            width += 1
        self.whole(len(flat))
        self.whole(width)
        planes = zigzag.view(np.uint8).reshape(-1, 8)[:, :width].T if len(flat) else np.zeros((1, 0), dtype=np.uint8)
        self.packed(np.ascontiguousarray(planes).tobytes())

    def doubles(self, values: NDArray[Any]) -> None:
        """Float64s, bytes of one weight together."""
        rows = np.ascontiguousarray(values, dtype="<f8").reshape(-1).view(np.uint8).reshape(-1, 8)
        self.packed(np.ascontiguousarray(rows.T).tobytes())


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

    def packed(self) -> bytes:
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
            return self.packed().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise format_error("a text is not UTF-8") from None

    def ints(self, count: int | None = None) -> IntArray:
        """Whole numbers; ``count`` of them if given."""
        length, width = self.whole(MAX_INFLATED), self.whole(8)
        data = self.packed()
        if width < 1 or len(data) != length * width or (count is not None and length != count):
            raise format_error(f"a list of {length} numbers where {count} belong")
        rows = np.zeros((length, 8), dtype=np.uint8)
        rows[:, :width] = np.frombuffer(data, dtype=np.uint8).reshape(width, length).T
        zigzag = rows.view("<u8").reshape(-1)
        return (zigzag >> np.uint64(1)).astype(np.int64) ^ -(zigzag & np.uint64(1)).astype(np.int64)

    def doubles(self, count: int) -> NDArray[np.float64]:
        """So many float64s, all finite."""
        data = self.packed()
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
