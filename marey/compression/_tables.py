"""Moving offsets: tracks of joints whose bones change length, coded before the poses."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, IntArray
from marey.compression._fields import FieldReader, FieldWriter, check_table_size, check_writable, format_error
from marey.compression._steps import decode_steps, encode_steps
from marey.skeleton import Skeleton

NUM_EMPTY_LINKS = 8  # width of the table of links, all empty
OFFSET_LEVELS = 2


def write_offsets(out: FieldWriter, table: FloatArray | None, step_m: float) -> FloatArray | None:
    """Write moving offsets ``(F, J, 3)`` [m] with errors below half a step; return what the reader will have."""
    out.whole(0 if table is None else 1)
    if table is None:
        return None
    from marey.compression._entropy_kernels import build_odds_tables
    from marey.compression._frames_kernels import write_frames
    from marey.compression._loop_kernels import encode_table

    flat = table.reshape(len(table), -1)
    check_writable(*flat.shape)
    first, moves = flat[0].copy(), np.abs(flat - flat[0]).max(axis=0) > 0.0
    out.doubles(first)
    out.packed(np.packbits(moves).tobytes())
    code = encode_steps(np.array([step_m]))
    out.ints(code)
    steps = np.full(int(moves.sum()), decode_steps(code)[0])
    quantised, decoded = encode_table(flat[:, moves] - first[moves], _empty_links(steps), steps, OFFSET_LEVELS)
    refined = np.zeros(len(table), dtype=np.int64)
    out.raw(write_frames(quantised, refined, OFFSET_LEVELS, *build_odds_tables()).tobytes())
    return _fill_offsets(first, moves, decoded).reshape(table.shape)


def read_offsets(fields: FieldReader, frames: int, skeleton: Skeleton) -> FloatArray | None:
    """Undo :func:`write_table`."""
    if fields.whole(1) == 0:
        return None
    from marey.compression._entropy_kernels import build_odds_tables
    from marey.compression._frames_kernels import read_frames
    from marey.compression._loop_kernels import decode_table

    width = 3 * skeleton.num_joints
    first = fields.doubles(width)
    bits = np.frombuffer(fields.packed(), dtype=np.uint8)
    if len(bits) != (width + 7) // 8:
        raise format_error("the moving offsets have a wrong length")
    moves = np.unpackbits(bits, count=width).astype(bool)
    steps = np.full(int(moves.sum()), decode_steps(fields.ints(1))[0])
    data = np.frombuffer(fields.raw(), dtype=np.uint8).copy()
    check_table_size(frames, width, len(data))
    quantised, refined, used = read_frames(data, frames, len(steps), OFFSET_LEVELS, *build_odds_tables())
    decoded = decode_table(quantised, refined, _empty_links(steps), steps, OFFSET_LEVELS)
    if used < 0 or not np.isfinite(decoded).all():
        raise format_error("the stream of moving offsets is wrong")
    return _fill_offsets(first, moves, decoded).reshape(frames, -1, 3)


def _empty_links(steps: FloatArray) -> IntArray:
    return np.full((len(steps), NUM_EMPTY_LINKS), -1, dtype=np.int64)


def _fill_offsets(
    first: FloatArray, moves: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], decoded: FloatArray
) -> FloatArray:
    table = np.tile(first, (len(decoded), 1))
    table[:, moves] += decoded
    return table
