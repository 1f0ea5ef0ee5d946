"""What no body does from one frame to the next: spikes of a joint, flips, exchanged limbs, a root that is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.lie import SO3, geodesic_distance
from marey.motion.cleaning.interpolation import Correction, format_time, interpolate_frames
from marey.motion.clip import Motion
from marey.motion.time_series import find_runs
from marey.skeleton import RoleMap, role_map


@dataclass(frozen=True, slots=True)
class JumpSettings:
    """How far a frame may be from what the frames around it say."""

    longest: int = 3  # [frame] a spike lasts no longer
    angle_rad: float = np.deg2rad(8.0)  # smallest spike of a joint
    distance_m: float = 0.04  # smallest spike of the root
    angular_acceleration: float = np.deg2rad(4e4)  # [rad/s²] hands of a boxer; more is no motion
    acceleration: float = 60.0  # [m/s²] of a root in a landing
    noise_factor: float = 6.0  # [-] a spike stands out of its own second by this many medians
    flip_rad: float = np.deg2rad(60.0)  # a joint that turns by this in one frame has flipped ...
    flip_s: float = 0.5  # [s] ... and is mended where it flips back within this time
    jump_m: float = 0.15  # a root that moves this much further in one frame than it did before was lost and found


JUMP_SETTINGS: Final = JumpSettings()


def remove_spikes(motion: Motion, settings: JumpSettings = JUMP_SETTINGS) -> Correction:
    r"""Replace frames in which a joint or the root leaves its own path for one to three frames and comes back.

    A stretch of :math:`w` frames is a spike when all of it is further from the arc between the frames beside it than
    a body can accelerate, :math:`\alpha\,((w + 1)\,\Delta t / 2)^2 / 2`, than a fixed angle, and than the median of
    that distance in the second around it times a factor.
    """
    findings: list[str] = []
    names = motion.skeleton.names
    for width in range(1, settings.longest + 1):
        if motion.num_frames < width + 4:
            break
        # Furthest that the body can be from the middle of the arc, at the largest acceleration from rest to rest
        half_s = 0.5 * (width + 1) / motion.rate_hz
        # Least angle [rad] of so many frames from the arc between the frames beside them
        R, count = motion.rotations, motion.num_frames - width - 1
        before, after = R[:count], R[width + 1 :]
        apart = [
            geodesic_distance(R[k : k + count], before.slerp(after, np.asarray(k / (width + 1.0))))
            for k in range(1, width + 1)
        ]
        # What remains after the way that the arc itself makes: a fast turn is no spike
        off = np.maximum(np.min(apart, axis=0) - 0.5 * geodesic_distance(before, after), 0.0)
        least = max(settings.angle_rad, 0.5 * settings.angular_acceleration * half_s**2)
        joints = (off > least) & (off > settings.noise_factor * _local_median(off, motion.rate_hz))
        # The same for the root [m]
        roots = motion.root_positions
        start_m, way_m = roots[:count], roots[width + 1 :] - roots[:count]
        apart = [
            np.linalg.norm(roots[k : k + count] - (start_m + k / (width + 1.0) * way_m), axis=1)
            for k in range(1, width + 1)
        ]
        away = np.maximum(np.min(apart, axis=0) - 0.5 * np.linalg.norm(way_m, axis=1), 0.0)
        least = max(settings.distance_m, 0.5 * settings.acceleration * half_s**2)
        root = (away > least) & (away > settings.noise_factor * _local_median(away[:, None], motion.rate_hz)[:, 0])
        # The strongest of stretches that overlap is the spike
        # Rows with a positive strength that none nearby exceeds, in order of time
        strength = (joints * off).max(axis=1, initial=0.0) + root * away
        picked: list[int] = []
        free = strength > 0.0
        for row in np.argsort(-strength)[: int(free.sum())]:
            if free[row]:
                picked.append(int(row))
                free[max(0, row - width) : row + width + 1] = False
        for start in sorted(picked):
            which, lost = joints[start], bool(root[start])
            motion = interpolate_frames(motion, start + 1, start + 1 + width, which, root=lost)
            what = [names[j] for j in np.flatnonzero(which)] + (["the root's position"] if lost else [])
            told = ", ".join(what[:3]) + (f" and {len(what) - 3} more" if len(what) > 3 else "")
            sizes = [f"{np.rad2deg(off[start][which].max()):.0f}°"] if which.any() else []
            sizes += [f"{100 * away[start]:.0f} cm"] if lost else []
            when = format_time(motion, start + 1, start + 1 + width)
            findings.append(f"spike {when} of {told}, {' and '.join(sizes)}, interpolated")
    return Correction(motion, tuple(findings))


def _local_median(values: FloatArray, rate_hz: float) -> FloatArray:
    """Median ``(N, C)`` over the second around each row."""
    half = max(2, round(0.5 * rate_hz))
    # Blocks of half a second, each row judged by its own and its neighbours': as good, and linear in the length
    blocks = [np.median(values[max(0, i - half) : i + 2 * half], axis=0) for i in range(0, len(values), half)]
    return np.repeat(np.array(blocks), half, axis=0)[: len(values)]


def undo_flips(motion: Motion, settings: JumpSettings = JUMP_SETTINGS) -> Correction:
    """Interpolate stretches that begin and end with a flip of the same joint; a flip that stays is only reported."""
    flips = geodesic_distance(motion.rotations[1:], motion.rotations[:-1]) > max(
        settings.flip_rad, settings.angular_acceleration / motion.rate_hz**2
    )
    findings: list[str] = []
    for joint in np.flatnonzero(flips.any(axis=0)):
        name = motion.skeleton.names[joint]
        frames = (np.flatnonzero(flips[:, joint]) + 1).tolist()
        only = np.arange(motion.skeleton.num_joints) == joint
        while frames:
            start = frames.pop(0)
            if frames and frames[0] - start <= settings.flip_s * motion.rate_hz:
                stop = frames.pop(0)
                motion = interpolate_frames(motion, start, stop, only, root=False)
                findings.append(f"{name} flips {format_time(motion, start, stop)}: interpolated")
            else:
                findings.append(f"{name} flips {format_time(motion, start, start + 1)} and stays so: left as it is")
    return Correction(motion, tuple(findings))


_LIMBS: Final = {"legs": ("hip", "knee", "ankle", "foot"), "arms": ("collar", "shoulder", "elbow", "wrist")}
_EXCHANGED: Final = 0.35  # [-] exchanged limbs fit the frame before by this part of what they miss it as they are


def undo_exchanges(motion: Motion, roles: RoleMap | None = None) -> Correction:
    """Exchange back limbs whose left and right channels were confused for a while.

    At the first frame of such a stretch both limbs jump, each to where the other was: exchanged again they go on as
    before. The stretch lasts until the same happens once more.
    """
    roles = role_map(motion.skeleton) if roles is None else roles
    findings: list[str] = []
    for limbs, parts in _LIMBS.items():
        known = [part for part in parts if f"left_{part}" in roles and f"right_{part}" in roles]
        left, right = ([roles[f"{side}_{part}"] for part in known] for side in ("left", "right"))
        if not known or motion.num_frames < 3:
            continue
        R = motion.rotations
        direct = _pair_distance(R, left, left) + _pair_distance(R, right, right)
        crossed = _pair_distance(R, left, right) + _pair_distance(R, right, left)
        # Both limbs jump by more than a body can, and fit crosswise
        least = len(known) * max(JUMP_SETTINGS.angle_rad, JUMP_SETTINGS.angular_acceleration / motion.rate_hz**2)
        edges = (np.flatnonzero((crossed < _EXCHANGED * direct) & (direct > least)) + 1).tolist()
        for start, stop in zip(edges[::2], [*edges[1::2], motion.num_frames], strict=False):
            wxyz = motion.rotations.wxyz.copy()
            wxyz[start:stop, left + right] = motion.rotations.wxyz[start:stop, right + left]
            motion = replace(motion, rotations=SO3(wxyz), source=motion.edited_source())
            findings.append(f"left and right {limbs} exchanged {format_time(motion, start, stop)}: exchanged back")
    return Correction(motion, tuple(findings))


def _pair_distance(R: SO3, now: list[int], before: list[int]) -> FloatArray:
    """Sum over joints of the angle ``(F - 1,)`` [rad] between joints now and others a frame before."""
    return geodesic_distance(R[1:, now], R[:-1, before]).sum(axis=1)


def undo_root_jumps(motion: Motion, settings: JumpSettings = JUMP_SETTINGS) -> Correction:
    """Carry on the root's path where the whole body is suddenly elsewhere in the same pose.

    The step beyond what the frames around it suggest is taken from all later frames. Where the pose changes too, two
    takes meet: this is reported as a cut and left.
    """
    steps = np.diff(motion.root_positions, axis=0)
    if len(steps) < 3:
        return Correction(motion)
    padded = np.concatenate([steps[:1], steps, steps[-1:]])
    expected = 0.5 * (padded[:-2] + padded[2:])  # of the steps before and after
    excess = np.linalg.norm(steps - expected, axis=1)
    # Two neighbours of a jump see it as well, at half its size: the strongest is meant
    jumps = excess > max(settings.jump_m, settings.acceleration / motion.rate_hz**2)
    turns = geodesic_distance(motion.rotations[1:], motion.rotations[:-1]).max(axis=1)
    positions = motion.root_positions.copy()
    findings: list[str] = []
    for start, stop in find_runs(jumps):
        f = start + int(np.argmax(excess[start:stop]))
        when = format_time(motion, f + 1, f + 2)
        size = f"{100 * float(np.linalg.norm(steps[f])):.0f} cm"
        if turns[f] > settings.flip_rad / 2:
            findings.append(f"cut {when}: the body is {size} further in another pose; left as it is")
            continue
        positions[f + 1 :] -= steps[f] - expected[f]
        findings.append(f"the root jumps by {size} {when}: later frames moved back")
    if not findings or (positions == motion.root_positions).all():
        return Correction(motion, tuple(findings))
    return Correction(replace(motion, root_positions=positions, source=motion.edited_source()), tuple(findings))
