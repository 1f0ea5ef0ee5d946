"""A way through the graph as poses in the world, one after the other, before feet are cleaned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.blending import BlendSettings, BlendSource, blend_duration, blend_sources
from marey.graph._ara import PICK_LEFT, PICK_RIGHT, compose_planar, to_frame
from marey.graph._pairs import planted_feet
from marey.graph._rebuild_joins import PoseTrack, Velocity, hold_last_pose, join_tracks, spread_discontinuities
from marey.graph._search_result import PathStep, SearchResult
from marey.lie import SO3
from marey.motion import Motion

if TYPE_CHECKING:
    from marey.graph._graph import MotionGraph

SETTLE_S: Final = 1.0  # [s] in which a stand at the end is looked through for its stillest pose
REST_S: Final = 0.4  # [s] for which that pose is shown; what is left of speed goes in this time
REST_DISTANCE: Final = 2e-4  # [rad], [m] a frame: as still as the stillest pose
SIDES: Final = ("left", "right")
UP: Final = np.array([0.0, 1.0, 0.0])
TWO_PI: Final = 2.0 * np.pi


def build_path_track(graph: MotionGraph, result: SearchResult) -> tuple[PoseTrack, FloatArray]:
    """Poses of a way with its jumps spread out, and the times ``(C,)`` [s] at which its constraints are met.

    Poses in which something is picked up are the database's own, unchanged: there a hand is where the search has seen
    it. A way that ends in a stand goes on until it rests.
    """
    parts = [split_step(graph, step) for step in result.steps]
    parts.append(_append_rest(graph, result))
    pieces, ends = list[PoseTrack](), list[float]()
    for own, after, step in zip(parts, parts[1:], result.steps, strict=False):
        pieces.extend(own)
        ends.append(sum(piece.seconds for piece in pieces))
        if step.hold_s > 0.0:
            pieces.append(hold_last_pose(after[0].rows(slice(0, 1), np.zeros(1)), step.hold_s, graph.database.rate_hz))
    track, cuts = join_tracks([*pieces, *parts[-1]])
    met = np.array([ends[step] for step in result.met])
    picks = [time for time, step in zip(met, result.met, strict=True) if is_pick(graph, result.steps[step])]
    return spread_discontinuities(track, cuts, np.array(picks)), met


def is_pick(graph: MotionGraph, step: PathStep) -> bool:
    """Whether something is picked up at the end of a step."""
    return int(graph.arrays.event[graph.arrays.target[step.edge]]) in (PICK_LEFT, PICK_RIGHT)


def split_step(graph: MotionGraph, step: PathStep) -> list[PoseTrack]:
    """Poses of one step in stretches, each with the pose after its last."""
    if not step.is_blended or step.weight == 1.0:
        return _load_pose_ranges(graph, step.stretches or graph.stretches(step.edge), step.place)
    return [step_track(graph, step)]


def step_track(graph: MotionGraph, step: PathStep) -> PoseTrack:
    """Poses of one step, the last one being where it ends."""
    first = _load_edge_track(graph, step.stretches or graph.stretches(step.edge), step.place)
    if not step.is_blended or step.weight == 1.0:
        return first
    second = _load_edge_track(graph, graph.stretches(step.other), step.place)
    return _blend_edges(graph, first, second, step)


def _load_edge_track(graph: MotionGraph, stretches: Sequence[tuple[int, int]], place: FloatArray) -> PoseTrack:
    """An edge alone; its ends stay as they are."""
    track, cuts = join_tracks(_load_pose_ranges(graph, stretches, place))
    return spread_discontinuities(track, cuts, np.array([0.0, track.seconds]))


def _load_pose_ranges(graph: MotionGraph, stretches: Sequence[tuple[int, int]], place: FloatArray) -> list[PoseTrack]:
    """Poses of stretches, all placed by their anchors, each from its first pose to that after its last."""
    database, pieces = graph.database, list[PoseTrack]()
    for start, stop in stretches:
        has_next = stop < database.num_poses and database.clip[stop] == database.clip[stop - 1]
        poses = np.append(np.arange(start, stop), stop if has_next else stop - 1)
        pieces.append(_load_range(graph, poses, int(database.phase[stop - 1]), place))
    return pieces


def _load_range(graph: MotionGraph, poses: IntArray, phase: int, place: FloatArray) -> PoseTrack:
    """Poses of a clip, and how fast the clip comes to the first of them."""
    track, before = place_poses(graph, poses, phase, place), int(poses[0]) - 1
    if before < 0 or graph.database.clip[before] != graph.database.clip[poses[0]]:
        return track
    lead = place_poses(graph, np.array([before, poses[0]]), phase, place)
    return replace(track, arrival=lead.velocity(0))


def place_poses(graph: MotionGraph, poses: IntArray, phase: int, place: FloatArray) -> PoseTrack:
    """Poses carried so that the anchor of a phase is at ``place``."""
    database = graph.database
    anchor, feet = database.phases.anchor[phase], database.phases.feet[phase]
    R = SO3.exp((place[2] - anchor[2]) * UP)
    here, there = np.array([anchor[0], 0.0, anchor[1]]), np.array([place[0], 0.0, place[1]])
    wxyz = database.wxyz[poses].copy()
    wxyz[:, 0] = (R @ SO3(wxyz[:, 0])).wxyz
    plants = np.tile(compose_planar(place, to_frame(feet, anchor)), (len(poses), 1, 1))
    is_anchor = ~np.isnan(feet[:, 0]) & (feet == anchor).all(axis=1)
    return PoseTrack(
        np.arange(len(poses)) / database.rate_hz,
        R @ (database.roots[poses] - here) + there,
        wxyz,
        plants,
        np.tile(is_anchor, (len(poses), 1)),
    )


def _append_rest(graph: MotionGraph, result: SearchResult) -> list[PoseTrack]:
    """What is shown after the last step: its last pose, and if one stands, what leads from it to rest."""
    step, table = result.steps[-1], graph.database.phases
    if step.is_blended:
        return [step_track(graph, step).rows(slice(-1, None), np.zeros(1))]
    through = graph.database.phase[(step.stretches or graph.stretches(step.edge))[-1][1] - 1]
    after = int(table.after[through])
    if not graph.arrays.is_standing[graph.arrays.target[step.edge]]:
        return [place_poses(graph, table.start[[after]], after, result.places[-1])]
    last = min(int(table.stop[after]), int(table.start[after]) + round(SETTLE_S * graph.database.rate_hz))
    own: IntArray = np.arange(int(table.start[after]), last)
    shown = _load_range(graph, own[: _find_stillest_pose(graph, own) + 1], after, result.places[-1])
    rest = hold_last_pose(shown, REST_S, graph.database.rate_hz)
    return [shown, rest] if len(shown.times) > 1 else [rest]


def _find_stillest_pose(graph: MotionGraph, poses: IntArray) -> int:
    """The pose of some that is left most slowly; none after the last of them is looked at."""
    wxyz = SO3(graph.database.wxyz[poses])
    turned = np.linalg.norm((wxyz[:-1].inverse() @ wxyz[1:]).log(), axis=-1).mean(axis=1)
    moved = np.linalg.norm(np.diff(graph.database.roots[poses], axis=0), axis=1)
    speed = np.append(turned + moved, np.inf)
    return int(np.flatnonzero(speed <= speed.min() + REST_DISTANCE)[0]) if len(poses) > 1 else 0


def _blend_edges(graph: MotionGraph, first: PoseTrack, second: PoseTrack, step: PathStep) -> PoseTrack:
    """Two edges as one; both stand on the same anchor."""
    body, rate = graph.database.body, graph.database.rate_hz
    weights = np.array([step.weight, 1.0 - step.weight])
    seconds = float(blend_duration([first.seconds, second.seconds], weights, "sqrt"))
    count = max(2, round(seconds * rate))
    shares = np.linspace(0.0, 1.0, count + 1)
    feet = planted_feet(graph.database.classes[int(graph.arrays.kind[_source_state(graph, step.edge)])])
    a, b = (
        BlendSource.from_motion(Motion(body.skeleton, rate, t.roots, SO3(t.wxyz)), body, feet) for t in (first, second)
    )
    b = replace(b, yaw=b.yaw - TWO_PI * np.round((b.yaw[0] - a.yaw[0]) / TWO_PI))
    poses = blend_sources((a, b), weights, shares, feet, rule=BlendSettings(), body=body)
    plants = np.tile(blend_positions(first.plants[0], second.plants[0], step.weight), (count + 1, 1, 1))
    return PoseTrack(
        shares * seconds, poses.roots, poses.wxyz, plants, np.tile(first.is_anchor[0], (count + 1, 1)),
        _arrival_velocity((first, second), weights, seconds),
    )  # fmt: skip


def _arrival_velocity(tracks: tuple[PoseTrack, PoseTrack], weights: FloatArray, seconds: float) -> Velocity | None:
    """How fast a blend comes to its first pose: as its sources do, at its own pace."""
    pace, spin = np.zeros(3), np.zeros((tracks[0].wxyz.shape[1], 3))
    for track, weight in zip(tracks, weights, strict=True):
        if track.arrival is None:
            return None
        share = weight * track.seconds / seconds
        pace, spin = pace + share * track.arrival[0], spin + share * track.arrival[1]
    return pace, spin


def _source_state(graph: MotionGraph, edge: int) -> int:
    return int(np.searchsorted(graph.arrays.first, edge, side="right")) - 1


def blend_positions(first: FloatArray, second: FloatArray, weight: float) -> FloatArray:
    """Places ``(..., 3)`` between two, headings the shorter way."""
    change = second - first
    change[..., 2] = (change[..., 2] + np.pi) % TWO_PI - np.pi
    return first + (1.0 - weight) * change
