"""Centre of mass of the body, from published segment masses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3
from marey.motion._motion import Motion
from marey.skeleton import RoleMap, Skeleton, role_map

# mass of the segment / mass of the body, where it starts, where it ends, how far along its centre lies.
# Men of [DeLeva1996]_ table 4; the trunk between mid-shoulder and mid-hip, the head between C7 and vertex, the hand
# between wrist and third fingertip. The centre of the foot is that of [Winter2009]_ table 4.1: half way from the ankle
# to the ball, since few skeletons have a heel. The masses add up to one.
SEGMENTS: Final[tuple[tuple[float, tuple[str, ...], tuple[str, ...], float], ...]] = (
    (0.0694, ("neck",), ("crown",), 0.4998),
    (0.4346, ("left_shoulder", "right_shoulder"), ("left_hip", "right_hip"), 0.4310),
    *(
        segment
        for side in ("left_", "right_")
        for segment in (
            (0.0271, (side + "shoulder",), (side + "elbow",), 0.5772),
            (0.0162, (side + "elbow",), (side + "wrist",), 0.4574),
            (0.0061, (side + "wrist",), (side + "fingertip",), 0.3624),
            (0.1416, (side + "hip",), (side + "knee",), 0.4095),
            (0.0433, (side + "knee",), (side + "ankle",), 0.4395),
            (0.0137, (side + "ankle",), (side + "foot",), 0.5),
        )
    ),
)
_TIP_ROLES: Final = {"crown": "head", "left_fingertip": "left_wrist", "right_fingertip": "right_wrist"}


def centre_of_mass(motion: Motion, roles: RoleMap | None = None) -> FloatArray:
    """Centre of mass of the whole body ``(F, 3)`` [m] in world.

    The body is 14 rigid segments with the masses and centres of [DeLeva1996]_. A segment whose joints the skeleton
    lacks is left out and the others share its mass; without any of them it is the mean of all joints.

    Args:
        motion: any clip.
        roles: which joint is which; guessed from the skeleton by default.
    """
    roles = role_map(motion.skeleton) if roles is None else roles
    joints, tips, weights = _mass_points(motion.skeleton, roles)
    if not len(joints):
        return motion.joint_positions().mean(axis=1)
    positions, frames = motion.joint_frames()
    points = positions[:, joints] + SO3(frames.wxyz[:, joints]) @ tips
    return np.einsum("p,fpi->fi", weights, points)


def mass_weights(points: frozenset[str]) -> dict[str, float]:
    """Weight of each named point in the centre of mass, which is their weighted sum; the weights add up to one.

    ``points`` are canonical joint names, ``crown``, ``left_fingertip`` and ``right_fingertip``. Where a segment's far
    end is missing its centre is taken at the near end, where the near end is missing the segment is left out.
    """
    weights: dict[str, float] = {}
    for mass, near, far, along in SEGMENTS:
        if not points.issuperset(near):
            continue
        along = along if points.issuperset(far) else 0.0
        for name in near:
            weights[name] = weights.get(name, 0.0) + mass * (1.0 - along) / len(near)
        for name in far if along else ():
            weights[name] = weights.get(name, 0.0) + mass * along / len(far)
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _mass_points(skeleton: Skeleton, roles: RoleMap) -> tuple[list[int], FloatArray, FloatArray]:
    """Joints ``(P,)``, points in their frames ``(P, 3)`` [m] and weights ``(P,)`` whose sum is the centre of mass."""
    known: dict[str, tuple[int, FloatArray]] = {name: (joint, np.zeros(3)) for name, joint in roles.joints.items()}
    for name, role in _TIP_ROLES.items():
        known |= _tip(skeleton, name, roles.get(role))
    weights = mass_weights(frozenset(known))
    joints = [known[name][0] for name in weights]
    tips = np.array([known[name][1] for name in weights]).reshape(-1, 3)
    return joints, tips, np.array(list(weights.values()))


def _tip(skeleton: Skeleton, name: str, joint: int | None) -> Mapping[str, tuple[int, FloatArray]]:
    """Where the bone of a head or hand ends: the tip that the file gives, else the joint's own origin for a head."""
    if joint is None:
        return {}
    if np.linalg.norm(skeleton.tips[joint]) > 1e-6:
        return {name: (joint, skeleton.tips[joint])}
    return {name: (joint, np.zeros(3))} if name == "crown" else {}
