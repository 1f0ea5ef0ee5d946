"""Motion units: one cycle of walking or running as a table of numbers, with its subject, gait and speed.

A captured clip is cut at its foot strikes; flips of joints are repaired before. A stretch becomes a unit when its cycle
is closed, straightened and resampled to a fixed number of frames; the feet of the units are then levelled, so that the
offsets of one subject's sensors are removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.kinematics import retarget
from marey.lie import SO3, frechet_mean
from marey.motion import GaitCycle, Motion, align_to_ground, gait_cycles, headings, lowpass, resample
from marey.skeleton import HUMAN, Skeleton, foot_points, joint_frames, leg_length, role_map

LEG_PARTS: Final = ("pelvis", "hip", "knee", "ankle", "foot")  # ends of the names of the lower body's joints
NEAR_RAD: Final = float(np.deg2rad(5.0))  # axes of smaller rotations are noise
FAR_RAD: Final = float(np.deg2rad(90.0))
SPREAD_RAD: Final = float(np.deg2rad(20.0))


@dataclass(frozen=True, slots=True, eq=False)
class MotionUnit:
    """One cycle, from right strike to right strike (end excluded), on the model's skeleton."""

    root: FloatArray  # (N, 3) sway of the root over leg length; y is its height
    wxyz: FloatArray  # (N, J, 4) the root's relative to the heading
    subject: str
    gait: str  # "walk", "run" or "stand"
    speed_n: float  # [1/s] normalised speed
    speed_mps: float  # as captured
    leg_length_m: float  # of the performer
    duration_s: float  # as captured
    clip: str = ""
    start: int = 0  # frames of the clip
    stop: int = 0
    side: str = "right"  # the foot that strikes at its first captured frame
    opposite: float = 0.5  # phase at which the other foot struck, before time was warped

    @property
    def num_frames(self) -> int:
        """Frames of the unit."""
        return len(self.root)


def joint_means(wxyz: FloatArray) -> FloatArray:
    """Karcher means ``(J, 4)`` of the joints of many poses ``(n, J, 4)``."""
    return frechet_mean(SO3(wxyz)).wxyz


def unit_rows(root: FloatArray, wxyz: FloatArray, means: FloatArray) -> FloatArray:
    r"""Rows ``(N, 3 + 3 J)`` of a unit: root, then :math:`v_j = \log(\bar q_j^{-1} q_j)` of every joint."""
    logs = (SO3(means).inverse() @ SO3(wxyz)).log()
    return np.concatenate([root, unwrap_rotation_vectors(logs).reshape(len(root), -1)], axis=1)


def unwrap_rotation_vectors(logs: FloatArray) -> FloatArray:
    r"""Rotation vectors ``(N, J, 3)`` that follow the frame before: :math:`v \leftarrow v (1 - 2\pi/\|v\|)`."""
    out = logs.copy()
    for i in range(1, len(out)):
        far = np.linalg.norm(out[i] - out[i - 1], axis=-1) > np.pi
        size = np.linalg.norm(out[i][far], axis=-1, keepdims=True)
        out[i][far] *= 1.0 - 2.0 * np.pi / size
    return out


def find_far_rotations(table: FloatArray, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Joints for which lines may not replace arcs: largest angle and largest angle between axes [rad], by name.

    Linear operations on rotation vectors are safe while these are short or nearly parallel ([Glardon2005]_ §II.2.2);
    a joint is reported when its vectors exceed 90° and their axes differ by more than 20° at one frame.

    Args:
        table: ``(n, N, D)`` rows of units.
        names: ``(J,)`` of the joints.
    """
    logs = table[..., 3:].reshape(*table.shape[:2], len(names), 3)
    sizes = np.linalg.norm(logs, axis=-1)
    # Largest angle between the axes of one frame, whichever way they turn; short vectors have no axis
    spread = np.zeros(len(names))
    for f in range(table.shape[1]):
        axes = logs[:, f] / np.maximum(sizes[:, f, :, None], 1e-12)
        across = np.abs(np.einsum("aji,bji->abj", axes, axes))
        both = (sizes[:, None, f] > NEAR_RAD) & (sizes[None, :, f] > NEAR_RAD)
        angles = np.arccos(np.clip(np.where(both, across, 1.0), -1.0, 1.0))
        spread = np.maximum(spread, angles.max(axis=(0, 1)))
    largest = sizes.max(axis=(0, 1))
    told = (largest > FAR_RAD) & (spread > SPREAD_RAD)
    return {names[j]: (float(largest[j]), float(spread[j])) for j in np.flatnonzero(told).tolist()}


def rotations_from_rows(rows: FloatArray, means: FloatArray) -> FloatArray:
    """Joint rotations ``(..., J, 4)`` of rows ``(..., 3 + 3 J)``."""
    logs = rows[..., 3:].reshape(*rows.shape[:-1], len(means), 3)
    return (SO3(means) @ SO3.exp(logs)).wxyz


class Cycle(NamedTuple):
    """Frames of one cycle: root ``(N, 3)`` and joint rotations ``(N, J, 4)`` wxyz."""

    root: FloatArray
    wxyz: FloatArray


def closing_residual(start: FloatArray, end: FloatArray) -> FloatArray:
    """Angle ``(J,)`` [rad] between the first and the last pose ``(J, 4)`` of a cycle."""
    return (SO3(end).inverse() @ SO3(start)).angle()


def close_cycle(root: FloatArray, wxyz: FloatArray) -> Cycle:
    r"""Make the end of a cycle equal its start, end frame included.

    .. math:: x(u) \leftarrow x(u) - u\,(x(1) - x(0)), \qquad q(u) \leftarrow q(u)\exp(u\,\log(q(1)^{-1} q(0)))

    The drift of the root goes too: what is left is the sway of a walk on a treadmill.
    """
    u = np.linspace(0.0, 1.0, len(root))
    drift = (SO3(wxyz[-1]).inverse() @ SO3(wxyz[0])).log()
    turned = SO3(wxyz) @ SO3.exp(u[:, None, None] * drift)
    return Cycle(root - u[:, None] * (root[-1] - root[0]), turned.wxyz)


def straighten_cycle(root: FloatArray, wxyz: FloatArray, heading_rad: float) -> Cycle:
    """Turn a stretch so that it travels along +Z, seen from a carriage that moves evenly with it."""
    R_turn = SO3.exp(np.array([0.0, -heading_rad, 0.0]))
    turned = wxyz.copy()
    turned[:, 0] = (R_turn @ SO3(wxyz[:, 0])).wxyz
    return Cycle(R_turn @ root, turned)


def warp_phases(count: int, opposite: float) -> FloatArray:
    r"""Phases ``(N,)`` of the source at which to sample so that the other foot strikes at one half.

    .. math:: \varphi_{out} = \varphi + (\tfrac12 - \varphi_o) \sin^2 \pi\varphi

    which is smooth all the way round; inverted by a table.
    """
    source = np.linspace(0.0, 1.0, 1001)
    shift = (0.5 - opposite) / np.sin(np.pi * opposite) ** 2
    return np.interp(np.arange(count) / count, source + shift * np.sin(np.pi * source) ** 2, source)


def resample_cycle(cycle: Cycle, phases: FloatArray) -> Cycle:
    """Sample a closed cycle (end frame included) at phases in ``[0, 1]``: vectors by lines, rotations by arcs."""
    return sample_frames(*cycle, np.asarray(phases % 1.0, dtype=np.float64) * (len(cycle.root) - 1))


def sample_frames(root: FloatArray, wxyz: FloatArray, where: FloatArray) -> Cycle:
    """Roots ``(n, 3)`` and rotations ``(n, J, 4)`` at places between frames, the first of which is zero."""
    low = np.minimum(where.astype(np.int64), len(root) - 2)
    part = (where - low)[:, None]
    between = SO3(wxyz[low]).slerp(SO3(wxyz[low + 1]), part)
    return Cycle(root[low] + part * (root[low + 1] - root[low]), between.wxyz)


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
    # Repairs of arms, legs and trunk are told; toes and fingers tremble in every capture.
    roles = role_map(motion.skeleton).joints
    limbs = {motion.skeleton.names[j] for role, j in roles.items() if not role.endswith(("_foot", "_wrist"))}
    notes: list[str] = []
    for joint in np.flatnonzero(fast.any(axis=0)).tolist():
        # Flips near each other are one cluster; clusters that are too long, or at an end, are left.
        clusters: list[tuple[int, int]] = []
        for flip in np.flatnonzero(fast[:, joint]).tolist():
            if clusters and flip - clusters[-1][1] <= FLIP_CLUSTER_GAP_S * motion.rate_hz:
                clusters[-1] = (clusters[-1][0], flip)
            else:
                clusters.append((flip, flip))
        for begin, end in clusters:
            first, last = begin - FLIP_MARGIN_FRAMES, end + 1 + FLIP_MARGIN_FRAMES
            if first < 0 or last >= motion.num_frames or last - first > MAX_SPAN_S * motion.rate_hz:
                continue
            count = last - first + 1
            start = SO3(np.broadcast_to(wxyz[first, joint], (count, 4)))
            wxyz[first : last + 1, joint] = start.slerp(SO3(wxyz[last, joint]), np.linspace(0.0, 1.0, count)).wxyz
            if motion.skeleton.names[joint] in limbs:
                notes.append(f"{motion.name}: '{motion.skeleton.names[joint]}' bridged over frames {first} to {last}")
    if not fast.any():
        return motion, ()
    return replace(motion, rotations=SO3(wxyz), source=None), tuple(notes)


NUM_FRAMES: Final = 50  # of a unit; the thesis has 25, half as many as a run needs
MIN_FRAMES: Final = 60  # a clip of fewer ...
MIN_SECONDS: Final = 0.5  # [s] ... that is also shorter than this holds no cycle worth trusting
RUN_PHASE_RAD: Final = (float(np.deg2rad(-110.0)), float(np.deg2rad(75.0)))  # of the root's height in a run
SLOWEST_RATE_HZ: Final = 60.0  # [Hz] slower clips are resampled: strikes are found to the frame
LONGEST_LOOP_S: Final = 3.0
MAX_LOOP_GAP_RAD: Final = float(np.deg2rad(15.0))  # between the ends of a loop: of a leg joint, and of the heading
MIN_LOOP_SWING_RAD: Final = float(np.deg2rad(25.0))  # of a leg joint in a loop that steps
SLOWEST_RUN: Final = 1.3  # [1/s] normalised speed, 1.2 m/s: who bounces more slowly does not run
SMOOTHING_HZ: Final = {"walk": 8.0, "run": 12.0}
MAX_RESIDUAL_RAD: Final = float(np.deg2rad(22.0))  # of a leg joint between the ends of a cycle
CYCLE_END_SEARCH: Final = 0.05  # [-] of the cycle: how far its end may slide to meet its start
MAX_SIDEWAYS_RAD: Final = float(np.deg2rad(20.0))  # between where the body faces and where it goes
CADENCES: Final = {"walk": (0.6, 1.3), "run": (0.8, 1.18)}
"""Over the usual one: cycles outside were cut wrongly, or their clip has a wrong frame rate."""

LEG_JOINTS: Final = tuple(f"{side}_{part}" for side in ("left", "right") for part in ("hip", "knee", "ankle"))
LIMB_JOINTS: Final = (*LEG_JOINTS, *(f"{side}_{part}" for side in ("left", "right") for part in ("shoulder", "elbow")))
ANKLE_HEIGHT_FRACTION: Final = 0.039 / 0.491  # height of the ankle over thigh and shank, [Winter2009]_ fig. 4.1
LANDED_HEIGHT_FRACTION: Final = {"walk": 0.01, "run": 0.03}  # [-] of the leg: a sole so near its lowest has struck


@dataclass(frozen=True, slots=True)
class RejectedCycle:
    """A cycle that was left out, and why."""

    clip: str
    start: int
    stop: int
    reason: str


def measure_leg_length(skeleton: Skeleton) -> float:
    """Leg length [m] of a performer: thigh, shank and the height of the ankle."""
    return leg_length(skeleton, role_map(skeleton)) * (1.0 + ANKLE_HEIGHT_FRACTION)


def segment_clip(
    motion: Motion, subject: str, gait: str | None = None, *, num_frames: int = NUM_FRAMES, skeleton: Skeleton = HUMAN
) -> tuple[list[MotionUnit], list[RejectedCycle], list[str]]:
    """All regular, straight cycles of a clip as units on ``skeleton``, those left out, and what was mended.

    Args:
        motion: any clip of a body with legs.
        subject: who moves.
        gait: ``"walk"`` or ``"run"``; cycles of the other gait are left out. Each has the gait it shows by default.
        num_frames: of every unit.
        skeleton: the canonical human.

    Raises:
        InputError: the clip is too short to hold a cycle.
    """
    if motion.num_frames < MIN_FRAMES and motion.duration_s < MIN_SECONDS:
        raise InputError(f"clip '{motion.name}' has {motion.num_frames} frames", f"Give {MIN_FRAMES} or more")
    whole, notes = repair_joint_flips(motion)
    if whole.rate_hz < SLOWEST_RATE_HZ:
        whole = resample(whole, SLOWEST_RATE_HZ)
    body = align_to_ground(retarget(whole, skeleton, contacts=False))
    if body.duration_s < LONGEST_LOOP_S and is_loop(body):
        body, notes = repeat_loop(body), (*notes, f"{motion.name}: a loop, played three times")
    smooth = {g: lowpass(body, hz) if body.rate_hz > 2.5 * hz else body for g, hz in SMOOTHING_HZ.items()}
    leg_m, own_leg_m = measure_leg_length(motion.skeleton), measure_leg_length(skeleton)
    units: list[MotionUnit] = []
    rejected: list[RejectedCycle] = []
    for cycle in gait_cycles(body):
        seen = detect_gait(body.root_positions[cycle.start : cycle.stop])
        found = _build_unit(smooth[seen], body, cycle, num_frames, LANDED_HEIGHT_FRACTION[seen])
        if gait not in (None, seen):
            found = f"a {seen}: the pelvis is {'lowest' if seen == 'run' else 'highest'} over the standing foot"
        if isinstance(found, str):
            rejected.append(RejectedCycle(motion.name, cycle.start, cycle.stop, found))
            continue
        unit = replace(found, subject=subject, gait=seen, clip=motion.name, leg_length_m=leg_m)
        if body.rate_hz != motion.rate_hz:
            first, last = (round(frame * motion.rate_hz / body.rate_hz) for frame in (unit.start, unit.stop))
            unit = replace(unit, start=first, stop=last)
        # The cycle was measured on the model's body, all lengths scaled by the legs: its speed becomes the performer's
        # own, and is normalised so that equal Froude numbers are equal speeds.
        scale = own_leg_m / leg_m
        speed_mps = unit.speed_mps / scale
        unit = replace(unit, speed_mps=speed_mps, speed_n=speed_mps * np.sqrt(scale) / own_leg_m)
        cadence = float(np.sqrt(leg_m / own_leg_m)) / unit.duration_s
        if seen == "run" and unit.speed_n < SLOWEST_RUN:
            reason = f"bounces at {speed_mps:.1f} m/s: neither a walk nor a run"
            rejected.append(RejectedCycle(motion.name, cycle.start, cycle.stop, reason))
            continue
        ratio = cadence / expected_cadence(unit.speed_n, seen)
        if not CADENCES[seen][0] < ratio < CADENCES[seen][1]:
            reason = f"{ratio:.2f} times the usual cadence of a {seen}"
            rejected.append(RejectedCycle(motion.name, cycle.start, cycle.stop, reason))
            continue
        units.append(unit)
    return units, rejected, list(notes)


def is_loop(body: Motion) -> bool:
    """Whether a short clip ends as it began, upright and facing the same way, having stepped in between."""
    legs = [body.skeleton.index(name) for name in LEG_JOINTS]
    wxyz, facing = body.rotations.wxyz, headings(body)
    turn = (float(facing[-1] - facing[0]) + np.pi) % (2.0 * np.pi) - np.pi
    moved = float(np.max([closing_residual(wxyz[0, legs], wxyz[i, legs]).max() for i in range(len(wxyz))]))
    ends = float(closing_residual(wxyz[0, legs], wxyz[-1, legs]).max())
    # A loop may lack its last frame: its ends are then apart by a step from frame to frame
    step = float(np.max([closing_residual(wxyz[i, legs], wxyz[i + 1, legs]).max() for i in (0, len(wxyz) - 2)]))
    return abs(turn) < MAX_LOOP_GAP_RAD and ends < max(MAX_LOOP_GAP_RAD, 2.0 * step) and moved > MIN_LOOP_SWING_RAD


def repeat_loop(body: Motion) -> Motion:
    """A loop three times, one after the other; its last frame is the first of the next."""
    count = body.num_frames - 1
    way = (body.root_positions[-1] - body.root_positions[0]) * np.array([1.0, 0.0, 1.0])
    closed = close_cycle(body.root_positions, body.rotations.wxyz)
    steps = np.arange(3 * count)[:, None] / count
    wxyz = np.tile(closed.wxyz[:-1], (3, 1, 1))
    return replace(
        body, root_positions=np.tile(closed.root[:-1], (3, 1)) + steps * way, rotations=SO3(wxyz), contacts=None
    )


def detect_gait(root: FloatArray) -> str:
    r"""Whether the root ``(n, 3)`` walks or runs over a cycle that begins where a foot reaches farthest.

    .. math:: \varphi = \arg \sum_i y_i\,e^{-4\pi\mathrm{i}\,i/n}

    A walker vaults over the standing leg as an inverted pendulum, a runner sinks into it as a spring, so the second
    harmonic of the height has its crest half a step apart: 97 to 201 degrees in the walks of the shipped manifest, -71
    to 43 in its runs (in other people 94 to 191 and -86 to 62, single leaps apart).
    """
    drift = np.linspace(float(root[0, 1]), float(root[-1, 1]), len(root))
    height: FloatArray = root[:, 1] - drift
    angles = 4.0 * np.pi * np.arange(len(root)) / len(root)
    phase = float(np.arctan2(-height @ np.sin(angles), height @ np.cos(angles)))
    return "run" if RUN_PHASE_RAD[0] < phase < RUN_PHASE_RAD[1] else "walk"


def expected_cadence(speed_n: float, gait: str) -> float:
    """Cycles per second [Hz] at a normalised speed [1/s], over 346 walks and 111 runs of public captures."""
    return 0.776 * speed_n**0.425 if gait == "walk" else 1.03 + 0.127 * speed_n


def _build_unit(smooth: Motion, body: Motion, cycle: GaitCycle, num_frames: int, landed: float) -> MotionUnit | str:
    """One unit on the body it was captured on, or why not; the right foot strikes at its first frame."""
    # Height `(F,)` [m] of the lower of heel and ball, by side
    feet = foot_points(body.skeleton)
    points = feet.positions(*body.joint_frames())[..., 1]
    sides = ("left", "right")
    heights = {s: points[:, [feet.index(f"{s}_heel"), feet.index(f"{s}_ball")]].min(axis=1) for s in sides}
    # Strikes are moved from the farthest reach to where the sole meets the ground.
    other = "left" if cycle.side == "right" else "right"
    start = _find_landing_frame(heights[cycle.side], cycle.start, body, landed)
    stop = _find_landing_frame(heights[cycle.side], cycle.stop, body, landed)
    opposite = _find_landing_frame(heights[other], cycle.opposite, body, landed)
    turn = (headings(body)[start:stop] - cycle.heading_rad + np.pi) % (2.0 * np.pi) - np.pi
    if abs(float(np.mean(turn))) > MAX_SIDEWAYS_RAD:
        return "sideways or backwards"
    if stop >= body.num_frames or start < 0 or stop - start < 20:
        return "cut off"
    joints = [body.skeleton.index(name) for name in LIMB_JOINTS]
    speed = joint_angular_speeds(body.rotations.wxyz[start : stop + 1][:, joints], body.rate_hz).max()
    if speed > FLIP_RAD_S:
        return f"a joint turns at {np.rad2deg(speed):.0f} degrees a second"
    # The end of the cycle slides to the frame whose pose is nearest to its start.
    legs = [body.skeleton.index(name) for name in LEG_JOINTS]
    wxyz, reach = smooth.rotations.wxyz[:, legs], round(CYCLE_END_SEARCH * (stop - start))
    tried = range(stop - reach, min(stop + reach, smooth.num_frames - 1) + 1)
    stop = tried[int(np.argmin([np.square(closing_residual(wxyz[start], wxyz[i])).sum() for i in tried]))]
    residual = closing_residual(wxyz[start], wxyz[stop]).max()
    if residual > MAX_RESIDUAL_RAD:
        return f"its ends differ by {np.rad2deg(residual):.0f} degrees"
    cut = slice(start, stop + 1)
    straight = straighten_cycle(smooth.root_positions[cut], smooth.rotations.wxyz[cut], cycle.heading_rad)
    part = (opposite - start) / (stop - start)
    even = resample_cycle(close_cycle(*straight), warp_phases(num_frames, part))
    if cycle.side == "left":
        # A cycle that begins with a left strike is rolled so that the right strike inside it comes first.
        half = len(even.root) // 2
        even = Cycle(np.roll(even.root, -half, axis=0), np.roll(even.wxyz, -half, axis=0))
    # The root is about the middle of its sway; the ground is where soles are at their lowest, both feet alike.
    floor_m = float(np.mean([np.percentile(heights[side][cut], 10.0) for side in heights]))
    root = even.root - even.root.mean(axis=0) * np.array([1.0, 0.0, 1.0]) - np.array([0.0, floor_m, 0.0])
    chord = smooth.root_positions[stop] - smooth.root_positions[start]
    path_mps = float(np.hypot(chord[0], chord[2])) * smooth.rate_hz / (stop - start)
    return MotionUnit(
        root / measure_leg_length(body.skeleton),
        even.wxyz,
        "",
        "",
        0.0,
        cycle.speed_mps if cycle.is_treadmill else path_mps,
        0.0,
        (stop - start) / body.rate_hz,
        start=start,
        stop=stop,
        side=cycle.side,
        opposite=part if cycle.side == "right" else 1.0 - part,
    )


def _find_landing_frame(height: FloatArray, peak: int, motion: Motion, landed: float) -> int:
    """First frame after the foot reached farthest at which its sole is near the ground of the coming stance."""
    span = round(0.25 * motion.rate_hz)
    ahead = height[peak : peak + span]
    near = float(ahead.min()) + landed * measure_leg_length(motion.skeleton)
    down = np.flatnonzero(ahead <= near)
    return peak + int(down[0]) if len(down) else peak


FLAT_PHASES: Final = {"walk": (0.12, 0.28), "run": (0.06, 0.13)}  # phases at which the whole sole is down
MAX_PITCH_RAD: Final = float(np.deg2rad(12.0))  # larger values are a running style, not an offset of the capture
SIDES: Final = ("right", "left")
LATERAL_AXIS: Final = np.array([1.0, 0.0, 0.0])


def level_feet(units: Sequence[MotionUnit], leg_length_m: float) -> list[MotionUnit]:
    """Units whose feet are flat, and on the ground, when the whole sole is down.

    The pitch of a foot against the shank depends on where its markers sat: it is measured for each person and foot as
    the mean over all walks (runs where there is no walk), and taken out of the ankle. The height of the root is then
    set for each unit so that the ankles are at the height of a standing body's.
    """
    people = dict.fromkeys(unit.subject for unit in units)
    pitches = {person: foot_pitches([unit for unit in units if unit.subject == person]) for person in people}
    rest, level = HUMAN.rest_positions(), list[MotionUnit]()
    for unit in units:
        # Ankles are pitched up about the foot's own axis across.
        root, wxyz = unit.root.copy(), unit.wxyz.copy()
        for side in (0, 1):
            ankle = HUMAN.index(f"{SIDES[side]}_ankle")
            turn = SO3.exp(-pitches[unit.subject][side] * LATERAL_AXIS)
            wxyz[:, ankle] = (SO3(wxyz[:, ankle]) @ turn).wxyz
        # Height over a standing body's while the foot is flat: of the ankle, in a run of the lower of ankle and ball
        positions, _ = joint_frames(HUMAN, unit.root * leg_length_m, wxyz)
        lifts: list[float] = []
        for side in (0, 1):
            parts = [HUMAN.index(f"{SIDES[side]}_{part}") for part in ("ankle", "foot")]
            heights = positions[flat_frames(unit, side)][:, parts, 1] - rest[parts, 1]
            lifts.append(float(heights[:, 0].mean() if unit.gait == "walk" else heights.min(axis=1).mean()))
        root[:, 1] -= np.mean(lifts) / leg_length_m
        level.append(replace(unit, root=root, wxyz=wxyz))
    return level


def foot_pitches(units: Sequence[MotionUnit]) -> FloatArray:
    """Mean pitch ``(2,)`` [rad] of right and left foot against level while flat; positive has the toes too low."""

    def slope(line: FloatArray) -> FloatArray:
        return np.arctan2(-line[..., 1], np.hypot(line[..., 0], line[..., 2]))

    pitches: list[list[float]] = []
    for unit in [unit for unit in units if unit.gait == "walk"] or units:
        # How much steeper than at rest the line from ankle to ball points down while the foot is flat
        positions, _ = joint_frames(HUMAN, unit.root, unit.wxyz)
        both: list[float] = []
        for side in (0, 1):
            ankle, ball = (HUMAN.index(f"{SIDES[side]}_{part}") for part in ("ankle", "foot"))
            down = slope(positions[:, ball] - positions[:, ankle])[flat_frames(unit, side)]
            both.append(float(down.mean() - slope(HUMAN.offsets[ball])))
        pitches.append(both)
    return np.clip(np.mean(pitches, axis=0), -MAX_PITCH_RAD, MAX_PITCH_RAD)


def flat_frames(unit: MotionUnit, side: int) -> BoolArray:
    """Whether the whole sole of a foot is down, at each frame ``(N,)``."""
    begin, end = FLAT_PHASES[unit.gait]
    phases = (np.arange(unit.num_frames) / unit.num_frames - 0.5 * side) % 1.0
    return (phases >= begin) & (phases <= end)
