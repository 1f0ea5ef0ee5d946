"""Kinematics in closed form: limbs of two bones (hip, knee, ankle; shoulder, elbow, wrist), and Jacobians of points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, FloatArray, InputError, IntArray, UnknownNameError, frozen, kernel
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import NO_PARENT, Pose, RoleMap, Skeleton, joint_frames, role_map, t_pose


@kernel
def _unit(v: FloatArray) -> FloatArray:
    return v / np.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])


@kernel
def _cross(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


@kernel
def _dot(a: FloatArray, b: FloatArray) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@kernel
def _norm(a: FloatArray) -> float:
    return np.sqrt(_dot(a, a))


@kernel
def _perpendicular(v: FloatArray) -> FloatArray:
    """Any unit vector at right angles to the unit vector ``v``."""
    helper = np.array([1.0, 0.0, 0.0]) if abs(v[0]) < 0.6 else np.array([0.0, 1.0, 0.0])
    return _unit(helper - v * _dot(v, helper))


@kernel
def _bone_frame(first: FloatArray, axis: FloatArray) -> FloatArray:
    """Rotation matrix whose first column is ``first`` and whose third is nearest to ``axis``."""
    third = _unit(axis - first * _dot(first, axis))
    second = _cross(third, first)
    m = np.empty((3, 3))
    for i in range(3):
        m[i, 0], m[i, 1], m[i, 2] = first[i], second[i], third[i]
    return m


@kernel
def solve_limbs(
    upper: FloatArray, middle: FloatArray, end: FloatArray, target: FloatArray, pole: FloatArray, stretch: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""World rotations that carry the end of each limb to its target.

    .. math:: \cos\alpha = \frac{l_1^2 + L^2 - l_2^2}{2 l_1 L}

    with :math:`L` the saturated distance. The bend plane is turned with the arc from the old end to the target.

    Args:
        upper: hips or shoulders ``(F, 3)`` [m].
        middle: knees or elbows ``(F, 3)`` [m].
        end: ankles or wrists ``(F, 3)`` [m].
        target: positions of the end joint ``(F, 3)`` [m].
        pole: where the middle joint bends to when the limb is straight ``(F, 3)``.
        stretch: ``(F, 2)`` extension where saturation starts, and the largest one, as parts of the limb.

    Returns:
        Turns ``(F, 3, 3)`` of the upper bone and of the lower bone, and the ends reached ``(F, 3)``.
    """
    frames = upper.shape[0]
    first, second = np.empty((frames, 3, 3)), np.empty((frames, 3, 3))
    reached = np.empty((frames, 3))
    for f in range(frames):
        k, s, a = middle[f] - upper[f], end[f] - middle[f], end[f] - upper[f]
        l1, l2, whole = _norm(k), _norm(s), _norm(a)
        g = target[f] - upper[f]
        far = _norm(g)
        a = _unit(a) if whole > 1e-9 * (l1 + l2) else _unit(k)
        g = g / far if far > 1e-9 * (l1 + l2) else a
        # The distance bends over smoothly (C1) from the first stretch on, and never passes the second
        total, length = l1 + l2, far
        soft, limit = stretch[f, 0] * total, stretch[f, 1] * total
        if far > soft:
            length = soft + (limit - soft) * (1.0 - np.exp(-(far - soft) / (limit - soft)))
        length = max(length, abs(l1 - l2) + 1e-6 * total)
        # The bend plane: where the middle joint is or, as the limb straightens, the pole
        bend = k - a * _dot(a, k)
        size = _norm(bend)
        hint = pole[f] - a * _dot(a, pole[f])
        if _norm(hint) < 1e-6:
            hint = _perpendicular(a)
        weak = max(0.0, 1.0 - size / (0.08 * l1))  # the plane of a nearly straight limb is undefined
        bend = _unit(bend + _unit(hint) * (0.02 * l1 * weak * weak + 1e-12 * l1))
        # It turns with the line from the upper joint to the end, by the smallest rotation from the old to the new one
        c = _dot(a, g)
        if c < -0.999999999:
            across = _perpendicular(a)
            arc = 2.0 * _dot(across, bend) * across - bend
        else:
            w = _cross(a, g)
            arc = c * bend + _cross(w, bend) + w * (_dot(w, bend) / (1.0 + c))
        turned = _unit(arc)
        # The law of cosines
        cosine = min(1.0, max(-1.0, (l1 * l1 + length * length - l2 * l2) / (2.0 * l1 * length)))
        sine = np.sqrt(1.0 - cosine * cosine)
        k_new = l1 * (cosine * g + sine * turned)
        s_new = length * g - k_new
        # Bones turn with their plane, so that no twist is added
        axis, axis_new = _cross(a, bend), _cross(g, turned)
        first[f] = _bone_frame(_unit(k_new), axis_new) @ _bone_frame(_unit(k), axis).T
        second[f] = _bone_frame(_unit(s_new), axis_new) @ _bone_frame(_unit(s), axis).T
        reached[f] = upper[f] + length * g
    return first, second, reached


REACHED_TOL_M: Final = 1e-3  # [m] an end nearer than this to its target has reached it
STRETCH: Final = 0.995  # [-] largest extension of a limb: beyond it a knee snaps straight ([Glardon2005]_ §2.17)
MIN_BONE_M: Final = 1e-6  # [m] shorter bones have no direction
SOFTNESS: Final = 0.5  # [-] saturation starts this part of the last stretch before the largest extension

_LIMBS: Final = {
    "left_leg": ("left_hip", "left_knee", "left_ankle"),
    "right_leg": ("right_hip", "right_knee", "right_ankle"),
    "left_arm": ("left_shoulder", "left_elbow", "left_wrist"),
    "right_arm": ("right_shoulder", "right_elbow", "right_wrist"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Limb:
    """Three joints of one chain, not necessarily neighbours, and where the middle one points when bent."""

    upper: int
    middle: int
    end: int
    pole_upper: FloatArray  # (3,) direction in the upper joint's frame: the front of a knee, the back of an elbow

    @classmethod
    def from_name(cls, skeleton: Skeleton, name: str, roles: RoleMap | None = None) -> Limb:
        """Return ``left_leg``, ``right_leg``, ``left_arm`` or ``right_arm`` of a skeleton.

        Raises:
            UnknownNameError: no such limb, or the skeleton lacks one of its joints.
        """
        if name not in _LIMBS:
            raise UnknownNameError("limb", name, "a body", _LIMBS)
        roles = role_map(skeleton) if roles is None else roles
        upper, middle, end = (roles[role] for role in _LIMBS[name])
        ahead = np.array([0.0, 0.0, 1.0 if name.endswith("leg") else -1.0])
        R_world_upper = t_pose(skeleton, roles).joint_rotations()[upper]
        return cls(upper, middle, end, R_world_upper.inverse() @ ahead)


@dataclass(frozen=True, slots=True, eq=False)
class TwoBoneResult:
    """A clip whose limb was moved, and how near it came."""

    motion: Motion
    reached: BoolArray  # (F,) within 1 mm
    position_error_m: FloatArray  # (F,) [m] from end to target

    def __repr__(self) -> str:
        worst = 1000.0 * float(self.position_error_m.max())
        return f"TwoBoneResult({int(self.reached.sum())} of {len(self.reached)} frames reached, worst {worst:.1f} mm)"


def solve_two_bone(
    motion: Motion,
    limb: Limb | str,
    targets: ArrayLike,
    *,
    end_rotations: SO3 | None = None,
    keep_end: bool = True,
    stretch: float = STRETCH,
) -> TwoBoneResult:
    """Move the end of a limb to targets, all frames at once, bones keeping their length.

    The fast method of [Glardon2005]_ §2.17: the upper joint turns by the shortest arc from the old end to the
    target, the middle joint bends by the law of cosines in the plane it had. Extension bends over smoothly near
    ``stretch``, so that a knee never snaps; a target out of reach is approached as far as that allows.

    Args:
        motion: the clip; its other joints stay as they are.
        limb: a :class:`Limb`, or ``"left_leg"``, ``"right_leg"``, ``"left_arm"``, ``"right_arm"``.
        targets: world positions ``(F, 3)`` or ``(3,)`` [m] for the end joint.
        end_rotations: target world rotations of the end joint, batch ``(F,)``.
        keep_end: without ``end_rotations``, keep the world rotation of the end (a foot stays flat); else it
            turns with the lower bone.
        stretch: largest extension, as a part of the limb's length.
    """
    # A limb is one chain of joints that lie apart
    limb = Limb.from_name(motion.skeleton, limb) if isinstance(limb, str) else limb
    skeleton = motion.skeleton
    for above, below in ((limb.upper, limb.middle), (limb.middle, limb.end)):
        joint = int(skeleton.parents[below])
        while joint not in (above, NO_PARENT):
            joint = int(skeleton.parents[joint])
        if joint == NO_PARENT:
            names = skeleton.names
            raise InputError(f"'{names[below]}' does not hang below '{names[above]}'", "A limb is one chain of joints")
    if not 0.5 <= stretch < 1.0:
        raise InputError(f"stretch is {stretch}", "Give a part of the limb between 0.5 and 1")
    goals = frozen(np.broadcast_to(np.asarray(targets, dtype=np.float64), (motion.num_frames, 3)), name="targets")
    positions, frames = motion.joint_frames()
    bones = np.diff(positions[:, [limb.upper, limb.middle, limb.end]], axis=1)
    if not np.linalg.norm(bones, axis=-1).min() > MIN_BONE_M:
        raise InputError("a bone of this limb has no length", "Choose joints that lie apart")
    # Local rotations (F, J, 4) with the limb moved, and the ends reached (F, 3) [m]
    largest = np.broadcast_to(np.asarray(stretch, dtype=np.float64), (len(goals),))
    first, second, reached = solve_limbs(
        np.ascontiguousarray(positions[:, limb.upper]),
        np.ascontiguousarray(positions[:, limb.middle]),
        np.ascontiguousarray(positions[:, limb.end]),
        np.array(goals, order="C"),  # a copy can be written: read-only goals would need another kernel
        np.ascontiguousarray(frames[:, limb.upper] @ limb.pole_upper),
        np.stack([1.0 - (1.0 + SOFTNESS) * (1.0 - largest), largest], axis=-1),
    )
    # World turns of both bones as local rotations
    turn_upper, turn_lower = SO3.from_matrix(first), SO3.from_matrix(second)
    moved = motion.rotations.wxyz.copy()
    moved[:, limb.upper] = (
        _parent_rotations(frames, motion.skeleton, limb.upper).inverse() @ turn_upper @ frames[:, limb.upper]
    ).wxyz
    R_world_above = turn_upper @ _parent_rotations(frames, motion.skeleton, limb.middle)
    moved[:, limb.middle] = (R_world_above.inverse() @ turn_lower @ frames[:, limb.middle]).wxyz
    if end_rotations is None and keep_end:
        end_rotations = frames[:, limb.end]
    if end_rotations is not None:
        _, frames = replace(motion, rotations=SO3(moved)).joint_frames()
        moved[:, limb.end] = (_parent_rotations(frames, motion.skeleton, limb.end).inverse() @ end_rotations).wxyz
    errors = np.linalg.norm(reached - goals, axis=-1)
    return TwoBoneResult(replace(motion, rotations=SO3(moved)), errors < REACHED_TOL_M, errors)


def _parent_rotations(frames: SO3, skeleton: Skeleton, joint: int) -> SO3:
    parent = int(skeleton.parents[joint])
    return SO3.identity(frames.shape[0]) if parent == NO_PARENT else frames[:, parent]


@kernel
def _rotation_axes(q: FloatArray) -> FloatArray:
    """Columns of a unit quaternion's rotation matrix, as rows."""
    w, x, y, z = q[0], q[1], q[2], q[3]
    m = np.empty((3, 3))
    m[0, 0], m[0, 1], m[0, 2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)
    m[1, 0], m[1, 1], m[1, 2] = 2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x)
    m[2, 0], m[2, 1], m[2, 2] = 2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)
    return m


@kernel
def write_jacobians(
    parents: IntArray, positions: FloatArray, wxyz: FloatArray, joint: int, offset: FloatArray
) -> FloatArray:
    """Jacobians ``(F, 3, 3 + 3 J)`` of a point at ``offset`` from ``joint``, from world positions and quaternions."""
    frames, joints = positions.shape[0], positions.shape[1]
    result = np.zeros((frames, 3, 3 + 3 * joints))
    for f in range(frames):
        # The point in world
        axes = _rotation_axes(wxyz[f, joint])
        point = positions[f, joint].copy()
        for i in range(3):
            result[f, i, i] = 1.0
            for k in range(3):
                point[i] += axes[k, i] * offset[k]
        # Columns of the joints that carry it: axis cross lever
        j = joint
        while j >= 0:
            axes = _rotation_axes(wxyz[f, j])
            d0, d1, d2 = point[0] - positions[f, j, 0], point[1] - positions[f, j, 1], point[2] - positions[f, j, 2]
            for k in range(3):
                a0, a1, a2 = axes[k, 0], axes[k, 1], axes[k, 2]
                c = 3 + 3 * j + k
                result[f, 0, c] = a1 * d2 - a2 * d1
                result[f, 1, c] = a2 * d0 - a0 * d2
                result[f, 2, c] = a0 * d1 - a1 * d0
            j = parents[j]
    return result


def point_jacobian(pose: Pose, joint: int | str, offset: ArrayLike = (0.0, 0.0, 0.0)) -> FloatArray:
    r"""Geometric Jacobian ``(3, 3 + 3 J)`` of a point fixed to a joint.

    Columns are the root's position, then three for each joint: a rotation vector :math:`\omega_j` in the joint's own
    frame, :math:`R_j \leftarrow R_j \exp(\omega_j)`:

    .. math:: \frac{\partial p}{\partial x_0} = I, \qquad
              \frac{\partial p}{\partial \omega_j} = -[p - x_j]_\times R_{world,j}

    and zero for joints that do not carry the point.

    Args:
        pose: where to linearise.
        joint: the carrying joint, by number or name.
        offset: the point ``(3,)`` [m] in that joint's frame.
    """
    roots, wxyz = pose.root_position[None], pose.rotations.wxyz[None]
    positions, frames = joint_frames(pose.skeleton, roots, wxyz)
    carrier = pose.skeleton.index(joint) if isinstance(joint, str) else joint
    if not 0 <= carrier < len(pose.skeleton.parents):
        count = pose.skeleton.num_joints
        raise InputError(f"joint {carrier} of a skeleton of {count}", f"Give a number below {count}")
    place = frozen(offset, 3, name="offset")
    return write_jacobians(pose.skeleton.parents, positions, frames.wxyz, carrier, place)[0]
