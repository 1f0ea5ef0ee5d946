"""Guess the roles of an unknown skeleton: first what the names say, then what chains and lengths say.

Limbs are found from the tree of joints and the bone lengths alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.skeleton.naming import SIDES, common_prefix, parse_joint_name
from marey.skeleton.tree import NO_PARENT, Skeleton

TWIG: Final = 0.18  # [-] a side branch shorter than this part of the longest path is a finger, an eye or a nub
SYMMETRY_TOL: Final = 0.15  # [-] left and right limbs differ by less than this part of their length


@dataclass(frozen=True, slots=True)
class Limbs:
    """Paths of joints, each from the root to the last joint of a limb."""

    head: tuple[int, ...]
    left_leg: tuple[int, ...]
    right_leg: tuple[int, ...]
    left_arm: tuple[int, ...]
    right_arm: tuple[int, ...]
    lengths: FloatArray  # (J,) [m] bone from parent to joint
    sides_are_named: bool

    def roles(self) -> dict[str, int]:
        """Name the joints of the limbs, the spine and the head."""
        pelvis = _last_common_joint(self.left_leg, self.right_leg)
        chest = _last_common_joint(self.left_arm, self.head)
        found = {"pelvis": pelvis}
        for side, leg, arm in (("left", self.left_leg, self.left_arm), ("right", self.right_leg, self.right_arm)):
            found |= _leg_roles(side, leg[leg.index(pelvis) + 1 :], self.lengths)
            found |= _arm_roles(side, arm[arm.index(chest) + 1 :], self.lengths)
        trunk = list(self.head[: self.head.index(chest) + 1])
        found |= name_spine_joints([j for j in trunk if j != pelvis and j not in self.left_leg])
        above = self.head[self.head.index(chest) + 1 :]
        if len(above) >= 2:
            found |= {"neck": above[0], "head": above[1] if len(above) < 4 else above[-2]}
        elif above:
            found["head"] = above[0]
        return found


def name_spine_joints(spine: list[int]) -> dict[str, int]:
    """Name up to three of the joints between pelvis and neck: the lowest, the highest, one between."""
    if not spine:
        return {}
    if len(spine) == 1:
        return {"spine3": spine[0]}
    named = {"spine1": spine[0], "spine3": spine[-1]}
    return named if len(spine) == 2 else {**named, "spine2": spine[(len(spine) - 1) // 2]}


def find_limbs(skeleton: Skeleton, by_name: Mapping[str, int]) -> Limbs | None:
    """Find two legs, two arms and a head, or None where the tree has no such shape."""
    lengths = np.linalg.norm(skeleton.offsets, axis=1)
    lengths[0] = 0.0
    paths = _limb_paths(skeleton, lengths)
    if len(paths) != 5:
        return None
    reach = [float(lengths[list(path)].sum()) for path in paths]
    pairs = _symmetric_pairs(paths, reach)
    if pairs is None:
        return None
    head, first, second = pairs
    shared_first = len(_common_joints(paths[first[0]], paths[head]))
    shared_second = len(_common_joints(paths[second[0]], paths[head]))
    arms, legs = (first, second) if shared_first > shared_second else (second, first)
    named = _sides_by_name(paths, (legs, arms), by_name)
    left_leg, right_leg, left_arm, right_arm = named or _sides_by_shape(skeleton, paths, legs, arms)
    return Limbs(
        paths[head], paths[left_leg], paths[right_leg], paths[left_arm], paths[right_arm], lengths, named is not None
    )


def _limb_paths(skeleton: Skeleton, lengths: FloatArray) -> list[tuple[int, ...]]:
    below = lengths.copy() + np.linalg.norm(skeleton.tips, axis=1)  # longest way down from each joint's parent
    for j in range(skeleton.num_joints - 1, 0, -1):
        kids = skeleton.children(j)
        if len(kids):
            below[j] = lengths[j] + max(float(below[k]) for k in kids)
    size = max((float(below[k]) for k in skeleton.children(0)), default=0.0)
    paths: list[tuple[int, ...]] = []
    stack: list[tuple[int, ...]] = [(0,)]
    while stack:
        path = stack.pop()
        kids = skeleton.children(path[-1])
        grown = [int(k) for k in kids if below[k] > TWIG * size]
        if not grown and len(kids):  # a chain without branches continues along its longest child
            grown = [int(max(kids, key=lambda k: float(below[k])))] if len(path) > 1 else []
        if grown:
            stack += [(*path, k) for k in grown]
        else:
            paths.append(path)
    return paths


def _symmetric_pairs(
    paths: list[tuple[int, ...]], reach: list[float]
) -> tuple[int, tuple[int, int], tuple[int, int]] | None:
    best: tuple[float, int, tuple[int, int], tuple[int, int]] | None = None
    for head in range(5):
        a, b, c, d = (i for i in range(5) if i != head)
        for first, second in (((a, b), (c, d)), ((a, c), (b, d)), ((a, d), (b, c))):
            gaps = [abs(reach[i] - reach[j]) / max(reach[i], reach[j], 1e-9) for i, j in (first, second)]
            forks = [abs(len(paths[i]) - len(paths[j])) for i, j in (first, second)]
            cost = sum(gaps) + sum(forks)
            if max(gaps) < SYMMETRY_TOL and (best is None or cost < best[0]):
                best = (cost, head, first, second)
    return None if best is None else best[1:]


def _sides_by_name(
    paths: list[tuple[int, ...]], pairs: tuple[tuple[int, int], tuple[int, int]], by_name: Mapping[str, int]
) -> tuple[int, int, int, int] | None:
    lefts = {joint for role, joint in by_name.items() if role.startswith("left_")}
    order: list[int] = []
    for a, b in pairs:
        counts = [len(lefts & set(paths[i])) for i in (a, b)]
        if counts[0] == counts[1]:
            return None
        order += [a, b] if counts[0] > counts[1] else [b, a]
    return order[0], order[1], order[2], order[3]


def _sides_by_shape(
    skeleton: Skeleton, paths: list[tuple[int, ...]], legs: tuple[int, int], arms: tuple[int, int]
) -> tuple[int, int, int, int]:
    p = skeleton.rest_positions()
    up = p[paths[arms[0]][-1]] + p[paths[arms[1]][-1]] - p[paths[legs[0]][-1]] - p[paths[legs[1]][-1]]
    forward = sum((_toe_direction(skeleton, paths[i], p) for i in legs), np.zeros(3))
    left = np.cross(up, forward)
    ordered: list[int] = []
    for a, b in (legs, arms):
        gap = float(left @ (p[list(paths[a])].mean(axis=0) - p[list(paths[b])].mean(axis=0)))
        ordered += [a, b] if gap > 0.0 else [b, a]
    return ordered[0], ordered[1], ordered[2], ordered[3]


def _toe_direction(skeleton: Skeleton, path: tuple[int, ...], positions: FloatArray) -> FloatArray:
    last = path[-1]
    tip = skeleton.tips[last]
    return tip + positions[last] - positions[path[-2]] if len(path) > 1 else tip


def _common_joints(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(x for x, y in zip(a, b, strict=False) if x == y)


def _last_common_joint(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    return _common_joints(a, b)[-1]


def _two_longest(chain: tuple[int, ...], lengths: FloatArray) -> tuple[int, int, int] | None:
    """Return start, middle and end of the two neighbouring bones that are long together."""
    best: tuple[float, tuple[int, int, int]] | None = None
    for i, j, k in combinations(range(len(chain)), 3):
        upper = float(lengths[list(chain[i + 1 : j + 1])].sum())
        lower = float(lengths[list(chain[j + 1 : k + 1])].sum())
        score = min(upper, lower) - 0.02 * (k - i) * (upper + lower)  # fewest joints among equals
        if best is None or score > best[0]:
            best = (score, (chain[i], chain[j], chain[k]))
    return None if best is None else best[1]


def _leg_roles(side: str, chain: tuple[int, ...], lengths: FloatArray) -> dict[str, int]:
    three = _two_longest(chain, lengths)
    if three is None:
        return {}
    found = {f"{side}_{part}": j for part, j in zip(("hip", "knee", "ankle"), three, strict=True)}
    after = chain[chain.index(three[2]) + 1 :]
    return found | ({f"{side}_foot": after[0]} if after else {})


def _arm_roles(side: str, chain: tuple[int, ...], lengths: FloatArray) -> dict[str, int]:
    three = _two_longest(chain, lengths)
    if three is None:
        return {}
    found = {f"{side}_{part}": j for part, j in zip(("shoulder", "elbow", "wrist"), three, strict=True)}
    before = chain[: chain.index(three[0])]
    return found | ({f"{side}_collar": before[-1]} if before else {})


_LEG: Final = ("hip", "knee", "ankle", "foot")
_ARM: Final = ("collar", "shoulder", "elbow", "wrist")


def guess_roles(skeleton: Skeleton) -> tuple[dict[str, int], list[str]]:
    """Return the joints by role, and one sentence for each guess that says what it rests on."""
    by_name = _guess_by_name(skeleton)
    limbs = find_limbs(skeleton, by_name)
    by_shape = {} if limbs is None else limbs.roles()
    joints: dict[str, int] = dict(by_name)
    report: list[str] = []
    for role, joint in by_shape.items():
        if role not in joints and joint not in joints.values():
            joints[role] = joint
    for role, joint in joints.items():
        name = skeleton.names[joint]
        if role not in by_name:
            report.append(f"{role}: '{name}', from its position in the chain (fairly sure)")
        elif by_shape.get(role) == joint:
            report.append(f"{role}: '{name}', from its name and its position (sure)")
        elif role in by_shape:
            other = skeleton.names[by_shape[role]]
            report.append(f"{role}: '{name}', from its name; its position suggests '{other}' (check it)")
        else:
            report.append(f"{role}: '{name}', from its name (fairly sure)")
    if limbs is not None and not limbs.sides_are_named:
        report.append("left and right are estimated from the direction of the feet; check them")
    return joints, report


def _guess_by_name(skeleton: Skeleton) -> dict[str, int]:
    prefix = common_prefix(skeleton.names)
    told = [parse_joint_name(name, prefix) for name in skeleton.names]
    joints: dict[str, int] = {}
    for side in SIDES:
        for parts in (_LEG, _ARM):
            chain = [(j, part) for j, (s, part) in enumerate(told) if s == side and part in parts]
            # Give each part its joint along one limb; words that name two parts are settled by their order
            found: dict[str, int] = {}
            for j, part in chain:
                found.setdefault(part, j)
            for part, above, below in (("shoulder", "collar", "shoulder"), ("ankle", "ankle", "foot")):
                named = [j for j, other in chain if other == part]
                is_two = len(named) > 1 and _is_below(skeleton, named[1], named[0])
                if is_two and (above if below == part else below) not in found:
                    found[above], found[below] = named[0], named[1]
            joints |= {f"{side}_{part}": j for part, j in found.items()}
    plain = [
        part_trunk if not side_trunk else ""
        for part_trunk, side_trunk in zip([part for _, part in told], [side for side, _ in told], strict=True)
    ]
    at = {kind: [j for j, part in enumerate(plain) if part == kind] for kind in ("pelvis", "spine", "neck", "head")}
    joints_trunk: dict[str, int] = {}
    if at["pelvis"]:
        first, last = at["pelvis"][0], at["pelvis"][-1]  # "root" may carry "pelvis": the lower one holds the legs
        joints_trunk["pelvis"] = last if _is_below(skeleton, last, first) else first
    joints_trunk |= name_spine_joints(at["spine"])
    joints_trunk |= {part: at[part][0] for part in ("neck", "head") if at[part]}
    return joints | joints_trunk


def _is_below(skeleton: Skeleton, joint: int, ancestor: int) -> bool:
    while joint != NO_PARENT:
        if joint == ancestor:
            return True
        joint = int(skeleton.parents[joint])
    return False
