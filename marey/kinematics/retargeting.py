r"""Put a motion on another body.

The posture is carried over first: where bones point and how they are twisted. Feet and hands are then brought to
where they were, relative to the new body.

Local rotations mean different things on skeletons with different rest poses. Both skeletons are therefore brought
to one calibration pose (:func:`marey.skeleton.t_pose`), and what is carried over is the turn of each part away from
it, in world axes:

.. math:: R^{target}_r(t) = R^{source}_r(t)\,(R^{source}_r(T))^{-1}\,R^{target}_r(T)

Since limbs point the same way in both calibration poses, directions and twists are both kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.kinematics.foot_plants import FloorPlane, smooth_upper_envelope
from marey.kinematics.limbs import (
    FootTrajectory,
    compute_hip_drop,
    limit_elbow_change,
    move_limb_end,
    plant_foot,
    rotate_collar,
)
from marey.kinematics.two_bone import Limb, allowed_stretch
from marey.lie import SO3
from marey.motion import Contacts, Motion, contact_positions, ensure_contacts, lowpass
from marey.skeleton import HUMAN, NO_PARENT, RoleMap, Skeleton, contact_points, joint_positions, role_map, t_pose

_TRUNK: Final = ("pelvis", "spine1", "spine2", "spine3")
SAME_POSITION_M: Final = 1e-6  # [m] two joints nearer than this sit on one point


def transfer_rotations(motion: Motion, roles: RoleMap, target: Skeleton, target_roles: RoleMap) -> FloatArray:
    """Local rotations ``(F, J, 4)`` of ``target`` in the posture of ``motion``."""
    # The turn of every part away from the calibration pose, in world axes
    R_world_rest, (_, frames) = t_pose(motion.skeleton, roles).joint_rotations(), motion.joint_frames()
    turns: dict[str, SO3] = {}
    for role, joint in roles.joints.items():
        j = _outermost_joint(motion.skeleton, roles, joint) if role.endswith("wrist") else joint
        turns[role] = frames[:, j] @ R_world_rest[j].inverse()
    # The bend of the trunk is spread over spine joints that the source lacks
    known = [i for i, role in enumerate(_TRUNK) if role in turns]
    for i, role in enumerate(_TRUNK):
        below, above = [k for k in known if k < i], [k for k in known if k > i]
        if i not in known and below and above:
            a, b = below[-1], above[0]
            turns[role] = turns[_TRUNK[a]].slerp(turns[_TRUNK[b]], np.asarray((i - a) / (b - a)))
    if "head" in turns and "head" not in target_roles:
        turns["neck"] = turns["head"]  # one joint moves neck and head: the head is what one sees
    # The same turns of the target, as local rotations
    R_world_rest = t_pose(target, target_roles).joint_rotations()
    moved = _fill_joint_rotations(turns, target, target_roles, motion.num_frames)
    R_world = [turn @ R_world_rest[j] for j, turn in enumerate(moved)]
    local = [R_world[0]]
    local += [R_world[int(target.parents[j])].inverse() @ R_world[j] for j in range(1, target.num_joints)]
    return np.stack([rotation.wxyz for rotation in local], axis=1)


def _outermost_joint(skeleton: Skeleton, roles: RoleMap, joint: int) -> int:
    """Follow joints that sit on the same point and carry more: CMU hands turn in two joints at one place."""
    for child in (int(c) for c in skeleton.children(joint)):
        on_top = np.linalg.norm(skeleton.offsets[child]) < SAME_POSITION_M and child not in roles.joints.values()
        if on_top and len(skeleton.children(child)):
            return _outermost_joint(skeleton, roles, child)
    return joint


def _fill_joint_rotations(turns: Mapping[str, SO3], target: Skeleton, roles: RoleMap, frames: int) -> list[SO3]:
    """Turn of every joint of the target: its part's own, between two parts of the trunk, or its parent's."""
    part = {joint: role for role, joint in roles.joints.items() if role in turns}
    # Joints of trunk and neck without a role: the parts below and above, and how far between them
    between: dict[int, tuple[str, str, float]] = {}
    for role in ("spine1", "spine2", "spine3", "neck", "head"):
        top = roles.get(role)
        if top is None or top not in part:
            continue
        path: list[int] = []
        low = int(target.parents[top])
        while low != NO_PARENT and low not in part:
            path.insert(0, low)
            low = int(target.parents[low])
        if low != NO_PARENT and part[low] in (*_TRUNK, "neck"):
            between |= {j: (part[low], role, (i + 1) / (len(path) + 1)) for i, j in enumerate(path)}
    # Each joint has the turn of its part, one between two parts, or that of its parent
    moved: list[SO3] = []
    for j in range(target.num_joints):
        parent = int(target.parents[j])
        if j in part:
            moved.append(turns[part[j]])
        elif j in between:
            below, above, share = between[j]
            moved.append(turns[below].slerp(turns[above], np.asarray(share)))
        elif parent != NO_PARENT:
            moved.append(moved[parent])
        else:
            moved.append(turns["pelvis"] if "pelvis" in turns else SO3.identity(frames))
    return moved


LEG_STRETCH: Final = 0.998  # [-] a leg is stretched no further, unless the source had it straighter: knees would snap
ARM_STRETCH: Final = 0.998
TOE_HZ: Final = 6.0  # [Hz] toes bend once a step; what is faster in captures is noise
SIDES: Final = ("left", "right")
_LEG: Final = ("hip", "knee", "ankle")
_ARM: Final = ("shoulder", "elbow", "wrist")


def retarget(
    motion: Motion,
    target: Skeleton = HUMAN,
    *,
    contacts: bool = True,
    roles: RoleMap | None = None,
    target_roles: RoleMap | None = None,
) -> Motion:
    r"""Put a motion on another skeleton, feet and hands where they were.

    Positions are scaled about the world's origin by the ratio :math:`s` of the leg lengths (thigh and shank), and
    lifted so that the soles of both bodies touch the same ground:

    .. math:: p' = s\,p + (0,\ h' - s\,h,\ 0), \qquad h = \text{height of the ankle above the sole}

    This holds for the middle of the hips, the ankles and the wrists; bones keep the target's lengths, point where the
    source's pointed, and are bent by the analytic limb solver to reach. While a heel or toe is in contact it
    stays put on the ground, and the body is lowered a little where a leg would be too short. The contact track is
    carried over; where a foot already moves (as it lands, or rolls off its toes) by more than 12 mm from its
    plant, that contact begins later or ends sooner.

    Args:
        motion: any clip whose legs have known roles.
        target: the skeleton to put it on.
        contacts: keep foot plants; they are detected where the clip carries none.
        roles: canonical roles of the joints of ``motion``; default :func:`marey.skeleton.role_map`.
        target_roles: likewise for ``target``.

    Returns:
        A motion with the frames and rate of the source; ``load_report.notes`` tells the scale.

    Raises:
        InputError: one of the skeletons has no known legs.
    """
    roles = role_map(motion.skeleton) if roles is None else roles
    target_roles = role_map(target) if target_roles is None else target_roles
    if contacts and motion.contacts is None:
        motion = ensure_contacts(motion)
    # Scale and lift: the goals (F, J, 3) [m] are the joints of the source on a body of this size
    sides = ((motion.skeleton, roles), (target, target_roles))
    legs, depths = [_leg_length(*side) for side in sides], [_sole_depth(*side) for side in sides]
    scale = legs[1] / legs[0]
    lift_m = depths[1] - scale * depths[0]
    goals = scale * motion.joint_positions() + np.array([0.0, lift_m, 0.0])
    # The target in the posture of the source, its hips where the scaled hips are
    wxyz = transfer_rotations(motion, roles, target, target_roles)
    hips = [f"{side}_hip" for side in SIDES]
    middle = joint_positions(target, np.zeros((len(wxyz), 3)), wxyz)[:, [target_roles[hip] for hip in hips]].mean(
        axis=1
    )
    roots = goals[:, [roles[hip] for hip in hips]].mean(axis=1) - middle
    note = (
        f"retargeted from '{motion.skeleton.name}' to '{target.name}': positions scaled by "
        f"{scale:.4f} (leg length) and lifted by {1000.0 * lift_m:.1f} mm (height of the ankle)"
    )
    report = motion.load_report.adding(notes=(note,))
    moved = Motion(target, motion.rate_hz, roots, SO3(wxyz), load_report=report, name=motion.name)
    # Feet: ankles at their goals and, in contact, planted on the scaled floor
    moved = _smooth_toes(moved, target_roles) if contacts else moved
    limbs = {side: Limb.from_name(target, f"{side}_leg", target_roles) for side in SIDES}
    paths = {side: _trace_foot(motion, moved, side, goals[:, roles[f"{side}_ankle"]], target_roles) for side in SIDES}
    if contacts:
        names = contact_points(motion.skeleton).names
        feet = [k for k, name in enumerate(names) if name.endswith(("heel", "toe"))]
        down = np.stack([_contact_flags(motion, names[k]) for k in feet], axis=1)
        floor = FloorPlane.fit(scale * contact_positions(motion)[:, feet][down]) if down.any() else None
        paths = {side: plant_foot(path, floor, moved.rate_hz) for side, path in paths.items()}
    # Legs: the root is lowered where one is too short
    positions = moved.joint_positions()
    stretches = {side: allowed_stretch(positions, limb, LEG_STRETCH) for side, limb in limbs.items()}
    if contacts:
        drops = [compute_hip_drop(positions, limbs[side], paths[side], stretches[side]) for side in SIDES]
        drop = smooth_upper_envelope(np.max(drops, axis=0), moved.rate_hz)
        moved = replace(moved, root_positions=moved.root_positions - drop[:, None] * np.array([0.0, 1.0, 0.0]))
    for side in SIDES:
        moved = move_limb_end(moved, limbs[side], paths[side].ankle, paths[side].R_world_ankle, stretch=stretches[side])
    # Arms: wrists at their goals; hands follow the forearm, so that arm lengths do not bend the wrist
    for side in SIDES:
        if all(f"{side}_{part}" in known for part in _ARM for known in (roles, target_roles)):
            limb = Limb.from_name(target, f"{side}_arm", target_roles)
            wrists = limit_elbow_change(moved, limb, goals[:, roles[f"{side}_wrist"]])
            collar = target_roles.get(f"{side}_collar")
            stretch = allowed_stretch(moved.joint_positions(), limb, ARM_STRETCH)
            moved = moved if collar is None else rotate_collar(moved, collar, limb, wrists, stretch)
            moved = move_limb_end(moved, limb, wrists, None, stretch=stretch)
    return replace(moved, contacts=_carry_contacts(motion.contacts, paths, target, target_roles))


def _smooth_toes(moved: Motion, roles: RoleMap) -> Motion:
    """Low-pass the toe joints: captured toe angles tremble by up to 15 degrees a frame, and planted toes do not."""
    toes = [roles[f"{side}_foot"] for side in SIDES if f"{side}_foot" in roles]
    if not toes or moved.rate_hz <= 2.0 * TOE_HZ or moved.num_frames < 4:
        return moved
    wxyz = moved.rotations.wxyz.copy()
    wxyz[:, toes] = lowpass(moved, TOE_HZ).rotations.wxyz[:, toes]
    return replace(moved, rotations=SO3(wxyz))


def _carry_contacts(
    track: Contacts | None, paths: Mapping[str, FootTrajectory], target: Skeleton, roles: RoleMap
) -> Contacts | None:
    """The contact track, feet where they were planted, without points that the target lacks."""
    if track is None:
        return None
    active = track.active.copy()
    for side, path in paths.items():
        for name, down in ((f"{side}_heel", path.heel_down), (f"{side}_toe", path.toe_down)):
            if name in track.names:
                active[:, track.names.index(name)] = down
    known = contact_points(target, roles).names
    names = tuple(name for name in track.names if name in known)
    return Contacts(names, active[:, [track.names.index(name) for name in names]])


def _trace_foot(motion: Motion, moved: Motion, side: str, goals: FloatArray, roles: RoleMap) -> FootTrajectory:
    """Trajectory of a foot of the target before planting, its ankle at goals ``(F, 3)`` [m]."""
    positions, frames = moved.joint_frames()
    ankle, points = roles[f"{side}_ankle"], contact_points(moved.skeleton, roles)
    at = points.positions(positions, frames) - positions[:, ankle, None]
    heel, toe = (at[:, points.index(f"{side}_{part}")] for part in ("heel", "toe"))
    heel_down, toe_down = (_contact_flags(motion, f"{side}_{part}") for part in ("heel", "toe"))
    return FootTrajectory(goals, frames[:, ankle], heel, toe, heel_down, toe_down)


def _contact_flags(motion: Motion, point: str) -> BoolArray:
    """Frames ``(F,)`` in which a point is in contact; none if the track does not have it."""
    if motion.contacts is None or point not in motion.contacts.names:
        return np.zeros(motion.num_frames, dtype=np.bool_)
    return np.array(motion.contacts.track(point))


def _leg_length(skeleton: Skeleton, roles: RoleMap) -> float:
    """Mean length of thigh and shank [m]."""
    missing = [f"{side}_{part}" for side in SIDES for part in _LEG if f"{side}_{part}" not in roles]
    if missing:
        fix = "Hand in a RoleMap that names them: retarget(..., roles=RoleMap.from_names(...))"
        raise InputError(f"skeleton '{skeleton.name}' has no known {', '.join(missing)}", fix)
    p = skeleton.rest_positions()
    bones = [p[roles[f"{s}_{b}"]] - p[roles[f"{s}_{a}"]] for s in SIDES for a, b in (_LEG[:2], _LEG[1:])]
    length = 0.5 * float(sum(np.linalg.norm(bone) for bone in bones))
    if length < 1e-6:
        raise InputError(f"the legs of skeleton '{skeleton.name}' have no length", "Check the unit of the file")
    return length


def _sole_depth(skeleton: Skeleton, roles: RoleMap) -> float:
    """Mean height of the ankles above the soles [m], standing."""
    pose = t_pose(skeleton, roles)
    positions, points = pose.joint_positions(), contact_points(skeleton, roles)
    at = points.positions(positions, pose.joint_rotations())
    return float(np.mean([positions[roles[f"{s}_ankle"], 1] - at[points.index(f"{s}_heel"), 1] for s in SIDES]))
