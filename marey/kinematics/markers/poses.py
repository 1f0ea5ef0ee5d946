"""Poses of a body under labelled markers by damped Gauss-Newton; bone lengths and sites of one whose poses are held.

Every frame is a problem of its own, so frames are solved side by side as stacked matrices. A marker that is far from
its site counts less (Cauchy's weight), which makes a ghost or a swapped label harmless; a pose that the markers leave
open is settled by how people stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.lie import SO3
from marey.skeleton import NO_PARENT, Skeleton, joint_frames, role_map

NOISE_M: Final = 0.01  # [m] what skin and cameras move a marker
FAR_M: Final = 0.06  # [m] Cauchy's scale: a marker this far off counts half
CHUNK: Final = 128  # frames whose Jacobians are held in memory together
STRAIGHT_RAD: Final = np.radians(3.0)  # [rad] a knee or elbow bends so far backwards without a word
HINGE_RAD: Final = 0.02  # [rad] and hardly any farther
MAX_STEP_RAD: Final = 0.6  # [rad] of a joint in one step
# Neutral pose and how far people turn from it, as rotation vectors on a T-pose: x left, y up, z forward [rad].
# A knee and an elbow are hinges (about x, and about y of an arm held out); a spine shares its turn between joints.
_NEUTRAL: Final = {
    "left_shoulder": ((0.0, 0.0, -1.35), (1.2, 1.2, 1.2)),
    "left_elbow": ((0.0, -0.4, 0.0), (0.9, 1.2, 0.15)),
    "left_wrist": ((0.0, 0.0, 0.0), (0.3, 0.4, 0.5)),
    "left_collar": ((0.0, 0.0, 0.0), (0.1, 0.25, 0.25)),
    "left_hip": ((0.0, 0.0, 0.0), (1.2, 0.6, 0.5)),
    "left_knee": ((0.25, 0.0, 0.0), (1.2, 0.15, 0.10)),
    "left_ankle": ((0.0, 0.0, 0.0), (0.6, 0.35, 0.35)),
    "left_foot": ((0.0, 0.0, 0.0), (0.15, 0.05, 0.05)),
    "spine1": ((0.0, 0.0, 0.0), (0.25, 0.2, 0.2)),
    "spine2": ((0.0, 0.0, 0.0), (0.25, 0.2, 0.2)),
    "spine3": ((0.0, 0.0, 0.0), (0.25, 0.2, 0.2)),
    "neck": ((0.0, 0.0, 0.0), (0.3, 0.3, 0.3)),
    "head": ((0.0, 0.0, 0.0), (0.3, 0.4, 0.3)),
}


@dataclass(frozen=True, slots=True, eq=False)
class StandingPrior:
    """Where joints are when no marker says so, and how much they mind being elsewhere."""

    neutral: SO3  # batch (J,), or (F, J) where each frame has its own
    spread: FloatArray  # (J, 3) [rad] along the axes of each joint
    flexion: FloatArray  # (J, 3) unit axes of hinges, about which they flex; zero for other joints
    hinges: IntArray  # (H,) knees and elbows
    bones: FloatArray  # (H, 3) unit axes of the bones below them, about which a shank or a forearm twists

    @classmethod
    def standing(cls, skeleton: Skeleton) -> StandingPrior:
        """A person who stands with the arms down, for a template whose rest is a T-pose."""
        roles = role_map(skeleton)
        vectors, spread = np.zeros((skeleton.num_joints, 3)), np.full((skeleton.num_joints, 3), 0.3)
        flexion, bones = np.zeros((skeleton.num_joints, 3)), dict[int, tuple[float, float, float]]()
        for role, (turn, width) in _NEUTRAL.items():
            # The mirror image of a rotation vector keeps its x and turns the rest round
            for name, sign in ((role, 1.0), (role.replace("left_", "right_"), -1.0 if "left_" in role else 1.0)):
                if name in roles:
                    vectors[roles[name]] = np.array(turn) * [1.0, sign, sign]
                    spread[roles[name]] = width
        for role, axis, bone in (
            ("knee", (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
            ("elbow", (0.0, -1.0, 0.0), (1.0, 0.0, 0.0)),
        ):
            for side, sign in (("left", 1.0), ("right", -1.0)):
                if f"{side}_{role}" in roles:
                    joint = roles[f"{side}_{role}"]
                    flexion[joint], bones[joint] = np.array(axis) * [1.0, sign, sign], bone
        spread[0] = 1e3  # the root turns freely
        hinges = np.array(list(bones), dtype=np.int64)
        return cls(SO3.exp(vectors), spread, flexion, hinges, np.array(list(bones.values())).reshape(-1, 3))

    def read_hinges(self, rotations: SO3) -> tuple[FloatArray, SO3]:
        """Swing plus twist ``(..., H, 3)`` [rad] of knees and elbows, and the twist.

        A flexed elbow that pronates has no side swing, but its rotation vector has a component along that axis.
        """
        swing, twist = rotations[..., self.hinges].swing_twist(self.bones)
        return swing.log() + twist.log(), twist


@dataclass(frozen=True, slots=True, eq=False)
class LabelledPoints:
    """Markers with the joint that carries each, the site in its frame, and where they were seen."""

    joints: IntArray  # (M,)
    points: FloatArray  # (M, 3) [m]
    places: FloatArray  # (F, M, 3) [m]
    seen: BoolArray  # (F, M)


@dataclass(frozen=True, slots=True, eq=False)
class MarkerPoses:
    """Root positions and joint rotations of frames."""

    roots: FloatArray  # (F, 3) [m]
    rotations: SO3  # batch (F, J)


def locate_sites(body: Skeleton, poses: MarkerPoses, joints: IntArray, points: FloatArray) -> FloatArray:
    """Where sites are in the world ``(F, M, 3)`` [m]."""
    positions, frames = joint_frames(body, poses.roots, poses.rotations.wxyz, None)
    return positions[:, joints] + SO3(frames.wxyz[:, joints]) @ points


def solve_marker_poses(
    body: Skeleton,
    data: LabelledPoints,
    start: MarkerPoses,
    prior: StandingPrior,
    *,
    steps: int,
    weights: FloatArray,
    far_m: float = FAR_M,
) -> MarkerPoses:
    r"""Poses that put the sites of a body nearest to the markers.

    .. math:: \min \sum_m \rho\big(\lVert y_m - x_m(q)\rVert\big) + \sum_j \lVert \log(\bar R_j^{-1} R_j) / s_j \rVert^2
        + \sum_h \min(a_h\cdot\log R_h + \epsilon,\ 0)^2 / s^2

    with Cauchy's :math:`\rho`, by Gauss-Newton steps on :math:`R_j \leftarrow R_j \exp(\delta_j)`; the derivative of a
    place is :math:`R_j e_a \times (x - x_j)` for every joint above it. The last sum keeps knees and elbows from bending
    backwards about their axes :math:`a_h`. Their logarithms are those of swing and twist, each on its own.

    Args:
        body: the skeleton that is posed.
        data: labelled markers.
        start: poses to begin with.
        prior: settles what the markers do not show.
        steps: Gauss-Newton steps.
        weights: ``(M,)`` trust in each marker.
        far_m: a marker this far off counts half [m].
    """
    # Joints that carry a marker or stand above one; others keep the neutral pose
    above = ancestors(body)[data.joints]
    used = np.flatnonzero(above.any(axis=0))
    idle = np.setdiff1d(np.arange(body.num_joints), used)
    is_used = np.isin(prior.hinges, used)
    hinges, flexion = np.searchsorted(used, prior.hinges[is_used]), prior.flexion[prior.hinges[is_used]]
    roots, wxyz = start.roots.copy(), start.rotations.wxyz.copy()
    neutral = np.broadcast_to(prior.neutral.wxyz, wxyz.shape)
    wxyz[:, idle] = neutral[:, idle]
    for first in range(0, len(roots), CHUNK):
        rows = slice(first, first + CHUNK)
        x, q = roots[rows].copy(), wxyz[rows].copy()
        places, seen = data.places[rows], data.seen[rows]
        damping, last = np.full(len(x), 1e-3), np.full(len(x), np.inf)
        kept = x.copy(), q.copy()
        for step in range(steps + 1):
            positions, frames = joint_frames(body, x, q, None)
            sites = positions[:, data.joints] + SO3(frames.wxyz[:, data.joints]) @ data.points
            residual = np.where(seen[..., None], places - sites, 0.0)
            square = (residual**2).sum(axis=-1) / far_m**2
            turn = (SO3(neutral[rows][:, used]).inverse() @ SO3(q[:, used])).log()
            cost = (weights * np.log1p(square)).sum(axis=1) * (far_m / NOISE_M) ** 2
            bent, twist = prior.read_hinges(SO3(q))
            turn[:, hinges] = (bent - prior.read_hinges(SO3(neutral[rows]))[0])[:, is_used]
            cost += ((turn / prior.spread[used]) ** 2).sum(axis=(1, 2))
            # What goes backwards, along the axis of flexion
            bend = (bent[:, is_used] * flexion).sum(axis=-1, keepdims=True)
            back = np.minimum(bend + STRAIGHT_RAD, 0.0) * flexion / HINGE_RAD**2
            cost += HINGE_RAD**2 * (back**2).sum(axis=(1, 2))
            # A frame that a step made worse goes on from there with more damping; its best pose is kept for the end
            worse = cost > last
            if step == steps:
                x[worse], q[worse] = kept[0][worse], kept[1][worse]
                break
            damping = np.where(worse, 10.0 * damping, np.maximum(0.1 * damping, 1e-6))
            trust = seen * weights / (1.0 + square) / NOISE_M**2
            normal, gradient = _assemble_normal_equations(
                sites, positions[:, used], SO3(frames.wxyz[:, used]).matrix(), above[:, used], residual, trust
            )
            diagonal = np.arange(3, 3 + 3 * len(used))
            normal[:, diagonal, diagonal] += damping[:, None] * (normal[:, diagonal, diagonal] + 1.0)
            normal[:, :3, :3] += 1e-6 * np.eye(3)
            # Springs and stops of hinges act along the axes before the twist, T^T K T in those of the joint
            stiffness = np.tile(prior.spread[used] ** -2, (len(x), 1, 1))
            pull, axes = stiffness * turn, np.tile(np.eye(3), (len(x), len(used), 1, 1))
            stiffness[:, hinges] += (back != 0.0) / HINGE_RAD**2
            pull[:, hinges] += back
            axes[:, hinges] = twist[:, is_used].matrix()
            block = diagonal.reshape(-1, 3)
            normal[:, block[:, :, None], block[:, None, :]] += np.swapaxes(axes, 2, 3) @ (stiffness[..., None] * axes)
            gradient[:, 3:] -= (np.swapaxes(axes, 2, 3) @ pull[..., None]).reshape(len(x), -1)
            kept = np.where(worse[:, None], kept[0], x), np.where(worse[:, None, None], kept[1], q)
            last = np.minimum(cost, last)
            move = np.linalg.solve(normal, gradient[..., None])[..., 0]
            delta = move[:, 3:].reshape(len(move), -1, 3)
            size = np.linalg.norm(delta, axis=-1, keepdims=True)
            delta *= np.minimum(1.0, MAX_STEP_RAD / np.maximum(size, 1e-12))
            x = x + move[:, :3]
            q[:, used] = (SO3(q[:, used]) @ SO3.exp(delta)).wxyz
        roots[rows], wxyz[rows] = x, q
    return MarkerPoses(roots, SO3(wxyz))


def _assemble_normal_equations(
    sites: FloatArray,
    origins: FloatArray,
    axes: FloatArray,
    above: BoolArray,
    residual: FloatArray,
    trust: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Normal matrix ``(F, 3 + 3J, 3 + 3J)`` and right-hand side for steps of the root and of each used joint."""
    frames, count, num_joints = sites.shape[0], sites.shape[1], origins.shape[1]
    arms = (sites[:, :, None] - origins[:, None]) * above[None, :, :, None]
    jacobian = np.zeros((frames, count, 3, 3 + 3 * num_joints))
    jacobian[..., :3] = np.eye(3)
    # R e_a x arm for the three axes of each joint: columns a of rows x, y, z
    turned = jacobian[..., 3:].reshape(frames, count, 3, num_joints, 3)
    for row, (i, k) in enumerate(((1, 2), (2, 0), (0, 1))):
        turned[:, :, row] = axes[:, None, :, i, :] * arms[..., k, None] - axes[:, None, :, k, :] * arms[..., i, None]
    jacobian[..., 3:] = turned.reshape(frames, count, 3, 3 * num_joints)
    scale = np.sqrt(trust)[..., None]
    weighted = (jacobian * scale[..., None]).reshape(frames, 3 * count, -1)
    transposed = np.swapaxes(weighted, 1, 2)
    right = (residual * scale).reshape(frames, 3 * count, 1)
    return transposed @ weighted, (transposed @ right)[..., 0]


def ancestors(skeleton: Skeleton) -> BoolArray:
    """``(J, J)``: whether the second joint is the first or stands above it."""
    found = np.eye(skeleton.num_joints, dtype=np.bool_)
    for j in range(1, skeleton.num_joints):
        found[j] |= found[skeleton.parents[j]]
    return found


MARKER_M: Final = 0.005  # [m] what skin and cameras move a marker
FAR_SITE_M: Final = 0.03  # [m] a sighting this far from its site counts half
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
        weight = data.seen[:, m] / (1.0 + (now / FAR_SITE_M) ** 2)
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
