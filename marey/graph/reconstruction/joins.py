"""Junctions of pose sequences: discontinuities of pose and velocity, distributed over a time window.

Poses are read at the times of the output's clock, on which events fall on frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, cast

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.lie import SO3
from marey.numerics import smootherstep

RAMP_S: Final = 0.2  # [s] over which a jump between two stretches is spread at least, on either side
LONGEST_RAMP_S: Final = 0.7  # [s] and at most
DRIFT_MPS: Final = 0.15  # [m/s] a root that jumps takes so long that this is not exceeded
BRAKE_MPS2: Final = 2.5  # [m/s²] and one that changes its speed, so that this is not exceeded
FADE_MAX_SLOPE: Final = 1.875  # [-] steepest slope of what a jump is spread by
FADE_MAX_CURVATURE: Final = 3.9  # [-] greatest bend of what a jump of speed is spread by
NEGLIGIBLE: Final = 1e-9  # [m], [rad] no jump


Velocity = tuple[FloatArray, FloatArray]
"""Of the root (3,) [m/s] and of the joints (J, 3) [rad/s], local."""


@dataclass(frozen=True, slots=True, eq=False)
class Discontinuity:
    """A place where one stretch ends and another begins, and the jumps between them."""

    knot: int  # first of the new stretch
    shift: FloatArray  # (3,) [m] of the root
    turn: FloatArray  # (J, 3) [rad] of the joints, local
    pace: FloatArray  # (3,) [m/s] jump of the root's velocity
    spin: FloatArray  # (J, 3) [rad/s] and of the joints'

    @property
    def ramp_s(self) -> float:
        """Time [s] on either side over which the root is smoothed within speed and acceleration bounds."""
        drift = FADE_MAX_SLOPE * 0.5 * float(np.linalg.norm(self.shift)) / DRIFT_MPS
        brake = FADE_MAX_CURVATURE * 0.5 * float(np.linalg.norm(self.pace)) / BRAKE_MPS2
        return float(np.clip(max(drift, brake), RAMP_S, LONGEST_RAMP_S))


@dataclass(frozen=True, slots=True, eq=False)
class PoseTrack:
    """Poses at given times; the last pose is where the next piece begins and belongs to it."""

    times: FloatArray  # (K,) [s]
    roots: FloatArray  # (K, 3) [m]
    wxyz: FloatArray  # (K, J, 4)
    plants: FloatArray  # (K, 2, 3) x, z [m], yaw [rad] of left and right foot; NaN while in the air
    is_anchor: BoolArray  # (K, 2) the foot that the pose is placed by
    arrival: Velocity | None = None  # with which its own clip comes to the first pose, if it has a pose before

    @property
    def seconds(self) -> float:
        """From the first to the last pose."""
        return float(self.times[-1])

    def rows(self, rows: slice | IntArray, times: FloatArray) -> PoseTrack:
        """Some of the poses at other times."""
        return PoseTrack(times, self.roots[rows], self.wxyz[rows], self.plants[rows], self.is_anchor[rows])

    def velocity(self, frame: int) -> Velocity:
        """From a pose to the next."""
        if len(self.times) < 2:
            return np.zeros(3), np.zeros((self.wxyz.shape[1], 3))
        a, b = frame, frame + 1
        span = max(float(self.times[b] - self.times[a]), 1e-9)
        turned = (SO3(self.wxyz[a]).inverse() @ SO3(self.wxyz[b])).log()
        return (self.roots[b] - self.roots[a]) / span, turned / span


def join_tracks(pieces: Sequence[PoseTrack]) -> tuple[PoseTrack, list[Discontinuity]]:
    """Pieces one after the other, each without its last pose but the last, and what jumps between them."""
    cuts, rows, at, knots = list[Discontinuity](), list[PoseTrack](), 0.0, 0
    for piece, after in pairwise(pieces):
        kept = len(piece.times) - 1
        rows.append(piece.rows(slice(0, kept), at + piece.times[:kept]))
        at, knots = at + piece.seconds, knots + kept
        # Speeds are those with which both come to the first pose after the cut: where one clip goes on there is no jump
        turn = (SO3(piece.wxyz[-1]).inverse() @ SO3(after.wxyz[0])).log()
        before = piece.velocity(-2)
        ahead = after.arrival if after.arrival is not None else after.velocity(0) if len(after.times) > 1 else before
        pace, spin = ahead[0] - before[0], ahead[1] - before[1]
        cuts.append(Discontinuity(knots, after.roots[0] - piece.roots[-1], turn, pace, spin))
    rows.append(pieces[-1].rows(slice(None), at + pieces[-1].times))
    times, roots, wxyz, plants = (
        np.concatenate([getattr(row, name) for row in rows]) for name in ("times", "roots", "wxyz", "plants")
    )
    whole = PoseTrack(times, roots, wxyz, plants, np.concatenate([row.is_anchor for row in rows]))
    return replace(whole, arrival=pieces[0].arrival), cuts


def hold_last_pose(pose: PoseTrack, seconds: float, rate_hz: float) -> PoseTrack:
    """The last pose of a track, held."""
    count = max(2, round(seconds * rate_hz) + 1)
    return pose.rows(np.full(count, len(pose.times) - 1), np.linspace(0.0, seconds, count))


def spread_discontinuities(track: PoseTrack, cuts: Sequence[Discontinuity], fixed: FloatArray) -> PoseTrack:
    r"""Spread jumps of pose and speed over some time before and after them, so that poses at ``fixed`` times [s] stay.

    What is added on either side is :math:`s\,p(u) + v\,T q(u)` with :math:`u = |t| / T`: from the jump and its slope
    at the cut to nothing at T, twice differentiable there. Both sides have a part of the jump as the room to the next
    fixed time allows; flights are unchanged, since they are ballistic.
    """
    roots, turns = track.roots.copy(), np.zeros((*track.wxyz.shape[:2], 3))
    is_held = cast(BoolArray, np.isnan(track.plants[:, :, 0]).all(axis=1))
    for cut in cuts:
        if max(np.abs(part).max(initial=0.0) for part in (cut.shift, cut.turn, cut.pace, cut.spin)) < NEGLIGIBLE:
            continue
        # The way over the ground takes as long as its speed asks for; height and joints carry soles, and take as long
        # together as a joint needs
        for is_level, longest in ((True, cut.ramp_s), (False, RAMP_S)):
            # Share (K,) of a jump of place, and of a jump of speed [s], that every pose gets
            here = track.times[cut.knot]
            away, ahead = track.times - here, np.arange(len(track.times)) >= cut.knot
            # Time before and after the cut in which poses may change: to the next fixed time and the next flight
            marks = fixed - here
            is_fixed = bool(len(marks)) and float(np.abs(marks).min()) < 1e-6
            before = min(longest, -float(marks[marks < -1e-6].max(initial=-longest)))
            after = 0.0 if is_fixed else min(longest, float(marks[marks > 1e-6].min(initial=longest)))
            landed, leaves = np.flatnonzero(is_held[: cut.knot]) + 1, np.flatnonzero(is_held[cut.knot :]) + cut.knot
            ground_before = min(before, here - float(track.times[landed[-1]])) if len(landed) else before
            ground_after = min(after, float(track.times[leaves[0]]) - here) if len(leaves) else after
            before, after = (ground_before, ground_after) if ground_before + ground_after > 0.0 else (before, after)
            share = before / max(before + after, 1e-12)
            place, slope = np.zeros_like(away), np.zeros_like(away)
            for side, reach, part in ((~ahead, before, share), (ahead, after, share - 1.0)):
                if reach > 0.0:
                    u = np.clip(np.abs(away[side]) / reach, 0.0, 1.0)
                    place[side] = part * fade_out(u)
                    slope[side] = part * np.sign(away[side]) * reach * velocity_ramp(u)
            mask = np.array([1.0, 0.0, 1.0]) if is_level else np.array([0.0, 1.0, 0.0])
            roots += mask * (place[:, None] * cut.shift + slope[:, None] * cut.pace)
        near = np.flatnonzero((place != 0.0) | (slope != 0.0))
        turns[near] += place[near, None, None] * cut.turn + slope[near, None, None] * cut.spin
    return replace(track, roots=roots, wxyz=(SO3(track.wxyz) @ SO3.exp(turns)).wxyz)


def fade_out(u: FloatArray) -> FloatArray:
    """Smooth fade from one at 0 to zero at 1, with zero first and second derivatives at both ends."""
    return 1.0 - smootherstep(u)


def velocity_ramp(u: FloatArray) -> FloatArray:
    """Zero at 0 and 1, slope one at 0, no slope at 1, no bend at either end."""
    return u - u**3 * (6.0 - 8.0 * u + 3.0 * u * u)


def output_times(seconds: float, events: FloatArray, rate_hz: float) -> FloatArray:
    """Times ``(F,)`` [s] of the frames of a clip so long, moved by half a frame at most so that events have a frame."""
    last = max(1, round(seconds * rate_hz))
    marks = np.unique(np.concatenate([[0.0], events, [seconds]]))
    frames = np.rint(marks * rate_hz)
    frames[-1] = last
    frames, first = np.unique(frames, return_index=True)
    return np.interp(np.arange(last + 1), frames, marks[first])


def sample_track(track: PoseTrack, times: FloatArray) -> PoseTrack:
    """Poses of a track at times ``(F,)`` [s]: a cubic through four poses, for places and, by logarithms, rotations.

    Plants are those of the pose before. Times that are those of poses give these poses.
    """
    low = np.clip(np.searchsorted(track.times, times + 1e-9, side="right") - 1, 0, len(track.times) - 1)
    last = len(track.times) - 1
    high = np.minimum(low + 1, last)
    span = np.maximum(track.times[high] - track.times[low], 1e-12)
    part = np.clip((times - track.times[low]) / span, 0.0, 1.0)
    near = [np.maximum(low - 1, 0), low, high, np.minimum(high + 1, last)]
    # Places relative to the pose before, rotations by logarithms relative to it
    p0, p1, p2, p3 = (track.roots[rows] for rows in near)
    roots = p1 + _catmull_rom(p0 - p1, p2 - p1, p3 - p1, part[:, None])
    here = SO3(track.wxyz[low])
    r0, r2, r3 = ((here.inverse() @ SO3(track.wxyz[near[k]])).log() for k in (0, 2, 3))
    turned = here @ SO3.exp(_catmull_rom(r0, r2, r3, part[:, None, None]))
    return PoseTrack(times, roots, turned.wxyz, track.plants[low], track.is_anchor[low])


def _catmull_rom(p0: FloatArray, p2: FloatArray, p3: FloatArray, t: FloatArray) -> FloatArray:
    """Cubic from zero (t = 0) to ``p2`` (t = 1) with the neighbours ``p0`` and ``p3``."""
    return 0.5 * t * (p2 - p0 + t * (2.0 * p0 + 4.0 * p2 - p3 + t * (-3.0 * p2 + p3 - p0)))
