"""The solid body of a skeleton: tapered capsules, each fixed to a joint. Plain data, no drawing.

A person has two kinds of parts. *Bones* run from joint to joint along the tree, with the thickness of the limb or trunk
they belong to; neighbours share a joint, so that they meet in every pose and for any proportions. *Flesh* (pelvis,
waist, chest, head, hands, feet) surrounds the bones of the joint that carries it. Widths are fractions of the leg, hip
to ankle, chosen by eye to agree with the breadths of [Winter2009]_ fig. 4.1; those of arms, trunk and head also scale
with their own lengths, so that a child keeps a child's head. The capsules have no mass. A skeleton that is not a
person is drawn as tapered sticks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray, frozen, frozen_ints
from marey.lie import SO3
from marey.skeleton.anatomy import assess_anatomy
from marey.skeleton.calibration_pose import LEFT, UP, t_pose
from marey.skeleton.naming import SIDES
from marey.skeleton.points import foot_points, hand_vector, leg_length
from marey.skeleton.roles import RoleMap, role_map
from marey.skeleton.tree import NO_PARENT, Skeleton

STICK_TAPER: Final = (0.17, 0.11)  # [-] radii of a stick over its length
STICK_RADII: Final = (0.006, 0.04)  # [-] thinnest and thickest stick, as fractions of the skeleton's size
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
NAPE: Final = (0.092, 0.072)  # where the neck widens to the shoulders
HAND: Final = (0.036, 0.028)
FOOT: Final = (0.040, 0.034)
TOES: Final = 0.026
PELVIS: Final = 0.115
WAIST: Final = 0.104
CHEST: Final = 0.108
SHOULDER: Final = 0.068
SPINE: Final = 0.050
HEAD: Final = (0.088, 0.098)
# lengths of the canonical human as parts of its leg
TRUNK_LENGTH: Final = 0.308 / 0.491  # hips to the base of the neck
ARM_LENGTH: Final = (0.186 + 0.146) / 0.491  # shoulder to wrist
FOREARM_LENGTH: Final = 0.146 / 0.491
SHANK_LENGTH: Final = 0.246 / 0.491
HEAD_RISE: Final = 0.110 / 0.491  # joint of the head to the crown
HEAD_HEIGHT: Final = 0.130 / 0.491  # chin to crown
NECK_RISE: Final = 0.052 / 0.491  # base of the neck to the joint of the head
EYES_BELOW_CROWN: Final = 0.5 * HEAD_HEIGHT
LEAST_CROWN: Final = 0.25  # above the base of the neck: a head and no neck

# How far arms, trunk and head may differ from the proportions of the leg, and which tips are the crown of a head
WIDTH_RANGE: Final = (0.75, 1.35)
USUAL_RANGE: Final = (0.87, 1.12)
CROWN_RANGE: Final = (0.75, 1.9)  # of the usual rise: lower ends are eyes or jaws, higher ones hair
HEAD_SIZE_RANGE: Final = (0.9, 1.4)
STRAIGHT_COS: Final = 0.96  # [-] a limb begins at the first joint from which its end lies along its bones

_LEG: Final = ("hip", "knee", "ankle")
_ARM: Final = ("shoulder", "elbow", "wrist")
_RADII: Final = {"hip": THIGH, "knee": SHANK, "shoulder": UPPER_ARM, "elbow": FOREARM}
_LAST_BONE: Final = {"knee": SHANK_LENGTH, "elbow": FOREARM_LENGTH}  # drawn if the file ends a limb early


@dataclass(slots=True, eq=False)
class _BodyDraft:
    """The capsules of a body under construction, on a skeleton in its calibration pose."""

    skeleton: Skeleton
    roles: RoleMap
    positions: FloatArray  # (J, 3) [m]
    frames: SO3  # (J,) R_world_joint
    leg: float  # [m]
    segments: list[_Segment] = field(default_factory=list[_Segment])

    def at(self, role: str) -> FloatArray | None:
        joint = self.roles.get(role)
        return None if joint is None else self.positions[joint]

    def add(self, joint: int, a: FloatArray, b: FloatArray, radii: tuple[float, float], unit: float) -> None:
        """Add a capsule between two world points, carried by ``joint``; radii are parts of ``unit`` [m]."""
        back = self.frames[joint].inverse()
        p = self.positions[joint]
        self.segments.append((joint, back @ (a - p), back @ (b - p), unit * radii[0], unit * radii[1]))

    def add_bone(self, child: int, radii: tuple[float, float]) -> None:
        """Add the bone from the parent of ``child`` to it; radii in metres."""
        joint, end = int(self.skeleton.parents[child]), self.skeleton.offsets[child]
        if float(np.linalg.norm(end)) > 1e-4 * self.leg:
            self.segments.append((joint, np.zeros(3), end, *radii))

    def width_unit(self, length: float, usual: float) -> float:
        """Leg length [m] by which to scale the widths of a part of this ``length`` [m].

        The geometric mean of the actual leg and of the leg that the part suggests. Within the usual variation of people
        (a tenth, or a bone of the spine lost in a file) the actual leg alone counts.
        """
        ratio = float(np.sqrt(length / (usual * self.leg)))
        is_usual = USUAL_RANGE[0] < ratio < USUAL_RANGE[1]
        return self.leg * (1.0 if is_usual else float(np.clip(ratio, *WIDTH_RANGE)))


def capsules(skeleton: Skeleton) -> Capsules:
    """Return a solid body for any skeleton.

    A person, whose limbs are known by role, gets a trunk of several thick segments, a head, tapered limbs, feet and
    hands; joints without a role (fingers, faces, twists, tails, targets, props) are not drawn. Any other skeleton gets
    a tapered stick for each bone below the first joint that branches.
    """
    roles = role_map(skeleton)
    pose = t_pose(skeleton, roles)
    body = _BodyDraft(skeleton, roles, pose.joint_positions(), pose.joint_rotations(), leg_length(skeleton, roles))
    if is_drawn_as_person(skeleton, roles):
        bones = _add_limbs(body)
        unit = _add_trunk(body)
        _add_head(body, unit)
        # Every bone between joints that have a role: limbs with their own radii, neck and spine with theirs
        ends = [joint for role, joint in roles.joints.items() if role != "pelvis" and not role.startswith("spine")]
        ends += _trunk_joints(body)
        # Joints shared by all paths lie at or above the body's root: nodes of the scene
        paths = [_path_down(skeleton, 0, joint) for joint in ends]
        shared = sum(len(set(row)) == 1 for row in zip(*paths, strict=False))
        neck, head = roles.get("neck"), roles.get("head")
        throat = _path_down(skeleton, neck, head)[1:] if neck is not None and head is not None else []
        # The flesh of a foot covers its bone, unless there are joints between ankle and ball
        feet = list[int]()
        for side in SIDES:
            if f"{side}_ankle" in roles and f"{side}_foot" in roles:
                path = _path_down(skeleton, roles[f"{side}_ankle"], roles[f"{side}_foot"])[1:]
                feet += path
                bones |= {joint: (TOES * body.leg, TOES * body.leg) for joint in path if len(path) > 1}
        for child in sorted({joint for path in paths for joint in path[shared:]}):
            if child in bones:
                body.add_bone(child, bones[child])
            elif child in throat:
                body.add_bone(child, (NECK[0] * unit, NECK[1] * unit))
            elif child not in feet:
                body.add_bone(child, (SPINE * unit, SPINE * unit))
    else:
        # A tapered stick for each bone, and for the tip of each joint that ends a limb
        counts = np.bincount(skeleton.parents[1:], minlength=skeleton.num_joints)
        # Skip the nodes of the scene: a chain down to the first joint that branches
        first = 0
        while counts[first] == 1 and counts.max() > 1:
            first = int(skeleton.children(first)[0])
        low, high = STICK_RADII
        size = float(np.ptp(skeleton.rest_positions()[first:], axis=0).max(initial=0.0))
        size = max(size, float(np.linalg.norm(skeleton.tips, axis=1).max()))
        for j in range(first, skeleton.num_joints):
            ends = [skeleton.offsets[c] for c in skeleton.children(j)]
            for end in ends if ends else [skeleton.tips[j]]:
                length = float(np.linalg.norm(end))
                if length > 1e-4 * size:
                    start, tip = (float(np.clip(taper * length, low * size, high * size)) for taper in STICK_TAPER)
                    body.segments.append((j, np.zeros(3), end, start, tip))
    segments = body.segments
    return Capsules(
        np.array([joint for joint, *_ in segments], dtype=np.int64),
        np.array([start for _, start, *_ in segments]).reshape(-1, 3),
        np.array([end for _, _, end, *_ in segments]).reshape(-1, 3),
        np.array([radius for *_, radius, _ in segments]),
        np.array([radius for *_, radius in segments]),
    )


def is_drawn_as_person(skeleton: Skeleton, roles: RoleMap) -> bool:
    """Return whether a skeleton has the limbs of a person: two legs, two arms or both, each one chain of joints.

    If its roles were guessed, its anatomy must be human too, since animals have legs as well. Half a body, such as the
    legs of a treadmill study, has no anatomy that could be assessed.
    """
    chains = {kind: [_limb_joints(skeleton, roles, side, kind) for side in SIDES] for kind in (_LEG, _ARM)}
    complete = [kind for kind, limbs in chains.items() if all(len(limb) >= 2 for limb in limbs)]
    named = [kind for kind in chains if any(f"{side}_{part}" in roles for side in SIDES for part in kind)]
    broken = [kind for kind in named if kind not in complete]
    if not complete or broken:
        return False
    anatomy = assess_anatomy(skeleton)
    is_half = len(complete) < len(chains) and anatomy.plan is None
    return roles.profile != "guessed" or anatomy.is_human or is_half


def _limb_joints(skeleton: Skeleton, roles: RoleMap, side: str, kind: tuple[str, ...]) -> list[int]:
    """Joints of a limb down to the first that is unknown or not a descendant; empty if the first is missing."""
    joints: list[int] = []
    for part in kind:
        joint = roles.get(f"{side}_{part}")
        if joint is None or (joints and not _path_down(skeleton, joints[-1], joint)):
            break
        joints.append(joint)
    return joints


def _path_down(skeleton: Skeleton, upper: int, lower: int) -> list[int]:
    """Joints from ``upper`` down to ``lower``, both included; empty if ``lower`` is no descendant of ``upper``."""
    path = [lower]
    while path[-1] not in (upper, NO_PARENT):
        path.append(int(skeleton.parents[path[-1]]))
    return path[::-1] if path[-1] == upper else []


def _add_limbs(body: _BodyDraft) -> dict[int, tuple[float, float]]:
    """Add feet and hands; return the radii [m] of the limbs' bones, by the joint at the end of each."""
    skeleton, bones = body.skeleton, dict[int, tuple[float, float]]()
    for side in SIDES:
        for kind in (_LEG, _ARM):
            joints = _limb_joints(skeleton, body.roles, side, kind)
            unit = body.leg
            if kind is _ARM and len(joints) == len(kind):
                lengths = [float(np.linalg.norm(body.positions[b] - body.positions[a])) for a, b in pairwise(joints)]
                unit = body.width_unit(sum(lengths), ARM_LENGTH)
            for (upper, lower), part in zip(pairwise(joints), kind[:-1], strict=False):
                path = _path_down(skeleton, upper, lower)
                # Drop leading joints before the limb runs straight, such as a helper of the hip in the midline
                p = body.positions
                for first in range(len(path) - 1):
                    length = sum(float(np.linalg.norm(p[b] - p[a])) for a, b in pairwise(path[first:]))
                    if float(np.linalg.norm(p[path[-1]] - p[path[first]])) >= STRAIGHT_COS * length:
                        path = path[first:]
                        break
                # Radii taper over the whole limb, through the joints between its roles
                lengths = np.cumsum([0.0, *(float(np.linalg.norm(skeleton.offsets[j])) for j in path[1:])])
                radii = unit * np.interp(lengths, [0.0, max(lengths[-1], 1e-9)], _RADII[part])
                bones |= {j: (float(radii[i]), float(radii[i + 1])) for i, j in enumerate(path[1:])}
            if 2 <= len(joints) < len(kind):
                # The file ends the limb at its middle joint: add a last bone of usual length
                part, joint = kind[len(joints) - 1], joints[-1]
                along = body.positions[joint] - body.positions[joints[-2]]
                along = along / max(float(np.linalg.norm(along)), 1e-9)
                end = body.positions[joint] + _LAST_BONE[part] * unit * along
                body.add(joint, body.positions[joint], end, _RADII[part], unit)
            if kind is _ARM and len(joints) == len(kind):
                # A hand, short of the finger tips by its own radius
                wrist = joints[-1]
                along = body.frames[wrist] @ hand_vector(skeleton, body.roles, side)
                length = max(float(np.linalg.norm(along)), 1e-9)
                reach = max(length - unit * HAND[1], 0.5 * length) / length
                body.add(wrist, body.positions[wrist] + 0.12 * along, body.positions[wrist] + reach * along, HAND, unit)
        # A foot on its sole: heel to ball, ankle to the middle of that, ball to toes
        points, leg = foot_points(body.skeleton, body.roles), body.leg
        if f"{side}_heel" in points.names:
            at = points.positions(body.positions, body.frames)
            heel, ball, tip = (at[points.index(f"{side}_{name}")] for name in ("heel", "ball", "toe_end"))
            ankle, carrier = body.roles[f"{side}_ankle"], int(points.joints[points.index(f"{side}_ball")])
            along = (tip - heel) / max(float(np.linalg.norm(tip - heel)), 1e-9)
            # A ball radius above the sole
            back = heel + leg * (FOOT[0] * UP + FOOT[0] * along)
            front = ball + leg * FOOT[1] * UP
            toe = tip + leg * TOES * (UP - along)
            body.add(ankle, back, front, FOOT, leg)
            body.add(ankle, body.positions[ankle], 0.5 * (back + front), (SHANK[1], FOOT[1]), leg)
            body.add(carrier, ball + leg * TOES * UP, toe, (TOES, TOES), leg)
    return bones


def _add_trunk(body: _BodyDraft) -> float:
    """Add pelvis, waist and chest as balls across the body joined along the spine; return their unit of width [m]."""
    low, high = _trunk_ends(body)
    unit = body.width_unit(float(np.linalg.norm(high - low)), TRUNK_LENGTH)
    # Half widths of hips and shoulders, with default values if a side is missing
    halves = {"hip": 0.10 * body.leg, "shoulder": 0.19 * body.leg}
    for part in halves:
        left, right = body.at(f"left_{part}"), body.at(f"right_{part}")
        if left is not None and right is not None:
            halves[part] = 0.5 * float(np.linalg.norm(left - right))
    half_hips, width = halves["hip"], max(halves["shoulder"] - SHOULDER * unit, 0.0)
    slim = min(half_hips, 0.14 * unit)
    narrow, broad = 0.32 * slim, 0.58 * width
    root, middle, top = _trunk_joints(body)
    # Centres at fractions of the line from the hips to the neck
    pelvis, waist, belly, ribs, chest, collar = (
        low + part * (high - low) for part in (0.05, 0.10, 0.42, 0.40, 0.78, 0.93)
    )
    body.add(root, pelvis - 0.72 * half_hips * LEFT, pelvis + 0.72 * half_hips * LEFT, (PELVIS, PELVIS), unit)
    for side in (-1.0, 1.0):
        radii = (WAIST, WAIST) if middle != top else (WAIST, CHEST)
        body.add(middle, waist + side * (0.5 * slim) * LEFT, belly + side * narrow * LEFT, radii, unit)
    for side in (-1.0, 1.0):
        body.add(top, ribs + side * narrow * LEFT, chest + side * broad * LEFT, (WAIST, CHEST), unit)
    body.add(top, collar - width * LEFT, collar + width * LEFT, (SHOULDER, SHOULDER), unit)
    return unit


def _trunk_joints(body: _BodyDraft) -> tuple[int, int, int]:
    """Joints that carry pelvis, waist and chest, on the path from the hips to the neck.

    The pelvis is the joint that carries both hips, the chest the one that carries both shoulders, whatever their names.
    """
    skeleton, roles = body.skeleton, body.roles
    low = _shared_joints(skeleton, [roles[role] for role in ("left_hip", "right_hip") if role in roles])
    pelvis = low[-1] if len(low) and "left_hip" in roles else roles.joints.get("pelvis", 0)
    tops = ("left_shoulder", "right_shoulder", "neck", "head")
    spine = _shared_joints(skeleton, [roles[role] for role in tops if role in roles])
    # Keep the part of the path to the chest that is not shared with the path to the hips
    start = max((i for i, joint in enumerate(spine) if joint in (*low, pelvis)), default=-1)
    spine = spine[start + 1 :] or [pelvis]
    chest = roles["spine3"] if roles.get("spine3") in spine else spine[-1]
    named = [roles[role] for role in ("spine2", "spine1") if roles.get(role) in spine]
    return pelvis, named[0] if named else spine[(len(spine) - 1) // 2], chest


def _shared_joints(skeleton: Skeleton, joints: list[int]) -> list[int]:
    """Common proper ancestors of some joints, from the root down."""
    paths = [_path_down(skeleton, 0, joint)[:-1] for joint in joints]
    return [row[0] for row in zip(*paths, strict=False) if len(set(row)) == 1]


def _trunk_ends(body: _BodyDraft) -> tuple[FloatArray, FloatArray]:
    """Midpoint of the hips and base of the neck, which is never below the shoulders."""
    hips = [p for p in (body.at("left_hip"), body.at("right_hip")) if p is not None]
    low = np.mean(hips, axis=0) if hips else body.positions[_trunk_joints(body)[0]]
    neck = body.at("neck")
    tops = [p for p in (neck, body.at("left_shoulder"), body.at("right_shoulder")) if p is not None]
    high = low + 0.6 * body.leg * UP
    if tops:
        high = np.mean(tops, axis=0) if neck is None else neck.copy()
        high[1] = max(float(p[1]) for p in tops)
    return low, high


def _add_head(body: _BodyDraft, unit: float) -> None:
    """Add the head above its joint, up to the crown or eyes of the file, and its connection to the neck."""
    roles, (_, high) = body.roles, _trunk_ends(body)
    carrier = roles.joints.get("head", roles.joints.get("neck"))
    if carrier is None:
        return
    joint = body.positions[carrier].copy()
    if "head" not in roles:
        joint[1] = max(float(joint[1]), float(high[1])) + NECK_RISE * unit
    # Highest joint or tip of the head, and the height of its eyes
    below = [j for j in range(body.skeleton.num_joints) if j > carrier and _path_down(body.skeleton, carrier, j)]
    tips = [body.positions[j] + body.frames[j] @ body.skeleton.tips[j] for j in (carrier, *below)]
    rise = max(float(p[1]) for p in (*tips, *(body.positions[j] for j in below))) - float(joint[1])
    eyes = [float(body.positions[j][1]) for j in below if "eye" in body.skeleton.names[j].lower()]
    if not CROWN_RANGE[0] * HEAD_RISE * unit <= rise <= CROWN_RANGE[1] * HEAD_RISE * unit:
        rise = HEAD_RISE * unit if not eyes else max(eyes) - float(joint[1]) + EYES_BELOW_CROWN * unit
    # A crown far above the joint means a large head; a head never rests on the shoulders
    size = unit * float(np.clip(rise / (HEAD_HEIGHT * unit), *HEAD_SIZE_RANGE))
    crown = max(float(joint[1]) + rise, float(high[1]) + LEAST_CROWN * unit)
    chin = np.array([joint[0], crown - 0.185 * size, joint[2] + 0.022 * size])
    brow = np.array([joint[0], crown - HEAD[1] * size, joint[2] + 0.012 * size])
    # Neck and nape connect the base of the neck to the head, each carried by its own joint
    base = roles.joints.get("neck", carrier)
    foot = np.array([high[0], min(float(high[1]), float(body.positions[base][1])) - 0.05 * unit, high[2]])
    body.add(base, foot, body.positions[base] if base != carrier else 0.5 * (chin + brow), NAPE, unit)
    if base != carrier:
        body.add(carrier, joint, 0.5 * (chin + brow), (NECK[1], NECK[1]), unit)
    body.add(carrier, chin, brow, HEAD, size)
