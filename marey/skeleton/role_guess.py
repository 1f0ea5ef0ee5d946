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
        pelvis = _common_joints(self.left_leg, self.right_leg)[-1]
        chest = _common_joints(self.left_arm, self.head)[-1]
        found = {"pelvis": pelvis}
        for side, leg, arm in (("left", self.left_leg, self.left_arm), ("right", self.right_leg, self.right_arm)):
            below = leg[leg.index(pelvis) + 1 :]
            three = _two_longest(below, self.lengths)
            if three is not None:
                found |= zip((f"{side}_hip", f"{side}_knee", f"{side}_ankle"), three, strict=True)
                found |= {f"{side}_foot": j for j in below[below.index(three[2]) + 1 :][:1]}
            beside = arm[arm.index(chest) + 1 :]
            three = _two_longest(beside, self.lengths)
            if three is not None:
                found |= zip((f"{side}_shoulder", f"{side}_elbow", f"{side}_wrist"), three, strict=True)
                found |= {f"{side}_collar": j for j in beside[: beside.index(three[0])][-1:]}
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
    # The left limb of a pair has more joints that are named left; a tie leaves both pairs to the shape
    lefts = {joint for role, joint in by_name.items() if role.startswith("left_")}
    order: list[int] = []
    for a, b in (legs, arms):
        counts = [len(lefts & set(paths[i])) for i in (a, b)]
        if counts[0] != counts[1]:
            order += [a, b] if counts[0] > counts[1] else [b, a]
    sides_are_named = len(order) == 4
    if not sides_are_named:
        order = _sides_by_shape(skeleton, paths, legs, arms)
    left_leg, right_leg, left_arm, right_arm = (paths[i] for i in order)
    return Limbs(paths[head], left_leg, right_leg, left_arm, right_arm, lengths, sides_are_named)


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


def _sides_by_shape(
    skeleton: Skeleton, paths: list[tuple[int, ...]], legs: tuple[int, int], arms: tuple[int, int]
) -> list[int]:
    """Left and right leg, left and right arm, from where the toes point."""
    p = skeleton.rest_positions()
    up = p[paths[arms[0]][-1]] + p[paths[arms[1]][-1]] - p[paths[legs[0]][-1]] - p[paths[legs[1]][-1]]
    forward = np.zeros(3)
    for path in (paths[i] for i in legs):
        tip = skeleton.tips[path[-1]]
        forward = forward + (tip + p[path[-1]] - p[path[-2]] if len(path) > 1 else tip)
    left = np.cross(up, forward)
    order: list[int] = []
    for a, b in (legs, arms):
        gap = float(left @ (p[list(paths[a])].mean(axis=0) - p[list(paths[b])].mean(axis=0)))
        order += [a, b] if gap > 0.0 else [b, a]
    return order


def _common_joints(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(x for x, y in zip(a, b, strict=False) if x == y)


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
        for parts in (("hip", "knee", "ankle", "foot"), ("collar", "shoulder", "elbow", "wrist")):
            chain = [(j, part) for j, (s, part) in enumerate(told) if s == side and part in parts]
            # Each part of one limb gets its first joint; a word that names two parts is settled by their order
            found: dict[str, int] = {}
            for j, part in chain:
                found.setdefault(part, j)
            for part, above, below in (("shoulder", "collar", "shoulder"), ("ankle", "ankle", "foot")):
                named = [j for j, other in chain if other == part]
                is_two = len(named) > 1 and _is_below(skeleton, named[1], named[0])
                if is_two and (above if below == part else below) not in found:
                    found[above], found[below] = named[0], named[1]
            joints |= {f"{side}_{part}": j for part, j in found.items()}
    # Joints of the trunk, which have no side
    trunk: dict[str, list[int]] = {kind: [] for kind in ("pelvis", "spine", "neck", "head")}
    for j, (side, part) in enumerate(told):
        if not side and part in trunk:
            trunk[part].append(j)
    if trunk["pelvis"]:
        # "root" may carry "pelvis": the lower one holds the legs
        first, last = trunk["pelvis"][0], trunk["pelvis"][-1]
        joints["pelvis"] = last if _is_below(skeleton, last, first) else first
    joints |= name_spine_joints(trunk["spine"])
    joints |= {part: trunk[part][0] for part in ("neck", "head") if trunk[part]}
    return joints


def _is_below(skeleton: Skeleton, joint: int, ancestor: int) -> bool:
    while joint != NO_PARENT:
        if joint == ancestor:
            return True
        joint = int(skeleton.parents[joint])
    return False
