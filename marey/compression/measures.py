"""Error measures of decoded motions, from two communities."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from marey.base import FloatArray, InputError, Result, split_blocks
from marey.motion import Motion

ACL_SHELL_M = 0.03  # [m] where ACL's regression tests put their points
ACL_BYTES = 40  # [byte] of a transform: rotation 4, translation 3, scale 3 float32
MIN_MOVEMENT_M = 1e-10  # [m] less movement than this is rounding
CONTACT_HEIGHT_M, CONTACT_SPEED_MPS = 0.05, 0.3  # a foot this low and slow stands


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
