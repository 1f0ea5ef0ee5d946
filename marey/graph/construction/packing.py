"""Packed arrays of a graph file: a twentieth of the size, for graphs that are shipped or sent.

Poses are kept to 0.2 mm at the hands: rotations as rotation vectors in steps of 0.1 mrad, positions in steps of 0.1 mm,
both as differences from pose to pose. Costs are single-precision floats, likenesses of poses half as long. Whole
numbers are kept exactly. Torques of single poses are left out, since only a build reads them.
"""

from __future__ import annotations

import lzma
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import InputError
from marey.lie import SO3

Tensors = dict[str, NDArray[Any]]
ROTATION_STEP: Final = 1e-4  # [rad] half of it is the largest error, 0.05 mm at the end of a leg
POSITION_STEP_M: Final = 1e-4  # [m]
LEFT_OUT: Final = "database/torque"
ROTATIONS: Final = "database/wxyz"
POSITIONS: Final = "database/roots"
HALF_FLOATS: Final = ("transitions/distance", "arrays/torque")  # likenesses of poses and of torques
DROPPED_BITS: Final = 5  # of the ten of a half float: what is left is exact to 2^-6 + 2^-11, 1.6 %
EXACT_FLOATS: Final = ("body/", "skeleton/", "phases/feet")  # few numbers, and those that may be undefined
MAX_UNPACKED_BYTES: Final = 1 << 31  # a damaged size is refused before anything is allocated


def pack_tensors(tensors: Mapping[str, NDArray[Any]]) -> tuple[Tensors, dict[str, Any]]:
    """Compressed bytes of each array, and what :func:`unpack_tensors` has to know: stored type and shape by name."""
    packed: Tensors = {}
    kinds: dict[str, Any] = {}
    for name, array in tensors.items():
        if name == LEFT_OUT:
            continue
        stored = _encode_array(name, array)
        # Bytes of one significance stand together, so that the high ones are nearly constant
        planes = np.ascontiguousarray(stored).view(np.uint8).reshape(-1, stored.itemsize).T
        packed[name] = np.frombuffer(lzma.compress(planes.tobytes(), lzma.FORMAT_ALONE, preset=9), np.uint8)
        kinds[name] = [stored.dtype.str, list(stored.shape)]
    return packed, kinds


def unpack_tensors(packed: Mapping[str, NDArray[Any]], kinds: Mapping[str, Any]) -> Tensors:
    """Arrays as :func:`pack_tensors` was given them, to its precision.

    Raises:
        InputError: sizes do not fit, or bytes are damaged.
    """
    tensors: Tensors = {}
    for name, (code, shape) in kinds.items():
        dtype, size = np.dtype(str(code)), int(np.prod([int(n) for n in shape], dtype=object))
        if dtype.hasobject or not 0 <= size * dtype.itemsize <= MAX_UNPACKED_BYTES:
            raise InputError(f"'{name}' cannot have the shape {shape}")
        try:
            reader = lzma.LZMADecompressor(lzma.FORMAT_ALONE)
            planes = reader.decompress(packed[name].tobytes(), max_length=size * dtype.itemsize + 1)
        except lzma.LZMAError as error:
            raise InputError(f"the bytes of '{name}' are damaged: {error}") from error
        if len(planes) != size * dtype.itemsize:
            raise InputError(f"'{name}' does not have the {size} numbers that it announces")
        rows = np.frombuffer(planes, np.uint8).reshape(dtype.itemsize, size).T
        stored = np.ascontiguousarray(rows).view(dtype).reshape([int(n) for n in shape])
        tensors[name] = _decode_array(name, stored)
    tensors[LEFT_OUT] = np.zeros((len(tensors[POSITIONS]), 1))
    return tensors


def _encode_array(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if name == ROTATIONS:
        # Rotation vectors fit into two bytes, and their differences wrap around with them; time runs fastest
        steps = np.rint(SO3(array).log() / ROTATION_STEP).astype(np.int16)
        return np.diff(steps, axis=0, prepend=np.int16(0)).transpose(1, 2, 0)
    if name == POSITIONS:
        return np.diff(np.rint(array / POSITION_STEP_M).astype(np.int32), axis=0, prepend=np.int32(0)).T
    if array.dtype.kind == "i":
        return np.diff(array.astype(np.int32), axis=0, prepend=np.int32(0))
    if name in HALF_FLOATS:
        bits = array.astype(np.float16).view(np.uint16).astype(np.uint32) + (1 << (DROPPED_BITS - 1))
        return (bits >> DROPPED_BITS << DROPPED_BITS).astype(np.uint16).view(np.float16)
    if array.dtype.kind == "f" and not name.startswith(EXACT_FLOATS):
        return array.astype(np.float32)
    return array


def _decode_array(name: str, stored: NDArray[Any]) -> NDArray[Any]:
    if name == ROTATIONS:
        steps = np.cumsum(stored.transpose(2, 0, 1), axis=0, dtype=np.int16)
        return SO3.exp(steps * ROTATION_STEP).wxyz
    if name == POSITIONS:
        return np.cumsum(stored.T, axis=0, dtype=np.int32) * POSITION_STEP_M
    if stored.dtype.kind == "i":
        return np.cumsum(stored, axis=0, dtype=np.int32)
    return stored.astype(np.float64) if stored.dtype.kind == "f" else stored
