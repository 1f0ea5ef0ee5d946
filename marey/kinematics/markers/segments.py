"""Bones placed by their own markers alone, one by one, and how far their joints come apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.kinematics.markers.sites import MarkerSite
from marey.lie import SE3, SO3
from marey.motion import Markers, Motion, from_absolute
from marey.skeleton import Skeleton

MIN_MARKERS: Final = 3  # on a bone: two leave a turn about their line open
MIN_SPREAD_M: Final = 0.02  # [m] across the longest line through them: nearer markers are collinear for this purpose


def fit_bone_frames(skeleton: Skeleton, markers: Markers, sites: Mapping[str, MarkerSite]) -> tuple[SE3, BoolArray]:
    r"""Frames of bones from their own markers, batch ``(F, J)``, and where they are determined ``(F, J)``.

    .. math:: \min_{R_j, p_j} \sum_i \|y_i - (R_j s_i + p_j)\|^2

    Kabsch's rotation of each bone ([Tournier2011]_ §4.2). A bone needs three markers that are seen and not on a line;
    elsewhere the frame is the identity and means nothing.
    """
    frames, joints = markers.num_frames, skeleton.num_joints
    R, p = np.tile(np.eye(3), (frames, joints, 1, 1)), np.zeros((frames, joints, 3))
    is_determined = np.zeros((frames, joints), dtype=np.bool_)
    for joint, name in enumerate(skeleton.names):
        own = [m for m, site in sites.items() if site.joint == name and m in markers.names]
        if len(own) < MIN_MARKERS:
            continue
        columns = [markers.names.index(m) for m in own]
        seen = markers.valid[:, columns].astype(np.float64)[..., None]
        points, places = np.array([sites[m].point for m in own]), markers.positions[:, columns]
        count = np.maximum(seen.sum(axis=1), 1.0)
        middle, aim = (seen * points).sum(axis=1) / count, (seen * places).sum(axis=1) / count
        local, world = seen * (points - middle[:, None]), seen * (places - aim[:, None])
        u, _, vt = np.linalg.svd(np.einsum("fmi,fmj->fij", world, local))
        signs = np.ones((frames, 3))
        signs[:, 2] = np.linalg.det(u @ vt)
        R[:, joint] = (u * signs[:, None]) @ vt
        p[:, joint] = aim - np.einsum("fij,fj->fi", R[:, joint], middle)
        spread = np.linalg.svd(local, compute_uv=False)[:, 1] / np.sqrt(count[:, 0])
        is_determined[:, joint] = (count[:, 0] >= MIN_MARKERS) & (spread > MIN_SPREAD_M)
    return SE3(SO3.from_matrix(R), p), is_determined


def measure_separation(motion: Motion, markers: Markers, sites: Mapping[str, MarkerSite]) -> dict[str, FloatArray]:
    """How far each joint comes apart ``(n,)`` [m] when bones are placed by their own markers, in the frames that tell.

    Only joints both of whose bones have three markers are measured. A joint that separates by centimetres has markers
    that slide on the skin or sit elsewhere than the fit has them.

    Args:
        motion: fitted to the markers, of the same frames.
        markers: what was seen.
        sites: where each marker sits on the body of the motion.
    """
    frames, is_determined = fit_bone_frames(motion.skeleton, markers, sites)
    found = from_absolute(motion.skeleton, frames, rate_hz=motion.rate_hz).separations
    separations = dict[str, FloatArray]()
    for joint in range(1, motion.skeleton.num_joints):
        both = is_determined[:, joint] & is_determined[:, motion.skeleton.parents[joint]]
        if both.any():
            separations[motion.skeleton.names[joint]] = found[both, joint]
    return separations
