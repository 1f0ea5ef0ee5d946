"""The default codec: closed-loop prediction with a guaranteed bound on the error of every frame.

Moving offsets, the tracks of joints whose bones change length, are coded before the poses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from marey.base import ConvergenceError, FloatArray, IntArray, kernel, split_blocks
from marey.compression.file_format import (
    FieldReader,
    FieldWriter,
    check_table_size,
    check_writable,
    decode_steps,
    encode_steps,
    format_error,
    read_clip,
    read_skeleton,
    write_clip,
    write_skeleton,
)
from marey.compression.joint_fit import WIDTHS, JointFit, compute_rotations, fit_joints, read_fit, write_fit
from marey.compression.pose_error import (
    CapturedFrames,
    CodecBody,
    FrameState,
    build_link_table,
    build_point_table,
    compensate_rounding,
    compute_joint_error,
    compute_joint_levers,
    compute_reach,
    new_frame_state,
    position_joint,
    rotate_joint,
    solve_joint,
)
from marey.compression.predictor import (
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
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import Skeleton, joint_frames

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


JOINT_STEP: Final = 0.66  # step of a joint's numbers times its lever, in error bounds; by trial
ROOT_STEP: Final = 0.7  # step of the root's position in error bounds
CONSTANT_SHARE: Final = 0.05  # part of the bound that constants of joints may use up
TRANSLATION_SHARE: Final = 0.1  # part of the bound that moving offsets may use up
MAX_REFINEMENTS: Final = 12  # halvings of the step before the constants are doubted
LEVER_FRAMES: Final = 200  # frames on which levers are measured, about
FINE_M: Final = 3e-4  # [m] below this bound the noise of capture is coded, and frames in order are best
BLOCK_FRAMES: Final = 2048  # whose joint frames are in memory at a time
LEVELS: Final = (0, 2, 5)  # coarse-to-fine orders that are tried above it


@dataclass(frozen=True, slots=True, eq=False)
class ErrorBound:
    """What the error may be: joint origins and points ``shell_m`` from them along the axes of the joint."""

    max_error_m: float
    shell_m: float


def encode_predictive(
    motion: Motion, bound: ErrorBound, *, is_inside: bool, levels: tuple[int, ...] | None = None
) -> bytes:
    """Compress so that no frame is off by more than the bound.

    Raises:
        ConvergenceError: the bound is below what the arithmetic can hold.
    """
    if levels is None:
        levels = LEVELS[:1] if bound.max_error_m < FINE_M else LEVELS
    skeleton, share = motion.skeleton, 1.0
    for _ in range(4):
        out = FieldWriter()
        write_skeleton(out, skeleton, is_inside=is_inside)
        write_clip(out, motion)
        moving = write_offsets(out, motion.translations, TRANSLATION_SHARE * bound.max_error_m * max(share, 1e-3))
        # Kinds of joints, with constants that use up a small part of the bound
        tolerances = CONSTANT_SHARE * share * bound.max_error_m / compute_reach(skeleton, max(bound.shell_m, 1e-3))
        fit, numbers = fit_joints(motion, tolerances)
        check_writable(*numbers.shape)
        write_fit(out, fit)
        # Steps as the file holds them, and the closed loop; the smallest of the orders that hold the bound
        clip = CapturedClip.build(motion, fit, numbers, bound.shell_m, moving)
        codes = encode_steps(clip.choose_steps(bound.max_error_m))
        out.ints(codes)
        kept = list[bytes]()
        for level in levels:
            limit, links = bound.max_error_m * (1.0 - 1e-9), build_link_table(skeleton, fit.kinds)
            coded, error = clip.code(links, decode_steps(codes), level, limit)
            if error <= bound.max_error_m:
                end = FieldWriter()
                end.whole(level)
                stream = write_frames(coded.numbers, coded.refined, level, *build_odds_tables())
                kept.append(bytes(out.data + end.data) + stream.tobytes())
        if kept:
            return min(kept, key=len)
        share = 0.125 * share if share > 1e-2 else 0.0
    raise ConvergenceError(f"cannot hold an error of {bound.max_error_m} m on '{motion.name}'; allow a larger one")


class CapturedClip(NamedTuple):
    """A captured clip, whose joint frames are made for some of its frames at a time."""

    motion: Motion
    numbers: FloatArray  # (F, n)
    body: CodecBody
    moving: FloatArray | None  # (F, J, 3) [m] offsets as the reader has them

    @classmethod
    def build(
        cls, motion: Motion, fit: JointFit, numbers: FloatArray, shell_m: float, moving: FloatArray | None
    ) -> CapturedClip:
        """Put a clip and what was fitted to it together."""
        points, weights, starts = build_point_table(motion.skeleton, fit.kinds)
        offsets, joints = motion.skeleton.offsets[None].copy(), fit.joints(motion.skeleton)
        body = CodecBody(motion.skeleton.parents.copy(), offsets, joints, points, weights, starts, shell_m)
        return cls(motion, numbers, body, moving)

    def choose_steps(self, bound_m: float) -> FloatArray:
        """Steps ``(n,)`` that move the points of a joint by a part of the bound."""
        some = np.arange(0, len(self.numbers), max(1, len(self.numbers) // LEVER_FRAMES))
        steps = JOINT_STEP * bound_m / np.maximum(compute_joint_levers(*self.take(some)), 1e-3)
        steps[:3] = ROOT_STEP * bound_m
        return steps

    def take(self, rows: IntArray) -> tuple[CodecBody, CapturedFrames]:
        """Some frames, and the body with their offsets."""
        motion, moving = self.motion, self.motion.translations
        positions, frames = joint_frames(
            motion.skeleton,
            motion.root_positions[rows],
            motion.rotations.wxyz[rows],
            None if moving is None else moving[rows],
        )
        body = self.body if self.moving is None else self.body._replace(offsets=self.moving[rows])
        return body, CapturedFrames(positions, frames.wxyz.copy(), self.numbers[rows])

    def code(self, links: IntArray, steps: FloatArray, levels: int, limit_m: float) -> tuple[CodedPoses, float]:
        """All frames in an order, a block at a time, and the largest error [m]."""
        shape = self.numbers.shape
        order, strides = order_frames(shape[0], levels)
        coded = CodedPoses(
            new_predictor(links, steps),
            new_frame_state(len(self.body.parents)),
            np.zeros(shape),
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape[0], dtype=np.int64),
        )
        worst = 0.0
        for part in split_blocks(shape[0], BLOCK_FRAMES):
            before = int(strides[part.start - 1]) if part.start else 0
            following = CodingOrder(order[part], strides[part], before, 1 << levels)
            error = encode_poses(*self.take(order[part]), coded, following, limit_m, MAX_REFINEMENTS)
            worst = max(worst, float(error))
        return coded, worst


def decode_predictive(fields: FieldReader, given: Skeleton | None) -> Motion:
    """Undo :func:`encode_predictive`."""
    skeleton = read_skeleton(fields, given)
    frames, rate_hz, name, contacts = read_clip(fields)
    moving = read_offsets(fields, frames, skeleton)
    fit = read_fit(fields, skeleton.num_joints)
    steps, levels = decode_steps(fields.ints(3 + int(np.array(WIDTHS)[fit.kinds].sum()))), fields.whole(24)
    # What is left of the file is the stream of frames; a copy, since kernels are compiled for arrays that may change
    rest = np.frombuffer(fields.data, dtype=np.uint8)[fields.place :].copy()
    check_table_size(frames, len(steps), len(rest))
    quantised, refined, used = read_frames(rest, frames, len(steps), levels, *build_odds_tables())
    if used < 0:
        raise format_error("the stream of frames ends too soon")
    numbers = decode_table(quantised, refined, build_link_table(skeleton, fit.kinds), steps, levels)
    del quantised  # a long clip is large
    if not np.isfinite(numbers).all():
        raise format_error("the numbers run away")
    wxyz = compute_rotations(fit.joints(skeleton), numbers)
    wxyz.setflags(write=False)  # so that it is not copied
    return Motion(skeleton, rate_hz, numbers[:, :3], SO3(wxyz), contacts, moving, name=name)
