"""A skeleton of the user's own in the engine: its proportions walk, and its joints turn as those of the model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.lie import SO3
from marey.locomotion.model.locomotion_model import LocomotionModel
from marey.locomotion.plants.state import FEET, LegArrays, make_leg_arrays
from marey.skeleton import NO_PARENT, Pose, Skeleton, foot_points, require_human, restored_roles, t_pose

LEG_PARTS = ("hip", "knee", "ankle")


@dataclass(frozen=True, slots=True, eq=False)
class OwnBody:
    r"""A skeleton that is moved by the model's 22 joints.

    The model gets the bones of the skeleton in its calibration pose, so that strides, plants and reach are those of
    this body. Turns :math:`D_j = R_j\,\bar R_j^{-1}` of its joints from that pose go to the joints of the same role,

    .. math:: R'_i = D_{r(i)}\,\bar R'_i,

    and what has no role goes with the joint above: both bodies have their joints at the same places.
    """

    skeleton: Skeleton
    leg_length_m: float  # hip to floor, standing
    model: LocomotionModel  # its skeleton has these proportions, at the model's own leg length
    legs: LegArrays  # likewise, with the soles of the skeleton
    drivers: IntArray  # (J,) joint of the model that turns each joint
    R_rest: SO3  # (J,) of the skeleton in the calibration pose
    R_model_rest: SO3  # (22,) of the model in its own
    p_root: FloatArray  # (3,) [m] root of the skeleton from that of the model, in the calibration pose

    @classmethod
    def from_skeleton(cls, skeleton: Skeleton, model: LocomotionModel) -> OwnBody:
        """Measure a skeleton.

        Raises:
            InputError: it is no human, or a leg lacks a joint or has no length.
        """
        require_human(skeleton, "walking")
        roles = restored_roles(skeleton)
        missing = [f"{s}_{part}" for s in FEET for part in LEG_PARTS if f"{s}_{part}" not in roles]
        if missing:
            raise InputError(f"skeleton '{skeleton.name}' has no known {', '.join(missing)}", "It needs two whole legs")
        pose, sole = t_pose(skeleton, roles), foot_points(skeleton, roles)
        p, R = pose.joint_positions(), pose.joint_rotations()
        points = sole.positions(p, R)
        own, own_pose = model.skeleton, t_pose(model.skeleton)
        p_own, R_own = own_pose.joint_positions(), own_pose.joint_rotations()
        # Hip to floor, where the balls of the feet stand, beside that of the model
        floor = np.array([points[sole.index(f"{s}_ball")][1] for s in FEET])
        high = float(np.mean([p[roles[f"{s}_hip"]][1] for s in FEET] - floor))
        own_high = float(make_leg_arrays(own).reach.mean())
        if high < 1e-3:
            raise InputError(
                f"the legs of skeleton '{skeleton.name}' are {high:g} m long", "Check the unit of the file"
            )
        scale = high / own_high
        # Joints of the model at the places of this body; the root as far from the hips as the model's
        hips, own_hips = (
            np.mean([at[index(f"{s}_hip")] for s in FEET], axis=0)
            for at, index in ((p, roles.__getitem__), (p_own, own.index))
        )
        places = np.empty_like(p_own)
        offsets = own.offsets.copy()
        for j, name in enumerate(own.names):
            parent = int(own.parents[j])
            if parent == NO_PARENT:
                places[j] = hips - scale * (own_hips - p_own[j])
                continue
            side = name.split("_")[0]
            if name in roles:
                places[j] = p[roles[name]]
            elif name.endswith("_foot"):
                # A foot without a joint of the toes turns about their end
                places[j] = points[sole.index(f"{side}_toe_end")]
            else:
                places[j] = places[parent] + scale * (p_own[j] - p_own[parent])
            offsets[j] = R_own[parent].inverse() @ ((places[j] - places[parent]) / scale)
        body = Skeleton(own.names, own.parents, offsets, own.tips, own.limits, skeleton.name)
        # Soles of the skeleton in the frames of the model's ankles and balls
        legs, soles = make_leg_arrays(body), dict[str, list[FloatArray]](heel=[], tip=[])
        rest = np.empty((2, 2))
        for k, s in enumerate(FEET):
            ankle, ball = own.index(f"{s}_ankle"), own.index(f"{s}_foot")
            heel, tip = points[sole.index(f"{s}_heel")], points[sole.index(f"{s}_toe_end")]
            soles["heel"].append(R_own[ankle].inverse() @ ((heel - places[ankle]) / scale))
            soles["tip"].append(R_own[ball].inverse() @ ((tip - places[ball]) / scale))
            rest[k] = (places[[ankle, ball], 1] - floor[k]) / scale
        bones = legs.reach - legs.rest[[0, 2]]
        legs = legs._replace(
            heel=np.array(soles["heel"]),
            tip=np.array(soles["tip"]),
            rest=rest.reshape(4),
            reach=bones + rest[:, 0],
        )
        # Every joint is driven by its own role, or by that of the nearest joint above; the root by the pelvis
        by_joint = {joint: own.index(role) for role, joint in roles.joints.items()}
        drivers = np.zeros(skeleton.num_joints, dtype=np.int64)
        for i in range(skeleton.num_joints):
            parent = int(skeleton.parents[i])
            drivers[i] = by_joint.get(i, 0 if parent == NO_PARENT else int(drivers[parent]))
        return cls(
            skeleton,
            scale * model.leg_length_m,
            replace(model, skeleton=body),
            legs,
            drivers,
            R,
            R_own,
            p[0] - places[0],
        )

    def pose(self, skeleton: Skeleton, root: FloatArray, rotations: FloatArray, leg_length_m: float) -> Pose:
        """Return the pose of the skeleton in its size for one of the model's body.

        Args:
            skeleton: this body's own with legs of that length.
            root: ``(3,)`` [m] of the model's body.
            rotations: ``(22, 4)`` its local rotations.
            leg_length_m: hip to floor.
        """
        size = leg_length_m / self.leg_length_m
        turns = Pose(self.model.skeleton, root, SO3(rotations)).joint_rotations() @ self.R_model_rest.inverse()
        R_world = turns[self.drivers] @ self.R_rest
        above = np.maximum(self.skeleton.parents, 0)
        local = (R_world[above].inverse() @ R_world).wxyz.copy()
        local[0] = R_world.wxyz[0]
        return Pose(skeleton, root + size * (turns[0] @ self.p_root), SO3(local))
