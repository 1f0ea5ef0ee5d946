"""A codec for few bytes: principal components in a metric of metres, wavelets in time, one step for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import ConvergenceError, FloatArray, IntArray
from marey.compression._fields import FieldReader, FieldWriter, damaged
from marey.compression._joints import WIDTHS, JointFit, fit_joints, read_fit, write_fit
from marey.compression._skeleton_fields import read_clip, read_skeleton, write_clip, write_skeleton
from marey.compression._steps import step_codes, steps_of
from marey.compression._tables import read_table, write_table
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import Skeleton

if TYPE_CHECKING:
    from marey.compression._joint_kernels import Joints

SAMPLES: Final = 200  # frames on which the metric is measured, about
FLOOR_M2: Final = 1e-4  # [m^2] added to the metric, so that joints that carry nothing keep their turn: a 1 cm lever
DEAD_ZONE: Final = 0.18  # how much sooner than half a step coefficients are dropped
CENTROID: Final = 0.06  # how much nearer to zero than the middle of their step coefficients are restored
BASIS_SHARE: Final = 0.5  # error that rounding the basis may cause, in steps
KEEP_SHARE: Final = 0.7  # components whose deviation is below this many steps are left out
MOST_HALVINGS: Final = 40
MAX_VALUES: Final = 1 << 26
FIT_SHARE: Final = 0.02  # of the step, that constants of joints may use up

Verdict = Callable[[Motion], bool]


@dataclass(frozen=True, slots=True, eq=False)
class _Clip:
    """The clip in the numbers of its joints, and what they weigh."""

    fit: JointFit
    numbers: FloatArray  # (F, n)
    free: int  # the first numbers, root position and rotation, are coded one by one
    weights: FloatArray  # (n,) [m] rms of all joints per unit of each number
    metric: FloatArray  # (n - free, n - free) of the others


@dataclass(frozen=True, slots=True, eq=False)
class _Coded:
    """What the file holds: all whole numbers."""

    fit: JointFit
    free: int
    weight_codes: IntArray  # (n,)
    step_code: int
    mean: IntArray  # (n - free,)
    basis: IntArray  # (k, n - free)
    scale_codes: IntArray  # (k,)
    waves: IntArray  # (F, free + k)


def encode_waves(motion: Motion, is_good: Verdict, *, is_inside: bool, first_step_m: float) -> bytes:
    """Compress with the largest step of which ``is_good`` approves the decoded motion.

    Args:
        motion: the clip.
        is_good: looks at a decoded motion.
        is_inside: whether the skeleton is in the file.
        first_step_m: [m] where the search begins.

    Raises:
        ConvergenceError: no step is good.
    """
    out = FieldWriter()
    write_skeleton(out, motion.skeleton, is_inside=is_inside)
    write_clip(out, motion)
    moving = write_table(out, motion.translations, 0.1 * first_step_m)

    def tried(code: int) -> tuple[_Coded, bool]:
        step = float(steps_of(np.array([code]))[0])
        coded = _coded(_measured(motion, FIT_SHARE * step), code)
        return coded, is_good(_decoded(coded, motion.skeleton, motion.rate_hz, None, motion.name, moving))

    code = int(step_codes(np.array([first_step_m]))[0])
    coded, good = tried(code)
    stride = 4 if good else -4
    for _ in range(MOST_HALVINGS):
        further, further_good = tried(code + stride)
        if further_good != good:
            break
        code, coded = code + stride, further
    else:
        raise ConvergenceError(f"no step of the quantiser is small enough for '{motion.name}'; allow a larger error")
    low = code if good else code + stride
    best = coded if good else further
    for fine in (low + 2, low + 1, low + 3):
        candidate, fine_good = tried(fine)
        if fine_good and candidate.step_code > best.step_code:
            best = candidate
    _write(out, best)
    return bytes(out.data)


def _measured(motion: Motion, tolerance_m: float) -> _Clip:
    from marey.compression._layout import reach_m

    skeleton = motion.skeleton
    fit, numbers = fit_joints(motion, tolerance_m / reach_m(skeleton, 0.03))
    joints = fit.joints(skeleton)
    free = int(joints.starts[1])
    metric = _metric(motion, joints, numbers)
    metric[np.diag_indices(len(metric))] += FLOOR_M2
    weights = np.concatenate([np.full(3, np.sqrt(skeleton.num_joints)), np.sqrt(np.diag(metric))])
    return _Clip(fit, numbers, free, weights, metric[free - 3 :, free - 3 :])


def _metric(motion: Motion, joints: Joints, numbers: FloatArray) -> FloatArray:
    from marey.compression._joint_kernels import all_columns
    from marey.compression._waves_kernels import position_metric

    rows = slice(None, None, max(1, motion.num_frames // SAMPLES))
    places, frames = motion[rows].joint_frames()
    owners = np.repeat(np.arange(len(joints.kinds)), np.diff(joints.starts))
    columns = all_columns(joints, np.ascontiguousarray(numbers[rows]), owners)
    return position_metric(np.array(motion.skeleton.parents), places, frames.matrix(), columns, owners)


def _coded(clip: _Clip, step_code: int) -> _Coded:
    """Quantise everything with one step."""
    step = float(steps_of(np.array([step_code]))[0])
    codes = step_codes(clip.weights)
    weights = steps_of(codes)
    mean_steps = step / weights[clip.free :]
    mean = np.rint(clip.numbers[:, clip.free :].mean(axis=0) / mean_steps).astype(np.int64)
    rest = clip.numbers[:, clip.free :] - mean * mean_steps
    basis, scales = _basis(rest, clip.metric, weights[clip.free :], step)
    rows = basis * _basis_steps(weights[clip.free :], scales, step)
    scores = _scores(rest, rows, clip.metric)
    tracks = np.concatenate([clip.numbers[:, : clip.free] * weights[: clip.free], scores], axis=1)
    return _Coded(clip.fit, clip.free, codes, step_code, mean, basis, scales, _quantised(tracks, step))


def _basis(rest: FloatArray, metric: FloatArray, weights: FloatArray, step: float) -> tuple[IntArray, IntArray]:
    """Principal components ``(k, n)`` in the metric, rounded, and the codes ``(k,)`` of their deviations."""
    if not rest.shape[1]:
        return np.zeros((0, 0), dtype=np.int64), np.zeros(0, dtype=np.int64)
    lower = np.linalg.cholesky(metric)
    scaled = rest @ lower
    values, vectors = np.linalg.eigh(scaled.T @ scaled / len(rest))
    deviations = np.sqrt(np.maximum(values[::-1], 0.0))
    count = int((deviations > KEEP_SHARE * step).sum())
    rows = np.linalg.solve(lower.T, vectors[:, ::-1][:, :count]).T
    codes = step_codes(np.maximum(deviations[:count], step))
    rounded = np.rint(rows / _basis_steps(weights, codes, step)).astype(np.int64)
    return rounded, codes


def _basis_steps(weights: FloatArray, codes: IntArray, step: float) -> FloatArray:
    """Grid ``(k, n)`` of the components: fine where they move much."""
    share = BASIS_SHARE * step / np.sqrt(max(len(weights), 1))
    return share / (steps_of(codes)[:, None] * weights)


def _scores(rest: FloatArray, rows: FloatArray, metric: FloatArray) -> FloatArray:
    """Coordinates ``(F, k)`` of the nearest combinations of the rounded components, in the metric."""
    if not len(rows):
        return np.zeros((len(rest), 0))
    pulled = rows @ metric
    gram = pulled @ rows.T
    gram[np.diag_indices(len(gram))] += 1e-12 * np.trace(gram)
    return np.linalg.solve(gram, pulled @ rest.T).T


def _quantised(tracks: FloatArray, step: float) -> IntArray:
    from marey.compression._waves_kernels import to_waves

    waves = to_waves(np.ascontiguousarray(tracks)) / step
    return (np.sign(waves) * np.floor(np.abs(waves) + 0.5 - DEAD_ZONE).clip(0.0)).astype(np.int64)


def _decoded(
    coded: _Coded, skeleton: Skeleton, rate_hz: float, contacts: Contacts | None, name: str, moving: FloatArray | None
) -> Motion:
    from marey.compression._joint_kernels import all_rotations
    from marey.compression._waves_kernels import from_waves

    step = float(steps_of(np.array([coded.step_code]))[0])
    weights = steps_of(coded.weight_codes)
    waves = coded.waves - CENTROID * np.sign(coded.waves)
    tracks = from_waves(waves * step)
    rows = coded.basis * _basis_steps(weights[coded.free :], coded.scale_codes, step)
    rest = coded.mean * (step / weights[coded.free :]) + tracks[:, coded.free :] @ rows
    numbers = np.concatenate([tracks[:, : coded.free] / weights[: coded.free], rest], axis=1)
    if not np.isfinite(numbers).all():
        raise damaged("the numbers run away")
    wxyz = all_rotations(coded.fit.joints(skeleton), numbers)
    return Motion(skeleton, rate_hz, numbers[:, :3], SO3(wxyz), contacts, moving, name=name)


def _write(out: FieldWriter, coded: _Coded) -> None:
    from marey.compression._entropy_kernels import odds_tables
    from marey.compression._frames_kernels import write_frames
    from marey.compression._waves_kernels import write_waves

    write_fit(out, coded.fit)
    out.ints(coded.weight_codes)
    out.ints(np.array([coded.step_code]))
    out.ints(coded.mean)
    out.ints(coded.scale_codes)
    zeros = np.zeros(len(coded.basis), dtype=np.int64)
    out.raw(write_frames(coded.basis, zeros, 0, *odds_tables()).tobytes())
    out.data += write_waves(coded.waves, *odds_tables()).tobytes()


def decode_waves(fields: FieldReader, given: Skeleton | None) -> Motion:
    """Undo :func:`encode_waves`."""
    skeleton = read_skeleton(fields, given)
    frames, rate_hz, name, contacts = read_clip(fields)
    moving = read_table(fields, frames, skeleton)
    coded = _read(fields, frames, skeleton)
    return _decoded(coded, skeleton, rate_hz, contacts, name, moving)


def _read(fields: FieldReader, frames: int, skeleton: Skeleton) -> _Coded:
    from marey.compression._entropy_kernels import odds_tables
    from marey.compression._frames_kernels import read_frames
    from marey.compression._waves_kernels import read_waves

    fit = read_fit(fields, skeleton.num_joints)
    widths = np.array(WIDTHS)[fit.kinds]
    free, count = 3 + int(widths[0]), 3 + int(widths.sum())
    codes, step = fields.ints(count), int(fields.ints(1)[0])
    mean, scales = fields.ints(count - free), fields.ints()
    data = np.frombuffer(fields.raw(), dtype=np.uint8).copy()
    if len(scales) > count:
        raise damaged(f"{len(scales)} components of {count} numbers")
    basis, _, used = read_frames(data, len(scales), count - free, 0, *odds_tables())
    rest = np.frombuffer(fields.data, dtype=np.uint8)[fields.place :].copy()
    width = free + len(scales)
    if used < 0 or frames * width > min(MAX_VALUES, (len(rest) + 16) << 14):
        raise damaged(f"{frames} frames of {width} tracks cannot be in {len(rest)} bytes")
    waves, used = read_waves(rest, frames, width, *odds_tables())
    if used < 0:
        raise damaged("the stream of waves ends too soon")
    return _Coded(fit, free, codes, step, mean, basis, scales, waves)
