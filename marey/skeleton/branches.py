"""Branches of any skeleton, and the handles by which it is posed: a human, a dog, a spider, a snake, a lamp.

The tree and the lengths of its bones determine where limbs fork and end; no human anatomy is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from marey.skeleton.anatomy import assess_anatomy
from marey.skeleton.naming import common_prefix, parse_joint_name
from marey.skeleton.roles import role_map
from marey.skeleton.tree import Skeleton

MAJOR: Final = 0.18  # [-] least length of a branch over the longest path from the root: human fingers have 0.13
SAME_LENGTH: Final = 0.25  # [-] largest relative difference in length between limbs of one kind
LONG_BONE: Final = 0.12  # [-] least length of the bones at an elbow, as a fraction of the limb
MAX_MIDDLES: Final = 3  # handles inside a limb; a tail of twenty joints has them at its quarters
HUMAN_HANDLES: Final = (
    ("pelvis", "root"),
    ("head", "head"),
    *((f"{side}_{part}", "end") for part in ("wrist", "ankle") for side in ("left", "right")),
    *((f"{side}_{part}", "middle") for part in ("elbow", "knee") for side in ("left", "right")),
    *((f"{side}_foot", "detail") for side in ("left", "right")),
)


@dataclass(frozen=True, slots=True)
class Branch:
    """A chain of joints from a fork of the skeleton to the end of its last bone: a leg, a wing, a tail, a neck."""

    fork: int  # the joint that carries it
    joints: tuple[int, ...]  # outwards; the last is a leaf of the tree
    length: float  # from the fork to the end, in the skeleton's unit
    is_limb: bool  # the fork carries another branch of this length: a leg, an arm, a wing
    is_detail: bool = False  # a short branch: a finger, an ear, a toe


@dataclass(frozen=True, slots=True)
class Handle:
    """A joint that a person drags."""

    name: str  # as `solve_ik` and `marey ik --task` take it: the canonical name in a human, else the joint's name
    joint: int
    kind: str  # "root", "head", "end", "middle" or "detail": the ends of fingers, ears and toes


@lru_cache(maxsize=256)
def find_branches(skeleton: Skeleton) -> tuple[Branch, ...]:
    r"""Return the branches of a tree of joints, those of the main forks first, in the order of the joints.

    With :math:`d_j` the longest path from joint :math:`j` down to the end of a bone, a joint is a main fork if two or
    more of its children have :math:`\ell_c + d_c \geq 0.18\, d_0`. A chain that starts at a main fork and contains no
    other is a branch; shorter chains beside it are details.
    """
    count = skeleton.num_joints
    parents: list[int] = skeleton.parents.tolist()
    lengths = np.linalg.norm(skeleton.offsets, axis=1).tolist()
    below = np.linalg.norm(skeleton.tips, axis=1).tolist()
    kids: list[list[int]] = [[] for _ in range(count)]
    for j in range(1, count):
        kids[parents[j]].append(j)
    for j in range(count - 1, 0, -1):
        below[parents[j]] = max(below[parents[j]], lengths[j] + below[j])
    reach = [lengths[j] + below[j] for j in range(count)]
    major = [[k for k in kids[j] if reach[k] >= MAJOR * below[0]] for j in range(count)]
    # Ears and horns are details, however long they are
    prefix = common_prefix(skeleton.names)
    in_head = [parse_joint_name(name, prefix) == ("", "head") for name in skeleton.names]
    for j in range(1, count):
        in_head[j] |= in_head[parents[j]]
    in_head = in_head if not in_head[0] else [False] * count
    is_fork = [len(group) > 1 and not in_head[j] for j, group in enumerate(major)]
    carries_fork = list(is_fork)
    for j in range(count - 1, 0, -1):
        carries_fork[parents[j]] |= carries_fork[j]
    # A chain without any fork, a snake, begins at the root
    starts = [(j, k) for j in range(count) for k in kids[j] if is_fork[j] and not carries_fork[k]]
    has_forks = any(is_fork)
    if not has_forks:
        starts = [(0, max(kids[0], key=lambda k: reach[k]))] if kids[0] else []
    # A limb and its mirror image are closest in length; a neck differs from both legs
    nearest = {j: _pair_by_length(major[j], reach) for j in {fork for fork, _ in starts}}
    found: list[Branch] = []
    on_branch: set[int] = set()
    for fork, first in starts:
        chain = [first]
        while kids[chain[-1]]:
            chain.append(max(kids[chain[-1]], key=lambda k: reach[k]))
        on_branch.update(chain)
        twin = nearest[fork].get(first, first)
        has_twin = twin != first and nearest[fork][twin] == first and not carries_fork[twin]
        has_twin &= abs(reach[twin] - reach[first]) < SAME_LENGTH * reach[first]
        is_detail = first not in nearest[fork] and has_forks
        found.append(Branch(fork, tuple(chain), reach[first], has_twin, is_detail))
    # Leaves beside the branches: fingers, ears, toes
    for leaf in range(count):
        if not kids[leaf] and leaf not in on_branch and leaf > 0:
            chain = [leaf]
            while len(kids[parents[chain[-1]]]) == 1 and parents[chain[-1]] > 0:
                chain.append(parents[chain[-1]])
            chain.reverse()
            length = sum(lengths[j] for j in chain) + below[leaf]
            found.append(Branch(parents[chain[0]], tuple(chain), length, False, True))
    return tuple(sorted(found, key=lambda branch: branch.is_detail))


def _pair_by_length(joints: list[int], reach: list[float]) -> dict[int, int]:
    """Map each joint to the one closest to it in reach, the earlier of two; a single joint maps to itself.

    The joints are sorted, so that the closest is a neighbour: a file may attach a hundred thousand joints to one.
    """
    ordered = sorted(joints, key=lambda j: (reach[j], j))
    # The first joint of each run of equal lengths stands for the run
    leaders = [i for i in range(len(ordered)) if i == 0 or reach[ordered[i]] > reach[ordered[i - 1]]]
    paired: dict[int, int] = {}
    for run, start in enumerate(leaders):
        stop = leaders[run + 1] if run + 1 < len(leaders) else len(ordered)
        beside = [ordered[leaders[r]] for r in (run - 1, run + 1) if 0 <= r < len(leaders)]
        for i in range(start, stop):
            a = ordered[i]
            same = ordered[start + 1 if i == start else start] if stop - start > 1 else None
            others = beside if same is None else [same]
            paired[a] = min(others, key=lambda b: (abs(reach[a] - reach[b]), b), default=a)
    return paired


@lru_cache(maxsize=256)
def list_handles(skeleton: Skeleton) -> tuple[Handle, ...]:
    """Return the joints by which any skeleton is posed: root, head, ends and middle joints of limbs, then details.

    In a human they have the canonical names (``left_wrist``, ``left_elbow``, ...), and fingers are details. In any
    other skeleton they have the names of its joints: the end of a branch is its last joint, or the joint where toes
    or fingers fork; middle joints lie between bones of more than 0.12 of the branch.
    """
    names, roles = skeleton.names, role_map(skeleton)
    handles: dict[int, Handle] = {}
    is_human = assess_anatomy(skeleton).is_human
    if is_human:
        for role, kind in HUMAN_HANDLES:
            if role in roles:
                handles.setdefault(roles[role], Handle(role, roles[role], kind))
    prefix = common_prefix(names)
    heads = [j for j, name in enumerate(names) if parse_joint_name(name, prefix) == ("", "head")][:1]
    if not is_human:
        handles[0] = Handle(names[0], 0, "root")
        for fork in {branch.fork for branch in find_branches(skeleton) if not branch.is_detail}:
            handles.setdefault(fork, Handle(names[fork], fork, "middle"))
    for branch in () if is_human else find_branches(skeleton):
        # Skip bones without length; toes and fingers fork at the end of the limb
        bones = np.linalg.norm(skeleton.offsets[list(branch.joints)], axis=1)
        last = len(branch.joints) - 1
        while last > 0 and bones[last] < 1e-6 * branch.length and not skeleton.tips[branch.joints[last]].any():
            last -= 1
        hand = next((i for i in range(1, last) if len(skeleton.children(branch.joints[i])) > 1), last)
        if branch.length - bones[: hand + 1].sum() < 0.4 * branch.length:
            last = hand
        # A head ends its branch, unless the tree begins there, as in some snakes
        head = next((i for i, j in enumerate(branch.joints) if j in heads and not branch.is_detail), None)
        if head is not None:
            handles[branch.joints[head]] = Handle(names[branch.joints[head]], branch.joints[head], "head")
            last = head or last
        end = branch.joints[last]
        handles.setdefault(end, Handle(names[end], end, "detail" if branch.is_detail else "end"))
        tip = branch.joints[-1]
        if np.linalg.norm(skeleton.offsets[tip]) > 1e-6 * branch.length:
            handles.setdefault(tip, Handle(names[tip], tip, "detail"))
        if branch.is_detail:
            continue
        inner = [
            i
            for i in range(last)
            if bones[i + 1] > LONG_BONE * branch.length and bones[1 : i + 1].sum() > LONG_BONE * branch.length
        ]
        if len(inner) > MAX_MIDDLES or (not inner and last > MAX_MIDDLES):
            inner = list(range(1, last))
            fractions = np.cumsum(bones) / max(bones[: last + 1].sum(), 1e-12)
            inner = sorted({min(inner, key=lambda i: abs(fractions[i] - part)) for part in (0.25, 0.5, 0.75)})
        for i in inner:
            handles.setdefault(branch.joints[i], Handle(names[branch.joints[i]], branch.joints[i], "middle"))
    if is_human:
        for branch in find_branches(skeleton):
            tip = branch.joints[-1]
            handles.setdefault(tip, Handle(names[tip], tip, "detail"))
    order = ("root", "head", "end", "middle", "detail")
    return tuple(sorted(handles.values(), key=lambda handle: (order.index(handle.kind), handle.joint)))
