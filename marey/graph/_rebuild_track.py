"""A way through the graph as poses in the world, one after the other, before feet are cleaned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.blending import BlendRule, Source, blend_duration, blend_sources
from marey.graph._graph import MotionGraph, composed, relative
from marey.graph._pairs import feet_of
from marey.graph._search_result import SearchResult, Step
from marey.lie import SO3
from marey.motion import Motion

RAMP_S: Final = 0.25  # [s] over which a jump between two stretches is spread, on either side
SIDES: Final = ("left", "right")
UP: Final = np.array([0.0, 1.0, 0.0])
TWO_PI: Final = 2.0 * np.pi


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """A place where one stretch ends and another begins, and the jump between them."""

    knot: int  # first of the new stretch
    shift: FloatArray  # (3,) [m]
    turn: FloatArray  # (J, 3) [rad] local


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """Poses at given times; the last pose is where the next piece begins and belongs to it."""

    times: FloatArray  # (K,) [s]
    roots: FloatArray  # (K, 3) [m]
    wxyz: FloatArray  # (K, J, 4)
    plants: FloatArray  # (K, 2, 3) x, z [m], yaw [rad] of left and right foot; NaN while in the air
    is_anchor: BoolArray  # (K, 2) the foot that the pose is placed by

    @property
    def seconds(self) -> float:
        """From the first to the last pose."""
        return float(self.times[-1])

    def rows(self, rows: slice | IntArray, times: FloatArray) -> Track:
        """Some of the poses at other times."""
        return Track(times, self.roots[rows], self.wxyz[rows], self.plants[rows], self.is_anchor[rows])


def way_track(graph: MotionGraph, result: SearchResult) -> tuple[Track, FloatArray]:
    """Poses of a way with its jumps spread out, and the times ``(C,)`` [s] at which its constraints are met.

    Poses at those times are the database's own, unchanged: there a hand is where the search has seen it.
    """
    pieces = [step_track(graph, step) for step in result.steps]
    pieces.append(_last_pose(graph, result))
    begins = np.cumsum([0.0, *(p.seconds + s.hold_s for p, s in zip(pieces, result.steps, strict=False))])
    met = np.array([begins[step + 1] - result.steps[step].hold_s for step in result.met])
    track, cuts = _joined(pieces, [step.hold_s for step in result.steps])
    return spread(track, cuts, met), met


def step_track(graph: MotionGraph, step: Step) -> Track:
    """Poses of one step, the last one being where it ends."""
    first = _edge_track(graph, step.stretches or graph.stretches(step.edge), step.place)
    if not step.is_blended or step.weight == 1.0:
        return first
    second = _edge_track(graph, graph.stretches(step.other), step.place)
    return _blended(graph, first, second, step)


def _edge_track(graph: MotionGraph, stretches: Sequence[tuple[int, int]], place: FloatArray) -> Track:
    """Poses of stretches, all placed by their anchors, each from its first pose to that after its last."""
    database, pieces = graph.database, list[Track]()
    for start, stop in stretches:
        has_next = stop < database.num_poses and database.clip[stop] == database.clip[stop - 1]
        poses = np.append(np.arange(start, stop), stop if has_next else stop - 1)
        pieces.append(placed(graph, poses, int(database.phase[stop - 1]), place))
    track, cuts = _joined([*pieces, pieces[-1].rows(slice(-1, None), np.zeros(1))], [0.0] * len(pieces))
    return spread(track, cuts, np.array([0.0, track.seconds]))


def placed(graph: MotionGraph, poses: IntArray, phase: int, place: FloatArray) -> Track:
    """Poses carried so that the anchor of a phase is at ``place``."""
    database = graph.database
    anchor, feet = database.phases.anchor[phase], database.phases.feet[phase]
    R = SO3.exp((place[2] - anchor[2]) * UP)
    here, there = np.array([anchor[0], 0.0, anchor[1]]), np.array([place[0], 0.0, place[1]])
    wxyz = database.wxyz[poses].copy()
    wxyz[:, 0] = (R @ SO3(wxyz[:, 0])).wxyz
    plants = np.tile(composed(place, relative(feet, anchor)), (len(poses), 1, 1))
    is_anchor = ~np.isnan(feet[:, 0]) & (feet == anchor).all(axis=1)
    return Track(
        np.arange(len(poses)) / database.rate_hz,
        R @ (database.roots[poses] - here) + there,
        wxyz,
        plants,
        np.tile(is_anchor, (len(poses), 1)),
    )


def _last_pose(graph: MotionGraph, result: SearchResult) -> Track:
    """The pose in which a way ends: the first of the phase after its last edge."""
    step, table = result.steps[-1], graph.database.phases
    through = graph.database.phase[(step.stretches or graph.stretches(step.edge))[-1][1] - 1]
    last = step_track(graph, step)
    if step.is_blended:
        return last.rows(slice(-1, None), np.zeros(1))
    after = int(table.after[through])
    return placed(graph, table.start[[after]], after, result.places[-1])


def _blended(graph: MotionGraph, first: Track, second: Track, step: Step) -> Track:
    """Two edges as one; both stand on the same anchor."""
    body, rate = graph.database.body, graph.database.rate_hz
    weights = np.array([step.weight, 1.0 - step.weight])
    seconds = float(blend_duration([first.seconds, second.seconds], weights, "sqrt"))
    count = max(2, round(seconds * rate))
    shares = np.linspace(0.0, 1.0, count + 1)
    feet = feet_of(graph.database.classes[int(graph.arrays.kind[_source_state(graph, step.edge)])])
    a, b = (Source.of(Motion(body.skeleton, rate, t.roots, SO3(t.wxyz)), body, feet) for t in (first, second))
    b = replace(b, yaw=b.yaw - TWO_PI * np.round((b.yaw[0] - a.yaw[0]) / TWO_PI))
    poses = blend_sources((a, b), weights, shares, feet, rule=BlendRule(), body=body)
    plants = np.tile(mixed_places(first.plants[0], second.plants[0], step.weight), (count + 1, 1, 1))
    return Track(
        shares * seconds, poses.roots, poses.wxyz, plants, np.tile(first.is_anchor[0], (count + 1, 1))
    )  # fmt: skip


def _source_state(graph: MotionGraph, edge: int) -> int:
    return int(np.searchsorted(graph.arrays.first, edge, side="right")) - 1


def mixed_places(first: FloatArray, second: FloatArray, weight: float) -> FloatArray:
    """Places ``(..., 3)`` between two, headings the shorter way."""
    change = second - first
    change[..., 2] = (change[..., 2] + np.pi) % TWO_PI - np.pi
    return first + (1.0 - weight) * change


def _joined(pieces: Sequence[Track], holds: Sequence[float]) -> tuple[Track, list[Cut]]:
    """Pieces one after the other, each without its last pose but the last; a hold repeats the next one's first."""
    cuts, rows, at, knots = list[Cut](), list[Track](), 0.0, 0
    for number, (piece, after) in enumerate(pairwise(pieces)):
        kept = len(piece.times) - 1
        rows.append(piece.rows(slice(0, kept), at + piece.times[:kept]))
        at, knots = at + piece.seconds, knots + kept
        turn = (SO3(piece.wxyz[-1]).inverse() @ SO3(after.wxyz[0])).log()
        cuts.append(Cut(knots, after.roots[0] - piece.roots[-1], turn))
        if holds[number] > 0.0:
            rows.append(after.rows(np.zeros(1, dtype=np.int64), np.array([at])))
            at, knots = at + holds[number], knots + 1
    rows.append(pieces[-1].rows(slice(None), at + pieces[-1].times))
    return _concatenated(rows), cuts


def _concatenated(rows: Sequence[Track]) -> Track:
    names = ("times", "roots", "wxyz", "plants", "is_anchor")
    return Track(*(np.concatenate([getattr(row, name) for row in rows]) for name in names))


def spread(track: Track, cuts: Sequence[Cut], fixed: FloatArray) -> Track:
    """Spread jumps of pose over some time before and after them, so that poses at ``fixed`` times [s] stay.

    A jump is shared between both sides as the room to the next fixed time allows.
    """
    roots, turns = track.roots.copy(), np.zeros((*track.wxyz.shape[:2], 3))
    for cut in cuts:
        if np.abs(cut.shift).max() < 1e-9 and np.abs(cut.turn).max() < 1e-9:
            continue
        away = track.times - track.times[cut.knot]
        before, after = _room(fixed - track.times[cut.knot])
        share = before / max(before + after, 1e-12)
        weight = np.where(
            np.arange(len(away)) < cut.knot, share * _ramp(-away, before), -(1.0 - share) * _ramp(away, after)
        )  # fmt: skip
        roots += weight[:, None] * cut.shift
        turns += weight[:, None, None] * cut.turn
    return replace(track, roots=roots, wxyz=(SO3(track.wxyz) @ SO3.exp(turns)).wxyz)


def _room(fixed: FloatArray) -> tuple[float, float]:
    """Time [s] before and after a cut that may change, none where the cut itself is fixed and the pose after it."""
    if len(fixed) and np.abs(fixed).min() < 1e-6:
        return min(RAMP_S, float(-fixed[fixed < -1e-6].max(initial=-RAMP_S))), 0.0
    before, after = -fixed[fixed < 0.0].max(initial=-RAMP_S), fixed[fixed > 0.0].min(initial=RAMP_S)
    return min(RAMP_S, float(before)), min(RAMP_S, float(after))


def _ramp(away_s: FloatArray, reach_s: float) -> FloatArray:
    """From one at the cut to zero at ``reach_s``, level at both ends."""
    if reach_s <= 0.0:
        return np.zeros_like(away_s)
    u = np.clip(away_s / reach_s, 0.0, 1.0)
    return 1.0 - u * u * (3.0 - 2.0 * u)
