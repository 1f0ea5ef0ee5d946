"""The solid body of a skeleton: tapered capsules, each fixed to a joint, and their triangles. Plain data, no drawing.

The body looks human on any skeleton whose parts are known. Widths are parts of the leg, hip to ankle, so that they
follow the size of the person. They are drawn to look right beside the breadths of [Winter2009]_ fig. 4.1; they weigh
nothing. Triangles are for viewers and files that support meshes only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints
from marey.lie import SO3
from marey.skeleton.calibration_pose import FORWARD, LEFT, UP, t_pose
from marey.skeleton.naming import SIDES
from marey.skeleton.points import farthest_point, foot_points, hand_vector, leg_length
from marey.skeleton.roles import RoleMap, role_map
from marey.skeleton.tree import NO_PARENT, Skeleton

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


# radii as parts of the leg length: (start, end)
THIGH: Final = (0.096, 0.068)
SHANK: Final = (0.066, 0.045)
UPPER_ARM: Final = (0.060, 0.048)
FOREARM: Final = (0.048, 0.034)
NECK: Final = (0.066, 0.062)
HAND: Final = (0.036, 0.028)
FOOT: Final = (0.040, 0.034)
TOES: Final = 0.026
PELVIS: Final = 0.115
WAIST: Final = 0.104
CHEST: Final = 0.108
SHOULDER: Final = 0.068
HEAD: Final = (0.088, 0.098)

_LIMBS: Final = (
    ("hip", "knee", THIGH),
    ("knee", "ankle", SHANK),
    ("shoulder", "elbow", UPPER_ARM),
    ("elbow", "wrist", FOREARM),
)


@dataclass(frozen=True, slots=True)
class _CalibratedSkeleton:
    """A skeleton in its calibration pose."""

    skeleton: Skeleton
    roles: RoleMap
    positions: FloatArray  # (J, 3) [m]
    frames: SO3  # (J,) R_world_joint
    leg: float  # [m]

    def at(self, role: str) -> FloatArray | None:
        joint = self.roles.get(role)
        return None if joint is None else self.positions[joint]

    def segment(self, joint: int, a: FloatArray, b: FloatArray, radii: tuple[float, float]) -> CapsuleDraft:
        """Make a capsule between two world points of the calibration pose, carried by ``joint``."""
        back = self.frames[joint].inverse()
        p = self.positions[joint]
        return CapsuleDraft(joint, back @ (a - p), back @ (b - p), self.leg * radii[0], self.leg * radii[1])


def body_segments(skeleton: Skeleton) -> list[CapsuleDraft]:
    """Return the capsules of a whole body."""
    roles = role_map(skeleton)
    if not any(f"{side}_{part}" in roles for side in SIDES for part in ("knee", "elbow")):
        return thin_segments(skeleton, frozenset())
    pose = t_pose(skeleton, roles)
    stand = _CalibratedSkeleton(
        skeleton, roles, pose.joint_positions(), pose.joint_rotations(), leg_length(skeleton, roles)
    )
    body = [*_trunk_segments(stand), *_head_segments(stand)]
    for side in SIDES:
        made: list[CapsuleDraft] = []
        for upper, lower, radii in _LIMBS:
            a, b = stand.at(f"{side}_{upper}"), stand.at(f"{side}_{lower}")
            if a is not None and b is not None:
                made.append(stand.segment(stand.roles[f"{side}_{upper}"], a, b, radii))
        body += [*made, *_foot_segments(stand, side), *_hand_segments(stand, side)]
    # Joints whose bone from the parent the body already shows: all roles, what lies between, and what is below
    found: set[int] = {0}
    for joint in stand.roles.joints.values():
        j = joint
        while j != NO_PARENT and j not in found:
            found.add(j)
            j = int(stand.skeleton.parents[j])
    ends = {stand.roles.get(role) for role in ("head", "left_wrist", "right_wrist", "left_foot", "right_foot")}
    for j in range(stand.skeleton.num_joints):
        parent = int(stand.skeleton.parents[j])
        if parent in ends or (parent in found and parent not in stand.roles.joints.values()):
            ends.add(j)
            found.add(j)
    return body + thin_segments(skeleton, frozenset(found))


def _foot_segments(stand: _CalibratedSkeleton, side: str) -> list[CapsuleDraft]:
    points = foot_points(stand.skeleton, stand.roles)
    if f"{side}_heel" not in points.names:
        return []
    at = points.positions(stand.positions, stand.frames)
    heel, ball, tip = (at[points.index(f"{side}_{name}")] for name in ("heel", "ball", "toe_end"))
    ankle, carrier = stand.roles[f"{side}_ankle"], int(points.joints[points.index(f"{side}_ball")])
    along = (tip - heel) / max(float(np.linalg.norm(tip - heel)), 1e-9)
    p_ankle = stand.positions[ankle]
    back = heel + stand.leg * (FOOT[0] * UP + FOOT[0] * along)
    front = ball + stand.leg * FOOT[1] * UP
    toe = tip + stand.leg * TOES * (UP - along)
    return [
        stand.segment(ankle, back, front, FOOT),
        stand.segment(ankle, p_ankle, 0.5 * (back + front), (SHANK[1], FOOT[1])),
        stand.segment(carrier, ball + stand.leg * TOES * UP, toe, (TOES, TOES)),
    ]


def _hand_segments(stand: _CalibratedSkeleton, side: str) -> list[CapsuleDraft]:
    wrist = stand.roles.get(f"{side}_wrist")
    if wrist is None:
        return []
    p = stand.positions[wrist]
    along = stand.frames[wrist] @ hand_vector(stand.skeleton, stand.roles, side)
    length = max(float(np.linalg.norm(along)), 1e-9)
    reach = max(length - stand.leg * HAND[1], 0.5 * length)
    return [stand.segment(wrist, p + 0.12 * along, p + reach / length * along, HAND)]


def _trunk_segments(stand: _CalibratedSkeleton) -> list[CapsuleDraft]:
    """Pelvis, waist and chest as balls across the body, joined along the spine."""
    pelvis, chest = stand.roles.get("pelvis"), stand.roles.get("spine3")
    root = 0 if pelvis is None else pelvis
    low, high, shoulders = _hip_centre(stand), _neck_base(stand), _half_width(stand, "shoulder", 0.19)
    top = root if chest is None else chest
    middle = _first_present(stand, ("spine2", "spine1"), root)
    spine = high - low
    hips = min(_half_width(stand, "hip", 0.10), 0.14 * stand.leg)
    width = shoulders - SHOULDER * stand.leg

    def level(part: float, forward: float) -> FloatArray:
        return low + part * spine + forward * stand.leg * FORWARD

    def across(joint: int, centre: FloatArray, half: float, radius: float) -> CapsuleDraft:
        return stand.segment(joint, centre - half * LEFT, centre + half * LEFT, (radius, radius))

    def column(joint: int, side: float, low_high: tuple[float, float], halves: tuple[float, float]) -> CapsuleDraft:
        a, b = (level(part, 0.0) + side * half * LEFT for part, half in zip(low_high, halves, strict=True))
        return stand.segment(joint, a, b, (WAIST, WAIST) if joint != top else (WAIST, CHEST))

    narrow, broad = 0.32 * hips, 0.58 * width
    return [
        across(root, level(0.05, 0.0), 0.72 * hips, PELVIS),
        *(column(middle, side, (0.10, 0.42), (0.5 * hips, narrow)) for side in (-1.0, 1.0)),
        *(column(top, side, (0.40, 0.78), (narrow, broad)) for side in (-1.0, 1.0)),
        across(top, level(0.93, 0.0), width, SHOULDER),
    ]


def _hip_centre(stand: _CalibratedSkeleton) -> FloatArray:
    """Middle of the hips."""
    hips = [p for p in (stand.at("left_hip"), stand.at("right_hip")) if p is not None]
    return np.mean(hips, axis=0) if hips else stand.positions[0]


def _neck_base(stand: _CalibratedSkeleton) -> FloatArray:
    """Base of the neck, never below the shoulders."""
    neck = stand.at("neck")
    shoulders = [p for p in (stand.at("left_shoulder"), stand.at("right_shoulder")) if p is not None]
    found = [*([] if neck is None else [neck]), *shoulders]
    if not found:
        return _hip_centre(stand) + 0.6 * stand.leg * UP
    base = np.mean(found, axis=0) if neck is None else neck.copy()
    base[1] = max(float(p[1]) for p in found)
    return base


def _half_width(stand: _CalibratedSkeleton, part: str, otherwise: float) -> float:
    a, b = stand.at(f"left_{part}"), stand.at(f"right_{part}")
    return otherwise * stand.leg if a is None or b is None else 0.5 * float(np.linalg.norm(a - b))


def _first_present(stand: _CalibratedSkeleton, roles: tuple[str, ...], otherwise: int) -> int:
    return next((stand.roles[role] for role in roles if role in stand.roles), otherwise)


def _head_segments(stand: _CalibratedSkeleton) -> list[CapsuleDraft]:
    carrier = _first_present(stand, ("head", "neck"), -1)
    if carrier < 0:
        return []
    base = _neck_base(stand)
    joint, leg = stand.positions[carrier], stand.leg
    tip = joint + stand.frames[carrier] @ farthest_point(stand.skeleton, carrier)
    crown = max(float(tip[1]), float(base[1]) + 0.32 * leg)
    chin = np.array([base[0], crown - 0.185 * leg, joint[2] + 0.022 * leg])
    brow = np.array([base[0], crown - HEAD[1] * leg, joint[2] + 0.012 * leg])
    neck = _first_present(stand, ("neck", "spine3"), carrier)
    return [
        stand.segment(neck, base - 0.05 * leg * UP, 0.5 * (chin + brow), NECK),
        stand.segment(carrier, chin, brow, HEAD),
    ]


@dataclass(frozen=True, slots=True, eq=False)
class BodyMesh:
    """V vertices, each fixed to one joint, and T triangles seen from outside counter-clockwise."""

    vertices: FloatArray  # (V, 3) [m] in the frame of the carrying joint
    faces: IntArray  # (T, 3)
    joints: IntArray  # (V,) carrying joint
    segments: IntArray  # (V,) capsule that the vertex belongs to

    def __post_init__(self) -> None:
        vertices = frozen(self.vertices, None, 3, name="vertices")
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "faces", frozen_ints(self.faces, None, 3, name="faces"))
        object.__setattr__(self, "joints", frozen_ints(self.joints, len(vertices), name="joints"))
        object.__setattr__(self, "segments", frozen_ints(self.segments, len(vertices), name="segments"))


def capsule_mesh(capsules: Capsules, segments: int = 12) -> BodyMesh:
    """Triangulate capsules: rings of ``segments`` vertices round each axis, closed at both ends.

    The wall is the cone that touches both balls, so that a tapered capsule is smooth where cone and ball meet.

    Raises:
        InputError: fewer than three vertices a ring.
    """
    if segments < 3:
        raise InputError(f"rings of {segments} vertices", "A ring needs at least 3")
    arcs = max(2, segments // 4)
    rings = 2 * arcs
    k = np.arange(segments)
    after = (k + 1) % segments
    last = 1 + rings * segments
    caps = [np.stack([np.zeros_like(k), 1 + after, 1 + k], axis=1)]
    for ring in range(rings - 1):
        low, high = 1 + ring * segments, 1 + (ring + 1) * segments
        caps.append(np.stack([low + k, low + after, high + after], axis=1))
        caps.append(np.stack([low + k, high + after, high + k], axis=1))
    caps.append(np.stack([np.full_like(k, last), last - segments + k, last - segments + after], axis=1))
    faces = np.concatenate(caps).astype(np.int64)
    shells = [_capsule_vertices(capsules, i, segments, arcs) for i in range(len(capsules))]
    count = 2 * arcs * segments + 2
    return BodyMesh(
        np.concatenate(shells) if shells else np.zeros((0, 3)),
        np.concatenate([faces + i * count for i in range(len(shells))]) if shells else np.zeros((0, 3), dtype=np.int64),
        np.repeat(capsules.joints, count),
        np.repeat(np.arange(len(shells)), count),
    )


def _capsule_vertices(capsules: Capsules, i: int, segments: int, arcs: int) -> FloatArray:
    """Vertices of one capsule: the pole of the first ball, rings, the pole of the second."""
    a, b = capsules.starts[i], capsules.ends[i]
    r, s = float(capsules.start_radii[i]), float(capsules.end_radii[i])
    length = float(np.linalg.norm(b - a))
    axis = (b - a) / length if length > 1e-9 else np.array([0.0, 1.0, 0.0])
    tilt = np.arcsin(np.clip((r - s) / length, -1.0, 1.0)) if length > 1e-9 else 0.0  # where cone and ball touch
    first = np.linspace(-0.5 * np.pi, tilt, arcs + 1)[1:]
    second = np.linspace(tilt, 0.5 * np.pi, arcs + 1)[:-1]
    along = np.concatenate([r * np.sin(first), length + s * np.sin(second)])
    wide = np.concatenate([r * np.cos(first), s * np.cos(second)])
    turn = 2.0 * np.pi * np.arange(segments) / segments
    helper = np.eye(3)[int(np.argmin(np.abs(axis)))]
    u = np.cross(helper, axis)
    u = u / np.linalg.norm(u)
    v = np.cross(axis, u)
    circle = np.cos(turn)[:, None] * u + np.sin(turn)[:, None] * v
    rings = a + along[:, None, None] * axis + wide[:, None, None] * circle
    return np.concatenate([(a - r * axis)[None], rings.reshape(-1, 3), (b + s * axis)[None]])
