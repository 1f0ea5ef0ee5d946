"""Guess the roles of an unknown skeleton: first what the names say, then what chains and lengths say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from marey.skeleton._chains import find_limbs, name_spine_joints
from marey.skeleton._names import common_prefix, parse_joint_name
from marey.skeleton._profiles import SIDES
from marey.skeleton._skeleton import NO_PARENT, Skeleton

_LEG: Final = ("hip", "knee", "ankle", "foot")
_ARM: Final = ("collar", "shoulder", "elbow", "wrist")


def guess_roles(skeleton: Skeleton) -> tuple[dict[str, int], list[str]]:
    """Return the joints by role, and one sentence for each guess that says what it rests on."""
    by_name = _guess_by_name(skeleton)
    limbs = find_limbs(skeleton, by_name)
    by_shape = {} if limbs is None else limbs.roles()
    joints, report = _merge(skeleton, by_name, by_shape)
    if limbs is not None and not limbs.sides_are_named:
        report.append("left and right are told from the way the feet point; check them")
    return joints, report


def _guess_by_name(skeleton: Skeleton) -> dict[str, int]:
    prefix = common_prefix(skeleton.names)
    told = [parse_joint_name(name, prefix) for name in skeleton.names]
    joints: dict[str, int] = {}
    for side in SIDES:
        for parts in (_LEG, _ARM):
            chain = [(j, part) for j, (s, part) in enumerate(told) if s == side and part in parts]
            joints |= {f"{side}_{part}": j for part, j in _assign_parts(skeleton, chain).items()}
    return joints | _guess_trunk(skeleton, [part for _, part in told], [side for side, _ in told])


def _assign_parts(skeleton: Skeleton, chain: list[tuple[int, str]]) -> dict[str, int]:
    """Give each part its joint along one limb; words that name two parts are settled by their order.

    In ``hip, knee, ankle, foot`` the last is the ball; in ``upleg, leg, foot, toe`` it is ``foot`` that is the
    ankle. ``shoulder, arm`` are collar and shoulder; ``shoulder, elbow`` are not. Of two thighs the first counts:
    the other is a twist joint.
    """
    found: dict[str, int] = {}
    for j, part in chain:
        found.setdefault(part, j)
    for part, above, below in (("shoulder", "collar", "shoulder"), ("ankle", "ankle", "foot")):
        named = [j for j, other in chain if other == part]
        is_two = len(named) > 1 and _is_below(skeleton, named[1], named[0])
        if is_two and (above if below == part else below) not in found:
            found[above], found[below] = named[0], named[1]
    return found


def _guess_trunk(skeleton: Skeleton, parts: list[str], sides: list[str]) -> dict[str, int]:
    plain = [part if not side else "" for part, side in zip(parts, sides, strict=True)]
    at = {kind: [j for j, part in enumerate(plain) if part == kind] for kind in ("pelvis", "spine", "neck", "head")}
    joints: dict[str, int] = {}
    if at["pelvis"]:
        first, last = at["pelvis"][0], at["pelvis"][-1]  # "root" may carry "pelvis": the lower one holds the legs
        joints["pelvis"] = last if _is_below(skeleton, last, first) else first
    joints |= name_spine_joints(at["spine"])
    joints |= {part: at[part][0] for part in ("neck", "head") if at[part]}
    return joints


def _is_below(skeleton: Skeleton, joint: int, ancestor: int) -> bool:
    while joint != NO_PARENT:
        if joint == ancestor:
            return True
        joint = int(skeleton.parents[joint])
    return False


def _merge(
    skeleton: Skeleton, by_name: Mapping[str, int], by_shape: Mapping[str, int]
) -> tuple[dict[str, int], list[str]]:
    joints: dict[str, int] = dict(by_name)
    report: list[str] = []
    for role, joint in by_shape.items():
        if role not in joints and joint not in joints.values():
            joints[role] = joint
    for role, joint in joints.items():
        name = skeleton.names[joint]
        if role not in by_name:
            report.append(f"{role}: '{name}', from its place in the chain (fairly sure)")
        elif by_shape.get(role) == joint:
            report.append(f"{role}: '{name}', from its name and its place (sure)")
        elif role in by_shape:
            other = skeleton.names[by_shape[role]]
            report.append(f"{role}: '{name}', from its name; its place suggests '{other}' (check it)")
        else:
            report.append(f"{role}: '{name}', from its name (fairly sure)")
    return joints, report
