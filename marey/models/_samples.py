"""The poses a model is fitted on, gathered from clips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, InputError
from marey.lie import SO3
from marey.models._bodies import check_body
from marey.motion import Motion
from marey.skeleton import Skeleton

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
