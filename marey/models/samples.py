"""The poses a model is fitted on, gathered from clips of bodies with the same joints; their mean and joint weights.

The weight of a joint is how far it moves the body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from marey.base import ConvergenceError, FloatArray, InputError, IntArray
from marey.lie import SO3, RobustMean, geodesic_distance, robust_mean
from marey.motion import Motion
from marey.skeleton import Skeleton, tree_difference

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
