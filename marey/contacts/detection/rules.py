"""Rules of the body for contacts: what a body cannot do is taken out, what it must do is put in.

Feet are cleaned first; hands follow, and both form one contact track.
"""

from __future__ import annotations

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.contacts.detection.points import LEG_M, SIDES, ContactSettings, PointTracks
from marey.motion.clip import Contacts
from marey.motion.time_series import find_runs

AIR_M = 0.06  # [m] a point of a foot that is so much higher than another does not carry it
MOMENT_S = 0.05  # [s] a heel does not land and leave in less
STEP_M = 0.15  # [m] half a foot: one that has gone farther over the ground has stepped, and carries nothing
# Way [m] and speed [m/s] of the slowest point of a foot that may still carry: in a gap of its contact, and where
# nothing else carries a body that does not fall, though landing feet of captures with broken knees slide
CLOSE, LOOSE = (0.30, 2.5), (0.60, 4.0)
LEFT_M = 0.03  # [m] a sole that has risen more since it last stood has left: toes roll by less within a few frames
PUSH_MPS2 = 3.0  # [m/s²] a body that is pushed up by more is carried, however fast its feet are
BENT_SHARE = 0.9  # [-] of the median height of the pelvis over the lower foot: a squat is lower, whatever the knees do
FREE_FALL_MPS2 = -5.0  # half of gravity: between standing (0) and flight (-9.81)


def clean_feet(tracks: PointTracks, planted: BoolArray, settings: ContactSettings) -> BoolArray:
    """Return whether each foot is down ``(F, 2)``: its point flags ``(F, K)``, less what is in the air."""
    touching = {side: np.asarray(planted[:, tracks.columns(side)].any(axis=1)) for side in SIDES}
    feet = np.stack([_clean_runs(down, tracks, side, settings) for side, down in touching.items()], axis=1)
    # A foot that is still at the top of a jump is not planted
    for s in range(2):
        for start, stop in find_runs(feet[:, s]):
            feet[start:stop, s] = not is_falling(tracks, start, stop)
    # A foot held still in the air is not planted
    soles = np.stack([tracks.heights[:, tracks.columns(side)].min(axis=1, initial=np.inf) for side in SIDES], axis=1)
    kept = feet.copy()
    ground = min((float(np.median(soles[a:b, s])) for s in range(2) for a, b in find_runs(feet[:, s])), default=0.0)
    for s in range(2):
        for start, stop in find_runs(feet[:, s]):
            level = float(np.median(soles[start:stop, s]))
            above = level - float(np.median(soles[start:stop, 1 - s])) > settings.lifted_m * tracks.size
            idle = above and bool(feet[start:stop, 1 - s].all())
            upright = (
                float(tracks.root_heights[start:stop].max()) - level > settings.standing_share * LEG_M * tracks.size
            )
            aloft = level - ground > settings.lifted_m * tracks.size and not upright
            kept[start:stop, s] = not (idle or aloft)
    rolling = np.stack([_add_rolls(kept[:, s], tracks, side, settings) for s, side in enumerate(SIDES)], axis=1)
    return _add_squats(rolling, tracks, settings)


def support_body(tracks: PointTracks, feet: BoolArray, hands: BoolArray, settings: ContactSettings) -> BoolArray:
    """Put feet down ``(F, 2)`` where the body would else hang in the air: no foot, no hand ``(F,)`` and no fall."""
    # Where no foot and no hand is down and the body does not fall, the feet before and after carry it
    closed, reach = feet.copy(), tracks.frames(settings.flight_close_s)
    for start, stop in inner_runs(~(feet.any(axis=1) | hands)):
        if stop - start < reach and not is_falling(tracks, start, stop):
            first = last = (start + stop + 1) // 2
            speeds = [tracks.speeds[start:stop, tracks.columns(side)].min(axis=1, initial=np.inf) for side in SIDES]
            slow = np.array([bool((v < settings.roll_speed_mps).all()) for v in speeds])
            closed[start:stop] |= (feet[start - 1] | feet[stop]) & slow
        else:
            falling = start + np.flatnonzero(tracks.falls[start:stop] < FREE_FALL_MPS2)
            first, last = (int(falling[0]), int(falling[-1]) + 1) if len(falling) else (start, stop)
        if closed[start:stop].any():
            continue
        before = slice(start, first if first - start < reach else start)
        after = slice(last if stop - last < reach else stop, stop)
        for s, side in enumerate(SIDES):
            sole = tracks.heights[:, tracks.columns(side)].min(axis=1, initial=np.inf)
            is_low = sole[before] < sole[start - 1] + LEFT_M * tracks.size
            closed[before, s] |= feet[start - 1, s] & is_low & _may_carry(tracks, side, before, start - 1, LOOSE)
            closed[after, s] |= feet[stop, s] & _may_carry(tracks, side, after, stop, LOOSE)
    closed = _add_squats(closed, tracks, settings)
    return np.stack([_clean_runs(closed[:, s], tracks, side, settings) for s, side in enumerate(SIDES)], axis=1)


def inner_runs(flags: BoolArray) -> list[tuple[int, int]]:
    """Runs that touch neither end of the clip: those at the ends may be longer than they look."""
    return [(a, b) for a, b in find_runs(flags) if a > 0 and b < len(flags)]


def middle_frames(values: FloatArray, start: int, stop: int) -> FloatArray:
    """Return the middle 60 % of a run, at least one frame: what its blurred ends do not touch."""
    margin = int(0.2 * (stop - start))
    return values[start + margin : max(start + margin + 1, stop - margin)]


def is_falling(tracks: PointTracks, start: int, stop: int) -> bool:
    """Return whether the centre of mass falls freely in the middle of a run."""
    return float(middle_frames(tracks.falls, start, stop).mean()) < FREE_FALL_MPS2


def _may_carry(tracks: PointTracks, side: str, frames: slice, at: int, bounds: tuple[float, float]) -> BoolArray:
    """Return in which frames ``(N,)`` a point of the foot is slow and near to where it is in frame ``at``: no step."""
    columns = tracks.columns(side)
    level = tracks.positions[:, columns][..., [0, 2]]
    is_near = np.linalg.norm(level[frames] - level[at], axis=-1) < bounds[0] * tracks.size
    is_slow = tracks.speeds[frames, columns] < bounds[1] * np.sqrt(tracks.size)
    return np.asarray((is_near & (is_slow | (tracks.falls[frames, None] > PUSH_MPS2))).any(axis=1))


def _clean_runs(down: BoolArray, tracks: PointTracks, side: str, settings: ContactSettings) -> BoolArray:
    """Fill short gaps in which the foot does not step, then drop short contacts."""
    down = down.copy()
    for start, stop in inner_runs(~down):
        is_short = stop - start < tracks.frames(settings.gap_s)
        down[start:stop] |= is_short and bool(_may_carry(tracks, side, slice(start, stop + 1), start - 1, CLOSE).all())
    for start, stop in inner_runs(down):
        down[start:stop] &= stop - start >= tracks.frames(settings.short_s)
    return down


def _add_squats(feet: BoolArray, tracks: PointTracks, settings: ContactSettings) -> BoolArray:
    """In a deep squat both feet below the body are planted, however they rise, unless they step.

    Captured knees are often wrong when they are bent to the full: the feet then seem to leave the ground by up to
    0.35 m (CMU 75_20, 83_47), while the body neither falls nor leans.
    """
    soles = [tracks.heights[:, tracks.columns(side)].min(axis=1, initial=np.inf) for side in SIDES]
    over = tracks.root_heights - np.minimum(*soles)  # the foot of a ladder is low as well
    low = (tracks.root_heights < settings.squat_share * np.median(tracks.root_heights)) & (
        over < BENT_SHARE * np.median(over)
    )
    squat = low & (tracks.falls > FREE_FALL_MPS2) & ~is_off_feet(tracks, np.ones_like(feet), settings)
    squat &= np.maximum(*soles) < tracks.root_heights - settings.squat_leg_m * tracks.size
    planted = feet.copy()
    for start, stop in find_runs(squat):
        gap = tracks.frames(settings.gap_s)
        if stop - start < gap or not feet[max(0, start - gap) : stop + gap].any(axis=0).all():
            continue
        for s, side in enumerate(SIDES):
            ground = tracks.positions[:, tracks.columns(side)][..., [0, 2]].mean(axis=1)
            stands = np.flatnonzero(feet[: stop + gap, s])
            for a, b in find_runs(~feet[start:stop, s], 0):
                span = slice(start + a, start + b)
                before, after = stands[(stands < span.start) & (stands >= start - gap)], stands[stands >= span.stop]
                # Put down elsewhere, it has stepped
                far = len(before) and len(after) and np.linalg.norm(ground[before[-1]] - ground[after[0]])
                planted[span, s] = far < 2.0 * STEP_M * tracks.size
    return planted


def is_off_feet(tracks: PointTracks, feet: BoolArray, settings: ContactSettings) -> BoolArray:
    """Return whether the centre of mass ``(F,)`` is far, over the ground, from the line between the planted feet."""
    if not all(tracks.columns(side) for side in SIDES):
        return np.asarray(~feet.any(axis=1))
    soles: list[FloatArray] = [
        np.asarray(tracks.positions[:, tracks.columns(side)][..., [0, 2]].mean(axis=1)) for side in SIDES
    ]
    left: FloatArray = np.where(feet[:, :1], soles[0], soles[1])
    right: FloatArray = np.where(feet[:, 1:], soles[1], soles[0])
    points = tracks.centres[:, [0, 2]]
    along = right - left
    length = np.maximum(np.einsum("fi,fi->f", along, along), 1e-12)
    t = np.clip(np.einsum("fi,fi->f", points - left, along) / length, 0.0, 1.0)
    return ~feet.any(axis=1) | (
        np.linalg.norm(points - left - t[:, None] * along, axis=-1) > settings.bearing_m * tracks.size
    )


def _add_rolls(down: BoolArray, tracks: PointTracks, side: str, settings: ContactSettings) -> BoolArray:
    """A slow, short "swing" is a foot rolling on its toes: it stays down."""
    columns = tracks.columns(side, "toe")
    down = down.copy()
    for start, stop in inner_runs(~down) if columns else ():
        speed = tracks.speeds[start:stop, columns].min(axis=1).max()
        path = tracks.positions[start - 1 : stop + 1, columns[0]]
        travel = np.linalg.norm(path - path[0], axis=1).max()
        down[start:stop] |= speed < settings.roll_speed_mps and travel < settings.roll_travel_m * tracks.size
    return down


def build_contact_track(tracks: PointTracks, planted: BoolArray, feet: BoolArray) -> Contacts:
    """Put point flags ``(F, K)`` under foot flags ``(F, 2)``: one track per heel, toe and hand.

    A toe is planted while the ball or the toe end is. Where a rule put a foot down, its slowest point is planted. No
    point is planted while another one of its foot is far below it: a heel can be slow while the foot is on its toes.
    """
    names: list[str] = []
    flags: list[BoolArray] = []
    for s, side in enumerate(SIDES):
        parts = {part: tracks.columns(side, part) for part in ("heel", "toe")}
        down = {part: planted[:, k].any(axis=1) & feet[:, s] for part, k in parts.items() if k}
        # A point that is in the air over another one of its foot does not stand
        high = {part: tracks.heights[:, parts[part]].min(axis=1) for part in down}
        lowest = np.min(list(high.values()), axis=0) if down else 0.0
        is_low = {part: high[part] <= lowest + AIR_M * tracks.size for part in down}
        down = {part: down[part] & is_low[part] for part in down}
        bare = feet[:, s] & ~np.any(list(down.values()), axis=0) if down else feet[:, s]
        slow = {part: np.where(is_low[part], tracks.speeds[:, parts[part]].min(axis=1), np.inf) for part in down}
        # Where the foot stands on one part just before or after, it does so here
        for start, stop in find_runs(bare):
            for t in (start - 1, stop):
                alone = [part for part in down if 0 <= t < len(bare) and feet[t, s] and down[part][t]]
                if len(alone) == 1 and (start == 0 or stop == len(bare) or feet[start - 1, s] != feet[stop, s]):
                    for part in down:
                        slow[part][start:stop] = np.where(part == alone[0], 0.0, np.inf)
        for part in down:
            down[part] = down[part] | (bare & np.all([slow[part] <= other for other in slow.values()], axis=0))
        # A foot that lands or leaves on its toes has no heel down for a moment, nor the other way round
        for one, other in (("heel", "toe"), ("toe", "heel")) if len(down) == 2 else ():
            for start, stop in find_runs(down[one] & ~down[other], 0):
                is_end = not (feet[start - 1, s] if start else False) or not (
                    feet[stop, s] if stop < len(feet) else False
                )
                beside = [down[other][t] and not down[one][t] for t in (start - 1, stop) if 0 <= t < len(feet)]
                if is_end and any(beside) and stop - start < tracks.frames(MOMENT_S):
                    down[one][start:stop], down[other][start:stop] = False, True
        names += [f"{side}_{part}" for part in down]
        flags += down.values()
    for side in SIDES:
        for k in tracks.columns(side, "hand"):
            names.append(f"{side}_hand")
            flags.append(planted[:, k])
    return Contacts(tuple(names), np.stack(flags, axis=1) if flags else np.zeros((len(feet), 0), dtype=bool))


def filter_hand_contacts(
    tracks: PointTracks, planted: BoolArray, feet: BoolArray, settings: ContactSettings
) -> tuple[BoolArray, BoolArray]:
    """Keep of the point flags ``(F, K)`` those hands that are near the ground and carry the body; tell when ``(F,)``.

    A hand at rest on a box, or taking a thing from the floor, is near and still as well; it does not count, because
    the feet below the centre of mass carry the body. Contacts with things are annotated by hand.
    """
    hands = [k for side in SIDES for k in tracks.columns(side, "hand")]
    kept = planted.copy()
    kept[:, hands] = False
    if not hands or not planted[:, hands].any():
        return kept, np.zeros(len(feet), dtype=bool)
    bearing = is_off_feet(tracks, feet, settings)
    # Lowest height at which a foot stands; the lowest of all where none does
    soles = [tracks.heights[:, tracks.columns(side)].min(axis=1, initial=np.inf) for side in SIDES]
    standing = [float(np.median(soles[s][a:b])) for s in range(2) for a, b in find_runs(feet[:, s])]
    ground = min(standing, default=float(tracks.heights.min()))
    for k in hands:
        for start, stop in find_runs(planted[:, k]):
            low = float(np.median(tracks.heights[start:stop, k])) < ground + settings.hand_height_m * tracks.size
            carries = float(bearing[start:stop].mean()) > settings.bearing_share
            kept[start:stop, k] = low and carries and stop - start >= tracks.frames(settings.hand_short_s)
    return kept, np.asarray(kept[:, hands].any(axis=1))
