"""Put a motion on another body: posture first, then feet on the ground, hands where they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray, MareyError, UnknownNameError, split_blocks
from marey.contacts import ensure_contacts
from marey.contacts.ankles import mend_ankles
from marey.contacts.body import SIDES, UP, BodyPosture, mean_leg_length, require_legs
from marey.contacts.floor import FloorPlane
from marey.contacts.legs import PlantedFeet
from marey.contacts.plants import FLAT, HEEL, RETARGET_HOLD, TOES, HoldSettings, find_foot_modes
from marey.kinematics.limits.contract import JointLimits
from marey.kinematics.retargeting.hands import HANDS, hold_hands
from marey.kinematics.retargeting.report import RetargetReport, measure_result
from marey.kinematics.retargeting.target import (
    HasSkeleton,
    RetargetTarget,
    foot_heading,
    measure_turns,
    pose_target,
)
from marey.lie import SO3
from marey.motion import Contacts, Motion, assess_motion
from marey.skeleton import (
    HUMAN,
    RoleMap,
    Skeleton,
    contact_points,
    find_lost_bones,
    foot_points,
    known_thorax,
    require_human,
    restore_bones,
    restored_roles,
    t_pose,
    thorax_from,
)

BLOCK_FRAMES: Final = 1024
MAX_ASF_FILES: Final = 8  # original skeletons looked at beside a BVH file
MIN_ROLL_RAD: Final = np.radians(0.3)  # [rad] less is not seen


@dataclass(frozen=True, slots=True, eq=False)
class RetargetResult:
    """A motion on its new body, and what it took."""

    motion: Motion
    report: RetargetReport


def retarget(
    motion: Motion,
    target: Skeleton | HasSkeleton | RetargetTarget = HUMAN,
    *,
    contacts: bool = True,
    pin: Sequence[str] = (),
    hands: str = "directions",
    roles: RoleMap | None = None,
    target_roles: RoleMap | None = None,
) -> Motion:
    """Put a motion on another skeleton or character; see :func:`solve_retarget` for all that it does and takes.

    Returns:
        A motion with the frames and rate of the source; ``load_report.notes`` tells what was done to it.

    Raises:
        InputError: one of the skeletons is no human, or has no known legs.
    """
    return solve_retarget(
        motion, target, contacts=contacts, pin=pin, hands=hands, roles=roles, target_roles=target_roles
    ).motion


def solve_retarget(
    motion: Motion,
    target: Skeleton | HasSkeleton | RetargetTarget = HUMAN,
    *,
    contacts: bool = True,
    pin: Sequence[str] = (),
    hands: str = "directions",
    roles: RoleMap | None = None,
    target_roles: RoleMap | None = None,
    limits: JointLimits | None = None,
    settings: HoldSettings = RETARGET_HOLD,
) -> RetargetResult:
    r"""Put a motion on another body so that it stays the same person's.

    Limbs point where they pointed (:func:`~marey.kinematics.retargeting.target.measure_turns`), so angles of elbows
    and knees and the swing of arms are the source's. The middle of the hips goes along the scaled path,

    .. math:: p' = s\,p + (0,\ h' - s\,h,\ 0), \qquad s = \text{ratio of the legs},\quad h = \text{ankle over the sole}

    With ``contacts``, the floor of the clip (a plane fitted to its plants) becomes ``y = 0``, and while a heel or toe
    is in contact it stays still on it: the foot turns about heel, ball and toe end, corrections fade over the swings
    in one banded solve for the whole clip, the pelvis rises and sinks with the standing leg so that knees stay as
    straight as they were, and is lowered where a leg is too short for its plant. The contact track is carried over
    whole.

    Args:
        motion: any clip of a human whose legs have known roles.
        target: a skeleton, whatever has a ``skeleton`` (a rigged character), or a :class:`RetargetTarget`.
        contacts: plant the feet, and hands that carry the body; contacts are detected where the clip has none. Without
            it the result is the posture alone.
        pin: hands (``"left_hand"``, ``"right_hand"``) that stay where the scaled source has them in all frames: a prop.
        hands: ``"directions"``; ``"positions"`` pins both; ``"touch"`` keeps a hand that is close to hips, knees,
            head or the other hand there.
        roles: canonical roles of the joints of ``motion``; default :func:`marey.skeleton.role_map`.
        target_roles: likewise for ``target``.
        limits: of the target's joints, met before the feet are planted.
        settings: how feet are planted.

    Returns:
        The motion, and a report of what was scaled, restored, how the feet stand and which plants could not be held;
        the last are a warning of ``motion.load_report`` too.

    Raises:
        InputError: one of the skeletons is no human, or has no known legs; an option has no such value.
    """
    if hands not in ("directions", "positions", "touch"):
        raise InputError(f"hands={hands!r}", "Give 'directions', 'positions' or 'touch'")
    for name in pin:
        if name not in HANDS:
            raise UnknownNameError("pin", name, "retarget", HANDS)
    if roles is None:
        # A few frames tell the posture where the rest pose does not
        assess_motion(motion)
        require_human(motion.skeleton, "retargeting")
    motion, restored = _restore_source(motion)
    roles = restored_roles(motion.skeleton) if roles is None else roles
    require_legs(motion.skeleton, roles)
    motion, mended = mend_ankles(motion, roles)
    repairs = tuple(note for note in (restored, mended) if note)
    body = RetargetTarget.build(target, roles=target_roles, limits=limits)
    skeleton = body.skeleton
    if contacts:
        motion = ensure_contacts(motion)
    # The target in the posture of the source, its hips where the scaled hips are
    scale = mean_leg_length(skeleton, body.roles) / mean_leg_length(motion.skeleton, roles)
    lift_m = _sole_depth(skeleton, body.roles) - scale * _sole_depth(motion.skeleton, roles)
    hips = [roles[f"{side}_hip"] for side in SIDES]
    middles = motion.map_frames(lambda positions, _: (scale * positions[:, hips] + lift_m * UP).mean(axis=1))
    stand = _pose_body(body, motion, roles, middles)
    # Feet: on the floor, still while in contact, the pelvis with them
    modes: dict[str, IntArray] = {}
    floor = FloorPlane(0.0, np.zeros(2))
    if contacts:
        assert motion.contacts is not None
        modes = find_foot_modes(motion.contacts, round(settings.flicker_s * motion.rate_hz))
        feet = PlantedFeet.measure(stand, modes, motion.rate_hz, settings)
        level = feet.level_floor()
        # Legs of unequal length tilt the source's pelvis, and would bend one knee of the target
        roll = level.pelvis_roll()
        if abs(roll) > MIN_ROLL_RAD and "pelvis" in roles:
            del feet, level, stand  # a long clip is large
            stand = _pose_body(body, motion, roles, middles, roll)
            feet = PlantedFeet.measure(stand, modes, motion.rate_hz, settings)
            level = feet.level_floor()
        floor = feet.floor
        wxyz = stand.wxyz
        del feet, stand
        roots, plans = level.plant(wxyz)
        modes = {side: plan.modes for side, plan in plans.items()}
        del level, plans
    else:
        wxyz, roots = stand.wxyz, stand.roots
        del stand
    # Hands: where they carry, where asked
    track = motion.contacts if contacts else None
    carry = track is not None and any(name in HANDS and track.track(name).any() for name in track.names)
    if carry or pin or hands != "directions":
        source = scale * motion.joint_positions() + lift_m * UP
        source = source - floor.under(source)[..., None] * UP if contacts else source
        wxyz = hold_hands(
            motion,
            roles,
            body,
            wxyz,
            roots,
            source,
            pin=pin,
            hands=hands,
            use_contacts=contacts,
            settings=settings,
        )
    wxyz.setflags(write=False)  # ours, so that a long clip is not copied
    moved = Motion(
        skeleton,
        motion.rate_hz,
        roots,
        SO3(wxyz),
        contacts=_carry_contacts(motion.contacts, modes, skeleton, body.roles),
        name=motion.name,
    )
    report = measure_result(
        moved,
        body,
        motion.contacts if contacts else None,
        source=motion.skeleton.name,
        scale=scale,
        lift_m=lift_m,
        repairs=repairs,
        floor=floor,
    )
    told = motion.load_report.adding(*report.warnings(), notes=report.sentences())
    return RetargetResult(replace(moved, load_report=told), report)


def _restore_source(motion: Motion) -> tuple[Motion, str]:
    """Put back bones that a conversion lost: from the ASF file beside the clip, a known person, or anthropometry."""
    lost = find_lost_bones(motion.skeleton)
    if not lost or motion.translations is not None:
        return motion, ""
    thorax, told = None, "from the bone below it and half the forearm"
    folder = Path(motion.source.path).parent if motion.source is not None and motion.source.path else None
    for file in sorted(folder.glob("*.asf"))[:MAX_ASF_FILES] if folder is not None and folder.is_dir() else ():
        from marey.io import load  # the readers are needed by few clips

        try:
            thorax = thorax_from(load(file).skeleton, motion.skeleton)
        except (MareyError, OSError):
            continue
        if thorax is not None:
            told = f"from {file.name}"
            break
    if thorax is None:
        thorax = known_thorax(motion.skeleton)
        told = told if thorax is None else "from the original skeleton of this person"
    skeleton = restore_bones(motion.skeleton, thorax=thorax)
    return replace(motion, skeleton=skeleton, source=None), f"thorax and wrists put back {told}"


def _pose_body(
    body: RetargetTarget, motion: Motion, roles: RoleMap, middles: FloatArray, roll: float = 0.0
) -> BodyPosture:
    """The target in the posture of a clip, the middle of its hips at ``(F, 3)`` [m], within its limits if it has some.

    The pelvis is rolled by ``roll`` [rad] more than the source's.
    """
    headings = {side: foot_heading(motion.skeleton, roles, side) for side in SIDES}
    wxyz = np.empty((len(motion), body.skeleton.num_joints, 4))
    # In blocks of frames, but where bones change their length: which of them have a direction is asked of all frames
    for part in split_blocks(len(motion), BLOCK_FRAMES if motion.translations is None else len(motion)):
        turns = measure_turns(motion[part], roles)
        if roll:
            turns["pelvis"] = turns["pelvis"] @ SO3.exp([0.0, 0.0, roll])
        wxyz[part] = pose_target(turns, body.skeleton, body.roles, headings, part.stop - part.start)
    if body.limits is not None:
        wxyz = body.limits.project_rotations(SO3(wxyz)).wxyz.copy()
    return BodyPosture.measure(body.skeleton, body.roles, body.sole, wxyz, middles=middles)


def _carry_contacts(
    track: Contacts | None, modes: Mapping[str, IntArray], skeleton: Skeleton, roles: RoleMap
) -> Contacts | None:
    """The contact track, feet as they were planted, without points that the target lacks."""
    if track is None:
        return None
    active = track.active.copy()
    for side, mode in modes.items():
        for point, wanted in ((f"{side}_heel", (HEEL, FLAT)), (f"{side}_toe", (TOES, FLAT))):
            if point in track.names:
                active[:, track.names.index(point)] = np.isin(mode, wanted)
    known = contact_points(skeleton, roles).names
    names = tuple(name for name in track.names if name in known)
    return Contacts(names, active[:, [track.names.index(name) for name in names]])


def _sole_depth(skeleton: Skeleton, roles: RoleMap) -> float:
    """Mean height of the ankles above the soles [m], standing."""
    pose = t_pose(skeleton, roles)
    positions, points = pose.joint_positions(), foot_points(skeleton, roles)
    at = points.positions(positions, pose.joint_rotations())
    return float(np.mean([positions[roles[f"{s}_ankle"], 1] - at[points.index(f"{s}_heel"), 1] for s in SIDES]))
