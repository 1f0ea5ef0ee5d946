"""A codec for few bytes: principal components in a metric of metres, wavelets in time, one step for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import ConvergenceError, FloatArray, IntArray
from marey.compression._fields import FieldReader, FieldWriter, check_table_size, check_writable, format_error
from marey.compression._joints import WIDTHS, JointFit, fit_joints, read_fit, write_fit
from marey.compression._lock import detect_standing_points, has_lockable_feet, lock_feet, read_standing, write_standing
from marey.compression._skeleton_fields import read_clip, read_skeleton, write_clip, write_skeleton
from marey.compression._steps import decode_steps, encode_steps
from marey.compression._tables import read_offsets, write_offsets
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import Skeleton

if TYPE_CHECKING:
    from marey.compression._joint_kernels import JointTables

SAMPLES: Final = 200  # frames on which the metric is measured, about
FLOOR_M2: Final = 1e-4  # [m^2] added to the metric, so that joints that carry nothing keep their turn: a 1 cm lever
DEAD_ZONE: Final = 0.33  # coefficients below half a step and this are dropped: few bits for little error; by trial
ROUNDING_OFFSET: Final = (
    0.15  # how far outside the middle coefficients are restored, since those below were rounded down
)
BASIS_SHARE: Final = 0.5  # error that rounding the basis may cause, in steps
KEEP_SHARE: Final = 0.25  # components whose deviation is below this many steps are left out
STEPS_PER_OCTAVE: Final = 16
LARGEST_CODE: Final = 40 * STEPS_PER_OCTAVE
LARGEST_NUMBER: Final = 2.0**29  # that the coder takes
FIT_SHARE: Final = 0.02  # of the step, that constants of joints may use up

AcceptanceTest = Callable[[Motion], bool]


@dataclass(frozen=True, slots=True, eq=False)
class _AnalysedClip:
    """The clip in the numbers of its joints, and what they weigh."""

    fit: JointFit
    numbers: FloatArray  # (F, n)
    free: int  # the first numbers, root position and rotation, are coded one by one
    weights: FloatArray  # (n,) [m] rms of all joints per unit of each number
    metric: FloatArray  # (n - free, n - free) of the others


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
    write_standing(out, stands)
    measured: dict[int, _AnalysedClip] = {}

    def tried(code: int) -> tuple[_WaveletCode, bool]:
        octave = code // STEPS_PER_OCTAVE
        if octave not in measured:
            measured[octave] = _analyse_clip(motion, FIT_SHARE * 2.0**octave)
        coded = _quantise_clip(measured[octave], code)
        decoded = _decode_motion(coded, motion.skeleton, motion.rate_hz, None, motion.name, moving)
        return coded, is_good(decoded if stands is None else lock_feet(decoded, stands))

    _write_code(out, _search_largest_step(tried, round(STEPS_PER_OCTAVE * np.log2(first_step_m)), motion.name))
    return bytes(out.data)


def _search_largest_step(tried: Callable[[int], tuple[_WaveletCode, bool]], code: int, name: str) -> _WaveletCode:
    """Go by octaves until the verdict changes, then halve the stride down to the finest step."""
    coded, good = tried(code)
    stride, best = STEPS_PER_OCTAVE, coded if good else None
    while abs(code) <= LARGEST_CODE - STEPS_PER_OCTAVE:
        code += stride if good else -stride
        coded, is_good = tried(code)
        best = coded if is_good else best
        if is_good != good:
            break
    if best is None:
        raise ConvergenceError(f"no step of the quantiser fits '{name}'; ask for another error")
    low = best.step_code
    while stride > 1:
        stride //= 2
        coded, is_good = tried(low + stride)
        if is_good:
            low, best = low + stride, coded
    return best


def _analyse_clip(motion: Motion, tolerance_m: float) -> _AnalysedClip:
    from marey.compression._layout import compute_reach

    skeleton = motion.skeleton
    fit, numbers = fit_joints(motion, tolerance_m / compute_reach(skeleton, 0.03))
    check_writable(*numbers.shape)
    joints = fit.joints(skeleton)
    free = int(joints.starts[1])
    metric = _compute_metric(motion, joints, numbers)
    metric[np.diag_indices(len(metric))] += FLOOR_M2
    weights = np.concatenate([np.full(3, np.sqrt(skeleton.num_joints)), np.sqrt(np.diag(metric))])
    return _AnalysedClip(fit, numbers, free, weights, metric[free - 3 :, free - 3 :])


def _compute_metric(motion: Motion, joints: JointTables, numbers: FloatArray) -> FloatArray:
    from marey.compression._joint_kernels import compute_columns
    from marey.compression._waves_kernels import compute_position_metric

    rows = slice(None, None, max(1, motion.num_frames // SAMPLES))
    places, frames = motion[rows].joint_frames()
    owners = np.repeat(np.arange(len(joints.kinds)), np.diff(joints.starts))
    columns = compute_columns(joints, np.ascontiguousarray(numbers[rows]), owners)
    return compute_position_metric(np.array(motion.skeleton.parents), places, frames.matrix(), columns, owners)


def _quantise_clip(clip: _AnalysedClip, step_code: int) -> _WaveletCode:
    """Quantise everything with one step."""
    step = decode_step(step_code)
    codes = encode_steps(clip.weights)
    weights = decode_steps(codes)
    mean_steps = step / weights[clip.free :]
    mean = np.rint(clip.numbers[:, clip.free :].mean(axis=0) / mean_steps).astype(np.int64)
    rest = clip.numbers[:, clip.free :] - mean * mean_steps
    basis, scales = _quantise_basis(rest, clip.metric, weights[clip.free :], step)
    rows = basis * _basis_steps(weights[clip.free :], scales, step)
    scores = _project_scores(rest, rows, clip.metric)
    tracks = np.concatenate([clip.numbers[:, : clip.free] * weights[: clip.free], scores], axis=1)
    return _WaveletCode(clip.fit, clip.free, codes, step_code, mean, basis, scales, _quantise_tracks(tracks, step))


def decode_step(code: int) -> float:
    """Step [m] of the quantiser."""
    if abs(code) > LARGEST_CODE:
        raise format_error("the step of the quantiser is out of range")
    return 2.0 ** (code / STEPS_PER_OCTAVE)


def _quantise_basis(
    rest: FloatArray, metric: FloatArray, weights: FloatArray, step: float
) -> tuple[IntArray, IntArray]:
    """Principal components ``(k, n)`` in the metric, rounded, and the codes ``(k,)`` of their deviations."""
    if not rest.shape[1]:
        return np.zeros((0, 0), dtype=np.int64), np.zeros(0, dtype=np.int64)
    lower = np.linalg.cholesky(metric)
    scaled = rest @ lower
    values, vectors = np.linalg.eigh(scaled.T @ scaled / len(rest))
    deviations = np.sqrt(np.maximum(values[::-1], 0.0))
    count = int((deviations > KEEP_SHARE * step).sum())
    rows = np.linalg.solve(lower.T, vectors[:, ::-1][:, :count]).T
    codes = encode_steps(np.maximum(deviations[:count], step))
    rounded = np.rint(rows / _basis_steps(weights, codes, step)).astype(np.int64)
    return rounded, codes


def _basis_steps(weights: FloatArray, codes: IntArray, step: float) -> FloatArray:
    """Grid ``(k, n)`` of the components: fine where they move much."""
    share = BASIS_SHARE * step / np.sqrt(max(len(weights), 1))
    return share / (decode_steps(codes)[:, None] * weights)


def _project_scores(rest: FloatArray, rows: FloatArray, metric: FloatArray) -> FloatArray:
    """Coordinates ``(F, k)`` of the nearest combinations of the rounded components, in the metric."""
    if not len(rows):
        return np.zeros((len(rest), 0))
    pulled = rows @ metric
    gram = pulled @ rows.T
    gram[np.diag_indices(len(gram))] += 1e-12 * np.trace(gram)
    return np.asarray(np.linalg.solve(gram, pulled @ rest.T).T, dtype=np.float64)


def _quantise_tracks(tracks: FloatArray, step: float) -> IntArray:
    from marey.compression._waves_kernels import forward_wavelet

    waves = forward_wavelet(np.ascontiguousarray(tracks)) / step
    if np.abs(waves).max(initial=0.0) > LARGEST_NUMBER:
        raise ConvergenceError("so small a distortion needs more digits than this codec has; ask for a bound instead")
    return (np.sign(waves) * np.floor(np.abs(waves) + 0.5 - DEAD_ZONE).clip(0.0)).astype(np.int64)


def _decode_motion(
    coded: _WaveletCode,
    skeleton: Skeleton,
    rate_hz: float,
    contacts: Contacts | None,
    name: str,
    moving: FloatArray | None,
) -> Motion:
    from marey.compression._joint_kernels import compute_rotations
    from marey.compression._waves_kernels import inverse_wavelet

    step = decode_step(coded.step_code)
    weights = decode_steps(coded.weight_codes)
    waves = coded.waves + ROUNDING_OFFSET * np.sign(coded.waves)
    tracks = inverse_wavelet(waves * step)
    rows = coded.basis * _basis_steps(weights[coded.free :], coded.scale_codes, step)
    rest = coded.mean * (step / weights[coded.free :]) + tracks[:, coded.free :] @ rows
    numbers = np.concatenate([tracks[:, : coded.free] / weights[: coded.free], rest], axis=1)
    if not np.isfinite(numbers).all():
        raise format_error("the numbers run away")
    wxyz = compute_rotations(coded.fit.joints(skeleton), numbers)
    return Motion(skeleton, rate_hz, numbers[:, :3], SO3(wxyz), contacts, moving, name=name)


def _write_code(out: FieldWriter, coded: _WaveletCode) -> None:
    from marey.compression._entropy_kernels import build_odds_tables
    from marey.compression._frames_kernels import write_frames
    from marey.compression._waves_kernels import write_wavelet

    write_fit(out, coded.fit)
    out.ints(coded.weight_codes)
    out.ints(np.array([coded.step_code]))
    out.ints(coded.mean)
    out.ints(coded.scale_codes)
    zeros = np.zeros(len(coded.basis), dtype=np.int64)
    out.raw(write_frames(coded.basis, zeros, 0, *build_odds_tables()).tobytes())
    out.data += write_wavelet(coded.waves, *build_odds_tables()).tobytes()


def decode_wavelet(fields: FieldReader, given: Skeleton | None) -> Motion:
    """Undo :func:`encode_waves`."""
    skeleton = read_skeleton(fields, given)
    frames, rate_hz, name, contacts = read_clip(fields)
    moving = read_offsets(fields, frames, skeleton)
    stands = read_standing(fields, frames)
    if stands is not None and not has_lockable_feet(skeleton):
        raise format_error("feet to lock on a skeleton without legs")
    coded = _read_code(fields, frames, skeleton)
    decoded = _decode_motion(coded, skeleton, rate_hz, contacts, name, moving)
    return decoded if stands is None else lock_feet(decoded, stands)


def _read_code(fields: FieldReader, frames: int, skeleton: Skeleton) -> _WaveletCode:
    from marey.compression._entropy_kernels import build_odds_tables
    from marey.compression._frames_kernels import read_frames
    from marey.compression._waves_kernels import read_wavelet

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
    return _WaveletCode(fit, free, codes, step, mean, basis, scales, waves)
