"""Wavelet codec: principal components in a metric of joint positions, wavelets in time, one quantiser step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from marey.base import ConvergenceError, FloatArray, IntArray, kernel
from marey.compression.decoder_ik import detect_standing_points, has_lockable_feet, lock_feet
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
from marey.compression.joint_fit import (
    WIDTHS,
    JointFit,
    JointTables,
    compute_columns,
    compute_rotations,
    fit_joints,
    read_fit,
    write_fit,
)
from marey.compression.pose_error import compute_reach
from marey.compression.predictive import read_offsets, write_offsets
from marey.compression.predictor import read_frames, write_frames
from marey.compression.range_coder import (
    GROUPS,
    RATIOS,
    Bytes,
    Coder,
    NumberContext,
    build_odds_tables,
    close_stream,
    code_number,
    magnitude_bucket,
    new_coder,
    open_stream,
)
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import Skeleton

ALPHA: Final = -1.586134342059924  # the four lifting steps of the biorthogonal 9/7 wavelet
BETA: Final = -0.052980118572961
GAMMA: Final = 0.882911075530934
DELTA: Final = 0.443506852043971
ZETA: Final = 1.149604398860241  # makes both bands nearly orthonormal
MIN_BAND_LENGTH: Final = 4  # a track this short is not split further
BYTES_PER_NUMBER: Final = 16


@kernel
def count_wavelet_levels(frames: int) -> int:
    """How often a track of so many frames is split."""
    count = 0
    while frames > MIN_BAND_LENGTH:
        frames = (frames + 1) // 2
        count += 1
    return count


@kernel
def _lifting_step(x: FloatArray, first: int, weight: float) -> None:
    """Add ``weight`` times both neighbours to every second row from ``first``; the ends are mirrored."""
    n = x.shape[0]
    for t in range(first, n, 2):
        left = t - 1 if t > 0 else t + 1
        right = t + 1 if t + 1 < n else t - 1
        for c in range(x.shape[1]):
            x[t, c] += weight * (x[left, c] + x[right, c])


@kernel
def forward_wavelet(tracks: FloatArray) -> FloatArray:
    """Wavelet coefficients ``(F, n)`` of tracks ``(F, n)``: the coarsest band first, then finer and finer details."""
    out = tracks.copy()
    size = out.shape[0]
    for _ in range(count_wavelet_levels(out.shape[0])):
        x = out[:size].copy()
        _lifting_step(x, 1, ALPHA)
        _lifting_step(x, 0, BETA)
        _lifting_step(x, 1, GAMMA)
        _lifting_step(x, 0, DELTA)
        # Even rows are the coarse band, odd rows the details
        half = (size + 1) // 2
        for t in range(size):
            for c in range(x.shape[1]):
                if t % 2 == 0:
                    out[t // 2, c] = x[t, c] * ZETA
                else:
                    out[half + t // 2, c] = x[t, c] / ZETA
        size = half
    return out


@kernel
def inverse_wavelet(waves: FloatArray) -> FloatArray:
    """Undo :func:`forward_wavelet`."""
    out = waves.copy()
    levels = count_wavelet_levels(out.shape[0])
    for level in range(levels - 1, -1, -1):
        size = out.shape[0]
        for _ in range(level):
            size = (size + 1) // 2
        half = (size + 1) // 2
        x = np.empty((size, out.shape[1]))
        for t in range(size):
            for c in range(x.shape[1]):
                x[t, c] = out[t // 2, c] / ZETA if t % 2 == 0 else out[half + t // 2, c] * ZETA
        _lifting_step(x, 0, -DELTA)
        _lifting_step(x, 1, -GAMMA)
        _lifting_step(x, 0, -BETA)
        _lifting_step(x, 1, -ALPHA)
        out[:size] = x
    return out


class _Band(NamedTuple):
    """Rows of the coefficients that belong together."""

    first: int
    last: int  # not included
    above: int  # first row of the band one coarser, or -1
    group: int  # which set of weights to use


@kernel
def _code_band(coder: Coder, data: Bytes, q: IntArray, band: _Band, slow: IntArray, is_reading: bool) -> Bytes:
    """Write or read the rows of one band of coefficients."""
    count, first, above = q.shape[1], band.first, band.above
    room = BYTES_PER_NUMBER * (count + 8)
    for t in range(first, band.last):
        if not is_reading and coder.interval[2] + room > data.shape[0]:
            grown = np.empty(2 * data.shape[0] + room, dtype=np.uint8)
            grown[: data.shape[0]] = data
            data = grown
        unusual = 0
        for c in range(count):
            # Expected magnitude from the two rows before, the parent one band up, and the running mean
            near = abs(q[t - 1, c]) if t > first else 0
            far = abs(q[t - 2, c]) if t > first + 1 else near
            parent = abs(q[above + (t - first) // 2, c]) if above >= 0 else 0
            beside = q[t, c - 1] if c > 0 else 0
            fast = (256 * (2 * near + far + 2 * parent) + slow[c]) // 6
            ratio = min(max((unusual + 8 + 16 * (RATIOS // 2)) >> 4, 0), RATIOS - 1)
            last = min(parent, 3) * 4 + min(near, 3)
            known = NumberContext(c, band.group, fast, slow[c], ratio, last, abs(beside), 0)
            q[t, c] = code_number(coder, data, q[t, c], known, is_reading)
            size = 256 * abs(q[t, c])
            surprise = magnitude_bucket(size + 64) - magnitude_bucket(((fast + slow[c]) >> 1) + 64)
            unusual += (16 * surprise - unusual) >> 3
            slow[c] += (size - slow[c]) >> 4
    return data


@kernel
def _code_bands(coder: Coder, data: Bytes, q: IntArray, is_reading: bool) -> Bytes:
    frames, count = q.shape
    levels = count_wavelet_levels(frames)
    sizes = np.empty(levels + 1, dtype=np.int64)
    sizes[0] = frames
    for level in range(levels):
        sizes[level + 1] = (sizes[level] + 1) // 2
    # The coarsest band, then finer and finer ones, each looking at the one above
    slow = np.full(count, 2048)
    data = _code_band(coder, data, q, _Band(0, sizes[levels], -1, 0), slow, is_reading)
    above = -1
    for level in range(levels, 0, -1):
        group = min(1 + levels - level, GROUPS - 1) if levels - level < 2 else GROUPS - 1
        band = _Band(sizes[level], sizes[level - 1], above, group)
        data = _code_band(coder, data, q, band, slow, is_reading)
        above = sizes[level]
        if is_reading and coder.interval[2] > data.shape[0] + 8:
            break
        for c in range(count):
            slow[c] = slow[c] >> 1
    return data


@kernel
def write_wavelet(q: IntArray, stretch: IntArray, squash: IntArray) -> Bytes:
    """Bytes of quantised coefficients ``(F, n)``."""
    coder = new_coder(q.shape[1] + 1, stretch, squash)
    data = np.empty(4096 + BYTES_PER_NUMBER * (q.shape[1] + 8), dtype=np.uint8)
    data = _code_bands(coder, data, q.copy(), False)
    length = close_stream(coder, data)
    return data[:length].copy()


@kernel
def read_wavelet(data: Bytes, frames: int, count: int, stretch: IntArray, squash: IntArray) -> tuple[IntArray, int]:
    """Undo :func:`write_wavelet`; the last value is how many bytes were used, -1 if they did not suffice."""
    coder = new_coder(count + 1, stretch, squash)
    open_stream(coder, data)
    q = np.zeros((frames, count), dtype=np.int64)
    _code_bands(coder, data, q, True)
    return q, (coder.interval[2] if coder.interval[2] <= data.shape[0] + 8 else -1)


@kernel
def compute_position_metric(
    parents: IntArray, places: FloatArray, frames: FloatArray, columns: FloatArray, owners: IntArray
) -> FloatArray:
    """Metric ``(n, n)`` of numbers that turn joints: their product is the sum of products of all joint velocities.

    Args:
        parents: ``(J,)``.
        places: ``(F, J, 3)`` joint positions.
        frames: ``(F, J, 3, 3)`` world rotations.
        columns: ``(F, n, 3)`` angular velocity of each number in the frame of its joint.
        owners: ``(n,)`` the joint of each number.
    """
    count, joints = owners.shape[0], parents.shape[0]
    metric = np.zeros((count, count))
    moves = np.zeros((count, 3 * joints))
    for f in range(places.shape[0]):
        moves[:] = 0.0
        for i in range(count):
            j = owners[i]
            w = frames[f, j] @ columns[f, i]
            for d in range(j + 1, joints):
                above = parents[d]
                while above > j:
                    above = parents[above]
                if above != j:
                    continue
                # A joint below moves by the cross product of angular velocity and lever
                lever = places[f, d] - places[f, j]
                a, b, c = lever[0], lever[1], lever[2]
                moves[i, 3 * d] = w[1] * c - w[2] * b
                moves[i, 3 * d + 1] = w[2] * a - w[0] * c
                moves[i, 3 * d + 2] = w[0] * b - w[1] * a
        metric += moves @ moves.T
    return metric / places.shape[0]


SAMPLES: Final = 200  # frames on which the metric is measured, about
FLOOR_M2: Final = 1e-4  # [m^2] added to the metric, so that joints that carry nothing keep their turn: a 1 cm lever
DEAD_ZONE: Final = 0.33  # coefficients below half a step and this are dropped: few bits for little error; by trial
ROUNDING_OFFSET: Final = 0.15  # how far outside the middle coefficients are restored: those below were rounded down
BASIS_SHARE: Final = 0.5  # error that rounding the basis may cause, in steps
KEEP_SHARE: Final = 0.25  # components whose deviation is below this many steps are left out
STEPS_PER_OCTAVE: Final = 16
LARGEST_CODE: Final = 40 * STEPS_PER_OCTAVE
LARGEST_NUMBER: Final = 2.0**29  # that the coder takes
FIT_SHARE: Final = 0.02  # of the step, that constants of joints may use up

AcceptanceTest = Callable[[Motion], bool]


@dataclass(frozen=True, slots=True, eq=False)
class _WaveletCode:
    """What the file holds: all whole numbers."""

    fit: JointFit
    free: int
    weight_codes: IntArray  # (n,)
    step_code: int
    mean: IntArray  # (n - free,)
    basis: IntArray  # (k, n - free)
    scale_codes: IntArray  # (k,)
    waves: IntArray  # (F, free + k)


def encode_wavelet(
    motion: Motion, is_good: AcceptanceTest, *, is_inside: bool, first_step_m: float, is_locked: bool = False
) -> bytes:
    """Compress with the largest step of which ``is_good`` approves the decoded motion.

    Args:
        motion: the clip.
        is_good: looks at a decoded motion.
        is_inside: whether the skeleton is in the file.
        first_step_m: [m] where the search begins.
        is_locked: store when feet stand, and keep them from sliding when decoding.

    Raises:
        ConvergenceError: no step is good.
    """
    out = FieldWriter()
    write_skeleton(out, motion.skeleton, is_inside=is_inside)
    write_clip(out, motion)
    moving = write_offsets(out, motion.translations, 0.1 * first_step_m)
    stands = detect_standing_points(motion) if is_locked else None
    out.whole(0 if stands is None else 1)
    if stands is not None:
        out.flags(stands)
    fits: dict[int, tuple[JointFit, FloatArray, FloatArray]] = {}

    def try_step(code: int) -> tuple[_WaveletCode, bool]:
        octave = code // STEPS_PER_OCTAVE
        if octave not in fits:
            fit, numbers = fit_joints(motion, FIT_SHARE * 2.0**octave / compute_reach(motion.skeleton, 0.03))
            check_writable(*numbers.shape)
            fits[octave] = fit, numbers, _compute_metric(motion, fit.joints(motion.skeleton), numbers)
        coded = _quantise(*fits[octave], code)
        decoded = _decode_motion(coded, motion.skeleton, motion.rate_hz, None, motion.name, moving)
        return coded, is_good(decoded if stands is None else lock_feet(decoded, stands))

    # Go by octaves until the verdict changes, then halve the stride down to the finest step
    code = round(STEPS_PER_OCTAVE * np.log2(first_step_m))
    tried, was_good = try_step(code)
    stride, best = STEPS_PER_OCTAVE, tried if was_good else None
    while abs(code) <= LARGEST_CODE - STEPS_PER_OCTAVE:
        code += stride if was_good else -stride
        tried, is_better = try_step(code)
        best = tried if is_better else best
        if is_better != was_good:
            break
    if best is None:
        raise ConvergenceError(f"no step of the quantiser fits '{motion.name}'; ask for another error")
    while stride > 1:
        stride //= 2
        # A single pose keeps any error with the largest step there is
        tried, is_better = try_step(min(best.step_code + stride, LARGEST_CODE))
        best = tried if is_better else best
    write_fit(out, best.fit)
    out.ints(best.weight_codes)
    out.ints(np.array([best.step_code]))
    out.ints(best.mean)
    out.ints(best.scale_codes)
    zeros = np.zeros(len(best.basis), dtype=np.int64)
    out.raw(write_frames(best.basis, zeros, 0, *build_odds_tables()).tobytes())
    out.data += write_wavelet(best.waves, *build_odds_tables()).tobytes()
    return bytes(out.data)


def _quantise(fit: JointFit, numbers: FloatArray, metric: FloatArray, code: int) -> _WaveletCode:
    """Everything with one step: weights, mean, principal components, and the wavelets of their scores."""
    step = decode_step(code)
    # Root position and rotation are coded one by one, the others by their components in the metric
    free = 3 + WIDTHS[int(fit.kinds[0])]
    metric = metric + FLOOR_M2 * np.eye(len(metric))
    weight_codes = encode_steps(np.concatenate([np.full(3, np.sqrt(len(fit.kinds))), np.sqrt(np.diag(metric))]))
    weights = decode_steps(weight_codes)
    metric = metric[free - 3 :, free - 3 :]
    mean_steps = step / weights[free:]
    mean = np.rint(numbers[:, free:].mean(axis=0) / mean_steps).astype(np.int64)
    rest = numbers[:, free:] - mean * mean_steps
    # Principal components (k, n) in the metric, rounded, and the codes (k,) of their deviations
    if not rest.shape[1]:
        basis, scale_codes = np.zeros((0, 0), dtype=np.int64), np.zeros(0, dtype=np.int64)
    else:
        # Components of the samples times a root of the metric, brought back
        lower = np.linalg.cholesky(metric)
        scaled = rest @ lower
        values, vectors = np.linalg.eigh(scaled.T @ scaled / len(rest))
        deviations = np.sqrt(np.maximum(values[::-1], 0.0))
        count = int((deviations > KEEP_SHARE * step).sum())
        rows = np.linalg.solve(lower.T, vectors[:, ::-1][:, :count]).T
        scale_codes = encode_steps(np.maximum(deviations[:count], step))
        basis = np.rint(rows / _basis_steps(weights[free:], scale_codes, step)).astype(np.int64)
    rows = basis * _basis_steps(weights[free:], scale_codes, step)
    scores = np.zeros((len(rest), 0))
    if len(rows):
        # Coordinates of the nearest combinations of the rounded components, in the metric
        pulled = rows @ metric
        gram = pulled @ rows.T
        gram[np.diag_indices(len(gram))] += 1e-12 * np.trace(gram)
        scores = np.asarray(np.linalg.solve(gram, pulled @ rest.T), dtype=np.float64).T
    tracks = np.concatenate([numbers[:, :free] * weights[:free], scores], axis=1)
    waves = forward_wavelet(np.ascontiguousarray(tracks)) / step
    if np.abs(waves).max(initial=0.0) > LARGEST_NUMBER:
        raise ConvergenceError("this codec does not reach so small a distortion; give an error bound instead")
    rounded = (np.sign(waves) * np.floor(np.abs(waves) + 0.5 - DEAD_ZONE).clip(0.0)).astype(np.int64)
    return _WaveletCode(fit, free, weight_codes, code, mean, basis, scale_codes, rounded)


def _compute_metric(motion: Motion, joints: JointTables, numbers: FloatArray) -> FloatArray:
    """Metric of the numbers, measured on some of the frames."""
    rows = slice(None, None, max(1, motion.num_frames // SAMPLES))
    places, frames = motion[rows].joint_frames()
    owners = np.repeat(np.arange(len(joints.kinds)), np.diff(joints.starts))
    columns = compute_columns(joints, np.ascontiguousarray(numbers[rows]), owners)
    return compute_position_metric(np.array(motion.skeleton.parents), places, frames.matrix(), columns, owners)


def decode_step(code: int) -> float:
    """Step [m] of the quantiser."""
    if abs(code) > LARGEST_CODE:
        raise format_error("the step of the quantiser is out of range")
    return 2.0 ** (code / STEPS_PER_OCTAVE)


def _basis_steps(weights: FloatArray, codes: IntArray, step: float) -> FloatArray:
    """Grid ``(k, n)`` of the components: fine where they move much."""
    share = BASIS_SHARE * step / np.sqrt(max(len(weights), 1))
    return share / (decode_steps(codes)[:, None] * weights)


def _decode_motion(
    coded: _WaveletCode,
    skeleton: Skeleton,
    rate_hz: float,
    contacts: Contacts | None,
    name: str,
    moving: FloatArray | None,
) -> Motion:
    step = decode_step(coded.step_code)
    weights = decode_steps(coded.weight_codes)
    # Tracks of the root's numbers and of the scores, then mean and components
    waves = coded.waves + ROUNDING_OFFSET * np.sign(coded.waves)
    tracks = inverse_wavelet(waves * step)
    rows = coded.basis * _basis_steps(weights[coded.free :], coded.scale_codes, step)
    rest = coded.mean * (step / weights[coded.free :]) + tracks[:, coded.free :] @ rows
    numbers = np.concatenate([tracks[:, : coded.free] / weights[: coded.free], rest], axis=1)
    if not np.isfinite(numbers).all():
        raise format_error("the numbers run away")
    wxyz = compute_rotations(coded.fit.joints(skeleton), numbers)
    return Motion(skeleton, rate_hz, numbers[:, :3], SO3(wxyz), contacts, moving, name=name)


def decode_wavelet(fields: FieldReader, given: Skeleton | None) -> Motion:
    """Undo :func:`encode_wavelet`."""
    skeleton = read_skeleton(fields, given)
    frames, rate_hz, name, contacts = read_clip(fields)
    moving = read_offsets(fields, frames, skeleton)
    stands = fields.flags(frames, 4) if fields.whole(1) else None
    if stands is not None and not has_lockable_feet(skeleton):
        raise format_error("feet to lock on a skeleton without legs")
    # Joints, weights, step, mean and components, then the stream of wavelets
    fit = read_fit(fields, skeleton.num_joints)
    widths = np.array(WIDTHS)[fit.kinds]
    free, count = 3 + int(widths[0]), 3 + int(widths.sum())
    codes, step = fields.ints(count), int(fields.ints(1)[0])
    mean, scales = fields.ints(count - free), fields.ints()
    data = np.frombuffer(fields.raw(), dtype=np.uint8).copy()
    if len(scales) > count:
        raise format_error(f"{len(scales)} components of {count} numbers")
    basis, _, used = read_frames(data, len(scales), count - free, 0, *build_odds_tables())
    rest = np.frombuffer(fields.data, dtype=np.uint8)[fields.place :].copy()
    width = free + len(scales)
    check_table_size(frames, max(width, count), len(rest) if used >= 0 else 0)
    waves, used = read_wavelet(rest, frames, width, *build_odds_tables())
    if used < 0:
        raise format_error("the stream of waves ends too soon")
    coded = _WaveletCode(fit, free, codes, step, mean, basis, scales, waves)
    decoded = _decode_motion(coded, skeleton, rate_hz, contacts, name, moving)
    return decoded if stands is None else lock_feet(decoded, stands)
