"""Kinds of joints, and fitting them to a clip: as few numbers as the clip really uses.

A kind says how the local rotation ``L`` of a joint follows from its numbers ``s``, with constants fitted to the clip:

- ``FIXED``: ``L = M``;
- ``HINGE``: ``L = M exp(s0 b)``, a knee or an elbow;
- ``UNIVERSAL``: ``L = exp(s0 a) M exp(s1 b)``, an ankle or a wrist whose third angle was never measured;
- ``BALL``: ``L = M exp(s) N``, where ``N`` lays the bone along an axis so that swing and twist are told apart;
- ``FREE``: ``L = s / |s|``, a quaternion of four numbers, for joints that turn all the way round.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import atan2, pi, sqrt
from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, IntArray, kernel
from marey.compression.file_format import FieldReader, FieldWriter, format_error
from marey.lie import SO3, geodesic_distance
from marey.lie.kernels import (
    Quaternion,
    Vector,
    conjugate,
    exponential,
    multiply,
    quaternion_at,
    right_jacobian_times,
    unrotate,
)
from marey.motion import Motion
from marey.skeleton import Skeleton


@kernel
def right_jacobian_column(x: float, y: float, z: float, axis: int) -> Vector:
    r"""Column of :math:`J_r(v)`: how :math:`\exp v` turns, in its own frame, when one component of ``v`` grows."""
    e = (1.0 if axis == 0 else 0.0, 1.0 if axis == 1 else 0.0, 1.0 if axis == 2 else 0.0)
    return right_jacobian_times(x, y, z, e[0], e[1], e[2])


FIXED: Final = 0
HINGE: Final = 1
UNIVERSAL: Final = 2
BALL: Final = 3
FREE: Final = 4
WIDTHS: Final = (0, 1, 2, 3, 4)  # numbers of each kind


class JointTables(NamedTuple):
    """The kinds of all joints and their constants."""

    kinds: IntArray  # (J,)
    means: FloatArray  # (J, 4) the constant M
    before: FloatArray  # (J, 3) the axis a of universal joints, in the parent's frame
    after: FloatArray  # (J, 3) the axis b of hinges and universal joints, in the joint's frame
    bones: FloatArray  # (J, 4) the constant N of ball joints
    starts: IntArray  # (J + 1,) first number of each joint; the first three numbers are the root's position


@kernel
def compute_joint_rotation(joints: JointTables, j: int, s: FloatArray) -> Quaternion:
    """Local rotation of joint ``j`` from its numbers, the first of which is ``s[0]``."""
    kind = joints.kinds[j]
    mean = quaternion_at(joints.means, j)
    if kind == HINGE:
        b = joints.after[j]
        return multiply(mean, exponential(s[0] * b[0], s[0] * b[1], s[0] * b[2]))
    if kind == UNIVERSAL:
        a, b = joints.before[j], joints.after[j]
        half = multiply(exponential(s[0] * a[0], s[0] * a[1], s[0] * a[2]), mean)
        return multiply(half, exponential(s[1] * b[0], s[1] * b[1], s[1] * b[2]))
    if kind == BALL:
        return multiply(multiply(mean, exponential(s[0], s[1], s[2])), quaternion_at(joints.bones, j))
    if kind == FREE:
        scale = 1.0 / sqrt(max(s[0] * s[0] + s[1] * s[1] + s[2] * s[2] + s[3] * s[3], 1e-300))
        return s[0] * scale, s[1] * scale, s[2] * scale, s[3] * scale
    return mean


@kernel
def compute_joint_column(joints: JointTables, j: int, s: FloatArray, rotation: Quaternion, i: int) -> Vector:
    """Angular velocity of joint ``j`` in its own frame when its number ``i`` grows; ``rotation`` is its rotation."""
    kind = joints.kinds[j]
    if kind == BALL:
        return unrotate(quaternion_at(joints.bones, j), right_jacobian_column(s[0], s[1], s[2], i))
    if kind == UNIVERSAL and i == 0:
        a = joints.before[j]
        return unrotate(rotation, (a[0], a[1], a[2]))
    if kind == FREE:
        length = sqrt(max(s[0] * s[0] + s[1] * s[1] + s[2] * s[2] + s[3] * s[3], 1e-300))
        unit = (1.0 if i == 0 else 0.0, 1.0 if i == 1 else 0.0, 1.0 if i == 2 else 0.0, 1.0 if i == 3 else 0.0)
        # Twice the vector part of q^-1 dq
        _, x, y, z = multiply(conjugate(rotation), unit)
        return 2.0 * x / length, 2.0 * y / length, 2.0 * z / length
    b = joints.after[j]
    return b[0], b[1], b[2]


@kernel
def compute_rotations(joints: JointTables, numbers: FloatArray) -> FloatArray:
    """Local rotations ``(F, J, 4)`` of all frames of numbers ``(F, n)``."""
    frames, count = numbers.shape[0], joints.kinds.shape[0]
    wxyz = np.empty((frames, count, 4))
    for f in range(frames):
        for j in range(count):
            w, x, y, z = compute_joint_rotation(joints, j, numbers[f, joints.starts[j] :])
            wxyz[f, j, 0], wxyz[f, j, 1], wxyz[f, j, 2], wxyz[f, j, 3] = w, x, y, z
    return wxyz


@kernel
def compute_columns(joints: JointTables, numbers: FloatArray, owners: IntArray) -> FloatArray:
    """Angular velocity ``(F, n - 3, 3)`` of the joint ``owners`` of each number, in its own frame."""
    frames, count = numbers.shape[0], owners.shape[0]
    out = np.empty((frames, count, 3))
    for f in range(frames):
        for i in range(count):
            j = owners[i]
            s = numbers[f, joints.starts[j] :]
            out[f, i, 0], out[f, i, 1], out[f, i, 2] = compute_joint_column(
                joints, j, s, compute_joint_rotation(joints, j, s), 3 + i - int(joints.starts[j])
            )
    return out


@kernel
def unwrap_rotation_vectors(wxyz: FloatArray) -> FloatArray:
    """Rotation vectors ``(F, 3)`` [rad] of ``(F, 4)``, each the one of its rotation that is nearest to the one before.

    Adding whole turns about the axis gives the same rotation; the vectors may grow longer than π.
    """
    out = np.zeros((wxyz.shape[0], 3))
    for t in range(wxyz.shape[0]):
        w, x, y, z = wxyz[t, 0], wxyz[t, 1], wxyz[t, 2], wxyz[t, 3]
        sine = sqrt(x * x + y * y + z * z)
        if sine < 1e-12:
            continue
        if w < 0.0:
            w, x, y, z = -w, -x, -y, -z
        angle = 2.0 * atan2(sine, w)
        x, y, z = x / sine, y / sine, z / sine
        # Whole turns that bring the vector nearest to the one before
        along = out[t - 1, 0] * x + out[t - 1, 1] * y + out[t - 1, 2] * z if t > 0 else angle
        angle += 2.0 * pi * np.rint((along - angle) / (2.0 * pi))
        out[t, 0], out[t, 1], out[t, 2] = angle * x, angle * y, angle * z
    return out


GAUSS_NEWTON_STEPS = 25
LARGEST_COSINE = 0.9  # axes closer than this cannot distinguish two angles


def fit_universal_axes(matrices: FloatArray) -> tuple[FloatArray, FloatArray, float] | None:
    r"""Axes ``a`` (parent's frame) and ``b`` (joint's frame) for which :math:`a^T R_t\,b` changes least with time.

    A joint is universal, :math:`R = e^{\alpha a} M e^{\beta b}`, exactly if :math:`a^T R\,b` is constant. The variance
    is a quadratic form of :math:`a \otimes b` in the covariance of the nine entries; we descend by Gauss-Newton from
    pairs that are perpendicular in the mean pose.

    Args:
        matrices: rotations ``(F, 3, 3)``.

    Returns:
        a, b and the mean of :math:`a^T R\,b`, or ``None`` if the best axes are nearly one.
    """
    entries = matrices.reshape(-1, 9)
    mean = entries.mean(axis=0)
    centred = entries - mean
    moments = centred.T @ centred / len(entries)
    # Pairs (S, 3) of axes that are perpendicular in the mean pose, all around
    grid = np.array([(x, y, z) for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if (x, y, z) > (0, 0, 0)])
    b = np.repeat(grid / np.linalg.norm(grid, axis=1)[:, None], 4, axis=0)
    first, second = _tangent_vectors(b @ mean.reshape(3, 3).T)
    angles = np.tile(np.arange(4) * np.pi / 4.0, len(grid))[:, None]
    a = np.cos(angles) * first + np.sin(angles) * second
    for _ in range(GAUSS_NEWTON_STEPS):
        # Residual a^T (R_t - mean) b: its derivatives along two tangents of each axis, and itself, as forms
        a1, a2 = _tangent_vectors(a)
        b1, b2 = _tangent_vectors(b)
        pairs = ((a1, b), (a2, b), (a, b1), (a, b2), (a, b))
        rows = np.stack([np.einsum("si,sj->sij", x, y).reshape(-1, 9) for x, y in pairs], axis=1)
        gram = np.einsum("spi,ij,sqj->spq", rows, moments, rows)
        damped = gram[:, :4, :4] + (1e-9 * np.trace(gram, axis1=1, axis2=2) + 1e-300)[:, None, None] * np.eye(4)
        move: FloatArray = -np.asarray(np.linalg.solve(damped, gram[:, :4, 4:]), dtype=np.float64)[..., 0]
        # Steps of half a radian at most
        move *= np.minimum(1.0, 0.5 / np.maximum(np.abs(move).max(axis=1), 1e-300))[:, None]
        a = a + move[:, :1] * a1 + move[:, 1:2] * a2
        b = b + move[:, 2:3] * b1 + move[:, 3:] * b2
        a = a / np.linalg.norm(a, axis=1)[:, None]
        b = b / np.linalg.norm(b, axis=1)[:, None]
    # The pair with the least variance, unless its axes are nearly one
    products = np.einsum("si,sj->sij", a, b).reshape(-1, 9)
    variances = np.einsum("si,ij,sj->s", products, moments, products)
    cosines = products @ mean
    variances[np.abs(cosines) > LARGEST_COSINE] = np.inf
    best = int(np.argmin(variances))
    return None if not np.isfinite(variances[best]) else (a[best], b[best], float(cosines[best]))


def _tangent_vectors(unit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Two unit vectors across each vector ``(S, 3)``."""
    helper = np.eye(3)[np.argmin(np.abs(unit), axis=1)]
    first = np.cross(unit, helper)
    first /= np.linalg.norm(first, axis=1)[:, None]
    second = np.cross(unit, first)
    return first, second / np.maximum(np.linalg.norm(second, axis=1)[:, None], 1e-12)


CONSTANTS: Final = (3, 6, 9, 3, 0)  # constants of each kind
MAX_VECTOR_RAD: Final = 3.6  # [rad] rotation vectors of ball joints stay shorter, far from the singular 2π
BALL_GRID: Final = 2.0**-12  # [rad] the centre of a ball joint need not be exact


@dataclass(frozen=True, slots=True, eq=False)
class JointFit:
    """Kinds and constants of all joints, as the file holds them: whole multiples of a grid."""

    kinds: IntArray  # (J,)
    grid: float  # [rad] of the constants that must be exact
    constants: IntArray  # all constants joint by joint, in grid steps

    def joints(self, skeleton: Skeleton) -> JointTables:
        """Return plain arrays for compiled loops."""
        count = len(self.kinds)
        means, before, after = np.zeros((count, 4)), np.zeros((count, 3)), np.zeros((count, 3))
        first = 0
        for j in range(count):
            kind = int(self.kinds[j])
            own = self.constants[first : first + CONSTANTS[kind]].reshape(-1, 3)
            means[j], before[j], after[j] = _unpack_constants(kind, own, self.grid)
            first += CONSTANTS[kind]
        starts = 3 + np.concatenate([[0], np.cumsum(np.array(WIDTHS)[self.kinds])])
        return JointTables(self.kinds, means, before, after, align_bones(skeleton).wxyz.copy(), starts)


def write_fit(out: FieldWriter, fit: JointFit) -> None:
    """Write kinds and constants."""
    out.ints(fit.kinds)
    out.whole(round(-np.log2(fit.grid)))
    out.ints(fit.constants)


def read_fit(fields: FieldReader, num_joints: int) -> JointFit:
    """Undo :func:`write_fit`."""
    kinds = fields.ints(num_joints)
    if kinds.min() < FIXED or kinds.max() > FREE:
        raise format_error("a joint of unknown kind")
    grid = 2.0 ** -fields.whole(60)
    return JointFit(kinds, grid, fields.ints(int(np.array(CONSTANTS)[kinds].sum())))


def align_bones(skeleton: Skeleton) -> SO3:
    """Constant turn of each ball joint that lays its longest bone along the nearest axis of its frame."""
    longest = np.zeros((skeleton.num_joints, 3))
    for j in range(1, skeleton.num_joints):
        parent = skeleton.parents[j]
        if np.linalg.norm(skeleton.offsets[j]) > np.linalg.norm(longest[parent]):
            longest[parent] = skeleton.offsets[j]
    axis = np.eye(3)[np.argmax(np.abs(longest), axis=1)]
    axis *= np.where(np.sum(axis * longest, axis=1) < 0.0, -1.0, 1.0)[:, None]
    is_bone = np.linalg.norm(longest, axis=1) > 0.0
    return SO3.from_two_vectors(np.where(is_bone[:, None], longest, axis), axis)


def fit_joints(motion: Motion, tolerances_rad: FloatArray) -> tuple[JointFit, FloatArray]:
    """Kinds of all joints, and the numbers ``(F, n)`` of the clip; the first three are the root's position.

    Args:
        motion: the clip.
        tolerances_rad: ``(J,)`` [rad] how far the rotation of a joint may be off to be called fixed, hinge or
            universal; ball and free joints are exact.
    """
    grid = 2.0 ** np.floor(np.log2(np.clip(tolerances_rad.min() / 8.0, 1e-12, 1e-3)))
    bones = align_bones(motion.skeleton)
    kinds: list[int] = []
    constants: list[IntArray] = []
    columns: list[FloatArray] = [motion.root_positions]
    for j in range(motion.skeleton.num_joints):
        track, tolerance = motion.rotations[:, j], float(tolerances_rad[j])
        found = _fit_few_angles(track, float(grid), tolerance)
        if found is None:
            # A ball joint, or a free one where rotation vectors would come near their singularity
            centre = _round_to_grid((_chordal_mean(track) @ bones[j].inverse()).log(), BALL_GRID)
            rest = SO3.exp(centre * BALL_GRID).inverse() @ track @ bones[j].inverse()
            vectors = unwrap_rotation_vectors(rest.wxyz)
            if np.linalg.norm(vectors, axis=1).max() < MAX_VECTOR_RAD:
                found = BALL, centre[None], vectors
            else:
                found = FREE, np.zeros((0, 3), dtype=np.int64), track.continuous().wxyz.copy()
        kind, own, numbers = found
        kinds.append(kind)
        constants.append(own.reshape(-1))
        columns.append(numbers)
    packed = np.concatenate(constants).astype(np.int64)
    return JointFit(np.array(kinds, dtype=np.int64), float(grid), packed), np.concatenate(columns, axis=1)


_JointFit = tuple[int, IntArray, FloatArray]  # kind, constants (c, 3) in grid steps, numbers (F, n)


def _fit_few_angles(track: SO3, grid: float, tolerance: float) -> _JointFit | None:
    """The first of fixed, hinge and universal joint that follows the track within a tolerance [rad]."""
    if tolerance <= 0.0:
        return None
    centre = _round_to_grid(_chordal_mean(track).log(), grid)
    if geodesic_distance(track, SO3.exp(centre * grid)).max() <= tolerance:
        return FIXED, centre[None], np.zeros((len(track), 0))
    for fit in (_fit_hinge, _fit_universal):
        found = fit(track, centre, grid)
        if found is None:
            continue
        kind, constants, numbers = found
        mean, before, after = _unpack_constants(kind, constants, grid)
        rebuilt = SO3(mean) @ SO3.exp(numbers[:, -1:] * after)
        if kind == UNIVERSAL:
            rebuilt = SO3.exp(numbers[:, :1] * before) @ SO3(mean) @ SO3.exp(numbers[:, 1:] * after)
        if geodesic_distance(track, rebuilt).max() <= tolerance:
            return found
    return None


def _fit_hinge(track: SO3, centre: IntArray, grid: float) -> _JointFit | None:
    rest = SO3.exp(centre * grid).inverse() @ track
    # The axis is the direction along which the imaginary parts spread most
    imaginary = rest.canonical().wxyz[:, 1:]
    values, vectors = np.linalg.eigh(imaginary.T @ imaginary)
    if values[2] <= 0.0:
        return None
    axis = _round_to_grid(vectors[:, 2] * np.copysign(1.0, vectors[np.argmax(np.abs(vectors[:, 2])), 2]), grid)
    unit = axis / np.linalg.norm(axis)
    angles = np.unwrap(2.0 * np.arctan2(rest.wxyz[:, 1:] @ unit, rest.wxyz[:, 0]))
    return HINGE, np.stack([centre, axis]), _centre_angles(angles)[:, None]


def _fit_universal(track: SO3, _: IntArray, grid: float) -> _JointFit | None:
    matrices = track.matrix()
    axes = fit_universal_axes(matrices)
    if axes is None:
        return None
    before, after = _round_to_grid(axes[0], grid), _round_to_grid(axes[1], grid)
    a, b = before / np.linalg.norm(before), after / np.linalg.norm(after)
    # The constant M is the middle pose, turned so that a^T M b is the mean
    middle = track[len(track) // 2]
    seen = middle @ b
    across = seen - (seen @ a) * a
    across /= np.linalg.norm(across)
    wanted = axes[2] * a + np.sqrt(1.0 - axes[2] ** 2) * across
    centre = _round_to_grid((SO3.from_two_vectors(seen, wanted) @ middle).log(), grid)
    # First angle: from M b to R b about a; second: what is left, about b
    moved = matrices @ b
    start = SO3.exp(centre * grid) @ b
    first = np.arctan2(moved @ np.cross(a, start), moved @ start - (moved @ a) * (start @ a))
    rest = SO3.exp(centre * grid).inverse() @ (SO3.exp(-first[:, None] * a) @ track)
    second = 2.0 * np.arctan2(rest.wxyz[:, 1:] @ b, rest.wxyz[:, 0])
    numbers = np.stack([_centre_angles(np.unwrap(first)), _centre_angles(np.unwrap(second))], axis=1)
    return UNIVERSAL, np.stack([centre, before, after]), numbers


def _unpack_constants(kind: int, constants: IntArray, grid: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Centre quaternion and both axes from constants ``(1 to 3, 3)``."""
    zero = np.zeros(3)
    if kind == FREE:
        return np.array([1.0, 0.0, 0.0, 0.0]), zero, zero
    centre = SO3.exp(constants[0] * (BALL_GRID if kind == BALL else grid)).wxyz
    units = [row / max(float(np.linalg.norm(row)), 1.0) for row in constants[1:].astype(np.float64)]
    return centre, units[0] if kind == UNIVERSAL else zero, units[-1] if units else zero


def _chordal_mean(track: SO3) -> SO3:
    """Chordal mean: the largest eigenvector of the sum of quaternion squares."""
    wxyz = track.wxyz
    return SO3(np.linalg.eigh(wxyz.T @ wxyz)[1][:, -1])


def _round_to_grid(values: FloatArray, grid: float) -> IntArray:
    return np.rint(values / grid).astype(np.int64)


def _centre_angles(angles: FloatArray) -> FloatArray:
    """Move all angles by the same whole turns, so that their median is within half a turn."""
    return angles - 2.0 * np.pi * np.rint(np.median(angles) / (2.0 * np.pi))
