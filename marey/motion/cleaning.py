"""Detection and repair of defects of captured clips: gaps, swapped limbs, spikes, flips, jumps, tremor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.lie import SO3, geodesic_distance
from marey.motion.clip import Motion
from marey.motion.time_series import find_runs, lowpass, lowpass_values
from marey.skeleton import RoleMap, role_map

FULL_SPEED_S = 0.1  # [s] end velocities are damped across longer gaps, whose content is unknown


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """A motion after one cleaning step, and the findings of the step."""

    motion: Motion
    findings: tuple[str, ...] = ()  # one sentence each, with times; also for defects that were left unchanged


def interpolate_frames(motion: Motion, start: int, stop: int, joints: BoolArray, *, root: bool) -> Motion:
    r"""Replace frames ``start`` to ``stop`` (exclusive) by a cubic between the adjacent frames.

    With :math:`u \in [0, 1]` from the frame before to the frame after, :math:`n` frames apart, and body velocities
    :math:`\omega` per frame there, a joint follows the Hermite cubic of its rotation vector

    .. math:: R(u) = R_a \exp\big(h_{10}(u)\,n\,\omega_a + h_{01}(u)\,\log(R_a^{-1} R_b) + h_{11}(u)\,n\,\omega_b\big)

    which interpolates both ends exactly and their velocities to second order in the angle; the root position likewise.

    Args:
        motion: a clip with at least one valid frame on either side of the interval.
        start: first frame to replace, at least 1.
        stop: first valid frame after the interval.
        joints: which joints to replace ``(J,)``.
        root: whether to replace the root's position.
    """
    a, b, last = start - 1, stop, motion.num_frames - 1
    n = b - a
    u = (np.arange(start, stop) - a) / n
    # Hermite polynomials; speeds at the ends fade for gaps longer than FULL_SPEED_S
    trust = min(1.0, FULL_SPEED_S * motion.rate_hz / n)
    leave, reach, arrive = trust * (u**3 - 2 * u**2 + u), 3 * u**2 - 2 * u**3, trust * (u**3 - u**2)
    before, after = max(a - 1, 0), min(b + 1, last)
    R = motion.rotations
    omega_a, omega_b = (R[before].inverse() @ R[a]).log(), (R[b].inverse() @ R[after]).log()
    step = (R[a].inverse() @ R[b]).log()
    vectors = leave[:, None, None] * n * omega_a + reach[:, None, None] * step + arrive[:, None, None] * n * omega_b
    wxyz = R.wxyz.copy()
    wxyz[start:stop, joints] = (R[a] @ SO3.exp(vectors)).wxyz[:, joints]
    p = motion.root_positions
    positions = p.copy()
    if root:
        across = np.outer(reach, p[b] - p[a])
        positions[start:stop] = p[a] + np.outer(leave, n * (p[a] - p[before])) + across
        positions[start:stop] += np.outer(arrive, n * (p[after] - p[b]))
    return replace(motion, root_positions=positions, rotations=SO3(wxyz), source=motion.edited_source())


def format_time(motion: Motion, start: int, stop: int) -> str:
    """Format the times of frames ``start`` to ``stop`` (exclusive): "at 1.20 s" or "1.20-1.45 s"."""
    first, last = start / motion.rate_hz, (stop - 1) / motion.rate_hz
    return f"at {first:.2f} s" if stop - start == 1 else f"{first:.2f}-{last:.2f} s"


SAME_RAD: Final = 1e-7  # [rad] frames closer than this are equal: text files keep six digits
SAME_M: Final = 1e-7


@dataclass(frozen=True, slots=True)
class GapSettings:
    """Definition of a gap."""

    shortest: int = 3  # [frame] fewer equal frames are repeats of the exporter, not lost data
    longest_s: float = 1.0  # [s] longer gaps are reported and left unchanged
    moving_rad_s: float = 0.3  # [rad/s] a body that is slower before and after stands still; this is not a gap
    moving_mps: float = 0.1  # [m/s] the same for the root


GAP_SETTINGS: Final = GapSettings()


def fill_gaps(motion: Motion, settings: GapSettings = GAP_SETTINGS) -> Correction:
    """Replace intervals of equal frames inside a motion by interpolation between the adjacent frames.

    An interval is a gap if the body moves or jumps at its start or end; a person who stands still trembles, so that
    frames are never equal to the last digit. Holds at the start and end of a clip are calibration poses and are kept.
    """
    steps = geodesic_distance(motion.rotations[1:], motion.rotations[:-1])
    travel = np.linalg.norm(np.diff(motion.root_positions, axis=0), axis=1)
    still = (steps.max(axis=1, initial=0.0) < SAME_RAD) & (travel < SAME_M)
    moves = (steps.max(axis=1, initial=0.0) > settings.moving_rad_s / motion.rate_hz) | (
        travel > settings.moving_mps / motion.rate_hz
    )
    every = np.ones(motion.skeleton.num_joints, dtype=np.bool_)
    findings: list[str] = []
    # A run of zero steps i..j-1 covers frames i..j; the first may be valid or the same wrong pose as the others
    for first, stop in find_runs(still, shortest=settings.shortest - 1):
        start, end = first, stop + 1
        if start == 0 or end >= motion.num_frames or not (moves[start - 1] or moves[end - 1]):
            continue
        when = format_time(motion, start, end)
        if end - start > settings.longest_s * motion.rate_hz:
            findings.append(f"gap {when} is longer than {settings.longest_s:g} s and was left unchanged")
            continue
        motion = interpolate_frames(motion, start, end, every, root=True)
        findings.append(f"gap {when} filled")
    return Correction(motion, tuple(findings))


REPEATED_SHARE: Final = 0.9  # [-] least fraction of periods with exactly one new frame


def drop_repeated_frames(motion: Motion) -> Correction:
    """Smooth a clip in which an exporter repeated every captured frame two, three or four times.

    New frames are kept and repeated ones interpolated, so that rate and number of frames do not change.
    """
    is_new = np.concatenate(
        [[True], geodesic_distance(motion.rotations[1:], motion.rotations[:-1]).max(axis=1, initial=0.0) > SAME_RAD]
    )
    news = np.flatnonzero(is_new)
    gaps = np.diff(news)
    if len(gaps) < 8:
        return Correction(motion)
    period = int(np.median(gaps))
    if not 2 <= period <= 4 or np.mean(gaps == period) < REPEATED_SHARE:
        return Correction(motion)
    # Every frame lies between two new ones; frames after the last new one are kept
    at = np.arange(motion.num_frames)
    low = news[np.searchsorted(news, at, side="right") - 1]
    position = np.searchsorted(news, low) + 1
    high = np.where(position < len(news), news[np.minimum(position, len(news) - 1)], low)
    share = np.where(high > low, (at - low) / np.maximum(high - low, 1), 0.0)
    p, R = motion.root_positions, motion.rotations
    wxyz = R[low].slerp(R[high], share[:, None]).wxyz.copy()
    wxyz[share == 0.0] = R.wxyz[low][share == 0.0]
    changed = replace(
        motion,
        root_positions=p[low] + share[:, None] * (p[high] - p[low]),
        rotations=SO3(wxyz),
        source=motion.edited_source(),
    )
    sentence = f"every frame was written {period} times: frames between the {motion.rate_hz / period:g} Hz interpolated"
    return Correction(changed, (sentence,))


@dataclass(frozen=True, slots=True)
class JumpSettings:
    """How far a frame may deviate from the adjacent frames."""

    longest: int = 3  # [frame] longest spike
    angle_rad: float = np.deg2rad(8.0)  # smallest spike of a joint
    distance_m: float = 0.04  # smallest spike of the root
    angular_acceleration: float = np.deg2rad(4e4)  # [rad/s²] largest of human motion: hands of a boxer
    acceleration: float = 60.0  # [m/s²] largest of a root, in a landing
    noise_factor: float = 6.0  # [-] least ratio of a spike to the median deviation in the second around it
    flip_rad: float = np.deg2rad(60.0)  # a joint that rotates by this in one frame has flipped ...
    flip_s: float = 0.5  # [s] ... and is repaired if it flips back within this time
    jump_m: float = 0.15  # excess of a step of the root over the previous step that counts as a jump


JUMP_SETTINGS: Final = JumpSettings()


def remove_spikes(motion: Motion, settings: JumpSettings = JUMP_SETTINGS) -> Correction:
    r"""Replace frames in which a joint or the root leaves its path for one to three frames and returns.

    An interval of :math:`w` frames is a spike if its distance from the arc between the adjacent frames exceeds three
    bounds: the reach of the largest acceleration, :math:`\alpha\,((w + 1)\,\Delta t / 2)^2 / 2`; a fixed angle; and a
    multiple of the median distance in the second around it.
    """
    findings: list[str] = []
    names = motion.skeleton.names
    for width in range(1, settings.longest + 1):
        if motion.num_frames < width + 4:
            break
        # Half of the time in which the largest acceleration leads away from the arc and back
        half_s = 0.5 * (width + 1) / motion.rate_hz
        # Smallest angle [rad] between the frames of the interval and the arc
        R, count = motion.rotations, motion.num_frames - width - 1
        before, after = R[:count], R[width + 1 :]
        apart = [
            geodesic_distance(R[k : k + count], before.slerp(after, np.asarray(k / (width + 1.0))))
            for k in range(1, width + 1)
        ]
        # Subtract half of the arc itself, since a fast rotation is not a spike
        off = np.maximum(np.min(apart, axis=0) - 0.5 * geodesic_distance(before, after), 0.0)
        least = max(settings.angle_rad, 0.5 * settings.angular_acceleration * half_s**2)
        joints = (off > least) & (off > settings.noise_factor * _local_median(off, motion.rate_hz))
        # The same for the root [m]
        roots = motion.root_positions
        start_m, chord_m = roots[:count], roots[width + 1 :] - roots[:count]
        apart = [
            np.linalg.norm(roots[k : k + count] - (start_m + k / (width + 1.0) * chord_m), axis=1)
            for k in range(1, width + 1)
        ]
        away = np.maximum(np.min(apart, axis=0) - 0.5 * np.linalg.norm(chord_m, axis=1), 0.0)
        least = max(settings.distance_m, 0.5 * settings.acceleration * half_s**2)
        root = (away > least) & (away > settings.noise_factor * _local_median(away[:, None], motion.rate_hz)[:, 0])
        # Of overlapping intervals the strongest is the spike: greedy selection in order of strength
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
            listed = ", ".join(what[:3]) + (f" and {len(what) - 3} more" if len(what) > 3 else "")
            sizes = [f"{np.rad2deg(off[start][which].max()):.0f}°"] if which.any() else []
            sizes += [f"{100 * away[start]:.0f} cm"] if lost else []
            when = format_time(motion, start + 1, start + 1 + width)
            findings.append(f"spike {when} of {listed}, {' and '.join(sizes)}, interpolated")
    return Correction(motion, tuple(findings))


def _local_median(values: FloatArray, rate_hz: float) -> FloatArray:
    """Median ``(N, C)`` over the second around each row."""
    half = max(2, round(0.5 * rate_hz))
    # One median per block of half a second and its neighbours, which keeps the cost linear in the length
    blocks = [np.median(values[max(0, i - half) : i + 2 * half], axis=0) for i in range(0, len(values), half)]
    return np.repeat(np.array(blocks), half, axis=0)[: len(values)]


def undo_flips(motion: Motion, settings: JumpSettings = JUMP_SETTINGS) -> Correction:
    """Interpolate intervals that begin and end with a flip of the same joint; a lasting flip is only reported."""
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
                findings.append(
                    f"{name} flips {format_time(motion, start, start + 1)} and does not return: left unchanged"
                )
    return Correction(motion, tuple(findings))


_LIMBS: Final = {"legs": ("hip", "knee", "ankle", "foot"), "arms": ("collar", "shoulder", "elbow", "wrist")}
_EXCHANGED: Final = 0.35  # [-] distance to the previous frame of swapped limbs over that of unswapped ones


def undo_exchanges(motion: Motion, roles: RoleMap | None = None) -> Correction:
    """Swap limbs back whose left and right channels were exchanged for an interval.

    At the first frame of such an interval each limb jumps to the pose of the other; after swapping, both are
    continuous. The interval ends when the limbs jump again.
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
        # Both limbs jump by more than a body can move, and match crosswise
        least = len(known) * max(JUMP_SETTINGS.angle_rad, JUMP_SETTINGS.angular_acceleration / motion.rate_hz**2)
        edges = (np.flatnonzero((crossed < _EXCHANGED * direct) & (direct > least)) + 1).tolist()
        for start, stop in zip(edges[::2], [*edges[1::2], motion.num_frames], strict=False):
            wxyz = motion.rotations.wxyz.copy()
            wxyz[start:stop, left + right] = motion.rotations.wxyz[start:stop, right + left]
            motion = replace(motion, rotations=SO3(wxyz), source=motion.edited_source())
            findings.append(f"left and right {limbs} swapped {format_time(motion, start, stop)}: swapped back")
    return Correction(motion, tuple(findings))


def _pair_distance(R: SO3, now: list[int], before: list[int]) -> FloatArray:
    """Sum over joints of the angle ``(F - 1,)`` [rad] between joints in a frame and others in the frame before."""
    return geodesic_distance(R[1:, now], R[:-1, before]).sum(axis=1)


def undo_root_jumps(motion: Motion, settings: JumpSettings = JUMP_SETTINGS) -> Correction:
    """Remove jumps of the root in which the whole body keeps its pose.

    The excess of the step over the adjacent steps is subtracted from all later frames. If the pose changes too, the
    jump is a cut between two takes, which is reported and left unchanged.
    """
    steps = np.diff(motion.root_positions, axis=0)
    if len(steps) < 3:
        return Correction(motion)
    padded = np.concatenate([steps[:1], steps, steps[-1:]])
    expected = 0.5 * (padded[:-2] + padded[2:])  # of the steps before and after
    excess = np.linalg.norm(steps - expected, axis=1)
    # Both neighbours of a jump have half of its excess, so the largest of a run is the jump
    jumps = excess > max(settings.jump_m, settings.acceleration / motion.rate_hz**2)
    pose_steps = geodesic_distance(motion.rotations[1:], motion.rotations[:-1]).max(axis=1)
    positions = motion.root_positions.copy()
    findings: list[str] = []
    for start, stop in find_runs(jumps):
        f = start + int(np.argmax(excess[start:stop]))
        when = format_time(motion, f + 1, f + 2)
        size = f"{100 * float(np.linalg.norm(steps[f])):.0f} cm"
        if pose_steps[f] > settings.flip_rad / 2:
            findings.append(f"cut {when}: the body moves by {size} and changes its pose; left unchanged")
            continue
        positions[f + 1 :] -= steps[f] - expected[f]
        findings.append(f"the root jumps by {size} {when}: later frames moved back")
    if not findings or (positions == motion.root_positions).all():
        return Correction(motion, tuple(findings))
    return Correction(replace(motion, root_positions=positions, source=motion.edited_source()), tuple(findings))


@dataclass(frozen=True, slots=True)
class TremorSettings:
    """When to filter, and at which cut-off frequencies."""

    least_mm: float = 1.0  # RMS tremor of a joint in one direction below which it is invisible and left unfiltered
    lowest_hz: float = 6.0  # lowest cut-off: the bandwidth of walking
    highest_hz: float = 16.0  # highest cut-off: the bandwidth of landings and strokes
    num_cutoffs: int = 24  # number of cut-offs that are tried


TREMOR_SETTINGS: Final = TremorSettings()
MAX_FRAMES: Final = 2400  # [frame] of the middle of a long clip, sufficient to measure its tremor


def measure_tremor(motion: Motion, settings: TremorSettings = TREMOR_SETTINGS) -> tuple[float, float]:
    r"""RMS tremor [m] of the joints about the root, and the cut-off frequency [Hz] that removes it.

    Residual analysis ([Winter2009]_ §3.4.4.3): the RMS difference :math:`R(f_c)` between a signal and the signal
    filtered at :math:`f_c` falls along a straight line where only noise is removed. The line, fitted over the upper
    half of the cut-offs, meets :math:`f_c = 0` at the noise :math:`a`; the cut-off is where :math:`R(f_c) = a`.
    Returns zero and half the rate for a clip that is too short or has too low a rate.
    """
    top_hz = 0.45 * motion.rate_hz
    if motion.num_frames < motion.rate_hz or top_hz < 2.0 * settings.highest_hz:
        return 0.0, 0.5 * motion.rate_hz
    start = max(0, (motion.num_frames - MAX_FRAMES) // 2)
    part = motion[start : start + MAX_FRAMES]
    positions = part.joint_positions()
    signals = (positions - positions[:, :1])[:, 1:].reshape(len(positions), -1)
    cutoffs = np.linspace(0.5 * settings.lowest_hz, top_hz, settings.num_cutoffs)
    residuals = np.array(
        [np.sqrt(np.mean((signals - lowpass_values(signals, part.rate_hz, float(cutoff))) ** 2)) for cutoff in cutoffs]
    )
    # A line through the residuals of cut-offs above the bandwidth of bodies, where only noise remains
    upper = cutoffs > max(2.0 * settings.highest_hz, 0.5 * top_hz)
    slope, noise_m = np.polyfit(cutoffs[upper], residuals[upper], 1)
    if slope > 0.0 or noise_m <= 0.0:
        return 0.0, 0.5 * motion.rate_hz
    below = np.flatnonzero(residuals <= noise_m)
    cutoff = float(cutoffs[below[0]]) if len(below) else float(cutoffs[-1])
    return float(noise_m), float(np.clip(cutoff, settings.lowest_hz, settings.highest_hz))


def remove_tremor(motion: Motion, settings: TremorSettings = TREMOR_SETTINGS) -> Correction:
    """Low-pass a clip whose joints tremble by more than ``least_mm``, at the cut-off of :func:`measure_tremor`."""
    noise_m, cutoff_hz = measure_tremor(motion, settings)
    if 1e3 * noise_m < settings.least_mm:
        return Correction(motion)
    sentence = f"joints tremble by {1e3 * noise_m:.1f} mm RMS: filtered at {cutoff_hz:.1f} Hz"
    return Correction(lowpass(motion, cutoff_hz), (sentence,))
