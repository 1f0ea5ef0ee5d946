"""Limits on where a bone points and how it twists: elliptic cones and spherical polygons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import atan2, cos, sin
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints, kernel
from marey.kinematics.limits.box import MARGIN_RAD, circular_interval, clamp, nearest_angle
from marey.kinematics.limits.charts import collect_joint_samples
from marey.kinematics.limits.contract import (
    ArrayLimits,
    CheckArrays,
    check_joint_batch,
    check_order,
    freeze_with_infinities,
)
from marey.lie import SO3
from marey.lie.kernels import (
    Quaternion,
    Vector,
    add3,
    conjugate,
    cross,
    dot,
    exp,
    left_jacobian_inverse_times,
    log,
    multiply,
    norm,
    put3,
    quaternion_at,
    rotate,
    row3,
    scale3,
    unit,
    unrotate,
    write_rotation,
)
from marey.motion import Motion
from marey.skeleton import Skeleton

ROOT_STEPS = 60  # most Newton steps, from the left on a falling convex function: they never overshoot; six are usual
ROOT_TOL = 1e-14  # [-] of the ellipse equation


@kernel
def nearest_in_ellipsoid(y: Vector, semi: Vector) -> Vector:
    r"""Nearest point of :math:`\sum_i (y_i/s_i)^2 \le 1`.

    On the surface :math:`y_i' = y_i s_i^2/(t + s_i^2)`; ``t`` is the root of the equation of the ellipsoid, which falls
    for all :math:`t > 0` and is found by Newton steps from the left.
    """
    s = semi
    if (y[0] / s[0]) ** 2 + (y[1] / s[1]) ** 2 + (y[2] / s[2]) ** 2 <= 1.0:
        return y
    a, b, c = s[0] * s[0], s[1] * s[1], s[2] * s[2]
    t = max(0.0, s[0] * abs(y[0]) - a, s[1] * abs(y[1]) - b, s[2] * abs(y[2]) - c)
    for _ in range(ROOT_STEPS):
        u, v, w = s[0] * y[0] / (t + a), s[1] * y[1] / (t + b), s[2] * y[2] / (t + c)
        excess = u * u + v * v + w * w - 1.0
        if excess <= ROOT_TOL:
            break
        t += 0.5 * excess / (u * u / (t + a) + v * v / (t + b) + w * w / (t + c))
    return a * y[0] / (t + a), b * y[1] / (t + b), c * y[2] / (t + c)


@kernel
def nearest_in_ellipse(y: float, z: float, a: float, b: float) -> tuple[float, float]:
    r"""Nearest point of the ellipse :math:`(y/a)^2 + (z/b)^2 \le 1`; an infinite half-axis makes a strip."""
    if np.isinf(a) or np.isinf(b) or a == 0.0 or b == 0.0:
        return clamp(y, -a, a), clamp(z, -b, b)
    if a == b and (y / a) ** 2 + (z / b) ** 2 > 1.0:
        scale = a / np.sqrt(y * y + z * z)
        return scale * y, scale * z
    nearest = nearest_in_ellipsoid((y, z, 0.0), (a, b, 1.0))
    return nearest[0], nearest[1]


@kernel
def twist_gradient(q: Quaternion) -> Vector:
    """Body gradient of the twist angle about x; a swing by half a turn has none."""
    w, x, y, z = q
    square = max(w * w + x * x, 1e-30)
    return 1.0, (x * y - w * z) / square, (w * y + x * z) / square


@kernel
def check_cones(
    wxyz: FloatArray, centres: FloatArray, frames_wxyz: FloatArray, swing: FloatArray, twist: FloatArray
) -> CheckArrays:
    """Project rotations ``(F, J, 4)`` on elliptic cones of swing and intervals of twist.

    Args:
        wxyz: rotations.
        centres: ``(J, 4)`` rotation in the middle of the cone.
        frames_wxyz: ``(J, 4)`` frame whose x is the axis of twist.
        swing: ``(J, 2)`` [rad] half-angles of the swing about the frame's y and z.
        twist: ``(J, 2)`` [rad] lowest and highest twist.
    """
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    out, violation, gradient = wxyz.copy(), np.zeros((frames, joints)), np.zeros((frames, joints, 3))
    for j in range(joints):
        centre, frame = quaternion_at(centres, j), quaternion_at(frames_wxyz, j)
        for f in range(frames):
            local = multiply(conjugate(centre), quaternion_at(wxyz[f], j))
            q = multiply(conjugate(frame), multiply(local, frame))
            # q = swing twist: the angle of the twist about x, and the rotation vector of the swing
            angle = 2.0 * atan2(q[1], q[0])
            untwist = (cos(0.5 * angle), -sin(0.5 * angle), 0.0, 0.0)
            s = log(multiply(q, untwist))
            y, z = nearest_in_ellipse(s[1], s[2], swing[j, 0], swing[j, 1])
            at = nearest_angle(angle, twist[j, 0], twist[j, 1])
            t = clamp(at, twist[j, 0], twist[j, 1])
            square = (s[1] - y) ** 2 + (s[2] - z) ** 2 + (at - t) ** 2
            if square == 0.0:
                continue
            # Body gradient of the swing, carried over the twist, and what the twist adds
            slope = twist_gradient(q)
            k = rotate(untwist, left_jacobian_inverse_times(s, (0.0, s[1] - y, s[2] - z)))
            g = k[0] * (1.0 - slope[0]), k[1] - k[0] * slope[1], k[2] - k[0] * slope[2]
            g = rotate(frame, add3(g, scale3(at - t, slope)))
            q = multiply(exp((0.0, y, z)), exp((t, 0.0, 0.0)))
            write_rotation(out[f, j], multiply(centre, multiply(frame, multiply(q, conjugate(frame)))))
            violation[f, j] = np.sqrt(square)
            put3(gradient[f], j, g)
    return out, violation, gradient


@kernel
def is_in_polygon(d: Vector, corners: FloatArray, count: int, inner: Vector) -> bool:
    r"""Whether a direction lies in a spherical polygon all of whose points are seen from ``inner``.

    It is in wedge i if :math:`(c \times v_i) \cdot d \ge 0` and :math:`(v_{i+1} \times c) \cdot d \ge 0`, and inside
    if then :math:`(v_i \times v_{i+1}) \cdot d \ge 0`. [Engell2012]_ §13, after Wilhelms and Van Gelder.
    """
    for i in range(count):
        v, w = row3(corners, i), row3(corners, (i + 1) % count)
        if dot(cross(inner, v), d) >= 0.0 and dot(cross(w, inner), d) >= 0.0:
            return dot(cross(v, w), d) >= 0.0
    return False


@kernel
def nearest_in_polygon(d: Vector, corners: FloatArray, count: int, inner: Vector) -> Vector:
    """Nearest direction of a spherical polygon: a linear search over its sides."""
    if count == 0 or is_in_polygon(d, corners, count, inner):
        return d
    best, found = -2.0, d
    for i in range(count):
        # Nearest point of the short great arc from corner a to corner b
        a, b = row3(corners, i), row3(corners, (i + 1) % count)
        n = unit(cross(a, b))
        k = dot(n, d)
        p = unit((d[0] - k * n[0], d[1] - k * n[1], d[2] - k * n[2]))
        if not (dot(cross(a, p), n) >= 0.0 and dot(cross(p, b), n) >= 0.0):
            p = a if dot(d, a) >= dot(d, b) else b
        if dot(p, d) > best:
            best, found = dot(p, d), p
    return found


@kernel
def check_reach_cones(
    wxyz: FloatArray,
    centres: FloatArray,
    frames_wxyz: FloatArray,
    corners: FloatArray,
    counts: IntArray,
    inner: FloatArray,
    twist: FloatArray,
) -> CheckArrays:
    """Project rotations ``(F, J, 4)`` on spherical polygons of bone directions and intervals of twist.

    Args:
        wxyz: rotations.
        centres: ``(J, 4)`` rotation from which swing and twist are measured.
        frames_wxyz: ``(J, 4)`` frame whose x is the axis of twist.
        corners: ``(J, M, 3)`` unit vectors in that frame, anticlockwise seen from outside.
        counts: ``(J,)`` how many corners a joint has; none is a free joint.
        inner: ``(J, 3)`` unit vector from which all of the polygon is seen.
        twist: ``(J, 2)`` [rad] lowest and highest twist.
    """
    frames, joints = wxyz.shape[0], wxyz.shape[1]
    out, violation, gradient = wxyz.copy(), np.zeros((frames, joints)), np.zeros((frames, joints, 3))
    for j in range(joints):
        centre, frame = quaternion_at(centres, j), quaternion_at(frames_wxyz, j)
        for f in range(frames):
            local = multiply(conjugate(centre), quaternion_at(wxyz[f], j))
            q = multiply(conjugate(frame), multiply(local, frame))
            angle = 2.0 * atan2(q[1], q[0])
            d = unit(rotate(q, (1.0, 0.0, 0.0)))
            p = nearest_in_polygon(d, corners[j], counts[j], row3(inner, j))
            at = nearest_angle(angle, twist[j, 0], twist[j, 1])
            t = clamp(at, twist[j, 0], twist[j, 1])
            # The angle between the two directions, to a few ulp
            away = atan2(norm(cross(d, p)), dot(d, p))
            if away < 1e-15 and at == t:
                continue
            # Body gradient: across the direction, away from the polygon, and what the twist adds
            slope = twist_gradient(q)
            k = dot(d, p)
            side = unit((k * d[0] - p[0], k * d[1] - p[1], k * d[2] - p[2]))
            g = unrotate(q, scale3(away, side))
            g = ((at - t) * slope[0], (at - t) * slope[1] - g[2], (at - t) * slope[2] + g[1])  # plus x cross g
            g = rotate(frame, g)
            # Shortest rotation that turns x into the unit vector p
            if p[0] < -1.0 + 1e-15:
                swung = 0.0, 0.0, 0.0, 1.0
            else:
                w = np.sqrt(0.5 * (1.0 + p[0]))
                swung = w, 0.0, -0.5 * p[2] / w, 0.5 * p[1] / w
            q = multiply(swung, exp((t, 0.0, 0.0)))
            write_rotation(out[f, j], multiply(centre, multiply(frame, multiply(q, conjugate(frame)))))
            violation[f, j] = np.sqrt(away * away + (at - t) ** 2)
            put3(gradient[f], j, g)
    return out, violation, gradient


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConeLimits(ArrayLimits):
    r"""An elliptic cone of swing and an interval of twist for each joint ("sinus cone").

    .. math:: R_j = c_j\,F_j \exp(0, s_y, s_z) \exp(t, 0, 0)\,F_j^{-1}, \quad
              (s_y/a)^2 + (s_z/b)^2 \le 1, \quad t_0 \le t \le t_1

    [Engell2012]_ §13. The source projects along the radius; we take the nearest point of the ellipse. The
    violation is the distance in ``(s_y, s_z, t)``.
    """

    kind: ClassVar[str] = "cone"
    kernel = check_cones

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
        skeleton, samples = collect_joint_samples(motions)
        joints, bones = skeleton.num_joints, compute_bone_frames(skeleton)
        swing, twist = np.full((joints, 2), np.inf), np.tile([-np.inf, np.inf], (joints, 1))
        frames, centres = bones.wxyz.copy(), SO3.identity(joints).wxyz.copy()
        for j, rotations, centre in samples:
            local = bones[j].inverse() @ (centre.inverse() @ rotations) @ bones[j]
            # The axes of the ellipse are those in which the swing varies most
            swings = local.swing_twist([1.0, 0.0, 0.0])[0].log()[:, 1:]
            axes = np.linalg.eigh(swings.T @ swings)[1]
            angle = float(np.arctan2(axes[1, 0], axes[0, 0]))
            swings = swings @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            # The half-angles are the largest of each, grown until the ellipse holds all
            half = np.maximum(np.abs(swings).max(axis=0), 1e-6)
            half = half * max(1.0, float(np.sqrt(((swings / half) ** 2).sum(axis=1).max())))
            low, high = circular_interval(local.twist_angle([1.0, 0.0, 0.0]))
            centres[j], frames[j] = centre.wxyz, (bones[j] @ SO3.exp([angle, 0.0, 0.0])).wxyz
            swing[j], twist[j] = half + margin_rad, (low - margin_rad, high + margin_rad)
        return cls(skeleton, SO3(frames), swing, twist, SO3(centres))

    def tables(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """What ``check_cones`` takes."""
        return self.centres.wxyz, self.frames.wxyz, self.swing_rad, self.twist_rad

    def __repr__(self) -> str:
        return f"ConeLimits({self.skeleton!r}, {int(np.isfinite(self.swing_rad).any(axis=1).sum())} joints bounded)"


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReachConeLimits(ArrayLimits):
    """A polygon on the sphere of bone directions and an interval of twist for each joint ("reach cone").

    The polygon may bend inwards, as long as all of it is seen from its inner point; it has no holes. Its sides are
    great arcs. [Engell2012]_ §13. The violation joins the angle to the polygon and that of the twist.
    """

    kind: ClassVar[str] = "reach"
    kernel = check_reach_cones

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
            # All sides must be seen from the inner point, in one sense and once around
            polygon = corners[j, : counts[j]]
            following = np.roll(polygon, -1, axis=0)
            sides = np.cross(polygon, following)
            wedges = np.einsum("ij,ij->i", np.cross(inner[j], polygon), following)
            if len(polygon) < 3 or np.any(sides @ inner[j] <= 0.0) or np.any(wedges <= 0.0):
                what = f"the polygon of '{self.skeleton.names[int(j)]}' is not all seen from its inner point"
                raise InputError(what, "Move that point, or cut the polygon")
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
            rows = frozen(polygon, None, 3, name=f"polygon of '{name}'")
            length = np.linalg.norm(rows, axis=1, keepdims=True)
            if len(rows) < 3 or np.any(length == 0.0):
                what = f"the polygon of '{name}' has {len(rows)} corners, or one without direction"
                raise InputError(what, "Give 3 or more")
            local = frames[j].inverse() @ (rows / length)
            middle = local.mean(axis=0)
            if inner is not None and name in inner:
                middle = frames[j].inverse() @ frozen(inner[name], 3, name=f"inner point of '{name}'")
            centre[j] = middle / np.linalg.norm(middle)
            # Anticlockwise seen from outside
            is_left_turn = np.sum(np.cross(local, np.roll(local, -1, axis=0)) @ centre[j]) > 0.0
            counts[j] = len(local)
            corners[j, : len(local)] = local if is_left_turn else local[::-1]
        for name, interval in (twists or {}).items():
            twist[skeleton.index(name)] = interval
        return cls(skeleton, frames, corners, counts, centre, twist, SO3.identity(joints))

    @classmethod
    def from_clips(
        cls, motions: Motion | Iterable[Motion], *, margin_rad: float = MARGIN_RAD, num_corners: int = 16
    ) -> ReachConeLimits:
        """Star-shaped polygons around the directions that the bones take in clips, plus a margin; the root is free."""
        if num_corners < 3:
            raise InputError(f"polygons of {num_corners} corners", "Give at least three")
        skeleton, samples = collect_joint_samples(motions)
        joints, frames = skeleton.num_joints, compute_bone_frames(skeleton)
        corners, counts = np.zeros((joints, num_corners, 3)), np.full(joints, num_corners, dtype=np.int64)
        inner, twist = np.tile([1.0, 0.0, 0.0], (joints, 1)), np.tile([-np.inf, np.inf], (joints, 1))
        centres = SO3.identity(joints).wxyz.copy()
        counts[0] = 0
        azimuths = 2.0 * np.pi * np.arange(num_corners) / num_corners
        ring = np.stack([np.zeros(num_corners), np.cos(azimuths), np.sin(azimuths)], axis=1)
        for j, rotations, centre in samples:
            local = frames[j].inverse() @ (centre.inverse() @ rotations) @ frames[j]
            # A star about x: each corner as far out as the directions in the two wedges beside it
            directions = local @ np.array([1.0, 0.0, 0.0])
            azimuth = np.arctan2(directions[:, 2], directions[:, 1])
            radius = np.arccos(np.clip(directions[:, 0], -1.0, 1.0)) + margin_rad
            away = np.abs(np.mod(azimuth[:, None] - azimuths + np.pi, 2.0 * np.pi) - np.pi)
            reach = np.where(away <= 2.0 * np.pi / num_corners, radius[:, None], margin_rad).max(axis=0)
            # Farther, so that the sides stay outside too
            chord = np.arctan2(np.sin(reach), np.cos(reach) * np.cos(np.pi / num_corners))
            chord = np.clip(chord, margin_rad, np.pi - 0.05)
            corners[j] = np.cos(chord)[:, None] * np.array([1.0, 0.0, 0.0]) + np.sin(chord)[:, None] * ring
            low, high = circular_interval(local.twist_angle([1.0, 0.0, 0.0]))
            centres[j], twist[j] = centre.wxyz, (low - margin_rad, high + margin_rad)
        return cls(skeleton, frames, corners, counts, inner, twist, SO3(centres))

    def tables(self) -> tuple[FloatArray, FloatArray, FloatArray, IntArray, FloatArray, FloatArray]:
        """What ``check_reach_cones`` takes."""
        return self.centres.wxyz, self.frames.wxyz, self.corners, self.counts, self.inner, self.twist_rad

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
