"""The ground's forces, put on the feet that touch it, so that the torques of the legs are true."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from marey.base import FloatArray
from marey.dynamics._inverse import InverseDynamics, solve_newton_euler
from marey.dynamics._split import split_support
from marey.dynamics._supports import find_supports
from marey.motion import Contacts
from marey.skeleton import role_map


def apply_ground_reaction(result: InverseDynamics, contacts: Contacts) -> InverseDynamics:
    """Return the same forces with the torques of a body that stands on its feet rather than hangs by its root.

    Two feet share the wrench by the ``"alpha"`` rule of ``split_support``. Where no foot touches, what the motion needs
    stays on the root.

    Args:
        result: from ``inverse_dynamics``, without external forces.
        contacts: which points of the feet touch the ground.
    """
    push = compute_ground_reaction(result, contacts)
    loaded = solve_newton_euler(result.body, result.states, result.rate_hz, external=push, gravity=result.gravity)
    return replace(result, torques=loaded.torques)


def compute_ground_reaction(result: InverseDynamics, contacts: Contacts) -> FloatArray:
    """Force [N] and moment about the world origin [N m] of the ground on each joint's piece, ``(F, J, 6)``."""
    motion = result.motion()
    supports = find_supports(motion, contacts)
    split = split_support(result.wrench, supports)
    moments = np.cross(split.places, split.forces) + split.moments
    push = np.zeros((result.num_frames, motion.skeleton.num_joints, 6))
    roles = role_map(motion.skeleton)
    for limb, ankle in enumerate(("left_ankle", "right_ankle")):
        push[:, roles[ankle], :3] = split.forces[:, limb]
        push[:, roles[ankle], 3:] = moments[:, limb]
    return push
