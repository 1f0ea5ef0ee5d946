r"""The poses a model is fitted on, gathered from clips of one set of joints: charts, means and metrics.

The weight of a joint is how far it moves the body.

Rotation vectors and Euler angles (about x, then y, then z) tear somewhere, so a rotation has several triples; the one
nearest to a reference is taken. Euler angles serve the comparison with methods that used them ([Safonova2006]_
§3.1.1) and never leave this room. The root's triple follows a turning body: tilt about x, yaw, tilt about z,

.. math:: R = \exp(\psi\,e_y)\,\exp\big((s_x, 0, s_z)\big)

One rod stands for each joint, from it to the mean of its children, its mass in proportion to its length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from marey.base import ConvergenceError, FloatArray, InputError, IntArray, kernel
from marey.lie import SO3, RobustMean, geodesic_distance, robust_mean
from marey.lie.kernels import Vector, multiply, quaternion_at, rotate, row3
from marey.motion import Motion, headings, order_joints
from marey.skeleton import Pose, Skeleton, tree_difference

SAME_REST_RAD = np.deg2rad(45.0)  # bones of one rig on many people rest within some 30 degrees of one another


def check_body(first: Skeleton, other: Skeleton, what: str) -> Skeleton:
    """Return ``other`` if it has the joints of ``first``; sizes may differ, since a model holds rotations alone.

    Raises:
        InputError: joints differ in number, name, parent or resting direction; the message names the first.
    """
    difference = body_difference(first, other)
    if difference:
        raise InputError(f"{what} has another skeleton: {difference}", "Retarget it first: marey.retarget")
    return other


def body_difference(a: Skeleton, b: Skeleton) -> str | None:
    """Say the first thing in which two skeletons differ for a pose model, or ``None``."""
    if a is b:
        return None
    difference = tree_difference(a, b)
    if difference:
        return difference
    # Bones that rest in other directions mean other rotations, even under the same names
    u, v = a.offsets[1:], b.offsets[1:]
    along = np.einsum("ji,ji->j", u, v)
    lengths = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
    angles = np.arccos(np.clip(along / np.where(lengths > 1e-6, lengths, 1.0), -1.0, 1.0)) * (lengths > 1e-6)
    if not angles.size or angles.max() <= SAME_REST_RAD:
        return None
    worst = 1 + int(np.argmax(angles))
    degrees = float(np.rad2deg(angles.max()))
    return f"the bone to '{a.names[worst]}' rests {degrees:.0f} degrees away from where it should"


def select_alike(motions: Sequence[Motion]) -> dict[int, Motion]:
    """Clips of the most common joints and rest pose, by their numbers, with joints in the same order."""
    names = Counter(tuple(sorted(motion.skeleton.names)) for motion in motions).most_common(1)[0][0]
    body = next(motion.skeleton for motion in motions if tuple(sorted(motion.skeleton.names)) == names)
    ordered = [order_joints(motion, body.names) for motion in motions]
    return {n: motion for n, motion in enumerate(ordered) if body_difference(body, motion.skeleton) is None}


Clips = Motion | Sequence[Motion]

MIN_FRAMES = 2  # one pose has a mean and no variance


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Poses of one or more clips of the same joints, end to end."""

    motions: tuple[Motion, ...]
    rotations: SO3  # batch (m, J - 1): the joints below the root
    root_position: FloatArray  # (3,) [m] above the origin, at the mean height

    @property
    def skeleton(self) -> Skeleton:
        """The body of the first clip."""
        return self.motions[0].skeleton

    @property
    def count(self) -> int:
        """How many poses there are."""
        return len(self.rotations)


def as_clips(clips: Clips) -> tuple[Motion, ...]:
    """One or more clips whose skeletons have the same joints.

    Raises:
        InputError: none was given, or one has another skeleton; the message says what differs.
    """
    motions = (clips,) if isinstance(clips, Motion) else tuple(clips)
    if not motions:
        raise InputError("no clip to fit a pose model on", "Give at least one")
    for number, motion in enumerate(motions):
        check_body(motions[0].skeleton, motion.skeleton, f"clip {number} ('{motion.name}')")
    return motions


def gather_samples(clips: Clips) -> Samples:
    """Collect the poses of clips.

    Raises:
        InputError: fewer than two poses in all, a skeleton of a root alone, or skeletons that differ.
    """
    motions = as_clips(clips)
    frames = sum(motion.num_frames for motion in motions)
    if frames < MIN_FRAMES:
        raise InputError(f"a pose model of {frames} pose", f"It needs at least {MIN_FRAMES}; give a longer clip")
    if motions[0].skeleton.num_joints < 2:
        raise InputError("a pose model of a skeleton that is a root alone", "It needs a joint below the root")
    height = sum(float(motion.root_positions[:, 1].sum()) for motion in motions) / frames
    rotations = SO3.concatenate([motion.rotations[:, 1:] for motion in motions])
    return Samples(motions, rotations, np.array([0.0, height, 0.0]))


BALL_RAD = np.pi / 2  # samples inside a ball of this radius have one mean alone; [Tournier2011]_ §7.3


def mean_rotations(samples: Samples) -> RobustMean:
    """Intrinsic mean of each joint below the root, batch ``(J - 1,)``, without the samples too far from it.

    Raises:
        ConvergenceError: the samples of a joint are spread all around; the message names it.
    """
    try:
        return robust_mean(samples.rotations)
    except ConvergenceError as error:
        # Joints whose samples leave the ball in which a mean is unique, with the largest angle [rad], widest first
        middle = samples.rotations[samples.count // 2]
        angles = geodesic_distance(middle, samples.rotations).max(axis=0)
        wide = [int(j) for j in np.argsort(-angles) if angles[j] > BALL_RAD]
        names = samples.skeleton.names
        named = ", ".join(f"'{names[1 + j]}' ({np.rad2deg(angles[j]):.0f} degrees)" for j in wide[:4])
        what = f"no mean pose: {named or 'a joint'} turns too far around. Leave out the clip or mend its flips"
        raise ConvergenceError(what, error.report) from error


@dataclass(frozen=True, slots=True, eq=False)
class FarSamples:
    """Frames in which a joint is too far from its mean to count: it probably flipped."""

    joint: str
    clip: str
    frames: IntArray  # (n,) rising

    def __str__(self) -> str:
        count, first = len(self.frames), int(self.frames[0])
        return f"{self.joint} in {count} frame{'' if count == 1 else 's'} of '{self.clip}', first in {first}"


def find_far_samples(motions: Clips) -> list[FarSamples]:
    """Joints and frames that the mean pose of a model leaves out: further than π - 0.2 rad from it.

    [Tournier2011]_ §7.3; the logarithm of such a sample has an arbitrary sign.
    """
    samples = gather_samples(motions)
    is_far = mean_rotations(samples).is_far
    found, first = list[FarSamples](), 0
    for motion in samples.motions:
        rows = is_far[first : first + motion.num_frames]
        first += motion.num_frames
        for joint in np.flatnonzero(rows.any(axis=0)):
            frames = np.flatnonzero(rows[:, joint])
            found.append(FarSamples(samples.skeleton.names[1 + joint], motion.name, frames))
    return found


def lever_arms(samples: Samples) -> FloatArray:
    r"""Lever arm ``(J,)`` [m] of each joint: how far what it carries moves when it turns by a small angle.

    .. math:: w_j^2 = \tfrac23\,\mathrm{mean}_t \sum_{d \in \mathrm{desc}(j)} \|p_d(t) - p_j(t)\|^2

    over the joints and bone tips below it; the factor is the mean of :math:`\sin^2` over all axes. A joint that carries
    nothing weighs nothing.
    """
    total = np.zeros(samples.skeleton.num_joints)
    for motion in samples.motions:
        # Joints and bone tips
        positions, frames = motion.joint_frames()
        tipped = np.flatnonzero(np.linalg.norm(motion.skeleton.tips, axis=1) > 0.0)
        tips = positions[:, tipped] + frames[:, tipped] @ motion.skeleton.tips[tipped]
        points = np.concatenate([positions, tips], axis=1)
        # Whether a joint (row) carries another or itself (column)
        below = np.eye(motion.skeleton.num_joints, dtype=np.bool_)
        for joint in range(len(below) - 1, 0, -1):
            below[motion.skeleton.parents[joint]] |= below[joint]
        carried = np.concatenate([below, below[:, tipped]], axis=1)
        total += np.array([((points[:, own] - positions[:, j, None]) ** 2).sum() for j, own in enumerate(carried)])
    return np.sqrt(2.0 / 3.0 * total / samples.count)


SPACES = ("exponential", "euler")
FULL_TURN = 2.0 * np.pi


def to_chart(space: str, rotations: SO3, near: FloatArray | None = None) -> FloatArray:
    """Triples ``(..., 3)`` [rad] of rotations, those nearest to ``near``, which broadcasts; the shortest without it."""
    one = euler_angles(rotations) if space == "euler" else rotations.log()
    if near is None:
        return one
    if space == "euler":
        # The other triple of the same rotation, and full turns of both
        two = np.stack([one[..., 0] + np.pi, np.pi - one[..., 1], one[..., 2] + np.pi], axis=-1)
        one, two = near + _wrap_angles(one - near), near + _wrap_angles(two - near)
    else:
        # The same rotation the other way around
        length = np.linalg.norm(one, axis=-1, keepdims=True)
        two = one * (1.0 - FULL_TURN / np.where(length > 0.0, length, np.inf))
    is_nearer = np.sum((two - near) ** 2, axis=-1) < np.sum((one - near) ** 2, axis=-1)
    return np.where(is_nearer[..., None], two, one)


def euler_angles(rotations: SO3) -> FloatArray:
    r"""Angles ``(..., 3)`` about (x, y, z) with :math:`R = R_z R_y R_x`, from half-angle sums; [Bernardes2022]_.

    At a middle angle of a quarter turn only the sum or difference of the others is determined; any pair will do.
    """
    # Half sums and differences of the outer angles
    w, x, y, z = np.moveaxis(rotations.wxyz, -1, 0)
    a, b, c, d = w - y, x + z, y + w, z - x
    plus, minus = np.arctan2(b, a), np.arctan2(d, c)
    middle = 2.0 * np.arctan2(np.hypot(c, d), np.hypot(a, b)) - np.pi / 2
    return np.stack([_wrap_angles(plus - minus), middle, _wrap_angles(plus + minus)], axis=-1)


def _wrap_angles(angles: FloatArray) -> FloatArray:
    return (angles + np.pi) % FULL_TURN - np.pi


UP = np.array([0.0, 1.0, 0.0])
LEVEL = np.array([1.0, 0.0, 1.0])


def root_triples(motion: Motion) -> FloatArray:
    """Tilt, yaw, tilt ``(F, 3)`` [rad] of a clip turned so that it faces +Z on its first frame.

    The yaw is continuous in time: a full turn ends at 2π, not at zero. [Safonova2006]_ §3.1.1.
    """
    # The clip faces +Z on its first frame; the twist about the vertical is the yaw, what is left the tilt
    facing = float(headings(motion)[0])
    turned = SO3.exp(-facing * UP) @ motion.rotations[:, 0]
    yaw = np.unwrap(turned.twist_angle(UP))
    tilt = (SO3.exp(-yaw[:, None] * UP) @ turned).log()
    return np.stack([tilt[:, 0], yaw, tilt[:, 2]], axis=-1)


def root_from_triples(triples: FloatArray) -> SO3:
    """Root rotations of triples ``(..., 3)`` [rad]."""
    return SO3.exp(triples[..., 1, None] * UP) @ SO3.exp(triples * LEVEL)


MIN_ROD_M: Final = 0.05  # [m] bones shorter than this count as so long
ROD_RADIUS_M: Final = 0.06  # [m] of the rods that stand for limbs
METRIC_FLOOR: Final = 1e-4  # [-] of the mean diagonal, added to it: modes that move nothing heavy stay within bounds


class RodBody(NamedTuple):
    """The skeleton, J joints, and the rods that stand for its limbs."""

    parents: IntArray  # (J,)
    offsets: FloatArray  # (J, 3) [m]
    rods: FloatArray  # (J, 3) [m] end of each joint's rod in its frame


def list_rods(skeleton: Skeleton) -> FloatArray:
    """Where each joint's rod ends ``(J, 3)`` [m] in its frame: the mean of its children, or its tip."""
    parents = skeleton.parents[1:]
    counts = np.bincount(parents, minlength=skeleton.num_joints)[:, None]
    sums = np.zeros((skeleton.num_joints, 3))
    np.add.at(sums, parents, skeleton.offsets[1:])
    return np.where(counts > 0, sums / np.maximum(counts, 1), skeleton.tips)


def pose_mass_matrix(pose: Pose) -> FloatArray:
    """Mass matrix ``(3 J - 3, 3 J - 3)`` of the turns of the joints below the root, in their own axes, to a factor."""
    skeleton, size = pose.skeleton, 3 * pose.skeleton.num_joints - 3
    columns = np.zeros((skeleton.num_joints, 3, size))
    columns[1:] = np.eye(size).reshape(-1, 3, size)
    metric = np.zeros((6 + size, 6 + size))
    body = RodBody(skeleton.parents.copy(), skeleton.offsets.copy(), list_rods(skeleton))
    write_kinetic_metric(body, pose.rotations.wxyz.copy(), columns, metric)
    return metric[6:, 6:]


@kernel
def write_kinetic_metric(body: RodBody, wxyz: FloatArray, columns: FloatArray, metric: FloatArray) -> None:
    r"""Write the mass matrix ``(6 + k, 6 + k)`` of a pose, scaled to trace n: root place, root turn, coordinates.

    .. math:: M = \sum_i m_i J_{v,i}^T J_{v,i} + J_{\omega,i}^T I_i J_{\omega,i}

    The step metric of [Tournier2011]_ §8.2.3: a hand moves by the arm, not by the whole body. One pass over the tree,
    :math:`O(n k^2)`. ``columns`` ``(J, 3, k)`` is how each joint turns with each coordinate, in its own axes.
    """
    joints, size = body.parents.shape[0], metric.shape[0]
    # J_v of each joint's origin, J_omega of each joint, and seven rows of a rod, all in world axes
    moves, turns, rows = np.zeros((joints, 3, size)), np.zeros((joints, 3, size)), np.zeros((7, size))
    world = np.zeros((joints, 4))
    metric[:] = 0.0
    for j in range(joints):
        p = body.parents[j]
        if j == 0:
            q = quaternion_at(wxyz, 0)
            for c in range(3):
                axis = (1.0 if c == 0 else 0.0, 1.0 if c == 1 else 0.0, 1.0 if c == 2 else 0.0)
                moves[0, c, c] = 1.0
                turns[0, 0, 3 + c], turns[0, 1, 3 + c], turns[0, 2, 3 + c] = rotate(q, axis)
        else:
            q = multiply(quaternion_at(world, p), quaternion_at(wxyz, j))
            lever = rotate(quaternion_at(world, p), row3(body.offsets, j))
            add_turns(moves[p], turns[p], lever, moves[j])
            turns[j] = turns[p]
            for k in range(size - 6):
                x, y, z = rotate(q, (columns[j, 0, k], columns[j, 1, k], columns[j, 2, k]))
                turns[j, 0, 6 + k] += x
                turns[j, 1, 6 + k] += y
                turns[j, 2, 6 + k] += z
        world[j, 0], world[j, 1], world[j, 2], world[j, 3] = q
        # The middle of the rod moves, the rod turns; along it its inertia is that of a cylinder
        x, y, z = rotate(q, row3(body.rods, j))
        long = np.sqrt(x * x + y * y + z * z)
        mass = max(long, MIN_ROD_M)
        across, along = mass**2 / 12.0 + ROD_RADIUS_M**2 / 4.0, ROD_RADIUS_M**2 / 2.0
        add_turns(moves[j], turns[j], (0.5 * x, 0.5 * y, 0.5 * z), rows[:3])
        for n in range(size):
            rows[6, n] = (x * turns[j, 0, n] + y * turns[j, 1, n] + z * turns[j, 2, n]) / max(long, 1e-9)
            for c in range(3):
                rows[3 + c, n] = turns[j, c, n]
        for r in range(7):
            weight = mass if r < 3 else mass * across if r < 6 else mass * (along - across)
            for n in range(size):
                f = weight * rows[r, n]
                if f != 0.0:
                    for m in range(n, size):
                        metric[n, m] += f * rows[r, m]
    trace = 0.0
    for n in range(size):
        trace += metric[n, n]
    factor = 1.0 / (trace / size * (1.0 + METRIC_FLOOR))
    for n in range(size):
        metric[n, n] += METRIC_FLOOR * trace / size
        for m in range(n, size):
            metric[n, m] *= factor
            metric[m, n] = metric[n, m]


@kernel
def add_turns(moves: FloatArray, turns: FloatArray, lever: Vector, out: FloatArray) -> None:
    r"""Write the velocity :math:`v + \omega \times l` of a point, column by column ``(3, n)``."""
    x, y, z = lever
    for n in range(out.shape[1]):
        a, b, c = turns[0, n], turns[1, n], turns[2, n]
        out[0, n] = moves[0, n] + b * z - c * y
        out[1, n] = moves[1, n] + c * x - a * z
        out[2, n] = moves[2, n] + a * y - b * x
