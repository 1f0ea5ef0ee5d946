"""Concatenation, cross-fades and mirroring of clips."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.lie import SO3
from marey.motion.clip import Contacts, Motion
from marey.motion.layers import mix_motions
from marey.motion.placement import headings, pelvis_positions, place
from marey.skeleton import NO_PARENT, RoleMap, Skeleton, role_map, t_pose, tree_difference

SAME_OFFSET_M = 1e-6  # [m] skeletons whose offsets differ by less are equal; file round trips stay below


def concatenate(motions: Sequence[Motion], *, align: bool = False) -> Motion:
    """Join clips of one skeleton and one rate, end to end.

    Args:
        motions: at least one.
        align: place each clip so that it continues the previous one: its first root is one step at the last velocity
            ahead of the last root, with the same heading. Heights are kept.

    Raises:
        InputError: nothing was given, or a clip has another skeleton or rate; the message says what differs.
    """
    if not motions:
        raise InputError("no motion to join", "Give at least one")
    parts = [motions[0]]
    for number, motion in enumerate(motions[1:], start=1):
        first = motions[0]
        where = f"clip {number} ('{motion.name}')"
        if motion.rate_hz != first.rate_hz:
            fix = "Resample it first: marey.motion.resample(motion, rate_hz)"
            raise InputError(f"{where} runs at {motion.rate_hz:g} Hz, the first at {first.rate_hz:g} Hz", fix)
        difference = skeleton_difference(first.skeleton, motion.skeleton)
        if difference:
            raise InputError(f"{where} has another skeleton than the first: {difference}", "Retarget it first")
        if align:
            before = parts[-1]
            step = before.root_positions[-1] - before.root_positions[max(before.num_frames - 2, 0)]
            x, _, z = before.root_positions[-1] + step
            motion = place(motion, (x, z), float(headings(before)[-1]))
        parts.append(motion)
    # If one clip has moving offsets, the result has them for all frames
    moving: list[FloatArray] = []
    if any(part.translations is not None for part in parts):
        for part in parts:
            fixed = np.broadcast_to(part.skeleton.offsets, (part.num_frames, *part.skeleton.offsets.shape))
            moving.append(fixed if part.translations is None else part.translations)
    # Contacts are kept if all clips have the same points
    names = parts[0].contacts.names if parts[0].contacts else ()
    tracks = [part.contacts.active for part in parts if part.contacts is not None and part.contacts.names == names]
    return replace(
        parts[0],
        root_positions=np.concatenate([part.root_positions for part in parts]),
        rotations=SO3.concatenate([part.rotations for part in parts]),
        contacts=Contacts(names, np.concatenate(tracks)) if names and len(tracks) == len(parts) else None,
        translations=np.concatenate(moving) if moving else None,
        source=parts[0].edited_source(),
    )


def skeleton_difference(a: Skeleton, b: Skeleton) -> str | None:
    """Describe the first difference between two skeletons, or return ``None``."""
    difference = tree_difference(a, b)
    if difference:
        return difference
    apart = np.linalg.norm(a.offsets[1:] - b.offsets[1:], axis=1)
    if apart.size and apart.max() > SAME_OFFSET_M:
        worst = 1 + int(np.argmax(apart))
        return f"the offset of '{a.names[worst]}' differs by {1e3 * apart.max():.3g} mm"
    return None


MIRROR = np.array([-1.0, 1.0, 1.0])  # S = diag(-1, 1, 1): left is +X
FLIP = np.array([1.0, 1.0, -1.0, -1.0])  # of a quaternion: S R S
_SIDE = re.compile(r"left|right", re.IGNORECASE)
_INITIAL = re.compile(r"^[lLrR](?=[A-Z_.\-])|(?<=[_.\-:])[lLrR](?=$|[A-Z_.\-])")
_PAIRS = (("left", "right"), ("Left", "Right"), ("LEFT", "RIGHT"), ("l", "r"), ("L", "R"))
_OTHER = dict(_PAIRS) | {right: left for left, right in _PAIRS}


def mirror(motion: Motion, roles: RoleMap | None = None) -> Motion:
    r"""Reflect a clip in the world's plane x = 0 and swap left and right.

    With :math:`S = \mathrm{diag}(-1,1,1)`, :math:`j^*` the joint opposite to :math:`j` and :math:`W_j` its world
    rotation in the T-pose of :func:`marey.skeleton.t_pose`, world rotations become

    .. math:: G'_j = S\,G_{j^*} S\,C_j, \qquad C_j = S\,W_{j^*}^{-1} S\,W_j

    so a rotation away from the T-pose on one side becomes the mirrored rotation on the other. :math:`C_j` is the
    identity for a symmetric rest pose; it covers skeletons whose arms both point along +X at rest, or whose legs were
    measured slightly differently. Mirroring twice restores the clip.

    Joints are paired by role, then by name (``LeftArm``, ``l_arm``, ``arm.L``), then by position in the tree; the rest
    stay on their side, and a note in the load report names them. Contacts change sides too.

    Args:
        motion: any clip.
        roles: which joint is which; guessed from the skeleton by default.
    """
    skeleton = motion.skeleton
    roles = role_map(skeleton) if roles is None else roles
    opposite, alone = opposite_joints(skeleton, roles)
    # C_j, batch (J,); the root's parent, the world, has none
    W = t_pose(skeleton, roles).joint_rotations()
    corrections = SO3(W[opposite].inverse().wxyz * FLIP) @ W
    reflected = SO3(motion.rotations.wxyz[:, opposite] * FLIP)
    parents = np.where(skeleton.parents == NO_PARENT, 0, skeleton.parents)
    above = SO3(np.where((skeleton.parents == NO_PARENT)[:, None], SO3.identity(1).wxyz, corrections.wxyz[parents]))
    moving, contacts = motion.translations, motion.contacts
    if contacts is not None:
        # A point takes the flags of its opposite; if there is none, the point is renamed
        names = tuple(other_side(name) for name in contacts.names)
        if set(names) == set(contacts.names):
            contacts = Contacts(contacts.names, contacts.active[:, [names.index(name) for name in contacts.names]])
        else:
            contacts = Contacts(names, contacts.active)
    notes = (f"mirror: no opposite joint for {', '.join(alone)}; kept on their side",) if alone else ()
    return replace(
        motion,
        root_positions=motion.root_positions * MIRROR,
        rotations=above.inverse() @ reflected @ corrections,
        contacts=contacts,
        translations=None if moving is None else above.inverse() @ (moving[:, opposite] * MIRROR),
        source=motion.edited_source(),
        load_report=motion.load_report.adding(notes=notes) if notes else motion.load_report,
    )


def opposite_joints(skeleton: Skeleton, roles: RoleMap | None = None) -> tuple[IntArray, tuple[str, ...]]:
    """The joint opposite to each ``(J,)`` (itself on the midline), and the one-sided names that have none."""
    roles = role_map(skeleton) if roles is None else roles
    opposite = np.full(skeleton.num_joints, -1, dtype=np.int64)
    for role, joint in roles.joints.items():
        other = roles.get(other_side(role))
        if other is not None:
            opposite[joint], opposite[other] = other, joint
    alone: list[str] = []
    for joint, name in enumerate(skeleton.names):
        if opposite[joint] < 0:
            # An initial l or r counts too if the other name exists: lfingers, rfingers
            guess = _OTHER.get(name[:1], name[:1]) + name[1:]
            partner = guess if other_side(name) == name and guess in skeleton.names else other_side(name)
            if partner != name:
                found = skeleton.names.index(partner) if partner in skeleton.names else joint
                other = found if opposite[found] < 0 else joint
            else:
                parent = int(skeleton.parents[joint])
                if parent == NO_PARENT or opposite[parent] == parent:
                    # On the midline
                    other = joint
                else:
                    free = [int(c) for c in skeleton.children(int(opposite[parent])) if opposite[c] < 0]
                    mirrored = skeleton.offsets[joint]
                    apart = [float(np.linalg.norm(skeleton.offsets[c] * MIRROR - mirrored)) for c in free]
                    other = free[int(np.argmin(apart))] if free else joint
            opposite[joint], opposite[other] = other, joint
            if other == joint and other_side(name) != name:
                alone.append(name)
    return opposite, tuple(alone)


def other_side(name: str) -> str:
    """Return a name with its first left or right swapped: ``left_heel``, ``RightArm``, ``lThigh``, ``hand.L``."""
    if _SIDE.search(name):
        return _SIDE.sub(lambda found: _OTHER.get(found[0], found[0]), name, count=1)
    return _INITIAL.sub(lambda found: _OTHER[found[0]], name, count=1)


def join_motions(first: Motion, second: Motion, blend_s: float) -> Motion:
    """Cross-fade from one clip to another of the same joints and rate.

    Args:
        first: fades out over its last ``blend_s``.
        second: is placed to continue the first clip, with the same heading.
        blend_s: duration of the cross-fade [s]; 0 concatenates the clips.
    """
    overlap = min(round(blend_s * first.rate_hz), first.num_frames - 1, second.num_frames - 1)
    if overlap < 1:
        return concatenate([first, second], align=True)
    at = first.num_frames - overlap
    x, _, z = pelvis_positions(first)[at].tolist()
    second = place(second, (x, z), float(headings(first)[at]))
    u = np.arange(1, overlap + 1) / (overlap + 1)
    mixed = mix_motions(first[at:], second[:overlap], u * u * (3.0 - 2.0 * u))
    return concatenate([first[:at], mixed, second[overlap:]])
