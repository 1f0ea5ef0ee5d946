"""Decide whether a skeleton is human, and which of its joints is the pelvis.

A human has two legs that reach the ground, one trunk, two arms and one head. The decision rests on lengths, symmetry
and posture rather than names, so it holds for files of any tool and language; :mod:`marey.skeleton.limbs` finds the
parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.lie import SO3
from marey.skeleton.limbs import (
    READ_POSES,
    WORST,
    BodyPlan,
    SeenPose,
    find_body_plan,
    is_rest_pose,
    posture_cost,
    recall_pose,
    remember_pose,
    search_plan,
)
from marey.skeleton.tree import Skeleton

HALF_COST: Final = 7.0  # cost of a body at which the score is one half: humans stay below 4, animals begin at 12
UNKNOWN_POSTURE: Final = 0.5  # cost where neither rest pose nor frames show how the body stands
MAX_REASONS: Final = 3
MAX_SEEN: Final = 256

HINGE: Final = 0.2  # [-] largest ratio of second to first singular value of a hinge's rotation vectors
MOVES_RAD: Final = 0.02  # a joint that rotates by less has no measurable axis
OTHER_AXIS: Final = 0.7  # [-] largest cosine between the axes of two hinges of one ball joint
MOTORS: Final = 3  # hinges in series that form a robot's hip

# Cache of skeletons whose frames were more informative than their rest pose
_SEEN_MOVING: Final[dict[Skeleton, Anatomy]] = {}

_SENTENCES: Final = {
    "posture": "its trunk lies along the ground or its front limbs reach as low as its feet",
    "thigh and shank": "thigh and shank differ too much in length",
    "foot": "its legs have more than two long bones",
    "hip": "its hips are too far from the joint where the legs meet",
    "upper arm and forearm": "upper arm and forearm differ too much in length",
    "hand": "its hands are longer than its arms",
    "joints": "its limbs bend at more than two joints",
    "symmetry": "its limbs are not mirrored across one plane",
    "arms and legs": "its front limbs do not have the length of arms",
    "trunk": "its trunk does not have the length of a human trunk",
    "head": "it has no head, or a neck longer than its legs",
    "tail": "it has a tail",
    "further limbs": "it has more than four limbs",
    "motors": "its hips are three hinges in series, as in a robot",
}


@dataclass(frozen=True, slots=True)
class Anatomy:
    """Whether a skeleton is human, with a score and reasons."""

    is_human: bool
    score: float  # in [0, 1]; a human has at least 0.5
    reasons: tuple[str, ...]  # sentences: the evidence against a human, or the parts that were found
    pelvis: int | None  # the joint that carries legs and trunk; None if there is none
    plan: BodyPlan | None = None  # legs, arms, trunk and head

    def __str__(self) -> str:
        return f"{'human' if self.is_human else 'not human'} ({self.score:.2f}): {'; '.join(self.reasons)}"


def assess_anatomy(skeleton: Skeleton, positions: FloatArray | None = None, rotations: SO3 | None = None) -> Anatomy:
    r"""Judge whether a skeleton is human.

    Deviations from human proportions ([Drillis1966]_, [Winter2009]_) and posture add up to a cost :math:`c`, and the
    score is :math:`2^{-c/7}`. Tolerances are wide, so children, game heroes and rigs with extra joints pass; another
    body plan (four legs on the ground, wings, a tail, three long bones per leg) exceeds several of them.

    Args:
        skeleton: any tree of joints, in any unit.
        positions: joints of some frames ``(P, J, 3)``, for files whose rest pose is uninformative (all bones along
            one axis, offsets of zero). A skeleton that was found human by its frames stays human.
        rotations: joint rotations of these frames, batch ``(P, J)``; they expose the hinge chains of a robot.
    """
    rest, has_rest_pose = _assess_rest(skeleton)
    if rest.is_human and rest.plan is not None and rotations is not None and has_motors(rest.plan, rotations):
        _remember(skeleton, _judge(skeleton, rest.plan, WORST, "motors"))
    if (rest.is_human and has_rest_pose) or positions is None or recall_pose(skeleton) is not None:
        return _SEEN_MOVING.get(skeleton, rest)
    # Try a few frames as rest poses and keep the most human reading
    best: tuple[float, BodyPlan] | None = None
    for pose in positions[np.unique(np.linspace(0, len(positions) - 1, READ_POSES).astype(np.int64))]:
        offsets = pose.copy()
        offsets[1:] -= pose[skeleton.parents[1:]]
        plan = search_plan(Skeleton(skeleton.names, skeleton.parents, offsets, skeleton.tips))
        cost = None if plan is None else posture_cost(plan, pose[None])
        if plan is not None and (best is None or plan.cost + (cost or 0.0) < best[0]):
            best = (plan.cost + (cost or 0.0), plan)
    if best is None:
        return rest
    posed = best[1]
    # The most upright frame has straight legs with the trunk above them
    hips, ankles, shoulders = (
        positions[:, [a, b]]
        for a, b in (
            (posed.legs[0].upper, posed.legs[1].upper),
            (posed.legs[0].end, posed.legs[1].end),
            (posed.arms[0].upper, posed.arms[1].upper),
        )
    )
    reach = np.linalg.norm(hips - ankles, axis=-1).min(axis=1) / posed.leg_length
    legs, trunk = (hips - ankles).mean(axis=1), (shoulders - hips).mean(axis=1)
    norms = np.linalg.norm(legs, axis=1) * np.linalg.norm(trunk, axis=1)
    stands = int(np.argmax(reach + (legs * trunk).sum(axis=1) / np.maximum(norms, 1e-12)))
    # A galloping animal stretches out like a person, so a true rest pose counts as much as the frames
    costs = [posture_cost(posed, positions)]
    if rest.plan is not None and has_rest_pose:
        costs.append(posture_cost(rest.plan, skeleton.rest_positions()[None]))
    postures = [cost for cost in costs if cost is not None]
    anatomy = _judge(skeleton, posed, sum(postures) / len(postures) if postures else UNKNOWN_POSTURE)
    if anatomy.is_human and rotations is not None and has_motors(posed, rotations):
        return _remember(skeleton, _judge(skeleton, posed, WORST, "motors"))
    if anatomy.is_human:
        _remember(skeleton, anatomy)
        wxyz = None if rotations is None else rotations.wxyz[stands]
        remember_pose(skeleton, SeenPose(posed, positions[stands], wxyz))
    return anatomy if anatomy.score > rest.score or (anatomy.is_human and not has_rest_pose) else rest


def _remember(skeleton: Skeleton, anatomy: Anatomy) -> Anatomy:
    if len(_SEEN_MOVING) >= MAX_SEEN:
        _SEEN_MOVING.clear()
    _SEEN_MOVING[skeleton] = anatomy
    return anatomy


def has_motors(plan: BodyPlan, rotations: SO3) -> bool:
    r"""Return whether both hips are chains of hinges, from joint rotations of some frames, batch ``(P, J)``.

    A joint is a hinge if the vectors :math:`\log(R_0^{-1} R_t)` lie on one line. A human hip rotates about all axes
    at once; a robot has one motor for each axis, in series.
    """
    if any(leg.chain.index(leg.middle) < MOTORS for leg in plan.legs):
        return False
    for leg in plan.legs:
        axes: list[FloatArray] = []
        for joint in leg.chain[: leg.chain.index(leg.middle)]:
            vectors = (rotations[:1, joint].inverse() @ rotations[:, joint]).log()
            if np.linalg.norm(vectors, axis=1).max(initial=0.0) < MOVES_RAD:
                continue
            _, extents, lines = np.linalg.svd(vectors, full_matrices=False)
            if extents[1] > HINGE * extents[0]:
                return False
            if all(abs(float(lines[0] @ other)) < OTHER_AXIS for other in axes):
                axes.append(lines[0])
        if len(axes) < MOTORS:
            return False
    return True


def require_human(skeleton: Skeleton, what: str, positions: FloatArray | None = None) -> None:
    """Refuse a skeleton that is not human, in one sentence.

    Args:
        skeleton: any tree of joints.
        what: the operation that needs a human, such as ``retargeting``.
        positions: joints of some frames ``(P, J, 3)``, if there are any.

    Raises:
        InputError: the skeleton is an animal, a prop, a face or a part of a body; the message gives the reason.
    """
    anatomy = assess_anatomy(skeleton, positions)
    if not anatomy.is_human:
        raise InputError(
            f"{what} needs a human skeleton, and '{skeleton.name}' is not human: {'; '.join(anatomy.reasons)}",
            "Use a skeleton with two legs, a trunk, two arms and a head",
        )


@lru_cache(maxsize=256)
def _assess_rest(skeleton: Skeleton) -> tuple[Anatomy, bool]:
    """Assess the rest pose, and decide whether it is a true rest pose."""
    plan = find_body_plan(skeleton)
    if plan is None:
        reason = "it lacks two legs and two arms: there are no two pairs of mirrored limbs"
        return Anatomy(False, 0.0, (reason,), None), False
    rest = skeleton.rest_positions()
    posture = posture_cost(plan, rest[None])
    anatomy = _judge(skeleton, plan, UNKNOWN_POSTURE if posture is None else posture)
    return anatomy, is_rest_pose(plan, rest)


def _judge(skeleton: Skeleton, plan: BodyPlan, cost: float, name: str = "posture") -> Anatomy:
    costs = sorted([(name, cost), *plan.costs], key=lambda item: -item[1])
    score = 0.5 ** (sum(cost for _, cost in costs) / HALF_COST)
    is_human = score >= 0.5
    if is_human:
        names = skeleton.names
        legs, arms = ([names[limb.upper] for limb in limbs] for limbs in (plan.legs, plan.arms))
        head = f"head from '{names[plan.head[0]]}'" if plan.head else "no head"
        parts = f"legs from '{legs[0]}' and '{legs[1]}', arms from '{arms[0]}' and '{arms[1]}', {head}"
        reasons: tuple[str, ...] = (f"pelvis '{names[plan.root]}', {parts}",)
    else:
        heavy = [name for name, cost in costs if cost >= 1.0 and cost >= 0.1 * costs[0][1]]
        reasons = tuple(_SENTENCES[name] for name in heavy[:MAX_REASONS])
    return Anatomy(is_human, score, reasons, plan.root, plan)
