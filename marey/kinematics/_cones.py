"""Limits on where a bone points and how it twists: elliptic cones and spherical polygons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints
from marey.kinematics._limits import (
    Arrays,
    JointLimits,
    LimitCheck,
    collect_clips,
    compute_mean_rotation,
    contiguous_wxyz,
)
from marey.kinematics._limits_box import MARGIN_RAD, check_order, circular_interval
from marey.kinematics._sdf_sample import split_inliers
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import Skeleton


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConeLimits(JointLimits):
    r"""An elliptic cone of swing and an interval of twist for each joint ("sinus cone").

    .. math:: R_j = c_j\,F_j \exp(0, s_y, s_z) \exp(t, 0, 0)\,F_j^{-1}, \quad
              (s_y/a)^2 + (s_z/b)^2 \le 1, \quad t_0 \le t \le t_1

    [Engell2012]_ §13. The source projects along the radius; we take the nearest point of the ellipse. The
    violation is the distance in ``(s_y, s_z, t)``.
    """

    kind: ClassVar[str] = "cone"

    skeleton: Skeleton
    frames: SO3  # batch (J,): x is the axis of twist, usually the bone; y and z are the axes of the ellipse
    swing_rad: FloatArray  # (J, 2) [rad] half-angles of swing about y and about z; infinite is free
    twist_rad: FloatArray  # (J, 2) [rad] lowest and highest twist; infinite is free
    centres: SO3  # batch (J,): rotation in the middle of the cone

    def __post_init__(self) -> None:
        joints = self.skeleton.num_joints
        check_joint_batch(joints, frames=self.frames, centres=self.centres)
        swing, twist = (freeze_with_infinities(getattr(self, n), (joints, 2), n) for n in ("swing_rad", "twist_rad"))
        if np.any(swing < 0.0):
            raise InputError("a half-angle of swing is negative", "Give zero or more")
        check_order(self.skeleton, twist[:, :1], twist[:, 1:])
        object.__setattr__(self, "swing_rad", swing)
        object.__setattr__(self, "twist_rad", twist)

    @classmethod
    def around_bones(
        cls,
        skeleton: Skeleton,
        swing_rad: ArrayLike,
        twist_rad: ArrayLike = (-np.inf, np.inf),
        *,
        centres: SO3 | None = None,
    ) -> ConeLimits:
        """Cones around the directions of the bones; the root is free.

        Args:
            skeleton: whose joints to bound.
            swing_rad: half-angle [rad], one for all or anything that broadcasts to ``(J, 2)``.
            twist_rad: interval of twist [rad], broadcasts to ``(J, 2)``.
            centres: rotations in the middle of the cones, batch ``(J,)``; the rest pose by default.
        """
        joints = skeleton.num_joints
        swing = np.array(np.broadcast_to(np.asarray(swing_rad, dtype=np.float64), (joints, 2)))
        twist = np.array(np.broadcast_to(np.asarray(twist_rad, dtype=np.float64), (joints, 2)))
        swing[0], twist[0] = np.inf, (-np.inf, np.inf)
        return cls(skeleton, compute_bone_frames(skeleton), swing, twist, centres or SO3.identity(joints))

    @classmethod
    def from_clips(cls, motions: Motion | Iterable[Motion], *, margin_rad: float = MARGIN_RAD) -> ConeLimits:
        """Smallest cones of this form around what the joints do in clips, plus a margin; the root is free."""
        return fit_cones(motions, margin_rad=margin_rad)

    def check(self, rotations: SO3) -> LimitCheck:
        """Clamp swing and twist."""
        from marey.kinematics._cones_kernels import check_cones

        out, violation, gradient = check_cones(contiguous_wxyz(rotations), *self.tables())
        return LimitCheck(SO3(out), violation, gradient)

    def tables(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """What ``check_cones`` takes."""
        return self.centres.wxyz, self.frames.wxyz, self.swing_rad, self.twist_rad

    def to_arrays(self) -> Arrays:
        """Frames, angles and centres."""
        angles = {"swing_rad": self.swing_rad, "twist_rad": self.twist_rad}
        return {"frames": self.frames.wxyz, "centres": self.centres.wxyz, **angles}

    @classmethod
    def from_arrays(cls, skeleton: Skeleton, arrays: Arrays) -> ConeLimits:
        """Undo :meth:`to_arrays`."""
        frames, centres = SO3(arrays["frames"]), SO3(arrays["centres"])
        return cls(skeleton, frames, arrays["swing_rad"], arrays["twist_rad"], centres)

    def __repr__(self) -> str:
        return f"ConeLimits({self.skeleton!r}, {int(np.isfinite(self.swing_rad).any(axis=1).sum())} joints bounded)"


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReachConeLimits(JointLimits):
    """A polygon on the sphere of bone directions and an interval of twist for each joint ("reach cone").

    The polygon may bend inwards, as long as all of it is seen from its inner point; it has no holes. Its sides are
    great arcs. [Engell2012]_ §13. The violation joins the angle to the polygon and that of the twist.
    """

    kind: ClassVar[str] = "reach"

    skeleton: Skeleton
    frames: SO3  # batch (J,): x is the axis of twist, usually the bone
    corners: FloatArray  # (J, M, 3) unit vectors in the frame, anticlockwise seen from outside the sphere
    counts: IntArray  # (J,) how many corners are in use; none leaves the swing free
    inner: FloatArray  # (J, 3) unit vectors in the frame, from which all of the polygon is seen
    twist_rad: FloatArray  # (J, 2) [rad] lowest and highest twist
    centres: SO3  # batch (J,): rotation from which swing and twist are measured

    def __post_init__(self) -> None:
        joints = self.skeleton.num_joints
        check_joint_batch(joints, frames=self.frames, centres=self.centres)
        corners = frozen(self.corners, joints, None, 3, name="corners")
        counts = frozen_ints(self.counts, joints, name="counts")
        inner = frozen(self.inner, joints, 3, name="inner")
        twist = freeze_with_infinities(self.twist_rad, (joints, 2), "twist_rad")
        check_order(self.skeleton, twist[:, :1], twist[:, 1:])
        for j in np.flatnonzero(counts):
            _check_polygon(self.skeleton.names[int(j)], corners[j, : counts[j]], inner[j])
        for name, value in (("corners", corners), ("counts", counts), ("inner", inner), ("twist_rad", twist)):
            object.__setattr__(self, name, value)

    @classmethod
    def around_bones(
        cls,
        skeleton: Skeleton,
        polygons: Mapping[str, ArrayLike],
        *,
        twists: Mapping[str, tuple[float, float]] | None = None,
        inner: Mapping[str, ArrayLike] | None = None,
    ) -> ReachConeLimits:
        """Polygons of directions in which bones may point.

        Args:
            skeleton: whose joints to bound.
            polygons: for a joint's name, directions ``(M, 3)`` in the parent's frame, in order around the polygon.
            twists: for a joint's name, lowest and highest twist [rad]; free by default.
            inner: for a joint's name, a direction from which all of the polygon is seen; by default the mean corner.
        """
        joints, frames = skeleton.num_joints, compute_bone_frames(skeleton)
        size = max((len(np.asarray(p)) for p in polygons.values()), default=0)
        corners, counts, centre = np.zeros((joints, size, 3)), np.zeros(joints, dtype=np.int64), np.zeros((joints, 3))
        twist = np.tile([-np.inf, np.inf], (joints, 1))
        for name, polygon in polygons.items():
            j = skeleton.index(name)
            local = frames[j].inverse() @ normalise_rows(polygon, name)
            middle = local.mean(axis=0) if name not in (inner or {}) else _inner_direction(frames[j], inner, name)
            centre[j] = middle / np.linalg.norm(middle)
            counts[j] = len(local)
            corners[j, : len(local)] = local if _is_left_turn(local, centre[j]) else local[::-1]
        for name, interval in (twists or {}).items():
            twist[skeleton.index(name)] = interval
        return cls(skeleton, frames, corners, counts, centre, twist, SO3.identity(joints))

    @classmethod
    def from_clips(
        cls, motions: Motion | Iterable[Motion], *, margin_rad: float = MARGIN_RAD, num_corners: int = 16
    ) -> ReachConeLimits:
        """Star-shaped polygons around the directions that the bones take in clips, plus a margin; the root is free."""
        return fit_reach_cones(motions, margin_rad=margin_rad, num_corners=num_corners)

    def check(self, rotations: SO3) -> LimitCheck:
        """Search the nearest side, clamp the twist."""
        from marey.kinematics._cones_kernels import check_reach_cones

        out, violation, gradient = check_reach_cones(contiguous_wxyz(rotations), *self.tables())
        return LimitCheck(SO3(out), violation, gradient)

    def tables(self) -> tuple[FloatArray, FloatArray, FloatArray, IntArray, FloatArray, FloatArray]:
        """What ``check_reach`` takes."""
        return self.centres.wxyz, self.frames.wxyz, self.corners, self.counts, self.inner, self.twist_rad

    def to_arrays(self) -> Arrays:
        """Frames, polygons, twists and centres."""
        polygons = {"corners": self.corners, "counts": self.counts, "inner": self.inner}
        return {"frames": self.frames.wxyz, "centres": self.centres.wxyz, "twist_rad": self.twist_rad, **polygons}

    @classmethod
    def from_arrays(cls, skeleton: Skeleton, arrays: Arrays) -> ReachConeLimits:
        """Undo :meth:`to_arrays`."""
        polygons = (arrays["corners"], arrays["counts"], arrays["inner"])
        return cls(skeleton, SO3(arrays["frames"]), *polygons, arrays["twist_rad"], SO3(arrays["centres"]))

    def __repr__(self) -> str:
        return f"ReachConeLimits({self.skeleton!r}, {np.count_nonzero(self.counts)} joints bounded)"


def compute_bone_frames(skeleton: Skeleton) -> SO3:
    """Frames, batch ``(J,)``, whose x runs along each joint's bone: to its child, the mean of several, or the tip."""
    axes = np.tile([1.0, 0.0, 0.0], (skeleton.num_joints, 1))
    for j in range(skeleton.num_joints):
        children = skeleton.children(j)
        axis = skeleton.offsets[children].mean(axis=0) if len(children) else skeleton.tips[j]
        if np.linalg.norm(axis) > 1e-6:  # [m] shorter bones have no direction
            axes[j] = axis
    return SO3.from_two_vectors([1.0, 0.0, 0.0], axes)


def check_joint_batch(joints: int, **batches: SO3) -> None:
    """Refuse rotations that are not one a joint."""
    for name, rotations in batches.items():
        if rotations.shape != (joints,):
            raise InputError(f"{name} has batch {rotations.shape}, expected ({joints},)")


def freeze_with_infinities(values: ArrayLike, shape: tuple[int, ...], name: str) -> FloatArray:
    """Read-only copy of numbers that may be infinite but not NaN."""
    array = np.array(values, dtype=np.float64)
    frozen(np.where(np.isinf(array), 0.0, array), *shape, name=name)
    array.setflags(write=False)
    return array


def normalise_rows(directions: ArrayLike, joint: str) -> FloatArray:
    """Directions ``(M, 3)`` made one long."""
    rows = frozen(directions, None, 3, name=f"polygon of '{joint}'")
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    if len(rows) < 3 or np.any(length == 0.0):
        raise InputError(
            f"the polygon of '{joint}' has {len(rows)} corners, or one without direction", "Give 3 or more"
        )
    return rows / length


def _inner_direction(frame: SO3, inner: Mapping[str, ArrayLike] | None, name: str) -> FloatArray:
    return frame.inverse() @ frozen((inner or {})[name], 3, name=f"inner point of '{name}'")


def _is_left_turn(corners: FloatArray, inner: FloatArray) -> bool:
    return bool(np.sum(np.cross(corners, np.roll(corners, -1, axis=0)) @ inner) > 0.0)


def _check_polygon(joint: str, corners: FloatArray, inner: FloatArray) -> None:
    """All sides must be seen from the inner point, in one sense and once around."""
    following = np.roll(corners, -1, axis=0)
    sides = np.cross(corners, following)
    wedges = np.einsum("ij,ij->i", np.cross(inner, corners), following)
    if len(corners) < 3 or np.any(sides @ inner <= 0.0) or np.any(wedges <= 0.0):
        raise InputError(
            f"the polygon of '{joint}' is not all seen from its inner point", "Move that point, or cut the polygon"
        )


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
