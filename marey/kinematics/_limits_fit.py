"""Limits learnt from clips: joint types, intervals, cones, polygons; one function for every kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError
from marey.kinematics._cones import ConeLimits, ReachConeLimits, compute_bone_frames
from marey.kinematics._ellipsoids import EllipsoidLimits
from marey.kinematics._limits import JointLimits
from marey.kinematics._limits_box import MARGIN_RAD, BoxLimits
from marey.kinematics._sdf import SdfLimits, compute_mean_rotation
from marey.kinematics._sdf_sample import split_inliers
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import Skeleton

NUM_SAMPLES = 100  # rotations that tell a joint's type ([Engell2012]_ §13)
FREEDOM_EIGENVALUE = 1e-4  # [-] variance of a quaternion component below which it is no freedom: about 1.1 degrees
FULL_CIRCLE_GAP_RAD = float(np.deg2rad(5.0))  # [rad] angles without a wider gap go all the way round
TRIM = 0.005  # share of the samples that a robust interval leaves out

KINDS = ("box", "cone", "reach", "ellipsoid", "sdf", "field")
JointKind = Literal["fixed", "hinge", "ball"]


@final
@dataclass(frozen=True, slots=True, eq=False)
class JointEstimate:
    """What kind of joint the data show, and its intervals."""

    joint: str
    kind: JointKind
    axis: FloatArray  # (3,) unit axis of a hinge; zero for the others
    low_rad: FloatArray  # (3,) hinge: its angle first; ball: Z-Y-Z angles; in [0, 2 pi)
    high_rad: FloatArray  # (3,) not below ``low_rad``; infinite (with low minus infinite) is unlimited
    note: str = ""


def collect_clips(motions: Motion | Iterable[Motion]) -> tuple[Skeleton, list[SO3]]:
    """Skeleton and rotations, batches ``(F, J)``, of one clip or several.

    Raises:
        InputError: there is none, or they do not have the same joints.
    """
    clips = [motions] if isinstance(motions, Motion) else list(motions)
    if not clips:
        raise InputError("limits from no clips", "Give at least one")
    skeleton = clips[0].skeleton
    for clip in clips[1:]:
        if clip.skeleton.names != skeleton.names:
            raise InputError(f"clips '{clips[0].name}' and '{clip.name}' have different joints", "Retarget them first")
    return skeleton, [clip.rotations for clip in clips]


def fit_limits(motions: Motion | Iterable[Motion], kind: str = "sdf", **options: Any) -> JointLimits:
    """Learn limits of a kind from clips: ``box``, ``cone``, ``reach``, ``ellipsoid``, ``sdf`` or ``field``.

    Options go to the ``from_clips`` of the class.
    """
    from marey.kinematics._limits_field import QuaternionFieldLimits

    makers: dict[str, Any] = {
        "box": BoxLimits,
        "cone": ConeLimits,
        "reach": ReachConeLimits,
        "ellipsoid": EllipsoidLimits,
        "sdf": SdfLimits,
        "field": QuaternionFieldLimits,
    }
    if kind not in makers:
        raise UnknownNameError("kind of limits", kind, "marey", makers)
    return makers[kind].from_clips(motions, **options)


def estimate_joints(
    motions: Motion | Iterable[Motion], *, trim: float = 0.0, margin_rad: float = 0.0
) -> tuple[JointEstimate, ...]:
    """Type and intervals of every joint from clips. [Engell2012]_ §13.

    A hundred rotations tell in how many directions the quaternion varies: none, a fixed joint; one, a hinge about the
    principal axis; more, a ball with intervals of Z-Y-Z angles. An interval is what the largest gap of the angles on
    the circle leaves over, so it may cross zero.
    """
    skeleton, clips = collect_clips(motions)
    every = SO3.concatenate(clips)
    return tuple(_estimate_joint(n, every[:, j], trim, margin_rad) for j, n in enumerate(skeleton.names))


def circular_interval(angles: FloatArray, *, trim: float = 0.0, margin_rad: float = 0.0) -> tuple[float, float]:
    """Interval ``(low, high)`` [rad] around angles, ``0 <= low < 2 pi``: the complement of their largest gap.

    Angles all around, without a gap of 5 degrees, give minus and plus infinity.
    """
    turn = 2.0 * np.pi
    ordered = np.sort(np.mod(angles, turn))
    gaps = np.append(np.diff(ordered), ordered[0] + turn - ordered[-1])
    widest = int(np.argmax(gaps))
    if gaps[widest] < FULL_CIRCLE_GAP_RAD:
        return -np.inf, np.inf
    start = ordered[(widest + 1) % len(ordered)]
    along = np.mod(ordered - start, turn)
    low, high = np.quantile(along, [0.5 * trim, 1.0 - 0.5 * trim])
    first = float(np.mod(start + low - margin_rad, turn))
    return first, first + float(high - low) + 2.0 * margin_rad


def fit_box(motions: Motion | Iterable[Motion], *, margin_rad: float = MARGIN_RAD, trim: float = 0.0) -> BoxLimits:
    """See :meth:`BoxLimits.from_clips`."""
    skeleton, clips = collect_clips(motions)
    high = np.full((skeleton.num_joints, 3), np.inf)
    low = -high
    for j in range(1, skeleton.num_joints):
        vectors = _nearest_vectors(SO3.concatenate([clip[:, j] for clip in clips]))
        low[j] = np.quantile(vectors, 0.5 * trim, axis=0) - margin_rad
        high[j] = np.quantile(vectors, 1.0 - 0.5 * trim, axis=0) + margin_rad
        if np.linalg.norm(np.maximum(np.abs(low[j]), np.abs(high[j]))) > 2.0 * np.pi:
            low[j], high[j] = -np.inf, np.inf
    return BoxLimits(skeleton, low, high)


def fit_cones(motions: Motion | Iterable[Motion], *, margin_rad: float = MARGIN_RAD) -> ConeLimits:
    """See :meth:`ConeLimits.from_clips`."""
    skeleton, clips = collect_clips(motions)
    joints, frames = skeleton.num_joints, compute_bone_frames(skeleton)
    swing, twist = np.full((joints, 2), np.inf), np.tile([-np.inf, np.inf], (joints, 1))
    turned, centres = frames.wxyz.copy(), SO3.identity(joints).wxyz.copy()
    for j in range(1, joints):
        rotations = _inlier_rotations(clips, j)
        centre = compute_mean_rotation(rotations)
        local = frames[j].inverse() @ (centre.inverse() @ rotations) @ frames[j]
        tilt, half, interval = _fit_cone(local)
        centres[j], turned[j] = centre.wxyz, (frames[j] @ tilt).wxyz
        swing[j], twist[j] = half + margin_rad, (interval[0] - margin_rad, interval[1] + margin_rad)
    return ConeLimits(skeleton, SO3(turned), swing, twist, SO3(centres))


def fit_reach_cones(
    motions: Motion | Iterable[Motion], *, margin_rad: float = MARGIN_RAD, num_corners: int = 16
) -> ReachConeLimits:
    """See :meth:`ReachConeLimits.from_clips`."""
    if num_corners < 3:
        raise InputError(f"polygons of {num_corners} corners", "Give at least three")
    skeleton, clips = collect_clips(motions)
    joints, frames = skeleton.num_joints, compute_bone_frames(skeleton)
    corners, counts = np.zeros((joints, num_corners, 3)), np.full(joints, num_corners, dtype=np.int64)
    inner, twist = np.tile([1.0, 0.0, 0.0], (joints, 1)), np.tile([-np.inf, np.inf], (joints, 1))
    centres = SO3.identity(joints).wxyz.copy()
    counts[0] = 0
    for j in range(1, joints):
        rotations = _inlier_rotations(clips, j)
        centre = compute_mean_rotation(rotations)
        local = frames[j].inverse() @ (centre.inverse() @ rotations) @ frames[j]
        corners[j] = _fit_polygon(local @ np.array([1.0, 0.0, 0.0]), num_corners, margin_rad)
        low, high = _twist_interval(local)
        centres[j], twist[j] = centre.wxyz, (low - margin_rad, high + margin_rad)
    return ReachConeLimits(skeleton, frames, corners, counts, inner, twist, SO3(centres))


def _estimate_joint(joint: str, rotations: SO3, trim: float, margin_rad: float) -> JointEstimate:
    zero = np.zeros(3)
    if len(rotations) < 2:
        constant = rotations.log()[0]
        return JointEstimate(joint, "fixed", zero, constant, constant, "fewer than two frames")
    few = rotations[np.linspace(0, len(rotations) - 1, min(NUM_SAMPLES, len(rotations))).round().astype(int)]
    values, vectors = np.linalg.eigh(np.cov(_align_quaternions(few).T))
    freedoms = int(np.count_nonzero(np.abs(values) > FREEDOM_EIGENVALUE))
    if freedoms == 0:
        constant = compute_mean_rotation(rotations).log()
        return JointEstimate(joint, "fixed", zero, constant, constant)
    if freedoms == 1:
        axis = vectors[:, -1] * np.sign(vectors[np.argmax(np.abs(vectors[:, -1])), -1])
        low, high = circular_interval(rotations.twist_angle(axis), trim=trim, margin_rad=margin_rad)
        return JointEstimate(joint, "hinge", axis, np.array([low, 0.0, 0.0]), np.array([high, 0.0, 0.0]))
    from marey.kinematics._sdf_chart_kernels import ZYZ, chart_coordinates, unwrap_angles

    angles = unwrap_angles(chart_coordinates(rotations.wxyz, ZYZ))
    bounds = [circular_interval(angles[:, i], trim=trim, margin_rad=margin_rad) for i in range(3)]
    return JointEstimate(joint, "ball", zero, np.array([b[0] for b in bounds]), np.array([b[1] for b in bounds]))


def _align_quaternions(rotations: SO3) -> FloatArray:
    """Vector parts ``(N, 3)`` of the quaternions, all on the side of their mean."""
    wxyz = rotations.wxyz
    mean = np.linalg.eigh(wxyz.T @ wxyz)[1][:, -1]
    return wxyz[:, 1:] * np.where(wxyz @ mean < 0.0, -1.0, 1.0)[:, None]


def _nearest_vectors(rotations: SO3) -> FloatArray:
    """Rotation vectors ``(N, 3)``, each by the way round that is nearer to that of the mean."""
    vectors, middle = rotations.log(), compute_mean_rotation(rotations).log()
    angle = np.linalg.norm(vectors, axis=1, keepdims=True)
    other = vectors - 2.0 * np.pi * vectors / np.maximum(angle, 1e-9)
    nearer = np.linalg.norm(other - middle, axis=1) < np.linalg.norm(vectors - middle, axis=1)
    return np.where((nearer & (angle[:, 0] > 1e-6))[:, None], other, vectors)


def _inlier_rotations(clips: Sequence[SO3], joint: int) -> SO3:
    return SO3.concatenate(split_inliers([clip[:, joint] for clip in clips])[0])


def _fit_cone(local: SO3) -> tuple[SO3, FloatArray, tuple[float, float]]:
    """Turn of the frame about x, half-angles ``(2,)`` and twist interval of the smallest cone of this form."""
    swing = local.swing_twist([1.0, 0.0, 0.0])[0].log()[:, 1:]
    axes = np.linalg.eigh(swing.T @ swing)[1]
    angle = float(np.arctan2(axes[1, 0], axes[0, 0]))
    turned = swing @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    half = np.maximum(np.abs(turned).max(axis=0), 1e-6)
    half = half * max(1.0, float(np.sqrt(((turned / half) ** 2).sum(axis=1).max())))
    return SO3.exp([angle, 0.0, 0.0]), half, _twist_interval(local)


def _twist_interval(local: SO3) -> tuple[float, float]:
    return circular_interval(local.twist_angle([1.0, 0.0, 0.0]))


def _fit_polygon(directions: FloatArray, count: int, margin_rad: float) -> FloatArray:
    """Corners ``(M, 3)`` of a star about x that holds directions ``(N, 3)``, with a margin."""
    azimuth = np.arctan2(directions[:, 2], directions[:, 1])
    radius = np.arccos(np.clip(directions[:, 0], -1.0, 1.0)) + margin_rad
    at = 2.0 * np.pi * np.arange(count) / count
    away = np.abs(np.mod(azimuth[:, None] - at + np.pi, 2.0 * np.pi) - np.pi)
    near = away <= 2.0 * np.pi / count
    reach = np.where(near, radius[:, None], margin_rad).max(axis=0)
    chord = np.arctan2(np.sin(reach), np.cos(reach) * np.cos(np.pi / count))  # so that the sides stay outside too
    chord = np.clip(chord, margin_rad, np.pi - 0.05)
    ring = np.stack([np.zeros(count), np.cos(at), np.sin(at)], axis=1)
    return np.cos(chord)[:, None] * np.array([1.0, 0.0, 0.0]) + np.sin(chord)[:, None] * ring
