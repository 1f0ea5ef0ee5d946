"""Preparation of clips: what a figure can stand on, from what was captured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, frozen
from marey.contacts import detect_contacts, feet_down
from marey.control.balance import HORIZONTAL_AXES, find_bounces, smooth_values, sole_frame, sole_target
from marey.kinematics import solve_two_bone
from marey.lie import SO3
from marey.motion import Contacts, Motion, find_runs, lowpass, resample
from marey.simulate import contact_spheres
from marey.skeleton import Skeleton, role_map, t_pose

SIDES: Final = ("left", "right")
UP: Final = np.array([0.0, 1.0, 0.0])
MIN_FRAMES: Final = 4  # of a clip at the rate of control: differences of its accelerations exist
SMOOTHING_HZ: Final = 8.0  # faster components are noise of the capture ...
RUN_HZ: Final = 12.0  # ... and in a run these are
ROLLED_RAD: Final = (0.5, -0.25)  # [rad] by which a foot rolls further than in the clip at most: over ball, over heel
ASTRIDE_M: Final = 0.1  # [m] between hip and ankle, seen from above, from which it does
RAISED_M: Final = 0.03  # [m] of a heel over its ball, from which it does, too: in the push-off to a jump
ROLL_ROUNDS: Final = 12  # of finding that angle: to a hundredth of a degree
GROUNDING_ROUNDS: Final = 2  # of bringing a body down to its feet
SHORT_PERCENT: Final = 50.0  # of the heights of feet that do not reach the floor
LONGEST_LEG: Final = 0.993  # [-] of a leg: knees keep 13 degrees to balance with
BEND_RAD: Final = 0.1  # [rad] by which knees are bent before they are put back: more than captured ones bend backwards
CLEARANCE_M: Final = 0.015  # [m] of a swinging sole above the floor ...
RUN_CLEARANCE_M: Final = 0.03  # [m] likewise, of a runner's foot and toes
RAMP_S: Final = 0.08  # [s] ... but for this time at both ends of its swing
FLAT_RAD: Final = 0.15  # [rad] a sole with less pitch is about flat
LEVEL_PERCENT: Final = 60.0  # of its pitch then: it lies flat before its heel rises
LEVEL_RAD: Final = 0.05  # [rad] a sole whose ball is raised by less lies flat
RISE_RAD: Final = 0.02  # [rad] a sole whose heel is raised by less lies flat
TOES_RAD: Final = 0.7  # [rad] that toes bend upwards at most
FLATTEST_PERCENT: Final = 30.0  # of a stance that is never flat, for its place and heading
LIFT_S: Final = 0.05  # [s] over which the rise of a heel is smoothed
AHEAD_S: Final = (0.02, 0.01)  # [s] by which it is over its place before it lands, in a walk and in a run
STOP_S: Final = 0.14  # [s] in which a foot comes to rest before it lands
FREE_RAD: Final = 0.3  # [rad] a foot that stands on its ball so steeply turns as in the clip
LEFT_M: Final = 0.015  # [m] a sole whose corners are all higher has left the ground
TRIM_S: Final = 0.05  # [s] that is trimmed from either end of a bounce at most
LANDED_M_S: Final = 1.0  # [m/s] of the lowest point of a foot that has not landed yet
LEAVING_M_S: Final = 0.6  # [m/s] of one that has left
FLICKER_S: Final = 0.08  # [s] shorter swings and stances are not steps
JUMP_RAD_S: Final = 60.0  # [rad/s] no joint of a person turns faster
BRIDGE_S: Final = 0.08  # [s] before and after a jump that are not trusted
FLOOR_PERCENT: Final = 50.0  # of the heights of the lowest corner of standing soles


@dataclass(frozen=True, slots=True, eq=False)
class Soles:
    """Contact points of both feet: corners of the soles, fixed to the ankles, and toes."""

    joints: tuple[int, int]  # ankles, left and right
    corners: FloatArray  # (2, 4, 3) [m] heel left, heel right, ball left, ball right, in the ankle's frame
    toe_joints: tuple[int, int]
    toes: FloatArray  # (2, 3) [m] in the frames of their joints
    toe_radius_m: float

    def places(self, origins: FloatArray, frames: FloatArray) -> FloatArray:
        """Corners and toes ``(2, 5, 3)`` [m] in world, for joints at ``origins (J, 3)`` with ``frames (J, 3, 3)``."""
        ankles, toes = list(self.joints), list(self.toe_joints)
        found = np.empty((2, 5, 3))
        found[:, :4] = origins[ankles][:, None] + np.einsum("aij,acj->aci", frames[ankles], self.corners)
        found[:, 4] = origins[toes] + np.einsum("aij,aj->ai", frames[toes], self.toes)
        found[:, 4, 1] -= self.toe_radius_m
        return found


def find_soles(skeleton: Skeleton) -> Soles:
    """Corners of the soles of a skeleton.

    Raises:
        InputError: it lacks two feet.
    """
    spheres, names = contact_spheres(skeleton)
    wanted = [[f"{side}_{part}_{way}" for part in ("heel", "ball") for way in SIDES] for side in SIDES]
    if any(name not in names for foot in wanted for name in foot):
        raise InputError(f"'{skeleton.name}' lacks two feet to stand on", "Name its ankles; see marey.skeleton.ROLES")
    numbers = [[names.index(name) for name in foot] for foot in wanted]
    left, right = (int(spheres.joints[foot[0]]) for foot in numbers)
    toes = [names.index(f"{side}_toe") for side in SIDES]
    return Soles(
        (left, right),
        frozen(spheres.offsets[np.array(numbers)], 2, 4, 3, name="corners"),
        (int(spheres.joints[toes[0]]), int(spheres.joints[toes[1]])),
        frozen(spheres.offsets[np.array(toes)], 2, 3, name="toes"),
        float(spheres.radii[toes[0]]),
    )


def find_leg(motion: Motion, side: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Places ``(F, 3)`` [m] of hip and ankle, and the length ``(F,)`` [m] of the straight leg between them."""
    places, roles = motion.joint_positions(), role_map(motion.skeleton)
    hip, knee, ankle = (places[:, roles[f"{side}_{part}"]] for part in ("hip", "knee", "ankle"))
    return hip, ankle, np.linalg.norm(hip - knee, axis=1) + np.linalg.norm(knee - ankle, axis=1)


FootPath = tuple[FloatArray, SO3, SO3 | None]  # places (F, 3) [m] and turns (F,) of an ankle in world, and of its toes


def put_feet(motion: Motion, feet: Sequence[FootPath], down: BoolArray) -> Motion:
    """Clip whose ankles are on paths, left and right, as far as the legs reach, and whose toes are bent.

    A foot that is down ``(F, 2)`` and whose leg is too short rolls further: behind the body, or on its ball already, it
    raises its heel, before the body its ball.
    """
    soles = find_soles(motion.skeleton)
    for s, (places, turns, toes) in enumerate(feet):
        hip, _, length = find_leg(motion, SIDES[s])
        heel, ball = soles.corners[s, :2].mean(axis=0), soles.corners[s, 2:].mean(axis=0)
        ahead = turns @ (ball - heel) * (1.0, 0.0, 1.0)
        ahead /= np.linalg.norm(ahead, axis=1, keepdims=True)
        behind_m = ((hip - places) * ahead).sum(axis=1)
        # Roll (F,) [rad] about the edge that stays at which the ankle is within reach, by bisection
        is_on_ball = (behind_m > ASTRIDE_M) | ((turns @ (heel - ball))[:, 1] > RAISED_M)
        most = np.where(is_on_ball, *ROLLED_RAD) * (down[:, s] & (is_on_ball | (behind_m < -ASTRIDE_M)))
        edge = np.asarray(np.where((is_on_ball | (behind_m > 0.0))[:, None], ball, heel), dtype=np.float64)
        arm: FloatArray = turns @ -edge
        low, high, axis = np.zeros(len(motion)), np.ones(len(motion)), most[:, None] * np.cross(UP, ahead)
        for _ in range(ROLL_ROUNDS):
            middle = 0.5 * (low + high)
            far = hip - (places - arm + SO3.exp(middle[:, None] * axis) @ arm)
            is_short = np.linalg.norm(far, axis=1) > LONGEST_LEG * length
            low, high = np.where(is_short, middle, low), np.where(is_short, high, middle)
        roll = SO3.exp(low[:, None] * axis)
        ankles = places - arm + roll @ arm
        leg = f"{SIDES[s]}_leg"
        motion = solve_two_bone(motion, leg, ankles, end_rotations=roll @ turns, stretch=LONGEST_LEG).motion
        if toes is not None:
            # Toes stay on the floor under a heel that rises
            bent = turns.inverse() @ SO3.exp(-np.maximum(low * most, 0.0)[:, None] * np.cross(UP, ahead)) @ turns
            wxyz = np.array(motion.rotations.wxyz)
            wxyz[:, soles.toe_joints[s]] = (bent @ toes).wxyz
            motion = replace(motion, rotations=SO3(wxyz))
    return motion


def remove_short_phases(down: BoolArray, least: int) -> BoolArray:
    """Flags ``(F, 2)`` without swings and stances of fewer than some frames, the shortest first; ends stay."""
    calm = np.array(down)
    for side in range(2):
        flags = calm[:, side]
        while True:
            inner = [run for kind in (flags, ~flags) for run in find_runs(kind) if run[0] > 0 and run[1] < len(flags)]
            start, stop = min(inner, key=lambda run: run[1] - run[0], default=(0, least))
            if stop - start >= least:
                break
            flags[start:stop] = ~flags[start:stop]
    return calm


def prepare_clip(motion: Motion, rate_hz: float) -> Motion:
    """Clip that a figure can stand on: smooth, at a rate, with contacts, standing feet on the floor at height zero."""
    clip = resample_clip(motion, rate_hz)
    contacts = detect_contacts(clip) if clip.contacts is None else clip.contacts
    soles, result = find_soles(clip.skeleton), bend_knees(clip)
    # Feet that bear the figure, from feet that touch; without flicker
    touching = feet_down(contacts)
    places, short = sole_positions(result, soles), round(FLICKER_S * result.rate_hz)
    points = places[..., 1]
    # One that touches with its toes alone, while the other stands, is being lifted
    low = points[..., :4].min(axis=2) < points.min(axis=2) + LEFT_M
    down = remove_short_phases(touching & (low | ~(touching & low)[:, ::-1]), short)
    # A walk has no flights: one foot stays until the other lands. A run has, unless a foot stays still meanwhile
    fast, dt = lowest_speeds(places, rate_hz), 1.0 / rate_hz
    bounces = down if clip.contacts is not None else trim_bounces(fast, fill_gaps(down, short, fast), rate_hz)
    is_run = bool(find_bounces(np.asarray(~bounces.any(axis=1), dtype=np.bool_), dt).any())
    down = bounces if is_run and clip.contacts is None else fill_gaps(down, short)
    if is_run:
        result = bend_knees(resample_clip(motion, rate_hz, RUN_HZ))
    result = shift_to_floor(result, soles, down)
    feet = [plan_foot(result, soles, side, down[:, side], is_run=is_run) for side in range(2)]
    # The body comes down to feet that do not reach the floor; legs that come to their full length leave a kink
    for _ in range(GROUNDING_ROUNDS):
        result = put_feet(result, feet, down)
        high = sole_positions(result, soles)[..., 1].min(axis=-1)[down] if down.any() else np.zeros(1)
        drop = max(0.0, float(np.percentile(high, SHORT_PERCENT)))
        result = replace(result, root_positions=result.root_positions - (0.0, drop, 0.0))
    smoothing_hz = RUN_HZ if is_run else SMOOTHING_HZ
    return mark_feet(put_feet(smooth_clip(result, smoothing_hz), feet, down), down)


def fill_gaps(down: BoolArray, short: int, fast: FloatArray | None = None) -> BoolArray:
    """Flags ``(F, 2)`` in which the feet that stand stay through gaps of fewer than some frames.

    With speeds ``(F, 2)`` [m/s] of their lowest points, only where one foot is slow in all frames of the gap.
    """
    filled = np.array(down)
    for start, stop in find_runs(np.asarray(~down.any(axis=1), dtype=np.bool_)):
        is_still = fast is None or fast[start:stop].min(axis=1).max() < LANDED_M_S
        if start > 0 and stop < len(down) and stop - start < short and is_still:
            filled[start:stop] = down[start - 1]
    return filled


def lowest_speeds(places: FloatArray, rate_hz: float) -> FloatArray:
    """Speeds ``(F, 2)`` [m/s] of the point of each foot that is lowest; ``places (F, 2, 5, 3)`` [m]."""
    lowest = places[..., 1].argmin(axis=2)[..., None, None]
    moved = np.take_along_axis(np.gradient(places, axis=0), lowest, axis=2)[:, :, 0]
    return np.linalg.norm(moved, axis=-1) * rate_hz


def trim_bounces(fast: FloatArray, down: BoolArray, rate_hz: float) -> BoolArray:
    """Flags ``(F, 2)`` of feet without the ends of stances, beside a flight, in which the lowest point moves.

    Heights tell a few hundredths of a second too early that a runner's foot has landed, and too late that it has left.

    Args:
        fast: speeds ``(F, 2)`` [m/s] of the lowest point of each foot.
        down: feet on the ground ``(F, 2)``.
        rate_hz: frames per second.
    """
    trimmed, most, alone = np.array(down), round(TRIM_S * rate_hz), ~down[:, ::-1]
    for side in range(2):
        for start, stop in find_runs(down[:, side]):
            # Frames at both ends in which nothing else bears and this foot moves
            moving, bears = fast[start:stop, side], alone[start:stop, side]
            first, last = (
                min(int(np.argmin(flags)), most)
                for flags in (bears & (moving > LANDED_M_S), (bears & (moving > LEAVING_M_S))[::-1])
            )
            if start > 0:
                trimmed[start : start + first, side] = False
            if stop < len(down):
                trimmed[stop - last : stop, side] = False
    return trimmed


def mark_feet(motion: Motion, down: BoolArray) -> Motion:
    """Clip with a contact track of feet that are down ``(F, 2)``."""
    names = tuple(f"{side}_{part}" for side in SIDES for part in ("heel", "toe"))
    return replace(motion, contacts=Contacts(names, np.repeat(down, 2, axis=1)))


def plan_foot(motion: Motion, soles: Soles, side: int, down: BoolArray, *, is_run: bool) -> FootPath:
    """Path of an ankle whose sole stays where it stands: it rolls over its heel, lies flat, and rolls over its ball.

    A captured foot that stands slides by centimetres and is level to a few degrees; a simulated one does neither, so
    that a plan for the captured one would be wrong by as much in each step. Each stance has one place and one heading,
    those of the clip in the mean while the sole is about flat; swings lead smoothly from one to the next.
    """
    origins, frames = motion.joint_frames()
    places, turns = origins[:, soles.joints[side]], frames[:, soles.joints[side]]
    toe, skeleton = soles.toe_joints[side], motion.skeleton
    has_toes = int(skeleton.parents[toe]) == soles.joints[side]
    tips = turns.inverse() @ (origins[:, toe] + frames[:, toe] @ soles.toes[side] - places)
    bends = np.zeros((len(motion), 3))
    corners = soles.corners[side]
    heel, ball, middle = corners[:2].mean(axis=0), corners[2:].mean(axis=0), corners.mean(axis=0)
    shifts, tilts = np.zeros((len(motion), 3)), np.zeros((len(motion), 3))
    for start, stop in find_runs(down):
        R, p = turns[start:stop], places[start:stop]
        ahead = R @ (ball - heel)
        pitch = np.arctan2(ahead[:, 1], np.hypot(ahead[:, 0], ahead[:, 2]))
        # Frames in which the sole is about flat; a stance without any is one on the ball, or on the heel
        is_flat = np.abs(pitch) < FLAT_RAD
        edge = middle if is_flat.any() else ball if float(pitch.mean()) < 0.0 else heel
        if is_flat.any():
            pitch = pitch - np.percentile(pitch[is_flat], LEVEL_PERCENT)
        else:
            is_flat = np.abs(pitch) <= np.percentile(np.abs(pitch), FLATTEST_PERCENT)
        flat, _ = flatten_foot(skeleton, side, R[is_flat])
        stand = (p + R @ edge)[is_flat].mean(axis=0) * (1.0, 0.0, 1.0)
        # Pitch about the lateral axis, none within a few degrees of flat; a foot on its ball may turn about it
        rolled = np.maximum(pitch - LEVEL_RAD, 0.0) + np.minimum(pitch + RISE_RAD, 0.0)
        rolled = smooth_values(rolled, max(2, round(LIFT_S * motion.rate_hz)))
        heading = flat @ (ball - heel)
        axis = np.cross(heading / np.linalg.norm(heading), UP)
        wanted = SO3.exp(rolled[:, None] * axis) @ flat
        free = np.clip(-rolled / FREE_RAD, 0.0, 1.0)
        yaw = (R @ wanted.inverse()).log()[:, 1]
        wanted = SO3.exp((free**2 * (3.0 - 2.0 * free) * yaw)[:, None] * UP) @ wanted
        # Toes lie on the floor under a heel that rises, as far as they bend
        if has_toes:
            bend = np.clip(-rolled, 0.0, TOES_RAD)[:, None] * (flat.inverse() @ axis)
            bent = SO3.exp(bend) @ t_pose(skeleton).rotations[toe]
            tips[start:stop] = skeleton.offsets[toe] + bent @ soles.toes[side]
            bends[start:stop] = (bent @ motion.rotations[start:stop, toe].inverse()).log()
        # The foot rolls without sliding, forth and back from where it lies flattest, over the lowest of its edges
        edges = np.stack([wanted @ heel, wanted @ ball, wanted @ tips[start:stop]], axis=1)
        heights = edges[..., 1] - (0.0, 0.0, soles.toe_radius_m)
        lowest, middle_frame = heights.argmin(axis=1), int(np.median(np.flatnonzero(is_flat)))
        target = np.zeros_like(p)
        target[middle_frame] = stand - wanted[middle_frame] @ edge
        for t in range(middle_frame + 1, stop - start):
            target[t] = target[t - 1] + edges[t - 1, lowest[t]] - edges[t, lowest[t]]
        for t in range(middle_frame - 1, -1, -1):
            target[t] = target[t + 1] + edges[t + 1, lowest[t]] - edges[t, lowest[t]]
        target[:, 1] = -heights.min(axis=1)
        shifts[start:stop], tilts[start:stop] = target - p, (wanted @ R.inverse()).log()
    # Swings lead from the correction of one stance to that of the next, and clear the floor
    for start, stop in find_runs(~down):
        if stop - start == len(motion):
            break
        first, last = max(start - 1, 0), min(stop, len(motion) - 1)
        first, last = first if start > 0 else last, last if stop < len(motion) else first
        x = (np.arange(start, stop) - start + 1.0) / (stop - start + 1.0)
        part = (x * x * (3.0 - 2.0 * x))[:, None]
        for values in (shifts, tilts, bends):
            values[start:stop] = (1.0 - part) * values[first] + part * values[last]
        # A captured foot still slides when it lands, since it is smooth: it comes to rest, and leaves from rest
        width = min(round(STOP_S * motion.rate_hz), (stop - start) // 2)
        for n, towards in ((stop, -1), (start - 1, 1)):
            if 0 < n < len(motion) - 1 and width > 1:
                slide = places[n] - places[n - 1] if towards < 0 else places[n + 1] - places[n]
                steps = np.arange(1, width)
                y = steps / width
                bump = (y * (1.0 - y) ** 2 * width)[:, None] * slide
                shifts[n + towards * steps] += bump if towards < 0 else -bump
        foot, at = SO3.exp(tilts[start:stop]) @ turns[start:stop], places[start:stop] + shifts[start:stop]
        low = np.min([(foot @ corner + at)[:, 1] for corner in corners], axis=0)
        clearance_m, width = CLEARANCE_M, 0
        if is_run:
            low = np.minimum(low, (foot @ tips[start:stop] + at)[:, 1] - soles.toe_radius_m)
            clearance_m, width = RUN_CLEARANCE_M, round(RAMP_S * motion.rate_hz / 2.0)
        steps = np.arange(stop - start)
        ramp = np.clip(np.minimum(steps, steps[::-1]) / (RAMP_S * motion.rate_hz), 0.0, 1.0)
        lifts = np.maximum(clearance_m * ramp - low, 0.0)
        if width and stop - start > 2 * width:
            # What is smoothed afterwards stays clear
            padded = np.pad(lifts, width, mode="edge")
            highest = np.max([padded[n : n + len(lifts)] for n in range(2 * width + 1)], axis=0)
            lifts = smooth_values(highest, width) * np.minimum(1.0, 2.0 * ramp)
        shifts[start:stop, 1] += np.convolve(np.pad(lifts, 2, mode="edge"), (0.1, 0.25, 0.3, 0.25, 0.1), mode="valid")
    # Swings run ahead a little towards their ends: a foot is over its place before it comes down
    paths, frames_n = places + shifts, np.arange(len(motion))
    for start, stop in find_runs(~down):
        if 0 < stop < len(motion):
            ahead_s = (np.arange(start, stop) - start + 1.0) / (stop - start) * AHEAD_S[is_run] * motion.rate_hz
            for axis in HORIZONTAL_AXES:
                times = np.arange(start, stop) + ahead_s
                shifts[start:stop, axis] = np.interp(times, frames_n, paths[:, axis]) - places[start:stop, axis]
    toes = SO3.exp(bends) @ motion.rotations[:, toe] if has_toes else None
    return places + shifts, SO3.exp(tilts) @ turns, toes


def flatten_foot(skeleton: Skeleton, s: int, turns: SO3) -> tuple[SO3, FloatArray]:
    """World rotation of an ankle whose sole is level and points as in the clip, and the sole's middle under it [m]."""
    _, middle, frame = sole_frame(skeleton, SIDES[s])
    turn = sole_target((turns.matrix() @ frame).mean(axis=0), UP, None) @ frame.T
    return SO3.from_matrix(turn), turn @ middle


def bend_knees(motion: Motion) -> Motion:
    """Clip whose knees all bend the way they mostly do: a straight knee has no plane, a captured one flips it."""
    places, frames = motion.joint_frames()
    wxyz, roles, result = np.array(motion.rotations.wxyz), role_map(motion.skeleton), motion
    for side in SIDES:
        hip, knee, ankle = (roles[f"{side}_{part}"] for part in ("hip", "knee", "ankle"))
        # Mean axis of bending, in the frame of the thigh
        across = np.cross(places[:, knee] - places[:, hip], places[:, ankle] - places[:, knee])
        axis = (frames[:, int(motion.skeleton.parents[knee])].inverse() @ across).sum(axis=0)
        axis = axis / max(float(np.linalg.norm(axis)), 1e-9)
        wxyz[:, knee] = (SO3.exp(BEND_RAD * axis) @ motion.rotations[:, knee]).wxyz
    result = replace(motion, rotations=SO3(wxyz))
    for side in SIDES:
        ankle = roles[f"{side}_ankle"]
        result = solve_two_bone(
            result, f"{side}_leg", places[:, ankle], end_rotations=frames[:, ankle], stretch=LONGEST_LEG
        ).motion
    return result


def resample_clip(motion: Motion, rate_hz: float, smoothing_hz: float = SMOOTHING_HZ) -> Motion:
    """Smooth clip at a rate; contacts that it has are kept.

    Raises:
        InputError: it has less than ``MIN_FRAMES`` frames then.
    """
    calm = smooth_clip(level_toes(bridge_jumps(motion)), smoothing_hz)
    clip = calm if calm.rate_hz == rate_hz else resample(calm, rate_hz)
    if len(clip) < MIN_FRAMES:
        what = f"the clip lasts {(len(motion) - 1) / motion.rate_hz:.3g} s"
        raise InputError(what, f"Give at least {(MIN_FRAMES - 1) / rate_hz:.3g} s")
    return clip


def bridge_jumps(motion: Motion) -> Motion:
    """Clip without jumps of single joints, which captures have where a marker is lost: a short arc leads over each.

    At an end the pose beyond the jump is held.
    """
    wxyz, width = np.array(motion.rotations.wxyz), max(1, round(BRIDGE_S * motion.rate_hz))
    speeds = np.linalg.norm((motion.rotations[:-1].inverse() @ motion.rotations[1:]).log(), axis=-1) * motion.rate_hz
    for frame, joint in np.argwhere(speeds > JUMP_RAD_S).tolist():
        first, last = frame - width, frame + 1 + width
        if first < 0:
            wxyz[: frame + 1, joint] = wxyz[frame + 1, joint]
        elif last >= len(wxyz):
            wxyz[frame + 1 :, joint] = wxyz[frame, joint]
        else:
            parts = np.linspace(0.0, 1.0, 2 * width + 2)
            start = SO3(np.repeat(wxyz[first : first + 1, joint], len(parts), axis=0))
            wxyz[first : last + 1, joint] = start.slerp(SO3(wxyz[last, joint]), parts).wxyz
    return replace(motion, rotations=SO3(wxyz)) if (speeds > JUMP_RAD_S).any() else motion


def smooth_clip(motion: Motion, smoothing_hz: float = SMOOTHING_HZ) -> Motion:
    """Clip without what is faster than a frequency, if it has enough frames."""
    return lowpass(motion, smoothing_hz) if motion.rate_hz > 2.5 * smoothing_hz and len(motion) > 30 else motion


def level_toes(motion: Motion) -> Motion:
    """Clip whose toes never point below the sole: the angles of toes tremble in captures, and dig into the ground."""
    skeleton = motion.skeleton
    spheres, names = contact_spheres(skeleton)
    rest, wxyz = t_pose(skeleton).rotations, np.array(motion.rotations.wxyz)
    for side in SIDES:
        toe = int(spheres.joints[names.index(f"{side}_toe")]) if f"{side}_toe" in names else 0
        if toe and skeleton.parents[toe] in find_soles(skeleton).joints:
            offset = spheres.offsets[names.index(f"{side}_toe")]
            bent = motion.rotations[:, toe] @ offset - rest[toe] @ offset
            up = (t_pose(skeleton).joint_rotations()[int(skeleton.parents[toe])]).inverse() @ UP
            wxyz[bent @ up < 0.0, toe] = rest[toe].wxyz
    return replace(motion, rotations=SO3(wxyz))


def shift_to_floor(motion: Motion, soles: Soles, down: BoolArray) -> Motion:
    """Clip moved up or down so that the lowest corner of standing soles is at height zero, in the median."""
    lows = sole_positions(motion, soles)[..., 1].min(axis=-1)
    standing = lows[down] if down.any() else lows.min(axis=1)
    shift = np.array([0.0, float(np.percentile(standing, FLOOR_PERCENT)), 0.0])
    return replace(motion, root_positions=motion.root_positions - shift)


def sole_positions(motion: Motion, soles: Soles) -> FloatArray:
    """Corners and toes ``(F, 2, 5, 3)`` [m] in all frames of a clip."""
    origins, turns = motion.joint_frames()
    return np.array([soles.places(o, f) for o, f in zip(origins, turns.matrix(), strict=True)])
