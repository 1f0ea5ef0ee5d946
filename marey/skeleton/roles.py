"""Which joint of a skeleton plays which canonical part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Final

import numpy as np

from marey.base import InputError, UnknownNameError
from marey.skeleton.canonical_human import HUMAN
from marey.skeleton.naming import H_ANIM_CHOICES, PROFILES, plain_name
from marey.skeleton.role_guess import guess_roles
from marey.skeleton.tree import Skeleton

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
    for profile in PROFILES:
        if profile.fits(plain):
            table = _h_anim_joints(plain) if profile.name == "h-anim" else profile.joints()
            joints_profile = {role: plain.index(joint) for role, joint in table.items() if joint in plain}
            name = "human" if profile.name == "smpl" and _is_human(skeleton) else profile.name
            return RoleMap(joints_profile, name, (*profile.notes, *_missing(joints_profile)))

    joints, report = guess_roles(skeleton)
    return RoleMap(joints, "guessed", (*report, *_missing(joints)))


def _h_anim_joints(plain: list[str]) -> dict[str, str]:
    profile = next(p for p in PROFILES if p.name == "h-anim")
    table = profile.joints()
    for part, choices in H_ANIM_CHOICES.items():
        for role, word in ((part, ""), (f"left_{part}", "l"), (f"right_{part}", "r")):
            named = [choice.format(side=word) for choice in choices]
            found = [name for name in named if name in plain and name not in table.values()]
            if role in ROLES and table.get(role) not in plain and found:
                table[role] = found[0]
    return table


def _is_human(skeleton: Skeleton) -> bool:
    if skeleton.names != HUMAN.names:
        return False
    mine, theirs = skeleton.offsets[1:], HUMAN.offsets[1:]
    scale = float((mine * theirs).sum() / (theirs * theirs).sum())
    return bool(np.abs(mine - scale * theirs).max() < PROPORTION_TOL)


def _missing(joints: Mapping[str, int]) -> tuple[str, ...]:
    absent = [role for role in ROLES if role not in joints]
    return (f"no joint plays: {', '.join(absent)}",) if absent else ()
