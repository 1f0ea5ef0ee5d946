"""Find legs, arms, trunk and head in a tree of joints from bone lengths and symmetry, independent of joint names.

A limb has a mirror image: two branches of one joint whose bones agree in length. Of all mirrored pairs, the two that
form the most human body become legs and arms; nodes above the pelvis, twist bones, fingers, faces, props and skirts do
not affect the result. Only ratios of lengths count, so the unit is irrelevant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, permutations
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.skeleton.naming import common_prefix, is_helper, is_twist, parse_joint_name
from marey.skeleton.tree import NO_PARENT, Skeleton

MIRROR_TOL: Final = 0.25  # [-] largest relative difference between a left and a right bone of one body
MIRROR_SLACK: Final = 0.04  # [-] additional tolerance as a fraction of the whole limb: short bones are measured badly
MAX_BRANCHES: Final = 24  # largest branches of a joint that are compared; a face may have a hundred small ones
MAX_PAIRS: Final = 16  # longest mirrored pairs of the tree that may be legs or arms
READ_POSES: Final = 3  # frames that are tried as rest poses
MIN_LIMB: Final = 0.2  # [-] shortest limb as a fraction of the longest mirrored branch

# Body proportions as parts of stature ([Drillis1966]_, [Winter2009]_ fig. 4.1)
THIGH, SHANK, UPPER_ARM, FOREARM = 0.245, 0.246, 0.186, 0.146
LEG_OF_STATURE: Final = THIGH + SHANK
TRUNK_ON_LEG: Final = 0.7  # path from hip fork to shoulder over leg: 0.5 to 0.9 in CMU, SMPL, Xsens, DeepMimic
WORST: Final = 25.0  # [-] upper bound on the cost of one deviation, so that none decides alone

# Deviation from the table that is free, and the further deviation that costs 1. The tolerances are wide: children, game
# heroes and rigs with zigzag joints are human; another body plan deviates in several of these measures at once.
_FOOT: Final = (0.36, 0.12)  # [leg] ankle to the end of the toes: 0.31 in the table
_STUB: Final = (0.28, 0.12)  # [leg] pelvis to hip: 0.1 to 0.25
_HAND: Final = (0.75, 0.3)  # [arm] wrist to the end of the fingers: 0.33 in the table
_HEAD: Final = (1.1, 0.3)  # [leg] neck and head; 0.35 in the table
_TAIL: Final = (0.45, 0.2)  # [leg] attachments of the pelvis beside legs and trunk: a coat, a holster
_HANGS: Final = 0.8  # [-] cosine between legs and a branch beside them above which it is a coat, not a tail
_TRAILS: Final = 1.3  # [leg] a hanging branch longer than this would trail on the ground
_EXTRA: Final = (0.85, 0.1)  # [leg] a further pair of mirrored branches: skirts and long hair are shorter
_SPREAD: Final = 0.9  # [-] distance between the ends of a pair over its length, above which it reaches out
_STRAIGHT: Final = (0.85, 0.2)  # [-] cosine between the trunk and the reversed direction of the legs
_LEVEL: Final = (0.45, 0.2)  # [leg] distance of the hands below the hips, along the legs
_FOLDED: Final = -0.8  # [-] legs drawn along the trunk: not a true rest pose, as in LAFAN1
_SHORT: Final = 0.1  # [leg] a trunk shorter than this has no direction
_LINE: Final = 0.9  # [-] cosine between a long bone and the trunk above which both lie on one line
_ASKEW: Final = (0.15, 0.15)  # [-] one minus the cosine between the lateral axes of legs and arms
UNKNOWN_COST: Final = 4.0  # posture cost of a reading whose rest pose is uninformative
_INNER: Final = 0.5  # cost of a joint inside a long bone: a twist bone, at most a few
_NO_END: Final = 1.0  # cost of an arm that ends at the elbow


@dataclass(frozen=True, slots=True)
class LimbChain:
    """One leg or arm: a chain of joints, and where its two long bones begin and end."""

    chain: tuple[int, ...]  # joints below the fork, outwards
    upper: int  # hip or shoulder
    middle: int  # knee or elbow
    end: int  # ankle or wrist; the last joint where a limb ends without one
    stub: float  # length from the fork to the upper joint, in the skeleton's unit, as all below
    upper_length: float
    lower_length: float
    rest_length: float  # length distal to the end: foot or hand
    inner_cost: float = 0.0  # cost of joints inside the long bones: cloth, hair and tails have many

    @property
    def length(self) -> float:
        """Length of both long bones."""
        return self.upper_length + self.lower_length


@dataclass(frozen=True, slots=True)
class BodyPlan:
    """Legs, arms, trunk and head of a skeleton, and their deviation from human proportions."""

    legs: tuple[LimbChain, LimbChain]  # in no particular order of left and right
    arms: tuple[LimbChain, LimbChain]
    hip_fork: int  # the joint where the legs meet
    shoulder_fork: int  # the joint where the arms meet
    root: int  # the joint that carries legs, trunk and arms: the pelvis
    trunk: tuple[int, ...]  # joints from the hip fork to the shoulder fork, both included
    head: tuple[int, ...]  # joints above the shoulder fork; empty where there is none
    trunk_length: float
    head_length: float
    costs: tuple[tuple[str, float], ...]  # deviations from human proportions by name; zero is human

    @property
    def leg_length(self) -> float:
        """Mean length of thigh and shank over both sides."""
        return 0.5 * (self.legs[0].length + self.legs[1].length)

    @property
    def cost(self) -> float:
        """Sum of the deviations."""
        return sum(cost for _, cost in self.costs)


@dataclass(frozen=True, slots=True, eq=False)
class SeenPose:
    """A body plan found in the frames of a skeleton whose rest pose is uninformative."""

    plan: BodyPlan
    points: FloatArray  # (J, 3) joint positions in the frame where the body stands most upright
    wxyz: FloatArray | None  # (J, 4) local rotations of that frame


_SEEN: Final[dict[Skeleton, SeenPose]] = {}
MAX_SEEN: Final = 256
NAME_BONUS: Final = 1.0  # subtracted from the cost of a reading for each limb joint whose name agrees: a hint, no proof
STANDING: Final = 1.0  # [-] posture cost below which a body stands
STRAIGHT: Final = 0.85  # [-] least chord over path length of a limb or trunk that is drawn straight
MIRRORED: Final = 0.15  # [leg] largest distance of a joint from the mirror image of its twin in a rest pose
STRAIGHT_BONE: Final = 0.9  # [-] least distance between the ends of a bone over the path through its inner joints
STRAIGHT_LEG: Final = 0.8  # [-] least distance from hip to ankle over thigh and shank of a standing leg
ODD_POSTURE: Final = 4.0  # [-] posture cost above which a pose cannot be a rest pose


def find_body_plan(skeleton: Skeleton) -> BodyPlan | None:
    """Return the most human reading of a skeleton, or ``None`` if it lacks two mirrored pairs of branches.

    Reads the rest pose, unless a frame gave a better reading before (:func:`remember_pose`). Results are cached.
    """
    seen = _SEEN.get(skeleton)
    return search_plan(skeleton) if seen is None else seen.plan


def remember_pose(skeleton: Skeleton, seen: SeenPose) -> None:
    """Store the body plan that was found in the frames of a skeleton."""
    if len(_SEEN) >= MAX_SEEN:
        _SEEN.clear()
    _SEEN[skeleton] = seen


def recall_pose(skeleton: Skeleton) -> SeenPose | None:
    """Return the body plan found in the frames of a skeleton, or ``None`` if its rest pose was sufficient."""
    return _SEEN.get(skeleton)


def is_rest_pose(plan: BodyPlan, points: FloatArray) -> bool:
    """Return whether ``(J, 3)`` is a true rest pose: limbs mirror one another, or are straight in a standing body.

    Some files draw every bone along one axis and store the whole pose in their frames.
    """
    posture = posture_cost(plan, points[None])
    if posture is None or not _has_straight_bones(plan, points):
        return False
    a, b = plan.legs
    chains = [
        points[list(plan.trunk)],
        *(points[[limb.upper, limb.middle, limb.end]] for limb in (*plan.legs, *plan.arms)),
    ]
    chords = [float(np.linalg.norm(chain[-1] - chain[0])) for chain in chains]
    lengths = [float(np.linalg.norm(np.diff(chain, axis=0), axis=1).sum()) for chain in chains]
    if posture < STANDING and all(chord >= STRAIGHT * length for chord, length in zip(chords, lengths, strict=True)):
        return True
    across = points[a.upper] - points[b.upper]
    width = float(np.linalg.norm(across))
    if width < 1e-9:
        return False
    across, middle = across / width, 0.5 * (points[a.upper] + points[b.upper])
    c, d = plan.arms
    if float((points[c.upper] - points[d.upper]) @ across) < 0.0:
        c, d = d, c
    left = points[[j for limb in (a, c) for j in (limb.upper, limb.middle, limb.end)]] - middle
    right = points[[j for limb in (b, d) for j in (limb.upper, limb.middle, limb.end)]] - middle
    image = left - 2.0 * (left @ across)[:, None] * across
    return bool(np.linalg.norm(image - right, axis=1).max() < MIRRORED * plan.leg_length)


def _has_straight_bones(plan: BodyPlan, points: FloatArray) -> bool:
    """Return whether the inner joints of long bones lie on their lines in a pose ``(J, 3)``, as in every rig."""
    return all(
        math.dist(points[a], points[b]) > STRAIGHT_BONE * length
        for limb in (*plan.legs, *plan.arms)
        for a, b, length in (
            (limb.upper, limb.middle, limb.upper_length),
            (limb.middle, limb.end, limb.lower_length if limb.end != limb.chain[-1] else 0.0),
        )
    )


def stands_at_rest(skeleton: Skeleton) -> bool:
    """Return whether the rest pose is an upright body; some files draw every bone along one axis instead."""
    plan = find_body_plan(skeleton)
    if plan is None:
        return True
    p = skeleton.rest_positions()
    cost = posture_cost(plan, p[None])
    if cost is None or cost > ODD_POSTURE or skeleton in _SEEN:
        return False
    # Legs are straight and the head is above the shoulders
    legs = [math.dist(p[leg.upper], p[leg.end]) > STRAIGHT_LEG * leg.length for leg in plan.legs]
    trunk = p[plan.shoulder_fork] - p[plan.hip_fork]
    neck = p[plan.head[0]] - p[plan.shoulder_fork] if plan.head else trunk
    is_up = float(np.linalg.norm(neck)) < _SHORT * plan.leg_length or _cosine(neck, trunk) > 0.0
    return all(legs) and is_up and _has_straight_bones(plan, p)


@lru_cache(maxsize=256)
def search_plan(skeleton: Skeleton) -> BodyPlan | None:
    """Return the most human reading of the tree at rest, if it has two pairs of mirrored limbs."""
    tree = _Tree(skeleton)
    # The longest mirrored branches of the tree, longest first
    found: list[_Pair] = []
    for fork, kids in enumerate(tree.kids):
        branches = [k for k in kids if tree.counts[k] > 1 and tree.below[k] > 0.0]
        if len(branches) < 2:
            continue
        branches = sorted(branches, key=lambda k: -tree.below[k])[:MAX_BRANCHES]
        matches = sorted(((*tree.match(a, b), a, b) for a, b in combinations(branches, 2)), key=lambda m: -m[0])
        taken: set[int] = set()
        for _, first, second, a, b in matches:
            if len(first) > 1 and not {a, b} & taken:
                taken |= {a, b}
                length = 0.5 * sum(tree.path_length(chain[1:]) + tree.tips[chain[-1]] for chain in (first, second))
                found.append(_Pair(fork, (first, second), length))
    longest = max((pair.length for pair in found), default=0.0)
    found = [pair for pair in found if pair.length > MIN_LIMB * longest]
    pairs = sorted(found, key=lambda pair: -pair.length)[:MAX_PAIRS]
    best: tuple[float, BodyPlan] | None = None
    for legs, arms in permutations(pairs, 2):
        plan = tree.read_as_body(legs, arms, pairs)
        # Bound: posture costs at least zero, and names reduce the cost by at most twelve bonuses
        if plan is not None and (best is None or plan.cost - 12.0 * NAME_BONUS < best[0]):
            posture = posture_cost(plan, tree.points[None])
            # How many of the twelve limb joints have a name that agrees with the reading
            prefix = common_prefix(tree.names)
            agrees = [
                parse_joint_name(tree.names[joint], prefix)[1] == part
                for limbs, parts in ((plan.legs, ("hip", "knee", "ankle")), (plan.arms, ("shoulder", "elbow", "wrist")))
                for limb in limbs
                for joint, part in zip((limb.upper, limb.middle, limb.end), parts, strict=True)
            ]
            cost = plan.cost + (UNKNOWN_COST if posture is None else posture) - NAME_BONUS * sum(agrees)
            if best is None or cost < best[0] - 1e-9:
                best = (cost, plan)
    return None if best is None else best[1]


def posture_cost(plan: BodyPlan, positions: FloatArray) -> float | None:
    r"""Return how far posed joints ``(P, J, 3)`` deviate from an upright human; ``None`` if no pose is informative.

    With the mean of the hips as origin, the legs point along :math:`\ell` and the trunk along :math:`t`. A human stands
    with :math:`\cos(\ell, t) = -1` and hands above the knees; a quadruped has a cosine near 0 and hands as low as the
    feet. The 20th percentile of the poses decides, because people also sit, crawl and bow.
    """
    hips, feet, shoulders, _ = (
        positions[:, [a, b]].mean(axis=1)
        for one, two in (plan.legs, plan.arms)
        for a, b in ((one.upper, two.upper), (one.end, two.end))
    )
    # A front leg may end at its third bone or at its hoof, so the last joint of the chain counts
    hands = positions[:, [arm.chain[-1] for arm in plan.arms]].mean(axis=1)
    # The trunk from fork to fork is independent of the choice of shoulder joints
    trunk = positions[:, plan.shoulder_fork] - positions[:, plan.hip_fork]
    legs, back = feet - hips, np.linalg.norm(trunk, axis=1)
    leg = np.linalg.norm(legs, axis=1)
    trunk = np.where((back > _SHORT * leg)[:, None], trunk, shoulders - hips)
    back = np.linalg.norm(trunk, axis=1)
    known = (leg > 1e-9) & (back > 1e-9)
    cosines = -(legs * trunk).sum(axis=1)[known] / (leg * back)[known]
    levels = ((hands - hips) * legs).sum(axis=1)[known] / leg[known] ** 2
    # A pose with all long bones on one line only lists lengths, unless it is a body with its arms down
    bones = [(limb.upper, limb.middle) for limb in (*plan.legs, *plan.arms)]
    bones += [(limb.middle, limb.end) for limb in (*plan.legs, *plan.arms) if limb.end != limb.middle]
    along = np.stack([positions[known, b] - positions[known, a] for a, b in bones], axis=1)
    norms = np.linalg.norm(along, axis=-1) * back[known, None]
    on_line = np.abs((along * trunk[known, None]).sum(axis=-1)) > _LINE * np.maximum(norms, 1e-12)
    is_informative = (cosines > _FOLDED) & (~on_line.all(axis=1) | (cosines > _STRAIGHT[0]))
    if not is_informative.any():
        return None
    bent = np.maximum(0.0, _STRAIGHT[0] - cosines[is_informative]) / _STRAIGHT[1]
    low = np.maximum(0.0, levels[is_informative] - _LEVEL[0]) / _LEVEL[1]
    costs = np.sort(bent**2 + low**2)
    return min(WORST, float(costs[len(costs) // 5]))


@dataclass(frozen=True, slots=True)
class _Pair:
    fork: int
    chains: tuple[tuple[int, ...], tuple[int, ...]]
    length: float  # without the first bone, which may start at the root of the scene


class _Tree:
    """Plain lists of one skeleton, for a search that visits joints one by one."""

    __slots__ = (
        "below", "counts", "kids", "legs", "lengths", "matches", "names", "parents", "point_lists", "points", "tips"
    )  # fmt: skip

    def __init__(self, skeleton: Skeleton) -> None:
        self.names = skeleton.names
        self.legs: dict[tuple[int, ...], LimbChain | None] = {}  # chains read as legs
        self.parents: list[int] = skeleton.parents.tolist()
        count = len(self.parents)
        with np.errstate(over="ignore"):  # damaged files hold any numbers
            self.lengths: list[float] = np.sqrt((skeleton.offsets**2).sum(axis=1)).tolist()
            self.tips: list[float] = np.sqrt((skeleton.tips**2).sum(axis=1)).tolist()
        self.lengths[0] = 0.0
        self.points = skeleton.rest_positions()
        self.point_lists: list[list[float]] = self.points.tolist()
        self.kids: list[list[int]] = [[] for _ in range(count)]
        self.below = list(self.tips)  # longest path down from a joint
        self.counts = [1] * count  # joints of the branch
        self.matches: dict[tuple[int, int], tuple[float, tuple[int, ...], tuple[int, ...]]] = {}
        for j in range(count - 1, 0, -1):
            parent = self.parents[j]
            self.kids[parent].append(j)
            self.counts[parent] += self.counts[j]
            self.below[parent] = max(self.below[parent], self.lengths[j] + self.below[j])
        # Restore file order: of limbs that are drawn twice at one position, the first belongs to the body
        for kids in self.kids:
            kids.reverse()

    def match(self, a: int, b: int) -> tuple[float, tuple[int, ...], tuple[int, ...]]:
        """Return similarity times length of two branches, and their longest chains of bones that agree in length."""
        known = self.matches.get((a, b))
        if known is not None:
            return known
        one, two = self.lengths[a], self.lengths[b]
        gap, long = abs(one - two), max(one, two)
        if gap > MIRROR_TOL * long + MIRROR_SLACK * max(self.below[a], self.below[b]):
            self.matches[a, b] = (0.0, (), ())
            return self.matches[a, b]
        best: tuple[float, tuple[int, ...], tuple[int, ...]] = (min(self.tips[a], self.tips[b]), (), ())
        ends = [sorted(self.kids[j], key=lambda k: -self.below[k])[:MAX_BRANCHES] for j in (a, b)]
        for x in ends[0]:
            for y in ends[1]:
                deeper = self.match(x, y)
                if deeper[1] and deeper[0] >= best[0]:
                    best = deeper
        # Bones that differ count less, so that a leg pairs with the other leg and not with the spine
        value = long - 2.0 * gap + best[0]
        self.matches[a, b] = (value, (a, *best[1]), (b, *best[2]))
        return self.matches[a, b]

    def path_length(self, joints: tuple[int, ...]) -> float:
        return sum(self.lengths[j] for j in joints)

    def ancestors(self, joint: int) -> Iterator[int]:
        """The joint and all above it."""
        while joint != NO_PARENT:
            yield joint
            joint = self.parents[joint]

    def read_as_body(self, legs: _Pair, arms: _Pair, pairs: list[_Pair]) -> BodyPlan | None:
        """Assemble legs, trunk, arms and head from two pairs, with the cost of each deviation from a human."""
        above_hips, above_shoulders = list(self.ancestors(legs.fork)), list(self.ancestors(arms.fork))
        tops = {chain[0] for pair in (legs, arms) for chain in pair.chains}
        if tops & {*above_hips, *above_shoulders} or len(tops) < 4:
            return None
        root = next(j for j in above_hips if j in above_shoulders)
        down, up = above_hips[: above_hips.index(root)], above_shoulders[: above_shoulders.index(root)]
        trunk = (*down, root, *reversed(up))
        for chain in legs.chains:
            if chain not in self.legs:
                self.legs[chain] = self.split_leg(chain)
        a, b = (self.legs[chain] for chain in legs.chains)
        if a is None or b is None:
            return None
        leg = 0.5 * (a.length + b.length)
        c, d = (self.split_arm(chain, leg) for chain in arms.chains)
        if c is None or d is None:
            return None
        arm = 0.5 * (c.length + d.length)
        # The head: the longest branch of the shoulder fork that is neither arm nor trunk; the tail likewise
        up_axis = 0.5 * (self.points[c.upper] + self.points[d.upper] - self.points[a.upper] - self.points[b.upper])
        head = self.longest_branch(arms.fork, {*tops, *trunk}, up_axis)
        head_length = self.path_length(head) + self.tips[head[-1]] if head else self.tips[arms.fork]
        hips, ankles = (0.5 * (self.points[x] + self.points[y]) for x, y in ((a.upper, b.upper), (a.end, b.end)))
        cloth = {chain[0] for pair in pairs if pair.fork == legs.fork for chain in pair.chains}
        tail = self.longest_branch(legs.fork, {*tops, *trunk, *cloth}) if legs.fork != arms.fork else ()
        hangs = bool(tail) and _cosine(self.points[tail[-1]] - self.points[legs.fork], ankles - hips) > _HANGS
        tail_length = self.path_length(tail) + self.tips[tail[-1]] if len(tail) > 2 else 0.0
        if hangs and tail_length < _TRAILS * leg:
            tail_length = 0.0
        # Further pairs on the trunk that spread, as wings and legs do; skirts and capes hang down together
        others: list[float] = []
        for pair in pairs:
            left, right = (self.point_lists[chain[-1]] for chain in pair.chains)
            is_spread = pair.fork in trunk and math.dist(left, right) > _SPREAD * pair.length
            is_spread &= not any(is_helper(self.names[chain[-1]]) for chain in pair.chains)
            others += [pair.length] if is_spread and pair not in (legs, arms) else []
        trunk_length = self.path_length((*down, *up)) + 0.5 * (c.stub + d.stub)
        has_forearms = c.lower_length > 0.0 and d.lower_length > 0.0
        whole_arm = arm if has_forearms else arm * (1.0 + FOREARM / UPPER_ARM)
        # The lateral axes of legs and arms agree: a spine and a tail are not a pair of arms
        hip_axis, shoulder_axis = (
            self.points[a.upper] - self.points[b.upper],
            self.points[c.upper] - self.points[d.upper],
        )
        is_narrow = min(float(np.linalg.norm(hip_axis)), float(np.linalg.norm(shoulder_axis))) < 0.02 * a.length
        costs = (
            ("thigh and shank", _log_cost(a.upper_length + b.upper_length, a.lower_length + b.lower_length, 1.0, 0.25)),
            ("foot", _excess_cost(0.5 * (a.rest_length + b.rest_length) / leg, _FOOT)),
            ("hip", _excess_cost(0.5 * (a.stub + b.stub) / leg, _STUB)),
            (
                "upper arm and forearm",
                _log_cost(c.upper_length + d.upper_length, c.lower_length + d.lower_length, UPPER_ARM / FOREARM, 0.35)
                if has_forearms
                else _NO_END,
            ),
            ("hand", _excess_cost(0.5 * (c.rest_length + d.rest_length) / whole_arm, _HAND)),
            ("arms and legs", _log_cost(whole_arm, leg, (UPPER_ARM + FOREARM) / LEG_OF_STATURE, 0.3)),
            ("trunk", _log_cost(trunk_length, leg, TRUNK_ON_LEG, 0.4)),
            ("head", 1.0 if head_length <= 0.0 else _excess_cost(head_length / leg, _HEAD)),
            ("tail", _excess_cost(tail_length / leg, _TAIL)),
            ("joints", 0.25 * (a.inner_cost + b.inner_cost + c.inner_cost + d.inner_cost)),
            ("symmetry", 0.0 if is_narrow else _excess_cost(1.0 - abs(_cosine(hip_axis, shoulder_axis)), _ASKEW)),
            ("further limbs", _excess_cost(max(others, default=0.0) / leg, _EXTRA)),
        )
        return BodyPlan((a, b), (c, d), legs.fork, arms.fork, root, trunk, head, trunk_length, head_length, costs)

    def longest_branch(self, fork: int, without: set[int], axis: FloatArray | None = None) -> tuple[int, ...]:
        """Follow the longest branch of a joint to its end, or the branch that reaches farthest along an axis."""
        chain: list[int] = []
        kids = [k for k in self.kids[fork] if k not in without]
        reach = {k: self.lengths[k] + self.below[k] for k in kids}
        if axis is not None and len(kids) > 1 and axis.any():
            # A cape is longer than a head and hangs down
            for k in kids:
                direction = self.points[k] - self.points[fork]
                below = self.kids[k]
                direction = direction + (self.points[below].mean(axis=0) - self.points[k] if below else 0.0)
                reach[k] *= 0.02 + max(0.0, _cosine(direction, axis))
        while kids:
            chain.append(max(kids, key=lambda k: reach[k]))
            kids = self.kids[chain[-1]]
            reach = {k: self.lengths[k] + self.below[k] for k in kids}
        return tuple(chain)

    def split_leg(self, chain: tuple[int, ...]) -> LimbChain | None:
        """Find thigh and shank: two straight bones of equal length with few joints that make up most of the limb."""
        nodes, total = self.milestones(chain)
        best: tuple[float, LimbChain] | None = None
        for i, j, k in combinations(range(len(nodes)), 3):
            (hip, start), (knee, middle), (ankle, stop) = nodes[i], nodes[j], nodes[k]
            upper, lower = middle - start, stop - middle
            # A leg of hip and knee alone ends where its last bone ends
            if min(upper, lower) <= 0.05 * total or (ankle == NO_PARENT and len(chain) != 2):
                continue
            cost = (math.log(upper / lower * SHANK / THIGH) / 0.3) ** 2 + 4.0 * (1.0 - (upper + lower) / total)
            if best is not None and cost >= best[0]:
                continue
            inner = self.joint_cost(chain[i : k + 1], j - i, k - i)
            cost += inner
            if best is None or cost < best[0] - 1e-12:
                end = knee if ankle == NO_PARENT else ankle
                best = (cost, LimbChain(chain, hip, knee, end, start, upper, lower, total - stop, inner))
        return None if best is None else best[1]

    def split_arm(self, chain: tuple[int, ...], leg: float) -> LimbChain | None:
        """Find upper arm and forearm; their length follows from the leg, since collars and fingers are straight too."""
        nodes, total = self.milestones(chain)
        wanted = leg * (UPPER_ARM + FOREARM) / LEG_OF_STATURE
        best: tuple[float, LimbChain] | None = None
        for i, j in combinations(range(len(nodes)), 2):
            (shoulder, start), (elbow, middle) = nodes[i], nodes[j]
            upper = middle - start
            if upper <= 0.05 * total or elbow == NO_PARENT:
                continue
            for k in range(j + 1, len(nodes)):
                wrist, stop = nodes[k]
                lower = stop - middle
                if lower <= 0.05 * total:
                    continue
                cost = (math.log(upper / lower * FOREARM / UPPER_ARM) / 0.4) ** 2
                cost += (math.log((upper + lower) / wanted) / 0.4) ** 2
                if best is not None and cost >= best[0]:
                    continue
                inner = self.joint_cost(chain[i : k + 1], j - i, k - i)
                cost += inner
                if best is None or cost < best[0] - 1e-12:
                    end = chain[-1] if wrist == NO_PARENT else wrist
                    best = (cost, LimbChain(chain, shoulder, elbow, end, start, upper, lower, total - stop, inner))
            # An arm may end at the elbow: a forearm without a wrist has no length
            cost = (math.log(upper / wanted * (UPPER_ARM + FOREARM) / UPPER_ARM) / 0.3) ** 2
            cost += self.joint_cost(chain[i : j + 1], j - i, j - i + 1) + 2.0 * _NO_END
            if elbow == chain[-1] and (best is None or cost < best[0] - 1e-12):
                best = (cost, LimbChain(chain, shoulder, elbow, elbow, start, upper, 0.0, total - middle))
        return None if best is None else best[1]

    def milestones(self, chain: tuple[int, ...]) -> tuple[list[tuple[int, float]], float]:
        """Arc length from the fork to each joint of a chain and to the end of its last bone, and the total length."""
        nodes: list[tuple[int, float]] = []
        length = 0.0
        for joint in chain:
            length += self.lengths[joint]
            nodes.append((joint, length))
        if self.tips[chain[-1]] > 0.0:
            length += self.tips[chain[-1]]
            nodes.append((NO_PARENT, length))
        return nodes, length

    def joint_cost(self, joints: tuple[int, ...], middle: int, count: int) -> float:
        """Cost of inner joints of long bones, except twist bones, and of bones that are not straight at rest.

        A joint whose name extends that of its parent ("forearm", "forearm2") counts as a twist bone.
        """
        inside = [j for i, j in enumerate(joints[1:-1], start=1) if i != middle]
        count -= sum(is_twist(self.names[j]) or self.names[j].startswith(self.names[self.parents[j]]) for j in inside)
        length = self.path_length(joints[1:])
        if len(joints) < 2 or not length > 0.0:
            return _INNER * (count - 2)
        first, knee, last = (self.point_lists[j] for j in (joints[0], joints[min(middle, len(joints) - 1)], joints[-1]))
        chords = math.dist(first, knee) + math.dist(knee, last)
        return _INNER * (count - 2) + 12.0 * (1.0 - chords / length)


def _cosine(a: FloatArray, b: FloatArray) -> float:
    norm = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / norm if norm > 0.0 else 0.0


def _log_cost(value: float, other: float, expected: float, tolerance: float) -> float:
    if not (value > 0.0 and other > 0.0):
        return WORST
    return min(WORST, (math.log(value / other / expected) / tolerance) ** 2)


def _excess_cost(value: float, allowed: tuple[float, float]) -> float:
    free, tolerance = allowed
    return min(WORST, (max(0.0, value - free) / tolerance) ** 2)
