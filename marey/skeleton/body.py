"""The solid body of a skeleton: tapered capsules, each fixed to a joint, and their triangles. Plain data, no drawing.

The body looks human on any skeleton whose parts are known. Widths are parts of the leg, hip to ankle, so that they
follow the size of the person. They are drawn to look right beside the breadths of [Winter2009]_ fig. 4.1; they weigh
nothing. Triangles are for viewers and files that support meshes only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints
from marey.lie import SO3
from marey.skeleton.calibration_pose import LEFT, UP, t_pose
from marey.skeleton.naming import SIDES
from marey.skeleton.points import farthest_point, foot_points, hand_vector, leg_length
from marey.skeleton.roles import RoleMap, role_map
from marey.skeleton.tree import NO_PARENT, Skeleton

THIN_RATIO = 0.18  # [-] radius over length of a bone that plays no part
THIN_RADII_M = (0.008, 0.05)  # [m] thinnest and thickest of them
_Segment = tuple[int, FloatArray, FloatArray, float, float]  # joint, centres [m] in its frame, radii [m]


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


@dataclass(slots=True, eq=False)
class _BodyDraft:
    """Capsules while a body is being put together, on a skeleton in its calibration pose."""

    skeleton: Skeleton
    roles: RoleMap
    positions: FloatArray  # (J, 3) [m]
    frames: SO3  # (J,) R_world_joint
    leg: float  # [m]
    segments: list[_Segment] = field(default_factory=list[_Segment])

    def at(self, role: str) -> FloatArray | None:
        joint = self.roles.get(role)
        return None if joint is None else self.positions[joint]

    def add(self, joint: int, a: FloatArray, b: FloatArray, radii: tuple[float, float]) -> None:
        """Add a capsule between two world points, carried by ``joint``; radii are parts of the leg."""
        back = self.frames[joint].inverse()
        p = self.positions[joint]
        self.segments.append((joint, back @ (a - p), back @ (b - p), self.leg * radii[0], self.leg * radii[1]))


def capsules(skeleton: Skeleton) -> Capsules:
    """Return a solid body for any skeleton.

    A skeleton whose roles are known gets a trunk of several thick pieces, a head, tapered limbs, feet and hands.
    Bones that play no part (fingers, tails, props) get a thin capsule each, and so does every bone of a skeleton
    that has neither legs nor arms.
    """
    roles = role_map(skeleton)
    segments: list[_Segment] = []
    shown: set[int] = set()
    if any(f"{side}_{part}" in roles for side in SIDES for part in ("knee", "elbow")):
        pose = t_pose(skeleton, roles)
        body = _BodyDraft(
            skeleton, roles, pose.joint_positions(), pose.joint_rotations(), leg_length(skeleton, roles), segments
        )
        _add_trunk_and_head(body)
        for side in SIDES:
            _add_limbs(body, side)
        # Joints whose bone from the parent the body already shows: all roles, what lies between, and what is below
        shown.add(0)
        for joint in roles.joints.values():
            j = joint
            while j != NO_PARENT and j not in shown:
                shown.add(j)
                j = int(skeleton.parents[j])
        ends = {roles.get(role) for role in ("head", "left_wrist", "right_wrist", "left_foot", "right_foot")}
        for j in range(skeleton.num_joints):
            parent = int(skeleton.parents[j])
            if parent in ends or (parent in shown and parent not in roles.joints.values()):
                ends.add(j)
                shown.add(j)
    # Thin capsules from the other joints to their children or tips
    for j in range(skeleton.num_joints):
        children = [int(c) for c in skeleton.children(j)]
        tips = [skeleton.offsets[c] for c in children if c not in shown]
        if not children and j not in shown:
            tips = [skeleton.tips[j]]
        for tip in tips:
            length = np.linalg.norm(tip)
            if length > 1e-4:
                radius = float(np.clip(THIN_RATIO * length, *THIN_RADII_M))
                segments.append((j, np.zeros(3), tip, radius, 0.8 * radius))
    return Capsules(
        np.array([joint for joint, *_ in segments], dtype=np.int64),
        np.array([start for _, start, *_ in segments]).reshape(-1, 3),
        np.array([end for _, _, end, *_ in segments]).reshape(-1, 3),
        np.array([radius for *_, radius, _ in segments]),
        np.array([radius for *_, radius in segments]),
    )


def _add_trunk_and_head(body: _BodyDraft) -> None:
    """Add pelvis, waist and chest as balls across the body joined along the spine, then neck and head."""
    roles, leg = body.roles, body.leg
    left_hip, right_hip, neck = body.at("left_hip"), body.at("right_hip"), body.at("neck")
    left_shoulder, right_shoulder = body.at("left_shoulder"), body.at("right_shoulder")
    hips = [p for p in (left_hip, right_hip) if p is not None]
    low = np.mean(hips, axis=0) if hips else body.positions[0]
    # Base of the neck, never below the shoulders
    tops = [p for p in (neck, left_shoulder, right_shoulder) if p is not None]
    high = low + 0.6 * leg * UP
    if tops:
        high = np.mean(tops, axis=0) if neck is None else neck.copy()
        high[1] = max(float(p[1]) for p in tops)
    # Half widths of hips and shoulders; usual ones where a side is missing
    half_hips, half_shoulders = 0.10 * leg, 0.19 * leg
    if left_hip is not None and right_hip is not None:
        half_hips = 0.5 * float(np.linalg.norm(left_hip - right_hip))
    if left_shoulder is not None and right_shoulder is not None:
        half_shoulders = 0.5 * float(np.linalg.norm(left_shoulder - right_shoulder))
    half_hips = min(half_hips, 0.14 * leg)
    width = half_shoulders - SHOULDER * leg
    narrow, broad = 0.32 * half_hips, 0.58 * width
    root = roles.joints.get("pelvis", 0)
    middle = roles.joints.get("spine2", roles.joints.get("spine1", root))
    top = roles.joints.get("spine3", root)
    # Centres at parts of the way from the hips to the neck
    pelvis, waist, belly, ribs, chest, collar = (
        low + part * (high - low) for part in (0.05, 0.10, 0.42, 0.40, 0.78, 0.93)
    )
    body.add(root, pelvis - 0.72 * half_hips * LEFT, pelvis + 0.72 * half_hips * LEFT, (PELVIS, PELVIS))
    for side in (-1.0, 1.0):
        radii = (WAIST, WAIST) if middle != top else (WAIST, CHEST)
        body.add(middle, waist + side * (0.5 * half_hips) * LEFT, belly + side * narrow * LEFT, radii)
    for side in (-1.0, 1.0):
        body.add(top, ribs + side * narrow * LEFT, chest + side * broad * LEFT, (WAIST, CHEST))
    body.add(top, collar - width * LEFT, collar + width * LEFT, (SHOULDER, SHOULDER))
    carrier = roles.joints.get("head", roles.joints.get("neck"))
    if carrier is None:
        return
    # The head ends at its tip, but is never shorter than a usual head
    joint = body.positions[carrier]
    tip = joint + body.frames[carrier] @ farthest_point(body.skeleton, carrier)
    crown = max(float(tip[1]), float(high[1]) + 0.32 * leg)
    chin = np.array([high[0], crown - 0.185 * leg, joint[2] + 0.022 * leg])
    brow = np.array([high[0], crown - HEAD[1] * leg, joint[2] + 0.012 * leg])
    neck_joint = roles.joints.get("neck", roles.joints.get("spine3", carrier))
    body.add(neck_joint, high - 0.05 * leg * UP, 0.5 * (chin + brow), NECK)
    body.add(carrier, chin, brow, HEAD)


def _add_limbs(body: _BodyDraft, side: str) -> None:
    """Add thigh, shank, upper arm, forearm, foot and hand of one side, as far as their joints are known."""
    for upper, lower, radii in _LIMBS:
        a, b = body.at(f"{side}_{upper}"), body.at(f"{side}_{lower}")
        if a is not None and b is not None:
            body.add(body.roles[f"{side}_{upper}"], a, b, radii)
    points = foot_points(body.skeleton, body.roles)
    if f"{side}_heel" in points.names:
        # A ball radius above the sole: heel to ball, ankle to the middle of that, ball to toes
        at = points.positions(body.positions, body.frames)
        heel, ball, tip = (at[points.index(f"{side}_{name}")] for name in ("heel", "ball", "toe_end"))
        ankle, carrier = body.roles[f"{side}_ankle"], int(points.joints[points.index(f"{side}_ball")])
        along = (tip - heel) / max(float(np.linalg.norm(tip - heel)), 1e-9)
        back = heel + body.leg * (FOOT[0] * UP + FOOT[0] * along)
        front = ball + body.leg * FOOT[1] * UP
        toe = tip + body.leg * TOES * (UP - along)
        body.add(ankle, back, front, FOOT)
        body.add(ankle, body.positions[ankle], 0.5 * (back + front), (SHANK[1], FOOT[1]))
        body.add(carrier, ball + body.leg * TOES * UP, toe, (TOES, TOES))
    wrist = body.roles.get(f"{side}_wrist")
    if wrist is not None:
        p = body.positions[wrist]
        along = body.frames[wrist] @ hand_vector(body.skeleton, body.roles, side)
        length = max(float(np.linalg.norm(along)), 1e-9)
        reach = max(length - body.leg * HAND[1], 0.5 * length)
        body.add(wrist, p + 0.12 * along, p + reach / length * along, HAND)


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
    # Triangles of one capsule: a fan round each pole, two triangles between neighbours of two rings
    k = np.arange(segments)
    after = (k + 1) % segments
    last = 1 + rings * segments
    triangles = [np.stack([np.zeros_like(k), 1 + after, 1 + k], axis=1)]
    for ring in range(rings - 1):
        low, high = 1 + ring * segments, 1 + (ring + 1) * segments
        triangles.append(np.stack([low + k, low + after, high + after], axis=1))
        triangles.append(np.stack([low + k, high + after, high + k], axis=1))
    triangles.append(np.stack([np.full_like(k, last), last - segments + k, last - segments + after], axis=1))
    faces = np.concatenate(triangles).astype(np.int64)
    # Vertices of each capsule: the pole of the first ball, rings, the pole of the second
    shells: list[FloatArray] = []
    turn = 2.0 * np.pi * np.arange(segments) / segments
    for i in range(len(capsules)):
        a, b = capsules.starts[i], capsules.ends[i]
        r, s = float(capsules.start_radii[i]), float(capsules.end_radii[i])
        length = float(np.linalg.norm(b - a))
        axis = (b - a) / length if length > 1e-9 else np.array([0.0, 1.0, 0.0])
        # Latitude at which the cone touches both balls
        tilt = np.arcsin(np.clip((r - s) / length, -1.0, 1.0)) if length > 1e-9 else 0.0
        first = np.linspace(-0.5 * np.pi, tilt, arcs + 1)[1:]
        second = np.linspace(tilt, 0.5 * np.pi, arcs + 1)[:-1]
        along = np.concatenate([r * np.sin(first), length + s * np.sin(second)])
        wide = np.concatenate([r * np.cos(first), s * np.cos(second)])
        # A circle across the axis
        u = np.cross(np.eye(3)[int(np.argmin(np.abs(axis)))], axis)
        u = u / np.linalg.norm(u)
        v = np.cross(axis, u)
        circle = np.cos(turn)[:, None] * u + np.sin(turn)[:, None] * v
        wall = a + along[:, None, None] * axis + wide[:, None, None] * circle
        shells.append(np.concatenate([(a - r * axis)[None], wall.reshape(-1, 3), (b + s * axis)[None]]))
    count = rings * segments + 2
    return BodyMesh(
        np.concatenate(shells) if shells else np.zeros((0, 3)),
        np.concatenate([faces + i * count for i in range(len(shells))]) if shells else np.zeros((0, 3), dtype=np.int64),
        np.repeat(capsules.joints, count),
        np.repeat(np.arange(len(shells)), count),
    )
