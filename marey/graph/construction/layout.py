"""Numbers of states and edges, as the search reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray, kernel
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
SUM_BLOCK: Final = 128  # numbers that are summed at once


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
    points = contact_points(database.body.skeleton)
    for n, phase in enumerate(phases):
        planted = database.classes[database.phases.kind[phase]]
        picked = [name for name in planted if name.startswith(PICKED_PREFIX)]
        events[n] = FLIGHT if not planted else STAND if STANDING in planted else NO_EVENT
        if picked:
            hand = picked[0].removeprefix(PICKED_PREFIX)
            events[n] = PICK_LEFT if hand.startswith("left") else PICK_RIGHT
            pose = int(database.phases.start[phase])
            # Where the hand is `(3,)` [m] in that pose
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
    feet, soles = table.feet[phases], foot_points(database.body.skeleton)
    rest = database.body.skeleton.rest_positions()
    sole = [soles.index(f"left_{part}") for part in ("heel", "ball", "toe_end")]
    heel, ball, tip = rest[soles.joints[sole]] + soles.offsets[sole]
    back = float(np.linalg.norm(ball - heel)) - 0.5 * float(np.linalg.norm(tip - heel))
    moved = feet.copy()
    moved[..., 0] -= back * np.sin(feet[..., 2])
    moved[..., 1] -= back * np.cos(feet[..., 2])
    # One begins and ends with feet that point about where the body faces, not in the middle of a turn
    has_stand, facing = database.has_stand[phases], table.anchor[phases, 2] + places[:, 2]
    toe_out = wrap_angles(feet[:, :, 2] - facing[:, None]) * (1.0, -1.0)
    is_standing = has_stand & ((toe_out > TOE_OUT_RAD[0]) & (toe_out < TOE_OUT_RAD[1])).all(axis=1)
    # Length [m] of the edges that are flights, and rise of the root in them [m], (E, 2)
    flight, is_flight = np.zeros((len(kept), 2)), np.array([not planted for planted in database.classes])[table.kind]
    begun, edge_of = np.unique(ways.source[kept], return_inverse=True)
    for n in np.flatnonzero(is_flight[begun]):
        start, stop = int(table.start[begun[n]]), int(table.stop[begun[n]])
        gap = _feet_gap(database, int(begun[n])) if stop - start >= MIN_FLIGHT_S * database.rate_hz else 0.0
        heights = database.roots[start:stop, 1]
        flight[edge_of == n] = max(gap, MIN_PATH_LENGTH_M), heights.max() - heights[0]
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
        database, ways = parts.database, parts.ways
        local = to_frame(roots, database.phases.anchor[database.phase])[:, :2]
        first, start, stop = path_pose_ranges(database, parts.transitions, ways, parts.kept)
        path, arc, shown, poses, instants = measure_edges(first, start, stop, local, cost)
        torque = database.torque[instants].reshape(len(poses), -1)
        seconds = poses / database.rate_hz
        directions = project_principal(torque, NUM_TORQUES)
        size = np.linalg.norm(directions, axis=1, keepdims=True)
        return cls(path, arc, seconds, shown, directions / np.maximum(size, 1e-12))


@kernel
def measure_edges(
    first: IntArray, start: IntArray, stop: IntArray, places: FloatArray, cost: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray, IntArray]:
    """Measure what each edge shows: stretches of poses ``[start, stop)``, those of edge e from ``first[e]`` on.

    Args:
        first: (E + 1,) stretches of each edge.
        start: (L,) first pose of each stretch,
        stop: and the pose after its last.
        places: (P, 2) [m] of the root.
        cost: (P,) of showing a pose.

    Returns:
        Samples of the root's way ``(E, SAMPLES, 2)`` [m], its length ``(E,)`` [m], the cost of the poses ``(E,)``,
        how many they are ``(E,)``, and those whose torques are compared ``(E, SHARES)``.
    """
    count = len(first) - 1
    path, arc, shown = np.empty((count, NUM_PATH_SAMPLES, 2)), np.empty(count), np.empty(count)
    lengths, instants = np.empty(count, dtype=np.int64), np.empty((count, TORQUE_SHARES), dtype=np.int64)
    longest = 0
    for e in range(count):
        lengths[e] = (stop[first[e] : first[e + 1]] - start[first[e] : first[e + 1]]).sum()
        longest = max(longest, lengths[e])
    poses, values = np.empty(longest, dtype=np.int64), np.empty(longest)
    for e in range(count):
        size = 0
        for part in range(first[e], first[e + 1]):
            for pose in range(start[part], stop[part]):
                poses[size] = pose
                size += 1
        # Samples spread evenly over the poses
        for k in range(NUM_PATH_SAMPLES):
            at = poses[(k * (size - 1) + (NUM_PATH_SAMPLES - 1) // 2) // (NUM_PATH_SAMPLES - 1)]
            path[e, k, 0], path[e, k, 1] = places[at, 0], places[at, 1]
        for k in range(TORQUE_SHARES):
            instants[e, k] = poses[(k * (size - 1) + (TORQUE_SHARES - 1) // 2) // (TORQUE_SHARES - 1)]
        for n in range(size - 1):
            x, z = places[poses[n + 1], 0] - places[poses[n], 0], places[poses[n + 1], 1] - places[poses[n], 1]
            values[n] = np.sqrt(x * x + z * z)
        arc[e] = sum_pairwise(values[: size - 1])
        for n in range(size):
            values[n] = cost[poses[n]]
        shown[e] = sum_pairwise(values[:size])
    return path, arc, shown, lengths, instants


@kernel
def sum_pairwise(values: FloatArray) -> float:
    """Sum by halves, to the last bit that of numpy: rounding grows with the logarithm of the count."""
    begins, sizes, sums = np.zeros(128, dtype=np.int64), np.zeros(128, dtype=np.int64), np.zeros(128)
    sizes[0] = len(values)
    waiting, used = 1, 0
    while waiting > 0:
        waiting -= 1
        begin, size = begins[waiting], sizes[waiting]
        if size < 0:
            # Both halves are summed
            used -= 1
            sums[used - 1] += sums[used]
        elif size > SUM_BLOCK:
            half = size // 2 - (size // 2) % 8
            sizes[waiting] = -1
            begins[waiting + 1], sizes[waiting + 1] = begin + half, size - half
            begins[waiting + 2], sizes[waiting + 2] = begin, half
            waiting += 3
        else:
            # Eight sums side by side, then what is left
            whole, total = size - size % 8, 0.0
            if whole > 0:
                a, b, c, d = values[begin], values[begin + 1], values[begin + 2], values[begin + 3]
                e, f, g, h = values[begin + 4], values[begin + 5], values[begin + 6], values[begin + 7]
                for n in range(begin + 8, begin + whole, 8):
                    a, b, c, d = a + values[n], b + values[n + 1], c + values[n + 2], d + values[n + 3]
                    e, f, g, h = e + values[n + 4], f + values[n + 5], g + values[n + 6], h + values[n + 7]
                total = ((a + b) + (c + d)) + ((e + f) + (g + h))
            for n in range(begin + whole, begin + size):
                total += values[n]
            sums[used] = total
            used += 1
    return sums[0]


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
