"""Strength: the largest forces of actuators, from the torques that joints can bear."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.control._problem import ROOT_SIZE
from marey.dynamics import Body
from marey.simulate import Simulator
from marey.skeleton import NO_PARENT, role_map

TABLE_MASS_KG: Final = 45.0  # of the figure of the table; torques grow with mass
TORQUES_NM: Final = {  # the figure of [Peng2018]_; wrists, collars and balls of the feet are ours
    "hip": 200.0,
    "knee": 150.0,
    "ankle": 90.0,
    "foot": 30.0,
    "spine1": 200.0,
    "spine2": 200.0,
    "spine3": 200.0,
    "neck": 50.0,
    "head": 50.0,
    "collar": 100.0,
    "shoulder": 100.0,
    "elbow": 60.0,
    "wrist": 15.0,
}
NAMELESS: Final = 0.5  # [-] a joint without a part in the body has this share of the one above it


def joint_strength(body: Body) -> FloatArray:
    """Largest torque ``(J,)`` [N m] of each joint; zero for the root."""
    skeleton, scale = body.skeleton, body.mass_kg / TABLE_MASS_KG
    names = {number: role for role, number in role_map(skeleton).joints.items()}
    torques = np.zeros(skeleton.num_joints)
    for j in range(1, skeleton.num_joints):
        part = names.get(j, "").removeprefix("left_").removeprefix("right_")
        above = int(skeleton.parents[j])
        if part in TORQUES_NM:
            torques[j] = scale * TORQUES_NM[part]
        elif above in (NO_PARENT, 0):  # next to the root: the bones of the hips and the lowest of the back
            torques[j] = scale * TORQUES_NM["hip"]
        else:
            torques[j] = NAMELESS * torques[above]
    return torques


def actuator_strength(simulator: Simulator) -> FloatArray:
    r"""Largest generalised force ``(k,)`` [N m] of each actuator: :math:`\sum_i \|v_{j,i}\|\,\tau_i` over the joints i.

    A mode j that turns the joint i by :math:`v_{j,i}` per unit can use the torque of all of them. The thesis raises its
    bounds until the figure stands ([Tournier2011]_ §14.2); these are ours.
    """
    turns = simulator.mechanics().turns  # (J, 3, k)
    return np.linalg.norm(turns, axis=1).T @ joint_strength(simulator.body)


def check_strength(simulator: Simulator, strongest: ArrayLike | None) -> FloatArray:
    """Largest generalised force ``(k,)`` [N m] of each actuator: as given, for each or for all, or by the joints.

    Raises:
        InputError: there is no actuator, or a bound is negative, not finite or one too many.
    """
    count = simulator.num_dof - ROOT_SIZE
    if count < 1:
        raise InputError("the figure has no actuator", "Give it a model with modes, or none for the full space")
    if strongest is None:
        return frozen(actuator_strength(simulator), count, name="strongest")
    given = frozen(strongest, name="strongest")
    if given.shape not in ((), (count,)):
        raise InputError(f"strongest has shape {given.shape}", f"Give one bound, or one for each of {count} actuators")
    if (given < 0.0).any():
        raise InputError("an actuator has a negative bound", "Give forces that are not negative")
    return frozen(np.broadcast_to(given, count), count, name="strongest")
