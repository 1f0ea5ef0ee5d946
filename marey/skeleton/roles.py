"""The canonical human: 22 joints in the order and with the names of SMPL, so that AMASS clips fit without loss.

Lengths are the author-independent body proportions of [Drillis1966]_ as tabulated in [Winter2009]_ fig. 4.1,
for a stature of 1.75 m; the pelvis, spine and collar joints, which the table does not give, are placed so that
hip, shoulder and head heights agree with it. The rest pose is a T: facing +Z, left hand along +X.

Other skeletons have maps of roles; bones that a conversion lost, thorax and wrists of CMU's BVH files, come back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError
from marey.skeleton.naming import H_ANIM_CHOICES, PROFILES, SIDES, plain_name
from marey.skeleton.role_guess import guess_roles
from marey.skeleton.tree import NO_PARENT, ROLE_FINDERS, Skeleton

HUMAN_STATURE_M: Final = 1.75

# name, parent, joint position in the T-pose as a fraction of stature: x left, y up, z forward
_JOINTS: Final = (
    ("pelvis", -1, (0.0, 0.550, 0.0)),
    ("left_hip", 0, (0.052, 0.530, 0.0)),
    ("right_hip", 0, (-0.052, 0.530, 0.0)),
    ("spine1", 0, (0.0, 0.610, -0.006)),
    ("left_knee", 1, (0.052, 0.285, 0.004)),
    ("right_knee", 2, (-0.052, 0.285, 0.004)),
    ("spine2", 3, (0.0, 0.680, -0.006)),
    ("left_ankle", 4, (0.052, 0.039, -0.010)),
    ("right_ankle", 5, (-0.052, 0.039, -0.010)),
    ("spine3", 6, (0.0, 0.720, -0.004)),
    ("left_foot", 7, (0.058, 0.010, 0.068)),
    ("right_foot", 8, (-0.058, 0.010, 0.068)),
    ("neck", 9, (0.0, 0.838, -0.010)),
    ("left_collar", 9, (0.040, 0.800, -0.006)),
    ("right_collar", 9, (-0.040, 0.800, -0.006)),
    ("head", 12, (0.0, 0.890, 0.008)),
    ("left_shoulder", 13, (0.115, 0.818, -0.010)),
    ("right_shoulder", 14, (-0.115, 0.818, -0.010)),
    ("left_elbow", 16, (0.301, 0.818, -0.010)),
    ("right_elbow", 17, (-0.301, 0.818, -0.010)),
    ("left_wrist", 18, (0.447, 0.818, -0.010)),
    ("right_wrist", 19, (-0.447, 0.818, -0.010)),
)
_TIPS: Final = {
    "left_foot": (0.003, -0.004, 0.040),
    "right_foot": (-0.003, -0.004, 0.040),
    "head": (0.0, 0.110, 0.0),
    "left_wrist": (0.105, 0.0, 0.0),
    "right_wrist": (-0.105, 0.0, 0.0),
}


def human(stature_m: float = HUMAN_STATURE_M) -> Skeleton:
    """Return the canonical human of a given stature [m]."""
    names = tuple(name for name, _, _ in _JOINTS)
    parents = np.array([parent for _, parent, _ in _JOINTS], dtype=np.int64)
    positions = np.array([position for _, _, position in _JOINTS]) * stature_m
    offsets = positions.copy()
    children = parents != NO_PARENT
    offsets[children] -= positions[parents[children]]
    tips = np.array([_TIPS.get(name, (0.0, 0.0, 0.0)) for name in names]) * stature_m
    return Skeleton(names, parents, offsets, tips, name="human")


HUMAN: Final = human()


ROLES: Final = HUMAN.names
PROPORTION_TOL: Final = 1e-6  # [-] a skeleton this near to a scaled HUMAN is one


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RoleMap:
    """The joint that plays each canonical part; a part may be missing.

    ``left_ankle`` is where shank and foot meet and ``left_foot`` is the ball of the foot, as in SMPL, whatever
    the file calls them.
    """

    joints: Mapping[str, int]  # canonical name -> joint number
    profile: str  # "cmu-bvh", "cmu-asf", "lafan1", "mixamo", "smpl", "deepmimic", "h-anim", "human", "guessed", "given"
    report: tuple[str, ...] = ()  # sentences: what was guessed, and how surely; what is missing

    def __post_init__(self) -> None:
        for role in self.joints:
            if role not in ROLES:
                raise UnknownNameError("role", role, "the canonical human", ROLES)
        ordered = {role: int(self.joints[role]) for role in ROLES if role in self.joints}
        object.__setattr__(self, "joints", MappingProxyType(ordered))
        object.__setattr__(self, "report", tuple(self.report))

    @classmethod
    def from_names(cls, skeleton: Skeleton, names: Mapping[str, str], *, profile: str = "given") -> RoleMap:
        """Build a map by hand: ``RoleMap.from_names(skeleton, {"left_foot": "LToe", ...})``.

        Raises:
            UnknownNameError: a role is not one of the 22, or the skeleton has no such joint.
            InputError: one joint was given two roles.
        """
        joints = {role: skeleton.index(joint) for role, joint in names.items()}
        taken = sorted(joints.values())
        for first, second in pairwise(taken):
            if first == second:
                raise InputError(f"joint '{skeleton.names[first]}' was given two roles", "Give each joint one role")
        return cls(joints, profile, _missing(joints))

    def get(self, role: str) -> int | None:
        """Return the joint of a role, or None if the skeleton lacks it."""
        return self.joints.get(role)

    @property
    def missing(self) -> tuple[str, ...]:
        """Roles that no joint plays."""
        return tuple(role for role in ROLES if role not in self.joints)

    def __contains__(self, role: object) -> bool:
        return role in self.joints

    def __getitem__(self, role: str) -> int:
        if role not in self.joints:
            raise UnknownNameError("role", role, f"this {self.profile} role map", self.joints)
        return self.joints[role]

    def __iter__(self) -> Iterator[str]:
        return iter(self.joints)

    def __len__(self) -> int:
        return len(self.joints)

    def __reduce__(self) -> tuple[type[RoleMap], tuple[dict[str, int], str, tuple[str, ...]]]:
        return RoleMap, (dict(self.joints), self.profile, self.report)

    def __repr__(self) -> str:
        return f"RoleMap({self.profile}, {len(self)} of {len(ROLES)} roles)"


@lru_cache(maxsize=256)
def role_map(skeleton: Skeleton) -> RoleMap:
    """Assign canonical roles to joints: by a known naming convention, else from names, chains and shape.

    Read ``.report`` before trusting a map whose ``profile`` is ``"guessed"``. The answer is kept, so asking
    again is free.
    """
    plain = [plain_name(name) for name in skeleton.names]
    profile = next((profile for profile in PROFILES if profile.fits(plain)), None)
    if profile is None:
        joints, report = guess_roles(skeleton)
        return RoleMap(joints, "guessed", (*report, *_missing(joints)))
    name, table = profile.name, profile.joints()
    if name == "h-anim":
        # Joints of other levels of articulation stand in for those that the file lacks
        for part, choices in H_ANIM_CHOICES.items():
            for role, word in ((part, ""), (f"left_{part}", "l"), (f"right_{part}", "r")):
                named = [choice.format(side=word) for choice in choices]
                found = [joint for joint in named if joint in plain and joint not in table.values()]
                if role in ROLES and table.get(role) not in plain and found:
                    table[role] = found[0]
    elif name == "smpl" and skeleton.names == HUMAN.names:
        # The canonical human itself, at any scale
        mine, theirs = skeleton.offsets[1:], HUMAN.offsets[1:]
        scale = float((mine * theirs).sum() / (theirs * theirs).sum())
        if np.abs(mine - scale * theirs).max() < PROPORTION_TOL:
            name = "human"
    joints = {role: plain.index(joint) for role, joint in table.items() if joint in plain}
    return RoleMap(joints, name, (*profile.notes, *_missing(joints)))


ROLE_FINDERS.append(lambda skeleton, role: role_map(skeleton).get(role) if role in ROLES else None)


def _missing(joints: Mapping[str, int]) -> tuple[str, ...]:
    absent = [role for role in ROLES if role not in joints]
    return (f"no joint plays: {', '.join(absent)}",) if absent else ()


# joint whose offset was lost: joint whose offset it repeats, and how many times. In the ASF files of nine subjects the
# thorax is the bone below it to within 2.4 % and 4 degrees; the wrist bone is half the forearm in all of them.
_LOST_BONES: Final = {
    "Neck": ("Spine1", 1.0),
    "LeftShoulder": ("Spine1", 1.0),
    "RightShoulder": ("Spine1", 1.0),
    "LeftFingerBase": ("LeftHand", 0.5),
    "RightFingerBase": ("RightHand", 0.5),
    "LThumb": ("LeftHand", 0.5),
    "RThumb": ("RightHand", 0.5),
}
_ON_THORAX: Final = ("Neck", "LeftShoulder", "RightShoulder")
_WRISTS: Final = {"left_wrist": "LeftFingerBase", "right_wrist": "RightFingerBase"}
SAME_POINT: Final = 0.1  # [-] of the thigh: hips closer together than this sit on one point
SAME_BONE_M: Final = 2e-5  # [m] bones that agree to this are of one person; files are rounded to 3e-7 m

# Left thigh, left shank, bone below the thorax, then the thorax itself x, y, z [m], as the subject's own ASF file gives
# them. A person is known again by the bones that the conversion kept, not by the name of a file.
_KNOWN_THORAXES: Final = (
    (0.428623, 0.41132, 0.116571, 8.5e-05, 0.11673, 0.000454),  # subject 2
    (0.390856, 0.417975, 0.124247, 0.003481, 0.124492, -0.009714),  # subject 7
    (0.38342, 0.404357, 0.113566, -4.2e-05, 0.113946, 0.00468),  # subject 8
    (0.425754, 0.435674, 0.11077, -9.6e-05, 0.113206, 0.006246),  # subject 9
    (0.397069, 0.439264, 0.121061, 0.00319, 0.122619, 0.004885),  # subject 16
    (0.418262, 0.447351, 0.114607, 0.000945, 0.115958, 0.006456),  # subject 35
    (0.367917, 0.395056, 0.112676, -0.000762, 0.113984, 0.01057),  # subject 43
)


def find_lost_bones(skeleton: Skeleton) -> tuple[str, ...]:
    """Joints of a CMU skeleton that sit on their parents although their bone has a length."""
    if role_map(skeleton).profile != "cmu-bvh" or not set(_LOST_BONES).issubset(skeleton.names):
        return ()
    return tuple(joint for joint in _LOST_BONES if not np.any(skeleton.offsets[skeleton.index(joint)]))


def restore_bones(skeleton: Skeleton, *, thorax: FloatArray | None = None) -> Skeleton:
    """Put back the thorax and wrist bones that the BVH conversion of the CMU database lost.

    Neck and arms of these files sit 11 to 13 cm too low. The thorax is given the length and direction of the bone
    below it, which in the original files it has to within 2.4 % and 4°; the wrist half of the forearm, which is exact.
    Joints, names and frames stay, so a clip's rotations fit as they are. Any other skeleton is returned unchanged.

    Args:
        skeleton: any skeleton.
        thorax: the bone itself ``(3,)`` [m], where it is known (:func:`known_thorax`).
    """
    return _restore_bones(skeleton, None if thorax is None else tuple(map(float, thorax)))


@lru_cache(maxsize=256)  # what is known of a skeleton is kept for it, so one is made
def _restore_bones(skeleton: Skeleton, thorax: tuple[float, ...] | None) -> Skeleton:
    lost = find_lost_bones(skeleton)
    if not lost:
        return skeleton
    offsets = skeleton.offsets.copy()
    for joint in lost:
        twin, factor = _LOST_BONES[joint]
        is_known = thorax is not None and joint in _ON_THORAX
        offsets[skeleton.index(joint)] = thorax if is_known else factor * offsets[skeleton.index(twin)]
    return replace(skeleton, offsets=offsets)


def restored_roles(skeleton: Skeleton) -> RoleMap:
    """Roles of a skeleton, wrists where hands bend and hips where thighs begin.

    In CMU's BVH files a hand bends at the base of the fingers. In rigs that hang both legs on joints at one point, the
    hips are the next joints towards the knees.
    """
    return _restore_roles(skeleton, role_map(skeleton))


@lru_cache(maxsize=256)  # what is found for a map of roles is kept for it, so each skeleton has one
def _restore_roles(skeleton: Skeleton, roles: RoleMap) -> RoleMap:
    moved: dict[str, int] = {}
    if roles.profile == "cmu-bvh" and set(_LOST_BONES).issubset(skeleton.names):
        moved |= {role: skeleton.index(joint) for role, joint in _WRISTS.items()}
    if all(f"{side}_{part}" in roles for side in SIDES for part in ("hip", "knee")):
        p = skeleton.rest_positions()
        hips = [roles[f"{side}_hip"] for side in SIDES]
        leg = float(np.linalg.norm(p[roles["left_knee"]] - p[hips[0]]))
        while np.linalg.norm(p[hips[0]] - p[hips[1]]) < SAME_POINT * leg:
            # The child of each hip on the way down to its knee; the knee itself where it does not hang below
            below = list[int]()
            for hip, side in zip(hips, SIDES, strict=True):
                joint = knee = roles[f"{side}_knee"]
                while joint > 0 and int(skeleton.parents[joint]) != hip:
                    joint = int(skeleton.parents[joint])
                below.append(joint if joint > 0 else knee)
            if any(joint == roles[f"{side}_knee"] for joint, side in zip(below, SIDES, strict=True)):
                break
            hips = below
            moved |= {f"{side}_hip": hip for side, hip in zip(SIDES, hips, strict=True)}
    return RoleMap({**roles.joints, **moved}, roles.profile, roles.report) if moved else roles


def known_thorax(skeleton: Skeleton) -> FloatArray | None:
    """Return the thorax ``(3,)`` [m] of a CMU subject whose original skeleton is known, found by its other bones."""
    lengths = _bone_lengths(skeleton)
    for row in _KNOWN_THORAXES:
        if np.abs(np.array(row[:3]) - lengths).max() < SAME_BONE_M:
            return np.array(row[3:])
    return None


def thorax_from(original: Skeleton, skeleton: Skeleton) -> FloatArray | None:
    """Return the thorax ``(3,)`` [m] of a skeleton read from ASF, if it is of the same person, else None."""
    roles = role_map(original)
    if roles.profile != "cmu-asf":
        return None
    same = np.abs(_bone_lengths(original) - _bone_lengths(skeleton)).max() < SAME_BONE_M
    return original.offsets[roles["neck"]].copy() if same else None


def _bone_lengths(skeleton: Skeleton) -> FloatArray:
    """Lengths of left thigh, left shank and of the bone below the thorax ``(3,)`` [m]."""
    roles = role_map(skeleton)
    return np.array([float(np.linalg.norm(skeleton.offsets[roles[r]])) for r in ("left_knee", "left_ankle", "spine3")])
