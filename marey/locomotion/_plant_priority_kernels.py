"""Compiled foot plants with the source's own inverse kinematics, by name."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.locomotion._foot_kernels import bend_toes, get3, get4
from marey.locomotion._foot_priority_kernels import pose_leg_priority
from marey.locomotion._plant_arrays import LegArrays, PlantOptions
from marey.locomotion._plant_clip_kernels import copy_frame_edits
from marey.locomotion._plant_columns import LEVEL, TARGET, TURN
from marey.locomotion._plant_kernels import encode_foot_flags, update_feet


@kernel
def plant_step_priority(
    dt: float, planted: BoolArray, until_s: FloatArray, landing: FloatArray, options: PlantOptions, floor_y: float,
    scale: float, legs: LegArrays, state: FloatArray, root_position: FloatArray, rotations: FloatArray,
) -> int:  # fmt: skip
    """Do what ``plant_step`` does, with damped least squares in two priorities instead of the closed form."""
    update_feet(dt, planted, until_s, landing, options, floor_y, scale, legs, state, root_position, rotations)
    flags = 0
    for foot in range(2):
        row = state[foot]
        turn, ground = get4(row, TURN), floor_y + row[LEVEL]
        ankle, miss = pose_leg_priority(row, foot, get3(row, TARGET), turn, scale, legs, rotations)
        bend_toes(row, foot, ankle, turn, ground, dt, scale, legs, rotations)
        flags |= encode_foot_flags(row, foot, ankle, miss)
    return flags


@kernel
def plant_clip_priority(
    dt: float, planted: BoolArray, until_s: FloatArray, landing: FloatArray, shifts: FloatArray, toe_in: FloatArray,
    options: PlantOptions, floor_y: float, legs: LegArrays, state: FloatArray, roots: FloatArray, rotations: FloatArray,
) -> IntArray:  # fmt: skip
    """Do what ``plant_clip`` does, by damped least squares."""
    flags = np.empty(len(roots), dtype=np.int64)
    for f in range(len(roots)):
        copy_frame_edits(options, shifts, toe_in, f)
        flags[f] = plant_step_priority(
            dt, planted[f], until_s[f], landing[f], options, floor_y, 1.0, legs, state, roots[f], rotations[f]
        )
    return flags
