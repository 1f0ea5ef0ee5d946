"""Centre of mass of the body from published segment masses.

One table of mass fractions, centres and radii of gyration is the source of all masses in marey.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, UnknownNameError
from marey.lie import SO3
from marey.motion.clip import Motion
from marey.skeleton import RoleMap, role_map

Radii = tuple[float, float, float]
_HAND_LENGTH: Final = 0.1879 / 1.741  # [stature] wrist to third fingertip, men of [DeLeva1996]_


@dataclass(frozen=True, slots=True)
class BodySegment:
    """One rigid segment, between landmarks: canonical joint names, ``crown``, ``left_fingertip``, ``right_fingertip``.

    The radii of gyration about the centre are for the axes from back to front (sagittal), from side to side
    (transverse) and along the segment, over the length from ``near`` to ``far`` or over ``length`` times the stature.
    """

    name: str
    share: float  # mass over the mass of the body
    near: tuple[str, ...]  # proximal end: midpoint of these landmarks
    far: tuple[str, ...]  # distal end
    along: float  # position of the centre of mass, from near (0) to far (1)
    radii: Radii
    length: float | None = None  # [stature] reference of the radii, if it is not the distance from near to far


@dataclass(frozen=True, slots=True)
class TrunkPart:
    """A segment of a flexible trunk; lengths are fractions of the line from mid-shoulder to mid-hip."""

    name: str
    share: float  # mass over the mass of the body
    along: float  # position of the centre of mass, from the shoulders (0) to the hips (1)
    length: float  # reference of the radii
    radii: Radii


@dataclass(frozen=True, slots=True)
class MassTable:
    """Segments whose masses add up to one, and the parts of the trunk."""

    name: str
    source: str
    segments: tuple[BodySegment, ...]
    trunk_parts: tuple[TrunkPart, ...]  # shares add up to the trunk's
    head_length: float = 0.2429 / 1.741  # [stature] C7 to vertex, men of [DeLeva1996]_, for heads without a tip
    hand_length: float = _HAND_LENGTH  # [stature] for every hand: captured hands end at the knuckles


SIDES: Final = ("left_", "right_")
_FOOT_LENGTH: Final = 0.2581 / 1.741  # [stature] heel to toe tip
_SHOULDERS: Final = ("left_shoulder", "right_shoulder")
_HIPS: Final = ("left_hip", "right_hip")

_Limb = tuple[str, float, str, str, float, Radii, float | None]


def _segments(
    head: tuple[float, float, Radii], trunk: tuple[float, float, Radii], limbs: tuple[_Limb, ...]
) -> tuple[BodySegment, ...]:
    return (
        BodySegment("head", head[0], ("neck",), ("crown",), head[1], head[2]),
        BodySegment("trunk", trunk[0], _SHOULDERS, _HIPS, trunk[1], trunk[2]),
        *(
            BodySegment(side + name, share, (side + near,), (side + far,), along, radii, length)
            for side in SIDES
            for name, share, near, far, along, radii, length in limbs
        ),
    )


# Men of [DeLeva1996]_ table 4; the trunk between mid-shoulder and mid-hip, the head between C7 and vertex, the hand
# between wrist and third fingertip, the shank between the joint centres. The centre of the foot is that of
# [Winter2009]_ table 4.1: half way from the ankle to the ball, since few skeletons have a heel. The parts of the trunk
# (0.1707, 0.2155 and 0.1457 m long, from a suprasternale 0.0164 m above mid-shoulder, of 0.5155 m) are split at xiphoid
# and navel.
_DELEVA: Final = MassTable(
    "deleva1996",
    "de Leva 1996, men",
    _segments(
        (0.0694, 0.4998, (0.303, 0.315, 0.261)),
        (0.4346, 0.4310, (0.384, 0.358, 0.197)),
        (
            ("upper_arm", 0.0271, "shoulder", "elbow", 0.5772, (0.285, 0.269, 0.158), None),
            ("forearm", 0.0162, "elbow", "wrist", 0.4574, (0.276, 0.265, 0.121), None),
            ("hand", 0.0061, "wrist", "fingertip", 0.3624, (0.288, 0.235, 0.184), _HAND_LENGTH),
            ("thigh", 0.1416, "hip", "knee", 0.4095, (0.329, 0.329, 0.149), None),
            ("shank", 0.0433, "knee", "ankle", 0.4395, (0.251, 0.246, 0.102), None),
            ("foot", 0.0137, "ankle", "foot", 0.5, (0.257, 0.245, 0.124), _FOOT_LENGTH),
        ),
    ),
    (
        TrunkPart("upper_trunk", 0.1596, 0.0675, 0.1707 / 0.5155, (0.716, 0.454, 0.659)),
        TrunkPart("middle_trunk", 0.1633, 0.4875, 0.2155 / 0.5155, (0.482, 0.383, 0.468)),
        TrunkPart("lower_trunk", 0.1117, 0.8902, 0.1457 / 0.5155, (0.615, 0.551, 0.587)),
    ),
)
# Shares, centres and transverse radii of [Winter2009]_ table 4.1 (Dempster's cadavers). The table has no radius about
# the long axis, none for the trunk, and ends head and hand at the ear canal and at a knuckle, which skeletons lack:
# for these the values above are used.
_WINTER: Final = MassTable(
    "winter2009",
    "Winter 2009 table 4.1, after Dempster",
    _segments(
        (0.0810, 0.4998, (0.303, 0.315, 0.261)),
        (0.4970, 0.5000, (0.384, 0.358, 0.197)),
        (
            ("upper_arm", 0.0280, "shoulder", "elbow", 0.436, (0.322, 0.322, 0.158), None),
            ("forearm", 0.0160, "elbow", "wrist", 0.430, (0.303, 0.303, 0.121), None),
            ("hand", 0.0060, "wrist", "fingertip", 0.3624, (0.288, 0.235, 0.184), _HAND_LENGTH),
            ("thigh", 0.1000, "hip", "knee", 0.433, (0.323, 0.323, 0.149), None),
            ("shank", 0.0465, "knee", "ankle", 0.433, (0.302, 0.302, 0.102), None),
            ("foot", 0.0145, "ankle", "foot", 0.5, (0.257, 0.245, 0.124), _FOOT_LENGTH),
        ),
    ),
    (
        TrunkPart("upper_trunk", 0.2160, 0.0675, 0.1707 / 0.5155, (0.716, 0.454, 0.659)),
        TrunkPart("middle_trunk", 0.1390, 0.4875, 0.2155 / 0.5155, (0.482, 0.383, 0.468)),
        TrunkPart("lower_trunk", 0.1420, 0.8902, 0.1457 / 0.5155, (0.615, 0.551, 0.587)),
    ),
)
MASS_TABLES: Final = {table.name: table for table in (_DELEVA, _WINTER)}


def mass_table(name: str = "deleva1996") -> MassTable:
    """Return a table of segment masses by name.

    Raises:
        UnknownNameError: there is no such table.
    """
    if name not in MASS_TABLES:
        raise UnknownNameError("mass table", name, "marey", MASS_TABLES)
    return MASS_TABLES[name]


def centre_of_mass(motion: Motion, roles: RoleMap | None = None) -> FloatArray:
    """Centre of mass of the whole body ``(F, 3)`` [m] in world.

    The body is 14 rigid segments with the masses and centres of [DeLeva1996]_. A segment whose joints the skeleton
    lacks is left out and the others share its mass; without any of them it is the mean of all joints.

    Args:
        motion: any clip.
        roles: which joint is which; guessed from the skeleton by default.
    """
    roles = role_map(motion.skeleton) if roles is None else roles
    # Landmarks: joint, and point in its frame [m]; a head without a tip ends at its joint, such a hand has no fingertip
    landmarks: dict[str, tuple[int, FloatArray]] = {name: (joint, np.zeros(3)) for name, joint in roles.joints.items()}
    for name, role in (("crown", "head"), ("left_fingertip", "left_wrist"), ("right_fingertip", "right_wrist")):
        joint = roles.get(role)
        if joint is None:
            continue
        tip = motion.skeleton.tips[joint]
        if np.linalg.norm(tip) > 1e-6:
            landmarks[name] = (joint, tip)
        elif name == "crown":
            landmarks[name] = (joint, np.zeros(3))
    # The centre of mass is a weighted sum of landmarks
    weights = mass_weights(frozenset(landmarks))
    if not weights:
        return motion.joint_positions().mean(axis=1)
    joints = [landmarks[name][0] for name in weights]
    tips = np.array([landmarks[name][1] for name in weights])
    shares = np.array(list(weights.values()))
    return motion.map_frames(
        lambda positions, frames: np.einsum(
            "p,fpi->fi", shares, positions[:, joints] + SO3(frames.wxyz[:, joints]) @ tips
        )
    )


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
