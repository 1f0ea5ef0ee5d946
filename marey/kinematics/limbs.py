"""Limbs that reach: feet that stay on their plants, arms that are helped by the shoulder girdle."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.kinematics.foot_plants import FloorPlane, PointPlant, compute_corrections, contact_depth_weights, plan_plants
from marey.kinematics.two_bone import Limb, has_bones, move_limb, saturation_start, set_end_rotation
from marey.lie import SO3
from marey.motion import Motion
from marey.numerics import smoothstep

GIRDLE_RAD: Final = np.radians(16.0)  # [rad] how far a collar bone turns to help: half of what people can
KEEP_RAD: Final = np.radians(45.0)  # [rad] the walks of the CMU database need 40: its arms lack two bones
LEAVE_RAD: Final = np.radians(80.0)
ONSET_M: Final = 0.004  # [m] how gradually it starts


def rotate_collar(motion: Motion, collar: int, limb: Limb, goals: FloatArray, stretch: FloatArray) -> Motion:
    """Turn a collar bone towards goals ``(F, 3)`` [m] that its arm is too short for, by no more than it needs."""
    positions, frames = motion.joint_frames()
    arm = np.linalg.norm(np.diff(positions[:, [limb.upper, limb.middle, limb.end]], axis=1), axis=-1).sum(axis=1)
    bone = positions[:, limb.upper] - positions[:, collar]
    gap = goals - positions[:, limb.upper]
    far, length = np.linalg.norm(gap, axis=-1), np.linalg.norm(bone, axis=-1)
    if length.min() < 1e-6 or far.min() < 1e-6:
        return motion
    # How much the arm is too short: from zero by a parabola that goes over into a straight line
    x: FloatArray = np.maximum(far - saturation_start(stretch) * arm, 0.0)
    short = np.where(x < ONSET_M, x * x / (2.0 * ONSET_M), x - 0.5 * ONSET_M)
    # The turn about the axis across bone and gap, saturated at what a girdle can do
    axis = np.cross(bone, gap) / (length * far)[:, None]
    lever = length * np.maximum(np.linalg.norm(axis, axis=-1), 0.2)  # along the bone no turn helps
    angle = GIRDLE_RAD * np.tanh(short / lever / GIRDLE_RAD)
    turn = SO3.exp(axis / np.maximum(np.linalg.norm(axis, axis=-1), 1e-9)[:, None] * angle[:, None])
    above = frames[:, int(motion.skeleton.parents[collar])]
    wxyz = motion.rotations.wxyz.copy()
    wxyz[:, collar] = (above.inverse() @ turn @ frames[:, collar]).wxyz
    return replace(motion, rotations=SO3(wxyz))


def limit_elbow_change(motion: Motion, limb: Limb, goals: FloatArray) -> FloatArray:
    """Goals ``(F, 3)`` [m] that ask no elbow to bend quite otherwise than it did.

    A hand that is kept in place by an arm of other length bends the elbow; up to ``KEEP_RAD`` we accept that, from
    ``LEAVE_RAD`` on the arm keeps its directions instead and the hand goes where they lead.
    """
    positions = motion.joint_positions()
    upper, middle, end = (positions[:, j] for j in (limb.upper, limb.middle, limb.end))
    a, b = np.linalg.norm(middle - upper, axis=-1), np.linalg.norm(end - middle, axis=-1)
    if min(a.min(), b.min()) < 1e-6:
        return goals
    change = np.abs(
        _inner_angle(a, b, np.linalg.norm(goals - upper, axis=-1))
        - _inner_angle(a, b, np.linalg.norm(end - upper, axis=-1))
    )
    share = smoothstep((change - KEEP_RAD) / (LEAVE_RAD - KEEP_RAD))[:, None]
    return goals + share * (end - goals)


def _inner_angle(a: FloatArray, b: FloatArray, far: FloatArray) -> FloatArray:
    """Inner angle [rad] between bones ``a`` and ``b`` whose ends are ``far`` apart."""
    return np.arccos(np.clip((a * a + b * b - far * far) / (2.0 * a * b), -1.0, 1.0))


DROP_FRACTION: Final = 0.05  # [-] of the leg: the most that a body is lowered to reach its foot plants
SHIFT_M: Final = 0.019  # [m] the most that an ankle is moved for the sake of a plant
SOFT_FRACTION: Final = 0.7  # [-] of that, from where on it is moved less than asked for
SLIDE_M: Final = 0.0018  # [m] a frame: a point that moves more has not landed yet, or is leaving
SUNK_M: Final = 0.06  # [m] a foot deeper than this below the ground walks on something lower, not through it


@dataclass(frozen=True, slots=True, eq=False)
class FootTrajectory:
    """Trajectory of one foot: its ankle, and heel and toe relative to the ankle in world axes."""

    ankle: FloatArray  # (F, 3) [m] in world
    R_world_ankle: SO3  # batch (F,)
    heel: FloatArray  # (F, 3) [m] from the ankle
    toe: FloatArray  # (F, 3) [m] from the ankle
    heel_down: BoolArray  # (F,)
    toe_down: BoolArray  # (F,)

    @property
    def is_down(self) -> BoolArray:
        """Frames ``(F,)`` in which the foot is in contact."""
        return self.heel_down | self.toe_down


def plant_foot(path: FootTrajectory, floor: FloorPlane | None, rate_hz: float) -> FootTrajectory:
    """Keep heel and toe still during their contacts, and above the ground otherwise.

    Heel and toe each get a correction that eases in and out; the foot then turns by the shortest arc that gives the
    corrected heel-to-toe direction, and moves so that the point in contact is met exactly.
    """
    if floor is None:
        return path
    heel, toe = path.ankle + path.heel, path.ankle + path.toe
    heels, toes = plan_plants(heel, toe, path.heel_down, path.toe_down, floor, rate_hz)
    new_heel = _lift_above_floor(heel + compute_corrections(heel, heels, rate_hz), floor)
    new_toe = _lift_above_floor(toe + compute_corrections(toe, toes, rate_hz), floor)
    # The foot turns with the line from heel to toe, and follows the point that is deeper in contact
    turn, frames = SO3.from_two_vectors(toe - heel, new_toe - new_heel), len(heel)
    share = contact_depth_weights(heels, frames)
    share = (share / (share + contact_depth_weights(toes, frames)))[:, None]
    turned_heel, turned_toe = turn @ path.heel, turn @ path.toe
    ankle = share * (new_heel - turned_heel) + (1.0 - share) * (new_toe - turned_toe)
    ankle = path.ankle + _limit_shift(ankle - path.ankle)
    heel_down = path.heel_down & _trim_sliding(ankle + turned_heel, heels)
    toe_down = path.toe_down & _trim_sliding(ankle + turned_toe, toes)
    return FootTrajectory(ankle, turn @ path.R_world_ankle, turned_heel, turned_toe, heel_down, toe_down)


def _limit_shift(shift: FloatArray) -> FloatArray:
    """Shifts ``(F, 3)`` [m] that bend over smoothly so that none is longer than ``SHIFT_M``."""
    size, soft = np.linalg.norm(shift, axis=-1, keepdims=True), SOFT_FRACTION * SHIFT_M
    bent = soft + (SHIFT_M - soft) * (1.0 - np.exp(-np.maximum(size - soft, 0.0) / (SHIFT_M - soft)))
    return shift * np.where(size > soft, bent / np.maximum(size, 1e-12), 1.0)


def _trim_sliding(point: FloatArray, plants: list[PointPlant]) -> BoolArray:
    """Frames ``(F,)`` of plants without those at their ends in which the point moves by more than ``SLIDE_M``."""
    down = np.zeros(len(point), dtype=np.bool_)
    steps = np.hypot(*np.diff(point[:, [0, 2]], axis=0).T)
    for plant in plants:
        middle = (plant.start + plant.stop) // 2
        fast = plant.start + np.flatnonzero(steps[plant.start : plant.stop - 1] > SLIDE_M)
        first = int(fast[fast < middle].max(initial=plant.start - 1)) + 1
        last = int(fast[fast >= middle].min(initial=plant.stop - 1)) + 1
        down[first:last] = True
    return down


def _lift_above_floor(path: FloatArray, floor: FloorPlane) -> FloatArray:
    """Lift what dips a little below the ground; what goes far below it is on lower ground and is left alone."""
    ground = floor.under(path)
    if (path[:, 1] - ground).min() < -SUNK_M:
        return path
    raised = path.copy()
    raised[:, 1] = np.maximum(path[:, 1], ground)
    return raised


def compute_hip_drop(positions: FloatArray, limb: Limb, path: FootTrajectory, stretch: FloatArray) -> FloatArray:
    """Least lowering of the hips ``(F,)`` [m] that brings a foot in contact within reach."""
    hip, ankle = positions[:, limb.upper], path.ankle
    bones = np.linalg.norm(np.diff(positions[:, [limb.upper, limb.middle, limb.end]], axis=1), axis=-1)
    length = bones.sum(axis=1)
    level = np.hypot(hip[:, 0] - ankle[:, 0], hip[:, 2] - ankle[:, 2])
    height = np.sqrt(np.maximum((saturation_start(stretch) * length) ** 2 - level**2, 0.0))
    drop = np.clip(hip[:, 1] - ankle[:, 1] - height, 0.0, DROP_FRACTION * length)
    return np.where(path.is_down, drop, 0.0)


def move_limb_end(
    motion: Motion, limb: Limb, goals: FloatArray, R_world_end: SO3 | None, *, stretch: float | FloatArray
) -> Motion:
    """Move the end of a limb to ``goals`` ``(F, 3)`` [m]; a limb without length stays.

    The end is turned as ``R_world_end``, or with the lower bone where that is None.
    """
    positions, frames = motion.joint_frames()
    if not has_bones(positions, limb):
        return motion
    wxyz = motion.rotations.wxyz
    goals = np.ascontiguousarray(goals)
    moved, _ = move_limb(wxyz, positions, frames, motion.skeleton, limb, goals, stretch=stretch)
    if R_world_end is not None:
        moved = set_end_rotation(moved, motion, limb, R_world_end)
    return replace(motion, rotations=SO3(moved))
