"""Which coordinates of a body a repair moves: those that carry weight, the spine and the neck as one each."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.dynamics import JointTree
from marey.skeleton import Skeleton, role_map

MIN_MASS_FRACTION: Final = 0.01  # [-] of the body: what weighs less (hands, fingers, toes) keeps its angles
FIXED_JOINTS: Final = ("left_collar", "right_collar")
HINGE_JOINTS: Final = ("left_knee", "right_knee", "left_elbow", "right_elbow")  # they bend, but do not twist


def build_coordinate_map(tree: JointTree) -> FloatArray:
    """Matrix ``S (D, d)`` of the displacement ``S d``: one column for each turn that a repair may change.

    Joints of the spine turn by equal amounts, so do those of neck and head. Hands, fingers, toes and collars stay.
    """
    skeleton = tree.skeleton
    roles = role_map(skeleton)
    fused = _find_chain(skeleton)
    held = {skeleton.names[roles.joints[role]] for role in FIXED_JOINTS if role in roles.joints}
    hinges = {skeleton.names[roles.joints[role]] for role in HINGE_JOINTS if role in roles.joints}
    columns: dict[str, list[int]] = {}
    for i, name in enumerate(tree.names):
        group = tree.groups[i]
        twists = group in hinges and name != group and not name.endswith("_rx")
        if tree.far_mass(i) < MIN_MASS_FRACTION * tree.mass or group in held or twists:
            continue
        turn = name.rsplit("_", 1)[-1]
        columns.setdefault(f"{fused[group]}_{turn}" if group in fused else name, []).append(i)
    S = np.zeros((tree.num_dofs, len(columns)))
    for j, members in enumerate(columns.values()):
        S[members, j] = 1.0
    return S


def _find_chain(skeleton: Skeleton) -> dict[str, str]:
    """Name of the chain to which joints of spine and neck belong."""
    joints = role_map(skeleton).joints
    found: dict[str, str] = {}
    for chain, top, bottom in (("spine", "spine3", "spine1"), ("neck", "head", "neck")):
        if top in joints and bottom in joints:
            j = joints[top]
            while j > joints[bottom]:
                found[skeleton.names[j]] = chain
                j = int(skeleton.parents[j])
            found[skeleton.names[joints[bottom]]] = chain
    return found
