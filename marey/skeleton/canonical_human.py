"""The canonical human: 22 joints in the order and with the names of SMPL, so that AMASS clips fit without loss.

Lengths are the author-independent body proportions of [Drillis1966]_ as tabulated in [Winter2009]_ fig. 4.1,
for a stature of 1.75 m; the pelvis, spine and collar joints, which the table does not give, are placed so that
hip, shoulder and head heights agree with it. The rest pose is a T: facing +Z, left hand along +X.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.skeleton.tree import NO_PARENT, Skeleton

HUMAN_STATURE_M: Final = 1.75

# name, parent, joint position in the T-pose as a fraction of stature: x left, y up, z forward
_JOINTS: Final = (
    ("pelvis", -1, (0.0, 0.550, 0.0)),
    ("left_hip", 0, (0.052, 0.530, 0.0)),
    ("right_hip", 0, (-0.052, 0.530, 0.0)),
    ("spine1", 0, (0.0, 0.610, -0.006)),
    ("left_knee", 1, (0.052, 0.285, 0.004)),
    ("right_knee", 2, (-0.052, 0.285, 0.004)),
    ("spine2", 3, (0.0, 0.680, -0.006)),
    ("left_ankle", 4, (0.052, 0.039, -0.010)),
    ("right_ankle", 5, (-0.052, 0.039, -0.010)),
    ("spine3", 6, (0.0, 0.720, -0.004)),
    ("left_foot", 7, (0.058, 0.010, 0.068)),
    ("right_foot", 8, (-0.058, 0.010, 0.068)),
    ("neck", 9, (0.0, 0.838, -0.010)),
    ("left_collar", 9, (0.040, 0.800, -0.006)),
    ("right_collar", 9, (-0.040, 0.800, -0.006)),
    ("head", 12, (0.0, 0.890, 0.008)),
    ("left_shoulder", 13, (0.115, 0.818, -0.010)),
    ("right_shoulder", 14, (-0.115, 0.818, -0.010)),
    ("left_elbow", 16, (0.301, 0.818, -0.010)),
    ("right_elbow", 17, (-0.301, 0.818, -0.010)),
    ("left_wrist", 18, (0.447, 0.818, -0.010)),
    ("right_wrist", 19, (-0.447, 0.818, -0.010)),
)
_TIPS: Final = {
    "left_foot": (0.003, -0.004, 0.040),
    "right_foot": (-0.003, -0.004, 0.040),
    "head": (0.0, 0.110, 0.0),
    "left_wrist": (0.105, 0.0, 0.0),
    "right_wrist": (-0.105, 0.0, 0.0),
}


def human(stature_m: float = HUMAN_STATURE_M) -> Skeleton:
    """Return the canonical human of a given stature [m]."""
    names = tuple(name for name, _, _ in _JOINTS)
    parents = np.array([parent for _, parent, _ in _JOINTS], dtype=np.int64)
    positions = np.array([position for _, _, position in _JOINTS]) * stature_m
    offsets = positions.copy()
    children = parents != NO_PARENT
    offsets[children] -= positions[parents[children]]
    tips = np.array([_TIPS.get(name, (0.0, 0.0, 0.0)) for name in names]) * stature_m
    return Skeleton(names, parents, offsets, tips, name="human")


HUMAN: Final = human()
