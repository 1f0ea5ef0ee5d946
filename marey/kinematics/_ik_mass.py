"""Points whose weighted sum is the centre of mass, for the compiled solvers."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.motion import mass_weights
from marey.skeleton import Skeleton, role_map

_TIPS: Final = {"crown": "head", "left_fingertip": "left_wrist", "right_fingertip": "right_wrist"}


def list_mass_points(skeleton: Skeleton) -> tuple[list[int], FloatArray, FloatArray]:
    """Joints ``(P,)``, points in their frames ``(P, 3)`` [m] and weights ``(P,)``, as in ``centre_of_mass``."""
    roles = role_map(skeleton)
    known = {name: (joint, np.zeros(3)) for name, joint in roles.joints.items()}
    for name, role in _TIPS.items():
        joint = roles.get(role)
        if joint is not None and (np.linalg.norm(skeleton.tips[joint]) > 1e-6 or name == "crown"):
            known[name] = (joint, skeleton.tips[joint])
    weights = mass_weights(frozenset(known))
    if not weights:
        joints = list(range(skeleton.num_joints))
        return joints, np.zeros((len(joints), 3)), np.full(len(joints), 1.0 / len(joints))
    joints = [known[name][0] for name in weights]
    return joints, np.array([known[name][1] for name in weights]).reshape(-1, 3), np.array(list(weights.values()))
