"""The default codec: closed-loop prediction with a guaranteed bound on the error of every frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import ConvergenceError, FloatArray
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
from marey.compression.joint_fit import JointFit, fit_joints, read_fit, write_fit
from marey.compression.joint_kinds import WIDTHS, compute_rotations
from marey.compression.predictive.closed_loop import decode_table, encode_poses, read_offsets, write_offsets
from marey.compression.predictive.pose_error import (
    CapturedClip,
    CodecBody,
    build_link_table,
    build_point_table,
    compute_joint_levers,
    compute_reach,
)
from marey.compression.predictive.predictor import read_frames, write_frames
from marey.compression.range_coder import build_odds_tables
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import Skeleton

JOINT_STEP: Final = 0.66  # step of a joint's numbers times its lever, in error bounds; by trial
ROOT_STEP: Final = 0.7  # step of the root's position in error bounds
CONSTANT_SHARE: Final = 0.05  # part of the bound that constants of joints may use up
TRANSLATION_SHARE: Final = 0.1  # part of the bound that moving offsets may use up
MAX_REFINEMENTS: Final = 12  # halvings of the step before the constants are doubted
LEVER_FRAMES: Final = 200  # frames on which levers are measured, about
FINE_M: Final = 3e-4  # [m] below this bound the noise of capture is coded, and frames in order are best
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
    share = 1.0
    for _ in range(4):
        found: list[bytes | None] = []
        for level in levels:
            # Bytes of one attempt, or None if the error bound failed
            skeleton = motion.skeleton
            out = FieldWriter()
            write_skeleton(out, skeleton, is_inside=is_inside)
            write_clip(out, motion)
            moving = write_offsets(out, motion.translations, TRANSLATION_SHARE * bound.max_error_m * max(share, 1e-3))
            # Kinds of joints, with constants that use up a small part of the bound
            tolerances = CONSTANT_SHARE * share * bound.max_error_m / compute_reach(skeleton, max(bound.shell_m, 1e-3))
            fit, numbers = fit_joints(motion, tolerances)
            check_writable(*numbers.shape)
            body, goal = _build_problem(motion, fit, numbers, bound.shell_m, moving)
            # Steps as the file holds them, and the closed loop
            codes = encode_steps(_choose_steps(body, goal, bound))
            links = build_link_table(skeleton, fit.kinds)
            limit = bound.max_error_m * (1.0 - 1e-9)
            quantised, refined, error = encode_poses(
                body, goal, links, decode_steps(codes), level, limit, MAX_REFINEMENTS
            )
            if error > bound.max_error_m:
                trial = None
            else:
                write_fit(out, fit)
                out.ints(codes)
                out.whole(level)
                out.data += write_frames(quantised, refined, level, *build_odds_tables()).tobytes()
                trial = bytes(out.data)
            found.append(trial)
        kept = [data for data in found if data is not None]
        if kept:
            return min(kept, key=len)
        share = 0.125 * share if share > 1e-2 else 0.0
    raise ConvergenceError(f"cannot hold an error of {bound.max_error_m} m on '{motion.name}'; allow a larger one")


def _build_problem(
    motion: Motion, fit: JointFit, numbers: FloatArray, shell_m: float, moving: FloatArray | None
) -> tuple[CodecBody, CapturedClip]:
    positions, frames = motion.joint_frames()
    offsets = motion.skeleton.offsets[None].copy() if moving is None else moving
    points, weights, starts = build_point_table(motion.skeleton, fit.kinds)
    joints = fit.joints(motion.skeleton)
    body = CodecBody(motion.skeleton.parents.copy(), offsets, joints, points, weights, starts, shell_m)
    return body, CapturedClip(positions, frames.wxyz.copy(), numbers)


def _choose_steps(body: CodecBody, goal: CapturedClip, bound: ErrorBound) -> FloatArray:
    levers = compute_joint_levers(body, goal, max(1, len(goal.numbers) // LEVER_FRAMES))
    steps = JOINT_STEP * bound.max_error_m / np.maximum(levers, 1e-3)
    steps[:3] = ROOT_STEP * bound.max_error_m
    return steps


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
    if not np.isfinite(numbers).all():
        raise format_error("the numbers run away")
    wxyz = compute_rotations(fit.joints(skeleton), numbers)
    return Motion(skeleton, rate_hz, numbers[:, :3], SO3(wxyz), contacts, moving, name=name)
