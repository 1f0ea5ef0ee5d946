"""Bone lengths and marker sites of a body whose poses are held: one linear least-squares problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.kinematics.markers.poses import LabelledPoints, MarkerPoses
from marey.skeleton import NO_PARENT, Skeleton, joint_frames

MARKER_M: Final = 0.005  # [m] what skin and cameras move a marker
FAR_M: Final = 0.03  # [m] a sighting this far from its site counts half
SCALE: Final = 0.10  # [-] how far a bone's scale may be from that of the whole body


@dataclass(frozen=True, slots=True, eq=False)
class SitePrior:
    """Where sites are expected, and how far they may be from there."""

    points: FloatArray  # (M, 3) [m] in the frame of the joint
    spread: FloatArray  # (M,) [m]


def fit_bones_and_sites(
    template: Skeleton,
    poses: MarkerPoses,
    data: LabelledPoints,
    prior: SitePrior,
    *,
    scale: float,
    spread: float = SCALE,
) -> tuple[Skeleton, FloatArray]:
    r"""Bones and sites that put the markers nearest to where they were seen, poses held.

    .. math:: y_m = x_0 + \sum_{a \preceq j} s_a R_{p(a)}\,o_a + R_j\,c_m

    is linear in the scales s, one for each bone and its mirror image, and in the sites c. Frames count as one
    observation on the mean, since their errors are not independent; Gaussian priors hold what the motion does not show.

    Args:
        template: the body whose bones are scaled.
        poses: of the sample frames.
        data: labelled markers of the same frames; their points are where the sites were.
        prior: of the sites.
        scale: of the whole body over the template.
        spread: how far the scale of a bone may be from it.
    """
    positions, frames = joint_frames(template, poses.roots, poses.rotations.wxyz, None)
    matrices = frames.matrix()
    groups = group_bones(template)
    count, num_groups = len(data.joints), int(groups.max()) + 1
    # How each joint moves with each scale: (F, J, 3, G) [m]
    columns = np.zeros((len(positions), template.num_joints, 3, num_groups))
    for j in range(1, template.num_joints):
        parent = int(template.parents[j])
        columns[:, j] = columns[:, parent]
        columns[:, j, :, groups[j]] += matrices[:, parent] @ template.offsets[j]
    # Normal equations: rows of all markers, each the mean of its frames, and the priors
    size = num_groups + 3 * count
    normal, b = np.zeros((size, size)), np.zeros(size)
    for m, joint in enumerate(data.joints):
        R, C = matrices[:, joint], columns[:, joint]
        y = data.places[:, m] - poses.roots
        now = np.linalg.norm(positions[:, joint] + R @ data.points[m] - data.places[:, m], axis=-1)
        weight = data.seen[:, m] / (1.0 + (now / FAR_M) ** 2)
        if weight.sum() < 1e-9:
            continue
        weight = weight / (max(float(data.seen[:, m].sum()), 1.0) * MARKER_M**2)
        site = slice(num_groups + 3 * m, num_groups + 3 * m + 3)
        normal[:num_groups, :num_groups] += np.einsum("f,frg,frh->gh", weight, C, C)
        normal[:num_groups, site] += np.einsum("f,frg,frs->gs", weight, C, R)
        normal[site, :num_groups] = normal[:num_groups, site].T
        normal[site, site] += weight.sum() * np.eye(3)
        b[:num_groups] += np.einsum("f,frg,fr->g", weight, C, y)
        b[site] += np.einsum("f,frs,fr->s", weight, R, y)
    stiff = np.concatenate([np.full(num_groups, spread**-2), np.repeat(prior.spread**-2, 3)])
    centre = np.concatenate([np.full(num_groups, scale), prior.points.ravel()])
    found = np.asarray(np.linalg.solve(normal + np.diag(stiff), b + stiff * centre), dtype=np.float64)
    scales = np.clip(found[:num_groups], 0.6 * scale, 1.6 * scale)
    # The template with the offset, and tip, of each joint scaled on its own
    factors = scales[groups][:, None]
    offsets, tips = template.offsets * factors, template.tips * factors
    fitted = Skeleton(template.names, template.parents, offsets, tips, template.limits, template.name)
    return fitted, found[num_groups:].reshape(-1, 3)


def group_bones(skeleton: Skeleton) -> IntArray:
    """Number of the scale that each joint's offset has ``(J,)``: left and right share one, and so do bones of a spine.

    Joints are mirror images when their rest positions are, and their parents too.
    """
    rest, groups = skeleton.rest_positions(), np.zeros(skeleton.num_joints, dtype=np.int64)
    near = 1e-3 * float(np.ptp(rest, axis=0).max())
    next_group = 1
    for j in range(1, skeleton.num_joints):
        # The joint on the other side, if it came before
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
