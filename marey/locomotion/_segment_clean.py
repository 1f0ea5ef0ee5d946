"""Faults of captured clips, found and mended before they are cut: flips of joints, doubtful frame rates."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.lie import SO3
from marey.motion import Motion, check_time_base
from marey.skeleton import role_map

FLIP_RAD_S: Final = float(np.deg2rad(30.0)) * 120.0  # [rad/s] no joint of a walking or running body turns faster
FLIP_CLUSTER_GAP_S: Final = 0.12  # [s] flips of one joint this near belong to one lost marker
MAX_SPAN_S: Final = 0.30  # [s] what is lost for longer is not guessed
FLIP_MARGIN_FRAMES: Final = 2  # frames before and after a flip that are not trusted either


def joint_angular_speeds(wxyz: FloatArray, rate_hz: float) -> FloatArray:
    """Speed ``(F - 1, J)`` [rad/s] at which joints ``(F, J, 4)`` turn from each frame to the next."""
    dots = np.abs(np.einsum("fji,fji->fj", wxyz[1:], wxyz[:-1]))
    return 2.0 * np.arccos(np.minimum(dots, 1.0)) * rate_hz


def repair_joint_flips(motion: Motion) -> tuple[Motion, tuple[str, ...]]:
    """Bridge short flips of single joints by the shortest arc; what was done to limbs, one sentence each."""
    wxyz = motion.rotations.wxyz.copy()
    fast = joint_angular_speeds(wxyz, motion.rate_hz) > FLIP_RAD_S
    limbs = find_limb_joints(motion)
    notes: list[str] = []
    for joint in np.flatnonzero(fast.any(axis=0)).tolist():
        for first, last in _find_flip_intervals(np.flatnonzero(fast[:, joint]), motion):
            wxyz[first : last + 1, joint] = _interpolate_gap(wxyz[first, joint], wxyz[last, joint], last - first + 1)
            if motion.skeleton.names[joint] in limbs:
                notes.append(f"{motion.name}: '{motion.skeleton.names[joint]}' bridged over frames {first} to {last}")
    if not fast.any():
        return motion, ()
    return replace(motion, rotations=SO3(wxyz), source=None), tuple(notes)


def find_limb_joints(motion: Motion) -> frozenset[str]:
    """Names of the joints of a clip's arms, legs and trunk: toes and fingers tremble in every capture."""
    roles = role_map(motion.skeleton).joints
    return frozenset(
        motion.skeleton.names[joint] for role, joint in roles.items() if not role.endswith(("_foot", "_wrist"))
    )


def _find_flip_intervals(jumps: IntArray, motion: Motion) -> list[tuple[int, int]]:
    """First and last frame to be trusted round each cluster of jumps; clusters too long, or at an end, are left."""
    clusters: list[tuple[int, int]] = []
    for jump in jumps.tolist():
        if clusters and jump - clusters[-1][1] <= FLIP_CLUSTER_GAP_S * motion.rate_hz:
            clusters[-1] = (clusters[-1][0], jump)
        else:
            clusters.append((jump, jump))
    spans = [(begin - FLIP_MARGIN_FRAMES, end + 1 + FLIP_MARGIN_FRAMES) for begin, end in clusters]
    longest = MAX_SPAN_S * motion.rate_hz
    return [(a, b) for a, b in spans if a >= 0 and b < motion.num_frames and b - a <= longest]


def _interpolate_gap(start: FloatArray, end: FloatArray, count: int) -> FloatArray:
    return SO3(np.broadcast_to(start, (count, 4))).slerp(SO3(end), np.linspace(0.0, 1.0, count)).wxyz


def check_frame_rate(motion: Motion) -> str | None:
    """Why the frame rate of a clip is doubted, or ``None``: gravity in flight and the tempo of the limbs tell."""
    return check_time_base(motion).warning
