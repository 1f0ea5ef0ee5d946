"""Jumps in captured clips: detection, foot events, and sampling.

Each jump is a stretch of poses with its foot events, sampled between shared instants to a table of fixed size, so that
corresponding poses are averaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.contacts import feet_down
from marey.kinematics import retarget
from marey.locomotion.units.gait_unit import measure_leg_length, sample_frames, unit_rows
from marey.locomotion.units.jump_flight import SIDES
from marey.motion import Contacts, Motion, centre_of_mass, find_runs, headings, lowpass, mirror, place
from marey.skeleton import Skeleton, contact_points

SMOOTHING_HZ: Final = 12.0  # [Hz] twice as much as gaits need: a push off lasts a tenth of a second
LANDED_TOGETHER_S: Final = 0.16  # two feet that leave or land within this time do so together
STILL_MPS: Final = 0.10  # [m/s] a body slower than this stands
UPRIGHT_M: Final = 0.04  # [m] a body this near its greatest height stands upright
LONGEST_CROUCH_S: Final = 1.6
SHORTEST_RISE_S: Final = 0.35
LONGEST_REST_S: Final = 1.8
SHORTEST_GAP_S: Final = 0.05  # [s] a foot that seems up for less has stayed down
SHORTEST_STANCE_S: Final = 0.09  # [s] a foot that is down for less has only brushed the ground
SHORTEST_TAIL_S: Final = 0.06  # how long a leap must be seen after its landing foot has left
SLID_M: Final = 0.012  # [m] a point that a slow follower cannot keep within this lands or leaves
CREEP_MPS: Final = 0.16  # [m/s] of that follower ...
STILL_M: Final = 0.008  # [m] ... which waits as long as the point is no farther away
LIFTED_M: Final = 0.012  # [m] a ball this high above its lowest in the stance has left the ground


@dataclass(frozen=True, slots=True, eq=False)
class CapturedJump:
    """A stretch of a clip on the model's body, heading +Z, ground at zero, the root above the origin at its start.

    ``knots`` are the instants [s] that all jumps of a kind share: for a leap start, toe off, heel strike and end, for
    a standing jump also the lowest crouch before and after. Times are those of a body of the model's size.
    """

    motion: Motion
    knots: FloatArray  # (M,) [s]
    events: FloatArray  # (8,) [s] in the order of EVENTS; of a standing jump: take-off of both feet, landing of both
    length_m: float  # ball of the foot that leaves to heel of the foot that lands, along the heading
    flight_s: float  # negative: both feet were down together for so long
    rise_m: float  # of the centre of mass above toe off
    speed_mps: float  # mean of the root, start to the landing foot's toe off
    flight_mps: float  # of the centre of mass in flight, over the ground
    fall_mps2: float  # vertical acceleration of the centre of mass in the middle of the flight; zero of a step
    subject: str = ""
    clip: str = ""
    is_mirrored: bool = False


def retarget_to_body(motion: Motion, skeleton: Skeleton) -> Motion:
    """A clip on the model's body, time stretched with the root of the size so that it falls as before."""
    size = measure_leg_length(skeleton) / measure_leg_length(motion.skeleton)
    body = retarget(motion, skeleton)
    assert body.contacts is not None  # retargeting detects them
    smooth = lowpass(body, SMOOTHING_HZ) if body.rate_hz > 2.5 * SMOOTHING_HZ else body
    contacts = _trim_contacts(body.contacts, retarget(motion, skeleton, contacts=False))
    return replace(smooth, contacts=contacts, rate_hz=body.rate_hz / np.sqrt(size))


def _trim_contacts(track: Contacts, free: Motion) -> Contacts:
    """Contacts that begin later and end sooner, where a foot that nobody holds slides in or rolls off its toes.

    Whoever holds a foot wants it from its first touch to its last; a leap is told by when the foot pushes. From where a
    point is nearest to its median place, forwards and backwards, it stands as long as a follower that is no faster than
    ``CREEP_MPS`` stays within ``SLID_M``: so a body that shifts its weight for seconds still stands.
    """
    points = contact_points(free.skeleton)
    paths, active = points.positions(*free.joint_frames())[..., [0, 2]], track.active.copy()
    for column, name in enumerate(track.names):
        path = paths[:, points.index(name)]
        for start, stop in find_runs(active[:, column]):
            place = np.median(path[start:stop], axis=0)
            core = start + int(np.argmin(np.linalg.norm(path[start:stop] - place, axis=1)))
            for frames in (range(core, stop), range(core, start - 1, -1)):
                at, is_gone = place, False
                for frame in frames:
                    gap = path[frame] - at
                    away = float(np.linalg.norm(gap))
                    step = min(CREEP_MPS / free.rate_hz, max(away - STILL_M, 0.0))
                    at, is_gone = at + gap * (step / max(away, 1e-9)), is_gone or away - step > SLID_M
                    active[frame, column] &= not is_gone
    return Contacts(track.names, active)


def find_leaps(body: Motion, *, with_steps: bool = False) -> Iterator[CapturedJump]:
    """Leaps from one foot to the other, all as from right to left (the others are mirrored).

    Args:
        body: a clip from :func:`on_body`.
        with_steps: also steps without flight, as in walking.
    """
    down = _feet_down(body)
    for side, other in (SIDES, SIDES[::-1]):
        for start, off in find_runs(down[side]):
            earliest = max(start, off - round(0.25 * body.rate_hz))
            lands = [run for run in find_runs(down[other]) if run[0] > earliest]
            later = [run[0] for run in find_runs(down[side]) if run[0] > off]
            if not lands or start == 0 or lands[0][0] - off > round(0.9 * body.rate_hz):
                continue
            land, leave = lands[0]
            off = _find_lift_off(body, side, start, off) if land > off else off
            end = later[0] if later else body.num_frames - 1
            if not later and leave >= end:
                leave = _find_heel_rise(body, other, land)
            if (end < leave + SHORTEST_TAIL_S * body.rate_hz and not later) or end <= land or (later and end < land):
                continue
            if land <= off and not with_steps:
                continue
            # A leap from left to right is mirrored; a step without flight has one instant between its stances.
            seen = mirror(body) if side == "left" else body
            local = _to_local_frame(seen, start, end, (off, land))
            middle = 0.5 * (off + land)
            toe_off, strike = (off, land) if land > off else (middle, middle)
            knots = (np.array([start, toe_off, strike, end]) - start) / body.rate_hz
            right = _find_stance_events(seen, "right", start, off)
            left = _find_stance_events(seen, "left", land, min(leave, end))
            events = (np.array([*right, *left]) - start) / body.rate_hz
            frames = (off - start, land - start, leave - start)
            jump = _measure_jump(local, knots, events, frames, ("right",), ("left",))
            yield replace(jump, is_mirrored=side == "left")


def find_standing_jumps(body: Motion) -> Iterator[CapturedJump]:
    """Jumps from both feet to both feet, from rest to rest."""
    down = _feet_down(body)
    speed = np.linalg.norm(np.gradient(centre_of_mass(body), axis=0), axis=1) * body.rate_hz
    reach = round(LANDED_TOGETHER_S * body.rate_hz)
    for _, left_off in find_runs(down["left"]):
        rights = [run[1] for run in find_runs(down["right"]) if abs(run[1] - left_off) <= reach]
        lands = [[run[0] for run in find_runs(down[side]) if run[0] >= left_off] for side in SIDES]
        if not rights or not lands[0] or not lands[1] or abs(lands[0][0] - lands[1][0]) > reach:
            continue
        first = max(0, left_off - reach)
        off = max(
            _find_lift_off(body, side, first, end) for side, end in zip(SIDES, (left_off, rights[0]), strict=True)
        )
        land = min(lands[0][0], lands[1][0])
        if land - off < round(0.1 * body.rate_hz) or land >= body.num_frames - 1:
            continue
        # From the last rest before the deepest crouch to the first rest after the deepest landing
        height = centre_of_mass(body)[:, 1]
        earliest = max(0, off - round(LONGEST_CROUCH_S * body.rate_hz))
        last = min(body.num_frames - 1, land + round(LONGEST_REST_S * body.rate_hz))
        low = earliest + 2 + int(np.argmin(height[earliest + 2 : off]))
        before = height[earliest:low]
        start = earliest + _last_rest_frame(before > before.max() - UPRIGHT_M, speed[earliest:low] < STILL_MPS)
        sunk = land + 1 + int(np.argmin(height[land + 1 : land + round(0.5 * body.rate_hz)]))
        risen = min(sunk + round(SHORTEST_RISE_S * body.rate_hz), last)
        after = height[risen : last + 1]
        end = last - _last_rest_frame(
            (after > after[-1] - UPRIGHT_M)[::-1], (speed[risen : last + 1] < STILL_MPS)[::-1]
        )
        local = _to_local_frame(body, start, end, (off, land))
        knots = (np.array([start, low, off, land, sunk, end]) - start) / body.rate_hz
        before = np.mean([_find_stance_events(body, side, start, off) for side in SIDES], axis=0)
        after = np.mean([_find_stance_events(body, side, land, end) for side in SIDES], axis=0)
        events = np.clip((np.array([*before, *after]) - start) / body.rate_hz, 0.0, knots[-1])
        events[[0, 1, 3, 4, 6, 7]] = knots[[0, 0, 2, 3, 5, 5]]
        yield _measure_jump(local, knots, events, (off - start, land - start, end - start), SIDES, SIDES)


def _to_local_frame(body: Motion, start: int, end: int, flight: tuple[int, int]) -> Motion:
    """The stretch heading +Z, ground at zero on both sides of the flight, from above the origin."""
    off, land = min(flight), max(flight)
    way = (centre_of_mass(body)[land] - centre_of_mass(body)[off]) * [1.0, 0.0, 1.0]
    facing = float(headings(body)[off])
    is_far = np.linalg.norm(way) > 0.25
    heading = float(np.arctan2(way[0], way[2])) if is_far else facing
    turned = place(body, (0.0, 0.0), facing - heading, frame=off)
    cut = turned[start : end + 1]
    heights = _sole_heights(turned).min(axis=1)
    floors = [float(np.min(heights[a : b + 1])) for a, b in ((start, off), (land, end))]
    floor = np.interp(np.arange(start, end + 1), [off, max(land, off + 1)], floors)
    root = cut.root_positions - cut.root_positions[0] * [1.0, 0.0, 1.0] - floor[:, None] * [0.0, 1.0, 0.0]
    return replace(cut, root_positions=root)


def _measure_jump(
    local: Motion,
    knots: FloatArray,
    events: FloatArray,
    frames: tuple[int, int, int],
    leaving: tuple[str, ...],
    landing: tuple[str, ...],
) -> CapturedJump:
    off, land, leave = frames
    com = centre_of_mass(local)
    rise = float(com[off : max(land, off + 1), 1].max() - com[off, 1])
    last = min(leave, local.num_frames - 1)
    speed = float(np.linalg.norm((local.root_positions[last] - local.root_positions[0])[[0, 2]])) / (
        last / local.rate_hz
    )
    flight = (land - off) / local.rate_hz
    flown = float(com[land, 2] - com[off, 2]) / flight if flight > 0.0 else speed
    # Way along +Z from the ball of the foot that leaves to the heel of the foot that lands
    positions, turns = local.joint_frames()
    points = contact_points(local.skeleton)
    feet = points.positions(positions, turns)[..., 2]
    toes = [positions[max(off - 1, 0), local.skeleton.index(f"{side}_foot"), 2] for side in leaving]
    heels = [feet[land, points.index(f"{side}_heel")] for side in landing]
    length = float(np.mean(heels) - np.mean(toes))
    # Acceleration of the parabola through the middle four fifths of the flight; zero where it is too short
    edge = max(land - off, 0) // 10
    heights = com[off + edge : land - edge, 1]
    times = np.arange(len(heights)) / local.rate_hz
    fall = 2.0 * float(np.polyfit(times, heights, 2)[0]) if len(heights) >= 6 else 0.0
    # An event that comes too early waits for the one before.
    return CapturedJump(local, knots, np.maximum.accumulate(events), length, flight, rise, speed, flown, fall)


def _find_stance_events(body: Motion, side: str, start: int, stop: int) -> tuple[float, float, float, float]:
    """Frames at which heel and ball come down and go up in one stance: heel strike, toe strike, heel off, toe off."""
    k = 2 * SIDES.index(side)
    heel, ball = (heights <= heights.min() + LIFTED_M for heights in _sole_heights(body)[start : stop + 1, k : k + 2].T)
    toe_on = start + int(np.flatnonzero(ball)[0])
    heel_off = start + int(np.flatnonzero(heel)[-1]) + 1
    return start, toe_on, min(max(heel_off, toe_on), stop), stop


def _find_lift_off(body: Motion, side: str, start: int, off: int) -> int:
    """First frame, within the stance, from which the ball of the foot is off the ground.

    A contact lasts until the tips of the toes leave; while the foot rolls over them, its ball has risen already.
    """
    heights = _sole_heights(body)[start : off + 1, 2 * SIDES.index(side) + 1]
    up = heights > heights.min() + LIFTED_M
    last_down = int(np.flatnonzero(~up)[-1])
    return min(start + last_down + 1, off)


def _find_heel_rise(body: Motion, side: str, start: int) -> int:
    """Frame from which the heel is up in a stance that lasts to the end of the clip: from there on the foot leaves."""
    heights = _sole_heights(body)[start:, 2 * SIDES.index(side)]
    return start + int(np.flatnonzero(heights <= heights.min() + LIFTED_M)[-1]) + 1


def _sole_heights(motion: Motion) -> FloatArray:
    """Heights ``(F, 4)`` [m] of heels and balls above the world's zero."""
    points = contact_points(motion.skeleton)
    feet = [points.index(f"{side}_{part}") for side in SIDES for part in ("heel", "toe")]
    return points.positions(*motion.joint_frames())[:, feet, 1]


def _feet_down(body: Motion) -> dict[str, BoolArray]:
    assert body.contacts is not None  # on_body detects them
    found: dict[str, BoolArray] = {}
    for side, flags in zip(SIDES, feet_down(body.contacts).T, strict=True):
        # Short gaps are closed first, then short stances are left out.
        down = found[side] = flags.copy()
        for value, shortest_s in ((True, SHORTEST_GAP_S), (False, SHORTEST_STANCE_S)):
            for start, stop in find_runs(down != value):
                if stop - start < shortest_s * body.rate_hz and start > 0 and stop < len(down):
                    down[start:stop] = value
    return found


def _last_rest_frame(upright: BoolArray, still: BoolArray) -> int:
    """Last frame that is upright and still, or else the last that is upright."""
    both = np.flatnonzero(upright & still)
    return int(both[-1]) if len(both) else int(np.flatnonzero(upright)[-1])


LEAP_STEPS: Final = (10, 12, 18)  # intervals: stance, flight, landing foot's stance and the swing to the next strike
STANDING_STEPS: Final = (8, 9, 10, 6, 10)  # sinking, pushing, flight, giving way, rising


def canonical_steps(kind: str) -> tuple[int, ...]:
    """Intervals between the shared instants of a kind of jump."""
    return STANDING_STEPS if kind == "standing" else LEAP_STEPS


def canonical_times(knots: FloatArray, steps: tuple[int, ...]) -> FloatArray:
    """Times ``(sum(steps) + 1,)`` [s], evenly spaced between knots ``(len(steps) + 1,)``."""
    places = np.array([sum(steps[:k]) for k in range(len(steps) + 1)], dtype=np.float64)
    return np.interp(np.arange(sum(steps) + 1, dtype=np.float64), places, knots)


def sample_captured_jump(jump: CapturedJump, means: FloatArray, steps: tuple[int, ...]) -> FloatArray:
    """Rows ``(N, D)`` of a captured jump at the canonical times, root over leg length."""
    motion = jump.motion
    where = np.clip(canonical_times(jump.knots, steps) * motion.rate_hz, 0.0, motion.num_frames - 1.0)
    root, wxyz = sample_frames(motion.root_positions, motion.rotations.wxyz, where)
    return unit_rows(root / measure_leg_length(motion.skeleton), wxyz, means)


def interpolate_cubic(times: FloatArray, values: FloatArray, at: FloatArray) -> FloatArray:
    r"""Cubic interpolation ``(n, D)`` of rows ``(N, D)`` given at rising, uneven times.

    Hermite pieces whose slopes are those of the parabola through three neighbours (Catmull-Rom for uneven spacing).
    """
    keep = np.concatenate([[True], np.diff(times) > 1e-9])
    times, values = times[keep], values[keep]
    slopes = np.gradient(values, times, axis=0, edge_order=2)
    low = np.clip(np.searchsorted(times, at, side="right") - 1, 0, len(times) - 2)
    width = (times[low + 1] - times[low])[:, None]
    u = (at - times[low])[:, None] / width
    square, cube = u * u, u * u * u
    return (
        (2.0 * cube - 3.0 * square + 1.0) * values[low]
        + (cube - 2.0 * square + u) * width * slopes[low]
        + (3.0 * square - 2.0 * cube) * values[low + 1]
        + (cube - square) * width * slopes[low + 1]
    )
