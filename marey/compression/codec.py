"""compress and decompress: a motion to few bytes and back; error measures of decoded motions, from two communities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Final

import numpy as np

from marey.base import ConvergenceError, FloatArray, InputError, Result, UnknownNameError, split_blocks
from marey.compression.decoder_ik import CONTACT_HEIGHT_M, CONTACT_SPEED_MPS
from marey.compression.file_format import (
    PREDICTIVE_CODE,
    TOURNIER_CODE,
    WAVELET_CODE,
    FieldReader,
    pack_file,
    unpack_file,
)
from marey.compression.predictive import ErrorBound, decode_predictive, encode_predictive
from marey.compression.tournier import decode_tournier, encode_tournier, read_tournier, write_tournier
from marey.compression.wavelet import decode_wavelet, encode_wavelet
from marey.motion import Motion
from marey.skeleton import Skeleton

ACL_SHELL_M = 0.03  # [m] where ACL's regression tests put their points
ACL_BYTES = 40  # [byte] of a transform: rotation 4, translation 3, scale 3 float32
MIN_MOVEMENT_M = 1e-10  # [m] less movement than this is rounding


def raw_bytes_acl(motion: Motion) -> int:
    """Size before compression as ACL counts: 40 bytes a joint a frame (rotation 4, translation 3, scale 3 float32)."""
    return ACL_BYTES * motion.num_frames * motion.skeleton.num_joints


def raw_bytes_tournier(motion: Motion) -> int:
    """Size before compression as [Tournier2011]_ §9.1.3 counts: float32 of 3 angles a joint and of the root's place."""
    return 4 * 3 * motion.num_frames * (motion.skeleton.num_joints + 1)


def compute_distortion(original: Motion, decoded: Motion) -> float:
    r"""Distortion rate [%] of the joint positions ``A`` against their movement about their means over time.

    .. math:: d = 100\,\frac{\|A-\tilde A\|}{\|A-E(A)\|}

    [Tournier2011]_ §9.1.3, as printed. A clip without movement gives 0 if it is exact, else infinity.
    """
    _check_same_clip(original, decoded)
    before, after = original.joint_positions(), decoded.joint_positions()
    gap, spread = _rms(before - after), compute_movement(original)
    if spread == 0.0:
        return 0.0 if gap == 0.0 else float("inf")
    return 100.0 * gap / spread


def compute_movement(motion: Motion) -> float:
    """Root-mean-square deviation of joints from their means [m]; 0 for a motionless clip."""
    positions = motion.joint_positions()
    spread = _rms(positions - positions.mean(axis=0))
    return spread if spread > MIN_MOVEMENT_M else 0.0


def compute_joint_errors(original: Motion, decoded: Motion) -> FloatArray:
    """Distance ``(F, J)`` [m] of each joint from where it was captured."""
    _check_same_clip(original, decoded)
    errors = np.empty(original.rotations.shape)
    for part in split_blocks(len(errors)):
        errors[part] = np.linalg.norm(original[part].joint_positions() - decoded[part].joint_positions(), axis=-1)
    return errors


def compute_shell_errors(original: Motion, decoded: Motion, shell_m: float = ACL_SHELL_M) -> FloatArray:
    """Largest distance ``(F, J)`` [m] of three points of each joint from where they were captured.

    The points lie ``shell_m`` from the joint along the three axes of its frame, so that the measure sees rotations too:
    ACL's error metric for transforms that may be scaled.
    """
    _check_same_clip(original, decoded)
    errors = np.empty(original.rotations.shape)
    for part in split_blocks(len(errors), 1024):
        positions, frames = original[part].joint_frames()
        decoded_positions, decoded_frames = decoded[part].joint_frames()
        shift = (decoded_positions - positions)[..., None]
        turn = shell_m * (decoded_frames.matrix() - frames.matrix())  # columns are the axes
        errors[part] = np.linalg.norm(shift + turn, axis=-2).max(axis=-1)
    return errors


@dataclass(frozen=True, slots=True, repr=False)
class CodecReport(Result):
    """Error and ratio of a compressed motion."""

    bytes: int
    ratio_acl: float  # against 40 bytes a joint a frame
    ratio_tournier: float  # against 12 bytes a joint a frame and the root's place
    distortion_percent: float  # d
    distortion_energy_percent: float  # d squared over 100
    mean_joint_error_mm: float
    p95_joint_error_mm: float
    max_joint_error_mm: float
    max_shell_error_mm: float  # three points at 3 cm
    mean_local_error_mm: float  # joints against the root: mean per-joint position error
    foot_skate_ratio: float  # slide of standing feet, decoded over captured
    jerk_ratio: float  # root mean square third difference of joint positions, decoded over captured

    def as_dict(self) -> dict[str, float]:
        """Plain data for JSON."""
        return asdict(self)


def evaluate_codec(original: Motion, decoded: Motion, data: bytes) -> CodecReport:
    """Measure a decoded motion against the captured one."""
    errors = 1e3 * compute_joint_errors(original, decoded)
    d = compute_distortion(original, decoded)
    # Joints against the root, and the third differences of joints in time
    local: list[FloatArray] = []
    jerks: list[float] = []
    for motion in (original, decoded):
        positions = motion.joint_positions()
        local.append(motion.rotations[:, :1].inverse() @ (positions - positions[:, :1]))
        third = np.diff(positions, 3, axis=0)
        jerks.append(_rms(third) if third.size else 0.0)
    return CodecReport(
        len(data),
        raw_bytes_acl(original) / max(len(data), 1),
        raw_bytes_tournier(original) / max(len(data), 1),
        d,
        d * d / 100.0,
        float(errors.mean()),
        float(np.percentile(errors, 95.0)),
        float(errors.max()),
        1e3 * float(compute_shell_errors(original, decoded).max()),
        1e3 * float(np.linalg.norm(local[0] - local[1], axis=-1).mean()),
        measure_foot_skate(decoded, original) / max(measure_foot_skate(original, original), 1e-9),
        jerks[1] / max(jerks[0], 1e-12),
    )


def measure_foot_skate(motion: Motion, original: Motion) -> float:
    """Mean horizontal speed [m/s] of the lowest joints while they stand in the original.

    A foot stands where it is lower than 5 cm above the lowest it gets and slower than 0.3 m/s.
    """
    _check_same_clip(original, motion)
    captured, moved = original.joint_positions(), motion.joint_positions()
    if len(captured) < 2:
        return 0.0
    # The four joints that are lowest on average
    feet = np.argsort(captured[..., 1].mean(axis=0))[:4]
    height = captured[1:, feet, 1] - captured[:, feet, 1].min(axis=0)
    speed = np.linalg.norm(np.diff(captured[:, feet], axis=0), axis=-1) * original.rate_hz
    stands = (height < CONTACT_HEIGHT_M) & (speed < CONTACT_SPEED_MPS)
    slide = np.linalg.norm(np.diff(moved[:, feet][..., [0, 2]], axis=0), axis=-1) * original.rate_hz
    return float(slide[stands].mean()) if stands.any() else 0.0


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _check_same_clip(original: Motion, decoded: Motion) -> None:
    if original.rotations.shape != decoded.rotations.shape:
        what = f"{original.rotations.shape} frames and joints against {decoded.rotations.shape}"
        raise InputError(what, "Compare a motion with its own decoded version")


MIN_ERROR_M: Final = 1e-8  # [m] a bound below this would code rounding
COARSE_M: Final = 5e-3  # [m] from this bound on, wavelets may take fewer bytes
STILL_ERROR_M: Final = 1e-6  # [m] bound for a clip in which nothing moves, whose distortion rate is undefined
TRACK_ERROR_M: Final = 1e-3  # [m] bound where none is asked for
TRACK_SHARE: Final = 0.3  # of a bound, for the thinned tracks of the thesis's codec; its poses take the rest
THIN_SPRING: Final = 1e-6  # [m^2] as in edits: coordinates reach the tracks
THIN_COUNTS: Final = (8, 16, 24, 36)  # geodesics tried in turn
MARGIN: Final = 0.97  # of the bound, when the decoded motion breaks it by rounding
METHOD_CHOICES: Final = ("default", "tournier2011")
DEFAULT_OPTIONS: Final = ("shell_m", "skeleton", "distortion_percent", "lock_feet", "levels")
TOURNIER_OPTIONS: Final = ("skeleton", "n_components", "root_levels", "end_levels", "ends", "spring", "aliasing")
CURVE_BOUNDS_M: Final = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)


def compress(motion: Motion, *, max_error_m: float | None = None, method: str = "default", **options: Any) -> bytes:
    """Compress a motion; :func:`decompress` gives it back.

    The default codec codes each joint with as few numbers as the clip uses (a knee is a hinge), predicts every number
    from decoded ones, quantises root outwards so that each joint makes up for the errors above it, decodes as it goes
    and halves the step of a frame that is off by more than the bound. Same motion, same bytes.

    The file holds the skeleton, rate, name, contacts, moving offsets and all frames; not ``source`` and
    ``load_report``.

    Args:
        motion: the clip.
        max_error_m: [m] no joint of any frame of the decoded file is off by more; with the default codec, nor are the
            three points ``shell_m`` away from it along the axes of its frame. 1 mm by default;
            ``method="tournier2011"`` has no bound unless one is given, and then takes as many geodesics and levels as
            keep it, those that are given left as they are.
        method: ``"default"``, or ``"tournier2011"``: the codec of [Tournier2011]_ ch. 9.
        **options: ``skeleton``: ``"inside"`` the file, or ``"outside"``: a fingerprint only, hand it to ``decompress``.
            Default codec: ``shell_m`` (0.03); ``distortion_percent``, a distortion rate in place of the bound, takes
            far fewer bytes, and ``lock_feet`` with it keeps standing feet from sliding. Tournier's: ``n_components``,
            ``root_levels``, ``end_levels``, ``ends``, ``spring``, ``aliasing``, as :func:`encode_tournier` has them.

    Raises:
        InputError: a bound that is not positive, an unknown option, or a bound together with a distortion rate.
        ConvergenceError: the bound cannot be held; the message says how near the finest settings come.
    """
    if method not in METHOD_CHOICES:
        raise UnknownNameError("method", method, "compress", METHOD_CHOICES)
    known = DEFAULT_OPTIONS if method == "default" else TOURNIER_OPTIONS
    for name in options:
        if name not in known:
            raise UnknownNameError("option", name, f"method '{method}'", known)
    where = options.pop("skeleton", "inside")
    if where not in ("inside", "outside"):
        raise InputError(f"skeleton is {where!r}", "Choose 'inside' or 'outside' the file")
    is_inside = where == "inside"
    bound_m = _require_positive(TRACK_ERROR_M if max_error_m is None else max_error_m, "max_error_m", MIN_ERROR_M)
    if method == "tournier2011":
        if max_error_m is not None:
            # As few geodesics as keep the bound, decoded and verified. The tracks get half of the bound. With all
            # levels kept and all joints as end effectors, more geodesics always come nearer; the count is doubled
            # until the bound is kept.
            most = 3 * (motion.skeleton.num_joints - 1)
            given = options.get("n_components")
            counts = [given] if given is not None else [*(c for c in THIN_COUNTS if c < most), most]
            leaves = {} if options.get("ends") is not None else {"ends": tuple(range(1, motion.skeleton.num_joints))}
            best, refusal = float("inf"), None
            # The end effectors of the thesis first, then every joint
            for extra in ({}, leaves) if leaves else ({},):
                for count in counts:
                    try:
                        asked: dict[str, Any] = {"spring": THIN_SPRING} | options | extra | {"n_components": count}
                        thinned = encode_tournier(motion, max_error_m=TRACK_SHARE * bound_m, **asked)
                    except InputError as error:
                        if given is not None:
                            raise
                        refusal = error
                        continue
                    data = pack_file(TOURNIER_CODE, write_tournier(thinned, motion, is_inside=is_inside))
                    worst = float(compute_joint_errors(motion, decompress(data, skeleton=motion.skeleton)).max())
                    if worst <= bound_m:
                        return data
                    best = min(best, worst)
            if refusal is not None and not isfinite(best):
                raise refusal
            raise ConvergenceError(
                f"tournier2011 cannot keep {1e3 * bound_m:g} mm on '{motion.name}': {1e3 * best:.3g} mm at its finest. "
                "Allow a larger error, or use the default method"
            )
        thinned = encode_tournier(motion, max_error_m=bound_m, **options)
        return pack_file(TOURNIER_CODE, write_tournier(thinned, motion, is_inside=is_inside))
    # A distortion rate is met by the wavelet codec alone, and stands for a bound
    percent = options.get("distortion_percent")
    if percent is not None and max_error_m is not None:
        raise InputError("max_error_m and distortion_percent are both given", "Ask for one of them")
    if options.get("lock_feet") and percent is None:
        raise InputError("lock_feet without distortion_percent", "A bound on every joint holds the feet already")
    if percent is not None:
        rate, spread = _require_positive(percent, "distortion_percent", 1e-6), compute_movement(motion)
        if spread == 0.0:  # a motionless clip has no rate-distortion scale
            return _encode_within(motion, ErrorBound(STILL_ERROR_M, ACL_SHELL_M), None, is_inside=is_inside)
        body = encode_wavelet(
            motion,
            lambda decoded: compute_distortion(motion, decoded) <= rate,
            is_inside=is_inside,
            first_step_m=max(0.05 * rate * spread, 1e-6),
            is_locked=bool(options.get("lock_feet", False)),
        )
        return pack_file(WAVELET_CODE, body)
    bound = ErrorBound(bound_m, _require_positive(options.get("shell_m", ACL_SHELL_M), "shell_m", 0.0))
    return _encode_within(motion, bound, options.get("levels"), is_inside=is_inside)


def decompress(data: bytes, *, skeleton: Skeleton | None = None) -> Motion:
    """Return the motion that was compressed.

    Args:
        data: what :func:`compress` gave.
        skeleton: needed if the file holds only its fingerprint.

    Raises:
        FormatError: the data are not a compressed motion, or are of another version, truncated or damaged.
        InputError: the skeleton is missing or another one.
    """
    method, body = unpack_file(data)
    fields = FieldReader(body)
    if method == TOURNIER_CODE:
        return decode_tournier(read_tournier(fields, skeleton))
    return decode_wavelet(fields, skeleton) if method == WAVELET_CODE else decode_predictive(fields, skeleton)


def rate_distortion(
    motion: Motion,
    *,
    max_errors_m: Sequence[float] = CURVE_BOUNDS_M,
    distortions_percent: Sequence[float] | None = None,
    **options: Any,
) -> tuple[CodecReport, ...]:
    """Size and errors at a row of bounds [m], or of distortion rates [%] if they are given, the finest first."""
    asked = [{"max_error_m": bound} for bound in sorted(max_errors_m)]
    if distortions_percent is not None:
        asked = [{"distortion_percent": rate} for rate in sorted(distortions_percent)]
    found: list[CodecReport] = []
    for target in asked:
        data = compress(motion, **target, **options)
        found.append(evaluate_codec(motion, decompress(data, skeleton=motion.skeleton), data))
    return tuple(found)


def _encode_within(motion: Motion, bound: ErrorBound, levels: tuple[int, ...] | None, *, is_inside: bool) -> bytes:
    """The smallest file of those that keep the bound, each decoded and verified."""
    files: list[bytes] = []
    asked = bound
    for _ in range(3):
        data = pack_file(PREDICTIVE_CODE, encode_predictive(motion, asked, is_inside=is_inside, levels=levels))
        if _is_within(motion, decompress(data, skeleton=motion.skeleton), bound):
            files.append(data)
            break
        # Rounding broke the bound: ask for a little less
        asked = ErrorBound(MARGIN * asked.max_error_m, asked.shell_m)
    if not files:
        raise ConvergenceError(f"cannot hold an error of {bound.max_error_m} m on '{motion.name}'; allow a larger one")
    if bound.max_error_m >= COARSE_M:
        body = encode_wavelet(
            motion,
            lambda decoded: _is_within(motion, decoded, bound),
            is_inside=is_inside,
            first_step_m=bound.max_error_m,
        )
        files.append(pack_file(WAVELET_CODE, body))
    return min(files, key=len)


def _is_within(motion: Motion, decoded: Motion, bound: ErrorBound) -> bool:
    limit = bound.max_error_m
    worst = compute_joint_errors(motion, decoded).max()
    return bool(worst <= limit and compute_shell_errors(motion, decoded, bound.shell_m).max() <= limit)


def _require_positive(value: Any, name: str, least: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} is {value!r}", "Give a number") from None
    if not isfinite(number) or number < least:
        raise InputError(f"{name} is {number:g}", f"Give a number of {least:g} at least")
    return number
