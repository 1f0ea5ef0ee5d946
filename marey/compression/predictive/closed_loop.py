"""The closed loop: quantise, decode, measure the error, and continue from the decoded values.

Moving offsets, the tracks of joints whose bones change length, are coded before the poses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.compression.file_format import (
    FieldReader,
    FieldWriter,
    check_table_size,
    check_writable,
    decode_steps,
    encode_steps,
    format_error,
)
from marey.compression.predictive.pose_error import (
    CapturedFrames,
    CodecBody,
    FrameState,
    compensate_rounding,
    compute_joint_error,
    position_joint,
    rotate_joint,
    solve_joint,
)
from marey.compression.predictive.predictor import (
    NUM_LINKS,
    Predictor,
    new_predictor,
    order_frames,
    predict_number,
    prepare_features,
    read_frames,
    reset_predictor,
    update_weights,
    write_frames,
)
from marey.compression.range_coder import build_odds_tables
from marey.skeleton import Skeleton

MAX_QUANTISED = 2.0**29  # of a quantised number; beyond it the prediction has failed


@kernel
def _quantise(p: Predictor, s: FloatArray, numbers: IntArray, t: int, i: int, wanted: float, scale: float) -> None:
    """Quantise number ``i`` of frame ``t`` with its step times ``scale``."""
    start = predict_number(p, i)
    step = p.steps[i] * scale
    value = min(max(np.rint((wanted - start) / step), -MAX_QUANTISED), MAX_QUANTISED)
    numbers[t, i] = int(value)
    s[t, i] = start + value * step
    p.surprise[i] = value * scale


class CodedPoses(NamedTuple):
    """A clip as far as it is coded."""

    predictor: Predictor
    pose: FrameState
    decoded: FloatArray  # (F, n) numbers as the reader has them
    numbers: IntArray  # (F, n) quantised
    refined: IntArray  # (F,) halvings of the step


class CodingOrder(NamedTuple):
    """Frames that are coded next."""

    frames: IntArray  # (B,)
    strides: IntArray  # (B,) of each
    before: int  # stride of the frame before them, 0 at the begin
    first: int  # stride of the frames that are coded from one side


@kernel
def encode_poses(
    body: CodecBody, goal: CapturedFrames, clip: CodedPoses, order: CodingOrder, limit_m: float, most: int
) -> float:
    """Code the next frames of a clip, row by row of ``goal``; returns their largest error [m].

    A frame that is off by more than ``limit_m`` is coded again with half the step, ``most`` times at most.
    """
    p, pose, s, numbers, refined = clip
    worst = 0.0
    for k in range(order.frames.shape[0]):
        t, stride = order.frames[k], order.strides[k]
        is_causal = stride == order.first
        if stride != (order.strides[k - 1] if k > 0 else order.before):
            reset_predictor(p, stride, is_causal)
        prepare_features(p, s, t, stride, is_causal)
        scale, error = 1.0, 0.0
        for attempt in range(most + 1):
            # Quantise the frame from the root outwards; the error is its largest squared displacement [m^2]
            for c in range(3):
                _quantise(p, s, numbers, t, c, goal.numbers[k, c], scale)
                pose.positions[0, c] = s[t, c]
            error = 0.0
            starts = body.joints.starts
            for j in range(body.parents.shape[0]):
                if j > 0:
                    position_joint(body, pose, k, j)
                count = starts[j + 1] - starts[j]
                # Each joint makes up for the errors above it, each of its numbers for the rounding of the ones before
                if count > 0:
                    solve_joint(body, goal, pose, k, j)
                    for m in range(count):
                        i = starts[j] + m
                        _quantise(p, s, numbers, t, i, pose.wanted[m], scale)
                        compensate_rounding(pose, m, s[t, i] - pose.wanted[m], count)
                rotate_joint(body, pose, j, s[t, starts[j] :])
                error = max(error, compute_joint_error(body, goal, pose, k, j))
            # A frame that is off by too much is coded again with half the step
            refined[t] = attempt
            if error <= limit_m * limit_m:
                break
            scale *= 0.5
        worst = max(worst, error)
        update_weights(p)
    return np.sqrt(worst)


@kernel
def encode_table(values: FloatArray, links: IntArray, steps: FloatArray, levels: int) -> tuple[IntArray, FloatArray]:
    """Quantised numbers and what the reader gets of them, for a table ``(F, n)`` without a body around it."""
    frames, n = values.shape
    p = new_predictor(links, steps)
    s, numbers = np.zeros((frames, n)), np.zeros((frames, n), dtype=np.int64)
    order, strides = order_frames(frames, levels)
    for k in range(frames):
        t, is_causal = order[k], strides[k] == 1 << levels
        if k == 0 or strides[k] != strides[k - 1]:
            reset_predictor(p, strides[k], is_causal)
        prepare_features(p, s, t, strides[k], is_causal)
        for i in range(n):
            _quantise(p, s, numbers, t, i, values[t, i], 1.0)
        update_weights(p)
    return numbers, s


@kernel
def decode_table(numbers: IntArray, refined: IntArray, links: IntArray, steps: FloatArray, levels: int) -> FloatArray:
    """Numbers ``(F, n)`` from quantised ones: the way back of both encoders."""
    frames, n = numbers.shape
    p = new_predictor(links, steps)
    s = np.zeros((frames, n))
    order, strides = order_frames(frames, levels)
    for k in range(frames):
        t, is_causal = order[k], strides[k] == 1 << levels
        if k == 0 or strides[k] != strides[k - 1]:
            reset_predictor(p, strides[k], is_causal)
        prepare_features(p, s, t, strides[k], is_causal)
        scale = 0.5 ** refined[t]
        for i in range(n):
            start = predict_number(p, i)
            s[t, i] = start + numbers[t, i] * (p.steps[i] * scale)
            p.surprise[i] = numbers[t, i] * scale
        update_weights(p)
    return s


OFFSET_LEVELS = 2


def write_offsets(out: FieldWriter, table: FloatArray | None, step_m: float) -> FloatArray | None:
    """Write moving offsets ``(F, J, 3)`` [m] with errors below half a step; return what the reader will have."""
    out.whole(0 if table is None else 1)
    if table is None:
        return None
    # Offsets that never move are in the first frame alone
    flat = table.reshape(len(table), -1)
    check_writable(*flat.shape)
    first, moves = flat[0].copy(), np.abs(flat - flat[0]).max(axis=0) > 0.0
    out.doubles(first)
    out.deflate_bytes(np.packbits(moves).tobytes())
    code = encode_steps(np.array([step_m]))
    out.ints(code)
    steps = np.full(int(moves.sum()), decode_steps(code)[0])
    links = np.full((len(steps), NUM_LINKS), -1, dtype=np.int64)
    quantised, decoded = encode_table(flat[:, moves] - first[moves], links, steps, OFFSET_LEVELS)
    refined = np.zeros(len(table), dtype=np.int64)
    out.raw(write_frames(quantised, refined, OFFSET_LEVELS, *build_odds_tables()).tobytes())
    restored = np.tile(first, (len(decoded), 1))
    restored[:, moves] += decoded
    return restored.reshape(table.shape)


def read_offsets(fields: FieldReader, frames: int, skeleton: Skeleton) -> FloatArray | None:
    """Undo :func:`write_offsets`."""
    if fields.whole(1) == 0:
        return None

    width = 3 * skeleton.num_joints
    first = fields.doubles(width)
    bits = np.frombuffer(fields.inflate_bytes(), dtype=np.uint8)
    if len(bits) != (width + 7) // 8:
        raise format_error("the moving offsets have a wrong length")
    moves = np.unpackbits(bits, count=width).astype(bool)
    # Deviations from the first frame, quantised with one step
    steps = np.full(int(moves.sum()), decode_steps(fields.ints(1))[0])
    data = np.frombuffer(fields.raw(), dtype=np.uint8).copy()
    check_table_size(frames, width, len(data))
    quantised, refined, used = read_frames(data, frames, len(steps), OFFSET_LEVELS, *build_odds_tables())
    links = np.full((len(steps), NUM_LINKS), -1, dtype=np.int64)
    decoded = decode_table(quantised, refined, links, steps, OFFSET_LEVELS)
    if used < 0 or not np.isfinite(decoded).all():
        raise format_error("the stream of moving offsets is wrong")
    restored = np.tile(first, (len(decoded), 1))
    restored[:, moves] += decoded
    return restored.reshape(frames, -1, 3)
