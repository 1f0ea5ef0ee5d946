"""Compiled foot plants of a whole clip: the kernel of one frame, frame after frame."""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.locomotion._plant_arrays import LegArrays, PlantOptions
from marey.locomotion._plant_kernels import plant_step


@kernel
def copy_frame_edits(options: PlantOptions, shifts: FloatArray, toe_in: FloatArray, f: int) -> None:
    """Copy the edits of frame ``f`` into the options."""
    for k in range(4):
        for c in range(3):
            options.shift[k, c] = shifts[f, k, c]
    options.toe_in[0], options.toe_in[1] = toe_in[f, 0], toe_in[f, 1]


@kernel
def plant_clip(
    dt: float, planted: BoolArray, until_s: FloatArray, landing: FloatArray, shifts: FloatArray, toe_in: FloatArray,
    options: PlantOptions, floor_y: float, legs: LegArrays, state: FloatArray, roots: FloatArray, rotations: FloatArray,
) -> IntArray:  # fmt: skip
    """Plant the feet of all frames in place; arguments are those of ``plant_step``, frames first; returns flags."""
    flags = np.empty(len(roots), dtype=np.int64)
    for f in range(len(roots)):
        copy_frame_edits(options, shifts, toe_in, f)
        flags[f] = plant_step(
            dt, planted[f], until_s[f], landing[f], options, floor_y, 1.0, legs, state, roots[f], rotations[f]
        )
    return flags
