"""Supports of a body: corners of soles and palms in contact, their friction cones and support polygon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray, UnknownNameError, kernel
from marey.contacts import detect_contacts
from marey.dynamics.contact_cones import compute_friction_edges
from marey.motion import Contacts, Motion
from marey.skeleton import contact_points, foot_points, leg_length, role_map


@kernel
def compute_polygon_margins(places: FloatArray, points: FloatArray, active: BoolArray) -> FloatArray:
    """Distance ``(F,)`` from places ``(F, 2)`` to the edge of the hull of active points ``(F, P, 2)``.

    Positive inside, negative outside, zero where there are no points.
    """
    num_frames, num_points = active.shape
    margins = np.zeros(num_frames)
    chosen = np.zeros((max(num_points, 1), 2))
    hull = np.zeros((2 * num_points + 2, 2))
    for f in range(num_frames):
        count = 0
        for p in range(num_points):
            if active[f, p]:
                chosen[count, 0] = points[f, p, 0] - places[f, 0]  # from the place, so that far away is as exact
                chosen[count, 1] = points[f, p, 1] - places[f, 1]
                count += 1
        if count == 0:
            continue
        # Convex hull, counter-clockwise, by Andrew's monotone chain: lower half, then upper half
        order = np.argsort(chosen[:count, 0] + 1e-9 * chosen[:count, 1], kind="mergesort")
        corners = 0
        for turn in range(2):
            start = corners
            for i in range(count):
                next_point = order[i] if turn == 0 else order[count - 1 - i]
                # Drop corners at which the chain does not turn left
                while corners - start >= 2:
                    last_x, last_y = (
                        hull[corners - 1, 0] - hull[corners - 2, 0],
                        hull[corners - 1, 1] - hull[corners - 2, 1],
                    )
                    bx, by = chosen[next_point, 0] - hull[corners - 2, 0], chosen[next_point, 1] - hull[corners - 2, 1]
                    if last_x * by - last_y * bx > 0.0:
                        break
                    corners -= 1
                hull[corners, 0], hull[corners, 1] = chosen[next_point, 0], chosen[next_point, 1]
                corners += 1
            corners -= 1
        size = max(corners, 1)
        # Distance to the nearest edge, and whether the place is left of all edges
        nearest, is_inside = np.inf, size >= 3
        for k in range(size):
            ax, ay = hull[k, 0], hull[k, 1]
            ex, ey = hull[(k + 1) % size, 0] - ax, hull[(k + 1) % size, 1] - ay
            dx, dy = -ax, -ay
            length = ex * ex + ey * ey
            along = min(max((dx * ex + dy * ey) / length, 0.0), 1.0) if length > 0.0 else 0.0
            nearest = min(nearest, np.hypot(dx - along * ex, dy - along * ey))
            is_inside = is_inside and ex * dy - ey * dx >= 0.0
        margins[f] = nearest if is_inside else -nearest
    return margins


LIMBS: Final = ("left_foot", "right_foot", "left_hand", "right_hand")
NUM_EDGES: Final = 8  # of a friction pyramid: it holds 92 % of the round cone's width
# The sole, as parts of stature, which is leg / 0.491 ([Winter2009]_ fig. 4.1): captures seldom know how long a foot is.
LEG_SHARE: Final = 0.491  # hip to ankle
SOLE_LENGTH: Final = 0.152
SOLE_HALF_WIDTH: Final = 0.0275
HEEL_BACK: Final = 0.018  # 3 cm from the middle of the heel pad to its end, 5 cm behind the ankle
PALM_HALF_M: Final = 0.04
FOOT_SLACK_M: Final = 0.08  # [m] a planted point may be this far above the floor: a rolling ball, a bent capture floor
HAND_SLACK_M: Final = 0.20  # [m] the same for palms: CMU skeletons, short of 0.12 m of chest, let them drift
FLOOR_NEAR_M: Final = 0.08  # [m] captures have their floor this near to zero; what stands farther off does not stand
FLOOR_PERCENT: Final = 30.0  # [%] of planted heights: below the middle, since feet also stand on steps and boxes
SLIDE_WINDOW_S: Final = 0.1  # [s] in which a planted foot is seen to slide
UP: Final = np.array([0.0, 1.0, 0.0])

Floor = float | str


@dataclass(frozen=True, slots=True, eq=False)
class Supports:
    """P corners of soles and palms, F frames."""

    limbs: IntArray  # (P,) index into LIMBS
    points: FloatArray  # (F, P, 3) [m] in world
    active: BoolArray  # (F, P) which can push; up to the timing slack before and after the contact
    touching: BoolArray  # (F, P) which are in contact
    edges: FloatArray  # (E, 3) directions in which those that do not grip can push
    grips: BoolArray  # (F, P) which hold on rather than push
    floor_m: float  # [m] height of the floor
    lifted_m: float  # [m] median height of the planted feet above the floor; 0 without any
    heights: FloatArray  # (F,) [m] lowest heel or ball above the one floor, if there is one; toe ends tremble too much
    slide_m: FloatArray  # (F,) [m] how far the stillest point of a planted foot moves in SLIDE_WINDOW_S

    def limb_active(self, limb: int, *, slack: bool = True) -> BoolArray:
        """Whether any corner of a limb can push ``(F,)``."""
        return any_in_row((self.active if slack else self.touching)[:, self.limbs == limb])

    @property
    def carried(self) -> BoolArray:
        """Whether anything can push ``(F,)``."""
        return any_in_row(self.active)


def find_supports(
    motion: Motion,
    contacts: Contacts | None = None,
    *,
    floor: Floor = "flat",
    friction: float = 0.8,
    slack_s: float = 0.0,
) -> Supports:
    """Find the corners of soles and palms that carry a body.

    A heel that touches offers its two corners, a toe those of the ball and of the toe end.

    Args:
        motion: any clip.
        contacts: which points touch; by default those of the motion, else detected ones.
        floor: ``"flat"``: one floor, near height zero; ``"plants"``: each contact has its own, as on steps and pegs;
            or its height [m].
        friction: coefficient.
        slack_s: a contact may begin this much earlier and end this much later.

    Raises:
        UnknownNameError: the track names a point that the body does not have, or there is no such floor.
    """
    # Contacts by the caller, by the motion, or detected
    given = contacts if contacts is not None else motion.contacts
    track = detect_contacts(motion) if given is None else given
    check_length(track, motion)
    known = {*contact_points(motion.skeleton).names, *LIMBS, "feet", "hands"}
    for name in track.names:
        if name not in known:
            raise UnknownNameError("contact point", name, f"skeleton '{motion.skeleton.name}'", sorted(known))
    # Corners of the soles: heel, ball and toe end of each foot
    sole_points = foot_points(motion.skeleton)
    places = motion.map_frames(sole_points.positions)
    stature_m = leg_length(motion.skeleton, role_map(motion.skeleton)) / LEG_SHARE
    soles: list[_LimbCorners] = []
    for limb, side in enumerate(("left", "right")):
        columns = [i for i, name in enumerate(sole_points.names) if name.startswith(side)]
        if len(columns) == 3:
            whole = (f"{side}_foot", "feet")
            heel, toe = _contact_flags(track, f"{side}_heel", *whole), _contact_flags(track, f"{side}_toe", *whole)
            soles.append(_sole_corners(limb, places[:, columns], np.stack([heel, toe, toe], axis=1), stature_m))
    # Corners of the palms that touch
    points = contact_points(motion.skeleton)
    palms: list[_LimbCorners] = []
    for limb, name in ((2, "left_hand"), (3, "right_hand")):
        active = _contact_flags(track, name, "hands")
        if name in points.names and active.any():
            place = motion.map_frames(points.positions)[:, points.index(name)]
            centres = place[:, None] + PALM_HALF_M * np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]])
            half = np.broadcast_to(np.array([PALM_HALF_M, 0.0, 0.0]), centres.shape)
            palms.append(_LimbCorners(limb, centres, np.repeat(active[:, None], 2, axis=1), half))
    # Height of the floor [m], and of heels and balls that touch; a clip that stands far from zero stands on nothing
    planted = np.concatenate([np.zeros(0), *(sole.middles[:, :2, 1][sole.flags[:, :2]] for sole in soles)])
    is_flat, floor_m = floor != "plants", 0.0
    if not isinstance(floor, str):
        if not np.isfinite(floor):
            raise InputError(f"floor is {floor}", "Give its height in metres")
        floor_m = float(floor)
    elif floor not in ("flat", "plants"):
        raise UnknownNameError("floor", floor, "marey.dynamics.check_validity", ("flat", "plants"))
    elif len(planted):
        level = float(np.percentile(planted, FLOOR_PERCENT))
        floor_m = level if abs(level) <= FLOOR_NEAR_M or not is_flat else 0.0
    num_frames, slack = motion.num_frames, max(0, round(slack_s * motion.rate_hz))
    limbs, positions = list[int](), list[FloatArray]()
    touching, active, grips = list[BoolArray](), list[BoolArray](), list[BoolArray]()
    for part in (*soles, *palms):
        # What is far above the floor rests on nothing, unless a hand was said to hold on there
        held, flags, middles = part.limb >= 2, part.flags, part.middles
        high = middles[..., 1] - floor_m > (HAND_SLACK_M if held else FOOT_SLACK_M)
        is_grip = flags & (given is not None) & held
        if is_flat:
            is_grip = is_grip & high
            flags = flags & (~high | is_grip)
            # Points dropped onto the floor; a hand that holds on stays where it is
            heights = np.where(is_grip, middles[..., 1], floor_m)
            middles = np.stack([middles[..., 0], heights, middles[..., 2]], axis=-1)
        for m in range(middles.shape[1]):
            # Two corners a middle: half a width to either side; a grip is a point
            for sign in (1.0, -1.0):
                limbs.append(part.limb)
                positions.append(middles[:, m] + sign * part.half[:, m] * ~is_grip[:, m, None])
                touching.append(flags[:, m])
                active.append(widen_flags(flags[:, m], slack))
                grips.append(is_grip[:, m])
    none = np.zeros((num_frames, 0), dtype=np.bool_)
    lowest = [np.zeros(num_frames)] if not soles else [s.middles[:, :2, 1].min(axis=1) for s in soles]
    # Displacement [m] of the slowest planted point of the most sliding foot in a window around each frame
    half = max(1, round(0.5 * SLIDE_WINDOW_S * motion.rate_hz))
    slides = np.zeros(num_frames)
    if num_frames > 2 * half:
        scale = SLIDE_WINDOW_S * motion.rate_hz / (2 * half)
        for sole in soles:
            step = sole.middles[2 * half :] - sole.middles[: -2 * half]
            held = sole.flags[2 * half :] & sole.flags[: -2 * half] & sole.flags[half:-half]
            moved = np.where(held, np.hypot(step[..., 0], step[..., 2]), np.inf).min(axis=1)
            slides[half:-half] = np.maximum(slides[half:-half], np.where(np.isfinite(moved), scale * moved, 0.0))
        slides[:half], slides[-half:] = slides[half], slides[-half - 1]
    return Supports(
        np.array(limbs, dtype=np.int64),
        np.stack(positions, axis=1) if limbs else np.zeros((num_frames, 0, 3)),
        np.stack(active, axis=1) if limbs else none,
        np.stack(touching, axis=1) if limbs else none,
        compute_friction_edges(UP, friction, NUM_EDGES),
        np.stack(grips, axis=1) if limbs else none,
        floor_m,
        float(np.median(planted)) - floor_m if len(planted) and is_flat else 0.0,
        np.min(lowest, axis=0) - floor_m if is_flat else np.zeros(num_frames),
        slides,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _LimbCorners:
    """Corners of one foot or palm."""

    limb: int
    middles: FloatArray  # (F, M, 3) points in the middle of the limb
    flags: BoolArray  # (F, M) which touch
    half: FloatArray  # (F, M, 3) from the middle to a corner, the other is on the other side


def check_length(track: Contacts, motion: Motion) -> None:
    """Refuse a track of another number of frames than the motion."""
    if len(track) != motion.num_frames:
        raise InputError(
            f"contacts has {len(track)} frames, the motion has {motion.num_frames}", "Cut them at the same frames"
        )


def _contact_flags(track: Contacts, *names: str) -> BoolArray:
    """Whether any of the named points touches ``(F,)``; names that the track lacks do not."""
    found = [track.active[:, track.names.index(name)] for name in names if name in track.names]
    return np.any(found, axis=0) if found else np.zeros(len(track), dtype=np.bool_)


def _sole_corners(limb: int, middles: FloatArray, flags: BoolArray, stature_m: float) -> _LimbCorners:
    """Heel, ball and toe end moved to the ends of a sole as long as the body suggests, and half its width."""
    ahead = middles[:, 1] - middles[:, 0]
    ahead = ahead * [1.0, 0.0, 1.0] / np.maximum(np.hypot(ahead[:, 0], ahead[:, 2]), 1e-9)[:, None]
    moved = middles.copy()
    moved[:, 0] -= HEEL_BACK * stature_m * ahead
    length = float(np.median(np.linalg.norm(moved[:, 2] - moved[:, 0], axis=-1)))
    moved[:, 2] += max(0.0, SOLE_LENGTH * stature_m - length) * ahead
    half = SOLE_HALF_WIDTH * stature_m * np.cross(UP, ahead)
    return _LimbCorners(limb, moved, flags, np.repeat(half[:, None], 3, axis=1))


def any_in_row(flags: BoolArray) -> BoolArray:
    """Whether any flag of a row ``(F, P)`` is set ``(F,)``."""
    return np.asarray(np.any(flags, axis=1), dtype=np.bool_)


def widen_flags(flags: BoolArray, count: int) -> BoolArray:
    """Flags ``(F,)`` that last ``count`` frames longer at both ends of each run."""
    if count == 0 or not flags.any():
        return flags
    sums = np.concatenate([[0], np.cumsum(np.pad(flags.astype(np.int64), count))])
    return (sums[2 * count + 1 :] - sums[: -2 * count - 1]) > 0
