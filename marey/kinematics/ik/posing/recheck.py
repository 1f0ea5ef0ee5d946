"""Goals of finished poses measured anew, by the skeleton's own forward kinematics instead of the solver's."""

from __future__ import annotations

from collections.abc import Sequence
from math import atan2, sqrt
from typing import Any, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, patient_kernel
from marey.kinematics.ik.problem import IKProblem, list_ancestors
from marey.kinematics.ik.state import COM, LOOK_AT, ORIENTATION, POINT, JointArrays, MassPoints, TaskBlocks
from marey.lie.kernels import conjugate, log, multiply, quaternion_at, rotate, row3
from marey.skeleton.tree import forward_kinematics


class MeasuredBlocks(NamedTuple):
    """Where the blocks of F poses are, and what is missing."""

    sizes: FloatArray  # (F, B) [m] or [rad]; 0 where a block is not active, axes without weight left out
    places: FloatArray  # (F, B, 3) [m]
    world: FloatArray  # (F, J, 4) rotations of the joints


def measure_blocks(
    problem: IKProblem, targets: FloatArray, active: BoolArray, roots: FloatArray, wxyz: FloatArray
) -> MeasuredBlocks:
    """Measure poses ``(F, 3)``, ``(F, J, 4)`` against targets ``(F, B, 4)``."""
    tree, blocks, _, mass, _, _ = problem.fields
    # Arrays that may be written: one compiled kernel serves guesses and clips
    arrays = tuple(a if a.flags.writeable else a.copy() for a in (targets, active, roots, wxyz))
    return MeasuredBlocks(*measure_poses(tree, blocks, mass, arrays))


@patient_kernel
def measure_poses(
    tree: tuple[Any, ...], blocks: tuple[Any, ...], mass: tuple[Any, ...], poses: tuple[Any, ...]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sizes, places and world rotations of :class:`MeasuredBlocks`; tuples cost a caller less than records."""
    tree_, b_, mass_ = JointArrays(*tree), TaskBlocks(*blocks), MassPoints(*mass)
    targets, active, roots, wxyz = poses
    offsets = tree_.offsets.reshape((1, tree_.offsets.shape[0], 3))
    positions, world = forward_kinematics(tree_.parents, offsets, roots, wxyz)
    frames, count = wxyz.shape[0], b_.kinds.shape[0]
    sizes, places, e = np.zeros((frames, count)), np.zeros((frames, count, 3)), np.zeros(3)
    for f in range(frames):
        for b in range(count):
            j, kind, place = b_.joints[b], b_.kinds[b], places[f, b]
            # The block's point: of a joint, or the centre of mass
            x, y, z = rotate(quaternion_at(world[f], j), row3(b_.points, b))
            place[0], place[1], place[2] = positions[f, j, 0] + x, positions[f, j, 1] + y, positions[f, j, 2] + z
            if kind == COM:
                place[:] = 0.0
                for i in range(mass_.joints.shape[0]):
                    k, m = mass_.joints[i], mass_.weights[i]
                    x, y, z = rotate(quaternion_at(world[f], k), row3(mass_.points, i))
                    place[0] += m * (positions[f, k, 0] + x)
                    place[1] += m * (positions[f, k, 1] + y)
                    place[2] += m * (positions[f, k, 2] + z)
            if not active[f, b]:
                continue
            # What is missing: a way, a turn, or the turn of an axis towards the target
            for c in range(3):
                e[c] = targets[f, b, c] - place[c]
            if kind == ORIENTATION:
                e[0], e[1], e[2] = log(multiply(quaternion_at(targets[f], b), conjugate(quaternion_at(world[f], j))))
            elif kind == LOOK_AT:
                u, v, w = rotate(quaternion_at(world[f], j), row3(b_.aims, b))
                x, y, z = v * e[2] - w * e[1], w * e[0] - u * e[2], u * e[1] - v * e[0]
                sine, cosine = sqrt(x * x + y * y + z * z), u * e[0] + v * e[1] + w * e[2]
                angle = atan2(sine, cosine)
                e[0], e[1], e[2] = (
                    (x * angle / sine, y * angle / sine, z * angle / sine) if sine > 1e-12 else (angle, 0.0, 0.0)
                )
            total = 0.0
            for c in range(3):
                total += (e[c] * b_.axes[b, c]) ** 2
            sizes[f, b] = sqrt(total)
    return sizes, places, world


def is_beyond_reach(
    problem: IKProblem, targets: FloatArray, active: BoolArray, anchors: Sequence[tuple[int, FloatArray]]
) -> bool:
    """Tell whether a place is farther from a joint that stays than all bones between them are long.

    ``anchors`` are joints with the places [m] that they keep: planted ankles, or a root that may not move.
    """
    blocks, skeleton = problem.layout.blocks, problem.skeleton
    lengths = np.linalg.norm(skeleton.offsets, axis=1)
    lengths[0] = 0.0
    for b in np.flatnonzero((blocks.kinds == POINT) & active & blocks.axes.all(axis=1)).tolist():
        mine = set(list_ancestors(skeleton, int(blocks.joints[b])))
        for joint, place in anchors:
            bones = mine ^ set(list_ancestors(skeleton, joint))
            longest = sum(float(lengths[j]) for j in bones) + float(np.linalg.norm(blocks.points[b]))
            if float(np.linalg.norm(targets[b, :3] - place)) > longest + blocks.tolerances[b]:
                return True
    return False


def name_worst_joint(names: Sequence[str], violation: FloatArray) -> str:
    """The joint that is farthest outside its limits, and by how much."""
    worst = int(violation.argmax())
    return f"joint '{names[worst]}' is outside its limits by {violation[worst]:.3g} rad"
