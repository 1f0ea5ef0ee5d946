"""The solid body of a skeleton: one tapered capsule a segment, fixed to a joint. Plain data, no drawing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, IntArray, frozen, frozen_ints
from marey.skeleton._skeleton import Skeleton


@dataclass(frozen=True, slots=True, eq=False)
class Capsules:
    """S solid segments; each moves with one joint and is given in that joint's frame."""

    joints: IntArray  # (S,) the joint that carries the segment
    starts: FloatArray  # (S, 3) [m] centre of the first ball, in the joint's frame
    ends: FloatArray  # (S, 3) [m] centre of the second ball
    start_radii: FloatArray  # (S,) [m]
    end_radii: FloatArray  # (S,) [m]

    def __post_init__(self) -> None:
        joints = frozen_ints(self.joints, None, name="joints")
        count = len(joints)
        object.__setattr__(self, "joints", joints)
        object.__setattr__(self, "starts", frozen(self.starts, count, 3, name="starts"))
        object.__setattr__(self, "ends", frozen(self.ends, count, 3, name="ends"))
        object.__setattr__(self, "start_radii", frozen(self.start_radii, count, name="start_radii"))
        object.__setattr__(self, "end_radii", frozen(self.end_radii, count, name="end_radii"))

    def __len__(self) -> int:
        return len(self.joints)


def capsules(skeleton: Skeleton) -> Capsules:
    """A solid body for any skeleton: a capsule from each joint to each child or tip."""
    segments: list[tuple[int, FloatArray]] = []
    for j in range(skeleton.num_joints):
        ends = [skeleton.offsets[c] for c in skeleton.children(j)] or [skeleton.tips[j]]
        segments += [(j, end) for end in ends if np.linalg.norm(end) > 1e-4]
    lengths = np.array([np.linalg.norm(end) for _, end in segments])
    radii = np.clip(0.18 * lengths, 0.02, 0.08)
    return Capsules(
        np.array([j for j, _ in segments], dtype=np.int64),
        np.zeros((len(segments), 3)),
        np.array([end for _, end in segments]).reshape(-1, 3),
        radii,
        0.8 * radii,
    )
