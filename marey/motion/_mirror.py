"""Mirroring: the same motion with left and right exchanged."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from marey.base import IntArray
from marey.lie import SO3
from marey.motion._motion import Contacts, Motion
from marey.skeleton import NO_PARENT, RoleMap, Skeleton, role_map, t_pose

MIRROR = np.array([-1.0, 1.0, 1.0])  # S = diag(-1, 1, 1): left is +X
FLIP = np.array([1.0, 1.0, -1.0, -1.0])  # of a quaternion: S R S
_SIDE = re.compile(r"left|right", re.IGNORECASE)
_INITIAL = re.compile(r"^[lLrR](?=[A-Z_.\-])|(?<=[_.\-:])[lLrR](?=$|[A-Z_.\-])")
_PAIRS = (("left", "right"), ("Left", "Right"), ("LEFT", "RIGHT"), ("l", "r"), ("L", "R"))
_OTHER = dict(_PAIRS) | {right: left for left, right in _PAIRS}


def mirror(motion: Motion, roles: RoleMap | None = None) -> Motion:
    r"""Reflect a clip in the world's plane x = 0 and exchange left and right.

    With :math:`S = \mathrm{diag}(-1,1,1)`, :math:`j^*` the joint opposite to :math:`j` and :math:`W_j` its world
    rotation in the T-pose of :func:`marey.skeleton.t_pose`, world rotations become

    .. math:: G'_j = S\,G_{j^*} S\,C_j, \qquad C_j = S\,W_{j^*}^{-1} S\,W_j

    so what is turned away from the T-pose on one side is turned the other way on the other side. :math:`C_j` is the
    identity where the rest pose is symmetric; it is what makes skeletons work whose two arms both point along +X at
    rest, or whose two legs were measured a little different. Mirroring twice gives the clip back.

    Joints are paired by role, then by name (``LeftArm``, ``l_arm``, ``arm.L``), then by place in the tree; the rest
    stay on their own side, and a note in the load report names them. Contacts change sides too.

    Args:
        motion: any clip.
        roles: which joint is which; guessed from the skeleton by default.
    """
    skeleton = motion.skeleton
    roles = role_map(skeleton) if roles is None else roles
    opposite, alone = opposite_joints(skeleton, roles)
    turns = _rest_rotations(skeleton, roles, opposite)
    own = SO3(motion.rotations.wxyz[:, opposite] * FLIP)
    parents = np.where(skeleton.parents == NO_PARENT, 0, skeleton.parents)
    above = SO3(np.where((skeleton.parents == NO_PARENT)[:, None], SO3.identity(1).wxyz, turns.wxyz[parents]))
    moving = motion.translations
    notes = (f"mirror: no opposite joint for {', '.join(alone)}; kept on their side",) if alone else ()
    return replace(
        motion,
        root_positions=motion.root_positions * MIRROR,
        rotations=above.inverse() @ own @ turns,
        contacts=None if motion.contacts is None else _mirror_contacts(motion.contacts),
        translations=None if moving is None else above.inverse() @ (moving[:, opposite] * MIRROR),
        source=None if motion.source is None else replace(motion.source, channels=None, dropped=None),
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
            other = _find_opposite(skeleton, joint, opposite)
            opposite[joint], opposite[other] = other, joint
            if other == joint and other_side(name) != name:
                alone.append(name)
    return opposite, tuple(alone)


def other_side(name: str) -> str:
    """Name with its first left or right exchanged: ``left_heel``, ``RightArm``, ``lThigh``, ``hand.L``."""
    if _SIDE.search(name):
        return _SIDE.sub(lambda found: _OTHER.get(found[0], found[0]), name, count=1)
    return _INITIAL.sub(lambda found: _OTHER[found[0]], name, count=1)


def _counterpart(skeleton: Skeleton, name: str) -> str:
    """As :func:`other_side`; an initial l or r counts too where the other name exists: ``lfingers``, ``rfingers``."""
    guess = _OTHER.get(name[:1], name[:1]) + name[1:]
    return guess if other_side(name) == name and guess in skeleton.names else other_side(name)


def _find_opposite(skeleton: Skeleton, joint: int, opposite: IntArray) -> int:
    name = _counterpart(skeleton, skeleton.names[joint])
    if name != skeleton.names[joint]:
        found = skeleton.names.index(name) if name in skeleton.names else joint
        return found if opposite[found] < 0 else joint
    parent = int(skeleton.parents[joint])
    if parent == NO_PARENT or opposite[parent] == parent:
        return joint  # on the midline
    free = [int(c) for c in skeleton.children(int(opposite[parent])) if opposite[c] < 0]
    apart = [float(np.linalg.norm(skeleton.offsets[c] * MIRROR - skeleton.offsets[joint])) for c in free]
    return free[int(np.argmin(apart))] if free else joint


def _rest_rotations(skeleton: Skeleton, roles: RoleMap, opposite: IntArray) -> SO3:
    """C_j of :func:`mirror`, batch ``(J,)``; the root's parent, the world, has none."""
    W = t_pose(skeleton, roles).joint_rotations()
    return SO3(W[opposite].inverse().wxyz * FLIP) @ W


def _mirror_contacts(contacts: Contacts) -> Contacts:
    names = tuple(other_side(name) for name in contacts.names)
    if set(names) != set(contacts.names):
        return Contacts(names, contacts.active)
    return Contacts(contacts.names, contacts.active[:, [names.index(name) for name in contacts.names]])
