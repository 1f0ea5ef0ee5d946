"""Guess the roles of an unknown skeleton: limbs are found by shape, names say which joint of a limb is which.

A name is believed where it fits the shape: a thigh that is one, on the side that it says.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.skeleton.limbs import BodyPlan, LimbChain, find_body_plan, recall_pose
from marey.skeleton.naming import SIDES, common_prefix, parse_joint_name, plain_name
from marey.skeleton.tree import NO_PARENT, Skeleton

MOST_COST: Final = 12.0  # of a body whose shape is asked for roles: above it is no body (see `anatomy`)
BALL_ON_LEG: Final = 0.17  # ankle to ball of the foot over the leg ([Winter2009]_ fig. 4.1)
NARROW: Final = 0.02  # [leg] hips or shoulders nearer to one another do not tell left from right
SAME_BONE: Final = (0.55, 1.7)  # [-] length of a named bone over that of the shape: the same bone
_LEG: Final = ("hip", "knee", "ankle")
_UPPER_ARM: Final = ("upperarm", "uparm", "humerus", "armupper")
_ARM: Final = ("shoulder", "elbow", "wrist")


def guess_roles(skeleton: Skeleton) -> tuple[dict[str, int], list[str]]:
    """Return the joints by role, and one sentence for each guess that says what it rests on."""
    plan = find_body_plan(skeleton)
    if plan is not None and plan.cost > MOST_COST:
        plan = None
    by_name = _guess_by_name(skeleton, plan)
    by_shape, sides_are_named = ({}, True) if plan is None else _guess_by_shape(skeleton, plan)
    # Of several joints with one meaning ("UpLeg" below "__UpLeg"), the one that the shape suggests
    prefix = common_prefix(skeleton.names)
    for role, joint in by_shape.items():
        if role in by_name and "_".join(parse_joint_name(skeleton.names[joint], prefix)) == role:
            by_name[role] = joint
    joints: dict[str, int] = dict(by_name)
    report: list[str] = []
    if plan is not None:
        # Forget the names of a limb whose long bones are not those of the shape
        lengths = np.linalg.norm(skeleton.offsets, axis=1)
        limbs = {limb.upper: limb for limb in (*plan.legs, *plan.arms)}
        for side in SIDES:
            for parts, further in ((_LEG, "foot"), (_ARM, "collar")):
                limb = limbs[by_shape[f"{side}_{parts[0]}"]]
                named = [joints.get(f"{side}_{part}") for part in parts]
                if all(joint is None for joint in named) or _fits_limb(named, limb, lengths):
                    continue
                for part in (*parts, further):
                    joints.pop(f"{side}_{part}", None)
                for role, joint in list(joints.items()):
                    if joint in (limb.upper, limb.middle, limb.end):
                        del joints[role]
        if "pelvis" in joints and joints["pelvis"] not in plan.trunk:
            del joints["pelvis"]
        # A node that carries the legs alone is no spine, whatever it is called
        below = plan.trunk[: plan.trunk.index(plan.root)]
        for role in ("spine1", "spine2", "spine3"):
            if joints.get(role) in below:
                del joints[role]
        # A joint that carries legs and arms is the pelvis, also where it is called a spine or a body
        spine = [joints[role] for role in ("spine1", "spine2", "spine3") if role in joints]
        if "pelvis" not in joints and plan.root in spine:
            joints = {role: joint for role, joint in joints.items() if joint not in spine}
            joints |= name_spine_joints([joint for joint in spine if joint != plan.root]) | {"pelvis": plan.root}
    for role, joint in by_shape.items():
        if role not in joints and joint not in joints.values():
            joints[role] = joint
    for role, joint in joints.items():
        name = skeleton.names[joint]
        if by_name.get(role) != joint:
            report.append(f"{role}: '{name}', from its position in the chain (fairly sure)")
        elif by_shape.get(role) == joint:
            report.append(f"{role}: '{name}', from its name and its position (sure)")
        elif role in by_shape:
            other = skeleton.names[by_shape[role]]
            report.append(f"{role}: '{name}', from its name; its position suggests '{other}' (check it)")
        else:
            report.append(f"{role}: '{name}', from its name (fairly sure)")
    if not sides_are_named:
        report.append("left and right are estimated from the direction of the feet; check them")
    return joints, report


def _guess_by_shape(skeleton: Skeleton, plan: BodyPlan) -> tuple[dict[str, int], bool]:
    """Roles that limbs, trunk and head have by their place, and whether names told left from right."""
    # Left and right leg, left and right arm, by names where these tell, else by where the toes point
    prefix = common_prefix(skeleton.names)
    ordered: list[tuple[LimbChain, LimbChain]] = []
    for one, two in (plan.legs, plan.arms):
        # A name may tell the side in a language whose words for limbs are not known
        named = [[parse_joint_name(skeleton.names[j], prefix)[0] for j in limb.chain] for limb in (one, two)]
        first, second = (sides.count("left") - sides.count("right") for sides in named)
        if first != second:
            ordered.append((one, two) if first > second else (two, one))
    if len(ordered) == 2:
        legs, arms, sides_are_named = ordered[0], ordered[1], True
    else:
        seen = recall_pose(skeleton)
        p = skeleton.rest_positions() if seen is None else seen.points
        # Tips are known in the rest pose alone
        ends = p + skeleton.tips if seen is None else p
        # To the left of the body: up times forward, where toes and knees point
        hips = p[[leg.upper for leg in plan.legs]].mean(axis=0)
        feet = p[[leg.end for leg in plan.legs]].mean(axis=0)
        up = p[[arm.upper for arm in plan.arms]].mean(axis=0) - feet
        up = up / max(float(np.linalg.norm(up)), 1e-12)
        forward = np.zeros(3)
        for leg in plan.legs:
            forward = forward + ends[leg.chain[-1]] - p[leg.end]
        forward = forward - up * float(up @ forward)
        if np.linalg.norm(forward) < 0.03 * plan.leg_length:
            # Without feet: knees stand before the line from hips to ankles, else a rest pose faces +Z
            knees = p[[leg.middle for leg in plan.legs]].mean(axis=0) - 0.5 * (hips + feet)
            forward = knees - up * float(up @ knees)
        if np.linalg.norm(forward) < 0.005 * plan.leg_length:
            forward = np.array([0.0, 0.0, 1.0])
        left = np.asarray(np.cross(up, forward), dtype=np.float64)
        by_shape: list[tuple[LimbChain, LimbChain]] = []
        for one, two in (plan.legs, plan.arms):
            gap = float(left @ (p[one.upper] - p[two.upper]))
            if abs(gap) < NARROW * plan.leg_length:
                gap = float(left @ (p[list(one.chain)].mean(axis=0) - p[list(two.chain)].mean(axis=0)))
            by_shape.append((one, two) if gap > 0.0 else (two, one))
        legs, arms, sides_are_named = by_shape[0], by_shape[1], False
    lengths = np.linalg.norm(skeleton.offsets, axis=1)
    found = {"pelvis": plan.root}
    for side, leg, arm in zip(SIDES, legs, arms, strict=True):
        found |= {f"{side}_hip": leg.upper, f"{side}_knee": leg.middle, f"{side}_ankle": leg.end}
        beyond = leg.chain[leg.chain.index(leg.end) + 1 :]
        if beyond:
            # The ball: the joint of the foot that lies nearest to where the toes of a human begin
            ways = np.abs(np.cumsum(lengths[list(beyond)]) - BALL_ON_LEG * plan.leg_length)
            found[f"{side}_foot"] = beyond[int(np.argmin(ways))]
        found |= {f"{side}_shoulder": arm.upper, f"{side}_elbow": arm.middle}
        if arm.end != arm.middle:
            found[f"{side}_wrist"] = arm.end
        found |= {f"{side}_collar": j for j in arm.chain[: arm.chain.index(arm.upper)][-1:]}
    found |= name_spine_joints(list(plan.trunk[plan.trunk.index(plan.root) + 1 :]))
    # The head carries a face; without one it is the last joint, unless that is the end of a bone
    above = plan.head
    if len(above) > 1:
        forks = [len(skeleton.children(j)) for j in above]
        leaf_has_tip = bool(skeleton.tips[above[-1]].any())
        last = len(above) - (1 if leaf_has_tip or len(above) == 2 else 2)
        place = int(np.argmax(forks)) if max(forks) > 1 and int(np.argmax(forks)) > 0 else last
        found |= {"neck": above[0], "head": above[place]}
    elif above:
        found["head"] = above[0]
    return found, sides_are_named


def _fits_limb(named: list[int | None], limb: LimbChain, lengths: FloatArray) -> bool:
    """Tell whether the named joints lie on the limb, in order, and bound bones of the right length."""
    places = [limb.chain.index(joint) if joint in limb.chain else -1 for joint in named if joint is not None]
    if -1 in places or places != sorted(set(places)) or None in named[:2]:
        return False
    if limb.middle == limb.end and len(places) == len(named):
        # A shape without a wrist is no evidence against three names in order: arms of ogres and dwarfs
        return True
    for (a, b), expected in zip(((0, 1), (1, 2)), (limb.upper_length, limb.lower_length), strict=True):
        if b < len(places) and expected > 0.0:
            bone = float(lengths[list(limb.chain[places[a] + 1 : places[b] + 1])].sum())
            if not SAME_BONE[0] * expected < bone < SAME_BONE[1] * expected:
                return False
    return True


def name_spine_joints(spine: list[int]) -> dict[str, int]:
    """Name up to three of the joints between pelvis and neck: the lowest, the highest, one between."""
    if not spine:
        return {}
    if len(spine) == 1:
        return {"spine3": spine[0]}
    named = {"spine1": spine[0], "spine3": spine[-1]}
    return named if len(spine) == 2 else {**named, "spine2": spine[(len(spine) - 1) // 2]}


def _guess_by_name(skeleton: Skeleton, plan: BodyPlan | None) -> dict[str, int]:
    prefix = common_prefix(skeleton.names)
    told = [parse_joint_name(name, prefix) for name in skeleton.names]
    joints: dict[str, int] = {}
    for side in SIDES:
        for parts in (("hip", "knee", "ankle", "foot"), ("collar", "shoulder", "elbow", "wrist")):
            chain = [(j, part) for j, (s, part) in enumerate(told) if s == side and part in parts]
            # Each part of one limb gets its first joint; a word that names two parts is settled by their order
            found: dict[str, int] = {}
            arms = [
                j
                for j, part in chain
                if part == "shoulder" and any(word in plain_name(skeleton.names[j]) for word in _UPPER_ARM)
            ]
            if arms and any(part == "shoulder" and j < arms[0] for j, part in chain):
                # "shoulder01" above "upperarm01" is a part of the collar
                chain = [(j, part) for j, part in chain if part != "shoulder" or j >= arms[0]]
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
    if plan is not None:
        # A sternum or rib that hangs beside the spine is a part of the skin
        on_line = {*plan.trunk, *plan.head}
        trunk["spine"] = [j for j in trunk["spine"] if j in on_line] or trunk["spine"]
    if trunk["pelvis"]:
        # "root" may carry "pelvis": the lower one holds the legs
        first, last = trunk["pelvis"][0], trunk["pelvis"][-1]
        joints["pelvis"] = last if _is_below(skeleton, last, first) else first
    elif "left_hip" in joints and "right_hip" in joints:
        # The lowest part of a spine that both legs hang on: "spine" of Blender, "SpineBase" of depth cameras
        above = {int(skeleton.parents[joints[f"{side}_hip"]]) for side in SIDES}
        base = above.pop()
        if not above and base in trunk["spine"]:
            joints["pelvis"] = base
            trunk["spine"] = [j for j in trunk["spine"] if j != base]
    # A spine that goes on above the arms is the neck, and its end the head: Blender numbers them all alike
    arms = [joints.get(f"{side}_collar", joints.get(f"{side}_shoulder")) for side in SIDES]
    if not trunk["head"] and arms[0] is not None and arms[1] is not None:
        chest = int(skeleton.parents[arms[0]])
        upper = [j for j in trunk["spine"] if j != chest and chest != NO_PARENT and _is_below(skeleton, j, chest)]
        if upper and chest == int(skeleton.parents[arms[1]]):
            trunk["neck"], trunk["head"] = trunk["neck"] or upper[:-1][:1], upper[-1:]
            trunk["spine"] = [j for j in trunk["spine"] if j not in upper]
    joints |= name_spine_joints(trunk["spine"])
    joints |= {part: trunk[part][0] for part in ("neck", "head") if trunk[part]}
    return joints


def _is_below(skeleton: Skeleton, joint: int, ancestor: int) -> bool:
    while joint != NO_PARENT:
        if joint == ancestor:
            return True
        joint = int(skeleton.parents[joint])
    return False
