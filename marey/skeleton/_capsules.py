"""The solid body of a skeleton: tapered capsules, each fixed to a joint. Plain data, no drawing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, IntArray, frozen, frozen_ints
from marey.skeleton._skeleton import Skeleton

THIN_RATIO = 0.18  # [-] radius over length of a bone that plays no part
THIN_RADII_M = (0.008, 0.05)  # [m] thinnest and thickest of them


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


@dataclass(frozen=True, slots=True)
class CapsuleDraft:
    """One capsule while a body is being put together: points in the frame of its joint [m]."""

    joint: int
    start: FloatArray
    end: FloatArray
    start_radius: float
    end_radius: float


def capsules(skeleton: Skeleton) -> Capsules:
    """Return a solid body for any skeleton.

    A skeleton whose roles are known gets a trunk of several thick pieces, a head, tapered limbs, feet and hands.
    Bones that play no part (fingers, tails, props) get a thin capsule each, and so does every bone of a skeleton
    that has neither legs nor arms.
    """
    from marey.skeleton._body import body_segments

    segments = body_segments(skeleton)
    return Capsules(
        np.array([s.joint for s in segments], dtype=np.int64),
        np.array([s.start for s in segments]).reshape(-1, 3),
        np.array([s.end for s in segments]).reshape(-1, 3),
        np.array([s.start_radius for s in segments]),
        np.array([s.end_radius for s in segments]),
    )


def thin_segments(skeleton: Skeleton, skipped: frozenset[int]) -> list[CapsuleDraft]:
    """Thin capsules from joints to their children or tips, but for bones that end at a ``skipped`` joint."""
    segments: list[CapsuleDraft] = []
    for j in range(skeleton.num_joints):
        children = [int(c) for c in skeleton.children(j)]
        ends = [skeleton.offsets[c] for c in children if c not in skipped]
        if not children and j not in skipped:
            ends = [skeleton.tips[j]]
        segments += [_thin_segment(j, end) for end in ends if np.linalg.norm(end) > 1e-4]
    return segments


def _thin_segment(joint: int, end: FloatArray) -> CapsuleDraft:
    radius = float(np.clip(THIN_RATIO * np.linalg.norm(end), *THIN_RADII_M))
    return CapsuleDraft(joint, np.zeros(3), end, radius, 0.8 * radius)
