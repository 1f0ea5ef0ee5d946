"""Centre of mass of the body, from published segment masses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3
from marey.motion._mass_tables import mass_table
from marey.motion._motion import Motion
from marey.skeleton import RoleMap, Skeleton, role_map

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
    for segment in mass_table().segments:
        near, far = segment.near, segment.far
        if not points.issuperset(near):
            continue
        along = segment.along if points.issuperset(far) else 0.0
        for name in near:
            weights[name] = weights.get(name, 0.0) + segment.share * (1.0 - along) / len(near)
        for name in far if along else ():
            weights[name] = weights.get(name, 0.0) + segment.share * along / len(far)
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _mass_points(skeleton: Skeleton, roles: RoleMap) -> tuple[list[int], FloatArray, FloatArray]:
    """Joints ``(P,)``, points in their frames ``(P, 3)`` [m] and weights ``(P,)`` whose sum is the centre of mass."""
    known: dict[str, tuple[int, FloatArray]] = {name: (joint, np.zeros(3)) for name, joint in roles.joints.items()}
    for name, role in _TIP_ROLES.items():
        known |= _bone_tip(skeleton, name, roles.get(role))
    weights = mass_weights(frozenset(known))
    joints = [known[name][0] for name in weights]
    tips = np.array([known[name][1] for name in weights]).reshape(-1, 3)
    return joints, tips, np.array(list(weights.values()))


def _bone_tip(skeleton: Skeleton, name: str, joint: int | None) -> Mapping[str, tuple[int, FloatArray]]:
    """Where the bone of a head or hand ends: the tip that the file gives, else the joint's own origin for a head."""
    if joint is None:
        return {}
    if np.linalg.norm(skeleton.tips[joint]) > 1e-6:
        return {name: (joint, skeleton.tips[joint])}
    return {name: (joint, np.zeros(3))} if name == "crown" else {}
