"""Numbers of states and edges, as the search reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.graph.algorithms import project_principal
from marey.graph.arrays import (
    FLIGHT,
    NO_EVENT,
    NUM_PATH_SAMPLES,
    NUM_TORQUES,
    PICK_LEFT,
    PICK_RIGHT,
    STAND,
    GraphArrays,
    compose_planar,
    to_frame,
    wrap_angles,
)
from marey.graph.database.clips import Database
from marey.graph.database.compact import PhasePaths, compute_pose_costs, path_pose_ranges
from marey.graph.database.events import PICKED_PREFIX, STANDING
from marey.graph.database.settings import GraphSettings
from marey.graph.database.transitions import Transitions
from marey.graph.paths import planted_feet
from marey.lie import SO3
from marey.skeleton import contact_points, foot_points, joint_frames

TOE_OUT_RAD: Final = (-0.26, 0.6)  # [rad] of a standing person's feet, least and most; others are about to turn
MIN_FLIGHT_S: Final = 0.15  # [s] shortest flight that is a jump
MIN_PATH_LENGTH_M: Final = 1e-3  # [m] of flights that cross nothing; zero marks edges that are not flights
TORQUE_SHARES: Final = 6  # instants of an edge whose torques are compared


@dataclass(frozen=True, slots=True, eq=False)
class CompactParts:
    """Paths after culling, sorted by their source state."""

    database: Database
    transitions: Transitions
    ways: PhasePaths
    kept: IntArray  # (E,) numbers of the ways
    state: IntArray  # (S,) of each phase, negative for phases that are left out
    cost: FloatArray  # of all ways
    members: tuple[IntArray, ...]  # phases of each state, the middle first


def anchor_displacements(database: Database, ways: PhasePaths) -> FloatArray:
    """Next anchor in the frame of the anchor of the phase that a way ends with ``(E, 3)``."""
    table = database.phases
    return to_frame(table.anchor[table.after[ways.through]], table.anchor[ways.through])


def keep_planted_feet(delta: FloatArray, feet: FloatArray, source: IntArray, target: IntArray) -> FloatArray:
    """Next anchors ``(E, 3)`` with which feet that are planted at both ends of an edge stay where they are.

    Merged states have one place for each foot, clips have their own. With those of the clips every edge would move the
    feet that stand by a few centimetres, which add up along a cycle: a body would glide without a step. Where both feet
    stand, the middle between them stays.

    Args:
        delta: next anchor in the frame of an edge's own ``(E, 3)``, by the clips.
        feet: left and right foot of each state in the frame of its anchor ``(N, 2, 3)``; NaN where not planted.
        source: states ``(E,)`` in which edges begin,
        target: and in which they end.
    """
    turn = feet[:, 0, 2] + 0.5 * wrap_angles(feet[:, 1, 2] - feet[:, 0, 2])
    middle = np.concatenate([feet[..., :2].mean(axis=1), turn[:, None]], axis=1)
    kept = delta.copy()
    for frame in (feet[:, 0], feet[:, 1], middle):
        stays = np.isfinite(frame[source, 0]) & np.isfinite(frame[target, 0])
        kept[stays] = compose_planar(frame[source[stays]], to_frame(np.zeros(3), frame[target[stays]]))
    return kept


def measure_foot_gaps(delta: FloatArray, feet: FloatArray, source: IntArray, target: IntArray) -> FloatArray:
    """How far ``(E,)`` [m] the clips move a foot that is planted at both ends of an edge; see `keep_planted_feet`."""
    moved = np.linalg.norm((compose_planar(delta[:, None], feet[target]) - feet[source])[..., :2], axis=2)
    return np.nan_to_num(moved).max(axis=1)


def make_arrays(parts: CompactParts, settings: GraphSettings) -> GraphArrays:
    """Arrays of the compact graph."""
    database, ways, kept = parts.database, parts.ways, parts.kept
    table = database.phases
    source, after = parts.state[ways.source[kept]], table.after[ways.through[kept]]
    phases = np.array([own[0] for own in parts.members])
    yaw = SO3(database.wxyz[:, 0]).twist_angle([0.0, 1.0, 0.0])
    roots = np.stack([database.roots[:, 0], database.roots[:, 2], yaw], axis=1)
    tracks = _EdgeTracks.from_parts(parts, roots, compute_pose_costs(database, settings))
    # Hands `(N, 3)` [m] of picks in the anchor's frame, and events `(N,)`
    hands, events = np.zeros((len(phases), 3)), np.zeros(len(phases), dtype=np.int64)
    for n, phase in enumerate(phases):
        planted = database.classes[database.phases.kind[phase]]
        picked = [name for name in planted if name.startswith(PICKED_PREFIX)]
        events[n] = FLIGHT if not planted else STAND if STANDING in planted else NO_EVENT
        if picked:
            hand = picked[0].removeprefix(PICKED_PREFIX)
            events[n] = PICK_LEFT if hand.startswith("left") else PICK_RIGHT
            pose = int(database.phases.start[phase])
            # Where the hand is `(3,)` [m] in that pose
            points = contact_points(database.body.skeleton)
            posed = joint_frames(database.body.skeleton, database.roots[pose][None], database.wxyz[pose][None])
            at = points.positions(*posed)[0, points.index(hand)]
            x, z, _ = to_frame(np.array([at[0], at[2], 0.0]), database.phases.anchor[phase])
            hands[n] = x, at[1], z
    cost, delta = parts.cost[kept], anchor_displacements(database, ways)[kept]
    places = to_frame(roots[table.start[phases]], table.anchor[phases])
    reached = parts.state[after]
    delta = keep_planted_feet(delta, to_frame(table.feet[phases], table.anchor[phases][:, None]), source, reached)
    # Ways of the root that end where the next state begins, and their lengths
    ends = compose_planar(delta, places[reached])[:, :2]
    path = tracks.path.copy()
    arc = tracks.arc + np.linalg.norm(ends - path[:, -1], axis=1)
    path[:, -1] = ends
    # Middles of soles (..., 3) whose balls are given: between heel and tip of the toes
    feet, points = table.feet[phases], foot_points(database.body.skeleton)
    rest = database.body.skeleton.rest_positions()
    sole = [points.index(f"left_{part}") for part in ("heel", "ball", "toe_end")]
    heel, ball, tip = rest[points.joints[sole]] + points.offsets[sole]
    back = float(np.linalg.norm(ball - heel)) - 0.5 * float(np.linalg.norm(tip - heel))
    moved = feet.copy()
    moved[..., 0] -= back * np.sin(feet[..., 2])
    moved[..., 1] -= back * np.cos(feet[..., 2])
    # One begins and ends with feet that point about where the body faces, not in the middle of a turn
    has_stand, facing = database.has_stand[phases], table.anchor[phases, 2] + places[:, 2]
    toe_out = wrap_angles(feet[:, :, 2] - facing[:, None]) * (1.0, -1.0)
    is_standing = has_stand & ((toe_out > TOE_OUT_RAD[0]) & (toe_out < TOE_OUT_RAD[1])).all(axis=1)
    # Length [m] of the edges that are flights, and rise of the root in them [m], (E, 2)
    flight = np.zeros((len(kept), 2))
    intervals = database.phases
    for e, way in enumerate(kept):
        phase = int(ways.source[way])
        start, stop = int(intervals.start[phase]), int(intervals.stop[phase])
        if not database.classes[intervals.kind[phase]]:
            gap = _feet_gap(database, phase) if stop - start >= MIN_FLIGHT_S * database.rate_hz else 0.0
            heights = database.roots[start:stop, 1]
            flight[e] = max(gap, MIN_PATH_LENGTH_M), heights.max() - heights[0]
    return GraphArrays(
        first=np.searchsorted(source, np.arange(len(parts.members) + 1)),
        target=reached,
        cost=cost,
        seconds=tracks.seconds,
        arc=arc,
        delta=delta,
        path=path,
        way=kept,
        event=events,
        hand=hands,
        root=places,
        feet=to_frame(moved, table.anchor[phases][:, None])[..., :2],
        kind=table.kind[phases],
        flight=flight,
        is_standing=is_standing if is_standing.any() else has_stand,
        price=np.maximum(cost - tracks.shown, 0.0),
        power=tracks.shown / tracks.seconds,
        torque=tracks.torque,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _EdgeTracks:
    path: FloatArray  # (E, SAMPLES, 2) [m]
    arc: FloatArray  # (E,) [m]
    seconds: FloatArray  # (E,)
    shown: FloatArray  # (E,) cost of the poses alone
    torque: FloatArray  # (E, TORQUES)

    @classmethod
    def from_parts(cls, parts: CompactParts, roots: FloatArray, cost: FloatArray) -> _EdgeTracks:
        """Go along every edge once."""
        database, count = parts.database, len(parts.kept)
        local = to_frame(roots, database.phases.anchor[database.phase])[:, :2]
        path, arc, seconds = np.empty((count, NUM_PATH_SAMPLES, 2)), np.empty(count), np.empty(count)
        shown, torque = np.empty(count), np.empty((count, TORQUE_SHARES * database.torque.shape[1]))
        for e, way in enumerate(parts.kept):
            stretches = path_pose_ranges(database, parts.transitions, parts.ways, int(way))
            poses = np.concatenate([np.arange(a, b) for a, b in stretches])
            own = local[poses]
            path[e] = own[_spread_evenly(len(own), NUM_PATH_SAMPLES)]
            step = own[1:] - own[:-1]
            arc[e] = np.sqrt((step * step).sum(axis=1)).sum()
            seconds[e] = len(own) / database.rate_hz
            shown[e] = cost[poses].sum()
            torque[e] = database.torque[poses[_spread_evenly(len(own), TORQUE_SHARES)]].ravel()
        directions = project_principal(torque, NUM_TORQUES)
        size = np.linalg.norm(directions, axis=1, keepdims=True)
        return cls(path, arc, seconds, shown, directions / np.maximum(size, 1e-12))


def _spread_evenly(count: int, samples: int) -> IntArray:
    return (np.arange(samples) * (count - 1) + (samples - 1) // 2) // (samples - 1)


def _feet_gap(database: Database, phase: int) -> float:
    """Ground [m] between the feet before a flight and those after it."""
    table, points = database.phases, contact_points(database.body.skeleton)
    ends = np.array([max(int(table.start[phase]) - 1, 0), int(table.stop[phase])])
    along = (database.roots[ends[1]] - database.roots[ends[0]])[[0, 2]]
    along /= max(float(np.hypot(*along)), 1e-9)
    at = points.positions(*joint_frames(database.body.skeleton, database.roots[ends], database.wxyz[ends]))
    places = at[..., [0, 2]] @ along
    before, after = (
        [points.index(f"{foot}_{part}") for foot in planted_feet(planted) for part in ("heel", "toe")]
        for planted in (database.classes[int(table.kind[n])] for n in (phase - 1, int(table.after[phase])))
    )
    if not before or not after:
        return 0.0
    return float(places[1, after].min() - places[0, before].max())
