"""Bone lengths and marker sites from posed frames: one linear least-squares problem."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import NO_PARENT, Skeleton

MARKER_M: Final = 0.005  # [m] what skin and cameras move a marker
SITE_M: Final = 0.03  # [m] how far the first guess of a site may be off
SCALE: Final = 0.10  # [-] how far a bone's scale may be from that of the whole body


def fit_bones_and_sites(
    template: Skeleton,
    body: Skeleton,
    motion: Motion,
    joints: IntArray,
    points: FloatArray,
    first_points: FloatArray,
    places: FloatArray,
    seen: BoolArray,
) -> tuple[Skeleton, FloatArray]:
    r"""Bones and sites that put the markers nearest to where they were seen, poses held.

    .. math:: y_m = x_0 + \sum_{a \preceq j} s_a R_{p(a)}\,o_a + R_j\,c_m

    is linear in the scales s, one for each bone and its mirror image, and in the sites c. Frames count as one
    observation on the mean, since their errors are not independent; Gaussian priors hold what the motion does not show.
    """
    positions, frames = motion.joint_frames()
    groups = group_bones(template)
    count, num_groups = len(joints), int(groups.max()) + 1
    overall = float(
        np.median(np.linalg.norm(body.offsets[1:], axis=1)[_has_length(template)[1:]] / _bone_lengths(template))
    )
    columns = _bone_columns(template, frames, joints, groups, num_groups)
    size = num_groups + 3 * count
    normal, b = np.zeros((size, size)), np.zeros(size)
    for m in range(count):
        use = seen[:, m]
        if not use.any():
            continue
        site = slice(num_groups + 3 * m, num_groups + 3 * m + 3)
        R = SO3(frames.wxyz[use][:, joints[m]]).matrix()
        A = np.zeros((int(use.sum()), 3, size))
        A[:, :, :num_groups] = columns[use][:, m]
        A[:, :, site] = R
        y = places[use, m] - positions[use, 0]
        weight = 1.0 / (use.sum() * MARKER_M**2)
        normal += weight * np.einsum("fri,frj->ij", A, A)
        b += weight * np.einsum("fri,fr->i", A, y)
    prior = np.concatenate([np.full(num_groups, SCALE**-2), np.full(3 * count, SITE_M**-2)])
    centre = np.concatenate([np.full(num_groups, overall), first_points.ravel()])
    found = np.asarray(np.linalg.solve(normal + np.diag(prior), b + prior * centre), dtype=np.float64)
    scales = np.clip(found[:num_groups], 0.6 * overall, 1.6 * overall)
    return scale_bones(template, scales[groups]), found[num_groups:].reshape(-1, 3)


def scale_bones(template: Skeleton, scales: FloatArray) -> Skeleton:
    """The template with the offset, and tip, of each joint scaled on its own."""
    factors = scales[:, None]
    tips = template.tips * factors
    return Skeleton(template.names, template.parents, template.offsets * factors, tips, template.limits, template.name)


def group_bones(skeleton: Skeleton) -> IntArray:
    """Number of the scale that each joint's offset has ``(J,)``: left and right share one, and so do bones of a spine.

    Joints are mirror images when their rest positions are, and their parents too.
    """
    rest, groups = skeleton.rest_positions(), np.zeros(skeleton.num_joints, dtype=np.int64)
    near = 1e-3 * float(np.ptp(rest, axis=0).max())
    next_group = 1
    for j in range(1, skeleton.num_joints):
        image = rest[j] * [-1.0, 1.0, 1.0]
        twins = [k for k in range(1, j) if np.linalg.norm(rest[k] - image) < near and abs(rest[j, 0]) > near]
        parent = int(skeleton.parents[j])
        is_only_child = parent != NO_PARENT and (skeleton.parents == parent).sum() == 1
        if twins:
            groups[j] = groups[twins[0]]
        elif is_only_child and abs(rest[j, 0]) <= near and groups[parent] > 0:
            groups[j] = groups[parent]  # a chain in the middle: the spine
        else:
            groups[j] = next_group
            next_group += 1
    return groups


def _bone_columns(template: Skeleton, frames: SO3, joints: IntArray, groups: IntArray, num_groups: int) -> FloatArray:
    """How each marker's joint moves with each scale: ``(F, M, 3, G)`` [m]."""
    steps = np.zeros((frames.shape[0], template.num_joints, 3))
    for j in range(1, template.num_joints):
        steps[:, j] = SO3(frames.wxyz[:, template.parents[j]]) @ template.offsets[j]
    columns = np.zeros((frames.shape[0], len(joints), 3, num_groups))
    for m, joint in enumerate(joints):
        j = int(joint)
        while j > 0:
            columns[:, m, :, groups[j]] += steps[:, j]
            j = int(template.parents[j])
    return columns


def _has_length(skeleton: Skeleton) -> BoolArray:
    return np.linalg.norm(skeleton.offsets, axis=1) > 1e-6


def _bone_lengths(skeleton: Skeleton) -> FloatArray:
    return np.linalg.norm(skeleton.offsets[1:], axis=1)[_has_length(skeleton)[1:]]
